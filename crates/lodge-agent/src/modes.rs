//! Modes. Plan mode refuses everything that could change something except the plan. That is checked before any rule and
//! before anybody is asked, so no rule, hook or approval overrides it. Autopilot continues until the model says that the task
//! is complete, within limits.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_events::{PermissionRequest, SessionModeChanged, WritePermission};
use lodge_log::LogError;
use lodge_tools::{Need, shell};
use uuid::Uuid;

use crate::{
    session::Shared,
    settings::{Mode, Prompt},
    tool_call::Outcome,
};

/// How often autopilot continues when the model made no progress.
const IDLE_CONTINUATIONS: u32 = 3;
/// How often it continues for one message of the person.
const MOST_CONTINUATIONS: u32 = 50;
/// What it says to the model. In a tag, so that it is not taken for the person's words.
const CONTINUATION: &str = "<autopilot_continuation>\nThe task is not marked as complete. Go on with it; decide for \
    yourself what nobody is there to decide. When all of it is done, or nothing more can be done, call task_complete with \
    a summary.\n</autopilot_continuation>";

/// How far autopilot has gone on by itself.
#[derive(Default)]
pub(crate) struct Autopilot {
    all: u32,
    idle: u32,
    /// Whether the bounds were reached.
    pub(crate) gave_up: bool,
}

impl Autopilot {
    /// Notes an answer of the model.
    pub(crate) fn answered(&mut self, called_tools: bool) {
        if called_tools {
            self.idle = 0;
        }
    }

    /// The next message to the model. `Err` when the bounds are reached.
    pub(crate) fn next(&mut self) -> Result<Prompt, String> {
        if self.idle == IDLE_CONTINUATIONS || self.all == MOST_CONTINUATIONS {
            self.gave_up = true;
            return Err(format!(
                "Autopilot stopped after {} continuations: the model did not report that the task is complete.",
                self.all
            ));
        }
        self.idle += 1;
        self.all += 1;
        Ok(Prompt {
            text: CONTINUATION.into(),
            display_text: Some("Go on until the task is complete.".into()),
            source: Some(AUTOPILOT.into()),
            ..Prompt::default()
        })
    }
}

/// Where a message comes from that autopilot wrote.
pub(crate) const AUTOPILOT: &str = "autopilot";

impl Shared {
    /// The session's mode; it holds for its sub-agents, too.
    pub(crate) fn mode(&self) -> Mode {
        self.root().settings.lock().mode
    }

    /// The mode's word, unless it is the usual one.
    pub(crate) fn other_mode(&self) -> Option<String> {
        let mode = self.settings.lock().mode;
        (mode != Mode::default()).then(|| mode.as_str().to_owned())
    }

