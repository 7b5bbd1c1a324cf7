//! SIGKILL at random moments of tool-using turns: what a reader saw stays, and the session goes on.
//!
//! `LODGE_SEED` replays a run, `LODGE_CRASH_ROUNDS` sets how many kills (`cargo xtask soak crash` sets thousands).

use std::{collections::HashMap, path::Path, time::Duration};

use serde_json::Value;
use testkit::{Home, Random, events, schema};

/// Kills per session: enough to meet every kind of moment in one log, few enough that the log stays small.
const KILLS_PER_SESSION: u64 = 12;

const PROMPT: &str = concat!(
    r#"say Let me look. then call bash {"command":"echo one; echo two","description":"Count"} "#,
    r#"then call view {"path":"."} and glob {"pattern":"*"} "#,
    r#"then call create {"path":"note.txt","file_text":"kept"} "#,
    "then think aloud then slowly 1 ms, stream 200 chunks"
);

/// What a reader saw of one session: every persisted event, in order.
#[derive(Default)]
struct Seen {
    session: Option<String>,
    persisted: Vec<Value>,
    /// Kills that came before the turn was over.
    mid_turn: u64,
}

#[test]
fn no_persisted_event_that_was_seen_is_lost_by_kill_9_and_the_session_goes_on() {
    let rounds: u64 = std::env::var("LODGE_CRASH_ROUNDS").map_or(36, |text| text.parse().expect("a number of rounds"));
    let (mut random, seed) = Random::from_env();
    println!("LODGE_SEED={seed} replays this run of {rounds} kills");
    let (mut left, mut mid_turn) = (rounds, 0);
    while left > 0 {
        let kills = left.min(KILLS_PER_SESSION);
        mid_turn += one_session(kills, &mut random, seed);
        left -= kills;
    }
    println!("{mid_turn} of {rounds} kills came in the middle of a turn");
    assert!(mid_turn > 0, "every kill came too late to prove anything (seed {seed})");
}

#[test]
fn a_sub_agent_in_the_background_that_kill_9_took_is_reported_and_nothing_hangs() {
    let home = Home::new();
    let mut seen = Seen::default();
    let prompt = concat!(
        r#"call task {"agent_type":"task","name":"lost","description":"Sleeping","mode":"background","#,
        r#""prompt":"call bash {\"command\":\"sleep 60\"}"} then say I go on"#
    );
    let mut running = home.start(arguments(&seen, prompt));
    while let Some(line) = running.line() {
        // Its command runs, and the session's own agent has nothing left to do.
        if line.contains("assistant.idle") {
            break;
        }
    }
    running.kill();
    note(&mut seen, running.finish().events());
    let events = home.run(arguments(&seen, "say still here")).ok().events();
    note(&mut seen, events);
    let log = export(&home, &seen);
    let failed = events::of_kind(&log, "subagent.failed");
    assert_eq!(failed.len(), 1, "{log:#?}");
    assert_eq!(failed[0]["agentId"], "lost");
    assert!(
        failed[0]["data"]["error"]
            .as_str()
            .is_some_and(|error| error.contains("interrupted"))
    );
    let notices = events::of_kind(&log, "system.notification");
    assert_eq!(notices[0]["data"]["kind"]["status"], "failed");
    let started = events::of_kind(&log, "tool.execution_start").len();
    assert_eq!(
        events::of_kind(&log, "tool.execution_complete").len(),
        started,
        "every call has a result"
    );
    let answers = events::of_kind(&log, "assistant.message");
    assert!(answers.iter().any(|answer| answer["data"]["content"] == "still here"));
    events::check_chain(&log).unwrap();
    schema::check_all(&log);
}

/// Returns how many kills came in the middle of a turn.
fn one_session(kills: u64, random: &mut Random, seed: u64) -> u64 {
    let home = Home::new();
    let mut seen = Seen::default();
    for _ in 0..kills {
        run_and_kill(&home, &mut seen, random);
        check(&home, &seen, seed);
    }
    // And the session goes on: a whole turn, with everything before it still in its log.
    let events = home.run(arguments(&seen, "say still here")).ok().events();
    let answers = events::of_kind(&events, "assistant.message");
    assert!(
        answers.iter().any(|answer| answer["data"]["content"] == "still here"),
        "no answer after the kills (seed {seed}): {answers:#?}"
    );
    note(&mut seen, events);
    check(&home, &seen, seed);
    let log = export(&home, &seen);
    events::check_chain(&log).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    schema::check_all(&log);
    seen.mid_turn
}

fn arguments(seen: &Seen, prompt: &str) -> Vec<String> {
    let mut arguments = vec!["run".into(), "--json".into(), "--yolo".into()];
    if let Some(session) = &seen.session {
        arguments.extend(["--resume".into(), session.clone()]);
    }
    arguments.push(prompt.into());
    arguments
}

/// Kills after some lines or some time, both random: lines find the moments in which much is printed, time the others.
fn run_and_kill(home: &Home, seen: &mut Seen, random: &mut Random) {
    let mut running = home.start(arguments(seen, PROMPT));
    if random.below(3) > 0 {
        for _ in 0..random.below(80) {
            if running.line().is_none() {
                break;
            }
        }
    }
    std::thread::sleep(Duration::from_micros(random.below(120_000)));
    running.kill();
    // All that was written before the kill was seen by the pipe's reader.
    let events = running.finish().events();
    let over = events.last().is_some_and(|event| events::kind(event) == "session.idle");
    seen.mid_turn += u64::from(!events.is_empty() && !over);
    note(seen, events);
}

fn note(seen: &mut Seen, events: Vec<Value>) {
    for event in events {
        if events::kind(&event) == "session.start" {
            seen.session = event["data"]["sessionId"].as_str().map(str::to_owned);
        }
        if !events::is_ephemeral(&event) && seen.persisted.iter().all(|known| known["id"] != event["id"]) {
            seen.persisted.push(event);
        }
    }
}

/// Every event that was seen is in the file, as it was seen and in that order.
fn check(home: &Home, seen: &Seen, seed: u64) {
    let Some(session) = &seen.session else {
        assert!(seen.persisted.is_empty(), "events before session.start (seed {seed})");
        return;
    };
    let log = whole_lines(&home.path().join("session-state").join(session).join("events.jsonl"));
    let places: HashMap<&str, usize> = log
        .iter()
        .enumerate()
        .map(|(at, event)| (events::id(event), at))
        .collect();
    let mut last = None;
    for event in &seen.persisted {
        let Some(place) = places.get(events::id(event)) else {
            panic!("seed {seed}: seen, but not in the log: {event}");
        };
        assert_eq!(&log[*place], event, "seed {seed}: the log has it differently");
        assert!(last < Some(*place), "seed {seed}: out of order: {event}");
        last = Some(*place);
    }
}

/// The log right after a kill: its last line may be cut, which is for the next start to mend.
fn whole_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn export(home: &Home, seen: &Seen) -> Vec<Value> {
    let session = seen.session.as_deref().expect("a session that answered has a name");
    home.run(["sessions", "export", session]).ok().events()
}
