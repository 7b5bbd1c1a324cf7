//! Numbers of a fleet. In tests a little of everything is done, to see that it works; `cargo xtask bench fleet` does it for long
//! enough to be measured.
#![allow(clippy::print_stdout, reason = "the numbers")]

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lodge_fleet::{Announcement, Entry, Fleet, Host as Member, Intent, Options, SyncCheck, Tip, Writer};
use serde_json::{Value, json};
use testkit::nats::{Cluster, Settings};

use super::{elsewhere::start, nats::Listener};
use crate::strangers::{Host, Sdk};

/// Longer than anything here takes; only a hang gets to see the end of it.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often or how long something is done: the first number in tests, the second to measure.
fn much(little: usize, much: usize) -> usize {
    match std::env::var_os("LODGE_FLEET_MEASURED") {
        Some(_) => much,
        None => little,
    }
}

/// A number, as the bench reads it.
fn number(name: &str, value: f64) {
    println!("number {name} {value:.4}");
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Processor time that a host has used.
fn cpu(host: &Host) -> Duration {
    let threads = fs::read_dir(format!("/proc/{}/task", host.running.id())).unwrap();
    let used = |text: String| text.split_whitespace().next()?.parse::<u64>().ok();
    let used = threads.filter_map(|thread| used(fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?));
    Duration::from_nanos(used.sum())
}

fn memory_mb(host: &Host) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", host.running.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

fn create(app: &mut Sdk, host: &Host) -> Value {
    let new = json!({ "workingDirectory": host.home.work(), "streaming": true });
    app.call("session.create", new).unwrap()["sessionId"].clone()
}

fn say(app: &mut Sdk, session: &Value, text: &str) {
    app.call("session.send", json!({ "sessionId": session, "prompt": text }))
        .unwrap();
}

/// Takes what comes until a turn has ended. Answers how many deltas there were.
fn until_idle(app: &mut Sdk) -> usize {
    let mut deltas = 0;
    loop {
        let message = app.waiting.pop_front().unwrap_or_else(|| app.next());
        match message["params"]["event"]["type"].as_str() {
            Some("assistant.message_delta") => deltas += 1,
            Some("session.idle") => return deltas,
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_of_one_writer_and_of_many() {
    for (servers, p50, p99, rate) in [
        (
            1,
            "fleet_r1_append_p50_ms",
            "fleet_r1_append_p99_ms",
            "fleet_r1_events_per_s",
        ),
        (3, "fleet_append_p50_ms", "fleet_append_p99_ms", "fleet_events_per_s"),
    ] {
        let settings = Settings {
            servers,
            sync_always: true,
        };
        let Some(cluster) = Cluster::start_with(settings).await else {
            return;
        };
        let options = Options {
            sync: SyncCheck::Skipped,
            replicas: servers,
            ..Options::new(cluster.urls())
        };
        let fleet = Fleet::connect(&options).await.unwrap();
        let announcement = Announcement {
            name: "one".into(),
            ..Announcement::default()
        };
        let member = Member::join(&fleet, announcement).await.unwrap();
        let writer = async |name: String| -> Writer {
            let taken = member.take(&name, Intent::Create, Tip::START, |_| Ok(())).await;
            taken.expect("it is new")
        };
        let event = bytes::Bytes::from(format!("{{\"text\":\"{}\"}}", "x".repeat(690)));

        let mut alone = writer("alone".into()).await;
        let mut times = Vec::new();
        for _ in 0..much(20, 1000) {
            let began = Instant::now();
            alone.append(std::slice::from_ref(&event)).await.unwrap();
            times.push(began.elapsed());
        }
        times.sort();
        number(p50, ms(times[times.len() / 2]));
        number(p99, ms(times[times.len() * 99 / 100]));

        // As sessions at work do: what came while an append was on its way goes together.
        let mut writing = Vec::new();
        let stop = Arc::new(AtomicBool::new(false));
        for name in 0..much(4, 64) {
            let mut writer = writer(format!("many-{name}")).await;
            let (stop, events) = (stop.clone(), vec![event.clone(); 4]);
            writing.push(tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    writer.append(&events).await.unwrap();
                    count += events.len();
                }
                count
            }));
        }
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(much(100, 5000) as u64)).await;
        stop.store(true, Ordering::Relaxed);
        let mut total = 0;
        for count in writing {
            total += count.await.unwrap();
        }
        number(rate, total as f64 / began.elapsed().as_secs_f64());
        assert!(total > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deltas_that_are_watched_from_another_host() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let mut app = Sdk::connect(&one);
    let session = create(&mut app, &one);
    let deltas = much(50, 20_000);
    let resume = json!({ "sessionId": session, "streaming": true });
    let mut costs = Vec::new();
    for watched_from in [&one, &two] {
        let mut watcher = Sdk::connect(watched_from);
        watcher.call("session.resume", resume.clone()).unwrap();
        let (began, before) = (Instant::now(), cpu(&one) + cpu(&two));
        say(&mut app, &session, &format!("stream {deltas} chunks"));
        let watching = std::thread::spawn(move || until_idle(&mut watcher));
        until_idle(&mut app);
        let seen = tokio::task::block_in_place(|| watching.join().unwrap());
        assert_eq!(seen, deltas);
        costs.push((cpu(&one) + cpu(&two) - before).as_secs_f64() * 1e6 / deltas as f64);
        if std::ptr::eq(watched_from, &two) {
            number(
                "fleet_watched_deltas_per_s",
                deltas as f64 / began.elapsed().as_secs_f64(),
            );
        }
    }
    number("fleet_delta_cpu_us_watched_here", costs[0]);
    number("fleet_delta_cpu_us_watched_from_another_host", costs[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_killed_host_is_taken_over() {
    let Some(cluster) = Cluster::start().await else { return };
    let two = start(&cluster, "two");
    let mut times = Vec::new();
    for _ in 0..much(1, 5) {
        let mut one = start(&cluster, "one");
        let mut app = Sdk::connect(&one);
        let session = create(&mut app, &one);
        // The other host has it at once or after the lease, and no directory is missing there.
        say(&mut app, &session, "say Here is one.");
        until_idle(&mut app);
        one.running.kill();
        let began = Instant::now();
        let mut other = Sdk::connect(&two);
        let resume = json!({ "sessionId": session });
        while other.call("session.resume", resume.clone()).is_err() {
            assert!(began.elapsed() < PATIENCE, "the session is not there again");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        say(&mut other, &session, "say Here is two.");
        until_idle(&mut other);
        times.push(began.elapsed());
    }
    times.sort();
    number("fleet_takeover_s", times[times.len() / 2].as_secs_f64());
    number("fleet_takeover_slowest_s", times.last().unwrap().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_and_messages_of_an_event_with_one_host_and_three() {
    let Some(cluster) = Cluster::start().await else { return };
    let mut hosts = vec![start(&cluster, "one")];
    for (cpu_name, messages_name) in [
        ("fleet_event_cpu_us_of_1_host", "fleet_messages_per_event_of_1_host"),
        ("fleet_event_cpu_us_of_3_hosts", "fleet_messages_per_event_of_3_hosts"),
    ] {
        let mut app = Sdk::connect(&hosts[0]);
        let session = create(&mut app, &hosts[0]);
        let log = hosts[0]
            .home
            .path()
            .join("session-state")
            .join(session.as_str().unwrap());
        let lines = || fs::read_to_string(log.join("events.jsonl")).unwrap().lines().count();
        let used = || hosts.iter().map(cpu).sum::<Duration>();
        let (before, began, listener) = (lines(), used(), Listener::start(&cluster));
        for _ in 0..much(3, 300) {
            say(&mut app, &session, "say Done.");
            until_idle(&mut app);
        }
        let events = (lines() - before) as f64;
        number(messages_name, listener.count() as f64 / events);
        number(cpu_name, (used() - began).as_secs_f64() * 1e6 / events);
        hosts.extend((hosts.len()..3).map(|other| start(&cluster, &format!("host{other}"))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_starts_in_a_large_fleet() {
    let Some(cluster) = Cluster::start().await else { return };
    let first = start(&cluster, "one");
    number("fleet_memory_at_start_mb", memory_mb(&first));
    let options = Options {
        sync: SyncCheck::Skipped,
        ..Options::new(cluster.urls())
    };
    let fleet = Fleet::connect(&options).await.unwrap();
    let sessions = much(20, 20_000);
    let describing = (0..8).map(|part| {
        let fleet = fleet.clone();
        tokio::spawn(async move {
            for number in (part..sessions).step_by(8) {
                let session = format!("listed-{number}");
                // As sessions are in the list: of a directory, and with 4 to 16 KB of their newest messages.
                let text = format!("word{number} ").repeat((4 + number % 13) * 1024 / 8);
                let listed = json!({ "id": session, "title": "A session", "created": 1, "modified": 1, "events": 3, "messages": 1,
                    "cwd": format!("/work/{}", number % 100),
                    "texts": [{ "event": format!("event-{number}"), "role": "user", "text": text }] });
                let entry = Entry {
                    host: "gone-0".into(),
                    epoch: 1,
                    deleted: false,
                    about: json!({ "listed": listed }),
                };
                fleet.describe(&session, &entry).await.unwrap();
            }
        })
    });
    for describing in describing.collect::<Vec<_>>() {
        describing.await.unwrap();
    }
    let began = Instant::now();
    let two = start(&cluster, "two");
    number("fleet_start_ms", ms(began.elapsed()));
    let mut app = Sdk::connect(&two);
    let all = |app: &mut Sdk| {
        app.call("session.list", json!({})).unwrap()["sessions"]
            .as_array()
            .unwrap()
            .len()
    };
    while all(&mut app) < sessions {
        assert!(began.elapsed() < PATIENCE, "{} of {sessions} are listed", all(&mut app));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    number("fleet_all_listed_ms", ms(began.elapsed()));
    number("fleet_memory_all_listed_mb", memory_mb(&two));
    for _ in 0..much(3, 2_000) {
        create(&mut app, &two);
    }
    number("fleet_memory_with_live_sessions_mb", memory_mb(&two));
}
