//! What people turned on or off, and for which sessions. A decision applies to one session, to all sessions that work in a directory, or
//! to all sessions; the narrowest one counts. Decisions for one session are stored with it, all others with the host.

use std::collections::BTreeMap;

use ahp_types::state::CustomizationEnablement;
use lodge_host::{DecidedFor, Decision, SessionDecisions};

use crate::{
    actions::is_same,
    conversation::Effect,
    face::{Face, Inner},
    state::Uri,
    uri,
};

/// All that counts in a session, in the protocol's words.
pub(crate) struct Decisions {
    pub(super) all: SessionDecisions,
    /// The address of the directory that it works in.
    place: Option<String>,
}

impl Decisions {
    /// Of a session with decisions of its own that works in a directory.
    pub(crate) fn of(own: &BTreeMap<String, bool>, place: Option<&str>, wide: &BTreeMap<String, Decision>) -> Self {
        let path = place.and_then(uri::path);
        Self {
            all: SessionDecisions::new(own, path.as_deref(), wide),
            place: place.map(str::to_owned),
        }
    }

    /// Everything that was said of a thing, the most specific first.
    pub(crate) fn said(&self, key: &str) -> Vec<CustomizationEnablement> {
        shown(self.all.about(key), self.place.as_deref())
    }
}

/// Decisions as they are published in a session that works in a directory.
pub(crate) fn shown(decided: &[(DecidedFor, bool)], place: Option<&str>) -> Vec<CustomizationEnablement> {
    let said = |(whom, enabled): &(DecidedFor, bool)| {
        let enabled = *enabled;
        match whom {
            DecidedFor::Session => CustomizationEnablement::Session { enabled },
            DecidedFor::Everywhere => CustomizationEnablement::Global { enabled },
            DecidedFor::Directory => CustomizationEnablement::Workspace {
                uri: place.unwrap_or_default().to_owned(),
                enabled,
            },
        }
    };
    decided.iter().map(said).collect()
}

fn whom(said: &CustomizationEnablement) -> Option<(DecidedFor, bool)> {
    use CustomizationEnablement as E;
    match said {
        E::Session { enabled } => Some((DecidedFor::Session, *enabled)),
        E::Workspace { enabled, .. } => Some((DecidedFor::Directory, *enabled)),
        E::Global { enabled } => Some((DecidedFor::Everywhere, *enabled)),
        E::Unknown(_) => None,
    }
}

/// The decision that counts: what is said of the session comes before what is said of more.
pub(crate) fn decision(said: &[CustomizationEnablement]) -> Option<bool> {
    let first = said.iter().filter_map(whom).min_by_key(|(whom, _)| *whom);
    first.map(|(_, on)| on)
}

/// Why decisions are not accepted.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum DecisionError {
    #[error("the session does not work in {0}")]
    OtherDirectory(String),
    #[error("there is no such scope")]
    NoScope,
    #[error("there is one decision for each scope")]
    TwoForOneScope,
}

/// Decisions that are given by somebody at a session that works in a directory.
pub(crate) fn given(
    said: &[CustomizationEnablement],
    place: Option<&str>,
) -> Result<Vec<(DecidedFor, bool)>, DecisionError> {
    let mut all = Vec::new();
    for said in said {
        if let CustomizationEnablement::Workspace { uri, .. } = said
            && !place.is_some_and(|place| is_same(place, uri))
        {
            return Err(DecisionError::OtherDirectory(uri.clone()));
        }
        all.push(whom(said).ok_or(DecisionError::NoScope)?);
    }
    all.sort_by_key(|(whom, _)| *whom);
    if all.windows(2).any(|two| two[0].0 == two[1].0) {
        return Err(DecisionError::TwoForOneScope);
    }
    Ok(all)
}

impl Face {
    /// What persons decided about the session that a chat is in.
    pub(super) fn decisions(&self, chat: &Uri) -> Decisions {
        let inner = self.inner.lock();
        let session = inner.conversations.get(chat).map(|talk| talk.session.clone());
        self.decisions_of(&inner, session.as_deref().unwrap_or_default())
    }

