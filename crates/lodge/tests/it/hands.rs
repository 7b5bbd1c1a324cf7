//! `lodge` in a terminal: the mouse, the keys of vi, and what is more than a screen or beside the conversation.

use std::time::{Duration, Instant};

use testkit::Home;

use crate::chat::{Screen, host, kill_host, stop};

/// A step of the wheel, up and down, in the form that terminals tell it.
const WHEEL_UP: &str = "\x1b[<64;10;5M";
const WHEEL_DOWN: &str = "\x1b[<65;10;5M";

fn paragraphs(count: usize) -> String {
    let lines: Vec<String> = (1..=count).map(|number| format!("paragraph {number:02}")).collect();
    format!("say \"{}\"", lines.join("\n\n"))
}

/// A terminal whose clipboard is a program of this test.
fn with_program(home: &Home, name: &str, script: &str) -> Screen {
    let programs = home.path().join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    let program = programs.join(name);
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = home.command::<&str>([]);
    Screen::with(command.env("PATH", path).env("WAYLAND_DISPLAY", "none"), 80)
}

#[test]
fn an_image_on_the_clipboard_is_attached() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = with_program(&home, "wl-paste", r"printf '\211PNG\r\n\032\n'");
    screen.until_shows("Type a message");
    screen.press("describe the request ");
    screen.until_shows("› describe the request");
    screen.press("\x16");
    screen.until_shows("[clipboard.png]");
    screen.press("\r");
    screen.until_shows("  + clipboard.png");
    screen.leave();
}

#[test]
fn a_clipboard_that_does_not_answer_keeps_nobody() {
    let home = Home::new();
    let _host = host(&home);
    let asked = home.work().join("asked");
    let script = format!(
        "echo $$ > {0}.part && mv {0}.part {0} && exec sleep 600",
        asked.display()
    );
    let mut screen = with_program(&home, "wl-paste", &script);
    screen.until_shows("Type a message");
    screen.press("\x16");
    let patience = Instant::now() + Duration::from_secs(60);
    while !asked.exists() {
        assert!(Instant::now() < patience, "nobody asks the clipboard");
        std::thread::sleep(Duration::from_millis(20));
    }
    screen.press("\x03\x03");
    let left = loop {
        match screen.child.try_wait().unwrap() {
            Some(status) => break status.success(),
            None if Instant::now() > patience => break false,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let pid = std::fs::read_to_string(&asked).unwrap().trim().parse().ok();
    let pid = pid.and_then(rustix::process::Pid::from_raw).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    assert!(left, "it waits for the clipboard");
}

#[test]
fn the_wheel_scrolls_and_what_is_dragged_over_is_copied() {
    let home = Home::new();
    let _host = host(&home);
    let copied = home.work().join("copied");
    let script = format!("cat > {}.part && mv {0}.part {0}", copied.display());
    let mut screen = with_program(&home, "wl-copy", &script);
    screen.until_shows("Type a message");
    screen.say(&paragraphs(30));
    screen.until_shows("paragraph 30");
    screen.until_hides("Esc stops");
    screen.press(&WHEEL_UP.repeat(10));
    screen.until("the beginning", |shown| {
        shown.contains("paragraph 10") && !shown.contains("paragraph 30") && shown.contains("↓ more")
    });
    screen.press(&WHEEL_DOWN.repeat(20));
    screen.until_shows("paragraph 30");
    let row = |screen: &Screen, text: &str| {
        let shown = screen.emulator.screen().contents();
        1 + shown.lines().position(|line| line.contains(text)).unwrap()
    };
    let (from, to) = (row(&screen, "paragraph 29"), row(&screen, "paragraph 30"));
    screen.press(&format!(
        "\x1b[<0;11;{from}M\x1b[<32;5;{to}M\x1b[<32;9;{to}M\x1b[<0;9;{to}m"
    ));
    screen.until_shows("Copied.");
    let patience = Instant::now() + Duration::from_secs(60);
    while !copied.exists() {
        assert!(Instant::now() < patience, "nothing is copied");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(std::fs::read_to_string(&copied).unwrap(), "29\n\nparagraph");
    screen.leave();
}

#[test]
fn a_message_is_written_with_the_keys_of_vi() {
    let home = Home::new();
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("lodge.toml"), "[terminal]\nvim = true\n").unwrap();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 80);
    screen.until_shows("INSERT · rehearsal");
    screen.press("say hello world");
    screen.until_shows("› say hello world");
    screen.press("\x1b");
    screen.until_shows("NORMAL · rehearsal");
    screen.press("bdbA, and vi");
    screen.until_shows("› say world, and vi");
    screen.press("\r");
    screen.until("the answer", |shown| shown.matches("world, and vi").count() == 2);
    screen.leave();
}

#[test]
fn all_of_a_long_change_can_be_read_before_it_is_approved() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 80);
    screen.until_shows("Type a message");
    let lines: String = (1..=60).map(|number| format!("row {number:02}\\n")).collect();
    screen.say(&format!(
        r#"call create {{"path":"long.txt","file_text":"{lines}"}} then say made"#
    ));
    screen.until_shows("of 61 · PageUp, PageDown");
    screen.until_shows("+ row 01");
    let page_down = "\x1b[6~";
    screen.press(&page_down.repeat(8));
    screen.until("its end", |shown| {
        shown.contains("+ row 60") && !shown.contains("+ row 01")
    });
    screen.press(WHEEL_UP);
    screen.until_hides("+ row 60");
    screen.press("n");
    screen.until_shows("made");
    assert!(!home.work().join("long.txt").exists());
    screen.leave();
}

