//! Requests of the three wires as the rehearsal model reads them.

use std::{collections::HashMap, sync::Arc};

use lodge_models::{AssistantMessage, Image, Message, ModelRequest, Part, ToolCall, ToolSpec};
use serde_json::Value;

/// Reads a request of whichever wire its path belongs to.
pub(super) fn request(path: &str, body: &Value) -> ModelRequest {
    let mut reader = Reader::default();
    let messages = list(&body["messages"]).chain(list(&body["input"]));
    match &body["input"] {
        Value::String(text) => reader
            .messages
            .push(Message::User(vec![Part::Text(text.as_str().into())])),
        _ => messages.for_each(|message| reader.message(message)),
    }
    if path.ends_with("/messages") || path.ends_with("/responses") {
        reader.system += &text_of(&body["system"]);
        reader.system += &text_of(&body["instructions"]);
    }
    let effort = [
        &body["reasoning_effort"],
        &body["reasoning"]["effort"],
        &body["output_config"]["effort"],
    ];
    ModelRequest {
        system: reader.system.into(),
        messages: reader.messages,
        tools: list(&body["tools"]).map(tool).collect(),
        stream: body["stream"] == true,
        reasoning_effort: effort.into_iter().find_map(|effort| effort.as_str().map(str::to_owned)),
        ..ModelRequest::default()
    }
}

#[derive(Default)]
struct Reader {
    system: String,
    messages: Vec<Message>,
    /// Names of the tools by the ids of their calls.
    names: HashMap<String, String>,
}

impl Reader {
    fn message(&mut self, message: &Value) {
        match (message["type"].as_str(), message["role"].as_str()) {
            (Some("function_call" | "custom_tool_call"), _) => {
                let arguments = message["arguments"]
                    .as_str()
                    .or(message["input"].as_str())
                    .unwrap_or_default();
                let call = self.call(
                    string(&message["call_id"]),
                    string(&message["name"]),
                    arguments.to_owned(),
                );
                self.assistant().tool_calls.push(call);
            }
            (Some("function_call_output" | "custom_tool_call_output"), _) => {
                self.result(&message["call_id"], &message["output"]);
            }
            (_, Some("system" | "developer")) => self.system += &text_of(&message["content"]),
            (_, Some("tool")) => self.result(&message["tool_call_id"], &message["content"]),
            (_, Some("user")) => self.user(&message["content"]),
            (_, Some("assistant")) => {
                let mut answer = AssistantMessage {
                    text: text_of(&message["content"]).into(),
                    ..AssistantMessage::default()
                };
                for call in list(&message["tool_calls"]) {
                    let function = &call["function"];
                    let call = self.call(
                        string(&call["id"]),
                        string(&function["name"]),
                        string(&function["arguments"]),
                    );
                    answer.tool_calls.push(call);
                }
                for block in list(&message["content"]).filter(|block| block["type"] == "tool_use") {
                    let call = self.call(string(&block["id"]), string(&block["name"]), block["input"].to_string());
                    answer.tool_calls.push(call);
                }
                self.messages.push(Message::Assistant(answer));
            }
            _ => {}
        }
    }

    fn user(&mut self, content: &Value) {
        let mut parts = Vec::new();
        if let Value::String(text) = content {
            parts.push(Part::Text(text.as_str().into()));
        }
        for block in list(content) {
            match block["type"].as_str() {
                Some("tool_result") => self.result(&block["tool_use_id"], &block["content"]),
                Some("image_url" | "input_image" | "image") => parts.push(Part::Image(image(block))),
                _ => parts.push(Part::Text(string(&block["text"]).into())),
            }
        }
        if !parts.is_empty() {
            self.messages.push(Message::User(parts));
        }
    }

    fn call(&mut self, id: String, name: String, arguments: String) -> ToolCall {
        self.names.insert(id.clone(), name.clone());
        ToolCall {
            id,
            name,
            arguments: arguments.into(),
            custom: false,
        }
    }

    fn result(&mut self, call_id: &Value, content: &Value) {
        let call_id = string(call_id);
        let name = self.names.get(&call_id).cloned().unwrap_or_default();
        let images = list(content)
            .filter(|block| block["type"] != "text" && block["type"] != "input_text")
            .map(image)
            .collect();
        self.messages.push(Message::Tool {
            call_id,
            name,
            content: text_of(content).into(),
            images,
            sources: Vec::new(),
        });
    }

    /// The answer that items of the responses wire belong to.
    fn assistant(&mut self) -> &mut AssistantMessage {
        if !matches!(self.messages.last(), Some(Message::Assistant(_))) {
            self.messages.push(Message::Assistant(AssistantMessage::default()));
        }
        match self.messages.last_mut() {
            Some(Message::Assistant(answer)) => answer,
            _ => unreachable!("it was just put there"),
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// All text in a content, whatever its form.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        _ => list(content)
            .filter_map(|block| block["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn image(block: &Value) -> Image {
    let source = &block["source"];
    let data = [&source["data"], &block["image_url"]["url"], &block["image_url"]]
        .into_iter()
        .find_map(Value::as_str);
    let mime_type = source["media_type"].as_str().unwrap_or("image/png").to_owned();
    Image {
        mime_type,
        data: data.unwrap_or_default().into(),
    }
}

fn tool(tool: &Value) -> ToolSpec {
    let function = if tool["function"].is_object() {
        &tool["function"]
    } else {
        tool
    };
    let parameters = if function["parameters"].is_object() {
        &function["parameters"]
    } else {
        &function["input_schema"]
    };
    ToolSpec {
        name: string(&function["name"]),
        description: string(&function["description"]),
        parameters: Arc::new(parameters.clone()),
    }
}
