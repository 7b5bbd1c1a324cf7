//! `cargo xtask bench`: every number next to its budget, and beside the peers when asked, all in one run.
//!
//! Two cores and much noise are normal here: compare ratios and processor time, not wall time of different runs.

mod acp;
mod ahp;
pub(crate) mod chart;
mod client;
mod conversation;
mod files;
mod fleet;
mod logs;
mod measures;
mod model;
pub(crate) mod page;
mod process;
mod streams;
mod terminal;
mod watchers;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use crate::sh;
use measures::{Given, MEASURES};

/// Versions of the peers, pinned so that two runs compare the same things.
const PEERS: &[&str] = &["@github/copilot@1.0.102", "@github/copilot-sdk-linux-x64@1.0.14"];

/// The design's budgets, and how many times better than the better peer we want to be where that is said.
/// Less is better, unless the name says `per_s`.
const BUDGETS: &[(&str, f64, Option<f64>)] = &[
    ("binary_mb", 30.0, None),
    ("start_to_connected_ms", 3.0, Some(2.0)),
    ("start_to_session_ms", 10.0, None),
    ("ping_ms", 0.1, None),
    ("memory_at_start_mb", 10.5, Some(2.0)),
    ("memory_100_idle_sessions_mb", 15.0, None),
    ("memory_per_idle_session_kb", 23.0, Some(8.0)),
    ("turn_ms", 1.0, Some(15.0)),
    ("tool_round_trip_ms", 0.8, None),
    ("delta_cpu_us_without_clients", 5.0, None),
    ("delta_cpu_us_of_5000", 2.5, Some(30.0)),
    ("delta_cpu_us_of_50000", 2.5, Some(30.0)),
    ("deltas_wrong_of_50000", 0.0, None),
    ("memory_peak_of_50000_mb", 30.0, None),
    ("sixteen_sessions_deltas_per_s", 190_000.0, Some(20.0)),
    ("delay_p50_ms", 0.1, None),
    ("delay_p99_ms", 1.0, None),
    ("further_client_cpu_us_per_frame", 1.0, None),
    ("resume_500_turns_ms", 8.0, Some(10.0)),
    ("resume_100mb_ms", 2.0, None),
    ("resume_100mb_extra_mb", 10.0, None),
    ("terminal_mb_per_s", 100.0, None),
    ("terminal_extra_mb", 10.0, None),
    ("conversation_delta_cpu_us", 20.0, None),
    ("conversation_frames_a_second", 63.0, None),
    ("conversation_100000_lines_mb", 80.0, None),
    ("lost_by_kill_mid_stream", 0.0, None),
    ("lost_by_kill_tool_pending", 0.0, None),
    ("lost_by_kill_at_idle", 0.0, None),
    ("ahp_delta_cpu_us_of_1_client", 12.0, None),
    ("ahp_further_delivery_cpu_us_of_10_clients", 1.0, None),
    ("ahp_further_delivery_cpu_us_of_100_clients", 1.0, None),
    ("ahp_further_delivery_cpu_us_of_1000_clients", 1.0, None),
    ("ahp_delta_cpu_us_of_1_session", 5.0, None),
    ("ahp_delta_cpu_us_of_16_sessions", 5.0, None),
    ("ahp_delta_cpu_us_of_64_sessions", 5.0, None),
    ("ahp_delta_cpu_us_of_200_sessions", 5.0, None),
    ("ahp_never_reading_client_extra_mb", 24.0, None),
    ("ahp_list_1000_sessions_ms", 20.0, None),
    ("ahp_first_list_10000_sessions_ms", 1_000.0, None),
    ("ahp_list_10000_sessions_ms", 20.0, None),
    ("ahp_memory_10000_sessions_mb", 40.0, None),
    ("ahp_open_10000_turns_ms", 200.0, None),
    ("ahp_subscribe_10000_turns_ms", 20.0, None),
    ("ahp_replay_10000_actions_ms", 20.0, None),
    ("acp_start_to_initialized_ms", 10.0, None),
    ("acp_turn_ms", 3.0, None),
    ("list_10000_entries_ms", 10.0, None),
    ("read_100mb_mb_per_s", 200.0, None),
    ("read_100mb_extra_mb", 250.0, None),
    ("completions_100000_ms", 20.0, None),
    ("fleet_append_p50_ms", 2.0, None),
    ("fleet_append_p99_ms", 15.0, None),
    ("fleet_events_per_s", 5_000.0, None),
    ("fleet_takeover_s", 20.0, None),
];

/// Where the numbers of a recorded run are.
const RECORDED: &str = "docs/bench.json";

