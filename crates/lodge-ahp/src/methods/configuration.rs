//! What can be set about a session, and what completes a message.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Request;
use crate::{
    load::config_schema,
    rpc::{self, RpcError, RpcResult, code},
    uri,
};

/// So many completions are offered at most.
const COMPLETIONS: usize = 50;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resolve {
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    config: Option<Map<String, Value>>,
}

/// The whole schema, and a value for everything in it.
pub(super) async fn resolve(request: &Request<'_>) -> RpcResult {
    let params: Resolve = rpc::params(request.params)?;
    if let Some(provider) = params.provider.as_deref().filter(|provider| *provider != uri::PROVIDER) {
        return Err(RpcError::new(
            code::PROVIDER_NOT_FOUND,
            format!("there is no provider {provider:?}"),
        ));
    }
    let schema = config_schema();
    let given = params.config.unwrap_or_default();
    let mut values = Map::new();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let allowed = property["enum"].as_array();
        let chosen = given
            .get(key)
            .filter(|value| allowed.is_none_or(|allowed| allowed.contains(value)));
        values.insert(key.clone(), chosen.unwrap_or(&property["default"]).clone());
    }
    rpc::ok(json!({ "schema": &*schema, "values": values }))
}

/// No property of this host has values that must be looked up: what can be chosen is in the schema.
pub(super) async fn config_completions(request: &Request<'_>) -> RpcResult {
    #[derive(Deserialize)]
    struct Params {
        property: String,
        #[serde(default)]
        query: Option<String>,
    }
    let params: Params = rpc::params(request.params)?;
    let schema = config_schema();
    let property = &schema["properties"][&params.property];
    let query = params.query.unwrap_or_default().to_lowercase();
    let text = |list: &Value, at: usize| list.get(at).and_then(Value::as_str).map(str::to_owned);
    let items: Vec<Value> = property["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(at, value)| {
            let label = text(&property["enumLabels"], at)?;
            let hit = label.to_lowercase().contains(&query) || value.as_str()?.to_lowercase().contains(&query);
            hit.then(
                || json!({ "value": value, "label": label, "description": text(&property["enumDescriptions"], at) }),
            )
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
    #[serde(default)]
    kind: String,
    text: String,
    offset: f64,
}

/// Files of the session's directory for what follows an `@` or `#`.
pub(super) async fn completions(request: &Request<'_>) -> RpcResult {
    let params: Completions = rpc::params(request.params)?;
    if params.kind != "userMessage" {
        return Err(RpcError::params(format!(
            "there are no completions for {:?}",
            params.kind
        )));
    }
    let named = params
        .channel
        .or(params.session)
        .ok_or_else(|| RpcError::params("no chat is named"))?;
    request
        .face
        .open(&named)
        .await
        .map_err(|_| RpcError::new(code::NOT_FOUND, format!("there is no chat {named}")))?;
    let length = params.text.encode_utf16().count();
    if params.offset.fract() != 0.0 || !(0.0..=length as f64).contains(&params.offset) {
        return Err(RpcError::params("the offset is outside of the text"));
    }
    let offset = params.offset as usize;
    let Some((start, word)) = mention(&params.text, offset) else {
        return rpc::ok(json!({ "items": [] }));
    };
    let Some(root) = directory(request, &named) else {
        return rpc::ok(json!({ "items": [] }));
    };
    let items = tokio::task::spawn_blocking(move || {
        let found = find(&root, &word).into_iter().map(|(path, is_dir)| {
            let shown = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
            let kind = if is_dir { "directory" } else { "file" };
            let uri = uri::file(&path);
            json!({
                "insertText": format!("@{shown} "),
                "rangeStart": start,
                "rangeEnd": offset,
                "attachment": { "type": "resource", "label": shown, "displayKind": kind, "uri": uri, "_meta": { "uri": uri } },
            })
        });
        found.collect::<Vec<Value>>()
    });
    rpc::ok(json!({ "items": items.await.map_err(RpcError::internal)? }))
}

/// What is being typed after a trigger, and where that begins, in UTF-16 units.
fn mention(text: &str, offset: usize) -> Option<(usize, String)> {
    let units: Vec<u16> = text.encode_utf16().take(offset).collect();
    let before = String::from_utf16_lossy(&units);
    let at = before.rfind(['@', '#'])?;
    let word = &before[at + 1..];
    let starts = before[..at].chars().next_back().is_none_or(char::is_whitespace);
    (starts && !word.contains(char::is_whitespace)).then(|| (before[..at].encode_utf16().count(), word.to_lowercase()))
}

fn directory(request: &Request<'_>, channel: &str) -> Option<PathBuf> {
    let inner = request.face.inner.lock();
    let session = inner.core.session_of(channel)?;
    uri::path(
        inner
            .core
            .sessions
            .get(&session)?
            .state
            .working_directories
            .as_ref()?
            .first()?,
    )
}

/// Files and directories whose path has the word in it, nearest first; hidden ones and what builds leave are passed over.
fn find(root: &Path, word: &str) -> Vec<(PathBuf, bool)> {
    let skipped = |name: &str| name.starts_with('.') || matches!(name, "node_modules" | "target");
    let (mut found, mut next, mut seen) = (Vec::new(), vec![root.to_owned()], 0usize);
    while !next.is_empty() && found.len() < COMPLETIONS && seen < 20_000 {
        let mut deeper = Vec::new();
        for directory in next {
            let mut entries: Vec<_> = std::fs::read_dir(&directory).into_iter().flatten().flatten().collect();
            entries.sort_by_key(std::fs::DirEntry::file_name);
            for entry in entries {
                seen += 1;
                let name = entry.file_name().to_string_lossy().into_owned();
                let Ok(kind) = entry.file_type() else { continue };
                if skipped(&name) || kind.is_symlink() {
                    continue;
                }
                let path = entry.path();
                let shown = path
                    .strip_prefix(root)
                    .unwrap_or(&path)
                    .to_string_lossy()
                    .to_lowercase();
                if found.len() < COMPLETIONS && shown.contains(word) {
                    found.push((path.clone(), kind.is_dir()));
                }
                if kind.is_dir() {
                    deeper.push(path);
                }
            }
        }
        next = deeper;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_found_where_the_cursor_is() {
        let check = |text: &str, offset, expected: Option<(usize, &str)>| {
            assert_eq!(
                mention(text, offset),
                expected.map(|(at, word)| (at, word.to_owned())),
                "{text} {offset}"
            );
        };
        check("look at @src/ma", 15, Some((8, "src/ma")));
        check("look at @src/ma", 9, Some((8, "")));
        check("look at @src/ma", 4, None);
        check("mail me@example", 15, None);
        check("😀 @A", 5, Some((3, "a")));
        check("@a b", 4, None);
    }
}
