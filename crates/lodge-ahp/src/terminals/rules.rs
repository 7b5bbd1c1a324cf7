//! Rules for actions on terminals.

use ahp_types::{
    StateAction,
    state::{TerminalClaim, TerminalLifecycleState, TerminalState},
};

use crate::{face::Inner, state::Peer};

/// The largest number of rows or columns.
pub(crate) const MAX_SIDE: i64 = 5000;
/// The most characters of a title, which is one line.
pub(crate) const MAX_TITLE: usize = 256;

/// What an accepted action does beside changing the state.
#[derive(Debug, PartialEq)]
pub(crate) enum TerminalEffect {
    /// Bytes for the shell.
    Input(String),
    Resize(u16, u16),
    /// The terminal has a new title.
    Named,
    /// The terminal has another owner.
    Claimed,
    /// The past output was cleared.
    Cleared,
}

/// Why a client may not do something to a terminal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TerminalRefusal {
    #[error("the agent's command has ended, and its terminal with it")]
    Over,
    #[error("this is the output of the agent's tool; only the agent can act on it")]
    OfAgent,
    #[error("the terminal's shell has ended")]
    Ended,
    #[error("the program in the terminal does not read what is typed")]
    Unread,
    #[error("a title is a line of at most {MAX_TITLE} characters")]
    Title,
    #[error("clients cannot dispatch this for a terminal")]
    NotForTerminals,
    #[error("a terminal has 1 to {MAX_SIDE} columns and rows")]
    Size,
    #[error("another client holds the terminal")]
    HeldByOther,
    #[error("a session holds the terminal, and this client is not in it")]
    HeldBySession,
    #[error("there is no such client")]
    NoClient,
    #[error("there is no such session")]
    NoSession,
    #[error("the session has no such chat")]
    NoChat,
}

/// Checks an action of a client, and returns its effect.
pub(crate) fn check(
    inner: &Inner,
    peer: &Peer,
    uri: &str,
    state: &TerminalState,
    action: &StateAction,
) -> Result<TerminalEffect, TerminalRefusal> {
    let Some(entry) = inner.terminals.entries.get(uri) else {
        return Err(TerminalRefusal::Over);
    };
    let Some(terminal) = &entry.terminal else {
        return Err(TerminalRefusal::OfAgent);
    };
    let runs = || match state.lifecycle {
        TerminalLifecycleState::Running(_) => Ok(()),
        _ => Err(TerminalRefusal::Ended),
    };
    match action {
        StateAction::TerminalInput(input) => {
            runs()?;
            if !terminal.has_room(input.data.len()) {
                return Err(TerminalRefusal::Unread);
            }
            Ok(TerminalEffect::Input(input.data.clone()))
        }
        StateAction::TerminalResized(resized) => {
            runs()?;
            let (cols, rows) = size(resized.cols, resized.rows)?;
            Ok(TerminalEffect::Resize(cols, rows))
        }
        StateAction::TerminalClaimed(claimed) => {
            holds(inner, peer, &state.claim)?;
            may_hold(inner, &claimed.claim)?;
            Ok(TerminalEffect::Claimed)
        }
        StateAction::TerminalTitleChanged(changed) => {
            let length = changed.title.chars().count();
            if length == 0 || length > MAX_TITLE || changed.title.chars().any(char::is_control) {
                return Err(TerminalRefusal::Title);
            }
            Ok(TerminalEffect::Named)
        }
        StateAction::TerminalCleared(_) => Ok(TerminalEffect::Cleared),
        _ => Err(TerminalRefusal::NotForTerminals),
    }
}

/// A valid size of a screen.
pub(crate) fn size(cols: i64, rows: i64) -> Result<(u16, u16), TerminalRefusal> {
    let side = |side: i64| u16::try_from(side).ok().filter(|_| (1..=MAX_SIDE).contains(&side));
    match (side(cols), side(rows)) {
        (Some(cols), Some(rows)) => Ok((cols, rows)),
        _ => Err(TerminalRefusal::Size),
    }
}

/// Whether the client holds what is claimed so. What a session holds is held by those who are in the session; what a
/// client holds that is gone is anybody's.
fn holds(inner: &Inner, peer: &Peer, claim: &TerminalClaim) -> Result<(), TerminalRefusal> {
    let core = &inner.core;
    match claim {
        TerminalClaim::Client(claim) if claim.client_id == *peer.client => Ok(()),
        TerminalClaim::Client(claim) if core.is_connected(&claim.client_id) => Err(TerminalRefusal::HeldByOther),
        TerminalClaim::Session(claim)
            if core.sessions.contains_key(claim.session.as_str())
                && !core.listens(&peer.client, &claim.session)
                && !core.listens(&peer.client, &claim.chat) =>
        {
            Err(TerminalRefusal::HeldBySession)
        }
        _ => Ok(()),
    }
}

/// Whether there is somebody of this name to hold a terminal.
pub(crate) fn may_hold(inner: &Inner, claim: &TerminalClaim) -> Result<(), TerminalRefusal> {
    match claim {
        TerminalClaim::Client(claim) if inner.core.is_connected(&claim.client_id) => Ok(()),
        TerminalClaim::Client(_) => Err(TerminalRefusal::NoClient),
        TerminalClaim::Session(claim) => {
            if !inner.core.sessions.contains_key(claim.session.as_str()) {
                return Err(TerminalRefusal::NoSession);
            }
            let chat = inner.core.chats.get(claim.chat.as_str());
            if chat.is_none_or(|chat| *chat.session != *claim.session) {
                return Err(TerminalRefusal::NoChat);
            }
            Ok(())
        }
    }
}

impl Inner {
    /// Carries out an accepted action.
    pub(crate) fn do_terminal(&mut self, uri: &str, effect: TerminalEffect) {
        let Some(entry) = self.terminals.entries.get_mut(uri) else {
            return;
        };
        let Some(terminal) = &entry.terminal else { return };
        match effect {
            TerminalEffect::Input(text) => terminal.write(&text),
            TerminalEffect::Resize(cols, rows) => {
                if let Err(error) = terminal.resize(cols, rows) {
                    tracing::debug!(%error, "a terminal could not be resized");
                }
            }
            TerminalEffect::Named => {
                entry.named = true;
                self.terminals_changed();
            }
            TerminalEffect::Claimed => self.terminals_changed(),
            TerminalEffect::Cleared => entry.kept = 0,
        }
    }
}
