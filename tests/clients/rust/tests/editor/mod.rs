//! An editor on the official crate, with `lodge acp` at the other end.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol::{
    Agent, ByteStreams, Client, Error, JsonRpcRequest, on_receive_notification, on_receive_request,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo, SentRequest,
        schema::{
            CompleteElicitationNotification, ContentBlock, CreateElicitationRequest, CreateElicitationResponse,
            InitializeRequest, InitializeResponse, NewSessionRequest, PromptRequest, PromptResponse,
            ReadTextFileRequest, ReadTextFileResponse, RequestPermissionRequest, RequestPermissionResponse, SessionId,
            SessionNotification, StopReason, WriteTextFileRequest, WriteTextFileResponse,
        },
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(90);

/// A home and a directory to work in.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(place.home()).unwrap();
        fs::create_dir_all(place.work()).unwrap();
        place
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The built program, with nothing of this machine's configuration.
    pub fn lodge(&self, args: &[&str]) -> Command {
        let mut command = Command::new(std::env::var_os("LODGE_BIN").expect("LODGE_BIN names the program"));
        command
            .args(args)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("LODGE_HOME", self.home())
            .env("LODGE_HOST_LINGER", "3")
            .kill_on_drop(true);
        command
    }

    /// The log of a session.
    pub fn log(&self, session: &str) -> Vec<Value> {
        read_log(&self.home().join("session-state").join(session))
    }

    /// The log that a run of its own leaves.
    pub async fn log_of_a_run(&self, script: &str) -> Vec<Value> {
        let done = self.lodge(&["run", script]).output().await.unwrap();
        assert!(done.status.success(), "{script}: {done:?}");
        let sessions = fs::read_dir(self.home().join("session-state")).unwrap();
        let sessions: Vec<PathBuf> = sessions.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        read_log(&sessions[0])
    }
}

