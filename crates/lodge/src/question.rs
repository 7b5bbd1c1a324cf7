//! Questions on the terminal: one at a time, answered with a typed line.

use std::collections::VecDeque;

use lodge_events::{Event, Payload, PermissionRequest};
use lodge_host::{Answer, ElicitationAnswer, ExitPlanAnswer, PermissionDecision, UserInputAnswer};

use lodge_terminal::Body;

use crate::{
    form::{Filled, Form},
    view::{Asking, plain},
};

enum Question {
    Permission,
    Input { choices: Vec<String>, freeform: bool },
    ExitPlan { actions: Vec<String>, recommended: String },
    Form(Box<Form>),
}

struct Asked {
    request: String,
    asking: Asking,
    question: Question,
}

/// Open questions and typed lines.
pub(crate) struct Asker {
    /// Whether there is a person to ask.
    interactive: bool,
    waiting: VecDeque<Asked>,
    /// Whether the person has seen the first question.
    shown: bool,
    /// Typed lines that have not been used as answers yet.
    typed: VecDeque<String>,
    /// Whether the input has ended.
    ended: bool,
}

impl Asker {
    pub(crate) fn new(interactive: bool) -> Self {
        Self {
            interactive,
            waiting: VecDeque::new(),
            shown: false,
            typed: VecDeque::new(),
            ended: false,
        }
    }

    /// Adds a typed line.
    pub(crate) fn hear(&mut self, line: String) {
        self.typed.push_back(line);
    }

    /// Ends the input: further questions are refused.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// The next question to show to the person.
    pub(crate) fn unseen(&mut self) -> Option<&Asking> {
        let asked = self.waiting.front()?;
        match std::mem::replace(&mut self.shown, true) {
            true => None,
            false => Some(&asked.asking),
        }
    }

