//! A disk without room: what is there can be read, and what cannot be written is said.

use std::process::Command;

use testkit::{Home, Running, lodge_bin};

use crate::health::get;

/// The same program, in a process that may not make any file longer.
fn without_room(home: &Home, args: &[&str]) -> Command {
    let lodge = home.command(args.iter().copied());
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""])
        .arg(lodge_bin())
        .args(lodge.get_args())
        .current_dir(home.work())
        .env_clear()
        .envs(lodge.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

#[test]
fn a_host_starts_on_a_full_disk_and_shows_what_is_there() {
    let home = Home::new();
    let said = home.command(["run", "say remember me"]).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let mut running = Running::start(&mut without_room(&home, &["--port", "0", "--sdk-port", "0"]));
    let line = running.line_with("AHP clients");
    let address = line.split_once("ws://").unwrap().1.split('/').next().unwrap();
    running.line_with("Ctrl-C stops");
    assert_eq!(get(address, "/healthz", "").0, 200);
    assert_eq!(
        get(address, "/readyz", ""),
        (503, "the home cannot be written\n".to_owned())
    );
    let listed = without_room(&home, &["sessions", "list"]).output().unwrap();
    let printed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(printed.contains("remember me"), "{printed}{listed:?}");
    assert!(!home.path().join("token").exists(), "there was room after all");
}

#[test]
fn the_doctor_says_that_a_full_disk_takes_no_more() {
    let home = Home::new();
    let _ = home.run(["run", "say hello"]).ok();
    let done = without_room(&home, &["doctor"]).output().unwrap();
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(!done.status.success(), "{printed}");
    assert!(printed.contains(" is not writable: "), "{printed}");
}
