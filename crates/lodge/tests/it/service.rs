//! The host as a service: what the manager reads, what it is told, and what is installed and removed.

use std::{os::unix::net::UnixDatagram, path::Path, process::Command, time::Duration};

use serde_json::Value;
use testkit::{Home, Running};

use crate::attach::{Host, attach};

fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let home = Home::new();
    let unit = home
        .run(["service", "install", "--print", "--", "--port", "0"])
        .ok()
        .stdout();
    let condition = format!("ConditionFileIsExecutable={}", testkit::lodge_bin().display());
    for part in ["\"--port\" \"0\"", "Type=notify", &condition] {
        assert!(unit.contains(part), "{part}: {unit}");
    }
    if !installed("systemd-analyze") {
        return testkit::skip("systemd-analyze is not installed: the unit is not verified");
    }
    let file = home.work().join("lodge.service");
    std::fs::write(&file, &unit).unwrap();
    let analyze = |args: &[&str]| {
        let output = Command::new("systemd-analyze")
            .arg("--user")
            .args(args)
            .arg(&file)
            .env("XDG_RUNTIME_DIR", home.work())
            .env("SYSTEMD_COLORS", "0")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            said,
        )
    };
    let (fine, _, said) = analyze(&["verify", "--man=no"]);
    assert!(fine && said.is_empty(), "{said}");
    let (_, table, said) = analyze(&["security", "--offline=true"]);
    for option in [
        "NoNewPrivileges=",
        "LockPersonality=",
        "RestrictRealtime=",
        "RestrictSUIDSGID=",
    ] {
        assert!(table.contains(&format!("✓ {option}")), "{option}: {table}{said}");
    }
}

#[test]
fn only_options_of_the_host_become_part_of_the_service() {
    let home = Home::new();
    for options in [
        &["--no-such-option"][..],
        &["run", "hello"],
        &["--port", "x"],
        &["--stop"],
    ] {
        let refused = home.run([&["service", "install", "--print", "--"], options].concat());
        assert!(
            !refused.status.success() && refused.lines.is_empty(),
            "{options:?}: {refused:?}"
        );
    }
}

#[test]
fn the_manager_is_told_when_the_host_is_ready_and_when_it_stops() {
    let home = Home::new();
    let socket = home.work().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let told = || {
        let mut message = [0; 4096];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    let mut command = home.command(["--port", "0", "--sdk-port", "0"]);
    let mut host = Running::start(command.env("NOTIFY_SOCKET", &socket));
    let ready = told();
    assert!(
        ready.starts_with("READY=1\n") && ready.contains(&format!("MAINPID={}", host.id())),
        "{ready}"
    );
    // Ready means that clients come in.
    let answer = home.run(["run", "say welcome"]).ok().stdout();
    assert!(answer.contains("welcome"), "{answer}");
    host.line_with("Ctrl-C stops");
    assert!(
        Command::new("kill")
            .arg(host.id().to_string())
            .status()
            .unwrap()
            .success()
    );
    assert!(told().starts_with("STOPPING=1\n"));
    let ended = host.finish().ok();
    let token = std::fs::read_to_string(home.path().join("token")).unwrap();
    assert!(!ended.stdout().contains(token.trim()) && !ended.stderr.contains(token.trim()));
}

#[test]
#[cfg(target_os = "linux")]
fn lines_for_the_journal_begin_with_their_level_and_hold_no_token() {
    use std::os::linux::fs::MetadataExt;
    let home = Home::new();
    let journal = home.work().join("journal");
    let about = std::fs::File::create(&journal).unwrap().metadata().unwrap();
    warn_at_start(&home);
    let lodge = home.command(["--port", "0", "--sdk-port", "0"]);
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$0\" \"$@\" 2>>journal"])
        .arg(lodge.get_program())
        .args(lodge.get_args())
        .current_dir(home.work())
        .env_clear()
        .envs(lodge.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("JOURNAL_STREAM", format!("{}:{}", about.st_dev(), about.st_ino()));
    let mut host = Running::start(&mut command);
    host.line_with("Ctrl-C stops");
    let kill = Command::new("kill").arg(host.id().to_string()).status();
    assert!(kill.unwrap().success());
    let _ = host.finish().ok();
    let text = std::fs::read_to_string(&journal).unwrap();
    assert!(text.contains("hosts.json"), "{text}");
    for line in text.lines() {
        let level = line.strip_prefix('<').and_then(|line| line.split_once('>'));
        let known = level.is_some_and(|(level, _)| ["3", "4", "6", "7"].contains(&level));
        assert!(known, "{line}");
    }
    let token = std::fs::read_to_string(home.path().join("token")).unwrap();
    assert!(!text.contains(token.trim()), "{text}");
}

