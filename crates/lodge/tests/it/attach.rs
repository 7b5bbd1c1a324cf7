//! `lodge attach`: people at several terminals, a host that is killed and comes back.

use testkit::{
    Home, Random, Running,
    model_server::{ModelServer, Reply},
};

#[cfg(unix)]
use crate::terminal::Terminal;

/// A host on a home, and where it listens.
pub(crate) struct Host {
    pub(crate) running: Running,
    port: String,
}

impl Host {
    pub(crate) fn start(home: &Home) -> Self {
        Self::start_on(home, "0")
    }

    pub(crate) fn start_on(home: &Home, port: &str) -> Self {
        let mut running = home.start(["--port", port, "--sdk-port", "0"]);
        let line = running.line_with("AHP clients");
        let (_, after) = line.split_once("127.0.0.1:").expect("the host listens on loopback");
        let port = after.split('/').next().expect("a port").to_owned();
        running.line_with("Ctrl-C stops");
        Self { running, port }
    }

    /// SIGTERM. The port on which it listened.
    pub(crate) fn stop(self) -> String {
        let mut kill = std::process::Command::new("kill");
        assert!(kill.arg(self.running.id().to_string()).status().unwrap().success());
        let _ = self.running.finish().ok();
        self.port
    }

    /// SIGKILL, and another host on the same home and port.
    fn killed_and_restarted(mut self, home: &Home) -> Self {
        self.running.kill();
        self.running.finish();
        Self::start_on(home, &self.port)
    }
}

pub(crate) fn attach(home: &Home, args: &[&str]) -> Running {
    home.talk([&["attach"], args].concat())
}

#[test]
fn programs_of_a_session_see_the_variables_of_the_terminal_that_began_it() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut command = home.command(["attach", "--new"]);
    command.env("MARK", "of the terminal").env("OPENAI_API_KEY", "a secret");
    let mut terminal = Running::start(command.stdin(std::process::Stdio::piped()));
    terminal.say("!echo \"<$MARK><$OPENAI_API_KEY>\"");
    terminal.line_with("<of the terminal><>");
    leave(terminal);
    let log = std::fs::read_to_string(home.logs().remove(0)).unwrap();
    assert_eq!(
        log.matches("of the terminal").count(),
        log.matches("<of the terminal>").count(),
        "it is in memory only"
    );
}

/// Ends the input; the terminal leaves when nothing is going on any more.
fn leave(terminal: Running) -> Vec<String> {
    terminal.finish().ok().lines
}

/// How often a line was printed.
fn count(lines: &[String], line: &str) -> usize {
    lines.iter().filter(|printed| printed.as_str() == line).count()
}

#[test]
fn a_command_that_a_person_types_shows_all_that_it_printed() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.say("!seq 1 8; echo; echo last");
    one.say("!echo bad; exit 3");
    let done = one.finish().ok();
    let numbers = (1..=8).map(|number| format!("  {number}"));
    let first = ["> !seq 1 8; echo; echo last", "→ Running `seq 1 8; echo; echo last`"].map(str::to_owned);
    let rest = [
        "  ",
        "  last",
        "> !echo bad; exit 3",
        "→ Running `echo bad; exit 3`",
        "  bad",
        "✗ Ran `echo bad; exit 3` (exit code 3)",
    ];
    let expected: Vec<String> = first
        .into_iter()
        .chain(numbers)
        .chain(rest.map(str::to_owned))
        .collect();
    let printed: Vec<&str> = done.lines[1..].iter().map(|line| line.trim_end()).collect();
    let expected: Vec<&str> = expected.iter().map(|line| line.trim_end()).collect();
    assert_eq!(printed, expected);
}

