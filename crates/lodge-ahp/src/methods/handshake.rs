//! Coming, coming back, listening.

use std::{sync::Arc, time::Duration};

use ahp_types::{
    commands::{AutomationCapabilities, Implementation},
    state::TelemetryCapabilities,
};
use lodge_host::KnownClient;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::{
    Reply, Request,
    sessions::{Meta, environment},
};
use crate::{
    automations,
    conversation::COMMAND_PREFIX,
    relay::{self, Hold},
    rpc::{self, RpcError, RpcResult, code},
    state::{Closing, Conn, NoSubscription, Peer, Resumed},
    telemetry, uri,
    version::{self, Dialect},
};

/// Characters that make clients ask for completions.
const TRIGGERS: [&str; 3] = ["@", "#", "/"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    #[serde(default)]
    protocol_versions: Option<Vec<String>>,
    /// Before versions were text.
    #[serde(default)]
    protocol_version: Option<Value>,
    client_id: String,
    #[serde(default, deserialize_with = "rpc::object")]
    client_info: Option<ClientInfo>,
    #[serde(default)]
    initial_subscriptions: Option<Vec<String>>,
    /// The language that the client would like. It is kept; texts are English so far.
    #[serde(default)]
    locale: Option<String>,
}

#[derive(Deserialize)]
struct ClientInfo {
    #[serde(default)]
    name: Option<String>,
}

