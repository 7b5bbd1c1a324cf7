//! Pairing tickets: each pairs one device, once, within ten minutes. They are in memory only.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use crate::{Role, secret};

/// How long a ticket is valid.
pub const TICKET_LIFE: Duration = Duration::from_secs(600);
/// The most unused tickets; the oldest makes room.
const MOST: usize = 64;
/// How many wrong tickets in a [`WINDOW`] are checked; more are refused.
const WRONG: usize = 20;
const WINDOW: Duration = Duration::from_secs(60);

/// The device that a ticket is for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) role: Role,
    pub(crate) name: Option<String>,
    made: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Tickets {
    /// Keyed by hash, so that the time of a lookup reveals nothing.
    waiting: HashMap<String, Wanted>,
    wrong: VecDeque<Instant>,
}

/// Why a ticket is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    Unknown,
    TooManyWrong,
}

impl Tickets {
    pub(crate) fn add(&mut self, role: Role, name: Option<String>, now: Instant) -> String {
        self.waiting.retain(|_, ticket| now < ticket.made + TICKET_LIFE);
        if self.waiting.len() >= MOST
            && let Some(oldest) = self.waiting.iter().min_by_key(|(_, ticket)| ticket.made)
        {
            let oldest = oldest.0.clone();
            self.waiting.remove(&oldest);
        }
        let ticket = secret::random::<24>();
        let wanted = Wanted { role, name, made: now };
        self.waiting.insert(secret::hash(&ticket), wanted);
        ticket
    }

    /// Takes a ticket out. One that is right is taken however many wrong ones came before: it cannot be guessed, and
    /// whoever sends wrong ones must not keep its owner out.
    pub(crate) fn redeem(&mut self, ticket: &str, now: Instant) -> Result<Wanted, Invalid> {
        let found = self.waiting.remove(&secret::hash(ticket));
        if let Some(wanted) = found.filter(|wanted| now < wanted.made + TICKET_LIFE) {
            return Ok(wanted);
        }
        while self.wrong.front().is_some_and(|at| *at + WINDOW <= now) {
            self.wrong.pop_front();
        }
        if self.wrong.len() >= WRONG {
            return Err(Invalid::TooManyWrong);
        }
        self.wrong.push_back(now);
        Err(Invalid::Unknown)
    }

    /// Makes a ticket valid again that could not be used, through no fault of its holder.
    pub(crate) fn restore(&mut self, ticket: &str, wanted: Wanted) {
        self.waiting.insert(secret::hash(ticket), wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_and_for_ten_minutes() {
        let mut tickets = Tickets::default();
        let now = Instant::now();
        let ticket = tickets.add(Role::View, Some("phone".into()), now);
        assert_eq!(tickets.redeem(&ticket, now).unwrap().role, Role::View);
        assert_eq!(tickets.redeem(&ticket, now).unwrap_err(), Invalid::Unknown);
        let late = tickets.add(Role::Full, None, now);
        assert_eq!(tickets.redeem(&late, now + TICKET_LIFE).unwrap_err(), Invalid::Unknown);
        assert_eq!(tickets.redeem("", now).unwrap_err(), Invalid::Unknown);
    }

    #[test]
    fn guessing_is_slowed_down_and_keeps_nobody_out() {
        let mut tickets = Tickets::default();
        let now = Instant::now();
        for _ in 0..WRONG {
            assert_eq!(tickets.redeem("guess", now).unwrap_err(), Invalid::Unknown);
        }
        assert_eq!(tickets.redeem("guess", now).unwrap_err(), Invalid::TooManyWrong);
        let right = tickets.add(Role::Full, None, now);
        assert!(tickets.redeem(&right, now).is_ok());
        assert_eq!(tickets.redeem("guess", now + WINDOW).unwrap_err(), Invalid::Unknown);
    }

    #[test]
    fn many_tickets_do_not_fill_the_memory() {
        let mut tickets = Tickets::default();
        let now = Instant::now();
        let first = tickets.add(Role::Full, None, now);
        for second in 1..=MOST as u64 {
            tickets.add(Role::Full, None, now + Duration::from_secs(second));
        }
        assert_eq!(tickets.waiting.len(), MOST);
        assert!(tickets.redeem(&first, now).is_err());
    }
}
