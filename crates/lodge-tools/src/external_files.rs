//! Text files that another program's agent reads and writes, limited to the session's directories.

use std::{
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use lodge_events::PermissionRequest;

use crate::{
    ToolCx, ToolError,
    cx::file_error,
    diff,
    paths::{self, Located},
    request,
    rules::Decision,
};

const LARGEST: u64 = 16 << 20;
/// Longer names are none of any file.
const LONGEST_NAME: usize = 4096;

/// The change of a file, for people. From the given time on, any difference will do.
pub fn difference(path: &str, old: Option<&str>, new: &str, until: Instant) -> String {
    diff::unified_until(until, Path::new(path), old, new).0
}

impl ToolCx {
    /// The place that a name means which a program opens by itself: the one that this host's own tools would open. An error for
    /// names that a program may take for another place: somebody's home, variables, addresses, `..` below a link.
    pub fn named(&self, name: &str) -> Result<Located, ToolError> {
        if name.len() > LONGEST_NAME {
            return Err(too_long(name));
        }
        let first = name.split('/').next().unwrap_or_default();
        let is_expanded = (first.starts_with('~') && first != "~") || first.contains(['$', '%', ':']);
        let is_odd = name.contains(|c: char| c.is_control() || c == '\\') || name.trim() != name;
        let unclear = || ToolError(format!("It is not clear which file {name} is."));
        if is_expanded || is_odd {
            return Err(unclear());
        }
        let place = self.locate(name)?;
        // Some programs take `..` away before they follow links, the system does so after it.
        let goes_up = name.split('/').any(|part| part == "..");
        if goes_up && paths::real(&paths::in_directory(&self.cwd, name)).ok().as_ref() != Some(&place.path) {
            return Err(unclear());
        }
        Ok(place)
    }

    /// Where a directory of the session's is, without links.
    pub fn directory(&self, path: &str) -> Result<PathBuf, ToolError> {
        self.named(path)?;
        Ok(self.inside(path)?.path)
    }

    fn inside(&self, path: &str) -> Result<Located, ToolError> {
        if path.len() > LONGEST_NAME {
            return Err(too_long(path));
        }
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
        let old = match self.current(path, &place) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => Some(String::new()),
        };
        let (diff, _) = diff::unified(&place.path, old.as_deref(), text);
        let request = request::write(self, path, &place, format!("Write {path}"), diff, text.to_owned());
        Ok((place, request))
    }

    /// What must be allowed for writing a file if nobody knows what is written.
    pub fn writing_unknown(&self, path: &str) -> Result<PermissionRequest, ToolError> {
        let place = self.inside(path)?;
        let intention = format!("Write {}. The agent does not say what.", place.path.display());
        Ok(request::write(self, path, &place, intention, String::new(), String::new()).without_text())
    }

    /// What is in a file, unless rules hide it: then it is not even read.
    fn current(&self, path: &str, place: &Located) -> io::Result<Vec<u8>> {
        let read = request::read(self, path, place, String::new());
        match (self.rules)(&read) {
            Decision::Deny { .. } => Err(io::ErrorKind::PermissionDenied.into()),
            _ => place.read(LARGEST),
        }
    }

    /// The text of a file after changes, each of the whole text or of a part that is there once. `None` if a change does not fit
    /// the file.
    pub fn changed(&self, path: &str, changes: &[(Option<&str>, &str)]) -> Option<String> {
        let place = self.inside(path).ok()?;
        let now = match (self.current(path, &place), changes) {
            (Ok(bytes), _) => String::from_utf8(bytes).ok()?,
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => String::new(),
            (Err(_), [(None, _), ..]) => String::new(),
            (Err(_), _) => return None,
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

fn too_long(name: &str) -> ToolError {
    let begins = &name[..name.floor_char_boundary(64)];
    ToolError(format!(
        "The name {begins}… has more than {LONGEST_NAME} bytes. Give the name of a file."
    ))
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
