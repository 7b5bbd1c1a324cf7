//! A session's scratch database.

use std::path::PathBuf;

use parking_lot::Mutex;
use rusqlite::Connection;

/// SQLite file that is made when it is first used.
pub(crate) struct Scratch {
    path: PathBuf,
    connection: Mutex<Option<Connection>>,
}

/// Tables every session has.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS todos (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    description TEXT,
    status TEXT DEFAULT 'pending' CHECK (status IN ('pending', 'in_progress', 'done', 'blocked')),
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE IF NOT EXISTS todo_deps (
    todo_id TEXT NOT NULL,
    depends_on TEXT NOT NULL,
    PRIMARY KEY (todo_id, depends_on)
);";

impl Scratch {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            connection: Mutex::default(),
        }
    }

    /// Uses the database; a file that was deleted meanwhile is made again.
    pub(crate) fn with<T>(
        &self,
        use_it: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, rusqlite::Error> {
        let mut slot = self.connection.lock();
        if slot.is_none() || !self.path.exists() {
            if let Some(dir) = self.path.parent() {
                let _ = crate::spill::make_private_dir(dir);
            }
            let connection = Connection::open(&self.path)?;
            connection.busy_timeout(std::time::Duration::from_secs(5))?;
            connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.execute_batch(SCHEMA)?;
            *slot = Some(connection);
        }
        match slot.as_ref() {
            Some(connection) => use_it(connection),
            None => Err(rusqlite::Error::InvalidQuery),
        }
    }
}
