//! Attachments of messages.

use crate::macros::{shapes, union};
use crate::{GithubReferenceType, OmittedReason};

shapes! {
    FileAttachment "A file." {
        path: String = "Absolute path.",
        display_name! String = "Name for people.",
        line_range? LineRange = "Lines that matter.",
        mime_type? String = "MIME type of what the model gets.",
        asset_id? String = "`session.binary_asset` with what the model gets.",
        byte_length? u64 = "Length of what the model gets.",
        omitted_reason? OmittedReason = "Why the bytes are not in the log.",
        tagged_files_entry? String = "The line it became in the prompt.",
    }
    DirectoryAttachment "A directory." {
        path: String = "Absolute path.",
        display_name! String = "Name for people.",
        tagged_files_entry? String = "The line it became in the prompt.",
    }
    SelectionAttachment "A selection in a file." {
        file_path: String = "Absolute path of the file.",
        display_name! String = "Name for people.",
        text: String = "The selected text.",
        selection: SelectionRange = "Where it is.",
    }
    BlobAttachment "Bytes that came with the message." {
        data? String = "The bytes in base64.",
        mime_type: String = "MIME type.",
        display_name? String = "Name for people.",
        asset_id? String = "`session.binary_asset` with the bytes.",
        byte_length? u64 = "Length of the decoded bytes.",
        omitted_reason? OmittedReason = "Why the bytes are not in the log.",
    }
    GithubReferenceAttachment "An issue, pull request or discussion on GitHub." {
        number: u64 = "Its number.",
        title: String = "Its title.",
        reference_type: GithubReferenceType = "Which of the three.",
        state: String = "Its state, such as `open`.",
        url: String = "Its address.",
    }
    LineRange "Lines of a file, from 1, both ends included." {
        start: u64 = "First line.",
        end: u64 = "Last line.",
    }
    SelectionRange "A range of text." {
        start: TextPosition = "Where it starts.",
        end: TextPosition = "Where it ends.",
    }
    TextPosition "A place in a text, from 0." {
        line: u64 = "Line.",
        character: u64 = "Character within the line.",
    }
}

union! {
    Attachment by "type" "Something attached to a message." {
        "file" File(FileAttachment),
        "directory" Directory(DirectoryAttachment),
        "selection" Selection(SelectionAttachment),
        "blob" Blob(BlobAttachment),
        "github_reference" GithubReference(GithubReferenceAttachment),
    }
}

impl Attachment {
    /// The same with a name for people where the sender gave none: the last part of the path.
    pub fn named(mut self) -> Self {
        let (name, path) = match &mut self {
            Self::File(file) => (&mut file.display_name, &file.path),
            Self::Directory(directory) => (&mut directory.display_name, &directory.path),
            Self::Selection(selection) => (&mut selection.display_name, &selection.file_path),
            Self::Blob(_) | Self::GithubReference(_) | Self::Other(_) => return self,
        };
        if name.is_empty() {
            let last = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next();
            *name = last.unwrap_or(path).to_owned();
        }
        self
    }
}
