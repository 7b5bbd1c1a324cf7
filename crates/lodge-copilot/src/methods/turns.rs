//! Sending a message and waiting for the end of its turn; shutting a session down.

use std::sync::Arc;

use lodge_events::{Attachment, Event, Payload};
use lodge_host::{Ending, Prompt, Publish};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Capability, core::SendParams, method};
use crate::{
    connection::{Ctx, MethodResult, Outcome},
    rpc::{INTERNAL_ERROR, Params, Reply, RpcError},
    session::{self, Attached, Hold, SessionId},
};

pub(crate) static TURNS: Capability = Capability {
    title: "Whole turns",
    methods: &[
        method!(raw "session.sendAndWait", 0, "sends a message and waits until the turn ends", send_and_wait),
        method!(
            "session.suspend",
            4,
            "stops all work and unloads the session from memory",
            suspend
        ),
        method!("session.shutdown", 1, "unloads the session from memory", shutdown),
        method!(turn "session.fleet.start", 1, "starts several sub-agents that work in parallel", fleet),
        method!(
            session "session.interruptMainTurn",
            0,
            "stops the turn, but nothing in the background",
            interrupt
        ),
    ],
};

/// The outcome of a message.
struct End {
    response: Option<Event>,
    boundary: Event,
    /// The error, if there was one.
    error: Option<String>,
    aborted: bool,
}

/// Waits for the end of one message: first the message, then the agent's answer, then idle.
struct Watch {
    message_id: String,
    state: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    begun: bool,
    response: Option<Event>,
    done: Option<oneshot::Sender<End>>,
}

impl Publish for Watch {
    fn publish(&self, event: &Event) {
        if event.agent_id().is_some() {
            return;
        }
        let mut state = self.state.lock();
        let (error, aborted) = match event.payload() {
            Payload::UserMessage(message) if message.message_id.as_ref() == Some(&self.message_id) => {
                state.begun = true;
                return;
            }
            Payload::AssistantMessage(message) if message.originating_message_id.as_ref() == Some(&self.message_id) => {
                state.response = Some(event.clone());
                return;
            }
            Payload::SessionIdle(idle) if state.begun => (None, idle.aborted == Some(true)),
            // A message whose turn had not begun when the turn before it was aborted was withdrawn with it.
            Payload::SessionIdle(idle) if idle.aborted == Some(true) => (None, true),
            Payload::SessionError(error) if state.begun => (Some(error.message.clone()), false),
            _ => return,
        };
        if let Some(done) = state.done.take() {
            let _ = done.send(End {
                response: state.response.take(),
                boundary: event.clone(),
                error,
                aborted,
            });
        }
    }
}

/// Sends a message, and returns its id. With `wait`, its turn ends first; without, the client gets the turn's events when the
/// hold is dropped.
pub(super) async fn say(session: &Attached, prompt: Prompt, wait: bool) -> Result<(String, Option<Hold>), RpcError> {
    if wait {
        return Ok((send_and_see(session, prompt).await?.0, None));
    }
    let hold = session.hold();
    Ok((session.session().send(prompt).await?, Some(hold)))
}

async fn send_and_see(attached: &Attached, mut prompt: Prompt) -> Result<(String, End), RpcError> {
    let message_id = Uuid::new_v4().to_string();
    prompt.message_id = Some(message_id.clone());
    let (done, waiting) = oneshot::channel();
    let state = Mutex::new(Watched {
        done: Some(done),
        ..Watched::default()
    });
    let _listening = attached.session().listen(Arc::new(Watch {
        message_id: message_id.clone(),
        state,
    }));
    attached.session().send(prompt).await?;
    let end = waiting
        .await
        .map_err(|_| RpcError::failed("Session not found: it has ended"))?;
    Ok((message_id, end))
}

async fn send_and_wait(ctx: Ctx, params: Params) -> MethodResult {
    let attached = session::of(&ctx, &params)?;
    let (message_id, end) = send_and_see(&attached, params.parse::<SendParams>()?.try_into()?).await?;
    let boundary = end.boundary.id().to_string();
    if let Some(message) = end.error {
        return Err(RpcError {
            code: INTERNAL_ERROR,
            message,
            data: Some(json!({"completionEventId": boundary})),
        });
    }
    let head = json!({"messageId": message_id, "aborted": end.aborted, "completionEventId": boundary}).to_string();
    let Some(response) = end.response else {
        return Ok(Outcome::of(Reply::raw(head)));
    };
    let whole = format!("{},\"response\":{}}}", &head[..head.len() - 1], response.as_str());
    Ok(Outcome::of(Reply::raw(whole)))
}

/// The instructions for a fleet.
const FLEET: &str = "Work as a fleet: split the work among sub-agents that run side by side, with the `task` tool.

- Begin with the session's list of todos (tables `todos` and `todo_deps`, by the `sql` tool). If it is empty, break the work into \
todos first, with as few dependencies among them as you can.
- Start all todos that wait for no other at once, in one answer: several sub-agents in the background. For a single one, wait for \
it instead.
- Tell every sub-agent which todo is its own, to set its status to `done` or `blocked` when it ends, and to report what it did, \
what is left, and what stands in the way.
- When they have ended, compare their reports with the table. One that is still `in_progress` was given up: find out why. Then \
start what can be started now.
- At the end, check yourself that all of it together does what was asked, tests and odd cases included. If it does not, go on \
with further todos.";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FleetParams {
    prompt: Option<String>,
    attachments: Option<Vec<Attachment>>,
    wait: Option<bool>,
}

async fn fleet(session: Arc<Attached>, params: FleetParams) -> Result<(Value, Option<Hold>), RpcError> {
    let wanted = params.prompt.filter(|prompt| !prompt.trim().is_empty());
    let text = match &wanted {
        Some(wanted) => format!("{FLEET}\n\nWhat is wanted: {wanted}"),
        None => FLEET.to_owned(),
    };
    let prompt = Prompt {
        text,
        display_text: Some(wanted.unwrap_or_else(|| "Start the fleet".to_owned())),
        attachments: params.attachments.unwrap_or_default(),
        ..Prompt::default()
    };
    session.catch_up_with_model().await?;
    let (_, hold) = say(&session, prompt, params.wait == Some(true)).await?;
    Ok((json!({"started": true}), hold))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InterruptParams {
    flush_queued: Option<bool>,
}

async fn interrupt(session: Arc<Attached>, params: InterruptParams) -> Result<Value, RpcError> {
    let keep_queue = params.flush_queued.unwrap_or(false);
    Ok(json!({"interrupted": session.session().interrupt(keep_queue).await?}))
}

async fn suspend(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    end(&ctx, session_id, Ending::Routine).await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShutdownParams {
    session_id: String,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

async fn shutdown(ctx: Ctx, params: ShutdownParams) -> Result<Value, RpcError> {
    let ending = match params.kind.as_deref() {
        None | Some("routine") => Ending::Routine,
        Some("error") => Ending::Error(params.reason),
        Some(other) => {
            return Err(RpcError::params(format!(
                "Unknown shutdown type '{other}': use 'routine' or 'error'"
            )));
        }
    };
    end(&ctx, params.session_id, ending).await
}

async fn end(ctx: &Ctx, session_id: String, ending: Ending) -> Result<Value, RpcError> {
    if ctx.session(&session_id).is_none() {
        return Err(RpcError::failed(format!("Session not found: {session_id}")));
    }
    ctx.host.end(&session_id, ending).await;
    Ok(Value::Null)
}
