//! The door of the built program: the local socket, tokens and where they are not, pairing, and whom it stays closed to.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use testkit::{Home, Running, lodge_bin};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::terminal::Terminal;

struct Host {
    running: Running,
    /// What it printed, up to where it says that it is ready.
    printed: Vec<String>,
}

impl Host {
    fn start(home: &Home) -> Self {
        let mut running = home.start(["--port", "0", "--sdk-port", "0"]);
        let mut printed = Vec::new();
        loop {
            let line = running.line().expect("the host starts");
            let ready = line.contains("Ctrl-C stops");
            printed.push(line);
            if ready {
                return Self { running, printed };
            }
        }
    }
}

/// What the host says about itself in the home.
pub(crate) fn note(home: &Home) -> Value {
    serde_json::from_slice(&std::fs::read(home.path().join("host.json")).unwrap()).unwrap()
}

fn token(home: &Home) -> String {
    std::fs::read_to_string(home.path().join("token"))
        .unwrap()
        .trim()
        .to_owned()
}

fn path(note: &Value, name: &str) -> PathBuf {
    note[name].as_str().unwrap().into()
}

/// Waits for something to be so; only a hang sees the end of it.
pub(crate) fn settle(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_token_is_in_its_own_file_and_nowhere_else() {
    let home = Home::new();
    let host = Host::start(&home);
    let token = token(&home);
    assert!(token.len() >= 32);
    let printed = host.printed.join("\n");
    assert!(!printed.contains(&token), "{printed}");
    assert!(
        printed.contains(&home.path().join("token").display().to_string()),
        "{printed}"
    );
    let note = note(&home);
    assert!(!note.to_string().contains(&token), "{note}");
    assert_eq!(note.get("token"), None);
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    for name in ["socket", "sdkSocket"] {
        let socket = path(&note, name);
        assert_eq!(
            (mode(&socket), mode(socket.parent().unwrap())),
            (0o600, 0o700),
            "{note}"
        );
    }
    assert_eq!(mode(&home.path().join("token")), 0o600);
    // A program of the same user needs none.
    let done = home.run(["devices"]).ok();
    assert_eq!(done.lines, ["No device is paired. Pair one with `lodge pair`."]);
    let stderr = { host.running }.finish_with_signal();
    assert!(!stderr.contains(&token), "{stderr}");
}

trait Stop {
    fn finish_with_signal(self) -> String;
}

impl Stop for Running {
    /// Stops it as Ctrl-C does, and returns what it complained about.
    fn finish_with_signal(self) -> String {
        let pid = rustix::process::Pid::from_raw(self.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.finish().stderr
    }
}

#[test]
fn a_person_at_a_terminal_sees_the_token() {
    let home = Home::new();
    let mut terminal = Terminal::start(home.command(["--port", "0", "--sdk-port", "0"]).env("TERM", "dumb"));
    terminal.until("Ctrl-C stops.");
    assert!(
        terminal.shown.contains(&format!("/?tkn={}", token(&home))),
        "{}",
        terminal.shown
    );
    let _ = terminal.child.kill();
    let _ = terminal.child.wait();
}

#[test]
fn clients_of_the_sdks_come_by_a_socket_of_their_own() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut socket = UnixStream::connect(path(&note(&home), "sdkSocket")).unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "session.list", "params": {} }).to_string();
    write!(socket, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = [0; 4096];
    let read = socket.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.contains("\"sessions\""), "{answer}");
}

#[test]
fn what_is_deleted_under_a_running_host_comes_back() {
    let home = Home::new();
    let _host = Host::start(&home);
    let before = token(&home);
    for name in ["token", "host.json"] {
        std::fs::remove_file(home.path().join(name)).unwrap();
    }
    std::fs::remove_dir_all(home.path().join("run")).unwrap();
    settle("the token is not back", || home.path().join("token").exists());
    assert_eq!(token(&home), before);
    settle("the note and the sockets are not back", || {
        home.path().join("host.json").exists()
            && home.path().join("run/lodge.sock").exists()
            && home.path().join("run/sdk.sock").exists()
    });
    let _ = home.run(["devices"]).ok();
}

