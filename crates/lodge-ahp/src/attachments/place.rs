//! Where the content of an attached resource is.

use std::path::PathBuf;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;

use crate::{changesets, uri};

/// How editors of the VS Code family name what is on a machine that they work on from afar.
const REMOTE: &str = "vscode-remote";
/// How they name what is on an agent host.
const AGENT_HOST: &str = "vscode-agent-host";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On this host, if there is something at the path.
    File(PathBuf),
    /// On a machine that only the client can tell, which may be this one.
    Machine(PathBuf),
    /// Content that this host may hold under an address of its own.
    Held(String),
    /// With the client that attached it.
    Client,
}

impl Place {
    pub(super) fn of(address: &str) -> Self {
        if let Some(path) = uri::path(address) {
            return Self::File(path);
        }
        let Some((scheme, rest)) = address.split_once(':') else {
            return Self::Client;
        };
        match scheme {
            REMOTE => uri::path(&format!("file://{}", Parts::of(rest).path)).map_or(Self::Client, Self::Machine),
            AGENT_HOST => match original(&Parts::of(rest)).map(|original| Self::of(&original)) {
                Some(Self::File(path)) => Self::Machine(path),
                Some(place) => place,
                None => Self::Client,
            },
            _ if changesets::is_content(address) || uri::session_of_content(address).is_some() => {
                Self::Held(address.to_owned())
            }
            _ => Self::Client,
        }
    }
}

/// What stands behind the scheme of an address.
struct Parts<'a> {
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(rest: &'a str) -> Self {
        let rest = rest.split('#').next().unwrap_or_default();
        let (hierarchy, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = match hierarchy.strip_prefix("//") {
            Some(named) => &named[named.find('/').unwrap_or(named.len())..],
            None => hierarchy,
        };
        Self { path, query }
    }
}

/// What an editor hides in the query of an address on an agent host.
#[derive(Deserialize)]
struct Hidden {
    scheme: String,
    #[serde(default)]
    authority: String,
    #[serde(default)]
    query: String,
}

/// The address that an editor wrapped. Newer ones keep its path and put the rest into the query, older ones put all of it
/// into the path.
fn original(wrapped: &Parts<'_>) -> Option<String> {
    let path = wrapped.path;
    let query = String::from_utf8(uri::unescape(wrapped.query)?).ok()?;
    let hidden = query.split('&').find_map(|one| one.strip_prefix("_ah="));
    if let Some(hidden) = hidden {
        let json = URL_SAFE_NO_PAD.decode(hidden.trim_end_matches('=')).ok()?;
        let hidden: Hidden = serde_json::from_slice(&json).ok()?;
        let of_host = |authority: &str| format!("//{authority}");
        let authority = Some(hidden.authority).filter(|authority| !authority.is_empty());
        let query = Some(hidden.query).filter(|query| !query.is_empty());
        return (hidden.scheme != AGENT_HOST).then(|| {
            format!(
                "{}:{}{path}{}",
                hidden.scheme,
                authority.as_deref().map(of_host).unwrap_or_default(),
                query.map(|query| format!("?{query}")).unwrap_or_default()
            )
        });
    }
    let mut parts = path.strip_prefix('/')?.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(scheme), Some("-"), Some(rest)) if scheme != AGENT_HOST => Some(format!("{scheme}:/{rest}")),
        _ => Some(format!("file:{path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_editors_name_files_of_some_machine_and_contents_of_this_host() {
        let hidden = |json: &str| URL_SAFE_NO_PAD.encode(json);
        let file = |path: &str| Place::Machine(path.into());
        for (address, expected) in [
            ("file:///a/b%20c", Place::File("/a/b c".into())),
            ("vscode-remote://ssh-remote%2Bbox/a/b%20c.rs", file("/a/b c.rs")),
            ("vscode-remote://wsl+x/a?q#L1", file("/a")),
            (
                &format!(
                    "vscode-agent-host://box__1/a/b.rs?_ah={}",
                    hidden(r#"{"scheme":"file"}"#)
                ),
                file("/a/b.rs"),
            ),
            // Editors escape the equals sign, too.
            (
                &format!(
                    "vscode-agent-host://box/a/b.rs?_ah%3D{}",
                    hidden(r#"{"scheme":"file"}"#)
                ),
                file("/a/b.rs"),
            ),
            ("vscode-agent-host://box/file/-/a/b.rs", file("/a/b.rs")),
            ("vscode-agent-host://box/a/b.rs", file("/a/b.rs")),
            (
                &format!(
                    "vscode-agent-host://box/s/git-1/x.rs?_ah={}",
                    hidden(r#"{"scheme":"lodge-content"}"#)
                ),
                Place::Held("lodge-content:/s/git-1/x.rs".into()),
            ),
            ("lodge:/s/content/call-0", Place::Held("lodge:/s/content/call-0".into())),
            (
                &format!(
                    "vscode-agent-host://box/x?_ah={}",
                    hidden(r#"{"scheme":"vscode-agent-host"}"#)
                ),
                Place::Client,
            ),
            ("vscode-agent-host://box/x?_ah=%%%", Place::Client),
            ("untitled:Untitled-1", Place::Client),
            ("git:/a/b.rs?%7B%22ref%22%3A%22~%22%7D", Place::Client),
            ("vscode-notebook-cell:/a/b.ipynb#W0sZmlsZQ%3D%3D", Place::Client),
            ("file://elsewhere/a", Place::Client),
            ("nothing", Place::Client),
            ("", Place::Client),
        ] {
            assert_eq!(Place::of(address), expected, "{address}");
        }
    }
}
