//! Running the built `lodge` as a person or a client does.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes; only a hang gets to see the end of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The workspace's root.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// Where cargo builds to.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The binary under test: `LODGE_BIN`, or the one beside the running test, or the debug build.
///
/// # Panics
/// When there is none. Tests of the crate `lodge` always have one: cargo builds it first.
pub fn lodge_bin() -> PathBuf {
    if let Some(path) = std::env::var_os("LODGE_BIN") {
        return path.into();
    }
    let name = format!("lodge{}", std::env::consts::EXE_SUFFIX);
    // A test binary is `target/<profile>/deps/it-1234`.
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.ancestors().nth(2)?.join(&name)));
    let found = beside
        .into_iter()
        .chain([target().join("debug").join(&name)])
        .find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no built {name}: run `cargo build`, or set LODGE_BIN"))
}

/// Says that something is not tested, because a program is missing.
///
/// # Panics
///
/// With `LODGE_REQUIRE_CLIENTS`: then nothing may be missing.
pub fn skip(why: &str) {
    assert!(std::env::var_os("LODGE_REQUIRE_CLIENTS").is_none(), "{why}");
    eprintln!("skipped: {why}");
}

/// A home and a working directory of its own, gone with the value.
pub struct Home {
    dir: TempDir,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// A fresh home.
    ///
    /// # Panics
    /// When the temporary directory cannot be made.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("lodge-test-")
            .tempdir()
            .expect("a temporary directory");
        std::fs::create_dir(dir.path().join("work")).expect("a working directory");
        Self { dir }
    }

    /// Lodge's home. It does not exist before the binary makes it.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// The sessions' working directory.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Log files of the sessions in this home.
    pub fn logs(&self) -> Vec<PathBuf> {
        let sessions = std::fs::read_dir(self.path().join("session-state"))
            .into_iter()
            .flatten()
            .flatten();
        let mut logs: Vec<PathBuf> = sessions.map(|entry| entry.path().join("events.jsonl")).collect();
        logs.retain(|log| log.is_file());
        logs.sort();
        logs
    }

    /// A command that runs the binary here, with nothing of this machine's configuration in its environment.
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(lodge_bin());
        command
            .args(args)
            .current_dir(self.work())
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| {
                let name = name.to_string_lossy();
                ["PATH", "SystemRoot", "TMPDIR", "LLVM_PROFILE_FILE"].contains(&name.as_ref())
            }))
            .env("HOME", self.dir.path())
            .env("LODGE_HOME", self.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Finished {
        self.start(args).finish()
    }

    /// Starts the binary; its lines are read as they come.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Running {
        Running::start(&mut self.command(args))
    }

    /// Starts the binary with an input that [`Running::say`] writes to.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn talk<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Running {
        Running::start(self.command(args).stdin(Stdio::piped()))
    }
}

/// A program that runs, its output read by threads so that it never waits for us.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    seen: Vec<String>,
    stderr: Option<JoinHandle<String>>,
}

/// A program that ended.
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Whole lines of its standard output. What a kill cut off is not a line.
    pub lines: Vec<String>,
    /// Its standard error.
    pub stderr: String,
}

impl Running {
    /// Starts a command.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = child.stdout.take().expect("piped above");
        let mut stderr = child.stderr.take().expect("piped above");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                if line.pop() != Some(b'\n') || send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // An error here ends what can be read; what came before it is kept.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
            seen: Vec::new(),
            stderr: Some(stderr),
        }
    }

    /// The next line, or `None` at the end of the output.
    ///
    /// # Panics
    /// When nothing comes for a minute.
    pub fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing was printed for {PATIENCE:?}; so far: {:#?}", self.seen),
        }
    }

    /// Reads lines until one contains a text; that one is returned.
    ///
    /// # Panics
    /// When the output ends before.
    pub fn line_with(&mut self, text: &str) -> String {
        while let Some(line) = self.line() {
            if line.contains(text) {
                return line;
            }
        }
        let stderr = self.stderr.take().and_then(|thread| thread.join().ok());
        panic!(
            "the output ended without {text:?}: {:#?}\n{}",
            self.seen,
            stderr.unwrap_or_default()
        );
    }

    /// Types a line into a program that was started with [`Home::talk`].
    ///
    /// # Panics
    /// When it does not read.
    pub fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the program was started to be talked to");
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .unwrap_or_else(|error| panic!("{error}; so far: {:#?}", self.seen));
    }

    /// Ends its input.
    pub fn hush(&mut self) {
        self.stdin = None;
    }

    /// Reads events until one is of a type; it is the last of what is returned.
    ///
    /// # Panics
    /// When the output ends before.
    pub fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(line) = self.line() {
            let event: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let found = event["type"] == kind;
            events.push(event);
            if found {
                return events;
            }
        }
        panic!("the output ended without {kind}: {events:#?}");
    }

    /// SIGKILL, at once.
    pub fn kill(&mut self) {
        // It may have ended by itself, which is as good.
        let _ = self.child.kill();
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end. Everything it wrote before its end counts, also what nobody had read when it was killed.
    ///
    /// # Panics
    /// When it cannot be waited for, or hangs.
    pub fn finish(mut self) -> Finished {
        self.hush();
        while self.line().is_some() {}
        let status = self.child.wait().expect("a child can be waited for");
        let stderr = self
            .stderr
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default();
        Finished {
            status,
            lines: std::mem::take(&mut self.seen),
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// Short, because it is what a failing test prints.
impl std::fmt::Debug for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let last = self.lines.len().saturating_sub(20);
        let cut = |line: &String| line.chars().take(300).collect::<String>();
        f.debug_struct("Finished")
            .field("status", &self.status)
            .field("lines", &self.lines.len())
            .field("last_lines", &self.lines[last..].iter().map(cut).collect::<Vec<_>>())
            .field("stderr", &self.stderr)
            .finish()
    }
}

impl Finished {
    /// Itself, when it ended with success.
    ///
    /// # Panics
    /// Otherwise, with what it printed.
    #[must_use]
    pub fn ok(self) -> Self {
        assert!(self.status.success(), "{self:#?}");
        self
    }

    /// Standard output as one text.
    pub fn stdout(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// The lines as events.
    ///
    /// # Panics
    /// When a line is no JSON.
    pub fn events(&self) -> Vec<Value> {
        let parse = |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.lines.iter().map(parse).collect()
    }
}
