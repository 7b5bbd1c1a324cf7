//! The side file.

use std::fs;

use lodge_log::{Damage, Position, Snapshot, Store};

use crate::support::{TestHome, event_saying, id, ids, line, numbered};

/// A log of some hundred kilobytes with a side file and a snapshot.
fn indexed() -> TestHome {
    let t = TestHome::new();
    let mut log = t.store().create("s").unwrap();
    for n in 0..1000 {
        log.append(&event_saying(n, &"x".repeat(500))).unwrap();
    }
    log.save_snapshot(Snapshot {
        at: log.end(),
        bytes: "state".into(),
    });
    drop(log);
    drop(t.store().open("s").unwrap());
    assert!(t.session_dir("s").join("events.idx").exists());
    t
}

#[test]
fn a_snapshot_comes_back_until_the_log_is_another() {
    let t = indexed();
    let mut opened = t.store().open("s").unwrap();
    assert_eq!(
        opened.snapshot,
        Some(Snapshot {
            at: opened.log.end(),
            bytes: "state".into()
        })
    );
    let at = opened.snapshot.unwrap().at;
    // It stays while the log grows, also when the side file is renewed for other reasons.
    for n in 1000..2000 {
        opened.log.append(&event_saying(n, &"y".repeat(500))).unwrap();
        opened.log.request_sync().wait().unwrap();
    }
    drop(opened.log);
    let opened = t.store().open("s").unwrap();
    assert_eq!(
        opened.snapshot,
        Some(Snapshot {
            at,
            bytes: "state".into()
        })
    );
    assert_eq!(opened.log.count(), 2000);
    drop(opened);
    // A newer one takes its place.
    let mut opened = t.store().open("s").unwrap();
    opened.log.save_snapshot(Snapshot {
        at: Position(7),
        bytes: "newer".into(),
    });
    drop(opened);
    assert_eq!(t.store().open("s").unwrap().snapshot.unwrap().bytes, "newer");
    // A log that was changed has none.
    let mut bytes = fs::read(t.log_path("s")).unwrap();
    let last = bytes.len() - 200;
    bytes[last] = b'z';
    fs::write(t.log_path("s"), bytes).unwrap();
    assert_eq!(t.store().open("s").unwrap().snapshot, None);
}

#[test]
fn a_log_that_was_repaired_and_is_as_long_again_did_not_change_after_writing() {
    let t = indexed();
    let mut bytes = fs::read(t.log_path("s")).unwrap();
    bytes[..100].fill(b'#');
    fs::write(t.log_path("s"), bytes).unwrap();
    let mut opened = t.store().fix("s").unwrap();
    for n in 1000..1010 {
        opened.log.append(&event_saying(n, &"x".repeat(500))).unwrap();
    }
    let report = t.store().check("s").unwrap();
    assert_eq!(report.findings.count(Damage::Changed), 0, "{}", report.findings);
}

#[test]
fn a_log_opens_the_same_with_any_side_file() {
    let good = fs::read(indexed().session_dir("s").join("events.idx")).unwrap();
    let mut flipped = good.clone();
    flipped[20] ^= 1;
    let cases: Vec<(&str, Option<Vec<u8>>)> = vec![
        ("good", Some(good.clone())),
        ("none", None),
        ("empty", Some(vec![])),
        ("cut", Some(good[..good.len() / 2].to_vec())),
        ("flipped", Some(flipped)),
        ("garbage", Some(vec![b'x'; 5000])),
    ];
    for (name, idx) in cases {
        let t = indexed();
        let path = t.session_dir("s").join("events.idx");
        fs::remove_file(&path).unwrap();
        idx.into_iter().for_each(|bytes| fs::write(&path, bytes).unwrap());
        let opened = t.store().open("s").unwrap();
        assert_eq!(opened.repaired, None, "{name}");
        assert_eq!(
            (opened.log.count(), opened.log.last_id()),
            (1000, Some(id(999))),
            "{name}"
        );
        assert_eq!(opened.snapshot.is_some(), name == "good", "{name}");
        assert_eq!(
            ids(opened.log.read(opened.log.seek(990).unwrap(), Position::END).unwrap()),
            numbered(990..1000)
        );
    }
}

#[test]
fn the_side_file_is_compared_with_the_log() {
    let t = indexed();
    let log = fs::read(t.log_path("s")).unwrap();
    let middle = log.len() / 2;
    // (what happened to the log, how many events there are then)
    let torn = [&log[..], b"{\"type"].concat();
    let longer = [&log[..], &line(1000)].concat();
    let shorter = log[..log.len() - line(999).len() - 400].to_vec();
    let mut hole = log.clone();
    let start = middle + hole[middle..].iter().position(|b| *b == b'\n').unwrap();
    hole[start + 1..start + 10].fill(b'!');
    let cases = [
        ("torn", torn, 1000),
        ("longer", longer, 1001),
        ("shorter", shorter, 999),
        ("hole", hole, 999),
    ];
    for (name, bytes, count) in cases {
        let t = indexed();
        fs::write(t.log_path("s"), &bytes).unwrap();
        assert_eq!(t.store().open("s").unwrap().log.count(), count, "{name}");
    }
}

#[test]
fn a_check_sees_bytes_that_changed_into_another_event() {
    let t = indexed();
    assert!(t.store().check("s").unwrap().findings.is_empty());
    let text = fs::read_to_string(t.log_path("s")).unwrap();
    fs::write(t.log_path("s"), text.replacen("xxxxx", "lie!!", 1)).unwrap();
    let report = t.store().check("s").unwrap();
    assert_eq!(report.findings.count(Damage::Changed), 1, "{}", report.findings);
    drop(t.store().fix("s").unwrap());
    drop(t.store().open("s").unwrap());
    assert!(
        t.store().check("s").unwrap().findings.is_empty(),
        "the events as they are now are the log"
    );
}
