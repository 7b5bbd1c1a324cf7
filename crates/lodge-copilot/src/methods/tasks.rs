//! Sub-agents as background tasks: listing, following and controlling them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use lodge_events::timestamp_text;
use lodge_host::{BackgroundShell, Change, NewTask, SubagentOverride, SubagentSettings, TaskInfo};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Capability, Nothing, method};
use crate::{rpc::RpcError, session::Attached};

pub(crate) static TASKS: Capability = Capability {
    title: "Sub-agents and background tasks",
    methods: &[
        method!(session "session.tasks.list", 2, "sub-agents and commands that are or were in the background", list),
        method!(session "session.tasks.startAgent", 2, "starts a sub-agent in the background", start),
        method!(session "session.tasks.getProgress", 1, "a sub-agent's last step, or a command's output", progress),
        method!(session "session.tasks.cancel", 1, "stops a sub-agent or a command", cancel),
        method!(session "session.tasks.remove", 1, "removes an ended one from the list", remove),
        method!(session "session.tasks.sendMessage", 1, "sends a message to a working sub-agent", send),
        method!(session "session.tasks.getCurrentPromotable", 1, "the sub-agent that the turn waits for", promotable),
        method!(session "session.tasks.promoteToBackground", 1, "lets the turn continue without it", promote),
        method!(session "session.tasks.promoteCurrentToBackground", 1, "the same for the one that the turn waits for", promote_current),
        method!(session "session.tasks.refresh", 1, "does nothing: the list is always current", refresh),
        method!(session "session.tasks.waitForPending", 1, "waits until no sub-agent works and no turn runs", wait),
        method!(session "session.cancelAllBackgroundAgents", 0, "stops all sub-agents in the background", cancel_all),
        method!(session "session.tools.updateSubagentSettings", 1, "models and limits of sub-agents, and which kinds are off", settings),
        method!(session "session.tools.getSubagentSettings", 0, "returns them; `null` when nothing is set", get_settings),
    ],
};

/// Limit for [`wait`].
const LONGEST_WAIT: Duration = Duration::from_secs(600);

fn info(task: &TaskInfo) -> Value {
    let mut info = json!({
        "type": "agent",
        "id": task.id,
        "toolCallId": task.tool_call_id,
        "displayName": task.display_name,
        "description": task.description,
        "status": task.status.as_str(),
        "startedAt": timestamp_text(task.started),
        "activeTimeMs": task.active.as_millis() as u64,
        "agentType": task.agent_type,
        "prompt": task.prompt,
        "resolvedModel": task.model,
        "executionMode": if task.background { "background" } else { "sync" },
        "canPromoteToBackground": task.can_promote,
    });
    for (key, value) in [
        ("completedAt", task.ended.map(timestamp_text)),
        ("error", task.error.clone()),
        ("result", task.result.clone()),
        ("model", task.asked_model.clone()),
        ("latestResponse", task.latest_response.clone()),
    ] {
        if let Some(value) = value {
            info[key] = json!(value);
        }
    }
    info
}

fn find(session: &Attached, fits: impl Fn(&TaskInfo) -> bool) -> Option<TaskInfo> {
    session.session().tasks().into_iter().find(fits)
}

/// A command in the background. Its end has no time: nothing records it.
fn shell_info(shell: &BackgroundShell) -> Value {
    let status = match shell.exit_code {
        None => "running",
        Some(0) => "completed",
        Some(_) => "failed",
    };
    let began = jiff::Timestamp::try_from(shell.began).unwrap_or_default();
    json!({
        "type": "shell",
        "id": shell.id,
        "description": shell.command.lines().next().unwrap_or_default(),
        "status": status,
        "startedAt": timestamp_text(began),
        "command": shell.command,
        "attachmentMode": "attached",
        "executionMode": "background",
        "canPromoteToBackground": false,
    })
}

