//! What clients do about changes.

use ahp_types::commands::{ChangesetOperationTarget, InvokeChangesetOperationResult};
use serde::Deserialize;

use super::Request;
use crate::{
    changesets,
    rpc::{self, RpcResult},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invoke {
    channel: String,
    operation_id: String,
    #[serde(default)]
    target: Option<ChangesetOperationTarget>,
}

pub(super) async fn invoke(request: &Request<'_>) -> RpcResult {
    let params: Invoke = rpc::params(request.params)?;
    let said = changesets::invoke(
        request.face,
        &params.channel,
        &params.operation_id,
        params.target.as_ref(),
    )
    .await?;
    rpc::ok(InvokeChangesetOperationResult {
        message: Some(said),
        follow_up: None,
    })
}
