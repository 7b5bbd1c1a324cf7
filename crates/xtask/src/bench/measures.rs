//! The measures, each the same for every server.

use std::{collections::HashSet, path::Path, sync::atomic::Ordering, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{
    client::{self, Arrived, Client, Server, config, median, percentile, timed},
    logs, process,
};

/// What a measure gives: names and numbers.
pub(super) type Numbers = Vec<(&'static str, f64)>;

/// What a measure is given.
pub(super) struct Given<'a> {
    /// The server to start.
    pub(super) program: &'a Path,
    /// An empty home.
    pub(super) home: &'a Path,
    /// The instant model.
    pub(super) url: &'a str,
    /// Whether to take a tenth of everything, to see that it works.
    pub(super) quick: bool,
}

impl Given<'_> {
    fn start(&self) -> Result<(Server, Client)> {
        let (server, client) = client::start(self.program, self.home, false)?;
        client.call("connect", &json!({}))?;
        Ok((server, client))
    }

    pub(super) fn times(&self, usual: usize) -> usize {
        if self.quick { (usual / 10).max(2) } else { usual }
    }
}

type Measure = fn(&Given<'_>) -> Result<Numbers>;

/// All measures.
pub(super) const MEASURES: &[(&str, Measure)] = &[
    ("size", size),
    ("start", start),
    ("ping", ping),
    ("memory", memory),
    ("turn", turn),
    ("deltas", deltas),
    ("many sessions", many_sessions),
    ("delay", delay),
    ("clients", clients),
    ("long session", long_session),
    ("large logs", large_logs),
    ("kill -9", kill),
    ("acp", super::acp::measure),
    ("files", super::files::measure),
    ("terminal", super::terminal::measure),
    ("conversation", super::conversation::measure),
    ("nobody", super::watchers::nobody),
    ("ahp clients", super::watchers::watchers),
    ("ahp sessions", super::streams::measure),
    ("ahp never reads", super::watchers::never_reads),
    ("ahp lists", super::watchers::long_lists),
    ("ahp 10000 sessions", super::watchers::copied_in),
    ("ahp reconnect", super::watchers::coming_back),
];

/// The program's file.
fn size(given: &Given<'_>) -> Result<Numbers> {
    Ok(vec![("binary_mb", mb(std::fs::metadata(given.program)?.len()))])
}

/// The shortest question and its answer.
fn ping(given: &Given<'_>) -> Result<Numbers> {
    let (_server, client) = given.start()?;
    let mut took = Vec::new();
    for _ in 0..given.times(500) {
        took.push(timed(|| client.call("ping", &json!({"message": "hello"})))?.1);
    }
    Ok(vec![("ping_ms", median(took))])
}

/// From nothing to connected, to a session, to the end of the first turn.
fn start(given: &Given<'_>) -> Result<Numbers> {
    let mut took: [Vec<f64>; 3] = Default::default();
    for round in 0..given.times(10) {
        let home = given.home.join(format!("start-{round}"));
        let (_, all) = timed(|| {
            let ((server, client), connected) = timed(|| {
                let (server, client) = client::start(given.program, &home, false)?;
                client.call("connect", &json!({}))?;
                Ok((server, client))
            })?;
            let ((), created) = timed(|| client.create("first", given.url))?;
            took[0].push(connected);
            took[1].push(connected + created);
            client.turn("first", "bench:say")?;
            drop(server);
            Ok(())
        })?;
        took[2].push(all);
    }
    let [connected, created, turned] = took.map(median);
    Ok(vec![
        ("start_to_connected_ms", connected),
        ("start_to_session_ms", created),
        ("start_to_first_turn_ms", turned),
    ])
}

/// Memory when started and with idle sessions.
fn memory(given: &Given<'_>) -> Result<Numbers> {
    let (server, client) = given.start()?;
    let pid = server.child.id();
    settle();
    let at_start = process::memory(pid);
    let sessions = given.times(100).max(20);
    let mut creating = Vec::new();
    // The first ones fill what all share; the others tell what one costs.
    for n in 0..10 {
        client.create(&format!("first-{n}"), given.url)?;
    }
    settle();
    let with_ten = process::memory(pid);
    for n in 10..sessions {
        creating.push(timed(|| client.create(&format!("idle-{n}"), given.url))?.1);
    }
    settle();
    let idle = process::memory(pid);
    client.create("busy", given.url)?;
    for _ in 0..given.times(50) {
        client.turn("busy", "bench:say")?;
    }
    settle();
    Ok(vec![
        ("memory_at_start_mb", mb(at_start)),
        ("memory_100_idle_sessions_mb", mb(idle)),
        (
            "memory_per_idle_session_kb",
            (idle as f64 - with_ten as f64) / 1024.0 / (sessions - 10) as f64,
        ),
        ("memory_after_50_turns_mb", mb(process::memory(pid))),
        ("create_session_ms", median(creating)),
    ])
}

/// A small turn and a round trip to a tool of the client.
fn turn(given: &Given<'_>) -> Result<Numbers> {
    let (server, client) = given.start()?;
    let pid = server.child.id();
    client.create("s", given.url)?;
    for _ in 0..5 {
        client.turn("s", "bench:say")?;
    }
    let turns = given.times(100);
    let before = (process::cpu(pid), counts(&client));
    let mut took = Vec::new();
    for _ in 0..turns {
        took.push(timed(|| client.turn("s", "bench:say"))?.1);
    }
    let cpu = process::cpu(pid).saturating_sub(before.0).as_secs_f64() * 1e3 / turns as f64;
    let after = counts(&client);
    let plain = median(took);
    let trips = 10;
    let mut tools = Vec::new();
    for round in 0..given.times(20) {
        // In a session of its own, or the model would be told more and more.
        let session = format!("tools-{round}");
        client.create(&session, given.url)?;
        client.turn(&session, "bench:say")?;
        tools.push(timed(|| client.turn(&session, &format!("bench:tools={trips}")))?.1);
    }
    Ok(vec![
        ("turn_ms", plain),
        ("turn_cpu_ms", cpu),
        ("tool_round_trip_ms", (median(tools) - plain) / f64::from(trips)),
        ("turn_wire_bytes", (after.0 - before.1.0) as f64 / turns as f64),
        ("turn_wire_frames", (after.1 - before.1.1) as f64 / turns as f64),
    ])
}

/// Long answers: cost per delta, whether each came once and in order, memory.
fn deltas(given: &Given<'_>) -> Result<Numbers> {
    let (server, client) = given.start()?;
    let pid = server.child.id();
    client.create("warm", given.url)?;
    client.turn("warm", "bench:deltas=500")?;
    let mut numbers = Vec::new();
    for (count, cost, rate) in [
        (5_000, "delta_cpu_us_of_5000", "deltas_per_s_of_5000"),
        (50_000, "delta_cpu_us_of_50000", "deltas_per_s_of_50000"),
    ] {
        let count = given.times(count);
        let session = format!("s{count}");
        client.create(&session, given.url)?;
        process::forget_peak(pid);
        let cpu = process::cpu(pid);
        let (events, took) = timed(|| client.turn(&session, &format!("bench:deltas={count}")))?;
        let cpu = process::cpu(pid).saturating_sub(cpu);
        numbers.push((cost, cpu.as_secs_f64() * 1e6 / count as f64));
        numbers.push((rate, count as f64 / took * 1e3));
        if cost.ends_with("50000") {
            numbers.push(("deltas_wrong_of_50000", wrong(&events, count) as f64));
            numbers.push(("memory_peak_of_50000_mb", mb(process::peak(pid))));
        }
    }
    Ok(numbers)
}

/// How many numbers of a counted answer are missing, repeated or out of order.
fn wrong(events: &[Arrived], count: usize) -> usize {
    let text: String = events
        .iter()
        .filter(|event| event.kind == "assistant.message_delta")
        .map(|event| event.data("deltaContent"))
        .collect();
    let numbers: Vec<usize> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let mut expected = 1;
    let mut wrong = 0;
    for number in numbers {
        if number == expected {
            expected += 1;
        } else {
            wrong += 1;
        }
    }
    wrong + (count + 1 - expected)
}

/// Sixteen sessions that stream at once.
fn many_sessions(given: &Given<'_>) -> Result<Numbers> {
    let (server, client) = given.start()?;
    let pid = server.child.id();
    let (sessions, each) = (16, given.times(5_000));
    for n in 0..sessions {
        client.create(&format!("s{n}"), given.url)?;
    }
    let cpu = process::cpu(pid);
    let (seen, took) = timed(|| {
        for n in 0..sessions {
            client.send(
                "session.send",
                &json!({"sessionId": format!("s{n}"), "prompt": format!("bench:deltas={each}")}),
            )?;
        }
        let (mut idle, mut seen) = (0, 0);
        while idle < sessions {
            let event = client.event()?;
            seen += usize::from(event.kind == "assistant.message_delta");
            idle += usize::from(event.kind == "session.idle");
        }
        Ok(seen)
    })?;
    ensure!(seen > 0, "no delta arrived");
    let cpu = process::cpu(pid).saturating_sub(cpu).as_secs_f64() * 1e6 / (sessions * each) as f64;
    Ok(vec![
        ("sixteen_sessions_deltas_per_s", (sessions * each) as f64 / took * 1e3),
        ("sixteen_sessions_delta_cpu_us", cpu),
    ])
}

/// From the model's socket to the client, delta by delta.
fn delay(given: &Given<'_>) -> Result<Numbers> {
    let (_server, client) = given.start()?;
    client.create("s", given.url)?;
    client.turn("s", "bench:paced=200")?;
    let events = client.turn("s", &format!("bench:paced={}", given.times(2_000)))?;
    let mut delays = Vec::new();
    for event in events.iter().filter(|event| event.kind == "assistant.message_delta") {
        for sent in event
            .data("deltaContent")
            .split_whitespace()
            .filter_map(|word| word.parse::<u64>().ok())
        {
            delays.push((event.at.saturating_sub(sent)) as f64 / 1e6);
        }
    }
    Ok(vec![
        ("delay_p50_ms", percentile(delays.clone(), 50)),
        ("delay_p99_ms", percentile(delays, 99)),
    ])
}

/// What each further client of a session costs per frame.
fn clients(given: &Given<'_>) -> Result<Numbers> {
    let (server, first) = client::start(given.program, given.home, true)?;
    let pid = server.child.id();
    first.call("connect", &json!({}))?;
    first.create("s", given.url)?;
    first.turn("s", "bench:deltas=500")?;
    let count = given.times(10_000);
    let mut costs = Vec::new();
    let mut others: Vec<Client> = Vec::new();
    for further in [0, 10] {
        while others.len() < further {
            let other = client::connect(&server)?;
            other.call("connect", &json!({}))?;
            let mut config = config("s", given.url);
            config["tools"] = json!([]);
            other.call("session.resume", &config)?;
            others.push(other);
        }
        let drain = |other: Client| std::thread::spawn(move || drain(&other).map(|()| other));
        let readers: Vec<_> = std::mem::take(&mut others).into_iter().map(drain).collect();
        let cpu = process::cpu(pid);
        let frames = counts(&first).1;
        first.turn("s", &format!("bench:deltas={count}"))?;
        for reader in readers {
            others.push(reader.join().map_err(|_| anyhow::anyhow!("a client failed"))??);
        }
        let frames = (counts(&first).1 - frames) as f64;
        costs.push((process::cpu(pid).saturating_sub(cpu).as_secs_f64() * 1e6, frames));
    }
    let [(alone, frames), (together, _)] = costs[..] else {
        unreachable!("measured twice")
    };
    Ok(vec![(
        "further_client_cpu_us_per_frame",
        (together - alone) / 10.0 / frames,
    )])
}

fn drain(client: &Client) -> Result<()> {
    while client.event()?.kind != "session.idle" {}
    Ok(())
}

/// A session of 500 turns, resumed by a fresh server.
fn long_session(given: &Given<'_>) -> Result<Numbers> {
    let turns = given.times(500);
    {
        let (server, client) = given.start()?;
        client.create("long", given.url)?;
        for _ in 0..turns {
            client.turn("long", "bench:say")?;
        }
        client.call("session.destroy", &json!({"sessionId": "long"}))?;
        drop(server);
    }
    let mut took = Vec::new();
    for _ in 0..given.times(5) {
        let (_server, client) = given.start()?;
        took.push(timed(|| client.call("session.resume", &config("long", given.url)))?.1);
    }
    Ok(vec![("resume_500_turns_ms", median(took))])
}

/// Logs of 1, 10 and 100 MB: time to resume and memory it takes.
fn large_logs(given: &Given<'_>) -> Result<Numbers> {
    let mut numbers = Vec::new();
    let names = [
        (1, "resume_1mb_ms", "resume_1mb_extra_mb", "first_open_1mb_ms"),
        (10, "resume_10mb_ms", "resume_10mb_extra_mb", "first_open_10mb_ms"),
        (100, "resume_100mb_ms", "resume_100mb_extra_mb", "first_open_100mb_ms"),
    ];
    for (size, time, extra, first) in names {
        if given.quick && size > 1 {
            continue;
        }
        let id = format!("log-{size}");
        logs::write(given.home, &id, size << 20)?;
        // The first open finds no side file; that is a cost of its own.
        {
            let (server, client) = given.start()?;
            numbers.push((
                first,
                timed(|| client.call("session.resume", &config(&id, given.url)))?.1,
            ));
            client.call("session.destroy", &json!({"sessionId": id}))?;
            // What is derived from a log may be written when there is time.
            std::thread::sleep(Duration::from_secs(3));
            drop(server);
        }
        let (mut took, mut more) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (server, client) = given.start()?;
            let pid = server.child.id();
            settle();
            let before = process::memory(pid);
            process::forget_peak(pid);
            took.push(timed(|| client.call("session.resume", &config(&id, given.url)))?.1);
            more.push(mb(process::peak(pid)) - mb(before));
        }
        numbers.push((time, median(took)));
        numbers.push((extra, median(more)));
    }
    Ok(numbers)
}

