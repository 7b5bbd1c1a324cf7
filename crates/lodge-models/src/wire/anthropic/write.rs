//! Writes a request for the Anthropic messages API.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::{AssistantMessage, CitableSource, Image, Message, ModelInfo, ModelRequest, Part};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Said<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    what: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cache>,
}

/// Asks the provider to keep everything up to here for the next call.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Cache {
    Ephemeral,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Known(Known<'a>),
    Thought(Thought<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Known<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        title: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<Citations>,
    },
    SearchResult {
        source: &'a str,
        title: &'a str,
        content: [Text<'a>; 1],
        citations: Citations,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Cow<'a, RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<Known<'a>>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct Citations {
    enabled: bool,
}

/// A block of thinking that is sent back as it came.
#[derive(Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Thought<'a> {
    Thinking {
        thinking: Cow<'a, str>,
        signature: Cow<'a, str>,
    },
    RedactedThinking {
        data: Cow<'a, str>,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

/// Writes the body of a request.
pub(in crate::wire) fn body(request: &ModelRequest, model: &str, info: &ModelInfo) -> serde_json::Result<Vec<u8>> {
    let max_tokens = request.bound_of_answer(info);
    let effort = request.reasoning_effort.as_deref().filter(|effort| *effort != "none");
    // Thinking goes neither with a tool that must be called nor with an open turn that began without thinking.
    let effort = effort.filter(|_| request.required_tool.is_none() && may_think(request));
    let (thinking, mut output_config) = effort.map_or((None, None), |effort| thinking(effort, model, max_tokens));
    if let Some(format) = &request.response_format {
        let config = output_config.get_or_insert_with(|| json!({}));
        config["format"] = json!({"type": "json_schema", "schema": format.schema});
    }
    let mut system = Vec::new();
    if !request.system.is_empty() {
        system.push(Block {
            what: text(&request.system),
            cache_control: Some(Cache::Ephemeral),
        });
    }
    let mut messages = messages(request)?;
    if let Some(last) = messages
        .last_mut()
        .filter(|said| said.role == "user")
        .and_then(|said| said.content.last_mut())
    {
        last.cache_control = Some(Cache::Ephemeral);
    }
    serde_json::to_vec(&Body {
        model,
        max_tokens,
        system,
        messages,
        tools: request
            .tools
            .iter()
            .map(|tool| Tool {
                name: &tool.name,
                description: &tool.description,
                input_schema: &tool.parameters,
            })
            .collect(),
        tool_choice: request
            .required_tool
            .as_ref()
            .map(|name| json!({"type": "tool", "name": name})),
        stream: request.stream.then_some(true),
        // It goes with no thinking, and the wire's scale ends at 1.
        temperature: request
            .temperature
            .filter(|_| thinking.is_none())
            .map(|temperature| temperature.clamp(0.0, 1.0)),
        stop_sequences: &request.stop,
        thinking,
        output_config,
    })
}

/// How to ask for an effort: newer models choose how much to think, older ones are given a budget.
fn thinking(effort: &str, model: &str, max_tokens: u64) -> (Option<Value>, Option<Value>) {
    if thinks_by_itself(model) {
        return (Some(json!({"type": "adaptive"})), Some(json!({"effort": effort})));
    }
    let budget: u64 = match effort {
        "minimal" | "low" => 4_096,
        "medium" => 16_384,
        _ => 32_768,
    };
    let budget = budget.min(max_tokens.saturating_sub(max_tokens / 4));
    // The wire's own lower bound.
    let thinking = (budget >= 1_024).then(|| json!({"type": "enabled", "budget_tokens": budget}));
    (thinking, None)
}

/// Claude from 4.6 on.
fn thinks_by_itself(model: &str) -> bool {
    let Some((_, name)) = model.split_once("claude-") else {
        return false;
    };
    let mut numbers = name.split(['-', '.']).filter_map(|piece| piece.parse::<u32>().ok());
    let major = numbers.next().unwrap_or(0);
    // A date is no version.
    let minor = numbers.next().filter(|minor| *minor < 100).unwrap_or(0);
    (major, minor) >= (4, 6)
}

/// Whether every answer of the open turn that called tools carries its thoughts.
fn may_think(request: &ModelRequest) -> bool {
    let answers = request
        .messages
        .iter()
        .rev()
        .take_while(|message| !matches!(message, Message::User(_)));
    answers
        .filter_map(|message| match message {
            Message::Assistant(answer) if !answer.tool_calls.is_empty() => Some(answer),
            _ => None,
        })
        .all(|answer| !thoughts(answer).is_empty())
}

/// The thoughts that came over this wire.
fn thoughts(answer: &AssistantMessage) -> Vec<Thought<'_>> {
    answer
        .reasoning_opaque
        .as_deref()
        .and_then(|opaque| serde_json::from_str(opaque).ok())
        .unwrap_or_default()
}

fn text(text: &str) -> Content<'_> {
    Content::Known(Known::Text { text })
}

/// The conversation; what the person and the tools say in a row is one message.
fn messages(request: &ModelRequest) -> serde_json::Result<Vec<Said<'_>>> {
    let mut said: Vec<Said<'_>> = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        let (role, blocks) = match message {
            Message::User(parts) => {
                let parts = parts.iter().filter_map(|piece| part(piece, request.citations));
                ("user", parts.collect::<Vec<_>>())
            }
            Message::Assistant(answer) => ("assistant", assistant(answer)?),
            Message::Tool {
                call_id,
                content,
                images,
                sources,
                ..
            } => {
                let shown = (!content.is_empty()).then_some(Known::Text { text: content });
                let citable = sources.iter().filter(|_| request.citations).filter_map(found);
                let content = shown
                    .into_iter()
                    .chain(citable)
                    .chain(images.iter().map(picture))
                    .collect();
                (
                    "user",
                    vec![Content::Known(Known::ToolResult {
                        tool_use_id: id(call_id),
                        content,
                    })],
                )
            }
        };
        let blocks = blocks.into_iter().map(|what| Block {
            what,
            cache_control: None,
        });
        match said.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => said.push(Said {
                role,
                content: blocks.collect(),
            }),
        }
    }
    said.retain(|said| !said.content.is_empty());
    Ok(said)
}

