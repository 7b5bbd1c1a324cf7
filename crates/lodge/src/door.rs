//! The key to the house: a token made at first start, and a note that tells programs of the same person where it is.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::json;
use uuid::Uuid;

/// The file with the token, in the home.
const TOKEN: &str = "token";
/// The note, in the home.
const DISCOVERY: &str = "host.json";

/// The token of this home, made when there is none. Only its owner can read it.
pub(crate) fn token(home: &Path) -> Result<String> {
    let path = home.join(TOKEN);
    match std::fs::read_to_string(&path) {
        Ok(text) if usable(text.trim()) => return Ok(text.trim().to_owned()),
        Ok(_) => anyhow::bail!(
            "{} is no token (16 or more of 0-9 A-Z a-z _ -). Delete it to get a new one.",
            path.display()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("Cannot read {}", path.display())),
    }
    let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    write_private(&path, &token).with_context(|| format!("Cannot write {}", path.display()))?;
    Ok(token)
}

fn usable(token: &str) -> bool {
    token.len() >= 16
        && token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Writes a file that nobody else can read, whole or not at all.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&temporary)?.write_all(text.as_bytes())?;
    std::fs::rename(temporary, path)
}

/// Where the note is that tells where the host of a home is.
pub(crate) fn discovery(home: &Path) -> PathBuf {
    home.join(DISCOVERY)
}

/// The note that tells where the host is, for as long as it runs.
pub(crate) struct Discovery(PathBuf);

impl Discovery {
    pub(crate) fn publish(home: &Path, ahp: &str, sdk: &str, token: &str) -> Result<Self> {
        let path = discovery(home);
        let note = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "ahp": ahp,
            "copilot": sdk,
            "token": token,
        });
        write_private(&path, &note.to_string()).with_context(|| format!("Cannot write {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_is_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let made = token(home.path()).unwrap();
        assert!(usable(&made));
        assert_eq!(token(home.path()).unwrap(), made);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(home.path().join(TOKEN)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        for bad in ["", "short", "with space and more text", "sixteen+plus/chars=="] {
            std::fs::write(home.path().join(TOKEN), bad).unwrap();
            assert!(token(home.path()).is_err(), "{bad:?}");
        }
    }
}
