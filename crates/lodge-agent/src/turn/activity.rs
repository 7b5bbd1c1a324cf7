//! The current activity of a turn, for the record of an interruption.

use std::time::Instant;

use lodge_events::{AgentInterrupted, CancelPhase, InterruptedActivity};

use super::Turn;

/// What a turn does, and since when.
pub(crate) struct Activity {
    what: InterruptedActivity,
    since: Instant,
    /// When the model began to answer.
    first_output: Option<Instant>,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            what: InterruptedActivity::ModelCall,
            since: Instant::now(),
            first_output: None,
        }
    }
}

impl Activity {
    /// Something begins now. Answers with the time.
    pub(crate) fn begin(&mut self, what: InterruptedActivity) -> Instant {
        *self = Self {
            what,
            ..Self::default()
        };
        self.since
    }

    /// The model begins to answer now. Answers with the time.
    pub(crate) fn output_begins(&mut self) -> Instant {
        *self.first_output.insert(Instant::now())
    }
}

impl Turn {
    /// What its interruption stopped, beside this many agents in the background. Calls that run are still open in the facts.
    pub(super) fn interruption(&self, agents: usize) -> AgentInterrupted {
        let (turn, running) = self.shared.recorder.facts(|facts| {
            let calls = facts.open_turn.iter().flat_map(|turn| &turn.calls);
            let running: Vec<_> = calls
                .filter(|call| call.started)
                .map(|call| (call.name.clone(), call.id.clone()))
                .collect();
            (
                facts.open_model_call.as_ref().and_then(|turn| turn.parse().ok()),
                running,
            )
        });
        let (names, ids): (Vec<String>, Vec<String>) = running.into_iter().unzip();
        let model = self.model().info().id.clone();
        let effort = self.shared.settings.lock().reasoning_effort.clone();
        let activity = self.activity.lock();
        let calling = activity.what == InterruptedActivity::ModelCall;
        let to_first = activity
            .first_output
            .map(|at| (at - activity.since).as_secs_f64() * 1000.0);
        AgentInterrupted {
            activity: activity.what.clone(),
            elapsed_ms: activity.since.elapsed().as_secs_f64() * 1000.0,
            turn: turn.unwrap_or(0),
            model: calling.then_some(model),
            reasoning_effort: effort.filter(|_| calling),
            cancel_phase: calling.then_some(match to_first {
                Some(_) => CancelPhase::MidStream,
                None => CancelPhase::PreFirstToken,
            }),
            output_ttft_ms: to_first,
            tool_names: (!names.is_empty()).then_some(names),
            tool_call_ids: (!ids.is_empty()).then_some(ids),
            interrupted_agent_count: (agents > 0).then_some(agents as u64),
            ..AgentInterrupted::default()
        }
    }
}
