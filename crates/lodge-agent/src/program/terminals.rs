//! Commands that run for a program, and their output.

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    sync::Arc,
};

use lodge_tools::{OutputSink, ToolError, ToolUpdate, UserCommand};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use uuid::Uuid;

use crate::session::Shared;

/// So much of a command's output is kept, unless the program wants less.
const MOST_OUTPUT: usize = 1 << 20;
/// So many commands may run at once.
const MOST_TERMINALS: usize = 32;
/// So much of the output of a released one is kept, for calls that refer to it.
const RELEASED_OUTPUT: usize = 16 << 10;
/// Of so many released ones.
const MOST_RELEASED: usize = 64;

/// A command that runs.
pub(super) struct Terminal {
    command: UserCommand,
    output: Arc<Mutex<Output>>,
    exit: watch::Receiver<Option<i32>>,
    _place: OwnedSemaphorePermit,
}

/// The end of what a command printed.
#[derive(Default)]
struct Output {
    text: String,
    limit: usize,
    truncated: bool,
}

impl Output {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        if self.text.len() > self.limit {
            let cut = self.text.ceil_char_boundary(self.text.len() - self.limit);
            self.text.drain(..cut);
            self.truncated = true;
        }
    }
}

impl Terminal {
    /// Runs a command for the program.
    pub(super) fn start(
        shared: &Shared,
        line: &str,
        cwd: &Path,
        limit: Option<usize>,
        place: OwnedSemaphorePermit,
    ) -> Result<Arc<Self>, ToolError> {
        let output = Arc::new(Mutex::new(Output {
            limit: limit.unwrap_or(MOST_OUTPUT).min(MOST_OUTPUT),
            ..Output::default()
        }));
        let kept = output.clone();
        let sink = OutputSink::new(move |update| {
            if let ToolUpdate::Partial(text) = update {
                kept.lock().push(&text);
            }
        });
        let command = shared.tool_state.run_for_user(line, cwd, MOST_OUTPUT, sink)?;
        let (ended, exit) = watch::channel(None);
        let terminal = Arc::new(Self {
            command,
            output,
            exit,
            _place: place,
        });
        let waits = terminal.clone();
        tokio::spawn(async move {
            let code = waits.command.exited().await;
            let _ = ended.send(Some(code));
        });
        Ok(terminal)
    }

    /// What it printed, and how it ended if it did, for the program.
    pub(super) fn report(&self) -> Value {
        let status = self
            .exit
            .borrow()
            .map_or(Value::Null, |code| json!({ "exitCode": code }));
        let output = self.output.lock();
        json!({ "output": output.text, "truncated": output.truncated, "exitStatus": status })
    }

    /// How it ended, once it did.
    pub(super) async fn exit_code(&self) -> Option<i32> {
        let mut exit = self.exit.clone();
        exit.wait_for(Option::is_some).await.ok().and_then(|code| *code)
    }

    pub(super) fn kill(&self) {
        self.command.signal("SIGKILL");
    }
}

/// The commands of one turn. Dropped, they end.
pub(super) struct Terminals {
    open: HashMap<String, Arc<Terminal>>,
    /// The ends of what released ones printed, by their ids, oldest first.
    released: VecDeque<(String, String)>,
    places: Arc<Semaphore>,
}

impl Default for Terminals {
    fn default() -> Self {
        Self {
            open: HashMap::new(),
            released: VecDeque::new(),
            places: Arc::new(Semaphore::new(MOST_TERMINALS)),
        }
    }
}

impl Terminals {
    /// A place for one more.
    pub(super) fn reserve(&self) -> Result<OwnedSemaphorePermit, String> {
        let place = self.places.clone().try_acquire_owned();
        place.map_err(|_| format!("{MOST_TERMINALS} terminals are open already; release some first."))
    }

    /// Adds one under an id of its own.
    pub(super) fn add(&mut self, id: Uuid, terminal: Arc<Terminal>) {
        self.open.insert(id.to_string(), terminal);
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Terminal>> {
        self.open.get(id)
    }

    /// What one printed; of a released one, the end of it.
    pub(super) fn output(&self, id: &str) -> Option<String> {
        let open = self.open.get(id).map(|terminal| terminal.output.lock().text.clone());
        let released = || self.released.iter().find(|(known, _)| known == id);
        open.or_else(|| released().map(|(_, text)| text.clone()))
    }

    /// Ends one, and forgets all but the end of what it printed: calls may refer to that.
    pub(super) fn release(&mut self, id: &str) {
        let Some(terminal) = self.open.remove(id) else { return };
        terminal.kill();
        let mut output = std::mem::take(&mut *terminal.output.lock());
        output.limit = RELEASED_OUTPUT;
        output.push("");
        output.text.shrink_to_fit();
        self.released.push_back((id.to_owned(), output.text));
        if self.released.len() > MOST_RELEASED {
            self.released.pop_front();
        }
    }
}

impl Drop for Terminals {
    fn drop(&mut self) {
        self.open.values().for_each(|terminal| terminal.kill());
    }
}
