//! One session as the host holds it.

use std::{collections::BTreeMap, sync::Arc};

use ahp_types::state::{
    AnnotationsSummary, ChangesSummary, ChatSummary, FileEdit, SessionChatSummary, SessionState, SessionStatus,
    SessionSummary,
};
use lodge_http::Outcome;
use serde_json::{Map, Value};

use super::chat::ChatStore;
use crate::session_config;

/// The bits of a status that say what goes on; the others are flags of the person.
pub(crate) const ACTIVITY_BITS: u32 = 31;

/// One session.
#[derive(Debug)]
pub(crate) struct SessionEntry {
    pub(crate) state: SessionState,
    /// The configuration's schema with its properties in order; the official type keeps them in a hash map.
    pub(crate) schema: Option<Arc<Value>>,
    pub(crate) created_at: String,
    pub(crate) default_chat: Arc<str>,
    /// What the list of sessions was last told; `None` while it is a draft that nobody was told about.
    pub(crate) announced: Option<Map<String, Value>>,
    /// What its turns changed, in numbers; none when they never changed anything.
    pub(crate) changes: Option<ChangesSummary>,
    /// The same file by file, as the seed's dialect has it.
    pub(crate) diffs: Vec<FileEdit>,
    /// Something that a summary shows may have changed.
    pub(crate) dirty: bool,
    /// How many annotations it has.
    pub(crate) annotations: Option<AnnotationsSummary>,
    /// What was turned on and off for it alone.
    pub(crate) decisions: BTreeMap<String, bool>,
    /// How much of that the agent does not know yet.
    pub(crate) undone: usize,
}

impl SessionEntry {
    pub(crate) fn new(
        state: SessionState,
        schema: Option<Arc<Value>>,
        created_at: String,
        default_chat: Arc<str>,
    ) -> Self {
        Self {
            state,
            schema,
            created_at,
            default_chat,
            announced: None,
            changes: None,
            diffs: Vec::new(),
            dirty: false,
            annotations: None,
            decisions: BTreeMap::new(),
            undone: 0,
        }
    }

    /// The state on the wire. Without a picker of models where the client has one of its own.
    pub(crate) fn view(&self, picks_model: bool) -> Value {
        let mut value = serde_json::to_value(&self.state).unwrap_or_default();
        if let (Some(schema), Some(config)) = (&self.schema, value.get_mut("config")) {
            config["schema"] = Value::clone(schema);
            if picks_model {
                session_config::without_model(&mut config["schema"]);
            }
        }
        value
    }

    /// The session's line in the list.
    pub(crate) fn summary(&self, uri: &str, chats: &[&ChatStore]) -> SessionSummary {
        let state = &self.state;
        SessionSummary {
            provider: state.provider.clone(),
            title: state.title.clone(),
            status: aggregate(state.status, chats.iter().map(|chat| chat.head().status)),
            activity: state.activity.clone(),
            origin: state.origin.clone(),
            project: state.project.clone(),
            working_directories: state.working_directories.clone(),
            annotations: self.annotations.clone(),
            resource: uri.to_owned(),
            created_at: self.created_at.clone(),
            modified_at: chats
                .iter()
                .map(|chat| chat.head().modified_at.as_str())
                .max()
                .unwrap_or(&self.created_at)
                .to_owned(),
            changes: self.changes.clone(),
            meta: None,
            chats: Some(state.chats.iter().map(chat_line).collect()),
            default_chat: state.default_chat.clone(),
        }
    }
}

fn chat_line(chat: &ChatSummary) -> SessionChatSummary {
    SessionChatSummary {
        resource: chat.resource.clone(),
        title: chat.title.clone(),
        origin: chat.origin.clone(),
        interactivity: chat.interactivity,
        status: Some(chat.status),
        changes: chat.changes.clone(),
    }
}

/// What goes on in a session: that of its default chat (the first), unless another needs a person or failed.
pub(crate) fn aggregate(flags: u32, chats: impl Iterator<Item = u32>) -> u32 {
    let activities: Vec<u32> = chats.map(|status| status & ACTIVITY_BITS).collect();
    let has = |status: SessionStatus| activities.contains(&status.bits());
    let activity = if has(SessionStatus::InputNeeded) {
        SessionStatus::InputNeeded.bits()
    } else if has(SessionStatus::Error) {
        SessionStatus::Error.bits()
    } else {
        activities.first().copied().unwrap_or(SessionStatus::Idle.bits())
    };
    (flags & !ACTIVITY_BITS) | activity
}

/// What changed between two summaries, as `root/sessionSummaryChanged` says it: a value that went away is null.
pub(crate) fn changes(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut changes = Map::new();
    for (key, value) in new {
        if old.get(key) != Some(value) {
            changes.insert(key.clone(), value.clone());
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        changes.insert(key.clone(), Value::Null);
    }
    for identity in ["resource", "provider", "createdAt"] {
        changes.remove(identity);
    }
    changes
}

/// What became of a session, from its status before and after: only a session that worked comes to something.
pub(super) fn outcome(before: u64, after: u64) -> Option<Outcome> {
    const ERROR: u64 = 2;
    const WORKING: u64 = 8;
    const NEEDS_INPUT: u64 = 24;
    let works = |status: u64| status & NEEDS_INPUT == WORKING;
    if !works(before) || works(after) {
        return None;
    }
    Some(match after {
        after if after & NEEDS_INPUT == NEEDS_INPUT => Outcome::Waiting,
        after if after & ERROR != 0 => Outcome::Failed,
        _ => Outcome::Done,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_that_worked_comes_to_something() {
        let (idle, failed, working, waiting) = (1, 2, 8, 24);
        let read = 32;
        for (before, after, expected) in [
            (working, waiting, Some(Outcome::Waiting)),
            (working, waiting | read, Some(Outcome::Waiting)),
            (working | read, idle, Some(Outcome::Done)),
            (working, failed, Some(Outcome::Failed)),
            (working, working | read, None),
            (waiting, working, None),
            (waiting, idle, None),
            (idle, working, None),
            (idle, idle | read, None),
        ] {
            assert_eq!(outcome(before, after), expected, "{before} {after}");
        }
    }

    #[test]
    fn a_session_shows_its_default_chat_unless_another_needs_somebody() {
        let check = |flags, chats: &[u32], expected| assert_eq!(aggregate(flags, chats.iter().copied()), expected);
        check(1, &[1], 1);
        check(1 | 32, &[8], 8 | 32);
        check(8 | 64, &[1, 8], 1 | 64);
        check(1, &[1, 24], 24);
        check(1, &[8, 2], 2);
        check(1, &[], 1);
    }

    #[test]
    fn changes_name_only_what_changed_and_never_the_identity() {
        let map = |value: Value| value.as_object().cloned().unwrap();
        let old = map(serde_json::json!({"resource": "a", "title": "t", "activity": "busy", "status": 1}));
        let new = map(serde_json::json!({"resource": "b", "title": "u", "status": 1}));
        assert_eq!(
            Value::Object(changes(&old, &new)),
            serde_json::json!({"title": "u", "activity": null})
        );
    }
}
