//! Reads actions and knows the rules: who may dispatch what, and when.

use ahp_types::{ActionType, StateAction};
use serde_json::Value;

use super::{Dispatch, Refusal, chat, directories, input, plan::Plan, service, session, settings, tools};
use crate::face::Inner;

/// The lists that clients must give. Programs in Go write one that holds nothing as `null`.
const LISTS: [&str; 7] = [
    "/activeClient/tools",
    "/annotation/entries",
    "/content",
    "/definition/triggers",
    "/enablement",
    "/files",
    "/order",
];

/// Makes lists of those that are `null`.
pub(crate) fn fill_lists(action: &mut Value) {
    for place in LISTS {
        if let Some(list @ Value::Null) = action.pointer_mut(place) {
            *list = Value::Array(Vec::new());
        }
    }
}

/// Reads an action. The official type takes a known action with a wrong payload for an unknown one; here that is said.
pub(super) fn parse(mut action: Value) -> Result<StateAction, Refusal> {
    let kind = action
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let kind = &*kind;
    let duration = duration_of(&action);
    if let Some(map) = action.as_object_mut() {
        // Scripts send fractions of milliseconds, and clients of older dialects none at all: theirs is told by the state.
        if kind == "chat/turnCancelled" {
            map.insert("duration".to_owned(), (duration.unwrap_or_default() as i64).into());
        }
        if kind == "chat/turnStarted" && !map.contains_key("startedAt") {
            map.insert(
                "startedAt".to_owned(),
                crate::projection::timestamp(lodge_events::Timestamp::now()).into(),
            );
        }
    }
    fill_lists(&mut action);
    match serde_json::from_value::<StateAction>(action) {
        Ok(StateAction::Unknown(_)) if kind.is_empty() => Err(Refusal::NoType),
        Ok(StateAction::Unknown(_)) if !is_known(kind) => Err(Refusal::UnknownAction(kind.to_owned())),
        // Not named: clients of other dialects call it otherwise.
        Ok(StateAction::Unknown(_)) => Err(Refusal::WrongField),
        Ok(action) => Ok(action),
        Err(error) => Err(error.into()),
    }
}

/// For how long a client says that a turn ran.
pub(super) fn duration_of(action: &Value) -> Option<f64> {
    action.get("duration")?.as_f64().map(|duration| duration.max(0.0))
}

fn is_known(kind: &str) -> bool {
    let kind = serde_json::from_value::<ActionType>(kind.into());
    !matches!(kind, Ok(ActionType::Unknown(_)) | Err(_))
}

/// The rules.
pub(super) fn check(inner: &Inner, dispatch: &Dispatch<'_>, action: &mut StateAction) -> Result<Plan, Refusal> {
    use StateAction as A;
    if inner.core.chats.contains_key(&dispatch.channel) {
        return match action {
            A::ChatTurnStarted(started) => chat::turn_started(inner, dispatch, started),
            A::ChatTurnCancelled(cancelled) => chat::turn_cancelled(inner, dispatch, cancelled),
            A::ChatTurnResume(resume) => chat::turn_resumed(inner, dispatch, resume),
            A::ChatTruncated(truncated) => chat::truncated(inner, dispatch, truncated),
            A::ChatPendingMessageSet(set) => chat::pending_set(inner, dispatch, set),
            A::ChatPendingMessageRemoved(removed) => chat::pending_removed(inner, dispatch, removed),
            A::ChatQueuedMessagesReordered(order) => chat::reordered(inner, dispatch, order),
            A::ChatDraftChanged(changed) => chat::draft(inner, dispatch, changed),
            A::ChatIsReadChanged(_) | A::ChatIsArchivedChanged(_) => Ok(Plan::default()),
            A::ChatToolCallConfirmed(confirmed) => tools::confirmed(inner, dispatch, confirmed),
            A::ChatToolCallComplete(complete) => tools::complete(inner, dispatch, complete),
            A::ChatToolCallResultConfirmed(confirmed) => tools::result_confirmed(inner, dispatch, confirmed),
            A::ChatToolCallContentChanged(changed) => tools::content_changed(inner, dispatch, changed),
            A::ChatInputAnswerChanged(changed) => input::answer_changed(inner, dispatch, changed),
            A::ChatInputCompleted(completed) => input::completed(inner, dispatch, completed),
            A::ChatWorkingDirectorySet(_) | A::ChatWorkingDirectoryRemoved(_) => {
                directories::check_chat(inner, dispatch, action)
            }
            _ => Err(Refusal::NotFor("a chat")),
        };
    }
    if inner.core.sessions.contains_key(&dispatch.channel) {
        return session::check(inner, dispatch, action);
    }
    if let Some(service) = inner.core.service(&dispatch.channel) {
        return service::check(inner, service, dispatch, action);
    }
    match action {
        A::RootConfigChanged(changed) => settings::check(inner, changed),
        _ => Err(Refusal::NotFor("itself")),
    }
}

impl Inner {
    /// For how long the running turn of a chat has been running, in milliseconds.
    pub(super) fn running_for(&self, chat: &str) -> i64 {
        let active = self.core.head(chat).and_then(|head| head.active_turn.as_ref());
        let started = active.and_then(|turn| turn.started_at.parse::<lodge_events::Timestamp>().ok());
        started.map_or(0, |started| {
            (lodge_events::Timestamp::now().as_millisecond() - started.as_millisecond()).max(0)
        })
    }
}
