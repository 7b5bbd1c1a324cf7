//! Where shell commands run: in a jail when nobody approved them, in a sandbox when somebody did.
//!
//! A command that **nobody approved** runs where it can do no harm, whatever it turns out to be. It may read the session's
//! directories and the programs of the machine, and write a private directory that goes away with it. It has no network, no
//! signals, no variables but harmless ones, and bounds for everything. Landlock guards the files, seccomp the rest.
//!
//! A command that **was approved** may write where the session works and read what the user may read, but for the host's
//! home: its token, its sessions, its keys. It is Landlock that does it. Where it shall not use the network, a seccomp filter
//! keeps it from making any but local sockets, and Landlock from using TCP.
//!
//! The restrictions are put on by the host's own program, started again with a hidden subcommand, which then becomes the
//! shell; so nothing runs between `fork` and `exec`.

#[cfg(target_os = "linux")]
mod all_except;
mod bounds;
mod environment;
#[cfg(target_os = "linux")]
mod filter;
mod git_config;
mod jail;
mod launcher;
mod programs;
#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod system;
mod verdict;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub(crate) use bounds::{JAILED_OUTPUT, JAILED_TIME, JailBounds, exceeds};
pub(crate) use jail::{Jail, sweep_jails};
pub use jail::{remove_jails, run_jailed};
pub use launcher::SandboxLauncher;
pub(crate) use verdict::blames_jail;

/// The hidden subcommand: `<exe> __sandbox-exec <json of SandboxSpec> -- <program> <arguments>`.
pub const SUBCOMMAND: &str = "__sandbox-exec";
/// With this the launcher ends when it cannot do what it should. The command has not been started then.
pub const NOT_STARTED: u8 = verdict::NO_JAIL as u8;

/// What a command may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxSpec {
    /// It was approved.
    Writable(WritableSpec),
    /// Nobody approved it.
    Jail(JailSpec),
}

/// What an approved command may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WritableSpec {
    /// Directories and files it may write, where they exist.
    pub write: Vec<PathBuf>,
    /// Places it may write although they are somewhere else. Those that do not exist yet may be made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
    /// The host's home, of which it may read nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
    /// What it may read of the home nevertheless.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<PathBuf>,
}

/// What a jailed command may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JailSpec {
    /// Directories and files it may read, and programs beneath them that it may run.
    pub read: Vec<PathBuf>,
    /// The one directory it may write.
    pub private: PathBuf,
    /// The host's home, which is left out of the directories that hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
}

/// Why a command did not get into its sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The system has no sandbox.
    #[error("this system has no sandbox")]
    Unavailable,
    /// The system cannot keep a command from the network.
    #[error("this system cannot block network access for commands (seccomp is missing)")]
    NetworkStaysOpen,
    /// The home cannot be hidden.
    #[error("cannot hide {0} from commands: a directory above it has too many entries or cannot be read")]
    TooLarge(PathBuf),
    /// The sandbox could not be set up.
    #[error("the sandbox could not be set up: {0}")]
    Setup(String),
    /// The specification is not one.
    #[error("not a sandbox specification: {0}")]
    Spec(#[from] serde_json::Error),
    /// The command could not be started.
    #[error("{program}: {error}")]
    Exec {
        /// The program.
        program: String,
        /// What went wrong.
        error: std::io::Error,
    },
}

/// What the hidden subcommand does: enters the sandbox and becomes the command. Returns only when that fails.
pub fn run(spec: &str, command: &[OsString]) -> SandboxError {
    use std::os::unix::process::CommandExt;
    let entered = serde_json::from_str::<SandboxSpec>(spec)
        .map_err(SandboxError::from)
        .and_then(|spec| enter(&spec));
    if let Err(error) = entered {
        return error;
    }
    let Some((program, arguments)) = command.split_first() else {
        return SandboxError::Setup("no command was given".to_owned());
    };
    let error = std::process::Command::new(program).args(arguments).exec();
    SandboxError::Exec {
        program: program.to_string_lossy().into_owned(),
        error,
    }
}

