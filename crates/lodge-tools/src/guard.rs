//! The guard: a second process that outlives the host by a moment. If the host is killed, it cannot stop the programs
//! that it started; the guard, which holds the other end of a pipe, notices and stops them.
//!
//! A host that has its sessions for a term only, because another host may have them afterwards, tells the guard of each term.
//! The guard has a clock of its own, so that the sessions' programs end in time while the host is stopped or out of reach.

use std::{
    io::Write as _,
    os::fd::AsFd,
    path::PathBuf,
    process::{ChildStdin, Command, Stdio},
    time::Duration,
};

use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    time::{ClockId, clock_gettime},
};

use crate::process::{self, Programs};

/// What makes the program the guard, before the name of the host that it looks after.
pub const GUARD: &str = "__guard";
/// How often the guard looks for commands while none may run: one may have been about to start when the term ended.
const LOOK: Duration = Duration::from_millis(500);

static GUARDED: Mutex<Guarded> = Mutex::new(Guarded {
    program: None,
    guard: None,
    term: None,
});

/// The host's side of the guard.
struct Guarded {
    program: Option<PathBuf>,
    /// The pipe to the guard, once one was started. The system closes it when the host ends.
    guard: Option<Option<ChildStdin>>,
    /// The latest term.
    term: Option<Term>,
}

/// How long programs of a host's sessions may run, as times since the machine was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// When the term began. If the last one was over by then, no program of that one may go on.
    pub from: Duration,
    /// When it ends, unless another one begins before.
    pub until: Duration,
}

impl Guarded {
    fn start(&mut self) {
        let Some(program) = self.program.as_ref().filter(|_| self.guard.is_none()) else {
            return;
        };
        self.guard = Some(start(program));
        self.tell();
    }

    /// Tells the guard of the term. One that reads nothing goes by the last that it read.
    fn tell(&mut self) {
        let (Some(Some(guard)), Some(Term { from, until })) = (&mut self.guard, self.term) else {
            return;
        };
        let line = format!("{} {}\n", from.as_millis(), until.as_millis());
        if let Err(error) = guard.write_all(line.as_bytes()) {
            tracing::warn!(%error, "the guard cannot be told how long this host's programs may run");
        }
    }
}

fn start(program: &PathBuf) -> Option<ChildStdin> {
    use std::os::unix::process::CommandExt;
    let guard = Command::new(program)
        .arg0("lodge")
        .arg(GUARD)
        .arg(process::host())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        // What ends the host's group, such as Ctrl-C, is not meant for it.
        .process_group(0)
        .spawn();
    let pipe = guard.and_then(|mut guard| {
        let pipe = guard.stdin.take().ok_or(Errno::PIPE)?;
        // A guard that does not read must not hold up the host.
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(pipe)
    });
    pipe.inspect_err(|error| {
        tracing::warn!(%error, "if this host is killed, the next one stops the programs that it leaves behind");
    })
    .ok()
}

/// From now on a guard is started with the first program that must not outlive this host. `program` is the guard when its
/// arguments are [`GUARD`] and a name that it passes to [`stand_guard`].
pub fn guard_with(program: PathBuf) {
    GUARDED.lock().program.get_or_insert(program);
}

/// Programs of this host's sessions may run for this term, and no longer unless another one begins before it ends. To be called before
/// anybody goes by the term.
pub fn guard_until(term: Term) {
    let mut guarded = GUARDED.lock();
    guarded.term = Some(term);
    guarded.tell();
}

/// Sees to it that there is a guard, where the host wants one.
pub(crate) fn ensure() {
    GUARDED.lock().start();
}

/// Ends what the host left behind when it has ended, and what its sessions started when its term is over.
pub fn stand_guard(host: &str) {
    let stdin = std::io::stdin();
    let mut terms = Terms::default();
    let mut said = Vec::new();
    loop {
        let wait = terms.end_programs(since_boot(), |what| process::kill_sessions(host, what));
        if !is_readable(&stdin, wait) {
            continue;
        }
        let mut piece = [0; 256];
        match rustix::io::read(&stdin, &mut piece) {
            Ok(read @ 1..) => said.extend_from_slice(&piece[..read]),
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Ok(_) | Err(_) => break,
        }
        while let Some(end) = said.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = said.drain(..=end).collect();
            if let Some(term) = read_term(&line) {
                terms.begin(term, |what| process::kill_sessions(host, what));
            }
        }
    }
    process::kill_host(host);
}