#[test]
fn what_an_agent_starts_may_not_use_the_socket() {
    let home = Home::new();
    std::fs::create_dir_all(home.path()).unwrap();
    // The sandbox is another wall; this one has to hold without it.
    std::fs::write(home.path().join("lodge.toml"), "sandbox = \"off\"\n").unwrap();
    let _host = Host::start(&home);
    let lodge = lodge_bin();
    let devices = format!("LODGE_HOME='{}' '{}' devices", home.path().display(), lodge.display());
    // A program that left its parents is still the agent's.
    let daemon = format!("setsid -f sh -c \"{devices} > daemon.txt 2>&1; touch done\"");
    let script = format!(
        "#!/bin/sh\n{devices} > child.txt 2>&1\n{daemon}\nwhile [ ! -e done ]; do sleep 0.05; done\n\
         env -i '{}' --home '{}' devices > bare.txt 2>&1\n",
        lodge.display(),
        home.path().display()
    );
    // The other wire is closed to it as well.
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}"#;
    let sdk = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({:?})\ns.sendall(b'Content-Length: {}\\r\\n\\r\\n{ping}')\n\
         print(s.recv(4096).decode())\n",
        path(&note(&home), "sdkSocket"),
        ping.len()
    );
    std::fs::write(home.work().join("sdk.py"), sdk).unwrap();
    let script = format!("{script}python3 sdk.py > sdk.txt 2>&1\n");
    std::fs::write(home.work().join("try.sh"), script).unwrap();
    let mut one = home.talk(["attach", "--new"]);
    one.say("call bash {\"command\":\"sh ./try.sh\"} then say it was tried");
    one.line_with("? Run this command?");
    one.say("y");
    one.line_with("it was tried");
    for name in ["child.txt", "daemon.txt", "bare.txt", "sdk.txt"] {
        let said = std::fs::read_to_string(home.work().join(name)).unwrap();
        assert!(said.contains("cannot use the host's local socket"), "{name}: {said}");
    }
    // Commands that a person has the session run are no terminal either.
    one.say("!sh ./try.sh; cat child.txt");
    one.line_with("cannot use the host's local socket");
    let _ = one.finish().ok();
    // The person's own shell is none of this.
    let _ = home.run(["devices"]).ok();
}

type Socket = WebSocketStream<tokio::net::UnixStream>;

/// A client on the local socket.
struct Client {
    socket: Socket,
    id: u64,
}

impl Client {
    async fn connect(home: &Home) -> Self {
        let stream = tokio::net::UnixStream::connect(path(&note(home), "socket"))
            .await
            .unwrap();
        let (socket, _) = tokio_tungstenite::client_async("ws://localhost/", stream)
            .await
            .unwrap();
        let mut client = Self { socket, id: 0 };
        let hello = json!({
            "channel": "ahp-root://", "protocolVersions": ["1.0.0"], "clientId": "test", "initialSubscriptions": [],
        });
        client.request("initialize", hello).await;
        client
    }

