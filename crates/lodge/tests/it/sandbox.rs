//! What `lodge.toml` says about the sandbox, seen from inside a command.

use std::{fs, net::TcpListener};

use testkit::{Finished, Home, Running, events};

fn home_with(config: &str) -> Home {
    let home = Home::new();
    fs::create_dir_all(home.path()).unwrap();
    fs::write(home.path().join("lodge.toml"), config).unwrap();
    home
}

/// What the command said.
fn said(done: Finished) -> String {
    let events = done.ok().events();
    let results = events::of_kind(&events, "tool.execution_complete");
    results[0]["data"]["result"]["content"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// What came of a command that connects to a server on this machine.
fn connect(config: &str) -> (Finished, bool) {
    let home = home_with(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let prompt = format!(
        r#"call bash {{"command":"if exec 3<>/dev/tcp/127.0.0.1/{port}; then echo got through; else echo kept in; fi"}}"#
    );
    let done = home.run(["run", "--json", "--yolo", &prompt]);
    listener.set_nonblocking(true).unwrap();
    let came = listener.accept().is_ok();
    (done, came)
}

#[test]
fn commands_reach_the_network_unless_the_configuration_says_otherwise() {
    for config in ["", "sandbox_network = \"on\"", "sandbox = \"off\""] {
        let (done, came) = connect(config);
        assert!(came, "{config}: {done:#?}");
        assert!(said(done).contains("got through"), "{config}");
    }
}

#[test]
fn commands_are_kept_from_the_network_or_the_host_says_that_it_cannot() {
    let (done, came) = connect("sandbox_network = \"off\"");
    assert!(!came, "{done:#?}");
    if lodge_tools::sandbox::can_close_network() {
        let prompts = done.events();
        let prompts = events::of_kind(&prompts, "system.message");
        let prompt = prompts[0]["data"]["content"].as_str().unwrap_or_default();
        assert!(prompt.contains("Commands have no network"), "the model knows: {prompt}");
        assert!(said(done).contains("kept in"));
    } else {
        assert!(done.stderr.contains("cannot be enforced"), "{done:#?}");
    }
}

#[test]
fn a_network_rule_without_the_sandbox_is_refused() {
    let (done, came) = connect("sandbox = \"off\"\nsandbox_network = \"off\"");
    assert!(!came, "{done:#?}");
    assert_eq!(done.status.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("sandbox_network"), "{done:#?}");
}

#[test]
fn the_doctor_says_whether_the_network_is_closed() {
    for (config, expected) in [
        ("sandbox = \"off\"\nsandbox_network = \"off\"", "cannot be enforced"),
        ("sandbox_network = \"off\"", "`sandbox_network = \"off\"`"),
    ] {
        let done = home_with(config).run(["doctor"]);
        let said = format!("{}{}", done.stdout(), done.stderr);
        assert!(said.contains(expected), "{config}: {said}");
    }
}

#[test]
fn commands_run_under_a_host_whose_program_was_replaced() {
    let home = Home::new();
    let program = home.work().join("lodge");
    fs::copy(testkit::lodge_bin(), &program).unwrap();
    let known = home.command(["serve", "--port", "0", "--sdk-port", "0"]);
    let mut command = std::process::Command::new(&program);
    command.args(known.get_args()).current_dir(home.work()).env_clear();
    command.envs(known.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut host = Running::start(&mut command);
    host.line_with("Ctrl-C stops");
    // What came with an upgrade does not understand what the old one wants of it.
    fs::remove_file(&program).unwrap();
    testkit::write_programs(&home.work(), &["lodge"], "#!/bin/sh\nexit 9\n");
    let prompt = r#"call bash {"command":"touch made && echo done"}"#;
    let done = home.run(["run", "--json", "--yolo", prompt]);
    assert!(said(done).contains("done"));
}
