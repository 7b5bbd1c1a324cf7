//! The session configuration in `session.create` and `session.resume`. Unknown keys are ignored, because every release of
//! the SDKs adds some.

use std::{collections::BTreeMap, path::PathBuf};

use lodge_events::{AutoTier, SessionCanvasOpened, SessionLimits};
use lodge_models::ProviderConfig;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    canvas::{CanvasConfig, CanvasProviderConfig, ExtensionInfo},
    factory::FactoryConfig,
};

/// A client's configuration of a session.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SessionConfig {
    pub(crate) session_id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) allowed_models: Option<Vec<String>>,
    pub(crate) client_name: Option<String>,
    pub(crate) reasoning_effort: Option<String>,
    pub(crate) reasoning_summary: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) model_capabilities: Option<ModelCapabilities>,
    pub(crate) tools: Option<Vec<ToolConfig>>,
    pub(crate) commands: Option<Vec<CommandConfig>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) system_message: Option<SystemMessageConfig>,
    pub(crate) available_tools: Option<Vec<String>>,
    pub(crate) excluded_tools: Option<Vec<String>>,
    pub(crate) provider: Option<ProviderConfig>,
    pub(crate) providers: Option<Vec<ProviderConfig>>,
    pub(crate) models: Option<Vec<ModelConfig>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) capi: Option<CapiConfig>,
    pub(crate) request_permission: Option<bool>,
    pub(crate) request_user_input: Option<bool>,
    pub(crate) request_elicitation: Option<bool>,
    pub(crate) request_exit_plan_mode: Option<bool>,
    pub(crate) session_limits: Option<SessionLimits>,
    pub(crate) request_auto_mode_switch: Option<bool>,
    pub(crate) request_mcp_apps: Option<bool>,
    pub(crate) canvases: Option<Vec<CanvasConfig>>,
    pub(crate) request_canvas_renderer: Option<bool>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) canvas_provider: Option<CanvasProviderConfig>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) extension_info: Option<ExtensionInfo>,
    pub(crate) request_extensions: Option<bool>,
    pub(crate) extension_sdk_path: Option<PathBuf>,
    pub(crate) factories: Option<Vec<FactoryConfig>>,
    #[serde(deserialize_with = "lenient_list")]
    pub(crate) open_canvases: Option<Vec<SessionCanvasOpened>>,
    pub(crate) hooks: Option<bool>,
    pub(crate) working_directory: Option<PathBuf>,
    pub(crate) additional_directories: Option<Vec<PathBuf>>,
    pub(crate) streaming: Option<bool>,
    pub(crate) enable_citations: Option<bool>,
    pub(crate) memory: Option<MemoryConfig>,
    pub(crate) config_dir: Option<PathBuf>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) default_agent: Option<DefaultAgentConfig>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) infinite_sessions: Option<InfiniteSessions>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) large_output: Option<LargeOutput>,
    pub(crate) skip_custom_instructions: Option<bool>,
    pub(crate) organization_custom_instructions: Option<String>,
    pub(crate) managed_settings: Option<Value>,
    pub(crate) enable_managed_settings: Option<bool>,
    pub(crate) cloud: Option<Value>,
    pub(crate) ask_user_variant: Option<AskUserVariant>,
    pub(crate) enable_host_git_operations: Option<bool>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) github_mcp_tool_config: Option<GitHubMcpConfig>,
    pub(crate) enable_file_hooks: Option<bool>,
    pub(crate) mcp_servers: Option<serde_json::Map<String, Value>>,
    pub(crate) disabled_mcp_servers: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) env_value_mode: Option<EnvValueMode>,
    pub(crate) auth_client_id_metadata_url: Option<String>,
    pub(crate) instruction_directories: Option<Vec<PathBuf>>,
    pub(crate) custom_agents: Option<Vec<CustomAgentConfig>>,
    pub(crate) agent: Option<String>,
    pub(crate) excluded_builtin_agents: Option<Vec<String>>,
    pub(crate) enable_config_discovery: Option<bool>,
    pub(crate) enable_skills: Option<bool>,
    pub(crate) skill_directories: Option<Vec<PathBuf>>,
    pub(crate) agent_directories: Option<Vec<PathBuf>>,
    pub(crate) hook_directories: Option<Vec<PathBuf>>,
    pub(crate) disabled_skills: Option<Vec<String>>,
    pub(crate) plugin_directories: Option<Vec<PathBuf>>,
    pub(crate) include_sub_agent_streaming_events: Option<bool>,
    pub(crate) enable_git_hub_telemetry_forwarding: Option<bool>,
    pub(crate) git_hub_token: Option<String>,
    pub(crate) git_hub_token_provider_registration_id: Option<String>,
    pub(crate) disable_resume: Option<bool>,
    pub(crate) continue_pending_work: Option<bool>,
    pub(crate) traceparent: Option<String>,
}

