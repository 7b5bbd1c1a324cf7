//! `host.json`: where the running host of a home listens. It holds no secret; the token is in a file of its own.

use std::{
    io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use lodge_door::lacks_room;
use serde::{Deserialize, Serialize};

/// The note's file in the home.
const DISCOVERY: &str = "host.json";

/// The contents of the note.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Note {
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) pid: u32,
    /// Whether a client started the host: then any client may start it again.
    #[serde(default)]
    pub(crate) background: bool,
    /// Address for AHP clients: `ws://…`, `wss://…` or `unix:…`.
    pub(crate) ahp: String,
    /// Address for clients of the Copilot SDKs.
    #[serde(default)]
    pub(crate) copilot: String,
    /// Socket on which AHP clients of this machine need no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) socket: Option<PathBuf>,
    /// The same for clients of the Copilot SDKs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sdk_socket: Option<PathBuf>,
    /// Socket on which other Lodge programs hand over connections and commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) join_socket: Option<PathBuf>,
}

/// The path of the note.
pub(crate) fn discovery(home: &Path) -> PathBuf {
    home.join(DISCOVERY)
}

/// Reads the note. A killed host leaves its note behind.
pub(crate) fn find(home: &Path) -> Result<Option<Note>> {
    let path = discovery(home);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("Cannot read {}", path.display()))?,
    };
    let note = serde_json::from_str(&text).with_context(|| format!("{} is not valid JSON", path.display()))?;
    Ok(Some(note))
}

/// The host that runs on a home: something answers at the address in the note.
pub(crate) fn running(home: &Path) -> Result<Option<Note>> {
    let Some(note) = find(home)? else { return Ok(None) };
    let Some(socket) = &note.join_socket else {
        // Without a socket, nothing can be asked; the note is all there is.
        return Ok(Some(note));
    };
    Ok(UnixStream::connect(socket).is_ok().then_some(note))
}

/// Whether a host that clients may start again was killed: its note exists, but nothing answers.
pub(crate) fn was_killed(home: &Path) -> Result<bool> {
    let background = find(home)?.is_some_and(|note| note.background);
    Ok(background && running(home)?.is_none())
}

/// Removes the note of a killed host, so that no client starts it again.
pub(crate) fn forget(home: &Path) -> Result<()> {
    match std::fs::remove_file(discovery(home)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("Cannot remove {}", discovery(home).display()))
        }
        _ => Ok(()),
    }
}

/// The token of a home, where there is one.
pub(crate) fn token(home: &Path) -> Option<String> {
    let text = std::fs::read_to_string(token_file(home)).ok()?;
    Some(text.trim().to_owned())
}

pub(crate) fn token_file(home: &Path) -> PathBuf {
    home.join("token")
}

/// The host's note, kept while the host runs.
pub(crate) struct Discovery {
    path: PathBuf,
    note: Note,
}

impl Discovery {
    pub(crate) fn publish(home: &Path, note: Note) -> Result<Self> {
        let published = Self {
            path: discovery(home),
            note,
        };
        match published.write() {
            // Clients that know the address still connect; the note is written once there is room.
            Err(error) if lacks_room(&error) => {
                tracing::warn!(%error, "Cannot write {}", published.path.display());
            }
            written => written.with_context(|| format!("Cannot write {}", published.path.display()))?,
        }
        Ok(published)
    }

    fn write(&self) -> io::Result<()> {
        replace(&self.path, &self.note)
    }

    /// Records that the host is about to stop, so that no client starts it again.
    pub(crate) fn stopping(&self) -> io::Result<()> {
        let note = Note {
            background: false,
            ..self.note.clone()
        };
        replace(&self.path, &note)
    }

    /// Writes the note again if somebody deleted it.
    pub(crate) fn keep(&self) -> io::Result<()> {
        match self.path.try_exists()? {
            true => Ok(()),
            false => self.write(),
        }
    }
}

fn replace(path: &Path, note: &Note) -> io::Result<()> {
    lodge_files::replace(path, serde_json::to_string(note)?.as_bytes())
}

impl Drop for Discovery {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
