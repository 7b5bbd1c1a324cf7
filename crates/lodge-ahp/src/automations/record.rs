//! One automation: its definition, when its schedules are due, and its runs. All of it is decided here, from what is known and
//! the time that it is; nothing here waits, writes or tells.

use std::collections::BTreeMap;

use ahp_types::state::{
    AutomationCancelledRunLifecycle, AutomationCompletedRunLifecycle, AutomationDefinition, AutomationEntry,
    AutomationFailedRunLifecycle, AutomationMisfirePolicy, AutomationOperation, AutomationPendingRunLifecycle,
    AutomationRunLifecycle, AutomationRunOrigin, AutomationRunState, AutomationRunSummary,
    AutomationRunningRunLifecycle, AutomationScheduleTrigger, AutomationTriggeredRunOrigin, ErrorInfo, UsageInfo,
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    RUN,
    cron::{self, Cron},
    definition::{last_moment, most_runs, schedules},
};
use crate::projection::timestamp;

/// So many runs that are over are kept.
pub(crate) const HISTORY: usize = 50;
/// So many of them are shown at first, and more with every page.
const PAGE: usize = 20;
/// So many keys of runs that somebody asked for are remembered.
const REQUESTS: usize = 1000;
/// So many runs that people asked for go on at a time.
const ACTIVE: usize = 16;
/// What is due was missed when it could not begin within its minute.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// One automation, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) resource: String,
    pub(super) definition: AutomationDefinition,
    pub(super) created_at: String,
    modified_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_count: Option<i64>,
    /// When each of its schedules is due next, by the id of the trigger. Past, while it waits for something.
    #[serde(default)]
    due: BTreeMap<String, Timestamp>,
    /// Newest first.
    #[serde(default)]
    pub(super) runs: Vec<AutomationRunState>,
    /// Which run somebody's key stands for, oldest first.
    #[serde(default)]
    requests: Vec<Asked>,
    /// How many runs that are over clients see.
    #[serde(skip, default = "page")]
    shown: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Asked {
    id: String,
    run: String,
}

fn page() -> usize {
    PAGE
}

/// How a run ends.
pub(super) enum End {
    Completed(Option<UsageInfo>),
    Cancelled,
    Failed(ErrorInfo),
}

impl End {
    /// With an error of this kind.
    pub(super) fn failed(kind: &str, message: impl Into<String>) -> Self {
        Self::Failed(ErrorInfo {
            error_type: kind.to_owned(),
            message: message.into(),
            stack: None,
            meta: None,
        })
    }
}

impl Record {
    pub(super) fn new(resource: String, definition: AutomationDefinition, now: Timestamp) -> Self {
        let at = timestamp(now);
        let mut record = Self {
            resource,
            definition,
            created_at: at.clone(),
            modified_at: at,
            run_count: None,
            due: BTreeMap::new(),
            runs: Vec::new(),
            requests: Vec::new(),
            shown: PAGE,
        };
        record.arrange(None, now);
        record
    }

    /// With another definition, which was checked: how long it takes to arrange one depends on its schedules.
    pub(super) fn redefined(&self, definition: AutomationDefinition, now: Timestamp) -> Self {
        let mut record = self.clone();
        record.definition = definition;
        record.modified_at = timestamp(now);
        record.arrange(Some(&self.definition), now);
        record
    }

    /// Counts and schedules begin anew where the definition says something else than before.
    fn arrange(&mut self, before: Option<&AutomationDefinition>, now: Timestamp) {
        let definition = &self.definition;
        let was_on = before.is_some_and(|before| before.enabled);
        let had_limit = before.is_some_and(|before| most_runs(before).is_some());
        let goes_on = had_limit && (was_on || !definition.enabled);
        let count = self.run_count.filter(|_| goes_on).unwrap_or(0);
        self.run_count = most_runs(definition).map(|_| count);
        let known = |trigger: &AutomationScheduleTrigger| {
            let mut same = before.into_iter().filter(|_| was_on).flat_map(schedules);
            same.any(|other| other.id == trigger.id && other.schedule == trigger.schedule)
        };
        let each = schedules(definition).filter_map(|trigger| {
            let kept = self.due.get(&trigger.id).filter(|_| known(trigger)).copied();
            Some((trigger.id.clone(), kept.or_else(|| next(trigger, now))?))
        });
        self.due = each.filter(|_| definition.enabled).collect();
        self.disable_if_met(now);
    }

