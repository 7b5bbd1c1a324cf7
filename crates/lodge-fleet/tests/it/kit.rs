//! What these tests share.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use lodge_fleet::{
    Access, Announcement, Fleet, FleetError, Host, Intent, MovingFiles, Options, SyncCheck, Tip, Writer,
};
use testkit::nats::Cluster;

/// Settings for a cluster of the tests: few shards, because each is a group of servers of its own.
pub(crate) fn options(cluster: &Cluster) -> Options {
    Options {
        system: Access::new(cluster.system_urls()),
        shards: 2,
        patience: Duration::from_secs(60),
        ..Options::new(cluster.urls())
    }
}

/// As [`options`], by other addresses, and without asking the servers how they are set up.
pub(crate) fn options_by(urls: Vec<String>) -> Options {
    Options {
        sync: SyncCheck::Skipped,
        shards: 2,
        patience: Duration::from_secs(60),
        ..Options::new(urls)
    }
}

pub(crate) async fn host(fleet: &Fleet, name: &str) -> Host {
    host_of(fleet, name, "").await
}

/// A host that serves this home.
pub(crate) async fn host_of(fleet: &Fleet, name: &str, home: &str) -> Host {
    let announcement = Announcement {
        name: name.into(),
        version: "0".into(),
        home: home.into(),
        ..Announcement::default()
    };
    Host::join(fleet, announcement).await.expect("the host joins")
}

/// Somebody who may do everything at the servers.
pub(crate) async fn control(cluster: &Cluster) -> async_nats::Client {
    let control = async_nats::ConnectOptions::with_user_and_password("lodge".into(), "lodge".into());
    control.connect(cluster.urls()).await.expect("the servers run")
}

/// Asks JetStream for something, which it has to do.
pub(crate) async fn api(control: &async_nats::Client, subject: &str, body: serde_json::Value) -> serde_json::Value {
    let subject = format!("$JS.API.{subject}");
    let answer = control
        .request(subject.clone(), body.to_string().into())
        .await
        .expect("an answer");
    let answer: serde_json::Value = serde_json::from_slice(&answer.payload).expect("JSON");
    assert!(answer["error"].is_null(), "{subject}: {answer}");
    answer
}

pub(crate) async fn create(host: &Host, session: &str) -> Writer {
    let taken = host.take(session, Intent::Create, Tip::START, |_| Ok(())).await;
    taken.unwrap_or_else(|error| panic!("{session} cannot be created: {error}"))
}

pub(crate) async fn open(host: &Host, session: &str) -> Result<Writer, FleetError> {
    host.take(session, Intent::Open, Tip::START, |_| Ok(())).await
}

/// What moves with a session in these tests: all but its log.
pub(crate) const MOVING: MovingFiles = MovingFiles {
    list: listed,
    list_telling: listed,
    belongs,
};

pub(crate) fn listed(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let way = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && belongs(&way) {
                found.insert(way, path);
            }
        }
    }
    found
}

fn belongs(way: &str) -> bool {
    !way.starts_with("events.") && way != "fleet.joined"
}

/// An event as the log sees one.
pub(crate) fn event(text: &str) -> Bytes {
    serde_json::json!({ "id": text }).to_string().into()
}

/// All events of a session, as texts.
pub(crate) async fn events(fleet: &Fleet, session: &str) -> Vec<String> {
    let reader = fleet
        .log(session)
        .unwrap()
        .read(Tip::START)
        .await
        .expect("the log is there");
    let (events, _) = reader.events().await.expect("the log is whole");
    events.iter().map(text).collect()
}

/// The text that an event was made from.
pub(crate) fn text(event: &Bytes) -> String {
    let value: serde_json::Value = serde_json::from_slice(event).expect("an event is JSON");
    value["id"].as_str().unwrap_or_default().to_owned()
}
