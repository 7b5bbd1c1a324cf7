//! Questions to people: asked as a part of the turn, answered by whoever is first.

use std::collections::HashMap;

use ahp_types::{
    StateAction,
    actions::{ChatInputCompletedAction, ChatInputRequestedAction},
    state::{
        ChatInputAnswer, ChatInputAnswerValue, ChatInputAnswered, ChatInputBooleanAnswerValue,
        ChatInputBooleanQuestion, ChatInputMultiSelectQuestion, ChatInputNumberAnswerValue, ChatInputNumberQuestion,
        ChatInputOption, ChatInputQuestion, ChatInputRequest, ChatInputResponseKind, ChatInputSelectedAnswerValue,
        ChatInputSelectedManyAnswerValue, ChatInputSingleSelectQuestion, ChatInputTextAnswerValue,
        ChatInputTextQuestion,
    },
};
use lodge_events::{
    AskedKind, ElicitationRequested, Event, ExitPlanModeRequested, LodgeAnswered, LodgeQuestion, Payload,
    UserInputRequested,
};
use lodge_host::{ElicitationAnswer, ExitPlanAnswer, UserInputAnswer, form_choices, tool_calls::plan_action_label};
use serde_json::Value;

use super::{Projector, Scope};

/// The one question of `user_input.requested` and `exit_plan_mode.requested`.
const ANSWER: &str = "answer";

/// An open question, and what its answer has to look like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Question {
    /// May this tool call run?
    Permission { tool_call_id: String },
    /// What does the client's tool say?
    Tool { tool_call_id: String },
    /// Who signs in to the server of this tool call?
    SignIn { tool_call_id: String },
    /// A question with a text for an answer.
    UserInput,
    /// A form.
    Elicitation {
        /// The tool call that waits for it.
        call: Option<String>,
        /// The fields that are answered by choosing.
        choices: Vec<String>,
    },
    /// What shall become of the plan?
    ExitPlan,
}

impl Question {
    /// The tool call that a question is about.
    pub(crate) fn tool_call_id(&self) -> Option<&str> {
        match self {
            Self::Permission { tool_call_id } | Self::Tool { tool_call_id } | Self::SignIn { tool_call_id } => {
                Some(tool_call_id)
            }
            Self::UserInput | Self::Elicitation { .. } | Self::ExitPlan => None,
        }
    }
}

impl Projector {
    /// Takes an event about questions to people. Others are nothing that clients see.
    pub(super) fn input_event(&mut self, event: &Event) {
        let scope = || self.scope(event, None);
        match event.payload() {
            Payload::UserInputRequested(asked) => {
                let scope = scope();
                self.ask(scope, &asked.request_id, Question::UserInput, user_input(asked));
            }
            // The log has said it already.
            Payload::ElicitationRequested(asked) if self.questions.contains_key(&asked.request_id) => {}
            Payload::ExitPlanModeRequested(asked) if self.questions.contains_key(&asked.request_id) => {}
            Payload::ElicitationRequested(asked) => {
                let scope = scope();
                self.ask_form(scope, asked);
            }
            Payload::ExitPlanModeRequested(asked) => {
                let scope = scope();
                self.ask(scope, &asked.request_id, Question::ExitPlan, exit_plan(asked));
            }
            Payload::LodgeQuestion(asked) => {
                let scope = scope();
                self.recorded_question(scope, asked);
            }
            Payload::LodgeAnswered(answered) => {
                // Answers are recorded for the session, also where a sub-agent asked.
                let call = answered.tool_call_id.as_ref().and_then(|id| self.calls.get(id));
                let scope = call.map(|call| call.scope.clone()).or_else(scope);
                self.answered.insert(answered.request_id.clone());
                self.recorded_answer(scope, answered);
            }
            // Nobody answered, and the agent does not wait any more: the question stays in its turn as it was.
            Payload::UserInputCompleted(done) if done.answer.is_none() && !self.answered.contains(&done.request_id) => {
                self.questions.remove(&done.request_id);
            }
            Payload::ExitPlanModeCompleted(done)
                if done.approved.is_none() && !self.answered.contains(&done.request_id) =>
            {
                self.questions.remove(&done.request_id);
            }
            Payload::UserInputCompleted(done) => {
                let scope = scope();
                let answers = done.answer.as_ref().map(|answer| one_text(answer));
                let response = match answers {
                    Some(_) => ChatInputResponseKind::Accept,
                    None => ChatInputResponseKind::Cancel,
                };
                self.answered(scope, &done.request_id, response, answers);
            }
            Payload::ElicitationCompleted(done) => {
                let scope = scope();
                let action = done.action.as_ref().map(lodge_events::ElicitationAction::as_str);
                self.answered(scope, &done.request_id, response_to_form(action), None);
            }
            Payload::ExitPlanModeCompleted(done) => {
                let scope = scope();
                let answer = ExitPlanAnswer {
                    approved: done.approved == Some(true),
                    selected_action: done.selected_action.as_ref().map(|action| action.as_str().to_owned()),
                    auto_approve_edits: done.auto_approve_edits,
                    feedback: done.feedback.clone(),
                };
                let (response, answers) = answer_to_plan(&answer);
                self.answered(scope, &done.request_id, response, answers);
            }
            _ => {}
        }
    }

