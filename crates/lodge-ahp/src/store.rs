//! What this face keeps of its own: the URIs that clients chose, read and archive flags, drafts, further chats,
//! what clients chose for the host, and which clients it has met. One small file of lines each; the last
//! line about a thing counts. What a session is and says is in its log, not here.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use ahp_types::state::{AutomationSessionOrigin, ChangesSummary, ChatOrigin, Message, PendingMessage, SessionOrigin};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    customizations::{Own, Wide},
    state::seq::at,
    uri,
};

/// A further chat of a session: a session of the host's that is shown inside another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChatRecord {
    /// Its URI, as the client chose it.
    pub(crate) uri: String,
    /// The host's id of the session behind it.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) origin: ChatOrigin,
    /// How many of its first turns are not shown, because they only are what a side chat knows.
    #[serde(default)]
    pub(crate) hidden_turns: usize,
    /// What a side chat was opened about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) selection: Option<String>,
    /// The session that it was made in, when it was moved: addresses of what it has name that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) born: Option<String>,
}

/// What is kept about one session of the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SessionRecord {
    /// The URI that its maker chose, when it was a client of this face.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri: Option<String>,
    /// What its maker called the agent, when that is not its name here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider: Option<String>,
    /// The run of an automation that it was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<AutomationSessionOrigin>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) read: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) archived: bool,
    /// Whether everything runs without being asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) auto_approve: bool,
    /// The work tree that was made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worktree: Option<lodge_host::Worktree>,
    /// The directories that it works in beside the first, by their addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) directories: Vec<String>,
    /// Those of its session's directories that this chat has, when it has not all; its own first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) own_directories: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) chats: Vec<ChatRecord>,
    /// The order of its chats, where somebody chose one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) order: Vec<String>,
    /// What its default chat is called in its list of chats, since there are others beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default_title: Option<String>,
    /// The further chat that it was before it became a session of its own; now its default chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) own: Option<ChatRecord>,
    /// The session that this one is a chat of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chat_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) draft: Option<Message>,
    /// Messages that an earlier build kept here. They belong into the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) queue: Vec<PendingMessage>,
    /// What was turned on and off for it alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) decisions: Own,
    /// How many annotations it has, and entries in them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) annotated: Option<(i64, i64)>,
    /// What its turns changed, in numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<ChangesSummary>,
    /// Changed files that a person has seen: which, and what they were then.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) reviewed: BTreeMap<String, String>,
}

impl SessionRecord {
    /// What the agent is called in this session.
    pub(crate) fn provider(&self) -> String {
        self.provider.clone().unwrap_or_else(|| uri::PROVIDER.to_owned())
    }

    /// How it came to be, where that was not by a person.
    pub(crate) fn origin(&self) -> Option<SessionOrigin> {
        self.origin.clone().map(SessionOrigin::Automation)
    }

    /// Keeps what the agent is called, where that is not its name here.
    pub(crate) fn call_provider(&mut self, name: &str) {
        self.provider = (name != uri::PROVIDER).then(|| name.to_owned());
    }

    /// The URIs that it is known by, its own and those of its chats.
    fn uris(&self) -> impl Iterator<Item = &String> {
        let chats = self.chats.iter().chain(&self.own).map(|chat| &chat.uri);
        self.uri.iter().chain(chats)
    }
}

/// A client that was here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClientRecord {
    /// The version it spoke, which `reconnect` does not tell.
    pub(crate) version: String,
    /// What its program calls itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// The device that it is on; none for a client of the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Line<R> {
    key: String,
    /// Absent: forgotten.
    #[serde(skip_serializing_if = "Option::is_none", default = "none")]
    record: Option<R>,
}

fn none<R>() -> Option<R> {
    None
}

/// A map in a file of lines.
struct Lines<R> {
    path: PathBuf,
    map: HashMap<String, R>,
    file: fs::File,
    /// Lines in the file that say something that no longer counts.
    stale: usize,
    /// The file does not say what the map does, or ends in half a line: it must be written anew before anything is appended.
    owed: bool,
}

