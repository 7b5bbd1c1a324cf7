//! What the host does itself that clients do otherwise, by the same rules.

use ahp_types::{
    StateAction,
    actions::ChatTurnStartedAction,
    state::{Message, MessageKind},
};
use lodge_events::Timestamp;

use super::{Dispatch, Refusal, chat, finish, keep_messages};
use crate::{
    face::{Face, Held, Inner},
    projection::timestamp,
    state::{Peer, Uri},
    talk::Effect,
};

/// Begins a turn in a chat in the name of a person whose client gave the message with another request.
pub(crate) fn begin(face: &Face, inner: &mut Inner, chat: &Uri, message: Message) -> Result<(), Refusal> {
    begin_as(face, inner, chat, message, MessageKind::User).map(drop)
}

/// Begins the turn of an automation's run. The id of the turn.
pub(crate) fn begin_automation(
    face: &Face,
    inner: &mut Inner,
    chat: &Uri,
    message: Message,
) -> Result<String, Refusal> {
    begin_as(face, inner, chat, message, MessageKind::Automation)
}

fn begin_as(
    face: &Face,
    inner: &mut Inner,
    chat: &Uri,
    message: Message,
    speaker: MessageKind,
) -> Result<String, Refusal> {
    let peer = Peer::host();
    let dispatch = Dispatch {
        face,
        peer: &peer,
        channel: chat.clone(),
        speaker,
    };
    let turn_id = uuid::Uuid::new_v4().to_string();
    let mut action = ChatTurnStartedAction {
        turn_id: turn_id.clone(),
        started_at: timestamp(Timestamp::now()),
        message,
        queued_message_id: None,
        meta: None,
    };
    let plan = chat::turn_started(inner, &dispatch, &mut action)?;
    keep_messages(inner, chat, &plan)?;
    let mut inner = Held::new(inner);
    inner.core.publish(chat, &StateAction::ChatTurnStarted(action), None);
    finish(&dispatch, &mut inner, plan, false);
    Ok(turn_id)
}

/// Cancels the turn of an automation's run in a chat, if it still goes on. One that a person began after it is theirs.
pub(crate) fn cancel_automation(inner: &Inner, chat: &Uri) {
    let entry = inner.core.chats.get(chat);
    let turn = entry.and_then(|chat| chat.store.head().active_turn.as_ref());
    let turn = turn.filter(|turn| turn.message.origin.kind == MessageKind::Automation);
    if let (Some(turn), Some(talk)) = (turn, inner.talks.get(chat)) {
        talk.tell(Effect::Cancel { turn: turn.id.clone() });
    }
}
