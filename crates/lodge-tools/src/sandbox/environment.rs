//! The environment of an unapproved command: what programs need to run and to print plain text, and nothing else.

use std::{ffi::OsString, path::Path};

use crate::{Environment, git_env};

/// Variables that are handed on as they are.
const KEPT: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "COLUMNS",
    "LINES",
    // Where programs of version managers look for themselves.
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "CARGO_HOME",
    "FNM_DIR",
    "GOROOT",
    "JAVA_HOME",
    "MISE_DATA_DIR",
    "NVM_DIR",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];

/// Variables with a value of their own.
const SET: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    // Whether the jail was too small for a command is read from what it says.
    ("LC_MESSAGES", "C"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
];

/// The variables. `private` is the one directory that may be written, `git_config` what git takes for the person's settings.
pub(super) fn variables(of: &Environment, private: &Path, git_config: &Path) -> Vec<(OsString, OsString)> {
    let kept = of.visible().into_iter().filter(|(name, _)| {
        let name = name.to_string_lossy();
        KEPT.contains(&name.as_ref()) || (name.starts_with("LC_") && name != "LC_ALL" && name != "LC_MESSAGES")
    });
    // It outweighs all others of its kind, so it is said as what it means besides messages.
    let ctype = of.get("LC_ALL").map(|value| ("LC_CTYPE".into(), value));
    let set = SET.iter().map(|(name, value)| (name.into(), value.into()));
    let git = git_env::overrides()
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()));
    let own = [
        ("TMPDIR", private),
        // Programs find no settings there, rather than some that they may not read.
        ("XDG_CONFIG_HOME", private),
        ("XDG_CACHE_HOME", private),
        ("GIT_CONFIG_GLOBAL", git_config),
    ];
    let own = own.map(|(name, path)| (name.into(), path.into()));
    kept.chain(ctype).chain(set).chain(git).chain(own).collect()
}
