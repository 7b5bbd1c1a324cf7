//! What clients attach to messages, as the agent is given it. No message is refused for an attachment: people see what was
//! attached as their client wrote it, and the model is told in words what could not be read.

mod place;
mod read;

use std::path::PathBuf;

use ahp_types::state::{
    Message, MessageAttachment, MessageEmbeddedResourceAttachment, MessageResourceAttachment, TextPosition, TextRange,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use lodge_events::{Attachment, DirectoryAttachment, FileAttachment, SelectionAttachment, SelectionRange};
use lodge_host::{Attached, attached_data, is_shown_as_it_is, selected_lines};
use serde_json::Value;

use self::place::Place;
pub(crate) use self::read::{read, read_here};

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
                    given.texts.push(not_read(resource, "the host was restarted"))
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
                let (kind, label) = (embedded.content_type.as_str(), embedded.label.clone());
                self.attachments
                    .push(attached_data(kind, embedded.data.clone(), Some(label)));
            }
            MessageAttachment::Unknown(unknown) => {
                let word = |key: &str| unknown.get(key).and_then(Value::as_str).unwrap_or_default();
                let why = format!("this host does not know attachments of the type {:?}", word("type"));
                let attached = Attached {
                    label: word("label"),
                    address: word("uri"),
                    lines: None,
                };
                self.texts.push(attached.unreadable(&why));
            }
            // What was said in a chat, or about a file, comes with the message when it is accepted.
            MessageAttachment::Chat(_) | MessageAttachment::Annotations(_) | MessageAttachment::Resource(_) => {}
        }
    }
}

/// Embedded data in words, unless the model is shown it as it is.
fn text_of(embedded: &MessageEmbeddedResourceAttachment) -> Option<String> {
    if is_shown_as_it_is(&embedded.content_type) {
        return None;
    }
    let attached = Attached {
        label: &embedded.label,
        lines: embedded
            .selection
            .as_ref()
            .and_then(|selection| lines(&selection.range)),
        ..Attached::default()
    };
    let text = STANDARD.decode(&embedded.data).ok();
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    Some(match text {
        Some(text) => attached.quote(&text),
        None => attached.unreadable(&format!("it is {}", embedded.content_type)),
    })
}

fn not_read(resource: &MessageResourceAttachment, why: &str) -> String {
    let whole = Attached {
        lines: None,
        ..attached(resource)
    };
    whole.unreadable(why)
}

fn attached(resource: &MessageResourceAttachment) -> Attached<'_> {
    Attached {
        label: &resource.label,
        address: &resource.uri,
        lines: resource
            .selection
            .as_ref()
            .and_then(|selection| lines(&selection.range)),
    }
}

/// What is selected of a text.
fn selected(text: &str, range: &TextRange) -> String {
    let meant = lines(range).and_then(|(first, last)| selected_lines(text, first, last));
    meant.unwrap_or_default()
}

/// The lines that are selected, counted from 0.
fn lines(range: &TextRange) -> Option<(usize, usize)> {
    Some((range.start.line.try_into().ok()?, range.end.line.try_into().ok()?))
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
