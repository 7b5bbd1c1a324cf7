//! Extensions: programs that join a session as its clients. They are started for apps that ask for them.

use std::sync::Arc;

use lodge_events::ExtensionInfo;
use serde::{Deserialize, Serialize};

use super::{Capability, Nothing, method};
use crate::{extensions::Extensions, rpc::RpcError, session::Attached};

pub(crate) static EXTENSIONS: Capability = Capability {
    title: "Extensions",
    methods: &[
        method!(session "session.extensions.list", 1, "the extensions of a session whose app asks for them", list),
        method!(session "session.extensions.enable", 1, "turns an extension on", enable),
        method!(session "session.extensions.disable", 1, "turns an extension off", disable),
        method!(session "session.extensions.reload", 1, "starts the extensions anew", reload),
        method!(
            session "session.extensions.sendAttachmentsToMessage",
            1,
            "always refused: attachments go with `session.send`",
            no_attachments
        ),
    ],
};

#[derive(Serialize)]
struct Listed {
    extensions: Vec<Extension>,
}

#[derive(Serialize)]
struct Extension {
    #[serde(flatten)]
    info: ExtensionInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
}

async fn list(session: Arc<Attached>, _: Nothing) -> Result<Listed, RpcError> {
    let extensions = session.board().extensions();
    let listed = extensions.map(|extensions| extensions.list()).unwrap_or_default();
    Ok(Listed {
        extensions: listed.into_iter().map(|(info, pid)| Extension { info, pid }).collect(),
    })
}

/// The session's extensions, where an app asks for them.
fn of(session: &Attached) -> Result<Arc<Extensions>, RpcError> {
    session.board().extensions().ok_or_else(|| {
        RpcError::failed(
            "Extensions not available: no app asked for them when it opened the session, with requestExtensions",
        )
    })
}

#[derive(Debug, Deserialize)]
struct Id {
    id: String,
}

async fn enable(session: Arc<Attached>, Id { id }: Id) -> Result<(), RpcError> {
    of(&session)?.enable(&id, true).await
}

async fn disable(session: Arc<Attached>, Id { id }: Id) -> Result<(), RpcError> {
    of(&session)?.enable(&id, false).await
}

async fn reload(session: Arc<Attached>, _: Nothing) -> Result<(), RpcError> {
    of(&session)?.reload().await;
    Ok(())
}

async fn no_attachments(_: Arc<Attached>, _: Nothing) -> Result<(), RpcError> {
    Err(RpcError::failed(
        "session.extensions.sendAttachmentsToMessage is for extensions only, and Lodge shows no attachments that they push. \
         Send attachments with session.send instead",
    ))
}
