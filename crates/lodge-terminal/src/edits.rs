//! Shows what a tool call changes in a file, as a coloured diff.

use ratatui_core::{style::Style, text::Line};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::{
    highlight::{self, Colouring, Open},
    plain::plain,
    theme::Theme,
    wrap::{self, Margin, Pieces},
};

/// The unchanged lines shown around a change.
const AROUND: usize = 3;

/// A line of a diff.
#[derive(Debug, PartialEq, Eq)]
enum Row {
    /// A line, with its number in the new file; one that goes, in the old.
    Line(ChangeTag, usize, String),
    /// Lines that are the same are left out here.
    Gap,
}

/// A change to a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) path: String,
    rows: Vec<Row>,
    /// Whether both sides are whole files, so that the numbers of lines mean something.
    whole: bool,
    added: usize,
    removed: usize,
}

impl Edit {
    /// Reads the change from a call's input. None if the call does not change a file that it names.
    pub(crate) fn read(input: &str) -> Option<Self> {
        let input: Value = serde_json::from_str(input).ok()?;
        let text = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| input.get(name)?.as_str().map(str::to_owned))
        };
        let path = text(&["path", "file_path"])?;
        let (old, new) = match (text(&["diff"]), text(&["new_str", "new_string"])) {
            (Some(diff), _) => sides(&diff),
            (None, Some(new)) => (text(&["old_str", "old_string"]).unwrap_or_default(), new),
            (None, None) => (String::new(), text(&["file_text", "content"])?),
        };
        Some(Self {
            whole: false,
            ..Self::between(path, &old, &new)
        })
    }

    /// What became of a whole file.
    pub(crate) fn between(path: String, old: &str, new: &str) -> Self {
        let (old, new) = (plain(old), plain(new));
        let diff = TextDiff::from_lines(&old, &new);
        let (mut rows, mut added, mut removed) = (Vec::new(), 0, 0);
        for (number, group) in diff.grouped_ops(AROUND).iter().enumerate() {
            if number > 0 {
                rows.push(Row::Gap);
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                match change.tag() {
                    ChangeTag::Insert => added += 1,
                    ChangeTag::Delete => removed += 1,
                    ChangeTag::Equal => {}
                }
                let index = change.new_index().or(change.old_index()).unwrap_or(0);
                rows.push(Row::Line(
                    change.tag(),
                    index + 1,
                    change.value().trim_end_matches('\n').to_owned(),
                ));
            }
        }
        Self {
            path,
            rows,
            whole: true,
            added,
            removed,
        }
    }

    /// The numbers of added and removed lines.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.added, self.removed)
    }

    /// The diff as text, beginning with the file's name.
    pub(crate) fn text(&self) -> String {
        let row = |row: &Row| match row {
            Row::Gap => "\n ⋮".to_owned(),
            Row::Line(tag, _, text) => format!("\n{} {text}", sign(*tag)),
        };
        let rows: String = self.rows.iter().map(row).collect();
        format!("{}  +{} −{}{rows}", self.path, self.added, self.removed)
    }

    /// The diff as rows. If it is longer than `most`, the last row says how many lines were left out.
    pub(crate) fn rows(&self, width: usize, most: usize, theme: &Theme) -> Vec<Line<'static>> {
        let margin = Margin::spaces(4);
        let (_, ending) = self.path.rsplit_once('.').unwrap_or_default();
        let mut code = Code::new(highlight::colouring(ending), theme);
        let mut rows = Vec::new();
        for row in self.rows.iter().take(most) {
            let line = match row {
                Row::Gap => code.gap(),
                Row::Line(tag, number, text) => {
                    let number = self.whole.then_some(*number);
                    code.line(*tag, number, text)
                }
            };
            rows.extend(wrap::hard(&line, width, &margin));
        }
        let left_out = self.rows.len().saturating_sub(most);
        if left_out > 0 {
            rows.push(Line::styled(format!("    … {left_out} more lines"), theme.dim));
        }
        rows
    }
}

