//! Commands that run beside a session's shells: those that a person runs (`!…`), and those of an agent that Lodge hosts.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use rustix::process::Signal;

use crate::{OutputSink, SessionTools, ToolCx, ToolError, process, request, shells::Shell, spill::Collected};

/// A command that runs until it ends, or the session does.
pub struct UserCommand(Arc<Shell>);

impl SessionTools {
    /// Starts a command for a person. Nobody is asked and no sandbox holds it: the person could as well type it elsewhere.
    pub fn run_for_user(
        &self,
        command: &str,
        cwd: &Path,
        max_output_bytes: usize,
        out: OutputSink,
    ) -> Result<UserCommand, ToolError> {
        self.run_beside(command, cwd, (Vec::new(), None), max_output_bytes, out)
    }

    /// Starts a command that was approved for a hosted agent, in the sandbox of approved commands.
    pub fn run_approved(
        &self,
        cx: &ToolCx,
        command: &str,
        max_output_bytes: usize,
        out: OutputSink,
    ) -> Result<UserCommand, ToolError> {
        let (_, places) = request::shell(cx, command, "");
        self.run_beside(command, &cx.cwd, self.sandbox(cx, places), max_output_bytes, out)
    }

    fn run_beside(
        &self,
        command: &str,
        cwd: &Path,
        (launcher, temp): (Vec<OsString>, Option<PathBuf>),
        max_output_bytes: usize,
        out: OutputSink,
    ) -> Result<UserCommand, ToolError> {
        let name = self.next_shell()?;
        let environment = self.environment();
        let start = process::Start {
            command,
            cwd,
            name: &name,
            stdin: false,
            launcher: &launcher,
            variables: process::Variables::Of(&environment),
            temp: temp.as_deref(),
        };
        let spawned = start
            .spawn()
            .map_err(|error| ToolError(format!("Could not start a shell in {}: {error}", cwd.display())))?;
        let collected = Collected::new(self.temp(), max_output_bytes);
        let shell = Shell::adopt(name, command.to_owned(), cwd.to_owned(), spawned, collected, out, None);
        Ok(UserCommand(shell))
    }

    /// The name of the next shell, unless the session has ended.
    fn next_shell(&self) -> Result<String, ToolError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(ToolError("The session has ended.".to_owned()));
        }
        let number = self.next.fetch_add(1, Ordering::AcqRel);
        Ok(format!("{}.{number}", self.name))
    }
}

impl UserCommand {
    /// Waits until it has ended; the exit code.
    pub async fn exited(&self) -> i32 {
        self.0.exited().await
    }

    /// What it printed since this was asked last; too long an output is in a file, and the text says in which.
    pub fn output(&self) -> String {
        self.0.take_output().text
    }

    /// Sends `SIGINT`, `SIGTERM` or `SIGKILL` to it and everything it started. False when it has ended already.
    pub fn signal(&self, signal: &str) -> bool {
        if self.0.exit_code().is_some() {
            return false;
        }
        match signal {
            "SIGINT" => self.0.interrupt(),
            "SIGKILL" => self.0.kill(),
            _ => self.0.signal(Signal::TERM),
        }
        true
    }
}
