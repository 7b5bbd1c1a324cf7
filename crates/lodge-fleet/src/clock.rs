//! Time that goes on while a program is stopped or its machine sleeps, and that nobody sets.

use std::time::Duration;

/// A moment, as far as this machine's boot is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) Duration);

impl Moment {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self(Duration::new(
            u64::try_from(now.tv_sec).unwrap_or_default(),
            u32::try_from(now.tv_nsec).unwrap_or_default(),
        ))
    }

    /// Elsewhere the clock may stand still while the machine sleeps.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn now() -> Self {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        Self(START.get_or_init(std::time::Instant::now).elapsed() + Duration::from_secs(1))
    }
}
