//! Answers that broke off: what becomes of them when their turn is resumed, taken back or never taken up again.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::BoxStream};
use lodge_events::{AbortReason, AssistantMessage, Event, LodgePartial, Payload};
use lodge_host::{Approval, Change, ModelChoice, NewSession, Resume};
use lodge_models::{Chunk, Completion, ErrorKind, Model, ModelError, ModelInfo, ModelRequest, Rehearsal};
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    kit::{House, Probe, chain_of, house, log_of},
    truth::as_killed,
};

/// One answer of the model.
enum Step {
    /// So much, then the connection is gone for good.
    Breaks(&'static str),
    Says(&'static str),
}

/// A model that plays its steps, one a call.
struct Played {
    inner: Rehearsal,
    steps: Mutex<VecDeque<Step>>,
}

impl Model for Played {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let step = self.steps.lock().pop_front().expect("a step for every call");
        let (text, end) = match step {
            Step::Breaks(text) => {
                let gone = ModelError {
                    kind: ErrorKind::Connection,
                    code: None,
                    message: "The connection is gone.".into(),
                    status: None,
                    retry_after: None,
                    provider_call_id: None,
                    retryable: false,
                };
                (text, Err(gone))
            }
            Step::Says(text) => {
                let mut whole = Completion::default();
                whole.message.text = text.into();
                (text, Ok(Chunk::Done(Box::new(whole))))
            }
        };
        let streamed = request.stream.then(|| Ok(Chunk::Text(text.into())));
        futures_util::stream::iter(streamed.into_iter().chain([end])).boxed()
    }
}

async fn played(house: &House, steps: impl IntoIterator<Item = Step>) -> Probe {
    let model = Played {
        inner: Rehearsal::new(),
        steps: Mutex::new(steps.into_iter().collect()),
    };
    let new = NewSession {
        model: ModelChoice::Given(Arc::new(model)),
        ..NewSession::default()
    };
    house.session_with(new).await
}

/// Resumes the failed turn and waits for its end.
async fn resume(probe: &mut Probe) {
    assert!(probe.session.resume_failed().await.unwrap());
    probe.until_idle().await;
}

fn messages(events: &[Event]) -> Vec<String> {
    let said = events.iter().filter_map(|event| event.get::<AssistantMessage>());
    said.map(|message| message.content.clone()).collect()
}

#[tokio::test]
async fn a_resumed_answer_is_whole_whether_it_streams_or_not() {
    for streaming in [true, false] {
        for rest in [" a time.", "Once upon a time."] {
            let house = house();
            let mut probe = played(&house, [Step::Breaks("Once upon"), Step::Says(rest)]).await;
            probe.turn("tell me a story").await;
            probe.session.configure(Change::Streaming(streaming)).await.unwrap();
            resume(&mut probe).await;
            assert_eq!(
                messages(&chain_of(&probe.session)),
                ["Once upon a time."],
                "streaming: {streaming}, it says {rest:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_rewind_takes_back_that_a_turn_was_resumed() {
    let house = house();
    let steps = [Step::Breaks("One"), Step::Breaks("Two"), Step::Says("Two is done.")];
    let mut probe = played(&house, steps).await;
    probe.turn("first").await;
    let before = probe.session.state();
    assert!(before.failed_turn.is_some() && before.open_turn.is_none());
    probe.turn("second").await;
    resume(&mut probe).await;
    let second = probe.session.rewind_points().await.unwrap()[1].event;
    probe.session.rewind(second, false).await.unwrap();
    let after = probe.session.state();
    assert_eq!(after.open_turn, None, "nothing is under way");
    assert_eq!(after.failed_turn, before.failed_turn);
    let home = house.dir.path();
    let host = as_killed(&home.join("home"), &home.join("killed"), true);
    let read = host.open_session(probe.session.id()).await.unwrap().state();
    assert_eq!((read.open_turn, read.failed_turn), (None, before.failed_turn));
}

#[tokio::test]
async fn undoing_a_rewind_brings_an_answer_back_that_broke_off() {
    let house = house();
    let steps = [Step::Says("Hello."), Step::Breaks("Once upon"), Step::Says(" a time.")];
    let mut probe = played(&house, steps).await;
    probe.turn("hello").await;
    probe.turn("tell me a story").await;
    let before = log_of(&probe.session);
    let story = probe.session.rewind_points().await.unwrap()[1].event;
    let removed = probe.session.rewind(story, false).await.unwrap();
    assert!(!log_of(&probe.session).iter().any(|event| event.is::<LodgePartial>()));
    assert!(removed.events > 0);
    probe.session.undo_rewind().await.unwrap();
    let ids = |events: &[Event]| {
        let of_answer = events
            .iter()
            .filter(|event| !event.is_beside() || event.is::<LodgePartial>());
        of_answer.map(Event::id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&log_of(&probe.session)), ids(&before));
    resume(&mut probe).await;
    assert_eq!(messages(&chain_of(&probe.session)), ["Hello.", "Once upon a time."]);
}

#[tokio::test]
async fn what_a_sub_agent_had_said_is_a_message_when_it_is_stopped_or_killed() {
    let house = house();
    let new = NewSession {
        approval: Approval::ApproveAll,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let task = json!({
        "agent_type": "task", "name": "teller", "description": "d", "mode": "background",
        "prompt": "stream 100000 chunks slowly",
    });
    probe.send(&format!("call task {task} then say I go on")).await;
    let piece = probe
        .until(|payload| match payload {
            Payload::LodgePartial(piece) => Some(piece.content.clone()),
            _ => None,
        })
        .await;
    let said = |events: &[Event]| {
        let own = events.iter().filter(|event| event.agent_id() == Some("teller"));
        messages(&own.cloned().collect::<Vec<_>>())
    };
    let home = house.dir.path();
    let host = as_killed(&home.join("home"), &home.join("killed"), true);
    let id = probe.session.id();
    let killed = host.resume(id, Resume::default()).await.unwrap();
    probe.session.abort(AbortReason::UserInitiated).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), probe.session.tasks_settled())
        .await
        .expect("it is stopped");
    for (how, session) in [("killed", &killed), ("stopped", &probe.session)] {
        let said = said(&chain_of(session));
        assert_eq!(said.len(), 1, "{how}: {said:?}");
        assert!(said[0].starts_with(&piece), "{how}: {said:?}");
    }
}
