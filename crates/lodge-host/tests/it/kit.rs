//! What the tests share: a host in a temporary home, and a probe that listens to one session.

use std::{path::Path, sync::Arc, time::Duration};

use lodge_events::{Event, Payload};
use lodge_host::{
    Attachment, Capabilities, ClientCalls, ClientSpec, ClientTool, Clock, Home, HomeOptions, Host, HostConfig,
    NewSession, NoCalls, Notice, Prompt, Session, Subscription,
};
use tempfile::TempDir;

/// The host comes first: it must be gone before its directory is.
pub(crate) struct House {
    pub(crate) host: Host,
    pub(crate) dir: TempDir,
}

pub(crate) fn host_at(path: &Path, idle_after: Duration) -> Host {
    host_on(Home::open(path, HomeOptions::default()).unwrap(), idle_after)
}

pub(crate) fn shared_host_at(path: &Path) -> Host {
    let options = HomeOptions {
        exclusive: false,
        ..HomeOptions::default()
    };
    host_on(Home::open(path, options).unwrap(), Duration::from_secs(600))
}

pub(crate) fn host_on(home: Home, idle_after: Duration) -> Host {
    host_by(home, idle_after, Clock::default())
}

/// A host on a home that another one just let go of: its last tasks may still hold the lock for a moment.
pub(crate) async fn host_after(path: &Path, clock: &Clock) -> Host {
    loop {
        match Home::open(path, HomeOptions::default()) {
            Ok(home) => return host_by(home, Duration::from_secs(600), clock.clone()),
            Err(lodge_host::LogError::Locked { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn host_by(home: Home, idle_after: Duration, clock: Clock) -> Host {
    let models = lodge_models::Catalogue::from(lodge_models::ModelsConfig::default(), |_| None).unwrap();
    Host::new(HostConfig {
        home,
        models,
        sandbox: None,
        idle_after,
        version: "0.0.0-test".into(),
        clock,
    })
    .unwrap()
}

pub(crate) fn house() -> House {
    let dir = tempfile::tempdir().unwrap();
    let host = host_at(&dir.path().join("home"), Duration::from_secs(600));
    House { dir, host }
}

impl House {
    pub(crate) fn cwd(&self) -> std::path::PathBuf {
        let cwd = self.dir.path().join("work");
        std::fs::create_dir_all(&cwd).unwrap();
        cwd
    }

    pub(crate) async fn session(&self) -> Probe {
        self.session_with(NewSession::default()).await
    }

    pub(crate) async fn session_with(&self, new: NewSession) -> Probe {
        let session = self
            .host
            .create(NewSession {
                cwd: Some(self.cwd()),
                ..new
            })
            .await
            .unwrap();
        Probe::on(session)
    }
}

/// Listens to a session.
pub(crate) struct Probe {
    pub(crate) session: Session,
    events: Subscription,
    pub(crate) seen: Vec<Event>,
}

impl Probe {
    pub(crate) fn on(session: Session) -> Self {
        Self {
            events: session.subscribe(usize::MAX),
            session,
            seen: Vec::new(),
        }
    }

    pub(crate) async fn send(&self, text: &str) -> String {
        self.session
            .send(Prompt {
                text: text.into(),
                ..Prompt::default()
            })
            .await
            .unwrap()
    }

    /// The next event for which `f` has something to say.
    pub(crate) async fn until<T>(&mut self, mut f: impl FnMut(&Payload) -> Option<T>) -> T {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(30), self.events.next());
            match next
                .await
                .unwrap_or_else(|_| panic!("nothing more came after {:?}", self.kinds()))
            {
                Some(Notice::Event(event)) => {
                    let found = f(event.payload());
                    self.seen.push(event);
                    if let Some(found) = found {
                        return found;
                    }
                }
                other => panic!("{other:?} after {:?}", self.kinds()),
            }
        }
    }

    pub(crate) async fn until_idle(&mut self) -> bool {
        self.until(|payload| match payload {
            Payload::SessionIdle(idle) => Some(idle.aborted.unwrap_or(false)),
            _ => None,
        })
        .await
    }

    /// Sends and waits for idle; the last thing the assistant said.
    pub(crate) async fn turn(&mut self, text: &str) -> String {
        self.seen.clear();
        self.send(text).await;
        self.until_idle().await;
        self.said()
    }

    pub(crate) fn said(&self) -> String {
        let said = self.seen.iter().rev().find_map(|event| match event.payload() {
            Payload::AssistantMessage(message) => Some(message.content.clone()),
            _ => None,
        });
        said.unwrap_or_default()
    }

    /// What tools answered, in the order in which they ended.
    pub(crate) fn results(&self) -> Vec<String> {
        self.seen
            .iter()
            .filter_map(|event| match event.payload() {
                Payload::ToolExecutionComplete(done) => Some(match (&done.result, &done.error) {
                    (Some(result), _) => result.content.clone(),
                    (None, Some(error)) => format!("{}: {}", error.code.as_deref().unwrap_or("?"), error.message),
                    (None, None) => String::new(),
                }),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.seen.iter().map(Event::kind).collect()
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.seen.iter().filter(|event| event.kind() == kind).count()
    }

    pub(crate) async fn attach(&self, can: Capabilities) -> Attachment {
        self.attach_with(can, Vec::new(), Arc::new(NoCalls)).await
    }

    pub(crate) async fn attach_with(
        &self,
        can: Capabilities,
        tools: Vec<ClientTool>,
        calls: Arc<dyn ClientCalls>,
    ) -> Attachment {
        self.session
            .attach_client(ClientSpec {
                name: "test".into(),
                can,
                tools,
                commands: Vec::new(),
                calls,
            })
            .await
            .unwrap()
    }
}

/// Every persisted event of a log, with its chain checked. What hangs beside the chain is among them.
pub(crate) fn log_of(session: &Session) -> Vec<Event> {
    let events: Vec<Event> = session.history().unwrap().events().map(Result::unwrap).collect();
    let mut parent = None;
    for event in &events {
        assert_eq!(event.parent_id(), parent, "the chain breaks at {event:?}");
        assert!(!event.is_ephemeral(), "{event:?} does not belong into a log");
        if !event.is_beside() {
            parent = Some(event.id());
        }
    }
    events
}

/// The events of the chain: the conversation, without what hangs beside it.
pub(crate) fn chain_of(session: &Session) -> Vec<Event> {
    let mut events = log_of(session);
    events.retain(|event| !event.is_beside());
    events
}

pub(crate) fn tool(name: &str) -> ClientTool {
    ClientTool {
        name: name.into(),
        description: "A tool of the client.".into(),
        parameters: Arc::new(serde_json::json!({"type": "object"})),
        overrides_builtin: false,
        skip_permission: true,
        terminal: false,
        read_only: false,
    }
}
