//! `lodge acp`, as an editor drives it: every method, beside other clients of the same sessions.

use std::collections::VecDeque;

use serde_json::{Value, json};
use testkit::{Home, Running, events};

use crate::{
    accepted::{Client, turn},
    strangers::{Host, Sdk},
};

/// The host of a home, as a person starts it.
pub(crate) fn host(home: &Home) -> Running {
    let mut host = home.start(["--port", "0", "--sdk-port", "0"]);
    host.line_with("Ctrl-C stops");
    host
}

/// An editor that has started `lodge acp`.
pub(crate) struct Editor {
    pub(crate) running: Running,
    next: u64,
    /// What the agent told, in order.
    pub(crate) updates: Vec<Value>,
    /// What the agent asks, and what it takes back.
    pub(crate) asked: VecDeque<Value>,
    pub(crate) cwd: Value,
}

impl Editor {
    fn start(home: &Home) -> Self {
        Self {
            running: home.talk(["acp"]),
            next: 0,
            updates: Vec::new(),
            asked: VecDeque::new(),
            cwd: json!(home.work()),
        }
    }

    /// One that has introduced itself, with forms.
    pub(crate) fn ready(home: &Home) -> Self {
        Self::with(
            home,
            json!({ "elicitation": { "form": {}, "url": {} }, "auth": { "terminal": true } }),
        )
    }

    /// One that has introduced itself.
    pub(crate) fn with(home: &Home, capabilities: Value) -> Self {
        let mut editor = Self::start(home);
        editor.call(
            "initialize",
            json!({
                "protocolVersion": 1,
                "clientCapabilities": capabilities,
                "clientInfo": { "name": "test-editor", "version": "1" },
            }),
        );
        editor
    }

    fn say(&mut self, message: &Value) {
        self.running.say(&message.to_string());
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub(crate) fn answer(&mut self, asked: &Value, result: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
    }

    /// Takes the next message. An answer to a request of ours is given back.
    pub(crate) fn take(&mut self) -> Option<Value> {
        let line = self.running.line().expect("the agent is there");
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        match message["method"].as_str() {
            None => return Some(message),
            Some("session/update") => self.updates.push(message["params"].clone()),
            Some(_) => self.asked.push_back(message),
        }
        None
    }

    fn next_answer(&mut self) -> Value {
        loop {
            if let Some(answer) = self.take() {
                return answer;
            }
        }
    }

    /// The answer to a request.
    pub(crate) fn wait(&mut self, id: u64) -> Result<Value, Value> {
        let answer = self.next_answer();
        assert_eq!(answer["id"], id, "{answer}");
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    pub(crate) fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params);
        self.wait(id)
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params)
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// What the agent asks next.
    pub(crate) fn question(&mut self, method: &str) -> Value {
        loop {
            if let Some(asked) = self.asked.pop_front() {
                assert_eq!(asked["method"], method, "{asked}");
                return asked;
            }
            assert!(self.take().is_none(), "no answer is due");
        }
    }

    pub(crate) fn new_session(&mut self) -> String {
        let made = self.call("session/new", json!({ "cwd": self.cwd, "mcpServers": [] }));
        made["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    pub(crate) fn stops(&mut self, session: &str, text: &str) -> String {
        let id = self.prompt(session, text);
        let stopped = self.wait(id).unwrap();
        stopped["stopReason"].as_str().unwrap().to_owned()
    }

    /// Waits until an update fits.
    pub(crate) fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut seen = 0;
        loop {
            if let Some(found) = self.updates[seen..].iter().find(|told| fits(&told["update"])) {
                return found["update"].clone();
            }
            seen = self.updates.len();
            assert!(self.take().is_none(), "no answer is due while waiting for {what}");
        }
    }

