//! Retention rules by age, number and size, and the sessions to which they apply.

use std::{collections::HashMap, path::Path, time::Duration};

use jiff::Timestamp;
use lodge_log::{ListFilter, SessionSummary};

use crate::{Host, HostError};

/// Retention rules. Without any, everything is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Sessions without activity for longer are deleted.
    pub max_age: Option<Duration>,
    /// How many sessions are kept.
    pub max_sessions: Option<usize>,
    /// How many bytes they may take together.
    pub max_bytes: Option<u64>,
}

/// The rule that applies to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// It had no activity for too long.
    Age,
    /// There are enough newer sessions.
    Number,
    /// Newer sessions need the space.
    Size,
}

/// A session to which a rule applies.
#[derive(Debug, Clone)]
pub struct Expired {
    /// The session.
    pub session: SessionSummary,
    /// Everything in it, in bytes.
    pub bytes: u64,
    /// Why.
    pub why: Expiry,
}

struct Stored {
    age: Duration,
    bytes: u64,
    in_use: bool,
}

impl Retention {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The rules that apply to these sessions, newest first. Sessions in use are kept, and count.
    fn apply(&self, sessions: &[Stored]) -> Vec<Option<Expiry>> {
        let (mut kept, mut bytes) = (0usize, 0u64);
        let decide = |session: &Stored| {
            let verdict = if session.in_use {
                None
            } else if self.max_age.is_some_and(|most| session.age > most) {
                Some(Expiry::Age)
            } else if self.max_sessions.is_some_and(|most| kept >= most) {
                Some(Expiry::Number)
            } else if self
                .max_bytes
                .is_some_and(|most| bytes.saturating_add(session.bytes) > most)
            {
                Some(Expiry::Size)
            } else {
                None
            };
            if verdict.is_none() {
                kept += 1;
                bytes = bytes.saturating_add(session.bytes);
            }
            verdict
        };
        sessions.iter().map(decide).collect()
    }
}

impl Host {
    /// The sessions that rules may have this host delete, newest first. Those that another host used last are that host's.
    pub async fn prunable(&self) -> Result<Vec<SessionSummary>, HostError> {
        let kept = match self.keeper() {
            Some(keeper) => keeper.kept().await?,
            None => HashMap::new(),
        };
        let all = ListFilter {
            include_empty: true,
            ..ListFilter::default()
        };
        let mut sessions = self.look_up(move |catalogue| catalogue.list(&all)).await?.sessions;
        sessions.retain_mut(|session| {
            let Some(kept) = kept.get(&session.id) else { return true };
            // This host may not have heard of everything yet.
            session.modified = session.modified.max(kept.modified);
            kept.ours
        });
        sessions.sort_by_key(|session| std::cmp::Reverse(session.modified));
        Ok(sessions)
    }

    /// Deletes a session of [`Host::prunable`], unless somebody uses it or used it since. Answers whether it did.
    pub async fn prune(&self, session: &SessionSummary) -> Result<bool, HostError> {
        let id = &session.id;
        if self.in_use(id) {
            return Ok(false);
        }
        if let Some(keeper) = self.keeper()
            && let Some(kept) = keeper.kept_of(id).await?
            && (!kept.ours || kept.modified > session.modified)
        {
            return Ok(false);
        }
        let now = self.find(id).await?;
        if now.is_some_and(|now| now.modified > session.modified) {
            return Ok(false);
        }
        match self.delete(id).await {
            Ok(()) => Ok(true),
            // Somebody else was faster.
            Err(HostError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The sessions to which rules apply now. Scans the directories of all sessions.
    pub async fn expired(&self, rules: Retention) -> Result<Vec<Expired>, HostError> {
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let (host, sessions) = (self.clone(), self.prunable().await?);
        let looking = tokio::task::spawn_blocking(move || host.expired_of(rules, sessions));
        looking
            .await
            .map_err(|_| HostError::Invalid("The sizes of sessions could not be looked up.".into()))
    }

    fn expired_of(&self, rules: Retention, sessions: Vec<SessionSummary>) -> Vec<Expired> {
        let now = Timestamp::now();
        let stored: Vec<Stored> = sessions
            .iter()
            .map(|session| Stored {
                age: Duration::try_from(now.duration_since(session.modified)).unwrap_or_default(),
                bytes: size_of_directory(&session.dir),
                in_use: self.in_use(&session.id),
            })
            .collect();
        let verdicts = rules.apply(&stored);
        let expired = sessions.into_iter().zip(&stored).zip(verdicts);
        let expired = expired.filter_map(|((session, stored), why)| {
            Some(Expired {
                session,
                bytes: stored.bytes,
                why: why?,
            })
        });
        expired.collect()
    }
}

fn size_of_directory(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of_directory(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn stored(days: u32, bytes: u64, in_use: bool) -> Stored {
        Stored {
            age: DAY * days,
            bytes,
            in_use,
        }
    }

    #[test]
    fn rules_reach_the_oldest_and_never_what_is_in_use() {
        let sessions = [
            stored(0, 10, false),
            stored(5, 10, true),
            stored(6, 10, false),
            stored(40, 10, true),
            stored(50, 10, false),
        ];
        let (age, number, size) = (Some(Expiry::Age), Some(Expiry::Number), Some(Expiry::Size));
        let none = Retention::default();
        for (rules, expected) in [
            (none, [None; 5]),
            (
                Retention {
                    max_age: Some(DAY * 30),
                    ..none
                },
                [None, None, None, None, age],
            ),
            (
                Retention {
                    max_age: Some(DAY * 5),
                    ..none
                },
                [None, None, age, None, age],
            ),
            (
                Retention {
                    max_sessions: Some(2),
                    ..none
                },
                [None, None, number, None, number],
            ),
            (
                Retention {
                    max_sessions: Some(0),
                    ..none
                },
                [number, None, number, None, number],
            ),
            (
                Retention {
                    max_bytes: Some(35),
                    ..none
                },
                [None, None, None, None, size],
            ),
            (
                Retention {
                    max_bytes: Some(5),
                    ..none
                },
                [size, None, size, None, size],
            ),
        ] {
            assert_eq!(rules.apply(&sessions), expected, "{rules:?}");
        }
    }
}
