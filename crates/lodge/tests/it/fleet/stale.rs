//! What hosts believe of sessions that is not so any more, and what was left half done.

use std::time::Duration;

use lodge_fleet::{Announcement, Fleet, Host as Member, Intent, Options, Reply, SyncCheck, Tip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Home, nats::Cluster};

use super::{
    begin,
    elsewhere::{start, start_by},
    nats::publish,
    serve, until,
};
use crate::{
    accepted::Client,
    orphans::{running, settle, unique},
    strangers::{Host, Sdk},
};

pub(super) async fn connect(cluster: &Cluster) -> Fleet {
    let options = Options {
        sync: SyncCheck::Skipped,
        ..Options::new(cluster.urls())
    };
    Fleet::connect(&options).await.expect("the fleet is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_its_host_could_not_release_is_released_when_another_host_asks() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (Home::new(), Home::new());
    let mut first = serve(&one, &cluster, "one");
    let mut second = serve(&two, &cluster, "two");
    let session = begin(&one, "say Here is one.");
    until(&two, &["sessions", "list"], |list| list.contains("Here is one"));
    let _ = two.run(["run", "--resume", &session, "say Here is two."]).ok();
    let _ = two.run(["serve", "--stop"]).ok();
    second.kill();

    // As if the servers had been away when the first host let it go: the host lives, and nothing there uses the session.
    let fleet = connect(&cluster).await;
    assert_eq!(fleet.owner(&session).await.unwrap(), None);
    let hosts = fleet.hosts().await.unwrap();
    let one_id = hosts.iter().find(|host| host.announcement.name == "one").unwrap();
    let log = fleet.log(&session).unwrap().read(Tip::START).await.unwrap();
    let (_, tip) = log.events().await.unwrap();
    let stuck = json!({ "host": one_id.id, "epoch": tip.epoch() });
    publish(&cluster, &format!("$KV.lodge-owners.{session}"), &stuck.to_string());
    while fleet.owner(&session).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut second = serve(&two, &cluster, "two");
    let said = two.run(["run", "--resume", &session, "say Two again."]).ok();
    assert!(said.stdout().contains("Two again."), "{}", said.stdout());
    first.kill();
    second.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_paused_tells_its_clients_that_another_has_their_session() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let mut app = Sdk::connect(&one);
    let new = json!({ "workingDirectory": one.home.work(), "requestPermission": true });
    let session = app.call("session.create", new).unwrap()["sessionId"].clone();
    let turn = |words: &str| json!({ "sessionId": session, "prompt": format!("say {words}") });
    app.call("session.send", turn("Here is one.")).unwrap();
    until(&two.home, &["sessions", "list"], |list| list.contains("Here is one"));

    let process = Pid::from_raw(one.running.id().cast_signed()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    tokio::time::sleep(lodge_fleet::LEASE + Duration::from_secs(2)).await;
    let mut other = Sdk::connect(&two);
    let resume = json!({ "sessionId": session, "requestPermission": true });
    other.call("session.resume", resume.clone()).unwrap();
    other.call("session.send", turn("Here is two.")).unwrap();
    kill_process(process, Signal::CONT).unwrap();

    // Nobody does anything there, and the app is told.
    let told = loop {
        let message = app.waiting.pop_front().unwrap_or_else(|| app.next());
        let event = &message["params"]["event"];
        if event["type"] == "session.error" {
            break event["data"]["message"].as_str().unwrap().to_owned();
        }
    };
    assert!(told.contains("another host has it now"), "{told}");
    // Who opens it again sees what was said meanwhile.
    app.call("session.resume", resume).unwrap();
    app.call("session.send", turn("From one again.")).unwrap();
    let is_said = |message: &Value| message["params"]["event"]["data"]["content"] == "From one again.";
    while !is_said(&other.waiting.pop_front().unwrap_or_else(|| other.next())) {}
}

/// An app of a host with a session whose command runs and runs, and has a descendant that left its group.
fn with_a_command(host: &Host, word: &str) -> (Sdk, Value) {
    let mut app = Sdk::connect(host);
    let new = json!({ "workingDirectory": host.home.work(), "requestPermission": true });
    let session = app.call("session.create", new).unwrap()["sessionId"].clone();
    let command = json!({ "command": format!("setsid sleep {word} & sleep {word}") });
    let prompt = format!("call bash {command} then say Done.");
    app.call("session.send", json!({ "sessionId": session, "prompt": prompt }))
        .unwrap();
    let asked = loop {
        let message = app.waiting.pop_front().unwrap_or_else(|| app.next());
        let event = &message["params"]["event"];
        if event["type"] == "permission.requested" {
            break event["data"]["requestId"].clone();
        }
    };
    let yes = json!({ "sessionId": session, "requestId": asked, "result": { "kind": "approve-once" } });
    app.call("session.permissions.handlePendingPermissionRequest", yes)
        .unwrap();
    settle("the command", word, 2);
    (app, session)
}

/// Another host has a session as soon as its owner's lease has run out.
fn taken_by(host: &Host, session: &Value) {
    let mut app = Sdk::connect(host);
    let resume = json!({ "sessionId": session, "requestPermission": true });
    app.call("session.resume", resume).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_host_that_is_stopped_end_before_another_has_their_session() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let word = unique();
    let (_app, session) = with_a_command(&one, &word);
    let process = Pid::from_raw(one.running.id().cast_signed()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    taken_by(&two, &session);
    assert_eq!(running(&word), 0, "the host is stopped, and its command goes on");
    kill_process(process, Signal::CONT).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_host_that_is_cut_off_end_before_another_has_their_session_and_later_ones_run() {
    let Some(cluster) = Cluster::start().await else { return };
    let (doors, urls) = cluster.doors().await;
    let (one, two) = (start_by(&cluster, &urls, "one"), start(&cluster, "two"));
    let word = unique();
    let (app, session) = with_a_command(&one, &word);
    for door in &doors {
        door.cut();
    }
    taken_by(&two, &session);
    assert_eq!(running(&word), 0, "the host is cut off, and its command goes on");
    drop(app);

    // Back among the others, it has another term.
    for door in &doors {
        door.heal();
    }
    until(&one.home, &["run", "say Back."], |said| said.contains("Back."));
    let made = one.home.work().join("made");
    let command = json!({ "command": format!("sleep 1; echo made > {}", made.display()) });
    let prompt = format!("call bash {command} then say Done.");
    let _ = one.home.run(["run", "--yolo", &prompt]).ok();
    assert!(made.exists(), "the guard ended a command of the next term");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_deletion_was_interrupted_can_be_deleted_on_any_host() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (Home::new(), Home::new());
    let mut first = serve(&one, &cluster, "one");
    let session = begin(&one, "say Here is one.");
    let mut second = serve(&two, &cluster, "two");
    until(&two, &["sessions", "list"], |list| list.contains("Here is one"));
    let _ = one.run(["serve", "--stop"]).ok();
    first.kill();

    // A host that deletes it dies before it has told the others.
    let fleet = connect(&cluster).await;
    let announcement = Announcement {
        name: "three".into(),
        ..Announcement::default()
    };
    let member = Member::join(&fleet, announcement).await.unwrap();
    let writer = member
        .take(&session, Intent::Open, Tip::START, |_| Ok(()))
        .await
        .unwrap();
    writer.delete().await.unwrap();
    member.leave().await.unwrap();
    assert!(two.run(["sessions", "list"]).stdout().contains("Here is one"));
    let _ = two.run(["sessions", "delete", "--yes", &session]).ok();
    until(&two, &["sessions", "list"], |list| !list.contains("Here is one"));
    second.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_another_version_keeps_its_session_until_it_leaves() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (Home::new(), Home::new());
    let mut first = serve(&one, &cluster, "one");
    let session = begin(&one, "say Here is one.");
    let _ = one.run(["serve", "--stop"]).ok();
    first.kill();

    // It understands nothing that it is asked, and its answers are not understood.
    let fleet = connect(&cluster).await;
    let announcement = Announcement {
        name: "later".into(),
        version: "99.0.0".into(),
        ..Announcement::default()
    };
    let later = Member::join(&fleet, announcement).await.unwrap();
    let mut requests = later.requests().await.unwrap();
    let answering = tokio::spawn(async move {
        while let Some((_, asker)) = requests.next().await {
            asker.answer(&Reply::Unknown).await;
        }
    });
    let writer = later
        .take(&session, Intent::Open, Tip::START, |_| Ok(()))
        .await
        .unwrap();
    let mut second = serve(&two, &cluster, "two");
    let refused = two.run(["run", "--resume", &session, "say Mine."]);
    assert!(!refused.status.success());
    assert!(refused.stderr.contains("later-"), "{}", refused.stderr);
    let mut doctor = two.command(["doctor"]);
    doctor
        .env("LODGE_FLEET", cluster.urls().join(","))
        .env("LODGE_FLEET_SYSTEM", cluster.system_urls().join(","));
    let printed = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
    assert!(
        printed.contains("version 99.0.0") && printed.contains("hosts of different versions"),
        "{printed}"
    );
    later.release(writer).await.unwrap();
    let said = two.run(["run", "--resume", &session, "say Mine."]).ok();
    assert!(said.stdout().contains("Mine."), "{}", said.stdout());
    answering.abort();
    second.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_another_host_is_not_taken_for_one_of_this() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let root = "ahp-root://";
    let hello = json!({ "channel": root, "protocolVersions": ["1.0.0"], "clientId": "me",
        "initialSubscriptions": [root] });
    let mut seen = Vec::new();
    for host in [&one, &two] {
        let mut client = Client::connect_raw(&host.ahp_url()).await;
        seen.push(
            client.request("initialize", hello.clone()).await["serverSeq"]
                .as_u64()
                .unwrap(),
        );
    }
    // It was with the second host last, and knows what that said up to there.
    for (number, kind) in [(seen[0], "snapshot"), (seen[1], "replay")] {
        let mut client = Client::connect_raw(&two.ahp_url()).await;
        let back = json!({ "channel": root, "clientId": "me", "lastSeenServerSeq": number, "subscriptions": [root] });
        assert_eq!(client.request("reconnect", back).await["type"], kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_server_is_down_hosts_start_and_the_fleet_can_be_looked_at_and_drained() {
    let Some(mut cluster) = Cluster::start().await else {
        return;
    };
    let (one, two) = (Home::new(), Home::new());
    let mut first = serve(&one, &cluster, "one");
    let session = begin(&one, "say Here is one.");
    cluster.kill(1);
    let mut second = serve(&two, &cluster, "two");
    let (servers, system) = (cluster.urls().join(","), cluster.system_urls().join(","));
    let fleet = |args: &[&str]| {
        let named = ["--fleet", &servers, "--fleet-system", &system];
        two.run(["fleet"].iter().chain(args).chain(&named)).ok()
    };
    let status = fleet(&["status"]);
    assert!(status.stdout().contains("one-"), "{}", status.stdout());
    let warning = "Warning: only server-0, server-2 of 3 NATS servers answered.";
    assert!(status.stderr.contains(warning), "{}", status.stderr);
    let listed = fleet(&["sessions"]).stdout();
    assert!(listed.contains(&session), "{listed}");
    let drained = fleet(&["drain", "one"]).stdout();
    assert!(drained.contains("has released all"), "{drained}");
    let said = two.run(["run", "--resume", &session, "say Here is two."]).ok();
    assert!(said.stdout().contains("Here is two."), "{}", said.stdout());
    first.kill();
    second.kill();
}
