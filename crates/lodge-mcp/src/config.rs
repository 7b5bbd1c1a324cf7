//! The configuration of a server, in the formats that people and clients write.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::Deserialize;
use serde_json::Value;

/// The configuration of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// How it is reached.
    pub transport: Transport,
    /// The tools to offer, by their names on the server; all of them when absent or `*`.
    pub tools: Option<Vec<String>>,
    /// Tools not to offer.
    pub excluded_tools: Vec<String>,
    /// How long a tool may take without progress.
    pub timeout: Option<Duration>,
    /// Whether it is disabled.
    pub disabled: bool,
    /// Whether it may ask the session's model, each time with somebody's permission.
    pub sampling: bool,
    /// A name for people.
    pub display_name: Option<String>,
    /// The OAuth client to be, where the server knows one.
    pub oauth: OauthClient,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A program that communicates over standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables beside those of the host.
        env: BTreeMap<String, String>,
        /// Where it runs; the session's directory when absent.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http(Remote),
    /// HTTP with server-sent events, its predecessor.
    Sse(Remote),
}

/// A remote server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its address.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
}

/// An OAuth client that was registered beforehand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OauthClient {
    /// Its id.
    pub id: Option<String>,
    /// Its secret.
    pub secret: Option<String>,
    /// Whether it has none, where that was said.
    pub public: Option<bool>,
    /// The grant to use, when not the usual one.
    pub grant_type: Option<String>,
}

/// Where a server was configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// By the person, for all projects.
    User,
    /// In a file of the project.
    Workspace,
    /// By a plugin.
    Plugin,
    /// By this program.
    Builtin,
    /// By a client, for this session.
    Client,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, Value>,
    cwd: Option<PathBuf>,
    working_directory: Option<PathBuf>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    tools: Option<Vec<String>>,
    #[serde(default)]
    exclude_tools: Vec<String>,
    timeout: Option<f64>,
    disabled: Option<bool>,
    #[serde(default)]
    sampling: bool,
    enabled: Option<bool>,
    display_name: Option<String>,
    oauth_client_id: Option<String>,
    oauth_client_secret: Option<String>,
    oauth_public_client: Option<bool>,
    oauth_grant_type: Option<String>,
}

impl ServerConfig {
    /// Reads one entry of `mcpServers`. What is wrong with it is said in a sentence.
    pub fn read(value: &Value) -> Result<Self, String> {
        let written: Written = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
        let remote = |written: &Written| {
            let url = written.url.clone().ok_or("An HTTP or SSE server needs a `url`.")?;
            if !url.starts_with("http://") && !url.starts_with("https://") {
                return Err("The value of `url` is not a URL that begins with http:// or https://.".to_owned());
            }
            Ok(Remote {
                url,
                headers: written.headers.clone(),
            })
        };
        let kind = match (written.kind.as_deref(), &written.command) {
            (Some(kind), _) => kind,
            (None, Some(_)) => "stdio",
            (None, None) => "http",
        };
        let transport = match kind {
            "stdio" | "local" => Transport::Stdio {
                command: written
                    .command
                    .clone()
                    .filter(|command| !command.is_empty())
                    .ok_or("A stdio server needs a `command`.")?,
                args: written.args.clone(),
                env: written
                    .env
                    .iter()
                    .map(|(name, value)| (name.clone(), text_of(value)))
                    .collect(),
                cwd: written.cwd.clone().or_else(|| written.working_directory.clone()),
            },
            "http" | "streamable-http" | "streamableHttp" => Transport::Http(remote(&written)?),
            "sse" => Transport::Sse(remote(&written)?),
            other => {
                return Err(format!(
                    "Unknown server type `{other}`; use stdio (or local), http or sse."
                ));
            }
        };
        Ok(Self {
            transport,
            tools: written.tools,
            excluded_tools: written.exclude_tools,
            // Some say -1 or 0 for "none".
            timeout: written
                .timeout
                .filter(|ms| *ms > 0.0)
                .and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok()),
            disabled: written.disabled.unwrap_or(false) || written.enabled == Some(false),
            sampling: written.sampling,
            display_name: written.display_name,
            oauth: OauthClient {
                id: written.oauth_client_id,
                secret: written.oauth_client_secret,
                public: written.oauth_public_client,
                grant_type: written.oauth_grant_type,
            },
        })
    }

    /// The same with values of `env` that are names of variables: `NAME`, `$NAME` or `${NAME}`. Where there is no such
    /// variable the program does not get one either.
    pub(crate) fn resolved(&self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut config = self.clone();
        if let Transport::Stdio { env, .. } = &mut config.transport {
            let named = std::mem::take(env).into_iter().filter_map(|(name, reference)| {
                let plain = reference.strip_prefix('$').unwrap_or(&reference);
                let braced = plain.strip_prefix('{').and_then(|plain| plain.strip_suffix('}'));
                Some((name, variable(braced.unwrap_or(plain))?))
            });
            *env = named.collect();
        }
        config
    }

    /// Whether the configuration allows a tool of this name.
    pub fn offers(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|entry| entry == tool || entry == "*");
        self.tools.as_deref().is_none_or(named) && !named(&self.excluded_tools)
    }

    /// Whether the configuration allows every tool.
    pub(crate) fn offers_all(&self) -> bool {
        let all = |tools: &Vec<String>| tools.iter().any(|entry| entry == "*");
        self.tools.as_ref().is_none_or(all) && self.excluded_tools.is_empty()
    }

    /// The name of the transport.
    pub fn kind(&self) -> &'static str {
        match self.transport {
            Transport::Stdio { .. } => "stdio",
            Transport::Http(_) => "http",
            Transport::Sse(_) => "sse",
        }
    }

    /// Its URL, if it is remote.
    pub fn remote(&self) -> Option<&Remote> {
        match &self.transport {
            Transport::Stdio { .. } => None,
            Transport::Http(remote) | Transport::Sse(remote) => Some(remote),
        }
    }
}

