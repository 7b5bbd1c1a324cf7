//! What hosts believe of sessions that is not so any more, and what was left half done.

use lodge_fleet::{Announcement, Fleet, Host as Member, Intent, Options, SyncCheck, Tip};
use serde_json::json;
use testkit::{Home, nats::Cluster};

use super::{begin, elsewhere::start, serve, until};
use crate::accepted::Client;

async fn connect(cluster: &Cluster) -> Fleet {
    let options = Options {
        sync: SyncCheck::Skipped,
        ..Options::new(cluster.urls())
    };
    Fleet::connect(&options).await.expect("the fleet is there")
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
