//! A host whose sessions are also stored elsewhere, where other hosts may have them.

use std::{
    collections::{HashMap, HashSet},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use lodge_events::{Payload, SessionScheduleCreated, Timestamp};
use lodge_host::{
    Clock, Described, HostError, Keeper, KeeperCounts, Kept, LOG_FILE, Link, Listed, NewSession, Remote, RemoteLog,
    Wire,
};
use lodge_log::FileStore;
use serde_json::json;
use tokio::sync::{Mutex, watch};

use crate::kit::{self, House, ROOT, uuid};

/// What is elsewhere, as the tests have it.
#[derive(Clone)]
struct Elsewhere {
    /// Whether events are stored at once.
    stores: Arc<watch::Sender<bool>>,
    /// Whether it is asked to store events while it does not.
    waits: Arc<watch::Sender<bool>>,
    /// Sessions of which nobody says who has them, while this is locked.
    unknown: Arc<Mutex<HashSet<String>>>,
    /// Sessions that another host uses.
    used: Arc<parking_lot::Mutex<HashSet<String>>>,
    /// Whether nobody can say which sessions other hosts use.
    silent: Arc<AtomicBool>,
    /// The session of which it was asked last whether another host has it.
    asked_for: Arc<watch::Sender<String>>,
}

impl Default for Elsewhere {
    fn default() -> Self {
        Self {
            stores: Arc::new(watch::Sender::new(true)),
            waits: Arc::default(),
            unknown: Arc::default(),
            used: Arc::default(),
            silent: Arc::default(),
            asked_for: Arc::default(),
        }
    }
}

impl RemoteLog for Elsewhere {
    fn append<'a>(
        &'a mut self,
        _events: &'a [lodge_events::Event],
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(async {
            let mut stores = self.stores.subscribe();
            self.waits.send_replace(!*stores.borrow());
            let _ = stores.wait_for(|stores| *stores).await;
            self.waits.send_replace(false);
            Ok(())
        })
    }

    fn verify(&mut self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Elsewhere {
    fn remote(&self) -> Remote {
        Remote {
            log: Box::new(self.clone()),
            term: Box::new(|| Some(1)),
            taken_in: 1,
        }
    }

    async fn until_it_was_asked_for(&self, id: &str) {
        let mut asked_for = self.asked_for.subscribe();
        asked_for.wait_for(|asked| asked == id).await.expect("it is there");
    }

    async fn until_it_waits(&self) {
        let mut waits = self.waits.subscribe();
        waits.wait_for(|waits| *waits).await.expect("it is there");
    }
}

impl Keeper for Elsewhere {
    fn create<'a>(&'a self, _: &'a str, _: &'a Arc<FileStore>) -> BoxFuture<'a, Result<Remote, HostError>> {
        Box::pin(async { Ok(self.remote()) })
    }

    fn open<'a>(&'a self, _: &'a str, _: &'a Arc<FileStore>) -> BoxFuture<'a, Result<Remote, HostError>> {
        Box::pin(async { Ok(self.remote()) })
    }

    fn way_to<'a>(&'a self, id: &'a str, _: Wire) -> BoxFuture<'a, Result<Option<Box<dyn Link>>, HostError>> {
        Box::pin(async move {
            match self.unknown.lock().await.contains(id) {
                true => Err(HostError::Invalid("nobody has it".into())),
                false => Ok(None),
            }
        })
    }

    fn way_for<'a>(&'a self, _: &'a str, _: Wire) -> BoxFuture<'a, Result<Option<Box<dyn Link>>, HostError>> {
        Box::pin(async { Ok(None) })
    }

    fn is_free<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, HostError>> {
        Box::pin(async move {
            let free = !self.used.lock().contains(id);
            self.asked_for.send_replace(id.to_owned());
            match self.silent.load(Ordering::Relaxed) {
                true => Err(HostError::Invalid("nobody answers".into())),
                false => Ok(free),
            }
        })
    }

    fn read<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Vec<lodge_events::Event>>, HostError>> {
        Box::pin(async { Ok(None) })
    }

    fn check_unused<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), HostError>> {
        Box::pin(async move {
            match self.used.lock().contains(id) {
                true => Err(HostError::Invalid("another host uses it".into())),
                false => Ok(()),
            }
        })
    }

    fn kept(&self) -> BoxFuture<'_, Result<HashMap<String, Kept>, HostError>> {
        Box::pin(async { Ok(HashMap::new()) })
    }

    fn kept_of<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Kept>, HostError>> {
        Box::pin(async { Ok(None) })
    }

    fn delete<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<bool, HostError>> {
        Box::pin(async { Ok(true) })
    }

    fn counts(&self) -> KeeperCounts {
        KeeperCounts::default()
    }
}

