//! Messages: from the blocks of a prompt to a message for the agent, and back.

use std::path::PathBuf;

use lodge_events::{Attachment, DirectoryAttachment, FileAttachment, LineRange, UserMessage};
use lodge_files::{is_directory, uri};
use lodge_host::{Attached, Prompt, attached_data};
use lodge_rpc::Error;

use crate::wire::{ContentBlock, Resource};

/// Builds a message from these blocks. Content that the client embeds for the model is not shown to people.
pub(crate) fn prompt(blocks: Vec<ContentBlock>) -> Result<Prompt, Error> {
    let (mut shown, mut context) = (String::new(), String::new());
    let mut attachments = Vec::new();
    let mut gap = LINE;
    for block in blocks {
        match block {
            ContentBlock::Text { text } => {
                join(&mut shown, gap, &text);
                gap = LINE;
            }
            ContentBlock::Image { data, mime_type } => attachments.push(attached_data(mime_type, data, None)),
            ContentBlock::Audio { .. } => return Err(Error::params("Audio is not supported.")),
            ContentBlock::ResourceLink { name, uri: link, .. } => {
                let path = uri::path(&link);
                let shape = path
                    .as_ref()
                    .map_or_else(|| format!("[{name}]({link})"), |_| format!("@{name}"));
                join(&mut shown, WORD, &shape);
                gap = WORD;
                attachments.extend(path.map(|path| file(path, uri::lines(&link), name)));
            }
            ContentBlock::Resource { resource } => {
                let name = name_of(&resource.uri);
                join(&mut shown, WORD, &format!("@{name}"));
                gap = WORD;
                match (resource.text, resource.blob) {
                    (Some(text), _) => {
                        let attached = Attached {
                            label: &name,
                            address: &resource.uri,
                            lines: None,
                        };
                        context.push_str(&format!("\n\n{}", attached.quote(&text)));
                    }
                    (None, Some(data)) => {
                        let kind = resource.mime_type.unwrap_or_else(|| "application/octet-stream".into());
                        attachments.push(attached_data(kind, data, Some(name)));
                    }
                    (None, None) => return Err(Error::params("A resource needs a text or a blob.")),
                }
            }
        }
    }
    if shown.trim().is_empty() && context.is_empty() && attachments.is_empty() {
        return Err(Error::params("The prompt is empty."));
    }
    Ok(Prompt {
        text: format!("{shown}{context}"),
        display_text: (!context.is_empty()).then_some(shown),
        attachments,
        ..Prompt::default()
    })
}

/// What separates a text from the text before it, and a name from what is around it.
const LINE: char = '\n';
const WORD: char = ' ';

/// Adds a text, separate from what is there. What ends a word or a sentence stays with it.
fn join(text: &mut String, gap: char, more: &str) {
    let is_glued = !text.is_empty() && !text.ends_with(char::is_whitespace) && !more.starts_with(char::is_whitespace);
    if is_glued && !(gap == WORD && more.starts_with(['.', ',', ';', ':', '!', '?', ')', '\'', '"'])) {
        text.push(gap);
    }
    text.push_str(more);
}

/// A link does not say whether it leads to a directory ([`find_directories`]).
fn file(path: PathBuf, lines: Option<(u64, u64)>, display_name: String) -> Attachment {
    Attachment::File(FileAttachment {
        line_range: lines.map(|(start, end)| LineRange { start, end }),
        path: path.to_string_lossy().into_owned(),
        display_name,
        ..FileAttachment::default()
    })
}

/// Looks which of the linked files are directories.
pub(crate) async fn find_directories(attachments: &mut [Attachment]) {
    for attachment in attachments {
        if let Attachment::File(file) = attachment
            && is_directory(file.path.clone().into()).await.is_ok_and(|is| is)
        {
            *attachment = Attachment::Directory(DirectoryAttachment {
                path: std::mem::take(&mut file.path),
                display_name: std::mem::take(&mut file.display_name),
                ..DirectoryAttachment::default()
            });
        }
    }
}

/// The last part of an address.
fn name_of(uri: &str) -> String {
    let whole = uri.split(['?', '#']).next().unwrap_or(uri).trim_end_matches('/');
    whole.rsplit('/').next().unwrap_or(whole).to_owned()
}

pub(crate) fn blocks(message: &UserMessage) -> Vec<ContentBlock> {
    let mut blocks = Vec::new();
    if !message.content.is_empty() {
        blocks.push(message.content.clone().into());
    }
    blocks.extend(message.attachments.iter().flatten().filter_map(attachment));
    blocks
}

