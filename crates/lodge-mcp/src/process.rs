//! A server that is a program: its process group, its pipes, what it says on standard error.

use std::{collections::VecDeque, ffi::OsString, io, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::config::Transport;

/// How much of standard error is kept, to say why a server ended.
const STDERR_KEPT: usize = 4 * 1024;
/// How long a server has to end by itself once its input is closed.
const GRACE: Duration = Duration::from_secs(2);

/// Where programs run and which variables they see.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The directory, unless a server names its own.
    pub cwd: PathBuf,
    /// The variables that programs begin with; those of this process when left out.
    pub variables: Option<Vec<(OsString, OsString)>>,
    /// Variables to set above all others.
    pub env: Vec<(OsString, OsString)>,
    /// How long a server may take to start; two minutes when left out.
    pub start_limit: Option<Duration>,
}

impl Surroundings {
    /// The variable of this name, as programs see it.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        match &self.variables {
            Some(variables) => {
                let (_, value) = variables.iter().find(|(known, _)| known == name)?;
                value.clone().into_string().ok()
            }
            None => std::env::var(name).ok(),
        }
    }
}

/// A running program. Dropping it ends the whole process group at once.
pub(crate) struct Process {
    group: Pid,
    child: Child,
    stderr: Arc<Mutex<VecDeque<u8>>>,
}

impl Process {
    /// Starts it as the leader of a group of its own.
    pub(crate) fn start(transport: &Transport, around: &Surroundings) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let Transport::Stdio {
            command,
            args,
            env,
            cwd,
        } = transport
        else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let cwd = cwd
            .as_ref()
            .map_or_else(|| around.cwd.clone(), |cwd| around.cwd.join(cwd));
        let mut starting = Command::new(command);
        if let Some(variables) = &around.variables {
            starting.env_clear().envs(variables.iter().cloned());
        }
        let mut child = starting
            .args(args)
            .current_dir(cwd)
            .envs(env)
            .envs(around.env.iter().map(|(name, value)| (name, value)))
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
        let kept = Arc::<Mutex<VecDeque<u8>>>::default();
        tokio::spawn(keep_end(stderr, kept.clone()));
        let process = Self {
            group,
            child,
            stderr: kept,
        };
        Ok((process, stdout, stdin))
    }

    /// What became of it, in a few words: how it ended, and what it said last.
    pub(crate) async fn epitaph(&self) -> String {
        // Its last words may still be on their way.
        let mut ended = self.status();
        for _ in 0..10 {
            if ended.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            ended = self.status();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        let said = {
            let kept = self.stderr.lock();
            let bytes: Vec<u8> = kept.iter().copied().collect();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        let how = ended.unwrap_or_else(|| "closed its output".to_owned());
        match said.lines().rev().take(5).collect::<Vec<_>>() {
            lines if lines.is_empty() => how,
            mut lines => {
                lines.reverse();
                format!("{how}; it said: {}", lines.join("\n"))
            }
        }
    }

    /// How the leader ended, without taking that from whoever waits for it.
    fn status(&self) -> Option<String> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(WaitId::Pid(self.group), options).ok()??;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (_, Some(signal)) => format!("was ended by signal {signal}"),
            _ => "ended".to_owned(),
        })
    }

    /// Lets it end by itself, since its input is closed; then asks it to; then ends it. The leader is not waited for
    /// before the group has been ended: until then its number cannot mean anybody else.
    pub(crate) async fn end(mut self) {
        if !self.ends_within(GRACE).await {
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
        // Waited for already, by `end`: the number is not ours any more.
        if self.child.id().is_some() {
            self.signal(Signal::KILL);
        }
    }
}

/// Reads everything, so that the server never blocks on it, and keeps the end.
async fn keep_end(mut from: impl AsyncRead + Unpin, kept: Arc<Mutex<VecDeque<u8>>>) {
    let mut chunk = [0; STDERR_KEPT];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        {
            let mut kept = kept.lock();
            kept.extend(&chunk[..read]);
            let surplus = kept.len().saturating_sub(STDERR_KEPT);
            kept.drain(..surplus);
        }
        // Who fills the pipe all the time may wait.
        if read == chunk.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
