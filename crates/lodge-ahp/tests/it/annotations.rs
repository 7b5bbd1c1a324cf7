//! Remarks on files, and what the model hears of them.

use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Reply};

use crate::kit::*;

fn remark(id: &str, file: &str, text: &str) -> Value {
    json!({ "type": "annotations/set", "annotation": {
        "id": id, "origin": { "session": "lodge:/x" }, "resource": file, "resolved": false,
        "range": { "start": { "line": 4, "character": 0 }, "end": { "line": 6, "character": 1 } },
        "entries": [{ "id": "e1", "text": text }],
    } })
}

#[tokio::test]
async fn remarks_are_seen_by_everybody_kept_and_given_to_the_model() {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    let (session, chat) = a.session(&uuid(1)).await;
    models.reply(Reply::text("yes"));
    a.turn(&chat, "t1", "hello").await;
    let channel = format!("{session}/annotations");
    for client in [&mut a, &mut b] {
        assert_eq!(client.subscribe(&channel).await["state"], json!({ "annotations": [] }));
    }
    let file = lodge_ahp::uri::file(house.work().join("wool.rs"));
    a.accepted(&channel, remark("one", &file, "too\nloose")).await;
    let seen = b.action("annotations/set").await;
    assert_eq!(
        (&seen["channel"], &seen["action"]["annotation"]["id"]),
        (&json!(channel), &json!("one"))
    );
    b.accepted(
        &channel,
        json!({ "type": "annotations/entrySet", "annotationId": "one", "entry": { "id": "e2", "text": { "markdown": "*right*" } } }),
    )
    .await;
    a.accepted(&channel, remark("two", &file, "too tight")).await;
    let told = a
        .until(|message| {
            message["method"] == "root/sessionSummaryChanged"
                && message["params"]["changes"]["annotations"]["annotationCount"] == 2
        })
        .await;
    assert_eq!(told["params"]["changes"]["annotations"]["entryCount"], 3);
    // What cannot be is refused, and changes nothing.
    for odd in [
        json!({ "type": "annotations/removed", "annotationId": "three" }),
        json!({ "type": "annotations/updated", "annotationId": "three", "resolved": true }),
        json!({ "type": "annotations/updated", "annotationId": "one" }),
        json!({ "type": "annotations/entryRemoved", "annotationId": "one", "entryId": "e9" }),
        json!({ "type": "annotations/entryRemoved", "annotationId": "two", "entryId": "e1" }),
        json!({ "type": "annotations/entrySet", "annotationId": "three", "entry": { "id": "e", "text": "x" } }),
        json!({ "type": "annotations/entrySet", "annotationId": "one", "entry": { "id": "", "text": "x" } }),
        json!({ "type": "annotations/entrySet", "annotationId": "one", "entry": { "id": "e", "text": "x".repeat(70_000) } }),
        json!({ "type": "annotations/set", "annotation": { "id": "x", "origin": { "session": session }, "resource": file, "resolved": false, "entries": [] } }),
        json!({ "type": "session/titleChanged", "title": "x" }),
    ] {
        a.refused(&channel, odd).await;
    }
    a.accepted(
        &channel,
        json!({ "type": "annotations/updated", "annotationId": "two", "resolved": true }),
    )
    .await;
    // A message can refer to them.
    let mut message = turn_started("t2", "mend it");
    let attached = json!({ "type": "annotations", "label": "remarks", "resource": channel, "annotationIds": ["one"] });
    message["message"]["attachments"] = json!([attached]);
    models.reply(Reply::text("yes"));
    a.dispatch(&chat, message.clone()).await;
    a.ends(&chat, "t2").await;
    let asked = models.last_request().body.to_string();
    assert!(asked.contains("wool.rs, lines 5 to 7") && asked.contains("*right*") && !asked.contains("too tight"));
    message["turnId"] = json!("t3");
    // Somebody may have removed one meanwhile.
    message["message"]["attachments"][0]["annotationIds"] = json!(["nine", "one"]);
    models.reply(Reply::text("yes"));
    a.dispatch(&chat, message).await;
    a.ends(&chat, "t3").await;
    let asked = models.last_request().body.to_string();
    assert!(asked.contains("not there any more: nine"), "{asked}");
    a.accepted(
        &channel,
        json!({ "type": "annotations/removed", "annotationId": "two" }),
    )
    .await;
    // They outlive the host.
    drop((a, b));
    let house = house.crash().await;
    let mut a = house.client("a").await;
    let state = a.subscribe(&channel).await["state"].clone();
    assert_eq!(state["annotations"].as_array().unwrap().len(), 1, "{state:#}");
    assert_eq!(state["annotations"][0]["entries"][1]["text"]["markdown"], "*right*");
    let listed = a.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
    assert_eq!(listed["items"][0]["annotations"]["entryCount"], 2, "{listed:#}");
    assert_eq!(
        a.code("subscribe", json!({ "channel": "lodge:/nothing/annotations" }))
            .await,
        -32001
    );
    let mut seed = house.client_of("seed", "0.1.0").await;
    assert_eq!(seed.code("subscribe", json!({ "resource": channel })).await, -32001);
}

#[tokio::test]
async fn remarks_are_kept_before_they_are_seen_and_a_damaged_line_costs_only_itself() {
    let house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.turn(&chat, "t1", "hello").await;
    let channel = format!("{session}/annotations");
    a.subscribe(&channel).await;
    let file = lodge_ahp::uri::file(house.work().join("wool.rs"));
    a.accepted(&channel, remark("one", &file, "too loose")).await;
    assert_eq!(house.host.marks().annotations(&uuid(1)).len(), 1);
    a.accepted(&channel, remark("two", &file, "too tight")).await;
    drop(a);
    let mut house = house.crash().await;
    let mut a = house.client("a").await;
    let state = a.subscribe(&channel).await["state"].clone();
    assert_eq!(state["annotations"].as_array().unwrap().len(), 2, "{state:#}");
    drop(a);
    house.stop().await;
    let registers = house.registers();
    let mut lines = std::fs::read_to_string(&registers).unwrap();
    lines.push_str("{\"key\":\"annotations\n");
    std::fs::write(&registers, &lines).unwrap();
    house.start().await;
    assert_eq!(put_aside(&registers), lines);
    let mut a = house.client("a").await;
    let state = a.subscribe(&channel).await["state"].clone();
    assert_eq!(state["annotations"].as_array().unwrap().len(), 2, "{state:#}");
}
