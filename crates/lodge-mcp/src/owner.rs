//! The owner of a set of servers: receives their notifications and answers their requests.

use std::path::PathBuf;

use futures_util::future::{BoxFuture, ready};
use serde_json::Value;

use crate::{ServerInfo, credentials::AuthRequest};

/// Lists of a server that may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Its tools.
    Tools,
    /// Its resources.
    Resources,
    /// Its prompts.
    Prompts,
}

/// A form that a server asks somebody to fill in, or a page that it asks somebody to visit.
#[derive(Debug, Clone)]
pub struct Elicitation {
    /// The tool call it belongs to, where there is only one it can belong to.
    pub call_id: Option<String>,
    /// What it is about.
    pub message: String,
    /// JSON schema of the form.
    pub schema: Option<Value>,
    /// The page; what is done there is between the person and the server.
    pub url: Option<String>,
}

/// How the form was answered.
#[derive(Debug, Clone)]
pub struct ElicitationAnswer {
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    /// The values, when accepted.
    pub content: Option<Value>,
}

/// A sampling request of a server.
#[derive(Debug, Clone)]
pub struct Sampling {
    /// The server's own id of the request.
    pub mcp_request_id: Value,
    /// The parameters of `sampling/createMessage`.
    pub request: Value,
}

/// Receives the notifications and requests of servers.
pub trait Owner: Send + Sync + 'static {
    /// A server's state changed.
    fn changed(&self, server: &ServerInfo);
    /// All servers that were to start have started or failed.
    fn loaded(&self, servers: &[ServerInfo]);
    /// The connection to a server ended that nobody had asked to end.
    fn lost(&self, server: &str) {
        let _ = server;
    }
    /// A server was removed.
    fn removed(&self, server: &str);
    /// A list of a server changed. For tools, the new ones are known when this is called.
    fn list_changed(&self, server: &str, list: List);
    /// A server asks for a form to be filled in.
    fn elicit(&self, server: &str, form: Elicitation) -> BoxFuture<'static, ElicitationAnswer>;
    /// The directories that servers may take for the person's; servers ask for them when they like.
    fn roots(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// Whether somebody deals with what servers ask of the model, also of those whose configuration does not say that
    /// they may.
    fn takes_samplings(&self) -> bool {
        false
    }
    /// A server wants the model to answer something: the result of `sampling/createMessage`, or why there is none. Dropped
    /// when the server does not want to know any more, or must not.
    fn sample(&self, _server: &str, _asked: Sampling) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(ready(Err("No model is available.".to_owned())))
    }
    /// The token to begin with, where one is kept.
    fn token(&self, server: &str) -> Option<String>;
    /// A server requires credentials: an access token, or nothing when none is available.
    fn authorize(&self, server: &str, request: AuthRequest) -> BoxFuture<'static, Option<String>>;
}
