//! Outgoing messages. Each is kept until the agent has taken it up. If the host was restarted before it had the message, the message is
//! sent again, under the same id, so that it counts once.

use ahp::ahp_types::{
    StateAction,
    actions::{ChatPendingMessageSetAction, ChatTurnStartedAction},
    state::{Message, MessageKind, MessageOrigin, ModelSelection, PendingMessageKind},
};
use uuid::Uuid;

use super::mirror::Mirror;

struct Outgoing {
    id: String,
    message: Message,
    kind: Option<PendingMessageKind>,
    sent: bool,
}

/// The outgoing messages, oldest first.
#[derive(Default)]
pub struct Outbox(Vec<Outgoing>);

/// What becomes of a refused message.
#[derive(Debug)]
pub enum Refused {
    /// It is sent again, for the queue.
    Queued,
    /// It is not sent again. Absent if it was removed before.
    Removed(Option<Box<Message>>),
}

/// Makes a person's message.
pub fn message(text: &str, model: Option<String>) -> Message {
    Message {
        text: text.to_owned(),
        origin: MessageOrigin {
            kind: MessageKind::User,
        },
        attachments: None,
        model: model.map(|id| ModelSelection { id, config: None }),
        agent: None,
        meta: None,
    }
}

impl Outbox {
    /// Whether no message is outgoing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The messages that were not sent yet.
    pub fn unsent(&self) -> impl Iterator<Item = &Message> {
        self.0.iter().filter(|out| !out.sent).map(|out| &out.message)
    }

    /// Adds a message. If `steers`, it goes into the running turn. Returns its id.
    pub fn put(&mut self, message: Message, steers: bool) -> String {
        let id = Uuid::new_v4().to_string();
        self.0.push(Outgoing {
            id: id.clone(),
            message,
            kind: steers.then_some(PendingMessageKind::Steering),
            sent: false,
        });
        id
    }

    /// The next action to send, with the id of its message. It begins a turn if the agent is idle, and otherwise adds the
    /// message to the host's queue.
    pub fn next(&mut self, mirror: &Mirror) -> Option<(String, StateAction)> {
        if !mirror.is_ready() {
            return None;
        }
        let under_way = self.0.iter().any(|out| out.sent);
        let out = self.0.iter_mut().find(|out| !out.sent)?;
        out.sent = true;
        let (id, message) = (out.id.clone(), out.message.clone());
        let busy = mirror.is_busy() || under_way;
        let kind = match out.kind {
            Some(kind) => kind,
            None if busy => PendingMessageKind::Queued,
            None => {
                let action = ChatTurnStartedAction {
                    turn_id: id.clone(),
                    started_at: format!("{:.3}", jiff::Timestamp::now()),
                    message,
                    queued_message_id: mirror.is_waiting(&out.id).then(|| out.id.clone()),
                    meta: None,
                };
                return Some((id, StateAction::ChatTurnStarted(action)));
            }
        };
        let action = ChatPendingMessageSetAction {
            kind,
            id: id.clone(),
            message,
        };
        Some((id, StateAction::ChatPendingMessageSet(action)))
    }

    /// Notes that the host refused a message. If it was to begin a turn, another one may just have begun, so it is queued instead.
    pub fn refused(&mut self, id: &str) -> Refused {
        let Some(at) = self.0.iter().position(|out| out.id == id) else {
            return Refused::Removed(None);
        };
        let out = &mut self.0[at];
        if out.kind.is_none() {
            (out.kind, out.sent) = (Some(PendingMessageKind::Queued), false);
            return Refused::Queued;
        }
        Refused::Removed(Some(Box::new(self.0.remove(at).message)))
    }

    /// The messages that were not sent.
    pub fn into_unsent(self) -> impl DoubleEndedIterator<Item = Message> {
        self.0.into_iter().filter(|out| !out.sent).map(|out| out.message)
    }

    /// Notes that the host began a turn, under an id of its own, with a queued message.
    pub fn renamed(&mut self, id: &str, turn: &str) {
        for out in self.0.iter_mut().filter(|out| out.id == id) {
            turn.clone_into(&mut out.id);
        }
    }

    /// Removes the messages that the agent has taken up.
    pub fn follow(&mut self, mirror: &Mirror) {
        let active = mirror.chat.state.active_turn.as_ref();
        self.0.retain(|out| {
            let begun = active.is_some_and(|turn| turn.id == out.id && !turn.response_parts.is_empty());
            !begun && mirror.turn(&out.id).is_none()
        });
    }

    /// Removes a queued message: somebody took it back, or the agent took it into the running turn.
    pub fn removed(&mut self, id: &str) {
        self.0.retain(|out| out.id != id);
    }

    /// Has all messages that the host does not have sent again, after the connection was lost.
    pub fn again(&mut self, mirror: &Mirror) {
        self.follow(mirror);
        for out in &mut self.0 {
            // The turn that it had to wait for may be gone, so how it is sent is decided again.
            out.kind.take_if(|kind| *kind == PendingMessageKind::Queued);
            // After a restart, the host keeps a queued message until a person confirms it. Here the person already has.
            out.sent = mirror.knows(&out.id) && (mirror.is_busy() || !mirror.is_waiting(&out.id));
        }
    }
}
