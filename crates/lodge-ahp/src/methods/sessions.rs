//! Making and removing sessions.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use ahp_types::{
    StateAction,
    actions::SessionReadyAction,
    common::JsonObject,
    state::{SessionActiveClient, SessionLifecycle, SessionOrigin, SessionStatus},
};
use lodge_host::{Approval, Environment, GitContext, HostError, Mode};
use serde::Deserialize;
use serde_json::Value;

use super::Request;
use crate::{
    actions, chats,
    conversation::{Draft, Effect},
    face::{Face, is_agent, is_program},
    load::{NewState, UNTITLED, branching_of, new_state},
    rpc::{self, RpcError, RpcResult, code},
    session_config::{Branching, EFFORT, Isolation, effort_of, takes_effort},
    state::Uri,
    uri,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Create {
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    working_directories: Option<Vec<String>>,
    #[serde(default)]
    config: Option<JsonObject>,
    #[serde(default, deserialize_with = "rpc::object")]
    active_client: Option<SessionActiveClient>,
    #[serde(rename = "_meta", default, deserialize_with = "rpc::object")]
    meta: Option<Meta>,
    // What follows is the seed's.
    #[serde(default)]
    session: Option<String>,
    #[serde(default)]
    working_directory: Option<String>,
    #[serde(default, deserialize_with = "rpc::object")]
    model: Option<Model>,
    #[serde(default, deserialize_with = "rpc::object")]
    fork: Option<Fork>,
}

/// What clients of Lodge's own say beyond the protocol.
#[derive(Deserialize)]
pub(super) struct Meta {
    /// The variables of whoever starts the session. They are kept in memory only.
    #[serde(rename = "lodge.environment", default)]
    environment: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    #[serde(default)]
    config: Option<JsonObject>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fork {
    session: String,
    turn_id: String,
}

/// What somebody says about a session that is to be.
pub(crate) struct Template {
    pub(crate) provider: Option<String>,
    pub(crate) directories: Vec<String>,
    pub(crate) model: Option<String>,
    /// How much the model reasons.
    pub(crate) effort: Option<String>,
    pub(crate) config: Option<JsonObject>,
}

/// What a session is asked to be.
pub(crate) struct Wanted {
    /// What its maker calls the agent.
    provider: String,
    cwd: Option<PathBuf>,
    /// Where it works beside that, by addresses.
    further: Vec<String>,
    model: Option<String>,
    effort: Option<String>,
    mode: Mode,
    approval: Approval,
    branching: Option<Branching>,
    environment: Option<Environment>,
}

/// The variables that a client brings, if it does.
pub(super) fn environment(request: &Request<'_>, meta: Option<Meta>) -> Result<Option<Environment>, RpcError> {
    let Some(variables) = meta.and_then(|meta| meta.environment) else {
        return Ok(None);
    };
    // Which programs a name stands for is the owner's to say.
    if request.conn.admission.identity.device().is_some() {
        return Err(RpcError::params("only programs of the owner can bring an environment"));
    }
    // The programs of another machine are not here.
    if request.conn.admission.via().is_some() {
        return Ok(None);
    }
    let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
    Ok(Some(Environment::of(variables)))
}

pub(super) async fn create(request: &Request<'_>) -> RpcResult {
    let face = request.face;
    let peer = request.peer()?;
    let mut params: Value = rpc::params(request.params)?;
    actions::fill_lists(&mut params);
    let params: Create = rpc::read(params)?;
    let named = if request.is_seed() {
        params.session.clone()
    } else {
        params.channel.clone()
    };
    let session = own_uri(named, "session", None)?;
    if let Some(client) = &params.active_client
        && client.client_id != *peer.client
    {
        return Err(RpcError::params(
            "activeClient.clientId is not the clientId of this connection",
        ));
    }
    let directories = params.working_directories.into_iter().flatten();
    let options = params.model.as_ref().and_then(|model| model.config.as_ref());
    let template = Template {
        provider: params.provider,
        directories: directories.chain(params.working_directory).collect(),
        effort: text(options, EFFORT)?.map(str::to_owned),
        model: params.model.map(|model| model.id),
        config: params.config,
    };
    let mut wanted = prepare(face, template).await?;
    wanted.environment = environment(request, params.meta)?;
    let gate = face.gate(&session);
    let _one = gate.lock().await;
    let taken = face.inner.lock().core.has_channel(&session);
    let taken = taken || face.locate(&session).await.is_some();
    if taken {
        return Err(RpcError::new(
            code::SESSION_ALREADY_EXISTS,
            format!("session {session} already exists"),
        ));
    }
    let id = free_id(request, &session).await;
    if let Some(fork) = &params.fork {
        forked(request, fork, &session, &id, &wanted.provider).await?;
    } else {
        let new = NewSession {
            session: &session,
            id: &id,
            wanted,
            client: &peer.client,
            title: None,
            origin: None,
        };
        new.draft(face).await;
    }
    if let Some(client) = params.active_client {
        activate(request, &session, client);
    }
    // A session is in the list as soon as it is made. Only editors make drafts that nobody may ever use: those are
    // announced with their first turn.
    if !peer.is_editor()
        && let Err(error) = adopt(request, &session, &id).await
    {
        face.inner.lock().remove_session(&session);
        return Err(error);
    }
    rpc::null()
}

/// Makes a session of a draft before anything is said in it: it is kept and announced from now on.
pub(super) async fn adopt(request: &Request<'_>, session: &Uri, id: &str) -> Result<(), RpcError> {
    materialise(request, session).await?;
    let face = request.face;
    let mut inner = face.inner.lock();
    if let Some(entry) = inner.core.sessions.get_mut(session) {
        let kept = face.host.marks().update(id, |marks| {
            marks.address = Some(session.to_string());
            chats::call_provider(marks, &entry.state.provider);
        });
        kept.map_err(RpcError::failed)?;
        // It works where it works from now on.
        entry.schema = Some(face.config_schema(branching_of(&entry.state).as_ref(), &[], true));
    }
    inner.core.announce(session);
    Ok(())
}

/// Lets the host have the session now, so that it is there whatever happens next.
async fn materialise(request: &Request<'_>, session: &Uri) -> Result<(), RpcError> {
    request.face.materialise(session).await.map_err(host_error)
}

/// Schemes of what is no client's to name, besides those of the protocol's channels.
const RESERVED_SCHEMES: [&str; 5] = ["agenthost", "file", "lodge-content", "mcp", "virtual"];

/// The URI that a client chose for what it wants to be made. It is echoed as it is, so any scheme will do but those of other
/// channels; one of them may be meant for just this.
pub(super) fn own_uri(named: Option<String>, thing: &str, own_scheme: Option<&str>) -> Result<Uri, RpcError> {
    let refused = |why: String| Err(RpcError::params(why));
    let text = named.unwrap_or_default();
    let (scheme, rest) = text.split_once(':').unwrap_or_default();
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let is_text = |c: char| !c.is_control() && !c.is_whitespace();
    if !is_scheme || rest.trim_matches('/').is_empty() || text.len() > 1024 || !text.chars().all(is_text) {
        return refused(format!("a {thing} needs a URI of its own, such as \"copilot:/<uuid>\""));
    }
    let scheme = scheme.to_ascii_lowercase();
    let is_reserved = RESERVED_SCHEMES.contains(&&*scheme) || (scheme.starts_with("ahp-") && scheme != "ahp-session");
    if is_reserved && own_scheme != Some(&*scheme) {
        return refused(format!("a {thing} cannot use the scheme {scheme}: choose another"));
    }
    // What the host serves beneath a session.
    let is_beneath = |part: &&str| text.contains(part);
    if ["/changeset/", "/content/"].iter().any(is_beneath) || text.ends_with("/annotations") {
        return refused(format!("{text} is reserved for parts of a session: choose another URI"));
    }
    Ok(text.into())
}

/// Whether there can be such a session, as things are now, and what it is then.
pub(crate) async fn prepare(face: &Face, template: Template) -> Result<Wanted, RpcError> {
    if let Some(provider) = template.provider.as_deref().filter(|name| !is_agent(&face.host, name)) {
        return Err(RpcError::new(
            code::PROVIDER_NOT_FOUND,
            format!("there is no provider {provider:?}"),
        ));
    }
    let mut directories: Vec<String> = Vec::new();
    // An editor's workspace may have folders that are on no machine. Beside others they are no reason to refuse these.
    let named = &template.directories;
    let some_here = named.iter().any(|directory| uri::path(directory).is_some());
    let elsewhere = |directory: &str| {
        directory
            .split_once("://")
            .is_some_and(|(scheme, _)| scheme != "file" && !scheme.is_empty())
    };
    for directory in named.iter().filter(|directory| !some_here || !elsewhere(directory)) {
        let path = actions::existing(directory).await;
        let path = path.map_err(|error| RpcError::params(error.to_string()))?;
        let directory = uri::file(path.components().collect::<PathBuf>());
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    if directories.len() > actions::MOST_DIRECTORIES {
        let most = actions::MOST_DIRECTORIES;
        return Err(RpcError::params(format!("a session has at most {most} directories")));
    }
    let first = (!directories.is_empty()).then(|| directories.remove(0));
    let cwd = first.as_deref().and_then(uri::path);
    let cwd = cwd.or_else(|| face.config.default_directory.clone());
    let config = template.config.as_ref();
    let model = match template.model {
        Some(model) => Some(model),
        None => text(config, "model")?.map(str::to_owned),
    };
    let program = template.provider.clone().filter(|name| is_program(&face.host, name));
    let model = match (program, model) {
        (Some(program), Some(model)) if model != program => {
            return Err(RpcError::params(format!(
                "the agent {program:?} does not use the model {model:?}"
            )));
        }
        (program, model) => program.or(model),
    };
    if let Some(model) = &model
        && face.host.models().resolve(Some(model)).is_err()
    {
        return Err(RpcError::params(format!("there is no model {model:?}")));
    }
    let effort = match template.effort {
        Some(effort) => Some(effort),
        None => text(config, EFFORT)?.map(str::to_owned),
    };
    let effort = effort.as_deref().and_then(effort_of);
    if !takes_effort(&face.host, model.as_deref(), effort.as_deref()) {
        let (model, effort) = (model.unwrap_or_default(), effort.unwrap_or_default());
        return Err(RpcError::params(format!(
            "the model {model:?} has no thinking level {effort:?}"
        )));
    }
    let (mode, approval, isolation) = session_settings(config)?;
    let branch = text(config, "branch")?.map(str::to_owned);
    let branching = branching(cwd.clone(), isolation, branch).await?;
    Ok(Wanted {
        provider: template.provider.unwrap_or_else(|| uri::PROVIDER.to_owned()),
        cwd,
        further: directories,
        model,
        effort,
        mode,
        approval,
        branching,
        environment: None,
    })
}

/// A setting that is a text. `null` is as good as absent.
pub(super) fn text<'a>(config: Option<&'a JsonObject>, key: &str) -> Result<Option<&'a str>, RpcError> {
    match config.and_then(|config| config.get(key)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(RpcError::params(format!("{key:?} must be a text, not {other}"))),
    }
}

/// What the configuration of a session says about how it works.
pub(crate) fn session_settings(config: Option<&JsonObject>) -> Result<(Mode, Approval, Isolation), RpcError> {
    let value = |key: &str| text(config, key);
    let mode = match value("mode")? {
        Some(mode) => Mode::parse(mode).ok_or_else(|| RpcError::params(format!("there is no mode {mode:?}")))?,
        None => Mode::default(),
    };
    let approval = match value("autoApprove")? {
        None | Some("default") => Approval::AutoSafe,
        Some("autoApprove" | "autopilot") => Approval::ApproveAll,
        Some(other) => {
            return Err(RpcError::params(format!(
                "{other:?} is not a value for \"autoApprove\""
            )));
        }
    };
    let isolation = match value("isolation")? {
        Some(text) => {
            Isolation::parse(text).ok_or_else(|| RpcError::params(format!("there is no isolation {text:?}")))?
        }
        None => Isolation::Folder,
    };
    Ok((mode, approval, isolation))
}

/// What a new session has to do with git. A work tree is only made with its first message, but could be made now.
async fn branching(
    cwd: Option<PathBuf>,
    isolation: Isolation,
    branch: Option<String>,
) -> Result<Option<Branching>, RpcError> {
    let Some(cwd) = cwd else { return Ok(None) };
    let folder = Branching::folder(&lodge_host::git_context(cwd.clone()).await);
    if isolation == Isolation::Folder {
        return Ok(folder);
    }
    let branch = branch
        .or_else(|| folder.map(|git| git.branch))
        .unwrap_or_else(|| "HEAD".to_owned());
    let can_begin = lodge_host::can_begin(cwd, branch.clone()).await;
    can_begin.map_err(|error| RpcError::params(error.to_string()))?;
    Ok(Some(Branching { isolation, branch }))
}

/// The host's id of a new session: what its URI ends with, where that can be and is free.
async fn free_id(request: &Request<'_>, session: &str) -> String {
    match uri::id_in(session) {
        Some(id) if !request.face.exists(id).await => id.to_owned(),
        _ => uuid::Uuid::new_v4().to_string(),
    }
}

/// A session that is about to be.
pub(crate) struct NewSession<'a> {
    pub(crate) session: &'a Uri,
    pub(crate) id: &'a str,
    pub(crate) wanted: Wanted,
    /// Who wants it.
    pub(crate) client: &'a str,
    pub(crate) title: Option<String>,
    pub(crate) origin: Option<SessionOrigin>,
}

