//! Prompts that sessions schedule for themselves. The clock is turned by hand: nothing waits for a minute.

use std::{path::Path, time::Duration};

use lodge_events::{Payload, SessionScheduleCreated, Timestamp, UserMessage};
use lodge_host::{Clock, Host, NewSession, Session};

use crate::kit::host_after;

const MINUTE: i64 = 60;

async fn start(home: &Path, clock: &Clock) -> Host {
    let host = host_after(home, clock).await;
    host.keep_schedules();
    host
}

async fn session(host: &Host, dir: &Path) -> Session {
    let new = NewSession {
        cwd: Some(dir.to_owned()),
        ..NewSession::default()
    };
    host.create(new).await.unwrap()
}

fn every(seconds: u64, prompt: &str) -> SessionScheduleCreated {
    SessionScheduleCreated {
        interval_ms: Some(seconds * 1000),
        recurring: Some(true),
        prompt: prompt.to_owned(),
        ..SessionScheduleCreated::default()
    }
}

fn messages(host: &Host, id: &str) -> Vec<UserMessage> {
    let events = host.read(id).unwrap().events();
    events
        .filter_map(|event| match event.unwrap().payload() {
            Payload::UserMessage(message) => Some((**message).clone()),
            _ => None,
        })
        .collect()
}

/// Waits until so many messages are in the log of a session that is at rest.
async fn settled(host: &Host, id: &str, number: usize) -> Vec<UserMessage> {
    loop {
        let found = messages(host, id);
        assert!(found.len() <= number, "{found:#?}");
        if found.len() == number && host.live(id).is_none_or(|session| !session.is_busy()) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A moment after now, in seconds: schedules begin when they are made, by the time of their event.
fn after(seconds: i64) -> Timestamp {
    Timestamp::now() + Duration::from_secs(seconds.cast_unsigned())
}

#[tokio::test]
async fn what_a_session_scheduled_is_sent_by_the_next_host_without_anybody_asking() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let clock = Clock::by_hand(Timestamp::now());
    let host = start(&home, &clock).await;
    let session = session(&host, dir.path()).await;
    let id = session.id().to_owned();
    let made = session.schedule(every(10 * 60, "say tick")).await.unwrap();
    assert_eq!(made.created.id, 1);
    let once = SessionScheduleCreated {
        at: Some(after(15 * MINUTE).as_millisecond().cast_unsigned()),
        prompt: "say once".into(),
        recurring: Some(false),
        ..SessionScheduleCreated::default()
    };
    assert_eq!(session.schedule(once).await.unwrap().created.id, 2);
    clock.set(after(11 * MINUTE));
    let sent = settled(&host, &id, 1).await;
    assert_eq!(
        (sent[0].content.as_str(), sent[0].source.as_deref()),
        ("say tick", Some("schedule-1"))
    );
    drop(session);
    host.shutdown().await;
    drop(host);
    // The host is away for many of the one and for the other: both are caught up once.
    clock.set(after(65 * MINUTE));
    let host = start(&home, &clock).await;
    let mut texts: Vec<String> = settled(&host, &id, 3)
        .await
        .into_iter()
        .map(|message| message.content)
        .collect();
    texts.sort();
    assert_eq!(texts, ["say once", "say tick", "say tick"]);
    let open = |host: &Host| {
        let session = host.live(&id).unwrap();
        let all = session.scheduled().unwrap();
        all.into_iter().map(|one| one.created.id).collect::<Vec<_>>()
    };
    while open(&host) != [1] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Nothing is sent a second time by one that comes after a crash, nor once it is cancelled.
    let crashed = tempfile::tempdir().unwrap();
    copy(&home, &crashed.path().join("home"));
    host.shutdown().await;
    let host = start(&crashed.path().join("home"), &clock).await;
    let session = host.open_session(&id).await.unwrap();
    assert!(session.unschedule(1).await.unwrap().is_some());
    assert!(session.unschedule(1).await.unwrap().is_none());
    assert_eq!(session.schedule(every(60, "say again")).await.unwrap().created.id, 3);
    clock.set(after(130 * MINUTE));
    let sent = settled(&host, &id, 4).await;
    assert_eq!(sent[3].content, "say again");
}

#[tokio::test]
async fn a_copy_of_a_session_sends_nothing_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::by_hand(Timestamp::now());
    let host = start(&dir.path().join("home"), &clock).await;
    let session = session(&host, dir.path()).await;
    session.schedule(every(60, "say tick")).await.unwrap();
    let fork = host.fork(session.id(), None, None).await.unwrap();
    assert_eq!(fork.scheduled().unwrap(), []);
    assert_eq!(session.scheduled().unwrap().len(), 1);
    clock.set(after(2 * MINUTE));
    settled(&host, session.id(), 1).await;
    assert_eq!(messages(&host, fork.id()), []);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
