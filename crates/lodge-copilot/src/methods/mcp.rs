//! The MCP servers of a session.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lodge_host::{
    AccessToken, Answer, Gate,
    mcp::{
        Admitted, Call, Configured, LoginOptions, McpError, OauthClient, ServerConfig, ServerInfo, Servers, Source,
        Status, Tool, check_name,
        files::{self, UserFile},
    },
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Capability, Nothing, method};
use crate::{config::EnvValueMode, connection::Ctx, github, rpc::RpcError, session::Attached};

pub(crate) static MCP: Capability = Capability {
    title: "MCP servers",
    methods: &[
        method!(session "session.mcp.list", 23, "the servers and their state; starts those not yet started", list),
        method!(session "session.mcp.listConfigured", 0, "the servers and their state; starts none", list_configured),
        method!(session "session.mcp.listTools", 4, "the tools of a connected server", list_tools),
        method!(session "session.mcp.isServerRunning", 2, "whether a server is connected", is_running),
        method!(session "session.mcp.enable", 1, "enables a server", enable),
        method!(session "session.mcp.disable", 1, "stops a server and keeps it from starting", disable),
        method!(session "session.mcp.reload", 1, "reconnects to all servers", reload),
        method!(session "session.mcp.startServer", 0, "starts a server, also one given here", start),
        method!(session "session.mcp.stopServer", 1, "stops a server", stop),
        method!(session "session.mcp.restartServer", 0, "restarts a server", restart),
        method!(session "session.mcp.moveLoadingToBackground", 0, "continues a turn that waits for servers", release),
        method!(session "session.mcp.setEnvValueMode", 1, "sets whether values of variables are literal or name the host's variables", env_mode),
        method!(session "session.mcp.removeGitHub", 1, "removes GitHub's own server", remove_github),
        method!(session "session.mcp.oauth.handlePendingRequest", 4, "answers `mcp.oauth_required`", handle_token),
        method!(session "session.mcp.oauth.login", 4, "signs in: returns the address to open, or nothing if none is needed", login),
        method!(session "session.mcp.apps.callTool", 2, "calls a tool for an app's view", call_tool),
        method!(session "session.mcp.apps.listTools", 1, "the tools that an app's view may call", app_tools),
        method!(session "session.mcp.apps.readResource", 1, "a resource of a server", read_resource),
        method!(session "session.mcp.apps.setHostContext", 1, "stores the context that views get about where they are shown", set_context),
        method!(session "session.mcp.apps.getHostContext", 1, "returns the stored context", context),
        method!(session "session.mcp.apps.diagnose", 1, "whether a server has tools with views", diagnose),
        method!("mcp.config.list", 2, "the user's servers, as written", config_list),
        method!("mcp.config.add", 2, "adds a server", config_add),
        method!("mcp.config.update", 2, "replaces a server", config_update),
        method!("mcp.config.remove", 2, "removes a server", config_remove),
        method!("mcp.config.enable", 1, "enables servers in new sessions", config_enable),
        method!(
            "mcp.config.disable",
            1,
            "disables servers in new sessions",
            config_disable
        ),
        method!(
            "mcp.config.reload",
            1,
            "does nothing: files are read whenever they are needed",
            config_reload
        ),
        method!("mcp.discover", 1, "the servers that files describe", discover),
        method!(session "session.mcp.resources.list", 0, "one page of a server's resources", resources),
        method!(session "session.mcp.resources.listTemplates", 0, "one page of a server's resource templates", templates),
        method!(session "session.mcp.resources.read", 0, "a resource of a server", read_resource),
        method!(session "session.mcp.prompts.list", 0, "one page of a server's prompts", prompts),
        method!(session "session.mcp.prompts.get", 0, "the messages of a prompt", get_prompt),
    ],
};

/// How long a response waits for starting servers.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

impl From<McpError> for RpcError {
    fn from(error: McpError) -> Self {
        Self::failed(error)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    server_name: String,
}

fn servers(session: &Attached) -> &Servers {
    session.session().mcp()
}

/// The servers if there are any; otherwise an error that clients know.
fn existing<'a>(session: &'a Attached, otherwise: &str) -> Result<&'a Servers, RpcError> {
    let servers = servers(session);
    if servers.is_empty() {
        return Err(RpcError::failed(otherwise));
    }
    Ok(servers)
}

