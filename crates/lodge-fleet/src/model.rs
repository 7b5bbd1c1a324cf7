//! The protocol of ownership as a model, in which everything that can go wrong does: messages arrive late, never or again,
//! reads are stale, hosts stop anywhere and go on later, and a lease may run out at any moment, because nothing here asks for
//! one. The decisions are those of the program: [`follows`] and [`outcome`].

use std::collections::BTreeSet;

use stateright::{Checker as _, HasDiscoveries, Model, Property};
use uuid::Uuid;

use crate::{
    record::{Kind, follows},
    writer::{Outcome, outcome},
};

const HOSTS: usize = 3;
const EPOCHS: u64 = 3;
const APPENDS: u128 = 5;

/// The protocol, or one from which a part was taken away.
#[derive(Clone, Copy)]
struct Protocol {
    /// Servers refuse a message that does not follow the one it names.
    fence: bool,
    /// Who takes over looks whether the log has a later owner already.
    epochs: bool,
    /// Who does not know what became of a message looks into the log before it goes on.
    look: bool,
}

const WHOLE: Protocol = Protocol {
    fence: true,
    epochs: true,
    look: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Message {
    expected: usize,
    append: u128,
    /// What the message says: the same for two messages by which somebody says it twice.
    content: u128,
    epoch: u64,
    claim: bool,
}

impl Message {
    fn kind(self) -> Kind {
        if self.claim { Kind::Claim } else { Kind::Events }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// The session's key names this host; it has not read the log yet.
    Owning {
        epoch: u64,
    },
    /// Something was sent, and nobody has said yet what became of it.
    Sending(Message),
    /// The log is known up to `tip`, and this host may go on.
    Ready {
        epoch: u64,
        tip: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    log: Vec<Message>,
    key_epoch: u64,
    /// All that was ever sent: each may still arrive.
    wire: BTreeSet<Message>,
    hosts: [Phase; HOSTS],
    /// What clients were told is safe.
    accepted: Vec<u128>,
    next_append: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Own(usize),
    /// Reads so many messages of the log, which may have more.
    Read(usize, usize),
    Append(usize),
    Look(usize),
    /// Takes silence for a failure, and says it again.
    SayAgain(usize),
    GiveUp(usize),
    Arrive(Message),
}

impl State {
    fn send(&mut self, host: usize, expected: usize, epoch: u64, claim: bool, content: Option<u128>) -> Option<()> {
        if self.next_append > APPENDS {
            return None;
        }
        let message = Message {
            expected,
            append: self.next_append,
            content: content.unwrap_or(self.next_append),
            epoch,
            claim,
        };
        self.next_append += 1;
        self.wire.insert(message);
        self.hosts[host] = Phase::Sending(message);
        Some(())
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            log: Vec::new(),
            key_epoch: 0,
            wire: BTreeSet::new(),
            hosts: [Phase::Idle; HOSTS],
            accepted: Vec::new(),
            next_append: 1,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (host, phase) in state.hosts.iter().enumerate() {
            actions.push(Action::Own(host));
            match phase {
                Phase::Idle => {}
                Phase::Owning { .. } => actions.extend((0..=state.log.len()).map(|read| Action::Read(host, read))),
                Phase::Sending(_) => {
                    actions.extend([Action::Look(host), Action::GiveUp(host)]);
                    if !self.look {
                        actions.push(Action::SayAgain(host));
                    }
                }
                Phase::Ready { .. } => actions.push(Action::Append(host)),
            }
        }
        actions.extend(state.wire.iter().map(|message| Action::Arrive(*message)));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Own(host) => {
                if state.key_epoch == EPOCHS {
                    return None;
                }
                next.key_epoch += 1;
                next.hosts[host] = Phase::Owning { epoch: next.key_epoch };
            }
            Action::Read(host, tip) => {
                let Phase::Owning { epoch } = state.hosts[host] else {
                    return None;
                };
                let last = state.log[..tip].last().map_or(0, |message| message.epoch);
                if self.epochs && !follows(Kind::Claim, epoch, last) {
                    next.hosts[host] = Phase::Idle;
                } else {
                    next.send(host, tip, epoch, true, None)?;
                }
            }
            Action::Append(host) => {
                let Phase::Ready { epoch, tip } = state.hosts[host] else {
                    return None;
                };
                next.send(host, tip, epoch, false, None)?;
            }
            Action::Look(host) => {
                let Phase::Sending(sent) = state.hosts[host] else {
                    return None;
                };
                let after = state.log.get(sent.expected);
                let found = after.map(|found| (sent.expected as u64 + 1, Some(Uuid::from_u128(found.append))));
                next.hosts[host] = match (outcome(Uuid::from_u128(sent.append), found), after) {
                    (Outcome::Open, _) => return None,
                    (Outcome::Written(tip), _) => {
                        if !sent.claim {
                            next.accepted.push(sent.content);
                        }
                        Phase::Ready {
                            epoch: sent.epoch,
                            tip: tip as usize,
                        }
                    }
                    (Outcome::Replaced, Some(other)) if sent.claim && other.epoch < sent.epoch => {
                        Phase::Owning { epoch: sent.epoch }
                    }
                    (Outcome::Replaced, _) => Phase::Idle,
                };
            }
            Action::SayAgain(host) => {
                let Phase::Sending(sent) = state.hosts[host] else {
                    return None;
                };
                next.send(host, state.log.len(), sent.epoch, sent.claim, Some(sent.content))?;
            }
            Action::GiveUp(host) => next.hosts[host] = Phase::Idle,
            Action::Arrive(message) => {
                if self.fence && message.expected != state.log.len() || state.log.len() > APPENDS as usize {
                    return None;
                }
                next.log.push(message);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one writer", |_, state: &State| {
                let mut last = 0;
                state.log.iter().all(|message| {
                    let good = follows(message.kind(), message.epoch, last);
                    last = message.epoch;
                    good
                })
            }),
            Property::always("nothing twice", |_, state: &State| {
                let contents: BTreeSet<u128> = state.log.iter().map(|message| message.content).collect();
                contents.len() == state.log.len()
            }),
            Property::always("nothing lost", |_, state: &State| {
                let kept = |content: &u128| state.log.iter().any(|message| message.content == *content);
                state.accepted.iter().all(kept)
            }),
            Property::sometimes("a session has moved to another host", |_, state: &State| {
                let mut events = state.log.iter().filter(|message| !message.claim);
                let first = events.next().map(|message| message.epoch);
                first.is_some() && events.any(|message| Some(message.epoch) != first)
            }),
        ]
    }
}

#[test]
fn one_host_writes_and_what_was_accepted_stays_whatever_happens() {
    let checker = WHOLE.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn every_part_of_the_protocol_is_needed() {
    let mutants = [
        ("one writer", Protocol { fence: false, ..WHOLE }),
        ("nothing twice", Protocol { fence: false, ..WHOLE }),
        ("one writer", Protocol { epochs: false, ..WHOLE }),
        ("nothing twice", Protocol { look: false, ..WHOLE }),
    ];
    for (property, mutant) in mutants {
        let found = HasDiscoveries::AllOf([property].into());
        let checker = mutant.checker().finish_when(found).threads(2).spawn_bfs().join();
        checker.assert_any_discovery(property);
    }
}
