//! What goes on beside a conversation at a terminal: commands in the background, other sessions, settings, the clipboard.

use std::time::{Duration, Instant};

use base64::{Engine, engine::general_purpose::STANDARD};
use testkit::Home;

use crate::chat::{Screen, host, stop};

const CONTROL_S: &str = "\x13";
const CONTROL_T: &str = "\x14";
const CONTROL_D: &str = "\x04";
const CONTROL_E: &str = "\x05";

/// Waits for something that is not on the screen. Only a hang gets to see the end of it.
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < patience, "never so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_command_in_the_background_is_listed_read_and_stopped() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &["--approve", "all"], 100);
    screen.until_shows("Type a message");
    screen.say(r#"call bash {"command":"echo ready; sleep 1000","mode":"async"} then say begun"#);
    screen.until_answered("begun");
    screen.until_shows("1 background task (Ctrl-T)");
    // Another client sees it, too, although it came later.
    let mut other = Screen::start(&home, &[], 100);
    other.until_shows("1 background task (Ctrl-T)");
    screen.press(CONTROL_T);
    screen.until_shows("& echo ready; sleep 1000  since");
    screen.press("\r");
    screen.until_shows("$ echo ready; sleep 1000");
    screen.until("its output", |shown| shown.lines().any(|line| line.trim() == "ready"));
    screen.press("q");
    screen.until_shows("& echo ready");
    screen.press("x");
    screen.until_shows("There is no background work.");
    other.until_hides("background task");
    other.leave();
    screen.press("\x1b");
    screen.until_hides("There is no background work.");
    // One that ends by itself goes away by itself.
    screen.say(r#"call bash {"command":"while ! [ -e go ]; do sleep 0.1; done","mode":"async"} then say waiting"#);
    screen.until_answered("waiting");
    screen.until_shows("1 background task");
    std::fs::write(home.work().join("go"), "").unwrap();
    screen.until_hides("background task");
    screen.leave();
}

#[test]
fn a_session_has_the_environment_of_whoever_opens_it_after_the_host_was_restarted() {
    let home = Home::new();
    let value = |screen: &mut Screen, word: &str, expected: &str| {
        screen.say(&format!("!echo {word}=$WHOSE="));
        screen.until_shows(&format!("{word}={expected}="));
    };
    let mut first = host(&home);
    let mut screen = Screen::with(home.command([] as [&str; 0]).env("WHOSE", "mine"), 100);
    screen.until_shows("Type a message");
    value(&mut screen, "one", "mine");
    // The host that comes next knows nothing of it.
    first.kill();
    first.finish();
    screen.until_shows("not reachable");
    let second = host(&home);
    screen.until_shows("The host is back");
    value(&mut screen, "two", "mine");
    screen.leave();
    stop(&home);
    drop(second);
    let _third = host(&home);
    let mut again = Screen::with(home.command([] as [&str; 0]).env("WHOSE", "still mine"), 100);
    again.until_shows("Continued");
    value(&mut again, "three", "still mine");
    // Whoever comes second changes nothing.
    let mut other = Screen::with(home.command([] as [&str; 0]).env("WHOSE", "yours"), 100);
    other.until_shows("Continued");
    value(&mut other, "four", "still mine");
    other.leave();
    again.leave();
    // When the last client has left, the next one brings its own.
    let mut last = Screen::with(home.command([] as [&str; 0]).env("WHOSE", "new"), 100);
    last.until_shows("Continued");
    value(&mut last, "five", "new");
    last.leave();
}

#[test]
fn sessions_are_renamed_and_deleted_in_the_list() {
    let home = Home::new();
    let _host = host(&home);
    for text in ["say apples", "say pears"] {
        let _ = home.run(["run", text]).ok();
    }
    let mut screen = Screen::start(&home, &["--new"], 100);
    screen.until_shows("Type a message");
    screen.press(CONTROL_S);
    screen.until_shows("say apples");
    screen.press("pears");
    screen.until_hides("say apples");
    screen.press(CONTROL_E);
    screen.until_shows("New title: say pears");
    screen.press("\x17fruit\r");
    screen.until_shows("say fruit");
    screen.press("\x1b");
    screen.until_hides("say fruit");
    let listed = || home.run(["sessions", "list"]).ok().stdout();
    wait("the new title", || listed().contains("say fruit"));
    screen.press(CONTROL_S);
    screen.until_shows("say apples");
    screen.press("apples");
    screen.until_hides("say fruit");
    screen.press(CONTROL_D);
    screen.until_shows("Delete \"say apples\"?");
    screen.press("y");
    wait("the end of the session", || !listed().contains("say apples"));
    assert!(listed().contains("say fruit"), "{}", listed());
    screen.until_shows("No match.");
    screen.press("\x1b");
    screen.until_hides("No match.");
    screen.leave();
}

#[test]
fn a_theme_that_is_chosen_is_kept_and_keys_are_what_a_person_made_them() {
    let home = Home::new();
    let _host = host(&home);
    let config = home.path().join("lodge.toml");
    std::fs::write(&config, "# mine\n[terminal.keys]\nf6 = \"tasks\"\n").unwrap();
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    screen.press("\x1b[17~");
    screen.until_shows("There is no background work.");
    screen.press("\x1b");
    screen.until_hides("There is no background work.");
    screen.say("/theme light");
    let written = || std::fs::read_to_string(&config).unwrap();
    wait("the theme", || written().contains("theme = \"light\""));
    assert!(written().starts_with("# mine\n[terminal.keys]\n"), "{}", written());
    screen.leave();
    std::fs::write(&config, "[terminal.keys]\nctrl-t = \"task\"\n").unwrap();
    let done = home.run(["run", "say no"]);
    assert!(
        !done.status.success() && done.stderr.contains("unknown variant `task`"),
        "{done:#?}"
    );
}

#[test]
fn the_last_answer_is_copied_through_the_terminal() {
    let home = Home::new();
    let _host = host(&home);
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    screen.say("say größe & more");
    screen.until_answered("größe & more");
    screen.say("/copy");
    screen.until_writes(&format!("\x1b]52;c;{}\x07", STANDARD.encode("größe & more")));
    screen.leave();
}
