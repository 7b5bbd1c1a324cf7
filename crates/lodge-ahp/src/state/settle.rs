//! What follows from a batch of actions: summaries catch up, and the list of sessions is told. Always after the causes.

use std::{collections::HashSet, sync::Arc};

use ahp_types::{
    StateAction,
    actions::{
        PartialChatSummary, RootActiveSessionsChangedAction, SessionChatUpdatedAction, SessionInputNeededRemovedAction,
        SessionInputNeededSetAction, SessionIsReadChangedAction,
    },
    state::{
        ChatInputRequest, ChatState, ChatSummary, ResponsePart, SessionChatInputRequest, SessionInputRequest,
        SessionStatus, SessionSummary, SessionToolAuthenticationRequest, SessionToolClientExecutionRequest,
        SessionToolConfirmationRequest, ToolCallConfirmationState, ToolCallContributor, ToolCallRunningState,
        ToolCallState,
    },
};
use serde_json::{Map, Value, json};

use super::{ChatEntry, ChatStore, Conn, Core, session};
use crate::{
    dialect::seed,
    version::Dialect,
    wire::{Frame, notification},
};

impl Core {
    /// Lets everything that is derived follow the actions that were just published.
    pub(crate) fn settle(&mut self, uri: &str) {
        let Some(entry) = self.sessions.get_mut(uri).filter(|entry| entry.dirty) else {
            return;
        };
        entry.dirty = false;
        let updates: Vec<StateAction> = entry
            .state
            .chats
            .iter()
            .filter_map(|summary| {
                let chat = self.chats.get(summary.resource.as_str())?;
                let changes = chat_changes(summary, chat.store())?;
                let action = SessionChatUpdatedAction {
                    chat: summary.resource.clone(),
                    changes,
                };
                Some(StateAction::SessionChatUpdated(action))
            })
            .collect();
        for update in &updates {
            self.publish(uri, update, None);
        }
        self.input_needed(uri);
        self.unread(uri);
        self.count_active();
        self.announce_changes(uri);
        if let Some(entry) = self.sessions.get_mut(uri) {
            entry.dirty = false;
        }
    }

    /// What the chats of a session wait for, shown on the session.
    pub(crate) fn input_needed(&mut self, uri: &str) {
        let Some(entry) = self.sessions.get(uri) else { return };
        let chats = entry
            .state
            .chats
            .iter()
            .filter_map(|chat| self.chats.get_key_value(chat.resource.as_str()));
        let needed: Vec<SessionInputRequest> = chats
            .flat_map(|(chat, entry)| waiting(chat, entry.store().head()))
            .collect();
        let known = entry.state.input_needed.as_deref().unwrap_or_default();
        let gone = known
            .iter()
            .filter_map(request_id)
            .filter(|id| !needed.iter().any(|n| request_id(n) == Some(id)));
        let mut actions: Vec<StateAction> = gone
            .map(|id| StateAction::SessionInputNeededRemoved(SessionInputNeededRemovedAction { id: id.to_owned() }))
            .collect();
        let new = needed.into_iter().filter(|request| !known.contains(request));
        actions.extend(
            new.map(|request| StateAction::SessionInputNeededSet(Box::new(SessionInputNeededSetAction { request }))),
        );
        for action in &actions {
            self.publish(uri, action, None);
        }
    }

    /// A session whose conversation went on is unread again.
    fn unread(&mut self, uri: &str) {
        let Some(entry) = self.sessions.get(uri) else { return };
        let read = SessionStatus::IsRead.bits();
        let default = self.chats.get(&entry.default_chat);
        let chat_unread = default.is_some_and(|chat| chat.store().head().status & read == 0);
        let running = default.is_some_and(ChatEntry::is_running);
        if entry.state.status & read != 0 && chat_unread && running {
            let action = StateAction::SessionIsReadChanged(SessionIsReadChangedAction { is_read: false });
            self.publish(uri, &action, None);
        }
    }

    fn count_active(&mut self) {
        let running = self.chats.values().filter(|chat| chat.is_running());
        let active = running.map(|chat| &chat.session).collect::<HashSet<_>>().len() as i64;
        if self.root.active_sessions != Some(active) {
            let action = RootActiveSessionsChangedAction {
                active_sessions: active,
            };
            let root = self.root_uri.clone();
            self.publish(&root, &StateAction::RootActiveSessionsChanged(action), None);
        }
    }

