//! The queue of accepted messages, as a fold of the log.

use std::collections::VecDeque;

use lodge_events::{AgentMode, LodgeMessageQueued, MessageLane, Payload, QueuedMessage, UserMessage};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::settings::{Delivery, Prompt};

/// Number of accepted messages that are remembered, so that one that is sent again is recognised.
const RECENT: usize = 256;

/// The queued messages, and those accepted lately. A fold of the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingMessages {
    /// Messages for after the running turn, the next one first.
    pub next: Vec<PendingMessage>,
    /// Messages for the running turn.
    pub steer: Vec<PendingMessage>,
    /// Ids of accepted messages as short numbers, oldest first: sessions are many, and ids are long.
    recent: VecDeque<u64>,
}

/// A queued message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingMessage {
    /// Its id.
    pub id: String,
    /// Its content, without secrets and headers.
    pub item: QueuedMessage,
    /// Whether it waits for a person's decision.
    #[serde(default)]
    pub parked: bool,
}

impl PendingMessages {
    /// Folds one event.
    pub fn fold(&mut self, payload: &Payload) {
        match payload {
            Payload::LodgeMessageQueued(queued) => self.queued(queued),
            Payload::LodgeMessageEdited(edited) => {
                if let Some(known) = self.all_mut().find(|known| known.id == edited.message_id) {
                    known.item = edited.item.clone();
                    known.parked = false;
                }
                self.remove(edited.replaces.as_slice());
            }
            Payload::LodgeMessageBegun(begun) => self.remove(begun.replaces.as_slice()),
            Payload::LodgeMessageMoved(moved) => {
                let mut moving: Vec<PendingMessage> = moved.order.iter().filter_map(|id| self.take(id)).collect();
                moving.iter_mut().for_each(|message| message.parked = false);
                self.lane(&moved.lane).splice(..0, moving);
            }
            Payload::LodgeMessageParked(parked) => {
                if let Some(known) = self.all_mut().find(|known| known.id == parked.message_id) {
                    known.parked = true;
                }
            }
            Payload::LodgeMessageRemoved(removed) => self.remove(&removed.ids),
            Payload::UserMessage(message) => self.said(message),
            _ => {}
        }
    }

    fn remove(&mut self, ids: &[String]) {
        for id in ids {
            self.take(id);
            // The sender may send it again on purpose.
            let key = key(id);
            self.recent.retain(|known| *known != key);
        }
    }

    fn queued(&mut self, queued: &LodgeMessageQueued) {
        self.remove(queued.replaces.as_slice());
        self.take(&queued.message_id);
        let lane = self.lane(&queued.lane);
        let at = queued.at.and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
        let message = PendingMessage {
            id: queued.message_id.clone(),
            item: queued.item.clone(),
            parked: false,
        };
        lane.insert(at.min(lane.len()), message);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(key(&queued.message_id));
    }

    /// A message became part of the conversation.
    fn said(&mut self, message: &UserMessage) {
        let Some(id) = &message.message_id else { return };
        if self.take(id).is_some() {
            return;
        }
        for before in self.all_mut().filter_map(|known| known.item.before.as_mut()) {
            if let Some(at) = before
                .iter()
                .position(|earlier| earlier.message_id.as_ref() == Some(id))
            {
                before.drain(..=at);
            }
        }
    }

    fn lane(&mut self, lane: &MessageLane) -> &mut Vec<PendingMessage> {
        match lane {
            MessageLane::Steer => &mut self.steer,
            _ => &mut self.next,
        }
    }

