//! Messages as clients wrote them, where the log cannot tell: attachments that only people see, places in the text, the
//! chosen model and agent. One file of lines for each session; the log stays the truth about what was said.

use std::{
    collections::HashMap,
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use ahp_types::state::{Message, MessageAttachment};
use serde::{Deserialize, Serialize};

/// The files.
#[derive(Debug, Clone)]
pub(crate) struct Said(PathBuf);

#[derive(Serialize, Deserialize)]
struct Line {
    id: String,
    message: Message,
}

impl Said {
    /// The files in a directory, which is made with the first of them.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    fn file(&self, session: &str) -> PathBuf {
        self.0.join(format!("{session}.jsonl"))
    }

    /// Keeps a message of a session of the host's. Blocks.
    pub(crate) fn keep(&self, session: &str, id: &str, message: &Message) -> io::Result<()> {
        let mut message = message.clone();
        // The log has these bytes.
        for embedded in embedded(&mut message) {
            embedded.clear();
        }
        let id = id.to_owned();
        let mut line = serde_json::to_vec(&Line { id, message })?;
        line.push(b'\n');
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let mut options = fs::OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(self.file(session))?;
        file.write_all(&line)
    }

    /// What is kept of a session, by the ids of the messages. Blocks.
    pub(crate) fn of(&self, session: &str) -> HashMap<String, Message> {
        let text = fs::read_to_string(self.file(session)).unwrap_or_default();
        // A line cut short by a crash says nothing.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        lines.map(|line| (line.id, line.message)).collect()
    }

    /// A session was copied to another. Blocks.
    pub(crate) fn copy(&self, from: &str, to: &str) {
        unless_missing(fs::copy(self.file(from), self.file(to)).map(drop), &self.0);
    }

    /// A session is gone. Blocks.
    pub(crate) fn forget(&self, session: &str) {
        unless_missing(fs::remove_file(self.file(session)), &self.0);
    }
}

fn unless_missing(done: io::Result<()>, dir: &Path) {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => tracing::warn!("{}: {error}", dir.display()),
        _ => {}
    }
}

/// A message that was kept, with what the log says of it: its text, which anybody may have changed while it waited, and the
/// bytes of attachments.
pub(crate) fn completed(mut kept: Message, mut logged: Message) -> Message {
    kept.text = std::mem::take(&mut logged.text);
    let bytes: Vec<String> = embedded(&mut logged).map(std::mem::take).collect();
    for (place, bytes) in embedded(&mut kept).zip(bytes) {
        *place = bytes;
    }
    kept
}

fn embedded(message: &mut Message) -> impl Iterator<Item = &mut String> {
    message
        .attachments
        .iter_mut()
        .flatten()
        .filter_map(|attachment| match attachment {
            MessageAttachment::EmbeddedResource(embedded) => Some(&mut embedded.data),
            _ => None,
        })
}
