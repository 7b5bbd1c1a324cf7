//! Process groups that can be stopped completely.
//!
//! Every shell leads its own process group and carries a mark in its environment that its descendants inherit. The
//! group catches nearly everything. The mark catches what left the group (`setsid`, daemons), and what a killed host
//! left behind: its guard looks for it, or else the next host.

use std::{
    ffi::OsString,
    io,
    path::Path,
    process::Stdio,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::{Pid, Signal};
use tokio::{
    net::unix::pipe,
    process::{Child, ChildStdin, Command},
};

use crate::Environment;

/// Environment variable that marks everything a shell starts.
pub(crate) const MARK: &str = "LODGE_SHELL";

/// What the name of a person's terminal ends with, and that of a program which serves a session: shells have a number there.
pub(crate) const TERMINAL: &str = "terminal";
pub(crate) const PROGRAM: &str = "program";

/// A started shell.
pub(crate) struct Spawned {
    pub(crate) child: Child,
    /// Standard output and error in the order they were written.
    pub(crate) output: pipe::Receiver,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) group: Group,
}

/// The variables of a shell.
pub(crate) enum Variables<'a> {
    /// These and no others.
    Exactly(&'a [(OsString, OsString)]),
    /// Those of the program that started the session.
    Of(&'a Environment),
}

/// How to start a shell.
pub(crate) struct Start<'a> {
    pub(crate) command: &'a str,
    pub(crate) cwd: &'a Path,
    /// Unique in this host: `<session>.<number>`.
    pub(crate) name: &'a str,
    /// Whether it gets a standard input that can be written; otherwise it reads the end of file.
    pub(crate) stdin: bool,
    /// Program and arguments that come before the shell.
    pub(crate) launcher: &'a [OsString],
    /// Which variables it gets.
    pub(crate) variables: Variables<'a>,
    /// Where it puts temporary files, if not where everybody does.
    pub(crate) temp: Option<&'a Path>,
}

impl Start<'_> {
    /// Starts it in a process group of its own.
    pub(crate) fn spawn(self) -> io::Result<Spawned> {
        let shell = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]
            .into_iter()
            .find(|p| Path::new(p).exists());
        // `--`: a command that begins with a dash is not an option of the shell.
        let arguments: &[&str] = if shell.is_some() {
            &["--noprofile", "--norc", "-c", "--"]
        } else {
            &["-c", "--"]
        };
        let shell = shell.unwrap_or("/bin/sh");
        let mut command = match self.launcher {
            [] => Command::new(shell),
            [program, rest @ ..] => {
                let mut command = Command::new(program);
                command.args(rest).arg(shell);
                command
            }
        };
        let (reader, writer) = io::pipe()?;
        let (mark, marked) = mark(self.name)?;
        command
            .args(arguments)
            .arg(self.command)
            .current_dir(self.cwd)
            .process_group(0)
            .stdin(if self.stdin { Stdio::piped() } else { Stdio::null() })
            .stdout(writer.try_clone()?)
            .stderr(writer);
        match self.variables {
            Variables::Exactly(variables) => {
                command.env_clear().envs(variables.iter().cloned());
            }
            Variables::Of(environment) => inherit(&mut command, environment),
        }
        // With this, `cd` leads elsewhere than what it says.
        command.env(mark, marked).env("PWD", self.cwd).env_remove("CDPATH");
        if let Some(temp) = self.temp {
            command.env("TMPDIR", temp);
        }
        let mut child = command.spawn()?;
        // The command holds the pipe's writing end: without dropping it there would be no end of file.
        drop(command);
        let group = Group::led_by(&child, self.name)?;
        let stdin = child.stdin.take();
        let output = pipe::Receiver::from_owned_fd(reader.into())?;
        Ok(Spawned {
            child,
            output,
            stdin,
            group,
        })
    }
}

