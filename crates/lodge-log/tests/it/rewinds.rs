//! Rewinds: the log is only appended to, nobody is given what is hidden, and it leaves the file.

use std::sync::Arc;

use lodge_events::Event;
use lodge_log::{Damage, Home, HomeOptions, ListFilter, LogError, Position, Snapshot, Store, without_rewound};
use uuid::Uuid;

use crate::support::{TestHome, beside, event, event_saying, id, ids, lines, numbered, rewind};
use crate::test_disk::{Fault, TestDisk};

fn text(events: &[Event]) -> Vec<u8> {
    events
        .iter()
        .flat_map(|event| [event.json(), &b"\n"[..]].concat())
        .collect()
}

/// An event of the chain with another parent than the one before it by its number.
fn after(n: u64, parent: u64) -> Event {
    event(n).with_parent(Some(id(parent)))
}

/// One row: a log, the events that it counts, and how many places are found where something is missing.
struct Case {
    name: &'static str,
    log: Vec<Event>,
    counts: Vec<u64>,
    /// The last event of the chain.
    last: Option<u64>,
    gaps: u64,
}

fn cases() -> Vec<Case> {
    let chain = |numbers: std::ops::Range<u64>| numbers.map(event).collect::<Vec<_>>();
    let case = |name, parts: &[Vec<Event>], counts: &[u64], last, gaps| Case {
        name,
        log: parts.concat(),
        counts: counts.to_vec(),
        last,
        gaps,
    };
    vec![
        case(
            "the end is taken back",
            &[chain(0..5), vec![rewind(80, 3, Some(2))]],
            &[0, 1, 2],
            Some(2),
            0,
        ),
        case(
            "everything is taken back",
            &[chain(0..3), vec![rewind(80, 0, None)]],
            &[],
            None,
            0,
        ),
        case(
            "the conversation goes on",
            &[chain(0..3), vec![rewind(80, 1, Some(0)), after(10, 0), after(11, 10)]],
            &[0, 10, 11],
            Some(11),
            0,
        ),
        case(
            "what hangs beside the chain stays",
            &[
                chain(0..2),
                vec![
                    beside(70, Some(1)),
                    event(2),
                    beside(71, Some(2)),
                    rewind(80, 1, Some(0)),
                    beside(72, Some(0)),
                ],
            ],
            &[0, 70, 71, 72],
            Some(0),
            0,
        ),
        case(
            "twice, further back",
            &[
                chain(0..4),
                vec![
                    rewind(80, 3, Some(2)),
                    after(10, 2),
                    rewind(81, 1, Some(0)),
                    after(11, 0),
                ],
            ],
            &[0, 11],
            Some(11),
            0,
        ),
        case(
            "put back as it was",
            &[chain(0..4), vec![rewind(80, 2, Some(1))], chain(2..4), chain(4..5)],
            &[0, 1, 2, 3, 4],
            Some(4),
            0,
        ),
        case(
            "put back in place of what came between, and taken back again",
            &[
                chain(0..4),
                vec![rewind(80, 2, Some(1)), after(10, 1), rewind(81, 10, Some(1))],
                chain(2..4),
                vec![rewind(82, 3, Some(2))],
            ],
            &[0, 1, 2],
            Some(2),
            0,
        ),
        case(
            "the event that it went back to is lost",
            &[chain(0..2), chain(3..5), vec![rewind(80, 2, Some(1)), after(10, 1)]],
            &[0, 1, 10],
            Some(10),
            1,
        ),
        case(
            "that and the one before it are lost",
            &[chain(0..1), chain(3..5), vec![rewind(80, 2, Some(1)), after(10, 1)]],
            &[0, 3, 4, 10],
            Some(10),
            2,
        ),
    ]
}

#[test]
fn nobody_is_given_what_a_rewind_hides_before_and_after_it_leaves_the_file() {
    for Case {
        name,
        log,
        counts,
        last,
        gaps,
    } in cases()
    {
        let t = TestHome::new();
        t.plant("s", &text(&log));
        let expected = numbered(counts.iter().copied());
        let backwards: Vec<Uuid> = expected.iter().rev().copied().collect();
        assert_eq!(t.ids("s"), expected, "{name}: read");
        assert_eq!(ids(t.store().read_back("s").unwrap()), backwards, "{name}: read back");
        let folded: Vec<Uuid> = without_rewound(log.clone()).iter().map(Event::id).collect();
        assert_eq!(folded, expected, "{name}: a log of nobody's");
        let opened = t.store().open("s").unwrap();
        let found = opened.repaired.map_or(0, |repair| repair.findings.count(Damage::Gap));
        assert_eq!(found, gaps, "{name}: gaps");
        let log = opened.log;
        assert_eq!(
            (log.last_id(), log.count()),
            (last.map(id), expected.len() as u64),
            "{name}"
        );
        assert_eq!(
            ids(log.read(Position::START, Position::END).unwrap()),
            expected,
            "{name}: opened"
        );
        let raw = std::fs::read_to_string(t.log_path("s")).unwrap();
        assert_eq!(
            raw.lines().count(),
            expected.len(),
            "{name}: the file has what counts and nothing else"
        );
        if gaps == 0 {
            drop(log);
            let again = t.store().check("s").unwrap();
            assert!(again.findings.is_empty(), "{name}: {}", again.findings);
        }
    }
}

