//! Terminals over the wire, with real shells.

mod agent;
mod load;

use std::time::Duration;

use lodge_ahp::Limits;
use serde_json::{Value, json};

use crate::{
    kit::{Client, House, ROOT, SEED_ROOT, house, house_with},
    mirror::Mirror,
};

const T: &str = "ahp-terminal:/1";

fn mine(client: &Client) -> Value {
    json!({ "kind": "client", "clientId": client.name })
}

fn input(data: &str) -> Value {
    json!({ "type": "terminal/input", "data": data })
}

/// The text of a terminal's content.
fn text(state: &Value) -> String {
    let parts = state["content"].as_array().unwrap();
    parts
        .iter()
        .map(|part| part["output"].as_str().or(part["value"].as_str()).unwrap())
        .collect()
}

impl Client {
    async fn create_terminal(&mut self, uri: &str) {
        let params = json!({ "channel": uri, "claim": mine(self), "cols": 90, "rows": 30 });
        assert_eq!(self.request("createTerminal", params).await, Ok(Value::Null));
    }

    /// Makes a terminal, listens to it, and waits until its shell can be typed to.
    async fn terminal(&mut self, uri: &str) -> Mirror {
        self.create_terminal(uri).await;
        let mut mirror = Mirror::default();
        mirror.snapshot(&self.subscribe(uri).await);
        mirror
    }

    /// Reads on until the mirrored state is so.
    async fn mirror_until(&mut self, mirror: &mut Mirror, uri: &str, fits: impl Fn(&Value) -> bool) -> Value {
        while let Some(message) = self.inbox.pop_front() {
            if message["method"] == "action" {
                mirror.envelope(&message["params"]);
            }
        }
        loop {
            let state = mirror.state(uri);
            if fits(&state) {
                return state;
            }
            let Some(message) = self.read().await else {
                panic!("the connection ended: {state:#}")
            };
            if message["method"] == "action" {
                mirror.envelope(&message["params"]);
            }
        }
    }

    /// Types a line and waits for the command's end; returns its part of the content.
    async fn command(&mut self, mirror: &mut Mirror, uri: &str, line: &str) -> Value {
        let found = |state: &Value| -> Vec<Value> {
            let parts = state["content"].as_array().unwrap().iter();
            let mine = |part: &&Value| part["commandLine"] == line && part["isComplete"] == true;
            parts.filter(mine).cloned().collect()
        };
        let before = found(&mirror.state(uri)).len();
        self.dispatch(uri, input(&format!("{line}\r"))).await;
        let state = self
            .mirror_until(mirror, uri, |state| found(state).len() > before)
            .await;
        found(&state).pop().unwrap()
    }
}

fn has(needle: &str) -> impl Fn(&Value) -> bool {
    move |state| text(state).contains(needle)
}

#[tokio::test]
async fn a_terminal_runs_a_shell_and_tells_what_happens_in_it() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut mirror = a.terminal(T).await;
    let state = mirror.state(T);
    assert_eq!(state["cols"], 90);
    assert_eq!(state["rows"], 30);
    assert_eq!(state["title"], "bash");
    assert_eq!(state["isPty"], true);
    assert_eq!(state["lifecycle"], json!({ "status": "running" }));
    assert_eq!(state["cwd"], format!("file://{}", house.work().display()));
    let listed = a.action("root/terminalsChanged").await;
    assert_eq!(
        listed["action"]["terminals"],
        json!([{ "resource": T, "title": "bash", "claim": mine(&a), "lifecycle": { "status": "running" } }])
    );
    let detected = |state: &Value| state["supportsCommandDetection"] == true;
    a.mirror_until(&mut mirror, T, detected).await;
    for (line, code, output) in [
        ("echo one'; 'two", 0, "one; two\r\n"),
        ("false", 1, ""),
        ("stty size", 0, "30 90\r\n"),
        ("echo café 🦀", 0, "café 🦀\r\n"),
    ] {
        let part = a.command(&mut mirror, T, line).await;
        assert_eq!(part["commandLine"], line);
        assert_eq!(part["exitCode"], code, "{part}");
        assert_eq!(part["output"], output);
        assert!(part["durationMs"].as_i64().unwrap() >= 0);
        assert!(part["timestamp"].as_i64().unwrap() > 1_700_000_000_000);
    }
    std::fs::create_dir(house.work().join("sub dir")).unwrap();
    a.command(&mut mirror, T, "cd 'sub dir'").await;
    let there = format!("file://{}/sub%20dir", house.work().display());
    a.mirror_until(&mut mirror, T, |state| state["cwd"] == there).await;
    a.command(&mut mirror, T, "printf '\\033]2;named by a program\\007'")
        .await;
    a.mirror_until(&mut mirror, T, |state| state["title"] == "named by a program")
        .await;
    a.dispatch(T, input("exit 3\r")).await;
    let exited = json!({ "status": "exited", "exitCode": 3 });
    let state = a
        .mirror_until(&mut mirror, T, |state| state["lifecycle"] == exited)
        .await;
    assert!(!text(&state).contains("633"), "{}", text(&state));
    // What one client knows is what the host knows.
    let fresh = a.subscribe(T).await;
    assert_eq!(fresh["state"], state);
    let root = a.subscribe(ROOT).await;
    assert_eq!(root["state"]["terminals"][0]["lifecycle"], exited);
    assert_eq!(
        a.request("disposeTerminal", json!({ "channel": T })).await,
        Ok(Value::Null)
    );
    assert_eq!(a.subscribe(ROOT).await["state"]["terminals"], json!([]));
    assert_eq!(a.code("subscribe", json!({ "channel": T })).await, -32001);
    assert_eq!(a.code("disposeTerminal", json!({ "channel": T })).await, -32008);
}

