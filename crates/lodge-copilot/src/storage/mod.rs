//! Session files stored by the client (`sessionFs`). The session's directory here is a copy: every write is sent to the client
//! before the client hears of it, and a resumed session is restored from the client's files.

mod database;
mod mirror;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use lodge_host::{LOG_FILE, STORED_DEPTH, STORED_FILES, STORED_FOLDERS, Storage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(crate) use mirror::{Mirror, Queued};

use crate::{
    peer::{CallError, Peer},
    rpc::RpcError,
};

/// Limit for the files fetched of one session.
const MOST_FILES: usize = 10_000;
/// Limit for their bytes.
const MOST_BYTES: usize = 512 * 1024 * 1024;

/// A client's description of its file system.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Provider {
    /// The default working directory of sessions.
    pub(crate) initial_cwd: String,
    /// The directory for the session's files, in the file system of each session.
    session_state_path: String,
    /// `posix` or `windows`.
    #[serde(default)]
    conventions: Option<String>,
    #[serde(default)]
    capabilities: ProviderCapabilities,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ProviderCapabilities {
    sqlite: bool,
}

/// The files of one session at its client.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) peer: Peer,
    pub(crate) session_id: String,
    pub(crate) provider: Arc<Provider>,
}

/// The client's error for a file operation.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct FileError {
    missing: bool,
    message: String,
}

impl Files {
    /// The storage, as the host needs it.
    pub(crate) fn storage(&self) -> Storage {
        Storage {
            shown_as: Some(PathBuf::from(&self.provider.session_state_path)),
            database: self.provider.capabilities.sqlite.then(|| Arc::new(self.clone()) as _),
        }
    }

    /// The client's path of a file, from its path with `/` between names; without one, the session's directory.
    fn path(&self, way: &str) -> String {
        let root = self.provider.session_state_path.trim_end_matches(['/', '\\']);
        match (way, self.provider.conventions.as_deref()) {
            ("", _) => root.to_owned(),
            (way, Some("windows")) => format!("{root}\\{}", way.replace('/', "\\")),
            (way, _) => format!("{root}/{way}"),
        }
    }

    async fn call(&self, what: &str, params: Value) -> Result<Value, FileError> {
        let mut all = Map::from_iter([("sessionId".to_owned(), json!(self.session_id))]);
        all.extend(params.as_object().cloned().unwrap_or_default());
        let method = format!("sessionFs.{what}");
        let failed = |missing, message: &str| FileError {
            missing,
            message: format!("{method}: {message}"),
        };
        let result = match self.peer.call(&method, &Value::Object(all)).await {
            Ok(result) => result,
            Err(CallError::Refused(error)) => return Err(failed(false, &error.message)),
            Err(CallError::Gone) => return Err(failed(false, "the client disconnected")),
        };
        // Operations without a result return the error itself.
        let error = result.get("error").filter(|error| !error.is_null()).unwrap_or(&result);
        match error["code"].as_str() {
            Some(code) => Err(failed(code == "ENOENT", error["message"].as_str().unwrap_or(code))),
            None => Ok(result),
        }
    }

    async fn read(&self, way: &str) -> Result<Option<String>, FileError> {
        match self.call("readFile", json!({"path": self.path(way)})).await {
            Ok(result) => Ok(Some(result["content"].as_str().unwrap_or_default().to_owned())),
            Err(error) if error.missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All of the client's files of the session; `None` if it has no log of it.
    pub(crate) async fn fetch(&self) -> Result<Option<BTreeMap<String, String>>, RpcError> {
        let mut files = BTreeMap::new();
        for name in STORED_FILES {
            self.fetch_file(name.to_owned(), &mut files).await?;
        }
        if !files.contains_key(LOG_FILE) {
            return Ok(None);
        }
        for name in STORED_FOLDERS {
            let path = json!({"path": self.path(name)});
            let there = self.call("exists", path).await.map_err(RpcError::failed)?;
            if there["exists"] == true {
                self.fetch_folder(name.to_owned(), STORED_DEPTH, &mut files).await?;
            }
        }
        Ok(Some(files))
    }

    fn fetch_folder<'a>(
        &'a self,
        way: String,
        depth: usize,
        files: &'a mut BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<(), RpcError>> {
        Box::pin(async move {
            for (name, folder) in self.entries(&way).await? {
                let way = format!("{way}/{name}");
                if !folder {
                    self.fetch_file(way, files).await?;
                } else if depth > 0 {
                    self.fetch_folder(way, depth - 1, files).await?;
                }
            }
            Ok(())
        })
    }

    async fn fetch_file(&self, way: String, files: &mut BTreeMap<String, String>) -> Result<(), RpcError> {
        let text = self.read(&way).await.map_err(RpcError::failed)?;
        files.extend(text.map(|text| (way, text)));
        if files.len() > MOST_FILES || files.values().map(String::len).sum::<usize>() > MOST_BYTES {
            return Err(RpcError::failed("the session's file system is too large to import"));
        }
        Ok(())
    }

    /// Names in a folder, and whether each is a folder. Names that lead elsewhere are skipped.
    async fn entries(&self, way: &str) -> Result<Vec<(String, bool)>, RpcError> {
        let result = match self.call("readdirWithTypes", json!({"path": self.path(way)})).await {
            Err(error) if error.missing => return Ok(Vec::new()),
            other => other.map_err(RpcError::failed)?,
        };
        let entries = result["entries"].as_array().into_iter().flatten();
        Ok(entries
            .filter_map(|entry| Some((entry["name"].as_str()?.to_owned(), entry["type"] == "directory")))
            .filter(|(name, _)| !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\\', '\0']))
            .collect())
    }
}