/// Hands on variables, but for secrets and those that would have a command mean something else than what was looked at.
fn inherit(command: &mut Command, environment: &Environment) {
    environment.hand_on(command);
    command.envs([
        ("TERM", "dumb"),
        ("NO_COLOR", "1"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
    ]);
    // A directory that looks like a bare repository could bring a configuration that runs programs.
    if environment.get("GIT_CONFIG_COUNT").is_none() {
        let safe = [
            ("COUNT", "1"),
            ("KEY_0", "safe.bareRepository"),
            ("VALUE_0", "explicit"),
        ];
        command.envs(safe.map(|(name, value)| (format!("GIT_CONFIG_{name}"), value)));
    }
    for name in ["CDPATH", "GLOBIGNORE", "BASHOPTS", "SHELLOPTS"] {
        command.env_remove(name);
    }
}

/// All processes that descend from one shell.
#[derive(Debug)]
pub(crate) struct Group {
    pid: Pid,
    mark: String,
    /// Whether the leader was not waited for yet: only then the number is surely still ours.
    leader: AtomicBool,
}

/// What a group of processes uses.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) processes: usize,
    /// Bytes.
    pub(crate) memory: u64,
}

impl Group {
    /// The group of a child that was started with the [`mark`] of this name.
    pub(crate) fn led_by(child: &Child, name: &str) -> io::Result<Self> {
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self {
            pid: pid.ok_or(io::ErrorKind::NotFound)?,
            mark: mark_of(name),
            leader: AtomicBool::new(true),
        })
    }

    /// The number of the leader's process.
    pub(crate) fn leader_pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// The leader was waited for.
    pub(crate) fn leader_gone(&self) {
        self.leader.store(false, Ordering::Release);
    }

    /// Sends a signal to the group while its leader is there.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.leader.load(Ordering::Acquire) {
            let _ = rustix::process::kill_process_group(self.pid, signal);
        }
    }

    /// Ends what is left of a group that none of its processes can leave, right after its leader was waited for: as long as
    /// there is one, the number is still the group's.
    pub(crate) fn end_remains(&self) {
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
    }

    /// What the processes of the group use. Nothing where there is no `/proc`.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let Some(memory) = self.memory_of(pid) else { continue };
            usage.processes += 1;
            usage.memory += memory;
        }
        usage
    }

    /// The memory of a process of the group that it shares with no file; `None` for others.
    fn memory_of(&self, pid: u32) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name, which may hold anything: state, parent, group.
        let group: i32 = stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()?;
        if group != self.pid.as_raw_pid() {
            return None;
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let own = own.and_then(|own| own.split_whitespace().next()?.parse::<u64>().ok());
        Some(own.unwrap_or(0) << 10)
    }

    /// Whether a process of the group is left, without looking at those that left the group.
    pub(crate) fn has_members(&self) -> bool {
        rustix::process::test_kill_process_group(self.pid).is_ok()
    }

    /// Ends every process of the group and every descendant that left it.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
        kill_marked(|mark| mark == self.mark);
    }
}

/// What is ignored in this process from the start is caught instead, and nothing comes of it, which is the same to this process.
/// But a program that it starts inherits what is ignored, while what is caught begins anew: a host that a script started in the
/// background would have all its commands ignore Ctrl+C. Needs a runtime.
pub fn hand_on_no_ignored_signals() {
    use tokio::signal::unix::{SignalKind, signal};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    for number in (1..=31).filter(|number| ignored >> (number - 1) & 1 == 1) {
        // The standard library sees to this one in every program that it starts.
        if SignalKind::from_raw(number) != SignalKind::pipe() {
            let _ = signal(SignalKind::from_raw(number));
        }
    }
}

/// From now on this thread, and those that it starts, block no signal, whatever this process inherited: a program inherits the mask of
/// the thread that starts it, and one that blocks signals cannot be interrupted.
pub fn unblock_signals() {
    if let Err(error) = nix::sys::signal::SigSet::empty().thread_set_mask() {
        tracing::warn!(%error, "cannot unblock signals");
    }
}

/// The variable that marks a process and all its descendants as this host's.
///
/// # Errors
/// When nothing would end the process in time.
pub(crate) fn mark(name: &str) -> io::Result<(OsString, OsString)> {
    crate::guard::ensure()?;
    Ok(later_mark(name))
}

/// The same for a program that is started later.
pub(crate) fn later_mark(name: &str) -> (OsString, OsString) {
    (MARK.into(), mark_of(name).into())
}

fn mark_of(name: &str) -> String {
    format!("{}.{name}", *HOST)
}

/// Ends all processes of a session, given the session's part of the name.
pub(crate) fn kill_session(session: &str) {
    let prefix = format!("{}.{session}.", *HOST);
    kill_marked(|mark| mark.starts_with(&prefix));
}

