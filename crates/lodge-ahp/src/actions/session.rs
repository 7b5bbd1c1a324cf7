//! Rules for what clients say about a session.

use ahp_types::{
    StateAction,
    actions::SessionConfigChangedAction,
    state::{McpServerState, SessionActiveClient, SessionState},
};
use lodge_host::{Approval, Mode, check_title};
use serde_json::Value;

use super::{
    Dispatch, Refusal, Write,
    plan::{After, NoChange, Plan},
    refusal::SessionRefusal,
};
use crate::{
    conversation::{Effect, Setting},
    customizations::{self, ServerRequest},
    face::Inner,
    load::branching_of,
    session_config::{
        APPROVALS, Branching, DEFAULT_EFFORT, EFFORT, Isolation, approval_named, effort_of, takes_effort,
    },
    version::Dialect,
};

pub(super) fn check(inner: &Inner, dispatch: &Dispatch<'_>, action: &mut StateAction) -> Result<Plan, Refusal> {
    use StateAction as A;
    let Some(entry) = inner.core.sessions.get(&dispatch.channel) else {
        return Err(Refusal::NoSession);
    };
    let state = &entry.state;
    match action {
        A::SessionTitleChanged(changed) => {
            check_title(&changed.title)?;
            if state.title == changed.title {
                return Ok(Plan::nothing(NoChange::Echo));
            }
            Ok(Plan::effect(Effect::Change(Setting::Title(changed.title.clone()))))
        }
        A::SessionIsReadChanged(changed) => {
            let id = inner.kept_id(&dispatch.channel);
            Ok(Plan::write(id.map(|id| Write::Read(id, changed.is_read))))
        }
        A::SessionIsArchivedChanged(changed) => {
            let id = inner.kept_id(&dispatch.channel);
            Ok(Plan::write(id.map(|id| Write::Archived(id, changed.is_archived))))
        }
        A::SessionConfigChanged(changed) => {
            let plan = config(state, entry.announced.is_some(), dispatch, changed)?;
            let all = |effect: &Effect| matches!(effect, Effect::Change(Setting::Approval(Approval::ApproveAll)));
            let talk = inner
                .conversation(&entry.default_chat)
                .filter(|_| plan.effects.iter().any(all));
            let live = talk.and_then(|(_, talk)| dispatch.face.host.live(&talk.host_id));
            match live.is_some_and(|session| !session.may_approve_all()) {
                true => Err(SessionRefusal::ForbiddenByPolicy.into()),
                false => Ok(plan),
            }
        }
        A::SessionActiveClientSet(set) => {
            let client = &mut set.active_client;
            if client.client_id != *dispatch.peer.client {
                return Err(SessionRefusal::NotItself.into());
            }
            let known = state
                .active_clients
                .iter()
                .find(|known| known.client_id == client.client_id);
            if dispatch.peer.dialect == Dialect::Seed {
                if known.is_none() && !state.active_clients.is_empty() {
                    return Err(SessionRefusal::OtherActive.into());
                }
                // It may change its tools alone; the rest stays.
                client.display_name = client
                    .display_name
                    .take()
                    .or_else(|| known.and_then(|known| known.display_name.clone()));
            }
            if known == Some(client) {
                return Ok(Plan::nothing(NoChange::Silence));
            }
            Ok(Plan::default().then(After::ClientsChanged))
        }
        A::SessionActiveClientRemoved(removed) => {
            if removed.client_id != *dispatch.peer.client {
                return Err(SessionRefusal::NotItself.into());
            }
            let is_active = |known: &SessionActiveClient| known.client_id == removed.client_id;
            if !state.active_clients.iter().any(is_active) {
                // There it would say that nobody is active.
                return match dispatch.peer.dialect == Dialect::Seed && !state.active_clients.is_empty() {
                    true => Err(SessionRefusal::OtherActive.into()),
                    false => Ok(Plan::nothing(NoChange::Echo)),
                };
            }
            Ok(Plan::default().then(After::ClientsChanged).then(After::ClientGone))
        }
        A::SessionWorkingDirectorySet(_)
        | A::SessionWorkingDirectoryRemoved(_)
        | A::SessionWorkingDirectoryReplaced(_) => super::directories::check(inner, dispatch, action),
        A::SessionCustomizationToggled(toggled) => {
            let things = customizations::things(state.customizations.as_deref().unwrap_or_default());
            let named = |thing: &&customizations::Thing| thing.id == toggled.id;
            let in_seed = |thing: &&customizations::Thing| thing.seed_uri == toggled.id;
            let found = match dispatch.peer.dialect {
                Dialect::Modern => things.iter().find(named),
                Dialect::Seed => things.iter().rfind(in_seed),
            };
            let thing = found.ok_or(SessionRefusal::NoCustomization)?;
            thing.on.ok_or(SessionRefusal::AlwaysOn)?;
            let place = state.working_directories.as_ref().and_then(|all| all.first());
            let place = place.map(String::as_str);
            let said = customizations::given(&toggled.enablement, place)?;
            toggled.id.clone_from(&thing.id);
            toggled.enablement = customizations::shown(&said, place);
            let known = dispatch.face.decisions_of(inner, &dispatch.channel);
            if known.said(&thing.key) == toggled.enablement {
                return Ok(Plan::nothing(NoChange::Echo));
            }
            if !dispatch.face.host.decisions().has_room(&thing.key) {
                return Err(SessionRefusal::TooManyDecisions.into());
            }
            let decision = inner.decision(&dispatch.channel, &thing.key, said);
            let decision = decision.ok_or(Refusal::NoSession)?;
            let decided = After::Decided(decision.switches.clone());
            Ok(Plan::write(Some(Write::Decision(decision))).then(decided))
        }
        A::SessionMcpServerStartRequested(wanted) => {
            server(state, entry.announced.is_some(), &wanted.id, ServerRequest::Start)
        }
        A::SessionMcpServerStopRequested(wanted) => {
            server(state, entry.announced.is_some(), &wanted.id, ServerRequest::Stop)
        }
        A::SessionMcpServerBackgroundRequested(wanted) => {
            server(state, entry.announced.is_some(), &wanted.id, ServerRequest::Background)
        }
        _ => Err(Refusal::NotFor("a session")),
    }
}

