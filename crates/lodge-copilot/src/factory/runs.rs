//! The factory runs of a session: a fold of the events that the log has of them.

use std::collections::{BTreeMap, VecDeque};

use lodge_events::{
    Event, FactoryLine, FactoryPhase, LodgeFactoryAgent, LodgeFactorySettled, LodgeFactoryStarted, Payload,
};
use serde_json::Value;

use super::limits::Limits;

/// How many runs that have ended are known. Older ones are in the log only.
const MOST_ENDED: usize = 500;
/// How many lines of progress of a run are known, the newest.
const MOST_LINES: usize = 2_000;

/// How many bytes of lines of a run are known.
const MOST_OF_LINES: usize = 1 << 20;
/// How many phases of a run are known.
const MOST_PHASES: usize = 200;
/// How many bytes the runs of a session have together. Runs that have ended make room, the oldest first.
pub(super) const MOST_OF_A_SESSION: usize = 64 << 20;
/// Why a run halted that the log has no end of.
pub(super) const INTERRUPTED: &str = "The host stopped while it ran. Resume it to go on";

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    Completed,
    Error,
    Halted,
    Cancelled,
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Halted => "halted",
            Self::Cancelled => "cancelled",
        }
    }

    fn of(word: &str) -> Self {
        match word {
            "completed" => Self::Completed,
            "error" => Self::Error,
            "cancelled" => Self::Cancelled,
            _ => Self::Halted,
        }
    }
}

/// A phase that a factory declared, or that a run entered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phase {
    pub(crate) title: String,
    pub(crate) detail: Option<String>,
    /// Its place among the declared ones.
    pub(crate) ordinal: Option<usize>,
    pub(crate) entries: u64,
    pub(crate) last_attempt: u64,
    pub(crate) started_ms: Option<i64>,
    /// When it was left; none while it is active.
    pub(crate) left_ms: Option<i64>,
    pub(crate) active_ms: i64,
    /// When it was entered last, while it is active.
    pub(crate) entered_ms: Option<i64>,
}

/// A line of progress.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) seq: u64,
    pub(crate) attempt: u64,
    pub(crate) phase: Option<String>,
    pub(crate) time_ms: i64,
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// A sub-agent that a run started.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) told: LodgeFactoryAgent,
    pub(crate) phase: Option<String>,
    pub(crate) attempt: u64,
    pub(crate) started_ms: i64,
    pub(crate) ended_ms: Option<i64>,
}

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: String,
    /// Its number in the session, from 1.
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) args: Value,
    pub(crate) declared: Limits,
    pub(crate) limits: Limits,
    pub(crate) status: Status,
    pub(crate) attempt: u64,
    pub(crate) revision: u64,
    pub(crate) created_ms: i64,
    /// When this attempt began.
    pub(crate) started_ms: i64,
    pub(crate) updated_ms: i64,
    /// Milliseconds of the attempts that ended.
    pub(crate) active_ms: u64,
    pub(crate) phases: Vec<Phase>,
    pub(crate) lines: VecDeque<Line>,
    /// How many lines there were.
    pub(crate) told: u64,
    /// The number that the factory gave its last line in this attempt.
    last_told: Option<u64>,
    pub(crate) journal: BTreeMap<String, Value>,
    /// The sub-agents of all attempts, in the order in which they began.
    pub(crate) agents: Vec<Agent>,
    pub(crate) end: LodgeFactorySettled,
    /// The bytes of its arguments and journal, of its lines, and of its result.
    kept: usize,
    of_lines: usize,
    of_result: usize,
}

/// How many bytes a value has as JSON.
fn bytes(value: &Value) -> usize {
    value.to_string().len()
}

impl Run {
    fn new(started: &LodgeFactoryStarted, number: u64, time_ms: i64) -> Self {
        let phase = |(ordinal, declared): (usize, &FactoryPhase)| Phase {
            title: declared.title.clone(),
            detail: declared.detail.clone(),
            ordinal: Some(ordinal),
            ..Phase::default()
        };
        Self {
            id: started.run_id.clone(),
            number,
            name: started.name.clone(),
            description: started.description.clone().unwrap_or_default(),
            args: started.args.clone().unwrap_or_default(),
            declared: Limits::recorded(started.declared_limits.as_ref()),
            limits: Limits::default(),
            status: Status::Running,
            attempt: 0,
            revision: 0,
            created_ms: time_ms,
            started_ms: time_ms,
            updated_ms: time_ms,
            active_ms: 0,
            phases: (started.phases.iter().flatten().take(MOST_PHASES).enumerate())
                .map(phase)
                .collect(),
            lines: VecDeque::new(),
            told: 0,
            last_told: None,
            journal: BTreeMap::new(),
            agents: Vec::new(),
            end: LodgeFactorySettled::default(),
            kept: started.args.as_ref().map_or(0, bytes),
            of_lines: 0,
            of_result: 0,
        }
    }

