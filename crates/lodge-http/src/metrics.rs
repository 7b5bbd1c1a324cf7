//! The host's metrics in the text format of Prometheus.

use std::fmt::Write;

use lodge_host::{APPEND_BUCKETS, HomeUse, Host, KeeperCounts, MODEL_CALL_BUCKETS, TURN_BUCKETS};

/// Families of numbers as Prometheus reads them.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str, values: &[(&str, f64)]) {
        // Writing to memory does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help, &[("", value)]);
    }

    /// Times, by bounds in seconds: how many are below each, and one number for those that took longer.
    fn times(&mut self, name: &str, help: &str, bounds: &[f64], counts: &[u64], seconds: f64) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut sum = 0;
        for (index, count) in counts.iter().enumerate() {
            sum += count;
            let bound = bounds.get(index).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{bound}\"}} {sum}");
        }
        let _ = writeln!(self.0, "{name}_sum {seconds}\n{name}_count {sum}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help, &[("", number(value))]);
    }
}

fn number(value: u64) -> f64 {
    value as f64
}

pub(crate) fn render(host: &Host, home: HomeUse) -> String {
    let counts = host.metrics().counts();
    let (strangers, clients) = host.connections().connected();
    let mut text = Text::default();
    let build = format!("{{version=\"{}\"}}", host.version());
    text.family("lodge_build_info", "gauge", "The version that runs.", &[(&build, 1.0)]);
    text.gauge("lodge_sessions_live", "Sessions in memory.", host.live_count() as f64);
    let backlog = host.backlog();
    text.gauge(
        "lodge_sessions_busy",
        "Sessions in which a turn runs.",
        backlog.busy_sessions as f64,
    );
    text.gauge(
        "lodge_messages_queued",
        "Messages that wait for their turn.",
        backlog.queued_messages as f64,
    );
    text.gauge(
        "lodge_questions_open",
        "Questions that nobody has answered yet.",
        backlog.open_questions as f64,
    );
    if let Some(stored) = home.sessions {
        text.gauge("lodge_sessions_stored", "Sessions in the home.", stored as f64);
    }
    text.family(
        "lodge_connections",
        "gauge",
        "Connections, of clients and of those that have shown no credential yet.",
        &[
            ("{kind=\"client\"}", clients as f64),
            ("{kind=\"stranger\"}", strangers as f64),
        ],
    );
    text.counter(
        "lodge_clients_dropped_total",
        "Clients disconnected because they read too slowly.",
        counts.dropped_clients,
    );
    text.counter("lodge_turns_total", "Turns that ended.", counts.turns);
    text.counter("lodge_turn_errors_total", "Errors that ended a turn.", counts.errors);
    text.counter("lodge_questions_total", "Requests for a permission.", counts.questions);
    let (calls, failed) = counts.tool_calls;
    text.family(
        "lodge_tool_calls_total",
        "counter",
        "Tool calls that ended.",
        &[
            ("{result=\"success\"}", number(calls.saturating_sub(failed))),
            ("{result=\"failure\"}", number(failed)),
        ],
    );
    let [input, output, read, write] = counts.tokens.map(number);
    text.family(
        "lodge_tokens_total",
        "counter",
        "Tokens of model calls.",
        &[
            ("{kind=\"input\"}", input),
            ("{kind=\"output\"}", output),
            ("{kind=\"cache_read\"}", read),
            ("{kind=\"cache_write\"}", write),
        ],
    );
    text.times(
        "lodge_model_call_seconds",
        "Time of model calls.",
        &MODEL_CALL_BUCKETS,
        &counts.model_calls,
        counts.model_time.as_secs_f64(),
    );
    text.times(
        "lodge_turn_seconds",
        "Time of turns, with the time that people take to answer.",
        &TURN_BUCKETS,
        &counts.turn_times,
        counts.turn_time.as_secs_f64(),
    );
    if let Some(counts) = host.keeper_counts() {
        fleet(&mut text, &counts);
    }
    if let Some(free) = home.free {
        text.gauge(
            "lodge_disk_free_bytes",
            "Room left on the disk of the home.",
            number(free),
        );
    }
    if let Some(size) = home.size {
        text.gauge("lodge_disk_size_bytes", "Size of the disk of the home.", number(size));
    }
    if let Some(resident) = lodge_telemetry::resident_memory() {
        text.gauge(
            "process_resident_memory_bytes",
            "Memory of the process.",
            number(resident),
        );
    }
    text.0
}

fn fleet(text: &mut Text, counts: &KeeperCounts) {
    text.times(
        "lodge_fleet_append_seconds",
        "Time until the fleet has stored events.",
        &APPEND_BUCKETS,
        &counts.appends,
        counts.append_time.as_secs_f64(),
    );
    text.family(
        "lodge_fleet_ownership_changes_total",
        "counter",
        "Sessions that this host took, released, or lost.",
        &[
            ("{change=\"taken\"}", number(counts.taken)),
            ("{change=\"released\"}", number(counts.released)),
            ("{change=\"lost\"}", number(counts.lost)),
        ],
    );
    text.gauge(
        "lodge_fleet_lag_seconds",
        "Time since the fleet last heard from this host. After 8 s, the host stops acting for its sessions.",
        counts.lag.as_secs_f64(),
    );
}
