//! Prompts of MCP servers as slash commands: `/mcp__server__prompt`, followed by their arguments.

use lodge_mcp::{Prompt, Servers};
use serde_json::{Map, Value, json};

use super::{CommandInfo, CommandSource, Invoked};
use crate::HostError;

/// What the names of such commands begin with.
const PREFIX: &str = "mcp__";

/// Whether a command of this name is the prompt of an MCP server, which may not have been started yet.
pub fn is_mcp_prompt(name: &str) -> bool {
    name.to_lowercase().starts_with(PREFIX)
}

/// What such a command is called. Letters that commands do not have become dashes.
pub(super) fn command_name(server: &str, prompt: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    let name = format!("{PREFIX}{server}__{prompt}");
    name.chars().map(|c| if fits(c) { c } else { '-' }).collect()
}

/// The commands of servers that are connected.
pub(super) fn all(servers: &Servers) -> Vec<CommandInfo> {
    let command = |(server, prompt): (std::sync::Arc<str>, Prompt)| {
        let hints = prompt.arguments.iter().map(|(name, required)| match required {
            true => name.to_uppercase(),
            false => format!("[{}]", name.to_uppercase()),
        });
        let hint = hints.collect::<Vec<_>>().join(" ");
        let about = prompt.description.unwrap_or_else(|| format!("A prompt of {server}"));
        CommandInfo {
            name: command_name(&server, &prompt.name),
            description: about.lines().next().unwrap_or_default().chars().take(200).collect(),
            hint: Some(hint).filter(|hint| !hint.is_empty()),
            while_busy: true,
            source: CommandSource::McpPrompt {
                server: server.to_string(),
                prompt: prompt.name,
            },
        }
    };
    servers.prompts().into_iter().map(command).collect()
}

/// Has the server fill in its prompt.
pub(super) async fn get(servers: &Servers, server: &str, prompt: &str, input: &str) -> Result<Invoked, HostError> {
    let mut known = servers.prompts().into_iter();
    let known = known.find(|(of, known)| **of == *server && known.name == *prompt);
    let arguments = known.map(|(_, prompt)| prompt.arguments).unwrap_or_default();
    let given = fill(&arguments, input).map_err(HostError::Invalid)?;
    let params = json!({"name": prompt, "arguments": given});
    let answer = servers.request(server, "prompts/get", Some(params)).await;
    let answer = answer.map_err(|error| HostError::Invalid(error.to_string()))?;
    let text = text_of(&answer);
    if text.is_empty() {
        return Err(HostError::Invalid(format!("The prompt {prompt} of {server} is empty.")));
    }
    Ok(Invoked::Prompt { text, mode: None })
}

/// One word each, in order; the last argument takes the rest.
fn fill(arguments: &[(String, bool)], input: &str) -> Result<Map<String, Value>, String> {
    let (mut given, mut rest) = (Map::new(), input.trim());
    for (at, (name, required)) in arguments.iter().enumerate() {
        let last = at + 1 == arguments.len();
        let (word, more) = match rest.split_once(char::is_whitespace) {
            Some((word, more)) if !last => (word, more.trim_start()),
            _ => (rest, ""),
        };
        match (word, required) {
            ("", true) => return Err(format!("{} is missing.", name.to_uppercase())),
            ("", false) => {}
            (word, _) => drop(given.insert(name.clone(), word.into())),
        }
        rest = more;
    }
    Ok(given)
}

/// What the messages of a prompt say. Those that the model is to have said are marked as such.
fn text_of(answer: &Value) -> String {
    let messages = answer["messages"].as_array().into_iter().flatten();
    let texts = messages.filter_map(|message| {
        let content = &message["content"];
        let text = content["text"]
            .as_str()
            .or_else(|| content["resource"]["text"].as_str())?;
        Some(match message["role"].as_str() {
            Some("assistant") => format!("(You said before:)\n{text}"),
            _ => text.to_owned(),
        })
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_arguments_in_their_order() {
        let arguments = [("city".to_owned(), true), ("state".to_owned(), false)];
        for (input, expected) in [
            ("Ulm", Ok(json!({"city": "Ulm"}))),
            (
                "Ulm  Baden Württemberg",
                Ok(json!({"city": "Ulm", "state": "Baden Württemberg"})),
            ),
            ("", Err("CITY is missing.".to_owned())),
        ] {
            assert_eq!(fill(&arguments, input).map(Value::Object), expected, "{input:?}");
        }
        assert_eq!(fill(&[], "more"), Ok(Map::new()));
    }

    #[test]
    fn a_prompt_is_what_its_messages_say() {
        let answer = json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "One"}},
            {"role": "assistant", "content": {"type": "text", "text": "Two"}},
            {"role": "user", "content": {"type": "image", "data": "eA=="}},
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "x://y", "text": "Three"}}},
        ]});
        assert_eq!(text_of(&answer), "One\n\n(You said before:)\nTwo\n\nThree");
        assert_eq!(command_name("my server", "a/b"), "mcp__my-server__a-b");
    }
}
