//! What the checks share: packages, a place to work, and programs run as on a machine that has nothing yet.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::dist::Release;

/// What the checks share.
pub(super) struct Bench {
    pub(super) release: Release,
    /// The packages.
    pub(super) packages: PathBuf,
    pub(super) work: tempfile::TempDir,
    /// Whether programs can be run without a network, in a root of their own.
    pub(super) apart: bool,
}

impl Bench {
    pub(super) fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.work.path().join(name);
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    pub(super) fn package(&self, end: &str) -> Result<PathBuf> {
        let mut found = fs::read_dir(&self.packages)?.filter_map(|entry| Some(entry.ok()?.path()));
        let found = found.find(|path| path.to_string_lossy().ends_with(end));
        found.with_context(|| format!("there is no package that ends in {end}"))
    }

    /// A command with nothing in its environment but an empty home, offline where that can be had.
    pub(super) fn command(&self, program: &Path, home: &Path) -> Command {
        let mut command = match self.apart {
            true => {
                let mut command = Command::new("unshare");
                // Root in its own eyes only; the files stay whose they are.
                command.args(["-rn", "--"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        clean(&mut command, home);
        command
    }

    /// Uses an installed program: its version, a turn, the session that is left.
    pub(super) fn try_out(&self, program: &Path, home: &Path) -> Result<()> {
        try_out(&|args| {
            let mut command = self.command(program, home);
            command.args(args);
            command
        })
    }
}

pub(super) fn clean(command: &mut Command, home: &Path) {
    command
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(home)
        .stdin(Stdio::null());
}

pub(super) fn try_out(command: &dyn Fn(&[&str]) -> Command) -> Result<()> {
    let version = read(&mut command(&["--version"]))?;
    ensure!(version.starts_with("lodge 0."), "it says it is {version:?}");
    let answer = read(&mut command(&["run", "hello there"]))?;
    ensure!(!answer.trim().is_empty(), "it gave no answer");
    let sessions = read(&mut command(&["sessions", "list"]))?;
    ensure!(
        sessions.contains("hello there"),
        "the session is not listed: {sessions:?}"
    );
    Ok(())
}

pub(super) fn finish(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("cannot start {command:?}"))
}

pub(in crate::dist) fn read(command: &mut Command) -> Result<String> {
    let output = finish(command)?;
    if !output.status.success() {
        let (out, error) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        bail!("{command:?} ended with {}: {out}{error}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The files below a directory, but for what Python compiles for itself.
pub(in crate::dist) fn tree(dir: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true if entry.file_name() == "__pycache__" => {}
                true => open.push(entry.path()),
                false => drop(found.insert(entry.path())),
            }
        }
    }
    Ok(found)
}
