//! The thread that writes the catalogue.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::db::{self, Opened, Row};
use super::digest::matters;
use super::listed::{self, REMOTE};
use super::queue::{Queue, Task};
use crate::error::LogError;
use crate::file_store::FileStore;
use crate::store::{Position, Store};

/// A transaction is closed after this many bytes of logs.
const COMMIT_BYTES: u64 = 8 * 1024 * 1024;
/// And after this many sessions.
const COMMIT_SESSIONS: usize = 256;

pub(super) fn run(queue: &Queue, path: &Path, store: &FileStore) {
    // Here because it reads the whole directory, as what follows does, and nobody should wait for it at the start.
    store.sweep();
    let mut db: Option<Opened> = None;
    // Something was not written: everything is compared with the logs at the next occasion.
    let mut behind = false;
    while let Some((tasks, number)) = queue.next_batch() {
        // Somebody deleted the home: it is made anew for who goes on, not for who leaves.
        if queue.is_closed() && path.parent().is_some_and(|home| !home.exists()) {
            queue.finished(number, behind);
            continue;
        }
        if tasks.iter().any(|task| matches!(task, Task::Check))
            && db.as_ref().is_some_and(|opened| is_broken(&opened.db))
        {
            db = None;
            db::remove(path);
        }
        let mut attempts = 0;
        let mut tasks = Some(tasks);
        loop {
            let fresh = db.as_ref().is_none_or(|opened| !opened.is_at(path));
            let outcome = open(&mut db, path, store, fresh).and_then(|db| {
                if fresh {
                    catch_up_all(db, store, Others::Forget, &|| queue.is_closed())?;
                    queue.opened_anew();
                } else if std::mem::take(&mut behind) {
                    catch_up_all(db, store, Others::Keep, &|| queue.is_closed())?;
                }
                perform(db, store, &tasks.take().unwrap_or_default(), &|| queue.is_closed())
            });
            let Err(error) = outcome else { break };
            tracing::warn!(%error, "cannot write the session catalogue");
            behind = true;
            attempts += 1;
            match error {
                LogError::Catalogue(error) if db::is_damage(&error) && attempts < 2 => {
                    db = None;
                    db::remove(path);
                }
                _ => break,
            }
        }
        queue.finished(number, behind);
    }
}

fn open<'a>(
    db: &'a mut Option<Opened>,
    path: &Path,
    store: &FileStore,
    fresh: bool,
) -> Result<&'a Connection, LogError> {
    if fresh {
        *db = None;
        // The whole home may have been deleted under us.
        let _ = store.shared.disk.create_dir(&store.root);
    }
    match db {
        Some(opened) => Ok(&opened.db),
        None => Ok(&db.insert(db::open(path)?).db),
    }
}

fn is_broken(db: &Connection) -> bool {
    !db.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        .is_ok_and(|answer| answer == "ok")
}

/// Begins a transaction that writes from the start: other processes may keep the same catalogue.
fn begin(db: &Connection) -> rusqlite::Result<Transaction<'_>> {
    Transaction::new_unchecked(db, TransactionBehavior::Immediate)
}

/// Does some tasks in one transaction.
fn perform(db: &Connection, store: &FileStore, tasks: &[Task], stop: &dyn Fn() -> bool) -> Result<(), LogError> {
    let transaction = begin(db)?;
    let mut rows: HashMap<&str, Row> = HashMap::new();
    for task in tasks {
        match task {
            Task::Note(id, note) => {
                let row = cached(&mut rows, db, store, id)?;
                // Less: it was read from the log already. More: something was missed, and is read with this one.
                if note.at > row.covered {
                    try_catch_up(db, store, id, row)?;
                } else if note.at == row.covered {
                    row.apply(db, note.time, note.event.as_ref())?;
                    row.covered = note.next;
                }
            }
            Task::Rebuild(id) => {
                rows.remove(&**id);
                db::forget(db, id)?;
                let row = cached(&mut rows, db, store, id)?;
                try_catch_up(db, store, id, row)?;
            }
            // A session whose log is not there yet gets its labels with its first event.
            Task::Relabel(id) if !store.exists(id)? => {}
            Task::Relabel(id) => cached(&mut rows, db, store, id)?.label(store.labels(id)?),
            Task::TakeIn(listed) => {
                let as_new = rows.get(&*listed.id).is_some_and(|row| row.has(listed.events()));
                if !as_new && listed::take_in(db, &dir_name(store, &listed.id)?, listed)? {
                    rows.remove(&*listed.id);
                }
            }
            Task::Forget(id) => {
                rows.remove(&**id);
                db::forget(db, id)?;
            }
            Task::CatchUpAll | Task::Check => {}
        }
    }
    for row in rows.values() {
        row.store(db)?;
    }
    transaction.commit()?;
    if tasks.iter().any(|task| matches!(task, Task::CatchUpAll)) {
        catch_up_all(db, store, Others::Keep, stop)?;
    }
    Ok(())
}

