//! What a person trusts, in two readable files of the home.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use crate::file::Fingerprint;

/// Lists trusted folders, one per line.
const FOLDERS: &str = "trusted-folders";
/// Lists accepted files with hashes of their contents, as `sha256sum` does.
const FILES: &str = "trusted-files";

/// The folders that the person of a home trusts, and the files in them that were accepted.
#[derive(Debug, Clone)]
pub struct Store {
    home: PathBuf,
}

/// What a person decided about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Accepted as it is.
    Accepted,
    /// Never accepted.
    New,
    /// Accepted with other contents.
    Changed,
}

pub(crate) fn standing(accepted: &HashMap<PathBuf, String>, fingerprint: &Fingerprint) -> Standing {
    match (accepted.get(&fingerprint.path), &fingerprint.sha256) {
        (Some(accepted), Some(now)) if accepted == now => Standing::Accepted,
        (Some(_), _) => Standing::Changed,
        (None, _) => Standing::New,
    }
}

pub(crate) fn covers(folders: &[PathBuf], folder: &Path) -> bool {
    let real = fs::canonicalize(folder);
    real.is_ok_and(|real| folders.iter().any(|trusted| real.starts_with(trusted)))
}

impl Store {
    /// Of the home at this place.
    pub fn at(home: &Path) -> Self {
        Self { home: home.to_owned() }
    }

    /// The files of the store, to see whether they change.
    pub fn places(&self) -> [PathBuf; 2] {
        [self.home.join(FOLDERS), self.home.join(FILES)]
    }

    /// The trusted folders. A file that cannot be read trusts nothing.
    pub fn folders(&self) -> Vec<PathBuf> {
        let text = fs::read_to_string(self.home.join(FOLDERS)).unwrap_or_default();
        let lines = text.lines().map(str::trim);
        lines.filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
    }

    /// The accepted files, and the SHA-256 of what is in each.
    pub fn accepted(&self) -> HashMap<PathBuf, String> {
        let text = fs::read_to_string(self.home.join(FILES)).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once("  "));
        lines
            .map(|(sha256, path)| (PathBuf::from(path), sha256.to_owned()))
            .collect()
    }

    /// Whether a folder is trusted, or is inside of one that is.
    pub fn covers(&self, folder: &Path) -> bool {
        covers(&self.folders(), folder)
    }

    /// What was decided about a file.
    pub fn standing(&self, fingerprint: &Fingerprint) -> Standing {
        standing(&self.accepted(), fingerprint)
    }

    /// Trusts a folder and accepts these files as they are. Files that no longer exist are forgotten.
    pub fn trust(&self, folder: &Path, files: &[Fingerprint]) -> io::Result<()> {
        let real = fs::canonicalize(folder)?;
        if !fits_a_line(&real) {
            return Err(io::Error::other("its name is not valid text, or has a line break"));
        }
        let mut folders = self.folders();
        if !covers(&folders, &real) {
            folders.push(real.clone());
        }
        let mut accepted = self.accepted();
        accepted.retain(|path, _| !path.starts_with(&real) || path.exists());
        for file in files {
            if let (Some(sha256), true) = (&file.sha256, fits_a_line(&file.path)) {
                accepted.insert(file.path.clone(), sha256.clone());
            }
        }
        // The files first: a folder without them is only asked about again.
        self.write_files(&accepted)?;
        self.write_folders(&folders)
    }

    /// Untrusts a folder, and forgets what was accepted in it.
    pub fn forget(&self, folder: &Path) -> io::Result<()> {
        let real = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let mut folders = self.folders();
        folders.retain(|other| *other != real);
        self.write_folders(&folders)?;
        let mut accepted = self.accepted();
        accepted.retain(|path, _| !path.starts_with(&real));
        self.write_files(&accepted)
    }

    fn write_folders(&self, folders: &[PathBuf]) -> io::Result<()> {
        let lines = folders.iter().map(|folder| format!("{}\n", folder.display()));
        self.write(FOLDERS, lines.collect())
    }

    fn write_files(&self, accepted: &HashMap<PathBuf, String>) -> io::Result<()> {
        let mut lines: Vec<String> = accepted
            .iter()
            .map(|(path, sha256)| format!("{sha256}  {}\n", path.display()))
            .collect();
        lines.sort_unstable_by(|one, other| one[64.min(one.len())..].cmp(&other[64.min(other.len())..]));
        self.write(FILES, lines.concat())
    }

    fn write(&self, name: &str, text: String) -> io::Result<()> {
        fs::create_dir_all(&self.home)?;
        lodge_files::replace(&self.home.join(name), text.as_bytes())
    }
}

