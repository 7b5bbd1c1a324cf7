//! Turns, from the first message to the last.

use serde_json::json;

use crate::kit::*;

#[tokio::test]
async fn a_turn_streams_and_ends_and_is_in_the_next_snapshot() {
    let (_house, mut client, session, chat) = at_home().await;
    let state = client.turn(&chat, "t1", "think about doors then say They open.").await;
    let turn = &state["turns"][0];
    assert_eq!(turn["id"], "t1");
    assert_eq!(turn["state"], "complete");
    assert_eq!(turn["message"]["text"], "think about doors then say They open.");
    let kinds: Vec<_> = turn["responseParts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["kind"].clone())
        .collect();
    assert!(kinds.contains(&json!("markdown")), "{turn:#}");
    assert!(kinds.contains(&json!("reasoning")), "{turn:#}");
    assert_eq!(state["status"], 1);
    assert!(state.get("activeTurn").is_none());
    let added = client.notification("root/sessionAdded").await;
    assert_eq!(added["summary"]["resource"], session.as_str());
}

#[tokio::test]
async fn a_tool_call_is_approved_by_a_second_client() {
    let house = house().await;
    let mut first = house.client("a").await;
    let mut second = house.client("b").await;
    let (session, chat) = first.session(&uuid(1)).await;
    second.subscribe(&session).await;
    second.subscribe(&chat).await;
    first
        .say(
            &chat,
            "t1",
            "call bash {\"command\":\"touch made-by-tool\"} then say done",
        )
        .await;
    let ready = second.action("chat/toolCallReady").await["action"].clone();
    assert!(ready.get("confirmed").is_none(), "{ready}");
    assert_eq!(ready["toolInput"], "touch made-by-tool");
    let needed = second.action("session/inputNeededSet").await;
    assert_eq!(needed["action"]["request"]["kind"], "toolConfirmation");
    let call = ready["toolCallId"].as_str().unwrap();
    second
        .accepted(
            &chat,
            json!({ "type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": call, "approved": true }),
        )
        .await;
    let seen = first.action("chat/toolCallConfirmed").await;
    assert_eq!(seen["origin"]["clientId"], "b");
    first.action("session/inputNeededRemoved").await;
    first.ends(&chat, "t1").await;
    assert!(house.work().join("made-by-tool").exists());
    let late = json!({ "type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": call, "approved": true });
    first.refused(&chat, late).await;
}

/// Clients have nowhere else to show it, so the question says it.
#[tokio::test]
async fn a_question_says_what_is_dangerous_about_a_command_in_every_dialect() {
    let (house, mut a, session, chat) = at_home().await;
    let mut old = house.client_of("old", "0.1.0").await;
    old.request("subscribe", json!({ "resource": session })).await.unwrap();
    for (turn, command, title) in [
        ("t1", "touch x", "Run this command?"),
        (
            "t2",
            "git push --force origin main",
            "Run this command? Overwrites history on the remote.",
        ),
    ] {
        a.say(
            &chat,
            turn,
            &format!("call bash {{\"command\":\"{command}\"}} then say over"),
        )
        .await;
        let ready = a.action("chat/toolCallReady").await["action"].clone();
        assert_eq!(ready["confirmationTitle"], title);
        let ready = old.action("session/toolCallReady").await["action"].clone();
        assert_eq!(ready["confirmationTitle"], title);
        let denied = json!({
            "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": ready["toolCallId"],
            "approved": false, "reason": "denied",
        });
        a.accepted(&chat, denied).await;
        a.ends(&chat, turn).await;
    }
}

#[tokio::test]
async fn a_turn_can_be_cancelled_and_the_next_one_is_clean() {
    let (_house, mut client, _, chat) = at_home().await;
    client.say(&chat, "t1", "slowly 20 ms, stream 2000 chunks").await;
    client.action("chat/delta").await;
    client
        .accepted(
            &chat,
            json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 12.5 }),
        )
        .await;
    let state = client.turn(&chat, "t2", "say hello").await;
    assert_eq!(state["turns"][0]["state"], "cancelled");
    assert_eq!(
        state["turns"][1]["responseParts"],
        json!([{ "kind": "markdown", "id": state["turns"][1]["responseParts"][0]["id"], "content": "hello" }])
    );
    let gone = json!({ "type": "chat/turnCancelled", "turnId": "t2", "duration": 1 });
    client.refused(&chat, gone).await;
}

#[tokio::test]
async fn a_turn_that_is_cancelled_at_once_is_there_once() {
    let (_house, mut client, _, chat) = at_home().await;
    client.turn(&chat, "first", "say first").await;
    let ids: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    for id in &ids {
        client.say(&chat, id, "slowly 20 ms, stream 2000 chunks").await;
        let cancelled = json!({ "type": "chat/turnCancelled", "turnId": id, "duration": 1 });
        client.accepted(&chat, cancelled).await;
    }
    let state = client.turn(&chat, "last", "say last").await;
    let turns = state["turns"].as_array().unwrap();
    let shown: Vec<&str> = turns.iter().map(|turn| turn["id"].as_str().unwrap()).collect();
    let expected: Vec<&str> = ["first"]
        .into_iter()
        .chain(ids.iter().map(String::as_str))
        .chain(["last"])
        .collect();
    assert_eq!(shown, expected);
    for turn in &turns[1..=ids.len()] {
        assert_eq!(turn["state"], "cancelled", "{turn:#}");
    }
    assert_eq!(turns[ids.len() + 1]["responseParts"][0]["content"], "last");
}

#[tokio::test]
async fn a_model_call_that_is_made_again_is_what_the_session_does_until_it_answers() {
    let (_house, mut client, _, chat) = at_home().await;
    client
        .say(&chat, "t1", "fail with rate limit 1 time then say Here I am.")
        .await;
    let waits = client.action("session/activityChanged").await["action"]["activity"].clone();
    let waits = waits.as_str().unwrap();
    assert!(
        waits.starts_with("Trying again in") && waits.contains("attempt 2 of 6"),
        "{waits}"
    );
    // The last thing before the answer is that nothing special is done.
    let mut last = waits.to_owned();
    loop {
        let told = client
            .until(|message| {
                let kind = &message["params"]["action"]["type"];
                kind == "session/activityChanged" || kind == "chat/responsePart"
            })
            .await;
        let action = &told["params"]["action"];
        if action["type"] == "chat/responsePart" {
            break;
        }
        last = action["activity"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(last, "");
}
