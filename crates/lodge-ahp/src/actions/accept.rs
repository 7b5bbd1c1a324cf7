//! Accepts an action or refuses it. What has to happen before is done first, and the log has what must not be lost.

use std::{path::PathBuf, sync::Arc};

use ahp_types::{StateAction, state::MessageKind};
use lodge_host::{AnsweredBy, Storing};
use serde_json::{Value, value::RawValue};
use tokio::sync::oneshot;

use super::{
    Dispatch, Refusal, Write,
    agent::ask_agent,
    chat,
    configure::{NewSettings, new_settings, new_title},
    finish::finish,
    plan::{After, Before, NoChange, Plan},
    queue::QueueChange,
    refusal::{DirectoryRefusal, TurnRefusal},
    rules::{check, duration_of},
};
use crate::{
    conversation::{Cause, Conversation, Dispatched, Effect, ForAgent, Setting},
    face::{Face, Held, Inner},
    state::{Conn, Peer, Uri},
    version::Dialect,
    wire::Origin,
};

/// What must have happened before an action can be accepted.
pub(super) enum Missing {
    /// The session behind a chat is made, or brought back into memory.
    Session(Uri),
    /// The log of this session says where it works.
    Directories(lodge_host::Session, Setting),
}

/// What became of an action.
pub(super) enum Verdict {
    /// It was accepted or refused, or nobody minds it.
    Settled,
    /// The log has to say it, and its sender hears of it when the event comes that says so.
    Queue(QueueChange),
    /// Something has to be written before anybody hears of it.
    Write(Write, Box<Kept>),
    /// The agent of a chat has to do something, and its sender hears of it when the event comes that says so.
    Agent {
        chat: Uri,
        agent: lodge_host::Session,
        action: ForAgent,
    },
    /// Logs have to say what it sets, and its sender hears of it when the event comes that says the last of it.
    Settings(NewSettings),
    /// The log has what it says, but is still being stored elsewhere. Nobody hears of it before that.
    Storing(Storing, Box<Kept>),
    /// Something must happen before.
    Missing(Missing),
}

/// An action that was accepted, and of which nobody was told yet.
pub(super) struct Kept {
    channel: Uri,
    action: StateAction,
    plan: Plan,
}

/// An action and who dispatches it.
pub(super) struct Asked<'a> {
    pub(super) conn: &'a Arc<Conn>,
    pub(super) peer: &'a Peer,
    pub(super) channel: &'a str,
    pub(super) action: &'a Value,
    /// The same, read.
    pub(super) read: Result<StateAction, Refusal>,
    pub(super) raw: &'a RawValue,
    pub(super) origin: &'a Origin,
    pub(super) added: Option<Result<PathBuf, DirectoryRefusal>>,
}

impl Asked<'_> {
    /// The action, for when the event comes that says it.
    pub(super) fn cause(&self, told: oneshot::Sender<()>) -> Cause {
        let dispatched = Dispatched {
            conn: self.conn.clone(),
            channel: self.channel.into(),
            raw: self.raw.to_owned(),
            origin: self.origin.clone(),
        };
        Cause {
            dispatched: Some(dispatched),
            setting: None,
            told,
        }
    }

    /// Accepts the action or refuses it. Actions on a session are settled one after the other, so that they are told in the
    /// order in which they were accepted.
    pub(super) async fn accept_or_reject(&self, face: &Arc<Face>) {
        let session = face.inner.lock().core.session_of(self.channel);
        let gate = face.gate(session.as_deref().unwrap_or(self.channel));
        let _one = gate.lock().await;
        let (mut opened, mut placed, mut rested) = (false, false, false);
        loop {
            let verdict = accept(face, &mut face.inner.lock(), self, placed);
            let done = match verdict {
                Verdict::Settled => return,
                Verdict::Settings(new) => return face.configure(new).await,
                Verdict::Queue(change) => match change.run(face) {
                    // Whatever is settled next finds what this one changed.
                    Ok(told) => return drop(told.await),
                    Err(reason) => Err(reason),
                },
                Verdict::Write(write, kept) => match write.run(&face.host) {
                    Ok(storing) => match stored(storing).await {
                        Ok(()) => return self.publish(face, &mut face.inner.lock(), *kept),
                        Err(reason) => Err(reason),
                    },
                    Err(reason) => Err(reason),
                },
                Verdict::Storing(storing, kept) => match stored(Some(storing)).await {
                    Ok(()) => return self.publish(face, &mut face.inner.lock(), *kept),
                    Err(reason) => Err(reason),
                },
                Verdict::Agent {
                    action: ForAgent::Rest(_),
                    ..
                } if rested => Err(TurnRefusal::Unending.into()),
                Verdict::Agent { chat, agent, action } => {
                    rested = matches!(action, ForAgent::Rest(_));
                    let done = face.has_done(&chat, &agent, &action).await;
                    if !rested {
                        return;
                    }
                    done
                }
                Verdict::Missing(Missing::Session(_)) if opened => Err(Refusal::Ended),
                Verdict::Missing(Missing::Session(chat)) => {
                    opened = true;
                    face.materialise_chat(&chat).await.map_err(Refusal::from)
                }
                Verdict::Missing(Missing::Directories(session, directories)) => {
                    placed = true;
                    directories.apply(&face.host, &session).await.map_err(Refusal::from)
                }
            };
            if let Err(reason) = done {
                let inner = face.inner.lock();
                return inner
                    .core
                    .reject(self.conn, self.channel, &self.raw, self.origin, &reason);
            }
        }
    }
}

