//! Backups made beside a running host, restored elsewhere; and sessions deleted by rules.

use std::io::Write;

use testkit::{Home, Running};

use crate::attach::attach;

fn host(home: &Home) -> Running {
    let mut host = home.start(["--port", "0", "--sdk-port", "0"]);
    host.line_with("Ctrl-C stops");
    host
}

fn sessions(home: &Home) -> Vec<String> {
    home.run(["sessions", "list", "--json"]).ok().lines
}

#[test]
fn a_backup_beside_a_running_host_holds_everything_and_opens_elsewhere() {
    let home = Home::new();
    let _host = host(&home);
    let _ = home.run(["run", "say one"]).ok();
    let _ = home
        .run([
            "run",
            "--yolo",
            r#"call sql {"description":"make","query":"CREATE TABLE t (a)"} then say two"#,
        ])
        .ok();
    std::fs::write(home.path().join("permissions.toml"), "").unwrap();
    // A turn is under way while the backup is made.
    let mut streaming = home.start(["run", "--json", "stream 2000 words"]);
    streaming.until("assistant.turn_start");
    let file = home.work().join("b.tar.gz");
    let file = file.to_string_lossy().into_owned();
    let made = home.run(["backup", &file]).ok();
    assert!(made.stdout().contains("files"), "{made:?}");
    let again = home.run(["backup", &file]);
    assert!(
        !again.status.success() && again.stderr.contains("Cannot write"),
        "{again:?}"
    );
    let other = Home::new();
    let _ = other.run(["restore", &file]).ok();
    // Each log is there up to an event, and the files beside it.
    for log in other.logs() {
        let source = home.path().join(log.strip_prefix(other.path()).unwrap());
        let (copy, source) = (std::fs::read(&log).unwrap(), std::fs::read(source).unwrap());
        assert!(copy.ends_with(b"\n") && source.starts_with(&copy), "{}", log.display());
    }
    let databases = |home: &Home| {
        let dirs = home.logs().into_iter().map(|log| log.with_file_name("session.db"));
        dirs.filter(|database| database.is_file()).count()
    };
    assert_eq!((databases(&home), databases(&other)), (1, 1));
    assert_eq!(sessions(&other).len(), 3);
    // Every log is whole, and sessions go on.
    let checked = other.run(["check"]).ok();
    assert_eq!(checked.lines, ["3 sessions checked, 0 damaged."]);
    let went_on = other.run(["run", "--resume", "last", "say again"]).ok();
    assert!(went_on.stdout().contains("again"), "{went_on:?}");
    assert!(other.path().join("permissions.toml").is_file());
    assert!(!other.path().join("host.json").exists());
    assert_eq!(
        std::fs::read(home.path().join("token")).unwrap(),
        std::fs::read(other.path().join("token")).unwrap()
    );
}

#[test]
fn a_backup_holds_what_links_of_the_home_lead_to_and_names_those_that_it_leaves_out() {
    let home = Home::new();
    let _ = home.run(["run", "say one"]).ok();
    let dotfiles = home.work().join("dotfiles");
    std::fs::create_dir(&dotfiles).unwrap();
    std::fs::write(dotfiles.join("lodge.toml"), "# mine\n").unwrap();
    for (target, link) in [
        ("lodge.toml", "lodge.toml"),
        ("", "skills"),
        ("gone", "permissions.toml"),
    ] {
        std::os::unix::fs::symlink(dotfiles.join(target), home.path().join(link)).unwrap();
    }
    let file = home.work().join("b.tar.gz");
    let made = home.run(["backup".as_ref(), file.as_os_str()]).ok().stdout();
    assert!(made.contains("links are left out"), "{made}");
    assert!(made.contains("skills") && made.contains("permissions.toml"), "{made}");
    assert!(!made.contains("lodge.toml,"), "{made}");
    let other = Home::new();
    let _ = other.run(["restore".as_ref(), file.as_os_str()]).ok();
    let restored = other.path().join("lodge.toml");
    assert_eq!(std::fs::read_to_string(&restored).unwrap(), "# mine\n");
    assert!(!restored.is_symlink());
}

