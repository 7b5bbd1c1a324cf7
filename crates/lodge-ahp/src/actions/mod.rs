//! What clients dispatch: every action is checked against the rules of who may and in which state, then applied and
//! echoed to all with its origin, or refused to its sender alone. Nothing else a client sends changes state.

mod chat;
mod directories;
mod host;
mod input;
mod roles;
mod service;
mod session;
mod settings;
mod tools;

use std::sync::Arc;

use ahp_types::{StateAction, state::MessageKind};
use lodge_events::Uuid;
use lodge_host::AnsweredBy;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::sync::oneshot;

pub(crate) use self::{
    chat::{further, name_default, renamed, tell_title},
    directories::{MOST_DIRECTORIES, existing, further_directories, further_of, is_same},
    host::{begin, begin_automation, cancel_automation},
    session::title,
    settings::shown as shown_settings,
    tools::{fail_call, fail_calls_of},
};
use crate::{
    annotations, automations,
    customizations::Wish,
    dialect::seed,
    face::{Face, Held, Inner},
    rpc,
    state::{Conn, Peer, Uri},
    talk::{Cause, Effect, Setting, Talk},
    terminals::Deed,
    version::Dialect,
    wire::Origin,
};

/// Why an action is not accepted, in words for people.
pub(crate) type Refusal = String;

/// What is to be done about an accepted action.
#[derive(Default)]
pub(crate) struct Plan {
    /// Done before it is published, such as loading turns that it names.
    before: Vec<Before>,
    /// For the agent of the conversation, in order.
    effects: Vec<Effect>,
    /// What it does to the messages that wait. Clients hear of it when the log says it.
    queue: Option<QueueAction>,
    /// What its agent has to do. Clients hear of it when the log says it.
    agent: Option<ForAgent>,
    /// The message that waits, and that a message which is sent now takes the place of.
    instead_of: Option<String>,
    /// Done after it is published.
    after: Vec<After>,
    /// It changes nothing: whether its sender is told so.
    no_change: Option<NoChange>,
}

enum Before {
    LoadTurns(String),
}

/// Something that an agent does.
#[derive(Debug, Clone)]
enum ForAgent {
    /// Stop a turn.
    Cancel(String),
    /// Stop a turn before the action is looked at again.
    Rest(String),
    /// Take the conversation back to before an event.
    Truncate(Uuid),
}

/// A change of the messages that wait.
enum QueueAction {
    /// A message waits for after the turn, or says something else.
    Set(Effect),
    /// A message is for the running turn, or for the next one.
    Steer {
        send: Effect,
        /// The one that waited so far.
        replaces: Option<String>,
        /// Whether a turn runs.
        now: bool,
    },
    Remove(String),
    Reorder(Vec<String>),
}

enum After {
    /// The agent is about to be given the message of a new turn.
    TurnStarted(String),
    TurnResumed,
    Truncated(Option<String>),
    ClientsChanged,
    /// The host will tell this again, as an event of its own.
    Expect(Box<StateAction>),
    /// The dispatching client runs no more tools: what it was running has failed.
    ClientGone,
    /// Keep what the person set.
    Keep,
    Terminal(Deed),
    /// Files of a changeset were marked as seen.
    Reviewed,
    /// Annotations changed.
    Annotated,
    /// A customization was turned on or off.
    Decided(String, Vec<ahp_types::state::CustomizationEnablement>),
    /// Something is wanted of an MCP server.
    Wished(String, Wish),
    /// The directories are others: one is gone, and perhaps another in its place.
    Directories(Option<(String, Option<String>)>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NoChange {
    /// The sender hears its own action again.
    Echo,
    /// Nobody hears anything: an echo would make the sender announce the same again, without end.
    Silence,
}

impl Plan {
    fn effect(effect: Effect) -> Self {
        Self {
            effects: vec![effect],
            ..Self::default()
        }
    }

    fn queue(action: QueueAction) -> Self {
        Self {
            queue: Some(action),
            ..Self::default()
        }
    }

    fn agent(action: ForAgent) -> Self {
        Self {
            agent: Some(action),
            ..Self::default()
        }
    }

    /// Whether it says something to the agent, so that there must be a session to keep it.
    fn says_something(&self) -> bool {
        let sends = |effect: &Effect| matches!(effect, Effect::Send { .. });
        self.effects.iter().any(sends) || self.queue.is_some() || self.agent.is_some()
    }

    fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.effects.iter().filter_map(|effect| match effect {
            Effect::Change(setting) => Some(setting),
            _ => None,
        })
    }

    fn then(mut self, after: After) -> Self {
        self.after.push(after);
        self
    }

    fn nothing(how: NoChange) -> Self {
        Self {
            no_change: Some(how),
            ..Self::default()
        }
    }
}

/// Who dispatches and where.
pub(crate) struct Dispatch<'a> {
    pub(crate) face: &'a Face,
    pub(crate) peer: &'a Peer,
    pub(crate) channel: Uri,
    /// In whose name messages are sent.
    speaker: MessageKind,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    channel: Option<String>,
    client_seq: serde_json::Number,
    action: Box<RawValue>,
}

