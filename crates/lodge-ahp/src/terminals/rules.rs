//! What clients may say about a terminal.

use ahp_types::{
    StateAction,
    state::{TerminalClaim, TerminalLifecycleState, TerminalState},
};

use crate::{face::Inner, state::Peer};

/// No screen is larger.
pub(crate) const MAX_SIDE: i64 = 5000;
/// A title is a line.
pub(crate) const MAX_TITLE: usize = 256;

/// What an accepted action does beyond the state.
#[derive(Debug, PartialEq)]
pub(crate) enum Deed {
    /// Types.
    Input(String),
    Resize(u16, u16),
    /// A person named it.
    Named,
    /// It has another holder.
    Claimed,
    /// Nothing is left of its past.
    Cleared,
}

/// Whether a client may dispatch this, and what it does.
pub(crate) fn check(
    inner: &Inner,
    peer: &Peer,
    uri: &str,
    state: &TerminalState,
    action: &StateAction,
) -> Result<Deed, String> {
    let Some(entry) = inner.terminals.entries.get(uri) else {
        return Err("the agent's terminal is over".to_owned());
    };
    let Some(terminal) = &entry.terminal else {
        return Err("this is what the agent's tool prints; only the agent acts here".to_owned());
    };
    let runs = || match state.lifecycle {
        TerminalLifecycleState::Running(_) => Ok(()),
        _ => Err("the terminal's shell has ended".to_owned()),
    };
    match action {
        StateAction::TerminalInput(input) => {
            runs()?;
            if !terminal.has_room(input.data.len()) {
                return Err("the program in the terminal does not read what is typed".to_owned());
            }
            Ok(Deed::Input(input.data.clone()))
        }
        StateAction::TerminalResized(resized) => {
            runs()?;
            let (cols, rows) = size(resized.cols, resized.rows)?;
            Ok(Deed::Resize(cols, rows))
        }
        StateAction::TerminalClaimed(claimed) => {
            holds(inner, peer, &state.claim)?;
            may_hold(inner, &claimed.claim)?;
            Ok(Deed::Claimed)
        }
        StateAction::TerminalTitleChanged(changed) => {
            let length = changed.title.chars().count();
            if length == 0 || length > MAX_TITLE || changed.title.chars().any(char::is_control) {
                return Err(format!("a title is a line of at most {MAX_TITLE} characters"));
            }
            Ok(Deed::Named)
        }
        StateAction::TerminalCleared(_) => Ok(Deed::Cleared),
        _ => Err("clients cannot dispatch this for a terminal".to_owned()),
    }
}

/// A size that a screen can have.
pub(crate) fn size(cols: i64, rows: i64) -> Result<(u16, u16), String> {
    let side = |side: i64| u16::try_from(side).ok().filter(|_| (1..=MAX_SIDE).contains(&side));
    match (side(cols), side(rows)) {
        (Some(cols), Some(rows)) => Ok((cols, rows)),
        _ => Err(format!("a terminal has 1 to {MAX_SIDE} columns and rows")),
    }
}

/// Whether the client holds what is claimed so. What a session holds is held by those who are in the session; what a
/// client holds that is gone is anybody's.
fn holds(inner: &Inner, peer: &Peer, claim: &TerminalClaim) -> Result<(), String> {
    let core = &inner.core;
    match claim {
        TerminalClaim::Client(claim) if claim.client_id == *peer.client => Ok(()),
        TerminalClaim::Client(claim) if core.is_connected(&claim.client_id) => {
            Err("another client holds the terminal".to_owned())
        }
        TerminalClaim::Session(claim)
            if core.sessions.contains_key(claim.session.as_str())
                && !core.listens(&peer.client, &claim.session)
                && !core.listens(&peer.client, &claim.chat) =>
        {
            Err("a session holds the terminal, and this client is not in it".to_owned())
        }
        _ => Ok(()),
    }
}

/// Whether there is somebody of this name to hold a terminal.
pub(crate) fn may_hold(inner: &Inner, claim: &TerminalClaim) -> Result<(), String> {
    match claim {
        TerminalClaim::Client(claim) if inner.core.is_connected(&claim.client_id) => Ok(()),
        TerminalClaim::Client(_) => Err("there is no such client".to_owned()),
        TerminalClaim::Session(claim) => {
            if !inner.core.sessions.contains_key(claim.session.as_str()) {
                return Err("there is no such session".to_owned());
            }
            let chat = inner.core.chats.get(claim.chat.as_str());
            if chat.is_none_or(|chat| *chat.session != *claim.session) {
                return Err("the session has no such chat".to_owned());
            }
            Ok(())
        }
    }
}

impl Inner {
    /// Does what an accepted action says.
    pub(crate) fn do_terminal(&mut self, uri: &str, deed: Deed) {
        let Some(entry) = self.terminals.entries.get_mut(uri) else {
            return;
        };
        let Some(terminal) = &entry.terminal else { return };
        match deed {
            Deed::Input(text) => terminal.write(&text),
            Deed::Resize(cols, rows) => {
                if let Err(error) = terminal.resize(cols, rows) {
                    tracing::debug!(%error, "a terminal could not be resized");
                }
            }
            Deed::Named => {
                entry.named = true;
                self.terminals_changed();
            }
            Deed::Claimed => self.terminals_changed(),
            Deed::Cleared => entry.kept = 0,
        }
    }
}