    /// What persons decided about the session that a chat is in, for it alone.
    pub(crate) fn own_decisions(&self, chat: &Uri) -> BTreeMap<String, bool> {
        let inner = self.inner.lock();
        let session = inner
            .conversations
            .get(chat)
            .and_then(|talk| inner.core.sessions.get(&talk.session));
        session.map(|entry| entry.decisions.clone()).unwrap_or_default()
    }

    /// What persons decided about a session.
    pub(crate) fn decisions_of(&self, inner: &Inner, session: &str) -> Decisions {
        let Some(entry) = inner.core.sessions.get(session) else {
            return Decisions::of(&BTreeMap::new(), None, &BTreeMap::new());
        };
        let place = entry.state.working_directories.as_ref().and_then(|all| all.first());
        Decisions::of(
            &entry.decisions,
            place.map(String::as_str),
            &self.host.decisions().all(),
        )
    }

    /// Somebody decided about a thing for a session: its agents are told. Every chat of a session has one of its own.
    pub(crate) fn toggled(&self, inner: &mut Inner, session: &str) {
        if let Some(entry) = inner.core.sessions.get_mut(session) {
            entry.undone += 1;
        }
        for talk in inner.conversations.values().filter(|talk| &*talk.session == session) {
            talk.tell(Effect::Decided);
        }
    }

    /// Somebody decided for more than one session.
    pub(crate) fn decided_for_all(&self) {
        let mut inner = self.inner.lock();
        let sessions: Vec<Uri> = inner.core.sessions.keys().cloned().collect();
        for session in sessions {
            self.toggled(&mut inner, &session);
        }
    }

    /// The log of a session tells what is on and off for it alone.
    pub(crate) fn switched(&self, inner: &mut Inner, chat: &Uri, switches: &BTreeMap<String, bool>) {
        let Some(session) = inner.core.session_of(chat) else {
            return;
        };
        let entry = inner.core.sessions.get_mut(&session);
        let Some(entry) = entry.filter(|entry| entry.default_chat == *chat && entry.decisions != *switches) else {
            return;
        };
        entry.decisions.clone_from(switches);
        self.toggled(inner, &session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CustomizationEnablement as E;

    fn workspace(enabled: bool) -> E {
        E::Workspace {
            uri: "file:///x".into(),
            enabled,
        }
    }

    #[test]
    fn the_most_special_decision_counts() {
        for (said, expected) in [
            (vec![], None),
            (vec![E::Global { enabled: false }], Some(false)),
            (vec![E::Global { enabled: false }, workspace(true)], Some(true)),
            (
                vec![
                    workspace(true),
                    E::Global { enabled: true },
                    E::Session { enabled: false },
                ],
                Some(false),
            ),
            (vec![E::Unknown(serde_json::json!({"kind": "x"}))], None),
        ] {
            assert_eq!(decision(&said), expected, "{said:?}");
        }
    }

    #[test]
    fn decisions_are_published_in_their_order_and_for_where_the_session_works() {
        let unsorted = [E::Global { enabled: true }, E::Session { enabled: false }];
        let sorted = [E::Session { enabled: false }, E::Global { enabled: true }];
        assert_eq!(shown(&given(&unsorted, None).unwrap(), None), sorted);
        let slash = E::Workspace {
            uri: "file:///x/".into(),
            enabled: true,
        };
        let here = Some("file:///x");
        assert_eq!(shown(&given(&[slash], here).unwrap(), here), [workspace(true)]);
        for odd in [
            vec![E::Global { enabled: true }, E::Global { enabled: false }],
            vec![workspace(true)],
            vec![E::Unknown(serde_json::json!({"kind": "x"}))],
        ] {
            assert!(given(&odd, Some("file:///y")).is_err(), "{odd:?}");
        }
    }
}
