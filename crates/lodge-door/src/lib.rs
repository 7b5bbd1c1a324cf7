//! Who may come in, and what they may do. This crate knows identities, tokens, tickets, devices and roles, the files they
//! are kept in and the sockets of this machine. It knows no wire: each face reads credentials from its own wire, asks the
//! [`Door`], and checks every command against the [`Role`] of the [`Admission`] it got.

mod admission;
mod devices;
mod door;
mod files;
mod local;
mod orphans;
mod secret;
mod tickets;
mod tree;

pub use self::{
    admission::{Admission, Identity, Role},
    devices::Device,
    door::{Door, DoorError, PairError, Paired, Ticket},
    files::lacks_room,
    local::{LocalListener, SocketFile, listen_at, turn_away},
    orphans::adopt_orphans,
    tickets::TICKET_LIFE,
    tree::{PersonsTerminal, Refused},
};
