//! What every terminal client has, however it draws: a mirror of the host's state, outgoing messages, and open questions.

pub mod ask;
pub(crate) mod form;
pub mod mirror;
pub mod outbox;
