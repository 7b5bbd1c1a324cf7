//! A session's scratch database that a client keeps, instead of a file on this host.

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::{Todo, TodoDependency, Todos, scratch::PRAGMAS};

/// How a statement is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    /// It changes tables and gives nothing back.
    Exec,
    /// It gives rows back.
    Query,
    /// It changes rows.
    Run,
}

/// What a statement gave back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value per column.
    pub rows: Vec<Vec<Value>>,
    /// How many rows were changed.
    pub affected: u64,
    /// The id of the row that was inserted last.
    pub last_row: i64,
}

/// Such a database.
pub trait Database: Send + Sync {
    /// Carries out one statement, or why not.
    fn execute(&self, kind: Statement, query: String) -> BoxFuture<'static, Result<Table, String>>;
}

impl dyn Database {
    /// What the agent has to do; nothing, when it noted nothing.
    pub(crate) async fn todos(&self) -> Todos {
        let read = async |query: &str| {
            let table = self.execute(Statement::Query, query.to_owned()).await;
            table.unwrap_or_default().rows
        };
        let text = |row: &[Value], column: usize| row.get(column).and_then(Value::as_str).map(str::to_owned);
        let rows =
            read("SELECT id, title, description, status, created_at FROM todos ORDER BY created_at, rowid").await;
        let edges = read("SELECT todo_id, depends_on FROM todo_deps ORDER BY rowid").await;
        Todos {
            rows: rows
                .iter()
                .map(|row| Todo {
                    id: text(row, 0).unwrap_or_default(),
                    title: text(row, 1),
                    description: text(row, 2),
                    status: text(row, 3),
                    created_at: text(row, 4),
                })
                .collect(),
            dependencies: edges
                .iter()
                .map(|row| TodoDependency {
                    todo_id: text(row, 0).unwrap_or_default(),
                    depends_on: text(row, 1).unwrap_or_default(),
                })
                .collect(),
        }
    }
}

/// The statements of a script, without what separates them.
pub(crate) fn statements(script: &str) -> Vec<&str> {
    let mut found = split(script, inside_trigger);
    found.retain(|statement| verb(statement).is_some());
    found.into_iter().map(str::trim).collect()
}

/// What is between the semicolons of a script. Those that `belongs` says yes to, after this much of a part, separate nothing.
fn split(script: &str, belongs: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut rest) = (0, script);
    let at = |rest: &str| script.len() - rest.len();
    while let Some(first) = rest.chars().next() {
        let after = |open: usize, close: &str| {
            let end = rest.get(open..).and_then(|rest| rest.find(close));
            end.map_or(rest.len(), |end| open + end + close.len())
        };
        let length = match first {
            '\'' => after(1, "'"),
            '"' => after(1, "\""),
            '`' => after(1, "`"),
            '[' => after(1, "]"),
            '-' if rest.starts_with("--") => after(2, "\n"),
            '/' if rest.starts_with("/*") => after(2, "*/"),
            _ => first.len_utf8(),
        };
        if first == ';' && !belongs(&script[start..at(rest)]) {
            found.push(&script[start..at(rest)]);
            start = at(rest) + 1;
        }
        rest = &rest[length..];
    }
    found.push(&script[start..]);
    found
}

/// What a statement may begin with. None of these reaches another file, or a setting.
const VERBS: &[&str] = &[
    "SELECT",
    "VALUES",
    "WITH",
    "EXPLAIN",
    "INSERT",
    "REPLACE",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "ALTER",
    "BEGIN",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT",
    "RELEASE",
    "ANALYZE",
    "REINDEX",
];
/// What the statements of a trigger may begin with, and its end.
const VERBS_OF_TRIGGERS: &[&str] = &["SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "END"];

/// Whether a statement is one of those that are known to stay in the database. A client may run more than one statement of a text,
/// and may see its semicolons otherwise, so every part of it counts.
pub(crate) fn is_confined(statement: &str) -> bool {
    split(statement, |_| false)
        .into_iter()
        .enumerate()
        .all(|(index, part)| {
            let mut words = crate::tools::sql_words(part);
            let first = words.next();
            match (index, first.as_deref()) {
                (0, Some("PRAGMA")) => words
                    .next()
                    .is_some_and(|name| PRAGMAS.iter().any(|known| name.eq_ignore_ascii_case(known))),
                (0, Some(verb)) => VERBS.contains(&verb),
                (_, Some(verb)) => VERBS_OF_TRIGGERS.contains(&verb),
                (_, None) => part.trim().is_empty(),
            }
        })
}

/// Whether this much of a statement is the beginning of a trigger whose body goes on.
fn inside_trigger(text: &str) -> bool {
    let words = plain_words(text);
    let trigger = words.first().is_some_and(|word| word == "CREATE") && words.iter().take(3).any(|w| w == "TRIGGER");
    let count = |of: &[&str]| words.iter().filter(|word| of.contains(&word.as_str())).count();
    trigger && count(&["BEGIN", "CASE"]) > count(&["END"])
}

fn plain_words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_uppercase)
        .collect()
}

