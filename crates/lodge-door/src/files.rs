//! What is told of files that cannot be written.

use std::io;

/// Whether a write failed because the disk, or what this user may have of it, is full.
pub fn lacks_room(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge
    )
}
