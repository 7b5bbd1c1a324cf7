//! Runs: begun in a session of their own, followed to the end of their turn, cancelled where somebody asks.

use std::sync::Arc;

use ahp_types::{
    StateAction,
    actions::{
        AutomationRunLifecycleChangedAction, AutomationRunPrimarySessionChangedAction, AutomationRunSessionSetAction,
    },
    state::{
        AutomationDefinition, AutomationManualRunOrigin, AutomationRunOrigin, AutomationSessionOrigin, Message,
        ResponsePart, SessionOrigin, Turn, TurnState,
    },
};

use super::{
    record::{End, Record, is_over},
    write,
};
use crate::{
    actions,
    face::Face,
    methods::{NewSession, Template, prepare},
    rpc::{RpcError, code},
    state::{ChatStore, Uri},
    uri,
};

/// A key of somebody who asks for a run has at most so many bytes.
const KEY_BYTES: usize = 1 << 10;

/// Where a run takes place.
struct Begun {
    /// The host's id of its session.
    id: String,
    chat: Uri,
    turn: String,
}

impl Face {
    /// Starts a run for somebody, once for each of their keys. Its address.
    pub(crate) async fn run_automation(
        self: &Arc<Self>,
        automation: &str,
        request: String,
    ) -> Result<String, RpcError> {
        if request.trim().is_empty() || request.len() > KEY_BYTES {
            return Err(RpcError::params(format!("a requestId has 1 to {KEY_BYTES} bytes")));
        }
        let mut book = self.automations.book.lock().await;
        self.check_allowed()?;
        let known = book.get(automation).ok_or_else(|| not_found(automation))?;
        if let Some(run) = known.asked(&request) {
            return Ok(run);
        }
        let mut record = known.clone();
        let origin = AutomationRunOrigin::Manual(AutomationManualRunOrigin {});
        let run = record.ask(request, origin, self.automations.clock.now());
        let run = run.map_err(|reason| RpcError::new(code::TOO_BUSY, reason))?;
        self.keep_record(&mut book, record, &[], "")
            .await
            .map_err(|error| RpcError::failed(format_args!("the run cannot be kept: {error}")))?;
        drop(book);
        self.start_run(run.clone());
        Ok(run)
    }

    /// Automations may have been turned off as a whole.
    pub(crate) fn check_allowed(&self) -> Result<(), RpcError> {
        if self.inner.lock().automations_allowed() {
            return Ok(());
        }
        Err(RpcError::new(code::INVALID_REQUEST, "Automations are disabled."))
    }

    /// Shows everybody a page more of the runs of an automation.
    pub(crate) async fn show_runs(&self, automation: &str, cursor: Option<&str>) -> Result<(), RpcError> {
        let mut book = self.automations.book.lock().await;
        self.check_allowed()?;
        let known = book.get(automation).ok_or_else(|| not_found(automation))?;
        let mut record = known.clone();
        if record.show_more(cursor).map_err(RpcError::params)? {
            // How much is shown is not kept.
            self.show_record(&mut book, record, &[], "");
        }
        Ok(())
    }

    /// Sees to a run that is kept and has not begun.
    pub(super) fn start_run(self: &Arc<Self>, run: String) {
        let face = self.clone();
        self.tasks.spawn(async move {
            let end = match face.begin_run(&run).await {
                Ok(None) => return,
                Ok(Some(begun)) => match face.follow(&begun).await {
                    Some(end) => end,
                    // The host ends; the next one says so.
                    None => return,
                },
                Err(reason) => End::failed("automationExecution", reason),
            };
            face.end_run(&run, end).await;
        });
    }

    /// Makes the session of a run and gives it the message. `None`: it was cancelled before.
    async fn begin_run(self: &Arc<Self>, run: &str) -> Result<Option<Begun>, String> {
        let known = self.automations.book.lock().await.of_run(run).cloned();
        let Some(definition) = known.map(|record| record.definition) else {
            return Ok(None);
        };
        // What was right when it was saved need not be so any more.
        super::definition::check(&definition)?;
        let wanted = prepare(self, template(&definition))
            .await
            .map_err(|error| error.message)?;
        let message = message(&definition);
        for chat in actions::attached_chats(&serde_json::json!({ "message": &message })) {
            // One that is not there is refused in a moment.
            let _ = self.open(chat).await;
        }
        let mut book = self.automations.book.lock().await;
        let Some(mut record) = book.of_run(run).cloned() else {
            return Ok(None);
        };
        let id = uuid::Uuid::new_v4().to_string();
        let provider = definition.session.provider.as_deref().unwrap_or(uri::PROVIDER);
        let session = format!("{provider}:/{id}");
        if !record.begin(run, &session, self.automations.clock.now()) {
            return Ok(None);
        }
        let told = begun(&record, run, &session);
        let origin = AutomationSessionOrigin {
            automation: record.resource.clone(),
            run: run.to_owned(),
        };
        let kept = write(&book, record).await;
        let record = kept.map_err(|error| format!("the run cannot be kept: {error}"))?;
        self.store.update(&id, |record| record.origin = Some(origin.clone()));
        let session: Uri = session.into();
        let new = NewSession {
            session: &session,
            id: &id,
            wanted,
            client: "automation",
            title: Some(definition.title.clone()),
            origin: Some(SessionOrigin::Automation(origin)),
        };
        new.draft(self);
        let chat: Uri = uri::default_chat(&session).into();
        let made = self.materialise(&session).await.map_err(|error| error.to_string());
        let begun = made.and_then(|()| actions::begin_automation(self, &mut self.inner.lock(), &chat, message));
        match begun {
            Ok(turn) => {
                // Whoever hears of the session finds it.
                self.show_record(&mut book, record, &told, run);
                Ok(Some(Begun { id, chat, turn }))
            }
            Err(reason) => {
                // Nothing was said in it, and nobody knows of it.
                self.inner.lock().remove_session(&session);
                // It may not have been made.
                let _ = self.host.delete(&id).await;
                self.store.forget(&id);
                Err(reason)
            }
        }
    }