/// What somebody wants of an MCP server.
fn server(state: &SessionState, begun: bool, id: &str, request: ServerRequest) -> Result<Plan, Refusal> {
    let things = customizations::things(state.customizations.as_deref().unwrap_or_default());
    let thing = things.iter().find(|thing| thing.id == id);
    let Some((thing, now)) = thing.and_then(|thing| Some((thing, thing.server.as_ref()?))) else {
        return Err(SessionRefusal::NoServer.into());
    };
    if !begun {
        return Err(SessionRefusal::NotBegun.into());
    }
    match (request, now) {
        (ServerRequest::Start, _) if thing.on == Some(false) => return Err(SessionRefusal::ServerOff.into()),
        (ServerRequest::Stop, McpServerState::Stopped(_)) => return Ok(Plan::nothing(NoChange::Echo)),
        (ServerRequest::Background, McpServerState::Starting(starting)) if starting.blocking == Some(true) => {}
        (ServerRequest::Background, _) => return Ok(Plan::nothing(NoChange::Echo)),
        _ => {}
    }
    Ok(Plan::default().then(After::Server(id.to_owned(), request)))
}

fn config(
    state: &SessionState,
    begun: bool,
    dispatch: &Dispatch<'_>,
    changed: &mut SessionConfigChangedAction,
) -> Result<Plan, Refusal> {
    let mut plan = Plan::default();
    let known = |key: &str| state.config.as_ref().and_then(|config| config.values.get(key));
    let replaces = changed.replace == Some(true);
    let mut wanted = changed.config.clone();
    if replaces {
        // What is not named any more goes back to what it is by default. Where a session works cannot be taken away, and how its
        // approval mode is called follows that.
        for (key, default) in defaults(dispatch) {
            if !wanted.contains_key(key) && known(key).is_some() {
                wanted.insert(key.to_owned(), default);
            }
        }
        for key in ["isolation", "branch", APPROVALS] {
            if let Some(value) = known(key).filter(|_| !changed.config.contains_key(key)) {
                changed.config.insert(key.to_owned(), value.clone());
            }
        }
    }
    let is_other_model = wanted.get("model").is_some_and(|model| known("model") != Some(model));
    let model = wanted.get("model").and_then(Value::as_str);
    let effort = known(EFFORT).and_then(Value::as_str).and_then(effort_of);
    // An effort does not outlive its model.
    if is_other_model && !wanted.contains_key(EFFORT) && !takes_effort(&dispatch.face.host, model, effort.as_deref()) {
        wanted.insert(EFFORT.to_owned(), DEFAULT_EFFORT.into());
        changed.config.insert(EFFORT.to_owned(), DEFAULT_EFFORT.into());
    }
    let mut branching = branching_of(state);
    if let (Some(git), Some(isolation)) = (&mut branching, changed.config.get("isolation").and_then(Value::as_str)) {
        git.isolation = Isolation::parse(isolation).unwrap_or_default();
    }
    let mut settings = Vec::new();
    for (key, value) in &wanted {
        // The effort that is known was another model's.
        if known(key) == Some(value) && !(is_other_model && key == EFFORT) {
            continue;
        }
        let model = wanted.get("model").or(known("model")).and_then(Value::as_str);
        let setting = setting(dispatch, begun, branching.as_ref(), model, key, value)?;
        settings.push(setting);
    }
    // An effort is one of its model's.
    settings.sort_by_key(|setting| matches!(setting, Setting::Effort(_)));
    plan.effects.extend(settings.into_iter().map(Effect::Change));
    let same = state
        .config
        .as_ref()
        .is_some_and(|config| config.values == changed.config);
    if plan.effects.is_empty() && (!replaces || same) {
        return Ok(Plan::nothing(NoChange::Echo));
    }
    Ok(plan)
}

