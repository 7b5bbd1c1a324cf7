//! Settings of a session: mode, plan, name, model, working directory, options.

use std::{path::PathBuf, sync::Arc};

use lodge_events::{Payload, SessionContextChanged, SessionError, SessionInfo, SessionLimits, SessionWarning};
use lodge_host::{Approval, Change, CustomizationChange, HookFiles, Mode, Todos, ToolFilter};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{config::EnvValueMode, rpc::RpcError, session::Attached};

pub(crate) static STATE: Capability = Capability {
    title: "Session state",
    methods: &[
        method!(session "session.mode.get", 4, "`interactive`, `plan` or `autopilot`", mode_get),
        method!(session "session.mode.set", 5, "changes the mode", mode_set),
        method!(session "session.plan.read", 2, "the plan", plan_read),
        method!(session "session.plan.update", 6, "writes the plan", plan_update),
        method!(session "session.plan.delete", 3, "deletes the plan", plan_delete),
        method!(session "session.plan.readSqlTodos", 1, "the agent's to-do list", todos),
        method!(
            session "session.plan.readSqlTodosWithDependencies",
            1,
            "the same, with dependencies",
            todos_with_dependencies
        ),
        method!(session "session.name.get", 3, "the name, or the title", name_get),
        method!(session "session.name.set", 8, "names the session", name_set),
        method!(session "session.name.setAuto", 1, "names the session, unless a person already did", name_set_auto),
        method!(session "session.log", 4, "records a message for people", log),
        method!(session "session.options.update", 7, "changes several settings at once", options_update),
        method!(session "session.metadata.setWorkingDirectory", 1, "changes the working directory", set_working_directory),
        method!(
            session "session.metadata.recordContextChange",
            1,
            "records what the client knows about the repository",
            record_context_change
        ),
    ],
};

async fn mode_get(session: Arc<Attached>, _: Nothing) -> Result<&'static str, RpcError> {
    Ok(session.session().settings().mode.as_str())
}

#[derive(Debug, Deserialize)]
struct ModeParams {
    mode: String,
}

async fn mode_set(session: Arc<Attached>, params: ModeParams) -> Result<Value, RpcError> {
    let mode = Mode::parse(&params.mode).ok_or_else(|| RpcError::params(format!("Unknown mode: {}", params.mode)))?;
    session.session().configure(Change::Mode(mode)).await?;
    Ok(json!({"status": "applied", "modelChanged": false, "modeApplied": true}))
}

async fn plan_read(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let path = session.session().plan_path();
    let content = match tokio::fs::read_to_string(&path).await {
        Ok(content) => Some(content),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(RpcError::failed(format!("{} cannot be read: {error}", path.display()))),
    };
    Ok(json!({"exists": content.is_some(), "content": content, "path": path}))
}

#[derive(Debug, Deserialize)]
struct ContentParams {
    content: String,
}

async fn plan_update(session: Arc<Attached>, params: ContentParams) -> Result<Value, RpcError> {
    session.session().set_plan(Some(params.content)).await?;
    Ok(Value::Null)
}

async fn plan_delete(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    session.session().set_plan(None).await?;
    Ok(Value::Null)
}

async fn todos(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"rows": session.session().todos().await.rows}))
}

async fn todos_with_dependencies(session: Arc<Attached>, _: Nothing) -> Result<Todos, RpcError> {
    Ok(session.session().todos().await)
}

async fn name_get(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let name = session
        .session()
        .settings()
        .name
        .or_else(|| session.session().state().title());
    Ok(json!({"name": name}))
}

#[derive(Debug, Deserialize)]
struct NameParams {
    name: String,
}

async fn name_set(session: Arc<Attached>, params: NameParams) -> Result<Value, RpcError> {
    let name = params.name.trim();
    if name.is_empty() {
        return Err(RpcError::failed("Session name cannot be empty"));
    }
    session.session().rename(Some(name.to_owned())).await?;
    Ok(Value::Null)
}

#[derive(Debug, Deserialize)]
struct SummaryParams {
    summary: String,
}