    /// Schedules end where a condition for that is met.
    fn disable_if_met(&mut self, now: Timestamp) {
        let is_late = last_moment(&self.definition).is_some_and(|last| last <= now);
        let is_used = most_runs(&self.definition).is_some_and(|most| self.run_count.unwrap_or(0) >= most);
        if self.definition.enabled && (is_late || is_used) {
            self.definition.enabled = false;
            self.modified_at = timestamp(now);
            self.due.clear();
        }
    }

    /// Does what the time has come for. The run that begins, if one does. What is due while another run goes on waits for
    /// its end, and what several schedules want at once is one run.
    pub(super) fn tick(&mut self, now: Timestamp) -> Option<String> {
        self.disable_if_met(now);
        if self.is_active() {
            return None;
        }
        let mut begun = None;
        for trigger in schedules(&self.definition.clone()) {
            let Some(at) = self.due.get(&trigger.id).copied().filter(|at| *at <= now) else {
                continue;
            };
            let missed = now.duration_since(at) >= MINUTE;
            let skipped = missed && trigger.misfire_policy == Some(AutomationMisfirePolicy::Skip);
            if !skipped && begun.is_none() {
                let origin = AutomationTriggeredRunOrigin {
                    trigger_id: trigger.id.clone(),
                    scheduled_for: Some(timestamp(at)),
                    catch_up: missed.then_some(true),
                    event: None,
                };
                begun = Some(self.add(AutomationRunOrigin::Trigger(origin), now));
            }
            // After both: a clock that was set back brings nothing a second time.
            match next(trigger, now.max(at)) {
                Some(next) => self.due.insert(trigger.id.clone(), next),
                None => self.due.remove(&trigger.id),
            };
        }
        if let Some(count) = self.run_count.as_mut().filter(|_| begun.is_some()) {
            *count += 1;
            self.disable_if_met(now);
        }
        begun
    }

