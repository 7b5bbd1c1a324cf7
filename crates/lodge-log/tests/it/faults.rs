//! Every call to the disk fails once, in every way: nothing acknowledged is lost, and the log goes on.

use std::sync::Arc;

use lodge_log::{HomeOptions, LogError, Position, SessionLog, Snapshot, Store, SyncPolicy};
use uuid::Uuid;

use crate::support::{TestHome, event, event_saying, id, ids, line, lines, numbered, rewind};
use crate::test_disk::{Fault, TestDisk};

const FAULTS: [Fault; 5] = [
    Fault::Full,
    Fault::Broken,
    Fault::Interrupted,
    Fault::Short,
    Fault::HalfThenFull,
];
const POLICIES: [SyncPolicy; 3] = [SyncPolicy::Turn, SyncPolicy::Always, SyncPolicy::Never];

fn home(disk: &TestDisk, sync: SyncPolicy) -> TestHome {
    TestHome::with(HomeOptions {
        sync,
        disk: Arc::new(disk.clone()),
        ..HomeOptions::default()
    })
}

/// One run with one fault.
struct Run<'a> {
    disk: &'a TestDisk,
    t: &'a TestHome,
    /// A session of its own.
    session: &'a str,
    /// What to say when something is wrong.
    name: &'a str,
    fault: (Fault, usize, bool),
}

impl Run<'_> {
    /// From here on calls are counted, and one fails.
    fn start(&self) {
        self.disk.plan(self.fault.0, self.fault.1, self.fault.2);
    }

    /// Does something; if the disk refuses, once more when it is fine again.
    fn until_it_works<T>(&self, mut act: impl FnMut() -> Result<T, LogError>) -> T {
        let Run { disk, name, .. } = self;
        match act() {
            Ok(done) => done,
            Err(error) => {
                let text = error.to_string();
                let clear = ["No space left", "Input/output error", "os error"]
                    .iter()
                    .any(|part| text.contains(part));
                assert!(matches!(error, LogError::Io { .. }) && clear, "{name}: {text}");
                assert!(disk.was_hit(), "{name}: {text} without a fault");
                disk.heal();
                act().unwrap_or_else(|error| panic!("{name}: still {error} on a healthy disk"))
            }
        }
    }
}

