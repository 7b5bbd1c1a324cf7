//! The list of a fleet's sessions, and what hosts ask of each other.

use std::collections::BTreeMap;

use lodge_fleet::{Entry, Fleet, Listed, Listing, Reply, Request};
use testkit::nats::{Cluster, Settings};

use crate::kit;

fn entry(host: &str, epoch: u64, about: &str) -> Entry {
    Entry {
        host: host.into(),
        epoch,
        deleted: false,
        about: about.into(),
    }
}

/// All that the list says until it says nothing more.
async fn read(listing: &mut Listing) -> BTreeMap<String, Entry> {
    let mut all = BTreeMap::new();
    while let Listed::Session(session, entry) = listing.next().await.expect("the servers answer") {
        all.insert(session, entry);
    }
    all
}

/// A fleet on one server: what is tried here does not depend on copies.
async fn fleet() -> Option<(Cluster, Fleet)> {
    let settings = Settings {
        servers: 1,
        sync_always: true,
    };
    let cluster = Cluster::start_with(settings).await?;
    let mut options = kit::options(&cluster);
    options.replicas = 1;
    let fleet = Fleet::connect(&options).await.expect("the server will do");
    Some((cluster, fleet))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_description_of_a_session_replaces_that_of_a_later_owner() {
    let Some((_cluster, fleet)) = fleet().await else { return };
    let describe = async |entry: &Entry| fleet.describe("a.session", entry).await.expect("the server answers");
    assert!(describe(&entry("one", 3, "made")).await);
    assert!(describe(&entry("one", 3, "named")).await);
    assert!(describe(&entry("two", 4, "taken over")).await);
    assert!(!describe(&entry("one", 3, "late")).await);
    let mut deleted = entry("two", 5, "");
    deleted.deleted = true;
    assert!(describe(&deleted).await);
    assert!(!describe(&entry("two", 5, "late")).await);
    let mut listing = fleet.listing().await.expect("the server answers");
    assert_eq!(
        read(&mut listing).await,
        BTreeMap::from([("a.session".to_owned(), deleted)])
    );
    assert!(describe(&entry("one", 6, "made anew")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_followed_from_its_beginning_and_again_when_that_is_wanted() {
    let Some((_cluster, fleet)) = fleet().await else { return };
    let mut expected = BTreeMap::new();
    // More than one page.
    for number in 0..300 {
        let (session, entry) = (format!("session {number}"), entry("one", 1, &number.to_string()));
        assert!(fleet.describe(&session, &entry).await.expect("the server answers"));
        expected.insert(session, entry);
    }
    let mut listing = fleet.listing().await.expect("the server answers");
    assert_eq!(read(&mut listing).await, expected);
    let changed = entry("two", 2, "changed");
    assert!(fleet.describe("session 7", &changed).await.expect("the server answers"));
    let next = listing.next().await.expect("the server answers");
    assert_eq!(next, Listed::Session("session 7".into(), changed.clone()));
    expected.insert("session 7".into(), changed);
    listing.restart();
    assert_eq!(read(&mut listing).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_asked_and_one_that_is_gone_does_not_answer() {
    let Some((_cluster, fleet)) = fleet().await else { return };
    let host = kit::host(&fleet, "one").await;
    let mut requests = host.requests().await.expect("the server answers");
    let answering = tokio::spawn(async move {
        let (request, asker) = requests.next().await.expect("somebody asks");
        asker.answer(&Reply::InUse).await;
        request
    });
    let request = Request::Release {
        session: "a.session".into(),
    };
    let reply = fleet.ask(host.id(), &request).await.expect("the server answers");
    assert_eq!(reply, Some(Reply::InUse));
    assert_eq!(answering.await.expect("it was asked"), Some(request.clone()));
    let reply = fleet.ask(host.id(), &request).await.expect("the server answers");
    assert_eq!(reply, None, "nobody listens any more");
}
