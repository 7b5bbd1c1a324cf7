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
fn the_doctor_finds_nothing_to_mend_where_there_is_nothing() {
    let home = Home::new();
    let (sound, text) = page(&home, "Hooks");
    assert!(sound, "{text}");
    insta::assert_snapshot!(text);
}
