//! `lodge run` with models of other people behind HTTP, which do not always answer as one would like.

use std::process::Output;

use serde_json::{Value, json};
use testkit::{
    Home,
    model_server::{ModelServer, Reply},
};

fn run(server: &ModelServer, home: &Home, args: &[&str]) -> Output {
    let mut command = home.command(["run"].iter().chain(args));
    command
        .env("LODGE_PROVIDER_BASE_URL", server.openai_url())
        .env("LODGE_MODEL", "loopback-1");
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_answer_that_is_not_whole_is_said_so_and_told_by_the_exit_code() {
    let cases = [
        (Reply::text("All of it."), 0, ""),
        (
            Reply::text("Half of").finish("length"),
            3,
            "Warning: The answer is cut off after 5 tokens",
        ),
        (
            Reply::text("").finish("content_filter"),
            3,
            "Warning: The provider withheld the answer, or the rest of it (content_filter)",
        ),
        (Reply::text(""), 3, "Warning: The model answered with nothing"),
    ];
    for (reply, code, warning) in cases {
        let (server, home) = (ModelServer::start(), Home::new());
        server.reply(reply);
        let output = run(&server, &home, &["go"]);
        assert_eq!(output.status.code(), Some(code), "{warning} {}", err(&output));
        assert!(err(&output).contains(warning), "{warning}: {}", err(&output));
        assert_eq!(err(&output).contains("Warning"), code != 0, "{}", err(&output));
    }
}

#[test]
fn an_answer_that_breaks_off_is_gone_on_with_and_nothing_is_shown_twice() {
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "Once upon"}}]});
    let broken = || Reply::raw("text/event-stream", format!("data: {piece}\n\n"));
    // A model that goes on where it was cut off, and one that says everything again.
    for second in [" a time.", "Once upon a time."] {
        let (server, home) = (ModelServer::start(), Home::new());
        server.reply(broken()).reply(broken()).reply(Reply::text(second));
        let output = run(&server, &home, &["go"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        // What goes wrong is told beside the answer, on a line of its own.
        assert_eq!(out(&output).replace('\n', ""), "Once upon a time.", "{second:?}");
        let asked = server.requests();
        assert_eq!(asked.len(), 3);
        let last = asked[2].body["messages"].as_array().unwrap();
        assert_eq!(
            last[last.len() - 2],
            json!({"role": "assistant", "content": "Once upon"})
        );
        assert_eq!(last[last.len() - 1]["role"], "user");
    }
    // What is recorded, and what clients of every kind see of it: one message, whose deltas make its text.
    let (server, home) = (ModelServer::start(), Home::new());
    server.reply(broken()).reply(Reply::text("Once upon a time."));
    let output = run(&server, &home, &["--json", "go"]);
    let events: Vec<Value> = out(&output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| -> Vec<&Value> {
        let of = events.iter().filter(|event| event["type"] == kind);
        of.map(|event| &event["data"]).collect()
    };
    let messages = of("assistant.message");
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["content"], "Once upon a time.");
    assert_eq!(of("assistant.message_start").len(), 1);
    let deltas = of("assistant.message_delta");
    let texts: String = deltas
        .iter()
        .filter_map(|delta| delta["deltaContent"].as_str())
        .collect();
    assert_eq!(texts, "Once upon a time.");
    assert!(
        deltas
            .iter()
            .all(|delta| delta["messageId"] == messages[0]["messageId"])
    );
}

#[test]
fn a_call_that_is_made_again_says_why_at_once_and_how_long_that_takes() {
    let (server, home) = (ModelServer::start(), Home::new());
    let busy = || Reply::error(429, "rate_limited", "Too many requests for one minute.").header("retry-after", "1");
    server.reply(busy()).reply(busy()).reply(Reply::text("Here I am."));
    let output = run(&server, &home, &["go"]);
    assert_eq!(out(&output).trim(), "Here I am.", "{}", err(&output));
    let why = err(&output);
    assert_eq!(why.matches("Too many requests for one minute.").count(), 1, "{why}");
    assert!(why.contains("429") && why.contains("Trying again."), "{why}");

    server.reply(busy()).reply(Reply::text("Here I am."));
    let output = run(&server, &home, &["--json", "go"]);
    let events: Vec<Value> = out(&output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told = events.iter().filter(|event| event["type"] == "assistant.intent");
    let told: Vec<_> = told.map(|event| event["data"]["intent"].as_str().unwrap()).collect();
    let [waiting, again] = told[..] else {
        panic!("{told:?}");
    };
    assert!(
        waiting.starts_with("Trying again in 1 s (attempt 2 of 6): "),
        "{waiting}"
    );
    assert!(waiting.contains("Too many requests"), "{waiting}");
    assert_eq!(again, "Trying again (attempt 2 of 6)");
}

/// An MCP server in a few lines: one prompt and no tools.
const PROMPTER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"prompts":{},"tools":{}},"serverInfo":{"name":"p","version":"1"}}' ;;
    *'"prompts/list"'*) result='{"prompts":[{"name":"greet","arguments":[{"name":"who","required":true}]}]}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"bow","inputSchema":{"type":"object"}}]}' ;;
    *'"prompts/get"'*) result='{"messages":[{"role":"user","content":{"type":"text","text":"say hello from the prompt"}}]}' ;;
    *) result='{}' ;;
  esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// Gives a home the server `polite`.
