//! Opening sessions: from the client's configuration to an attached session.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use lodge_events::AutoTier;
use lodge_host::{
    AgentDefinition, Approval, Change, Compaction, Customization, CustomizationChange, HookFiles, ManagedPolicy,
    McpFiles, ModelChoice, NewSession, Origin, Plugin, Resume, SectionChange, Session, Startable, Supply,
    SystemMessage, ToolFilter,
    mcp::{self, Admitted, Configured, ServerConfig, Source, Status},
};
use uuid::Uuid;

use crate::{
    canvas::ExtensionInfo,
    config::{CustomAgentConfig, InfiniteSessions, SessionConfig, SystemMessageConfig},
    connection::Ctx,
    extensions::{Seat, source_and_name},
    github::{self, Tokens},
    methods::{core::auth_json, model, plugins},
    policy,
    providers::{Chooser, Chosen, Registry},
    rpc::RpcError,
    session::Attached,
    storage::Files,
    user_settings::{self, UserSettings},
};

/// Who a session belongs to when its client does not say.
const CLIENT_NAME: &str = "sdk";

/// Makes a session and attaches the client to it. The client gets its events from the first one on.
pub(crate) async fn create(ctx: &Ctx, config: &SessionConfig) -> Result<Attached, RpcError> {
    refuse_unavailable(config)?;
    let policy = policy::read(config)?;
    let id = config.session_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
    let tokens = Tokens::of(ctx, config, &id)?;
    let auth = auth(ctx, config, tokens.as_deref()).await?;
    let chooser = chooser(ctx, config, &id, tokens);
    let user = UserSettings::read(ctx.host.home().path()).map_err(RpcError::failed)?;
    // What the user has set for all sessions counts where the client has no opinion, nor a provider of its own.
    let model = match (&config.model, &config.provider) {
        (None, None) => user.text(user_settings::MODEL),
        (model, _) => model.clone(),
    };
    let allowed = config.allowed_models.as_deref().map(model::allowed).transpose()?;
    let chosen = first_model(&chooser, config, model.as_deref(), allowed.as_deref()).await?;
    let files = ctx.files(&id);
    let plugins = plugins::brought(ctx, config).await;
    let session = ctx
        .host
        .create(NewSession {
            id: Some(id.clone()),
            model: ModelChoice::Given(chosen.model.clone()),
            reasoning_effort: config
                .reasoning_effort
                .clone()
                .or_else(|| user.text(user_settings::EFFORT)),
            limit: credits(config),
            auto_tier: auto_tier(config),
            streaming: config.streaming.unwrap_or(false),
            cwd: working_directory(config, files.as_ref()),
            additional_directories: config.additional_directories.clone().unwrap_or_default(),
            system_message: system_message(config.system_message.as_ref()).unwrap_or_default(),
            tools: tool_filter(config),
            approval: approval(ctx, policy.as_ref()).unwrap_or(Approval::Ask),
            name: config.name.clone().filter(|name| !name.trim().is_empty()),
            client_name: Some(config.client_name.clone().unwrap_or_else(|| CLIENT_NAME.to_owned())),
            compaction: compaction(config.infinite_sessions.as_ref()).unwrap_or_else(|| Compaction {
                enabled: !user.is_off(user_settings::COMPACTION),
                ..Compaction::default()
            }),
            project_instructions: match config.skip_custom_instructions {
                Some(skip) => !skip,
                None => !user.is_off(user_settings::INSTRUCTIONS),
            },
            instruction_directories: config.instruction_directories.clone().unwrap_or_default(),
            hook_files: hook_files(config),
            mcp_files: mcp_files(config),
            mcp_servers: mcp_servers(config)?,
            customization: Customization {
                discover: config.enable_config_discovery.unwrap_or(false),
                vouched: config.enable_config_discovery.unwrap_or(false),
                skills: config.enable_skills.unwrap_or(true),
                skill_directories: config.skill_directories.clone().unwrap_or_default(),
                agent_directories: config.agent_directories.clone().unwrap_or_default(),
                hook_directories: config.hook_directories.clone().unwrap_or_default(),
                disabled_skills: config.disabled_skills.iter().flatten().cloned().collect(),
                agents: agents(config.custom_agents.as_deref())?.unwrap_or_default(),
                excluded_agents: config.excluded_builtin_agents.clone().unwrap_or_default(),
                hidden_tools: hidden_tools(config).unwrap_or_default(),
                own_plugins: plugins.clone(),
                ..Customization::default()
            },
            allowed_models: allowed,
            agent: config.agent.clone(),
            models: Some(Arc::new(chooser.clone())),
            storage: files.as_ref().map(Files::storage).unwrap_or_default(),
            ..NewSession::default()
        })
        .await?;
    plugins::add_servers(&session, plugins).await;
    add_github(ctx, &session, config);
    disable_mcp_servers(&session, config);
    let attached = Attached::listen(session, chooser, ctx.shared.boards.of(&id), auth, true)?;
    if let Some(files) = files {
        lodge_host::begin_checkpoints(attached.session().dir()).map_err(RpcError::failed)?;
        attached.keep_files(files, ctx.shared.options.queue_bytes, false);
    }
    attached.session().supply(Supply::Managed(policy)).await?;
    attached.attach(ctx, client_name(ctx, config), config).await?;
    attached.chose(chosen).await?;
    Ok(attached)
}

