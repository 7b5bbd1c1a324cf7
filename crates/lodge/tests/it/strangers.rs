//! What strangers and greedy clients do to a host, while a good client works. The good client is answered all the time,
//! and the host's memory stays bounded.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use testkit::{Home, Running, lodge_bin};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

/// Longer than anything here takes; only a hang gets to see the end of it.
const PATIENCE: Duration = Duration::from_secs(120);
/// What the host may need at its peak, in KiB.
const PEAK: u64 = 200 << 10;

/// How much is done: 1 in tests, more in `cargo xtask soak strangers`.
fn rounds() -> usize {
    let rounds = std::env::var("LODGE_STRANGER_ROUNDS").ok();
    rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

pub(crate) struct Host {
    pub(crate) home: Home,
    pub(crate) running: Running,
    ahp: SocketAddr,
    sdk: SocketAddr,
    token: String,
}

impl Host {
    fn start() -> Self {
        Self::start_with("")
    }

    /// A host whose shell did something before it.
    fn start_with(before: &str) -> Self {
        Self::start_in(Home::new(), before)
    }

    /// A host in a home that may have been one before.
    pub(crate) fn start_in(home: Home, before: &str) -> Self {
        let lodge = home.command(["--port", "0", "--sdk-port", "0"]);
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{before}\nexec \"$0\" \"$@\"")])
            .arg(lodge_bin())
            .args(lodge.get_args())
            .current_dir(home.work())
            .env_clear()
            .envs(lodge.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut running = Running::start(&mut command);
        running.line_with("Ctrl-C stops");
        let note = std::fs::read_to_string(home.path().join("host.json")).unwrap();
        let note: Value = serde_json::from_str(&note).unwrap();
        let ahp = note["ahp"].as_str().unwrap();
        Self {
            running,
            ahp: ahp
                .strip_prefix("ws://")
                .unwrap()
                .trim_end_matches('/')
                .parse()
                .unwrap(),
            sdk: note["copilot"].as_str().unwrap().parse().unwrap(),
            token: std::fs::read_to_string(home.path().join("token")).unwrap(),
            home,
        }
    }

    /// Where apps connect, and the token that they show.
    pub(crate) fn sdk(&self) -> (SocketAddr, String) {
        (self.sdk, self.token.clone())
    }

    /// Where AHP clients connect.
    pub(crate) fn ahp_url(&self) -> String {
        format!("ws://{}/?tkn={}", self.ahp, self.token.trim())
    }

    /// A number of the process, in KiB.
    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.running.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':')
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.running.id()))
            .unwrap()
            .count()
    }
}

fn stranger(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Everything that comes until the host closes the connection.
fn until_closed(mut stream: TcpStream) -> String {
    let mut seen = Vec::new();
    match stream.read_to_end(&mut seen) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the connection goes on: {error}"),
    }
    String::from_utf8_lossy(&seen).into_owned()
}

fn frame(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A client of the SDK wire.
pub(crate) struct Sdk {
    reader: BufReader<TcpStream>,
    last: u64,
    /// Events that came before an answer.
    pub(crate) waiting: VecDeque<Value>,
}

impl Sdk {
    pub(crate) fn connect(host: &Host) -> Self {
        let (address, token) = host.sdk();
        Self::try_connect(address, &token).expect("the host lets a good client in")
    }

    /// The same where the host may be gone, or not answer.
    pub(crate) fn try_connect(address: SocketAddr, token: &str) -> std::io::Result<Self> {
        Self::try_connect_within(PATIENCE, address, token)
    }

    /// The same for a client that waits only so long for anything.
    pub(crate) fn try_connect_within(patience: Duration, address: SocketAddr, token: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        let mut sdk = Self {
            reader: BufReader::new(stream),
            last: 0,
            waiting: VecDeque::new(),
        };
        sdk.try_call("connect", json!({ "token": token }))?.unwrap();
        Ok(sdk)
    }

    pub(crate) fn next(&mut self) -> Value {
        self.try_next().expect("the host keeps a good client")
    }

    /// The same where the host may close the connection.
    pub(crate) fn try_next(&mut self) -> std::io::Result<Value> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            match line.trim().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().unwrap(),
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body).unwrap())
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.try_call(method, params).expect("the host keeps a good client")
    }

    /// The same where the host may close the connection.
    pub(crate) fn try_call(&mut self, method: &str, params: Value) -> std::io::Result<Result<Value, Value>> {
        self.last += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        self.reader.get_mut().write_all(&frame(&request))?;
        loop {
            let mut message = self.try_next()?;
            if message["id"] == self.last && message.get("method").is_none() {
                return Ok(match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].take()),
                });
            }
            self.waiting.push_back(message);
        }
    }

    pub(crate) fn turn(&mut self, session: &str, text: &str) {
        self.waiting.clear();
        let params = json!({ "sessionId": session, "prompt": text });
        self.call("session.send", params).unwrap();
        loop {
            // It may be over before the answer comes.
            let message = self.waiting.pop_front().unwrap_or_else(|| self.next());
            let event = &message["params"];
            if event["sessionId"] == session && event["event"]["type"] == "session.idle" {
                return;
            }
        }
    }
}

