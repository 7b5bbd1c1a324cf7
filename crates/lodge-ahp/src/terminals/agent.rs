//! What the agent's commands print, as terminals: live while they run, and from the conversation afterwards.

use std::path::PathBuf;

use ahp_types::state::{
    TerminalClaim, TerminalContentPart, TerminalExitedLifecycleState, TerminalLifecycleState,
    TerminalRunningLifecycleState, TerminalSessionClaim, TerminalState, TerminalUnclassifiedPart,
};
use lodge_host::terminal::Piece;
use serde_json::Value;

use crate::{
    face::Inner,
    projection::TerminalNews,
    state::{Service, Uri},
    uri,
};

impl Inner {
    /// Shows what is new about a command of a conversation.
    pub(crate) fn agent_terminal(&mut self, chat: &Uri, session: &Uri, call: &str, news: TerminalNews) {
        let born = self.talks.get(chat).map_or(session, |talk| &talk.born);
        let uri: Uri = uri::tool_terminal(born, call).into();
        match news {
            TerminalNews::Opened { scope, turn_id, title } => {
                let Some(chat) = self.channel(chat, &scope) else { return };
                let mut state = state(session, &chat, &turn_id, call, title);
                state.cwd = self.directories_of(&chat).into_iter().next();
                self.add_terminal(&uri, Some(session.clone()), state, None);
            }
            TerminalNews::Printed(text) => {
                self.show_pieces(&uri, vec![Piece::Text(text)]);
                self.trim_terminal(&uri);
            }
            TerminalNews::Ended(code) => {
                let code = code.and_then(|code| i32::try_from(code).ok());
                self.show_pieces(&uri, vec![Piece::Exited(code)]);
                self.terminals.entries.remove(&uri);
                self.terminals_changed();
                self.forget_past_terminals();
            }
        }
    }

    /// Forgets what commands printed that have ended and that nobody looks at. It is in the conversation.
    pub(super) fn forget_past_terminals(&mut self) {
        let past = |(uri, entry): &(&Uri, &crate::state::ServiceEntry)| {
            matches!(entry.service, Service::Terminal(_)) && !self.terminals.entries.contains_key(*uri)
        };
        let past: Vec<Uri> = self
            .core
            .services
            .iter()
            .filter(past)
            .map(|(uri, _)| uri.clone())
            .collect();
        for uri in past {
            if !self.core.is_heard(&uri) {
                self.core.remove_service(&uri);
            }
        }
    }

    /// Makes the terminal of a command whose session is open, if that is what this names and it is not there.
    /// `whole` is what it printed, where the conversation tells only the beginning.
    pub(crate) fn show_past_terminal(&mut self, uri: &str, whole: Option<String>) {
        let Some((chat, turn, call, shown)) = self.past_call(uri) else {
            return;
        };
        let Some(session) = self.core.session_of(&chat) else {
            return;
        };
        let parts = shown["content"].as_array();
        let part = |kind: &str| parts.into_iter().flatten().find(|part| part["type"] == kind);
        let Some(terminal) = part("terminal") else { return };
        let title = terminal["title"].as_str().unwrap_or_default().to_owned();
        let mut state = state(&session, &chat, &turn, &call, title);
        state.cwd = self.directories_of(&chat).into_iter().next();
        let told = part("text").and_then(|part| part["text"].as_str()).unwrap_or_default();
        let value = whole.unwrap_or_else(|| told.to_owned());
        if !value.is_empty() {
            let part = TerminalUnclassifiedPart { value };
            state.content.push(TerminalContentPart::Unclassified(part));
        }
        let uri: Uri = uri.into();
        if shown["status"] == "running" {
            self.add_terminal(&uri, Some(session), state, None);
        } else {
            let exit_code = terminal["result"]["exitCode"].as_i64();
            state.lifecycle = TerminalLifecycleState::Exited(TerminalExitedLifecycleState { exit_code });
            self.core
                .insert_service(uri, Some(session), Service::Terminal(Box::new(state)));
        }
    }

    /// The call of a terminal that is not there: its chat, turn, id and state.
    fn past_call(&self, uri: &str) -> Option<(Uri, String, String, Value)> {
        let (born, call) = uri::call_of_tool_terminal(uri).filter(|_| !self.core.services.contains_key(uri))?;
        let within = |chat: &&Uri| self.talk_of(chat).is_some_and(|(_, talk)| *talk.born == *born);
        self.core.chats.keys().filter(within).find_map(|chat| {
            let (turn, shown) = self.find_call(chat, &call)?;
            Some((chat.clone(), turn, call.clone(), shown))
        })
    }

    /// The file with all that a command printed, where the conversation tells only the beginning.
    pub(crate) fn past_output(&self, uri: &str) -> Option<PathBuf> {
        let (_, _, _, shown) = self.past_call(uri)?;
        let mut parts = shown["content"].as_array()?.iter();
        let file = parts.find(|part| part["type"] == "resource")?;
        uri::path(file["uri"].as_str()?)
    }

    /// A tool call of a chat and its turn, the newest first.
    fn find_call(&self, chat: &str, call: &str) -> Option<(String, Value)> {
        let store = self.core.chats.get(chat)?.store();
        let within = |turn: &Value| {
            let parts = turn["responseParts"].as_array()?.iter();
            let found = parts.rev().find(|part| part["toolCall"]["toolCallId"] == call)?;
            Some((turn["id"].as_str()?.to_owned(), found["toolCall"].clone()))
        };
        let active = store.head().active_turn.as_ref();
        if let Some(found) = active.and_then(|turn| within(&serde_json::to_value(turn).ok()?)) {
            return Some(found);
        }
        let named = serde_json::to_string(call).ok()?;
        (0..store.turns().len()).rev().find_map(|at| {
            let json = store.json(at)?;
            json.get().contains(&named).then_some(())?;
            within(&serde_json::from_str(json.get()).ok()?)
        })
    }
}

fn state(session: &str, chat: &str, turn: &str, call: &str, title: String) -> TerminalState {
    TerminalState {
        title,
        cwd: None,
        cols: None,
        rows: None,
        content: Vec::new(),
        lifecycle: TerminalLifecycleState::Running(TerminalRunningLifecycleState {}),
        claim: TerminalClaim::Session(TerminalSessionClaim {
            session: session.to_owned(),
            chat: chat.to_owned(),
            turn_id: Some(turn.to_owned()),
            tool_call_id: Some(call.to_owned()),
        }),
        supports_command_detection: None,
        is_pty: Some(false),
    }
}
