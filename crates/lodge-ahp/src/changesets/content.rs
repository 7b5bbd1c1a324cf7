//! Addresses of the contents that changed files had, and what is behind them.

use std::path::Path;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use lodge_host::{Entry, Hash, WorkTree};

use crate::{
    face::Face,
    rpc::{RpcError, code},
    uri,
};

/// Contents: the word in their address.
pub(super) enum Content<'a> {
    /// Kept by the host.
    Kept(&'a Hash),
    /// In git's store.
    Git(&'a str),
    /// In the file itself. The stamp tells one state of the file from another.
    Now(String),
    /// Where a link leads.
    Link(&'a Path),
    /// Not kept: too large.
    Lost,
}

impl<'a> Content<'a> {
    pub(super) fn of(entry: &'a Entry) -> Option<Self> {
        match entry {
            Entry::File {
                content: Some(hash), ..
            } => Some(Self::Kept(hash)),
            Entry::File { content: None, .. } => Some(Self::Lost),
            Entry::Link { target } => Some(Self::Link(target)),
            _ => None,
        }
    }

    /// The address. Its path is the file's, and the rest is in the query: editors tell the language by the path, show it, and
    /// take a file whose two sides have different paths for a renamed one.
    pub(super) fn uri(&self, session: &str, path: &Path) -> String {
        let word = match self {
            Self::Kept(hash) => hash.to_string(),
            Self::Git(oid) => format!("git-{oid}"),
            Self::Now(stamp) => format!("now-{stamp}"),
            Self::Link(target) => format!("link-{}", URL_SAFE_NO_PAD.encode(target.as_os_str().as_encoded_bytes())),
            Self::Lost => "lost".to_owned(),
        };
        let path = uri::file(path);
        let path = path.strip_prefix("file://").unwrap_or_default();
        format!("{}{path}?{session}/{word}", uri::FILE_CONTENT)
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
        let session = face.open_session(id).await.map_err(|_| lost())?;
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
