//! Sessions' logs on three servers.

use bytes::Bytes;
use lodge_fleet::{Fleet, FleetError, Kind, Tip};
use testkit::nats::Cluster;

use crate::kit::{self, create, event, events, host, open, text};

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_written_read_and_deleted() {
    let Some(cluster) = Cluster::start().await else { return };
    let fleet = Fleet::connect(&kit::options(&cluster))
        .await
        .expect("the fleet is there");
    let one = host(&fleet, "one").await;

    runs_of_events_come_back_in_order(&fleet, &one).await;
    large_events_are_kept_beside_the_log(&fleet, &one).await;
    what_is_no_line_is_refused_and_harms_nothing(&fleet, &one).await;
    a_deleted_session_stays_deleted(&fleet, &one).await;
    what_a_later_version_wrote_is_not_taken_for_damage(&cluster, &fleet, &one).await;
}

async fn what_a_later_version_wrote_is_not_taken_for_damage(
    cluster: &Cluster,
    fleet: &Fleet,
    host: &lodge_fleet::Host,
) {
    let writer = create(host, "later").await;
    host.release(writer).await.unwrap();
    let control = kit::control(cluster).await;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Lodge-Format", "2");
    headers.insert("Lodge-Kind", "poem");
    for shard in ["00", "01"] {
        let subject = format!("lodge.ev.{shard}.later");
        let sent = control.send_request(
            subject,
            async_nats::Request::new().headers(headers.clone()).payload("".into()),
        );
        sent.await.unwrap();
    }
    let read = fleet.log("later").unwrap().read(Tip::START).await;
    for refused in [
        read.map(drop),
        open(host, "later").await.map(drop),
        host.take_to_delete("later").await.map(drop),
    ] {
        let refused = refused.expect_err("this version cannot read it");
        assert!(matches!(refused, FleetError::NewerFormat { .. }), "{refused}");
        assert!(refused.to_string().contains("upgrade this host"), "{refused}");
    }
    assert_eq!(fleet.owner("later").await.unwrap(), None);
}

async fn runs_of_events_come_back_in_order(fleet: &Fleet, host: &lodge_fleet::Host) {
    let session = "any id: with *, > and ümlaut";
    let mut writer = create(host, session).await;
    let mut written = Vec::new();
    for run in 0..300 {
        let run: Vec<String> = (0..run % 3 + 1).map(|event| format!("{run}.{event}")).collect();
        let tip = writer
            .append(&run.iter().map(|text| event(text)).collect::<Vec<_>>())
            .await
            .unwrap();
        written.extend(run);
        assert_eq!(tip.events(), written.len() as u64);
    }
    assert_eq!(events(fleet, session).await, written);

    // From the middle on, too.
    let log = fleet.log(session).unwrap();
    let mut reader = log.read(Tip::START).await.unwrap();
    for _ in 0..100 {
        reader.next().await.unwrap();
    }
    let middle = reader.tip();
    let (rest, _) = log.read(middle).await.unwrap().events().await.unwrap();
    let rest: Vec<String> = rest.iter().map(text).collect();
    assert_eq!(rest, written[middle.events() as usize..]);
}

async fn large_events_are_kept_beside_the_log(fleet: &Fleet, host: &lodge_fleet::Host) {
    let mut writer = create(host, "large").await;
    let large = "x".repeat(3 << 20);
    for _ in 0..2 {
        writer
            .append(&[event("before"), event(&large), event("after")])
            .await
            .unwrap();
    }
    let found = events(fleet, "large").await;
    let expected = ["before", &large, "after", "before", &large, "after"];
    assert!(found == expected, "a large event came back as another");
}

async fn what_is_no_line_is_refused_and_harms_nothing(fleet: &Fleet, host: &lodge_fleet::Host) {
    let mut writer = create(host, "lines").await;
    for bad in ["", "a\nb"] {
        let refused = writer.append(&[Bytes::from(bad)]).await.expect_err("no line");
        assert!(matches!(refused, FleetError::NotOneLine { .. }), "{refused}");
    }
    writer.append(&[]).await.unwrap();
    writer.append(&[event("good")]).await.unwrap();
    assert_eq!(events(fleet, "lines").await, ["good"]);
    let mut reader = fleet.log("lines").unwrap().read(Tip::START).await.unwrap();
    let claim = reader.next().await.unwrap().unwrap();
    assert_eq!((claim.kind, claim.events.len()), (Kind::Claim, 0));
}

async fn a_deleted_session_stays_deleted(fleet: &Fleet, host: &lodge_fleet::Host) {
    let mut writer = create(host, "gone").await;
    writer.append(&[event(&"x".repeat(1 << 20))]).await.unwrap();
    writer.delete().await.unwrap();
    let read = fleet
        .log("gone")
        .unwrap()
        .read(Tip::START)
        .await
        .expect_err("it is gone");
    assert!(matches!(read, FleetError::Deleted { .. }), "{read}");
    let opened = open(host, "gone").await.expect_err("it is gone");
    assert!(matches!(opened, FleetError::Deleted { .. }), "{opened}");
    let missing = open(host, "never was").await.expect_err("it never was");
    assert!(matches!(missing, FleetError::NotFound { .. }), "{missing}");
}
