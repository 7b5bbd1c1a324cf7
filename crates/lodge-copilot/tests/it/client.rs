//! A client that speaks frames and nothing else.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use lodge_copilot::{
    ServerOptions,
    frame::{Frame, FrameReader, Inbound},
    serve_connection,
};
use lodge_host::{Clock, Home, HomeOptions, Host, HostConfig};
use lodge_models::{Catalogue, ModelsConfig};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf},
    net::TcpStream,
    task::JoinHandle,
};

/// A host in a home of its own.
pub(crate) struct House {
    pub(crate) host: Host,
    dir: Arc<tempfile::TempDir>,
}

impl House {
    pub(crate) fn new() -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Self { host: open(&dir), dir }
    }

    /// Another host on the same home, as after a restart.
    pub(crate) async fn restarted(self) -> Self {
        self.host.shutdown().await;
        drop(self.host);
        Self {
            host: open(&self.dir),
            dir: self.dir,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(ServerOptions::default(), 1 << 20)
    }

    /// A client whose pipe holds so many bytes.
    pub(crate) fn client_with(&self, options: ServerOptions, pipe: usize) -> Client {
        let (near, far) = tokio::io::duplex(pipe);
        let (input, output) = tokio::io::split(far);
        let task = tokio::spawn(serve_connection(self.host.clone(), input, output, options));
        self.client_at(near, task)
    }

    /// A client of a server that listens.
    pub(crate) async fn client_of(&self, address: std::net::SocketAddr) -> Client {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let task = tokio::spawn(async move { drop(tokio::io::copy_bidirectional(&mut far, &mut socket).await) });
        self.client_at(near, task)
    }

    fn client_at(&self, near: DuplexStream, task: JoinHandle<()>) -> Client {
        let (input, output) = tokio::io::split(near);
        Client {
            frames: FrameReader::new(input),
            output,
            next_id: 0,
            waiting: VecDeque::new(),
            _task: task,
            work: self.dir.path().join("work").to_string_lossy().into_owned(),
        }
    }
}

fn open(dir: &tempfile::TempDir) -> Host {
    Host::new(HostConfig {
        home: Home::open(dir.path(), HomeOptions::default()).unwrap(),
        models: Catalogue::from(ModelsConfig::default(), |_| None).unwrap(),
        sandbox: None,
        idle_after: Duration::from_secs(300),
        version: "test".into(),
        clock: Clock::default(),
    })
    .unwrap()
}

pub(crate) struct Client {
    frames: FrameReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
    next_id: u64,
    /// Messages that came while something else was waited for.
    waiting: VecDeque<Value>,
    _task: JoinHandle<()>,
    pub(crate) work: String,
}

impl Client {
    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        self.output.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn message(&mut self, message: &Value) {
        let frame = Frame::whole(message.to_string());
        self.raw(frame.header().as_bytes()).await;
        self.raw(&frame.pieces()[0].clone()).await;
    }

    /// The next message. Panics when there is none for long: something hangs.
    pub(crate) async fn next(&mut self) -> Value {
        self.try_next().await.expect("the connection was closed")
    }

    pub(crate) async fn try_next(&mut self) -> Option<Value> {
        if let Some(message) = self.waiting.pop_front() {
            return Some(message);
        }
        self.receive().await
    }

    async fn receive(&mut self) -> Option<Value> {
        let read = tokio::time::timeout(Duration::from_secs(20), self.frames.next());
        match read.await.expect("nothing came for long").ok()?? {
            Inbound::Body(body) => Some(serde_json::from_slice(&body).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    /// Sends a request without waiting for its answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.message(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    /// The answer to a request; what else comes is kept.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        let is_answer = |message: &Value| message["id"] == id && message.get("method").is_none();
        if let Some(at) = self.waiting.iter().position(is_answer) {
            return self.waiting.remove(at).unwrap();
        }
        loop {
            let message = self.receive().await.expect("the connection was closed");
            if is_answer(&message) {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    /// Calls a method that succeeds.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        let mut answer = self.answer(id).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Calls a method that fails.
    pub(crate) async fn fail(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.ask(method, params).await;
        let answer = self.answer(id).await;
        let error = answer
            .get("error")
            .unwrap_or_else(|| panic!("{method} did not fail: {answer}"));
        (
            error["code"].as_i64().unwrap(),
            error["message"].as_str().unwrap().to_owned(),
        )
    }

    /// Makes a session with this configuration.
    pub(crate) async fn create(&mut self, mut config: Value) -> String {
        if config.get("workingDirectory").is_none() {
            config["workingDirectory"] = json!(self.work);
        }
        self.call("session.create", config).await["sessionId"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The next event of a type, skipping what comes before it.
    pub(crate) async fn event(&mut self, kind: &str) -> Value {
        loop {
            let mut message = self.next().await;
            if message["params"]["event"]["type"] == kind {
                return message["params"]["event"].take();
            }
        }
    }

    /// All events up to and including one of a type.
    pub(crate) async fn events_until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let mut message = self.next().await;
            if message["method"] == "session.event" {
                let event = message["params"]["event"].take();
                let last = event["type"] == kind;
                events.push(event);
                if last {
                    return events;
                }
            }
        }
    }

    /// The next request of the server to this client.
    pub(crate) async fn request(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] == method && message.get("id").is_some() {
                return message;
            }
        }
    }

    /// Says something and waits for the end of it.
    pub(crate) async fn say(&mut self, session: &str, prompt: &str) -> Vec<Value> {
        self.call("session.send", json!({"sessionId": session, "prompt": prompt}))
            .await;
        self.events_until("session.idle").await
    }
}

/// The types of events, without those that come in no fixed number.
pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}
