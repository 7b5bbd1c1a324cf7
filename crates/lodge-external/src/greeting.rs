//! What a program can do, and the ways to sign in to it, as it says when it is greeted. Each part is read on its own: a program
//! that says one thing wrongly can still do the others.

use std::collections::BTreeMap;

use lodge_rpc::lenient;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    program::{AgentEntry, Program},
    said::{quoted, short, shortened},
    servers::McpCapabilities,
};

/// So many ways to sign in are told to people.
const MOST_METHODS: usize = 16;
/// So much of a command is shown, in bytes.
const LONGEST: usize = 1 << 10;
/// A method that a person goes through in a terminal; never to be called.
const TERMINAL: &str = "terminal";
/// A method that reads variables.
const VARIABLES: &str = "env_var";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Greeting {
    #[serde(deserialize_with = "lenient")]
    pub(crate) protocol_version: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) agent_capabilities: Capabilities,
    #[serde(deserialize_with = "lenient")]
    auth_methods: Vec<Value>,
}

impl Greeting {
    pub(crate) fn read(answer: Value) -> Self {
        lenient(answer).unwrap_or_default()
    }

    /// The ways to sign in that can be read.
    pub(crate) fn methods(&mut self) -> Vec<AuthMethod> {
        let methods = std::mem::take(&mut self.auth_methods).into_iter();
        let methods = methods.filter_map(|method| lenient::<_, Option<AuthMethod>>(method).ok()?);
        methods.take(MOST_METHODS).collect()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Capabilities {
    #[serde(deserialize_with = "lenient")]
    pub(crate) load_session: bool,
    #[serde(deserialize_with = "lenient")]
    pub(crate) mcp_capabilities: McpCapabilities,
    #[serde(deserialize_with = "lenient")]
    pub(crate) prompt_capabilities: PromptCapabilities,
    #[serde(deserialize_with = "lenient")]
    pub(crate) session_capabilities: SessionCapabilities,
}

/// What a prompt may contain besides text and links.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromptCapabilities {
    /// Images.
    #[serde(deserialize_with = "lenient")]
    pub image: bool,
    /// Resources: texts and data with an address.
    #[serde(deserialize_with = "lenient")]
    pub embedded_context: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SessionCapabilities {
    pub(crate) resume: Option<Value>,
    pub(crate) additional_directories: Option<Value>,
}

/// A way to sign in.
#[derive(Debug, Deserialize)]
pub(crate) struct AuthMethod {
    id: String,
    #[serde(default, deserialize_with = "lenient")]
    name: String,
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    args: Vec<String>,
    #[serde(default, deserialize_with = "lenient")]
    env: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "lenient")]
    vars: Vec<AuthVariable>,
}

#[derive(Debug, Deserialize)]
struct AuthVariable {
    name: String,
    #[serde(default, deserialize_with = "lenient")]
    optional: bool,
}

impl AuthMethod {
    /// The method that needs no person: the one that the configuration names, else the only one whose variables are all set. Any
    /// other may open a browser.
    pub(crate) fn chosen(methods: &[Self], named: Option<&str>, is_set: impl Fn(&str) -> bool) -> Option<String> {
        let has_variables = |method: &&Self| {
            let mut needed = method.vars.iter().filter(|variable| !variable.optional).peekable();
            method.kind == VARIABLES && needed.peek().is_some() && needed.all(|variable| is_set(&variable.name))
        };
        let chosen = match named {
            Some(id) => methods.iter().find(|method| method.id == id && method.kind != TERMINAL),
            None => {
                let mut ready = methods.iter().filter(has_variables);
                ready.next().filter(|_| ready.next().is_none())
            }
        };
        chosen.map(|method| method.id.clone())
    }

