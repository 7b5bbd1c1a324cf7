//! What was sent on a channel, kept for clients that come back. Bounded in bytes, per channel: a chatty chat pushes out
//! its own past, not that of others.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use crate::{dialect::seed, version::Dialect, wire::Frame};

/// One sent action in every spelling somebody asked for.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Its number; where the seed's spelling takes several numbers, the last of them.
    pub(crate) seq: u64,
    /// Only for this client, when given.
    pub(crate) to: Option<Arc<str>>,
    modern: Frame,
    /// The session whose conversation this is, for the seed's dialect. Absent: not shown there.
    session: Option<Arc<str>>,
    seed: OnceLock<Vec<Frame>>,
}

impl Sent {
    pub(crate) fn new(seq: u64, modern: Frame, session: Option<Arc<str>>) -> Self {
        Self {
            seq,
            to: None,
            modern,
            session,
            seed: OnceLock::new(),
        }
    }

    /// With a spelling for the seed's dialect that follows from more than the action itself.
    pub(crate) fn with_seed(self, frames: Vec<Frame>) -> Self {
        Self {
            seed: OnceLock::from(frames),
            ..self
        }
    }

    /// For one client alone.
    pub(crate) fn only_to(self, client: Arc<str>) -> Self {
        Self {
            to: Some(client),
            ..self
        }
    }

    /// The frames in a dialect; none when the dialect cannot say it.
    pub(crate) fn frames(&self, dialect: Dialect) -> &[Frame] {
        match dialect {
            // What only the seed's dialect says has no modern spelling.
            Dialect::Modern if self.modern.is_empty() => &[],
            Dialect::Modern => std::slice::from_ref(&self.modern),
            Dialect::Seed => self.seed.get_or_init(|| match &self.session {
                Some(session) => {
                    let translated = seed::translate(&self.modern, session);
                    translated.map(|(spelt, seq)| spelt.frame(seq)).into_iter().collect()
                }
                None => Vec::new(),
            }),
        }
    }

    /// Whether it cuts turns off, which a client with a window on them may not be able to follow.
    pub(crate) fn is_truncation(&self) -> bool {
        self.modern.as_str().contains(r#""action":{"type":"chat/truncated""#)
    }

    fn len(&self) -> usize {
        self.modern.len()
    }
}

/// The past of one channel.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    sent: VecDeque<Arc<Sent>>,
    bytes: usize,
    /// Everything up to here is gone.
    lost: u64,
}

impl Ring {
    /// A ring that knows nothing up to `lost`.
    pub(crate) fn after(lost: u64) -> Self {
        Self {
            lost,
            ..Self::default()
        }
    }

    /// Remembers, and forgets the oldest where it must.
    pub(crate) fn push(&mut self, sent: Arc<Sent>, limit: usize) {
        self.bytes += sent.len();
        self.sent.push_back(sent);
        while self.bytes > limit {
            let Some(oldest) = self.sent.pop_front() else { break };
            self.bytes -= oldest.len();
            self.lost = oldest.seq;
        }
    }

    /// Whether everything after `seen` is still here.
    pub(crate) fn covers(&self, seen: u64) -> bool {
        seen >= self.lost
    }

    /// What came after `seen`.
    pub(crate) fn after_seen(&self, seen: u64) -> impl Iterator<Item = &Arc<Sent>> {
        let from = self.sent.partition_point(|sent| sent.seq <= seen);
        self.sent.range(from..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_bounded_in_bytes_and_knows_what_it_lost() {
        let mut ring = Ring::after(10);
        assert!(ring.covers(10) && !ring.covers(9));
        for seq in 11..=20 {
            ring.push(Arc::new(Sent::new(seq, Frame::from("x".repeat(100)), None)), 350);
        }
        assert!(!ring.covers(16));
        assert!(ring.covers(17));
        let seqs = |seen| ring.after_seen(seen).map(|sent| sent.seq).collect::<Vec<_>>();
        assert_eq!(seqs(17), [18, 19, 20]);
        assert_eq!(seqs(20), [0u64; 0]);
    }
}
