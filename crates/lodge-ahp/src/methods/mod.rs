//! What clients can ask for. One table says it all: the name, in which dialects it is served, whether it must wait its
//! turn, and who does it. What is not in the table is `-32601`. The list in `docs/ahp.md` is checked against it.

mod automations;
mod changesets;
mod chats;
mod configuration;
mod handshake;
mod listing;
mod moving;
mod resources;
mod reverse;
mod sessions;
mod terminals;
mod watches;

pub(crate) use reverse::call_client;
pub(crate) use sessions::{NewSession, Template, host_error, prepare, session_settings};

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;

use crate::{
    face::Face,
    rpc::{RpcError, RpcResult},
    state::{Conn, Peer},
    version::Dialect,
};

/// In which dialects a method is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// 1.0.0, 0.9.0 and 0.1.0.
    Everywhere,
    /// 1.0.0 and 0.9.0.
    Modern,
}

/// Whether a request waits for those before it on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// It does: what it does must be seen by what comes after it.
    InTurn,
    /// It runs beside them.
    Beside,
}

/// One method.
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// Where it is served.
    pub served: Served,
    /// When it runs.
    pub order: Order,
    run: Run,
}

type Run = for<'a> fn(&'a Request<'a>) -> BoxFuture<'a, Reply>;

/// What becomes of a request.
pub(crate) enum Reply {
    /// To be sent.
    Result(RpcResult),
    /// Sent already, together with a change of what the connection hears.
    Sent,
}

impl From<RpcResult> for Reply {
    fn from(result: RpcResult) -> Self {
        Self::Result(result)
    }
}

impl From<RpcError> for Reply {
    fn from(error: RpcError) -> Self {
        Self::Result(Err(error))
    }
}

/// A request on its way.
pub(crate) struct Request<'a> {
    pub(crate) face: &'a Arc<Face>,
    pub(crate) conn: &'a Arc<Conn>,
    pub(crate) peer: Option<Peer>,
    pub(crate) id: &'a RawValue,
    pub(crate) params: Option<&'a RawValue>,
}

impl Request<'_> {
    /// Who asks. Known to all methods but those of the handshake, which come before it.
    fn peer(&self) -> Result<&Peer, RpcError> {
        self.peer
            .as_ref()
            .ok_or_else(|| RpcError::new(crate::rpc::code::INVALID_REQUEST, "say initialize first"))
    }

    fn is_seed(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.dialect == Dialect::Seed)
    }
}

macro_rules! methods {
    ($($name:literal $served:ident $order:ident $run:path,)*) => {
        /// Every method that is served.
        pub static METHODS: &[Method] = &[$(Method {
            name: $name,
            served: Served::$served,
            order: Order::$order,
            run: |request| Box::pin(async move { Reply::from($run(request).await) }),
        },)*];
    };
}

methods! {
    "initialize" Everywhere InTurn handshake::initialize,
    "reconnect" Everywhere InTurn handshake::reconnect,
    "ping" Everywhere Beside handshake::ping,
    "subscribe" Everywhere InTurn handshake::subscribe,
    "authenticate" Everywhere Beside handshake::authenticate,
    "createSession" Everywhere InTurn sessions::create,
    "disposeSession" Everywhere InTurn sessions::dispose,
    "listSessions" Everywhere InTurn listing::list,
    "createChat" Modern InTurn chats::create,
    "disposeChat" Modern InTurn chats::dispose,
    "moveChat" Modern InTurn moving::move_chat,
    "invokeChangesetOperation" Modern Beside changesets::invoke,
    "fetchTurns" Everywhere InTurn chats::fetch_turns,
    "completions" Everywhere Beside configuration::completions,
    "resolveSessionConfig" Everywhere Beside configuration::resolve,
    "sessionConfigCompletions" Everywhere Beside configuration::config_completions,
    "createTerminal" Everywhere InTurn terminals::create,
    "disposeTerminal" Everywhere InTurn terminals::dispose,
    "resourceRead" Everywhere Beside resources::read,
    "resourceWrite" Everywhere InTurn resources::write,
    "resourceList" Everywhere Beside resources::list,
    "resourceCopy" Everywhere InTurn resources::copy,
    "resourceDelete" Everywhere InTurn resources::delete,
    "resourceMove" Everywhere InTurn resources::rename,
    "resourceResolve" Modern Beside resources::resolve,
    "resourceMkdir" Modern InTurn resources::mkdir,
    "resourceRequest" Everywhere Beside resources::request,
    "createResourceWatch" Modern InTurn watches::create,
    "listAutomationTriggerDefinitions" Modern Beside automations::list_triggers,
    "runAutomation" Modern InTurn automations::run,
    "fetchAutomationRuns" Modern InTurn automations::fetch_runs,
}

/// The method of this name, where this client may call it.
pub(crate) fn find(name: &str, peer: Option<&Peer>) -> Option<&'static Method> {
    let method = METHODS.iter().find(|method| method.name == name)?;
    match peer {
        None => matches!(name, "initialize" | "reconnect" | "ping").then_some(method),
        Some(peer) => (method.served == Served::Everywhere || peer.dialect == Dialect::Modern).then_some(method),
    }
}

/// Runs it.
pub(crate) async fn call(method: &Method, request: &Request<'_>) -> Reply {
    match reverse::forward(method, request).await {
        Some(result) => result.into(),
        None => (method.run)(request).await,
    }
}
