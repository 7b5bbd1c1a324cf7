//! A recorder whose log is also stored elsewhere.

use std::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
};

use lodge_events::{AssistantMessageDelta, SessionInfo};
use lodge_log::{Home, HomeOptions, Store as _};
use tokio::sync::mpsc;

use super::*;
use crate::{
    queue::{Place, Queue, Readiness},
    settings::Prompt,
};

/// Words of an event at which the log elsewhere, or whoever listens, breaks.
const BREAKS_STORING: &str = "break storing";
const BREAKS_PUBLISHING: &str = "break publishing";

/// What the log elsewhere is sent when it is verified.
const VERIFIES: &str = "verify";

/// What listeners heard, and the last thread that told them.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>, Mutex<Option<std::thread::ThreadId>>);

impl Publish for Heard {
    fn publish(&self, event: &Event) {
        assert_ne!(text(event), BREAKS_PUBLISHING, "it breaks");
        self.0.lock().push(text(event));
        *self.1.lock() = Some(std::thread::current().id());
    }
}

fn text(event: &Event) -> String {
    match event.payload() {
        Payload::SessionInfo(info) => info.message.clone(),
        Payload::AssistantMessageDelta(delta) => delta.delta_content.clone(),
        other => other.kind().to_owned(),
    }
}

/// A log elsewhere that keeps what it is sent when the test says so.
struct Elsewhere {
    sent: mpsc::UnboundedSender<Vec<String>>,
    verdicts: mpsc::UnboundedReceiver<Result<(), String>>,
}

impl RemoteLog for Elsewhere {
    fn append<'a>(&'a mut self, events: &'a [Event]) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(async {
            let _ = self.sent.send(events.iter().map(text).collect());
            assert_ne!(text(&events[0]), BREAKS_STORING, "it breaks");
            self.verdicts
                .recv()
                .await
                .unwrap_or_else(|| Err("the test is over".into()))
        })
    }

    fn verify(&mut self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            let _ = self.sent.send(vec![VERIFIES.into()]);
            self.verdicts
                .recv()
                .await
                .unwrap_or_else(|| Err("the test is over".into()))
        })
    }
}

struct Bench {
    _dir: tempfile::TempDir,
    home: Arc<Home>,
    recorder: Recorder,
    heard: Arc<Heard>,
    sent: mpsc::UnboundedReceiver<Vec<String>>,
    verdicts: mpsc::UnboundedSender<Result<(), String>>,
    /// The term for which the host may act; 0 when it may not.
    term: Arc<AtomicU64>,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Arc::new(Home::open(dir.path(), HomeOptions::default()).expect("a home"));
        let log = home.sessions().create("s").expect("a log");
        let reopen: Reopen = Box::new({
            let home = home.clone();
            move || Ok(home.sessions().open("s")?.log)
        });
        let (sent_by_log, sent) = mpsc::unbounded_channel();
        let (verdicts, given) = mpsc::unbounded_channel();
        let term = Arc::new(AtomicU64::new(1));
        let remote = Remote {
            log: Box::new(Elsewhere {
                sent: sent_by_log,
                verdicts: given,
            }),
            term: Box::new({
                let term = term.clone();
                move || Some(term.load(Ordering::Relaxed)).filter(|term| *term > 0)
            }),
            taken_in: 1,
        };
        let heard = Arc::new(Heard::default());
        let recorder = Recorder::new(
            log,
            reopen,
            Facts::default(),
            heard.clone(),
            Arc::default(),
            Some(remote),
        );
        Self {
            _dir: dir,
            home,
            recorder,
            heard,
            sent,
            verdicts,
            term,
        }
    }

    fn record(&self, message: &str) {
        let info = SessionInfo {
            message: message.into(),
            ..SessionInfo::default()
        };
        self.recorder.record(info).expect("it is recorded");
    }

    fn delta(&self, content: &str) {
        self.recorder.note(AssistantMessageDelta {
            delta_content: content.into(),
            ..AssistantMessageDelta::default()
        });
    }

    fn heard(&self) -> Vec<String> {
        self.heard.0.lock().clone()
    }

    /// What is in the file.
    fn written(&self) -> Vec<String> {
        let events = self
            .home
            .sessions()
            .read("s", Position::START, Position::END)
            .expect("the log is there");
        events
            .events()
            .map(|event| text(&event.expect("the log is whole")))
            .collect()
    }
}

