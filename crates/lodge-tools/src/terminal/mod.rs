//! Terminals: a shell on its own pseudo-terminal, for people.
//!
//! [`Terminal`] is the handle that writes to it, resizes it and ends it; [`Output`] is what it prints, read by whoever
//! shows it. Nothing is read ahead: a slow reader makes the programs in the terminal wait, and nothing piles up here.

mod integration;
mod modes;
mod osc;
pub mod screen;

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use pty_process::{OwnedReadPty, OwnedWritePty};
use rustix::{
    process::Signal,
    termios::{Winsize, tcgetpgrp, tcsetwinsize},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    sync::mpsc,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::osc::Parser;
pub use self::{modes::Modes, osc::Query};
use crate::{
    Environment,
    process::{self, Group},
};

/// Input that waits because the program does not read it. A large paste fits.
const MAX_WAITING: usize = 1 << 20;
/// As much output is passed on in one go.
const BATCH: usize = 128 << 10;
/// The kernel gives no more at once.
const READ: usize = 4 << 10;
/// After the shell has ended, how long the end of its output is waited for when something else still holds it.
const GRACE: Duration = Duration::from_millis(100);
/// How long programs have to end by themselves when their terminal is closed.
const GOODBYE: Duration = Duration::from_millis(500);

/// How a terminal begins.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Where the shell starts.
    pub cwd: PathBuf,
    /// The shell; without one the user's.
    pub shell: Option<PathBuf>,
    /// Variables on top of the host's.
    pub env: Vec<(String, String)>,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// A directory of the host's for the scripts that integrate shells.
    pub scripts: PathBuf,
}

/// What a terminal prints and what the shell says about it.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Text with the terminal's escapes in it, except those of shell integration.
    Text(String),
    /// The program asks its terminal something and waits for the answer. Clients do not see it: each would answer, and
    /// again whenever it reads the past.
    Query(Query),
    /// The program wants this title to be shown.
    Title(String),
    /// The shell is in this directory now.
    Cwd(String),
    /// The shell reports commands from now on.
    Detected,
    /// A command runs: what is printed is its output, until it has finished.
    Started {
        /// Its line, empty where the shell does not say.
        command: String,
    },
    /// The command has ended.
    Finished {
        /// With this code, where the shell says.
        code: Option<i32>,
    },
    /// The shell has ended, with this code unless a signal ended it. Nothing comes after that.
    Exited(Option<i32>),
}

/// A running terminal.
#[derive(Debug)]
pub struct Terminal {
    shell: PathBuf,
    group: Arc<Group>,
    control: OwnedFd,
    input: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    closed: CancellationToken,
}

/// What a terminal prints.
#[derive(Debug)]
pub struct Output {
    pty: OwnedReadPty,
    child: Child,
    group: Arc<Group>,
    parser: Parser,
    buffer: Vec<u8>,
    open: bool,
    code: Option<Option<i32>>,
    told: bool,
}

impl Terminal {
    /// Starts a shell. Reads and writes files, so not for a thread that others wait for; wants the runtime all the same.
    pub fn open(opening: &Opening) -> io::Result<(Self, Output)> {
        let shell = opening.shell.clone().unwrap_or_else(default_shell);
        let id = uuid::Uuid::new_v4().simple().to_string();
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        integration::install(&opening.scripts)?;
        let setup = integration::setup(&shell, &opening.scripts, &nonce);
        let mut command = Command::new(&shell);
        Environment::default().hand_on(&mut command);
        command
            .args(&setup.args)
            .current_dir(&opening.cwd)
            .env("PWD", &opening.cwd)
            .envs([
                ("TERM", "xterm-256color"),
                ("COLORTERM", "truecolor"),
                ("TERM_PROGRAM", "lodge"),
            ])
            .envs(setup.env);
        // Of the terminal that the host itself may run in.
        for name in ["TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE", "STY", "COLUMNS", "LINES"] {
            command.env_remove(name);
        }
        if ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .all(|name| std::env::var_os(name).is_none())
        {
            command.env("LANG", "C.UTF-8");
        }
        command.envs(opening.env.iter().map(|(name, value)| (name, value)));
        let name = format!("{id}.{}", process::TERMINAL);
        command.envs([process::mark(&name)?]);
        let (pty, pts) = pty_process::open().map_err(io_error)?;
        pty.resize(pty_process::Size::new(opening.rows, opening.cols))
            .map_err(io_error)?;
        let control = pty.as_fd().try_clone_to_owned()?;
        let child = pty_process::Command::from(command).spawn(pts).map_err(io_error)?;
        let group = Arc::new(Group::led_by(&child, &name)?);
        let (reader, writer) = pty.into_split();
        let (input, queue) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let closed = CancellationToken::new();
        tokio::spawn(write(writer, queue, waiting.clone(), closed.clone()));
        let output = Output {
            pty: reader,
            child,
            group: group.clone(),
            parser: Parser::new(&nonce),
            buffer: Vec::with_capacity(BATCH + READ),
            open: true,
            code: None,
            told: false,
        };
        let terminal = Self {
            shell,
            group,
            control,
            input,
            waiting,
            closed,
        };
        Ok((terminal, output))
    }

