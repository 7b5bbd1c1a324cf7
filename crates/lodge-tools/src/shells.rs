//! A session's shells: each runs one command, collects its output, and can be read, written to and stopped.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin},
    sync::watch,
};

use crate::{
    OutputSink, ToolUpdate,
    process::{Group, Spawned},
    sandbox::{JAILED_OUTPUT, JAILED_TIME, Jail, JailBounds, exceeds},
    spill::{Collected, Taken},
    text::Cleaner,
};

/// After the shell itself has ended, how long the end of its output is waited for when something else still holds it.
const GRACE: Duration = Duration::from_millis(100);
/// More than a pipe holds: what comes after that much was not written by the shell that has ended.
const MAX_PIPE: usize = 1 << 20;
/// People watch this much of one call; the rest is in the result.
pub const MAX_STREAMED: usize = 1 << 20;
/// What they are told then.
pub const NO_LONGER_SHOWN: &str = "The command is still printing, but its output is no longer shown live.";

/// Of what a shell prints, how much of the end is kept for people who look.
const MAX_RECENT: usize = 4 << 10;
/// And of a jailed one, to see whether it was refused something.
const MAX_RECENT_JAILED: usize = 64 << 10;

/// A background command, running or ended.
#[derive(Debug, Clone)]
pub struct BackgroundShell {
    /// What tools call it by.
    pub id: String,
    /// The command.
    pub command: String,
    /// When it began.
    pub began: SystemTime,
    /// How it ended.
    pub exit_code: Option<i32>,
    /// The end of what it printed.
    pub recent: String,
}

/// One shell.
pub(crate) struct Shell {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) cwd: PathBuf,
    pub(crate) started: Instant,
    began: SystemTime,
    group: Group,
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    output: Mutex<Output>,
    /// How many bytes it has printed.
    printed: watch::Sender<u64>,
    exit: watch::Receiver<Option<i32>>,
    /// Set for a command that nobody approved. It ends with the shell, and with it the private directory.
    jail: Option<Jail>,
    /// Which bound of its jail ended it.
    exceeded: OnceLock<String>,
}

struct Output {
    collected: Collected,
    sink: Option<OutputSink>,
    streamed: usize,
    recent: String,
}

impl Shell {
    /// Takes over a started process; output goes to `sink` until `detach`.
    pub(crate) fn adopt(
        id: String,
        command: String,
        cwd: PathBuf,
        process: Spawned,
        collected: Collected,
        sink: OutputSink,
        jail: Option<Jail>,
    ) -> Arc<Self> {
        let (sender, exit) = watch::channel(None);
        let jailed = jail.is_some();
        let shell = Arc::new(Self {
            id,
            command,
            cwd,
            started: Instant::now(),
            began: SystemTime::now(),
            group: process.group,
            stdin: tokio::sync::Mutex::new(process.stdin),
            output: Mutex::new(Output {
                collected,
                sink: Some(sink),
                streamed: 0,
                recent: String::new(),
            }),
            printed: watch::Sender::new(0),
            exit,
            jail,
            exceeded: OnceLock::new(),
        });
        tokio::spawn(watch_over(shell.clone(), process.child, process.output, sender));
        if jailed {
            tokio::spawn(hold_to_bounds(shell.clone()));
        }
        shell
    }

    /// Waits until it has printed so many bytes.
    pub(crate) async fn has_printed(&self, bytes: u64) {
        let mut printed = self.printed.subscribe();
        // The sender goes with the shell, and so would this.
        let _ = printed.wait_for(|printed| *printed >= bytes).await;
    }

    /// Which bound of its jail it was ended for.
    pub(crate) fn exceeded(&self) -> Option<&str> {
        self.exceeded.get().map(String::as_str)
    }

    pub(crate) fn is_jailed(&self) -> bool {
        self.jail.is_some()
    }

