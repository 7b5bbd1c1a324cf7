//! What completes a message: commands, files, names that they define, other chats.

use std::path::PathBuf;

use ahp_types::{
    commands::{CompletionItem, CompletionsResult},
    common::JsonObject,
    state::{
        MessageAttachment, MessageChatAttachment, MessageResourceAttachment, SimpleMessageAttachment, TextPosition,
        TextRange, TextSelection,
    },
};
use lodge_files::{Completed, Completion, Mention, Symbol, mention};
use lodge_host::CommandInfo;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Request;
use crate::{
    rpc::{self, RpcError, RpcResult, code},
    uri,
};

/// So many completions are offered at most.
const COMPLETIONS: usize = 50;

/// What a reference to another chat begins with, after its `#`.
const CHAT: &str = "chat:";

/// What clients are told of a command.
#[derive(Serialize)]
struct CommandMeta<'a> {
    command: &'a str,
    description: &'a str,
    hint: Option<&'a str>,
}

/// What clients are told of a name in a file.
#[derive(Serialize)]
struct SymbolMeta<'a> {
    uri: &'a str,
    kind: &'a str,
    path: &'a str,
}

#[derive(Deserialize)]
struct Completions {
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    session: Option<String>,
    kind: String,
    text: String,
    offset: rpc::Whole,
}

/// Files of the session's directory for what follows an `@` or `#`, there also names that they define; commands for a `/` at the beginning.
pub(super) async fn completions(request: &Request<'_>) -> RpcResult {
    let params: Completions = rpc::params(request.params)?;
    if params.kind != "userMessage" {
        return Err(RpcError::params(format!(
            "there are no completions for {:?}",
            params.kind
        )));
    }
    let thing = if request.is_seed() { "session" } else { "chat" };
    let named = params
        .channel
        .or(params.session)
        .ok_or_else(|| RpcError::params(format!("no {thing} is named")))?;
    request
        .face
        .open(&named)
        .await
        .map_err(|_| RpcError::new(code::SESSION_NOT_FOUND, format!("there is no {thing} {named}")))?;
    let length = params.text.encode_utf16().count();
    let offset = usize::try_from(params.offset.0).unwrap_or(usize::MAX);
    if offset > length {
        return Err(RpcError::params("the offset is outside the text"));
    }
    if let Some(word) = command(&params.text, offset) {
        return commands(request, &named, &word, offset).await;
    }
    let items = match mention(&params.text, offset) {
        Some(typed) if typed.trigger != '/' => {
            let mut items = other_chats(request, &named, &typed, offset);
            items.extend(files(request, &named, typed, offset).await);
            items.truncate(COMPLETIONS);
            items
        }
        _ => Vec::new(),
    };
    rpc::ok(CompletionsResult { items })
}

/// The beginning of a command that is being typed.
fn command(text: &str, offset: usize) -> Option<String> {
    let units: Vec<u16> = text.encode_utf16().take(offset).collect();
    let before = String::from_utf16_lossy(&units);
    let word = before.strip_prefix('/')?;
    (!word.contains(|c: char| c.is_whitespace() || c == '/')).then(|| word.to_lowercase())
}

/// The commands that begin so, then those that have it in their names.
async fn commands(request: &Request<'_>, chat: &str, word: &str, offset: usize) -> RpcResult {
    let (id, has_begun) = {
        // Editors ask with the session's address.
        let inner = request.face.inner.lock();
        let of_session = inner.core.sessions.get(chat).map(|entry| &*entry.default_chat);
        let chat = of_session.unwrap_or(chat);
        let has_begun = inner
            .core
            .chats
            .get(chat)
            .is_some_and(|chat| !chat.store().turns().is_empty());
        (
            inner.conversations.get(chat).map(|talk| talk.host_id.clone()),
            has_begun,
        )
    };
    let session = match id {
        Some(id) => request.face.host.open_session(&id).await.ok(),
        None => None,
    };
    let known = match session {
        Some(session) => session.commands().await,
        None => future_commands(request, chat).await,
    };
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for command in known {
        let begins = command.name.starts_with(word);
        // What nothing was said in yet is called by the first thing that is.
        let is_early = command.name == "rename" && !has_begun;
        if is_early || !begins && !command.name.contains(word) {
            continue;
        }
        let insert = format!("/{} ", command.name);
        let meta = CommandMeta {
            command: &command.name,
            description: &command.description,
            hint: command.hint.as_deref(),
        };
        let attachment = MessageAttachment::Simple(SimpleMessageAttachment {
            label: insert.trim_end().to_owned(),
            range: None,
            display_kind: Some("command".to_owned()),
            meta: object(&meta),
            model_representation: None,
        });
        let item = item(insert, (0, offset), attachment);
        if begins { first.push(item) } else { later.push(item) }
    }
    first.extend(later);
    first.truncate(COMPLETIONS);
    rpc::ok(CompletionsResult { items: first })
}