/// Ends all processes of a host.
pub(crate) fn kill_host(host: &str) {
    let prefix = format!("{host}.");
    kill_marked(|mark| mark.starts_with(&prefix));
}

/// Which programs of a host's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Programs {
    All,
    /// Those that run by themselves once they are started: no servers and no agents, which wait for requests.
    Commands,
}

/// Ends processes of a host's sessions. Terminals of people belong to none.
pub(crate) fn kill_sessions(host: &str, which: Programs) {
    let (prefix, terminal) = (format!("{host}."), format!(".{TERMINAL}"));
    let server = format!(".{PROGRAM}");
    kill_marked(|mark| {
        let spared = mark.ends_with(&terminal) || (which == Programs::Commands && mark.ends_with(&server));
        mark.starts_with(&prefix) && !spared
    });
}

/// The name of this host.
pub(crate) fn host() -> &'static str {
    &HOST
}

/// Ends what a host of this machine left running when it was killed. Returns how many processes were ended.
pub fn sweep_orphans() -> usize {
    let mut dead = std::collections::HashMap::new();
    kill_marked(|mark| {
        let Some(host) = mark.splitn(4, '.').collect::<Vec<_>>().get(..3).map(|p| p.join(".")) else {
            return false;
        };
        *dead.entry(host).or_insert_with_key(|host| host_is_dead(host))
    })
}

/// Names this host: process namespace, process, start time.
static HOST: LazyLock<String> = LazyLock::new(|| {
    let pid = std::process::id();
    format!("{}.{pid}.{}", namespace(), start_time(pid).unwrap_or(0))
});

fn namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

fn host_is_dead(host: &str) -> bool {
    let mut parts = host.split('.');
    let (Some(space), Some(pid), Some(start)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let (Ok(pid), Ok(start)) = (pid.parse::<u32>(), start.parse::<u64>()) else {
        return false;
    };
    // Numbers of another namespace mean nothing here.
    !space.is_empty() && space == namespace() && start_time(pid) != Some(start)
}

/// Field 22 of `/proc/<pid>/stat`, counted from behind the name, which may hold anything.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Ends the marked processes; again, until none is found, because they may start others meanwhile.
fn kill_marked(mut wanted: impl FnMut(&str) -> bool) -> usize {
    let mut killed = 0;
    for _ in 0..8 {
        let mut found = 0;
        for (pid, mark) in marked() {
            if wanted(&mark) && rustix::process::kill_process(pid, Signal::KILL).is_ok() {
                found += 1;
            }
        }
        if found == 0 {
            break;
        }
        killed += found;
    }
    killed
}

/// Processes of this user that carry a mark. Empty where there is no `/proc`.
fn marked() -> Vec<(Pid, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let name = format!("{MARK}=");
    entries
        .filter_map(|entry| {
            let file_name = entry.ok()?.file_name();
            let pid = Pid::from_raw(file_name.to_str()?.parse().ok()?)?;
            let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
            let value = environment
                .split(|b| *b == 0)
                .find_map(|v| v.strip_prefix(name.as_bytes()))?;
            Some((pid, String::from_utf8_lossy(value).into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_commands_servers_and_terminals_are_told_apart() {
        const NAMED: &str = "0.0.0";
        let start = |name: &str| {
            let mut sleep = std::process::Command::new("sleep");
            sleep.arg("1000").env(MARK, format!("{NAMED}.{name}"));
            sleep.spawn().expect("it starts")
        };
        let mut command = start("session.0");
        let mut hook = start("hook.0");
        let mut server = start(&format!("session.{PROGRAM}"));
        let mut terminal = start(&format!("uuid.{TERMINAL}"));
        let goes_on = |child: &mut std::process::Child| child.try_wait().expect("a child").is_none();

        kill_sessions(NAMED, Programs::Commands);
        for ended in [&mut command, &mut hook] {
            assert!(!ended.wait().expect("it ends").success());
        }
        assert!(goes_on(&mut server) && goes_on(&mut terminal));
        kill_sessions(NAMED, Programs::All);
        assert!(!server.wait().expect("it ends").success());
        assert!(goes_on(&mut terminal));
        kill_host(NAMED);
        assert!(!terminal.wait().expect("it ends").success());
    }
}
