//! Messages that refer to other chats: the model reads what was said there.

use ahp_types::state::{Message, MessageAttachment, ResponsePart, ToolCallState, Turn};
use lodge_host::Delivery;

use super::{ChatEntry, ChatStore, Core};
use crate::conversation::Effect;

/// Why a message cannot refer to a chat.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QuoteError {
    #[error("there is no chat {0}")]
    NoChat(String),
    #[error("the attached chat has no finished turn {0:?}")]
    NoTurn(String),
}

/// The model reads the end of a long chat.
const QUOTED: usize = 128 << 10;

impl Core {
    /// Sets the last turn of each attached chat that the message refers to. It does not refer to what is said later.
    pub(crate) fn pin_chats(&self, message: &mut Message) -> Result<(), QuoteError> {
        for attachment in message.attachments.iter_mut().flatten() {
            let MessageAttachment::Chat(attached) = attachment else {
                continue;
            };
            let chat = self.chats.get(attached.resource.as_str());
            let chat = chat.ok_or_else(|| QuoteError::NoChat(attached.resource.clone()))?;
            let turns = chat.store().turns();
            match &attached.end_turn {
                Some(end) if !turns.iter().any(|turn| *turn.id == **end) => {
                    return Err(QuoteError::NoTurn(end.clone()));
                }
                Some(_) => {}
                None => attached.end_turn = turns.last().map(|turn| turn.id.to_string()),
            }
        }
        Ok(())
    }

    /// A message for the agent, with what was said in the chats that it refers to.
    pub(crate) fn for_agent(&self, id: String, message: Message, delivery: Delivery) -> Effect {
        let chats = message
            .attachments
            .iter()
            .flatten()
            .filter_map(|attachment| match attachment {
                MessageAttachment::Chat(attached) => {
                    let store = self.chats.get(attached.resource.as_str()).map(ChatEntry::store);
                    let said = match (store, &attached.end_turn) {
                        (Some(store), Some(end)) => quote(store, end),
                        (Some(_), None) => String::new(),
                        (None, _) => "(The chat cannot be read any more.)".to_owned(),
                    };
                    Some(format!(
                        "<chat title=\"{}\">\n{said}</chat>",
                        attached.label.replace('"', "'")
                    ))
                }
                MessageAttachment::Annotations(attached) => Some(self.quote_annotations(attached)),
                _ => None,
            });
        Effect::Send {
            id,
            chats: chats.collect(),
            message: Box::new(message),
            delivery,
            client: None,
        }
    }
}

/// What was said in a chat up to a turn. Chats that are attached in it stay references.
fn quote(store: &ChatStore, end: &str) -> String {
    let Some(end) = store.position(end) else {
        return String::new();
    };
    let (mut turns, mut left) = (Vec::new(), QUOTED);
    for at in (0..=end).rev() {
        let turn = store
            .json(at)
            .and_then(|json| serde_json::from_str::<Turn>(json.get()).ok());
        let Some(said) = turn.map(|turn| told(&turn)) else {
            continue;
        };
        if said.len() > left {
            turns.push("(Earlier messages omitted.)\n\n".to_owned());
            break;
        }
        left -= said.len();
        turns.push(said);
    }
    turns.reverse();
    turns.concat()
}

fn told(turn: &Turn) -> String {
    let mut text = format!("User: {}\n\n", turn.message.text);
    for part in &turn.response_parts {
        let said = match part {
            ResponsePart::Markdown(part) => part.content.clone(),
            ResponsePart::ToolCall(part) => match &part.tool_call {
                ToolCallState::Completed(call) => format!("({})", call.past_tense_message.as_text()),
                _ => continue,
            },
            ResponsePart::Error(part) => format!("(Error: {})", part.error.message),
            _ => continue,
        };
        text.push_str(&format!("Assistant: {said}\n\n"));
    }
    text
}
