//! Tests that the parsers of each generation of SDKs read every event that Lodge sends them. Node has no parser: apps get what
//! arrives.

#[path = "../../../lodge-events/tests/it/examples/mod.rs"]
mod examples;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use lodge_events::{AbortReason, Event, Payload};
use lodge_host::{
    Approval, Capabilities, ClientSpec, Clock, Home, HomeOptions, Host, HostConfig, NewSession, NoCalls, Notice,
    Prompt, Session, Subscription,
};
use lodge_models::{Catalogue, ModelsConfig};
use serde_json::json;

use super::Generation::{self, BeforeConnect, Current};

/// Releases whose parsers are installed by `cargo xtask clients`: the oldest that speak this protocol, some in between, the
/// newest. Mirrors may lack some of Java's.
const RELEASES: [(&str, &str, Generation); 13] = [
    ("python", "0.1.32", BeforeConnect),
    ("python", "0.2.3", BeforeConnect),
    ("python", "0.3.0", BeforeConnect),
    ("python", "1.0.0", Current),
    ("python", "1.0.27", Current),
    ("go", "0.1.32", BeforeConnect),
    ("go", "0.2.1", BeforeConnect),
    ("go", "1.0.14", Current),
    ("java", "0.1.32-java.0", BeforeConnect),
    ("java", "0.2.2-java.1", BeforeConnect),
    ("java", "0.3.0-java.2", BeforeConnect),
    ("java", "1.0.0", Current),
    ("java", "1.0.11", Current),
];

/// Events that some parsers refuse although their release cannot be told from the newest, and why nothing is done about
/// it.
const LOST: [(&str, &str, &str); 6] = [
    (
        "1.0.0",
        "session.canvas.opened",
        "it wants two fields that the events of later releases do not have",
    ),
    (
        "1.0.0",
        "session.schedule_created",
        "it wants an interval, also of a schedule that has none",
    ),
    (
        "1.0.0",
        "session.permissions_changed",
        "it wants the fields that modes took the place of",
    ),
    (
        "1.0.0",
        "session.compaction_complete",
        "it wants a list of costs, also where the provider gave none",
    ),
    (
        "1.0.0",
        "tool.execution_complete",
        "it does not know blocks of exit codes, which only other hosts write",
    ),
    (
        "1.0.0",
        "system.notification",
        "it does not know all kinds, and only other hosts write those",
    ),
];

/// A reader of events for a release.
fn reader(language: &str, version: &str) -> Option<Command> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = root.join("target/clients/matrix").join(format!("{language}-{version}"));
    let scripts = root.join("tests/clients/matrix");
    let there = |path: PathBuf| path.exists().then_some(path);
    Some(match language {
        "python" => {
            let mut python = Command::new(there(root.join("target/clients/python/venv/bin/python"))?);
            python
                .arg(scripts.join("read.py"))
                .arg(there(installed.join("session_events.py"))?);
            python.env("PYTHONDONTWRITEBYTECODE", "1");
            python
        }
        "go" => Command::new(there(installed.join("read"))?),
        _ => {
            // What could not be fetched has a directory all the same, without this mark.
            there(installed.join("installed"))?;
            let mut java = Command::new("java");
            java.arg("-cp").arg(installed.join("*")).arg(scripts.join("Read.java"));
            java
        }
    })
}

#[test]
fn parsers_of_every_age_read_every_event_that_they_are_sent() {
    let events = examples::examples().into_iter();
    let events: Vec<Event> = events.map(|payload| Event::new(None, None, payload)).collect();
    all_parsers_read(&events);
}

/// A session's events, as far as they were told.
struct Told {
    session: Session,
    events: Subscription,
    seen: Vec<Event>,
}

impl Told {
    async fn of(host: &Host, approval: Approval, cwd: &Path) -> Self {
        let new = NewSession {
            approval,
            streaming: true,
            cwd: Some(cwd.to_owned()),
            ..NewSession::default()
        };
        let session = host.create(new).await.unwrap();
        Self {
            events: session.subscribe(usize::MAX),
            session,
            seen: Vec::new(),
        }
    }

