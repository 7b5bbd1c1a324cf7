//! The `Tool` trait.

use std::{path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{Editor, Shown, changes::Touches, paths::Located};

/// A built-in tool.
pub trait Tool: Send + Sync {
    /// Name the model calls it by.
    fn name(&self) -> &'static str;
    /// What the model is told about it.
    fn description(&self) -> &'static str;
    /// JSON schema of the arguments.
    fn parameters(&self) -> Arc<Value>;
    /// What must be approved before `run`. An error goes to the model instead of running.
    fn need(&self, arguments: &Value, cx: &ToolCx) -> Result<Need, ToolError>;
    /// Whether calls of this tool may run beside other calls of the same message.
    fn parallel(&self) -> bool {
        false
    }
    /// What a call may do to files, so that it can be reported and undone.
    fn touches(&self, _arguments: &Value, _cx: &ToolCx) -> Touches {
        Touches::Nothing
    }
    /// The text file that a call reads, which a person may have changed in an editor and not saved.
    fn text_file(&self, _arguments: &Value, _cx: &ToolCx) -> Option<Located> {
        None
    }
    /// A short phrase of what this call is about, from the arguments (`assistant.intent`).
    fn intent(&self, _arguments: &Value) -> Option<String> {
        None
    }
    /// Tries a call that nobody approved where it can do no harm. `None` from tools that do no harm anyway: those just run.
    /// Nobody may see any of it before its outcome is known, so its output has to be held back.
    fn try_unasked(&self, _arguments: &Value, _cx: &ToolCx) -> Option<BoxFuture<'static, Attempt>> {
        None
    }
    /// Notes that a call which [`Attempt::NotEnough`] was the answer to went well once it was approved.
    fn needed_approval(&self, _arguments: &Value, _cx: &ToolCx) {}
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
    /// The call cannot work, and why says what is in a file: only whoever may read it is told.
    Explain {
        /// Reading the file.
        request: Box<lodge_events::PermissionRequest>,
        /// Why the call cannot work.
        error: ToolError,
    },
}

/// What came of trying a call that nobody approved.
pub enum Attempt {
    /// It has ended.
    Ended(Result<ToolOutput, ToolError>),
    /// It takes its time; this is the rest of it.
    GoesOn(BoxFuture<'static, Result<ToolOutput, ToolError>>),
    /// It needs more than it may have unasked. Nothing was changed, so it can run again once it is approved.
    NotEnough,
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
    /// Directories that the session works in, also when it may not write there.
    pub readable: Arc<[PathBuf]>,
    /// The session's own directory (`session.db`, `files/`, large outputs below `temp/`).
    pub session_dir: PathBuf,
    /// Results longer than this many bytes are put into a file.
    pub max_output_bytes: usize,
    /// Whether `view` puts its number before every line.
    pub number_lines: bool,
    /// Output while it happens.
    pub out: OutputSink,
    /// The editor that a person has the session open in.
    pub editor: Option<Arc<dyn Editor>>,
    /// The call's file as that shows it.
    pub shown: Option<Shown>,
    /// The session's long-lived shells and scratch database.
    pub state: Arc<crate::SessionTools>,
    /// Fires when the session or the turn is aborted.
    pub cancel: CancellationToken,
    /// What rules say of something that the call turns out to need while it runs.
    pub rules: RuleCheck,
}

/// What rules say of a request.
pub type RuleCheck = Arc<dyn Fn(&lodge_events::PermissionRequest) -> crate::rules::Decision + Send + Sync>;

/// Where a running tool reports.
#[derive(Clone)]
pub struct OutputSink {
    send: Arc<dyn Fn(ToolUpdate) + Send + Sync>,
    takes_all: bool,
}

impl OutputSink {
    /// A sink that calls `f` with every update, from the tool's task.
    pub fn new(f: impl Fn(ToolUpdate) + Send + Sync + 'static) -> Self {
        Self {
            send: Arc::new(f),
            takes_all: false,
        }
    }
    /// The same for somebody who needs all of the output, not only as much as people watch.
    #[must_use]
    pub fn taking_all(self) -> Self {
        Self {
            takes_all: true,
            ..self
        }
    }
    pub(crate) fn takes_all(&self) -> bool {
        self.takes_all
    }
    /// Reports one update.
    pub fn send(&self, update: ToolUpdate) {
        (self.send)(update)
    }
    /// A sink that keeps everything back until it is opened.
    pub fn held(&self) -> (Self, HeldOutput) {
        let held = HeldOutput {
            sink: self.clone(),
            updates: Arc::new(Mutex::new(Some(Vec::new()))),
        };
        let other = held.clone();
        let sink = Self::new(move |update| {
            let mut updates = other.updates.lock();
            match &mut *updates {
                Some(updates) => updates.push(update),
                None => other.sink.send(update),
            }
        });
        (sink, held)
    }
}

/// What a running tool reported while nobody was to see it.
#[derive(Clone)]
pub struct HeldOutput {
    sink: OutputSink,
    updates: Arc<Mutex<Option<Vec<ToolUpdate>>>>,
}

impl HeldOutput {
    /// Reports what was held back; what comes now is reported at once.
    pub fn open(&self) {
        // Under the lock, so that nothing overtakes it.
        let mut updates = self.updates.lock();
        for update in updates.take().into_iter().flatten() {
            self.sink.send(update);
        }
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
    /// Whether a fact was kept for later sessions.
    pub memory_changed: bool,
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
