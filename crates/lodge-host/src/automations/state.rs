//! One automation: its definition, its due times and its runs. This module decides everything about it from the stored state
//! and the time; it never waits, writes or notifies.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{AutomationError, Definition, Misfire, Schedule};

/// Number of ended runs that are kept.
pub const RUN_HISTORY: usize = 50;
/// Number of request ids that are remembered.
const REQUESTS: usize = 1000;
/// Limit of active runs that people started.
const ACTIVE: usize = 16;
/// A run is missed if it could not start within its minute.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// One automation, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Automation {
    /// The id that its creator chose.
    pub id: String,
    /// What it does, and when.
    pub definition: Definition,
    /// When it was made.
    pub created: Timestamp,
    /// When its definition last changed.
    pub modified: Timestamp,
    /// How many scheduled runs count for its stop rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_count: Option<i64>,
    /// The next due time of each schedule, by id. It is in the past while the run waits.
    #[serde(default)]
    pub(super) due: BTreeMap<String, Timestamp>,
    /// Newest first.
    #[serde(default)]
    pub runs: Vec<Run>,
    /// Request ids and their runs, oldest first.
    #[serde(default)]
    pub(super) requests: Vec<Asked>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) run: String,
}

/// One run of an automation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Why it was made.
    pub cause: RunCause,
    /// When it was made.
    pub created: Timestamp,
    /// When its session got the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// How and when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunEnd>,
    /// Its session, until that is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<RunSession>,
}

/// The session of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSession {
    /// The host's id of it.
    pub id: String,
    /// The session's address for the clients that created the automation.
    pub address: String,
}

/// The cause of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunCause {
    /// A request.
    Asked,
    /// A schedule was due.
    Schedule {
        /// The schedule.
        id: String,
        /// The time that it was due.
        due: Timestamp,
        /// Whether that time was missed.
        #[serde(default, rename = "caughtUp")]
        caught_up: bool,
    },
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// When.
    pub time: Timestamp,
    /// How.
    pub outcome: RunOutcome,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunOutcome {
    /// The agent finished the turn.
    Completed(RunUsage),
    /// It was cancelled.
    Cancelled,
    /// It could not start, or failed.
    Failed {
        /// The kind of failure.
        kind: String,
        /// What failed, for people.
        message: String,
    },
}

impl RunOutcome {
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            kind: "automationExecution".to_owned(),
            message: message.into(),
        }
    }

    pub(super) fn interrupted() -> Self {
        Self::Failed {
            kind: "interrupted".to_owned(),
            message: "The host stopped during this run.".to_owned(),
        }
    }
}

/// Usage of a run's model calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunUsage {
    /// The model that was called last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the prompt cache.
    pub cache_read: u64,
}

impl Run {
    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether it has not started yet.
    pub fn is_pending(&self) -> bool {
        self.ended.is_none() && self.started.is_none()
    }
}

impl Automation {
    pub(super) fn new(id: String, definition: Definition, now: Timestamp) -> Self {
        let mut automation = Self {
            id,
            definition,
            created: now,
            modified: now,
            run_count: None,
            due: BTreeMap::new(),
            runs: Vec::new(),
            requests: Vec::new(),
        };
        automation.arrange(None, now);
        automation
    }

    /// Restores one from another build's record.
    pub(crate) fn restored(
        id: String,
        definition: Definition,
        (created, modified): (Timestamp, Timestamp),
        run_count: Option<i64>,
        due: BTreeMap<String, Timestamp>,
        runs: Vec<Run>,
        requests: impl Iterator<Item = (String, String)>,
    ) -> Self {
        Self {
            id,
            definition,
            created,
            modified,
            run_count,
            due,
            runs,
            requests: requests.map(|(id, run)| Asked { id, run }).collect(),
        }
    }

    /// The automation with another definition, which was already checked: how long rearranging takes depends on its
    /// schedules.
    pub(super) fn redefined(&self, definition: Definition, now: Timestamp) -> Self {
        let mut automation = self.clone();
        automation.definition = definition;
        automation.modified = now;
        automation.arrange(Some(&self.definition), now);
        automation
    }

    /// Restarts counts and schedules whose definition changed.
    fn arrange(&mut self, before: Option<&Definition>, now: Timestamp) {
        let definition = &self.definition;
        let was_on = before.is_some_and(|before| before.enabled);
        let had_limit = before.is_some_and(|before| before.most_runs().is_some());
        let goes_on = had_limit && (was_on || !definition.enabled);
        let count = self.run_count.filter(|_| goes_on).unwrap_or(0);
        self.run_count = definition.most_runs().map(|_| count);
        let known = |schedule: &Schedule| {
            let mut same = before
                .into_iter()
                .filter(|_| was_on)
                .flat_map(|before| &before.schedules);
            same.any(|other| {
                (&other.id, &other.cron, &other.time_zone) == (&schedule.id, &schedule.cron, &schedule.time_zone)
            })
        };
        let each = definition.schedules.iter().filter_map(|schedule| {
            let kept = self.due.get(&schedule.id).filter(|_| known(schedule)).copied();
            Some((schedule.id.clone(), kept.or_else(|| schedule.next(now))?))
        });
        self.due = each.filter(|_| definition.enabled).collect();
        self.disable_if_met(now);
    }

