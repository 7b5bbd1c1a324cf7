//! What clients saw is what they see again: after a restart, after the host forgot the session for a while, and after
//! `kill -9`, field by field, in every dialect.

use std::time::Duration;

use lodge_ahp::Limits;
use serde_json::{Map, Value, json};

use crate::kit::{Client, House, ROOT, SEED_ROOT, house_with, turn_started, uuid};

const DIALECTS: [&str; 3] = ["1.0.0", "0.9.0", "0.1.0"];

/// All that clients are shown of a session: what is in its channels, and its line in the list.
async fn shown(house: &House, session: &str, round: &str) -> Map<String, Value> {
    let mut all = Map::new();
    for version in DIALECTS {
        let mut client = house.client_of(&format!("{round}-{version}"), version).await;
        let seed = version == "0.1.0";
        let (key, root) = if seed {
            ("resource", SEED_ROOT)
        } else {
            ("channel", ROOT)
        };
        // Changed files are counted beside the conversation; clients of the seed see them in the session.
        let state = loop {
            let subscribed = client.request("subscribe", json!({ key: session })).await.unwrap();
            let state = subscribed["snapshot"]["state"].clone();
            if !seed
                || state["summary"]["diffs"]
                    .as_array()
                    .is_some_and(|diffs| diffs.len() == 2)
            {
                break state;
            }
        };
        for chat in state["chats"].as_array().into_iter().flatten() {
            let uri = chat["resource"].as_str().unwrap();
            let chat = client.subscribe(uri).await["state"].clone();
            all.insert(format!("{version} {uri}"), chat);
        }
        all.insert(format!("{version} session"), state);
        let listed = client.request("listSessions", json!({ key: root })).await.unwrap();
        let lines = listed["items"].as_array().unwrap();
        let line = lines.iter().find(|line| line["resource"] == session);
        all.insert(
            format!("{version} list"),
            line.unwrap_or_else(|| panic!("{listed}")).clone(),
        );
    }
    all
}

/// What may differ: times of turns are those of the client's clock until the host reads them in its log, and no action tells the
/// status of a session in its own state.
fn excused(at: &str) -> bool {
    let ends = ["/startedAt", "/modifiedAt", "session/status"];
    ends.iter().any(|end| at.ends_with(end))
}

/// Where two values differ.
fn differences(at: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
            for key in keys {
                let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(json!("(absent)"));
                differences(&format!("{at}/{key}"), &of(one), &of(other), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (number, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{at}/{number}"), one, other, found);
            }
        }
        _ if before == after || excused(at) => {}
        _ => found.push(format!("{at}: {before} became {after}")),
    }
}

#[track_caller]
fn assert_same(what: &str, before: &Map<String, Value>, after: &Map<String, Value>) {
    let mut found = Vec::new();
    differences(
        "",
        &Value::Object(before.clone()),
        &Value::Object(after.clone()),
        &mut found,
    );
    assert!(found.is_empty(), "after {what}:\n{}", found.join("\n"));
}

async fn confirm(a: &mut Client, chat: &str, turn: &str, option: &str) {
    let ready = a
        .until(|message| {
            let action = &message["params"]["action"];
            action["type"] == "chat/toolCallReady" && action["turnId"] == turn && action.get("confirmed").is_none()
        })
        .await;
    let call = &ready["params"]["action"]["toolCallId"];
    let approved = option != "deny";
    let mut confirmed = json!({
        "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": call, "approved": approved,
        "selectedOptionId": option,
    });
    match approved {
        true => confirmed["confirmed"] = "user-action".into(),
        false => confirmed["reason"] = "denied".into(),
    }
    a.accepted(chat, confirmed).await;
    a.ends(chat, turn).await;
}

