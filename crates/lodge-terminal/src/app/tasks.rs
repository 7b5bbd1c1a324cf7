//! What goes on beside the conversation: sub-agents, commands in the background, messages that wait.

use ahp::ahp_types::{
    Uri,
    state::{BackgroundWork, ChatOrigin, SessionStatus},
};

use super::{App, overlay::age};
use crate::transcript;

/// Something that goes on beside the conversation.
pub(super) struct Task {
    pub(super) mark: char,
    pub(super) text: String,
    pub(super) about: About,
    pub(super) works: bool,
}

#[derive(Clone)]
pub(super) enum About {
    /// A sub-agent: its chat, and the tool call that started it.
    Chat(Uri, String),
    /// A message that waits, by its id.
    Queued(String),
    /// A command in the background: its id, and what it is.
    Shell(String, String),
}

impl App {
    /// What goes on beside the conversation.
    pub(super) fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        let chats = self.mirror.session.state.chats.iter();
        for chat in chats {
            let Some(ChatOrigin::Tool { tool_call_id, .. }) = &chat.origin else {
                continue;
            };
            let is = |state: SessionStatus| chat.status & state.bits() == state.bits();
            let state = if is(SessionStatus::InputNeeded) {
                "needs an answer"
            } else if is(SessionStatus::InProgress) {
                "working"
            } else if is(SessionStatus::Error) {
                "failed"
            } else {
                "done"
            };
            let activity = chat.activity.as_ref().map(|activity| format!(": {activity}"));
            let what = self.delegated(chat.origin.as_ref()).map(|what| format!(" · {what}"));
            tasks.push(Task {
                mark: '▸',
                text: format!(
                    "{}{}  {state}{}",
                    chat.title,
                    what.unwrap_or_default(),
                    activity.unwrap_or_default()
                ),
                about: About::Chat(chat.resource.clone(), tool_call_id.clone()),
                works: matches!(state, "working" | "needs an answer"),
            });
        }
        let chat = &self.mirror.chat.state;
        for work in chat.background_work.iter().flatten() {
            // A sub-agent is its chat.
            if let BackgroundWork::Shell(shell) = work {
                tasks.push(Task {
                    mark: '&',
                    text: format!("{}  since {}", shell.command, age(&shell.started_at)),
                    about: About::Shell(shell.id.clone(), shell.command.clone()),
                    works: true,
                });
            }
        }
        for queued in chat.queued_messages.iter().flatten() {
            tasks.push(Task {
                mark: '+',
                text: format!("queued: {}", queued.message.text),
                about: About::Queued(queued.id.clone()),
                works: false,
            });
        }
        tasks
    }

    /// What a sub-agent was started for, as the call that did so says.
    fn delegated(&self, origin: Option<&ChatOrigin>) -> Option<&str> {
        let Some(ChatOrigin::Tool { tool_call_id, .. }) = origin else {
            return None;
        };
        let chat = &self.mirror.chat.state;
        let active = chat.active_turn.iter().map(|turn| turn.response_parts.as_slice());
        let mut parts = active.chain(chat.turns.iter().rev().map(|turn| turn.response_parts.as_slice()));
        parts.find_map(|parts| {
            parts
                .iter()
                .find_map(|part| transcript::call_description(part, tool_call_id))
        })
    }
}
