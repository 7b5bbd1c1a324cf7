//! SIGKILL as soon as a client of the SDKs hears that what it said or set was accepted: it is there afterwards, and once.
//!
//! `LODGE_ACCEPTED_ROUNDS` sets how many kills.

use serde_json::{Value, json};
use testkit::{Home, events};

use crate::{
    accepted::rounds,
    one_truth::furnish,
    strangers::{Host, Sdk},
};

/// Longer than anything here takes.
const LONG: &str = "wait 600 s";

/// What is accepted last before the host is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Last {
    FirstMessage,
    Queued,
    Steering,
    Moved,
    Reworded,
    Removed,
    Mode,
    Model,
    Title,
    Directory,
    Skill,
    Schedule,
    Answer,
}

const ALL: [Last; 13] = [
    Last::FirstMessage,
    Last::Queued,
    Last::Steering,
    Last::Moved,
    Last::Reworded,
    Last::Removed,
    Last::Mode,
    Last::Model,
    Last::Title,
    Last::Directory,
    Last::Skill,
    Last::Schedule,
    Last::Answer,
];

/// How something is set, and what is told of it then: by which method, and how often it says what.
fn setting(last: Last, home: &Home) -> Option<(&'static str, Value, &'static str, String)> {
    let one = home.work().join("one").display().to_string();
    let (method, params, asked, told) = match last {
        Last::Mode => (
            "session.mode.set",
            json!({ "mode": "plan" }),
            "session.mode.get",
            "plan",
        ),
        Last::Model => (
            "session.model.switchTo",
            json!({ "modelId": "mine" }),
            "session.model.getCurrent",
            "\"mine\"",
        ),
        Last::Title => (
            "session.name.set",
            json!({ "name": "Jumper" }),
            "session.name.get",
            "Jumper",
        ),
        Last::Directory => (
            "session.permissions.paths.add",
            json!({ "path": one }),
            "session.permissions.paths.list",
            one.as_str(),
        ),
        Last::Skill => (
            "session.skills.disable",
            json!({ "name": "spinning" }),
            "session.skills.list",
            "\"enabled\":false",
        ),
        Last::Schedule => (
            "session.schedule.add",
            json!({ "prompt": "say later", "interval": "7d" }),
            "session.schedule.list",
            "\"say later\"",
        ),
        _ => return None,
    };
    Some((method, params, asked, told.to_owned()))
}

struct Client {
    sdk: Sdk,
    session: Value,
}

impl Client {
    fn call(&mut self, method: &str, mut params: Value) -> Value {
        params["sessionId"] = self.session.clone();
        self.sdk.call(method, params).unwrap()
    }

    /// Says something; its id.
    fn send(&mut self, text: &str, mode: &str) -> String {
        let sent = self.call("session.send", json!({ "prompt": text, "mode": mode }));
        sent["messageId"].as_str().unwrap().to_owned()
    }

    fn event(&mut self, kind: &str) -> Value {
        loop {
            let message = match self.sdk.waiting.pop_front() {
                Some(message) => message,
                None => self.sdk.next(),
            };
            let event = &message["params"]["event"];
            if message["params"]["sessionId"] == self.session && event["type"] == kind {
                return event["data"].clone();
            }
        }
    }

    fn waiting(&mut self) -> Vec<(String, String)> {
        let items = self.call("session.queue.pendingItems", json!({}))["items"].clone();
        let text = |item: &Value, key: &str| item[key].as_str().unwrap().to_owned();
        let items = items.as_array().unwrap().iter();
        items
            .map(|item| (text(item, "id"), text(item, "displayText")))
            .collect()
    }
}