/// A conversation in which everything happens.
async fn converse(a: &mut Client, chat: &str) {
    a.turn(chat, "t1", "think about doors then say They open.").await;
    a.turn(chat, "t2", "report usage 1000 in 50 out 900 cached").await;
    a.say(
        chat,
        "t3",
        "call bash {\"command\":\"touch made\",\"description\":\"Make a file\"} then say made",
    )
    .await;
    confirm(a, chat, "t3", "allow-once").await;
    a.say(
        chat,
        "t4",
        "call bash {\"command\":\"touch other\",\"description\":\"Make another\"} then say well",
    )
    .await;
    confirm(a, chat, "t4", "deny").await;
    a.say(chat, "t5", "ask \"Which colour?\" choices red, blue").await;
    let asked = a.action("chat/inputRequested").await["action"]["request"]["id"].clone();
    let answers = json!({ "answer": { "state": "submitted", "value": { "kind": "selected", "value": "red" } } });
    let answered =
        json!({ "type": "chat/inputCompleted", "requestId": asked, "response": "accept", "answers": answers });
    a.accepted(chat, answered).await;
    a.ends(chat, "t5").await;
    a.say(chat, "t6", "stream 2000 chunks slowly").await;
    a.until(|message| {
        let action = &message["params"]["action"];
        action["type"] == "chat/delta" && action["turnId"] == "t6"
    })
    .await;
    a.accepted(
        chat,
        json!({ "type": "chat/turnCancelled", "turnId": "t6", "duration": 1 }),
    )
    .await;
    a.turn(chat, "t7", "!echo hello").await;
    a.turn(
        chat,
        "t8",
        "start an agent \"say hello from below\" then say I heard it",
    )
    .await;
    a.say(
        chat,
        "t9",
        "call create {\"path\":\"note.txt\",\"file_text\":\"one\\ntwo\\n\"} then say written",
    )
    .await;
    confirm(a, chat, "t9", "allow-session").await;
    a.turn(chat, "t10", "call view {\"path\":\"note.txt\"} then say seen")
        .await;
    let mut attached = turn_started("t11", "say attached");
    attached["message"]["attachments"] = json!([
        { "type": "simple", "label": "A thing", "modelRepresentation": "a thing" },
        { "type": "embeddedResource", "label": "x.txt", "data": "eA==", "contentType": "text/plain" },
    ]);
    a.accepted(chat, attached).await;
    a.ends(chat, "t11").await;
    a.turn(chat, "t12", "fail with authentication").await;
}

#[tokio::test]
async fn what_clients_saw_they_see_again_after_an_eviction_a_restart_and_a_crash() {
    let mut house = house_with(Limits {
        unwatched: Duration::from_millis(1),
        ..Limits::default()
    })
    .await;
    let mut a = house.client("a").await;
    // It works where no crash of the test's takes it away.
    let work = tempfile::tempdir().unwrap();
    let session = format!("lodge:/{}", uuid(1));
    let here = lodge_ahp::uri::file(work.path().canonicalize().unwrap());
    let made = json!({ "channel": session, "workingDirectories": [here] });
    a.request("createSession", made).await.unwrap();
    let state = a.subscribe(&session).await["state"].clone();
    let chat = state["defaultChat"].as_str().unwrap().to_owned();
    a.subscribe(&chat).await;
    converse(&mut a, &chat).await;
    let counted = async |client: &mut Client| {
        let listed = client
            .request("listSessions", json!({ "channel": ROOT }))
            .await
            .unwrap();
        listed["items"][0]["changes"]["files"] == 2
    };
    while !counted(&mut a).await {}
    let before = shown(&house, &session, "before").await;
    // Nobody looks at it for a while.
    drop(a);
    while house.host.live(&uuid(1)).is_some_and(|session| session.clients() > 0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_same("an eviction", &before, &shown(&house, &session, "evicted").await);
    house.restart().await;
    assert_same("a restart", &before, &shown(&house, &session, "restart").await);
    let house = house.crash().await;
    assert_same("a crash", &before, &shown(&house, &session, "crash").await);
}
