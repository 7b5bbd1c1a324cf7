//! What a person sees, screen by screen: at three widths, and on a dark and a light background.

use std::time::{Duration, Instant};

use testkit::Home;

use crate::chat::{Screen, host};

/// A width, and whether the background is light.
#[derive(Clone, Copy)]
struct Look(u16, bool);

/// Text is recorded at each width on dark; colours at one width, on dark and on light.
const LOOKS: [Look; 4] = [Look(60, false), Look(100, false), Look(160, false), Look(100, true)];
const COLOURED: u16 = 100;

impl Look {
    fn start(self, home: &Home, args: &[&str]) -> Screen {
        let background = if self.1 { "0;15" } else { "15;0" };
        let mut command = home.command(args);
        Screen::with(command.env_remove("NO_COLOR").env("COLORFGBG", background), self.0)
    }

    /// Compares a screen with its record.
    fn record(self, scene: &str, screen: &Screen, home: &Home) {
        let (columns, light) = (self.0, self.1);
        if !light {
            insta::assert_snapshot!(format!("{scene}-{columns}"), text(screen, home));
        }
        if columns == COLOURED {
            let scheme = if light { "light" } else { "dark" };
            insta::assert_snapshot!(format!("{scene}-{scheme}"), styles(screen, home));
        }
    }
}

/// Rows without the title of a question about a file: it has a path of this run, and takes as many rows as that is long.
fn without_title(rows: Vec<String>) -> String {
    let begin = rows.iter().position(|row| row.contains("Write to"));
    let end = rows.iter().position(|row| row.contains("    a.rs  +"));
    let Some((begin, end)) = begin.zip(end).filter(|(begin, end)| begin < end) else {
        return rows.join("\n");
    };
    // How many empty rows are left depends on it, too.
    let before = rows[..begin].iter().filter(|row| !row.trim().is_empty());
    before.chain(&rows[end..]).cloned().collect::<Vec<_>>().join("\n")
}

