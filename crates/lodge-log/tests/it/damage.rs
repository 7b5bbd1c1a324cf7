//! The table of damages: what is in the file, what is recovered, and what is said about it.

use std::sync::Arc;

use lodge_log::{Damage, HomeOptions, Position, Store, SyncPolicy};

use crate::support::{TestHome, beside, beside_line, event, event_saying, id, ids, line, lines, numbered};
use crate::test_disk::TestDisk;

/// One row: the log as found, the events that must be recovered, and the findings.
struct Case {
    name: &'static str,
    log: Vec<u8>,
    events: Vec<u64>,
    findings: &'static [(Damage, u64)],
    /// What the file with the damaged bytes must hold, if there must be one.
    aside: Option<Vec<u8>>,
}

fn case(
    name: &'static str,
    log: Vec<u8>,
    events: impl IntoIterator<Item = u64>,
    findings: &'static [(Damage, u64)],
    aside: Option<&[u8]>,
) -> Case {
    Case {
        name,
        log,
        events: events.into_iter().collect(),
        findings,
        aside: aside.map(<[u8]>::to_vec),
    }
}

fn cut(bytes: &[u8], drop: usize) -> Vec<u8> {
    bytes[..bytes.len() - drop].to_vec()
}

/// An event beside the chain, of a type that nobody here knows, at the event number 0.
fn of_a_newer_build(n: u64) -> Vec<u8> {
    let event = format!(
        r#"{{"type":"lodge.telepathy","data":{{"x":1.0}},"id":"{}","timestamp":"2026-11-15T06:23:33.176Z","parentId":"{}"}}"#,
        id(n),
        id(0),
    );
    format!("{event}\n").into_bytes()
}

/// The last event of the chain among these.
fn last_on_chain(events: &[u64]) -> Option<u64> {
    events.iter().copied().rfind(|n| !(70..80).contains(n))
}

