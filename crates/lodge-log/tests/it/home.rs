//! The home directory, its lock and its permissions.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use lodge_log::{Home, HomeOptions, Labels, ListFilter, LogError, Store, SyncPolicy};

use crate::support::{TestHome, event, event_saying, id, lines, numbered};

#[test]
fn a_second_host_is_told_who_has_the_home() {
    let t = TestHome::new();
    let error = Home::open(t.home.path(), HomeOptions::default()).unwrap_err();
    let expected = format!(
        "another lodge host (process {}) is using {}",
        std::process::id(),
        t.home.path().display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_home_is_free_again_when_it_is_closed() {
    let t = TestHome::new();
    let path = t.home.path().to_owned();
    drop(t.home);
    Home::open(path, HomeOptions::default()).unwrap();
}

#[test]
fn a_home_whose_lock_somebody_deleted_is_made_whole_by_all_who_begin_sessions_then() {
    let t = TestHome::new();
    let ready = std::sync::Barrier::new(4);
    for _ in 0..200 {
        std::fs::remove_file(t.home.path().join("lodge.lock")).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    ready.wait();
                    t.home.ensure().unwrap();
                });
            }
        });
    }
}

#[test]
fn reading_beside_a_host_sees_its_sessions_and_changes_nothing() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    log.append(&event(0)).unwrap();
    let reader = Home::open_unlocked_read_only(t.home.path()).unwrap();
    assert_eq!(
        reader.catalogue().list(&ListFilter::default()).unwrap().sessions[0].id,
        "s"
    );
    assert_eq!(
        crate::support::ids(reader.sessions().read_back("s").unwrap()),
        numbered([0])
    );
    assert!(matches!(reader.sessions().create("x"), Err(LogError::ReadOnly { .. })));
    assert!(matches!(reader.sessions().open("s"), Err(LogError::ReadOnly { .. })));
    assert!(matches!(reader.sessions().delete("s"), Err(LogError::ReadOnly { .. })));
    log.append(&event(1)).unwrap();
}

#[test]
fn reading_beside_a_host_misses_nothing_that_was_appended_before() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    // The host writes its catalogue later, and now and then it has.
    for n in 0..40 {
        log.append(&event(n)).unwrap();
        if n % 10 == 5 {
            t.home.catalogue().flush();
        }
        let reader = Home::open_unlocked_read_only(t.home.path()).unwrap();
        let listed = reader.catalogue().list(&ListFilter::default()).unwrap().sessions;
        assert_eq!(listed[0].event_count, n + 1);
    }
    t.store().delete("s").unwrap();
    let reader = Home::open_unlocked_read_only(t.home.path()).unwrap();
    assert!(
        reader
            .catalogue()
            .list(&ListFilter::default())
            .unwrap()
            .sessions
            .is_empty()
    );
}

