//! Files of the host, confined to what clients may reach.

use std::{borrow::Cow, path::PathBuf};

use ahp_types::commands::{ResourceResolveResult, ResourceType};
use base64::{Engine, engine::general_purpose::STANDARD};
use lodge_events::Timestamp;
use lodge_files::{FileError, Files, Grant, How, Write, etag, settled};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{Reply, Request};
use crate::{
    contents::{Contents, Encoding, LargeAnswer},
    projection::timestamp,
    rpc::{self, RpcError, RpcResult, code},
    tool_content::{self, ToolContent},
    uri,
    wire::Frame,
};

/// What a method does to a resource, for the words and codes of its errors.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) uri: &'a str,
    /// What is said when there is nothing.
    pub(super) missing: &'static str,
    pub(super) write: bool,
}

impl<'a> About<'a> {
    pub(super) fn read(uri: &'a str) -> Self {
        Self {
            uri,
            missing: "resource not found",
            write: false,
        }
    }

    fn write(uri: &'a str) -> Self {
        Self {
            write: true,
            ..Self::read(uri)
        }
    }

    fn missing(self, missing: &'static str) -> Self {
        Self { missing, ..self }
    }

    /// The path; only `file:` has one.
    pub(super) fn path(&self, request: &Request<'_>) -> Result<PathBuf, RpcError> {
        uri::path(self.uri).ok_or_else(|| self.error(request, FileError::NotFound))
    }

    pub(super) fn error(&self, request: &Request<'_>, error: FileError) -> RpcError {
        let code = match error {
            // Before 1.0.0 contents had a code of their own.
            FileError::NotFound if request.is_seed() && self.missing == CONTENT => code::CONTENT_NOT_FOUND,
            FileError::NotFound | FileError::NoParent => code::NOT_FOUND,
            FileError::Denied | FileError::Private | FileError::Forbidden => code::PERMISSION_DENIED,
            FileError::Exists | FileError::ExistsAsFile => code::ALREADY_EXISTS,
            FileError::Changed | FileError::NotEmpty => code::CONFLICT,
            FileError::NotADirectory
            | FileError::NotAFile
            | FileError::TooLarge
            | FileError::NameTooLong
            | FileError::IntoItself => code::INVALID_PARAMS,
            FileError::Other(_) => code::INTERNAL_ERROR,
        };
        let answer = match error {
            FileError::NotFound => RpcError::new(code, format!("{}: {}", self.missing, self.uri)),
            _ => RpcError::new(code, format!("{}: {error}", self.uri)),
        };
        match error {
            FileError::Denied => answer.with(json!({ "request": wanted(request, self.uri, !self.write, self.write) })),
            _ => answer,
        }
    }
}

/// What contents are called that are not there.
const CONTENT: &str = "content not found";

/// The request that would have to be granted.
pub(super) fn wanted(request: &Request<'_>, uri: &str, read: bool, write: bool) -> serde_json::Value {
    let mut wanted = json!({ "uri": uri });
    if !request.is_seed() {
        wanted["channel"] = ahp_types::ROOT_RESOURCE_URI.into();
    }
    for (key, _) in [("read", read), ("write", write)].iter().filter(|(_, is)| *is) {
        wanted[*key] = true.into();
    }
    wanted
}

/// Runs work on files beside the runtime.
pub(super) async fn run<T: Send + 'static>(
    request: &Request<'_>,
    about: About<'_>,
    work: impl FnOnce(&Files) -> Result<T, FileError> + Send + 'static,
) -> Result<T, RpcError> {
    let files = request.face.files(&request.peer()?.client);
    let done = files.run(work).await;
    done.map_err(|failed| about.error(request, failed))
}

pub(super) fn params<T: DeserializeOwned>(request: &Request<'_>) -> Result<T, RpcError> {
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
}

