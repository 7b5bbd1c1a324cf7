//! A child process that speaks JSON-RPC: its process group, its pipes, its standard error.

use std::{collections::VecDeque, ffi::OsString, io, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// How much of the beginning and of the end of standard error is kept, to say why a program ended.
const STDERR_KEPT: usize = 4 * 1024;
/// Lines that are shown of the end.
const LAST_LINES: usize = 5;
/// How long a program may take to exit after its input is closed.
const GRACE: Duration = Duration::from_secs(2);

/// How to start a program.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Its environment; that of this process if omitted.
    pub variables: Option<Vec<(OsString, OsString)>>,
    /// Variables to set in addition. Later ones win.
    pub env: Vec<(OsString, OsString)>,
}

/// A running program. Dropping it asks the whole process group to end, and ends it soon after: what is just being installed
/// can be taken back.
pub struct Process {
    running: Option<Running>,
    stderr: Arc<Mutex<Kept>>,
}

/// The processes of a program. Dropping it kills them.
struct Running {
    group: Pid,
    child: Child,
}

/// A program's standard error: its beginning and its end.
#[derive(Default)]
struct Kept {
    first: Vec<u8>,
    last: VecDeque<u8>,
}

impl Kept {
    fn push(&mut self, said: &[u8]) {
        let room = STDERR_KEPT - self.first.len();
        let (first, rest) = said.split_at(said.len().min(room));
        self.first.extend_from_slice(first);
        self.last.extend(rest);
        let surplus = self.last.len().saturating_sub(STDERR_KEPT);
        self.last.drain(..surplus);
    }

    /// The last lines, and before them the first that speaks of an error: what comes after that one is often only where in
    /// the program it happened.
    fn gist(&self) -> String {
        let bytes: Vec<u8> = self.first.iter().chain(&self.last).copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.trim().lines().filter(|line| !line.trim().is_empty()).collect();
        let end = lines.len().saturating_sub(LAST_LINES);
        let names = |line: &&&str| line.to_lowercase().contains("error");
        let error = lines[..end].iter().find(names);
        let error = error.map(|line| format!("{}\n", line.trim_end()));
        format!("{}{}", error.unwrap_or_default(), lines[end..].join("\n"))
    }
}

impl Process {
    /// Starts it as the leader of its own process group.
    pub fn start(launch: &Launch) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut starting = Command::new(&launch.command);
        if let Some(variables) = &launch.variables {
            starting.env_clear().envs(variables.iter().cloned());
        }
        let mut child = starting
            .args(&launch.args)
            .current_dir(&launch.cwd)
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()))
            .ok_or(io::ErrorKind::NotFound)?;
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let (Some(stdout), Some(stdin), Some(stderr)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let kept = Arc::<Mutex<Kept>>::default();
        tokio::spawn(keep_end(stderr, kept.clone()));
        let process = Self {
            running: Some(Running { group, child }),
            stderr: kept,
        };
        Ok((process, stdout, stdin))
    }

    /// The number of its leader.
    pub fn id(&self) -> Option<u32> {
        self.running.as_ref()?.child.id()
    }

    /// How it ended and its last output, in a few words.
    pub async fn epitaph(&self) -> String {
        // Its last words may still be on their way.
        let status = || self.running.as_ref().and_then(Running::status);
        let mut ended = status();
        for _ in 0..10 {
            if ended.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            ended = status();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        let said = self.stderr.lock().gist();
        let how = ended.unwrap_or_else(|| "closed its output".to_owned());
        match said.is_empty() {
            true => how,
            false => format!("{how}; its last output: {said}"),
        }
    }

    /// Closes its input and waits for it to exit; then sends a signal; then kills it.
    pub async fn end(mut self) {
        if let Some(running) = self.running.take() {
            running.end(GRACE).await;
        }
    }
}

impl Running {
    /// How the leader ended, without reaping it.
    fn status(&self) -> Option<String> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(WaitId::Pid(self.group), options).ok()??;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (_, Some(signal)) => format!("was killed by signal {signal}"),
            _ => "ended".to_owned(),
        })
    }

    /// Waits for its end so long; then asks for it; then ends it. The leader is not waited for before the group has been
    /// ended: until then its number cannot mean anybody else.
    async fn end(mut self, grace: Duration) {
        if !self.ends_within(grace).await {
            self.signal(Signal::TERM);
            self.ends_within(GRACE).await;
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait().await;
    }

    async fn ends_within(&self, limit: Duration) -> bool {
        let until = tokio::time::Instant::now() + limit;
        while self.status().is_none() {
            if tokio::time::Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        true
    }

    fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process_group(self.group, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(running.end(Duration::ZERO));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Waited for already, by `end`: the number is not ours any more.
        if self.child.id().is_some() {
            self.signal(Signal::KILL);
        }
    }
}

/// Reads everything, so that the program never blocks on it, and keeps the beginning and the end.
async fn keep_end(mut from: impl AsyncRead + Unpin, kept: Arc<Mutex<Kept>>) {
    let mut chunk = [0; STDERR_KEPT];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        kept.lock().push(&chunk[..read]);
        // Who fills the pipe all the time may wait.
        if read == chunk.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/x/server.js'\n    \
        at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)\n    at Module._load (node:internal:1)\n    \
        at node:internal/main/run_main_module:36:49 {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v22.1.0\n";

    #[test]
    fn what_a_server_said_before_it_ended_begins_with_the_error() {
        let long: String = (0..500).map(|n| format!("    at somewhere.js:{n}\n")).collect();
        let cases = [
            (String::new(), String::new()),
            ("no such luck\n".to_owned(), "no such luck".to_owned()),
            (
                NODE.to_owned(),
                "Error: Cannot find module '/x/server.js'\n    at node:internal/main/run_main_module:36:49 {\n  code: \
                 'MODULE_NOT_FOUND',\n  requireStack: []\n}\nNode.js v22.1.0"
                    .to_owned(),
            ),
            (
                format!("TypeError: x is not a function\n{long}"),
                "TypeError: x is not a function\n    at somewhere.js:495\n    at somewhere.js:496\n    at \
                 somewhere.js:497\n    at somewhere.js:498\n    at somewhere.js:499"
                    .to_owned(),
            ),
        ];
        for (said, expected) in cases {
            for size in [1, 7, 4096] {
                let mut kept = Kept::default();
                said.as_bytes().chunks(size).for_each(|chunk| kept.push(chunk));
                assert_eq!(kept.gist(), expected);
            }
        }
    }
}