async fn list(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let servers = servers(&session);
    if servers.is_empty() {
        return Ok(json!({"servers": []}));
    }
    servers.ready(PATIENCE).await;
    let all = servers.list();
    let names = |status: Status| -> Vec<&str> {
        let those = all.iter().filter(|server| server.status == status);
        those.map(|server| server.name.as_str()).collect()
    };
    let failed: Map<String, Value> = all
        .iter()
        .filter(|server| server.status == Status::Failed)
        .map(|server| {
            (
                server.name.clone(),
                json!({"message": server.error, "timestamp": millis(server.since)}),
            )
        })
        .collect();
    let needs_auth: Map<String, Value> = all
        .iter()
        .filter(|server| server.status == Status::NeedsAuth)
        .map(|server| (server.name.clone(), json!({"timestamp": millis(server.since)})))
        .collect();
    Ok(json!({
        "servers": all.iter().map(server_json).collect::<Vec<_>>(),
        "host": {
            "clients": names(Status::Connected),
            "disabledServers": names(Status::Disabled),
            "failedServers": failed,
            "filteredServers": [],
            "mcp3pEnabled": true,
            "needsAuthServers": needs_auth,
            "pendingConnections": names(Status::Pending),
        },
    }))
}

async fn list_configured(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let shown = |server: &ServerInfo| {
        let mut value = server_json(server);
        let mut live = json!({"status": value["status"]});
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|key, _| matches!(key.as_str(), "name" | "source" | "displayName"));
        }
        if let Some(error) = &server.error {
            live["error"] = error.as_str().into();
        }
        value["enabled"] = (server.status != Status::Disabled).into();
        value["live"] = live;
        value
    };
    Ok(json!({"servers": servers(&session).list().iter().map(shown).collect::<Vec<_>>()}))
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

fn server_json(server: &ServerInfo) -> Value {
    let mut value = json!({"name": server.name, "status": status_word(server.status)});
    match server.source {
        Source::User => value["source"] = "user".into(),
        Source::Workspace => value["source"] = "workspace".into(),
        Source::Plugin => value["source"] = "plugin".into(),
        Source::Builtin => value["source"] = "builtin".into(),
        Source::Client => {}
    }
    if let Some(error) = &server.error {
        value["error"] = error.clone().into();
    }
    if let Some(name) = &server.display_name {
        value["displayName"] = name.clone().into();
    }
    if server.status == Status::Connected {
        value["serverMetadata"] = json!({"instructions": server.instructions});
    }
    value
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::Connected => "connected",
        Status::Failed => "failed",
        Status::NeedsAuth => "needs-auth",
        Status::Disabled => "disabled",
        Status::Stopped => "stopped",
    }
}

async fn list_tools(session: Arc<Attached>, Named { server_name }: Named) -> Result<Value, RpcError> {
    let servers = servers(&session);
    if servers
        .info(&server_name)
        .is_some_and(|server| server.status == Status::Pending)
    {
        servers.ready(PATIENCE).await;
    }
    let tools = servers.list_tools(&server_name).await?.into_iter().map(|tool| {
        let mut value = json!({"name": tool.name});
        if let Some(description) = tool.description {
            value["description"] = description.into();
        }
        value
    });
    Ok(json!({"tools": tools.collect::<Vec<_>>()}))
}

async fn is_running(session: Arc<Attached>, Named { server_name }: Named) -> Result<Value, RpcError> {
    let server = servers(&session).info(&server_name);
    Ok(json!({"running": server.is_some_and(|server| server.status == Status::Connected)}))
}

async fn enable(session: Arc<Attached>, Named { server_name }: Named) -> Result<Value, RpcError> {
    switch(&session, &server_name, true).await
}

async fn disable(session: Arc<Attached>, Named { server_name }: Named) -> Result<Value, RpcError> {
    switch(&session, &server_name, false).await
}

