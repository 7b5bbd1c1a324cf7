//! Clients talk to three hosts while hosts, servers, the network and disks fail; then a look at what is left.
//! `LODGE_FLEET_HOST_FAULTS` says how many faults, `LODGE_SEED` which.
#![allow(clippy::print_stdout, reason = "a tally of what was done")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lodge_fleet::Fleet;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};
use testkit::{
    Home, Random, events,
    nats::{Cluster, Proxy},
};
use tokio::{task::JoinSet, time::sleep};

use super::{nats::publish, stale::connect};
use crate::{
    accepted::{Client, pending},
    strangers::{Host, Sdk},
};

const FAULTS: u64 = 6;
/// How many faults the same sessions go through. Others follow them, because a log that grows for hours is another test.
const ROUND: u64 = 20;
const HOSTS: usize = 3;
const SESSIONS: usize = 3;
/// How soon a session has to be there again.
const AGAIN: Duration = Duration::from_secs(20);
/// How long a client waits for a host before it tries another one.
const SILENCE: Duration = Duration::from_secs(20);
/// The same for one that only wants to know whether a session is there.
const GLANCE: Duration = Duration::from_secs(5);
/// How long clients rest between two messages, so that the logs stay of a size that people have.
const REST: Duration = Duration::from_millis(500);

/// Where a host is at the moment.
#[derive(Clone)]
struct Place {
    sdk: (SocketAddr, String),
    ahp: String,
}

impl Place {
    fn of(host: &Host) -> Self {
        Self {
            sdk: host.sdk(),
            ahp: host.ahp_url(),
        }
    }
}

type Places = Arc<Mutex<Vec<Place>>>;

/// A session that clients talk in, with whichever host they find; and what was accepted.
#[derive(Clone)]
struct Talk {
    places: Places,
    session: String,
    file: PathBuf,
    accepted: Arc<Mutex<Vec<String>>>,
    last: Arc<AtomicU64>,
}

impl Talk {
    fn place(&self, random: &mut Random, but: Option<usize>) -> Place {
        let places = self.places.lock().unwrap();
        let hosts: Vec<usize> = (0..HOSTS).filter(|host| Some(*host) != but).collect();
        places[*random.pick(&hosts)].clone()
    }

    /// A word that was never said.
    fn word(&self) -> String {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        format!("<m-{}-{number}>", &self.session[..8])
    }

    /// What has the word written to a file once.
    fn prompt(&self, word: &str) -> String {
        let command = format!("echo '{word}' >> {}", self.file.display());
        format!("call bash {} then say Done. {word}", json!({ "command": command }))
    }

    fn accept(&self, word: String) {
        self.accepted.lock().unwrap().push(word);
    }

    fn resume(&self, patience: Duration, place: &Place) -> io::Result<Sdk> {
        let mut sdk = Sdk::try_connect_within(patience, place.sdk.0, &place.sdk.1)?;
        let resume = json!({ "sessionId": self.session, "requestPermission": true, "continuePendingWork": true });
        match sdk.try_call("session.resume", resume)? {
            Ok(_) => Ok(sdk),
            Err(refused) => Err(io::Error::other(refused.to_string())),
        }
    }

    /// A client that has the chat of the session before it, and the chat. What waits for an approval gets it.
    async fn subscribe(&self, patience: Duration, place: &Place) -> Option<(Client, String)> {
        let root = "ahp-root://";
        let mut client = Client::try_connect(patience, &place.ahp).await?;
        let name = format!("client-{}", self.last.fetch_add(1, Ordering::Relaxed));
        let hello = json!({ "channel": root, "protocolVersions": ["1.0.0"], "clientId": name,
            "initialSubscriptions": [root] });
        client.try_request(patience, "initialize", hello).await?;
        let session = json!({ "channel": format!("lodge:/{}", self.session) });
        let shown = client.try_request(patience, "subscribe", session).await?;
        let chat = shown["snapshot"]["state"]["defaultChat"].as_str()?.to_owned();
        let listen = json!({ "channel": chat });
        let shown = client.try_request(patience, "subscribe", listen).await?;
        let turn = &shown["snapshot"]["state"]["activeTurn"];
        let calls = turn["responseParts"].as_array().into_iter().flatten();
        let waiting = calls.filter(|part| part["toolCall"]["status"] == "pending-confirmation");
        for part in waiting {
            let yes = approval(&turn["id"], &part["toolCall"]["toolCallId"]);
            client.try_tell(&chat, yes).await?;
        }
        Some((client, chat))
    }

