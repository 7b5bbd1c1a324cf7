//! Messages that were accepted and are not yet in the log. They are kept in a file beside it, so that a killed host loses
//! none of them.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{facts::Facts, settings::Prompt};

const FILE: &str = "queue.json";

/// The messages.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Lists {
    /// The process that has them; another one leaves them alone while it lives.
    pid: u32,
    /// The one whose turn has begun, until it is recorded.
    starting: Option<Prompt>,
    /// Meant for the running turn.
    pub(crate) steering: VecDeque<Prompt>,
    /// For after it.
    pub(crate) waiting: VecDeque<Prompt>,
    /// Accepted by a face that still prepares what they need. They are sent under the same ids.
    accepted: VecDeque<Prompt>,
}

impl Lists {
    /// The one that waits longest; it is kept as starting until it is recorded.
    pub(crate) fn take_next(&mut self) -> Option<Prompt> {
        self.starting = self.waiting.pop_front();
        self.starting.clone()
    }

    /// Whether a turn has begun whose message is not recorded yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.starting.is_some()
    }

    /// Forgets the message of this id, which is about to be queued or is not wanted any more.
    pub(crate) fn forget(&mut self, id: &str) {
        for list in [&mut self.waiting, &mut self.accepted] {
            list.retain(|prompt| prompt.message_id.as_deref() != Some(id));
        }
    }

    fn is_empty(&self) -> bool {
        let lists = [&self.steering, &self.waiting, &self.accepted];
        self.starting.is_none() && lists.iter().all(|list| list.is_empty())
    }
}

/// The queue of a session.
pub(crate) struct Queue {
    lists: Mutex<Lists>,
    /// Nowhere, for a sub-agent's: it does not outlive the host.
    kept: Option<Mutex<Kept>>,
    /// What became of a file that could not be read, for people.
    damage: Option<String>,
}

impl Queue {
    /// An empty one that is kept nowhere.
    pub(crate) fn in_memory() -> Self {
        Self {
            lists: Mutex::default(),
            kept: None,
            damage: None,
        }
    }

    /// What a host that is gone left behind, or nothing. What is in the log already is not taken again.
    pub(crate) fn open(dir: &Path, facts: &Facts) -> Self {
        let mut kept = Kept {
            path: dir.join(FILE),
            file: None,
            len: 0,
        };
        let (left, damage) = match read(&kept.path) {
            Ok(left) => (left, None),
            Err(error) => (None, Some(set_aside(&kept.path, &error))),
        };
        let mut lists = Lists {
            pid: std::process::id(),
            ..Lists::default()
        };
        if let Some((len, left)) = left.filter(|(_, left)| left.pid == lists.pid || !lives(left.pid)) {
            let all = left.starting.into_iter().chain(left.steering).chain(left.waiting);
            lists.waiting = all
                .chain(left.accepted)
                .filter(|prompt| prompt.message_id != facts.last_message_id)
                .map(|prompt| prompt.left_after(facts.last_message_id.as_deref()))
                .collect();
            kept.len = len;
        }
        Self {
            lists: Mutex::new(lists),
            kept: Some(Mutex::new(kept)),
            damage,
        }
    }

    /// That waiting messages were found in a file that cannot be read, and where that file is now.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Looks at it.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Lists) -> T) -> T {
        look(&self.lists.lock())
    }

    /// Changes it, and keeps the change.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Lists) -> T) -> T {
        let mut lists = self.lists.lock();
        let result = change(&mut lists);
        self.keep(&lists);
        result
    }

    /// Keeps a message that is sent later. An error says that it is not kept.
    pub(crate) fn accept(&self, prompt: Prompt) -> io::Result<()> {
        let mut lists = self.lists.lock();
        let id = prompt.message_id.clone();
        let at = lists.accepted.iter().position(|known| known.message_id == id);
        let before = match at.and_then(|at| lists.accepted.get_mut(at)) {
            Some(known) => Some(std::mem::replace(known, prompt)),
            None => {
                lists.accepted.push_back(prompt);
                None
            }
        };
        let kept = self.kept.as_ref().map_or(Ok(()), |kept| kept.lock().put(&lists));
        if kept.is_err() {
            match (at.and_then(|at| lists.accepted.get_mut(at)), before) {
                (Some(known), Some(before)) => *known = before,
                _ => drop(lists.accepted.pop_back()),
            }
        }
        kept
    }

    /// Changes it when the next change, which keeps both, comes before anybody is told of this one.
    pub(crate) fn change_for_now(&self, change: impl FnOnce(&mut Lists)) {
        change(&mut self.lists.lock());
    }

    /// The message whose turn has begun is in the log now, or nobody wants it any more.
    pub(crate) fn recorded(&self) {
        if self.look(|lists| lists.starting.is_some()) {
            self.change(|lists| lists.starting = None);
        }
    }

    /// That it cannot be kept is logged: the log itself tells clients when the disk is full.
    fn keep(&self, lists: &Lists) {
        let Some(kept) = &self.kept else { return };
        let mut kept = kept.lock();
        if let Err(error) = kept.put(lists) {
            tracing::warn!(path = %kept.path.display(), %error, "waiting messages cannot be kept");
        }
    }
}

