//! Messages of people, from events to the protocol.

use ahp_types::state::{
    Message, MessageAttachment, MessageEmbeddedResourceAttachment, MessageKind, MessageOrigin,
    MessageResourceAttachment, SimpleMessageAttachment, TextPosition, TextRange, TextSelection,
};
use lodge_events::{Attachment, UserMessage};

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

/// A message that was kept, with what the log says of it: its text, which anybody may have changed while it waited, and the
/// bytes of attachments.
pub(super) fn completed(mut kept: Message, mut logged: Message) -> Message {
    kept.text = std::mem::take(&mut logged.text);
    let bytes: Vec<String> = embedded(&mut logged).map(std::mem::take).collect();
    for (place, bytes) in embedded(&mut kept).zip(bytes) {
        *place = bytes;
    }
    kept
}

pub(crate) fn embedded(message: &mut Message) -> impl Iterator<Item = &mut String> {
    message
        .attachments
        .iter_mut()
        .flatten()
        .filter_map(|attachment| match attachment {
            MessageAttachment::EmbeddedResource(embedded) => Some(&mut embedded.data),
            _ => None,
        })
}