/// Takes a `dispatchAction`. What cannot be read, or is about a channel that is not there, is ignored, as the protocol
/// says; everything else is answered by an echo or a refusal.
pub(crate) async fn dispatch(face: &Arc<Face>, conn: &Arc<Conn>, peer: &Peer, params: Option<&RawValue>) {
    let Ok(params) = rpc::params::<Params>(params) else {
        tracing::debug!(client = &*peer.client, "a dispatchAction could not be read");
        return;
    };
    let client_seq = params
        .client_seq
        .as_i64()
        .or_else(|| params.client_seq.as_f64().map(|seq| seq as i64));
    let origin = Origin {
        client_id: peer.client.clone(),
        client_seq: client_seq.unwrap_or_default(),
    };
    let Ok(value) = serde_json::from_str::<Value>(params.action.get()) else {
        return;
    };
    let named = value.get("session").and_then(Value::as_str).map(str::to_owned);
    let respelt = match peer.dialect {
        Dialect::Modern => params
            .channel
            .map(|channel| (channel, value))
            .ok_or_else(|| "no channel is named".to_owned()),
        Dialect::Seed => seed::incoming(&value, &peer.client).map(|incoming| {
            let to_chat = incoming.to_chat.then(|| face.default_chat(&incoming.uri));
            let uri = if incoming.uri == seed::ROOT {
                ahp_types::ROOT_RESOURCE_URI.to_owned()
            } else {
                incoming.uri
            };
            (to_chat.unwrap_or(uri), Value::Object(incoming.action))
        }),
    };
    let (channel, action) = match respelt {
        Ok(found) => found,
        Err(reason) => {
            let channel = named.unwrap_or_default();
            return face
                .inner
                .lock()
                .core
                .reject(conn, &channel, &params.action, &origin, &reason);
        }
    };
    let channel = if channel.starts_with("ahp-root:") {
        ahp_types::ROOT_RESOURCE_URI.to_owned()
    } else {
        automations::meant(&channel).to_owned()
    };
    if let Err(reason) = roles::check(&conn.admission, &action) {
        let inner = face.inner.lock();
        return inner.core.reject(conn, &channel, &params.action, &origin, &reason);
    }
    for chat in attached_chats(&action) {
        // One that is not there is refused in a moment.
        let _ = face.open(chat).await;
    }
    if channel != ahp_types::ROOT_RESOURCE_URI && face.open(&channel).await.is_err() {
        tracing::debug!(channel, "an action for a channel that is not there");
        return;
    }
    if automations::is_channel(&channel) && peer.dialect == Dialect::Modern {
        return face
            .automation_said(conn, peer, &channel, action, &params.action, &origin)
            .await;
    }
    let request = Asked {
        conn,
        peer,
        channel: &channel,
        action: &action,
        raw: &params.action,
        origin: &origin,
    };
    request.settle(face).await;
}

/// What must have happened before an action can be accepted.
enum Missing {
    /// The session behind a chat is made, or brought back into memory.
    Session(Uri),
    /// The logs of these sessions have these settings.
    Settings {
        settings: Vec<(lodge_host::Session, Setting)>,
        /// What their events will tell again, and who hears it.
        expected: Vec<StateAction>,
        chat: Uri,
    },
}

