//! The implementation of the loop's own tools.

use std::sync::atomic::Ordering;

use lodge_events::{
    ExitPlanModeCompleted, ExitPlanModeRequested, SessionTaskComplete, UserInputCompleted, UserInputRequested,
};
use lodge_mcp::Elicitation;
use serde_json::{Value, json};

use crate::{
    answer::{Answer, ExitPlanAnswer, QuestionKind, UserInputAnswer},
    client::{ExitPlanQuestion, UserInputQuestion},
    questions::Question,
    settings::{Approval, Mode},
    tool_call::{Call, Outcome},
    turn::Stop,
};

/// What the model is told to do with a plan that was approved.
const START_NOW: &str = "Start implementing the plan now, in this same response. Approving the plan is your go-signal, so do not \
                         stop to ask whether to proceed or wait for another message.";

impl Call<'_> {
    pub(crate) async fn ask_user(&self, args: Value) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        if shared.settings.lock().ask_by_form {
            return Ok(self.ask_by_form(args).await);
        }
        let Some(question) = args["question"].as_str().map(str::to_owned) else {
            return Ok(Outcome::failed("ask_user needs a `question`.", "failure"));
        };
        let choices: Option<Vec<String>> = args["choices"]
            .as_array()
            .map(|choices| {
                choices
                    .iter()
                    .filter_map(|choice| choice.as_str().map(str::to_owned))
                    .collect()
            })
            .filter(|choices: &Vec<String>| !choices.is_empty());
        let allow_freeform = args["allow_freeform"].as_bool().unwrap_or(true);
        let request_id = self.request_id("user_input");
        let asked = Question::new(
            &request_id,
            QuestionKind::UserInput,
            Some(self.id),
            &args,
            question.clone(),
        );
        if let Some(Answer::UserInput(answer)) = shared.earlier_answer(&asked) {
            return self.user_answered(request_id, &answer);
        }
        let waiting = shared.open_question(asked)?;
        let event = shared.recorder.record(UserInputRequested {
            request_id: request_id.clone(),
            question: question.clone(),
            choices: choices.clone(),
            allow_freeform: Some(allow_freeform),
            tool_call_id: Some(self.id.into()),
        })?;
        shared.pending.asked(&request_id, event);
        for client in shared.clients.lock().calls(|can| can.user_input) {
            let (shared, request_id) = (shared.clone(), request_id.clone());
            let asked = client.user_input(UserInputQuestion {
                request_id: request_id.clone(),
                question: question.clone(),
                choices: choices.clone(),
                allow_freeform,
            });
            tokio::spawn(async move {
                if let Some(answer) = asked.await {
                    shared.answer_of_client(&request_id, Answer::UserInput(answer));
                }
            });
        }
        let Ok(Answer::UserInput(answer)) = waiting.await else {
            return Ok(Outcome::failed("Nobody answered the question.", "failure"));
        };
        self.user_answered(request_id, &answer)
    }

    fn user_answered(&self, request_id: String, answer: &UserInputAnswer) -> Result<Outcome, Stop> {
        self.turn.shared.recorder.record(UserInputCompleted {
            request_id,
            answer: Some(answer.answer.clone()),
            was_freeform: Some(answer.was_freeform),
        })?;
        let said = if answer.was_freeform { "responded" } else { "selected" };
        Ok(Outcome::text(format!("User {said}: {}", answer.answer)))
    }

    async fn ask_by_form(&self, args: Value) -> Outcome {
        let (Some(message), Some(_)) = (
            args["message"].as_str(),
            args["requestedSchema"]["properties"].as_object(),
        ) else {
            let needed = "ask_user needs a `message` and a `requestedSchema` with `properties`.";
            return Outcome::failed(needed, "failure");
        };
        let form = Elicitation {
            message: message.to_owned(),
            schema: Some(args["requestedSchema"].clone()),
            url: None,
            call_id: Some(self.id.to_owned()),
        };
        let Some(asked) = self.turn.shared.ask_form(None, Some(self.request_id("form")), form) else {
            return Outcome::failed("Nobody who could answer is connected.", "failure");
        };
        let answer = asked.await;
        Outcome::text(match answer.action.as_str() {
            "accept" => format!("User responded: {}", answer.content.unwrap_or_else(|| json!({}))),
            "decline" => "User declined to answer.".to_owned(),
            _ => "User dismissed the question without an answer.".to_owned(),
        })
    }

    pub(crate) async fn exit_plan_mode(&self, args: Value) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        let actions: Vec<String> = match args["actions"].as_array() {
            Some(actions) => actions
                .iter()
                .filter_map(|action| action.as_str().map(str::to_owned))
                .collect(),
            None => ["interactive", "autopilot", "exit_only"].map(str::to_owned).to_vec(),
        };
        let recommended = args["recommendedAction"].as_str().map(str::to_owned);
        let recommended_action = recommended
            .or_else(|| actions.first().cloned())
            .unwrap_or_else(|| "interactive".into());
        let question = ExitPlanQuestion {
            request_id: self.request_id("exit_plan_mode"),
            summary: args["summary"].as_str().unwrap_or_default().into(),
            plan_content: std::fs::read_to_string(shared.plan_path()).unwrap_or_default(),
            actions,
            recommended_action,
        };
        let asked = Question::new(
            &question.request_id,
            QuestionKind::ExitPlan,
            Some(self.id),
            &(&question.summary, &question.plan_content, &question.actions),
            question.summary.clone(),
        );
        if let Some(Answer::ExitPlan(answer)) = shared.earlier_answer(&asked) {
            return self.plan_answered(question.request_id, answer);
        }
        let shown = ExitPlanModeRequested {
            request_id: question.request_id.clone(),
            summary: question.summary.clone(),
            plan_content: question.plan_content.clone(),
            actions: question.actions.iter().map(|action| action.as_str().into()).collect(),
            recommended_action: question.recommended_action.as_str().into(),
            model: Some(self.turn.model().info().id.clone()),
        };
        let waiting = shared.open_question(asked.showing(&shown))?;
        let event = shared.recorder.record(shown)?;
        shared.pending.asked(&question.request_id, event);
        for client in shared.clients.lock().calls(|can| can.exit_plan_mode) {
            let asked = client.exit_plan_mode(question.clone());
            let (shared, request_id) = (shared.clone(), question.request_id.clone());
            tokio::spawn(async move {
                if let Some(answer) = asked.await {
                    shared.answer_of_client(&request_id, Answer::ExitPlan(answer));
                }
            });
        }
        let answer = match waiting.await {
            Ok(Answer::ExitPlan(answer)) => answer,
            _ => ExitPlanAnswer::default(),
        };
        self.plan_answered(question.request_id, answer)
    }

    fn plan_answered(&self, request_id: String, mut answer: ExitPlanAnswer) -> Result<Outcome, Stop> {
        answer.selected_action = answer.action().map(str::to_owned);
        self.turn.shared.recorder.record(ExitPlanModeCompleted {
            request_id,
            approved: Some(answer.approved),
            selected_action: answer.selected_action.as_deref().map(Into::into),
            auto_approve_edits: answer.auto_approve_edits,
            feedback: answer.feedback.clone(),
        })?;
        self.leave_plan_mode(answer)
    }

    /// What the answer changes, and what the model is told of it.
    fn leave_plan_mode(&self, answer: ExitPlanAnswer) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        let feedback = answer.feedback.filter(|feedback| !feedback.is_empty());
        if !answer.approved {
            return Ok(Outcome::text(match feedback {
                Some(feedback) => format!("The user did not approve the plan. Feedback: {feedback}"),
                None => "The user did not approve the plan. Stay in plan mode.".into(),
            }));
        }
        let action = answer.selected_action.as_deref();
        let mode = match action {
            Some("autopilot" | "autopilot_fleet") => Mode::Autopilot,
            _ => Mode::Interactive,
        };
        let approval = shared.approval();
        if answer.auto_approve_edits == Some(true) && matches!(approval, Approval::Ask | Approval::AutoSafe) {
            shared.change_approval(Approval::AutoEdit)?;
        }
        shared.set_mode(mode)?;
        // In the words of the Copilot CLI; what the person said to it is in `exit_plan_mode.completed`.
        let mut text = format!(
            "Plan approved! Exited plan mode.\n\nYou are now in {} mode. {}",
            mode.as_str(),
            match action {
                Some("exit_only") => "Do not begin with it yet: end your turn and wait for the user.",
                _ => START_NOW,
            }
        );
        if let Some(feedback) = feedback.filter(|_| action == Some("exit_only")) {
            text = format!("{text}\n\nFeedback: {feedback}");
        }
        Ok(Outcome::text(text))
    }

    pub(crate) fn task_complete(&self, args: Value) -> Result<Outcome, Stop> {
        let summary = args["summary"].as_str().map(str::to_owned);
        let text = summary.clone().unwrap_or_else(|| "Task complete.".into());
        self.turn.shared.recorder.record(SessionTaskComplete {
            summary,
            ..SessionTaskComplete::default()
        })?;
        self.turn.task_done.store(true, Ordering::Relaxed);
        let mut outcome = Outcome::text(text);
        if let Outcome::Done(done) = &mut outcome {
            done.telemetry = Some(json!({"properties": {"outcome": "complete"}}));
        }
        Ok(outcome)
    }
}
