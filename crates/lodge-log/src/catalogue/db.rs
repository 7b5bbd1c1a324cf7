//! The catalogue's database: tables and writes.

use std::path::Path;
use std::time::Duration;

use lodge_events::Event;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, OptionalExtension, named_params, params};

use super::about::About;
use super::digest::{Role, digest, summary};
use super::progress::Progress;
use super::query::plain_path;
use crate::labels::Labels;

/// Increase it when the tables change; a database with another number is deleted and rebuilt.
const VERSION: i32 = 3;

const TABLES: &str = "
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  dir TEXT NOT NULL,
  created INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  cwd TEXT, git_root TEXT, repository TEXT, branch TEXT,
  title TEXT, summary TEXT, model TEXT, client_name TEXT,
  events INTEGER NOT NULL,
  messages INTEGER NOT NULL,
  user_messages INTEGER NOT NULL,
  progress TEXT NOT NULL,
  about TEXT NOT NULL, -- what the log says about the session as a whole
  chat_of TEXT,
  covered INTEGER NOT NULL -- bytes of the log that this row reflects
);
CREATE INDEX newest ON sessions (modified DESC, key DESC);
CREATE INDEX newest_cwd ON sessions (cwd, modified DESC, key DESC);
CREATE INDEX newest_git_root ON sessions (git_root, modified DESC, key DESC);
CREATE INDEX newest_repository ON sessions (repository, modified DESC, key DESC);
CREATE INDEX chats ON sessions (chat_of) WHERE chat_of IS NOT NULL;
CREATE TABLE texts (
  key INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
  event TEXT NOT NULL,
  role TEXT NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX texts_session ON texts (session);
CREATE VIRTUAL TABLE words USING fts5 (text, content='texts', content_rowid='key', tokenize=\"unicode61 remove_diacritics 2\");
CREATE TRIGGER texts_added AFTER INSERT ON texts BEGIN
  INSERT INTO words (rowid, text) VALUES (new.key, new.text);
END;
CREATE TRIGGER texts_removed AFTER DELETE ON texts BEGIN
  INSERT INTO words (words, rowid, text) VALUES ('delete', old.key, old.text);
END;
";

/// A connection, and the file that it is on. The path may lead to another file by now, or to none: whoever deletes the home
/// under the host does not close what the host has open.
pub(super) struct Opened {
    pub(super) db: Connection,
    /// Absent for one in memory.
    file: Option<FileId>,
}

impl Opened {
    fn new(db: Connection, path: &Path) -> Opened {
        let file = file_id(path);
        Opened { db, file }
    }

    /// Whether the path still leads to the file that is open.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.file.is_some() && self.file == file_id(path)
    }
}

type FileId = (u64, u64);

#[cfg(unix)]
fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Elsewhere a file that is open stays where it is.
#[cfg(not(unix))]
fn file_id(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|_| (0, 0))
}

/// Opens the database for writing; rebuilds it if it is missing, damaged or of another version.
pub(super) fn open(path: &Path) -> rusqlite::Result<Opened> {
    let db = try_open(path).or_else(|error| {
        // What passes by itself is no reason to read every log again.
        if is_passing(&error) {
            return Err(error);
        }
        tracing::warn!(%error, "the session catalogue is unusable; rebuilding it");
        remove(path);
        try_open(path)
    })?;
    Ok(Opened::new(db, path))
}

fn try_open(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    set_up(&db)?;
    private(path);
    match version(&db)? {
        VERSION => {}
        0 => create(&db)?,
        other => {
            drop(db);
            tracing::info!(
                version = other,
                "the session catalogue has another version; rebuilding it"
            );
            remove(path);
            let db = Connection::open(path)?;
            set_up(&db)?;
            private(path);
            create(&db)?;
            return Ok(db);
        }
    }
    // Finds most damage without reading everything; the rest shows when it is met.
    db.query_row(
        "SELECT count(*) FROM (SELECT key FROM sessions LIMIT 1)",
        [],
        |_| Ok(()),
    )?;
    Ok(db)
}

