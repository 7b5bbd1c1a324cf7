//! Actions of every type, whole and taken apart, through the socket: each gets a verdict, the host does not panic, and whoever
//! watches has the host's state afterwards. `LODGE_FUZZ_CASES` says how many, `LODGE_SEED` replays a run.

use std::{
    panic::PanicHookInfo,
    sync::{Mutex, Once},
    time::Duration,
};

use serde_json::{Value, json};
use testkit::Random;

use crate::{
    customizations::furnish,
    kit::*,
    mirror::{Mirror, normal},
};

/// The threads of the host that is fuzzed here; other tests run beside it and may panic as they like.
const THREADS: &str = "fuzzed-host";
/// So often the host is asked whether it is still well.
const ROUND: usize = 32;

/// What clients may dispatch, complete: `$`-names stand for something that the host has, or had, or never will.
const ACTIONS: &[&str] = &[
    r#"{"type":"root/configChanged","config":{"key":"$WORD"},"replace":true}"#,
    r#"{"type":"session/titleChanged","title":"$WORD"}"#,
    r#"{"type":"session/isReadChanged","isRead":true}"#,
    r#"{"type":"session/isArchivedChanged","isArchived":true}"#,
    r#"{"type":"session/configChanged","config":{"mode":"plan","autoApprove":"default"},"replace":false}"#,
    r#"{"type":"session/configChanged","config":{"model":"rehearsal","mode":"$WORD"}}"#,
    r#"{"type":"session/activeClientSet","activeClient":{"clientId":"$CLIENT","displayName":"$WORD","tools":[{"name":"ring","description":"rings","inputSchema":{"type":"object"}}],"customizations":[]}}"#,
    r#"{"type":"session/activeClientRemoved","clientId":"$CLIENT"}"#,
    r#"{"type":"session/workingDirectorySet","directory":"$PLACE"}"#,
    r#"{"type":"session/workingDirectoryRemoved","directory":"$PLACE"}"#,
    r#"{"type":"session/workingDirectoryReplaced","directory":"$PLACE","replacement":"$PLACE"}"#,
    r#"{"type":"session/customizationToggled","id":"$THING","enablement":[{"kind":"session","enabled":false},{"kind":"workspace","uri":"$PLACE","enabled":true},{"kind":"global","enabled":true}]}"#,
    r#"{"type":"session/mcpServerStartRequested","id":"$THING"}"#,
    r#"{"type":"session/mcpServerStopRequested","id":"$THING"}"#,
    r#"{"type":"session/mcpServerBackgroundRequested","id":"$THING"}"#,
    r#"{"type":"chat/turnStarted","turnId":"$TURN","startedAt":"2026-11-15T10:00:00.000Z","message":{"text":"$SCRIPT","origin":{"kind":"user"}}}"#,
    r#"{"type":"chat/turnStarted","turnId":"$NEW","startedAt":"2026-11-15T10:00:00.000Z","message":{"text":"$SCRIPT","origin":{"kind":"user"},"attachments":[{"type":"resource","uri":"$PLACE","label":"$WORD"},{"type":"chat","resource":"$CHANNEL","label":"x"},{"type":"simple","label":"$WORD","modelRepresentation":"$WORD"}]}}"#,
    r#"{"type":"chat/turnCancelled","turnId":"$TURN","duration":1}"#,
    r#"{"type":"chat/turnResume","turnId":"$TURN"}"#,
    r#"{"type":"chat/truncated","turnId":"$TURN"}"#,
    r#"{"type":"chat/pendingMessageSet","kind":"queued","id":"$QUEUED","message":{"text":"$SCRIPT","origin":{"kind":"user"}}}"#,
    r#"{"type":"chat/pendingMessageSet","kind":"steering","id":"$QUEUED","message":{"text":"say steered","origin":{"kind":"user"}}}"#,
    r#"{"type":"chat/pendingMessageRemoved","kind":"queued","id":"$QUEUED"}"#,
    r#"{"type":"chat/pendingMessageRemoved","kind":"steering","id":"$QUEUED"}"#,
    r#"{"type":"chat/queuedMessagesReordered","order":["$QUEUED","$QUEUED"]}"#,
    r#"{"type":"chat/draftChanged","draft":{"text":"$WORD","origin":{"kind":"user"}}}"#,
    r#"{"type":"chat/isReadChanged","isRead":false}"#,
    r#"{"type":"chat/isArchivedChanged","isArchived":false}"#,
    r#"{"type":"chat/toolCallConfirmed","turnId":"$TURN","toolCallId":"$CALL","approved":true,"confirmed":"user-action","selectedOptionId":"$WORD","editedToolInput":"{\"command\":\"echo edited\"}"}"#,
    r#"{"type":"chat/toolCallConfirmed","turnId":"$TURN","toolCallId":"$CALL","approved":false,"reason":"denied","reasonMessage":"$WORD","userSuggestion":{"text":"say suggested","origin":{"kind":"user"}}}"#,
    r#"{"type":"chat/toolCallComplete","turnId":"$TURN","toolCallId":"$CALL","result":{"success":true,"pastTenseMessage":"Rang","content":[{"type":"text","text":"$WORD"}]},"requiresResultConfirmation":true}"#,
    r#"{"type":"chat/toolCallResultConfirmed","turnId":"$TURN","toolCallId":"$CALL","approved":true}"#,
    r#"{"type":"chat/toolCallContentChanged","turnId":"$TURN","toolCallId":"$CALL","content":[{"type":"text","text":"$WORD"}]}"#,
    r#"{"type":"chat/inputAnswerChanged","requestId":"$QUESTION","questionId":"answer","answer":{"state":"submitted","value":{"kind":"selected","value":"red"}}}"#,
    r#"{"type":"chat/inputCompleted","requestId":"$QUESTION","response":"accept","answers":{"answer":{"state":"submitted","value":{"kind":"text","value":"$WORD"}}}}"#,
    r#"{"type":"chat/workingDirectorySet","directory":"$PLACE"}"#,
    r#"{"type":"chat/workingDirectoryRemoved","directory":"$PLACE"}"#,
    r#"{"type":"changeset/filesReviewChanged","files":["$FILE"],"reviewed":true}"#,
    r#"{"type":"annotations/set","annotation":{"id":"$NOTE","origin":{"session":"$CHANNEL"},"resource":"$PLACE","resolved":false,"entries":[{"id":"$NOTE","text":"$WORD"}]}}"#,
    r#"{"type":"annotations/updated","annotationId":"$NOTE","resolved":true,"resource":"$PLACE","range":{"start":{"line":1,"character":0},"end":{"line":0,"character":9}}}"#,
    r#"{"type":"annotations/removed","annotationId":"$NOTE"}"#,
    r#"{"type":"annotations/entrySet","annotationId":"$NOTE","entry":{"id":"$NOTE","text":"$WORD"}}"#,
    r#"{"type":"annotations/entryRemoved","annotationId":"$NOTE","entryId":"$NOTE"}"#,
    r#"{"type":"terminal/input","data":"$TYPED"}"#,
    r#"{"type":"terminal/resized","cols":80,"rows":24}"#,
    r#"{"type":"terminal/claimed","claim":{"kind":"client","clientId":"$CLIENT"}}"#,
    r#"{"type":"terminal/titleChanged","title":"$WORD"}"#,
    r#"{"type":"terminal/cleared"}"#,
    r#"{"type":"automation/createRequested","resource":"$AUTOMATION","definition":{"title":"$WORD","enabled":false,"triggers":[{"kind":"schedule","id":"s","schedule":{"expression":"$CRON","timeZone":"Europe/Vienna"}}],"session":{},"message":{"text":"say ran","origin":{"kind":"automation"}}}}"#,
    r#"{"type":"automation/updateRequested","resource":"$AUTOMATION","changes":{"title":"$WORD","triggers":[{"kind":"schedule","id":"$WORD","schedule":{"expression":"$CRON","timeZone":"$WORD"}}]}}"#,
    r#"{"type":"automation/removed","resource":"$AUTOMATION"}"#,
    r#"{"type":"automationRun/cancelRequested"}"#,
];

