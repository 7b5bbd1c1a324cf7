//! What a session keeps beside its log: its plan, its files, its to-do list, what it changed. The contents are stored under their
//! hash, and messages of the log say which file has which. They are fenced like all others, so a host that takes the session over has
//! the files as its last owner recorded them, and an earlier owner changes none of them any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use bytes::Bytes;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::{FleetError, FleetLog, Writer, bodies, record::hex};

/// The files of a session's directory that belong to the session wherever it is, by their way from there, with `/` between names.
pub type ListFiles = fn(&Path) -> BTreeMap<String, PathBuf>;

/// So much is stored at once, together with the events that come next. The rest is stored beside them.
const AT_ONCE: u64 = 512 << 10;
/// The longest file that is stored. Longer ones stay where they are.
const LONGEST: u64 = 64 << 20;

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Its way from the session's directory.
    pub path: String,
    /// Where its contents are; nothing when it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// The files that a log speaks of, by their ways, and where their contents are.
pub(crate) type Recorded = BTreeMap<String, String>;

/// Takes in what a message of the log says.
pub(crate) fn apply(recorded: &mut Recorded, changes: &[FileChange]) {
    for FileChange { path, body } in changes {
        match body {
            Some(body) => drop(recorded.insert(path.clone(), body.clone())),
            None => drop(recorded.remove(path)),
        }
    }
}

/// How a file looks without being read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    size: u64,
    modified: Option<SystemTime>,
}

/// Files whose contents are stored, and what they looked like.
type Stored = Vec<(FileChange, Look)>;

/// A file that was read.
struct Read {
    path: String,
    look: Look,
    bytes: Bytes,
}

/// What is different from what was looked at last.
struct Difference {
    changed: Vec<(String, PathBuf, Look)>,
    gone: Vec<String>,
}

/// Keeps the files of one session in the fleet what they are in its directory.
pub struct SessionFiles {
    dir: PathBuf,
    listed: ListFiles,
    recorded: Recorded,
    looked: Arc<BTreeMap<String, Look>>,
    /// How many bodies this owner has stored.
    stored: u64,
    /// Larger files on their way, with what they looked like.
    storing: Option<JoinHandle<Result<Stored, FleetError>>>,
}

impl std::fmt::Debug for SessionFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SessionFiles").field(&self.dir).finish()
    }
}

impl SessionFiles {
    /// Of a session whose log speaks of these files. Nothing in its directory was looked at yet.
    pub(crate) fn new(dir: PathBuf, listed: ListFiles, recorded: Recorded) -> Self {
        let unseen = Look {
            size: u64::MAX,
            modified: None,
        };
        let looked = recorded.keys().map(|path| (path.clone(), unseen.clone()));
        Self {
            dir,
            listed,
            looked: Arc::new(looked.collect()),
            recorded,
            stored: 0,
            storing: None,
        }
    }

    /// Makes the session's directory what the log says.
    pub(crate) async fn restore(&mut self, log: &FleetLog) -> Result<(), FleetError> {
        let (dir, listed, recorded) = (self.dir.clone(), self.listed, self.recorded.clone());
        let missing = in_directory(&self.dir, move || missing(&dir, listed, &recorded)).await?;
        for path in missing {
            let bad = |reason: String| FleetError::BadFile {
                session: log.session().to_owned(),
                path: path.clone(),
                reason,
            };
            if !is_inside(&path) {
                return Err(bad("it does not lead into the session's directory".into()));
            }
            let bytes = bodies::get(log, &self.recorded[&path]).await?.map_err(&bad)?;
            let to = self.dir.join(&path);
            in_directory(&self.dir, move || {
                let parent = to.parent().unwrap_or(Path::new("."));
                fs::create_dir_all(parent)?;
                lodge_files::replace(&to, &bytes)
            })
            .await?;
        }
        let (dir, listed) = (self.dir.clone(), self.listed);
        self.looked = Arc::new(in_directory(&self.dir, move || Ok(looks(&listed(&dir)))).await?);
        Ok(())
    }

