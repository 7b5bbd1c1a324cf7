//! Permission rules as the SDKs write them: a kind and an argument, or an approval with its details.

use lodge_events::PermissionRule;
use lodge_host::rules::{
    Access, RuleSubject, client_tool, client_tools, escaped, sampling_of, server_tool, server_tools,
};
use serde::Deserialize;

/// The subject of a client's rule.
pub(crate) fn what(rule: &PermissionRule) -> RuleSubject {
    let argument = rule.argument.clone().filter(|argument| !argument.is_empty());
    match (rule.kind.to_ascii_lowercase().as_str(), argument) {
        ("shell" | "command" | "commands", Some(words)) => RuleSubject::Command(words),
        ("shell" | "command" | "commands", None) => RuleSubject::Tool("shell".to_owned()),
        ("read", Some(glob)) => RuleSubject::Path {
            glob,
            access: Some(Access::Read),
        },
        ("write", Some(glob)) => RuleSubject::Path {
            glob,
            access: Some(Access::Write),
        },
        ("path", Some(glob)) => RuleSubject::Path { glob, access: None },
        ("url", Some(pattern)) => RuleSubject::Url(pattern),
        ("mcp", Some(server)) if !server.contains('/') => server_tools(&format!("{server}/*")),
        ("mcp", Some(tool)) => server_tools(&tool),
        ("custom-tool", Some(name)) => client_tools(&name),
        // Kinds that are tools (`read`, `write`, `url`, `memory`), and tools by their name.
        (_, Some(name)) => RuleSubject::Tool(name),
        (kind, None) => RuleSubject::Tool(kind.to_owned()),
    }
}

/// A person's approval, in detail.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(crate) enum Approved {
    Commands {
        command_identifiers: Vec<String>,
    },
    Read,
    Write,
    Mcp {
        server_name: String,
        #[serde(default)]
        tool_name: Option<String>,
    },
    McpSampling {
        server_name: String,
    },
    Memory,
    CustomTool {
        tool_name: String,
    },
}

impl Approved {
    /// What is approved. Of commands, the names of their programs are not enough to say: `Err` with these.
    pub(crate) fn what(self) -> Result<RuleSubject, Vec<String>> {
        let tool = |name: &str| RuleSubject::Tool(name.to_owned());
        Ok(match self {
            Self::Commands { command_identifiers } => return Err(command_identifiers),
            Self::Read => tool("read"),
            Self::Write => tool("write"),
            Self::Mcp { server_name, tool_name } => server_tool(&server_name, tool_name.as_deref()),
            Self::McpSampling { server_name } => tool(&escaped(&sampling_of(&server_name))),
            Self::Memory => tool("memory"),
            Self::CustomTool { tool_name } => client_tool(&tool_name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_clients_are_understood() {
        let path = |glob: &str, access| RuleSubject::Path {
            glob: glob.into(),
            access,
        };
        for (kind, argument, expected) in [
            ("Shell", Some("git push"), RuleSubject::Command("git push".into())),
            ("commands", Some("npm"), RuleSubject::Command("npm".into())),
            ("shell", None, RuleSubject::Tool("shell".into())),
            ("read", None, RuleSubject::Tool("read".into())),
            ("read", Some("docs/**"), path("docs/**", Some(Access::Read))),
            ("write", Some("*.md"), path("*.md", Some(Access::Write))),
            ("url", Some("docs.rs"), RuleSubject::Url("docs.rs".into())),
            ("url", None, RuleSubject::Tool("url".into())),
            ("mcp", Some("github"), RuleSubject::Tool("github/*".into())),
            ("mcp", Some("github/list"), RuleSubject::Tool("github/list".into())),
            ("mcp", Some("client"), RuleSubject::Tool("[c]lient/*".into())),
            ("custom-tool", Some("mine"), RuleSubject::Tool("client/mine".into())),
            ("custom-tool", Some("shell"), RuleSubject::Tool("client/shell".into())),
            ("memory", None, RuleSubject::Tool("memory".into())),
        ] {
            let rule = PermissionRule {
                kind: kind.into(),
                argument: argument.map(str::to_owned),
            };
            assert_eq!(what(&rule), expected, "{kind} {argument:?}");
        }
    }

    #[test]
    fn an_approval_of_a_tool_is_about_that_tool_alone() {
        for (approval, expected) in [
            (
                serde_json::json!({"kind": "custom-tool", "toolName": "shell"}),
                "client/shell",
            ),
            (
                serde_json::json!({"kind": "custom-tool", "toolName": "*"}),
                "client/[*]",
            ),
            (
                serde_json::json!({"kind": "custom-tool", "toolName": "\\a"}),
                "client/[\\]a",
            ),
            (
                serde_json::json!({"kind": "mcp", "serverName": "*", "toolName": "*"}),
                "[*]/[*]",
            ),
            (serde_json::json!({"kind": "mcp", "serverName": "github"}), "github/*"),
            (
                serde_json::json!({"kind": "mcp", "serverName": "client", "toolName": "x"}),
                "[c]lient/x",
            ),
            (
                serde_json::json!({"kind": "mcp-sampling", "serverName": "*"}),
                "mcp-sampling/[*]",
            ),
        ] {
            let approved: Approved = serde_json::from_value(approval.clone()).unwrap();
            assert_eq!(approved.what(), Ok(RuleSubject::Tool(expected.into())), "{approval}");
        }
    }
}
