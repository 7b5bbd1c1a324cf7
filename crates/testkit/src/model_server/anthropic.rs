//! The server's side of Anthropic messages.

use lodge_models::{Chunk, Completion, Usage};
use serde_json::{Value, json};

use super::encode::{Encode, event};

pub(super) struct Encoder {
    model: String,
    /// How many blocks have begun.
    blocks: u64,
    open: Option<Kind>,
    /// Ids of the calls that have begun.
    calls: Vec<String>,
    /// The signature of thoughts that are still to come.
    seal: Option<String>,
    sealed: bool,
}

#[derive(PartialEq)]
enum Kind {
    Thinking,
    Redacted,
    Text,
    Call(String),
}

impl Encoder {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            blocks: 0,
            open: None,
            calls: Vec::new(),
            seal: None,
            sealed: false,
        }
    }

    fn open(&mut self, kind: Kind, block: &Value) -> String {
        if self.open.as_ref() == Some(&kind) {
            return String::new();
        }
        let closed = self.close();
        self.open = Some(kind);
        self.blocks += 1;
        closed + &named(json!({"type": "content_block_start", "index": self.blocks - 1, "content_block": block}))
    }

    fn close(&mut self) -> String {
        let Some(open) = self.open.take() else {
            return String::new();
        };
        let mut text = String::new();
        if open == Kind::Thinking
            && let Some(seal) = self.seal.take()
        {
            self.sealed = true;
            text = self.delta(&json!({"type": "signature_delta", "signature": seal}));
        }
        text + &named(json!({"type": "content_block_stop", "index": self.blocks - 1}))
    }

    fn delta(&self, delta: &Value) -> String {
        named(json!({"type": "content_block_delta", "index": self.blocks - 1, "delta": delta}))
    }
}

fn named(data: Value) -> String {
    event(data["type"].as_str(), &data)
}

fn input_usage(usage: &Usage) -> Value {
    let cached = usage.cache_read_tokens.unwrap_or(0) + usage.cache_write_tokens.unwrap_or(0);
    json!({
        "input_tokens": usage.input_tokens.unwrap_or(0).saturating_sub(cached),
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens.unwrap_or(0),
    })
}

fn stop_reason(completion: &Completion) -> &'static str {
    if completion.message.tool_calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    }
}

impl Encode for Encoder {
    fn seal(&mut self, seal: &str) {
        self.seal = Some(seal.to_owned());
    }

    fn begin(&mut self) -> String {
        let usage = json!({"input_tokens": 1, "output_tokens": 1});
        let message = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "usage": usage,
        });
        named(json!({"type": "message_start", "message": message})) + &named(json!({"type": "ping"}))
    }

    fn chunk(&mut self, chunk: &Chunk) -> String {
        match chunk {
            Chunk::Text(text) => {
                let begun = self.open(Kind::Text, &json!({"type": "text", "text": ""}));
                begun + &self.delta(&json!({"type": "text_delta", "text": text}))
            }
            Chunk::Reasoning(text) => {
                let block = json!({"type": "thinking", "thinking": "", "signature": ""});
                let begun = self.open(Kind::Thinking, &block);
                begun + &self.delta(&json!({"type": "thinking_delta", "thinking": text}))
            }
            Chunk::ToolCall { id, name, fragment } => {
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                let begun = self.open(Kind::Call(id.clone()), &block);
                self.calls.push(id.clone());
                begun + &self.delta(&json!({"type": "input_json_delta", "partial_json": fragment}))
            }
            Chunk::Bytes(_) | Chunk::Done(_) => String::new(),
        }
    }

    fn end(&mut self, completion: &Completion) -> String {
        let said = &completion.message;
        let mut text = self.close();
        if let Some(seal) = said.reasoning_opaque.as_ref().filter(|_| !self.sealed) {
            text += &self.open(Kind::Redacted, &json!({"type": "redacted_thinking", "data": seal}));
            text += &self.close();
        }
        for call in &said.tool_calls {
            if !self.calls.contains(&call.id) {
                let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
                text += &self.open(Kind::Call(call.id.clone()), &block);
                text += &self.close();
            }
        }
        let usage = input_usage(&completion.usage);
        text +=
            &named(json!({"type": "message_delta", "delta": {"stop_reason": stop_reason(completion)}, "usage": usage}));
        text + &named(json!({"type": "message_stop"}))
    }

    fn whole(&self, completion: &Completion) -> Value {
        let said = &completion.message;
        let mut content = Vec::new();
        match (&said.reasoning_text, &said.reasoning_opaque) {
            (Some(text), seal) => {
                content.push(json!({"type": "thinking", "thinking": text, "signature": seal.as_deref().unwrap_or("")}));
            }
            (None, Some(seal)) => content.push(json!({"type": "redacted_thinking", "data": seal})),
            (None, None) => {}
        }
        if !said.text.is_empty() {
            content.push(json!({"type": "text", "text": &*said.text}));
        }
        for call in &said.tool_calls {
            let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
            content.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}));
        }
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": stop_reason(completion), "usage": input_usage(&completion.usage),
        })
    }
}
