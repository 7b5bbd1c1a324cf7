//! A person at a terminal, with a model behind HTTP: asked before files are touched, and shown what happens.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use testkit::{
    Home, events,
    model_server::{ModelServer, Reply},
};

/// A program on a terminal of its own.
pub(crate) struct Terminal {
    pub(crate) child: std::process::Child,
    screen: std::sync::mpsc::Receiver<Vec<u8>>,
    keys: File,
    pub(crate) shown: String,
}

impl Terminal {
    pub(crate) fn start(command: &mut Command) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let open = || {
            File::options()
                .read(true)
                .write(true)
                .open(name.to_str().unwrap())
                .unwrap()
        };
        let (stdin, stdout, stderr) = (open(), open(), open());
        let child = command
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::from(stdout))
            .stderr(Stdio::from(stderr));
        let child = child.spawn().unwrap();
        let keys = File::from(controller);
        let mut reader = keys.try_clone().unwrap();
        let (send, screen) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                if send.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            screen,
            keys,
            shown: String::new(),
        }
    }

    pub(crate) fn until(&mut self, text: &str) {
        let patience = Instant::now() + Duration::from_secs(60);
        while !self.shown.contains(text) {
            let left = patience.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} was never shown; this was:\n{}", self.shown),
            }
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

fn person_with(server: &ModelServer, home: &Home, prompt: &str) -> Terminal {
    let mut command = home.command(["run", prompt]);
    command
        .env("LODGE_PROVIDER_BASE_URL", server.openai_url())
        .env("LODGE_MODEL", "loopback-1")
        .env("TERM", "dumb");
    Terminal::start(&mut command)
}

/// What happened, in one line each, without what differs from run to run.
fn story(log: &[Value]) -> String {
    let tell = |event: &Value| {
        let data = &event["data"];
        let detail = match events::kind(event) {
            "user.message" | "assistant.message" => data["content"].as_str().unwrap_or_default().to_owned(),
            "tool.execution_start" => data["toolName"].as_str().unwrap_or_default().to_owned(),
            "tool.execution_complete" => match data["success"].as_bool() {
                Some(true) => "well".to_owned(),
                _ => data["error"]["code"].as_str().unwrap_or_default().to_owned(),
            },
            "assistant.turn_start" | "assistant.turn_end" => data["turnId"].as_str().unwrap_or_default().to_owned(),
            "session.shutdown" => data["codeChanges"]["linesAdded"].to_string(),
            _ => String::new(),
        };
        format!("{} {detail}", events::kind(event)).trim_end().to_owned()
    };
    log.iter().map(tell).collect::<Vec<_>>().join("\n")
}

fn create_hello(server: &ModelServer, home: &Home) {
    let path = home.work().join("hello.txt");
    server.reply(Reply::call(
        "call-1",
        "create",
        &json!({"path": path, "file_text": "Hello!\n"}).to_string(),
    ));
    server.reply(Reply::text("The file is there."));
}

#[test]
fn a_file_is_written_after_asking_in_the_terminal() {
    let (server, home) = (ModelServer::start(), Home::new());
    create_hello(&server, &home);
    let mut terminal = person_with(&server, &home, "create hello.txt with a greeting");
    terminal.until("Allow?");
    assert!(
        terminal.shown.contains("+Hello!"),
        "the change is shown before it is made:\n{}",
        terminal.shown
    );
    assert!(
        !home.work().join("hello.txt").exists(),
        "nothing is written before the answer"
    );
    terminal.press("maybe\n");
    terminal.press("y\n");
    terminal.until("The file is there.");
    assert!(terminal.child.wait().unwrap().success());
    assert_eq!(
        std::fs::read_to_string(home.work().join("hello.txt")).unwrap(),
        "Hello!\n"
    );
    let log = events::read_log(&home.logs()[0]);
    events::check_chain(&log).unwrap();
    testkit::schema::check_all(&log);
    insta::assert_snapshot!(story(&log));
    let tool_result = server.last_request().body["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(tool_result["role"], "tool");
}

#[test]
fn what_is_denied_in_the_terminal_is_not_done_and_the_model_is_told() {
    let (server, home) = (ModelServer::start(), Home::new());
    create_hello(&server, &home);
    let mut terminal = person_with(&server, &home, "create hello.txt with a greeting");
    terminal.until("Allow?");
    terminal.press("n\n");
    terminal.until("The file is there.");
    assert!(terminal.child.wait().unwrap().success());
    assert!(!home.work().join("hello.txt").exists());
    let messages = server.last_request().body["messages"].clone();
    assert!(
        messages.to_string().contains("The user denied this tool call."),
        "{messages}"
    );
}

#[test]
fn ctrl_c_aborts_the_turn_and_says_so_by_the_exit_code() {
    let home = Home::new();
    let mut terminal = Terminal::start(&mut home.command(["run", "stream 100000 chunks slowly"]));
    terminal.until("1 2 3");
    // A pseudo terminal without a session cannot send the signal for the key, so it is sent by hand.
    let pid = rustix::process::Pid::from_raw(terminal.child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(terminal.child.wait().unwrap().code(), Some(130));
    let log = events::read_log(&home.logs()[0]);
    assert_eq!(events::of_kind(&log, "abort").len(), 1);
}