fn attachment(attachment: &Attachment) -> Option<ContentBlock> {
    let link = |path: &str, lines: Option<&LineRange>, name: &str| {
        Some(ContentBlock::ResourceLink {
            name: name.to_owned(),
            uri: uri::file_lines(path, lines.map(|lines| (lines.start, lines.end))),
            mime_type: None,
        })
    };
    match attachment {
        Attachment::File(file) => link(&file.path, file.line_range.as_ref(), &file.display_name),
        Attachment::Directory(directory) => link(&directory.path, None, &directory.display_name),
        Attachment::Selection(selection) => Some(ContentBlock::Resource {
            resource: Resource {
                uri: uri::file_lines(
                    &selection.file_path,
                    Some((selection.selection.start.line + 1, selection.selection.end.line + 1)),
                ),
                mime_type: None,
                text: Some(selection.text.clone()),
                blob: None,
            },
        }),
        Attachment::Blob(blob) => {
            let (data, mime_type) = (blob.data.clone()?, blob.mime_type.clone());
            Some(match mime_type.starts_with("image/") {
                true => ContentBlock::Image { data, mime_type },
                false => ContentBlock::Resource {
                    resource: Resource {
                        uri: format!("attachment:{}", blob.display_name.as_deref().unwrap_or("data")),
                        mime_type: Some(mime_type),
                        text: None,
                        blob: Some(data),
                    },
                },
            })
        }
        Attachment::GithubReference(reference) => Some(ContentBlock::ResourceLink {
            name: format!("#{} {}", reference.number, reference.title),
            uri: reference.url.clone(),
            mime_type: None,
        }),
        Attachment::Other(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(blocks: Value) -> Result<Prompt, Error> {
        prompt(serde_json::from_value(blocks).unwrap())
    }

    #[test]
    fn every_kind_of_block_reaches_the_agent() {
        let said = read(json!([
            { "type": "text", "text": "Look at " },
            { "type": "resource_link", "name": "lib.rs", "uri": "file:///src/lib.rs#L3:9" },
            { "type": "text", "text": ", " },
            { "type": "resource_link", "name": "page", "uri": "https://example.org/" },
            { "type": "text", "text": " and " },
            { "type": "resource", "resource": { "uri": "file:///a/b.txt?x#L1", "text": "buffer" } },
            { "type": "image", "data": "aGk=", "mimeType": "image/png" },
            { "type": "resource", "resource": { "uri": "zed:///x.pdf", "blob": "aGk=", "mimeType": "application/pdf" } },
        ]))
        .unwrap();
        let shown = "Look at @lib.rs, [page](https://example.org/) and @b.txt @x.pdf";
        assert_eq!(said.display_text.as_deref(), Some(shown));
        let context = "\n\n<attachment name=\"b.txt\" uri=\"file:///a/b.txt?x#L1\">\nbuffer\n</attachment>";
        assert_eq!(said.text, format!("{shown}{context}"));
        let kinds: Vec<_> = said
            .attachments
            .iter()
            .map(|attachment| match attachment {
                Attachment::File(file) => file.path.as_str(),
                Attachment::Blob(blob) => blob.mime_type.as_str(),
                _ => "other",
            })
            .collect();
        assert_eq!(kinds, ["/src/lib.rs", "image/png", "application/pdf"]);
        let back = blocks(&UserMessage {
            content: shown.to_owned(),
            attachments: Some(said.attachments),
            ..UserMessage::default()
        });
        assert_eq!(json!(back[1])["uri"], "file:///src/lib.rs#L3:9");
        let kinds: Vec<Value> = back.iter().map(|block| json!(block)["type"].clone()).collect();
        assert_eq!(kinds, ["text", "resource_link", "image", "resource"]);
    }

    #[test]
    fn blocks_are_not_glued_together() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        let link = || json!({ "type": "resource_link", "name": "a", "uri": "file:///a" });
        let image = || json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
        for (blocks, expected) in [
            (json!([text("one"), text("two")]), "one\ntwo"),
            (json!([text("one "), text("two")]), "one two"),
            (json!([text("one"), text("\ntwo")]), "one\ntwo"),
            (json!([text("one"), image(), text("two")]), "one\ntwo"),
            (json!([text("see"), link(), text("first")]), "see @a first"),
            (json!([text("see "), link(), text(", first")]), "see @a, first"),
            (json!([link(), link()]), "@a @a"),
            (json!([text("."), text(".")]), ".\n."),
        ] {
            assert_eq!(read(blocks.clone()).unwrap().text, expected, "{blocks}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for (blocks, why) in [
            (json!([]), "empty"),
            (json!([{ "type": "text", "text": " \n" }]), "empty"),
            (
                json!([{ "type": "audio", "data": "", "mimeType": "audio/wav" }]),
                "Audio",
            ),
            (
                json!([{ "type": "resource", "resource": { "uri": "a:b" } }]),
                "text or a blob",
            ),
        ] {
            let error = read(blocks.clone()).unwrap_err();
            assert!(error.message.contains(why), "{blocks}: {error:?}");
        }
    }
}
