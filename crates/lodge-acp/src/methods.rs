//! The methods of the protocol.

use std::sync::Arc;

use lodge_rpc::{Error, INVALID_REQUEST, METHOD_NOT_FOUND, params};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    connection::{Client, Connection, SETUP_ARGUMENT},
    content,
    driver::{CANCELLED, Command},
    relay, session_options, sessions,
    wire::{Authenticate, Initialize, PROTOCOL_VERSION, Prompt, SetConfigOption, SetMode},
};

/// The authentication method that sets up a model in a terminal, if the client has one.
const SETUP: &str = "lodge-setup";
const RELOAD: &str = "lodge-configuration";

/// The response to a request.
pub(crate) struct Outcome {
    pub(crate) reply: Value,
    /// The id of a session that this request opened.
    pub(crate) start: Option<String>,
}

impl From<Value> for Outcome {
    fn from(reply: Value) -> Self {
        Self { reply, start: None }
    }
}

/// Serves one request. If it is cancelled, it fails, and a prompt's turn stops.
pub(crate) async fn serve(
    connection: &Arc<Connection>,
    method: &str,
    given: Value,
    cancelled: &CancellationToken,
) -> Result<Outcome, Error> {
    if connection.host().is_kept() {
        if method == "initialize" {
            connection.keep_greeting(&given);
        } else if connection.client().is_some() {
            let relayed = tokio::select! {
                relayed = relay::serve(connection, method, &given) => relayed?,
                () = cancelled.cancelled() => return Err(Error::cancelled()),
                () = connection.ended.cancelled() => return Err(Error::cancelled()),
            };
            if let Some(reply) = relayed {
                return Ok(reply.into());
            }
        }
    }
    match method {
        "initialize" => return initialize(connection, params(given)?),
        "session/prompt" if connection.client().is_some() => {
            return prompt(connection, params(given)?, cancelled).await;
        }
        "session/new" => {
            // If it were dropped here, nobody would know of the session.
            let made = dispatch(connection, method, given).await?;
            if !cancelled.is_cancelled() {
                return Ok(made);
            }
            sessions::forget(connection, made).await;
            return Err(Error::cancelled());
        }
        _ => {}
    }
    tokio::select! {
        biased;
        served = dispatch(connection, method, given) => served,
        () = cancelled.cancelled() => Err(Error::cancelled()),
        () = connection.ended.cancelled() => Err(Error::cancelled()),
    }
}

async fn dispatch(connection: &Arc<Connection>, method: &str, given: Value) -> Result<Outcome, Error> {
    let Some(client) = connection.client() else {
        return Err(Error::new(INVALID_REQUEST, "Send `initialize` first."));
    };
    match method {
        "authenticate" => authenticate(connection, params(given)?).await,
        "session/new" => sessions::create(connection, client, params(given)?).await,
        "session/load" => {
            // Required here, but not if the history is not replayed.
            if given.get("mcpServers").is_none() {
                return Err(Error::params("Invalid parameters: missing field `mcpServers`"));
            }
            sessions::open(connection, client, params(given)?, true).await
        }
        "session/resume" => sessions::open(connection, client, params(given)?, false).await,
        "session/list" => sessions::list(&connection.host(), params(given)?).await,
        "session/close" => sessions::close(connection, params(given)?).await,
        "session/delete" => sessions::delete(connection, params(given)?).await,
        "session/set_mode" => {
            let SetMode { session_id, mode_id } = params(given)?;
            let (session, _) = connection.session(&session_id)?;
            session_options::set_mode(&session, &mode_id).await?;
            Ok(json!({}).into())
        }
        "session/set_config_option" => {
            let set: SetConfigOption = params(given)?;
            let (session, _) = connection.session(&set.session_id)?;
            let host = connection.host();
            session_options::set(&host, &session, &set.config_id, &set.value).await?;
            Ok(json!({ "configOptions": session_options::all(&host, &session) }).into())
        }
        _ => Err(Error::new(METHOD_NOT_FOUND, format!("There is no method `{method}`."))),
    }
}

fn initialize(connection: &Connection, given: Initialize) -> Result<Outcome, Error> {
    let mut methods = vec![json!({
        "id": RELOAD,
        "name": "Read the configuration again",
        "description": "Set up a model with `lodge setup` in a terminal, or in lodge.toml, then choose this.",
    })];
    if given.client_capabilities.auth.terminal {
        let setup = json!({
            "type": "terminal",
            "id": SETUP,
            "name": "Set up a model",
            "description": "Choose a provider, enter a key, and test it.",
            "args": [SETUP_ARGUMENT],
        });
        methods.insert(0, setup);
    }
    let info = given.client_info.unwrap_or_default();
    let name = info.title.filter(|title| !title.is_empty()).unwrap_or(info.name);
    connection.greet(Client {
        name: if name.is_empty() { "ACP client".to_owned() } else { name },
        capabilities: given.client_capabilities,
    });
    let reply = json!({
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": { "name": "lodge", "title": "Lodge", "version": connection.host().version() },
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
            "mcpCapabilities": { "http": true, "sse": true },
            "sessionCapabilities": {
                "list": {},
                "delete": {},
                "resume": {},
                "close": {},
                "additionalDirectories": {},
            },
        },
        "authMethods": methods,
    });
    Ok(reply.into())
}

/// The person has set up a model.
async fn authenticate(connection: &Arc<Connection>, given: Authenticate) -> Result<Outcome, Error> {
    if given.method_id != RELOAD && given.method_id != SETUP {
        return Err(Error::params(format!(
            "Unknown authentication method `{}`.",
            given.method_id
        )));
    }
    connection.renew().await?;
    Ok(json!({}).into())
}

async fn prompt(connection: &Arc<Connection>, given: Prompt, cancelled: &CancellationToken) -> Result<Outcome, Error> {
    let (_, commands) = connection.session(&given.session_id)?;
    let mut prompt = content::prompt(given.prompt)?;
    let message_id = Uuid::new_v4().to_string();
    prompt.message_id = Some(message_id.clone());
    let (answer, mut answered) = oneshot::channel();
    // Before anything waits, so that a cancellation that comes next finds it.
    let _ = commands.send(Command::Prompt(Box::new(prompt), answer));
    let gone = || Error::internal("The session was closed or opened again before the turn ended.");
    let stopped = tokio::select! {
        stopped = &mut answered => stopped.map_err(|_| gone())?,
        () = cancelled.cancelled() => {
            let _ = commands.send(Command::CancelPrompt(message_id));
            // All updates of the turn come first.
            let stopped = answered.await.map_err(|_| gone())?;
            match stopped {
                Ok(CANCELLED) => Err(Error::cancelled()),
                other => other,
            }
        }
    };
    Ok(json!({ "stopReason": stopped? }).into())
}
