//! Factory runs in the form of the protocol.

use serde::Deserialize;
use serde_json::{Value, json};

use super::runs::{Agent, INTERRUPTED, Line, Phase, Run, Runs, Status};

/// How many runs, or lines, a page has if nobody says, and at most.
const PAGE: usize = 200;
const LONGEST_PAGE: usize = 500;
/// The longest preview of a result, in characters.
const PREVIEW: usize = 200;

/// A run as clients see it: one that runs nowhere has halted, whatever the log says.
pub(crate) struct Shown<'a> {
    pub(crate) run: &'a Run,
    pub(crate) status: Status,
}

impl<'a> Shown<'a> {
    pub(crate) fn of(run: &'a Run, is_live: bool) -> Self {
        let status = match run.status {
            Status::Running if !is_live => Status::Halted,
            status => status,
        };
        Self { run, status }
    }

    fn has_ended(&self) -> bool {
        self.status != Status::Running
    }

    fn reason(&self) -> Option<&str> {
        match self.run.status {
            Status::Running if self.has_ended() => Some(INTERRUPTED),
            _ => self.run.end.reason.as_deref(),
        }
    }

    /// The answer to whoever started the run or asks how it stands.
    pub(crate) fn envelope(&self) -> Value {
        let end = &self.run.end;
        let mut json = json!({"runId": self.run.id, "status": self.status.as_str()});
        if self.status == Status::Completed {
            json["result"] = end.result.clone().unwrap_or_default();
        }
        for (name, value) in [
            ("error", end.error.clone().map(Value::from)),
            ("reason", self.reason().map(Value::from)),
            ("failure", end.failure.clone()),
        ] {
            if let Some(value) = value {
                json[name] = value;
            }
        }
        if self.has_ended() && self.status != Status::Completed {
            let lines: Vec<&str> = self.run.lines.iter().map(|line| line.text.as_str()).collect();
            let last = &lines[lines.len().saturating_sub(20)..];
            json["snapshot"] = json!({"journal": self.run.journal.keys().collect::<Vec<_>>(), "progress": last});
        }
        json
    }

    fn terminal(&self) -> Value {
        if !self.has_ended() {
            return Value::Null;
        }
        let mut json = self.envelope();
        let fields = json.as_object_mut().map(std::mem::take).unwrap_or_default();
        let mut terminal: serde_json::Map<String, Value> = (fields.into_iter())
            .filter(|(name, _)| ["error", "reason", "failure"].contains(&name.as_str()))
            .collect();
        if let Some(result) = self
            .run
            .end
            .result
            .as_ref()
            .filter(|_| self.status == Status::Completed)
        {
            let preview: String = result.to_string().chars().take(PREVIEW).collect();
            terminal.insert("resultPreview".into(), preview.into());
        }
        terminal.insert("pauseInfo".into(), Value::Null);
        terminal.into()
    }

    /// The run in a list.
    pub(crate) fn summary(&self, now_ms: i64) -> Value {
        let run = self.run;
        let phase = run.phase().filter(|_| !self.has_ended());
        let active = if self.has_ended() {
            0
        } else {
            (now_ms - run.started_ms).max(0)
        };
        json!({
            "runId": run.id,
            "factoryName": run.name,
            "workflowName": run.name,
            "description": run.description,
            "status": self.status.as_str(),
            "canResume": self.has_ended() && self.status != Status::Completed,
            "revision": run.revision,
            "createdAt": run.created_ms,
            "startedAt": run.created_ms,
            "updatedAt": run.updated_ms,
            "completedAt": self.has_ended().then_some(run.updated_ms),
            "currentPhase": phase.map(|phase| json!({"id": phase.title, "ordinal": phase.ordinal})),
            "declaredPhaseCount": run.phases.iter().filter(|phase| phase.ordinal.is_some()).count(),
            "liveAgentCount": run.agents.iter().filter(|agent| self.is_live(agent)).count(),
            "totalSpawnedAgentCount": run.agents.len(),
            "consumed": {
                "activeMs": run.active_ms as i64 + active, "subagents": run.agents.len(), "nanoAiu": run.nano_aiu(),
            },
            "declaredLimits": run.declared.json(),
            "approved": run.limits.json(),
            "observedAt": now_ms,
            "activeSegmentStartedAt": (!self.has_ended()).then_some(run.started_ms),
            "terminal": self.terminal(),
        })
    }