#[test]
fn where_there_is_no_journal_the_log_is_in_the_home() {
    let home = Home::new();
    warn_at_start(&home);
    let mut host = home.start(["serve", "--port", "0", "--sdk-port", "0", "--log-to-home"]);
    host.line_with("Ctrl-C stops");
    host.kill();
    let ended = host.finish();
    let log = std::fs::read_to_string(home.path().join("host.log")).unwrap();
    assert!(log.contains("WARN") && ended.stderr.is_empty(), "{log}{ended:?}");
}

/// Gives the host something to warn of.
fn warn_at_start(home: &Home) {
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("hosts.json"), "{broken").unwrap();
}

#[test]
fn a_signal_ends_all_turns_together_and_clients_go_on_with_the_next_host() {
    let home = Home::new();
    // At the end of each session a hook waits for those of all others: it cannot succeed if they end one after the other.
    let wait = "cat >/dev/null; touch met.$$; while [ $(ls -d met.* | wc -l) -lt 8 ]; do sleep 0.1; done";
    let hooks = serde_json::json!({"version": 1, "hooks": {"sessionEnd": [{"type": "command", "bash": wait}]}});
    std::fs::create_dir_all(home.path().join("hooks")).unwrap();
    std::fs::write(home.path().join("hooks/end.json"), hooks.to_string()).unwrap();
    let host = Host::start(&home);
    let endless = "slowly 20 ms, stream 1000000 chunks";
    let mut attached = [attach(&home, &["--new"]), attach(&home, &["--new"])];
    for terminal in &mut attached {
        terminal.say(endless);
        terminal.line_with("> slowly");
    }
    let mut runs: Vec<Running> = (0..6).map(|_| home.start(["run", "--json", endless])).collect();
    for run in &mut runs {
        run.until("assistant.message_delta");
    }
    let port = host.stop();
    assert_eq!(home.logs().len(), 8);
    for log in home.logs() {
        let text = std::fs::read_to_string(&log).unwrap();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |kind: &str| events.iter().find(|event| event["type"] == kind);
        assert!(of("abort").is_some(), "{text}");
        assert_eq!(of("hook.end").unwrap()["data"]["success"], true, "{text}");
        assert_eq!(events.last().unwrap()["type"], "session.shutdown", "{text}");
    }
    let _host = Host::start_on(&home, &port);
    for terminal in &mut attached {
        terminal.say("say still here");
        terminal.line_with("> say still here");
        terminal.line_with("still here");
    }
}

/// A program in a directory of its own that writes down what it is called with.
fn stand_in(home: &Home, name: &str, then: &str) {
    let dir = home.work().join("bin");
    std::fs::create_dir_all(&dir).unwrap();
    let log = home.work().join("calls");
    let script = format!("#!/bin/sh\necho \"{name} $*\" >>'{}'\n{then}\n", log.display());
    testkit::write_programs(&dir, &[name], &script);
}

fn calls(home: &Home) -> String {
    let log = home.work().join("calls");
    let calls = std::fs::read_to_string(&log).unwrap_or_default();
    let _ = std::fs::remove_file(log);
    calls
}

fn service(home: &Home, args: &[&str]) -> testkit::Finished {
    let path = format!("{}:/usr/bin:/bin", home.work().join("bin").display());
    let mut command = home.command([&["service"], args].concat());
    Running::start(
        command
            .env("PATH", path)
            .env("XDG_CONFIG_HOME", home.work().join("config")),
    )
    .finish()
}

#[test]
#[cfg(target_os = "linux")]
fn a_service_is_installed_asked_about_and_removed() {
    let home = Home::new();
    let unit = home.work().join("config/systemd/user/lodge.service");
    stand_in(&home, "systemctl", "[ \"$2\" != is-active ] || echo active");
    stand_in(&home, "journalctl", "echo a line");
    assert_eq!(service(&home, &["status"]).status.code(), Some(4));
    let _ = service(&home, &["install"]).ok();
    let text = std::fs::read_to_string(&unit).unwrap();
    assert!(text.contains(&home.path().display().to_string()), "{text}");
    assert_eq!(
        calls(&home),
        "systemctl --user daemon-reload\nsystemctl --user enable lodge.service\nsystemctl --user restart lodge.service\n"
    );
    let status = service(&home, &["status"]).ok();
    assert!(status.stdout().contains("active"), "{status:?}");
    let logs = service(&home, &["logs", "-n", "5"]).ok();
    assert_eq!(logs.lines, ["a line"]);
    calls(&home);
    let _ = service(&home, &["uninstall"]).ok();
    assert!(!unit.exists());
    assert_eq!(calls(&home), "systemctl --user disable --now lodge.service\n");
    let _ = service(&home, &["uninstall"]).ok();
}

#[test]
#[cfg(target_os = "linux")]
fn a_service_that_does_not_start_is_not_left_behind() {
    let home = Home::new();
    stand_in(&home, "systemctl", "echo 'no bus' >&2; exit 1");
    let refused = service(&home, &["install"]);
    assert!(
        !refused.status.success() && refused.stderr.contains("no bus"),
        "{refused:?}"
    );
    assert!(!Path::new(&home.work().join("config/systemd/user/lodge.service")).exists());
}