/// What only the host says, and what nobody does.
#[rustfmt::skip]
const FOREIGN: &[&str] = &[
    "automation/set", "automationRun/lifecycleChanged", "automationRun/primarySessionChanged", "automationRun/sessionRemoved", "automationRun/sessionSet",
    "canvas/stateChanged", "changeset/cleared", "changeset/contentChanged", "changeset/fileRemoved", "changeset/fileSet", "changeset/operationStatusChanged",
    "changeset/operationsChanged", "changeset/statusChanged", "chat/activityChanged", "chat/backgroundWorkRemoved", "chat/backgroundWorkSet",
    "chat/canvasesChanged", "chat/changesetsChanged", "chat/delta", "chat/error", "chat/inputRequested", "chat/movableChanged", "chat/reasoning",
    "chat/responsePart", "chat/toolCallAuthRequired", "chat/toolCallAuthResolved", "chat/toolCallDelta", "chat/toolCallReady", "chat/toolCallStart",
    "chat/turnComplete", "chat/turnsLoaded", "chat/usage", "resourceWatch/changed", "root/activeSessionsChanged", "root/agentsChanged", "root/terminalsChanged",
    "session/activityChanged", "session/changesetsChanged", "session/chatAdded", "session/chatRemoved", "session/chatUpdated", "session/chatsReordered",
    "session/creationFailed", "session/customizationRemoved", "session/customizationUpdated", "session/customizationsChanged", "session/defaultChatChanged",
    "session/inputNeededRemoved", "session/inputNeededSet", "session/mcpServerStateChanged", "session/metaChanged", "session/ready", "session/serverToolsChanged",
    "terminal/commandDetectionAvailable", "terminal/commandExecuted", "terminal/commandFinished", "terminal/cwdChanged", "terminal/data", "terminal/exited",
    "something/new", "session/", "/", "chat", "",
];

