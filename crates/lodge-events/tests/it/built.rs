//! The vocabulary claims nothing that Lodge does not say.

use std::{fs, path::Path};

use lodge_events::{EventType, TYPES};

/// Types that Lodge reads, because logs of the Copilot CLI have them, and never writes, with the reason.
const ONLY_READ: [(&str, &str); 1] = [(
    "session.schedule_rearmed",
    "the model cannot pace schedules here, but a log that comes from elsewhere may say when one runs next",
)];

/// The text of all sources but tests and the vocabulary itself.
fn sources(dir: &Path, into: &mut String) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "tests" && name != "lodge-events" && name != "testkit" {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let (code, _) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
            into.push_str(code);
        }
    }
}

#[test]
fn every_type_of_the_vocabulary_is_built_somewhere() {
    let mut text = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut text);
    let built = |name: &str| {
        [" {", "::default()"].iter().any(|how| {
            let making = format!("{name}{how}");
            let mut found = text.match_indices(&making).map(|(at, _)| &text[..at]);
            found.any(|before| !before.ends_with("impl ") && !before.ends_with("struct ") && !before.ends_with("for "))
        })
    };
    for info in TYPES {
        let name = format!("{:?}", EventType::from_name(info.name).unwrap());
        let only_read = ONLY_READ.iter().any(|(known, _)| *known == info.name);
        assert_ne!(
            built(&name),
            only_read,
            "{} is claimed, and no source makes one",
            info.name
        );
    }
}

/// Types of the newest SDK that Lodge neither writes nor reads, or prefixes of types that end with a dot, with the reason.
const ABSENT: [(&str, &str); 45] = [
    (
        "session.autopilot_objective_changed",
        "autopilot has no objective apart from the conversation",
    ),
    ("session.indexed_search", "there is no index of code"),
    ("session.model_deselected", "a session always has a model"),
    ("session.auto_tier_recommendation", NO_ADVICE),
    ("session.mode_notice_delivered", MESSAGES),
    ("session.handoff", "no session is handed to GitHub"),
    ("session.truncation", "a conversation is compacted, and never cut"),
    ("session.usage_checkpoint", "`lodge.usage` has every call"),
    (
        "session.quota_observation",
        "`assistant.usage` has the quotas that a provider tells",
    ),
    ("session.completion_receipt", MESSAGES),
    ("session.fusion_route_started", FUSION),
    ("session.fusion_route_failed", FUSION),
    ("session.fusion_resolved", FUSION),
    ("session.fusion_completed", FUSION),
    ("assistant.fusion_phase_started", FUSION),
    ("assistant.fusion_phase_activity", FUSION),
    ("assistant.fusion_phase_completed", FUSION),
    ("assistant.fusion_phase_failed", FUSION),
    ("session.permission_recovery", AUTHORIZATION),
    ("permission.carriedForward", AUTHORIZATION),
    ("permission.messageAuthorization", AUTHORIZATION),
    ("permission.messageAuthorizationRead", AUTHORIZATION),
    ("permission.messageAuthorizationDegraded", AUTHORIZATION),
    ("permission.assentDetected", AUTHORIZATION),
    ("permission.contextualAuthorization", AUTHORIZATION),
    ("human_response.recorded", "`lodge.answered` has who answered, and how"),
    ("assistant.server_tool_progress", "no tool runs at the provider"),
    ("prompt_cache_break", NO_ADVICE),
    ("model.call_final_result", "`model.call_finished` has the outcome"),
    (
        "tool_search.activated",
        "all tools are offered; none has to be searched for",
    ),
    ("skill.invoked_ref", SKILLS),
    ("skill.context_delivered", SKILLS),
    ("skill.context_delivered_ref", SKILLS),
    (
        "sandbox.decision",
        "it names the backends of the Copilot CLI; the result of a call says what the jail did",
    ),
    ("hook.progress", "hooks are only heard at their end"),
    ("instruction.update", "instructions are read anew for every message"),
    ("mcp.oauth_recovery_completed", "a sign-in that failed is begun again"),
    ("mcp.headers_refresh_required", HEADERS),
    ("mcp.headers_refresh_completed", HEADERS),
    ("mcp_app.tool_call_complete", "a view gets the result from its own call"),
    ("session.custom_notification", EXTENSIONS),
    ("session.extensions.attachments_pushed", EXTENSIONS),
    ("ui.ephemeral_query", "the question aside is not part of the session"),
    ("session.managed_plugin_progress", "no plugin is managed"),
    (
        "workflow.",
        "SDKs up to 1.0.27 name these `factory.run_*`, and an app reads the state of a run with methods",
    ),
];

const NO_ADVICE: &str = "Lodge gives no advice about costs";
const MESSAGES: &str = "messages of the host to the model are part of the message that they go with";
const FUSION: &str = "one model answers a call";
const AUTHORIZATION: &str = "permission comes from rules and answers, and never from the words of a message";
const SKILLS: &str = "`skill.invoked` has the text that the model got";
const HEADERS: &str = "headers come from the configuration, and are not asked for";
const EXTENSIONS: &str = "extensions cannot push attachments and notifications of their own";

#[test]
fn every_type_of_the_newest_sdk_is_known_or_absent_for_a_reason() {
    let named = |name: &str, kind: &str| match name.ends_with('.') {
        true => kind.starts_with(name),
        false => kind == name,
    };
    for kind in testkit::schema::newest_events() {
        let absent = ABSENT.iter().any(|(name, _)| named(name, kind));
        let known = EventType::from_name(kind).is_some();
        assert_ne!(
            absent, known,
            "{kind} is neither known nor absent for a reason, or both"
        );
    }
    for (name, _) in ABSENT {
        let mut kinds = testkit::schema::newest_events();
        assert!(kinds.any(|kind| named(name, kind)), "{name} is not one of them");
    }
}