    /// Whether a question is open.
    pub(crate) fn is_asking(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next answer, if the typed text is one.
    pub(crate) fn answer(&mut self) -> Option<(String, Answer)> {
        let asked = self.waiting.front_mut().filter(|_| self.shown)?;
        let answer = match self.typed.pop_front() {
            Some(line) => {
                self.shown = false;
                let answer = read_answer(&mut asked.question, line.trim());
                if let Question::Form(form) = &asked.question {
                    asked.asking.prompt = form.text();
                }
                answer?
            }
            None if self.ended => refusal(&asked.question),
            None => return None,
        };
        self.shown = false;
        let asked = self.waiting.pop_front().expect("it is at the front");
        Some((asked.request, answer))
    }

    /// Notes questions, and answers from other clients.
    pub(crate) fn take(&mut self, event: &Event) {
        if !self.interactive {
            return;
        }
        match event.payload() {
            Payload::PermissionRequested(asked) => {
                let (title, body) = describe(&asked.permission_request);
                let asking = Asking {
                    title,
                    body,
                    prompt: "Allow? [y]es, [n]o, [a]lways in this session: ".to_owned(),
                };
                self.ask(&asked.request_id, asking, Question::Permission);
            }
            Payload::UserInputRequested(asked) => {
                let choices = asked.choices.clone().unwrap_or_default();
                let asking = Asking {
                    title: asked.question.clone(),
                    body: Body::None,
                    prompt: numbered(choices.iter().cloned()) + "> ",
                };
                let freeform = asked.allow_freeform.unwrap_or(true);
                self.ask(&asked.request_id, asking, Question::Input { choices, freeform });
            }
            Payload::ExitPlanModeRequested(asked) => {
                let actions: Vec<String> = asked.actions.iter().map(|action| action.as_str().to_owned()).collect();
                let choices = numbered(actions.iter().map(|action| in_words(action)));
                let asking = Asking {
                    title: format!("Plan: {}", asked.summary),
                    body: Body::Markdown(asked.plan_content.trim().to_owned()),
                    prompt: choices + "Go ahead? [y]es, [n]o, a number, or say what to change: ",
                };
                let recommended = asked.recommended_action.as_str().to_owned();
                self.ask(&asked.request_id, asking, Question::ExitPlan { actions, recommended });
            }
            Payload::ElicitationRequested(asked) => {
                let form = Form::of(asked);
                let asking = Asking {
                    title: String::new(),
                    body: Body::None,
                    prompt: form.text(),
                };
                self.ask(&asked.request_id, asking, Question::Form(Box::new(form)));
            }
            Payload::ElicitationCompleted(done) => self.forget(&done.request_id),
            Payload::PermissionCompleted(done) => self.forget(&done.request_id),
            Payload::UserInputCompleted(done) => self.forget(&done.request_id),
            Payload::ExitPlanModeCompleted(done) => self.forget(&done.request_id),
            _ => {}
        }
    }

    fn ask(&mut self, request: &str, asking: Asking, question: Question) {
        self.waiting.push_back(Asked {
            request: request.to_owned(),
            asking,
            question,
        });
    }

    fn forget(&mut self, request: &str) {
        if self.waiting.front().is_some_and(|asked| asked.request == request) {
            self.shown = false;
        }
        self.waiting.retain(|asked| asked.request != request);
    }
}

/// The answer for a person who does not answer.
fn refusal(question: &Question) -> Answer {
    match question {
        Question::Permission => Answer::Permission(PermissionDecision::Deny { feedback: None }),
        Question::Input { .. } => Answer::UserInput(UserInputAnswer::left_open()),
        Question::ExitPlan { .. } => Answer::ExitPlan(ExitPlanAnswer::default()),
        Question::Form(_) => Answer::Elicitation(ElicitationAnswer {
            action: "cancel".to_owned(),
            content: None,
        }),
    }
}

/// Parses a typed line as an answer. `None` if it is not one.
fn read_answer(question: &mut Question, line: &str) -> Option<Answer> {
    match question {
        Question::Form(form) => match form.take(line) {
            Filled::Done(answer) => Some(Answer::Elicitation(answer)),
            Filled::More | Filled::Again => None,
        },
        Question::Permission => Some(Answer::Permission(match line.to_lowercase().as_str() {
            "y" | "yes" => PermissionDecision::ApproveOnce,
            "a" | "always" => PermissionDecision::ApproveForSession,
            "n" | "no" => PermissionDecision::Deny { feedback: None },
            _ => return None,
        })),
        Question::Input { choices, freeform } => match pick(choices, line) {
            Some(choice) => Some(Answer::UserInput(UserInputAnswer {
                answer: choice.clone(),
                was_freeform: false,
            })),
            None if *freeform && !line.is_empty() => Some(Answer::UserInput(UserInputAnswer {
                answer: line.to_owned(),
                was_freeform: true,
            })),
            None => None,
        },
        Question::ExitPlan { actions, recommended } => {
            let refused = ["n", "no"].contains(&line.to_lowercase().as_str());
            let chosen = match line.to_lowercase().as_str() {
                "" => return None,
                _ if refused => None,
                "y" | "yes" => Some(&*recommended),
                typed => pick(actions, typed),
            };
            Some(Answer::ExitPlan(ExitPlanAnswer {
                approved: chosen.is_some(),
                selected_action: chosen.cloned(),
                auto_approve_edits: None,
                feedback: (chosen.is_none() && !refused).then(|| line.to_owned()),
            }))
        }
    }
}

/// The choice with this number or name.
fn pick<'a>(choices: &'a [String], line: &str) -> Option<&'a String> {
    line.parse::<usize>()
        .ok()
        .and_then(|number| choices.get(number.checked_sub(1)?))
        .or_else(|| choices.iter().find(|choice| choice.eq_ignore_ascii_case(line)))
}

/// A text for each way to continue with a plan.
fn in_words(action: &str) -> String {
    match action {
        "interactive" => "approve, and work step by step",
        "autopilot" => "approve, and work without stopping",
        "autopilot_fleet" => "approve, and work with several agents",
        "exit_only" => "approve, and only leave plan mode",
        other => other,
    }
    .to_owned()
}