    /// When there is something to do next.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        let due = self.due.values().min().filter(|_| !self.is_active());
        let last = last_moment(&self.definition);
        let times = [due.copied(), last].into_iter().flatten();
        times.filter(|_| self.definition.enabled).min()
    }

    /// The run that somebody's key stands for.
    pub(super) fn asked(&self, request: &str) -> Option<String> {
        let found = self.requests.iter().find(|asked| asked.id == request);
        found.map(|asked| asked.run.clone())
    }

    /// A run that somebody asked for. `Err`: too many go on.
    pub(super) fn ask(
        &mut self,
        request: String,
        origin: AutomationRunOrigin,
        now: Timestamp,
    ) -> Result<String, String> {
        if self.runs.iter().filter(|run| !is_over(&run.lifecycle)).count() >= ACTIVE {
            return Err(format!("{ACTIVE} runs of this automation are going on already"));
        }
        let run = self.add(origin, now);
        if self.requests.len() >= REQUESTS {
            self.requests.remove(0);
        }
        self.requests.push(Asked {
            id: request,
            run: run.clone(),
        });
        Ok(run)
    }

    fn add(&mut self, origin: AutomationRunOrigin, now: Timestamp) -> String {
        let resource = format!("{RUN}{}", uuid::Uuid::new_v4());
        let lifecycle = AutomationPendingRunLifecycle {
            created_at: timestamp(now),
        };
        let run = AutomationRunState {
            resource: resource.clone(),
            automation: self.resource.clone(),
            origin,
            lifecycle: AutomationRunLifecycle::Pending(lifecycle),
            sessions: Vec::new(),
            primary_session: None,
            meta: None,
        };
        self.runs.insert(0, run);
        resource
    }

    pub(super) fn run(&self, run: &str) -> Option<&AutomationRunState> {
        self.runs.iter().find(|known| known.resource == run)
    }

    pub(super) fn run_mut(&mut self, run: &str) -> Option<&mut AutomationRunState> {
        self.runs.iter_mut().find(|known| known.resource == run)
    }

    /// A run that waits begins, in a session. False: it does not wait.
    pub(super) fn begin(&mut self, run: &str, session: &str, now: Timestamp) -> bool {
        let Some(run) = self.run_mut(run) else { return false };
        let AutomationRunLifecycle::Pending(pending) = &run.lifecycle else {
            return false;
        };
        run.lifecycle = AutomationRunLifecycle::Running(AutomationRunningRunLifecycle {
            created_at: pending.created_at.clone(),
            started_at: timestamp(now),
        });
        run.sessions.push(session.to_owned());
        run.primary_session = Some(session.to_owned());
        true
    }

    /// A run ends. False: it has ended already. Runs that are long over are forgotten.
    pub(super) fn end(&mut self, run: &str, end: End, now: Timestamp) -> bool {
        let Some(run) = self.run_mut(run).filter(|run| !is_over(&run.lifecycle)) else {
            return false;
        };
        let completed_at = timestamp(now);
        let (created_at, started_at) = match &run.lifecycle {
            AutomationRunLifecycle::Running(running) => (running.created_at.clone(), Some(running.started_at.clone())),
            AutomationRunLifecycle::Pending(pending) => (pending.created_at.clone(), None),
            // It is not over.
            _ => return false,
        };
        run.lifecycle = match end {
            End::Completed(usage) => AutomationRunLifecycle::Completed(AutomationCompletedRunLifecycle {
                started_at: started_at.unwrap_or_else(|| completed_at.clone()),
                created_at,
                completed_at,
                usage,
            }),
            End::Cancelled => AutomationRunLifecycle::Cancelled(AutomationCancelledRunLifecycle {
                created_at,
                started_at,
                completed_at,
            }),
            End::Failed(error) => AutomationRunLifecycle::Failed(AutomationFailedRunLifecycle {
                created_at,
                started_at,
                completed_at,
                error,
            }),
        };
        let mut over = 0;
        self.runs.retain(|run| {
            over += usize::from(is_over(&run.lifecycle));
            !is_over(&run.lifecycle) || over <= HISTORY
        });
        true
    }

    /// Whether a run goes on.
    pub(super) fn is_active(&self) -> bool {
        self.runs.iter().any(|run| !is_over(&run.lifecycle))
    }

    /// Shows a page more of the runs that are over. False: what a cursor stands for is shown already, or there is no more.
    pub(super) fn show_more(&mut self, cursor: Option<&str>) -> Result<bool, String> {
        let over: Vec<&AutomationRunState> = self.runs.iter().filter(|run| is_over(&run.lifecycle)).collect();
        let shown = self.shown.min(over.len());
        if let Some(cursor) = cursor {
            let at = over.iter().position(|run| run.resource == cursor);
            let at = at.ok_or_else(|| format!("{cursor:?} is no cursor of this automation's runs"))?;
            if at + 1 < shown {
                return Ok(false);
            }
        }
        let more = shown < over.len();
        if more {
            self.shown = shown + PAGE;
        }
        Ok(more)
    }

    /// The automation as clients see it. `allowed` is whether automations may run at all.
    pub(super) fn entry(&self, allowed: bool) -> AutomationEntry {
        let mut over = 0;
        let mut last = None;
        let shown = self.runs.iter().filter(|run| {
            let is_over = is_over(&run.lifecycle);
            over += usize::from(is_over);
            let shown = !is_over || over <= self.shown;
            if is_over && shown {
                last = Some(run.resource.clone());
            }
            shown
        });
        let runs = shown.map(summary).collect();
        let last_moment = last_moment(&self.definition);
        let next = self.due.values().min();
        let next = next.filter(|next| last_moment.is_none_or(|last| **next < last));
        let operations = [
            Some(AutomationOperation::Update),
            (!self.is_active()).then_some(AutomationOperation::Remove),
            allowed.then_some(AutomationOperation::Run),
        ];
        AutomationEntry {
            resource: self.resource.clone(),
            definition: self.definition.clone(),
            next_run_at: next.copied().map(timestamp),
            run_count: self.run_count,
            runs,
            runs_next_cursor: last.filter(|_| over > self.shown),
            operations: operations.into_iter().flatten().collect(),
            customizations: None,
            created_at: self.created_at.clone(),
            modified_at: self.modified_at.clone(),
            meta: None,
        }
    }
}