/// Runs `body` with a fault at the first call, the second, and so on until there are no more calls.
fn at_every_call(mut body: impl FnMut(&Run<'_>)) {
    for sync in POLICIES {
        let disk = TestDisk::default();
        let t = home(&disk, sync);
        for fault in FAULTS {
            for lasting in [false, true] {
                for at in 0.. {
                    assert!(at < 1000, "the calls do not end");
                    let name = format!("{fault:?} at call {at}, lasting: {lasting}, {sync}");
                    let session = format!("{fault:?}-{at}-{lasting}-{sync}");
                    body(&Run {
                        disk: &disk,
                        t: &t,
                        session: &session,
                        name: &name,
                        fault: (fault, at, lasting),
                    });
                    disk.heal();
                    if !disk.was_hit() {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn a_session_goes_on_once_the_disk_does() {
    at_every_call(
        |run @ &Run {
             disk, t, session, name, ..
         }| {
            run.start();
            let mut log: Box<dyn SessionLog> = match t.store().create(session) {
                Ok(log) => log,
                Err(_) => {
                    disk.heal();
                    // What was made so far does not stand in the way.
                    t.store()
                        .create(session)
                        .or_else(|_| t.store().open(session).map(|opened| opened.log))
                        .unwrap()
                }
            };
            for n in 0..3 {
                run.until_it_works(|| log.append(&event(n)));
                assert_eq!((log.count(), log.last_id()), (n + 1, Some(id(n))), "{name}");
            }
            run.until_it_works(|| log.append_all(&[event(3), event(4)]));
            run.until_it_works(|| log.request_sync().wait());
            log.save_snapshot(Snapshot {
                at: log.end(),
                bytes: "x".into(),
            });
            log.request_sync().wait().ok();
            run.until_it_works(|| log.append(&event(5)));
            let read = || {
                let events = t.store().read(session, Position::START, Position::END)?.events();
                events.collect::<Result<Vec<_>, _>>()
            };
            assert_eq!(run.until_it_works(read).len(), 6, "{name}");
            drop(log);
            let opened = run.until_it_works(|| t.store().open(session));
            disk.heal();
            assert_eq!(opened.repaired, None, "{name}");
            assert_eq!(
                ids(opened.log.read(Position::START, Position::END).unwrap()),
                numbered(0..6),
                "{name}"
            );
        },
    );
}

#[test]
fn a_host_that_dies_after_a_fault_has_lost_nothing_acknowledged() {
    let after = TestHome::new();
    at_every_call(
        |run @ &Run {
             disk, t, session, name, ..
         }| {
            let mut log = t.store().create(session).unwrap();
            run.start();
            let mut acknowledged: Vec<Uuid> = Vec::new();
            let mut tried = 0;
            for n in 0..4 {
                tried = n + 1;
                match log.append(&event(n)) {
                    Ok(_) => acknowledged.push(id(n)),
                    Err(_) => break,
                }
            }
            // No tidy end: what is in the file is what the next start finds.
            let left = std::fs::read(t.log_path(session)).unwrap();
            disk.heal();
            after.plant(session, &left);
            let opened = after.store().open(session).unwrap();
            let found = ids(opened.log.read(Position::START, Position::END).unwrap());
            assert!(found.starts_with(&acknowledged), "{name}");
            assert!(found.len() as u64 <= tried, "{name}");
        },
    );
}

#[test]
fn a_repair_that_fails_leaves_the_log_as_it_was_and_works_later() {
    let rewrite = [lines(0..2), b"garbage\n".to_vec(), lines(2..4), b"{\"ty".to_vec()].concat();
    let tail = [lines(0..3), line(3)[..20].to_vec()].concat();
    let unended = lines(0..4)[..lines(0..4).len() - 1].to_vec();
    for (kind, damaged, events) in [("rewrite", rewrite, 4), ("tail", tail, 3), ("line feed", unended, 4)] {
        at_every_call(
            |run @ &Run {
                 disk, t, session, name, ..
             }| {
                let session = &format!("{kind}-{session}").replace(' ', "-");
                t.plant(session, &damaged);
                run.start();
                let first = t.store().open(session);
                let failed = first.is_err();
                disk.heal();
                if failed {
                    assert_eq!(t.ids(session), numbered(0..events), "{kind}, {name}: after the failure");
                }
                let mut opened = first.or_else(|_| t.store().open(session)).unwrap();
                opened.log.append(&event_saying(events, "next")).unwrap();
                let all = ids(opened.log.read(Position::START, Position::END).unwrap());
                assert_eq!(all, numbered(0..=events), "{kind}, {name}");
                drop(opened);
                let names = t.files(session);
                let expected =
                    |n: &String| n == "events.jsonl" || n.starts_with("events.idx") || n.starts_with("events.damaged-");
                assert!(names.iter().all(expected), "{kind}, {name}: {names:?}");
            },
        );
    }
}

#[test]
fn a_rewind_fails_whole_or_works() {
    at_every_call(
        |run @ &Run {
             disk, t, session, name, ..
         }| {
            let mut log = t.store().create(session).unwrap();
            log.append_all(&(0..5).map(event).collect::<Vec<_>>()).unwrap();
            run.start();
            run.until_it_works(|| log.append(&rewind(80, 2, Some(1))));
            run.until_it_works(|| log.compact());
            disk.heal();
            log.append(&event(2)).unwrap();
            assert_eq!(t.ids(session), numbered(0..3), "{name}");
            let raw = std::fs::read_to_string(t.log_path(session)).unwrap();
            assert_eq!(raw.lines().count(), 3, "{name}");
        },
    );
}

#[test]
fn deleting_fails_whole_or_works() {
    at_every_call(
        |run @ &Run {
             disk, t, session, name, ..
         }| {
            t.store().create(session).unwrap().append(&event(0)).unwrap();
            run.start();
            let done = t.store().delete(session);
            disk.heal();
            assert_eq!(t.store().exists(session).unwrap(), done.is_err(), "{name}");
            if done.is_err() {
                assert_eq!(t.ids(session), numbered([0]), "{name}");
            }
        },
    );
}

#[test]
fn syncs_are_made_as_the_policy_says() {
    for (sync, expected) in [(SyncPolicy::Never, 0), (SyncPolicy::Turn, 3), (SyncPolicy::Always, 12)] {
        let disk = TestDisk::default();
        let t = home(&disk, sync);
        let mut log = t.store().create("s").unwrap();
        for n in 0..10 {
            log.append(&event(n)).unwrap();
        }
        log.request_sync().wait().unwrap();
        // The file, and once the two directories that it is new in.
        assert_eq!(disk.syncs(), expected, "{sync}");
    }
}

#[test]
fn syncs_that_are_asked_for_at_once_are_made_once() {
    let disk = TestDisk::default();
    let t = home(&disk, SyncPolicy::Turn);
    let mut log = t.store().create("s").unwrap();
    log.append(&event(0)).unwrap();
    log.request_sync().wait().unwrap();
    let before = disk.syncs();
    let tickets: Vec<_> = (0..1000).map(|_| log.request_sync()).collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    let made = disk.syncs() - before;
    assert!((1..1000).contains(&made), "{made} syncs for 1000 requests");
}

#[test]
fn after_a_failed_sync_no_later_one_is_believed_until_the_log_was_written_anew() {
    for sync in [SyncPolicy::Turn, SyncPolicy::Always] {
        let disk = TestDisk::default();
        let t = home(&disk, sync);
        let mut log = t.store().create("s").unwrap();
        log.append_all(&[event(0), event(1)]).unwrap();
        log.request_sync().wait().unwrap();
        log.append(&event(2)).unwrap();
        let file = |path: &std::path::Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
        let old = file(&t.log_path("s"));
        disk.fail_syncs(true);
        log.sync().unwrap_err();
        // Nothing is accepted while the disk fails, and nobody is told that it is safe.
        let error = log.append(&event(3)).unwrap_err().to_string();
        assert!(error.contains("cannot sync"), "{sync}: {error}");
        log.request_sync().wait().unwrap_err();
        assert_eq!(log.count(), 3, "{sync}");
        disk.fail_syncs(false);
        log.append(&event(3)).unwrap();
        assert_ne!(file(&t.log_path("s")), old, "{sync}: the same file was believed");
        log.request_sync().wait().unwrap();
        assert_eq!(std::fs::read(t.log_path("s")).unwrap(), lines(0..=3), "{sync}");
        // What is lost is said, and mended by whoever opens the log again.
        log.append(&event(4)).unwrap();
        disk.fail_syncs(true);
        log.sync().unwrap_err();
        disk.fail_syncs(false);
        let mut lost = std::fs::read(t.log_path("s")).unwrap();
        let end = lost.len();
        lost[end - 40..].fill(0);
        std::fs::write(t.log_path("s"), lost).unwrap();
        let error = log.append(&event(5)).unwrap_err().to_string();
        assert!(error.contains("reopen the session"), "{sync}: {error}");
        drop(log);
        let mut opened = t.store().open("s").unwrap();
        assert_eq!((opened.log.count(), opened.repaired.is_some()), (4, true), "{sync}");
        opened.log.append(&event_saying(4, "again")).unwrap();
    }
}