#[test]
fn lines_are_sent_and_answers_printed_and_the_end_waits_for_the_last_one() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.say("think about doors then say They open.");
    one.say("say two");
    one.say("/title Doors");
    let done = one.finish().ok();
    assert_eq!(
        done.lines[1..],
        [
            "> think about doors then say They open.",
            "┊ Let me think about doors. There is much to say about doors.",
            "They open.",
            "> say two",
            "two",
            "· Title: Doors",
        ],
        "{:#?}",
        done.lines
    );
    // Picked from the list by its number, with the last turns in short.
    let mut again = attach(&home, &[]);
    again.line_with("Doors");
    again.line_with("Enter a number");
    again.say("1");
    again.line_with("> think about doors");
    again.line_with("They open.");
    again.line_with("> say two");
    again.say("what did I say?");
    again.line_with("> what did I say?");
    let lines = leave(again);
    assert_eq!(count(&lines, "two"), 1, "{lines:#?}");
    // By the beginning of its id, and only the last turn.
    let list = home.run(["sessions", "list", "--json"]).ok().events();
    let id = list[0]["id"].as_str().or(list[0]["sessionId"].as_str()).expect("an id");
    let short = attach(&home, &[&id[..8], "--history", "1"]).finish().ok();
    assert!(short.stdout().contains("what did I say?"), "{short:#?}");
    assert!(!short.stdout().contains("> say two"), "{short:#?}");
    let wrong = attach(&home, &["ffffffff-none"]).finish();
    assert!(
        !wrong.status.success() && wrong.stderr.contains("There is no session"),
        "{wrong:#?}"
    );
}

#[test]
fn words_at_the_list_begin_a_new_session() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut first = attach(&home, &[]);
    first.say("say one");
    leave(first);
    let mut second = attach(&home, &[]);
    second.line_with("Enter a number");
    second.say("say another");
    second.say("/sessions");
    second.say("/sessions 2");
    second.say("/new");
    second.say("say third");
    let lines = leave(second);
    assert_eq!(count(&lines, "another"), 1, "{lines:#?}");
    assert_eq!(count(&lines, "> say one"), 1, "{lines:#?}");
    assert_eq!(count(&lines, "third"), 1, "{lines:#?}");
    assert_eq!(home.logs().len(), 3);
}

#[test]
fn two_terminals_stay_in_step() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.say("say from the first");
    one.line_with("from the first");
    one.line_with("from the first");
    let mut two = attach(&home, &["last"]);
    two.line_with("> say from the first");
    two.say("say from the second");
    for terminal in [&mut one, &mut two] {
        terminal.line_with("> say from the second");
        assert_eq!(terminal.line().as_deref(), Some("from the second"));
    }
    one.say("/title Shared");
    two.line_with("· Title: Shared");
    one.say("fail with quota");
    two.line_with("> fail with quota");
    two.line_with("✗ ");
    two.say("say over");
    one.line_with("over");
    leave(one);
    leave(two);
}

#[test]
fn a_tool_is_approved_from_the_second_terminal() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.say("call bash {\"command\":\"echo hi > made\"} then say done with it");
    one.line_with("? Run this command?");
    let mut two = attach(&home, &["last"]);
    two.line_with("? Run this command?");
    two.line_with("echo hi > made");
    two.say("y");
    for terminal in [&mut one, &mut two] {
        terminal.line_with("→ Running `echo hi > made`");
        terminal.line_with("done with it");
    }
    assert!(home.work().join("made").exists());
    // Denied with a reason, from the first.
    one.say("call bash {\"command\":\"echo hi > other\"} then say understood");
    two.line_with("? Run this command?");
    one.line_with("? Run this command?");
    one.say("no, not there");
    for terminal in [&mut one, &mut two] {
        terminal.line_with("✗ Denied: Running `echo hi > other`");
        terminal.line_with("understood");
    }
    assert!(!home.work().join("other").exists());
    leave(one);
    leave(two);
}

#[test]
fn questions_are_answered_by_number_or_in_words() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.say("ask \"Which colour?\" choices red, blue then ask \"Why?\" then say thank you");
    one.line_with("? Which colour?");
    one.line_with("1. red");
    one.line_with("2. blue");
    one.say("2");
    one.line_with("↳ blue");
    one.line_with("? Why?");
    one.say("because");
    one.line_with("↳ because");
    one.line_with("thank you");
    leave(one);
}

#[test]
fn a_turn_is_cancelled_and_the_next_one_runs() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.say("slowly 20 ms, stream 100000 chunks");
    one.line_with("> slowly 20 ms");
    one.say("/cancel");
    one.line_with("· Cancelled.");
    one.say("say still here");
    one.line_with("> say still here");
    one.line_with("still here");
    leave(one);
}

#[test]
fn a_message_waits_in_the_queue_of_the_host_while_a_turn_runs() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.say("call bash {\"command\":\"echo hi > made\"} then say first");
    one.line_with("? Run this command?");
    // No answer to what is asked, so it is a message.
    one.say("say second");
    one.line_with("· Queued: say second");
    one.say("y");
    one.line_with("first");
    one.line_with("> say second");
    assert_eq!(one.line().as_deref(), Some("second"));
    leave(one);
}

