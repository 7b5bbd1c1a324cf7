//! A small client of the SDK's wire, the same for every server that is measured.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::model;

/// Longer than anything that is measured takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server, killed when dropped.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) port: Option<u16>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Either may already have happened.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An event as it arrived.
pub(super) struct Arrived {
    pub(super) at: u64,
    pub(super) session: String,
    pub(super) kind: String,
    pub(super) ephemeral: bool,
    pub(super) id: String,
    data: Box<RawValue>,
}

impl Arrived {
    /// A text within `data`.
    pub(super) fn data(&self, field: &str) -> String {
        let data: Value = serde_json::from_str(self.data.get()).unwrap_or_default();
        data[field].as_str().unwrap_or_default().to_owned()
    }
}

type Waiting = Arc<Mutex<HashMap<u64, Sender<Result<Value, String>>>>>;

/// A connection.
pub(super) struct Client {
    writer: Mutex<Box<dyn Write + Send>>,
    waiting: Waiting,
    next: AtomicU64,
    events: Receiver<Arrived>,
    /// Bytes and frames received so far.
    pub(super) received: Arc<(AtomicU64, AtomicU64)>,
}

/// Everything in one pass, because the client shares the machine with what it measures.
#[derive(Deserialize)]
struct Message<'a> {
    id: Option<u64>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<EventParams<'a>>,
    result: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventParams<'a> {
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    event: Option<Event<'a>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    id: &'a str,
    #[serde(default)]
    ephemeral: bool,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Starts a server on standard input and output, or on a port of its choice.
