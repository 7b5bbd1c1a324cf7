//! Watching files.

use ahp_types::{commands::CreateResourceWatchResult, state::ResourceWatchState};
use lodge_files::{Files, Filter};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Request,
    resources::{About, run},
};
use crate::{
    rpc::{self, RpcError, RpcResult, code},
    watch::{Granted, patterns},
};

#[derive(Deserialize)]
struct Create {
    uri: String,
    #[serde(default)]
    recursive: Option<bool>,
    #[serde(default)]
    excludes: Option<Value>,
    #[serde(default)]
    includes: Option<Value>,
}

pub(super) async fn create(request: &Request<'_>) -> RpcResult {
    let face = request.face;
    let params: Create = rpc::params(request.params)?;
    let about = About::read(&params.uri);
    let path = about.path(request)?;
    let state = ResourceWatchState {
        root: params.uri.clone(),
        recursive: params.recursive == Some(true),
        excludes: params.excludes,
        includes: params.includes,
    };
    let list = |value: &Option<Value>| value.as_ref().map(patterns).transpose().map_err(RpcError::params);
    let (excludes, includes) = (list(&state.excludes)?, list(&state.includes)?);
    let filter = Filter::new(state.recursive, excludes.as_deref(), includes.as_deref());
    let filter = filter.map_err(RpcError::params)?;
    if face.watches() >= face.config.limits.watches {
        return Err(RpcError::new(code::TOO_BUSY, "there are too many watches already"));
    }
    let client = request.peer()?.client.to_string();
    let watch = move |files: &Files| {
        let tree = files.watch(&path, filter)?;
        let granted = files.is_only_granted(&path).then_some(Granted { client, path });
        Ok((tree, granted))
    };
    let (tree, granted) = run(request, about, watch).await?;
    let channel = face.open_watch(state, tree, granted).map_err(RpcError::internal)?;
    rpc::ok(CreateResourceWatchResult {
        channel: channel.to_string(),
    })
}
