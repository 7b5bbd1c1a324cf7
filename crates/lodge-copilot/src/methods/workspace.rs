//! Files that belong to a session: `files/` and `checkpoints/` in its own directory.

use std::{
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use lodge_events::{FileOperation, SessionWorkspaceFileChanged};
use lodge_host::{Against, WorkTree};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{beneath, rpc::RpcError, session::Attached};

pub(crate) static WORKSPACE: Capability = Capability {
    title: "Workspace files",
    methods: &[
        method!(session "session.workspaces.listFiles", 3, "the session's own files", list_files),
        method!(session "session.workspaces.readFile", 9, "reads a file", read_file),
        method!(session "session.workspaces.createFile", 8, "writes a file", create_file),
        method!(session "session.workspaces.statFile", 0, "size and times of a file or a directory", stat_file),
        method!(session "session.workspaces.createDirectory", 0, "makes a directory", create_directory),
        method!(session "session.workspaces.renamePath", 0, "renames a file or a directory", rename_path),
        method!(session "session.workspaces.removePath", 0, "removes a file or a directory", remove_path),
        method!(session "session.workspaces.saveLargePaste", 1, "saves a long text as a file", save_large_paste),
        method!(session "session.workspaces.diff", 1, "changes against git, or against the branch that this one started from", diff),
        method!(session "session.workspaces.listCheckpoints", 1, "summaries that compactions made", list_checkpoints),
        method!(session "session.workspaces.readCheckpoint", 1, "reads a summary", read_checkpoint),
    ],
};

fn files(session: &Attached) -> PathBuf {
    session.session().dir().join("files")
}

/// Runs disk work on a blocking thread.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, RpcError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(RpcError::failed)?
        .map_err(RpcError::failed)
}

/// A path below the files directory that does not lead out of it.
fn inside(path: &str) -> Result<PathBuf, RpcError> {
    let path = PathBuf::from(path);
    let inside = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !inside || path.file_name().is_none() {
        return Err(RpcError::failed("Path must be within the workspace files directory"));
    }
    Ok(path)
}

async fn list_files(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let root = files(&session);
    let files = on_disk(move || {
        let mut found = Vec::new();
        collect(&root, &root, &mut found)?;
        found.sort();
        Ok(found)
    })
    .await?;
    Ok(json!({"files": files}))
}