impl<R: Serialize + DeserializeOwned + Clone + PartialEq> Lines<R> {
    fn open(path: PathBuf) -> io::Result<Self> {
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(at(&path)(error)),
        };
        let mut map = HashMap::new();
        let (mut count, mut damaged) = (0_usize, 0);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            count += 1;
            match serde_json::from_slice::<Line<R>>(line) {
                Ok(Line {
                    key,
                    record: Some(record),
                }) => drop(map.insert(key, record)),
                Ok(Line { key, record: None }) => drop(map.remove(&key)),
                // A line cut short by a crash says nothing; all before it do.
                Err(_) => damaged += usize::from(line.ends_with(b"\n")),
            }
        }
        let mut lines = Self {
            file: Self::append(&path).map_err(at(&path))?,
            path,
            stale: count.saturating_sub(map.len()),
            map,
            owed: text.last().is_some_and(|byte| *byte != b'\n'),
        };
        if damaged > 0 {
            lines.set_aside(&text, damaged);
        }
        lines.owed |= lines.is_stale();
        // Where there is no room, what is there can be read all the same.
        lines.settle();
        Ok(lines)
    }

    /// Keeps a file with lines that nobody can read: what is written next leaves them out.
    fn set_aside(&mut self, text: &[u8], damaged: usize) {
        let aside = self.path.with_extension("damaged");
        let kept = match lodge_files::replace(&aside, text) {
            Ok(()) => format!("the file as it was is now {}", aside.display()),
            Err(error) => format!("{} cannot be written: {error}", aside.display()),
        };
        tracing::error!(
            "{damaged} lines of {} cannot be read and are left out; {kept}",
            self.path.display()
        );
        self.owed = true;
    }

    fn append(path: &Path) -> io::Result<fs::File> {
        fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)
    }

    fn is_stale(&self) -> bool {
        self.stale > 1000 + 2 * self.map.len()
    }

    fn compact(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        for (key, record) in &self.map {
            serde_json::to_writer(
                &mut text,
                &Line {
                    key: key.clone(),
                    record: Some(record),
                },
            )?;
            text.push(b'\n');
        }
        lodge_files::replace(&self.path, &text)?;
        self.file = Self::append(&self.path)?;
        self.stale = 0;
        self.owed = false;
        Ok(())
    }

    /// What could not be written is written with the next change.
    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            tracing::warn!("{} cannot be written: {error}", self.path.display());
            self.owed = true;
        }
    }

    /// Writes what could not be written before.
    fn settle(&mut self) {
        if self.owed {
            let written = self.compact();
            self.note(written);
        }
    }

    fn set(&mut self, key: &str, record: Option<R>) {
        if self.map.get(key) == record.as_ref() {
            return;
        }
        let line = serde_json::to_vec(&Line {
            key: key.to_owned(),
            record: record.as_ref(),
        });
        match record {
            Some(record) => self.map.insert(key.to_owned(), record),
            None => self.map.remove(key),
        };
        self.stale += 1;
        let written = if self.owed || self.is_stale() {
            self.compact()
        } else {
            line.map_err(Into::into).and_then(|mut line| {
                line.push(b'\n');
                self.file.write_all(&line)
            })
        };
        self.note(written);
    }
}

/// What is kept about sessions. Records and the URIs in them are behind one lock, so they cannot disagree.
struct Sessions {
    lines: Lines<SessionRecord>,
    /// From a URI that a client chose to the host's id: sessions and further chats.
    by_uri: HashMap<String, String>,
}

/// The files.
pub(crate) struct Store {
    sessions: Mutex<Sessions>,
    clients: Mutex<Lines<ClientRecord>>,
    decisions: Mutex<Lines<Wide>>,
}

/// About how many things persons can decide for more than a session.
const DECISIONS: usize = 4096;

/// How many clients are remembered.
const CLIENTS: usize = 10_000;

