//! What a session keeps beside its log: its plan, its files, its to-do list, what it changed. The contents are stored under their
//! hash, and messages of the log say which file has which. They are fenced like all others, so a host that takes the session over has
//! the files as its last owner recorded them, and an earlier owner changes none of them any more.

mod disk;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, spawn_blocking};

pub use self::disk::MovingFiles;
use self::disk::{Difference, Look, Read, differences, hash, looks, missing, read};
use crate::{FleetError, FleetLog, Writer, bodies};

/// So much is stored at once, together with the events that come next. The rest is stored beside them.
const AT_ONCE: u64 = 512 << 10;

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

/// Files whose contents are stored, and what they looked like.
type Stored = Vec<(FileChange, Look)>;

/// Keeps the files of one session in the fleet what they are in its directory.
pub struct SessionFiles {
    dir: PathBuf,
    moving: MovingFiles,
    recorded: Recorded,
    looked: Arc<BTreeMap<String, Look>>,
    /// How the files that tell of changes looked when there was none: as long as they do, nothing else is looked at.
    unchanged: Option<BTreeMap<String, Look>>,
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
    pub(crate) fn new(dir: PathBuf, moving: MovingFiles, recorded: Recorded) -> Self {
        let looked = recorded.keys().filter(|path| moving.takes(path));
        let looked = looked.map(|path| (path.clone(), Look::UNSEEN));
        Self {
            dir,
            moving,
            looked: Arc::new(looked.collect()),
            unchanged: None,
            recorded,
            stored: 0,
            storing: None,
        }
    }

    /// Makes the session's directory what the log says.
    pub(crate) async fn restore(&mut self, log: &FleetLog) -> Result<(), FleetError> {
        let (dir, moving, recorded) = (self.dir.clone(), self.moving, self.recorded.clone());
        let missing = in_directory(&self.dir, move || missing(&dir, moving, &recorded)).await?;
        for path in missing {
            let bytes = bodies::get(log, &self.recorded[&path]).await?;
            let bytes = bytes.map_err(|reason| FleetError::BadFile {
                session: log.session().to_owned(),
                path: path.clone(),
                reason,
            })?;
            let dir = self.dir.clone();
            in_directory(&self.dir, move || disk::write(&dir, &path, &bytes)).await?;
        }
        let dir = self.dir.clone();
        self.looked = Arc::new(in_directory(&self.dir, move || Ok(looks(&(moving.list)(&dir)))).await?);
        Ok(())
    }

    /// Brings to the fleet what changed: small files now, larger ones beside whatever comes next, and with `all` everything.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub async fn sync(&mut self, writer: &mut Writer, all: bool) -> Result<(), FleetError> {
        let mut changes = self.take_stored(all).await?;
        // They need not be stored once more, unless they changed since.
        for (change, look) in &changes {
            Arc::make_mut(&mut self.looked).insert(change.path.clone(), look.clone());
        }
        let (dir, moving, looked) = (self.dir.clone(), self.moving, self.looked.clone());
        let unchanged = self.unchanged.take().filter(|_| !all);
        let found = in_directory(&self.dir, move || {
            let telling = looks(&(moving.list_telling)(&dir));
            let found = match unchanged.as_ref() == Some(&telling) {
                true => Difference::default(),
                false => differences(&(moving.list)(&dir), &looked),
            };
            Ok((telling, found))
        });
        let (telling, Difference { mut changed, gone }) = found.await?;
        self.unchanged = (changed.is_empty() && gone.is_empty()).then_some(telling);
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
            if self.recorded.contains_key(&path) || changes.iter().any(|(change, _)| change.path == path) {
                changes.push((FileChange { path, body: None }, Look::UNSEEN));
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
        let (changes, looks): (Vec<FileChange>, Vec<Look>) = changes.into_iter().unzip();
        writer.record_files(&changes).await?;
        let stored = changes.iter().filter_map(|change| change.body.clone());
        let mut unneeded: BTreeSet<String> = self.recorded.values().cloned().chain(stored).collect();
        apply(&mut self.recorded, &changes);
        let looked = Arc::make_mut(&mut self.looked);
        for (change, look) in changes.into_iter().zip(looks) {
            match change.body {
                Some(_) => drop(looked.insert(change.path, look)),
                None => drop(looked.remove(&change.path)),
            }
        }
        for needed in self.recorded.values() {
            unneeded.remove(needed);
        }
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
