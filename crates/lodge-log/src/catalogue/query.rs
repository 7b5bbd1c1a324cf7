//! Queries on the catalogue.

use std::ops::Range;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use uuid::Uuid;

use super::about::About;
use super::db::read_about;
use super::progress::Progress;

/// What the catalogue knows of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// The session's id.
    pub id: String,
    /// Its directory.
    pub dir: PathBuf,
    /// When it was made.
    pub created: Timestamp,
    /// When its last event was.
    pub modified: Timestamp,
    /// Where it works.
    pub cwd: Option<String>,
    /// The root of the git repository it works in.
    pub git_root: Option<String>,
    /// The repository as `owner/name`.
    pub repository: Option<String>,
    /// The branch.
    pub branch: Option<String>,
    /// Its name (see [`Labels`](crate::Labels)).
    pub title: Option<String>,
    /// The beginning of the first user message, in one line.
    pub summary: Option<String>,
    /// The model it uses.
    pub model: Option<String>,
    /// The program that made it.
    pub client_name: Option<String>,
    /// How many persisted events it has.
    pub event_count: u64,
    /// How many messages of the user and the assistant it has.
    pub message_count: u64,
    /// How long its log is here, in bytes; 0 when another host described it.
    pub log_bytes: u64,
    /// How far its conversation got.
    pub progress: Progress,
    /// What people arranged about it.
    pub about: About,
}

/// Which sessions to list. All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Only sessions that work in this directory.
    pub cwd: Option<String>,
    /// Only sessions in the git repository with this root.
    pub git_root: Option<String>,
    /// Only sessions in this repository (`owner/name`).
    pub repository: Option<String>,
    /// Only sessions on this branch.
    pub branch: Option<String>,
    /// Only sessions whose id begins so.
    pub id_prefix: Option<String>,
    /// Also sessions in which the user has not said anything yet.
    pub include_empty: bool,
    /// How many at most; all if absent.
    pub limit: Option<usize>,
    /// Where the page before ended: its [`Page::next`].
    pub after: Option<String>,
}

/// Some sessions, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The sessions.
    pub sessions: Vec<SessionSummary>,
    /// What to pass as [`ListFilter::after`] for the next page, if there is more.
    pub next: Option<String>,
}

/// A message that was searched for.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The session it is in.
    pub session: SessionSummary,
    /// The event.
    pub event_id: Uuid,
    /// `user` or `assistant`.
    pub role: String,
    /// The part of the text around the first match.
    pub snippet: String,
    /// Where in `snippet` the words are, in bytes.
    pub matches: Vec<Range<usize>>,
}

const COLUMNS: &str =
    "s.id, s.dir, s.created, s.modified, s.cwd, s.git_root, s.repository, s.branch, s.title, s.summary,
    s.model, s.client_name, s.events, s.messages, s.covered, s.progress, s.about";

fn summary(row: &Row<'_>, root: &Path) -> rusqlite::Result<SessionSummary> {
    let time = |ms: i64| Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(SessionSummary {
        id: row.get(0)?,
        dir: root.join(row.get::<_, String>(1)?),
        created: time(row.get(2)?),
        modified: time(row.get(3)?),
        cwd: row.get(4)?,
        git_root: row.get(5)?,
        repository: row.get(6)?,
        branch: row.get(7)?,
        title: row.get(8)?,
        summary: row.get(9)?,
        model: row.get(10)?,
        client_name: row.get(11)?,
        event_count: row.get::<_, i64>(12)? as u64,
        message_count: row.get::<_, i64>(13)? as u64,
        // Less than nothing: it is another host's.
        log_bytes: row.get::<_, i64>(14)?.max(0) as u64,
        progress: Progress::named(&row.get::<_, String>(15)?),
        about: read_about(&row.get::<_, String>(16)?),
    })
}

/// A path as all spellings of it are listed: without the slash at its end, and without `.`.
pub(super) fn plain_path(path: &str) -> String {
    let plain: PathBuf = Path::new(path).components().collect();
    plain.to_string_lossy().into_owned()
}

/// The SQL for a list, and its parameters.
pub(super) fn list_sql(filter: &ListFilter) -> (String, Vec<Value>) {
    let mut conditions: Vec<String> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    let cwd = filter.cwd.as_deref().map(plain_path);
    let columns = [
        ("cwd", &cwd),
        ("git_root", &filter.git_root),
        ("repository", &filter.repository),
        ("branch", &filter.branch),
    ];
    for (column, value) in columns {
        if let Some(value) = value {
            values.push(value.clone().into());
            conditions.push(format!("s.{column} = ?{}", values.len()));
        }
    }
    if let Some(prefix) = &filter.id_prefix {
        values.push(prefix.clone().into());
        conditions.push(format!("substr(s.id, 1, length(?{0})) = ?{0}", values.len()));
    }
    if !filter.include_empty {
        conditions.push("s.user_messages > 0".to_owned());
    }
    if let Some((modified, key)) = filter.after.as_deref().and_then(read_cursor) {
        values.extend([modified.into(), key.into()]);
        conditions.push(format!(
            "(s.modified, s.key) < (?{}, ?{})",
            values.len() - 1,
            values.len()
        ));
    }
    let filter_sql = if conditions.is_empty() {
        String::new()
    } else {
        format!("WHERE {}", conditions.join(" AND "))
    };
    // One more than asked for tells whether there is a next page.
    let limit = filter
        .limit
        .map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1);
    let sql = format!(
        "SELECT {COLUMNS}, s.key FROM sessions s {filter_sql} ORDER BY s.modified DESC, s.key DESC LIMIT {limit}"
    );
    (sql, values)
}

