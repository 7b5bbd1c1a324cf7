//! Time: the clock that all schedules share, calendar rules, and the prompts that sessions have scheduled for themselves.

mod clock;
mod cron;
mod session;

pub use self::{clock::Clock, session::ScheduledPrompt};
pub(crate) use self::{
    cron::{Cron, zone as time_zone},
    session::SessionSchedules,
};