    /// Shows a question as the log has it.
    fn recorded_question(&mut self, scope: Option<Scope>, asked: &LodgeQuestion) {
        let shown = || asked.shown.clone();
        match asked.kind {
            // Live clients are told by the event that follows. It says what the call says.
            AskedKind::UserInput if self.reading => {
                self.ask_again(scope, &asked.request_id, asked.tool_call_id.as_deref());
            }
            AskedKind::Elicitation => {
                if let Some(form) = shown().and_then(|form| serde_json::from_value(form).ok()) {
                    self.ask_form(scope, &form);
                }
            }
            AskedKind::ExitPlanMode => {
                if let Some(plan) = shown().and_then(|plan| serde_json::from_value(plan).ok()) {
                    self.ask(scope, &asked.request_id, Question::ExitPlan, exit_plan(&plan));
                }
            }
            _ => {}
        }
    }

    /// Shows an answer as the log has it. Answers to forms of servers are not in it.
    fn recorded_answer(&mut self, scope: Option<Scope>, answered: &LodgeAnswered) {
        let (id, answer) = (&answered.request_id, || answered.answer.clone());
        match answered.kind {
            AskedKind::UserInput => {
                let Some(asked) = self.ask_again(scope.clone(), id, answered.tool_call_id.as_deref()) else {
                    return;
                };
                let Ok(UserInputAnswer { answer, .. }) = serde_json::from_value(answer()) else {
                    return;
                };
                if answer == UserInputAnswer::left_open().answer {
                    return self.answered(scope, id, ChatInputResponseKind::Cancel, None);
                }
                let was_choice = asked.choices.iter().flatten().any(|choice| *choice == answer);
                let answers = if was_choice {
                    one_selected(&answer)
                } else {
                    one_text(&answer)
                };
                self.answered(scope, id, ChatInputResponseKind::Accept, Some(answers));
            }
            AskedKind::Elicitation => {
                let Some(Question::Elicitation { choices, .. }) = self.questions.get(id) else {
                    return;
                };
                let Ok(ElicitationAnswer { action, content }) = serde_json::from_value(answer()) else {
                    return;
                };
                let answers = content.and_then(|content| answers_to_form(&content, choices));
                self.answered(scope, id, response_to_form(Some(&action)), answers);
            }
            AskedKind::ExitPlanMode if self.questions.contains_key(id) => {
                if let Ok(answer) = serde_json::from_value(answer()) {
                    let (response, answers) = answer_to_plan(&answer);
                    self.answered(scope, id, response, answers);
                }
            }
            _ => {}
        }
    }

