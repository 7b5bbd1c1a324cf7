//! What the editor's own suites ask of any host, in our words: lists and notifications, titles, queue and steering, models
//! that are not there, sessions that nobody opened since the host started.

use std::time::Duration;

use lodge_ahp::Limits;
use serde_json::{Value, json};

use crate::kit::*;

async fn listed(client: &mut Client, session: &str) -> Option<Value> {
    let all = client
        .request("listSessions", json!({ "channel": ROOT }))
        .await
        .unwrap();
    let mut items = all["items"].as_array().unwrap().iter();
    items.find(|item| item["resource"] == session).cloned()
}

#[tokio::test]
async fn a_session_is_in_the_list_as_soon_as_it_is_made_unless_an_editor_drafts_it() {
    let mut house = house().await;
    for version in ["1.0.0", "0.9.0"] {
        let mut a = house.client_of("a", version).await;
        let mut b = house.client_of("b", "1.0.0").await;
        let session = format!("copilotcli:/made-by-{version}");
        let create = json!({ "channel": session, "provider": "copilotcli", "config": { "isolation": "folder" } });
        a.request("createSession", create).await.unwrap();
        for client in [&mut a, &mut b] {
            let added = client.notification("root/sessionAdded").await["summary"].clone();
            assert_eq!(
                (&added["resource"], &added["provider"]),
                (&json!(session), &json!("copilotcli"))
            );
            assert_eq!(added["title"], "");
        }
        assert!(listed(&mut b, &session).await.is_some());
        // What people set about it is there for others, and stays.
        for action in [
            json!({ "type": "session/titleChanged", "title": "Named" }),
            json!({ "type": "session/isArchivedChanged", "isArchived": true }),
            json!({ "type": "session/isReadChanged", "isRead": false }),
        ] {
            a.accepted(&session, action).await;
        }
        let line = listed(&mut b, &session).await.unwrap();
        assert_eq!((&line["title"], &line["status"]), (&json!("Named"), &json!(1 | 64)));
    }
    let mut drafting = house.editor("editor").await;
    let draft = "lodge:/drafted";
    drafting
        .request("createSession", json!({ "channel": draft }))
        .await
        .unwrap();
    assert!(listed(&mut drafting, draft).await.is_none());
    let chat = drafting.subscribe(draft).await["state"]["defaultChat"]
        .as_str()
        .unwrap()
        .to_owned();
    drafting.subscribe(&chat).await;
    drafting.say(&chat, "t1", "say hello").await;
    assert_eq!(
        drafting.notification("root/sessionAdded").await["summary"]["resource"],
        draft
    );
    house.restart().await;
    let mut c = house.client("c").await;
    let kept = "copilotcli:/made-by-1.0.0";
    let line = listed(&mut c, kept).await.unwrap();
    assert_eq!(
        (&line["title"], line["status"].as_u64().unwrap() & 64),
        (&json!("Named"), 64)
    );
    // The agent is called as who made the session calls it, also when it is opened again; who names none gets its name.
    assert_eq!(line["provider"], "copilotcli");
    assert_eq!(c.subscribe(kept).await["state"]["provider"], "copilotcli");
    assert_eq!(listed(&mut c, draft).await.unwrap()["provider"], "lodge");
    c.request("disposeSession", json!({ "channel": kept })).await.unwrap();
    assert_eq!(c.notification("root/sessionRemoved").await["session"], kept);
    assert!(listed(&mut c, kept).await.is_none());
}

#[tokio::test]
async fn a_session_that_nobody_opened_yet_is_archived_by_who_only_sees_the_list() {
    let (mut house, mut a, session, chat) = at_home().await;
    a.turn(&chat, "t1", "say hello").await;
    house.restart().await;
    let mut b = house.client("b").await;
    let archive = json!({ "type": "session/isArchivedChanged", "isArchived": true });
    b.dispatch(&session, archive).await;
    let changed = b.notification("root/sessionSummaryChanged").await;
    assert_eq!(changed["session"], session);
    assert_eq!(changed["changes"]["status"].as_u64().unwrap() & 64, 64);
    house.restart().await;
    let mut c = house.client("c").await;
    let line = listed(&mut c, &session).await.unwrap();
    assert_eq!(line["status"].as_u64().unwrap() & 64, 64);
}