/// SIGKILL at named moments: persisted events that the client saw and a fresh server does not have.
fn kill(given: &Given<'_>) -> Result<Numbers> {
    let moments = [
        ("lost_by_kill_mid_stream", "bench:stall", "assistant.message_delta"),
        ("lost_by_kill_tool_pending", "bench:tools=1", "external_tool.requested"),
        ("lost_by_kill_at_idle", "bench:say", "session.idle"),
    ];
    let mut numbers = Vec::new();
    for (name, prompt, moment) in moments {
        let home = given.home.join(name);
        let mut seen = HashSet::new();
        {
            let (mut server, client) = client::start(given.program, &home, false)?;
            client.call("connect", &json!({}))?;
            client.create("s", given.url)?;
            client.send("session.send", &json!({"sessionId": "s", "prompt": prompt}))?;
            loop {
                let event = client.event()?;
                if !event.ephemeral {
                    seen.insert(event.id.clone());
                }
                if event.kind == moment {
                    break;
                }
            }
            server.child.kill()?;
            server.child.wait()?;
        }
        let log = std::fs::read_to_string(home.join("session-state/s/events.jsonl")).unwrap_or_default();
        let kept: HashSet<String> = log
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter_map(|event| event["id"].as_str().map(str::to_owned))
            .collect();
        numbers.push((name, seen.difference(&kept).count() as f64));
    }
    Ok(numbers)
}

fn counts(client: &Client) -> (u64, u64) {
    (
        client.received.0.load(Ordering::Relaxed),
        client.received.1.load(Ordering::Relaxed),
    )
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Lets a server finish what it does after an answer.
fn settle() {
    std::thread::sleep(Duration::from_millis(300));
}

/// Where the native runtime lies in an installed platform package.
pub(super) fn native(modules: &Path) -> Result<std::path::PathBuf> {
    let path = modules.join("@github/copilot-sdk-linux-x64/prebuilds/linux-x64/copilot-runtime");
    path.is_file()
        .then_some(path)
        .context("the platform package holds no runtime")
}