    fn begin(&mut self, started: &LodgeFactoryStarted, time_ms: i64) {
        self.leave_phase(time_ms);
        self.status = Status::Running;
        self.attempt = started.attempt;
        self.limits = Limits::recorded(started.limits.as_ref());
        self.started_ms = time_ms;
        self.last_told = None;
        self.end = LodgeFactorySettled::default();
    }

    fn log(&mut self, line: &FactoryLine, time_ms: i64) {
        // What is sent again because its answer was lost is known already.
        if self.last_told.is_some_and(|last| line.seq <= last) {
            return;
        }
        self.last_told = Some(line.seq);
        if line.kind == "phase" {
            self.enter(&line.text, time_ms);
        }
        self.told += 1;
        self.lines.push_back(Line {
            seq: self.told,
            attempt: self.attempt,
            phase: self.phase().map(|phase| phase.title.clone()),
            time_ms,
            kind: line.kind.clone(),
            text: line.text.clone(),
        });
        self.of_lines += line.text.len();
        while self.lines.len() > MOST_LINES || self.of_lines > MOST_OF_LINES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.of_lines -= oldest.text.len();
        }
    }

    fn keep(&mut self, key: &str, result: &Value) {
        // Only what can be resumed needs its steps.
        if self.status == Status::Completed {
            return;
        }
        self.kept += key.len() + bytes(result);
        if let Some(before) = self.journal.insert(key.to_owned(), result.clone()) {
            self.kept -= key.len() + bytes(&before);
        }
    }

    /// The bytes of its arguments and its journal.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    fn bytes(&self) -> usize {
        self.kept + self.of_lines + self.of_result
    }

    fn enter(&mut self, title: &str, time_ms: i64) {
        self.leave_phase(time_ms);
        let at = self.phases.iter().position(|phase| phase.title == title);
        if at.is_none() && self.phases.len() >= MOST_PHASES {
            return;
        }
        let at = at.unwrap_or_else(|| {
            self.phases.push(Phase {
                title: title.to_owned(),
                ..Phase::default()
            });
            self.phases.len() - 1
        });
        let attempt = self.attempt;
        let phase = &mut self.phases[at];
        phase.entries += 1;
        phase.last_attempt = attempt;
        phase.started_ms.get_or_insert(time_ms);
        phase.entered_ms = Some(time_ms);
        phase.left_ms = None;
    }

    fn leave_phase(&mut self, time_ms: i64) {
        for phase in &mut self.phases {
            if let Some(entered) = phase.entered_ms.take() {
                phase.active_ms += (time_ms - entered).max(0);
                phase.left_ms = Some(time_ms);
            }
        }
    }

    fn settle(&mut self, settled: &LodgeFactorySettled, time_ms: i64) {
        self.leave_phase(time_ms);
        self.status = Status::of(&settled.status);
        self.active_ms += settled.elapsed_ms;
        self.end = settled.clone();
        self.of_result = settled.result.as_ref().map_or(0, bytes);
        if self.status == Status::Completed {
            self.journal.clear();
            self.args = Value::Null;
            self.kept = 0;
        }
    }

    fn tell_agent(&mut self, told: &LodgeFactoryAgent, time_ms: i64) {
        let ended_ms = (told.status != "running").then_some(time_ms);
        let phase = self.phase().map(|phase| phase.title.clone());
        match self
            .agents
            .iter_mut()
            .find(|agent| agent.told.agent_id == told.agent_id)
        {
            Some(agent) => {
                agent.told = told.clone();
                agent.ended_ms = ended_ms;
            }
            None => self.agents.push(Agent {
                told: told.clone(),
                phase,
                attempt: self.attempt,
                started_ms: time_ms,
                ended_ms,
            }),
        }
    }

    /// What its sub-agents cost, in the provider's unit.
    pub(crate) fn cost(&self) -> f64 {
        self.agents.iter().filter_map(|agent| agent.told.cost).sum()
    }

    /// The same in billionths of an AI unit.
    pub(crate) fn nano_aiu(&self) -> u64 {
        (self.cost() * 1e9).round() as u64
    }

    /// The phase that it is in.
    pub(crate) fn phase(&self) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.entered_ms.is_some())
    }
}