#[test]
fn a_killed_host_comes_back_and_nothing_is_lost_or_told_twice() {
    let home = Home::new();
    let host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.say("think about doors then say before");
    one.line_with("before");
    one.line_with("before");
    let mut two = attach(&home, &["last"]);
    two.line_with("> think about doors");
    one.say("slowly 20 ms, stream 60 chunks");
    two.line_with("> slowly 20 ms");
    // The turn is cut off; if it had not reached the log yet, its message is sent again and it runs once more.
    let host = host.killed_and_restarted(&home);
    for terminal in [&mut one, &mut two] {
        terminal.line_with("· The host is not reachable; reconnecting… back.");
    }
    two.say("say after");
    for terminal in [&mut one, &mut two] {
        terminal.line_with("> say after");
        terminal.line_with("after");
    }
    // On another port: the note in the home tells which.
    drop(host);
    let _host = Host::start(&home);
    one.say("say moved");
    for terminal in [&mut one, &mut two] {
        terminal.line_with("back.");
        terminal.line_with("> say moved");
        terminal.line_with("moved");
    }
    for terminal in [one, two] {
        let lines = leave(terminal);
        // What had begun may be shown again when something from before the kill goes first, its answer not.
        for once in ["> think about doors then say before", "before", "after", "moved"] {
            assert_eq!(count(&lines, once), 1, "{once:?} in {lines:#?}");
        }
    }
}

#[test]
fn a_session_without_a_word_survives_a_restart_too() {
    let home = Home::new();
    let host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.line_with("· Session");
    let _host = host.killed_and_restarted(&home);
    one.line_with("back.");
    one.say("say hello");
    one.line_with("> say hello");
    one.line_with("hello");
    leave(one);
}

/// Whatever the moment of the kill, a message is in the conversation once, and the terminal says the next one.
#[test]
fn no_message_is_lost_or_doubled_by_kills_at_random_moments() {
    let (mut random, seed) = Random::from_env();
    println!("LODGE_SEED={seed} replays this run");
    let home = Home::new();
    let mut host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.line_with("· Session");
    for round in 0..6 {
        one.say(&format!("say round {round} then slowly 5 ms, stream 5 chunks"));
        std::thread::sleep(std::time::Duration::from_micros(random.below(30_000)));
        host = host.killed_and_restarted(&home);
        one.line_with("back.");
    }
    one.say("say the end");
    one.line_with("> say the end");
    let lines = leave(one);
    let log = home.run(["sessions", "show", "last"]).ok().stdout();
    for round in 0..6 {
        let said = format!("say round {round} then");
        assert_eq!(
            log.matches(&said).count(),
            1,
            "seed {seed}: {said:?} in {log}\n{lines:#?}"
        );
        // That it has to wait may be told before.
        let shown = lines
            .iter()
            .filter(|line| line.starts_with("> ") && line.contains(&said));
        let shown = shown.count();
        assert_eq!(shown, 1, "seed {seed}: {said:?} in {lines:#?}");
    }
}

#[test]
fn a_host_whose_port_is_taken_says_how_to_choose_another() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (option, other) in [("--port", "--sdk-port"), ("--sdk-port", "--port")] {
        let done = home.start([option, port.as_str(), other, "0"]).finish();
        assert!(!done.status.success());
        let hint = format!("choose another with {option}:");
        assert!(done.stderr.contains(&hint) && done.stderr.contains(&port), "{done:#?}");
    }
}

#[test]
fn a_host_finds_another_port_for_sdks_when_the_usual_one_is_taken_and_names_todays_option() {
    let home = Home::new();
    // Somebody else on this machine may have it already, which is as good.
    let _taken = std::net::TcpListener::bind("127.0.0.1:8765");
    let mut host = home.start(["--port", "0"]);
    let told = host.line_with("Copilot SDKs");
    let note = std::fs::read_to_string(home.path().join("host.json")).unwrap();
    let note: serde_json::Value = serde_json::from_str(&note).unwrap();
    let address = note["copilot"].as_str().unwrap();
    assert!(!address.ends_with(":8765"), "{told}");
    assert!(
        told.contains(&format!("RuntimeConnection.forUri(\"{address}\")")),
        "{told}"
    );
    host.kill();
    let done = host.finish();
    assert!(done.stderr.contains("Port 8765 is in use"), "{done:#?}");
}

