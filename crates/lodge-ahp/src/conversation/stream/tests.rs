//! Deltas beside everything else: in order, complete, and past the state.

use std::{collections::VecDeque, path::Path, sync::Arc, thread};

use ahp_types::state::{ChatOrigin, RootState, SessionState};
use futures_util::FutureExt as _;
use lodge_door::Admission;
use lodge_events::{AssistantMessageDelta, Event, UserMessage};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::{
    changesets::Followers,
    conversation::{Conversation, Shown},
    face::{Inner, State, chat_state, summary_of},
    state::{Bounds, ChatStore, Conn, Core, Keep, Peer, Queued, SessionEntry},
    terminals::Terminals,
};

/// The answer that streams.
const MESSAGE: &str = "m";

fn delta(text: &str) -> Event {
    delta_of(MESSAGE, text)
}

fn delta_of(message: &str, text: &str) -> Event {
    let delta = AssistantMessageDelta {
        message_id: message.to_owned(),
        delta_content: text.to_owned(),
        ..AssistantMessageDelta::default()
    };
    Event::new_ephemeral(None, None, delta)
}

/// A state with conversations, each of which streams an answer.
struct Fixture {
    state: State,
    numbers: Arc<Numbers>,
    telemetry: Telemetry,
}

impl Fixture {
    fn new(dir: &Path, conversations: usize) -> Self {
        let bounds = Bounds {
            ring_bytes: 1 << 20,
            keep: Keep {
                bytes: 1 << 20,
                dir: dir.into(),
            },
            window_bytes: 1 << 20,
            whole_bytes: 1 << 20,
            subscriptions: 1000,
        };
        let root: RootState = serde_json::from_value(json!({ "agents": [] })).unwrap();
        let core = Core::new(lodge_host::Counter::unkept(), root, bounds);
        let numbers = core.numbers.clone();
        let mut inner = Inner {
            core,
            conversations: HashMap::new(),
            subs: HashMap::new(),
            terminals: Terminals::new(0),
            followers: Followers::default(),
        };
        for at in 0..conversations {
            open(&mut inner, at);
        }
        let fixture = Self {
            state: State::new(inner),
            numbers,
            telemetry: Telemetry::new([]),
        };
        for at in 0..conversations {
            let said = UserMessage {
                message_id: Some(format!("turn-{at}")),
                ..UserMessage::default()
            };
            fixture.show(at, &Event::new(None, None, said));
            // The part that deltas continue.
            fixture.show(at, &delta("."));
        }
        fixture
    }

    /// The way of everything but deltas.
    fn show(&self, at: usize, event: &Event) {
        let mut inner = self.state.lock();
        let chat = chat(at);
        let steps = inner.conversations.get_mut(&chat).unwrap().projector_mut().event(event);
        inner.apply_steps(&chat, steps, None);
    }

    fn feed(&self, at: usize) -> Handle<Feed> {
        self.state.lock().conversations[&chat(at)].stream()
    }

    /// How many of the events go past the state.
    fn stream(&self, feed: &Handle<Feed>, events: &[Event]) -> usize {
        let sending = Sending {
            numbers: &self.numbers,
            ring_bytes: 1 << 20,
            telemetry: &self.telemetry,
        };
        feed.with(|feed| feed.stream(&sending, events)).unwrap_or(0)
    }

    /// A new client that listens to these conversations, and what it was given.
    fn listen(&self, id: u64, conversations: impl Iterator<Item = usize>) -> Listener {
        let conn = Arc::new(Conn::new(id, 1 << 30, Admission::owner()));
        let mut inner = self.state.lock();
        let snapshots = conversations.map(|at| {
            let snapshot = inner.core.subscribe(&conn, &Peer::host(), &chat(at), None);
            serde_json::from_str(snapshot.unwrap().unwrap().get()).unwrap()
        });
        let snapshots = snapshots.collect();
        Listener { conn, snapshots }
    }

    fn text(&self, at: usize) -> String {
        let inner = self.state.lock();
        let turn = inner.core.chats[&chat(at)].store().head().active_turn.clone();
        text_of(&serde_json::to_value(turn).unwrap())
    }
}

struct Listener {
    conn: Arc<Conn>,
    snapshots: Vec<Value>,
}

impl Listener {
    /// What this client makes of its snapshot of a conversation and the actions that it was sent after it. Its numbers
    /// only go up.
    fn text(&self, frames: &[Value], snapshot: &Value) -> String {
        let mut text = text_of(&snapshot["state"]["activeTurn"]);
        let mut last = 0;
        for envelope in frames {
            let number = envelope["serverSeq"].as_u64().unwrap();
            assert!(number > last, "{number} after {last}");
            last = number;
            if envelope["channel"] == snapshot["resource"] && envelope["action"]["type"] == "chat/delta" {
                assert!(number > snapshot["fromSeq"].as_u64().unwrap());
                text.push_str(envelope["action"]["content"].as_str().unwrap());
            }
        }
        text
    }