fn is_readable(input: impl AsFd, wait: Option<Duration>) -> bool {
    let wait = wait.map(|wait| Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    });
    let mut inputs = [PollFd::new(&input, PollFlags::IN)];
    matches!(poll(&mut inputs, wait.as_ref()), Ok(1..))
}

fn read_term(line: &[u8]) -> Option<Term> {
    let (from, until) = std::str::from_utf8(line).ok()?.trim().split_once(' ')?;
    let millis = |text: &str| Some(Duration::from_millis(text.parse().ok()?));
    Some(Term {
        from: millis(from)?,
        until: millis(until)?,
    })
}

/// The terms of a host as its guard hears of them.
#[derive(Debug, Default)]
struct Terms {
    until: Option<Duration>,
    /// Whether programs were ended since the last term was over.
    ended: bool,
}

impl Terms {
    /// Another term begins. It does not save what was to end before it.
    fn begin(&mut self, term: Term, end: impl FnOnce(Programs)) {
        if self.until.is_some_and(|until| until <= term.from) && !self.ended {
            end(Programs::All);
        }
        self.until = self.until.max(Some(term.until));
        self.ended = false;
    }

    /// Ends all programs if the term is over. Answers how long to wait until it is time to do so, or to do so again.
    fn end_programs(&mut self, now: Duration, end: impl FnOnce(Programs)) -> Option<Duration> {
        let until = self.until?;
        if now < until {
            return Some(until - now);
        }
        // Servers that are started again do nothing unasked, and would be given up if they were ended again and again.
        end(if self.ended { Programs::Commands } else { Programs::All });
        self.ended = true;
        Some(LOOK)
    }
}

/// Time since this machine was started, also while it or the program slept.
fn since_boot() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let now = clock_gettime(CLOCK);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn term(from: u64, until: u64) -> Term {
        Term {
            from: at(from),
            until: at(until),
        }
    }

    fn ends(terms: &mut Terms, now: u64) -> (Option<Programs>, Option<Duration>) {
        let mut ended = None;
        let wait = terms.end_programs(at(now), |programs| ended = Some(programs));
        (ended, wait)
    }

    fn begins(terms: &mut Terms, next: Term) -> Option<Programs> {
        let mut ended = None;
        terms.begin(next, |programs| ended = Some(programs));
        ended
    }

    #[test]
    fn programs_of_a_host_without_terms_go_on() {
        assert_eq!(ends(&mut Terms::default(), 1_000_000), (None, None));
    }

    #[test]
    fn programs_end_with_the_term_and_a_later_one_does_not_save_them() {
        let mut terms = Terms::default();
        assert_eq!(begins(&mut terms, term(1, 8)), None);
        assert_eq!(ends(&mut terms, 2), (None, Some(at(6))));
        // Renewed in time, also when the guard hears of it late.
        assert_eq!(begins(&mut terms, term(7, 15)), None);
        assert_eq!(ends(&mut terms, 14), (None, Some(at(1))));
        // Over: now, and as long as no other begins.
        assert_eq!(ends(&mut terms, 15), (Some(Programs::All), Some(LOOK)));
        assert_eq!(ends(&mut terms, 16), (Some(Programs::Commands), Some(LOOK)));
        // The next one is for other programs.
        assert_eq!(begins(&mut terms, term(20, 28)), None, "they were ended");
        assert_eq!(ends(&mut terms, 21), (None, Some(at(7))));
        // The guard slept as well, and hears of the next term first.
        assert_eq!(begins(&mut terms, term(30, 38)), Some(Programs::All));
        assert_eq!(ends(&mut terms, 31), (None, Some(at(7))));
    }

    #[test]
    fn a_term_is_read_as_it_was_written() {
        assert_eq!(read_term(b"1000 8000\n"), Some(term(1, 8)));
        for damaged in [&b"\n"[..], b"1000\n", b"1000 x\n", b"\xff 1\n"] {
            assert_eq!(read_term(damaged), None);
        }
    }
}