    /// The updates of a kind.
    pub(crate) fn told(&self, kind: &str) -> Vec<&Value> {
        let updates = self.updates.iter().map(|told| &told["update"]);
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// The text of all chunks of a kind.
    pub(crate) fn text(&self, kind: &str) -> String {
        let told = self.told(kind);
        told.iter()
            .filter_map(|update| update["content"]["text"].as_str())
            .collect()
    }

    /// Everything that was told of a tool call, put together as an editor does.
    fn call_named(&self, name: &str) -> Value {
        let started = self.told("tool_call").into_iter().find(|call| call["name"] == name);
        let mut call = started
            .unwrap_or_else(|| panic!("no call of {name}: {:#?}", self.updates))
            .clone();
        for update in self.told("tool_call_update") {
            if update["toolCallId"] == call["toolCallId"] {
                for (field, value) in update.as_object().unwrap() {
                    call[field] = value.clone();
                }
            }
        }
        call
    }
}

pub(crate) fn selected(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}

pub(crate) fn log_of(home: &Home, session: &str) -> Vec<Value> {
    events::read_log(&home.path().join("session-state").join(session).join("events.jsonl"))
}

/// The types of a log's events. Calls side by side start and end in any order, so those of one answer are sorted.
fn kinds(log: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = log.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let is_call = |kind: &str| kind.starts_with("tool.execution_");
    for calls in kinds.chunk_by_mut(|a, b| is_call(a) && is_call(b)) {
        calls.sort_unstable();
    }
    kinds
}

#[test]
fn an_editor_is_told_what_the_host_can_do() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::start(&home);
    let early = editor.try_call("session/list", json!({})).unwrap_err();
    assert_eq!(early["code"], -32600, "{early}");
    let told = editor.call("initialize", json!({ "protocolVersion": 99 }));
    assert_eq!(told["protocolVersion"], 1);
    assert_eq!(told["agentInfo"]["name"], "lodge");
    assert_eq!(told["agentCapabilities"]["loadSession"], true);
    for method in ["list", "delete", "resume", "close"] {
        assert!(
            told["agentCapabilities"]["sessionCapabilities"][method].is_object(),
            "{method}"
        );
    }
    let kinds: Vec<&Value> = told["authMethods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|method| &method["type"])
        .collect();
    assert_eq!(kinds, [&Value::Null], "a terminal is only for clients that have one");
    editor.call("authenticate", json!({ "methodId": "lodge-configuration" }));
    let unknown = editor
        .try_call("authenticate", json!({ "methodId": "guess" }))
        .unwrap_err();
    assert_eq!(unknown["code"], -32602, "{unknown}");
    let done = editor.running.finish();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_host_is_started_for_an_editor_that_finds_none_and_shared_by_the_next() {
    let home = Home::new();
    let mut first = Editor::ready(&home);
    let session = first.new_session();
    assert_eq!(first.stops(&session, "say hello"), "end_turn");
    let status = home.run(["status"]).ok().stdout();
    assert!(status.contains("process"), "{status}");
    let mut second = Editor::ready(&home);
    let listed = second.call("session/list", json!({ "cwd": second.cwd }));
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str(), "{listed}");
    assert_eq!(listed["sessions"][0]["title"], "say hello", "{listed}");
    drop((first, second));
    let _ = home.run(["serve", "--stop"]).ok();
}

#[test]
fn a_turn_is_streamed_and_leaves_the_same_log_as_elsewhere() {
    let (home, alone) = (Home::new(), Home::new());
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    for script in [
        "stream 20 chunks",
        "think about doors then say They open.",
        r#"call bash {"command":"echo out"} then say done"#,
        r#"call view {"path":"."} and glob {"pattern":"*"} then say seen"#,
        "call an unknown tool",
        r#"start an agent "say below" then say above"#,
        "fail with server error 2 times then say ok",
    ] {
        let session = editor.new_session();
        editor.updates.clear();
        assert_eq!(editor.stops(&session, script), "end_turn", "{script}");
        assert!(editor.updates.iter().all(|told| told["sessionId"] == session.as_str()));
        let log = log_of(&home, &session);
        events::check_chain(&log).unwrap();
        let said = log
            .iter()
            .filter(|event| event["type"] == "assistant.message" && event.get("agentId").is_none());
        let said: String = said.filter_map(|event| event["data"]["content"].as_str()).collect();
        assert_eq!(editor.text("agent_message_chunk"), said, "{script}");
        let _ = alone.run(["run", script]).ok();
        let logs = alone.logs();
        let expected = events::read_log(&logs[0]);
        std::fs::remove_dir_all(logs[0].parent().unwrap()).unwrap();
        // A program that ends closes its session; the host keeps it.
        let expected = kinds(&expected);
        let expected = expected.strip_suffix(&["session.shutdown"]).unwrap_or(&expected);
        assert_eq!(kinds(&log), expected, "{script}");
    }
    assert!(!editor.told("usage_update").is_empty());
}

#[test]
fn commands_are_shown_in_terminals_by_an_editor_that_has_them_live_and_in_the_history() {
    let home = Home::new();
    let _host = host(&home);
    let capabilities = json!({ "_meta": { "terminal_output": true } });
    let mut editor = Editor::with(&home, capabilities.clone());
    let session = editor.new_session();
    editor.call(
        "session/set_config_option",
        json!({ "sessionId": session, "configId": "approval", "value": "all" }),
    );
    let script = r#"call bash {"command":"seq 3; exit 4"} then call view {"path":"."} then say over"#;
    assert_eq!(editor.stops(&session, script), "end_turn");
    let check = |editor: &Editor| {
        let call = editor.call_named("bash");
        let id = &call["toolCallId"];
        assert_eq!(
            call["content"],
            json!([{ "type": "terminal", "terminalId": id }]),
            "{call}"
        );
        let meta: Vec<&Value> = editor
            .told("tool_call_update")
            .iter()
            .map(|told| &told["_meta"])
            .collect();
        let of = |name: &str| {
            meta.iter()
                .map(|meta| &meta[name])
                .filter(|part| part.is_object())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("terminal_info"), [&json!({ "terminal_id": id, "cwd": home.work() })]);
        let exit = json!({ "terminal_id": id, "exit_code": 4, "signal": null });
        assert_eq!(of("terminal_exit"), [&exit]);
        let output = of("terminal_output");
        assert!(output.iter().all(|part| part["terminal_id"] == *id), "{output:?}");
        let output: String = output.iter().filter_map(|part| part["data"].as_str()).collect();
        assert_eq!(output.replace("\r\n", "\n").trim_end(), "1\n2\n3");
    };
    check(&editor);
    drop(editor);
    let mut editor = Editor::with(&home, capabilities);
    let cwd = editor.cwd.clone();
    editor.call(
        "session/load",
        json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] }),
    );
    check(&editor);
}

#[test]
fn tool_calls_are_shown_with_their_kind_their_files_and_what_they_changed() {
    let home = Home::new();
    let _host = host(&home);
    std::fs::write(home.work().join("a.txt"), "one\n").unwrap();
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    editor.call(
        "session/set_config_option",
        json!({ "sessionId": session, "configId": "approval", "value": "all" }),
    );
    let script = r#"call edit {"path":"a.txt","old_str":"one","new_str":"two"} then call bash {"command":"seq 3; exit 4"} then call view {"path":"gone"} then say over"#;
    assert_eq!(editor.stops(&session, script), "end_turn");
    let edited = editor.call_named("edit");
    let path = home.work().join("a.txt");
    assert_eq!(edited["kind"], "edit");
    assert_eq!(edited["status"], "completed");
    assert_eq!(edited["locations"], json!([{ "path": path }]));
    let difference = json!([{ "type": "diff", "path": path, "oldText": "one", "newText": "two" }]);
    assert_eq!(edited["content"], difference);
    let ran = editor.call_named("bash");
    assert_eq!(
        (&ran["kind"], &ran["title"]),
        (&json!("execute"), &json!("seq 3; exit 4"))
    );
    assert_eq!(ran["rawOutput"], json!({ "exitCode": 4 }), "{ran}");
    let output = ran["content"][0]["content"]["text"].as_str().unwrap();
    assert!(output.starts_with("```") && output.contains("1\n2\n3"), "{output}");
    let missing = editor.call_named("view");
    assert_eq!(missing["status"], "failed");
    assert!(
        missing["content"][0]["content"]["text"]
            .as_str()
            .unwrap()
            .contains("gone"),
        "{missing}"
    );
    let statuses = editor.told("tool_call_update");
    assert!(statuses.iter().any(|update| update["status"] == "in_progress"));
}

