//! A workbench: a directory, a session, and calls as the agent makes them.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use lodge_events::PermissionRequest;
use lodge_tools::{
    Editor, Need, OutputSink, RuleCheck, SessionTools, Tool, ToolCx, ToolError, ToolOutput, ToolUpdate, builtin,
    rules::Decision,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A working directory and a session in a temporary place.
pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) state: Arc<SessionTools>,
    pub(crate) updates: Arc<Mutex<Vec<ToolUpdate>>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) max_output_bytes: usize,
    pub(crate) number_lines: bool,
    pub(crate) rules: RuleCheck,
    pub(crate) editor: Option<Arc<dyn Editor>>,
    /// Where the session keeps its files, when that is elsewhere than usual.
    pub(crate) session_dir: Option<PathBuf>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Self {
            state: Arc::new(SessionTools::new(dir.path().join("session"))),
            dir,
            updates: Arc::default(),
            cancel: CancellationToken::new(),
            max_output_bytes: 20_000,
            number_lines: true,
            rules: Arc::new(|_| Decision::Ask { why: None }),
            editor: None,
            session_dir: None,
        }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Makes a file in the working directory.
    pub(crate) fn file(&self, path: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, contents).unwrap();
        path
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.work().join(path)).unwrap()
    }

    pub(crate) fn cx(&self, call: &str) -> ToolCx {
        let updates = self.updates.clone();
        ToolCx {
            session_id: "session".into(),
            call_id: call.into(),
            cwd: self.work(),
            roots: [self.work()].into(),
            readable: [self.work()].into(),
            session_dir: self
                .session_dir
                .clone()
                .unwrap_or_else(|| self.dir.path().join("session")),
            max_output_bytes: self.max_output_bytes,
            number_lines: self.number_lines,
            out: OutputSink::new(move |update| updates.lock().unwrap().push(update)),
            editor: self.editor.clone(),
            shown: None,
            state: self.state.clone(),
            cancel: self.cancel.clone(),
            rules: self.rules.clone(),
        }
    }

    pub(crate) fn tool(name: &str) -> Arc<dyn Tool> {
        builtin().into_iter().find(|tool| tool.name() == name).unwrap()
    }

    /// What the call asks permission for.
    pub(crate) fn need(&self, tool: &str, arguments: &Value) -> Result<Option<PermissionRequest>, ToolError> {
        Ok(match Self::tool(tool).need(arguments, &self.cx("call"))? {
            Need::Nothing => None,
            Need::Ask(request) | Need::Explain { request, .. } => Some(*request),
        })
    }

    /// Asks and runs, as if everything were allowed.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        let tool = Self::tool(tool);
        let cx = self.cx("call");
        match tool.need(&arguments, &cx)? {
            Need::Explain { error, .. } => Err(error),
            Need::Nothing | Need::Ask(_) => tool.run(arguments, cx).await,
        }
    }

    /// The text for the model, with the working directory shown as `$W` and the whole bench as `$B`.
    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> String {
        let text = match self.call(tool, arguments).await {
            Ok(output) => output.content,
            Err(error) => format!("ERROR: {error}"),
        };
        self.shown(&text)
    }

    pub(crate) fn shown(&self, text: &str) -> String {
        let shown = |path: &Path| path.display().to_string();
        text.replace(&shown(&self.work()), "$W")
            .replace(&shown(self.dir.path()), "$B")
    }

    /// What was streamed.
    pub(crate) fn streamed(&self) -> String {
        let updates = self.updates.lock().unwrap();
        updates
            .iter()
            .filter_map(|update| match update {
                ToolUpdate::Partial(text) => Some(text.as_str()),
                ToolUpdate::Progress(_) => None,
            })
            .collect()
    }
}