async fn list(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let agents = session.session().tasks();
    let shells = session.session().background_shells();
    let tasks: Vec<_> = agents.iter().map(info).chain(shells.iter().map(shell_info)).collect();
    Ok(json!({"tasks": tasks}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartParams {
    agent_type: String,
    prompt: String,
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    model: Option<String>,
}

async fn start(session: Arc<Attached>, params: StartParams) -> Result<Value, RpcError> {
    let task = NewTask {
        agent_type: params.agent_type,
        name: params.name,
        prompt: params.prompt,
        description: params.description,
        model: params.model,
        ..NewTask::default()
    };
    Ok(json!({"agentId": session.session().start_agent(task).await?}))
}

#[derive(Debug, Deserialize)]
struct IdParams {
    id: String,
}

async fn progress(session: Arc<Attached>, params: IdParams) -> Result<Value, RpcError> {
    let progress = find(&session, |task| task.id == params.id).map(|task| {
        let lines = task.lines.iter();
        let lines: Vec<_> = lines
            .map(|(message, at)| json!({"message": message, "timestamp": timestamp_text(*at)}))
            .collect();
        let mut progress = json!({"type": "agent", "recentActivity": lines});
        if let Some(intent) = task.latest_intent {
            progress["latestIntent"] = json!(intent);
        }
        progress
    });
    let shell = || {
        let shells = session.session().background_shells();
        let shell = shells.into_iter().find(|shell| shell.id == params.id)?;
        Some(json!({"type": "shell", "recentOutput": shell.recent}))
    };
    Ok(json!({"progress": progress.or_else(shell)}))
}

async fn cancel(session: Arc<Attached>, params: IdParams) -> Result<Value, RpcError> {
    Ok(json!({"cancelled": session.session().cancel_task(&params.id).await}))
}

async fn cancel_all(session: Arc<Attached>, _: Nothing) -> Result<usize, RpcError> {
    Ok(session.session().cancel_background_agents().await)
}

async fn remove(session: Arc<Attached>, params: IdParams) -> Result<Value, RpcError> {
    Ok(json!({"removed": session.session().remove_task(&params.id)}))
}

#[derive(Debug, Deserialize)]
struct SendParams {
    id: String,
    message: String,
}

async fn send(session: Arc<Attached>, params: SendParams) -> Result<Value, RpcError> {
    Ok(match session.session().tell_task(&params.id, &params.message) {
        true => json!({"sent": true}),
        false => json!({"sent": false, "error": "Agent not found or not accepting messages"}),
    })
}

async fn promotable(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(match find(&session, |task| task.can_promote) {
        Some(task) => json!({"task": info(&task)}),
        None => json!({}),
    })
}

async fn promote(session: Arc<Attached>, params: IdParams) -> Result<Value, RpcError> {
    Ok(json!({"promoted": session.session().promote_task(&params.id)}))
}

async fn promote_current(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let found = find(&session, |task| task.can_promote);
    let promoted = found.filter(|task| session.session().promote_task(&task.id));
    let now = promoted.and_then(|task| find(&session, |other| other.id == task.id));
    Ok(now.map_or(json!({}), |task| json!({"task": info(&task)})))
}

async fn refresh(_: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({}))
}

async fn wait(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let _ = tokio::time::timeout(LONGEST_WAIT, session.session().tasks_settled()).await;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
struct SettingsParams {
    #[serde(default)]
    subagents: Option<Subagents>,
}

/// Today's clients send settings of kinds of agents in `agents`, older ones beside the other fields.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Subagents {
    agents: BTreeMap<String, Override>,
    disabled_subagents: BTreeSet<String>,
    max_concurrency: Option<usize>,
    max_depth: Option<usize>,
    #[serde(flatten)]
    older: BTreeMap<String, Override>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Override {
    model: Option<String>,
    effort_level: Option<String>,
}

async fn settings(session: Arc<Attached>, params: SettingsParams) -> Result<Value, RpcError> {
    let given = params.subagents.unwrap_or_default();
    let bound = |wish: Option<usize>| wish.map(|wish| wish.clamp(1, 128));
    let settings = SubagentSettings {
        agents: (given.older.into_iter().chain(given.agents))
            .map(|(name, wish)| {
                let wish = SubagentOverride {
                    model: wish.model,
                    effort: wish.effort_level,
                };
                (name, wish)
            })
            .collect(),
        max_running: bound(given.max_concurrency),
        max_depth: bound(given.max_depth),
    };
    session.session().configure(Change::Subagents(settings)).await?;
    session.session().set_agents_off(&given.disabled_subagents).await?;
    Ok(json!({}))
}

async fn get_settings(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let set = session.session().settings().subagents;
    let off = session.session().agents_off().await?;
    if set == SubagentSettings::default() && off.is_empty() {
        return Ok(json!({"subagents": null}));
    }
    let agents = set.agents.into_iter().map(|(name, wish)| {
        let wish = json!({"model": wish.model, "effortLevel": wish.effort});
        (name, without_nulls(wish))
    });
    let subagents = json!({
        "agents": agents.collect::<Map<_, _>>(),
        "disabledSubagents": off,
        "maxConcurrency": set.max_running,
        "maxDepth": set.max_depth,
    });
    Ok(json!({"subagents": without_nulls(subagents)}))
}

fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| !value.is_null());
    }
    value
}