impl Store {
    /// Opens the files in a directory, which is made if need be.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        // What people typed and which of their programs were here is theirs alone.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
        let lines: Lines<SessionRecord> = Lines::open(dir.join("sessions.jsonl"))?;
        let mut clients: Lines<ClientRecord> = Lines::open(dir.join("clients.jsonl"))?;
        if clients.map.len() > CLIENTS {
            clients.map.clear();
            clients.compact()?;
        }
        let mut by_uri = HashMap::new();
        for (id, record) in &lines.map {
            by_uri.extend(record.uris().map(|uri| (uri.clone(), id.clone())));
        }
        Ok(Self {
            sessions: Mutex::new(Sessions { lines, by_uri }),
            clients: Mutex::new(clients),
            decisions: Mutex::new(Lines::open(dir.join("decisions.jsonl"))?),
        })
    }

    /// Before the host ends: what there was no room for is written, where there is some now.
    pub(crate) fn settle(&self) {
        self.sessions.lock().lines.settle();
        self.clients.lock().settle();
        self.decisions.lock().settle();
    }

    /// What is kept about a session.
    pub(crate) fn session(&self, id: &str) -> SessionRecord {
        self.sessions.lock().lines.map.get(id).cloned().unwrap_or_default()
    }

    /// The host's id of the session that has, or whose chat has, a URI that a client chose.
    pub(crate) fn id_of(&self, uri: &str) -> Option<String> {
        self.sessions.lock().by_uri.get(uri).cloned()
    }

    /// The sessions, by the host's ids, that have chats now which were made in another one.
    pub(crate) fn with_chats_of(&self, born: &str) -> Vec<String> {
        let sessions = self.sessions.lock();
        let has = |record: &SessionRecord| {
            let mut chats = record.chats.iter().chain(&record.own);
            chats.any(|chat| chat.born.as_deref() == Some(born))
        };
        let found = sessions.lines.map.iter().filter(|(_, record)| has(record));
        found.map(|(id, _)| id.clone()).collect()
    }

    /// The sessions, by the host's ids, of which an earlier build kept messages here.
    pub(crate) fn with_queues(&self) -> Vec<String> {
        let sessions = self.sessions.lock();
        let found = sessions.lines.map.iter().filter(|(_, record)| !record.queue.is_empty());
        found.map(|(id, _)| id.clone()).collect()
    }

    /// Changes what is kept about a session. Nobody else changes it meanwhile, so `change` must not use the store.
    pub(crate) fn update(&self, id: &str, change: impl FnOnce(&mut SessionRecord)) {
        let Sessions { lines, by_uri } = &mut *self.sessions.lock();
        let mut record = lines.map.get(id).cloned().unwrap_or_default();
        for uri in record.uris() {
            by_uri.remove(uri);
        }
        change(&mut record);
        by_uri.extend(record.uris().map(|uri| (uri.clone(), id.to_owned())));
        lines.set(id, Some(record));
    }

    /// Forgets a session.
    pub(crate) fn forget(&self, id: &str) {
        let Sessions { lines, by_uri } = &mut *self.sessions.lock();
        by_uri.retain(|_, of| of != id);
        lines.set(id, None);
    }

    /// What persons decided for more than one session, by the ids of things.
    pub(crate) fn decided(&self) -> BTreeMap<String, Wide> {
        let decisions = self.decisions.lock();
        decisions
            .map
            .iter()
            .map(|(id, wide)| (id.clone(), wide.clone()))
            .collect()
    }

    /// Whether more can be decided about a thing.
    pub(crate) fn can_decide(&self, id: &str) -> bool {
        let decisions = self.decisions.lock();
        decisions.map.len() < DECISIONS || decisions.map.contains_key(id)
    }

    /// Changes what was decided about a thing. Whether that is something else now.
    pub(crate) fn decide(&self, id: &str, change: impl FnOnce(Wide) -> Wide) -> bool {
        let mut decisions = self.decisions.lock();
        let before = decisions.map.get(id).cloned().unwrap_or_default();
        let now = change(before.clone());
        let changed = now != before;
        decisions.set(id, (!now.is_empty()).then_some(now));
        changed
    }

    /// What is known about a client that was here.
    pub(crate) fn client(&self, client: &str) -> Option<ClientRecord> {
        self.clients.lock().map.get(client).cloned()
    }

    /// Remembers a client.
    pub(crate) fn met(&self, client: &str, version: &str, name: &str, device: Option<&str>) {
        let record = ClientRecord {
            version: version.to_owned(),
            name: name.to_owned(),
            device: device.map(str::to_owned),
        };
        self.clients.lock().set(client, Some(record));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_survives_a_restart_and_a_line_cut_short() {
        let dir = tempfile::tempdir().unwrap();
        {
            let store = Store::open(dir.path()).unwrap();
            store.update("a", |record| record.uri = Some("copilot:/1".into()));
            store.update("a", |record| record.read = true);
            store.update("b", |record| record.archived = true);
            store.forget("b");
            store.met("phone", "0.1.0", "", None);
        }
        let file = dir.path().join("sessions.jsonl");
        let mut text = fs::read_to_string(&file).unwrap();
        text.push_str(r#"{"key":"a","rec"#);
        fs::write(&file, text).unwrap();
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(store.id_of("copilot:/1").as_deref(), Some("a"));
        assert!(store.session("a").read);
        assert_eq!(store.session("b"), SessionRecord::default());
        assert_eq!(store.client("phone").unwrap().version, "0.1.0");
        assert_eq!(store.client("tablet"), None);
    }

    #[test]
    fn changes_at_the_same_time_lose_nothing() {
        const WRITERS: usize = 8;
        const CHANGES: usize = 50;
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let store = &store;
                scope.spawn(move || {
                    for change in 0..CHANGES {
                        store.update("a", |record| {
                            record.reviewed.insert(format!("{writer}-{change}"), "seen".into());
                        });
                    }
                });
            }
        });
        assert_eq!(store.session("a").reviewed.len(), WRITERS * CHANGES);
        drop(store);
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(store.session("a").reviewed.len(), WRITERS * CHANGES);
    }

    #[test]
    fn a_damaged_line_costs_only_itself_and_is_kept_aside() {
        let dir = tempfile::tempdir().unwrap();
        {
            let store = Store::open(dir.path()).unwrap();
            for id in ["a", "b", "c"] {
                store.update(id, |record| record.uri = Some(format!("copilot:/{id}")));
            }
        }
        let file = dir.path().join("sessions.jsonl");
        let mut text = fs::read(&file).unwrap();
        let at = text.windows(9).position(|bytes| bytes == b"copilot:/").unwrap();
        // A bit that tips over need not leave letters behind.
        text[at] = 0xff;
        fs::write(&file, &text).unwrap();
        for _ in 0..2 {
            let store = Store::open(dir.path()).unwrap();
            assert_eq!(store.id_of("copilot:/a"), None);
            assert_eq!(store.id_of("copilot:/b").as_deref(), Some("b"));
            assert_eq!(store.id_of("copilot:/c").as_deref(), Some("c"));
            store.update("c", |record| record.read = true);
            assert_eq!(fs::read(dir.path().join("sessions.damaged")).unwrap(), text);
        }
    }

    #[test]
    fn what_there_was_no_room_for_is_written_when_there_is() {
        for told in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            {
                let store = Store::open(dir.path()).unwrap();
                store.update("a", |record| record.archived = true);
                // Half a line is on the disk already when it is full.
                let mut file = fs::OpenOptions::new()
                    .append(true)
                    .open(dir.path().join("sessions.jsonl"))
                    .unwrap();
                file.write_all(b"{\"key\":\"b\",").unwrap();
                store.sessions.lock().lines.file = fs::File::options().append(true).open("/dev/full").unwrap();
                store.update("b", |record| record.archived = true);
                assert!(store.session("b").archived);
                if told {
                    store.update("c", |record| record.archived = true);
                } else {
                    store.settle();
                }
            }
            let store = Store::open(dir.path()).unwrap();
            let archived = ["a", "b", "c"].map(|id| store.session(id).archived);
            assert_eq!(archived, [true, true, told]);
        }
    }
}
