//! Files for the owner alone.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// Writes a file that nobody else can read, whole or not at all, and safe on disk when this returns.
pub fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let written = write_new(&temporary, text).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Whether a write failed because the disk, or what this user may have of it, is full.
pub fn lacks_room(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge
    )
}

fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    // What is left of an earlier try may have other permissions.
    let _ = std::fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text)?;
    file.sync_all()
}