#[test]
fn permissions_are_asked_for_in_the_editor_with_the_options_of_other_clients() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    for (file, option, made) in [
        ("denied", "deny", false),
        ("once", "allow-once", true),
        ("always", "allow-session", true),
    ] {
        let id = editor.prompt(
            &session,
            &format!(r#"call create {{"path":"{file}","file_text":"x"}} then say over"#),
        );
        let asked = editor.question("session/request_permission");
        let params = &asked["params"];
        assert_eq!(params["sessionId"], session.as_str());
        assert_eq!(params["toolCall"]["content"][0]["type"], "diff", "{asked}");
        let options = params["options"].as_array().unwrap();
        let kinds: Vec<&str> = options.iter().map(|option| option["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "allow_always", "reject_once"]);
        let known = editor
            .told("tool_call")
            .into_iter()
            .any(|call| call["toolCallId"] == params["toolCall"]["toolCallId"]);
        assert!(known, "the call is known before it is asked about");
        editor.answer(&asked, selected(option));
        assert_eq!(editor.wait(id).unwrap()["stopReason"], "end_turn");
        assert_eq!(home.work().join(file).exists(), made, "{file}");
    }
    let answered = log_of(&home, &session);
    let by: Vec<&Value> = answered
        .iter()
        .filter(|event| event["type"] == "lodge.answered")
        .map(|event| &event["data"]["by"]["client"])
        .collect();
    assert_eq!(by, ["test-editor"; 3]);
}

#[test]
fn a_question_that_is_answered_elsewhere_is_taken_back_in_the_editor() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    let id = editor.prompt(
        &session,
        r#"call create {"path":"new.txt","file_text":"x"} then say over"#,
    );
    let asked = editor.question("session/request_permission");
    let mut terminal = home.talk(["attach", &session]);
    terminal.line_with("? Write to");
    terminal.say("y");
    let taken_back = editor.question("$/cancel_request");
    assert_eq!(taken_back["params"]["requestId"], asked["id"]);
    // An editor answers what it was asked, also when nobody wants to know any more.
    editor.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -32800, "message": "cancelled" } }));
    assert_eq!(editor.wait(id).unwrap()["stopReason"], "end_turn");
    assert!(home.work().join("new.txt").exists());
}

#[test]
fn a_session_is_live_in_an_editor_and_a_terminal_at_once() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    assert_eq!(editor.stops(&session, "say from the editor"), "end_turn");
    let mut terminal = home.talk(["attach", &session]);
    terminal.line_with("from the editor");
    terminal.say("say from the terminal");
    terminal.line_with("from the terminal");
    editor.until("the message", |update| {
        update["sessionUpdate"] == "user_message_chunk" && update["content"]["text"] == "say from the terminal"
    });
    editor.until("the answer", |update| {
        update["sessionUpdate"] == "agent_message_chunk" && update["content"]["text"].to_string().contains("terminal")
    });
    let id = editor.prompt(&session, "say both see this");
    terminal.line_with("both see this");
    assert_eq!(editor.wait(id).unwrap()["stopReason"], "end_turn");
    assert_eq!(
        editor.text("user_message_chunk"),
        "say from the terminal",
        "its own messages are not told to it"
    );
    events::check_chain(&log_of(&home, &session)).unwrap();
}

#[test]
fn a_session_is_loaded_with_its_history_and_resumed_without() {
    let home = Home::new();
    let _host = host(&home);
    let _ = home
        .run([
            "run",
            "--yolo",
            r#"think about doors then say Look. then call create {"path":"a","file_text":"x"} then say made"#,
        ])
        .ok();
    let mut editor = Editor::ready(&home);
    let listed = editor.call("session/list", json!({}));
    let session = listed["sessions"][0]["sessionId"].as_str().unwrap().to_owned();
    let open = json!({ "sessionId": session, "cwd": editor.cwd, "mcpServers": [] });
    let loaded = editor.call("session/load", open.clone());
    assert_eq!(loaded["modes"]["currentModeId"], "interactive");
    let told: Vec<&str> = editor
        .updates
        .iter()
        .map(|told| told["update"]["sessionUpdate"].as_str().unwrap())
        .collect();
    let talk: Vec<&&str> = told
        .iter()
        .filter(|kind| kind.contains("chunk") || kind.contains("tool"))
        .collect();
    assert_eq!(
        talk,
        [
            &"user_message_chunk",
            &"agent_thought_chunk",
            &"agent_message_chunk",
            &"tool_call",
            &"tool_call_update",
            &"tool_call_update",
            &"agent_message_chunk"
        ]
    );
    assert_eq!(editor.text("agent_message_chunk"), "Look.made");
    assert_eq!(editor.call_named("create")["status"], "completed");
    assert_eq!(editor.stops(&session, "say more"), "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "Look.mademore");

    let mut other = Editor::ready(&home);
    other.call("session/resume", open);
    other.until("commands", |update| {
        update["sessionUpdate"] == "available_commands_update"
    });
    assert_eq!(other.text("user_message_chunk"), "", "nothing is replayed");
    assert_eq!(other.stops(&session, "what did I say?"), "end_turn");
    let missing = other.try_call(
        "session/load",
        json!({ "sessionId": "none", "cwd": other.cwd, "mcpServers": [] }),
    );
    assert_eq!(missing.unwrap_err()["code"], -32002);
}

#[test]
fn a_turn_is_cancelled_by_its_session_or_by_its_request() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    let begun = |editor: &mut Editor| {
        editor.updates.clear();
        editor.until("the turn", |update| update["sessionUpdate"] == "agent_message_chunk");
    };
    let id = editor.prompt(&session, "say begun then wait 50 s then say too late");
    begun(&mut editor);
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.wait(id).unwrap()["stopReason"], "cancelled");

    let id = editor.prompt(&session, "say begun then wait 50 s then say too late");
    begun(&mut editor);
    editor.notify("$/cancel_request", json!({ "requestId": id }));
    assert_eq!(editor.wait(id).unwrap_err()["code"], -32800);

    // At once, and with one that waits for its turn.
    let first = editor.prompt(&session, "wait 50 s then say too late");
    let second = editor.prompt(&session, "say never");
    editor.notify("session/cancel", json!({ "sessionId": session }));
    let mut stopped = Vec::new();
    while stopped.len() < 2 {
        let answer = editor.next_answer();
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
        stopped.push(answer["id"].as_u64().unwrap());
    }
    stopped.sort_unstable();
    assert_eq!(stopped, [first, second]);

    let id = editor.prompt(&session, r#"call create {"path":"no","file_text":"x"}"#);
    let asked = editor.question("session/request_permission");
    editor.answer(&asked, json!({ "outcome": { "outcome": "cancelled" } }));
    assert_eq!(editor.wait(id).unwrap()["stopReason"], "cancelled");
    assert!(!home.work().join("no").exists());
    assert_eq!(editor.stops(&session, "say still here"), "end_turn");
}

