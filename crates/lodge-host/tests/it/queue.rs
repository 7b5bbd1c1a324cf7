//! Messages that wait: in the log before their sender hears of them, said once, and nowhere else.

use std::path::Path;

use lodge_events::{Event, Payload, UserMessage};
use lodge_host::{Delivery, Host, Prompt, QueueChange, Session};

use crate::{
    kit::{Probe, house, log_of},
    truth::as_killed,
};

const LONG: &str = "slowly 20 ms, stream 200 chunks";

fn message(id: &str, text: &str) -> Prompt {
    Prompt {
        text: text.into(),
        message_id: Some(id.into()),
        ..Prompt::default()
    }
}

/// The ids of the messages that wait.
fn waiting(session: &Session) -> Vec<String> {
    session
        .queue()
        .0
        .into_iter()
        .filter_map(|prompt| prompt.message_id)
        .collect()
}

fn texts(session: &Session) -> Vec<String> {
    session.queue().0.into_iter().map(|prompt| prompt.text).collect()
}

/// How often messages were said, by their ids.
fn said(log: &[Event], id: &str) -> usize {
    let messages = log.iter().filter_map(Event::get::<UserMessage>);
    messages
        .filter(|message| message.message_id.as_deref() == Some(id))
        .count()
}

async fn killed(home: &Path, to: &Path, id: &str) -> (Host, Session) {
    let host = as_killed(home, to, true);
    let session = host.open_session(id).await.unwrap();
    (host, session)
}

#[tokio::test]
async fn every_change_of_the_queue_is_there_after_a_kill() {
    let house = house();
    let mut probe = house.session().await;
    let (id, home) = (probe.session.id().to_owned(), house.dir.path().join("home"));
    probe.session.send(message("long", LONG)).await.unwrap();
    probe
        .until(|payload| matches!(payload, Payload::AssistantMessageDelta(_)).then_some(()))
        .await;
    for name in ["a", "b", "c"] {
        probe.session.send(message(name, &format!("say {name}"))).await.unwrap();
    }
    let changes: [(&str, QueueChange, &[&str]); 5] = [
        ("moved", QueueChange::Reorder(vec!["c".into()]), &["c", "a", "b"]),
        (
            "inserted",
            QueueChange::Insert(1, Box::new(message("d", "say d"))),
            &["c", "d", "a", "b"],
        ),
        ("removed", QueueChange::Remove("a".into()), &["c", "d", "b"]),
        (
            "reworded",
            QueueChange::Reword("d".into(), "say other".into(), None),
            &["c", "d", "b"],
        ),
        ("last", QueueChange::RemoveLast, &["c", "d"]),
    ];
    for (name, change, expected) in changes {
        probe.session.change_queue(change).await.unwrap();
        assert_eq!(waiting(&probe.session), expected, "{name}");
        let (_host, session) = killed(&home, &house.dir.path().join(name), &id).await;
        assert_eq!(waiting(&session), expected, "{name}");
    }
    let (_host, session) = killed(&home, &house.dir.path().join("texts"), &id).await;
    assert_eq!(texts(&session), ["say c", "say other"]);
    // Taken up, they are said in order, and once.
    let mut again = Probe::on(session);
    assert!(again.session.continue_pending().await.unwrap());
    again.until_idle().await;
    let log = log_of(&again.session);
    for name in ["long", "c", "d"] {
        assert_eq!(said(&log, name), 1, "{name}");
    }
    assert_eq!((said(&log, "a"), said(&log, "b")), (0, 0));
    assert_eq!(again.said(), "other");
}

#[tokio::test]
async fn a_message_is_accepted_when_the_log_has_it_also_while_nothing_runs() {
    let house = house();
    let mut probe = house.session().await;
    let id = probe.session.send(message("m", "say hello")).await.unwrap();
    let log: Vec<Event> = probe.session.history().unwrap().events().map(Result::unwrap).collect();
    let queued = log
        .iter()
        .find_map(Event::get::<lodge_events::LodgeMessageQueued>)
        .unwrap();
    assert_eq!(
        (queued.message_id.clone(), queued.item.text.as_str()),
        (id, "say hello")
    );
    probe.until_idle().await;
    assert!(waiting(&probe.session).is_empty());
    // Sent again by a client that did not hear the answer.
    assert_eq!(probe.session.send(message("m", "say hello")).await.unwrap(), "m");
    assert!(!probe.session.is_busy());
    assert_eq!(said(&log_of(&probe.session), "m"), 1);
}

#[tokio::test]
async fn what_was_rewound_does_not_wait_again_and_can_be_said_again() {
    let house = house();
    let mut probe = house.session().await;
    let id = probe.session.id().to_owned();
    for name in ["one", "two"] {
        probe.session.send(message(name, &format!("say {name}"))).await.unwrap();
        probe.until_idle().await;
    }
    let first = probe.session.rewind_points().await.unwrap()[0].event;
    probe.session.rewind(first, false).await.unwrap();
    assert!(waiting(&probe.session).is_empty());
    let (_host, session) = killed(&house.dir.path().join("home"), &house.dir.path().join("copy"), &id).await;
    assert!(waiting(&session).is_empty());
    let mut again = Probe::on(session);
    again.session.send(message("one", "say again")).await.unwrap();
    again.until_idle().await;
    assert_eq!(again.said(), "again");
}

#[tokio::test]
async fn a_host_that_stops_in_order_keeps_what_waits_and_an_abort_forgets_it() {
    let house = house();
    let mut probe = house.session().await;
    let (id, home) = (probe.session.id().to_owned(), house.dir.path().join("home"));
    probe.session.send(message("long", LONG)).await.unwrap();
    probe
        .until(|payload| matches!(payload, Payload::AssistantMessageDelta(_)).then_some(()))
        .await;
    probe.session.send(message("next", "say next")).await.unwrap();
    let steering = Prompt {
        delivery: Delivery::Immediate,
        ..message("steer", "say steer")
    };
    probe.session.send(steering).await.unwrap();
    house.host.shutdown().await;
    let (_host, session) = killed(&home, &house.dir.path().join("copy"), &id).await;
    assert_eq!(waiting(&session), ["steer", "next"]);
    let mut again = Probe::on(session);
    again.session.send(message("more", LONG)).await.unwrap();
    again
        .until(|payload| matches!(payload, Payload::AssistantMessageDelta(_)).then_some(()))
        .await;
    again
        .session
        .abort(lodge_events::AbortReason::UserInitiated)
        .await
        .unwrap();
    assert!(waiting(&again.session).is_empty());
}

#[tokio::test]
async fn messages_that_an_earlier_build_kept_in_a_file_are_brought_into_the_log() {
    let house = house();
    let probe = house.session().await;
    let (id, dir) = (probe.session.id().to_owned(), probe.session.dir().to_owned());
    let file = dir.join("queue.json");
    let kept = r#"{"pid":4294967295,"starting":null,"steering":[],
        "waiting":[{"text":"say old","displayText":null,"attachments":[],"delivery":"enqueue","prepend":false,
        "messageId":"old","headers":{},"before":[]}],"accepted":[{"text":"say newer","messageId":"newer"}]}"#;
    std::fs::write(&file, kept).unwrap();
    let copy = house.dir.path().join("copy");
    let (_host, session) = killed(&house.dir.path().join("home"), &copy, &id).await;
    assert_eq!(waiting(&session), ["old", "newer"]);
    assert!(!session.dir().join("queue.json").exists());
    let (_host, again) = killed(&copy, &house.dir.path().join("again"), &id).await;
    assert_eq!(waiting(&again), ["old", "newer"]);
}
