//! `lodge` in a terminal: what people do in every terminal program, and what it does for them without being asked.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Pid, test_kill_process};
use testkit::Home;

use crate::{
    chat::{Screen, host, stop},
    terminal::Terminal,
};

const PATIENCE: Duration = Duration::from_secs(60);
const ENTER: &str = "\r";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_G: &str = "\x07";
const CTRL_O: &str = "\x0f";
const CTRL_T: &str = "\x14";
const CTRL_Z: &str = "\x1a";
const UP: &str = "\x1b[A";
const ALT_UP: &str = "\x1b[1;3A";
/// What a terminal sends when its window gets and loses the focus.
const FOCUS: &str = "\x1b[I";
const NO_FOCUS: &str = "\x1b[O";
/// What a terminal is sent to notify a person.
const NOTIFICATION: &str =
    "\x07\x1b]9;Lodge waits for your answer\x07\x1b]777;notify;Lodge;Lodge waits for your answer\x07";
/// Waits until a file exists.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.05; done";

fn started(home: &Home, columns: u16) -> Screen {
    let mut screen = Screen::start(home, &[], columns);
    screen.until_shows("Type a message");
    screen
}

/// Lets every tool run.
fn approve_everything(screen: &mut Screen) {
    screen.say("/approvals all");
    screen.until_shows("auto-approve on");
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < patience, "never so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The style of the first cell of a text on the screen: foreground and background.
fn colours(screen: &Screen, text: &str) -> (vt100::Color, vt100::Color) {
    let shown = screen.emulator.screen();
    let mut rows = shown.rows(0, shown.size().1.get()).enumerate();
    let (row, line) = rows
        .find(|(_, line)| line.contains(text))
        .unwrap_or_else(|| panic!("{text:?} is not shown:\n{}", shown.contents()));
    let column = line[..line.find(text).unwrap()].chars().count();
    let cell = shown
        .cell(u16::try_from(row).unwrap(), u16::try_from(column).unwrap())
        .unwrap();
    (cell.fgcolor(), cell.bgcolor())
}

/// Reads until something that a program drew is so.
fn until(screen: &mut Screen, what: &str, is_so: impl Fn(&Screen) -> bool) {
    while !is_so(screen) {
        screen.process_next(what);
    }
}

fn has_colours(screen: &Screen) -> bool {
    let shown = screen.emulator.screen();
    let (rows, columns) = shown.size();
    let cells = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
    let mut cells = cells.filter_map(|(row, column)| shown.cell(row, column));
    cells.any(|cell| {
        [cell.fgcolor(), cell.bgcolor()]
            .iter()
            .any(|colour| *colour != vt100::Color::Default)
    })
}

fn pid(name: &str) -> Option<Pid> {
    Pid::from_raw(name.trim().parse().ok()?)
}

/// The host of a home, as its `host.json` says.
fn host_pid(home: &Home) -> Pid {
    let note = std::fs::read_to_string(home.path().join("host.json")).unwrap();
    let note: serde_json::Value = serde_json::from_str(&note).unwrap();
    pid(&note["pid"].to_string()).unwrap()
}

#[test]
fn a_terminal_that_changes_its_size_is_drawn_anew() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::in_session(home.command::<&str>([]).env_remove("NO_COLOR"), 100);
    screen.until_shows("Type a message");
    let words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen";
    screen.say(&format!("say \"{words}\""));
    let rule = |columns: usize| "─".repeat(columns);
    screen.until("the answer in one row", |shown| {
        shown.matches(words).count() == 1 && shown.contains(&rule(100)) && !shown.contains("Esc stops")
    });
    for (columns, rows) in [(60, 20), (160, 50), (60, 12)] {
        screen.resize(columns, rows);
        screen.until("drawn for its size", |shown| {
            let width = usize::from(columns);
            let fits = shown.contains(&rule(width)) && !shown.contains(&rule(width + 1));
            fits && shown.contains(words) == (columns == 160) && shown.contains("sixteen")
        });
    }
    screen.leave();
}

#[test]
fn a_client_with_nothing_to_do_ends_with_a_terminal_that_signals_nothing() {
    let home = Home::new();
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    let status = screen.close();
    assert!(status.success(), "{status}");
    stop(&home);
}