    /// Brings to the fleet what changed: small files now, larger ones beside whatever comes next, and with `all` everything.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub async fn sync(&mut self, writer: &mut Writer, all: bool) -> Result<(), FleetError> {
        let mut changes = self.take_stored(all).await?;
        let (dir, listed, looked) = (self.dir.clone(), self.listed, self.looked.clone());
        let found = in_directory(&self.dir, move || Ok(differences(&listed(&dir), &looked))).await?;
        let Difference { mut changed, gone } = found;
        changed.sort_by_key(|(_, _, look)| look.size);
        let mut room = if all { u64::MAX } else { AT_ONCE };
        let now = changed.iter().take_while(|(_, _, look)| {
            let fits = look.size <= room;
            room = room.saturating_sub(look.size);
            fits
        });
        let later = changed.split_off(now.count());
        for (path, from, look) in changed {
            if let Some(change) = self.store(writer, path, from, &look).await? {
                changes.push((change, look));
            }
        }
        for path in gone {
            Arc::make_mut(&mut self.looked).remove(&path);
            if self.recorded.contains_key(&path) {
                changes.push((
                    FileChange { path, body: None },
                    Look {
                        size: 0,
                        modified: None,
                    },
                ));
            }
        }
        self.record(writer, changes).await?;
        if !later.is_empty() && self.storing.is_none() {
            self.store_beside(writer, later);
        }
        Ok(())
    }

    /// What was stored beside the log since.
    async fn take_stored(&mut self, all: bool) -> Result<Stored, FleetError> {
        match self.storing.take_if(|storing| all || storing.is_finished()) {
            None => Ok(Vec::new()),
            Some(storing) => storing.await.unwrap_or_else(|_| Ok(Vec::new())),
        }
    }

    /// Stores a file that looks different. Nothing when it holds what the log says.
    async fn store(
        &mut self,
        writer: &Writer,
        path: String,
        from: PathBuf,
        look: &Look,
    ) -> Result<Option<FileChange>, FleetError> {
        let read = in_directory(&self.dir, {
            let (path, look) = (path.clone(), look.clone());
            move || Ok(read(path, &from, look))
        });
        let Some(Read { bytes, .. }) = read.await? else {
            return Ok(None);
        };
        let hash = hash(&bytes);
        let has = |body: &String| bodies::hash_in(body) == Some(hash.as_str());
        if self.recorded.get(&path).is_some_and(has) {
            Arc::make_mut(&mut self.looked).insert(path, look.clone());
            return Ok(None);
        }
        // What another file of the session holds is there already.
        let body = match self.recorded.values().find(|body| has(body)) {
            Some(body) => body.clone(),
            None => {
                let name = self.next_name(writer);
                bodies::put_as(writer.log(), &name, &bytes).await?
            }
        };
        Ok(Some(FileChange { path, body: Some(body) }))
    }

    /// Stores larger files while the session goes on. The log speaks of them once they are there.
    fn store_beside(&mut self, writer: &Writer, later: Vec<(String, PathBuf, Look)>) {
        let log = writer.log().clone();
        let later: Vec<_> = later.into_iter().map(|file| (self.next_name(writer), file)).collect();
        let dir = self.dir.clone();
        self.storing = Some(tokio::spawn(async move {
            let mut stored = Vec::new();
            for (name, (path, from, look)) in later {
                let read = in_directory(&dir, move || Ok(read(path, &from, look))).await?;
                let Some(Read { path, look, bytes }) = read else {
                    continue;
                };
                let body = Some(bodies::put_as(&log, &name, &bytes).await?);
                stored.push((FileChange { path, body }, look));
            }
            Ok(stored)
        }));
    }

    /// A name for contents that no owner gives to others: what is not needed any more can be removed at any time.
    fn next_name(&mut self, writer: &Writer) -> String {
        self.stored += 1;
        format!("{}_{}", writer.owner().epoch, self.stored)
    }

    /// Says in the log what changed, and removes what nobody needs after that.
    async fn record(&mut self, writer: &mut Writer, changes: Stored) -> Result<(), FleetError> {
        if changes.is_empty() {
            return Ok(());
        }
        let before: BTreeSet<String> = self.recorded.values().cloned().collect();
        let (changes, looks): (Vec<FileChange>, Vec<Look>) = changes.into_iter().unzip();
        writer.record_files(&changes).await?;
        apply(&mut self.recorded, &changes);
        let looked = Arc::make_mut(&mut self.looked);
        for (change, look) in changes.into_iter().zip(looks) {
            if change.body.is_some() {
                looked.insert(change.path, look);
            }
        }
        let needed: BTreeSet<&String> = self.recorded.values().collect();
        let unneeded: Vec<String> = before.iter().filter(|body| !needed.contains(body)).cloned().collect();
        if !unneeded.is_empty() {
            let log = writer.log().clone();
            tokio::spawn(async move {
                for body in unneeded {
                    // What stays goes with the session.
                    let _ = bodies::remove(&log, &body).await;
                }
            });
        }
        Ok(())
    }
}

