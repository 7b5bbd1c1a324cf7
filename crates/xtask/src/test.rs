//! `cargo xtask test`: everything that must hold, from a fresh clone.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{clients, deps, dist, docs, features, sh};

/// How a step went: tests that passed, failed, and could not run here. A step that is one check counts as one.
#[derive(Clone, Copy, Default)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

type Step = (&'static str, fn() -> Result<Count>);

/// All steps, in order. What is quick to fail comes first.
const STEPS: &[Step] = &[
    ("clients", || one(clients::install_all())),
    ("deps", || {
        one(deps::check()
            .and_then(|()| features::check())
            .and_then(|()| deps::deny()))
    }),
    ("fmt", || one(sh::run(sh::cargo().args(["fmt", "--all", "--check"])))),
    ("clippy", || {
        one(lint(&[]).and_then(|()| lint(&["--features", "lodge/fleet"])))
    }),
    ("docs", || one(docs::check())),
    ("rust", rust),
    ("fleet", fleet),
    ("node", node),
    ("page", page),
    ("python", python),
    ("go", go),
    ("java", java),
    ("rust-sdk", || one(rust_sdk())),
    ("rust-acp", rust_acp),
    ("packages", packages),
];

/// Runs the steps, or those of `--only a,b`.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let only: Option<Vec<&str>> = match args {
        [] => None,
        ["--only", list] => Some(list.split(',').collect()),
        _ => bail!("usage: cargo xtask test [--only STEP,STEP]"),
    };
    if let Some(unknown) = only
        .iter()
        .flatten()
        .find(|wanted| STEPS.iter().all(|(name, _)| name != *wanted))
    {
        bail!(
            "no step is called {unknown}; there are: {}",
            STEPS.iter().map(|step| step.0).collect::<Vec<_>>().join(" ")
        );
    }
    let mut total = Count::default();
    let mut lines = Vec::new();
    for (name, step) in STEPS
        .iter()
        .filter(|(name, _)| only.as_ref().is_none_or(|only| only.contains(name)))
    {
        println!("\n== {name}");
        let start = Instant::now();
        let count = step().unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Count {
                failed: 1,
                ..Count::default()
            }
        });
        total += count;
        lines.push(line(name, count, start.elapsed()));
    }
    println!(
        "\n== summary\n{}\n{} passed, {} failed, {} skipped",
        lines.join("\n"),
        total.passed,
        total.failed,
        total.skipped
    );
    if total.failed > 0 {
        bail!("some steps failed")
    } else {
        Ok(())
    }
}

fn line(name: &str, count: Count, took: Duration) -> String {
    let verdict = match count {
        Count { failed: 1.., .. } => "FAILED",
        Count { skipped: 1.., .. } => "skipped",
        _ => "ok",
    };
    let counts = format!("{} of {}", count.passed, count.passed + count.failed);
    format!("{name:<8} {verdict:<7} {counts:>12}  {:>7.1} s", took.as_secs_f64())
}

fn one(outcome: Result<()>) -> Result<Count> {
    outcome.map(|()| Count {
        passed: 1,
        ..Count::default()
    })
}

/// What cannot be tested on this machine is skipped; in CI nothing may be.
fn skip(why: &str) -> Result<Count> {
    if std::env::var_os("CI").is_some() {
        bail!("{why}, and CI must test everything");
    }
    println!("skipped: {why}");
    Ok(Count {
        skipped: 1,
        ..Count::default()
    })
}

/// The count of a runner; one that fails without saying which test did is itself a failure.
fn runner(mut count: Count, succeeded: bool) -> Count {
    if !succeeded && count.failed == 0 {
        count.failed = 1;
    }
    count
}

/// The number before or after a word: `3 passed`, `pass 3`.
fn number(text: &str) -> usize {
    text.split_whitespace()
        .find_map(|word| word.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok())
        .unwrap_or(0)
}

/// A home for the tests. Terminals start the shell of whoever runs them: what that person has it do at its start, and what
/// else lies in a home, is no part of the tests.
fn empty_home() -> Result<PathBuf> {
    let home = sh::target().join("test-home");
    fs::create_dir_all(&home)?;
    Ok(home)
}

/// Lints everything. With the feature `fleet`, only the crate `lodge` is another: the workspace has all that it needs for that.
fn lint(features: &[&str]) -> Result<()> {
    let lint = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet"];
    let deny = ["--", "-D", "warnings"];
    sh::run(with_page(&mut sh::cargo()).args(lint).args(features).args(deny))
}

fn rust() -> Result<Count> {
    cargo_test(&["--workspace", "--exclude", "lodge-fleet"], &[])
}