    /// Turns schedules off when a stop rule is met.
    fn disable_if_met(&mut self, now: Timestamp) {
        let is_late = self.definition.last_moment().is_some_and(|last| last <= now);
        let is_used = self.definition.most_runs();
        let is_used = is_used.is_some_and(|most| self.run_count.unwrap_or(0) >= most);
        if self.definition.enabled && (is_late || is_used) {
            self.definition.enabled = false;
            self.modified = now;
            self.due.clear();
        }
    }

    /// Handles everything that is due. Returns the run to start, if there is one. Schedules that are due during another
    /// run wait for its end, and several due schedules become one run.
    pub(super) fn tick(&mut self, now: Timestamp) -> Option<String> {
        self.disable_if_met(now);
        if self.is_active() {
            return None;
        }
        let mut begun = None;
        for schedule in self.definition.schedules.clone() {
            let Some(due) = self.due.get(&schedule.id).copied().filter(|due| *due <= now) else {
                continue;
            };
            let missed = now.duration_since(due) >= MINUTE;
            let skipped = missed && schedule.misfire == Some(Misfire::Skip);
            if !skipped && begun.is_none() {
                let cause = RunCause::Schedule {
                    id: schedule.id.clone(),
                    due,
                    caught_up: missed,
                };
                begun = Some(self.add(cause, now));
            }
            // After both times, so that setting the clock back repeats nothing.
            match schedule.next(now.max(due)) {
                Some(next) => self.due.insert(schedule.id, next),
                None => self.due.remove(&schedule.id),
            };
        }
        if let Some(count) = self.run_count.as_mut().filter(|_| begun.is_some()) {
            *count += 1;
            self.disable_if_met(now);
        }
        begun
    }

