//! The project's instruction files, such as AGENTS.md.

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use crate::{session::Shared, settings::Settings};

/// Longer instructions than this are cut: they are sent with every call.
const LONGEST: usize = 64 * 1024;

/// Files that hold instructions for the directory they are in.
const FILES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md"];

/// A file with more than this is not read, in bytes.
const LONGEST_FILE: u64 = 1 << 20;
/// When so much was found, in bytes, no more is read.
const ENOUGH: usize = 4 << 20;
/// The most files of a directory that are read.
const MOST: usize = 256;

/// Where a directory may hold more of them, one per file.
const DIRECTORY: &str = ".github/instructions";

/// A file with instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The file.
    pub path: PathBuf,
    /// Its name for people: below the directory that it was found from.
    pub name: String,
    /// Whether it is in the repository's root, or a directory that was named.
    pub at_root: bool,
    /// What it says.
    pub content: String,
}

/// Instructions from the repository's root down to the working directory, those in `.github/instructions` of the root,
/// and those of further directories. What two files say is told once. Only regular files beneath those directories count: they may be
/// anybody's, and what they say is sent to the model.
pub fn instructions(cwd: &Path, git_root: Option<&str>, further: &[PathBuf]) -> Vec<Instruction> {
    collect(cwd, git_root, further).all
}

/// What was found, and what could not be read, with why.
#[derive(Default)]
struct Found {
    all: Vec<Instruction>,
    left_out: Vec<(PathBuf, io::Error)>,
}

fn collect(cwd: &Path, git_root: Option<&str>, further: &[PathBuf]) -> Found {
    let root = git_root.map_or(cwd, Path::new);
    let mut directories: Vec<&Path> = cwd.ancestors().take_while(|dir| dir.starts_with(root)).collect();
    directories.reverse();
    let mut found = Found::default();
    for directory in directories {
        let files = FILES.map(|name| directory.join(name));
        add(&mut found, root, directory == root, files);
    }
    add(&mut found, root, true, in_directory(root));
    for directory in further {
        let files = FILES.map(|name| directory.join(name)).into_iter();
        add(&mut found, directory, true, files.chain(in_directory(directory)));
    }
    found
}

impl Shared {
    /// What is read into the system prompt: no file that rules hide, or deny to be read. Reads files.
    pub(crate) fn instructions(&self, git_root: Option<&str>) -> Vec<Instruction> {
        let mut found = self.settings().instructions(git_root);
        found.retain(|found| !self.hides(&found.path));
        found
    }

    /// What of it cannot be read, and why. Reads files.
    pub(crate) fn unreadable_instructions(&self, git_root: Option<&str>) -> Vec<String> {
        let mut found = self.settings().collect(git_root).left_out;
        found.retain(|(path, _)| !self.hides(path));
        let shown = found.iter().map(|(path, error)| format!("{}: {error}", path.display()));
        shown.collect()
    }
}

impl Settings {
    /// Everything that could be read into the system prompt, also what is off. Reads files.
    pub(crate) fn found_instructions(&self, git_root: Option<&str>) -> Vec<Instruction> {
        self.collect(git_root).all
    }

    fn collect(&self, git_root: Option<&str>) -> Found {
        let mut found = match self.project_instructions {
            true => collect(&self.cwd, git_root, &self.instruction_directories),
            false => Found::default(),
        };
        for plugin in self.customization.all_plugins() {
            for place in &plugin.rules {
                let one = Some(place.clone()).filter(|path| path.is_file());
                let files = one.into_iter().chain(files_of(place, &[".md", ".mdc"]));
                add(&mut found, &plugin.root, true, files);
            }
        }
        found
    }

    /// What is switched on of it. Reads files.
    fn instructions(&self, git_root: Option<&str>) -> Vec<Instruction> {
        let mut found = self.found_instructions(git_root);
        found.retain(|found| !self.customization.disabled_instructions.contains(&found.path));
        found
    }
}

/// Places where instructions of a project can be put: path, and whether it is a directory of files.
pub fn instruction_places(project: &Path) -> Vec<(PathBuf, bool)> {
    let files = FILES.map(|name| (project.join(name), false));
    files.into_iter().chain([(project.join(DIRECTORY), true)]).collect()
}

fn in_directory(root: &Path) -> Vec<PathBuf> {
    files_of(&root.join(DIRECTORY), &[".instructions.md"])
}

