//! `cargo xtask soak`: tests that go on much longer than anybody waits for.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

use crate::sh;

/// One soak: its name, the test binary it runs, and the variable that says how long.
const SOAKS: &[(&str, [&str; 5], &str, u64)] = &[
    (
        "crash",
        ["--package", "lodge", "--test", "it", "crash::"],
        "LODGE_CRASH_ROUNDS",
        3000,
    ),
    (
        "sync",
        ["--package", "lodge-ahp", "--test", "it", "sync::"],
        "LODGE_SYNC_RUNS",
        5000,
    ),
    (
        "agent",
        ["--package", "lodge-host", "--test", "it", "soak::"],
        "LODGE_SOAK_ROUNDS",
        4000,
    ),
    (
        "accepted",
        ["--package", "lodge", "--test", "it", "accepted"],
        "LODGE_ACCEPTED_ROUNDS",
        500,
    ),
    (
        "fleet",
        ["--package", "lodge-fleet", "--test", "it", "faults::"],
        "LODGE_FLEET_FAULTS",
        250,
    ),
    (
        "hosts",
        [
            "--package",
            "lodge",
            "--features=fleet",
            "--test=it",
            "fleet::campaign::",
        ],
        "LODGE_FLEET_HOST_FAULTS",
        100,
    ),
    (
        "strangers",
        ["--package", "lodge", "--test", "it", "strangers::"],
        "LODGE_STRANGER_ROUNDS",
        20,
    ),
];

/// A test that failed on loaded machines, run again and again while all processors are busy.
const LOADED: (&str, [&str; 6], u64) = (
    "loaded",
    [
        "--package",
        "lodge-ahp",
        "--test",
        "it",
        "--",
        "conformance::a_session_is_in_the_list_as_soon_as_it_is_made_unless_an_editor_drafts_it",
    ],
    200,
);
const HOGS: usize = 4;

/// Runs a soak, for so many rounds where given.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let (name, rounds) = match args {
        [name] => (*name, None),
        [name, rounds] => (
            *name,
            Some(rounds.parse::<u64>().context("the number of rounds is a number")?),
        ),
        _ => bail!("usage: cargo xtask soak NAME [ROUNDS]"),
    };
    if name == LOADED.0 {
        return loaded(rounds.unwrap_or(LOADED.2));
    }
    let Some((_, test, variable, usual)) = SOAKS.iter().find(|soak| soak.0 == name) else {
        bail!(
            "no soak is called {name}; there are: {}",
            SOAKS
                .iter()
                .map(|soak| soak.0)
                .chain([LOADED.0])
                .collect::<Vec<_>>()
                .join(" ")
        );
    };
    let rounds = rounds.unwrap_or(*usual).to_string();
    println!("{name}: {rounds} rounds; LODGE_SEED replays one that fails");
    sh::run(
        sh::cargo()
            .args(["test", "--locked"])
            .args(test)
            .args(["--", "--nocapture"])
            .env(variable, rounds),
    )
}

fn loaded(rounds: u64) -> Result<()> {
    let (name, test, _) = LOADED;
    println!("{name}: {rounds} rounds beside {HOGS} threads that never rest");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..HOGS {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let rounds = (1..=rounds).try_for_each(|round| {
            println!("round {round}");
            sh::run(
                sh::cargo()
                    .args(["test", "--locked", "--quiet"])
                    .args(test)
                    .arg("--exact"),
            )
        });
        over.store(true, Ordering::Relaxed);
        rounds
    })
}
