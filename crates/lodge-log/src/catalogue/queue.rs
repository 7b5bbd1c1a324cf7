//! The work queue of the catalogue's thread.

use std::sync::Arc;
use std::time::Duration;

use lodge_events::Event;
use parking_lot::{Condvar, Mutex};

use super::digest::matters;
use super::listed::Listed;
use crate::file_log::Observer;
use crate::store::Position;

/// How long appends are gathered before they are written, unless somebody asks.
const GATHER: Duration = Duration::from_millis(50);
/// How many bytes of events may wait, and how many tasks. Beyond that they are dropped, and read from the logs instead.
const WAITING_BYTES: usize = 8 * 1024 * 1024;
const WAITING_TASKS: usize = 50_000;

/// An event that was appended.
pub(super) struct Note {
    /// Where in the log.
    pub(super) at: u64,
    /// Where the next event begins.
    pub(super) next: u64,
    pub(super) time: i64,
    /// Present where the event changes more than a number.
    pub(super) event: Option<Event>,
}

/// Something to do.
pub(super) enum Task {
    /// Take an event of a session in.
    Note(Box<str>, Note),
    /// Read a session's log from the beginning.
    Rebuild(Box<str>),
    /// Read a session's labels.
    Relabel(Box<str>),
    /// Take in what another host says of a session.
    TakeIn(Box<Listed>),
    /// Remove a session.
    Forget(Box<str>),
    /// Compare with all logs.
    CatchUpAll,
    /// See whether the database is still usable.
    Check,
}

#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    /// Bytes of the events that wait.
    bytes: usize,
    /// Some were dropped.
    overflown: bool,
    submitted: u64,
    done: u64,
    /// How many wait for an answer: no gathering then.
    waiting: usize,
    closed: bool,
    /// How often the database was reopened.
    openings: u64,
    /// What was done last could not be written.
    behind: bool,
}

/// The queue. Nobody who pushes ever waits.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

impl Queue {
    pub(super) fn push(&self, task: Task) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.submitted += 1;
        if let Task::Note(_, note) = &task {
            state.bytes += note.event.as_ref().map_or(0, |event| event.json().len());
            if state.bytes > WAITING_BYTES || state.tasks.len() > WAITING_TASKS {
                // Once is enough: it is done after all that waits.
                if !std::mem::replace(&mut state.overflown, true) {
                    state.tasks.push(Task::CatchUpAll);
                }
                return;
            }
        }
        state.tasks.push(task);
        if state.tasks.len() == 1 {
            self.work.notify_one();
        }
    }

    /// Waits until all that was pushed is done. Whether the database has it.
    pub(super) fn flush(&self) -> bool {
        let mut state = self.state.lock();
        let want = state.submitted;
        if state.done < want && !state.closed {
            state.waiting += 1;
            self.work.notify_one();
            while state.done < want && !state.closed {
                self.done.wait(&mut state);
            }
            state.waiting -= 1;
        }
        !state.behind
    }

    /// Nothing more will be pushed; the thread finishes what is there.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_one();
        self.done.notify_all();
    }

    /// The database was reopened: descriptions from other hosts are not in it.
    pub(super) fn opened_anew(&self) {
        self.state.lock().openings += 1;
    }

    /// How often the database was reopened.
    pub(super) fn openings(&self) -> u64 {
        self.state.lock().openings
    }

    /// Whether nothing was ever pushed.
    pub(super) fn is_unused(&self) -> bool {
        self.state.lock().submitted == 0
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// The next tasks, and a number for [`Queue::finished`]; `None` when it is closed and empty.
    pub(super) fn next_batch(&self) -> Option<(Vec<Task>, u64)> {
        let mut state = self.state.lock();
        while state.tasks.is_empty() {
            if state.closed {
                return None;
            }
            self.work.wait(&mut state);
        }
        if state.waiting == 0 && !state.closed {
            self.work
                .wait_while_for(&mut state, |state| state.waiting == 0 && !state.closed, GATHER);
        }
        (state.bytes, state.overflown) = (0, false);
        Some((std::mem::take(&mut state.tasks), state.submitted))
    }

    pub(super) fn finished(&self, number: u64, behind: bool) {
        let mut state = self.state.lock();
        (state.done, state.behind) = (number, behind);
        self.done.notify_all();
    }
}

/// Puts what happens to the logs into the queue.
pub(super) struct Noter(pub(super) Arc<Queue>);

impl Observer for Noter {
    fn appended(&self, id: &str, at: Position, event: &Event) {
        let next = at.0 + event.json().len() as u64 + 1;
        let time = event.timestamp().as_millisecond();
        let event = matters(event).then(|| event.clone());
        self.0.push(Task::Note(
            id.into(),
            Note {
                at: at.0,
                next,
                time,
                event,
            },
        ));
    }

    fn rewritten(&self, id: &str) {
        self.0.push(Task::Rebuild(id.into()));
    }

    fn relabelled(&self, id: &str) {
        self.0.push(Task::Relabel(id.into()));
    }

    fn deleted(&self, id: &str) {
        self.0.push(Task::Forget(id.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_nobody_empties_stays_small() {
        let queue = Arc::new(Queue::default());
        let message = lodge_events::UserMessage {
            content: "x".repeat(1_000_000),
            ..Default::default()
        };
        let event = Event::new(None, None, message);
        for n in 0..100_000 {
            Noter(queue.clone()).appended("s", Position(n), &event);
        }
        let (tasks, number) = queue.next_batch().unwrap();
        assert_eq!(number, 100_000);
        assert!(tasks.len() < 10, "{} tasks of a megabyte each", tasks.len());
        assert_eq!(tasks.iter().filter(|task| matches!(task, Task::CatchUpAll)).count(), 1);
        Noter(queue.clone()).appended("s", Position(0), &event);
        assert!(matches!(queue.next_batch().unwrap().0[..], [Task::Note(..)]));
    }
}
