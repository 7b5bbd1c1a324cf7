//! Replaces a file's contents atomically.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Gives a file other contents, or makes it, readable by its owner alone. Whoever reads it meanwhile, or after a crash, finds
/// the old contents or the new ones, and the new ones are on the disk when this returns. The directory must be there.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = temporary(path);
    let replaced = write_new(&temporary, contents).and_then(|()| std::fs::rename(&temporary, path));
    if replaced.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    replaced?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// A name beside a file that no other process, and no other thread, takes for its own.
fn temporary(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{next}.new", std::process::id()));
    name.into()
}

fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    // What a process of the same number left may have other permissions.
    let _ = std::fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_file_is_made_and_replaced_for_its_owner_alone_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.json");
        for contents in ["one", "", "two"] {
            std::fs::write(&path, "readable by all").unwrap();
            replace(&path, contents.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), contents);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(names(dir.path()), ["file.json"]);
    }

    #[test]
    fn what_cannot_be_replaced_stays_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("directory");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("kept"), "kept").unwrap();
        assert!(replace(&path, b"new").is_err());
        assert_eq!(names(dir.path()), ["directory"]);
        assert!(replace(&dir.path().join("nowhere/file"), b"new").is_err());
        assert_eq!(names(&path), ["kept"]);
    }

    #[test]
    fn readers_and_writers_beside_each_other_see_whole_contents_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let contents = |n: u8| vec![n; 50_000];
        replace(&path, &contents(0)).unwrap();
        std::thread::scope(|scope| {
            for n in 1..4 {
                let path = &path;
                scope.spawn(move || (0..20).for_each(|_| replace(path, &contents(n)).unwrap()));
            }
            for _ in 0..200 {
                let found = std::fs::read(&path).unwrap();
                assert_eq!(found, contents(found[0]));
            }
        });
        assert_eq!(names(dir.path()), ["file"]);
    }
}