#[tokio::test]
async fn every_way_to_ask_wrongly_for_a_terminal_has_its_error() {
    let house = house_with(Limits {
        terminals: 1,
        ..Limits::default()
    })
    .await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session("11111111-2222-4333-8444-555555555555").await;
    std::fs::write(house.work().join("file"), "").unwrap();
    let file = format!("file://{}/file", house.work().display());
    let claim = mine(&a);
    let of_session = |session: &str, chat: &str| json!({ "kind": "session", "session": session, "chat": chat });
    let mut params = vec![
        (-32602, json!({ "claim": claim })),
        (-32602, json!({ "channel": "no uri", "claim": claim })),
        (-32602, json!({ "channel": ROOT, "claim": claim })),
        (-32602, json!({ "channel": "file:///etc", "claim": claim })),
        (-32602, json!({ "channel": T })),
        (-32602, json!({ "channel": T, "claim": { "kind": "king" } })),
        (
            -32602,
            json!({ "channel": T, "claim": { "kind": "client", "clientId": "somebody else" } }),
        ),
        (
            -32001,
            json!({ "channel": T, "claim": of_session("lodge:/nowhere-at-all", &chat) }),
        ),
        (
            -32602,
            json!({ "channel": T, "claim": of_session(&session, "ahp-chat:/other") }),
        ),
        (-32602, json!({ "channel": T, "claim": claim, "cols": 0 })),
        (-32602, json!({ "channel": T, "claim": claim, "rows": 100_000 })),
        (
            -32602,
            json!({ "channel": T, "claim": claim, "name": "x".repeat(1000) }),
        ),
        (-32602, json!({ "channel": T, "claim": claim, "cwd": "https://x/y" })),
        (-32602, json!({ "channel": T, "claim": claim, "cwd": file })),
        (
            -32008,
            json!({ "channel": T, "claim": claim, "cwd": "file:///not/there" }),
        ),
        (-32010, json!({ "channel": session, "claim": claim })),
    ];
    for (code, params) in params.drain(..) {
        assert_eq!(a.code("createTerminal", params.clone()).await, code, "{params}");
    }
    let params = json!({ "channel": T, "claim": claim, "name": "mine", "cwd": "file:///" });
    a.request("createTerminal", params.clone()).await.unwrap();
    assert_eq!(a.code("createTerminal", params).await, -32010);
    assert_eq!(a.code("createSession", json!({ "channel": T })).await, -32602);
    let second = json!({ "channel": "ahp-terminal:/2", "claim": claim });
    assert_eq!(a.code("createTerminal", second).await, -32000);
    let state = a.subscribe(T).await["state"].clone();
    assert_eq!((&state["title"], &state["cwd"]), (&json!("mine"), &json!("file:///")));
    for params in [json!({}), json!({ "channel": 5 })] {
        assert_eq!(a.code("disposeTerminal", params).await, -32602);
    }
}

