//! The script language: parses plain words into steps, each of which is one answer of the model.

use std::time::Duration;

use super::cursor::Cursor;
use crate::ErrorKind;

/// One thing to do within an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Say(String),
    Stream {
        count: u64,
        bytes: Option<usize>,
    },
    Think(String),
    ThinkSecretly,
    Call(Vec<Call>),
    Fail(Failure),
    Wait(Duration),
    Slowly(Duration),
    Usage {
        input: u64,
        output: u64,
        cached: Option<u64>,
    },
    DescribeRequest,
}

/// A tool call to make.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: String,
}

/// A failure to play.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) status: Option<u16>,
    pub(super) what: &'static str,
    /// How many attempts fail; all when absent.
    pub(super) times: Option<u64>,
    pub(super) retry_after: Option<Duration>,
}

/// Arguments that no JSON parser takes.
const MALFORMED: &str = r#"{"command": "ls"#;
/// A tool that no host has.
const UNKNOWN_TOOL: &str = "no_such_tool";
const DEFAULT_PACE: Duration = Duration::from_millis(30);
const MOST_REPEATS: u64 = 10_000;
const MOST_CHUNKS: u64 = 10_000_000;
const MOST_CHUNK_BYTES: u64 = 1 << 20;

/// Words that begin a command.
const COMMANDS: [&str; 18] = [
    "say",
    "stream",
    "think",
    "call",
    "ask",
    "fail",
    "wait",
    "slowly",
    "repeat",
    "report usage",
    "malformed arguments",
    "describe the request",
    "write the plan",
    "present the plan",
    "complete the task",
    "start an",
    "start a",
    "use the skill",
];

/// Reads a script. Empty when the text does not begin like one; `Err` says what was not understood. `plan` is where the
/// host wants the plan.
pub(super) fn parse(text: &str, plan: &str) -> Result<Vec<Vec<Action>>, String> {
    let mut cursor = Cursor { rest: text };
    cursor.skip_punctuation();
    if !begins_command(cursor) {
        return Ok(Vec::new());
    }
    let mut script = Script::default();
    while !cursor.rest.is_empty() {
        let joined = script.separator(&mut cursor);
        if cursor.rest.is_empty() {
            break;
        }
        let before = cursor.rest;
        match script.command(&mut cursor, joined, plan) {
            Ok(true) => {}
            Ok(false) => return Err(format!("I do not understand “{}”", excerpt(before))),
            Err(problem) => return Err(format!("In “{}”: {problem}", excerpt(before))),
        }
    }
    Ok(script.finish())
}

