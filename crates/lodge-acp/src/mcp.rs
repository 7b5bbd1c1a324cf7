//! MCP servers that a client supplies.

use lodge_host::mcp::{Admitted, Configured, ServerConfig, Source, check_name};
use lodge_rpc::Error;
use serde_json::{Map, Value, json};

use crate::wire::{McpServer, NameValue};

pub(crate) fn servers(given: Vec<McpServer>) -> Result<Vec<Configured>, Error> {
    given.into_iter().map(server).collect()
}

fn server(given: McpServer) -> Result<Configured, Error> {
    check_name(&given.name).map_err(Error::params)?;
    let pairs = |list: Vec<NameValue>| -> Map<String, Value> {
        list.into_iter().map(|pair| (pair.name, pair.value.into())).collect()
    };
    // In the form of configuration files.
    let written = json!({
        "type": given.kind.as_deref().unwrap_or("stdio"),
        "command": given.command,
        "args": given.args,
        "env": pairs(given.env),
        "url": given.url,
        "headers": pairs(given.headers),
    });
    let wrong = |why: String| Error::params(format!("The MCP server `{}` cannot be used. {why}", given.name));
    let config = ServerConfig::read(&written).map_err(wrong)?;
    Ok(Configured {
        name: given.name,
        source: Source::Client,
        // A client that may supply a server could run anything anyway.
        config: Ok(Admitted::of_client(config)),
    })
}

#[cfg(test)]
mod tests {
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
            (json!({ "type": "carrier pigeon", "name": "a" }), Some("use stdio")),
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