/// What can be changed about a running session, and what that is when nobody chose.
fn defaults(dispatch: &Dispatch<'_>) -> [(&'static str, Value); 4] {
    [
        ("mode", Mode::default().as_str().into()),
        ("autoApprove", "default".into()),
        ("model", dispatch.face.host.models().default_model().as_str().into()),
        (EFFORT, DEFAULT_EFFORT.into()),
    ]
}

/// One value of a session's configuration.
fn setting(
    dispatch: &Dispatch<'_>,
    begun: bool,
    branching: Option<&Branching>,
    model: Option<&str>,
    key: &str,
    value: &Value,
) -> Result<Setting, Refusal> {
    let wrong = || {
        let (key, value) = (key.to_owned(), value.clone());
        Refusal::from(SessionRefusal::WrongValue { key, value })
    };
    match key {
        "mode" => value
            .as_str()
            .and_then(Mode::parse)
            .map(Setting::Mode)
            .ok_or_else(wrong),
        "autoApprove" => match value.as_str() {
            Some("default") => Ok(Setting::Approval(Approval::AutoSafe)),
            Some("autoApprove") => Ok(Setting::Approval(Approval::ApproveAll)),
            _ => Err(wrong()),
        },
        APPROVALS => {
            let approval = value.as_str().and_then(approval_named).ok_or_else(wrong)?;
            Ok(Setting::Approval(approval))
        }
        "model" => {
            let id = value.as_str().ok_or_else(wrong)?;
            let known = dispatch.face.host.models().resolve(Some(id)).is_ok();
            if known {
                Ok(Setting::Model(id.to_owned()))
            } else {
                Err(SessionRefusal::NoModel(id.to_owned()).into())
            }
        }
        EFFORT => {
            let effort = value.as_str().map(effort_of).ok_or_else(wrong)?;
            match takes_effort(&dispatch.face.host, model, effort.as_deref()) {
                true => Ok(Setting::Effort(effort)),
                false => Err(wrong()),
            }
        }
        "isolation" | "branch" if begun => Err(SessionRefusal::Begun.into()),
        "isolation" if branching.is_some() => {
            let isolation = value.as_str().and_then(Isolation::parse).ok_or_else(wrong)?;
            Ok(Setting::Isolation(isolation))
        }
        "branch" if branching.is_some_and(|git| git.isolation == Isolation::Worktree) => value
            .as_str()
            .map(|branch| Setting::Branch(branch.to_owned()))
            .ok_or_else(wrong),
        _ => Err(SessionRefusal::Fixed(key.to_owned()).into()),
    }
}
