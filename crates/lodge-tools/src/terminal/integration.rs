//! Shell integration: small scripts that make bash, zsh and fish report where commands begin and end.
//!
//! They print OSC 633 sequences that carry a nonce, so that a program's output cannot imitate the shell. The user's own
//! start-up files are read as usual.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::Path,
};

/// The scripts, by the path they get below a directory of the host's.
const SCRIPTS: &[(&str, &str)] = &[
    ("bash.sh", include_str!("scripts/bash.sh")),
    ("zsh/.zshenv", include_str!("scripts/zsh/.zshenv")),
    ("zsh/.zshrc", include_str!("scripts/zsh/.zshrc")),
    ("fish.fish", include_str!("scripts/fish.fish")),
];

/// What a shell is started with.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Setup {
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(&'static str, OsString)>,
}

/// How to make this shell load its script; nothing for other programs.
pub(super) fn setup(shell: &Path, dir: &Path, nonce: &str) -> Setup {
    let nonce = ("LODGE_TERMINAL_NONCE", OsString::from(nonce));
    match shell.file_name().and_then(OsStr::to_str) {
        Some("bash") => Setup {
            args: vec!["--init-file".into(), dir.join("bash.sh").into()],
            env: vec![nonce],
        },
        Some("zsh") => {
            let own = std::env::var_os("ZDOTDIR").or_else(|| std::env::var_os("HOME"));
            Setup {
                args: Vec::new(),
                env: vec![
                    nonce,
                    ("LODGE_ZDOTDIR", own.unwrap_or_default()),
                    ("ZDOTDIR", dir.join("zsh").into()),
                ],
            }
        }
        Some("fish") => {
            let path = dir.join("fish.fish").display().to_string();
            let quoted = path.replace('\\', "\\\\").replace('\'', "\\'");
            Setup {
                args: vec!["--init-command".into(), format!("source '{quoted}'").into()],
                env: vec![nonce],
            }
        }
        _ => Setup::default(),
    }
}

/// Puts the scripts where shells find them, for the host's user alone.
pub(super) fn install(dir: &Path) -> io::Result<()> {
    for (name, text) in SCRIPTS {
        let path = dir.join(name);
        if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
            continue;
        }
        let parent = path.parent().unwrap_or(dir);
        crate::spill::make_private_dir(parent)?;
        // Another terminal may be starting from it right now.
        lodge_files::replace(&path, text.as_bytes())?;
    }
    Ok(())
}
