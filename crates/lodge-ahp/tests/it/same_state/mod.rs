//! What clients saw is what they see again: after a restart, after the host forgot the session for a while, and after
//! `kill -9`, field by field, in every dialect.

mod everything;

use std::{collections::BTreeSet, time::Duration};

use lodge_ahp::Limits;
use serde_json::{Map, Value, json};

use self::everything::{FORMS, Life, furnish};
use crate::{
    customizations::once,
    kit::{House, ROOT, SEED_ROOT, house_of_two_models, house_with, uuid},
};

const DIALECTS: [&str; 3] = ["1.0.0", "0.9.0", "0.1.0"];
/// What a session has beside its chats.
const BESIDE: [&str; 5] = [
    "annotations",
    "changeset/branch",
    "changeset/uncommitted",
    "changeset/session",
    "changeset/turn/t12",
];
/// Bits of a status.
const IDLE: u64 = 1;
const FAILED: u64 = 2;
/// So many files are other than they were when everything has happened.
const CHANGED: usize = 9;

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
        // As it is before anybody opens the session, too. The chats of sub-agents are in it while it is open.
        let listed = client.request("listSessions", json!({ key: root })).await.unwrap();
        let mut line = line_of(&listed, session);
        if let Some(chats) = line["chats"].as_array_mut() {
            chats.retain(|chat| chat["interactivity"] != "read-only");
        }
        // It does not know whether a sub-agent failed.
        line["status"] = json!(line["status"].as_u64().unwrap() & !(IDLE | FAILED));
        all.insert(format!("{version} unopened"), line);
        // Changed files are counted beside the conversation; clients of the seed see them in the session.
        // What the session has beside its tools is looked for when it is opened, too.
        let state = once(&mut client, session, |state| {
            let counted = state["summary"]["diffs"].as_array().map(Vec::len) == Some(CHANGED);
            let found = state["customizations"]
                .as_array()
                .is_some_and(|found| !found.is_empty());
            found && (counted || !seed)
        })
        .await;
        for chat in state["chats"].as_array().into_iter().flatten() {
            let uri = chat["resource"].as_str().unwrap();
            let mut chat = client.subscribe(uri).await["state"].clone();
            leave_out_private_answers(&mut chat);
            all.insert(format!("{version} {uri}"), chat);
        }
        for beside in BESIDE.iter().filter(|_| !seed) {
            let uri = format!("{session}/{beside}");
            let is_settled = |state: &Value| state["status"] != "computing" && state["status"] != "recomputing";
            let state = once(&mut client, &uri, is_settled).await;
            all.insert(format!("{version} {beside}"), state);
        }
        all.insert(format!("{version} session"), state);
        let listed = client.request("listSessions", json!({ key: root })).await.unwrap();
        all.insert(format!("{version} list"), line_of(&listed, session));
        let mut named = BTreeSet::new();
        for (_, state) in all.iter().filter(|(what, _)| what.starts_with(version)) {
            addresses(state, &mut named);
        }
        for uri in named {
            let found = if uri.starts_with(TERMINAL) {
                client.subscribe(&uri).await["state"].clone()
            } else {
                let read = json!({ "channel": ROOT, "uri": uri });
                client.request("resourceRead", read).await.unwrap()
            };
            all.insert(format!("{version} {uri}"), found);
        }
    }
    all
}

fn leave_out_private_answers(state: &mut Value) {
    match state {
        Value::Object(map) => {
            let asked = map.get("message").and_then(Value::as_str).unwrap_or_default();
            if map.contains_key("questions") && FORMS.iter().any(|form| asked.starts_with(form)) {
                map.remove("answers");
            }
            map.values_mut().for_each(leave_out_private_answers);
        }
        Value::Array(list) => list.iter_mut().for_each(leave_out_private_answers),
        _ => {}
    }
}

const TERMINAL: &str = "ahp-terminal:";

/// What a state names and does not hold: the terminals of commands, and contents that are read under addresses of their own.
fn addresses(state: &Value, found: &mut BTreeSet<String>) {
    match state {
        Value::Object(map) => map.values().for_each(|value| addresses(value, found)),
        Value::Array(list) => list.iter().for_each(|value| addresses(value, found)),
        Value::String(text) => {
            let is_held =
                text.starts_with(TERMINAL) || text.starts_with("lodge-content:") || text.contains("/content/");
            if is_held {
                found.insert(text.clone());
            }
        }
        _ => {}
    }
}

#[track_caller]
fn line_of(listed: &Value, session: &str) -> Value {
    let mut lines = listed["items"].as_array().unwrap().iter();
    let line = lines.find(|line| line["resource"] == session);
    line.unwrap_or_else(|| panic!("{listed}")).clone()
}

