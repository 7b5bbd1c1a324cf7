//! What a program asks for: permissions, files and commands, by the rules and questions of the session.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use lodge_events::{CustomToolPermission, PermissionRequest};
use lodge_external::{CallUpdate, NewTerminal, Reply, Said, TerminalRequest};
use lodge_log::LogError;
use lodge_tools::{Need, Tool, ToolCx};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Done, MOST_OPEN, Work, approved::Approved, calls::Call, terminals::Terminal};
use crate::{answer::request_id, permission::Verdict, session::Shared, turn::Stop};

/// Whether something may be done.
async fn permitted(shared: &Shared, request: PermissionRequest) -> Result<Result<(), Verdict>, LogError> {
    if shared
        .plan_refusal(shared.only_looks("bash", &Need::Ask(Box::new(request.clone()))))
        .is_some()
    {
        return Ok(Err(Verdict::Denied(
            "Plan mode: nothing may be changed yet.".to_owned(),
        )));
    }
    let id = request_id(&shared.id, &Uuid::new_v4().to_string(), "permission");
    let is_command = matches!(request, PermissionRequest::Shell(_));
    Ok(match shared.permit(&id, request.clone()).await? {
        // Nothing confines what the program does, so what only looks harmless is asked about, too.
        Verdict::Allowed { approved: false } if is_command => match shared.ask_permission(&id, request).await? {
            Verdict::Allowed { .. } => Ok(()),
            other => Err(other),
        },
        Verdict::Allowed { .. } => Ok(()),
        other => Err(other),
    })
}

/// A question about what no call of the program says: people are shown what it asks for and nothing else.
fn alone(request: PermissionRequest) -> PermissionRequest {
    request.with_tool_call_id(None)
}

/// Nobody knows what is written, so no difference is shown.
fn unknown(mut request: PermissionRequest) -> PermissionRequest {
    if let PermissionRequest::Write(write) = &mut request {
        (write.diff, write.new_file_contents) = (String::new(), None);
    }
    request
}

/// What a refusal means for the turn, and for whoever asked.
fn refused(verdict: Verdict) -> (Done, String) {
    match verdict {
        Verdict::Rejected(why) => (Done::Rejected, why),
        Verdict::Denied(why) => (Done::Nothing, why),
        // The program would do what it asked for, not what it was changed to.
        _ => (
            Done::Nothing,
            "The user changed this call; ask for what is wanted instead.".to_owned(),
        ),
    }
}