#[test]
fn a_restore_is_whole_or_nothing() {
    let home = Home::new();
    let _ = home.run(["run", "say one"]).ok();
    let file = home.work().join("b.tar.gz");
    let _ = home.run(["backup".as_ref(), file.as_os_str()]).ok();
    let into_itself = home.run(["restore".as_ref(), file.as_os_str()]);
    assert!(
        !into_itself.status.success() && into_itself.stderr.contains("not empty"),
        "{into_itself:?}"
    );
    let whole = std::fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x40;
    for (name, bytes) in [
        ("cut", whole[..whole.len() / 2].to_vec()),
        ("without its end", whole[..whole.len() - 4].to_vec()),
        ("flipped", flipped),
        ("empty", Vec::new()),
        ("something else", b"hello".to_vec()),
    ] {
        let damaged = home.work().join("damaged.tar.gz");
        std::fs::File::create(&damaged).unwrap().write_all(&bytes).unwrap();
        let other = Home::new();
        let refused = other.run(["restore".as_ref(), damaged.as_os_str()]);
        assert!(!refused.status.success(), "{name}");
        assert!(refused.stderr.contains("nothing was changed"), "{name}: {refused:?}");
        assert!(!other.path().exists(), "{name}");
        let left: Vec<_> = std::fs::read_dir(other.path().parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["work"], "{name}");
    }
}

#[test]
fn sessions_in_use_are_not_pruned() {
    let home = Home::new();
    for word in ["one", "two"] {
        let _ = home.run(["run", &format!("say {word}")]).ok();
    }
    let _host = host(&home);
    let mut used = attach(&home, &["last"]);
    used.line_with("> say two");
    let _ = home.run(["sessions", "prune", "--max-age", "0m", "--yes"]).ok();
    let left = sessions(&home);
    assert!(left.len() == 1 && left[0].contains("two"), "{left:?}");
}

#[test]
fn sessions_are_pruned_by_rules() {
    let home = Home::new();
    for word in ["one", "two", "three"] {
        let _ = home.run(["run", &format!("say {word}")]).ok();
    }
    let no_rule = home.run(["sessions", "prune", "--dry-run"]);
    assert!(
        !no_rule.status.success() && no_rule.stderr.contains("There is no retention rule"),
        "{no_rule:?}"
    );
    let kept = home.run(["sessions", "prune", "--max-age", "1d", "--dry-run"]).ok();
    assert_eq!(kept.lines, ["There is nothing to delete."]);
    let shown = home.run(["sessions", "prune", "--max-sessions", "1", "--dry-run"]).ok();
    assert!(shown.stdout().contains("2 sessions"), "{shown:?}");
    let by_size = home.run(["sessions", "prune", "--max-size", "1KB", "--dry-run"]).ok();
    assert!(by_size.stdout().contains("3 sessions"), "{by_size:?}");
    assert_eq!(sessions(&home).len(), 3);
    let unasked = home.run(["sessions", "prune", "--max-sessions", "1"]);
    assert!(
        !unasked.status.success() && unasked.stderr.contains("--yes"),
        "{unasked:?}"
    );
    let _ = home.run(["sessions", "prune", "--max-sessions", "2", "--yes"]).ok();
    let left = sessions(&home).join("\n");
    assert!(
        left.contains("two") && left.contains("three") && !left.contains("one"),
        "{left}"
    );
    // The rules of the configuration are the host's, too.
    std::fs::write(home.path().join("lodge.toml"), "[retention]\nmax_sessions = 1\n").unwrap();
    let mut host = home.start(["--port", "0", "--sdk-port", "0", "--log-level", "info"]);
    host.line_with("Ctrl-C stops");
    while sessions(&home).len() > 1 {
        std::thread::yield_now();
    }
    assert!(sessions(&home)[0].contains("three"));
    std::fs::write(home.path().join("lodge.toml"), "[retention]\nmax_age = \"soon\"\n").unwrap();
    let wrong = home.run(["sessions", "prune", "--dry-run"]);
    assert!(
        !wrong.status.success() && wrong.stderr.contains("such as 90d"),
        "{wrong:?}"
    );
}