const SCRIPTS: &[&str] = &[
    "say hello",
    "stream 40 chunks of 16 bytes",
    "call bash {\\\"command\\\":\\\"touch file\\\"} then say done",
    "ask \\\"Which colour?\\\" choices red, blue",
    "call ring {} then say rung",
    "fail with bad request",
    "!echo typed",
    "/rename Fuzzed",
    "/nothing",
    "/rewind",
    "",
    "wait 5 s",
];

/// Text that stands where other text is expected.
const WORDS: &[&str] = &[
    "",
    "a",
    "ünïcödé 🦀",
    "\\u0000",
    "\\u001b]0;x\\u0007",
    "../../../etc/passwd",
    "file:///etc/passwd",
    "\\r\\n",
    "$SCRIPT",
    "__proto__",
    "ahp-root://",
];

struct Fuzz {
    random: Random,
    house: House,
    client: Client,
    session: String,
    chat: String,
    channels: Vec<String>,
    made: usize,
}

impl Fuzz {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let one: &&str = self.random.pick(from);
        one
    }

    /// An identity that the state at `pointers` holds, or one that nothing has.
    fn known(&mut self, state: &Value, pointers: &[&str]) -> String {
        let known: Vec<&str> = pointers
            .iter()
            .filter_map(|pointer| state.pointer(pointer)?.as_str())
            .collect();
        if known.is_empty() || self.random.below(4) == 0 {
            return self.pick(&["t1", "one", "", "\\u0000", "none"]).to_owned();
        }
        let known = json!(self.random.pick(&known)).to_string();
        known[1..known.len() - 1].to_owned()
    }

    /// What stands for a name in a sample, as it is written in JSON.
    fn value(&mut self, name: &str, chat: &Value, session: &Value) -> String {
        match name {
            "WORD" => {
                let word = self.pick(WORDS);
                word.replace("$SCRIPT", "say word")
            }
            "SCRIPT" => self.pick(SCRIPTS).to_owned(),
            "NEW" => {
                self.made += 1;
                format!("turn-{}", self.made)
            }
            "TURN" => self.known(
                chat,
                &["/activeTurn/id", "/activeTurn/id", "/turns/0/id", "/turns/1/id"],
            ),
            "CALL" => self.known(
                chat,
                &[
                    "/activeTurn/responseParts/0/toolCall/toolCallId",
                    "/activeTurn/responseParts/1/toolCall/toolCallId",
                    "/turns/0/responseParts/0/toolCall/toolCallId",
                ],
            ),
            "QUESTION" => self.known(
                chat,
                &[
                    "/activeTurn/responseParts/0/request/id",
                    "/activeTurn/responseParts/1/request/id",
                ],
            ),
            "QUEUED" => match self.random.below(2) {
                0 => format!("queued-{}", self.random.below(5)),
                _ => self.known(
                    chat,
                    &["/queuedMessages/0/id", "/queuedMessages/1/id", "/steeringMessage/id"],
                ),
            },
            "THING" => self.known(
                session,
                &[
                    "/customizations/0/id",
                    "/customizations/1/id",
                    "/customizations/0/children/0/id",
                    "/customizations/2/id",
                ],
            ),
            "CLIENT" => self.pick(&["fuzz", "watcher", "", "nobody"]).to_owned(),
            "PLACE" => {
                let place = *self.random.pick(&["", "/north", "/nowhere", "/file", "/../.."]);
                let work = format!("file://{}{place}", self.house.work().display());
                let odd = self.pick(&["", "file:///", "http://x/", "file://other/x", "%00", "file:///%00"]);
                if self.random.below(3) == 0 {
                    odd.to_owned()
                } else {
                    work
                }
            }
            "CHANNEL" => self.random.pick(&self.channels).clone(),
            "FILE" | "NOTE" => format!("n{}", self.random.below(4)),
            "TYPED" => self
                .pick(&["echo one\\r", "\\u0003", "\\u001b[A", "", "exit\\r", "sleep 9\\r"])
                .to_owned(),
            "AUTOMATION" => self
                .pick(&[
                    "ahp-automation:/one",
                    "ahp-automation:/two",
                    "ahp-automation:/",
                    "x",
                    "",
                ])
                .to_owned(),
            "CRON" => self
                .pick(&[
                    "0 9 * * 1",
                    "*/5 * * * *",
                    "61 * * * *",
                    "0 0 31 2 *",
                    "",
                    "@daily",
                    "* * * * * *",
                ])
                .to_owned(),
            _ => panic!("{name}"),
        }
    }

    /// An action, complete; what stands in it fits the states.
    fn sample(&mut self, chat: &Value, session: &Value) -> Value {
        if self.random.below(8) == 0 {
            let kind = self.pick(FOREIGN);
            // With the fields of another one, so that some of them can be read.
            let mut other = self.sample(chat, session);
            other["type"] = kind.into();
            return other;
        }
        let template = self.pick(ACTIONS);
        let mut parts = template.split('$');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(part.len());
            text.push_str(&self.value(&part[..end], chat, session));
            text.push_str(&part[end..]);
        }
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn odd(&mut self) -> Value {
        match self.random.below(14) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(-1),
            3 => json!(1e300),
            4 => json!(u64::MAX),
            5 => json!(0.5),
            6 => json!(""),
            7 => json!([]),
            8 => json!({}),
            9 => json!("x".repeat(20_000)),
            // Together with another one still less than frames may have.
            10 => (0..25).fold(json!("deep"), |inner, _| json!([inner])),
            11 => json!({ "type": "x", "kind": "x", "id": "x" }),
            12 => json!(vec![json!({}); 1_000]),
            _ => json!("\u{0}\u{202e}🦀"),
        }
    }

    /// Changes an action somewhere.
    fn mutate(&mut self, place: &mut Value) {
        let deeper = self.random.below(3) > 0;
        match place {
            Value::Object(map) if !map.is_empty() => {
                let at = self.random.below(map.len() as u64) as usize;
                let key = map.keys().nth(at).cloned().unwrap_or_default();
                match (self.random.below(3), map.get_mut(&key)) {
                    (_, Some(inner)) if deeper => self.mutate(inner),
                    (0, _) => drop(map.remove(&key)),
                    (1, _) => drop(map.insert(key, self.odd())),
                    _ => drop(map.insert("_meta".to_owned(), self.odd())),
                }
            }
            Value::Array(list) if !list.is_empty() => {
                let at = self.random.below(list.len() as u64) as usize;
                match self.random.below(2) {
                    _ if deeper => self.mutate(&mut list[at]),
                    0 => list.extend_from_within(..),
                    _ => list[at] = self.odd(),
                }
            }
            _ => *place = self.odd(),
        }
    }

    /// Everything that waits comes to an end, so that the next round begins with a host at rest.
    async fn settle(&mut self, context: &str) {
        for _ in 0..500 {
            let state = self.client.subscribe(&self.chat).await["state"].clone();
            let (turn, queued) = (&state["activeTurn"]["id"], &state["queuedMessages"][0]["id"]);
            if turn.is_null() && queued.is_null() {
                return;
            }
            if !queued.is_null() {
                let remove = json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": queued });
                self.client.dispatch(&self.chat.clone(), remove).await;
            }
            if !turn.is_null() {
                let cancel = json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 1 });
                self.client.dispatch(&self.chat.clone(), cancel).await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{context}: the chat does not come to rest");
    }
}

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes the panics of the host's threads.
fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if std::thread::current().name() == Some(THREADS) {
                PANICS.lock().unwrap().push(info.to_string());
            }
            before(info);
        }));
    });
}