/// Sessions on real NATS servers.
fn fleet() -> Result<Count> {
    clients::install_nats()?;
    let mut count = cargo_test(&["--package", "lodge-fleet"], &[])?;
    count += cargo_test(
        &["--package", "lodge", "--features", "fleet", "--test", "it"],
        &["fleet::", "docs::commands_that", "docs::every_fleet"],
    )?;
    Ok(count)
}

fn cargo_test(packages: &[&str], tests: &[&str]) -> Result<Count> {
    let mut cargo = sh::cargo();
    with_page(&mut cargo)
        .arg("test")
        .args(packages)
        .args(["--locked", "--no-fail-fast", "--quiet", "--"])
        .args(tests)
        .env("LODGE_REQUIRE_CLIENTS", "1");
    let home = std::env::home_dir().unwrap_or_default();
    for (name, dir) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if std::env::var_os(name).is_none() {
            cargo.env(name, home.join(dir));
        }
    }
    libtest(cargo.env("HOME", empty_home()?))
}

/// Runs cargo's tests and counts them.
fn libtest(cargo: &mut Command) -> Result<Count> {
    let mut count = Count::default();
    let succeeded = sh::watch(cargo, |line| {
        if let Some(result) = line.strip_prefix("test result: ") {
            for part in result.split(['.', ';']) {
                match part.split_whitespace().collect::<Vec<_>>()[..] {
                    [n, "passed"] => count.passed += number(n),
                    [n, "failed"] => count.failed += number(n),
                    _ => {}
                }
            }
        }
    })?;
    Ok(runner(count, succeeded))
}

/// The clients' tests run against the debug binary.
fn build() -> Result<()> {
    sh::run(with_page(&mut sh::cargo()).args(["build", "--locked", "--quiet", "--package", "lodge"]))
}

/// Fails the build when the page cannot be built, instead of warning.
fn with_page(cargo: &mut Command) -> &mut Command {
    cargo.env("LODGE_WEB", "require")
}

fn node() -> Result<Count> {
    clients::install_all()?;
    build()?;
    node_tests(&clients::source("node"), Duration::from_secs(180), &[])
}

/// The page, in a real browser.
fn page() -> Result<Count> {
    clients::install_page()?;
    build()?;
    let at = clients::page_source();
    check_types(&at.join("node_modules/typescript/bin/tsc"))?;
    let browser = clients::unpack_browser()?;
    let shots = sh::target().join("page-shots");
    let variables: [(&str, &Path); 2] = [("LODGE_CHROMIUM_DIR", &browser), ("LODGE_SHOTS", &shots)];
    // Every view is looked at in every layout and colour: on a busy machine that takes minutes.
    let mut count = node_tests(&at, Duration::from_secs(600), &variables)?;
    count.passed += 1;
    Ok(count)
}

/// Checks the types of the page: its bundler leaves them out without a look.
fn check_types(tsc: &Path) -> Result<()> {
    let installed = sh::target().join("web/work/node_modules");
    if !installed.is_dir() {
        bail!("the page was not built: run “LODGE_WEB=require cargo build”, which says why");
    }
    let web = sh::root().join("web");
    clients::link_modules(&installed, &web)?;
    sh::run(sh::command("node").arg(tsc).arg("-p").arg(web))
}

fn node_tests(at: &Path, patience: Duration, variables: &[(&str, &Path)]) -> Result<Count> {
    let mut count = Count::default();
    let files = files(at, ".test.mjs")?;
    let mut node = sh::command("node");
    node.envs(variables.iter().copied());
    // A client that keeps a socket open must not keep the run from ending.
    node.args([
        "--test",
        "--test-force-exit",
        "--test-reporter=spec",
        "--test-concurrency=2",
    ])
    .arg(format!("--test-timeout={}", patience.as_millis()))
    .args(files)
    .env("HOME", empty_home()?)
    .env("LODGE_REQUIRE_CLIENTS", "1")
    .env("LODGE_BIN", sh::lodge("debug"));
    let succeeded = sh::watch(
        &mut node,
        |line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["ℹ" | "#", "pass", n] => count.passed += number(n),
            ["ℹ" | "#", "fail" | "cancelled", n] => count.failed += number(n),
            _ => {}
        },
    )?;
    Ok(runner(count, succeeded))
}

