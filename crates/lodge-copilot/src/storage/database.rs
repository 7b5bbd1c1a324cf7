//! The session's scratch database, if the client stores it.

use futures_util::future::BoxFuture;
use lodge_host::{Database, Statement, Table};
use serde_json::{Value, json};

use super::Files;

impl Database for Files {
    fn execute(&self, kind: Statement, query: String) -> BoxFuture<'static, Result<Table, String>> {
        let files = self.clone();
        Box::pin(async move {
            let kind = match kind {
                Statement::Exec => "exec",
                Statement::Query => "query",
                Statement::Run => "run",
            };
            let result = files
                .call("sqliteQuery", json!({"query": query, "queryType": kind}))
                .await;
            Ok(table(&result.map_err(|error| error.message)?))
        })
    }
}

/// Rows are objects; if no columns are given, they are taken from the rows.
fn table(result: &Value) -> Table {
    let rows = result["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = |value: &Value| value.as_str().map(str::to_owned);
    let mut columns: Vec<String> = result["columns"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(names)
        .collect();
    if columns.is_empty() {
        let first = rows.first().and_then(Value::as_object);
        columns = first.into_iter().flatten().map(|(name, _)| name.clone()).collect();
    }
    Table {
        rows: rows
            .iter()
            .map(|row| columns.iter().map(|column| row[column].clone()).collect())
            .collect(),
        columns,
        affected: result["rowsAffected"].as_u64().unwrap_or_default(),
        last_row: result["lastInsertRowid"].as_i64().unwrap_or_default(),
    }
}
