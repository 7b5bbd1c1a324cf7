//! `lodge doctor` on a folder with everything in it, sound and broken.

use std::{fs, os::unix::fs::PermissionsExt};

use testkit::Home;

/// What the page says from a heading on, without what differs between machines.
fn page(home: &Home, from: &str) -> (bool, String) {
    let done = home.run(["doctor"]);
    let text = done.lines.join("\n");
    let from = text.find(&format!("\n{from}\n")).unwrap_or_else(|| panic!("{done:#?}"));
    let place = home.work();
    let place = place.parent().and_then(|place| place.to_str()).expect("a place");
    (done.status.success(), text[from..].replace(place, "$T"))
}

#[test]
fn the_doctor_tells_what_files_bring_and_what_is_wrong_with_them() {
    let home = Home::new();
    let work = home.work();
    let write = |path: &str, text: &str| {
        let path = work.parent().expect("a place").join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    let skill = |name: &str| format!("---\nname: {name}\ndescription: How to do it\n---\nDo it.\n");
    write("work/.github/skills/release/SKILL.md", &skill("release"));
    write("work/.claude/skills/again/SKILL.md", &skill("release"));
    write("work/.github/skills/broken/SKILL.md", "---\nname: [\n---\nDo it.\n");
    write("work/.github/skills/nameless/SKILL.md", "Just words.\n");
    write("home/skills/greeting/SKILL.md", &skill("greeting"));
    write("home/skills.json", r#"{"disabledSkills": ["greeting"]}"#);
    write(
        "work/.github/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews\nskills: [release, gone]\n---\nYou review.\n",
    );
    write(
        "work/.github/agents/empty.md",
        "---\nname: empty\ndescription: Nothing\n---\n",
    );
    write("work/.github/prompts/ship.prompt.md", "Ship $1");
    write("work/.github/prompts/help.prompt.md", "Help!");
    write("home/prompts/ship.md", "Ship it");
    write(
        "work/.github/hooks/a.json",
        r#"{"version":1,"hooks":{"sessionStart":[{"bash":"true"}]}}"#,
    );
    write(
        "home/hooks/mine.json",
        r#"{"version":1,"hooks":{"sessionStart":[{"bash":"true"}]}}"#,
    );
    write("home/hooks/bad.json", "{");
    write("work/.mcp.json", r#"{"mcpServers":{"theirs":{"command":"true"}}}"#);
    write(
        "home/mcp-config.json",
        r#"{"mcpServers":{"ends":{"command":"false"},"odd":{"type":"pigeon"},"off":{"command":"x","disabled":true}}}"#,
    );
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).expect("permissions");
    let (sound, text) = page(&home, "Hooks");
    assert!(!sound);
    insta::assert_snapshot!(text);
}

#[test]
fn what_the_next_run_fails_of_the_doctor_says_before() {
    let unusable = "[[provider]]\nname = \"p\"\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key_env = \"NO_SUCH_KEY\"\n\
                    [[model]]\nid = \"m\"\nprovider = \"p\"\n";
    for (what, config, variables, told) in [
        (
            "a provider without a model",
            "",
            &[("LODGE_PROVIDER_BASE_URL", "http://127.0.0.1:9/v1")][..],
            "no model was chosen",
        ),
        (
            "a model without a provider",
            "",
            &[("LODGE_MODEL", "no-such-model")],
            "there is no model \"no-such-model\"",
        ),
        ("a missing key", unusable, &[], "NO_SUCH_KEY"),
        (
            "a home that is a file",
            "",
            &[("LODGE_HOME", "/dev/null")],
            "/dev/null is a file",
        ),
        (
            "a home that cannot be made",
            "",
            &[("LODGE_HOME", "/proc/none/home")],
            "cannot be created",
        ),
        // Nobody can write there, not even root.
        (
            "a home that cannot be written",
            "",
            &[("LODGE_HOME", "/proc/sys")],
            " is not writable: ",
        ),
    ] {
        let home = Home::new();
        if !config.is_empty() {
            fs::create_dir(home.path()).expect("a home");
            fs::write(home.path().join("lodge.toml"), config).expect("a configuration");
        }
        let run = |args: &[&str]| {
            let mut command = home.command(args);
            let output = command.envs(variables.iter().copied()).output().expect("it runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            (output.status.success(), text)
        };
        assert!(!run(&["run", "hi"]).0, "{what}: it would run");
        let (sound, page) = run(&["doctor"]);
        assert!(!sound, "{what}: {page}");
        let bad = page.lines().filter(|line| line.contains('✗'));
        assert!(bad.clone().any(|line| line.contains(told)), "{what}: {page}");
        assert!(!page.contains("new sessions use no-such-model"), "{what}: {page}");
    }
}

#[test]
fn the_doctor_finds_nothing_to_mend_where_there_is_nothing() {
    let home = Home::new();
    let (sound, text) = page(&home, "Hooks");
    assert!(sound, "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_home_that_cannot_be_hidden_from_commands_is_told() {
    if !lodge_tools::sandbox::available() {
        return testkit::skip("there is no sandbox here");
    }
    let home = Home::new();
    fs::create_dir(home.path()).expect("a home");
    let beside = home.path().parent().expect("a directory above it").to_owned();
    for number in 0..=4_096 {
        fs::write(beside.join(format!("neighbour-{number}")), "").expect("a neighbour");
    }
    let output = home.command(["doctor"]).output().expect("it runs");
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success(), "{page}");
    let bad = page.lines().find(|line| line.contains('✗')).expect("something is bad");
    assert!(bad.contains("cannot hide"), "{page}");
}

#[test]
fn the_doctor_sees_that_a_host_was_killed() {
    let home = Home::new();
    let mut host = crate::chat::host(&home);
    let (_, running) = page(&home, "Host");
    assert!(running.contains("connect with `lodge attach`"), "{running}");
    host.kill();
    host.finish();
    let (_, killed) = page(&home, "Host");
    assert!(killed.contains("no host is running"), "{killed}");
}

/// A folder is anybody's: what stands in it is shown, and steers no terminal.
#[test]
fn what_a_folder_brings_steers_no_terminal() {
    let home = Home::new();
    let escape = "\u{1b}]0;title\u{7}\u{202e}";
    let put = |path: &str, text: &str| {
        let path = home.work().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    let odd =
        serde_json::json!({"mcpServers": {"a": {"type": escape}, "b": {"url": escape}, "c": {"command": escape}}});
    put(".mcp.json", &odd.to_string());
    put(
        &format!(".github/skills/{escape}/SKILL.md"),
        &format!("---\nname: {escape}\n---\nDo.\n"),
    );
    put(".github/agents/x.md", &format!("---\nname: \"{escape}\"\n---\nDo.\n"));
    fs::create_dir_all(home.path()).expect("a home");
    fs::write(home.path().join("mcp-config.json"), odd.to_string()).expect("a file");
    home.run(["trust", "."]);
    let check = |command: &[&str]| {
        let done = home.run(command);
        let text = done.stdout() + &done.stderr;
        assert!(
            !text.is_empty() && !text.contains(['\u{1b}', '\u{7}', '\u{202e}']),
            "{command:?}: {text:?}"
        );
    };
    for command in [&["doctor"][..], &["mcp"], &["mcp", "check"], &["mcp", "login", escape]] {
        check(command);
    }
    put(".lodge/permissions.toml", &format!("\"{escape}\" = ["));
    check(&["doctor"]);
}
