//! Questions to the person, for clients that answer with a method instead of a callback.

use std::sync::Arc;

use lodge_events::{AutoModeSwitchResponse, ElicitationRequested, ElicitationSchema, LimitsAnswer};
use lodge_host::{Answer, ElicitationAnswer, ExitPlanAnswer, UserInputAnswer};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Capability, Nothing, method};
use crate::{
    rpc::RpcError,
    session::{AUTO_MODE, Attached},
};

pub(crate) static UI: Capability = Capability {
    title: "Questions to the user",
    methods: &[
        method!(session "session.ui.handlePendingUserInput", 1, "answers `user_input.requested`", user_input),
        method!(session "session.ui.handlePendingElicitation", 2, "answers `elicitation.requested`", elicitation),
        method!(session "session.ui.handlePendingExitPlanMode", 1, "answers `exit_plan_mode.requested`", exit_plan_mode),
        method!(session "session.ui.elicitation", 1, "has a client show a form, and waits for the answer", elicit),
        method!(session "session.ui.ephemeralQuery", 1, "asks the model something outside the conversation", ephemeral_query),
        method!(session "session.ui.handlePendingSampling", 1, "answers `sampling.requested`, or refuses", sampling),
        method!(session "session.ui.handlePendingAutoModeSwitch", 1, "answers `auto_mode_switch.requested`", auto_mode),
        method!(
            session "session.ui.registerDirectAutoModeSwitchHandler",
            1,
            "declares that the client answers `auto_mode_switch.requested`",
            register_auto_mode
        ),
        method!(session "session.ui.unregisterDirectAutoModeSwitchHandler", 1, "withdraws that", unregister_auto_mode),
        method!(
            session "session.ui.handlePendingSessionLimitsExhausted",
            1,
            "answers `session_limits_exhausted.requested`",
            limits
        ),
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
    Ok(json!({"success": session.answer(id, answer).await?}))
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

async fn auto_mode(session: Arc<Attached>, params: Answered<AutoModeSwitchResponse>) -> Result<Value, RpcError> {
    answer(&session, &params.request_id, Answer::AutoMode(params.response)).await
}

/// Registers the interest in this event like any other.
async fn register_auto_mode(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"handle": session.add_interest(AUTO_MODE.to_owned())}))
}

#[derive(Debug, Deserialize)]
struct HandleParams {
    handle: String,
}

async fn unregister_auto_mode(session: Arc<Attached>, params: HandleParams) -> Result<Value, RpcError> {
    Ok(json!({"unregistered": session.remove_interest(&params.handle)}))
}

async fn limits(session: Arc<Attached>, params: Answered<LimitsAnswer>) -> Result<Value, RpcError> {
    answer(&session, &params.request_id, Answer::Limits(params.response)).await
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

#[derive(Debug, Deserialize)]
struct EphemeralQueryParams {
    question: String,
}

async fn ephemeral_query(session: Arc<Attached>, params: EphemeralQueryParams) -> Result<Value, RpcError> {
    session.catch_up_with_model().await?;
    Ok(json!({"answer": session.session().ask_aside(params.question).await?}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SamplingParams {
    request_id: String,
    #[serde(default)]
    response: Option<Value>,
}

async fn sampling(session: Arc<Attached>, params: SamplingParams) -> Result<Value, RpcError> {
    answer(&session, &params.request_id, Answer::Sampling(params.response)).await
}
