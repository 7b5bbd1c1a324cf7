//! `sql`: the session's scratch database.

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::future::BoxFuture;
use rusqlite::{Batch, Connection, ErrorCode, Statement, fallible_iterator::FallibleIterator, types::ValueRef};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Database, Need, Table, Tool, ToolCx, ToolError, ToolOutput,
    cx::arguments,
    database,
    scratch::{PRAGMAS, SCHEMA},
    spill,
};

/// Queries the session's scratch database.
pub(super) struct Sql;

/// A query that runs longer is stopped.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Rows beyond this much text are counted, not shown.
const MAX_TEXT: usize = 4 << 20;

#[derive(Deserialize)]
struct Arguments {
    query: String,
    #[serde(default)]
    database: Option<String>,
}

static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "description": { "type": "string", "description": "What the query does, in a few words." },
            "query": { "type": "string", "description": "One or more SQLite statements." },
            "database": { "type": "string", "enum": ["session"], "description": "Always session." }
        },
        "required": ["description", "query"]
    }))
});

impl Tool for Sql {
    fn name(&self) -> &'static str {
        "sql"
    }

    fn description(&self) -> &'static str {
        "Runs SQLite statements on the session's own scratch database. It has the tables todos (id, title, description, status: pending, in_progress, done or blocked, created_at, updated_at) and todo_deps (todo_id, depends_on) to plan and track work; create other tables as you need them."
    }

    fn parameters(&self) -> Arc<Value> {
        PARAMETERS.clone()
    }

    fn intent(&self, value: &Value) -> Option<String> {
        value
            .get("description")?
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }

    fn need(&self, _: &Value, _: &ToolCx) -> Result<Need, ToolError> {
        Ok(Need::Nothing)
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Arguments = arguments("sql", &value)?;
            if let Some(other) = args.database.filter(|name| name != "session") {
                return Err(ToolError(format!("Unknown database {other}. Use session.")));
            }
            let state = cx.state.clone();
            if let Some(database) = &state.database {
                return tokio::select! {
                    result = run_at_client(&**database, &args.query) => result.map(|(content, todos_changed)| ToolOutput {
                        content: spill::bound(content, state.temp(), cx.max_output_bytes),
                        todos_changed,
                        ..ToolOutput::default()
                    }),
                    () = cx.cancel.cancelled() => Err(ToolError("The query was cancelled.".to_owned())),
                    () = tokio::time::sleep(TIME_LIMIT) => Err(ToolError("The query took too long.".to_owned())),
                };
            }
            let interrupt = state
                .scratch
                .with(|c| Ok(c.get_interrupt_handle()))
                .map_err(database_error)?;
            let work = super::blocking(move || {
                let before = state.todos();
                let content = state
                    .scratch
                    .with(|connection| Ok(execute(connection, &args.query)))
                    .map_err(database_error)??;
                Ok(ToolOutput {
                    content: spill::bound(content, state.temp(), cx.max_output_bytes),
                    todos_changed: state.todos() != before,
                    ..ToolOutput::default()
                })
            });
            tokio::pin!(work);
            // Dropping the future must stop the query as well.
            let guard = Interrupt(interrupt);
            tokio::select! {
                result = &mut work => result,
                () = cx.cancel.cancelled() => { drop(guard); work.await }
                () = tokio::time::sleep(TIME_LIMIT) => { drop(guard); work.await }
            }
        })
    }
}

struct Interrupt(rusqlite::InterruptHandle);

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

fn database_error(error: rusqlite::Error) -> ToolError {
    if error.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied) {
        return not_available();
    }
    ToolError(match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => format!("Error executing SQL: {message}"),
        rusqlite::Error::SqlInputError { msg, .. } => format!("Error executing SQL: {msg}"),
        error => format!("Error executing SQL: {error}"),
    })
}

