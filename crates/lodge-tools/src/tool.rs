//! The trait that makes a tool one file.

use std::{path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::changes::Touches;

/// A built-in tool.
pub trait Tool: Send + Sync {
    /// Name the model calls it by.
    fn name(&self) -> &'static str;
    /// What the model is told about it.
    fn description(&self) -> &'static str;
    /// JSON schema of the arguments.
    fn parameters(&self) -> Arc<Value>;
    /// What must be allowed before `run`. An error is told to the model instead of running.
    fn need(&self, arguments: &Value, cx: &ToolCx) -> Result<Need, ToolError>;
    /// Whether calls of this tool may run beside other calls of the same message.
    fn parallel(&self) -> bool {
        false
    }
    /// What a call may do to files, so that it can be told and undone.
    fn touches(&self, _arguments: &Value, _cx: &ToolCx) -> Touches {
        Touches::Nothing
    }
    /// A short phrase of what this call is about, from the arguments (`assistant.intent`).
    fn intent(&self, _arguments: &Value) -> Option<String> {
        None
    }
    /// Does it. Dropping the future stops it and everything it started.
    fn run(&self, arguments: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;
}

/// What a call wants to be allowed.
#[derive(Debug, Clone)]
pub enum Need {
    /// Nothing: harmless.
    Nothing,
    /// One of the permission kinds of `lodge-events`; whether rules answer it or a person must is decided elsewhere.
    Ask(Box<lodge_events::PermissionRequest>),
}

/// What a tool may know about where it runs.
#[derive(Clone)]
pub struct ToolCx {
    /// The session's id, for naming things.
    pub session_id: Arc<str>,
    /// The call's id.
    pub call_id: Arc<str>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Directories that may be written without a question, `cwd` first.
    pub roots: Arc<[PathBuf]>,
    /// The session's own directory (`session.db`, `files/`, large outputs below `temp/`).
    pub session_dir: PathBuf,
    /// Results longer than this many bytes are put into a file.
    pub max_output_bytes: usize,
    /// Whether `view` puts its number before every line.
    pub number_lines: bool,
    /// Output while it happens.
    pub out: OutputSink,
    /// The session's long-lived shells and scratch database.
    pub state: Arc<crate::SessionTools>,
    /// Fires when the session or the turn is aborted.
    pub cancel: CancellationToken,
}

/// Where a running tool reports.
#[derive(Clone)]
pub struct OutputSink(Arc<dyn Fn(ToolUpdate) + Send + Sync>);

impl OutputSink {
    /// A sink that calls `f` with every update, from the tool's task.
    pub fn new(f: impl Fn(ToolUpdate) + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }
    /// Reports one update.
    pub fn send(&self, update: ToolUpdate) {
        (self.0)(update)
    }
}

/// What a running tool reports.
#[derive(Debug, Clone)]
pub enum ToolUpdate {
    /// Output to append.
    Partial(String),
    /// A status line for people.
    Progress(String),
}

/// What a tool achieved.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// For the model.
    pub content: String,
    /// For people: the whole output or the diff.
    pub detailed: Option<String>,
    /// Structured blocks.
    pub contents: Vec<lodge_events::ContentBlock>,
    /// Images for models with vision: mime type and base64.
    pub images: Vec<(String, String)>,
    /// Files changed, for code-change counts.
    pub changes: Vec<FileChange>,
    /// Whether the list of things to do may have changed.
    pub todos_changed: bool,
}

/// One changed file.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// Absolute path.
    pub path: PathBuf,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

/// Why a tool did not do what was asked. The message is what the model reads.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);
