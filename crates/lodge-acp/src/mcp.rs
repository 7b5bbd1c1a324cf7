//! The MCP servers that a client brings.

use std::collections::BTreeMap;

use lodge_host::mcp::{Admitted, Configured, OauthClient, Remote, ServerConfig, Source, Transport, check_name};

use crate::{
    rpc::Error,
    wire::{McpServer, NameValue},
};

pub(crate) fn servers(given: Vec<McpServer>) -> Result<Vec<Configured>, Error> {
    given.into_iter().map(server).collect()
}

fn server(given: McpServer) -> Result<Configured, Error> {
    check_name(&given.name).map_err(Error::params)?;
    let pairs = |list: Vec<NameValue>| -> BTreeMap<String, String> {
        list.into_iter().map(|pair| (pair.name, pair.value)).collect()
    };
    let missing = |what: &str| Error::params(format!("The MCP server `{}` needs a `{what}`.", given.name));
    let remote = |url: Option<String>, headers| -> Result<Remote, Error> {
        let url = url.ok_or_else(|| missing("url"))?;
        if !url.starts_with("http://") && !url.starts_with("https://") {
            let why = format!("`{url}` is not an address that begins with http:// or https://.");
            return Err(Error::params(why));
        }
        let headers = pairs(headers);
        Ok(Remote { url, headers })
    };
    let transport = match given.kind.as_deref() {
        None | Some("stdio") => Transport::Stdio {
            command: given
                .command
                .filter(|command| !command.is_empty())
                .ok_or_else(|| missing("command"))?,
            args: given.args,
            env: pairs(given.env),
            cwd: None,
        },
        Some("http") => Transport::Http(remote(given.url, given.headers)?),
        Some("sse") => Transport::Sse(remote(given.url, given.headers)?),
        Some(other) => {
            let why = format!("`{other}` is not a type of MCP server; there are stdio, http and sse.");
            return Err(Error::params(why));
        }
    };
    let config = ServerConfig {
        transport,
        tools: None,
        excluded_tools: Vec::new(),
        timeout: None,
        disabled: false,
        sampling: false,
        display_name: None,
        oauth: OauthClient::default(),
    };
    Ok(Configured {
        name: given.name,
        source: Source::Client,
        // Whoever may bring one could run anything anyway.
        config: Ok(Admitted::of_client(config)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_programs_or_addresses_and_anything_else_is_refused() {
        for (given, expected) in [
            (
                json!({ "name": "a", "command": "/bin/a", "args": ["x"], "env": [{ "name": "K", "value": "V" }] }),
                None,
            ),
            (
                json!({ "type": "http", "name": "a", "url": "https://a", "headers": [] }),
                None,
            ),
            (
                json!({ "type": "sse", "name": "a", "url": "http://a", "headers": null }),
                None,
            ),
            (json!({ "name": "a", "args": [], "env": [] }), Some("`command`")),
            (json!({ "type": "http", "name": "a", "headers": [] }), Some("`url`")),
            (
                json!({ "type": "http", "name": "a", "url": "ftp://a", "headers": [] }),
                Some("begins with"),
            ),
            (
                json!({ "type": "carrier pigeon", "name": "a" }),
                Some("there are stdio"),
            ),
            (json!({ "name": "", "command": "a" }), Some("1 to 128")),
        ] {
            let made = servers(vec![serde_json::from_value(given.clone()).unwrap()]);
            match expected {
                None => assert!(made.unwrap()[0].config.is_ok(), "{given}"),
                Some(why) => assert!(made.unwrap_err().message.contains(why), "{given}"),
            }
        }
    }
}
