//! Reads an answer of the Anthropic messages API, streamed or whole.

use std::{borrow::Cow, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{citations::Cited, write::Thought};
use crate::{
    ModelRequest, Usage,
    wire::assembly::{Assembly, Decoder, Fault, Progress},
};

// Flat rather than enums by `type`: serde would buffer those, which costs time and the exact form of arguments.

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    message: Option<Start>,
    content_block: Option<Block>,
    delta: Option<Delta>,
    usage: Option<Map<String, Value>>,
    copilot_usage: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Start {
    id: Option<String>,
    model: Option<String>,
    usage: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Whole {
    id: Option<String>,
    model: Option<String>,
    content: Option<Vec<Block>>,
    stop_reason: Option<String>,
    usage: Option<Map<String, Value>>,
    copilot_usage: Option<Box<RawValue>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(default)]
    r#type: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
    citations: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Delta {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    citation: Option<Value>,
    stop_reason: Option<String>,
}

/// Reads one answer.
#[derive(Default)]
pub(in crate::wire) struct Reader {
    /// The tool call that is being written, and its arguments where no fragment follows.
    call: Option<(usize, String)>,
    thoughts: Vec<Thought<'static>>,
    cited: Cited,
    usage: Map<String, Value>,
    stopped: bool,
}

impl Reader {
    /// For the answer to a request.
    pub(in crate::wire) fn new(request: &ModelRequest) -> Self {
        Self {
            cited: Cited::of(request),
            ..Self::default()
        }
    }

    fn begin(&mut self, block: Block, into: &mut Assembly) {
        self.end_call(into);
        self.cited.end(into.text_so_far());
        match block.r#type.as_str() {
            "text" => {
                self.cited.begin(into.text_so_far());
                into.text(block.text.unwrap_or_default());
                block
                    .citations
                    .into_iter()
                    .flatten()
                    .for_each(|citation| self.cited.add(citation));
            }
            "thinking" => {
                if into.has_reasoning() {
                    into.reasoning("\n\n".to_owned());
                }
                let thinking = block.thinking.unwrap_or_default();
                into.reasoning(thinking.clone());
                let signature = block.signature.unwrap_or_default();
                self.thoughts.push(Thought::Thinking {
                    thinking: thinking.into(),
                    signature: signature.into(),
                });
            }
            "redacted_thinking" => {
                self.thoughts.push(Thought::RedactedThinking {
                    data: block.data.unwrap_or_default().into(),
                });
            }
            "tool_use" => {
                let whole = block.input.as_deref().map_or("{}", RawValue::get).to_owned();
                let number = into.begin_call(block.id, block.name.unwrap_or_default(), false);
                self.call = Some((number, whole));
            }
            _ => {}
        }
    }

    fn add(&mut self, delta: Delta, into: &mut Assembly) {
        if let Some(text) = delta.text {
            into.text(text);
        }
        if let Some(citation) = delta.citation {
            self.cited.add(citation);
        }
        if let Some(piece) = delta.thinking {
            if let Some(Thought::Thinking { thinking, .. }) = self.thoughts.last_mut() {
                thinking.to_mut().push_str(&piece);
            }
            into.reasoning(piece);
        }
        if let (Some(piece), Some(Thought::Thinking { signature, .. })) = (delta.signature, self.thoughts.last_mut()) {
            signature.to_mut().push_str(&piece);
        }
        if let (Some(fragment), Some((number, _))) = (delta.partial_json.filter(|json| !json.is_empty()), &self.call) {
            into.arguments(*number, fragment);
        }
        if let Some(reason) = delta.stop_reason {
            self.stopped = true;
            into.finish_reason = Some(reason);
        }
    }

    /// A call without any fragment has the arguments it began with.
    fn end_call(&mut self, into: &mut Assembly) {
        if let Some((number, whole)) = self.call.take()
            && into.arguments_so_far(number).is_empty()
        {
            into.arguments(number, whole);
        }
    }

    fn count(&mut self, usage: Option<Map<String, Value>>) {
        // The end repeats some counts with newer values and may leave others out or null.
        self.usage
            .extend(usage.into_iter().flatten().filter(|(_, value)| !value.is_null()));
    }

    fn finish(&mut self, into: &mut Assembly) -> Result<(), Fault> {
        self.end_call(into);
        self.cited.end(into.text_so_far());
        into.citations = self.cited.to_json();
        into.usage = usage(&self.usage)?;
        // Without a signature a thought cannot be sent back, and other servers that speak this wire sign none.
        self.thoughts
            .retain(|thought| !matches!(thought, Thought::Thinking { signature, .. } if signature.is_empty()));
        if !self.thoughts.is_empty() {
            into.reasoning_opaque = Some(serde_json::to_string(&self.thoughts)?);
        }
        Ok(())
    }
}

fn usage(counts: &Map<String, Value>) -> Result<Usage, Fault> {
    let count = |name: &str| counts.get(name).and_then(Value::as_u64);
    let read = count("cache_read_input_tokens");
    let written = count("cache_creation_input_tokens");
    let raw: Option<Box<RawValue>> = if counts.is_empty() {
        None
    } else {
        Some(serde_json::value::to_raw_value(counts)?)
    };
    Ok(Usage {
        input_tokens: count("input_tokens").map(|fresh| fresh + read.unwrap_or(0) + written.unwrap_or(0)),
        output_tokens: count("output_tokens"),
        cache_read_tokens: read,
        cache_write_tokens: written,
        reasoning_tokens: None,
        cost: counts.get("cost").and_then(Value::as_f64),
        copilot: None,
        raw: raw.map(Arc::from),
    })
}

impl Decoder for Reader {
    fn event(&mut self, name: &str, data: &str, into: &mut Assembly) -> Result<Progress, Fault> {
        if name == "error" || data.starts_with(r#"{"type":"error""#) || data.starts_with(r#"{"error""#) {
            return Err(Fault::Reported(data.to_owned()));
        }
        let event: Event<'_> = serde_json::from_str(data)?;
        if let Some(message) = event.message {
            into.api_call_id = message.id;
            into.model = message.model;
            self.count(message.usage);
        }
        if let Some(block) = event.content_block {
            self.begin(block, into);
        }
        if let Some(delta) = event.delta {
            self.add(delta, into);
        }
        self.count(event.usage);
        into.take_copilot_usage(event.copilot_usage.as_deref());
        match &*event.r#type {
            // Whole as of here, whether or not the last event still comes.
            "message_delta" => self.finish(into)?,
            "message_stop" => {
                self.finish(into)?;
                return Ok(Progress::Finished);
            }
            _ => {}
        }
        Ok(Progress::More)
    }

    fn whole(&mut self, body: &str, into: &mut Assembly) -> Result<(), Fault> {
        let whole: Whole = serde_json::from_str(body)?;
        if whole.error.is_some() {
            return Err(Fault::Reported(body.to_owned()));
        }
        let blocks = whole
            .content
            .ok_or_else(|| Fault::Malformed("it has no content".to_owned()))?;
        into.api_call_id = whole.id;
        into.model = whole.model;
        into.finish_reason = whole.stop_reason;
        for block in blocks {
            self.begin(block, into);
        }
        self.count(whole.usage);
        into.take_copilot_usage(whole.copilot_usage.as_deref());
        self.finish(into)
    }

    fn may_end_here(&self) -> bool {
        self.stopped
    }
}