async fn name_set_auto(session: Arc<Attached>, params: SummaryParams) -> Result<Value, RpcError> {
    let name = params.summary.trim();
    let applied = !name.is_empty() && session.session().name_automatically(name.to_owned()).await?;
    Ok(json!({"applied": applied}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogParams {
    message: String,
    #[serde(default)]
    level: Option<String>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    ephemeral: bool,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    tip: Option<String>,
}

async fn log(session: Arc<Attached>, params: LogParams) -> Result<Value, RpcError> {
    let LogParams {
        message,
        level,
        kind,
        ephemeral,
        url,
        tip,
    } = params;
    let kind = kind.unwrap_or_else(|| "notification".to_owned());
    let payload: Payload = match level.as_deref().unwrap_or("info") {
        "warning" => SessionWarning {
            warning_type: kind,
            message,
            url,
            ..SessionWarning::default()
        }
        .into(),
        "error" => SessionError {
            error_type: kind,
            message,
            url,
            ..SessionError::default()
        }
        .into(),
        _ => SessionInfo {
            info_type: kind,
            message,
            url,
            tip,
        }
        .into(),
    };
    let event = if ephemeral {
        session.session().tell(payload).await?
    } else {
        session.session().record(payload).await?
    };
    Ok(json!({"eventId": event.id().to_string()}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OptionsParams {
    model: Option<String>,
    reasoning_effort: Option<String>,
    client_name: Option<String>,
    working_directory: Option<PathBuf>,
    additional_directories: Option<Vec<PathBuf>>,
    available_tools: Option<Vec<String>>,
    excluded_tools: Option<Vec<String>>,
    enable_streaming: Option<bool>,
    approve_all: Option<bool>,
    /// `null` removes them.
    #[serde(deserialize_with = "given")]
    session_limits: Option<Option<SessionLimits>>,
    skip_custom_instructions: Option<bool>,
    organization_custom_instructions: Option<String>,
    env_value_mode: Option<EnvValueMode>,
    reasoning_summary: Option<String>,
    enable_host_git_operations: Option<bool>,
    enable_file_hooks: Option<bool>,
    enable_skills: Option<bool>,
    skill_directories: Option<Vec<PathBuf>>,
    disabled_skills: Option<Vec<String>>,
    excluded_builtin_agents: Option<Vec<String>>,
}

/// Distinguishes `null` from a missing value.
fn given<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl OptionsParams {
    fn customization(&self) -> Option<Change> {
        let change = CustomizationChange {
            skills: self.enable_skills,
            skill_directories: self.skill_directories.clone(),
            disabled_skills: self.disabled_skills.clone().map(|names| names.into_iter().collect()),
            excluded_agents: self.excluded_builtin_agents.clone(),
            ..CustomizationChange::default()
        };
        (!change.is_empty()).then(|| Change::Customization(Box::new(change)))
    }
}

/// Unknown options are ignored: the SDKs send everything that their newest runtime understands.
async fn options_update(session: Arc<Attached>, params: OptionsParams) -> Result<Value, RpcError> {
    let mut changes: Vec<Change> = params.customization().into_iter().collect();
    if params.available_tools.is_some() || params.excluded_tools.is_some() {
        let now = session.session().settings().tools;
        changes.push(Change::Tools(ToolFilter {
            available: params.available_tools.or(now.available),
            excluded: params.excluded_tools.unwrap_or(now.excluded),
        }));
    }
    let limits = params.session_limits;
    changes.extend(limits.map(|limits| Change::Limit(limits.and_then(|limits| limits.max_ai_credits))));
    let organization = params.organization_custom_instructions;
    changes.extend(organization.map(|text| {
        let text = Some(text).filter(|text| !text.trim().is_empty());
        Change::OrganizationInstructions(text)
    }));
    let summary = params.reasoning_summary;
    changes.extend(summary.map(|summary| Change::ReasoningSummary(Some(summary))));
    changes.extend(params.enable_host_git_operations.map(Change::Git));
    changes.extend(params.enable_file_hooks.map(|on| {
        let files = if on { HookFiles::All } else { HookFiles::Off };
        Change::HookFiles(files)
    }));
    changes.extend(params.working_directory.map(Change::Cwd));
    changes.extend(params.additional_directories.map(Change::AdditionalDirectories));
    changes.extend(params.enable_streaming.map(Change::Streaming));
    changes.extend(params.client_name.map(|name| Change::ClientName(Some(name))));
    changes.extend(
        params
            .approve_all
            .map(|all| Change::Approval(if all { Approval::ApproveAll } else { Approval::Ask })),
    );
    changes.extend(
        params
            .skip_custom_instructions
            .map(|skip| Change::ProjectInstructions(!skip)),
    );
    for change in changes {
        session.session().configure(change).await?;
    }
    if let Some(mode) = params.env_value_mode {
        session.read_variables(mode);
    }
    if let Some(model) = params.model {
        session.switch_model(&model, params.reasoning_effort, None).await?;
    } else if let Some(effort) = params.reasoning_effort {
        session
            .session()
            .configure(Change::ReasoningEffort(Some(effort)))
            .await?;
    }
    Ok(json!({"success": true}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DirectoryParams {
    working_directory: PathBuf,
}

async fn set_working_directory(session: Arc<Attached>, params: DirectoryParams) -> Result<Value, RpcError> {
    session
        .session()
        .configure(Change::Cwd(params.working_directory))
        .await?;
    Ok(json!({"workingDirectory": session.session().settings().cwd}))
}

#[derive(Debug, Deserialize)]
struct ContextParams {
    context: SessionContextChanged,
}

async fn record_context_change(session: Arc<Attached>, params: ContextParams) -> Result<Value, RpcError> {
    session.session().record(params.context).await?;
    Ok(json!({}))
}
