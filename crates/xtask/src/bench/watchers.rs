//! What AHP clients cost: many that watch one session, one that never reads, long chats, many sessions, coming back.

use std::{
    io::Read as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    ahp::{Client, House},
    client::{median, timed},
    logs,
    measures::{Given, Numbers},
    process,
};

/// Starts the host in a home, to work in a directory of it.
pub(super) fn start(program: &Path, home: &Path) -> Result<House> {
    let work = home.join("work");
    std::fs::create_dir_all(&work)?;
    House::start(program, home, &work)
}

impl Client {
    fn subscribe(&mut self, channel: &str) -> Result<Value> {
        self.call("subscribe", &json!({ "channel": channel }))
    }

    /// A new session and its chat.
    pub(super) fn session(&mut self, uri: &str) -> Result<String> {
        self.call("createSession", &json!({ "channel": uri }))?;
        let chat = self.subscribe(uri)?["snapshot"]["state"]["defaultChat"].take();
        let chat = chat.as_str().context("a session has a chat")?.to_owned();
        self.subscribe(&chat)?;
        Ok(chat)
    }

    pub(super) fn say(&mut self, chat: &str, turn: &str, text: &str) -> Result<()> {
        let message = json!({ "text": text, "origin": { "kind": "user" } });
        let started = "2026-01-01T00:00:00.000Z";
        let action = json!({ "type": "chat/turnStarted", "turnId": turn, "startedAt": started, "message": message });
        let params = json!({ "channel": chat, "clientSeq": 1, "action": action });
        self.send(&json!({ "jsonrpc": "2.0", "method": "dispatchAction", "params": params }).to_string())
    }

    /// Reads until a turn has ended, without looking at much.
    pub(super) fn until_end(&mut self) -> Result<()> {
        let (end, failed) = (b"\"chat/turnComplete\"", b"\"chat/error\"");
        let mut kept: Vec<u8> = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = self.reader.read(&mut buffer)?;
            ensure!(read > 0, "the host closed");
            kept.extend(&buffer[..read]);
            if kept.windows(end.len()).any(|window| window == end) {
                return Ok(());
            }
            ensure!(
                !kept.windows(failed.len()).any(|window| window == failed),
                "the turn failed"
            );
            kept.drain(..kept.len().saturating_sub(end.len()));
        }
    }
}

/// Clients that watch one session while it streams: processor time per delivery to each one after the first.
pub(super) fn watchers(given: &Given<'_>) -> Result<Numbers> {
    let house = start(given.program, given.home)?;
    let pid = house.pid();
    let mut first_cost = 0.0;
    let mut numbers = Numbers::new();
    for (name, clients, deltas) in [
        ("ahp_delta_cpu_us_of_1_client", 1, 10_000),
        ("ahp_further_delivery_cpu_us_of_10_clients", 10, 10_000),
        ("ahp_further_delivery_cpu_us_of_100_clients", 100, 2_000),
        ("ahp_further_delivery_cpu_us_of_1000_clients", 1_000, 300),
    ] {
        let deltas = given.times(deltas);
        let mut speaker = house.connect_as("speaker")?;
        let chat = speaker.session(&format!("lodge:/watched-{clients}"))?;
        let mut others = Vec::new();
        for n in 1..clients {
            let mut other = house.connect_as(&format!("watcher-{n}"))?;
            other.subscribe(&chat)?;
            others.push(other);
        }
        let cpu = process::cpu(pid);
        speaker.say(&chat, "t", &format!("stream {deltas} chunks"))?;
        let read = |mut wire: Client| {
            let thread = std::thread::Builder::new().stack_size(256 << 10);
            thread.spawn(move || wire.until_end())
        };
        let readers: Vec<_> = others.into_iter().map(read).collect::<Result<_, _>>()?;
        speaker.until_end()?;
        for reader in readers {
            reader.join().map_err(|_| anyhow::anyhow!("a client failed"))??;
        }
        let cost = (process::cpu(pid) - cpu).as_secs_f64() * 1e6 / deltas as f64;
        if clients == 1 {
            first_cost = cost;
            numbers.push((name, cost));
        } else {
            numbers.push((name, (cost - first_cost).max(0.0) / (clients - 1) as f64));
        }
    }
    Ok(numbers)
}

