//! What can be set about a session, and what completes a message.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use lodge_files::{Completions as Names, Found, Mention, Symbol, mention};
use lodge_host::CommandInfo;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Request;
use crate::{
    rpc::{self, RpcError, RpcResult, code},
    session_config::{Branching, branching, values, without_model},
    uri,
};

/// So many completions are offered at most.
const COMPLETIONS: usize = 50;

/// So many branches; who wants another types a part of its name.
const BRANCHES: usize = 25;

/// What a reference to another chat begins with, after its `#`.
const CHAT: &str = "chat:";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resolve {
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    working_directory: Option<String>,
    #[serde(default)]
    config: Option<Map<String, Value>>,
    /// What is to be completed.
    #[serde(default)]
    property: Option<String>,
    #[serde(default)]
    query: Option<String>,
}

/// What a session would be like.
struct Resolved {
    schema: std::sync::Arc<Value>,
    git: Option<Branching>,
    branches: Vec<String>,
    given: Map<String, Value>,
}

async fn resolved(request: &Request<'_>, params: &Resolve) -> Result<Resolved, RpcError> {
    if let Some(provider) = params
        .provider
        .as_deref()
        .filter(|provider| !uri::is_provider(provider))
    {
        return Err(RpcError::new(
            code::PROVIDER_NOT_FOUND,
            format!("there is no provider {provider:?}"),
        ));
    }
    let given = params.config.clone().unwrap_or_default();
    // A value that is gone by now is left out, for clients ask with what they remember. What is no text was never one.
    for setting in ["model", "mode", "autoApprove", "isolation", "branch"] {
        super::sessions::text(Some(&given), setting)?;
    }
    let directory = params.working_directory.as_deref().and_then(uri::path);
    let directory = directory.or_else(|| request.face.config.default_directory.clone());
    let (git, branches) = match directory {
        Some(directory) => branching(directory, &given).await,
        None => (None, Vec::new()),
    };
    Ok(Resolved {
        schema: request.face.config_schema(git.as_ref(), &branches, false),
        git,
        branches,
        given,
    })
}

/// The whole schema, and a value for everything in it.
pub(super) async fn resolve(request: &Request<'_>) -> RpcResult {
    let params: Resolve = rpc::params(request.params)?;
    let resolved = resolved(request, &params).await?;
    let mut schema = Value::clone(&resolved.schema);
    if request.peer()?.is_editor() {
        without_model(&mut schema);
    }
    let values = values(&schema, resolved.git.as_ref(), &resolved.given);
    rpc::ok(json!({ "schema": schema, "values": values }))
}

/// Values of a property that fit what was typed: branches are looked up, all else is in the schema.
pub(super) async fn config_completions(request: &Request<'_>) -> RpcResult {
    let params: Resolve = rpc::params(request.params)?;
    let Some(name) = params.property.clone() else {
        return Err(RpcError::params("no property is named"));
    };
    let resolved = resolved(request, &params).await?;
    let property = &resolved.schema["properties"][&name];
    let query = params.query.unwrap_or_default().to_lowercase();
    let text = |list: &Value, at: usize| list.get(at).and_then(Value::as_str).map(str::to_owned);
    let fits = |text: &str| text.to_lowercase().contains(&query);
    if property["enumDynamic"] == true {
        let found = resolved.branches.iter().filter(|branch| fits(branch)).take(BRANCHES);
        let items: Vec<Value> = found
            .map(|branch| json!({ "value": branch, "label": branch }))
            .collect();
        return rpc::ok(json!({ "items": items }));
    }
    let items: Vec<Value> = property["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(at, value)| {
            let label = text(&property["enumLabels"], at)?;
            let mut item = json!({ "value": value, "label": label });
            if let Some(description) = text(&property["enumDescriptions"], at) {
                item["description"] = description.into();
            }
            (fits(&label) || fits(value.as_str()?)).then_some(item)
        })
        .collect();
    rpc::ok(json!({ "items": items }))
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
    rpc::ok(json!({ "items": items }))
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
        (inner.talks.get(chat).map(|talk| talk.host_id.clone()), has_begun)
    };
    let session = match id {
        Some(id) => request.face.open_session(&id).await.ok(),
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
        let item = json!({
            "insertText": insert,
            "rangeStart": 0,
            "rangeEnd": offset,
            "attachment": {
                "type": "simple",
                "label": insert.trim_end(),
                "displayKind": "command",
                "_meta": { "command": command.name, "description": command.description, "hint": command.hint },
            },
        });
        if begins { first.push(item) } else { later.push(item) }
    }
    first.extend(later);
    first.truncate(COMPLETIONS);
    rpc::ok(json!({ "items": first }))
}

/// The commands that a chat will have in which nobody spoke yet.
async fn future_commands(request: &Request<'_>, chat: &str) -> Vec<CommandInfo> {
    let plugins = {
        let inner = request.face.inner.lock();
        let talk = inner.core.session_of(chat).and_then(|session| {
            let entry = inner.core.sessions.get(&session)?;
            inner.talks.get(&entry.default_chat)
        });
        talk.map(|talk| talk.plugins.clone()).unwrap_or_default()
    };
    let cwd = directories(request, chat).into_iter().next().unwrap_or_default();
    request.face.host.commands(cwd, plugins).await
}