/// A name that cannot be written exactly would mean something else when it is read again.
fn fits_a_line(path: &Path) -> bool {
    path.to_str()
        .is_some_and(|path| path.starts_with('/') && !path.contains(['\n', '\r']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FolderFile, Gate, Origin, Startable, Untrusted};

    #[test]
    fn trust_covers_what_is_inside_and_can_be_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(&dir.path().join("home"));
        let (inside, outside) = (dir.path().join("a/b"), dir.path().join("ab"));
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        store.trust(&dir.path().join("a"), &[]).unwrap();
        store.trust(&dir.path().join("a"), &[]).unwrap();
        assert_eq!(store.folders().len(), 1);
        for (folder, expected) in [
            (dir.path().join("a"), true),
            (inside.clone(), true),
            (inside.join("link"), false),
            (outside, false),
            (dir.path().join("a/none"), false),
        ] {
            assert_eq!(store.covers(&folder), expected, "{}", folder.display());
            let entered = Gate::of(&store).enter(&folder);
            assert_eq!(entered.is_ok(), expected, "{}", folder.display());
            assert!(Gate::vouched_for().enter(&folder).is_ok());
        }
        store.forget(&dir.path().join("a")).unwrap();
        assert!(!store.covers(&inside));
    }

    /// Every source in every state of the folder and of the file: only a folder's contents need to be accepted.
    #[test]
    fn only_what_was_accepted_as_it_is_passes_the_gate() {
        let dir = tempfile::tempdir().unwrap();
        let (store, folder) = (Store::at(&dir.path().join("home")), dir.path().join("work"));
        fs::create_dir_all(folder.join("scripts")).unwrap();
        let put = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        let read = || {
            let file = FolderFile::read(&folder, "servers.json", 100).unwrap().unwrap();
            file.with_all_beneath("scripts", |path| path.extension().is_some_and(|end| end == "json"))
        };
        let origin = |file: &FolderFile| file.startable(()).origin().clone();
        let accept = || {
            let Origin::Folder { fingerprints, .. } = origin(&read()) else {
                unreachable!("it is read from a folder")
            };
            store.trust(&folder, &fingerprints).unwrap();
        };
        let word = |checked: Result<(), Untrusted>| match checked {
            Ok(()) => "passes",
            Err(Untrusted::Folder { .. }) => "untrusted",
            Err(Untrusted::New { .. }) => "new",
            Err(Untrusted::Changed { .. }) => "changed",
        };
        let check = |what: &str, expected: &str| {
            let origin = origin(&read());
            assert_eq!(word(Gate::of(&store).check(&origin)), expected, "{what}");
            assert_eq!(
                word(Gate::vouched_for().check(&origin)),
                "passes",
                "{what}, vouched for"
            );
            for own in [Origin::Program, Origin::Person, Origin::Client] {
                assert!(Gate::of(&store).admit(Startable::new(own, ())).is_ok(), "{what}");
            }
        };
        put("servers.json", "one");
        check("a folder that nobody trusts", "untrusted");
        store.trust(&folder, &[]).unwrap();
        check("a folder that an earlier version trusted", "new");
        accept();
        check("what was accepted", "passes");
        put("servers.json", "two");
        check("another content", "changed");
        put("servers.json", "one");
        check("the accepted content again", "passes");
        put("scripts/run.sh", "x");
        check("a new script beside it", "new");
        accept();
        check("an accepted script beside it", "passes");
        put("scripts/run.sh", "y");
        check("a changed script beside it", "changed");
        accept();
        put("scripts/other.json", "{}");
        check("another definition beside it", "passes");
        fs::write(folder.join("scripts/long"), vec![b' '; 5 << 20]).unwrap();
        accept();
        check("a script that is too long to look at", "new");
        fs::remove_file(folder.join("scripts/long")).unwrap();
        store.forget(&folder).unwrap();
        check("a folder that is trusted no longer", "untrusted");
        store.trust(&folder, &[]).unwrap();
        check("nothing of it is remembered", "new");
    }

    #[test]
    fn what_can_not_be_written_down_is_not_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(&dir.path().join("home"));
        let folder = dir.path().join("a\n0000  ");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("x"), "1").unwrap();
        let file = FolderFile::read(&folder, "x", 100).unwrap().unwrap();
        let Origin::Folder { fingerprints, .. } = file.startable(()).origin().clone() else {
            unreachable!("it is read from a folder")
        };
        assert!(store.trust(&folder, &fingerprints).is_err());
        store.trust(dir.path(), &fingerprints).unwrap();
        assert!(store.accepted().is_empty());
        assert!(Gate::of(&store).admit(file.startable(())).is_err());
    }
}
