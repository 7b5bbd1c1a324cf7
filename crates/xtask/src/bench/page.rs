//! The tables of `docs/bench.md`, made from the recorded numbers.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

const BEGIN: &str = "<!-- recorded: `cargo xtask docs` writes what follows -->\n";
const END: &str = "<!-- /recorded -->";

/// A number of the report: its name, its label and its unit.
type Row = (&'static str, &'static str, &'static str);

const BESIDE_PEERS: &[Row] = &[
    ("start_to_connected_ms", "start → connected", "ms"),
    ("start_to_session_ms", "start → first session", "ms"),
    ("start_to_first_turn_ms", "start → end of the first turn", "ms"),
    ("ping_ms", "ping, round trip", "ms"),
    ("turn_ms", "one turn with an instant model", "ms"),
    ("turn_cpu_ms", "its processor time", "ms"),
    ("turn_wire_bytes", "its bytes on the wire", "bytes"),
    ("tool_round_trip_ms", "round trip to a tool of the client", "ms"),
    ("delta_cpu_us_of_50000", "processor time per streamed delta", "µs"),
    (
        "sixteen_sessions_deltas_per_s",
        "16 sessions streaming at once",
        "deltas/s",
    ),
    ("delay_p50_ms", "latency of a delta, p50", "ms"),
    ("delay_p99_ms", "latency of a delta, p99", "ms"),
    ("deltas_wrong_of_50000", "50,000 deltas: wrong, repeated or missing", ""),
    ("memory_at_start_mb", "memory at start", "MB"),
    ("memory_per_idle_session_kb", "memory per idle session", "KB"),
    ("memory_100_idle_sessions_mb", "memory with 100 idle sessions", "MB"),
    ("memory_after_50_turns_mb", "memory after 50 turns", "MB"),
    ("memory_peak_of_50000_mb", "peak memory during 50,000 deltas", "MB"),
    ("resume_500_turns_ms", "resume after 500 turns", "ms"),
    ("resume_100mb_ms", "resume a log of 100 MB", "ms"),
    ("lost_by_kill_mid_stream", "events lost by `kill -9` mid-stream", ""),
    ("lost_by_kill_tool_pending", "… while a tool runs", ""),
    ("lost_by_kill_at_idle", "… when idle", ""),
    ("acp_start_to_initialized_ms", "ACP: start → initialized", "ms"),
    ("acp_turn_ms", "ACP: one turn", "ms"),
    ("binary_mb", "the program itself", "MB"),
];

const ALONE: &[Row] = &[
    (
        "delta_cpu_us_without_clients",
        "processor time per delta without a client",
        "µs",
    ),
    (
        "ahp_delta_cpu_us_of_1_client",
        "processor time per delta to one client",
        "µs",
    ),
    (
        "ahp_further_delivery_cpu_us_of_10_clients",
        "… for each further client, of 10",
        "µs",
    ),
    (
        "ahp_further_delivery_cpu_us_of_1000_clients",
        "… for each further client, of 1,000",
        "µs",
    ),
    (
        "ahp_delta_cpu_us_of_1_session",
        "processor time per delta, 1 session that streams to a client of its own",
        "µs",
    ),
    ("ahp_delta_cpu_us_of_16_sessions", "… 16 sessions", "µs"),
    ("ahp_delta_cpu_us_of_64_sessions", "… 64 sessions", "µs"),
    ("ahp_delta_cpu_us_of_200_sessions", "… 200 sessions", "µs"),
    (
        "ahp_never_reading_client_extra_mb",
        "memory cost of a client that never reads",
        "MB",
    ),
    ("ahp_list_1000_sessions_ms", "list 1,000 sessions", "ms"),
    (
        "ahp_first_list_10000_sessions_ms",
        "first list of 10,000 sessions whose logs were copied in",
        "ms",
    ),
    ("ahp_list_10000_sessions_ms", "later lists of them", "ms"),
    ("ahp_memory_10000_sessions_mb", "memory of the host then", "MB"),
    ("ahp_open_10000_turns_ms", "open a chat of 10,000 turns", "ms"),
    ("ahp_subscribe_10000_turns_ms", "subscribe to it", "ms"),
    (
        "ahp_replay_10000_actions_ms",
        "replay 10,000 actions after a reconnect",
        "ms",
    ),
    ("list_10000_entries_ms", "list a directory of 10,000 entries", "ms"),
    ("read_100mb_mb_per_s", "read a file of 100 MB", "MB/s"),
    ("completions_100000_ms", "complete a file name among 100,000", "ms"),
    ("terminal_mb_per_s", "output of a terminal to one client", "MB/s"),
    (
        "conversation_delta_cpu_us",
        "terminal client: processor time per delta",
        "µs",
    ),
    (
        "conversation_100000_lines_mb",
        "terminal client: memory with a transcript of 100,000 lines",
        "MB",
    ),
];

/// The page with the numbers of a recorded run.
pub(crate) fn render(page: &str, report: &Value) -> Result<String> {
    let (before, rest) = page
        .split_once(BEGIN)
        .context("docs/bench.md has no place for the recorded numbers")?;
    let (_, after) = rest
        .split_once(END)
        .context("the place for the recorded numbers in docs/bench.md does not end")?;
    let beside = table(
        "| what | Lodge | budget | Copilot CLI | native runtime | Lodge against the better peer |\n|---|---|---|---|---|---|\n",
        BESIDE_PEERS,
        report,
        |row, unit| {
            let times = row["times_better"].as_f64().map(times).unwrap_or_default();
            let peers = ["copilot cli", "native runtime"].map(|peer| shown(&row[peer], unit));
            format!(" {} | {} | {times} |", peers[0], peers[1])
        },
    );
    let alone = table("| what | Lodge | budget |\n|---|---|---|\n", ALONE, report, |_, _| {
        String::new()
    });
    let mut tables = String::new();
    if !beside.is_empty() {
        write!(tables, "\n{beside}\n")?;
    }
    if !alone.is_empty() {
        write!(
            tables,
            "\nNo peer speaks AHP, so these are Lodge's numbers alone:\n\n{alone}\n"
        )?;
    }
    Ok(format!("{before}{BEGIN}{tables}{END}{after}"))
}

/// The rows that were measured.
fn table(head: &str, rows: &[Row], report: &Value, rest: impl Fn(&Value, &str) -> String) -> String {
    let measured = rows.iter().filter(|(name, ..)| report[name]["lodge"].is_number());
    let lines: String = measured
        .map(|(name, label, unit)| {
            let row = &report[name];
            let (ours, budget) = (shown(&row["lodge"], unit), shown(&row["budget"], unit));
            let over = if row["kept"] == false { " (over)" } else { "" };
            format!("| {label} | {ours}{over} | {budget} |{}\n", rest(row, unit))
        })
        .collect();
    match lines.is_empty() {
        true => lines,
        false => format!("{head}{lines}"),
    }
}

/// Three digits say enough of a figure that another run has slightly different.
fn shown(number: &Value, unit: &str) -> String {
    let Some(number) = number.as_f64() else {
        return String::new();
    };
    let decimals = match number.abs() {
        size if size >= 100.0 || number.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let plain = format!("{number:.decimals$}");
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text = format!("{text}.{fraction}");
    }
    format!("{text} {unit}").trim_end().to_owned()
}

fn times(better: f64) -> String {
    match better {
        better if better >= 10.0 => format!("{better:.0} ×"),
        better => format!("{better:.1} ×"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_shows_what_was_recorded_and_the_rest_stays() {
        let page = format!("above\n{BEGIN}\n| old |\n\n{END}\nbelow\n");
        let empty = render(&page, &json!({})).unwrap();
        assert_eq!(empty, format!("above\n{BEGIN}{END}\nbelow\n"));
        let report = json!({
            "ahp_delta_cpu_us_of_200_sessions": { "lodge": 5.2, "budget": 5.0, "kept": false },
            "turn_ms": { "lodge": 0.647, "budget": 1.0, "kept": true, "copilot cli": 3541.9, "times_better": 16.565 },
        });
        let shown = render(&empty, &report).unwrap();
        for row in [
            "| … 200 sessions | 5.20 µs (over) | 5 µs |",
            "| one turn with an instant model | 0.65 ms | 1 ms | 3,542 ms |  | 17 × |",
        ] {
            assert!(shown.lines().any(|line| line == row), "{row}\n{shown}");
        }
        assert_eq!(render(&shown, &json!({})).unwrap(), empty);
        assert!(render("", &report).is_err());
    }

    #[test]
    fn every_budget_is_shown() {
        const ELSEWHERE: [&str; 11] = [
            // Of one number several sizes are measured, and one is shown.
            "delta_cpu_us_of_5000",
            "ahp_further_delivery_cpu_us_of_100_clients",
            // What the others imply.
            "further_client_cpu_us_per_frame",
            "resume_100mb_extra_mb",
            "terminal_extra_mb",
            "conversation_frames_a_second",
            "read_100mb_extra_mb",
            // A run of its own: `cargo xtask bench fleet`.
            "fleet_append_p50_ms",
            "fleet_append_p99_ms",
            "fleet_events_per_s",
            "fleet_takeover_s",
        ];
        for (budget, ..) in super::super::BUDGETS {
            let is_shown = BESIDE_PEERS.iter().chain(ALONE).any(|(name, ..)| name == budget);
            assert!(is_shown != ELSEWHERE.contains(budget), "{budget}");
        }
    }
}