    /// Waits for the end of a run's turn. `None`: the host ends before.
    async fn follow(self: &Arc<Self>, begun: &Begun) -> Option<End> {
        let mut ends = self.inner.lock().core.turn_ends.subscribe();
        loop {
            ends.borrow_and_update();
            let looked = {
                let inner = self.inner.lock();
                let chat = inner.core.chats.get(&begun.chat);
                chat.map(|chat| how_it_ended(&chat.store, &begun.turn))
            };
            match looked {
                Some(Some(end)) => return Some(end),
                Some(None) => {}
                // Somebody removed the session, and whatever it did with it.
                None if self.store.session(&begun.id).origin.is_none() => return Some(End::Cancelled),
                None if self.stop.is_cancelled() => return None,
                // It is read anew.
                None => {
                    let opened = self.open(&begun.chat).await;
                    let is_kept = self.store.session(&begun.id).origin.is_some();
                    if let Err(error) = opened.map_err(|error| error.to_string())
                        && is_kept
                    {
                        return Some(End::failed("automationExecution", error));
                    }
                    continue;
                }
            }
            tokio::select! {
                changed = ends.changed() => changed.ok()?,
                () = self.stop.cancelled() => return None,
            }
        }
    }

    async fn end_run(&self, run: &str, end: End) {
        let mut book = self.automations.book.lock().await;
        let Some(mut record) = book.of_run(run).cloned() else {
            return;
        };
        if record.end(run, end, self.automations.clock.now()) {
            let told = lifecycle(&record, run);
            self.keep_at_any_rate(&mut book, record, &told, run).await;
        }
    }

    /// Cancels a run. `Err` says why not. One that has a session ends with its turn.
    pub(super) async fn cancel_run(self: &Arc<Self>, run: &str) -> Result<(), String> {
        let mut book = self.automations.book.lock().await;
        let mut record = book
            .of_run(run)
            .cloned()
            .ok_or_else(|| format!("there is no run {run}"))?;
        let known = record.run(run).filter(|known| !is_over(&known.lifecycle));
        let known = known.ok_or_else(|| format!("the run {run} is over"))?;
        if let Some(session) = known.sessions.first() {
            let chat = uri::default_chat(session);
            actions::cancel_automation(self, &mut self.inner.lock(), &chat.into());
            return Ok(());
        }
        record.end(run, End::Cancelled, self.automations.clock.now());
        let told = lifecycle(&record, run);
        let kept = self.keep_record(&mut book, record, &told, run).await;
        kept.map_err(|error| format!("this cannot be kept: {error}"))
    }
}

/// The session that a definition wants.
fn template(definition: &AutomationDefinition) -> Template {
    let template = definition.session.clone();
    Template {
        provider: template.provider,
        directories: template.working_directories.unwrap_or_default(),
        model: template.model.map(|model| model.id),
        config: template.config,
    }
}

/// What its agent is told: by the model and the custom agent of the template, where the message names none.
fn message(definition: &AutomationDefinition) -> Message {
    let (template, mut message) = (&definition.session, definition.message.clone());
    message.model = message.model.or_else(|| template.model.clone());
    message.agent = message.agent.or_else(|| template.agent.clone());
    message
}

/// What those hear who listen to a run when it begins.
fn begun(record: &Record, run: &str, session: &str) -> Vec<StateAction> {
    let set = AutomationRunSessionSetAction {
        session: session.to_owned(),
    };
    let primary = AutomationRunPrimarySessionChangedAction {
        primary_session: Some(session.to_owned()),
    };
    let mut told = lifecycle(record, run);
    told.push(StateAction::AutomationRunSessionSet(set));
    told.push(StateAction::AutomationRunPrimarySessionChanged(primary));
    told
}

fn lifecycle(record: &Record, run: &str) -> Vec<StateAction> {
    let changed = record.run(run).map(|run| AutomationRunLifecycleChangedAction {
        lifecycle: run.lifecycle.clone(),
    });
    let changed = changed.map(|action| StateAction::AutomationRunLifecycleChanged(Box::new(action)));
    changed.into_iter().collect()
}

/// How a turn ended; `None` while it has not. One that is no more was taken back.
fn how_it_ended(chat: &ChatStore, turn: &str) -> Option<End> {
    let waits = chat
        .head()
        .queued_messages
        .iter()
        .flatten()
        .any(|queued| queued.id == turn);
    if chat.active(turn).is_some() || waits {
        return None;
    }
    let json = chat.position(turn).and_then(|at| chat.json(at));
    let Some(turn) = json.and_then(|json| serde_json::from_str::<Turn>(json.get()).ok()) else {
        return Some(End::Cancelled);
    };
    Some(match turn.state {
        TurnState::Complete => End::Completed(turn.usage),
        TurnState::Cancelled => End::Cancelled,
        TurnState::Error => {
            let error = turn.response_parts.into_iter().rev().find_map(|part| match part {
                ResponsePart::Error(part) => Some(part.error),
                _ => None,
            });
            error.map_or_else(|| End::failed("automationExecution", "the turn failed"), End::Failed)
        }
    })
}

fn not_found(automation: &str) -> RpcError {
    RpcError::new(code::NOT_FOUND, format!("Automation not found: {automation}"))
}