/// What a delta costs when nobody watches: the agent's loop, its log and the state that clients would be given.
pub(super) fn nobody(given: &Given<'_>) -> Result<Numbers> {
    let house = start(given.program, given.home)?;
    let pid = house.pid();
    let mut speaker = house.connect_as("speaker")?;
    let chat = speaker.session("lodge:/alone")?;
    for channel in ["lodge:/alone", &chat] {
        speaker.send(
            &json!({ "jsonrpc": "2.0", "method": "unsubscribe", "params": { "channel": channel } }).to_string(),
        )?;
    }
    // The answer tells that the host has come past the messages before it.
    speaker.call("listSessions", &json!({}))?;
    let deltas = given.times(50_000);
    let cpu = process::cpu(pid);
    speaker.say(&chat, "t", &format!("stream {deltas} chunks"))?;
    let sessions = given.home.join("session-state");
    let session = std::fs::read_dir(&sessions)?
        .next()
        .context("the session is not kept")??;
    let log = session.path().join("events.jsonl");
    let ended = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("\"assistant.turn_end\""));
    let begun = Instant::now();
    while !ended() {
        ensure!(begun.elapsed() < Duration::from_secs(60), "the turn does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let cost = (process::cpu(pid) - cpu).as_secs_f64() * 1e6 / deltas as f64;
    Ok(vec![("delta_cpu_us_without_clients", cost)])
}

/// How much more memory the host needs at its peak when one of two clients never reads.
pub(super) fn never_reads(given: &Given<'_>) -> Result<Numbers> {
    let mut peaks = Vec::new();
    for deaf in [false, true] {
        let house = start(given.program, &given.home.join(deaf.to_string()))?;
        let pid = house.pid();
        let mut speaker = house.connect_as("speaker")?;
        let chat = speaker.session("lodge:/deaf")?;
        let _deaf = match deaf {
            true => {
                let mut wire = house.connect_as("deaf")?;
                wire.subscribe(&chat)?;
                Some(wire)
            }
            false => None,
        };
        process::forget_peak(pid);
        // Several answers, since one that is as long as all of them would take more memory than what is measured.
        for turn in 0..given.times(20) {
            speaker.say(&chat, &format!("t{turn}"), "stream 1000 chunks of 4096 bytes")?;
            speaker.until_end()?;
        }
        peaks.push(process::peak(pid) as f64 / f64::from(1 << 20));
    }
    Ok(vec![(
        "ahp_never_reading_client_extra_mb",
        (peaks[1] - peaks[0]).max(0.0),
    )])
}

/// Opening and subscribing to a long chat, and listing many sessions.
pub(super) fn long_lists(given: &Given<'_>) -> Result<Numbers> {
    let turns = given.times(10_000);
    logs::write_turns(given.home, "long", turns, "A short answer.")?;
    for n in 0..given.times(1_000) {
        logs::write_turns(given.home, &format!("listed-{n}"), 1, "A short answer.")?;
    }
    let house = start(given.program, given.home)?;
    let mut wire = house.connect_as("a")?;
    // The catalogue catches up with what it finds at the first start.
    wire.call("listSessions", &json!({}))?;
    let mut listing = Vec::new();
    for _ in 0..5 {
        // What the client makes of five megabytes is not measured.
        let (text, took) = timed(|| wire.raw("listSessions", &json!({})))?;
        let listed: Value = serde_json::from_slice(&text)?;
        let count = listed["result"]["items"].as_array().map_or(0, Vec::len);
        ensure!(count == given.times(1_000) + 1, "{count} sessions are listed");
        listing.push(took);
    }
    let (state, opened) = timed(|| wire.subscribe("lodge:/long"))?;
    let chat = state["snapshot"]["state"]["defaultChat"]
        .as_str()
        .context("a session has a chat")?;
    let mut subscribing = Vec::new();
    for _ in 0..5 {
        subscribing.push(timed(|| wire.subscribe(chat))?.1);
    }
    Ok(vec![
        ("ahp_list_1000_sessions_ms", median(listing)),
        ("ahp_open_10000_turns_ms", opened),
        ("ahp_subscribe_10000_turns_ms", median(subscribing)),
    ])
}

/// The first list after the logs of 10,000 sessions were copied into a home, later lists, and the memory that is held then.
pub(super) fn copied_in(given: &Given<'_>) -> Result<Numbers> {
    let sessions = given.times(10_000);
    // The host has a home already: what is copied in is news to its catalogue.
    drop(start(given.program, given.home)?);
    for n in 0..sessions {
        logs::write_turns(given.home, &format!("copied-{n}"), 1, "A short answer.")?;
    }
    let begun = Instant::now();
    let house = start(given.program, given.home)?;
    let mut wire = house.connect_as("a")?;
    let mut list = || {
        // What the client makes of five megabytes is not measured.
        let (text, took) = timed(|| wire.raw("listSessions", &json!({})))?;
        let listed: Value = serde_json::from_slice(&text)?;
        let count = listed["result"]["items"].as_array().map_or(0, Vec::len);
        ensure!(count == sessions, "{count} sessions are listed");
        anyhow::Ok(took)
    };
    // The host begins to read them when it starts.
    list()?;
    let first = begun.elapsed().as_secs_f64() * 1e3;
    let later = (0..5).map(|_| list()).collect::<Result<Vec<_>>>()?;
    let memory = process::memory(house.pid()) as f64 / f64::from(1 << 20);
    Ok(vec![
        ("ahp_first_list_10000_sessions_ms", first),
        ("ahp_list_10000_sessions_ms", median(later)),
        ("ahp_memory_10000_sessions_mb", memory),
    ])
}

/// A client that comes back after 10,000 actions.
pub(super) fn coming_back(given: &Given<'_>) -> Result<Numbers> {
    let house = start(given.program, given.home)?;
    let pid = house.pid();
    let mut speaker = house.connect_as("speaker")?;
    let chat = speaker.session("lodge:/back")?;
    let mut away = house.connect_as("away")?;
    let seen = away.subscribe(&chat)?["snapshot"]["fromSeq"].clone();
    drop(away);
    let missed = given.times(10_000);
    speaker.say(&chat, "t", &format!("stream {missed} chunks"))?;
    speaker.until_end()?;
    let (mut cpu, mut took) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let mut wire = house.open()?;
        let before = process::cpu(pid);
        let params = json!({ "clientId": "away", "lastSeenServerSeq": seen, "subscriptions": [chat] });
        let (result, time) = timed(|| wire.call("reconnect", &params))?;
        let actions = result["actions"].as_array().map_or(0, Vec::len);
        ensure!(
            actions >= missed,
            "{actions} actions were replayed ({})",
            result["type"]
        );
        cpu.push((process::cpu(pid) - before).as_secs_f64() * 1e3);
        took.push(time);
    }
    Ok(vec![
        ("ahp_replay_10000_actions_ms", median(took)),
        ("ahp_replay_10000_actions_cpu_ms", median(cpu)),
    ])
}
