//! Questions to the person, when a client answers them by name rather than by callback.

use std::sync::Arc;

use lodge_events::{ElicitationRequested, ElicitationSchema};
use lodge_host::{Answer, ElicitationAnswer, ExitPlanAnswer, UserInputAnswer};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Capability, Nothing, method};
use crate::{rpc::RpcError, session::Attached};

pub(crate) static UI: Capability = Capability {
    title: "Questions to the person",
    methods: &[
        method!(session "session.ui.handlePendingUserInput", 1, "answers `user_input.requested`", user_input),
        method!(session "session.ui.handlePendingElicitation", 2, "answers `elicitation.requested`", elicitation),
        method!(session "session.ui.handlePendingExitPlanMode", 1, "answers `exit_plan_mode.requested`", exit_plan_mode),
        method!(session "session.ui.elicitation", 1, "shows a form by a client that can, and waits for the answer", elicit),
        method!(session "session.ui.handlePendingSampling", 1, "never open here: always `false`", never_open),
        method!(session "session.ui.handlePendingAutoModeSwitch", 1, "never open here: always `false`", never_open),
        method!(session "session.ui.handlePendingSessionLimitsExhausted", 1, "never open here: always `false`", never_open),
    ],
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answered<T> {
    request_id: String,
    #[serde(alias = "result")]
    response: T,
}

async fn answer(session: &Attached, id: &str, answer: Answer) -> Result<Value, RpcError> {
    Ok(json!({"success": session.session().answer(id, answer).await?}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserInput {
    #[serde(default)]
    answer: String,
    #[serde(default)]
    was_freeform: bool,
}

async fn user_input(session: Arc<Attached>, params: Answered<UserInput>) -> Result<Value, RpcError> {
    let UserInput {
        answer: text,
        was_freeform,
    } = params.response;
    answer(
        &session,
        &params.request_id,
        Answer::UserInput(UserInputAnswer {
            answer: text,
            was_freeform,
        }),
    )
    .await
}

#[derive(Debug, Deserialize)]
struct Elicitation {
    action: String,
    #[serde(default)]
    content: Option<Value>,
}

async fn elicitation(session: Arc<Attached>, params: Answered<Elicitation>) -> Result<Value, RpcError> {
    let Elicitation { action, content } = params.response;
    answer(
        &session,
        &params.request_id,
        Answer::Elicitation(ElicitationAnswer { action, content }),
    )
    .await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExitPlan {
    approved: bool,
    #[serde(default)]
    selected_action: Option<String>,
    #[serde(default)]
    auto_approve_edits: Option<bool>,
    #[serde(default)]
    feedback: Option<String>,
}

async fn exit_plan_mode(session: Arc<Attached>, params: Answered<ExitPlan>) -> Result<Value, RpcError> {
    let ExitPlan {
        approved,
        selected_action,
        auto_approve_edits,
        feedback,
    } = params.response;
    answer(
        &session,
        &params.request_id,
        Answer::ExitPlan(ExitPlanAnswer {
            approved,
            selected_action,
            auto_approve_edits,
            feedback,
        }),
    )
    .await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ElicitParams {
    message: String,
    #[serde(default)]
    requested_schema: Option<ElicitationSchema>,
}

async fn elicit(session: Arc<Attached>, params: ElicitParams) -> Result<Value, RpcError> {
    let question = ElicitationRequested {
        request_id: Uuid::new_v4().to_string(),
        message: params.message,
        requested_schema: params.requested_schema,
        ..ElicitationRequested::default()
    };
    let answer = session.session().elicit(question).await?;
    let mut result = json!({"action": answer.action});
    if let Some(content) = answer.content {
        result["content"] = content;
    }
    Ok(result)
}

/// Lodge never asks these questions, so no answer can be the awaited one.
async fn never_open(_: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"success": false}))
}