/// Sends contents as they are read.
pub(super) async fn read(request: &Request<'_>) -> Result<Reply, RpcError> {
    let params: OneUri = params(request)?;
    let about = About::read(&params.uri).missing(CONTENT);
    let wanted = params.encoding.as_deref().map(encoding).transpose()?;
    let kept = kept(request, about).await?;
    let head = head(request);
    let told = kept.as_ref().and_then(|content| content.kind.clone());
    let kind = told.or_else(|| content_type(&params.uri).map(str::to_owned));
    let contents = match kept {
        Some(content) => {
            let is_binary = content.kind.is_some_and(|kind| !is_text(&kind));
            let wanted = if is_binary { Some(Encoding::Base64) } else { wanted };
            Contents::of_bytes(content.bytes, wanted)
        }
        None => {
            let path = about.path(request)?;
            let limit = request.face.config.limits.resource_bytes;
            let file = run(request, about, move |files| files.pieces(&path, limit)).await?;
            Contents::of_file(file, wanted)
        }
    };
    let kind = kind.map_or(String::new(), |kind| format!(r#","contentType":{}"#, json!(kind)));
    let tail = format!(r#"","encoding":"{}"{kind}}}}}"#, contents.encoding.as_str());
    let answer = LargeAnswer::begin(head, contents, tail).await;
    let answer = answer.map_err(|error| about.error(request, error))?;
    send(request, answer).await;
    Ok(Reply::Sent)
}

/// Contents that are at no path: what tool calls said or did, and what changed files were.
async fn kept(request: &Request<'_>, about: About<'_>) -> Result<Option<ToolContent>, RpcError> {
    if uri::path(about.uri).is_some() {
        return Ok(None);
    }
    if let Some((session, name)) = uri::session_of_content(about.uri) {
        let found = tool_content::read(request.face, session, &name).await;
        return found.map(Some).ok_or_else(|| about.error(request, FileError::NotFound));
    }
    let bytes = crate::changesets::read(request.face, about.uri).await.transpose()?;
    Ok(bytes.map(|bytes| ToolContent { bytes, kind: None }))
}

/// An answer up to its contents.
fn head(request: &Request<'_>) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"data":""#, request.id.get())
}

async fn send(request: &Request<'_>, answer: LargeAnswer) {
    match answer.into_small() {
        Ok(text) => request.conn.push(Frame::from(text)),
        Err(answer) => {
            if let Some(turn) = request.conn.large().await {
                request.conn.push_large(answer, turn);
            }
        }
    }
}

fn encoding(name: &str) -> Result<Encoding, RpcError> {
    match name {
        "base64" => Ok(Encoding::Base64),
        "utf-8" => Ok(Encoding::Utf8),
        other => Err(RpcError::params(format!(
            "unknown encoding {other:?}: use \"utf-8\" or \"base64\""
        ))),
    }
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/") || kind == "application/json"
}

/// Kinds that clients show by themselves; all else they tell by the name.
fn content_type(uri: &str) -> Option<&'static str> {
    match uri.split('?').next()?.rsplit('.').next()?.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        "svg" => Some("image/svg+xml"),
        "pdf" => Some("application/pdf"),
        "json" => Some("application/json"),
        "md" => Some("text/markdown"),
        "txt" => Some("text/plain"),
        "html" => Some("text/html"),
        "css" => Some("text/css"),
        "js" | "mjs" => Some("text/javascript"),
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WriteParams<'a> {
    uri: String,
    /// Often large: not copied where it holds nothing that is escaped.
    #[serde(borrow)]
    data: Cow<'a, str>,
    encoding: String,
    #[serde(default)]
    create_only: Option<bool>,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    position: Option<rpc::Whole>,
    #[serde(default)]
    if_match: Option<String>,
    /// Files have none; it is told by the name.
    #[serde(default, rename = "contentType")]
    _content_type: Option<String>,
}

pub(super) async fn write(request: &Request<'_>) -> RpcResult {
    let params: WriteParams<'_> = rpc::params(request.params)?;
    let about = About::write(&params.uri);
    let path = about.path(request)?;
    let data = match encoding(&params.encoding)? {
        Encoding::Utf8 => params.data.into_owned().into_bytes(),
        Encoding::Base64 => STANDARD
            .decode(&*params.data)
            .map_err(|_| RpcError::params("the data is not base64"))?,
    };
    if data.len() as u64 > request.face.config.limits.resource_bytes {
        return Err(about.error(request, FileError::TooLarge));
    }
    let position = params.position.map_or(0, |position| position.0);
    let how = match params.mode.as_deref() {
        None | Some("truncate") => How::Truncate(position),
        Some("append") => How::Append(position),
        Some("insert") => How::Insert(position),
        Some(other) => return Err(RpcError::params(format!("there is no mode {other:?}"))),
    };
    let (create_only, if_match) = (params.create_only == Some(true), params.if_match);
    run(request, about, move |files| {
        let write = Write {
            data: &data,
            how,
            create_only,
            if_match: if_match.as_deref(),
        };
        files.write(&path, &write)
    })
    .await?;
    rpc::empty()
}

#[derive(Serialize)]
struct DirectoryEntry {
    name: String,
    r#type: &'static str,
    /// For a name that is not text, and so cannot be made into an address from `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
}

pub(super) async fn list(request: &Request<'_>) -> RpcResult {
    #[derive(Serialize)]
    struct Listed {
        entries: Vec<DirectoryEntry>,
    }
    let params: OneUri = params(request)?;
    let about = About::read(&params.uri).missing("directory not found");
    let path = about.path(request)?;
    let most = request.face.config.limits.directory_entries;
    let entries = run(request, about, move |files| files.list(&path, most)).await?;
    let entries = entries.into_iter().map(|entry| {
        let r#type = if entry.is_dir { "directory" } else { "file" };
        match entry.name.into_string() {
            Ok(name) => DirectoryEntry {
                name,
                r#type,
                uri: None,
            },
            Err(name) => DirectoryEntry {
                name: name.to_string_lossy().into_owned(),
                r#type,
                uri: Some(uri::child(&params.uri, name.as_ref())),
            },
        }
    });
    rpc::ok(Listed {
        entries: entries.collect(),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FromTo {
    source: String,
    destination: String,
    #[serde(default)]
    fail_if_exists: Option<bool>,
}

/// Copies or moves. What is wrong is said about the end that it is wrong with.
async fn transfer(
    request: &Request<'_>,
    takes: bool,
    work: impl FnOnce(&Files, &std::path::Path, &std::path::Path, bool) -> Result<(), FileError> + Send + 'static,
) -> RpcResult {
    let params: FromTo = params(request)?;
    let source = About {
        uri: &params.source,
        missing: "source not found",
        write: takes,
    };
    let destination = About::write(&params.destination).missing(source.missing);
    let (from, to) = (source.path(request)?, destination.path(request)?);
    let fail = params.fail_if_exists == Some(true);
    let done = run(request, destination, move |files| {
        Ok(match files.source(&from, takes) {
            Err(error) => Err((true, error)),
            Ok(()) => work(files, &from, &to, fail).map_err(|error| (false, error)),
        })
    });
    match done.await? {
        Ok(()) => rpc::empty(),
        Err((true, error)) => Err(source.error(request, error)),
        Err((false, error)) => Err(destination.error(request, error)),
    }
}

pub(super) async fn copy(request: &Request<'_>) -> RpcResult {
    transfer(request, false, Files::copy).await
}

pub(super) async fn rename(request: &Request<'_>) -> RpcResult {
    transfer(request, true, Files::rename).await
}

pub(super) async fn delete(request: &Request<'_>) -> RpcResult {
    let params: OneUri = params(request)?;
    let about = About::write(&params.uri);
    let path = about.path(request)?;
    let recursive = params.recursive == Some(true);
    run(request, about, move |files| files.delete(&path, recursive)).await?;
    rpc::empty()
}

pub(super) async fn mkdir(request: &Request<'_>) -> RpcResult {
    let params: OneUri = params(request)?;
    let about = About::write(&params.uri);
    let path = about.path(request)?;
    run(request, about, move |files| files.mkdir(&path)).await?;
    rpc::empty()
}

pub(super) async fn resolve(request: &Request<'_>) -> RpcResult {
    let params: OneUri = params(request)?;
    let about = About::read(&params.uri);
    if let Some(content) = kept(request, about).await? {
        let kind = content.kind.as_deref().or(content_type(&params.uri));
        return rpc::ok(ResourceResolveResult {
            content_type: kind.map(str::to_owned),
            uri: params.uri,
            r#type: ResourceType::File,
            size: i64::try_from(content.bytes.len()).ok(),
            mtime: None,
            ctime: None,
            etag: None,
        });
    }
    let path = about.path(request)?;
    let follow = params.follow_symlinks != Some(false);
    let named = path.clone();
    let facts = run(request, about, move |files| files.facts(&path, follow)).await?;
    let stat = &facts.stat;
    let time = |seconds: i64, nanos: u64| {
        let time = Timestamp::new(seconds, i32::try_from(nanos).unwrap_or(0)).unwrap_or_default();
        timestamp(time)
    };
    // In the client's own words, unless it is somewhere else.
    let real = if facts.path == named {
        params.uri.clone()
    } else {
        uri::file(&facts.path)
    };
    let r#type = match facts.kind {
        "directory" => ResourceType::Directory,
        "symlink" => ResourceType::Symlink,
        _ => ResourceType::File,
    };
    let is_file = r#type == ResourceType::File;
    let kind = content_type(&params.uri).filter(|_| is_file);
    rpc::ok(ResourceResolveResult {
        uri: real,
        r#type,
        size: is_file.then_some(stat.st_size as i64),
        mtime: Some(time(stat.st_mtime as i64, stat.st_mtime_nsec as u64)),
        ctime: Some(time(stat.st_ctime as i64, stat.st_ctime_nsec as u64)),
        content_type: kind.map(str::to_owned),
        etag: Some(etag(stat)),
    })
}

#[derive(Deserialize)]
struct Access {
    uri: String,
    #[serde(default)]
    read: Option<bool>,
    #[serde(default)]
    write: Option<bool>,
}

/// Asks for access. What is given already is given; about the rest decides the host's policy, or a person.
pub(super) async fn request(request: &Request<'_>) -> RpcResult {
    let params: Access = params(request)?;
    let client = request.peer()?.client.clone();
    let write = params.write == Some(true);
    let read = params.read == Some(true) || !write;
    let denied = |why: String| {
        let error = RpcError::new(code::PERMISSION_DENIED, format!("{}: {why}", params.uri));
        error.with(json!({ "request": wanted(request, &params.uri, read, write) }))
    };
    let Some(path) = uri::path(&params.uri) else {
        return Err(denied("this host serves files only".to_owned()));
    };
    let look = move |files: &Files| {
        if settled(&path).is_some_and(|path| files.private().covers(&path)) {
            return Err(FileError::Private);
        }
        let given = (!read || files.allows(&path, false)) && (!write || files.allows(&path, true));
        Ok((given, Grant::wanted(&client, &path, read, write)))
    };
    // What nobody can give is refused without a word of what to ask for.
    let (given, grant) = run(request, About::read(&params.uri), look).await?;
    if given {
        return rpc::empty();
    }
    let grant = grant.ok_or_else(|| denied("invalid location".to_owned()))?;
    match request.face.decide(grant).await {
        Ok(()) => rpc::empty(),
        Err(why) => Err(denied(why.to_owned())),
    }
}
