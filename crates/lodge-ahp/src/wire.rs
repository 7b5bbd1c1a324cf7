//! What goes over the socket: text frames that are made once and shared by everybody who gets them.

use std::borrow::Cow;

use serde::Serialize;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// One JSON-RPC message, ready to send. Cheap to clone: the bytes are shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame(Utf8Bytes);

impl Frame {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// For the socket.
    pub fn into_bytes(self) -> Utf8Bytes {
        self.0
    }
}

impl From<String> for Frame {
    fn from(text: String) -> Self {
        Self(Utf8Bytes::from(text))
    }
}

/// Who dispatched an action, echoed so that the client knows its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The client.
    pub client_id: std::sync::Arc<str>,
    /// Its number for the action.
    pub client_seq: i64,
}

const ACTION_HEAD: &str = r#"{"jsonrpc":"2.0","method":"action","params":"#;

/// The frame of an action but for its number, which is the last that it gets.
#[derive(Debug, Clone)]
pub(crate) struct Unnumbered {
    before: String,
    after: Cow<'static, str>,
}

impl Unnumbered {
    /// Room that a number takes.
    const NUMBER: usize = 20;

    fn new(mut before: String, after: impl Into<Cow<'static, str>>) -> Self {
        let after = after.into();
        before.push_str(r#","serverSeq":"#);
        before.reserve_exact(Self::NUMBER + after.len());
        Self { before, after }
    }

    /// The frame with its number.
    pub(crate) fn frame(self, server_seq: u64) -> Frame {
        let mut text = self.before;
        text.push_str(&server_seq.to_string());
        text.push_str(&self.after);
        Frame::from(text)
    }
}

/// The envelope of an action. `channel` is absent in the seed's dialect.
pub(crate) struct Envelope<'a, A: Serialize> {
    pub(crate) channel: Option<&'a str>,
    pub(crate) action: &'a A,
    pub(crate) origin: Option<&'a Origin>,
    pub(crate) rejection_reason: Option<&'a str>,
}

impl<A: Serialize> Envelope<'_, A> {
    /// The `action` notification that carries it.
    pub(crate) fn spell(&self) -> Unnumbered {
        let mut text = String::with_capacity(256);
        text.push_str(ACTION_HEAD);
        text.push('{');
        if let Some(channel) = self.channel {
            text.push_str(r#""channel":""#);
            escape(channel, &mut text);
            text.push_str(r#"","#);
        }
        text.push_str(r#""action":"#);
        text.push_str(&to_json(self.action));
        if self.origin.is_none() && self.rejection_reason.is_none() {
            return Unnumbered::new(text, "}}");
        }
        let origin = self.origin.map(|origin| format!(r#","origin":{}"#, to_json(origin)));
        let reason = self.rejection_reason;
        let reason = reason.map(|reason| format!(r#","rejectionReason":{}"#, to_json(&reason)));
        let after = [origin.unwrap_or_default(), reason.unwrap_or_default(), "}}".to_owned()];
        Unnumbered::new(text, after.concat())
    }
}

/// The frame of what a terminal printed: the same bytes as those of its envelope, made without a detour, because there may
/// be a hundred megabytes of it a second.
pub(crate) fn printed(channel: &str, data: &str) -> Unnumbered {
    // Lines end in two characters that are escaped.
    let mut text = String::with_capacity(data.len() + data.len() / 16 + channel.len() + 256);
    text.push_str(ACTION_HEAD);
    text.push_str(r#"{"channel":""#);
    escape(channel, &mut text);
    text.push_str(r#"","action":{"type":"terminal/data","data":""#);
    escape(data, &mut text);
    text.push_str(r#""}"#);
    Unnumbered::new(text, "}}")
}

/// Adds a text to a JSON string. Most of it needs no change and is looked at many bytes at a time.
pub(crate) fn escape(text: &str, out: &mut String) {
    const AT_ONCE: usize = 32;
    let special = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    let bytes = text.as_bytes();
    // Up to `done` it is in `out`; up to `seen` it needs no change.
    let (mut done, mut seen) = (0, 0);
    while seen < bytes.len() {
        let chunk = &bytes[seen..bytes.len().min(seen + AT_ONCE)];
        // No early end: so the compiler compares all of them in a few steps.
        if !chunk.iter().fold(false, |found, byte| found | special(*byte)) {
            seen += chunk.len();
            continue;
        }
        for byte in chunk {
            if special(*byte) {
                // What is escaped is a character of its own, so these are boundaries.
                out.push_str(&text[done..seen]);
                done = seen + 1;
                match byte {
                    b'"' => out.push_str("\\\""),
                    b'\\' => out.push_str("\\\\"),
                    b'\n' => out.push_str("\\n"),
                    b'\r' => out.push_str("\\r"),
                    b'\t' => out.push_str("\\t"),
                    0x08 => out.push_str("\\b"),
                    0x0c => out.push_str("\\f"),
                    other => {
                        out.push_str("\\u00");
                        out.push(char::from_digit(u32::from(other >> 4), 16).unwrap_or('0'));
                        out.push(char::from_digit(u32::from(other & 15), 16).unwrap_or('0'));
                    }
                }
            }
            seen += 1;
        }
    }
    out.push_str(&text[done..]);
}

/// The envelope inside an action's frame, as replays list it.
pub(crate) fn envelope_of(frame: &Frame) -> &str {
    frame
        .as_str()
        .strip_prefix(ACTION_HEAD)
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or("null")
}

/// The frame of a notification.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> Frame {
    Frame::from(format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{}}}"#,
        to_json(params)
    ))
}

/// JSON of the protocol's own types, which have no keys that are not strings and no failing serialisers.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::error!("a protocol type did not serialise: {error}");
        "null".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use ahp_types::{StateAction, actions::TerminalDataAction};

    use super::*;

    #[test]
    fn what_a_terminal_printed_is_spelt_as_any_other_action() {
        let control: String = (0..0x20_u8).map(char::from).collect();
        let long = "0123456789".repeat(20);
        for data in [
            "",
            "plain",
            "\"\\",
            &control,
            "\u{7f}\u{80}\u{fc}\u{1f980}\u{2028}",
            &long,
            &format!("{long}\r\n{long}\u{1b}[31m\u{1f980}\t{long}\n"),
        ] {
            for channel in ["ahp-terminal:/a", "ahp-terminal:/\"\n"] {
                let action = StateAction::TerminalData(TerminalDataAction { data: data.to_owned() });
                let envelope = Envelope {
                    channel: Some(channel),
                    action: &action,
                    origin: None,
                    rejection_reason: None,
                };
                let frame = envelope.spell().frame(17);
                assert_eq!(printed(channel, data).frame(17), frame, "{data:?}");
            }
        }
    }
}
