//! Agents that lie about what they want: people are asked about exactly what an agent asks for, and allow that and nothing else.

use serde_json::{Value, json};
use testkit::Home;

use crate::{
    acp::{Editor, host, log_of, selected},
    chat::Screen,
    external::{END, GREETING, TERMINAL_ID, allow_all, ask, configure, permission, with_agent},
};

/// What an editor shows of a question, whatever else it was sent.
fn shown(question: &Value) -> String {
    let call = &question["params"]["toolCall"];
    format!("{}\n{}", call["title"], call["content"])
}

#[test]
fn an_answer_allows_what_was_asked_and_nothing_that_only_looks_like_it() {
    let home = Home::new();
    std::fs::create_dir(home.work().join("sub")).unwrap();
    let note = home.work().join("note").display().to_string();
    let run = |id: u64, wanted: Value| ask(id, "terminal/create", wanted);
    let execute = |command: &str| json!({ "toolCallId": "c", "kind": "execute", "rawInput": { "command": command } });
    let ended = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": {
        "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed" } } });
    let change = json!({ "type": "diff", "path": note, "newText": "one" });
    let steps = [
        permission(10, execute("touch ran")),
        run(11, json!({ "command": "touch ran" })),
        run(
            12,
            json!({ "command": "touch", "args": ["ran"], "env": [{ "name": "EVIL", "value": "1" }] }),
        ),
        run(13, json!({ "command": "touch ran", "cwd": "sub" })),
        TERMINAL_ID.to_owned(),
        ask(14, "terminal/wait_for_exit", json!({ "terminalId": "ID" })).replace("ID", "'\"$id\"'"),
        permission(15, json!({ "toolCallId": "e", "kind": "edit", "content": [change] })),
        ask(16, "fs/write_text_file", json!({ "path": note, "content": "one" })),
        ask(17, "fs/write_text_file", json!({ "path": note, "content": "two" })),
        run(18, json!({ "command": note })),
        format!("say '{ended}'\n"),
        permission(19, execute("touch other")),
    ];
    let script = format!("{GREETING}{}{END}", steps.concat());
    configure(&home, &[("sly", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "sly");
    let prompt = editor.prompt(&session, "go");
    let (answer, asked) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let asked: Vec<String> = asked
        .iter()
        .map(|question| question["params"]["toolCall"].to_string())
        .collect();
    let expected = ["touch ran", "EVIL=1", "touch ran", "note", "two", "note", "touch other"];
    assert_eq!(asked.len(), expected.len(), "{asked:#?}");
    for (question, expected) in asked.iter().zip(expected) {
        assert!(question.contains(expected), "{expected}: {question}");
    }
    assert!(
        home.work().join("sub/ran").exists(),
        "it runs where people were asked about"
    );
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "two");
}