fn read_log(session: &Path) -> Vec<Value> {
    let text = fs::read_to_string(session.join("events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What the person at the editor does.
#[derive(Clone, Default)]
pub struct Person {
    /// The options that are chosen for permissions, one after the other; what follows is allowed once.
    pub choices: Vec<&'static str>,
    /// What forms are answered with.
    pub form: Value,
    /// What the editor has in a file that is not saved.
    pub unsaved: Option<&'static str>,
}

#[derive(Default)]
struct Seen {
    updates: Vec<Value>,
    asked: Vec<Value>,
    written: Vec<Value>,
}

/// An editor that has introduced itself.
#[derive(Clone)]
pub struct Editor {
    pub agent: ConnectionTo<Agent>,
    pub greeting: InitializeResponse,
    seen: Arc<Mutex<Seen>>,
    work: PathBuf,
}

fn json_of(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

/// Reads something in the protocol's words as the crate's type.
pub fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// Starts `lodge acp` with an editor at the other end, and ends both after `act`.
pub async fn edit(place: &Place, person: Person, act: impl AsyncFnOnce(&Editor)) {
    let mut child = place
        .lodge(&["acp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap().compat_write();
    let stdout = child.stdout.take().unwrap().compat();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (updates, permissions, forms, pages, reads, writes) = (
        seen.clone(),
        seen.clone(),
        seen.clone(),
        seen.clone(),
        seen.clone(),
        seen.clone(),
    );
    let can_edit = person.unsaved.is_some();
    let (form, unsaved) = (person.form, person.unsaved.unwrap_or_default());
    let mut choices = person.choices.into_iter();
    let client = Client
        .v1()
        .on_receive_notification(
            async move |told: SessionNotification, _| {
                updates.lock().unwrap().updates.push(json_of(&told.update));
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_notification(
            async move |told: CompleteElicitationNotification, _| {
                pages.lock().unwrap().asked.push(json_of(&told));
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |asked: RequestPermissionRequest, responder, _| {
                permissions.lock().unwrap().asked.push(json_of(&asked));
                let chosen = choices.next().unwrap_or("allow-once");
                let outcome = json!({ "outcome": { "outcome": "selected", "optionId": chosen } });
                responder.respond(typed::<RequestPermissionResponse>(outcome))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |asked: CreateElicitationRequest, responder, _| {
                forms.lock().unwrap().asked.push(json_of(&asked));
                let answer = json!({ "action": "accept", "content": form.clone() });
                responder.respond(typed::<CreateElicitationResponse>(answer))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |asked: ReadTextFileRequest, responder, _| {
                reads.lock().unwrap().asked.push(json_of(&asked));
                responder.respond(ReadTextFileResponse::new(unsaved))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |asked: WriteTextFileRequest, responder, _| {
                fs::write(&asked.path, &asked.content).unwrap();
                writes.lock().unwrap().written.push(json_of(&asked));
                responder.respond(WriteTextFileResponse::new())
            },
            on_receive_request!(),
        );
    let (work, told) = (place.work(), seen.clone());
    let session = client.connect_with(
        ByteStreams::new(stdin, stdout),
        async move |agent: ConnectionTo<Agent>| {
            let capabilities = json!({
                "elicitation": { "form": {}, "url": {} },
                "session": { "notices": {}, "compaction": {} },
                "auth": { "terminal": true },
                "fs": { "readTextFile": can_edit, "writeTextFile": can_edit },
            });
            let greeting = InitializeRequest::new(ProtocolVersion::V1)
                .client_capabilities(typed::<agent_client_protocol::v1::schema::ClientCapabilities>(
                    capabilities,
                ))
                .client_info(agent_client_protocol::v1::schema::Implementation::new(
                    "lodge-tests",
                    "1",
                ));
            let greeting = agent.send_request(greeting).block_task().await?;
            let editor = Editor {
                agent,
                greeting,
                seen: told,
                work,
            };
            act(&editor).await;
            Ok(())
        },
    );
    tokio::time::timeout(PATIENCE * 2, session)
        .await
        .expect("the editor is done")
        .unwrap();
    let done = tokio::time::timeout(PATIENCE, child.wait())
        .await
        .expect("the agent ends")
        .unwrap();
    assert!(done.success(), "{done}");
}

impl Editor {
    /// Asks the agent.
    pub async fn call<R: JsonRpcRequest>(&self, request: R) -> Result<R::Response, Error>
    where
        R::Response: Send,
    {
        let answer = self.agent.send_request(request).block_task();
        tokio::time::timeout(PATIENCE, answer).await.expect("an answer comes")
    }

    pub async fn new_session(&self) -> SessionId {
        self.call(NewSessionRequest::new(&self.work)).await.unwrap().session_id
    }

    pub fn prompt(&self, session: &SessionId, text: &str) -> SentRequest<PromptResponse> {
        let prompt = vec![ContentBlock::from(text)];
        self.agent.send_request(PromptRequest::new(session.clone(), prompt))
    }

    /// Says something and waits for the end of the turn.
    pub async fn say(&self, session: &SessionId, text: &str) -> StopReason {
        let stopped = tokio::time::timeout(PATIENCE, self.prompt(session, text).block_task()).await;
        stopped.expect("the turn ends").unwrap().stop_reason
    }

    pub fn forget(&self) {
        *self.seen.lock().unwrap() = Seen::default();
    }

    /// The updates of a kind.
    pub fn told(&self, kind: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        let of_kind = seen.updates.iter().filter(|update| update["sessionUpdate"] == kind);
        of_kind.cloned().collect()
    }

    /// The text of all chunks of a kind.
    pub fn text(&self, kind: &str) -> String {
        let chunks = self.told(kind);
        chunks
            .iter()
            .filter_map(|chunk| chunk["content"]["text"].as_str())
            .collect()
    }

    pub fn asked(&self) -> Vec<Value> {
        self.seen.lock().unwrap().asked.clone()
    }

    pub fn written(&self) -> Vec<Value> {
        self.seen.lock().unwrap().written.clone()
    }

    /// Waits until something is to be seen.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !is_so(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let came = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(came.is_ok(), "{what}: {:#?}", self.seen.lock().unwrap().updates);
    }
}