    fn ask_form(&mut self, scope: Option<Scope>, form: &ElicitationRequested) {
        let request = elicitation(form);
        let chosen = request
            .questions
            .iter()
            .flatten()
            .filter_map(|question| match question {
                ChatInputQuestion::SingleSelect(field) => Some(field.id.clone()),
                _ => None,
            });
        let question = Question::Elicitation {
            call: form.tool_call_id.clone(),
            choices: chosen.collect(),
        };
        self.ask(scope, &form.request_id, question, request);
    }

    /// Nobody answered the forms of this call before it ended.
    pub(super) fn forms_end(&mut self, call: &str) {
        let mut open: Vec<String> = Vec::new();
        for (id, question) in &self.questions {
            if matches!(question, Question::Elicitation { call: Some(of), .. } if of == call) {
                open.push(id.clone());
            }
        }
        for id in open {
            let scope = self.calls.get(call).map(|call| call.scope.clone());
            self.answered(scope, &id, ChatInputResponseKind::Cancel, None);
        }
    }

    fn ask(&mut self, scope: Option<Scope>, id: &str, question: Question, request: ChatInputRequest) {
        let Some(scope) = scope else { return };
        self.questions.insert(id.to_owned(), question);
        if self.running_turn(&scope).is_some() {
            self.act(
                &scope,
                StateAction::ChatInputRequested(ChatInputRequestedAction { request }),
            );
        }
    }

    /// Shows a question of the log, unless it is shown already.
    fn ask_again(&mut self, scope: Option<Scope>, id: &str, call: Option<&str>) -> Option<UserInputRequested> {
        let asked = asked_by(id, &self.calls.get(call?)?.arguments);
        if !self.questions.contains_key(id) {
            self.ask(scope, id, Question::UserInput, user_input(&asked));
        }
        Some(asked)
    }

    fn answered(
        &mut self,
        scope: Option<Scope>,
        id: &str,
        response: ChatInputResponseKind,
        answers: Option<HashMap<String, ChatInputAnswer>>,
    ) {
        let Some(scope) = scope else { return };
        self.questions.remove(id);
        let action = ChatInputCompletedAction {
            request_id: id.to_owned(),
            response,
            answers,
        };
        self.act(&scope, StateAction::ChatInputCompleted(action));
    }
}

fn one_text(answer: &str) -> HashMap<String, ChatInputAnswer> {
    let value = ChatInputAnswerValue::Text(ChatInputTextAnswerValue {
        value: answer.to_owned(),
    });
    HashMap::from([(
        ANSWER.to_owned(),
        ChatInputAnswer::Submitted(ChatInputAnswered { value }),
    )])
}

fn one_selected(answer: &str) -> HashMap<String, ChatInputAnswer> {
    let value = ChatInputSelectedAnswerValue {
        value: answer.to_owned(),
        freeform_values: None,
    };
    let value = ChatInputAnswerValue::Selected(value);
    HashMap::from([(
        ANSWER.to_owned(),
        ChatInputAnswer::Submitted(ChatInputAnswered { value }),
    )])
}

fn option(id: &str, label: &str, recommended: bool) -> ChatInputOption {
    ChatInputOption {
        id: id.to_owned(),
        label: label.to_owned(),
        description: None,
        recommended: recommended.then_some(true),
    }
}

fn request(id: &str, message: &str, questions: Vec<ChatInputQuestion>) -> ChatInputRequest {
    ChatInputRequest {
        id: id.to_owned(),
        message: Some(message.to_owned()),
        url: None,
        questions: Some(questions),
        answers: None,
    }
}

/// What a call of `ask_user` asks.
fn asked_by(request_id: &str, arguments: &Value) -> UserInputRequested {
    let choices = arguments["choices"].as_array().map(|choices| {
        let texts = choices.iter().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    });
    UserInputRequested {
        request_id: request_id.to_owned(),
        question: arguments["question"].as_str().unwrap_or_default().to_owned(),
        choices,
        allow_freeform: arguments["allow_freeform"].as_bool(),
        ..UserInputRequested::default()
    }
}