fn cached<'a, 'b>(
    rows: &'a mut HashMap<&'b str, Row>,
    db: &Connection,
    store: &FileStore,
    id: &'b str,
) -> Result<&'a mut Row, LogError> {
    match rows.entry(id) {
        Entry::Occupied(row) => Ok(row.into_mut()),
        Entry::Vacant(place) => Ok(place.insert(load(db, store, id)?)),
    }
}

fn load(db: &Connection, store: &FileStore, id: &str) -> Result<Row, LogError> {
    let name = dir_name(store, id)?;
    let mut row = Row::load(db, id, &name)?;
    if row.covered == REMOTE {
        // From here on the log is here: it is read from its beginning.
        db::forget(db, id)?;
        row = Row::load(db, id, &name)?;
    }
    if row.is_new() {
        row.label(store.labels(id)?);
    }
    Ok(row)
}

fn dir_name(store: &FileStore, id: &str) -> Result<String, LogError> {
    let dir = store.resolve(id)?;
    Ok(dir.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Reads the part of a log that the row does not reflect yet.
fn catch_up(db: &Connection, store: &FileStore, id: &str, row: &mut Row) -> Result<(), LogError> {
    let end = match store.end_of_lines(id) {
        Err(error) if error.is_not_found() => return Ok(()),
        end => end?,
    };
    if end < row.covered || end > row.covered && row.covered > 0 && store.is_hidden_before(id, row.covered)? {
        db::forget(db, id)?;
        *row = load(db, store, id)?;
    } else if end > row.covered {
        // A program that died may have changed the labels and not the row.
        row.label(store.labels(id)?);
    }
    for recorded in store.read(id, Position(row.covered), Position(end))? {
        let event = recorded?.event;
        row.apply(
            db,
            event.timestamp().as_millisecond(),
            matters(&event).then_some(&event),
        )?;
    }
    row.covered = end;
    Ok(())
}

/// The same, but a log that cannot be read is only warned about: it must not hide the others.
fn try_catch_up(db: &Connection, store: &FileStore, id: &str, row: &mut Row) -> Result<(), LogError> {
    match catch_up(db, store, id, row) {
        Err(LogError::Catalogue(error)) => Err(error.into()),
        Err(error) => {
            tracing::warn!(id, %error, "cannot add a log to the catalogue");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// What becomes of the sessions that other hosts described.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    Keep,
    /// They belong to an earlier run of this program: whoever follows the other hosts describes them again.
    Forget,
}

/// Whether the catalogue reflects all that is in the logs.
pub(super) fn is_current(db: &Connection, store: &FileStore) -> Result<bool, LogError> {
    let mut known = db::covered(db)?;
    for log in store.list()? {
        match known.remove(&log.id) {
            Some(covered) if covered == log.end.0 || covered == REMOTE => {}
            _ => return Ok(false),
        }
    }
    // What is left has no log here.
    Ok(known.values().all(|covered| *covered == REMOTE))
}

/// Compares the catalogue with the logs, and reads what is missing.
pub(super) fn catch_up_all(
    db: &Connection,
    store: &FileStore,
    others: Others,
    stop: &dyn Fn() -> bool,
) -> Result<(), LogError> {
    let mut transaction = begin(db)?;
    let mut known = db::covered(db)?;
    let mut remote: HashSet<String> = HashSet::new();
    if others == Others::Keep {
        remote.extend(known.extract_if(|_, covered| *covered == REMOTE).map(|(id, _)| id));
    }
    let (mut bytes, mut sessions) = (0, 0);
    for entry in store.list()? {
        if stop() {
            break;
        }
        if remote.contains(&entry.id) {
            continue;
        }
        let covered = known.remove(&entry.id);
        if covered == Some(entry.end.0) {
            continue;
        }
        let mut row = load(db, store, &entry.id)?;
        try_catch_up(db, store, &entry.id, &mut row)?;
        row.store(db)?;
        bytes += entry
            .end
            .0
            .saturating_sub(covered.filter(|covered| *covered != REMOTE).unwrap_or(0));
        sessions += 1;
        if bytes > COMMIT_BYTES || sessions >= COMMIT_SESSIONS {
            transaction.commit()?;
            transaction = begin(db)?;
            (bytes, sessions) = (0, 0);
        }
    }
    if !stop() {
        for id in known.keys() {
            db::forget(db, id)?;
        }
    }
    transaction.commit()?;
    Ok(())
}