fn collect(root: &Path, dir: &Path, found: &mut Vec<String>) -> io::Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(root, &entry.path(), found)?;
        } else if kind.is_file()
            && let Ok(path) = entry.path().strip_prefix(root)
        {
            found.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
struct PathParams {
    path: String,
}

async fn read_file(session: Arc<Attached>, params: PathParams) -> Result<Value, RpcError> {
    let (root, path) = (files(&session), inside(&params.path)?);
    let content = on_disk(move || {
        let mut content = String::new();
        beneath::open(&root, &path)?.read_to_string(&mut content)?;
        Ok(content)
    })
    .await?;
    Ok(json!({"content": content}))
}

#[derive(Debug, Deserialize)]
struct CreateParams {
    path: String,
    content: String,
}

async fn create_file(session: Arc<Attached>, params: CreateParams) -> Result<Value, RpcError> {
    let operation = write(&session, inside(&params.path)?, params.content).await?;
    changed(&session, params.path, operation).await?;
    Ok(Value::Null)
}

async fn write(session: &Attached, path: PathBuf, content: String) -> Result<FileOperation, RpcError> {
    let root = files(session);
    on_disk(move || {
        let (mut file, existed) = beneath::create(&root, &path)?;
        file.write_all(content.as_bytes())?;
        Ok(if existed {
            FileOperation::Update
        } else {
            FileOperation::Create
        })
    })
    .await
}

async fn stat_file(session: Arc<Attached>, params: PathParams) -> Result<Value, RpcError> {
    let (root, path) = (files(&session), inside(&params.path)?);
    let found = on_disk(move || beneath::metadata(&root, &path)).await?;
    let millis = |time: io::Result<SystemTime>| {
        let since = time.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        since.unwrap_or_default().as_millis() as u64
    };
    let changed = millis(found.modified());
    Ok(json!({
        "size": found.len(),
        "isFile": found.is_file(),
        "isDirectory": found.is_dir(),
        "mtimeMs": changed,
        // Not every file system stores when a file was created.
        "birthtimeMs": found.created().map_or(changed, |made| millis(Ok(made))),
    }))
}

#[derive(Debug, Deserialize)]
struct DirectoryParams {
    path: String,
    #[serde(default)]
    recursive: bool,
    /// Whether a missing file is no error.
    #[serde(default)]
    force: bool,
}

async fn create_directory(session: Arc<Attached>, params: DirectoryParams) -> Result<Value, RpcError> {
    let (root, path) = (files(&session), inside(&params.path)?);
    on_disk(move || beneath::make_directory(&root, &path, params.recursive)).await?;
    Ok(Value::Null)
}

async fn remove_path(session: Arc<Attached>, params: DirectoryParams) -> Result<Value, RpcError> {
    let (root, path) = (files(&session), inside(&params.path)?);
    let removed = on_disk(move || match beneath::remove(&root, &path, params.recursive) {
        Err(error) if params.force && error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    });
    if removed.await? {
        changed(&session, params.path, FileOperation::Delete).await?;
    }
    Ok(Value::Null)
}

#[derive(Debug, Deserialize)]
struct RenameParams {
    source: String,
    destination: String,
}

async fn rename_path(session: Arc<Attached>, params: RenameParams) -> Result<Value, RpcError> {
    let (root, from, to) = (files(&session), inside(&params.source)?, inside(&params.destination)?);
    on_disk(move || beneath::rename(&root, &from, &to)).await?;
    changed(&session, params.source, FileOperation::Delete).await?;
    changed(&session, params.destination, FileOperation::Create).await?;
    Ok(Value::Null)
}

async fn changed(session: &Attached, path: String, operation: FileOperation) -> Result<(), RpcError> {
    let change = SessionWorkspaceFileChanged { path, operation };
    session.session().record(change).await?;
    Ok(())
}

#[derive(Debug, Deserialize)]
struct ContentParams {
    content: String,
}

async fn save_large_paste(session: Arc<Attached>, params: ContentParams) -> Result<Value, RpcError> {
    let name = format!("paste-{}.txt", jiff::Timestamp::now().as_millisecond());
    let size = params.content.len();
    let operation = write(&session, PathBuf::from(&name), params.content).await?;
    changed(&session, name.clone(), operation).await?;
    Ok(json!({"saved": {"filePath": files(&session).join(&name), "filename": name, "sizeBytes": size}}))
}

/// The rows of `checkpoints/index.md`: number, title, file.
fn checkpoints(index: &str) -> Vec<(u64, String, String)> {
    index
        .lines()
        .filter_map(|line| {
            let mut cells = line.trim().trim_matches('|').split('|').map(str::trim);
            let number = cells.next()?.parse().ok()?;
            Some((number, cells.next()?.to_owned(), cells.next()?.to_owned()))
        })
        .collect()
}

async fn read_index(session: &Attached) -> Result<Vec<(u64, String, String)>, RpcError> {
    let path = session.session().dir().join("checkpoints").join("index.md");
    match tokio::fs::read_to_string(path).await {
        Ok(index) => Ok(checkpoints(&index)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(RpcError::failed(error)),
    }
}

async fn list_checkpoints(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let list: Vec<_> = read_index(&session)
        .await?
        .into_iter()
        .map(|(number, title, filename)| json!({"number": number, "title": title, "filename": filename}))
        .collect();
    Ok(json!({"checkpoints": list}))
}

#[derive(Debug, Deserialize)]
struct NumberParams {
    number: u64,
}

async fn read_checkpoint(session: Arc<Attached>, params: NumberParams) -> Result<Value, RpcError> {
    let found = read_index(&session)
        .await?
        .into_iter()
        .find(|(number, ..)| *number == params.number);
    let Some((.., filename)) = found else {
        return Ok(json!({"content": null}));
    };
    let (root, path) = (session.session().dir().join("checkpoints"), inside(&filename)?);
    let content = on_disk(move || {
        let mut content = String::new();
        beneath::open(&root, &path)?.read_to_string(&mut content)?;
        Ok(content)
    })
    .await?;
    Ok(json!({"content": content}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiffParams {
    mode: String,
    #[serde(default)]
    ignore_whitespace: bool,
}

/// Files beyond this limit are listed without their diffs, because each costs a process.
const MOST_PATCHES: usize = 200;

/// Changes of a session are in its rewind points; here, git's view is used.
async fn diff(session: Arc<Attached>, params: DiffParams) -> Result<Value, RpcError> {
    let dir = session.session().settings().cwd;
    let branch = params.mode == "branch";
    let against = if branch { Against::Base } else { Against::Head };
    let tree = WorkTree::read(dir.clone(), against).await;
    let Ok(tree) = tree else {
        let mode = if branch { "branch" } else { "unstaged" };
        return Ok(
            json!({"requestedMode": params.mode, "mode": mode, "changes": [], "isFallback": mode != params.mode}),
        );
    };
    let mode = if branch && tree.base.is_some() {
        "branch"
    } else {
        "unstaged"
    };
    let shown = tree.changes.iter().take(MOST_PATCHES).cloned().collect();
    let patches = WorkTree::patches(dir.clone(), shown, against, params.ignore_whitespace).await?;
    let mut patches = patches.into_iter();
    let mut changes = Vec::new();
    for change in &tree.changes {
        let patch = patches.next().flatten();
        // Differences in whitespace do not count if they are ignored.
        if params.ignore_whitespace && patch.as_ref().is_some_and(String::is_empty) {
            continue;
        }
        let kind = match (&change.before, change.exists) {
            (None, _) => "added",
            (Some(_), true) => "modified",
            (Some(_), false) => "deleted",
        };
        let path = change.path.strip_prefix(&dir).unwrap_or(&change.path);
        let mut entry = json!({"path": path, "changeType": kind, "diff": patch.as_deref().unwrap_or_default()});
        if patch.is_none() {
            entry["isTruncated"] = json!(true);
        }
        changes.push(entry);
    }
    let mut result =
        json!({"requestedMode": params.mode, "mode": mode, "changes": changes, "isFallback": mode != params.mode});
    if let Some(base) = tree.base.filter(|_| branch) {
        result["baseBranch"] = json!(base);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_out_of_the_workspace_are_refused() {
        for (path, fine) in [
            ("a.txt", true),
            ("a/b/c.txt", true),
            ("./a.txt", true),
            ("../a.txt", false),
            ("a/../../b", false),
            ("/etc/passwd", false),
            ("", false),
            (".", false),
        ] {
            assert_eq!(inside(path).is_ok(), fine, "{path:?}");
        }
    }

    #[test]
    fn the_index_of_checkpoints_is_read_as_the_cli_writes_it() {
        let index =
            "| # | Title | File |\n|---|---|---|\n| 1 | First | 001-first.md |\n| 2 | Second | 002-second.md |\n";
        assert_eq!(
            checkpoints(index)[1],
            (2, "Second".to_owned(), "002-second.md".to_owned())
        );
        assert_eq!(checkpoints(index).len(), 2);
    }
}
