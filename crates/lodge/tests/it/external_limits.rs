//! Hosted agents that want, say or print more than anybody could take, and agents that speak when nobody listens.

use serde_json::{Value, json};
use testkit::Home;

use crate::{
    acp::{Editor, host, log_of},
    external::{END, GREETING, TERMINAL_ID, ask, configure, permission, with_agent},
    strangers::{Host, Sdk},
};

/// A home with one agent, which runs this script.
pub(crate) fn with_script(name: &str, script: &str) -> Home {
    let home = Home::new();
    let file = home.work().join("agent.sh");
    std::fs::write(&file, script).unwrap();
    configure(&home, &[(name, "/bin/sh", &[file.to_str().unwrap()])]);
    home
}

fn approve_all(home: &Home) {
    std::fs::write(home.path().join("permissions.toml"), "mode = \"approve-all\"\n").unwrap();
}

pub(crate) fn update(update: Value) -> String {
    let update =
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } });
    format!("say '{update}'\n")
}

pub(crate) fn words(text: &str) -> String {
    update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }))
}

/// What the agent was answered, by the ids of its requests.
pub(crate) fn answer_to(home: &Home, id: u64) -> Value {
    let answers = std::fs::read_to_string(home.work().join("answers")).unwrap();
    let answers = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut found = answers.filter(|answer| answer["id"] == id);
    found.next().unwrap_or_else(|| panic!("no answer to {id}"))
}

pub(crate) fn warnings(log: &[Value]) -> Vec<&str> {
    let warnings = log.iter().filter(|event| event["type"] == "session.warning");
    warnings
        .map(|event| event["data"]["message"].as_str().unwrap())
        .collect()
}

/// Waits until a file of the session has so many lines.
pub(crate) fn until_lines(home: &Home, file: &str, lines: usize) {
    let file = home.work().join(file);
    while std::fs::read_to_string(&file).unwrap_or_default().lines().count() < lines {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn an_agent_gets_the_end_of_a_long_output_and_people_watch_a_command_as_it_prints() {
    let of_terminal = |id: u64, method: &str| ask(id, method, json!({ "terminalId": "ID" })).replace("ID", "'\"$id\"'");
    let call = update(
        json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Counts", "kind": "execute",
        "status": "in_progress", "content": [{ "type": "terminal", "terminalId": "ID" }] }),
    );
    let steps = [
        ask(10, "terminal/create", json!({ "command": "seq 300000" })),
        TERMINAL_ID.to_owned(),
        of_terminal(11, "terminal/wait_for_exit"),
        of_terminal(12, "terminal/output"),
        ask(
            13,
            "terminal/create",
            json!({ "command": "echo first; until [ -e go ]; do sleep 0.02; done; echo second" }),
        ),
        TERMINAL_ID.to_owned(),
        call.replace("ID", "'\"$id\"'"),
        // It says nothing of the call until the command has ended.
        of_terminal(14, "terminal/wait_for_exit"),
        update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed" })),
    ];
    let home = with_script("runs", &format!("{GREETING}{}{END}", steps.concat()));
    approve_all(&home);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "runs");
    let prompt = editor.prompt(&session, "go");
    editor.until("what the command printed first", |update| {
        update.to_string().contains("first")
    });
    std::fs::write(home.work().join("go"), "").unwrap();
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "end_turn");
    let printed = &answer_to(&home, 12)["result"];
    let output = printed["output"].as_str().unwrap();
    assert!(output.ends_with("299999\n300000\n"), "{}", &output[output.len() - 40..]);
    assert_eq!(printed["truncated"], true);
    assert!(output.len() <= 1 << 20, "{}", output.len());
    let log = log_of(&home, &session);
    let end = log
        .iter()
        .find(|event| event["type"] == "tool.execution_complete")
        .unwrap();
    assert_eq!(end["data"]["result"]["content"], "first\nsecond\n");
}

