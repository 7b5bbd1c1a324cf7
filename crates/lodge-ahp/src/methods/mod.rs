//! What clients can ask for. One table says it all: the name, in which dialects it is served, whether it must wait its
//! turn, the role it needs, and who does it. What is not in the table is `-32601`. The list in `docs/ahp.md` is checked against it.

mod automations;
mod changesets;
mod chats;
mod completions;
mod configuration;
mod devices;
mod handshake;
mod listing;
mod moving;
mod push;
mod resources;
mod reverse;
mod search;
mod sessions;
mod terminals;
mod watches;
mod work;

pub(crate) use listing::Chats;
pub(crate) use reverse::call_client;
pub(crate) use sessions::{NewSession, Template, Wanted, host_error, prepare, session_settings};

use std::sync::Arc;

use futures_util::future::BoxFuture;
use lodge_door::Role;
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
    /// What whoever calls it must be, at least.
    pub role: Role,
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

impl From<Result<Self, RpcError>> for Reply {
    fn from(done: Result<Self, RpcError>) -> Self {
        done.unwrap_or_else(|error| Self::Result(Err(error)))
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
            .ok_or_else(|| RpcError::new(crate::rpc::code::INVALID_REQUEST, "send initialize first"))
    }

    fn is_seed(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.dialect == Dialect::Seed)
    }
}

macro_rules! methods {
    ($($name:literal $served:ident $order:ident $role:ident $run:path,)*) => {
        /// Every method that is served.
        pub static METHODS: &[Method] = &[$(Method {
            name: $name,
            served: Served::$served,
            order: Order::$order,
            role: Role::$role,
            run: |request| Box::pin(async move { Reply::from($run(request).await) }),
        },)*];
    };
}

methods! {
    "initialize" Everywhere InTurn View handshake::initialize,
    "reconnect" Everywhere InTurn View handshake::reconnect,
    "ping" Everywhere Beside View handshake::ping,
    "subscribe" Everywhere InTurn View handshake::subscribe,
    "authenticate" Everywhere Beside Full handshake::authenticate,
    "createSession" Everywhere InTurn Full sessions::create,
    "disposeSession" Everywhere InTurn Full sessions::dispose,
    "listSessions" Everywhere InTurn View listing::list,
    "createChat" Modern InTurn Full chats::create,
    "disposeChat" Modern InTurn Full chats::dispose,
    "moveChat" Modern InTurn Full moving::move_chat,
    "invokeChangesetOperation" Modern Beside Full changesets::invoke,
    "fetchTurns" Everywhere InTurn View chats::fetch_turns,
    "completions" Everywhere Beside Full completions::completions,
    "resolveSessionConfig" Everywhere Beside Full configuration::resolve,
    "sessionConfigCompletions" Everywhere Beside Full configuration::config_completions,
    "createTerminal" Everywhere InTurn Full terminals::create,
    "disposeTerminal" Everywhere InTurn Full terminals::dispose,
    "resourceRead" Everywhere Beside View resources::read,
    "resourceWrite" Everywhere InTurn Full resources::write,
    "resourceList" Everywhere Beside View resources::list,
    "resourceCopy" Everywhere InTurn Full resources::copy,
    "resourceDelete" Everywhere InTurn Full resources::delete,
    "resourceMove" Everywhere InTurn Full resources::rename,
    "resourceResolve" Modern Beside View resources::resolve,
    "resourceMkdir" Modern InTurn Full resources::mkdir,
    "resourceRequest" Everywhere Beside Full resources::request,
    "createResourceWatch" Modern InTurn View watches::create,
    "listAutomationTriggerDefinitions" Modern Beside View automations::list_triggers,
    "runAutomation" Modern InTurn Full automations::run,
    "fetchAutomationRuns" Modern InTurn View automations::fetch_runs,
    "lodge/createTicket" Modern InTurn Owner devices::create_ticket,
    "lodge/listDevices" Modern InTurn Owner devices::list,
    "lodge/revokeDevice" Modern InTurn Owner devices::revoke,
    "lodge/search" Modern Beside View search::search,
    "lodge/todos" Modern Beside View work::todos,
    "lodge/signIn" Modern Beside Full work::sign_in,
    "lodge/stopWork" Modern Beside Full work::stop,
    "lodge/workOutput" Modern Beside Full work::output,
    "lodge/pushKey" Modern Beside View push::key,
    "lodge/pushSubscribe" Modern Beside View push::subscribe,
    "lodge/pushUnsubscribe" Modern Beside View push::unsubscribe,
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
    if let Err(why) = request.conn.admission.check(method.role) {
        return Reply::Result(Err(RpcError::new(crate::rpc::code::PERMISSION_DENIED, why)));
    }
    match reverse::forward(method, request).await {
        Some(result) => result.into(),
        None => (method.run)(request).await,
    }
}
