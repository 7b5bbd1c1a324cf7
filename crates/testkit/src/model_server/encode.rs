//! From chunks to the bytes of a wire.

use lodge_models::{Chunk, Completion};
use serde_json::Value;

use super::{anthropic, chat, responses};

/// Writes one answer in the form of one wire.
pub(super) trait Encode: Send {
    /// Tells what the reasoning shall be sealed with, where that is known before it begins.
    fn seal(&mut self, _seal: &str) {}
    /// What comes before the first chunk.
    fn begin(&mut self) -> String;
    /// What a chunk becomes.
    fn chunk(&mut self, chunk: &Chunk) -> String;
    /// What comes after the last one.
    fn end(&mut self, completion: &Completion) -> String;
    /// The answer in one piece.
    fn whole(&self, completion: &Completion) -> Value;
}

/// The wire that a path belongs to.
pub(super) fn for_path(path: &str, body: &Value, choices_apart: bool) -> Option<Box<dyn Encode>> {
    let model = body["model"].as_str().unwrap_or("deployed").to_owned();
    let path = path.split('?').next().unwrap_or(path);
    if path.ends_with("/chat/completions") {
        let usage = body["stream_options"]["include_usage"] == true;
        Some(Box::new(chat::Encoder::new(model, usage, choices_apart)))
    } else if path.ends_with("/responses") {
        Some(Box::new(responses::Encoder::new(model)))
    } else if path.ends_with("/messages") {
        Some(Box::new(anthropic::Encoder::new(model)))
    } else {
        None
    }
}

/// A server-sent event.
pub(super) fn event(name: Option<&str>, data: &Value) -> String {
    match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}
