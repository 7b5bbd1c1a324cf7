//! What a command in the jail can do, and what it cannot. The launcher is the built binary.

use std::{
    collections::BTreeMap,
    net::{TcpListener, UdpSocket},
    os::unix::{
        fs::{MetadataExt, symlink},
        net::{UnixDatagram, UnixListener},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use lodge_tools::{
    Attempt, SessionTools,
    sandbox::{self, SandboxLauncher, run_jailed},
};
use serde_json::json;

use crate::bench::Bench;

const TIME: Duration = Duration::from_secs(60);

/// A working directory, a host's home with two sessions, and something that is nobody's business.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    launcher: SandboxLauncher,
}

impl Place {
    /// `None` where there is no jail.
    pub(crate) fn new() -> Option<Self> {
        if !sandbox::can_jail() {
            testkit::skip(&format!("there is no jail here: {:?}", sandbox::report()));
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in [
            "work/dir",
            "home/session-state/one",
            "home/session-state/two",
            "outside/.ssh",
        ] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        for (path, text) in [
            ("work/file", "one\ntwo\nthree\n"),
            ("work/dir/other", "two\n"),
            ("home/host.json", "CANARY"),
            ("home/lodge.toml", "CANARY"),
            ("home/session-state/two/events.jsonl", "CANARY"),
            ("outside/.ssh/id_rsa", "CANARY"),
        ] {
            std::fs::write(at(path), text).unwrap();
        }
        symlink(at("home"), at("work/way")).unwrap();
        symlink(at("outside"), at("work/out")).unwrap();
        let launcher = SandboxLauncher::new(testkit::lodge_bin()).hiding(&at("home"));
        Some(Self { dir, launcher })
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Runs a program in the working directory; `$B` is the place.
    pub(crate) fn run(&self, program: &str, time: Duration) -> (i32, String) {
        self.run_in(&[self.at("work")], program, time)
    }

    fn run_in(&self, roots: &[PathBuf], program: &str, time: Duration) -> (i32, String) {
        let program = program.replace("$B", &self.dir.path().display().to_string());
        run_jailed(
            &self.launcher,
            &self.at("home/session-state/one"),
            roots,
            &program,
            time,
        )
        .unwrap()
    }

    /// Everything there is: kind and permissions, owner, time, links, contents.
    pub(crate) fn canary(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        look(self.dir.path(), &mut found);
        // The session's private directories come and go.
        found.retain(|path, _| !path.starts_with(self.at("home/session-state/one")));
        found
    }
}

fn look(path: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let meta = path.symlink_metadata().unwrap();
    let contents = match () {
        () if meta.is_file() => String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned(),
        () if meta.is_symlink() => std::fs::read_link(path).unwrap().display().to_string(),
        () => String::new(),
    };
    let facts = format!(
        "{:o} {}:{} {} {} {contents}",
        meta.mode(),
        meta.uid(),
        meta.gid(),
        meta.mtime_nsec(),
        meta.nlink()
    );
    found.insert(path.to_owned(), facts);
    if meta.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            look(&entry.unwrap().path(), found);
        }
    }
}

/// Each prints GOT, or the canary, where it gets what it wants.
const ATTEMPTS: &[&str] = &[
    // Writing.
    "echo x > new && echo GOT",
    "echo x >> file && echo GOT",
    ": > file && echo GOT",
    "truncate -s 0 file && echo GOT",
    "dd if=/dev/zero of=file bs=1 count=1 conv=notrunc && echo GOT",
    "perl -e 'truncate(\"file\", 0) and print \"GOT\"'",
    "chmod 777 file && echo GOT",
    "chmod u+s dir && echo GOT",
    "chown 1234 file && echo GOT",
    "chgrp 1234 file && echo GOT",
    "touch -d 2001-01-01 file && echo GOT",
    "touch -a file && echo GOT",
    "perl -e 'utime(1, 1, \"file\") and print \"GOT\"'",
    "setfattr -n user.x -v y file && echo GOT",
    "chattr +i file && echo GOT",
    "ln file hard && echo GOT",
    "ln file $TMPDIR/hard && echo GOT",
    "ln -s file soft && echo GOT",
    "rm -f file && echo GOT",
    "mv file other && echo GOT",
    "mv file $TMPDIR/stolen && echo GOT",
    "cp file dir/copy && echo GOT",
    "mkdir new && echo GOT",
    "rmdir dir && echo GOT",
    "mkfifo pipe && echo GOT",
    "mknod node c 1 3 && echo GOT",
    "mkfifo $TMPDIR/pipe && echo GOT",
    "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => \"s\", Listen => 1) and print \"GOT\"'",
    "echo x > $B/outside/new && echo GOT",
    "echo x > $B/home/new && echo GOT",
    "echo x > $B/home/session-state/one/new && echo GOT",
    "echo x > /tmp/lodge-jail-canary && echo GOT",
    "echo x > /var/tmp/lodge-jail-canary && echo GOT",
    "echo x > /dev/shm/lodge-jail-canary && echo GOT",
    "echo x > $HOME/.lodge-jail-canary && echo GOT",
    "cat <<X\n`touch PWNED && echo GOT`\nX",
    "sed -i s/one/ONE/ file && echo GOT",
    "git init -q sub && echo GOT",
    "find . -name file -delete && [ ! -e file ] && echo GOT",
    "echo 'echo GOT' > $TMPDIR/x; chmod +x $TMPDIR/x; $TMPDIR/x",
    "exec 3< file; flock -n 3 && echo GOT",
    // Reading what is not the session's.
    "cat $B/home/host.json",
    "cat $B/home/lodge.toml",
    "cat $B/home/session-state/two/events.jsonl",
    "cat way/host.json",
    "cat out/.ssh/id_rsa",
    "cat $B/outside/.ssh/id_rsa",
    "ls $B/home && echo GOT",
    "ls $B/outside && echo GOT",
    "ls $HOME && echo GOT",
    "cat /etc/shadow && echo GOT",
    "ls /etc/ssh && echo GOT",
    "ls /proc && echo GOT",
    "cat /proc/$PPID/environ && echo GOT",
    "tr '\\0' '\\n' < /proc/$PPID/environ && echo GOT",
    "cat /proc/$PPID/maps && echo GOT",
    "ls /proc/$PPID/fd && echo GOT",
    "head -c 1 /proc/$PPID/mem && echo GOT",
    "cat /proc/$PPID/cmdline && echo GOT",
    "cat /proc/1/environ && echo GOT",
    "cat /dev/kmsg && echo GOT",
    "env | grep -q CARGO_MANIFEST_DIR && echo GOT",
    "env | grep -qiE 'token|secret|api_key' && echo GOT",
    "read -r x < /dev/tty && echo GOT",
    // The network, and the neighbours.
    "exec 3<>/dev/tcp/127.0.0.1/$TCP && echo GOT",
    "exec 3<>/dev/udp/127.0.0.1/$UDP && echo x >&3 && echo GOT",
    "perl -MSocket -e 'for (1, 2, 10, 16, 17, 38, 40, 44) { for my $t (1, 2, 3, 5) { socket(S, $_, $t, 0) and print \"GOT\" } }'",
    "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"$B/outside/socket\") and print \"GOT\"'",
    "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"\\0lodge-jail-$TCP\") and print \"GOT\"'",
    "perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_DGRAM, 0) and print \"GOT\"'",
    "perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; connect(A, pack_sockaddr_un(\"$B/outside/socket\")) and print \"GOT\"'",
    // Other processes.
    "kill -0 $PPID && echo GOT",
    "kill -0 1 && echo GOT",
    "renice -n 5 -p $PPID && echo GOT",
    "taskset -p 1 $PPID && echo GOT",
    "prlimit --pid $PPID --nofile=10 && echo GOT",
    "setsid true && echo GOT",
    // Other namespaces, other powers.
    "unshare -U true && echo GOT",
    "unshare -m true && echo GOT",
    "mount -t tmpfs none dir && echo GOT",
    "mount --bind $B/outside dir && echo GOT",
    "chroot . && echo GOT",
    "su -c true nobody && echo GOT",
    "dmesg && echo GOT",
];

/// System calls by number, with what to pass. Each answers less than 0 where it is refused.
#[cfg(target_arch = "x86_64")]
const CALLS: &[(&str, &str)] = &[
    ("ptrace(ATTACH)", "101, 16, $PPID, 0, 0"),
    ("process_vm_readv", "310, $PPID, 0, 0, 0, 0, 0"),
    ("pidfd_send_signal", "424, 0, 0, 0, 0"),
    ("rt_sigqueueinfo", "129, $PPID, 0, 0"),
    ("tgkill", "234, $PPID, $PPID, 0"),
    ("unshare(user)", "272, 0x10000000"),
    ("clone(user)", "56, 0x10000011, 0, 0, 0, 0"),
    ("setns", "308, 0, 0"),
    ("io_uring_setup", "425, 1, \"\\0\" x 128"),
    ("keyctl", "250, 0, -3, 0"),
    ("add_key", "248, \"user\", \"x\", \"y\", 1, -3"),
    ("request_key", "249, \"user\", \"x\", 0, -3"),
    ("bpf", "321, 0, \"\\0\" x 128, 128"),
    ("perf_event_open", "298, \"\\0\" x 128, 0, -1, -1, 0"),
    ("userfaultfd", "323, 1"),
    ("shmget", "29, 0, 4096, 0x380"),
    ("semget", "64, 0, 1, 0x380"),
    ("msgget", "68, 0, 0x380"),
    ("mq_open", "240, \"x\", 0x42, 0x180, 0"),
    ("memfd_create", "319, \"x\", 0"),
    ("setpgid", "109, 0, 0"),
    ("setsid", "112"),
    ("prlimit64", "302, $PPID, 7, \"\\0\" x 16, 0"),
    ("setpriority(all of the user's)", "141, 2, 0, 1"),
    ("ioprio_set", "251, 1, $PPID, 0"),
    ("sched_setscheduler", "144, $PPID, 0, \"\\0\" x 4"),
    ("fchmodat2", "452, -100, \"file\", 0x1ff, 0"),
    ("setxattrat", "463, -100, \"file\", 0, \"user.x\", \"\\0\" x 16, 16"),
    ("file_setattr", "469, -100, \"file\", \"\\0\" x 24, 24, 0"),
    ("open_by_handle_at", "304, -100, \"\\0\" x 64, 0"),
    ("fsopen", "430, \"tmpfs\", 0"),
    ("open_tree", "428, -100, \"dir\", 1"),
    ("swapon", "167, \"file\", 0"),
    ("quotactl", "179, 0, 0, 0, 0"),
    ("init_module", "175, 0, 0, \"\""),
    ("kexec_load", "246, 0, 0, 0, 0"),
    ("personality(no random addresses)", "135, 0x40000"),
    ("ioctl(TIOCSTI)", "16, 0, 0x5412, \"x\""),
    ("fcntl(F_SETOWN)", "72, 1, 8, $PPID"),
    ("fcntl(F_SETLEASE)", "72, 1, 1024, 0"),
    ("x32 getpid", "0x40000027"),
];

#[test]
fn a_jailed_command_does_no_harm() {
    let Some(place) = Place::new() else { return };
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let unix = UnixListener::bind(place.at("outside/socket")).unwrap();
    let dgram = UnixDatagram::bind(place.at("outside/dgram")).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let before = place.canary();
    for attempt in ATTEMPTS {
        let attempt = attempt
            .replace("$TCP", &tcp_port.to_string())
            .replace("$UDP", &udp_port.to_string());
        let (code, output) = place.run(&attempt, TIME);
        let got = output.contains("GOT") || output.contains("CANARY");
        assert!(!got, "{attempt} ended with {code}:\n{output}");
        let after = place.canary();
        assert_eq!(after, before, "{attempt} changed something");
    }
    for left in ["/tmp", "/var/tmp", "/dev/shm"] {
        assert!(!Path::new(left).join("lodge-jail-canary").exists(), "{left}");
    }
    tcp.set_nonblocking(true).unwrap();
    assert!(tcp.accept().is_err());
    unix.set_nonblocking(true).unwrap();
    assert!(unix.accept().is_err());
    for (name, heard) in [
        ("udp", udp.set_nonblocking(true).and_then(|()| udp.recv(&mut [0; 9]))),
        (
            "unix",
            dgram.set_nonblocking(true).and_then(|()| dgram.recv(&mut [0; 9])),
        ),
    ] {
        assert!(heard.is_err(), "{name}");
    }
    let left = std::fs::read_dir(place.at("home/session-state/one/temp/jails")).unwrap();
    assert_eq!(left.count(), 0, "private directories go away");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_jailed_command_gets_no_system_call_that_it_should_not_have() {
    let Some(place) = Place::new() else { return };
    if Command::new("perl").arg("-e").arg("1").status().is_err() {
        eprintln!("there is no perl here");
        return;
    }
    let before = place.canary();
    for (name, arguments) in CALLS {
        // Perl passes strings by address. 1 is EPERM.
        let script = format!(
            "perl -e '@a = ({}); $r = syscall(shift @a, @a); print $r < 0 && $!+0 == 1 ? \"refused\" : \"GOT $r $!\"'",
            arguments.replace("$PPID", &std::process::id().to_string())
        );
        let (code, output) = place.run(&script, TIME);
        assert_eq!(output, "refused", "{name} ended with {code}");
    }
    let (_, output) = place.run(
        "perl -e '@a = (\"\\0\" x 88, 88); $r = syscall(435, @a); print $!+0'",
        TIME,
    );
    assert_eq!(output, "38", "clone3 is unknown");
    assert_eq!(place.canary(), before);
}

#[test]
fn a_jailed_command_reads_what_it_should() {
    let Some(place) = Place::new() else { return };
    let git = "git init -q . && git config user.email a@example.com && git config user.name A && git add file dir && git commit -qm first";
    let done = Command::new("bash")
        .arg("-c")
        .arg(git)
        .current_dir(place.at("work"))
        .status();
    assert!(done.unwrap().success());
    std::fs::write(place.at("work/file"), "one\nTWO\nthree\n").unwrap();
    let before = place.canary();
    for (program, expected) in [
        ("ls", "dir"),
        ("ls -la", "file"),
        ("cat file", "TWO"),
        ("cat file | sort | head -2 | wc -l", "2"),
        ("grep -rn two .", "./dir/other:1:two"),
        ("find . -name other", "./dir/other"),
        ("wc -l < file", "3"),
        ("cat <(echo a) <(echo b)", "a\nb"),
        ("cat <<X\nhello\nX", "hello"),
        ("head -c 100000 /dev/zero | wc -c", "100000"),
        ("x=$(ls | head -1); echo $x", "dir"),
        ("echo hi > /dev/null; echo done", "done"),
        ("echo hi > $TMPDIR/x && cat $TMPDIR/x", "hi"),
        ("for i in 3 1 2; do echo $i; done | sort -S 1k", "1\n2\n3"),
        ("timeout 5 echo in time", "in time"),
        ("sleep 100 & kill $! && echo killed", "killed"),
        ("git status --short", "M file"),
        ("git log --oneline", "first"),
        ("git diff", "+TWO"),
        ("git show --stat", "file"),
        ("git blame file", "one"),
        ("git ls-files", "dir/other"),
        ("stat -c %s file", "14"),
        ("pwd", "work"),
        ("cat; echo end", "end"),
        ("du -s . > /dev/null && echo ok", "ok"),
        ("perl -e 'print 6*7'", "42"),
        ("awk '{ n++ } END { print n }' file", "3"),
        ("date -u -d @0 +%Y", "1970"),
        ("ulimit -c", "0"),
        ("nproc > /dev/null && uname -s", "Linux"),
    ] {
        let (code, output) = place.run(program, TIME);
        assert!(
            code == 0 && output.contains(expected),
            "{program} ended with {code}:\n{output}"
        );
    }
    for program in ["node", "python3", "rg", "cargo", "go"] {
        let version = if program == "go" { "version" } else { "--version" };
        let outside = Command::new(program).arg(version).output();
        if outside.is_ok_and(|output| output.status.success()) {
            let (code, output) = place.run(&format!("{program} {version}"), TIME);
            assert_eq!(code, 0, "{program}: {output}");
        }
    }
    assert_eq!(place.canary(), before);
}

#[test]
fn a_directory_above_the_home_shows_everything_but_the_home() {
    let Some(place) = Place::new() else { return };
    let above = [place.at("")];
    for (program, expected) in [("cat work/file", true), ("cat outside/.ssh/id_rsa", true)] {
        let (code, output) = place.run_in(&above, program, TIME);
        assert_eq!(code == 0, expected, "{program}: {output}");
    }
    for program in [
        "cat home/host.json",
        "cat home/session-state/two/events.jsonl",
        "ls home",
    ] {
        let (code, output) = place.run_in(&above, program, TIME);
        assert!(
            code != 0 && !output.contains("CANARY"),
            "{program} ended with {code}: {output}"
        );
    }
    // Working in the home itself shows nothing of it.
    let (code, output) = place.run_in(&[place.at("home")], "cat host.json || ls", TIME);
    assert!(code != 0 && !output.contains("CANARY"), "{code}: {output}");
}

#[test]
fn a_jailed_command_ends_when_its_time_is_over_with_all_it_started() {
    let Some(place) = Place::new() else { return };
    let (code, _) = place.run("sleep 1000 & sleep 1000", Duration::from_millis(500));
    assert_eq!(code, 128 + 9);
    let mark = std::process::id();
    let (code, _) = place.run(&format!("(exec -a left-{mark} sleep 1000) & exit 3"), TIME);
    assert_eq!(code, 3);
    let found = Command::new("pgrep").args(["-f", &format!("left-{mark}")]).output();
    if let Ok(found) = found {
        assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    }
}

/// Tries a command as an agent's call that nobody approved.
async fn attempt(bench: &Bench, command: &str) -> Attempt {
    let arguments = json!({"command": command, "description": "x"});
    Bench::tool("bash")
        .try_unasked(&arguments, &bench.cx("call"))
        .unwrap()
        .await
}

fn jailing_bench() -> Option<Bench> {
    let mut bench = Bench::new();
    let launcher = SandboxLauncher {
        approved: false,
        ..SandboxLauncher::new(testkit::lodge_bin())
    };
    bench.state = Arc::new(SessionTools::new(bench.dir.path().join("session")).with_sandbox(launcher));
    if !bench.state.can_jail() {
        testkit::skip("there is no jail here");
        return None;
    }
    Some(bench)
}

#[tokio::test]
async fn an_unasked_command_ends_or_is_not_enough() {
    let Some(bench) = jailing_bench() else { return };
    bench.file("a.txt", "hello");
    for (command, expected) in [
        ("cat a.txt", Some("hello")),
        ("cat missing", Some("No such file")),
        ("exit 3", Some("exit code 3")),
        ("touch b.txt", None),
        ("cat a.txt > b.txt", None),
        ("cat a.txt && rm a.txt", None),
        ("grep x a.txt | tee b.txt", None),
    ] {
        match (attempt(&bench, command).await, expected) {
            (Attempt::Ended(Ok(output)), Some(expected)) => {
                assert!(output.content.contains(expected), "{command}: {}", output.content);
            }
            (Attempt::NotEnough, None) => {}
            (Attempt::Ended(result), _) => panic!("{command}: {:?}", result.map(|output| output.content)),
            (Attempt::NotEnough, _) => panic!("{command} was refused something"),
            (Attempt::GoesOn(_), _) => panic!("{command} goes on"),
        }
    }
    assert_eq!(bench.read("a.txt"), "hello");
    assert!(!bench.work().join("b.txt").exists());
}

#[tokio::test]
async fn what_needed_approval_once_is_not_tried_again() {
    let Some(bench) = jailing_bench() else { return };
    bench.file("a.txt", "hello");
    let arguments = json!({"command": "wc a.txt", "description": "x"});
    assert!(matches!(attempt(&bench, "wc a.txt").await, Attempt::Ended(Ok(_))));
    Bench::tool("bash").needed_approval(&arguments, &bench.cx("call"));
    assert!(matches!(attempt(&bench, "wc -l a.txt").await, Attempt::NotEnough));
    assert!(matches!(attempt(&bench, "cat a.txt | wc").await, Attempt::NotEnough));
    assert!(matches!(attempt(&bench, "cat a.txt").await, Attempt::Ended(Ok(_))));
}

#[tokio::test]
async fn a_jailed_command_that_prints_without_end_or_multiplies_is_ended() {
    let Some(bench) = jailing_bench() else { return };
    for (command, expected) in [
        ("yes", "printed more than 16 MB"),
        (
            "for i in {1..400}; do sleep 100 & done; wait",
            "more than 256 processes",
        ),
    ] {
        let content = match attempt(&bench, command).await {
            Attempt::GoesOn(rest) => rest.await.unwrap().content,
            Attempt::NotEnough => expected.to_owned(),
            Attempt::Ended(result) => panic!("{command}: {:?}", result.map(|output| output.content)),
        };
        assert!(content.contains(expected), "{command}: {content}");
    }
}

#[tokio::test]
async fn async_commands_are_never_unasked() {
    let Some(bench) = jailing_bench() else { return };
    let arguments = json!({"command": "ls", "description": "x", "mode": "async"});
    let tried = Bench::tool("bash").try_unasked(&arguments, &bench.cx("call")).unwrap();
    assert!(matches!(tried.await, Attempt::NotEnough));
    // Tools that do no harm anyway just run.
    assert!(
        Bench::tool("view")
            .try_unasked(&json!({"path": "x"}), &bench.cx("call"))
            .is_none()
    );
}
