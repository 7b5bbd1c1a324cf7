//! Random histories: whatever happens, what was acknowledged is there, in order.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;

use lodge_events::{Event, LodgeRewound, LodgeUsage, UserMessage};
use lodge_log::{Damage, HomeOptions, Position, SessionLog, Snapshot, Store, SyncPolicy};
use proptest::prelude::*;
use uuid::Uuid;

use crate::support::{TestHome, ids};
use crate::test_disk::{Fault, TestDisk};

#[derive(Debug, Clone)]
enum Step {
    /// Append events with texts of these lengths, at once.
    Append(Vec<usize>),
    /// Append so many events beside the chain, at once.
    AppendBeside(usize),
    /// Append with a fault at the nth call.
    AppendBadly(Fault, usize),
    /// The host ends and starts again.
    Reopen,
    /// The host dies in the middle of a write: this much of a line is left behind.
    Die(usize),
    /// The side file is lost.
    LoseIndex,
    /// The last sync did not cover the end of the file: zeros instead of what was not acknowledged.
    Zeros(usize),
    Snapshot,
    /// Forget all but this many events, and those after them that hang beside the chain.
    Rewind(usize),
    /// The same, with a fault at the nth call.
    RewindBadly(usize, Fault, usize),
    /// Leave what was forgotten out of the file, with a fault at the nth call, or without.
    Compact(Option<(Fault, usize)>),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        Just(Fault::Full),
        Just(Fault::Broken),
        Just(Fault::Interrupted),
        Just(Fault::Short),
        Just(Fault::HalfThenFull)
    ];
    prop_oneof![
        6 => prop::collection::vec(prop_oneof![9 => 0..300usize, 1 => 0..100_000usize], 0..6).prop_map(Step::Append),
        3 => (1..4usize).prop_map(Step::AppendBeside),
        2 => (fault.clone(), 0..6usize).prop_map(|(fault, at)| Step::AppendBadly(fault, at)),
        2 => Just(Step::Reopen),
        2 => (0..400usize).prop_map(Step::Die),
        1 => Just(Step::LoseIndex),
        1 => (1..10_000usize).prop_map(Step::Zeros),
        1 => Just(Step::Snapshot),
        2 => (0..30usize).prop_map(Step::Rewind),
        1 => (0..30usize, fault.clone(), 0..12usize).prop_map(|(keep, fault, at)| Step::RewindBadly(keep, fault, at)),
        2 => prop::option::of((fault, 0..12usize)).prop_map(Step::Compact),
        1 => Just(Step::Sync),
    ]
}

struct World {
    t: TestHome,
    disk: TestDisk,
    session: String,
    log: Option<Box<dyn SessionLog>>,
    acknowledged: Vec<Event>,
    next: u128,
}

impl World {
    fn event(&mut self, len: usize) -> Event {
        self.next += 1;
        let id = Uuid::from_u128(self.next);
        let message = UserMessage {
            content: "é".repeat(len / 2),
            ..Default::default()
        };
        Event::with(id, jiff::Timestamp::UNIX_EPOCH, self.last(), None, message)
    }

    fn beside(&mut self) -> Event {
        self.next += 1;
        let usage = LodgeUsage {
            model: "m".into(),
            ..Default::default()
        };
        Event::with(
            Uuid::from_u128(self.next),
            jiff::Timestamp::UNIX_EPOCH,
            self.last(),
            None,
            usage,
        )
    }

    /// The last event of the chain.
    fn last(&self) -> Option<Uuid> {
        self.acknowledged
            .iter()
            .rfind(|event| !event.is_beside())
            .map(Event::id)
    }

    fn acknowledged(&self) -> Vec<Uuid> {
        self.acknowledged.iter().map(Event::id).collect()
    }

    /// Takes everything after so many events back, but for what hangs beside the chain. Whether it worked.
    fn rewind(&mut self, keep: usize, fault: Option<(Fault, usize)>) -> bool {
        let keep = keep % (self.acknowledged.len() + 1);
        let (kept, gone) = self.acknowledged.split_at(keep);
        let parent = kept.iter().rfind(|event| !event.is_beside()).map(Event::id);
        let Some(first) = gone.iter().find(|event| !event.is_beside()) else {
            return true;
        };
        let rewound = LodgeRewound {
            up_to_event_id: first.id().to_string(),
            events_removed: gone.iter().filter(|event| !event.is_beside()).count() as u64,
            ..Default::default()
        };
        let stays = gone
            .iter()
            .filter(|event| event.is_beside())
            .map(|event| event.with_parent(parent));
        let after: Vec<Event> = kept.iter().cloned().chain(stays).collect();
        self.next += 1;
        let (id, time) = (Uuid::from_u128(self.next), jiff::Timestamp::UNIX_EPOCH);
        let rewind = Event::with(id, time, parent, None, rewound);
        self.log();
        if let Some((fault, at)) = fault {
            self.disk.plan(fault, at, true);
        }
        let done = self.log().append(&rewind).is_ok();
        self.disk.heal();
        if done {
            self.acknowledged = after;
        }
        done
    }

