//! Hosts that fight for sessions while servers, hosts and the network fail; and a look at what is left.
//! `LODGE_FLEET_FAULTS` says how many faults, `LODGE_SEED` which.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use lodge_fleet::{Fleet, FleetError, Host, Tip, Writer};
use testkit::{
    Random,
    nats::{Cluster, Proxy},
};
use tokio::time::{Instant, sleep};

use crate::{
    kit::{self, host, open},
    worker::{Accepted, SESSIONS, Worker},
};

const FAULTS: u64 = 8;
const WORKERS: usize = 3;
/// The server whose disk fails.
const DAMAGED: usize = 0;

struct Campaign {
    cluster: Cluster,
    workers: Vec<Worker>,
    doors: Vec<(Vec<Proxy>, Vec<String>)>,
    accepted: Accepted,
    random: Random,
    control: async_nats::Client,
}

#[tokio::test(flavor = "multi_thread")]
async fn no_accepted_event_is_lost_or_written_twice_whatever_fails() {
    let Some(cluster) = Cluster::start().await else { return };
    let (random, seed) = Random::from_env();
    println!("LODGE_SEED={seed}");
    let faults = std::env::var("LODGE_FLEET_FAULTS").map_or(FAULTS, |text| text.parse().expect("a number"));
    let fleet = Fleet::connect(&kit::options(&cluster))
        .await
        .expect("the fleet is there");
    let mut doors = Vec::new();
    for _ in 0..WORKERS {
        doors.push(cluster.doors().await);
    }
    let control = async_nats::ConnectOptions::with_user_and_password("lodge".into(), "lodge".into());
    let mut campaign = Campaign {
        control: control.connect(cluster.urls()).await.expect("the servers run"),
        cluster,
        workers: Vec::new(),
        doors,
        accepted: Arc::new(Mutex::new(Vec::new())),
        random,
    };
    for worker in 0..WORKERS {
        let started = campaign.start(worker);
        campaign.workers.push(started);
    }
    campaign.wait_for_progress().await;
    let mut tally = BTreeMap::new();
    for _ in 0..faults {
        let fault = campaign.fault().await;
        *tally.entry(fault).or_insert(0) += 1;
        campaign.wait_for_progress().await;
    }
    campaign.workers.clear();
    println!("LODGE_SEED={seed}: {faults} faults: {tally:?}");
    check(&fleet, &campaign.accepted, seed).await;
    every_session_can_be_taken(&fleet).await;
}

impl Campaign {
    fn start(&mut self, worker: usize) -> Worker {
        let seed = self.random.any();
        Worker::start(&format!("w{worker}"), &self.doors[worker].1, seed, &self.accepted)
    }

    async fn some_seconds(&mut self, most: u64) {
        sleep(Duration::from_millis(200 + self.random.below(most * 1000))).await;
    }

