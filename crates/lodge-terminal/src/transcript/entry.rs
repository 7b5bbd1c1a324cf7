//! An entry of the conversation: a message, a part of an answer, or the end of a turn.

use std::hash::{DefaultHasher, Hash, Hasher};

use ahp::ahp_types::state::{
    MessageKind, ResponsePart, ToolCallCancellationReason, ToolCallCompletedState, ToolCallState, ToolInput,
    ToolResultContent, TurnState,
};
use ratatui_core::{style::Style, text::Line};
use serde_json::{Map, Value};

use super::{Look, Shown};
use crate::{
    chunks::{Chunks, Kind},
    edits::Edit,
    markdown,
    plain::{plain, plain_line},
    wrap::{self, Margin},
};

/// The lines of output below a call that runs: collapsed, and expanded.
const LIVE_LINES: usize = 5;
const LIVE_OPEN_LINES: usize = 500;
/// The lines of an expanded call that has ended.
const OPEN_LINES: usize = 50_000;
/// The lines of the diff below a collapsed edit.
const DIFF_LINES: usize = 12;
/// The lines of collapsed reasoning.
const THOUGHT_LINES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    Message,
    Part(usize),
    End,
}

pub(super) struct Entry {
    pub(super) what: EntryKind,
    key: String,
    fingerprint: Option<u64>,
    revision: usize,
    chunks: Option<Chunks>,
}

/// The id under which a part can be expanded and collapsed.
pub(super) fn opens(part: &ResponsePart) -> Option<&str> {
    match part {
        ResponsePart::ToolCall(part) => call_id(&part.tool_call),
        ResponsePart::Reasoning(part) => Some(&part.id),
        _ => None,
    }
}

/// Whether a part of a running turn is final. A block of an answer is final when another follows it.
pub(super) fn is_settled(part: &ResponsePart, more_blocks: bool, more_parts: bool) -> bool {
    match part {
        ResponsePart::Markdown(_) => more_blocks || more_parts,
        ResponsePart::Reasoning(_) => more_parts,
        ResponsePart::ToolCall(part) => {
            matches!(
                part.tool_call,
                ToolCallState::Completed(_) | ToolCallState::Cancelled(_)
            )
        }
        ResponsePart::InputRequest(part) => part.response.is_some(),
        _ => true,
    }
}

/// Whether a call runs a command.
pub fn is_command(meta: Option<&Map<String, Value>>) -> bool {
    meta.and_then(|meta| meta.get("toolKind"))
        .is_some_and(|kind| kind == "terminal")
}

/// Whether a call succeeded, but its command ended with an exit code other than 0.
pub fn failed_command(call: &ToolCallCompletedState) -> bool {
    let mut contents = call.content.iter().flatten();
    contents.any(|part| match part {
        ToolResultContent::Terminal(terminal) => {
            let code = terminal.result.as_ref().and_then(|result| result.exit_code);
            code.is_some_and(|code| code != 0)
        }
        _ => false,
    })
}

fn call_id(call: &ToolCallState) -> Option<&str> {
    match call {
        ToolCallState::Streaming(call) => Some(&call.tool_call_id),
        ToolCallState::PendingConfirmation(call) => Some(&call.tool_call_id),
        ToolCallState::Running(call) => Some(&call.tool_call_id),
        ToolCallState::AuthRequired(call) => Some(&call.tool_call_id),
        ToolCallState::PendingResultConfirmation(call) => Some(&call.tool_call_id),
        ToolCallState::Completed(call) => Some(&call.tool_call_id),
        ToolCallState::Cancelled(call) => Some(&call.tool_call_id),
        ToolCallState::Unknown(_) => None,
    }
}

/// What a call does, if this part is that call.
pub(crate) fn call_description<'a>(part: &'a ResponsePart, id: &str) -> Option<&'a str> {
    let ResponsePart::ToolCall(part) = part else {
        return None;
    };
    match &part.tool_call {
        ToolCallState::Running(call) if call.tool_call_id == id => Some(call.invocation_message.as_text()),
        ToolCallState::Completed(call) if call.tool_call_id == id => Some(call.invocation_message.as_text()),
        _ => None,
    }
}

fn key(part: &ResponsePart) -> &str {
    match part {
        ResponsePart::Markdown(part) => &part.id,
        ResponsePart::InputRequest(part) => &part.request.id,
        other => opens(other).unwrap_or_default(),
    }
}

