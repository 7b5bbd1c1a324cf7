//! The open questions for the line client: one at a time, answered by a line. The first answer from any client counts.

use std::collections::{HashMap, HashSet};

use ahp::ahp_types::{
    StateAction, Uri,
    actions::{ChatInputCompletedAction, ChatToolCallConfirmedAction, ChatToolCallResultConfirmedAction},
    state::{
        ChatInputAnswer, ChatInputAnswerValue, ChatInputQuestion, ChatInputRequest, ChatInputResponseKind,
        ConfirmationOption, ConfirmationOptionKind, SessionInputRequest, ToolCallCancellationReason,
        ToolCallConfirmationReason, ToolCallConfirmationState, ToolInput,
    },
};

use super::form::{self, Filled};
use crate::edits::Edit;

/// A question that is being asked.
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) chat: Uri,
    pub(crate) about: About,
}

pub(crate) enum About {
    /// Whether a tool may run.
    Call {
        turn: String,
        call: String,
        options: Vec<ConfirmationOption>,
    },
    /// Whether the result of a call may be used.
    Result { turn: String, call: String },
    /// A form, whose questions are asked one by one.
    Form {
        request: Box<ChatInputRequest>,
        answers: HashMap<String, ChatInputAnswer>,
        next: usize,
    },
}

/// The open questions.
#[derive(Default)]
pub struct Asker {
    asked: Option<Asked>,
    /// Ids of questions that were answered here; the host has not confirmed the answers yet.
    answered: HashSet<String>,
    /// Whether the current question was answered elsewhere, so that a line that is being typed may be meant for it.
    pub overtaken: bool,
}

/// The result of a typed line.
pub enum Reply {
    /// An answer: dispatch this to the chat.
    Answer(Uri, Box<StateAction>),
    /// The next part of the form.
    More(String),
    /// The line could not be understood; the text says why.
    Again(String),
    /// The line is no answer to this kind of question.
    None,
}

/// A decision about a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Allow it this time.
    Yes,
    /// Allow it from now on.
    Always,
    /// Deny it, perhaps with a reason.
    No(Option<String>),
    /// Choose the option with this number.
    Option(usize),
}

impl Verdict {
    /// Reads a line. None if it is not a decision.
    pub fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        let (word, rest) = line.split_once([' ', ',']).unwrap_or((line, ""));
        let rest = rest.trim_start_matches([' ', ',']).trim();
        match word.to_lowercase().as_str() {
            "y" | "yes" if rest.is_empty() => Some(Self::Yes),
            "a" | "always" if rest.is_empty() => Some(Self::Always),
            "n" | "no" => Some(Self::No((!rest.is_empty()).then(|| rest.to_owned()))),
            word if rest.is_empty() => word.parse().ok().map(Self::Option),
            _ => None,
        }
    }
}

impl Asker {
    /// Whether a question is being asked.
    pub fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// The id of the form that is being filled in, if any.
    pub fn form(&self) -> Option<&str> {
        match &self.asked.as_ref()?.about {
            About::Form { request, .. } => Some(&request.id),
            _ => None,
        }
    }

    /// Forgets all questions, because another session is shown.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes that an answer was refused, so the question may still be open.
    pub fn refused(&mut self) {
        self.answered.clear();
    }

    /// Updates the questions. Returns the next one if it must be asked.
    pub fn follow(&mut self, needed: &[SessionInputRequest]) -> Option<String> {
        self.answered.retain(|id| {
            needed
                .iter()
                .any(|request| key(request).is_some_and(|(key, _)| key == id))
        });
        if let Some(asked) = &self.asked {
            if needed
                .iter()
                .any(|request| key(request).is_some_and(|(key, _)| key == asked.id))
            {
                return None;
            }
            self.asked = None;
            self.overtaken = true;
        }
        let next = needed
            .iter()
            .find(|request| key(request).is_some_and(|(key, _)| !self.answered.contains(key)))?;
        let (asked, text) = ask(next)?;
        self.asked = Some(asked);
        Some(text)
    }

    /// Reads a typed line as an answer.
    pub fn read(&mut self, line: &str) -> Reply {
        let reply = self.asked.as_mut().map_or(Reply::None, |asked| asked.read(line));
        self.settle(reply)
    }

    /// Decides about a tool call.
    pub fn decide(&mut self, verdict: Verdict) -> Reply {
        let reply = self.asked.as_mut().map_or(Reply::None, |asked| asked.decide(verdict));
        self.settle(reply)
    }

    fn settle(&mut self, reply: Reply) -> Reply {
        if matches!(reply, Reply::Answer(..)) {
            self.answered.extend(self.asked.take().map(|asked| asked.id));
        }
        reply
    }
}

