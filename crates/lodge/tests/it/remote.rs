//! Hosts on other machines: by a real ssh server, and by TLS with a pinned key.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use testkit::{Home, Running, lodge_bin, target};

/// The ssh server of the system, or the one that `cargo xtask clients` fetched.
fn ssh_server() -> Option<PathBuf> {
    let fetched = target().join("clients/sshd/root/usr/sbin/sshd");
    let found = [PathBuf::from("/usr/sbin/sshd"), fetched]
        .into_iter()
        .find(|path| path.is_file());
    let client = Command::new("ssh").arg("-V").stderr(Stdio::null()).status().is_ok();
    found.filter(|_| client)
}

/// Another machine, as ssh sees it: a server of its own for every connection, and a home there.
struct Machine {
    dir: PathBuf,
    home: PathBuf,
}

impl Machine {
    /// Nothing where there is no ssh.
    fn new(home: &Home, server_options: &str) -> Option<Self> {
        let Some(server) = ssh_server() else {
            testkit::skip("sshd is not installed; `cargo xtask clients` fetches it");
            return None;
        };
        let dir = home.work().join("ssh");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
        for key in ["host_key", "user_key"] {
            let keygen = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(dir.join(key))
                .status();
            assert!(keygen.unwrap().success());
        }
        let there = dir.join("home");
        let program = lodge_bin();
        let programs = program.parent().unwrap();
        let at = dir.display();
        let server_config = format!(
            "HostKey {at}/host_key\nAuthorizedKeysFile {at}/user_key.pub\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin yes\nSetEnv LODGE_HOME={} PATH={}:/usr/bin:/bin\n{server_options}\n",
            there.display(),
            programs.display(),
        );
        std::fs::write(dir.join("sshd_config"), server_config).unwrap();
        let libraries = server.ancestors().nth(3).unwrap().join("usr/lib/x86_64-linux-gnu");
        let serve = format!(
            "LD_LIBRARY_PATH={} exec {} ${{1:--i}} -e -f {at}/sshd_config 2>>{at}/log",
            libraries.display(),
            server.display()
        );
        let script = match is_root() {
            false => serve,
            // A server of root's wants a user and a directory that only an installed one has: they are there for it alone.
            true => {
                // What the shell of whoever runs the tests does at its start is no part of them.
                let empty = dir.join("empty");
                std::fs::create_dir_all(&empty).unwrap();
                let users = std::fs::read_to_string("/etc/passwd").unwrap();
                let mut users = users.replace(":/root:", &format!(":{}:", empty.display()));
                if !users.lines().any(|line| line.starts_with("sshd:")) {
                    users += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n";
                }
                std::fs::write(dir.join("passwd"), users).unwrap();
                format!(
                    "mount -t tmpfs tmpfs /run && mkdir /run/sshd && mount --bind {at}/passwd /etc/passwd && {serve}"
                )
            }
        };
        std::fs::write(dir.join("serve.sh"), script).unwrap();
        let apart = if is_root() { "unshare -m " } else { "" };
        let client_config = format!(
            "Host machine\n  ProxyCommand {apart}sh {at}/serve.sh\nHost *\n  IdentityFile {at}/user_key\n  IdentitiesOnly yes\n  \
             StrictHostKeyChecking no\n  UserKnownHostsFile {at}/known_hosts\n  LogLevel ERROR\n  BatchMode yes\n"
        );
        std::fs::write(dir.join("config"), client_config).unwrap();
        Some(Self { dir, home: there })
    }

    fn attach(&self, home: &Home, args: &[&str]) -> Running {
        let mut command = home.command([&["attach"], args].concat());
        command.env(
            "LODGE_SSH_COMMAND",
            format!("ssh -F {}", self.dir.join("config").display()),
        );
        Running::start(command.stdin(Stdio::piped()))
    }

    /// A server on a port of loopback, for as long as what is returned is kept.
    fn listen(&self) -> Listening {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let config = self.dir.join("sshd_config");
        let mut text = std::fs::read_to_string(&config).unwrap();
        text += &format!("ListenAddress 127.0.0.1:{port}\n");
        std::fs::write(config, text).unwrap();
        let mut command = Command::new(if is_root() { "unshare" } else { "env" });
        if is_root() {
            command.arg("-m");
        }
        let server = command
            .arg("sh")
            .arg(self.dir.join("serve.sh"))
            .arg("-D")
            .spawn()
            .unwrap();
        let listening = Listening { server, port };
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                Path::new(&format!("/proc/{}/exe", listening.server.id())).exists(),
                "{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        listening
    }

