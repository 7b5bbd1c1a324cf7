//! What a tool call does to a file, as a coloured difference.

use ratatui_core::text::Line;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::{
    highlight,
    plain::plain,
    theme::Theme,
    wrap::{self, Margin},
};

/// A change of a file, as far as the call itself tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) path: String,
    old: String,
    new: String,
}

impl Edit {
    /// Reads the input of a call; nothing when it changes no file that it names.
    pub(crate) fn read(input: &str) -> Option<Self> {
        let input: Value = serde_json::from_str(input).ok()?;
        let text = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| input.get(name)?.as_str().map(str::to_owned))
        };
        let path = text(&["path", "file_path"])?;
        if let Some(diff) = text(&["diff"]) {
            let (old, new) = sides(&diff);
            return Some(Self { path, old, new });
        }
        let (old, new) = match text(&["new_str", "new_string"]) {
            Some(new) => (text(&["old_str", "old_string"]).unwrap_or_default(), new),
            None => (String::new(), text(&["file_text", "content"])?),
        };
        Some(Self { path, old, new })
    }

    /// Lines added and removed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let diff = TextDiff::from_lines(&self.old, &self.new);
        diff.iter_all_changes()
            .fold((0, 0), |(added, removed), change| match change.tag() {
                ChangeTag::Insert => (added + 1, removed),
                ChangeTag::Delete => (added, removed + 1),
                ChangeTag::Equal => (added, removed),
            })
    }

    /// The difference as rows, and how many lines of it were left out.
    pub(crate) fn rows(&self, width: usize, most: usize, theme: &Theme) -> Vec<Line<'static>> {
        let (old, new) = (plain(&self.old), plain(&self.new));
        let diff = TextDiff::from_lines(&old, &new);
        let margin = Margin::spaces(4);
        let mut lines = Vec::new();
        for (number, group) in diff.grouped_ops(3).iter().enumerate() {
            if number > 0 {
                lines.push((" ⋮".to_owned(), theme.dim));
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let sign = match change.tag() {
                    ChangeTag::Insert => '+',
                    ChangeTag::Delete => '-',
                    ChangeTag::Equal => ' ',
                };
                let text = format!("{sign} {}", change.value().trim_end_matches('\n'));
                let style = match change.tag() {
                    ChangeTag::Equal => theme.dim,
                    _ => highlight::diff_style(&text, theme),
                };
                lines.push((text, style));
            }
        }
        let left_out = lines.len().saturating_sub(most);
        lines.truncate(most);
        let mut rows: Vec<Line> = lines
            .into_iter()
            .flat_map(|line| wrap::hard(&vec![line], width, &margin))
            .collect();
        if left_out > 0 {
            rows.push(Line::styled(format!("    … {left_out} more lines"), theme.dim));
        }
        rows
    }
}

/// What a unified difference takes away and what it puts there, with the lines around.
fn sides(diff: &str) -> (String, String) {
    let lines = diff.lines().skip_while(|line| !line.starts_with("@@"));
    let (mut old, mut new) = (String::new(), String::new());
    for line in lines {
        let add = |side: &mut String| {
            side.push_str(&line[1..]);
            side.push('\n');
        };
        match line.as_bytes().first() {
            Some(b'-') => add(&mut old),
            Some(b'+') => add(&mut new),
            Some(b' ') => {
                add(&mut old);
                add(&mut new);
            }
            _ => {}
        }
    }
    (old, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Scheme;

    #[test]
    fn an_edit_is_shown_as_what_goes_and_what_comes() {
        let edit = Edit::read(r#"{"path":"a.rs","old_str":"one\ntwo\nthree\n","new_str":"one\n2\nthree\n"}"#).unwrap();
        assert_eq!(edit.counts(), (1, 1));
        let theme = Theme::new(Scheme::Dark);
        let rows: Vec<String> = edit.rows(40, 10, &theme).iter().map(ToString::to_string).collect();
        assert_eq!(rows, ["      one", "    - two", "    + 2", "      three"]);
        let made = Edit::read(r#"{"path":"b","file_text":"x\ny\n"}"#).unwrap();
        assert_eq!(made.rows(40, 1, &theme).len(), 2);
        let diff = "--- a/b\n+++ b/b\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file\n";
        let asked = Edit::read(&serde_json::json!({ "path": "b", "diff": diff }).to_string()).unwrap();
        let rows: Vec<String> = asked.rows(40, 10, &theme).iter().map(ToString::to_string).collect();
        assert_eq!(rows, ["      one", "    - two", "    + 2"]);
        assert_eq!(Edit::read("ls -l"), None);
        assert_eq!(Edit::read(r#"{"path":"b"}"#), None);
    }
}