    /// Lets one thing go wrong, for a while or for good, and puts it right. Answers what it was.
    async fn fault(&mut self) -> &'static str {
        let worker = self.random.below(WORKERS as u64) as usize;
        let server = self.random.below(self.cluster.len() as u64) as usize;
        match self.random.below(9) {
            0 => {
                self.workers[worker].kill();
                self.some_seconds(2).await;
                self.workers[worker] = self.start(worker);
                "kill a host"
            }
            1 => {
                // Longer than its lease: others take its sessions, and then it goes on as if nothing had happened.
                self.workers[worker].pause();
                sleep(lodge_fleet::LEASE + Duration::from_secs(3)).await;
                self.workers[worker].resume();
                "pause a host"
            }
            2 => {
                self.cluster.kill(server);
                self.some_seconds(3).await;
                self.cluster.restart(server).await;
                "kill a server"
            }
            3 => {
                self.cluster.pause(server);
                self.some_seconds(6).await;
                self.cluster.resume(server);
                "pause a server"
            }
            4 => {
                self.cluster.isolate(server);
                self.some_seconds(8).await;
                self.cluster.heal();
                "part a server from the others"
            }
            5 => {
                let one_way = self.random.below(2) == 0;
                for door in self.doors[worker].0.iter().skip(usize::from(one_way)) {
                    door.cut();
                }
                self.some_seconds(12).await;
                for door in &self.doors[worker].0 {
                    door.heal();
                }
                "part a host from the servers"
            }
            6 => {
                let text = self.some_accepted();
                // Always the same one: what two servers have damaged, the third may not give.
                self.cluster.damage(DAMAGED, "LODGE_EV", &[&text]).await;
                "damage a server's disk"
            }
            7 => {
                for stream in ["LODGE_EV_00", "LODGE_EV_01", "KV_lodge-owners", "KV_lodge-hosts"] {
                    let subject = format!("$JS.API.STREAM.LEADER.STEPDOWN.{stream}");
                    let _ = self.control.request(subject, "".into()).await;
                }
                "change the leaders"
            }
            _ => {
                for server in 0..self.cluster.len() {
                    self.cluster.kill(server);
                }
                for server in 0..self.cluster.len() {
                    self.cluster.restart(server).await;
                }
                "kill all servers"
            }
        }
    }

    /// The text of an event that was accepted, and that the server with the bad disk has undamaged.
    fn some_accepted(&mut self) -> String {
        let accepted = self.accepted.lock().unwrap();
        loop {
            let place = self.random.below(accepted.len() as u64) as usize;
            let (_, text) = &accepted[place];
            if self.cluster.holds(DAMAGED, "LODGE_EV", text) {
                return text.clone();
            }
        }
    }

    /// Faults count only when something is at stake.
    async fn wait_for_progress(&self) {
        let count = || self.accepted.lock().unwrap().len();
        let (before, began) = (count(), Instant::now());
        while count() < before + 20 {
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "nothing is accepted any more"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn check(fleet: &Fleet, accepted: &Accepted, seed: u64) {
    let mut total = 0;
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    for session in (0..SESSIONS).map(|session| format!("s{session}")) {
        let reader = match fleet.log(&session).unwrap().read(Tip::START).await {
            Err(FleetError::NotFound { .. }) => continue,
            other => other.expect("the log is there"),
        };
        // This also shows that every message follows from the one before it and no epoch writes after a later one.
        let (events, tip) = reader
            .events()
            .await
            .unwrap_or_else(|error| panic!("LODGE_SEED={seed}: {error}"));
        println!("{session}: {} events, {} owners", events.len(), tip.epoch());
        for (place, event) in events.iter().enumerate() {
            let earlier = places.insert((session.clone(), kit::text(event)), place);
            assert!(earlier.is_none(), "LODGE_SEED={seed}: {event:?} was written twice");
            total += 1;
        }
    }
    let accepted = accepted.lock().unwrap();
    println!("{} events were accepted, {total} are there", accepted.len());
    let mut last: HashMap<(&str, &str), usize> = HashMap::new();
    for (session, text) in accepted.iter() {
        let place = places.get(&(session.clone(), text.clone()));
        let place = *place.unwrap_or_else(|| panic!("LODGE_SEED={seed}: {text} of {session} was accepted and is lost"));
        let writer = text.split('/').next().unwrap_or_default();
        if let Some(before) = last.insert((session, writer), place) {
            assert!(before < place, "LODGE_SEED={seed}: {text} of {session} is out of order");
        }
    }
}

async fn every_session_can_be_taken(fleet: &Fleet) {
    let heir = host(fleet, "heir").await;
    let began = Instant::now();
    for session in (0..SESSIONS).map(|session| format!("s{session}")) {
        take_from_the_dead(&heir, &session, began).await;
    }
    println!(
        "all sessions were taken {} ms after their owners died",
        began.elapsed().as_millis()
    );
}

async fn take_from_the_dead(heir: &Host, session: &str, began: Instant) -> Option<Writer> {
    loop {
        match open(heir, session).await {
            Ok(writer) => return Some(writer),
            Err(FleetError::NotFound { .. }) => return None,
            Err(FleetError::Owned { .. }) if began.elapsed() < Duration::from_secs(60) => {
                sleep(Duration::from_millis(100)).await;
            }
            Err(error) => panic!("{session} stays behind: {error}"),
        }
    }
}