#[test]
fn without_a_host_it_says_how_to_start_one() {
    let home = Home::new();
    let done = attach(&home, &[]).finish();
    assert!(!done.status.success());
    assert!(done.stderr.contains("No host is running"), "{done:#?}");
    let host = Host::start(&home);
    let url = format!("ws://127.0.0.1:{}/", host.port);
    let done = attach(&home, &["--url", &url, "--token", "-not-the-token-of-it"]).finish();
    assert!(!done.status.success());
    assert!(done.stderr.contains("refused the token"), "{done:#?}");
    let token = std::fs::read_to_string(home.path().join("token")).unwrap();
    let mut one = attach(&home, &["--new", "--url", &url, "--token", token.trim()]);
    one.say("say by url");
    one.line_with("by url");
    leave(one);
}

#[cfg(unix)]
#[test]
fn a_person_at_a_terminal_is_prompted_and_ctrl_c_cancels_then_leaves() {
    use rustix::process::{Pid, Signal, kill_process};
    let home = Home::new();
    let _host = Host::start(&home);
    let mut terminal = Terminal::start(home.command(["attach"]).env("TERM", "dumb"));
    terminal.until("> ");
    terminal.press("say hello\n");
    terminal.until("\nhello\r\n> ");
    assert_eq!(terminal.shown.matches("say hello").count(), 1, "{}", terminal.shown);
    terminal.press("call bash {\"command\":\"echo hi > made\"} then say done with it\n");
    terminal.until("Run this command?");
    terminal.until("\n? ");
    terminal.press("a\n");
    terminal.until("done with it\r\n> ");
    assert!(home.work().join("made").exists());
    terminal.press("slowly 20 ms, stream 100000 chunks\n");
    terminal.until("1 2 3 4");
    let pid = Pid::from_child(&terminal.child);
    kill_process(pid, Signal::INT).unwrap();
    terminal.until("Cancelled.\r\n> ");
    kill_process(pid, Signal::INT).unwrap();
    assert!(terminal.child.wait().unwrap().success(), "{}", terminal.shown);
}

#[cfg(unix)]
#[test]
fn a_unix_socket_serves_as_well() {
    let home = Home::new();
    let socket = home.work().join("lodge.sock");
    let mut host = home.start(["--socket", socket.to_str().unwrap(), "--sdk-port", "0"]);
    host.line_with("Ctrl-C stops");
    let mut one = attach(&home, &["--new"]);
    one.say("say over the socket");
    one.line_with("> say over the socket");
    one.line_with("over the socket");
    leave(one);
}

#[cfg(unix)]
#[test]
fn a_line_is_edited_completed_and_fetched_again() {
    let home = Home::new();
    std::fs::write(home.work().join("some-notes.txt"), "x").unwrap();
    let _host = Host::start(&home);
    let mut terminal = Terminal::start(home.command(["attach", "--plain", "--new"]).env("TERM", "xterm"));
    terminal.until("> ");
    // A letter too many is taken back, one that is missing is put in.
    terminal.press("say helxlo\x1b[D\x1b[D\x7f\r");
    terminal.until("\nhello");
    terminal.press("/rena\t");
    terminal.until("/rename ");
    terminal.press("Mine\r");
    terminal.until("Title: Mine");
    terminal.press("/rew\t");
    terminal.until("/rewind ");
    // Ctrl-U leaves nothing of it.
    terminal.press("\x15/mo\t\t");
    terminal.until("/mode  /model");
    terminal.press("\x15say see @some\t");
    terminal.until("@some-notes.txt ");
    terminal.press("\r");
    terminal.until("\nsee @some-notes.txt");
    terminal.press("\x1b[A\x1b[A\x1b[A");
    terminal.until("> say hello");
    // What is pasted is one message, of several lines.
    terminal.press("\x15say \x1b[200~one\rtwo\rthree\x1b[201~\r");
    terminal.until("\none\r\ntwo\r\nthree");
    terminal.press("\x15/quit\r");
    assert!(terminal.child.wait().unwrap().success());
}

#[test]
fn a_prompt_of_an_mcp_server_can_be_the_first_message() {
    let home = Home::new();
    crate::models::with_prompter(&home);
    let _host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.say("/mcp__polite__greet you");
    let lines = leave(one);
    assert_eq!(count(&lines, "hello from the prompt"), 1, "{lines:#?}");
}

