//! Annotations: remarks that people make on files. They are kept with a session, and the agent gets them with a message that
//! refers to them.

use std::{collections::HashSet, fmt::Write as _};

use lodge_files::uri;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::RegisterError;

/// A session has at most so many, and each so many entries.
const MOST: usize = 500;
const MOST_ENTRIES: usize = 100;
/// An entry is at most so long, and a name or an address.
const ENTRY_BYTES: usize = 64 << 10;
const NAME_BYTES: usize = 4 << 10;
/// All of a session's together.
const BYTES: usize = 4 << 20;

/// Why annotations are not kept.
#[derive(Debug, thiserror::Error)]
pub enum AnnotationError {
    /// They break a rule, which the text names.
    #[error("{0}")]
    Invalid(String),
    /// The register failed.
    #[error("cannot save it: {0}")]
    Kept(#[from] RegisterError),
}

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

impl Annotation {
    fn check(&self) -> Result<(), String> {
        name(&self.id)?;
        name(&self.file)?;
        if self.entries.is_empty() || self.entries.len() > MOST_ENTRIES {
            return Err(format!("an annotation has 1 to {MOST_ENTRIES} entries"));
        }
        let mut ids = HashSet::new();
        for entry in &self.entries {
            name(&entry.id)?;
            if entry.text.len() > ENTRY_BYTES {
                return Err(format!("an entry has at most {ENTRY_BYTES} bytes"));
            }
            if !ids.insert(&entry.id) {
                return Err(format!("two entries are called {:?}", entry.id));
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let entries = self.entries.iter().map(|entry| entry.id.len() + entry.text.len());
        self.file.len() + entries.sum::<usize>()
    }
}

fn name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES {
        return Err(format!("a name or an address has 1 to {NAME_BYTES} bytes"));
    }
    Ok(())
}

/// Whether a session can have these annotations.
pub(crate) fn check(all: &[Annotation]) -> Result<(), AnnotationError> {
    let refused = |why: String| Err(AnnotationError::Invalid(why));
    if all.len() > MOST {
        return refused(format!("a session has at most {MOST} annotations"));
    }
    all.iter()
        .try_for_each(Annotation::check)
        .map_err(AnnotationError::Invalid)?;
    if all.iter().map(Annotation::size).sum::<usize>() > BYTES {
        return refused("the annotations of this session have reached their limit".to_owned());
    }
    Ok(())
}

/// Annotations as the agent reads them.
pub fn quote_annotations<'a>(all: impl IntoIterator<Item = &'a Annotation>) -> String {
    let mut out = String::from("<annotations>\n");
    for one in all {
        let place = uri::path(&one.file).map_or_else(|| one.file.clone(), |path| path.display().to_string());
        let _ = write!(out, "On {place}");
        if let Some([(first, _), (last, _)]) = one.range {
            // Lines are counted from 0 here and from 1 by everybody else.
            let _ = write!(out, ", lines {} to {}", first + 1, last + 1);
        }
        out.push_str(if one.resolved { " (resolved):\n" } else { ":\n" });
        for entry in &one.entries {
            let _ = writeln!(out, "- {}", entry.text.replace('\n', "\n  "));
        }
    }
    out + "</annotations>"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, text: &str) -> AnnotationEntry {
        AnnotationEntry {
            id: id.into(),
            text: text.into(),
            ..AnnotationEntry::default()
        }
    }

    fn annotation(entries: Vec<AnnotationEntry>) -> Annotation {
        Annotation {
            id: "a".into(),
            file: "file:///w/a%20b".into(),
            range: Some([(0, 0), (2, 1)]),
            entries,
            ..Annotation::default()
        }
    }

    #[test]
    fn annotations_are_bounded_and_say_why_not() {
        let long = "x".repeat(ENTRY_BYTES + 1);
        let many = |count: usize| (0..count).map(|n| entry(&n.to_string(), "x")).collect();
        for (entries, why) in [
            (many(1), None),
            (many(MOST_ENTRIES), None),
            (many(0), Some("1 to 100 entries")),
            (many(MOST_ENTRIES + 1), Some("1 to 100 entries")),
            (vec![entry("1", "x"), entry("1", "y")], Some("two entries")),
            (vec![entry("", "x")], Some("a name")),
            (vec![entry("1", &long)], Some("at most 65536 bytes")),
        ] {
            let said = check(&[annotation(entries)]).err().map(|error| error.to_string());
            match why {
                Some(why) => assert!(
                    said.as_deref().is_some_and(|said| said.contains(why)),
                    "{why}: {said:?}"
                ),
                None => assert_eq!(said, None),
            }
        }
        let full = annotation(vec![entry("1", &"x".repeat(ENTRY_BYTES))]);
        assert!(check(&vec![full.clone(); BYTES / ENTRY_BYTES - 1]).is_ok());
        assert!(check(&vec![full; BYTES / ENTRY_BYTES]).is_err());
        assert!(check(&vec![annotation(many(1)); MOST + 1]).is_err());
    }

    #[test]
    fn the_agent_reads_where_they_are_and_what_they_say() {
        let said = annotation(vec![entry("1", "odd\nindeed")]);
        let told = "<annotations>\nOn /w/a b, lines 1 to 3:\n- odd\n  indeed\n</annotations>";
        assert_eq!(quote_annotations([&said]), told);
    }
}