/// Numbered choices, one per line.
fn numbered(choices: impl Iterator<Item = String>) -> String {
    let lines = choices.enumerate();
    lines
        .map(|(at, choice)| format!("  {}. {}\n", at + 1, plain(&choice)))
        .collect()
}

/// Describes a permission request.
fn describe(request: &PermissionRequest) -> (String, Body) {
    if let PermissionRequest::Write(write) = request {
        let diff = write.diff.trim_end_matches('\n').to_owned();
        return (format!("Write {}", plain(&write.file_name)), Body::Diff(diff));
    }
    let title = match request {
        PermissionRequest::Shell(shell) => format!("Run: {}", plain(&shell.full_command_text)),
        PermissionRequest::Read(read) => format!("Read {}", plain(&read.path)),
        PermissionRequest::Url(url) => format!("Fetch {}", plain(&url.url)),
        PermissionRequest::Mcp(mcp) if mcp.is_sampling() => {
            let server = plain(&mcp.server_name);
            format!("{server} wants to ask the model:\n{}", plain(&said(mcp.args.as_ref())))
        }
        PermissionRequest::Mcp(mcp) => format!("Call {} of {}", plain(&mcp.tool_title), plain(&mcp.server_name)),
        PermissionRequest::Memory(memory) => format!("Remember: {}", plain(&memory.fact)),
        PermissionRequest::CustomTool(tool) => {
            let arguments = tool
                .args
                .as_ref()
                .filter(|arguments| **arguments != serde_json::json!({}));
            let arguments = arguments.and_then(|arguments| serde_json::to_string_pretty(arguments).ok());
            let arguments = arguments.map(|arguments| format!("\n{}", plain(&arguments)));
            format!("Call {}{}", plain(&tool.tool_name), arguments.unwrap_or_default())
        }
        other => plain(&serde_json::to_string(other).unwrap_or_default()),
    };
    (title, Body::None)
}

/// The prompt that a server would send to the model.
fn said(request: Option<&serde_json::Value>) -> String {
    let messages = request.and_then(|request| request["messages"].as_array());
    let texts = messages.into_iter().flatten().map(|message| {
        let content = &message["content"];
        content["text"]
            .as_str()
            .map_or_else(|| content.to_string(), str::to_owned)
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_line_is_an_answer_or_is_asked_again() {
        let mut choices = Question::Input {
            choices: vec!["Red".into(), "Blue".into()],
            freeform: false,
        };
        for (line, expected) in [
            ("2", Some("Blue")),
            ("red", Some("Red")),
            ("3", None),
            ("", None),
            ("green", None),
        ] {
            let answer = match read_answer(&mut choices, line) {
                Some(Answer::UserInput(answer)) => Some(answer.answer),
                _ => None,
            };
            assert_eq!(answer.as_deref(), expected, "{line:?}");
        }
        let mut plan = Question::ExitPlan {
            actions: vec!["interactive".into(), "autopilot".into()],
            recommended: "interactive".into(),
        };
        for (line, expected) in [
            ("y", Some((Some("interactive"), None))),
            ("2", Some((Some("autopilot"), None))),
            ("Shorter", Some((None, Some("Shorter")))),
            ("No", Some((None, None))),
            ("", None),
        ] {
            let answer = match read_answer(&mut plan, line) {
                Some(Answer::ExitPlan(answer)) => Some((answer.selected_action, answer.feedback)),
                _ => None,
            };
            let answer = answer
                .as_ref()
                .map(|(action, said)| (action.as_deref(), said.as_deref()));
            assert_eq!(answer, expected, "{line:?}");
        }
        for (line, expected) in [
            ("y", true),
            ("YES", true),
            ("a", true),
            ("n", true),
            ("", false),
            ("what?", false),
        ] {
            assert_eq!(
                read_answer(&mut Question::Permission, line).is_some(),
                expected,
                "{line:?}"
            );
        }
    }
}
