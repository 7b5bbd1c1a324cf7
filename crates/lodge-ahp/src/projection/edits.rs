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

/// One side of a file that a call changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side<'a> {
    pub(crate) call: &'a str,
    pub(crate) side: DiffSide,
    /// Which of the call's files it is.
    pub(crate) at: usize,
}

/// The side that a name of contents stands for: `<call>-before/<file>`, or `<call>-before.1/<file>` for the second file.
pub(crate) fn side_named(name: &str) -> Option<Side<'_>> {
    let (head, _file) = name.rsplit_once('/')?;
    let later = head
        .rsplit_once('.')
        .and_then(|(head, at)| Some((head, at.parse().ok()?)));
    later.into_iter().chain([(head, 0)]).find_map(|(head, at)| {
        SIDES.into_iter().find_map(|(side, word)| {
            let call = head.strip_suffix(word)?.strip_suffix('-')?;
            Some(Side { call, side, at })
        })
    })
}

/// What a call wants to write, while a person thinks about it.
#[derive(Debug, Clone)]
pub(crate) struct Proposed {
    pub(crate) diff: UnifiedDiff,
    pub(crate) new: String,
}

/// An edit. Contents of its sides are read at addresses that name the call.
fn edit(diff: &UnifiedDiff, call: &str, at: usize) -> FileEdit {
    let file = diff.path.file_name().unwrap_or_default().to_string_lossy();
    let [before, after] = SIDES.map(|(_, word)| {
        let word = match at {
            0 => word.to_owned(),
            at => format!("{word}.{at}"),
        };
        FileEditSide {
            uri: uri::file(&diff.path),
            content: ContentRef {
                uri: uri::content_side("", call, &word, &file),
                size_hint: None,
                content_type: None,
                nonce: None,
            },
        }
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
    let items = vec![edit(&diff, call, 0)];
    let proposed = Proposed {
        diff,
        new: write.new_file_contents.clone()?,
    };
    Some((FileEditCollection { items }, proposed))
}

/// What a call did to files. Tools of other programs tell nothing else in such detail.
pub(super) fn done(tool: &str, is_of_program: bool, done: &ToolExecutionComplete) -> Vec<ToolResultContent> {
    let told = done.result.as_ref().and_then(|result| result.detailed_content.as_ref());
    let tells = EDITORS.contains(&tool) || is_of_program && done.is_user_requested != Some(true);
    let Some(told) = told.filter(|_| done.success && tells) else {
        return Vec::new();
    };
    let diffs = UnifiedDiff::parse_all(told);
    let edits = diffs.iter().enumerate().map(|(at, diff)| {
        let FileEdit { before, after, diff } = edit(diff, &done.tool_call_id, at);
        ToolResultContent::FileEdit(ToolResultFileEditContent { before, after, diff })
    });
    edits.collect()
}

/// The difference that a call made to one of its files, when this event is its end.
pub(crate) fn difference_in(event: &Event, call: &str, at: usize) -> Option<UnifiedDiff> {
    match event.payload() {
        Payload::ToolExecutionComplete(done) if done.tool_call_id == call => {
            let told = done.result.as_ref()?.detailed_content.as_ref()?;
            UnifiedDiff::parse_all(told).into_iter().nth(at)
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
        let edit = edit(&diff, "call/1", 0);
        let stats = edit.diff.unwrap();
        assert_eq!((stats.added, stats.removed), (Some(1), Some(1)));
        let before = edit.before.unwrap();
        assert_eq!(before.uri, "file:///w/a%20b.txt");
        let (session, name) = uri::session_of_content(&before.content.uri).unwrap();
        let expected = Side {
            call: "call/1",
            side: DiffSide::Before,
            at: 0,
        };
        assert_eq!((session, side_named(&name)), ("", Some(expected)));
        for odd in ["call-0", "call-before", "x/y", "call-before.x/y"] {
            assert_eq!(side_named(odd), None, "{odd}");
        }
    }

    /// What the calls of a conversation did to files, as places of their contents.
    fn edited(by_program: bool, tool: &str, told: &str) -> Vec<(String, usize)> {
        let mut projector = Projector::default();
        if by_program {
            projector.event(&Event::new(None, None, lodge_events::LodgeProgram::default()));
        }
        let user = lodge_events::UserMessage {
            message_id: Some("t1".into()),
            ..lodge_events::UserMessage::default()
        };
        projector.event(&Event::new(None, None, user));
        let start = lodge_events::ToolExecutionStart {
            tool_call_id: "c".into(),
            tool_name: tool.into(),
            ..lodge_events::ToolExecutionStart::default()
        };
        projector.event(&Event::new(None, None, start));
        let done = ToolExecutionComplete {
            tool_call_id: "c".into(),
            success: true,
            result: Some(lodge_events::ToolResult {
                detailed_content: Some(told.into()),
                ..lodge_events::ToolResult::default()
            }),
            ..ToolExecutionComplete::default()
        };
        let done = Event::new(None, None, done);
        let steps = projector.event(&done);
        let results = steps.into_iter().filter_map(|step| match step {
            crate::projection::Step::Act(_, action) => match *action {
                ahp_types::StateAction::ChatToolCallComplete(complete) => complete.result.content,
                _ => None,
            },
            _ => None,
        });
        let edits = results.flatten().filter_map(|content| match content {
            ToolResultContent::FileEdit(edit) => edit.after,
            _ => None,
        });
        let sides = edits.map(|after| {
            let (_, name) = uri::session_of_content(&after.content.uri).unwrap();
            let Side { call, side, at } = side_named(&name).unwrap();
            let diff = difference_in(&done, call, at).unwrap();
            (diff.excerpt(side), at)
        });
        sides.collect()
    }

    #[test]
    fn all_files_that_a_program_changes_in_a_call_are_shown() {
        let one = "diff --git a/w/a b/w/a\n--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-two\n+2\n";
        let new = "diff --git a/w/x/a b/w/x/a\nnew file mode 100644\n@@ -0,0 +1 @@\n+new\n";
        let both = format!("{one}\n{new}");
        let expected = [("2\n".to_owned(), 0), ("new\n".to_owned(), 1)];
        assert_eq!(edited(true, "apply_patch", &both), expected);
        assert_eq!(edited(false, "edit", one), expected[..1]);
        // A command may print anything.
        assert_eq!(edited(false, "apply_patch", &both), []);
    }
}
