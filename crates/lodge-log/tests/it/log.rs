//! Appending and reading.

use lodge_events::{AssistantMessageDelta, Event};
use lodge_log::{Home, HomeOptions, LogError, Position, Store, SyncPolicy};

use crate::support::{TestHome, event, event_saying, id, ids, line, lines, numbered, parse};

#[test]
fn an_appended_event_is_in_the_file_when_append_returns() {
    for sync in [SyncPolicy::Turn, SyncPolicy::Always, SyncPolicy::Never] {
        let t = TestHome::with(HomeOptions {
            sync,
            ..HomeOptions::default()
        });
        let mut log = t.store().create("s").unwrap();
        for n in 0..5 {
            let at = log.append(&event(n)).unwrap();
            assert_eq!(at, Position(lines(0..n).len() as u64));
            assert_eq!(std::fs::read(t.log_path("s")).unwrap(), lines(0..=n), "{sync}");
            assert_eq!(
                (log.count(), log.last_id(), log.end().0),
                (n + 1, Some(id(n)), lines(0..=n).len() as u64)
            );
        }
        log.request_sync().wait().unwrap();
        log.sync().unwrap();
    }
}

/// Counted in the system's own table, so that a descriptor nobody thought of counts, too.
#[cfg(target_os = "linux")]
#[test]
fn many_logs_are_written_and_read_with_few_descriptors() {
    for exclusive in [true, false] {
        let t = TestHome::with(HomeOptions {
            open_logs: 3,
            exclusive,
            ..HomeOptions::default()
        });
        let name = |number: usize| format!("s{number}");
        let mut logs: Vec<_> = (0..50).map(|number| t.store().create(&name(number)).unwrap()).collect();
        let mut early = None;
        for n in 0..4 {
            for log in &mut logs {
                log.append(&event(n)).unwrap();
                log.request_sync();
            }
            // A reader goes on where it was, whatever was closed meanwhile.
            early.get_or_insert_with(|| logs[0].read(Position::START, Position::END).unwrap());
        }
        let open = |number: &str| std::fs::read_link(format!("/proc/self/fd/{number}")).ok();
        let held = || {
            let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().map(Result::unwrap);
            let paths = descriptors.filter_map(|entry| open(entry.file_name().to_str()?));
            paths
                .filter(|path| path.starts_with(t.dir.path()) && path.ends_with("events.jsonl"))
                .count()
        };
        logs.iter_mut().for_each(|log| log.sync().unwrap());
        // The thread that brings logs to the disk may be about to open one more.
        assert!(held() <= 4, "{} logs are open", held());
        for number in 0..50 {
            assert_eq!(std::fs::read(t.log_path(&name(number))).unwrap(), lines(0..4));
        }
        assert_eq!(ids(early.unwrap()), numbered(0..1));
    }
}

#[test]
fn several_events_are_appended_at_once() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    // More than the system takes in one call.
    let events: Vec<Event> = (0..3000).map(event).collect();
    assert_eq!(log.append_all(&events).unwrap(), Position::START);
    assert_eq!(t.ids("s"), numbered(0..3000));
    assert_eq!(log.append_all(&[]).unwrap(), log.end());
}

#[test]
fn what_does_not_belong_into_a_log_is_refused_and_leaves_no_trace() {
    let t = TestHome::with(HomeOptions {
        max_event: 1000,
        ..HomeOptions::default()
    });
    let mut log = t.store().create("s").unwrap();
    log.append(&event(0)).unwrap();
    let delta = Event::new(Some(id(0)), None, AssistantMessageDelta::default());
    assert!(matches!(log.append(&delta), Err(LogError::Ephemeral { .. })));
    assert!(matches!(
        log.append(&event_saying(1, &"x".repeat(1000))),
        Err(LogError::TooLarge { max: 1000, .. })
    ));
    assert!(matches!(
        log.append_all(&[event(1), delta]),
        Err(LogError::Ephemeral { .. })
    ));
    assert_eq!(std::fs::read(t.log_path("s")).unwrap(), line(0));
}

#[test]
fn readers_go_forwards_backwards_and_from_anywhere() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    let mut at = Vec::new();
    for n in 0..2000 {
        at.push(log.append(&event_saying(n, &"x".repeat(n as usize % 500))).unwrap());
    }
    assert_eq!(
        ids(log.read(Position::START, Position::END).unwrap()),
        numbered(0..2000)
    );
    assert_eq!(ids(log.read(at[1234], at[1300]).unwrap()), numbered(1234..1300));
    assert_eq!(log.read(log.end(), Position::END).unwrap().count(), 0);
    assert_eq!(ids(log.read_back().unwrap()), numbered((0..2000).rev()));
    assert_eq!(ids(t.store().read_back("s").unwrap()), numbered((0..2000).rev()));
    let tail: Vec<_> = log
        .tail(3)
        .unwrap()
        .iter()
        .map(|r| (r.position, r.event.id()))
        .collect();
    assert_eq!(tail, (1997..2000).map(|n| (at[n], id(n as u64))).collect::<Vec<_>>());
    assert_eq!(log.tail(5000).unwrap().len(), 2000);
    for n in [0, 1, 500, 1999] {
        assert_eq!(log.seek(n).unwrap(), at[n as usize]);
    }
    assert_eq!(log.seek(2000).unwrap(), log.end());
}

