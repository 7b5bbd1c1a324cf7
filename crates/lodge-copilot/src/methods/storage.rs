//! Session files stored by the client.

use serde_json::{Value, json};

use super::{Capability, method};
use crate::{connection::Ctx, rpc::RpcError, storage::Provider};

pub(crate) static STORAGE: Capability = Capability {
    title: "Session files stored by the client",
    methods: &[method!(
        "sessionFs.setProvider",
        8,
        "stores the files of sessions with the client from now on",
        set_provider
    )],
};

/// Open sessions already have their files here.
async fn set_provider(ctx: Ctx, provider: Provider) -> Result<Value, RpcError> {
    if ctx.host.live_count() > 0 {
        return Err(RpcError::failed(
            "Cannot set the session filesystem provider when sessions already exist",
        ));
    }
    ctx.keep_files(provider);
    Ok(json!({"success": true}))
}
