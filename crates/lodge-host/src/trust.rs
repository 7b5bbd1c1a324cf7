//! Which folders a person trusts: only there, what a project's files describe is run without a word.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_agent::{FindHooks, GitContext, HookFiles};
use lodge_log::Home;
use lodge_tools::{custom::Plugin, hooks::FileHooks};

/// The file in the home that names trusted folders, one a line.
const FILE: &str = "trusted-folders";
/// Where a project describes hooks.
const PROJECT_HOOKS: &str = ".github/hooks";

/// The folders that the person of a home trusts.
#[derive(Debug, Clone)]
pub struct Trust {
    home: PathBuf,
}

impl Trust {
    /// Of this home.
    pub fn of(home: &Home) -> Self {
        Self::at(home.path())
    }

    /// Of the home at this place.
    pub fn at(home: &Path) -> Self {
        Self { home: home.to_owned() }
    }

    /// The trusted folders.
    pub fn folders(&self) -> Vec<PathBuf> {
        let text = std::fs::read_to_string(self.home.join(FILE)).unwrap_or_default();
        let lines = text.lines().map(str::trim);
        lines.filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
    }

    /// Whether a folder is trusted, or is inside of one that is.
    pub fn covers(&self, folder: &Path) -> bool {
        let Ok(real) = std::fs::canonicalize(folder) else {
            return false;
        };
        self.folders().iter().any(|trusted| real.starts_with(trusted))
    }

    /// Trusts a folder from now on, or no longer.
    pub fn set(&self, folder: &Path, trusted: bool) -> io::Result<()> {
        let real = std::fs::canonicalize(folder)?;
        let mut folders = self.folders();
        folders.retain(|other| *other != real);
        if trusted {
            folders.push(real);
        }
        let lines: Vec<String> = folders.iter().map(|folder| format!("{}\n", folder.display())).collect();
        std::fs::create_dir_all(&self.home)?;
        let new = self.home.join(format!("{FILE}.new"));
        std::fs::write(&new, lines.concat())?;
        std::fs::rename(new, self.home.join(FILE))
    }

    /// Finds the hooks of a session.
    pub(crate) fn find_hooks(self) -> FindHooks {
        Arc::new(move |cwd, which| self.hooks(cwd, which))
    }

    /// The hooks that a session in this directory has: the person's in `<home>/hooks`, a project's in `.github/hooks`.
    pub fn hooks(&self, cwd: &Path, which: HookFiles) -> FileHooks {
        let mut hooks = FileHooks::default();
        if which == HookFiles::Off {
            return hooks;
        }
        hooks.read(&self.home.join("hooks"), cwd);
        for base in places(cwd) {
            let dir = base.join(PROJECT_HOOKS);
            if self.runs(&base, which) {
                hooks.read(&dir, &base);
            } else if !files_with_hooks(&dir).is_empty() {
                hooks.problems.push(format!(
                    "The hooks in {} are not run, because they could run anything. If you trust this folder: lodge trust {}",
                    dir.display(),
                    base.display()
                ));
            }
        }
        hooks
    }

    fn runs(&self, base: &Path, which: HookFiles) -> bool {
        which == HookFiles::All || self.covers(base)
    }

    /// The files that describe hooks for a session in this directory with these plugins, and whether these are run.
    pub fn hook_files<'a>(
        &self,
        cwd: &Path,
        which: HookFiles,
        plugins: impl IntoIterator<Item = &'a Plugin>,
    ) -> Vec<(PathBuf, bool)> {
        let in_plugins = plugins.into_iter().flat_map(|plugin| &plugin.hooks);
        let in_plugins = in_plugins.filter(|file| file.is_file());
        let mut files: Vec<(PathBuf, bool)> = in_plugins.map(|file| (file.clone(), true)).collect();
        if which == HookFiles::Off {
            return files;
        }
        let own = files_with_hooks(&self.home.join("hooks")).into_iter();
        files.extend(own.map(|file| (file, true)));
        for base in places(cwd) {
            let (found, run) = (files_with_hooks(&base.join(PROJECT_HOOKS)), self.runs(&base, which));
            files.extend(found.into_iter().map(|file| (file, run)));
        }
        files
    }

    /// Where such files are looked for, and the file that says which folders are trusted.
    pub(crate) fn hook_places(&self, cwd: &Path) -> Vec<PathBuf> {
        let project = places(cwd).into_iter().map(|base| base.join(PROJECT_HOOKS));
        let own = [self.home.join("hooks"), self.home.join(FILE)];
        own.into_iter().chain(project).collect()
    }
}

/// Where a project's hooks are looked for: at the root of its repository, and where the session works.
fn places(cwd: &Path) -> Vec<PathBuf> {
    let root = GitContext::of(cwd).root.map(PathBuf::from);
    let mut places: Vec<PathBuf> = root.into_iter().collect();
    if !places.iter().any(|place| place == cwd) {
        places.push(cwd.to_owned());
    }
    places
}

fn files_with_hooks(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_covers_what_is_inside_and_can_be_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::at(&dir.path().join("home"));
        let (inside, outside) = (dir.path().join("a/b"), dir.path().join("ab"));
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        trust.set(&dir.path().join("a"), true).unwrap();
        trust.set(&dir.path().join("a"), true).unwrap();
        assert_eq!(trust.folders().len(), 1);
        for (folder, expected) in [
            (dir.path().join("a"), true),
            (inside.clone(), true),
            (inside.join("link"), false),
            (outside, false),
            (dir.path().join("a/none"), false),
        ] {
            assert_eq!(trust.covers(&folder), expected, "{}", folder.display());
        }
        trust.set(&dir.path().join("a"), false).unwrap();
        assert!(!trust.covers(&inside));
    }
}
