//! Making and removing terminals.

use std::path::PathBuf;

use ahp_types::state::TerminalClaim;
use serde::Deserialize;
use serde_json::Value;

use super::Request;
use crate::{
    rpc::{self, RpcError, RpcResult, code},
    state::Uri,
    terminals::{self, Wanted},
    uri,
};

#[derive(Deserialize)]
struct Create {
    #[serde(default)]
    channel: Option<String>,
    /// The seed's word for it.
    #[serde(default)]
    terminal: Option<String>,
    claim: Value,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    cols: Option<rpc::Whole>,
    #[serde(default)]
    rows: Option<rpc::Whole>,
}

pub(super) async fn create(request: &Request<'_>) -> RpcResult {
    let face = request.face;
    let params: Create = rpc::params(request.params)?;
    let named = named(request, params.channel, params.terminal)?;
    if let Some(name) = &params.name
        && (name.chars().count() > terminals::MAX_TITLE || name.chars().any(char::is_control))
    {
        return Err(RpcError::params("the name of a terminal is a short line"));
    }
    let size = match (params.cols, params.rows) {
        (None, None) => None,
        (cols, rows) => {
            let number = |given: Option<rpc::Whole>, usual: i64| {
                given.map_or(usual, |given| i64::try_from(given.0).unwrap_or(i64::MAX))
            };
            Some(terminals::size(number(cols, 80), number(rows, 24)).map_err(refused)?)
        }
    };
    let gate = face.gate(&named);
    let _one = gate.lock().await;
    let taken = face.inner.lock().core.has_channel(&named);
    if taken || face.locate(&named).await.is_some() {
        return Err(RpcError::new(
            code::ALREADY_EXISTS,
            format!("{named} is already in use"),
        ));
    }
    let claim = claim(request, params.claim).await?;
    let cwd = match &params.cwd {
        Some(cwd) => directory(cwd).await?,
        None => starting_directory(request, &claim).await,
    };
    let wanted = Wanted {
        uri: named,
        claim,
        name: params.name.filter(|name| !name.is_empty()),
        cwd,
        size,
    };
    face.open_terminal(wanted).await?;
    rpc::null()
}

#[derive(Deserialize)]
struct Dispose {
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    terminal: Option<String>,
}

pub(super) async fn dispose(request: &Request<'_>) -> RpcResult {
    let params: Dispose = rpc::params(request.params)?;
    let named = named(request, params.channel, params.terminal)?;
    let gate = request.face.gate(&named);
    let _one = gate.lock().await;
    if request.face.inner.lock().is_agents_terminal(&named) {
        return Err(RpcError::new(
            code::PERMISSION_DENIED,
            "this is the output of the agent's tool; stop the turn to stop it",
        ));
    }
    if !request.face.close_terminal(&named) {
        return Err(RpcError::new(code::NOT_FOUND, format!("there is no terminal {named}")));
    }
    rpc::null()
}

fn named(request: &Request<'_>, channel: Option<String>, terminal: Option<String>) -> Result<Uri, RpcError> {
    let named = if request.is_seed() { terminal } else { channel };
    super::sessions::own_uri(named, "terminal", Some("ahp-terminal"))
}

/// Who is to hold it: the client that asks, or a session that is there.
async fn claim(request: &Request<'_>, mut claim: Value) -> Result<TerminalClaim, RpcError> {
    if request.is_seed()
        && let Some(session) = claim.get("session").and_then(Value::as_str).map(uri::default_chat)
    {
        claim["chat"] = session.into();
    }
    let claim: TerminalClaim = serde_json::from_value(claim)
        .map_err(|_| RpcError::params("a terminal is claimed by a client or a session"))?;
    match &claim {
        TerminalClaim::Client(claim) if claim.client_id != *request.peer()?.client => {
            return Err(RpcError::params(
                "claim.clientId is not the clientId of this connection",
            ));
        }
        TerminalClaim::Session(claim) if request.face.open(&claim.session).await.is_err() => {
            return Err(RpcError::new(
                code::SESSION_NOT_FOUND,
                format!("there is no session {}", claim.session),
            ));
        }
        _ => {}
    }
    terminals::may_hold(&request.face.inner.lock(), &claim).map_err(refused)?;
    Ok(claim)
}

fn refused(refusal: terminals::TerminalRefusal) -> RpcError {
    RpcError::params(refusal.to_string())
}

async fn directory(cwd: &str) -> Result<PathBuf, RpcError> {
    let path = uri::path(cwd).ok_or_else(|| RpcError::params("cwd is not a file URI of this host"))?;
    match lodge_files::is_directory(path.clone()).await {
        Ok(true) => Ok(path),
        Ok(false) => Err(RpcError::params("cwd is not a directory")),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(RpcError::new(code::PERMISSION_DENIED, "cwd cannot be entered"))
        }
        Err(_) => Err(RpcError::new(code::NOT_FOUND, "there is no such directory")),
    }
}

/// Where a terminal starts when nobody says: where its session works, or where folder pickers start.
async fn starting_directory(request: &Request<'_>, claim: &TerminalClaim) -> PathBuf {
    let of_session = match claim {
        TerminalClaim::Session(claim) => {
            let inner = request.face.inner.lock();
            let entry = inner.core.sessions.get(claim.session.as_str());
            let first = entry.and_then(|entry| entry.state.working_directories.as_ref()?.first().cloned());
            first.and_then(|directory| uri::path(&directory))
        }
        _ => None,
    };
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let places = of_session
        .into_iter()
        .chain(request.face.config.default_directory.clone())
        .chain(home());
    for place in places {
        if lodge_files::is_directory(place.clone()).await.is_ok_and(|is| is) {
            return place;
        }
    }
    "/".into()
}
