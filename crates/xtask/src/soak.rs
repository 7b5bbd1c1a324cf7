//! `cargo xtask soak`: tests that go on much longer than anybody waits for.

use std::{
    fs::OpenOptions,
    io::Write,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{clients, sh};

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

/// The soaks that need NATS servers.
const ON_SERVERS: [&str; 2] = ["fleet", "hosts"];
/// What all of them counted, in the repository.
const TALLY: &str = "tests/soak-tally.txt";
/// A run keeps so many lines that say what was counted, beside the results of its tests.
const COUNTED: usize = 12;

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
    let mut soak = sh::cargo();
    soak.args(["test", "--locked"])
        .args(test)
        .args(["--", "--nocapture"])
        .env(variable, &rounds);
    if ON_SERVERS.contains(&name) {
        clients::install_nats()?;
        soak.env("LODGE_REQUIRE_CLIENTS", "1");
    }
    tallied(name, &rounds, &mut soak)
}

/// Runs a soak, and keeps what it counted: one line for each run, beside what was built.
fn tallied(name: &str, rounds: &str, soak: &mut Command) -> Result<()> {
    let (mut counted, mut results) = (Vec::new(), Vec::new());
    let passed = sh::watch(soak, |line| {
        if let Some(result) = result(line) {
            results.push(result.to_owned());
        } else if let Some(tally) = tally(line).filter(|_| counted.len() < COUNTED) {
            counted.push(tally.to_owned());
        }
    })?;
    let ran = !results.is_empty();
    counted.append(&mut results);
    let read = |program: &str, args: &[&str]| sh::read(sh::command(program).args(args));
    let when = read("date", &["-u", "+%Y-%m-%dT%H:%MZ"])?;
    let commit = read("git", &["describe", "--always", "--dirty"])?;
    let verdict = if passed { "passed" } else { "FAILED" };
    let line = format!(
        "{} {} {name} {rounds} {verdict}: {}\n",
        when.trim(),
        commit.trim(),
        counted.join("; ")
    );
    let file = sh::root().join(TALLY);
    let mut tally = OpenOptions::new().append(true).create(true).open(&file)?;
    tally.write_all(line.as_bytes())?;
    println!("added to {}: {}", file.display(), line.trim());
    ensure!(passed, "the soak failed");
    ensure!(ran, "no test of the soak ran");
    Ok(())
}

/// What a line says of the seed, of the faults and of what was accepted. The test runner may have printed something in front
/// of it.
fn tally(line: &str) -> Option<&str> {
    let counts = |line: &str| line.contains(" were accepted") || line.contains(" kills came ");
    let begins = line.find("LODGE_SEED=").or_else(|| counts(line).then_some(0))?;
    line.get(begins..)
}

/// What the test runner says of tests that ran: how many passed and failed.
fn result(line: &str) -> Option<&str> {
    let result = line.strip_prefix("test result: ")?;
    let of_none = result.contains(" 0 passed; 0 failed");
    result.split("; 0 ignored").next().filter(|_| !of_none)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_has_the_seed_the_faults_and_what_was_accepted() {
        assert_eq!(tally("test faults ... LODGE_SEED=7"), Some("LODGE_SEED=7"));
        let accepted = "120 events were accepted, 120 are there";
        assert_eq!(tally(accepted), Some(accepted));
        let killed = "41 of 60 kills came in the middle of a turn";
        assert_eq!(tally(killed), Some(killed));
        assert_eq!(tally("running 1 test"), None);
        assert_eq!(
            tally("test accepted::what_a_client_heard_as_accepted_is_there ... ok"),
            None
        );
    }

    #[test]
    fn results_of_tests_that_ran_are_kept() {
        let line = "test result: ok. 6 passed; 0 failed; 0 ignored; 0 measured; 300 filtered out; finished in 1.00s";
        assert_eq!(result(line), Some("ok. 6 passed; 0 failed"));
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s";
        assert_eq!(result(none), None);
        assert_eq!(result("running 1 test"), None);
    }

    #[test]
    fn soaks_on_servers_are_soaks() {
        for name in ON_SERVERS {
            assert!(SOAKS.iter().any(|soak| soak.0 == name), "{name}");
        }
    }
}
