//! Apps talk to three hosts while hosts, servers, the network and disks fail; then a look at what is left.
//! `LODGE_FLEET_HOST_FAULTS` says how many faults, `LODGE_SEED` which.
#![allow(clippy::print_stdout, reason = "a tally of what was done")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use testkit::{
    Home, Random, events,
    nats::{Cluster, Proxy},
};

use super::until;
use crate::strangers::{Host, Sdk};

const FAULTS: u64 = 4;
const HOSTS: usize = 3;
const APPS: usize = 3;
/// How soon a session has to be there again.
const AGAIN: Duration = Duration::from_secs(20);

/// Where each host is at the moment.
type Places = Arc<Mutex<Vec<(SocketAddr, String)>>>;

/// An app with a session of its own: it talks to whichever host it finds, and notes what was accepted.
struct App {
    places: Places,
    session: String,
    file: PathBuf,
    random: Random,
    accepted: Arc<Mutex<Vec<String>>>,
    said: u64,
}

impl App {
    fn work(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let places = self.places.lock().unwrap().clone();
            let (address, token) = &places[self.random.below(HOSTS as u64) as usize];
            let talked = self.talk(*address, token, stop);
            if talked.is_err() {
                thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// Some turns with one host, as long as it answers.
    fn talk(&mut self, address: SocketAddr, token: &str, stop: &AtomicBool) -> io::Result<()> {
        let mut sdk = Sdk::try_connect(address, token)?;
        let resume = json!({ "sessionId": self.session, "requestPermission": true });
        if sdk.try_call("session.resume", resume)?.is_err() {
            return Err(io::ErrorKind::Other.into());
        }
        for _ in 0..=self.random.below(4) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            self.turn(&mut sdk)?;
        }
        Ok(())
    }

    fn turn(&mut self, sdk: &mut Sdk) -> io::Result<()> {
        self.said += 1;
        let word = format!("<m-{}-{}>", &self.session[..8], self.said);
        let command = format!("echo '{word}' >> {}", self.file.display());
        let prompt = format!("call bash {} then say Done.", json!({ "command": command }));
        let send = json!({ "sessionId": self.session, "prompt": format!("{prompt} {word}") });
        sdk.waiting.clear();
        if sdk.try_call("session.send", send)?.is_err() {
            return Err(io::ErrorKind::Other.into());
        }
        self.accepted.lock().unwrap().push(word);
        loop {
            let message = match sdk.waiting.pop_front() {
                Some(message) => message,
                None => sdk.try_next()?,
            };
            let event = &message["params"]["event"];
            match event["type"].as_str() {
                Some("permission.requested") => {
                    let yes = json!({ "sessionId": self.session, "requestId": event["data"]["requestId"],
                        "result": { "kind": "approve-once" } });
                    let _ = sdk.try_call("session.permissions.handlePendingPermissionRequest", yes)?;
                }
                Some("session.idle") => return Ok(()),
                Some("session.error") => return Err(io::ErrorKind::Other.into()),
                _ => {}
            }
        }
    }
}

struct Campaign {
    cluster: Cluster,
    hosts: Vec<Option<Host>>,
    doors: Vec<(Vec<Proxy>, Vec<String>)>,
    places: Places,
    random: Random,
}

impl Campaign {
    fn start(&self, host: usize, home: Home) -> Host {
        let (servers, system) = (self.doors[host].1.join(","), self.cluster.system_urls().join(","));
        let variables =
            format!("export LODGE_FLEET='{servers}' LODGE_FLEET_SYSTEM='{system}' LODGE_FLEET_NAME='host{host}'");
        Host::start_in(home, &variables)
    }

    /// Kills a host, and starts it again with what it left.
    fn restart(&mut self, host: usize, meanwhile: impl FnOnce(&Path)) {
        let mut killed = self.hosts[host].take().expect("it runs");
        killed.running.kill();
        meanwhile(&killed.home.path());
        let started = self.start(host, killed.home);
        self.places.lock().unwrap()[host] = started.sdk();
        self.hosts[host] = Some(started);
    }

    fn signal(&self, host: usize, signal: Signal) {
        let id = self.hosts[host].as_ref().expect("it runs").running.id();
        let _ = kill_process(Pid::from_raw(id.cast_signed()).expect("a process"), signal);
    }

    async fn some_seconds(&mut self, most: u64) {
        tokio::time::sleep(Duration::from_millis(200 + self.random.below(most * 1000))).await;
    }

