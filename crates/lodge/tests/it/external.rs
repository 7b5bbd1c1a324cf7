//! Agents of other programs, hosted: `lodge acp` with a home of its own as one that behaves, shell scripts as those that do not.

use serde_json::{Value, json};
use testkit::Home;

use crate::{
    accepted::Client,
    acp::{Editor, host, log_of, selected},
    strangers::{Host, Sdk},
};

/// Shakes hands as an agent, and waits for a prompt.
pub(crate) const GREETING: &str = r#"
say() { printf '%s\n' "$1"; }
read -r line; say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r line; say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read -r line
"#;

pub(crate) fn configure(home: &Home, agents: &[(&str, &str, &[&str])]) {
    let mut config = String::new();
    for (name, command, args) in agents {
        config.push_str(&format!("[agents.{name}]\ncommand = {command:?}\nargs = {args:?}\n"));
    }
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
    let _ = home.run(["trust".into(), home.work()]).ok();
}

/// A home whose agent `inner` is Lodge itself, with another home. Its host runs.
fn nested(inner: &Home) -> Home {
    let home = Home::new();
    let inside = format!("LODGE_HOME={}", inner.path().display());
    let lodge = testkit::lodge_bin().display().to_string();
    configure(&home, &[("inner", "/usr/bin/env", &[&inside, &lodge, "acp"])]);
    home
}

pub(crate) fn with_agent(editor: &mut Editor, agent: &str) -> String {
    let session = editor.new_session();
    let chosen = json!({ "sessionId": session, "configId": "model", "value": agent });
    editor.call("session/set_config_option", chosen);
    session
}

/// Waits for the answer to a prompt, allows whatever is asked meanwhile, and fills in no forms. The questions.
pub(crate) fn allow_all(editor: &mut Editor, prompt: u64) -> (Value, Vec<Value>) {
    let mut asked = Vec::new();
    loop {
        if let Some(answer) = editor.take() {
            assert_eq!(answer["id"], prompt, "{answer}");
            return (answer, asked);
        }
        while let Some(question) = editor.asked.pop_front() {
            match question["method"].as_str() {
                Some("session/request_permission") => {
                    editor.answer(&question, selected("allow-once"));
                    asked.push(question);
                }
                Some("elicitation/create") => editor.answer(&question, json!({ "action": "cancel" })),
                _ => {}
            }
        }
    }
}

pub(crate) fn kinds_of(log: &[Value]) -> Vec<&str> {
    log.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn another_agent_works_with_the_questions_the_files_and_the_log_of_this_host() {
    let inner = Home::new();
    let _inner_host = host(&inner);
    let home = nested(&inner);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "inner");
    let script =
        r#"call bash {"command":"touch made"} then call create {"path":"b.txt","file_text":"new"} then say over"#;
    let prompt = editor.prompt(&session, script);
    let (answer, asked) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(home.work().join("made").exists());
    assert_eq!(std::fs::read_to_string(home.work().join("b.txt")).unwrap(), "new");
    assert!(!asked.is_empty());
    let first = &asked[0]["params"]["toolCall"];
    assert!(first.to_string().contains("touch made"), "{first}");
    assert!(editor.text("agent_message_chunk").contains("over"));
    let log = log_of(&home, &session);
    let kinds = kinds_of(&log);
    for kind in ["lodge.program", "lodge.question", "lodge.answered", "assistant.message"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let count = |kind: &str| kinds.iter().filter(|known| **known == kind).count();
    assert_eq!(count("tool.execution_start"), 2, "{kinds:?}");
    assert_eq!(count("tool.execution_complete"), 2, "{kinds:?}");
    // What it cannot do is said.
    let refused = editor.try_call(
        "session/set_config_option",
        json!({ "sessionId": session, "configId": "model", "value": "rehearsal" }),
    );
    assert!(
        refused.unwrap_err()["message"]
            .as_str()
            .unwrap()
            .contains("stays with the agent")
    );
    let forked = home.run(["sessions", "fork", &session]);
    assert!(!forked.status.success(), "a copy would not know its conversation");
    let before = log_of(&home, &session).len();
    for command in ["/compact", "/clear", "/rewind"] {
        let prompt = editor.prompt(&session, command);
        let error = editor.wait(prompt).unwrap_err();
        let why = error["message"].as_str().unwrap();
        assert!(why.contains("inner is an agent of its own"), "{command}: {why}");
    }
    let after = log_of(&home, &session);
    let kinds = kinds_of(&after[before..]);
    for kind in ["lodge.rewound", "session.context_cleared", "session.compaction_start"] {
        assert!(!kinds.contains(&kind), "{kinds:?}");
    }
    let prompt = editor.prompt(&session, "/context");
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "end_turn");
    let said = editor.text("agent_message_chunk");
    assert!(said.contains("inner manages its own context"), "{said}");
}