#[test]
fn what_is_wrong_is_said_and_the_connection_lives_on() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    for (line, code) in [
        ("{", -32700),
        ("\u{0}", -32700),
        ("[]", -32600),
        ("{\"id\":7}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"initialize\"}", -32600),
    ] {
        editor.running.say(line);
        let answer = editor.next_answer();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    let prompt = |prompt: Value| json!({ "sessionId": session, "prompt": prompt });
    for (method, params, code) in [
        ("no/such/method", json!({}), -32601),
        ("session/new", json!({}), -32602),
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] }), -32602),
        (
            "session/new",
            json!({ "cwd": "/no/such/directory", "mcpServers": [] }),
            -32602,
        ),
        (
            "session/new",
            json!({ "cwd": editor.cwd, "mcpServers": [{ "name": "a", "args": [], "env": [] }] }),
            -32602,
        ),
        (
            "session/load",
            json!({ "sessionId": "../..", "cwd": editor.cwd, "mcpServers": [] }),
            -32002,
        ),
        ("session/list", json!({ "cursor": "made up" }), -32602),
        ("session/prompt", prompt(json!([])), -32602),
        ("session/prompt", prompt(json!([{ "type": "smell" }])), -32602),
        (
            "session/prompt",
            prompt(json!([{ "type": "audio", "data": "", "mimeType": "audio/wav" }])),
            -32602,
        ),
        (
            "session/prompt",
            prompt(json!([{ "type": "text", "text": "/no-such-command" }])),
            -32602,
        ),
        (
            "session/prompt",
            prompt(json!([{ "type": "text", "text": "fail with quota" }])),
            -32603,
        ),
        (
            "session/prompt",
            prompt(json!([{ "type": "text", "text": "fail with authentication" }])),
            -32000,
        ),
        ("session/prompt", json!({ "sessionId": "none", "prompt": [] }), -32002),
        (
            "session/set_mode",
            json!({ "sessionId": session, "modeId": "holiday" }),
            -32602,
        ),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "weather", "value": "sun" }),
            -32602,
        ),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "model", "value": 7 }),
            -32602,
        ),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "model", "value": "none" }),
            -32602,
        ),
        ("session/close", json!({ "sessionId": "none" }), -32002),
    ] {
        let error = editor.try_call(method, params.clone()).unwrap_err();
        assert_eq!(error["code"], code, "{method} {params}: {error}");
        assert!(
            error["message"].as_str().is_some_and(|message| message.len() > 10),
            "{error}"
        );
    }
    editor.notify("session/cancel", json!({}));
    editor.notify("no/such/notification", json!({}));
    editor.say(&json!({ "jsonrpc": "2.0", "id": 999, "result": {} }));
    assert_eq!(editor.stops(&session, "say still here"), "end_turn");
}

#[test]
fn modes_and_options_are_chosen_and_told() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let made = editor.call("session/new", json!({ "cwd": editor.cwd, "mcpServers": [] }));
    let session = made["sessionId"].as_str().unwrap().to_owned();
    let modes: Vec<&Value> = made["modes"]["availableModes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| &mode["id"])
        .collect();
    assert_eq!(modes, ["interactive", "plan", "autopilot"]);
    let value = |options: &Value, id: &str| {
        let option = options.as_array().unwrap().iter().find(|option| option["id"] == id);
        option.unwrap_or_else(|| panic!("{id}: {options}"))["currentValue"].clone()
    };
    assert_eq!(value(&made["configOptions"], "model"), "rehearsal");
    editor.call("session/set_mode", json!({ "sessionId": session, "modeId": "plan" }));
    editor.until("the mode", |update| update["currentModeId"] == "plan");
    let set = editor.call(
        "session/set_config_option",
        json!({ "sessionId": session, "configId": "approval", "value": "edits" }),
    );
    assert_eq!(value(&set["configOptions"], "approval"), "edits");
    assert_eq!(value(&set["configOptions"], "mode"), "plan");

    let id = editor.prompt(
        &session,
        "write the plan 1. Look. 2. Leap. then present the plan Look, then leap. then say off",
    );
    let asked = editor.question("session/request_permission");
    assert_eq!(asked["params"]["toolCall"]["kind"], "switch_mode", "{asked}");
    let plan = &asked["params"]["toolCall"]["content"][0]["content"]["text"];
    assert!(plan.as_str().unwrap().contains("2. Leap."), "{asked}");
    editor.answer(&asked, selected("interactive"));
    assert_eq!(editor.wait(id).unwrap()["stopReason"], "end_turn");
    editor.until("the mode after the plan", |update| {
        update["currentModeId"] == "interactive"
    });
    let open = json!({ "sessionId": session, "cwd": editor.cwd, "mcpServers": [] });
    let mut other = Editor::ready(&home);
    let loaded = other.call("session/load", open);
    assert_eq!(value(&loaded["configOptions"], "approval"), "edits");
    assert_eq!(loaded["modes"]["currentModeId"], "interactive");
}

#[test]
fn the_agent_asks_by_forms_where_the_editor_shows_them() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    for (answer, said) in [
        (json!({ "action": "accept", "content": { "answer": "blue" } }), "blue"),
        (json!({ "action": "accept", "content": { "other": "green" } }), "green"),
        (json!({ "action": "cancel" }), "left the question open"),
    ] {
        let id = editor.prompt(&session, r#"ask "Which colour?" choices red, blue"#);
        let asked = editor.question("elicitation/create");
        assert_eq!(asked["params"]["message"], "Which colour?");
        let choices = &asked["params"]["requestedSchema"]["properties"]["answer"]["oneOf"];
        assert_eq!(choices[1], json!({ "const": "blue", "title": "blue" }), "{asked}");
        editor.updates.clear();
        editor.answer(&asked, answer.clone());
        assert_eq!(editor.wait(id).unwrap()["stopReason"], "end_turn");
        assert!(
            editor.text("agent_message_chunk").contains(said),
            "{answer}: {:#?}",
            editor.updates
        );
    }
}

