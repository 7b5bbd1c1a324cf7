//! Messages on their way. One is kept until the agent has taken it up, and sent again when the host was restarted before
//! it had it; its id makes sure that it is not said twice.

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

/// The messages.
#[derive(Default)]
pub struct Outbox(Vec<Outgoing>);

/// A message of a person.
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
    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The messages that the host does not have yet.
    pub fn unsent(&self) -> impl Iterator<Item = &Message> {
        self.0.iter().filter(|out| !out.sent).map(|out| &out.message)
    }

    /// Takes a message that shall be sent, into the running turn if it steers. Returns its id.
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

    /// What can be sent now, with the id of its message. It begins a turn when the agent is at rest, and waits in the
    /// host's queue otherwise.
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

    /// The host did not want it as the beginning of a turn, because another has just begun: it shall wait instead.
    /// False when it did wait, or is no more.
    pub fn wait(&mut self, id: &str) -> bool {
        match self.0.iter_mut().find(|out| out.id == id) {
            Some(out) if out.kind.is_none() => {
                (out.kind, out.sent) = (Some(PendingMessageKind::Queued), false);
                true
            }
            _ => {
                self.0.retain(|out| out.id != id);
                false
            }
        }
    }

    /// The host began a turn with a message that waited, under an id of its own.
    pub fn renamed(&mut self, id: &str, turn: &str) {
        for out in self.0.iter_mut().filter(|out| out.id == id) {
            turn.clone_into(&mut out.id);
        }
    }

    /// Lets go of what the agent has taken up.
    pub fn follow(&mut self, mirror: &Mirror) {
        let active = mirror.chat.state.active_turn.as_ref();
        self.0.retain(|out| {
            let begun = active.is_some_and(|turn| turn.id == out.id && !turn.response_parts.is_empty());
            !begun && mirror.turn(&out.id).is_none()
        });
    }

    /// Somebody took a waiting message back, or the agent took it into the running turn.
    pub fn removed(&mut self, id: &str) {
        self.0.retain(|out| out.id != id);
    }

    /// After the host came back: what it does not have is sent again.
    pub fn again(&mut self, mirror: &Mirror) {
        self.follow(mirror);
        for out in &mut self.0 {
            // The turn that it had to wait for may be gone: how it is sent is decided anew.
            out.kind.take_if(|kind| *kind == PendingMessageKind::Queued);
            // A message that was kept over the restart waits there for a word of the person, which was said already.
            out.sent = mirror.knows(&out.id) && (mirror.is_busy() || !mirror.is_waiting(&out.id));
        }
    }
}
