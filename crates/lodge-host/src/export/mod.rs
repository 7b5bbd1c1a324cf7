//! Exports a session as a page to share: Markdown, or self-contained HTML.

mod html;
mod markdown;

use std::collections::HashMap;

use lodge_events::{BrokenOff, ContentBlock, Event, Payload, Timestamp, ToolExecutionComplete};
use lodge_log::EventReader;
use serde_json::Value;

pub(crate) use self::markdown::fenced;
use crate::HostError;

/// What an export is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Markdown.
    Markdown,
    /// One page of HTML.
    Html,
    /// The events as they are, one a line.
    Jsonl,
}

impl Format {
    /// From its word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "md" | "markdown" => Some(Self::Markdown),
            "html" => Some(Self::Html),
            "jsonl" | "json" => Some(Self::Jsonl),
            _ => None,
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Html => "html",
            Self::Jsonl => "jsonl",
        }
    }
}

/// A session, ready to be written down.
pub struct Export {
    title: String,
    /// What it was about: when, where, with which model.
    about: Vec<(&'static str, String)>,
    parts: Vec<Part>,
    events: Vec<Event>,
}

/// A piece of the page.
enum Part {
    Person(String),
    Agent(String),
    Thought(String),
    Tool {
        name: String,
        arguments: Option<Value>,
        result: String,
        failed: bool,
    },
    Note(String),
    Error(String),
}

impl Export {
    /// Reads a session, with the name that a person gave it.
    pub fn of(reader: EventReader, name: Option<String>) -> Result<Self, HostError> {
        let events = reader.events().collect::<Result<Vec<Event>, _>>()?;
        let (mut parts, mut about) = (Vec::new(), Vec::new());
        let mut open: HashMap<String, usize> = HashMap::new();
        let mut title = name;
        let mut broken = BrokenOff::default();
        for event in &events {
            // What sub-agents say stays inside the calls that started them.
            if event.agent_id().is_some() {
                continue;
            }
            parts.extend(broken.before(event.payload()).map(Part::Agent));
            match event.payload() {
                Payload::SessionStart(start) => {
                    about.push(("Started", day(event.timestamp())));
                    about.extend(start.selected_model.clone().map(|model| ("Model", model)));
                    about.extend(start.context.as_ref().map(|context| ("Directory", context.cwd.clone())));
                }
                Payload::UserMessage(message) => {
                    if title.is_none() && message.source.is_none() {
                        title = lodge_agent::title_of(&message.content);
                    }
                    let said = message.content.clone();
                    match message.source.as_deref() {
                        None | Some("user" | lodge_events::COMMAND_SOURCE) => parts.push(Part::Person(said)),
                        Some(_) => parts.push(Part::Note(said)),
                    }
                }
                Payload::AssistantReasoning(thought) if !thought.content.trim().is_empty() => {
                    parts.push(Part::Thought(thought.content.clone()));
                }
                Payload::AssistantMessage(message) => {
                    let text = broken.rest_of(&message.message_id, &message.content);
                    if !text.trim().is_empty() {
                        parts.push(Part::Agent(text.to_owned()));
                    }
                }
                Payload::ToolExecutionStart(start) => {
                    open.insert(start.tool_call_id.clone(), parts.len());
                    parts.push(Part::Tool {
                        name: start.tool_name.clone(),
                        arguments: start.arguments.clone(),
                        result: String::new(),
                        failed: true,
                    });
                }
                Payload::ToolExecutionComplete(done) => {
                    let at = open.get(&done.tool_call_id).copied();
                    let Some(Part::Tool { result, failed, .. }) = at.and_then(|at| parts.get_mut(at)) else {
                        continue;
                    };
                    *failed = !done.success || exit_code(done).is_some_and(|code| code != 0);
                    *result = match (&done.result, &done.error) {
                        (Some(done), _) => done.detailed_content.clone().unwrap_or_else(|| done.content.clone()),
                        (None, Some(error)) => error.message.clone(),
                        (None, None) => String::new(),
                    };
                }
                Payload::SessionError(error) => parts.push(Part::Error(error.message.clone())),
                Payload::SessionInfo(info) if info.info_type == lodge_events::COMMAND_SOURCE => {
                    parts.push(Part::Agent(info.message.clone()));
                }
                Payload::SessionCompactionComplete(done) if done.success => {
                    parts.push(Part::Note("The conversation was summarised to make room.".to_owned()));
                }
                Payload::Abort(_) => parts.push(Part::Note("Stopped by the person.".to_owned())),
                _ => {}
            }
        }
        parts.extend(broken.rest().map(Part::Agent));
        Ok(Self {
            title: title.unwrap_or_else(|| "A session".to_owned()),
            about,
            parts,
            events,
        })
    }

    /// Writes it.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Markdown => markdown::render(self),
            Format::Html => html::render(self),
            Format::Jsonl => {
                let mut text = String::new();
                for event in &self.events {
                    text.push_str(&String::from_utf8_lossy(event.json()));
                    text.push('\n');
                }
                text
            }
        }
    }

    /// A name for the file, from the title.
    pub fn file_name(&self, format: Format) -> String {
        let mut name = String::new();
        for c in self.title.chars().take(50) {
            match c {
                c if c.is_alphanumeric() => name.extend(c.to_lowercase()),
                _ if name.ends_with('-') || name.is_empty() => {}
                _ => name.push('-'),
            }
        }
        let name = name.trim_end_matches('-');
        let name = if name.is_empty() { "session" } else { name };
        format!("{name}.{}", format.extension())
    }
}

/// The code that the command of a call ended with.
fn exit_code(done: &ToolExecutionComplete) -> Option<i64> {
    let contents = done.result.iter().flat_map(|result| result.contents.iter().flatten());
    contents.into_iter().find_map(|block| match block {
        ContentBlock::Terminal(block) => block.exit_code,
        _ => None,
    })
}

fn day(time: Timestamp) -> String {
    time.to_zoned(jiff::tz::TimeZone::system())
        .strftime("%Y-%m-%d %H:%M")
        .to_string()
}

/// The arguments of a call for people: the one that matters in short, and all of them.
fn arguments_text(arguments: Option<&Value>) -> (String, String) {
    let Some(arguments) = arguments else {
        return Default::default();
    };
    let main = [
        "command",
        "path",
        "pattern",
        "url",
        "query",
        "question",
        "summary",
        "description",
        "skill",
    ]
    .iter()
    .find_map(|key| arguments.get(key)?.as_str());
    let short: String = main
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(100)
        .collect();
    let all = match arguments {
        Value::Object(fields) if fields.is_empty() => String::new(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    (short, all)
}
