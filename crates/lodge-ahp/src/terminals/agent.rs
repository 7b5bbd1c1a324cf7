//! What the agent's commands print, as terminals: live while they run, and from the conversation afterwards.

use std::path::PathBuf;

use ahp_types::state::{
    TerminalClaim, TerminalContentPart, TerminalExitedLifecycleState, TerminalLifecycleState,
    TerminalRunningLifecycleState, TerminalSessionClaim, TerminalState, TerminalUnclassifiedPart, ToolCallState,
    ToolResultContent, Turn,
};
use lodge_host::terminal::Piece;

use crate::{
    face::Inner,
    projection::TerminalNews,
    state::{Service, Uri, chat::call_in},
    uri,
};

impl Inner {
    /// Shows what is new about a command of a conversation.
    pub(crate) fn agent_terminal(&mut self, chat: &Uri, session: &Uri, call: &str, news: TerminalNews) {
        let born = self.conversations.get(chat).map_or(session, |talk| &talk.born);
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
        let parts = content(&shown);
        let mut terminals = parts.iter().filter_map(|part| match part {
            ToolResultContent::Terminal(terminal) => Some(terminal),
            _ => None,
        });
        let Some(terminal) = terminals.next() else { return };
        let mut state = state(&session, &chat, &turn, &call, terminal.title.clone());
        state.cwd = self.directories_of(&chat).into_iter().next();
        let mut told = parts.iter().filter_map(|part| match part {
            ToolResultContent::Text(part) => Some(part.text.clone()),
            _ => None,
        });
        let value = whole.or_else(|| told.next()).unwrap_or_default();
        if !value.is_empty() {
            let part = TerminalUnclassifiedPart { value };
            state.content.push(TerminalContentPart::Unclassified(part));
        }
        let uri: Uri = uri.into();
        if matches!(shown, ToolCallState::Running(_)) {
            self.add_terminal(&uri, Some(session), state, None);
        } else {
            let exit_code = terminal.result.as_ref().and_then(|result| result.exit_code);
            state.lifecycle = TerminalLifecycleState::Exited(TerminalExitedLifecycleState { exit_code });
            self.core
                .insert_service(uri, Some(session), Service::Terminal(Box::new(state)));
        }
    }

    /// The call of a terminal that is not there: its chat, turn, id and state.
    fn past_call(&self, uri: &str) -> Option<(Uri, String, String, ToolCallState)> {
        let (born, call) = uri::call_of_tool_terminal(uri).filter(|_| !self.core.services.contains_key(uri))?;
        let within = |chat: &&Uri| self.conversation(chat).is_some_and(|(_, talk)| *talk.born == *born);
        self.core.chats.keys().filter(within).find_map(|chat| {
            let (turn, shown) = self.find_call(chat, &call)?;
            Some((chat.clone(), turn, call.clone(), shown))
        })
    }

    /// The file with all that a command printed, where the conversation tells only the beginning.
    pub(crate) fn past_output(&self, uri: &str) -> Option<PathBuf> {
        let (_, _, _, shown) = self.past_call(uri)?;
        content(&shown).iter().find_map(|part| match part {
            ToolResultContent::Resource(file) => uri::path(&file.uri),
            _ => None,
        })
    }

    /// A tool call of a chat and its turn, the newest first.
    fn find_call(&self, chat: &str, call: &str) -> Option<(String, ToolCallState)> {
        let store = self.core.chats.get(chat)?.store();
        if let Some(turn) = &store.head().active_turn
            && let Some(found) = call_in(&turn.response_parts, call)
        {
            return Some((turn.id.clone(), found.clone()));
        }
        let named = serde_json::to_string(call).ok()?;
        (0..store.turns().len()).rev().find_map(|at| {
            let json = store.json(at).filter(|json| json.get().contains(&named))?;
            let turn: Turn = serde_json::from_str(json.get()).ok()?;
            let found = call_in(&turn.response_parts, call)?.clone();
            Some((turn.id, found))
        })
    }
}

/// What a call has shown.
fn content(call: &ToolCallState) -> &[ToolResultContent] {
    let content = match call {
        ToolCallState::Running(call) => &call.content,
        ToolCallState::AuthRequired(call) => &call.content,
        ToolCallState::PendingResultConfirmation(call) => &call.content,
        ToolCallState::Completed(call) => &call.content,
        _ => return &[],
    };
    content.as_deref().unwrap_or_default()
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
