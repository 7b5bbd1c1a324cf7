//! Resources that clients own: `virtual://<clientId>/…`. Whoever asks for one is answered by its owner, through the host.

use serde_json::{Value, value::RawValue};

use super::{Method, Request};
use crate::{
    face::Face,
    rpc::{RpcError, RpcResult, code},
    version::Dialect,
};

const SCHEME: &str = "virtual://";

/// The client that owns a resource.
fn owner(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix(SCHEME)?;
    let name = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    // Percent signs as in any address; the path of a file has the same rules.
    crate::uri::path(&format!("file:///{name}"))?
        .to_str()?
        .strip_prefix('/')
        .map(str::to_owned)
}

/// What the owner of the resource says, when the request is about a resource of a client.
pub(super) async fn forward(method: &Method, request: &Request<'_>) -> Option<RpcResult> {
    // Files of the host are by far the most; they need no second reading.
    if !method.name.starts_with("resource") || !request.params?.get().contains(SCHEME) {
        return None;
    }
    let params: Value = serde_json::from_str(request.params?.get()).ok()?;
    let named = ["uri", "source", "destination"]
        .iter()
        .filter_map(|key| params.get(*key)?.as_str());
    let owners: Vec<Option<String>> = named.map(owner).collect();
    let first = owners.iter().flatten().next()?.clone();
    if owners.iter().any(|owner| owner.as_ref() != Some(&first)) {
        let error = RpcError::params("what one client owns cannot be copied or moved to another place");
        return Some(Err(error));
    }
    Some(ask(method, request, &first).await)
}

async fn ask(method: &Method, request: &Request<'_>, owner: &str) -> RpcResult {
    let params = request.params.map_or("{}", RawValue::get);
    call_client(request.face, owner, method.name, params).await
}

/// Asks a client for something.
pub(crate) async fn call_client(face: &Face, owner: &str, method: &str, params: &str) -> RpcResult {
    let found = {
        let inner = face.inner.lock();
        let conns = inner.core.conns.values();
        let own = conns.filter_map(|conn| {
            let peer = conn.peer().filter(|peer| *peer.client == *owner)?;
            // The seed's dialect asks clients for nothing but access.
            let fits = peer.dialect == Dialect::Modern || method == "resourceRequest";
            Some((fits, conn.clone()))
        });
        own.max_by_key(|(fits, _)| *fits)
    };
    let conn = match found {
        Some((true, conn)) => conn,
        other => {
            let why = match other {
                Some(_) => "cannot be asked: its AHP version has no requests for contents",
                None => "is not here",
            };
            return Err(RpcError::new(code::NOT_FOUND, format!("the client {owner:?} {why}")));
        }
    };
    // Only a person grants access, and a person may be slow.
    let patience = match method {
        "resourceRequest" => face.config.limits.person_answer,
        _ => face.config.limits.client_answer,
    };
    conn.call(method, params, patience).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_owner() {
        for (uri, expected) in [
            ("virtual://me/a/b", Some("me")),
            ("virtual://me", Some("me")),
            ("virtual://a%2Fb%20c/x", Some("a/b c")),
            ("virtual:///x", Some("")),
            ("file:///me", None),
        ] {
            assert_eq!(owner(uri).as_deref(), expected, "{uri}");
        }
    }
}
