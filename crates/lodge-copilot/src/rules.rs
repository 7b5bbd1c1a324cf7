//! Permission rules as the SDKs write them: a kind and an argument, or an approval with its details.

use lodge_events::PermissionRule;
use lodge_host::rules::{Access, What, sampling_of};
use serde::Deserialize;

/// The subject of a client's rule.
pub(crate) fn what(rule: &PermissionRule) -> What {
    let argument = rule.argument.clone().filter(|argument| !argument.is_empty());
    match (rule.kind.to_ascii_lowercase().as_str(), argument) {
        ("shell" | "command" | "commands", Some(words)) => What::Command(words),
        ("shell" | "command" | "commands", None) => What::Tool("shell".to_owned()),
        ("read", Some(glob)) => What::Path {
            glob,
            access: Some(Access::Read),
        },
        ("write", Some(glob)) => What::Path {
            glob,
            access: Some(Access::Write),
        },
        ("path", Some(glob)) => What::Path { glob, access: None },
        ("url", Some(pattern)) => What::Url(pattern),
        ("mcp", Some(server)) if !server.contains('/') => What::Tool(format!("{server}/*")),
        // Kinds that are tools (`read`, `write`, `url`, `memory`), and tools by their name.
        (_, Some(name)) => What::Tool(name),
        (kind, None) => What::Tool(kind.to_owned()),
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
    /// The subjects of the approval.
    pub(crate) fn what(self) -> Vec<What> {
        match self {
            Self::Commands { command_identifiers } => command_identifiers.into_iter().map(What::Command).collect(),
            Self::Read => vec![What::Tool("read".to_owned())],
            Self::Write => vec![What::Tool("write".to_owned())],
            Self::Mcp { server_name, tool_name } => {
                vec![What::Tool(format!(
                    "{server_name}/{}",
                    tool_name.as_deref().unwrap_or("*")
                ))]
            }
            Self::McpSampling { server_name } => vec![What::Tool(sampling_of(&server_name))],
            Self::Memory => vec![What::Tool("memory".to_owned())],
            Self::CustomTool { tool_name } => vec![What::Tool(tool_name)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_clients_are_understood() {
        let path = |glob: &str, access| What::Path {
            glob: glob.into(),
            access,
        };
        for (kind, argument, expected) in [
            ("Shell", Some("git push"), What::Command("git push".into())),
            ("commands", Some("npm"), What::Command("npm".into())),
            ("shell", None, What::Tool("shell".into())),
            ("read", None, What::Tool("read".into())),
            ("read", Some("docs/**"), path("docs/**", Some(Access::Read))),
            ("write", Some("*.md"), path("*.md", Some(Access::Write))),
            ("url", Some("docs.rs"), What::Url("docs.rs".into())),
            ("url", None, What::Tool("url".into())),
            ("mcp", Some("github"), What::Tool("github/*".into())),
            ("mcp", Some("github/list"), What::Tool("github/list".into())),
            ("custom-tool", Some("mine"), What::Tool("mine".into())),
            ("memory", None, What::Tool("memory".into())),
        ] {
            let rule = PermissionRule {
                kind: kind.into(),
                argument: argument.map(str::to_owned),
            };
            assert_eq!(what(&rule), expected, "{kind} {argument:?}");
        }
    }
}