/// The version of the protocol. The first had a number.
#[derive(Serialize)]
#[serde(untagged)]
enum Spoken {
    First(u8),
    Named(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: Spoken,
    server_seq: u64,
    snapshots: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_info: Option<Implementation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_directory: Option<String>,
    completion_trigger_characters: [&'static str; 3],
    #[serde(skip_serializing_if = "Option::is_none")]
    terminal_command_prefix: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    telemetry: Option<TelemetryCapabilities>,
    #[serde(skip_serializing_if = "Option::is_none")]
    automations: Option<AutomationCapabilities>,
}

pub(super) async fn initialize(request: &Request<'_>) -> Result<Reply, RpcError> {
    let (face, conn) = (request.face, request.conn);
    if request.peer.is_some() {
        return Err(initialized());
    }
    let params: Initialize = rpc::params(request.params)?;
    let old = params.protocol_versions.is_none() && params.protocol_version == Some(json!(1));
    let offered = params.protocol_versions.unwrap_or_default();
    let chosen = match version::negotiate(&offered) {
        _ if old => "1".to_owned(),
        Ok(Some(version)) => version.to_owned(),
        Ok(None) => {
            let error = version::refusal(&offered, face.host.version());
            let error = RpcError::new(code::UNSUPPORTED_PROTOCOL_VERSION, error);
            let error = error.with(json!({ "supportedVersions": version::SUPPORTED }));
            conn.push(rpc::response(Some(request.id), &Err(error)));
            conn.close(Closing::NoCommonVersion);
            return Ok(Reply::Sent);
        }
        Err(entry) => return Err(RpcError::params(format!("{entry:?} is not a version"))),
    };
    if params.client_id.is_empty() || params.client_id.len() > 256 {
        return Err(RpcError::params("a clientId has 1 to 256 characters"));
    }
    if let Some(locale) = params.locale.as_deref().filter(|locale| !is_language_tag(locale)) {
        let text = format!("{locale:?} is not a language tag (BCP 47), such as \"en-US\"");
        return Err(RpcError::params(text));
    }
    let known = face.host.marks().client(&params.client_id);
    check_client(request, &params.client_id, known.as_ref())?;
    let peer = Peer {
        client: params.client_id.as_str().into(),
        dialect: version::dialect(&chosen),
        version: chosen.clone(),
        name: params.client_info.and_then(|info| info.name).unwrap_or_default(),
    };
    // One that another host let in is remembered there, and comes back there.
    if conn.admission.via().is_none() {
        let device = conn.admission.identity.device();
        let known = KnownClient {
            version: chosen.clone(),
            name: peer.name.clone(),
            device: device.map(str::to_owned),
            locale: params.locale,
        };
        face.host.marks().remember_client(&peer.client, &known);
    }
    face.refresh_agents();
    let wanted = params.initial_subscriptions.unwrap_or_default();
    let relayed = open_all(request, &peer, &wanted).await;
    let mut inner = face.inner.lock();
    if !conn.introduce(peer.clone()) {
        return Err(initialized());
    }
    let core = &mut inner.core;
    let snapshots = wanted
        .iter()
        .filter_map(|uri| core.subscribe(conn, &peer, uri, None).ok().flatten())
        .chain(relayed.snapshots)
        .collect();
    let modern = peer.dialect == Dialect::Modern;
    let result = rpc::ok(Initialized {
        protocol_version: if old { Spoken::First(1) } else { Spoken::Named(chosen) },
        server_seq: core.numbers.last(),
        snapshots,
        server_info: modern.then(|| Implementation {
            name: "lodge".to_owned(),
            version: Some(face.host.version().to_owned()),
            title: Some("Lodge".to_owned()),
        }),
        default_directory: face.config.default_directory.as_ref().map(uri::file),
        completion_trigger_characters: TRIGGERS,
        terminal_command_prefix: modern.then_some(COMMAND_PREFIX),
        telemetry: modern.then(telemetry::capabilities),
        automations: modern.then(automations::capabilities),
    });
    // Queued under the lock: the first action after the snapshots comes after this response.
    conn.push(rpc::response(Some(request.id), &result));
    drop(inner);
    drop(relayed.holds);
    face.telemetry_changed();
    Ok(Reply::Sent)
}

fn initialized() -> RpcError {
    RpcError::new(code::INVALID_REQUEST, "the connection is initialized already")
}

/// Whether a text has the form of a language tag: subtags of letters and digits, the first of letters.
fn is_language_tag(text: &str) -> bool {
    let mut subtags = text.split('-');
    let first = subtags.next().unwrap_or_default();
    (1..=8).contains(&first.len())
        && first.chars().all(|c| c.is_ascii_alphabetic())
        && subtags.all(|tag| (1..=8).contains(&tag.len()) && tag.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// A device may not come as a client of somebody else: it would be asked and told what is meant for that one.
fn check_client(request: &Request<'_>, client: &str, known: Option<&KnownClient>) -> Result<(), RpcError> {
    let device = request.conn.admission.identity.device();
    let Some(device) = device else { return Ok(()) };
    let is_known = known.is_none_or(|known| known.device.as_deref() == Some(device));
    // Those of other hosts are not remembered.
    let is_elsewhere = |other: &Arc<Conn>| {
        let is_it = other.peer().is_some_and(|peer| *peer.client == *client);
        is_it && other.admission.identity.device().is_some_and(|other| other != device)
    };
    if is_known && !request.face.inner.lock().core.conns.values().any(is_elsewhere) {
        return Ok(());
    }
    let text = "this clientId belongs to a client on another device; choose a new one";
    Err(RpcError::new(code::PERMISSION_DENIED, text))
}

/// Opens what somebody is about to subscribe to; what is not there is simply not.
async fn open(request: &Request<'_>, peer: &Peer, uri: &str) {
    let open = request.face.inner.lock().core.is_open(uri, peer.dialect);
    if !open && let Err(error) = request.face.open(uri).await {
        tracing::debug!(uri, %error, "cannot be opened");
    }
}

/// A client's subscriptions to channels of other hosts.
#[derive(Default)]
struct RelayedSubscriptions {
    snapshots: Vec<Box<RawValue>>,
    /// The client receives nothing from these channels until these are dropped.
    holds: Vec<Hold>,
}

/// Opens the channels that a client subscribes to when it connects, here or on the hosts that own them.
async fn open_all(request: &Request<'_>, peer: &Peer, uris: &[String]) -> RelayedSubscriptions {
    let mut relayed = RelayedSubscriptions::default();
    for uri in uris.iter().take(request.face.config.limits.subscriptions) {
        match relay::listen(request.face, request.conn, peer, uri).await {
            Some((snapshot, hold)) => {
                relayed.snapshots.extend(snapshot);
                relayed.holds.push(hold);
            }
            None => open(request, peer, uri).await,
        }
    }
    relayed
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reconnect {
    client_id: String,
    last_seen_server_seq: serde_json::Number,
    #[serde(deserialize_with = "rpc::list")]
    subscriptions: Vec<String>,
}

pub(super) async fn reconnect(request: &Request<'_>) -> Result<Reply, RpcError> {
    let (face, conn) = (request.face, request.conn);
    if request.peer.is_some() {
        return Err(initialized());
    }
    let params: Reconnect = rpc::params(request.params)?;
    let known = face.host.marks().client(&params.client_id);
    let known = known.ok_or_else(|| RpcError::new(code::NOT_FOUND, "unknown client; send initialize"))?;
    check_client(request, &params.client_id, Some(&known))?;
    let peer = Peer {
        client: params.client_id.as_str().into(),
        dialect: version::dialect(&known.version),
        version: known.version,
        name: known.name,
    };
    let mut seen = params.last_seen_server_seq.as_f64().unwrap_or_default().max(0.0) as u64;
    let subscriptions = params.subscriptions;
    let relayed = open_all(request, &peer, &subscriptions).await;
    if !relayed.holds.is_empty() {
        // What happened on other hosts cannot be replayed, and the answer is one or the other.
        seen = u64::MAX;
    }
    let windows = face.windows.lock().get(&peer.client).cloned().unwrap_or_default();
    let mut inner = face.inner.lock();
    // A connection that broke without the host noticing still knows more than what was remembered at the last parting.
    let mut starts = windows;
    for old in inner.core.conns.values().filter(|other| is_same(other, conn, &peer)) {
        starts.extend(inner.core.starts(old.id));
    }
    if !conn.introduce(peer.clone()) {
        return Err(initialized());
    }
    let resumed = inner
        .core
        .resume(conn, &peer, seen, &subscriptions, &|uri| starts.get(uri).copied());
    let result = match resumed {
        Resumed::Replay { actions, missing } => rpc::ok(ReplayResult {
            r#type: "replay",
            actions,
            missing,
        }),
        Resumed::Snapshots(mut snapshots) => {
            snapshots.extend(relayed.snapshots);
            rpc::ok(SnapshotResult {
                r#type: "snapshot",
                snapshots,
            })
        }
    };
    conn.push(rpc::response(Some(request.id), &result));
    drop(inner);
    drop(relayed.holds);
    let (told, teller) = (conn.clone(), face.clone());
    face.tasks.spawn(async move { teller.tell_recent(&told).await });
    face.listeners_changed();
    // Where it was active and does not listen any more, it is not active any more.
    let sessions: Vec<_> = face.inner.lock().core.sessions.keys().cloned().collect();
    for session in sessions {
        face.client_left(&session, &peer.client);
    }
    Ok(Reply::Sent)
}

#[derive(Serialize)]
struct ReplayResult {
    r#type: &'static str,
    actions: Vec<Box<RawValue>>,
    missing: Vec<String>,
}

#[derive(Serialize)]
struct SnapshotResult {
    r#type: &'static str,
    snapshots: Vec<Box<RawValue>>,
}

fn is_same(other: &Conn, this: &Conn, peer: &Peer) -> bool {
    other.id != this.id && other.peer().is_some_and(|known| known.client == peer.client)
}

pub(super) async fn ping(_: &Request<'_>) -> RpcResult {
    rpc::null()
}

#[derive(Deserialize)]
struct Subscribe {
    #[serde(default)]
    channel: Option<String>,
    /// The seed's word for it.
    #[serde(default)]
    resource: Option<String>,
    #[serde(default, deserialize_with = "rpc::object")]
    view: Option<View>,
    #[serde(rename = "_meta", default, deserialize_with = "rpc::object")]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct View {
    #[serde(default)]
    turns: Option<rpc::Whole>,
}

pub(super) async fn subscribe(request: &Request<'_>) -> Result<Reply, RpcError> {
    let peer = request.peer()?;
    let params: Subscribe = rpc::params(request.params)?;
    let (thing, named) = match request.is_seed() {
        true => ("resource", params.resource.or(params.channel)),
        false => ("channel", params.channel),
    };
    let uri = named.ok_or_else(|| RpcError::params(format!("no {thing} is named")))?;
    let turns = params.view.and_then(|view| view.turns);
    let turns = turns.map(|turns| usize::try_from(turns.0).unwrap_or(usize::MAX));
    if let Some(environment) = environment(request, params.meta)?
        && let Some((_, id)) = request.face.locate(&uri).await
    {
        let alone = nobody_has(request, &uri, &id);
        if let Err(error) = request.face.host.bring_environment(&id, environment, alone).await {
            tracing::warn!(session = id, %error, "a session does not get the environment that a client brought");
        }
    }
    open(request, peer, &uri).await;
    let mut inner = request.face.inner.lock();
    let subscribed = inner.core.subscribe(request.conn, peer, &uri, turns);
    let snapshot = subscribed.map_err(|why| match why {
        NoSubscription::Unknown => RpcError::new(code::SESSION_NOT_FOUND, format!("there is no {thing} {uri}")),
        NoSubscription::TooMany => RpcError::new(code::TOO_BUSY, "too many subscriptions"),
    })?;
    let answer = rpc::ok(Subscribed { snapshot });
    request.conn.push(rpc::response(Some(request.id), &answer));
    drop(inner);
    request.face.listeners_changed();
    Ok(Reply::Sent)
}

/// Whether nobody has a session open, over this face or another.
fn nobody_has(request: &Request<'_>, uri: &str, id: &str) -> bool {
    let face = request.face;
    let inner = face.inner.lock();
    let own = inner
        .conversations
        .values()
        .filter(|talk| talk.host_id == id && talk.agent().is_some());
    let others = face
        .host
        .live(id)
        .is_some_and(|session| session.clients() > own.count());
    !inner.core.has_audience(uri) && !others
}

#[derive(Serialize)]
struct Subscribed {
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Authenticate {
    resource: String,
    /// Nothing takes it back.
    token: String,
    /// What the token reaches to, where the client knows.
    #[serde(default)]
    scopes: Option<Vec<String>>,
    /// Seconds for which the token is good.
    #[serde(default)]
    expires_in: Option<rpc::Whole>,
}

/// What clients of editors show a token for before anybody asked.
const UNASKED: &str = "https://api.github.com";

/// The host's agent needs no token of a client: its models' keys are the host's. MCP servers may want one. What clients show
/// unasked is taken and forgotten at once, so that they go on.
pub(super) async fn authenticate(request: &Request<'_>) -> RpcResult {
    let params: Authenticate = rpc::params(request.params)?;
    if params.resource.trim_end_matches('/') == UNASKED {
        return rpc::empty();
    }
    let good_for = match params.expires_in.filter(|_| !params.token.is_empty()) {
        Some(rpc::Whole(seconds)) if seconds > 0 => Some(Duration::from_secs(seconds)),
        Some(_) => return Err(RpcError::params("expiresIn must be a number of seconds")),
        None => None,
    };
    request
        .face
        .authenticate(&params.resource, &params.token, params.scopes.as_deref(), good_for)
        .await?;
    rpc::empty()
}
