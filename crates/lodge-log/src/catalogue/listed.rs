//! A session as one host describes it to another: what lists show, and the newest text for the search.

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::about::About;
use super::db::{self, read_about, written};

/// What a row has instead of the bytes of a log that it reflects: another host described the session.
pub(super) const REMOTE: u64 = u64::MAX;
/// How much of what was said travels, and how much of one message, in bytes.
const TEXTS: usize = 16 << 10;
const TEXT: usize = 2 << 10;
/// How many messages travel at most.
const MESSAGES: usize = 64;

/// A session as another host describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listed {
    /// The session's id.
    pub id: String,
    created: i64,
    modified: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_name: Option<String>,
    events: i64,
    messages: i64,
    user_messages: i64,
    progress: String,
    about: About,
    /// The newest messages, oldest first.
    texts: Vec<Text>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Text {
    event: String,
    role: String,
    text: String,
}

impl Listed {
    /// A session of which nothing is known yet but that it was made.
    pub fn made(id: &str, at: jiff::Timestamp) -> Listed {
        Listed {
            id: id.to_owned(),
            created: at.as_millisecond(),
            modified: at.as_millisecond(),
            ..Listed::default()
        }
    }

    /// Its name, or the beginning of its first message.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref().or(self.summary.as_deref())
    }

    /// Where it works.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// When it was used last.
    pub fn modified(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.modified).unwrap_or_default()
    }

    /// How many events it has.
    pub(super) fn events(&self) -> i64 {
        self.events
    }
}

/// Describes a session for other hosts.
pub(super) fn describe(db: &Connection, id: &str) -> rusqlite::Result<Option<Listed>> {
    let mut select = db.prepare_cached(
        "SELECT created, modified, cwd, git_root, repository, branch, title, summary, model, client_name, events,
                messages, user_messages, progress, about, key FROM sessions WHERE id = ?1",
    )?;
    let found = select.query_row([id], |row| {
        let listed = Listed {
            id: id.to_owned(),
            created: row.get(0)?,
            modified: row.get(1)?,
            cwd: row.get(2)?,
            git_root: row.get(3)?,
            repository: row.get(4)?,
            branch: row.get(5)?,
            title: row.get(6)?,
            summary: row.get(7)?,
            model: row.get(8)?,
            client_name: row.get(9)?,
            events: row.get(10)?,
            messages: row.get(11)?,
            user_messages: row.get(12)?,
            progress: row.get(13)?,
            about: read_about(&row.get::<_, String>(14)?),
            texts: Vec::new(),
        };
        Ok((listed, row.get::<_, i64>(15)?))
    });
    let Some((mut listed, key)) = found.optional()? else {
        return Ok(None);
    };
    listed.texts = newest_texts(db, key)?;
    Ok(Some(listed))
}

fn newest_texts(db: &Connection, session: i64) -> rusqlite::Result<Vec<Text>> {
    let mut select =
        db.prepare_cached("SELECT event, role, text FROM texts WHERE session = ?1 ORDER BY key DESC LIMIT ?2")?;
    let found = select.query_map(params![session, MESSAGES as i64], |row| {
        let text: String = row.get(2)?;
        Ok(Text {
            event: row.get(0)?,
            role: row.get(1)?,
            text: text[..text.floor_char_boundary(TEXT)].to_owned(),
        })
    })?;
    let (mut texts, mut bytes) = (Vec::new(), 0);
    for text in found {
        let text = text?;
        bytes += text.text.len();
        if bytes > TEXTS {
            break;
        }
        texts.push(text);
    }
    texts.reverse();
    Ok(texts)
}

/// Takes in what another host says of a session, unless the log here has as much. Answers whether it did.
pub(super) fn take_in(db: &Connection, dir: &str, listed: &Listed) -> rusqlite::Result<bool> {
    let known = db
        .prepare_cached("SELECT events, covered FROM sessions WHERE id = ?1")?
        .query_row([&listed.id], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)? as u64))
        })
        .optional()?;
    if known.is_some_and(|(events, covered)| covered != REMOTE && events >= listed.events) {
        return Ok(false);
    }
    db::forget(db, &listed.id)?;
    let mut insert = db.prepare_cached(
        "INSERT INTO sessions (id, dir, created, modified, cwd, git_root, repository, branch, title, summary, model,
           client_name, events, messages, user_messages, progress, about, chat_of, covered)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
    )?;
    let key = insert.insert(params![
        listed.id,
        dir,
        listed.created,
        listed.modified,
        listed.cwd,
        listed.git_root,
        listed.repository,
        listed.branch,
        listed.title,
        listed.summary,
        listed.model,
        listed.client_name,
        listed.events,
        listed.messages,
        listed.user_messages,
        listed.progress,
        written(&listed.about),
        listed.about.indexed_chat_of(),
        REMOTE as i64,
    ])?;
    let mut insert = db.prepare_cached("INSERT INTO texts (session, event, role, text) VALUES (?1, ?2, ?3, ?4)")?;
    for Text { event, role, text } in &listed.texts {
        insert.execute(params![key, event, role, text])?;
    }
    Ok(true)
}