    /// The number of the shell's process.
    pub fn pid(&self) -> u32 {
        self.group.leader_pid()
    }

    /// The program that runs in it.
    pub fn shell(&self) -> &Path {
        &self.shell
    }

    /// Whether so many bytes can be typed now.
    pub fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.waiting.load(Ordering::Acquire);
        waiting == 0 || waiting + bytes <= MAX_WAITING
    }

    /// Types. Ask [`Terminal::has_room`] before.
    pub fn write(&self, text: &str) {
        self.waiting.fetch_add(text.len(), Ordering::AcqRel);
        // Nobody reads any more: then nobody waits for it either.
        let _ = self.input.send(text.as_bytes().to_vec());
    }

    /// Changes the size and notifies the programs.
    pub fn resize(&self, cols: u16, rows: u16) -> io::Result<()> {
        let size = Winsize {
            ws_col: cols,
            ws_row: rows,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.control, size)?)
    }

    /// Closes it, as when its window is closed: programs get SIGHUP, and are killed if they do not exit soon.
    pub async fn close(&self) {
        self.closed.cancel();
        let front = tcgetpgrp(&self.control).ok();
        for signal in [Signal::HUP, Signal::CONT] {
            self.group.signal(signal);
            if let Some(front) = front {
                let _ = rustix::process::kill_process_group(front, signal);
            }
        }
        let patience = Instant::now() + GOODBYE;
        while self.group.has_members() && Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let group = self.group.clone();
        // Reads all of `/proc`.
        let _ = tokio::task::spawn_blocking(move || group.kill()).await;
    }
}

impl Output {
    /// What came next: as much as there is, and what follows before `until`, up to a batch. `None` after the end.
    pub async fn next(&mut self, until: Instant) -> Option<Vec<Piece>> {
        let mut pieces = Vec::new();
        while pieces.is_empty() && !self.told {
            self.step(until, &mut pieces).await;
        }
        (!pieces.is_empty()).then_some(pieces)
    }

    async fn step(&mut self, until: Instant, pieces: &mut Vec<Piece>) {
        let done = self.code.is_some();
        tokio::select! {
            // Output printed before the end is read before the end is reported.
            biased;
            read = self.pty.read_buf(&mut self.buffer), if self.open => {
                self.open = matches!(read, Ok(n) if n > 0);
                self.gather(until).await;
                self.parser.push(&self.buffer, pieces);
                self.buffer.clear();
            }
            status = self.child.wait(), if !done => {
                self.group.leader_gone();
                self.code = Some(status.ok().and_then(|status| status.code()));
            }
            () = tokio::time::sleep(GRACE), if done && self.open => self.open = false,
            else => {}
        }
        if let (Some(code), false) = (self.code, self.open) {
            self.parser.finish(code, pieces);
            pieces.push(Piece::Exited(code));
            self.told = true;
        }
    }

    /// Takes what is there already and what comes until then, so that a busy program costs one frame rather than many. It is
    /// read all the while: the kernel holds so little that a program whose output is not read soon stands still.
    async fn gather(&mut self, until: Instant) {
        let late = tokio::time::sleep_until(until);
        tokio::pin!(late);
        while self.open && self.buffer.len() < BATCH {
            tokio::select! {
                biased;
                read = self.pty.read_buf(&mut self.buffer) => self.open = matches!(read, Ok(n) if n > 0),
                () = &mut late => return,
            }
        }
    }
}

/// Types what is queued. A program that reads nothing makes this wait, nobody else.
async fn write(
    mut pty: OwnedWritePty,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    closed: CancellationToken,
) {
    while let Some(bytes) = queue.recv().await {
        let written = tokio::select! {
            written = pty.write_all(&bytes) => written,
            () = closed.cancelled() => return,
        };
        waiting.fetch_sub(bytes.len(), Ordering::AcqRel);
        if written.is_err() {
            return;
        }
    }
}

/// The shell of the host's user.
fn default_shell() -> PathBuf {
    let named = std::env::var_os("SHELL")
        .map(PathBuf::from)
        .filter(|shell| shell.is_file());
    let known = ["/bin/bash", "/usr/bin/bash", "/bin/sh"].map(PathBuf::from);
    named
        .or_else(|| known.into_iter().find(|shell| shell.is_file()))
        .unwrap_or_else(|| "/bin/sh".into())
}

fn io_error(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
        other => io::Error::other(other.to_string()),
    }
}
