//! Requests of a program: permissions, files and commands. The rules of the session decide them, or people do.

use std::sync::Arc;

use lodge_events::{PermissionRequest, SessionWarning};
use lodge_external::{CallUpdate, NewTerminal, Reply, Said, TerminalRequest};
use lodge_log::LogError;
use lodge_tools::{Need, Tool, ToolCx};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    Done, MOST_OPEN, Work,
    approved::Approved,
    described::{Action, Describer, for_people},
    forms::{NotChosen, chosen_way},
    terminals::Terminal,
};
use crate::{
    answer::request_id,
    permission::{Asking, Verdict},
    session::Shared,
    turn::Stop,
};

/// So many files are read or described at once for a program: each may be as large as files may be.
const MOST_LOOKS: usize = 3;
/// So much of all open requests is shown at once, in KiB. What is more waits.
const MOST_SHOWN: u32 = 4 << 10;

/// What bounds the requests of a turn.
#[derive(Clone)]
pub(super) struct Bounds {
    looks: Arc<Semaphore>,
    shown: Arc<Semaphore>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            looks: Arc::new(Semaphore::new(MOST_LOOKS)),
            shown: Arc::new(Semaphore::new(MOST_SHOWN as usize)),
        }
    }
}

/// The part of the room that an open request takes.
struct Room {
    bytes: usize,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Bounds {
    /// Looks at files away from the turn. Whoever looks next waits for what is given back with it.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Option<OwnedSemaphorePermit>), String> {
        // Nobody closes it.
        let permit = self.looks.clone().acquire_owned().await.ok();
        // The look takes its part with it: a turn that ends does not end the look.
        let looking = tokio::task::spawn_blocking(move || (look(), permit));
        looking.await.map_err(|error| error.to_string())
    }

    async fn room_for(&self, bytes: usize) -> Room {
        let wanted = u32::try_from(bytes / 1024 + 1).unwrap_or(MOST_SHOWN).min(MOST_SHOWN);
        Room {
            bytes,
            _permit: self.shown.clone().acquire_many_owned(wanted).await.ok(),
        }
    }
}

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
    let mut asking = Asking::new(shared, id.clone(), &request);
    let is_command = matches!(request, PermissionRequest::Shell(_));
    let verdict = match shared.permit(&id, request.clone()).await? {
        // Nothing confines what the program does, so what only looks harmless is asked about, too.
        Verdict::Allowed { approved: false } if is_command => shared.ask_permission(&id, request).await?,
        verdict => verdict,
    };
    asking.done();
    Ok(match verdict {
        // The mode may have changed while somebody thought about it.
        Verdict::Allowed { .. } => by_plan(),
        other => Err(other),
    })
}

