//! Skills, agents, MCP servers and instructions that people turned on or off for more than one session: for all sessions in a
//! directory, or for all sessions. Decisions for a single session are in its log.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use lodge_agent::AGENT_KEY;
use lodge_agent::SKILL_KEY;
pub use lodge_agent::skill_key;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    RegisterError,
    registers::{FileRegisters, Register, Registers},
};

/// About so many things people can decide.
const MOST: usize = 4096;
/// What the names of MCP servers begin with here.
const SERVER: &str = "mcp:";

/// What decisions call an MCP server.
pub fn server_key(name: &str) -> String {
    format!("{SERVER}{name}")
}

/// The skill that decisions call so.
pub(crate) fn skill_of(key: &str) -> Option<&str> {
    key.strip_prefix(SKILL_KEY)
}

/// What decisions call an agent that no file defines.
pub(crate) fn agent_key(name: &str) -> String {
    format!("{AGENT_KEY}{name}")
}

/// The agent without a file that decisions call so.
pub(crate) fn agent_of(key: &str) -> Option<&str> {
    key.strip_prefix(AGENT_KEY)
}

/// The MCP server that decisions call so.
pub fn server_of(key: &str) -> Option<&str> {
    key.strip_prefix(SERVER)
}

/// What was decided about a thing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// For all sessions: whether it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub everywhere: Option<bool>,
    /// For the sessions that work in a directory, which counts more.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, bool>,
}

impl Decision {
    /// What it says to a session that works in a directory.
    pub fn at(&self, place: &Path) -> Option<bool> {
        let here = self.places.get(&*place.to_string_lossy());
        here.copied().or(self.everywhere)
    }

    /// Becomes what it is after a session in that directory decided all anew.
    pub fn replace(&mut self, decided: &[(DecidedFor, bool)], place: Option<&Path>) {
        let decided_for = |whom| decided.iter().find(|(known, _)| *known == whom).map(|(_, on)| *on);
        self.everywhere = decided_for(DecidedFor::Everywhere);
        if let Some(place) = place {
            let place = place.to_string_lossy().into_owned();
            match decided_for(DecidedFor::Directory) {
                Some(on) => self.places.insert(place, on),
                None => self.places.remove(&place),
            };
        }
    }
}

/// Whom a decision is for; the most specific one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecidedFor {
    /// One session.
    Session,
    /// The sessions that work in a directory.
    Directory,
    /// All sessions.
    Everywhere,
}

/// What was decided about the things of one session, the most specific decision about each first.
#[derive(Debug, Default)]
pub struct SessionDecisions(BTreeMap<String, Vec<(DecidedFor, bool)>>);

impl SessionDecisions {
    /// Of a session with decisions of its own that works in a directory.
    pub fn new(own: &BTreeMap<String, bool>, place: Option<&Path>, wide: &BTreeMap<String, Decision>) -> Self {
        let mut all: BTreeMap<String, Vec<(DecidedFor, bool)>> = BTreeMap::new();
        for (key, on) in own {
            all.entry(key.clone()).or_default().push((DecidedFor::Session, *on));
        }
        for (key, decision) in wide {
            let here = place.and_then(|place| decision.places.get(&*place.to_string_lossy()));
            let here = here.map(|on| (DecidedFor::Directory, *on));
            let everywhere = decision.everywhere.map(|on| (DecidedFor::Everywhere, on));
            let said: Vec<_> = here.into_iter().chain(everywhere).collect();
            if !said.is_empty() {
                all.entry(key.clone()).or_default().extend(said);
            }
        }
        Self(all)
    }

    /// Whether a thing is on, where anybody decided it.
    pub fn is_on(&self, key: &str) -> Option<bool> {
        self.about(key).first().map(|(_, on)| *on)
    }

