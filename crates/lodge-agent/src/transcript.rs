//! The conversation as the model gets it: a fold over persisted events, the same whether they happen now or are read back.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use lodge_events::{Attachment, Event, Payload};
use lodge_models::{AssistantMessage, Image, Message, Part, ToolCall};
use uuid::Uuid;

/// What a model reads in place of a result that never came.
pub(crate) const INTERRUPTED: &str = "The execution of this tool, or a previous tool was interrupted.";

#[derive(Debug)]
enum Entry {
    /// What the model reads, and what the person said.
    User(Vec<Part>, String),
    /// What stands for everything before it, and what the person said in that.
    Summary(Vec<Part>, String),
    Assistant {
        event: Uuid,
        message: AssistantMessage,
        results: Vec<Option<Outcome>>,
    },
}

#[derive(Debug, Clone)]
struct Outcome {
    content: Arc<str>,
    images: Vec<Image>,
}

/// The conversation.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: Vec<Entry>,
    /// Tool-call arguments as the model wrote them, for calls of this run; events hold them parsed.
    verbatim: HashMap<String, Arc<str>>,
    bytes: usize,
}

impl Transcript {
    /// Keeps the arguments of calls that the next recorded message will hold.
    pub(crate) fn keep_verbatim(&mut self, calls: &[ToolCall]) {
        self.verbatim
            .extend(calls.iter().map(|call| (call.id.clone(), call.arguments.clone())));
    }

    /// Takes one persisted event into account.
    pub(crate) fn fold(&mut self, event: &Event) {
        if event.agent_id().is_some() {
            return;
        }
        match event.payload() {
            Payload::UserMessage(message) => {
                let text = message.transformed_content.as_deref().unwrap_or(&message.content);
                let mut parts = vec![Part::Text(text.into())];
                for attachment in message.attachments.iter().flatten() {
                    parts.extend(name(attachment).into_iter().chain(image(attachment)));
                }
                self.push(Entry::User(parts, message.content.clone()), text.len());
            }
            Payload::AssistantMessage(message) if message.parent_tool_call_id.is_none() => {
                let tool_calls: Vec<ToolCall> = message
                    .tool_requests
                    .iter()
                    .flatten()
                    .map(|request| self.tool_call(request))
                    .collect();
                let size = message.content.len() + tool_calls.iter().map(|call| call.arguments.len()).sum::<usize>();
                let results = vec![None; tool_calls.len()];
                let message = AssistantMessage {
                    text: message.content.as_str().into(),
                    tool_calls,
                    reasoning_text: message.reasoning_text.clone(),
                    reasoning_opaque: message.reasoning_opaque.clone(),
                    encrypted_content: message.encrypted_content.clone(),
                };
                self.push(
                    Entry::Assistant {
                        event: event.id(),
                        message,
                        results,
                    },
                    size,
                );
            }
            Payload::ToolExecutionComplete(done) => {
                let content = match (&done.result, &done.error) {
                    (Some(result), _) => result.content.as_str(),
                    (None, Some(error)) => error.message.as_str(),
                    (None, None) => "",
                };
                let images = done
                    .result
                    .iter()
                    .flat_map(|result| result.contents.iter().flatten())
                    .filter_map(block_image);
                self.settle(
                    &done.tool_call_id,
                    Outcome {
                        content: content.into(),
                        images: images.collect(),
                    },
                );
            }
            Payload::SessionCompactionComplete(done) if done.success => {
                if let Some(summary) = &done.summary_content {
                    self.replace_by_summary(summary);
                }
            }
            // What was taken back before anything came of it was not said, as the Copilot CLI has it.
            Payload::Abort(_) => {
                while let Some(Entry::User(..)) = self.entries.last() {
                    self.entries.pop();
                }
            }
            Payload::SessionContextCleared(_) => {
                self.entries.clear();
                self.bytes = 0;
            }
            _ => {}
        }
    }

    fn tool_call(&mut self, request: &lodge_events::ToolRequest) -> ToolCall {
        let arguments = self
            .verbatim
            .remove(&request.tool_call_id)
            .unwrap_or_else(|| match &request.arguments {
                None => "{}".into(),
                // What was not JSON is kept as the text it was.
                Some(serde_json::Value::String(text)) => text.as_str().into(),
                Some(value) => value.to_string().into(),
            });
        ToolCall {
            id: request.tool_call_id.clone(),
            name: request.name.clone(),
            arguments,
            custom: request.type_ == Some(lodge_events::ToolRequestType::Custom),
        }
    }

    fn push(&mut self, entry: Entry, bytes: usize) {
        self.entries.push(entry);
        self.bytes += bytes;
    }

    fn settle(&mut self, call_id: &str, outcome: Outcome) {
        for entry in self.entries.iter_mut().rev() {
            if let Entry::Assistant { message, results, .. } = entry
                && let Some(at) = message.tool_calls.iter().position(|call| call.id == call_id)
            {
                self.bytes += outcome.content.len();
                results[at].get_or_insert(outcome);
                return;
            }
        }
    }