#[test]
fn reading_a_home_without_catalogue_makes_none() {
    let t = TestHome::new();
    let path = t.home.path().to_owned();
    t.plant("s", &lines(0..3));
    let TestHome { dir, home } = t;
    drop(home);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(path.join(format!("catalogue.db{suffix}")));
    }
    let reader = Home::open_unlocked_read_only(&path).unwrap();
    assert_eq!(
        reader.catalogue().list(&ListFilter::default()).unwrap().sessions[0].event_count,
        3
    );
    assert!(!path.join("catalogue.db").exists());
    drop(dir);
    Home::open_unlocked_read_only(path).unwrap();
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let t = TestHome::with(HomeOptions {
        sync: SyncPolicy::Turn,
        ..HomeOptions::default()
    });
    let mut log = t.store().create("some session").unwrap();
    log.append(&event_saying(0, &"x".repeat(100_000))).unwrap();
    let dir = log.dir().to_owned();
    t.store()
        .set_labels(
            "some session",
            &Labels {
                name: Some("n".into()),
                ..Labels::default()
            },
        )
        .unwrap();
    drop(log);
    t.home.catalogue().flush();
    let TestHome { dir: temp, home } = t;
    let path = home.path().to_owned();
    drop(home);
    let mut seen = 0;
    for dir in [path.clone(), path.join("session-state"), dir] {
        assert_eq!(
            std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
            0o700,
            "{}",
            dir.display()
        );
        for entry in std::fs::read_dir(&dir).unwrap() {
            let (path, meta) = entry.map(|e| (e.path(), e.metadata().unwrap())).unwrap();
            if meta.is_file() {
                assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 6, "lock, catalogue, log, side file, id, labels: {seen}");
    drop(temp);
}

#[test]
fn a_sync_can_be_awaited() {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let t = TestHome::with(HomeOptions {
        sync: SyncPolicy::Turn,
        ..HomeOptions::default()
    });
    let mut log = t.store().create("s").unwrap();
    log.append(&event(0)).unwrap();
    let mut ticket = std::pin::pin!(log.request_sync());
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match ticket.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => break outcome.unwrap(),
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn sync_policies_have_names() {
    for policy in [SyncPolicy::Turn, SyncPolicy::Always, SyncPolicy::Never] {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert_eq!(
        "sometimes".parse::<SyncPolicy>(),
        Err("\"sometimes\" is not a sync policy; use turn, always or never".to_owned())
    );
}

#[test]
fn a_shared_home_lets_each_writer_see_that_the_other_was_faster() {
    let dir = tempfile::tempdir().unwrap();
    let shared = || HomeOptions {
        exclusive: false,
        ..HomeOptions::default()
    };
    let (one, two) = (
        Home::open(dir.path(), shared()).unwrap(),
        Home::open(dir.path(), shared()).unwrap(),
    );
    assert!(matches!(
        Home::open(dir.path(), HomeOptions::default()),
        Err(LogError::Locked { .. })
    ));
    let mut mine = one.sessions().create("s").unwrap();
    mine.append(&event(0)).unwrap();
    let mut theirs = two.sessions().open("s").unwrap().log;
    theirs.append(&event(1)).unwrap();
    assert!(matches!(mine.append(&event(1)), Err(LogError::Moved { .. })));
    drop(mine);
    let mut mine = one.sessions().open("s").unwrap().log;
    assert_eq!(mine.last_id(), Some(id(1)));
    mine.append(&event(2)).unwrap();
    drop((mine, theirs));
    assert_eq!(
        crate::support::ids(two.sessions().open("s").unwrap().log.read_back().unwrap()),
        numbered([2, 1, 0])
    );
    one.catalogue().flush();
    assert_eq!(two.catalogue().get("s").unwrap().unwrap().event_count, 3);
}

#[test]
fn writers_in_a_shared_home_never_lose_or_tear_an_event() {
    let dir = tempfile::tempdir().unwrap();
    let home = || {
        Home::open(
            dir.path(),
            HomeOptions {
                exclusive: false,
                ..HomeOptions::default()
            },
        )
        .unwrap()
    };
    drop(home().sessions().create("s").unwrap());
    let write = |from: u64| {
        let home = home();
        let mut log = home.sessions().open("s").unwrap().log;
        for n in from..from + 100 {
            loop {
                let message = lodge_events::UserMessage {
                    content: n.to_string(),
                    ..Default::default()
                };
                let next = lodge_events::Event::with(id(n), jiff::Timestamp::UNIX_EPOCH, log.last_id(), None, message);
                match log.append(&next) {
                    Ok(_) => break,
                    Err(LogError::Moved { .. }) => {
                        let opened = home.sessions().open("s").unwrap();
                        assert_eq!(opened.repaired, None);
                        log = opened.log;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for from in [0, 1000, 2000] {
            scope.spawn(move || write(from));
        }
    });
    let last = home();
    let report = last.sessions().check("s").unwrap();
    assert_eq!(
        (report.events, report.findings.is_empty()),
        (300, true),
        "{}",
        report.findings
    );
}

#[test]
fn what_an_interrupted_deletion_left_is_removed_at_the_next_start() {
    let t = TestHome::new();
    t.home.catalogue().flush();
    let (path, left) = (t.home.path().to_owned(), t.session_dir(".deleted-0123"));
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("events.jsonl"), lines(0..2)).unwrap();
    assert_eq!(t.store().list().unwrap(), []);
    let TestHome { dir, home } = t;
    drop(home);
    let home = Home::open(path, HomeOptions::default()).unwrap();
    home.catalogue().flush();
    assert!(!left.exists());
    drop(dir);
}
