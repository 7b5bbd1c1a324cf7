//! Which servers a fleet takes.

use std::time::Duration;

use lodge_fleet::{Access, Fleet, FleetError, Options, SyncCheck};
use serde_json::json;
use testkit::nats::{Cluster, Settings};

use crate::kit;

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_sync_late_are_refused_unless_told_otherwise() {
    let settings = Settings {
        servers: 1,
        sync_always: false,
    };
    let Some(cluster) = Cluster::start_with(settings).await else {
        return;
    };
    let options = Options {
        replicas: 1,
        ..kit::options(&cluster)
    };
    let refused = Fleet::connect(&options).await.expect_err("lazy servers are refused");
    assert!(matches!(refused, FleetError::LazySync { .. }), "{refused}");
    assert!(refused.to_string().contains("sync_interval: always"), "{refused}");

    let unknown = Options {
        system: Access::default(),
        ..options.clone()
    };
    let refused = Fleet::connect(&unknown).await.expect_err("nobody can tell");
    assert!(matches!(refused, FleetError::SyncUnknown { .. }), "{refused}");

    // A user who may not ask is no better.
    let powerless = Options {
        system: Access::new(cluster.urls()),
        ..options.clone()
    };
    let refused = Fleet::connect(&powerless).await.expect_err("nobody can tell");
    assert!(matches!(refused, FleetError::SyncUnknown { .. }), "{refused}");

    let told = Options {
        sync: SyncCheck::Skipped,
        ..options
    };
    Fleet::connect(&told).await.expect("who says so gets it");
}