/// A number that changes whenever the part does.
fn fingerprint(part: &ResponsePart) -> u64 {
    let mut hasher = DefaultHasher::new();
    match part {
        ResponsePart::Markdown(part) => part.content.len().hash(&mut hasher),
        ResponsePart::Reasoning(part) => part.content.len().hash(&mut hasher),
        ResponsePart::ToolCall(part) => {
            std::mem::discriminant(&part.tool_call).hash(&mut hasher);
            if let ToolCallState::Streaming(call) = &part.tool_call {
                let told = call.invocation_message.as_ref();
                told.map(|text| text.as_text()).hash(&mut hasher);
            }
            let content = match &part.tool_call {
                ToolCallState::Running(call) => call.content.as_deref(),
                ToolCallState::Completed(call) => call.content.as_deref(),
                _ => None,
            };
            for part in content.unwrap_or_default() {
                if let ToolResultContent::Text(part) = part {
                    // The kept part of live output reaches a maximum length, so its end counts, too.
                    let end = part.text.len().saturating_sub(64);
                    (part.text.len(), &part.text.as_bytes()[end..]).hash(&mut hasher);
                }
            }
        }
        ResponsePart::InputRequest(part) => part.response.is_some().hash(&mut hasher),
        _ => {}
    }
    hasher.finish()
}

impl Entry {
    pub(super) fn new(what: EntryKind) -> Self {
        Self {
            what,
            key: String::new(),
            fingerprint: None,
            revision: 0,
            chunks: None,
        }
    }

    pub(super) fn is_for(&self, part: &ResponsePart) -> bool {
        self.key == key(part)
    }

    pub(super) fn follow(&mut self, part: &ResponsePart) {
        let fingerprint = Some(fingerprint(part));
        if self.fingerprint == fingerprint {
            return;
        }
        self.fingerprint = fingerprint;
        self.revision += 1;
        if self.key.is_empty() {
            key(part).clone_into(&mut self.key);
        }
        if let ResponsePart::Markdown(part) = part {
            let shrunk = self
                .chunks
                .as_ref()
                .and_then(|chunks| chunks.all.last())
                .is_some_and(|last| last.end > part.content.len());
            if shrunk {
                self.chunks = None;
            }
            self.chunks.get_or_insert_default().follow(&part.content);
        }
    }

    pub(super) fn blocks(&self) -> usize {
        self.chunks.as_ref().map_or(1, |chunks| chunks.all.len())
    }

    pub(super) fn stamp(&self, block: usize, open: bool, live: bool) -> (usize, usize) {
        match self.chunks.as_ref().and_then(|chunks| chunks.all.get(block)) {
            Some(chunk) => (chunk.start, chunk.end),
            None => (self.revision, usize::from(open) + 2 * usize::from(live)),
        }
    }

    /// The Markdown of a block of an answer.
    pub(super) fn source<'a>(&self, turn: Shown<'a>, block: usize) -> Option<&'a str> {
        let chunk = self.chunks.as_ref()?.all.get(block)?;
        match (self.what, turn.parts) {
            (EntryKind::Part(index), parts) => match parts.get(index)? {
                ResponsePart::Markdown(part) => part.content.get(chunk.start..chunk.end),
                _ => None,
            },
            _ => None,
        }
    }

    /// The rows of a block, with an empty one in front where a gap belongs.
    pub(super) fn rows(
        &self,
        turn: Shown,
        above: Option<&Self>,
        block: usize,
        open: bool,
        look: Look,
    ) -> Vec<Line<'static>> {
        match self.what {
            EntryKind::Message => message(turn, look),
            EntryKind::Part(index) => match turn.parts.get(index) {
                None => Vec::new(),
                Some(ResponsePart::Markdown(part)) => self.chunk(&part.content, block, look),
                Some(ResponsePart::Reasoning(part)) => thought(&part.content, open, turn.is_live(self.what), look),
                Some(ResponsePart::ToolCall(part)) => {
                    let after_call = above.is_some_and(|above| {
                        matches!(above.what, EntryKind::Part(index) if matches!(turn.parts.get(index), Some(ResponsePart::ToolCall(_))))
                    });
                    let typed = turn.message.text.starts_with('!');
                    let mut rows = call(&part.tool_call, open || typed, look);
                    if !after_call || rows.len() > 1 {
                        rows.insert(0, Line::default());
                    }
                    rows
                }
                Some(part) => notice(part, look),
            },
            EntryKind::End => end(turn, look),
        }
    }

    fn chunk(&self, content: &str, block: usize, look: Look) -> Vec<Line<'static>> {
        let Some(chunk) = self.chunks.as_ref().and_then(|chunks| chunks.all.get(block)) else {
            return Vec::new();
        };
        let text = content.get(chunk.start..chunk.end).unwrap_or_default();
        let mut rows = match chunk.kind {
            Kind::Prose => markdown::prose(text, look.width, look.theme),
            Kind::Code { colouring, open } => markdown::code(text, colouring, open, look.width, look.theme),
        };
        if !chunk.continues && !rows.is_empty() {
            rows.insert(0, Line::default());
        }
        rows
    }
}

