//! Sessions that outlive their machine: logs on NATS JetStream, and which host may write to one.
//!
//! This room knows streams, subjects, leases and owners, and the copy of a log in a home. It may not know any wire of a client, or
//! what events mean: an event is a line of JSON here.
//!
//! - [`Fleet::connect`] refuses servers that could lose what they acknowledge, and says why.
//! - A session's log is the subject `lodge.ev.<shard>.<session>` in one of 32 streams. A [`Writer`] appends runs of events,
//!   each fenced by the message that it follows; a [`Reader`] checks every message against all before it.
//! - A [`Host`] holds one lease and takes sessions over from hosts whose lease ran out. Leases only say who is alive. What
//!   keeps two hosts from writing to one session is the fence: who takes over claims the log by a message of its own, and
//!   whatever an earlier owner sends after that is refused.
//! - A [`Listing`] follows what owners say of their sessions; [`Fleet::ask`] asks a host to let one go; [`Fleet::link`] leads to
//!   what another host serves.

mod access;
mod bodies;
mod checks;
mod clock;
mod copy;
mod error;
mod files;
mod fleet;
mod health;
mod host;
mod jetstream;
mod links;
mod listing;
mod log;
#[cfg(test)]
mod model;
mod names;
mod owner;
mod reader;
mod record;
mod requests;
mod writer;

pub use access::Access;
pub use checks::{ServerInfo, SyncCheck};
pub use error::FleetError;
pub use files::{FileChange, MovingFiles, SessionFiles};
pub use fleet::{Fleet, Options};
pub use health::StreamHealth;
pub use host::{Announcement, Host, HostInfo, LEASE, Lease};
pub use listing::{Entry, Listed, Listing};
pub use log::FleetLog;
pub use owner::{Intent, Owner};
pub use reader::Reader;
pub use record::{Kind, Record, Tip};
pub use requests::{Asker, Reply, Request, Requests};
pub use writer::Writer;