#[tokio::test]
async fn the_first_message_is_the_title_and_models_that_are_not_there_fail_the_turn() {
    let (_house, mut a, session, chat) = at_home().await;
    let mut started = turn_started("t1", "Fix the login bug");
    started["message"]["model"] = json!({ "id": "no-such-model" });
    a.accepted(&chat, started).await;
    let failed = a.ends(&chat, "t1").await;
    assert_eq!(
        (&failed["type"], &failed["part"]["error"]["errorType"]),
        (&json!("chat/error"), &json!("sendFailed"))
    );
    assert!(
        failed["part"]["error"]["message"].as_str().unwrap().contains("model"),
        "{failed}"
    );
    a.say(&chat, "t2", "Fix the login bug").await;
    assert_eq!(
        a.action("session/titleChanged").await["action"]["title"],
        "Fix the login bug"
    );
    a.ends(&chat, "t2").await;
    assert_eq!(listed(&mut a, &session).await.unwrap()["title"], "Fix the login bug");
    let mut started = turn_started("t3", "say which");
    started["message"]["model"] = json!({ "id": "rehearsal" });
    a.accepted(&chat, started).await;
    a.ends(&chat, "t3").await;
    let state = a.subscribe(&chat).await["state"].clone();
    let states: Vec<&Value> = state["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["state"])
        .collect();
    assert_eq!(states, ["error", "complete", "complete"]);
    assert_eq!(state["turns"][2]["message"]["model"]["id"], "rehearsal");
}

#[tokio::test]
async fn messages_that_wait_are_taken_out_before_they_are_said() {
    let (_house, mut a, _, chat) = at_home().await;
    let set = |kind: &str, id: &str, text: &str| json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": { "text": text, "origin": { "kind": "user" } } });
    // Nothing runs: it begins at once.
    a.accepted(&chat, set("queued", "q1", "say queued")).await;
    assert_eq!(
        a.action("chat/pendingMessageRemoved").await["action"],
        json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "q1" })
    );
    a.ends(&chat, "q1").await;
    // Something runs: what steers it is taken out when the agent takes it up.
    a.say(
        &chat,
        "t1",
        "slowly 20 ms, call bash {\"command\":\"echo one\"} then say done",
    )
    .await;
    a.accepted(&chat, set("steering", "s1", "say steered")).await;
    let removed = a.action("chat/pendingMessageRemoved").await["action"].clone();
    assert_eq!((&removed["kind"], &removed["id"]), (&json!("steering"), &json!("s1")));
    a.ends(&chat, "s1").await;
    let state = a.subscribe(&chat).await["state"].clone();
    assert!(
        state.get("steeringMessage").is_none() && state.get("queuedMessages").is_none(),
        "{state}"
    );
}

#[tokio::test]
async fn a_turn_that_waits_for_an_answer_can_be_cancelled_and_another_said() {
    let (_house, mut a, session, chat) = at_home().await;
    a.say(&chat, "t1", "ask \"Which colour?\" choices red, blue").await;
    a.action("chat/inputRequested").await;
    a.accepted(
        &chat,
        json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 0.5 }),
    )
    .await;
    a.turn(&chat, "t2", "say replacement").await;
    let state = a.subscribe(&chat).await["state"].clone();
    let states: Vec<&Value> = state["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["state"])
        .collect();
    assert_eq!(states, ["cancelled", "complete"]);
    assert!(a.subscribe(&session).await["state"].get("inputNeeded").is_none());
}

#[tokio::test]
async fn tools_of_a_client_go_on_while_it_looks_into_other_chats() {
    let (_house, mut a, session, chat) = at_home().await;
    let peer = "ahp-chat:/peer";
    a.request(
        "createChat",
        json!({ "channel": session, "chat": peer, "title": "Peer" }),
    )
    .await
    .unwrap();
    let tools = json!([{ "name": "run_tests", "description": "Runs tests", "inputSchema": { "type": "object" } }]);
    let active = json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "a", "tools": tools } });
    a.accepted(&session, active).await;
    a.say(&chat, "t1", "call run_tests {} then say done").await;
    let start = a.action("chat/toolCallStart").await["action"].clone();
    assert_eq!(start["contributor"], json!({ "kind": "client", "clientId": "a" }));
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    assert_eq!(ready["confirmed"], "not-needed");
    for _ in 0..10 {
        a.subscribe(peer).await;
        a.notify("unsubscribe", json!({ "channel": peer })).await;
    }
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(state["activeClients"][0]["clientId"], "a");
    let content = json!([{ "type": "text", "text": "all passed" }]);
    let done = json!({
        "type": "chat/toolCallComplete", "turnId": "t1", "toolCallId": ready["toolCallId"],
        "result": { "success": true, "pastTenseMessage": "Ran tests", "content": content },
    });
    a.accepted(&chat, done).await;
    a.ends(&chat, "t1").await;
    let state = a.subscribe(&chat).await["state"].clone();
    let call = &state["turns"][0]["responseParts"][0]["toolCall"];
    assert_eq!(
        (&call["status"], &call["success"], &call["content"]),
        (&json!("completed"), &json!(true), &content)
    );
}

