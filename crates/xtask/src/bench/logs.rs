//! Logs of a given size, as a session of many turns leaves them.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::Result;
use serde_json::{Value, json};

/// Writes a session's log of about so many bytes.
pub(super) fn write(home: &Path, id: &str, bytes: usize) -> Result<()> {
    let dir = home.join("session-state").join(id);
    fs::create_dir_all(&dir)?;
    let mut out = BufWriter::new(File::create(dir.join("events.jsonl"))?);
    let mut log = Log {
        parent: None,
        count: 0,
        written: 0,
    };
    log.event(&mut out, "session.start", json!({
        "sessionId": id, "version": 1, "producer": "bench", "copilotVersion": "1.0.0", "startTime": TIME, "selectedModel": "m",
    }))?;
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(40);
    let mut turn = 0;
    while log.written < bytes {
        let interaction = uuid(0x8000_0000 + turn);
        log.event(
            &mut out,
            "user.message",
            json!({"content": format!("Question {turn}"), "attachments": []}),
        )?;
        log.event(
            &mut out,
            "assistant.turn_start",
            json!({"turnId": "0", "interactionId": interaction}),
        )?;
        log.event(
            &mut out,
            "assistant.message",
            json!({
                "messageId": interaction, "content": text, "toolRequests": [], "interactionId": interaction,
            }),
        )?;
        log.event(&mut out, "assistant.turn_end", json!({"turnId": "0"}))?;
        turn += 1;
    }
    Ok(out.flush()?)
}

/// Writes a session's log of so many short turns.
pub(super) fn write_turns(home: &Path, id: &str, turns: usize, answer: &str) -> Result<()> {
    let dir = home.join("session-state").join(id);
    fs::create_dir_all(&dir)?;
    let mut out = BufWriter::new(File::create(dir.join("events.jsonl"))?);
    let mut log = Log {
        parent: None,
        count: 0,
        written: 0,
    };
    let start =
        json!({ "sessionId": id, "version": 1, "producer": "bench", "copilotVersion": "1.0.0", "startTime": TIME });
    log.event(&mut out, "session.start", start)?;
    for turn in 0..turns {
        let said = json!({ "content": format!("Question {turn}"), "messageId": format!("q{turn}") });
        log.event(&mut out, "user.message", said)?;
        let message = json!({ "messageId": format!("a{turn}"), "content": answer, "toolRequests": [] });
        log.event(&mut out, "assistant.message", message)?;
    }
    Ok(out.flush()?)
}

const TIME: &str = "2026-01-01T00:00:00.000Z";

struct Log {
    parent: Option<String>,
    count: u64,
    written: usize,
}

impl Log {
    fn event(&mut self, out: &mut impl Write, kind: &str, data: Value) -> Result<()> {
        self.count += 1;
        let id = uuid(self.count);
        let event = json!({"type": kind, "data": data, "id": id, "timestamp": TIME, "parentId": self.parent});
        let line = format!("{event}\n");
        out.write_all(line.as_bytes())?;
        self.written += line.len();
        self.parent = Some(id);
        Ok(())
    }
}

fn uuid(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}
