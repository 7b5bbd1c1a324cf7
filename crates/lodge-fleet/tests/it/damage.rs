//! Messages that one server's disk has damaged.

use bytes::Bytes;
use lodge_fleet::{Fleet, FleetError, Tip};
use serde_json::json;
use testkit::nats::Cluster;

use crate::kit::{self, create, event, host, open, text};

/// What is damaged: an event, and a part of one that is kept beside the log.
const MIDDLE: &str = "an event in the middle";
const LARGE: &str = "the beginning of something large";
const LAST: &str = "the last event";

/// Reads so often that each server answers in each role.
const READS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn what_one_server_has_damaged_is_read_from_another_and_what_all_have_is_reported() {
    let Some(mut cluster) = Cluster::start().await else {
        return;
    };
    let fleet = Fleet::connect(&kit::options(&cluster)).await.unwrap();
    let one = host(&fleet, "one").await;
    let mut writer = create(&one, "s").await;
    let large = format!("{LARGE}{}", "x".repeat(1 << 20));
    let written = ["first", MIDDLE, "third", &large, "fifth"];
    for text in written {
        writer.append(&[event(text)]).await.unwrap();
    }
    one.release(writer).await.unwrap();

    cluster.damage(0, "LODGE_EV", &[MIDDLE, LARGE]).await;
    let mut writer = open(&one, "s").await.expect("it opens");
    writer.append(&[event(LAST)]).await.unwrap();
    one.release(writer).await.unwrap();

    // Whichever server leads, also one that cannot tell where the log ends.
    cluster.damage(0, "LODGE_EV", &[LAST]).await;
    for _ in 0..READS {
        let events = read(&fleet).await.expect("two servers have all of it");
        let texts: Vec<String> = events.iter().map(text).collect();
        assert!(texts[..5] == written && texts[5..] == [LAST]);
        lead(&cluster, None).await;
    }
    lead(&cluster, Some("server-0")).await;
    let mut writer = open(&one, "s").await.expect("another server leads");
    writer.append(&[event("once more")]).await.unwrap();
    for server in [1, 2] {
        cluster.damage(server, "LODGE_EV", &[MIDDLE]).await;
    }
    let refused = read(&fleet).await.expect_err("nobody has it any more");
    assert!(matches!(refused, FleetError::Damaged { .. }), "{refused}");
}

async fn read(fleet: &Fleet) -> Result<Vec<Bytes>, FleetError> {
    Ok(fleet.log("s").unwrap().read(Tip::START).await?.events().await?.0)
}

/// Has another server lead, or this one.
async fn lead(cluster: &Cluster, server: Option<&str>) {
    let control = kit::control(cluster).await;
    let body = server.map_or(json!({}), |server| json!({ "placement": { "preferred": server } }));
    for shard in ["00", "01"] {
        let subject = format!("$JS.API.STREAM.LEADER.STEPDOWN.LODGE_EV_{shard}");
        let _ = control.request(subject, body.to_string().into()).await;
    }
}