    /// Everything becomes one message: what the person said, word for word so that the model still knows what it was
    /// asked, and a summary of the rest.
    fn replace_by_summary(&mut self, summary: &str) {
        let answered = match self.entries.last() {
            Some(Entry::Assistant { message, .. }) => message.tool_calls.is_empty(),
            _ => false,
        };
        let asked = self.entries.iter().rposition(|entry| matches!(entry, Entry::User(..)));
        let open = asked.filter(|_| !answered).map(|at| self.entries.remove(at));
        let mut said = String::new();
        for entry in &self.entries {
            match entry {
                Entry::User(_, text) => drop(writeln!(said, "<user_message>\n{text}\n</user_message>")),
                Entry::Summary(_, before) => said.push_str(before),
                Entry::Assistant { .. } => {}
            }
        }
        let text = format!(
            "Some of the conversation history has been summarized to free up context.\n\nYou were originally given \
             instructions from a user over one or more turns. Here were the user messages:\n{said}\nHere is a summary of \
             the prior context:\n<summary>\n{summary}\n</summary>"
        );
        self.bytes = text.len();
        self.entries = vec![Entry::Summary(vec![Part::Text(text.into())], said)];
        if let Some(Entry::User(parts, text)) = open {
            self.bytes += text.len();
            self.entries.push(Entry::User(parts, text));
        }
    }

    /// The messages for a model call. Every tool call has a result, as the wires demand; images are left out for a model
    /// that does not take them.
    pub(crate) fn messages(&self, vision: bool) -> Vec<Message> {
        let seen = |parts: &[Part]| -> Vec<Part> {
            let shown = parts.iter().filter(|part| vision || matches!(part, Part::Text(_)));
            shown.cloned().collect()
        };
        let mut messages = Vec::with_capacity(self.entries.len() * 2);
        for entry in &self.entries {
            match entry {
                Entry::User(parts, _) | Entry::Summary(parts, _) => messages.push(Message::User(seen(parts))),
                Entry::Assistant { message, results, .. } => {
                    messages.push(Message::Assistant(message.clone()));
                    let mut viewed = Vec::new();
                    for (call, outcome) in message.tool_calls.iter().zip(results) {
                        let (content, mut images) = match outcome {
                            Some(outcome) if vision => (outcome.content.clone(), outcome.images.clone()),
                            Some(outcome) => (outcome.content.clone(), Vec::new()),
                            None => (INTERRUPTED.into(), Vec::new()),
                        };
                        if call.name == "view" && !images.is_empty() {
                            viewed.push(image_message(&call.arguments, std::mem::take(&mut images)));
                        }
                        messages.push(Message::Tool {
                            call_id: call.id.clone(),
                            name: call.name.clone(),
                            content,
                            images,
                        });
                    }
                    messages.append(&mut viewed);
                }
            }
        }
        messages
    }

    /// The tool calls of the last assistant message that have no result, with the event that asked for them.
    pub(crate) fn open_calls(&self) -> Option<(Uuid, Vec<ToolCall>)> {
        let Some(Entry::Assistant {
            event,
            message,
            results,
        }) = self
            .entries
            .iter()
            .rev()
            .find(|entry| matches!(entry, Entry::Assistant { .. }))
        else {
            return None;
        };
        let open: Vec<_> = message
            .tool_calls
            .iter()
            .zip(results)
            .filter(|(_, result)| result.is_none())
            .map(|(call, _)| call.clone())
            .collect();
        (!open.is_empty()).then_some((*event, open))
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// About how many tokens the conversation takes: four bytes each is near enough to decide when to compact.
    pub(crate) fn tokens(&self) -> u64 {
        self.bytes as u64 / 4
    }
}

/// The name of an image goes before it.
fn name(attachment: &Attachment) -> Option<Part> {
    match attachment {
        Attachment::Blob(blob) if blob.mime_type.starts_with("image/") && blob.data.is_some() => {
            Some(Part::Text(blob.display_name.as_deref()?.into()))
        }
        _ => None,
    }
}

fn image(attachment: &Attachment) -> Option<Part> {
    match attachment {
        Attachment::Blob(blob) if blob.mime_type.starts_with("image/") => Some(Part::Image(Image {
            mime_type: blob.mime_type.clone(),
            data: blob.data.as_deref()?.into(),
        })),
        _ => None,
    }
}

/// An image that was viewed is shown in a message of its own, since not every wire takes images in results.
fn image_message(arguments: &str, images: Vec<Image>) -> Message {
    let path = serde_json::from_str::<serde_json::Value>(arguments)
        .ok()
        .and_then(|arguments| Some(arguments.get("path")?.as_str()?.to_owned()))
        .unwrap_or_default();
    let mut parts = vec![Part::Text(format!("Image file at path {path}").into())];
    parts.extend(images.into_iter().map(Part::Image));
    Message::User(parts)
}

fn block_image(block: &lodge_events::ContentBlock) -> Option<Image> {
    match block {
        lodge_events::ContentBlock::Image(image) => Some(Image {
            mime_type: image.mime_type.clone(),
            data: image.data.as_str().into(),
        }),
        _ => None,
    }
}
