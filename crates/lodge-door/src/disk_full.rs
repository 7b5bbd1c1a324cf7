//! Recognises writes that failed because the disk is full.

use std::io;

/// Whether a write failed because the disk or the user's quota is full.
pub fn lacks_room(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge
    )
}
