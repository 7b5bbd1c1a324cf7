//! A turn as one JSON object, printed at its end.

use std::io::{self, Write};

use lodge_events::{Event, Payload};
use serde::Serialize;
use tokio::time::Instant;

use crate::{console::Console, run::Exit};

/// What is known of the turn so far.
pub(super) struct Whole {
    began: Instant,
    result: String,
    error: Option<String>,
    usage: Usage,
}

/// Tokens of all model calls, those of sub-agents included.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    session: &'a str,
    result: &'a str,
    exit: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    usage: &'a Usage,
    duration_ms: u64,
}

impl Whole {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            result: String::new(),
            error: None,
            usage: Usage::default(),
        }
    }

    pub(super) fn take(&mut self, event: &Event) {
        if let Payload::AssistantUsage(usage) = event.payload() {
            let add = |sum: &mut u64, tokens: Option<u64>| *sum = sum.saturating_add(tokens.unwrap_or(0));
            add(&mut self.usage.input_tokens, usage.input_tokens);
            add(&mut self.usage.output_tokens, usage.output_tokens);
            add(&mut self.usage.cache_read_tokens, usage.cache_read_tokens);
            add(&mut self.usage.cache_write_tokens, usage.cache_write_tokens);
        }
        if event.agent_id().is_some() {
            return;
        }
        match event.payload() {
            // What the model says before a tool call is not the result.
            Payload::AssistantMessage(message) if !message.content.is_empty() => self.answer(&message.content),
            Payload::SessionError(error) => self.error = Some(error.message.clone()),
            _ => {}
        }
    }

    pub(super) fn answer(&mut self, text: &str) {
        text.clone_into(&mut self.result);
    }

    pub(super) fn finish(&self, console: &mut Console, session: &str, exit: Exit) -> io::Result<()> {
        let summary = Summary {
            session,
            result: &self.result,
            exit: exit as u8,
            error: self.error.as_deref(),
            usage: &self.usage,
            duration_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        serde_json::to_writer(&mut console.out, &summary)?;
        console.out.write_all(b"\n")
    }
}
