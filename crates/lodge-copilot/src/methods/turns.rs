//! Sending and waiting for the end of it; and ending a session's life on purpose.

use std::sync::Arc;

use lodge_events::{Event, Payload};
use lodge_host::{Prompt, Publish};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Capability, core::SendParams, method};
use crate::{
    connection::{Ctx, MethodResult, Outcome},
    rpc::{INTERNAL_ERROR, Params, Reply, RpcError},
    session::{self, SessionId},
};

pub(crate) static TURNS: Capability = Capability {
    title: "Turns from end to end",
    methods: &[
        method!(raw "session.sendAndWait", 0, "says something and waits until it is dealt with", send_and_wait),
        method!(
            "session.suspend",
            4,
            "stops what runs and lets the session leave memory",
            suspend
        ),
        method!("session.shutdown", 1, "ends the session's life in memory", shutdown),
    ],
};

/// How the message was dealt with.
struct End {
    response: Option<Event>,
    boundary: Event,
    /// What went wrong, if something did.
    error: Option<String>,
    aborted: bool,
}

/// Watches for the end of one message: the message itself, then what the agent answers, then rest.
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
            // A message that never began because the turn before it was aborted was taken back with it.
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

async fn send_and_wait(ctx: Ctx, params: Params) -> MethodResult {
    let attached = session::of(&ctx, &params)?;
    let message_id = Uuid::new_v4().to_string();
    let mut prompt: Prompt = params.parse::<SendParams>()?.try_into()?;
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

async fn suspend(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    end(&ctx, session_id).await
}

async fn shutdown(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    end(&ctx, session_id).await
}

async fn end(ctx: &Ctx, session_id: String) -> Result<Value, RpcError> {
    if ctx.session(&session_id).is_none() {
        return Err(RpcError::failed(format!("Session not found: {session_id}")));
    }
    ctx.host.close(&session_id).await;
    Ok(Value::Null)
}
