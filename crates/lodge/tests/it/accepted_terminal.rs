//! SIGKILL as soon as a terminal prints that what a person said was taken up: it is there afterwards, and once. The terminal is
//! killed, too: it would send again what it was not told of.
//!
//! `LODGE_ACCEPTED_ROUNDS` sets how many kills.

use serde_json::Value;
use testkit::{Home, Running, events};

use crate::{
    accepted::rounds,
    attach::{Host, attach},
};

/// What a terminal prints last before the host is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Last {
    Message,
    Queued,
    Title,
    Answer,
}

const ALL: [Last; 4] = [Last::Message, Last::Queued, Last::Title, Last::Answer];

const LONG: &str = "slowly 20 ms, stream 500 chunks";
const CALL: &str = r#"call bash {"command":"echo ran >> ran"} then say done"#;

/// Says things until the terminal prints that the last of them was taken up. The messages among them.
fn act(terminal: &mut Running, last: Last) -> Vec<&'static str> {
    match last {
        Last::Message => {
            terminal.say(LONG);
            terminal.line_with("> slowly");
            vec![LONG]
        }
        Last::Queued => {
            terminal.say(CALL);
            terminal.line_with("? Run this command?");
            // No answer to what is asked, so it is a message.
            terminal.say("say second");
            terminal.line_with("· Queued: say second");
            vec![CALL, "say second"]
        }
        Last::Title => {
            terminal.say("say hello");
            terminal.line_with("> say hello");
            terminal.line_with("hello");
            terminal.say("/title Doors");
            terminal.line_with("· Title: Doors");
            vec!["say hello"]
        }
        Last::Answer => {
            terminal.say(CALL);
            terminal.line_with("? Run this command?");
            terminal.say("y");
            terminal.line_with("→ Running `echo ran");
            vec![CALL]
        }
    }
}

/// The messages that were said or wait, each as often as the log has it.
fn messages(log: &[Value]) -> Vec<&str> {
    let said = events::of_kind(log, "user.message");
    let queued = events::of_kind(log, "lodge.message_queued");
    let is_said = |queued: &&&Value| {
        let id = &queued["data"]["messageId"];
        said.iter().any(|said| said["data"]["messageId"] == *id)
    };
    let waiting = queued.iter().filter(|queued| !is_said(queued));
    let said = said.iter().map(|event| event["data"]["content"].as_str().unwrap());
    said.chain(waiting.map(|event| event["data"]["item"]["text"].as_str().unwrap()))
        .collect()
}

#[test]
fn what_a_terminal_printed_as_taken_up_is_there_once_after_kill_9() {
    let rounds = rounds(8);
    for round in 0..rounds {
        let last = ALL[round % ALL.len()];
        println!("round {round}: {last:?}");
        let home = Home::new();
        let mut host = Host::start(&home);
        let mut terminal = attach(&home, &["--new"]);
        terminal.line_with("· Session");
        let said = act(&mut terminal, last);
        host.running.kill();
        terminal.kill();
        host.running.finish();
        terminal.finish();
        let mut host = Host::start(&home);
        let listed = home.run(["sessions", "list"]).ok();
        assert_eq!(
            listed.stdout().contains("Doors"),
            last == Last::Title,
            "{}",
            listed.stdout()
        );
        host.running.kill();
        host.running.finish();
        let log = events::read_log(&home.logs()[0]);
        assert_eq!(messages(&log), said, "{last:?}");
        let answered = events::of_kind(&log, "lodge.answered").len();
        assert_eq!(answered, usize::from(last == Last::Answer), "{last:?}");
        let ran = std::fs::read_to_string(home.work().join("ran")).unwrap_or_default();
        assert!(ran.lines().count() <= answered, "{ran}");
    }
}