#[test]
fn commands_todos_and_titles_are_told() {
    let home = Home::new();
    let _host = host(&home);
    let prompts = home.work().join(".github/prompts");
    std::fs::create_dir_all(&prompts).unwrap();
    std::fs::write(
        prompts.join("greet.prompt.md"),
        "---\ndescription: Greets\n---\nsay hello $ARGUMENTS",
    )
    .unwrap();
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    let told = editor.until("commands", |update| {
        update["sessionUpdate"] == "available_commands_update"
    });
    let names: Vec<&str> = told["availableCommands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"help") && names.contains(&"greet"), "{names:?}");
    assert_eq!(editor.stops(&session, "/usage"), "end_turn");
    assert!(!editor.text("agent_message_chunk").is_empty());
    editor.updates.clear();
    assert_eq!(editor.stops(&session, "/greet you"), "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "hello you");
    let sql = r#"call sql {"query":"INSERT INTO todos (id, title, status) VALUES ('a','Look','done'),('b','Leap','in_progress')","description":"plan"} then say noted"#;
    assert_eq!(editor.stops(&session, sql), "end_turn");
    let plan = editor.told("plan");
    let plan = plan.last().unwrap_or_else(|| panic!("no plan: {:#?}", editor.updates));
    let expected = json!([
        { "content": "Look", "priority": "medium", "status": "completed" },
        { "content": "Leap", "priority": "medium", "status": "in_progress" },
    ]);
    assert_eq!(plan["entries"], expected);
    // One that is done with is taken off the screen, once.
    editor.updates.clear();
    let sql = r#"call sql {"query":"DELETE FROM todos","description":"plan"} then say forgotten"#;
    assert_eq!(editor.stops(&session, &format!("{sql} then {sql}")), "end_turn");
    let plans: Vec<&Value> = editor.told("plan").iter().map(|plan| &plan["entries"]).collect();
    assert_eq!(plans, [&json!([])]);
}

#[test]
fn what_an_editor_says_wrongly_of_itself_costs_nothing_else() {
    let home = Home::new();
    let _host = host(&home);
    let fs = json!({ "readTextFile": null, "writeTextFile": "yes" });
    let can = json!({ "fs": fs, "auth": { "terminal": null }, "session": 7, "elicitation": { "form": {} } });
    let mut editor = Editor::with(&home, can);
    let session = editor.new_session();
    let asked = editor.prompt(
        &session,
        r#"call ask_user {"question":"Which?","choices":["red","blue"]} then say over"#,
    );
    let form = editor.question("elicitation/create");
    editor.answer(&form, json!({ "action": "decline" }));
    assert_eq!(editor.wait(asked).unwrap()["stopReason"], "end_turn");
    let mut nameless = Editor::start(&home);
    let info = json!({ "name": null });
    nameless.call(
        "initialize",
        json!({ "protocolVersion": 1, "clientCapabilities": [], "clientInfo": info }),
    );
    assert_eq!(nameless.new_session().len(), session.len());
}

#[test]
fn how_full_the_context_is_is_told_when_a_session_is_opened() {
    let home = Home::new();
    let mut killed = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    assert_eq!(editor.stops(&session, "say hello"), "end_turn");
    let told = editor.told("usage_update").last().copied().unwrap().clone();
    killed.kill();
    killed.finish();
    drop(editor);
    let _host = host(&home);
    for method in ["session/load", "session/resume"] {
        let mut editor = Editor::ready(&home);
        let cwd = editor.cwd.clone();
        editor.call(method, json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] }));
        let known = editor.until("usage", |update| update["sessionUpdate"] == "usage_update");
        assert_eq!(known["size"], told["size"], "{method}");
        assert!(known["used"].as_u64().unwrap() > 0, "{known}");
    }
}

#[test]
fn a_list_of_a_directory_has_its_sessions_however_it_is_spelt() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let spelt = format!("{}/./", home.work().display());
    let made = editor.call("session/new", json!({ "cwd": spelt, "mcpServers": [] }));
    let session = made["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(editor.stops(&session, "say hello"), "end_turn");
    for cwd in [spelt, home.work().display().to_string()] {
        let listed = editor.call("session/list", json!({ "cwd": cwd }));
        assert_eq!(listed["sessions"][0]["sessionId"], session.as_str(), "{cwd}: {listed}");
    }
}

#[test]
fn sessions_are_closed_and_deleted() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    let id = editor.prompt(&session, "say begun then wait 50 s");
    editor.until("the turn", |update| update["sessionUpdate"] == "agent_message_chunk");
    let closing = editor.send("session/close", json!({ "sessionId": session }));
    let answers = [editor.next_answer(), editor.next_answer()];
    assert_eq!(
        (&answers[0]["id"], &answers[0]["result"]["stopReason"]),
        (&json!(id), &json!("cancelled"))
    );
    assert_eq!(
        (&answers[1]["id"], &answers[1]["result"]),
        (&json!(closing), &json!({}))
    );
    let closed = editor.try_call(
        "session/prompt",
        json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "hi" }] }),
    );
    assert_eq!(closed.unwrap_err()["code"], -32002);
    assert_eq!(home.logs().len(), 1, "it is kept");
    editor.call("session/delete", json!({ "sessionId": session }));
    assert!(home.logs().is_empty());
    // One that is gone, or never was, is deleted without a word.
    editor.call("session/delete", json!({ "sessionId": session }));
    editor.call("session/delete", json!({ "sessionId": "none" }));
    assert_eq!(editor.call("session/list", json!({}))["sessions"], json!([]));
}

