//! The error type of this crate.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong with a home, a log or the catalogue, in words that a person can act on.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk said no; `op` is what was tried.
    #[error("cannot {op} {}: {source}", path.display())]
    Io {
        /// What was tried, as the end of "cannot …".
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another host holds this home.
    #[error("another lodge host{} is using {}", pid.map(|p| format!(" (process {p})")).unwrap_or_default(), path.display())]
    Locked {
        /// The home.
        path: PathBuf,
        /// The holder's process id, as it wrote it into the lock file.
        pid: Option<u32>,
    },
    /// There is no log of this session.
    #[error("there is no session {id:?}")]
    NotFound {
        /// The session's id.
        id: String,
    },
    /// A log of this session is there already.
    #[error("session {id:?} already exists")]
    Exists {
        /// The session's id.
        id: String,
    },
    /// Two ids map to the same directory; the second is refused, because it would read the first one's log.
    #[error("cannot create session {id:?}: its directory {} belongs to session {owner:?}", dir.display())]
    Taken {
        /// The id that was refused.
        id: String,
        /// The directory both want.
        dir: PathBuf,
        /// The id that has it.
        owner: String,
    },
    /// Ephemeral events are never written.
    #[error("{kind} is ephemeral and cannot be written to a log")]
    Ephemeral {
        /// The event's type.
        kind: String,
    },
    /// The event is longer than this home allows.
    #[error("an event of {len} bytes exceeds the limit of {max} bytes for a log line")]
    TooLarge {
        /// The event's length.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
    /// The event's bytes hold a line break or a zero byte, which would tear the line in two.
    #[error("the event's JSON is not one line")]
    NotOneLine,
    /// The log does not end where this writer left it: somebody else wrote to it. Open it again.
    #[error("{} ends at byte {found}, not at byte {expected}: another program changed it", path.display())]
    Moved {
        /// The log.
        path: PathBuf,
        /// Where this writer had left its end.
        expected: u64,
        /// Where it ends.
        found: u64,
    },
    /// The log is also kept remotely, and what was recorded did not get there, or no longer can.
    #[error("this host no longer writes this log: {reason}")]
    Uncommitted {
        /// Why not.
        reason: String,
    },
    /// The home was opened for reading beside a running host.
    #[error("{} was opened for reading only", path.display())]
    ReadOnly {
        /// The home.
        path: PathBuf,
    },
    /// The catalogue's database said no. It is derived: deleting `catalogue.db` is always safe.
    #[error("the session catalogue failed: {0}")]
    Catalogue(#[from] rusqlite::Error),
}

impl LogError {
    /// Whether there is simply no such session.
    pub fn is_not_found(&self) -> bool {
        matches!(self, LogError::NotFound { .. })
    }

    pub(crate) fn io<'a>(op: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> LogError + 'a {
        move |source| LogError::Io {
            op,
            path: path.to_owned(),
            source,
        }
    }
}
