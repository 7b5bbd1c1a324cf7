//! Commands, forks, taking back, importing and exporting at a terminal.

use std::fs;

use testkit::Home;

fn id(home: &Home) -> String {
    let listed = home.run(["sessions", "list", "--json"]).ok();
    let line: serde_json::Value = serde_json::from_str(listed.stdout().lines().next().unwrap()).unwrap();
    line["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_command_is_carried_out_instead_of_said() {
    let home = Home::new();
    let _ = home.run(["run", "say hello"]).ok();
    let help = home.run(["run", "--resume", "last", "/help"]).ok();
    assert!(help.stdout().contains("/rewind [N] [chat]"), "{help:#?}");
    let titled = home.run(["run", "--resume", "last", "/title My work"]).ok();
    assert!(titled.stdout().contains("My work"), "{titled:#?}");
    let usage = home.run(["run", "--resume", "last", "/usage"]).ok();
    assert!(usage.stdout().contains("1 message,"), "{usage:#?}");
    let prompts = home.work().join(".claude/commands");
    fs::create_dir_all(&prompts).unwrap();
    fs::write(prompts.join("greet.md"), "say hello, $1").unwrap();
    let greeted = home.run(["run", "--resume", "last", "/greet you"]).ok();
    assert!(greeted.stdout().contains("hello, you"), "{greeted:#?}");
}

#[test]
fn a_plan_is_kept_to_until_it_is_approved() {
    let home = Home::new();
    let prompt = r#"call bash {"command":"touch made"} then say could not"#;
    let done = home.run(["run", "--yolo", "--mode", "plan", prompt]).ok();
    assert!(done.stdout().contains("could not"), "{done:#?}");
    assert!(!home.work().join("made").exists());
    let _ = home.run(["run", "--yolo", "--resume", "last", prompt]).ok();
    assert!(!home.work().join("made").exists(), "the mode is the session's");
    let _ = home
        .run(["run", "--yolo", "--resume", "last", "--mode", "interactive", prompt])
        .ok();
    assert!(home.work().join("made").exists());
}

#[test]
fn a_session_is_forked_at_a_turn_and_taken_back() {
    let home = Home::new();
    let path = home.work().join("a.txt");
    let create = format!(
        r#"call create {{"path":"{}","file_text":"a"}} then say made"#,
        path.display()
    );
    let _ = home.run(["run", "say one"]).ok();
    let _ = home.run(["run", "--yolo", "--resume", "last", &create]).ok();
    let id = id(&home);
    let fork = home.run(["sessions", "fork", &id, "--at", "1", "--name", "Copy"]).ok();
    let copy = fork.stdout().trim().to_owned();
    let shown = home.run(["sessions", "show", &copy]).ok();
    assert!(
        shown.stdout().contains("> say one") && !shown.stdout().contains("made"),
        "{shown:#?}"
    );
    assert_eq!(home.run(["sessions", "fork", &id, "--at", "3"]).status.code(), Some(1));
    let before = home.run(["sessions", "export", &id]).ok();
    let back = home.run(["sessions", "rewind", &id]).ok();
    assert!(back.stdout().contains("restored "), "{back:#?}");
    assert!(!path.exists());
    let _ = home.run(["sessions", "rewind", &id, "--undo"]).ok();
    assert!(path.exists());
    let after = home.run(["sessions", "export", &id]).ok();
    let (before, after) = (before.stdout(), after.stdout());
    assert_eq!(
        conversation(&after),
        conversation(&before),
        "every byte of the conversation is back"
    );
}

/// The events of a log but those beside the conversation: an undo does not move them, and another home does not get those that
/// say what waits.
fn conversation(log: &str) -> Vec<&str> {
    let beside = |line: &&str| line.contains(r#""type":"lodge."#);
    let lines: Vec<&str> = log.lines().filter(|line| !beside(line)).collect();
    assert!(lines.len() > 5, "{log}");
    lines
}

#[test]
fn sessions_are_brought_in_and_written_down() {
    let (from, to) = (Home::new(), Home::new());
    let _ = from.run(["run", "say <b>hello</b>"]).ok();
    let source = from.logs()[0].parent().unwrap().parent().unwrap().to_owned();
    let path = source.to_str().unwrap();
    let log = fs::read(&from.logs()[0]).unwrap();
    let first = to.run(["import", path]).ok();
    assert!(first.stdout().contains("imported"), "{first:#?}");
    let again = to.run(["import", path]).ok();
    assert!(again.stdout().contains("1 session checked, 0 imported"), "{again:#?}");
    assert_eq!(fs::read(&from.logs()[0]).unwrap(), log, "the source is only read");
    let imported = fs::read_to_string(&to.logs()[0]).unwrap();
    assert_eq!(conversation(&imported), conversation(str::from_utf8(&log).unwrap()));
    assert_eq!(to.run(["import", "/no/such/place"]).status.code(), Some(1));
    let page = to.work().join("page.html");
    let _ = to
        .run(["export", "last", "--format", "html", "-o", page.to_str().unwrap()])
        .ok();
    let html = fs::read_to_string(page).unwrap();
    assert!(
        html.contains("&lt;b&gt;hello&lt;/b&gt;") && !html.contains("<b>hello"),
        "{html}"
    );
    let markdown = to.run(["export", "last"]).ok();
    assert!(markdown.stdout().starts_with("# say"), "{markdown:#?}");
}

#[test]
fn a_folder_is_trusted_and_no_longer() {
    let home = Home::new();
    let work = home.work().to_str().unwrap().to_owned();
    let hooks = home.work().join(".github/hooks");
    fs::create_dir_all(&hooks).unwrap();
    fs::write(
        hooks.join("a.json"),
        r#"{"version":1,"hooks":{"sessionStart":[{"bash":"touch ran"}]}}"#,
    )
    .unwrap();
    let doctor = home.run(["doctor"]).ok();
    assert!(doctor.stdout().contains("lodge trust"), "{doctor:#?}");
    let _ = home.run(["run", "say hello"]).ok();
    assert!(!home.work().join("ran").exists());
    let _ = home.run(["trust", &work]).ok();
    assert!(home.run(["trust"]).ok().stdout().contains(work.trim_end_matches('/')));
    let _ = home.run(["run", "say hello"]).ok();
    assert!(home.work().join("ran").exists());
    let _ = home.run(["trust", "--remove", &work]).ok();
    assert_eq!(home.run(["trust"]).ok().stdout().trim(), "");
    let doctor = home.run(["doctor"]).ok();
    for head in ["Home", "Models", "Host", "Protection", "Hooks"] {
        assert!(doctor.stdout().contains(head), "{head}: {doctor:#?}");
    }
}

#[test]
fn a_file_that_changed_is_shown_and_runs_only_when_it_is_accepted() {
    let home = Home::new();
    let work = home.work().to_str().unwrap().to_owned();
    let hook = |command: &str| {
        let hooks = home.work().join(".github/hooks");
        fs::create_dir_all(&hooks).unwrap();
        let text = format!(r#"{{"version":1,"hooks":{{"sessionStart":[{{"bash":"{command}"}}]}}}}"#);
        fs::write(hooks.join("a.json"), text).unwrap();
    };
    hook("touch one");
    let shown = home.run(["trust", "--show", &work]).ok();
    assert!(shown.stdout().contains("hook sessionStart: touch one"), "{shown:#?}");
    assert_eq!(home.run(["trust"]).ok().stdout().trim(), "", "showing accepts nothing");
    let accepted = home.run(["trust", &work]).ok();
    assert!(
        accepted.stdout().contains("hook sessionStart: touch one"),
        "{accepted:#?}"
    );
    hook("touch two");
    let run = home.run(["run", "say hello"]).ok();
    assert!(!home.work().join("two").exists());
    let told = format!("{}{}", run.stdout(), run.stderr);
    assert!(told.contains("has changed since it was accepted"), "{told}");
    for shown in [home.run(["trust"]).ok(), home.run(["trust", "--show", &work]).ok()] {
        assert!(
            shown.stdout().contains("changed: does not run until you accept it"),
            "{shown:#?}"
        );
        assert!(shown.stdout().contains("hook sessionStart: touch two"), "{shown:#?}");
    }
    let _ = home.run(["trust", &work]).ok();
    let _ = home.run(["run", "say hello"]).ok();
    assert!(home.work().join("two").exists());
    // Neither a folder that is not there nor a contradiction is taken for something else.
    let wrong = home.run(["trust", "/no/such/folder"]);
    assert!(
        !wrong.status.success() && wrong.stderr.contains("/no/such/folder"),
        "{wrong:#?}"
    );
    assert!(!home.run(["trust", "--show", "--remove", &work]).status.success());
}

#[test]
fn the_first_message_is_taken_back_and_put_back_by_last() {
    let home = Home::new();
    let _ = home
        .run([
            "run",
            "--yolo",
            r#"call create {"path":"oops.txt","file_text":"x"} then say done"#,
        ])
        .ok();
    let last = |command: &str| home.run(["run", "--resume", "last", command]).ok();
    assert!(last("/rewind").stdout().contains("/undo restores it"));
    assert!(!home.work().join("oops.txt").exists());
    let _ = last("/undo");
    assert!(home.work().join("oops.txt").exists());
    assert!(home.run(["sessions", "list"]).ok().stdout().contains("call create"));
}
