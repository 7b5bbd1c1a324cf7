//! Settings that the log has before memory does.

use parking_lot::{Mutex, MutexGuard};

/// Settings. Those that are also in the log are changed with [`Changing::change`]: one at a time, and in the log first. So what
/// memory says is what the last event says, whoever changes them beside each other.
pub(crate) struct Changing<S> {
    now: Mutex<S>,
    one: Mutex<()>,
}

impl<S> Changing<S> {
    pub(crate) fn new(now: S) -> Self {
        Self {
            now: Mutex::new(now),
            one: Mutex::default(),
        }
    }

    /// To read them, or to change some that are in no log.
    pub(crate) fn lock(&self) -> MutexGuard<'_, S> {
        self.now.lock()
    }

    /// Until this is dropped nobody else changes what is in the log.
    pub(crate) fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.one.lock()
    }

    /// Changes a setting once `record` succeeded, which is given what it was. Whether it changed.
    pub(crate) fn change<T: Clone + PartialEq, E>(
        &self,
        setting: impl Fn(&mut S) -> &mut T,
        new: T,
        record: impl FnOnce(&T) -> Result<(), E>,
    ) -> Result<bool, E> {
        let is_recorded = || true;
        self.change_recorded(setting, new, is_recorded, |_| false, record)
    }

    /// Like [`Changing::change`], for a setting that may hold also if it could not be recorded. Until it `is_recorded`, setting
    /// it again records it.
    pub(crate) fn change_recorded<T: Clone + PartialEq, E>(
        &self,
        setting: impl Fn(&mut S) -> &mut T,
        new: T,
        is_recorded: impl FnOnce() -> bool,
        holds_unrecorded: impl FnOnce(&T) -> bool,
        record: impl FnOnce(&T) -> Result<(), E>,
    ) -> Result<bool, E> {
        let _one = self.one.lock();
        let before = setting(&mut self.now.lock()).clone();
        if before == new && is_recorded() {
            return Ok(false);
        }
        let recorded = record(&before);
        if recorded.is_ok() || holds_unrecorded(&before) {
            *setting(&mut self.now.lock()) = new;
        }
        recorded.map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_says_what_the_log_said_last_however_many_change_it() {
        let settings = Changing::new(0);
        let log = Mutex::new(vec![0]);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (settings, log) = (&settings, &log);
                scope.spawn(move || {
                    for turn in 0..1_000 {
                        let new = 1 + thread + 2 * (turn % 2);
                        let changed = settings.change(
                            |now| now,
                            new,
                            |before| {
                                let mut log = log.lock();
                                let last = log.last().copied().ok_or(())?;
                                log.push(new);
                                // Others run between the log and memory.
                                drop(log);
                                std::thread::yield_now();
                                (last == *before).then_some(()).ok_or(())
                            },
                        );
                        assert!(changed.is_ok(), "memory did not say what the log said");
                    }
                });
            }
        });
        assert_eq!(Some(&*settings.lock()), log.lock().last());
    }

    #[test]
    fn what_is_not_recorded_does_not_hold_unless_it_may() {
        let settings = Changing::new(2);
        let log = Mutex::new(vec![2]);
        let lower = |new: i32, has_space: bool| {
            let is_recorded = || log.lock().last() == Some(&new);
            let record = |_: &i32| {
                log.lock().extend(has_space.then_some(new));
                has_space.then_some(()).ok_or("no space")
            };
            let changed = settings.change_recorded(|now| now, new, is_recorded, |before| new < *before, record);
            (changed, *settings.lock(), log.lock().len())
        };
        assert_eq!(lower(3, false), (Err("no space"), 2, 1));
        assert_eq!(lower(1, false), (Err("no space"), 1, 1));
        assert_eq!(lower(1, true), (Ok(true), 1, 2), "it is recorded when that is possible");
        assert_eq!(lower(1, true), (Ok(false), 1, 2));
    }
}