#[test]
fn a_request_about_thousands_of_files_is_refused_while_other_sessions_answer() {
    let change = |at: usize| json!({ "type": "diff", "path": format!("d/d/d/d/d/d/f{at}"), "newText": "x" });
    let changes = |number: usize| (0..number).map(change).collect::<Vec<_>>();
    let call = |id: &str, number: usize| json!({ "toolCallId": id, "kind": "edit", "content": changes(number) });
    let script = format!(
        "{GREETING}{}{}{END}",
        permission(10, call("many", 5000)),
        permission(11, call("some", 100))
    );
    let home = with_script("greedy", &script);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let beside = editor.new_session();
    let session = with_agent(&mut editor, "greedy");
    let prompt = editor.prompt(&session, "go");
    // More files than are described one by one are one question, and nobody waits for the answer to it.
    let question = editor.question("session/request_permission");
    assert_eq!(question["params"]["toolCall"]["title"], "Agent greedy");
    assert!(question.to_string().contains("f99"), "{question}");
    assert_eq!(editor.stops(&beside, "say still here"), "end_turn");
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "cancelled");
    assert_eq!(answer_to(&home, 10)["result"]["outcome"]["optionId"], "n");
    let log = log_of(&home, &session);
    let told = warnings(&log);
    assert!(told[0].contains("bytes long when it is shown"), "{told:?}");
}

#[test]
fn what_nobody_could_judge_is_refused_and_people_are_told() {
    let long = "x".repeat(600 << 10);
    let mut names: Vec<String> = (0..2000).map(|at| format!("a{at:04}")).collect();
    names.push("denied/key".to_owned());
    let line = |text: &str| json!({ "path": "line", "content": text });
    let steps = [
        permission(10, json!({ "toolCallId": "a", "rawInput": { "long": long } })),
        permission(11, json!({ "toolCallId": "b", "rawInput": { "names": names } })),
        permission(
            12,
            json!({ "toolCallId": "c", "kind": "execute", "rawInput": { "command": format!("ls {long}") } }),
        ),
        ask(13, "terminal/create", json!({ "command": "ls", "args": [long] })),
        ask(14, "fs/write_text_file", line(&format!("y{long}"))),
        ask(15, "fs/read_text_file", json!({ "path": "n".repeat(5000) })),
    ];
    let home = with_script("long", &format!("{GREETING}{}{END}", steps.concat()));
    std::fs::write(home.work().join("line"), &long).unwrap();
    let rules = "[[deny]]\npath = \"denied/**\"\n";
    std::fs::write(home.path().join("permissions.toml"), rules).unwrap();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "long");
    // Nobody is asked.
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    for id in [10, 11, 12] {
        assert_eq!(answer_to(&home, id)["result"]["outcome"]["optionId"], "n", "{id}");
    }
    for (id, why) in [(13, "Ask for less"), (14, "Ask for less"), (15, "more than 4096 bytes")] {
        let answer = answer_to(&home, id);
        assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
    }
    let log = log_of(&home, &session);
    let told = warnings(&log);
    assert_eq!(told.len(), 5, "{told:?}");
    assert!(told[1].contains("compared with your rules"), "{told:?}");
    assert!(
        told.iter()
            .all(|told| told.starts_with("A request of the agent long was refused: ")),
        "{told:?}"
    );
    assert!(told.iter().all(|told| !told.contains("Ask for less")), "{told:?}");
    assert!(
        told[0].contains("Tell the agent to do it in smaller steps."),
        "{told:?}"
    );
    let size = serde_json::to_string(&log).unwrap().len();
    assert!(size < 100_000, "none of it is in the log: {size}");
    assert_eq!(std::fs::read_to_string(home.work().join("line")).unwrap(), long);
}

#[test]
fn a_large_edit_that_is_allowed_needs_nobody_who_could_judge_it() {
    let long = "x\n".repeat(400 << 10);
    let edit = |path: &str| {
        let changes = [json!({ "type": "diff", "path": path, "newText": long })];
        json!({ "toolCallId": path, "kind": "edit", "content": changes })
    };
    let script = format!(
        "{GREETING}{}{}{END}",
        permission(10, edit("allowed.txt")),
        permission(11, edit("denied.txt"))
    );
    let home = with_script("large", &script);
    let rules = "mode = \"approve-all\"\n[[deny]]\npath = \"denied.txt\"\n";
    std::fs::write(home.path().join("permissions.toml"), rules).unwrap();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "large");
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    assert_eq!(answer_to(&home, 10)["result"]["outcome"]["optionId"], "y");
    assert_eq!(answer_to(&home, 11)["result"]["outcome"]["optionId"], "n");
    let size = serde_json::to_string(&log_of(&home, &session)).unwrap().len();
    assert!(size < 100_000, "the log says how long it is: {size}");
}