/// The model to begin with: the one that is asked for, or where only some are allowed and none of them is asked for, the first
/// that there is.
async fn first_model(
    chooser: &Chooser,
    config: &SessionConfig,
    asked: Option<&str>,
    allowed: Option<&[String]>,
) -> Result<Chosen, RpcError> {
    let capabilities = config.model_capabilities.as_ref();
    let Some(allowed) = allowed else {
        return chooser.choose(asked, capabilities).await;
    };
    let is_allowed = |id: &str| allowed.iter().any(|known| known == id);
    if let Some(model) = config.model.as_deref().filter(|model| !is_allowed(model)) {
        return Err(RpcError::params(format!("model {model} is not among allowedModels")));
    }
    let ids = asked.filter(|id| is_allowed(id)).into_iter();
    for id in ids.chain(allowed.iter().map(String::as_str)) {
        if let Ok(chosen) = chooser.choose(Some(id), capabilities).await {
            return Ok(chosen);
        }
    }
    Err(RpcError::params(model::NONE_ALLOWED))
}

/// Refuses options that this host does not have: a session in the cloud, or a policy fetched from GitHub.
fn refuse_unavailable(config: &SessionConfig) -> Result<(), RpcError> {
    if config.enable_managed_settings == Some(true) {
        return Err(RpcError::params(
            "enableManagedSettings is not available: this host fetches no policy from GitHub. Give the policy with \
             managedSettings instead",
        ));
    }
    if config.cloud.as_ref().is_some_and(|cloud| !cloud.is_null()) {
        return Err(RpcError::params(
            "cloud is not available: sessions run on this host. Leave it out to create one here",
        ));
    }
    Ok(())
}

/// What is asked before tools run, where the host's start decides about it and policy does not forbid it.
fn approval(ctx: &Ctx, policy: Option<&ManagedPolicy>) -> Option<Approval> {
    let all = ctx.shared.options.approve_all && !policy.is_some_and(|policy| policy.no_bypass);
    all.then_some(Approval::ApproveAll)
}

