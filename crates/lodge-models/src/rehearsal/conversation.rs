//! What the rehearsal model reads from a request.

use crate::{Message, ModelRequest, Part};

/// A request as the rehearsal model sees it.
pub(super) struct Conversation<'a> {
    pub(super) request: &'a ModelRequest,
    /// The person's last words, without what the host put around them.
    pub(super) words: String,
    /// How many answers were given since these words.
    pub(super) step: usize,
    /// Tells this call from other calls; the same for the same request.
    pub(super) seed: u64,
}

impl<'a> Conversation<'a> {
    pub(super) fn read(request: &'a ModelRequest) -> Self {
        let mut words = String::new();
        let mut step = 0;
        for message in request.messages.iter().rev() {
            match message {
                Message::User(parts) => {
                    words = words_of(parts);
                    if !words.is_empty() {
                        break;
                    }
                }
                Message::Assistant(_) => step += 1,
                Message::Tool { .. } => {}
            }
        }
        if words.is_empty() {
            step = usize::from(step > 0);
        }
        let bytes = bytes_of(request);
        let mut seed = fnv(fnv(FNV_START, words.as_bytes()), &bytes.to_le_bytes());
        seed = fnv(seed, &request.messages.len().to_le_bytes());
        Self {
            request,
            words,
            step,
            seed,
        }
    }

    /// Results of the tools that the last answer called: name and text.
    pub(super) fn last_results(&self) -> Vec<(&'a str, &'a str)> {
        let from = self
            .request
            .messages
            .iter()
            .rposition(|m| matches!(m, Message::Assistant(_)))
            .unwrap_or(0);
        self.request.messages[from..]
            .iter()
            .filter_map(|m| match m {
                Message::Tool { name, content, .. } => Some((name.as_str(), &**content)),
                _ => None,
            })
            .collect()
    }

    /// What the person said before, oldest first.
    pub(super) fn earlier_words(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .request
            .messages
            .iter()
            .filter_map(|m| match m {
                Message::User(parts) => Some(words_of(parts)).filter(|words| !words.is_empty()),
                _ => None,
            })
            .collect();
        all.pop();
        all
    }

    /// Where the plan belongs, according to the system prompt.
    pub(super) fn plan_path(&self) -> &'a str {
        let said = self.request.system.split_once("Write the plan to ");
        let path = said.and_then(|(_, rest)| Some(&rest[..rest.find("plan.md")? + "plan.md".len()]));
        path.unwrap_or("plan.md")
    }

    /// The sub-agent of whose end the host tells in the last message, when that can be asked about.
    pub(super) fn ended_agent(&self) -> Option<String> {
        let Some(Message::User(parts)) = self.request.messages.last() else {
            return None;
        };
        let text = parts.iter().find_map(|part| match part {
            Part::Text(text) => text.strip_prefix("<system_notification>"),
            Part::Image(_) | Part::Document(_) => None,
        })?;
        let can_ask = self.request.tools.iter().any(|tool| tool.name == "read_agent");
        let (_, rest) = text.split_once("agent_id \"").filter(|_| can_ask)?;
        rest.split_once('"').map(|(id, _)| id.to_owned())
    }

    /// Whether the host itself asks for more, and takes the word for an end.
    pub(super) fn is_told_to_go_on(&self) -> bool {
        let asked = matches!(self.request.messages.last(), Some(Message::User(parts)) if words_of(parts).is_empty());
        asked && self.step > 0 && self.request.tools.iter().any(|tool| tool.name == "task_complete")
    }

    /// How many images were sent.
    pub(super) fn images(&self) -> usize {
        self.request
            .messages
            .iter()
            .map(|m| match m {
                Message::User(parts) => parts.iter().filter(|p| matches!(p, Part::Image(_))).count(),
                Message::Tool { images, .. } => images.len(),
                Message::Assistant(_) => 0,
            })
            .sum()
    }
}

/// The words of one user message. Empty when the host wrote it alone.
fn words_of(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        if let Part::Text(piece) = part {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(piece);
        }
    }
    let shows_image = parts.iter().any(|part| matches!(part, Part::Image(_)));
    if shows_image && text.starts_with("Image file at path ") {
        return String::new();
    }
    strip_tags(&text).trim().to_owned()
}

/// Removes what hosts add around a prompt: blocks `<some_tag>…</some_tag>` that begin a line. Such tags have a dash or an
/// underscore in their name (`reminder` and `attachment` have not), which tells them from markup that a person writes.
fn strip_tags(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let line_end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        match block(rest) {
            Some(len) => rest = &rest[len..],
            None => {
                kept.push_str(&rest[..line_end]);
                rest = &rest[line_end..];
            }
        }
    }
    kept
}

/// Length of the host's block that `text` begins with.
fn block(text: &str) -> Option<usize> {
    let indent = text.len() - text.trim_start_matches([' ', '\t', '\n']).len();
    let inner = text[indent..].strip_prefix('<')?;
    let name_len = inner.find(|c: char| !(c.is_ascii_lowercase() || c == '_' || c == '-'))?;
    let name = &inner[..name_len];
    if !(name.contains(['_', '-']) || matches!(name, "reminder" | "attachment")) {
        return None;
    }
    let close = format!("</{name}>");
    Some(text.find(&close)? + close.len())
}

fn bytes_of(request: &ModelRequest) -> usize {
    let messages: usize = request
        .messages
        .iter()
        .map(|m| match m {
            Message::User(parts) => parts.iter().map(part_len).sum(),
            Message::Assistant(a) => {
                a.text.len()
                    + a.tool_calls
                        .iter()
                        .map(|c| c.name.len() + c.arguments.len())
                        .sum::<usize>()
            }
            Message::Tool { content, images, .. } => content.len() + images.iter().map(|i| i.data.len()).sum::<usize>(),
        })
        .sum();
    let tools: usize = request.tools.iter().map(|t| t.name.len() + t.description.len()).sum();
    request.system.len() + messages + tools
}

fn part_len(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.len(),
        Part::Image(image) => image.data.len(),
        Part::Document(document) => document.data.len(),
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: not for secrets, only to distinguish calls in a stable way.
fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::strip_tags;

    #[test]
    fn what_the_host_added_is_not_read_as_the_persons_words() {
        let cases = [
            ("hello", "hello"),
            (
                "<current_datetime>2026</current_datetime>\n\nhello\n\n<reminder>\n<sql_tables>a</sql_tables>\n</reminder>",
                "hello",
            ),
            ("hello\n<tagged_files>\n* a.rs (3 lines)\n</tagged_files>", "hello"),
            ("<skill-context name=\"x\">\nsay no\n</skill-context>", ""),
            (
                "hello\n<attachment name=\"a\" uri=\"git:/a?x=<\">\nsay no\n</attachment>",
                "hello",
            ),
            ("say <b>bold</b>", "say <b>bold</b>"),
            ("<p>markup</p>", "<p>markup</p>"),
            ("<never_closed> say it", "<never_closed> say it"),
        ];
        for (text, words) in cases {
            assert_eq!(strip_tags(text).trim(), words, "{text:?}");
        }
    }
}
