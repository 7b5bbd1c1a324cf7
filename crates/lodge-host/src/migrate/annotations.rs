//! Annotations of earlier builds: one file per session, in AHP's format.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{MigrateError, set};
use crate::{Annotation, AnnotationEntry, registers::Registers};

#[derive(Deserialize)]
struct Old {
    annotations: Vec<OldAnnotation>,
}

#[derive(Deserialize)]
struct OldAnnotation {
    id: String,
    origin: OldOrigin,
    resource: String,
    #[serde(default)]
    range: Option<OldRange>,
    #[serde(default)]
    resolved: bool,
    entries: Vec<OldEntry>,
    #[serde(default, rename = "_meta")]
    meta: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldOrigin {
    session: String,
    #[serde(default)]
    chat: Option<String>,
    #[serde(default)]
    turn_id: Option<String>,
}

#[derive(Deserialize)]
struct OldRange {
    start: OldPosition,
    end: OldPosition,
}

#[derive(Deserialize)]
struct OldPosition {
    line: i64,
    character: i64,
}

#[derive(Deserialize)]
struct OldEntry {
    id: String,
    text: OldText,
    #[serde(default, rename = "_meta")]
    meta: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OldText {
    Plain(String),
    Markdown { markdown: String },
}

pub(super) fn bring_in(id: &str, text: &[u8], registers: &Arc<dyn Registers>) -> Result<(), MigrateError> {
    let old: Old = serde_json::from_slice(text)?;
    let annotations: Vec<Annotation> = old.annotations.into_iter().map(Into::into).collect();
    set(registers, &format!("annotations/{id}"), &annotations)
}

impl From<OldAnnotation> for Annotation {
    fn from(old: OldAnnotation) -> Self {
        let place = |position: OldPosition| (position.line, position.character);
        Self {
            id: old.id,
            session: old.origin.session,
            chat: old.origin.chat,
            turn: old.origin.turn_id,
            file: old.resource,
            range: old.range.map(|range| [place(range.start), place(range.end)]),
            resolved: old.resolved,
            entries: old.entries.into_iter().map(Into::into).collect(),
            notes: old.meta,
        }
    }
}

impl From<OldEntry> for AnnotationEntry {
    fn from(old: OldEntry) -> Self {
        let (text, markdown) = match old.text {
            OldText::Plain(text) => (text, false),
            OldText::Markdown { markdown } => (markdown, true),
        };
        Self {
            id: old.id,
            text,
            markdown,
            notes: old.meta,
        }
    }
}
