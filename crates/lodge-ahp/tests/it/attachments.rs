//! What is attached to messages: no message is refused for it, people see what they attached, and the model reads it or is
//! told that it could not.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use lodge_ahp::Limits;
use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Reply};

use crate::kit::{Client, House, house, house_of, house_of_with, turn_started, uuid};

fn with(turn: &str, text: &str, attachments: &Value) -> Value {
    let mut started = turn_started(turn, text);
    started["message"]["attachments"] = attachments.clone();
    started
}

fn resource(uri: &str) -> Value {
    json!({ "type": "resource", "label": uri.rsplit('/').next(), "uri": uri, "displayKind": "document" })
}

/// Everything that an open editor may attach, and more.
fn odd() -> Vec<Value> {
    let addresses = [
        "vscode-remote://ssh-remote%2Bbox/not/here/main.rs",
        "untitled:Untitled-1",
        "git:/not/here/main.rs?%7B%22ref%22%3A%22~%22%7D",
        "output:extension-output-x-1",
        "vscode-userdata:/User/settings.json",
        "vscode-notebook-cell:/not/here/a.ipynb#W0sZmlsZQ%3D%3D",
        "vscode-agent-host://box/file/-/not/here/main.rs",
        "lodge-content:/nobody/lost/main.rs",
        "file:///not/here/main.rs",
        "no address at all",
        "",
    ];
    let mut all: Vec<Value> = addresses.iter().map(|uri| resource(uri)).collect();
    all.push(json!({ "type": "hologram", "label": "A thing", "size": 3 }));
    all.push(
        json!({ "type": "embeddedResource", "label": "x.bin", "data": "/wA=", "contentType": "application/x-thing" }),
    );
    all.push(json!({ "type": "embeddedResource", "label": "x.txt", "data": "bm90IGJhc2U2NA==", "contentType": "text/plain" }));
    all
}

/// What the model was sent last.
fn heard(models: &ModelServer) -> String {
    String::from_utf8(models.last_request().raw.to_vec()).unwrap()
}

/// Answers whatever the host asks until a turn is over: only what is listed is there.
async fn serve_until_end(client: &mut Client, chat: &str, turn: &str, there: &[(&str, Value)]) -> Vec<String> {
    let mut asked = Vec::new();
    loop {
        let message = client
            .until(|message| {
                let params = &message["params"];
                let asks = message.get("id").is_some() && message.get("method").is_some();
                let ends = ["chat/turnComplete", "chat/turnCancelled", "chat/error"];
                let over = params["channel"] == chat && params["action"]["turnId"] == turn;
                asks || over && ends.iter().any(|end| params["action"]["type"] == *end)
            })
            .await;
        if message.get("id").is_none() {
            return asked;
        }
        let uri = message["params"]["uri"].as_str().unwrap();
        let found = there.iter().find(|(address, _)| *address == uri);
        let mut answer = json!({ "jsonrpc": "2.0", "id": message["id"] });
        match found.filter(|_| message["method"] == "resourceRead") {
            Some((_, result)) => answer["result"] = result.clone(),
            None => answer["error"] = json!({ "code": -32008, "message": "nothing is there" }),
        }
        if message["method"] == "resourceRead" {
            asked.push(uri.to_owned());
        }
        client.send_text(answer.to_string()).await;
    }
}

async fn shown(client: &mut Client, chat: &str, at: usize) -> Value {
    client.subscribe(chat).await["state"]["turns"][at]["message"]["attachments"].clone()
}