#[tokio::test]
async fn what_clients_may_say_about_a_terminal() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut b = house.client("b").await;
    let mut mirror = a.terminal(T).await;
    b.subscribe(T).await;
    for action in [
        json!({ "type": "terminal/data", "data": "x" }),
        json!({ "type": "terminal/exited", "exitCode": 0 }),
        json!({ "type": "terminal/cwdChanged", "cwd": "file:///" }),
        json!({ "type": "terminal/commandDetectionAvailable" }),
        json!({ "type": "terminal/commandExecuted", "commandId": "1", "commandLine": "x", "timestamp": 1 }),
        json!({ "type": "terminal/commandFinished", "commandId": "1" }),
        json!({ "type": "terminal/resized", "cols": 0, "rows": 5 }),
        json!({ "type": "terminal/resized", "cols": 80, "rows": 70_000 }),
        json!({ "type": "terminal/resized", "cols": "wide" }),
        json!({ "type": "terminal/titleChanged", "title": "" }),
        json!({ "type": "terminal/titleChanged", "title": "two\nlines" }),
        json!({ "type": "terminal/input" }),
        json!({ "type": "chat/draftChanged" }),
        json!({ "type": "terminal/claimed", "claim": { "kind": "client", "clientId": "nobody" } }),
        json!({ "type": "terminal/claimed", "claim": { "kind": "session", "session": "lodge:/none", "chat": "x:/y" } }),
    ] {
        let reason = a.refused(T, action.clone()).await;
        assert!(!reason.is_empty(), "{action}");
    }
    // Whoever does not hold it cannot give it away, but may type.
    let to_b = json!({ "type": "terminal/claimed", "claim": mine(&b) });
    assert_eq!(b.refused(T, to_b.clone()).await, "another client holds the terminal");
    b.accepted(T, input("echo typed by b\r")).await;
    a.mirror_until(&mut mirror, T, has("typed by b\r\n")).await;
    a.accepted(T, to_b).await;
    b.action("terminal/claimed").await;
    let listed = |claim: Value| move |message: &Value| message["params"]["action"]["terminals"][0]["claim"] == claim;
    b.until(listed(mine(&b))).await;
    // A title that a person gave stays.
    b.accepted(T, json!({ "type": "terminal/titleChanged", "title": "builds" }))
        .await;
    a.command(&mut mirror, T, "printf '\\033]0;program\\007'").await;
    a.mirror_until(&mut mirror, T, |state| state["title"] == "builds").await;
    a.accepted(T, json!({ "type": "terminal/resized", "cols": 73, "rows": 19 }))
        .await;
    let part = a.command(&mut mirror, T, "stty size").await;
    assert_eq!(part["output"], "19 73\r\n");
    assert_eq!(b.subscribe(T).await["state"]["cols"], 73);
    a.accepted(T, json!({ "type": "terminal/resized", "cols": 73, "rows": 19 }))
        .await;
    b.accepted(T, json!({ "type": "terminal/cleared" })).await;
    a.mirror_until(&mut mirror, T, |state| !text(state).contains("19 73"))
        .await;
    // Nobody but its sender hears what is typed.
    a.drain().await;
    b.drain().await;
    a.accepted(T, input(" ")).await;
    assert!(
        !b.drain()
            .await
            .iter()
            .any(|message| message["params"]["action"]["type"] == "terminal/input")
    );
    a.dispatch(T, input("exit\r")).await;
    a.mirror_until(&mut mirror, T, |state| state["lifecycle"]["status"] == "exited")
        .await;
    assert_eq!(a.refused(T, input("x")).await, "the terminal's shell has ended");
    let resized = json!({ "type": "terminal/resized", "cols": 80, "rows": 24 });
    assert_eq!(a.refused(T, resized).await, "the terminal's shell has ended");
}

#[tokio::test]
async fn a_terminal_goes_with_the_session_that_claims_it() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut b = house.client("b").await;
    let (session, chat) = a.session("11111111-2222-4333-8444-555555555555").await;
    a.turn(&chat, "t1", "hello").await;
    let claim = json!({ "kind": "session", "session": session, "chat": chat });
    a.request("createTerminal", json!({ "channel": T, "claim": claim }))
        .await
        .unwrap();
    a.subscribe(T).await;
    a.dispatch(
        T,
        input("(trap '' HUP; echo $BASHPID > pid; while :; do sleep 1; done)\r"),
    )
    .await;
    let pid = wait_for_file(&house, "pid").await;
    // Who is not in the session cannot take it out.
    b.subscribe(T).await;
    let to_b = json!({ "type": "terminal/claimed", "claim": mine(&b) });
    assert!(b.refused(T, to_b).await.contains("not in it"));
    a.accepted(T, json!({ "type": "terminal/claimed", "claim": mine(&a) }))
        .await;
    a.accepted(T, json!({ "type": "terminal/claimed", "claim": claim }))
        .await;
    a.request("disposeSession", json!({ "channel": session }))
        .await
        .unwrap();
    a.until(|message| message["params"]["action"]["terminals"] == json!([]))
        .await;
    assert_eq!(a.code("subscribe", json!({ "channel": T })).await, -32001);
    gone(&pid).await;
}

