//! One budget for the connections of every face. A connection that has not shown the token yet is a stranger: strangers share
//! few places, little memory and little time, and can never take a client's place.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    net::{IpAddr, Ipv6Addr},
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::net::sockopt;
use tokio_util::sync::CancellationToken;

/// Wrong tokens of an address are forgotten when none came for so long.
const FAILURES_FORGOTTEN: Duration = Duration::from_secs(60);
/// Addresses whose wrong tokens are counted at a time.
const FAILURES_KEPT: usize = 1024;
/// How much longer each further wrong token of an address is left unanswered, and the longest time.
const DELAY_STEP: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(2);
/// How long a peer may be silent before the system asks whether it is there, how long it waits for an answer, and how often it asks.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(15);
const KEEPALIVE_TRIES: u32 = 4;
/// How long accepting rests after it failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What connections may cost. The only place where these numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Clients that are connected at a time, over all faces.
    pub clients: usize,
    /// Strangers that are connected at a time. A further one takes the place of the one that came first.
    pub strangers: usize,
    /// Strangers of one address at a time. Does not apply to loopback, where everybody has the same address.
    pub strangers_per_address: usize,
    /// How long a stranger may take to become a client; TLS and HTTP are part of it.
    pub authenticate_within: Duration,
    /// Bytes that a stranger may send.
    pub bytes_before_token: u64,
    /// Messages that a stranger may send where a connection can carry more than one.
    pub messages_before_token: usize,
    /// Wrong tokens after which a connection is closed.
    pub wrong_tokens: u32,
    /// Wrong tokens of one address after which the answers to further ones are delayed.
    pub wrong_tokens_per_address: u32,
}

impl ConnectionLimits {
    /// Limits that leave most of the file descriptors that a process may have to sessions and their tools.
    pub fn for_descriptors(descriptors: usize) -> Self {
        let strangers = (descriptors / 8).clamp(8, 256);
        Self {
            clients: (descriptors / 3).clamp(16, 4096),
            strangers,
            strangers_per_address: (strangers / 4).max(4),
            authenticate_within: Duration::from_secs(10),
            bytes_before_token: 64 << 10,
            messages_before_token: 16,
            wrong_tokens: 3,
            wrong_tokens_per_address: 10,
        }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::for_descriptors(lodge_log::descriptor_limit())
    }
}

/// The host serves as many clients as it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the host has reached its limit of {0} connections; close some and try again")]
pub struct TooManyClients(usize);

/// Everybody who is connected. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Connections(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    limits: ConnectionLimits,
    /// In the order in which they came.
    strangers: BTreeMap<u64, Stranger>,
    clients: HashSet<u64>,
    last: u64,
    failures: HashMap<IpAddr, Failures>,
}

#[derive(Debug)]
struct Stranger {
    address: Option<IpAddr>,
    displaced: CancellationToken,
}

#[derive(Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Connections {
    /// The limits.
    pub fn limits(&self) -> ConnectionLimits {
        self.0.lock().limits
    }

    /// Sets other limits, for connections from now on.
    pub fn set_limits(&self, limits: ConnectionLimits) {
        self.0.lock().limits = limits;
    }

    /// A place for a connection that was just accepted. Where there is none left, a stranger loses its place: the one that
    /// came first, of the same address where that has too many.
    pub fn admit(&self, address: Option<IpAddr>) -> Slot {
        let address = address.map(network);
        let mut state = self.0.lock();
        if let Some(address) = address.filter(|address| !address.is_loopback()) {
            let same = |stranger: &Stranger| stranger.address == Some(address);
            if state.strangers.values().filter(|stranger| same(stranger)).count() >= state.limits.strangers_per_address
            {
                state.displace(same);
            }
        }
        if state.strangers.len() >= state.limits.strangers {
            state.displace(|_| true);
        }
        state.last += 1;
        let (id, displaced) = (state.last, CancellationToken::new());
        let stranger = Stranger {
            address,
            displaced: displaced.clone(),
        };
        state.strangers.insert(id, stranger);
        Slot {
            deadline: Instant::now() + state.limits.authenticate_within,
            connections: self.clone(),
            id,
            address,
            displaced,
        }
    }

    /// Prepares a TCP connection that was accepted: small messages are sent at once, and a peer that is gone without a word, such as
    /// a phone out of reach, is noticed within some minutes also while nothing is said.
    pub fn prepare(socket: impl AsFd) {
        let prepared = || {
            sockopt::set_tcp_nodelay(&socket, true)?;
            sockopt::set_socket_keepalive(&socket, true)?;
            sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
            sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_PAUSE)?;
            sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_TRIES)
        };
        if let Err(error) = prepared() {
            tracing::debug!(%error, "an option of a connection could not be set");
        }
    }

    /// Accepting failed, most likely for want of file descriptors. The oldest stranger gives its up, and a pause keeps the
    /// loop from spinning.
    pub async fn accept_failed(&self, error: &io::Error) {
        tracing::warn!(%error, "a connection could not be accepted");
        self.0.lock().displace(|_| true);
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }

    /// How many are connected: strangers and clients.
    pub fn connected(&self) -> (usize, usize) {
        let state = self.0.lock();
        (state.strangers.len(), state.clients.len())
    }
}

impl State {
    /// Closes the first stranger that fits.
    fn displace(&mut self, fits: impl Fn(&Stranger) -> bool) {
        let oldest = self
            .strangers
            .iter()
            .find(|(_, stranger)| fits(stranger))
            .map(|(id, _)| *id);
        if let Some(stranger) = oldest.and_then(|id| self.strangers.remove(&id)) {
            stranger.displaced.cancel();
        }
    }
}

