//! Skills: listing them, turning them on and off.

use std::{path::PathBuf, sync::Arc};

use lodge_events::Payload;
use lodge_host::{Kind, Place, Places, Tier, find_skills, skill_info};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, agents::path, method};
use crate::{connection::Ctx, rpc::RpcError, session::Attached};

pub(crate) static SKILLS: Capability = Capability {
    title: "Skills",
    methods: &[
        method!(session "session.skills.list", 3, "the session's skills", list),
        method!(session "session.skills.enable", 1, "turns a skill on", enable),
        method!(session "session.skills.disable", 1, "turns a skill off", disable),
        method!(session "session.skills.reload", 1, "looks for skills again", reload),
        method!(session "session.skills.ensureLoaded", 1, "looks for skills, unless already done", ensure_loaded),
        method!(session "session.skills.getInvoked", 1, "skills that were loaded into the conversation", invoked),
        method!(
            "skills.discover",
            1,
            "skills in folders of projects and of the user",
            discover
        ),
        method!("skills.getDiscoveryPaths", 1, "where skills are looked for", paths),
        method!(
            "skills.config.setDisabledSkills",
            1,
            "sets which skills are off in new sessions",
            set_disabled
        ),
        method!(
            "skills.config.setSkillDisabled",
            0,
            "turns one skill off or on in new sessions",
            set_one_disabled
        ),
    ],
};

async fn list(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let skills = session.session().skills().await?;
    let skills: Vec<_> = skills.iter().map(|(skill, on)| skill_info(skill, *on)).collect();
    Ok(json!({"skills": skills}))
}

#[derive(Debug, Deserialize)]
struct NameParams {
    name: String,
}

async fn enable(session: Arc<Attached>, params: NameParams) -> Result<Value, RpcError> {
    turn(&session, &params.name, true).await
}

async fn disable(session: Arc<Attached>, params: NameParams) -> Result<Value, RpcError> {
    turn(&session, &params.name, false).await
}

async fn turn(session: &Attached, name: &str, on: bool) -> Result<Value, RpcError> {
    if session.session().switch_skill(name, on).await? {
        Ok(Value::Null)
    } else {
        Err(RpcError::failed(format!("Skill not found: {name}")))
    }
}

async fn reload(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let (warnings, errors) = session.session().reload_skills().await?;
    Ok(json!({"warnings": warnings, "errors": errors}))
}

async fn ensure_loaded(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    session.session().skills().await?;
    Ok(json!({}))
}

async fn invoked(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let history = session.session().history()?;
    let read = tokio::task::spawn_blocking(move || {
        let (mut skills, mut turns) = (Vec::new(), 0u64);
        for event in history.events() {
            let event = event?;
            match event.payload() {
                _ if event.agent_id().is_some() => {}
                Payload::UserMessage(_) => turns += 1,
                Payload::SkillInvoked(skill) => {
                    let mut found = json!({
                        "name": skill.name,
                        "path": skill.path,
                        "content": skill.content,
                        "invokedAtTurn": turns.saturating_sub(1),
                    });
                    if let Some(tools) = &skill.allowed_tools {
                        found["allowedTools"] = json!(tools);
                    }
                    if let Some(disabled) = skill.disable_model_invocation {
                        found["disableModelInvocation"] = json!(disabled);
                    }
                    skills.push(found);
                }
                _ => {}
            }
        }
        Ok::<_, lodge_host::LogError>(skills)
    });
    let skills = read.await.map_err(RpcError::failed)?.map_err(RpcError::failed)?;
    Ok(json!({"skills": skills}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PlacesParams {
    project_paths: Option<Vec<PathBuf>>,
    skill_directories: Option<Vec<PathBuf>>,
    exclude_host_skills: Option<bool>,
}

fn places(ctx: &Ctx, params: &PlacesParams) -> Vec<Place> {
    let cwd = ctx.host.cwd();
    let given = params.skill_directories.iter().flatten();
    let mut places: Vec<Place> = given.map(|dir| Place::given(dir, &cwd)).collect();
    let projects = params.project_paths.iter().flatten();
    places.extend(
        projects
            .flat_map(|project| Places::project(Kind::Skills, project))
            .filter(|place| place.tier == Tier::Project),
    );
    if params.exclude_host_skills != Some(true) {
        places.extend(ctx.host.places().user(Kind::Skills));
    }
    places
}

async fn discover(ctx: Ctx, params: PlacesParams) -> Result<Value, RpcError> {
    let places = places(&ctx, &params);
    let host = ctx.host.clone();
    let found = tokio::task::spawn_blocking(move || (find_skills(&places), host.disabled_skills(), places)).await;
    let (found, disabled, places) = found.map_err(RpcError::failed)?;
    let skills: Vec<Value> = found
        .all
        .iter()
        .map(|skill| {
            let mut info = json!(skill_info(skill, !disabled.contains(&skill.name)));
            let place = places.iter().find(|place| skill.path.starts_with(&place.path));
            if let Some(project) = place.and_then(|place| place.project.as_ref()) {
                info["projectPath"] = json!(project);
            }
            info
        })
        .collect();
    Ok(json!({"skills": skills, "errors": found.errors}))
}

async fn paths(ctx: Ctx, params: PlacesParams) -> Result<Value, RpcError> {
    let scope = |tier| match tier {
        Tier::Given => "custom",
        Tier::Project | Tier::Inherited => "project",
        Tier::Plugin => "plugin",
        Tier::User => "personal-copilot",
        Tier::Shared => "personal-agents",
    };
    let paths: Vec<_> = places(&ctx, &params).iter().map(|place| path(place, scope)).collect();
    Ok(json!({"paths": paths}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DisabledParams {
    disabled_skills: Vec<String>,
}

async fn set_disabled(ctx: Ctx, params: DisabledParams) -> Result<Value, RpcError> {
    ctx.host
        .set_disabled_skills(&params.disabled_skills.into_iter().collect())?;
    Ok(Value::Null)
}

#[derive(Debug, Deserialize)]
struct OneDisabledParams {
    name: String,
    disabled: bool,
}

async fn set_one_disabled(ctx: Ctx, params: OneDisabledParams) -> Result<Value, RpcError> {
    let mut names = ctx.host.disabled_skills();
    if params.disabled {
        names.insert(params.name);
    } else {
        names.remove(&params.name);
    }
    ctx.host.set_disabled_skills(&names)?;
    Ok(Value::Null)
}
