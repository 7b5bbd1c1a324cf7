//! Files: access beneath roots, watches, name completion, grants, and atomic replacement.
//!
//! This crate knows no sessions and no wire.

mod beneath;
mod grants;
mod names;
mod reach;
mod replace;
pub mod uri;
mod watch;

pub use beneath::{Links, open_beneath};
pub use grants::{Grant, Grants};
pub use names::{Found, Indexes, Mention, Symbol, Symbols, mention};
pub use reach::{Entry, Facts, FileError, Files, How, Private, Readable, Root, Write, etag, fill, settled};
pub use replace::replace;
pub use watch::{Change, Changes, Filter, Tree};
