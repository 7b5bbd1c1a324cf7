//! SIGKILL as soon as a client hears that what it said or set was accepted: it is there afterwards, and once.
//!
//! `LODGE_SEED` replays a run, `LODGE_ACCEPTED_ROUNDS` sets how many kills.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use testkit::{Home, Random, Running, events};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{Message, client::IntoClientRequest},
};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

const ROOT: &str = "ahp-root://";

/// How many kills: as many as given, or else as usual.
pub(crate) fn rounds(usual: usize) -> usize {
    std::env::var("LODGE_ACCEPTED_ROUNDS").map_or(usual, |text| text.parse().expect("a number of rounds"))
}

pub(crate) struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    next: i64,
}

impl Client {
    /// One that has not introduced itself.
    pub(crate) async fn connect_raw(url: impl IntoClientRequest + Unpin) -> Self {
        let (socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        Self { socket, next: 0 }
    }

    /// The same where the host may be gone, or not answer for so long.
    #[cfg(feature = "fleet")]
    pub(crate) async fn try_connect(patience: Duration, url: &str) -> Option<Self> {
        let connected = tokio::time::timeout(patience, tokio_tungstenite::connect_async(url));
        let (socket, _) = connected.await.ok()?.ok()?;
        Some(Self { socket, next: 0 })
    }

    pub(crate) async fn connect(url: &str, program: &str) -> Self {
        let mut client = Self::connect_raw(url).await;
        let hello = json!({ "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": "me",
            "initialSubscriptions": [ROOT], "clientInfo": { "name": program } });
        client.request("initialize", hello).await;
        client
    }

    async fn send(&mut self, message: Value) -> i64 {
        self.try_send(message).await.expect("the host is gone")
    }

    async fn try_send(&mut self, mut message: Value) -> Option<i64> {
        self.next += 1;
        message["jsonrpc"] = "2.0".into();
        match message.get("method").and_then(Value::as_str) {
            Some("dispatchAction") => message["params"]["clientSeq"] = self.next.into(),
            _ => message["id"] = self.next.into(),
        }
        self.socket.send(Message::text(message.to_string())).await.ok()?;
        Some(self.next)
    }

    pub(crate) async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let found = self.try_until(PATIENCE, fits).await;
        found.expect("the host is silent, or gone")
    }

    /// The same where the host may be gone, or say nothing for so long.
    pub(crate) async fn try_until(&mut self, patience: Duration, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        loop {
            let message = tokio::time::timeout(patience, self.socket.next()).await;
            if let Message::Text(text) = message.ok()??.ok()? {
                let message: Value = serde_json::from_str(&text).unwrap();
                if fits(&message) {
                    return Some(message);
                }
            }
        }
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(json!({ "method": method, "params": params })).await;
        let answer = self.until(|message| message["id"] == id).await;
        assert_eq!(answer.get("error"), None, "{method}");
        answer["result"].clone()
    }

    /// The same where the host may be gone, or refuse it.
    #[cfg(feature = "fleet")]
    pub(crate) async fn try_request(&mut self, patience: Duration, method: &str, params: Value) -> Option<Value> {
        let id = self.try_send(json!({ "method": method, "params": params })).await?;
        let mut answer = self.try_until(patience, |message| message["id"] == id).await?;
        answer.get_mut("result").map(Value::take)
    }

    pub(crate) async fn subscribe(&mut self, channel: &str) -> Value {
        self.request("subscribe", json!({ "channel": channel })).await["snapshot"]["state"].clone()
    }

    /// The same where there may be nothing to listen to yet.
    #[cfg(feature = "fleet")]
    pub(crate) async fn try_subscribe(&mut self, channel: &str) -> Option<Value> {
        self.try_request(PATIENCE, "subscribe", json!({ "channel": channel }))
            .await
    }

