//! Sessions that work in several directories, and chats that work in some of them.

use std::path::{Path, PathBuf};

use lodge_events::{Event, LodgeDirectories};
use lodge_host::{Change, Session};
use serde_json::{Value, json};

use crate::kit::*;

/// Three directories with a file in each, and their addresses.
fn places(house: &House) -> ([PathBuf; 3], [String; 3]) {
    let paths = ["one", "two", "three"].map(|name| {
        let path = house.work().join(name);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("marker.txt"), name).unwrap();
        path
    });
    let uris = paths.clone().map(lodge_ahp::uri::file);
    (paths, uris)
}

async fn completed(client: &mut Client, chat: &str) -> Vec<String> {
    let typed = json!({ "channel": chat, "kind": "userMessage", "text": "@marker", "offset": 7 });
    let found = client.request("completions", typed).await.unwrap();
    let items = found["items"].as_array().unwrap().iter();
    let mut found: Vec<String> = items
        .map(|item| item["attachment"]["uri"].as_str().unwrap().to_owned())
        .collect();
    found.sort();
    found
}

fn markers(directories: &[&String]) -> Vec<String> {
    let mut all: Vec<String> = directories.iter().map(|dir| format!("{dir}/marker.txt")).collect();
    all.sort();
    all
}

/// The state of a channel.
async fn state(client: &mut Client, channel: &str) -> Value {
    client.subscribe(channel).await["state"].clone()
}

/// Whether the agent looks into a directory without a question. If it asks, the answer is no.
async fn looks(client: &mut Client, chat: &str, turn: &str, directory: &Path) -> bool {
    let view = json!({ "path": directory.join("marker.txt") });
    client.say(chat, turn, &format!("call view {view} then say done")).await;
    let is_it = |action: &Value| action["type"] == "chat/toolCallReady" && action["turnId"] == turn;
    let ready = client.until(|message| is_it(&message["params"]["action"])).await;
    let ready = ready["params"]["action"].clone();
    let free = ready.get("confirmed").is_some();
    if !free {
        let no = json!({
            "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": ready["toolCallId"],
            "approved": false, "reason": "denied",
        });
        client.accepted(chat, no).await;
    }
    client.ends(chat, turn).await;
    free
}

async fn listed(client: &mut Client, session: &str) -> Value {
    let all = client
        .request("listSessions", json!({ "channel": ROOT }))
        .await
        .unwrap();
    let mut items = all["items"].as_array().unwrap().iter();
    items.find(|item| item["resource"] == session).unwrap()["workingDirectories"].clone()
}

#[tokio::test]
async fn a_session_works_in_all_its_directories_also_after_a_restart() {
    let mut house = house().await;
    let (paths, [one, two, three]) = places(&house);
    let mut a = house.client("a").await;
    let root = state(&mut a, ROOT).await;
    assert_eq!(
        root["agents"][0]["capabilities"]["multipleWorkingDirectories"],
        json!({ "immutablePrimary": true })
    );
    let session = format!("lodge:/{}", uuid(1));
    // The same one twice is one.
    let wanted = json!([one, two, format!("{one}/"), two]);
    a.request(
        "createSession",
        json!({ "channel": session, "workingDirectories": wanted }),
    )
    .await
    .unwrap();
    let shown = state(&mut a, &session).await;
    assert_eq!(shown["workingDirectories"], json!([one, two]));
    let chat = shown["defaultChat"].as_str().unwrap().to_owned();
    assert!(state(&mut a, &chat).await.get("workingDirectories").is_none());
    assert_eq!(completed(&mut a, &chat).await, markers(&[&one, &two]));
    for directory in [&one, &two] {
        let read = json!({ "channel": ROOT, "uri": format!("{directory}/marker.txt") });
        a.request("resourceRead", read).await.unwrap();
    }
    // The agent runs in the first, and looks into the second without a question.
    a.say(&chat, "t0", "!pwd > here.txt").await;
    a.ends(&chat, "t0").await;
    assert!(paths[0].join("here.txt").exists());
    assert!(looks(&mut a, &chat, "t1", &paths[1]).await);

    let set = |directory: &str| json!({ "type": "session/workingDirectorySet", "directory": directory });
    let removed = |directory: &str| json!({ "type": "session/workingDirectoryRemoved", "directory": directory });
    let replaced = |directory: &str, by: &str| json!({ "type": "session/workingDirectoryReplaced", "directory": directory, "replacement": by });
    a.accepted(&session, set(&three)).await;
    // What changes nothing is told to nobody else.
    a.accepted(&session, set(&format!("{three}/"))).await;
    a.accepted(&session, removed("file:///not/one")).await;
    a.accepted(&session, removed(&two)).await;
    for wrong in [
        set("file:///no/such/place"),
        set("https://elsewhere.example/x"),
        removed(&one),
        replaced(&one, &two),
        replaced(&three, "file:///no/such/place"),
    ] {
        a.refused(&session, wrong).await;
    }
    for restarted in [false, true] {
        if restarted {
            house.restart().await;
            a = house.client("a").await;
            assert_eq!(listed(&mut a, &session).await, json!([one, three]));
        }
        assert_eq!(state(&mut a, &session).await["workingDirectories"], json!([one, three]));
        assert_eq!(completed(&mut a, &chat).await, markers(&[&one, &three]));
        state(&mut a, &chat).await;
        let turns = if restarted { ["t4", "t5"] } else { ["t2", "t3"] };
        assert!(looks(&mut a, &chat, turns[0], &paths[2]).await);
        // What it no longer has it must ask for.
        assert!(!looks(&mut a, &chat, turns[1], &paths[1]).await);
    }
    a.accepted(&session, replaced(&three, &two)).await;
    assert_eq!(listed(&mut a, &session).await, json!([one, two]));
}

