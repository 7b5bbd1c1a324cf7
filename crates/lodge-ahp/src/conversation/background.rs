//! Commands that continue in the background. Only the process that runs them knows when they end, so they are in no log.

use ahp_types::{
    StateAction,
    actions::{ChatBackgroundWorkRemovedAction, ChatBackgroundWorkSetAction},
    state::{BackgroundShellWork, BackgroundWork},
};
use lodge_events::Timestamp;
use lodge_host::{BackgroundShell, Session};

use crate::{face::Face, state::Uri};

/// Ids of sub-agents are those of tool calls, which have no colon in front.
const PREFIX: &str = "shell:";
/// How much is shown of a command: bytes of it, and characters of its first line.
const LONGEST: usize = 4 << 10;
const LONGEST_LABEL: usize = 200;

/// The shell that a piece of background work is.
pub(crate) fn shell_of(work: &str) -> Option<&str> {
    work.strip_prefix(PREFIX)
}

impl Face {
    /// Lets clients see which commands are in the background now.
    pub(super) fn background_changed(&self, chat: &Uri) {
        let agent = self
            .inner
            .lock()
            .conversations
            .get(chat)
            .and_then(|known| known.agent().cloned());
        let shells = agent.as_ref().map(Session::background_shells).unwrap_or_default();
        let running = shells.iter().filter(|shell| shell.exit_code.is_none());
        self.show_background(chat, running.map(work).collect());
    }

    /// The session left memory, and its commands have ended.
    pub(super) fn background_ended(&self, chat: &Uri) {
        self.show_background(chat, Vec::new());
    }

    fn show_background(&self, chat: &Uri, now: Vec<BackgroundShellWork>) {
        let mut inner = self.inner.lock();
        let Some(head) = inner.core.head(chat) else { return };
        let shown: Vec<BackgroundShellWork> = head
            .background_work
            .iter()
            .flatten()
            .filter_map(|work| match work {
                BackgroundWork::Shell(work) => Some(work.clone()),
                _ => None,
            })
            .collect();
        let is_gone = |shown: &&BackgroundShellWork| now.iter().all(|work| work.id != shown.id);
        let gone = shown.iter().filter(is_gone).map(|work| {
            StateAction::ChatBackgroundWorkRemoved(ChatBackgroundWorkRemovedAction { id: work.id.clone() })
        });
        let new = now.iter().filter(|work| !shown.contains(work)).map(|work| {
            let work = BackgroundWork::Shell(work.clone());
            StateAction::ChatBackgroundWorkSet(ChatBackgroundWorkSetAction { work })
        });
        let actions: Vec<StateAction> = gone.chain(new).collect();
        for action in &actions {
            inner.core.publish(chat, action, None);
        }
        if !actions.is_empty()
            && let Some(session) = inner.core.session_of(chat)
        {
            inner.core.settle(&session);
        }
    }
}

fn work(shell: &BackgroundShell) -> BackgroundShellWork {
    let began = Timestamp::try_from(shell.began).unwrap_or_default();
    let command = shell.command.as_str();
    let line = command.lines().next().unwrap_or_default();
    let label = line
        .char_indices()
        .nth(LONGEST_LABEL)
        .map_or(line.len(), |(end, _)| end);
    BackgroundShellWork {
        id: format!("{PREFIX}{}", shell.id),
        label: beginning(line, label),
        started_at: format!("{began:.3}"),
        meta: None,
        command: beginning(command, command.floor_char_boundary(LONGEST)),
        terminal: None,
    }
}

/// A text up to here, with a mark if there is more.
fn beginning(text: &str, end: usize) -> String {
    let more = if end < text.len() { "…" } else { "" };
    format!("{}{more}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_shown_by_their_beginning() {
        let (line, text) = ("é".repeat(300), "é".repeat(3000));
        for (command, label, shown) in [
            (
                "make\nmake test".to_owned(),
                "make".to_owned(),
                "make\nmake test".to_owned(),
            ),
            (line.clone(), "é".repeat(200) + "…", line),
            (text, "é".repeat(200) + "…", "é".repeat(2048) + "…"),
        ] {
            let work = work(&BackgroundShell {
                id: "1".into(),
                command,
                began: std::time::SystemTime::UNIX_EPOCH,
                exit_code: None,
                recent: String::new(),
            });
            assert_eq!((work.label, work.command), (label, shown));
        }
    }
}
