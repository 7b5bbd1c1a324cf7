//! A host as a process of its own, so that it can be killed and stopped: it takes sessions, writes to them and says what
//! was accepted. It is this test binary, started again.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use lodge_fleet::{Announcement, Fleet, FleetError, Host, Intent, Tip, Writer};
use rustix::process::{Pid, Signal, kill_process};
use testkit::Random;

use crate::kit::{event, options_by};

const URLS: &str = "LODGE_FLEET_WORKER";
/// How many sessions the workers fight for.
pub(crate) const SESSIONS: u64 = 6;

/// What a worker said was accepted: the session, and the texts of the events in the order in which they were written.
pub(crate) type Accepted = Arc<Mutex<Vec<(String, String)>>>;

/// A running worker.
pub(crate) struct Worker {
    process: Child,
}

impl Worker {
    pub(crate) fn start(name: &str, urls: &[String], seed: u64, accepted: &Accepted) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "worker::a_worker_only_when_it_is_started_as_one",
                "--nocapture",
            ])
            .env(URLS, format!("{name} {seed} {}", urls.join(" ")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this binary can be started again");
        let said = BufReader::new(process.stdout.take().unwrap());
        let accepted = accepted.clone();
        thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if let ["accepted", session, text] = line.split(' ').collect::<Vec<_>>()[..] {
                    accepted.lock().unwrap().push((session.to_owned(), text.to_owned()));
                }
            }
        });
        Self { process }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub(crate) fn pause(&self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::CONT);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_only_when_it_is_started_as_one() {
    let Ok(orders) = std::env::var(URLS) else { return };
    let mut orders = orders.split(' ').map(str::to_owned);
    let (name, seed) = (orders.next().unwrap(), orders.next().unwrap().parse().unwrap());
    let options = options_by(orders.collect());
    let mut random = Random::seeded(seed);
    loop {
        // A worker that cannot reach the servers for long begins anew, as a service would be started again.
        if let Err(error) = work(&name, &options, &mut random).await {
            eprintln!("{name}: {error}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

async fn work(name: &str, options: &lodge_fleet::Options, random: &mut Random) -> Result<(), FleetError> {
    let fleet = Fleet::connect(options).await?;
    let announcement = Announcement {
        name: name.into(),
        version: "0".into(),
        ..Announcement::default()
    };
    let host = Host::join(&fleet, announcement).await?;
    let mut writers: Vec<Option<Writer>> = (0..SESSIONS).map(|_| None).collect();
    let mut number = 0;
    loop {
        let session = random.below(SESSIONS);
        let slot = &mut writers[session as usize];
        if let Some(mut writer) = slot.take() {
            if random.below(100) == 0 {
                let _ = host.release(writer).await;
                continue;
            }
            let run: Vec<String> = (0..=random.below(3))
                .map(|event| format!("{}/{}", host.id(), number + event))
                .collect();
            number += 3;
            let events: Vec<_> = run.iter().map(|text| event(text)).collect();
            match writer.append(&events).await {
                Ok(_) => {
                    for text in run {
                        say(session, &text);
                    }
                    *slot = Some(writer);
                }
                Err(error) => eprintln!("{name}: {error}"),
            }
        } else if random.below(4) == 0 {
            *slot = take(&host, &format!("s{session}")).await;
        }
        tokio::time::sleep(Duration::from_millis(random.below(10))).await;
    }
}

async fn take(host: &Host, session: &str) -> Option<Writer> {
    for intent in [Intent::Open, Intent::Create] {
        match host.take(session, intent, Tip::START, |_| Ok(())).await {
            Ok(writer) => return Some(writer),
            Err(FleetError::Exists { .. } | FleetError::NotFound { .. } | FleetError::Owned { .. }) => {}
            Err(FleetError::Damaged { session, reason, .. }) => say_damaged(&session, &reason),
            Err(error) => eprintln!("{}: {error}", host.id()),
        }
    }
    None
}

fn say(session: u64, text: &str) {
    println!("accepted s{session} {text}");
}

fn say_damaged(session: &str, reason: &str) {
    // No log has this event, so the test fails with these words.
    println!("accepted {session} damaged:{}", reason.replace(' ', "-"));
}
