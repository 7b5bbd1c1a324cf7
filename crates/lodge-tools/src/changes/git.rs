//! Reads from git without side effects: no lock, index or reference of the person's is touched.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{ChildStdout, Command, Stdio},
    sync::OnceLock,
};

use super::index::Tracked;
use crate::{git_env, git_files::GitFiles};

/// A git repository.
pub struct Git {
    root: PathBuf,
    /// Variables by which git starts none of the programs that the repository names; none where it is to start them.
    restricted: Option<OnceLock<git_env::Overrides>>,
}

/// Why git did not do it, in its own words.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct GitError(pub String);

impl Git {
    /// Whether there is a git to ask.
    pub(super) fn is_there() -> bool {
        git_env::check().is_ok()
    }

    /// The repository whose worktree is `root`.
    pub(super) fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            restricted: Some(OnceLock::new()),
        }
    }

    /// The repository that a directory is in.
    pub fn around(dir: &Path) -> Option<Self> {
        let root = GitFiles::root_around(dir)?;
        Self::is_there().then(|| Self::at(root))
    }

    /// The top of the worktree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The repository, for something that a person asked for where everything in it is trusted: its hooks, filters and
    /// programs run.
    #[must_use]
    pub fn with_programs(self) -> Self {
        Self {
            root: self.root,
            restricted: None,
        }
    }

    fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Command, GitError> {
        let mut command = match &self.restricted {
            Some(overrides) => {
                let overrides = overrides.get_or_init(|| git_env::repository_overrides(&self.root));
                git_env::with_overrides(&self.root, overrides.clone().map_err(GitError)?)
            }
            None => git_env::unrestricted(&self.root),
        };
        command
            .args(["--no-optional-locks", "-c", "core.quotePath=false"])
            .args(args);
        Ok(command)
    }

    /// Runs git and gives what it printed.
    pub(super) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Vec<u8>, GitError> {
        let output = self
            .command(args)?
            .output()
            .map_err(|error| GitError(error.to_string()))?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(GitError(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        }
    }

    /// Gives the contents of files as they stood in the worktree. A file is a path, its contents' name and its length there;
    /// what git cannot give exactly is left out.
    pub(super) fn contents(&self, files: &[(&Path, &str, u64)], mut give: impl FnMut(&Path, Vec<u8>)) {
        let oids: Vec<&str> = files.iter().map(|(_, oid, _)| *oid).collect();
        let Some(contents) = self.ask("--batch", &oids, next_object) else {
            return;
        };
        for ((path, _, size), content) in files.iter().zip(contents) {
            if let Some(content) = content.filter(|content| content.len() as u64 == *size) {
                give(path, content);
            }
        }
    }

    /// The files whose contents in git are not those in the worktree, byte for byte, though git calls them unchanged: line
    /// ends, filters, encodings.
    pub(super) fn converted(&self, files: &HashMap<PathBuf, Tracked>) -> HashSet<PathBuf> {
        let configured = self
            .run(&["config", "--get-regexp", r"^core\.(autocrlf|attributesfile)$"])
            .is_ok();
        let attributes = files.keys().any(|path| path.ends_with(".gitattributes"));
        let info = self
            .run(&["rev-parse", "--git-path", "info/attributes"])
            .unwrap_or_default();
        let info = self.root.join(String::from_utf8_lossy(&info).trim());
        if !configured && !attributes && !info.exists() && !self.root.join(".gitattributes").exists() {
            return HashSet::new();
        }
        // What a filter makes of a file may be as long as the file.
        let filtered = [":(attr:filter)", ":(attr:ident)", ":(attr:working-tree-encoding)"];
        let filtered = self.run(&[&["ls-files", "-z", "--"], &filtered[..]].concat());
        let filtered = filtered.unwrap_or_default();
        let filtered = filtered.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut converted: HashSet<PathBuf> = filtered.map(|name| self.root.join(OsStr::from_bytes(name))).collect();
        // Line ends only make a file longer.
        let asked: Vec<(&PathBuf, &Tracked)> = files.iter().collect();
        let oids: Vec<&str> = asked.iter().map(|(_, seen)| seen.oid.as_str()).collect();
        let sizes = self.ask("--batch-check", &oids, |output| {
            let mut line = String::new();
            output.read_line(&mut line).ok().filter(|read| *read > 0)?;
            Some(line.split_whitespace().nth(2).and_then(|size| size.parse::<u32>().ok()))
        });
        match sizes {
            Some(sizes) => {
                let differing = asked
                    .iter()
                    .zip(sizes)
                    .filter(|((_, seen), size)| *size != Some(seen.size));
                converted.extend(differing.map(|((path, _), _)| (*path).clone()));
                converted
            }
            None => files.keys().cloned().collect(),
        }
    }

    /// Asks `cat-file` about names, and reads an answer for each.
    fn ask<T>(
        &self,
        how: &str,
        oids: &[&str],
        mut read: impl FnMut(&mut BufReader<ChildStdout>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut child = self
            .command(&["cat-file", how])
            .ok()?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut input = child.stdin.take()?;
        let names: String = oids.iter().map(|oid| format!("{oid}\n")).collect();
        let writer = std::thread::spawn(move || input.write_all(names.as_bytes()));
        let mut output = BufReader::new(child.stdout.take()?);
        let answers = oids.iter().map(|_| read(&mut output)).collect();
        drop(output);
        let _ = writer.join();
        let _ = child.wait();
        answers
    }
}

/// Reads one answer of `cat-file --batch`: `<name> blob <length>`, the contents, a line feed.
fn next_object(output: &mut BufReader<ChildStdout>) -> Option<Option<Vec<u8>>> {
    let mut head = String::new();
    output.read_line(&mut head).ok().filter(|read| *read > 0)?;
    let mut words = head.split_whitespace().skip(1);
    let (kind, length) = (words.next()?, words.next());
    let Some(length) = length.and_then(|length| length.parse::<u64>().ok()) else {
        return Some(None);
    };
    let mut content = Vec::new();
    output.by_ref().take(length).read_to_end(&mut content).ok()?;
    let mut end = [0];
    output.read_exact(&mut end).ok()?;
    Some((kind == "blob").then_some(content))
}