    fn frames(&self) -> Vec<Value> {
        let mut queued = VecDeque::new();
        let _ = self.conn.take(&mut queued).now_or_never();
        let frames = queued.into_iter().map(|queued| match queued {
            Queued::Frame(frame) => serde_json::from_str::<Value>(frame.as_str()).unwrap()["params"].take(),
            Queued::Large(..) => panic!("nobody asked for anything large"),
        });
        frames.collect()
    }
}

fn text_of(turn: &Value) -> String {
    turn["responseParts"][0]["content"].as_str().unwrap().to_owned()
}

fn chat(at: usize) -> Uri {
    format!("ahp-chat:/{at}").into()
}

fn open(inner: &mut Inner, at: usize) {
    let (session, chat): (Uri, Uri) = (format!("ahp-session:/{at}").into(), chat(at));
    let head = chat_state(&chat, String::new(), ChatOrigin::User);
    let state: SessionState = serde_json::from_value(json!({
        "provider": "lodge", "title": "", "status": 1, "lifecycle": "ready", "activeClients": [],
        "chats": [summary_of(&head)],
    }))
    .unwrap();
    let entry = SessionEntry::new(state, None, head.modified_at.clone(), chat.clone());
    let keep = inner.core.bounds.keep.clone();
    inner.core.insert_session(session.clone(), entry);
    let store = ChatStore::new(head, keep);
    inner.core.insert_chat(chat.clone(), session.clone(), store);
    let feed = Feed::new(session.clone(), Projector::default());
    let feed = inner.core.lend(chat.clone(), feed);
    let (effects, _) = mpsc::unbounded_channel();
    let (born, id) = (session.clone(), at.to_string());
    let talk = Conversation::new(session, born, id, feed, effects, None, Shown::default());
    inner.conversations.insert(chat, talk);
}

#[test]
fn a_delta_waits_for_nobody_who_holds_the_state_unless_they_look_at_its_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(dir.path(), 2);
    let (feed, listener) = (fixture.feed(0), fixture.listen(1, 0..1));
    let before = fixture.text(0);
    {
        let state = fixture.state.lock();
        assert_eq!(fixture.stream(&feed, &[delta("a"), delta("b")]), 2);
        assert_eq!(listener.frames().len(), 2);
        // Who looks at another conversation is not in the way either.
        assert!(state.core.chats[&chat(1)].store().head().active_turn.is_some());
        assert_eq!(fixture.stream(&feed, &[delta("c")]), 1);
        assert!(state.core.chats[&chat(0)].store().head().active_turn.is_some());
        assert_eq!(fixture.stream(&feed, &[delta("d")]), 0);
    }
    assert_eq!(fixture.stream(&feed, &[delta("d")]), 1);
    assert_eq!(fixture.text(0), before + "abcd");
    fixture.state.lock().remove_session("ahp-session:/0");
    assert_eq!(fixture.stream(&feed, &[delta("e")]), 0);
}

#[test]
fn only_what_continues_a_text_goes_past_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(dir.path(), 1);
    let feed = fixture.feed(0);
    assert_eq!(
        fixture.stream(&feed, &[delta("a"), delta_of("another", "b"), delta("c")]),
        1
    );
}

#[test]
fn snapshots_and_deltas_fit_together_whatever_else_is_done_to_the_state() {
    const CONVERSATIONS: usize = 4;
    const DELTAS: usize = 2000;
    let dir = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(dir.path(), CONVERSATIONS);
    let first = fixture.listen(1, 0..CONVERSATIONS);
    let mut listeners = thread::scope(|scope| {
        for at in 0..CONVERSATIONS {
            let fixture = &fixture;
            scope.spawn(move || {
                let feed = fixture.feed(at);
                for number in 0..DELTAS {
                    let event = delta(&format!("{number} "));
                    if fixture.stream(&feed, std::slice::from_ref(&event)) == 0 {
                        fixture.show(at, &event);
                    }
                }
            });
        }
        let late = (2..200).map(|id| fixture.listen(id, (0..CONVERSATIONS).filter(|at| id % 3 != *at as u64)));
        late.collect::<Vec<_>>()
    });
    listeners.push(first);
    for listener in &listeners {
        let frames = listener.frames();
        for snapshot in &listener.snapshots {
            let resource = snapshot["resource"].as_str().unwrap();
            let at = (0..CONVERSATIONS).find(|at| *chat(*at) == *resource).unwrap();
            assert_eq!(listener.text(&frames, snapshot), fixture.text(at));
        }
    }
}
