//! 62–68, 78–82: turns, paging, messages that wait, questions.

use lodge_ahp::Limits;
use serde_json::{Value, json};

use super::message;
use crate::{kit::*, mirror::Mirror};

/// 62–68: turns.
#[tokio::test]
async fn turns_and_paging() {
    let (house, mut a, _, chat) = at_home().await;
    a.say(&chat, "t1", "slowly 20 ms, stream 30 chunks").await;
    let part = a.action("chat/responsePart").await;
    let delta = a.action("chat/delta").await;
    assert_eq!(part["action"]["part"]["id"], delta["action"]["partId"]);
    assert!(part["serverSeq"].as_u64() < delta["serverSeq"].as_u64());
    a.refused(&chat, turn_started("t2", "say too early")).await;
    a.ends(&chat, "t1").await;
    let error = a.turn(&chat, "t3", "fail with authentication").await;
    assert_eq!(error["turns"][1]["state"], "error");
    assert_eq!(error["status"], 2);
    let last = error["turns"][1]["responseParts"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(last["kind"], "error");
    // Usage of a turn, added up.
    let state = a.turn(&chat, "t4", "report usage 100 in 20 out then say done").await;
    let usage = &state["turns"][2]["usage"];
    assert_eq!(
        (&usage["inputTokens"], &usage["outputTokens"], &usage["model"]),
        (&json!(100), &json!(20), &json!("rehearsal")),
        "{state:#}"
    );
    // Paging: what is before a window comes as an action, before the response.
    for turn in 5..=9 {
        a.turn(&chat, &format!("t{turn}"), "say x").await;
    }
    let mut b = house.client("b").await;
    let snapshot = b
        .request("subscribe", json!({ "channel": chat, "view": { "turns": 2 } }))
        .await
        .unwrap()["snapshot"]
        .clone();
    let mut mirror = Mirror::default();
    mirror.snapshot(&snapshot);
    let cursor = snapshot["state"]["turnsNextCursor"].clone();
    assert_eq!(
        b.request("fetchTurns", json!({ "channel": chat, "cursor": cursor }))
            .await
            .unwrap(),
        json!({})
    );
    let loaded = b.inbox.pop_front().unwrap()["params"].clone();
    assert_eq!(loaded["action"]["type"], "chat/turnsLoaded");
    mirror.envelope(&loaded);
    assert_eq!(mirror.state(&chat)["turns"].as_array().unwrap().len(), 8);
    assert!(mirror.state(&chat).get("turnsNextCursor").is_none());
    assert_eq!(
        b.code("fetchTurns", json!({ "channel": chat, "cursor": "nonsense" }))
            .await,
        -32602
    );
    assert_eq!(
        b.code("fetchTurns", json!({ "channel": "ahp-chat:/none" })).await,
        -32001
    );
    // A cut beyond somebody's window loads what it names first.
    let mut c = house.client("c").await;
    let snapshot = c
        .request("subscribe", json!({ "channel": chat, "view": { "turns": 1 } }))
        .await
        .unwrap()["snapshot"]
        .clone();
    let mut mirror = Mirror::default();
    mirror.snapshot(&snapshot);
    a.accepted(&chat, json!({ "type": "chat/truncated", "turnId": "t3" }))
        .await;
    for message in c.drain().await {
        if message["method"] == "action" {
            mirror.envelope(&message["params"]);
        }
    }
    let turns: Vec<Value> = mirror.state(&chat)["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["id"].clone())
        .collect();
    assert_eq!(turns, ["t3"]);
    assert_eq!(
        a.turn(&chat, "t10", "what did I say").await["turns"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    a.accepted(&chat, json!({ "type": "chat/truncated" })).await;
    assert_eq!(a.subscribe(&chat).await["state"]["turns"], json!([]));
    assert_eq!(
        a.turn(&chat, "t11", "say fresh").await["turns"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // Attachments that this host cannot honour are refused.
    let mut foreign = turn_started("t12", "look");
    foreign["message"]["attachments"] = json!([{ "type": "chat", "label": "x", "resource": "ahp-chat:/x" }]);
    a.refused(&chat, foreign).await;
    let mut file = turn_started("t13", "say seen");
    std::fs::write(house.work().join("note.txt"), "note").unwrap();
    let uri = lodge_ahp::uri::file(house.work().join("note.txt"));
    file["message"]["attachments"] = json!([{ "type": "resource", "label": "note.txt", "uri": uri }]);
    a.accepted(&chat, file).await;
    a.ends(&chat, "t13").await;
}

/// 78–80: queued and steering messages.
#[tokio::test]
async fn queue_and_steering() {
    let (_house, mut a, _, chat) = at_home().await;
    let set = |kind: &str, id: &str, text: &str| json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message(text) });
    // Queued while idle: it starts at once.
    a.accepted(&chat, set("queued", "q1", "slowly 20 ms, stream 100 chunks"))
        .await;
    let removed = a.action("chat/pendingMessageRemoved").await;
    let started = a.action("chat/turnStarted").await;
    assert_eq!(started["action"]["queuedMessageId"], "q1");
    assert!(removed["serverSeq"].as_u64() < started["serverSeq"].as_u64());
    // Queued while busy: it waits, can be reordered and taken back, and starts when its turn comes.
    for id in ["z", "a", "m"] {
        a.accepted(&chat, set("queued", id, "say queued")).await;
    }
    let order = a
        .accepted(&chat, json!({ "type": "chat/queuedMessagesReordered", "order": ["m"] }))
        .await["order"]
        .clone();
    assert_eq!(order, json!(["m", "z", "a"]));
    a.accepted(
        &chat,
        json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "z" }),
    )
    .await;
    a.refused(
        &chat,
        json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "z" }),
    )
    .await;
    // Steering: said into the running turn, as a turn of its own.
    a.accepted(&chat, set("steering", "s1", "say steered")).await;
    a.refused(
        &chat,
        json!({ "type": "chat/pendingMessageRemoved", "kind": "steering", "id": "s1" }),
    )
    .await;
    a.ends(&chat, "a").await;
    let state = a.subscribe(&chat).await["state"].clone();
    let turns: Vec<Value> = state["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["id"].clone())
        .collect();
    assert_eq!(turns, ["q1", "s1", "m", "a"]);
    assert!(state.get("queuedMessages").is_none() && state.get("steeringMessage").is_none());
}

/// 81–82: questions.
#[tokio::test]
async fn input_requests() {
    let (_house, mut a, session, chat) = at_home().await;
    a.say(&chat, "t1", "ask \"Which colour?\" choices red, blue").await;
    let request = a.action("chat/inputRequested").await["action"]["request"].clone();
    assert_eq!(request["questions"][0]["kind"], "single-select");
    // Editors show both, so it is said once.
    assert_eq!(request["questions"][0]["message"], "Which colour?");
    assert_eq!(request.get("message"), None, "{request}");
    let id = &request["id"];
    let answer = |value: Value| json!({ "answer": { "state": "submitted", "value": value } });
    let complete = |response: &str, answers: Value| json!({ "type": "chat/inputCompleted", "requestId": id, "response": response, "answers": answers });
    assert_eq!(
        a.action("session/inputNeededSet").await["action"]["request"]["kind"],
        "chatInput"
    );
    a.refused(&chat, complete("accept", json!({}))).await;
    a.refused(
        &chat,
        complete("accept", answer(json!({ "kind": "number", "value": 3 }))),
    )
    .await;
    a.refused(
        &chat,
        json!({ "type": "chat/inputCompleted", "requestId": "none", "response": "cancel" }),
    )
    .await;
    let draft = json!({ "state": "draft", "value": { "kind": "selected", "value": "blue" } });
    a.accepted(
        &chat,
        json!({ "type": "chat/inputAnswerChanged", "requestId": id, "questionId": "answer", "answer": draft }),
    )
    .await;
    a.refused(
        &chat,
        json!({ "type": "chat/inputAnswerChanged", "requestId": id, "questionId": "none", "answer": draft }),
    )
    .await;
    a.accepted(
        &chat,
        complete("accept", answer(json!({ "kind": "selected", "value": "red" }))),
    )
    .await;
    a.refused(&chat, complete("cancel", json!({}))).await;
    a.action("session/inputNeededRemoved").await;
    a.ends(&chat, "t1").await;
    let state = a.subscribe(&chat).await["state"].clone();
    let text = state.to_string();
    assert!(text.contains("red"), "{text}");
    assert!(a.subscribe(&session).await["state"].get("inputNeeded").is_none());
    // A question that nobody answered stays in the cancelled turn as it was.
    a.say(&chat, "t2", "ask \"Anything?\"").await;
    a.action("chat/inputRequested").await;
    a.accepted(
        &chat,
        json!({ "type": "chat/turnCancelled", "turnId": "t2", "duration": 5 }),
    )
    .await;
    let state = a.subscribe(&chat).await["state"].clone();
    let part = state["turns"][1]["responseParts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|part| part["kind"] == "inputRequest")
        .cloned();
    assert!(part.unwrap().get("response").is_none());
}

/// 65: what is long past is not in memory, and still there for who asks for it, or cuts there.
#[tokio::test]
async fn turns_that_are_long_past_are_still_there() {
    let limits = Limits {
        kept_bytes: 1500,
        window_bytes: 1000,
        ..Limits::default()
    };
    let house = house_with(limits).await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    for turn in 1..=30 {
        a.say(
            &chat,
            &format!("t{turn}"),
            "say something that is not too short to count",
        )
        .await;
        a.ends(&chat, &format!("t{turn}")).await;
    }
    let mut b = house.client("b").await;
    let snapshot = b.subscribe(&chat).await;
    let mut mirror = Mirror::default();
    mirror.snapshot(&snapshot);
    assert!(snapshot["state"]["turns"].as_array().unwrap().len() < 10);
    while let Some(cursor) = mirror.state(&chat)["turnsNextCursor"].as_str().map(str::to_owned) {
        b.request("fetchTurns", json!({ "channel": chat, "cursor": cursor }))
            .await
            .unwrap();
        for message in b.inbox.drain(..) {
            mirror.envelope(&message["params"]);
        }
    }
    let turns = mirror.state(&chat)["turns"].clone();
    let ids: Vec<String> = turns
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, (1..=30).map(|turn| format!("t{turn}")).collect::<Vec<_>>());
    assert!(
        turns[0]["responseParts"][0]["content"]
            .as_str()
            .unwrap()
            .contains("too short")
    );
    // Forgotten again by the next turn, and still there to cut to.
    a.turn(&chat, "t31", "say one more").await;
    a.accepted(&chat, json!({ "type": "chat/truncated", "turnId": "t3" }))
        .await;
    for message in b.drain().await {
        if message["method"] == "action" {
            mirror.envelope(&message["params"]);
        }
    }
    assert_eq!(mirror.state(&chat)["turns"].as_array().unwrap().len(), 3);
    assert_eq!(
        a.turn(&chat, "t32", "say again").await["turns"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()["id"],
        "t32"
    );
}