    /// The error that a request is answered with.
    pub(crate) async fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(json!({ "method": method, "params": params })).await;
        let answer = self.until(|message| message["id"] == id).await;
        assert_eq!(answer.get("result"), None, "{method}");
        answer["error"].clone()
    }

    /// Waits until the host ends the connection; why it does.
    #[cfg(feature = "fleet")]
    pub(crate) async fn closed(&mut self) -> String {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            match message.expect("the host is silent") {
                Some(Ok(Message::Close(why))) => return why.map_or_else(String::new, |why| why.reason.to_string()),
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Why an action was refused, or nothing.
    pub(crate) async fn dispatch(&mut self, channel: &str, action: Value) -> Option<String> {
        let params = json!({ "channel": channel, "action": action });
        let seq = self.send(json!({ "method": "dispatchAction", "params": params })).await;
        let verdict = self
            .until(|message| message["params"]["origin"]["clientSeq"] == seq)
            .await;
        verdict["params"]["rejectionReason"].as_str().map(str::to_owned)
    }

    /// Sends an action, and leaves the verdict to whoever reads next; nothing where the host may be gone.
    #[cfg(feature = "fleet")]
    pub(crate) async fn try_tell(&mut self, channel: &str, action: Value) -> Option<i64> {
        let params = json!({ "channel": channel, "action": action });
        self.try_send(json!({ "method": "dispatchAction", "params": params }))
            .await
    }

    /// Whether an action was accepted; nothing where the host may be gone, or says nothing for so long.
    #[cfg(feature = "fleet")]
    pub(crate) async fn try_dispatch(&mut self, patience: Duration, channel: &str, action: Value) -> Option<bool> {
        let seq = self.try_tell(channel, action).await?;
        let verdict = self.try_until(patience, |message| message["params"]["origin"]["clientSeq"] == seq);
        Some(verdict.await?["params"]["rejectionReason"].is_null())
    }

    pub(crate) async fn accepted(&mut self, channel: &str, action: Value) {
        assert_eq!(self.dispatch(channel, action.clone()).await, None, "{action}");
    }

    pub(crate) async fn ends(&mut self, turn: &str) {
        let ends = ["chat/turnComplete", "chat/turnCancelled", "chat/error"];
        self.until(|message| {
            let action = &message["params"]["action"];
            action["turnId"] == turn && ends.iter().any(|end| action["type"] == *end)
        })
        .await;
    }
}

pub(crate) fn start(home: &Home) -> (Running, String) {
    let mut running = home.start(["--port", "0", "--sdk-port", "0"]);
    let line = running.line_with("AHP clients");
    let address = line.split_whitespace().last().expect("an address").to_owned();
    running.line_with("Ctrl-C stops");
    let token = std::fs::read_to_string(home.path().join("token")).unwrap();
    (running, format!("{address}?tkn={}", token.trim()))
}

fn message(text: &str) -> Value {
    json!({ "text": text, "origin": { "kind": "user" } })
}

pub(crate) fn turn(id: &str, text: &str) -> Value {
    json!({ "type": "chat/turnStarted", "turnId": id, "startedAt": "2026-11-15T10:00:00.000Z", "message": message(text) })
}

pub(crate) fn pending(kind: &str, id: &str, text: &str) -> Value {
    json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message(text) })
}

fn config(key: &str, value: &str) -> Value {
    json!({ "type": "session/configChanged", "config": { key: value } })
}

/// What is accepted last before the host is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Last {
    FirstMessage,
    /// While nothing runs.
    Queued,
    QueuedInTurn,
    Edited,
    Moved,
    Removed,
    Steering,
    Title,
    Mode,
    Approval,
    Archived,
    Answer,
}

const ALL: [Last; 12] = [
    Last::FirstMessage,
    Last::Queued,
    Last::QueuedInTurn,
    Last::Edited,
    Last::Moved,
    Last::Removed,
    Last::Steering,
    Last::Title,
    Last::Mode,
    Last::Approval,
    Last::Archived,
    Last::Answer,
];

const LONG: &str = "slowly 20 ms, stream 50 chunks";