/// A name that is not configured is no error: it may be configured later.
async fn switch(session: &Attached, name: &str, on: bool) -> Result<Value, RpcError> {
    existing(session, "No MCP host initialized")?;
    session.session().switch_server(name, on).await?;
    Ok(Value::Null)
}

async fn reload(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let servers = existing(&session, "MCP config reload not available")?;
    servers.reset();
    servers.ready(PATIENCE).await;
    Ok(Value::Null)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartParams {
    server_name: String,
    #[serde(default)]
    config: Option<Value>,
}

impl StartParams {
    /// Applies the configuration, if there is one.
    fn configure(&self, session: &Attached) -> Result<(), RpcError> {
        if let Some(value) = &self.config {
            check_name(&self.server_name).map_err(RpcError::params)?;
            let config = ServerConfig::read(value).map_err(RpcError::params)?;
            session.session().add_mcp_servers(vec![Configured {
                name: self.server_name.clone(),
                source: Source::Client,
                config: Ok(Admitted::of_client(config)),
            }]);
        }
        Ok(())
    }
}

async fn start(session: Arc<Attached>, params: StartParams) -> Result<Value, RpcError> {
    params.configure(&session)?;
    servers(&session).start(&params.server_name).await?;
    Ok(Value::Null)
}

async fn stop(session: Arc<Attached>, Named { server_name }: Named) -> Result<Value, RpcError> {
    servers(&session).stop(&server_name)?;
    Ok(json!({}))
}

async fn restart(session: Arc<Attached>, params: StartParams) -> Result<Value, RpcError> {
    params.configure(&session)?;
    servers(&session).restart(&params.server_name).await?;
    Ok(Value::Null)
}

async fn release(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"movedToBackground": servers(&session).release()}))
}

#[derive(Debug, Deserialize)]
struct Mode {
    mode: EnvValueMode,
}

async fn env_mode(session: Arc<Attached>, Mode { mode }: Mode) -> Result<Value, RpcError> {
    session.read_variables(mode);
    Ok(json!({"mode": mode}))
}

async fn remove_github(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let servers = session.session().mcp();
    let there = servers
        .info(github::SERVER)
        .is_some_and(|server| server.source == Source::Builtin);
    if there {
        servers.forget(&[github::SERVER.to_owned()]);
    }
    Ok(json!({"removed": there}))
}

/// Changes the person's file, on a blocking thread.
async fn user_file<T: Send + 'static>(
    ctx: &Ctx,
    work: impl FnOnce(UserFile) -> Result<T, String> + Send + 'static,
) -> Result<T, RpcError> {
    let file = UserFile::of(ctx.host.home().path());
    tokio::task::spawn_blocking(move || work(file))
        .await
        .map_err(RpcError::failed)?
        .map_err(RpcError::failed)
}

async fn config_list(ctx: Ctx, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"servers": user_file(&ctx, |file| file.list()).await?}))
}

#[derive(Debug, Deserialize)]
struct ConfigParams {
    name: String,
    #[serde(default)]
    config: Value,
}

async fn config_add(ctx: Ctx, ConfigParams { name, config }: ConfigParams) -> Result<(), RpcError> {
    user_file(&ctx, move |file| file.add(&name, config)).await
}

async fn config_update(ctx: Ctx, ConfigParams { name, config }: ConfigParams) -> Result<(), RpcError> {
    user_file(&ctx, move |file| file.update(&name, config)).await
}

async fn config_remove(ctx: Ctx, ConfigParams { name, .. }: ConfigParams) -> Result<(), RpcError> {
    user_file(&ctx, move |file| file.remove(&name)).await
}

#[derive(Debug, Deserialize)]
struct Names {
    names: Vec<String>,
}

async fn config_enable(ctx: Ctx, Names { names }: Names) -> Result<(), RpcError> {
    user_file(&ctx, move |file| file.set_enabled(&names, true)).await
}

async fn config_disable(ctx: Ctx, Names { names }: Names) -> Result<(), RpcError> {
    user_file(&ctx, move |file| file.set_enabled(&names, false)).await
}

