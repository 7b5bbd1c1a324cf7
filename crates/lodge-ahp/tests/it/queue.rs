//! Messages that wait: one queue, which the session's log has, whoever looks at it and whoever changes it.

use lodge_events::Event;
use lodge_host::{PendingMessages, Prompt, QueueChange, Session};
use serde_json::{Value, json};

use crate::kit::*;

/// Ids and texts of messages that wait.
type Waiting = &'static [(&'static str, &'static str)];

const LONG: &str = "slowly 20 ms, stream 3000 chunks";

fn set(id: &str, text: &str) -> Value {
    let message = json!({ "text": text, "origin": { "kind": "user" } });
    json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message })
}

fn remove(id: &str) -> Value {
    json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": id })
}

fn reorder(order: &[&str]) -> Value {
    json!({ "type": "chat/queuedMessagesReordered", "order": order })
}

fn cancel(turn: &str) -> Value {
    json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 0 })
}

/// What waits, as the host's other faces see it.
fn waiting(session: &Session) -> Vec<(String, String)> {
    let (queue, _) = session.queue();
    let waiting = queue.into_iter().map(|prompt| (prompt.message_id, prompt.text));
    waiting.map(|(id, text)| (id.unwrap_or_default(), text)).collect()
}

/// What waits, as the log says.
fn logged(session: &Session) -> Vec<(String, String)> {
    let mut pending = PendingMessages::default();
    let log: Vec<Event> = session.history().unwrap().events().map(Result::unwrap).collect();
    log.iter().for_each(|event| pending.fold(event.payload()));
    let next = pending.next.into_iter();
    next.map(|message| (message.id, message.item.text)).collect()
}

/// What waits, as clients of this face see it.
async fn shown(client: &mut Client, chat: &str) -> Vec<(String, String)> {
    let state = client.subscribe(chat).await["state"].clone();
    let queue = state["queuedMessages"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let shown = queue
        .iter()
        .map(|queued| (text(&queued["id"]), text(&queued["message"]["text"])));
    shown.collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(id, text): &(&str, &str)| ((*id).to_owned(), (*text).to_owned());
    expected.iter().map(own).collect()
}

async fn turns(client: &mut Client, chat: &str) -> Vec<Value> {
    let state = client.subscribe(chat).await["state"].clone();
    let turns = state["turns"].as_array().cloned().unwrap_or_default();
    turns.iter().map(|turn| turn["id"].clone()).collect()
}

#[tokio::test]
async fn every_face_sees_the_same_queue_and_the_log_has_it_before_its_sender_hears_of_a_change() {
    let (house, mut a, _, chat) = at_home().await;
    let mut b = house.client("b").await;
    a.say(&chat, "t1", LONG).await;
    a.action("chat/delta").await;
    b.subscribe(&chat).await;
    let session = house.host.open_session(&uuid(1)).await.unwrap();
    let steps: [(Value, Waiting); 5] = [
        (set("q1", "say one"), &[("q1", "say one")]),
        (set("q2", "say two"), &[("q1", "say one"), ("q2", "say two")]),
        (set("q1", "say other"), &[("q1", "say other"), ("q2", "say two")]),
        (reorder(&["q2"]), &[("q2", "say two"), ("q1", "say other")]),
        (remove("q2"), &[("q1", "say other")]),
    ];
    for (action, expected) in steps {
        a.accepted(&chat, action.clone()).await;
        assert_eq!(logged(&session), pairs(expected), "{action}");
        assert_eq!(waiting(&session), pairs(expected), "{action}");
        assert_eq!(
            b.action(action["type"].as_str().unwrap()).await["action"]["id"],
            action["id"]
        );
        assert_eq!(shown(&mut b, &chat).await, pairs(expected), "{action}");
    }
    // Now another face changes it.
    let steps: [(QueueChange, &str, Waiting); 4] = [
        (
            QueueChange::Insert(0, Box::new(prompt("s1", "say sdk"))),
            "chat/queuedMessagesReordered",
            &[("s1", "say sdk"), ("q1", "say other")],
        ),
        (
            QueueChange::Reword("q1".into(), "say again".into(), None),
            "chat/pendingMessageSet",
            &[("s1", "say sdk"), ("q1", "say again")],
        ),
        (
            QueueChange::Reorder(vec!["q1".into()]),
            "chat/queuedMessagesReordered",
            &[("q1", "say again"), ("s1", "say sdk")],
        ),
        (
            QueueChange::Remove("s1".into()),
            "chat/pendingMessageRemoved",
            &[("q1", "say again")],
        ),
    ];
    for (change, told, expected) in steps {
        b.inbox.clear();
        let what = format!("{change:?}");
        session.change_queue(change).await.unwrap();
        b.action(told).await;
        assert_eq!(shown(&mut b, &chat).await, pairs(expected), "{what}");
    }
    session.change_queue(QueueChange::Steer("q1".into())).await.unwrap();
    let gone = b.action("chat/pendingMessageRemoved").await["action"].clone();
    assert_eq!((&gone["kind"], &gone["id"]), (&json!("queued"), &json!("q1")));
    let steers = b.action("chat/pendingMessageSet").await["action"].clone();
    assert_eq!((&steers["kind"], &steers["id"]), (&json!("steering"), &json!("q1")));
}

fn prompt(id: &str, text: &str) -> Prompt {
    Prompt {
        text: text.into(),
        message_id: Some(id.into()),
        ..Prompt::default()
    }
}

#[tokio::test]
async fn messages_of_all_faces_are_said_in_the_order_of_the_queue() {
    let (house, mut a, _, chat) = at_home().await;
    a.say(&chat, "t1", "ask \"Which colour?\" choices red, blue").await;
    let asked = a.action("chat/inputRequested").await["action"]["request"].clone();
    let session = house.host.open_session(&uuid(1)).await.unwrap();
    a.accepted(&chat, set("q1", "say one")).await;
    session.send(prompt("s1", "say two")).await.unwrap();
    a.accepted(&chat, set("q2", "/help")).await;
    session.send(prompt("s2", "say four")).await.unwrap();
    let response = json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "cancel" });
    a.accepted(&chat, response).await;
    a.ends(&chat, "s2").await;
    assert_eq!(turns(&mut a, &chat).await, ["t1", "q1", "s1", "q2", "s2"]);
    assert!(shown(&mut a, &chat).await.is_empty() && waiting(&session).is_empty());
}

