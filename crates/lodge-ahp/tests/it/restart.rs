//! What survives the end of the host, orderly or not, and what other faces do to the same sessions.

use lodge_host::{NewSession, Prompt};
use serde_json::{Value, json};

use crate::kit::*;

#[tokio::test]
async fn a_client_that_comes_back_after_a_restart_is_known_and_gets_snapshots() {
    let mut house = house().await;
    let mut a = house.client("a").await;
    let session = "copilot:/my-own-uri";
    a.request("createSession", json!({ "channel": session })).await.unwrap();
    let chat = a.subscribe(session).await["state"]["defaultChat"]
        .as_str()
        .unwrap()
        .to_owned();
    a.subscribe(&chat).await;
    a.turn(&chat, "t1", "call bash {\"command\":\"echo hi\"} then say one")
        .await;
    a.accepted(session, json!({ "type": "session/titleChanged", "title": "Kept" }))
        .await;
    a.accepted(
        session,
        json!({ "type": "session/isArchivedChanged", "isArchived": true }),
    )
    .await;
    let draft = json!({ "text": "half a thought", "origin": { "kind": "user" } });
    a.accepted(&chat, json!({ "type": "chat/draftChanged", "draft": draft }))
        .await;
    let fork = json!({ "channel": session, "chat": "ahp-chat:/fork", "source": { "kind": "fork", "chat": chat, "turnId": "t1" } });
    a.request("createChat", fork).await.unwrap();
    a.drain().await;
    let before = a.subscribe(&chat).await["state"].clone();
    let seen = a.last_seq;
    house.restart().await;

    let mut back = house.connect().await;
    let subscriptions = json!([ROOT, session, chat, "ahp-chat:/fork", "x:/gone"]);
    let params = json!({ "clientId": "a", "lastSeenServerSeq": seen, "subscriptions": subscriptions });
    let result = back.request("reconnect", params).await.unwrap();
    assert_eq!(result["type"], "snapshot");
    let snapshot = |uri: &str| {
        let all = result["snapshots"].as_array().unwrap();
        all.iter()
            .find(|snapshot| snapshot["resource"] == uri)
            .cloned()
            .unwrap_or_else(|| panic!("no {uri}"))
    };
    assert_eq!(result["snapshots"].as_array().unwrap().len(), 4);
    let state = snapshot(session)["state"].clone();
    assert!(snapshot(session)["fromSeq"].as_u64().unwrap() > seen);
    assert_eq!(
        (&state["title"], &state["lifecycle"]),
        (&json!("Kept"), &json!("ready"))
    );
    assert_eq!(state["status"].as_u64().unwrap() & 64, 64);
    assert_eq!(state["chats"].as_array().unwrap().len(), 2);
    let after = snapshot(&chat)["state"].clone();
    assert_eq!(after["draft"], draft);
    // The turn is what it was, to the last part; times of the client's clock are not in the log.
    let strip = |turn: &Value| {
        let mut turn = turn.clone();
        for key in ["startedAt", "duration", "usage"] {
            turn.as_object_mut().unwrap().remove(key);
        }
        turn
    };
    assert_eq!(strip(&after["turns"][0]), strip(&before["turns"][0]));
    assert_eq!(
        snapshot("ahp-chat:/fork")["state"]["turns"].as_array().unwrap().len(),
        1
    );
    let listed = back.request("listSessions", json!({})).await.unwrap();
    assert_eq!(listed["items"][0]["resource"], session);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let state = back.turn(&chat, "t2", "say two").await;
    assert_eq!(state["turns"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_session_of_another_face_is_listed_watched_and_steered() {
    let house = house().await;
    let mut a = house.client("a").await;
    let id = uuid(7);
    let new = NewSession {
        id: Some(id.clone()),
        cwd: Some(house.work()),
        ..NewSession::default()
    };
    let other = house.host.create(new).await.unwrap();
    other
        .send(Prompt {
            text: "say from elsewhere".into(),
            ..Prompt::default()
        })
        .await
        .unwrap();
    let added = a.notification("root/sessionAdded").await;
    let session = format!("lodge:/{id}");
    assert_eq!(added["summary"]["resource"], session.as_str());
    let state = a.subscribe(&session).await["state"].clone();
    let chat = state["defaultChat"].as_str().unwrap().to_owned();
    while a.subscribe(&chat).await["state"].get("activeTurn").is_some() {}
    let state = a.subscribe(&chat).await["state"].clone();
    assert_eq!(state["turns"][0]["message"]["text"], "say from elsewhere");
    assert_eq!(state["turns"][0]["responseParts"][0]["content"], "from elsewhere");
    // Somebody else asks; this one approves.
    other
        .send(Prompt {
            text: "call bash {\"command\":\"touch both\"} then say done".into(),
            ..Prompt::default()
        })
        .await
        .unwrap();
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    let confirm = json!({
        "type": "chat/toolCallConfirmed", "turnId": ready["turnId"], "toolCallId": ready["toolCallId"], "approved": true,
    });
    a.accepted(&chat, confirm).await;
    a.ends(&chat, ready["turnId"].as_str().unwrap()).await;
    assert!(house.work().join("both").exists());
    // And the other way round: what is said here is heard there.
    let mut events = other.subscribe(1 << 20);
    a.turn(&chat, "t9", "say hello over there").await;
    let mut heard = false;
    while !heard {
        let Some(lodge_host::Notice::Event(event)) = events.next().await else {
            panic!("the session ended")
        };
        heard = event.kind() == "assistant.message" && event.as_str().contains("hello over there");
    }
    // Removed elsewhere, removed here.
    house.host.delete(&id).await.unwrap();
    assert_eq!(a.notification("root/sessionRemoved").await["session"], session.as_str());
    assert_eq!(a.code("subscribe", json!({ "channel": chat })).await, -32001);
}

#[tokio::test]
async fn a_turn_that_the_end_of_the_host_cut_short_is_over_when_it_comes_back() {
    let (mut house, mut a, _, chat) = at_home().await;
    a.say(&chat, "t1", "slowly 50 ms, stream 1000 chunks").await;
    a.action("chat/delta").await;
    house.restart().await;
    let mut b = house.client("b").await;
    let state = b.subscribe(&chat).await["state"].clone();
    assert_eq!(state["turns"][0]["id"], "t1");
    assert_eq!(state["turns"][0]["state"], "cancelled");
    assert!(state.get("activeTurn").is_none());
}

#[tokio::test]
async fn the_door_is_closed_to_whoever_has_no_key() {
    let house = house().await;
    let address = house.server.as_ref().unwrap().local_addr();
    let status = async |url: String| match Client::connect(&url).await {
        Ok(_) => 101,
        Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
            assert!(response.body().as_ref().is_none_or(|body| body.is_empty()));
            response.status().as_u16()
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(status(format!("ws://{address}/")).await, 403);
    assert_eq!(status(format!("ws://{address}/?tkn=wrong")).await, 403);
    assert_eq!(status(house.url()).await, 101);
}

#[tokio::test]
async fn a_session_that_the_seed_s_client_made_is_kept_before_anything_is_said() {
    let mut house = house().await;
    let mut a = house.client_of("a", "0.1.0").await;
    let session = "copilot:/made-and-left";
    a.request("createSession", json!({ "session": session })).await.unwrap();
    house.restart().await;
    let mut b = house.client_of("b", "0.1.0").await;
    let listed = b.request("listSessions", json!({})).await.unwrap();
    assert_eq!(listed["items"][0]["resource"], session);
    let state = b.request("subscribe", json!({ "resource": session })).await.unwrap()["snapshot"]["state"].clone();
    assert_eq!(state["lifecycle"], "ready");
}

#[tokio::test]
async fn a_session_that_another_face_closed_and_took_up_again_is_read_anew() {
    let house = house().await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(3)).await;
    a.turn(&chat, "t1", "say one").await;
    assert!(house.host.close(&uuid(3)).await);
    // What is said here brings it back.
    a.turn(&chat, "t2", "say two").await;
    assert!(house.host.close(&uuid(3)).await);
    // What is said elsewhere is seen after all, by who comes back.
    let other = house.host.open_session(&uuid(3)).await.unwrap();
    other
        .send(Prompt {
            text: "say three".into(),
            ..Prompt::default()
        })
        .await
        .unwrap();
    while a.read().await.is_some() {}
    let mut back = house.connect().await;
    let params = json!({ "clientId": "a", "lastSeenServerSeq": a.last_seq, "subscriptions": [chat] });
    let result = back.request("reconnect", params).await.unwrap();
    assert_eq!(result["type"], "snapshot");
    while back.subscribe(&chat).await["state"].get("activeTurn").is_some() {}
    let state = back.subscribe(&chat).await["state"].clone();
    assert_eq!(state["turns"].as_array().unwrap().len(), 3);
    assert_eq!(state["turns"][2]["message"]["text"], "say three");
}

#[tokio::test]
async fn approvals_that_were_chosen_are_the_agent_s_after_a_restart_in_every_chat() {
    let (mut house, mut a, session, chat) = at_home().await;
    a.turn(&chat, "t1", "say hello").await;
    let peer = "ahp-chat:/peer";
    a.request("createChat", json!({ "channel": session, "chat": peer }))
        .await
        .unwrap();
    a.subscribe(peer).await;
    let all = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    a.accepted(&session, all).await;
    a.turn(peer, "p1", "call bash {\"command\":\"mkdir now\"} then say done")
        .await;
    assert!(house.work().join("now").exists());
    house.restart().await;
    let mut b = house.client("b").await;
    let state = b.subscribe(&session).await["state"].clone();
    assert_eq!(state["config"]["values"]["autoApprove"], "autoApprove");
    for (chat, name) in [(chat.as_str(), "one"), (peer, "two")] {
        b.subscribe(chat).await;
        let text = format!("call bash {{\"command\":\"mkdir {name}\"}} then say done");
        b.turn(chat, name, &text).await;
        assert!(house.work().join(name).exists(), "{name}");
    }
    // The host let it go, and it is taken up again by what is said.
    assert!(house.host.close(&uuid(1)).await);
    b.turn(&chat, "t3", "call bash {\"command\":\"mkdir three\"} then say done")
        .await;
    assert!(house.work().join("three").exists());
}

#[tokio::test]
async fn messages_are_as_they_were_written_after_a_restart_and_in_forks() {
    let (mut house, mut a, session, chat) = at_home().await;
    a.turn(&chat, "t0", "say first").await;
    std::fs::write(house.work().join("notes.md"), "one\ntwo\n").unwrap();
    let file = lodge_ahp::uri::file(house.work().join("notes.md"));
    let mut started = turn_started("t1", "say look at #notes.md");
    started["message"]["attachments"] = json!([
        { "type": "simple", "label": "Note", "modelRepresentation": "remember the milk", "displayKind": "note" },
        { "type": "resource", "uri": file, "label": "notes.md", "displayKind": "document",
          "range": { "start": { "line": 0, "character": 12 }, "end": { "line": 0, "character": 21 } }, "_meta": { "icon": "file" } },
        { "type": "embeddedResource", "label": "dot.png", "data": "iVBORw0KGgo=", "contentType": "image/png", "displayKind": "image" },
        { "type": "chat", "resource": chat, "label": "This chat", "endTurn": "t0" },
    ]);
    started["message"]["model"] = json!({ "id": "rehearsal" });
    a.accepted(&chat, started).await;
    a.ends(&chat, "t1").await;
    let before = a.subscribe(&chat).await["state"]["turns"][1]["message"].clone();
    assert_eq!(before["attachments"].as_array().unwrap().len(), 4);
    let fork = json!({ "channel": session, "chat": "ahp-chat:/fork", "source": { "kind": "fork", "chat": chat, "turnId": "t1" } });
    a.request("createChat", fork).await.unwrap();
    house.restart().await;
    let mut b = house.client("b").await;
    for chat in [chat.as_str(), "ahp-chat:/fork"] {
        assert_eq!(
            b.subscribe(chat).await["state"]["turns"][1]["message"],
            before,
            "{chat}"
        );
    }
}

#[tokio::test]
async fn a_session_of_another_face_is_in_the_list_before_anything_is_said() {
    let house = house().await;
    let mut seen = Vec::new();
    for (name, version) in [("today", "1.0.0"), ("before", "0.9.0"), ("seed", "0.1.0")] {
        seen.push((version, house.client_of(name, version).await));
    }
    let session = house.host.create(NewSession::default()).await.unwrap();
    let uri = format!("lodge:/{}", session.id());
    for (version, client) in &mut seen {
        let told = client
            .until(|message| {
                let (today, seed) = (
                    &message["params"]["summary"],
                    &message["params"]["notification"]["summary"],
                );
                today["resource"] == uri.as_str() || seed["resource"] == uri.as_str()
            })
            .await;
        assert!(told.to_string().contains("essionAdded"), "{version}: {told}");
        let key = if *version == "0.1.0" { "resource" } else { "channel" };
        let root = if *version == "0.1.0" { SEED_ROOT } else { ROOT };
        let listed = client.request("listSessions", json!({ key: root })).await.unwrap();
        assert_eq!(listed["items"][0]["resource"], uri.as_str(), "{version}");
    }
}

/// A list that shows a session first as one that is open and then as one that is not calls it by the same title.
#[tokio::test]
async fn a_long_title_is_the_same_whether_a_session_is_open_or_not() {
    let mut house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let numbers: Vec<String> = (1..60).map(|number| number.to_string()).collect();
    a.turn(&chat, "t1", &format!("say {}", numbers.join(" "))).await;
    let title = a.subscribe(&session).await["state"]["title"].clone();
    assert!(title.as_str().unwrap().ends_with('…'), "{title}");
    house.restart().await;
    for version in ["1.0.0", "0.1.0"] {
        let mut b = house.client_of("b", version).await;
        let listed = b.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
        assert_eq!(listed["items"][0]["title"], title, "{version}");
    }
}