/// Opens the database for reading only.
pub(super) fn open_read_only(path: &Path) -> rusqlite::Result<Opened> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.execute_batch("PRAGMA cache_size = -1024;")?;
    match version(&db)? {
        VERSION => Ok(Opened::new(db, path)),
        _ => Err(rusqlite::Error::InvalidQuery),
    }
}

/// A database that lives in memory only.
pub(super) fn in_memory() -> rusqlite::Result<Opened> {
    let db = Connection::open_in_memory()?;
    db.execute_batch("PRAGMA foreign_keys = ON;")?;
    create(&db)?;
    Ok(Opened { db, file: None })
}

/// A copy of a database that lives in memory only.
pub(super) fn copy_in_memory(original: &Connection) -> rusqlite::Result<Opened> {
    let mut db = Connection::open_in_memory()?;
    // In one step: a copy in several begins again whenever the host writes in between.
    let backup = Backup::new(original, &mut db)?;
    while backup.step(-1)? != StepResult::Done {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(backup);
    db.execute_batch("PRAGMA foreign_keys = ON;")?;
    Ok(Opened { db, file: None })
}

fn set_up(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(Duration::from_secs(5))?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;
         PRAGMA cache_size = -1024; PRAGMA journal_size_limit = 4194304;",
    )
}

fn version(db: &Connection) -> rusqlite::Result<i32> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn create(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(&format!("BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;"))
}

pub(super) fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(name);
    }
}

/// The messages are in there: only the owner may read them.
fn private(path: &Path) {
    #[cfg(unix)]
    for suffix in ["", "-wal", "-shm"] {
        use std::os::unix::fs::PermissionsExt;
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::set_permissions(name, std::fs::Permissions::from_mode(0o600));
    }
}

/// Whether this failure means that the file itself is no good.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

/// Whether this failure says nothing of the file: there are no handles left, no space, no memory, or somebody writes to it.
fn is_passing(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, OutOfMemory};
    matches!(
        error.sqlite_error_code(),
        Some(CannotOpen | DatabaseBusy | DatabaseLocked | DiskFull | OutOfMemory)
    )
}

/// One session whose events are being added.
#[derive(Debug, Default)]
pub(super) struct Row {
    key: i64,
    created: i64,
    modified: i64,
    cwd: Option<String>,
    git_root: Option<String>,
    repository: Option<String>,
    branch: Option<String>,
    /// What is said of its name beside the log.
    label: Option<String>,
    about: About,
    summary: Option<String>,
    model: Option<String>,
    client_name: Option<String>,
    events: i64,
    messages: i64,
    user_messages: i64,
    progress: Progress,
    /// Bytes of the log that this row reflects.
    pub(super) covered: u64,
}

impl Row {
    /// The session's row, new if there is none.
    pub(super) fn load(db: &Connection, id: &str, dir: &str) -> rusqlite::Result<Row> {
        let mut select = db.prepare_cached(
            "SELECT key, created, modified, cwd, git_root, repository, branch, title, summary, model, client_name,
                    events, messages, user_messages, progress, covered, about FROM sessions WHERE id = ?1",
        )?;
        let found = select
            .query_row([id], |row| {
                Ok(Row {
                    key: row.get(0)?,
                    created: row.get(1)?,
                    modified: row.get(2)?,
                    cwd: row.get(3)?,
                    git_root: row.get(4)?,
                    repository: row.get(5)?,
                    branch: row.get(6)?,
                    label: row.get(7)?,
                    summary: row.get(8)?,
                    model: row.get(9)?,
                    client_name: row.get(10)?,
                    events: row.get(11)?,
                    messages: row.get(12)?,
                    user_messages: row.get(13)?,
                    progress: Progress::named(&row.get::<_, String>(14)?),
                    covered: row.get::<_, i64>(15)? as u64,
                    about: read_about(&row.get::<_, String>(16)?),
                })
            })
            .optional()?;
        if let Some(row) = found {
            return Ok(row);
        }
        let mut insert = db.prepare_cached(
            "INSERT INTO sessions (id, dir, created, modified, events, messages, user_messages, progress, about, covered)
             VALUES (?1, ?2, 0, 0, 0, 0, 0, '', '', 0)",
        )?;
        Ok(Row {
            key: insert.insert([id, dir])?,
            ..Row::default()
        })
    }