#[tokio::test]
async fn a_chat_works_in_the_directories_that_it_was_given() {
    let mut house = house().await;
    let (paths, [one, two, three]) = places(&house);
    let mut a = house.client("a").await;
    let session = format!("lodge:/{}", uuid(1));
    let all = json!([one, two, three]);
    a.request(
        "createSession",
        json!({ "channel": session, "workingDirectories": all }),
    )
    .await
    .unwrap();
    let main = state(&mut a, &session).await["defaultChat"]
        .as_str()
        .unwrap()
        .to_owned();
    state(&mut a, &main).await;
    let (peer, fork) = ("ahp-chat:/peer", "ahp-chat:/fork");
    let create =
        |chat: &str, directories: Value| json!({ "channel": session, "chat": chat, "workingDirectories": directories });
    for wrong in [
        json!(["file:///elsewhere"]),
        json!([two, "file:///elsewhere"]),
        json!([]),
    ] {
        assert_eq!(a.code("createChat", create("ahp-chat:/wrong", wrong)).await, -32602);
    }
    a.request("createChat", create(peer, json!([two, three])))
        .await
        .unwrap();
    assert_eq!(state(&mut a, peer).await["workingDirectories"], json!([two, three]));
    assert_eq!(completed(&mut a, peer).await, markers(&[&two, &three]));
    assert_eq!(completed(&mut a, &main).await, markers(&[&one, &two, &three]));
    a.say(peer, "p1", "!pwd").await;
    let done = a.action("chat/toolCallComplete").await["action"]["result"].clone();
    assert!(
        done["content"].to_string().contains(paths[1].to_str().unwrap()),
        "{done}"
    );
    a.ends(peer, "p1").await;
    // A fork works where its source does, whatever is asked.
    let mut forked = create(fork, json!([one]));
    forked["source"] = json!({ "kind": "fork", "chat": peer, "turnId": "p1" });
    a.request("createChat", forked).await.unwrap();
    assert_eq!(state(&mut a, fork).await["workingDirectories"], json!([two, three]));

    let set = |directory: &str| json!({ "type": "chat/workingDirectorySet", "directory": directory });
    let removed = |directory: &str| json!({ "type": "chat/workingDirectoryRemoved", "directory": directory });
    a.refused(peer, set("file:///elsewhere")).await;
    a.refused(peer, removed(&two)).await;
    a.accepted(peer, set(&one)).await;
    a.accepted(peer, removed(&one)).await;
    a.accepted(peer, removed(&one)).await;
    // A chat that has all gets less by naming what it keeps, its own first.
    a.refused(&main, set(&two)).await;
    a.accepted(&main, set(&one)).await;
    a.accepted(&main, set(&two)).await;
    // What the session loses, its chats lose; what one of them runs in, it keeps.
    let gone = |directory: &str| json!({ "type": "session/workingDirectoryRemoved", "directory": directory });
    a.refused(&session, gone(&two)).await;
    a.accepted(&session, gone(&three)).await;
    for restarted in [false, true] {
        if restarted {
            house.restart().await;
            a = house.client("a").await;
        }
        let shown = state(&mut a, &session).await;
        assert_eq!(shown["workingDirectories"], json!([one, two]));
        let line = shown["chats"]
            .as_array()
            .unwrap()
            .iter()
            .find(|chat| chat["resource"] == peer);
        assert_eq!(line.unwrap()["workingDirectories"], json!([two]));
        for (chat, has) in [
            (main.as_str(), json!([one, two])),
            (peer, json!([two])),
            (fork, json!([two])),
        ] {
            assert_eq!(state(&mut a, chat).await["workingDirectories"], has, "{chat}");
        }
        let turn = if restarted { "p3" } else { "p2" };
        a.say(peer, turn, &format!("!touch {turn}")).await;
        a.ends(peer, turn).await;
        assert!(paths[1].join(turn).exists());
    }
}

/// Folders of an editor's workspace that are on no machine are no reason to refuse the others.
#[tokio::test]
async fn directories_of_other_schemes_are_left_out_where_there_are_others() {
    let house = house().await;
    let mut a = house.client("a").await;
    let here = lodge_ahp::uri::file(house.work());
    let elsewhere = "vscode-remote://ssh-remote+example/workspace";
    let session = |id: u32, directories: Value| json!({ "channel": format!("lodge:/{}", uuid(id)), "workingDirectories": directories });
    a.request("createSession", session(1, json!([elsewhere, here])))
        .await
        .unwrap();
    let state = a.subscribe(&format!("lodge:/{}", uuid(1))).await["state"].clone();
    assert_eq!(state["workingDirectories"], json!([here]));
    for directories in [
        json!([elsewhere]),
        json!([here, "nonsense"]),
        json!([here, "file:///not/there"]),
    ] {
        assert_eq!(
            a.code("createSession", session(2, directories.clone())).await,
            -32602,
            "{directories}"
        );
    }
}

