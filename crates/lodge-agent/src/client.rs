//! Clients attached to a session, and their capabilities.

use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use lodge_events::AutoModeSwitchResponse;
use lodge_events::CommandInfo;
use lodge_tools::Editor;
use serde_json::Value;

use crate::answer::{ExitPlanAnswer, ExternalResult, UserInputAnswer};

/// Identifies one attachment of a client.
pub type ClientId = u64;

/// A client as it attaches.
#[derive(Clone)]
pub struct ClientSpec {
    /// Name for people and for logs.
    pub name: String,
    /// The questions that it can answer.
    pub can: Capabilities,
    /// Tools that it runs for the agent.
    pub tools: Vec<ClientTool>,
    /// Slash commands that it runs for people.
    pub commands: Vec<CommandInfo>,
    /// How the agent calls it.
    pub calls: Arc<dyn ClientCalls>,
}

/// A client's capabilities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Answers `permission.requested`.
    pub permissions: bool,
    /// Answers `user_input.requested`.
    pub user_input: bool,
    /// Answers `elicitation.requested`.
    pub elicitation: bool,
    /// Answers `exit_plan_mode.requested`.
    pub exit_plan_mode: bool,
    /// Answers `mcp.oauth_required`.
    pub mcp_tokens: bool,
    /// Answers `auto_mode_switch.requested`.
    pub auto_mode_switch: bool,
    /// Answers `session_limits_exhausted.requested`.
    pub limits: bool,
    /// Answers `sampling.requested`.
    pub sampling: bool,
    /// Wants hooks invoked.
    pub hooks: bool,
    /// Prepares messages that need it, and begins their turns.
    pub prepares: bool,
    /// Sections of the system prompt that it wants to rewrite.
    pub transforms: Vec<String>,
}

/// A tool that a client runs.
#[derive(Debug, Clone)]
pub struct ClientTool {
    /// Name to call it by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: Arc<Value>,
    /// Replaces a built-in tool of the same name.
    pub overrides_builtin: bool,
    /// Runs without asking for permission.
    pub skip_permission: bool,
    /// Declares that it changes nothing, so plan mode lets it run.
    pub read_only: bool,
    /// Ends the turn: the model is not called again for its result.
    pub terminal: bool,
}

/// A question to a person, as the `ask_user` tool puts it.
#[derive(Debug, Clone)]
pub struct UserInputQuestion {
    /// The request, as named in `user_input.requested`.
    pub request_id: String,
    /// The question.
    pub question: String,
    /// Choices to offer.
    pub choices: Option<Vec<String>>,
    /// Whether free text is accepted.
    pub allow_freeform: bool,
}

/// A request to leave plan mode.
#[derive(Debug, Clone)]
pub struct ExitPlanQuestion {
    /// The request, as named in `exit_plan_mode.requested`.
    pub request_id: String,
    /// Summary of the plan.
    pub summary: String,
    /// The plan.
    pub plan_content: String,
    /// The actions that the person may choose.
    pub actions: Vec<String>,
    /// The recommended action.
    pub recommended_action: String,
}

/// The offer to continue with the provider's choice of a model.
#[derive(Debug, Clone)]
pub struct AutoModeQuestion {
    /// The request, as named in `auto_mode_switch.requested`.
    pub request_id: String,
    /// The limit that was reached, in the provider's words.
    pub error_code: Option<String>,
    /// When it ends.
    pub retry_after_seconds: Option<u64>,
}

/// Calls from the agent to a client. The default implementations return `None`: the client does not answer, and the
/// question stays open for others.
pub trait ClientCalls: Send + Sync {
    /// Invokes a hook; the output contains the hook's changes.
    fn hook(&self, _hook_type: String, _input: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        Box::pin(ready(Ok(None)))
    }
    /// Asks the person.
    fn user_input(&self, _question: UserInputQuestion) -> BoxFuture<'static, Option<UserInputAnswer>> {
        Box::pin(ready(None))
    }
    /// Asks whether to leave plan mode.
    fn exit_plan_mode(&self, _question: ExitPlanQuestion) -> BoxFuture<'static, Option<ExitPlanAnswer>> {
        Box::pin(ready(None))
    }
    /// Asks whether to continue with the provider's choice of a model.
    fn auto_mode_switch(&self, _question: AutoModeQuestion) -> BoxFuture<'static, Option<AutoModeSwitchResponse>> {
        Box::pin(ready(None))
    }
    /// Whether a person who uses the client can sign in to an MCP server for a tool call.
    fn signs_in(&self) -> bool {
        false
    }
    /// The trace of a tool call as a W3C `traceparent`, if the session is traced.
    fn traceparent(&self, _tool_call_id: &str) -> Option<String> {
        None
    }
    /// The editor, if the client is one that shows files to a person.
    fn editor(&self) -> Option<Arc<dyn Editor>> {
        None
    }
    /// Runs a tool of the client in the host, if the client's face does that. Other tools are requested with
    /// `external_tool.requested`.
    fn run_tool(&self, _tool: &str, _arguments: &Value) -> Option<BoxFuture<'static, ExternalResult>> {
        None
    }
    /// Rewrites one section of the system prompt.
    fn transform_section(&self, _section: String, _content: String) -> BoxFuture<'static, Option<String>> {
        Box::pin(ready(None))
    }
}

