//! Messages of people, from events to the protocol and back.

use ahp_types::state::{
    Message, MessageAttachment, MessageEmbeddedResourceAttachment, MessageKind, MessageOrigin,
    MessageResourceAttachment, SimpleMessageAttachment, TextPosition, TextRange, TextSelection,
};
use lodge_events::{
    Attachment, BlobAttachment, DirectoryAttachment, FileAttachment, SelectionAttachment, SelectionRange, UserMessage,
};

use lodge_host::Prompt;

use crate::uri;

/// The message that opened a turn.
pub(crate) fn message_of(user: &UserMessage, kind: MessageKind) -> Message {
    let attachments: Vec<MessageAttachment> = user.attachments.iter().flatten().filter_map(attachment).collect();
    Message {
        text: user.content.clone(),
        origin: MessageOrigin { kind },
        attachments: (!attachments.is_empty()).then_some(attachments),
        model: None,
        agent: None,
        meta: None,
    }
}

/// A message that waits at the agent.
pub(crate) fn message_of_prompt(prompt: &Prompt) -> Message {
    let said = UserMessage {
        content: prompt.display_text.clone().unwrap_or_else(|| prompt.text.clone()),
        attachments: Some(prompt.attachments.clone()),
        ..UserMessage::default()
    };
    message_of(&said, MessageKind::User)
}

fn attachment(attachment: &Attachment) -> Option<MessageAttachment> {
    let resource = |path: &str, label: &str, display_kind: &str, selection| {
        MessageAttachment::Resource(MessageResourceAttachment {
            label: label.to_owned(),
            range: None,
            display_kind: Some(display_kind.to_owned()),
            meta: None,
            uri: uri::file(path),
            size_hint: None,
            content_type: None,
            nonce: None,
            selection,
        })
    };
    match attachment {
        Attachment::File(file) => Some(resource(&file.path, &file.display_name, "file", None)),
        Attachment::Directory(directory) => Some(resource(&directory.path, &directory.display_name, "directory", None)),
        Attachment::Selection(selection) => {
            let place = |position: &lodge_events::TextPosition| TextPosition {
                line: position.line as i64,
                character: position.character as i64,
            };
            let (start, end) = (&selection.selection.start, &selection.selection.end);
            let range = TextRange {
                start: place(start),
                end: place(end),
            };
            Some(resource(
                &selection.file_path,
                &selection.display_name,
                "selection",
                Some(TextSelection { range }),
            ))
        }
        Attachment::Blob(blob) => Some(MessageAttachment::EmbeddedResource(MessageEmbeddedResourceAttachment {
            label: blob.display_name.clone().unwrap_or_else(|| blob.mime_type.clone()),
            range: None,
            display_kind: None,
            meta: None,
            data: blob.data.clone()?,
            content_type: blob.mime_type.clone(),
            selection: None,
        })),
        Attachment::GithubReference(reference) => Some(MessageAttachment::Simple(SimpleMessageAttachment {
            label: format!("#{} {}", reference.number, reference.title),
            range: None,
            display_kind: None,
            meta: None,
            model_representation: Some(reference.url.clone()),
        })),
        Attachment::Other(_) => None,
    }
}

/// Whether every attachment of a client's message is one that the agent can take.
pub(crate) fn check_attachments(message: &Message) -> Result<(), String> {
    message
        .attachments
        .iter()
        .flatten()
        .try_for_each(|attachment| match attachment {
            MessageAttachment::Simple(_) | MessageAttachment::EmbeddedResource(_) => Ok(()),
            MessageAttachment::Resource(resource) => path_of(resource).map(drop),
            MessageAttachment::Chat(_) | MessageAttachment::Annotations(_) => Ok(()),
            MessageAttachment::Unknown(_) => {
                Err("this host takes files, selections, chats, annotations and embedded data as attachments".to_owned())
            }
        })
}

fn path_of(resource: &MessageResourceAttachment) -> Result<String, String> {
    let path = uri::path(&resource.uri).ok_or_else(|| format!("{} is not a file on this host", resource.uri))?;
    Ok(path.to_string_lossy().into_owned())
}

/// The attachments of a client's message as the agent takes them, and text to add for those it cannot take. `Err` says
/// what cannot be honoured. Reads files.
pub(crate) fn attachments_of(message: &Message) -> Result<(Vec<Attachment>, Vec<String>), String> {
    taken_attachments(message, |path, range| read_selection(path, range).unwrap_or_default())
}

/// The same without what is selected in files: nothing is read.
pub(crate) fn attachments_to_read(message: &Message) -> Result<(Vec<Attachment>, Vec<String>), String> {
    taken_attachments(message, |_, _| String::new())
}

fn taken_attachments(
    message: &Message,
    selected: impl Fn(&str, &TextRange) -> String,
) -> Result<(Vec<Attachment>, Vec<String>), String> {
    let mut taken = Vec::new();
    let mut said = Vec::new();
    for attachment in message.attachments.iter().flatten() {
        match attachment {
            MessageAttachment::Simple(simple) => said.extend(simple.model_representation.clone()),
            MessageAttachment::EmbeddedResource(embedded) => taken.push(Attachment::Blob(BlobAttachment {
                data: Some(embedded.data.clone()),
                mime_type: embedded.content_type.clone(),
                display_name: Some(embedded.label.clone()),
                ..BlobAttachment::default()
            })),
            MessageAttachment::Resource(resource) => {
                taken.push(file_attachment(resource, path_of(resource)?, &selected));
            }
            // What was said in a chat, or about a file, comes with the message when it is accepted.
            MessageAttachment::Chat(_) | MessageAttachment::Annotations(_) => {}
            MessageAttachment::Unknown(_) => {
                return Err(
                    "this host takes files, selections, chats, annotations and embedded data as attachments".to_owned(),
                );
            }
        }
    }
    Ok((taken, said))
}

fn file_attachment(
    resource: &MessageResourceAttachment,
    path: String,
    selected: impl Fn(&str, &TextRange) -> String,
) -> Attachment {
    let display_name = resource.label.clone();
    match (&resource.selection, resource.display_kind.as_deref()) {
        (Some(selection), _) => {
            let place = |position: &TextPosition| lodge_events::TextPosition {
                line: position.line.try_into().unwrap_or(0),
                character: position.character.try_into().unwrap_or(0),
            };
            let text = selected(&path, &selection.range);
            let selection = SelectionRange {
                start: place(&selection.range.start),
                end: place(&selection.range.end),
            };
            Attachment::Selection(SelectionAttachment {
                file_path: path,
                display_name,
                text,
                selection,
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
fn read_selection(path: &str, range: &TextRange) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let (first, last) = (
        usize::try_from(range.start.line).ok()?,
        usize::try_from(range.end.line).ok()?,
    );
    let lines: Vec<&str> = text.lines().skip(first).take(last.checked_sub(first)? + 1).collect();
    Some(lines.join("\n"))
}
