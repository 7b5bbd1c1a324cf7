//! The host's part of a jail: what a command may read, its private directory, its variables, its cleanup.

use std::{
    ffi::OsString,
    io::{self, Read as _},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use super::{
    JailSpec, SandboxLauncher, SandboxSpec, environment,
    git_config::{self, GitConfig},
    programs,
};
use crate::{Environment, paths, rules::is_for_agents, spill};

/// Where the private directories of a session are made.
const JAILS: &str = "temp/jails";
/// Where they go that a killed host left.
const OLD_JAILS: &str = "temp/old-jails";
/// Of what [`run_jailed`] reads, how much.
const MOST_OUTPUT: u64 = 1 << 20;

/// A jail that is ready for one command. What the command left in its private directory goes away with it.
#[derive(Debug)]
pub(crate) struct Jail {
    /// Program and arguments that come before the command.
    pub(crate) launcher: Vec<OsString>,
    /// The whole of the command's environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    dir: PathBuf,
}

impl Jail {
    /// A jail for a session that keeps its files in `session` and works in `roots`. Its command may read what it names elsewhere
    /// (`named`), but nothing of the home but what is there for agents.
    pub(crate) fn new(
        launcher: &SandboxLauncher,
        session: &Path,
        roots: &[PathBuf],
        named: &[PathBuf],
        of: &Environment,
    ) -> io::Result<Self> {
        let (mut jail, settings) = Self::open(session, of)?;
        let inside = |place: &PathBuf| launcher.home.as_deref().is_some_and(|home| is_hidden(place, home));
        let files = settings
            .files
            .iter()
            .filter_map(|file| std::fs::canonicalize(file).ok());
        let programs = programs::readable(of.get("PATH"));
        let mut read: Vec<PathBuf> = programs
            .iter()
            .cloned()
            .chain(files)
            .chain(named.iter().filter_map(|place| paths::real(place).ok()))
            .filter(|place| !inside(place))
            .collect();
        let session = paths::real(session)?;
        let roots = roots.iter().filter_map(|root| paths::real(root).ok());
        read.extend(roots.filter(|root| may_read(root, &session, launcher.home.as_deref())));
        read.push(session);
        let spec = SandboxSpec::Jail(JailSpec {
            read,
            private: jail.dir.join("tmp"),
            home: launcher.home.clone(),
        });
        jail.launcher = launcher.prefix(&spec);
        Ok(jail)
    }

    /// The directory that everything is in that the command can write.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// No jail, for a machine that has none: of all that only the variables, and a directory for temporary files.
    pub(crate) fn open(session: &Path, of: &Environment) -> io::Result<(Self, GitConfig)> {
        let dir = session.join(JAILS).join(uuid::Uuid::new_v4().simple().to_string());
        let private = dir.join("tmp");
        spill::make_private_dir(&private)?;
        // From here on it is removed, whatever happens.
        let mut jail = Self {
            launcher: Vec::new(),
            environment: Vec::new(),
            dir,
        };
        let settings = git_config::read(std::env::var_os("HOME").map(PathBuf::from).as_deref());
        let git_config = jail.dir.join("gitconfig");
        std::fs::write(&git_config, &settings.text)?;
        jail.environment = environment::variables(of, &private, &git_config);
        Ok((jail, settings))
    }
}

/// Whether a place is in the home and not there for agents.
fn is_hidden(place: &Path, home: &Path) -> bool {
    place.strip_prefix(home).is_ok_and(|below| !is_for_agents(below))
}

/// Removes what commands of a host that was killed left in their private directories. To be called before the first of this host.
pub(crate) fn sweep_jails(session: &Path) {
    let (jails, old) = (session.join(JAILS), session.join(OLD_JAILS));
    // Each is removed once, by whoever found it: two who remove the same directory get in each other's way.
    let before = std::fs::read_dir(&old).into_iter().flatten().flatten();
    before.for_each(|entry| remove_later(entry.path()));
    let _ = spill::make_private_dir(&old);
    let now = old.join(uuid::Uuid::new_v4().simple().to_string());
    if std::fs::rename(jails, &now).is_ok() {
        remove_later(now);
    }
}

/// Removes everything that commands of a session wrote to their private directories, because the session goes. Blocks.
pub fn remove_jails(session: &Path) {
    for place in [JAILS, OLD_JAILS] {
        remove_now(&session.join(place));
    }
}

impl Drop for Jail {
    fn drop(&mut self) {
        remove_later(std::mem::take(&mut self.dir));
    }
}

/// Removes a directory that commands wrote to. They may have left anything in it, so nobody waits for that.
fn remove_later(path: PathBuf) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || remove_now(&path))),
        Err(_) => remove_now(&path),
    }
}

