//! `lodge` in a terminal: a person at a real pty, seen through a terminal emulator.

use std::{
    fs::File,
    io::{Read, Write},
    num::NonZero,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde_json::json;
use testkit::{Home, Running, model_server::ModelServer};

/// Only a hang gets to see the end of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A person's terminal, with `lodge` on it.
pub(crate) struct Screen {
    pub(crate) child: Child,
    keys: File,
    output: Receiver<Vec<u8>>,
    reader: Option<JoinHandle<()>>,
    closing: Arc<AtomicBool>,
    pub(crate) emulator: vt100::Parser,
    /// Everything that the program wrote.
    pub(crate) written: Vec<u8>,
    /// What the terminal answers when it is asked what it is.
    pub(crate) answer: &'static str,
}

impl Screen {
    pub(crate) fn start(home: &Home, args: &[&str], columns: u16) -> Self {
        Self::with(home.command(args).env_remove("NO_COLOR"), columns)
    }

    pub(crate) fn with(command: &mut Command, columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        // A program that inherited the terminal's other end would keep it open.
        #[cfg(target_os = "linux")]
        let flags = flags | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        tcsetwinsize(&controller, size(columns, 24)).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let open = || {
            File::options()
                .read(true)
                .write(true)
                .open(name.to_str().unwrap())
                .unwrap()
        };
        if !command.get_envs().any(|(name, _)| name == "LODGE_HOST_LINGER") {
            command.env("LODGE_HOST_LINGER", "3");
        }
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(open()))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .unwrap();
        let keys = File::from(controller);
        let mut reader = keys.try_clone().unwrap();
        let (send, output) = channel();
        let closing = Arc::new(AtomicBool::new(false));
        let closed = closing.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while !closed.load(Ordering::Relaxed) {
                // A read without an end would keep the terminal open.
                let a_moment = Timespec::try_from(Duration::from_millis(50)).unwrap();
                if poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&a_moment)) == Ok(0) {
                    continue;
                }
                let Ok(read @ 1..) = reader.read(&mut buffer) else {
                    return;
                };
                if send.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            keys,
            output,
            reader: Some(reader),
            closing,
            written: Vec::new(),
            emulator: vt100::Parser::new(NonZero::new(24).unwrap(), NonZero::new(columns).unwrap(), 0),
            answer: "\x1b[?62;22c",
        }
    }

    /// As `with`, in a session of its own with this terminal: what the terminal signals reaches the program.
    pub(crate) fn in_session(command: &Command, columns: u16) -> Self {
        let mut session = Command::new("setsid");
        session
            .arg("--ctty")
            .arg(command.get_program())
            .args(command.get_args());
        session.env_clear();
        session.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        session.current_dir(command.get_current_dir().unwrap());
        Self::with(&mut session, columns)
    }

    /// Reads until the screen is so.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let patience = Instant::now() + PATIENCE;
        while !is_so(&self.emulator.screen().contents()) {
            self.process_within(patience.saturating_duration_since(Instant::now()), what);
        }
    }

    /// Waits for the next output and shows it.
    pub(crate) fn process_next(&mut self, what: &str) {
        self.process_within(PATIENCE, what);
    }

    fn process_within(&mut self, left: Duration, what: &str) {
        match self.output.recv_timeout(left) {
            Ok(bytes) => {
                self.emulator.process(&bytes);
                self.written.extend_from_slice(&bytes);
                if bytes.ends_with(b"\x1b[c") {
                    self.press(self.answer);
                }
            }
            Err(_) => panic!(
                "never so: {what}; the screen was:\n{}",
                self.emulator.screen().contents()
            ),
        }
    }

    pub(crate) fn until_shows(&mut self, text: &str) {
        self.until(&format!("shows {text:?}"), |screen| screen.contains(text));
    }

    /// Reads until the program has written this.
    pub(crate) fn until_writes(&mut self, text: &str) {
        while !self.wrote(text) {
            self.process_next(&format!("writes {text:?}"));
        }
    }

    pub(crate) fn wrote(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.written).contains(text)
    }

    /// Waits until a turn is over, and its answer says this beside the message.
    pub(crate) fn until_answered(&mut self, text: &str) {
        self.until(&format!("answers {text:?}"), |shown| {
            shown.matches(text).count() > 1 && !shown.contains("Esc stops")
        });
    }

    pub(crate) fn until_hides(&mut self, text: &str) {
        self.until(&format!("hides {text:?}"), |screen| !screen.contains(text));
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the size of the terminal.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        tcsetwinsize(&self.keys, size(columns, rows)).unwrap();
        let (rows, columns) = (NonZero::new(rows).unwrap(), NonZero::new(columns).unwrap());
        self.emulator.set_size(rows, columns);
    }

    /// Closes the terminal, as if its window was closed, and waits for the end of the program.
    pub(crate) fn close(mut self) -> ExitStatus {
        self.closing.store(true, Ordering::Relaxed);
        self.reader.take().unwrap().join().unwrap();
        self.keys = File::open("/dev/null").unwrap();
        let patience = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < patience, "the program stays without its terminal");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types a message, as if pasted, and sends it.
    pub(crate) fn say(&mut self, text: &str) {
        self.press(&format!("\x1b[200~{text}\x1b[201~\r"));
    }

    /// Presses Ctrl-C twice. What the first one is answered with is not waited for: a turn that ends just then takes it off the
    /// screen.
    pub(crate) fn leave(mut self) {
        self.press("\x03");
        self.press("\x03");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // After a failure it may still be there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Stops whatever host a test brought up.
pub(crate) fn stop(home: &Home) {
    let _ = home.run(["serve", "--stop"]).ok();
}

pub(crate) fn host(home: &Home) -> Running {
    let mut host = home.start(["serve", "--port", "0", "--sdk-port", "0"]);
    host.line_with("Ctrl-C stops");
    host
}

#[test]
fn a_denial_says_why_and_nothing_is_written() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    screen.say(r#"call create {"path":"b.txt","file_text":"x"} then say after"#);
    screen.until_shows("Deny, and say why");
    screen.press("5");
    screen.until_shows("Enter to send");
    screen.press("not there\r");
    screen.until_shows("denied: not there");
    screen.until_shows("after");
    assert!(!home.work().join("b.txt").exists());
    screen.leave();
}

#[test]
fn a_command_that_is_typed_is_run_whatever_the_menu_shows() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    // One after the other, as a person types: the menu follows as fast as the host does.
    for key in "/context".chars() {
        screen.press(&key.to_string());
    }
    screen.until_shows("› /context");
    screen.press("\r");
    screen.until_shows("tokens");
    screen.until_shows("› /context");
    screen.leave();
}

