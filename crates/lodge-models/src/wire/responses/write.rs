//! Writes a request for the responses API.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::{AssistantMessage, Image, Message, ModelInfo, ModelRequest, Part, ResponseFormat};

#[derive(Serialize)]
struct Body<'a> {
    /// What the message is, where it is one of several on a socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Input<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
struct Text<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    schema: &'a ResponseFormat,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    Item(Item<'a>),
    /// An item that is sent back letter for letter.
    Verbatim(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Vec<Piece<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    CustomToolCall {
        call_id: &'a str,
        name: &'a str,
        input: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Output<'a>,
    },
    CustomToolCallOutput {
        call_id: &'a str,
        output: Output<'a>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    InputText { text: &'a str },
    OutputText { text: &'a str },
    InputImage { image_url: String },
    InputFile { filename: &'a str, file_data: String },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(&'a str),
    Pieces(Vec<Piece<'a>>),
}

/// Writes the body of a request, or the message that is one on a socket.
pub(in crate::wire) fn body(
    request: &ModelRequest,
    model: &str,
    info: &ModelInfo,
    socket: bool,
) -> serde_json::Result<Vec<u8>> {
    let effort = request.reasoning_effort.as_deref();
    // Models that do not reason refuse to be asked for their reasoning.
    let reasons = effort.is_some() || !info.reasoning_efforts.is_empty();
    serde_json::to_vec(&Body {
        r#type: socket.then_some("response.create"),
        model,
        instructions: &request.system,
        input: input(request),
        tools: request
            .tools
            .iter()
            .map(|tool| Tool {
                r#type: "function",
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.parameters,
                strict: false,
            })
            .collect(),
        tool_choice: request
            .required_tool
            .as_ref()
            .map(|name| json!({"type": "function", "name": name})),
        stream: (request.stream && !socket).then_some(true),
        store: false,
        include: reasons.then_some(["reasoning.encrypted_content"]),
        reasoning: reasoning(effort, request.reasoning_summary.as_deref()),
        text: request.response_format.as_ref().map(|format| Text {
            format: Format {
                r#type: "json_schema",
                schema: format,
            },
        }),
        max_output_tokens: request.max_output_tokens,
        // Models that reason refuse it.
        temperature: request.temperature.filter(|_| !reasons),
    })
}

fn reasoning(effort: Option<&str>, summary: Option<&str>) -> Option<Value> {
    let summary = match summary {
        Some("none") => None,
        Some(summary) => Some(summary),
        None => effort.map(|_| "auto"),
    };
    let mut reasoning = serde_json::Map::new();
    for (key, value) in [("effort", effort), ("summary", summary)] {
        if let Some(value) = value {
            reasoning.insert(key.to_owned(), value.into());
        }
    }
    (!reasoning.is_empty()).then(|| reasoning.into())
}

fn input(request: &ModelRequest) -> Vec<Input<'_>> {
    let mut items = Vec::with_capacity(request.messages.len());
    let mut custom = HashSet::new();
    for message in &request.messages {
        match message {
            Message::User(parts) => {
                let content = parts.iter().map(piece).collect();
                items.push(Input::Item(Item::Message {
                    role: "user",
                    content,
                    phase: None,
                }));
            }
            Message::Assistant(answer) => {
                custom.extend(
                    answer
                        .tool_calls
                        .iter()
                        .filter(|call| call.custom)
                        .map(|call| call.id.as_str()),
                );
                assistant(answer, &mut items);
            }
            Message::Tool {
                call_id,
                content,
                images,
                ..
            } => {
                let output = if images.is_empty() {
                    Output::Text(content)
                } else {
                    let text = Piece::InputText { text: content };
                    Output::Pieces(std::iter::once(text).chain(images.iter().map(picture)).collect())
                };
                items.push(Input::Item(if custom.contains(call_id.as_str()) {
                    Item::CustomToolCallOutput { call_id, output }
                } else {
                    Item::FunctionCallOutput { call_id, output }
                }));
            }
        }
    }
    items
}

fn assistant<'a>(answer: &'a AssistantMessage, items: &mut Vec<Input<'a>>) {
    if let Some(kept) = &answer.encrypted_content {
        // What does not read as a list of items came from elsewhere and is not for this provider.
        let kept: Vec<&RawValue> = serde_json::from_str(kept).unwrap_or_default();
        items.extend(kept.into_iter().map(Input::Verbatim));
    }
    if !answer.text.is_empty() {
        let content = vec![Piece::OutputText { text: &answer.text }];
        items.push(Input::Item(Item::Message {
            role: "assistant",
            content,
            phase: answer.phase.as_deref(),
        }));
    }
    items.extend(answer.tool_calls.iter().map(|call| {
        Input::Item(if call.custom {
            Item::CustomToolCall {
                call_id: &call.id,
                name: &call.name,
                input: &call.arguments,
            }
        } else {
            Item::FunctionCall {
                call_id: &call.id,
                name: &call.name,
                arguments: &call.arguments,
            }
        })
    }));
}

fn piece(part: &Part) -> Piece<'_> {
    match part {
        Part::Text(text) => Piece::InputText { text },
        Part::Image(image) => picture(image),
        Part::Document(document) => Piece::InputFile {
            filename: &document.title,
            file_data: format!("data:{};base64,{}", document.mime_type, document.data),
        },
    }
}

fn picture(image: &Image) -> Piece<'_> {
    Piece::InputImage {
        image_url: format!("data:{};base64,{}", image.mime_type, image.data),
    }
}
