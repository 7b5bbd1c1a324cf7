//! Custom agents: listing and choosing them.

use std::{path::PathBuf, sync::Arc};

use lodge_host::{AgentDefinition, Change, Kind, Place, Places, Tier, find_agents};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{connection::Ctx, rpc::RpcError, session::Attached};

pub(crate) static AGENTS: Capability = Capability {
    title: "Custom agents",
    methods: &[
        method!(session "session.agent.list", 4, "agents that can be chosen", list),
        method!(session "session.agent.getCurrent", 3, "the chosen agent", current),
        method!(session "session.agent.select", 2, "chooses an agent", select),
        method!(session "session.agent.deselect", 1, "returns to the session's own agent", deselect),
        method!(session "session.agent.setPrompt", 0, "changes an agent's prompt until the session leaves memory", set_prompt),
        method!(session "session.agent.reload", 1, "looks for agents again", reload),
        method!(
            "agents.discover",
            1,
            "agents in files of projects and of the user",
            discover
        ),
        method!("agents.getDiscoveryPaths", 1, "where agents are looked for", paths),
    ],
};

/// An agent, in the SDKs' form. Unset fields are left out.
fn info(agent: &AgentDefinition, prompt: bool) -> Value {
    let mut info = json!({
        "name": agent.name,
        "displayName": agent.shown_name(),
        "description": agent.description,
        "id": agent.name,
    });
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            info[key] = value;
        }
    };
    set("path", agent.path.as_ref().map(|path| json!(path)));
    if let Some(source) = agent.source.as_str() {
        set("source", Some(json!(source)));
        set("userInvocable", Some(json!(agent.user_invocable)));
    }
    set("disableModelInvocation", (!agent.infer).then(|| json!(true)));
    set("tools", agent.tools.as_ref().map(|tools| json!(tools)));
    set("model", agent.model.as_ref().map(|model| json!(model)));
    set(
        "mcpServers",
        agent.mcp_servers.as_ref().map(|servers| servers.look().clone()),
    );
    set("skills", (!agent.skills.is_empty()).then(|| json!(agent.skills)));
    set("prompt", prompt.then(|| json!(agent.prompt)));
    info
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListParams {
    include_built_in_agents: Option<bool>,
    include_prompt: Option<bool>,
}

async fn list(session: Arc<Attached>, params: ListParams) -> Result<Value, RpcError> {
    let builtin = params.include_built_in_agents.unwrap_or(false);
    let agents = session.session().custom_agents(builtin).await?;
    let prompt = params.include_prompt.unwrap_or(false);
    let agents: Vec<_> = agents.iter().map(|agent| info(agent, prompt)).collect();
    Ok(json!({"agents": agents}))
}

async fn current(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let agent = session.session().current_agent().await?;
    Ok(json!({"agent": agent.map(|agent| info(&agent, false))}))
}

#[derive(Debug, Deserialize)]
struct SelectParams {
    name: String,
}

async fn select(session: Arc<Attached>, params: SelectParams) -> Result<Value, RpcError> {
    session.session().select_agent(Some(params.name)).await?;
    current(session, Nothing {}).await
}

async fn deselect(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    session.session().select_agent(None).await?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
struct PromptParams {
    id: String,
    prompt: String,
}

async fn set_prompt(session: Arc<Attached>, PromptParams { id, prompt }: PromptParams) -> Result<Value, RpcError> {
    if id == "general-purpose" {
        return Err(RpcError::failed(
            "The prompt of the agent 'general-purpose' cannot be replaced",
        ));
    }
    let known = session.session().custom_agents(true).await?;
    if !known.iter().any(|agent| agent.name == id) {
        return Err(RpcError::failed(format!("Agent '{id}' not found")));
    }
    let change = Change::AgentPrompt { agent: id, prompt };
    session.session().configure(change).await?;
    Ok(Value::Null)
}

async fn reload(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    session.session().reload_agents().await?;
    list(session, ListParams::default()).await
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PlacesParams {
    project_paths: Option<Vec<PathBuf>>,
    exclude_host_agents: Option<bool>,
}

fn places(ctx: &Ctx, params: &PlacesParams) -> Vec<Place> {
    let projects = params.project_paths.iter().flatten();
    let mut places: Vec<Place> = projects
        .flat_map(|project| Places::project(Kind::Agents, project))
        .filter(|place| place.tier == Tier::Project)
        .collect();
    if params.exclude_host_agents != Some(true) {
        places.extend(ctx.host.places().user(Kind::Agents));
    }
    places
}

async fn discover(ctx: Ctx, params: PlacesParams) -> Result<Value, RpcError> {
    let places = places(&ctx, &params);
    let found = tokio::task::spawn_blocking(move || find_agents(&places)).await;
    let found = found.map_err(RpcError::failed)?;
    let agents: Vec<_> = found.all.iter().map(|agent| info(agent, false)).collect();
    Ok(json!({"agents": agents}))
}

async fn paths(ctx: Ctx, params: PlacesParams) -> Result<Value, RpcError> {
    let paths: Vec<_> = places(&ctx, &params)
        .iter()
        .map(|place| {
            path(place, |tier| match tier {
                Tier::Given | Tier::Project | Tier::Inherited => "project",
                Tier::Plugin => "plugin",
                Tier::User | Tier::Shared => "user",
            })
        })
        .collect();
    Ok(json!({"paths": paths}))
}

/// A place, in the SDKs' form.
pub(super) fn path(place: &Place, scope: impl Fn(Tier) -> &'static str) -> Value {
    let mut path = json!({
        "path": place.path,
        "scope": scope(place.tier),
        "preferredForCreation": place.preferred,
    });
    if let Some(project) = &place.project {
        path["projectPath"] = json!(project);
    }
    path
}