#[tokio::test]
async fn nothing_is_written_or_heard_before_it_is_safe_elsewhere_and_the_order_stays() {
    let mut bench = Bench::new();
    bench.delta("free");
    assert_eq!(bench.heard(), ["free"], "nothing is before it that has to be safe");
    bench.record("1");
    assert_eq!(bench.sent.recv().await.unwrap(), ["1"]);
    bench.delta("a");
    bench.record("2");
    bench.delta("b");
    bench.record("3");
    bench.delta("c");
    assert_eq!(bench.heard(), ["free"]);
    assert!(bench.written().is_empty());

    bench.verdicts.send(Ok(())).unwrap();
    // What was recorded meanwhile goes together.
    assert_eq!(bench.sent.recv().await.unwrap(), ["2", "3"]);
    assert_eq!(bench.heard(), ["free", "1", "a"]);
    assert_eq!(bench.written(), ["1"]);

    bench.verdicts.send(Ok(())).unwrap();
    bench.recorder.durable().await.expect("all is safe");
    assert_eq!(bench.heard(), ["free", "1", "a", "2", "b", "3", "c"]);
    assert_eq!(bench.written(), ["1", "2", "3"]);
    bench.recorder.durable().await.expect("nothing is to be waited for");
}

#[tokio::test]
async fn the_file_is_written_where_a_slow_disk_holds_up_no_other_task() {
    let bench = Bench::new();
    bench.record("1");
    bench.verdicts.send(Ok(())).unwrap();
    bench.recorder.durable().await.expect("it is safe");
    assert_eq!(bench.heard(), ["1"]);
    // Who writes an event also publishes it. All tasks of this test share one thread.
    assert_ne!(*bench.heard.1.lock(), Some(std::thread::current().id()));
}

#[tokio::test]
async fn a_failure_elsewhere_ends_the_recorder_and_nobody_hears_what_was_not_safe() {
    let mut bench = Bench::new();
    bench.record("1");
    bench.verdicts.send(Ok(())).unwrap();
    bench.recorder.durable().await.expect("it is safe");
    bench.record("2");
    bench.delta("a");
    bench.verdicts.send(Err("another host has it".into())).unwrap();
    let error = bench.recorder.durable().await.expect_err("it is lost");
    assert!(error.to_string().contains("another host has it"), "{error}");
    assert_eq!(bench.heard(), ["1", "session.error"]);
    assert_eq!(bench.written(), ["1"]);
    let refused = bench.recorder.record(SessionInfo::default()).expect_err("it has ended");
    assert!(matches!(refused, LogError::Uncommitted { .. }), "{refused}");
    assert!(bench.recorder.durable().await.is_err(), "once is for ever");
    assert_eq!(bench.sent.recv().await.unwrap(), ["1"]);
    assert_eq!(bench.sent.recv().await.unwrap(), ["2"]);
    assert!(bench.sent.recv().await.is_none(), "the log elsewhere is let go");
}

#[tokio::test]
async fn whoever_waits_is_told_when_storing_or_publishing_breaks() {
    for breaks in [BREAKS_STORING, BREAKS_PUBLISHING] {
        let bench = Bench::new();
        bench.record("1");
        bench.verdicts.send(Ok(())).unwrap();
        bench.recorder.durable().await.expect("it is safe");
        bench.record(breaks);
        bench.verdicts.send(Ok(())).unwrap();
        let error = bench
            .recorder
            .durable()
            .await
            .expect_err("nobody knows whether it is safe");
        assert!(error.to_string().contains("internal error"), "{error}");
        assert!(bench.recorder.lost().await);
    }
}

#[tokio::test]
async fn who_may_not_act_any_more_is_told_before_it_does() {
    let bench = Bench::new();
    bench.record("1");
    bench.verdicts.send(Ok(())).unwrap();
    bench.term.store(0, Ordering::Relaxed);
    assert!(bench.recorder.durable().await.is_err());
    bench.term.store(1, Ordering::Relaxed);
    bench.recorder.durable().await.expect("nothing was lost");
}

