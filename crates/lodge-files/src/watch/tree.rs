//! A directory tree under inotify. It remembers which names exist, so each report is relative to the previous one: of
//! many events of one file, only the net result is reported.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ffi::{OsStr, OsString},
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{
        AtFlags,
        inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    },
    io::Errno,
};

use super::{Change, Changes, Filter};
use crate::reach::{FileError, Private, Watchable, is_temporary, names_in, open_directory};

/// Directories of one watch. Beyond this a client has to exclude some.
const MOST_DIRECTORIES: usize = 50_000;

struct Directory {
    wd: i32,
    /// Hashes of the names in it.
    names: HashSet<u64>,
}

/// A tree that is watched.
pub struct Tree {
    events: Arc<OwnedFd>,
    root: OwnedFd,
    /// The one name that is watched, when it is a file.
    only: Option<OsString>,
    filter: Filter,
    private: Private,
    directories: BTreeMap<PathBuf, Directory>,
    by_wd: HashMap<i32, PathBuf>,
    /// Whether the deletion of the root was reported.
    gone: bool,
}

fn hash(name: &OsStr) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(name)
}

impl Tree {
    pub(super) fn new(root: Watchable, filter: Filter) -> Result<Self, FileError> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut tree = Self {
            events: Arc::new(events),
            root: root.directory,
            only: root.only,
            filter,
            private: root.private,
            directories: BTreeMap::new(),
            by_wd: HashMap::new(),
            gone: false,
        };
        tree.add(PathBuf::new(), None)?;
        Ok(tree)
    }

    /// Where events are announced.
    pub(super) fn events(&self) -> Arc<OwnedFd> {
        self.events.clone()
    }

    /// Watches a directory and, if that is wanted, those in it. What is in there is known then, or is to be told.
    fn add(&mut self, top: PathBuf, mut told: Option<&mut BTreeSet<PathBuf>>) -> Result<(), FileError> {
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::EXCL_UNLINK;
        let mut next = vec![top];
        while let Some(way) = next.pop() {
            let is_top = way.as_os_str().is_empty();
            let opened = open_directory(&self.root, &way);
            // What was deleted or cannot be read is skipped; the rest is still reported.
            let directory = match opened {
                Err(_) if !is_top => continue,
                Ok(directory) if self.private.holds(&directory) => continue,
                other => other?,
            };
            if self.directories.len() >= MOST_DIRECTORIES {
                return Err(FileError::TooLarge);
            }
            let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
            let wd = inotify::add_watch(&*self.events, path, flags)?;
            let mut names = HashSet::new();
            // Watched first and read then: what comes in between is seen twice, not never.
            for (name, is_dir) in names_in(&directory)? {
                if is_temporary(&name) {
                    continue;
                }
                let below = way.join(&name);
                if is_dir && self.filter.recursive && self.only.is_none() && !self.filter.skips(&below) {
                    next.push(below.clone());
                }
                match &mut told {
                    Some(told) => drop(told.insert(below)),
                    None => drop(names.insert(hash(&name))),
                }
            }
            // A directory that had another name until now.
            if let Some(old) = self.by_wd.insert(wd, way.clone())
                && old != way
            {
                self.directories.remove(&old);
            }
            self.directories.insert(way, Directory { wd, names });
        }
        Ok(())
    }

    /// No longer watches a directory and what is in it.
    fn forget(&mut self, top: &Path) {
        let gone: Vec<PathBuf> = self
            .directories
            .range(top.to_owned()..)
            .take_while(|(path, _)| path.starts_with(top))
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            if let Some(directory) = self.directories.remove(&path)
                && self.by_wd.get(&directory.wd) == Some(&path)
            {
                self.by_wd.remove(&directory.wd);
                let _ = inotify::remove_watch(&*self.events, directory.wd);
            }
        }
    }

    /// What became of everything that something happened to. When that is too much to tell, or the kernel lost count, the
    /// root alone: it is to be looked at again.
    pub(super) fn changes(&mut self, most: usize) -> Changes {
        let mut touched = BTreeSet::new();
        let mut new = Vec::new();
        let mut lost = false;
        let mut gone = false;
        let events = self.events.clone();
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(&*events, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            let what = event.events();
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                lost = true;
                continue;
            }
            let Some(way) = self.by_wd.get(&event.wd()).cloned() else {
                continue;
            };
            if what.contains(ReadFlags::IGNORED) {
                self.by_wd.remove(&event.wd());
                self.directories.remove(&way);
                continue;
            }
            let Some(name) = event.file_name() else {
                gone |= way.as_os_str().is_empty() && what.contains(ReadFlags::MOVE_SELF);
                continue;
            };
            let name = OsStr::from_bytes(name.to_bytes());
            if is_temporary(name) || self.only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let below = way.join(name);
            if what.contains(ReadFlags::ISDIR) && self.filter.recursive && !self.filter.skips(&below) {
                if what.contains(ReadFlags::MOVED_FROM) {
                    self.forget(&below);
                } else if what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                    new.push(below.clone());
                }
            }
            lost |= touched.len() > most;
            if !lost {
                touched.insert(below);
            }
        }
        for directory in new {
            self.forget(&directory);
            lost |= self.add(directory, Some(&mut touched)).is_err();
        }
        if lost || touched.len() > most {
            return self.again();
        }
        let mut changes = Changes::new();
        for path in touched {
            let Some(change) = self.became(&path) else { continue };
            if self.only.is_some() {
                // A file is reported under the URI it was requested by.
                changes.push((PathBuf::new(), change));
            } else if self.filter.tells(&path) {
                changes.push((path, change));
            }
        }
        // The kernel does not tell that a directory is gone which somebody has open.
        if (gone || self.is_deleted()) && self.only.is_none() && !self.gone {
            self.gone = true;
            changes.push((PathBuf::new(), Change::Deleted));
        }
        changes
    }

    fn is_deleted(&self) -> bool {
        rustix::fs::fstat(&self.root).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// What a path is now, against what was known of it. Nothing, when it came and went.
    fn became(&mut self, path: &Path) -> Option<Change> {
        let exists = rustix::fs::statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let name = hash(path.file_name()?);
        // A directory that is no longer watched took its names with it.
        let directory = self.directories.get_mut(path.parent()?);
        let known = match directory {
            Some(directory) if exists => !directory.names.insert(name),
            Some(directory) => directory.names.remove(&name),
            None => false,
        };
        match (known, exists) {
            (_, true) if !known => Some(Change::Added),
            (_, true) => Some(Change::Updated),
            (true, false) => Some(Change::Deleted),
            (false, false) => None,
        }
    }

    /// Starts over with the current state.
    fn again(&mut self) -> Changes {
        self.forget(Path::new(""));
        if let Err(error) = self.add(PathBuf::new(), None) {
            tracing::warn!(%error, "a watch cannot go on");
            return vec![(PathBuf::new(), Change::Deleted)];
        }
        vec![(PathBuf::new(), Change::Updated)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::{Reach, Root, temporary_name};

    fn watch(dir: &Path, at: &str, filter: Filter) -> Tree {
        let reach = Reach {
            roots: vec![Root::whole(dir)],
            ..Reach::default()
        };
        reach.files().watch(&dir.join(at), filter).unwrap()
    }

    fn seen(tree: &mut Tree, most: usize) -> String {
        let spell = |(path, change): (PathBuf, Change)| {
            let sign = match change {
                Change::Added => '+',
                Change::Updated => '~',
                Change::Deleted => '-',
            };
            format!("{sign}{}", path.display())
        };
        let changes: Vec<String> = tree.changes(most).into_iter().map(spell).collect();
        changes.join(" ")
    }

    #[test]
    fn what_became_of_files_is_told_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("sub/deep")).unwrap();
        std::fs::write(at("old"), "x").unwrap();
        let filter = Filter::new(true, Some(&["**/skip".to_owned()]), None).unwrap();
        let mut tree = watch(dir.path(), "", filter);
        let mut check = |expected: &str| assert_eq!(seen(&mut tree, 100), expected);
        check("");
        std::fs::write(at("old"), "y").unwrap();
        std::fs::write(at("new"), "x").unwrap();
        std::fs::write(at("new"), "y").unwrap();
        std::fs::write(at("brief"), "x").unwrap();
        std::fs::remove_file(at("brief")).unwrap();
        std::fs::write(at("sub/deep/file"), "x").unwrap();
        check("+new ~old +sub/deep/file");
        // Replaced as editors do it, and as this host does.
        std::fs::write(at(&temporary_name()), "z").unwrap();
        std::fs::write(at("tmp"), "z").unwrap();
        std::fs::rename(at("tmp"), at("old")).unwrap();
        std::fs::remove_file(at("new")).unwrap();
        check("-new ~old");
        // A whole tree at once, before it could be watched.
        std::fs::create_dir_all(at("one/two")).unwrap();
        std::fs::write(at("one/two/three"), "x").unwrap();
        std::fs::write(at("one/two").join(temporary_name()), "z").unwrap();
        std::fs::create_dir(at("skip")).unwrap();
        std::fs::write(at("skip/file"), "x").unwrap();
        check("+one +one/two +one/two/three");
        std::fs::write(at("one/two/three"), "y").unwrap();
        check("~one/two/three");
        std::fs::rename(at("one"), at("uno")).unwrap();
        check("-one +uno +uno/two +uno/two/three");
        std::fs::write(at("uno/two/four"), "y").unwrap();
        check("+uno/two/four");
        std::fs::remove_dir_all(at("uno")).unwrap();
        check("-uno");
        std::os::unix::fs::symlink("sub", at("link")).unwrap();
        check("+link");
    }

    #[test]
    fn without_recursion_only_what_is_directly_in_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let mut tree = watch(dir.path(), "", Filter::default());
        let mut one = watch(dir.path(), "file", Filter::default());
        std::fs::write(dir.path().join("sub/file"), "").unwrap();
        std::fs::write(dir.path().join("other"), "").unwrap();
        assert_eq!(seen(&mut tree, 100), "+other");
        assert_eq!(seen(&mut one, 100), "");
        std::fs::write(dir.path().join("tmp"), "x").unwrap();
        std::fs::rename(dir.path().join("tmp"), dir.path().join("file")).unwrap();
        assert_eq!(seen(&mut one, 100), "~");
        std::fs::remove_file(dir.path().join("file")).unwrap();
        assert_eq!(seen(&mut one, 100), "-");
        assert_eq!(seen(&mut tree, 100), "-file");
    }

    #[test]
    fn too_much_at_once_is_told_as_one_and_then_it_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let recursive = Filter::new(true, None, None).unwrap();
        let mut tree = watch(dir.path(), "", recursive);
        for number in 0..50 {
            std::fs::create_dir(dir.path().join(format!("d{number}"))).unwrap();
            std::fs::write(dir.path().join(format!("d{number}/f")), "").unwrap();
        }
        assert_eq!(seen(&mut tree, 20), "~");
        std::fs::write(dir.path().join("d7/f"), "x").unwrap();
        std::fs::write(dir.path().join("d7/g"), "x").unwrap();
        assert_eq!(seen(&mut tree, 20), "~d7/f +d7/g");
        std::fs::remove_dir_all(dir.path()).unwrap();
        assert_eq!(seen(&mut tree, 1000).split(' ').next_back(), Some("-"));
        assert_eq!(seen(&mut tree, 1000), "");
    }
}
