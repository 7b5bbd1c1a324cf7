//! The MCP servers of a session: their notifications become events, their requests become questions, and their tools join the
//! session's tools.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use lodge_events::{
    ElicitationCompleted, ElicitationMode, ElicitationRequested, McpOauthCompleted, McpOauthRequired,
    McpPromptsListChanged, McpResourcesListChanged, McpServer, McpServerMetadata, McpSource, McpStatus,
    McpToolsListChanged, McpTransport, OauthChallenge, OauthClientConfig, OauthOutcome, OauthReason,
    SessionMcpServerNeedsReconnect, SessionMcpServerRemoved, SessionMcpServerStatusChanged,
    SessionMcpServerToolsLoaded, SessionMcpServersLoaded, ToolExecutionStart,
};
use lodge_mcp::{
    AuthReason, AuthRequest, Configured, Elicitation, ElicitationAnswer as McpAnswer, List, Owner, Sampling,
    ServerInfo, Servers, Source, Status, Surroundings, Tool,
};
use lodge_models::ToolSpec;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    answer::{Answer, ElicitationAnswer, QuestionKind},
    questions::Question,
    session::Shared,
};

/// How long a turn waits for starting servers; later ones are available for the next model call.
const PATIENCE: Duration = Duration::from_secs(30);
/// Limit for the name under which a model calls a tool.
const NAME_BYTES: usize = 64;
/// How much of a server's own instructions goes into the system prompt.
const INSTRUCTIONS_CHARACTERS: usize = 4_000;

/// A tool of an MCP server, as the model may call it.
#[derive(Clone)]
pub(crate) struct McpTool {
    pub(crate) server: Arc<str>,
    pub(crate) tool: Arc<Tool>,
}

impl McpTool {
    /// The tool's title for people.
    pub(crate) fn title(&self) -> String {
        self.tool.title.clone().unwrap_or_else(|| self.tool.name.clone())
    }
}

/// The name under which a model calls a server's tool: both names, without characters that models do not accept.
fn tool_name(server: &str, tool: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            c
        } else {
            '_'
        }
    };
    let name: String = format!("{server}-{tool}").chars().map(plain).collect();
    match name.len() <= NAME_BYTES {
        true => name,
        false => distinct(&name, server, tool),
    }
}

/// The beginning of such a name, with a mark that no other tool has.
fn distinct(name: &str, server: &str, tool: &str) -> String {
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{server}/{tool}").as_bytes())
        .simple()
        .to_string();
    format!("{}_{}", &name[..name.len().min(NAME_BYTES - 9)], &id[..8])
}

/// The names of tools, each with its server first. Where two come to the same, the first in the alphabet has it.
fn tool_names(tools: &[(&str, &str)]) -> Vec<String> {
    let mut order: Vec<usize> = (0..tools.len()).collect();
    order.sort_by_key(|at| tools[*at]);
    let (mut names, mut taken) = (vec![String::new(); tools.len()], HashSet::new());
    for at in order {
        let (server, tool) = tools[at];
        let name = tool_name(server, tool);
        names[at] = match taken.insert(name.clone()) {
            true => name,
            false => distinct(&name, server, tool),
        };
    }
    names
}

/// A server's description in events.
pub(crate) fn server_event(info: &ServerInfo) -> McpServer {
    McpServer {
        name: info.name.clone(),
        status: status_event(info.status),
        source: source_event(info.source),
        display_name: info.display_name.clone(),
        error: info.error.clone(),
        server_metadata: (info.status == Status::Connected).then(|| McpServerMetadata {
            instructions: info.instructions.clone(),
        }),
        transport: info.kind.map(transport_event),
        ..McpServer::default()
    }
}

fn status_event(status: Status) -> McpStatus {
    match status {
        Status::Pending => McpStatus::Pending,
        Status::Connected => McpStatus::Connected,
        Status::Failed => McpStatus::Failed,
        Status::NeedsAuth => McpStatus::NeedsAuth,
        Status::Disabled => McpStatus::Disabled,
        Status::Stopped => McpStatus::Stopped,
    }
}

/// Servers of clients have none of the sources in the vocabulary.
pub(crate) fn source_event(source: Source) -> Option<McpSource> {
    match source {
        Source::User => Some(McpSource::User),
        Source::Workspace => Some(McpSource::Workspace),
        Source::Plugin => Some(McpSource::Plugin),
        Source::Builtin => Some(McpSource::Builtin),
        Source::Client => None,
    }
}