    /// The run with its phases and its last progress.
    pub(crate) fn detail(&self, now_ms: i64) -> Value {
        let mut json = self.summary(now_ms);
        let phases = &self.run.phases;
        let last_entered = phases
            .iter()
            .filter(|phase| phase.entries > 0)
            .filter_map(|phase| phase.ordinal)
            .max();
        let shown = phases.iter().map(|phase| self.phase(phase, last_entered, now_ms));
        json["phases"] = shown.collect::<Vec<_>>().into();
        let agents = self.run.agents.iter().map(|agent| self.agent(agent, now_ms));
        json["agents"] = agents.collect::<Vec<_>>().into();
        json["progress"] = self.progress(&Paging::default());
        json
    }

    /// Whether a sub-agent works: with its attempt, it ended, whatever the log says.
    fn is_live(&self, agent: &Agent) -> bool {
        agent.ended_ms.is_none() && agent.attempt == self.run.attempt && !self.has_ended()
    }

    fn agent(&self, agent: &Agent, now_ms: i64) -> Value {
        let (told, is_live) = (&agent.told, self.is_live(agent));
        let status = match told.status.as_str() {
            "running" if !is_live => "cancelled",
            status => status,
        };
        let so_far = if is_live { (now_ms - agent.started_ms).max(0) } else { 0 };
        let mut json = json!({
            "agentId": told.agent_id,
            "toolCallId": told.tool_call_id,
            "runId": self.run.id,
            "phaseId": agent.phase,
            "label": told.label,
            "displayName": told.label,
            "agentType": told.agent_type,
            "status": status,
            "startedAt": agent.started_ms,
            "activeMs": told.active_ms.map_or(so_far, |ms| ms as i64),
        });
        for (name, value) in [
            ("requestedModel", told.requested_model.clone().map(Value::from)),
            ("resolvedModel", told.model.clone().map(Value::from)),
            ("completedAt", agent.ended_ms.map(Value::from)),
        ] {
            if let Some(value) = value {
                json[name] = value;
            }
        }
        json
    }

    fn phase(&self, phase: &Phase, last_entered: Option<usize>, now_ms: i64) -> Value {
        let is_active = phase.entered_ms.is_some() && !self.has_ended();
        let passed = phase.ordinal < last_entered;
        let status = match (is_active, phase.entries) {
            (true, _) => "active",
            (false, 0) if passed || self.has_ended() => "skipped",
            (false, 0) => "pending",
            (false, _) => "completed",
        };
        let skipped = (status == "skipped").then_some(self.run.updated_ms);
        let current = phase
            .entered_ms
            .filter(|_| is_active)
            .map_or(0, |entered| (now_ms - entered).max(0));
        let of_phase = |agent: &&Agent| agent.phase.as_ref() == Some(&phase.title);
        let agents = self.run.agents.iter().filter(of_phase);
        let live = agents.clone().filter(|agent| self.is_live(agent)).count();
        let mut json = json!({
            "id": phase.title,
            "ordinal": phase.ordinal,
            "title": phase.title,
            "status": status,
            "lastEnteredRunAttempt": phase.last_attempt,
            "entryCount": phase.entries,
            "accumulatedActiveMs": phase.active_ms,
            "currentActiveMs": current,
            "totalAgentCount": agents.count(),
            "liveAgentCount": live,
        });
        for (name, value) in [
            ("detail", phase.detail.clone().map(Value::from)),
            ("startedAt", phase.started_ms.or(skipped).map(Value::from)),
            ("completedAt", phase.left_ms.or(skipped).map(Value::from)),
        ] {
            if let Some(value) = value {
                json[name] = value;
            }
        }
        json
    }

