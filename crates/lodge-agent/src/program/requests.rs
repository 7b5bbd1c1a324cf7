//! Requests of a program: permissions, files and commands. The rules of the session decide them, or people do.

use std::sync::Arc;

use lodge_events::PermissionRequest;
use lodge_external::{CallUpdate, NewTerminal, Reply, Said, TerminalRequest};
use lodge_log::LogError;
use lodge_mcp::Elicitation;
use lodge_tools::{Need, Tool, ToolCx};
use serde_json::json;
use uuid::Uuid;

use super::{
    Done, MOST_OPEN, Work,
    approved::Approved,
    described::{self, Action},
    terminals::Terminal,
};
use crate::{answer::request_id, permission::Verdict, session::Shared, turn::Stop};

/// Whether something may be done now, by this host.
async fn permitted(
    shared: &Shared,
    request: PermissionRequest,
    is_approved: bool,
) -> Result<Result<(), Verdict>, LogError> {
    let verdict = decided(shared, request, is_approved).await?;
    if verdict.is_ok() {
        shared.recorder.durable().await?;
    }
    Ok(verdict)
}

/// What modes, rules and people say. What people allowed before is not asked about again, but modes and rules hold for it, too.
async fn decided(
    shared: &Shared,
    request: PermissionRequest,
    is_approved: bool,
) -> Result<Result<(), Verdict>, LogError> {
    let only_looks = shared.only_looks("bash", &Need::Ask(Box::new(request.clone())));
    let by_plan = || match shared.plan_refusal(only_looks) {
        Some(_) => Err(Verdict::Denied("Plan mode: nothing may be changed yet.".to_owned())),
        None => Ok(()),
    };
    if let Err(refused) = by_plan() {
        return Ok(Err(refused));
    }
    if is_approved {
        return Ok(shared
            .forbidden(&request)
            .map_or(Ok(()), |why| Err(Verdict::Denied(why))));
    }
    let id = request_id(&shared.id, &Uuid::new_v4().to_string(), "permission");
    let is_command = matches!(request, PermissionRequest::Shell(_));
    let verdict = match shared.permit(&id, request.clone()).await? {
        // Nothing confines what the program does, so what only looks harmless is asked about, too.
        Verdict::Allowed { approved: false } if is_command => shared.ask_permission(&id, request).await?,
        verdict => verdict,
    };
    Ok(match verdict {
        // The mode may have changed while somebody thought about it.
        Verdict::Allowed { .. } => by_plan(),
        other => Err(other),
    })
}

/// Which of an agent's ways to allow something it is. Where there are several, people choose, whoever allowed the request: their
/// names may promise more than this once.
async fn chosen_way(shared: &Arc<Shared>, ways: &[String]) -> Option<usize> {
    if ways.len() < 2 {
        return Some(0);
    }
    let names = ways.iter().enumerate();
    let names: Vec<String> = names.map(|(at, name)| format!("{}. {name}", at + 1)).collect();
    let choice = json!({ "type": "string", "title": "Answer", "enum": names });
    let form = Elicitation {
        message: "The agent offers several ways to allow this. Choose its answer.".to_owned(),
        schema: Some(json!({ "type": "object", "properties": { "answer": choice }, "required": ["answer"] })),
        url: None,
        call_id: None,
    };
    let answer = shared.ask_form(None, None, form)?.await;
    let content = answer.content.filter(|_| answer.action == "accept")?;
    let chosen = content["answer"].as_str()?;
    names.iter().position(|name| name == chosen)
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
    pub(super) fn builtin(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let builtins = &self.turn.shared.builtins;
        builtins.iter().find(|tool| tool.name() == name).cloned()
    }

    pub(super) fn cx(&self) -> ToolCx {
        self.tool_call("agent", "agent").cx()
    }

    pub(super) fn request(&mut self, request: Said) -> Result<(), Stop> {
        if self.requests.len() >= MOST_OPEN {
            // Dropped, it is refused.
            return Ok(());
        }
        match request {
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
        let actions = self.describe(&call.known);
        let questions = self.ask_about_call(&id, &actions)?;
        let approved: Vec<Approved> = actions.iter().filter_map(Action::approves).collect();
        let shared = self.turn.shared.clone();
        self.requests.push(Box::pin(async move {
            for question in questions {
                if let Err(verdict) = permitted(&shared, question, false).await? {
                    reply.refuse();
                    return Ok(match refused(verdict) {
                        (Done::Rejected, _) => Done::Rejected,
                        _ => Done::Answered(id, Vec::new()),
                    });
                }
            }
            let Some(way) = chosen_way(&shared, &reply.ways_to_allow()).await else {
                // Dropped, it is cancelled.
                return Ok(Done::Answered(id, Vec::new()));
            };
            reply.allow(way);
            Ok(Done::Answered(id, approved))
        }));
        Ok(())
    }

    fn read(&mut self, path: String, line: Option<u64>, limit: Option<u64>, reply: Reply) {
        let mut cx = self.cx();
        let (place, action) = match described::reading(&cx, &path) {
            Ok(found) => found,
            Err(error) => return reply.answer(Err(error.to_string())),
        };
        let (shared, view) = (self.turn.shared.clone(), self.builtin("view"));
        self.requests.push(Box::pin(async move {
            if let Err(verdict) = permitted(&shared, action.question(None), false).await? {
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
        let cx = self.cx();
        let (place, action) = match described::writing(&cx, &path, &text) {
            Ok(found) => found,
            Err(error) => return reply.answer(Err(error.to_string())),
        };
        let is_approved = self.is_approved(&action);
        let shared = self.turn.shared.clone();
        self.requests.push(Box::pin(async move {
            if let Err(verdict) = permitted(&shared, action.question(None), is_approved).await? {
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

    /// Whether people allowed exactly this for a call that has not ended. What they allowed is used up by it.
    fn is_approved(&mut self, action: &Action) -> bool {
        let mut calls = self.calls.values_mut();
        action
            .approves()
            .is_some_and(|what| calls.any(|call| call.use_up(&what)))
    }

    fn terminal(&mut self, wanted: NewTerminal, reply: Reply) {
        let described = self.command(&wanted.line(), wanted.cwd.as_deref().unwrap_or("."));
        let reserved = described.and_then(|described| Ok((described, self.terminals.reserve()?)));
        let ((line, action), place) = match reserved {
            Ok(reserved) => reserved,
            Err(why) => return reply.answer(Err(why)),
        };
        let is_approved = self.is_approved(&action);
        let (shared, cwd) = (self.turn.shared.clone(), self.cx().cwd);
        self.requests.push(Box::pin(async move {
            if let Err(verdict) = permitted(&shared, action.question(None), is_approved).await? {
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
            TerminalRequest::Exit => self.requests.push(Box::pin(async move {
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
