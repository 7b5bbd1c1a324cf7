//! The files in which git keeps what a repository is, read without running git.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use lodge_files::{open_in_folder, text_in_folder};

/// The longest of them that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// A repository's own files. They come with the repository, so they may be anything.
#[derive(Debug)]
pub struct GitFiles {
    /// Where git keeps what belongs to this worktree.
    dir: PathBuf,
    /// Where it keeps what all worktrees of the repository share.
    common: PathBuf,
}

impl GitFiles {
    /// Those of the worktree with this root.
    pub fn of(root: &Path) -> Self {
        let dir = root.join(named_dir(root).as_deref().unwrap_or(".git"));
        let common = text_in_folder(&dir, "commondir", LONGEST);
        let common = common.map_or_else(|_| dir.clone(), |common| dir.join(common.trim()));
        Self { dir, common }
    }

    /// Whether a worktree has its root here: an empty `.git` makes none, for Lodge as for git.
    pub fn are_at(root: &Path) -> bool {
        root.join(".git/HEAD").symlink_metadata().is_ok() || named_dir(root).is_some()
    }

    /// The root of the worktree that a directory is in.
    pub fn root_around(dir: &Path) -> Option<&Path> {
        dir.ancestors().find(|dir| Self::are_at(dir))
    }

    /// Where git keeps what belongs to this worktree.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is checked out, as git writes it.
    pub fn head(&self) -> String {
        text_in_folder(&self.dir, "HEAD", LONGEST).unwrap_or_default()
    }

    /// The configuration of the repository.
    pub fn config(&self) -> String {
        text_in_folder(&self.common, "config", LONGEST).unwrap_or_default()
    }

    /// The list of the files that git knows, opened.
    pub(crate) fn index(&self) -> Option<File> {
        open_in_folder(&self.dir, "index").ok()
    }
}

/// What `.git` names where it is a file, as in linked worktrees and submodules.
fn named_dir(root: &Path) -> Option<String> {
    let text = text_in_folder(root, ".git", LONGEST).ok()?;
    Some(text.strip_prefix("gitdir:")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn files_that_are_none_keep_nobody_waiting_and_tell_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cloned");
        let git = root.join(".git");
        std::fs::create_dir_all(&git).unwrap();
        std::fs::write(dir.path().join("secret"), "outside").unwrap();
        symlink("../../secret", git.join("HEAD")).unwrap();
        symlink("/dev/zero", git.join("config")).unwrap();
        mknodat(CWD, git.join("index"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        mknodat(
            CWD,
            git.join("commondir"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let files = GitFiles::of(&root);
        assert_eq!((files.head(), files.config()), (String::new(), String::new()));
        assert!(files.index().is_none());
    }

    #[test]
    fn a_worktree_begins_where_git_says_so_and_not_at_any_folder_of_that_name() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("repo/.git/HEAD", "ref: refs/heads/main\n");
        put("repo/linked/.git", "gitdir: ../.git/worktrees/linked\n");
        put("repo/odd/.git", "anything\n");
        put("repo/leftover/.git/config", "");
        std::fs::create_dir_all(dir.path().join("repo/empty/.git")).unwrap();
        std::fs::create_dir_all(dir.path().join("empty/.git")).unwrap();
        for (inside, root) in [
            ("repo", Some("repo")),
            ("repo/src/deep", Some("repo")),
            ("repo/linked/src", Some("repo/linked")),
            ("repo/odd", Some("repo")),
            ("repo/leftover", Some("repo")),
            ("repo/empty/src", Some("repo")),
            ("empty/src", None),
        ] {
            let inside = dir.path().join(inside);
            let found = GitFiles::root_around(&inside).filter(|found| found.starts_with(dir.path()));
            assert_eq!(
                found,
                root.map(|root| dir.path().join(root)).as_deref(),
                "{}",
                inside.display()
            );
        }
    }

    #[test]
    fn a_linked_worktree_has_files_of_its_own_and_shares_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let (main, linked) = (dir.path().join("main/.git"), dir.path().join("linked"));
        std::fs::create_dir_all(main.join("worktrees/linked")).unwrap();
        std::fs::create_dir_all(&linked).unwrap();
        std::fs::write(linked.join(".git"), "gitdir: ../main/.git/worktrees/linked\n").unwrap();
        std::fs::write(main.join("worktrees/linked/commondir"), "../..\n").unwrap();
        std::fs::write(main.join("worktrees/linked/HEAD"), "ref: refs/heads/next\n").unwrap();
        std::fs::write(main.join("config"), "[core]\n").unwrap();
        let files = GitFiles::of(&linked);
        assert_eq!(
            (files.head(), files.config()),
            ("ref: refs/heads/next\n".into(), "[core]\n".into())
        );
    }
}