#[test]
fn a_question_outlives_the_host_and_is_asked_again_when_the_session_is_loaded() {
    let home = Home::new();
    let mut killed = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    editor.prompt(
        &session,
        r#"call create {"path":"new.txt","file_text":"x"} then say over"#,
    );
    editor.question("session/request_permission");
    killed.kill();
    while editor.running.line().is_some() {}
    let done = editor.running.finish();
    assert!(!done.status.success(), "an editor is told that its agent is gone");
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    editor.call(
        "session/load",
        json!({ "sessionId": session, "cwd": editor.cwd, "mcpServers": [] }),
    );
    let asked = editor.question("session/request_permission");
    editor.answer(&asked, selected("allow-once"));
    editor.until("the end", |update| {
        update["sessionUpdate"] == "agent_message_chunk" && update["content"]["text"].to_string().contains("over")
    });
    assert!(home.work().join("new.txt").exists());
    events::check_chain(&log_of(&home, &session)).unwrap();
}

#[test]
fn a_session_in_which_nothing_was_said_is_in_no_list_until_its_editor_comes_back_and_goes_when_that_closes_it() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let (unused, used) = (editor.new_session(), editor.new_session());
    assert_eq!(editor.stops(&used, "say hello"), "end_turn");
    assert!(editor.running.finish().status.success());
    let mut editor = Editor::ready(&home);
    let listed = editor.call("session/list", json!({}));
    assert!(!listed.to_string().contains(&unused), "{listed}");
    let open = |id: &str, cwd: &Value| json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] });
    let cwd = editor.cwd.clone();
    editor.call("session/load", open(&unused, &cwd));
    assert_eq!(editor.stops(&unused, "say later"), "end_turn");
    editor.call("session/load", open(&used, &cwd));
    for session in [&used, &unused] {
        editor.call("session/close", json!({ "sessionId": session }));
    }
    assert_eq!(home.logs().len(), 2, "what was used stays");
    let empty = editor.new_session();
    editor.call("session/close", json!({ "sessionId": empty }));
    assert_eq!(home.logs().len(), 2);
    assert_eq!(
        editor.try_call("session/load", open(&empty, &cwd)).unwrap_err()["code"],
        -32002
    );
}

/// The protocol's schema: "When omitted or empty, no additional roots are activated."
#[test]
fn the_directories_of_a_session_are_listed_and_become_those_that_the_editor_opens_it_with() {
    let home = Home::new();
    let _host = host(&home);
    let further: Vec<_> = ["one", "two"].map(|name| home.work().join(name)).into();
    for directory in &further {
        std::fs::create_dir_all(directory).unwrap();
    }
    let mut editor = Editor::ready(&home);
    let new = json!({ "cwd": editor.cwd, "additionalDirectories": further, "mcpServers": [] });
    let session = editor.call("session/new", new)["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(editor.stops(&session, "say hello"), "end_turn");
    assert!(editor.running.finish().status.success());
    let mut editor = Editor::ready(&home);
    let listed = |editor: &mut Editor| {
        let listed = editor.call("session/list", json!({}))["sessions"][0].clone();
        assert_eq!((&listed["sessionId"], &listed["cwd"]), (&json!(session), &editor.cwd));
        listed["additionalDirectories"].clone()
    };
    let stored = listed(&mut editor);
    assert_eq!(stored, json!(further));
    let mut open =
        json!({ "sessionId": session, "cwd": editor.cwd, "additionalDirectories": stored, "mcpServers": [] });
    editor.call("session/load", open.clone());
    assert_eq!(listed(&mut editor), json!(further));
    open["additionalDirectories"] = json!([further[1]]);
    editor.call("session/resume", open.clone());
    assert_eq!(listed(&mut editor), json!([further[1]]));
    open.as_object_mut().unwrap().remove("additionalDirectories");
    editor.call("session/resume", open);
    assert_eq!(listed(&mut editor), json!([]));
}

/// An MCP server with a tool that wants a page to be visited.
const SIGN_UP: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) answer='{"tools":[{"name":"sign-up","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*)
      call=$id
      printf '%s\n' '{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"mode":"url","elicitationId":"7","url":"https://pages.example/7","message":"Sign up there."}}'
      continue ;;
    *'"action"'*)
      id=$call
      case "$line" in *'"accept"'*) said=visited ;; *) said=refused ;; esac
      answer='{"content":[{"type":"text","text":"'$said'"}]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
done
"#;

#[test]
fn pages_that_mcp_servers_want_visited_are_shown_and_their_end_is_told() {
    let home = Home::new();
    let _host = host(&home);
    let program = home.work().join("sign-up.sh");
    std::fs::write(&program, SIGN_UP).unwrap();
    let server = json!([{ "name": "pages", "command": "sh", "args": [program], "env": [] }]);
    for (capabilities, mode) in [
        (json!({ "form": {}, "url": {} }), "url"),
        (json!({ "form": {} }), "form"),
    ] {
        let mut editor = Editor::with(&home, json!({ "elicitation": capabilities }));
        let made = editor.call("session/new", json!({ "cwd": editor.cwd, "mcpServers": server }));
        let session = made["sessionId"].as_str().unwrap().to_owned();
        let chosen = json!({ "sessionId": session, "configId": "approval", "value": "all" });
        editor.call("session/set_config_option", chosen);
        let prompt = editor.prompt(&session, "call pages-sign-up {}");
        let asked = editor.question("elicitation/create");
        let shown = &asked["params"];
        assert_eq!(shown["mode"], mode, "{asked}");
        let message = shown["message"].as_str().unwrap();
        assert!(message.starts_with("Sign up there."), "{message}");
        // A client without pages gets the address as text.
        assert_eq!(message.contains("https://pages.example/7"), mode == "form");
        assert_eq!(shown["url"] == "https://pages.example/7", mode == "url");
        let answer = match mode {
            "url" => json!({ "action": "accept" }),
            _ => json!({ "action": "accept", "content": {} }),
        };
        editor.answer(&asked, answer);
        assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "end_turn");
        let said = editor.text("agent_message_chunk");
        assert!(said.contains("visited"), "{said}: {:#?}", editor.updates);
        let completed: Vec<Value> = editor.asked.drain(..).collect();
        match mode {
            "url" => {
                let [completed] = &completed[..] else {
                    panic!("{completed:?}")
                };
                assert_eq!(completed["method"], "elicitation/complete");
                assert_eq!(completed["params"]["elicitationId"], shown["elicitationId"]);
            }
            _ => assert!(completed.is_empty(), "{completed:?}"),
        }
    }
}