#[tokio::test]
async fn no_message_is_refused_for_an_attachment_and_people_see_it_as_it_was_sent() {
    let mut house = house().await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    for (at, attachment) in odd().into_iter().enumerate() {
        let (turn, attachments) = (format!("t{at}"), json!([attachment]));
        let echoed = a.accepted(&chat, with(&turn, "say seen", &attachments)).await;
        assert_eq!(echoed["message"]["attachments"], attachments);
        serve_until_end(&mut a, &chat, &turn, &[]).await;
        assert_eq!(shown(&mut a, &chat, at).await, attachments);
    }
    // Editors cannot open a chat that names anything without a slash.
    let mut editor = house.editor("editor").await;
    let state = editor.subscribe(&chat).await["state"].to_string();
    for named in [
        "untitled:/Untitled-1",
        "output:/extension-output-x-1",
        "git:/not/here/main.rs",
    ] {
        assert!(state.contains(&format!(r#""uri":"{named}"#)), "{named}: {state}");
    }
    // Also in the seed's dialect, and after the host was away.
    let (session, _) = a.session(&uuid(2)).await;
    let mut seed = house.client_of("seed", "0.1.0").await;
    seed.request("subscribe", json!({ "resource": session })).await.unwrap();
    let said = json!({
        "type": "session/turnStarted", "session": session, "turnId": "s1",
        "userMessage": { "text": "say seen", "attachments": [resource("untitled:Untitled-1")] },
    });
    let seq = seed.dispatch_seed(said).await;
    let verdict = seed.verdict(seq).await;
    assert_eq!(verdict.get("rejectionReason"), None, "{verdict}");
    seed.until(|message| message["params"]["action"]["type"] == "session/turnComplete")
        .await;
    house.restart().await;
    let mut b = house.client("b").await;
    for (at, attachment) in odd().into_iter().enumerate() {
        assert_eq!(shown(&mut b, &chat, at).await, json!([attachment]));
    }
}

#[tokio::test]
async fn the_model_is_told_in_words_what_could_not_be_read() {
    let models = ModelServer::rehearsing();
    let house = house_of(&models).await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    for (at, attachment) in odd().into_iter().enumerate() {
        let turn = format!("t{at}");
        models.reply(Reply::text("seen"));
        a.accepted(&chat, with(&turn, "look", &json!([attachment]))).await;
        serve_until_end(&mut a, &chat, &turn, &[]).await;
        let told = heard(&models);
        let last = told
            .rfind("<attachment name=")
            .map(|at| &told[at..])
            .unwrap_or_default();
        let expected = match attachment["contentType"].as_str() {
            Some("text/plain") => "not base64",
            _ => "could not be read",
        };
        assert!(last.contains(expected), "{attachment}: {told}");
    }
}

#[tokio::test]
async fn what_only_the_client_has_is_read_from_the_one_that_sent_it() {
    let models = ModelServer::rehearsing();
    let house = house_of(&models).await;
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    let (_, chat) = a.session(&uuid(1)).await;
    b.subscribe(&chat).await;
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let there = [
        (
            "untitled:Untitled-1",
            json!({ "data": "the quince\nthe medlar\nthe sloe", "encoding": "utf-8" }),
        ),
        (
            "output:build",
            json!({ "data": "YnVpbHQ=", "encoding": "base64", "contentType": "text/plain" }),
        ),
        (
            "untitled:picture",
            json!({ "data": png, "encoding": "base64", "contentType": "image/png" }),
        ),
    ];
    let mut picked = resource("untitled:Untitled-1");
    picked["selection"] =
        json!({ "range": { "start": { "line": 1, "character": 0 }, "end": { "line": 1, "character": 3 } } });
    let attachments = json!([
        picked,
        resource("untitled:picture"),
        resource("output:build"),
        resource("untitled:gone")
    ]);
    models.reply(Reply::text("seen"));
    a.accepted(&chat, with("t1", "look", &attachments)).await;
    let mut asked = serve_until_end(&mut a, &chat, "t1", &there).await;
    asked.sort();
    assert_eq!(
        asked,
        [
            "output:build",
            "untitled:Untitled-1",
            "untitled:gone",
            "untitled:picture"
        ]
    );
    let told = heard(&models);
    assert!(
        told.contains("the medlar") && !told.contains("quince") && !told.contains("sloe"),
        "{told}"
    );
    assert!(told.contains("built"), "{told}");
    // A picture is shown after its name, to models that can see.
    assert!(told.contains(r#"{"type":"text","text":"untitled:picture"}"#), "{told}");
    assert!(told.contains("could not be read: nothing is there"), "{told}");
    // People see nothing of that.
    let turn = a.subscribe(&chat).await["state"]["turns"][0].clone();
    assert_eq!(
        (&turn["message"]["attachments"], &turn["message"]["text"]),
        (&attachments, &json!("look"))
    );
    let to_b = b.drain().await;
    assert!(
        to_b.iter().all(|message| message["method"] != "resourceRead"),
        "{to_b:?}"
    );
}

#[tokio::test]
async fn addresses_of_editors_that_name_something_of_this_host_are_read_here() {
    let models = ModelServer::rehearsing();
    let house = house_of(&models).await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    let path = house.work().join("note.txt");
    std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
    let path = path.to_str().unwrap();
    let hidden = URL_SAFE_NO_PAD.encode(r#"{"scheme":"file"}"#);
    let addresses = [
        format!("vscode-remote://ssh-remote%2Bbox{path}"),
        format!("vscode-agent-host://box__8080{path}?_ah%3D{hidden}"),
        format!("vscode-agent-host://box__8080/file/-{path}"),
    ];
    for (at, address) in addresses.iter().enumerate() {
        let (turn, attachments) = (format!("t{at}"), json!([resource(address)]));
        models.reply(Reply::text("seen"));
        a.accepted(&chat, with(&turn, "look", &attachments)).await;
        // Which machine is meant only the editor knows: what it sees there is the same as here.
        let there = [(&**address, json!({ "data": "one\ntwo\nthree\n", "encoding": "utf-8" }))];
        assert_eq!(serve_until_end(&mut a, &chat, &turn, &there).await, [&**address]);
        let told = heard(&models);
        assert!(told.contains(&format!("* {path} (3 lines)")), "{address}: {told}");
        assert_eq!(shown(&mut a, &chat, at).await, attachments);
    }
    // What a changed file was, at the address that the host gave for it.
    models.reply(Reply::call(
        "c1",
        "create",
        &json!({ "path": format!("{}/new.txt", house.work().display()), "file_text": "the sloe" }).to_string(),
    ));
    models.reply(Reply::text("made"));
    a.accepted(&chat, with("make", "make it", &json!([]))).await;
    let confirm = json!({ "type": "chat/toolCallConfirmed", "turnId": "make", "toolCallId": "c1", "approved": true, "confirmed": "user-action" });
    a.action("chat/toolCallReady").await;
    a.accepted(&chat, confirm).await;
    a.ends(&chat, "make").await;
    let address = content_of(&house, &mut a).await;
    models.reply(Reply::text("seen"));
    a.accepted(&chat, with("held", "look", &json!([resource(&address)])))
        .await;
    assert_eq!(serve_until_end(&mut a, &chat, "held", &[]).await, [""; 0]);
    assert!(heard(&models).contains(">\\nthe sloe"), "{}", heard(&models));
}

#[tokio::test]
async fn what_another_machine_has_at_a_path_of_this_one_is_not_read_here() {
    let models = ModelServer::rehearsing();
    let house = house_of(&models).await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    let path = house.work().join("note.txt");
    std::fs::write(&path, "of this machine").unwrap();
    let path = path.to_str().unwrap();
    let addresses = [
        format!("vscode-remote://ssh-remote%2Bbox{path}"),
        format!("vscode-agent-host://box__8080/file/-{path}"),
    ];
    let mut turn = 0;
    for address in addresses {
        for there in [Some("of the other one"), Some("of thatmachine!"), None] {
            turn += 1;
            let id = format!("t{turn}");
            models.reply(Reply::text("seen"));
            a.accepted(&chat, with(&id, "look", &json!([resource(&address)]))).await;
            let content = there.map(|text| (&*address, json!({ "data": text, "encoding": "utf-8" })));
            serve_until_end(&mut a, &chat, &id, content.as_slice()).await;
            let told = heard(&models);
            let last = &told[told.rfind("<attachment name=").unwrap()..];
            let expected = there.unwrap_or("could not be read: nothing is there");
            assert!(last.contains(expected), "{address}: {told}");
            assert!(
                !told.contains("of this machine") && !told.contains("tagged_files"),
                "{told}"
            );
        }
    }
    // A directory is the one that is here if it has the same in it.
    let directory = format!("vscode-remote://ssh-remote%2Bbox{}", house.work().display());
    for (entries, here) in [(json!(["note.txt"]), true), (json!(["note.txt", "more"]), false)] {
        turn += 1;
        let id = format!("t{turn}");
        models.reply(Reply::text("seen"));
        let mut attached = resource(&directory);
        attached["displayKind"] = "directory".into();
        a.accepted(&chat, with(&id, "look", &json!([attached]))).await;
        let asked = a.until(|message| message["method"] == "resourceList").await;
        let entries = entries.as_array().unwrap().iter();
        let entries: Vec<Value> = entries.map(|name| json!({ "name": name, "type": "file" })).collect();
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "entries": entries } });
        a.send_text(answer.to_string()).await;
        a.ends(&chat, &id).await;
        let refused = heard(&models).contains("directory that is not on this host");
        assert_eq!(refused, !here, "{}", heard(&models));
    }
}

#[tokio::test]
async fn what_only_its_sender_has_is_read_from_it_also_after_the_host_was_killed() {
    let house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.accepted(&chat, with("t1", "say seen", &json!([resource("untitled:x")])))
        .await;
    a.until(|message| message["method"] == "resourceResolve").await;
    let house = house.crash().await;
    let (mut b, mut a) = (house.client("b").await, house.client("a").await);
    a.subscribe(&session).await;
    a.subscribe(&chat).await;
    // It waits until somebody speaks, and comes first then.
    b.say(&chat, "t2", "say next").await;
    let there = [("untitled:x", json!({ "data": "the medlar", "encoding": "utf-8" }))];
    assert_eq!(serve_until_end(&mut a, &chat, "t1", &there).await, ["untitled:x"]);
    let log = house
        .host
        .home()
        .path()
        .join("session-state")
        .join(uuid(1))
        .join("events.jsonl");
    assert!(std::fs::read_to_string(log).unwrap().contains("the medlar"));
    let to_b = b.drain().await;
    assert!(
        to_b.iter().all(|message| message["method"] != "resourceRead"),
        "{to_b:?}"
    );
}

/// The address of what the session wrote.
async fn content_of(house: &House, client: &mut Client) -> String {
    let changes = format!("lodge:/{}/changeset/session", uuid(1));
    let made = lodge_ahp::uri::file(house.work().join("new.txt"));
    loop {
        let state = client.subscribe(&changes).await["state"].clone();
        let mut files = state["files"].as_array().unwrap().iter();
        if let Some(file) = files.find(|file| file["edit"]["after"]["uri"] == made.as_str()) {
            return file["edit"]["after"]["content"]["uri"].as_str().unwrap().to_owned();
        }
        client
            .until(|message| {
                let params = &message["params"];
                params["channel"] == changes.as_str() && params["action"]["type"] == "changeset/contentChanged"
            })
            .await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_answer_does_not_keep_its_message_from_the_model() {
    let models = ModelServer::rehearsing();
    let limits = Limits {
        client_answer: Duration::from_millis(50),
        person_answer: Duration::from_millis(50),
        ..Limits::default()
    };
    let house = house_of_with(&models, limits).await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    models.reply(Reply::text("seen"));
    a.accepted(&chat, with("t1", "look", &json!([resource("untitled:x")])))
        .await;
    a.ends(&chat, "t1").await;
    assert!(heard(&models).contains("did not answer in time"), "{}", heard(&models));
    // One that asks for what another one has is told so, too.
    let mut b = house.client("b").await;
    for method in ["resourceRead", "resourceRequest"] {
        let asked = json!({ "channel": crate::kit::ROOT, "uri": "virtual://a/x" });
        let error = b.request(method, asked).await.unwrap_err();
        assert!(
            error["message"].as_str().unwrap().contains("does not answer"),
            "{method}: {error}"
        );
    }
}

#[tokio::test]
async fn a_turn_that_waits_for_its_client_can_be_stopped_and_others_go_on() {
    let models = ModelServer::rehearsing();
    let house = house_of(&models).await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    a.accepted(&chat, with("t1", "look", &json!([resource("untitled:x")])))
        .await;
    a.until(|message| message["method"] == "resourceResolve").await;
    let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q1",
        "message": { "text": "say after", "origin": { "kind": "user" } } });
    a.accepted(&chat, queued).await;
    let stop = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 1 });
    a.accepted(&chat, stop).await;
    a.ends(&chat, "q1").await;
    let state = a.subscribe(&chat).await["state"].clone();
    assert_eq!(state["turns"][0]["state"], "cancelled", "{state}");
    let said: Vec<String> = models
        .requests()
        .iter()
        .map(|request| String::from_utf8_lossy(&request.raw).into_owned())
        .collect();
    assert!(said.iter().all(|request| !request.contains("untitled:x")), "{said:?}");
}