    /// Lets one thing go wrong, and puts it right. Answers what it was.
    async fn fault(&mut self) -> &'static str {
        let host = self.random.below(HOSTS as u64) as usize;
        let server = self.random.below(self.cluster.len() as u64) as usize;
        match self.random.below(8) {
            0 | 1 => {
                self.some_seconds(1).await;
                self.restart(host, |_| {});
                "kill a host"
            }
            2 => {
                self.signal(host, Signal::STOP);
                tokio::time::sleep(Duration::from_secs(13)).await;
                self.signal(host, Signal::CONT);
                "pause a host"
            }
            3 => {
                let at = self.random.below(1 << 32);
                self.restart(host, |home| flip_a_bit(home, at));
                "kill a host and flip a bit in a log of it"
            }
            4 => {
                for door in &self.doors[host].0 {
                    door.cut();
                }
                self.some_seconds(12).await;
                for door in &self.doors[host].0 {
                    door.heal();
                }
                "part a host from the servers"
            }
            5 => {
                self.cluster.kill(server);
                self.some_seconds(3).await;
                self.cluster.restart(server).await;
                "kill a server"
            }
            6 => {
                self.cluster.isolate(server);
                self.some_seconds(6).await;
                self.cluster.heal();
                "part a server from the others"
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
}

/// Changes one bit of one log in a home.
fn flip_a_bit(home: &Path, at: u64) {
    let dirs = fs::read_dir(home.join("session-state")).into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = dirs.map(|dir| dir.path().join("events.jsonl")).collect();
    logs.retain(|log| log.metadata().is_ok_and(|about| about.len() > 0));
    logs.sort();
    let Some(log) = logs.get(at as usize % logs.len().max(1)) else {
        return;
    };
    let mut bytes = fs::read(log).unwrap();
    let place = (at / 8) as usize % bytes.len();
    bytes[place] ^= 1 << (at % 8);
    fs::write(log, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_accepted_message_is_lost_and_no_tool_runs_twice_whatever_fails() {
    let Some(cluster) = Cluster::start().await else { return };
    let (random, seed) = Random::from_env();
    println!("LODGE_SEED={seed}");
    let faults = std::env::var("LODGE_FLEET_HOST_FAULTS").map_or(FAULTS, |text| text.parse().expect("a number"));
    let mut doors = Vec::new();
    for _ in 0..HOSTS {
        doors.push(cluster.doors().await);
    }
    let mut campaign = Campaign {
        cluster,
        hosts: Vec::new(),
        doors,
        places: Arc::default(),
        random,
    };
    for host in 0..HOSTS {
        let started = campaign.start(host, Home::new());
        campaign.places.lock().unwrap().push(started.sdk());
        campaign.hosts.push(Some(started));
    }
    let work = campaign.hosts[0].as_ref().unwrap().home.work();
    let accepted: Arc<Mutex<Vec<String>>> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let mut sessions = Vec::new();
    let mut apps: Vec<JoinHandle<()>> = Vec::new();
    for app in 0..APPS {
        let mut sdk = Sdk::connect(campaign.hosts[app % HOSTS].as_ref().unwrap());
        let new = json!({ "workingDirectory": work, "requestPermission": true });
        let session = sdk.call("session.create", new).unwrap()["sessionId"]
            .as_str()
            .unwrap()
            .to_owned();
        let app = App {
            places: campaign.places.clone(),
            session: session.clone(),
            file: work.join(format!("ran-{app}")),
            random: Random::seeded(campaign.random.any()),
            accepted: accepted.clone(),
            said: 0,
        };
        let stop = stop.clone();
        apps.push(thread::spawn(move || app.work(&stop)));
        sessions.push(session);
    }
    let mut tally = BTreeMap::new();
    for _ in 0..faults {
        progress(&accepted, seed).await;
        *tally.entry(campaign.fault().await).or_insert(0) += 1;
    }
    progress(&accepted, seed).await;
    stop.store(true, Ordering::Relaxed);
    for app in apps {
        tokio::task::block_in_place(|| app.join()).expect("an app goes on whatever happens");
    }
    println!("LODGE_SEED={seed}: {faults} faults: {tally:?}");
    check(&campaign, &sessions, &work, &accepted.lock().unwrap(), seed);
}

/// Waits until more is accepted: faults count only when something is at stake.
async fn progress(accepted: &Mutex<Vec<String>>, seed: u64) {
    let count = || accepted.lock().unwrap().len();
    let (before, began) = (count(), Instant::now());
    while count() < before + 3 {
        assert!(
            began.elapsed() < Duration::from_secs(180),
            "LODGE_SEED={seed}: nothing is accepted any more"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn check(campaign: &Campaign, sessions: &[String], work: &Path, accepted: &[String], seed: u64) {
    let home = &campaign.hosts[0].as_ref().unwrap().home;
    let began = Instant::now();
    for session in sessions {
        until(home, &["run", "--resume", session, "say The end."], |said| {
            said.contains("The end.")
        });
    }
    println!("all sessions were there again after {} ms", began.elapsed().as_millis());
    assert!(began.elapsed() < AGAIN * sessions.len() as u32, "LODGE_SEED={seed}");
    let plain = Home::new();
    let servers = campaign.cluster.urls().join(",");
    let to = plain.path();
    let export = [
        "fleet".as_ref(),
        "export".as_ref(),
        to.as_os_str(),
        "--fleet".as_ref(),
        servers.as_ref(),
    ];
    let _ = home
        .run(export.into_iter().chain(["--fleet-unchecked-sync".as_ref()]))
        .ok();

    // How often each was said, and in how many events it is.
    let mut known: HashMap<String, (usize, usize)> = HashMap::new();
    for log in plain.logs() {
        for event in events::read_log(&log) {
            let data = event["data"].to_string();
            let words = data.split('<').filter(|part| part.starts_with("m-"));
            let words = words.filter_map(|part| Some(part.split_once('>')?.0));
            let words: BTreeSet<&str> = words.collect();
            for word in words {
                let count = known.entry(format!("<{word}>")).or_default();
                count.0 += usize::from(event["type"] == "user.message");
                count.1 += 1;
            }
        }
    }
    let count = |word: &str, text: &str| text.lines().filter(|line| *line == word).count();
    let ran: Vec<String> = (0..APPS)
        .map(|app| fs::read_to_string(work.join(format!("ran-{app}"))).unwrap_or_default())
        .collect();
    let mut runs = 0;
    for word in accepted {
        let (_, mentions) = known.get(word).copied().unwrap_or_default();
        assert!(mentions > 0, "LODGE_SEED={seed}: {word} was accepted and is lost");
    }
    for (word, (said, _)) in &known {
        assert!(*said <= 1, "LODGE_SEED={seed}: {word} was said {said} times");
        let times: usize = ran.iter().map(|text| count(word, text)).sum();
        assert!(times <= 1, "LODGE_SEED={seed}: the command of {word} ran {times} times");
        runs += times;
    }
    println!(
        "{} messages were accepted, {runs} commands ran, none twice",
        accepted.len()
    );
}