/// Runs all statements where a client keeps the database. Also says whether the things to do may have changed.
async fn run_at_client(database: &dyn Database, query: &str) -> Result<(String, bool), ToolError> {
    let error = |text: String| ToolError(format!("Error executing SQL: {text}"));
    let tables = database.execute(database::Statement::Exec, SCHEMA.to_owned()).await;
    tables.map_err(error)?;
    let mut results: Vec<(String, String)> = Vec::new();
    let mut failed = None;
    for statement in database::statements(query) {
        let verb = database::verb(statement).unwrap_or_default();
        let done = match database::is_confined(statement) {
            false => Err(not_available()),
            true => {
                let kind = database::kind(statement);
                let done = database.execute(kind, statement.to_owned()).await.map_err(error);
                done.map(|table| match kind {
                    database::Statement::Query => rendered(&table),
                    _ => changed(&verb, table.affected, table.last_row),
                })
            }
        };
        match done {
            Ok(text) => results.push((verb, text)),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let todos = query.to_ascii_lowercase().contains("todo") && results.iter().any(|(verb, _)| verb != "SELECT");
    render_results(results, failed).map(|text| (text, todos))
}

/// The rows that a client gave, as a table.
fn rendered(table: &Table) -> String {
    let names: Vec<String> = table.columns.iter().map(|name| cell(name)).collect();
    let mut text = head(&names);
    for row in &table.rows {
        if text.len() > MAX_TEXT {
            break;
        }
        let cells = row.iter().map(|value| match value {
            Value::Null => "NULL".to_owned(),
            Value::String(value) => cell(value),
            other => cell(&other.to_string()),
        });
        let _ = writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    counted(table.rows.len() as u64, &text)
}

/// Runs all statements. If one fails, the earlier ones stay done and are reported.
fn execute(connection: &Connection, query: &str) -> Result<String, ToolError> {
    let mut results: Vec<(String, String)> = Vec::new();
    let mut batch = Batch::new(connection, query);
    let failed = loop {
        match batch.next() {
            Ok(Some(mut statement)) => match one(connection, &mut statement) {
                Ok(result) => results.push(result),
                Err(error) => break Some(error),
            },
            Ok(None) => break None,
            Err(error) => break Some(database_error(error)),
        }
    };
    render_results(results, failed)
}

fn render_results(results: Vec<(String, String)>, failed: Option<ToolError>) -> Result<String, ToolError> {
    if let Some(ToolError(error)) = failed {
        let done = if results.is_empty() {
            String::new()
        } else {
            format!("{}\n\n", summary(&results))
        };
        return Err(ToolError(format!("{done}{error}")));
    }
    Ok(match results.as_slice() {
        [] => "No statement to execute.".to_owned(),
        [(_, text)] => text.clone(),
        _ => summary(&results),
    })
}

fn summary(results: &[(String, String)]) -> String {
    let mut out = format!("Executed {} statement(s):", results.len());
    for (index, (verb, text)) in results.iter().enumerate() {
        let _ = write!(out, "\n\n{}. {verb}", index + 1);
        for line in text.lines() {
            let _ = write!(out, "\n   {line}");
        }
    }
    out
}

/// Runs one statement. Returns its first word and what came of it.
fn one(connection: &Connection, statement: &mut Statement<'_>) -> Result<(String, String), ToolError> {
    let text = statement.expanded_sql().unwrap_or_default();
    let verb = words(&text).next().unwrap_or_default();
    if statement.column_count() > 0 {
        return Ok((verb, rows(statement)?));
    }
    let before = connection.total_changes();
    statement.raw_execute().map_err(database_error)?;
    let rows = connection.total_changes() - before;
    let result = changed(&verb, rows, connection.last_insert_rowid());
    Ok((verb, result))
}

/// What SQLite refuses, or is not sent to a client.
fn not_available() -> ToolError {
    let pragmas = PRAGMAS.join(", ");
    ToolError(format!(
        "Not available. Statements work on the session's database alone: no ATTACH, DETACH, VACUUM or extensions, and no \
         PRAGMAs but {pragmas}."
    ))
}

/// What came of a statement that gives no rows.
fn changed(verb: &str, rows: u64, last_row: i64) -> String {
    match verb {
        "INSERT" | "REPLACE" => format!("{rows} row(s) inserted. Last inserted row ID: {last_row}."),
        "UPDATE" => format!("{rows} row(s) updated."),
        "DELETE" => format!("{rows} row(s) deleted."),
        "CREATE" | "DROP" | "ALTER" => "Schema operation completed successfully.".to_owned(),
        _ => format!("Query executed successfully. Rows affected: {rows}."),
    }
}

/// Words of a statement in capitals, comments left out.
pub(crate) fn words(mut text: &str) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        loop {
            // SQLite skips a byte order mark, too.
            text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            if let Some(rest) = text.strip_prefix("--") {
                text = rest.split_once('\n').map_or("", |(_, rest)| rest);
            } else if let Some(rest) = text.strip_prefix("/*") {
                text = rest.split_once("*/").map_or("", |(_, rest)| rest);
            } else {
                break;
            }
        }
        let end = text
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        text = rest;
        (!word.is_empty()).then(|| word.to_ascii_uppercase())
    })
}

/// The rows as a table.
fn rows(statement: &mut Statement<'_>) -> Result<String, ToolError> {
    let names: Vec<String> = statement.column_names().map(cell).collect();
    let columns = names.len();
    let mut table = head(&names);
    let mut count = 0_u64;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(database_error)? {
        count += 1;
        if table.len() > MAX_TEXT {
            continue;
        }
        table.push('|');
        for column in 0..columns {
            let text = match row.get_ref(column).map_err(database_error)? {
                ValueRef::Null => "NULL".to_owned(),
                ValueRef::Integer(value) => value.to_string(),
                ValueRef::Real(value) => value.to_string(),
                ValueRef::Text(value) => cell(&String::from_utf8_lossy(value)),
                ValueRef::Blob(value) => format!("<{} bytes>", value.len()),
            };
            let _ = write!(table, " {text} |");
        }
        table.push('\n');
    }
    Ok(counted(count, &table))
}

fn head(names: &[String]) -> String {
    format!("| {} |\n|{}\n", names.join(" | "), " --- |".repeat(names.len()))
}

fn counted(rows: u64, table: &str) -> String {
    match rows {
        0 => "0 row(s) returned.".to_owned(),
        _ => format!("{rows} row(s) returned:\n\n{}", table.trim_end()),
    }
}

/// Text that stays in its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', "<br>")
}
