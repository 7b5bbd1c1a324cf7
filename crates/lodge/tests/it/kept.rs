//! What a person saw of an answer stays, for people and for the model, however its turn ended.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};
use testkit::{
    Home, Running,
    model_server::{ModelServer, Reply},
};

/// How a turn ends before its answer does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    Interrupted,
    Killed,
    Failed,
}

fn run(server: &ModelServer, home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(["run"].iter().chain(args));
    command
        .env("LODGE_PROVIDER_BASE_URL", server.openai_url())
        .env("LODGE_MODEL", "loopback-1");
    command
}

/// Waits until the session's log has a piece of the answer.
pub(crate) fn until_kept(home: &Home) {
    let kept = |log: &std::path::PathBuf| std::fs::read_to_string(log).is_ok_and(|log| log.contains("lodge.partial"));
    while !home.logs().iter().any(kept) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the last call of the model was told by either side, without what the host adds.
fn told(server: &ModelServer) -> Vec<(String, String)> {
    let messages = server.last_request().body["messages"].as_array().unwrap().clone();
    let told = messages.iter().filter(|message| message["role"] != "system");
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    told.map(|message| (message["role"].as_str().unwrap().to_owned(), text(&message["content"])))
        .collect()
}

#[test]
fn what_an_answer_had_said_is_shown_and_told_to_the_model_however_its_turn_ended() {
    for ending in [Ending::Interrupted, Ending::Killed, Ending::Failed] {
        let (server, home) = (ModelServer::start(), Home::new());
        let piece = json!({"choices": [{"index": 0, "delta": {"content": "Once upon"}}]});
        let begun = Reply::raw("text/event-stream", format!("data: {piece}\n\n"));
        match ending {
            Ending::Failed => server.reply(begun).reply(Reply::error(401, "no", "Not any more.")),
            _ => server.reply(begun.hang()),
        };
        let mut running = Running::start(&mut run(&server, &home, &["--json", "tell me a story"]));
        running.until("assistant.message_delta");
        match ending {
            Ending::Interrupted => {
                let id = running.id().to_string();
                assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
            }
            Ending::Killed => {
                until_kept(&home);
                running.kill();
            }
            Ending::Failed => {}
        }
        drop(running.finish());
        let shown = |home: &Home| home.run(["sessions", "show", "last"]).ok().stdout();
        let times = |text: &str| text.matches("Once upon").count();
        assert_eq!(times(&shown(&home)), 1, "{ending:?}: {}", shown(&home));
        let exported = home.run(["export", "last", "--format", "md"]).ok().stdout();
        assert_eq!(times(&exported), 1, "{ending:?}: {exported}");
        server.reply(Reply::text("And so it went."));
        let more = run(&server, &home, &["--resume", "last", "please go on"])
            .output()
            .unwrap();
        assert!(more.status.success(), "{ending:?}: {more:?}");
        let told = told(&server);
        let heard = told.iter().map(|(role, text)| (role.as_str(), text.as_str()));
        let heard: Vec<_> = heard.collect();
        // The model reads that a person stopped it, and of no other ending.
        let stopped = ("user", "[The user interrupted the turn here.]");
        let is_told = heard.contains(&stopped);
        assert_eq!(is_told, matches!(ending, Ending::Interrupted), "{ending:?}: {heard:?}");
        let heard: Vec<_> = heard.into_iter().filter(|message| *message != stopped).collect();
        let [(first, story), (second, begun), (third, on)] = heard[..] else {
            panic!("{ending:?}: {heard:?}");
        };
        assert_eq!((first, second, third), ("user", "assistant", "user"), "{ending:?}");
        assert!(
            story.contains("tell me a story") && on.contains("please go on"),
            "{heard:?}"
        );
        assert_eq!(begun, "Once upon", "{ending:?}");
        assert_eq!(times(&shown(&home)), 1, "{ending:?}: {}", shown(&home));
    }
}

#[test]
fn a_message_that_was_stopped_before_its_answer_began_is_told_to_the_model() {
    let (server, home) = (ModelServer::start(), Home::new());
    server.reply(Reply::raw("text/event-stream", "").hang());
    let mut running = Running::start(&mut run(&server, &home, &["--json", "tell me a story"]));
    // The reply that never comes is for this request, not for the next one.
    while server.requests().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.until("model.call_start");
    let id = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    drop(running.finish());
    server.reply(Reply::text("Gladly."));
    let more = run(&server, &home, &["--resume", "last", "please go on"])
        .output()
        .unwrap();
    assert!(more.status.success(), "{more:?}");
    let told = told(&server);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].1.contains("tell me a story"), "{told:?}");
    assert_eq!(told[1].1, "[The user interrupted the turn here.]", "{told:?}");
}