    /// Stops what goes on, and waits until a last message was answered.
    fn end(&self, place: &Place) -> io::Result<()> {
        let mut sdk = self.resume(SILENCE, place)?;
        let said = |message: &Value| message["params"]["event"]["data"]["content"] == "The end.";
        for (method, prompt) in [("session.abort", None), ("session.send", Some("say The end."))] {
            let params = json!({ "sessionId": self.session, "prompt": prompt });
            if sdk.try_call(method, params)?.is_err() {
                return Err(io::ErrorKind::Other.into());
            }
        }
        while !said(&match sdk.waiting.pop_front() {
            Some(message) => message,
            None => sdk.try_next()?,
        }) {}
        Ok(())
    }

    /// Has the session take a message; says why it does not.
    async fn take_a_message(&self, random: &mut Random, but: Option<usize>) -> Result<(), String> {
        let (place, word) = (self.place(random, but), self.word());
        let text = format!("say Here. {word}");
        if random.below(2) == 0 {
            let talk = self.clone();
            let send = json!({ "sessionId": self.session, "prompt": text });
            let asking = tokio::task::spawn_blocking(move || {
                let resumed = talk.resume(GLANCE, &place).map_err(|error| format!("resume: {error}"));
                let sent = resumed?.try_call("session.send", send);
                let sent = sent.map_err(|error| format!("send: {error}"))?;
                sent.map_err(|refused| format!("send: {refused}"))
            });
            asking.await.expect("asking does not panic")?;
        } else {
            let subscribed = self.subscribe(GLANCE, &place).await;
            let (mut client, chat) = subscribed.ok_or("an AHP client gets no snapshot")?;
            let taken = client
                .try_dispatch(GLANCE, &chat, pending("queued", &word, &text))
                .await;
            if taken != Some(true) {
                return Err(format!("the verdict on an action is {taken:?}"));
            }
        }
        self.accept(word);
        Ok(())
    }
}

/// An app.
struct App {
    talk: Talk,
    random: Random,
}