    async fn send(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        loop {
            let read = tokio::time::timeout(Duration::from_secs(60), self.socket.next());
            if let Message::Text(text) = read.await.expect("the host is silent").unwrap().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        loop {
            let message = self.next().await;
            if message["id"] == id {
                assert_eq!(message.get("error"), None, "{message}");
                return message["result"].clone();
            }
        }
    }
}

#[tokio::test]
async fn a_terminal_that_a_person_opened_may_use_the_socket() {
    let home = Home::new();
    let _host = Host::start(&home);
    let mut client = Client::connect(&home).await;
    let terminal = "ahp-terminal:/one";
    let claim = json!({ "kind": "client", "clientId": "test" });
    client
        .request("createTerminal", json!({ "channel": terminal, "claim": claim }))
        .await;
    client.request("subscribe", json!({ "channel": terminal })).await;
    // Whether it worked is seen by a file: what a terminal shows has the command in it, too.
    let out = home.work().join("out.txt");
    let command = format!(
        "LODGE_HOME='{}' '{}' devices > '{}' 2>&1; touch '{}.done'\n",
        home.path().display(),
        lodge_bin().display(),
        out.display(),
        out.display()
    );
    let action = json!({ "type": "terminal/input", "data": command });
    let params = json!({ "channel": terminal, "clientSeq": 1, "action": action });
    client
        .send(json!({ "jsonrpc": "2.0", "method": "dispatchAction", "params": params }))
        .await;
    settle("the command did not end", || out.with_extension("txt.done").exists());
    let said = std::fs::read_to_string(&out).unwrap();
    assert!(said.contains("No device is paired"), "{said}");
}

/// One request over HTTP; the status, the head and the body of the answer.
pub(crate) fn http(home: &Home, request: &str, lines: &[&str], body: &str) -> (u16, String, Value) {
    let note = note(home);
    let address = note["ahp"]
        .as_str()
        .unwrap()
        .trim_start_matches("ws://")
        .trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    let mut head =
        format!("{request} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nConnection: close\r\n");
    for line in lines {
        head += &format!("{line}\r\n");
    }
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn a_phone_is_paired_listed_and_revoked() {
    let home = Home::new();
    let host = Host::start(&home);
    let done = home.run(["pair", "--role", "view-only", "--name", "Phone"]).ok();
    let printed = done.lines.join("\n");
    let link = done.lines.iter().find(|line| line.contains("/pair#")).expect(&printed);
    let ticket = link.split_once('#').unwrap().1;
    assert!(link.trim().starts_with("http://127.0.0.1:"), "{link}");
    assert!(
        printed.contains("view-only") && printed.contains("this machine only"),
        "{printed}"
    );
    let body = json!({ "ticket": ticket, "name": "what it calls itself" }).to_string();
    let kind = "Content-Type: application/json";
    let (status, head, paired) = http(&home, "POST /pair", &[kind], &body);
    assert_eq!(status, 200, "{head}");
    assert_eq!(paired["device"]["name"], "Phone");
    let (again, _, _) = http(&home, "POST /pair", &[kind], &body);
    assert_eq!(again, 403);
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next())
        .unwrap();
    let (cookie, key) = (
        format!("Cookie: {cookie}"),
        format!("X-Lodge-Key: {}", paired["key"].as_str().unwrap()),
    );
    assert_eq!(http(&home, "GET /device", &[&cookie, &key], "").0, 200);
    // It is known to a host that was killed and came back, too.
    let kept = std::fs::read_to_string(home.path().join("devices.json")).unwrap();
    assert!(!kept.contains(paired["key"].as_str().unwrap()), "{kept}");
    let mut running = host.running;
    running.kill();
    running.finish();
    let _host = Host::start(&home);
    assert_eq!(http(&home, "GET /device", &[&cookie, &key], "").0, 200);
    let listed = home.run(["devices"]).ok();
    let id = paired["device"]["id"].as_str().unwrap();
    let words: Vec<&str> = listed.lines[0].split_whitespace().take(3).collect();
    assert_eq!((words, listed.lines.len()), (vec![id, "view-only", "Phone"], 1));
    let _ = home.run(["devices", "revoke", id]).ok();
    assert_eq!(http(&home, "GET /device", &[&cookie, &key], "").0, 401);
    let unknown = home.run(["devices", "revoke", id]);
    assert!(
        !unknown.status.success() && unknown.stderr.contains("There is no device"),
        "{unknown:?}"
    );
    let wrong = home.run(["pair", "--role", "owner"]);
    assert!(
        !wrong.status.success() && wrong.stderr.contains("unknown role"),
        "{wrong:?}"
    );
}

#[test]
fn a_server_for_sdks_that_others_reach_does_not_start_without_token_and_consent() {
    let home = Home::new();
    let server = |args: &[&str], token: Option<&str>| {
        let mut command = home.command(args);
        if let Some(token) = token {
            command.env("COPILOT_CONNECTION_TOKEN", token);
        }
        Running::start(&mut command)
    };
    let public = ["--headless", "--port", "0", "--host", "0.0.0.0"];
    for (token, more, hint) in [
        (None, None, "COPILOT_CONNECTION_TOKEN"),
        (None, Some("--insecure-plaintext"), "COPILOT_CONNECTION_TOKEN"),
        (Some("a-token-of-its-own"), None, "--insecure-plaintext"),
    ] {
        let args: Vec<&str> = public.into_iter().chain(more).collect();
        let done = server(&args, token).finish();
        assert!(!done.status.success() && done.lines.is_empty(), "{done:?}");
        assert!(done.stderr.contains("can be reached from other machines"), "{done:?}");
        assert!(done.stderr.contains(hint), "{done:?}");
    }
    let mut local = server(&["--headless", "--port", "0", "--host", "127.0.0.1"], None);
    local.line_with("CLI server listening on port");
}
