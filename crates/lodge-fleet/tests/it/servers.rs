//! Which servers a fleet takes.

use std::time::Duration;

use lodge_fleet::{Access, Fleet, FleetError, Options, SyncCheck};
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

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_do_not_say_whether_they_sync_are_refused() {
    let Some(cluster) = Cluster::start().await else { return };
    Fleet::connect(&kit::options(&cluster))
        .await
        .expect("all say that they sync");
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