/// How the agent asks questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AskUserVariant {
    /// With a question and an answer.
    Legacy,
    /// With a form.
    Elicitation,
}

/// How the models behind a GitHub token are used.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CapiConfig {
    pub(crate) enable_web_socket_responses: Option<bool>,
    pub(crate) auto_tier: Option<AutoTier>,
}

/// Which tools GitHub's own MCP server offers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GitHubMcpConfig {
    pub(crate) enable_all_tools: bool,
    pub(crate) additional_toolsets: Vec<String>,
    pub(crate) additional_tools: Vec<String>,
    pub(crate) enable_insiders_mode: bool,
}

/// The meaning of the values of MCP servers' variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EnvValueMode {
    /// Literal values.
    Direct,
    /// Names of the host's variables.
    Indirect,
}

/// A tool that the client runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ToolConfig {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) parameters: Option<Value>,
    pub(crate) overrides_built_in_tool: Option<bool>,
    pub(crate) skip_permission: Option<bool>,
    pub(crate) is_terminal: Option<bool>,
    pub(crate) metadata: Option<Value>,
}

/// An agent that the client defines.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CustomAgentConfig {
    pub(crate) name: String,
    pub(crate) display_name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) prompt: String,
    pub(crate) mcp_servers: Option<Value>,
    pub(crate) infer: Option<bool>,
    pub(crate) skills: Option<Vec<String>>,
    pub(crate) model: Option<String>,
    pub(crate) reasoning_effort: Option<String>,
}

/// A slash command that the client runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CommandConfig {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
}

/// Changes to the system prompt.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SystemMessageConfig {
    pub(crate) mode: Option<String>,
    pub(crate) content: Option<String>,
    pub(crate) sections: Option<BTreeMap<String, SectionConfig>>,
}

/// The change to one section of the system prompt.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SectionConfig {
    pub(crate) action: Option<String>,
    pub(crate) content: Option<String>,
}

/// A model of one of the providers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ModelConfig {
    pub(crate) id: String,
    pub(crate) provider: String,
    pub(crate) name: Option<String>,
    pub(crate) wire_model: Option<String>,
    pub(crate) model_id: Option<String>,
    pub(crate) max_prompt_tokens: Option<u64>,
    pub(crate) max_context_window_tokens: Option<u64>,
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) capabilities: Option<ModelCapabilities>,
}

/// A client's description of its model's capabilities.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ModelCapabilities {
    pub(crate) supports: Option<ModelSupports>,
    pub(crate) limits: Option<ModelLimits>,
}

/// Limits of a client's model, in either spelling.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ModelLimits {
    #[serde(alias = "maxPromptTokens")]
    pub(crate) max_prompt_tokens: Option<u64>,
    #[serde(alias = "maxOutputTokens")]
    pub(crate) max_output_tokens: Option<u64>,
    #[serde(alias = "maxContextWindowTokens")]
    pub(crate) max_context_window_tokens: Option<u64>,
}

/// Capabilities of a client's model.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ModelSupports {
    pub(crate) vision: Option<bool>,
    pub(crate) reasoning_effort: Option<bool>,
}

/// Tools that the default agent must not use.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DefaultAgentConfig {
    pub(crate) excluded_tools: Option<Vec<String>>,
}

/// Automatic compaction.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InfiniteSessions {
    pub(crate) enabled: Option<bool>,
    pub(crate) background_compaction_threshold: Option<f64>,
    pub(crate) buffer_exhaustion_threshold: Option<f64>,
}

/// Whether facts about the project are kept across sessions.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MemoryConfig {
    pub(crate) enabled: bool,
}

/// What happens to long tool results.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LargeOutput {
    pub(crate) enabled: Option<bool>,
    pub(crate) max_size_bytes: Option<usize>,
    pub(crate) output_dir: Option<PathBuf>,
}

/// Reads a value whose shape newer SDKs may change: an unexpected shape counts as absent.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// The same for a list.
fn lenient_list<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<Vec<T>>, D::Error> {
    let values: Option<Vec<Value>> = lenient(deserializer)?;
    let fitting = |values: Vec<Value>| {
        let read = values.into_iter().map(serde_json::from_value);
        read.filter_map(Result::ok).collect()
    };
    Ok(values.map(fitting))
}
