//! `lodge` in a terminal: a person at a real pty, seen through a terminal emulator.

use std::{
    fs::File,
    io::{Read, Write},
    num::NonZero,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use testkit::{Home, Running};

/// Only a hang gets to see the end of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A person's terminal, with `lodge` on it.
struct Screen {
    child: Child,
    keys: File,
    output: Receiver<Vec<u8>>,
    emulator: vt100::Parser,
}

impl Screen {
    fn start(home: &Home, args: &[&str], columns: u16) -> Self {
        Self::with(home.command(args).env_remove("NO_COLOR"), columns)
    }

    fn with(command: &mut Command, columns: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&controller, size).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let open = || {
            File::options()
                .read(true)
                .write(true)
                .open(name.to_str().unwrap())
                .unwrap()
        };
        let child = command
            .env("TERM", "xterm-256color")
            .env("LODGE_HOST_LINGER", "3")
            .stdin(Stdio::from(open()))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .unwrap();
        let keys = File::from(controller);
        let mut reader = keys.try_clone().unwrap();
        let (send, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                if send.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            keys,
            output,
            emulator: vt100::Parser::new(NonZero::new(24).unwrap(), NonZero::new(columns).unwrap(), 0),
        }
    }

    /// Reads until the screen is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let patience = Instant::now() + PATIENCE;
        while !is_so(&self.emulator.screen().contents()) {
            let left = patience.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.emulator.process(&bytes),
                Err(_) => panic!(
                    "never so: {what}; the screen was:\n{}",
                    self.emulator.screen().contents()
                ),
            }
        }
    }

    fn until_shows(&mut self, text: &str) {
        self.until(&format!("shows {text:?}"), |screen| screen.contains(text));
    }

    fn until_hides(&mut self, text: &str) {
        self.until(&format!("hides {text:?}"), |screen| !screen.contains(text));
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a message, as if pasted, and sends it.
    fn say(&mut self, text: &str) {
        self.press(&format!("\x1b[200~{text}\x1b[201~\r"));
    }

    /// The screen, without what differs from run to run.
    fn shown(&self) -> String {
        let lines = self.emulator.screen().contents();
        // Tokens depend on the length of paths in the system prompt.
        let is_number = |piece: &str| piece.contains('↑') && piece.starts_with(|c: char| c.is_ascii_digit());
        let steady = lines.lines().map(|line| {
            let pieces = line
                .trim_end()
                .split(" · ")
                .map(|piece| if is_number(piece) { "TOKENS" } else { piece });
            pieces
                .filter(|piece| !piece.ends_with("% context"))
                .collect::<Vec<_>>()
                .join(" · ")
        });
        steady.collect::<Vec<_>>().join("\n")
    }

    /// Colours of the cells of a row: each run of a style with its text.
    fn colours(&self, row_with: &str) -> String {
        let screen = self.emulator.screen();
        let contents = screen.contents();
        let lines: Vec<&str> = contents.lines().collect();
        let row = lines.iter().rposition(|line| line.contains(row_with)).unwrap() as u16;
        let mut runs: Vec<(String, String)> = Vec::new();
        for column in 0..screen.size().1.get() {
            let Some(cell) = screen.cell(row, column) else { break };
            let style = format!("{:?}/{:?}", cell.fgcolor(), cell.bgcolor());
            match runs.last_mut() {
                Some((same, text)) if *same == style => text.push_str(cell.contents()),
                _ => runs.push((style, cell.contents().to_owned())),
            }
        }
        let shown = runs.iter().filter(|(_, text)| !text.trim().is_empty());
        shown.map(|(style, text)| format!("{style} {text:?}\n")).collect()
    }

    fn leave(mut self) {
        self.press("\x03");
        self.until_shows("Ctrl-C again to leave");
        self.press("\x03");
        assert!(self.child.wait().unwrap().success());
    }
}

/// Stops whatever host a test brought up.
fn stop(home: &Home) {
    let _ = home.run(["serve", "--stop"]).ok();
}

fn host(home: &Home) -> Running {
    let mut host = home.start(["serve", "--port", "0", "--sdk-port", "0"]);
    host.line_with("Ctrl-C stops");
    host
}

