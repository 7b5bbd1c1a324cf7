//! What the host does itself that clients do otherwise, by the same rules.

use ahp_types::{
    actions::ChatTurnStartedAction,
    state::{Message, MessageKind},
};
use lodge_events::Timestamp;

use super::{Dispatch, Refusal, TurnRefusal, chat, queue::QueueChange};
use crate::{
    conversation::{Cause, Effect},
    face::{Face, Inner},
    projection::timestamp,
    state::{Peer, Uri},
};

/// Begins a turn in a chat in the name of a person whose client gave the message with another request.
pub(crate) async fn begin(face: &Face, chat: &Uri, message: Message) -> Result<(), Refusal> {
    begin_as(face, chat, message, MessageKind::User).await.map(drop)
}

/// Begins the turn of an automation's run. The id of the turn.
pub(crate) async fn begin_automation(face: &Face, chat: &Uri, message: Message) -> Result<String, Refusal> {
    begin_as(face, chat, message, MessageKind::Automation).await
}

/// Clients see the turn when this returns.
async fn begin_as(face: &Face, chat: &Uri, message: Message, speaker: MessageKind) -> Result<String, Refusal> {
    let turn_id = uuid::Uuid::new_v4().to_string();
    let mut action = ChatTurnStartedAction {
        turn_id: turn_id.clone(),
        started_at: timestamp(Timestamp::now()),
        message,
        queued_message_id: None,
        meta: None,
    };
    let heard = begins(face, chat, &mut action, speaker)?.run(face)?;
    // It is dropped where the conversation is closed; the message waits then.
    let _ = heard.await;
    Ok(turn_id)
}

/// A turn that is to begin.
fn begins(
    face: &Face,
    chat: &Uri,
    action: &mut ChatTurnStartedAction,
    speaker: MessageKind,
) -> Result<QueueChange, Refusal> {
    let mut inner = face.inner.lock();
    let peer = Peer::host();
    let dispatch = Dispatch {
        face,
        peer: &peer,
        channel: chat.clone(),
        speaker,
        added: None,
    };
    let plan = chat::turn_started(&inner, &dispatch, action)?;
    let change = plan.queue.ok_or(TurnRefusal::Empty)?;
    inner.queue_change(chat, change, |told| Cause {
        dispatched: None,
        setting: None,
        told,
    })
}

/// Cancels the turn of an automation's run in a chat, if it still goes on. One that a person began after it is theirs.
pub(crate) fn cancel_automation(inner: &Inner, chat: &Uri) {
    let turn = inner.core.head(chat).and_then(|head| head.active_turn.as_ref());
    let turn = turn.filter(|turn| turn.message.origin.kind == MessageKind::Automation);
    if let (Some(turn), Some(talk)) = (turn, inner.conversations.get(chat)) {
        talk.tell(Effect::Cancel { turn: turn.id.clone() });
    }
}
