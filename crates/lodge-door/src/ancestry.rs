//! Tells whether a process descends from this host. Programs that agents start (tool calls, hooks, MCP servers) must
//! not control the host that asks a person before it starts them; a shell that a person opened may.
//!
//! The host is a child subreaper (see [`crate::adopt_orphans`]), so a daemon that left its parents still descends from
//! it.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// No process tree is deeper; it ends the walk if processes change meanwhile.
const DEEPEST: usize = 10_000;

/// Why a local process is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It belongs to another user.
    #[error("only the user who runs the host can use its local socket")]
    OtherUser,
    /// An agent started it.
    #[error("programs that an agent started (tool calls, hooks, MCP servers) cannot use the host's local socket")]
    StartedByAgent,
    /// It has ended, or the system does not say what started it.
    #[error("the system does not identify the connecting process")]
    Unknown,
}

/// One process, identified by its pid and start time: a pid can be reused, the pair cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    started: u64,
}

/// The shells of terminals that people opened.
#[derive(Debug, Default)]
pub(crate) struct Terminals(Mutex<Vec<Process>>);

/// A terminal that a person opened: what runs in it may use the local socket, until this is dropped.
#[derive(Debug)]
pub struct PersonsTerminal {
    shell: Process,
    all: Weak<Terminals>,
}

impl Drop for PersonsTerminal {
    fn drop(&mut self) {
        if let Some(all) = self.all.upgrade() {
            let mut all = all.0.lock();
            if let Some(at) = all.iter().position(|shell| *shell == self.shell) {
                all.swap_remove(at);
            }
        }
    }
}

impl crate::Door {
    /// Registers a terminal that a person opened, by the pid of its shell. `None` if the shell has already ended.
    pub fn persons_terminal(&self, shell: u32) -> Option<PersonsTerminal> {
        let pid = i32::try_from(shell).ok()?;
        let (_, started) = parent_and_start(pid)?;
        let shell = Process { pid, started };
        self.terminals.0.lock().push(shell);
        Some(PersonsTerminal {
            shell,
            all: Arc::downgrade(&self.terminals),
        })
    }
}

impl Terminals {
    /// Whether this is the pid of a terminal's shell that its terminal has not reaped yet.
    pub(crate) fn has_shell(&self, pid: i32) -> bool {
        self.0.lock().iter().any(|shell| shell.pid == pid)
    }

    fn contains(&self, process: Process) -> bool {
        self.0.lock().contains(&process)
    }

    /// Whether a process is admitted: it does not descend from this host, or does so through a person's terminal.
    ///
    /// The number is that of the process that connected, as the kernel noted it then. Should that process be gone and its
    /// number in use again, which takes all other numbers to be used up in the moment before the connection is accepted,
    /// the wrong process would be looked at.
    pub(crate) fn check(&self, pid: i32) -> Result<(), Refused> {
        self.check_below(pid, i32::try_from(std::process::id()).map_err(|_| Refused::Unknown)?)
    }

    fn check_below(&self, pid: i32, host: i32) -> Result<(), Refused> {
        let mut next = pid;
        for _ in 0..DEEPEST {
            if next == host {
                // The host itself has no reason to connect to itself.
                return Err(Refused::StartedByAgent);
            }
            // Beyond the first process, or of another namespace.
            if next <= 1 {
                return if next == pid { Err(Refused::Unknown) } else { Ok(()) };
            }
            let (parent, started) = parent_and_start(next).ok_or(Refused::Unknown)?;
            if self.contains(Process { pid: next, started }) {
                return Ok(());
            }
            next = parent;
        }
        Err(Refused::Unknown)
    }
}

/// The parent of a process, and when it started, from `/proc/<pid>/stat`.
fn parent_and_start(pid: i32) -> Option<(i32, u64)> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&stat)
}

fn parse_stat(stat: &[u8]) -> Option<(i32, u64)> {
    // The name of the program comes second, in brackets, and may hold brackets and spaces itself.
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    // Numbered from 1 in proc(5): the state is 3, the parent 4, the start 22.
    let parent = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some((parent, started))
}

/// Whether this system reports the parents of processes.
pub(crate) fn can_tell() -> bool {
    i32::try_from(std::process::id()).is_ok_and(|pid| parent_and_start(pid).is_some())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::Door;

    struct Running(Child);

    impl Running {
        fn sleep() -> Self {
            Self(
                Command::new("sleep")
                    .arg("600")
                    .stdin(Stdio::null())
                    .spawn()
                    .expect("sleep is installed"),
            )
        }

        fn pid(&self) -> i32 {
            self.0.id().cast_signed()
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_program_s_name_cannot_forge_its_parent() {
        let line = b"42 (a) S 1 2 (b) ) R 7 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1";
        assert_eq!(parse_stat(line), Some((7, 12345)));
        assert_eq!(parse_stat(b"42 (a) S 1"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn who_descends_from_the_host_is_refused_and_its_parents_are_not() {
        let terminals = Terminals::default();
        let me = std::process::id().cast_signed();
        let child = Running::sleep();
        assert_eq!(terminals.check(child.pid()), Err(Refused::StartedByAgent));
        assert_eq!(terminals.check(me), Err(Refused::StartedByAgent));
        let (parent, _) = parent_and_start(me).unwrap();
        assert_eq!(terminals.check(parent), Ok(()));
        assert_eq!(terminals.check(0), Err(Refused::Unknown));
        assert_eq!(terminals.check(i32::MAX), Err(Refused::Unknown));
        // As if a process beside us were the host.
        assert_eq!(terminals.check_below(me, child.pid()), Ok(()));
    }

    #[test]
    fn a_person_s_terminal_may_come_in_until_it_is_closed() {
        let door = Door::with_token("a-token-for-tests");
        let child = Running::sleep();
        let open = door.persons_terminal(child.0.id()).unwrap();
        assert_eq!(door.terminals.check(child.pid()), Ok(()));
        drop(open);
        assert_eq!(door.terminals.check(child.pid()), Err(Refused::StartedByAgent));
    }
}