fn marked(mark: &str, style: Style, text: &str, text_style: Style, look: Look) -> Vec<Line<'static>> {
    let margin = Margin {
        first: vec![(format!("{mark} "), style)],
        rest: vec![("  ".to_owned(), style)],
    };
    let text = plain(text);
    text.lines()
        .enumerate()
        .flat_map(|(number, line)| {
            let margin = match number {
                0 => margin.clone(),
                _ => Margin::both(margin.rest.clone()),
            };
            wrap::words(&vec![(line.to_owned(), text_style)], look.width, &margin)
        })
        .collect()
}

fn message(turn: Shown, look: Look) -> Vec<Line<'static>> {
    let theme = look.theme;
    let text = turn.message.text.as_str();
    let mut rows = vec![Line::default()];
    if turn.message.origin.kind != MessageKind::User {
        if !text.is_empty() {
            rows.extend(marked("·", theme.dim, text, theme.dim, look));
        }
        return rows;
    }
    let mut said = marked("›", theme.accent, text, theme.strong, look);
    for row in &mut said {
        let blank = look.width.saturating_sub(row.width());
        row.push_span(" ".repeat(blank));
        row.style = theme.user;
    }
    rows.extend(said);
    for attachment in turn.message.attachments.iter().flatten() {
        if let Some(label) = attachment_label(attachment) {
            let text = wrap::fit(&format!("  + {}", plain_line(label)), look.width);
            rows.push(Line::styled(text, theme.dim));
        }
    }
    rows
}

pub(crate) fn attachment_label(attachment: &ahp::ahp_types::state::MessageAttachment) -> Option<&str> {
    use ahp::ahp_types::state::MessageAttachment;
    match attachment {
        MessageAttachment::Simple(part) => Some(&part.label),
        MessageAttachment::EmbeddedResource(part) => Some(&part.label),
        MessageAttachment::Resource(part) => Some(&part.label),
        _ => None,
    }
}

fn thought(content: &str, open: bool, live: bool, look: Look) -> Vec<Line<'static>> {
    let content = content.trim();
    if content.is_empty() {
        return Vec::new();
    }
    let style = look.theme.comment;
    let mut rows = vec![Line::default()];
    if open {
        rows.extend(marked("∴", look.theme.dim, content, style, look));
        return rows;
    }
    let lines: Vec<&str> = content.lines().filter(|line| !line.trim().is_empty()).collect();
    // While the model reasons, the last lines are shown; afterwards, the first.
    let shown = match live {
        true => &lines[lines.len().saturating_sub(THOUGHT_LINES)..],
        false => &lines[..lines.len().min(1)],
    };
    for (number, line) in shown.iter().enumerate() {
        let mark = if number == 0 { "∴ " } else { "  " };
        let more = if !live && lines.len() > 1 { " …" } else { "" };
        let text = wrap::fit(&format!("{mark}{}{more}", plain_line(line)), look.width);
        rows.push(Line::styled(text, style));
    }
    rows
}

/// The data of a call in any state.
struct Call<'a> {
    mark: &'static str,
    style: Style,
    what: String,
    input: Option<&'a str>,
    content: &'a [ToolResultContent],
    note: Option<String>,
    running: bool,
    failed: bool,
    /// Whether it ran a command, whose output people see, too.
    command: bool,
}