    /// The session's line in the list.
    pub(crate) fn summary(&self, uri: &str) -> Option<SessionSummary> {
        let entry = self.sessions.get(uri)?;
        let mut chats: Vec<&ChatStore> = Vec::new();
        chats.extend(self.chats.get(&entry.default_chat).map(ChatEntry::store));
        let others = entry
            .state
            .chats
            .iter()
            .filter(|chat| chat.resource != *entry.default_chat);
        chats.extend(
            others
                .filter_map(|chat| self.chats.get(chat.resource.as_str()))
                .map(ChatEntry::store),
        );
        Some(entry.summary(uri, &chats))
    }

    fn summary_map(&self, uri: &str) -> Option<Map<String, Value>> {
        match serde_json::to_value(self.summary(uri)?).ok()? {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }

    /// Tells the list of sessions about a new one.
    pub(crate) fn announce(&mut self, uri: &str) {
        let Some(summary) = self.summary_map(uri) else { return };
        let Some(entry) = self.sessions.get_mut(uri) else {
            return;
        };
        if entry.announced.replace(summary.clone()).is_some() {
            return;
        }
        let model = seed::model_of(entry);
        let modern = notification(
            "root/sessionAdded",
            &json!({ "channel": &*self.root_uri, "summary": summary }),
        );
        let old = json!({ "type": "notify/sessionAdded", "summary": seed::summary(&summary, model) });
        self.notify(&modern, &seed::notification(old));
    }

    fn announce_changes(&mut self, uri: &str) {
        let Some(summary) = self.summary_map(uri) else { return };
        let Some(entry) = self.sessions.get_mut(uri) else {
            return;
        };
        let Some(announced) = &mut entry.announced else { return };
        let changes = session::changes(announced, &summary);
        if changes.is_empty() {
            return;
        }
        let status = |summary: &Map<String, Value>| summary.get("status").and_then(Value::as_u64).unwrap_or(0);
        let outcome = session::outcome(status(announced), status(&summary));
        *announced = summary;
        if let (Some(outcome), Some(outcomes)) = (outcome, &self.outcomes) {
            // Whoever hears it is gone when the face stops.
            let _ = outcomes.send((uri.into(), outcome));
        }
        self.notify_changes(uri, changes);
    }

    /// Tells the list of sessions what changed about one.
    pub(crate) fn notify_changes(&self, uri: &str, changes: Map<String, Value>) {
        let (modern, seed) = self.changed_frames(uri, changes);
        self.notify(&modern, &seed);
    }

    /// Tells one connection what is true of a session in the list.
    pub(crate) fn tell_changes(&self, conn: &Arc<Conn>, uri: &str, changes: Map<String, Value>) {
        let (modern, seed) = self.changed_frames(uri, changes);
        self.notify_one(conn, &modern, &seed);
    }

    fn changed_frames(&self, uri: &str, changes: Map<String, Value>) -> (Frame, Frame) {
        let old = json!({ "type": "notify/sessionSummaryChanged", "session": uri, "changes": seed::changes(&changes) });
        let params = json!({ "channel": &*self.root_uri, "session": uri, "changes": changes });
        let modern = notification("root/sessionSummaryChanged", &params);
        (modern, seed::notification(old))
    }

    /// Tells the list of sessions about a session that is known to the host but not open here.
    pub(crate) fn notify_added(&self, summary: &SessionSummary) {
        let Ok(Value::Object(map)) = serde_json::to_value(summary) else {
            return;
        };
        let old = json!({ "type": "notify/sessionAdded", "summary": seed::summary(&map, None) });
        let modern = notification(
            "root/sessionAdded",
            &json!({ "channel": &*self.root_uri, "summary": map }),
        );
        self.notify(&modern, &seed::notification(old));
    }

    /// Tells the list of sessions that one is gone.
    pub(crate) fn notify_removed(&self, uri: &str) {
        let params = json!({ "channel": &*self.root_uri, "session": uri });
        let old = json!({ "type": "notify/sessionRemoved", "session": uri });
        self.notify(&notification("root/sessionRemoved", &params), &seed::notification(old));
    }

    fn notify(&self, modern: &Frame, seed: &Frame) {
        for conn in self.conns.values() {
            self.notify_one(conn, modern, seed);
        }
    }

    /// To whom notifications about the list go: those who subscribe to the root channel. Before 1.0.0 every connected
    /// client got them, and clients of those versions count on it.
    fn notify_one(&self, conn: &Arc<Conn>, modern: &Frame, seed: &Frame) {
        let subscribed = || {
            self.channel(&self.root_uri)
                .is_some_and(|root| root.listener(conn.id).is_some())
        };
        let Some(peer) = conn.peer() else { return };
        match peer.dialect {
            Dialect::Seed => self.deliver(conn, seed.clone()),
            Dialect::Modern if peer.version.starts_with("0.") || subscribed() => {
                self.deliver(conn, modern.clone());
            }
            Dialect::Modern => {}
        }
    }
}

/// What the running turn of a chat waits for.
fn waiting(chat: &str, head: &ChatState) -> Vec<SessionInputRequest> {
    let Some(turn) = &head.active_turn else {
        return Vec::new();
    };
    let (chat, turn_id) = (chat.to_owned(), turn.id.clone());
    let wait = |part: &ResponsePart| match part {
        ResponsePart::InputRequest(input) if input.response.is_none() => {
            let (id, chat, request) = (input.request.id.clone(), chat.clone(), input.request.clone());
            // Answers that are still being written are not part of the question.
            let request = ChatInputRequest {
                answers: None,
                ..request
            };
            Some(SessionInputRequest::ChatInput(SessionChatInputRequest {
                id,
                chat,
                request,
            }))
        }
        ResponsePart::ToolCall(part) => {
            let confirmation = |id: &str, tool_call| {
                let (id, chat, turn_id) = (id.to_owned(), chat.clone(), turn_id.clone());
                let request = SessionToolConfirmationRequest {
                    id,
                    chat,
                    turn_id,
                    tool_call,
                };
                Some(SessionInputRequest::ToolConfirmation(request))
            };
            match &part.tool_call {
                ToolCallState::PendingConfirmation(call) => confirmation(
                    &call.tool_call_id,
                    ToolCallConfirmationState::PendingConfirmation(call.clone()),
                ),
                ToolCallState::PendingResultConfirmation(call) => confirmation(
                    &call.tool_call_id,
                    ToolCallConfirmationState::PendingResultConfirmation(call.clone()),
                ),
                ToolCallState::Running(call) => match &call.contributor {
                    Some(ToolCallContributor::Client(client)) => {
                        let tool_call = ToolCallRunningState {
                            content: None,
                            ..call.clone()
                        };
                        let request = SessionToolClientExecutionRequest {
                            id: call.tool_call_id.clone(),
                            chat: chat.clone(),
                            turn_id: turn_id.clone(),
                            client_id: client.client_id.clone(),
                            tool_call,
                        };
                        Some(SessionInputRequest::ToolClientExecution(request))
                    }
                    _ => None,
                },
                ToolCallState::AuthRequired(call) => {
                    let request = SessionToolAuthenticationRequest {
                        id: call.tool_call_id.clone(),
                        chat: chat.clone(),
                        turn_id: turn_id.clone(),
                        tool_call: (**call).clone(),
                    };
                    Some(SessionInputRequest::ToolAuthentication(Box::new(request)))
                }
                _ => None,
            }
        }
        _ => None,
    };
    turn.response_parts.iter().filter_map(wait).collect()
}

fn request_id(request: &SessionInputRequest) -> Option<&str> {
    match request {
        SessionInputRequest::ChatInput(request) => Some(&request.id),
        SessionInputRequest::ToolConfirmation(request) => Some(&request.id),
        SessionInputRequest::ToolClientExecution(request) => Some(&request.id),
        SessionInputRequest::ToolAuthentication(request) => Some(&request.id),
        SessionInputRequest::Unknown(_) => None,
    }
}

fn chat_changes(summary: &ChatSummary, chat: &ChatStore) -> Option<PartialChatSummary> {
    let head = chat.head();
    let changes = PartialChatSummary {
        status: (summary.status != head.status).then_some(head.status),
        modified_at: (summary.modified_at != head.modified_at).then(|| head.modified_at.clone()),
        working_directories: (summary.working_directories != head.working_directories)
            .then(|| head.working_directories.clone())
            .flatten(),
        ..PartialChatSummary::default()
    };
    (changes != PartialChatSummary::default()).then_some(changes)
}
