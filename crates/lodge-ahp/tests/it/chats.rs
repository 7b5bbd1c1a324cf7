//! Further chats of a session.

use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Reply};

use crate::kit::*;

fn ids(state: &Value) -> Vec<String> {
    let chats = state["chats"].as_array().unwrap();
    chats
        .iter()
        .map(|chat| chat["resource"].as_str().unwrap().to_owned())
        .collect()
}

fn title_of(state: &Value, chat: &str) -> Value {
    let chats = state["chats"].as_array().unwrap();
    chats.iter().find(|known| known["resource"] == chat).unwrap()["title"].clone()
}

#[tokio::test]
async fn chats_can_be_made_twice_and_before_anything_is_said() {
    let (house, mut a, session, default) = at_home().await;
    a.accepted(&session, json!({ "type": "session/titleChanged", "title": "Original" }))
        .await;
    let peer = json!({ "channel": session, "chat": "ahp-chat:/peer" });
    a.request("createChat", peer.clone()).await.unwrap();
    a.request("createChat", peer.clone()).await.unwrap();
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(ids(&state), [default.as_str(), "ahp-chat:/peer"]);
    // Beside others the default chat is called what the session was called when they came.
    assert_eq!(title_of(&state, &default), "Original");
    a.accepted(&session, json!({ "type": "session/titleChanged", "title": "Renamed" }))
        .await;
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(
        (&state["title"], &title_of(&state, &default)),
        (&json!("Renamed"), &json!("Original"))
    );
    a.dispatch(
        "ahp-chat:/peer",
        json!({ "type": "session/titleChanged", "title": "Peer" }),
    )
    .await;
    a.action("session/chatUpdated").await;
    assert_eq!(a.subscribe("ahp-chat:/peer").await["state"]["title"], "Peer");
    // It is a session now, and only one.
    let listed = a.request("listSessions", json!({})).await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    // The same URI for something else is a mistake.
    let other = json!({ "channel": session, "chat": "ahp-chat:/peer", "source": { "kind": "fork", "chat": default, "turnId": "t" } });
    assert_eq!(a.code("createChat", other).await, -32010);
    // A fork begins after a whole turn; a side chat may begin in one that runs.
    a.subscribe(&default).await;
    a.say(&default, "t1", "slowly 50 ms, stream 40 chunks").await;
    a.action("chat/delta").await;
    let from = |kind: &str, chat: &str| json!({ "channel": session, "chat": chat, "source": { "kind": kind, "chat": default, "turnId": "t1" } });
    assert_eq!(a.code("createChat", from("fork", "ahp-chat:/fork")).await, -32602);
    a.request("createChat", from("sideChat", "ahp-chat:/side"))
        .await
        .unwrap();
    a.ends(&default, "t1").await;
    assert_eq!(a.subscribe("ahp-chat:/side").await["state"]["turns"], json!([]));
    a.request("createChat", from("fork", "ahp-chat:/fork")).await.unwrap();
    assert_eq!(
        a.subscribe("ahp-chat:/fork").await["state"]["turns"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let house = house.crash().await;
    let mut b = house.client("b").await;
    let state = b.subscribe(&session).await["state"].clone();
    assert_eq!(title_of(&state, "ahp-chat:/peer"), "Peer");
    assert_eq!(title_of(&state, &default), "Original");
    assert_eq!(state["chats"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn chats_can_be_moved() {
    let (house, mut a, one, default) = at_home().await;
    // Somebody's draft, in which nothing was said yet.
    let (two, elsewhere) = house.editor("e").await.session(&uuid(2)).await;
    a.subscribe(&two).await;
    a.subscribe(&elsewhere).await;
    for chat in ["ahp-chat:/x", "ahp-chat:/y"] {
        a.request("createChat", json!({ "channel": one, "chat": chat }))
            .await
            .unwrap();
    }
    let to = |chat: &str, destination: Value| json!({ "channel": chat, "destination": destination });
    let before = a.subscribe(&one).await["state"].clone();
    assert_eq!(before["chats"][1]["movable"], true);
    assert!(before["chats"][0].get("movable").is_none());
    // What cannot be moved stays, and nothing changes.
    for (wrong, code) in [
        (to(&default, json!({ "kind": "session", "session": one })), -32602),
        (to(&default, json!({ "kind": "newSession" })), -32602),
        (to("ahp-chat:/x", json!({ "kind": "elsewhere" })), -32602),
        (
            to("ahp-chat:/x", json!({ "kind": "session", "session": "x:/none" })),
            -32001,
        ),
        (to("ahp-chat:/x", json!({ "kind": "session", "session": two })), -32602),
        (
            to(
                "ahp-chat:/x",
                json!({ "kind": "session", "session": one, "after": "ahp-chat:/x" }),
            ),
            -32602,
        ),
        (
            to("ahp-chat:/none", json!({ "kind": "session", "session": one })),
            -32001,
        ),
    ] {
        assert_eq!(a.code("moveChat", wrong.clone()).await, code, "{wrong}");
    }
    assert_eq!(a.subscribe(&one).await["state"], before);
    // Within the list of its session.
    let first = a
        .request(
            "moveChat",
            to("ahp-chat:/y", json!({ "kind": "session", "session": one })),
        )
        .await
        .unwrap();
    assert_eq!(first["session"], one);
    let after = json!({ "kind": "session", "session": one, "after": "ahp-chat:/y" });
    a.request("moveChat", to("ahp-chat:/x", after)).await.unwrap();
    assert_eq!(
        ids(&a.subscribe(&one).await["state"]),
        ["ahp-chat:/y", "ahp-chat:/x", default.as_str()]
    );
    // To another session, with all that was said in it.
    a.subscribe("ahp-chat:/x").await;
    a.turn("ahp-chat:/x", "t1", "say moved").await;
    a.turn(&elsewhere, "t2", "say there").await;
    a.drain().await;
    let into = json!({ "kind": "session", "session": two, "after": elsewhere });
    assert_eq!(
        a.request("moveChat", to("ahp-chat:/x", into)).await.unwrap()["session"],
        two
    );
    assert_eq!(a.action("session/chatRemoved").await["channel"], one);
    assert_eq!(a.action("session/chatAdded").await["channel"], two);
    a.turn("ahp-chat:/x", "t3", "say on").await;
    let check = async |client: &mut Client| {
        assert_eq!(
            ids(&client.subscribe(&one).await["state"]),
            ["ahp-chat:/y", default.as_str()]
        );
        assert_eq!(
            ids(&client.subscribe(&two).await["state"]),
            [elsewhere.as_str(), "ahp-chat:/x"]
        );
        assert_eq!(
            client.subscribe("ahp-chat:/x").await["state"]["turns"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
    };
    check(&mut a).await;
    let house = house.crash().await;
    let mut b = house.client("b").await;
    check(&mut b).await;
}

#[tokio::test]
async fn a_message_can_refer_to_another_chat() {
    let models = ModelServer::rehearsing();
    let house = house_of(&models).await;
    let mut a = house.client("a").await;
    let (_, source) = a.session(&uuid(1)).await;
    let (_, chat) = a.session(&uuid(2)).await;
    a.turn(&source, "s1", "say the word is quince").await;
    a.turn(&source, "s2", "say the word is medlar").await;
    let with = |turn: &str, attachment: Value| {
        let mut started = turn_started(turn, "what was it?");
        started["message"]["attachments"] = json!([attachment]);
        started
    };
    let attached = |end: Option<&str>| {
        let mut attachment = json!({ "type": "chat", "resource": source, "label": "Fruit" });
        if let Some(end) = end {
            attachment["endTurn"] = end.into();
        }
        attachment
    };
    a.refused(&chat, with("t0", attached(Some("none")))).await;
    a.refused(
        &chat,
        with(
            "t0",
            json!({ "type": "chat", "resource": "ahp-chat:/none", "label": "x" }),
        ),
    )
    .await;
    models.reply(Reply::text("quince"));
    a.accepted(&chat, with("t1", attached(Some("s1")))).await;
    a.ends(&chat, "t1").await;
    let read = String::from_utf8(models.last_request().raw.to_vec()).unwrap();
    assert!(read.contains("quince") && !read.contains("medlar"), "{read}");
    // Without a turn the last one is meant, whatever is said later.
    models.reply(Reply::text("medlar"));
    let accepted = a.accepted(&chat, with("t2", attached(None))).await;
    assert_eq!(accepted["message"]["attachments"][0]["endTurn"], "s2");
    a.ends(&chat, "t2").await;
    assert!(String::from_utf8_lossy(&models.last_request().raw).contains("medlar"));
    // A chat in which nothing was said yet is nothing to quote, and no mistake.
    let (_, empty) = a.session(&uuid(3)).await;
    a.accepted(
        &chat,
        with("t3", json!({ "type": "chat", "resource": empty, "label": "Empty" })),
    )
    .await;
    a.ends(&chat, "t3").await;
}

#[tokio::test]
async fn a_steering_message_that_comes_early_steers_the_next_turn() {
    let (_house, mut a, _, chat) = at_home().await;
    let steer = json!({ "type": "chat/pendingMessageSet", "kind": "steering", "id": "s1",
        "message": { "text": "say steered", "origin": { "kind": "user" } } });
    a.accepted(&chat, steer).await;
    assert_eq!(a.subscribe(&chat).await["state"]["steeringMessage"]["id"], "s1");
    a.say(&chat, "t1", "say begun").await;
    a.ends(&chat, "s1").await;
    let state = a.subscribe(&chat).await["state"].clone();
    let turns: Vec<&Value> = state["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["id"])
        .collect();
    assert_eq!(turns, ["t1", "s1"]);
    assert!(state.get("steeringMessage").is_none());
}

#[tokio::test]
async fn a_chat_can_become_a_session_of_its_own() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut b = house.client("b").await;
    let (one, default) = a.session(&uuid(1)).await;
    a.turn(&default, "t0", "say before").await;
    let chat = "ahp-chat:/x";
    a.request("createChat", json!({ "channel": one, "chat": chat, "title": "Errand" }))
        .await
        .unwrap();
    a.subscribe(chat).await;
    b.subscribe(chat).await;
    a.say(chat, "t1", "slowly 50 ms, stream 40 chunks").await;
    a.action("chat/delta").await;
    let to_new = json!({ "channel": chat, "destination": { "kind": "newSession" } });
    assert_eq!(a.code("moveChat", to_new.clone()).await, -32602);
    a.ends(chat, "t1").await;
    let moved = a.request("moveChat", to_new.clone()).await.unwrap();
    let two = moved["session"].as_str().unwrap().to_owned();
    assert_ne!(two, one);
    assert_eq!(a.action("session/chatRemoved").await["channel"], one);
    assert_eq!(b.action("chat/movableChanged").await["action"]["movable"], false);
    let added = loop {
        let added = b.notification("root/sessionAdded").await;
        if added["summary"]["resource"] == two {
            break added["summary"].clone();
        }
    };
    assert_eq!(
        (&added["title"], &added["defaultChat"]),
        (&json!("Errand"), &json!(chat))
    );
    // It is a default chat now, and stays.
    assert_eq!(a.code("moveChat", to_new).await, -32602);
    let check = async |client: &mut Client, turns: usize| {
        assert_eq!(ids(&client.subscribe(&one).await["state"]), [default.as_str()]);
        let state = client.subscribe(&two).await["state"].clone();
        assert_eq!(ids(&state), [chat]);
        assert_eq!(
            (&state["defaultChat"], &state["title"], &state["lifecycle"]),
            (&json!(chat), &json!("Errand"), &json!("ready"))
        );
        let state = client.subscribe(chat).await["state"].clone();
        assert_eq!(
            (state["turns"].as_array().unwrap().len(), &state["movable"]),
            (turns, &json!(false))
        );
        let listed = client.request("listSessions", json!({})).await.unwrap();
        let mut listed: Vec<&Value> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["resource"])
            .collect();
        listed.sort_by_key(|uri| uri.as_str());
        let mut expected = [json!(one), json!(two)];
        expected.sort_by_key(|uri| uri.as_str().map(str::to_owned));
        assert_eq!(listed, expected.iter().collect::<Vec<_>>());
    };
    check(&mut a, 1).await;
    b.turn(chat, "t2", "say on").await;
    let house = house.crash().await;
    let mut c = house.client("c").await;
    check(&mut c, 2).await;
    let mut seed = house.client_of("s", "0.1.0").await;
    let state = seed.request("subscribe", json!({ "resource": two })).await.unwrap()["snapshot"]["state"].clone();
    assert_eq!(state["turns"].as_array().unwrap().len(), 2);
    c.turn(chat, "t3", "say further").await;
    c.request("disposeSession", json!({ "channel": two })).await.unwrap();
    assert_eq!(c.code("subscribe", json!({ "channel": chat })).await, -32001);
}

#[tokio::test]
async fn a_session_that_cannot_be_deleted_goes_on_for_those_who_are_subscribed() {
    let (house, mut a, session, chat) = at_home().await;
    let mut b = house.client("b").await;
    b.subscribe(&session).await;
    b.subscribe(&chat).await;
    a.turn(&chat, "t1", "say one").await;
    let dispose = a.request("disposeSession", json!({ "channel": session }));
    house.without_home(dispose).await.unwrap_err();
    a.turn(&chat, "t2", "say two").await;
    assert_eq!(b.ends(&chat, "t2").await["type"], "chat/turnComplete");
    a.request("disposeSession", json!({ "channel": session }))
        .await
        .unwrap();
    assert_eq!(b.code("subscribe", json!({ "channel": session })).await, -32001);
}

#[tokio::test]
async fn a_chat_is_renamed_by_a_command_and_made_anew_after_it_was_removed() {
    let (house, mut a, session, default) = at_home().await;
    a.turn(&default, "t0", "/rename The session").await;
    assert_eq!(a.subscribe(&session).await["state"]["title"], "The session");
    let chat = "ahp-chat:/peer";
    let peer = json!({ "channel": session, "chat": chat });
    a.request("createChat", peer.clone()).await.unwrap();
    a.subscribe(chat).await;
    let state = a.turn(chat, "t1", "/rename The peer").await;
    assert_eq!(state["turns"][0]["message"]["text"], "/rename The peer");
    // The name is told by the session's list, which may be a moment later.
    while a.subscribe(chat).await["state"]["title"] != "The peer" {}
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(
        (&state["title"], &title_of(&state, chat)),
        (&json!("The session"), &json!("The peer"))
    );
    a.request("disposeChat", json!({ "channel": chat })).await.unwrap();
    a.request("createChat", peer).await.unwrap();
    assert_eq!(a.subscribe(chat).await["state"]["turns"], json!([]));
    // What people called it stays, whatever is said first.
    a.accepted(chat, json!({ "type": "session/titleChanged", "title": "Chosen" }))
        .await;
    let house = house.crash().await;
    let mut b = house.client("b").await;
    b.subscribe(&session).await;
    b.subscribe(chat).await;
    b.turn(chat, "t2", "say something else").await;
    b.turn(chat, "t3", "say more").await;
    assert_eq!(b.subscribe(chat).await["state"]["title"], "Chosen");
}

#[tokio::test]
async fn other_chats_of_the_session_are_offered_to_be_referred_to() {
    let (_house, mut a, session, chat) = at_home().await;
    let peer = "ahp-chat:/peer";
    for made in [peer, "ahp-chat:/silent"] {
        a.request(
            "createChat",
            json!({ "channel": session, "chat": made, "title": "An  Old\nPeer" }),
        )
        .await
        .unwrap();
        a.subscribe(made).await;
    }
    a.turn(peer, "p1", "say hello").await;
    a.turn(&chat, "t1", "/rename The First").await;
    let offered = async |a: &mut Client, chat: &str, text: &str| {
        let typed = json!({ "channel": chat, "kind": "userMessage", "text": text, "offset": text.len() });
        a.request("completions", typed).await.unwrap()["items"].clone()
    };
    // The one that nobody spoke in is not among them, nor is the one that is written in.
    let item = |start: usize, end: usize| {
        json!([{
            "insertText": "#chat:An Old Peer ", "rangeStart": start, "rangeEnd": end,
            "attachment": { "type": "chat", "resource": peer, "endTurn": "p1", "label": "An Old Peer" },
        }])
    };
    assert_eq!(offered(&mut a, &chat, "#chat:").await, item(0, 6));
    assert_eq!(offered(&mut a, &chat, "#ch").await, item(0, 3));
    assert_eq!(offered(&mut a, &chat, "see #chat:PEER").await, item(4, 14));
    assert_eq!(offered(&mut a, &chat, "#chat:other").await, json!([]));
    assert_eq!(offered(&mut a, &chat, "@chat:").await, json!([]));
    assert_eq!(
        offered(&mut a, peer, "#chat:fir").await[0]["attachment"],
        json!({ "type": "chat", "resource": chat, "endTurn": "t1", "label": "The First" })
    );
}

#[tokio::test]
async fn a_fork_leaves_the_chats_of_sub_agents_to_the_chat_that_started_them() {
    let (mut house, mut a, session, chat) = at_home().await;
    a.turn(&chat, "t1", "start an agent \"say from below\" then say heard")
        .await;
    let fork = json!({ "channel": session, "chat": "ahp-chat:/fork", "source": { "kind": "fork", "chat": chat, "turnId": "t1" } });
    a.request("createChat", fork).await.unwrap();
    let origins = |state: &Value| {
        let chats = state["chats"].as_array().unwrap().iter();
        let of_tools = chats.filter(|chat| chat["origin"]["kind"] == "tool");
        of_tools.map(|chat| chat["origin"]["chat"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(origins(&a.subscribe(&session).await["state"]), [json!(chat)]);
    drop(a);
    house.restart().await;
    let mut b = house.client("b").await;
    assert_eq!(origins(&b.subscribe(&session).await["state"]), [json!(chat)]);
}

/// Sub-agents, terminals and large results of a chat are found at their addresses wherever it is moved, also after a restart.
#[tokio::test]
async fn what_a_chat_has_goes_with_it_and_keeps_its_address() {
    let (mut house, mut a, one, _) = at_home().await;
    let (two, other) = a.session(&uuid(2)).await;
    a.turn(&other, "t0", "say here").await;
    let chat = "ahp-chat:/x";
    a.request("createChat", json!({ "channel": one, "chat": chat }))
        .await
        .unwrap();
    a.subscribe(chat).await;
    let mut state = a
        .turn(chat, "t1", "start an agent \"say from below\" then say heard")
        .await;
    let content = |state: &Value, turn: usize, kind: &str| {
        let parts = state["turns"][turn]["responseParts"].as_array().unwrap().iter();
        let mut all = parts.flat_map(|part| part["toolCall"]["content"].as_array().into_iter().flatten());
        let found = all.find(|part| part["type"] == kind).unwrap();
        found["resource"].as_str().or(found["uri"].as_str()).unwrap().to_owned()
    };
    std::fs::write(house.work().join("large.png"), vec![7; 90_000]).unwrap();
    let view = r#"call view {"path":"large.png"} then say seen"#;
    let sub = content(&state, 0, "subagent");
    state = a.turn(chat, "t2", "!echo typed").await;
    let terminal = content(&state, 1, "terminal");
    state = a.turn(chat, "view1", view).await;
    let large = content(&state, 2, "resource");
    let said = a.subscribe(&sub).await["state"]["turns"][0]["responseParts"].clone();
    assert!(said.to_string().contains("from below"), "{said}");
    let to = |destination: Value| json!({ "channel": chat, "destination": destination });
    let after = json!({ "kind": "session", "session": two, "after": other });
    a.request("moveChat", to(after)).await.unwrap();
    assert_eq!(
        ids(&a.subscribe(&two).await["state"]),
        [other.as_str(), chat, sub.as_str()]
    );
    assert_eq!(ids(&a.subscribe(&one).await["state"]).len(), 1);
    // What it starts there is found in the same way.
    state = a.turn(chat, "t3", "start an agent \"say again\" then say heard").await;
    let later = content(&state, 3, "subagent");
    state = a.turn(chat, "view2", view).await;
    let results = [large, content(&state, 4, "resource")];
    assert_ne!(results[0], results[1]);
    let expected = [other.as_str(), chat, sub.as_str(), later.as_str()];
    assert_eq!(ids(&a.subscribe(&two).await["state"]), expected);
    let is_there = async |client: &mut Client| {
        let shown = client.subscribe(&sub).await["state"].clone();
        assert_eq!(shown["turns"][0]["responseParts"], said);
        assert_eq!(shown["origin"]["chat"], chat);
        let printed = client.subscribe(&terminal).await["state"]["content"].to_string();
        assert!(printed.contains("typed"), "{printed}");
        for uri in &results {
            let read = client
                .request("resourceRead", json!({ "channel": ROOT, "uri": uri }))
                .await;
            assert_eq!(read.unwrap()["data"].as_str().unwrap().len(), 120_000, "{uri}");
        }
    };
    is_there(&mut a).await;
    house.restart().await;
    let mut b = house.client("b").await;
    is_there(&mut b).await;
    assert_eq!(ids(&b.subscribe(&two).await["state"]), expected);
    let new = b
        .request("moveChat", to(json!({ "kind": "newSession" })))
        .await
        .unwrap();
    let new = new["session"].as_str().unwrap().to_owned();
    let alone = [chat, sub.as_str(), later.as_str()];
    assert_eq!(ids(&b.subscribe(&new).await["state"]), alone);
    assert_eq!(ids(&b.subscribe(&two).await["state"]), [other.as_str()]);
    // Not even the session that they name need be there.
    b.request("disposeSession", json!({ "channel": one })).await.unwrap();
    is_there(&mut b).await;
    house.restart().await;
    let mut c = house.client("c").await;
    is_there(&mut c).await;
    assert_eq!(ids(&c.subscribe(&new).await["state"]), alone);
}