    /// What a person can do to sign in.
    pub(crate) fn advice(methods: &[Self], program: &Program) -> String {
        let AgentEntry {
            command,
            args,
            auth,
            env,
            ..
        } = &program.entry;
        let id = &lodge_models::Model::info(program).id;
        let mut advice = Vec::new();
        let (in_terminal, callable): (Vec<_>, Vec<_>) = methods.iter().partition(|method| method.kind == TERMINAL);
        if let Some(auth) = auth
            .as_ref()
            .filter(|auth| callable.iter().all(|method| method.id != **auth))
        {
            advice.push(format!(
                "It does not offer the method `{auth}` that `auth` in [agents.{id}] names."
            ));
        }
        for method in in_terminal {
            let variables = method
                .env
                .iter()
                .map(|(name, value)| format!("{name}={}", quoted(value)));
            let words = std::iter::once(command)
                .chain(args)
                .chain(&method.args)
                .map(|word| quoted(word));
            let line: Vec<String> = variables.chain(words).collect();
            let own = if env.is_empty() {
                ""
            } else {
                ", with the variables of its `env`,"
            };
            advice.push(format!(
                "Run `{}` in a terminal{own} and sign in there.",
                shortened(line.join(" "), LONGEST)
            ));
        }
        let mut callable = callable.into_iter().map(|method| match method.name.is_empty() {
            true => format!("`{}`", short(&method.id)),
            false => format!("`{}` ({})", short(&method.id), short(&method.name)),
        });
        if let Some(first) = callable.next() {
            let all = callable.fold(first, |all, method| format!("{all}, {method}"));
            advice.push(format!(
                "Set `auth` in [agents.{id}] of lodge.toml to one of its ways to sign in: {all}."
            ));
        }
        if advice.is_empty() {
            advice.push("Start it in a terminal and sign in there.".to_owned());
        }
        advice.push("Then send again.".to_owned());
        advice.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_read_of_a_greeting_costs_nothing_else() {
        let whole = json!({ "protocolVersion": 1, "agentCapabilities": {
            "loadSession": true,
            "mcpCapabilities": { "http": true, "sse": true },
            "promptCapabilities": { "image": true, "audio": true, "embeddedContext": true },
            "sessionCapabilities": { "resume": {}, "additionalDirectories": {} },
        } });
        let read = |greeting: Value| {
            let can = Greeting::read(greeting).agent_capabilities;
            let session = &can.session_capabilities;
            [
                can.load_session,
                can.mcp_capabilities.http,
                can.mcp_capabilities.sse,
                can.prompt_capabilities.image,
                can.prompt_capabilities.embedded_context,
                session.resume.is_some(),
                session.additional_directories.is_some(),
            ]
        };
        assert_eq!(read(whole.clone()), [true; 7]);
        for (at, lost) in [
            ("/agentCapabilities/loadSession", &[0][..]),
            ("/agentCapabilities/mcpCapabilities", &[1, 2]),
            ("/agentCapabilities/mcpCapabilities/http", &[1]),
            ("/agentCapabilities/promptCapabilities", &[3, 4]),
            ("/agentCapabilities/promptCapabilities/audio", &[]),
            ("/agentCapabilities/promptCapabilities/image", &[3]),
            ("/agentCapabilities/sessionCapabilities", &[5, 6]),
            ("/agentCapabilities/sessionCapabilities/resume", &[5]),
            ("/agentCapabilities", &[0, 1, 2, 3, 4, 5, 6]),
        ] {
            for odd in [Value::Null, json!("odd")] {
                let mut greeting = whole.clone();
                // Any value of these two says that the program can.
                let counts = odd.is_null() || !at.ends_with("resume");
                *greeting.pointer_mut(at).unwrap() = odd.clone();
                let known = read(greeting);
                for (index, known) in known.into_iter().enumerate() {
                    assert_eq!(known, !(counts && lost.contains(&index)), "{at} = {odd}: {index}");
                }
            }
        }
        assert_eq!(read(Value::Null), [false; 7]);
        assert_eq!(read(json!([1])), [false; 7]);
    }

    fn methods() -> Vec<AuthMethod> {
        let given = json!({ "authMethods": [
            { "id": "browser", "name": "Log in" },
            7,
            { "id": "login", "name": "Terminal", "type": "terminal", "args": ["login", "two words"], "env": { "A": "b" } },
            { "id": "one", "type": "env_var", "vars": [{ "name": "ONE" }, { "name": "MORE", "optional": true }] },
            { "id": "two", "name": "Two", "type": "env_var", "vars": [{ "name": "TWO" }] },
            { "id": "none", "type": "env_var", "vars": null },
        ] });
        Greeting::read(given).methods()
    }

    #[test]
    fn only_a_method_that_is_named_or_reads_variables_that_are_set_is_called_without_a_person() {
        for (named, set, expected) in [
            (None, &[][..], None),
            (None, &["ONE"], Some("one")),
            (None, &["TWO"], Some("two")),
            (None, &["ONE", "TWO"], None),
            (None, &["MORE"], None),
            (Some("browser"), &[], Some("browser")),
            (Some("two"), &["ONE"], Some("two")),
            (Some("login"), &["ONE"], None),
            (Some("other"), &["ONE"], None),
        ] {
            let chosen = AuthMethod::chosen(&methods(), named, |name| set.contains(&name));
            assert_eq!(chosen.as_deref(), expected, "{named:?} {set:?}");
        }
    }

    #[test]
    fn people_are_told_how_to_sign_in() {
        let program = |auth: Option<&str>| {
            let entry = json!({ "command": "coder", "args": ["--acp"], "auth": auth });
            Program::new("coder", serde_json::from_value(entry).unwrap())
        };
        let expected = "Run `A=b coder --acp login 'two words'` in a terminal and sign in there. Set `auth` in [agents.coder] of \
                        lodge.toml to one of its ways to sign in: `browser` (Log in), `one`, `two` (Two), `none`. Then send again.";
        assert_eq!(AuthMethod::advice(&methods(), &program(None)), expected);
        assert_eq!(AuthMethod::advice(&methods(), &program(Some("one"))), expected);
        let wrong = AuthMethod::advice(&methods(), &program(Some("login")));
        assert!(
            wrong.starts_with("It does not offer the method `login` that"),
            "{wrong}"
        );
        let plain = "Start it in a terminal and sign in there. Then send again.";
        assert_eq!(AuthMethod::advice(&[], &program(None)), plain);
    }
}