/// The commands that a chat will have in which nobody spoke yet.
async fn future_commands(request: &Request<'_>, chat: &str) -> Vec<CommandInfo> {
    let plugins = {
        let inner = request.face.inner.lock();
        let entry = inner.core.entry_of(chat);
        let talk = entry.and_then(|entry| inner.conversations.get(&entry.default_chat));
        talk.map(|talk| talk.plugins.clone()).unwrap_or_default()
    };
    let cwd = directories(request, chat).into_iter().next().unwrap_or_default();
    request.face.host.commands(cwd, plugins).await
}

/// Other chats of the session that can be referred to by `#chat:`, as they are after their last turn.
fn other_chats(request: &Request<'_>, channel: &str, typed: &Mention, offset: usize) -> Vec<CompletionItem> {
    let word = typed.word.to_lowercase();
    let wanted = match word.strip_prefix(CHAT) {
        Some(wanted) => wanted,
        None if !word.is_empty() && CHAT.starts_with(&word) => "",
        None => return Vec::new(),
    };
    let inner = request.face.inner.lock();
    let Some(entry) = inner.core.entry_of(channel) else {
        return Vec::new();
    };
    let asked = if inner.conversations.contains_key(channel) {
        channel
    } else {
        &*entry.default_chat
    };
    let others = entry
        .state
        .chats
        .iter()
        .filter(|chat| typed.trigger == '#' && chat.resource != asked);
    let items = others.filter_map(|chat| {
        let last = inner.core.chats.get(chat.resource.as_str())?.store().turns().last()?;
        let is_default = chat.title.is_empty() && *entry.default_chat == *chat.resource;
        let title = if is_default { &entry.state.title } else { &chat.title };
        let label = title.split_whitespace().collect::<Vec<_>>().join(" ");
        let fits = !label.is_empty() && label.to_lowercase().contains(wanted);
        (fits && inner.conversations.contains_key(chat.resource.as_str())).then(|| {
            let insert = format!("#{CHAT}{label} ");
            let attachment = MessageAttachment::Chat(MessageChatAttachment {
                label,
                range: None,
                display_kind: None,
                meta: None,
                resource: chat.resource.clone(),
                end_turn: Some(last.id.to_string()),
            });
            item(insert, (typed.start, offset), attachment)
        })
    });
    items.collect()
}

/// Files, directories and names of a session's directories. A file is called by its name, which is a reference to it; a directory is a
/// step on the way to one.
async fn files(request: &Request<'_>, channel: &str, typed: Mention, offset: usize) -> Vec<CompletionItem> {
    let Mention { trigger, word, start } = typed;
    let (roots, with_symbols) = (directories(request, channel), trigger == '#' && !word.is_empty());
    let (indexes, symbols) = (&request.face.indexes, &request.face.symbols);
    let found = symbols.complete(indexes, roots, word, with_symbols, COMPLETIONS).await;
    let item_of = |found: Completion| {
        let name = found.path.file_name().unwrap_or_default().to_string_lossy();
        let (insert, kind) = match &found.what {
            Completed::File => (format!("{trigger}{name}"), "document"),
            Completed::Directory => (format!("{trigger}{}/", found.label), "directory"),
            Completed::Symbol(symbol) => (format!("#{} ", symbol.name), "symbol"),
        };
        let uri = uri::file(&found.path);
        let (selection, meta) = match &found.what {
            Completed::Symbol(symbol) => selected(symbol, &uri),
            Completed::File | Completed::Directory => (None, None),
        };
        let resource = MessageResourceAttachment {
            label: found.label,
            range: None,
            display_kind: Some(kind.to_owned()),
            meta,
            uri,
            size_hint: None,
            content_type: None,
            nonce: None,
            selection,
        };
        item(insert, (start, offset), MessageAttachment::Resource(resource))
    };
    found.into_iter().map(item_of).collect()
}

/// Where a symbol is, and what clients are told of it.
fn selected(symbol: &Symbol, uri: &str) -> (Option<TextSelection>, Option<JsonObject>) {
    let position = |column: usize| TextPosition {
        line: whole(symbol.line),
        character: whole(column),
    };
    let range = TextRange {
        start: position(symbol.column),
        end: position(symbol.column + symbol.name.encode_utf16().count()),
    };
    let meta = SymbolMeta {
        uri,
        kind: symbol.kind,
        path: &symbol.path,
    };
    (Some(TextSelection { range }), object(&meta))
}

fn item(insert_text: String, (start, end): (usize, usize), attachment: MessageAttachment) -> CompletionItem {
    CompletionItem {
        insert_text,
        range_start: Some(whole(start)),
        range_end: Some(whole(end)),
        attachment,
    }
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn object(meta: &impl Serialize) -> Option<JsonObject> {
    match serde_json::to_value(meta) {
        Ok(Value::Object(meta)) => Some(meta),
        _ => None,
    }
}

/// The directories of a chat, or of the default chat of a session.
fn directories(request: &Request<'_>, channel: &str) -> Vec<PathBuf> {
    let inner = request.face.inner.lock();
    let all = inner.directories_of(channel);
    all.iter().filter_map(|directory| uri::path(directory)).collect()
}
