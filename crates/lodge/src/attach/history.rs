//! The history of typed lines, stored across conversations.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

use lodge_files::replace;

/// Number of lines kept.
const KEPT: usize = 1000;

/// The file, with one JSON string per line.
pub(super) struct History(PathBuf);

impl History {
    /// Opens it, and returns its lines.
    pub(super) fn open(home: &Path) -> (Self, Vec<String>) {
        let path = home.join("typed.jsonl");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<String> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let surplus = lines.len().saturating_sub(KEPT);
        if surplus > KEPT {
            let rest: String = lines[surplus..].iter().map(|line| line_of(line)).collect();
            // If it fails, the file is only longer than necessary.
            let _ = replace(&path, rest.as_bytes());
        }
        (Self(path), lines[surplus..].to_vec())
    }

    pub(super) fn add(&self, text: &str) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.0)?.write_all(line_of(text).as_bytes())
    }
}

fn line_of(text: &str) -> String {
    // Text can always be written as JSON.
    serde_json::to_string(text).unwrap_or_default() + "\n"
}
