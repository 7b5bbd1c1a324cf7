//! What calls do to files, with both sides of each: people see the difference before they approve it, and afterwards.

use ahp_types::state::{
    ContentRef, FileEdit, FileEditCollection, FileEditDiffStats, FileEditSide, ToolResultContent,
    ToolResultFileEditContent,
};
use lodge_events::{Event, Payload, PermissionRequest, ToolExecutionComplete};
use lodge_host::tool_calls::{DiffSide, UnifiedDiff};

use super::Projector;
use crate::uri;

/// Tools of the host that tell what they did to a file as a unified diff.
const EDITORS: [&str; 2] = ["create", "edit"];

/// How names of contents call a side of an edit.
const SIDES: [(DiffSide, &str); 2] = [(DiffSide::Before, "before"), (DiffSide::After, "after")];

/// The call and the side that a name of contents stands for.
pub(crate) fn side_named(name: &str) -> Option<(&str, DiffSide)> {
    let (head, _file) = name.rsplit_once('/')?;
    SIDES.into_iter().find_map(|(side, word)| {
        let call = head.strip_suffix(word)?.strip_suffix('-')?;
        Some((call, side))
    })
}

/// What a call wants to write, while a person thinks about it.
#[derive(Debug, Clone)]
pub(crate) struct Proposed {
    pub(crate) diff: UnifiedDiff,
    pub(crate) new: String,
}

/// An edit. Contents of its sides are read at addresses that name the call.
fn edit(diff: &UnifiedDiff, call: &str) -> FileEdit {
    let file = diff.path.file_name().unwrap_or_default().to_string_lossy();
    let [before, after] = SIDES.map(|(_, word)| FileEditSide {
        uri: uri::file(&diff.path),
        content: ContentRef {
            uri: uri::content_side("", call, word, &file),
            size_hint: None,
            content_type: None,
            nonce: None,
        },
    });
    let (added, removed) = diff.counts();
    FileEdit {
        before: (!diff.makes_the_file()).then_some(before),
        after: Some(after),
        diff: Some(FileEditDiffStats {
            added: i64::try_from(added).ok(),
            removed: i64::try_from(removed).ok(),
        }),
    }
}

/// What a call will do to a file, if it is asked for that.
pub(super) fn proposed(request: &PermissionRequest, call: &str) -> Option<(FileEditCollection, Proposed)> {
    let PermissionRequest::Write(write) = request else {
        return None;
    };
    let diff = UnifiedDiff::parse(&write.diff)?;
    let items = vec![edit(&diff, call)];
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
    let FileEdit { before, after, diff } = edit(&UnifiedDiff::parse(told)?, &done.tool_call_id);
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
    fn the_sides_of_an_edit_are_read_at_addresses_that_name_the_call() {
        let diff = UnifiedDiff::parse("diff --git a/w/a b.txt b/w/a b.txt\n@@ -1 +1 @@\n-two\n+2\n").unwrap();
        let edit = edit(&diff, "call/1");
        let stats = edit.diff.unwrap();
        assert_eq!((stats.added, stats.removed), (Some(1), Some(1)));
        let before = edit.before.unwrap();
        assert_eq!(before.uri, "file:///w/a%20b.txt");
        let (session, name) = uri::session_of_content(&before.content.uri).unwrap();
        assert_eq!((session, side_named(&name)), ("", Some(("call/1", DiffSide::Before))));
        for odd in ["call-0", "call-before", "x/y"] {
            assert_eq!(side_named(odd), None, "{odd}");
        }
    }
}
