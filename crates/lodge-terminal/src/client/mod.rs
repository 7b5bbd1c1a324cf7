//! What every terminal client keeps, however it draws: a mirror of the host's state, messages on their way, and the questions.

pub mod ask;
pub(crate) mod form;
pub mod mirror;
pub mod outbox;
