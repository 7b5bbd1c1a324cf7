//! Commands beside a host that runs on the same home: they go through it, and nobody is locked out.

use std::{
    io::Write,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use testkit::{Finished, Home, Running, events};

use crate::terminal::Terminal;

/// The host of a home, as a person starts it.
fn host(home: &Home) -> Running {
    let mut host = home.start(["--port", "0", "--sdk-port", "0"]);
    host.line_with("Ctrl-C stops");
    host
}

#[test]
fn a_host_waits_for_the_home_of_one_that_is_still_dying() {
    let home = Home::new();
    let _ = home.run(["run", "say hello"]).ok();
    let taken = std::fs::File::open(home.path().join("lodge.lock")).unwrap();
    taken.lock().unwrap();
    let mut host = home.start(["--port", "0", "--sdk-port", "0"]);
    std::thread::sleep(Duration::from_millis(500));
    taken.unlock().unwrap();
    host.line_with("Ctrl-C stops");
}

/// What a command printed and how it ended, without what differs from run to run.
fn outcome(home: &Home, done: &Finished) -> String {
    let place = home.work();
    let place = place.parent().unwrap().to_str().unwrap();
    let text = format!("{:?}\n{}\n{}", done.status.code(), done.stdout(), done.stderr).replace(place, "<place>");
    let named = |word: &str| uuid_like(word.trim_end_matches('.')).then(|| "<id>".to_owned());
    let words = text.split(' ').map(|part| {
        let lines = part
            .split('\n')
            .map(|word| named(word).unwrap_or_else(|| word.to_owned()));
        lines.collect::<Vec<_>>().join("\n")
    });
    words.collect::<Vec<_>>().join(" ")
}

fn uuid_like(word: &str) -> bool {
    word.len() == 36 && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn settle(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kinds(log: &[Value]) -> Vec<&str> {
    log.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn commands_beside_a_running_host_say_and_do_what_they_do_alone() {
    let (alone, beside) = (Home::new(), Home::new());
    let _host = host(&beside);
    for arguments in [
        &["run", "say", "hello"][..],
        &["run", "fail with quota"],
        &["run", "--model", "no-such-model", "hi"],
        &["run", "--cwd", "no/such/directory", "hi"],
        &["run", "--resume", "no-such-session", "hi"],
        &["run", r#"call create {"path":"new.txt","file_text":"x"}"#],
        &[
            "run",
            "--approve",
            "edits",
            r#"call create {"path":"new.txt","file_text":"x"}"#,
        ],
        &["run", "--resume", "last", "say more"],
        &["sessions", "rewind", "last"],
        &["sessions", "rewind", "last", "--undo"],
        &["sessions", "fork", "last", "--at", "9"],
        &["sessions", "delete", "last"],
        &["sessions", "delete", "last", "--yes"],
        &["sessions", "delete", "no-such-session"],
        &["import", "no-such-directory"],
        &["import"],
        // A copy is as old as what it was copied from, so nothing comes after it that looks for the last one.
        &["sessions", "fork", "last", "--name", "copy"],
        &["run"],
    ] {
        let expected = outcome(&alone, &alone.run(arguments));
        assert_eq!(outcome(&beside, &beside.run(arguments)), expected, "{arguments:?}");
    }
    assert!(
        beside.work().join("new.txt").exists(),
        "it works where the command was given"
    );
    let json = |home: &Home| home.run(["run", "--json", "say one then say two"]).ok().events();
    let (alone, beside) = (json(&alone), json(&beside));
    assert_eq!(kinds(&alone), kinds(&beside));
    events::check_chain(&beside).unwrap();
}

#[test]
fn a_session_that_is_deleted_beside_the_host_is_gone_for_all() {
    let home = Home::new();
    let _host = host(&home);
    let _ = home.run(["run", "say one"]).ok();
    let mut watching = home.talk(["attach", "last"]);
    watching.line_with("one");
    let _ = home.run(["sessions", "delete", "last", "--yes"]).ok();
    assert!(home.logs().is_empty());
}

#[test]
fn sessions_are_brought_in_beside_a_running_host() {
    let (from, home) = (Home::new(), Home::new());
    let _ = from.run(["run", "say one"]).ok();
    let _host = host(&home);
    let source = from.path().join("session-state");
    let import = || {
        home.run([std::ffi::OsStr::new("import"), source.as_os_str()])
            .ok()
            .stdout()
    };
    assert!(import().contains("1 imported"), "it is new");
    assert!(import().contains("0 imported"), "it is there");
    // It is live in the host, and went on elsewhere meanwhile.
    let _ = from.run(["run", "--resume", "last", "say two"]).ok();
    assert!(import().contains("1 imported"), "it has grown");
    let mut watching = home.talk(["attach", "last"]);
    watching.line_with("two");
    let _ = from.run(["run", "--resume", "last", "say three"]).ok();
    let done = home.run([std::ffi::OsStr::new("import"), source.as_os_str()]);
    assert_eq!(done.status.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("is open"), "{done:#?}");
    events::check_chain(&events::read_log(&home.logs()[0])).unwrap();
}

fn asking(home: &Home) -> Terminal {
    let mut command = home.command(["run", r#"call create {"path":"new.txt","file_text":"x"} then say over"#]);
    let mut terminal = Terminal::start(command.env("TERM", "dumb"));
    terminal.until("Allow?");
    terminal
}

#[test]
fn a_person_is_asked_the_same_with_a_host_and_without() {
    for beside in [false, true] {
        let home = Home::new();
        let _host = beside.then(|| host(&home));
        let mut terminal = asking(&home);
        let (before, _) = terminal.shown.split_once("Allow?").unwrap();
        let question = before.rsplit_once("Write ").unwrap().0;
        assert!(
            question.ends_with("\r\n"),
            "a question has a line of its own: {before:?}"
        );
        assert!(
            !question.lines().any(|line| line.ends_with("thinking…")),
            "nothing stale stands above it: {before:?}"
        );
        terminal.press("y\n");
        terminal.until("over");
        assert!(terminal.child.wait().unwrap().success());
        assert!(home.work().join("new.txt").exists());
    }
}

#[test]
fn the_end_of_input_at_a_question_denies() {
    for beside in [false, true] {
        let home = Home::new();
        let _host = beside.then(|| host(&home));
        let mut terminal = asking(&home);
        terminal.press("\u{4}");
        terminal.until("over");
        assert!(terminal.child.wait().unwrap().success());
        assert!(!home.work().join("new.txt").exists());
    }
}

fn interrupt(id: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(id.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn a_turn_in_the_host_is_aborted_when_its_command_is_interrupted_or_killed() {
    use rustix::process::Signal;
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let home = Home::new();
        let _host = host(&home);
        let mut terminal = Terminal::start(&mut home.command(["run", "stream 100000 chunks slowly"]));
        terminal.until("1 2 3");
        interrupt(terminal.child.id(), signal);
        assert_eq!(terminal.child.wait().unwrap().code(), code);
        let log = &home.logs()[0];
        settle("the turn is aborted", || {
            !events::of_kind(&events::read_log(log), "abort").is_empty()
        });
    }
}

#[test]
fn a_command_whose_host_is_killed_ends_and_says_how_to_go_on() {
    let home = Home::new();
    let mut running = host(&home);
    let mut command = home.start(["run", "--json", "stream 100000 chunks slowly"]);
    command.until("assistant.turn_start");
    running.kill();
    let done = command.finish();
    assert_eq!(done.status.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("--resume last"), "{done:#?}");
    let more = home.run(["run", "--resume", "last", "say still here"]).ok();
    assert!(more.stdout().contains("still here"));
}

#[test]
fn a_host_of_another_version_is_named_and_what_to_do() {
    let home = Home::new();
    let _host = host(&home);
    let note = home.path().join("host.json");
    let text = std::fs::read_to_string(&note).unwrap();
    let own = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    std::fs::write(&note, text.replace(&own, "\"version\":\"9.9.9\"")).unwrap();
    for arguments in [
        &["run", "hi"][..],
        &["--headless", "--stdio"],
        &["import"],
        &["sessions", "delete", "last", "--yes"],
        &["acp"],
    ] {
        let done = home.run(arguments);
        assert_eq!(done.status.code(), Some(1), "{done:#?}");
        assert!(done.stderr.contains("is Lodge 9.9.9"), "{done:#?}");
        assert!(done.stderr.contains("start it again"), "{done:#?}");
    }
}

#[test]
fn logs_are_checked_beside_a_host_and_repaired_when_it_has_stopped() {
    let home = Home::new();
    let _ = home.run(["run", "say hello"]).ok();
    let running = host(&home);
    let sound = home.run(["check", "--fix"]).ok().stdout();
    assert!(sound.contains("1 session checked, 0 repaired."), "{sound}");
    let log = home.logs().remove(0);
    let mut text = std::fs::read_to_string(&log).unwrap();
    text.push_str("garbage\n");
    std::fs::write(&log, text).unwrap();
    let refused = home.run(["check", "--fix"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("`lodge serve --stop`"), "{refused:#?}");
    let _ = home.run(["serve", "--stop"]).ok();
    drop(running);
    let repaired = home.run(["check", "--fix"]).ok().stdout();
    assert!(repaired.contains("1 session checked, 1 repaired."), "{repaired}");
}

#[test]
fn what_is_no_hello_harms_nobody() {
    let home = Home::new();
    let _host = host(&home);
    let note: Value = serde_json::from_slice(&std::fs::read(home.path().join("host.json")).unwrap()).unwrap();
    let socket = note["joinSocket"].as_str().unwrap();
    for nonsense in ["\n", "{}\n", "GET / HTTP/1.1\r\n\r\n", r#"{"version":7}"#] {
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        stream.write_all(nonsense.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        assert!(answer.starts_with("{\"refused\":"), "{nonsense:?}: {answer}");
    }
    let _ = home.run(["run", "say fine"]).ok();
}

#[test]
fn what_is_piped_in_is_added_to_the_prompt() {
    for beside in [false, true] {
        let home = Home::new();
        let _host = beside.then(|| host(&home));
        for (words, input, expected) in [
            (
                &["what", "is", "this?"][..],
                "one\ntwo\n",
                "what is this?\n\none\ntwo\n",
            ),
            (&["-"], "from the pipe", "from the pipe"),
            (&[], "only this", "only this"),
            (&["no pipe"], "", "no pipe"),
        ] {
            let mut command: Command = home.command([&["run", "--json"], words].concat());
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            let text = String::from_utf8(output.stdout).unwrap();
            let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let said = events::of_kind(&events, "user.message")[0]["data"]["content"].clone();
            assert_eq!(said, expected, "{words:?}");
        }
    }
}

#[test]
fn a_person_is_asked_before_a_session_is_deleted() {
    for (beside, line, left) in [
        (false, "n\n", 1),
        (false, "y\n", 0),
        (true, "\u{4}", 1),
        (true, "yes\n", 0),
    ] {
        let home = Home::new();
        let _host = beside.then(|| host(&home));
        let _ = home.run(["run", "say one"]).ok();
        let mut terminal = Terminal::start(&mut home.command(["sessions", "delete", "last"]));
        terminal.until("Delete this session and everything in it?");
        terminal.press(line);
        assert_eq!(terminal.child.wait().unwrap().success(), left == 0, "{line:?}");
        assert_eq!(home.logs().len(), left, "{line:?}");
    }
}

/// A host whose configuration names a key of a keyring, and that keyring's program.
fn host_with_keyring(home: &Home, script: &str) -> Running {
    let programs = home.work().join("programs");
    std::fs::create_dir(&programs).unwrap();
    testkit::write_programs(&programs, &["secret-tool"], script);
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = home.command(["serve", "--port", "0", "--sdk-port", "0"]);
    let mut host = Running::start(command.env("PATH", path));
    host.line_with("Ctrl-C stops");
    let config = "default_model = \"rehearsal\"\n[[provider]]\nname = \"own\"\ntype = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key_keyring = \"own\"\n";
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
    host
}

#[test]
fn a_keyring_that_fails_after_asking_a_person_is_not_asked_again_at_once() {
    let home = Home::new();
    let asked = home.work().join("asked");
    let script = format!("#!/bin/sh\necho x >> {}\nsleep 1.5\nexit 1\n", asked.display());
    let _host = host_with_keyring(&home, &script);
    for _ in 0..2 {
        assert!(home.run(["run", "say hello"]).ok().stdout().contains("hello"));
    }
    assert_eq!(std::fs::read_to_string(&asked).unwrap().lines().count(), 1);
}

#[test]
fn a_keyring_that_asks_a_person_first_asks_once_and_holds_up_nobody_else() {
    let home = Home::new();
    let (asked, opened) = (home.work().join("asked"), home.work().join("opened"));
    let script = format!(
        "#!/bin/sh\necho x >> {}\nwhile ! [ -e {} ]; do sleep 0.05; done\necho a-key\n",
        asked.display(),
        opened.display()
    );
    let _host = host_with_keyring(&home, &script);
    // More than a host has threads.
    let waiting: Vec<Running> = (0..9).map(|_| home.start(["run", "say hello"])).collect();
    let patience = Instant::now() + Duration::from_secs(60);
    while !asked.exists() {
        assert!(Instant::now() < patience, "{:?}", std::fs::read_to_string(&asked));
        std::thread::sleep(Duration::from_millis(20));
    }
    let note = std::fs::read_to_string(home.path().join("host.json")).unwrap();
    let note: Value = serde_json::from_str(&note).unwrap();
    let address = note["ahp"]
        .as_str()
        .unwrap()
        .trim_start_matches("ws://")
        .trim_end_matches('/');
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(
        stream,
        "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    let read = std::io::Read::read_to_string(&mut stream, &mut answer);
    std::fs::write(&opened, "").unwrap();
    assert!(read.is_ok() && answer.starts_with("HTTP/1.1 200"), "{read:?}: {answer}");
    for guest in waiting {
        assert!(guest.finish().ok().stdout().contains("hello"));
    }
    assert_eq!(std::fs::read_to_string(&asked).unwrap().lines().count(), 1);
}