pub(crate) fn transport_event(kind: &str) -> McpTransport {
    kind.into()
}

/// Passes on notifications and requests of servers. It holds the session weakly, because servers must not keep it
/// alive.
pub(crate) struct McpOwner(pub(crate) Weak<Shared>);

impl Owner for McpOwner {
    fn changed(&self, server: &ServerInfo) {
        let Some(shared) = self.0.upgrade() else { return };
        shared.recorder.note(SessionMcpServerStatusChanged {
            server_name: server.name.clone(),
            status: status_event(server.status),
            error: server.error.clone(),
        });
        if server.status != Status::Pending {
            shared.retell_tools();
        }
        if server.status == Status::Connected {
            shared.recorder.note(SessionMcpServerToolsLoaded {
                server_name: server.name.clone(),
                tool_count: server.tools as u64,
            });
        }
        if !server.left_out.is_empty() {
            let message = format!(
                "These tools of the MCP server {} are not offered, because they only run as tasks, which Lodge cannot \
                 follow: {}.",
                server.name,
                server.left_out.join(", ")
            );
            // The next writer reports a log that cannot be written.
            let _ = shared.warn_once("mcp", message);
        }
    }

    fn loaded(&self, servers: &[ServerInfo]) {
        let Some(shared) = self.0.upgrade() else { return };
        shared.recorder.note(SessionMcpServersLoaded {
            servers: servers.iter().map(server_event).collect(),
        });
    }

    fn lost(&self, server: &str) {
        let Some(shared) = self.0.upgrade() else { return };
        shared.recorder.note(SessionMcpServerNeedsReconnect {
            server_name: server.to_owned(),
        });
    }

    fn removed(&self, server: &str) {
        let Some(shared) = self.0.upgrade() else { return };
        shared.recorder.note(SessionMcpServerRemoved {
            server_name: server.to_owned(),
        });
        shared.retell_tools();
    }

    fn list_changed(&self, server: &str, list: List) {
        let Some(shared) = self.0.upgrade() else { return };
        let server_name = server.to_owned();
        match list {
            List::Tools => {
                shared.recorder.note(McpToolsListChanged { server_name });
                shared.retell_tools();
            }
            List::Resources => shared.recorder.note(McpResourcesListChanged { server_name }),
            List::Prompts => shared.recorder.note(McpPromptsListChanged { server_name }),
        }
    }

    fn elicit(&self, server: &str, form: Elicitation) -> BoxFuture<'static, McpAnswer> {
        let (shared, server) = (self.0.clone(), server.to_owned());
        Box::pin(async move {
            let cancelled = || McpAnswer {
                action: "cancel".into(),
                content: None,
            };
            // Held only during an operation: an open form keeps no session in memory.
            let waiting = {
                let Some(shared) = shared.upgrade() else {
                    return cancelled();
                };
                let Some(waiting) = shared.ask_form(Some(&server), None, form) else {
                    return cancelled();
                };
                waiting
            };
            waiting.await
        })
    }

    fn roots(&self) -> Vec<PathBuf> {
        let Some(shared) = self.0.upgrade() else {
            return Vec::new();
        };
        let settings = shared.settings.lock();
        let more = settings.additional_directories.iter().cloned();
        [settings.cwd.clone()].into_iter().chain(more).collect()
    }

    fn takes_samplings(&self) -> bool {
        let shared = self.0.upgrade();
        shared.is_some_and(|shared| shared.clients.lock().any(|can| can.sampling))
    }

    fn sample(&self, server: &str, asked: Sampling) -> BoxFuture<'static, Result<Value, String>> {
        let (shared, server) = (self.0.clone(), server.to_owned());
        Box::pin(async move {
            // Held while it lasts: nobody is asked but for a call that holds the session as well.
            let shared = shared.upgrade().ok_or("The session has ended.")?;
            shared.sample(server, asked).await
        })
    }

    fn token(&self, server: &str) -> Option<String> {
        let shared = self.0.upgrade()?;
        let config = shared.mcp.config(server)?;
        shared.logins.token(&config.remote()?.url)
    }

    /// What the host has signed in to is renewed by itself; then whoever can get tokens is asked.
    fn authorize(&self, server: &str, request: AuthRequest) -> BoxFuture<'static, Option<String>> {
        let (shared, server) = (self.0.clone(), server.to_owned());
        Box::pin(async move {
            let logins = shared.upgrade()?.logins.clone();
            // Apps are told what the server said, as it came; what the host signs in to itself keeps earlier scopes.
            let told = request.clone();
            let request = logins.want(request);
            let had = if request.reason == AuthReason::Refresh {
                logins
                    .renew(&request.url, &request.client, request.rejected.as_ref())
                    .await
            } else {
                request.newer_token(&logins)
            };
            if had.is_some() {
                return had;
            }
            let waiting = shared.upgrade()?.ask_token(server, told)?;
            waiting.await
        })
    }
}