/// A client of AHP.
struct Ahp(WebSocket<TcpStream>);

impl Ahp {
    fn connect(host: &Host, name: &str) -> Self {
        let url = format!("ws://{}/?tkn={}", host.ahp, host.token);
        let config = tungstenite::protocol::WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let (socket, _) = tungstenite::client::client_with_config(url, stranger(host.ahp), Some(config)).unwrap();
        let mut ahp = Self(socket);
        let params = json!({ "channel": "ahp-root://", "protocolVersions": ["1.0.0"], "clientId": name });
        ahp.call("initialize", params);
        ahp
    }

    fn send(&mut self, method: &str, params: Value) {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.0.send(Message::text(request.to_string())).unwrap();
    }

    /// The answer to the one request that is open, unread.
    fn answer(&mut self) -> String {
        loop {
            match self.0.read().unwrap() {
                Message::Text(text) if text.contains("\"id\":1,") => return text.to_string(),
                _ => {}
            }
        }
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params);
        serde_json::from_str(&self.answer()).unwrap()
    }
}

/// A client that works on both wires until it is stopped, and how long it waited each time.
struct GoodClient {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<Duration>, Vec<Duration>)>,
}

impl GoodClient {
    fn start(host: &Host) -> Self {
        let (mut sdk, mut ahp) = (Sdk::connect(host), Ahp::connect(host, "good"));
        let created = sdk
            .call("session.create", json!({ "workingDirectory": host.home.work() }))
            .unwrap();
        let session = created["sessionId"].as_str().unwrap().to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut pings, mut turns) = (Vec::new(), Vec::new());
            while !stopped.load(Ordering::Relaxed) || turns.is_empty() {
                for _ in 0..10 {
                    let asked = Instant::now();
                    sdk.call("ping", json!({})).unwrap();
                    ahp.call("ping", json!({}));
                    pings.push(asked.elapsed());
                }
                let asked = Instant::now();
                sdk.turn(&session, "say fine");
                turns.push(asked.elapsed());
            }
            (pings, turns)
        });
        Self { stop, thread }
    }

    /// Every request was answered, or this panics; the times are printed.
    fn finish(self, what: &str, host: &Host) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut pings, mut turns) = self.thread.join().expect("the good client was not served");
        let p99 = |times: &mut Vec<Duration>| {
            times.sort();
            times[times.len() * 99 / 100]
        };
        eprintln!(
            "{what}: {} pings on both wires, p99 {:?}; {} turns, p99 {:?}; peak {} MB",
            pings.len(),
            p99(&mut pings),
            turns.len(),
            p99(&mut turns),
            host.memory("VmHWM") >> 10,
        );
    }
}

/// Runs an attack while a good client works.
fn attacked(what: &str, attack: impl Fn(&Host)) {
    let host = Host::start();
    let good = GoodClient::start(&host);
    for _ in 0..rounds() {
        attack(&host);
    }
    good.finish(what, &host);
    // Whoever comes now is served, too.
    Sdk::connect(&host).call("ping", json!({})).unwrap();
    Ahp::connect(&host, "late").call("ping", json!({}));
    let peak = host.memory("VmHWM");
    assert!(peak <= PEAK, "{what}: {peak} KiB");
}

#[test]
fn hundreds_of_silent_connections_keep_nobody_out() {
    attacked("600 silent connections a wire", |host| {
        let silent: Vec<TcpStream> = (0..600)
            .flat_map(|_| [stranger(host.sdk), stranger(host.ahp)])
            .collect();
        // Those that came first made room for later ones.
        for first in silent.into_iter().take(2) {
            assert_eq!(until_closed(first), "");
        }
    });
}

