//! Numbering and queueing: the only step on the way of a delta that all sessions share. It is one step, so that every
//! connection gets numbers in their order; what takes time is done before it or after it.

use std::sync::Arc;

use lodge_host::Counter;
use parking_lot::Mutex;

use super::{Conn, ring::Sent, spelt::Spelt};
use crate::{
    version::Dialect,
    wire::{Frame, Unnumbered},
};

/// Hands out the numbers.
pub(crate) struct Numbers(Mutex<Counter>);

impl Numbers {
    pub(crate) fn new(seq: Counter) -> Self {
        Self(Mutex::new(seq))
    }

    /// The last number handed out.
    pub(crate) fn last(&self) -> u64 {
        self.0.lock().last()
    }

    /// Numbers and queues something in one step. Whoever sends it is woken after that.
    pub(crate) fn step<R>(&self, run: impl FnOnce(&mut Numbering<'_>) -> R) -> R {
        let mut wake = Vec::new();
        let result = run(&mut Numbering {
            seq: &mut self.0.lock(),
            wake: &mut wake,
        });
        wake.iter().for_each(|conn| conn.wake());
        result
    }
}

/// One step.
pub(crate) struct Numbering<'a> {
    seq: &'a mut Counter,
    wake: &'a mut Vec<Arc<Conn>>,
}

impl Numbering<'_> {
    pub(super) fn number(&mut self, spelt: Spelt) -> Arc<Sent> {
        Arc::new(spelt.number(self.seq))
    }

    pub(super) fn push(&mut self, conn: &Arc<Conn>, frame: Frame) {
        if conn.enqueue(frame) {
            self.wake.push(conn.clone());
        }
    }

    pub(super) fn push_sent(&mut self, conn: &Arc<Conn>, dialect: Dialect, sent: &Sent) {
        for frame in sent.frames(dialect) {
            self.push(conn, frame.clone());
        }
    }

    /// Numbers and queues what another host tells one client.
    pub(crate) fn pass_on(&mut self, conn: &Arc<Conn>, action: Unnumbered) {
        let frame = action.frame(self.seq.next());
        self.push(conn, frame);
    }

    /// Queues what takes no number, because nothing happened.
    pub(crate) fn answer(&mut self, conn: &Arc<Conn>, answer: Unnumbered) {
        let frame = answer.frame(self.seq.last());
        self.push(conn, frame);
    }
}
