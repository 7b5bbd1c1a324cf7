//! Blocking file operations, run on tokio's blocking threads. Each is named after its purpose; none runs arbitrary work for callers.

use std::{collections::BTreeSet, io, path::PathBuf};

pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

/// Where a path leads, without links.
pub async fn real_path(path: PathBuf) -> io::Result<PathBuf> {
    run_blocking(move || path.canonicalize()).await?
}

/// Whether there is something at a path. What cannot be looked at counts as there.
pub async fn exists(path: PathBuf) -> bool {
    !matches!(run_blocking(move || path.try_exists()).await, Ok(Ok(false)))
}

/// Whether there is a directory at a path. An error where nothing is there.
pub async fn is_directory(path: PathBuf) -> io::Result<bool> {
    run_blocking(move || path.metadata()).await?.map(|found| found.is_dir())
}

/// The text of a file of at most `limit` bytes. A device or a pipe has none.
pub async fn short_text(path: PathBuf, limit: u64) -> Option<String> {
    let read = move || {
        let found = path.metadata().ok()?;
        let fits = found.is_file() && found.len() <= limit;
        fits.then(|| std::fs::read_to_string(path).ok()).flatten()
    };
    run_blocking(read).await.ok()?
}

/// Whether the file at a path has exactly this in it.
pub async fn holds(path: PathBuf, bytes: &[u8]) -> bool {
    let bytes = bytes.to_vec();
    let look = move || {
        let found = path.metadata();
        let fits = found.is_ok_and(|found| found.is_file() && found.len() == bytes.len() as u64);
        fits && std::fs::read(path).is_ok_and(|found| found == bytes)
    };
    run_blocking(look).await.unwrap_or(false)
}

/// Whether a directory has entries of these names and no others.
pub async fn has_exactly(path: PathBuf, names: BTreeSet<String>) -> bool {
    let look = move || {
        let entries = std::fs::read_dir(path).ok()?;
        let entries = entries.take(names.len() + 1).flatten();
        let found: BTreeSet<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        Some(found == names)
    };
    run_blocking(look).await.ok().flatten() == Some(true)
}