async fn config_reload(_: Ctx, _: Nothing) -> Result<(), RpcError> {
    Ok(())
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DiscoverParams {
    working_directory: Option<PathBuf>,
}

async fn discover(ctx: Ctx, params: DiscoverParams) -> Result<Value, RpcError> {
    let home = ctx.host.home().path().to_owned();
    let found = tokio::task::spawn_blocking(move || {
        // They are only listed, so no trust is needed.
        let gate = Gate::vouched_for();
        let project = params.working_directory.map(|folder| files::of_project(&folder, &gate));
        files::of_user(&home)
            .into_iter()
            .chain(project.into_iter().flatten())
            .collect::<Vec<_>>()
    });
    let servers = found.await.map_err(RpcError::failed)?.into_iter().filter_map(|server| {
        let source = if server.source == Source::User {
            "user"
        } else {
            "workspace"
        };
        let config = server.config.ok()?;
        Some(json!({"name": server.name, "type": config.kind(), "source": source, "enabled": !config.disabled}))
    });
    Ok(json!({"servers": servers.collect::<Vec<_>>()}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenParams {
    request_id: String,
    result: TokenResult,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum TokenResult {
    #[serde(rename_all = "camelCase")]
    Token {
        access_token: String,
    },
    Cancelled,
}

async fn handle_token(session: Arc<Attached>, params: TokenParams) -> Result<Value, RpcError> {
    let token = match params.result {
        TokenResult::Token { access_token } => Some(AccessToken(access_token)),
        TokenResult::Cancelled => None,
    };
    let answer = Answer::McpToken(token);
    Ok(json!({"success": session.answer(&params.request_id, answer).await?}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoginParams {
    server_name: String,
    #[serde(default)]
    force_reauth: bool,
    client_name: Option<String>,
    callback_success_message: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    public_client: Option<bool>,
    grant_type: Option<String>,
}

async fn login(session: Arc<Attached>, params: LoginParams) -> Result<Value, RpcError> {
    existing(&session, "MCP host is not available")?;
    let options = LoginOptions {
        client: OauthClient {
            id: params.client_id,
            secret: params.client_secret,
            public: params.public_client,
            grant_type: params.grant_type,
        },
        client_metadata_url: session.client_metadata_url(),
        client_name: params.client_name,
        success_message: params.callback_success_message,
    };
    let login = session
        .session()
        .mcp_login(&params.server_name, options, params.force_reauth);
    let url = login.await?;
    Ok(url.map_or_else(|| json!({}), |url| json!({"authorizationUrl": url})))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AppCall {
    server_name: String,
    origin_server_name: String,
    #[serde(default)]
    tool_name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

impl AppCall {
    /// A view may call the server that it came from, and only the tools that this server shows to views.
    async fn visible(&self, session: &Attached) -> Result<Vec<Tool>, RpcError> {
        if !session.shows_views() {
            let text =
                "The session was opened without the mcp-apps capability, so views of servers cannot send requests.";
            return Err(RpcError::failed(text));
        }
        if self.server_name != self.origin_server_name {
            return Err(RpcError::failed(
                "A view of an MCP app has visibility of its own server only.",
            ));
        }
        let tools = servers(session).list_tools(&self.server_name).await?;
        let visible = |tool: &Tool| {
            let to = tool
                .meta
                .as_ref()
                .and_then(|meta| meta["ui"]["visibility"].as_array().cloned());
            to.is_none_or(|to| to.iter().any(|to| to == "app"))
        };
        Ok(tools.into_iter().filter(visible).collect())
    }
}

async fn app_tools(session: Arc<Attached>, params: AppCall) -> Result<Value, RpcError> {
    let tools = params.visible(&session).await?.into_iter().map(|tool| {
        json!({"name": tool.name, "description": tool.description, "inputSchema": *tool.schema, "_meta": tool.meta})
    });
    Ok(json!({"tools": tools.collect::<Vec<_>>()}))
}

#[derive(Debug, Deserialize)]
struct ContextParams {
    context: Map<String, Value>,
}

async fn set_context(session: Arc<Attached>, ContextParams { context }: ContextParams) -> Result<Value, RpcError> {
    session.board().show_views_in(context);
    Ok(Value::Null)
}

async fn context(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"context": session.board().views_are_shown_in()}))
}

/// Views are the client's task; servers are asked only for their tools here.
async fn diagnose(session: Arc<Attached>, Named { server_name }: Named) -> Result<Value, RpcError> {
    let tools = servers(&session).list_tools(&server_name).await;
    let connected = tools.is_ok();
    let tools = tools.unwrap_or_default();
    let with_views: Vec<&str> = tools
        .iter()
        .filter(|tool| tool.meta.as_ref().is_some_and(|meta| meta["ui"].is_object()))
        .map(|tool| tool.name.as_str())
        .collect();
    Ok(json!({
        "capability": {
            "sessionHasMcpApps": session.shows_views(), "featureFlagEnabled": true, "advertised": false,
        },
        "server": {
            "connected": connected,
            "toolCount": tools.len(),
            "toolsWithUiMeta": with_views.len(),
            "sampleToolNames": with_views.iter().take(5).collect::<Vec<_>>(),
        },
    }))
}

async fn call_tool(session: Arc<Attached>, params: AppCall) -> Result<Value, RpcError> {
    let visible = params.visible(&session).await?;
    if !visible.iter().any(|tool| tool.name == params.tool_name) {
        return Err(RpcError::failed(format!(
            "MCP server \"{}\" offers no tool {} to apps",
            params.server_name, params.tool_name
        )));
    }
    let call = Call {
        id: String::new(),
        tool: params.tool_name,
        arguments: params.arguments,
        meta: None,
        progress: Arc::new(|_| {}),
    };
    Ok(servers(&session).call(&params.server_name, call).await?.json())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageParams {
    server_name: String,
    #[serde(default)]
    cursor: Option<String>,
}

async fn page(session: &Attached, params: PageParams, method: &str, list: &str) -> Result<Value, RpcError> {
    let cursor = params.cursor.map(|cursor| json!({"cursor": cursor}));
    let page = servers(session).request(&params.server_name, method, cursor).await?;
    let mut answer = json!({list: page.get(list).cloned().unwrap_or_else(|| json!([]))});
    if let Some(next) = page.get("nextCursor").filter(|next| next.is_string()) {
        answer["nextCursor"] = next.clone();
    }
    Ok(answer)
}

async fn resources(session: Arc<Attached>, params: PageParams) -> Result<Value, RpcError> {
    page(&session, params, "resources/list", "resources").await
}

async fn templates(session: Arc<Attached>, params: PageParams) -> Result<Value, RpcError> {
    page(&session, params, "resources/templates/list", "resourceTemplates").await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadParams {
    server_name: String,
    uri: String,
}

async fn read_resource(session: Arc<Attached>, params: ReadParams) -> Result<Value, RpcError> {
    let uri = json!({"uri": params.uri});
    let read = servers(&session)
        .request(&params.server_name, "resources/read", Some(uri))
        .await?;
    Ok(json!({"contents": read.get("contents").cloned().unwrap_or_else(|| json!([]))}))
}

/// A page as the server sent it, with all its fields.
async fn prompts(session: Arc<Attached>, params: PageParams) -> Result<Value, RpcError> {
    let cursor = params.cursor.map(|cursor| json!({"cursor": cursor}));
    let mut page = servers(&session)
        .request(&params.server_name, "prompts/list", cursor)
        .await?;
    if !page["prompts"].is_array() {
        page = json!({"prompts": []});
    }
    Ok(page)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptParams {
    server_name: String,
    prompt_name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

async fn get_prompt(session: Arc<Attached>, params: PromptParams) -> Result<Value, RpcError> {
    let asked = json!({"name": params.prompt_name, "arguments": params.arguments.unwrap_or_default()});
    let prompt = servers(&session)
        .request(&params.server_name, "prompts/get", Some(asked))
        .await?;
    match prompt["messages"].is_array() {
        true => Ok(prompt),
        false => Err(RpcError::failed(format!(
            "MCP server \"{}\" answered prompts/get without messages",
            params.server_name
        ))),
    }
}