fn files_of(directory: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let fits = |path: &PathBuf| endings.iter().any(|ending| path.to_string_lossy().ends_with(ending));
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(fits)
        .take(MOST)
        .collect();
    files.sort();
    files
}

fn add(found: &mut Found, root: &Path, at_root: bool, files: impl IntoIterator<Item = PathBuf>) {
    for path in files {
        let known = &found.all;
        let Ok(name) = path.strip_prefix(root) else { continue };
        if known.iter().map(|known| known.content.len()).sum::<usize>() >= ENOUGH {
            return;
        }
        let text = match lodge_files::text_in_folder(root, name, LONGEST_FILE) {
            Ok(text) => text,
            Err(error) => {
                let is_absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
                found.left_out.extend((!is_absent).then_some((path, error)));
                continue;
            }
        };
        let content = text.trim();
        if content.is_empty() || known.iter().any(|known| known.content.contains(content)) {
            continue;
        }
        found.all.push(Instruction {
            name: name.display().to_string(),
            content: content.to_owned(),
            at_root,
            path,
        });
    }
}

/// The instructions as the system prompt has them.
pub(crate) fn text(instructions: &[Instruction]) -> String {
    let mut out = String::new();
    for Instruction { name, content, .. } in instructions {
        let _ = write!(out, "Instructions from {name}:\n{content}\n\n");
        if out.len() > LONGEST {
            let mut end = LONGEST;
            while !out.is_char_boundary(end) {
                end -= 1;
            }
            out.truncate(end);
            out.push_str("\n(cut)");
            break;
        }
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_regular_files_of_their_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cloned");
        std::fs::create_dir_all(root.join(".github/instructions")).unwrap();
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(dir.path().join("secret"), "outside").unwrap();
        for (target, name) in [
            ("/proc/self/environ", "AGENTS.md"),
            ("../secret", "CLAUDE.md"),
            ("/dev/zero", ".github/copilot-instructions.md"),
            ("../../../secret", ".github/instructions/a.instructions.md"),
            ("../shared.md", "sub/AGENTS.md"),
        ] {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        }
        std::fs::write(root.join("shared.md"), "shared rules").unwrap();
        let long = "x".repeat(LONGEST_FILE as usize + 1);
        std::fs::write(root.join("sub/CLAUDE.md"), long).unwrap();
        let found = collect(&root.join("sub"), root.to_str(), &[]);
        let left_out = found.left_out.iter();
        let left_out: Vec<String> = left_out
            .map(|(path, error)| format!("{}: {error}", path.strip_prefix(&root).unwrap().display()))
            .collect();
        let link = "it is a link that is absolute or leads out of the folder";
        assert_eq!(
            left_out,
            [
                format!("AGENTS.md: {link}"),
                format!("CLAUDE.md: {link}"),
                format!(".github/copilot-instructions.md: {link}"),
                "sub/CLAUDE.md: it is too large".to_owned(),
                format!(".github/instructions/a.instructions.md: {link}"),
            ]
        );
        let found: Vec<&str> = found.all.iter().map(|found| found.content.as_str()).collect();
        assert_eq!(found, ["shared rules"]);
    }

    #[test]
    fn instructions_are_read_from_the_root_down_and_never_twice() {
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("a/b");
        let more = dir.path().join("more");
        std::fs::create_dir_all(&sub).unwrap();
        std::fs::create_dir_all(dir.path().join(".github/instructions")).unwrap();
        std::fs::create_dir_all(more.join(".github/instructions")).unwrap();
        std::fs::write(dir.path().join("AGENTS.md"), "root rules").unwrap();
        std::fs::write(dir.path().join("CLAUDE.md"), "root rules\n").unwrap();
        std::fs::write(dir.path().join(".github/instructions/x.instructions.md"), "x rules").unwrap();
        std::fs::write(sub.join("AGENTS.md"), "b rules").unwrap();
        std::fs::write(more.join(".github/instructions/y.instructions.md"), "y rules").unwrap();
        let found = instructions(&sub, dir.path().to_str(), &[more]);
        assert_eq!(
            text(&found),
            "Instructions from AGENTS.md:\nroot rules\n\nInstructions from a/b/AGENTS.md:\nb rules\n\n\
             Instructions from .github/instructions/x.instructions.md:\nx rules\n\n\
             Instructions from .github/instructions/y.instructions.md:\ny rules"
        );
        assert_eq!(
            found.iter().map(|found| found.at_root).collect::<Vec<_>>(),
            [true, false, true, true]
        );
    }
}
