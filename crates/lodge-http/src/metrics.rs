//! The numbers of a host in the text format of Prometheus.

use std::fmt::Write;

use lodge_host::{HomeUse, Host, MODEL_CALL_BUCKETS};

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

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help, &[("", number(value))]);
    }
}

fn number(value: u64) -> f64 {
    value as f64
}

/// All of them.
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
    model_calls(&mut text, &counts.model_calls, counts.model_time.as_secs_f64());
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

fn model_calls(text: &mut Text, buckets: &[u64], seconds: f64) {
    const NAME: &str = "lodge_model_call_seconds";
    let _ = writeln!(text.0, "# HELP {NAME} Time of model calls.\n# TYPE {NAME} histogram");
    let mut sum = 0;
    for (index, count) in buckets.iter().enumerate() {
        sum += count;
        let bound = MODEL_CALL_BUCKETS
            .get(index)
            .map_or_else(|| "+Inf".to_owned(), f64::to_string);
        let _ = writeln!(text.0, "{NAME}_bucket{{le=\"{bound}\"}} {sum}");
    }
    let _ = writeln!(text.0, "{NAME}_sum {seconds}\n{NAME}_count {sum}");
}