/// All servers are there, and nobody has checked them.
async fn unchecked(cluster: &Cluster) {
    let options = Options {
        sync: SyncCheck::Skipped,
        ..kit::options(cluster)
    };
    Fleet::connect(&options).await.expect("three servers keep three copies");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_do_not_say_whether_they_sync_are_refused() {
    let Some(cluster) = Cluster::start().await else { return };
    unchecked(&cluster).await;
    cluster.pause(2);
    let hasty = Options {
        patience: Duration::from_secs(2),
        ..kit::options(&cluster)
    };
    let refused = Fleet::connect(&hasty).await.expect_err("one is silent");
    assert!(matches!(refused, FleetError::SyncUnknown { .. }), "{refused}");
    assert!(refused.to_string().contains("of 3 servers answered"), "{refused}");
    // One that is only late is waited for.
    let options = kit::options(&cluster);
    let connecting = tokio::spawn(async move { Fleet::connect(&options).await });
    cluster.resume(2);
    connecting.await.unwrap().expect("it says so in the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_checked_may_be_down_and_is_checked_when_it_comes_back() {
    let Some(mut cluster) = Cluster::start().await else {
        return;
    };
    unchecked(&cluster).await;
    cluster.kill(2);
    let hasty = Options {
        patience: Duration::from_secs(2),
        ..kit::options(&cluster)
    };
    let refused = Fleet::connect(&hasty).await.expect_err("nobody has seen the third");
    assert!(matches!(refused, FleetError::SyncUnknown { .. }), "{refused}");
    cluster.restart(2).await;
    let options = kit::options(&cluster);
    let fleet = Fleet::connect(&options).await.expect("all are there");
    cluster.kill(2);
    Fleet::connect(&options).await.expect("the third was checked before");
    fleet.check_again(&options).await.expect("it was checked before");
    cluster.kill(1);
    let refused = Fleet::connect(&hasty).await.expect_err("most are down");
    assert!(matches!(refused, FleetError::SyncUnknown { .. }), "{refused}");
    cluster.restart(1).await;
    cluster.restart_with(2, false).await;
    let refused = loop {
        match fleet.check_again(&options).await {
            // It is not among the others yet.
            Ok(()) => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(refused) => break refused,
        }
    };
    assert!(
        matches!(&refused, FleetError::LazySync { server } if server == "server-2"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_cannot_keep_three_copies_and_one_copy_is_not_enough() {
    let settings = Settings {
        servers: 1,
        sync_always: true,
    };
    let Some(cluster) = Cluster::start_with(settings).await else {
        return;
    };
    let wanted = Options {
        patience: Duration::from_secs(2),
        ..kit::options(&cluster)
    };
    let refused = Fleet::connect(&wanted)
        .await
        .expect_err("three copies need three servers");
    assert!(matches!(refused, FleetError::Refused { .. }), "{refused}");

    let single = Options {
        replicas: 1,
        ..wanted.clone()
    };
    Fleet::connect(&single).await.expect("who says so gets it");
    let refused = Fleet::connect(&wanted)
        .await
        .expect_err("the streams have one copy now");
    assert!(
        matches!(refused, FleetError::TooFewReplicas { found: 1, .. }),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_with_another_number_of_shards_are_refused() {
    let settings = Settings {
        servers: 1,
        sync_always: true,
    };
    let Some(cluster) = Cluster::start_with(settings).await else {
        return;
    };
    let two = Options {
        replicas: 1,
        ..kit::options(&cluster)
    };
    Fleet::connect(&two).await.expect("the first host decides");
    let four = Options { shards: 4, ..two };
    let refused = Fleet::connect(&four).await.expect_err("sessions would not be found");
    assert!(
        matches!(
            refused,
            FleetError::ForeignStream {
                field: "lodge.shards",
                ..
            }
        ),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_an_earlier_version_are_upgraded_and_those_of_a_later_one_are_left_alone() {
    let settings = Settings {
        servers: 1,
        sync_always: true,
    };
    let Some(cluster) = Cluster::start_with(settings).await else {
        return;
    };
    let options = Options {
        replicas: 1,
        ..kit::options(&cluster)
    };
    assert!(
        Fleet::upgrade(&options).await.unwrap().is_empty(),
        "there is nothing yet"
    );
    Fleet::connect(&options).await.unwrap();
    assert!(Fleet::upgrade(&options).await.unwrap().is_empty());
    let (control, owners) = (kit::control(&cluster).await, "KV_lodge-owners");
    let mut config = kit::api(&control, &format!("STREAM.INFO.{owners}"), json!({})).await["config"].take();

    // From before formats had a number and keys ran out.
    let mut earlier = config.clone();
    earlier["metadata"].as_object_mut().unwrap().remove("lodge.format");
    earlier["allow_msg_ttl"] = false.into();
    kit::api(&control, &format!("STREAM.DELETE.{owners}"), json!({})).await;
    kit::api(&control, &format!("STREAM.CREATE.{owners}"), earlier).await;
    let refused = Fleet::connect(&options).await.expect_err("it has other settings");
    assert!(matches!(refused, FleetError::OlderFormat { .. }), "{refused}");
    assert!(refused.to_string().contains("lodge fleet upgrade"), "{refused}");
    assert_eq!(Fleet::upgrade(&options).await.unwrap(), [owners]);
    Fleet::connect(&options).await.expect("it is upgraded");

    config["metadata"]["lodge.format"] = "99".into();
    kit::api(&control, &format!("STREAM.UPDATE.{owners}"), config).await;
    for refused in [
        Fleet::connect(&options).await.map(drop),
        Fleet::upgrade(&options).await.map(drop),
    ] {
        let refused = refused.expect_err("nobody knows what is in it");
        assert!(matches!(refused, FleetError::NewerFormat { .. }), "{refused}");
    }
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_named_without_its_password() {
    let options = Options {
        patience: Duration::ZERO,
        ..Options::new(["nats://somebody:secret@127.0.0.1:1"])
    };
    let refused = Fleet::connect(&options)
        .await
        .expect_err("nobody listens there")
        .to_string();
    assert!(refused.contains("127.0.0.1:1"), "{refused}");
    assert!(!refused.contains("secret"), "{refused}");
}