/// What became of an action.
enum Verdict {
    /// It was accepted or refused, or nobody minds it.
    Settled,
    /// The log has it, and its sender hears of it when the event comes that says so.
    Recorded(oneshot::Receiver<()>),
    /// The agent of a chat has to do something, and its sender hears of it when the event comes that says so.
    Agent {
        chat: Uri,
        agent: lodge_host::Session,
        action: ForAgent,
        told: oneshot::Receiver<()>,
    },
    /// Something must happen before.
    Missing(Missing),
}

/// An action and who dispatches it.
struct Asked<'a> {
    conn: &'a Arc<Conn>,
    peer: &'a Peer,
    channel: &'a str,
    action: &'a Value,
    raw: &'a RawValue,
    origin: &'a Origin,
}

impl Asked<'_> {
    /// The action, for when the event comes that says it.
    fn cause(&self, told: oneshot::Sender<()>) -> Cause {
        Cause {
            conn: self.conn.clone(),
            channel: self.channel.into(),
            raw: self.raw.to_owned(),
            origin: self.origin.clone(),
            told,
        }
    }

    /// Accepts the action or refuses it. Actions on a session are settled one after the other, so that they are told in the
    /// order in which they were accepted.
    async fn settle(&self, face: &Arc<Face>) {
        let session = face.inner.lock().core.session_of(self.channel);
        let gate = face.gate(session.as_deref().unwrap_or(self.channel));
        let _one = gate.lock().await;
        let (mut opened, mut configured, mut rested) = (false, false, false);
        loop {
            let verdict = accept(face, &mut face.inner.lock(), self, configured);
            let done = match verdict {
                Verdict::Settled => return,
                // Whatever is settled next finds what this one changed.
                Verdict::Recorded(told) => return drop(told.await),
                Verdict::Agent {
                    action: ForAgent::Rest(_),
                    ..
                } if rested => Err("the turn does not end; try again".to_owned()),
                Verdict::Agent {
                    chat,
                    agent,
                    action,
                    told,
                } => {
                    rested = matches!(action, ForAgent::Rest(_));
                    let done = face.has_done(&chat, &agent, &action, told).await;
                    if !rested {
                        return;
                    }
                    done
                }
                Verdict::Missing(Missing::Session(_)) if opened => Err("the session ended; try again".to_owned()),
                Verdict::Missing(Missing::Session(chat)) => {
                    opened = true;
                    face.materialise_chat(&chat).await.map_err(|error| error.to_string())
                }
                Verdict::Missing(Missing::Settings {
                    settings,
                    expected,
                    chat,
                }) => {
                    configured = true;
                    let done = configure(face, settings).await;
                    if let (Err(_), Some(talk)) = (&done, face.inner.lock().talks.get_mut(&chat)) {
                        expected.iter().for_each(|action| talk.unexpect(action));
                    }
                    done
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

async fn configure(face: &Face, settings: Vec<(lodge_host::Session, Setting)>) -> Result<(), Refusal> {
    for (session, setting) in settings {
        let changed = setting.apply(&face.host, &session).await;
        changed.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The chats and annotations that a message in an action refers to.
pub(crate) fn attached_chats(action: &Value) -> impl Iterator<Item = &str> {
    let attachments = action["message"]["attachments"].as_array();
    let chats = attachments
        .into_iter()
        .flatten()
        .filter(|attachment| attachment["type"] == "chat" || attachment["type"] == "annotations");
    chats.filter_map(|chat| chat["resource"].as_str()).take(16)
}

/// Accepts an action or refuses it, unless something must happen before.
fn accept(face: &Face, inner: &mut Inner, request: &Asked<'_>, configured: bool) -> Verdict {
    let Asked {
        conn,
        peer,
        channel: asked,
        action,
        raw,
        origin,
    } = *request;
    let kind = action.get("type").and_then(Value::as_str).unwrap_or_default();
    // Editors rename a session by its default chat, and a further chat by its own address.
    if kind == "session/titleChanged"
        && let Some(place) = chat::further(inner, asked)
    {
        let mut inner = Held::new(inner);
        let title = action.get("title").and_then(Value::as_str).unwrap_or_default();
        match chat::renamed(face, &mut inner, asked, &place, title) {
            Ok(()) => {
                chat::tell_title(&mut inner, asked, title);
                inner.core.echo(conn, asked, &raw, origin);
            }
            Err(reason) => inner.core.reject(conn, asked, &raw, origin, &reason),
        }
        return Verdict::Settled;
    }
    let to_session = kind
        .starts_with("session/")
        .then(|| inner.core.session_of(asked))
        .flatten();
    let channel: Uri = to_session.unwrap_or_else(|| asked.into());
    if !inner.core.channels.contains_key(&channel) {
        return Verdict::Settled;
    }
    let dispatch = Dispatch {
        face,
        peer,
        channel: channel.clone(),
        speaker: MessageKind::User,
    };
    let checked = parse(inner, &channel, action.clone(), kind).and_then(|mut action| {
        let plan = check(inner, &dispatch, &mut action)?;
        Ok((action, plan))
    });
    let (action, mut plan) = match checked {
        Ok(checked) => checked,
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
    if let Some(missing) = missing(inner, &channel, &plan, configured) {
        return Verdict::Missing(missing);
    }
    if let Some(change) = plan.queue.take() {
        return change_queue(inner, &channel, change, request);
    }
    if let Some(action) = plan.agent.take() {
        for Before::LoadTurns(turn) in &plan.before {
            inner.core.load_turns_for_all(&channel, turn);
        }
        return ask_agent(inner, &channel, action, request);
    }
    let by = answered_by(conn, peer);
    if let Err(reason) = keep_messages(inner, &channel, &plan).and_then(|()| answer(inner, &channel, &mut plan, &by)) {
        inner.core.reject(conn, asked, &raw, origin, &reason);
        return Verdict::Settled;
    }
    let mut inner = Held::new(inner);
    for before in &plan.before {
        match before {
            Before::LoadTurns(turn) => inner.core.load_turns_for_all(&channel, turn),
        }
    }
    // On another channel than it was sent to it is the host's action, and its sender is answered where it sent it.
    let here = *asked == *channel;
    let published = inner.core.publish(&channel, &action, here.then_some(origin));
    let heard = published && here && inner.core.hears(conn.id, peer.dialect, &channel);
    if !heard {
        inner.core.echo(conn, asked, &raw, origin);
    }
    finish(&dispatch, &mut inner, plan, configured);
    Verdict::Settled
}

/// Has the agent of a chat do something. The action waits for the event that says so.
fn ask_agent(inner: &mut Inner, chat: &Uri, action: ForAgent, request: &Asked<'_>) -> Verdict {
    let Some((talk, agent)) = inner.talk_mut(chat).and_then(|talk| {
        let agent = talk.agent().cloned()?;
        Some((talk, agent))
    }) else {
        let Asked { conn, raw, origin, .. } = *request;
        let reason = "the session is not open; try again";
        inner.core.reject(conn, request.channel, &raw, origin, reason);
        return Verdict::Settled;
    };
    let (told, heard) = oneshot::channel();
    match &action {
        ForAgent::Cancel(turn) => drop(talk.cancels.insert(turn.clone(), request.cause(told))),
        ForAgent::Rest(turn) => talk.turn_waiters.push((turn.clone(), told)),
        ForAgent::Truncate(_) => talk.truncation = Some(request.cause(told)),
    }
    Verdict::Agent {
        chat: chat.clone(),
        agent,
        action,
        told: heard,
    }
}

/// Changes the messages that wait: the log has it when this returns.
fn change_queue(inner: &mut Inner, chat: &Uri, change: QueueAction, request: &Asked<'_>) -> Verdict {
    let Asked { conn, raw, origin, .. } = *request;
    match inner.change_queue(chat, change) {
        Ok(Some((talk, event))) => {
            let (told, heard) = oneshot::channel();
            talk.causes.insert(event, request.cause(told));
            Verdict::Recorded(heard)
        }
        Ok(None) => {
            inner.core.echo(conn, request.channel, &raw, origin);
            Verdict::Settled
        }
        Err(reason) => {
            inner.core.reject(conn, request.channel, &raw, origin, &reason);
            Verdict::Settled
        }
    }
}

/// What must happen before a plan is carried out.
fn missing(inner: &mut Inner, channel: &Uri, plan: &Plan, configured: bool) -> Option<Missing> {
    let chat = match inner.core.sessions.get(channel) {
        Some(session) => session.default_chat.clone(),
        None => channel.clone(),
    };
    let (chat, talk) = inner.talk_of(&chat)?;
    let settings: Vec<&Setting> = plan.settings().collect();
    let changes = !settings.is_empty() && !configured && !talk.is_draft;
    let Some(agent) = talk.agent() else {
        return (changes || plan.says_something()).then(|| Missing::Session(chat.clone()));
    };
    if !changes {
        return None;
    }
    let mut todo: Vec<_> = settings
        .iter()
        .map(|setting| (agent.clone(), (*setting).clone()))
        .collect();
    for agent in inner.others(channel, chat).filter_map(Talk::agent) {
        let shared = settings.iter().filter(|setting| setting.is_shared());
        todo.extend(shared.map(|setting| (agent.clone(), (*setting).clone())));
    }
    let expected = plan.after.iter().filter_map(|after| match after {
        After::Expect(action) => Some((**action).clone()),
        _ => None,
    });
    let (expected, chat): (Vec<_>, _) = (expected.collect(), chat.clone());
    if let Some(talk) = inner.talks.get_mut(&chat) {
        expected.iter().for_each(|action| talk.expect(action.clone()));
    }
    Some(Missing::Settings {
        settings: todo,
        expected,
        chat,
    })
}

/// Has the session keep what a plan says to its agent.
fn keep_messages(inner: &mut Inner, chat: &str, plan: &Plan) -> Result<(), Refusal> {
    let said = inner.said.clone();
    let Some(talk) = inner.talk_mut(chat) else {
        return Ok(());
    };
    let is_starting = |id: &String| talk.agent().is_some_and(|agent| agent.is_starting_with(id));
    if plan.instead_of.as_ref().is_some_and(is_starting) {
        return Err("the agent already has this message".to_owned());
    }
    for send in &plan.effects {
        talk.accept(&said, send, true)?;
    }
    if let (Some(queued), Some(agent)) = (&plan.instead_of, talk.agent()) {
        agent.withdraw(queued).map_err(|error| error.to_string())?;
    }
    Ok(())
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
/// again after a restart are answered by the conversation's driver, in a moment.
fn answer(inner: &Inner, chat: &str, plan: &mut Plan, by: &AnsweredBy) -> Result<(), Refusal> {
    let Some(agent) = inner.talk_of(chat).and_then(|(_, talk)| talk.agent()) else {
        return Ok(());
    };
    let mut later = Vec::with_capacity(plan.effects.len());
    for mut effect in std::mem::take(&mut plan.effects) {
        if let Effect::Answer {
            request_id,
            answer,
            by: who,
        } = &mut effect
        {
            who.clone_from(by);
            let answered = agent.answer_open(request_id, (**answer).clone(), by.clone());
            if answered.map_err(|error| error.to_string())? {
                continue;
            }
        }
        later.push(effect);
    }
    plan.effects = later;
    Ok(())
}

/// Gives the agent its work and lets everything follow that an accepted action brings with it.
/// Settings that sessions have already are not told them again.
fn finish(dispatch: &Dispatch<'_>, inner: &mut Inner, plan: Plan, configured: bool) {
    let channel = &dispatch.channel;
    for after in plan.after {
        match after {
            After::TurnStarted(id) => {
                if let Some(talk) = inner.talk_mut(channel) {
                    talk.begin(&id, lodge_events::Timestamp::now());
                }
                dispatch.face.first_turn(inner, channel);
            }
            After::TurnResumed => {
                if let Some(talk) = inner.talk_mut(channel) {
                    talk.projector.turn_resumed();
                }
            }
            After::Truncated(last) => {
                if let Some(talk) = inner.talk_mut(channel) {
                    talk.projector.truncated(last.as_deref());
                }
            }
            After::ClientsChanged => inner.clients_changed(channel),
            After::Directories(moved) => directories::changed(dispatch.face, inner, channel, moved),
            // Expected since before the sessions were told.
            After::Expect(_) => {}
            After::ClientGone => {
                for chat in inner.core.chats_of(channel) {
                    fail_calls_of(inner, &chat, &dispatch.peer.client);
                }
            }
            After::Keep => dispatch.face.keep(inner, channel),
            After::Terminal(deed) => inner.do_terminal(channel, deed),
            After::Reviewed => dispatch.face.reviewed(inner, channel),
            After::Annotated => dispatch.face.annotated(inner, channel),
            After::Decided(id, said) => dispatch.face.toggled(inner, channel, &id, &said),
            After::Wished(id, wish) => {
                let chat = inner.core.sessions.get_mut(channel).map(|entry| {
                    entry.undone += 1;
                    entry.default_chat.clone()
                });
                if let Some(talk) = chat.and_then(|chat| inner.talks.get(&chat)) {
                    talk.tell(Effect::Server { id, wish });
                }
            }
        }
    }
    let to = match inner.core.sessions.get(channel) {
        Some(session) => session.default_chat.clone(),
        None => channel.clone(),
    };
    for effect in plan.effects {
        // How the agents of a session work is one thing, whichever of its chats they are in.
        if let Effect::Change(setting) = &effect {
            let untold = |talk: &&Talk| !configured || talk.agent().is_none();
            for talk in inner
                .others(channel, &to)
                .filter(untold)
                .filter(|_| setting.is_shared())
            {
                talk.tell(Effect::Change(setting.clone()));
            }
            if configured {
                continue;
            }
        }
        if let Some((_, talk)) = inner.talk_of(&to) {
            talk.tell(effect);
        }
    }
    inner.steer(&to);
    let session = annotations::session_of(channel).unwrap_or(channel);
    if let Some(session) = inner.core.session_of(session) {
        inner.core.settle(&session);
    }
}

/// The lists that clients must give. Programs in Go write one that holds nothing as `null`.
const LISTS: [&str; 7] = [
    "/activeClient/tools",
    "/annotation/entries",
    "/content",
    "/definition/triggers",
    "/enablement",
    "/files",
    "/order",
];

/// Makes lists of those that are `null`.
pub(crate) fn fill_lists(action: &mut Value) {
    for place in LISTS {
        if let Some(list @ Value::Null) = action.pointer_mut(place) {
            *list = Value::Array(Vec::new());
        }
    }
}

/// Reads an action. The official type takes a known action with a wrong payload for an unknown one; here that is said.
fn parse(inner: &Inner, channel: &str, mut action: Value, kind: &str) -> Result<StateAction, Refusal> {
    if let Some(map) = action.as_object_mut() {
        // Scripts send fractions of milliseconds, and clients of older dialects none at all.
        if matches!(kind, "chat/turnCancelled") {
            let given = map.get("duration").and_then(Value::as_f64);
            let duration = given.unwrap_or_else(|| inner.running_for(channel)).max(0.0);
            map.insert("duration".to_owned(), (duration as i64).into());
        }
        if kind == "chat/turnStarted" && !map.contains_key("startedAt") {
            map.insert(
                "startedAt".to_owned(),
                crate::projection::timestamp(lodge_events::Timestamp::now()).into(),
            );
        }
    }
    fill_lists(&mut action);
    match serde_json::from_value::<StateAction>(action) {
        Ok(StateAction::Unknown(_)) if kind.is_empty() => Err("the action has no type".to_owned()),
        Ok(StateAction::Unknown(_)) => Err(format!("{kind} is not an action that can be understood")),
        Ok(action) => Ok(action),
        Err(error) => Err(format!("the action cannot be read: {error}")),
    }
}

/// The rules.
fn check(inner: &Inner, dispatch: &Dispatch<'_>, action: &mut StateAction) -> Result<Plan, Refusal> {
    use StateAction as A;
    if inner.core.chats.contains_key(&dispatch.channel) {
        return match action {
            A::ChatTurnStarted(started) => chat::turn_started(inner, dispatch, started),
            A::ChatTurnCancelled(cancelled) => chat::turn_cancelled(inner, dispatch, cancelled),
            A::ChatTurnResume(resume) => chat::turn_resumed(inner, dispatch, resume),
            A::ChatTruncated(truncated) => chat::truncated(inner, dispatch, truncated),
            A::ChatPendingMessageSet(set) => chat::pending_set(inner, dispatch, set),
            A::ChatPendingMessageRemoved(removed) => chat::pending_removed(inner, dispatch, removed),
            A::ChatQueuedMessagesReordered(order) => chat::reordered(inner, dispatch, order),
            A::ChatDraftChanged(changed) => chat::draft(inner, dispatch, changed),
            A::ChatIsReadChanged(_) | A::ChatIsArchivedChanged(_) => Ok(Plan::default()),
            A::ChatToolCallConfirmed(confirmed) => tools::confirmed(inner, dispatch, confirmed),
            A::ChatToolCallComplete(complete) => tools::complete(inner, dispatch, complete),
            A::ChatToolCallResultConfirmed(confirmed) => tools::result_confirmed(inner, dispatch, confirmed),
            A::ChatToolCallContentChanged(changed) => tools::content_changed(inner, dispatch, changed),
            A::ChatInputAnswerChanged(changed) => input::answer_changed(inner, dispatch, changed),
            A::ChatInputCompleted(completed) => input::completed(inner, dispatch, completed),
            A::ChatWorkingDirectorySet(_) | A::ChatWorkingDirectoryRemoved(_) => {
                directories::check_chat(inner, dispatch, action)
            }
            _ => Err("clients cannot dispatch this for a chat".to_owned()),
        };
    }
    if inner.core.sessions.contains_key(&dispatch.channel) {
        return session::check(inner, dispatch, action);
    }
    if let Some(service) = inner.core.service(&dispatch.channel) {
        return service::check(inner, service, dispatch, action);
    }
    match action {
        A::RootConfigChanged(changed) => settings::check(dispatch.face, inner, changed),
        _ => Err("clients cannot dispatch this for itself".to_owned()),
    }
}

impl Inner {
    /// Changes the messages that wait in a conversation. The conversation and the event that says it, unless nothing changed.
    fn change_queue(&mut self, chat: &Uri, change: QueueAction) -> Result<Option<(&mut Talk, Uuid)>, Refusal> {
        let said = self.said.clone();
        let talk = self.talk_mut(chat).ok_or("there is no such chat")?;
        let agent = talk.agent().cloned().ok_or("the session is not open; try again")?;
        let event = match change {
            QueueAction::Set(Effect::Send { id, .. }) if agent.is_starting_with(&id) => {
                return Err("the agent already has this message".to_owned());
            }
            QueueAction::Set(send) => talk.accept(&said, &send, false)?,
            QueueAction::Steer { send, replaces, now } => {
                let event = talk.accept(&said, &send, true)?;
                if let Some(replaced) = replaces {
                    agent.withdraw(&replaced).map_err(|error| error.to_string())?;
                }
                if now {
                    talk.tell(send);
                } else if let Effect::Send { id, .. } = send {
                    talk.early_steering = Some(id);
                }
                event
            }
            QueueAction::Remove(id) => {
                let removed = agent.withdraw(&id).map_err(|error| error.to_string())?;
                Some(removed.ok_or("the agent already has this message")?)
            }
            QueueAction::Reorder(order) => Some(agent.reorder(order).map_err(|error| error.to_string())?),
        };
        Ok(event.map(|event| (talk, event)))
    }

    /// The other conversations of a session.
    fn others(&self, session: &str, chat: &str) -> impl Iterator<Item = &Talk> {
        let others = self.talks.iter();
        others
            .filter(move |(uri, talk)| *talk.session == *session && ***uri != *chat)
            .map(|(_, talk)| talk)
    }

    /// For how long the running turn of a chat has been running, in milliseconds.
    fn running_for(&self, chat: &str) -> f64 {
        let active = self
            .core
            .chats
            .get(chat)
            .and_then(|chat| chat.store.head().active_turn.as_ref());
        let started = active.and_then(|turn| turn.started_at.parse::<lodge_events::Timestamp>().ok());
        started.map_or(0.0, |started| {
            (lodge_events::Timestamp::now().as_millisecond() - started.as_millisecond()) as f64
        })
    }
}

impl Face {
    /// Has the agent of a chat do what a client wants, and waits until the client was told.
    async fn has_done(
        &self,
        chat: &Uri,
        agent: &lodge_host::Session,
        action: &ForAgent,
        told: oneshot::Receiver<()>,
    ) -> Result<(), Refusal> {
        let resuming = |inner: &Inner| {
            inner
                .talk_of(chat)
                .is_some_and(|(_, talk)| talk.projector.is_resuming())
        };
        if resuming(&self.inner.lock()) {
            // The agent hears of that first. If it cannot, there is nothing to stop.
            let _ = self.materialise_chat(chat).await;
        }
        let done = match action {
            ForAgent::Cancel(turn) | ForAgent::Rest(turn) => agent.cancel(turn).await,
            ForAgent::Truncate(before) => agent.truncate(*before).await.map(|_| true),
        };
        let done = done.map_err(|error| error.to_string());
        match &done {
            Ok(true) => drop(told.await),
            Ok(false) => self.nothing_stopped(chat, action),
            Err(reason) => self.not_done(chat, action, reason),
        }
        done.map(drop)
    }

    /// No event will say that a turn is over which clients see.
    fn nothing_stopped(&self, chat: &Uri, action: &ForAgent) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let steps = inner.talk_mut(chat).map(|talk| talk.projector.turn_stopped());
        if inner.take(chat, steps.unwrap_or_default()) {
            self.keep(inner, chat);
        }
        drop(guard);
        self.not_done(chat, action, "no such turn is running");
    }

    /// Tells the client, if it waits still, that an agent did not do what it wanted.
    fn not_done(&self, chat: &Uri, action: &ForAgent, reason: &str) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let cause = inner.talk_mut(chat).and_then(|talk| match action {
            ForAgent::Cancel(turn) => talk.cancels.remove(turn),
            ForAgent::Truncate(_) => talk.truncation.take(),
            ForAgent::Rest(_) => None,
        });
        if let Some(cause) = cause {
            cause.reject(&inner.core, reason);
        }
    }

    /// The default chat of a session, open or not.
    pub(crate) fn default_chat(&self, session: &str) -> String {
        let open = {
            let inner = self.inner.lock();
            let entry = inner.core.sessions.get(session);
            entry.map(|session| session.default_chat.to_string())
        };
        let own = || self.store.session(&self.store.id_of(session)?).own.map(|own| own.uri);
        open.or_else(own).unwrap_or_else(|| crate::uri::default_chat(session))
    }

    /// A draft becomes a session with its first turn: it is kept from now on, and others are told.
    pub(crate) fn first_turn(&self, inner: &mut Inner, chat: &str) {
        let Some(session) = inner.core.session_of(chat) else {
            return;
        };
        let announced = inner
            .core
            .sessions
            .get(&session)
            .is_some_and(|entry| entry.announced.is_some());
        if !announced {
            self.keep_uri(inner, &session);
            inner.core.announce(&session);
        }
        chat::named(self, inner, chat);
        self.offer_changesets(inner, &session);
        self.keep(inner, chat);
    }

    /// Keeps the URI of a session. One that has it is in the list, also before its log has a message.
    pub(crate) fn keep_uri(&self, inner: &Inner, session: &Uri) {
        let Some(entry) = inner.core.sessions.get(session) else {
            return;
        };
        let Some(talk) = inner.talks.get(&entry.default_chat) else {
            return;
        };
        self.store.update(&talk.host_id, |record| {
            record.uri = Some(session.to_string());
            record.call_provider(&entry.state.provider);
        });
    }

    /// Keeps what people set about a session or a chat that is not in any log: flags and drafts.
    pub(crate) fn keep(&self, inner: &Inner, channel: &str) {
        let Some(session) = inner.core.session_of(channel) else {
            return;
        };
        let Some(entry) = inner
            .core
            .sessions
            .get(&session)
            .filter(|entry| entry.announced.is_some())
        else {
            return;
        };
        let chat = inner
            .core
            .chats
            .get_key_value(channel)
            .map_or(&entry.default_chat, |(uri, _)| uri);
        let (Some((main, talk)), Some(shown)) = (inner.talk_of(chat), inner.core.chats.get(chat)) else {
            return;
        };
        if main != chat {
            return;
        }
        let status = entry.state.status;
        let auto = entry.state.config.as_ref().is_some_and(|config| {
            config
                .values
                .get("autoApprove")
                .is_some_and(|value| value == "autoApprove")
        });
        let head = shown.store.head();
        self.store.update(&talk.host_id, |record| {
            record.draft.clone_from(&head.draft);
            if *chat == entry.default_chat {
                record.read = status & ahp_types::state::SessionStatus::IsRead.bits() != 0;
                record.archived = status & ahp_types::state::SessionStatus::IsArchived.bits() != 0;
                record.auto_approve = auto;
                record.decisions.clone_from(&entry.decisions);
                record.directories = further_of(&entry.state);
            }
            record.own_directories.clone_from(&head.working_directories);
        });
    }
}