#[test]
fn sub_agents_are_watched_and_their_questions_are_seen_together() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 140);
    screen.until_shows("Type a message");
    let agent = |name: &str| {
        let prompt =
            format!(r#"say {name} is here then call bash {{\"command\":\"touch {name}.txt\"}} then wait 600 s"#);
        format!(
            r#"task {{"agent_type":"task","name":"{name}","description":"{name}","prompt":"{prompt}","mode":"background"}}"#
        )
    };
    screen.say(&format!(
        "call {} and {} then say both work",
        agent("first"),
        agent("second")
    ));
    screen.until("both questions", |shown| {
        shown.contains("(1 of 2, Tab: next)")
            && shown.contains("    touch ")
            && shown
                .lines()
                .any(|line| line.starts_with("? Task Agent: Run this command?") && line.contains("  touch "))
    });
    screen.press("\x14");
    screen.until("both are listed", |shown| {
        shown.contains("Delegating first") && shown.contains("Delegating second")
    });
    screen.press("\r");
    screen.until("its conversation", |shown| {
        shown.contains("viewing a sub-agent · Esc to go back") && shown.contains("first is here")
    });
    // The first one leaves the question, the second the conversation.
    screen.press("\x1b");
    screen.until_shows("open questions (Tab)");
    screen.press("\x1b");
    screen.until("the own conversation", |shown| {
        shown.contains("both work") && !shown.contains("viewing a sub-agent")
    });
    screen.press("\ty");
    screen.until_hides("Tab: next");
    screen.press("n");
    screen.until_hides("Run this command?");
    screen.leave();
}

#[test]
fn a_sub_agent_that_is_watched_when_the_host_is_killed_is_in_view_after_it() {
    let home = Home::new();
    let mut screen = Screen::start(&home, &[], 140);
    screen.until_shows("Type a message");
    let prompt = "say it is here then wait 600 s";
    screen.say(&format!(
        r#"call task {{"agent_type":"task","name":"helper","description":"helper","prompt":"{prompt}","mode":"background"}} then say it works"#
    ));
    screen.until_shows("1 background task");
    screen.press("\x14");
    screen.until_shows("Delegating helper");
    screen.press("\r");
    screen.until("its conversation", |shown| {
        shown.contains("viewing a sub-agent · Esc to go back") && shown.contains("it is here")
    });
    kill_host(&home);
    screen.until_shows("not reachable");
    screen.until("the conversation, its own or the other", |shown| {
        !shown.contains("not reachable") && (shown.contains("it is here") || shown.contains("it works"))
    });
    screen.press("\x1b");
    screen.until("the own conversation", |shown| {
        shown.contains("it works") && !shown.contains("viewing a sub-agent")
    });
    screen.say("say still here");
    screen.until("an answer", |shown| {
        shown.matches("still here").count() > 1 && !shown.contains("Esc stops")
    });
    screen.leave();
    stop(&home);
}

#[test]
fn escape_twice_goes_back_to_an_earlier_message_and_lets_it_be_changed() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 80);
    screen.until_shows("Type a message");
    for word in ["apples", "pears", "plums"] {
        screen.say(&format!("say {word}"));
        screen.until("an answer", |shown| {
            shown.matches(word).count() > 1 && !shown.contains("Esc stops")
        });
    }
    screen.press("\x1b");
    screen.until_shows("Press Esc again to go back");
    screen.press("\x1b");
    screen.until_shows("Rewind to before");
    screen.press("\x1b[B\r");
    screen.until("the conversation before pears", |shown| {
        shown.contains("apples") && !shown.contains("plums") && shown.matches("pears").count() == 1
    });
    screen.press(" and quinces\r");
    screen.until("another answer", |shown| shown.matches("pears and quinces").count() > 1);
    screen.leave();
}

#[test]
fn a_command_of_the_persons_own_leaves_the_session_idle_and_a_stopped_host_its_home() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 80);
    screen.until_shows("Type a message");
    screen.say("!echo typed");
    screen.until_shows("    typed");
    screen.until_hides("Esc stops");
    let listed = home.run(["sessions", "list"]).ok();
    assert!(listed.lines[0].contains("  idle  "), "{:?}", listed.lines);
    screen.leave();
    let _ = home.run(["serve", "--stop"]).ok();
    let _ = home.run(["check", "--fix"]).ok();
}

#[test]
fn a_terminal_that_says_that_it_is_light_is_written_on_in_dark_letters() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 80);
    // As somebody types meanwhile.
    screen.answer = "say \x1b]11;rgb:ffff/ffff/ffff\x1b\\bright\x1b[?62;22c";
    screen.until_shows("› say bright");
    screen.press("\r");
    screen.until("the answer", |shown| shown.matches("bright").count() > 1);
    let shown = screen.emulator.screen();
    let row = shown
        .contents()
        .lines()
        .position(|line| line.contains("say bright"))
        .unwrap();
    let cell = shown.cell(u16::try_from(row).unwrap(), 4).unwrap();
    assert_eq!(cell.bgcolor(), vt100::Color::Idx(254));
    screen.leave();
}

#[test]
fn a_sub_agent_is_stopped_from_the_list_of_what_works() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    let prompt = "say it is here then wait 600 s";
    screen.say(&format!(
        r#"call task {{"agent_type":"task","name":"helper","description":"helper","prompt":"{prompt}","mode":"background"}} then say it works"#
    ));
    screen.until_shows("1 background task");
    screen.press("\x14");
    screen.until_shows("working");
    screen.press("x");
    screen.until_hides("working");
    screen.press("\x1b");
    screen.until("nothing works", |shown| {
        !shown.contains("Sub-agents, background work") && !shown.contains("background task")
    });
    screen.leave();
}
