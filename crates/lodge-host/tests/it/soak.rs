//! An agent that is pushed around: random prompts, tools, failures and aborts, for as many rounds as `LODGE_SOAK_ROUNDS` says
//! (`cargo xtask soak agent`), a few without it. Afterwards nothing may be left: no process, no open file, no grown memory.

use std::time::Duration;

use lodge_events::{AbortReason, Payload};
use lodge_host::{Answer, Approval, Capabilities, NewSession, PermissionDecision};

use crate::kit::{Probe, house, log_of};

/// A small generator of its own, so that a seed plays the same rounds everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

const PROMPTS: [&str; 12] = [
    "say hello",
    "stream 400 chunks",
    "think about doors then say They open.",
    "call bash {\"command\":\"echo hi; sleep 0.02; echo there\"} then say done",
    "call bash {\"command\":\"sleep 30 & echo started\"} then say left it running",
    "call bash {\"command\":\"sleep 30\",\"mode\":\"async\"} then say in the background",
    "call create {\"path\":\"made.txt\",\"file_text\":\"x\"} and glob {\"pattern\":\"*\"} then call view {\"path\":\"made.txt\"} then say done",
    "call grep {\"pattern\":\"x\"} and view {\"path\":\".\"} then stream 50 chunks",
    "fail with server error 1 time then say recovered",
    "fail with quota",
    "fail with context too long 1 time then say fits",
    "call sql {\"query\":\"select 1\",\"description\":\"count\"} then malformed arguments",
];

async fn play(probe: &mut Probe, dice: &mut Dice) {
    let prompt = PROMPTS[dice.roll(PROMPTS.len() as u64) as usize];
    probe.seen.clear();
    probe.send(prompt).await;
    if dice.roll(3) == 0 {
        tokio::time::sleep(Duration::from_millis(dice.roll(25))).await;
        probe.session.abort(AbortReason::UserInitiated).await.unwrap();
    }
    loop {
        let asked = probe
            .until(|payload| match payload {
                Payload::PermissionRequested(asked) => Some(Some(asked.request_id.clone())),
                Payload::SessionIdle(_) => Some(None),
                _ => None,
            })
            .await;
        let Some(request) = asked else { return };
        let decision = match dice.roll(4) {
            0 => PermissionDecision::Deny { feedback: None },
            1 => PermissionDecision::Reject { feedback: None },
            _ => PermissionDecision::ApproveOnce,
        };
        // It may be over already: an abort takes the question back.
        let _ = probe
            .session
            .answer(&request, Answer::Permission(decision), Default::default())
            .await
            .unwrap();
    }
}

/// What this process holds: open files, and children that live.
#[cfg(target_os = "linux")]
fn held() -> (usize, Vec<String>) {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let me = std::process::id();
    let children = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let stat = std::fs::read_to_string(path.join("stat")).ok()?;
        let rest = stat.rsplit_once(')')?.1;
        let mut fields = rest.split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?);
        (parent.parse() == Ok(me) && state != "Z").then(|| stat.clone())
    });
    (files, children.collect())
}

#[cfg(target_os = "linux")]
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// The rounds count what the whole process holds, so they have a process to themselves.
#[cfg(target_os = "linux")]
#[test]
fn an_agent_that_is_pushed_around_leaves_nothing_behind() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "soak::alone", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{shown}");
    assert!(output.status.success() && shown.contains("1 passed"));
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by an_agent_that_is_pushed_around_leaves_nothing_behind"]
async fn alone() {
    let asked = std::env::var("LODGE_SOAK_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse::<u64>().ok());
    let rounds = asked.unwrap_or(40);
    let seed = std::env::var("LODGE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(std::process::id() as u64 + 1);
    println!("seed {seed}, {rounds} rounds (LODGE_SEED plays it again)");
    let mut dice = Dice(seed);
    let house = house();
    let mut warm = None;
    for round in 0..rounds {
        let approval = if dice.roll(2) == 0 {
            Approval::ApproveAll
        } else {
            Approval::Ask
        };
        let mut probe = house
            .session_with(NewSession {
                approval,
                ..NewSession::default()
            })
            .await;
        let _client = probe
            .attach(Capabilities {
                permissions: true,
                ..Capabilities::default()
            })
            .await;
        for _ in 0..=dice.roll(3) {
            play(&mut probe, &mut dice).await;
        }
        let log = log_of(&probe.session);
        let count = |kind: &str| log.iter().filter(|event| event.kind() == kind).count();
        assert_eq!(
            count("tool.execution_start"),
            count("tool.execution_complete"),
            "seed {seed}, round {round}"
        );
        house.host.close(probe.session.id()).await;
        drop(probe);
        if round == rounds / 4 {
            warm = Some((held().0, resident_kib()));
        }
    }
    // Threads that end processes and sync files finish beside; they are waited for, not timed.
    for _ in 0..200 {
        if held().1.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ((files, children), grown) = (held(), resident_kib());
    assert!(children.is_empty(), "seed {seed}: processes are left: {children:?}");
    let (files_before, resident_before) = warm.expect("there were rounds");
    assert!(
        files <= files_before + 8,
        "seed {seed}: {files_before} open files became {files}"
    );
    println!("resident {resident_before} KiB after a quarter of the rounds, {grown} KiB at the end");
    if rounds >= 1000 {
        assert!(
            grown < resident_before + 32 * 1024,
            "seed {seed}: {resident_before} KiB became {grown} KiB"
        );
    }
}
