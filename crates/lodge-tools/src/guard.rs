//! The guard: a second process that outlives the host by a moment. If the host is killed, it cannot stop the programs
//! that it started; the guard, which holds the other end of a pipe, notices and stops them.
//!
//! A host that has its sessions for a term only, because another host may have them afterwards, tells the guard of each term.
//! The guard has a clock of its own, so that the sessions' programs end in time while the host is stopped or out of reach.

use std::{
    io::{self, ErrorKind, Write as _},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
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
    guard: Guard::NotStarted,
    term: None,
});

/// The host's side of the guard.
struct Guarded {
    program: Option<PathBuf>,
    guard: Guard,
    /// The latest term.
    term: Option<Term>,
}

enum Guard {
    NotStarted,
    CannotStart,
    /// It runs, as far as this host knows. The system closes the pipe to it when the host ends.
    Runs(Child),
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
    /// Sees to it that there is a guard. A host whose programs may run for a term only starts none without one.
    fn ensure(&mut self) -> io::Result<()> {
        self.notice_end();
        let is_to_start = match self.guard {
            Guard::Runs(_) => false,
            Guard::NotStarted => true,
            // Without a term it is of use only when the host is killed, and that was said once.
            Guard::CannotStart => self.term.is_some(),
        };
        if is_to_start {
            self.start();
        }
        match (&self.guard, self.term) {
            (Guard::Runs(_), _) | (_, None) => Ok(()),
            (_, Some(_)) => Err(io::Error::other(
                "the process that would end it in time (the guard) cannot be started",
            )),
        }
    }

    fn start(&mut self) {
        let Some(program) = &self.program else { return };
        self.guard = match start(program) {
            Some(guard) => Guard::Runs(guard),
            None => Guard::CannotStart,
        };
        if let Err(error) = self.write() {
            tracing::warn!(%error, "a new guard cannot be told how long this host's programs may run");
        }
    }

    /// Tells the guard of the term. If the guard has ended, another one is started in its place.
    fn tell(&mut self) {
        self.notice_end();
        match self.write() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.start(),
            // It goes by the last term that it read.
            Err(error) => tracing::warn!(%error, "the guard cannot be told how long this host's programs may run"),
            Ok(()) => {}
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let (Guard::Runs(guard), Some(Term { from, until })) = (&mut self.guard, self.term) else {
            return Ok(());
        };
        let line = format!("{} {}\n", from.as_millis(), until.as_millis());
        let pipe = guard.stdin.as_mut().ok_or(ErrorKind::BrokenPipe)?;
        pipe.write_all(line.as_bytes())
    }

    /// Replaces a guard that somebody ended.
    fn notice_end(&mut self) {
        if let Guard::Runs(guard) = &mut self.guard
            && let Ok(Some(status)) = guard.try_wait()
        {
            tracing::warn!(%status, "the guard has ended; another one is started");
            self.start();
        }
    }
}

fn start(program: &Path) -> Option<Child> {
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
    let guard = guard.and_then(|guard| {
        let pipe = guard.stdin.as_ref().ok_or(Errno::PIPE)?;
        // A guard that does not read must not hold up the host.
        rustix::io::ioctl_fionbio(pipe, true)?;
        Ok(guard)
    });
    guard
        .inspect_err(|error| {
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
///
/// # Errors
/// When programs may run for a term only, and nothing would end them in time.
pub(crate) fn ensure() -> io::Result<()> {
    GUARDED.lock().ensure()
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

    fn guarded(program: PathBuf, term: Option<Term>) -> Guarded {
        Guarded {
            program: Some(program),
            guard: Guard::NotStarted,
            term,
        }
    }

    fn process(guarded: &mut Guarded) -> &mut Child {
        match &mut guarded.guard {
            Guard::Runs(guard) => guard,
            Guard::NotStarted | Guard::CannotStart => panic!("no guard runs"),
        }
    }

    #[test]
    fn a_guard_that_somebody_ends_is_replaced() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (program, heard) = (dir.path().join("guard"), dir.path().join("heard"));
        std::fs::write(&program, format!("#!/bin/sh\nexec cat >> '{}'\n", heard.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let mut guarded = guarded(program, Some(term(1, 8)));
        guarded.ensure().unwrap();
        for replace in [Guarded::tell, |guarded: &mut Guarded| guarded.ensure().unwrap()] {
            let first = process(&mut guarded);
            let id = first.id();
            first.kill().unwrap();
            first.wait().unwrap();
            replace(&mut guarded);
            assert_ne!(process(&mut guarded).id(), id);
        }
        // The last one knows the term, and ends with the host.
        let last = process(&mut guarded);
        drop(last.stdin.take());
        assert!(last.wait().unwrap().success());
        assert!(std::fs::read_to_string(heard).unwrap().ends_with("1000 8000\n"));
    }

    #[test]
    fn without_a_guard_no_program_is_started_for_a_term() {
        let nowhere = PathBuf::from("/nonexistent/guard");
        guarded(nowhere.clone(), None).ensure().expect("programs may go on");
        let refused = guarded(nowhere, Some(term(1, 8))).ensure().unwrap_err();
        assert!(refused.to_string().contains("guard"), "{refused}");
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