#[test]
fn what_hangs_beside_the_chain_has_a_parent_that_is_there() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    log.append_all(&[event(0), event(1), beside(70, Some(1))]).unwrap();
    log.append(&rewind(80, 1, Some(0))).unwrap();
    for done in [None, Some(true), Some(false)] {
        if let Some(done) = done {
            assert_eq!(log.compact().unwrap(), done);
        }
        let last = log.read_back().unwrap().next().unwrap().unwrap().event;
        assert_eq!((last.id(), last.parent_id()), (id(70), Some(id(0))));
    }
}

#[test]
fn an_open_log_reads_the_same_before_and_after_it_is_compacted() {
    for (to, snapshot) in [(0u64, 2000), (1, 10), (700, 1500), (1999, 2000)] {
        let t = TestHome::new();
        let mut log = t.store().create("s").unwrap();
        let mut ends = vec![log.end()];
        for n in 0..2000 {
            log.append(&event_saying(n, &"x".repeat(100))).unwrap();
            ends.push(log.end());
        }
        let at = ends[snapshot];
        log.save_snapshot(Snapshot {
            at,
            bytes: "old".into(),
        });
        let head = to.checked_sub(1);
        log.append(&rewind(5000, to, head)).unwrap();
        let next = event(6000).with_parent(head.map(id));
        log.append(&next).unwrap();
        let expected = numbered((0..to).chain([6000]));
        for compacted in [false, true] {
            if compacted {
                assert!(log.compact().unwrap());
            }
            assert_eq!(ids(log.read(Position::START, Position::END).unwrap()), expected);
            assert_eq!((log.count(), log.last_id()), (to + 1, Some(id(6000))));
            let last = log.seek(to).unwrap();
            assert_eq!(ids(log.read(last, Position::END).unwrap()), numbered([6000]));
            assert_eq!(log.seek(to + 1).unwrap(), log.end());
            if !compacted {
                // Whoever opens it after a crash is given no snapshot of what is hidden.
                let left = std::fs::read(t.log_path("s")).unwrap();
                let other = TestHome::new();
                other.plant("s", &left);
                let side = t.session_dir("s").join("events.idx");
                log.request_sync().wait().unwrap();
                let _ = std::fs::copy(side, other.session_dir("s").join("events.idx"));
                let opened = other.store().open("s").unwrap();
                assert_eq!((opened.snapshot, opened.log.count()), (None, to + 1));
            }
        }
        drop(log);
        let opened = t.store().open("s").unwrap();
        assert_eq!((opened.repaired, opened.log.count()), (None, to + 1), "back to {to}");
    }
}

/// What hangs beside the chain stays, so the same events stand in another order once they are put back.
#[test]
fn a_log_that_was_compacted_and_is_as_long_again_did_not_change_after_writing() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    log.append_all(&[event(0), event(1), beside(70, Some(1)), event(2)])
        .unwrap();
    log.save_snapshot(Snapshot {
        at: log.end(),
        bytes: "state".into(),
    });
    log.append(&rewind(80, 1, Some(0))).unwrap();
    assert!(log.compact().unwrap());
    log.append_all(&[event(1), event(2), event(3)]).unwrap();
    log.request_sync().wait().unwrap();
    let report = t.store().check("s").unwrap();
    assert!(report.findings.is_empty(), "{}", report.findings);
}

#[test]
fn a_rewind_that_cannot_be_is_refused_and_nothing_is_written() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    log.append_all(&[event(0), event(1)]).unwrap();
    let before = log.end();
    for events in [vec![rewind(80, 40, Some(39))], vec![event(2), rewind(80, 1, Some(0))]] {
        assert!(matches!(log.append_all(&events), Err(LogError::Io { .. })));
        assert_eq!(log.end(), before);
    }
    assert!(!log.compact().unwrap());
    assert_eq!(t.ids("s"), numbered([0, 1]));
}

