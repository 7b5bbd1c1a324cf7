//! The state behind its lock, and while nobody is told of what is done to it.

use std::ops::{Deref, DerefMut};

use parking_lot::{Mutex, MutexGuard};

use super::Inner;

/// The state behind its lock.
///
/// Locks are taken in this order: the state's; what a conversation has to itself (`Lent`); numbering (`Numbers`); a
/// connection's queue. Whoever holds the state's lock only ever moves things out of the cells and back, so nothing waits
/// for it but those who want it, too.
pub(crate) struct State(Mutex<Inner>);

impl State {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Mutex::new(inner))
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked(self.0.lock())
    }
}

/// The state while its lock is held, with all that was borrowed meanwhile.
pub(crate) struct Locked<'a>(MutexGuard<'a, Inner>);

impl Deref for Locked<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.0
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.put_back();
    }
}

/// The state while it is changed and nobody is told yet. When this is dropped they are: everything that must not be lost is
/// kept by then.
pub(crate) struct Held<'a>(&'a mut Inner);

impl<'a> Held<'a> {
    pub(crate) fn new(inner: &'a mut Inner) -> Self {
        inner.core.hold();
        Self(inner)
    }
}

impl Deref for Held<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        self.0
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        self.0
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.core.release();
    }
}