#[test]
fn lodge_alone_starts_a_host_and_shows_how_to_bring_a_model() {
    for columns in [60, 100, 160] {
        let home = Home::new();
        let mut screen = Screen::start(&home, &[], columns);
        screen.until_shows("/login sets up a real one");
        screen.until_shows("rehearsal · interactive");
        insta::assert_snapshot!(format!("first-{columns}"), screen.shown());
        let status = home.run(["status"]).ok();
        assert!(status.lines[0].contains("is running on"), "{:?}", status.lines);
        screen.leave();
        // The host stays for a while, and then goes by itself.
        let patience = Instant::now() + PATIENCE;
        while home.run(["status"]).status.success() {
            assert!(Instant::now() < patience, "the host stays for ever");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn an_answer_is_shown_as_markdown_and_comes_back_with_the_next_start() {
    let answer = "say \"# Plan\n\nTwo **steps**, see `lib.rs`:\n\n1. read\n2. write\n\n```rust\nfn main() { println!(1); }\n```\n\
                  | a | b |\n|---|---|\n| 1 | 2 |\n\nDone.\"";
    for columns in [60, 100, 160] {
        let home = Home::new();
        let _host = host(&home);
        let mut screen = Screen::start(&home, &[], columns);
        screen.until_shows("Say something");
        screen.say(answer);
        screen.until("the answer is whole", |shown| {
            // What is written to be sent has no drawn table.
            shown.contains("Done.") && shown.contains('┼') && !shown.contains("Esc stops")
        });
        screen.press("\x1b[1;5F");
        insta::assert_snapshot!(format!("markdown-{columns}"), screen.shown());
        screen.leave();
        let mut again = Screen::start(&home, &[], columns);
        again.until_shows("Done.");
        again.leave();
    }
}

#[test]
fn code_has_colours_that_are_readable_on_light_and_on_dark() {
    for (name, background) in [("dark", "15;0"), ("light", "0;15")] {
        let home = Home::new();
        let _host = host(&home);
        let mut command = home.command::<&str>([]);
        let mut screen = Screen::with(command.env_remove("NO_COLOR").env("COLORFGBG", background), 80);
        screen.until_shows("Say something");
        screen.say("say \"```rust\nlet x = 1; // one\n```\nend\"");
        screen.until("the answer is whole", |shown| {
            shown.lines().any(|line| line.trim() == "end") && !shown.contains("Esc stops")
        });
        screen.until_shows("// one");
        insta::assert_snapshot!(format!("colours-{name}"), screen.colours("let x"));
        screen.leave();
    }
}

#[test]
fn a_write_is_approved_with_its_difference_in_view() {
    for columns in [60, 100, 160] {
        let home = Home::new();
        std::fs::write(home.work().join("a.rs"), "fn one() {}\nfn two() {}\n").unwrap();
        let _host = host(&home);
        let mut screen = Screen::start(&home, &[], columns);
        screen.until_shows("Say something");
        screen.say(
            r#"call edit {"path":"a.rs","old_str":"fn two() {}","new_str":"fn two() { one() }"} then say changed"#,
        );
        screen.until_shows("Deny, and say why");
        screen.until_shows("Esc stops");
        let shown = screen.shown();
        // The title has a path of this run, and what goes on has the time.
        let (before, after) = shown.split_once("? Write to").unwrap();
        let (_, after) = after.split_once("    a.rs").unwrap();
        let steady: Vec<&str> = after.lines().filter(|line| !line.contains("Esc stops")).collect();
        insta::assert_snapshot!(
            format!("approval-{columns}"),
            format!(
                "{}\n? Write to <a.rs>?\n    a.rs{}",
                before.trim_end(),
                steady.join("\n")
            )
        );
        screen.press("y");
        screen.until_shows("changed");
        screen.until_hides("Esc stops");
        let text = std::fs::read_to_string(home.work().join("a.rs")).unwrap();
        assert_eq!(text, "fn one() {}\nfn two() { one() }\n");
        insta::assert_snapshot!(format!("edited-{columns}"), screen.shown());
        screen.leave();
    }
}

#[test]
fn a_denial_says_why_and_nothing_is_written() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Say something");
    screen.say(r#"call create {"path":"b.txt","file_text":"x"} then say after"#);
    screen.until_shows("Deny, and say why");
    screen.press("5");
    screen.until_shows("Enter sends");
    screen.press("not there\r");
    screen.until_shows("denied: not there");
    screen.until_shows("after");
    assert!(!home.work().join("b.txt").exists());
    screen.leave();
}

#[test]
fn escape_stops_a_turn_and_what_was_said_stays() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Say something");
    screen.say("stream 5000 chunks slowly 20 ms");
    screen.until_shows(" 20 21 ");
    screen.press("\x1b");
    screen.until_shows("Stopped. What was said is kept.");
    screen.until_shows(" 20 21 ");
    screen.until_hides("Esc stops");
    screen.leave();
}

#[test]
fn a_session_is_found_by_its_words_in_the_list() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Say something");
    screen.say("say apples");
    screen.until("the first answer", |shown| {
        shown.matches("apples").count() > 1 && !shown.contains("Esc stops")
    });
    screen.say("/new");
    screen.until_hides("apples");
    screen.say("say pears");
    screen.until("the second answer", |shown| {
        shown.matches("pears").count() > 1 && !shown.contains("Esc stops")
    });
    screen.press("\x13");
    screen.until("both are listed", |shown| {
        shown.contains("say apples") && shown.contains("say pears")
    });
    let listed = screen.shown().replace(home.work().to_str().unwrap(), "<work>");
    // A busy machine takes its time.
    let listed = (1..9).fold(listed, |listed, minutes| {
        listed.replace(&format!("  {minutes} min  "), "  now  ")
    });
    let listed: Vec<&str> = listed.lines().take(6).collect();
    insta::assert_snapshot!("sessions", listed.join("\n"));
    screen.press("apl");
    screen.until_hides("say pears");
    screen.press("\r");
    screen.until("the first session", |shown| {
        shown.contains("› say apples") && !shown.contains("Type to search")
    });
    screen.leave();
}

#[test]
fn two_people_see_and_steer_one_session() {
    let home = Home::new();
    let _host = host(&home);
    let mut one = Screen::start(&home, &[], 100);
    one.until_shows("Say something");
    one.say("say first words");
    one.until("an answer", |shown| shown.matches("first words").count() > 1);
    let mut two = Screen::start(&home, &[], 60);
    two.until("the same conversation", |shown| {
        shown.matches("first words").count() > 1
    });
    two.say(r#"call create {"path":"c.txt","file_text":"x"} then say both saw it"#);
    for screen in [&mut one, &mut two] {
        screen.until_shows("Deny, and say why");
    }
    one.press("1");
    for screen in [&mut one, &mut two] {
        screen.until("the answer", |shown| {
            shown.contains("both saw it") && !shown.contains("Deny, and say why")
        });
    }
    assert!(home.work().join("c.txt").exists());
    one.leave();
    two.leave();
}

#[test]
fn a_host_that_is_killed_is_waited_for_and_what_was_typed_is_sent() {
    let home = Home::new();
    let mut first = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Say something");
    screen.say("say before");
    screen.until("an answer", |shown| {
        shown.matches("before").count() > 1 && !shown.contains("Esc stops")
    });
    first.kill();
    first.finish();
    screen.until_shows("The host is not reachable");
    screen.say("say typed meanwhile");
    screen.until_shows("It will be sent when the host is back");
    let _second = host(&home);
    screen.until("an answer from the next host", |shown| {
        shown.matches("typed meanwhile").count() > 1 && shown.matches("say before").count() == 1
    });
    screen.leave();
}

#[test]
fn nothing_that_an_agent_prints_steers_the_terminal() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 80);
    screen.until_shows("Say something");
    screen.say(r#"!printf '\033[2J\033]0;owned\007\033[31mred\n'; echo after"#);
    screen.until_shows("after");
    screen.until_shows("[2J");
    screen.until_shows("rehearsal");
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
