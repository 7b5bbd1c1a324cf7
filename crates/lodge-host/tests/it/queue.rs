//! Messages that wait: in the log before their sender hears of them, said once, and nowhere else.

use std::path::Path;

use lodge_events::{Event, Payload, UserMessage};
use lodge_host::{Answer, AnsweredBy, Capabilities, Delivery, Host, Prompt, QueueChange, Session, UserInputAnswer};

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

#[tokio::test]
async fn a_message_that_needs_preparation_never_begins_without_it() {
    let house = house();
    let mut probe = house.session().await;
    let unprepared = Prompt {
        needs_preparation: true,
        ..message("m", "/unprepared")
    };
    probe.session.enqueue(unprepared.clone()).unwrap();
    // Others go past it while nobody is there who prepares it.
    probe.session.send(message("s", "say other")).await.unwrap();
    probe.until_idle().await;
    assert_eq!(waiting(&probe.session), ["m"]);
    assert!(!probe.session.continue_pending().await.unwrap());
    // Whoever prepares it has it said, also when somebody else had begun to and went away.
    assert!(probe.session.prepare_message("m").unwrap() && probe.session.prepare_message("m").unwrap());
    assert!(probe.session.begin(message("m", "say ready")).await.unwrap());
    probe.until_idle().await;
    assert_eq!(
        (said(&log_of(&probe.session), "m"), probe.said().as_str()),
        (1, "ready")
    );
    assert!(!probe.session.prepare_message("m").unwrap());
    assert!(!probe.session.begin(message("m", "say again")).await.unwrap());
}

#[tokio::test]
async fn what_people_saw_as_a_turn_stays_in_the_conversation_whatever_becomes_of_it() {
    let house = house();
    let mut probe = house.session().await;
    let accepted = |id: &str| Prompt {
        needs_preparation: true,
        ..message(id, &format!("say {id}"))
    };
    probe.session.accept(accepted("cancelled")).unwrap();
    assert!(probe.session.cancel("cancelled").await.unwrap());
    probe.session.accept(accepted("failed")).unwrap();
    probe
        .session
        .fail_message("failed", "there is no such model")
        .await
        .unwrap();
    probe.until_idle().await;
    // It cannot be gone on with: that would be saying it unprepared.
    assert!(!probe.session.resume_failed().await.unwrap());
    let log = log_of(&probe.session);
    assert_eq!((said(&log, "cancelled"), said(&log, "failed")), (1, 1));
    let kinds: Vec<&str> = log.iter().map(Event::kind).collect();
    assert!(
        kinds.contains(&"abort") && kinds.contains(&"session.error"),
        "{kinds:?}"
    );
    assert!(waiting(&probe.session).is_empty() && !probe.session.is_busy());
    // One that was to steer a turn leaves a warning.
    let steering = Prompt {
        delivery: Delivery::Immediate,
        ..accepted("steering")
    };
    probe.session.enqueue(steering).unwrap();
    probe
        .session
        .fail_message("steering", "there is no such agent")
        .await
        .unwrap();
    let log = log_of(&probe.session);
    let warned = log.iter().filter_map(Event::get::<lodge_events::SessionWarning>);
    assert_eq!(
        warned
            .filter(|warning| warning.message.contains("no such agent"))
            .count(),
        1
    );
    assert!(waiting(&probe.session).is_empty() && said(&log, "steering") == 0);
}

#[tokio::test]
async fn what_rests_behind_a_message_in_preparation_begins_when_that_one_is_gone() {
    #[derive(Debug, Clone, Copy)]
    enum Gone {
        Failed,
        Withdrawn,
        Removed,
        Cancelled,
        Overtaken,
        WithItsClient,
    }
    for gone in [
        Gone::Failed,
        Gone::Withdrawn,
        Gone::Removed,
        Gone::Cancelled,
        Gone::Overtaken,
        Gone::WithItsClient,
    ] {
        let house = house();
        let mut probe = house.session().await;
        let people = probe
            .attach(Capabilities {
                user_input: true,
                ..Capabilities::default()
            })
            .await;
        let preparer = probe
            .attach(Capabilities {
                prepares: true,
                ..Capabilities::default()
            })
            .await;
        let session = probe.session.clone();
        let question = message("t", "ask \"Which colour?\" choices red, blue");
        session.send(question).await.unwrap();
        let asked = probe
            .until(|payload| match payload {
                Payload::UserInputRequested(asked) => Some(asked.request_id.clone()),
                _ => None,
            })
            .await;
        let steers = matches!(gone, Gone::Failed);
        let unprepared = Prompt {
            needs_preparation: true,
            delivery: if steers { Delivery::Immediate } else { Delivery::Enqueue },
            ..message("m", "say prepared")
        };
        session.enqueue(unprepared).unwrap();
        session.send(message("p", "say ready")).await.unwrap();
        let red = Answer::UserInput(UserInputAnswer {
            answer: "red".into(),
            was_freeform: false,
        });
        session.answer(&asked, red, AnsweredBy::default()).await.unwrap();
        probe.until_idle().await;
        assert_eq!(waiting(&session), ["m", "p"], "{gone:?}");
        match gone {
            Gone::Failed => session.fail_message("m", "there is no such model").await.unwrap(),
            Gone::Withdrawn => drop(session.withdraw("m").unwrap()),
            Gone::Removed => drop(session.change_queue(QueueChange::Remove("m".into())).await.unwrap()),
            Gone::Cancelled => drop(session.cancel("m").await.unwrap()),
            Gone::Overtaken => {
                let order = vec!["p".into()];
                session.reorder_as(lodge_events::Uuid::new_v4(), order).unwrap();
            }
            Gone::WithItsClient => drop(preparer),
        }
        probe
            .until(|payload| match payload {
                Payload::UserMessage(said) if said.message_id.as_deref() == Some("p") => Some(()),
                _ => None,
            })
            .await;
        drop(people);
    }
}