    fn take(&mut self, id: &str) -> Option<PendingMessage> {
        [&mut self.next, &mut self.steer].into_iter().find_map(|lane| {
            let at = lane.iter().position(|known| known.id == id)?;
            Some(lane.remove(at))
        })
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut PendingMessage> {
        self.next.iter_mut().chain(&mut self.steer)
    }

    /// In the order in which they come if no turn runs.
    pub fn all(&self) -> impl Iterator<Item = &PendingMessage> {
        self.steer.iter().chain(&self.next)
    }

    /// A queued message.
    pub fn get(&self, id: &str) -> Option<&PendingMessage> {
        self.all().find(|known| known.id == id)
    }

    /// Whether a message with this id was accepted lately and is no longer queued.
    pub fn was_said(&self, id: &str) -> bool {
        self.get(id).is_none() && self.recent.contains(&key(id))
    }
}

/// The same in every build, because the numbers are stored beside the log.
fn key(id: &str) -> u64 {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, id.as_bytes()).as_u64_pair().0
}

impl From<&Prompt> for QueuedMessage {
    fn from(prompt: &Prompt) -> Self {
        let some = |list: Vec<Self>| Some(list).filter(|list| !list.is_empty());
        let before = prompt.before.iter().map(|earlier| Self {
            message_id: earlier.message_id.clone(),
            ..earlier.into()
        });
        Self {
            text: prompt.text.clone(),
            display_text: prompt.display_text.clone(),
            attachments: Some(prompt.attachments.clone()).filter(|list| !list.is_empty()),
            agent_mode: prompt.agent_mode.as_deref().map(AgentMode::from),
            source: prompt.source.clone(),
            required_tool: prompt.required_tool.clone(),
            response_format: (prompt.response_format.as_ref()).and_then(|form| serde_json::to_value(&**form).ok()),
            message_id: None,
            before: some(before.collect()),
            command: prompt.command.clone(),
            client: prompt.client.clone(),
            needs_preparation: prompt.needs_preparation.then_some(true),
        }
    }
}

impl PendingMessage {
    /// Whether its turn begins only when a client that prepares messages starts it.
    pub fn needs_preparation(&self) -> bool {
        self.item.needs_preparation == Some(true)
    }

    /// The message as a prompt. Parts that no log may hold are missing.
    pub fn prompt(&self, lane: &MessageLane) -> Prompt {
        Prompt {
            delivery: match lane {
                MessageLane::Steer => Delivery::Immediate,
                _ => Delivery::Enqueue,
            },
            message_id: Some(self.id.clone()),
            ..prompt(&self.item)
        }
    }
}

