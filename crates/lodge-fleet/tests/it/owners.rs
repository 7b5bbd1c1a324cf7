//! Who may write to a session.

use lodge_fleet::{Announcement, Fleet, FleetError, Host, Intent, Tip};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_not_released_is_freed_unless_somebody_uses_it() {
    let Some(cluster) = Cluster::start().await else { return };
    let fleet = Fleet::connect(&kit::options(&cluster)).await.unwrap();
    let (one, two) = (host(&fleet, "one").await, host(&fleet, "two").await);

    // Its writer is gone, and the servers were never told.
    drop(create(&one, "s").await);
    one.free("s", || false).await.unwrap();
    two.free("s", || true).await.unwrap();
    let refused = open(&two, "s").await.expect_err("it is still its owner's");
    assert!(matches!(refused, FleetError::Owned { .. }), "{refused}");
    one.free("s", || true).await.unwrap();
    let mut writer = open(&two, "s").await.expect("it is nobody's");
    one.free("s", || panic!("it is not this host's any more"))
        .await
        .unwrap();
    writer.append(&[event("1")]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_a_deleted_session_can_be_used_again_at_once() {
    let Some(cluster) = Cluster::start().await else { return };
    let fleet = Fleet::connect(&kit::options(&cluster)).await.unwrap();
    let (one, two) = (host(&fleet, "one").await, host(&fleet, "two").await);
    let mut first = create(&one, "s").await;
    first.append(&[event("of the first")]).await.unwrap();
    one.release(first).await.unwrap();
    let mut stale = open(&one, "s").await.unwrap();
    one.take_to_delete("s").await.unwrap().delete().await.unwrap();

    // Elsewhere, and again where it was.
    for (host, words) in [(&two, "of the second"), (&one, "of the third")] {
        let mut writer = create(host, "s").await;
        writer.append(&[event(words)]).await.unwrap();
        assert_eq!(events(&fleet, "s").await, [words]);
        assert_eq!(writer.tip().events(), 1);
        let again = host.take("s", Intent::Create, Tip::START, |_| Ok(())).await;
        assert!(matches!(again, Err(FleetError::Exists { .. })), "{again:?}");
        let refused = stale.append(&[event("stale")]).await.expect_err("it was deleted");
        assert!(
            matches!(refused, FleetError::Deleted { .. } | FleetError::Poisoned { .. }),
            "{refused}"
        );

        // It moves like any other.
        host.release(writer).await.unwrap();
        let mut moved = open(&one, "s").await.unwrap();
        moved.append(&[event("moved")]).await.unwrap();
        assert_eq!(events(&fleet, "s").await, [words, "moved"]);
        one.release(moved).await.unwrap();
        one.take_to_delete("s").await.unwrap().delete().await.unwrap();
        assert_eq!(fleet.owner("s").await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_homes_that_want_a_name_at_once_one_at_most_gets_it() {
    let Some(cluster) = Cluster::start().await else { return };
    let fleet = Fleet::connect(&kit::options(&cluster)).await.unwrap();
    let join = |name: String, home: &str| {
        let announcement = Announcement {
            name,
            home: home.into(),
            ..Announcement::default()
        };
        Host::join(&fleet, announcement)
    };
    for round in 0..20 {
        let name = format!("host-{round}");
        let (here, there) = tokio::join!(join(name.clone(), "here"), join(name, "there"));
        assert!(here.is_err() || there.is_err(), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_belongs_to_one_home_at_a_time() {
    let Some(cluster) = Cluster::start().await else { return };
    let fleet = Fleet::connect(&kit::options(&cluster)).await.unwrap();
    let join = |home: &str| {
        let announcement = Announcement {
            name: "one".into(),
            home: home.into(),
            ..Announcement::default()
        };
        Host::join(&fleet, announcement)
    };
    let first = join("here").await.unwrap();
    // It was killed and is started again, or is of a version that does not say what it serves.
    let again = join("here").await.expect("it is the same");
    join("").await.expect("nobody knows").leave().await.unwrap();
    let refused = join("there").await.expect_err("it is another");
    assert!(
        matches!(&refused, FleetError::NameTaken { other, .. } if [first.id(), again.id()].contains(&other.as_str())),
        "{refused}"
    );
    assert_eq!(fleet.hosts().await.unwrap().len(), 2, "it left");
    first.leave().await.unwrap();
    again.leave().await.unwrap();
    join("there").await.expect("the name is free");
}