#[test]
fn sessions_of_all_hosts_are_in_one_list_and_open_from_it() {
    let (here, far) = (Home::new(), Home::new());
    let _host = host(&here);
    let mut there = far.start(["serve", "--port", "0", "--sdk-port", "0"]);
    let line = there.line_with("AHP clients");
    let url = line.split_whitespace().last().unwrap().to_owned();
    there.line_with("Ctrl-C stops");
    let _ = far.run(["run", "say pears"]).ok();
    let token = std::fs::read_to_string(far.path().join("token")).unwrap();
    let mut add = here.talk(["hosts", "add", "far", &url, "--token"]);
    add.say(token.trim());
    let _ = add.finish().ok();
    // A host that does not answer is in nobody's way.
    let _ = here.run(["hosts", "add", "dead", "ws://127.0.0.1:1/"]).ok();

    let mut screen = Screen::start(&here, &[], 100);
    screen.until_shows("Type a message");
    screen.say("say apples");
    screen.until("the first answer", |shown| {
        shown.matches("apples").count() > 1 && !shown.contains("Esc stops")
    });
    screen.press("\x13");
    screen.until("both hosts' sessions", |shown| {
        shown.contains("say apples") && shown.contains("say pears") && shown.contains("on far, ")
    });
    screen.press("pears\r");
    screen.until("the other host", |shown| {
        shown.contains("› say pears") && shown.contains("far · rehearsal")
    });
    screen.say("say plums");
    screen.until("an answer from there", |shown| {
        shown.matches("plums").count() > 1 && !shown.contains("Esc stops")
    });
    let listed = far.run(["sessions", "show", "last"]).ok().stdout();
    assert!(listed.contains("say plums"), "{listed}");

    screen.press("\x13");
    screen.until("the way back", |shown| shown.contains("on this machine, "));
    screen.press("apples\r");
    screen.until("this machine", |shown| {
        shown.contains("› say apples") && !shown.contains("far · rehearsal")
    });
    screen.leave();
    // By its name in a variable, without `attach`.
    let mut named = Screen::with(
        here.command::<&str>([]).env_remove("NO_COLOR").env("LODGE_URL", "far"),
        100,
    );
    named.until_shows("far · rehearsal");
    named.leave();
}

