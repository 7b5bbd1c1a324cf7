//! The state of a conversation according to its log, which lists show for a session that nobody has open.

use lodge_events::Event;
use serde::Deserialize;

/// How far the conversation of a session got. Whether somebody works on it right now is not in its log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is under way.
    #[default]
    Idle,
    /// A turn has begun and not ended.
    Working,
    /// A command of the person has begun and not ended.
    Running,
    /// A turn waits for an answer of a person.
    Asking,
    /// The last turn failed.
    Failed,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Data {
    agent_mode: Option<String>,
    source: Option<String>,
    info_type: Option<String>,
    tool_requests: Option<Vec<serde::de::IgnoredAny>>,
}

impl Progress {
    /// The types of events that change it.
    pub(super) const KINDS: [&str; 9] = [
        "user.message",
        "assistant.turn_start",
        "assistant.message",
        "tool.execution_complete",
        "session.error",
        "session.info",
        "abort",
        "lodge.question",
        "lodge.answered",
    ];

    const NAMES: [(Self, &str); 4] = [
        (Self::Working, "working"),
        (Self::Running, "running"),
        (Self::Asking, "asking"),
        (Self::Failed, "failed"),
    ];

    pub(super) fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(progress, _)| *progress == self);
        found.map_or("", |(_, name)| *name)
    }

    pub(super) fn named(name: &str) -> Self {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map_or(Self::Idle, |(progress, _)| *progress)
    }

    pub(super) fn after(self, event: &Event) -> Self {
        let data = || serde_json::from_str::<Data>(event.data_json()).unwrap_or_default();
        let is_open = !matches!(self, Self::Idle | Self::Failed);
        match event.kind() {
            "user.message" => {
                let Data { agent_mode, source, .. } = data();
                let is_command =
                    agent_mode.as_deref() == Some("shell") && source.as_deref() == Some(lodge_events::COMMAND_SOURCE);
                if is_command { Self::Running } else { Self::Working }
            }
            "assistant.turn_start" => Self::Working,
            // An answer that asks for no tools is the last one.
            "assistant.message" if data().tool_requests.is_none_or(|calls| calls.is_empty()) => Self::Idle,
            "tool.execution_complete" if self == Self::Running => Self::Idle,
            "session.error" if is_open => Self::Failed,
            "session.info" if is_open && data().info_type.as_deref() == Some("interrupted") => Self::Failed,
            "abort" if is_open => Self::Idle,
            "lodge.question" if is_open => Self::Asking,
            "lodge.answered" if self == Self::Asking => Self::Working,
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &str) -> Event {
        let id = "8c5a0f46-6a77-4b19-9b3f-0d2c3f0f4a11";
        let line = format!(
            r#"{{"type":"{kind}","data":{data},"id":"{id}","timestamp":"2026-11-16T10:00:00.000Z","parentId":null}}"#
        );
        Event::parse(line.into_bytes().into()).unwrap()
    }

    #[test]
    fn a_log_says_how_far_its_conversation_got() {
        let said = ("user.message", r#"{"content":"x"}"#);
        let begun = ("assistant.turn_start", r#"{"turnId":"0"}"#);
        let asks = (
            "assistant.message",
            r#"{"messageId":"m","content":"","toolRequests":[{"toolCallId":"c","name":"view"}]}"#,
        );
        let answer = (
            "assistant.message",
            r#"{"messageId":"m","content":"done","toolRequests":[]}"#,
        );
        let done = ("tool.execution_complete", r#"{"toolCallId":"c","success":true}"#);
        let error = ("session.error", r#"{"errorType":"query","message":"x"}"#);
        let question = (
            "lodge.question",
            r#"{"requestId":"q","kind":"permission","digest":"","message":""}"#,
        );
        let answered = (
            "lodge.answered",
            r#"{"requestId":"q","kind":"permission","digest":"","by":{},"answer":true}"#,
        );
        let command = (
            "user.message",
            r#"{"content":"ls","agentMode":"shell","source":"command"}"#,
        );
        let interrupted = ("session.info", r#"{"infoType":"interrupted","message":"x"}"#);
        let other = ("session.info", r#"{"infoType":"configuration","message":"x"}"#);
        let abort = ("abort", r#"{"reason":"user_initiated"}"#);
        let table: [(&[(&str, &str)], Progress); 15] = [
            (&[], Progress::Idle),
            (&[said, begun], Progress::Working),
            (&[said, begun, answer], Progress::Idle),
            (&[said, begun, asks, done], Progress::Working),
            (&[said, begun, asks, question], Progress::Asking),
            (&[said, begun, asks, question, answered], Progress::Working),
            (&[said, begun, error], Progress::Failed),
            (&[said, begun, error, abort], Progress::Failed),
            (&[said, begun, error, begun], Progress::Working),
            (&[said, begun, error, said, begun, answer], Progress::Idle),
            (&[said, begun, abort], Progress::Idle),
            (&[said, begun, other], Progress::Working),
            (&[said, begun, interrupted], Progress::Failed),
            (&[command], Progress::Running),
            (&[command, done], Progress::Idle),
        ];
        for (events, expected) in table {
            let found = events.iter().fold(Progress::Idle, |progress, (kind, data)| {
                Progress::named(progress.after(&event(kind, data)).name())
            });
            assert_eq!(found, expected, "{events:?}");
        }
    }
}
