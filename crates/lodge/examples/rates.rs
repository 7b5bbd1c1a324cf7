//! Rates inside the process, for `cargo xtask bench`: how fast events are encoded, appended and read. Prints JSON.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::time::Instant;

use lodge_events::{AssistantMessage, AssistantMessageDelta, Event};
use lodge_log::{Home, HomeOptions, Position, Store as _, SyncPolicy};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parent = Some(uuid::Uuid::new_v4());
    let encode = per_second(500_000, || {
        let data = AssistantMessageDelta {
            message_id: "0cb0785f-b51c-48df-81c4-01a42372f324".into(),
            delta_content: "a few words ".into(),
            ..AssistantMessageDelta::default()
        };
        std::hint::black_box(Event::new(parent, None, data).json().len());
        Ok(())
    })?;

    let dir = tempfile::tempdir()?;
    let home = Home::open(
        dir.path(),
        HomeOptions {
            sync: SyncPolicy::Never,
            ..HomeOptions::default()
        },
    )?;
    let mut log = home.sessions().create("bench")?;
    let content = "The quick brown fox jumps over the lazy dog. ".repeat(20);
    let count = 50_000;
    let mut bytes = 0;
    let append = per_second(count, || {
        let data = AssistantMessage {
            content: content.clone(),
            ..AssistantMessage::default()
        };
        let event = Event::new(log.last_id(), None, data);
        bytes += event.json().len();
        log.append(&event)?;
        Ok(())
    })?;
    let start = Instant::now();
    let mut read = 0;
    for event in log.read(Position::default(), log.end())?.events() {
        std::hint::black_box(event?);
        read += 1;
    }
    let took = start.elapsed().as_secs_f64();
    assert_eq!(read, count, "every event that was appended is read");
    println!(
        "{}",
        serde_json::json!({
            "rate_encode_deltas_per_s": encode,
            "rate_append_events_per_s": append,
            "rate_read_events_per_s": count as f64 / took,
            "rate_read_mb_per_s": bytes as f64 / f64::from(1 << 20) / took,
        })
    );
    Ok(())
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn per_second(count: usize, mut run: impl FnMut() -> Outcome) -> Result<f64, Box<dyn std::error::Error>> {
    let start = Instant::now();
    for _ in 0..count {
        run()?;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
