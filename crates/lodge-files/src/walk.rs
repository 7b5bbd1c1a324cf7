//! Walks folders as git sees them: without what their ignore files name.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use ignore::{DirEntry, WalkBuilder};

use crate::text_in_folder;

/// A longer ignore file is not read, in bytes.
const LONGEST: u64 = 1 << 20;

/// A walk of a folder that may be anybody's. Only what is `wanted` is shown and entered. The walk reads ignore files by their paths, so
/// it leaves a directory out whose ignore file is none: a pipe would stop it, and a link to a device would never end.
pub fn walk(root: &Path, wanted: impl Fn(&DirEntry) -> bool + Send + Sync + 'static) -> WalkBuilder {
    let mut walk = WalkBuilder::new(root);
    walk.follow_links(false).require_git(false);
    if !root.ancestors().all(has_plain_ignore_files) {
        // The folder itself is not left out; everything in it is shown.
        walk.parents(false).ignore(false).git_ignore(false).git_exclude(false);
    }
    walk.filter_entry(move |entry| {
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        wanted(entry) && (!is_dir || has_plain_ignore_files(entry.path()))
    });
    walk
}

/// Whether the ignore files of a directory can be read without harm.
fn has_plain_ignore_files(dir: &Path) -> bool {
    let git = dir.join(".git");
    [".gitignore", ".ignore"].iter().all(|name| is_plain(&dir.join(name)))
        && match git.symlink_metadata() {
            Err(_) => true,
            Ok(found) if found.is_file() => is_plain(&git) && has_plain_exclusions(&named_git_dir(dir)),
            Ok(_) => git.is_dir() && has_plain_exclusions(&git),
        }
}

/// The directory that a `.git` file names, as the walk reads it.
fn named_git_dir(dir: &Path) -> PathBuf {
    let text = text_in_folder(dir, ".git", LONGEST).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    PathBuf::from(line.strip_prefix("gitdir: ").unwrap_or(".git"))
}

fn has_plain_exclusions(git: &Path) -> bool {
    let common = text_in_folder(git, "commondir", LONGEST).unwrap_or_default();
    // An absolute one takes the place of what it is joined to.
    let common = git.join(common.lines().next().unwrap_or_default());
    [
        git.join("commondir"),
        git.join("info/exclude"),
        common.join("info/exclude"),
    ]
    .iter()
    .all(|file| is_plain(file))
}

/// Whether reading a file ends soon. A link may lead to a file of the same file system, so to none that the kernel makes up.
fn is_plain(path: &Path) -> bool {
    let Ok(link) = path.symlink_metadata() else { return true };
    let fits = |file: Metadata| file.is_file() && file.len() <= LONGEST && file.dev() == link.dev();
    path.metadata().map_or(true, fits)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn found(root: &Path) -> Vec<String> {
        let mut found: Vec<String> = walk(root, |_| true)
            .build()
            .flatten()
            .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
            .map(|entry| entry.path().strip_prefix(root).unwrap().display().to_string())
            .collect();
        found.sort();
        found
    }

    #[test]
    fn ignore_files_that_are_none_neither_stop_a_walk_nor_fill_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let pipe = |path: &str| mknodat(CWD, root.join(path), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for name in ["sound", "endless", "pipe", "git", "linked", "worktree"] {
            std::fs::create_dir(root.join(name)).unwrap();
            for file in ["kept", "left"] {
                std::fs::write(root.join(name).join(file), "").unwrap();
            }
        }
        std::fs::write(root.join("sound/.gitignore"), "left\n").unwrap();
        symlink("../sound/.gitignore", root.join("linked/.gitignore")).unwrap();
        symlink("/dev/zero", root.join("endless/.gitignore")).unwrap();
        pipe("pipe/.ignore");
        std::fs::create_dir_all(root.join("git/.git/info")).unwrap();
        symlink("/proc/self/pagemap", root.join("git/.git/info/exclude")).unwrap();
        std::fs::create_dir(root.join("worktree/names")).unwrap();
        let names = root.join("worktree/names");
        std::fs::write(root.join("worktree/.git"), format!("gitdir: {}\n", names.display())).unwrap();
        pipe("worktree/names/commondir");
        assert_eq!(found(root), ["linked/kept", "sound/kept"]);
        assert_eq!(
            found(&root.join("endless")),
            ["kept", "left"],
            "the folder itself is shown"
        );
        assert_eq!(found(&root.join("pipe")), ["kept", "left"]);
    }
}
