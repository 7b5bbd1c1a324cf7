//! The agents that clients can choose: the host's own, and those of other programs.

use std::collections::HashMap;

use ahp_types::state::{
    AgentCapabilities, AgentInfo, Customization, MultipleChatsCapability, MultipleWorkingDirectoriesCapability,
    SessionModelInfo,
};
use lodge_host::{Host, ModelInfo, PROGRAM_PROVIDER};
use serde_json::{Value, json};

use crate::{projection::object, session_config::model_schema, uri};

/// Whether clients can ask for an agent by this name: the host's own, or another program's.
pub(crate) fn is_agent(host: &Host, name: &str) -> bool {
    uri::is_provider(name) || is_program(host, name)
}

/// Whether another program's agent has this name.
pub(crate) fn is_program(host: &Host, name: &str) -> bool {
    let is_meant = |model: &ModelInfo| model.provider == PROGRAM_PROVIDER && model.id == name;
    !uri::is_provider(name) && host.models().list().iter().any(is_meant)
}

/// What the root state says about the host's agent, and those of other programs.
pub(super) fn agents(
    host: &Host,
    pricing: &HashMap<String, Value>,
    customizations: Option<Vec<Customization>>,
) -> Vec<AgentInfo> {
    let shown = |model: &ModelInfo, provider: &str| SessionModelInfo {
        config_schema: model_schema(&model.reasoning_efforts),
        meta: pricing
            .get(&model.id)
            .map(|pricing| object(json!({ "pricing": pricing }))),
        id: model.id.clone(),
        provider: provider.to_owned(),
        name: model.name.clone(),
        max_context_window: model.context_window.try_into().ok().filter(|size| *size > 0),
        max_output_tokens: model.max_output_tokens.try_into().ok().filter(|size| *size > 0),
        max_prompt_tokens: None,
        supports_vision: Some(model.vision),
        policy_state: None,
    };
    let capabilities = |multiple_chats| AgentCapabilities {
        multiple_chats,
        multiple_working_directories: Some(MultipleWorkingDirectoriesCapability {
            immutable_primary: Some(true),
            primary_replacement: None,
        }),
    };
    let models = host.models().list();
    let own = AgentInfo {
        provider: uri::PROVIDER.to_owned(),
        display_name: "Lodge".to_owned(),
        description: "The agent of this host".to_owned(),
        models: models.iter().map(|model| shown(model, uri::PROVIDER)).collect(),
        protected_resources: None,
        customizations,
        capabilities: Some(capabilities(Some(MultipleChatsCapability {
            fork: Some(true),
            side_chat: Some(true),
        }))),
    };
    let programs = models.iter().filter(|model| is_program(host, &model.id));
    let programs = programs.map(|model| AgentInfo {
        provider: model.id.clone(),
        display_name: model.name.clone(),
        description: "Another program's agent, run by this host".to_owned(),
        models: vec![shown(model, &model.id)],
        protected_resources: None,
        customizations: None,
        capabilities: Some(capabilities(None)),
    });
    std::iter::once(own).chain(programs).collect()
}