fn new_in(house: &House) -> NewSession {
    NewSession {
        cwd: Some(house.work()),
        ..NewSession::default()
    }
}

async fn kept_house() -> (House, Elsewhere) {
    let elsewhere = Elsewhere::default();
    (
        kit::house_kept(Arc::new(elsewhere.clone()), Clock::default()).await,
        elsewhere,
    )
}

#[tokio::test]
async fn nobody_hears_of_an_answer_before_it_is_stored() {
    let (house, elsewhere) = kept_house().await;
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    let (session, chat) = a.session(&uuid(1)).await;
    for uri in [&session, &chat] {
        b.subscribe(uri).await;
    }
    a.say(&chat, "t1", r#"call bash {"command":"touch made"} then say done"#)
        .await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    b.action("chat/toolCallReady").await;
    elsewhere.stores.send_replace(false);
    let confirmed = json!({
        "type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": ready["toolCallId"], "approved": true,
    });
    let seq = a.dispatch(&chat, confirmed).await;
    elsewhere.until_it_waits().await;
    for client in [&mut a, &mut b] {
        let heard = client.drain().await;
        let answers = |message: &&serde_json::Value| message["params"]["action"]["type"] == "chat/toolCallConfirmed";
        assert_eq!(heard.iter().find(answers), None);
    }
    assert!(!house.work().join("made").exists());
    elsewhere.stores.send_replace(true);
    let verdict = a.verdict(seq).await;
    assert_eq!(verdict.get("rejectionReason"), None, "{verdict}");
    b.action("chat/toolCallConfirmed").await;
    for client in [&mut a, &mut b] {
        client.ends(&chat, "t1").await;
    }
    assert!(house.work().join("made").exists());
}

#[tokio::test]
async fn a_chat_is_made_and_moved_when_the_logs_have_it() {
    let (house, elsewhere) = kept_house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.turn(&chat, "t1", "say Hello.").await;
    let to = json!({ "kind": "session", "session": session });
    let made = [
        ("createChat", json!({ "channel": session, "chat": "ahp-chat:/x" })),
        ("moveChat", json!({ "channel": "ahp-chat:/x", "destination": to })),
    ];
    for (method, params) in made {
        a.drain().await;
        elsewhere.stores.send_replace(false);
        let id = a.start(method, params).await;
        elsewhere.until_it_waits().await;
        let heard = a.drain().await;
        assert!(heard.iter().all(|message| message["id"] != id), "{method}: {heard:?}");
        elsewhere.stores.send_replace(true);
        a.response(id).await.unwrap_or_else(|error| panic!("{method}: {error}"));
    }
}

#[tokio::test]
async fn looking_for_the_host_of_one_session_keeps_nobody_from_another() {
    let (house, elsewhere) = kept_house().await;
    let mut a = house.client("a").await;
    let (lost, _) = a.session(&uuid(1)).await;
    let (session, chat) = a.session(&uuid(2)).await;
    a.turn(&chat, "t1", "say Hello.").await;
    assert!(house.host.close(&uuid(1)).await);

    let mut unknown = elsewhere.unknown.lock().await;
    unknown.insert(uuid(1));
    let of_lost = |number: u64| json!({ "channel": lost, "number": number });
    let first = a.start("subscribe", of_lost(1)).await;
    let second = a.start("subscribe", of_lost(2)).await;
    // Meanwhile, everything else goes on.
    a.turn(&chat, "t2", "say Here.").await;
    a.subscribe(&session).await;
    a.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
    let heard = a.drain().await;
    assert!(
        heard
            .iter()
            .all(|message| message["id"] != first && message["id"] != second)
    );
    // And it is answered in order.
    drop(unknown);
    for id in [first, second] {
        let answer = a.until(|message| message.get("id").is_some()).await;
        assert_eq!(answer["id"], id);
        assert!(
            answer["error"]["message"].as_str().unwrap().contains("nobody has it"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn nothing_of_a_session_is_deleted_while_another_host_uses_it() {
    let (house, elsewhere) = kept_house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.turn(&chat, "t1", "say Hello.").await;
    a.request("createChat", json!({ "channel": session, "chat": "ahp-chat:/x" }))
        .await
        .unwrap();
    let chats = house.host.chats_of(&uuid(1)).await.unwrap();
    let [further] = &chats[..] else { panic!("{chats:?}") };
    for used in [&uuid(1), &further.id] {
        elsewhere.used.lock().insert(used.clone());
        assert!(house.host.delete(&uuid(1)).await.is_err());
        elsewhere.used.lock().clear();
        for id in [&uuid(1), &further.id] {
            assert!(house.host.summary(id).unwrap().is_some(), "{id} is gone");
        }
    }
    house.host.delete(&uuid(1)).await.unwrap();
    assert!(house.host.summary(&further.id).unwrap().is_none());
}

#[tokio::test]
async fn what_is_due_while_nobody_can_say_who_has_the_session_is_sent_later() {
    let elsewhere = Elsewhere::default();
    let mut now = Timestamp::now();
    let clock = Clock::by_hand(now);
    let house = kit::house_kept(Arc::new(elsewhere.clone()), clock.clone()).await;
    house.host.keep_schedules();
    let session = house.host.create(new_in(&house)).await.unwrap();
    let id = session.id().to_owned();
    let scheduled = SessionScheduleCreated {
        interval_ms: Some(600_000),
        recurring: Some(true),
        prompt: "say tick".into(),
        ..SessionScheduleCreated::default()
    };
    session.schedule(scheduled).await.unwrap();
    drop(session);
    assert!(house.host.close(&id).await);
    let said = || {
        let events = house.host.read(&id).unwrap().events();
        let said = events.filter(|event| matches!(event.as_ref().unwrap().payload(), Payload::UserMessage(_)));
        said.count()
    };
    elsewhere.silent.store(true, Ordering::Relaxed);
    while *elsewhere.asked_for.borrow() != id {
        now += Duration::from_secs(60);
        clock.set(now);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(said(), 0);
    elsewhere.silent.store(false, Ordering::Relaxed);
    while said() == 0 {
        now += Duration::from_secs(60);
        clock.set(now);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_a_session_scheduled_is_sent_by_another_host_when_its_own_is_gone() {
    // Its own host, which ends.
    let begun = Timestamp::now();
    let own = kit::house_at(&begun.to_string()).await;
    let session = own.host.create(new_in(&own)).await.unwrap();
    let id = session.id().to_owned();
    let scheduled = SessionScheduleCreated {
        interval_ms: Some(600_000),
        recurring: Some(true),
        prompt: "say tick".into(),
        ..SessionScheduleCreated::default()
    };
    let due = session.schedule(scheduled).await.unwrap().next_run.unwrap();
    drop(session);
    assert!(own.host.close(&id).await);

    // Another host, which has nothing but the log and what the first one said.
    let elsewhere = Elsewhere::default();
    let clock = Clock::by_hand(begun);
    let house = kit::house_kept(Arc::new(elsewhere.clone()), clock.clone()).await;
    let log = |house: &House| house.dir.path().join("home/session-state").join(&id);
    std::fs::create_dir_all(log(&house)).unwrap();
    std::fs::copy(log(&own).join(LOG_FILE), log(&house).join(LOG_FILE)).unwrap();
    house.host.keep_schedules();
    let described = |due: Timestamp| Described {
        listed: Listed::made(&id, begun),
        next_due: Some(due.as_millisecond()),
        ..Described::default()
    };
    house.host.take_in_described(described(due), true);

    // While its host lives, that one sends it.
    elsewhere.used.lock().insert(id.clone());
    clock.set(due + Duration::from_secs(40));
    elsewhere.until_it_was_asked_for(&id).await;
    assert!(house.host.live(&id).is_none());
    elsewhere.used.lock().clear();
    clock.set(due + Duration::from_secs(80));
    let said = || {
        let events = house.host.read(&id).unwrap().events();
        let texts = events.filter_map(|event| match event.unwrap().payload() {
            Payload::UserMessage(message) => Some(message.content.clone()),
            _ => None,
        });
        texts.collect::<Vec<String>>()
    };
    while said().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(said(), ["say tick"]);
    // From now on it is this host's.
    clock.set(due + Duration::from_secs(610));
    while said().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