impl Drop for Queue {
    /// An empty queue leaves no file.
    fn drop(&mut self) {
        if let Some(kept) = &self.kept
            && self.lists.lock().is_empty()
        {
            kept.lock().remove();
        }
    }
}

/// The file with the messages. It is written in place, since each message changes it twice: other names and lengths are
/// what a disk that brings a log to safety makes everybody wait for.
struct Kept {
    path: PathBuf,
    /// Open while there is something in it.
    file: Option<File>,
    /// How long the file is; 0 when it is not there, or not ours.
    len: usize,
}

impl Kept {
    /// The longest text that the system writes as a whole, or not at all, when the process is killed.
    const WHOLE: usize = 4096;
    const NOTHING: &[u8] = b"{}";

    fn put(&mut self, lists: &Lists) -> io::Result<()> {
        if lists.is_empty() {
            return self.clear();
        }
        let mut text = serde_json::to_vec(lists)?;
        if text.len().max(self.len) > Self::WHOLE {
            return self.replace(&text);
        }
        text.resize(text.len().max(self.len), b' ');
        self.overwrite(&text)
    }

    fn clear(&mut self) -> io::Result<()> {
        if self.len > Self::WHOLE {
            self.replace(Self::NOTHING)?;
        } else if self.file.is_some() || self.len > Self::NOTHING.len() {
            let mut text = Self::NOTHING.to_vec();
            text.resize(self.len.max(text.len()), b' ');
            self.overwrite(&text)?;
        }
        self.file = None;
        Ok(())
    }