/// Does what a request asks for, unless the program withdraws it before.
pub(super) async fn unless_withdrawn(
    withdrawn: CancellationToken,
    withdrawn_is: Done,
    work: impl Future<Output = Result<Done, LogError>>,
) -> Result<Done, LogError> {
    tokio::select! {
        biased;
        () = withdrawn.cancelled() => Ok(withdrawn_is),
        done = work => done,
    }
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
            Said::Elicitation(elicitation, reply) => self.elicit(elicitation, reply)?,
            Said::Read(path, line, limit, reply) => self.read(path, line, limit, reply),
            Said::Write(path, text, reply) => self.write(path, text, reply),
            Said::Terminal(wanted, reply) => self.terminal(wanted, reply),
            Said::OfTerminal(what, id, reply) => self.of_terminal(what, &id, reply),
            _ => {}
        }
        Ok(())
    }

    fn describer(&self) -> Describer {
        Describer {
            shared: self.turn.shared.clone(),
            agent: self.agent.clone(),
            cx: self.cx(),
        }
    }

    /// Describes something away from the turn, and goes on with the description once there is room for what is shown of it.
    fn describe<T: Send + 'static>(
        &mut self,
        describe: impl FnOnce(&Describer) -> Result<T, String> + Send + 'static,
        shown: impl FnOnce(&T) -> usize + Send + 'static,
        then: impl FnOnce(&mut Work<'_>, Result<(T, Room), String>) -> Result<(), Stop> + Send + 'static,
    ) {
        let (describer, bounds) = (self.describer(), self.bounds.clone());
        self.requests.push(Box::pin(async move {
            let described = bounds.look(move || describe(&describer)).await;
            let described = match described.and_then(|(described, _)| described) {
                Ok(described) => {
                    let bytes = shown(&described);
                    Ok((described, bounds.room_for(bytes).await))
                }
                Err(why) => Err(why),
            };
            Ok(Done::Found(Box::new(move |work| then(work, described))))
        }));
    }

    /// Tells people why the program was refused something without asking them.
    pub(super) fn tell_refused(&mut self, why: &str) -> Result<(), LogError> {
        let why = for_people(why);
        let message = format!("A request of the agent {} was refused: {why}", self.agent);
        self.record(SessionWarning {
            warning_type: "agent_request_refused".into(),
            message,
            ..SessionWarning::default()
        })
    }

    fn permission(&mut self, update: CallUpdate, reply: Reply) -> Result<(), Stop> {
        let id = update.tool_call_id.clone();
        // People are asked about what is wanted now, not about a call of the same id that is over.
        self.forget_ended(&id);
        self.learn(update)?;
        // Dropped, it is cancelled.
        let Some(known) = self.hold_call(&id) else {
            return Ok(());
        };
        self.describe(
            move |by| by.describe(&known),
            |actions| actions.iter().map(Action::shown).sum(),
            move |work, described| Ok(work.ask(id, described, reply)?),
        );
        Ok(())
    }

    /// Asks about a call that is described.
    fn ask(
        &mut self,
        id: String,
        described: Result<(Vec<Action>, Room), String>,
        reply: Reply,
    ) -> Result<(), LogError> {
        let (actions, room) = match described {
            Ok(described) => described,
            Err(why) => {
                reply.refuse();
                self.tell_refused(&why)?;
                return self.answered(&id, Vec::new());
            }
        };
        self.count_recorded(room.bytes);
        let questions = self.ask_about_call(&id, &actions)?;
        let approved: Vec<Approved> = actions.iter().filter_map(Action::approves).collect();
        let shared = self.turn.shared.clone();
        let (withdrawn, is_over) = (reply.withdrawn(), Done::Answered(id.clone(), Vec::new()));
        let work = async move {
            let _room = room;
            for question in questions {
                if let Err(verdict) = permitted(&shared, question, false).await? {
                    reply.refuse();
                    return Ok(match refused(verdict) {
                        (Done::Rejected, _) => Done::Rejected,
                        _ => Done::Answered(id, Vec::new()),
                    });
                }
            }
            match chosen_way(&shared, &reply.ways_to_allow()).await {
                Ok(way) => {
                    reply.allow(way);
                    Ok(Done::Answered(id, approved))
                }
                // Dropped, it is cancelled.
                Err(NotChosen(why)) => Ok(Done::Found(Box::new(move |work| {
                    if let Some(why) = why {
                        work.tell_refused(&why)?;
                    }
                    Ok(work.answered(&id, Vec::new())?)
                }))),
            }
        };
        self.requests.push(Box::pin(unless_withdrawn(withdrawn, is_over, work)));
        Ok(())
    }

    fn read(&mut self, path: String, line: Option<u64>, limit: Option<u64>, reply: Reply) {
        let (mut cx, bounds) = (self.cx(), self.bounds.clone());
        let (shared, view, describer) = (self.turn.shared.clone(), self.builtin("view"), self.describer());
        let withdrawn = reply.withdrawn();
        let work = async move {
            let name = path.clone();
            let described = bounds.look(move || describer.reading(&name)).await;
            let (place, action) = match described.and_then(|(described, _)| described) {
                Ok(described) => described,
                Err(why) => {
                    reply.answer(Err(why));
                    return Ok(Done::Nothing);
                }
            };
            if let Err(verdict) = permitted(&shared, action.question(None), false).await? {
                let (done, why) = refused(verdict);
                reply.answer(Err(why));
                return Ok(done);
            }
            if let Some(view) = view {
                cx.ask_editor(&*view, &json!({ "path": path })).await;
            }
            // A program that does not read its answers gets no further ones.
            reply.room().await;
            let read = move || {
                let text = cx.read_text(&path, &place).map_err(|error| error.to_string());
                text.map(|text| json!({ "content": lines(&text, line, limit) }))
            };
            match bounds.look(read).await {
                Ok((text, _look)) => reply.answer(text),
                Err(why) => reply.answer(Err(why)),
            }
            Ok(Done::Nothing)
        };
        self.requests
            .push(Box::pin(unless_withdrawn(withdrawn, Done::Nothing, work)));
    }

    fn write(&mut self, path: String, text: String, reply: Reply) {
        self.count_request();
        self.describe(
            move |by| {
                by.writing(&path, &text)
                    .map(|(place, action)| (path, text, place, action))
            },
            |(.., action)| action.shown(),
            move |work, described| {
                let ((path, text, place, action), room) = match described {
                    Ok(described) => described,
                    Err(why) => {
                        work.tell_refused(&why)?;
                        reply.answer(Err(why));
                        return Ok(());
                    }
                };
                work.count_recorded(room.bytes);
                let is_approved = work.is_approved(&action);
                let (shared, cx) = (work.turn.shared.clone(), work.cx());
                let withdrawn = reply.withdrawn();
                let writing = async move {
                    let _room = room;
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
                };
                let writing = unless_withdrawn(withdrawn, Done::Nothing, writing);
                work.requests.push(Box::pin(writing));
                Ok(())
            },
        );
    }

    /// Whether people allowed exactly this for a call that has not ended. What they allowed is used up by it.
    fn is_approved(&mut self, action: &Action) -> bool {
        let mut calls = self.calls.values_mut();
        action
            .approves()
            .is_some_and(|what| calls.any(|call| call.use_up(&what)))
    }

    fn terminal(&mut self, wanted: NewTerminal, reply: Reply) {
        self.count_request();
        let place = match self.terminals.reserve() {
            Ok(place) => place,
            Err(why) => return reply.answer(Err(why)),
        };
        let limit = wanted.output_byte_limit;
        self.describe(
            move |by| by.command(&wanted.line(), wanted.cwd.as_deref().unwrap_or(".")),
            |(_, action)| action.shown(),
            move |work, described| {
                let ((line, action), room) = match described {
                    Ok(described) => described,
                    Err(why) => {
                        work.tell_refused(&why)?;
                        reply.answer(Err(why));
                        return Ok(());
                    }
                };
                work.count_recorded(room.bytes);
                let is_approved = work.is_approved(&action);
                let (shared, cx) = (work.turn.shared.clone(), work.cx());
                let withdrawn = reply.withdrawn();
                let starting = async move {
                    let _room = room;
                    if let Err(verdict) = permitted(&shared, action.question(None), is_approved).await? {
                        let (done, why) = refused(verdict);
                        reply.answer(Err(why));
                        return Ok(done);
                    }
                    Ok(match Terminal::start(&cx, &line, limit, place) {
                        Ok(terminal) => {
                            let id = Uuid::new_v4();
                            reply.answer(Ok(json!({ "terminalId": id.to_string() })));
                            Done::Started(id, terminal)
                        }
                        Err(error) => {
                            reply.answer(Err(error.to_string()));
                            Done::Nothing
                        }
                    })
                };
                let starting = unless_withdrawn(withdrawn, Done::Nothing, starting);
                work.requests.push(Box::pin(starting));
                Ok(())
            },
        );
    }

    fn of_terminal(&mut self, what: TerminalRequest, id: &str, reply: Reply) {
        let Some(terminal) = self.terminals.get(id).cloned() else {
            return reply.answer(Err(format!("There is no terminal {id}.")));
        };
        match what {
            TerminalRequest::Output => reply.answer(Ok(terminal.report())),
            TerminalRequest::Exit => {
                let withdrawn = reply.withdrawn();
                let waiting = async move {
                    reply.answer(Ok(json!({ "exitCode": terminal.exit_code().await })));
                    Ok(Done::Nothing)
                };
                let waiting = unless_withdrawn(withdrawn, Done::Nothing, waiting);
                self.requests.push(Box::pin(waiting));
            }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn few_files_are_read_at_once_and_a_look_counts_until_its_answer_is_given() {
        let bounds = Bounds::default();
        let begun = Arc::new(AtomicUsize::new(0));
        let look = || {
            let begun = begun.clone();
            bounds.look(move || begun.fetch_add(1, Ordering::SeqCst))
        };
        let mut held = Vec::new();
        for _ in 0..MOST_LOOKS {
            held.push(look().await.unwrap());
        }
        let mut next = Box::pin(look());
        assert!(futures_util::poll!(&mut next).is_pending());
        tokio::task::yield_now().await;
        assert_eq!(begun.load(Ordering::SeqCst), MOST_LOOKS);
        drop(held);
        next.await.unwrap();
    }

    #[tokio::test]
    async fn only_so_much_is_shown_at_once() {
        let bounds = Bounds::default();
        let room = bounds.room_for(usize::MAX).await;
        let mut next = Box::pin(bounds.room_for(1));
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(room);
        assert_eq!(next.await.bytes, 1);
    }
}