#[test]
fn a_stranger_can_not_make_the_host_hold_what_it_sends() {
    attacked("59 MB before the token, 60 times", |host| {
        let piece = vec![b' '; 1 << 20];
        let senders = (0..60).map(|_| {
            let (mut stream, piece) = (stranger(host.sdk), piece.clone());
            std::thread::spawn(move || {
                let head = b"Content-Length: 59000000\r\n\r\n{";
                let sent = (0..59).try_for_each(|number| match number {
                    0 => stream.write_all(head),
                    _ => stream.write_all(&piece),
                });
                assert!(sent.is_err() || until_closed(stream).contains("before the token"));
            })
        });
        let senders: Vec<_> = senders.collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn the_third_wrong_token_is_the_last_one_of_its_connection() {
    attacked("wrong tokens", |host| {
        let guess = json!({ "jsonrpc": "2.0", "id": 1, "method": "connect", "params": { "token": "wrong" } });
        let mut stream = stranger(host.sdk);
        let sent = (0..10_000).try_for_each(|_| stream.write_all(&frame(&guess)));
        let seen = until_closed(stream);
        let refused = seen.matches("AUTHENTICATION_FAILED").count();
        assert!(refused <= 3, "{refused} {sent:?}");
        // Read at leisure, the answer says why it is the end.
        let mut stream = stranger(host.sdk);
        stream.write_all(&frame(&guess).repeat(3)).unwrap();
        let seen = until_closed(stream);
        assert!(seen.contains("3 wrong tokens"), "{seen}");
        // One request a connection on the other wire.
        for _ in 0..20 {
            let mut stream = stranger(host.ahp);
            let request = format!(
                "GET /?tkn=wrong HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                host.ahp
            );
            stream.write_all(request.repeat(3).as_bytes()).unwrap();
            let seen = until_closed(stream);
            assert_eq!(seen.matches("HTTP/1.1 403").count(), 1, "{seen}");
        }
    });
}

#[test]
fn requests_that_never_end_and_other_protocols_are_refused() {
    attacked("500 requests that never end", |host| {
        let slow: Vec<TcpStream> = (0..500)
            .map(|_| {
                let mut stream = stranger(host.ahp);
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: loc");
                stream
            })
            .collect();
        drop(slow);
        let mut large = stranger(host.ahp);
        let header = format!("X: {}\r\n", "x".repeat(8000));
        let _ = large.write_all(format!("GET / HTTP/1.1\r\n{}", header.repeat(20)).as_bytes());
        let seen = until_closed(large);
        assert!(seen.is_empty() || seen.starts_with("HTTP/1.1 431"), "{seen}");
        let mut h2c = stranger(host.ahp);
        h2c.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .unwrap();
        let seen = until_closed(h2c);
        assert!(seen.is_empty() || seen.starts_with("HTTP/1.1 4"), "{seen:?}");
    });
}

#[test]
fn large_files_are_read_in_pieces() {
    let size: usize = 16 << 20;
    attacked("8 readers of 16 MiB of NULs", |host| {
        let file = std::fs::File::create(host.home.work().join("nuls")).unwrap();
        file.set_len(size as u64).unwrap();
        let uri = format!("file://{}/nuls", host.home.work().canonicalize().unwrap().display());
        let readers = (0..8).map(|number| {
            let (mut reader, uri) = (Ahp::connect(host, &format!("reader {number}")), uri.clone());
            std::thread::spawn(move || {
                reader.send("resourceRead", json!({ "channel": "ahp-root://", "uri": uri }));
                // Counted as it comes: this process need not hold it either.
                let (mut total, mut end, mut piece) = (0, Vec::new(), vec![0; 64 << 10]);
                while !end.ends_with(br#"","encoding":"utf-8"}}"#) {
                    let read = reader.0.get_mut().read(&mut piece).unwrap();
                    assert!(read > 0, "the answer was cut off");
                    total += read;
                    end.extend(&piece[..read]);
                    end.drain(..end.len().saturating_sub(40));
                }
                // Each of them is spelt with six characters; little is added to them.
                assert!((6 * size..6 * size + size / 100).contains(&total), "{total}");
            })
        });
        let readers: Vec<_> = readers.collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn four_hundred_sessions_work_with_256_descriptors() {
    let host = Host::start_with("ulimit -n 256");
    let mut sdk = Sdk::connect(&host);
    let sessions: Vec<String> = (0..400)
        .map(|_| {
            let created = sdk.call("session.create", json!({ "workingDirectory": host.home.work() }));
            created.unwrap()["sessionId"].as_str().unwrap().to_owned()
        })
        .collect();
    eprintln!("400 sessions open: {} descriptors", host.descriptors());
    // All of them are open for this client; each has to be written to again.
    for session in sessions.iter().step_by(7) {
        sdk.turn(session, "say still here");
    }
    // Strangers use up what is left, and the clients that are there do not notice.
    let strangers: Vec<TcpStream> = (0..300).map(|_| stranger(host.ahp)).collect();
    for session in sessions.iter().step_by(50) {
        sdk.turn(session, "say still here");
    }
    drop(strangers);
    Ahp::connect(&host, "late").call("ping", json!({}));
    assert_eq!(host.home.logs().len(), 400);
}