#[test]
fn notices_and_compactions_are_shown_where_the_editor_shows_them() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::with(&home, json!({ "session": { "notices": {}, "compaction": {} } }));
    let session = editor.new_session();
    for prompt in ["say one", "say two", "/rewind"] {
        assert_eq!(editor.stops(&session, prompt), "end_turn");
    }
    let notices = editor.told("notice");
    let [notice] = &notices[..] else { panic!("{notices:#?}") };
    assert_eq!(notice["severity"], "warning");
    assert!(notice["title"].as_str().unwrap().contains("rewound"), "{notice}");
    assert!(!editor.text("agent_message_chunk").contains("Warning"));
    assert_eq!(editor.stops(&session, "/compact"), "end_turn");
    let told: Vec<Value> = editor.told("compaction_update").into_iter().cloned().collect();
    let [began, ended] = &told[..] else { panic!("{told:#?}") };
    assert_eq!(
        (&began["status"], &ended["status"]),
        (&json!("in_progress"), &json!("completed"))
    );
    assert_eq!(began["compactionId"], ended["compactionId"]);
    assert!(ended["summary"][0]["text"].is_string(), "{ended}");
}

#[test]
fn calls_of_sub_agents_are_asked_about_and_shown() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    let below = r#"call create {"path":"below","file_text":"x"} then say made"#;
    let task =
        json!({ "agent_type": "general-purpose", "name": "helper", "description": "Make a file", "prompt": below });
    let id = editor.prompt(&session, &format!("call task {task} then say above"));
    let asked = editor.question("session/request_permission");
    let call = asked["params"]["toolCall"]["toolCallId"].clone();
    editor.answer(&asked, selected("allow-once"));
    assert_eq!(editor.wait(id).unwrap()["stopReason"], "end_turn");
    assert!(home.work().join("below").exists());
    let updates = editor.told("tool_call_update");
    let last = updates.iter().rfind(|update| update["toolCallId"] == call).unwrap();
    assert_eq!(last["status"], "completed", "{updates:#?}");
    assert_eq!(
        editor.text("agent_message_chunk"),
        "above",
        "what a sub-agent says is for its agent"
    );
}

#[test]
fn a_model_that_was_brought_is_used_without_starting_again() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    let refused = editor.try_call(
        "session/prompt",
        json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "fail with authentication" }] }),
    );
    assert_eq!(refused.unwrap_err()["code"], -32000);
    let config = "default_model = \"mine\"\n[[provider]]\nname = \"local\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[[model]]\nid = \"mine\"\nprovider = \"local\"\n";
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
    let made = editor.call("session/new", json!({ "cwd": editor.cwd, "mcpServers": [] }));
    let chosen = |options: &Value| {
        let option = options
            .as_array()
            .unwrap()
            .iter()
            .find(|option| option["id"] == "model")
            .unwrap();
        option["currentValue"].clone()
    };
    assert_eq!(chosen(&made["configOptions"]), "mine", "the next request finds it");
    let told = editor.until("the model of the open session", |update| {
        update["sessionUpdate"] == "config_option_update" && chosen(&update["configOptions"]) == "mine"
    });
    assert_eq!(chosen(&told["configOptions"]), "mine");
    // A model that nobody uses yet can be chosen in sessions that are open.
    let more = format!("{config}[[model]]\nid = \"other\"\nprovider = \"local\"\n");
    std::fs::write(home.path().join("lodge.toml"), more).unwrap();
    editor.updates.clear();
    editor.call("authenticate", json!({ "methodId": "lodge-configuration" }));
    editor.until("the new model", |update| {
        update["sessionUpdate"] == "config_option_update" && update.to_string().contains("\"other\"")
    });
    std::fs::write(home.path().join("lodge.toml"), "default_model = [").unwrap();
    let broken = editor
        .try_call("authenticate", json!({ "methodId": "lodge-configuration" }))
        .unwrap_err();
    assert!(broken["message"].as_str().unwrap().contains("lodge.toml"), "{broken}");
}

#[test]
fn editors_that_start_at_the_same_time_share_one_host() {
    let home = Home::new();
    let mut editors: Vec<Editor> = (0..4).map(|_| Editor::start(&home)).collect();
    for editor in &mut editors {
        editor.call("initialize", json!({ "protocolVersion": 1 }));
    }
    let session = editors[0].new_session();
    assert_eq!(editors[0].stops(&session, "say hello"), "end_turn");
    for editor in &mut editors {
        let listed = editor.call("session/list", json!({}));
        assert_eq!(listed["sessions"][0]["sessionId"], session.as_str(), "{listed}");
    }
    drop(editors);
    let _ = home.run(["serve", "--stop"]).ok();
}

#[test]
fn editors_with_homes_of_their_own_start_at_the_same_time() {
    let homes: Vec<Home> = (0..6).map(|_| Home::new()).collect();
    std::thread::scope(|scope| {
        for home in &homes {
            scope.spawn(|| {
                let mut editor = Editor::ready(home);
                let session = editor.new_session();
                assert_eq!(editor.stops(&session, "say hello"), "end_turn");
                drop(editor);
                let _ = home.run(["serve", "--stop"]).ok();
            });
        }
    });
}

