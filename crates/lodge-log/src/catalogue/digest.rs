//! What the catalogue extracts from an event: the one place in this crate that knows what some events mean.

use lodge_events::Event;
use serde::Deserialize;

use super::about::About;
use super::progress::Progress;

/// Longest text of one message that is searchable.
const TEXT_MAX: usize = 64 * 1024;
/// Longest summary.
const SUMMARY_MAX: usize = 160;

/// Which side a message is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Assistant,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// Where a session works.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Context {
    pub(crate) cwd: Option<String>,
    pub(crate) git_root: Option<String>,
    pub(crate) repository: Option<String>,
    pub(crate) branch: Option<String>,
    /// The repository is still being looked at; what was known of it stays until then.
    pub(crate) pending_git_context: Option<bool>,
}

/// What one event changes in the catalogue.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    pub(crate) created: Option<i64>,
    pub(crate) context: Option<Context>,
    pub(crate) model: Option<String>,
    pub(crate) message: Option<(Role, String)>,
}

/// The fields of all types that matter here; each type has some of them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    start_time: Option<String>,
    selected_model: Option<String>,
    new_model: Option<String>,
    context: Option<Context>,
    content: Option<String>,
}

/// Whether an event of this type changes more than the number of events.
pub(crate) fn matters(event: &Event) -> bool {
    let kinds = [
        "session.start",
        "session.resume",
        "session.context_changed",
        "session.model_change",
        "user.message",
        "assistant.message",
    ];
    // What sub-agents say among themselves is not part of the conversation.
    (kinds.contains(&event.kind()) || Progress::KINDS.contains(&event.kind()) || About::is_told_by(event))
        && event.agent_id().is_none()
}

pub(crate) fn digest(event: &Event) -> Digest {
    let mut digest = Digest::default();
    if !matters(event) {
        return digest;
    }
    if event.kind() == "session.context_changed" {
        digest.context = serde_json::from_str(event.data_json()).ok();
        return digest;
    }
    let Ok(data) = serde_json::from_str::<Data>(event.data_json()) else {
        return digest;
    };
    match event.kind() {
        "session.start" | "session.resume" => {
            digest.created = data
                .start_time
                .and_then(|time| Some(time.parse::<jiff::Timestamp>().ok()?.as_millisecond()));
            digest.context = data.context;
            digest.model = data.selected_model;
        }
        "session.model_change" => digest.model = data.new_model,
        kind @ ("user.message" | "assistant.message") => {
            let role = if kind == "user.message" {
                Role::User
            } else {
                Role::Assistant
            };
            let text = data
                .content
                .filter(|text| role == Role::User || !text.trim().is_empty());
            digest.message = text.map(|text| (role, clip(text, TEXT_MAX)));
        }
        _ => {}
    }
    digest
}

/// The beginning of a message in one line.
pub(crate) fn summary(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + word.len() > SUMMARY_MAX {
            if line.is_empty() {
                line = clip(word.to_owned(), SUMMARY_MAX);
            }
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

fn clip(mut text: String, max: usize) -> String {
    text.truncate(text.floor_char_boundary(max));
    text
}