    /// The process of the host there.
    fn host(&self) -> Option<u64> {
        let note = std::fs::read(self.home.join("host.json")).ok()?;
        let note: serde_json::Value = serde_json::from_slice(&note).ok()?;
        note["pid"].as_u64()
    }

    fn log(&self) -> String {
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        read(self.dir.join("log")) + &read(self.home.join("host.log"))
    }
}

impl Drop for Machine {
    /// A host that was started by ssh outlives the connection.
    fn drop(&mut self) {
        if let Some(process) = self.host() {
            let _ = Command::new("kill").arg(process.to_string()).status();
            while Path::new(&format!("/proc/{process}")).exists() {
                std::thread::yield_now();
            }
        }
    }
}

/// An ssh server that waits for connections.
struct Listening {
    server: Child,
    port: u16,
}

impl Listening {
    /// Ends every connection, without a word to the other side. Says how many there were.
    fn cut(&self) -> usize {
        let children = format!("/proc/{0}/task/{0}/children", self.server.id());
        let children = std::fs::read_to_string(children).unwrap();
        for child in children.split_whitespace() {
            let _ = Command::new("kill").args(["-9", child]).status();
        }
        children.split_whitespace().count()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.cut();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8_lossy(&id.stdout).trim() == "0"
}

#[test]
fn ssh_starts_a_host_there_and_joins_it_the_next_time() {
    let home = Home::new();
    let Some(machine) = Machine::new(&home, "") else { return };
    let mut one = machine.attach(&home, &["ssh://machine"]);
    one.say("say hello from afar");
    one.hush();
    let done = one.finish();
    assert!(done.status.success(), "{done:?} {}", machine.log());
    assert!(done.lines.iter().any(|line| line == "hello from afar"), "{done:?}");
    let process = machine.host().expect("a host runs there");
    assert!(!home.path().join("session-state").exists(), "nothing happened here");
    let mut two = machine.attach(&home, &["--url", "ssh://machine", "last"]);
    two.line_with("hello from afar");
    two.say("say again");
    two.line_with("again");
    let _ = two.finish().ok();
    assert_eq!(machine.host(), Some(process));
    // A name for it.
    let _ = home.run(["hosts", "add", "far", "ssh://machine"]).ok();
    let mut three = machine.attach(&home, &["--url", "far", "last"]);
    three.line_with("hello from afar");
    let _ = three.finish().ok();
}

#[test]
#[cfg(target_os = "linux")]
fn a_connection_by_ssh_that_breaks_is_made_again() {
    let home = Home::new();
    let Some(machine) = Machine::new(&home, "") else { return };
    let listening = machine.listen();
    let mut one = machine.attach(&home, &[&format!("ssh://127.0.0.1:{}", listening.port)]);
    one.say("say before");
    one.line_with("before");
    let process = machine.host().expect("a host runs there");
    assert!(listening.cut() > 0, "there was a connection");
    one.say("say after");
    one.line_with("after");
    let _ = one.finish().ok();
    assert_eq!(machine.host(), Some(process));
}

#[test]
fn what_keeps_ssh_from_the_host_is_said() {
    let home = Home::new();
    let Some(machine) = Machine::new(&home, "ForceCommand exit 127") else {
        return;
    };
    let missing = machine.attach(&home, &["ssh://machine"]).finish();
    assert!(
        !missing.status.success() && missing.stderr.contains("Lodge is not installed on machine"),
        "{missing:?}"
    );
    std::fs::write(machine.dir.join("serve.sh"), "exit 1\n").unwrap();
    let refused = machine.attach(&home, &["ssh://machine"]).finish();
    assert!(
        !refused.status.success() && refused.stderr.contains("ssh cannot reach machine"),
        "{refused:?}"
    );
    let option = machine.attach(&home, &["ssh://-oProxyCommand=evil"]).finish();
    assert!(
        !option.status.success() && option.stderr.contains("is not an address"),
        "{option:?}"
    );
}

#[test]
fn a_host_by_tls_is_known_by_its_key_and_no_other() {
    let there = Home::new();
    let pin_of = |printed: String| {
        let line = printed.lines().find_map(|line| line.strip_prefix("Pin ")).unwrap();
        line.trim().to_owned()
    };
    let pin = pin_of(there.run(["tls", "init", "--name", "lodge.example"]).ok().stdout());
    // A certificate that is renewed has the same key.
    assert_eq!(pin_of(there.run(["tls", "init"]).ok().stdout()), pin);
    let key = there.path().join("tls/key.pem");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o077, 0);
    let certificate = there.path().join("tls/cert.pem");
    let mut command = there.command(["--port", "0", "--sdk-port", "0", "--tls-cert"]);
    let mut host = Running::start(command.arg(&certificate).arg("--tls-key").arg(&key));
    let line = host.line_with("AHP clients");
    let url = line
        .split_whitespace()
        .last()
        .unwrap()
        .replace("127.0.0.1", "localhost");
    host.line_with("Ctrl-C stops");
    let token = std::fs::read_to_string(there.path().join("token")).unwrap();