    /// Everything that was decided about a thing.
    pub fn about(&self, key: &str) -> &[(DecidedFor, bool)] {
        self.0.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The things that somebody decided about.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

/// All decisions.
pub struct Decisions {
    register: Register<Decision>,
    /// One at a time may decide.
    deciding: Mutex<()>,
    changed: watch::Sender<u64>,
}

impl Decisions {
    pub(crate) fn new(registers: &Arc<dyn Registers>) -> Self {
        Self {
            register: Register::new(registers, "decision"),
            deciding: Mutex::default(),
            changed: watch::channel(0).0,
        }
    }

    /// All of them, by what they are about.
    pub fn all(&self) -> BTreeMap<String, Decision> {
        self.register.list().into_iter().collect()
    }

    /// Whether more can be decided about a thing.
    pub fn has_room(&self, key: &str) -> bool {
        self.register.get(key).is_some() || self.register.list().len() < MOST
    }

    /// Changes what was decided about a thing. Answers whether that is something else now; then it is kept.
    pub fn decide(&self, key: &str, change: impl FnOnce(&mut Decision)) -> Result<bool, RegisterError> {
        let mut changed = false;
        let change = |decision: &mut Decision| {
            let before = decision.clone();
            change(decision);
            changed = *decision != before;
        };
        self.decide_and(key, change, || Ok::<_, RegisterError>(()))?;
        Ok(changed)
    }

    /// Changes what was decided about a thing, together with what `then` writes: if that fails, the decision stays as it was.
    pub fn decide_and<T, E: From<RegisterError>>(
        &self,
        key: &str,
        change: impl FnOnce(&mut Decision),
        then: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let _one = self.deciding.lock();
        let before = self.register.get(key).unwrap_or_default();
        let mut now = before.clone();
        change(&mut now);
        if now == before {
            return then();
        }
        self.write(key, &now)?;
        let done = then();
        if done.is_err()
            && let Err(error) = self.write(key, &before)
        {
            tracing::error!(key, %error, "a decision that could not be recorded for its session stays for others");
        }
        self.changed.send_modify(|revision| *revision += 1);
        done
    }

    fn write(&self, key: &str, decision: &Decision) -> Result<(), RegisterError> {
        match *decision == Decision::default() {
            true => self.register.remove(key),
            false => self.register.set(key, decision),
        }
    }

    /// Tells when something was decided.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Names of skills that are off everywhere.
    pub fn disabled_skills(&self) -> BTreeSet<String> {
        off(self.register.list(), skill_of, |decision| decision.everywhere)
    }

    /// Names of skills that are off for sessions that work in a directory.
    pub(crate) fn disabled_skills_at(&self, place: &Path) -> BTreeSet<String> {
        off(self.register.list(), skill_of, |decision| decision.at(place))
    }

    /// Names of MCP servers that are off for sessions that work in a directory.
    pub(crate) fn disabled_servers_at(&self, place: &Path) -> BTreeSet<String> {
        off(self.register.list(), server_of, |decision| decision.at(place))
    }

    /// Says which skills are off everywhere.
    pub fn set_disabled_skills(&self, names: &BTreeSet<String>) -> Result<(), RegisterError> {
        for name in self.disabled_skills().difference(names) {
            self.decide(&skill_key(name), |decision| decision.everywhere = None)?;
        }
        for name in names {
            self.decide(&skill_key(name), |decision| decision.everywhere = Some(false))?;
        }
        Ok(())
    }
}

fn off(
    all: Vec<(String, Decision)>,
    name: impl Fn(&str) -> Option<&str>,
    says: impl Fn(&Decision) -> Option<bool>,
) -> BTreeSet<String> {
    let off = all.iter().filter(|(_, decision)| says(decision) == Some(false));
    off.filter_map(|(key, _)| name(key).map(str::to_owned)).collect()
}

/// Names of skills that are off in new sessions of a home that nobody may have open, or why that is not known.
pub fn disabled_skills(home: &Path) -> Result<BTreeSet<String>, String> {
    let registers = FileRegisters::open(home.join(crate::registers::FILE), true).map_err(|error| error.to_string())?;
    let registers: Arc<dyn Registers> = Arc::new(registers);
    let mut names = Decisions::new(&registers).disabled_skills();
    names.extend(crate::migrate::unmigrated_skills(home)?);
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decided_anew_replaces_all_that_the_session_sees_and_nothing_else() {
        use DecidedFor::{Directory, Everywhere, Session};
        let key = "file:/a".to_owned();
        let seen = |decision: &Decision, own: Option<bool>, place: &str| {
            let own = own.map(|on| (key.clone(), on)).into_iter().collect();
            let wide = BTreeMap::from([(key.clone(), decision.clone())]);
            SessionDecisions::new(&own, Some(Path::new(place)), &wide)
        };
        let mut wide = Decision::default();
        wide.replace(
            &[(Session, true), (Directory, false), (Everywhere, true)],
            Some(Path::new("/x")),
        );
        let here = seen(&wide, None, "/x");
        assert_eq!(here.about(&key), [(Directory, false), (Everywhere, true)]);
        assert_eq!((here.is_on(&key), here.is_on("file:/b")), (Some(false), None));
        assert_eq!(seen(&wide, None, "/y").about(&key), [(Everywhere, true)]);
        assert_eq!(seen(&wide, Some(true), "/x").is_on(&key), Some(true));
        wide.replace(&[], Some(Path::new("/y")));
        assert_eq!(seen(&wide, None, "/x").about(&key), [(Directory, false)]);
        wide.replace(&[], Some(Path::new("/x")));
        assert_eq!(wide, Decision::default());
    }

    #[test]
    fn a_decision_that_the_session_s_log_refuses_is_none_for_others_either() {
        let dir = tempfile::tempdir().unwrap();
        let file = FileRegisters::open(dir.path().join(crate::registers::FILE), false).unwrap();
        let registers: Arc<dyn Registers> = Arc::new(file);
        let decisions = Decisions::new(&registers);
        let off = |decision: &mut Decision| decision.everywhere = Some(false);
        let refused = || Err::<(), _>(RegisterError::Io(std::io::Error::other("no space")));
        for before in [None, Some(true)] {
            decisions
                .decide("skill:a", |decision| decision.everywhere = before)
                .unwrap();
            decisions.decide_and("skill:a", off, refused).unwrap_err();
            assert_eq!(decisions.all().get("skill:a").and_then(|a| a.everywhere), before);
        }
        let mut seen = None;
        let look = || {
            seen = decisions.all().get("skill:a").and_then(|a| a.everywhere);
            Ok::<_, RegisterError>(())
        };
        decisions.decide_and("skill:a", off, look).unwrap();
        assert_eq!(seen, Some(false), "it is kept before the log says the other half");
    }

    #[test]
    fn a_decision_for_a_directory_counts_more_than_one_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = FileRegisters::open(dir.path().join(crate::registers::FILE), false).unwrap();
        let registers: Arc<dyn Registers> = Arc::new(file);
        let decisions = Decisions::new(&registers);
        let mut told = decisions.changed();
        decisions
            .set_disabled_skills(&["a".to_owned(), "b".to_owned()].into())
            .unwrap();
        let here = |decision: &mut Decision| {
            decision.places.insert("/x".into(), true);
        };
        assert!(decisions.decide(&skill_key("a"), here).unwrap());
        assert!(!decisions.decide(&skill_key("a"), here).unwrap(), "nothing changed");
        assert!(told.has_changed().unwrap());
        told.mark_unchanged();
        let off = |place: &str| {
            decisions
                .disabled_skills_at(Path::new(place))
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (off("/x"), off("/y")),
            (vec!["b".to_owned()], vec!["a".to_owned(), "b".to_owned()])
        );
        decisions.set_disabled_skills(&BTreeSet::new()).unwrap();
        assert_eq!(off("/y"), Vec::<String>::new());
        assert_eq!(decisions.all().into_keys().collect::<Vec<_>>(), ["skill:a"]);
        assert_eq!(disabled_skills(dir.path()), Ok(BTreeSet::new()));
    }
}
