//! What the tests share: the built binary as a child process, events as clients read them, the SDK's own schema,
//! replayable randomness.
//!
//! This room knows how to look at Lodge from outside. It may not know how anything works inside, and nothing that
//! ships may know it.

pub mod binary;
pub mod events;
pub mod fuzz;
pub mod json_schema;
pub mod model_server;
#[cfg(unix)]
pub mod nats;
#[cfg(unix)]
pub mod programs;
pub mod random;
pub mod schema;

pub use binary::{Finished, Home, Running, lodge_bin, skip, target, workspace};
#[cfg(unix)]
pub use programs::write_programs;
pub use random::Random;