/// Restricts this thread and everything it starts; a jail also limits the whole process. There is no way back.
pub fn enter(spec: &SandboxSpec) -> Result<(), SandboxError> {
    match spec {
        SandboxSpec::Writable(spec) => system::enter_writable(spec, &writable(spec)),
        SandboxSpec::Jail(spec) => system::enter_jail(spec),
    }
}

/// What an approved command may write, as far as it exists.
fn writable(spec: &WritableSpec) -> Vec<PathBuf> {
    // To make something its directory must be writable; but not one that holds the user's whole home.
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_else(|| "/root".into());
    let makable = |path: &PathBuf| {
        path.parent()
            .filter(|parent| !home.starts_with(parent))
            .map(Path::to_owned)
    };
    let approved = spec.approved.iter().filter_map(|path| {
        if path.exists() {
            Some(path.clone())
        } else {
            makable(path)
        }
    });
    let all = spec.write.iter().cloned().chain(approved);
    all.filter_map(|path| std::fs::canonicalize(path).ok()).collect()
}

/// What protects the machine from shell commands, in lines for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What holds for commands that nobody approved, and whether they can be jailed.
    pub jail: (bool, String),
    /// Whether approved commands can be sandboxed at all.
    pub available: bool,
    /// One line for each thing that is, or is not, protected from approved commands.
    pub lines: Vec<String>,
}

/// Whether approved commands can be sandboxed here.
pub fn available() -> bool {
    system::level() > 0
}

/// Whether sandboxed commands can be kept from the network here.
pub fn can_close_network() -> bool {
    available() && system::has_filters()
}

/// Whether commands that nobody approved can be kept from doing harm here: from Landlock's third version on it guards
/// against every way to write, and seccomp has to close what Landlock does not know.
pub fn can_jail() -> bool {
    static ANSWER: std::sync::LazyLock<bool> =
        std::sync::LazyLock::new(|| system::level() >= 3 && system::has_filters());
    *ANSWER
}

/// Why a home cannot be hidden from commands, if it cannot; then no command starts.
pub fn cannot_hide(home: &Path) -> Option<SandboxError> {
    let home = crate::paths::real(home).ok()?;
    (available() && !system::can_hide(&home)).then_some(SandboxError::TooLarge(home))
}

/// Says what the sandbox does here.
pub fn report() -> Report {
    let jail = match can_jail() {
        true => "Unapproved shell commands run in the jail: they cannot write files or use the network.".to_owned(),
        false => {
            "This system has no jail for unapproved shell commands (it needs Linux 6.2 or newer with Landlock and \
                  seccomp): only a few simple commands run without approval."
                .to_owned()
        }
    };
    let jail = (can_jail(), jail);
    let level = system::level();
    if level == 0 {
        let why = system::WHY_NOT;
        return Report {
            jail,
            available: false,
            lines: vec![format!("Approved shell commands are not sandboxed: {why}")],
        };
    }
    let mut lines = vec![
        "Approved shell commands run under Landlock: they can write only to allowed directories and cannot read Lodge's home."
            .to_owned(),
    ];
    if level < 3 {
        lines.push(
            "This kernel cannot stop commands from truncating files outside those directories (Linux 6.2 can)."
                .to_owned(),
        );
    }
    lines.push(match can_close_network() {
        true => "You can block network access for approved commands (docs/sandbox.md).".to_owned(),
        false => "Network access cannot be blocked: this kernel has no seccomp filters.".to_owned(),
    });
    lines.push(match level >= 6 {
        true => "Commands cannot send signals to processes outside their sandbox.".to_owned(),
        false => "Approved commands can send signals to your other processes (Linux 6.12 prevents it).".to_owned(),
    });
    Report {
        jail,
        available: true,
        lines,
    }
}

#[cfg(test)]
mod tests;