#[tokio::test]
async fn a_turn_that_is_cancelled_leaves_what_waits_until_somebody_speaks() {
    let (house, mut a, _, chat) = at_home().await;
    a.say(&chat, "t1", LONG).await;
    a.action("chat/delta").await;
    a.accepted(&chat, set("q1", "say one")).await;
    a.accepted(&chat, cancel("t1")).await;
    let session = house.host.open_session(&uuid(1)).await.unwrap();
    assert_eq!(waiting(&session), pairs(&[("q1", "say one")]));
    assert_eq!(shown(&mut a, &chat).await, pairs(&[("q1", "say one")]));
    a.say(&chat, "t2", "say two").await;
    a.ends(&chat, "q1").await;
    assert_eq!(turns(&mut a, &chat).await, ["t1", "t2", "q1"]);
}

#[tokio::test]
async fn a_message_that_another_face_takes_back_is_not_said() {
    let (house, mut a, _, chat) = at_home().await;
    a.say(&chat, "t1", LONG).await;
    a.action("chat/delta").await;
    for id in ["q1", "q2"] {
        a.accepted(&chat, set(id, "say queued")).await;
    }
    let session = house.host.open_session(&uuid(1)).await.unwrap();
    session.change_queue(QueueChange::Remove("q1".into())).await.unwrap();
    assert_eq!(a.action("chat/pendingMessageRemoved").await["action"]["id"], "q1");
    a.refused(&chat, remove("q1")).await;
    // Its clients forget what waits when they stop a turn; then it waits nowhere.
    session.abort(lodge_events::AbortReason::UserInitiated).await.unwrap();
    assert_eq!(a.action("chat/pendingMessageRemoved").await["action"]["id"], "q2");
    assert!(shown(&mut a, &chat).await.is_empty());
}

#[tokio::test]
async fn messages_that_an_earlier_build_kept_in_its_files_are_brought_into_the_log() {
    let (mut house, mut a, session, chat) = at_home().await;
    a.say(&chat, "t1", "say first").await;
    a.ends(&chat, "t1").await;
    drop(a);
    house.stop().await;
    let queue = json!([
        { "id": "q1", "message": { "text": "say one", "origin": { "kind": "user" } } },
        { "id": "q2", "message": { "text": "say two", "origin": { "kind": "user" }, "_meta": { "mine": 1 } } },
    ]);
    let file = house.dir.path().join("home/ahp/sessions.jsonl");
    let record = json!({ "key": uuid(1), "record": { "uri": session, "queue": queue } });
    std::fs::write(&file, format!("{record}\n")).unwrap();
    // Once, also when the host is started again.
    for _ in 0..2 {
        house.start().await;
        let mut b = house.client("b").await;
        b.subscribe(&session).await;
        while shown(&mut b, &chat).await.len() < 2 {}
        assert_eq!(
            shown(&mut b, &chat).await,
            pairs(&[("q1", "say one"), ("q2", "say two")])
        );
        let session = house.host.open_session(&uuid(1)).await.unwrap();
        assert_eq!(logged(&session), pairs(&[("q1", "say one"), ("q2", "say two")]));
        drop(session);
        house.stop().await;
        assert!(!file.exists());
    }
    house.start().await;
    let mut b = house.client("b").await;
    let state = b.subscribe(&chat).await["state"].clone();
    assert_eq!(state["queuedMessages"], queue);
    b.say(&chat, "t2", "say second").await;
    b.ends(&chat, "q2").await;
    assert_eq!(turns(&mut b, &chat).await, ["t1", "t2", "q1", "q2"]);
}