/// Other chats of the session that can be referred to by `#chat:`, as they are after their last turn.
fn other_chats(request: &Request<'_>, channel: &str, typed: &Mention, offset: usize) -> Vec<Value> {
    let word = typed.word.to_lowercase();
    let wanted = match word.strip_prefix(CHAT) {
        Some(wanted) => wanted,
        None if !word.is_empty() && CHAT.starts_with(&word) => "",
        None => return Vec::new(),
    };
    let inner = request.face.inner.lock();
    let session = inner.core.session_of(channel);
    let Some(entry) = session.and_then(|session| inner.core.sessions.get(&session)) else {
        return Vec::new();
    };
    let asked = if inner.talks.contains_key(channel) {
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
        (fits && inner.talks.contains_key(chat.resource.as_str())).then(|| {
            json!({
                "insertText": format!("#{CHAT}{label} "),
                "rangeStart": typed.start,
                "rangeEnd": offset,
                "attachment": { "type": "chat", "resource": chat.resource, "endTurn": &*last.id, "label": label },
            })
        })
    });
    items.collect()
}

async fn files(request: &Request<'_>, channel: &str, typed: Mention, offset: usize) -> Vec<Value> {
    let roots = directories(request, channel);
    let (indexes, symbols) = (&request.face.indexes, &request.face.symbols);
    let with_symbols = typed.trigger == '#' && !typed.word.is_empty();
    let found = symbols.complete(indexes, roots.clone(), typed.word, with_symbols, COMPLETIONS);
    let range = (typed.start, offset);
    let of_root = |found: Names| {
        let Names { root, symbols, files } = &found;
        let symbols = symbols.iter().map(|symbol| symbol_item(root, symbol, range));
        let files = files.iter().map(|found| file_item(root, found, typed.trigger, range));
        symbols.chain(files).collect()
    };
    let mut items = in_turn(found.await.into_iter().map(of_root).collect());
    tell_apart(&roots, &mut items);
    items
}

/// The best of each directory, then the second best of each, and so on. What lies in two of them is one thing.
fn in_turn(lists: Vec<Vec<Value>>) -> Vec<Value> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut items: Vec<Value> = Vec::new();
    while items.len() < COMPLETIONS {
        let next: Vec<Value> = lists.iter_mut().filter_map(Iterator::next).collect();
        if next.is_empty() {
            break;
        }
        for item in next {
            let (uri, at) = (&item["attachment"]["uri"], &item["attachment"]["selection"]);
            let is_it = |known: &Value| known["attachment"]["uri"] == *uri && known["attachment"]["selection"] == *at;
            if !items.iter().any(is_it) {
                items.push(item);
            }
        }
    }
    items.truncate(COMPLETIONS);
    items
}

/// A file is called by its name, which is a reference to it; a directory is a step on the way to one.
fn file_item(root: &Path, found: &Found, trigger: char, (start, end): (usize, usize)) -> Value {
    let uri = uri::file(root.join(&found.path));
    let name = found.path.rsplit('/').next().unwrap_or(&found.path);
    let (kind, insert, label) = if found.is_dir {
        ("directory", format!("{trigger}{}/", found.path), &*found.path)
    } else {
        ("document", format!("{trigger}{name}"), name)
    };
    json!({
        "insertText": insert,
        "rangeStart": start,
        "rangeEnd": end,
        "attachment": { "type": "resource", "label": label, "displayKind": kind, "uri": uri },
    })
}

/// Files of the same name are shown with where they are.
fn tell_apart(roots: &[PathBuf], items: &mut [Value]) {
    let is_file = |item: &Value| item["attachment"]["displayKind"] == "document";
    let mut named: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, item) in items.iter().enumerate().filter(|(_, item)| is_file(item)) {
        let label = item["attachment"]["label"].as_str().unwrap_or_default();
        named.entry(label.to_owned()).or_default().push(at);
    }
    for at in named.into_values().filter(|same| same.len() > 1).flatten() {
        let attachment = &mut items[at]["attachment"];
        let Some(path) = attachment["uri"].as_str().and_then(uri::path) else {
            continue;
        };
        // The innermost of the directories that it lies in.
        let owner = roots
            .iter()
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.as_os_str().len());
        let Some(root) = owner else { continue };
        let below = path.strip_prefix(root).unwrap_or(&path).display();
        attachment["label"] = format!("{} • {below}", short_name(roots, root)).into();
    }
}

/// A directory by the fewest of its last parts that no other directory ends with.
fn short_name(roots: &[PathBuf], root: &Path) -> String {
    let ends = |path: &Path, count: usize| -> PathBuf {
        let parts: Vec<_> = path.components().collect();
        parts[parts.len().saturating_sub(count)..].iter().collect()
    };
    let is_alone = |count: &usize| {
        let shared = |other: &&PathBuf| other.as_path() != root && ends(other, *count) == ends(root, *count);
        !roots.iter().any(|other| shared(&other))
    };
    let count = (1..=root.components().count()).find(is_alone).unwrap_or(usize::MAX);
    ends(root, count).display().to_string()
}

fn symbol_item(root: &Path, symbol: &Symbol, (start, end): (usize, usize)) -> Value {
    let uri = uri::file(root.join(&*symbol.path));
    let until = symbol.column + symbol.name.encode_utf16().count();
    json!({
        "insertText": format!("#{} ", symbol.name),
        "rangeStart": start,
        "rangeEnd": end,
        "attachment": {
            "type": "resource", "label": symbol.name, "displayKind": "symbol", "uri": uri,
            "selection": { "range": {
                "start": { "line": symbol.line, "character": symbol.column },
                "end": { "line": symbol.line, "character": until },
            } },
            "_meta": { "uri": uri, "kind": symbol.kind, "path": &*symbol.path },
        },
    })
}

/// The directories of a chat, or of the default chat of a session.
fn directories(request: &Request<'_>, channel: &str) -> Vec<PathBuf> {
    let inner = request.face.inner.lock();
    let all = inner.directories_of(channel);
    all.iter().filter_map(|directory| uri::path(directory)).collect()
}
