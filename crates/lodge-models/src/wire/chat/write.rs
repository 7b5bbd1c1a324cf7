//! Writes a request for the chat completions API.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use crate::{AssistantMessage, Image, Message, ModelRequest, Part, ToolCall};

/// The wire takes no more.
const MOST_STOPS: usize = 4;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_text: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_opaque: Option<&'a str>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: Url },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: String,
}

#[derive(Serialize)]
struct Url {
    url: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(flatten)]
    what: CalledTool<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum CalledTool<'a> {
    Function { function: Function<'a> },
    Custom { custom: Custom<'a> },
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Custom<'a> {
    name: &'a str,
    input: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Definition<'a>,
}

#[derive(Serialize)]
struct Definition<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

/// Writes the body of a request.
pub(in crate::wire) fn body(request: &ModelRequest, model: &str) -> serde_json::Result<Vec<u8>> {
    let limit = request.max_output_tokens;
    let newer = counts_reasoning(model);
    serde_json::to_vec(&Body {
        model,
        messages: messages(request),
        tools: request
            .tools
            .iter()
            .map(|tool| Tool {
                r#type: "function",
                function: Definition {
                    name: &tool.name,
                    description: &tool.description,
                    parameters: &tool.parameters,
                },
            })
            .collect(),
        tool_choice: request
            .required_tool
            .as_ref()
            .map(|name| json!({"type": "function", "function": {"name": name}})),
        stream: request.stream.then_some(true),
        stream_options: request.stream.then(|| json!({"include_usage": true})),
        reasoning_effort: request.reasoning_effort.as_deref(),
        response_format: request
            .response_format
            .as_ref()
            .map(|format| json!({"type": "json_schema", "json_schema": **format})),
        max_tokens: limit.filter(|_| !newer),
        max_completion_tokens: limit.filter(|_| newer),
        // Models that reason refuse both.
        temperature: request.temperature.filter(|_| !newer),
        stop: if newer {
            &[]
        } else {
            &request.stop[..request.stop.len().min(MOST_STOPS)]
        },
    })
}

/// OpenAI's reasoning models take only the newer name of the limit; local servers often know only the older one.
fn counts_reasoning(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["o1", "o3", "o4", "gpt-5", "gpt-6"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

fn messages(request: &ModelRequest) -> Vec<WireMessage<'_>> {
    let mut said = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        said.push(WireMessage::System {
            content: &request.system,
        });
    }
    let turn = request
        .messages
        .iter()
        .rposition(|message| matches!(message, Message::User(_)))
        .unwrap_or(0);
    // This wire takes images from the person only, so those of tool results follow when all results are told.
    let mut pictures = Vec::new();
    for (at, message) in request.messages.iter().enumerate() {
        if !matches!(message, Message::Tool { .. }) {
            show(&mut pictures, &mut said);
        }
        match message {
            Message::User(parts) => said.push(WireMessage::User {
                content: content(parts),
            }),
            Message::Assistant(answer) => said.push(assistant(answer, at > turn)),
            Message::Tool {
                call_id,
                name,
                content,
                images,
                ..
            } => {
                said.push(WireMessage::Tool {
                    tool_call_id: call_id,
                    content,
                });
                if !images.is_empty() {
                    pictures.push(Piece::Text {
                        text: format!("Images of the result of {name}:").into(),
                    });
                    pictures.extend(images.iter().map(picture));
                }
            }
        }
    }
    show(&mut pictures, &mut said);
    said
}

fn show<'a>(pictures: &mut Vec<Piece<'a>>, said: &mut Vec<WireMessage<'a>>) {
    if !pictures.is_empty() {
        said.push(WireMessage::User {
            content: Content::Parts(std::mem::take(pictures)),
        });
    }
}

fn content(parts: &[Part]) -> Content<'_> {
    match parts {
        [Part::Text(text)] => Content::Text(text),
        _ => Content::Parts(
            parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => Piece::Text {
                        text: Cow::Borrowed(text),
                    },
                    Part::Image(image) => picture(image),
                    Part::Document(document) => Piece::File {
                        file: File {
                            filename: &document.title,
                            file_data: format!("data:{};base64,{}", document.mime_type, document.data),
                        },
                    },
                })
                .collect(),
        ),
    }
}

fn picture(image: &Image) -> Piece<'_> {
    Piece::ImageUrl {
        image_url: Url {
            url: format!("data:{};base64,{}", image.mime_type, image.data),
        },
    }
}

fn assistant(answer: &AssistantMessage, in_turn: bool) -> WireMessage<'_> {
    let opaque = answer.reasoning_opaque.as_deref().filter(|opaque| is_ours(opaque));
    let text = answer.reasoning_text.as_deref();
    WireMessage::Assistant {
        content: (!answer.text.is_empty() || answer.tool_calls.is_empty()).then_some(&*answer.text),
        tool_calls: answer.tool_calls.iter().map(call).collect(),
        // DeepSeek and its kin want their thoughts back while tools run, and refuse them later.
        reasoning_content: text.filter(|_| opaque.is_none() && in_turn && !answer.tool_calls.is_empty()),
        reasoning_text: text.filter(|_| opaque.is_some()),
        reasoning_opaque: opaque,
    }
}

/// Whether opaque reasoning came from this wire: the Anthropic wire keeps a list of blocks, the rehearsal model a seal.
fn is_ours(opaque: &str) -> bool {
    !(opaque.starts_with("[{") || opaque.starts_with("rehearsal-"))
}

fn call(call: &ToolCall) -> Call<'_> {
    let what = if call.custom {
        CalledTool::Custom {
            custom: Custom {
                name: &call.name,
                input: &call.arguments,
            },
        }
    } else {
        CalledTool::Function {
            function: Function {
                name: &call.name,
                arguments: &call.arguments,
            },
        }
    };
    Call { id: &call.id, what }
}