fn excerpt(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

fn begins_command(mut cursor: Cursor<'_>) -> bool {
    cursor.take("please");
    cursor.take_any(&COMMANDS)
}

#[derive(Default)]
struct Script {
    steps: Vec<Vec<Action>>,
    /// The step that is being written.
    step: Vec<Action>,
}

impl Script {
    /// Skips what stands between commands. True when a call that follows belongs to the same answer as the one before,
    /// that is unless `then` stood there.
    fn separator(&mut self, cursor: &mut Cursor<'_>) -> bool {
        cursor.skip_punctuation();
        let and = cursor.take("and");
        let then = cursor.take("then");
        cursor.skip_punctuation();
        let after_call = matches!(self.step.last(), Some(Action::Call(_)));
        let mut ahead = *cursor;
        let call_follows = ahead.take("call")
            || ahead.take_any(&["start an", "start a", "use the skill"])
            || (and && ahead.name().is_some() && !begins_command(*cursor));
        let joined = after_call && !then && call_follows;
        let mut ahead = *cursor;
        // `repeat` looks back at the step, `slowly` and `report` colour it; anything else after a call is the next answer.
        if after_call && !joined && !(ahead.take("repeat") || ahead.take("slowly") || ahead.take("report")) {
            self.close();
        }
        joined
    }

    fn close(&mut self) {
        if !self.step.is_empty() {
            self.steps.push(std::mem::take(&mut self.step));
        }
    }

    fn finish(mut self) -> Vec<Vec<Action>> {
        self.close();
        for step in &mut self.steps {
            if let Some(text) = default_text(step) {
                step.push(Action::Say(text));
            }
        }
        self.steps
    }

    fn command(&mut self, cursor: &mut Cursor<'_>, joined: bool, plan: &str) -> Result<bool, String> {
        cursor.take("please");
        let mut made = of_agents(cursor)?;
        if made.is_none() && (cursor.take("call") || joined) {
            made = Some(call(cursor)?);
        }
        if let Some(call) = made {
            match self.step.last_mut() {
                Some(Action::Call(calls)) if joined => calls.push(call),
                _ => self.step.push(Action::Call(vec![call])),
            }
            return Ok(true);
        }
        if cursor.take_all("malformed arguments") {
            self.step.push(Action::Call(vec![Call {
                name: "bash".to_owned(),
                arguments: MALFORMED.to_owned(),
            }]));
            return Ok(true);
        }
        if let Some(call) = of_modes(cursor, plan) {
            self.step.push(Action::Call(vec![call]));
            return Ok(true);
        }
        if cursor.take("ask") {
            self.step.push(ask(cursor)?);
            return Ok(true);
        }
        if cursor.take("repeat") {
            let times = cursor.times().ok_or("write “repeat 3 times”")?;
            return self.repeat(times.min(MOST_REPEATS)).map(|()| true);
        }
        let action = if cursor.take("say") {
            let (text, pace) = free_text(cursor);
            self.step.extend(pace.map(Action::Slowly));
            Action::Say(text)
        } else if cursor.take("stream") {
            stream(cursor)?
        } else if cursor.take("think") {
            think(cursor)?
        } else if cursor.take_all("fail with") || cursor.take("fail") {
            Action::Fail(failure(cursor)?)
        } else if cursor.take("wait") {
            cursor.take("for");
            Action::Wait(cursor.duration().ok_or("say how long, for example “wait 500 ms”")?)
        } else if cursor.take("slowly") {
            // Also what stands before it: “stream 200 chunks slowly”.
            let pace = Action::Slowly(cursor.duration().unwrap_or(DEFAULT_PACE));
            self.step.insert(0, pace);
            return Ok(true);
        } else if cursor.take_all("report usage") {
            usage(cursor).ok_or("write “report usage 1000 in 50 out”, optionally with “900 cached”")?
        } else if cursor.take_all("describe the request") {
            Action::DescribeRequest
        } else {
            return Ok(false);
        };
        self.step.push(action);
        Ok(true)
    }

    /// Does the last thing again: a call in answers of its own, anything else within the answer.
    fn repeat(&mut self, times: u64) -> Result<(), String> {
        let last = self
            .step
            .last()
            .cloned()
            .ok_or("there is nothing before it to repeat")?;
        for _ in 1..times {
            if matches!(last, Action::Call(_)) {
                self.close();
            }
            self.step.push(last.clone());
        }
        Ok(())
    }
}

fn call(cursor: &mut Cursor<'_>) -> Result<Call, String> {
    let name = if cursor.take_all("an unknown tool") {
        UNKNOWN_TOOL
    } else {
        cursor
            .name()
            .ok_or("name the tool, for example “call bash {\"command\":\"ls\"}”")?
    };
    let arguments = if cursor.take_all("with malformed arguments") {
        MALFORMED
    } else {
        cursor.take("with");
        match cursor.object() {
            Ok(object) => object.unwrap_or("{}"),
            Err(problem) => return Err(format!("the arguments are not JSON ({problem})")),
        }
    };
    let known_end = cursor.rest.trim_start();
    if arguments == "{}" && known_end.starts_with(|c: char| c.is_alphanumeric()) && !separates(*cursor) {
        return Err(
            "a call is a tool's name and a JSON object, for example “call bash {\"command\":\"ls\"}”".to_owned(),
        );
    }
    Ok(Call {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

/// The calls that plan mode and autopilot are about.
fn of_modes(cursor: &mut Cursor<'_>, plan: &str) -> Option<Call> {
    let (name, key) = if cursor.take_all("write the plan") {
        ("create", "file_text")
    } else if cursor.take_all("present the plan") {
        ("exit_plan_mode", "summary")
    } else if cursor.take_all("complete the task") {
        ("task_complete", "summary")
    } else {
        return None;
    };
    let (text, _) = match separates(*cursor) {
        true => (String::new(), None),
        false => free_text(cursor),
    };
    let text = match text.is_empty() {
        true => "As rehearsed.".to_owned(),
        false => text,
    };
    let mut arguments = serde_json::Map::new();
    if name == "create" {
        arguments.insert("path".to_owned(), plan.into());
    }
    arguments.insert(key.to_owned(), text.into());
    Some(Call {
        name: name.to_owned(),
        arguments: serde_json::Value::Object(arguments).to_string(),
    })
}

/// The calls that sub-agents and skills are about.
fn of_agents(cursor: &mut Cursor<'_>) -> Result<Option<Call>, String> {
    if cursor.take_all("use the skill") {
        let name = cursor.quoted().or_else(|| cursor.name());
        let name = name.ok_or("name the skill, for example “use the skill greeting”")?;
        return Ok(Some(Call {
            name: "skill".to_owned(),
            arguments: serde_json::json!({ "skill": name }).to_string(),
        }));
    }
    let mut ahead = *cursor;
    if !ahead.take_any(&["start an", "start a"]) {
        return Ok(None);
    }
    let wrong = "write “start an agent \"say hello\"”: put its task in quotation marks; before “agent” you can write \
                 “background”, “explore” or another kind";
    let background = ahead.take("background");
    let kind = match ahead.take("agent") {
        true => "general-purpose",
        false => {
            let kind = ahead.name().ok_or(wrong)?;
            ahead.take("agent").then_some(kind).ok_or(wrong)?
        }
    };
    let name = match ahead.take("named") {
        true => ahead.name().ok_or(wrong)?,
        false => "helper",
    };
    let prompt = ahead.quoted().ok_or(wrong)?;
    *cursor = ahead;
    let mut arguments = serde_json::json!({
        "agent_type": kind,
        "name": name,
        "description": "Rehearsing a sub-agent",
        "prompt": prompt,
    });
    if background {
        arguments["mode"] = "background".into();
    }
    Ok(Some(Call {
        name: "task".to_owned(),
        arguments: arguments.to_string(),
    }))
}

fn separates(mut cursor: Cursor<'_>) -> bool {
    cursor.take("then") || cursor.take("and") || begins_command(cursor)
}

fn ask(cursor: &mut Cursor<'_>) -> Result<Action, String> {
    let question = cursor
        .quoted()
        .ok_or("put the question in quotation marks: ask \"Which colour?\" choices red, blue")?;
    let mut arguments = serde_json::json!({ "question": question });
    cursor.rest = cursor.rest.trim_start_matches([' ', ',']);
    if cursor.take_any(&["with choices", "choices"]) {
        let (list, _) = free_text(cursor);
        let choices: Vec<&str> = list
            .split(',')
            .map(str::trim)
            .filter(|choice| !choice.is_empty())
            .collect();
        if choices.is_empty() {
            return Err("name the choices: choices red, blue".to_owned());
        }
        arguments["choices"] = choices.into();
    }
    Ok(Action::Call(vec![Call {
        name: "ask_user".to_owned(),
        arguments: arguments.to_string(),
    }]))
}

fn stream(cursor: &mut Cursor<'_>) -> Result<Action, String> {
    let count = cursor.number().filter(|count| *count <= MOST_CHUNKS);
    let count = count.ok_or("say how many, up to 10,000,000, for example “stream 100 chunks”")?;
    cursor.take_any(&["chunks", "chunk"]);
    let mut bytes = None;
    if cursor.take("of") {
        let size = cursor.number().filter(|size| (1..=MOST_CHUNK_BYTES).contains(size));
        bytes = Some(size.ok_or("say how large, up to 1,048,576, for example “of 32 bytes”")? as usize);
        cursor.take_any(&["bytes", "byte"]);
    }
    Ok(Action::Stream { count, bytes })
}

fn think(cursor: &mut Cursor<'_>) -> Result<Action, String> {
    if cursor.take("aloud") {
        let thought =
            "I shall think aloud. First I look at what was asked. Then I weigh what could be done. Then I answer.";
        return Ok(Action::Think(thought.to_owned()));
    }
    if cursor.take("secretly") {
        return Ok(Action::ThinkSecretly);
    }
    if cursor.take("about") {
        let (subject, _) = free_text(cursor);
        return Ok(Action::Think(format!(
            "Let me think about {subject}. There is much to say about {subject}."
        )));
    }
    Err("write “think aloud”, “think secretly” or “think about …”".to_owned())
}

fn failure(cursor: &mut Cursor<'_>) -> Result<Failure, String> {
    const KINDS: [(&str, ErrorKind, Option<u16>); 8] = [
        ("rate limit", ErrorKind::RateLimit, Some(429)),
        ("context too long", ErrorKind::ContextLimit, Some(400)),
        ("broken stream", ErrorKind::Connection, None),
        ("authentication", ErrorKind::Authentication, Some(401)),
        ("authorization", ErrorKind::Authorization, Some(403)),
        ("quota", ErrorKind::Quota, Some(402)),
        ("server error", ErrorKind::Connection, Some(500)),
        ("bad request", ErrorKind::Query, Some(400)),
    ];
    cursor.take_any(&["a", "an"]);
    let (what, kind, status) = KINDS
        .into_iter()
        .find(|(what, ..)| cursor.take_all(what))
        .ok_or_else(|| {
            let known: Vec<&str> = KINDS.iter().map(|(what, ..)| *what).collect();
            format!("I can fail with {}", known.join(", "))
        })?;
    cursor.take("error");
    let mut failure = Failure {
        kind,
        status,
        what,
        times: None,
        retry_after: None,
    };
    failure.times = cursor.times();
    if cursor.take_all("retry after") {
        failure.retry_after = Some(cursor.duration().ok_or("say how long, for example “retry after 2 s”")?);
        failure.times = failure.times.or_else(|| cursor.times());
    }
    Ok(failure)
}

fn usage(cursor: &mut Cursor<'_>) -> Option<Action> {
    let input = cursor.number()?;
    cursor.take("in").then_some(())?;
    let output = cursor.number()?;
    cursor.take("out").then_some(())?;
    let mut ahead = *cursor;
    let cached = ahead.number().filter(|_| ahead.take("cached"));
    if cached.is_some() {
        *cursor = ahead;
    }
    Some(Action::Usage { input, output, cached })
}

/// Text up to where the next command begins: in quotation marks, or as far as ` then ` or a new line with a command. A
/// `slowly` at its end is not part of it.
fn free_text(cursor: &mut Cursor<'_>) -> (String, Option<Duration>) {
    if let Some(text) = cursor.quoted() {
        return (text.to_owned(), None);
    }
    cursor.skip_space();
    let text = cursor.rest;
    let end = text
        .char_indices()
        .find(|(at, c)| c.is_whitespace() && ends_text(&text[*at..], *c))
        .map_or(text.len(), |(at, _)| at);
    cursor.rest = &text[end..];
    let text = text[..end].trim_end();
    if let Some(at) = text.to_ascii_lowercase().rfind(" slowly") {
        let mut tail = Cursor { rest: &text[at..] };
        tail.take("slowly");
        let pace = tail.duration().unwrap_or(DEFAULT_PACE);
        tail.skip_punctuation();
        if tail.rest.is_empty() {
            return (text[..at].trim_end().to_owned(), Some(pace));
        }
    }
    (text.to_owned(), None)
}

fn ends_text(rest: &str, first: char) -> bool {
    let mut cursor = Cursor { rest };
    let then = cursor.take("then");
    (then || first == '\n') && begins_command(cursor)
}

/// What to say in a step that would otherwise be silent.
fn default_text(step: &[Action]) -> Option<String> {
    let mut text = None;
    for action in step {
        text = match action {
            Action::Say(_) | Action::Stream { .. } | Action::Call(_) | Action::DescribeRequest => return None,
            Action::Fail(Failure { times: None, .. }) => return None,
            Action::Fail(Failure { times: Some(times), .. }) => {
                Some(format!("It works now, after {times} failures as requested."))
            }
            Action::Think(_) => Some("I have thought it over, and this is the answer.".to_owned()),
            Action::ThinkSecretly => Some("I have thought it over and kept my thoughts to myself.".to_owned()),
            Action::Wait(time) => Some(format!("I waited {} ms.", time.as_millis())),
            Action::Slowly(_) => Some("I am taking my time with every single word.".to_owned()),
            Action::Usage { input, output, .. } => Some(format!("I report {input} tokens in and {output} out.")),
        };
    }
    text
}