/// All runs, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    all: Vec<Run>,
    last: u64,
}

impl Runs {
    /// Takes an event into account.
    pub(crate) fn apply(&mut self, event: &Event) {
        let time_ms = event.timestamp().as_millisecond();
        let id = match event.payload() {
            Payload::LodgeFactoryStarted(started) => {
                if self.get(&started.run_id).is_none() {
                    self.last += 1;
                    self.all.push(Run::new(started, self.last, time_ms));
                }
                &started.run_id
            }
            Payload::LodgeFactoryLogged(logged) => &logged.run_id,
            Payload::LodgeFactoryAgent(agent) => &agent.run_id,
            Payload::LodgeFactoryStep(step) => &step.run_id,
            Payload::LodgeFactorySettled(settled) => &settled.run_id,
            _ => return,
        };
        let Some(run) = self.all.iter_mut().find(|run| run.id == *id) else {
            return;
        };
        match event.payload() {
            Payload::LodgeFactoryStarted(started) => run.begin(started, time_ms),
            Payload::LodgeFactoryLogged(logged) => logged.lines.iter().for_each(|line| run.log(line, time_ms)),
            Payload::LodgeFactoryAgent(agent) => run.tell_agent(agent, time_ms),
            Payload::LodgeFactoryStep(step) => run.keep(&step.key, &step.result),
            Payload::LodgeFactorySettled(settled) => run.settle(settled, time_ms),
            _ => {}
        }
        run.revision += 1;
        run.updated_ms = time_ms;
        self.forget_oldest();
    }

    /// Runs that the log has no end of have halted: it was read by a host that runs none of them.
    pub(super) fn halt(&mut self) {
        for run in self.all.iter_mut().filter(|run| run.status == Status::Running) {
            run.status = Status::Halted;
            run.end.reason = Some(INTERRUPTED.to_owned());
        }
        self.forget_oldest();
    }

    /// The bytes of the runs under way.
    pub(super) fn under_way(&self) -> usize {
        let running = self.all.iter().filter(|run| run.status == Status::Running);
        running.map(Run::bytes).sum()
    }