    async fn until(&mut self, is_it: impl Fn(&Payload) -> bool) {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(30), self.events.next()).await;
            match next.expect("nothing more came for long") {
                Some(Notice::Event(event)) => {
                    let last = is_it(event.payload());
                    self.seen.push(event);
                    if last {
                        return;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    async fn send(&mut self, prompt: Prompt) {
        self.session.send(prompt).await.unwrap();
    }

    async fn turn(&mut self, prompt: Prompt) {
        self.send(prompt).await;
        self.until(|payload| matches!(payload, Payload::SessionIdle(_))).await;
    }
}

fn said(text: &str) -> Prompt {
    Prompt {
        text: text.to_owned(),
        ..Prompt::default()
    }
}

/// The examples have every field; a session tells events as they come about.
#[tokio::test]
async fn parsers_of_every_age_read_what_whole_sessions_send() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let host = Host::new(HostConfig {
        home: Home::open(dir.path().join("home"), HomeOptions::default()).unwrap(),
        models: Catalogue::from(ModelsConfig::default(), |_| None).unwrap(),
        sandbox: None,
        idle_after: Duration::from_secs(300),
        version: "test".into(),
        clock: Clock::default(),
    })
    .unwrap();
    let mut free = Told::of(&host, Approval::ApproveAll, &work).await;
    let file = work.join("a.txt");
    let (create, view) = (json!({"path": file, "file_text": "one\ntwo\n"}), json!({"path": file}));
    let edit = json!({"path": file, "old_str": "two", "new_str": "three"});
    let task = json!({"agent_type": "general-purpose", "name": "n", "description": "Looks", "prompt": "say found"});
    for prompt in [
        "think about doors then say They open.".to_owned(),
        format!("call create {create} then call view {view} then call edit {edit} then say done"),
        r#"call bash {"command":"echo one; exit 3","description":"Fails"} then say done"#.to_owned(),
        "call an unknown tool".to_owned(),
        "malformed arguments".to_owned(),
        format!("call task {task} then say done"),
        "fail with server error 1 time then say ok".to_owned(),
        "fail with context too long 1 time then say fits".to_owned(),
        "fail with quota".to_owned(),
    ] {
        free.turn(said(&prompt)).await;
    }
    for command in ["echo typed", "exit 4"] {
        let prompt = Prompt {
            command: Some(command.to_owned()),
            ..said(command)
        };
        free.turn(prompt).await;
    }
    free.session.compact(Some("Keep the doors.".into())).await.unwrap();
    free.send(said("slowly 50 ms, stream 2000 chunks")).await;
    free.until(|payload| matches!(payload, Payload::AssistantMessageDelta(_)))
        .await;
    free.session.abort(AbortReason::UserInitiated).await.unwrap();
    free.until(|payload| matches!(payload, Payload::SessionIdle(_))).await;

    let mut asking = Told::of(&host, Approval::Ask, &work).await;
    let client = ClientSpec {
        name: "test".into(),
        can: Capabilities {
            permissions: true,
            ..Capabilities::default()
        },
        tools: Vec::new(),
        commands: Vec::new(),
        calls: Arc::new(NoCalls),
    };
    let _client = asking.session.attach_client(client).await.unwrap();
    asking.send(said(&format!("call create {create} then say done"))).await;
    asking
        .until(|payload| matches!(payload, Payload::PermissionRequested(_)))
        .await;
    asking.session.abort(AbortReason::UserInitiated).await.unwrap();
    asking.until(|payload| matches!(payload, Payload::SessionIdle(_))).await;

    let mut events = Vec::new();
    for mut told in [free, asking] {
        let id = told.session.id().to_owned();
        host.close(&id).await;
        told.until(|payload| matches!(payload, Payload::SessionShutdown(_)))
            .await;
        events.append(&mut told.seen);
    }
    let mut kinds: Vec<&str> = events.iter().map(Event::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert!(kinds.len() > 30, "{kinds:?}");
    all_parsers_read(&events);
}

fn all_parsers_read(events: &[Event]) {
    let required = ["CI", "LODGE_REQUIRE_CLIENTS"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let mut refused = String::new();
    let mut checked = Vec::new();
    for (language, version, generation) in RELEASES {
        let Some(mut reader) = reader(language, version) else {
            let missing = format!("the {language} SDK {version} is not installed (`cargo xtask clients` does it)");
            // Without Go or Java, those parsers are skipped.
            assert!(!required || language != "python", "{missing}");
            assert!(!required || language != "go" || !has("go"), "{missing}");
            eprintln!("not checked: {missing}");
            continue;
        };
        checked.push(language);
        let mut reader = reader.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lost = |event: &&Event| !LOST.iter().any(|(of, kind, _)| *of == version && *kind == event.kind());
        let lines: Vec<u8> = events
            .iter()
            .filter(|event| !event.is_beside())
            .filter(lost)
            .flat_map(|event| [generation.json(event), "\n".into()].concat())
            .collect();
        reader.stdin.take().unwrap().write_all(&lines).unwrap();
        let said = reader.wait_with_output().unwrap();
        if !said.status.success() {
            refused += &format!("== {language} {version}\n{}", String::from_utf8_lossy(&said.stdout));
        }
    }
    assert!(refused.is_empty(), "{refused}");
    assert!(
        !required || !has("mvn") || checked.contains(&"java"),
        "no release of the Java SDK is installed"
    );
}

/// Whether a program is installed.
fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(program).is_file())
}