fn response_to_form(action: Option<&str>) -> ChatInputResponseKind {
    match action {
        Some("decline") => ChatInputResponseKind::Decline,
        Some("cancel") => ChatInputResponseKind::Cancel,
        _ => ChatInputResponseKind::Accept,
    }
}

/// What the fields of a form hold, as answers to its questions.
fn answers_to_form(content: &Value, choices: &[String]) -> Option<HashMap<String, ChatInputAnswer>> {
    let fields = content.as_object()?.iter().filter_map(|(name, value)| {
        let value = match value {
            Value::String(text) if choices.contains(name) => {
                ChatInputAnswerValue::Selected(ChatInputSelectedAnswerValue {
                    value: text.clone(),
                    freeform_values: None,
                })
            }
            Value::String(text) => ChatInputAnswerValue::Text(ChatInputTextAnswerValue { value: text.clone() }),
            Value::Bool(value) => ChatInputAnswerValue::Boolean(ChatInputBooleanAnswerValue { value: *value }),
            Value::Number(number) => ChatInputAnswerValue::Number(ChatInputNumberAnswerValue {
                value: number.as_f64()?,
            }),
            Value::Array(chosen) => ChatInputAnswerValue::SelectedMany(ChatInputSelectedManyAnswerValue {
                value: chosen
                    .iter()
                    .filter_map(|one| one.as_str().map(str::to_owned))
                    .collect(),
                freeform_values: None,
            }),
            Value::Null | Value::Object(_) => return None,
        };
        Some((name.clone(), ChatInputAnswer::Submitted(ChatInputAnswered { value })))
    });
    Some(fields.collect()).filter(|answers: &HashMap<_, _>| !answers.is_empty())
}

/// What somebody said to a plan. What is typed instead of chosen is what shall change about it.
fn answer_to_plan(answer: &ExitPlanAnswer) -> (ChatInputResponseKind, Option<HashMap<String, ChatInputAnswer>>) {
    let answers = match (answer.action(), &answer.feedback) {
        (Some(action), _) => Some(one_selected(action)),
        (None, Some(feedback)) => Some(one_text(feedback)),
        (None, None) => None,
    };
    let response = match answers {
        Some(_) => ChatInputResponseKind::Accept,
        None => ChatInputResponseKind::Decline,
    };
    (response, answers)
}

/// The question says what is asked; the request does not say it again.
fn user_input(asked: &UserInputRequested) -> ChatInputRequest {
    let message = asked.question.clone();
    let question = match asked.choices.as_ref().filter(|choices| !choices.is_empty()) {
        Some(choices) => ChatInputQuestion::SingleSelect(ChatInputSingleSelectQuestion {
            id: ANSWER.to_owned(),
            title: None,
            message,
            required: Some(true),
            options: choices.iter().map(|choice| option(choice, choice, false)).collect(),
            allow_freeform_input: Some(asked.allow_freeform.unwrap_or(true)),
        }),
        None => ChatInputQuestion::Text(text_question(ANSWER, None, message, true)),
    };
    ChatInputRequest {
        message: None,
        ..request(&asked.request_id, "", vec![question])
    }
}

fn text_question(id: &str, title: Option<String>, message: String, required: bool) -> ChatInputTextQuestion {
    ChatInputTextQuestion {
        id: id.to_owned(),
        title,
        message,
        required: required.then_some(true),
        format: None,
        min: None,
        max: None,
        default_value: None,
    }
}

fn exit_plan(asked: &ExitPlanModeRequested) -> ChatInputRequest {
    let options = asked.actions.iter().map(|action| {
        option(
            action.as_str(),
            plan_action_label(action),
            *action == asked.recommended_action,
        )
    });
    let question = ChatInputQuestion::SingleSelect(ChatInputSingleSelectQuestion {
        id: ANSWER.to_owned(),
        title: Some("Plan".to_owned()),
        message: asked.plan_content.clone(),
        required: Some(true),
        options: options.collect(),
        allow_freeform_input: Some(true),
    });
    request(&asked.request_id, &asked.summary, vec![question])
}

