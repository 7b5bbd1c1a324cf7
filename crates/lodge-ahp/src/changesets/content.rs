//! Addresses of the contents that changed files had, and what is behind them.

use std::path::Path;

use ahp_types::state::ContentRef;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use lodge_host::{FileSide, FileVersion, Hash, WorkTree};

use crate::{
    face::Face,
    rpc::{RpcError, code},
    uri,
};

/// Where contents of a file are read. The path of the address is the file's, and the rest is in the query: editors tell the language
/// by the path, show it, and take a file whose two sides have different paths for a renamed one.
pub(super) fn reference(side: &FileSide, path: &Path) -> ContentRef {
    let word = match &side.version {
        FileVersion::Kept(hash) => hash.to_string(),
        FileVersion::Git(oid) => format!("git-{oid}"),
        // Not the file's own address: a browser's page can open no `file:`.
        FileVersion::Current(stamp) => format!("now-{stamp}"),
        FileVersion::Link(target) => format!("link-{}", URL_SAFE_NO_PAD.encode(target.as_os_str().as_encoded_bytes())),
        FileVersion::Lost => "lost".to_owned(),
    };
    let path = uri::file(path);
    let path = path.strip_prefix("file://").unwrap_or_default();
    ContentRef {
        uri: format!("{}{path}?{}/{word}", uri::FILE_CONTENT, side.session),
        size_hint: side.size.and_then(|size| i64::try_from(size).ok()),
        content_type: None,
        nonce: match &side.version {
            FileVersion::Kept(hash) => Some(hash.to_string()),
            FileVersion::Git(name) | FileVersion::Current(name) => Some(name.clone()).filter(|name| !name.is_empty()),
            FileVersion::Link(_) | FileVersion::Lost => None,
        },
    }
}

/// Whether an address is one of such contents.
pub(crate) fn is_content(uri: &str) -> bool {
    uri.starts_with(uri::FILE_CONTENT)
}

/// Reads contents by such an address. `None`: it is no such address.
pub(crate) async fn read(face: &Face, uri: &str) -> Option<Result<Vec<u8>, RpcError>> {
    let (path, query) = uri
        .strip_prefix(uri::FILE_CONTENT)
        .map(|rest| rest.split_once('?').unwrap_or((rest, "")))?;
    let lost = || RpcError::new(code::NOT_FOUND, format!("there are no contents at {uri}"));
    let read = async {
        // Editors spell what is in a query in hex.
        let query = uri::unescape(query).and_then(|query| String::from_utf8(query).ok());
        let query = query.ok_or_else(lost)?;
        let (id, word) = query.split_once('/').ok_or_else(lost)?;
        let session = face.host.open_session(id).await.map_err(|_| lost())?;
        if let Some(oid) = word.strip_prefix("git-") {
            let cwd = session.settings().cwd;
            return WorkTree::content(cwd, oid.to_owned()).await.map_err(|_| lost());
        }
        if let Some(target) = word.strip_prefix("link-") {
            return URL_SAFE_NO_PAD.decode(target).map_err(|_| lost());
        }
        if word.starts_with("now-") {
            let path = uri::path(&format!("file://{path}")).ok_or_else(lost)?;
            let (files, limit) = (face.shared_files(), face.config.limits.resource_bytes);
            return files.whole(path, limit).await.map_err(|_| lost());
        }
        let hash = Hash::parse(word).ok_or_else(lost)?;
        session.file_content(hash).await.map_err(|_| lost())
    };
    Some(read.await)
}