fn next(trigger: &AutomationScheduleTrigger, after: Timestamp) -> Option<Timestamp> {
    let schedule = &trigger.schedule;
    let zone = cron::zone(&schedule.time_zone).ok()?;
    Cron::parse(&schedule.expression).ok()?.next(&zone, after)
}

fn summary(run: &AutomationRunState) -> AutomationRunSummary {
    AutomationRunSummary {
        resource: run.resource.clone(),
        automation: run.automation.clone(),
        origin: run.origin.clone(),
        lifecycle: run.lifecycle.clone(),
        primary_session: run.primary_session.clone(),
        session_count: run.sessions.len() as i64,
        meta: None,
    }
}

/// Whether a run has not begun.
pub(super) fn is_pending(lifecycle: &AutomationRunLifecycle) -> bool {
    matches!(lifecycle, AutomationRunLifecycle::Pending(_))
}

/// Whether a run has ended.
pub(super) fn is_over(lifecycle: &AutomationRunLifecycle) -> bool {
    !matches!(
        lifecycle,
        AutomationRunLifecycle::Pending(_) | AutomationRunLifecycle::Running(_)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn scheduled(misfire: &str, most: i64) -> Record {
        let trigger = |id: &str, expression: &str| {
            json!({
                "kind": "schedule", "id": id, "misfirePolicy": misfire,
                "schedule": { "expression": expression, "timeZone": "America/New_York" },
            })
        };
        let definition = json!({
            "title": "t", "message": { "text": "x", "origin": { "kind": "automation" } }, "session": {}, "enabled": true,
            "triggers": [trigger("often", "*/7 * * * *"), trigger("hourly", "0 * * * *")],
            "disableConditions": [{ "kind": "afterRuns", "max": most }],
        });
        // Clocks go back on this day.
        let now = "2026-11-01T04:30:10Z".parse().unwrap();
        Record::new(
            "ahp-automation:/x".into(),
            serde_json::from_value(definition).unwrap(),
            now,
        )
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
            let mut record = scheduled(if skip { "skip" } else { "runOnce" }, most);
            let mut now: Timestamp = record.created_at.parse().unwrap();
            let (mut seen, mut running) = (HashSet::new(), None::<String>);
            for step in steps {
                match step {
                    Step::Clock(seconds) => now += SignedDuration::from_secs(seconds),
                    Step::End => {
                        if let Some(run) = running.take() {
                            prop_assert!(record.end(&run, End::Completed(None), now));
                            prop_assert!(!record.end(&run, End::Cancelled, now));
                        }
                    }
                    Step::Restart => {
                        let kept = serde_json::to_vec(&record).unwrap();
                        record = serde_json::from_slice(&kept).unwrap();
                    }
                }
                let due = record.wake().is_some_and(|wake| wake <= now);
                let before = record.clone();
                let begun = record.tick(now);
                prop_assert!(due || (begun.is_none() && record == before), "nothing is due");
                if let Some(run) = begun {
                    prop_assert!(running.is_none(), "one at a time");
                    let AutomationRunOrigin::Trigger(origin) = record.run(&run).unwrap().origin.clone() else {
                        panic!("a schedule began it");
                    };
                    let at = origin.scheduled_for.clone().unwrap();
                    let late = now.duration_since(at.parse::<Timestamp>().unwrap());
                    prop_assert!(!late.is_negative());
                    prop_assert_eq!(origin.catch_up == Some(true), late >= MINUTE);
                    prop_assert!(!skip || late < MINUTE);
                    prop_assert!(seen.insert((origin.trigger_id, at)), "a time came twice");
                    running = Some(run);
                }
                // What is left to wait for is to come, unless a run goes on.
                prop_assert!(record.is_active() || record.wake().is_none_or(|wake| wake > now));
                let count = record.run_count.unwrap();
                prop_assert_eq!(usize::try_from(count).unwrap(), seen.len());
                prop_assert_eq!(record.definition.enabled, count < most);
                let entry = record.entry(true);
                prop_assert!(entry.runs.len() <= HISTORY + 1);
            }
        }
    }
}