#[tokio::test]
async fn a_terminal_waits_for_its_client_and_goes_when_nobody_comes() {
    let house = house_with(Limits {
        terminal_grace: Duration::from_millis(500),
        ..Limits::default()
    })
    .await;
    let mut watcher = house.client("watcher").await;
    let mut a = house.client("a").await;
    a.create_terminal(T).await;
    a.subscribe(T).await;
    a.dispatch(T, input("echo $$ > pid\r")).await;
    let pid = wait_for_file(&house, "pid").await;
    watcher.subscribe(T).await;
    drop(a);
    // Somebody watches: it stays, and may be taken over.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(alive(&pid));
    let mut tries = 0;
    loop {
        let seq = watcher
            .dispatch(T, json!({ "type": "terminal/claimed", "claim": mine(&watcher) }))
            .await;
        match watcher.verdict(seq).await.get("rejectionReason") {
            None => break,
            Some(reason) => assert!(tries < 100, "{reason}"),
        }
        tries += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(watcher);
    gone(&pid).await;
    let mut b = house.client("b").await;
    assert_eq!(b.subscribe(ROOT).await["state"]["terminals"], json!([]));
}

#[tokio::test]
async fn the_seed_s_dialect_has_terminals_too() {
    let house = house().await;
    let mut a = house.client_of("a", "0.1.0").await;
    let params = json!({ "terminal": T, "claim": mine(&a), "cols": 80, "rows": 24, "name": "old" });
    assert_eq!(a.request("createTerminal", params.clone()).await, Ok(Value::Null));
    assert_eq!(a.code("createTerminal", params).await, -32010);
    let listed = a.action("root/terminalsChanged").await;
    assert_eq!(
        listed["action"]["terminals"],
        json!([{ "resource": T, "title": "old", "claim": mine(&a) }])
    );
    let mut mirror = Mirror::default();
    let snapshot = a.request("subscribe", json!({ "resource": T })).await.unwrap()["snapshot"].clone();
    assert_eq!(snapshot["state"].get("lifecycle"), None);
    mirror.snapshot(&snapshot);
    // A second one of the same dialect sees it all, too.
    let mut b = house.client_of("b", "0.1.0").await;
    let mut other = Mirror::default();
    other.snapshot(&b.request("subscribe", json!({ "resource": T })).await.unwrap()["snapshot"]);
    let seq = a
        .dispatch_seed(json!({ "type": "terminal/input", "terminal": T, "data": "echo se''ed; exit 5\r" }))
        .await;
    a.verdict(seq).await;
    let mut modern = house.client("m").await;
    modern.subscribe(T).await;
    for (client, mirror) in [(&mut a, &mut mirror), (&mut b, &mut other)] {
        while mirror.state(T)["exitCode"] != 5 {
            let message = match client.inbox.pop_front() {
                Some(message) => message,
                None => client.read().await.unwrap(),
            };
            if message["method"] == "action" && message["params"]["action"]["terminal"] == T {
                mirror.seed_envelope(&message["params"]);
            }
        }
        let state = mirror.state(T);
        assert!(text(&state).contains("seed\r\n"), "{state}");
    }
    let seq = a
        .dispatch_seed(json!({ "type": "terminal/titleChanged", "terminal": T, "title": "new" }))
        .await;
    assert_eq!(a.verdict(seq).await["action"]["terminal"], T);
    assert_eq!(modern.action("terminal/titleChanged").await["action"]["title"], "new");
    let root = a.request("subscribe", json!({ "resource": SEED_ROOT })).await.unwrap();
    assert_eq!(root["snapshot"]["state"]["terminals"][0]["exitCode"], 5);
    assert_eq!(
        a.request("disposeTerminal", json!({ "terminal": T })).await,
        Ok(Value::Null)
    );
    assert_eq!(a.code("disposeTerminal", json!({ "terminal": T })).await, -32008);
}

#[tokio::test]
async fn nothing_in_a_terminal_outlives_the_host() {
    let mut house = house().await;
    let mut a = house.client("a").await;
    a.create_terminal(T).await;
    a.subscribe(T).await;
    let script = "(trap '' HUP TERM; echo $BASHPID > pid; while :; do sleep 1; done) & nohup sleep 1000 >/dev/null 2>&1 & echo $! > other";
    a.dispatch(T, input(&format!("{script}\r"))).await;
    let pid = wait_for_file(&house, "pid").await;
    let other = wait_for_file(&house, "other").await;
    house.server.take().unwrap().shutdown().await;
    gone(&pid).await;
    gone(&other).await;
}

/// Shells read the person's own files first, and those may wait for a minute (`pyenv init` does so for a lock that a killed
/// shell left behind): so often is looked, every 50 ms.
const LOOKS: u32 = 2_400;

async fn wait_for_file(house: &House, name: &str) -> String {
    for _ in 0..LOOKS {
        match std::fs::read_to_string(house.work().join(name)) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("there is no {name}")
}

fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit_once(')')
            .is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
    })
}

async fn gone(pid: &str) {
    for _ in 0..LOOKS {
        if !alive(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{pid} lives")
}
