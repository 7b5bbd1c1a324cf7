//! Commands that a person runs in a session (`!…`).

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use rustix::process::Signal;

use crate::{OutputSink, SessionTools, ToolError, process, shells::Shell, spill::Collected};

/// A command that a person runs. Nobody is asked and no sandbox holds it: the person could as well type it elsewhere.
pub struct UserCommand(Arc<Shell>);

impl SessionTools {
    /// Starts a command for a person. It ends with the session, like everything that the session started.
    pub fn run_for_user(
        &self,
        command: &str,
        cwd: &Path,
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
            launcher: &[],
            variables: process::Variables::Of(&environment),
            temp: None,
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