/// Says and sets things until the last of them is accepted. The ids of the messages that must wait or have been said, in
/// order, with their texts.
fn act(client: &mut Client, last: Last, home: &Home) -> Vec<(String, String)> {
    let said = |id: String, text: &str| (id, text.to_owned());
    match last {
        Last::FirstMessage => vec![said(client.send("say hello", "enqueue"), "say hello")],
        Last::Answer => {
            let call = r#"call bash {"command":"echo ran >> ran"} then say done"#;
            let id = client.send(call, "enqueue");
            let asked = client.event("permission.requested")["requestId"].clone();
            let yes = json!({ "requestId": asked, "result": { "kind": "approve-once" } });
            let answered = client.call("session.permissions.handlePendingPermissionRequest", yes);
            assert_eq!(answered["success"], true);
            vec![said(id, call)]
        }
        Last::Queued | Last::Steering => {
            let mode = if last == Last::Steering { "immediate" } else { "enqueue" };
            let long = client.send(LONG, "enqueue");
            vec![said(long, LONG), said(client.send("say more", mode), "say more")]
        }
        Last::Moved | Last::Reworded | Last::Removed => {
            let long = client.send(LONG, "enqueue");
            let [a, b] = ["say a", "say b"].map(|text| client.send(text, "enqueue"));
            match last {
                Last::Moved => {
                    let moved = client.call("session.queue.moveItem", json!({ "id": b, "toPosition": 0 }));
                    assert_eq!(moved["changed"], true);
                    vec![said(long, LONG), said(b, "say b"), said(a, "say a")]
                }
                Last::Reworded => {
                    let updated = client.call("session.queue.updateText", json!({ "id": a, "prompt": "say other" }));
                    assert_eq!(updated["updated"], true);
                    vec![said(long, LONG), said(a, "say other"), said(b, "say b")]
                }
                _ => {
                    let removed = client.call("session.queue.removeAt", json!({ "id": a }));
                    assert_eq!(removed["removed"], true);
                    vec![said(long, LONG), said(b, "say b")]
                }
            }
        }
        _ => {
            let (method, params, ..) = setting(last, home).unwrap();
            client.call(method, params);
            Vec::new()
        }
    }
}

#[test]
fn what_an_sdk_heard_as_accepted_is_there_once_after_kill_9() {
    let rounds = rounds(26);
    for round in 0..rounds {
        let last = ALL[round % ALL.len()];
        println!("round {round}: {last:?}");
        let home = Home::new();
        furnish(&home);
        let mut host = Host::start_in(home, "");
        let mut sdk = Sdk::connect(&host);
        let new = json!({
            "workingDirectory": host.home.work(), "requestPermission": true, "enableConfigDiscovery": true,
        });
        let session = sdk.call("session.create", new).unwrap()["sessionId"].clone();
        let mut client = Client { sdk, session };
        let said = act(&mut client, last, &host.home);
        host.running.kill();
        host.running.finish();
        let mut host = Host::start_in(host.home, "");
        client.sdk = Sdk::connect(&host);
        let back = json!({
            "requestPermission": true, "enableConfigDiscovery": true, "continuePendingWork": last == Last::Answer,
        });
        client.call("session.resume", back);
        if let Some((_, _, asked, told)) = setting(last, &host.home) {
            let found = client.call(asked, json!({})).to_string();
            assert_eq!(found.matches(&told).count(), 1, "{last:?}: {found}");
        }
        if last == Last::Answer {
            client.event("session.idle");
        }
        let waiting = client.waiting();
        host.running.kill();
        host.running.finish();
        let logs = host.home.logs();
        let log = events::read_log(&logs[0]);
        let mut found: Vec<(String, String)> = events::of_kind(&log, "user.message")
            .iter()
            .map(|event| {
                let text = |key: &str| event["data"][key].as_str().unwrap().to_owned();
                (text("messageId"), text("content"))
            })
            .collect();
        found.extend(waiting);
        let mut said = said;
        if last == Last::Steering {
            // What steers comes first if the turn did not come to its own message.
            found.sort();
            said.sort();
        }
        let kinds: Vec<&str> = log.iter().filter_map(|event| event["type"].as_str()).collect();
        assert_eq!(found, said, "{last:?}: {kinds:?}");
        if last == Last::Answer {
            assert_eq!(events::of_kind(&log, "lodge.answered").len(), 1);
            assert_eq!(events::of_kind(&log, "tool.execution_complete").len(), 1);
            // It ran, unless the host was killed when it had begun.
            let ran = std::fs::read_to_string(host.home.work().join("ran")).unwrap_or_default();
            let done = &events::of_kind(&log, "tool.execution_complete")[0]["data"]["success"];
            assert!(
                ran.lines().count() <= 1 && (ran.lines().count() == 1 || done == false),
                "{ran} {done}"
            );
        }
    }
}

/// A killed host leaves its note behind; only one that answers goes on with a turn.
#[test]
fn the_list_of_sessions_says_that_a_killed_host_left_a_turn_behind() {
    let mut host = Host::start_in(Home::new(), "");
    let mut sdk = Sdk::connect(&host);
    let new = json!({ "workingDirectory": host.home.work() });
    let session = sdk.call("session.create", new).unwrap()["sessionId"].clone();
    let mut client = Client { sdk, session };
    client.send(LONG, "enqueue");
    client.event("assistant.turn_start");
    let list = |home: &Home| home.run(["sessions", "list"]).ok().stdout().to_owned();
    assert!(list(&host.home).contains("working"));
    host.running.kill();
    host.running.finish();
    let listed = list(&host.home);
    assert!(listed.contains("interrupted"), "{listed}");
}
