//! Methods of the SDKs that Lodge does not serve, by family, with the reason. The test below reads the published schema and fails
//! for a method that is neither served nor named here.

/// Names, or prefixes of names that end with a dot, and the reasons.
pub(crate) static ABSENT: &[(&str, &str)] = &[
    ("session.factory.pause", PAUSE),
    ("session.workflow.pause", PAUSE),
    ("extensions.", EXTENSIONS),
    ("registerExtensionLaunchProvider", EXTENSIONS),
    ("session.extensions.reconcile", EXTENSIONS),
    (
        "session.canvas.provider.",
        "an app names its canvases when it opens the session",
    ),
    ("sessions.configureSessionExtensions", EXTENSIONS),
    ("session.tasks.register", CLIENT_TASKS),
    ("session.tasks.update", CLIENT_TASKS),
    (
        "catalog.",
        "there is no catalogue to search; plugins are installed from marketplaces",
    ),
    ("mcp.planInstall", MCP_INSTALL),
    ("mcp.prepareInstall", MCP_INSTALL),
    ("mcp.applyInstall", MCP_INSTALL),
    ("mcp.planUninstall", MCP_INSTALL),
    ("mcp.applyUninstall", MCP_INSTALL),
    ("mcp.installations.", MCP_INSTALL),
    ("plugins.planInstall", PLUGINS),
    ("plugins.applyInstall", PLUGINS),
    ("session.plugins.retryManaged", PLUGINS),
    ("skills.planInstall", SKILLS),
    ("skills.applyInstall", SKILLS),
    ("skills.planUninstall", SKILLS),
    ("skills.applyUninstall", SKILLS),
    ("skills.installations.", SKILLS),
    ("managedSettings.read", POLICY),
    ("managedSettings.compose", POLICY),
    ("managedSettings.permissions.", POLICY),
    ("managedSettings.resolve", POLICY),
    ("managedSettings.schema", POLICY),
    ("managedSettings.validate", POLICY),
    ("session.managedSettings.", POLICY),
    ("contentExclusion.validatePolicies", POLICY),
    ("azureMl.", VENDOR),
    ("environments.", VENDOR),
    ("host.", "`lodge serve` is the host; an app starts no other"),
    ("connectors.", VENDOR),
    ("session.connectors.", VENDOR),
    (
        "session.accounts.",
        "a host has one account: `account.login` and `account.logout`",
    ),
    ("session.quota.", "`account.getQuota` has what is left"),
    ("session.provider.sync", PROVIDERS),
    ("session.provider.withdraw", PROVIDERS),
    ("session.providers.", PROVIDERS),
    (
        "session.customizations.reload",
        "plugins, skills, agents and MCP servers each have a reload of their own",
    ),
    ("session.diagnostics.", "`lodge export` has a session's log"),
    (
        "session.tasks.readOutput",
        "`session.tasks.getProgress` has the output of a command in the background",
    ),
    (
        "session.queue.appendSteering",
        "another message with `mode: \"immediate\"` steers, too",
    ),
    (
        "session.queue.withdrawMessage",
        "`session.queue.removeAt` removes a message that waits, and a rewind one that was sent",
    ),
    (
        "sandbox.getHostSupport",
        "`lodge doctor` says what the sandbox can do here",
    ),
    ("sandbox.proxyCa.", PROXY),
    ("session.sandbox.getCredentialSuggestions", PROXY),
    ("hooks.discover", "`lodge doctor` lists hooks from files"),
    (
        "models.getBuiltInCatalog",
        "the models are those that the providers list",
    ),
    (
        "models.listTokenPriceUnits",
        "prices are what the person wrote under `[prices]`",
    ),
    (
        "session.model.getReasoningSummaries",
        "`reasoningSummary` is an option of the session, whatever its model",
    ),
    ("session.limitPrediction.", "Lodge does not predict costs"),
    ("session.debug.", "`lodge export` has a session's log"),
    ("session.autopilotObjective.", OBJECTIVE),
    ("session.workspaces.autopilotObjectiveExists", OBJECTIVE),
    ("session.workspaces.readAutopilotObjective", OBJECTIVE),
    ("session.workspaces.writeAutopilotObjective", OBJECTIVE),
    ("session.workspaces.deleteAutopilotObjective", OBJECTIVE),
    ("session.workspaces.addSummary", SUMMARIES),
    ("session.workspaces.truncateSummaries", SUMMARIES),
    (
        "session.workspaces.updateMetadata",
        "a session is named with `session.name.set`",
    ),
    ("session.mcp.oauth.probe", OAUTH),
    ("session.mcp.oauth.respond", OAUTH),
    ("session.mcp.oauth.authenticationStateChanged", OAUTH),
    ("session.mcp.oauth.prepareLogin", OAUTH),
    ("session.mcp.oauth.cancelLogin", OAUTH),
    ("session.mcp.oauth.complete", OAUTH),
    (
        "session.queue.setDrainPaused",
        "the queue has no pause; messages are moved and removed instead",
    ),
    ("session.sandbox.disableForSession", JAIL),
    ("session.sandbox.grantPathForRequest", JAIL),
    ("session.tools.execute", "only the agent and the person call tools"),
    (
        "session.tools.getBuiltinDescriptors",
        "`tools.list` has the built-in tools",
    ),
    (
        "session.tools.taskCompleteEventData",
        "the agent reports the end of a task itself",
    ),
];