impl NewSession<'_> {
    /// Puts it into the state. The host has it with its first message, or when it is adopted.
    pub(crate) async fn draft(self, face: &Arc<Face>) {
        let Self {
            session, id, wanted, ..
        } = self;
        let chat: Uri = uri::default_chat(session).into();
        let cwd = wanted.cwd.clone().or_else(|| std::env::current_dir().ok());
        let git = match cwd.clone() {
            Some(cwd) => lodge_host::git_context(cwd).await,
            None => GitContext::default(),
        };
        let model = wanted.model.clone();
        let state = new_state(NewState {
            provider: wanted.provider,
            title: self.title.clone().unwrap_or_else(|| UNTITLED.to_owned()),
            cwd,
            further: wanted.further.clone(),
            git_root: git.root,
            chat: &chat,
            mode: wanted.mode.as_str(),
            approval: wanted.approval,
            model: Some(model.unwrap_or_else(|| face.host.models().default_model().to_owned())),
            effort: wanted.effort.clone(),
            branching: wanted.branching.clone(),
            lifecycle: SessionLifecycle::Creating,
            flags: SessionStatus::IsRead.bits(),
            origin: self.origin,
        });
        let draft = Draft {
            cwd: wanted.cwd,
            further: wanted.further.iter().filter_map(|uri| uri::path(uri)).collect(),
            chosen: None,
            model: wanted.model,
            effort: wanted.effort,
            mode: wanted.mode,
            approval: wanted.approval,
            title: self.title,
            client: self.client.to_owned(),
            isolation: wanted.branching.as_ref().map_or(Isolation::Folder, |git| git.isolation),
            branch: wanted.branching.map(|git| git.branch),
            environment: wanted.environment,
        };
        face.insert_draft(session, id, state, draft);
        face.inner
            .lock()
            .core
            .publish(session, &StateAction::SessionReady(SessionReadyAction {}), None);
    }
}