#[test]
fn nothing_that_an_agent_prints_steers_the_terminal() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 80);
    screen.until_shows("Type a message");
    screen.say(r#"!printf '\033[2J\033]0;owned\007\033[31mred\n'; echo after"#);
    screen.until_shows("✓ Ran");
    screen.until_shows("[2J");
    screen.until_shows("rehearsal");
    screen.until_hides("Esc stops");
    screen.leave();
}

#[test]
fn a_host_that_the_conversation_started_is_started_again_when_it_is_killed() {
    let home = Home::new();
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    screen.say("say before");
    screen.until("an answer", |shown| {
        shown.matches("before").count() > 1 && !shown.contains("Esc stops")
    });
    kill_host(&home);
    screen.say("say after");
    screen.until("an answer from the next host", |shown| {
        shown.matches("after").count() > 1 && !shown.contains("Esc stops") && !shown.contains("not reachable")
    });
    // One that is stopped stays so, although its conversation is open.
    stop(&home);
    screen.until_shows("The host is not reachable");
    std::thread::sleep(Duration::from_secs(1));
    assert!(!home.path().join("host.json").exists());
    screen.leave();
}

/// Kills the host of a home.
pub(crate) fn kill_host(home: &Home) {
    let note = std::fs::read_to_string(home.path().join("host.json")).unwrap();
    let note: serde_json::Value = serde_json::from_str(&note).unwrap();
    let pid = note["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_host_that_was_killed_can_be_stopped_so_that_nobody_starts_it_again() {
    let home = Home::new();
    // As a conversation does that starts a host.
    std::fs::create_dir_all(home.path()).unwrap();
    let mut host = home.start(["serve", "--background"]);
    let is_there = || home.path().join("host.json").exists();
    while !is_there() {
        std::thread::sleep(Duration::from_millis(20));
    }
    host.kill();
    host.finish();
    assert!(is_there(), "what was killed takes nothing away");
    let stopped = home.run(["serve", "--stop"]).ok().stdout();
    assert!(stopped.contains("No host is running"), "{stopped}");
    assert!(!is_there());
}

#[test]
fn a_host_is_started_again_after_an_upgrade_and_people_read_why_it_cannot_be() {
    let home = Home::new();
    let program = home.work().join("lodge");
    let install = || {
        // A link is quicker than a copy, and not always possible.
        std::fs::hard_link(testkit::lodge_bin(), &program)
            .or_else(|_| std::fs::copy(testkit::lodge_bin(), &program).map(drop))
            .unwrap();
    };
    install();
    let started = home.command([] as [&str; 0]);
    let mut command = Command::new(&program);
    if let Some(directory) = started.get_current_dir() {
        command.current_dir(directory);
    }
    for (name, value) in started.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut screen = Screen::with(command.env_remove("NO_COLOR"), 100);
    screen.until_shows("Type a message");
    std::fs::remove_file(&program).unwrap();
    install();
    kill_host(&home);
    screen.say("say after");
    screen.until("an answer from the next host", |shown| {
        shown.matches("after").count() > 1 && !shown.contains("Esc stops") && !shown.contains("not reachable")
    });
    std::fs::remove_file(&program).unwrap();
    kill_host(&home);
    screen.until_shows("Cannot restart the host: Cannot start the host");
    screen.leave();
    stop(&home);
}

#[test]
fn an_interrupt_that_is_meant_for_another_program_does_not_end_the_conversation() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    screen.say("/login");
    screen.until_shows("Look for model servers");
    // A terminal sends it to all programs in the foreground.
    let pid = i32::try_from(screen.child.id()).ok();
    let pid = pid.and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    screen.press("n\n");
    screen.until_shows("Number: ");
    screen.press("\x04");
    screen.until_shows("Type a message");
    screen.say("say still here");
    screen.until("an answer", |shown| shown.matches("still here").count() > 1);
    screen.leave();
}