fn cases() -> Vec<Case> {
    let torn = cut(&line(2), 30);
    let torn_tail = [torn.as_slice(), b"\n"].concat();
    let crlf = lines(0..3)
        .split_inclusive(|b| *b == b'\n')
        .flat_map(|l| [&l[..l.len() - 1], b"\r\n"].concat())
        .collect();
    let unknown = br#"{"type":"some.future_type","data":{"x":1.0},"id":"00000000-0000-4000-8000-000000000001","timestamp":"2026-11-15T06:23:33.176Z","parentId":null,"more":[]}"#;
    let unknown_then = [&unknown[..], b"\n"].concat();
    let mut invalid = event_saying(1, "gr@@e").json().to_vec();
    invalid.iter_mut().filter(|b| **b == b'@').for_each(|b| *b = 0xff);
    let huge = vec![b'z'; 300_000];
    let nested = format!(r#"{{"type":"x","data":{{"copy":{}}},"id":"#, event(7).as_str());
    use Damage::{Duplicate, Gap, Garbage, NoNewline, NotUtf8, TooLong, TornEnd, Zeros};
    vec![
        case("an empty file", vec![], [], &[], None),
        case("a whole log", lines(0..3), 0..3, &[], None),
        case(
            "no final line feed",
            cut(&lines(0..3), 1),
            0..3,
            &[(NoNewline, 1)],
            None,
        ),
        case(
            "a torn last line",
            [lines(0..2), torn.clone()].concat(),
            0..2,
            &[(TornEnd, 1)],
            Some(&torn),
        ),
        case(
            "a torn first line, alone",
            cut(&line(0), 9),
            [],
            &[(TornEnd, 1)],
            Some(&cut(&line(0), 9)),
        ),
        case(
            "a torn first line",
            [&line(0)[20..], &lines(1..3)].concat(),
            1..3,
            &[(Garbage, 1), (Gap, 1)],
            Some(&line(0)[20..]),
        ),
        case(
            "trailing zero bytes",
            [lines(0..3), vec![0; 5000]].concat(),
            0..3,
            &[(Zeros, 1)],
            None,
        ),
        case("only zero bytes", vec![0; 200_000], [], &[(Zeros, 1)], None),
        case(
            "zero bytes instead of the line feed",
            [cut(&lines(0..3), 1), vec![0; 100]].concat(),
            0..3,
            &[(Zeros, 1)],
            None,
        ),
        case(
            "zero bytes in the middle",
            [lines(0..2), torn.clone(), vec![0; 9000], lines(3..5)].concat(),
            [0, 1, 3, 4],
            &[(Garbage, 1), (Zeros, 1), (Gap, 1)],
            Some(&torn_tail),
        ),
        case(
            "zero bytes between whole events",
            [lines(0..2), vec![0; 9000], lines(2..5)].concat(),
            0..5,
            &[(Zeros, 1)],
            None,
        ),
        case(
            "garbage in the middle",
            [lines(0..2), b"%PDF-1.4 {]}\n\x01\x02{\"type\":\n".to_vec(), lines(2..4)].concat(),
            0..4,
            &[(Garbage, 2)],
            Some(b"%PDF-1.4 {]}\n\x01\x02{\"type\":\n"),
        ),
        case(
            "a torn line joined to a whole event",
            [lines(0..2), torn.clone(), lines(3..5)].concat(),
            [0, 1, 3, 4],
            &[(Garbage, 1), (Gap, 1)],
            Some(&torn_tail),
        ),
        case(
            "a torn line joined to a whole event at the end",
            [lines(0..2), torn.clone(), cut(&line(3), 1)].concat(),
            [0, 1, 3],
            &[(TornEnd, 1), (Gap, 1)],
            Some(&torn_tail),
        ),
        case(
            "two whole events on one line",
            [cut(&line(0), 1), line(1), line(2)].concat(),
            0..3,
            &[],
            None,
        ),
        case(
            "a whole event, then garbage on its line",
            [lines(0..2), cut(&line(2), 1), b"garbage\n".to_vec(), line(3)].concat(),
            0..4,
            &[(Garbage, 1)],
            Some(b"garbage\n"),
        ),
        case(
            "a whole event, then garbage on the last line",
            [lines(0..2), cut(&line(2), 1), b"{\"type\":".to_vec()].concat(),
            0..3,
            &[(TornEnd, 1)],
            Some(b"{\"type\":"),
        ),
        case(
            "an object like an event inside a torn line is not an event",
            [lines(0..2), nested.clone().into_bytes(), b"\n".to_vec(), lines(2..3)].concat(),
            0..3,
            &[(Garbage, 1)],
            Some(format!("{nested}\n").as_bytes()),
        ),
        case(
            "a line written twice",
            [lines(0..3), line(2), line(3)].concat(),
            0..4,
            &[(Duplicate, 1)],
            Some(&line(2)),
        ),
        case(
            "the last line written twice",
            [lines(0..3), line(2)].concat(),
            0..3,
            &[(Duplicate, 1)],
            Some(&line(2)),
        ),
        case(
            "the whole log written twice",
            lines((0..3).chain(0..3)),
            0..3,
            &[(Duplicate, 3)],
            Some(&lines(0..3)),
        ),
        case("a missing line", lines([0, 1, 3, 4]), [0, 1, 3, 4], &[(Gap, 1)], None),
        case("a missing first line", lines([1, 2]), [1, 2], &[(Gap, 1)], None),
        case(
            "events beside the chain",
            [
                lines(0..2),
                beside_line(70, 1),
                beside_line(71, 1),
                line(2),
                beside_line(72, 2),
            ]
            .concat(),
            [0, 1, 70, 71, 2, 72],
            &[],
            None,
        ),
        case(
            "an event beside the chain before all others",
            [beside(70, None).json(), &b"\n"[..], &lines(0..2)].concat(),
            [70, 0, 1],
            &[],
            None,
        ),
        case(
            "an event beside the chain of a newer build",
            [lines(0..1), of_a_newer_build(71), lines(1..2)].concat(),
            [0, 71, 1],
            &[],
            None,
        ),
        case(
            "an event beside the chain whose parent is not the last",
            [lines(0..3), beside_line(70, 1), line(3)].concat(),
            [0, 1, 2, 70, 3],
            &[],
            None,
        ),
        case(
            "an event beside the chain written twice",
            [lines(0..1), beside_line(70, 0), beside_line(70, 0), line(1)].concat(),
            [0, 70, 1],
            &[(Duplicate, 1)],
            Some(&beside_line(70, 0)),
        ),
        case(
            "an event beside the chain written again later",
            [lines(0..1), beside_line(70, 0), line(1), beside_line(70, 0), line(2)].concat(),
            [0, 70, 1, 2],
            &[(Duplicate, 1)],
            Some(&beside_line(70, 0)),
        ),
        case(
            "a missing line before events beside the chain",
            [lines(0..2), beside_line(70, 2), beside_line(71, 2), lines(3..5)].concat(),
            [0, 1, 70, 71, 3, 4],
            &[(Gap, 1)],
            None,
        ),
        case(
            "a missing last line before an event beside the chain",
            [lines(0..2), beside_line(70, 2)].concat(),
            [0, 1, 70],
            &[(Gap, 1)],
            None,
        ),
        case(
            "a missing line after an event beside the chain",
            [lines(0..2), beside_line(70, 1), lines(3..5)].concat(),
            [0, 1, 70, 3, 4],
            &[(Gap, 1)],
            None,
        ),
        case(
            "a torn event beside the chain joined to a whole one",
            [lines(0..2), cut(&beside_line(70, 1), 30), lines(2..4)].concat(),
            0..4,
            &[(Garbage, 1)],
            Some(&[&cut(&beside_line(70, 1), 30)[..], b"\n"].concat()),
        ),
        case(
            "a torn last event beside the chain",
            [lines(0..2), cut(&beside_line(70, 1), 30)].concat(),
            0..2,
            &[(TornEnd, 1)],
            Some(&cut(&beside_line(70, 1), 30)),
        ),
        case("windows line ends", crlf, 0..3, &[], None),
        case(
            "a byte order mark",
            [b"\xef\xbb\xbf".to_vec(), lines(0..3)].concat(),
            0..3,
            &[],
            None,
        ),
        case(
            "empty lines",
            [b"\n\n".to_vec(), line(0), b" \r\n".to_vec(), line(1)].concat(),
            0..2,
            &[],
            None,
        ),
        case(
            "a raw U+2028",
            [event_saying(0, "a\u{2028}b\u{85}c").json(), &b"\n"[..]].concat(),
            [0],
            &[],
            None,
        ),
        case("an unknown type", unknown_then, [], &[], None),
        case(
            "bytes that are no UTF-8",
            [line(0), invalid.clone(), b"\n".to_vec(), line(2)].concat(),
            0..3,
            &[(NotUtf8, 1)],
            Some(&[&invalid[..], b"\n"].concat()),
        ),
        case(
            "a line that is too long",
            [line(0), huge.clone(), b"\n".to_vec(), line(1)].concat(),
            0..2,
            &[(TooLong, 1)],
            None,
        ),
        case(
            "a last line that is too long",
            [line(0), huge].concat(),
            0..1,
            &[(TooLong, 1)],
            None,
        ),
        case(
            "a long event",
            [
                line(0),
                event_saying(1, &"y".repeat(190_000)).json().to_vec(),
                b"\n".to_vec(),
                line(2),
            ]
            .concat(),
            0..3,
            &[],
            None,
        ),
    ]
}

fn small_lines() -> TestHome {
    TestHome::with(HomeOptions {
        sync: SyncPolicy::Never,
        max_event: 100_000,
        disk: Arc::new(TestDisk::default()),
        ..HomeOptions::default()
    })
}

#[test]
fn every_damaged_log_opens_with_every_whole_event() {
    let t = small_lines();
    for (
        n,
        Case {
            name,
            log,
            events,
            findings,
            aside,
        },
    ) in cases().into_iter().enumerate()
    {
        let session = format!("case-{n}");
        let mut last = last_on_chain(&events).map(id);
        let expected = match name {
            "an unknown type" => vec!["00000000-0000-4000-8000-000000000001".parse().unwrap()],
            _ => numbered(events),
        };
        if name == "an unknown type" {
            last = expected.last().copied();
        }
        t.plant(&session, &log);

        // Reading and checking change nothing.
        assert_eq!(
            t.store().check(&session).unwrap().events,
            expected.len() as u64,
            "{name}: check"
        );
        assert_eq!(std::fs::read(t.log_path(&session)).unwrap(), log, "{name}: check wrote");
        assert_eq!(t.files(&session), ["events.jsonl"], "{name}: check wrote");

        // Opening recovers everything and says what was wrong.
        let report = t.store().check(&session).unwrap();
        for (damage, count) in findings {
            assert_eq!(
                report.findings.count(*damage),
                *count,
                "{name}: {damage:?} in {}",
                report.findings
            );
        }
        let kinds = report
            .findings
            .places()
            .iter()
            .filter(|place| !findings.iter().any(|f| f.0 == place.damage));
        assert_eq!(kinds.count(), 0, "{name}: {}", report.findings);
        let opened = t.store().open(&session).unwrap();
        assert_eq!(opened.repaired.is_some(), report.findings.is_loss(), "{name}");
        if let Some(repair) = &opened.repaired {
            assert_eq!(repair.findings, report.findings, "{name}");
            assert_eq!(repair.kept, expected.len() as u64, "{name}");
            assert_eq!(
                repair.set_aside.is_some(),
                t.files(&session).contains(&"events.damaged-1".to_owned()),
                "{name}"
            );
        }
        let mut log = opened.log;
        assert_eq!(
            ids(log.read(Position::START, Position::END).unwrap()),
            expected,
            "{name}"
        );
        let mut back = ids(log.read_back().unwrap());
        back.reverse();
        assert_eq!(back, expected, "{name}: backwards");
        assert_eq!((log.count(), log.last_id()), (expected.len() as u64, last), "{name}");
        if let Some(aside) = aside {
            let kept = std::fs::read(t.session_dir(&session).join("events.damaged-1")).unwrap();
            assert_eq!(
                String::from_utf8_lossy(&kept),
                String::from_utf8_lossy(&aside),
                "{name}"
            );
        }

        // It goes on working, and is found whole from then on, with and without its side file.
        let next = lodge_events::Event::with(
            id(99),
            jiff::Timestamp::UNIX_EPOCH,
            log.last_id(),
            None,
            lodge_events::UserMessage::default(),
        );
        log.append(&next).unwrap();
        drop(log);
        let again = t.store().open(&session).unwrap();
        assert_eq!(again.repaired, None, "{name}: repaired twice");
        assert_eq!(
            (again.log.count(), again.log.last_id()),
            (expected.len() as u64 + 1, Some(id(99))),
            "{name}"
        );
        drop(again);
        let after = t.store().fix(&session).unwrap();
        let gaps_only = after
            .repaired
            .iter()
            .all(|r| r.findings.places().iter().all(|p| p.damage == Damage::Gap));
        assert!(gaps_only, "{name}: {:?}", after.repaired);
    }
}

#[test]
fn a_log_cut_at_any_byte_keeps_every_whole_event() {
    let t = small_lines();
    let argument = event_saying(40, "nested");
    let nested = format!(
        r#"{{"type":"tool.execution_start","data":{{"arguments":{{"event":{},"list":[{}]}}}},"id":"{}","timestamp":"2026-11-15T06:23:33.176Z","parentId":"{}"}}"#,
        argument.as_str(),
        argument.as_str(),
        id(2),
        id(1),
    );
    let whole = [lines(0..2), nested.into_bytes(), b"\n".to_vec(), lines(3..4)].concat();
    let ends: Vec<usize> = (0..whole.len()).filter(|n| whole[*n] == b'\n').collect();
    for cut in 0..=whole.len() {
        let log = &whole[..cut];
        let _ = t.store().delete("cut");
        t.plant("cut", log);
        // An event is whole with or without its line feed.
        let expected = numbered(0..ends.iter().filter(|end| cut >= **end).count() as u64);
        assert_eq!(t.ids("cut"), expected, "reading, cut at {cut}");
        let opened = t.store().open("cut").unwrap();
        assert_eq!(
            ids(opened.log.read(Position::START, Position::END).unwrap()),
            expected,
            "cut at {cut}"
        );
        drop(opened);

        // The same, with a whole event written right behind the cut by a program that did not look.
        let joined = [log, &line(9)].concat();
        let _ = t.store().delete("joined");
        t.plant("joined", &joined);
        let expected = [expected, numbered([9])].concat();
        assert_eq!(t.ids("joined"), expected, "reading, joined at {cut}");
        let opened = t.store().open("joined").unwrap();
        assert_eq!(
            ids(opened.log.read(Position::START, Position::END).unwrap()),
            expected,
            "joined at {cut}"
        );
    }
}

#[test]
fn a_repair_says_in_words_what_was_lost() {
    let t = small_lines();
    let log = [
        lines(0..2),
        b"x\n".to_vec(),
        lines([2, 2, 4]),
        vec![0; 10],
        b"{\"ty".to_vec(),
    ]
    .concat();
    t.plant("s", &log);
    let repair = t.store().open("s").unwrap().repaired.unwrap();
    assert_eq!(
        repair.to_string(),
        "The log of this session was damaged: 1 unreadable place (1 byte); 1 event written twice; events missing \
         in 1 place; zeros where events should be (10 bytes); the last line is incomplete (4 bytes). 4 whole events kept; \
         the damaged bytes are in events.damaged-1."
    );
    t.plant("s", &[lines(0..2), b"y".to_vec()].concat());
    let repair = t.store().open("s").unwrap().repaired.unwrap();
    assert!(
        repair.set_aside.unwrap().ends_with("events.damaged-2"),
        "earlier damage is never written over"
    );
}

#[test]
fn a_damaged_line_made_to_cost_time_does_not() {
    let t = TestHome::new();
    // Each brace begins what could be an event, and each attempt would read to the end.
    let bomb = r#"{"type":["#.repeat(5_000);
    t.plant(
        "s",
        &[lines(0..1), bomb.into_bytes(), b"\n".to_vec(), lines(1..2)].concat(),
    );
    assert_eq!(
        ids(t.store().open("s").unwrap().log.read_back().unwrap()),
        numbered([1, 0])
    );
}

#[cfg(unix)]
#[test]
fn a_log_that_is_no_file_is_refused_and_what_it_leads_to_is_left_alone() {
    let t = TestHome::new();
    let elsewhere = t.dir.path().join("elsewhere");
    std::fs::write(&elsewhere, "somebody else's").unwrap();
    let log = t.session_dir("x").join("events.jsonl");
    std::fs::create_dir(t.session_dir("x")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &log).unwrap();
    for _ in ["a link", "a directory"] {
        let error = t.store().open("x").err().unwrap().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        assert!(t.home.sessions().check("x").is_err());
        std::fs::remove_file(&log).ok();
        std::fs::create_dir_all(&log).unwrap();
    }
    assert_eq!(std::fs::read(&elsewhere).unwrap(), b"somebody else's");
}
