//! Access control: who may connect, and what they may do. This crate knows identities, tokens, tickets, devices and
//! roles, the files they are stored in, and local sockets. It knows no wire: each face reads credentials from its own
//! wire, asks the [`Door`], and checks every command against the [`Role`] of the [`Admission`] it got.

mod admission;
mod ancestry;
mod devices;
mod disk_full;
mod door;
mod local;
mod orphans;
mod secret;
mod tickets;

pub use self::{
    admission::{Admission, Identity, Introduction, Role},
    ancestry::{PersonsTerminal, Refused},
    devices::Device,
    disk_full::lacks_room,
    door::{Door, DoorError, PairError, Paired, Ticket},
    local::{LocalListener, SocketFile, listen_at, turn_away},
    orphans::adopt_orphans,
    tickets::TICKET_LIFE,
};
