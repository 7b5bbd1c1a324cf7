//! What persons decided: what is on and off, and for whom. A decision is for one session, for all that work in a directory, or for all
//! there are; the most special one counts. What is decided for one session is kept with it, the rest with the host.

use std::{collections::BTreeMap, path::Path};

use ahp_types::state::CustomizationEnablement;
use lodge_host::Decision;

use crate::{
    actions::is_same,
    face::{Face, Inner},
    state::Uri,
    talk::Effect,
    uri,
};

/// What was decided for one session: by the id of a thing, whether it is on.
pub(crate) type Own = BTreeMap<String, bool>;

/// What a decision for more than one session says to one that works in a directory, the more special first.
fn said(decision: &Decision, place: Option<&str>) -> Vec<CustomizationEnablement> {
    let here = place.and_then(|place| {
        let path = uri::path(place)?;
        let enabled = *decision.places.get(&*path.to_string_lossy())?;
        let uri = place.to_owned();
        Some(CustomizationEnablement::Workspace { uri, enabled })
    });
    let everywhere = decision.everywhere;
    let everywhere = everywhere.map(|enabled| CustomizationEnablement::Global { enabled });
    here.into_iter().chain(everywhere).collect()
}

/// Makes a decision what it is after a session in that directory decided all anew.
pub(crate) fn decided(decision: &mut Decision, said: &[CustomizationEnablement], place: Option<&Path>) {
    decision.everywhere = None;
    let place = place.map(|place| place.to_string_lossy().into_owned());
    if let Some(place) = &place {
        decision.places.remove(place);
    }
    for said in said {
        match said {
            CustomizationEnablement::Global { enabled } => decision.everywhere = Some(*enabled),
            // There is one for the directory that the session works in, and none else.
            CustomizationEnablement::Workspace { enabled, .. } => {
                decision.places.extend(place.clone().map(|place| (place, *enabled)));
            }
            _ => {}
        }
    }
}

/// All that counts in a session.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    on: BTreeMap<String, bool>,
    said: BTreeMap<String, Vec<CustomizationEnablement>>,
}

impl Decisions {
    /// Of a session with decisions of its own that works in a directory.
    pub(crate) fn of(own: &Own, place: Option<&str>, wide: &BTreeMap<String, Decision>) -> Self {
        let mut all: BTreeMap<String, Vec<CustomizationEnablement>> = BTreeMap::new();
        for (id, enabled) in own {
            all.insert(id.clone(), vec![CustomizationEnablement::Session { enabled: *enabled }]);
        }
        for (id, wide) in wide {
            let more = said(wide, place);
            if !more.is_empty() {
                all.entry(id.clone()).or_default().extend(more);
            }
        }
        let on = |(id, said): (&String, &Vec<_>)| Some((id.clone(), decision(said)?));
        Self {
            on: all.iter().filter_map(on).collect(),
            said: all,
        }
    }

    /// Whether a thing is on, where anybody said so.
    pub(super) fn get(&self, id: &str) -> Option<&bool> {
        self.on.get(id)
    }

    /// Everything that was said of a thing, the most special first.
    pub(crate) fn said(&self, id: &str) -> &[CustomizationEnablement] {
        self.said.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    /// The things that somebody decided about.
    pub(super) fn ids(&self) -> impl Iterator<Item = &String> {
        self.on.keys()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.on.is_empty()
    }
}

/// The decision that counts: what is said of the session comes before what is said of more.
pub(crate) fn decision(said: &[CustomizationEnablement]) -> Option<bool> {
    use CustomizationEnablement as E;
    let first = said.iter().min_by_key(|said| rank(said))?;
    match first {
        E::Session { enabled } | E::Workspace { enabled, .. } | E::Global { enabled } => Some(*enabled),
        E::Unknown(_) => None,
    }
}

fn rank(said: &CustomizationEnablement) -> u8 {
    match said {
        CustomizationEnablement::Session { .. } => 0,
        CustomizationEnablement::Workspace { .. } => 1,
        CustomizationEnablement::Global { .. } => 2,
        CustomizationEnablement::Unknown(_) => 3,
    }
}

/// Decisions as they are published, given by somebody at a session that works in a directory.
pub(crate) fn given(
    mut said: Vec<CustomizationEnablement>,
    place: Option<&str>,
) -> Result<Vec<CustomizationEnablement>, String> {
    said.sort_by_key(rank);
    if said.windows(2).any(|two| rank(&two[0]) == rank(&two[1])) {
        return Err("there is one decision for each scope".to_owned());
    }
    for said in &mut said {
        match said {
            CustomizationEnablement::Workspace { uri, .. } => match place.filter(|place| is_same(place, uri)) {
                Some(place) => place.clone_into(uri),
                None => return Err(format!("the session does not work in {uri}")),
            },
            CustomizationEnablement::Unknown(_) => return Err("there is no such scope".to_owned()),
            _ => {}
        }
    }
    Ok(said)
}

impl Face {
    /// What persons decided about the session that a chat is in.
    pub(super) fn decisions(&self, chat: &Uri) -> Decisions {
        let inner = self.inner.lock();
        let session = inner.talks.get(chat).map(|talk| talk.session.clone());
        session.map_or_else(Decisions::default, |session| self.decisions_of(&inner, &session))
    }

    /// What persons decided about the session that a chat is in, for it alone.
    pub(crate) fn own_decisions(&self, chat: &Uri) -> Own {
        let inner = self.inner.lock();
        let session = inner
            .talks
            .get(chat)
            .and_then(|talk| inner.core.sessions.get(&talk.session));
        session.map(|entry| entry.decisions.clone()).unwrap_or_default()
    }

    /// What persons decided about a session.
    pub(crate) fn decisions_of(&self, inner: &Inner, session: &str) -> Decisions {
        let Some(entry) = inner.core.sessions.get(session) else {
            return Decisions::default();
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
        for talk in inner.talks.values().filter(|talk| &*talk.session == session) {
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
    pub(crate) fn switched(&self, inner: &mut Inner, chat: &Uri, switches: &Own) {
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
    fn what_is_decided_anew_replaces_all_that_the_session_sees_and_nothing_else() {
        let here = Some("file:///x");
        let all = [
            E::Session { enabled: true },
            workspace(false),
            E::Global { enabled: true },
        ];
        let mut wide = Decision::default();
        decided(&mut wide, &all, Some(Path::new("/x")));
        assert_eq!(said(&wide, here), all[1..]);
        assert_eq!(said(&wide, Some("file:///y")), all[2..]);
        decided(&mut wide, &[], Some(Path::new("/y")));
        assert_eq!(said(&wide, here), [workspace(false)]);
        decided(&mut wide, &[], Some(Path::new("/x")));
        assert_eq!(wide, Decision::default());
    }

    #[test]
    fn decisions_are_published_in_their_order_and_for_where_the_session_works() {
        let unsorted = vec![E::Global { enabled: true }, E::Session { enabled: false }];
        let sorted = vec![E::Session { enabled: false }, E::Global { enabled: true }];
        assert_eq!(given(unsorted, None).unwrap(), sorted);
        let slash = E::Workspace {
            uri: "file:///x/".into(),
            enabled: true,
        };
        assert_eq!(given(vec![slash], Some("file:///x")).unwrap(), [workspace(true)]);
        for odd in [
            vec![E::Global { enabled: true }, E::Global { enabled: false }],
            vec![workspace(true)],
            vec![E::Unknown(serde_json::json!({"kind": "x"}))],
        ] {
            assert!(given(odd.clone(), Some("file:///y")).is_err(), "{odd:?}");
        }
    }
}
