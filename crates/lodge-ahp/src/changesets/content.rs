//! Addresses of the contents that changed files had, and what is behind them.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use lodge_host::{Entry, Hash, WorkTree};

use crate::{
    face::Face,
    rpc::{RpcError, code},
    uri,
};

const SCHEME: &str = "lodge-content:/";

/// Contents: the word in their address.
pub(super) enum Content<'a> {
    /// Kept by the host.
    Kept(&'a Hash),
    /// In git's store.
    Git(&'a str),
    /// In the file itself. The stamp tells one state of the file from another.
    Now(&'a Path, String),
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

    /// The address, which ends in the file's name: by that editors tell the language.
    pub(super) fn uri(&self, session: &str, path: &Path) -> String {
        let word = match self {
            Self::Kept(hash) => hash.to_string(),
            Self::Git(oid) => format!("git-{oid}"),
            Self::Now(path, stamp) => format!("now-{}.{stamp}", encoded(path)),
            Self::Link(target) => format!("link-{}", encoded(target)),
            Self::Lost => "lost".to_owned(),
        };
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        let name = uri::file(Path::new("/").join(name));
        let name = name.strip_prefix("file:///").unwrap_or_default();
        format!("{SCHEME}{session}/{word}/{name}")
    }
}

fn encoded(path: &Path) -> String {
    URL_SAFE_NO_PAD.encode(path.as_os_str().as_encoded_bytes())
}

fn decoded(text: &str) -> Option<PathBuf> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    Some(OsString::from_vec(bytes).into())
}

/// Whether an address is one of such contents.
pub(crate) fn is_content(uri: &str) -> bool {
    uri.starts_with(SCHEME)
}

/// Reads contents by such an address. `None`: it is no such address.
pub(crate) async fn read(face: &Face, uri: &str) -> Option<Result<Vec<u8>, RpcError>> {
    let mut parts = uri.strip_prefix(SCHEME)?.splitn(3, '/');
    let (id, word) = (parts.next()?, parts.next().unwrap_or_default());
    let lost = || RpcError::new(code::NOT_FOUND, format!("there are no contents at {uri}"));
    let read = async {
        let session = face.open_session(id).await.map_err(|_| lost())?;
        if let Some(oid) = word.strip_prefix("git-") {
            let cwd = session.settings().cwd;
            return WorkTree::content(cwd, oid.to_owned()).await.map_err(|_| lost());
        }
        if let Some(target) = word.strip_prefix("link-") {
            return URL_SAFE_NO_PAD.decode(target).map_err(|_| lost());
        }
        if let Some((path, _)) = word.strip_prefix("now-").and_then(|word| word.split_once('.')) {
            let path = decoded(path).ok_or_else(lost)?;
            let (files, limit) = (face.shared_files(), face.config.limits.resource_bytes);
            return files.whole(path, limit).await.map_err(|_| lost());
        }
        let hash = Hash::parse(word).ok_or_else(lost)?;
        session.file_content(hash).await.map_err(|_| lost())
    };
    Some(read.await)
}
