//! Starts commands in their sandbox.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{SUBCOMMAND, SandboxSpec, WritableSpec};

/// Caches of build tools beneath the user's home.
const CACHES: &[&str] = &[
    ".cache",
    ".cargo/registry",
    ".cargo/git",
    ".npm",
    ".local/share/pnpm",
    "go/pkg",
];

/// How commands get into their sandbox.
#[derive(Debug, Clone)]
pub struct SandboxLauncher {
    /// The program to run, which understands the hidden subcommand [`SUBCOMMAND`].
    pub exe: PathBuf,
    /// Whether commands that were approved are sandboxed. Those that were not are jailed anyway.
    pub approved: bool,
    /// Whether approved commands may use the network.
    pub network: bool,
    /// What approved commands may write besides the session's roots.
    pub write: Vec<PathBuf>,
    /// The host's home, which is hidden from all commands.
    pub home: Option<PathBuf>,
}

impl SandboxLauncher {
    /// A launcher that lets approved commands use the network, and write temporary files and the caches of build tools.
    pub fn new(exe: impl Into<PathBuf>) -> Self {
        let mut write = vec![
            std::env::temp_dir(),
            "/tmp".into(),
            "/var/tmp".into(),
            "/dev/shm".into(),
        ];
        if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
            write.extend(CACHES.iter().map(|cache| home.join(cache)));
        }
        Self {
            exe: exe.into(),
            approved: true,
            network: true,
            write,
            home: None,
        }
    }

    /// Hides a home.
    pub fn hiding(mut self, home: &Path) -> Self {
        self.home = Some(crate::paths::real(home).unwrap_or_else(|_| home.to_owned()));
        self
    }

    /// What an approved command may do that works in `write` and whose session keeps its own files in `own`.
    pub(crate) fn writable(&self, mut write: Vec<PathBuf>, approved: Vec<PathBuf>, own: Vec<PathBuf>) -> SandboxSpec {
        write.extend(self.write.iter().cloned());
        SandboxSpec::Writable(WritableSpec {
            write,
            approved,
            network: self.network,
            home: self.home.clone(),
            own,
        })
    }

    pub(crate) fn prefix(&self, spec: &SandboxSpec) -> Vec<OsString> {
        let json = serde_json::json!(spec).to_string();
        vec![self.exe.clone().into(), SUBCOMMAND.into(), json.into(), "--".into()]
    }
}
