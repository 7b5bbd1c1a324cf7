//! How fast appends are. Nothing is asserted: `cargo test -p lodge-fleet --test it speed:: -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lodge_fleet::{Fleet, Options};
use testkit::nats::{Cluster, Settings};

use crate::kit::{self, create, host};

const APPENDS: usize = 500;
const WRITERS: usize = 64;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn appends_are_measured() {
    for servers in [1, 3] {
        let settings = Settings {
            servers,
            sync_always: true,
        };
        let Some(cluster) = Cluster::start_with(settings).await else {
            return;
        };
        let options = Options {
            replicas: servers,
            shards: 8,
            ..kit::options(&cluster)
        };
        let fleet = Fleet::connect(&options).await.unwrap();
        let host = host(&fleet, "one").await;
        let event = Bytes::from(format!("{{\"text\":\"{}\"}}", "x".repeat(690)));

        let mut writer = create(&host, "alone").await;
        let mut times = Vec::new();
        for _ in 0..APPENDS {
            let began = Instant::now();
            writer.append(std::slice::from_ref(&event)).await.unwrap();
            times.push(began.elapsed());
        }
        times.sort();
        let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1000.0;
        println!(
            "R{servers} with sync, 1 writer: p50 {:.2} ms, p99 {:.2} ms",
            at(50),
            at(99)
        );

        for run in [1, 4] {
            let mut writers = Vec::new();
            for number in 0..WRITERS {
                writers.push(create(&host, &format!("r{run}-{number}")).await);
            }
            let began = Instant::now();
            let time = Duration::from_secs(5);
            let writing: Vec<_> = writers
                .into_iter()
                .map(|mut writer| {
                    let events = vec![event.clone(); run];
                    tokio::spawn(async move {
                        let mut count = 0;
                        while began.elapsed() < time {
                            writer.append(&events).await.unwrap();
                            count += events.len();
                        }
                        count
                    })
                })
                .collect();
            let mut total = 0;
            for writing in writing {
                total += writing.await.unwrap();
            }
            let rate = total as f64 / began.elapsed().as_secs_f64();
            println!("R{servers} with sync, {WRITERS} writers, {run} events a message: {rate:.0} events/s");
        }
    }
}