impl App {
    fn work(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let place = self.talk.place(&mut self.random, None);
            // It goes on with another host, whatever went wrong.
            let _ = self.turns(&place, stop);
            std::thread::sleep(REST);
        }
    }

    /// Some turns with one host, as long as it answers.
    fn turns(&mut self, place: &Place, stop: &AtomicBool) -> io::Result<()> {
        let mut sdk = self.talk.resume(SILENCE, place)?;
        for _ in 0..=self.random.below(4) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            self.turn(&mut sdk)?;
            std::thread::sleep(REST);
        }
        Ok(())
    }

    fn turn(&mut self, sdk: &mut Sdk) -> io::Result<()> {
        let (word, session) = (self.talk.word(), &self.talk.session);
        let send = json!({ "sessionId": session, "prompt": self.talk.prompt(&word) });
        sdk.waiting.clear();
        if sdk.try_call("session.send", send)?.is_err() {
            return Err(io::ErrorKind::Other.into());
        }
        self.talk.accept(word);
        loop {
            let message = match sdk.waiting.pop_front() {
                Some(message) => message,
                None => sdk.try_next()?,
            };
            let event = &message["params"]["event"];
            match event["type"].as_str() {
                Some("permission.requested") => {
                    let yes = json!({ "sessionId": session, "requestId": event["data"]["requestId"],
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

/// A client of AHP.
struct Watcher {
    talk: Talk,
    random: Random,
}

impl Watcher {
    async fn work(mut self, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            let place = self.talk.place(&mut self.random, None);
            // It goes on with another host, whatever went wrong.
            let _ = self.turns(&place, &stop).await;
            sleep(REST).await;
        }
    }

    /// Some turns with one host, as long as it answers.
    async fn turns(&mut self, place: &Place, stop: &AtomicBool) -> Option<()> {
        let (mut client, chat) = self.talk.subscribe(SILENCE, place).await?;
        for _ in 0..=self.random.below(4) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let word = self.talk.word();
            let message = pending("queued", &word, &self.talk.prompt(&word));
            if !client.try_dispatch(SILENCE, &chat, message).await? {
                return None;
            }
            self.talk.accept(word);
            watch_turn(&mut client, &chat).await?;
            sleep(REST).await;
        }
        Some(())
    }
}

fn approval(turn: &Value, call: &Value) -> Value {
    json!({ "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": call, "approved": true })
}

/// Watches until a turn ends, and approves what it wants to do.
async fn watch_turn(client: &mut Client, chat: &str) -> Option<()> {
    loop {
        let is_action = |message: &Value| message["params"]["action"].is_object();
        let message = client.try_until(SILENCE, is_action).await?;
        let action = &message["params"]["action"];
        match action["type"].as_str() {
            Some("chat/toolCallReady") => {
                let yes = approval(&action["turnId"], &action["toolCallId"]);
                client.try_tell(chat, yes).await?;
            }
            Some("chat/turnComplete" | "chat/turnCancelled" | "chat/error") => return Some(()),
            _ => {}
        }
    }
}

/// Stops the clients, also when the test fails.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Campaign {
    cluster: Cluster,
    fleet: Fleet,
    hosts: Vec<Option<Host>>,
    doors: Vec<(Vec<Proxy>, Vec<String>)>,
    places: Places,
    random: Random,
    seed: u64,
    /// The sessions that clients talk in now.
    talks: Vec<Talk>,
    /// How long it took at most until every session was there again, by what had happened.
    away: BTreeMap<&'static str, Duration>,
}

impl Campaign {
    fn start(&self, host: usize, home: Home) -> Host {
        let (servers, system) = (self.doors[host].1.join(","), self.cluster.system_urls().join(","));
        // A full disk is an error to the program, and not its end.
        let before = format!(
            "trap '' XFSZ; export LODGE_FLEET='{servers}' LODGE_FLEET_SYSTEM='{system}' LODGE_FLEET_NAME='host{host}'"
        );
        Host::start_in(home, &before)
    }

    /// Kills a host, and starts it again with what it left.
    fn restart(&mut self, host: usize, meanwhile: impl FnOnce(&Path)) {
        let mut killed = self.hosts[host].take().expect("it runs");
        killed.running.kill();
        meanwhile(&killed.home.path());
        let started = self.start(host, killed.home);
        self.places.lock().unwrap()[host] = Place::of(&started);
        self.hosts[host] = Some(started);
    }

    fn process(&self, host: usize) -> Pid {
        let id = self.hosts[host].as_ref().expect("it runs").running.id();
        Pid::from_raw(id.cast_signed()).expect("a process")
    }

    fn signal(&self, host: usize, signal: Signal) {
        let _ = kill_process(self.process(host), signal);
    }

    /// As if the disk of a host were full: it cannot write to any file.
    fn fill_disk(&self, host: usize, full: bool) {
        let limit = Rlimit {
            current: full.then_some(0),
            maximum: None,
        };
        prlimit(Some(self.process(host)), Resource::Fsize, limit).expect("a limit that can be taken back");
    }

    async fn some_seconds(&mut self, most: u64) {
        sleep(Duration::from_millis(200 + self.random.below(most * 1000))).await;
    }

    /// Waits until every session takes messages by hosts other than this one.
    async fn available(&mut self, what: &'static str, but: Option<usize>) {
        let (began, seed) = (Instant::now(), self.seed);
        let mut asking = JoinSet::new();
        for talk in &self.talks {
            let (talk, mut random) = (talk.clone(), Random::seeded(self.random.any()));
            asking.spawn(async move {
                while let Err(reason) = talk.take_a_message(&mut random, but).await {
                    assert!(
                        began.elapsed() < 3 * AGAIN,
                        "LODGE_SEED={seed}: {what}: {} is not there again: {reason}",
                        talk.session
                    );
                    sleep(Duration::from_millis(100)).await;
                }
                began.elapsed()
            });
        }
        let away = asking.join_all().await.into_iter().max().unwrap_or_default();
        println!(
            "{what}{}: {} ms",
            if but.is_some() { " (while it lasts)" } else { "" },
            away.as_millis()
        );
        assert!(
            away <= AGAIN,
            "LODGE_SEED={seed}: {what}: a session was away for {away:?}"
        );
        let longest = self.away.entry(what).or_default();
        *longest = away.max(*longest);
    }

    /// Pauses a host. Others have its sessions before it goes on.
    async fn pause(&mut self, host: usize, what: &'static str, time: Duration) {
        let began = Instant::now();
        self.signal(host, Signal::STOP);
        self.available(what, Some(host)).await;
        sleep(time.saturating_sub(began.elapsed())).await;
        self.signal(host, Signal::CONT);
    }

    /// The host that has one of the sessions.
    async fn host_with_a_session(&mut self) -> usize {
        let session = self.random.pick(&self.talks).session.clone();
        let owner = self.fleet.owner(&session).await.expect("the servers answer");
        let named = |host: &usize| {
            owner
                .as_ref()
                .is_some_and(|owner| owner.host.starts_with(&format!("host{host}-")))
        };
        let any = self.random.below(HOSTS as u64) as usize;
        (0..HOSTS).find(named).unwrap_or(any)
    }

    /// Lets one thing go wrong, and puts it right. Answers what it was.
    async fn fault(&mut self) -> &'static str {
        let host = self.host_with_a_session().await;
        let server = self.random.below(self.cluster.len() as u64) as usize;
        match self.random.below(28) {
            0..4 => {
                self.some_seconds(1).await;
                self.restart(host, |_| {});
                "kill a host"
            }
            4..6 => {
                let what = "pause a host";
                self.pause(host, what, Duration::from_secs(13)).await;
                what
            }
            6 => {
                let what = "pause a host for a minute";
                self.pause(host, what, Duration::from_secs(60)).await;
                what
            }
            7..9 => {
                let at = self.random.below(1 << 32);
                self.restart(host, |home| flip_a_bit(home, at));
                "kill a host and flip a bit in a log of it"
            }
            9..12 => {
                let what = "part a host from the servers";
                for door in &self.doors[host].0 {
                    door.cut();
                }
                match self.random.below(2) {
                    0 => self.some_seconds(12).await,
                    _ => self.available(what, Some(host)).await,
                }
                for door in &self.doors[host].0 {
                    door.heal();
                }
                what
            }
            12..14 => {
                self.fill_disk(host, true);
                self.some_seconds(6).await;
                self.fill_disk(host, false);
                "fill the disk of a host"
            }
            14..16 => {
                self.cluster.kill(server);
                self.some_seconds(3).await;
                self.cluster.restart(server).await;
                "kill a server"
            }
            16..18 => {
                self.cluster.pause(server);
                self.some_seconds(8).await;
                self.cluster.resume(server);
                "pause a server"
            }
            18..20 => {
                // As one whose disk is slow: what it is asked to store is stored late.
                for _ in 0..20 {
                    self.cluster.pause(server);
                    sleep(Duration::from_millis(250)).await;
                    self.cluster.resume(server);
                    sleep(Duration::from_millis(10)).await;
                }
                "slow a server down"
            }
            20..22 => {
                self.cluster.isolate(server);
                self.some_seconds(6).await;
                self.cluster.heal();
                "part a server from the others"
            }
            22..24 => {
                let logs = (0..32).map(|shard| format!("LODGE_EV_{shard:02}"));
                let buckets = ["KV_lodge-owners", "KV_lodge-hosts", "KV_lodge-sessions"].map(str::to_owned);
                for stream in logs.chain(buckets) {
                    publish(&self.cluster, &format!("$JS.API.STREAM.LEADER.STEPDOWN.{stream}"), "");
                }
                "change the leaders"
            }
            24..26 => {
                // As one whose disk or processor is busy with something else.
                for _ in 0..20 {
                    self.signal(host, Signal::STOP);
                    sleep(Duration::from_millis(250)).await;
                    self.signal(host, Signal::CONT);
                    sleep(Duration::from_millis(50)).await;
                }
                "slow a host down"
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

    /// Has clients talk in new sessions through some faults, and looks at what is left.
    async fn round(&mut self, faults: u64, tally: &mut BTreeMap<&'static str, u64>) {
        let work = self.hosts[0].as_ref().unwrap().home.work();
        let accepted: Arc<Mutex<Vec<String>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = StopOnDrop(stop.clone());
        let (mut apps, mut watchers) = (JoinSet::new(), JoinSet::new());
        self.talks.clear();
        for number in 0..SESSIONS {
            let mut sdk = Sdk::connect(self.hosts[number % HOSTS].as_ref().unwrap());
            let new = json!({ "workingDirectory": work, "requestPermission": true });
            let made = sdk.call("session.create", new).unwrap();
            let session = made["sessionId"].as_str().unwrap().to_owned();
            let talk = Talk {
                places: self.places.clone(),
                file: work.join(format!("ran-{session}")),
                session,
                accepted: accepted.clone(),
                last: Arc::default(),
            };
            self.talks.push(talk.clone());
            let mut random = || Random::seeded(self.random.any());
            let (app, watcher) = (random(), random());
            let app = App {
                talk: talk.clone(),
                random: app,
            };
            let watcher = Watcher { talk, random: watcher };
            let stopped = stop.clone();
            apps.spawn_blocking(move || app.work(&stopped));
            watchers.spawn(watcher.work(stop.clone()));
        }
        for _ in 0..faults {
            self.progress(&accepted).await;
            let fault = self.fault().await;
            *tally.entry(fault).or_insert(0) += 1;
            self.available(fault, None).await;
        }
        self.progress(&accepted).await;
        drop(stopping);
        apps.join_all().await;
        watchers.join_all().await;
        let accepted = accepted.lock().unwrap().clone();
        tokio::task::block_in_place(|| self.check(&accepted));
    }

    /// Waits until more is accepted: faults count only when something is at stake.
    async fn progress(&self, accepted: &Mutex<Vec<String>>) {
        let count = || accepted.lock().unwrap().len();
        let (before, began, seed) = (count(), Instant::now(), self.seed);
        while count() < before + 3 {
            assert!(
                began.elapsed() < Duration::from_secs(180),
                "LODGE_SEED={seed}: nothing is accepted any more"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn check(&self, accepted: &[String]) {
        let seed = self.seed;
        let home = &self.hosts[0].as_ref().unwrap().home;
        let place = Place::of(self.hosts[0].as_ref().unwrap());
        for talk in &self.talks {
            let began = Instant::now();
            while let Err(error) = talk.end(&place) {
                assert!(
                    began.elapsed() < 3 * AGAIN,
                    "LODGE_SEED={seed}: {} does not come to an end: {error}",
                    talk.session
                );
            }
        }
        // First what ran: whatever runs from here on was accepted before it.
        let ran: Vec<String> = self
            .talks
            .iter()
            .flat_map(|talk| {
                let text = fs::read_to_string(&talk.file).unwrap_or_default();
                text.lines().map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        let known = self.said(home);
        for word in accepted {
            let (_, mentions) = known.get(word).copied().unwrap_or_default();
            assert!(mentions > 0, "LODGE_SEED={seed}: {word} was accepted and is lost");
        }
        for (word, (said, _)) in &known {
            assert!(*said <= 1, "LODGE_SEED={seed}: {word} was said {said} times");
        }
        let mut once = HashSet::new();
        for word in &ran {
            assert!(
                known.contains_key(word),
                "LODGE_SEED={seed}: the command of {word} ran, and no log has the message"
            );
            assert!(once.insert(word), "LODGE_SEED={seed}: the command of {word} ran twice");
        }
        println!(
            "{} messages were accepted, all are there; {} commands ran, none twice",
            accepted.len(),
            ran.len()
        );
    }

    /// How often each word was said, and in how many events of the fleet's logs it is.
    fn said(&self, home: &Home) -> HashMap<String, (usize, usize)> {
        let plain = Home::new();
        let (to, servers) = (plain.path(), self.cluster.urls().join(","));
        let mut export = vec!["fleet", "export", to.to_str().expect("a plain path")];
        export.extend(self.talks.iter().map(|talk| talk.session.as_str()));
        export.extend(["--fleet", &servers, "--fleet-unchecked-sync"]);
        let _ = home.run(export).ok();
        let mut known: HashMap<String, (usize, usize)> = HashMap::new();
        assert_eq!(plain.logs().len(), self.talks.len());
        for log in plain.logs() {
            for event in events::read_log(&log) {
                let data = event["data"].to_string();
                let words = data.split('<').filter(|part| part.starts_with("m-"));
                let words: BTreeSet<&str> = words.filter_map(|part| Some(part.split_once('>')?.0)).collect();
                for word in words {
                    let count = known.entry(format!("<{word}>")).or_default();
                    count.0 += usize::from(event["type"] == "user.message");
                    count.1 += 1;
                }
            }
        }
        known
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
        fleet: connect(&cluster).await,
        cluster,
        hosts: Vec::new(),
        doors,
        places: Arc::default(),
        random,
        seed,
        talks: Vec::new(),
        away: BTreeMap::new(),
    };
    for host in 0..HOSTS {
        let started = campaign.start(host, Home::new());
        campaign.places.lock().unwrap().push(Place::of(&started));
        campaign.hosts.push(Some(started));
    }
    let mut tally = BTreeMap::new();
    let mut left = faults;
    while left > 0 {
        let round = left.min(ROUND);
        campaign.round(round, &mut tally).await;
        left -= round;
        println!("LODGE_SEED={seed}: {} faults: {tally:?}", faults - left);
        println!("away at most: {:?}", campaign.away);
    }
}
