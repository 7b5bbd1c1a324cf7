//! Man pages and completions, as the program itself writes them.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use super::archive::File;
use crate::sh;

/// Where shells look for completions below a prefix.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/lodge"),
    ("fish", "share/fish/vendor_completions.d/lodge.fish"),
    ("zsh", "share/zsh/site-functions/_lodge"),
];

pub(super) fn write(program: &Path) -> Result<Vec<File>> {
    let program = std::path::absolute(program)?;
    let dir = tempfile::tempdir()?;
    sh::read(sh::command(&program).arg("man").arg(dir.path()))
        .with_context(|| format!("{} cannot write its man pages", program.display()))?;
    let mut files = Vec::new();
    for entry in fs::read_dir(dir.path())? {
        let entry = entry?;
        let path = format!("share/man/man1/{}", entry.file_name().to_string_lossy());
        files.push(File::plain(&path, fs::read(entry.path())?));
    }
    if files.is_empty() {
        bail!("{} wrote no man pages", program.display());
    }
    for (shell, path) in COMPLETIONS {
        let script = sh::read(sh::command(&program).args(["completions", shell]))?;
        files.push(File::plain(path, script));
    }
    Ok(files)
}
