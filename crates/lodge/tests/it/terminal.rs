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

/// Every event as it stands in the log; what differs from run to run has a name in its place.
fn whole(log: &[Value], home: &Home) -> String {
    let mut names: Vec<String> = Vec::new();
    let work = home.work().to_str().unwrap().to_owned();
    let state = home.path().to_str().unwrap().to_owned();
    let mut name = |key: &str, text: &str| -> String {
        let id = uuid_like(text).then(|| match names.iter().position(|known| known == text) {
            Some(at) => at,
            None => {
                names.push(text.to_owned());
                names.len() - 1
            }
        });
        match (key, id) {
            (_, Some(number)) => format!("<id {number}>"),
            ("timestamp" | "startTime", _) => "<time>".to_owned(),
            ("copilotVersion", _) => "<version>".to_owned(),
            ("content", _) if text.len() > 500 => "<system prompt>".to_owned(),
            ("transformedContent", _) => "<with the time and the files>".to_owned(),
            _ => text.replace(&work, "<work>").replace(&state, "<home>"),
        }
    };
    fn walk(key: &str, value: &mut Value, name: &mut dyn FnMut(&str, &str) -> String) {
        match value {
            Value::String(text) => *text = name(key, text),
            Value::Array(items) => items.iter_mut().for_each(|item| walk(key, item, name)),
            Value::Object(fields) => fields.iter_mut().for_each(|(key, field)| walk(key, field, name)),
            Value::Number(_) if is_measured(key) => *value = "<measured>".into(),
            _ => {}
        }
    }
    let mut lines = Vec::new();
    for event in log {
        let mut event = event.clone();
        walk("", &mut event, &mut name);
        lines.push(serde_json::to_string_pretty(&event).unwrap());
    }
    lines.join("\n")
}

fn uuid_like(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, c)| {
            if [8, 13, 18, 23].contains(&at) {
                c == '-'
            } else {
                c.is_ascii_hexdigit()
            }
        })
}

/// Times, and numbers that follow from the length of the system prompt.
fn is_measured(key: &str) -> bool {
    let key = key.to_lowercase();
    ["ms", "duration", "time", "tokens"]
        .iter()
        .any(|end| key.ends_with(end))
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
    insta::assert_snapshot!(whole(&log, &home));
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

/// An MCP server with a tool that asks something and gives back the answer.
const ASKER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*)
      printf '{"jsonrpc":"2.0","id":"q","method":"%s","params":%s}\n' "$1" "$2"
      read -r said
      answer "{\"content\":[],\"structuredContent\":$said}" ;;
  esac
done
"#;

/// A person with a server whose tool asks this, on the offline model.
fn person_with_asker(home: &Home, method: &str, params: &Value) -> Terminal {
    std::fs::create_dir_all(home.path()).unwrap();
    // A file of its own: in the configuration, `$line` would be a variable to fill in.
    let program = home.path().join("asker.sh");
    std::fs::write(&program, ASKER).unwrap();
    let asker = json!({"command": "sh", "args": [program, method, params.to_string()], "sampling": true});
    let servers = json!({"mcpServers": {"asker": asker}});
    std::fs::write(home.path().join("mcp-config.json"), servers.to_string()).unwrap();
    let mut command = home.command(["run", "call asker-ask {}"]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::start(&mut command);
    terminal.until("Call ask of asker\r\nAllow?");
    terminal.press("y\n");
    terminal
}

#[test]
fn a_form_of_a_server_is_filled_in_at_the_terminal() {
    let home = Home::new();
    let form = json!({"message": "Who are you?", "requestedSchema": {"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "title": "Your name"}, "size": {"type": "integer", "default": 7},
    }}});
    let mut terminal = person_with_asker(&home, "elicitation/create", &form);
    terminal.until("asker asks: Who are you?\r\nAnswer? [y]es, [n]o: ");
    terminal.press("y\n");
    terminal.until("Your name: ");
    terminal.press("Ada\n");
    terminal.until("size [7]: ");
    terminal.press("\n");
    assert!(terminal.child.wait().unwrap().success());
    let log = events::read_log(&home.logs()[0]);
    let done = events::of_kind(&log, "tool.execution_complete");
    let said = &done[0]["data"]["result"]["structuredContent"]["result"];
    assert_eq!(
        *said,
        json!({"action": "accept", "content": {"name": "Ada", "size": 7}}),
        "{done:?}"
    );
}

#[test]
fn what_a_server_asks_the_model_is_shown_at_the_terminal_before() {
    let home = Home::new();
    let question =
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": "say teapot"}}], "maxTokens": 9});
    let mut terminal = person_with_asker(&home, "sampling/createMessage", &question);
    terminal.until("asker wants to ask the model:\r\nsay teapot\r\nAllow?");
    terminal.press("y\n");
    assert!(terminal.child.wait().unwrap().success());
    let log = events::read_log(&home.logs()[0]);
    let done = events::of_kind(&log, "tool.execution_complete");
    let said = &done[0]["data"]["result"]["structuredContent"]["result"];
    assert_eq!(said["content"], json!({"type": "text", "text": "teapot"}), "{done:?}");
    assert_eq!(said["model"], "rehearsal");
}

