//! Files: access beneath roots, watches, name completion, grants, atomic replacement, and files that a program keeps for
//! itself.
//!
//! This crate knows no sessions and no wire.

mod beneath;
mod blocking;
mod folder;
mod grants;
mod names;
mod private_files;
mod reach;
mod remove;
mod replace;
pub mod uri;
mod watch;

pub use beneath::{Links, open_beneath};
pub use blocking::{exists, has_exactly, holds, is_directory, real_path, short_text};
pub use folder::{open_in_folder, read_in_folder, read_opened, read_regular, text_in_folder};
pub use grants::{Grant, Grants};
pub use names::{Completed, Completion, Found, Indexes, Mention, Symbol, Symbols, mention};
pub use private_files::{Overflow, Scratch, private_directory, read_if_there, stamp};
pub use reach::{Entry, Facts, FileError, Files, How, Pieces, Private, Reach, Root, Write, etag, settled};
pub use remove::remove_directory;
pub use replace::replace;
pub use watch::{Change, Changes, Filter, Tree};
