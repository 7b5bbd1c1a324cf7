//! Pairing devices and revoking them: Lodge's own methods, for the owner alone.

use jiff::Timestamp;
use lodge_door::{Device, PairError, Role};
use serde::{Deserialize, Serialize};

use super::Request;
use crate::rpc::{self, RpcError, RpcResult, code};

#[derive(Deserialize)]
struct CreateTicket {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ticket {
    ticket: String,
    role: Role,
    expires_at: Timestamp,
}

pub(super) async fn create_ticket(request: &Request<'_>) -> RpcResult {
    let params: CreateTicket = rpc::params(request.params)?;
    let role = match params.role {
        Some(role) => role.parse().map_err(RpcError::params)?,
        None => Role::Full,
    };
    let ticket = request.face.config.door.ticket(role, params.name);
    let ticket = ticket.map_err(|error: PairError| RpcError::params(error.to_string()))?;
    rpc::ok(Ticket {
        ticket: ticket.text,
        role,
        expires_at: ticket.expires,
    })
}

#[derive(Serialize)]
struct Devices {
    devices: Vec<Device>,
}

pub(super) async fn list(request: &Request<'_>) -> RpcResult {
    let devices = request.face.config.door.devices();
    rpc::ok(Devices { devices })
}

#[derive(Deserialize)]
struct Revoke {
    id: String,
}

pub(super) async fn revoke(request: &Request<'_>) -> RpcResult {
    let params: Revoke = rpc::params(request.params)?;
    match request.face.config.door.revoke_beside(params.id.clone()).await {
        Ok(true) => rpc::null(),
        Ok(false) => Err(RpcError::new(
            code::NOT_FOUND,
            format!("there is no device {:?}", params.id),
        )),
        Err(error) => Err(RpcError::failed(format!(
            "the device is revoked until the host restarts, but this cannot be saved: {error}"
        ))),
    }
}
