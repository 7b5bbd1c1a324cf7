//! Makes a conversation shorter, so that the model can read what is left and sum it up.

use std::sync::Arc;

use lodge_models::{Message, Part};

/// Longer texts than this many bytes are shortened.
const LONG: usize = 2_000;
/// As much is kept of them, of the beginning and of the end.
const KEPT: usize = 500;
const LEFT_OUT: &str = "[Earlier messages are left out here: the conversation is too long to be read as a whole.]";

/// Shortens a conversation to this size, as far as that is possible: results of tools first, then what was said, then whole
/// messages, the oldest first. The last message stays as it is, and something of what is before it stays.
pub(super) fn shrink(messages: &mut Vec<Message>, most: usize) {
    let last = messages.len().saturating_sub(1);
    let mut size: usize = size_of(messages);
    for shorten in [shorten_work as fn(&mut Message), shorten_words] {
        for message in &mut messages[..last] {
            if size <= most {
                return;
            }
            size -= message.size();
            shorten(message);
            size += message.size();
        }
    }
    let mut gone = 0;
    while size > most {
        // Results go with the calls that they belong to.
        let results = messages[gone + 1..].iter();
        let results = results.take_while(|message| matches!(message, Message::Tool { .. }));
        let next = gone + 1 + results.count();
        if next >= last {
            break;
        }
        size -= size_of(&messages[gone..next]);
        gone = next;
    }
    if gone > 0 {
        messages.splice(..gone, [Message::User(vec![Part::Text(LEFT_OUT.into())])]);
    }
}

/// The size of messages for a model.
pub(super) fn size_of(messages: &[Message]) -> usize {
    messages.iter().map(Message::size).sum()
}

/// What tools were given and gave back, and pictures.
fn shorten_work(message: &mut Message) {
    match message {
        Message::User(parts) => {
            for part in parts {
                match part {
                    Part::Text(_) => {}
                    Part::Image(_) => *part = Part::Text("[An image is left out here.]".into()),
                    Part::Document(document) => {
                        let text = format!("[The document {} is left out here.]", document.title);
                        *part = Part::Text(text.into());
                    }
                }
            }
        }
        Message::Assistant(message) => {
            for call in &mut message.tool_calls {
                let length = call.arguments.len();
                if length > LONG {
                    let left_out = serde_json::json!({"left_out": format!("{length} bytes")});
                    call.arguments = left_out.to_string().into();
                }
            }
        }
        Message::Tool {
            content,
            images,
            sources,
            ..
        } => {
            shorten(content);
            images.clear();
            sources.clear();
        }
    }
}

/// What was said, and thoughts that only the provider can read.
fn shorten_words(message: &mut Message) {
    match message {
        Message::User(parts) => {
            for part in parts {
                if let Part::Text(text) = part {
                    shorten(text);
                }
            }
        }
        Message::Assistant(message) => {
            shorten(&mut message.text);
            message.reasoning_opaque = None;
            message.encrypted_content = None;
        }
        Message::Tool { .. } => {}
    }
}

fn shorten(text: &mut Arc<str>) {
    if text.len() > LONG {
        let (from, to) = (
            text.floor_char_boundary(KEPT),
            text.ceil_char_boundary(text.len() - KEPT),
        );
        let (begin, end) = (&text[..from], &text[to..]);
        *text = format!("{begin}\n[{} bytes are left out here.]\n{end}", to - from).into();
    }
}

#[cfg(test)]
mod tests {
    use lodge_models::{AssistantMessage, ToolCall};

    use super::*;

    fn said(text: &str) -> Message {
        Message::User(vec![Part::Text(text.into())])
    }

    fn called(id: &str, arguments: &str) -> Message {
        Message::Assistant(AssistantMessage {
            tool_calls: vec![ToolCall {
                id: id.into(),
                name: "view".into(),
                arguments: arguments.into(),
                custom: false,
            }],
            ..AssistantMessage::default()
        })
    }

    fn result(id: &str, content: &str) -> Message {
        Message::Tool {
            call_id: id.into(),
            name: "view".into(),
            content: content.into(),
            images: Vec::new(),
            sources: Vec::new(),
        }
    }

    #[test]
    fn a_conversation_gets_as_short_as_it_must_and_stays_one() {
        let long = "é".repeat(5_000);
        let whole = vec![
            said(&long),
            called("1", &format!(r#"{{"text":"{long}"}}"#)),
            result("1", &long),
            said("and now?"),
            called("2", "{}"),
            result("2", &long),
            said("sum it up"),
        ];
        let size = size_of;
        let mut before = usize::MAX;
        for most in (0..=size(&whole)).rev().step_by(500) {
            let mut messages = whole.clone();
            shrink(&mut messages, most);
            assert!(size(&messages) <= most.max(1_300), "{most}: {}", size(&messages));
            assert!(size(&messages) <= before);
            before = size(&messages);
            let Some(Message::User(last)) = messages.last() else {
                panic!("{messages:?}")
            };
            assert!(matches!(&last[..], [Part::Text(text)] if &**text == "sum it up"));
            assert!(matches!(messages.first(), Some(Message::User(_))), "{messages:?}");
            let mut calls = Vec::new();
            for message in &messages {
                match message {
                    Message::Assistant(message) => {
                        for call in &message.tool_calls {
                            assert!(serde_json::from_str::<serde_json::Value>(&call.arguments).is_ok());
                            calls.push(call.id.clone());
                        }
                    }
                    Message::Tool { call_id, .. } => assert!(calls.contains(call_id), "{messages:?}"),
                    Message::User(_) => {}
                }
            }
        }
        // The oldest result goes before the newest.
        let mut messages = whole.clone();
        shrink(&mut messages, size(&whole) - 5_000);
        assert_eq!(messages[5].size(), whole[5].size());
        assert!(messages[1].size() < LONG);
    }
}
