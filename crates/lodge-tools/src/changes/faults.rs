//! Points at which a restoration can be interrupted, for tests that try all of them.

use std::io;

/// Called at every point between two changes of the disk; none outside of tests.
#[derive(Default)]
pub(super) struct Faults(#[cfg(test)] Option<Box<dyn Fn() -> io::Result<()> + Send + Sync>>);

impl Faults {
    #[cfg(test)]
    pub(super) fn new(hook: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(hook)))
    }

    #[cfg(not(test))]
    pub(super) fn point(&self) -> io::Result<()> {
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn point(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |hook| hook())
    }
}