/// One connection's place in the budget, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    connections: Connections,
    id: u64,
    address: Option<IpAddr>,
    displaced: CancellationToken,
    deadline: Instant,
}

impl Slot {
    /// When a stranger has to have become a client.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The limits.
    pub fn limits(&self) -> ConnectionLimits {
        self.connections.limits()
    }

    /// The connection showed the token: from now on nobody takes its place.
    pub fn authenticate(&self) -> Result<(), TooManyClients> {
        let mut state = self.connections.0.lock();
        // A client already, or one that lost its place meanwhile and is about to be closed.
        if !state.strangers.contains_key(&self.id) {
            return Ok(());
        }
        if state.clients.len() >= state.limits.clients {
            return Err(TooManyClients(state.limits.clients));
        }
        state.strangers.remove(&self.id);
        state.clients.insert(self.id);
        Ok(())
    }

    /// The connection showed a wrong token. So long is the answer to be put off: longer with each one of its address, so
    /// that guessing is slow. A right token is never delayed.
    pub fn wrong_token(&self) -> Duration {
        let Some(address) = self.address else {
            return Duration::ZERO;
        };
        let mut state = self.connections.0.lock();
        let free = state.limits.wrong_tokens_per_address;
        if state.failures.len() >= FAILURES_KEPT {
            state
                .failures
                .retain(|_, failures| failures.last.elapsed() < FAILURES_FORGOTTEN);
        }
        if state.failures.len() >= FAILURES_KEPT && !state.failures.contains_key(&address) {
            return LONGEST_DELAY;
        }
        let now = Instant::now();
        let failures = state
            .failures
            .entry(address)
            .or_insert(Failures { count: 0, last: now });
        if failures.last.elapsed() >= FAILURES_FORGOTTEN {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        DELAY_STEP
            .saturating_mul(failures.count.saturating_sub(free))
            .min(LONGEST_DELAY)
    }

    /// Gives the place back, whoever still holds this.
    pub fn release(&self) {
        let mut state = self.connections.0.lock();
        state.strangers.remove(&self.id);
        state.clients.remove(&self.id);
    }

    /// Resolves when the connection has to make room for another.
    pub async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.release();
    }
}

/// The address, or for IPv6 the network that one subscriber has.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_gone_is_noticed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        Connections::prepare(&socket);
        assert!(sockopt::socket_keepalive(&socket).unwrap() && sockopt::tcp_nodelay(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), KEEPALIVE_IDLE);
    }

    fn connections() -> Connections {
        let connections = Connections::default();
        connections.set_limits(ConnectionLimits {
            clients: 2,
            strangers: 3,
            strangers_per_address: 2,
            wrong_tokens_per_address: 1,
            ..ConnectionLimits::default()
        });
        connections
    }

    fn at(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn the_oldest_stranger_makes_room_and_clients_never_do() {
        let connections = connections();
        let client = connections.admit(at("127.0.0.1"));
        client.authenticate().unwrap();
        let strangers: Vec<Slot> = (0..5).map(|_| connections.admit(at("127.0.0.1"))).collect();
        let displaced: Vec<bool> = strangers.iter().map(|slot| slot.displaced.is_cancelled()).collect();
        assert_eq!(displaced, [true, true, false, false, false]);
        assert!(!client.displaced.is_cancelled());
        assert_eq!(connections.connected(), (3, 1));
        drop(strangers);
        drop(client);
        assert_eq!(connections.connected(), (0, 0));
    }

    #[test]
    fn one_address_displaces_its_own_strangers_first() {
        let connections = connections();
        let other = connections.admit(at("192.0.2.1"));
        let mine: Vec<Slot> = (0..4)
            .map(|n| connections.admit(at(&format!("2001:db8::{n}"))))
            .collect();
        assert!(!other.displaced.is_cancelled());
        let displaced: Vec<bool> = mine.iter().map(|slot| slot.displaced.is_cancelled()).collect();
        assert_eq!(displaced, [true, true, false, false]);
    }

    #[test]
    fn clients_are_limited_and_a_place_that_is_left_can_be_taken() {
        let connections = connections();
        let mut slots: Vec<Slot> = (0..3).map(|_| connections.admit(None)).collect();
        assert_eq!(slots[0].authenticate(), Ok(()));
        assert_eq!(slots[1].authenticate(), Ok(()));
        assert_eq!(slots[2].authenticate(), Err(TooManyClients(2)));
        slots.remove(0);
        assert_eq!(slots[1].authenticate(), Ok(()));
        assert_eq!(connections.connected(), (0, 2));
    }

    #[test]
    fn a_stranger_that_lost_its_place_does_not_become_a_client() {
        let connections = connections();
        let late = connections.admit(None);
        let _others: Vec<Slot> = (0..3).map(|_| connections.admit(None)).collect();
        assert_eq!(late.authenticate(), Ok(()));
        assert_eq!(connections.connected(), (3, 0));
        drop(late);
        assert_eq!(connections.connected(), (3, 0));
    }

    #[test]
    fn each_wrong_token_of_an_address_is_answered_later_than_the_one_before() {
        let connections = connections();
        let guesser = connections.admit(at("192.0.2.1"));
        let delays: Vec<Duration> = (0..4).map(|_| guesser.wrong_token()).collect();
        assert_eq!(delays, [0, 100, 200, 300].map(Duration::from_millis));
        for _ in 0..100 {
            assert!(connections.admit(at("192.0.2.1")).wrong_token() <= LONGEST_DELAY);
        }
        assert_eq!(connections.admit(at("192.0.2.2")).wrong_token(), Duration::ZERO);
    }
}