    /// Forgets ended runs while there is too much. The newest stays.
    fn forget_oldest(&mut self) {
        let ended = |run: &Run| run.status != Status::Running;
        loop {
            let known = self.all.iter().filter(|run| ended(run)).count();
            let bytes: usize = self.all.iter().map(Run::bytes).sum();
            let all = self.all.iter().enumerate().filter(|(_, run)| ended(run));
            let oldest = all.min_by_key(|(_, run)| run.updated_ms).map(|(at, _)| at);
            match oldest.filter(|_| known > MOST_ENDED || (known > 1 && bytes > MOST_OF_A_SESSION)) {
                Some(oldest) => drop(self.all.remove(oldest)),
                None => return,
            }
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Run> {
        self.all.iter().find(|run| run.id == id)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, second: u32, data: Value) -> Event {
        let line = serde_json::json!({
            "id": uuid::Uuid::new_v4().to_string(), "timestamp": format!("2026-01-01T00:00:{second:02}.000Z"), "parentId": null,
            "type": kind, "data": data, "ephemeral": true,
        });
        Event::parse(line.to_string().into_bytes().into()).expect("an event")
    }

    #[test]
    fn a_run_is_what_its_events_say() {
        let mut runs = Runs::default();
        let said = |seq: u64, kind: &str, text: &str| serde_json::json!({"seq": seq, "kind": kind, "text": text});
        for (kind, second, data) in [
            (
                "lodge.factory_started",
                0,
                serde_json::json!({"runId": "r", "name": "f", "attempt": 1, "args": [1],
                    "phases": [{"title": "a"}, {"title": "b"}], "limits": {"timeoutSeconds": 2.5}}),
            ),
            (
                "lodge.factory_logged",
                1,
                serde_json::json!({"runId": "r", "lines": [said(1, "phase", "a"), said(2, "log", "one")]}),
            ),
            // The same again, and a phase that nobody declared.
            (
                "lodge.factory_logged",
                3,
                serde_json::json!({"runId": "r", "lines": [said(2, "log", "one"), said(3, "phase", "c")]}),
            ),
            (
                "lodge.factory_step",
                4,
                serde_json::json!({"runId": "r", "key": "k", "result": null}),
            ),
            (
                "lodge.factory_settled",
                5,
                serde_json::json!({"runId": "r", "status": "error", "error": "no", "elapsedMs": 5000}),
            ),
            (
                "lodge.factory_started",
                9,
                serde_json::json!({"runId": "r", "name": "f", "attempt": 2}),
            ),
            (
                "lodge.factory_agent",
                10,
                serde_json::json!({"runId": "r", "agentId": "x", "toolCallId": "x", "label": "x", "agentType": "t",
                    "status": "running"}),
            ),
            (
                "lodge.factory_agent",
                12,
                serde_json::json!({"runId": "r", "agentId": "x", "toolCallId": "x", "label": "x", "agentType": "t",
                    "status": "completed", "cost": 0.25}),
            ),
            // Of a run that nobody knows.
            (
                "lodge.factory_step",
                9,
                serde_json::json!({"runId": "s", "key": "k", "result": 1}),
            ),
        ] {
            runs.apply(&event(kind, second, data));
        }
        let run = runs.get("r").expect("the run");
        assert_eq!((run.status, run.attempt, run.revision), (Status::Running, 2, 8));
        assert_eq!((run.active_ms, run.limits), (5000, Limits::default()));
        assert_eq!((&run.args, &run.journal["k"]), (&serde_json::json!([1]), &Value::Null));
        let phases: Vec<_> = (run.phases.iter())
            .map(|phase| (phase.title.as_str(), phase.ordinal, phase.entries, phase.active_ms))
            .collect();
        assert_eq!(
            phases,
            [("a", Some(0), 1, 2000), ("b", Some(1), 0, 0), ("c", None, 1, 2000)]
        );
        let lines: Vec<_> = run.lines.iter().map(|line| (line.seq, line.text.as_str())).collect();
        assert_eq!(lines, [(1, "a"), (2, "one"), (3, "c")]);
        let [agent] = &run.agents[..] else {
            panic!("{:?}", run.agents)
        };
        assert_eq!(
            (agent.attempt, agent.ended_ms.map(|ended| ended - agent.started_ms)),
            (2, Some(2000))
        );
        assert_eq!(run.nano_aiu(), 250_000_000);
        assert!(runs.get("s").is_none() && run.phase().is_none());
    }

    #[test]
    fn what_is_known_of_runs_is_bounded_and_completed_ones_keep_no_steps() {
        let started = |run: &str| {
            event(
                "lodge.factory_started",
                0,
                serde_json::json!({"runId": run, "name": "f", "attempt": 1}),
            )
        };
        let step = |run: &str, key: usize| {
            let data = serde_json::json!({"runId": run, "key": key.to_string(), "result": "x".repeat(1 << 20)});
            event("lodge.factory_step", 1, data)
        };
        let settled = |run: &str, second: u32, status: &str| {
            let data = serde_json::json!({"runId": run, "status": status, "elapsedMs": 1});
            event("lodge.factory_settled", second, data)
        };
        let mut runs = Runs::default();
        runs.apply(&started("done"));
        (0..200).for_each(|key| runs.apply(&step("done", key % 2)));
        assert_eq!(
            runs.get("done").map(|run| run.kept() >> 20),
            Some(2),
            "a step that is done again replaces the first"
        );
        let lines: Vec<Value> = (0..1000)
            .map(|seq| serde_json::json!({"seq": seq, "kind": "phase", "text": format!("{seq}{}", "y".repeat(5000))}))
            .collect();
        runs.apply(&event(
            "lodge.factory_logged",
            1,
            serde_json::json!({"runId": "done", "lines": lines}),
        ));
        let run = runs.get("done").expect("the run");
        assert_eq!((run.phases.len(), run.lines.len() < 250), (MOST_PHASES, true));
        runs.apply(&settled("done", 50, "completed"));
        runs.apply(&step("done", 0));
        let run = runs.get("done").expect("the run");
        assert_eq!((run.journal.len(), run.kept()), (0, 0));

        for (second, run) in ["a", "b", "c", "d"].into_iter().enumerate() {
            runs.apply(&started(run));
            (0..20).for_each(|key| runs.apply(&step(run, key)));
            assert_eq!(runs.under_way() >> 20, 20);
            runs.apply(&settled(run, 2 + second as u32, "error"));
        }
        let known: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(known, ["b", "c", "d"], "those that ended first made room");
        runs.apply(&started("left"));
        runs.halt();
        assert_eq!(
            (runs.get("left").map(|run| run.status), runs.under_way()),
            (Some(Status::Halted), 0)
        );
    }
}