/// What `mcp.oauth_required` says of a server's wish.
pub(crate) fn oauth_event(request_id: String, server: String, request: AuthRequest) -> McpOauthRequired {
    McpOauthRequired {
        request_id,
        server_name: server,
        server_url: request.url,
        static_client_config: request.client.id.map(|client_id| OauthClientConfig {
            client_id,
            public_client: request.client.public,
            grant_type: request.client.grant_type,
            ..OauthClientConfig::default()
        }),
        www_authenticate_params: request.challenge.map(|said| OauthChallenge {
            resource_metadata_url: said.resource_metadata_url,
            scope: said.scope,
            error: said.error,
        }),
        resource_metadata: request.resource_metadata,
        reason: match request.reason {
            AuthReason::Initial => OauthReason::Initial,
            AuthReason::Refresh => OauthReason::Refresh,
            AuthReason::Reauth => OauthReason::Reauth,
            AuthReason::Upscope => OauthReason::Upscope,
        },
        ..McpOauthRequired::default()
    }
}

impl Shared {
    /// Asks for a token whoever can get one; nothing when nobody can.
    fn ask_token(self: &Arc<Self>, server: String, request: AuthRequest) -> Option<BoxFuture<'static, Option<String>>> {
        if !self.clients.lock().any(|can| can.mcp_tokens) {
            return None;
        }
        let request_id = Uuid::new_v4().to_string();
        let waiting = self.pending.open(&request_id, QuestionKind::McpToken);
        let event = self.recorder.record(oauth_event(request_id.clone(), server, request));
        self.pending.asked(&request_id, event.ok()?);
        let shared = Arc::downgrade(self);
        Some(Box::pin(async move {
            let token = match waiting.await {
                Ok(Answer::McpToken(token)) => token,
                _ => None,
            };
            if let Some(shared) = shared.upgrade() {
                let outcome = if token.is_some() {
                    OauthOutcome::Token
                } else {
                    OauthOutcome::Cancelled
                };
                shared.recorder.note(McpOauthCompleted { request_id, outcome });
            }
            token.map(|token| token.0)
        }))
    }

    /// Opens a form for whoever can show one; nothing when nobody can.
    pub(crate) fn ask_form(
        self: &Arc<Self>,
        server: Option<&str>,
        own_id: Option<String>,
        form: Elicitation,
    ) -> Option<BoxFuture<'static, McpAnswer>> {
        if !self.clients.lock().any(|can| can.elicitation) {
            return None;
        }
        let request_id = own_id.unwrap_or_else(|| Uuid::new_v4().to_string());
        let question = Question::new(
            &request_id,
            QuestionKind::Elicitation,
            form.call_id.as_deref(),
            &(&form.message, &form.schema),
            form.message.clone(),
        );
        let question = if server.is_some() { question.private() } else { question };
        let earlier = self.earlier_answer(&question);
        if let Some(Answer::Elicitation(ElicitationAnswer { action, content })) = earlier {
            return Some(Box::pin(std::future::ready(McpAnswer { action, content })));
        }
        let shown = ElicitationRequested {
            request_id: request_id.clone(),
            tool_call_id: form.call_id,
            elicitation_source: server.map(str::to_owned),
            message: form.message,
            mode: Some(match form.url {
                Some(_) => ElicitationMode::Url,
                None => ElicitationMode::Form,
            }),
            requested_schema: form.schema.and_then(|schema| serde_json::from_value(schema).ok()),
            url: form.url,
        };
        let waiting = self.open_question(question.showing(&shown)).ok()?;
        let event = self.recorder.record(shown);
        self.pending.asked(&request_id, event.ok()?);
        let mut end = FormEnd {
            shared: Arc::downgrade(self),
            request_id,
            answer: None,
        };
        Some(Box::pin(async move {
            if let Ok(Answer::Elicitation(answer)) = waiting.await {
                end.answer = Some(answer);
            }
            let answer = end.answer.clone();
            McpAnswer {
                action: answer
                    .as_ref()
                    .map_or("cancel", |answer| answer.action.as_str())
                    .to_owned(),
                content: answer.and_then(|answer| answer.content),
            }
        }))
    }

    /// The tools of MCP servers, by the names that models call them by.
    pub(crate) fn mcp_tools(&self) -> Vec<(ToolSpec, McpTool)> {
        let tools = self.mcp.tools();
        let both: Vec<_> = tools.iter().map(|(server, tool)| (&**server, &*tool.name)).collect();
        let names = tool_names(&both);
        let tools = tools.into_iter().zip(names).map(|((server, tool), name)| {
            let spec = ToolSpec {
                name,
                description: tool.description.clone().unwrap_or_else(|| tool.name.clone()),
                parameters: tool.schema.clone(),
            };
            (spec, McpTool { server, tool })
        });
        tools.collect()
    }

    /// What the start of a call says about the server that has the tool.
    pub(crate) fn mcp_start(&self, tool: &McpTool) -> ToolExecutionStart {
        let info = self.mcp.info(&tool.server);
        ToolExecutionStart {
            mcp_server_name: Some(tool.server.to_string()),
            mcp_config_server_name: Some(tool.server.to_string()),
            mcp_tool_name: Some(tool.tool.name.clone()),
            mcp_transport: info.as_ref().and_then(|info| info.kind).map(transport_event),
            mcp_config_source: info.and_then(|info| source_event(info.source)),
            ..ToolExecutionStart::default()
        }
    }

    /// Sees to it that the servers are there, as far as they can be had in reasonable time.
    pub(crate) async fn mcp_ready(&self) {
        if !self.mcp.is_empty() {
            self.mcp.move_to(self.settings.lock().cwd.clone());
            self.mcp.ready(PATIENCE).await;
        }
    }

    /// Adds servers, or gives them another configuration.
    pub(crate) fn add_mcp_servers(&self, servers: Vec<Configured>) {
        if !servers.is_empty() {
            let cwd = self.settings.lock().cwd.clone();
            self.mcp.surround(Surroundings {
                cwd,
                variables: Some(self.tool_state.environment().visible()),
                env: vec![self.tool_state.program_mark()],
                ..Surroundings::default()
            });
            self.mcp.add(servers);
        }
    }

    /// What connected servers say about how to use them.
    pub(crate) fn mcp_instructions(&self) -> String {
        let mut text = String::new();
        for server in self.mcp.list() {
            if let Some(said) = server.instructions.filter(|said| !said.trim().is_empty()) {
                let said: String = said.trim().chars().take(INSTRUCTIONS_CHARACTERS).collect();
                text.push_str(&format!(
                    "\n<mcp_server name=\"{}\">\n{said}\n</mcp_server>",
                    server.name
                ));
            }
        }
        text
    }
}

