//! The guard: a second process that outlives the host by a moment. If the host is killed, it cannot stop the programs
//! that it started; the guard, which holds the other end of a pipe, notices and stops them.

use std::{
    io::Read,
    path::PathBuf,
    process::{ChildStdin, Command, Stdio},
    sync::{LazyLock, OnceLock},
};

use crate::process;

/// What makes the program the guard, before the name of the host that it looks after.
pub const GUARD: &str = "__guard";

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// The host's end of the pipe. The system closes it when the host ends.
static PIPE: LazyLock<Option<ChildStdin>> = LazyLock::new(|| {
    use std::os::unix::process::CommandExt;
    let guard = Command::new(PROGRAM.get()?)
        .arg0("lodge")
        .arg(GUARD)
        .arg(process::host())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        // What ends the host's group, such as Ctrl-C, is not meant for it.
        .process_group(0)
        .spawn();
    match guard {
        Ok(mut guard) => guard.stdin.take(),
        Err(error) => {
            tracing::warn!(%error, "if this host is killed, the next one stops the programs that it leaves behind");
            None
        }
    }
});

/// From now on a guard is started with the first program that must not outlive this host. `program` is the guard when its
/// arguments are [`GUARD`] and a name that it passes to [`stand_guard`].
pub fn guard_with(program: PathBuf) {
    let _ = PROGRAM.set(program);
}

/// Sees to it that there is a guard, where the host wants one.
pub(crate) fn ensure() {
    if PROGRAM.get().is_some() {
        LazyLock::force(&PIPE);
    }
}

/// Waits for the end of the host, then ends what it left behind.
pub fn stand_guard(host: &str) {
    let mut nothing = [0; 64];
    while matches!(std::io::stdin().read(&mut nothing), Ok(1..)) {}
    process::kill_host(host);
}