type Results = BTreeMap<String, BTreeMap<&'static str, f64>>;

/// What a second `--binary` is called in the report.
const SECOND: &str = "second build";

/// How many times worse a number of the second build has to be to be listed.
const WORSE: f64 = 1.1;

/// Runs it. `--binary` measures another build, and a second one beside it; `--record` keeps the numbers for `docs/`.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    if let ["fleet", args @ ..] = args {
        return fleet::run(args);
    }
    if cfg!(debug_assertions) && !args.contains(&"--quick") {
        // The client shares the machine with what it measures, so it has to be a release build as well, unless this is only to
        // see that everything works.
        return sh::run(
            sh::cargo()
                .args([
                    "run",
                    "--release",
                    "--locked",
                    "--quiet",
                    "--package",
                    "xtask",
                    "--",
                    "bench",
                ])
                .args(args),
        );
    }
    let (mut peers, mut only, mut quick, mut binaries, mut record) = (false, None, false, Vec::new(), false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--peer" if args.next() == Some(&"copilot") => peers = true,
            "--only" => {
                only = Some(
                    args.next()
                        .context("--only wants names")?
                        .split(',')
                        .collect::<Vec<_>>(),
                )
            }
            "--quick" => quick = true,
            "--record" => record = true,
            "--binary" if binaries.len() < 2 => {
                let path = Path::new(args.next().context("--binary wants a path")?);
                binaries.push(fs::canonicalize(path).with_context(|| format!("cannot measure {}", path.display()))?);
            }
            _ => bail!(
                "usage: cargo xtask bench [--peer copilot] [--only NAME,NAME] [--quick] [--record] [--binary PATH [--binary PATH]]\nnames: rates, {}\nor: cargo xtask bench fleet [--quick]",
                names()
            ),
        }
    }
    // `ahp` stands for all of its measures.
    let wanted = |name: &str| {
        let named = |only: &Vec<&str>| only.contains(&name) || (name.starts_with("ahp ") && only.contains(&"ahp"));
        only.as_ref().is_none_or(named)
    };
    if binaries.is_empty() {
        eprintln!("building the release binary");
        sh::run(sh::cargo().args(["build", "--release", "--locked", "--package", "lodge"]))?;
        binaries.push(sh::lodge("release"));
    }
    let names = ["lodge", SECOND].map(str::to_owned);
    let mut servers: Vec<(String, PathBuf)> = names.into_iter().zip(binaries).collect();
    if peers {
        servers.extend(install()?);
    }
    let url = model::start()?;
    let mut results = Results::new();
    if wanted("rates") {
        results.entry("lodge".into()).or_default().extend(rates()?);
    }
    for (name, measure) in MEASURES.iter().filter(|(name, _)| wanted(name)) {
        for (server, program) in &servers {
            eprintln!("measuring {name}: {server}");
            let home = tempfile::Builder::new().prefix("lodge-bench-").tempdir()?;
            match measure(&Given {
                program,
                home: home.path(),
                url: &url,
                quick,
            }) {
                Ok(numbers) => {
                    for (number, value) in &numbers {
                        eprintln!("  {number}: {}", round(*value));
                    }
                    results.entry(server.clone()).or_default().extend(numbers);
                }
                Err(error) => eprintln!("  {server} could not be measured: {error:#}"),
            }
        }
    }
    let report = report(&results);
    let text = serde_json::to_string_pretty(&report)?;
    println!("{text}");
    if servers.iter().any(|(server, _)| server == SECOND) {
        let worse = worse(&results);
        eprintln!("worse in the second build by more than a tenth: {}", worse.len());
        for line in worse {
            eprintln!("  {line}");
        }
    }
    if record {
        fs::write(sh::root().join(RECORDED), text + "\n")?;
        eprintln!("kept in {RECORDED}; `cargo xtask docs` shows it");
    }
    Ok(())
}

/// The numbers of the last recorded run.
pub(crate) fn recorded() -> Result<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(sh::root().join(RECORDED))?)?)
}

