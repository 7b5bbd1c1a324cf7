//! The server's side of OpenAI chat completions.

use lodge_models::{Chunk, Completion, Usage};
use serde_json::{Value, json};

use super::encode::{Encode, event};

pub(super) struct Encoder {
    model: String,
    usage: bool,
    choices_apart: bool,
    /// Ids of the calls that have begun.
    calls: Vec<String>,
}

impl Encoder {
    pub(super) fn new(model: String, usage: bool, choices_apart: bool) -> Self {
        Self {
            model,
            usage,
            choices_apart,
            calls: Vec::new(),
        }
    }

    fn piece(&self, choice: u64, delta: &Value, finish: Option<&str>) -> String {
        let choice = json!({"index": choice, "delta": delta, "finish_reason": finish});
        event(None, &self.frame("chat.completion.chunk", &json!([choice])))
    }

    fn frame(&self, object: &str, choices: &Value) -> Value {
        json!({"id": "chatcmpl-1", "object": object, "created": 0, "model": self.model, "choices": choices})
    }

    fn call_choice(&self) -> u64 {
        u64::from(self.choices_apart)
    }
}

fn usage(usage: &Usage) -> Value {
    let mut counts = json!({
        "prompt_tokens": usage.input_tokens.unwrap_or(0),
        "completion_tokens": usage.output_tokens.unwrap_or(0),
        "total_tokens": usage.input_tokens.unwrap_or(0) + usage.output_tokens.unwrap_or(0),
    });
    if let Some(cached) = usage.cache_read_tokens {
        counts["prompt_tokens_details"] = json!({"cached_tokens": cached});
    }
    if let Some(reasoning) = usage.reasoning_tokens {
        counts["completion_tokens_details"] = json!({"reasoning_tokens": reasoning});
    }
    if let Some(cost) = usage.cost {
        counts["cost"] = cost.into();
    }
    counts
}

impl Encode for Encoder {
    fn begin(&mut self) -> String {
        self.piece(0, &json!({"role": "assistant", "content": ""}), None)
    }

    fn chunk(&mut self, chunk: &Chunk) -> String {
        match chunk {
            Chunk::Text(text) => self.piece(0, &json!({"content": text}), None),
            Chunk::Reasoning(text) => self.piece(0, &json!({"reasoning_content": text}), None),
            Chunk::ToolCall { id, name, fragment } => {
                let known = self.calls.iter().position(|known| known == id);
                let index = known.unwrap_or(self.calls.len());
                let mut call = json!({"index": index, "function": {"arguments": fragment}});
                if known.is_none() {
                    self.calls.push(id.clone());
                    call["id"] = id.as_str().into();
                    call["type"] = "function".into();
                    call["function"]["name"] = name.as_str().into();
                }
                self.piece(self.call_choice(), &json!({"tool_calls": [call]}), None)
            }
            Chunk::Bytes(_) | Chunk::Done(_) => String::new(),
        }
    }

    fn end(&mut self, completion: &Completion) -> String {
        let mut text = String::new();
        // Calls without arguments have made no chunk.
        for call in &completion.message.tool_calls {
            if !self.calls.contains(&call.id) {
                let fragment = String::new();
                text += &self.chunk(&Chunk::ToolCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    fragment,
                });
            }
        }
        let delta = match &completion.message.reasoning_opaque {
            Some(opaque) => json!({"reasoning_opaque": opaque}),
            None => json!({}),
        };
        text += &self.piece(0, &delta, completion.finish_reason.as_deref().or(Some("stop")));
        if self.usage {
            let mut frame = self.frame("chat.completion.chunk", &json!([]));
            frame["usage"] = usage(&completion.usage);
            text += &event(None, &frame);
        }
        text + "data: [DONE]\n\n"
    }

    fn whole(&self, completion: &Completion) -> Value {
        let said = &completion.message;
        let calls: Vec<Value> = said
            .tool_calls
            .iter()
            .map(|call| {
                let function = json!({"name": call.name, "arguments": &*call.arguments});
                json!({"id": call.id, "type": "function", "function": function})
            })
            .collect();
        let mut message = json!({"role": "assistant", "content": &*said.text});
        if let Some(text) = &said.reasoning_text {
            message["reasoning_content"] = text.as_str().into();
        }
        if let Some(opaque) = &said.reasoning_opaque {
            message["reasoning_opaque"] = opaque.as_str().into();
        }
        let finish = completion.finish_reason.as_deref().unwrap_or("stop");
        let mut choices = Vec::new();
        if self.choices_apart {
            choices.push(json!({"index": 0, "message": message, "finish_reason": finish}));
            message = json!({"role": "assistant", "content": null});
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        choices.push(json!({"index": choices.len(), "message": message, "finish_reason": finish}));
        let mut frame = self.frame("chat.completion", &choices.into());
        frame["usage"] = usage(&completion.usage);
        frame
    }
}