#[tokio::test]
async fn a_call_of_a_clients_tool_is_not_recorded_as_one_of_a_server() {
    let house = house().await;
    let servers = crate::customizations::servers(&house);
    crate::customizations::put(house.dir.path().join("home/mcp-config.json"), &servers);
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    // What the tool `spin` of the server `loom` is called, too.
    let tools = json!([{ "name": "loom-spin", "description": "Spins", "inputSchema": { "type": "object" } }]);
    let active = json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "a", "tools": tools } });
    a.accepted(&session, active).await;
    a.say(&chat, "t1", "call loom-spin {} then say done").await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    let done = json!({
        "type": "chat/toolCallComplete", "turnId": "t1", "toolCallId": ready["toolCallId"],
        "result": { "success": true, "pastTenseMessage": "Spun" },
    });
    a.accepted(&chat, done).await;
    a.ends(&chat, "t1").await;
    let session = house.host.open_session(&uuid(1)).await.unwrap();
    let log: Vec<String> = session
        .history()
        .unwrap()
        .events()
        .map(|event| event.unwrap().as_str().to_owned())
        .collect();
    let calls: Vec<&String> = log.iter().filter(|event| event.contains("\"toolRequests\"")).collect();
    assert!(calls.iter().any(|event| event.contains("loom-spin")), "{log:?}");
    assert!(!calls.iter().any(|event| event.contains("mcpServerName")), "{calls:?}");
}

#[tokio::test]
async fn tokens_that_editors_show_unasked_are_taken_and_others_are_not() {
    let house = house().await;
    let mut a = house.client("a").await;
    let show = |resource: &str| json!({ "channel": ROOT, "resource": resource, "token": "t" });
    assert_eq!(
        a.request("authenticate", show("https://api.github.com")).await.unwrap(),
        json!({})
    );
    assert_eq!(a.code("authenticate", show("https://elsewhere.example")).await, -32007);
}

#[tokio::test]
async fn a_tool_whose_client_left_before_it_was_called_has_failed_and_the_turn_goes_on() {
    let house = house_with(Limits {
        client_grace: Duration::ZERO,
        ..Limits::default()
    })
    .await;
    let mut a = house.client("a").await;
    let mut b = house.client("b").await;
    let (session, chat) = a.session(&uuid(1)).await;
    b.subscribe(&session).await;
    b.subscribe(&chat).await;
    let tools = json!([{ "name": "weather", "inputSchema": { "type": "object" } }]);
    let active = json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "a", "tools": tools } });
    a.accepted(&session, active).await;
    a.say(
        &chat,
        "t1",
        "slowly 100 ms, stream 10 chunks, call weather {} then say on my own",
    )
    .await;
    // The model works with the tools that there were when it was called.
    b.action("chat/delta").await;
    drop(a);
    b.action("session/activeClientRemoved").await;
    let failed = b.action("chat/toolCallComplete").await["action"].clone();
    assert_eq!(
        (&failed["turnId"], &failed["result"]["success"]),
        (&json!("t1"), &json!(false))
    );
    assert_eq!(b.ends(&chat, "t1").await["type"], "chat/turnComplete");
}