#[test]
fn a_terminal_that_is_closed_ends_its_client_and_not_the_work() {
    // With the terminal's signal, and only by the terminal being gone.
    for with_signal in [true, false] {
        let home = Home::new();
        let command = home.command::<&str>([]);
        let mut screen = match with_signal {
            true => Screen::in_session(&command, 100),
            false => Screen::start(&home, &[], 100),
        };
        screen.until_shows("Type a message");
        approve_everything(&mut screen);
        screen.say(&format!(r#"call bash {{"command":"{UNTIL_GO}"}} then say it went on"#));
        screen.until_shows("● Running");
        let status = screen.close();
        assert!(status.success(), "{status}");
        let status = home.run(["status"]).ok().stdout();
        assert!(status.contains("[working]"), "{status}");
        std::fs::write(home.work().join("go"), "").unwrap();
        let mut again = Screen::start(&home, &[], 100);
        again.until("the answer", |shown| {
            shown.matches("it went on").count() > 1 && !shown.contains("Esc stops")
        });
        again.leave();
        stop(&home);
    }
}

#[test]
fn ctrl_z_gives_the_shell_the_terminal_and_fg_gives_it_back() {
    let home = Home::new();
    let _host = host(&home);
    let like = home.command::<&str>([]);
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]).current_dir(home.work());
    shell.env_clear();
    shell.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("LODGE", like.get_program()).env("PS1", "shell> ");
    let mut screen = Screen::in_session(&shell, 100);
    screen.until_shows("shell> ");
    screen.press("\"$LODGE\"\r");
    screen.until_shows("Type a message");
    screen.say("say before");
    screen.until_answered("before");
    screen.press(CTRL_Z);
    screen.until("the shell's screen", |shown| {
        shown.contains("Stopped") && shown.trim_end().ends_with("shell>") && !shown.contains("› say before")
    });
    screen.press("echo $((6 * 7)) is typed in the shell\r");
    screen.until_shows("42 is typed in the shell");
    screen.press("fg\r");
    screen.until("the conversation", |shown| {
        shown.contains("› say before") && shown.contains("Type a message") && !shown.contains("shell> ")
    });
    screen.say("say after");
    screen.until_answered("after");
    screen.press(CTRL_D);
    screen.until("the shell", |shown| shown.trim_end().ends_with("shell>"));
    screen.press("exit 7\r");
    assert_eq!(screen.child.wait().unwrap().code(), Some(7));
}

#[test]
fn a_question_calls_a_person_who_looks_elsewhere() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = started(&home, 100);
    let question = r#"call create {"path":"b.txt","file_text":"x"} then say "#;
    screen.press(FOCUS);
    screen.say(&format!("{question}first"));
    screen.until_shows("Deny, and say why");
    screen.press("n");
    screen.until_answered("first");
    assert!(!screen.wrote("\x1b]9;"), "the person looks at it");
    screen.press(NO_FOCUS);
    screen.say(&format!("{question}second"));
    screen.until_writes(NOTIFICATION);
    screen.until_shows("Deny, and say why");
    screen.press("n");
    screen.until_answered("second");
    screen.leave();
}