#[test]
fn what_an_agent_says_between_turns_belongs_to_no_turn_and_its_requests_are_answered() {
    let first = words("first");
    let between = words("between");
    let asked = permission(
        50,
        json!({ "toolCallId": "c", "kind": "execute", "rawInput": { "command": "touch evil" } }),
    );
    let flood = between.repeat(200);
    let script = format!(
        r#"{GREETING}{first}
say '{{"jsonrpc":"2.0","id":3,"result":{{"stopReason":"end_turn"}}}}'
{flood}{asked}read -r line
{}
say '{{"jsonrpc":"2.0","id":4,"result":{{"stopReason":"end_turn"}}}}'
while read -r line; do :; done"#,
        words("second")
    );
    let home = with_script("restless", &script);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "restless");
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    until_lines(&home, "answers", 1);
    assert_eq!(answer_to(&home, 50)["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(editor.stops(&session, "go on"), "end_turn");
    let log = log_of(&home, &session);
    let said = log.iter().filter(|event| event["type"] == "assistant.message");
    let said: Vec<&Value> = said.map(|event| &event["data"]["content"]).collect();
    assert_eq!(said, ["first", "second"]);
}

#[test]
fn a_conversation_is_given_up_if_the_agent_does_not_know_it_or_fails_in_two_turns() {
    let home = Home::new();
    let file = |name: &str| home.work().join(name).display().to_string();
    // What it answers to `session/resume` stands in a file, a line for each time.
    let script = format!(
        r#"say() {{ printf '%s\n' "$1"; }}
read -r line; say '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":1,"agentCapabilities":{{"sessionCapabilities":{{"resume":{{}}}}}}}}}}'
id=2
while :; do
read -r line; printf '%s\n' "$line" >> {opened}
case "$line" in
*session/resume*)
  error=$(head -n 1 {errors}); sed -i 1d {errors}
  case "$error" in
  ok) say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{}}}}"; break ;;
  *) say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{{\"code\":-32603,\"message\":\"Internal error\",\"data\":{{\"details\":\"$error\"}}}}}}" ;;
  esac ;;
*) say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"sessionId\":\"s$$\"}}}}"; break ;;
esac
id=$((id + 1))
done
while read -r line; do id=$((id + 1)); say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"stopReason\":\"end_turn\"}}}}"; done"#,
        opened = file("opened"),
        errors = file("errors"),
    );
    std::fs::write(home.work().join("agent.sh"), script).unwrap();
    configure(&home, &[("busy", "/bin/sh", &[&file("agent.sh")])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "busy");
    let dirs = ["a", "b"].map(|name| {
        let dir = home.work().join(name);
        std::fs::create_dir(&dir).unwrap();
        dir
    });
    let mut turn = |errors: &str, dir: usize| {
        std::fs::write(home.work().join("errors"), errors).unwrap();
        // In another directory it has to be started again.
        let load = json!({ "sessionId": session, "cwd": dirs[dir], "mcpServers": [] });
        editor.call("session/load", load);
        let prompt = editor.prompt(&session, "go");
        let answer = editor.wait(prompt);
        let opened = std::fs::read_to_string(home.work().join("opened")).unwrap();
        std::fs::write(home.work().join("opened"), "").unwrap();
        let opened: Vec<Value> = opened.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let opened: Vec<String> = opened
            .iter()
            .map(|line| {
                line["method"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches("session/")
                    .to_owned()
            })
            .collect();
        (answer, opened)
    };
    let (answer, opened) = turn("", 0);
    assert_eq!(
        (answer.unwrap()["stopReason"].as_str(), opened),
        (Some("end_turn"), vec!["new".to_owned()])
    );
    // Busy once, it is asked again; busy twice, the turn fails and the conversation stays.
    let (answer, opened) = turn("database is locked\nok\n", 1);
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(opened, ["resume", "resume"]);
    let (answer, opened) = turn("database is locked\ndatabase is locked\n", 0);
    let error = answer.unwrap_err();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("could not continue its conversation"), "{message}");
    assert_eq!(opened, ["resume", "resume"]);
    let (answer, opened) = turn("ok\n", 0);
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(opened, ["resume"]);
    let known = |log: &[Value]| log.iter().filter(|event| event["type"] == "lodge.program").count();
    assert_eq!(known(&log_of(&home, &session)), 1);
    let (answer, opened) = turn("No conversation found with session ID s1\n", 1);
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(opened, ["resume", "new"]);
    let log = log_of(&home, &session);
    assert_eq!(known(&log), 2);
    assert!(
        warnings(&log)[0].contains("does not know the earlier conversation"),
        "{log:?}"
    );
    // What it never says in words that somebody knows does not fail for ever.
    let (answer, _) = turn("Internal error\nInternal error\n", 0);
    let message = answer.unwrap_err()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("it begins a new one"), "{message}");
    let (answer, opened) = turn("Internal error\nInternal error\n", 0);
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(opened, ["resume", "resume", "new"]);
    let log = log_of(&home, &session);
    assert_eq!((known(&log), warnings(&log).len()), (3, 2));
}

