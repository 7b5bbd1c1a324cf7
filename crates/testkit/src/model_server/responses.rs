//! The server's side of OpenAI responses.

use lodge_models::{Chunk, Completion, ToolCall, Usage};
use serde_json::{Value, json};

use super::encode::{Encode, event};

pub(super) struct Encoder {
    model: String,
    sequence: u64,
    /// Items that are whole.
    done: Vec<Value>,
    open: Option<Open>,
    /// The encrypted form of reasoning that is still to come.
    seal: Option<String>,
    sealed: bool,
}

/// The item that is being written.
struct Open {
    kind: Kind,
    text: String,
}

#[derive(PartialEq, Clone)]
enum Kind {
    Reasoning,
    Message,
    Call { id: String, name: String },
}

impl Encoder {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            sequence: 0,
            done: Vec::new(),
            open: None,
            seal: None,
            sealed: false,
        }
    }

    fn event(&mut self, name: &str, mut data: Value) -> String {
        data["type"] = name.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        event(Some(name), &data)
    }

    fn response(&self, status: &str) -> Value {
        json!({"id": "resp_1", "object": "response", "status": status, "model": self.model, "error": null})
    }

    fn open(&mut self, kind: Kind) -> String {
        if self.open.as_ref().is_some_and(|open| open.kind == kind) {
            return String::new();
        }
        let mut text = self.close();
        let place = self.done.len();
        let added = item(&kind, "", place, None);
        text += &self.event(
            "response.output_item.added",
            json!({"output_index": place, "item": added}),
        );
        if kind == Kind::Reasoning {
            text += &self.event(
                "response.reasoning_summary_part.added",
                json!({"output_index": place, "summary_index": 0}),
            );
        }
        self.open = Some(Open {
            kind,
            text: String::new(),
        });
        text
    }

    fn close(&mut self) -> String {
        let Some(open) = self.open.take() else {
            return String::new();
        };
        let place = self.done.len();
        let seal = if open.kind == Kind::Reasoning {
            self.seal.take()
        } else {
            None
        };
        self.sealed |= seal.is_some();
        let item = item(&open.kind, &open.text, place, seal.as_deref());
        self.done.push(item.clone());
        self.event(
            "response.output_item.done",
            json!({"output_index": place, "item": item}),
        )
    }

    fn add(&mut self, kind: Kind, delta: &str) -> String {
        let name = match &kind {
            Kind::Reasoning => "response.reasoning_summary_text.delta",
            Kind::Message => "response.output_text.delta",
            Kind::Call { .. } => "response.function_call_arguments.delta",
        };
        let begun = self.open(kind);
        if let Some(open) = &mut self.open {
            open.text.push_str(delta);
        }
        let place = self.done.len();
        begun
            + &self.event(
                name,
                json!({"output_index": place, "item_id": format!("item_{place}"), "delta": delta}),
            )
    }
}

fn item(kind: &Kind, text: &str, place: usize, sealed: Option<&str>) -> Value {
    match kind {
        Kind::Reasoning => {
            let summary = if text.is_empty() {
                json!([])
            } else {
                json!([{"type": "summary_text", "text": text}])
            };
            let mut item = json!({"type": "reasoning", "id": format!("rs_{place}"), "summary": summary});
            if let Some(sealed) = sealed {
                item["encrypted_content"] = sealed.into();
            }
            item
        }
        Kind::Message => {
            let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
            json!({"type": "message", "id": format!("msg_{place}"), "role": "assistant", "status": "completed", "content": content})
        }
        Kind::Call { id, name } => {
            json!({"type": "function_call", "id": format!("fc_{place}"), "call_id": id, "name": name, "arguments": text})
        }
    }
}

fn call(call: &ToolCall) -> Kind {
    Kind::Call {
        id: call.id.clone(),
        name: call.name.clone(),
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens.unwrap_or(0),
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens.unwrap_or(0)},
        "output_tokens": usage.output_tokens.unwrap_or(0),
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens.unwrap_or(0)},
        "total_tokens": usage.input_tokens.unwrap_or(0) + usage.output_tokens.unwrap_or(0),
    })
}

impl Encode for Encoder {
    fn seal(&mut self, seal: &str) {
        self.seal = Some(seal.to_owned());
    }

    fn begin(&mut self) -> String {
        let response = self.response("in_progress");
        self.event("response.created", json!({"response": response}))
    }

    fn chunk(&mut self, chunk: &Chunk) -> String {
        match chunk {
            Chunk::Text(text) => self.add(Kind::Message, text),
            Chunk::Reasoning(text) => self.add(Kind::Reasoning, text),
            Chunk::ToolCall { id, name, fragment } => self.add(
                Kind::Call {
                    id: id.clone(),
                    name: name.clone(),
                },
                fragment,
            ),
            Chunk::Bytes(_) | Chunk::Done(_) => String::new(),
        }
    }

    fn end(&mut self, completion: &Completion) -> String {
        let mut text = self.close();
        if let Some(seal) = completion.message.reasoning_opaque.as_ref().filter(|_| !self.sealed) {
            self.seal = Some(seal.clone());
            text += &self.open(Kind::Reasoning);
            text += &self.close();
        }
        let mut response = self.response("completed");
        response["output"] = self.done.clone().into();
        response["usage"] = usage(&completion.usage);
        text + &self.event("response.completed", json!({"response": response}))
    }

    fn whole(&self, completion: &Completion) -> Value {
        let said = &completion.message;
        let mut output = Vec::new();
        let sealed = said.reasoning_opaque.as_deref();
        if said.reasoning_text.is_some() || sealed.is_some() {
            output.push(item(
                &Kind::Reasoning,
                said.reasoning_text.as_deref().unwrap_or(""),
                output.len(),
                sealed,
            ));
        }
        if !said.text.is_empty() {
            output.push(item(&Kind::Message, &said.text, output.len(), None));
        }
        for called in &said.tool_calls {
            output.push(item(&call(called), &called.arguments, output.len(), None));
        }
        let mut response = self.response("completed");
        response["output"] = output.into();
        response["usage"] = usage(&completion.usage);
        response
    }
}