/// Opens a session that exists and attaches the client to it. The client gets what is recorded from now on.
pub(crate) async fn resume(ctx: &Ctx, config: &SessionConfig) -> Result<Attached, RpcError> {
    let Some(id) = &config.session_id else {
        return Err(RpcError::params("sessionId is missing"));
    };
    refuse_unavailable(config)?;
    let policy = policy::read(config)?;
    // A session that others have open stays as they have it; one that comes back from its log gets the SDK's defaults.
    let fresh = ctx.host.live(id).is_none();
    let files = ctx.files(id);
    let session = match &files {
        Some(files) => {
            if fresh {
                let stored = files.fetch().await?;
                let stored = stored.ok_or_else(|| RpcError::failed(format!("Session not found: {id}")))?;
                ctx.host.take_in(id, stored).await?;
            }
            ctx.host.open_stored(id, &files.storage()).await?
        }
        None => ctx.host.open_session(id).await?,
    };
    let tokens = Tokens::of(ctx, config, id)?;
    let auth = auth(ctx, config, tokens.as_deref()).await?;
    let chooser = chooser(ctx, config, id, tokens);
    // Without a word about models the session keeps the one it has, also when another client brought it. One that comes
    // back from its log gets the model that the log names, where this client's providers have it.
    let chosen = match (&config.model, &config.provider) {
        (None, None) => match session.state().model.filter(|_| fresh) {
            Some(model) if model != session.settings().model.id => chooser
                .choose(Some(&model), config.model_capabilities.as_ref())
                .await
                .ok(),
            _ => None,
        },
        (model, _) => Some(
            chooser
                .choose(model.as_deref(), config.model_capabilities.as_ref())
                .await?,
        ),
    };
    let models = Arc::new(chooser.clone());
    let attached = Attached::listen(session, chooser, ctx.shared.boards.of(id), auth, false)?;
    if let Some(files) = files {
        attached.keep_files(files, ctx.shared.options.queue_bytes, fresh);
    }
    // The client's older attachment goes first, or its tools and hooks would count twice.
    drop(ctx.detach(id));
    // A session that others have open keeps its plugins unless this client names some.
    let plugins = match fresh || config.plugin_directories.is_some() {
        true => Some(plugins::brought(ctx, config).await),
        false => None,
    };
    // What the client hides is hidden before its tools come, or the model would hear of them.
    if let Some(change) = customization(config, plugins.clone(), fresh)? {
        attached
            .session()
            .configure(Change::Customization(Box::new(change)))
            .await?;
    }
    if config.available_tools.is_some() || config.excluded_tools.is_some() {
        attached.session().configure(Change::Tools(tool_filter(config))).await?;
    }
    attached.session().supply(Supply::Managed(policy.clone())).await?;
    attached.attach(ctx, client_name(ctx, config), config).await?;
    if let Some(tier) = auto_tier(config) {
        let change = Change::AutoTier {
            tier: Some(tier),
            at_once: fresh,
        };
        attached.session().configure(change).await?;
    }
    let change = Resume {
        model: chosen
            .as_ref()
            .map_or(ModelChoice::Default, |chosen| ModelChoice::Given(chosen.model.clone())),
        reasoning_effort: config.reasoning_effort.clone(),
        limit: credits(config),
        streaming: config.streaming.or(fresh.then_some(false)),
        cwd: config.working_directory.clone(),
        additional_directories: config.additional_directories.clone(),
        instruction_directories: config.instruction_directories.clone(),
        system_message: system_message(config.system_message.as_ref()),
        approval: approval(ctx, policy.as_ref()).or(fresh.then_some(Approval::Ask)),
        client_name: config.client_name.clone(),
        compaction: compaction(config.infinite_sessions.as_ref()),
        hook_files: (fresh || config.enable_file_hooks.is_some()).then(|| hook_files(config)),
        agent: config.agent.clone(),
        models: Some(models),
        continue_pending: config.continue_pending_work.unwrap_or(false),
        silent: config.disable_resume.unwrap_or(false),
        mcp_files: (fresh || config.enable_config_discovery.is_some()).then(|| mcp_files(config)),
        mcp_servers: mcp_servers(config)?,
        ..Resume::default()
    };
    let resumed = ctx.host.resume(id, change).await?;
    plugins::add_servers(&resumed, plugins.unwrap_or_default()).await;
    add_github(ctx, &resumed, config);
    disable_mcp_servers(&resumed, config);
    if let Some(chosen) = chosen {
        attached.chose(chosen).await?;
    }
    if let Some(given) = &config.allowed_models {
        model::restrict(&attached, given).await?;
    }
    Ok(attached)
}

/// Lets an extension join the session that it was started for. It adds to the session what it brings, and changes no settings of it.
pub(crate) async fn join(ctx: &Ctx, config: &SessionConfig, seat: &Seat) -> Result<Attached, RpcError> {
    let id = &seat.session_id;
    if config.session_id.as_ref() != Some(id) {
        return Err(RpcError::params(format!(
            "The extension {} can join the session {id} only, for which it was started",
            seat.id
        )));
    }
    let gone = || RpcError::failed(format!("Session not found: {id}"));
    let session = ctx.host.live(id).ok_or_else(gone)?;
    let chooser = chooser(ctx, config, id, None);
    let attached = Attached::listen(session, chooser, ctx.shared.boards.of(id), None, false)?;
    drop(ctx.detach(id));
    let (source, name) = source_and_name(&seat.id);
    let config = SessionConfig {
        extension_info: Some(ExtensionInfo { source, name }),
        canvas_provider: None,
        ..config.clone()
    };
    attached.attach(ctx, seat.id.clone(), &config).await?;
    Ok(attached)
}

