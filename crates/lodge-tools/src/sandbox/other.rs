//! Systems without a sandbox.

use std::path::{Path, PathBuf};

use super::{JailSpec, SandboxError, WritableSpec};

pub(super) const WHY_NOT: &str = "there is none for this system yet.";

pub(super) fn level() -> u32 {
    0
}

pub(super) fn can_hide(_: &Path) -> bool {
    true
}

pub(super) fn has_filters() -> bool {
    false
}

pub(super) fn enter_writable(_: &WritableSpec, _: &[PathBuf]) -> Result<(), SandboxError> {
    Err(SandboxError::Unavailable)
}

pub(super) fn enter_jail(_: &JailSpec) -> Result<(), SandboxError> {
    Err(SandboxError::Unavailable)
}
