//! Sandbox for shell commands.

use std::{ffi::OsString, path::PathBuf};

use serde::{Deserialize, Serialize};

/// What a sandboxed command may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Directories and files it may write; everything may be read.
    pub write: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
}

/// How commands get into their sandbox: through the host's own program, which enters it and then becomes the shell.
#[derive(Debug, Clone)]
pub struct SandboxLauncher {
    /// The program to run, which understands the hidden subcommand [`SUBCOMMAND`].
    pub exe: PathBuf,
    /// Whether commands may use the network.
    pub network: bool,
}

/// The hidden subcommand: `<exe> __sandbox-exec <json of SandboxSpec> -- <program> <arguments>`.
pub const SUBCOMMAND: &str = "__sandbox-exec";

impl SandboxLauncher {
    pub(crate) fn spec(&self, mut write: Vec<PathBuf>) -> SandboxSpec {
        write.push(std::env::temp_dir());
        SandboxSpec {
            write,
            network: self.network,
        }
    }

    pub(crate) fn prefix(&self, spec: &SandboxSpec) -> Vec<OsString> {
        let json = serde_json::to_string(spec).unwrap_or_default();
        vec![self.exe.clone().into(), SUBCOMMAND.into(), json.into(), "--".into()]
    }
}
