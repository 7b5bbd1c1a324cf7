//! Extensions: programs that join a session as its clients. This host starts none, and answers in the form that clients
//! understand.

use std::sync::Arc;

use serde::Serialize;

use super::{Capability, Nothing, method};
use crate::{rpc::RpcError, session::Attached};

pub(crate) static EXTENSIONS: Capability = Capability {
    title: "Extensions",
    methods: &[
        method!(session "session.extensions.list", 1, "none: Lodge starts no extensions", list),
        method!(session "session.extensions.enable", 1, "always refused: there are no extensions", unavailable),
        method!(session "session.extensions.disable", 1, "always refused: there are no extensions", unavailable),
        method!(session "session.extensions.reload", 1, "always refused: there are no extensions", unavailable),
        method!(
            session "session.extensions.sendAttachmentsToMessage",
            1,
            "always refused: the client is not an extension",
            no_extension
        ),
    ],
};

#[derive(Serialize)]
struct Extensions {
    extensions: [(); 0],
}

async fn list(_: Arc<Attached>, _: Nothing) -> Result<Extensions, RpcError> {
    Ok(Extensions { extensions: [] })
}

async fn unavailable(_: Arc<Attached>, _: Nothing) -> Result<(), RpcError> {
    Err(RpcError::failed(
        "Extensions not available: this host starts none. Use plugins, MCP servers, or tools of your app instead",
    ))
}

async fn no_extension(_: Arc<Attached>, _: Nothing) -> Result<(), RpcError> {
    Err(RpcError::failed(
        "session.extensions.sendAttachmentsToMessage is for extensions only, and this client is not one. Send \
         attachments with session.send instead",
    ))
}
