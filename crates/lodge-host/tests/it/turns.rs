//! What a turn looks like from outside.

use lodge_events::{AbortReason, Payload};
use lodge_host::{Approval, Compaction, Delivery, NewSession, Prompt};

use crate::kit::{house, log_of};

fn yolo() -> NewSession {
    NewSession {
        approval: Approval::ApproveAll,
        ..NewSession::default()
    }
}

#[tokio::test]
async fn a_turn_with_a_tool_comes_in_the_order_of_the_seeds() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    probe
        .turn("think about doors then call bash {\"command\":\"echo hi\",\"description\":\"Greeting\"} then say done")
        .await;
    let mut kinds = probe.kinds();
    kinds.dedup();
    kinds.retain(|kind| !matches!(*kind, "assistant.streaming_delta" | "assistant.tool_call_delta"));
    insta::assert_snapshot!(kinds.join("\n"));
    assert_eq!(probe.said(), "done");
    let log = log_of(&probe.session);
    assert_eq!(log[0].kind(), "session.start");
    let persisted: Vec<_> = probe.seen.iter().filter(|event| !event.is_ephemeral()).collect();
    assert!(
        persisted.iter().all(|event| log.contains(event)),
        "what was seen as persisted is in the log"
    );
}

#[tokio::test]
async fn turn_ids_count_the_model_calls_of_one_message() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    for _ in 0..2 {
        probe
            .turn("call view {\"path\":\".\"} then call view {\"path\":\".\"} then say done")
            .await;
        let ids: Vec<String> = probe
            .seen
            .iter()
            .filter_map(|event| match event.payload() {
                Payload::AssistantTurnStart(start) => Some(start.turn_id.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(ids, ["0", "1", "2"]);
    }
}

#[tokio::test]
async fn deltas_add_up_to_the_message_and_none_come_when_not_streaming() {
    let house = house();
    for streaming in [true, false] {
        let mut probe = house
            .session_with(NewSession {
                streaming,
                ..NewSession::default()
            })
            .await;
        probe.turn("stream 300 chunks").await;
        let deltas: String = probe
            .seen
            .iter()
            .filter_map(|event| match event.payload() {
                Payload::AssistantMessageDelta(delta) => Some(delta.delta_content.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(deltas, if streaming { probe.said() } else { String::new() });
        assert!(probe.said().contains("300"));
    }
}

#[tokio::test]
async fn messages_sent_while_busy_wait_and_steering_joins_the_turn() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    probe.send("call bash {\"command\":\"sleep 0.3\"} then say first").await;
    probe
        .until(|payload| matches!(payload, Payload::ToolExecutionStart(_)).then_some(()))
        .await;
    let second = probe.send("say second").await;
    // The same message again, from a client that does not know that it arrived.
    let again = Prompt {
        text: "say second".into(),
        message_id: Some(second),
        ..Prompt::default()
    };
    probe.session.send(again).await.unwrap();
    let steer = Prompt {
        text: "say steered".into(),
        delivery: Delivery::Immediate,
        ..Prompt::default()
    };
    probe.session.send(steer).await.unwrap();
    let (queue, steering) = probe.session.queue();
    assert_eq!((queue.len(), steering.len()), (1, 1));
    probe.until_idle().await;
    let order: Vec<String> = probe
        .seen
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::UserMessage(message) => Some(format!("> {}", message.content)),
            Payload::AssistantMessage(message) if !message.content.is_empty() => Some(message.content.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(order[1..], ["> say steered", "steered", "> say second", "second"]);
    assert_eq!(probe.count("session.idle"), 1, "idle comes when all is done");
    log_of(&probe.session);
}

#[tokio::test]
async fn what_an_answer_had_said_when_it_was_stopped_stays_in_the_conversation() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    probe.send("stream 100000 chunks slowly").await;
    let mut seen = String::new();
    while seen.len() < 8 {
        seen += &probe
            .until(|payload| match payload {
                Payload::AssistantMessageDelta(delta) => Some(delta.delta_content.clone()),
                _ => None,
            })
            .await;
    }
    assert!(probe.session.abort(AbortReason::UserInitiated).await.unwrap());
    assert!(probe.until_idle().await);
    let log = log_of(&probe.session);
    let kept = log.iter().find_map(|event| match event.payload() {
        Payload::AssistantMessage(message) => Some(message.content.clone()),
        _ => None,
    });
    assert!(
        kept.as_ref().is_some_and(|kept| kept.starts_with(&seen)),
        "{seen:?}: {kept:?}"
    );
    // Both messages, what was said between them, and that the turn was stopped.
    probe.turn("describe the request").await;
    assert!(probe.said().contains("I was sent 4 messages"), "{}", probe.said());
}

#[tokio::test]
async fn an_abort_is_heard_at_every_moment_and_ends_in_idle() {
    let house = house();
    for (prompt, moment) in [
        ("stream 100000 chunks slowly", "assistant.message_delta"),
        ("wait 60000 ms then say late", "model.call_start"),
        ("call bash {\"command\":\"sleep 60\"}", "tool.execution_start"),
        ("fail with server error 9 times", "model.call_failure"),
    ] {
        let mut probe = house.session_with(yolo()).await;
        probe.send(prompt).await;
        loop {
            let kind = probe.until(|payload| Some(payload.kind().to_owned())).await;
            if kind == moment {
                break;
            }
        }
        probe.send("say never").await;
        assert!(
            probe.session.abort(AbortReason::UserInitiated).await.unwrap(),
            "{moment}"
        );
        assert!(probe.until_idle().await, "{moment}: idle says that it was aborted");
        assert_eq!(probe.count("abort"), 1, "{moment}");
        assert!(
            !probe.session.abort(AbortReason::UserInitiated).await.unwrap(),
            "{moment}: nothing runs any more"
        );
        let log = log_of(&probe.session);
        let starts = log
            .iter()
            .filter(|event| event.kind() == "tool.execution_start")
            .count();
        let ends = log
            .iter()
            .filter(|event| event.kind() == "tool.execution_complete")
            .count();
        assert_eq!(starts, ends, "{moment}: every call that began has ended");
        assert_eq!(probe.turn("say after").await, "after", "{moment}: the session goes on");
    }
}

#[tokio::test]
async fn failures_that_may_pass_are_tried_again_and_the_others_are_told() {
    let house = house();
    let mut probe = house.session().await;
    assert_eq!(probe.turn("fail with server error 1 time then say ok").await, "ok");
    assert_eq!(probe.count("assistant.turn_retry"), 1);
    for (prompt, expected) in [
        ("fail with authentication", "authentication"),
        ("fail with quota", "quota"),
    ] {
        probe.turn(prompt).await;
        let error = probe.seen.iter().find_map(|event| match event.payload() {
            Payload::SessionError(error) => Some(error.error_type.clone()),
            _ => None,
        });
        assert_eq!(error.as_deref(), Some(expected));
    }
    assert_eq!(probe.turn("say still here").await, "still here");
}

#[tokio::test]
async fn a_context_that_is_too_long_is_compacted_and_tried_once_more() {
    let house = house();
    let mut probe = house.session().await;
    probe.turn("say one").await;
    probe.turn("fail with context too long 1 time then say fits").await;
    assert_eq!(probe.said(), "fits", "{:?}", probe.kinds());
    assert_eq!(
        (
            probe.count("session.compaction_start"),
            probe.count("session.compaction_complete")
        ),
        (1, 1)
    );
    let checkpoint = probe.seen.iter().find_map(|event| match event.payload() {
        Payload::SessionCompactionComplete(done) => done.checkpoint_path.clone(),
        _ => None,
    });
    assert!(std::path::Path::new(&checkpoint.unwrap()).exists());
}

#[tokio::test]
async fn while_there_is_room_left_a_turn_goes_on_beside_the_compaction() {
    let house = house();
    let compaction = Compaction {
        enabled: true,
        threshold: 1e-9,
        exhaustion: 1.0,
    };
    let mut probe = house
        .session_with(NewSession {
            compaction,
            ..NewSession::default()
        })
        .await;
    probe.send("say one").await;
    let (mut summary, mut idle) = (None, false);
    while summary.is_none() || !idle {
        let told = probe.until(|payload| match payload {
            Payload::SessionCompactionComplete(done) => Some(Some(done.clone())),
            Payload::SessionIdle(_) => Some(None),
            _ => None,
        });
        match told.await {
            Some(done) => summary = Some(done),
            None => idle = true,
        }
    }
    let done = summary.unwrap();
    assert!(done.success, "{done:?}");
    assert_eq!(done.messages_removed, Some(1), "what was said before it began");
    assert_eq!(probe.count("session.compaction_start"), 1);
    assert_eq!(probe.said(), "one");
    assert_eq!(probe.turn("say two").await, "two");
}

#[tokio::test]
async fn tools_that_only_read_run_side_by_side_and_answer_in_order() {
    let house = house();
    for n in 0..3 {
        std::fs::write(house.cwd().join(format!("{n}.txt")), format!("content {n}")).unwrap();
    }
    let mut probe = house.session().await;
    let calls: Vec<String> = (0..3)
        .map(|n| format!("view {{\"path\":\"{}/{n}.txt\"}}", house.cwd().display()))
        .collect();
    probe.turn(&format!("call {} then say done", calls.join(" and "))).await;
    assert_eq!(probe.said(), "done");
    let mut results = probe.results();
    results.sort();
    assert_eq!(results, ["content 0", "content 1", "content 2"]);
}

#[tokio::test]
async fn what_cannot_be_called_is_explained_to_the_model() {
    let house = house();
    let mut probe = house.session().await;
    probe.turn("call an unknown tool").await;
    assert!(
        probe.results()[0].contains("does not exist. Available tools that can be called are"),
        "{:?}",
        probe.results()
    );
    probe.turn("malformed arguments").await;
    assert!(probe.results()[0].contains("not valid JSON"), "{:?}", probe.results());
}