/// Says and sets things until the last of them is accepted. The ids of all accepted messages with their texts.
async fn act(client: &mut Client, session: &str, chat: &str, last: Last) -> Vec<(&'static str, &'static str)> {
    client
        .accepted(session, json!({ "type": "session/titleChanged", "title": "First" }))
        .await;
    let hello = ("m1", "say hello");
    match last {
        Last::FirstMessage => {
            client.accepted(chat, turn(hello.0, hello.1)).await;
            vec![hello]
        }
        Last::Queued => {
            client.accepted(chat, pending("queued", hello.0, hello.1)).await;
            vec![hello]
        }
        Last::QueuedInTurn | Last::Steering => {
            client.accepted(chat, turn("m1", LONG)).await;
            let kind = if last == Last::Steering { "steering" } else { "queued" };
            client.accepted(chat, pending(kind, "m2", "say more")).await;
            vec![("m1", LONG), ("m2", "say more")]
        }
        Last::Edited | Last::Moved | Last::Removed => {
            client.accepted(chat, turn("m1", LONG)).await;
            for id in ["m2", "m3"] {
                client.accepted(chat, pending("queued", id, "say more")).await;
            }
            let (action, left) = match last {
                Last::Edited => (
                    pending("queued", "m3", "say else"),
                    vec![("m2", "say more"), ("m3", "say else")],
                ),
                Last::Moved => (
                    json!({ "type": "chat/queuedMessagesReordered", "order": ["m3"] }),
                    vec![("m3", "say more"), ("m2", "say more")],
                ),
                _ => (
                    json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "m2" }),
                    vec![("m3", "say more")],
                ),
            };
            client.accepted(chat, action).await;
            std::iter::once(("m1", LONG)).chain(left).collect()
        }
        Last::Answer => {
            let call = r#"call bash {"command":"echo ran >> ran"} then say done"#;
            client.accepted(chat, turn("m1", call)).await;
            let ready = client
                .until(|message| message["params"]["action"]["type"] == "chat/toolCallReady")
                .await;
            let id = &ready["params"]["action"]["toolCallId"];
            let yes = json!({ "type": "chat/toolCallConfirmed", "turnId": "m1", "toolCallId": id, "approved": true });
            client.accepted(chat, yes).await;
            vec![("m1", call)]
        }
        _ => {
            client.accepted(chat, turn(hello.0, hello.1)).await;
            let action = match last {
                Last::Title => json!({ "type": "session/titleChanged", "title": "Second" }),
                Last::Mode => config("mode", "plan"),
                Last::Approval => config("autoApprove", "autoApprove"),
                _ => json!({ "type": "session/isArchivedChanged", "isArchived": true }),
            };
            client.accepted(session, action).await;
            vec![hello]
        }
    }
}

/// How often a message is shown in a chat, wherever.
fn shown(chat: &Value, id: &str, text: &str) -> usize {
    let list = |key: &str| chat[key].as_array().cloned().unwrap_or_default();
    let is_it = |shown: &&Value| shown["id"] == id && shown["message"]["text"] == text;
    let all = list("turns").into_iter().chain(list("queuedMessages"));
    let all: Vec<Value> = all
        .chain([chat["activeTurn"].clone(), chat["steeringMessage"].clone()])
        .collect();
    let turns = all.iter().filter(is_it).count();
    // A message that steered a turn may be a part of it.
    turns.max(usize::from(chat.to_string().contains(text)))
}

