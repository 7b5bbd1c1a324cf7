//! The host of a conversation: started in the background if none runs, and stopped when nobody needs it.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use lodge_host::{Home, HomeOptions, Host, LogError};

use crate::{host_file, keyring, log_file, serve::print_line};

/// How long a host may take to start, which may have to wait for the keyring, and to stop.
const START: Duration = Duration::from_secs(30).saturating_add(keyring::PATIENCE);
const STOP: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
const AGAIN: Duration = Duration::from_millis(250);
/// How long a host that nobody needs stays.
const LINGER: Duration = Duration::from_secs(15 * 60);

/// This program. While it runs, an upgrade may have put another one in its place: then that is it.
pub(crate) fn program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let text = program.to_str().and_then(|text| text.strip_suffix(" (deleted)"));
    let replaced = text.map(PathBuf::from).filter(|_| !program.exists());
    Ok(replaced.filter(|path| path.exists()).unwrap_or(program))
}

/// The program that runs here, whatever becomes of its file: another version that took its place may not understand this one.
pub(crate) fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    match running.exists() {
        true => Ok(running),
        false => std::env::current_exe(),
    }
}

/// A host that is being started, and where in the log file its own lines begin.
struct Starting {
    child: Child,
    from: u64,
}

/// Starts a host in the background. It ends at once, without an error, where the home is somebody else's.
fn start(home: &Path) -> Result<Starting> {
    std::fs::create_dir_all(home).with_context(|| format!("Cannot create {}", home.display()))?;
    let (log, from) =
        log_file::open(home).with_context(|| format!("Cannot write {}", log_file::path(home).display()))?;
    let program = program().context("Cannot find the `lodge` program to start the host")?;
    let mut command = Command::new(program);
    command
        .args(["serve", "--background"])
        .env("LODGE_HOME", home)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command.spawn().context("Cannot start the host")?;
    Ok(Starting { child, from })
}

/// Makes sure that a host runs on a home.
pub(crate) async fn ensure(home: &Path) -> Result<()> {
    if host_file::running(home)?.is_some() {
        return Ok(());
    }
    let path = log_file::path(home);
    let mut host = start(home)?;
    let patience = Instant::now() + START;
    loop {
        tokio::time::sleep(LOOK).await;
        let ended = host.child.try_wait()?;
        if host_file::running(home)?.is_some() {
            return Ok(());
        }
        match ended {
            // Another one was quicker and is about to listen, or a command has the home for a moment.
            Some(status) if status.success() => {
                tokio::time::sleep(AGAIN).await;
                if host_file::running(home)?.is_some() {
                    return Ok(());
                }
                host = start(home)?;
            }
            Some(status) => {
                let log = std::fs::read(&path).unwrap_or_default();
                let from = usize::try_from(host.from).unwrap_or(usize::MAX);
                let reason = String::from_utf8_lossy(log.get(from..).unwrap_or_default()).into_owned();
                bail!(
                    "The host did not start ({status}). {}",
                    lodge_terminal::plain(reason.trim())
                );
            }
            None => {}
        }
        if Instant::now() > patience {
            bail!("The host is taking too long to start. See {}.", path.display());
        }
    }
}

/// Tells the host of a home to stop, and waits until it has.
pub(crate) async fn stop(home: &Path) -> Result<ExitCode> {
    let patience = Instant::now() + STOP;
    let note = loop {
        if let Some(note) = host_file::running(home)? {
            break note;
        }
        if forgets(home, patience)? {
            print_line(&format!("No host is running on {}.", home.display()));
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(LOOK).await;
    };
    let pid = i32::try_from(note.pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.context("host.json has no process id")?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        .with_context(|| format!("Cannot stop the host (process {})", note.pid))?;
    let patience = Instant::now() + STOP;
    // It answers no more a moment before it lets go of the home.
    while host_file::running(home)?.is_some() || matches!(hold(home), Ok(None)) {
        if Instant::now() > patience {
            bail!("The host (process {}) did not stop.", note.pid);
        }
        tokio::time::sleep(LOOK).await;
    }
    print_line(&format!(
        "The host (process {}) has stopped. Sessions are kept.",
        note.pid
    ));
    Ok(ExitCode::SUCCESS)
}

/// Takes hold of a home for a moment, in which no host can begin. Nothing while a host has it.
fn hold(home: &Path) -> Result<Option<Home>> {
    let options = HomeOptions {
        exclusive: false,
        ..HomeOptions::default()
    };
    match Home::open(home, options) {
        Ok(open) => Ok(Some(open)),
        Err(LogError::Locked { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Takes away what a host left that was killed, so that it stays stopped. False while a host has the home: it is about to answer, or
/// to end.
fn forgets(home: &Path, patience: Instant) -> Result<bool> {
    if host_file::find(home)?.is_none() {
        return Ok(true);
    }
    match hold(home)? {
        Some(_open) => host_file::forget(home).map(|()| true),
        None if Instant::now() < patience => Ok(false),
        None => bail!("A host uses {} but does not answer.", home.display()),
    }
}

/// Until a host in the background is not needed: no client is connected and nothing works, for a while.
pub(crate) async fn not_needed(host: &Host) {
    let linger = std::env::var("LODGE_HOST_LINGER")
        .ok()
        .and_then(|seconds| seconds.parse().ok());
    let linger = linger.map_or(LINGER, Duration::from_secs_f64);
    let mut since = Instant::now();
    loop {
        tokio::time::sleep((linger / 10).clamp(Duration::from_millis(20), Duration::from_secs(10))).await;
        let (_, clients) = host.connections().connected();
        if clients > 0 || host.has_work() {
            since = Instant::now();
        }
        if since.elapsed() >= linger {
            return;
        }
    }
}