    /// The next time at which there is something to do.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        let due = self.due.values().min().filter(|_| !self.is_active());
        let times = [due.copied(), self.definition.last_moment()].into_iter().flatten();
        times.filter(|_| self.definition.enabled).min()
    }

    /// The next scheduled run.
    pub fn next_run(&self) -> Option<Timestamp> {
        let last = self.definition.last_moment();
        let next = self.due.values().min().copied();
        next.filter(|next| last.is_none_or(|last| *next < last))
    }

    /// The run of a request id.
    pub(super) fn asked(&self, request: &str) -> Option<String> {
        let found = self.requests.iter().find(|asked| asked.id == request);
        found.map(|asked| asked.run.clone())
    }

    /// Adds a requested run.
    pub(super) fn ask(&mut self, request: String, now: Timestamp) -> Result<String, AutomationError> {
        if self.runs.iter().filter(|run| !run.is_over()).count() >= ACTIVE {
            return Err(AutomationError::TooMany(ACTIVE));
        }
        let run = self.add(RunCause::Asked, now);
        if self.requests.len() >= REQUESTS {
            self.requests.remove(0);
        }
        self.requests.push(Asked {
            id: request,
            run: run.clone(),
        });
        Ok(run)
    }

    fn add(&mut self, cause: RunCause, now: Timestamp) -> String {
        let id = uuid::Uuid::new_v4().to_string();
        let run = Run {
            id: id.clone(),
            cause,
            created: now,
            started: None,
            ended: None,
            session: None,
        };
        self.runs.insert(0, run);
        id
    }

    /// One of its runs.
    pub fn run(&self, run: &str) -> Option<&Run> {
        self.runs.iter().find(|known| known.id == run)
    }

    pub(super) fn run_mut(&mut self, run: &str) -> Option<&mut Run> {
        self.runs.iter_mut().find(|known| known.id == run)
    }

    /// Starts a waiting run, in a session. False if it is not waiting.
    pub(super) fn begin(&mut self, run: &str, session: RunSession, now: Timestamp) -> bool {
        let Some(run) = self.run_mut(run).filter(|run| run.is_pending()) else {
            return false;
        };
        run.started = Some(now);
        run.session = Some(session);
        true
    }

    /// Ends a run. False if it has already ended. Old runs are removed.
    pub(super) fn end(&mut self, run: &str, outcome: RunOutcome, now: Timestamp) -> bool {
        let Some(run) = self.run_mut(run).filter(|run| !run.is_over()) else {
            return false;
        };
        run.ended = Some(RunEnd { time: now, outcome });
        let mut over = 0;
        self.runs.retain(|run| {
            over += usize::from(run.is_over());
            !run.is_over() || over <= RUN_HISTORY
        });
        true
    }

    /// Ends the runs of a host that is gone. Returns whether there were any. Runs that have not started yet can still
    /// start.
    pub(super) fn interrupt(&mut self, now: Timestamp, is_kept: impl Fn(&str) -> bool) -> bool {
        let begun = self.runs.iter().filter(|run| !run.is_pending() && !run.is_over());
        let begun: Vec<String> = begun.map(|run| run.id.clone()).collect();
        for run in &begun {
            self.end(run, RunOutcome::interrupted(), now);
            // The host may have stopped before the session was created.
            if let Some(run) = self.run_mut(run) {
                run.session.take_if(|session| !is_kept(&session.id));
            }
        }
        !begun.is_empty()
    }

    /// Whether a run is active.
    pub fn is_active(&self) -> bool {
        self.runs.iter().any(|run| !run.is_over())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::automations::{MessageTemplate, StopRule};

    fn scheduled(misfire: Misfire, most: i64) -> Automation {
        let schedule = |id: &str, cron: &str| Schedule {
            id: id.into(),
            cron: cron.into(),
            time_zone: "America/New_York".into(),
            misfire: Some(misfire),
        };
        let definition = Definition {
            title: "t".into(),
            message: MessageTemplate {
                text: "x".into(),
                ..MessageTemplate::default()
            },
            enabled: true,
            schedules: vec![schedule("often", "*/7 * * * *"), schedule("hourly", "0 * * * *")],
            stop: vec![StopRule::AfterRuns(most)],
            ..Definition::default()
        };
        definition.check().unwrap();
        // Clocks go back on this day.
        Automation::new("x".into(), definition, "2026-11-01T04:30:10Z".parse().unwrap())
    }

    #[test]
    fn runs_that_a_host_left_behind_have_failed_and_those_that_had_not_begun_can_begin() {
        let now = Timestamp::UNIX_EPOCH;
        let mut automation = scheduled(Misfire::Skip, 9);
        let [waits, runs, removed, lost] =
            ["waits", "runs", "removed", "lost"].map(|key| automation.ask(key.into(), now).unwrap());
        let session = |id: &str| RunSession {
            id: id.to_owned(),
            address: format!("lodge:/{id}"),
        };
        for (run, id) in [(&runs, "kept"), (&removed, "kept"), (&lost, "never made")] {
            assert!(automation.begin(run, session(id), now));
        }
        // Somebody removed its session, and then the host was killed.
        automation.run_mut(&removed).unwrap().session = None;
        assert!(automation.interrupt(now, |id| id == "kept"));
        assert!(automation.run(&waits).unwrap().is_pending());
        for (run, expected) in [(&runs, Some("kept")), (&removed, None), (&lost, None)] {
            let run = automation.run(run).unwrap();
            assert_eq!(
                run.ended.as_ref().map(|end| &end.outcome),
                Some(&RunOutcome::interrupted())
            );
            assert_eq!(run.session.as_ref().map(|session| session.id.as_str()), expected);
        }
        assert!(!automation.interrupt(now, |_| true), "only once");
    }

    /// What happens to a host.
    #[derive(Debug, Clone)]
    enum Step {
        /// The clock is otherwise by so many seconds.
        Clock(i64),
        /// The run that goes on is over.
        End,
        /// The host ends, and another reads what it kept.
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..600i64).prop_map(Step::Clock),
            1 => (-4000..9000i64).prop_map(Step::Clock),
            3 => Just(Step::End),
            1 => Just(Step::Restart),
        ]
    }

    proptest! {
        #[test]
        fn no_time_is_run_twice_and_none_beyond_what_is_allowed(
            steps in prop::collection::vec(step(), 1..120),
            skip in any::<bool>(),
            most in 1..30i64,
        ) {
            let mut automation = scheduled(if skip { Misfire::Skip } else { Misfire::CatchUp }, most);
            let mut now = automation.created;
            let (mut seen, mut running) = (HashSet::new(), None::<String>);
            for step in steps {
                match step {
                    Step::Clock(seconds) => now += SignedDuration::from_secs(seconds),
                    Step::End => {
                        if let Some(run) = running.take() {
                            prop_assert!(automation.end(&run, RunOutcome::Completed(RunUsage::default()), now));
                            prop_assert!(!automation.end(&run, RunOutcome::Cancelled, now));
                        }
                    }
                    Step::Restart => {
                        let kept = serde_json::to_vec(&automation).unwrap();
                        automation = serde_json::from_slice(&kept).unwrap();
                    }
                }
                let is_due = automation.wake().is_some_and(|wake| wake <= now);
                let before = automation.clone();
                let begun = automation.tick(now);
                prop_assert!(is_due || (begun.is_none() && automation == before), "nothing is due");
                if let Some(run) = begun {
                    prop_assert!(running.is_none(), "one at a time");
                    let RunCause::Schedule { id, due, caught_up } = automation.run(&run).unwrap().cause.clone() else {
                        panic!("a schedule began it");
                    };
                    let late = now.duration_since(due);
                    prop_assert!(!late.is_negative());
                    prop_assert_eq!(caught_up, late >= MINUTE);
                    prop_assert!(!skip || late < MINUTE);
                    prop_assert!(seen.insert((id, due)), "a time came twice");
                    running = Some(run);
                }
                // What is left to wait for is to come, unless a run goes on.
                prop_assert!(automation.is_active() || automation.wake().is_none_or(|wake| wake > now));
                let count = automation.run_count.unwrap();
                prop_assert_eq!(usize::try_from(count).unwrap(), seen.len());
                prop_assert_eq!(automation.definition.enabled, count < most);
                prop_assert!(automation.runs.len() <= RUN_HISTORY + 1);
            }
        }
    }
}
