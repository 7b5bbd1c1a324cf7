//! What a client wrote in a message and the agent does not get: attachments that only people see, positions in the text, the
//! chosen model and agent. The session's log records it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use lodge_events::{COMMAND_SOURCE, LodgeMessageWritten, UserMessage};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{MessageTemplate, NamedModel, Session, migrate::OldMessage};

/// A message as it was written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Written {
    /// The message. When it is read from the log, it has no text: the message itself has it.
    pub message: MessageTemplate,
    /// Whether an automation sent it, not a person.
    pub by_automation: bool,
}

impl Written {
    /// What the log is to say of it when the message of this id is accepted.
    pub fn event(self, message_id: &str) -> LodgeMessageWritten {
        let written = self.message;
        let (model, options) = written.model.map(|model| (model.id, model.options)).unzip();
        LodgeMessageWritten {
            message_id: message_id.to_owned(),
            attachments: written.attachments,
            model,
            model_options: options.flatten().map(Value::Object),
            agent: written.agent,
            notes: written.notes.map(Value::Object),
            by_automation: self.by_automation.then_some(true),
        }
    }
}

impl Session {
    /// How messages were written, from the file of an earlier build, by their ids. Reads a file.
    pub fn written_earlier(&self) -> HashMap<String, Written> {
        let file = self.home_path().map(|home| earlier(&home, self.id()));
        let text = file
            .and_then(|file| std::fs::read_to_string(file).ok())
            .unwrap_or_default();
        // A line cut short by a crash is ignored.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let written = |line: Line| Written {
            by_automation: line.message.is_of_automation(),
            message: line.message.into(),
        };
        lines.map(|line| (line.id.clone(), written(line))).collect()
    }
}

impl From<&LodgeMessageWritten> for Written {
    fn from(written: &LodgeMessageWritten) -> Self {
        let object = |value: &Option<Value>| -> Option<Map<String, Value>> { value.as_ref()?.as_object().cloned() };
        let message = MessageTemplate {
            text: String::new(),
            attachments: written.attachments.clone(),
            model: written.model.clone().map(|id| NamedModel {
                id,
                options: object(&written.model_options),
            }),
            agent: written.agent.clone(),
            notes: object(&written.notes),
        };
        Self {
            message,
            by_automation: written.by_automation == Some(true),
        }
    }
}

#[derive(Deserialize)]
struct Line {
    id: String,
    message: OldMessage,
}

/// The file of an earlier build with the original messages of a session.
pub(crate) fn earlier(home: &Path, session: &str) -> PathBuf {
    home.join("ahp/said").join(format!("{session}.jsonl"))
}

/// Whether a person sent it: hooks, autopilot and others write to the model, not to people.
pub fn is_from_person(message: &UserMessage) -> bool {
    let source = message.source.as_deref();
    source.is_none_or(|source| source == "user" || source == COMMAND_SOURCE)
        && message.is_autopilot_continuation != Some(true)
}