    fn log(&mut self) -> &mut Box<dyn SessionLog> {
        let (t, session) = (&self.t, &self.session);
        self.log.get_or_insert_with(|| t.store().open(session).unwrap().log)
    }

    fn scribble(&mut self, bytes: &[u8]) {
        self.log = None;
        let mut file = OpenOptions::new()
            .append(true)
            .open(self.t.log_path(&self.session))
            .unwrap();
        file.write_all(bytes).unwrap();
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Append(lens) => {
                let mut events: Vec<Event> = Vec::new();
                let before = self.acknowledged.clone();
                for len in lens {
                    let event = self.event(*len);
                    self.acknowledged.push(event.clone());
                    events.push(event);
                }
                self.log().append_all(&events).unwrap();
                debug_assert!(self.acknowledged.starts_with(&before));
            }
            Step::AppendBeside(count) => {
                let events: Vec<Event> = (0..*count).map(|_| self.beside()).collect();
                self.log().append_all(&events).unwrap();
                self.acknowledged.extend(events);
            }
            Step::Rewind(keep) => assert!(self.rewind(*keep, None)),
            Step::RewindBadly(keep, fault, at) => {
                // When it fails, nothing is forgotten.
                self.rewind(*keep, Some((*fault, *at)));
            }
            Step::AppendBadly(fault, at) => {
                let event = self.event(50);
                self.log();
                self.disk.plan(*fault, *at, true);
                if self.log().append(&event).is_ok() {
                    self.acknowledged.push(event);
                }
                self.disk.heal();
            }
            Step::Reopen => self.log = None,
            Step::Die(cut) => {
                let line = self.event(300).json().to_vec();
                // A whole line would be an event that nobody was told of, which may be there.
                self.scribble(&line[..(*cut).min(line.len() - 1)]);
            }
            Step::LoseIndex => {
                self.log = None;
                drop(self.t.store().open(&self.session).unwrap());
                let _ = std::fs::remove_file(self.t.session_dir(&self.session).join("events.idx"));
            }
            Step::Zeros(len) => self.scribble(&vec![0; *len]),
            Step::Snapshot => {
                let at = self.log().end();
                let count = self.acknowledged.len().to_string();
                self.log().save_snapshot(Snapshot {
                    at,
                    bytes: count.into(),
                });
            }
            Step::Compact(fault) => {
                self.log();
                if let Some((fault, at)) = fault {
                    self.disk.plan(*fault, *at, true);
                }
                let done = self.log().compact().is_ok();
                self.disk.heal();
                assert!(done || fault.is_some());
            }
            Step::Sync => self.log().request_sync().wait().unwrap(),
        }
    }

    /// What a reader is given that opens nothing.
    fn look(&self) {
        let read = self.t.store().read(&self.session, Position::START, Position::END);
        assert_eq!(ids(read.unwrap()), self.acknowledged());
    }

    fn verify(&mut self) {
        let opened = match self.log.take() {
            Some(log) => {
                drop(log);
                self.t.store().open(&self.session).unwrap()
            }
            None => self.t.store().open(&self.session).unwrap(),
        };
        let log = opened.log;
        assert_eq!(
            ids(log.read(Position::START, Position::END).unwrap()),
            self.acknowledged()
        );
        assert_eq!(log.count(), self.acknowledged.len() as u64);
        assert_eq!(log.last_id(), self.last());
        let gaps = opened.repaired.map_or(0, |repair| repair.findings.count(Damage::Gap));
        assert_eq!(gaps, 0, "no event is missing");
        if let Some(snapshot) = opened.snapshot {
            // The snapshot says how many events come before it.
            let count: usize = std::str::from_utf8(&snapshot.bytes).unwrap().parse().unwrap();
            assert_eq!(
                ids(log.read(Position::START, snapshot.at).unwrap()),
                self.acknowledged()[..count]
            );
        }
        self.log = Some(log);
    }
}

#[test]
fn every_acknowledged_event_survives_any_history() {
    let disk = TestDisk::default();
    let t = TestHome::with(HomeOptions {
        sync: SyncPolicy::Turn,
        disk: Arc::new(disk.clone()),
        ..HomeOptions::default()
    });
    let t = std::cell::Cell::new(Some(t));
    let cases = std::cell::Cell::new(0);
    proptest!(ProptestConfig::with_cases(150), |(steps in prop::collection::vec(step(), 1..25))| {
        cases.set(cases.get() + 1);
        let session = format!("s{}", cases.get());
        let home = t.take().unwrap_or_else(|| {
            TestHome::with(HomeOptions { disk: Arc::new(disk.clone()), ..HomeOptions::default() })
        });
        disk.heal();
        let log = Some(home.store().create(&session).unwrap());
        let mut world = World { t: home, disk: disk.clone(), session, log, acknowledged: Vec::new(), next: 0 };
        for step in &steps {
            world.take(step);
            world.look();
            if matches!(step, Step::Reopen | Step::LoseIndex | Step::Compact(_)) {
                world.verify();
            }
        }
        world.verify();
        world.log = None;
        t.set(Some(world.t));
    });
}
