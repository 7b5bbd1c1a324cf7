//! What clients attach to messages, as the agent is given it. No message is refused for an attachment: people see what was
//! attached as their client wrote it, and the model is told in words what could not be read.

mod place;
mod read;

use std::path::PathBuf;

use ahp_types::state::{
    Message, MessageAttachment, MessageEmbeddedResourceAttachment, MessageResourceAttachment, TextPosition, TextRange,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use lodge_events::{
    Attachment, BlobAttachment, DirectoryAttachment, FileAttachment, SelectionAttachment, SelectionRange,
};
use serde_json::Value;

use self::place::Place;
pub(crate) use self::read::{read, read_here};

/// Text of one attachment that the model is given.
const TEXT: usize = 256 << 10;
/// Kinds of data that the model is shown as they are.
const SHOWN: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"];

/// Attachments as the agent is given them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Given {
    pub(crate) attachments: Vec<Attachment>,
    /// Added to the message for the model.
    pub(crate) texts: Vec<String>,
}

/// What can be given without reading anything: for a message that was just accepted.
pub(crate) fn unread(message: &Message) -> Given {
    let mut given = Given::default();
    for attachment in message.attachments.iter().flatten() {
        match attachment {
            MessageAttachment::Resource(resource) => match Place::of(&resource.uri) {
                Place::File(path) => given.attachments.push(file(resource, path, |_| String::new())),
                Place::Machine(_) | Place::Held(_) | Place::Client => {
                    given.texts.push(not_read(resource, "the host had to start again"))
                }
            },
            other => given.take(other),
        }
    }
    given
}

impl Given {
    /// Takes an attachment that brings what there is of it.
    fn take(&mut self, attachment: &MessageAttachment) {
        match attachment {
            MessageAttachment::Simple(simple) => self.texts.extend(simple.model_representation.clone()),
            MessageAttachment::EmbeddedResource(embedded) => {
                self.texts.extend(text_of(embedded));
                self.attachments
                    .push(blob(&embedded.label, &embedded.content_type, embedded.data.clone()));
            }
            MessageAttachment::Unknown(unknown) => {
                let word = |key: &str| unknown.get(key).and_then(Value::as_str).unwrap_or_default();
                let why = format!("this host does not know attachments of the type {:?}", word("type"));
                self.texts.push(note(word("label"), word("uri"), &why));
            }
            // What was said in a chat, or about a file, comes with the message when it is accepted.
            MessageAttachment::Chat(_) | MessageAttachment::Annotations(_) | MessageAttachment::Resource(_) => {}
        }
    }
}

fn blob(label: &str, kind: &str, data: String) -> Attachment {
    Attachment::Blob(BlobAttachment {
        data: Some(data),
        mime_type: kind.to_owned(),
        display_name: Some(label.to_owned()),
        ..BlobAttachment::default()
    })
}

/// Embedded data in words, unless the model is shown it as it is.
fn text_of(embedded: &MessageEmbeddedResourceAttachment) -> Option<String> {
    if SHOWN.contains(&embedded.content_type.as_str()) {
        return None;
    }
    let range = embedded.selection.as_ref().map(|selection| &selection.range);
    let text = STANDARD.decode(&embedded.data).ok();
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    Some(match text {
        Some(text) => quote(&embedded.label, "", range, &text),
        None => note(&embedded.label, "", &format!("it is {}", embedded.content_type)),
    })
}

/// A tag that names an attachment. What is in it cannot end it.
fn tag(label: &str, address: &str, lines: Option<&TextRange>) -> String {
    let plain = |text: &str| text.replace(['"', '\n', '<', '>'], "'");
    let mut tag = format!("<attachment name=\"{}\"", plain(label));
    if !address.is_empty() {
        tag.push_str(&format!(" uri=\"{}\"", plain(address)));
    }
    if let Some(range) = lines {
        tag.push_str(&format!(" lines=\"{}-{}\"", range.start.line + 1, range.end.line + 1));
    }
    tag + ">"
}

/// The text of an attachment, or the lines of it that are meant.
fn quote(label: &str, address: &str, range: Option<&TextRange>, text: &str) -> String {
    let meant = range.and_then(|range| lines(text, range));
    let text = meant.as_deref().unwrap_or(text);
    let end = (0..=text.len().min(TEXT)).rev().find(|at| text.is_char_boundary(*at));
    let (shown, rest) = text.split_at(end.unwrap_or(0));
    let rest = match rest.len() {
        0 => String::new(),
        bytes => format!("\n(The rest is left out: {bytes} bytes.)"),
    };
    format!("{}\n{shown}{rest}\n</attachment>", tag(label, address, range))
}

/// Says of an attachment that the model cannot read it.
fn note(label: &str, address: &str, why: &str) -> String {
    format!(
        "{}(Its content could not be read: {why}.)</attachment>",
        tag(label, address, None)
    )
}

fn not_read(resource: &MessageResourceAttachment, why: &str) -> String {
    note(&resource.label, &resource.uri, why)
}

/// A file of this host. `selected` reads lines of it.
fn file(
    resource: &MessageResourceAttachment,
    path: PathBuf,
    selected: impl FnOnce(&TextRange) -> String,
) -> Attachment {
    let display_name = resource.label.clone();
    let path = path.to_string_lossy().into_owned();
    match (&resource.selection, resource.display_kind.as_deref()) {
        (Some(selection), _) => {
            let place = |position: &TextPosition| lodge_events::TextPosition {
                line: position.line.try_into().unwrap_or(0),
                character: position.character.try_into().unwrap_or(0),
            };
            Attachment::Selection(SelectionAttachment {
                text: selected(&selection.range),
                selection: SelectionRange {
                    start: place(&selection.range.start),
                    end: place(&selection.range.end),
                },
                file_path: path,
                display_name,
            })
        }
        (None, Some("directory")) => Attachment::Directory(DirectoryAttachment {
            path,
            display_name,
            ..DirectoryAttachment::default()
        }),
        (None, _) => Attachment::File(FileAttachment {
            path,
            display_name,
            ..FileAttachment::default()
        }),
    }
}

/// The selected lines; whole ones, since characters are counted differently by every editor.
fn lines(text: &str, range: &TextRange) -> Option<String> {
    let (first, last) = (
        usize::try_from(range.start.line).ok()?,
        usize::try_from(range.end.line).ok()?,
    );
    let lines: Vec<&str> = text.lines().skip(first).take(last.checked_sub(first)? + 1).collect();
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_where_a_character_ends_and_say_so() {
        let text = "ä".repeat(TEXT);
        let quoted = quote("a \"b\"\n</attachment>", "untitled:x", None, &text);
        assert!(
            quoted.starts_with("<attachment name=\"a 'b'''/attachment'\" uri=\"untitled:x\">\nää"),
            "{}",
            &quoted[..100]
        );
        assert!(quoted.ends_with(&format!("(The rest is left out: {TEXT} bytes.)\n</attachment>")));
        let range = TextRange {
            start: TextPosition { line: 1, character: 3 },
            end: TextPosition { line: 2, character: 0 },
        };
        let quoted = quote("x", "", Some(&range), "a\nb\nc\nd");
        assert_eq!(quoted, "<attachment name=\"x\" lines=\"2-3\">\nb\nc\n</attachment>");
    }
}