/// The first word of a statement, in capitals.
pub(crate) fn verb(statement: &str) -> Option<String> {
    crate::tools::sql_words(statement).next()
}

/// How a statement is carried out.
pub(crate) fn kind(statement: &str) -> Statement {
    let has = |word: &str| plain_words(statement).iter().any(|known| known == word);
    match verb(statement).as_deref() {
        Some("CREATE" | "DROP" | "ALTER") => Statement::Exec,
        Some("SELECT" | "PRAGMA" | "VALUES" | "EXPLAIN") => Statement::Query,
        Some("WITH") if !["INSERT", "UPDATE", "DELETE"].into_iter().any(has) => Statement::Query,
        _ if has("RETURNING") => Statement::Query,
        _ => Statement::Run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_taken_apart_at_its_semicolons_only() {
        for (script, expected) in [
            ("", vec![]),
            (" ; -- nothing\n;", vec![]),
            ("SELECT 1", vec!["SELECT 1"]),
            ("SELECT ';' ; SELECT \"a;b\";", vec!["SELECT ';'", "SELECT \"a;b\""]),
            ("SELECT 1 /* ; */; SELECT 'ü;", vec!["SELECT 1 /* ; */", "SELECT 'ü;"]),
            (
                "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE a SET x = CASE WHEN 1 THEN 2 END; END; SELECT 2",
                vec![
                    "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE a SET x = CASE WHEN 1 THEN 2 END; END",
                    "SELECT 2",
                ],
            ),
        ] {
            assert_eq!(statements(script), expected, "{script}");
        }
    }

    #[test]
    fn only_statements_that_stay_in_the_database_are_sent() {
        for statement in [
            "select 1",
            "/* x */ WITH a AS (SELECT 1) DELETE FROM b",
            "PRAGMA table_info(todos)",
            "SELECT 'x; ATTACH y'",
            "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE a SET x = CASE WHEN 1 THEN 2 END; END",
        ] {
            assert!(is_confined(statement), "{statement}");
        }
        for statement in [
            "ATTACH 'x' AS y",
            "\u{feff}ATTACH 'x' AS y",
            ";ATTACH 'x' AS y",
            "/*/ */ ATTACH 'x' AS y",
            "VACUUM INTO 'x'",
            "DETACH y",
            "PRAGMA journal_mode = off",
            "PRAGMA main.journal_mode = off",
            "NEWVERB x",
            "CREATE TABLE trigger (\"BEGIN\"); ATTACH 'x' AS y",
            "CREATE TRIGGER begin AFTER INSERT ON t BEGIN SELECT 1; END; ATTACH 'x' AS y",
            "CREATE TRIGGER begin AFTER INSERT ON t BEGIN SELECT 1; END; \u{feff}ATTACH 'x' AS y",
        ] {
            assert!(!is_confined(statement), "{statement}");
        }
    }

    #[test]
    fn a_statement_is_carried_out_by_what_it_does() {
        for (statement, expected) in [
            ("select 1", Statement::Query),
            ("-- why\nCREATE TABLE a (b)", Statement::Exec),
            ("INSERT INTO a VALUES (1)", Statement::Run),
            ("INSERT INTO a VALUES (1) RETURNING b", Statement::Query),
            ("WITH x AS (SELECT 1) SELECT * FROM x", Statement::Query),
            ("WITH x AS (SELECT 1) INSERT INTO a SELECT * FROM x", Statement::Run),
            ("PRAGMA table_info(a)", Statement::Query),
        ] {
            assert_eq!(kind(statement), expected, "{statement}");
        }
    }
}