async fn forked(request: &Request<'_>, fork: &Fork, session: &Uri, id: &str, provider: &str) -> Result<(), RpcError> {
    let face = request.face;
    let source = face.default_chat(&fork.session).await;
    face.open(&source)
        .await
        .map_err(|_| RpcError::new(code::SESSION_NOT_FOUND, format!("there is no session {}", fork.session)))?;
    let (source_id, up_to) = fork_point(request, &source, &fork.turn_id)?;
    face.host
        .fork(&source_id, up_to, Some(id.to_owned()))
        .await
        .map_err(host_error)?;
    let kept = face.host.marks().update(id, |marks| {
        marks.address = Some(session.to_string());
        chats::call_provider(marks, provider);
    });
    kept.map_err(RpcError::failed)?;
    // The gate of this session is held by who calls: open what is behind it by its chat, without asking for it again.
    face.open_held(session, id).await.map_err(host_error)
}

/// The host's session behind a chat, and its last event of a turn.
pub(super) fn fork_point(
    request: &Request<'_>,
    chat: &str,
    turn: &str,
) -> Result<(String, Option<uuid::Uuid>), RpcError> {
    let inner = request.face.inner.lock();
    let (_, talk) = inner
        .conversation(chat)
        .ok_or_else(|| RpcError::params(format!("there is no chat {chat}")))?;
    let event = talk.projector().last_event_of(turn);
    let event = event.ok_or_else(|| RpcError::params(format!("there is no turn {turn:?} to fork from")))?;
    Ok((talk.host_id.clone(), Some(event)))
}