#[test]
fn a_reader_does_not_see_what_is_appended_after_it_was_made() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    log.append(&event(0)).unwrap();
    let reader = log.read(Position::START, Position::END).unwrap();
    log.append(&event(1)).unwrap();
    assert_eq!(ids(reader), numbered([0]));
}

#[test]
fn the_bytes_of_foreign_events_stay_as_they_are() {
    let json = r#"{"id":"00000000-0000-4000-8000-000000000001","future":[1.0,1e3,"\u2028 "], "data":{"n":1.50,"type":{"x":null}},"timestamp":"2026-11-15T06:23:33.176Z","parentId":null,"type":"some.future_type"}"#;
    let t = TestHome::new();
    t.plant("s", format!("{json}\n").as_bytes());
    let opened = t.store().open("s").unwrap();
    assert!(opened.repaired.is_none());
    let event = opened.log.tail(1).unwrap().remove(0).event;
    assert_eq!(event.as_str(), json);
    let mut copy = t.store().create("copy").unwrap();
    copy.append(&parse(json)).unwrap();
    assert_eq!(
        std::fs::read(t.log_path("copy")).unwrap(),
        std::fs::read(t.log_path("s")).unwrap()
    );
}

#[test]
fn a_session_is_created_once_opened_when_there_and_gone_when_deleted() {
    let t = TestHome::new();
    assert!(t.store().open("s").unwrap_err().is_not_found());
    assert!(t.store().delete("s").unwrap_err().is_not_found());
    assert!(!t.store().exists("s").unwrap());
    drop(t.store().create("s").unwrap());
    assert!(matches!(t.store().create("s"), Err(LogError::Exists { .. })));
    assert!(t.store().exists("s").unwrap());
    let opened = t.store().open("s").unwrap();
    assert_eq!(
        (opened.log.count(), opened.log.last_id(), opened.repaired),
        (0, None, None)
    );
    drop(opened.log);
    t.store().delete("s").unwrap();
    assert!(!t.store().exists("s").unwrap());
    assert!(!t.session_dir("s").exists());
    assert_eq!(t.store().list().unwrap(), []);
    drop(t.store().create("s").unwrap());
}

#[test]
fn any_id_has_a_log_of_its_own() {
    let t = TestHome::new();
    let long = "long/".repeat(100);
    let odd = [
        "plain",
        "Plain",
        "../escape",
        "a/b",
        "a\\b",
        "",
        ".",
        "..",
        "con",
        "grüße 🦀",
        "a\0b",
        "x~y",
        &long,
    ];
    for (n, session) in odd.iter().enumerate() {
        t.store()
            .create(session)
            .unwrap()
            .append(&event_saying(0, &n.to_string()))
            .unwrap();
    }
    let mut listed: Vec<String> = t.store().list().unwrap().into_iter().map(|entry| entry.id).collect();
    listed.sort();
    let mut expected: Vec<&str> = odd.to_vec();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    for (n, session) in odd.iter().enumerate() {
        let opened = t.store().open(session).unwrap();
        assert_eq!(opened.log.id(), *session);
        assert!(opened.log.dir().starts_with(t.home.path().join("session-state")));
        assert!(
            opened.log.tail(1).unwrap()[0]
                .event
                .as_str()
                .contains(&format!("\"content\":\"{n}\""))
        );
    }
    assert_eq!(
        std::fs::read_dir(t.dir.path()).unwrap().count(),
        1,
        "nothing was written outside the home"
    );
}

#[test]
fn a_log_that_another_program_wrote_to_is_not_written_over() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    log.append(&event(0)).unwrap();
    std::fs::write(t.log_path("s"), lines(0..2)).unwrap();
    assert!(matches!(log.append(&event(9)), Err(LogError::Moved { .. })));
    drop(log);
    let mut opened = t.store().open("s").unwrap();
    assert_eq!(opened.repaired, None);
    assert_eq!(opened.log.last_id(), Some(id(1)));
    opened.log.append(&event(2)).unwrap();
    assert_eq!(t.ids("s"), numbered(0..3));
}

#[test]
fn a_live_log_that_was_deleted_comes_back_whole() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    log.append(&event(0)).unwrap();
    std::fs::remove_dir_all(t.home.path()).unwrap();
    log.append(&event(1)).unwrap();
    assert_eq!(t.ids("s"), numbered(0..2));
    t.home.ensure().unwrap();
    assert!(matches!(
        Home::open(t.home.path(), HomeOptions::default()),
        Err(LogError::Locked { pid: Some(pid), .. }) if pid == std::process::id()
    ));
    drop(log);
    assert_eq!(t.store().open("s").unwrap().log.count(), 2);
}

#[test]
fn a_home_whose_lock_was_deleted_is_locked_again_by_whoever_comes_first() {
    let t = TestHome::new();
    for _ in 0..100 {
        std::fs::remove_file(t.home.path().join("lodge.lock")).unwrap();
        let ready = std::sync::Barrier::new(4);
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
