//! MCP servers passed to a program, which connects to them itself.

use std::collections::BTreeMap;

use lodge_rpc::lenient;
use serde::Deserialize;
use serde_json::{Value, json};

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program to start, which runs in the session's directory.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables to set for it.
        env: BTreeMap<String, String>,
    },
    /// Streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
    /// HTTP with server-sent events, the form before that.
    Sse {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

/// Which servers a program can connect to, beside those that it starts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct McpCapabilities {
    #[serde(deserialize_with = "lenient")]
    pub(crate) http: bool,
    #[serde(deserialize_with = "lenient")]
    pub(crate) sse: bool,
}

impl McpServer {
    /// The server in the words of the protocol; nothing where the program cannot connect to it.
    pub(crate) fn on_the_wire(&self, can: &McpCapabilities) -> Option<Value> {
        let pairs = |values: &BTreeMap<String, String>| -> Vec<Value> {
            let pairs = values.iter();
            pairs
                .map(|(name, value)| json!({ "name": name, "value": value }))
                .collect()
        };
        let name = &self.name;
        match &self.transport {
            McpTransport::Stdio { command, args, env } => {
                Some(json!({ "name": name, "command": command, "args": args, "env": pairs(env) }))
            }
            McpTransport::Http { url, headers } if can.http => {
                Some(json!({ "type": "http", "name": name, "url": url, "headers": pairs(headers) }))
            }
            McpTransport::Sse { url, headers } if can.sse => {
                Some(json!({ "type": "sse", "name": name, "url": url, "headers": pairs(headers) }))
            }
            McpTransport::Http { .. } | McpTransport::Sse { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_of_the_servers_that_it_can_connect_to() {
        let values = || BTreeMap::from([("K".to_owned(), "V".to_owned())]);
        let url = || "https://a.example".to_owned();
        let headers = values;
        let stdio = McpTransport::Stdio {
            command: "x".into(),
            args: vec!["y".into()],
            env: values(),
        };
        let both = McpCapabilities { http: true, sse: true };
        let pairs = json!([{ "name": "K", "value": "V" }]);
        let elsewhere = |kind: &str| json!({ "type": kind, "name": "s", "url": url(), "headers": pairs });
        for (transport, everywhere, expected) in [
            (
                stdio,
                true,
                json!({ "name": "s", "command": "x", "args": ["y"], "env": pairs }),
            ),
            (
                McpTransport::Http {
                    url: url(),
                    headers: headers(),
                },
                false,
                elsewhere("http"),
            ),
            (
                McpTransport::Sse {
                    url: url(),
                    headers: headers(),
                },
                false,
                elsewhere("sse"),
            ),
        ] {
            let server = McpServer {
                name: "s".into(),
                transport,
            };
            assert_eq!(server.on_the_wire(&both), Some(expected), "{server:?}");
            let told = server.on_the_wire(&McpCapabilities::default());
            assert_eq!(told.is_some(), everywhere, "{server:?}");
        }
    }
}
