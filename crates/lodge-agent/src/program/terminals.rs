//! Commands that run for a program, and their output.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use lodge_tools::{OutputSink, ToolCx, ToolError, ToolUpdate, UserCommand};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use uuid::Uuid;

/// So much of the end of a command's output is kept, unless the program wants less.
const MOST_OUTPUT: usize = 1 << 20;
/// So many commands may run at once.
pub(super) const MOST_TERMINALS: usize = 32;
/// So much of the output of a released one is kept, for calls that refer to it.
const RELEASED_OUTPUT: usize = 16 << 10;
/// Of so many released ones.
const MOST_RELEASED: usize = 64;

/// A command that runs.
pub(super) struct Terminal {
    command: UserCommand,
    output: Arc<Mutex<Output>>,
    exit: watch::Receiver<Option<i32>>,
    _place: Place,
}

/// The place of one command among those that may run.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    printed: Arc<Notify>,
}

/// The end of what a command printed.
struct Output {
    text: String,
    /// How many bytes it printed before that.
    dropped: usize,
    /// So much of the end the program gets.
    limit: usize,
}

impl Output {
    fn new(limit: usize) -> Self {
        Self {
            text: String::new(),
            dropped: 0,
            limit,
        }
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        // People may watch more than the program wants. Cut now and then: what is kept has to be moved for it.
        let kept = self.limit.max(RELEASED_OUTPUT);
        if self.text.len() > 2 * kept {
            self.cut(kept);
        }
    }

    /// Drops all but the end.
    fn cut(&mut self, kept: usize) {
        let cut = self.end(kept);
        self.text.drain(..cut);
        self.dropped += cut;
    }

    /// Where the last so many bytes begin.
    fn end(&self, bytes: usize) -> usize {
        self.text.ceil_char_boundary(self.text.len().saturating_sub(bytes))
    }

    fn report(&self) -> (&str, bool) {
        let start = self.end(self.limit);
        (&self.text[start..], self.dropped + start > 0)
    }

    /// What was printed after so many bytes, as far as it is kept, and how many bytes there are now.
    fn since(&self, bytes: usize) -> (String, usize) {
        let new = self.text.get(bytes.saturating_sub(self.dropped)..);
        (new.unwrap_or_default().to_owned(), self.dropped + self.text.len())
    }
}

impl Terminal {
    /// Runs a command for the program.
    pub(super) fn start(cx: &ToolCx, line: &str, limit: Option<usize>, place: Place) -> Result<Arc<Self>, ToolError> {
        let output = Arc::new(Mutex::new(Output::new(limit.unwrap_or(MOST_OUTPUT).min(MOST_OUTPUT))));
        let (kept, printed) = (output.clone(), place.printed.clone());
        let sink = OutputSink::new(move |update| {
            if let ToolUpdate::Partial(text) = update {
                kept.lock().push(&text);
                printed.notify_one();
            }
        });
        let sink = sink.taking_all();
        let command = cx.state.run_approved(cx, line, MOST_OUTPUT, sink)?;
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
        let (text, is_truncated) = output.report();
        json!({ "output": text, "truncated": is_truncated, "exitStatus": status })
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
    /// One of them printed something.
    pub(super) printed: Arc<Notify>,
}

impl Default for Terminals {
    fn default() -> Self {
        Self {
            open: HashMap::new(),
            released: VecDeque::new(),
            places: Arc::new(Semaphore::new(MOST_TERMINALS)),
            printed: Arc::default(),
        }
    }
}

impl Terminals {
    /// A place for one more.
    pub(super) fn reserve(&self) -> Result<Place, String> {
        let permit = self.places.clone().try_acquire_owned();
        let permit = permit.map_err(|_| format!("{MOST_TERMINALS} terminals are open already; release some first."))?;
        Ok(Place {
            _permit: permit,
            printed: self.printed.clone(),
        })
    }

    /// Adds one under an id of its own.
    pub(super) fn add(&mut self, id: Uuid, terminal: Arc<Terminal>) {
        self.open.insert(id.to_string(), terminal);
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Terminal>> {
        self.open.get(id)
    }

    /// What one that runs printed after so many bytes, and how many bytes there are now.
    pub(super) fn since(&self, id: &str, bytes: usize) -> Option<(String, usize)> {
        self.open.get(id).map(|terminal| terminal.output.lock().since(bytes))
    }

    /// The end of what one printed.
    pub(super) fn output(&self, id: &str) -> Option<String> {
        let open = self.open.get(id).map(|terminal| terminal.output.lock().text.clone());
        let released = || self.released.iter().find(|(known, _)| known == id);
        open.or_else(|| released().map(|(_, text)| text.clone()))
    }

    /// Ends one, and forgets all but the end of what it printed: calls may refer to that.
    pub(super) fn release(&mut self, id: &str) {
        let Some(terminal) = self.open.remove(id) else { return };
        terminal.kill();
        let mut output = std::mem::replace(&mut *terminal.output.lock(), Output::new(0));
        output.cut(RELEASED_OUTPUT);
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
