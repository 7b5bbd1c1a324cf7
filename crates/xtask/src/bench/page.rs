//! The part of `docs/bench.md` that is made from the recorded numbers.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

const BEGIN: &str = "<!-- recorded: `cargo xtask docs` writes what follows -->\n";
const END: &str = "<!-- /recorded -->";

/// What is shown: the number's name in the report, its label and its unit.
const ROWS: &[(&str, &str, &str)] = &[
    (
        "ahp_delta_cpu_us_of_1_session",
        "processor time per delta, 1 session that streams to a client of its own",
        "µs",
    ),
    ("ahp_delta_cpu_us_of_16_sessions", "… 16 sessions", "µs"),
    ("ahp_delta_cpu_us_of_64_sessions", "… 64 sessions", "µs"),
    ("ahp_delta_cpu_us_of_200_sessions", "… 200 sessions", "µs"),
    (
        "ahp_first_list_10000_sessions_ms",
        "first list of 10,000 sessions whose logs were copied in",
        "ms",
    ),
    ("ahp_list_10000_sessions_ms", "later lists of them", "ms"),
    ("ahp_memory_10000_sessions_mb", "memory of the host then", "MB"),
];

/// The page with the numbers of a recorded run.
pub(crate) fn render(page: &str, report: &Value) -> Result<String> {
    let (before, rest) = page
        .split_once(BEGIN)
        .context("docs/bench.md has no place for the recorded numbers")?;
    let (_, after) = rest
        .split_once(END)
        .context("the place for the recorded numbers in docs/bench.md does not end")?;
    let mut table = String::new();
    for (name, label, unit) in ROWS {
        let row = &report[name];
        let Some(ours) = row["lodge"].as_f64() else { continue };
        if table.is_empty() {
            table.push_str("\n| what | Lodge | budget |\n|---|---|---|\n");
        }
        let budget = row["budget"]
            .as_f64()
            .map_or_else(String::new, |budget| format!("{budget} {unit}"));
        writeln!(table, "| {label} | {ours} {unit} | {budget} |")?;
    }
    if !table.is_empty() {
        table.push('\n');
    }
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
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
        let report = json!({ "ahp_delta_cpu_us_of_200_sessions": { "lodge": 4.2, "budget": 5.0 } });
        let shown = render(&empty, &report).unwrap();
        assert!(shown.contains("\n| … 200 sessions | 4.2 µs | 5 µs |\n"), "{shown}");
        assert_eq!(render(&shown, &json!({})).unwrap(), empty);
        assert!(render("", &report).is_err());
    }

    #[test]
    fn every_row_has_a_budget() {
        for (name, ..) in ROWS {
            assert!(super::super::BUDGETS.iter().any(|(known, ..)| known == name), "{name}");
        }
    }
}
