//! Files of the host, confined to the directories that clients may reach.

use std::path::PathBuf;

use base64::{Engine, engine::general_purpose::STANDARD};
use lodge_events::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::Request;
use crate::{
    files::{FileError, Files, How, etag},
    projection::timestamp,
    rpc::{self, RpcError, RpcResult, code},
    uri,
};

fn files(request: &Request<'_>) -> Files {
    let mut roots = request.face.config.roots.clone();
    roots.extend(request.face.config.default_directory.clone());
    let inner = request.face.inner.lock();
    let sessions = inner.core.sessions.values();
    roots.extend(
        sessions
            .flat_map(|session| session.state.working_directories.iter().flatten())
            .filter_map(|d| uri::path(d)),
    );
    roots.sort();
    roots.dedup();
    Files::new(roots)
}

fn path(request: &Request<'_>, uri: &str) -> Result<PathBuf, RpcError> {
    uri::path(uri).ok_or_else(|| error(request, FileError::NotFound, uri, false))
}

fn error(request: &Request<'_>, error: FileError, uri: &str, write: bool) -> RpcError {
    let code = match error {
        FileError::NotFound if request.is_seed() => code::CONTENT_NOT_FOUND,
        FileError::NotFound => code::NOT_FOUND,
        FileError::Denied => code::PERMISSION_DENIED,
        FileError::Exists => code::ALREADY_EXISTS,
        FileError::Changed | FileError::NotEmpty => code::CONFLICT,
        FileError::NotADirectory | FileError::NotAFile | FileError::TooLarge => code::INVALID_PARAMS,
        FileError::Other(_) => code::INTERNAL_ERROR,
    };
    let answer = RpcError::new(code, format!("{uri}: {error}"));
    match error {
        FileError::Denied => {
            let wanted = if write { "write" } else { "read" };
            answer.with(json!({ "request": { "channel": ahp_types::ROOT_RESOURCE_URI, "uri": uri, wanted: true } }))
        }
        _ => answer,
    }
}

/// Runs work on files beside the runtime.
async fn run<T: Send + 'static>(
    request: &Request<'_>,
    uri: &str,
    write: bool,
    work: impl FnOnce(Files) -> Result<T, FileError> + Send + 'static,
) -> Result<T, RpcError> {
    let files = files(request);
    let done = tokio::task::spawn_blocking(move || work(files))
        .await
        .map_err(RpcError::internal)?;
    done.map_err(|failed| error(request, failed, uri, write))
}

