//! Sends each file that is written to a session's directory to the client that stores it, before the client hears of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use bytes::Bytes;
use lodge_events::{Event, SessionError};
use lodge_host::{LOG_FILE, Session, stored_files};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::{FileError, Files};
use crate::peer::Peer;

/// How much of the end of a file is compared before more is appended.
const COMPARED: usize = 256;

/// Items of the mirror's queue, in order.
enum Item {
    Event(Event),
    /// An event was written that the client does not want.
    Written,
    /// A request to report when everything is sent.
    Flush(oneshot::Sender<()>),
}

/// The mirror's queue.
#[derive(Clone)]
pub(crate) struct Queued {
    items: mpsc::UnboundedSender<Item>,
    bytes: Arc<AtomicUsize>,
    limit: usize,
    peer: Peer,
}

impl Queued {
    /// Sends an event after all files that belong to it. A client that does not keep up is disconnected.
    pub(crate) fn event(&self, event: &Event, wanted: bool) {
        if !wanted {
            return drop(self.items.send(Item::Written));
        }
        let waiting = self.bytes.fetch_add(event.json().len(), Ordering::Relaxed);
        if waiting > self.limit {
            return self.peer.close("the client is too slow to store the session's files");
        }
        let _ = self.items.send(Item::Event(event.clone()));
    }

    /// Waits until all writes are sent to the client.
    pub(crate) async fn flush(&self) {
        let (done, waiting) = oneshot::channel();
        if self.items.send(Item::Flush(done)).is_ok() {
            let _ = waiting.await;
        }
    }
}

/// One session's mirror. Dropping it ends it.
pub(crate) struct Mirror {
    queued: Queued,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Mirror {
    /// Starts to send a session's files to the client. With `same`, the client already has them as they are.
    pub(crate) fn start(session: Session, files: Files, prefix: Bytes, limit: usize, same: bool) -> Self {
        let (items, received) = mpsc::unbounded_channel();
        let queued = Queued {
            items,
            bytes: Arc::default(),
            limit,
            peer: files.peer.clone(),
        };
        let work = Work {
            dir: session.dir().to_owned(),
            session,
            files,
            prefix,
            sent: Sent::default(),
            made: BTreeSet::new(),
            failing: false,
        };
        let task = tokio::spawn(work.run(received, queued.bytes.clone(), same));
        Self { queued, task }
    }

    /// The way in.
    pub(crate) fn queued(&self) -> Queued {
        self.queued.clone()
    }
}

struct Work {
    session: Session,
    dir: PathBuf,
    files: Files,
    prefix: Bytes,
    sent: Sent,
    /// Folders that exist at the client.
    made: BTreeSet<String>,
    failing: bool,
}

/// The length of a log, and its last bytes.
type LogEnd = (u64, Vec<u8>);

/// The state of the client's files.
#[derive(Debug, Clone, Default)]
struct Sent {
    log: LogEnd,
    files: BTreeMap<String, (u64, Option<SystemTime>)>,
}

/// A change to the client's files.
enum Step {
    Append(String, String),
    Write(String, String),
    Remove(String),
}

impl Work {
    async fn run(mut self, mut items: mpsc::UnboundedReceiver<Item>, bytes: Arc<AtomicUsize>, same: bool) {
        if same && let Ok((_, sent)) = self.compare().await {
            self.sent = sent;
        }
        while let Some(first) = items.recv().await {
            let mut batch = vec![first];
            while let Ok(item) = items.try_recv() {
                batch.push(item);
            }
            let written = |item: &Item| !matches!(item, Item::Event(event) if event.is_ephemeral());
            if batch.iter().any(written) {
                self.bring().await;
            }
            for item in batch {
                match item {
                    Item::Event(event) => {
                        bytes.fetch_sub(event.json().len(), Ordering::Relaxed);
                        self.files.peer.event(&self.prefix, &event);
                    }
                    Item::Written => {}
                    Item::Flush(done) => drop(done.send(())),
                }
            }
        }
    }

    async fn compare(&self) -> io::Result<(Vec<Step>, Sent)> {
        let (dir, sent) = (self.dir.clone(), self.sent.clone());
        tokio::task::spawn_blocking(move || compare(&dir, &sent)).await?
    }