#[test]
fn the_output_of_a_command_is_live_and_opens_and_closes() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = started(&home, 100);
    approve_everything(&mut screen);
    let command = format!("echo begun; {UNTIL_GO}; seq 101 130");
    screen.say(&format!(r#"call bash {{"command":"{command}"}} then say over"#));
    screen.until("its output, while it runs", |shown| {
        shown.contains("● Running") && shown.contains("    begun")
    });
    std::fs::write(home.work().join("go"), "").unwrap();
    screen.until_answered("over");
    screen.until("one line", |shown| {
        shown.contains("✓ Ran") && shown.contains("31 lines") && !shown.contains("    130")
    });
    screen.press(CTRL_O);
    screen.until_shows("    130");
    screen.press(CTRL_O);
    screen.until_hides("    130");
    screen.leave();
}

#[test]
fn a_command_that_failed_is_marked_so() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = started(&home, 100);
    approve_everything(&mut screen);
    screen.say(r#"call bash {"command":"exit 3"} then say over"#);
    screen.until_answered("over");
    screen.until_shows("✗ Ran `exit 3` (exit code 3)");
    screen.leave();
    for (format, mark) in [("md", "<summary>✗ bash"), ("html", "tool failed")] {
        let export = home.run(["export", "last", "--format", format]).ok().stdout();
        assert!(export.contains(mark), "{export}");
    }
}

#[test]
fn diff_shows_what_changed_in_colours() {
    let home = Home::new();
    std::fs::write(home.work().join("a.txt"), "one\ntwo\n").unwrap();
    let _host = host(&home);
    let mut screen = started(&home, 100);
    approve_everything(&mut screen);
    screen.say(r#"call edit {"path":"a.txt","old_str":"two","new_str":"three"} then say changed"#);
    screen.until_answered("changed");
    screen.say("/new");
    screen.until_hides("changed");
    screen.say("/diff");
    screen.until_shows("This session has changed no files.");
    screen.leave();
    let mut screen = Screen::start(&home, &["--resume", "last"], 100);
    // The newest session is the other one.
    screen.until_shows("This session has changed no files.");
    screen.press("\x13");
    screen.until_shows("call edit");
    screen.press("edit\r");
    screen.until("the first session", |shown| {
        shown.contains("✓ Edited") && !shown.contains("Type to search")
    });
    screen.say("/diff");
    screen.until("the change", |shown| {
        shown.contains("a.txt (+1 -1)") && shown.contains("@@ -1,2 +1,2 @@")
    });
    let shown = screen.emulator.screen().contents();
    let below = shown.split("a.txt (+1 -1)").nth(1).unwrap();
    for line in ["-two", "+three"] {
        assert!(below.contains(line), "{shown}");
    }
    let (added, removed) = (colours(&screen, "+three"), colours(&screen, "-two"));
    assert_ne!(added, removed);
    assert_ne!(added, colours(&screen, "one"));
    screen.leave();
    let run = home.run(["run", "--resume", "last", "/diff"]).ok().stdout();
    assert!(run.contains("\n-two\n+three\n"), "{run}");
}

#[test]
fn a_message_is_written_in_the_persons_own_editor() {
    let home = Home::new();
    let _host = host(&home);
    let editor = home.work().join("editor");
    let script =
        "#!/bin/sh\ngrep -q 'say begun' \"$2\" && [ \"$1\" = --wait ] && echo 'say from the editor' > \"$2\"\n";
    std::fs::write(&editor, script).unwrap();
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = home.command::<&str>([]);
    command
        .env("VISUAL", format!("{} --wait", editor.display()))
        .env("EDITOR", "false");
    let mut screen = Screen::with(&mut command, 100);
    screen.until_shows("Type a message");
    screen.press("say begun");
    screen.until_shows("› say begun");
    screen.press(CTRL_G);
    screen.until_shows("› say from the editor");
    screen.press(ENTER);
    screen.until_answered("from the editor");
    screen.leave();
}

#[test]
fn an_image_is_attached_by_its_path_and_a_file_by_some_of_its_letters() {
    let home = Home::new();
    let image = home.work().join("a picture.png");
    std::fs::write(&image, b"\x89PNG\r\n\x1a\n").unwrap();
    std::fs::write(home.work().join("notes-of-march.txt"), "Ides").unwrap();
    let _host = host(&home);
    let mut screen = started(&home, 100);
    screen.press("say looked at ");
    screen.until_shows("› say looked at");
    // As a file manager drops it.
    screen.press(&format!("\x1b[200~'{}'\x1b[201~", image.display()));
    screen.until_shows("[a picture.png]");
    screen.press("@ntsmarch");
    screen.until("the menu", |shown| {
        shown.matches("notes-of-march.txt").count() == 1 && shown.contains("@ntsmarch")
    });
    screen.press("\t");
    screen.until("completed", |shown| {
        shown.contains("@notes-of-march.txt") && !shown.contains("@ntsmarch")
    });
    screen.press(ENTER);
    screen.until_answered("looked at");
    screen.leave();
    let log = std::fs::read_to_string(home.logs().remove(0)).unwrap();
    let message = log.lines().find(|line| line.contains("\"user.message\"")).unwrap();
    let message: serde_json::Value = serde_json::from_str(message).unwrap();
    let attached = message["data"]["attachments"].to_string();
    assert!(
        attached.contains("notes-of-march.txt") && attached.contains("a picture.png"),
        "{attached}"
    );
}

#[test]
fn queued_messages_are_taken_back_edited_and_dropped() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = started(&home, 100);
    approve_everything(&mut screen);
    screen.say(&format!(r#"call bash {{"command":"{UNTIL_GO}"}} then say first"#));
    screen.until_shows("● Running");
    for word in ["apples", "pears", "plums"] {
        screen.say(&format!("say {word}"));
        screen.until_shows(&format!("+ queued: say {word}"));
    }
    screen.press(ALT_UP);
    screen.until("the last one is in the editor", |shown| {
        shown.contains("› say plums") && !shown.contains("queued: say plums")
    });
    screen.press(" and quinces\r");
    screen.until_shows("+ queued: say plums and quinces");
    screen.press(CTRL_T);
    screen.until_shows("edit a message · x: stop or remove it");
    // The first one is dropped, the next one edited.
    screen.press("x");
    screen.until_hides("queued: say apples");
    screen.press(ENTER);
    screen.until("the second one is in the editor", |shown| {
        shown.contains("› say pears") && !shown.contains("queued: say pears")
    });
    screen.press(" and figs\r");
    screen.until_shows("+ queued: say pears and figs");
    std::fs::write(home.work().join("go"), "").unwrap();
    screen.until("the answers in the order of the queue", |shown| {
        let place = |text: &str| shown.rfind(text);
        let (plums, pears) = (place("plums and quinces"), place("pears and figs"));
        let both = ["plums and quinces", "pears and figs"].map(|text| shown.matches(text).count());
        both == [2, 2] && plums < pears && !shown.contains("queued") && !shown.contains("Esc stops")
    });
    assert!(!screen.emulator.screen().contents().contains("apples"));
    screen.leave();
}

#[test]
fn colours_are_chosen_and_can_be_none() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::with(home.command::<&str>([]).env("NO_COLOR", "1"), 100);
    screen.until_shows("Type a message");
    screen.say("say bright");
    screen.until_answered("bright");
    assert!(!has_colours(&screen));
    screen.say("/theme light");
    screen.until_shows("`theme = \"light\"`");
    let washed = |with: u8| move |screen: &Screen| colours(screen, "say bright").1 == vt100::Color::Idx(with);
    until(&mut screen, "dark on light", washed(254));
    screen.say("/theme");
    screen.until_shows("* light");
    screen.press("dark\r");
    screen.until_shows("`theme = \"dark\"`");
    until(&mut screen, "light on dark", washed(236));
    screen.say("/theme plain");
    screen.until_shows("`theme = \"plain\"`");
    until(&mut screen, "no colours", |screen| !has_colours(screen));
    screen.leave();
}

#[test]
fn a_custom_agent_is_chosen_from_a_list() {
    let home = Home::new();
    let agents = home.work().join(".github/agents");
    std::fs::create_dir_all(&agents).unwrap();
    let reviewer = "---\nname: reviewer\ndescription: Reviews changes\n---\nYou review.\n";
    std::fs::write(agents.join("reviewer.md"), reviewer).unwrap();
    let _host = host(&home);
    let mut screen = started(&home, 100);
    screen.say("say before");
    screen.until_answered("before");
    screen.say("/agent");
    screen.until("the list", |shown| {
        shown.contains("* Default agent") && shown.contains("reviewer  Reviews changes")
    });
    screen.press("rev\r");
    screen.until_shows("rehearsal · @reviewer");
    screen.say("say after");
    screen.until_answered("after");
    screen.leave();
    let log = std::fs::read_to_string(home.logs().remove(0)).unwrap();
    assert!(log.contains("\"subagent.selected\""), "{log}");
}

#[test]
fn what_was_typed_is_recalled_by_the_next_run_and_another_directory_has_its_own_session() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = started(&home, 100);
    screen.say("say apples");
    screen.until_answered("apples");
    screen.leave();
    let other = home.work().join("other");
    std::fs::create_dir(&other).unwrap();
    let mut screen = Screen::with(home.command::<&str>([]).current_dir(&other), 100);
    screen.until_shows("Type a message");
    assert!(!screen.emulator.screen().contents().contains("apples"));
    screen.press(UP);
    screen.until_shows("› say apples");
    screen.press(CTRL_C);
    screen.until_shows("Type a message");
    screen.press(CTRL_D);
    assert!(screen.child.wait().unwrap().success());
}

#[test]
fn a_host_of_another_version_is_named_in_the_conversation() {
    let home = Home::new();
    let _host = host(&home);
    let note = home.path().join("host.json");
    let text = std::fs::read_to_string(&note).unwrap();
    let own = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    std::fs::write(&note, text.replace(&own, "\"version\":\"9.9.9\"")).unwrap();
    let mut screen = Screen::start(&home, &[], 160);
    screen.until_shows("The running host is Lodge 9.9.9, and this is Lodge ");
    screen.until_shows("`lodge serve --stop`");
    screen.leave();
    let mut plain = Terminal::start(home.command(["attach", "--plain", "--new"]).env("TERM", "xterm"));
    plain.until("The running host is Lodge 9.9.9, and this is Lodge ");
    plain.until("> ");
    plain.press(CTRL_D);
    assert!(plain.child.wait().unwrap().success());
}

/// Whether a host that lingers for no more than a moment is still there after several.
fn stays(home: &Home) -> bool {
    std::thread::sleep(Duration::from_millis(1500));
    home.path().join("host.json").exists()
}

#[test]
fn a_host_of_a_conversation_stays_while_anything_works_or_anybody_looks() {
    let work = [
        ("a client", "say hello".to_owned()),
        (
            "a turn",
            format!(r#"call bash {{"command":"{UNTIL_GO}"}} then say went"#),
        ),
        (
            "a command in the background",
            format!(r#"call bash {{"command":"{UNTIL_GO}","mode":"async"}} then say left"#),
        ),
    ];
    for (what, message) in work {
        let home = Home::new();
        let mut screen = Screen::with(home.command::<&str>([]).env("LODGE_HOST_LINGER", "0.2"), 100);
        screen.until_shows("Type a message");
        approve_everything(&mut screen);
        screen.say(&message);
        screen.until_shows(match what {
            "a client" => "› say hello",
            "a turn" => "● Running",
            _ => "\nleft",
        });
        if what == "a client" {
            assert!(stays(&home), "{what}");
        }
        let host = host_pid(&home);
        screen.press(CTRL_D);
        assert!(screen.child.wait().unwrap().success());
        if what != "a client" {
            assert!(stays(&home), "{what}");
            std::fs::write(home.work().join("go"), "").unwrap();
        }
        wait_for("the host ends", || test_kill_process(host).is_err());
    }
}

#[test]
fn a_variable_asks_for_the_plain_client_and_that_opens_the_last_session_here() {
    let home = Home::new();
    let _host = host(&home);
    for value in ["1", "true", "yes"] {
        let mut plain = Terminal::start(home.command::<&str>([]).env("TERM", "xterm").env("LODGE_PLAIN", value));
        plain.until("Type /help for help.");
        plain.until("> ");
        match value {
            // Nothing was said in any session.
            "1" => {
                plain.until("No model is configured");
                plain.until("run `lodge setup`");
                plain.press("/login\r");
                plain.until("To set up a model");
                plain.press("say remembered\r");
                plain.until("remembered\r\nremembered\r\n");
            }
            _ => plain.until("> say remembered\r\n"),
        }
        plain.press(CTRL_D);
        assert!(plain.child.wait().unwrap().success());
        assert!(!plain.shown.contains("Enter a number or an id"), "{}", plain.shown);
    }
    for value in ["", "0", "false"] {
        let mut screen = Screen::with(home.command::<&str>([]).env("LODGE_PLAIN", value), 100);
        screen.until_shows("Type a message");
        screen.leave();
    }
}

#[test]
fn the_plain_client_calls_a_person_too_and_a_dumb_terminal_only_rings() {
    for (term, expected) in [("xterm", NOTIFICATION), ("dumb", "\x07")] {
        let home = Home::new();
        let _host = host(&home);
        let mut plain = Terminal::start(home.command(["attach", "--plain", "--new"]).env("TERM", term));
        plain.until("> ");
        plain.press("call create {\"path\":\"b.txt\",\"file_text\":\"x\"} then say done\r");
        plain.until(expected);
        plain.until("? ");
        plain.press("n\r");
        plain.until("done");
        assert_eq!(plain.shown.contains("\x1b]9;"), term == "xterm", "{}", plain.shown);
        plain.press(CTRL_D);
        assert!(plain.child.wait().unwrap().success());
    }
}

#[test]
fn what_a_terminal_far_away_answers_late_is_not_typed() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 80);
    // Nothing, as long as it is waited for.
    screen.answer = "";
    screen.until_shows("Type a message");
    screen.press("be\x1b]11;rgb:ffff/ffff/ffff\x1b\\fore");
    screen.until_shows("› before");
    screen.press(CTRL_C);
    screen.until_shows("Type a message");
    screen.leave();
}

#[test]
fn a_model_that_a_variable_names_is_used_for_new_sessions_or_said_to_be_missing() {
    let home = Home::new();
    let config = "[[provider]]\nname = \"p\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[[model]]\nid = \"one\"\nprovider = \"p\"\n[[model]]\nid = \"two\"\nprovider = \"p\"\n";
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
    let _host = host(&home);
    for (model, shown) in [
        ("two", "two · interactive"),
        ("three", "LODGE_MODEL names three, and the running host"),
    ] {
        let mut command = home.command(["attach", "--new"]);
        let mut screen = Screen::with(command.env_remove("NO_COLOR").env("LODGE_MODEL", model), 160);
        screen.until_shows(shown);
        screen.leave();
    }
}