/// Tells that a form is answered, or that nobody waits for it any more.
struct FormEnd {
    shared: Weak<Shared>,
    request_id: String,
    answer: Option<ElicitationAnswer>,
}

impl Drop for FormEnd {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.pending.close(&self.request_id);
        let (action, content) = match self.answer.take() {
            Some(answer) => (answer.action, answer.content),
            None => ("cancel".to_owned(), None),
        };
        shared.recorder.note(ElicitationCompleted {
            request_id: self.request_id.clone(),
            action: Some(action.as_str().into()),
            content,
        });
    }
}

/// No servers, told to this session.
pub(crate) fn none(shared: &Weak<Shared>) -> Servers {
    Servers::new(Arc::new(McpOwner(shared.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_called_by_both_names_in_letters_that_models_take() {
        for (server, tool, expected) in [
            ("env-echo", "get_env", "env-echo-get_env"),
            ("my server", "read.file", "my_server-read_file"),
            ("a/b", "x", "a_b-x"),
        ] {
            assert_eq!(tool_name(server, tool), expected);
        }
        let long = "x".repeat(80);
        let (one, two) = (tool_name(&long, "a"), tool_name(&long, "b"));
        assert_eq!(one.len(), NAME_BYTES);
        assert_ne!(one, two);
    }

    #[test]
    fn two_tools_never_have_one_name() {
        let one = ("a", "b-c");
        let two = ("a-b", "c");
        let plain = "a-b-c";
        for tools in [[one, two], [two, one]] {
            let names = tool_names(&tools);
            for (tool, name) in tools.iter().zip(&names) {
                assert_eq!(tool == &one, name == plain, "{names:?}");
                assert!(name.starts_with(plain), "{names:?}");
            }
        }
    }
}