async fn check(client: &mut Client, home: &Home, session: &str, chat: &str, last: Last, said: &[(&str, &str)]) {
    let list = client.request("listSessions", json!({ "channel": ROOT })).await;
    let listed = list["items"].as_array().unwrap().iter();
    let listed: Vec<&Value> = listed.filter(|item| item["resource"] == session).collect();
    assert_eq!(listed.len(), 1, "{list:#}");
    let state = client.subscribe(session).await;
    let title = if last == Last::Title { "Second" } else { "First" };
    assert_eq!((&state["title"], &listed[0]["title"]), (&json!(title), &json!(title)));
    let values = &state["config"]["values"];
    let mode = if last == Last::Mode { "plan" } else { "interactive" };
    let approval = if last == Last::Approval {
        "autoApprove"
    } else {
        "default"
    };
    assert_eq!(
        (&values["mode"], &values["autoApprove"]),
        (&json!(mode), &json!(approval))
    );
    let archived = state["status"].as_u64().unwrap() & 64 != 0;
    assert_eq!(archived, last == Last::Archived);
    let found = client.subscribe(chat).await;
    for (id, text) in said {
        assert_eq!(shown(&found, id, text), 1, "{id}: {found:#}");
    }
    if matches!(last, Last::Edited | Last::Moved | Last::Removed) {
        let queued = found["queuedMessages"].as_array().cloned().unwrap_or_default();
        let ids: Vec<&Value> = queued
            .iter()
            .map(|queued| &queued["id"])
            .filter(|id| **id != "m1")
            .collect();
        let expected: Vec<&str> = said.iter().map(|(id, _)| *id).filter(|id| *id != "m1").collect();
        assert_eq!(ids, expected, "{last:?}");
    }
    // A client that did not hear the echo says it again: it is the same message.
    let (id, text) = *said.last().unwrap();
    if client.dispatch(chat, turn(id, text)).await.is_none() {
        client.ends(id).await;
    }
    let found = client.subscribe(chat).await;
    for (id, text) in said {
        assert_eq!(shown(&found, id, text), 1, "{id}: {found:#}");
    }
    if last == Last::Answer {
        // The turn goes on with the answer, or counts as interrupted if the command had begun.
        while client.subscribe(chat).await.get("activeTurn").is_some() {}
        let logs = home.logs();
        let log = events::read_log(&logs[0]);
        assert_eq!(events::of_kind(&log, "lodge.answered").len(), 1);
        let began = events::of_kind(&log, "tool.execution_start").len();
        assert_eq!(began, 1, "an answer that was accepted is used, and once");
    }
    // A command runs at most once, also when the turn that it belongs to goes on.
    let ran = std::fs::read_to_string(home.work().join("ran")).unwrap_or_default();
    assert!(ran.lines().count() <= 1, "{ran}");
}

#[tokio::test]
async fn what_a_client_heard_as_accepted_is_there_once_after_kill_9() {
    let rounds = rounds(36);
    let (mut random, seed) = Random::from_env();
    println!("LODGE_SEED={seed} replays this run of {rounds} kills");
    for round in 0..rounds {
        let (last, draft) = (ALL[round / 2 % ALL.len()], round % 2 == 1);
        println!("round {round}: {last:?}, by an editor's draft: {draft}");
        let home = Home::new();
        let (mut running, url) = start(&home);
        let mut client = Client::connect(&url, if draft { "vscode-window" } else { "test" }).await;
        let session = format!("{}:/round-{round}", random.pick(&["lodge", "copilotcli"]));
        let create = json!({ "channel": session, "provider": session.split(':').next() });
        client.request("createSession", create).await;
        let chat = client.subscribe(&session).await["defaultChat"]
            .as_str()
            .unwrap()
            .to_owned();
        client.subscribe(&chat).await;
        let said = act(&mut client, &session, &chat, last).await;
        running.kill();
        running.finish();
        let (running, url) = start(&home);
        let mut client = Client::connect(&url, "test").await;
        check(&mut client, &home, &session, &chat, last, &said).await;
        drop(client);
        let mut running = running;
        running.kill();
        running.finish();
        for log in home.logs() {
            let log = events::read_log(&log);
            for (id, _) in &said {
                let messages = events::of_kind(&log, "user.message");
                let same = messages
                    .iter()
                    .filter(|event| event["data"]["messageId"] == *id)
                    .count();
                assert!(same <= 1, "{id} was said {same} times");
            }
        }
    }
}
