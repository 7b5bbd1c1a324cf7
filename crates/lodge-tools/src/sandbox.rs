//! Sandbox for shell commands.
//!
//! On Linux a command runs under Landlock: it may read what the user may read, but write only in the allowed places. Where
//! it shall not use the network, a seccomp filter keeps it from making any but local sockets, and Landlock from using TCP.
//! The restrictions are put on by the host's own program, started again with a hidden subcommand, which then becomes the
//! shell; so nothing runs between `fork` and `exec`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// What a sandboxed command may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Directories and files it may write, where they exist; everything may be read.
    pub write: Vec<PathBuf>,
    /// Places it may write although they are somewhere else. Those that do not exist yet may be made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
}

/// How commands get into their sandbox.
#[derive(Debug, Clone)]
pub struct SandboxLauncher {
    /// The program to run, which understands the hidden subcommand [`SUBCOMMAND`].
    pub exe: PathBuf,
    /// Whether commands may use the network.
    pub network: bool,
    /// What commands may write besides the session's roots.
    pub write: Vec<PathBuf>,
}

/// The hidden subcommand: `<exe> __sandbox-exec <json of SandboxSpec> -- <program> <arguments>`.
pub const SUBCOMMAND: &str = "__sandbox-exec";

/// Why a command did not get into its sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The system has no sandbox.
    #[error("this system offers no sandbox")]
    Unavailable,
    /// The system cannot keep a command from the network.
    #[error("this system cannot close the network to commands (seccomp is missing)")]
    NetworkStaysOpen,
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

impl SandboxLauncher {
    /// A launcher that lets commands use the network, and write temporary files and the caches of build tools.
    pub fn new(exe: impl Into<PathBuf>) -> Self {
        let mut write = vec![
            std::env::temp_dir(),
            "/tmp".into(),
            "/var/tmp".into(),
            "/dev/shm".into(),
        ];
        if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
            let caches = [
                ".cache",
                ".cargo/registry",
                ".cargo/git",
                ".npm",
                ".local/share/pnpm",
                "go/pkg",
            ];
            write.extend(caches.map(|cache| home.join(cache)));
        }
        Self {
            exe: exe.into(),
            network: true,
            write,
        }
    }

    pub(crate) fn spec(&self, mut write: Vec<PathBuf>, approved: Vec<PathBuf>) -> SandboxSpec {
        write.extend(self.write.iter().cloned());
        SandboxSpec {
            write,
            approved,
            network: self.network,
        }
    }

    pub(crate) fn prefix(&self, spec: &SandboxSpec) -> Vec<OsString> {
        let json = serde_json::json!(spec).to_string();
        vec![self.exe.clone().into(), SUBCOMMAND.into(), json.into(), "--".into()]
    }
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
        return SandboxError::Setup("there is no command".to_owned());
    };
    let error = std::process::Command::new(program).args(arguments).exec();
    SandboxError::Exec {
        program: program.to_string_lossy().into_owned(),
        error,
    }
}

/// What protects the machine from shell commands, in lines for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Whether commands can be sandboxed at all.
    pub available: bool,
    /// One line for each thing that is, or is not, protected.
    pub lines: Vec<String>,
}

/// Whether commands can be sandboxed here.
pub fn available() -> bool {
    system::level() > 0
}

/// Whether sandboxed commands can be kept from the network here.
pub fn can_close_network() -> bool {
    available() && system::can_close_network()
}

/// Whether commands that nobody approved can be kept from doing harm here: from Landlock's third version on it guards
/// against every way to write, and seccomp has to close what Landlock does not know.
pub fn can_jail() -> bool {
    system::level() >= 3 && system::can_close_network()
}

/// Says what the sandbox does here.
pub fn report() -> Report {
    let level = system::level();
    if level == 0 {
        let why = system::WHY_NOT;
        return Report {
            available: false,
            lines: vec![format!("Shell commands are not sandboxed: {why}")],
        };
    }
    let mut lines = vec![
        "Shell commands run under Landlock: they may read files, but write only in allowed directories.".to_owned(),
    ];
    if level < 3 {
        lines.push("This kernel does not protect files outside from being truncated (Linux 6.2 does).".to_owned());
    }
    lines.push(match can_close_network() {
        true => "The network can be closed to commands (docs/sandbox.md).".to_owned(),
        false => "The network cannot be closed to commands: this kernel has no seccomp filters.".to_owned(),
    });
    if level >= 6 {
        lines.push("Commands cannot send signals to processes outside their sandbox.".to_owned());
    }
    Report { available: true, lines }
}

