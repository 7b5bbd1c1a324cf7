//! SIGKILL as soon as a client hears that what it set, cut or made was accepted: it is so afterwards.
//!
//! `LODGE_ACCEPTED_ROUNDS` sets how many kills.

use serde_json::{Value, json};
use testkit::Home;

use crate::accepted::{Client, rounds, start, turn};

/// What is accepted last before the host is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Last {
    Read,
    Model,
    DirectoryAdded,
    DirectoryRemoved,
    /// A skill, for the session.
    Off,
    /// A skill, for all sessions.
    OffForAll,
    Reviewed,
    Truncated,
    Cancelled,
    Chat,
    Annotation,
    Automation,
}

const ALL: [Last; 12] = [
    Last::Read,
    Last::Model,
    Last::DirectoryAdded,
    Last::DirectoryRemoved,
    Last::Off,
    Last::OffForAll,
    Last::Reviewed,
    Last::Truncated,
    Last::Cancelled,
    Last::Chat,
    Last::Annotation,
    Last::Automation,
];

const AUTOMATIONS: &str = "ahp-automations://";
const OTHER_CHAT: &str = "ahp-chat:/other";
/// The bit of a status that says that people have read the session.
const IS_READ: u64 = 32;

/// A session, where clients find it, and another directory.
struct Place {
    session: String,
    chat: String,
    directory: String,
}