fn inline(input: Option<&ToolInput>) -> Option<&str> {
    match input {
        Some(ToolInput::Inline(input)) => Some(input),
        _ => None,
    }
}

fn read_call<'a>(call: &'a ToolCallState, look: Look) -> Option<Call<'a>> {
    let theme = look.theme;
    let base = |mark, style, what: String| Call {
        mark,
        style,
        what,
        input: None,
        content: &[],
        note: None,
        running: false,
        failed: false,
        command: false,
    };
    Some(match call {
        ToolCallState::Streaming(call) => {
            let what = call
                .invocation_message
                .as_ref()
                .map_or(call.display_name.as_str(), |text| text.as_text());
            base("◌", theme.dim, what.to_owned())
        }
        ToolCallState::PendingConfirmation(call) => Call {
            note: Some("needs your approval".to_owned()),
            ..base("?", theme.warning, call.invocation_message.as_text().to_owned())
        },
        ToolCallState::AuthRequired(call) => Call {
            note: Some("sign-in required: run `lodge mcp login`".to_owned()),
            ..base("?", theme.warning, call.invocation_message.as_text().to_owned())
        },
        ToolCallState::PendingResultConfirmation(call) => Call {
            note: Some("needs your approval".to_owned()),
            ..base("?", theme.warning, call.invocation_message.as_text().to_owned())
        },
        ToolCallState::Running(call) => Call {
            input: inline(call.tool_input.as_ref()),
            content: call.content.as_deref().unwrap_or_default(),
            running: true,
            ..base("●", theme.accent, call.invocation_message.as_text().to_owned())
        },
        ToolCallState::Completed(call) => {
            let of_error = |key: &str| call.error.as_ref()?.get(key)?.as_str();
            let error = match of_error("code") {
                Some("interrupted") => Some("stopped"),
                _ => of_error("message"),
            };
            Call {
                input: inline(call.tool_input.as_ref()),
                content: call.content.as_deref().unwrap_or_default(),
                note: error.filter(|_| !call.success).map(str::to_owned),
                failed: !call.success,
                command: is_command(call.meta.as_ref()),
                ..match (call.success, failed_command(call)) {
                    (true, false) => base("✓", theme.good, call.past_tense_message.as_text().to_owned()),
                    (true, true) => base("✗", theme.error, call.past_tense_message.as_text().to_owned()),
                    (false, _) => base("✗", theme.error, call.past_tense_message.as_text().to_owned()),
                }
            }
        }
        ToolCallState::Cancelled(call) => {
            let word = match call.reason {
                ToolCallCancellationReason::Denied => "denied",
                ToolCallCancellationReason::Skipped => "stopped",
                ToolCallCancellationReason::ResultDenied => "the result was not used",
            };
            let why = call.reason_message.as_ref().map(|why| format!(": {}", why.as_text()));
            Call {
                note: Some(format!("{word}{}", why.unwrap_or_default())),
                failed: true,
                ..base("✗", theme.error, imperative(call.invocation_message.as_text()))
            }
        }
        ToolCallState::Unknown(_) => return None,
    })
}

/// What a call was to do, which it neither does nor did: `Running …` becomes `Run …`.
fn imperative(told: &str) -> String {
    const WORDS: [(&str, &str); 10] = [
        ("Asking", "Ask"),
        ("Presenting", "Present"),
        ("Running", "Run"),
        ("Reading", "Read"),
        ("Searching", "Search"),
        ("Delegating", "Delegate"),
        ("Editing", "Edit"),
        ("Creating", "Create"),
        ("Fetching", "Fetch"),
        ("Using", "Use"),
    ];
    let (first, rest) = told.split_once(' ').unwrap_or((told, ""));
    match WORDS.iter().find(|(present, _)| *present == first) {
        Some((_, plain)) => format!("{plain} {rest}"),
        None => told.to_owned(),
    }
}

