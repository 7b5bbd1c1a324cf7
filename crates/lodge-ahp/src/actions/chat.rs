//! Rules for turns, queues and drafts.

use ahp_types::{
    StateAction,
    actions::{
        ChatDraftChangedAction, ChatPendingMessageRemovedAction, ChatPendingMessageSetAction,
        ChatQueuedMessagesReorderedAction, ChatTruncatedAction, ChatTurnCancelledAction, ChatTurnResumeAction,
        ChatTurnStartedAction, PartialChatSummary, SessionChatUpdatedAction,
    },
    state::{ChatInteractivity, ChatState, ChatSummary, Message, MessageKind, PendingMessageKind, SessionLifecycle},
};
use lodge_events::{LodgeChats, Timestamp};
use lodge_host::{AgentError, Delivery, Session, Storing};

use super::{
    Dispatch, Refusal, TurnRefusal, Write,
    plan::{Before, NoChange, Plan, QueueAction},
};
use crate::{
    chats::kept_message,
    conversation::{Conversation, ForAgent},
    face::{Face, Inner},
    load::UNTITLED,
    state::{ChatStore, Uri, chat::StoredTurn},
};

/// The chat, if a person may write in it.
fn writable<'a>(inner: &'a Inner, dispatch: &Dispatch<'_>) -> Result<&'a ChatStore, Refusal> {
    let store = dispatch.chat(inner)?;
    match store.head().interactivity {
        None | Some(ChatInteractivity::Full) => Ok(store),
        Some(_) => Err(TurnRefusal::ReadOnly.into()),
    }
}

/// A message that a client may send: from a person, and about chats that are there. Whether there are the model and the
/// agent it names is known when it is sent; if not, the turn fails and says so.
fn sendable(inner: &Inner, dispatch: &Dispatch<'_>, message: &mut Message) -> Result<(), Refusal> {
    if message.origin.kind != dispatch.speaker {
        return Err(TurnRefusal::Origin.into());
    }
    Ok(inner.core.pin_chats(message)?)
}

fn knows_turn(head: &ChatState, turns: &[StoredTurn], id: &str) -> bool {
    head.active_turn.as_ref().is_some_and(|turn| turn.id == id) || turns.iter().any(|turn| &*turn.id == id)
}

pub(super) fn turn_started(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &mut ChatTurnStartedAction,
) -> Result<Plan, Refusal> {
    let store = writable(inner, dispatch)?;
    let session = inner.core.entry_of(&dispatch.channel);
    if session.is_none_or(|session| session.state.lifecycle != SessionLifecycle::Ready) {
        return Err(TurnRefusal::NotReady.into());
    }
    if store.head().active_turn.is_some() {
        return Err(TurnRefusal::Busy.into());
    }
    if action.turn_id.is_empty() || knows_turn(store.head(), store.turns(), &action.turn_id) {
        return Err(TurnRefusal::TurnId.into());
    }
    if action.started_at.parse::<Timestamp>().is_err() {
        return Err(TurnRefusal::StartedAt.into());
    }
    sendable(inner, dispatch, &mut action.message)?;
    // A message that a killed host left waiting, and that its client sends again.
    if action.queued_message_id.is_none()
        && find_pending(store.head(), PendingMessageKind::Queued, &action.turn_id).is_some()
    {
        action.queued_message_id = Some(action.turn_id.clone());
    }
    if let Some(queued) = &action.queued_message_id
        && find_pending(store.head(), PendingMessageKind::Queued, queued).is_none()
        && find_pending(store.head(), PendingMessageKind::Steering, queued).is_none()
    {
        return Err(TurnRefusal::NotQueued.into());
    }
    let send = inner
        .core
        .for_agent(action.turn_id.clone(), action.message.clone(), Delivery::Enqueue)
        .sent_by(&dispatch.peer.client);
    // Under another id it would be said twice.
    let queued = action
        .queued_message_id
        .clone()
        .filter(|queued| *queued != action.turn_id);
    Ok(Plan::queue(QueueAction::Begin {
        send,
        instead_of: queued,
    }))
}

pub(super) fn turn_cancelled(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &ChatTurnCancelledAction,
) -> Result<Plan, Refusal> {
    let store = writable(inner, dispatch)?;
    if store.active(&action.turn_id).is_none() {
        return Err(TurnRefusal::NotRunning.into());
    }
    Ok(Plan::agent(ForAgent::Cancel(action.turn_id.clone())))
}

pub(super) fn turn_resumed(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &ChatTurnResumeAction,
) -> Result<Plan, Refusal> {
    let store = writable(inner, dispatch)?;
    if store.head().active_turn.is_some() {
        return Err(TurnRefusal::StillRunning.into());
    }
    if !dispatch
        .talk(inner)
        .is_some_and(|talk| talk.projector().can_resume(&action.turn_id))
    {
        return Err(TurnRefusal::NotResumable.into());
    }
    Ok(Plan::agent(ForAgent::Resume(action.turn_id.clone())))
}