#[tokio::test]
async fn files_of_the_same_name_are_told_apart_and_files_alone_are_called_by_their_names() {
    let house = house().await;
    let (first, second) = (house.dir.path().join("one/shop"), house.dir.path().join("two/shop"));
    let nested = first.join("lib");
    for (directory, names) in [
        (&first, ["same.txt", "Alone.txt"]),
        (&second, ["same.txt", "other.txt"]),
        (&nested, ["same.txt", "inner.txt"]),
    ] {
        std::fs::create_dir_all(directory).unwrap();
        for name in names {
            std::fs::write(directory.join(name), "").unwrap();
        }
    }
    let mut a = house.client("a").await;
    let uri = |path: &std::path::Path| lodge_ahp::uri::file(path);
    let session = "copilotcli:/shop";
    let create = json!({ "channel": session, "provider": "copilotcli", "workingDirectories": [uri(&first), uri(&second), uri(&nested)] });
    a.request("createSession", create).await.unwrap();
    let chat = a.subscribe(session).await["state"]["defaultChat"].clone();
    let mut complete = async |text: &str| {
        let params = json!({ "channel": chat, "kind": "userMessage", "text": text, "offset": text.len() });
        let found = a.request("completions", params).await.unwrap()["items"].clone();
        found.as_array().unwrap().clone()
    };
    for trigger in ["@", "#"] {
        assert_eq!(
            complete(&format!("see {trigger}alone")).await,
            [json!({
                "insertText": format!("{trigger}Alone.txt"), "rangeStart": 4, "rangeEnd": 10,
                "attachment": {
                    "type": "resource", "uri": uri(&first.join("Alone.txt")), "label": "Alone.txt", "displayKind": "document",
                },
            })]
        );
    }
    let mut labels: Vec<String> = complete("@same")
        .await
        .iter()
        .map(|item| item["attachment"]["label"].as_str().unwrap().to_owned())
        .collect();
    labels.sort();
    assert_eq!(labels, ["lib • same.txt", "one/shop • same.txt", "two/shop • same.txt"]);
}

#[tokio::test]
async fn a_session_is_renamed_by_a_command_that_is_offered_when_something_was_said() {
    let (_house, mut a, session, chat) = at_home().await;
    let offered = async |a: &mut Client| {
        let params = json!({ "channel": chat, "kind": "userMessage", "text": "/r", "offset": 2 });
        let found = a.request("completions", params).await.unwrap()["items"].clone();
        let mut items = found.as_array().unwrap().iter();
        items.any(|item| item["insertText"] == "/rename ")
    };
    assert!(!offered(&mut a).await);
    let state = a.turn(&chat, "t1", "/rename").await;
    assert_eq!(state["turns"][0]["responseParts"], json!([]));
    assert_eq!(a.subscribe(&session).await["state"]["title"], "");
    let state = a.turn(&chat, "t2", "/rename The Bill").await;
    assert_eq!(state["turns"][1]["responseParts"][0]["content"], "Renamed: The Bill");
    assert!(offered(&mut a).await);
    // The name is told by the agent, which may be a moment later.
    while a.subscribe(&session).await["state"]["title"] != "The Bill" {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_is_sent_away_hears_why_every_time() {
    let house = house().await;
    for turn in 0..60 {
        let mut stranger = house.connect().await;
        let offered = if turn % 2 == 0 { json!([]) } else { json!(["999.0.0"]) };
        let params = json!({ "channel": ROOT, "protocolVersions": offered, "clientId": "stranger" });
        assert_eq!(stranger.code("initialize", params).await, -32005);
    }
}

#[tokio::test]
async fn files_with_instructions_are_called_without_what_every_such_file_ends_with() {
    let house = house().await;
    let rules = house.work().join(".github/instructions");
    std::fs::create_dir_all(&rules).unwrap();
    std::fs::write(
        rules.join("policy.instructions.md"),
        "---\napplyTo: '**/*'\n---\nPrefer short answers.",
    )
    .unwrap();
    std::fs::write(house.work().join("AGENTS.md"), "Be kind.").unwrap();
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.turn(&chat, "t1", "say ready").await;
    // They are looked for beside the turn.
    let names = loop {
        let state = a.subscribe(&session).await["state"].clone();
        let all = state["customizations"].as_array().cloned().unwrap_or_default();
        let children = all
            .iter()
            .flat_map(|place| place["children"].as_array().cloned().unwrap_or_default());
        let mut rules: Vec<String> = children
            .filter(|child| child["type"] == "rule")
            .map(|child| child["name"].as_str().unwrap().to_owned())
            .collect();
        rules.sort();
        if rules.len() == 2 {
            break rules;
        }
    };
    assert_eq!(names, ["AGENTS.md", "policy"]);
}
