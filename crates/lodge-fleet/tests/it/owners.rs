//! Who may write to a session.

use std::time::Duration;

use base64::Engine as _;
use lodge_fleet::{Announcement, Entry, Fleet, FleetError, Host, Intent, Tip};
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
async fn the_key_of_a_deleted_session_does_not_stay_and_its_id_can_be_used_after_that() {
    let Some(cluster) = Cluster::start().await else { return };
    let fleet = Fleet::connect(&kit::options(&cluster)).await.unwrap();
    let (one, control) = (host(&fleet, "one").await, kit::control(&cluster).await);
    one.release(create(&one, "s").await).await.unwrap();
    open(&one, "s").await.unwrap().delete().await.unwrap();
    let last = serde_json::json!({ "last_by_subj": "$KV.lodge-owners.s" });
    let key = kit::api(&control, "STREAM.MSG.GET.KV_lodge-owners", last).await;
    let headers = key["message"]["hdrs"].as_str().unwrap();
    let headers = base64::engine::general_purpose::STANDARD.decode(headers).unwrap();
    let month = 31 * 24 * 60 * 60;
    assert!(
        String::from_utf8(headers)
            .unwrap()
            .contains(&format!("Nats-TTL: {month}s"))
    );

    // When it is gone, the list may still say that the session was deleted: whoever said so was late.
    kit::api(
        &control,
        "STREAM.PURGE.KV_lodge-owners",
        serde_json::json!({ "filter": "$KV.lodge-owners.s" }),
    )
    .await;
    let entry = |epoch, deleted| Entry {
        host: one.id().into(),
        epoch,
        deleted,
        about: serde_json::Value::Null,
    };
    assert!(fleet.describe("s", &entry(7, true)).await.unwrap());
    let writer = create(&one, "s").await;
    assert!(fleet.describe("s", &entry(writer.owner().epoch, false)).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_cut_off_sees_what_was_taken_from_it_although_its_lease_holds_again() {
    let Some(cluster) = Cluster::start().await else { return };
    let fleet = Fleet::connect(&kit::options(&cluster)).await.unwrap();
    let (doors, urls) = cluster.doors().await;
    let cut_off = Fleet::connect(&kit::options_by(urls)).await.unwrap();
    let (one, two) = (host(&cut_off, "one").await, host(&fleet, "two").await);
    let (taken, kept) = (create(&one, "taken").await, create(&one, "kept").await);
    let term = one.lease().term().expect("it holds");
    taken.verify().await.expect("it is its own");
    for door in &doors {
        door.cut();
    }
    let theirs = loop {
        match open(&two, "taken").await {
            Err(FleetError::Owned { .. }) => tokio::time::sleep(Duration::from_millis(100)).await,
            other => break other.expect("its owner counts as dead"),
        }
    };
    assert_eq!(one.lease().term(), None);
    for door in &doors {
        door.heal();
    }
    while one.lease().term().is_none() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(one.lease().term(), Some(term + 1));
    let refused = taken.verify().await.expect_err("another host has it");
    assert!(
        matches!(&refused, FleetError::Fenced { by, .. } if by.host == two.id()),
        "{refused}"
    );
    kept.verify().await.expect("nobody took it");

    // Also when its key alone was changed so far, or when it is nobody's again.
    two.release(theirs).await.unwrap();
    assert!(taken.verify().await.is_err());
    one.release(kept).await.unwrap();
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