pub(super) fn start(program: &Path, home: &Path, tcp: bool) -> Result<(Server, Client)> {
    let mut command = Command::new(program);
    command.args(["--headless", "--no-auto-update"]);
    command.args(if tcp { ["--port", "0"].as_slice() } else { &["--stdio"] });
    let work = home.join("work");
    std::fs::create_dir_all(&work)?;
    command
        .current_dir(&work)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("COPILOT_HOME", home)
        .stdin(if tcp { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let stdout = child.stdout.take().context("piped above")?;
    if !tcp {
        let stdin = child.stdin.take().context("piped above")?;
        return Ok((Server { child, port: None }, Client::new(stdout, stdin)));
    }
    let mut server = Server { child, port: None };
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        if let Some((_, port)) = line.split_once("listening on port ") {
            server.port = Some(port.trim().parse()?);
            let client = connect(&server)?;
            return Ok((server, client));
        }
    }
    bail!("{} ended without naming its port", program.display())
}

/// Another connection to a server on a port.
pub(super) fn connect(server: &Server) -> Result<Client> {
    let stream = TcpStream::connect(("127.0.0.1", server.port.context("a server on a port")?))?;
    stream.set_nodelay(true)?;
    Ok(Client::new(stream.try_clone()?, stream))
}

impl Client {
    fn new(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        let waiting = Waiting::default();
        let received = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let (send, events) = channel();
        let (answers, counters) = (waiting.clone(), received.clone());
        std::thread::spawn(move || {
            // The end of the connection ends the thread; whoever waits for an answer is told by the dropped sender.
            let _ = read_all(BufReader::with_capacity(256 << 10, reader), &answers, &send, &counters);
            answers.lock().expect("no panic while held").clear();
        });
        Self {
            writer: Mutex::new(Box::new(writer)),
            waiting,
            next: AtomicU64::new(1),
            events,
            received,
        }
    }

    /// Sends a request and gives the place where its answer will arrive.
    pub(super) fn send(&self, method: &str, params: &Value) -> Result<Receiver<Result<Value, String>>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (send, receive) = channel();
        self.waiting.lock().expect("no panic while held").insert(id, send);
        let body = serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let mut frame = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
        frame.extend(body);
        let mut writer = self.writer.lock().expect("no panic while held");
        writer.write_all(&frame)?;
        writer.flush()?;
        Ok(receive)
    }

    /// A request and its answer.
    pub(super) fn call(&self, method: &str, params: &Value) -> Result<Value> {
        let answer = self
            .send(method, params)?
            .recv_timeout(PATIENCE)
            .with_context(|| format!("no answer to {method}"))?;
        answer.map_err(|error| anyhow::anyhow!("{method}: {error}"))
    }

    /// The next event of any session.
    pub(super) fn event(&self) -> Result<Arrived> {
        self.events.recv_timeout(PATIENCE).context("no event came")
    }

    /// Creates a session that streams from the instant model and has one tool, `probe`.
    pub(super) fn create(&self, id: &str, url: &str) -> Result<()> {
        self.call("session.create", &config(id, url)).map(drop)
    }

    /// Sends a prompt and collects events until the session is idle, answering what is asked.
    pub(super) fn turn(&self, session: &str, prompt: &str) -> Result<Vec<Arrived>> {
        let sent = self.send("session.send", &json!({"sessionId": session, "prompt": prompt}))?;
        let mut events = Vec::new();
        loop {
            let event = self.event()?;
            if event.session != session {
                continue;
            }
            self.answer(&event)?;
            let idle = event.kind == "session.idle";
            if event.kind == "session.error" {
                bail!("the turn failed: {}", event.data("message"));
            }
            events.push(event);
            if idle {
                break;
            }
        }
        if let Ok(Err(error)) = sent.recv_timeout(PATIENCE) {
            bail!("session.send: {error}");
        }
        Ok(events)
    }

    /// Answers a call of our tool or a question for permission.
    pub(super) fn answer(&self, event: &Arrived) -> Result<()> {
        let request = || json!({"sessionId": event.session, "requestId": event.data("requestId")});
        match event.kind.as_str() {
            "external_tool.requested" => {
                let mut params = request();
                params["result"] = "ok".into();
                self.send("session.tools.handlePendingToolCall", &params)?;
            }
            "permission.requested" => {
                let mut params = request();
                params["result"] = json!({"kind": "approve-once"});
                self.send("session.permissions.handlePendingPermissionRequest", &params)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The settings of every session that is measured.
pub(super) fn config(id: &str, url: &str) -> Value {
    json!({
        "sessionId": id, "model": "m", "streaming": true, "requestPermission": true,
        "provider": {"type": "openai", "wireApi": "completions", "baseUrl": url, "apiKey": "k"},
        "tools": [{
            "name": "probe", "description": "Does nothing", "skipPermission": true,
            "parameters": {"type": "object", "properties": {}},
        }],
    })
}

fn read_all(
    mut reader: impl BufRead,
    waiting: &Mutex<HashMap<u64, Sender<Result<Value, String>>>>,
    events: &Sender<Arrived>,
    received: &(AtomicU64, AtomicU64),
) -> Result<()> {
    let mut line = String::new();
    let mut body = Vec::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let length: usize = line
            .trim()
            .strip_prefix("Content-Length: ")
            .context("a frame begins with its length")?
            .parse()?;
        reader.read_line(&mut line)?;
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
        received.0.fetch_add((length + line.len()) as u64, Ordering::Relaxed);
        received.1.fetch_add(1, Ordering::Relaxed);
        let message: Message<'_> = serde_json::from_slice(&body)?;
        match (message.method, message.params, message.id) {
            (
                Some("session.event"),
                Some(EventParams {
                    session_id: Some(session),
                    event: Some(event),
                }),
                _,
            ) => {
                let arrived = Arrived {
                    at: model::now(),
                    session: session.into_owned(),
                    kind: event.r#type.to_owned(),
                    ephemeral: event.ephemeral,
                    id: event.id.to_owned(),
                    data: event.data.to_owned(),
                };
                if events.send(arrived).is_err() {
                    return Ok(());
                }
            }
            (None, _, Some(id)) => {
                if let Some(sender) = waiting.lock().expect("no panic while held").remove(&id) {
                    let answer = message
                        .error
                        .map_or(Ok(message.result.unwrap_or_default()), |error| Err(error.to_string()));
                    // Whoever asked may not want to know any more.
                    let _ = sender.send(answer);
                }
            }
            _ => {}
        }
    }
}

/// Runs something and says how long it took, in milliseconds.
pub(super) fn timed<T>(run: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let start = Instant::now();
    let value = run()?;
    Ok((value, start.elapsed().as_secs_f64() * 1e3))
}

/// The middle of several numbers.
pub(super) fn median(numbers: Vec<f64>) -> f64 {
    percentile(numbers, 50)
}

/// The number below which so many of a hundred lie.
pub(super) fn percentile(mut numbers: Vec<f64>, percent: usize) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let numbers = VecDeque::from(numbers);
    numbers
        .get((numbers.len().saturating_sub(1)) * percent / 100)
        .copied()
        .unwrap_or(f64::NAN)
}
