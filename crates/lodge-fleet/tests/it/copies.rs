//! The copy of a log in a host's home.

use std::{fs, sync::Arc};

use lodge_events::{Event, LodgeRewound, SessionInfo, Uuid};
use lodge_fleet::{Fleet, FleetError};
use lodge_log::{FileStore, Home, HomeOptions, Position, Store as _};
use testkit::nats::{Cluster, Settings};

use crate::kit::{self, MOVING, create, host, open};

/// A home of its own, with a store.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    home: Home,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path(), HomeOptions::default()).unwrap();
        Self { dir, home }
    }

    pub(crate) fn files(&self) -> &Arc<FileStore> {
        self.home.sessions()
    }

    /// Writes some events to a log that may be there.
    pub(crate) fn write(&self, session: &str, texts: &[&str]) -> Vec<Event> {
        let mut log = match self.files().exists(session).unwrap() {
            true => self.files().open(session).unwrap().log,
            false => self.files().create(session).unwrap(),
        };
        let events = chain(log.last_id(), texts);
        log.append_all(&events).unwrap();
        events
    }

    pub(crate) fn read(&self, session: &str) -> Vec<String> {
        let events = self.files().read(session, Position::START, Position::END).unwrap();
        events.events().map(|event| text(&event.unwrap())).collect()
    }

    fn log_file(&self, session: &str) -> std::path::PathBuf {
        self.dir.path().join("session-state").join(session).join("events.jsonl")
    }
}

fn chain(mut head: Option<Uuid>, texts: &[&str]) -> Vec<Event> {
    let mut events = Vec::new();
    for text in texts {
        let info = SessionInfo {
            message: (*text).into(),
            ..SessionInfo::default()
        };
        let event = Event::new(head, None, info);
        head = Some(event.id());
        events.push(event);
    }
    events
}