fn remove_now(path: &Path) {
    if let Err(error) = lodge_files::remove_directory(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "what a command wrote to its private directory is left behind");
    }
}

/// Whether a directory that a session works in holds nothing of the host's or of other sessions. One above the home may be
/// read: the home is left out of it.
fn may_read(root: &Path, session: &Path, home: Option<&Path>) -> bool {
    let inside = home.is_some_and(|home| root.starts_with(home));
    let sessions = session.parent().unwrap_or(session);
    !inside || root.starts_with(session) || (Some(root) != home && !root.starts_with(sessions))
}

/// Runs a program of bash in a jail and waits for it: its exit code, and the beginning of what it printed.
/// `session` is a directory for its private one, `roots` are the directories that it may read; it begins in the first.
pub fn run_jailed(
    launcher: &SandboxLauncher,
    session: &Path,
    roots: &[PathBuf],
    program: &str,
    time: Duration,
) -> io::Result<(i32, String)> {
    let jail = Jail::new(launcher, session, roots, &[], &Environment::default())?;
    let [exe, arguments @ ..] = jail.launcher.as_slice() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let (reader, writer) = io::pipe()?;
    let mut child = {
        let mut command = Command::new(exe);
        command
            .args(arguments)
            .args(["/bin/bash", "--noprofile", "--norc", "-c", "--", program])
            .env_clear()
            .envs(jail.environment.iter().cloned())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        if let Some(root) = roots.first() {
            command.current_dir(root);
        }
        command.spawn()?
    };
    let group = Pid::from_child(&child);
    let end_group = || {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    };
    let printed = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = (&reader).take(MOST_OUTPUT).read_to_end(&mut text);
        // What comes after is thrown away, so that the command does not wait for somebody to read it.
        let _ = io::copy(&mut &reader, &mut io::sink());
        String::from_utf8_lossy(&text).into_owned()
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() > time => {
                end_group();
                break child.wait()?;
            }
            None => std::thread::sleep(Duration::from_micros(500)),
        }
    };
    end_group();
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok((code.unwrap_or(-1), printed.join().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_home_for_agents_can_be_named() {
        let home = Path::new("/home/me/.lodge");
        for (place, hidden) in [
            ("/home/me/.lodge", true),
            ("/home/me/.lodge/token", true),
            ("/home/me/.lodge/skills-not", true),
            ("/home/me/.lodge/skills/a/run.sh", false),
            ("/home/me/.lodge/agents", false),
            ("/home/me/.lodge/plugins/x", false),
            ("/home/me/work", false),
        ] {
            assert_eq!(is_hidden(Path::new(place), home), hidden, "{place}");
        }
    }

    #[test]
    fn what_a_killed_host_left_is_removed() {
        let session = tempfile::tempdir().unwrap();
        for place in ["temp/jails/a/tmp", "temp/old-jails/b/c"] {
            std::fs::create_dir_all(session.path().join(place)).unwrap();
        }
        sweep_jails(session.path());
        assert!(!session.path().join(JAILS).exists());
        assert_eq!(std::fs::read_dir(session.path().join(OLD_JAILS)).unwrap().count(), 0);
    }

    #[test]
    fn a_session_reads_nothing_of_other_sessions() {
        let home = Path::new("/home/me/.lodge");
        let session = Path::new("/home/me/.lodge/session-state/one");
        for (root, expected) in [
            ("/home/me/work", true),
            ("/home/me", true),
            ("/", true),
            ("/home/me/.lodge/worktrees/x", true),
            ("/home/me/.lodge/session-state/one/files", true),
            ("/home/me/.lodge/session-state/two", false),
            ("/home/me/.lodge/session-state", false),
            ("/home/me/.lodge", false),
        ] {
            assert_eq!(may_read(Path::new(root), session, Some(home)), expected, "{root}");
            assert!(may_read(Path::new(root), session, None), "{root}");
        }
    }
}