    let here = Home::new();
    let mut add = here.talk(["hosts", "add", "box", &url, "--pin", &pin, "--token"]);
    add.say(token.trim());
    let _ = add.finish().ok();
    let list = here.run(["hosts", "list"]).ok().stdout();
    assert!(
        list.contains("box") && list.contains("pinned") && !list.contains(token.trim()),
        "{list}"
    );
    let mode = std::fs::metadata(here.path().join("hosts.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
    let mut one = here.talk(["attach", "--url", "box"]);
    one.say("say by the right key");
    one.hush();
    let done = one.finish().ok();
    assert!(done.lines.iter().any(|line| line == "by the right key"), "{done:?}");

    let other = format!("sha256:{}", "00".repeat(32));
    let mut add = here.talk(["hosts", "add", "box", &url, "--pin", &other, "--token"]);
    add.say(token.trim());
    let _ = add.finish().ok();
    let refused = here.run(["attach", "--url", "box"]);
    assert!(
        !refused.status.success() && refused.stderr.contains("is not trusted"),
        "{refused:?}"
    );
    let _ = here.run(["hosts", "remove", "box"]).ok();
    let unknown = here.run(["attach", "--url", "box"]);
    assert!(
        !unknown.status.success() && unknown.stderr.contains("no host called \"box\""),
        "{unknown:?}"
    );

    // Without a pin it is a certificate like any other, for those who trust it.
    let mut command = here.command(["attach", "--new", "--url", &url, "--token", token.trim()]);
    let mut trusting = Running::start(command.env("SSL_CERT_FILE", &certificate).stdin(Stdio::piped()));
    trusting.say("say trusted");
    let done = trusting.finish().ok();
    assert!(done.lines.iter().any(|line| line == "trusted"), "{done:?}");
}

#[test]
fn hosts_that_cannot_be_are_not_named() {
    let home = Home::new();
    let pin = format!("sha256:{}", "00".repeat(32));
    for (args, expected) in [
        (vec!["a b", "ssh://machine"], "Invalid name"),
        (vec!["a", "http://machine"], "is not the address of a host"),
        (vec!["a", "ssh://machine", "--pin", &pin], "A pin is for wss"),
        (vec!["a", "ws://machine", "--pin", &pin], "must begin with wss"),
        (
            vec!["a", "wss://machine", "--pin", "sha256:00"],
            "64 hexadecimal digits",
        ),
    ] {
        let refused = home.run([&["hosts", "add"], args.as_slice()].concat());
        assert!(
            !refused.status.success() && refused.stderr.contains(expected),
            "{args:?}: {refused:?}"
        );
    }
    assert!(!home.path().join("hosts.json").exists());
}

#[test]
fn a_broken_list_of_hosts_keeps_no_host_from_starting() {
    let home = Home::new();
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("hosts.json"), "{broken").unwrap();
    let mut host = home.start(["serve", "--port", "0", "--sdk-port", "0"]);
    host.line_with("Ctrl-C stops");
    host.kill();
    let list = home.run(["hosts", "list"]);
    assert!(list.stderr.contains("hosts.json is invalid"), "{list:?}");
}