fn text(event: &Event) -> String {
    event
        .get::<SessionInfo>()
        .map(|info| info.message.clone())
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_brought_up_to_date_mended_or_refused_and_never_skips() {
    let settings = Settings {
        servers: 1,
        sync_always: true,
    };
    let Some(cluster) = Cluster::start_with(settings).await else {
        return;
    };
    let options = lodge_fleet::Options {
        replicas: 1,
        ..kit::options(&cluster)
    };
    let fleet = Fleet::connect(&options).await.unwrap();
    let host = host(&fleet, "one").await;
    let (here, there) = (Place::new(), Place::new());

    // A log that was never in the fleet is brought into it, also when that was interrupted.
    let events = here.write("s", &["1", "2", "3"]);
    let mut writer = create(&host, "s").await;
    writer.append(&[events[0].json().clone()]).await.unwrap();
    host.release(writer).await.unwrap();
    let (mut writer, _) = host
        .open_with_copy("s", here.files(), MOVING)
        .await
        .expect("the rest is brought");
    assert_eq!(writer.tip().events(), 3);

    // Another home gets all of it, and later what is missing.
    let more = chain(Some(events[2].id()), &["4"]);
    writer.append(&[more[0].json().clone()]).await.unwrap();
    let (mut writer, _) = host
        .open_with_copy("s", there.files(), MOVING)
        .await
        .expect("all is fetched");
    assert_eq!(there.read("s"), ["1", "2", "3", "4"]);
    let more = chain(Some(more[0].id()), &["5", "6"]);
    let lines: Vec<_> = more.iter().map(|event| event.json().clone()).collect();
    writer.append(&lines).await.unwrap();
    host.open_with_copy("s", here.files(), MOVING)
        .await
        .expect("the end is fetched");
    assert_eq!(here.read("s"), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(fs::read(here.log_file("s")).unwrap()[..], {
        host.open_with_copy("s", there.files(), MOVING).await.unwrap();
        fs::read(there.log_file("s")).unwrap()
    });

    // One that has more than the fleet is refused, and left as it is.
    here.write("s", &["never acknowledged"]);
    let refused = host
        .open_with_copy("s", here.files(), MOVING)
        .await
        .expect_err("the fleet does not have it");
    assert!(matches!(refused, FleetError::Diverged { event: 6, .. }), "{refused}");
    assert_eq!(here.read("s").len(), 7);

    // One that a failing disk has changed is set aside, and the fleet's log takes its place.
    let log = fs::read_to_string(there.log_file("s")).unwrap();
    let beside = there.log_file("s").with_file_name("events.note");
    fs::write(&beside, "this machine's alone").unwrap();
    for damaged in [
        log.replacen("\"message\":\"3\"", "\"message\":\"x\"", 1),
        log.replacen("\"message\":\"2\"", "\"message\":\"2", 1),
        log[..log.len() - 20].to_owned(),
    ] {
        fs::write(there.log_file("s"), &damaged).unwrap();
        let (writer, _) = host
            .open_with_copy("s", there.files(), MOVING)
            .await
            .expect("it is mended");
        assert_eq!(there.read("s"), ["1", "2", "3", "4", "5", "6"]);
        assert_eq!(fs::read_to_string(there.log_file("s")).unwrap(), log);
        host.release(writer).await.unwrap();
    }
    assert_eq!(fs::read_to_string(&beside).unwrap(), "this machine's alone");
    let aside = fs::read_to_string(there.log_file("s").with_file_name("events.differs.jsonl")).unwrap();
    assert!(aside.contains("\"message\":\"1\""), "{aside}");

    // What was deleted in the fleet is not brought back by a copy.
    let writer = open(&host, "s").await.unwrap();
    writer.delete().await.unwrap();
    let refused = host
        .open_with_copy("s", there.files(), MOVING)
        .await
        .expect_err("it was deleted");
    assert!(matches!(refused, FleetError::Deleted { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_is_fetched_in_parts_and_a_rewind_counts_in_all_of_them() {
    let settings = Settings {
        servers: 1,
        sync_always: true,
    };
    let Some(cluster) = Cluster::start_with(settings).await else {
        return;
    };
    let options = lodge_fleet::Options {
        replicas: 1,
        ..kit::options(&cluster)
    };
    let fleet = Fleet::connect(&options).await.unwrap();
    let host = host(&fleet, "one").await;
    let texts: Vec<String> = (0..10).map(|at| at.to_string().repeat(1 << 20)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let events = chain(None, &texts);
    let mut writer = create(&host, "s").await;
    for event in &events {
        writer.append(&[event.json().clone()]).await.unwrap();
    }
    // Back to before the second event, which is in an earlier part, and on from there.
    let rewound = LodgeRewound {
        up_to_event_id: events[1].id().to_string(),
        events_removed: 9,
        message_ids: None,
    };
    let rewind = Event::new(Some(events[0].id()), None, rewound);
    let last = chain(Some(events[0].id()), &["last"]).remove(0);
    writer.append(&[rewind.json().clone()]).await.unwrap();
    writer.append(&[last.json().clone()]).await.unwrap();
    host.release(writer).await.unwrap();
    let there = Place::new();
    for _ in 0..2 {
        let (writer, _) = host.open_with_copy("s", there.files(), MOVING).await.unwrap();
        assert_eq!(writer.tip().events(), 12);
        assert_eq!(there.read("s"), [texts[0], "last"]);
        host.release(writer).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_copy_was_compared_with_before_is_not_read_again() {
    let settings = Settings {
        servers: 1,
        sync_always: true,
    };
    let Some(cluster) = Cluster::start_with(settings).await else {
        return;
    };
    let options = lodge_fleet::Options {
        replicas: 1,
        shards: 1,
        ..kit::options(&cluster)
    };
    let fleet = Fleet::connect(&options).await.unwrap();
    let host = host(&fleet, "one").await;
    let (here, there) = (Place::new(), Place::new());
    let events = here.write("s", &["1", "2", "3"]);
    let (writer, _) = host.open_with_copy("s", here.files(), MOVING).await.unwrap();
    let compared = writer.tip().sequence();
    host.release(writer).await.unwrap();
    let mut writer = open(&host, "s").await.unwrap();
    let more = chain(Some(events[2].id()), &["4"]);
    writer.append(&[more[0].json().clone()]).await.unwrap();
    host.release(writer).await.unwrap();

    // The servers lose what is before that.
    let control = async_nats::ConnectOptions::with_user_and_password("lodge".into(), "lodge".into());
    let control = control.connect(cluster.urls()).await.unwrap();
    let lost = serde_json::json!({ "seq": compared, "filter": "lodge.ev.00.s" }).to_string();
    let answer = control
        .request("$JS.API.STREAM.PURGE.LODGE_EV_00", lost.into())
        .await
        .unwrap();
    assert!(
        String::from_utf8_lossy(&answer.payload).contains("\"success\":true"),
        "{answer:?}"
    );
    let refused = host.open_with_copy("s", there.files(), MOVING).await;
    assert!(matches!(refused, Err(FleetError::Damaged { .. })), "{refused:?}");
    let (writer, _) = host
        .open_with_copy("s", here.files(), MOVING)
        .await
        .expect("only what came later is read");
    assert_eq!(here.read("s"), ["1", "2", "3", "4"]);
    host.release(writer).await.unwrap();

    // A copy that changed since is compared with everything.
    let log = fs::read_to_string(here.log_file("s")).unwrap();
    let damaged = log.replacen("\"message\":\"2\"", "\"message\":\"x\"", 1);
    fs::write(here.log_file("s"), damaged).unwrap();
    let refused = host.open_with_copy("s", here.files(), MOVING).await;
    assert!(matches!(refused, Err(FleetError::Damaged { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_session_joins_again_with_its_files_when_the_one_of_the_fleet_was_deleted() {
    let settings = Settings {
        servers: 1,
        sync_always: true,
    };
    let Some(cluster) = Cluster::start_with(settings).await else {
        return;
    };
    let options = lodge_fleet::Options {
        replicas: 1,
        ..kit::options(&cluster)
    };
    let fleet = Fleet::connect(&options).await.unwrap();
    let (one, two) = (host(&fleet, "one").await, host(&fleet, "two").await);
    let (here, plain) = (Place::new(), Place::new());
    here.write("s", &["1", "2"]);
    let (writer, _) = one.open_with_copy("s", here.files(), MOVING).await.unwrap();
    fleet.export("s", plain.files(), MOVING).await.unwrap();
    let plan = plain.log_file("s").with_file_name("plan.md");
    fs::write(&plan, "the plan").unwrap();
    let deleted = writer.tip().epoch();
    writer.delete().await.unwrap();

    // Somebody else began to make one of the same id, and went no further.
    two.release(create(&two, "s").await).await.unwrap();
    let joined = one.open_with_copy("s", plain.files(), MOVING).await;
    let (mut writer, mut files) = joined.expect("it is a session of its own");
    assert!(writer.owner().epoch > deleted);
    assert_eq!(writer.tip().events(), 2);
    assert_eq!(fs::read_to_string(&plan).unwrap(), "the plan");
    files.sync(&mut writer, true).await.unwrap();
    one.release(writer).await.unwrap();
    two.open_with_copy("s", Place::new().files(), MOVING)
        .await
        .expect("it is in the fleet");
}
