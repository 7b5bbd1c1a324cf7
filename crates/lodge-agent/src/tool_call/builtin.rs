//! A call of a built-in tool.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use lodge_events::{
    FileOperation, PermissionRequest, SessionMemoryChanged, SessionPlanChanged, SessionTodosChanged, ShellStream,
    ToolExecutionPartialResult, ToolExecutionProgress, ToolShellOutput,
};
use lodge_tools::{Attempt, Need, OutputSink, Tool, ToolCx, ToolError, ToolOutput, ToolUpdate, changes::Touches};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    Asked, Call,
    outcome::{Outcome, Success, image_block},
};
use crate::{redact::Held, settings::Mode, turn::Stop};

impl Call<'_> {
    pub(super) async fn builtin(&self, tool: &Arc<dyn Tool>, args: &mut Value, allowed: bool) -> Result<Outcome, Stop> {
        let mut cx = self.cx();
        if let Touches::Files(_) = tool.touches(args, &cx) {
            // What a person is asked about is the change of the text that they see.
            cx.ask_editor(&**tool, args).await;
        }
        let permission = match tool.need(args, &cx) {
            Ok(Need::Explain { request, error }) => {
                let may_read = self.permission(tool, Need::Ask(request), args, &cx, allowed).await?;
                match may_read {
                    Permission::Refused(_) => may_read,
                    Permission::Approved | Permission::Unasked(_) => failed(error),
                }
            }
            Ok(need) => self.permission(tool, need, args, &cx, allowed).await?,
            Err(error) => failed(error),
        };
        match permission {
            Permission::Unasked(request) => self.unasked(tool, request, args, cx).await,
            permission => self.carry_out(tool, permission, args, cx).await,
        }
    }

    async fn carry_out(
        &self,
        tool: &Arc<dyn Tool>,
        permission: Permission,
        args: &Value,
        cx: ToolCx,
    ) -> Result<Outcome, Stop> {
        self.start(args.clone()).await?;
        match permission {
            Permission::Refused(refused) => Ok(refused),
            Permission::Approved | Permission::Unasked(_) => self.execute(tool, args.clone(), cx).await,
        }
    }

    /// Runs a call that looks harmless, where it can do no harm. That it began is said when it is known what comes of it, or
    /// after a while; if that was not enough for it, somebody is asked, as if it had not been tried.
    async fn unasked(
        &self,
        tool: &Arc<dyn Tool>,
        request: PermissionRequest,
        args: &mut Value,
        cx: ToolCx,
    ) -> Result<Outcome, Stop> {
        let (out, held) = cx.out.held();
        self.turn.shared.recorder.durable().await?;
        let tried = tool.try_unasked(args, &ToolCx { out, ..cx.clone() });
        let Some(tried) = tried else {
            return self.carry_out(tool, Permission::Approved, args, cx).await;
        };
        let result = match tried.await {
            Attempt::NotEnough => return self.beyond_jail(tool, request, args, cx).await,
            Attempt::Ended(result) => {
                self.start(args.clone()).await?;
                held.open();
                result
            }
            Attempt::GoesOn(rest) => {
                self.start(args.clone()).await?;
                held.open();
                rest.await
            }
        };
        self.outcome(result, false)
    }

    /// Asks about a call that was tried and needs more than it may have unasked.
    async fn beyond_jail(
        &self,
        tool: &Arc<dyn Tool>,
        request: PermissionRequest,
        args: &mut Value,
        cx: ToolCx,
    ) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        let permission = match shared.beyond_plan() {
            Some(refused) => Permission::Refused(refused),
            None => {
                let asked = self.ask_person(request, args).await?;
                self.answered(tool, asked, args, &cx)?
            }
        };
        let approved = matches!(permission, Permission::Approved);
        let outcome = self.carry_out(tool, permission, args, cx.clone()).await?;
        if approved && outcome.exit_code().is_none_or(|code| code == 0) {
            tool.needed_approval(args, &cx);
        }
        Ok(outcome)
    }

    /// What a built-in tool knows of where it runs.
    pub(crate) fn cx(&self) -> ToolCx {
        let shared = self.turn.shared.clone();
        let call_id: Arc<str> = self.id.into();
        let number_lines = wants_line_numbers(&self.turn.model().info().id);
        let (cwd, max_output_bytes) = {
            let settings = shared.settings.lock();
            (settings.cwd.clone(), settings.max_tool_output)
        };
        let out = {
            let (shared, call_id) = (shared.clone(), call_id.clone());
            let (secrets, held) = (shared.recorder.secrets(), Mutex::new(Held::default()));
            let pieces = AtomicU64::new(0);
            OutputSink::new(move |update| match update {
                // What is held back at the end stands in the result.
                ToolUpdate::Partial(output) => {
                    let output = secrets.pass(&mut held.lock(), output);
                    if !output.is_empty() {
                        shared.recorder.note(ToolShellOutput {
                            tool_call_id: call_id.to_string(),
                            sequence: pieces.fetch_add(1, Ordering::Relaxed),
                            text: output.clone(),
                            // Standard output and error are one pipe.
                            stream: Some(ShellStream::Terminal),
                        });
                        shared.recorder.note(ToolExecutionPartialResult {
                            tool_call_id: call_id.to_string(),
                            partial_output: output,
                        });
                    }
                }
                ToolUpdate::Progress(message) => shared.recorder.note(ToolExecutionProgress {
                    tool_call_id: call_id.to_string(),
                    progress_message: message,
                }),
            })
        };
        let editor = shared.clients.lock().editor();
        ToolCx {
            session_id: shared.id.clone(),
            call_id,
            cwd,
            roots: shared.writable_roots(),
            readable: shared.roots(),
            session_dir: shared.dir.clone(),
            max_output_bytes,
            number_lines,
            out,
            editor,
            shown: None,
            state: shared.tool_state.clone(),
            cancel: self.turn.cancel.clone(),
            rules: Arc::new(move |request| shared.decide(request)),
        }
    }

    /// Runs a built-in tool that may run.
    pub(super) async fn execute(&self, tool: &Arc<dyn Tool>, args: Value, mut cx: ToolCx) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        cx.ask_editor(&**tool, &args).await;
        let had_plan = shared.plan_path().exists();
        let looked = shared.files_before(tool.touches(&args, &cx)).await;
        let result = tool.run(args, cx).await;
        shared.files_after(looked).await;
        self.outcome(result, had_plan)
    }

    /// What is noted of a call that ran, and told to the model.
    fn outcome(&self, result: Result<ToolOutput, ToolError>, had_plan: bool) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        Ok(match result {
            Ok(output) => {
                if output.changes.iter().any(|change| shared.is_plan_file(&change.path)) {
                    let operation = match had_plan {
                        true => FileOperation::Update,
                        false => FileOperation::Create,
                    };
                    shared.recorder.record(SessionPlanChanged { operation })?;
                }
                shared.recorder.count(|facts| {
                    for change in &output.changes {
                        facts.totals.lines_added += change.added;
                        facts.totals.lines_removed += change.removed;
                        facts.totals.files.insert(change.path.to_string_lossy().into_owned());
                    }
                });
                if output.todos_changed {
                    shared.recorder.note(SessionTodosChanged::default());
                }
                if output.memory_changed {
                    shared.recorder.note(SessionMemoryChanged::default());
                }
                let images = output
                    .images
                    .into_iter()
                    .map(|(mime_type, data)| image_block(mime_type, data));
                let contents = output.contents.into_iter().chain(images).collect();
                Outcome::Done(Box::new(Success {
                    content: output.content,
                    detailed: output.detailed,
                    contents,
                    ..Success::default()
                }))
            }
            Err(error) => Outcome::failed(error.0, "failure"),
        })
    }

    /// Whether a built-in tool may run. Asks where that is to be asked, and then its arguments may have changed.
    async fn permission(
        &self,
        tool: &Arc<dyn Tool>,
        need: Need,
        args: &mut Value,
        cx: &ToolCx,
        allowed: bool,
    ) -> Result<Permission, Stop> {
        let shared = &self.turn.shared;
        let only_looks = shared.only_looks(tool.name(), &need);
        if let Some(refused) = shared.plan_refusal(only_looks) {
            return Ok(Permission::Refused(refused));
        }
        let Need::Ask(request) = need else {
            return Ok(Permission::Approved);
        };
        // What plan mode lets pass only looks, and is held to it.
        let confined = |approved: bool| match approved && shared.mode() != Mode::Plan {
            true => Permission::Approved,
            false => Permission::Unasked((*request).clone()),
        };
        if shared.is_plan(&request) {
            return Ok(Permission::Approved);
        }
        if allowed && !shared.is_governed(&request) {
            return Ok(confined(true));
        }
        match self.ask((*request).clone(), args).await? {
            // The mode may have changed while somebody thought about it.
            Asked::Allowed { approved } => Ok(match shared.plan_refusal(only_looks) {
                Some(refused) => Permission::Refused(refused),
                None => confined(approved),
            }),
            asked => self.answered(tool, asked, args, cx),
        }
    }

    /// What an answer means.
    fn answered(&self, tool: &Arc<dyn Tool>, asked: Asked, args: &Value, cx: &ToolCx) -> Result<Permission, Stop> {
        let shared = &self.turn.shared;
        let for_session = match asked {
            Asked::Refused(refused) => return Ok(Permission::Refused(refused)),
            Asked::Allowed { .. } => return Ok(Permission::Approved),
            Asked::Edited { for_session } => for_session,
        };
        let need = match tool.need(args, cx) {
            // The person who wrote these arguments may know.
            Err(error) | Ok(Need::Explain { error, .. }) => return Ok(failed(error)),
            Ok(need) => need,
        };
        let refused = shared.plan_refusal(shared.only_looks(tool.name(), &need));
        let Need::Ask(request) = need else {
            return Ok(refused.map_or(Permission::Approved, Permission::Refused));
        };
        let refused = refused.or_else(|| Some(Outcome::failed(shared.forbidden(&request)?, "denied")));
        if let Some(refused) = refused {
            return Ok(Permission::Refused(refused));
        }
        if for_session {
            shared.allow_for_session(&request);
        }
        Ok(match shared.mode() {
            Mode::Plan => Permission::Unasked(*request),
            _ => Permission::Approved,
        })
    }
}

/// Whether a call may run.
enum Permission {
    Approved,
    /// No rule decided, and nobody was asked.
    Unasked(PermissionRequest),
    Refused(Outcome),
}

fn failed(error: ToolError) -> Permission {
    Permission::Refused(Outcome::failed(error.0, "failure"))
}

/// Whether a model is one of those that the Copilot CLI numbered the lines of files for: Claude up to its fourth generation.
/// Later models and those of others get the text alone, as it shows it today.
fn wants_line_numbers(model: &str) -> bool {
    let Some((_, version)) = model.split_once("claude-") else {
        return false;
    };
    let generation = version.split(['-', '.']).find_map(|part| part.parse::<u32>().ok());
    generation.is_some_and(|generation| generation < 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_for_the_models_that_were_used_to_it() {
        for (model, expected) in [
            ("claude-sonnet-4.5", true),
            ("claude-3-5-haiku", true),
            ("anthropic/claude-opus-4-20250514", true),
            ("claude-sonnet-5", false),
            ("claude-next", false),
            ("gpt-4.1", false),
        ] {
            assert_eq!(wants_line_numbers(model), expected, "{model}");
        }
    }
}
