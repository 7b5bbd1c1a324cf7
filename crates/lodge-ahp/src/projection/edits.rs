//! What calls do to files, with both sides of each: people see the difference before they approve it, and afterwards.

use std::path::PathBuf;

use ahp_types::state::{
    ContentRef, FileEdit, FileEditCollection, FileEditDiffStats, FileEditSide, ToolResultContent,
    ToolResultFileEditContent,
};
use lodge_events::{Event, Payload, PermissionRequest, ToolExecutionComplete};

use super::Projector;
use crate::uri;

/// Tools of the host that tell what they did to a file as a unified diff.
const EDITORS: [&str; 2] = ["create", "edit"];

/// Which side of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// The call and the side that a name of contents stands for.
pub(crate) fn side_named(name: &str) -> Option<(&str, Side)> {
    let (head, _file) = name.rsplit_once('/')?;
    [Side::Before, Side::After].into_iter().find_map(|side| {
        let call = head.strip_suffix(side.name())?.strip_suffix('-')?;
        Some((call, side))
    })
}

/// What a call wants to write, while a person thinks about it.
#[derive(Debug, Clone)]
pub(crate) struct Proposed {
    pub(crate) diff: UnifiedDiff,
    pub(crate) new: String,
}

/// A change of one file, as git writes it.
#[derive(Debug, Clone)]
pub(crate) struct UnifiedDiff {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl UnifiedDiff {
    fn parse(text: &str) -> Option<Self> {
        let names = text.lines().next()?.strip_prefix("diff --git ")?;
        // The same name twice, behind `a/` and ` b/`; it may have spaces in it.
        let length = names.len().checked_sub("a/ b/".len())? / 2;
        let name = names.strip_prefix("a/")?.get(..length)?;
        (names == format!("a/{name} b/{name}")).then(|| Self {
            path: format!("/{name}").into(),
            text: text.to_owned(),
        })
    }

    pub(crate) fn makes_the_file(&self) -> bool {
        self.text
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("new file"))
    }

    fn changed_lines(&self) -> impl Iterator<Item = &str> {
        let lines = self.text.split_inclusive('\n');
        lines
            .skip_while(|line| !line.starts_with("@@"))
            .filter(|line| !line.starts_with("@@"))
    }

    /// What it shows of a side: the changed lines and those around them.
    pub(crate) fn excerpt(&self, side: Side) -> String {
        let (gone, mut shown) = (if side == Side::Before { '+' } else { '-' }, String::new());
        let mut last_shown = false;
        for line in self.changed_lines() {
            match line.chars().next() {
                // The line before has no end.
                Some('\\') if last_shown => drop(shown.pop()),
                Some(sign) if sign != gone && sign != '\\' => shown.push_str(&line[1..]),
                _ => {}
            }
            last_shown = !line.starts_with(gone) && !line.starts_with('\\');
        }
        shown
    }

    /// The edit. Contents of its sides are read at addresses that name the call.
    fn edit(&self, call: &str) -> FileEdit {
        let count = |sign: char| self.changed_lines().filter(|line| line.starts_with(sign)).count();
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        let side = |side: Side| FileEditSide {
            uri: uri::file(&self.path),
            content: ContentRef {
                uri: uri::content_side("", call, side.name(), &file),
                size_hint: None,
                content_type: None,
                nonce: None,
            },
        };
        FileEdit {
            before: (!self.makes_the_file()).then(|| side(Side::Before)),
            after: Some(side(Side::After)),
            diff: Some(FileEditDiffStats {
                added: i64::try_from(count('+')).ok(),
                removed: i64::try_from(count('-')).ok(),
            }),
        }
    }
}

/// What a call will do to a file, if it is asked for that.
pub(super) fn proposed(request: &PermissionRequest, call: &str) -> Option<(FileEditCollection, Proposed)> {
    let PermissionRequest::Write(write) = request else {
        return None;
    };
    let diff = UnifiedDiff::parse(&write.diff)?;
    let items = vec![diff.edit(call)];
    let proposed = Proposed {
        diff,
        new: write.new_file_contents.clone()?,
    };
    Some((FileEditCollection { items }, proposed))
}

/// What a call of the host's own tools did to a file.
pub(super) fn done(tool: &str, done: &ToolExecutionComplete) -> Option<ToolResultContent> {
    let told = done.result.as_ref()?.detailed_content.as_ref();
    let told = told.filter(|_| done.success && EDITORS.contains(&tool))?;
    let FileEdit { before, after, diff } = UnifiedDiff::parse(told)?.edit(&done.tool_call_id);
    Some(ToolResultContent::FileEdit(ToolResultFileEditContent {
        before,
        after,
        diff,
    }))
}

/// The difference that a call made, when this event is its end.
pub(crate) fn difference_in(event: &Event, call: &str) -> Option<UnifiedDiff> {
    match event.payload() {
        Payload::ToolExecutionComplete(done) if done.tool_call_id == call => {
            UnifiedDiff::parse(done.result.as_ref()?.detailed_content.as_ref()?)
        }
        _ => None,
    }
}

impl Projector {
    /// What a call wants to write that a person is asked about.
    pub(crate) fn proposed(&self, call: &str) -> Option<&Proposed> {
        self.calls.get(call)?.proposed.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_tells_its_file_its_numbers_and_both_sides() {
        let text = "diff --git a/w/a b.txt b/w/a b.txt\n--- a/w/a b.txt\n+++ b/w/a b.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n \
                    three\n@@ -9 +9 @@\n-++nine\n\\ No newline at end of file\n+--9\n";
        let diff = UnifiedDiff::parse(text).unwrap();
        assert_eq!(diff.path, PathBuf::from("/w/a b.txt"));
        assert_eq!(diff.excerpt(Side::Before), "one\ntwo\nthree\n++nine");
        assert_eq!(diff.excerpt(Side::After), "one\n2\nthree\n--9\n");
        let edit = diff.edit("call/1");
        let stats = edit.diff.unwrap();
        assert_eq!((stats.added, stats.removed), (Some(2), Some(2)));
        let before = edit.before.unwrap();
        assert_eq!(before.uri, "file:///w/a%20b.txt");
        let (session, name) = uri::session_of_content(&before.content.uri).unwrap();
        assert_eq!((session, side_named(&name)), ("", Some(("call/1", Side::Before))));
        let new = UnifiedDiff::parse("diff --git a/x b/x\nnew file mode 100644\n").unwrap();
        assert!(new.edit("c").before.is_none() && new.excerpt(Side::After).is_empty());
        for odd in [
            "",
            "diff --git",
            "diff --git a/x b/y\n",
            "diff --git a b\n",
            "Created file x",
        ] {
            assert!(UnifiedDiff::parse(odd).is_none(), "{odd}");
        }
        for odd in ["call-0", "call-before", "x/y"] {
            assert_eq!(side_named(odd), None, "{odd}");
        }
    }
}