    /// A page of the run's progress.
    pub(crate) fn progress(&self, paging: &Paging) -> Value {
        let of_phase = |line: &&Line| paging.phase_id.is_none() || line.phase == paging.phase_id;
        let lines: Vec<&Line> = self.run.lines.iter().filter(of_phase).collect();
        let (page, older, newer) = paging.page(&lines, |line| line.seq);
        let shown = page.iter().map(|line| {
            json!({
                "seq": line.seq, "attempt": line.attempt, "phaseId": line.phase, "recordedAt": line.time_ms,
                "kind": line.kind, "text": line.text,
            })
        });
        json!({
            "records": shown.collect::<Vec<_>>(),
            "oldestSeq": page.first().map(|line| line.seq),
            "newestSeq": page.last().map(|line| line.seq),
            "hasMoreOlder": older > 0,
            "hasMoreNewer": newer > 0,
            "revision": self.run.revision,
        })
    }
}

/// Which part of a list is wanted: the newest, unless a cursor says otherwise.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Paging {
    phase_id: Option<String>,
    after_seq: Option<u64>,
    before_seq: Option<u64>,
    limit: Option<usize>,
}

impl Paging {
    /// The page, and how many older and newer ones there are.
    fn page<'a, T>(&self, all: &'a [T], seq: impl Fn(&T) -> u64) -> (&'a [T], usize, usize) {
        let limit = self.limit.unwrap_or(PAGE).clamp(1, LONGEST_PAGE);
        let after = self
            .after_seq
            .map_or(0, |cursor| all.partition_point(|one| seq(one) <= cursor));
        let before = self
            .before_seq
            .map_or(all.len(), |cursor| all.partition_point(|one| seq(one) < cursor));
        let (first, last) = match (self.after_seq, self.before_seq) {
            (Some(_), None) => (after, before.min(after + limit)),
            _ => (after.max(before.saturating_sub(limit)).min(before), before),
        };
        (&all[first..last], first, all.len() - last)
    }
}

/// A page of a session's runs. Those under way are on every page.
pub(crate) fn list(runs: &Runs, is_live: impl Fn(&Run) -> bool, paging: &Paging, now_ms: i64) -> Value {
    let all: Vec<Shown<'_>> = runs.iter().map(|run| Shown::of(run, is_live(run))).collect();
    let (ended, live): (Vec<&Shown<'_>>, Vec<&Shown<'_>>) = all.iter().partition(|shown| shown.has_ended());
    let (page, older, newer) = paging.page(&ended, |shown| shown.run.number);
    let mut shown: Vec<&Shown<'_>> = page.iter().chain(&live).copied().collect();
    shown.sort_by_key(|shown| shown.run.number);
    json!({
        "runs": shown.iter().map(|shown| shown.summary(now_ms)).collect::<Vec<_>>(),
        "oldestSeq": page.first().map(|shown| shown.run.number),
        "newestSeq": page.last().map(|shown| shown.run.number),
        "hasMoreNewer": newer > 0,
        "omittedOlder": older,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_newest_unless_a_cursor_says_otherwise() {
        let all: Vec<u64> = (1..=10).collect();
        let paging = |json: Value| -> Paging { serde_json::from_value(json).expect("cursors") };
        for (asked, page, older, newer) in [
            (json!({"limit": 3}), vec![8, 9, 10], 7, 0),
            (json!({"limit": 3, "afterSeq": 4}), vec![5, 6, 7], 4, 3),
            (json!({"limit": 3, "beforeSeq": 4}), vec![1, 2, 3], 0, 7),
            (json!({"limit": 2, "beforeSeq": 9, "afterSeq": 3}), vec![7, 8], 6, 2),
            (json!({"afterSeq": 10}), vec![], 10, 0),
            (json!({"beforeSeq": 1}), vec![], 0, 10),
            (json!({"limit": 0, "beforeSeq": 3, "afterSeq": 7}), vec![], 2, 8),
        ] {
            let (shown, before, after) = paging(asked.clone()).page(&all, |seq| *seq);
            assert_eq!((shown.to_vec(), before, after), (page, older, newer), "{asked}");
        }
    }
}