#[test]
fn people_are_shown_what_an_agent_asks_for_and_not_what_it_said_of_the_call() {
    let home = Home::new();
    let update = |update: Value| {
        let update = json!({ "jsonrpc": "2.0", "method": "session/update",
            "params": { "sessionId": "s", "update": update } });
        format!("say '{update}'\n")
    };
    let call = |kind: &str, command: &str, status: &str| {
        json!({ "sessionUpdate": kind, "toolCallId": "c", "title": "List files", "kind": "execute", "status": status,
            "rawInput": { "command": command } })
    };
    let words =
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "All harmless." } });
    // The call is described as harmless before the question and while it is open.
    let meanwhile = update(call("tool_call_update", "ls", "in_progress")) + &update(words);
    let asked = permission(10, call("tool_call_update", "touch evil", "pending"));
    let path = |name: &str| home.work().join(name).display().to_string();
    let write = |id: u64, name: &str| {
        let text = format!("text of {name}");
        ask(id, "fs/write_text_file", json!({ "path": path(name), "content": text }))
    };
    let steps = [
        update(call("tool_call", "ls", "in_progress")),
        asked.replacen("\nread -r line", &format!("\n{meanwhile}read -r line"), 1),
        write(11, "one"),
        write(12, "two"),
        update(call("tool_call_update", "ls", "completed")),
        update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "Over." } })),
    ];
    let script = format!("{GREETING}{}{END}", steps.concat());
    configure(&home, &[("sly", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    screen.say("/model sly");
    screen.until("the agent's name below the editor", |shown| {
        shown.lines().last().is_some_and(|line| line.contains("sly"))
    });
    screen.say("go");
    screen.until("the question, whatever is said beside it", |shown| {
        shown.contains("All harmless.") && shown.contains("Run this command?") && shown.contains("touch evil")
    });
    screen.press("y");
    for name in ["one", "two"] {
        let (asked, text) = (format!("Write to `{}`?", path(name)), format!("+ text of {name}"));
        screen.until("the file that is asked about", |shown| {
            shown.contains(&asked) && shown.contains(&text)
        });
        screen.press("y");
    }
    screen.until("the end", |shown| {
        shown.contains("Over.") && !shown.contains("Esc stops")
    });
    assert_eq!(std::fs::read_to_string(path("two")).unwrap(), "text of two");
    screen.leave();
    let log = &home.logs()[0];
    let log = std::fs::read_to_string(log).unwrap();
    let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| log.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    for question in of("lodge.question") {
        assert_eq!(
            question["data"]["toolCallId"],
            Value::Null,
            "no call says what is asked: {question}"
        );
    }
    assert_eq!(of("tool.execution_complete").len(), 1, "the call has one result");
}

#[test]
fn a_question_shows_every_file_every_change_and_the_whole_command() {
    let home = Home::new();
    let place = |name: &str| home.work().join(name).display().to_string();
    let change = |name: &str| json!({ "type": "diff", "path": place(name), "newText": format!("text of {name}") });
    let files = json!({ "toolCallId": "e", "title": "Fix a typo", "kind": "edit", "rawInput": { "path": "one" },
        "content": [change("one"), change("two")] });
    let command = json!({ "toolCallId": "c", "kind": "execute",
        "rawInput": { "command": "git", "args": ["push", "--force"] } });
    let unknown = json!({ "toolCallId": "u", "title": "Fix a typo", "kind": "edit",
        "locations": [{ "path": place("three") }], "rawInput": { "file_path": "three" } });
    let denied = json!({ "toolCallId": "d", "kind": "edit", "content": [change("one"), change("secret")] });
    let write = json!({ "path": place("two"), "content": "text of two" });
    let steps = [
        permission(10, files),
        ask(11, "fs/write_text_file", write),
        permission(12, command),
        permission(13, unknown),
        permission(14, denied),
    ];
    let script = format!("{GREETING}{}{END}", steps.concat());
    configure(&home, &[("sly", "/bin/sh", &["-c", &script])]);
    let rules = "[[deny]]\npath = \"**/secret\"\n";
    std::fs::write(home.path().join("permissions.toml"), rules).unwrap();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "sly");
    let prompt = editor.prompt(&session, "go");
    let (answer, asked) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let asked: Vec<String> = asked.iter().map(shown).collect();
    assert_eq!(asked.len(), 4, "what was asked about is not asked again: {asked:#?}");
    for (question, part) in asked.iter().zip(["text of one", "text of two", "--force", "three"]) {
        assert!(question.contains(part), "{part}: {question}");
    }
    assert!(asked[..2].iter().all(|asked| asked.contains("\"diff\"")), "{asked:#?}");
    let answers = std::fs::read_to_string(home.work().join("answers")).unwrap();
    let last = answers.lines().last().unwrap();
    assert!(last.contains("\"n\""), "a rule forbids a part of it: {last}");
    let log = log_of(&home, &session);
    let wanted: Vec<String> = log
        .iter()
        .filter(|event| event["data"]["toolRequests"].is_array())
        .map(|event| event["data"]["toolRequests"].to_string())
        .collect();
    assert!(wanted[0].contains("text of two"), "{wanted:#?}");
    assert!(wanted[1].contains("--force"), "{wanted:#?}");
    assert!(
        wanted[2].contains("three") && !wanted[2].contains("typo"),
        "{wanted:#?}"
    );
}

#[test]
fn a_request_that_names_more_than_one_thing_is_shown_whole_and_allowed_once() {
    let home = Home::new();
    std::fs::create_dir(home.work().join("sub")).unwrap();
    std::fs::write(home.work().join("part"), "a b c").unwrap();
    let place = |name: &str| home.work().join(name).display().to_string();
    let call = |kind: &str, input: Value, more: Value| {
        let mut call = json!({ "toolCallId": "c", "title": "List files", "kind": kind, "rawInput": input });
        for (name, value) in more.as_object().unwrap() {
            call[name] = value.clone();
        }
        call
    };
    let change = |name: &str, old: Value, new: &str| json!({ "type": "diff", "path": place(name), "oldText": old, "newText": new });
    let both = call(
        "other",
        json!({ "command": "ls", "then": "rm -r b" }),
        json!({ "name": "bash" }),
    );
    let lies = [
        (
            call("execute", json!({ "command": "ls", "cmd": "rm -r a" }), json!({})),
            "rm -r a",
        ),
        (both.clone(), "rm -r b"),
        (both, "rm -r b"),
        (call("execute", json!({}), json!({ "title": "rm -r c" })), "rm -r c"),
        (
            call("execute", json!({ "command": "touch d", "cwd": "sub" }), json!({})),
            "/sub && touch d",
        ),
        (
            call(
                "execute",
                json!({ "command": "ls" }),
                json!({ "content": [change("e", Value::Null, "new")] }),
            ),
            "+new",
        ),
        (
            call(
                "execute",
                json!({ "command": "touch h" }),
                json!({ "locations": [{ "path": place("h") }] }),
            ),
            "touch h",
        ),
        (
            call(
                "execute",
                json!({ "command": "touch h" }),
                json!({ "locations": [{ "path": place("hidden") }] }),
            ),
            "/hidden",
        ),
        (
            call(
                "execute",
                json!({ "command": "touch k" }),
                json!({ "content": [change("k", Value::Null, "new")] }),
            ),
            "+new",
        ),
        (
            call(
                "read",
                json!({ "path": "/etc/shadow" }),
                json!({ "locations": [{ "path": place("README") }] }),
            ),
            "/etc/shadow",
        ),
        (
            call(
                "edit",
                json!({ "file_path": "f" }),
                json!({ "content": [change("g", Value::Null, "new")] }),
            ),
            "\\\"f\\\"",
        ),
        (
            call(
                "edit",
                json!({}),
                json!({ "content": [change("part", json!("b"), "B")] }),
            ),
            "a B c",
        ),
    ];
    let mut steps: Vec<String> = Vec::new();
    for (at, (lie, _)) in lies.iter().enumerate() {
        let mut lie = lie.clone();
        lie["toolCallId"] = json!(format!("c{at}"));
        steps.push(permission(10 + at as u64, lie));
    }
    // What the last question showed, and nothing else, is written without another one.
    let write = |id: u64, text: &str| {
        ask(
            id,
            "fs/write_text_file",
            json!({ "path": place("part"), "content": text }),
        )
    };
    steps.extend([write(50, "a B c"), write(51, "B")]);
    let only_always = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_always" }]);
    let call = json!({ "toolCallId": "z", "kind": "execute", "rawInput": { "command": "touch z" } });
    let always = json!({ "toolCall": call, "options": only_always });
    steps.push(ask(52, "session/request_permission", always));
    let script = format!("{GREETING}{}{END}", steps.concat());
    configure(&home, &[("sly", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "sly");
    let prompt = editor.prompt(&session, "go");
    for (lie, part) in &lies {
        let question = editor.question("session/request_permission");
        assert!(shown(&question).contains(part), "{part} of {lie}: {}", shown(&question));
        let is_clear = ["a B c", "/sub && touch d", "/etc/shadow", "touch h"].contains(part);
        let title = question["params"]["toolCall"]["title"].as_str().unwrap();
        assert_eq!(title == "Agent sly", !is_clear, "{title}");
        let option = if is_clear { "allow-once" } else { "allow-session" };
        editor.answer(&question, selected(option));
    }
    let (answer, asked) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(asked.len(), 2, "another text is asked about: {asked:#?}");
    let answers = std::fs::read_to_string(home.work().join("answers")).unwrap();
    let last = answers.lines().last().unwrap();
    assert!(last.contains("cancelled"), "nobody allowed it for ever: {last}");
}

#[test]
fn what_was_allowed_for_a_call_ends_with_the_call_and_yields_to_plan_mode() {
    let home = Home::new();
    let execute =
        |id: &str, command: &str| json!({ "toolCallId": id, "kind": "execute", "rawInput": { "command": command } });
    let ended = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": {
        "sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed" } } });
    let run = |id: u64, command: &str| ask(id, "terminal/create", json!({ "command": command }));
    let steps = [
        permission(10, execute("a", "touch one")),
        // The agent says that it did it by itself.
        format!("say '{ended}'\n"),
        run(11, "touch one"),
        permission(12, execute("b", "touch two")),
        permission(13, execute("c", "touch three")),
        run(14, "touch two"),
    ];
    let script = format!("{GREETING}{}{END}", steps.concat());
    configure(&home, &[("sly", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "sly");
    let prompt = editor.prompt(&session, "go");
    for (expected, option) in [
        ("touch one", "allow-once"),
        ("touch one", "deny"),
        ("touch two", "allow-once"),
    ] {
        let question = editor.question("session/request_permission");
        assert!(shown(&question).contains(expected), "{expected}: {question}");
        editor.answer(&question, selected(option));
    }
    let question = editor.question("session/request_permission");
    assert!(shown(&question).contains("touch three"), "{question}");
    editor.call("session/set_mode", json!({ "sessionId": session, "modeId": "plan" }));
    editor.answer(&question, selected("allow-once"));
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "end_turn");
    let answers = std::fs::read_to_string(home.work().join("answers")).unwrap();
    let answers: Vec<&str> = answers.lines().collect();
    for (answer, part) in answers.iter().zip(["\"y\"", "denied", "\"y\"", "\"n\"", "Plan mode"]) {
        assert!(answer.contains(part), "{part}: {answers:#?}");
    }
    assert_eq!(answers.len(), 5, "{answers:#?}");
    assert!(!home.work().join("two").exists());
}

#[test]
fn commands_of_an_agent_reach_no_further_than_those_of_lodge() {
    if !lodge_tools::sandbox::available() {
        return;
    }
    let home = Home::new();
    let token = home.path().join("token").display().to_string();
    let script = format!("cat '{token}' > got\necho ran > ran\n");
    std::fs::write(home.work().join("look.sh"), script).unwrap();
    let steps = [
        ask(10, "terminal/create", json!({ "command": "bash", "args": ["look.sh"] })),
        TERMINAL_ID.to_owned(),
        ask(11, "terminal/wait_for_exit", json!({ "terminalId": "ID" })).replace("ID", "'\"$id\"'"),
    ];
    let script = format!("{GREETING}{}{END}", steps.concat());
    configure(&home, &[("sly", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "sly");
    let prompt = editor.prompt(&session, "go");
    let (answer, _) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let read = |name: &str| std::fs::read_to_string(home.work().join(name)).unwrap();
    assert_eq!((read("ran").as_str(), read("got").as_str()), ("ran\n", ""));
    assert!(home.path().join("token").exists());
}