#[test]
fn files_are_read_and_written_through_an_editor_that_offers_it() {
    let home = Home::new();
    let _host = host(&home);
    let (a, b) = (home.work().join("a.txt"), home.work().join("b.txt"));
    std::fs::write(&a, "saved\n").unwrap();
    let mut editor = Editor::with(&home, json!({ "fs": { "readTextFile": true, "writeTextFile": true } }));
    let session = editor.new_session();
    editor.call(
        "session/set_config_option",
        json!({ "sessionId": session, "configId": "approval", "value": "all" }),
    );
    let script = r#"call view {"path":"a.txt"} then call edit {"path":"a.txt","old_str":"unsaved","new_str":"changed"} then call create {"path":"b.txt","file_text":"new"} then say over"#;
    let prompt = editor.prompt(&session, script);
    // It is looked at once, and before and after the change is decided on.
    for _ in 0..3 {
        let asked = editor.question("fs/read_text_file");
        assert_eq!(asked["params"], json!({ "sessionId": session, "path": a }));
        editor.answer(&asked, json!({ "content": "unsaved\n" }));
    }
    let asked = editor.question("fs/write_text_file");
    let expected = json!({ "sessionId": session, "path": a, "content": "changed\n" });
    assert_eq!(asked["params"], expected);
    std::fs::write(&a, "changed\n").unwrap();
    editor.answer(&asked, json!({}));
    // What the editor does not do is done without it.
    let asked = editor.question("fs/write_text_file");
    assert_eq!(asked["params"]["path"], json!(b));
    let id = &asked["id"];
    editor.say(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": "No." } }));
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(&b).unwrap(), "new");
    let log = log_of(&home, &session);
    let results: Vec<&str> = log
        .iter()
        .filter(|event| event["type"] == "tool.execution_complete")
        .map(|event| event["data"]["result"]["content"].as_str().unwrap_or_default())
        .collect();
    assert!(results[0].contains("unsaved"), "{results:?}");
    assert!(results[1].contains("updated"), "{results:?}");
}

#[test]
fn a_session_that_is_being_made_when_its_editor_goes_is_not_kept() {
    let home = Home::new();
    let _host = host(&home);
    let mut known = 0;
    for _ in 0..5 {
        let mut editor = Editor::ready(&home);
        let cwd = editor.cwd.clone();
        for _ in 0..3 {
            editor.send("session/new", json!({ "cwd": cwd, "mcpServers": [] }));
        }
        let done = editor.running.finish();
        assert!(done.status.success());
        // Those that the editor was told of are kept for a while.
        known += done.lines.iter().filter(|line| line.contains("sessionId")).count();
        assert!(home.logs().len() <= known, "{known} of {}", home.logs().len());
    }
}

#[test]
fn requests_beyond_the_bound_and_with_an_id_in_use_are_refused() {
    let home = Home::new();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = editor.new_session();
    let first = editor.prompt(&session, r#"call bash {"command":"touch x"} then say over"#);
    editor.question("session/request_permission");
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "say more" }] });
    editor.say(&json!({ "jsonrpc": "2.0", "id": first, "method": "session/prompt", "params": prompt }));
    let refused = editor.next_answer();
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(first), &json!(-32600))
    );
    for _ in 0..300 {
        editor.prompt(&session, "say more");
    }
    for _ in 0..45 {
        let refused = editor.next_answer();
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains("256 requests"), "{why}");
    }
    editor.notify("session/cancel", json!({ "sessionId": session }));
    for _ in 0..256 {
        let answer = editor.next_answer();
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    }
}

/// What was said and done in a session, without ids and times.
fn conversation(home: &Home, session: &str) -> Vec<Value> {
    let chain = |event: &&Value| !event["type"].as_str().unwrap().starts_with("lodge.");
    let log = log_of(home, session);
    let events = log.iter().filter(chain).filter_map(|event| {
        let (kind, data) = (event["type"].as_str().unwrap(), &event["data"]);
        let fields: &[&str] = match kind {
            "user.message" | "assistant.reasoning" => &["/content"],
            "assistant.message" => &[
                "/content",
                "/reasoningText",
                "/toolRequests/0/name",
                "/toolRequests/0/arguments",
            ],
            "assistant.turn_start" | "assistant.turn_end" => &["/turnId"],
            "tool.execution_start" => &["/toolName", "/arguments"],
            "tool.execution_complete" => &["/success", "/result/content", "/error/message"],
            "subagent.started" => &["/agentName", "/agentDescription"],
            "session.error" | "session.warning" => &["/message"],
            // Faces open sessions with settings of their own.
            _ if kind.starts_with("session.") || kind == "system.message" => return None,
            _ => &[],
        };
        let values: Vec<&Value> = fields.iter().filter_map(|field| data.pointer(field)).collect();
        Some(json!([kind, event.get("agentId").is_some(), values]))
    });
    let mut events: Vec<Value> = events.collect();
    // Calls side by side start and end in any order.
    let is_call = |event: &Value| event[0].as_str().unwrap().starts_with("tool.execution_");
    for calls in events.chunk_by_mut(|a, b| is_call(a) && is_call(b)) {
        calls.sort_by_key(Value::to_string);
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_script_is_the_same_conversation_whichever_face_it_comes_by() {
    let host = Host::start_in(Home::new(), "");
    let (mut editor, mut sdk) = (Editor::ready(&host.home), Sdk::connect(&host));
    let mut ahp = Client::connect(&host.ahp_url(), "test").await;
    std::fs::write(host.home.work().join("seen.txt"), "seen").unwrap();
    for (number, script) in [
        "stream 20 chunks",
        "think about doors then say They open.",
        r#"call view {"path":"seen.txt"} and glob {"pattern":"*"} then say seen"#,
        r#"call view {"path":"missing"} then say over"#,
        r#"start an agent "say below" then say above"#,
        "fail with server error 2 times then say ok",
    ]
    .into_iter()
    .enumerate()
    {
        let by_acp = editor.new_session();
        assert_eq!(editor.stops(&by_acp, script), "end_turn");
        let mut make = || {
            let made = sdk.call("session.create", json!({ "workingDirectory": host.home.work() }));
            let made = made.unwrap()["sessionId"].clone();
            // The SDKs have everything asked, unless an app wants it otherwise.
            let all = json!({ "sessionId": made, "mode": "allow-all" });
            sdk.call("session.permissions.setMode", all).unwrap();
            made.as_str().unwrap().to_owned()
        };
        let (by_sdk, by_ahp) = (make(), make());
        sdk.turn(&by_sdk, script);
        let chat = ahp.subscribe(&format!("lodge:/{by_ahp}")).await["defaultChat"].clone();
        let (chat, id) = (chat.as_str().unwrap(), format!("turn-{number}"));
        ahp.subscribe(chat).await;
        ahp.accepted(chat, turn(&id, script)).await;
        ahp.ends(&id).await;
        let expected = conversation(&host.home, &by_acp);
        assert!(expected.len() > 3, "{expected:#?}");
        for other in [by_sdk, by_ahp] {
            assert_eq!(conversation(&host.home, &other), expected, "{script}");
        }
    }
}
