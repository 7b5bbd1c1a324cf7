//! Whether a browser is told by web push what becomes of sessions: methods of Lodge's own, for paired devices.

use lodge_door::Role;
use lodge_host::PushSubscription;
use lodge_http::PushError;
use serde::Serialize;

use super::Request;
use crate::rpc::{self, RpcError, RpcResult, code};

#[derive(Serialize)]
struct Key {
    key: String,
}

fn failed(error: PushError) -> RpcError {
    match error {
        PushError::Insecure | PushError::Unreadable(_) => RpcError::params(error.to_string()),
        PushError::Key | PushError::Storage(_) => RpcError::failed(error),
    }
}

/// The device that asks. The owner's programs have no push service.
fn device<'a>(request: &'a Request<'_>) -> Result<&'a str, RpcError> {
    let device = request.conn.admission.identity.device();
    device.ok_or_else(|| RpcError::new(code::PERMISSION_DENIED, "only paired devices can use web push"))
}

pub(super) async fn key(request: &Request<'_>) -> RpcResult {
    let key = request.face.push.public_key().map_err(failed)?;
    rpc::ok(Key { key })
}

pub(super) async fn subscribe(request: &Request<'_>) -> RpcResult {
    let wanted: PushSubscription = rpc::params(request.params)?;
    let trusted = request.conn.admission.role() >= Role::Full;
    let made = request.face.push.subscribe(device(request)?, wanted, trusted);
    made.map_err(failed)?;
    rpc::null()
}

pub(super) async fn unsubscribe(request: &Request<'_>) -> RpcResult {
    request.face.push.unsubscribe(device(request)?).map_err(failed)?;
    rpc::null()
}