/// What may differ, and why: no action tells the activity of a session and the number of its annotations in its own state, so these
/// stay as they were when the session was opened (lists tell them). The line of a session that nobody has open does not know the chats
/// of its sub-agents and says when its log was last written, which is a moment after its last turn ended. An MCP server is a program:
/// it runs when it is needed.
fn excused(at: &str) -> bool {
    let Some((_, at)) = at.split_once(' ') else {
        return false;
    };
    let server = at.starts_with("session/customizations/") && at.ends_with("/state/kind");
    server || ["session/status", "session/annotations", "unopened/modifiedAt"].contains(&at)
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
        (Value::Array(one), Value::Array(other)) => {
            let ids = |list: &[Value]| json!(list.iter().map(|one| &one["id"]).collect::<Vec<_>>());
            found.push(format!("{at}: {} became {}", ids(one), ids(other)));
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

#[tokio::test]
async fn what_clients_saw_they_see_again_after_an_eviction_a_restart_and_a_crash() {
    let mut house = house_of_two_models(Limits {
        unwatched: Duration::from_millis(1),
        ..Limits::default()
    })
    .await;
    // It works where no crash of the test's touches the times of files.
    let work = tempfile::tempdir().unwrap();
    let place = work.path().canonicalize().unwrap();
    furnish(&house, &place);
    let mut life = Life::begin(&house, &place).await;
    let session = life.session.clone();
    life.live().await;
    let before = shown(&house, &session, "before").await;
    for held in [TERMINAL, "lodge-content:", "/content/"] {
        assert!(before.keys().any(|what| what.contains(held)), "nothing is {held}");
    }
    // Nobody looks at it for a while.
    drop(life);
    while house.host.live(&uuid(1)).is_some_and(|session| session.clients() > 0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_same("an eviction", &before, &shown(&house, &session, "evicted").await);
    house.restart().await;
    assert_same("a restart", &before, &shown(&house, &session, "restart").await);
    let house = house.crash().await;
    assert_same("a crash", &before, &shown(&house, &session, "crash").await);
}

/// What is shown of chats that are in the middle of something.
async fn cut_short(house: &House, round: &str, session: &str, chats: &[String]) -> Map<String, Value> {
    let mut all = Map::new();
    for version in DIALECTS {
        let mut client = house.client_of(&format!("{round}-{version}"), version).await;
        client.subscribe(session).await;
        // Clients of the seed see one chat, as the session.
        let seen = match version {
            "0.1.0" => vec![(0, session.to_owned())],
            _ => chats.iter().cloned().enumerate().collect(),
        };
        for (number, chat) in seen {
            // What was asked is asked again as soon as somebody looks.
            let asks = ["pending-confirmation", "inputRequest"].get(number);
            let state = once(&mut client, &chat, |state| match asks {
                Some(word) => state["activeTurn"].to_string().contains(word),
                None => last_text(state).contains("Once upon a time"),
            })
            .await;
            all.insert(format!("{version} {number} turns"), state["turns"].clone());
            match asks {
                Some(_) => all.insert(format!("{version} {number} asks"), state["activeTurn"].clone()),
                None => all.insert(format!("{version} {number} said"), json!(last_text(&state))),
            };
        }
    }
    all
}

#[tokio::test]
async fn what_was_in_the_middle_when_the_host_was_killed_is_there_after_it() {
    let house = house_with(Limits::default()).await;
    std::fs::write(house.work().join("seed.txt"), "one\ntwo\n").unwrap();
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let mut chats = vec![chat];
    for chat in ["ahp-chat:/asks", "ahp-chat:/says"] {
        let made = json!({ "channel": session, "chat": chat });
        a.request("createChat", made).await.unwrap();
        a.subscribe(chat).await;
        chats.push(chat.to_owned());
    }
    for chat in &chats {
        a.turn(chat, "t1", "think about doors then say They open.").await;
    }
    let edit = json!({ "path": "seed.txt", "old_str": "two", "new_str": "zwei" });
    a.say(&chats[0], "t2", &format!("call edit {edit} then say changed"))
        .await;
    a.action("chat/toolCallReady").await;
    a.say(&chats[1], "t2", "ask \"Which colour?\" choices red, blue").await;
    a.action("chat/inputRequested").await;
    a.say(&chats[2], "t2", "say Once upon a time then wait 600 s").await;
    let logs = house.dir.path().join("home/session-state");
    let kept = |word: &str| {
        let mut logs = std::fs::read_dir(&logs)
            .unwrap()
            .map(|entry| entry.unwrap().path().join("events.jsonl"));
        logs.any(|log| std::fs::read_to_string(log).is_ok_and(|log| log.contains(word)))
    };
    while !kept("lodge.partial") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = cut_short(&house, "before", &session, &chats).await;
    let house = house.crash().await;
    let mut after = cut_short(&house, "after", &session, &chats).await;
    // What nobody can go on with has failed: it is a turn like others now.
    for (what, turns) in &mut after {
        if what.ends_with("2 turns") {
            turns.as_array_mut().unwrap().truncate(1);
        }
    }
    assert_same("a crash", &before, &after);
}

/// The text of the last turn of a chat, whether it runs or is over.
fn last_text(chat: &Value) -> String {
    let last = chat["turns"].as_array().and_then(|turns| turns.last());
    let turn = chat.get("activeTurn").filter(|turn| !turn.is_null()).or(last);
    let parts = turn
        .and_then(|turn| turn["responseParts"].as_array())
        .into_iter()
        .flatten();
    let text = parts.filter(|part| part["kind"] == "markdown");
    text.filter_map(|part| part["content"].as_str()).collect()
}

#[tokio::test]
async fn what_an_answer_had_said_when_the_host_was_killed_is_there_after_it() {
    let house = house_with(Limits::default()).await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.say(&chat, "t1", "say Once upon a time then wait 600 s").await;
    let log = house
        .dir
        .path()
        .join("home/session-state")
        .join(uuid(1))
        .join("events.jsonl");
    while !std::fs::read_to_string(&log).is_ok_and(|log| log.contains("lodge.partial")) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = last_text(&a.subscribe(&chat).await["state"]);
    assert!(before.contains("Once upon a time"), "{before}");
    let house = house.crash().await;
    let mut b = house.client("b").await;
    b.subscribe(&session).await;
    assert_eq!(last_text(&b.subscribe(&chat).await["state"]), before);
    // What the model said is in the conversation, before what is said next.
    b.turn(&chat, "t2", "describe the request").await;
    let state = b.subscribe(&chat).await["state"].clone();
    assert!(last_text(&state).contains("I was sent 3 messages"), "{state:#}");
    let first = json!({ "turns": [state["turns"][0]] });
    assert_eq!(last_text(&first), before);
}
