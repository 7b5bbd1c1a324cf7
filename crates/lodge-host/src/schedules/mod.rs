//! Schedules: the shared clock, calendar rules, and the prompts that sessions schedule for themselves.

mod clock;
mod cron;
mod session;

pub use self::{clock::Clock, session::ScheduledPrompt};
pub(crate) use self::{
    cron::{Cron, zone as time_zone},
    session::SessionSchedules,
};
