//! The gate: decides whether something that a folder's file names may start.

use std::{
    collections::HashMap,
    ops::Deref,
    path::{Path, PathBuf},
};

use crate::{
    file::Fingerprint,
    store::{Standing, Store, standing},
};

/// Where something that can be started was defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In this program.
    Program,
    /// By the person: in their home, in their configuration, on the command line.
    Person,
    /// By an app or a client, whom the person lets open sessions; plugins that it brings are its own.
    Client,
    /// In a file of a folder, which may be anybody's.
    Folder {
        /// The folder it comes from.
        folder: PathBuf,
        /// The file that describes it, then the files that it needs.
        fingerprints: Vec<Fingerprint>,
    },
}

/// Something that could be started, not yet admitted by the gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Startable<T> {
    origin: Origin,
    what: T,
}

impl<T> Startable<T> {
    /// Of this origin. What a folder brings comes from [`crate::FolderFile::startable`].
    pub fn new(origin: Origin, what: T) -> Self {
        Self { origin, what }
    }

    /// Where it was defined.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Its value, for display only.
    pub fn look(&self) -> &T {
        &self.what
    }

    /// A part of it.
    pub fn part<U>(&self, what: U) -> Startable<U> {
        Startable::new(self.origin.clone(), what)
    }
}

/// Something that passed the gate and may be started.
#[derive(Debug, Clone, PartialEq)]
pub struct Admitted<T>(T);

impl<T> Admitted<T> {
    /// Defined by this program.
    pub fn of_program(what: T) -> Self {
        Self(what)
    }

    /// Defined by the person, outside any folder that sessions work in.
    pub fn of_person(what: T) -> Self {
        Self(what)
    }

    /// Configured by an app or client, or by a plugin that it supplies.
    pub fn of_client(what: T) -> Self {
        Self(what)
    }

    /// Reads more from it.
    pub fn map<U>(self, read: impl FnOnce(T) -> U) -> Admitted<U> {
        Admitted(read(self.0))
    }

    /// The same where reading may fail.
    pub fn try_map<U, E>(self, read: impl FnOnce(T) -> Result<U, E>) -> Result<Admitted<U>, E> {
        read(self.0).map(Admitted)
    }

    /// What it is.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Admitted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Why something is not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// The folder is not trusted.
    #[error("this folder is not trusted. To trust it: lodge trust {}", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
    },
    /// It was added to the folder after the folder was trusted.
    #[error("{} is new and not accepted yet. {}", file.display(), see(folder))]
    New {
        /// The folder it comes from.
        folder: PathBuf,
        /// The file.
        file: PathBuf,
    },
    /// Its contents differ from those that were accepted.
    #[error("{} has changed since it was accepted. {}", file.display(), see(folder))]
    Changed {
        /// The folder it comes from.
        folder: PathBuf,
        /// The file.
        file: PathBuf,
    },
}

fn see(folder: &Path) -> String {
    let folder = folder.display();
    format!("To see what it starts: lodge trust --show {folder}; to accept it: lodge trust {folder}")
}

/// Decides what may be started, by what a person trusts now.
#[derive(Debug, Clone)]
pub struct Gate {
    folders: Vec<PathBuf>,
    accepted: HashMap<PathBuf, String>,
    vouched: bool,
    vouched_as_it_was: Vec<Origin>,
}

impl Gate {
    /// By what the store says now.
    pub fn of(store: &Store) -> Self {
        Self {
            folders: store.folders(),
            accepted: store.accepted(),
            vouched: false,
            vouched_as_it_was: Vec::new(),
        }
    }

    /// For a session whose app chose the folder and asks for what is in it: the app is responsible.
    pub fn vouched_for() -> Self {
        Self {
            folders: Vec::new(),
            accepted: HashMap::new(),
            vouched: true,
            vouched_as_it_was: Vec::new(),
        }
    }

    /// Admits also what an app vouched for, while it is as it was then.
    #[must_use]
    pub fn or_as_it_was(self, vouched: Vec<Origin>) -> Self {
        Self {
            vouched_as_it_was: vouched,
            ..self
        }
    }

    /// Admits something, or says why not.
    pub fn admit<T>(&self, startable: Startable<T>) -> Result<Admitted<T>, Untrusted> {
        self.check(&startable.origin)?;
        Ok(Admitted(startable.what))
    }

    /// Whether a program may be started that obeys what it finds in this folder by itself: only where the folder is trusted.
    pub fn enter(&self, folder: &Path) -> Result<(), Untrusted> {
        match self.vouched || crate::store::covers(&self.folders, folder) {
            true => Ok(()),
            false => Err(Untrusted::Folder {
                folder: folder.to_owned(),
            }),
        }
    }

    /// Whether something of this origin would be admitted.
    pub fn check(&self, origin: &Origin) -> Result<(), Untrusted> {
        let (folder, fingerprints) = match origin {
            Origin::Program | Origin::Person | Origin::Client => return Ok(()),
            Origin::Folder { .. } if self.vouched => return Ok(()),
            Origin::Folder { folder, fingerprints } => (folder.clone(), fingerprints),
        };
        // Files that cannot be read have no fingerprints that could be the same.
        let are_known = fingerprints.iter().all(|fingerprint| fingerprint.sha256.is_some());
        if are_known && self.vouched_as_it_was.contains(origin) {
            return Ok(());
        }
        if !crate::store::covers(&self.folders, &folder) || fingerprints.is_empty() {
            return Err(Untrusted::Folder { folder });
        }
        for fingerprint in fingerprints {
            let file = fingerprint.path.clone();
            match standing(&self.accepted, fingerprint) {
                Standing::Accepted => {}
                Standing::New => return Err(Untrusted::New { folder, file }),
                Standing::Changed => return Err(Untrusted::Changed { folder, file }),
            }
        }
        Ok(())
    }
}
