//! Trust: everything that a folder brings and that can start a program passes one gate.
//!
//! What is read from a folder's file is a [`Startable`]: it can be looked at, and not be started. Only [`Gate::admit`] makes
//! an [`Admitted`] of it, and whatever starts programs takes nothing else. The gate asks whether a person trusts the folder
//! and has accepted the file with exactly these contents.
//!
//! This room knows files and fingerprints. It may not know what is started, nor how.

mod file;
mod gate;
mod store;

pub use file::{Fingerprint, FolderFile};
pub use gate::{Admitted, Gate, Origin, Startable, Untrusted};
pub use store::{Standing, Store};
