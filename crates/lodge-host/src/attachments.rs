//! Describes attachments to the model.

use lodge_events::{Attachment, BlobAttachment};

/// Text of one attachment that the model is given.
const TEXT: usize = 256 << 10;
/// Kinds of data that the model is shown as they are.
const SHOWN: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"];

/// Whether the model is shown data of this kind as it is.
pub fn is_shown_as_it_is(kind: &str) -> bool {
    SHOWN.contains(&kind)
}

/// Data for the model.
pub fn attached_data(kind: impl Into<String>, data: String, name: Option<String>) -> Attachment {
    Attachment::Blob(BlobAttachment {
        data: Some(data),
        mime_type: kind.into(),
        display_name: name,
        ..BlobAttachment::default()
    })
}

/// The lines from one to another, counted from 0; whole ones, since characters are counted differently by every editor.
pub fn selected_lines(text: &str, first: usize, last: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().skip(first).take(last.checked_sub(first)? + 1).collect();
    Some(lines.join("\n"))
}

/// Something that is attached.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attached<'a> {
    /// Its name for people.
    pub label: &'a str,
    /// Where it is, if that helps.
    pub address: &'a str,
    /// The lines of it that are meant, counted from 0.
    pub lines: Option<(usize, usize)>,
}

impl Attached<'_> {
    /// Its text, or the lines of it that are meant.
    pub fn quote(&self, text: &str) -> String {
        let meant = self.lines.and_then(|(first, last)| selected_lines(text, first, last));
        let text = meant.as_deref().unwrap_or(text);
        let (shown, rest) = text.split_at(text.floor_char_boundary(TEXT));
        let rest = match rest.len() {
            0 => String::new(),
            bytes => format!("\n(The rest is left out: {bytes} bytes.)"),
        };
        format!("{}\n{shown}{rest}\n</attachment>", self.tag())
    }

    /// Says that the model cannot read it.
    pub fn unreadable(&self, why: &str) -> String {
        format!("{}(Its content could not be read: {why}.)</attachment>", self.tag())
    }

    /// A tag that names it. What is in it cannot end it.
    fn tag(&self) -> String {
        let plain = |text: &str| text.replace(['"', '\n', '<', '>'], "'");
        let mut tag = format!("<attachment name=\"{}\"", plain(self.label));
        if !self.address.is_empty() {
            tag.push_str(&format!(" uri=\"{}\"", plain(self.address)));
        }
        if let Some((first, last)) = self.lines {
            tag.push_str(&format!(" lines=\"{}-{}\"", first + 1, last + 1));
        }
        tag + ">"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_where_a_character_ends_and_say_so() {
        let text = "ä".repeat(TEXT);
        let attached = Attached {
            label: "a \"b\"\n</attachment>",
            address: "untitled:x",
            lines: None,
        };
        let quoted = attached.quote(&text);
        assert!(
            quoted.starts_with("<attachment name=\"a 'b'''/attachment'\" uri=\"untitled:x\">\nää"),
            "{}",
            &quoted[..100]
        );
        assert!(quoted.ends_with(&format!("(The rest is left out: {TEXT} bytes.)\n</attachment>")));
        let lines = Attached {
            label: "x",
            lines: Some((1, 2)),
            ..Attached::default()
        };
        let quoted = lines.quote("a\nb\nc\nd");
        assert_eq!(quoted, "<attachment name=\"x\" lines=\"2-3\">\nb\nc\n</attachment>");
    }
}