    /// Changes the mode, and tells everybody.
    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), LogError> {
        self.set_mode_as(Uuid::new_v4(), mode)
    }

    /// Changes the mode by an event with this id.
    pub(crate) fn set_mode_as(&self, id: Uuid, mode: Mode) -> Result<(), LogError> {
        let record = |previous: &Mode| {
            let changed = SessionModeChanged {
                previous_mode: previous.as_str().into(),
                new_mode: mode.as_str().into(),
            };
            self.recorder.record_as(id, changed).map(drop)
        };
        self.settings.change(|settings| &mut settings.mode, mode, record)?;
        Ok(())
    }

    /// What becomes of a call that plan mode holds back; nothing in other modes, and nothing for what only looks.
    pub(crate) fn plan_refusal(&self, only_looks: bool) -> Option<Outcome> {
        if only_looks || self.mode() != Mode::Plan {
            return None;
        }
        let text = format!(
            "Plan mode: nothing may be changed yet. Write the plan to {}; the work starts once the plan is approved.",
            self.tool_state.shown_dir().join("plan.md").display()
        );
        Some(Outcome::failed(text, "denied"))
    }

    /// What becomes of a call in plan mode that needs more than looking; nothing in other modes.
    pub(crate) fn beyond_plan(&self) -> Option<Outcome> {
        let text = "Plan mode: commands run in the jail, which was too strict for this one. Do without it, or put it into the plan.";
        (self.mode() == Mode::Plan).then(|| Outcome::failed(text, "denied"))
    }

    /// Whether a call of a built-in tool changes nothing but the plan.
    pub(crate) fn only_looks(&self, tool: &str, need: &Need) -> bool {
        match need {
            Need::Nothing => true,
            Need::Ask(request) => only_looks(tool, request) || self.is_plan(request),
            Need::Explain { request, .. } => only_looks(tool, request),
        }
    }

    /// What commands may write where they are sandboxed: nothing in plan mode, whatever they turn out to do.
    pub(crate) fn writable_roots(&self) -> Arc<[PathBuf]> {
        if self.mode() == Mode::Plan {
            return Arc::new([]);
        }
        self.roots()
    }

    /// Whether it is the plan that is to be written. A link with that name leads elsewhere and is not the plan.
    pub(crate) fn is_plan(&self, request: &PermissionRequest) -> bool {
        match request {
            PermissionRequest::Write(WritePermission {
                file_name,
                resolved_path,
                ..
            }) => self.is_plan_file(Path::new(resolved_path.as_ref().unwrap_or(file_name))),
            _ => false,
        }
    }

    /// Whether this is the place of the plan.
    pub(crate) fn is_plan_file(&self, path: &Path) -> bool {
        let plan = self.plan_path();
        path == plan || std::fs::canonicalize(&self.dir).is_ok_and(|dir| path == dir.join("plan.md"))
    }
}

/// Whether a built-in tool changes nothing.
fn only_looks(tool: &str, request: &PermissionRequest) -> bool {
    match request {
        PermissionRequest::Read(_) | PermissionRequest::Url(_) => true,
        // Only a command of its own: what is typed into one that runs could be anything.
        PermissionRequest::Shell(asked) => tool == "bash" && shell::analyse(&asked.full_command_text).only_reads(),
        PermissionRequest::Mcp(mcp) => mcp.read_only,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::{ReadPermission, ShellPermission, UrlPermission};

    use super::*;

    #[test]
    fn a_command_runs_when_all_of_it_only_reads() {
        for (tool, command, expected) in [
            ("bash", "ls -la", true),
            ("bash", "git log --oneline | head -3", true),
            ("bash", "cat a.txt && grep -r x .", true),
            ("bash", "echo hi > a.txt", false),
            ("bash", "ls; rm a.txt", false),
            ("bash", "git commit -m x", false),
            ("bash", "find . -delete", false),
            ("bash", "find . -exec rm {} +", false),
            ("bash", "sed -i s/a/b/ a.txt", false),
            ("bash", "$(echo rm) a.txt", false),
            ("bash", "eval \"rm a.txt\"", false),
            ("bash", "bash -c 'touch a'", false),
            ("bash", "xargs rm < list", false),
            ("bash", "python3 -c 'open(\"a\",\"w\")'", false),
            ("bash", "no_such_program", false),
            ("bash", "cat <(touch a)", false),
            ("bash", "tee a.txt", false),
            ("bash", "curl -o a http://example.com", false),
            ("bash", "if true; then touch a; fi", false),
            ("bash", "ls $(touch a)", false),
            ("bash", "ls `touch a`", false),
            ("bash", "PATH=. ls", false),
            ("bash", "((", false),
            ("write_bash", "ls", false),
        ] {
            let request = PermissionRequest::Shell(ShellPermission {
                full_command_text: command.into(),
                ..ShellPermission::default()
            });
            assert_eq!(only_looks(tool, &request), expected, "{tool} {command}");
        }
        assert!(only_looks("view", &PermissionRequest::Read(ReadPermission::default())));
        assert!(only_looks(
            "web_fetch",
            &PermissionRequest::Url(UrlPermission::default())
        ));
        assert!(!only_looks(
            "create",
            &PermissionRequest::Write(WritePermission::default())
        ));
    }
}