pub(super) fn list(db: &Connection, root: &Path, filter: &ListFilter) -> rusqlite::Result<Page> {
    let (sql, values) = list_sql(filter);
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut page = Page {
        sessions: Vec::new(),
        next: None,
    };
    let mut last = None;
    while let Some(row) = rows.next()? {
        if filter.limit == Some(page.sessions.len()) {
            page.next = last;
            break;
        }
        page.sessions.push(summary(row, root)?);
        last = Some(format!("{}.{}", row.get::<_, i64>(3)?, row.get::<_, i64>(17)?));
    }
    Ok(page)
}

fn read_cursor(cursor: &str) -> Option<(i64, i64)> {
    let (modified, key) = cursor.split_once('.')?;
    Some((modified.parse().ok()?, key.parse().ok()?))
}

pub(super) fn get(db: &Connection, root: &Path, id: &str) -> rusqlite::Result<Option<SessionSummary>> {
    let mut select = db.prepare_cached(&format!("SELECT {COLUMNS} FROM sessions s WHERE s.id = ?1"))?;
    select.query_row([id], |row| summary(row, root)).optional()
}

/// What is or was a chat of another session, or what is one of this session's.
pub(super) fn chats(db: &Connection, root: &Path, of: Option<&str>) -> rusqlite::Result<Vec<SessionSummary>> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM sessions s WHERE s.chat_of IS NOT NULL AND (?1 IS NULL OR s.chat_of = ?1) ORDER BY s.created, s.key"
    ))?;
    let found = select.query_map([of], |row| summary(row, root))?;
    found.collect()
}

pub(super) fn search(db: &Connection, root: &Path, text: &str, limit: usize) -> rusqlite::Result<Vec<SearchHit>> {
    let Some(query) = words(text) else {
        return Ok(Vec::new());
    };
    let mut select = db.prepare_cached(&format!(
        "SELECT {COLUMNS}, t.event, t.role, snippet(words, 0, char(2), char(3), '…', 16)
         FROM words JOIN texts t ON t.key = words.rowid JOIN sessions s ON s.key = t.session
         WHERE words MATCH ?1 ORDER BY rank, s.modified DESC LIMIT ?2"
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = select.query_map(rusqlite::params![query, limit], |row| {
        let (snippet, matches) = unmark(&row.get::<_, String>(19)?);
        Ok(SearchHit {
            session: summary(row, root)?,
            event_id: row.get::<_, String>(17)?.parse().unwrap_or_default(),
            role: row.get(18)?,
            snippet,
            matches,
        })
    })?;
    rows.collect()
}

/// What a person typed as a query that cannot be malformed: all words must occur, the last may be a beginning.
fn words(text: &str) -> Option<String> {
    let words: Vec<String> = text
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .map(|word| format!("\"{}\"", word.replace('"', "\"\"").replace('\0', "")))
        .collect();
    (!words.is_empty()).then(|| words.join(" ") + "*")
}

/// Takes the marks out of a snippet and says where they were. Marks that were in the text itself just vanish.
fn unmark(marked: &str) -> (String, Vec<Range<usize>>) {
    let (mut text, mut matches, mut start) = (String::with_capacity(marked.len()), Vec::new(), None);
    for c in marked.chars() {
        match c {
            '\u{2}' => start = Some(text.len()),
            '\u{3}' => matches.extend(start.take().map(|start| start..text.len())),
            c => text.push(c),
        }
    }
    (text, matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_need_no_sorting() {
        let db = super::super::db::in_memory().unwrap();
        let some = || Some("x".to_owned());
        let filters = [
            ListFilter::default(),
            ListFilter {
                cwd: some(),
                ..ListFilter::default()
            },
            ListFilter {
                git_root: some(),
                ..ListFilter::default()
            },
            ListFilter {
                repository: some(),
                branch: some(),
                ..ListFilter::default()
            },
            ListFilter {
                cwd: some(),
                after: Some("1.2".to_owned()),
                limit: Some(5),
                ..ListFilter::default()
            },
        ];
        for filter in filters {
            let (sql, values) = list_sql(&filter);
            let mut plan = db.db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps = plan
                .query_map(params_from_iter(values), |row| row.get::<_, String>(3))
                .unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            let indexed = steps.iter().all(|step| step.contains("USING INDEX newest"));
            assert!(indexed, "{filter:?} is answered by {steps:?}");
        }
    }
}