impl Asked<'_> {
    /// Tells everybody of the action, its sender included, and does what follows from it.
    fn publish(&self, face: &Face, inner: &mut Inner, kept: Kept) {
        let Kept { channel, action, plan } = kept;
        let (conn, asked) = (self.conn, self.channel);
        let mut inner = Held::new(inner);
        for before in &plan.before {
            match before {
                Before::LoadTurns(turn) => inner.core.load_turns_for_all(&channel, turn),
            }
        }
        // On another channel than it was sent to it is the host's action, and its sender is answered where it sent it.
        let here = *asked == *channel;
        let published = inner.core.publish(&channel, &action, here.then_some(self.origin));
        let heard = published && here && inner.core.hears(conn.id, self.peer.dialect, &channel);
        if !heard {
            inner.core.echo(conn, asked, &self.raw, self.origin);
        }
        finish(&self.dispatch(face, channel), &mut inner, plan);
    }

    fn dispatch<'a>(&'a self, face: &'a Face, channel: Uri) -> Dispatch<'a> {
        Dispatch {
            face,
            peer: self.peer,
            channel,
            speaker: MessageKind::User,
            added: self.added.clone(),
        }
    }
}

/// Waits until a log has stored what it said.
async fn stored(storing: Option<Storing>) -> Result<(), Refusal> {
    match storing {
        Some(storing) => storing.done().await.map_err(Refusal::Unrecorded),
        None => Ok(()),
    }
}