impl Asked {
    /// Reads a line as an answer.
    pub(crate) fn read(&mut self, line: &str) -> Reply {
        if let About::Form { request, answers, next } = &mut self.about {
            let Some(question) = request.questions.iter().flatten().nth(*next) else {
                // There is only a page to open.
                return match Verdict::read(line) {
                    Some(Verdict::Yes) => self.complete(ChatInputResponseKind::Accept),
                    Some(Verdict::No(_)) => self.complete(ChatInputResponseKind::Decline),
                    _ => Reply::Again("Please answer y or n.".to_owned()),
                };
            };
            match form::read(question, line) {
                Filled::With(answer) => answers.extend(form::id(question).map(|id| (id.to_owned(), answer))),
                Filled::Skip => {}
                Filled::Wrong(why) => return Reply::Again(why),
            }
            *next += 1;
            return match request.questions.iter().flatten().nth(*next) {
                Some(question) => Reply::More(form::text(question)),
                None => self.complete(ChatInputResponseKind::Accept),
            };
        }
        match Verdict::read(line) {
            Some(verdict) => self.decide(verdict),
            None => Reply::None,
        }
    }

    /// Decides about a tool call.
    pub(crate) fn decide(&mut self, verdict: Verdict) -> Reply {
        let (turn_id, tool_call_id, options) = match &self.about {
            About::Form { .. } => {
                return match verdict {
                    Verdict::No(_) => self.complete(ChatInputResponseKind::Decline),
                    _ => Reply::Again("Please answer the question above; /deny declines.".to_owned()),
                };
            }
            About::Result { turn, call } => {
                let approved = match verdict {
                    Verdict::Yes | Verdict::Always => true,
                    Verdict::No(_) => false,
                    Verdict::Option(_) => return Reply::Again("Please answer y or n.".to_owned()),
                };
                let action = ChatToolCallResultConfirmedAction {
                    turn_id: turn.clone(),
                    tool_call_id: call.clone(),
                    meta: None,
                    approved,
                };
                return self.answer(StateAction::ChatToolCallResultConfirmed(action));
            }
            About::Call { turn, call, options } => (turn.clone(), call.clone(), options),
        };
        let (approved, option, why) = match verdict {
            Verdict::Yes => (true, None, None),
            Verdict::Always => match always(options) {
                Some(option) => (true, Some(option.id.clone()), None),
                None => {
                    return Reply::Again("That cannot always be allowed here; please answer y or n.".to_owned());
                }
            },
            Verdict::No(why) => (false, None, why),
            Verdict::Option(number) => match number.checked_sub(1).and_then(|at| options.get(at)) {
                Some(option) => (
                    option.kind == ConfirmationOptionKind::Approve,
                    Some(option.id.clone()),
                    None,
                ),
                None => return Reply::Again("There is no such choice.".to_owned()),
            },
        };
        let action = ChatToolCallConfirmedAction {
            turn_id,
            tool_call_id,
            meta: None,
            approved,
            confirmed: approved.then_some(ToolCallConfirmationReason::UserAction),
            reason: (!approved).then_some(ToolCallCancellationReason::Denied),
            edited_tool_input: None,
            user_suggestion: None,
            reason_message: why.map(Into::into),
            selected_option_id: option,
        };
        self.answer(StateAction::ChatToolCallConfirmed(action))
    }

    fn complete(&mut self, response: ChatInputResponseKind) -> Reply {
        let About::Form { request, answers, .. } = &mut self.about else {
            return Reply::None;
        };
        let answers = std::mem::take(answers);
        let action = ChatInputCompletedAction {
            request_id: request.id.clone(),
            response,
            answers: (!answers.is_empty()).then_some(answers),
        };
        self.answer(StateAction::ChatInputCompleted(action))
    }

    fn answer(&self, action: StateAction) -> Reply {
        Reply::Answer(self.chat.clone(), Box::new(action))
    }
}

/// The id and the chat of a question that people can answer.
pub(crate) fn key(request: &SessionInputRequest) -> Option<(&str, &Uri)> {
    match request {
        SessionInputRequest::ChatInput(request) => Some((&request.id, &request.chat)),
        SessionInputRequest::ToolConfirmation(request) => Some((&request.id, &request.chat)),
        SessionInputRequest::ToolClientExecution(_)
        | SessionInputRequest::ToolAuthentication(_)
        | SessionInputRequest::Unknown(_) => None,
    }
}

fn always(options: &[ConfirmationOption]) -> Option<&ConfirmationOption> {
    let mut approving = options
        .iter()
        .filter(|option| option.kind == ConfirmationOptionKind::Approve);
    approving.nth(1)
}

/// Makes a question and its text.
pub(crate) fn ask(request: &SessionInputRequest) -> Option<(Asked, String)> {
    let (id, chat) = key(request).map(|(id, chat)| (id.to_owned(), chat.clone()))?;
    let (about, text) = match request {
        SessionInputRequest::ToolConfirmation(needed) => confirmation(&needed.turn_id, &needed.tool_call)?,
        SessionInputRequest::ChatInput(needed) => {
            let mut request = needed.request.clone();
            let answers = request.answers.take().unwrap_or_default();
            let questions = request.questions.as_deref().unwrap_or_default();
            let mut text = format!("? {}", form::asked(&request));
            if let Some(url) = &request.url {
                text.push_str(&format!("\n  {url}"));
            }
            match questions.first() {
                None => text.push_str("\n  y yes · n no"),
                // If a form has one question, that is often the form's own message.
                Some(first) => {
                    let first = form::text(first);
                    let same = first.lines().next() == form::asked(&request).lines().next();
                    for line in first.lines().skip(usize::from(same && questions.len() == 1)) {
                        text.push_str(&format!("\n  {line}"));
                    }
                }
            }
            let about = About::Form {
                request: Box::new(request),
                answers,
                next: 0,
            };
            (about, text)
        }
        _ => return None,
    };
    Some((Asked { id, chat, about }, text))
}