fn call(state: &ToolCallState, open: bool, look: Look) -> Vec<Line<'static>> {
    let Some(call) = read_call(state, look) else {
        return Vec::new();
    };
    let theme = look.theme;
    let edit = call.input.and_then(Edit::read).filter(|_| !call.failed);
    let lines: Vec<String> = call
        .content
        .iter()
        .filter_map(|part| match part {
            ToolResultContent::Text(part) => Some(plain(part.text.trim_end())),
            ToolResultContent::Subagent(part) => Some(plain(&part.title)),
            _ => None,
        })
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let hint = match (&edit, lines.len()) {
        (Some(edit), _) => {
            let (added, removed) = edit.counts();
            format!("  +{added} −{removed}")
        }
        (None, 0) => String::new(),
        (None, 1) if !open && !call.running => "  1 line".to_owned(),
        (None, many) if !open && !call.running => format!("  {many} lines"),
        _ => String::new(),
    };
    let room = look.width.saturating_sub(2 + hint.chars().count());
    let mut header = Line::default();
    header.push_span(ratatui_core::text::Span::styled(format!("{} ", call.mark), call.style));
    header.push_span(ratatui_core::text::Span::styled(
        wrap::fit(&plain_line(&call.what), room),
        theme.text,
    ));
    header.push_span(ratatui_core::text::Span::styled(hint, theme.dim));
    let mut rows = vec![header];
    let margin = Margin::spaces(4);
    if let Some(note) = &call.note {
        let style = if call.failed { theme.error } else { theme.dim };
        for line in plain(note).lines().take(if open { OPEN_LINES } else { 3 }) {
            rows.extend(wrap::words(&vec![(line.to_owned(), style)], look.width, &margin));
        }
    }
    if let Some(edit) = edit {
        rows.extend(edit.rows(look.width, if open { OPEN_LINES } else { DIFF_LINES }, theme));
        return rows;
    }
    let most = match (open, call.running) {
        (true, true) => LIVE_OPEN_LINES,
        (true, false) => OPEN_LINES,
        (false, true) => LIVE_LINES,
        (false, false) if call.command => look.output,
        (false, false) => 0,
    };
    // Who opens a call reads all of its input first.
    let is_told = |input: &&str| wrap::columns(&plain_line(&call.what)) <= room && call.what.contains(*input);
    if open && let Some(input) = call.input.filter(|input| !is_told(input)) {
        for line in plain(input).lines().take(OPEN_LINES) {
            rows.extend(wrap::hard(&vec![(line.to_owned(), theme.code)], look.width, &margin));
        }
    }
    let skipped = lines.len().saturating_sub(most);
    if skipped > 0 && (open || (most > 0 && !call.running)) {
        rows.push(Line::styled(format!("    … {skipped} earlier lines"), theme.dim));
    }
    for line in lines.iter().skip(skipped) {
        match open {
            true => rows.extend(wrap::hard(&vec![(line.clone(), theme.dim)], look.width, &margin)),
            false => {
                let text = wrap::fit(&format!("    {}", line.replace('\t', "  ")), look.width);
                rows.push(Line::styled(text, theme.dim));
            }
        }
    }
    rows
}

fn notice(part: &ResponsePart, look: Look) -> Vec<Line<'static>> {
    let theme = look.theme;
    let mut rows = vec![Line::default()];
    match part {
        ResponsePart::SystemNotification(part) => {
            rows.extend(marked("·", theme.dim, part.content.as_text(), theme.dim, look));
        }
        ResponsePart::Error(part) => {
            rows.extend(marked("✗", theme.error, &part.error.message, theme.error, look));
        }
        ResponsePart::ContentRef(part) => rows.extend(marked("·", theme.dim, &part.uri, theme.dim, look)),
        ResponsePart::InputRequest(part) => {
            let question = crate::client::form::asked(&part.request);
            rows.extend(marked("?", theme.warning, question, theme.text, look));
            if let Some(response) = &part.response {
                let words = crate::client::ask::answer_words(&part.request, response);
                rows.extend(marked("↳", theme.accent, &words, theme.strong, look));
            }
        }
        _ => return Vec::new(),
    }
    rows
}

fn has_text(part: &ResponsePart) -> bool {
    matches!(part, ResponsePart::Markdown(part) if !part.content.trim().is_empty())
}

fn end(turn: Shown, look: Look) -> Vec<Line<'static>> {
    let text = match turn.end {
        Some((TurnState::Cancelled, ..)) if turn.parts.iter().any(has_text) => "Stopped. The text so far is kept.",
        Some((TurnState::Cancelled, ..)) => "Stopped.",
        _ => return Vec::new(),
    };
    vec![Line::default(), Line::styled(format!("· {text}"), look.theme.warning)]
}
