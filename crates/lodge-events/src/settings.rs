//! A session's settings: permissions mode, limits, tools, commands, agents, skills.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::macros::events;
use crate::{CommandInfo, CustomAgent, ManagedSource, PermissionMode, SessionLimits, SkillInfo, UiCapabilities};

events! {
    "Settings and abilities";

    "session.permissions_changed" SessionPermissionsChanged persisted newer
        "The way permissions are requested changed." {
        previous_mode? PermissionMode = "Mode before.",
        mode? PermissionMode = "Mode after.",
        assisted_approval_model? String = "Model that judges in assisted mode.",
    }

    "session.session_limits_changed" SessionSessionLimitsChanged persisted newer
        "The limits of the session changed." {
        session_limits~ SessionLimits = "Limits in force; null for none.",
    }

    "session.tools_updated" SessionToolsUpdated ephemeral newer
        "The tools offered to the model changed." {
        model: String = "Model they are for.",
    }

    "capabilities.changed" CapabilitiesChanged ephemeral newer
        "The capabilities of the session's clients changed." {
        ui? UiCapabilities = "Abilities of the user interface.",
    }

    "commands.changed" CommandsChanged ephemeral newer
        "The slash commands of clients changed." {
        commands: Vec<CommandInfo> = "All current commands.",
    }

    "session.custom_agents_updated" SessionCustomAgentsUpdated ephemeral newer
        "The custom agents were loaded." {
        agents: Vec<CustomAgent> = "All current agents.",
        warnings: Vec<String> = "Problems found in their files.",
        errors: Vec<String> = "What could not be loaded.",
    }

    "session.skills_loaded" SessionSkillsLoaded ephemeral newer
        "The skills were loaded." {
        skills: Vec<SkillInfo> = "All current skills.",
    }

    "session.managed_settings_resolved" SessionManagedSettingsResolved ephemeral newer
        "Which settings an organisation has fixed for this session." {
        source: ManagedSource = "Where they came from.",
        server_managed: bool = "Whether a server fixed some.",
        device_managed: bool = "Whether the device fixed some.",
        client_managed? bool = "Whether the client fixed some.",
        policy_helper_managed? bool = "Whether a policy helper fixed some.",
        fail_closed: bool = "Whether the policy could not be read and the session is restricted for it.",
        sandbox_enabled_by_undetermined_policy? bool = "Whether that alone forces the sandbox.",
        bypass_permissions_disabled: bool = "Whether permissions cannot be bypassed.",
        permissions_allow_intersected? bool = "Whether several lists of permissions apply together.",
        managed_keys: Vec<String> = "Settings that are fixed.",
        settings? Value = "Their values.",
    }

    "session.managed_settings_enforced" SessionManagedSettingsEnforced ephemeral newer
        "A setting could not be changed because an organisation manages it." {
        action: String = "What was refused: `bypass_permissions_blocked`.",
        escalation? String = "How permissions are bypassed: `allow_all`, `approve_all`, ….",
        setting: String = "The setting that refuses it.",
        message: String = "Why, for people.",
        fail_closed: bool = "Whether the policy could not be read and the session is restricted for it.",
    }

    "session.auto_mode_resolved" SessionAutoModeResolved persisted newer
        "Automatic model choice selected a model." {
        chosen_model: String = "The model.",
        reasoning_bucket? String = "How hard the request looked: `low`, `medium` or `high`.",
        category_scores? BTreeMap<String, f64> = "Scores of the classifier.",
        predicted_label? String = "Label of the classifier.",
        confidence? f64 = "Its confidence.",
        candidate_models? Vec<String> = "Models in the order of preference.",
        routing_method? String = "How the choice was made.",
        available_models? Vec<String> = "Models there were.",
        fallback? bool = "Whether the router fell back to the standard choice.",
        fallback_reason? String = "Why.",
        sticky_override? bool = "Whether an earlier choice won.",
        router_latency_ms? f64 = "Milliseconds the router took.",
        end_to_end_latency_ms? f64 = "Milliseconds waited for it.",
        chosen_shortfall? f64 = "Distance to the best score.",
        has_image? bool = "Whether the prompt held an image.",
    }

    "session.memory_changed" SessionMemoryChanged ephemeral newer
        "A memory was stored or voted on." {}
}
