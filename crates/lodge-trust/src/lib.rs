//! Trust: everything from a folder that can start a program passes one gate.
//!
//! What is read from a folder's file is a [`Startable`]: it can be inspected, but not started. Only [`Gate::admit`]
//! turns it into an [`Admitted`], and code that starts programs accepts nothing else. The gate checks that a person
//! trusts the folder and has accepted the file with exactly these contents.
//!
//! This crate knows files and fingerprints. It may not know what is started, or how.

mod file;
mod gate;
mod store;

pub use file::{Fingerprint, FolderFile};
pub use gate::{Admitted, Gate, Origin, Startable, Untrusted};
pub use store::{Standing, Store};