/// The process ends after any call to the disk, and the next one finds the log as the calls left it.
#[test]
fn a_process_that_dies_at_any_point_of_a_rewind_leaves_all_of_it_or_nothing() {
    let (before, after) = (numbered([0, 1, 70, 2]), numbered([0, 70]));
    let mut seen = [0, 0];
    for fault in [Fault::Broken, Fault::HalfThenFull] {
        for at in 0.. {
            let disk = TestDisk::default();
            let t = TestHome::with(HomeOptions {
                disk: Arc::new(disk.clone()),
                ..HomeOptions::default()
            });
            let mut log = t.store().create("s").unwrap();
            log.append_all(&[event(0), event(1), beside(70, Some(1)), event(2)])
                .unwrap();
            disk.plan(fault, at, true);
            let done = log.append(&rewind(80, 1, Some(0))).and_then(|_| log.compact());
            disk.heal();
            let left = std::fs::read(t.log_path("s")).unwrap();
            let next = TestHome::new();
            next.plant("s", &left);
            let found = next.ids("s");
            assert!(found == before || found == after, "{fault:?} at call {at}: {found:?}");
            assert!(done.is_err() || found == after);
            seen[usize::from(found == after)] += 1;
            drop(next.store().open("s").unwrap());
            assert_eq!(next.ids("s"), found, "{fault:?} at call {at}: once it was opened");
            let raw = std::fs::read_to_string(next.log_path("s")).unwrap();
            assert_eq!(raw.contains("message 2"), found == before, "{fault:?} at call {at}");
            // And the one that goes on can do it again.
            if t.ids("s") == before {
                log.append(&rewind(81, 1, Some(0))).unwrap();
            }
            log.compact().unwrap();
            assert_eq!(t.ids("s"), after);
            if !disk.was_hit() {
                break;
            }
        }
    }
    assert!(seen.iter().all(|times| *times > 1), "both are found: {seen:?}");
}

#[test]
fn the_catalogue_knows_of_a_rewind_that_another_process_made_and_died() {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    log.append_all(&[
        event_saying(0, "first words"),
        event_saying(1, "a secret"),
        event_saying(2, "more"),
    ])
    .unwrap();
    drop(log);
    assert_eq!(t.home.catalogue().search("secret", 10).unwrap().len(), 1);
    let TestHome { dir, home } = t;
    let path = home.path().to_owned();
    drop(home);
    let file = path.join("session-state/s/events.jsonl");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend(text(&[rewind(80, 1, Some(0))]));
    std::fs::write(&file, bytes).unwrap();
    let home = Home::open(&path, HomeOptions::default()).unwrap();
    let listed = home.catalogue().list(&ListFilter::default()).unwrap().sessions;
    assert_eq!((listed[0].event_count, listed[0].message_count), (1, 1));
    assert!(home.catalogue().search("secret", 10).unwrap().is_empty());
    assert_eq!(home.catalogue().search("words", 10).unwrap().len(), 1);
    drop((home, dir));
}

#[test]
fn another_process_sees_that_the_log_was_taken_back_and_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let shared = || {
        let options = HomeOptions {
            exclusive: false,
            ..HomeOptions::default()
        };
        Home::open(dir.path(), options).unwrap()
    };
    let (one, two) = (shared(), shared());
    let mut mine = one.sessions().create("s").unwrap();
    mine.append_all(&[event(0), event(1)]).unwrap();
    let mut theirs = two.sessions().open("s").unwrap().log;
    mine.append(&rewind(80, 1, Some(0))).unwrap();
    for _ in 0..2 {
        assert!(matches!(theirs.append(&event(2)), Err(LogError::Moved { .. })));
        mine.compact().unwrap();
    }
    let mut theirs = two.sessions().open("s").unwrap().log;
    theirs.append(&event(1)).unwrap();
    assert!(matches!(mine.append(&event(1)), Err(LogError::Moved { .. })));
    assert_eq!(ids(two.sessions().read_back("s").unwrap()), numbered([1, 0]));
}

#[test]
fn words_that_only_look_like_a_rewind_hide_nothing() {
    let t = TestHome::new();
    let quoted = event_saying(1, rewind(80, 0, None).as_str());
    let broken = r#"{"type":"lodge.rewound","data":{"upToEventId":7},"id":"00000000-0000-4000-8000-00000000abcd","timestamp":"2026-11-15T06:23:33.176Z","parentId":null}"#;
    t.plant(
        "s",
        &[
            lines([0]),
            text(&[quoted]),
            format!("{broken}\n").into_bytes(),
            lines([2]),
        ]
        .concat(),
    );
    let all = [
        id(0),
        id(1),
        "00000000-0000-4000-8000-00000000abcd".parse().unwrap(),
        id(2),
    ];
    assert_eq!(t.ids("s"), all);
    let opened = t.store().open("s").unwrap();
    assert_eq!((opened.repaired, opened.log.last_id()), (None, Some(id(2))));
}