#[test]
fn what_stops_the_host_is_why_its_turns_are_aborted() {
    use rustix::process::{Pid, Signal, kill_process};
    for (signal, reason) in [(Signal::TERM, "remote_command"), (Signal::INT, "user_initiated")] {
        let home = Home::new();
        let host = Host::start(&home);
        let mut turn = home.start(["run", "--json", "stream 100000 chunks slowly"]);
        turn.until("assistant.message_delta");
        let pid = Pid::from_raw(host.running.id().cast_signed()).expect("it runs");
        kill_process(pid, signal).expect("it can be told");
        assert!(host.running.finish().status.success());
        let log = testkit::events::read_log(&home.logs()[0]);
        let aborts = testkit::events::of_kind(&log, "abort");
        assert_eq!(aborts.len(), 1, "{log:#?}");
        assert_eq!(aborts[0]["data"]["reason"], reason);
    }
}

#[test]
fn a_failed_turn_is_tried_again_and_shown_in_every_terminal() {
    let (server, home) = (ModelServer::start(), Home::new());
    let config = format!(
        "[[provider]]\nname = \"local\"\nbase_url = \"{}\"\n[[model]]\nid = \"m\"\nprovider = \"local\"\n",
        server.openai_url()
    );
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
    let _host = Host::start(&home);
    server.reply(Reply::error(400, "bad", "The request was refused."));
    let mut one = attach(&home, &["--new"]);
    one.say("do it");
    one.line_with("The request was refused.");
    let mut two = attach(&home, &["last"]);
    two.line_with("The request was refused.");
    server.reply(Reply::text("All is well."));
    one.say("/retry");
    for terminal in [&mut one, &mut two] {
        terminal.line_with("· Trying again.");
        terminal.line_with("All is well.");
    }
    one.say("/retry");
    one.line_with("did not fail");
    let lines = leave(one);
    assert_eq!(count(&lines, "> do it"), 1, "{lines:#?}");
    leave(two);
}

#[test]
fn an_approval_mode_is_the_sessions_and_an_option_of_a_run_is_not() {
    let home = Home::new();
    let create = |name: &str| format!(r#"call create {{"path":"{name}","file_text":"x"}}"#);
    // Everything for one run, of a new session and of an old one: then the session has its own mode again.
    for arguments in [vec!["run", "--yolo"], vec!["run", "--yolo", "--resume", "last"]] {
        let arguments = arguments.into_iter().map(str::to_owned).chain([create("made")]);
        let _ = home.run(arguments).ok();
        std::fs::remove_file(home.work().join("made")).unwrap();
        let refused = home.run(["run", "--resume", "last", &create("refused")]);
        assert!(refused.stderr.contains("--approve edits"), "{refused:#?}");
        assert!(!home.work().join("refused").exists());
    }
    // A mode that a person chose stays, whatever runs.
    let _host = Host::start(&home);
    let mut one = attach(&home, &["last"]);
    one.say("/approvals none");
    one.line_with("· Approvals: none");
    one.say("/approvals never");
    one.line_with("The approval modes are ask, safe, edits, all and none.");
    leave(one);
    for option in [None, Some("--yolo")] {
        let arguments = ["run", "--resume", "last"]
            .into_iter()
            .chain(option)
            .chain(["say more"]);
        let _ = home.run(arguments).ok();
        let mut again = attach(&home, &["last"]);
        again.line_with("approvals: none");
        leave(again);
    }
}

#[test]
fn the_list_tells_sessions_that_wait_from_those_that_were_interrupted() {
    let home = Home::new();
    let state = |expected: &str| {
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let listed = home.run(["sessions", "list"]).ok().stdout();
            if listed.contains(expected) {
                return;
            }
            assert!(std::time::Instant::now() < patience, "{expected}: {listed}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    let mut host = Host::start(&home);
    let mut one = attach(&home, &["--new"]);
    one.say("slowly 20 ms, stream 100000 chunks");
    state("  working ");
    host.running.kill();
    let _ = host.running.finish();
    one.hush();
    // Another host runs, and nothing works in it.
    let _other = Host::start(&home);
    state("  interrupted ");
    let mut two = attach(&home, &["--new"]);
    two.say("call bash {\"command\":\"echo hi > made\"} then say done");
    two.line_with("? Run this command?");
    state("  needs answer ");
    two.say("y");
    two.line_with("done");
    leave(two);
}
