//! Remarks that people make on files, kept with a session.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A remark on a file, and what was said about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Annotation {
    /// Its id.
    pub id: String,
    /// The address of the session that it is about.
    pub session: String,
    /// The address of the chat that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// The turn that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The address of the file.
    pub file: String,
    /// From where to where in the file: line and column of both, from 0 on; all of it if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[(i64, i64); 2]>,
    /// Whether it is settled.
    pub resolved: bool,
    /// What was said, the oldest first.
    pub entries: Vec<AnnotationEntry>,
    /// What its client keeps with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Map<String, Value>>,
}

/// Something that was said about a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AnnotationEntry {
    /// Its id.
    pub id: String,
    /// The text.
    pub text: String,
    /// Whether the text is Markdown.
    pub markdown: bool,
    /// What its client keeps with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Map<String, Value>>,
}
