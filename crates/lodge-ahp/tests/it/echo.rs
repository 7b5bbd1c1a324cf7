//! Clients hear of a turn when the log has it, and whatever becomes of it is in the log, too.

use lodge_events::{CommandInfo, Event, LodgeMessageQueued, UserMessage};
use lodge_host::{Answer, AnsweredBy, Capabilities, ClientSpec, NoCalls, Prompt, Session};
use serde_json::{Value, json};

use crate::kit::*;

fn cancel(turn: &str) -> Value {
    json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 0 })
}

/// A message whose attachment only its client has: it is prepared until the client answers.
fn unread(turn: &str) -> Value {
    let mut started = turn_started(turn, "look at this");
    started["message"]["attachments"] = json!([{ "type": "resource", "uri": "untitled:x", "label": "x" }]);
    started
}

fn log(session: &Session) -> Vec<Event> {
    session.history().unwrap().events().map(Result::unwrap).collect()
}

/// The turns of a chat: ids, states, texts.
async fn turns(client: &mut Client, chat: &str) -> Vec<(String, String, String)> {
    let state = client.subscribe(chat).await["state"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let turns = state["turns"].as_array().cloned().unwrap_or_default();
    let line = |turn: &Value| (text(&turn["id"]), text(&turn["state"]), text(&turn["message"]["text"]));
    turns.iter().map(line).collect()
}

fn line(id: &str, state: &str, text: &str) -> (String, String, String) {
    (id.to_owned(), state.to_owned(), text.to_owned())
}

#[tokio::test]
async fn a_turn_is_told_and_its_session_listed_when_the_log_has_the_message() {
    let house = house().await;
    let mut a = house.client("a").await;
    for number in 1..10 {
        let id = uuid(number);
        let (session, chat) = a.session(&id).await;
        a.say(&chat, "t1", "say hello").await;
        let told = a.action("chat/turnStarted").await;
        assert_eq!(told["origin"]["clientId"], "a", "{told}");
        let session_of = house.host.open_session(&id).await.unwrap();
        let queued = |event: &Event| {
            event
                .get::<LodgeMessageQueued>()
                .is_some_and(|queued| queued.message_id == "t1")
        };
        let has = log(&session_of)
            .iter()
            .find(|event| queued(event))
            .map(Event::timestamp);
        let said_at: lodge_events::Timestamp = told["action"]["startedAt"].as_str().unwrap().parse().unwrap();
        assert_eq!(
            has.map(|at| at.as_millisecond()),
            Some(said_at.as_millisecond()),
            "{session}"
        );
        a.ends(&chat, "t1").await;
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_prepared_is_a_failed_turn_also_after_a_restart() {
    let (mut house, mut a, _, chat) = at_home().await;
    let mut started = turn_started("t1", "say one");
    started["message"]["model"] = json!({ "id": "no-such-model" });
    a.accepted(&chat, started).await;
    let failed = a.ends(&chat, "t1").await;
    assert_eq!(failed["part"]["error"]["errorType"], "sendFailed", "{failed}");
    a.refused(&chat, json!({ "type": "chat/turnResume", "turnId": "t1" }))
        .await;
    a.turn(&chat, "t2", "say two").await;
    for restarted in [false, true] {
        if restarted {
            house.restart().await;
            a = house.client("a").await;
        }
        let expected = [line("t1", "error", "say one"), line("t2", "complete", "say two")];
        assert_eq!(turns(&mut a, &chat).await, expected, "restarted: {restarted}");
    }
}

#[tokio::test]
async fn a_turn_that_is_cancelled_before_it_was_said_is_the_same_after_a_restart() {
    let (mut house, mut a, _, chat) = at_home().await;
    a.accepted(&chat, unread("t1")).await;
    a.accepted(&chat, cancel("t1")).await;
    a.turn(&chat, "t2", "say two").await;
    for restarted in [false, true] {
        if restarted {
            house.restart().await;
            a = house.client("a").await;
        }
        let expected = [
            line("t1", "cancelled", "look at this"),
            line("t2", "complete", "say two"),
        ];
        assert_eq!(turns(&mut a, &chat).await, expected, "restarted: {restarted}");
    }
    // It is part of the conversation, so it can be cut off like any turn.
    a.accepted(&chat, json!({ "type": "chat/truncated" })).await;
    house.restart().await;
    let mut a = house.client("a").await;
    assert!(turns(&mut a, &chat).await.is_empty());
}

#[tokio::test]
async fn a_cancel_is_answered_also_when_another_message_came_first() {
    let (house, mut a, _, chat) = at_home().await;
    a.turn(&chat, "t0", "say zero").await;
    let session = house.host.open_session(&uuid(1)).await.unwrap();
    for round in 0..20 {
        let turn = format!("t{round}-prepared");
        a.accepted(&chat, unread(&turn)).await;
        let other = Prompt {
            text: "say other".into(),
            message_id: Some(format!("s{round}")),
            ..Prompt::default()
        };
        let sent = session.send(other);
        if round % 2 == 0 {
            sent.await.unwrap();
            let seq = a.dispatch(&chat, cancel(&turn)).await;
            a.verdict(seq).await;
        } else {
            let seq = a.dispatch(&chat, cancel(&turn)).await;
            sent.await.unwrap();
            a.verdict(seq).await;
        }
        a.ends(&chat, &format!("s{round}")).await;
        // Nobody holds the session, and nothing of the message is left to be said.
        let draft = json!({ "text": turn, "origin": { "kind": "user" } });
        a.accepted(&chat, json!({ "type": "chat/draftChanged", "draft": draft }))
            .await;
        // The cancel may have come too late for a turn: the message waits then, and begins like any other.
        while session.state().pending.get(&turn).is_some() {
            let remove = json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": turn });
            for action in [remove, cancel(&turn)] {
                let seq = a.dispatch(&chat, action).await;
                a.verdict(seq).await;
            }
        }
    }
}

#[tokio::test]
async fn a_command_that_is_cancelled_says_nothing_when_it_is_done() {
    let (house, mut a, _, chat) = at_home().await;
    a.turn(&chat, "t0", "say zero").await;
    let session = house.host.open_session(&uuid(1)).await.unwrap();
    let slow = CommandInfo {
        name: "slow".into(),
        ..CommandInfo::default()
    };
    let spec = ClientSpec {
        name: "app".into(),
        can: Capabilities::default(),
        tools: Vec::new(),
        commands: vec![slow],
        calls: std::sync::Arc::new(NoCalls),
    };
    let mut events = session.subscribe(1 << 20);
    let _app = session.attach_client(spec).await.unwrap();
    a.say(&chat, "t1", "/slow please").await;
    let request = loop {
        let events = events.next_batch().await.unwrap();
        let asked = events
            .iter()
            .find_map(Event::get::<lodge_events::CommandExecute>)
            .cloned();
        if let Some(asked) = asked {
            break asked.request_id;
        }
    };
    a.accepted(&chat, cancel("t1")).await;
    // Whether somebody still takes the answer is another matter.
    let done = session.answer(&request, Answer::Command(None), AnsweredBy::default());
    let _ = done.await;
    a.turn(&chat, "t2", "say two").await;
    let said = log(&session);
    let said = said.iter().filter_map(Event::get::<UserMessage>);
    let said = said
        .filter(|message| message.message_id.as_deref() == Some("t1"))
        .count();
    assert_eq!(said, 1);
    let expected = [
        line("t0", "complete", "say zero"),
        line("t1", "cancelled", "/slow please"),
        line("t2", "complete", "say two"),
    ];
    assert_eq!(turns(&mut a, &chat).await, expected);
}

#[tokio::test]
async fn a_message_that_is_to_steer_the_next_turn_waits_for_it_also_after_a_restart() {
    let (mut house, mut a, _, chat) = at_home().await;
    a.turn(&chat, "t0", "say zero").await;
    let message = json!({ "text": "say steered", "origin": { "kind": "user" } });
    let steer = json!({ "type": "chat/pendingMessageSet", "kind": "steering", "id": "s1", "message": message });
    a.accepted(&chat, steer).await;
    house.restart().await;
    let mut a = house.client("a").await;
    assert_eq!(a.subscribe(&chat).await["state"]["steeringMessage"]["id"], "s1");
    a.say(&chat, "t1", "call bash {\"command\":\"sleep 0.3\"} then say one")
        .await;
    a.ends(&chat, "t1").await;
    let state = a.subscribe(&chat).await["state"].clone();
    assert_eq!(state.get("steeringMessage"), None, "{state}");
    let session = house.host.open_session(&uuid(1)).await.unwrap();
    let said = log(&session);
    let said = said.iter().filter_map(Event::get::<UserMessage>);
    let said: Vec<_> = said.filter_map(|message| message.message_id.clone()).collect();
    assert_eq!(said, ["t0", "t1", "s1"]);
}
