//! The current time, for schedules. Tests set the clock by hand.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::sync::watch;

/// Clocks are set and machines sleep: how far a moment is off is looked at again so often, and what is due then is not yet late.
const LOOK: Duration = Duration::from_secs(15);

/// A clock: the system's, or one that is turned by hand.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<Arc<watch::Sender<Timestamp>>>);

impl Clock {
    /// One that stands still until it is set.
    pub fn by_hand(now: Timestamp) -> Self {
        Self(Some(Arc::new(watch::Sender::new(now))))
    }

    /// Sets a clock that is turned by hand. Nobody sets the system's.
    pub fn set(&self, now: Timestamp) {
        if let Some(hand) = &self.0 {
            hand.send_replace(now);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match &self.0 {
            Some(hand) => *hand.borrow(),
            None => Timestamp::now(),
        }
    }

    /// Waits for a moment.
    pub(crate) async fn reach(&self, moment: Timestamp) {
        let mut turned = self.0.as_ref().map(|hand| hand.subscribe());
        loop {
            match &mut turned {
                // The sender is held right here.
                Some(turned) => drop(turned.wait_for(|now| *now >= moment).await),
                None => {
                    let left = moment.duration_since(Timestamp::now());
                    let left = Duration::try_from(left).unwrap_or_default();
                    tokio::time::sleep(left.min(LOOK)).await;
                }
            }
            if self.now() >= moment {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn moments_are_reached_by_either_clock() {
        let system = Clock::default();
        system.set(Timestamp::MIN);
        let soon = system.now() + Duration::from_millis(20);
        system.reach(soon).await;
        assert!(system.now() >= soon);
        system.reach(Timestamp::MIN).await;
        let hand = Clock::by_hand(Timestamp::UNIX_EPOCH);
        hand.reach(Timestamp::UNIX_EPOCH).await;
        let waits = tokio::spawn({
            let hand = hand.clone();
            async move { hand.reach(Timestamp::from_second(10).unwrap()).await }
        });
        for second in [3, 1, 11] {
            hand.set(Timestamp::from_second(second).unwrap());
        }
        waits.await.unwrap();
    }
}