const MCP_INSTALL: &str = "servers are added with `mcp.config.add`";
const PLUGINS: &str = "plugins are installed in one step, with `plugins.install`";
const SKILLS: &str = "skills are files, or come with plugins";
const POLICY: &str = "an app supplies the policy of its sessions with `managedSettings`, and it is checked then";
const VENDOR: &str = "it belongs to a vendor's account";
const PROVIDERS: &str = "an app names providers when it opens the session, and a person in lodge.toml";
const PROXY: &str = "the sandbox has no network, so it needs no proxy with credentials";
const JAIL: &str = "each command needs its own approval to leave the sandbox";
const PAUSE: &str = "a run is stopped with `session.factory.cancel`, and resumed";
const EXTENSIONS: &str =
    "an app asks for the extensions of a session when it opens it, and manages them with `session.extensions.*`";
const CLIENT_TASKS: &str = "tasks are Lodge's own sub-agents and commands";
const OBJECTIVE: &str = "autopilot has no objective apart from the conversation";
const SUMMARIES: &str = "only compactions make summaries";
const OAUTH: &str = "signing in is `session.mcp.oauth.login` or an answer to `mcp.oauth_required`";

/// Why a method is not served, if that is known.
#[cfg(test)]
fn reason(method: &str) -> Option<&'static str> {
    let named = |name: &str| match name.ends_with('.') {
        true => method.starts_with(name),
        false => method == name,
    };
    ABSENT.iter().find(|(name, _)| named(name)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::methods::find;

    /// The public methods in a part of the schema.
    fn public(part: &Value, into: &mut Vec<String>) {
        let Value::Object(fields) = part else { return };
        if let Some(method) = fields.get("rpcMethod").and_then(Value::as_str) {
            if fields.get("visibility").and_then(Value::as_str) != Some("internal") {
                into.push(method.to_owned());
            }
            return;
        }
        for field in fields.values() {
            public(field, into);
        }
    }

    #[test]
    fn every_public_method_of_the_sdks_is_served_or_absent_for_a_reason() {
        let Some(dir) = testkit::schema::dir() else { return };
        let text = std::fs::read_to_string(dir.join("api.schema.json")).expect("the schema can be read");
        let schema: Value = serde_json::from_str(&text).expect("the schema is JSON");
        let mut methods = Vec::new();
        public(&schema["server"], &mut methods);
        public(&schema["session"], &mut methods);
        assert!(
            methods.len() > 250,
            "the schema no longer looks as expected: {} methods",
            methods.len()
        );
        assert_decided(methods.iter().map(String::as_str));
    }

    #[test]
    fn every_public_method_of_the_newest_sdk_is_served_or_absent_for_a_reason() {
        assert_decided(testkit::schema::newest_methods());
    }

    fn assert_decided<'a>(methods: impl Iterator<Item = &'a str>) {
        let undecided: Vec<_> = methods
            .filter(|method| find(method).is_some() == reason(method).is_some())
            .collect();
        assert!(
            undecided.is_empty(),
            "neither served nor absent, or both: {undecided:?}"
        );
    }
}
