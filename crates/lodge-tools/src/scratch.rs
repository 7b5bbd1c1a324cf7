//! A session's scratch database.

use std::path::PathBuf;

use parking_lot::Mutex;
use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
};
use serde::Serialize;

use crate::SessionTools;

/// What the agent has to do, as it noted it in its scratch database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Todos {
    /// The items, oldest first.
    pub rows: Vec<Todo>,
    /// Which waits for which.
    pub dependencies: Vec<TodoDependency>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Todo {
    /// Its name.
    pub id: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `pending`, `in_progress`, `done` or `blocked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// When it was noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
}

/// One thing that waits for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TodoDependency {
    /// What waits.
    pub todo_id: String,
    /// For what.
    pub depends_on: String,
}

impl SessionTools {
    /// What the agent has to do. Nothing, when it noted nothing or did so in a form of its own.
    pub(crate) fn todos(&self) -> Todos {
        self.scratch.todos().unwrap_or_default()
    }

    /// The same, wherever it is noted. Reads a file beside the runtime's threads.
    pub async fn read_todos(self: std::sync::Arc<Self>) -> Todos {
        match &self.database {
            Some(database) => database.todos().await,
            None => tokio::task::spawn_blocking(move || self.todos())
                .await
                .unwrap_or_default(),
        }
    }
}

/// SQLite file that is made when it is first used.
pub(crate) struct Scratch {
    path: PathBuf,
    connection: Mutex<Option<Connection>>,
}

/// Tables every session has.
pub(crate) const SCHEMA: &str = "
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

/// PRAGMAs that only describe tables.
pub(crate) const PRAGMAS: [&str; 5] = [
    "table_info",
    "table_list",
    "index_list",
    "index_info",
    "foreign_key_list",
];
/// PRAGMAs that the tables of a full-text search read by themselves.
const READ_BY_SEARCHES: [&str; 2] = ["page_size", "data_version"];

/// Keeps a connection to its one file, whatever it is asked: SQLite itself refuses everything that reaches another file, loads
/// code or changes a setting. A check of the statement's text would have to read SQL exactly as SQLite does.
fn confine(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.authorizer(Some(|context: AuthContext<'_>| {
        let is_one_of = |name: &str, known: &[&str]| known.iter().any(|known| known.eq_ignore_ascii_case(name));
        let allowed = match context.action {
            AuthAction::Attach { .. } | AuthAction::Detach { .. } | AuthAction::Unknown { .. } => false,
            AuthAction::Pragma {
                pragma_name,
                pragma_value,
            } => {
                is_one_of(pragma_name, &PRAGMAS)
                    || (pragma_value.is_none() && is_one_of(pragma_name, &READ_BY_SEARCHES))
            }
            AuthAction::Function { function_name } => !is_one_of(function_name, &["load_extension"]),
            _ => true,
        };
        match allowed {
            true => Authorization::Allow,
            false => Authorization::Deny,
        }
    }))
}

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
            let mut connection = Connection::open(&self.path)?;
            connection.busy_timeout(std::time::Duration::from_secs(5))?;
            connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.execute_batch(SCHEMA)?;
            confine(&mut connection)?;
            *slot = Some(connection);
        }
        match slot.as_ref() {
            Some(connection) => use_it(connection),
            None => Err(rusqlite::Error::InvalidQuery),
        }
    }

    fn todos(&self) -> rusqlite::Result<Todos> {
        if !self.path.exists() {
            return Ok(Todos::default());
        }
        self.with(|connection| {
            let mut rows = connection
                .prepare("SELECT id, title, description, status, created_at FROM todos ORDER BY created_at, rowid")?;
            let rows = rows.query_map([], |row| {
                Ok(Todo {
                    id: row.get(0)?,
                    title: row.get(1)?,
                    description: row.get(2)?,
                    status: row.get(3)?,
                    created_at: row.get(4)?,
                })
            })?;
            let mut edges = connection.prepare("SELECT todo_id, depends_on FROM todo_deps ORDER BY rowid")?;
            let edges = edges.query_map([], |row| {
                Ok(TodoDependency {
                    todo_id: row.get(0)?,
                    depends_on: row.get(1)?,
                })
            })?;
            Ok(Todos {
                rows: rows.collect::<rusqlite::Result<_>>()?,
                dependencies: edges.collect::<rusqlite::Result<_>>()?,
            })
        })
    }
}