fn activate(request: &Request<'_>, session: &Uri, client: SessionActiveClient) {
    let mut inner = request.face.inner.lock();
    let action = ahp_types::actions::SessionActiveClientSetAction { active_client: client };
    inner
        .core
        .publish(session, &StateAction::SessionActiveClientSet(action), None);
    inner.clients_changed(session);
}

#[derive(Deserialize)]
struct OneSession {
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    session: Option<String>,
}

pub(super) async fn dispose(request: &Request<'_>) -> RpcResult {
    let face = request.face;
    let params: OneSession = rpc::params(request.params)?;
    let named = if request.is_seed() {
        params.session
    } else {
        params.channel
    };
    let session = named.ok_or_else(|| RpcError::params("no session is named"))?;
    let gate = face.gate(&session);
    let _one = gate.lock().await;
    let draft = {
        let mut inner = face.inner.lock();
        let draft = inner
            .core
            .sessions
            .get(session.as_str())
            .is_some_and(|entry| entry.announced.is_none());
        if draft {
            inner.remove_session(&session);
        }
        draft
    };
    if draft {
        face.close_terminals_of(&session);
        return rpc::null();
    }
    let located = face.locate(&session).await.filter(|(uri, _)| *uri == session);
    let announced = face.inner.lock().core.sessions.contains_key(session.as_str());
    let Some((_, id)) = located else {
        if announced {
            // Made by a client of the seed's dialect and never used: there is nothing but what is in the state.
            let mut inner = face.inner.lock();
            inner.remove_session(&session);
            inner.core.notify_removed(&session);
            drop(inner);
            face.close_terminals_of(&session);
            return rpc::null();
        }
        return Err(RpcError::new(
            code::SESSION_NOT_FOUND,
            format!("there is no session {session}"),
        ));
    };
    // Editors of this family dispose of sessions that they and others still show: what was said in them is not theirs to
    // delete, and it goes on.
    if request.peer()?.is_editor() {
        return rpc::null();
    }
    // Whoever is subscribed hears on where it cannot be deleted.
    face.delete(&id).await.map_err(host_error)?;
    face.forget(&session);
    rpc::null()
}