impl Work<'_> {
    fn builtin(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.turn
            .shared
            .builtins
            .iter()
            .find(|tool| tool.name() == name)
            .cloned()
    }

    fn cx(&self, call: &str) -> ToolCx {
        self.tool_call(call, "agent").cx()
    }

    pub(super) fn wish(&mut self, wish: Said) -> Result<(), Stop> {
        if self.wishes.len() >= MOST_OPEN {
            // Dropped, it is refused.
            return Ok(());
        }
        match wish {
            Said::Permission(call, reply) => self.permission(*call, reply)?,
            Said::Read(path, line, limit, reply) => self.read(path, line, limit, reply),
            Said::Write(path, text, reply) => self.write(path, text, reply),
            Said::Terminal(wanted, reply) => self.terminal(wanted, reply),
            Said::OfTerminal(what, id, reply) => self.of_terminal(what, &id, reply),
            _ => {}
        }
        Ok(())
    }

    fn permission(&mut self, update: CallUpdate, reply: Reply) -> Result<(), Stop> {
        let id = update.tool_call_id.clone();
        // People are asked about what is wanted now, not about a call of the same id that is over.
        self.forget_ended(&id);
        self.learn(update)?;
        let Some(call) = self.calls.get(&id) else { return Ok(()) };
        let (request, approved) = self.request(call);
        let request = self.ask_about_call(&id, request)?;
        let shared = self.turn.shared.clone();
        self.wishes.push(Box::pin(async move {
            let approved = match permitted(&shared, request).await? {
                Ok(()) => {
                    reply.permit(true);
                    approved
                }
                Err(verdict) => {
                    reply.permit(false);
                    match refused(verdict) {
                        (Done::Rejected, _) => return Ok(Done::Rejected),
                        _ => Vec::new(),
                    }
                }
            };
            Ok(Done::Answered(id, approved))
        }));
        Ok(())
    }

    /// What people are asked about a call, and what the program may then have done for it without another question.
    fn request(&self, call: &Call) -> (PermissionRequest, Vec<Approved>) {
        let (cx, known) = (self.cx(&call.id), &call.known);
        let title = known.title.clone().unwrap_or_default();
        let of_tool = |tool: &str, arguments: Value| match self.builtin(tool)?.need(&arguments, &cx) {
            Ok(Need::Ask(request)) => Some((*request, Vec::new())),
            _ => None,
        };
        let kind = known.kind.as_deref().unwrap_or_default();
        let files: BTreeSet<_> = known.files().map(|path| cx.cwd.join(path)).collect();
        // A question about one file says nothing of the others, nor one about a change.
        let path = known
            .path()
            .filter(|_| files.len() <= 1 && known.changes().count() <= 1);
        let found = match (kind, known.command(), path) {
            ("execute", Some(command), _) => {
                let place = known.argument(&["cwd", "workdir", "directory"]).unwrap_or(".");
                let approved = cx.directory(place).ok().map(|cwd| Approved::command(command, &cwd));
                let request = self.running(command, &cx.cwd.join(place), &title);
                request.map(|request| (request, approved.into_iter().collect()))
            }
            ("read", _, Some(path)) => of_tool("view", json!({ "path": path })),
            ("edit", _, Some(path)) => {
                let text = known.changes().next().map(|(_, _, text)| text);
                let place = cx.writing(path, text.unwrap_or_default()).ok();
                place.map(|(place, request)| match text {
                    Some(text) => (request, vec![Approved::write(&place.path, text)]),
                    None => (unknown(request), Vec::new()),
                })
            }
            ("fetch", ..) => known
                .argument(&["url"])
                .and_then(|url| of_tool("web_fetch", json!({ "url": url }))),
            _ => None,
        };
        found.unwrap_or_else(|| self.whole(call, &cx))
    }

    /// A question that shows all that the program says of a call. What a rule forbids of it stays forbidden.
    fn whole(&self, call: &Call, cx: &ToolCx) -> (PermissionRequest, Vec<Approved>) {
        let (known, input) = (&call.known, call.arguments());
        let (mut parts, mut changes, mut approved) = (Vec::new(), Vec::new(), Vec::new());
        if known.kind.as_deref() == Some("execute") {
            let line = known.command_line();
            parts.extend(line.and_then(|line| self.running(&line, &cx.cwd, "")));
        }
        for (path, old, new) in known.changes() {
            let mut diff = lodge_tools::difference(path, old, new);
            if let Ok((place, request)) = cx.writing(path, new) {
                if let PermissionRequest::Write(write) = &request {
                    diff.clone_from(&write.diff);
                }
                approved.push(Approved::write(&place.path, new));
                parts.push(request);
            }
            changes.push(json!({ "path": path, "diff": diff }));
        }
        parts.extend(known.files().filter_map(|path| match known.kind.as_deref()? {
            "read" => cx.reading(path).ok().map(|(_, request)| request),
            "edit" | "delete" | "move" => cx.writing(path, "").ok().map(|(_, request)| unknown(request)),
            _ => None,
        }));
        if let Some(forbidden) = parts
            .into_iter()
            .find(|part| self.turn.shared.forbidden(part).is_some())
        {
            return (forbidden, Vec::new());
        }
        let is_told = |path: &str| {
            input
                .as_object()
                .is_some_and(|input| input.values().any(|value| value == path))
        };
        let args = match !changes.is_empty() || !known.files().all(is_told) {
            true => json!({ "changes": changes, "files": known.files().collect::<BTreeSet<_>>(), "input": input }),
            false => input,
        };
        let request = CustomToolPermission {
            tool_call_id: Some(call.id.clone()),
            tool_name: call.name(),
            tool_description: known.title.clone().unwrap_or_default(),
            args: Some(args),
            ..CustomToolPermission::default()
        };
        (request.into(), approved)
    }

    /// What people are asked about a command. It is judged from where it runs, and they see where that is.
    fn running(&self, command: &str, place: &Path, purpose: &str) -> Option<PermissionRequest> {
        let mut cx = self.cx("terminal");
        let description = match cx.cwd == place {
            true => purpose.to_owned(),
            false => format!("In {}", place.display()),
        };
        cx.cwd = place.to_owned();
        let arguments = json!({ "command": command, "description": description });
        match self.builtin("bash")?.need(&arguments, &cx) {
            Ok(Need::Ask(request)) => Some(*request),
            _ => None,
        }
    }

    fn read(&mut self, path: String, line: Option<u64>, limit: Option<u64>, reply: Reply) {
        let mut cx = self.cx("read");
        let (place, request) = match cx.reading(&path) {
            Ok(found) => found,
            Err(error) => return reply.answer(Err(error.to_string())),
        };
        let (shared, view) = (self.turn.shared.clone(), self.builtin("view"));
        self.wishes.push(Box::pin(async move {
            if let Err(verdict) = permitted(&shared, alone(request)).await? {
                let (done, why) = refused(verdict);
                reply.answer(Err(why));
                return Ok(done);
            }
            if let Some(view) = view {
                cx.ask_editor(&*view, &json!({ "path": path })).await;
            }
            let read = tokio::task::spawn_blocking(move || cx.read_text(&path, &place)).await;
            let text = read.map_err(|error| error.to_string());
            let text = text.and_then(|text| text.map_err(|error| error.to_string()));
            reply.answer(text.map(|text| json!({ "content": lines(&text, line, limit) })));
            Ok(Done::Nothing)
        }));
    }

    fn write(&mut self, path: String, text: String, reply: Reply) {
        let cx = self.cx("write");
        let (place, request) = match cx.writing(&path, &text) {
            Ok(found) => found,
            Err(error) => return reply.answer(Err(error.to_string())),
        };
        let is_approved = self.approved.contains(&Approved::write(&place.path, &text));
        let shared = self.turn.shared.clone();
        self.wishes.push(Box::pin(async move {
            if !is_approved && let Err(verdict) = permitted(&shared, alone(request)).await? {
                let (done, why) = refused(verdict);
                reply.answer(Err(why));
                return Ok(done);
            }
            let written = tokio::task::spawn_blocking(move || cx.write_text(&path, &place, &text)).await;
            let written = written.map_err(|error| error.to_string());
            let written = written.and_then(|written| written.map_err(|error| error.to_string()));
            reply.answer(written.map(|()| json!({})));
            Ok(Done::Nothing)
        }));
    }

    fn terminal(&mut self, wanted: NewTerminal, reply: Reply) {
        let line = wanted.line();
        let cx = self.cx("terminal");
        let (cwd, place) = match (
            cx.directory(wanted.cwd.as_deref().unwrap_or(".")),
            self.terminals.reserve(),
        ) {
            (Ok(cwd), Ok(place)) => (cwd, place),
            (Err(error), _) => return reply.answer(Err(error.to_string())),
            (_, Err(why)) => return reply.answer(Err(why)),
        };
        let Some(request) = self.running(&line, &cwd, "") else {
            return reply.answer(Err("Commands cannot be run here.".to_owned()));
        };
        let is_approved = self.approved.contains(&Approved::command(&line, &cwd));
        let shared = self.turn.shared.clone();
        self.wishes.push(Box::pin(async move {
            if !is_approved && let Err(verdict) = permitted(&shared, alone(request)).await? {
                let (done, why) = refused(verdict);
                reply.answer(Err(why));
                return Ok(done);
            }
            Ok(
                match Terminal::start(&shared, &line, &cwd, wanted.output_byte_limit, place) {
                    Ok(terminal) => {
                        let id = Uuid::new_v4();
                        reply.answer(Ok(json!({ "terminalId": id.to_string() })));
                        Done::Started(id, terminal)
                    }
                    Err(error) => {
                        reply.answer(Err(error.to_string()));
                        Done::Nothing
                    }
                },
            )
        }));
    }

    fn of_terminal(&mut self, what: TerminalRequest, id: &str, reply: Reply) {
        let Some(terminal) = self.terminals.get(id).cloned() else {
            return reply.answer(Err(format!("There is no terminal {id}.")));
        };
        match what {
            TerminalRequest::Output => reply.answer(Ok(terminal.report())),
            TerminalRequest::Exit => self.wishes.push(Box::pin(async move {
                reply.answer(Ok(json!({ "exitCode": terminal.exit_code().await })));
                Ok(Done::Nothing)
            })),
            TerminalRequest::Kill => {
                terminal.kill();
                reply.answer(Ok(json!({})));
            }
            TerminalRequest::Release => {
                self.terminals.release(id);
                reply.answer(Ok(json!({})));
            }
        }
    }
}

/// Some lines of a text, counted from 1.
fn lines(text: &str, line: Option<u64>, limit: Option<u64>) -> String {
    if line.is_none() && limit.is_none() {
        return text.to_owned();
    }
    let number =
        |number: Option<u64>, default| number.map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX));
    text.split_inclusive('\n')
        .skip(number(line, 1).saturating_sub(1))
        .take(number(limit, usize::MAX))
        .collect()
}