fn names() -> String {
    MEASURES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn more_is_better(name: &str) -> bool {
    name.contains("per_s")
}

/// The numbers that are worse in the second build by more than a tenth.
fn worse(results: &Results) -> Vec<String> {
    let (Some(first), Some(second)) = (results.get("lodge"), results.get(SECOND)) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for (name, first) in first {
        let Some(second) = second.get(name) else { continue };
        let (better, worse) = match more_is_better(name) {
            true => (second, first),
            false => (first, second),
        };
        if *worse > better * WORSE {
            let times = worse / better;
            lines.push(format!("{name}: {} → {} ({times:.2} ×)", round(*first), round(*second)));
        }
    }
    lines
}

/// Every number of ours with its budget and how it stands to the better peer.
fn report(results: &Results) -> Value {
    let mut report = Map::new();
    let names: std::collections::BTreeSet<&str> =
        results.values().flat_map(|numbers| numbers.keys().copied()).collect();
    for name in names {
        let more_is_better = more_is_better(name);
        let mut row = Map::new();
        for (server, numbers) in results {
            row.insert(
                server.clone(),
                numbers.get(name).map_or(Value::Null, |number| round(*number)),
            );
        }
        let ours = results.get("lodge").and_then(|numbers| numbers.get(name)).copied();
        let better = results
            .iter()
            .filter(|(server, _)| *server != "lodge" && *server != SECOND)
            .filter_map(|(_, numbers)| numbers.get(name).copied());
        let better = better.reduce(|a, b| if (a < b) == more_is_better { b } else { a });
        let times = |other: f64, ours: f64| if more_is_better { ours / other } else { other / ours };
        if let Some((_, budget, aim)) = BUDGETS.iter().find(|(listed, ..)| *listed == name) {
            row.insert("budget".into(), round(*budget));
            if let Some(ours) = ours {
                let kept = if more_is_better {
                    ours >= *budget
                } else {
                    ours <= *budget
                };
                row.insert("kept".into(), kept.into());
            }
            if let (Some(aim), Some(_)) = (aim, better) {
                row.insert("times_better_wanted".into(), round(*aim));
            }
        }
        if let (Some(better), Some(ours)) = (better, ours)
            && ours > 0.0
        {
            row.insert("times_better".into(), round(times(better, ours)));
        }
        report.insert(name.to_owned(), row.into());
    }
    json!(report)
}

fn round(number: f64) -> Value {
    let digits = if number.abs() >= 100.0 { 1.0 } else { 1000.0 };
    json!((number * digits).round() / digits)
}

/// Installs the peers, below `target/bench` only.
fn install() -> Result<Vec<(String, PathBuf)>> {
    let dir = sh::target().join("bench");
    fs::create_dir_all(&dir)?;
    let modules = dir.join("node_modules");
    if !modules.join("@github/copilot").is_dir() || measures::native(&modules).is_err() {
        let npm = [
            "install",
            "--no-audit",
            "--no-fund",
            "--no-save",
            "--ignore-scripts",
            "--loglevel=error",
            "--prefix",
        ];
        sh::run(sh::command("npm").args(npm).arg(&dir).args(PEERS))?;
    }
    let cli = modules.join("@github/copilot-linux-x64/copilot");
    if !cli.is_file() {
        bail!("npm installed no {}", cli.display());
    }
    Ok(vec![
        ("copilot cli".into(), cli),
        ("native runtime".into(), measures::native(&modules)?),
    ])
}

/// Rates inside the process: encode, append, read.
fn rates() -> Result<BTreeMap<&'static str, f64>> {
    let example = sh::root().join("crates/lodge/examples/rates.rs");
    if !Path::new(&example).is_file() {
        return Ok(BTreeMap::new());
    }
    let text = sh::read(sh::cargo().args([
        "run",
        "--release",
        "--locked",
        "--quiet",
        "--package",
        "lodge",
        "--example",
        "rates",
    ]))?;
    let rates: BTreeMap<String, f64> = serde_json::from_str(&text)?;
    // The names live as long as the program; there are a handful.
    Ok(rates
        .into_iter()
        .map(|(name, number)| (&*name.leak(), number))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_second_build_does_worse_is_listed() {
        let results = |numbers: [(&'static str, f64); 5]| BTreeMap::from(numbers);
        let first = results([
            ("a_ms", 1.0),
            ("b_ms", 1.0),
            ("c_per_s", 100.0),
            ("d_per_s", 100.0),
            ("lost", 0.0),
        ]);
        let second = results([
            ("a_ms", 1.05),
            ("b_ms", 1.2),
            ("c_per_s", 95.0),
            ("d_per_s", 80.0),
            ("lost", 1.0),
        ]);
        let both = Results::from([("lodge".to_owned(), first), (SECOND.to_owned(), second)]);
        assert_eq!(
            worse(&both),
            [
                "b_ms: 1.0 → 1.2 (1.20 ×)",
                "d_per_s: 100.0 → 80.0 (1.25 ×)",
                "lost: 0.0 → 1.0 (inf ×)"
            ]
        );
        // A second build is no peer.
        assert_eq!(report(&both)["a_ms"].get("times_better"), None);
    }
}