/// Accepts an action or refuses it, unless something must happen before. `placed`: where it says that a session works, the log
/// says, too.
fn accept(face: &Face, inner: &mut Inner, request: &Asked<'_>, placed: bool) -> Verdict {
    let Asked {
        conn,
        peer,
        channel: asked,
        action,
        raw,
        origin,
        ref read,
        ..
    } = *request;
    let kind = action.get("type").and_then(Value::as_str).unwrap_or_default();
    // Editors rename a session by its default chat, and a further chat by its own address.
    if kind == "session/titleChanged" && chat::further(inner, asked).is_some() {
        let title = action.get("title").and_then(Value::as_str).unwrap_or_default();
        if let Err(reason) = lodge_host::check_title(title) {
            inner.core.reject(conn, asked, &raw, origin, &reason);
            return Verdict::Settled;
        }
        return match inner.conversations.get(asked).and_then(Conversation::agent).cloned() {
            Some(agent) => new_title(inner, asked, agent, title, request),
            None => Verdict::Missing(Missing::Session(asked.into())),
        };
    }
    let to_session = kind
        .starts_with("session/")
        .then(|| inner.core.session_of(asked))
        .flatten();
    let channel: Uri = to_session.unwrap_or_else(|| asked.into());
    if !inner.core.has_channel(&channel) {
        return Verdict::Settled;
    }
    let dispatch = request.dispatch(face, channel.clone());
    let mut action = match read {
        Ok(action) => action.clone(),
        Err(reason) => {
            inner.core.reject(conn, asked, &raw, origin, reason);
            return Verdict::Settled;
        }
    };
    if let StateAction::ChatTurnCancelled(cancelled) = &mut action
        && duration_of(request.action).is_none()
    {
        cancelled.duration = inner.running_for(&channel);
    }
    let mut plan = match check(inner, &dispatch, &mut action) {
        Ok(plan) => plan,
        Err(reason) => {
            inner.core.reject(conn, asked, &raw, origin, &reason);
            return Verdict::Settled;
        }
    };
    if let Some(how) = plan.no_change {
        match how {
            // As it would have been published: what is only spelt otherwise must change nothing at its sender either.
            NoChange::Echo if peer.dialect == Dialect::Modern && *asked == *channel => {
                inner.core.echo(conn, asked, &action, origin);
            }
            NoChange::Echo => inner.core.echo(conn, asked, &raw, origin),
            NoChange::Silence => {}
        }
        return Verdict::Settled;
    }
    if let Some(missing) = missing(inner, &channel, &plan, placed) {
        return Verdict::Missing(missing);
    }
    if let Some(new) = new_settings(inner, &channel, &plan, &action, request) {
        return Verdict::Settings(new);
    }
    if let Some(change) = plan.queue.take() {
        return match inner.queue_change(&channel, change, |told| request.cause(told)) {
            Ok(change) => Verdict::Queue(change),
            Err(reason) => {
                inner.core.reject(conn, asked, &raw, origin, &reason);
                Verdict::Settled
            }
        };
    }
    if let Some(action) = plan.agent.take() {
        for Before::LoadTurns(turn) in &plan.before {
            inner.core.load_turns_for_all(&channel, turn);
        }
        return ask_agent(inner, &channel, action, request);
    }
    if let Some(write) = plan.write.take() {
        let kept = Kept { channel, action, plan };
        return Verdict::Write(write, Box::new(kept));
    }
    let by = answered_by(conn, peer);
    let storing = match answer(inner, &channel, &mut plan, &by) {
        Ok(storing) => storing.filter(|storing| !storing.is_done()),
        Err(reason) => {
            inner.core.reject(conn, asked, &raw, origin, &reason);
            return Verdict::Settled;
        }
    };
    let kept = Kept { channel, action, plan };
    match storing {
        Some(storing) => Verdict::Storing(storing, Box::new(kept)),
        None => {
            request.publish(face, inner, kept);
            Verdict::Settled
        }
    }
}

/// What must happen before a plan is carried out.
fn missing(inner: &Inner, channel: &Uri, plan: &Plan, placed: bool) -> Option<Missing> {
    let chat = match inner.core.sessions.get(channel) {
        Some(session) => session.default_chat.clone(),
        None => channel.clone(),
    };
    let (chat, talk) = inner.conversation(&chat)?;
    let Some(agent) = talk.agent() else {
        let decides = plan.after.iter().any(|after| matches!(after, After::Decided(_)));
        let changes = !talk.is_draft && (decides || plan.settings().next().is_some());
        return (changes || plan.says_something()).then(|| Missing::Session(chat.clone()));
    };
    let mut settings = plan.settings();
    let directories = settings.find(|setting| matches!(setting, Setting::Directories(_)))?;
    (!placed && !talk.is_draft).then(|| Missing::Directories(agent.clone(), directories.clone()))
}

/// Who answers, as the log says it.
fn answered_by(conn: &Conn, peer: &Peer) -> AnsweredBy {
    AnsweredBy {
        client: Some(peer.client.to_string()),
        device: conn.admission.identity.device().map(str::to_owned),
        role: Some(conn.admission.role().name().to_owned()),
        rule: None,
    }
}

/// Answers what a plan answers, so that the log has it before anybody hears of it. Questions that are about to be asked
/// again after a restart are answered by the conversation's driver, in a moment. Answers with what the log is to store.
fn answer(inner: &Inner, chat: &str, plan: &mut Plan, by: &AnsweredBy) -> Result<Option<Storing>, Refusal> {
    let Some(agent) = inner.conversation(chat).and_then(|(_, talk)| talk.agent()) else {
        return Ok(None);
    };
    let mut storing = None;
    let mut later = Vec::with_capacity(plan.effects.len());
    for mut effect in std::mem::take(&mut plan.effects) {
        if let Effect::Answer {
            request_id,
            answer,
            by: who,
        } = &mut effect
        {
            who.clone_from(by);
            if let Some(answered) = agent.answer_open(request_id, (**answer).clone(), by.clone())? {
                storing = Some(answered);
                continue;
            }
        }
        later.push(effect);
    }
    plan.effects = later;
    Ok(storing)
}
