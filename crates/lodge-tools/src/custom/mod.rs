//! Skills (folders with a `SKILL.md`) and custom agents (`*.md` files with a prompt).
//!
//! Both begin with front matter between two lines of dashes. An invalid file is skipped with a warning; it is never a
//! reason to fail.

use std::{io::ErrorKind, path::Path};

mod agents;
mod extensions;
mod front_matter;
mod places;
mod plugins;
mod skills;

pub use agents::{AgentDefinition, AgentSource, find_agents, tool_alias};
pub use extensions::{Extension, ExtensionSource, extension_arguments, find_extensions, holds_extension_sdk};
pub use places::{Kind, Place, Places, Tier};
pub use plugins::{Plugin, ROOT_VARIABLES};
pub use skills::{Skill, find_skills};

/// What was found, and what was wrong with the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Found<T> {
    /// In order of precedence; every name once.
    pub all: Vec<T>,
    /// What was found but is odd.
    pub warnings: Vec<String>,
    /// What was left out.
    pub errors: Vec<String>,
    /// What is not used because something else has its name.
    pub hidden: Vec<String>,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
            hidden: Vec::new(),
        }
    }
}

/// Says that something is not used because of its name.
fn hidden_by(path: &Path, name: &str) -> String {
    format!("{} is not used: another {name} takes precedence", path.display())
}

/// The longest file that is read.
const LONGEST_FILE: u64 = 1024 * 1024;
/// The most files of a kind that a session gets: their descriptions go into every model call.
const MOST: usize = 256;

/// Reads a file that a person, a client or a plugin put where it is: text, and not endless.
fn read(path: &Path) -> Result<String, String> {
    read_of(None, path)
}

/// Reads a file of a folder that may be anybody's, or of nobody's: text, and not endless.
fn read_of(folder: Option<&Path>, path: &Path) -> Result<String, String> {
    let read = match folder.and_then(|folder| Some((folder, path.strip_prefix(folder).ok()?))) {
        Some((folder, name)) => lodge_files::read_in_folder(folder, name, LONGEST_FILE),
        None => lodge_files::read_regular(path, LONGEST_FILE),
    };
    let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other));
    text.map_err(|error| format!("{}: {error}", path.display()))
}

/// Entries of a directory by name; a directory that is not there has none.
fn entries(dir: &Path, errors: &mut Vec<String>) -> Vec<std::path::PathBuf> {
    let read = std::fs::read_dir(dir).inspect_err(|error| {
        let there = !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        errors.extend(there.then(|| format!("{}: {error}", dir.display())));
    });
    let mut entries: Vec<_> = read
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .take(MOST * 4)
        .collect();
    entries.sort();
    entries
}

/// Whether a name can be typed and shown: letters, digits, `.`, `_`, `-`, at most 64 of them.
fn is_name(name: &str) -> bool {
    let inner = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-' | ' ' | ':');
    !name.is_empty() && name.chars().count() <= 64 && name.starts_with(char::is_alphanumeric) && name.chars().all(inner)
}
