//! The worktree compared with git, and operations on the difference.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::{
    git::{Git, GitError},
    lines,
};
use crate::git_env::no_programs_args;

/// Files of a worktree that are listed.
const MOST_FILES: usize = 5_000;
/// Length of a file that git does not have and whose lines are counted.
const MOST_BYTES: u64 = 2 << 20;

/// What a worktree is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The last commit.
    Head,
    /// The commit where the branch left its base.
    Base,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitChange {
    /// Where.
    pub path: PathBuf,
    /// Git's name for what was there.
    pub before: Option<String>,
    /// Whether there is something now.
    pub exists: bool,
    /// Lines added and removed, where there are lines.
    pub lines: Option<(u64, u64)>,
}

impl Git {
    /// Files below `dir` that are not as git has them.
    pub fn changes(&self, dir: &Path, against: Against) -> Result<Vec<GitChange>, GitError> {
        let commit = self.commit_of(against);
        let below = pathspec(self.root(), dir);
        let mut diff = vec!["diff", "--raw", "--numstat", "-z", "--no-abbrev", "--no-renames"];
        diff.extend(no_programs_args("diff"));
        diff.extend([commit.as_str(), "--"]);
        let others = ["ls-files", "--others", "--exclude-standard", "-z", "--"];
        // First what git does not know: a file that is put into the index meanwhile is seen twice, and not not at all.
        let others = self.run(&with(others, [&below]))?;
        let mut changes = self.read_diff(&self.run(&with(diff, [&below]))?);
        for name in others
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty() && !name.ends_with(b"/"))
        {
            let path = self.root().join(OsStr::from_bytes(name));
            let content = self.content_on_disk(&path);
            changes.push(GitChange {
                lines: content.and_then(|content| lines::count(&[], &content)),
                path,
                before: None,
                exists: true,
            });
            if changes.len() >= MOST_FILES {
                break;
            }
        }
        changes.truncate(MOST_FILES);
        changes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        changes.dedup_by(|one, other| one.path == other.path);
        Ok(changes)
    }

    /// What is in a short file of the worktree. To git, a link is what it says, not what it leads to.
    fn content_on_disk(&self, path: &Path) -> Option<Vec<u8>> {
        let is_file = path.symlink_metadata().is_ok_and(|file| file.is_file());
        let below = path.strip_prefix(self.root()).ok().filter(|_| is_file)?;
        lodge_files::read_in_folder(self.root(), below, MOST_BYTES).ok()
    }

    fn commit_of(&self, against: Against) -> String {
        let commit = match against {
            Against::Base => self.base().map(|(_, commit)| commit),
            Against::Head => None,
        };
        match commit.or_else(|| self.word(&["rev-parse", "--verify", "-q", "HEAD"])) {
            Some(commit) => commit,
            // No commit yet: everything is new.
            None => self
                .word(&["hash-object", "-t", "tree", "/dev/null"])
                .unwrap_or_default(),
        }
    }

    /// How a file differs, in unified form. Nothing, when it is too long or no text.
    pub fn patch(&self, change: &GitChange, against: Against, ignore_space: bool) -> Result<Option<String>, GitError> {
        let name = change.path.strip_prefix(self.root()).unwrap_or(&change.path).display();
        let text = match (&change.before, change.exists) {
            (None, true) => {
                let content = self.content_on_disk(&change.path);
                let content = content.and_then(|content| String::from_utf8(content).ok());
                let Some(content) = content else { return Ok(None) };
                let mut text = format!("diff --git a/{name} b/{name}\nnew file\n--- /dev/null\n+++ b/{name}\n");
                let lines = content.lines().count();
                if lines > 0 {
                    text.push_str(&format!("@@ -0,0 +1,{lines} @@\n"));
                }
                content.lines().for_each(|line| text.extend(["+", line, "\n"]));
                text
            }
            _ => {
                let (commit, path) = (self.commit_of(against), pathspec(self.root(), &change.path));
                let mut args = vec!["diff", "--no-color", "--no-renames"];
                args.extend(no_programs_args("diff"));
                args.extend(ignore_space.then_some("--ignore-all-space"));
                args.extend([commit.as_str(), "--"]);
                String::from_utf8_lossy(&self.run(&with(args, [&path]))?).into_owned()
            }
        };
        Ok((text.len() as u64 <= MOST_BYTES).then_some(text))
    }

    /// `:<mode> <mode> <name> <name> <letter> NUL <path> NUL` for each file, then `<added> TAB <removed> TAB <path> NUL`.
    fn read_diff(&self, output: &[u8]) -> Vec<GitChange> {
        let mut counts: HashMap<PathBuf, Option<(u64, u64)>> = HashMap::new();
        let mut changes = Vec::new();
        let mut parts = output.split(|byte| *byte == 0);
        while let Some(part) = parts.next() {
            let text = String::from_utf8_lossy(part);
            if let Some(head) = text.strip_prefix(':') {
                let words: Vec<&str> = head.split(' ').collect();
                let (Some(path), [old_mode, new_mode, old, _, _]) = (parts.next(), &words[..]) else {
                    continue;
                };
                changes.push(GitChange {
                    path: self.root().join(OsStr::from_bytes(path)),
                    before: (*old_mode != "000000").then(|| (*old).to_owned()),
                    exists: *new_mode != "000000",
                    lines: None,
                });
            } else {
                let mut columns = part.splitn(3, |byte| *byte == b'\t');
                let mut number = || String::from_utf8_lossy(columns.next()?).parse::<u64>().ok();
                let (added, removed) = (number(), number());
                if let Some(path) = columns.next() {
                    counts.insert(self.root().join(OsStr::from_bytes(path)), added.zip(removed));
                }
            }
        }
        for change in &mut changes {
            change.lines = counts.get(&change.path).copied().flatten();
        }
        changes
    }

    /// The branch that is checked out.
    pub fn branch(&self) -> Option<String> {
        self.word(&["symbolic-ref", "--short", "-q", "HEAD"])
    }

    /// The branch that this one left, and the commit where it did.
    pub fn base(&self) -> Option<(String, String)> {
        let current = self.branch();
        let named = ["@{upstream}", "origin/HEAD"];
        let named = named
            .iter()
            .filter_map(|name| self.word(&["rev-parse", "--abbrev-ref", "-q", "--verify", name]));
        let usual = ["main", "master"].map(str::to_owned).into_iter();
        let usual = usual.filter(|name| current.as_ref() != Some(name));
        named.chain(usual).find_map(|name| {
            let commit = self.word(&["merge-base", "HEAD", &name])?;
            Some((name, commit))
        })
    }

    /// Contents by git's name for them.
    pub fn content(&self, oid: &str) -> Result<Vec<u8>, GitError> {
        let plain = oid.len() >= 40 && oid.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !plain {
            return Err(GitError(format!("invalid object id: {oid}")));
        }
        self.run(&["cat-file", "blob", oid])
    }

    /// Puts files as they are now into what is committed next, and tells how many: not those that git ignores, that are
    /// elsewhere, or that neither git nor the disk has.
    pub fn stage(&self, paths: &[PathBuf]) -> Result<usize, GitError> {
        let here = paths.iter().filter(|path| path.starts_with(self.root()));
        let asked: Vec<OsString> = here.map(|path| pathspec(self.root(), path)).collect();
        if asked.is_empty() {
            return Ok(0);
        }
        let known = [
            "ls-files",
            "-z",
            "--deduplicate",
            "--cached",
            "--others",
            "--exclude-standard",
            "--",
        ];
        let known = self.run(&with(known, &asked))?;
        let known = known.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let known: Vec<OsString> = known
            .map(|name| pathspec(self.root(), &self.root().join(OsStr::from_bytes(name))))
            .collect();
        if !known.is_empty() {
            self.run(&with(["add", "-A", "--"], &known))?;
        }
        Ok(known.len())
    }

    /// Commits everything below `dir` except what is below `except`. Returns git's output.
    pub fn commit(&self, dir: &Path, except: &Path, message: &str) -> Result<String, GitError> {
        let mut paths = vec![pathspec(self.root(), dir)];
        if except.starts_with(dir) && except != dir {
            paths.push(spec(self.root(), except, "exclude,literal"));
        }
        self.run(&with(["add", "-A", "--"], &paths))?;
        self.run(&with(["commit", "-q", "-m", message, "--"], &paths))?;
        Ok(self.word(&["log", "-1", "--format=%h %s"]).unwrap_or_default())
    }

    /// Makes a file what it was in a commit, or removes one that was not there.
    pub(super) fn discard(&self, change: &GitChange) -> Result<(), GitError> {
        let path = pathspec(self.root(), &change.path);
        match &change.before {
            Some(_) => self.run(&with(["checkout", "-q", "HEAD", "--"], [&path])).map(drop),
            None => {
                self.run(&with(["rm", "-q", "--cached", "--ignore-unmatch", "--"], [&path]))?;
                std::fs::remove_file(&change.path).map_err(|error| GitError(error.to_string()))
            }
        }
    }

    fn word(&self, args: &[&str]) -> Option<String> {
        let output = self.run(args).ok()?;
        let word = String::from_utf8_lossy(&output).trim().to_owned();
        (!word.is_empty()).then_some(word)
    }
}

/// A path as git takes it: exactly this one, no pattern.
fn pathspec(root: &Path, path: &Path) -> OsString {
    spec(root, path, "literal")
}

fn spec(root: &Path, path: &Path, magic: &str) -> OsString {
    let below = path.strip_prefix(root).unwrap_or(path);
    let below = if below.as_os_str().is_empty() {
        Path::new(".")
    } else {
        below
    };
    let mut spec = OsString::from(format!(":({magic})"));
    spec.push(below);
    spec
}

/// Words and then paths.
fn with<'a>(words: impl IntoIterator<Item = &'a str>, paths: impl IntoIterator<Item = &'a OsString>) -> Vec<&'a OsStr> {
    let paths = paths.into_iter().map(OsString::as_os_str);
    words.into_iter().map(OsStr::new).chain(paths).collect()
}
