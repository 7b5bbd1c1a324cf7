//! What a person at a terminal sees.

use std::{fs, process::Command};

use serde_json::Value;
use testkit::{Home, Running, events, schema};

/// The last answer among events.
fn answer(events: &[Value]) -> &str {
    let answers = events::of_kind(events, "assistant.message");
    answers
        .last()
        .and_then(|event| event["data"]["content"].as_str())
        .unwrap_or_default()
}

#[test]
fn hello_is_answered_without_key_and_network() {
    let home = Home::new();
    let done = home.run(["run", "hello"]).ok();
    assert!(done.stdout().contains("welcome to Lodge"), "{done:#?}");
    assert!(done.stdout().contains("rehearsal"), "it says what answered: {done:#?}");
}

#[test]
fn one_object_says_how_a_run_went() {
    let home = Home::new();
    let run = |args: &[&str]| {
        let done = home.run([&["run", "--output-format", "json"], args].concat());
        let lines = done.lines.clone();
        assert_eq!(lines.len(), 1, "{done:#?}");
        let object: Value = serde_json::from_str(&lines[0]).expect("an object");
        assert_eq!(object["exit"], done.status.code().unwrap(), "{object}");
        object
    };
    let said = run(&["call bash {\"command\":\"echo hi\"} then say well"]);
    assert_eq!((&said["result"], &said["exit"]), (&"well".into(), &0.into()), "{said}");
    assert!(
        said["usage"]["inputTokens"].as_u64() > Some(0) && said["durationMs"].is_u64(),
        "{said}"
    );
    let id = said["session"].as_str().expect("an id").to_owned();
    // It is the whole of what a script needs to go on.
    let again = run(&["--resume", &id, "say more"]);
    assert_eq!(
        (&again["session"], &again["result"]),
        (&id.clone().into(), &"more".into())
    );
    // A command needs no turn.
    let answered = run(&["--resume", &id, "/usage"]);
    assert!(
        answered["result"].as_str().is_some_and(|text| !text.is_empty()),
        "{answered}"
    );
    let failed = run(&["fail with bad request"]);
    assert_eq!(failed["exit"], 1, "{failed}");
    assert!(failed["error"].is_string(), "{failed}");
    let both = home.run(["run", "--json", "--output-format", "json", "say no"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn json_prints_a_whole_log_with_an_unbroken_chain_that_validates() {
    let home = Home::new();
    let prompt =
        r#"think aloud then call bash {"command":"echo hi"} then call view {"path":"."} then stream 20 chunks"#;
    let printed = home.run(["run", "--json", "--yolo", prompt]).ok().events();
    events::check_chain(&printed).expect("the chain is whole");
    let (own, of_the_sdk): (Vec<Value>, Vec<Value>) = printed.iter().cloned().partition(events::is_beside);
    schema::check_all(&of_the_sdk);
    assert!(own.iter().any(|event| events::kind(event) == "lodge.usage"));
    assert_eq!(events::kind(&printed[0]), "session.start");
    assert_eq!(printed.last().map(events::kind), Some("session.shutdown"));
    let persisted: Vec<Value> = printed
        .into_iter()
        .filter(|event| !events::is_ephemeral(event))
        .collect();
    let kept = events::read_log(&home.logs()[0]);
    assert!(
        kept == persisted,
        "printed: {:?}, kept: {:?}",
        events::kinds(&persisted),
        events::kinds(&kept)
    );
}

#[test]
fn a_session_is_resumed_by_id_by_the_beginning_of_it_and_as_the_last() {
    let home = Home::new();
    let first = home.run(["run", "--json", "say first"]).ok().events();
    let id = first[0]["data"]["sessionId"]
        .as_str()
        .expect("a session has an id")
        .to_owned();
    for wanted in [id.as_str(), &id[..8], "last"] {
        let more = home
            .run(["run", "--json", "--resume", wanted, "say more"])
            .ok()
            .events();
        assert_eq!(answer(&more), "more", "resumed by {wanted}");
    }
    assert_eq!(home.logs().len(), 1, "no second session was made");
    let log = home.run(["sessions", "export", &id]).ok().events();
    events::check_chain(&log).expect("the chain is whole over three resumes");
    assert_eq!(events::of_kind(&log, "user.message").len(), 4);
    schema::check_all(&log);
}

#[test]
fn the_exit_code_says_how_it_ended() {
    let home = Home::new();
    let check = |arguments: &[&str], expected: i32| {
        let done = home.run(arguments);
        assert_eq!(done.status.code(), Some(expected), "{arguments:?}: {done:#?}");
    };
    check(&["run", "say yes"], 0);
    check(&["run", "fail with quota"], 1);
    check(&["run", "--resume", "no-such-session", "hi"], 1);
    check(&["run", "--model", "no-such-model", "hi"], 1);
    check(&["run", "--cwd", "/no/such/directory", "hi"], 1);
    check(&["sessions", "show", "no-such-session"], 1);
    check(&["sessions", "delete", "no-such-session"], 1);
    check(&["run", "--no-such-option", "hi"], 2);
    check(&["run"], 2);
}

#[test]
fn a_log_that_cannot_be_read_does_not_keep_the_others_from_being_checked() {
    let home = Home::new();
    let _ = home.run(["run", "say one"]).ok();
    let _ = home.run(["run", "say two"]).ok();
    let logs = home.logs();
    fs::remove_file(&logs[0]).expect("a log is removed");
    fs::create_dir(&logs[0]).expect("something else is put in its place");
    let done = home.run(["check"]);
    assert_eq!(done.status.code(), Some(1), "{done:#?}");
    let told = done.stdout();
    assert!(told.contains("it is not a regular file"), "{told}");
    assert!(told.contains("2 sessions checked, 0 damaged, 1 unreadable."), "{told}");
}

#[test]
fn an_error_is_said_once() {
    let home = Home::new();
    let done = home.run(["--home", "/proc/nowhere", "run", "hi"]);
    assert_eq!(done.stderr.matches("os error").count(), 1, "{done:#?}");
}

#[test]
fn an_error_says_what_and_what_to_do() {
    let home = Home::new();
    let done = home.run(["run", "--resume", "no-such-session", "hi"]);
    assert!(done.stderr.contains("no-such-session"), "{done:#?}");
    assert!(done.stderr.contains("lodge sessions list"), "{done:#?}");
    assert!(done.stdout().is_empty(), "{done:#?}");
}

#[cfg(unix)]
#[test]
fn a_setting_that_nobody_knows_is_refused_by_its_name() {
    let home = Home::new();
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("lodge.toml"), "sandbx = \"off\"\n").unwrap();
    let done = home.run(["run", "hello"]);
    assert!(done.stderr.contains("there is no setting `sandbx`"), "{done:#?}");
}

#[test]
fn ctrl_c_aborts_the_turn_and_the_session_goes_on() {
    let home = Home::new();
    let mut running = home.start(["run", "--json", "slowly 10 ms, stream 5000 chunks"]);
    running.until("assistant.message_delta");
    let sent = Command::new("kill")
        .args(["-INT", &running.id().to_string()])
        .status()
        .expect("kill is everywhere");
    assert!(sent.success());
    let done = running.finish();
    assert_eq!(done.status.code(), Some(130), "{done:#?}");
    let events = done.events();
    assert_eq!(events::of_kind(&events, "abort").len(), 1);
    assert_eq!(events.last().map(events::kind), Some("session.shutdown"));
    let more = home.run(["run", "--json", "--resume", "last", "say on"]).ok().events();
    assert_eq!(answer(&more), "on");
}

#[test]
fn the_model_reads_a_stopped_message_and_its_partial_answer_with_the_next_one() {
    // Of a turn that a person stopped, it also reads that.
    for (signal, messages) in [("-INT", 4), ("-KILL", 3)] {
        let home = Home::new();
        let mut running = home.start(["run", "--json", "slowly 10 ms, stream 5000 chunks"]);
        // What streams is written every second.
        let is_kept = |home: &Home| {
            let logs = home.logs();
            logs.iter()
                .any(|log| fs::read_to_string(log).is_ok_and(|text| text.contains("\"lodge.partial\"")))
        };
        while !is_kept(&home) {
            running.until("assistant.message_delta");
        }
        let sent = Command::new("kill").args([signal, &running.id().to_string()]).status();
        assert!(sent.expect("kill is everywhere").success());
        let done = running.finish();
        assert!(!done.status.success(), "{done:#?}");
        let more = home.run(["run", "--json", "--resume", "last", "describe the request"]);
        let more = more.ok().events();
        let told = format!("I was sent {messages} messages");
        assert!(answer(&more).contains(&told), "{signal}: {more:#?}");
    }
}

#[test]
fn tools_work_in_the_directory_that_was_named() {
    let home = Home::new();
    let there = home.work().join("there");
    fs::create_dir(&there).expect("a directory");
    let cwd = there.to_str().expect("plain text");
    let prompt = r#"call bash {"command":"pwd > here.txt"}"#;
    let _ = home.run(["run", "--yolo", "--cwd", cwd, prompt]).ok();
    assert_eq!(
        fs::read_to_string(there.join("here.txt")).expect("it ran there").trim(),
        cwd
    );
}

#[test]
fn without_a_terminal_nothing_that_needs_a_question_runs() {
    let home = Home::new();
    let events = home
        .run(["run", "--json", r#"call bash {"command":"touch made"}"#])
        .ok()
        .events();
    assert!(!home.work().join("made").exists());
    let done = events::of_kind(&events, "tool.execution_complete");
    assert_eq!(done[0]["data"]["success"], false);
}

#[test]
fn the_prompt_can_come_from_standard_input() {
    let home = Home::new();
    let file = home.work().join("prompt.txt");
    fs::write(&file, "say piped in").expect("a file");
    let mut command = home.command(["run", "-"]);
    let done = testkit::Running::start(command.stdin(fs::File::open(file).expect("it is there")))
        .finish()
        .ok();
    assert_eq!(done.stdout().trim(), "piped in");
}

#[test]
fn sessions_are_listed_shown_searched_exported_and_deleted() {
    let home = Home::new();
    let mut ids = Vec::new();
    for prompt in ["say apples and pears", "say plums"] {
        let events = home.run(["run", "--json", prompt]).ok().events();
        ids.push(
            events[0]["data"]["sessionId"]
                .as_str()
                .expect("a session has an id")
                .to_owned(),
        );
    }
    let [apples, plums] = &ids[..] else {
        panic!("two sessions")
    };
    let list = home.run(["sessions", "list"]).ok();
    assert_eq!(list.lines.len(), 2, "{list:#?}");
    assert!(
        list.lines[0].starts_with(&plums[..8]),
        "the newest comes first: {list:#?}"
    );
    let nowhere = home.run(["sessions", "list", "--cwd", "/nowhere"]).ok();
    assert!(!nowhere.stdout().contains(apples.as_str()), "{nowhere:#?}");
    let shown = home.run(["sessions", "show", apples]).ok().stdout();
    assert!(
        shown.contains("> say apples and pears") && shown.contains("apples and pears"),
        "{shown}"
    );
    let found = home.run(["sessions", "search", "pears"]).ok().stdout();
    assert!(
        found.contains(apples.as_str()) && !found.contains(plums.as_str()),
        "{found}"
    );
    let exported = home.run(["sessions", "export", apples]).ok().events();
    assert_eq!(answer(&exported), "apples and pears");
    let _ = home.run(["sessions", "delete", "--yes", apples]).ok();
    let list = home.run(["sessions", "list"]).ok();
    assert_eq!(list.lines.len(), 1, "{list:#?}");
    assert_eq!(home.logs().len(), 1);
    let gone = home.run(["sessions", "search", "pears"]).ok().stdout();
    assert!(!gone.contains(apples.as_str()), "{gone}");
}

#[test]
fn a_damaged_log_is_reported_then_repaired_and_nothing_whole_is_lost() {
    let home = Home::new();
    let _ = home.run(["run", "say before"]).ok();
    let log = home.logs().remove(0);
    let whole = events::read_log(&log);
    let mut bytes = fs::read(&log).expect("it is there");
    bytes.extend(br#"{"type":"assistant.mess"#);
    fs::write(&log, bytes).expect("it can be written");
    let report = home.run(["check"]);
    assert!(
        !report.status.success(),
        "damage is told by the exit code too: {report:#?}"
    );
    let _ = home.run(["check", "--fix"]).ok();
    let mended = events::read_log(&log);
    assert_eq!(mended[..whole.len()], whole[..]);
    let _ = home.run(["check"]).ok();
    let more = home
        .run(["run", "--json", "--resume", "last", "say after"])
        .ok()
        .events();
    assert_eq!(answer(&more), "after");
}

#[test]
fn two_hosts_on_one_home_get_in_nobodys_way() {
    let home = Home::new();
    let mut first = home.start(["run", "--json", "slowly 10 ms, stream 1000 chunks"]);
    first.until("assistant.message_delta");
    let second = home.run(["run", "--json", "--resume", "last", "say me too"]);
    assert!(!second.status.success(), "two writers on one session: {second:#?}");
    assert!(
        second.stderr.contains("in use") || second.stderr.contains("another"),
        "{second:#?}"
    );
    let done = first.finish().ok().events();
    events::check_chain(&done).expect("the first one is undisturbed");
}

#[test]
fn help_version_and_completions_are_there() {
    let home = Home::new();
    let check = |arguments: &[&str], expected: &str| {
        let done = home.run(arguments).ok();
        assert!(done.stdout().contains(expected), "{arguments:?}: {done:#?}");
    };
    check(&["--version"], "lodge 0.");
    check(&["--help"], "opens a conversation");
    check(&["run", "--help"], "--resume <ID|last>");
    check(&["serve", "--help"], "RuntimeConnection.forUri(\"127.0.0.1:8765\")");
    check(&["completions", "bash"], "_lodge");
    check(&["completions", "zsh"], "#compdef lodge");
    check(&["models"], "rehearsal");
}

#[test]
fn grants_are_seen_allowed_and_taken_back() {
    let home = Home::new();
    let list = || home.run(["grants"]).ok().stdout();
    assert!(list().contains("No grants"), "{}", list());
    let grants = home.path().join("ahp/grants");
    fs::create_dir_all(&grants).unwrap();
    let asked = r#"{"client":"phone","uri":"file:///data/notes","read":true,"write":true}"#;
    fs::write(grants.join("0123abcd.json"), asked).unwrap();
    let id = "0123abcd";
    assert!(
        list().contains("0123abcd  asked       read, write  file:///data/notes  phone"),
        "{}",
        list()
    );
    let _ = home.run(["grants", "allow", id, "--always"]).ok();
    assert!(list().contains("always"), "{}", list());
    let _ = home.run(["grants", "revoke", id]).ok();
    assert!(list().contains("No grants"), "{}", list());
    let again = home.run(["grants", "revoke", id]);
    assert!(again.stderr.contains("There is no grant"), "{again:#?}");
}

#[test]
fn settings_that_mean_nothing_are_named() {
    let home = Home::new();
    for (variable, value, told) in [
        ("LODGE_LOG", "loud", "invalid value 'loud'"),
        ("LODGE_HOME", "", "LODGE_HOME is empty"),
    ] {
        let output = home.command(["models"]).env(variable, value).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{variable}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(told), "{variable}: {said}");
    }
    let none = home.run(["mcp", "check"]).ok().stdout();
    assert!(none.contains("There are no MCP servers"), "{none}");
}

#[test]
fn a_gap_in_a_log_is_told_and_not_repaired_for_ever() {
    let home = Home::new();
    let _ = home.run(["run", "say one then say two"]).ok();
    let log = &home.logs()[0];
    let text = fs::read_to_string(log).expect("a log");
    let lines: Vec<&str> = text.lines().collect();
    let message = lines
        .iter()
        .position(|line| line.contains("\"user.message\""))
        .expect("a message");
    let left: Vec<&str> = [&lines[..message], &lines[message + 1..]].concat();
    fs::write(log, left.join("\n") + "\n").expect("the log is written");
    fs::remove_file(log.with_file_name("events.idx")).ok();
    let check = home.run(["check"]);
    assert_eq!(check.status.code(), Some(1), "{check:#?}");
    assert!(check.stdout().contains("which cannot be repaired"), "{check:#?}");
    for _ in 0..2 {
        let fixed = home.run(["check", "--fix"]).ok().stdout();
        assert!(fixed.contains("0 repaired, 1 incomplete"), "{fixed}");
    }
}

#[test]
fn what_a_tool_says_is_shown_and_marked_where_it_is_cut() {
    let home = Home::new();
    let prompt = r#"call bash {"command":"seq 20"} then say over"#;
    let run = home.run(["run", "--approve", "all", prompt]).ok();
    assert!(run.stderr.contains("\n  6\n  … "), "{}", run.stderr);
    assert_eq!(run.stdout().trim(), "over");
    let shown = home.run(["sessions", "show", "last"]).ok().stdout();
    assert!(shown.contains("\n  8\n  … ") && !shown.contains("\n  9\n"), "{shown}");
    let denied = home
        .run(["run", r#"call create {"path":"a","file_text":"b"} then say over"#])
        .ok();
    assert!(denied.stderr.contains("--approve edits"), "{}", denied.stderr);
}

#[test]
fn every_model_that_is_listed_is_listed_everywhere() {
    let (server, home) = (testkit::model_server::ModelServer::start(), Home::new());
    server.set_models(serde_json::json!({"data": [{"id": "one"}, {"id": "two"}]}));
    let with = |args: &[&str]| {
        let mut command = home.command(args);
        let command = command
            .env("LODGE_PROVIDER_BASE_URL", server.openai_url())
            .env("LODGE_MODEL", "one");
        String::from_utf8(command.output().expect("it runs").stdout).expect("text")
    };
    let (listed, typed) = (with(&["models"]), with(&["run", "/model"]));
    for model in ["one", "two", "rehearsal"] {
        assert!(typed.contains(&format!("`{model}`")), "{model}: {typed}");
        let lines = listed
            .lines()
            .filter(|line| line.split_whitespace().any(|word| word == model));
        assert!(lines.count() >= 1, "{model}: {listed}");
    }
    assert_eq!(
        listed.lines().count(),
        typed.trim().lines().count(),
        "{listed}\n{typed}"
    );
}

#[test]
fn commands_see_no_variable_that_the_host_reads_a_credential_from() {
    let home = Home::new();
    let script = r#"call bash {"command":"env","description":"look"} then say done"#;
    let mut command = home.command(["run", "--json", "--yolo", script]);
    for name in [
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        "LODGE_FLEET",
        "LODGE_FLEET_SYSTEM",
        "LODGE_TOKEN",
    ] {
        command.env(name, "x-key=let-me-in");
    }
    let done = Running::start(&mut command).finish().ok();
    let printed = done.stdout();
    assert!(printed.contains("LODGE_HOME="), "{printed}");
    assert!(!printed.contains("let-me-in"), "{printed}");
}

#[test]
fn a_message_is_never_sent_without_its_input() {
    let home = Home::new();
    // Open, and nobody writes to it.
    let mut run = home.talk(["run", "say", "hello"]);
    assert_eq!(run.line(), None, "nothing was answered");
    let done = run.finish();
    assert_eq!(done.status.code(), Some(2), "{done:#?}");
    assert!(
        done.stderr.contains("Nothing came on standard input within 5 s"),
        "{done:#?}"
    );
    assert!(home.logs().is_empty(), "nothing was sent");
    // With a `-` at the end it is waited for, and once it began it is read to its end.
    for arguments in [&["run", "think about", "-"][..], &["run", "think about"]] {
        let mut run = home.talk(arguments);
        run.say("doors");
        run.hush();
        let done = run.finish().ok();
        assert!(!done.stderr.contains("warning"), "{done:#?}");
        let shown = home.run(["sessions", "show", "last"]).ok().stdout();
        assert!(
            shown.contains("think about") && shown.contains("doors") && !shown.contains("about -"),
            "{shown}"
        );
    }
}

#[test]
fn options_of_a_host_are_not_dropped_beside_a_session_to_open() {
    let home = Home::new();
    let done = home.run(["--resume", "last", "--port", "1"]);
    assert_eq!(done.status.code(), Some(2), "{done:#?}");
    assert!(
        done.stderr.contains("cannot be used with options of a host"),
        "{done:#?}"
    );
}