#[tokio::test]
async fn who_may_act_again_looks_first_whether_another_took_the_session_meanwhile() {
    let mut bench = Bench::new();
    bench.record("1");
    bench.verdicts.send(Ok(())).unwrap();
    bench.recorder.durable().await.expect("it is safe");
    assert_eq!(bench.sent.recv().await.unwrap(), ["1"]);

    // Nobody did. Once is enough for a term, however many wait.
    bench.term.store(2, Ordering::Relaxed);
    bench.verdicts.send(Ok(())).unwrap();
    let (one, two) = tokio::join!(bench.recorder.durable(), bench.recorder.durable());
    one.and(two).expect("nothing was lost");
    bench.recorder.durable().await.expect("nothing was lost");
    assert_eq!(bench.sent.recv().await.unwrap(), [VERIFIES]);
    assert!(bench.sent.try_recv().is_err());

    // Somebody did. Nothing was recorded since, so no append could show it.
    bench.term.store(3, Ordering::Relaxed);
    bench.verdicts.send(Err("another host has it".into())).unwrap();
    let error = bench.recorder.durable().await.expect_err("it is lost");
    assert!(error.to_string().contains("another host has it"), "{error}");
    assert!(bench.recorder.lost().await);
}

#[tokio::test]
async fn what_waits_is_bounded() {
    let bench = Bench::new();
    let long = "x".repeat(1 << 20);
    let refused = (0..64).find_map(|_| {
        let info = SessionInfo {
            message: long.clone(),
            ..SessionInfo::default()
        };
        bench.recorder.record(info).err()
    });
    assert!(matches!(refused, Some(LogError::Uncommitted { .. })), "{refused:?}");

    // What is in no log is not kept then, either.
    bench.delta("dropped");
    for _ in 0..64 {
        bench.verdicts.send(Ok(())).unwrap();
    }
    bench.recorder.durable().await.expect("all that was recorded is safe");
    bench.delta("free");
    let heard = bench.heard();
    assert!(heard.contains(&long) && !heard.contains(&"dropped".to_owned()));
    assert_eq!(heard.last().unwrap(), "free");
}

#[tokio::test]
async fn who_learns_that_another_host_has_the_log_says_so_once_and_records_nothing_more() {
    let bench = Bench::new();
    bench.record("1");
    bench.verdicts.send(Ok(())).unwrap();
    bench.recorder.durable().await.expect("it is safe");
    let lost = bench.recorder.lost();
    for _ in 0..2 {
        bench.recorder.lose("another host has it now");
    }
    assert_eq!(bench.heard(), ["1", "session.error"]);
    assert!(lost.await);
    assert!(bench.recorder.record(SessionInfo::default()).is_err());
}

fn message(id: &str, replaces: Option<&str>) -> Prompt {
    Prompt {
        message_id: Some(id.into()),
        replaces: replaces.map(str::to_owned),
        ..Prompt::default()
    }
}

#[tokio::test]
async fn a_message_and_the_one_that_it_replaces_are_never_both_in_the_queue_wherever_the_host_dies() {
    // What is in the queue beside the replaced message, and how the other one is accepted.
    for (known, readiness) in [
        (None, Readiness::Beginning),
        (None, Readiness::Waiting),
        (Some("new"), Readiness::Beginning),
        (Some("new"), Readiness::Waiting),
    ] {
        let (bench, queue) = (Bench::new(), Queue::default());
        let accept = |prompt, readiness| queue.accept(&bench.recorder, prompt, Place::LAST, readiness);
        for id in ["old"].into_iter().chain(known) {
            accept(message(id, None), Readiness::Waiting).expect("the log has it");
        }
        let says = accept(message("new", Some("old")), readiness).expect("the log has it");
        for _ in 0..8 {
            bench.verdicts.send(Ok(())).unwrap();
        }
        bench.recorder.durable().await.expect("all is safe");
        let mut pending = crate::PendingMessages::default();
        let mut is_accepted = false;
        let events = bench.home.sessions().read("s", Position::START, Position::END);
        for event in events.expect("the log is there").events() {
            let event = event.expect("the log is whole");
            pending.fold(event.payload());
            is_accepted |= Some(event.id()) == says;
            // A host that dies now finds this.
            let waits = [pending.get("old").is_some(), pending.get("new").is_some()];
            match is_accepted {
                true => assert_eq!(waits, [false, true], "{known:?}, {readiness:?}, after {}", event.kind()),
                false => assert!(
                    waits[0] || !waits[1],
                    "{known:?}, {readiness:?}, after {}",
                    event.kind()
                ),
            }
        }
        assert!(is_accepted);
    }
}

