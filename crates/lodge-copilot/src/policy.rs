//! An organisation's policy, which an app supplies with a session (`managedSettings`).

use lodge_host::{
    ManagedPolicy,
    rules::{Access, Rule, RuleSubject, server_tools},
};
use serde::Deserialize;

use crate::{config::SessionConfig, rpc::RpcError};

/// The settings that the SDKs know today. Unknown ones are refused: the author of a policy must not believe that they
/// apply.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Settings {
    permissions: Option<Permissions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Permissions {
    disable_bypass_permissions_mode: Option<String>,
    deny: Vec<String>,
    ask: Vec<String>,
    allow: Vec<String>,
}

/// The policy in a session's configuration, if there is one.
pub(crate) fn read(config: &SessionConfig) -> Result<Option<ManagedPolicy>, RpcError> {
    let Some(text) = config.managed_settings.clone().filter(|text| !text.is_null()) else {
        return Ok(None);
    };
    let wrong = |error: String| RpcError::params(format!("managedSettings: {error}"));
    let settings: Settings = serde_json::from_value(text.clone()).map_err(|error| wrong(error.to_string()))?;
    let Some(permissions) = settings.permissions else {
        return Ok(None);
    };
    let mut rules = Vec::new();
    for (list, rule) in [
        (&permissions.deny, Rule::deny as fn(RuleSubject) -> Rule),
        (&permissions.ask, Rule::ask),
        (&permissions.allow, Rule::allow),
    ] {
        for text in list {
            let what = what(text).map_err(wrong)?;
            what.check()
                .map_err(|error| wrong(format!("{text:?} is not a rule: {error}")))?;
            rules.push(rule(what));
        }
    }
    Ok(Some(ManagedPolicy {
        rules,
        // Unknown values restrict as much as known ones.
        no_bypass: permissions.disable_bypass_permissions_mode.is_some(),
        text,
    }))
}

/// The subject of a rule: `Shell(git push *)`, `Read(**)`, `Edit(/secrets/**)`, `Domain(example.com)`,
/// `Mcp(server/tool)`, `Tool(name)`; without parentheses, all of a kind.
fn what(text: &str) -> Result<RuleSubject, String> {
    let malformed = || {
        format!(
            "{text:?} is not a rule. Rules are Shell(command), Read(glob), Edit(glob), Domain(host), Mcp(server/tool) and \
             Tool(name)"
        )
    };
    let (kind, argument) = match text.trim().split_once('(') {
        Some((kind, rest)) => (kind, Some(rest.strip_suffix(')').ok_or_else(malformed)?.trim())),
        None => (text.trim(), None),
    };
    if argument.is_some_and(str::is_empty) {
        return Err(malformed());
    }
    let all = matches!(argument, None | Some("*" | "**"));
    let argument = argument.unwrap_or_default().to_owned();
    let path = |access| RuleSubject::Path {
        glob: argument.clone(),
        access: Some(access),
    };
    Ok(match kind.to_ascii_lowercase().as_str() {
        "shell" | "bash" if all => RuleSubject::Tool("shell".to_owned()),
        "shell" | "bash" => RuleSubject::Command(argument),
        "read" if all => RuleSubject::Tool("read".to_owned()),
        "read" => path(Access::Read),
        "edit" | "write" if all => RuleSubject::Tool("write".to_owned()),
        "edit" | "write" => path(Access::Write),
        "domain" | "url" if all => RuleSubject::Tool("url".to_owned()),
        "domain" | "url" => RuleSubject::Url(argument),
        "mcp" if all => RuleSubject::Tool("*/*".to_owned()),
        "mcp" if !argument.contains('/') => server_tools(&format!("{argument}/*")),
        "mcp" => server_tools(&argument),
        "tool" if !argument.is_empty() => RuleSubject::Tool(argument),
        _ => return Err(malformed()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_would_fit_nothing_is_refused() {
        for (text, is_read) in [
            ("Read(a[)", false),
            ("Tool(a[)", false),
            ("Mcp(a{/b)", false),
            ("Edit([ab])", true),
        ] {
            let config = SessionConfig {
                managed_settings: Some(serde_json::json!({"permissions": {"deny": [text]}})),
                ..SessionConfig::default()
            };
            assert_eq!(read(&config).is_ok(), is_read, "{text}");
        }
    }

    #[test]
    fn rules_of_policies_are_understood_and_others_refused() {
        let path = |glob: &str, access| {
            Some(RuleSubject::Path {
                glob: glob.into(),
                access: Some(access),
            })
        };
        let tool = |name: &str| Some(RuleSubject::Tool(name.into()));
        for (text, expected) in [
            ("Shell(git push *)", Some(RuleSubject::Command("git push *".into()))),
            ("shell(rm*)", Some(RuleSubject::Command("rm*".into()))),
            ("Shell", tool("shell")),
            ("Read(**)", tool("read")),
            ("Read(.env)", path(".env", Access::Read)),
            ("Edit(/secrets/**)", path("/secrets/**", Access::Write)),
            (
                "Domain(publish.example)",
                Some(RuleSubject::Url("publish.example".into())),
            ),
            ("Mcp(github)", tool("github/*")),
            ("Mcp(github/list)", tool("github/list")),
            ("Tool(deploy)", tool("deploy")),
            ("Shell(git push", None),
            ("Shell()", None),
            ("Fly(away)", None),
            ("", None),
        ] {
            assert_eq!(what(text).ok(), expected, "{text}");
        }
    }
}
