//! Copies the files of a plugin or marketplace into the home.

use std::{
    fs,
    io::{self, Read as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use lodge_tools::git_env;
use rustix::{
    fs::{CWD, RenameFlags},
    io::Errno,
    process::{Pid, Signal},
};
use uuid::Uuid;

use super::{PluginError, PluginSource};

/// The most that is copied of a plugin.
const FILES: usize = 20_000;
const BYTES: u64 = 512 << 20;
/// Git may take so long for one step.
const LONGEST: Duration = Duration::from_secs(300);
/// What nobody runs from a plugin.
const NEVER: &str = ".git";

/// A directory that goes when this does, unless it is kept.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A new one below `place`, on the same file system.
    pub(super) fn below(place: &Path) -> io::Result<Self> {
        fs::create_dir_all(place)?;
        let path = place.join(format!(".new-{}", Uuid::new_v4().simple()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Puts what is in it where `to` says, in place of what was there.
    pub(super) fn keep_as(&self, to: &Path) -> io::Result<()> {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        match rustix::fs::renameat_with(CWD, &self.0, CWD, to, RenameFlags::EXCHANGE) {
            // What was there is in the scratch directory now, and goes with it.
            Ok(()) => Ok(()),
            Err(Errno::NOENT) => fs::rename(&self.0, to),
            // Not every file system can do that.
            Err(_) => self.replace(to),
        }
    }

    fn replace(&self, to: &Path) -> io::Result<()> {
        let old = self.0.with_extension("old");
        let had = match fs::rename(to, &old) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        let kept = fs::rename(&self.0, to);
        match (&kept, had) {
            (Ok(()), true) => drop(fs::remove_dir_all(&old)),
            (Err(_), true) => drop(fs::rename(&old, to)),
            _ => {}
        }
        kept
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where the files of a source are: in its own directory, or in a clone below `scratch`.
pub(super) fn fetch(source: &PluginSource, scratch: &Path) -> Result<PathBuf, PluginError> {
    match source {
        PluginSource::Local { path } if path.is_dir() => Ok(path.clone()),
        PluginSource::Local { path } => Err(PluginError::Missing(path.clone(), "it is not a directory".to_owned())),
        PluginSource::Git { url, reference, path } => {
            let clone = scratch.join("clone");
            checkout(url, reference.as_deref(), &clone)?;
            let found = path.as_ref().map_or_else(|| clone.clone(), |path| clone.join(path));
            // A link in the repository may lead anywhere.
            let inside = fs::canonicalize(&found).is_ok_and(|real| {
                let top = fs::canonicalize(&clone);
                real.is_dir() && top.is_ok_and(|top| real.starts_with(top))
            });
            match inside {
                true => Ok(found),
                false => Err(PluginError::Missing(
                    found,
                    "the repository has no such directory".to_owned(),
                )),
            }
        }
    }
}

/// Clones a repository without its history into a new directory.
fn checkout(url: &str, reference: Option<&str>, to: &Path) -> Result<(), PluginError> {
    let reference = reference.unwrap_or("HEAD");
    if reference.is_empty() || reference.starts_with('-') {
        return Err(PluginError::Source(format!("{url}#{reference}")));
    }
    fs::create_dir(to)?;
    git(to, &["init", "--quiet", "--template="])?;
    git(to, &["fetch", "--quiet", "--depth=1", "--", url, reference])?;
    git(to, &["checkout", "--quiet", "--detach", "FETCH_HEAD", "--"])
}

fn git(directory: &Path, args: &[&str]) -> Result<(), PluginError> {
    git_within(directory, args, LONGEST)
}

/// Runs git, and ends it with all that it started when it takes longer.
fn git_within(directory: &Path, args: &[&str], longest: Duration) -> Result<(), PluginError> {
    let mut git = git_env::fetching(directory)
        // A server that sends nothing for a minute sends nothing any more.
        .args(["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let stderr = git.stderr.take();
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_end(&mut said);
        }
        String::from_utf8_lossy(&said).trim().to_owned()
    });
    let until = Instant::now() + longest;
    let status = loop {
        match git.try_wait()? {
            Some(status) => break Some(status),
            None if Instant::now() >= until => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.is_none() {
        if let Some(group) = i32::try_from(git.id()).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        git.wait()?;
    }
    let said = said.join().unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(PluginError::Git(said)),
        None => Err(PluginError::Git(format!(
            "it took longer than {} s and was stopped. {said}",
            longest.as_secs()
        ))),
    }
}

/// Copies a directory. Links that lead out of it are left out; others become what they lead to.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), PluginError> {
    let top = fs::canonicalize(from).map_err(PluginError::Io)?;
    let mut left = (FILES, BYTES);
    copy_below(&top, &top, to, &mut left, 0)
}

fn copy_below(top: &Path, from: &Path, to: &Path, left: &mut (usize, u64), depth: usize) -> Result<(), PluginError> {
    // Links can lead in circles.
    if depth > 32 {
        return Err(PluginError::TooLarge);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_name() == NEVER {
            continue;
        }
        let Ok(real) = fs::canonicalize(entry.path()) else {
            continue;
        };
        if !real.starts_with(top) {
            continue;
        }
        let facts = fs::metadata(&real)?;
        let to = to.join(entry.file_name());
        let bytes = if facts.is_file() { facts.len() } else { 0 };
        let (Some(files), Some(bytes)) = (left.0.checked_sub(1), left.1.checked_sub(bytes)) else {
            return Err(PluginError::TooLarge);
        };
        *left = (files, bytes);
        if facts.is_dir() {
            copy_below(top, &real, &to, left, depth + 1)?;
        } else if facts.is_file() {
            fs::copy(&real, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_server_that_never_answers_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/none", silent.local_addr().unwrap());
        git(dir.path(), &["init", "--quiet", "--template="]).unwrap();
        let fetched = git_within(dir.path(), &["fetch", "--", &url, "HEAD"], Duration::from_millis(300));
        let error = fetched.unwrap_err().to_string();
        assert!(error.contains("took longer"), "{error}");
    }

    #[test]
    fn a_copy_is_there_all_the_time_while_another_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("plugin");
        let put = |text: &str| {
            let scratch = Scratch::below(dir.path()).unwrap();
            fs::write(scratch.path().join("text"), text).unwrap();
            scratch.keep_as(&to).unwrap();
        };
        put("first");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(to.is_dir(), "it is missing");
                }
            });
            (0..500).for_each(|_| put("next"));
            done.store(true, Ordering::Relaxed);
            looking.join().unwrap();
        });
        assert_eq!(fs::read_to_string(to.join("text")).unwrap(), "next");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }
}
