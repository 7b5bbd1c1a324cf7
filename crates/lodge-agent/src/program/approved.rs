//! Actions that people allowed a program, so that it is not asked again when it carries them out through Lodge.

use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

/// One thing that was allowed, exactly as people were asked about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Approved {
    /// Running this line, variables and all, in this directory.
    Command { line: Digest, cwd: PathBuf },
    /// Giving this file this text.
    Write { path: PathBuf, text: Digest },
}

/// SHA-256 of a text.
type Digest = Vec<u8>;

fn digest_of(text: &str) -> Digest {
    digest(&SHA256, text.as_bytes()).as_ref().to_vec()
}

impl Approved {
    pub(super) fn command(line: &str, cwd: &Path) -> Self {
        Self::Command {
            line: digest_of(line),
            cwd: cwd.to_owned(),
        }
    }

    pub(super) fn write(path: &Path, text: &str) -> Self {
        Self::Write {
            path: path.to_owned(),
            text: digest_of(text),
        }
    }
}
