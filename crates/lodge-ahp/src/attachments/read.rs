//! Reading attached resources when a turn begins: from the host's files, from what the host holds, and for the rest from the
//! client that attached them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ahp_types::state::{Message, MessageAttachment, MessageResourceAttachment};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::future::join_all;
use lodge_host::{attached_data, is_shown_as_it_is};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::time::timeout;

use super::{Given, Place, attached, file, not_read, selected};
use crate::{changesets, face::Face, methods::call_client, rpc::RpcError, tool_content, uri};

/// A turn begins after so long at the latest, whatever a client does.
const PATIENCE: Duration = Duration::from_secs(10);
/// Attachments of a message that are read from its client.
const ASKED: usize = 16;
/// Bytes of one that is worth asking for.
const BYTES: u64 = 8 << 20;

/// Why the model cannot be given an attachment.
#[derive(Debug, thiserror::Error)]
enum NotRead {
    #[error("the client that has it did not answer in time")]
    Silent,
    #[error("no client can be asked for it")]
    NoClient,
    #[error("it is a directory that is not on this host")]
    Directory,
    #[error("it is too large")]
    TooLarge,
    /// What the client says about it.
    #[error("{0}")]
    Refused(String),
    #[error("the answer is invalid: {0}")]
    Invalid(#[from] serde_json::Error),
    #[error("the answer is invalid: {0}")]
    NotBase64(#[from] base64::DecodeError),
}

/// What a message attaches as far as it is in files of this host, and what is elsewhere.
async fn of_host(message: &Message) -> (Given, Vec<(&MessageResourceAttachment, Place)>) {
    let mut given = Given::default();
    let mut elsewhere = Vec::new();
    for attachment in message.attachments.iter().flatten() {
        let MessageAttachment::Resource(resource) = attachment else {
            given.take(attachment);
            continue;
        };
        match Place::of(&resource.uri) {
            Place::File(path) if lodge_files::exists(path.clone()).await => {
                let text = match &resource.selection {
                    Some(_) => lodge_files::short_text(path.clone(), BYTES).await.unwrap_or_default(),
                    None => String::new(),
                };
                let selected = |range: &_| selected(&text, range);
                given.attachments.push(file(resource, path, selected));
            }
            place => elsewhere.push((resource, place)),
        }
    }
    (given, elsewhere)
}

/// Reads what a message attaches, where all of it is in files of this host.
pub(crate) async fn read_here(message: &Message) -> Option<Given> {
    let (given, elsewhere) = of_host(message).await;
    elsewhere.is_empty().then_some(given)
}

/// Reads what a message attaches. `client` is the one that sent it.
pub(crate) async fn read(face: &Arc<Face>, client: Option<&str>, message: &Message) -> Given {
    let (mut given, elsewhere) = of_host(message).await;
    let patience = PATIENCE.min(face.config.limits.client_answer);
    let contents = elsewhere.iter().enumerate().map(|(at, (resource, place))| {
        let client = client.filter(|_| at < ASKED);
        async move {
            let content = timeout(patience, content(face, client, resource, place)).await;
            content.unwrap_or(Err(NotRead::Silent))
        }
    });
    let contents = join_all(contents).await;
    // What was read comes last: the order of what clients embed tells whose bytes the log has.
    for ((resource, _), content) in elsewhere.iter().zip(contents) {
        match content {
            Ok(Found::Here(path, text)) => {
                let selected = |range: &_| selected(&text, range);
                given.attachments.push(file(resource, path, selected));
            }
            Ok(Found::Content(content)) => given.content(resource, content),
            Err(why) => {
                given.texts.push(not_read(resource, &why.to_string()));
                // Perhaps it is about to be made.
                given
                    .attachments
                    .extend(uri::path(&resource.uri).map(|path| file(resource, path, |_| String::new())));
            }
        }
    }
    given
}

struct Content {
    bytes: Vec<u8>,
    kind: Option<String>,
}

/// What is behind an address that names no file of this host for certain.
enum Found {
    /// A file of this host after all, and its text.
    Here(PathBuf, String),
    Content(Content),
}

impl Given {
    fn content(&mut self, resource: &MessageResourceAttachment, content: Content) {
        let kind = content.kind.as_deref().or(resource.content_type.as_deref());
        if let Some(kind) = kind.filter(|kind| is_shown_as_it_is(kind)) {
            let data = STANDARD.encode(&content.bytes);
            let label = Some(resource.label.clone());
            self.attachments.push(attached_data(kind, data, label));
            return;
        }
        self.texts.push(match String::from_utf8(content.bytes) {
            Ok(text) => attached(resource).quote(&text),
            Err(_) => not_read(resource, "it is not text"),
        });
    }
}

/// What is behind the address of a resource.
async fn content(
    face: &Arc<Face>,
    client: Option<&str>,
    resource: &MessageResourceAttachment,
    place: &Place,
) -> Result<Found, NotRead> {
    if let Place::Held(address) = place
        && let Some(held) = held(face, address).await
    {
        return Ok(Found::Content(held));
    }
    if resource.display_kind.as_deref() == Some("directory") {
        return match (place, client) {
            (Place::Machine(path), Some(client)) if is_same_directory(face, client, resource, path).await => {
                Ok(Found::Here(path.clone(), String::new()))
            }
            _ => Err(NotRead::Directory),
        };
    }
    let content = of_client(face, client.ok_or(NotRead::NoClient)?, resource).await?;
    // Names of machines mean nothing here. A file of this path with the content that the client sees may well be the same; any
    // other is not what the person attached, and nobody asked for it.
    if let Place::Machine(path) = place
        && lodge_files::holds(path.clone(), &content.bytes).await
    {
        let text = String::from_utf8_lossy(&content.bytes).into_owned();
        return Ok(Found::Here(path.clone(), text));
    }
    Ok(Found::Content(content))
}

#[derive(Deserialize)]
struct Entry {
    name: String,
}

#[derive(Deserialize)]
struct Entries {
    entries: Vec<Entry>,
}

/// Whether a directory of this host has the entries that the client sees.
async fn is_same_directory(face: &Arc<Face>, client: &str, resource: &MessageResourceAttachment, path: &Path) -> bool {
    let Ok(answer) = ask(face, client, "resourceList", resource).await else {
        return false;
    };
    let Ok(Entries { entries }) = serde_json::from_str(answer.get()) else {
        return false;
    };
    let theirs: BTreeSet<String> = entries.into_iter().map(|entry| entry.name).collect();
    lodge_files::has_exactly(path.to_owned(), theirs).await
}

/// What the host holds under an address of its own.
async fn held(face: &Arc<Face>, address: &str) -> Option<Content> {
    if let Some(bytes) = changesets::read(face, address).await {
        return Some(Content {
            bytes: bytes.ok()?,
            kind: None,
        });
    }
    let (session, name) = uri::session_of_content(address)?;
    let found = tool_content::read(face, session, &name).await?;
    Some(Content {
        bytes: found.bytes,
        kind: found.kind,
    })
}

#[derive(Deserialize)]
struct Resolved {
    #[serde(default)]
    size: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    data: String,
    #[serde(default)]
    encoding: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
}

async fn ask(
    face: &Arc<Face>,
    client: &str,
    method: &str,
    resource: &MessageResourceAttachment,
) -> Result<Box<RawValue>, RpcError> {
    let params = json!({ "channel": ahp_types::ROOT_RESOURCE_URI, "uri": resource.uri });
    call_client(face, client, method, &params.to_string()).await
}

async fn of_client(face: &Arc<Face>, client: &str, resource: &MessageResourceAttachment) -> Result<Content, NotRead> {
    let ask = async |method: &str| ask(face, client, method, resource).await;
    // An answer that is too large would end the client's connection. What is in no file has no size to tell.
    let size = match resource.size_hint {
        Some(size) => u64::try_from(size).ok(),
        None => {
            let resolved = ask("resourceResolve").await;
            resolved
                .ok()
                .and_then(|answer| serde_json::from_str::<Resolved>(answer.get()).ok()?.size)
        }
    };
    if size.is_some_and(|size| size > BYTES) {
        return Err(NotRead::TooLarge);
    }
    let answer = ask("resourceRead")
        .await
        .map_err(|error: RpcError| NotRead::Refused(error.message))?;
    let read: Read = serde_json::from_str(answer.get())?;
    let bytes = match read.encoding.as_deref() {
        Some("base64") => STANDARD.decode(read.data)?,
        _ => read.data.into_bytes(),
    };
    Ok(Content {
        bytes,
        kind: read.content_type,
    })
}
