//! What tool calls do to files is shown with both sides: before a person approves it, and when it is done.

use serde_json::{Value, json};

use crate::kit::{Client, House, ROOT, at_home, uuid};

fn call(tool: &str, arguments: &Value) -> String {
    format!("call {tool} {arguments} then say ok")
}

async fn text(client: &mut Client, side: &Value) -> String {
    let params = json!({ "channel": ROOT, "uri": side["content"]["uri"], "encoding": "utf-8" });
    let read = client.request("resourceRead", params).await;
    let read = read.unwrap_or_else(|error| panic!("{side}: {error}"));
    assert_eq!(read["encoding"], "utf-8");
    read["data"].as_str().unwrap().to_owned()
}

/// Both sides of an edit: where, and what is there. An editor that finds two paths calls the file renamed.
async fn sides(client: &mut Client, edit: &Value) -> Vec<Option<(String, String)>> {
    let mut sides = Vec::new();
    let path = |side: &Value| Some(side["content"]["uri"].as_str()?.split('?').next()?.to_owned());
    if let (Some(before), Some(after)) = (path(&edit["before"]), path(&edit["after"])) {
        assert_eq!(before, after);
    }
    for side in ["before", "after"] {
        sides.push(match &edit[side] {
            Value::Null => None,
            side => Some((side["uri"].as_str().unwrap().to_owned(), text(client, side).await)),
        });
    }
    sides
}

async fn approve(client: &mut Client, chat: &str, turn: &str, ready: &Value) {
    let confirmed = json!({
        "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": ready["toolCallId"], "approved": true,
        "confirmed": "user-action",
    });
    client.accepted(chat, confirmed).await;
    client.ends(chat, turn).await;
}

/// What the calls of each turn did to files.
async fn shown(client: &mut Client, chat: &str) -> Vec<Value> {
    let state = client.subscribe(chat).await["state"].clone();
    let turns = state["turns"].as_array().unwrap().iter();
    let parts = turns.flat_map(|turn| turn["responseParts"].as_array().unwrap());
    let contents = parts.filter_map(|part| part["toolCall"]["content"].as_array());
    let edits = contents.flatten().filter(|content| content["type"] == "fileEdit");
    edits.cloned().collect()
}

fn file(house: &House, name: &str) -> (std::path::PathBuf, String) {
    let path = house.work().join(name);
    let uri = lodge_ahp::uri::file(&path);
    (path, uri)
}

#[tokio::test]
async fn people_see_what_a_call_would_write_and_what_it_wrote_also_after_a_restart() {
    let (mut house, mut a, _, chat) = at_home().await;
    let (path, uri) = file(&house, "a note.txt");
    let here = |text: &str| Some((uri.clone(), text.to_owned()));
    let long: String = (0..40).map(|line| format!("line {line}\n")).collect();

    let create = json!({ "path": path, "file_text": long });
    a.say(&chat, "t1", &call("create", &create)).await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    let edit = ready["edits"]["items"][0].clone();
    assert_eq!(sides(&mut a, &edit).await, [None, here(&long)], "{ready}");
    assert_eq!(edit["diff"], json!({ "added": 40, "removed": 0 }));
    approve(&mut a, &chat, "t1", &ready).await;

    let change = json!({ "path": path, "old_str": "line 20\n", "new_str": "the sloe\nthe quince\n" });
    let changed = long.replace("line 20\n", "the sloe\nthe quince\n");
    a.say(&chat, "t2", &call("edit", &change)).await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    let edit = ready["edits"]["items"][0].clone();
    assert_eq!(sides(&mut a, &edit).await, [here(&long), here(&changed)], "{ready}");
    // Who comes later is asked the same.
    let mut b = house.client("b").await;
    let waiting = b.subscribe(&chat).await["state"]["activeTurn"]["responseParts"][0]["toolCall"].clone();
    assert_eq!(waiting["edits"]["items"][0], edit, "{waiting}");
    approve(&mut a, &chat, "t2", &ready).await;

    // Whatever becomes of the file later, the calls did what they did.
    std::fs::write(&path, "all gone").unwrap();
    let expected = [
        (vec![None, here(&long)], json!({ "added": 40, "removed": 0 })),
        (vec![here(&long), here(&changed)], json!({ "added": 2, "removed": 1 })),
    ];
    for round in 0..2 {
        let mut client = house.client(&format!("c{round}")).await;
        let edits = shown(&mut client, &chat).await;
        assert_eq!(edits.len(), expected.len(), "{edits:?}");
        for (edit, (both, lines)) in edits.iter().zip(&expected) {
            assert_eq!((&sides(&mut client, edit).await, &edit["diff"]), (both, lines));
        }
        house.restart().await;
    }
}

#[tokio::test]
async fn what_is_not_kept_of_an_edit_is_shown_as_far_as_the_log_tells() {
    let (house, mut a, _, chat) = at_home().await;
    let (path, uri) = file(&house, "note.txt");
    std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
    let change = json!({ "path": path, "old_str": "two", "new_str": "2" });
    a.say(&chat, "t1", &call("edit", &change)).await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    approve(&mut a, &chat, "t1", &ready).await;
    let sessions = house.dir.path().join("home/session-state").join(uuid(1));
    std::fs::remove_dir_all(sessions.join("changes")).unwrap();
    let edits = shown(&mut a, &chat).await;
    let both = [
        Some((uri.clone(), "one\ntwo\nthree\n".to_owned())),
        Some((uri, "one\n2\nthree\n".to_owned())),
    ];
    assert_eq!(sides(&mut a, &edits[0]).await, both);
    // An address that names no call of the session leads nowhere.
    let params = json!({ "channel": ROOT, "uri": format!("lodge:/{}/content/nothing/x?after", uuid(1)) });
    assert_eq!(a.code("resourceRead", params).await, -32008);
}

/// Whoever may look on may see what a person is asked about, and nothing else of a file that clients may not read.
#[tokio::test]
async fn a_question_shows_no_more_of_a_file_outside_than_it_asks_about() {
    let (_house, mut a, _, chat) = at_home().await;
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("secret");
    let secret: String = (0..40).map(|line| format!("line {line}\n")).collect();
    std::fs::write(&path, &secret).unwrap();

    let change = json!({ "path": path, "old_str": "line 20\n", "new_str": "the quince\n" });
    a.say(&chat, "t1", &call("edit", &change)).await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    let both = sides(&mut a, &ready["edits"]["items"][0]).await;
    for (side, word) in both.iter().zip(["line 20\n", "the quince\n"]) {
        let (_, text) = side.as_ref().unwrap();
        assert!(text.contains(word) && !text.contains("line 1\n"), "{text}");
    }
    let deny = |ready: &Value, turn: &str| {
        json!({
            "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": ready["toolCallId"], "approved": false,
            "reason": "denied",
        })
    };
    a.accepted(&chat, deny(&ready, "t1")).await;
    a.ends(&chat, "t1").await;

    let create = json!({ "path": path, "file_text": "new\n" });
    a.say(&chat, "t2", &call("create", &create)).await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    let call = ready["toolCallId"].as_str().unwrap();
    for before in [format!("{call}/secret?before"), format!("{call}-before/secret")] {
        let before = format!("lodge:/{}/content/{before}", uuid(1));
        let read = json!({ "channel": ROOT, "uri": before });
        assert_eq!(a.code("resourceRead", read).await, -32008, "{ready}");
    }
    a.accepted(&chat, deny(&ready, "t2")).await;
    a.ends(&chat, "t2").await;
}
