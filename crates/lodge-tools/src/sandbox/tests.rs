use std::{net::TcpListener, process::Command};

use super::*;

/// Runs a command in a thread that has entered the sandbox; what it printed and whether it went well.
fn sandboxed(spec: WritableSpec, command: String) -> (bool, String) {
    let run = move || {
        enter(&SandboxSpec::Writable(spec)).unwrap();
        let output = Command::new("bash").arg("-c").arg(command).output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    std::thread::spawn(run).join().unwrap()
}

#[test]
fn commands_write_only_where_they_may() {
    if !available() {
        return testkit::skip(&format!("there is no sandbox here: {:?}", report()));
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    for name in ["in", "out"] {
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("old"), "old").unwrap();
    }
    let shown = dir.path().display().to_string();
    for (command, works) in [
        ("echo x > $B/in/new && cat $B/in/new", true),
        ("echo x > $B/out/new", false),
        ("cat $B/out/old", true),
        ("echo x > $B/out/old", false),
        ("truncate -s 0 $B/out/old", false),
        ("rm $B/out/old", false),
        ("mv $B/out/old $B/in/stolen", false),
        ("ln $B/out/old $B/in/link && echo x > $B/in/link", false),
        ("ln -s $B/out $B/in/way && echo x > $B/in/way/new", false),
        ("cd $B/in && echo x > ../out/new", false),
        ("mkdir $B/out/dir", false),
        ("echo x > /dev/null", true),
        ("bash -c 'echo x > $B/out/new'", false),
        ("kill -0 $PPID", false),
        ("sleep 5 & kill $!", true),
    ] {
        let spec = WritableSpec {
            write: vec![at("in"), at("missing")],
            approved: vec![],
            network: true,
            home: None,
            own: vec![],
        };
        let (worked, error) = sandboxed(spec, command.replace("$B", &shown));
        assert_eq!(worked, works, "{command}: {error}");
    }
    assert_eq!(std::fs::read_to_string(at("out/old")).unwrap(), "old");
    let one_new_file = WritableSpec {
        write: vec![],
        approved: vec![at("out/new")],
        network: true,
        home: None,
        own: vec![],
    };
    assert!(sandboxed(one_new_file, format!("echo x > {shown}/out/new")).0);
}

#[test]
fn the_network_is_closed_when_it_should_be() {
    if !can_close_network() {
        eprintln!("the network cannot be closed here: {:?}", report());
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let six = TcpListener::bind("[::1]:0");
    let port = listener.local_addr().unwrap().port();
    let mut attempts = vec![
        (format!("exec 3<>/dev/tcp/127.0.0.1/{port}"), false),
        (format!("exec 3<>/dev/udp/127.0.0.1/{port} && echo x >&3"), false),
        (format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'"), false),
        ("echo x | cat > /dev/null".to_owned(), true),
    ];
    if let Ok(six) = &six {
        let port = six.local_addr().unwrap().port();
        attempts.push((format!("exec 3<>/dev/tcp/::1/{port}"), false));
    }
    for (command, works_without) in attempts {
        for (network, works) in [(true, true), (false, works_without)] {
            let spec = WritableSpec {
                write: vec![],
                approved: vec![],
                network,
                home: None,
                own: vec![],
            };
            let (worked, error) = sandboxed(spec, command.clone());
            assert_eq!(worked, works, "{command} with network {network}: {error}");
        }
    }
}

#[test]
fn local_sockets_stay_open_when_the_network_is_closed() {
    if !can_close_network() {
        eprintln!("the network cannot be closed here: {:?}", report());
        return;
    }
    let spec = WritableSpec {
        write: vec![],
        approved: vec![],
        network: false,
        home: None,
        own: vec![],
    };
    let made = std::thread::spawn(move || {
        enter(&SandboxSpec::Writable(spec)).unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0");
        (std::os::unix::net::UnixDatagram::unbound().is_ok(), udp.is_err())
    });
    assert_eq!(made.join().unwrap(), (true, true));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_x32_names_of_system_calls_open_no_network() {
    if !can_close_network() || std::process::Command::new("perl").args(["-e", "1"]).status().is_err() {
        eprintln!("the network cannot be closed here, or there is no perl");
        return;
    }
    let spec = WritableSpec {
        write: vec![],
        approved: vec![],
        network: false,
        home: None,
        own: vec![],
    };
    // socket(AF_INET, SOCK_STREAM, 0); 13 is EACCES. A kernel without x32 would say ENOSYS to those who reach it.
    let call = "perl -e 'exit(syscall(0x40000029, 2, 1, 0) < 0 && $!+0 == 13 ? 0 : 1)'";
    let (refused, output) = sandboxed(spec, call.to_owned());
    assert!(refused, "{output}");
}

#[test]
fn a_launcher_names_what_the_command_may_do() {
    let launcher = SandboxLauncher {
        exe: "/opt/lodge".into(),
        approved: true,
        network: false,
        write: vec!["/tmp".into()],
        home: Some("/home/me/.lodge".into()),
    };
    let own = vec!["/home/me/.lodge/session-state/x".into()];
    let prefix = launcher.prefix(&launcher.writable(vec!["/work".into()], vec![], own));
    assert_eq!(
        prefix,
        [
            "/opt/lodge",
            "__sandbox-exec",
            r#"{"writable":{"write":["/work","/tmp"],"network":false,"home":"/home/me/.lodge","own":["/home/me/.lodge/session-state/x"]}}"#,
            "--"
        ]
    );
    assert!(matches!(run("{", &[]), SandboxError::Spec(_)));
}