fn python() -> Result<Count> {
    clients::install_all()?;
    build()?;
    let mut count = Count::default();
    let mut python = sh::command(clients::python());
    python
        .arg(clients::source("python").join("run.py"))
        .env("HOME", empty_home()?)
        .env("LODGE_BIN", sh::lodge("debug"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let succeeded = sh::watch(&mut python, |line| {
        if line.starts_with("Ran ") {
            count.passed += number(line);
        }
        if line.starts_with("FAILED (") {
            let bad = line
                .split([',', '('])
                .filter(|part| part.contains("failures=") || part.contains("errors="));
            count.failed += bad.map(number).sum::<usize>();
            count.passed -= count.failed.min(count.passed);
        }
    })?;
    Ok(runner(count, succeeded))
}

fn go() -> Result<Count> {
    if sh::version("go", "version").is_none() {
        return skip("the Go SDK needs Go, which is not installed");
    }
    build()?;
    let mut count = go_test(&clients::source("go"))?;
    match clients::install_go_ahp() {
        Ok(at) => count += go_test(&at)?,
        // Not every module proxy has it, so CI may do without.
        Err(error) => {
            println!("skipped: the AHP client for Go cannot be fetched: {error:#}");
            count.skipped += 1;
        }
    }
    Ok(count)
}

fn go_test(at: &Path) -> Result<Count> {
    let mut count = Count::default();
    let mut go = sh::command("go");
    go.current_dir(at)
        .args(["test", "-count=1", "-v", "-mod=readonly", "./..."])
        .env("LODGE_BIN", sh::lodge("debug"));
    let succeeded = sh::watch(&mut go, |line| {
        count.passed += usize::from(line.starts_with("--- PASS: "));
        count.failed += usize::from(line.starts_with("--- FAIL: "));
    })?;
    Ok(runner(count, succeeded))
}

fn java() -> Result<Count> {
    if sh::version("mvn", "--version").is_none() || sh::version("javac", "-version").is_none() {
        return skip("the Java SDK needs mvn and javac, which are not both installed");
    }
    build()?;
    let mut count = Count::default();
    let mut mvn = sh::command("mvn");
    mvn.current_dir(clients::source("java"))
        .args(["--batch-mode", "--no-transfer-progress", "test"])
        .arg(format!("-DbuildDirectory={}", clients::dir("java").display()))
        .env("LODGE_BIN", sh::lodge("debug"));
    let succeeded = sh::watch(&mut mvn, |line| {
        // The plugin reports each class, with its name or time, and then all together, without.
        if let Some(result) = line
            .split("Tests run: ")
            .nth(1)
            .filter(|_| !line.contains("Time elapsed"))
        {
            let numbers: Vec<usize> = result.split(',').map(number).collect();
            if let [run, failures, errors, skipped] = numbers[..] {
                count.failed = failures + errors;
                count.passed = run - failures - errors - skipped;
            }
        }
    })?;
    Ok(runner(count, succeeded))
}

/// What people install, made from the debug binary.
fn packages() -> Result<Count> {
    build()?;
    let (passed, failed) = dist::check(&sh::lodge("debug"))?;
    Ok(Count {
        passed,
        failed,
        skipped: 0,
    })
}

/// The example on the Rust SDK. It is a package of its own, so that the SDK's dependencies are not ours.
fn rust_sdk() -> Result<()> {
    build()?;
    let target = clients::dir("rust");
    let dir = sh::root().join("examples/rust");
    sh::run(
        sh::cargo()
            .current_dir(dir)
            .args(["build", "--locked", "--quiet"])
            .env("CARGO_TARGET_DIR", &target),
    )?;
    let work = tempfile::tempdir()?;
    let app = target
        .join("debug")
        .join(format!("lodge-example{}", std::env::consts::EXE_SUFFIX));
    let printed = sh::read(
        sh::command(app)
            .current_dir(work.path())
            .env("LODGE_BIN", sh::lodge("debug")),
    )?;
    print!("{printed}");
    if printed != std::fs::read_to_string(sh::root().join("examples/expected.txt"))? {
        bail!("the example did not print what examples/expected.txt says");
    }
    Ok(())
}

/// The official Rust client of ACP. It is a package of its own for the same reason.
fn rust_acp() -> Result<Count> {
    build()?;
    let mut cargo = sh::cargo();
    cargo
        .current_dir(clients::source("rust"))
        .args(["test", "--locked", "--quiet", "--no-fail-fast"])
        .env("CARGO_TARGET_DIR", clients::dir("rust"))
        .env("LODGE_BIN", sh::lodge("debug"));
    libtest(&mut cargo)
}

fn files(dir: &std::path::Path, end: &str) -> Result<Vec<std::path::PathBuf>> {
    let mut found: Vec<_> = std::fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    found.sort();
    Ok(found)
}