fn prompt(item: &QueuedMessage) -> Prompt {
    let format = item.response_format.clone();
    Prompt {
        text: item.text.clone(),
        display_text: item.display_text.clone(),
        attachments: item.attachments.clone().unwrap_or_default(),
        agent_mode: item.agent_mode.as_ref().map(ToString::to_string),
        source: item.source.clone(),
        required_tool: item.required_tool.clone(),
        response_format: format
            .and_then(|format| serde_json::from_value(format).ok())
            .map(std::sync::Arc::new),
        message_id: item.message_id.clone(),
        before: item.before.iter().flatten().map(prompt).collect(),
        command: item.command.clone(),
        client: item.client.clone(),
        needs_preparation: item.needs_preparation == Some(true),
        ..Prompt::default()
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::{LodgeMessageEdited, LodgeMessageMoved, LodgeMessageRemoved, RemovalReason};

    use super::*;

    fn queued(id: &str, lane: MessageLane, at: Option<u64>) -> Payload {
        let item = QueuedMessage {
            text: format!("say {id}"),
            ..QueuedMessage::default()
        };
        let message_id = id.to_owned();
        LodgeMessageQueued {
            message_id,
            item,
            lane,
            at,
            ..LodgeMessageQueued::default()
        }
        .into()
    }

    fn said(id: &str) -> Payload {
        UserMessage {
            message_id: Some(id.to_owned()),
            ..UserMessage::default()
        }
        .into()
    }

    fn ids(lane: &[PendingMessage]) -> Vec<&str> {
        lane.iter().map(|message| message.id.as_str()).collect()
    }

    fn folded(events: impl IntoIterator<Item = Payload>) -> PendingMessages {
        let mut pending = PendingMessages::default();
        events.into_iter().for_each(|event| pending.fold(&event));
        pending
    }

    #[test]
    fn messages_wait_in_order_until_they_are_said_moved_or_removed() {
        let strings = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let moved = |lane, order: &[&str]| {
            Payload::from(LodgeMessageMoved {
                lane,
                order: strings(order),
            })
        };
        let removed = |list: &[&str]| {
            Payload::from(LodgeMessageRemoved {
                ids: strings(list),
                why: RemovalReason::Removed,
            })
        };
        let abc = || ["a", "b", "c"].map(|id| queued(id, MessageLane::Next, None)).to_vec();
        for (more, next, steer) in [
            (vec![], vec!["a", "b", "c"], vec![]),
            (
                vec![queued("d", MessageLane::Next, Some(1))],
                vec!["a", "d", "b", "c"],
                vec![],
            ),
            (
                vec![queued("d", MessageLane::Next, Some(9))],
                vec!["a", "b", "c", "d"],
                vec![],
            ),
            (vec![queued("b", MessageLane::Steer, None)], vec!["a", "c"], vec!["b"]),
            (vec![said("b"), said("x")], vec!["a", "c"], vec![]),
            (vec![removed(&["c", "x", "a"])], vec!["b"], vec![]),
            (vec![moved(MessageLane::Next, &["c", "a"])], vec!["c", "a", "b"], vec![]),
            (vec![moved(MessageLane::Steer, &["c", "x"])], vec!["a", "b"], vec!["c"]),
        ] {
            let pending = folded(abc().into_iter().chain(more.clone()));
            assert_eq!((ids(&pending.next), ids(&pending.steer)), (next, steer), "{more:?}");
        }
    }

    #[test]
    fn an_edited_message_says_something_else_where_it_was() {
        let item = QueuedMessage {
            text: "other".into(),
            ..QueuedMessage::default()
        };
        let edited = LodgeMessageEdited {
            message_id: "a".into(),
            item: item.clone(),
            replaces: None,
        };
        let pending = folded([
            queued("a", MessageLane::Next, None),
            queued("b", MessageLane::Next, None),
            edited.into(),
        ]);
        assert_eq!(
            (&pending.next[0].item, pending.next[1].item.text.as_str()),
            (&item, "say b")
        );
    }

    #[test]
    fn what_was_said_of_a_batch_is_not_said_again() {
        let earlier = |id: &str| Prompt {
            message_id: Some(id.to_owned()),
            ..Prompt::default()
        };
        let batch = Prompt {
            before: ["b0", "b1", "b2"].map(earlier).into(),
            ..earlier("b")
        };
        let event = LodgeMessageQueued {
            message_id: "b".into(),
            item: (&batch).into(),
            ..LodgeMessageQueued::default()
        };
        let pending = folded([event.into(), said("b0"), said("b1")]);
        let left = pending.get("b").unwrap().prompt(&MessageLane::Next);
        assert_eq!(left.message_id.as_deref(), Some("b"));
        let before: Vec<_> = left.before.iter().map(|prompt| prompt.message_id.as_deref()).collect();
        assert_eq!(before, [Some("b2")]);
    }

    #[test]
    fn a_message_that_was_said_is_recognised_and_one_that_was_removed_can_be_sent_again() {
        let gone = LodgeMessageRemoved {
            ids: vec!["c".into()],
            why: RemovalReason::Failed,
        };
        let mut pending = folded(["a", "b", "c"].map(|id| queued(id, MessageLane::Next, None)));
        for event in [said("a"), said("c"), gone.into()] {
            pending.fold(&event);
        }
        for (id, expected) in [("a", true), ("b", false), ("c", false), ("d", false)] {
            assert_eq!(pending.was_said(id), expected, "{id}");
        }
        for more in 0..RECENT {
            let id = format!("m{more}");
            pending.fold(&queued(&id, MessageLane::Next, None));
            pending.fold(&said(&id));
        }
        assert!(!pending.was_said("a"), "there is an end to remembering");
        assert!(pending.was_said("m0"));
    }
}