    fn overwrite(&mut self, text: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(private().open(&self.path)?),
        };
        std::os::unix::fs::FileExt::write_all_at(file, text, 0)?;
        self.len = text.len();
        Ok(())
    }

    /// For what is too long to be written at once: a file that is cut in the middle must never be there.
    fn replace(&mut self, text: &[u8]) -> io::Result<()> {
        self.file = None;
        let temporary = self.path.with_extension("json.new");
        let file = private().truncate(true).open(&temporary)?;
        std::os::unix::fs::FileExt::write_all_at(&file, text, 0)?;
        std::fs::rename(temporary, &self.path)?;
        self.len = text.len();
        Ok(())
    }

    /// Removes the file, unless another process has put something there.
    fn remove(&mut self) {
        let empty = |text: Vec<u8>| text.trim_ascii() == Self::NOTHING;
        if self.len > 0 && std::fs::read(&self.path).is_ok_and(empty) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What a file holds, and how long it is.
fn read(path: &Path) -> io::Result<Option<(usize, Lists)>> {
    match std::fs::read(path) {
        Ok(text) if text.trim_ascii().is_empty() => Ok(None),
        Ok(text) => Ok(Some((text.len(), serde_json::from_slice(&text)?))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Messages that somebody was told are accepted are not overwritten because they cannot be read.
fn set_aside(path: &Path, error: &io::Error) -> String {
    let aside = path.with_extension(format!("damaged-{}.json", uuid::Uuid::new_v4().simple()));
    let became = match std::fs::rename(path, &aside) {
        Ok(()) => format!("The file was kept as {}; send the messages again.", aside.display()),
        Err(error) => format!("The file could not be set aside ({error})."),
    };
    format!(
        "Messages that waited for their turn cannot be read from {}: {error}. {became}",
        path.display()
    )
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create(true).truncate(false), 0o600);
    options
}

#[cfg(unix)]
fn lives(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

#[cfg(not(unix))]
fn lives(_: u32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(id: &str) -> Prompt {
        Prompt {
            message_id: Some(id.into()),
            ..Prompt::default()
        }
    }

    fn ids(queue: &Queue) -> Vec<String> {
        queue.look(|lists| {
            lists
                .waiting
                .iter()
                .filter_map(|prompt| prompt.message_id.clone())
                .collect()
        })
    }

    #[test]
    fn what_was_accepted_is_there_after_a_crash_but_not_twice() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::open(dir.path(), &Facts::default());
        queue.change(|lists| lists.waiting.push_back(prompt("a")));
        queue.change(|lists| drop(lists.take_next()));
        queue.change(|lists| lists.waiting.push_back(prompt("c")));
        let batch = Prompt {
            before: ["b0", "b1", "b2"].map(prompt).into(),
            ..prompt("b")
        };
        queue.change(|lists| lists.steering.push_back(batch));
        assert_eq!(ids(&Queue::open(dir.path(), &Facts::default())), ["a", "b", "c"]);
        let recorded = Facts {
            last_message_id: Some("a".into()),
            ..Facts::default()
        };
        assert_eq!(ids(&Queue::open(dir.path(), &recorded)), ["b", "c"]);
        let half = Facts {
            last_message_id: Some("b1".into()),
            ..Facts::default()
        };
        let left = Queue::open(dir.path(), &half).look(|lists| lists.waiting[1].clone());
        let before: Vec<_> = left
            .before
            .iter()
            .filter_map(|prompt| prompt.message_id.as_deref())
            .collect();
        assert_eq!(before, ["b2"], "what is recorded is not said again");
        queue.recorded();
        queue.change(|lists| {
            lists.steering.clear();
            lists.waiting.clear();
        });
        drop(queue);
        assert!(!dir.path().join(FILE).exists(), "an empty queue leaves no file");
    }

    #[test]
    fn an_accepted_message_is_there_after_a_crash_once_whether_it_was_sent_or_not() {
        for (sent, expected) in [(false, vec!["b", "a"]), (true, vec!["a", "b"])] {
            let dir = tempfile::tempdir().unwrap();
            let queue = Queue::open(dir.path(), &Facts::default());
            for text in ["first", "second"] {
                let text = text.to_owned();
                queue.accept(Prompt { text, ..prompt("a") }).unwrap();
            }
            assert!(ids(&queue).is_empty(), "it is not said before it is sent");
            queue.change(|lists| {
                if sent {
                    lists.forget("a");
                    lists.waiting.push_back(prompt("a"));
                }
                lists.waiting.push_back(prompt("b"));
            });
            std::mem::forget(queue);
            let again = Queue::open(dir.path(), &Facts::default());
            assert_eq!(ids(&again), expected);
            let texts = again.look(|lists| {
                lists
                    .waiting
                    .iter()
                    .map(|prompt| prompt.text.clone())
                    .collect::<Vec<_>>()
            });
            assert_eq!(texts.contains(&"second".to_owned()), !sent);
            assert!(!texts.contains(&"first".to_owned()));
        }
    }

    #[test]
    fn a_message_that_cannot_be_kept_is_not_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::open(&dir.path().join("missing"), &Facts::default());
        assert!(queue.accept(prompt("a")).is_err());
        assert!(queue.look(Lists::is_empty));
    }

    #[test]
    fn short_and_long_messages_are_kept_whichever_came_before() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::open(dir.path(), &Facts::default());
        for text in ["short", "", "long", "long", "short", "", "short", "long", ""] {
            queue.change(|lists| {
                lists.waiting.clear();
                if !text.is_empty() {
                    lists.waiting.push_back(Prompt {
                        text: if text == "long" { "x".repeat(9000) } else { "x".into() },
                        ..prompt(text)
                    });
                }
            });
            let expected: Vec<&str> = Some(text).filter(|text| !text.is_empty()).into_iter().collect();
            let again = Queue::open(dir.path(), &Facts::default());
            assert_eq!(ids(&again), expected);
            // Not dropped: it would remove the file of an empty queue.
            std::mem::forget(again);
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_set_aside_and_told() {
        for garbled in [&b"{\"pid\":1,\"waiting\":[{"[..], b"\0\0\0\0", b"[1,2]", b"\xff\xfe{}"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(FILE), garbled).unwrap();
            let queue = Queue::open(dir.path(), &Facts::default());
            let damage = queue.damage().unwrap().to_owned();
            queue.change(|lists| lists.waiting.push_back(prompt("a")));
            let aside = std::fs::read_dir(dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().path());
            let aside: Vec<PathBuf> = aside
                .filter(|path| path.to_string_lossy().contains("damaged"))
                .collect();
            assert_eq!(std::fs::read(&aside[0]).unwrap(), garbled);
            assert!(damage.contains(&aside[0].display().to_string()), "{damage}");
            let again = Queue::open(dir.path(), &Facts::default());
            assert_eq!((ids(&again), again.damage()), (vec!["a".to_owned()], None));
        }
    }

    #[test]
    fn what_another_living_process_has_is_left_to_it() {
        let dir = tempfile::tempdir().unwrap();
        for (pid, expected) in [(1, 0), (u32::MAX, 1)] {
            let lists = Lists {
                pid,
                waiting: [prompt("a")].into(),
                ..Lists::default()
            };
            std::fs::write(dir.path().join(FILE), serde_json::to_vec(&lists).unwrap()).unwrap();
            assert_eq!(
                ids(&Queue::open(dir.path(), &Facts::default())).len(),
                expected,
                "process {pid}"
            );
        }
    }
}
