//! The host with its agent, driven as a face drives it, with the rehearsal model.

mod asking;
mod kit;
mod life;
mod turns;