/// A text without what differs from run to run: tokens, which depend on the length of paths, times and paths.
fn steady(text: &str, home: &Home) -> String {
    let work = home.work().to_str().unwrap().to_owned();
    let mut text = text.replace(&work, "<work>");
    for log in home.logs() {
        let id = log.parent().and_then(|session| session.file_name()).unwrap();
        let id = id.to_str().unwrap();
        text = text.replace(id, "<session>").replace(&id[..8], "<id>");
    }
    let piece = |piece: &str| {
        let ends = piece.trim();
        let is_age = ends == "now" || ends.strip_suffix(" min").is_some_and(|age| age.parse::<u32>().is_ok());
        let is_spinner = |c: char| ('\u{2800}'..='\u{28ff}').contains(&c);
        match piece {
            _ if piece.contains('↑') && piece.starts_with(|c: char| c.is_ascii_digit()) => "TOKENS".to_owned(),
            _ if is_age => "AGE".to_owned(),
            _ if ends.strip_prefix('…').is_some_and(|end| work.ends_with(end)) => "<work>".to_owned(),
            _ if piece.starts_with(is_spinner) => {
                let words = piece.trim_start_matches(is_spinner);
                match words.strip_suffix(" s").and_then(|words| words.rsplit_once(' ')) {
                    Some((words, _)) => format!("⠿{words} TIME"),
                    None => format!("⠿{words}"),
                }
            }
            _ => piece.to_owned(),
        }
    };
    let line = |line: &str| {
        let pieces = line
            .trim_end()
            .split(" · ")
            .filter(|piece| !piece.ends_with("% context"));
        let aged = |part: &str| {
            let pieces: Vec<String> = part.split("  ").map(piece).collect();
            match pieces.iter().any(|piece| piece == "AGE") {
                // How wide the columns of a list are depends on what is in them.
                true => pieces
                    .into_iter()
                    .filter(|piece| !piece.trim().is_empty())
                    .collect::<Vec<_>>(),
                false => pieces,
            }
            .join("  ")
        };
        pieces.map(aged).collect::<Vec<_>>().join(" · ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn text(screen: &Screen, home: &Home) -> String {
    let text = steady(&screen.emulator.screen().contents(), home);
    without_title(text.lines().map(str::to_owned).collect())
}

/// Every run of a style that is not the terminal's own, with its text, row by row.
fn styles(screen: &Screen, home: &Home) -> String {
    let screen = screen.emulator.screen();
    let (rows, columns) = screen.size();
    let mut lines = Vec::new();
    for row in 0..rows.get() {
        let mut runs: Vec<(String, String)> = Vec::new();
        for cell in (0..columns.get()).filter_map(|column| screen.cell(row, column)) {
            let mut style = format!("{:?}/{:?}", cell.fgcolor(), cell.bgcolor());
            for (is_so, name) in [
                (cell.bold(), " bold"),
                (cell.dim(), " dim"),
                (cell.italic(), " italic"),
                (cell.underline(), " underline"),
                (cell.inverse(), " inverse"),
            ] {
                style.push_str(if is_so { name } else { "" });
            }
            let text = if cell.has_contents() { cell.contents() } else { " " };
            match runs.last_mut() {
                Some((same, run)) if *same == style => run.push_str(text),
                _ => runs.push((style, text.to_owned())),
            }
        }
        let own = |(style, text): &&(String, String)| style != "Default/Default" && !text.trim().is_empty();
        let shown = runs.iter().filter(own);
        lines.extend(shown.map(|(style, text)| format!("{:?} {style}", steady(text, home))));
    }
    without_title(lines)
}

#[test]
fn lodge_alone_starts_a_host_and_shows_how_to_bring_a_model() {
    for look in LOOKS {
        let home = Home::new();
        let mut screen = look.start(&home, &[]);
        screen.until_shows("/login sets up a real one");
        screen.until_shows("rehearsal · interactive");
        look.record("first", &screen, &home);
        let status = home.run(["status"]).ok();
        assert!(status.lines[0].contains("is running on"), "{:?}", status.lines);
        screen.leave();
        // The host stays for a while, and then goes by itself.
        let patience = Instant::now() + Duration::from_secs(60);
        while home.run(["status"]).status.success() {
            assert!(Instant::now() < patience, "the host stays for ever");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn an_answer_streams_as_markdown_until_escape_and_is_there_at_the_next_start() {
    let answer = "say \"# Plan\n\nTwo **steps**, see `lib.rs`:\n\n1. read\n2. write\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n\
                  ```rust\nfn main() { // begins\" then wait 600 s";
    for look in LOOKS {
        let home = Home::new();
        let _host = host(&home);
        let mut screen = look.start(&home, &[]);
        screen.until_shows("Type a message");
        screen.say(answer);
        screen.until("the answer is on its way", |shown| {
            // What is written to be sent has no drawn table.
            shown.matches("// begins").count() > 1 && shown.contains('┼') && shown.contains("Esc stops")
        });
        look.record("streaming", &screen, &home);
        screen.press("\x1b");
        screen.until_shows("Stopped. The text so far is kept.");
        screen.until_hides("Esc stops");
        look.record("stopped", &screen, &home);
        screen.leave();
        let mut again = look.start(&home, &["--resume"]);
        again.until("the conversation as it was", |shown| {
            shown.contains("Stopped. The text so far is kept.") && shown.contains("rehearsal · interactive")
        });
        look.record("resumed", &again, &home);
        again.leave();
    }
}

#[test]
fn a_write_is_approved_with_its_difference_in_view() {
    for look in LOOKS {
        let home = Home::new();
        std::fs::write(home.work().join("a.rs"), "fn one() {}\nfn two() {}\n").unwrap();
        let _host = host(&home);
        let mut screen = look.start(&home, &[]);
        screen.until_shows("Type a message");
        screen.say(
            r#"call edit {"path":"a.rs","old_str":"fn two() {}","new_str":"fn two() { one() }"} then say changed"#,
        );
        screen.until_shows("Deny, and say why");
        screen.until_shows("Esc stops");
        // The lines around the change come from the host.
        screen.until_shows("1   fn one() {}");
        look.record("approval", &screen, &home);
        screen.press("y");
        screen.until_shows("changed");
        screen.until_hides("Esc stops");
        let text = std::fs::read_to_string(home.work().join("a.rs")).unwrap();
        assert_eq!(text, "fn one() {}\nfn two() { one() }\n");
        look.record("edited", &screen, &home);
        screen.leave();
    }
}

#[test]
fn a_session_is_found_by_its_words_in_the_list() {
    for look in LOOKS {
        let home = Home::new();
        let _host = host(&home);
        let mut screen = look.start(&home, &[]);
        screen.until_shows("Type a message");
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
        look.record("sessions", &screen, &home);
        screen.press("apl");
        screen.until_hides("say pears");
        screen.press("\r");
        screen.until("the first session", |shown| {
            shown.contains("› say apples") && !shown.contains("Type to search")
        });
        screen.leave();
    }
}

#[test]
fn two_people_see_and_steer_one_session() {
    for look in LOOKS {
        let home = Home::new();
        let _host = host(&home);
        let mut one = look.start(&home, &[]);
        one.until_shows("Type a message");
        one.say("say first words");
        one.until("an answer", |shown| shown.matches("first words").count() > 1);
        let mut two = Screen::start(&home, &[], 60);
        two.until("the same conversation", |shown| {
            shown.matches("first words").count() > 1
        });
        two.say(r#"call create {"path":"c.txt","file_text":"x"} then say seen"#);
        for screen in [&mut one, &mut two] {
            screen.until_shows("Deny, and say why");
        }
        one.press("1");
        for screen in [&mut one, &mut two] {
            screen.until("the answer", |shown| {
                shown.matches("seen").count() > 1
                    && !shown.contains("Deny, and say why")
                    && !shown.contains("Esc stops")
            });
        }
        assert!(home.work().join("c.txt").exists());
        look.record("shared", &one, &home);
        one.leave();
        two.leave();
    }
}

#[test]
fn a_host_that_is_killed_is_waited_for_and_what_was_typed_is_sent() {
    for look in LOOKS {
        let home = Home::new();
        let mut first = host(&home);
        let mut screen = look.start(&home, &[]);
        screen.until_shows("Type a message");
        screen.say("say before");
        screen.until("an answer", |shown| {
            shown.matches("before").count() > 1 && !shown.contains("Esc stops")
        });
        first.kill();
        first.finish();
        screen.until_shows("The host is not reachable");
        screen.say("say typed meanwhile");
        screen.until_shows("sent when the host is back: say typed meanwhile");
        look.record("away", &screen, &home);
        let _second = host(&home);
        screen.until("an answer from the next host", |shown| {
            shown.matches("typed meanwhile").count() > 1
                && shown.matches("say before").count() == 1
                && !shown.contains("Esc stops")
                && !shown.contains("not reachable")
        });
        look.record("back", &screen, &home);
        screen.leave();
    }
}

#[test]
fn one_message_is_drawn_as_in_the_conversation_with_or_without_a_host() {
    let prompt = "say \"First **this**:\n\n```rust\nlet x = 1;\n```\" then call bash {\"command\":\"seq 2\"} then \
                  call edit {\"path\":\"a.rs\",\"old_str\":\"two\",\"new_str\":\"one\"} then say changed";
    for (number, look) in LOOKS.into_iter().enumerate() {
        let home = Home::new();
        std::fs::write(home.work().join("a.rs"), "one\ntwo\n").unwrap();
        let _host = (number % 2 == 0).then(|| host(&home));
        let mut screen = look.start(&home, &["run", prompt]);
        screen.until_shows("Allow? [y]es, [n]o, [a]lways in this session: ");
        screen.press("y\n");
        screen.until_shows("Continue with");
        assert!(screen.child.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(home.work().join("a.rs")).unwrap(), "one\none\n");
        screen.until_shows("\"…\"");
        look.record("run", &screen, &home);
    }
}

#[test]
fn what_a_command_prints_is_shown_while_it_runs() {
    let home = Home::new();
    let command = r#"call bash {"command":"echo begun; while [ ! -e go ]; do sleep 0.05; done; seq 20"} then say over"#;
    let mut screen = Look(80, false).start(&home, &["run", "--approve", "all", command]);
    screen.until("its output, while it runs", |shown| {
        shown.contains("● Running") && shown.contains("    begun")
    });
    std::fs::write(home.work().join("go"), "").unwrap();
    screen.until_shows("Continue with");
    let shown = text(&screen, &home);
    assert!(
        shown.contains("✓ Ran") && shown.contains("    … 16 earlier lines\n    16\n"),
        "{shown}"
    );
    assert!(!shown.contains("● Running") && !shown.contains("begun\n"), "{shown}");
}