pub(super) fn truncated(inner: &Inner, dispatch: &Dispatch<'_>, action: &ChatTruncatedAction) -> Result<Plan, Refusal> {
    let store = writable(inner, dispatch)?;
    let running = store.head().active_turn.is_some();
    let cut = match &action.turn_id {
        Some(turn) => {
            let at = store.position(turn).ok_or(TurnRefusal::NoTurn)?;
            store.turns().len() - at - 1
        }
        None => store.turns().len(),
    };
    if cut == 0 && !running {
        return Ok(Plan::nothing(NoChange::Echo));
    }
    if let Some(turn) = &store.head().active_turn {
        return Ok(Plan::agent(ForAgent::Rest(turn.id.clone())));
    }
    let talk = dispatch.talk(inner).ok_or(Refusal::NoChat)?;
    let plan = match talk.projector().first_event_after(action.turn_id.as_deref()) {
        Some(Some(before)) => Plan::agent(ForAgent::Truncate(before)),
        // What the log does not have is not shown.
        Some(None) => Plan::nothing(NoChange::Echo),
        None => return Err(TurnRefusal::EndUnknown.into()),
    };
    let before = action.turn_id.clone().map(Before::LoadTurns).into_iter().collect();
    Ok(Plan { before, ..plan })
}

fn find_pending<'a>(head: &'a ChatState, kind: PendingMessageKind, id: &str) -> Option<&'a Message> {
    match kind {
        PendingMessageKind::Steering => head.steering_message.as_ref().filter(|message| message.id == id),
        PendingMessageKind::Queued => head.queued_messages.iter().flatten().find(|message| message.id == id),
    }
    .map(|pending| &pending.message)
}

pub(super) fn pending_set(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &mut ChatPendingMessageSetAction,
) -> Result<Plan, Refusal> {
    let store = writable(inner, dispatch)?;
    let head = store.head();
    sendable(inner, dispatch, &mut action.message)?;
    if action.id.is_empty() || knows_turn(head, store.turns(), &action.id) {
        return Err(TurnRefusal::MessageId.into());
    }
    let other = match action.kind {
        PendingMessageKind::Steering => PendingMessageKind::Queued,
        PendingMessageKind::Queued => PendingMessageKind::Steering,
    };
    if find_pending(head, other, &action.id).is_some() {
        return Err(TurnRefusal::WaitsElsewhere.into());
    }
    let (id, message) = (action.id.clone(), action.message.clone());
    match action.kind {
        PendingMessageKind::Queued => {
            let send = inner.core.for_agent(id, message, Delivery::Enqueue);
            Ok(Plan::queue(QueueAction::Set(send.sent_by(&dispatch.peer.client))))
        }
        PendingMessageKind::Steering => {
            let known = head.steering_message.as_ref();
            // Without a turn it waits for the next one, and can be replaced.
            let is_early = head.active_turn.is_none();
            if !is_early && known.is_some_and(|known| known.id == id) {
                return Err(TurnRefusal::Taken.into());
            }
            let replaces = known.filter(|known| is_early && known.id != id);
            let send = inner.core.for_agent(id, message, Delivery::Immediate);
            Ok(Plan::queue(QueueAction::Steer {
                send: send.sent_by(&dispatch.peer.client),
                replaces: replaces.map(|known| known.id.clone()),
            }))
        }
    }
}

pub(super) fn pending_removed(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &ChatPendingMessageRemovedAction,
) -> Result<Plan, Refusal> {
    let store = writable(inner, dispatch)?;
    if find_pending(store.head(), action.kind, &action.id).is_none() {
        return Err(TurnRefusal::NotQueued.into());
    }
    let early = store.head().active_turn.is_none();
    match action.kind {
        PendingMessageKind::Steering if !early => Err(TurnRefusal::Taken.into()),
        _ => Ok(Plan::queue(QueueAction::Remove(action.id.clone()))),
    }
}

/// The order is completed, so that every client puts the messages it does not name where this host puts them: at the
/// end, as they were.
pub(super) fn reordered(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &mut ChatQueuedMessagesReorderedAction,
) -> Result<Plan, Refusal> {
    let store = writable(inner, dispatch)?;
    let queue: Vec<&String> = store
        .head()
        .queued_messages
        .iter()
        .flatten()
        .map(|queued| &queued.id)
        .collect();
    let mut order: Vec<String> = Vec::with_capacity(queue.len());
    for id in action.order.iter().chain(queue.iter().copied()) {
        if queue.contains(&id) && !order.contains(id) {
            order.push(id.clone());
        }
    }
    if order.iter().eq(queue.iter().copied()) {
        return Ok(Plan::nothing(NoChange::Echo));
    }
    action.order.clone_from(&order);
    Ok(Plan::queue(QueueAction::Reorder(order)))
}

