//! Context that the host adds to a person's message: the time and attachments.

use std::{
    fmt::Write as _,
    io::Read,
    path::{Path, PathBuf},
};

use lodge_events::{Attachment, SelectionAttachment};

/// The message as the model reads it. Everything added stands inside tags, so that it cannot be taken for the person's
/// words. Order, words and blank lines are those of the Copilot CLI, so that conversations recorded with it can be
/// replayed.
pub(crate) fn transform(
    text: &str,
    attachments: &[Attachment],
    cwd: &Path,
    notice: Option<&str>,
    added: Option<&str>,
) -> String {
    let mut selections = String::new();
    let mut files = String::new();
    let mut references = String::new();
    for attachment in attachments {
        match attachment {
            Attachment::File(file) => {
                let lines = count_lines(&resolve(cwd, &file.path));
                let _ = match &file.line_range {
                    Some(range) if range.start == range.end => {
                        writeln!(files, "* {} (line {} of {lines} lines)", file.path, range.start)
                    }
                    Some(range) => writeln!(
                        files,
                        "* {} (lines {}-{} of {lines} lines)",
                        file.path, range.start, range.end
                    ),
                    None => writeln!(files, "* {} ({lines} lines)", file.path),
                };
            }
            Attachment::Directory(directory) => {
                let items = std::fs::read_dir(resolve(cwd, &directory.path)).map_or(0, Iterator::count);
                let _ = writeln!(files, "* {} ({items} items)", directory.path);
            }
            Attachment::Selection(selection) => {
                selections.push_str(&selected(selection));
            }
            Attachment::GithubReference(reference) => {
                let _ = writeln!(
                    references,
                    "#{} - {} [{}] [{}] ({})",
                    reference.number, reference.title, reference.reference_type, reference.state, reference.url
                );
            }
            Attachment::Blob(_) | Attachment::Other(_) => {}
        }
    }
    let now = lodge_events::timestamp_text(jiff::Timestamp::now());
    let mut out = format!("{selections}<current_datetime>{now}</current_datetime>\n\n");
    if let Some(notice) = notice {
        let _ = write!(out, "{notice}\n\n");
    }
    out.push_str(text);
    for (tag, content) in [("tagged_files", &files), ("github_references", &references)] {
        if !content.is_empty() {
            let _ = write!(out, "\n\n\n\n<{tag}>\n{content}</{tag}>");
        }
    }
    if let Some(added) = added.filter(|added| !added.is_empty()) {
        let _ = write!(out, "\n\n<additional_context>\n{added}\n</additional_context>");
    }
    out
}

/// The first and the last line of a selection, from 1.
pub(crate) fn lines_of(selection: &SelectionAttachment) -> (u64, u64) {
    let range = &selection.selection;
    (range.start.line + 1, range.end.line + 1)
}

/// A selection with its text.
pub(crate) fn selected(selection: &SelectionAttachment) -> String {
    let (first, last) = lines_of(selection);
    let lines = match first == last {
        true => format!("line {first}"),
        false => format!("lines {first}-{last}"),
    };
    let name = match selection.display_name.as_str() {
        "" => &selection.file_path,
        name => name,
    };
    format!(
        "<ide_selection>\nThe user has the following text selected in their IDE. This may or may not be related to their \
         request.\nFile: {name} ({lines})\n```\n{}\n```\n</ide_selection>\n\n",
        selection.text
    )
}

fn resolve(cwd: &Path, path: &str) -> PathBuf {
    cwd.join(path)
}

/// Counts without holding the file.
fn count_lines(path: &Path) -> usize {
    let Ok(mut file) = std::fs::File::open(path) else {
        return 0;
    };
    let mut buffer = [0; 64 * 1024];
    let (mut lines, mut last) = (0, b'\n');
    while let Ok(read @ 1..) = file.read(&mut buffer) {
        lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
        last = buffer[read - 1];
    }
    lines + usize::from(last != b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_with_and_without_a_final_newline() {
        let dir = tempfile::tempdir().unwrap();
        for (text, expected) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            let path = dir.path().join("f");
            std::fs::write(&path, text).unwrap();
            assert_eq!(count_lines(&path), expected, "{text:?}");
        }
    }
}
