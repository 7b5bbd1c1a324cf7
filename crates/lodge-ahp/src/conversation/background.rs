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
    BackgroundShellWork {
        id: format!("{PREFIX}{}", shell.id),
        label: shell.command.lines().next().unwrap_or_default().to_owned(),
        started_at: format!("{began:.3}"),
        meta: None,
        command: shell.command.clone(),
        terminal: None,
    }
}