#[test]
fn no_action_does_harm() {
    watch_for_panics();
    let (random, seed) = Random::from_env();
    println!("LODGE_SEED={seed}");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(THREADS)
        .enable_all()
        .build()
        .unwrap();
    let accepted = runtime.block_on(run(random, seed));
    println!("{accepted} were accepted");
    assert_eq!(*PANICS.lock().unwrap(), Vec::<String>::new(), "LODGE_SEED={seed}");
}

/// Returns how many actions the host accepted.
async fn run(random: Random, seed: u64) -> usize {
    let cases = testkit::fuzz::config().cases as usize;
    let house = house().await;
    furnish(&house);
    std::fs::create_dir_all(house.work().join("north")).unwrap();
    std::fs::write(house.work().join("file"), "x").unwrap();
    let mut client = house.client("fuzz").await;
    let (session, chat) = client.session(&uuid(1)).await;
    let terminal = "ahp-terminal:/fuzz".to_owned();
    let claim = json!({ "kind": "client", "clientId": "fuzz" });
    let params = json!({ "channel": terminal, "claim": claim, "cols": 80, "rows": 24 });
    client.request("createTerminal", params).await.unwrap();
    let mut watcher = house.client("watcher").await;
    let (_, other) = watcher.session(&uuid(2)).await;
    let mut mirror = Mirror::default();
    let watched = [
        ROOT.to_owned(),
        session.clone(),
        chat.clone(),
        format!("{session}/annotations"),
        "ahp-automations://".to_owned(),
    ];
    for channel in &watched {
        mirror.snapshot(&watcher.subscribe(channel).await);
    }
    watcher.inbox.clear();
    let mut channels = watched.to_vec();
    channels.extend([
        terminal,
        format!("{session}/changeset/session"),
        "lodge:/nobody".to_owned(),
        String::new(),
    ]);
    let mut fuzz = Fuzz {
        random,
        house,
        client,
        session,
        chat,
        channels,
        made: 0,
    };
    let mut accepted = 0;
    for round in 0..cases.div_ceil(ROUND) {
        let chat = mirror.state(&fuzz.chat);
        let session = mirror.state(&fuzz.session);
        let mut sent = Vec::new();
        for _ in 0..ROUND {
            let mut action = fuzz.sample(&chat, &session);
            for _ in 0..fuzz.random.below(4).saturating_sub(1) {
                fuzz.mutate(&mut action);
            }
            let channel = match action["type"].as_str().and_then(|kind| kind.split('/').next()) {
                _ if fuzz.random.below(10) == 0 => fuzz.random.pick(&fuzz.channels).clone(),
                Some("root") => ROOT.to_owned(),
                Some("session") => fuzz.session.clone(),
                Some("annotations") => format!("{}/annotations", fuzz.session),
                Some("changeset") => format!("{}/changeset/session", fuzz.session),
                Some("terminal") => "ahp-terminal:/fuzz".to_owned(),
                Some("automation" | "automationRun") => "ahp-automations://".to_owned(),
                _ => fuzz.chat.clone(),
            };
            let seq = fuzz.client.dispatch(&channel, action.clone()).await;
            sent.push((seq, channel, action));
        }
        let context = format!("LODGE_SEED={seed}, round {round}: {sent:#?}");
        for (seq, channel, action) in &sent {
            // Actions for channels that are not there, and of a client that announces itself as it was, are passed over.
            if action["type"] == "session/activeClientSet" || !watched.contains(channel) {
                continue;
            }
            let verdict = tokio::time::timeout(Duration::from_secs(60), fuzz.client.verdict(*seq)).await;
            let verdict = verdict.unwrap_or_else(|_| panic!("{action} is not answered. {context}"));
            let reason = verdict.get("rejectionReason");
            accepted += usize::from(reason.is_none());
            assert!(
                reason.is_none_or(|reason| *reason != ""),
                "{verdict} says nothing. {context}"
            );
        }
        fuzz.client.drain().await;
        fuzz.settle(&context).await;
        // Somebody else, elsewhere, notices nothing.
        let turn = watcher.turn(&other, &format!("w{round}"), "say fine").await;
        assert!(turn.to_string().contains("fine"), "{context}");
        for message in watcher.drain().await {
            if message["method"] == "action" {
                mirror.envelope(&message["params"]);
            }
        }
    }
    assert!(
        accepted * 20 > cases,
        "only {accepted} of {cases} were accepted: they show little"
    );
    for channel in &watched {
        let mut tries = 0;
        loop {
            for message in watcher.drain().await {
                if message["method"] == "action" {
                    mirror.envelope(&message["params"]);
                }
            }
            let mut judge = fuzz.house.client("judge").await;
            let theirs = mirror.state(channel);
            let held = theirs["turns"].as_array().map(Vec::len);
            let view = held.map_or(json!({}), |turns| json!({ "turns": turns }));
            let params = json!({ "channel": channel, "view": view });
            let ours = normal(
                channel,
                &judge.request("subscribe", params).await.unwrap()["snapshot"]["state"],
            );
            tries += 1;
            if theirs != ours && tries < 200 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            assert_eq!(theirs, ours, "LODGE_SEED={seed}: {channel} differs");
            break;
        }
    }
    accepted
}