fn chooser(ctx: &Ctx, config: &SessionConfig, session_id: &str, tokens: Option<Arc<Tokens>>) -> Chooser {
    let catalogue = match tokens {
        Some(tokens) => ctx.catalogue_with(tokens, session_id),
        None => ctx.catalogue(config.git_hub_token.as_deref(), Some(session_id)),
    };
    let sockets = config.capi.as_ref().and_then(|capi| capi.enable_web_socket_responses);
    Chooser {
        peer: ctx.peer.clone(),
        session_id: session_id.to_owned(),
        catalogue: match sockets {
            Some(false) => catalogue.without_sockets(),
            _ => catalogue,
        },
        registry: Registry::of(config),
    }
}

/// What is known of the session's own GitHub token, if it brings one. A token that the session itself brings must be a valid one, where that can
/// be asked.
async fn auth(
    ctx: &Ctx,
    config: &SessionConfig,
    tokens: Option<&Tokens>,
) -> Result<Option<serde_json::Value>, RpcError> {
    let options = &ctx.shared.options;
    let token = match (tokens, &config.git_hub_token) {
        (Some(tokens), _) => {
            let got = tokens.get().await;
            got.map_err(|error| RpcError::failed(format!("There is no GitHub token for the session: {error}")))?
        }
        (None, Some(token)) => token.clone(),
        (None, None) => return Ok(None),
    };
    let token = &token;
    let user = match &options.github_api {
        Some(api) => {
            let user = github::user(api, token).await;
            Some(user.map_err(|error| RpcError::failed(format!("Failed to fetch Copilot user info: {error}")))?)
        }
        None => None,
    };
    Ok(Some(auth_json(true, &options.github_host, user.as_ref())))
}

/// Where the session works. The directory that a client with files of its own names is taken where it is one of this
/// machine's: the agent's commands run here.
fn working_directory(config: &SessionConfig, files: Option<&Files>) -> Option<PathBuf> {
    let named = || {
        let dir = PathBuf::from(&files?.provider.initial_cwd);
        (dir.parent().is_some() && dir.is_dir()).then_some(dir)
    };
    config.working_directory.clone().or_else(named)
}

fn credits(config: &SessionConfig) -> Option<f64> {
    config.session_limits.as_ref()?.max_ai_credits
}

fn auto_tier(config: &SessionConfig) -> Option<AutoTier> {
    config.capi.as_ref()?.auto_tier.clone()
}

fn client_name(ctx: &Ctx, config: &SessionConfig) -> String {
    config
        .client_name
        .clone()
        .or_else(|| ctx.client_name())
        .unwrap_or_else(|| CLIENT_NAME.to_owned())
}

fn tool_filter(config: &SessionConfig) -> ToolFilter {
    ToolFilter {
        available: config.available_tools.clone(),
        excluded: config.excluded_tools.clone().unwrap_or_default(),
    }
}

/// An app has the hooks of files only when it asks for them, and then also those of its folder: it chose the folder.
fn hook_files(config: &SessionConfig) -> HookFiles {
    match config.enable_file_hooks {
        Some(true) => HookFiles::All,
        _ => HookFiles::Off,
    }
}

/// An app has the servers of files only when it asks for them, and then also those of its folder: it chose the folder.
fn mcp_files(config: &SessionConfig) -> McpFiles {
    match config.enable_config_discovery {
        Some(true) => McpFiles::All(config.config_dir.clone()),
        _ => McpFiles::Off,
    }
}

/// Gives the session GitHub's own MCP server. A name that the session has is the session's.
fn add_github(ctx: &Ctx, session: &Session, config: &SessionConfig) {
    if session.mcp().info(github::SERVER).is_none() {
        session.add_mcp_servers(github::server(ctx, config).into_iter().collect());
    }
}

/// Those that the client brings are disabled already; files may have brought others.
fn disable_mcp_servers(session: &Session, config: &SessionConfig) {
    for name in config.disabled_mcp_servers.iter().flatten() {
        if session
            .mcp()
            .info(name)
            .is_some_and(|server| server.status != Status::Disabled)
        {
            let _ = session.mcp().disable(name);
        }
    }
}

