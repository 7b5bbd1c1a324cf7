//! What persons decided: what is on and off, and for whom. A decision is for one session, for all that work in a directory, or for all
//! there are; the most special one counts. What is decided for one session is kept with it, the rest with the host.

use std::collections::BTreeMap;

use ahp_types::state::CustomizationEnablement;
use serde::{Deserialize, Serialize};

use crate::{
    actions::is_same,
    face::{Face, Inner},
    state::Uri,
    talk::Effect,
};

/// What was decided for one session: by the id of a thing, whether it is on.
pub(crate) type Own = BTreeMap<String, bool>;

/// What was decided about a thing for more than one session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Wide {
    #[serde(skip_serializing_if = "Option::is_none")]
    everywhere: Option<bool>,
    /// By the address of the directory that sessions work in.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    places: BTreeMap<String, bool>,
}

impl Wide {
    /// What it says to a session that works in a directory, the more special first.
    fn said(&self, place: Option<&str>) -> Vec<CustomizationEnablement> {
        let here = place.and_then(|place| {
            let enabled = *self.places.get(place)?;
            let uri = place.to_owned();
            Some(CustomizationEnablement::Workspace { uri, enabled })
        });
        let everywhere = self.everywhere;
        let everywhere = everywhere.map(|enabled| CustomizationEnablement::Global { enabled });
        here.into_iter().chain(everywhere).collect()
    }

    /// What it is after a session in that directory decided all anew.
    fn decided(mut self, said: &[CustomizationEnablement], place: Option<&str>) -> Self {
        self.everywhere = None;
        if let Some(place) = place {
            self.places.remove(place);
        }
        for said in said {
            match said {
                CustomizationEnablement::Global { enabled } => self.everywhere = Some(*enabled),
                CustomizationEnablement::Workspace { uri, enabled } => drop(self.places.insert(uri.clone(), *enabled)),
                _ => {}
            }
        }
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
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
    pub(crate) fn of(own: &Own, place: Option<&str>, wide: &BTreeMap<String, Wide>) -> Self {
        let mut said: BTreeMap<String, Vec<CustomizationEnablement>> = BTreeMap::new();
        for (id, enabled) in own {
            said.insert(id.clone(), vec![CustomizationEnablement::Session { enabled: *enabled }]);
        }
        for (id, wide) in wide {
            let more = wide.said(place);
            if !more.is_empty() {
                said.entry(id.clone()).or_default().extend(more);
            }
        }
        let on = |(id, said): (&String, &Vec<_>)| Some((id.clone(), decision(said)?));
        Self {
            on: said.iter().filter_map(on).collect(),
            said,
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

    /// What persons decided about a session.
    pub(crate) fn decisions_of(&self, inner: &Inner, session: &str) -> Decisions {
        let Some(entry) = inner.core.sessions.get(session) else {
            return Decisions::default();
        };
        let place = entry.state.working_directories.as_ref().and_then(|all| all.first());
        Decisions::of(&entry.decisions, place.map(String::as_str), &self.store.decided())
    }

    /// Somebody at a session decided about a thing: who does not work as it says is told.
    pub(crate) fn toggled(&self, inner: &mut Inner, session: &Uri, id: &str, said: &[CustomizationEnablement]) {
        let Some(entry) = inner.core.sessions.get_mut(session) else {
            return;
        };
        let own = said.iter().find_map(|said| match said {
            CustomizationEnablement::Session { enabled } => Some(*enabled),
            _ => None,
        });
        match own {
            Some(on) => entry.decisions.insert(id.to_owned(), on),
            None => entry.decisions.remove(id),
        };
        let place = entry.state.working_directories.as_ref().and_then(|all| all.first());
        let place = place.map(String::as_str);
        let is_wide = self.store.decide(id, |wide| wide.decided(said, place));
        let concerns = |other: &Uri| is_wide || other == session;
        for (uri, entry) in &mut inner.core.sessions {
            if concerns(uri) {
                entry.undone += 1;
            }
        }
        // Every chat of a session has an agent of its own.
        for talk in inner.talks.values().filter(|talk| concerns(&talk.session)) {
            talk.tell(Effect::Decided);
        }
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
        let wide = Wide::default().decided(&all, here);
        assert_eq!(wide.said(here), all[1..]);
        assert_eq!(wide.said(Some("file:///y")), all[2..]);
        let elsewhere = wide.decided(&[], Some("file:///y"));
        assert_eq!(elsewhere.said(here), [workspace(false)]);
        assert!(elsewhere.decided(&[], here).is_empty());
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