#[test]
fn a_script_without_a_terminal_still_gets_the_host() {
    let home = Home::new();
    let mut host = home.start(["--port", "0", "--sdk-port", "0"]);
    host.line_with("Ctrl-C stops");
    stop(&home);
    host.line_with("Stopping.");
}

#[test]
fn the_page_about_the_terminal_names_every_key_and_command() {
    let page = std::fs::read_to_string(testkit::workspace().join("docs/terminal.md")).unwrap();
    for (names, _, what) in lodge_terminal::KEYS {
        let row = format!("| {names} | {what} |");
        assert!(page.contains(&row), "docs/terminal.md has no row {row:?}");
    }
    for (names, what) in lodge_terminal::EDITOR_KEYS {
        let row = format!("| {names} | {what} |");
        assert!(page.contains(&row), "docs/terminal.md has no row {row:?}");
    }
    for (name, argument, what) in lodge_terminal::COMMANDS {
        let command = format!("/{name} {argument}");
        let row = format!("| `{}` | {what} |", command.trim_end().replace('|', "\\|"));
        assert!(page.contains(&row), "docs/terminal.md has no row {row:?}");
    }
}

#[test]
fn a_model_that_is_set_up_in_the_conversation_answers_in_it() {
    let (server, home) = (ModelServer::rehearsing(), Home::new());
    server.set_models(json!({ "data": [{ "id": "local-1" }] }));
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    let mut command = home.command([] as [&str; 0]);
    command.env_remove("NO_COLOR");
    let mut screen = Screen::with(command.env("LODGE_LOCAL_SERVERS", format!("Ollama={port}")), 100);
    screen.until_shows("built-in offline demo model");
    screen.say("hello");
    screen.until("the demo model's greeting", |shown| {
        shown.contains("› hello") && !shown.contains("Esc stops")
    });
    let host = std::fs::read_to_string(home.path().join("host.json")).unwrap();
    screen.say("/login");
    screen.until_shows("Look for model servers");
    screen.press("y\n");
    screen.until_shows("1. ollama");
    screen.press("1\n");
    screen.until_shows("1. local-1");
    screen.press("1\n");
    // While `lodge setup` has the terminal, the title is its own again.
    screen.until_writes("\x1b[23;0t");
    screen.until_shows("Switched to ollama/local-1.");
    screen.say("say from the server");
    screen.until_answered("from the server");
    screen.until_shows("ollama/local-1 · ");
    let asked = server.requests();
    assert!(
        asked.last().unwrap().body.to_string().contains("say from the server"),
        "{asked:?}"
    );
    // The host that runs is the same, and `lodge` here goes on with the model.
    assert_eq!(std::fs::read_to_string(home.path().join("host.json")).unwrap(), host);
    screen.leave();
    let mut again = Screen::start(&home, &[], 100);
    again.until_shows("› say from the server");
    again.until_shows("ollama/local-1 · ");
    again.leave();
    stop(&home);
}

#[test]
fn a_session_that_is_deleted_while_the_host_is_away_is_not_made_again() {
    let home = Home::new();
    let running = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    screen.say("say before");
    screen.until_answered("before");
    stop(&home);
    let _ = running.finish();
    screen.until_shows("not reachable");
    let _ = home.run(["sessions", "delete", "last", "--yes"]).ok();
    let _host = host(&home);
    screen.until_shows("This session was deleted. /new starts another");
    screen.say("say lost");
    screen.until_shows("› say lost");
    screen.press("\x03");
    screen.until_hides("› say lost");
    screen.say("/new");
    screen.until_hides("This session was deleted");
    screen.say("say after");
    screen.until_answered("after");
    assert_eq!(home.logs().len(), 1);
    screen.leave();
}