/// The files that are missing or different in a directory. Files that the log does not speak of are removed.
fn missing(dir: &Path, listed: ListFiles, recorded: &Recorded) -> io::Result<Vec<String>> {
    let here = listed(dir);
    for (path, file) in &here {
        if !recorded.contains_key(path) {
            fs::remove_file(file)?;
        }
    }
    let is_same = |path: &String, body: &str| {
        let bytes = here.get(path).and_then(|file| fs::read(file).ok());
        bytes.is_some_and(|bytes| bodies::hash_in(body) == Some(hash(&bytes).as_str()))
    };
    let missing = recorded.iter().filter(|(path, body)| !is_same(path, body));
    Ok(missing.map(|(path, _)| path.clone()).collect())
}

fn looks(files: &BTreeMap<String, PathBuf>) -> BTreeMap<String, Look> {
    let looks = files
        .iter()
        .filter_map(|(path, file)| Some((path.clone(), look(file)?)));
    looks.collect()
}

fn look(file: &Path) -> Option<Look> {
    let about = fs::metadata(file).ok()?;
    Some(Look {
        size: about.len(),
        modified: about.modified().ok(),
    })
}

fn differences(files: &BTreeMap<String, PathBuf>, looked: &BTreeMap<String, Look>) -> Difference {
    let mut changed = Vec::new();
    for (path, file) in files {
        let Some(look) = look(file).filter(|look| look.size <= LONGEST) else {
            continue;
        };
        if looked.get(path) != Some(&look) {
            changed.push((path.clone(), file.clone(), look));
        }
    }
    let gone = looked
        .keys()
        .filter(|path| !files.contains_key(*path))
        .cloned()
        .collect();
    Difference { changed, gone }
}

/// Reads a file that looks like this. Nothing when it is being written: then it is read the next time.
fn read(path: String, from: &Path, look: Look) -> Option<Read> {
    let bytes = fs::read(from).ok()?;
    // A database has a journal as long as something is written to it.
    let mut journal = from.as_os_str().to_owned();
    journal.push("-journal");
    let is_whole = self::look(from)? == look && !Path::new(&journal).exists();
    is_whole.then(|| Read {
        path,
        look,
        bytes: bytes.into(),
    })
}

fn hash(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// Whether a way leads into the directory that it is taken from.
fn is_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Does something with files where nobody waits for them.
async fn in_directory<T: Send + 'static>(
    dir: &Path,
    run: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, FleetError> {
    let done = spawn_blocking(run)
        .await
        .expect("reading and writing files does not panic");
    done.map_err(|source| FleetError::Files {
        dir: dir.to_owned(),
        source,
    })
}
