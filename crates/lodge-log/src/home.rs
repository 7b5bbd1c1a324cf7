//! A home: the directory with everything a host keeps, and the lock on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalogue::Catalogue;
use crate::disk::{Disk, RealDisk, retry};
use crate::error::LogError;
use crate::file_log::Shared;
use crate::file_store::FileStore;
use crate::home_lock::HomeLock;
use crate::pool::{FilePool, descriptor_limit};
use crate::sync::{SyncPolicy, Syncer};

/// The directory with one directory per session, named as the Copilot CLI names it.
const SESSIONS: &str = "session-state";

/// How a home is opened.
#[derive(Debug, Clone)]
pub struct HomeOptions {
    /// When events are brought to the disk.
    pub sync: SyncPolicy,
    /// Whether nobody else may use the home meanwhile. A home that is not exclusive is shared with others of the kind: every
    /// append is then made under a lock on its log, and fails with [`LogError::Moved`] when another process was faster.
    pub exclusive: bool,
    /// The longest event that is accepted, in bytes.
    pub max_event: usize,
    /// How many logs have a file descriptor at a time.
    pub open_logs: usize,
    /// The file layer of the logs; tests put one in that fails.
    pub disk: Arc<dyn Disk>,
}

impl Default for HomeOptions {
    fn default() -> Self {
        HomeOptions {
            sync: SyncPolicy::default(),
            exclusive: true,
            max_event: 64 * 1024 * 1024,
            open_logs: (descriptor_limit() / 4).clamp(8, 1024),
            disk: Arc::new(RealDisk),
        }
    }
}

/// An open home. As long as an exclusive one is open, nobody else can open it for writing.
pub struct Home {
    path: PathBuf,
    store: Arc<FileStore>,
    catalogue: Catalogue,
    exclusive: bool,
    lock: Option<Mutex<HomeLock>>,
}

impl Home {
    /// Opens a home, making it if it is not there, and locks it. [`LogError::Locked`] if another host has it.
    pub fn open(path: impl Into<PathBuf>, options: HomeOptions) -> Result<Home, LogError> {
        let path = path.into();
        let exclusive = options.exclusive;
        let store = FileStore::new(&path, options, None);
        make_dirs(&store)?;
        let lock = Some(Mutex::new(HomeLock::take(&path, exclusive)?));
        let store = Arc::new(store);
        let catalogue = Catalogue::open(path.join("catalogue.db"), store.clone(), exclusive);
        Ok(Home {
            path,
            store,
            catalogue,
            exclusive,
            lock,
        })
    }

    /// Opens a home for reading, also beside a running host. Nothing is created, repaired or written.
    pub fn open_unlocked_read_only(path: impl Into<PathBuf>) -> Result<Home, LogError> {
        let path = path.into();
        let store = Arc::new(FileStore::new(&path, HomeOptions::default(), Some(path.clone())));
        let catalogue = Catalogue::open_read_only(&path.join("catalogue.db"), store.clone())?;
        Ok(Home {
            path,
            store,
            catalogue,
            exclusive: false,
            lock: None,
        })
    }

    /// The home's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nobody else uses the home.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// The session logs. They implement [`Store`](crate::Store); what only files can do is there, too.
    pub fn sessions(&self) -> &Arc<FileStore> {
        &self.store
    }

    /// The list of sessions and the search index.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Makes the home whole again if somebody deleted it, or parts of it, while it is open. Cheap when nothing is
    /// missing; call it before a session is made.
    pub fn ensure(&self) -> Result<(), LogError> {
        let Some(lock) = &self.lock else { return Ok(()) };
        make_dirs(&self.store)?;
        // Only one at a time: two would keep each other from taking the new lock.
        let mut lock = lock.lock();
        let path = HomeLock::path(&self.path);
        if !path.try_exists().map_err(LogError::io("look for", &path))? {
            // Our lock is on a file that nobody can find any more: a second host would not be stopped by it.
            *lock = HomeLock::take(&self.path, self.exclusive)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Home").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FileStore {
    fn new(home: &Path, options: HomeOptions, read_only: Option<PathBuf>) -> FileStore {
        let HomeOptions {
            sync,
            exclusive,
            max_event,
            open_logs,
            disk,
        } = options;
        let syncer = Arc::new(Syncer::new(disk.clone()));
        let shared = Shared {
            files: FilePool::new(disk.clone(), open_logs),
            with_others: !exclusive,
            observer: Arc::default(),
            disk,
            syncer,
            policy: sync,
            max_event,
        };
        FileStore {
            root: home.join(SESSIONS),
            shared,
            read_only,
        }
    }
}

fn make_dirs(store: &FileStore) -> Result<(), LogError> {
    retry(|| store.shared.disk.create_dir(&store.root)).map_err(LogError::io("make", &store.root))
}
