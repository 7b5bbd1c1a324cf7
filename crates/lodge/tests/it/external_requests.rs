//! What hosted agents ask for, as they send it: what people are shown, what each mode decides, and what the log says.

use serde_json::{Value, json};
use testkit::{Home, Running};

use crate::{
    acp::{Editor, host, log_of, selected},
    external::{END, GREETING, allow_all, ask, configure, permission, with_agent},
};

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// People are asked about Lodge's own description of it.
    Asked,
    /// People are asked about all of it, in the agent's words.
    Whole,
    Allowed,
    Denied,
}
use Outcome::{Allowed, Asked, Denied, Whole};

/// The modes of the table: what `permissions.toml` says, and the name.
const MODES: [(&str, &str); 4] = [
    ("ask", ""),
    ("auto-approve-safe", "mode = \"auto-approve-safe\"\n"),
    (
        "rules",
        "[[allow]]\ntool = \"*\"\n[[allow]]\npath = \"/**\"\n[[allow]]\nurl = \"*\"\n",
    ),
    ("approve-all", "mode = \"approve-all\"\n"),
];

/// What holds in all modes.
const RULES: &str = r#"
[[deny]]
path = "~/denied/**"
[[deny]]
path = "unread"
access = "read"
"#;

/// One request of an agent.
struct Row {
    /// What is wrong with it, or right.
    name: &'static str,
    call: Value,
    /// By mode.
    outcomes: [Outcome; 4],
    /// Parts of what people are shown, and of what the log says of the call.
    shown: Vec<String>,
    /// What neither the question nor the log may say.
    hidden: Vec<String>,
}

fn row(name: &'static str, call: Value, outcomes: [Outcome; 4], shown: &[&str]) -> Row {
    Row {
        name,
        call,
        outcomes,
        shown: shown.iter().map(|part| (*part).to_owned()).collect(),
        hidden: Vec::new(),
    }
}

impl Row {
    fn hiding(mut self, hidden: &[&str]) -> Self {
        self.hidden = hidden.iter().map(|part| (*part).to_owned()).collect();
        self
    }
}

/// Everything about it is shown, and no rule allows it. Rules that deny cannot be checked against it, so no mode allows it.
const UNCLEAR: [Outcome; 4] = [Whole, Whole, Whole, Whole];
/// A command or an address that is asked about unless a rule allows it.
const COMMAND: [Outcome; 4] = [Asked, Asked, Allowed, Allowed];
/// A command whose parts rules cannot be applied to, where there are rules that deny.
const ASKED: [Outcome; 4] = [Asked, Asked, Asked, Asked];
/// A file of the session that is read.
const READ: [Outcome; 4] = [Allowed, Allowed, Allowed, Allowed];
/// A file of the session that is written.
const WRITTEN: [Outcome; 4] = [Asked, Allowed, Allowed, Allowed];
const DENIED: [Outcome; 4] = [Denied, Denied, Denied, Denied];

fn execute(input: Value) -> Value {
    json!({ "kind": "execute", "rawInput": input })
}

fn read(input: Value) -> Value {
    json!({ "kind": "read", "rawInput": input })
}

fn edit(input: Value, content: Value) -> Value {
    json!({ "kind": "edit", "rawInput": input, "content": content })
}

fn diff(path: &str, old: Value, new: &str) -> Value {
    json!({ "type": "diff", "path": path, "oldText": old, "newText": new })
}

fn with(mut call: Value, member: &str, value: Value) -> Value {
    call[member] = value;
    call
}