    /// Sends the changes. Failed ones are tried again with the next, and the client is notified once.
    async fn bring(&mut self) {
        let result = match self.compare().await {
            Ok((steps, sent)) => {
                let result = self.all(steps).await;
                if result.is_ok() {
                    self.sent = sent;
                }
                result.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let failed = result.is_err();
        if let Err(error) = result
            && !self.failing
        {
            tracing::warn!(session = self.session.id(), %error, "the client could not store the session's files");
            // From here on, the state of the client's files is unknown: everything is sent again.
            let told = self.session.tell(SessionError {
                error_type: "storage".to_owned(),
                message: format!("The client cannot store the session's files: {error}"),
                ..SessionError::default()
            });
            let _ = told.await;
        }
        if failed {
            self.sent = Sent::default();
        }
        self.failing = failed;
    }

    async fn all(&mut self, steps: Vec<Step>) -> Result<(), FileError> {
        for step in steps {
            match step {
                Step::Append(way, text) => self.put("appendFile", way, text).await?,
                Step::Write(way, text) => self.put("writeFile", way, text).await?,
                Step::Remove(way) => {
                    let path = self.files.path(&way);
                    self.files
                        .call("rm", json!({"path": path, "recursive": false, "force": true}))
                        .await?;
                }
            }
        }
        Ok(())
    }

    async fn put(&mut self, how: &str, way: String, text: String) -> Result<(), FileError> {
        let folder = way.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !self.made.contains(folder) {
            let path = self.files.path(folder);
            self.files
                .call("mkdir", json!({"path": path, "recursive": true}))
                .await?;
            self.made.insert(folder.to_owned());
        }
        let path = self.files.path(&way);
        self.files.call(how, json!({"path": path, "content": text})).await?;
        Ok(())
    }
}

/// The changes in a session's directory.
fn compare(dir: &Path, sent: &Sent) -> io::Result<(Vec<Step>, Sent)> {
    let (mut steps, mut now) = (Vec::new(), Sent::default());
    let there = stored_files(dir);
    for way in sent.files.keys().filter(|way| !there.contains_key(*way)) {
        steps.push(Step::Remove(way.clone()));
    }
    for (way, path) in there {
        let about = fs::metadata(&path)?;
        let stamp = (about.len(), about.modified().ok());
        if way == LOG_FILE {
            let known = sent.files.contains_key(&way);
            let (step, log) = compare_log(&path, known.then_some(&sent.log))?;
            steps.extend(step);
            now.log = log;
        } else if sent.files.get(&way) != Some(&stamp) {
            match fs::read_to_string(&path) {
                Ok(text) => steps.push(Step::Write(way.clone(), text)),
                Err(error) => tracing::warn!(path = %path.display(), %error, "clients can store only text"),
            }
        }
        now.files.insert(way, stamp);
    }
    Ok((steps, now))
}

fn compare_log(path: &Path, sent: Option<&LogEnd>) -> io::Result<(Option<Step>, LogEnd)> {
    use io::{Read, Seek, SeekFrom};
    let mut file = fs::File::open(path)?;
    let (length, end) = sent.map_or((0, Vec::new()), |(length, end)| (*length, end.clone()));
    file.seek(SeekFrom::Start(length.saturating_sub(end.len() as u64)))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let grown = text.starts_with(&end);
    if grown {
        text.drain(..end.len());
    } else {
        // It was cut, and perhaps extended since.
        text.clear();
        file.rewind()?;
        file.read_to_end(&mut text)?;
    }
    // An incomplete line is sent with the next change.
    text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1));
    let now = if grown { length } else { 0 } + text.len() as u64;
    let mut kept = if grown { end } else { Vec::new() };
    kept.extend_from_slice(&text);
    let kept = kept.split_off(kept.len().saturating_sub(COMPARED));
    let (empty, text) = (text.is_empty(), String::from_utf8_lossy(&text).into_owned());
    let step = match (grown && sent.is_some(), empty) {
        (true, true) => None,
        (true, false) => Some(Step::Append(LOG_FILE.to_owned(), text)),
        (false, _) => Some(Step::Write(LOG_FILE.to_owned(), text)),
    };
    Ok((step, (now, kept)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(steps: &[Step]) -> Vec<String> {
        let line = |step: &Step| match step {
            Step::Append(way, text) => format!("append {way} {text:?}"),
            Step::Write(way, text) => format!("write {way} {text:?}"),
            Step::Remove(way) => format!("remove {way}"),
        };
        steps.iter().map(line).collect()
    }

    #[test]
    fn only_what_is_new_is_brought_and_a_log_that_was_cut_is_brought_whole() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut sent = Sent::default();
        let mut check = |expected: &[&str]| {
            let (steps, now) = compare(dir, &sent).unwrap();
            assert_eq!(told(&steps), expected);
            sent = now;
        };
        let log = dir.join(LOG_FILE);
        fs::write(&log, "one\n").unwrap();
        fs::create_dir_all(dir.join("files/deep")).unwrap();
        fs::write(dir.join("files/deep/a.txt"), "a").unwrap();
        fs::write(dir.join("session.db"), [0xff]).unwrap();
        check(&[r#"write events.jsonl "one\n""#, r#"write files/deep/a.txt "a""#]);
        check(&[]);
        fs::write(&log, "one\ntwo\nthr").unwrap();
        check(&[r#"append events.jsonl "two\n""#]);
        fs::write(&log, "one\ntwo\nthree\n").unwrap();
        fs::remove_file(dir.join("files/deep/a.txt")).unwrap();
        check(&["remove files/deep/a.txt", r#"append events.jsonl "three\n""#]);
        fs::write(&log, "one\nelsewhere, and longer than before\n").unwrap();
        check(&[r#"write events.jsonl "one\nelsewhere, and longer than before\n""#]);
    }
}
