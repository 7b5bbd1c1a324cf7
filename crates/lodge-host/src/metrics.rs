//! Counters of a host since it started, for monitoring.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use lodge_events::{Event, Payload};
use parking_lot::Mutex;

/// Upper bounds of the buckets for the time that model calls take, in seconds.
pub const MODEL_CALL_BUCKETS: [f64; 9] = [0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// The same for the time that turns take.
pub const TURN_BUCKETS: [f64; 9] = [0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];

/// Counters of a host. They only grow.
#[derive(Debug, Default)]
pub struct Metrics {
    turns: AtomicU64,
    tool_calls: AtomicU64,
    failed_tool_calls: AtomicU64,
    questions: AtomicU64,
    errors: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    cache_read_tokens: AtomicU64,
    cache_write_tokens: AtomicU64,
    model_calls: Times,
    turn_times: Times,
    dropped_clients: AtomicU64,
}

#[derive(Debug, Default)]
struct Times {
    /// One for each bound, and one for what takes longer. Not cumulative.
    buckets: [AtomicU64; 10],
    milliseconds: AtomicU64,
}

impl Times {
    fn add(&self, bounds: &[f64; 9], took: Duration) {
        let bucket = bounds.iter().position(|bound| took.as_secs_f64() <= *bound);
        self.buckets[bucket.unwrap_or(bounds.len())].fetch_add(1, Relaxed);
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.milliseconds.fetch_add(milliseconds, Relaxed);
    }

    fn read(&self) -> (Vec<u64>, Duration) {
        let counts = self.buckets.iter().map(|count| count.load(Relaxed)).collect();
        (counts, Duration::from_millis(self.milliseconds.load(Relaxed)))
    }
}

/// When the running turn of a session began.
#[derive(Debug, Default)]
pub(crate) struct TurnClock(Mutex<Option<Instant>>);

/// The counters at a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Turns that ended.
    pub turns: u64,
    /// Tool calls that ended, and how many of them failed.
    pub tool_calls: (u64, u64),
    /// Requests for a permission.
    pub questions: u64,
    /// Turns that ended with an error.
    pub errors: u64,
    /// Tokens: input, output, read from and written to prompt caches.
    pub tokens: [u64; 4],
    /// Model calls by the bounds of [`MODEL_CALL_BUCKETS`]; the last number is of those that took longer.
    pub model_calls: Vec<u64>,
    /// Time that all model calls took together.
    pub model_time: Duration,
    /// Turns by the bounds of [`TURN_BUCKETS`]; the last number is of those that took longer.
    pub turn_times: Vec<u64>,
    /// Time that all turns took together.
    pub turn_time: Duration,
    /// Clients that were disconnected because they read too slowly.
    pub dropped_clients: u64,
}

/// What waits at a moment, over all sessions in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Sessions in which a turn or a sub-agent runs.
    pub busy_sessions: usize,
    /// Messages that wait for their turn, or for the next step of a running one.
    pub queued_messages: usize,
    /// Questions that nobody has answered yet.
    pub open_questions: usize,
}

impl Metrics {
    /// Counts what an event of a session says. Most events, the deltas among them, say nothing.
    pub(crate) fn observe(&self, clock: &TurnClock, event: &Event) {
        let add = |counter: &AtomicU64, more: u64| {
            counter.fetch_add(more, Relaxed);
        };
        match event.payload() {
            // Sub-agents may go on when the turn has ended.
            Payload::UserMessage(_) | Payload::AssistantTurnStart(_) if event.agent_id().is_none() => {
                clock.0.lock().get_or_insert_with(Instant::now);
            }
            Payload::SessionIdle(_) => {
                add(&self.turns, 1);
                if let Some(began) = clock.0.lock().take() {
                    self.turn_times.add(&TURN_BUCKETS, began.elapsed());
                }
            }
            Payload::SessionError(_) => add(&self.errors, 1),
            Payload::PermissionRequested(_) => add(&self.questions, 1),
            Payload::ToolExecutionComplete(done) => {
                add(&self.tool_calls, 1);
                add(&self.failed_tool_calls, u64::from(!done.success));
            }
            Payload::LodgeUsage(usage) => {
                add(&self.input_tokens, usage.input_tokens.unwrap_or(0));
                add(&self.output_tokens, usage.output_tokens.unwrap_or(0));
                add(&self.cache_read_tokens, usage.cache_read_tokens.unwrap_or(0));
                add(&self.cache_write_tokens, usage.cache_write_tokens.unwrap_or(0));
                let took = Duration::from_millis(usage.duration.unwrap_or(0));
                self.model_calls.add(&MODEL_CALL_BUCKETS, took);
            }
            _ => {}
        }
    }

    /// A face disconnected a client that read too slowly.
    pub fn client_dropped(&self) {
        self.dropped_clients.fetch_add(1, Relaxed);
    }

    /// The counters now.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let (model_calls, model_time) = self.model_calls.read();
        let (turn_times, turn_time) = self.turn_times.read();
        Counts {
            turns: read(&self.turns),
            tool_calls: (read(&self.tool_calls), read(&self.failed_tool_calls)),
            questions: read(&self.questions),
            errors: read(&self.errors),
            tokens: [
                read(&self.input_tokens),
                read(&self.output_tokens),
                read(&self.cache_read_tokens),
                read(&self.cache_write_tokens),
            ],
            model_calls,
            model_time,
            turn_times,
            turn_time,
            dropped_clients: read(&self.dropped_clients),
        }
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::LodgeUsage;

    use super::*;

    #[test]
    fn a_model_call_is_counted_in_the_bucket_of_its_time() {
        let metrics = Metrics::default();
        for duration in [250, 251, 600_000] {
            let usage = LodgeUsage {
                model: "m".into(),
                input_tokens: Some(3),
                duration: Some(duration),
                ..LodgeUsage::default()
            };
            metrics.observe(&TurnClock::default(), &Event::new(None, None, usage));
        }
        let counts = metrics.counts();
        assert_eq!(counts.tokens[0], 9);
        assert_eq!((counts.model_calls[0], counts.model_calls[1]), (1, 1));
        assert_eq!(counts.model_calls.last(), Some(&1));
        assert_eq!(counts.model_time, Duration::from_millis(600_501));
    }
}