fn elicitation(asked: &ElicitationRequested) -> ChatInputRequest {
    let mut made = request(&asked.request_id, &asked.message, Vec::new());
    made.url.clone_from(&asked.url);
    made.questions = asked.requested_schema.as_ref().map(|schema| {
        let required = |name: &str| schema.required.iter().flatten().any(|wanted| wanted == name);
        schema
            .properties
            .iter()
            .map(|(name, field)| question(name, field, required(name)))
            .collect()
    });
    made
}

/// One field of a form.
fn question(name: &str, field: &Value, required: bool) -> ChatInputQuestion {
    let text = |key: &str| field.get(key).and_then(Value::as_str).map(str::to_owned);
    let id = name.to_owned();
    // Editors show both: a field without a description has its title as the question, and no other.
    let (title, message) = match (text("title"), text("description")) {
        (title, Some(description)) => (title, description),
        (title, None) => (None, title.unwrap_or_else(|| name.to_owned())),
    };
    let required_flag = required.then_some(true);
    let (min, max) = (
        field.get("minimum").and_then(Value::as_f64),
        field.get("maximum").and_then(Value::as_f64),
    );
    let number = || ChatInputNumberQuestion {
        id: id.clone(),
        title: title.clone(),
        message: message.clone(),
        required: required_flag,
        min,
        max,
        default_value: field.get("default").and_then(Value::as_f64),
    };
    let options = options(field).or_else(|| options(field.get("items")?));
    match (field.get("type").and_then(Value::as_str), options) {
        (Some("array"), Some(options)) => ChatInputQuestion::MultiSelect(ChatInputMultiSelectQuestion {
            id,
            title,
            message,
            required: required_flag,
            options,
            allow_freeform_input: None,
            min: field.get("minItems").and_then(Value::as_i64),
            max: field.get("maxItems").and_then(Value::as_i64),
        }),
        (_, Some(options)) => ChatInputQuestion::SingleSelect(ChatInputSingleSelectQuestion {
            id,
            title,
            message,
            required: required_flag,
            options,
            allow_freeform_input: None,
        }),
        (Some("boolean"), None) => ChatInputQuestion::Boolean(ChatInputBooleanQuestion {
            id,
            title,
            message,
            required: required_flag,
            default_value: field.get("default").and_then(Value::as_bool),
        }),
        (Some("number"), None) => ChatInputQuestion::Number(number()),
        (Some("integer"), None) => ChatInputQuestion::Integer(number()),
        _ => ChatInputQuestion::Text(ChatInputTextQuestion {
            format: text("format"),
            min: field.get("minLength").and_then(Value::as_i64),
            max: field.get("maxLength").and_then(Value::as_i64),
            default_value: text("default"),
            ..text_question(name, title, message, required)
        }),
    }
}

fn options(field: &Value) -> Option<Vec<ChatInputOption>> {
    let options = form_choices(field);
    let options = options.iter().map(|(value, label)| option(value, label, false));
    Some(options.collect()).filter(|options: &Vec<_>| !options.is_empty())
}

/// A number as JSON that was written as it was meant: whole ones without a point.
pub(crate) fn number_value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

/// What the one answer says, and whether it was typed rather than chosen.
pub(crate) fn one_answer(answers: &HashMap<String, ChatInputAnswer>) -> Option<(String, bool)> {
    let (ChatInputAnswer::Draft(answered) | ChatInputAnswer::Submitted(answered)) = answers.get(ANSWER)? else {
        return None;
    };
    match &answered.value {
        ChatInputAnswerValue::Text(text) => Some((text.value.clone(), true)),
        ChatInputAnswerValue::Selected(selected) if selected.value.is_empty() => {
            let typed = selected.freeform_values.as_ref()?.first()?;
            Some((typed.clone(), true))
        }
        ChatInputAnswerValue::Selected(selected) => Some((selected.value.clone(), false)),
        _ => None,
    }
}
