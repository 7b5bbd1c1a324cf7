//! Calls from the agent to an SDK client: tools, hooks and questions, as requests on the wire.

use std::{
    future::ready,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::BoxFuture;
use lodge_events::AutoModeSwitchResponse;
use lodge_host::{
    AutoModeQuestion, ClientCalls, ExitPlanAnswer, ExitPlanQuestion, ExternalResult, UserInputAnswer, UserInputQuestion,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    canvas_tools,
    peer::{CallError, Peer},
    session::Attached,
    traces::Trace,
};

/// The client of one connection, as the agent of one session sees it.
#[derive(Clone)]
pub(crate) struct SdkCalls {
    pub(crate) peer: Peer,
    pub(crate) session_id: String,
    /// The session's trace, once there is one.
    pub(crate) trace: Arc<OnceLock<Weak<Trace>>>,
    /// The client's attachment to the session, once it is open.
    pub(crate) attached: Arc<OnceLock<Weak<Attached>>>,
    /// Whether the client shows canvases: then the host provides the tools for them.
    pub(crate) shows_canvases: Arc<AtomicBool>,
}

impl ClientCalls for SdkCalls {
    fn traceparent(&self, tool_call_id: &str) -> Option<String> {
        self.trace.get()?.upgrade()?.of_tool(tool_call_id)
    }

    fn run_tool(&self, tool: &str, arguments: &Value) -> Option<BoxFuture<'static, ExternalResult>> {
        if !self.shows_canvases.load(Ordering::Relaxed) || !canvas_tools::is_one(tool) {
            return None;
        }
        let Some(attached) = self.attached.get().and_then(Weak::upgrade) else {
            // No client has the tool, so none is asked to run it.
            let gone = canvas_tools::failed("The app that shows canvases is not connected".into());
            return Some(Box::pin(ready(gone)));
        };
        let (tool, arguments) = (tool.to_owned(), arguments.clone());
        Some(Box::pin(
            async move { canvas_tools::run(&attached, &tool, arguments).await },
        ))
    }

    fn hook(&self, hook_type: String, input: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let this = self.clone();
        Box::pin(async move {
            let params = json!({"sessionId": this.session_id, "hookType": hook_type, "input": input});
            match this.peer.call("hooks.invoke", &params).await {
                Ok(Value::Object(mut result)) => Ok(result.remove("output").filter(|output| !output.is_null())),
                Ok(_) => Ok(None),
                Err(CallError::Refused(error)) => Err(error.message),
                // The client is gone: the agent continues as if there were no hook.
                Err(CallError::Gone) => Ok(None),
            }
        })
    }

    fn user_input(&self, question: UserInputQuestion) -> BoxFuture<'static, Option<UserInputAnswer>> {
        let this = self.clone();
        Box::pin(async move {
            let mut params = json!({
                "sessionId": this.session_id,
                "question": question.question,
                "allowFreeform": question.allow_freeform,
            });
            if let Some(choices) = question.choices {
                params["choices"] = json!(choices);
            }
            let reply: UserInputReply = this.ask("userInput.request", params).await?;
            Some(UserInputAnswer {
                answer: reply.answer,
                was_freeform: reply.was_freeform,
            })
        })
    }

    fn exit_plan_mode(&self, question: ExitPlanQuestion) -> BoxFuture<'static, Option<ExitPlanAnswer>> {
        let this = self.clone();
        Box::pin(async move {
            let params = json!({
                "sessionId": this.session_id,
                "summary": question.summary,
                "planContent": question.plan_content,
                "actions": question.actions,
                "recommendedAction": question.recommended_action,
            });
            let reply: ExitPlanReply = this.ask("exitPlanMode.request", params).await?;
            Some(ExitPlanAnswer {
                approved: reply.approved,
                selected_action: reply.selected_action,
                auto_approve_edits: reply.auto_approve_edits,
                feedback: reply.feedback,
            })
        })
    }

    fn auto_mode_switch(&self, question: AutoModeQuestion) -> BoxFuture<'static, Option<AutoModeSwitchResponse>> {
        let this = self.clone();
        Box::pin(async move {
            let mut params = json!({"sessionId": this.session_id});
            if let Some(code) = question.error_code {
                params["errorCode"] = json!(code);
            }
            if let Some(seconds) = question.retry_after_seconds {
                params["retryAfterSeconds"] = json!(seconds);
            }
            let reply: AutoModeReply = this.ask("autoModeSwitch.request", params).await?;
            Some(reply.response)
        })
    }

    fn transform_section(&self, section: String, content: String) -> BoxFuture<'static, Option<String>> {
        let this = self.clone();
        Box::pin(async move {
            let params = json!({"sessionId": this.session_id, "sections": {section.as_str(): {"content": content}}});
            let result = this.peer.call("systemMessage.transform", &params).await.ok()?;
            result
                .get("sections")?
                .get(&section)?
                .get("content")?
                .as_str()
                .map(str::to_owned)
        })
    }
}

impl SdkCalls {
    /// Calls the client. Only a well-formed answer counts; otherwise the question stays open for others.
    async fn ask<T: for<'de> Deserialize<'de>>(&self, method: &str, params: Value) -> Option<T> {
        match self.peer.call(method, &params).await {
            Ok(result) => serde_json::from_value(result)
                .inspect_err(|error| tracing::warn!(method, %error, "the client's answer is malformed"))
                .ok(),
            Err(error) => {
                tracing::warn!(method, %error, "the client could not answer");
                None
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserInputReply {
    #[serde(default)]
    answer: String,
    #[serde(default)]
    was_freeform: bool,
}

#[derive(Deserialize)]
struct AutoModeReply {
    response: AutoModeSwitchResponse,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExitPlanReply {
    #[serde(default)]
    approved: bool,
    #[serde(default)]
    selected_action: Option<String>,
    #[serde(default)]
    auto_approve_edits: Option<bool>,
    #[serde(default)]
    feedback: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tool_for_canvases_fails_without_the_client_and_other_tools_are_the_clients() {
        let calls = |shows| SdkCalls {
            peer: Peer::new(1024),
            session_id: "s".into(),
            trace: Arc::default(),
            attached: Arc::default(),
            shows_canvases: Arc::new(AtomicBool::new(shows)),
        };
        let run = calls(true).run_tool("open_canvas", &json!({"canvasId": "counter"}));
        assert_eq!(run.expect("an answer").await.result_type, "failure");
        assert!(calls(true).run_tool("deploy", &json!({})).is_none());
        assert!(calls(false).run_tool("open_canvas", &json!({})).is_none());
    }
}
