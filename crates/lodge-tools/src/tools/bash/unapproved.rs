//! Runs an unapproved command in the jail, where it can do no harm.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::Value;

use super::{Arguments, KillOnDrop, Mode, ended, result, still, still_running};
use crate::{
    Attempt, ToolCx, ToolError, ToolOutput, cx::arguments, paths, sandbox::blames_jail, shell, shells::Shell,
    state::How,
};

/// So long, or until it has printed so much, it is held back what a command does.
const HOLD: Duration = Duration::from_secs(3);
const HELD_BYTES: u64 = 64 << 10;

/// A command that is worth trying.
pub(super) struct UnapprovedCommand {
    args: Arguments,
    cx: ToolCx,
    programs: Vec<String>,
    read: Vec<PathBuf>,
    /// Whether there is a jail at all. Where there is none it just runs.
    jailed: bool,
}

/// What a command is remembered by: its programs, or what it says where it is not understood.
pub(super) fn programs(command: &str) -> Vec<String> {
    let mut programs: Vec<String> = shell::analyse(command)
        .commands
        .into_iter()
        .map(|found| found.identifier)
        .collect();
    programs.sort();
    programs.dedup();
    match programs.is_empty() {
        true => vec![command.to_owned()],
        false => programs,
    }
}

impl UnapprovedCommand {
    /// Nothing where a person has to be asked: there is no jail, the command wants an input, or a jail is known to be too
    /// small for it.
    pub(super) fn prepare(value: &Value, cx: &ToolCx) -> Option<Self> {
        let args: Arguments = arguments("bash", value).ok()?;
        let programs = programs(&args.command);
        if args.mode == Mode::Async || cx.state.is_beyond_jail(&programs) {
            return None;
        }
        let jailed = cx.state.can_jail();
        if !jailed && !shell::analyse(&args.command).is_trivial() {
            return None;
        }
        // Places that it names elsewhere were allowed by rules, or it would not be here; but no rule means a whole home.
        let named = shell::analyse(&args.command).paths;
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let whole = |place: &PathBuf| place.parent().is_none() || home.iter().any(|home| home.starts_with(place));
        let real = |path: &String| paths::real(&paths::in_directory(&cx.cwd, path)).ok();
        let read = named.iter().filter_map(real).filter(|place| !whole(place)).collect();
        let cx = cx.clone();
        Some(Self {
            args,
            cx,
            programs,
            read,
            jailed,
        })
    }

    pub(super) async fn run(mut self) -> Attempt {
        let how = How::Jailed {
            read: std::mem::take(&mut self.read),
        };
        let name = self.args.shell_id.clone();
        let shell = match self.cx.state.start(&self.cx, name, &self.args.command, &how) {
            Ok(shell) => shell,
            Err(error) => return Attempt::Ended(Err(error)),
        };
        let guard = KillOnDrop(Some(shell.clone()));
        let hold = if self.jailed { HOLD } else { Duration::ZERO };
        let hold = hold.min(self.args.wait());
        let code = tokio::select! {
            biased;
            code = ended(&self.cx, &shell, hold) => code,
            () = shell.has_printed(HELD_BYTES) => Ok(None),
        };
        match code {
            Err(error) => Attempt::Ended(Err(error)),
            Ok(Some(code)) => {
                guard.release();
                match self.failed(&shell, code) {
                    true => {
                        self.cx.state.forget(&shell);
                        Attempt::NotEnough
                    }
                    false => Attempt::Ended(Ok(result(&self.cx, &shell, Some(code), |_| ToolOutput::default()))),
                }
            }
            Ok(None) => Attempt::GoesOn(Box::pin(self.rest(shell, guard))),
        }
    }

    /// Whether the jail, or a bound of it, is what ended the command as it did.
    fn failed(&self, shell: &Shell, code: i32) -> bool {
        let refused = || shell.peek_output(|output| blames_jail(code, output, &shell.cwd, &self.programs));
        shell.exceeded().is_some() || (self.jailed && refused())
    }

    async fn rest(self, shell: Arc<Shell>, guard: KillOnDrop) -> Result<ToolOutput, ToolError> {
        let wait = self.args.wait();
        let left = wait.saturating_sub(shell.started.elapsed());
        let code = ended(&self.cx, &shell, left).await?;
        guard.release();
        let failed = code.is_some_and(|code| self.failed(&shell, code));
        let mut output = result(&self.cx, &shell, code, |output| {
            still(output, &still_running(&shell, wait))
        });
        if failed {
            let why = shell.exceeded().unwrap_or("the jail denied an operation");
            output.content.push_str(&format!(
                "\n<This command was not approved, so it ran in the jail, and failed there: {why}. It needs approval. \
                 Run it again to ask the user.>"
            ));
            self.cx.state.jail_is_not_enough(self.programs);
        }
        Ok(output)
    }
}