impl Face {
    /// Has the host make the session behind a session's default chat, or bring it back into memory.
    pub(crate) async fn materialise(&self, session: &str) -> Result<(), HostError> {
        let chat = {
            let inner = self.inner.lock();
            let entry = inner.core.sessions.get(session);
            entry.map(|entry| entry.default_chat.clone())
        };
        let chat = chat.ok_or_else(|| HostError::NotFound(session.to_owned()))?;
        self.materialise_chat(&chat).await
    }

    /// The same for any chat. A draft's address is kept before there is a session, so that nobody hears of the session
    /// under another one.
    pub(crate) async fn materialise_chat(&self, chat: &str) -> Result<(), HostError> {
        let gone = || HostError::NotFound(chat.to_owned());
        let (made, id, is_draft) = {
            let inner = self.inner.lock();
            let (_, talk) = inner.conversation(chat).ok_or_else(gone)?;
            if talk.is_draft && *talk.session != uri::session(&talk.host_id) {
                let kept = self.keep_uri(&inner, &talk.session);
                kept.map_err(|error| HostError::Invalid(error.to_string()))?;
            }
            let (sender, made) = tokio::sync::oneshot::channel();
            talk.tell(Effect::Create(sender));
            (made, talk.host_id.clone(), talk.is_draft)
        };
        let made = made.await.unwrap_or_else(|_| Err(gone()));
        if made.is_err() && is_draft {
            self.host.marks().forget(&id);
        }
        if made.is_ok() && is_draft {
            self.created(chat, &id).await;
        }
        made
    }

    /// A session is as old as its log.
    async fn created(&self, chat: &str, id: &str) {
        let Some(line) = self.summary(id).await else { return };
        let mut inner = self.inner.lock();
        let session = inner.core.session_of(chat);
        let entry = session.and_then(|session| inner.core.sessions.get_mut(&session));
        if let Some(entry) = entry.filter(|entry| *entry.default_chat == *chat) {
            entry.created_at = crate::projection::timestamp(line.created);
        }
    }

    /// The host's session behind one that may not have begun yet.
    pub(crate) async fn materialised(&self, session: &str) -> Result<lodge_host::Session, HostError> {
        self.materialise(session).await?;
        let chat = self.default_chat(session).await;
        let id = self
            .inner
            .lock()
            .conversation(&chat)
            .map(|(_, talk)| talk.host_id.clone());
        self.host
            .open_session(&id.ok_or_else(|| HostError::NotFound(session.to_owned()))?)
            .await
    }

    /// A session is gone for good.
    pub(crate) fn forget(self: &Arc<Self>, session: &str) {
        let mut inner = self.inner.lock();
        inner.remove_session(session);
        inner.core.notify_removed(session);
        drop(inner);
        self.close_terminals_of(session);
    }
}

/// An error of the host in the protocol's words.
pub(crate) fn host_error(error: HostError) -> RpcError {
    match error {
        HostError::NotFound(id) => RpcError::new(code::SESSION_NOT_FOUND, format!("there is no session {id}")),
        HostError::AlreadyExists(id) => {
            RpcError::new(code::SESSION_ALREADY_EXISTS, format!("session {id} already exists"))
        }
        HostError::Invalid(message) => RpcError::params(message),
        newer @ HostError::Newer { .. } => RpcError::failed(newer),
        HostError::Agent(error) => RpcError::failed(error),
        HostError::Changes(error) => RpcError::params(error.to_string()),
        HostError::Git(error) => RpcError::internal(error),
        HostError::Log(error) => RpcError::failed(error),
    }
}
