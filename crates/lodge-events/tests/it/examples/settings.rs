//! Settings, and MCP servers.

use std::collections::BTreeMap;

use lodge_events::*;
use serde_json::json;

use super::text;

pub(super) fn settings() -> Vec<Payload> {
    let agent = CustomAgent {
        id: "a".into(),
        model_policy: Some(ModelPolicy::Required),
        ..Default::default()
    };
    let skill = SkillInfo {
        name: "s".into(),
        source: SkillSource::Project,
        ..Default::default()
    };
    vec![
        SessionPermissionsChanged {
            previous_mode: Some(PermissionMode::Manual),
            mode: Some(PermissionMode::AllowAll),
            assisted_approval_model: None,
        }
        .into(),
        SessionSessionLimitsChanged { session_limits: None }.into(),
        SessionToolsUpdated {
            model: "rehearsal".into(),
        }
        .into(),
        CapabilitiesChanged {
            ui: Some(UiCapabilities {
                elicitation: Some(true),
                ..Default::default()
            }),
        }
        .into(),
        CommandsChanged {
            commands: vec![CommandInfo {
                name: "deploy".into(),
                description: None,
            }],
        }
        .into(),
        SessionCustomAgentsUpdated {
            agents: vec![agent],
            ..Default::default()
        }
        .into(),
        SessionSkillsLoaded { skills: vec![skill] }.into(),
        SessionManagedSettingsResolved {
            source: ManagedSource::None,
            ..Default::default()
        }
        .into(),
        SessionManagedSettingsEnforced {
            action: "bypass_permissions_blocked".into(),
            escalation: Some("approve_all".into()),
            setting: "permissions.disableBypassPermissionsMode".into(),
            message: "no".into(),
            fail_closed: false,
        }
        .into(),
        SessionAutoModeResolved {
            chosen_model: "m".into(),
            category_scores: Some(BTreeMap::from([("c".into(), 0.5)])),
            ..Default::default()
        }
        .into(),
        SessionMemoryChanged {}.into(),
    ]
}

pub(super) fn mcp() -> Vec<Payload> {
    let server_name = || "files".to_owned();
    vec![
        SessionMcpServersLoaded {
            servers: vec![McpServer {
                name: server_name(),
                status: McpStatus::Connected,
                server_metadata: Some(McpServerMetadata { instructions: None }),
                ..Default::default()
            }],
        }
        .into(),
        SessionMcpServerStatusChanged {
            server_name: server_name(),
            status: McpStatus::NeedsAuth,
            error: None,
        }
        .into(),
        SessionMcpServerToolsLoaded {
            server_name: server_name(),
            tool_count: 3,
        }
        .into(),
        SessionMcpServerRemoved {
            server_name: server_name(),
        }
        .into(),
        SessionMcpServerNeedsReconnect {
            server_name: server_name(),
        }
        .into(),
        McpToolsListChanged {
            server_name: server_name(),
        }
        .into(),
        McpResourcesListChanged {
            server_name: server_name(),
        }
        .into(),
        McpPromptsListChanged {
            server_name: server_name(),
        }
        .into(),
        McpOauthRequired {
            request_id: "o".into(),
            server_name: server_name(),
            server_url: "http://127.0.0.1/".into(),
            static_client_config: Some(OauthClientConfig {
                client_id: "c".into(),
                ..Default::default()
            }),
            www_authenticate_params: Some(OauthChallenge {
                scope: text("read"),
                ..Default::default()
            }),
            http_response: Some(OauthHttpResponse {
                status_code: 401,
                headers: vec![HeaderEntry {
                    name: "a".into(),
                    value: "b".into(),
                }],
                body: None,
            }),
            reason: OauthReason::Initial,
            resource_metadata: None,
        }
        .into(),
        McpOauthCompleted {
            request_id: "o".into(),
            outcome: OauthOutcome::Token,
        }
        .into(),
        SamplingRequested {
            request_id: "s".into(),
            server_name: server_name(),
            mcp_request_id: json!(7),
            // Fields that the SDKs' classes do not name are left out of examples.
            request: None,
        }
        .into(),
        SamplingCompleted { request_id: "s".into() }.into(),
    ]
}