/// What a client sees at an address, once something is there.
async fn once<T>(client: &mut Client, channel: &str, seen: impl Fn(&Value) -> Option<T>) -> T {
    let mut tries = 0;
    loop {
        let state = client.subscribe(channel).await;
        if let Some(found) = seen(&state) {
            return found;
        }
        tries += 1;
        assert!(tries < 2_000, "{channel} does not come to it: {state:#}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The skill in a session's state.
fn skill(state: &Value) -> Option<Value> {
    let containers = state["customizations"].as_array()?.iter();
    let mut children = containers
        .filter_map(|container| container["children"].as_array())
        .flatten();
    children.find(|thing| thing["name"] == "weaving").cloned()
}

/// The first changed file, once changes are counted.
fn changed_file(changes: &Value) -> Option<Value> {
    changes["files"].as_array()?.first().cloned()
}

fn has(list: &Value, what: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|one| one == what))
}

/// Sets, cuts or makes it. Returns when it is accepted.
async fn act(client: &mut Client, place: &Place, last: Last) {
    let Place {
        session,
        chat,
        directory,
    } = place;
    let added = json!({ "type": "session/workingDirectorySet", "directory": directory });
    match last {
        Last::Read => {
            let read = json!({ "type": "session/isReadChanged", "isRead": true });
            client.accepted(session, read).await;
        }
        Last::Model => {
            let chosen = json!({ "type": "session/configChanged", "config": { "model": "distant" } });
            client.accepted(session, chosen).await;
        }
        Last::DirectoryAdded => client.accepted(session, added).await,
        Last::DirectoryRemoved => {
            client.accepted(session, added).await;
            let removed = json!({ "type": "session/workingDirectoryRemoved", "directory": directory });
            client.accepted(session, removed).await;
        }
        Last::Off | Last::OffForAll => {
            let kind = if last == Last::Off { "session" } else { "global" };
            let skill = once(client, session, skill).await;
            let off = json!({ "type": "session/customizationToggled", "id": skill["id"],
                "enablement": [{ "kind": kind, "enabled": false }] });
            client.accepted(session, off).await;
        }
        Last::Reviewed => {
            let changes = format!("{session}/changeset/session");
            let file = once(client, &changes, changed_file).await;
            let reviewed = json!({ "type": "changeset/filesReviewChanged", "files": [file["id"]], "reviewed": true });
            client.accepted(&changes, reviewed).await;
        }
        Last::Truncated => {
            let cut = json!({ "type": "chat/truncated", "turnId": "t1" });
            client.accepted(chat, cut).await;
        }
        Last::Cancelled => {
            client
                .accepted(chat, turn("t3", "slowly 20 ms, stream 2000 chunks"))
                .await;
            client
                .until(|message| message["params"]["action"]["type"] == "chat/responsePart")
                .await;
            let stop = json!({ "type": "chat/turnCancelled", "turnId": "t3", "duration": 1 });
            client.accepted(chat, stop).await;
        }
        Last::Chat => {
            let made = json!({ "channel": session, "chat": OTHER_CHAT });
            client.request("createChat", made).await;
        }
        Last::Annotation => {
            let remarks = format!("{session}/annotations");
            client.subscribe(&remarks).await;
            let remark = json!({ "type": "annotations/set", "annotation": {
                "id": "one", "origin": { "session": session }, "resource": directory, "resolved": false,
                "entries": [{ "id": "e1", "text": "too loose" }],
            } });
            client.accepted(&remarks, remark).await;
        }
        Last::Automation => {
            client.subscribe(AUTOMATIONS).await;
            let definition = json!({ "title": "By hand", "enabled": true, "triggers": [], "session": {},
                "message": { "text": "say hello", "origin": { "kind": "automation" } } });
            let made = json!({ "type": "automation/createRequested", "resource": "ahp-automation:/one",
                "definition": definition });
            client.accepted(AUTOMATIONS, made).await;
        }
    }
}

/// Whether it is so.
async fn is_so(client: &mut Client, place: &Place, last: Last) -> bool {
    let Place {
        session,
        chat,
        directory,
    } = place;
    let state = client.subscribe(session).await;
    let chat = client.subscribe(chat).await;
    let turns = chat["turns"].as_array().unwrap();
    match last {
        Last::Read => state["status"].as_u64().unwrap() & IS_READ != 0,
        Last::Model => state["config"]["values"]["model"] == "distant",
        Last::DirectoryAdded => has(&state["workingDirectories"], directory),
        Last::DirectoryRemoved => !has(&state["workingDirectories"], directory),
        Last::Off | Last::OffForAll => once(client, session, skill).await["enabled"] == false,
        Last::Reviewed => {
            let changes = format!("{session}/changeset/session");
            once(client, &changes, changed_file).await["reviewed"] == true
        }
        Last::Truncated => turns.len() == 1 && turns[0]["id"] == "t1",
        Last::Cancelled => turns[2]["id"] == "t3" && turns[2]["state"] == "cancelled",
        Last::Chat => state["chats"].to_string().contains(OTHER_CHAT),
        Last::Annotation => {
            let remarks = client.subscribe(&format!("{session}/annotations")).await;
            remarks["annotations"].as_array().unwrap().len() == 1
        }
        Last::Automation => {
            let all = client.subscribe(AUTOMATIONS).await;
            all["entries"].as_array().unwrap().len() == 1
        }
    }
}

#[tokio::test]
async fn what_a_client_set_and_heard_as_accepted_is_so_after_kill_9() {
    let rounds = rounds(ALL.len());
    for round in 0..rounds {
        let last = ALL[round % ALL.len()];
        println!("round {round}: {last:?}");
        let home = Home::new();
        let models = "default_model = \"rehearsal\"\n\n[[provider]]\nname = \"there\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\n\
                      [[model]]\nid = \"distant\"\nprovider = \"there\"\n";
        std::fs::create_dir_all(home.path()).unwrap();
        std::fs::write(home.path().join("lodge.toml"), models).unwrap();
        let skill = home.work().join(".github/skills/weaving");
        std::fs::create_dir_all(&skill).unwrap();
        let text = "---\nname: weaving\ndescription: how to weave a carpet\n---\nover and under\n";
        std::fs::write(skill.join("SKILL.md"), text).unwrap();
        let other = home.work().with_file_name("other");
        std::fs::create_dir_all(&other).unwrap();

        let (mut running, url) = start(&home);
        let mut client = Client::connect(&url, "test").await;
        let session = "lodge:/00000000-0000-4000-8000-000000000001".to_owned();
        client.request("createSession", json!({ "channel": session })).await;
        let chat = client.subscribe(&session).await["defaultChat"]
            .as_str()
            .unwrap()
            .to_owned();
        client.subscribe(&chat).await;
        let directory = format!("file://{}", other.canonicalize().unwrap().display());
        let place = Place {
            session,
            chat,
            directory,
        };
        let trusting = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
        client.accepted(&place.session, trusting).await;
        let write = r#"call create {"path":"note.txt","file_text":"one\n"} then say written"#;
        for (id, text) in [("t1", write), ("t2", "say more")] {
            client.accepted(&place.chat, turn(id, text)).await;
            client.ends(id).await;
        }
        act(&mut client, &place, last).await;
        running.kill();
        running.finish();

        let (mut running, url) = start(&home);
        let mut client = Client::connect(&url, "test").await;
        assert!(is_so(&mut client, &place, last).await, "{last:?} is lost");
        running.kill();
        running.finish();
    }
}