#[test]
fn errors_of_an_agent_hide_its_variables_and_odd_endings_are_told() {
    let home = Home::new();
    let work = home.work();
    let agents = [
        ("leaks", format!("{GREETING}echo \"bad key $AGENT_KEY\" >&2; exit 3")),
        (
            "leaves",
            format!(
                "{GREETING}say '{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{\"stopReason\":\"cancelled\"}}}}'\nread -r line"
            ),
        ),
        (
            "vast",
            GREETING.replace(
                "\"sessionId\":\"s\"",
                &format!("\"sessionId\":\"{}\"", "s".repeat(5000)),
            ),
        ),
    ];
    let mut config = String::new();
    for (name, script) in &agents {
        std::fs::write(work.join(name), script).unwrap();
        let file = work.join(name).display().to_string();
        config += &format!("[agents.{name}]\ncommand = \"/bin/sh\"\nargs = [{file:?}]\n");
        config += "env = { AGENT_KEY = \"my-own-key\" }\n";
    }
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
    let _ = home.run(["trust".into(), home.work()]).ok();
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let mut fails = |name: &str| {
        let session = with_agent(&mut editor, name);
        let prompt = editor.prompt(&session, "go");
        let error = editor.wait(prompt).unwrap_err();
        (error["message"].as_str().unwrap().to_owned(), log_of(&home, &session))
    };
    let (message, log) = fails("leaks");
    assert!(message.contains("bad key ******"), "{message}");
    assert!(!json!(log).to_string().contains("my-own-key"));
    let (message, _) = fails("vast");
    assert!(message.contains("by more than 4096 bytes"), "{message}");
    let session = with_agent(&mut editor, "leaves");
    let prompt = editor.prompt(&session, "go");
    let _ = editor.wait(prompt);
    let log = log_of(&home, &session);
    assert!(warnings(&log)[0].contains("although nobody asked it to"), "{log:?}");
}

#[test]
fn an_agent_gets_the_lines_and_the_text_of_a_selection() {
    let home = with_script(
        "plain",
        &format!("{GREETING}printf '%s\\n' \"$line\" > prompt.json\n{END}"),
    );
    let host = Host::start_in(home, "");
    let mut sdk = Sdk::connect(&host);
    let made = json!({ "model": "plain", "workingDirectory": host.home.work() });
    let made = sdk.call("session.create", made).unwrap();
    let file = host.home.work().join("a b.rs").display().to_string();
    let selection = json!({ "type": "selection", "filePath": file, "displayName": "a b.rs", "text": "let x = 1;",
        "selection": { "start": { "line": 2, "character": 0 }, "end": { "line": 8, "character": 4 } } });
    let lines = json!({ "type": "file", "path": file, "displayName": "a b.rs", "lineRange": { "start": 4, "end": 5 } });
    let message = json!({ "sessionId": made["sessionId"], "prompt": "Why?", "attachments": [selection, lines] });
    sdk.call("session.send", message).unwrap();
    until_lines(&host.home, "prompt.json", 1);
    let sent = std::fs::read_to_string(host.home.work().join("prompt.json")).unwrap();
    let sent: Value = serde_json::from_str(&sent).unwrap();
    let blocks = &sent["params"]["prompt"];
    let text = blocks[1]["text"].as_str().unwrap();
    assert!(text.contains("a b.rs (lines 3-9)\n```\nlet x = 1;\n```"), "{text}");
    let addresses = [&blocks[2]["uri"], &blocks[3]["uri"]].map(|uri| uri.as_str().unwrap());
    assert!(addresses[0].ends_with("/a%20b.rs#L3:9"), "{addresses:?}");
    assert!(addresses[1].ends_with("/a%20b.rs#L4:5"), "{addresses:?}");
}