    /// Whether the log here has as many events as that.
    pub(super) fn has(&self, events: i64) -> bool {
        self.events >= events
    }

    pub(super) fn is_new(&self) -> bool {
        self.covered == 0 && self.label.is_none() && self.client_name.is_none()
    }

    pub(super) fn label(&mut self, labels: Labels) {
        (self.label, self.client_name) = (labels.name, labels.client_name);
    }

    /// Takes one event in. `event` is absent where only its being there counts.
    pub(super) fn apply(&mut self, db: &Connection, time: i64, event: Option<&Event>) -> rusqlite::Result<()> {
        self.events += 1;
        // What people arrange about a session moves it in no list.
        if !event.is_some_and(About::is_told_by) {
            self.modified = self.modified.max(time);
        }
        if self.created == 0 {
            self.created = time;
        }
        let Some(event) = event else { return Ok(()) };
        self.progress = self.progress.after(event);
        if About::is_told_by(event) {
            self.about.fold(event.payload());
        }
        let digest = digest(event);
        self.created = digest.created.unwrap_or(self.created);
        self.model = digest.model.or(self.model.take());
        if let Some(context) = digest.context {
            self.cwd = context.cwd.as_deref().map(plain_path).or(self.cwd.take());
            if context.pending_git_context != Some(true) {
                (self.git_root, self.repository, self.branch) = (context.git_root, context.repository, context.branch);
            }
        }
        if let Some((role, text)) = digest.message {
            self.messages += 1;
            if role == Role::User {
                self.user_messages += 1;
                self.summary.get_or_insert_with(|| summary(&text));
            }
            let mut insert =
                db.prepare_cached("INSERT INTO texts (session, event, role, text) VALUES (?1, ?2, ?3, ?4)")?;
            insert.execute(params![self.key, event.id().to_string(), role.name(), text])?;
        }
        Ok(())
    }

    pub(super) fn store(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut update = db.prepare_cached(
            "UPDATE sessions SET created = :created, modified = :modified, cwd = :cwd, git_root = :git_root,
               repository = :repository, branch = :branch, title = :title, summary = :summary, model = :model,
               client_name = :client_name, events = :events, messages = :messages, user_messages = :user_messages,
               progress = :progress, covered = :covered, about = :about, chat_of = :chat_of WHERE key = :key",
        )?;
        update.execute(named_params! {
            ":created": self.created, ":modified": self.modified, ":cwd": self.cwd, ":git_root": self.git_root,
            ":repository": self.repository, ":branch": self.branch, ":title": self.about.name(self.label.clone()), ":summary": self.summary,
            ":model": self.model, ":client_name": self.client_name, ":events": self.events,
            ":messages": self.messages, ":user_messages": self.user_messages,
            ":progress": self.progress.name(), ":covered": self.covered as i64, ":key": self.key,
            ":about": written(&self.about), ":chat_of": self.about.indexed_chat_of(),
        })?;
        Ok(())
    }
}

pub(super) fn written(about: &About) -> String {
    match *about == About::default() {
        true => String::new(),
        false => serde_json::to_string(about).unwrap_or_default(),
    }
}

pub(super) fn read_about(text: &str) -> About {
    serde_json::from_str(text).unwrap_or_default()
}

/// Removes a session and its messages.
pub(super) fn forget(db: &Connection, id: &str) -> rusqlite::Result<()> {
    // Explicitly, because the trigger that keeps the words in step does not run for cascades in every build.
    db.prepare_cached("DELETE FROM texts WHERE session = (SELECT key FROM sessions WHERE id = ?1)")?
        .execute([id])?;
    db.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([id])?;
    Ok(())
}

/// Every session, and how many bytes of its log are included.
pub(super) fn covered(db: &Connection) -> rusqlite::Result<std::collections::HashMap<String, u64>> {
    let mut select = db.prepare("SELECT id, covered FROM sessions")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?;
    rows.collect()
}
