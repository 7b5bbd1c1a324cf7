//! The core loop: connecting, opening and closing sessions, sending, aborting, reading messages.

use std::{path::Path, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::BytesMut;
use lodge_events::{AbortReason, Attachment, Event};
use lodge_host::{Delivery, Host, Prompt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Capability, Nothing, method, turns};
use crate::{
    config::SessionConfig,
    connection::{Ctx, MethodResult, Outcome},
    generation::Generation,
    github, opening,
    rpc::{AUTHENTICATION_FAILED, Params, Reply, RpcError},
    session::{Attached, Hold, SessionId},
};

pub(crate) const PROTOCOL_VERSION: u32 = 3;

pub(crate) static CORE: Capability = Capability {
    title: "Core loop",
    methods: &[
        method!(
            "connect",
            144,
            "opens the connection; checks the connection token",
            connect
        ),
        method!("ping", 7, "answers with the protocol version", ping),
        method!("status.get", 1, "version of the host and of the protocol", status),
        method!(
            "auth.getStatus",
            3,
            "whether the client supplied a GitHub token",
            auth_status
        ),
        method!(raw "session.create", 393, "creates a session", create),
        method!(raw "session.resume", 45, "opens an existing session", resume),
        method!("session.destroy", 364, "closes a session; it stays on disk", detach),
        method!("session.detach", 0, "the newer name of `session.destroy`", detach),
        method!(turn "session.send", 214, "sends a message to the agent", send),
        method!(turn "session.sendMessages", 0, "sends several messages that one turn answers", send_messages),
        method!(session "session.abort", 7, "stops the running turn", abort),
        method!(raw "session.getMessages", 29, "every persisted event", get_messages),
        method!(
            "session.getForeground",
            1,
            "always empty: there is no terminal",
            get_foreground
        ),
        method!(
            "session.setForeground",
            1,
            "always refused: there is no terminal",
            set_foreground
        ),
        method!(
            "runtime.shutdown",
            125,
            "syncs everything to disk before the client ends the process",
            shutdown
        ),
    ],
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConnectParams {
    token: Option<String>,
    client_info: Option<Value>,
    enable_git_hub_telemetry_forwarding: Option<bool>,
}

async fn connect(ctx: Ctx, params: ConnectParams) -> Result<Value, RpcError> {
    // A client on the local socket is known without a token, and keeps its identity.
    if !ctx.is_admitted() {
        let admission = ctx.shared.options.admit(params.token.as_deref().unwrap_or_default());
        let wrong = || RpcError::new(AUTHENTICATION_FAILED, "AUTHENTICATION_FAILED");
        ctx.admit(admission.ok_or_else(wrong)?).map_err(RpcError::failed)?;
    }
    let name = params
        .client_info
        .as_ref()
        .and_then(|info| info.get("name")?.as_str().map(str::to_owned));
    ctx.greet(name);
    if params.enable_git_hub_telemetry_forwarding == Some(true) {
        ctx.count();
    }
    Ok(json!({"ok": true, "protocolVersion": PROTOCOL_VERSION, "version": ctx.shared.options.version}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PingParams {
    message: Option<String>,
}

async fn ping(ctx: Ctx, params: PingParams) -> Result<Value, RpcError> {
    let message = params
        .message
        .map_or_else(|| "pong".to_owned(), |message| format!("pong: {message}"));
    // Clients from before `connect` (Java 0.3) read the time as a number and fail on text.
    let now = jiff::Timestamp::now();
    let timestamp = match ctx.generation() {
        Generation::Current => json!(lodge_events::timestamp_text(now)),
        Generation::BeforeConnect => json!(now.as_millisecond()),
    };
    Ok(json!({"message": message, "timestamp": timestamp, "protocolVersion": PROTOCOL_VERSION}))
}

async fn status(ctx: Ctx, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"version": ctx.shared.options.version, "protocolVersion": PROTOCOL_VERSION}))
}

async fn auth_status(ctx: Ctx, _: Nothing) -> Result<Value, RpcError> {
    Ok(host_login(&ctx).await)
}

/// Facts about the GitHub token that the client uses if it names none.
pub(crate) async fn host_login(ctx: &Ctx) -> Value {
    let options = &ctx.shared.options;
    let token = ctx.github_token();
    let user = match (&options.github_api, &token) {
        (Some(api), Some(token)) => github::user(api, token).await.ok(),
        _ => None,
    };
    auth_json(token.is_some(), &options.github_host, user.as_ref())
}

/// Facts about the login: that there is a token, for which host, and whose it is if GitHub could be asked.
pub(crate) fn auth_json(token: bool, host: &str, user: Option<&Value>) -> Value {
    if !token {
        return json!({"isAuthenticated": false, "statusMessage": "Not authenticated"});
    }
    let mut status = json!({
        "isAuthenticated": true, "authType": "token", "host": host, "statusMessage": format!("{host} (via token)"),
    });
    for (key, name) in [("login", "login"), ("copilotPlan", "copilot_plan")] {
        if let Some(value) = user.and_then(|user| user.get(name)).filter(|value| value.is_string()) {
            status[key] = value.clone();
        }
    }
    status
}

async fn create(ctx: Ctx, params: Params) -> MethodResult {
    let config: SessionConfig = params.parse()?;
    let attached = opening::create(&ctx, &config).await?;
    opened(&ctx, attached, &config).await
}

async fn resume(ctx: Ctx, params: Params) -> MethodResult {
    let config: SessionConfig = params.parse()?;
    let attached = match ctx.extension() {
        Some(seat) => opening::join(&ctx, &config, seat).await?,
        None => opening::resume(&ctx, &config).await?,
    };
    let outcome = opened(&ctx, attached, &config).await?;
    if let Some(seat) = ctx.extension() {
        seat.joined().await;
    }
    Ok(outcome)
}

async fn opened(ctx: &Ctx, attached: Attached, config: &SessionConfig) -> MethodResult {
    attached.ask_for_extensions(ctx, config).await;
    let attached = Arc::new(attached);
    let session = attached.session();
    let result = json!({
        "sessionId": session.id(),
        "workspacePath": session.shown_dir(),
        "capabilities": {
            "ui": {"elicitation": attached.can_elicit(), "mcpApps": false, "canvases": attached.shows_canvases()},
            "extensions": attached.has_extensions(),
        },
        "openCanvases": attached.board().canvases().list_open(session),
    });
    ctx.attach(attached.clone());
    attached.belongs_to(config.traceparent.as_deref());
    Ok(Outcome {
        start: Some(attached),
        ..Outcome::of(Reply::of(&result)?)
    })
}

/// Closes the session for this client. If no other client has it open, it leaves memory, and its last events reach the
/// client before the response.
async fn detach(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    let Some(attached) = ctx.session(&session_id) else {
        ctx.detach(&session_id);
        // An app that resumed a session it had open closes it twice, and so does one that deleted it.
        return Ok(json!({"success": true}));
    };
    attached.leave_extensions().await;
    if attached.session().clients() <= 1 {
        ctx.host.close(&session_id).await;
    }
    attached.files_kept().await;
    ctx.detach(&session_id);
    Ok(json!({"success": true}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SendParams {
    prompt: Option<String>,
    display_prompt: Option<String>,
    attachments: Option<Vec<Attachment>>,
    mode: Option<String>,
    prepend: Option<bool>,
    required_tool: Option<String>,
    source: Option<String>,
    agent_mode: Option<String>,
    request_headers: Option<std::collections::BTreeMap<String, String>>,
    traceparent: Option<String>,
    response_format: Option<ResponseFormat>,
    wait: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat {
    #[serde(rename_all = "camelCase")]
    JsonSchema { json_schema: lodge_models::ResponseFormat },
}

impl TryFrom<SendParams> for Prompt {
    type Error = RpcError;

    fn try_from(params: SendParams) -> Result<Self, RpcError> {
        let immediate = params.mode.as_deref() == Some("immediate");
        if immediate && params.response_format.is_some() {
            let text = "responseFormat cannot be given with mode \"immediate\": the running turn keeps its own";
            return Err(RpcError::params(text));
        }
        let format = params
            .response_format
            .map(|ResponseFormat::JsonSchema { json_schema }| json_schema);
        let mut attachments = params.attachments.unwrap_or_default();
        attachments.iter_mut().try_for_each(acceptable)?;
        Ok(Self {
            text: params
                .prompt
                .ok_or_else(|| RpcError::params("Invalid parameters: missing field `prompt`"))?,
            display_text: params.display_prompt,
            attachments,
            // Other values are accepted and mean the usual delivery, as in the CLI.
            delivery: if immediate {
                Delivery::Immediate
            } else {
                Delivery::Enqueue
            },
            prepend: params.prepend.unwrap_or(false),
            agent_mode: params.agent_mode,
            source: params.source,
            headers: params.request_headers.unwrap_or_default(),
            required_tool: params.required_tool,
            response_format: format.map(Arc::new),
            ..Self::default()
        })
    }
}

/// Names attachments with a path, and refuses bytes that are not base64: no model call could succeed after them.
fn acceptable(attachment: &mut Attachment) -> Result<(), RpcError> {
    let (path, name) = match attachment {
        Attachment::File(file) => (&file.path, &mut file.display_name),
        Attachment::Directory(directory) => (&directory.path, &mut directory.display_name),
        Attachment::Blob(blob) => {
            let bytes = blob.data.as_ref().map(|data| BASE64_STANDARD.decode(data)).transpose();
            let told = |error| {
                let name = blob.display_name.as_deref().unwrap_or("blob");
                RpcError::params(format!(
                    "Invalid parameters: the attachment {name:?} is not base64: {error}"
                ))
            };
            return bytes.map(drop).map_err(told);
        }
        _ => return Ok(()),
    };
    if name.is_empty() {
        let last = Path::new(path)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        *name = last.unwrap_or_else(|| path.clone());
    }
    Ok(())
}

async fn send(session: Arc<Attached>, params: SendParams) -> Result<(Value, Option<Hold>), RpcError> {
    session.belongs_to(params.traceparent.as_deref());
    session.catch_up_with_model().await?;
    let wait = params.wait == Some(true);
    let (id, hold) = turns::say(&session, params.try_into()?, wait).await?;
    Ok((json!({"messageId": id}), hold))
}

#[derive(Debug, Deserialize)]
struct BatchParams {
    messages: Vec<SendParams>,
    #[serde(flatten)]
    all: SendParams,
}

/// The turn answers the last message; the others precede it.
async fn send_messages(session: Arc<Attached>, params: BatchParams) -> Result<(Value, Option<Hold>), RpcError> {
    let BatchParams { mut messages, all } = params;
    let Some(last) = messages.pop() else {
        return Err(RpcError::params("messages must contain at least one message"));
    };
    session.belongs_to(all.traceparent.as_deref());
    session.catch_up_with_model().await?;
    let mut before = Vec::with_capacity(messages.len());
    let mut ids = Vec::with_capacity(messages.len() + 1);
    for message in messages {
        let id = Uuid::new_v4().to_string();
        ids.push(id.clone());
        before.push(Prompt {
            message_id: Some(id),
            ..message.try_into()?
        });
    }
    let wait = all.wait == Some(true);
    let prompt = SendParams {
        prompt: last.prompt,
        display_prompt: last.display_prompt,
        attachments: last.attachments,
        required_tool: last.required_tool,
        source: last.source,
        ..all
    };
    let prompt = Prompt {
        before,
        ..prompt.try_into()?
    };
    let (id, hold) = turns::say(&session, prompt, wait).await?;
    ids.push(id);
    Ok((json!({"messageIds": ids}), hold))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AbortParams {
    reason: Option<String>,
}

async fn abort(session: Arc<Attached>, params: AbortParams) -> Result<Value, RpcError> {
    let reason = params.reason.map_or(AbortReason::UserInitiated, AbortReason::from);
    session.session().abort(reason).await?;
    Ok(json!({"success": true}))
}

async fn get_messages(ctx: Ctx, params: Params) -> MethodResult {
    let SessionId { session_id } = params.parse()?;
    let Some(attached) = ctx.session(&session_id) else {
        return Err(RpcError::failed(format!("Session not found: {session_id}")));
    };
    let history = attached.session().history()?;
    let events = history
        .events()
        .filter(|event| !event.as_ref().is_ok_and(Event::is_beside));
    let generation = ctx.generation();
    let events = tokio::task::spawn_blocking(move || list(events, generation, b"{\"events\":", b"}"))
        .await
        .map_err(RpcError::failed)??;
    Ok(Outcome::of(Reply::raw(events)))
}

/// A JSON list of events between two pieces of text, with the events' own bytes if the client can read them.
pub(crate) fn list<E: std::fmt::Display>(
    events: impl Iterator<Item = Result<Event, E>>,
    generation: Generation,
    before: &[u8],
    after: &[u8],
) -> Result<BytesMut, RpcError> {
    let mut json = BytesMut::from(before);
    json.extend_from_slice(b"[");
    for (n, event) in events.enumerate() {
        if n > 0 {
            json.extend_from_slice(b",");
        }
        json.extend_from_slice(&generation.json(&event.map_err(RpcError::failed)?));
    }
    json.extend_from_slice(b"]");
    json.extend_from_slice(after);
    Ok(json)
}

async fn get_foreground(_: Ctx, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({}))
}

#[derive(Debug, Serialize)]
struct Refusal {
    success: bool,
    error: &'static str,
}

async fn set_foreground(_: Ctx, _: Nothing) -> Result<Refusal, RpcError> {
    let error = "Not running in TUI+server mode - no foreground session change handler registered";
    Ok(Refusal { success: false, error })
}

/// The process keeps running: the client ends it when it has the response. Other clients may be connected, and
/// continue.
async fn shutdown(ctx: Ctx, _: Nothing) -> Result<Value, RpcError> {
    for session_id in ctx.shut_down() {
        let _ = detach(ctx.clone(), SessionId { session_id }).await;
    }
    flush(&ctx.host).await;
    if let Some(traces) = &ctx.shared.traces {
        traces.flush().await;
    }
    Ok(Value::Null)
}

async fn flush(host: &Host) {
    let host = host.clone();
    let _ = tokio::task::spawn_blocking(move || host.catalogue().flush()).await;
}
