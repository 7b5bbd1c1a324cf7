//! Sessions of the Copilot CLI are brought in as they are.

use lodge_host::import::{Outcome, find, import};
use serde_json::json;

use crate::kit::{house, log_of};

fn line(number: u8, kind: &str, data: serde_json::Value) -> String {
    let id = |number: u8| format!("00000000-0000-4000-8000-0000000000{number:02}");
    let parent = number.checked_sub(1).map(id);
    let event = json!({
        "id": id(number), "parentId": parent, "timestamp": "2026-01-02T03:04:05.678Z", "type": kind, "data": data,
    });
    format!("{event}\n")
}

fn session(id: &str) -> String {
    let start = json!({
        "sessionId": id, "version": 1, "producer": "copilot-agent", "copilotVersion": "1.0.0",
        "startTime": "2026-01-02T03:04:05.678Z", "context": {"cwd": "/somewhere"},
    });
    let said = json!({"content": "say hello", "transformedContent": "say hello", "attachments": []});
    [
        line(0, "session.start", start),
        line(1, "user.message", said),
        line(2, "session.from_the_future", json!({"what": 1.50})),
        line(3, "assistant.message", json!({"messageId": "m", "content": "hello"})),
    ]
    .concat()
}

#[tokio::test]
async fn both_forms_are_found_and_brought_in_once() {
    let house = house();
    let from = house.dir.path().join("copilot");
    let new = from.join("session-state/aaaa");
    std::fs::create_dir_all(new.join("files")).unwrap();
    std::fs::write(new.join("events.jsonl"), format!("{}not an event\n", session("aaaa"))).unwrap();
    std::fs::write(new.join("plan.md"), "# Plan").unwrap();
    std::fs::write(new.join("files/a.txt"), "a").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", new.join("files/link")).unwrap();
    std::fs::write(from.join("session-state/bbbb.jsonl"), session("bbbb")).unwrap();
    std::fs::write(from.join("session-state/other.jsonl"), "{}\n").unwrap();
    let logs = find(&from);
    assert_eq!(logs.len(), 3);
    let home = house.host.home();
    let all = || {
        logs.iter()
            .filter_map(|log| import(home, log).unwrap())
            .collect::<Vec<_>>()
    };
    let outcomes = |all: &[lodge_host::import::Imported]| all.iter().map(|one| one.outcome.clone()).collect::<Vec<_>>();
    let first = all();
    assert_eq!(outcomes(&first), [Outcome::New(4), Outcome::New(4)]);
    assert_eq!(first[0].unreadable, 1);
    assert_eq!(outcomes(&all()), [Outcome::Same, Outcome::Same]);

    let opened = house.host.open_session("aaaa").await.unwrap();
    let lines: String = log_of(&opened)
        .iter()
        .map(|event| format!("{}\n", std::str::from_utf8(event.json()).unwrap()))
        .collect();
    assert_eq!(lines, session("aaaa"), "byte for byte");
    assert_eq!(std::fs::read_to_string(opened.plan_path()).unwrap(), "# Plan");
    assert!(opened.dir().join("files/a.txt").exists());
    assert!(!opened.dir().join("files/link").exists());

    let more = line(4, "user.message", json!({"content": "more", "attachments": []}));
    std::fs::write(from.join("session-state/bbbb.jsonl"), session("bbbb") + &more).unwrap();
    assert_eq!(outcomes(&all()), [Outcome::Same, Outcome::Grown(1)]);
    let mut probe = crate::kit::Probe::on(opened);
    assert_eq!(probe.turn("say on").await, "on");
    std::fs::write(new.join("events.jsonl"), session("aaaa") + &more).unwrap();
    assert_eq!(outcomes(&all()), [Outcome::Differs, Outcome::Same]);
    house.host.catalogue().flush();
    let listed = house.host.catalogue().list(&lodge_host::ListFilter::default()).unwrap();
    assert_eq!(listed.sessions.len(), 2);
}
