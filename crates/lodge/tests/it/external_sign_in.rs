//! What hosted agents say when they are started: their version, their failures, and how to sign in to them.

use serde_json::{Value, json};
use testkit::Home;

use crate::{
    acp::{Editor, host},
    external::{END, GREETING, with_agent},
};

/// Starts, and has these ways to sign in. `authenticate` is written to a file, and after it there is a session.
fn guarded(methods: &Value) -> String {
    format!(
        r#"say() {{ printf '%s\n' "$1"; }}
read -r line; say '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":1,"authMethods":{methods}}}}}'
read -r line; say '{{"jsonrpc":"2.0","id":2,"error":{{"code":-32000,"message":"Authentication required"}}}}'
read -r line; printf '%s\n' "$line" >> called
case "$line" in *refused*) say '{{"jsonrpc":"2.0","id":3,"error":{{"code":-32603,"message":"Internal error","data":{{"details":"the key is wrong"}}}}}}'; read -r line;; esac
say '{{"jsonrpc":"2.0","id":3,"result":{{}}}}'
read -r line; say '{{"jsonrpc":"2.0","id":4,"result":{{"sessionId":"s"}}}}'
read -r line; say '{{"jsonrpc":"2.0","id":5,"result":{{"stopReason":"end_turn"}}}}'
while read -r line; do :; done"#
    )
}

/// A home with agents: their names, their scripts, and more lines of their entries.
fn with_agents(agents: &[(&str, String, &str)]) -> Home {
    let home = Home::new();
    let mut config = String::new();
    for (name, script, more) in agents {
        let file = home.work().join(name).display().to_string();
        std::fs::write(&file, script).unwrap();
        config += &format!("[agents.{name}]\ncommand = \"/bin/sh\"\nargs = [{file:?}]\n{more}\n");
    }
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
    let _ = home.run(["trust".into(), home.work()]).ok();
    home
}

/// Why a turn of an agent fails, if it does.
fn failure(editor: &mut Editor, agent: &str) -> Option<String> {
    let session = with_agent(editor, agent);
    let prompt = editor.prompt(&session, "go");
    let error = editor.wait(prompt).err()?;
    Some(error["message"].as_str().unwrap().to_owned())
}

#[test]
fn an_agent_is_signed_in_by_what_is_configured_or_by_its_variables_and_else_people_are_told_how() {
    let methods = json!([
        { "id": "browser", "name": "Log in" },
        { "id": "key", "name": "API key", "type": "env_var", "vars": [{ "name": "AGENT_KEY" }] },
        { "id": "refused", "name": "Another key" },
        { "id": "login", "name": "Terminal", "type": "terminal", "args": ["login"] },
    ]);
    let script = || guarded(&methods);
    let home = with_agents(&[
        ("unset", script(), ""),
        ("set", script(), "env = { AGENT_KEY = \"my-own-key\" }"),
        ("named", script(), "auth = \"browser\""),
        ("wrong", script(), "auth = \"refused\""),
        ("unknown", script(), "auth = \"no-such\""),
        ("person", script(), "auth = \"login\""),
    ]);
    let called = || std::fs::read_to_string(home.work().join("called")).unwrap_or_default();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let told = failure(&mut editor, "unset").unwrap();
    let command = format!("/bin/sh {} login", home.work().join("unset").display());
    for part in [
        "The agent unset needs you to sign in: Authentication required. ",
        &command,
        "Set `auth` in [agents.unset] of lodge.toml",
        "`browser` (Log in), `key` (API key), `refused` (Another key)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(called(), "", "nobody chose a way");
    for (agent, method) in [("set", "key"), ("named", "browser")] {
        assert_eq!(failure(&mut editor, agent), None, "{agent}");
        let last: Value = serde_json::from_str(called().lines().last().unwrap()).unwrap();
        assert_eq!(last["method"], "authenticate");
        assert_eq!(last["params"]["methodId"], method);
    }
    for (agent, part) in [
        (
            "wrong",
            "signing in by `refused` failed: Internal error: the key is wrong",
        ),
        ("unknown", "It does not offer the method `no-such`"),
        ("person", "It does not offer the method `login`"),
    ] {
        let told = failure(&mut editor, agent).unwrap();
        assert!(told.contains(part) && told.contains("sign in"), "{told}");
    }
}

#[test]
fn an_agent_says_why_it_fails_and_one_of_another_version_is_not_used() {
    let fails = |data: &str| {
        let error =
            format!(r#"{{"jsonrpc":"2.0","id":3,"error":{{"code":-32603,"message":"Internal error","data":{data}}}}}"#);
        format!("{GREETING}say '{error}'\nwhile read -r line; do :; done")
    };
    let newer = GREETING.replace("\"protocolVersion\":1", "\"protocolVersion\":2") + END;
    let half = GREETING.replace(
        "\"protocolVersion\":1",
        "\"protocolVersion\":null,\"agentCapabilities\":{\"mcpCapabilities\":null,\"loadSession\":true}",
    ) + END;
    let home = with_agents(&[
        ("texts", fails(r#""the disk is full""#), ""),
        (
            "details",
            fails(r#"{"details":"no my-own-key here"}"#),
            "env = { AGENT_KEY = \"my-own-key\" }",
        ),
        ("newer", newer, ""),
        ("half", half, ""),
    ]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    for (agent, expected) in [
        (
            "texts",
            Some("The agent texts reports: Internal error: the disk is full"),
        ),
        (
            "details",
            Some("The agent details reports: Internal error: no ****** here"),
        ),
        ("newer", Some("The agent newer speaks ACP version 2; Lodge speaks 1.")),
        ("half", None),
    ] {
        assert_eq!(failure(&mut editor, agent).as_deref(), expected, "{agent}");
    }
}
