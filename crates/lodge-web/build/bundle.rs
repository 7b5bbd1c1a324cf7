//! Building the page, once for what its sources hold.

use std::{
    env, fs,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::tree;

/// The oldest Node.js that the tools run on.
const OLDEST_NODE: u32 = 20;

/// The directory of the built page, or why there is none.
pub(crate) fn build(web: &Path, cache: &Path) -> Result<PathBuf, String> {
    let sources: Vec<PathBuf> = tree::SOURCES
        .iter()
        .map(|name| tree::files(&web.join(name)))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| format!("{} cannot be read: {error}", web.display()))?
        .concat();
    let hash = tree::hash(&sources).map_err(|error| error.to_string())?;
    let done = cache.join(&hash);
    if done.is_dir() {
        return Ok(done);
    }
    check_node()?;
    fs::create_dir_all(cache).map_err(|error| error.to_string())?;
    // Builds of several profiles may run at once; one of them makes the page.
    let lock = File::create(cache.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if done.is_dir() {
        return Ok(done);
    }
    let work = cache.join("work");
    tree::copy_sources(web, &work).map_err(|error| format!("the sources could not be copied: {error}"))?;
    install(&work)?;
    run(
        Command::new("node")
            .arg("node_modules/vite/bin/vite.js")
            .arg("build")
            .arg("--logLevel=error"),
        &work,
    )?;
    run(Command::new("node").arg("scripts/pack.mjs"), &work)?;
    // The name stands for a whole page, so the page is whole before it has the name.
    fs::rename(work.join("packed"), &done).map_err(|error| error.to_string())?;
    Ok(done)
}

fn check_node() -> Result<(), String> {
    let wanted = format!("Node.js {OLDEST_NODE} or newer with npm is needed");
    let output = Command::new("node").arg("--version").output();
    let output = output.map_err(|_| format!("{wanted}, and node is not there"))?;
    let version = String::from_utf8_lossy(&output.stdout)
        .trim()
        .trim_start_matches('v')
        .to_owned();
    let major: u32 = version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok())
        .unwrap_or(0);
    if major < OLDEST_NODE {
        return Err(format!("{wanted}, and this is {version}"));
    }
    Ok(())
}

/// Installs what the lock file names, unless it is there.
fn install(work: &Path) -> Result<(), String> {
    let lock = fs::read_to_string(work.join("package-lock.json")).map_err(|error| error.to_string())?;
    // Among what it vouches for: npm begins by removing all of it.
    let stamp = work.join("node_modules/.lodge-installed");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == lock) {
        return Ok(());
    }
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let mut command = Command::new(npm);
    command
        .args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
            "--fetch-retries=1",
            "--fetch-retry-mintimeout=500",
            "--fetch-retry-maxtimeout=1000",
        ])
        .env("npm_config_update_notifier", "false");
    if env::var("CARGO_NET_OFFLINE").is_ok_and(|offline| offline == "true") {
        command.arg("--offline");
    }
    run(&mut command, work)?;
    fs::write(stamp, lock).map_err(|error| error.to_string())
}

fn run(command: &mut Command, dir: &Path) -> Result<(), String> {
    let said = format!("{command:?}");
    let output = command
        .current_dir(dir)
        .output()
        .map_err(|error| format!("{said} did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(if output.stderr.is_empty() {
        &output.stdout
    } else {
        &output.stderr
    })
    .into_owned();
    // Tools say first what is wrong, and then at length what could be done.
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(4).collect();
    Err(format!("{said} failed: {}", lines.join(" ")))
}
