//! A session from its making to its end, and back again.

use serde_json::{Value, json};

use crate::client::{House, types};

#[tokio::test]
async fn the_answer_comes_before_the_first_event_and_after_the_last() {
    let house = House::new();
    let mut client = house.client();
    let create = client
        .ask("session.create", json!({"sessionId": "s-1", "requestPermission": true}))
        .await;
    let first = loop {
        let message = client.next().await;
        // What happens to sessions is told to everybody, at any time.
        if message["method"] != "session.lifecycle" {
            break message;
        }
    };
    assert_eq!(first["id"], create, "{first}");
    assert_eq!(first["result"]["sessionId"], "s-1");
    assert!(first["result"]["workspacePath"].as_str().unwrap().ends_with("s-1"));
    let start = client.event("session.start").await;
    assert_eq!(start["data"]["sessionId"], "s-1");
    assert_eq!(start["parentId"], Value::Null);

    let events = client.say("s-1", "say hello").await;
    let persisted: Vec<&Value> = events.iter().filter(|event| event.get("ephemeral").is_none()).collect();
    let sent = &persisted.iter().find(|event| event["type"] == "user.message").unwrap()["data"];
    let said = &persisted
        .iter()
        .find(|event| event["type"] == "assistant.message")
        .unwrap()["data"];
    assert_eq!(
        (&said["content"], &said["originatingMessageId"]),
        (&json!("hello"), &sent["messageId"])
    );
    assert_eq!(events.last().unwrap()["type"], "session.idle");

    let history = client.call("session.getMessages", json!({"sessionId": "s-1"})).await;
    let history = history["events"].as_array().unwrap();
    assert_eq!(history[0], start);
    assert_eq!(history[1..].iter().collect::<Vec<_>>(), persisted);
    for pair in history.windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"]);
    }

    let destroy = client.ask("session.destroy", json!({"sessionId": "s-1"})).await;
    let mut seen = Vec::new();
    loop {
        let message = client.next().await;
        if message["id"] == destroy {
            break;
        }
        seen.push(message["params"]["event"]["type"].clone());
    }
    assert!(seen.contains(&json!("session.shutdown")), "{seen:?}");
    assert!(
        client
            .fail("session.getMessages", json!({"sessionId": "s-1"}))
            .await
            .1
            .contains("Session not found")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_message_comes_before_everything_of_its_turn() {
    let house = House::new();
    let (mut client, mut other) = (house.client(), house.client());
    let session = client.create(json!({})).await;
    other
        .call("session.resume", json!({"sessionId": session, "disableResume": true}))
        .await;
    let message = json!({"sessionId": session, "prompt": "say hello"});
    let messages = json!({"sessionId": session, "messages": [{"prompt": "say one"}, {"prompt": "say two"}]});
    for (method, params) in [
        ("session.send", &message),
        ("session.sendMessages", &messages),
        ("session.fleet.start", &message),
    ] {
        for _ in 0..10 {
            let id = client.ask(method, params.clone()).await;
            // What the session said before it was asked may still be under way.
            loop {
                let message = client.next().await;
                if message["id"] == id {
                    break;
                }
                let kind = message["params"]["event"]["type"].as_str();
                let of_turn = [
                    "pending_messages.modified",
                    "user.message",
                    "assistant.turn_start",
                    "session.idle",
                ];
                assert!(kind.is_none_or(|kind| !of_turn.contains(&kind)), "{method}: {message}");
            }
            let whole = client.events_until("session.idle").await;
            assert!(types(&whole).contains(&"user.message"), "{:?}", types(&whole));
            other.events_until("session.idle").await;
        }
    }

    // Of two messages at once, each is answered before it is seen, and what was held for either is sent.
    let asked = [
        client.ask("session.send", message.clone()).await,
        client.ask("session.send", message).await,
    ];
    let (mut answered, mut seen) = (Vec::new(), 0);
    while seen < asked.len() {
        let message = client.next().await;
        if message["method"] != "session.event" {
            answered.extend(message["result"]["messageId"].as_str().map(str::to_owned));
        } else if message["params"]["event"]["type"] == "user.message" {
            let id = message["params"]["event"]["data"]["messageId"].as_str().unwrap();
            assert!(answered.iter().any(|answered| answered == id), "{message}");
            seen += 1;
        }
    }
}

#[tokio::test]
async fn a_session_is_resumed_after_a_restart_of_the_host() {
    let house = House::new();
    let mut client = house.client();
    let session = client.create(json!({})).await;
    client.say(&session, "say one").await;
    drop(client);
    let house = house.restarted().await;
    let mut client = house.client();
    client.call("session.resume", json!({"sessionId": session})).await;
    let events = client.say(&session, "say two").await;
    assert!(types(&events).contains(&"session.resume"), "{:?}", types(&events));
    let history = client.call("session.getMessages", json!({"sessionId": session})).await;
    let said: Vec<&str> = history["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "assistant.message")
        .map(|event| event["data"]["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["one", "two"]);
    // To join is not to take up: no event is recorded for it.
    let mut other = house.client();
    other
        .call("session.resume", json!({"sessionId": session, "disableResume": true}))
        .await;
    let again = other.call("session.getMessages", json!({"sessionId": session})).await;
    assert_eq!(
        again["events"].as_array().unwrap().len(),
        history["events"].as_array().unwrap().len()
    );
}

#[tokio::test]
async fn sessions_are_listed_found_forked_and_deleted() {
    let house = House::new();
    let mut client = house.client();
    assert_eq!(client.call("session.getLastId", json!({})).await, json!({}));
    assert_eq!(client.call("session.list", json!({})).await, json!({"sessions": []}));
    let silent = client.create(json!({"sessionId": "silent"})).await;
    client
        .create(json!({"sessionId": "named", "name": "Named at once"}))
        .await;
    let session = client.create(json!({"sessionId": "talking"})).await;
    client.say(&session, "say one").await;
    let second = client.say(&session, "say two").await;
    let listed = client.call("session.list", json!({})).await;
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(listed["sessions"][1]["name"], "Named at once");
    assert_eq!(listed["sessions"][0]["sessionId"], "talking");
    assert_eq!(listed["sessions"][0]["summary"], "say one");
    assert_eq!(
        client.call("session.getLastId", json!({})).await,
        json!({"sessionId": "talking"})
    );
    assert_eq!(
        client.call("session.getMetadata", json!({"sessionId": silent})).await,
        json!({})
    );
    assert_eq!(
        client.call("sessions.findByPrefix", json!({"prefix": "tal"})).await,
        json!({"sessionId": "talking"})
    );
    assert_eq!(
        client.call("sessions.findByPrefix", json!({"prefix": "x"})).await,
        json!({})
    );

    let user = second.iter().find(|event| event["type"] == "user.message").unwrap();
    let fork = client
        .call("sessions.fork", json!({"sessionId": session, "toEventId": user["id"]}))
        .await;
    let copy = fork["sessionId"].as_str().unwrap().to_owned();
    client.call("session.resume", json!({"sessionId": copy})).await;
    let history = client.call("session.getMessages", json!({"sessionId": copy})).await;
    let kinds = types(history["events"].as_array().unwrap());
    assert_eq!(kinds.iter().filter(|kind| **kind == "user.message").count(), 1);
    let (_, missing) = client
        .fail("sessions.fork", json!({"sessionId": session, "toEventId": "nope"}))
        .await;
    assert!(missing.contains("Event nope not found"), "{missing}");

    assert_eq!(
        client.call("session.delete", json!({"sessionId": session})).await,
        json!({"success": true})
    );
    let gone = client.call("session.delete", json!({"sessionId": session})).await;
    assert_eq!(gone["success"], false);
    assert!(
        client
            .fail("session.resume", json!({"sessionId": session}))
            .await
            .1
            .contains("Session not found")
    );
}

#[tokio::test]
async fn who_deletes_a_session_hears_how_it_ended_and_nobody_finds_it_after_that() {
    let house = House::new();
    let (mut client, mut other) = (house.client(), house.client());
    let session = client.create(json!({"streaming": true})).await;
    other.call("session.resume", json!({"sessionId": session})).await;
    let prompt = "slowly 50 ms, stream 2000 chunks";
    client
        .call("session.send", json!({"sessionId": session, "prompt": prompt}))
        .await;
    client.event("assistant.message_delta").await;
    let id = client.ask("session.delete", json!({"sessionId": session})).await;
    let mut ended = Vec::new();
    let answer = loop {
        let message = client.next().await;
        if message["id"] == id {
            break message;
        }
        ended.extend(message["params"]["event"]["type"].as_str().map(str::to_owned));
    };
    assert_eq!(answer["result"], json!({"success": true}));
    ended.retain(|kind| !kind.ends_with("_delta"));
    // What had streamed by then is kept.
    let kinds = [
        "model.call_finished",
        "assistant.message",
        "agent.interrupted",
        "abort",
        "assistant.turn_end",
        "assistant.idle",
        "session.idle",
        "session.shutdown",
    ];
    assert_eq!(ended, kinds);
    for method in ["session.getMessages", "session.mode.get", "session.send"] {
        let params = json!({"sessionId": session, "prompt": "say x"});
        let (_, told) = other.fail(method, params).await;
        assert!(told.contains("Session not found"), "{method}: {told}");
    }
    let closed = other.call("session.destroy", json!({"sessionId": session})).await;
    assert_eq!(closed, json!({"success": true}));
}

#[tokio::test]
async fn a_message_is_refused_that_no_model_could_be_asked_about() {
    let mut client = House::new().client();
    let session = client.create(json!({})).await;
    let image = |data: &str| json!([{"type": "blob", "data": data, "mimeType": "image/png", "displayName": "x.png"}]);
    for (params, words) in [
        (json!({}), "missing field `prompt`"),
        (
            json!({"prompt": "say x", "attachments": image("!!!")}),
            "\"x.png\" is not base64",
        ),
    ] {
        let mut params = params;
        params["sessionId"] = json!(session);
        let (code, told) = client.fail("session.send", params).await;
        assert_eq!(code, -32602);
        assert!(told.contains(words), "{told}");
    }
    let attachments = json!([{"type": "file", "path": "/a/b.txt"}, {"type": "directory", "path": "/"}]);
    let params = json!({"sessionId": session, "prompt": "say y", "attachments": attachments});
    client.call("session.send", params).await;
    let message = client.event("user.message").await;
    let names = [0, 1].map(|n| message["data"]["attachments"][n]["displayName"].clone());
    assert_eq!(names, ["b.txt", "/"]);
}

#[tokio::test]
async fn tools_of_the_client_run_in_every_form_and_permission_is_asked_first() {
    let house = House::new();
    let mut client = house.client();
    let tool = json!({"name": "look", "description": "Looks", "parameters": {"type": "object"}});
    let session = client.create(json!({"requestPermission": true, "tools": [tool]})).await;
    for (answer, content, error) in [
        (json!({"result": "plain"}), json!("plain"), Value::Null),
        (
            json!({"result": {"textResultForLlm": "full", "resultType": "success"}}),
            json!("full"),
            Value::Null,
        ),
        (
            json!({"error": "secret reason"}),
            Value::Null,
            json!("Failed to execute `look` tool with arguments: {} due to error: Error: Tool execution failed"),
        ),
    ] {
        client
            .call(
                "session.send",
                json!({"sessionId": session, "prompt": "call look {} then say done"}),
            )
            .await;
        let asked = client.event("permission.requested").await;
        assert_eq!(asked["data"]["permissionRequest"]["kind"], "custom-tool");
        let id = &asked["data"]["requestId"];
        let pending = client
            .call("session.permissions.pendingRequests", json!({"sessionId": session}))
            .await;
        assert_eq!(pending["items"][0]["requestId"], *id);
        let decision = json!({"sessionId": session, "requestId": id, "result": {"kind": "approve-once"}});
        let decide = "session.permissions.handlePendingPermissionRequest";
        assert_eq!(client.call(decide, decision.clone()).await, json!({"success": true}));
        assert_eq!(client.call(decide, decision).await, json!({"success": false}));
        let called = client.event("external_tool.requested").await;
        let mut result = answer.clone();
        result["sessionId"] = json!(session);
        result["requestId"] = called["data"]["requestId"].clone();
        assert_eq!(
            client.call("session.tools.handlePendingToolCall", result).await,
            json!({"success": true})
        );
        let done = client.event("tool.execution_complete").await;
        assert_eq!(done["data"]["result"]["content"], content, "{done}");
        assert_eq!(done["data"]["error"]["message"], error, "{done}");
        client.event("session.idle").await;
    }
}

/// Apps know a command by the names of its programs. A rule made of these would allow far more than people read.
#[tokio::test]
async fn names_of_programs_approve_what_the_open_request_is_about_and_nothing_else() {
    let house = House::new();
    let mut client = house.client();
    let session = client.create(json!({"requestPermission": true})).await;
    let add = "session.permissions.locations.addToolApproval";
    let approval = json!({"sessionId": session, "locationKey": client.work,
        "approval": {"kind": "commands", "commandIdentifiers": ["touch"]}});
    let (_, message) = client.fail(add, approval.clone()).await;
    assert!(message.contains("no open permission request"), "{message}");
    let touch = |name: &str| {
        let call = json!({"command": format!("touch {name}"), "description": "d"});
        json!({"sessionId": session, "prompt": format!("call bash {call} then say done")})
    };
    client.call("session.send", touch("one")).await;
    let asked = client.event("permission.requested").await;
    assert_eq!(asked["data"]["promptRequest"]["commandIdentifiers"], json!(["touch"]));
    let mut elsewhere = approval.clone();
    elsewhere["locationKey"] = json!("/");
    let (_, message) = client.fail(add, elsewhere).await;
    assert!(message.contains("the session's own location"), "{message}");
    client.call(add, approval).await;
    let decide = "session.permissions.handlePendingPermissionRequest";
    let once =
        json!({"sessionId": session, "requestId": asked["data"]["requestId"], "result": {"kind": "approve-once"}});
    client.call(decide, once).await;
    client.event("session.idle").await;
    client.call("session.send", touch("one")).await;
    let events = client.events_until("session.idle").await;
    assert!(
        !events.iter().any(|event| event["type"] == "permission.requested"),
        "{events:?}"
    );
    client.call("session.send", touch("two")).await;
    client.event("permission.requested").await;
    let place = json!({"sessionId": session, "workingDirectory": client.work});
    let applied = client.call("session.permissions.locations.apply", place).await;
    let rule = json!([{"kind": "shell", "argument": "touch one [=]"}]);
    assert_eq!(applied["appliedRules"], rule, "{applied}");
}

#[tokio::test]
async fn what_was_sent_is_waited_for_by_one_call() {
    let house = House::new();
    let mut client = house.client();
    let session = client.create(json!({"streaming": true})).await;
    let done = client
        .call(
            "session.sendAndWait",
            json!({"sessionId": session, "prompt": "say done"}),
        )
        .await;
    assert_eq!(done["response"]["data"]["content"], "done");
    assert_eq!(done["aborted"], false);
    // The event that ended it came before the answer.
    let idle = client.event("session.idle").await;
    assert_eq!(done["completionEventId"], idle["id"]);

    let waiting = client
        .ask(
            "session.sendAndWait",
            json!({"sessionId": session, "prompt": "wait 60000 ms then say late"}),
        )
        .await;
    client.event("assistant.turn_start").await;
    client.call("session.abort", json!({"sessionId": session})).await;
    assert_eq!(client.answer(waiting).await["result"]["aborted"], true);
}