/// The directories beside the first, as often as the log of a session says them.
fn logged(session: &Session) -> Vec<Vec<String>> {
    let log: Vec<Event> = session.history().unwrap().events().map(Result::unwrap).collect();
    let told = log.iter().filter_map(Event::get::<LodgeDirectories>);
    told.map(|told| told.further.clone()).collect()
}

#[tokio::test]
async fn directories_that_are_set_while_a_message_is_prepared_are_in_the_log_once() {
    let house = house().await;
    let (paths, [one, two, three]) = places(&house);
    let mut a = house.client("a").await;
    let session = format!("lodge:/{}", uuid(1));
    let wanted = json!({ "channel": session, "workingDirectories": [one] });
    a.request("createSession", wanted).await.unwrap();
    let chat = state(&mut a, &session).await["defaultChat"]
        .as_str()
        .unwrap()
        .to_owned();
    state(&mut a, &chat).await;
    a.turn(&chat, "t1", "say first").await;
    // The message has to wait for the plugin that its client brings.
    let plugin = json!({ "type": "plugin", "id": "slow", "uri": "slow:/plugin", "name": "Slow", "nonce": "1" });
    let brings = json!({ "type": "session/activeClientSet", "activeClient": {
        "clientId": "a", "tools": [], "customizations": [plugin],
    } });
    a.accepted(&session, brings).await;
    let asked = a
        .until(|message| message["method"] == "resourceList" && message.get("id").is_some())
        .await;
    let seq = a.say(&chat, "t2", "say second").await;
    a.verdict(seq).await;
    let set = |directory: &str| json!({ "type": "session/workingDirectorySet", "directory": directory });
    a.accepted(&session, set(&two)).await;
    a.accepted(&session, set(&three)).await;
    let nothing = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "entries": [] } });
    a.send_text(nothing.to_string()).await;
    a.ends(&chat, "t2").await;
    a.turn(&chat, "t3", "say third").await;
    let texts = paths.map(|path| path.to_string_lossy().into_owned());
    let expected = [&texts[1..2], &texts[1..3]].map(<[String]>::to_vec);
    let live = house.host.open_session(&uuid(1)).await.unwrap();
    assert_eq!(logged(&live), expected);
    let all = json!([one, two, three]);
    assert_eq!(state(&mut a, &session).await["workingDirectories"], all);
}

#[tokio::test]
async fn a_directory_that_is_taken_from_a_session_is_taken_from_its_chats_that_sleep() {
    let mut house = house().await;
    let (paths, [one, two, three]) = places(&house);
    let mut a = house.client("a").await;
    let session = format!("lodge:/{}", uuid(1));
    let wanted = json!({ "channel": session, "workingDirectories": [one, two, three] });
    a.request("createSession", wanted).await.unwrap();
    let main = state(&mut a, &session).await["defaultChat"]
        .as_str()
        .unwrap()
        .to_owned();
    state(&mut a, &main).await;
    a.turn(&main, "t1", "say first").await;
    let (has_all, has_some) = ("ahp-chat:/all", "ahp-chat:/some");
    let create = |chat: &str| json!({ "channel": session, "chat": chat });
    let mut some = create(has_some);
    some["workingDirectories"] = json!([one, two]);
    for (chat, params) in [(has_all, create(has_all)), (has_some, some)] {
        a.request("createChat", params).await.unwrap();
        state(&mut a, chat).await;
        assert!(looks(&mut a, chat, "c1", &paths[1]).await, "{chat}");
    }
    drop(a);
    house.restart().await;
    // Another face takes it away, while nobody has the chats open.
    let alone = house.host.open_session(&uuid(1)).await.unwrap();
    let left = Change::AdditionalDirectories(vec![paths[2].clone()]);
    alone.configure(left).await.unwrap();
    let mut a = house.client("a").await;
    assert_eq!(state(&mut a, &session).await["workingDirectories"], json!([one, three]));
    for (chat, has) in [(has_all, Value::Null), (has_some, json!([one]))] {
        assert_eq!(state(&mut a, chat).await["workingDirectories"], has, "{chat}");
        assert!(!looks(&mut a, chat, "c2", &paths[1]).await, "{chat}");
    }
    assert!(looks(&mut a, has_all, "c3", &paths[2]).await);
    // Whatever is said of directories later does not bring it back.
    let other = house.dir.path().canonicalize().unwrap().join("other");
    std::fs::create_dir(&other).unwrap();
    let set = json!({ "type": "session/workingDirectorySet", "directory": lodge_ahp::uri::file(other) });
    a.accepted(&session, set).await;
    assert!(!looks(&mut a, has_some, "c3", &paths[1]).await);
}