/// The MCP servers that the client brings. One that makes no sense is there, and says why it cannot be used.
pub(crate) fn mcp_servers(config: &SessionConfig) -> Result<Vec<Configured>, RpcError> {
    let disabled = config.disabled_mcp_servers.as_deref().unwrap_or_default();
    let servers = config.mcp_servers.iter().flatten().map(|(name, value)| {
        mcp::check_name(name).map_err(RpcError::params)?;
        let config = ServerConfig::read(value).map(|mut config| {
            config.disabled |= disabled.contains(name);
            Admitted::of_client(config)
        });
        Ok(Configured {
            name: name.clone(),
            source: Source::Client,
            config,
        })
    });
    servers.collect()
}

/// Tools that only agents which name them may use.
fn hidden_tools(config: &SessionConfig) -> Option<Vec<String>> {
    config.default_agent.as_ref()?.excluded_tools.clone()
}

/// The agents that a client defines.
fn agents(configs: Option<&[CustomAgentConfig]>) -> Result<Option<Vec<AgentDefinition>>, RpcError> {
    let Some(configs) = configs else { return Ok(None) };
    let mut agents: Vec<AgentDefinition> = Vec::with_capacity(configs.len());
    for config in configs {
        let name = config.name.trim();
        if name.is_empty() || agents.iter().any(|known| known.name == name) {
            return Err(RpcError::params(format!(
                "customAgents: every agent needs a unique name; {name:?} is empty or repeated"
            )));
        }
        agents.push(AgentDefinition {
            name: name.to_owned(),
            display_name: config.display_name.clone(),
            description: config.description.clone().unwrap_or_default(),
            prompt: config.prompt.clone(),
            tools: config.tools.clone(),
            model: config.model.clone(),
            reasoning_effort: config.reasoning_effort.clone(),
            mcp_servers: (config.mcp_servers.clone()).map(|servers| Startable::new(Origin::Client, servers)),
            skills: config.skills.clone().unwrap_or_default(),
            infer: config.infer.unwrap_or(true),
            ..AgentDefinition::default()
        });
    }
    Ok(Some(agents))
}

/// What resuming changes about skills and agents. A session that comes back from its log gets the SDK's defaults.
fn customization(
    config: &SessionConfig,
    plugins: Option<Vec<Plugin>>,
    fresh: bool,
) -> Result<Option<CustomizationChange>, RpcError> {
    let change = CustomizationChange {
        discover: config.enable_config_discovery.or(fresh.then_some(false)),
        vouched: config.enable_config_discovery.or(fresh.then_some(false)),
        skills: config.enable_skills,
        skill_directories: config.skill_directories.clone(),
        agent_directories: config.agent_directories.clone(),
        hook_directories: config.hook_directories.clone(),
        disabled_skills: config
            .disabled_skills
            .as_ref()
            .map(|names| names.iter().cloned().collect()),
        agents: agents(config.custom_agents.as_deref())?,
        excluded_agents: config.excluded_builtin_agents.clone(),
        hidden_tools: hidden_tools(config),
        own_plugins: plugins.filter(|plugins| !plugins.is_empty() || config.plugin_directories.is_some()),
        ..CustomizationChange::default()
    };
    Ok((!change.is_empty()).then_some(change))
}

fn compaction(config: Option<&InfiniteSessions>) -> Option<Compaction> {
    let config = config?;
    let defaults = Compaction::default();
    Some(Compaction {
        enabled: config.enabled.unwrap_or(true),
        threshold: config.background_compaction_threshold.unwrap_or(defaults.threshold),
        exhaustion: config.buffer_exhaustion_threshold.unwrap_or(defaults.exhaustion),
    })
}

/// The system prompt that a client wants; `None` when it does not say.
pub(crate) fn system_message(config: Option<&SystemMessageConfig>) -> Option<SystemMessage> {
    let config = config?;
    let content = config.content.clone();
    Some(match config.mode.as_deref() {
        Some("replace") => SystemMessage::Replace {
            content: content.unwrap_or_default(),
        },
        Some("customize") => SystemMessage::Customize {
            content,
            sections: config
                .sections
                .iter()
                .flatten()
                .map(|(name, change)| {
                    let action = change.action.clone().unwrap_or_else(|| "replace".to_owned());
                    (
                        name.clone(),
                        SectionChange {
                            action,
                            content: change.content.clone(),
                        },
                    )
                })
                .collect::<BTreeMap<_, _>>(),
        },
        _ => SystemMessage::Append {
            content: content.unwrap_or_default(),
        },
    })
}