fn rows(home: &Home) -> Vec<Row> {
    let work = home.work();
    let place = |name: &str| work.join(name).display().to_string();
    let own = work.parent().unwrap().display().to_string();
    let new = |text: &str| json!([diff("a", Value::Null, text)]);
    let block = |block: Value| json!([{ "type": "content", "content": block }]);
    let text = block(json!({ "type": "text", "text": "Lists the files" }));
    let mut rows = vec![
        row(
            "a command, as most agents send it",
            with(
                execute(json!({ "command": "touch x", "description": "Makes x", "timeout": 3, "cwd": null })),
                "content",
                text.clone(),
            ),
            COMMAND,
            &["touch x"],
        ),
        row(
            "a command twice, with switches",
            execute(json!({ "command": "touch x", "commands": ["touch x"], "run_in_background": true, "env": {} })),
            COMMAND,
            &["touch x"],
        ),
        row(
            "a command as Codex sends it",
            execute(
                json!({ "call_id": "its id", "turn_id": "019a-7f3e", "command": ["touch", "x y"], "cwd": place("."),
                "reason": "because", "parsed_cmd": [{ "type": "unknown", "cmd": "x y", "path": null }] }),
            ),
            COMMAND,
            &["touch 'x y'"],
        ),
        row(
            "a script as Codex sends it",
            execute(
                json!({ "call_id": "its id", "command": ["bash", "-lc", "touch x && touch y"],
                "parsed_cmd": [{ "type": "unknown", "cmd": "touch x" }, { "type": "unknown", "cmd": "touch y" }] }),
            ),
            ASKED,
            &["bash -lc 'touch x && touch y'"],
        ),
        row(
            "a reading that is not the command",
            execute(json!({ "command": ["touch", "x"], "parsed_cmd": [{ "type": "unknown", "cmd": "rm -r x" }] })),
            UNCLEAR,
            &["rm -r x"],
        ),
        row(
            "a reading with a number",
            execute(json!({ "command": ["touch", "x"], "parsed_cmd": [{ "type": "unknown", "mode": 777 }] })),
            UNCLEAR,
            &["777"],
        ),
        row(
            "the id of another call",
            execute(json!({ "command": ["touch", "x"], "call_id": "rm -r x" })),
            UNCLEAR,
            &["rm -r x"],
        ),
        row(
            "a turn with words",
            execute(json!({ "command": ["touch", "x"], "turn_id": "rm -r x" })),
            UNCLEAR,
            &["rm -r x"],
        ),
        row(
            "words that are no texts",
            execute(json!({ "command": ["kill", -9, 4711] })),
            UNCLEAR,
            &["4711"],
        ),
        row(
            "words and a line",
            execute(json!({ "command": ["touch", "x"], "cmd": "rm -r x" })),
            UNCLEAR,
            &["rm -r x"],
        ),
        row(
            "a denied file of a command in words",
            execute(json!({ "command": ["cat", format!("{own}/denied/key")], "mode": 1 })),
            DENIED,
            &["denied/key"],
        ),
        row(
            "a command in a directory",
            execute(json!({ "command": "touch x", "cwd": "sub" })),
            COMMAND,
            &["cd ", "/sub && touch x"],
        ),
        row(
            "a file that is a word of the command",
            with(
                execute(json!({ "command": "touch x" })),
                "locations",
                json!([{ "path": place("x"), "line": 1 }]),
            ),
            COMMAND,
            &["touch x"],
        ),
        row(
            "a file with a range",
            with(
                read(json!({ "file_path": "a", "offset": 3, "limit": 20 })),
                "locations",
                json!([{ "path": place("a"), "line": 3 }]),
            ),
            READ,
            &["/work/a"],
        ),
        row(
            "a file of the home",
            read(json!({ "path": "~/.ssh/id_rsa" })),
            COMMAND,
            &["/.ssh/id_rsa"],
        )
        .hiding(&["/work/~"]),
        row(
            "a file that is written",
            edit(json!({ "file_path": "a", "content": "good" }), new("good")),
            WRITTEN,
            &["+good"],
        ),
        row(
            "a part of a file that is replaced",
            edit(
                json!({ "file_path": place("part"), "old_string": "b", "new_string": "B", "replace_all": false }),
                json!([diff(&place("part"), json!("b"), "B")]),
            ),
            WRITTEN,
            &["+a B c"],
        ),
        row(
            "an address",
            json!({ "kind": "fetch", "rawInput": { "url": "https://x.example/y" } }),
            COMMAND,
            &["https://x.example/y"],
        ),
        // Paths that programs may take for something else than Lodge does.
        row(
            "an address of a file",
            read(json!({ "path": "file:///home/u/.ssh/id_rsa" })),
            UNCLEAR,
            &["file:///home/u/.ssh/id_rsa"],
        ),
        row(
            "the home of somebody",
            read(json!({ "path": "~root/.ssh/id_rsa" })),
            UNCLEAR,
            &["~root/.ssh/id_rsa"],
        ),
        row(
            "a variable",
            read(json!({ "path": "$HOME/.ssh/id_rsa" })),
            UNCLEAR,
            &["$HOME/.ssh/id_rsa"],
        ),
        row(
            "up from where a link leads",
            read(json!({ "path": "link/../secret" })),
            UNCLEAR,
            &["link/../secret"],
        ),
        row(
            "another way to separate",
            read(json!({ "path": "..\\..\\secret" })),
            UNCLEAR,
            &["secret"],
        ),
        row(
            "a file of the home that is written",
            edit(json!({ "path": "~/.profile" }), json!([])),
            UNCLEAR,
            &["~/.profile"],
        ),
        row(
            "a directory of the home",
            execute(json!({ "command": "touch x", "cwd": "~root" })),
            UNCLEAR,
            &["~root"],
        ),
        row(
            "a file of the home that a rule denies",
            read(json!({ "path": "~/denied/key" })),
            DENIED,
            &["denied/key"],
        ),
        row(
            "an address of a file that a rule denies",
            read(json!({ "path": format!("file://{own}/denied/key") })),
            DENIED,
            &["denied/key"],
        ),
        // What only numbers, switches, names of members or arrays say.
        row(
            "numbers in arrays",
            execute(json!({ "command": "kill", "args": [-9, 4711] })),
            UNCLEAR,
            &["4711"],
        ),
        row(
            "a number of a variable",
            execute(json!({ "command": "curl https://x", "env": { "NODE_TLS_REJECT_UNAUTHORIZED": 0 } })),
            UNCLEAR,
            &["NODE_TLS_REJECT_UNAUTHORIZED"],
        ),
        row(
            "a switch below",
            execute(json!({ "command": "make", "then": { "reboot": true } })),
            UNCLEAR,
            &["reboot"],
        ),
        row(
            "a switch of unknown meaning",
            execute(json!({ "command": "ls", "sandbox": false })),
            UNCLEAR,
            &["sandbox"],
        ),
        row(
            "two commands",
            execute(json!({ "command": "ls", "cmd": "rm -r x" })),
            UNCLEAR,
            &["rm -r x"],
        ),
        row(
            "a file as a name",
            read(json!({ "path": "a", "files": { "Makefile": true } })),
            UNCLEAR,
            &["Makefile"],
        ),
        row(
            "files as names",
            edit(json!({ "path": "a", "files": { "Makefile": true } }), json!([])),
            UNCLEAR,
            &["Makefile"],
        ),
        row(
            "a denied file as a name",
            read(json!({ "path": "a", "files": { "~/denied/key": 1 } })),
            DENIED,
            &["denied/key"],
        ),
        // A change that is shown, beside another one.
        row(
            "a patch beside a change",
            edit(
                json!({ "file_path": "a", "patch": "*** Update File: /etc/x" }),
                new("good"),
            ),
            UNCLEAR,
            &["/etc/x", "+good"],
        ),
        row(
            "other text beside a change",
            edit(json!({ "file_path": "a", "new_string": "evil" }), new("good")),
            UNCLEAR,
            &["evil", "+good"],
        ),
        row(
            "another replacement beside a change",
            edit(
                json!({ "file_path": "part", "old_string": "c", "new_string": "B" }),
                json!([diff("part", json!("b"), "B")]),
            ),
            UNCLEAR,
            &["old_string"],
        ),
        row(
            "all places beside one",
            edit(
                json!({ "file_path": "part", "old_string": "b", "new_string": "B", "replace_all": true }),
                json!([diff("part", json!("b"), "B")]),
            ),
            UNCLEAR,
            &["replace_all"],
        ),
        // Blocks that are no plain text.
        row(
            "a link beside a command",
            with(
                execute(json!({ "command": "ls" })),
                "content",
                block(json!({ "type": "resource_link", "name": "x", "uri": "file:///etc/shadow" })),
            ),
            UNCLEAR,
            &["file:///etc/shadow"],
        ),
        row(
            "an image beside a command",
            with(
                execute(json!({ "command": "ls" })),
                "content",
                block(json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" })),
            ),
            UNCLEAR,
            &["image/png"],
        ),
        row(
            "a block of a later version",
            with(
                execute(json!({ "command": "ls" })),
                "content",
                json!([{ "type": "spell", "words": "abracadabra" }]),
            ),
            UNCLEAR,
            &["abracadabra"],
        ),
        row(
            "a change of a later version",
            edit(
                json!({}),
                json!([with(diff("a", Value::Null, "good"), "mode", json!("setuid"))]),
            ),
            UNCLEAR,
            &["setuid"],
        ),
        row(
            "a change that brings a diff of its own",
            edit(
                json!({}),
                json!([with(diff("a", Value::Null, "good"), "diff", json!("harmless"))]),
            ),
            UNCLEAR,
            &["+good", "harmless"],
        ),
        row(
            "a member of a later version",
            with(execute(json!({ "command": "ls" })), "secondCommand", json!("rm -r x")),
            UNCLEAR,
            &["rm -r x"],
        ),
        row(
            "an address that is read in two ways",
            json!({ "kind": "fetch", "rawInput": { "url": "https:\\\\x.example/y" } }),
            UNCLEAR,
            &["x.example/y"],
        ),
        row(
            "no kind",
            json!({ "rawInput": { "command": "ls" }, "title": "bash" }),
            UNCLEAR,
            &["ls"],
        ),
        // Files that rules hide.
        row(
            "a hidden file that is written",
            edit(json!({}), json!([diff(&place(".env"), Value::Null, "x")])),
            DENIED,
            &[".env"],
        )
        .hiding(&["hunter2"]),
        row(
            "a part of a hidden file",
            edit(json!({}), json!([diff(&place(".env"), json!("SECRET="), "x")])),
            DENIED,
            &[".env"],
        )
        .hiding(&["hunter2"]),
        row(
            "a file that may not be read, written as a whole",
            edit(json!({}), json!([diff(&place("unread"), Value::Null, "new text")])),
            WRITTEN,
            &["+new text"],
        )
        .hiding(&["hunter2"]),
    ];
    for (at, row) in rows.iter_mut().enumerate() {
        row.call["toolCallId"] = json!(format!("c{at}"));
        if row.call["rawInput"]["call_id"] == "its id" {
            row.call["rawInput"]["call_id"] = row.call["toolCallId"].clone();
        }
    }
    rows
}

/// An agent that sends one request in each turn.
fn agent(rows: &[Row]) -> String {
    let mut script = GREETING.to_owned();
    for (at, row) in rows.iter().enumerate() {
        let id = at as u64;
        script += &permission(1000 + id, row.call.clone());
        script += &format!(
            "say '{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"stopReason\":\"end_turn\"}}}}'\n",
            3 + id
        );
        script += "read -r line\n";
    }
    script
}

fn start(home: &Home, rules: &str) -> (Running, Editor) {
    std::fs::write(home.path().join("permissions.toml"), rules).unwrap();
    (host(home), Editor::ready(home))
}

#[test]
fn every_request_is_described_by_one_description_for_people_rules_and_the_log() {
    let mut wrong = Vec::new();
    for (at, (mode, rules)) in MODES.into_iter().enumerate() {
        let home = Home::new();
        let work = home.work();
        std::fs::create_dir(work.join("sub")).unwrap();
        std::fs::create_dir_all(home.work().parent().unwrap().join("outside/below")).unwrap();
        std::os::unix::fs::symlink(work.parent().unwrap().join("outside/below"), work.join("link")).unwrap();
        std::fs::write(work.join("part"), "a b c\n").unwrap();
        for hidden in [".env", "unread"] {
            std::fs::write(work.join(hidden), "SECRET=hunter2\n").unwrap();
        }
        let rows = rows(&home);
        configure(&home, &[("sly", "/bin/sh", &["-c", &agent(&rows)])]);
        let mode_first = match rules.starts_with("mode") {
            true => format!("{rules}exclude = [\".env\"]\n{RULES}"),
            false => format!("exclude = [\".env\"]\n{rules}{RULES}"),
        };
        let (_host, mut editor) = start(&home, &mode_first);
        let session = with_agent(&mut editor, "sly");
        let mut before = 0;
        for row in &rows {
            let prompt = editor.prompt(&session, "go");
            let (answer, asked) = allow_all(&mut editor, prompt);
            assert_eq!(answer["result"]["stopReason"], "end_turn", "{}: {answer}", row.name);
            let answers = std::fs::read_to_string(work.join("answers")).unwrap();
            let is_allowed = answers.lines().last().unwrap().contains("\"y\"");
            let whole = |question: &Value| question["params"]["toolCall"]["title"] == "Agent sly";
            let outcome = match asked.first() {
                Some(question) if whole(question) => Whole,
                Some(_) => Asked,
                None if is_allowed => Allowed,
                None => Denied,
            };
            let log = log_of(&home, &session);
            let new: Vec<&Value> = log[before..].iter().collect();
            before = log.len();
            // What the call is, and what was asked: the program's own words are not among them unless all are.
            let described =
                |event: &&&Value| event["data"]["toolRequests"].is_array() || event["type"] == "permission.requested";
            let described: Vec<String> = new
                .iter()
                .filter(described)
                .map(|event| event["data"].to_string())
                .collect();
            let question = asked.first().map(|asked| asked["params"]["toolCall"].to_string());
            let mut fault = |what: String| wrong.push(format!("{mode}: {}: {what}", row.name));
            if outcome != row.outcomes[at] {
                fault(format!(
                    "{outcome:?}, not {:?}: {question:?} {described:?}",
                    row.outcomes[at]
                ));
                continue;
            }
            for part in &row.shown {
                let escaped = json!(part).to_string();
                let escaped = escaped.trim_matches('"');
                let says = |text: &String| {
                    text.contains(part) || text.contains(escaped) || text.contains(&escaped.replace('\\', "\\\\"))
                };
                if !described.iter().any(says) {
                    fault(format!("the log does not say {part}: {described:?}"));
                }
                // Clients show a change with its lines, without the signs.
                let part = part.trim_start_matches('+');
                if question.as_ref().is_some_and(|question| !question.contains(part)) {
                    fault(format!("nobody is shown {part}: {question:?}"));
                }
            }
            for part in &row.hidden {
                let all = format!("{question:?}{described:?}{new:?}");
                if all.contains(part) {
                    fault(format!("{part} is told: {all}"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn of_several_ways_to_allow_a_request_people_choose_one() {
    let call = |id: &str| json!({ "toolCallId": id, "kind": "switch_mode", "rawInput": { "plan": "build it" } });
    let options = json!([
        { "optionId": "all", "name": "Yes, and accept all edits", "kind": "allow_once" },
        { "optionId": "this", "name": "Yes", "kind": "allow_once" },
        { "optionId": "n", "name": "No", "kind": "reject_once" },
    ]);
    let wish = |id: u64, call: Value| {
        ask(
            id,
            "session/request_permission",
            json!({ "toolCall": call, "options": options }),
        )
    };
    let script = format!("{GREETING}{}{}{END}", wish(10, call("a")), wish(11, call("b")));
    let home = Home::new();
    configure(&home, &[("sly", "/bin/sh", &["-c", &script])]);
    let (_host, mut editor) = start(&home, "");
    let session = with_agent(&mut editor, "sly");
    let prompt = editor.prompt(&session, "go");
    for action in ["accept", "cancel"] {
        let question = editor.question("session/request_permission");
        assert!(question.to_string().contains("build it"), "{question}");
        editor.answer(&question, selected("allow-once"));
        let form = editor.question("elicitation/create");
        for name in ["Yes, and accept all edits", "2. Yes"] {
            assert!(form.to_string().contains(name), "{form}");
        }
        let schema = &form["params"]["requestedSchema"]["properties"];
        let field = schema.as_object().unwrap().keys().next().unwrap().clone();
        let mut answer = json!({ "action": action });
        if action == "accept" {
            answer["content"] = json!({ field: "2. Yes" });
        }
        editor.answer(&form, answer);
    }
    let (answer, _) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let answers = std::fs::read_to_string(home.work().join("answers")).unwrap();
    let answers: Vec<&str> = answers.lines().collect();
    assert!(answers[0].contains("\"this\""), "{answers:?}");
    assert!(answers[1].contains("cancelled"), "{answers:?}");
}

#[test]
fn the_last_plan_of_an_agent_counts_and_no_number_of_them_holds_up_a_question() {
    let plan = |at: usize| {
        let update = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": {
            "sessionUpdate": "plan", "entries": [{ "content": format!("step {at}"), "status": "pending", "priority": "low" }] } } });
        format!("say '{update}'\n")
    };
    let plans: String = (0..600).map(plan).collect();
    let question = permission(
        10,
        json!({ "toolCallId": "c", "kind": "execute", "rawInput": { "command": "touch x" } }),
    );
    let script = format!("{GREETING}{plans}{question}{}{END}", plan(600));
    let home = Home::new();
    configure(&home, &[("plans", "/bin/sh", &["-c", &script])]);
    let (_host, mut editor) = start(&home, "");
    let session = with_agent(&mut editor, "plans");
    let prompt = editor.prompt(&session, "go");
    let (answer, asked) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(asked.len(), 1, "{asked:?}");
    let plans: Vec<&Value> = editor
        .updates
        .iter()
        .map(|told| &told["update"])
        .filter(|update| update["sessionUpdate"] == "plan")
        .collect();
    let last = plans.last().unwrap();
    assert_eq!(last["entries"][0]["content"], "step 600", "{last}");
    assert!(plans.len() < 600, "only the newest plan is written: {}", plans.len());
}
