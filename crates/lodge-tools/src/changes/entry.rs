//! What is at a path, read and compared without following links.

use std::{
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::blobs::{Blobs, Hash};
use crate::paths::{self, Located};

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Entry {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// Its contents; none when they were too large to be kept.
        content: Option<Hash>,
        /// Its length.
        size: u64,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Where it leads, as it is written in it.
        #[serde(with = "path_text")]
        target: PathBuf,
    },
    /// A directory.
    Directory {
        /// Its permission bits.
        mode: u32,
    },
    /// A device, a pipe, a socket: never touched.
    Other,
}

impl Entry {
    /// Whether lists of changed files show it.
    pub fn is_shown(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Link { .. })
    }

    /// The name of its contents, where they are kept.
    pub(super) fn content(&self) -> Option<&Hash> {
        match self {
            Self::File { content, .. } => content.as_ref(),
            _ => None,
        }
    }

    /// Whether it was kept well enough to be made again.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Self::File { content: None, .. } | Self::Other)
    }
}

/// A place that files are put to and taken from, whatever happens to links on the way.
pub(super) fn place(path: &Path) -> Located {
    // Paths are kept without links, so that nothing on the way from the top may be one.
    Located {
        path: path.to_owned(),
        root: None,
    }
}

/// Looks at a path and keeps the contents of a file.
pub(super) fn read_entry(path: &Path, blobs: &Blobs) -> io::Result<Entry> {
    let (parent, name) = match place(path).parent(false) {
        Ok(found) => found,
        Err(error) if is_missing(&error) => return Ok(Entry::Absent),
        Err(error) => return Err(error),
    };
    let stat = match rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Entry::Absent),
        Err(error) => return Err(error.into()),
    };
    let mode = stat.st_mode & 0o7777;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            match paths::open_beneath(&parent, Path::new(&name), flags, Mode::empty()) {
                Ok(file) => {
                    let (content, size) = blobs.keep_file(file.into(), length(&stat))?;
                    Entry::File { content, size, mode }
                }
                // It cannot be read, but it is there.
                Err(Errno::ACCESS | Errno::PERM) => Entry::File {
                    content: None,
                    size: length(&stat),
                    mode,
                },
                Err(error) => return Err(error.into()),
            }
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(&parent, &name, Vec::new())?;
            Entry::Link {
                target: std::ffi::OsStr::from_bytes(target.as_bytes()).into(),
            }
        }
        FileType::Directory => Entry::Directory { mode },
        _ => Entry::Other,
    })
}

pub(super) fn length(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Whether an error says that there is nothing at a path. Behind a link that stands where a directory was there is nothing,
/// either: what the link leads to is another file.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Paths in JSON: text, or base64 where they are not.
pub(super) mod path_text {
    use std::{
        ffi::OsString,
        os::unix::ffi::{OsStrExt, OsStringExt},
        path::{Path, PathBuf},
    };

    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Bytes { base64: String },
    }

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => Form::Text(text.to_owned()),
            None => Form::Bytes {
                base64: STANDARD.encode(path.as_os_str().as_bytes()),
            },
        }
        .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(match Form::deserialize(deserializer)? {
            Form::Text(text) => text.into(),
            Form::Bytes { base64 } => OsString::from_vec(STANDARD.decode(base64).map_err(D::Error::custom)?).into(),
        })
    }
}