#[tokio::test]
async fn either_a_message_is_said_or_the_one_that_replaces_it() {
    for round in 0..500 {
        let (bench, queue) = (Bench::new(), Queue::default());
        let accepted = queue.accept(&bench.recorder, message("old", None), Place::LAST, Readiness::Ready);
        accepted.expect("the log has it");
        let (taken, accepted) = std::thread::scope(|scope| {
            let taking = scope.spawn(|| queue.take_next(&bench.recorder).and_then(|prompt| prompt.message_id));
            let prompt = message("new", Some("old"));
            let accepted = queue.accept(&bench.recorder, prompt, Place::LAST, Readiness::Beginning);
            (taking.join().expect("it does not panic"), accepted)
        });
        match accepted {
            Ok(_) => assert_ne!(taken.as_deref(), Some("old"), "round {round}: both are said"),
            Err(AgentError::Taken) => assert_eq!(taken.as_deref(), Some("old"), "round {round}: neither is said"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_rewind_counts_at_once_and_is_heard_when_it_is_safe_elsewhere() {
    let mut bench = Bench::new();
    let say = |bench: &Bench, text: &str| {
        let message = UserMessage {
            content: text.into(),
            ..UserMessage::default()
        };
        bench.recorder.record(message).expect("it is recorded").id()
    };
    say(&bench, "first");
    let second = say(&bench, "second");
    assert!(bench.recorder.rewind(second).is_err(), "it is not in the file yet");
    for _ in 0..2 {
        bench.verdicts.send(Ok(())).unwrap();
    }
    bench.recorder.durable().await.expect("both are safe");
    let heard = bench.heard().len();
    while bench.sent.try_recv().is_ok() {}

    let said = |bench: &Bench| {
        let messages = bench.recorder.messages(false).expect("the log can be read");
        format!("{messages:?}")
    };
    assert_eq!(bench.recorder.rewind(second).expect("it is taken back"), 1);
    assert!(said(&bench).contains("first") && !said(&bench).contains("second"));
    say(&bench, "third");
    assert!(said(&bench).contains("third"));
    assert_eq!(
        (bench.written().len(), bench.heard().len()),
        (2, heard),
        "nobody has seen it"
    );

    for _ in 0..2 {
        bench.verdicts.send(Ok(())).unwrap();
    }
    bench.recorder.durable().await.expect("it is safe");
    assert_eq!(bench.sent.recv().await.unwrap()[0], "lodge.rewound");
    assert_eq!(bench.heard()[heard..], ["session.snapshot_rewind", "user.message"]);
    assert_eq!(bench.written().len(), 2, "the file shows what counts");
    assert!(!said(&bench).contains("second"));
    assert!(bench.recorder.put_back().is_err(), "the conversation went on");

    // What nobody went on from is put back, event by event.
    let third = bench.recorder.paused(|log| log.last_id()).unwrap();
    bench.recorder.rewind(third).unwrap();
    bench.verdicts.send(Ok(())).unwrap();
    bench.recorder.durable().await.unwrap();
    assert!(!said(&bench).contains("third"));
    assert!(bench.recorder.put_back().unwrap());
    assert!(said(&bench).contains("third"));
    bench.verdicts.send(Ok(())).unwrap();
    bench.recorder.durable().await.unwrap();
    assert_eq!(bench.recorder.paused(|log| log.last_id()), Some(third));
}