#[test]
fn a_plan_is_approved_at_the_terminal_or_not() {
    for (line, leaves) in [
        ("y\n", true),
        ("2\n", true),
        ("n\n", false),
        ("shorter, please\n", false),
    ] {
        let home = Home::new();
        let prompt = "write the plan 1. Look then present the plan Look first then say on it";
        let mut command = home.command(["run", "--mode", "plan", prompt]);
        let mut terminal = Terminal::start(command.env("TERM", "dumb"));
        terminal.until("Go ahead?");
        for words in ["Plan: Look first", "1. Look", "1. approve, and work step by step"] {
            assert!(terminal.shown.contains(words), "{words:?}: {}", terminal.shown);
        }
        terminal.press(line);
        terminal.until("on it");
        assert!(terminal.child.wait().unwrap().success());
        let log = events::read_log(&home.logs()[0]);
        let modes = events::of_kind(&log, "session.mode_changed");
        let left = modes.iter().any(|mode| mode["data"]["previousMode"] == "plan");
        assert_eq!(left, leaves, "{line:?}: {modes:?}");
    }
}

/// A directory of programs, with a keyring in it that keeps each key in a file, if one is wanted.
fn programs(home: &Home, keyring: bool) -> std::path::PathBuf {
    let programs = home.path().join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    if keyring {
        let program = programs.join("secret-tool");
        let script =
            "#!/bin/sh\ncase $1 in\nstore) exec /bin/cat > \"$0.$6\" ;;\nlookup) exec /bin/cat \"$0.$5\" ;;\nesac\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    programs
}

#[test]
fn a_key_that_is_not_typed_after_all_leaves_a_terminal_that_shows_what_is_typed() {
    use rustix::termios::{LocalModes, tcgetattr};
    // Editors start it the second way.
    for words in [&["setup"][..], &["acp", "--setup"]] {
        let home = Home::new();
        let mut terminal = Terminal::start(&mut home.command(words));
        let shows = |terminal: &Terminal| {
            tcgetattr(&terminal.keys)
                .unwrap()
                .local_modes
                .contains(LocalModes::ECHO)
        };
        terminal.until("Look for model servers");
        terminal.press("n\r");
        terminal.until("1. openai");
        terminal.press("1\r");
        terminal.until("Key (not shown");
        assert!(!shows(&terminal));
        terminal.press("half a k\x03");
        terminal.until("Nothing was changed.");
        assert!(!terminal.child.wait().unwrap().success());
        assert!(shows(&terminal));
        assert!(!terminal.shown.contains("half"), "{}", terminal.shown);
    }
}

#[test]
fn a_model_is_set_up_by_answering_questions() {
    use std::os::unix::fs::PermissionsExt;
    for keyring in [false, true] {
        let (server, home) = (ModelServer::start(), Home::new());
        server.set_models(serde_json::json!({"data": [{"id": "tiny-1"}, {"id": "tiny-2"}]}));
        server.reply(Reply::text("ready").delay(Duration::from_millis(500)));
        let programs = programs(&home, keyring);
        let temporary = home.path().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        let mut command = home.command(["setup"]);
        let mut terminal = Terminal::start(command.env("PATH", &programs).env("TMPDIR", &temporary));
        let address = format!("{}\r", server.openai_url());
        for (question, answer) in [
            ("Look for model servers", "n\r"),
            ("3. another address", "3\r"),
            ("Address, such as", address.as_str()),
            ("Is this an Anthropic API?", "\r"),
            ("Key (not shown", "a-key-of-mine\r"),
            ("Number or name", "2\r"),
        ] {
            terminal.until(question);
            terminal.press(answer);
        }
        let patience = Instant::now() + Duration::from_secs(60);
        while server.requests().is_empty() {
            assert!(Instant::now() < patience, "the model is not tried");
            std::thread::sleep(Duration::from_millis(10));
        }
        // Whoever stops it now leaves this behind.
        let tried = std::fs::read_dir(&temporary).unwrap().next().unwrap().unwrap();
        let tried = std::fs::read_to_string(tried.path().join("lodge.toml")).unwrap();
        assert!(tried.contains("tiny-2") && !tried.contains("a-key-of-mine"), "{tried}");
        terminal.until("It answers: ready");
        terminal.until(match keyring {
            true => "the key is in the system's keyring",
            false => "readable only by you",
        });
        assert!(!terminal.shown.contains("a-key-of-mine"), "{}", terminal.shown);
        assert_eq!(server.last_request().headers["authorization"], "Bearer a-key-of-mine");
        let file = home.path().join("lodge.toml");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains("default_model = \"own/tiny-2\""), "{text}");
        assert_eq!(text.contains("a-key-of-mine"), !keyring, "{text}");
        server.reply(Reply::text("still ready"));
        let said = home.command(["run", "again"]).env("PATH", &programs).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        assert_eq!(server.last_request().headers["authorization"], "Bearer a-key-of-mine");
    }
}