/// A client that only watches, or that answers by [`crate::Command::Answer`].
pub struct NoCalls;

impl ClientCalls for NoCalls {}

/// All attached clients, in the order of attachment.
#[derive(Default)]
pub(crate) struct Clients {
    next: ClientId,
    all: Vec<(ClientId, ClientSpec)>,
}

impl Clients {
    pub(crate) fn attach(&mut self, spec: ClientSpec) -> ClientId {
        self.next += 1;
        self.all.push((self.next, spec));
        self.next
    }

    pub(crate) fn detach(&mut self, id: ClientId) -> Option<ClientSpec> {
        let at = self.all.iter().position(|(other, _)| *other == id)?;
        Some(self.all.remove(at).1)
    }

    pub(crate) fn update(&mut self, id: ClientId, spec: ClientSpec) {
        if let Some((_, old)) = self.all.iter_mut().find(|(other, _)| *other == id) {
            *old = spec;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ClientSpec> {
        self.all.iter().map(|(_, spec)| spec)
    }

    pub(crate) fn any(&self, can: impl Fn(&Capabilities) -> bool) -> bool {
        self.iter().any(|client| can(&client.can))
    }

    /// The calls of the clients with a capability, to be made without holding a lock.
    pub(crate) fn calls(&self, can: impl Fn(&Capabilities) -> bool) -> Vec<Arc<dyn ClientCalls>> {
        self.iter()
            .filter(|client| can(&client.can))
            .map(|client| client.calls.clone())
            .collect()
    }

    /// The trace of a tool call, if a client traces the session.
    pub(crate) fn traceparent(&self, tool_call_id: &str) -> Option<String> {
        self.iter().find_map(|client| client.calls.traceparent(tool_call_id))
    }

    /// The editor through which files are read and written: the newest.
    pub(crate) fn editor(&self) -> Option<Arc<dyn Editor>> {
        self.all.iter().rev().find_map(|(_, client)| client.calls.editor())
    }

    /// Runs a tool in the host, for the newest client that does so with it.
    pub(crate) fn run_tool(&self, tool: &str, arguments: &Value) -> Option<BoxFuture<'static, ExternalResult>> {
        let brings = |client: &ClientSpec| client.tools.iter().any(|known| known.name == tool);
        let (_, newest) = self.all.iter().rev().find(|(_, client)| brings(client))?;
        newest.calls.run_tool(tool, arguments)
    }

    /// Commands of all clients; of two with the same name, the first counts.
    pub(crate) fn commands(&self) -> Vec<CommandInfo> {
        let mut commands: Vec<CommandInfo> = Vec::new();
        for command in self.iter().flat_map(|client| &client.commands) {
            if !commands.iter().any(|known| known.name == command.name) {
                commands.push(command.clone());
            }
        }
        commands
    }

    /// The client that provides a command.
    pub(crate) fn has_command(&self, name: &str) -> Option<ClientId> {
        let has = |spec: &ClientSpec| spec.commands.iter().any(|command| command.name == name);
        self.all.iter().find(|(_, spec)| has(spec)).map(|(id, _)| *id)
    }

    /// Tools of all clients; of two with the same name, the newest counts, because its client will answer.
    pub(crate) fn tools(&self) -> Vec<ClientTool> {
        let mut tools: Vec<ClientTool> = Vec::new();
        for tool in self.iter().flat_map(|client| &client.tools) {
            match tools.iter_mut().find(|known| known.name == tool.name) {
                Some(known) => *known = tool.clone(),
                None => tools.push(tool.clone()),
            }
        }
        tools
    }
}
