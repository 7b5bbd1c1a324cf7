//! Text files that another program's agent reads and writes, limited to the session's directories.

use std::{
    io,
    path::{Path, PathBuf},
};

use lodge_events::PermissionRequest;

use crate::{ToolCx, ToolError, cx::file_error, diff, paths::Located, request};

const LARGEST: u64 = 16 << 20;

/// The change of a file, for people.
pub fn difference(path: &str, old: Option<&str>, new: &str) -> String {
    diff::unified(Path::new(path), old, new).0
}

impl ToolCx {
    /// Where a directory of the session's is, without links.
    pub fn directory(&self, path: &str) -> Result<PathBuf, ToolError> {
        Ok(self.inside(path)?.path)
    }

    fn inside(&self, path: &str) -> Result<Located, ToolError> {
        let place = self.locate(path)?;
        match place.root.is_some() {
            true => Ok(place),
            false => Err(ToolError(format!("{path} is not in the session's directories."))),
        }
    }

    /// Where a file is that a program wants to read, and what must be allowed for that.
    pub fn reading(&self, path: &str) -> Result<(Located, PermissionRequest), ToolError> {
        let place = self.inside(path)?;
        let request = request::read(self, path, &place, format!("Read {path}"));
        Ok((place, request))
    }

    /// Where a file is that a program wants to write, and what must be allowed for that. Looks at the file.
    pub fn writing(&self, path: &str, text: &str) -> Result<(Located, PermissionRequest), ToolError> {
        let place = self.inside(path)?;
        // A file that cannot be shown is there all the same.
        let old = match place.read(LARGEST) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => Some(String::new()),
        };
        let (diff, _) = diff::unified(&place.path, old.as_deref(), text);
        let request = request::write(self, path, &place, format!("Write {path}"), diff, text.to_owned());
        Ok((place, request))
    }

    /// The text of a file after changes, each of the whole text or of a part that is there once. `None` if a change does not fit
    /// the file.
    pub fn changed(&self, path: &str, changes: &[(Option<&str>, &str)]) -> Option<String> {
        let now = match self.inside(path).ok()?.read(LARGEST) {
            Ok(bytes) => String::from_utf8(bytes).ok()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(_) => return None,
        };
        apply(now, changes)
    }

    /// Reads a text file, as the editor shows it where it was asked. Blocks.
    pub fn read_text(&self, path: &str, place: &Located) -> Result<String, ToolError> {
        let bytes = self
            .read_file(place, LARGEST)
            .map_err(|error| file_error(path, &error))?;
        String::from_utf8(bytes).map_err(|_| ToolError(format!("{path} is not UTF-8 text.")))
    }

    /// Gives a file a text, and makes it where there is none. Blocks.
    pub fn write_text(&self, path: &str, place: &Located, text: &str) -> Result<(), ToolError> {
        let exists = place.open().is_ok();
        let written = match exists {
            true => self.replace_file(place, text),
            false => self.create_file(place, text),
        };
        written.map_err(|error| file_error(path, &error))
    }
}

fn apply(mut text: String, changes: &[(Option<&str>, &str)]) -> Option<String> {
    for (old, new) in changes {
        text = match old {
            None => (*new).to_owned(),
            Some(old) if text == *old => (*new).to_owned(),
            Some(old) if !old.is_empty() && text.matches(old).count() == 1 => text.replacen(old, new, 1),
            Some(_) => return None,
        };
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_of_the_whole_text_or_of_a_part_that_is_there_once() {
        for (text, changes, expected) in [
            ("", vec![(None, "new")], Some("new")),
            ("", vec![(Some(""), "new")], Some("new")),
            ("one two", vec![(Some("one two"), "three")], Some("three")),
            ("one two", vec![(Some("two"), "2"), (Some("one"), "1")], Some("1 2")),
            ("one one", vec![(Some("one"), "1")], None),
            ("one", vec![(Some("two"), "2")], None),
            ("one", vec![(Some(""), "2")], None),
        ] {
            assert_eq!(apply(text.to_owned(), &changes).as_deref(), expected, "{changes:?}");
        }
    }
}