pub(super) fn draft(inner: &Inner, dispatch: &Dispatch<'_>, action: &ChatDraftChangedAction) -> Result<Plan, Refusal> {
    let store = writable(inner, dispatch)?;
    if action
        .draft
        .as_ref()
        .is_some_and(|draft| draft.origin.kind != MessageKind::User)
    {
        return Err(TurnRefusal::DraftOrigin.into());
    }
    if store.head().draft == action.draft {
        return Ok(Plan::nothing(NoChange::Echo));
    }
    let draft = action.draft.as_ref().map(kept_message);
    let id = inner.kept_id(&dispatch.channel);
    Ok(Plan::write(id.map(|id| Write::Draft(id, draft))))
}

/// The session and its default chat, if a URI is that of a further chat that people made in it.
pub(crate) fn further(inner: &Inner, chat: &str) -> Option<(Uri, Uri)> {
    let session = inner.core.session_of(chat)?;
    let default = inner.core.sessions.get(&session)?.default_chat.clone();
    (*default != *chat && inner.conversations.contains_key(chat)).then_some((session, default))
}

/// Shows a further chat with another title. It stands in the session's list of chats; no action of a chat tells its title.
pub(crate) fn renamed(inner: &mut Inner, chat: &str, (session, _): &(Uri, Uri), title: &str) {
    let shown = inner.core.head(chat).map(|head| &head.title);
    if shown.is_some_and(|shown| shown == title) {
        return;
    }
    let changes = PartialChatSummary {
        title: Some(title.to_owned()),
        ..PartialChatSummary::default()
    };
    let action = SessionChatUpdatedAction {
        chat: chat.to_owned(),
        changes,
    };
    if let Some(chat) = inner.core.chats.get_mut(chat) {
        chat.set_title(title);
    }
    inner
        .core
        .publish(session, &StateAction::SessionChatUpdated(action), None);
    inner.core.settle(session);
}

/// Keeps how the chats of a session are listed, with a new one at the end. Once there are chats beside it, the default chat is
/// called what the session is called now, and keeps that. It stands in the session's list of chats alone: no action of a chat
/// could tell those who listen to it: the answer has the action that tells its name, for when it is stored.
pub(crate) fn list_chats(
    inner: &mut Inner,
    session: &str,
    main: &Session,
    new: Option<&str>,
) -> Result<(Storing, Option<StateAction>), AgentError> {
    let Some(entry) = inner.core.sessions.get(session) else {
        return Ok((main.storing(), None));
    };
    let (chat, title) = (entry.default_chat.clone(), entry.state.title.clone());
    let chats = &entry.state.chats;
    let mut order: Vec<String> = chats.iter().map(|summary| summary.resource.clone()).collect();
    order.extend(
        new.filter(|new| order.iter().all(|known| known != new))
            .map(str::to_owned),
    );
    let listed = chats.iter().find(|summary| *summary.resource == *chat);
    let is_unnamed = listed.is_some_and(|summary| summary.title == UNTITLED);
    let before = main.state().about.chats.default_title;
    let default_title = if is_unnamed { Some(title.clone()) } else { before };
    let storing = main.set_chats(LodgeChats { order, default_title })?;
    if !is_unnamed {
        return Ok((storing, None));
    }
    let changes = PartialChatSummary {
        title: Some(title.clone()),
        ..PartialChatSummary::default()
    };
    let action = SessionChatUpdatedAction {
        chat: chat.to_string(),
        changes,
    };
    Ok((storing, Some(StateAction::SessionChatUpdated(action))))
}

/// A further chat that nobody named is called by the first words said in it.
pub(super) fn named(face: &Face, inner: &Inner, chat: &str) {
    let Some((session, _)) = further(inner, chat) else {
        return;
    };
    let chats = inner.core.sessions.get(&session).map(|entry| &entry.state.chats);
    let untitled = |summary: &ChatSummary| *summary.resource == *chat && summary.title == UNTITLED;
    if !chats.is_some_and(|chats| chats.iter().any(untitled)) {
        return;
    }
    let head = inner.core.head(chat);
    let said = head
        .and_then(|head| head.active_turn.as_ref())
        .map(|turn| &turn.message.text);
    let words: String = said
        .iter()
        .flat_map(|text| text.trim().lines().next())
        .flat_map(|line| line.chars().take(60))
        .collect();
    let agent = inner.conversations.get(chat).and_then(Conversation::agent).cloned();
    if let Some(agent) = agent.filter(|_| !words.is_empty()) {
        face.tasks.spawn(async move {
            if let Err(error) = agent.name_automatically(words).await {
                tracing::warn!(session = agent.id(), %error, "a chat cannot be called by its first words");
            }
        });
    }
}
