//! Who may write to a session.

use lodge_fleet::{Fleet, FleetError, Intent, Tip};
use testkit::nats::Cluster;

use crate::kit::{self, create, event, events, host, open};

#[tokio::test(flavor = "multi_thread")]
async fn sessions_change_hands_and_nobody_writes_after_that() {
    let Some(cluster) = Cluster::start().await else { return };
    let fleet = Fleet::connect(&kit::options(&cluster))
        .await
        .expect("the fleet is there");
    let (one, two) = (host(&fleet, "one").await, host(&fleet, "two").await);
    let mut names: Vec<String> = fleet
        .hosts()
        .await
        .unwrap()
        .into_iter()
        .map(|host| host.announcement.name)
        .collect();
    names.sort();
    assert_eq!(names, ["one", "two"]);
    assert!(one.lease().holds());

    // Who lives is left alone.
    let mut writer = create(&one, "s").await;
    writer.append(&[event("1")]).await.unwrap();
    let refused = open(&two, "s").await.expect_err("its owner lives");
    assert!(
        matches!(&refused, FleetError::Owned { owner, .. } if owner.host == one.id()),
        "{refused}"
    );
    let again = one.take("s", Intent::Create, Tip::START, |_| Ok(())).await;
    assert!(matches!(again, Err(FleetError::Exists { .. })), "{again:?}");
    writer.append(&[event("2")]).await.expect("nothing was taken");

    // What is given up can be taken at once.
    one.release(writer).await.unwrap();
    assert_eq!(fleet.owner("s").await.unwrap(), None);
    let mut second = open(&two, "s").await.expect("it is nobody's");
    second.append(&[event("3")]).await.unwrap();
    assert_eq!(fleet.owner("s").await.unwrap().unwrap().host, two.id());

    // Who takes a session it has already shuts its earlier writer out.
    let mut third = open(&two, "s").await.unwrap();
    let refused = second.append(&[event("stale")]).await.expect_err("it was taken over");
    assert!(
        matches!(&refused, FleetError::Fenced { by, .. } if by.epoch == third.owner().epoch),
        "{refused}"
    );
    let refused = second.append(&[event("stale")]).await.expect_err("once is for ever");
    assert!(matches!(refused, FleetError::Poisoned { .. }), "{refused}");
    third.append(&[event("4")]).await.unwrap();

    // A host that leaves leaves its sessions to the others.
    two.leave().await.unwrap();
    let mut fourth = open(&one, "s").await.expect("its owner left");
    let refused = third.append(&[event("stale")]).await.expect_err("it was taken over");
    assert!(matches!(refused, FleetError::Fenced { .. }), "{refused}");
    fourth.append(&[event("5")]).await.unwrap();
    assert_eq!(events(&fleet, "s").await, ["1", "2", "3", "4", "5"]);
}
