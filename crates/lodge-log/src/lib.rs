//! The session log: append, read, tail, recover, index; and the catalogue of sessions derived from it.
//!
//! This room knows that an event is a line with an id and a parent, and keeps lines safe. It may not know what events
//! mean, with one exception that has a module of its own: the catalogue's digest, which reads out what a list of
//! sessions shows. It knows no sockets, no sessions that live, and no tokio: everything here blocks, briefly.
//!
//! - [`Home`] is a locked directory; [`Store`] and [`SessionLog`] are what a store of logs can do; [`FileStore`] does it
//!   with files: `<home>/session-state/<session>/events.jsonl`, one event a line, as the Copilot CLI has it.
//! - A log is only appended to. What a rewind took back is hidden by an event, and leaves the file when it is compacted.
//! - An event is written before [`SessionLog::append`] returns. [`SyncPolicy`] says what a power cut may lose.
//! - A damaged log opens, with every whole event; [`Repair`] says in words what was wrong.
//! - `events.idx` beside a log makes opening it cheap; `catalogue.db` makes listing cheap. Both are derived from the logs
//!   and can be deleted at any time.

mod catalogue;
mod damage;
mod disk;
mod error;
mod file_log;
mod file_store;
mod home;
mod home_lock;
mod index;
mod labels;
mod names;
mod pool;
mod reader;
mod repair;
mod rewinds;
mod salvage;
mod scan;
mod store;
mod survey;
mod sync;

pub use catalogue::{About, Catalogue, ListFilter, Listed, Page, Progress, SearchHit, SessionSummary};
pub use damage::{Damage, Finding, Findings, Repair, Report};
pub use disk::{Disk, DiskFile, Mode, RealDisk, Stat};
pub use error::LogError;
pub use file_store::{COPY_FILE, FileStore};
pub use home::{Home, HomeOptions};
pub use labels::Labels;
pub use pool::descriptor_limit;
pub use rewinds::{goes_with_chain, hide, is_rewind, without_rewound};
pub use store::{Entry, EventReader, Opened, Position, Recorded, SessionLog, Snapshot, Store};
pub use sync::{SyncPolicy, SyncTicket};