/// Colours the lines of a diff. What is open at the end of a line, such as a comment, goes on in the next one of the same side.
struct Code<'a> {
    colouring: Colouring,
    theme: &'a Theme,
    old: Open,
    new: Open,
}

impl<'a> Code<'a> {
    fn new(colouring: Colouring, theme: &'a Theme) -> Self {
        Self {
            colouring,
            theme,
            old: Open::default(),
            new: Open::default(),
        }
    }

    fn gap(&mut self) -> Pieces {
        (self.old, self.new) = (Open::default(), Open::default());
        vec![(" ⋮".to_owned(), self.theme.dim)]
    }

    fn line(&mut self, tag: ChangeTag, number: Option<usize>, text: &str) -> Pieces {
        let theme = self.theme;
        let (style, open) = match tag {
            ChangeTag::Insert => (theme.added, &mut self.new),
            ChangeTag::Delete => (theme.removed, &mut self.old),
            ChangeTag::Equal => (theme.dim, &mut self.new),
        };
        let number = number.map(|number| format!("{number:>4} ")).unwrap_or_default();
        let mut pieces = vec![(format!("{number}{} ", sign(tag)), style)];
        // Words keep their colours on the background of the change.
        let wash = Style { fg: None, ..style };
        for (text, own) in highlight::line(self.colouring, open, text, theme) {
            let style = if own.fg.is_some() { own.patch(wash) } else { style };
            pieces.push((text, style));
        }
        if tag == ChangeTag::Equal {
            self.old = self.new;
        }
        pieces
    }
}

fn sign(tag: ChangeTag) -> char {
    match tag {
        ChangeTag::Insert => '+',
        ChangeTag::Delete => '-',
        ChangeTag::Equal => ' ',
    }
}

/// The old and the new text of a unified diff, each with the context lines.
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
        assert_eq!(made.text(), "b  +2 −0\n+ x\n+ y");
        assert_eq!(made.rows(40, 1, &theme).len(), 2);
        let diff = "--- a/b\n+++ b/b\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file\n";
        let asked = Edit::read(&serde_json::json!({ "path": "b", "diff": diff }).to_string()).unwrap();
        let rows: Vec<String> = asked.rows(40, 10, &theme).iter().map(ToString::to_string).collect();
        assert_eq!(rows, ["      one", "    - two", "    + 2"]);
        let lines = |changed: &str| {
            let line = |n: u32| {
                if n.is_multiple_of(14) {
                    format!("{changed}\n")
                } else {
                    format!("{n}\n")
                }
            };
            (1..30).map(line).collect::<String>()
        };
        let far = Edit::between("c".into(), &lines("old"), &lines("new"));
        let rows: Vec<String> = far
            .rows(40, 100, &theme)
            .iter()
            .map(|row| row.to_string().trim().to_owned())
            .collect();
        // Each with its number, as both sides are whole files.
        assert_eq!(rows[..3], ["11   11", "12   12", "13   13"]);
        assert_eq!(rows[3..6], ["14 - old", "14 + new", "15   15"]);
        assert_eq!(rows[8..10], ["⋮", "25   25"]);
        assert_eq!(far.counts(), (2, 2));
        assert_eq!(Edit::read("ls -l"), None);
        // Words keep their colours, on the background of the change; a comment goes on in the next line.
        let coloured = Edit::between("d.rs".into(), "fn a() {}\n/*\nold\n*/\n", "fn a() {}\n/*\nlet b\n*/\n");
        let style = |row: &Line, text: &str| {
            row.spans
                .iter()
                .find(|span| span.content == text)
                .map(|span| span.style)
        };
        let shown = coloured.rows(60, 10, &theme);
        assert_eq!(style(&shown[0], "fn"), Some(theme.keyword));
        assert_eq!(style(&shown[0], "a"), Some(theme.call));
        let comment = |side: Style| theme.comment.bg(side.bg.unwrap());
        assert_eq!(style(&shown[2], "old"), Some(comment(theme.removed)));
        assert_eq!(style(&shown[3], "let b"), Some(comment(theme.added)));

        assert_eq!(Edit::read(r#"{"path":"b"}"#), None);
    }
}