/// Numbers and booleans in `env` are meant as their text.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Whether a server may be called so: something to print, and nothing that breaks lines.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        return Err("An MCP server's name must have 1 to 128 printable characters.".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(value: Value, expected: Result<&str, &str>) {
        let read = ServerConfig::read(&value);
        let said = match &read {
            Ok(config) => match &config.transport {
                Transport::Stdio { command, args, .. } => Ok(format!("stdio {command} {}", args.join(" "))),
                Transport::Http(remote) => Ok(format!("http {}", remote.url)),
                Transport::Sse(remote) => Ok(format!("sse {}", remote.url)),
            },
            Err(error) => Err(error.clone()),
        };
        match expected {
            Ok(text) => assert_eq!(said, Ok(text.to_owned()), "{value}"),
            Err(part) => assert!(
                said.as_ref().is_err_and(|error| error.contains(part)),
                "{value}: {said:?}"
            ),
        }
    }

    #[test]
    fn a_server_is_read_from_every_form_people_write() {
        check(json!({"command": "npx", "args": ["-y", "x"]}), Ok("stdio npx -y x"));
        check(json!({"type": "local", "command": "x", "tools": ["*"]}), Ok("stdio x "));
        check(
            json!({"type": "stdio", "command": "x", "env": {"A": 1}}),
            Ok("stdio x "),
        );
        check(
            json!({"url": "https://a.example/mcp"}),
            Ok("http https://a.example/mcp"),
        );
        check(
            json!({"type": "http", "url": "http://a.example"}),
            Ok("http http://a.example"),
        );
        check(
            json!({"type": "sse", "url": "http://a.example"}),
            Ok("sse http://a.example"),
        );
        check(json!({"type": "stdio"}), Err("needs a `command`"));
        check(json!({"type": "http"}), Err("needs a `url`"));
        check(json!({"type": "http", "url": "file:///x"}), Err("not a URL"));
        check(json!({"type": "memory"}), Err("Unknown server type"));
        check(json!({"command": 7}), Err("invalid type"));
        check(json!("x"), Err("invalid type"));
    }

    #[test]
    fn values_of_variables_may_be_names_of_the_hosts() {
        let config = ServerConfig::read(&json!({
            "command": "x", "env": {"A": "KEY", "B": "$KEY", "C": "${KEY}", "D": "NONE", "E": ""},
        }));
        let resolved = config
            .unwrap()
            .resolved(|name| (name == "KEY").then(|| "secret".to_owned()));
        let Transport::Stdio { env, .. } = resolved.transport else {
            panic!("not a program");
        };
        let expected = ["A", "B", "C"].map(|name| (name.to_owned(), "secret".to_owned()));
        assert_eq!(env, BTreeMap::from(expected));
    }

    #[test]
    fn tools_are_offered_as_the_configuration_says() {
        for (config, tool, expected) in [
            (json!({"command": "x"}), "a", true),
            (json!({"command": "x", "tools": ["*"]}), "a", true),
            (json!({"command": "x", "tools": []}), "a", false),
            (json!({"command": "x", "tools": ["a"]}), "a", true),
            (json!({"command": "x", "tools": ["a"]}), "b", false),
            (json!({"command": "x", "excludeTools": ["a"]}), "a", false),
        ] {
            assert_eq!(
                ServerConfig::read(&config).map(|c| c.offers(tool)),
                Ok(expected),
                "{config} {tool}"
            );
        }
    }
}