fn confirmation(turn: &str, call: &ToolCallConfirmationState) -> Option<(About, String)> {
    match call {
        ToolCallConfirmationState::PendingConfirmation(call) => {
            let title = call.confirmation_title.as_ref().unwrap_or(&call.invocation_message);
            let mut text = format!("? {}", title.as_text());
            if let Some(intention) = call.intention.as_ref().filter(|intention| !intention.is_empty()) {
                text.push_str(&format!("  ({intention})"));
            }
            match &call.tool_input {
                Some(ToolInput::Inline(input)) => match Edit::read(input) {
                    Some(edit) => text.push_str(&indented(&edit.text())),
                    None => text.push_str(&indented(input)),
                },
                Some(ToolInput::ContentRef(input)) => text.push_str(&format!("\n    {}", input.uri)),
                None => {}
            }
            let options = call.options.clone().unwrap_or_default();
            text.push_str("\n  y yes · n no");
            if let Some(option) = always(&options) {
                text.push_str(&format!(" · a {}", option.label.to_lowercase()));
            }
            let about = About::Call {
                turn: turn.to_owned(),
                call: call.tool_call_id.clone(),
                options,
            };
            Some((about, text))
        }
        ToolCallConfirmationState::PendingResultConfirmation(call) => {
            let text = format!(
                "? {}. Use the result?\n  y yes · n no",
                call.past_tense_message.as_text()
            );
            let about = About::Result {
                turn: turn.to_owned(),
                call: call.tool_call_id.clone(),
            };
            Some((about, text))
        }
        ToolCallConfirmationState::Unknown(_) => None,
    }
}

fn indented(input: &str) -> String {
    input.lines().map(|line| format!("\n    {line}")).collect()
}

/// The answer as text, for clients that did not give it.
pub fn answer_words(request: &ChatInputRequest, response: &ChatInputResponseKind) -> String {
    match response {
        ChatInputResponseKind::Decline => return "declined".to_owned(),
        ChatInputResponseKind::Cancel => return "not answered".to_owned(),
        ChatInputResponseKind::Accept => {}
    }
    let labelled = |chosen: String| {
        let options = request.questions.iter().flatten().flat_map(|question| match question {
            ChatInputQuestion::SingleSelect(question) => question.options.as_slice(),
            _ => &[],
        });
        let mut labels = options.filter(|option| option.id == chosen);
        labels.next().map_or(chosen.clone(), |option| option.label.clone())
    };
    let mut answers: Vec<(&String, String)> = request
        .answers
        .iter()
        .flatten()
        .map(|(id, answer)| (id, labelled(value(answer))))
        .collect();
    answers.sort();
    match answers.as_slice() {
        [] => "answered".to_owned(),
        [(_, only)] => only.clone(),
        many => many
            .iter()
            .map(|(id, value)| format!("{id}: {value}"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn value(answer: &ChatInputAnswer) -> String {
    let answered = match answer {
        ChatInputAnswer::Draft(answered) | ChatInputAnswer::Submitted(answered) => answered,
        ChatInputAnswer::Skipped(_) => return "(skipped)".to_owned(),
    };
    let with = |value: &str, typed: &Option<Vec<String>>| {
        let all: Vec<&str> = std::iter::once(value)
            .chain(typed.iter().flatten().map(String::as_str))
            .collect();
        all.into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match &answered.value {
        ChatInputAnswerValue::Text(text) => text.value.clone(),
        ChatInputAnswerValue::Number(number) => number.value.to_string(),
        ChatInputAnswerValue::Boolean(boolean) => if boolean.value { "yes" } else { "no" }.to_owned(),
        ChatInputAnswerValue::Selected(chosen) => with(&chosen.value, &chosen.freeform_values),
        ChatInputAnswerValue::SelectedMany(many) => with(&many.value.join(", "), &many.freeform_values),
        ChatInputAnswerValue::Unknown(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_yes_or_no_or_something_else() {
        for (line, expected) in [
            ("y", Some(Verdict::Yes)),
            (" YES ", Some(Verdict::Yes)),
            ("a", Some(Verdict::Always)),
            ("n", Some(Verdict::No(None))),
            (
                "no, use the other file",
                Some(Verdict::No(Some("use the other file".into()))),
            ),
            ("2", Some(Verdict::Option(2))),
            ("yes but only once", None),
            ("north", None),
            ("", None),
        ] {
            assert_eq!(Verdict::read(line), expected, "{line:?}");
        }
    }
}