pub(crate) fn with_prompter(home: &Home) {
    let script = home.work().join("prompter.sh");
    std::fs::write(&script, PROMPTER).unwrap();
    let config = format!(
        "[mcp.servers.polite]\ncommand = \"sh\"\nargs = [\"{}\"]\n",
        script.display()
    );
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
}

#[test]
fn servers_that_cannot_be_used_are_told_with_the_answer() {
    let home = Home::new();
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("mcp-config.json"), "{bad").unwrap();
    std::fs::write(
        home.path().join("lodge.toml"),
        "[mcp.servers.gone]\ncommand = \"/no/such/program\"\n",
    )
    .unwrap();
    let done = home.run(["run", "say hi"]).ok();
    assert_eq!(done.lines, ["hi"]);
    for expected in ["mcp-config.json cannot be used", "gone"] {
        let told = done.stderr.lines().filter(|line| line.contains(expected)).count();
        assert_eq!(told, 1, "{expected}: {}", done.stderr);
    }
}

#[test]
fn a_prompt_of_an_mcp_server_is_a_command_from_the_first_message_on() {
    let home = Home::new();
    with_prompter(&home);
    let output = home.command(["run", "/mcp__polite__greet you"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output).trim(), "hello from the prompt");
    let listed = home.run(["run", "/mcp"]).ok().stdout();
    assert!(listed.contains("connected, 1 tool\n"), "{listed}");
    let output = home.command(["run", "/nosuch you"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(
        err(&output).contains("There is no command `/nosuch`"),
        "{}",
        err(&output)
    );
    assert_eq!(out(&output), "");
}

#[test]
fn the_doctor_notices_a_model_that_the_server_does_not_have() {
    let server = ModelServer::start();
    server.set_models(json!({"data": [{"id": "small"}, {"id": "large"}]}));
    for (model, sound) in [("small", true), ("tiny", false)] {
        let home = Home::new();
        let mut command = home.command(["doctor"]);
        command
            .env("LODGE_PROVIDER_BASE_URL", server.openai_url())
            .env("LODGE_MODEL", model);
        let text = out(&command.output().unwrap());
        assert_eq!(text.contains(&format!("✓ new sessions use {model}")), sound, "{text}");
        let lacks = "✗ new sessions use tiny, and environment does not list tiny; it has small, large.";
        assert_eq!(text.contains(lacks), !sound, "{text}");
    }
}

#[test]
fn the_doctor_says_why_a_list_of_models_cannot_be_had() {
    let server = ModelServer::start();
    server.set_models(json!({"object": "list"}));
    let gone = "http://127.0.0.1:9/v1".to_owned();
    for (url, why) in [
        (server.openai_url(), "neither `data` nor `models`"),
        (gone, "Check the address"),
    ] {
        let home = Home::new();
        let mut command = home.command(["doctor"]);
        command.env("LODGE_PROVIDER_BASE_URL", &url).env("LODGE_MODEL", "small");
        let output = command.output().unwrap();
        let text = out(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let bad: Vec<&str> = text.lines().filter(|line| line.starts_with("  ✗")).collect();
        assert!(bad.len() == 1 && bad[0].contains(why), "{text}");
    }
}

#[test]
fn a_session_that_began_before_a_model_was_set_up_continues_with_that_model() {
    let (server, home) = (ModelServer::start(), Home::new());
    let _ = home.run(["run", "say hello"]).ok();
    let _ = home.run(["run", "--model", "rehearsal", "say chosen"]).ok();
    let config = format!(
        "[[provider]]\nname = \"local\"\nbase_url = \"{}\"\n[[model]]\nid = \"m\"\nprovider = \"local\"\n",
        server.openai_url()
    );
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
    // Whoever chose the rehearsal model keeps it.
    let chosen = home.run(["run", "--resume", "last", "say again"]).ok();
    assert_eq!(chosen.stdout().trim(), "again");
    let _ = home.run(["sessions", "delete", "last", "--yes"]).ok();
    server.reply(Reply::text("Here I am."));
    let other = home.run(["run", "--resume", "last", "say again"]).ok();
    assert_eq!(other.stdout().trim(), "Here I am.");
}