fn params<T: DeserializeOwned>(request: &Request<'_>) -> Result<T, RpcError> {
    rpc::params(request.params)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OneUri {
    uri: String,
    #[serde(default)]
    encoding: Option<String>,
    #[serde(default)]
    recursive: Option<bool>,
    #[serde(default)]
    follow_symlinks: Option<bool>,
    #[serde(default)]
    read: Option<bool>,
    #[serde(default)]
    write: Option<bool>,
}

pub(super) async fn read(request: &Request<'_>) -> RpcResult {
    let params: OneUri = params(request)?;
    let path = path(request, &params.uri)?;
    let limit = request.face.config.limits.resource_bytes;
    let kind = content_type(&params.uri);
    let bytes = run(request, &params.uri, false, move |files| files.read(&path, limit)).await?;
    let text = if params.encoding.as_deref() == Some("base64") {
        Err(bytes)
    } else {
        String::from_utf8(bytes).map_err(|e| e.into_bytes())
    };
    let mut result = match text {
        Ok(text) => json!({ "data": text, "encoding": "utf-8" }),
        Err(bytes) => json!({ "data": STANDARD.encode(bytes), "encoding": "base64" }),
    };
    if let Some(kind) = kind {
        result["contentType"] = kind.into();
    }
    rpc::ok(result)
}

/// Kinds that clients show by themselves; all else they tell by the name.
fn content_type(uri: &str) -> Option<&'static str> {
    match uri.rsplit('.').next()?.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        "svg" => Some("image/svg+xml"),
        "json" => Some("application/json"),
        "md" => Some("text/markdown"),
        "txt" => Some("text/plain"),
        "html" => Some("text/html"),
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Write {
    uri: String,
    data: String,
    encoding: String,
    #[serde(default)]
    create_only: Option<bool>,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    position: Option<f64>,
    #[serde(default)]
    if_match: Option<String>,
}

pub(super) async fn write(request: &Request<'_>) -> RpcResult {
    let params: Write = params(request)?;
    let path = path(request, &params.uri)?;
    let data = match params.encoding.as_str() {
        "utf-8" => params.data.into_bytes(),
        "base64" => STANDARD
            .decode(&params.data)
            .map_err(|_| RpcError::params("the data is not base64"))?,
        other => return Err(RpcError::params(format!("there is no encoding {other:?}"))),
    };
    let how = match params.mode.as_deref() {
        None | Some("truncate") => How::Replace,
        Some("append") => How::Append,
        Some("insert") => {
            let position = params.position.filter(|position| *position >= 0.0);
            How::Insert(position.ok_or_else(|| RpcError::params("insert needs a position"))? as u64)
        }
        Some(other) => return Err(RpcError::params(format!("there is no mode {other:?}"))),
    };
    let create_only = params.create_only == Some(true);
    run(request, &params.uri, true, move |files| {
        files.write(&path, &data, &how, create_only, params.if_match.as_deref())
    })
    .await?;
    rpc::ok(json!({}))
}

pub(super) async fn list(request: &Request<'_>) -> RpcResult {
    let params: OneUri = params(request)?;
    let path = path(request, &params.uri)?;
    let found = run(request, &params.uri, false, move |files| files.list(&path)).await?;
    let entries: Vec<Value> = found
        .into_iter()
        .map(|(name, is_dir)| json!({ "name": name, "type": if is_dir { "directory" } else { "file" } }))
        .collect();
    rpc::ok(json!({ "entries": entries }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FromTo {
    source: String,
    destination: String,
    #[serde(default)]
    fail_if_exists: Option<bool>,
}

pub(super) async fn copy(request: &Request<'_>) -> RpcResult {
    let params: FromTo = params(request)?;
    let (from, to) = (path(request, &params.source)?, path(request, &params.destination)?);
    let (fail, limit) = (
        params.fail_if_exists == Some(true),
        request.face.config.limits.resource_bytes,
    );
    run(request, &params.destination, true, move |files| {
        files.copy(&from, &to, fail, limit)
    })
    .await?;
    rpc::ok(json!({}))
}

pub(super) async fn rename(request: &Request<'_>) -> RpcResult {
    let params: FromTo = params(request)?;
    let (from, to) = (path(request, &params.source)?, path(request, &params.destination)?);
    let fail = params.fail_if_exists == Some(true);
    run(request, &params.destination, true, move |files| {
        files.rename(&from, &to, fail)
    })
    .await?;
    rpc::ok(json!({}))
}

pub(super) async fn delete(request: &Request<'_>) -> RpcResult {
    let params: OneUri = params(request)?;
    let path = path(request, &params.uri)?;
    let recursive = params.recursive == Some(true);
    run(request, &params.uri, true, move |files| files.delete(&path, recursive)).await?;
    rpc::ok(json!({}))
}

pub(super) async fn mkdir(request: &Request<'_>) -> RpcResult {
    let params: OneUri = params(request)?;
    let path = path(request, &params.uri)?;
    run(request, &params.uri, true, move |files| files.mkdir(&path)).await?;
    rpc::ok(json!({}))
}

pub(super) async fn resolve(request: &Request<'_>) -> RpcResult {
    let params: OneUri = params(request)?;
    let path = path(request, &params.uri)?;
    let follow = params.follow_symlinks != Some(false);
    let facts = run(request, &params.uri, false, move |files| files.facts(&path, follow)).await?;
    let stat = &facts.stat;
    let time = |seconds: i64, nanos: u64| {
        let time = Timestamp::new(seconds, i32::try_from(nanos).unwrap_or(0)).unwrap_or_default();
        timestamp(time)
    };
    let mut result = json!({
        "uri": uri::file(&facts.path),
        "type": facts.kind,
        "mtime": time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        "ctime": time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        "etag": etag(stat),
    });
    if facts.kind == "file" {
        result["size"] = (stat.st_size as i64).into();
        if let Some(kind) = content_type(&params.uri) {
            result["contentType"] = kind.into();
        }
    }
    rpc::ok(result)
}

/// Access is what the host was set up with; asking gets a yes where it is given already.
pub(super) async fn request(request: &Request<'_>) -> RpcResult {
    let params: OneUri = params(request)?;
    let write = params.write == Some(true);
    let reads = params.read == Some(true) || !write;
    let path = uri::path(&params.uri).ok_or_else(|| error(request, FileError::Denied, &params.uri, write))?;
    if !files(request).allows(&path) {
        let denied = error(request, FileError::Denied, &params.uri, write);
        let mut wanted = json!({ "channel": ahp_types::ROOT_RESOURCE_URI, "uri": params.uri });
        if reads {
            wanted["read"] = true.into();
        }
        if write {
            wanted["write"] = true.into();
        }
        return Err(denied.with(json!({ "request": wanted })));
    }
    rpc::ok(json!({}))
}