#[test]
fn the_commands_of_an_agent_are_listed_and_passed_on() {
    let home = Home::new();
    let named = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": {
        "sessionUpdate": "available_commands_update", "availableCommands": [
            { "name": "review", "description": "Reviews the changes", "input": { "hint": "[FILE]" } } ] } } });
    let script = format!(
        r#"say() {{ printf '%s\n' "$1"; }}
read -r line; say '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":1}}}}'
read -r line; say '{{"jsonrpc":"2.0","id":2,"result":{{"sessionId":"s"}}}}'
say '{named}'
id=2
while read -r line; do
printf '%s\n' "$line" >> prompts; id=$((id + 1))
say '{{"jsonrpc":"2.0","id":'$id',"result":{{"stopReason":"end_turn"}}}}'
done"#
    );
    configure(&home, &[("knows", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "knows");
    // Nobody knows its commands before it was started, so it gets what may be one.
    assert_eq!(editor.stops(&session, "/init now"), "end_turn");
    editor.until("its commands", |update| {
        update["sessionUpdate"] == "available_commands_update" && update.to_string().contains("Reviews the changes")
    });
    assert_eq!(editor.stops(&session, "/review a.rs"), "end_turn");
    let prompt = editor.prompt(&session, "/reviwe a.rs");
    let error = editor.wait(prompt).unwrap_err();
    let why = error["message"].as_str().unwrap();
    assert!(why.contains("There is no command `/reviwe`"), "{why}");
    let prompts = std::fs::read_to_string(home.work().join("prompts")).unwrap();
    let prompts: Vec<Value> = prompts
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let texts: Vec<&Value> = prompts
        .iter()
        .map(|line| &line["params"]["prompt"][0]["text"])
        .collect();
    assert_eq!(texts, ["/init now", "/review a.rs"]);
    // Another model has other commands.
    let other = editor.new_session();
    let prompt = editor.prompt(&other, "/review");
    assert!(editor.wait(prompt).is_err());
}

#[test]
fn an_agent_that_only_loads_its_conversation_goes_on_with_it_and_what_it_repeats_is_not_recorded() {
    let home = Home::new();
    let below = home.work().join("below");
    std::fs::create_dir(&below).unwrap();
    let chunk = |text: &str| {
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": {
            "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } } } })
        .to_string()
    };
    let script = format!(
        r#"
say() {{ printf '%s\n' "$1"; }}
read -r line; say '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":1,"agentCapabilities":{{"loadSession":true}}}}}}'
read -r line; printf '%s\n' "$line" >> {}
case "$line" in *session/load*) say '{}' ;; esac
say '{{"jsonrpc":"2.0","id":2,"result":{{"sessionId":"s"}}}}'
read -r line; say '{}'
say '{{"jsonrpc":"2.0","id":3,"result":{{"stopReason":"end_turn"}}}}'
while read -r line; do :; done"#,
        home.work().join("opened").display(),
        chunk("what was said before"),
        chunk("new words"),
    );
    configure(&home, &[("loads", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "loads");
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    // In another directory it has to be started again.
    let load = json!({ "sessionId": session, "cwd": below, "mcpServers": [] });
    editor.call("session/load", load);
    assert_eq!(editor.stops(&session, "go on"), "end_turn");
    let opened = std::fs::read_to_string(home.work().join("opened")).unwrap();
    let opened: Vec<Value> = opened.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let methods: Vec<&Value> = opened.iter().map(|line| &line["method"]).collect();
    assert_eq!(methods, ["session/new", "session/load"]);
    assert_eq!(opened[1]["params"]["sessionId"], "s");
    let log = log_of(&home, &session);
    let said: Vec<&Value> = log
        .iter()
        .filter(|event| event["type"] == "assistant.message")
        .map(|event| &event["data"]["content"])
        .collect();
    assert_eq!(said, ["new words", "new words"]);
    let warned = kinds_of(&log).contains(&"session.warning");
    assert!(!warned, "it knows the earlier conversation");
}

#[test]
fn people_are_told_which_attachments_an_agent_does_not_take() {
    let home = Home::new();
    let script = format!("{GREETING}printf '%s\\n' \"$line\" > prompt.json\n{END}");
    configure(&home, &[("plain", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "plain");
    let prompt = json!([
        { "type": "text", "text": "Look." },
        { "type": "resource_link", "name": "a.rs", "uri": "file:///a.rs" },
        { "type": "image", "data": "aGk=", "mimeType": "image/png" },
        { "type": "resource", "resource": { "uri": "file:///x.pdf", "blob": "aGk=", "mimeType": "application/pdf" } },
    ]);
    let answered = editor.call("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    assert_eq!(answered["stopReason"], "end_turn");
    let sent: Value = serde_json::from_str(&std::fs::read_to_string(home.work().join("prompt.json")).unwrap()).unwrap();
    let kinds: Vec<&Value> = sent["params"]["prompt"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["type"])
        .collect();
    assert_eq!(kinds, ["text", "resource_link"]);
    let log = log_of(&home, &session);
    let warning = log.iter().find(|event| event["type"] == "session.warning").unwrap();
    let message = "plain does not take these attachments, so it did not get them: image/png, x.pdf.";
    assert_eq!(warning["data"]["message"], message);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_in_the_lists_of_models_of_every_face_without_numbers_that_nobody_knows() {
    let home = Home::new();
    configure(&home, &[("helper", "/no/such/program", &[])]);
    let host = Host::start_in(home, "");
    let mut sdk = Sdk::connect(&host);
    let listed = sdk.call("models.list", json!({})).unwrap();
    let models = listed["models"].as_array().unwrap();
    let helper = models.iter().find(|model| model["id"] == "helper").unwrap();
    let limits = &helper["capabilities"]["limits"];
    assert_eq!(limits["max_context_window_tokens"], 0, "{helper}");
    let mut ahp = Client::connect(&host.ahp_url(), "test").await;
    let root = ahp.subscribe("ahp-root://").await;
    let models: Vec<&Value> = root["agents"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|agent| agent["models"].as_array().unwrap())
        .collect();
    let helper = models.iter().find(|model| model["id"] == "helper").unwrap();
    for number in ["maxContextWindow", "maxOutputTokens"] {
        assert!(helper.get(number).is_none(), "{helper}");
    }
    // It is an agent of its own, too.
    let agents = root["agents"].as_array().unwrap();
    let own = agents.iter().find(|agent| agent["provider"] == "helper").unwrap();
    assert_eq!(
        (own["models"].as_array().unwrap().len(), &own["models"][0]["id"]),
        (1, &json!("helper"))
    );
    assert!(own["capabilities"].get("multipleChats").is_none(), "{own}");
    let session = "lodge:/6f9619ff-8b86-4011-b42d-00cf4fc964ff";
    let create = |provider: &str, model: Value| json!({ "channel": session, "provider": provider, "model": model });
    for (provider, model, part) in [
        ("nobody", Value::Null, "there is no provider"),
        ("helper", json!({ "id": "rehearsal" }), "does not use the model"),
    ] {
        let refused = ahp.refused("createSession", create(provider, model)).await;
        assert!(refused.to_string().contains(part), "{refused}");
    }
    ahp.request("createSession", create("helper", Value::Null)).await;
    let state = ahp.subscribe(session).await;
    assert_eq!(
        (&state["provider"], &state["config"]["values"]["model"]),
        (&json!("helper"), &json!("helper"))
    );
    let printed = host.home.run(["models"]).ok().stdout();
    let line = printed.lines().find(|line| line.contains("helper")).unwrap();
    assert!(!line.contains("tokens"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_an_agent_are_answered_by_an_app_and_by_an_ahp_client() {
    let execute =
        |id: &str, command: &str| json!({ "toolCallId": id, "kind": "execute", "rawInput": { "command": command } });
    let steps = permission(10, execute("a", "touch one")) + &permission(11, execute("b", "touch two"));
    let script = format!("{GREETING}{steps}{END}");
    let home = Home::new();
    configure(&home, &[("sly", "/bin/sh", &["-c", &script])]);
    let host = Host::start_in(home, "");
    let mut sdk = Sdk::connect(&host);
    let new = json!({ "model": "sly", "workingDirectory": host.home.work(), "requestPermission": true });
    let session = sdk.call("session.create", new).unwrap()["sessionId"].clone();
    let mut ahp = Client::connect(&host.ahp_url(), "test").await;
    let channel = format!("lodge:/{}", session.as_str().unwrap());
    let chat = ahp.subscribe(&channel).await["defaultChat"]
        .as_str()
        .unwrap()
        .to_owned();
    ahp.subscribe(&chat).await;
    ahp.accepted(&chat, crate::accepted::turn("m1", "go")).await;
    let asked = loop {
        let message = sdk.waiting.pop_front().unwrap_or_else(|| sdk.next());
        let event = &message["params"]["event"];
        if event["type"] == "permission.requested" {
            break event["data"].clone();
        }
    };
    assert!(asked.to_string().contains("touch one"), "{asked}");
    let yes = json!({ "sessionId": session, "requestId": asked["requestId"], "result": { "kind": "approve-once" } });
    let answered = sdk
        .call("session.permissions.handlePendingPermissionRequest", yes)
        .unwrap();
    assert_eq!(answered["success"], true);
    let ready = ahp
        .until(|message| {
            let action = &message["params"]["action"];
            action["type"] == "chat/toolCallReady" && action.to_string().contains("touch two")
        })
        .await;
    let call = &ready["params"]["action"]["toolCallId"];
    let yes = json!({ "type": "chat/toolCallConfirmed", "turnId": "m1", "toolCallId": call, "approved": true });
    ahp.accepted(&chat, yes).await;
    ahp.ends("m1").await;
    let answers = std::fs::read_to_string(host.home.work().join("answers")).unwrap();
    assert_eq!(answers.matches("\"y\"").count(), 2, "{answers}");
    let log = log_of(&host.home, session.as_str().unwrap());
    let by: Vec<&Value> = log
        .iter()
        .filter(|event| event["type"] == "lodge.answered")
        .map(|event| &event["data"]["by"])
        .collect();
    assert_eq!(by.len(), 2, "{by:?}");
    assert_ne!(by[0], by[1], "each was answered by another client");
}

#[test]
fn another_agent_is_cancelled_goes_on_and_finds_its_conversation_after_a_kill() {
    let inner = Home::new();
    let _inner_host = host(&inner);
    let home = nested(&inner);
    let mut outer = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "inner");
    let prompt = editor.prompt(
        &session,
        r#"call bash {"command":"touch begun; sleep 100"} then say over"#,
    );
    let question = editor.question("session/request_permission");
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "cancelled");
    drop(question);
    assert_eq!(editor.stops(&session, "say first"), "end_turn");
    outer.kill();
    outer.finish();
    drop(editor);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let cwd = editor.cwd.clone();
    editor.call(
        "session/load",
        json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] }),
    );
    assert_eq!(editor.stops(&session, "say second"), "end_turn");
    let log = log_of(&home, &session);
    let begun = kinds_of(&log).iter().filter(|kind| **kind == "lodge.program").count();
    assert_eq!(begun, 1, "the conversation is the same");
    let inside = inner.logs();
    assert_eq!(inside.len(), 1, "{inside:?}");
}

#[test]
fn an_agent_is_told_of_the_servers_of_its_session_and_of_none_that_is_not_trusted() {
    let home = Home::new();
    let script = r#"
say() { printf '%s\n' "$1"; }
read -r line; say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}}'
read -r line; printf '%s\n' "$line" > told.json; say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
while read -r line; do say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; done
"#;
    configure(&home, &[("listens", "/bin/sh", &["-c", script])]);
    let mine = r#"
[mcp.servers.mine]
command = "mine"
args = ["--well"]
env = { KEY = "value" }
cwd = "below"

[mcp.servers.some]
command = "some"
tools = ["one"]

[mcp.servers.off]
command = "off"
disabled = true

[mcp.servers.remote]
url = "https://mcp.example/x"
headers = { Authorization = "Bearer t" }

[mcp.servers.old]
type = "sse"
url = "https://mcp.example/sse"
"#;
    let config = home.path().join("lodge.toml");
    let agents = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{agents}{mine}")).unwrap();
    let theirs = json!({ "mcpServers": { "theirs": { "command": "theirs" } } });
    std::fs::write(home.work().join(".mcp.json"), theirs.to_string()).unwrap();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let mut told = || {
        let brought = json!([{ "name": "brought", "command": "brought", "args": [], "env": [] }]);
        let made = editor.call("session/new", json!({ "cwd": editor.cwd, "mcpServers": brought }));
        let session = made["sessionId"].as_str().unwrap().to_owned();
        let chosen = json!({ "sessionId": session, "configId": "model", "value": "listens" });
        editor.call("session/set_config_option", chosen);
        assert_eq!(editor.stops(&session, "go"), "end_turn");
        let told: Value =
            serde_json::from_str(&std::fs::read_to_string(home.work().join("told.json")).unwrap()).unwrap();
        told["params"]["mcpServers"].as_array().unwrap().clone()
    };
    let names = |servers: &[Value]| -> Vec<String> {
        let mut names: Vec<_> = servers
            .iter()
            .map(|server| server["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    let servers = told();
    assert_eq!(names(&servers), ["brought", "mine", "remote"]);
    let find = |name: &str| servers.iter().find(|server| server["name"] == name).unwrap();
    let below = home.work().join("below");
    let expected = json!({
        "name": "mine",
        "command": "/bin/sh",
        "args": ["-c", "cd -- \"$0\" && exec \"$@\"", below, "mine", "--well"],
        "env": [{ "name": "KEY", "value": "value" }],
    });
    assert_eq!(find("mine"), &expected);
    let expected = json!({
        "type": "http",
        "name": "remote",
        "url": "https://mcp.example/x",
        "headers": [{ "name": "Authorization", "value": "Bearer t" }],
    });
    assert_eq!(find("remote"), &expected);
    let _ = home.run(["trust", home.work().to_str().unwrap()]).ok();
    assert_eq!(names(&told()), ["brought", "mine", "remote", "theirs"]);
}

#[test]
fn a_sub_agent_is_another_program_with_the_questions_and_the_log_of_the_session() {
    let inner = Home::new();
    let _inner_host = host(&inner);
    let home = nested(&inner);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    let below = r#"call create {\"path\":\"made.txt\",\"file_text\":\"x\"} then say below"#;
    let task = |kind: &str| {
        format!(
            r#"call task {{"agent_type":"{kind}","name":"h","description":"d","model":"inner","prompt":"{below}"}}"#
        )
    };
    let prompt = editor.prompt(&session, &task("general-purpose"));
    let (answer, asked) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(home.work().join("made.txt").exists());
    assert!(
        asked.iter().any(|asked| asked.to_string().contains("made.txt")),
        "{asked:?}"
    );
    let said = editor.text("agent_message_chunk");
    assert!(said.contains("task answered: below"), "{said}");
    let log = log_of(&home, &session);
    let of = |kind: &str| log.iter().find(|event| event["type"] == kind).unwrap();
    assert_eq!(of("subagent.started")["data"]["model"], "inner");
    assert_eq!(of("subagent.completed")["data"]["totalToolCalls"], 1);
    let agent = of("subagent.started")["agentId"].clone();
    assert_eq!(
        of("lodge.program")["agentId"],
        agent,
        "the conversation is the sub-agent's"
    );
    assert_eq!(editor.stops(&session, "say still a model"), "end_turn");

    // A kind that is held to certain tools cannot be such a program.
    let prompt = editor.prompt(&session, &task("explore"));
    let (answer, _) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let said = editor.text("agent_message_chunk");
    assert!(
        said.contains("be limited to the tools of the agent `explore`"),
        "{said}"
    );
}

#[test]
fn a_program_that_works_as_a_sub_agent_ends_with_the_turn_that_wants_it_no_more() {
    let script = format!("{GREETING} echo $$ > started; exec sleep 1000");
    let home = Home::new();
    configure(&home, &[("hangs", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    let task = r#"call task {"agent_type":"general-purpose","name":"h","description":"d","model":"hangs","prompt":"go"} then say over"#;
    let prompt = editor.prompt(&session, task);
    let started = home.work().join("started");
    let pid = loop {
        let pid = std::fs::read_to_string(&started).unwrap_or_default();
        if let Some(pid) = pid.strip_suffix('\n') {
            break pid.to_owned();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "cancelled");
    while std::path::Path::new("/proc").join(&pid).exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let log = log_of(&home, &session);
    let kinds = kinds_of(&log);
    let count = |kind: &str| kinds.iter().filter(|known| **known == kind).count();
    assert_eq!(
        count("tool.execution_start"),
        count("tool.execution_complete"),
        "{kinds:?}"
    );
    assert_eq!(editor.stops(&session, "say still here"), "end_turn");
}

#[test]
fn agents_that_crash_babble_or_lie_hurt_only_their_turn() {
    let long = "x".repeat(100_000);
    let chunk = |session: &str, text: &str| {
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": {
            "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } } } })
        .to_string()
    };
    let endless = format!("yes '{}'", chunk("s", &long));
    let lies = [
        chunk("another", "not mine"),
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"another","path":"/etc/passwd"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":8,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/etc/passwd"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":9,"method":"terminal/output","params":{"sessionId":"s","terminalId":"none"}}"#.to_owned(),
        "what is this".to_owned(),
        chunk("s", "mine"),
        r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#.to_owned(),
        chunk("s", "too late"),
    ];
    let lies: String = lies.iter().map(|line| format!("say '{line}'\n")).collect();
    let lies = format!("{lies}while read -r line; do printf '%s\\n' \"$line\" >> answers; done");
    let hoards = r#"big=$(head -c 10000000 /dev/zero | tr '\0' x)
for n in 1 2 3 4 5 6 7; do
printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",'
printf '"toolCallId":"%s","rawInput":{"text":"%s"}}}}\n' "$n" "$big"
done; sleep 100"#;
    let labels = r#"big=$(head -c 10000000 /dev/zero | tr '\0' x)
for n in 1 2 3 4 5 6 7; do
printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",'
printf '"toolCallId":"%s%s","status":"completed"}}}\n' "$n" "$big"
done; sleep 100"#;
    let busy = r#"for n in $(seq 10001); do
say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"'$n'","status":"completed"}}}'
done; sleep 100"#;
    let writes = r#"big=$(head -c 500000 /dev/zero | tr '\0' x)
for n in $(seq 140); do
printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",'
printf '"toolCallId":"%s","status":"completed","rawOutput":"%s"}}}\n' "$n" "$big"
done; sleep 100"#;
    let faults: &[(&str, &str, &str)] = &[
        ("crash", "echo boom >&2; exit 3", "code 3; its last output: boom"),
        (
            "huge",
            "head -c 20000000 /dev/zero | tr '\\0' x; sleep 100",
            "more than 16777216 bytes",
        ),
        ("noise", "yes garbage", "does not speak ACP"),
        ("endless", &endless, "said more than"),
        (
            "refuses",
            r#"say '{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"no luck"}}'"#,
            "no luck",
        ),
        ("hoards", hoards, "bytes in its calls"),
        ("labels", labels, "bytes in its calls"),
        ("busy", busy, "more than 10000 calls"),
        ("writes", writes, "bytes to the log"),
        ("lies", &lies, ""),
    ];
    let scripts: Vec<String> = faults
        .iter()
        .map(|(_, fault, _)| format!("{GREETING}{fault}"))
        .collect();
    let arguments: Vec<[&str; 2]> = scripts.iter().map(|script| ["-c", script.as_str()]).collect();
    let mut agents: Vec<(&str, &str, &[&str])> = Vec::new();
    for ((name, ..), arguments) in faults.iter().zip(&arguments) {
        agents.push((name, "/bin/sh", arguments));
    }
    agents.push(("missing", "/no/such/program", &[]));
    let sign_in = r#"read -r line; printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'; read -r line
printf '%s\n' '{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Authentication required"}}'; read -r line"#;
    let sign_in = ["-c", sign_in];
    agents.push(("stranger", "/bin/sh", &sign_in));
    let home = Home::new();
    configure(&home, &agents);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let beside = editor.new_session();
    let more = [("missing", "", "cannot be started"), ("stranger", "", "sign in")];
    for (name, _, expected) in faults.iter().chain(&more) {
        let session = with_agent(&mut editor, name);
        let prompt = editor.prompt(&session, "go");
        let answer = editor.wait(prompt);
        match expected.is_empty() {
            true => assert_eq!(answer.unwrap()["stopReason"], "end_turn", "{name}"),
            false => {
                let error = answer.unwrap_err();
                assert!(error["message"].as_str().unwrap().contains(expected), "{name}: {error}");
            }
        }
        assert_eq!(editor.stops(&beside, "say still here"), "end_turn", "{name}");
        if *name == "lies" {
            let log = log_of(&home, &session);
            let said: Vec<&Value> = log
                .iter()
                .filter(|event| event["type"] == "assistant.message")
                .collect();
            assert_eq!(said.len(), 1, "{said:?}");
            assert_eq!(said[0]["data"]["content"], "mine");
            let answers = std::fs::read_to_string(home.work().join("answers")).unwrap();
            assert!(!answers.contains("root:"), "{answers}");
        }
    }
}

#[test]
fn an_agent_that_hangs_is_stopped_and_started_again() {
    let script = format!("{GREETING} echo $$ >> started; exec sleep 1000");
    let home = Home::new();
    configure(&home, &[("hangs", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "hangs");
    for turn in 1..=2 {
        let prompt = editor.prompt(&session, "go");
        let started = home.work().join("started");
        while std::fs::read_to_string(&started).unwrap_or_default().lines().count() < turn {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        editor.notify("session/cancel", json!({ "sessionId": session }));
        assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "cancelled");
    }
}

/// A request of a program, after which it reads the answer into `$line`.
pub(crate) fn ask(id: u64, method: &str, mut params: Value) -> String {
    params["sessionId"] = json!("s");
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    format!("say '{request}'\nread -r line; printf '%s\\n' \"$line\" >> answers\n")
}

pub(crate) fn permission(id: u64, call: Value) -> String {
    let options = json!([
        { "optionId": "y", "name": "Yes", "kind": "allow_once" },
        { "optionId": "n", "name": "No", "kind": "reject_once" },
    ]);
    ask(
        id,
        "session/request_permission",
        json!({ "toolCall": call, "options": options }),
    )
}

/// Takes the id of a terminal from an answer.
pub(crate) const TERMINAL_ID: &str = r#"id=${line#*\"terminalId\":\"}; id=${id%%\"*}
"#;

pub(crate) const END: &str = r#"
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
while read -r line; do :; done"#;

#[test]
fn a_program_has_few_terminals_at_once() {
    let home = Home::new();
    let sleep = json!({ "command": "sleep 100" });
    let mut script = permission(
        10,
        json!({ "toolCallId": "c", "kind": "execute", "rawInput": { "command": "sleep 100" } }),
    );
    for id in 11..44 {
        script += &ask(id, "terminal/create", sleep.clone());
        if id == 11 {
            script += TERMINAL_ID;
        }
    }
    script += &ask(44, "terminal/release", json!({ "terminalId": "ID" })).replace("ID", "'\"$id\"'");
    // The process has to be gone before its place is free.
    script += "while :; do\n";
    script += &ask(45, "terminal/create", sleep);
    script += "case \"$line\" in *terminalId*) break;; esac; done\n";
    let script = format!("{GREETING}{script}{END}");
    configure(&home, &[("many", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "many");
    let prompt = editor.prompt(&session, "go");
    let (answer, asked) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(asked.len() > 32, "every command is asked about: {asked:#?}");
    let answers = std::fs::read_to_string(home.work().join("answers")).unwrap();
    let of = |id: u64| {
        answers
            .lines()
            .find(|line| line.contains(&format!("\"id\":{id}")))
            .unwrap()
    };
    assert!(of(42).contains("terminalId"), "{}", of(42));
    assert!(of(43).contains("release some"), "{}", of(43));
}

#[test]
fn what_another_agent_had_said_when_the_host_was_killed_is_there_after_it() {
    let home = Home::new();
    let chunk = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": {
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "Once upon" } } } });
    let script = format!("{GREETING}say '{chunk}'\nexec sleep 1000");
    configure(&home, &[("slow", "/bin/sh", &["-c", &script])]);
    let mut killed = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "slow");
    editor.prompt(&session, "tell me a story");
    crate::kept::until_kept(&home);
    killed.kill();
    killed.finish();
    drop(editor);
    let shown = home.run(["sessions", "show", &session]).ok().stdout();
    assert_eq!(shown.matches("Once upon").count(), 1, "{shown}");
}

#[test]
fn no_agent_is_started_in_a_folder_that_nobody_trusts_or_by_a_path_that_a_folder_decides() {
    let home = Home::new();
    let script = format!("touch started\n{GREETING}{END}");
    configure(&home, &[("eager", "/bin/sh", &["-c", &script])]);
    let _ = home.run(["trust".into(), "--remove".into(), home.work()]).ok();
    let mut running = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "eager");
    let prompt = editor.prompt(&session, "go");
    let error = editor.wait(prompt).unwrap_err();
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("not trusted") && message.contains("lodge trust"),
        "{message}"
    );
    assert!(!home.work().join("started").exists());
    let _ = home.run(["trust".into(), home.work()]).ok();
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    drop(editor);
    running.kill();
    running.finish();
    let config = "[agents.near]\ncommand = \"node_modules/.bin/agent\"\n";
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
    let refused = home.run(["models"]);
    assert!(!refused.status.success());
    assert!(refused.stderr.contains("relative path"), "{}", refused.stderr);
}

#[test]
fn a_call_that_was_completed_is_so_also_if_its_question_is_still_open() {
    let home = Home::new();
    let call = json!({ "toolCallId": "c", "kind": "execute", "rawInput": { "command": "touch it" } });
    let asked = permission(10, call);
    let asked = asked.split("read -r line").next().unwrap();
    let done = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": {
        "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "rawOutput": "all done" } } });
    let script = format!("{GREETING}{asked}say '{done}'\n{END}");
    configure(&home, &[("hasty", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "hasty");
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "end_turn");
    let log = log_of(&home, &session);
    let ends: Vec<&Value> = log
        .iter()
        .filter(|event| event["type"] == "tool.execution_complete")
        .collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(ends[0]["data"]["success"], true, "{}", ends[0]);
    assert_eq!(ends[0]["data"]["result"]["content"], "all done", "{}", ends[0]);
}

#[test]
fn an_agent_works_where_its_session_is() {
    let home = Home::new();
    let below = home.work().join("below");
    std::fs::create_dir(&below).unwrap();
    let places = home.work().join("places");
    let script = format!(
        r#"{GREETING}
pwd >> {}
say '{{"jsonrpc":"2.0","id":3,"result":{{"stopReason":"end_turn"}}}}'
read -r line; say '{{"jsonrpc":"2.0","id":4,"result":{{"stopReason":"end_turn"}}}}'
while read -r line; do :; done"#,
        places.display()
    );
    configure(&home, &[("stays", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "stays");
    for cwd in [home.work().to_path_buf(), below.clone()] {
        let load = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
        editor.call("session/load", load);
        assert_eq!(editor.stops(&session, "go"), "end_turn");
    }
    let known = std::fs::read_to_string(places).unwrap();
    let expected = format!("{}\n{}\n", home.work().display(), below.display());
    assert_eq!(known, expected);
}