/// Restricts this thread and everything it starts. There is no way back.
pub fn enter(spec: &SandboxSpec) -> Result<(), SandboxError> {
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
    let writable: Vec<PathBuf> = spec
        .write
        .iter()
        .cloned()
        .chain(approved)
        .filter(|path| path.exists())
        .collect();
    system::enter(&writable, spec.network)
}

#[cfg(target_os = "linux")]
mod system {
    use std::path::PathBuf;

    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
        RulesetError, RulesetStatus, Scope, path_beneath_rules,
    };
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
        TargetArch,
    };

    use super::SandboxError;

    pub(super) const WHY_NOT: &str = "this kernel has no Landlock (Linux 5.13 or newer with it enabled).";

    /// Files every program writes to.
    const DEVICES: &[&str] = &[
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
        "/dev/tty",
        "/dev/pts",
        "/dev/ptmx",
    ];
    /// The newest version whose rights are asked for; older kernels enforce what they know.
    const NEWEST: ABI = ABI::V6;

    /// How much of Landlock there is: its version as far as it matters here, 0 for none.
    pub(super) fn level() -> u32 {
        let supported = |ruleset: Result<Ruleset, RulesetError>| ruleset.and_then(Ruleset::create).is_ok();
        let strict = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        if supported(strict().scope(Scope::Signal)) {
            6
        } else if supported(strict().handle_access(AccessFs::Truncate)) {
            3
        } else {
            u32::from(supported(strict().handle_access(AccessFs::WriteFile)))
        }
    }

    pub(super) fn can_close_network() -> bool {
        TargetArch::try_from(std::env::consts::ARCH).is_ok()
            && std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
                .is_ok_and(|actions| actions.split_whitespace().any(|action| action == "errno"))
    }

    pub(super) fn enter(write: &[PathBuf], network: bool) -> Result<(), SandboxError> {
        if !network {
            close_network()?;
        }
        match restrict(write, network).map_err(|error| SandboxError::Setup(error.to_string()))? {
            RulesetStatus::NotEnforced => Err(SandboxError::Unavailable),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }

    /// Makes every attempt to get a socket fail, but for local ones; also by the way around, io_uring.
    fn close_network() -> Result<(), SandboxError> {
        if !can_close_network() {
            return Err(SandboxError::NetworkStaysOpen);
        }
        let other_than =
            |family: i32| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family as u64);
        let filter = || -> Result<BpfProgram, seccompiler::BackendError> {
            let foreign = SeccompRule::new(vec![other_than(libc::AF_UNIX)?, other_than(libc::AF_NETLINK)?])?;
            let rules = [(libc::SYS_socket, vec![foreign]), (libc::SYS_io_uring_setup, vec![])];
            let refuse = SeccompAction::Errno(libc::EACCES as u32);
            let arch = TargetArch::try_from(std::env::consts::ARCH)?;
            SeccompFilter::new(rules.into(), SeccompAction::Allow, refuse, arch)?.try_into()
        };
        let filter = filter().map_err(|error| SandboxError::Setup(error.to_string()))?;
        seccompiler::apply_filter(&filter).map_err(|error| SandboxError::Setup(error.to_string()))
    }

    fn restrict(write: &[PathBuf], network: bool) -> Result<RulesetStatus, RulesetError> {
        let rights = AccessFs::from_write(NEWEST);
        let mut ruleset = Ruleset::default().handle_access(rights)?.scope(Scope::Signal)?;
        if !network {
            ruleset = ruleset
                .handle_access(AccessNet::from_all(NEWEST))?
                .scope(Scope::AbstractUnixSocket)?;
        }
        let status = ruleset
            .create()?
            .add_rules(path_beneath_rules(write, rights))?
            .add_rules(path_beneath_rules(DEVICES, rights))?
            .restrict_self()?;
        Ok(status.ruleset)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::path::PathBuf;

    use super::SandboxError;

    pub(super) const WHY_NOT: &str = "there is none for this system yet.";

    pub(super) fn level() -> u32 {
        0
    }

    pub(super) fn can_close_network() -> bool {
        false
    }

    pub(super) fn enter(_: &[PathBuf], _: bool) -> Result<(), SandboxError> {
        Err(SandboxError::Unavailable)
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, process::Command};

    use super::*;

    /// Runs a command in a thread that has entered the sandbox; what it printed and whether it went well.
    fn sandboxed(spec: SandboxSpec, command: String) -> (bool, String) {
        let run = move || {
            enter(&spec).unwrap();
            let output = Command::new("bash").arg("-c").arg(command).output().unwrap();
            (
                output.status.success(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )
        };
        std::thread::spawn(run).join().unwrap()
    }

    #[test]
    fn commands_write_only_where_they_may() {
        if !available() {
            eprintln!("no sandbox here: {:?}", report());
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for name in ["in", "out"] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join("old"), "old").unwrap();
        }
        let shown = dir.path().display().to_string();
        for (command, works) in [
            ("echo x > $B/in/new && cat $B/in/new", true),
            ("echo x > $B/out/new", false),
            ("cat $B/out/old", true),
            ("echo x > $B/out/old", false),
            ("truncate -s 0 $B/out/old", false),
            ("rm $B/out/old", false),
            ("mv $B/out/old $B/in/stolen", false),
            ("ln $B/out/old $B/in/link && echo x > $B/in/link", false),
            ("ln -s $B/out $B/in/way && echo x > $B/in/way/new", false),
            ("cd $B/in && echo x > ../out/new", false),
            ("mkdir $B/out/dir", false),
            ("echo x > /dev/null", true),
            ("bash -c 'echo x > $B/out/new'", false),
            ("kill -0 $PPID", false),
            ("sleep 5 & kill $!", true),
        ] {
            let spec = SandboxSpec {
                write: vec![at("in"), at("missing")],
                approved: vec![],
                network: true,
            };
            let (worked, error) = sandboxed(spec, command.replace("$B", &shown));
            assert_eq!(worked, works, "{command}: {error}");
        }
        assert_eq!(std::fs::read_to_string(at("out/old")).unwrap(), "old");
        let one_new_file = SandboxSpec {
            write: vec![],
            approved: vec![at("out/new")],
            network: true,
        };
        assert!(sandboxed(one_new_file, format!("echo x > {shown}/out/new")).0);
    }

    #[test]
    fn the_network_is_closed_when_it_should_be() {
        if !can_close_network() {
            eprintln!("the network cannot be closed here: {:?}", report());
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let six = TcpListener::bind("[::1]:0");
        let port = listener.local_addr().unwrap().port();
        let mut attempts = vec![
            (format!("exec 3<>/dev/tcp/127.0.0.1/{port}"), false),
            (format!("exec 3<>/dev/udp/127.0.0.1/{port} && echo x >&3"), false),
            (format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'"), false),
            ("echo x | cat > /dev/null".to_owned(), true),
        ];
        if let Ok(six) = &six {
            let port = six.local_addr().unwrap().port();
            attempts.push((format!("exec 3<>/dev/tcp/::1/{port}"), false));
        }
        for (command, works_without) in attempts {
            for (network, works) in [(true, true), (false, works_without)] {
                let spec = SandboxSpec {
                    write: vec![],
                    approved: vec![],
                    network,
                };
                let (worked, error) = sandboxed(spec, command.clone());
                assert_eq!(worked, works, "{command} with network {network}: {error}");
            }
        }
    }

    #[test]
    fn local_sockets_stay_open_when_the_network_is_closed() {
        if !can_close_network() {
            eprintln!("the network cannot be closed here: {:?}", report());
            return;
        }
        let spec = SandboxSpec {
            write: vec![],
            approved: vec![],
            network: false,
        };
        let made = std::thread::spawn(move || {
            enter(&spec).unwrap();
            let udp = std::net::UdpSocket::bind("127.0.0.1:0");
            (std::os::unix::net::UnixDatagram::unbound().is_ok(), udp.is_err())
        });
        assert_eq!(made.join().unwrap(), (true, true));
    }

    #[test]
    fn a_launcher_names_what_the_command_may_do() {
        let launcher = SandboxLauncher {
            exe: "/opt/lodge".into(),
            network: false,
            write: vec!["/tmp".into()],
        };
        let prefix = launcher.prefix(&launcher.spec(vec!["/work".into()], vec![]));
        assert_eq!(
            prefix,
            [
                "/opt/lodge",
                "__sandbox-exec",
                r#"{"write":["/work","/tmp"],"network":false}"#,
                "--"
            ]
        );
        assert!(matches!(run("{", &[]), SandboxError::Spec(_)));
    }
}