fn part(part: &Part, citations: bool) -> Option<Content<'_>> {
    match part {
        // The wire refuses empty text.
        Part::Text(words) => (!words.trim().is_empty()).then(|| text(words)),
        Part::Image(image) => Some(Content::Known(picture(image))),
        Part::Document(document) => Some(Content::Known(Known::Document {
            source: Source::base64(&document.mime_type, &document.data),
            title: &document.title,
            citations: citations.then_some(Citations { enabled: true }),
        })),
    }
}

/// What a tool found, where the model may cite it. The wire refuses empty text.
fn found(source: &CitableSource) -> Option<Known<'_>> {
    (!source.content.trim().is_empty()).then(|| Known::SearchResult {
        source: source.name(),
        title: source.title.as_deref().unwrap_or(source.name()),
        content: [Text { text: &source.content }],
        citations: Citations { enabled: true },
    })
}

fn picture(image: &Image) -> Known<'_> {
    Known::Image {
        source: Source::base64(&image.mime_type, &image.data),
    }
}

impl<'a> Source<'a> {
    fn base64(media_type: &'a str, data: &'a str) -> Self {
        Self {
            r#type: "base64",
            media_type,
            data,
        }
    }
}

fn assistant(answer: &AssistantMessage) -> serde_json::Result<Vec<Content<'_>>> {
    let mut blocks: Vec<Content<'_>> = thoughts(answer).into_iter().map(Content::Thought).collect();
    if !answer.text.trim().is_empty() {
        blocks.push(text(&answer.text));
    }
    for call in &answer.tool_calls {
        let input = input(&call.arguments)?;
        blocks.push(Content::Known(Known::ToolUse {
            id: id(&call.id),
            name: &call.name,
            input,
        }));
    }
    Ok(blocks)
}

/// Arguments letter for letter. The wire takes objects only, so what is none is put into one.
fn input(arguments: &str) -> serde_json::Result<Cow<'_, RawValue>> {
    if arguments.trim().is_empty() {
        return serde_json::value::to_raw_value(&json!({})).map(Cow::Owned);
    }
    match serde_json::from_str::<&RawValue>(arguments) {
        Ok(raw) if raw.get().starts_with('{') => Ok(Cow::Borrowed(raw)),
        _ => serde_json::value::to_raw_value(&json!({ "arguments": arguments })).map(Cow::Owned),
    }
}

/// Ids of other providers may have letters that this wire refuses.
fn id(id: &str) -> Cow<'_, str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.chars().all(allowed) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(id.replace(|c| !allowed(c), "_"))
    }
}

#[cfg(test)]
mod tests {
    use super::thinks_by_itself;

    #[test]
    fn newer_models_choose_how_much_to_think() {
        let cases = [
            ("claude-3-7-sonnet-latest", false),
            ("claude-sonnet-4-20250514", false),
            ("claude-opus-4-5", false),
            ("claude-opus-4-6", true),
            ("anthropic/claude-sonnet-4.6", true),
            ("claude-opus-5", true),
            ("llama", false),
        ];
        for (model, expected) in cases {
            assert_eq!(thinks_by_itself(model), expected, "{model}");
        }
    }
}
