//! A client that sends faster than the host works is slowed down. Nothing that it sent is lost, and nobody else notices.

use std::time::Duration;

use lodge_ahp::Limits;
use serde_json::{Value, json};

use crate::kit::*;

const MESSAGES: usize = 1000;
const LINES: usize = 2000;

/// Little room, so that the reader has to wait for the worker again and again.
async fn narrow() -> House {
    house_with(Limits {
        waiting_bytes: 2000,
        ..Limits::default()
    })
    .await
}

#[tokio::test]
async fn thousands_of_actions_are_all_accepted_in_their_order() {
    for (house, count) in [(house().await, 2000), (narrow().await, 300)] {
        let mut a = house.client("a").await;
        let mut b = house.client("b").await;
        let (session, _) = a.session(&uuid(1)).await;
        b.subscribe(&session).await;
        let title = |number: usize| json!({ "type": "session/titleChanged", "title": format!("title {number}") });
        let mut seqs = Vec::new();
        for number in 0..count {
            seqs.push(a.dispatch(&session, title(number)).await);
        }
        for (number, seq) in seqs.into_iter().enumerate() {
            let verdict = a.action("session/titleChanged").await;
            assert_eq!(verdict["origin"]["clientSeq"], seq);
            assert_eq!(verdict.get("rejectionReason"), None, "{verdict}");
            assert_eq!(b.action("session/titleChanged").await["action"], title(number));
        }
    }
}

#[tokio::test]
async fn a_thousand_queued_messages_are_all_kept_in_their_order() {
    let house = narrow().await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    a.say(&chat, "t1", "wait 600 s").await;
    a.action("chat/turnStarted").await;
    let expected: Vec<String> = (0..MESSAGES).map(|number| format!("q{number}")).collect();
    for id in &expected {
        let message = json!({ "text": format!("say {id}"), "origin": { "kind": "user" } });
        let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message });
        a.dispatch(&chat, queued).await;
    }
    let state = a.subscribe(&chat).await["state"].clone();
    let queued = state["queuedMessages"].as_array().unwrap();
    let ids: Vec<&str> = queued.iter().map(|queued| queued["id"].as_str().unwrap()).collect();
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn everything_that_is_typed_reaches_the_terminal() {
    let house = narrow().await;
    let mut a = house.client("a").await;
    let terminal = "ahp-terminal:/1";
    let claim = json!({ "kind": "client", "clientId": "a" });
    let create = json!({ "channel": terminal, "claim": claim, "cols": 90, "rows": 30 });
    a.request("createTerminal", create).await.unwrap();
    let typed = house.work().join("typed.txt");
    let input = |data: String| json!({ "type": "terminal/input", "data": data });
    a.subscribe(terminal).await;
    // What is typed while the shell still edits its line keeps its `\r`; the terminal turns it into `\n` for `cat`.
    let start = format!("stty -echo; echo read''y; cat > '{}'\r", typed.display());
    a.dispatch(terminal, input(start)).await;
    let mut shown = String::new();
    while !shown.contains("ready") {
        let data = a.action("terminal/data").await;
        shown += data["action"]["data"].as_str().unwrap();
    }
    let expected: String = (0..LINES).map(|number| format!("line {number}\n")).collect();
    for number in 0..LINES {
        a.dispatch(terminal, input(format!("line {number}\r"))).await;
    }
    let mut seen = String::new();
    while seen.len() < expected.len() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        a.drain().await;
        seen = std::fs::read_to_string(&typed).unwrap_or_default();
    }
    assert_eq!(seen, expected);
}

/// The answer that the host waits for comes behind other things that the same client sent.
#[tokio::test]
async fn an_answer_overtakes_what_waits_for_it() {
    let house = house().await;
    let mut a = house.client("a").await;
    let (session, _) = a.session(&uuid(1)).await;
    let write = json!({ "channel": ROOT, "uri": "virtual://a/x", "data": "x", "encoding": "utf-8" });
    let writing = a.start("resourceWrite", write).await;
    for number in 0..500 {
        let title = json!({ "type": "session/titleChanged", "title": format!("title {number}") });
        a.dispatch(&session, title).await;
    }
    let asked = a.until(|message| message["method"] == "resourceWrite").await;
    // Nothing has been done yet that came after it, and the host is there all the same.
    let before = a.drain().await;
    let titled = |message: &Value| message["params"]["action"]["type"] == "session/titleChanged";
    assert!(!before.iter().any(titled), "{before:?}");
    a.send_text(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": {} }).to_string())
        .await;
    assert_eq!(a.response(writing).await, Ok(json!({})));
    for number in 0..500 {
        let told = a.action("session/titleChanged").await;
        assert_eq!(told["action"]["title"], format!("title {number}"));
    }
}

#[tokio::test]
async fn a_client_that_asks_and_never_reads_is_its_own_problem() {
    let house = narrow().await;
    let mut good = house.client("good").await;
    let (session, chat) = good.session(&uuid(1)).await;
    let mut deaf = house.client("deaf").await;
    // It stops being read once its answers fill its queue, and then cannot write any more.
    let flood = tokio::spawn(async move {
        let filler = "x".repeat(10_000);
        loop {
            deaf.start("subscribe", json!({ "channel": ROOT, "_meta": filler }))
                .await;
        }
    });
    for turn in 0..5 {
        let state = good.turn(&chat, &format!("t{turn}"), "say fine").await;
        assert_eq!(state["turns"][turn]["state"], "complete");
        good.accepted(
            &session,
            json!({ "type": "session/titleChanged", "title": turn.to_string() }),
        )
        .await;
    }
    flood.abort();
}
