//! Streams between hosts.

use std::time::Duration;

use lodge_fleet::{Fleet, Reply, Request};
use testkit::nats::{Cluster, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::{self, host};

/// Serves every link by sending everything back, and does nothing else.
async fn echo(fleet: Fleet, host: lodge_fleet::Host) {
    let mut requests = host.requests().await.unwrap();
    while let Some((request, asker)) = requests.next().await {
        let Some(Request::Link { serves, link, from }) = request else {
            asker.answer(&Reply::Unknown).await;
            continue;
        };
        if (serves.as_str(), from.as_str()) != ("echo", "near") {
            asker.answer(&Reply::Unknown).await;
            continue;
        }
        let (near, far) = tokio::io::duplex(4096);
        let carried = fleet.accept_link(&link, near).await.unwrap();
        tokio::spawn(carried);
        tokio::spawn(async move {
            let (mut input, mut output) = tokio::io::split(far);
            let _ = tokio::io::copy(&mut input, &mut output).await;
        });
        asker.answer(&Reply::Linked).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_carries_bytes_in_order_both_ways_and_ends_with_either_end() {
    let Some(cluster) = Cluster::start().await else { return };
    let connect = || async {
        Fleet::connect(&kit::options(&cluster))
            .await
            .expect("the fleet is there")
    };
    let (near, far) = (connect().await, connect().await);
    let other = host(&far, "other").await;
    let id = other.id().to_owned();
    let serving = tokio::spawn(echo(far, other));

    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    // A host that has just started may not listen yet.
    let link = loop {
        if let Some(link) = near.link("near", &id, "echo").await.unwrap() {
            break link;
        }
        assert!(tokio::time::Instant::now() < deadline, "the host does not link");
    };
    assert!(near.link("near", &id, "nothing").await.unwrap().is_none());
    assert!(near.link("near", "nobody", "echo").await.unwrap().is_none());

    // Far more than may be on its way at once.
    let sent: Vec<u8> = (0..8 << 20)
        .map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let (mut input, mut output) = tokio::io::split(link);
    let writing = {
        let sent = sent.clone();
        tokio::spawn(async move {
            output.write_all(&sent).await.unwrap();
            output
        })
    };
    let mut back = vec![0; sent.len()];
    input.read_exact(&mut back).await.unwrap();
    assert!(back == sent, "every byte comes back in its place");
    drop(writing.await.unwrap());

    // The host is gone without a word: the link ends by itself.
    serving.abort();
    drop(cluster);
    let ended = tokio::time::timeout(Duration::from_secs(60), input.read_to_end(&mut back)).await;
    assert!(ended.is_ok(), "the link ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_loses_or_doubles_a_message_ends() {
    let settings = Settings {
        servers: 1,
        sync_always: true,
    };
    let Some(cluster) = Cluster::start_with(settings).await else {
        return;
    };
    let options = lodge_fleet::Options {
        replicas: 1,
        ..kit::options(&cluster)
    };
    let fleet = Fleet::connect(&options).await.expect("the fleet is there");
    let other = async_nats::ConnectOptions::with_user_and_password("lodge".into(), "lodge".into());
    let other = other.connect(cluster.urls()).await.unwrap();
    let piece = |number: u64, text: &str| {
        let mut message = vec![b'd'];
        message.extend(number.to_be_bytes());
        message.extend(text.as_bytes());
        message
    };
    for (name, second) in [("lost", 7), ("doubled", 0)] {
        let (near, mut far) = tokio::io::duplex(4096);
        let carried = fleet.accept_link(name, near).await.unwrap();
        let carrying = tokio::spawn(carried);
        let subject = format!("lodge.link.{name}.up");
        let mut read = [0; 3];
        other.publish(subject.clone(), piece(0, "one").into()).await.unwrap();
        // A link does not wait long for a message.
        other.flush().await.unwrap();
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one");
        other.publish(subject, piece(second, "two").into()).await.unwrap();
        carrying.await.unwrap();
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty(), "{name}: {rest:?}");
    }
}