    /// The exit code, once it has ended.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        *self.exit.borrow()
    }

    /// Waits until it has ended.
    pub(crate) async fn exited(&self) -> i32 {
        let mut exit = self.exit.clone();
        let code = exit.wait_for(Option::is_some).await.ok().and_then(|code| *code);
        // The sender only goes without a code when the runtime is being torn down.
        code.unwrap_or(-1)
    }

    /// Waits until it has ended or the time is over.
    pub(crate) async fn exited_within(&self, time: Duration) -> Option<i32> {
        tokio::time::timeout(time, self.exited()).await.ok()
    }

    /// Output since the last take.
    pub(crate) fn take_output(&self) -> Taken {
        self.output.lock().collected.take()
    }

    /// Looks at what was printed last, without taking it.
    pub(crate) fn peek_output<T>(&self, look: impl FnOnce(&str) -> T) -> T {
        look(&self.output.lock().recent)
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.output.lock().collected.is_empty()
    }

    /// From now on the output goes to nobody but the collection.
    pub(crate) fn detach(&self) {
        self.output.lock().sink = None;
    }

    /// What people may know of it once nobody waits for it.
    pub(crate) fn in_background(&self) -> Option<BackgroundShell> {
        let output = self.output.lock();
        output.sink.is_none().then(|| BackgroundShell {
            id: self.id.clone(),
            command: self.command.clone(),
            began: self.began,
            exit_code: self.exit_code(),
            recent: output.recent.clone(),
        })
    }

    /// Whether processes it started are still there although it has ended.
    pub(crate) fn lingers(&self) -> bool {
        self.group.has_members()
    }

    /// Ends it and everything it started.
    pub(crate) fn kill(&self) {
        self.detach();
        self.group.kill();
    }

    /// What Ctrl+C does.
    pub(crate) fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    /// Sends a signal to it and its children.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        self.group.signal(signal);
    }

    /// Writes to its input. `false` if it accepts none.
    pub(crate) async fn write(&self, text: &str) -> bool {
        let mut stdin = self.stdin.lock().await;
        let Some(pipe) = stdin.as_mut() else { return false };
        let written = pipe.write_all(text.as_bytes()).await.is_ok() && pipe.flush().await.is_ok();
        if !written {
            *stdin = None;
        }
        written
    }

    /// Ends its input.
    pub(crate) async fn close_input(&self) {
        *self.stdin.lock().await = None;
    }

    fn push(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.printed.send_modify(|printed| *printed += text.len() as u64);
        let mut output = self.output.lock();
        // Whoever takes all of it needs no other copy.
        if !output.sink.as_ref().is_some_and(OutputSink::takes_all) {
            output.collected.push(text);
        }
        output.recent.push_str(text);
        let most = if self.is_jailed() {
            MAX_RECENT_JAILED
        } else {
            MAX_RECENT
        };
        if output.recent.len() > 2 * most {
            let surplus = output.recent.len() - most;
            let start = (surplus..).find(|at| output.recent.is_char_boundary(*at));
            output.recent.drain(..start.unwrap_or_default());
        }
        let Some(sink) = output.sink.clone() else { return };
        if output.streamed >= MAX_STREAMED && !sink.takes_all() {
            return;
        }
        output.streamed = output.streamed.saturating_add(text.len());
        let over = output.streamed >= MAX_STREAMED && !sink.takes_all();
        // Outside the lock: what the sink does is not known here.
        drop(output);
        sink.send(ToolUpdate::Partial(text.to_owned()));
        if over {
            sink.send(ToolUpdate::Progress(NO_LONGER_SHOWN.to_owned()));
        }
    }
}

/// Reads until the output ends, and notes when the shell itself has.
async fn watch_over(
    shell: Arc<Shell>,
    mut child: Child,
    mut output: tokio::net::unix::pipe::Receiver,
    exit: watch::Sender<Option<i32>>,
) {
    let mut cleaner = Cleaner::default();
    let mut buffer = vec![0; 16 << 10];
    let mut text = String::new();
    let mut code = None;
    let mut open = true;
    let mut after_end = 0;
    let grace = tokio::time::sleep(Duration::MAX);
    tokio::pin!(grace);
    loop {
        tokio::select! {
            // Output printed before the end is read before the end is reported.
            biased;
            read = output.read(&mut buffer), if open => {
                text.clear();
                match read {
                    Ok(n) if n > 0 => {
                        cleaner.push(&buffer[..n], &mut text);
                        after_end += if code.is_some() { n } else { 0 };
                    }
                    _ => {
                        cleaner.finish(&mut text);
                        open = false;
                    }
                }
                shell.push(&text);
            }
            status = child.wait(), if code.is_none() => {
                shell.group.leader_gone();
                if shell.is_jailed() {
                    shell.group.end_remains();
                }
                code = Some(status.map_or(-1, exit_code));
                grace.as_mut().reset(tokio::time::Instant::now() + GRACE);
            }
            () = &mut grace, if code.is_some() && exit.borrow().is_none() => {
                exit.send_replace(code);
            }
        }
        if code.is_some() && (!open || after_end > MAX_PIPE) && exit.borrow().is_none() {
            exit.send_replace(code);
        }
        if code.is_some() && !open {
            return;
        }
    }
}

/// Ends a jailed command that takes too long, prints too much or uses too much.
async fn hold_to_bounds(shell: Arc<Shell>) {
    let bounds = JailBounds::here();
    let Some(jail) = &shell.jail else { return };
    let exceeded = tokio::select! {
        _ = shell.exited() => return,
        () = tokio::time::sleep(JAILED_TIME) => format!("it took longer than {} seconds", JAILED_TIME.as_secs()),
        () = shell.has_printed(JAILED_OUTPUT) => format!("it printed more than {} MB", JAILED_OUTPUT >> 20),
        exceeded = exceeds(&shell.group, &bounds, jail.dir()) => exceeded.to_owned(),
    };
    let _ = shell.exceeded.set(exceeded);
    shell.group.kill();
}

/// The code a shell would report: 128 plus the number of the signal that ended it.
fn exit_code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(-1)
}