#[tokio::test]
async fn how_messages_were_written_is_in_the_log_and_what_an_earlier_build_kept_of_it_is_read() {
    let (mut house, mut a, session, chat) = at_home().await;
    let swatch = json!([{ "type": "simple", "label": "a swatch" }]);
    let mut first = turn_started("t1", "say first");
    first["message"]["attachments"] = swatch.clone();
    a.dispatch(&chat, first).await;
    a.ends(&chat, "t1").await;
    a.turn(&chat, "t2", "say second").await;
    drop(a);
    house.stop().await;
    let face = house.dir.path().join("home/ahp");
    std::fs::remove_dir_all(&face).unwrap();
    std::fs::create_dir_all(face.join("said")).unwrap();
    let message = json!({ "text": "say second", "origin": { "kind": "user" }, "attachments": swatch });
    let line = json!({ "id": "t2", "message": message });
    let file = face.join(format!("said/{}.jsonl", uuid(1)));
    std::fs::write(&file, format!("{line}\n")).unwrap();
    house.start().await;
    let mut b = house.client("b").await;
    b.subscribe(&session).await;
    let source = json!({ "kind": "fork", "chat": chat, "turnId": "t2" });
    let copy = json!({ "channel": session, "chat": "ahp-chat:/copy", "source": source });
    b.request("createChat", copy).await.unwrap();
    for chat in [chat.as_str(), "ahp-chat:/copy"] {
        let state = b.subscribe(chat).await["state"].clone();
        let turns = state["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 2, "{state:#}");
        for turn in turns {
            assert_eq!(turn["message"]["attachments"], swatch, "{chat}: {turn:#}");
        }
    }
    b.request("disposeSession", json!({ "channel": session }))
        .await
        .unwrap();
    assert!(!file.exists());
}

fn log_has(session: &Session, kind: &str) -> bool {
    let log: Vec<Event> = session.history().unwrap().events().map(Result::unwrap).collect();
    log.iter().any(|event| event.kind() == kind)
}

#[tokio::test]
async fn a_cancelled_turn_and_a_cut_conversation_are_told_when_the_log_has_them() {
    let (house, mut a, _, chat) = at_home().await;
    let mut b = house.client("b").await;
    b.subscribe(&chat).await;
    a.say(&chat, "t1", "say one").await;
    a.ends(&chat, "t1").await;
    let session = house.host.open_session(&uuid(1)).await.unwrap();
    a.say(&chat, "t2", LONG).await;
    a.action("chat/delta").await;
    let told = a.accepted(&chat, cancel("t2")).await;
    assert!(log_has(&session, "abort") && !session.is_busy(), "{told}");
    assert_eq!(b.ends(&chat, "t2").await["type"], "chat/turnCancelled");
    // A turn that runs is stopped before it is cut off.
    a.say(&chat, "t3", LONG).await;
    a.action("chat/delta").await;
    let cut = json!({ "type": "chat/truncated", "turnId": "t1" });
    a.accepted(&chat, cut.clone()).await;
    let said: Vec<Event> = session.history().unwrap().events().map(Result::unwrap).collect();
    let said = said.iter().filter_map(Event::get::<lodge_events::UserMessage>);
    let said: Vec<_> = said.filter_map(|message| message.message_id.clone()).collect();
    assert_eq!(said, ["t1"]);
    assert_eq!(b.action("chat/truncated").await["action"], cut);
    assert_eq!(turns(&mut b, &chat).await, ["t1"]);
    // Nothing is left to stop.
    a.refused(&chat, cancel("t3")).await;
    a.say(&chat, "t4", "say more").await;
    a.ends(&chat, "t4").await;
    assert_eq!(turns(&mut a, &chat).await, ["t1", "t4"]);
}

#[tokio::test]
async fn a_turn_is_cancelled_whose_message_was_not_said_yet() {
    let (house, mut a, _, chat) = at_home().await;
    for round in 0..10 {
        let id = format!("t{round}");
        a.say(&chat, &id, LONG).await;
        a.accepted(&chat, cancel(&id)).await;
    }
    let session = house.host.open_session(&uuid(1)).await.unwrap();
    assert!(waiting(&session).is_empty() && logged(&session).is_empty());
    a.say(&chat, "last", "say last").await;
    assert_eq!(a.ends(&chat, "last").await["type"], "chat/turnComplete");
}
