//! Turns in the line client. It prints the difference between a turn and what it has printed of it so far. So it does not
//! matter whether an update was a delta, a replay, or a snapshot after a restart: nothing is shown twice or left out.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Write},
};

use ahp::ahp_types::state::{
    ActiveTurn, ChatState, Message, MessageKind, ResponsePart, ToolCallCancellationReason, ToolCallState,
    ToolResultContent, Turn, TurnState,
};

use super::screen::Screen;
use lodge_terminal::{client::ask::answer_words, failed_command, is_command, shorten};

/// How much of each old turn is shown when a session is opened.
const OLD_MESSAGE: usize = 400;
const OLD_ANSWER_LINES: usize = 12;
/// Output lines shown of a command: of the agent's, and of a person's.
const OUTPUT_LINES: usize = 5;
const COMMAND_LINES: usize = 500;

/// How much of a tool call was shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Begun,
    Ended,
}

/// How much of a turn was shown.
#[derive(Default)]
struct Shown {
    /// Bytes shown of each text.
    texts: HashMap<String, usize>,
    calls: HashMap<String, Call>,
    /// Texts of the notices and answers that were shown.
    notices: HashSet<String>,
    /// The end of the answer was lost.
    cut: bool,
    over: bool,
}

/// A turn, running or over.
struct View<'a> {
    id: &'a str,
    message: &'a Message,
    parts: &'a [ResponsePart],
    end: Option<TurnState>,
}

impl<'a> From<&'a Turn> for View<'a> {
    fn from(turn: &'a Turn) -> Self {
        Self {
            id: &turn.id,
            message: &turn.message,
            parts: &turn.response_parts,
            end: Some(turn.state),
        }
    }
}

impl<'a> From<&'a ActiveTurn> for View<'a> {
    fn from(turn: &'a ActiveTurn) -> Self {
        Self {
            id: &turn.id,
            message: &turn.message,
            parts: &turn.response_parts,
            end: None,
        }
    }
}

/// What was shown of a chat.
#[derive(Default)]
pub(super) struct Show {
    turns: HashMap<String, Shown>,
    /// Messages and answers that are on this screen because they were typed here.
    typed: HashSet<String>,
    /// How the last turn ended, or that a message was refused.
    pub(super) last: Option<TurnState>,
    /// The agent's last activity, without numbers.
    activity: String,
}

impl Show {
    /// Records that this message, or the answer to this question, was typed at this screen.
    pub(super) fn typed(&mut self, id: &str) {
        self.typed.insert(id.to_owned());
    }

    /// Shows the agent's current activity. A change of numbers only, as in a countdown, is not shown again.
    pub(super) fn activity<W: Write>(&mut self, screen: &mut Screen<W>, activity: Option<&str>) -> io::Result<()> {
        let activity = activity.unwrap_or_default();
        let words: String = activity.chars().filter(|char| !char.is_ascii_digit()).collect();
        if words == self.activity {
            return Ok(());
        }
        self.activity = words;
        match activity {
            "" => Ok(()),
            activity => screen.note("·", activity),
        }
    }

    /// Marks a message as queued: it is shown when its turn begins. True if it was already shown.
    pub(super) fn waits(&mut self, id: &str) -> bool {
        let typed = self.typed.remove(id);
        self.turns.remove(id).is_some() || typed
    }

    /// Shows a chat that was just opened: its last turns in short, and the running one in full.
    pub(super) fn open<W: Write>(&mut self, screen: &mut Screen<W>, chat: &ChatState, last: usize) -> io::Result<()> {
        let skipped = chat.turns.len().saturating_sub(last);
        if last > 0 && (skipped > 0 || chat.turns_next_cursor.is_some()) {
            screen.note("·", "(earlier turns are not shown)")?;
        }
        for turn in &chat.turns {
            self.pass(&turn.id);
        }
        for turn in &chat.turns[skipped..] {
            in_short(screen, turn)?;
        }
        self.running(screen, chat)
    }

    fn pass(&mut self, id: &str) {
        self.turns.entry(id.to_owned()).or_default().over = true;
    }

    /// Notes turns that were loaded from before: they are not shown.
    pub(super) fn loaded(&mut self, chat: &ChatState, turns: &[Turn]) {
        for turn in chat
            .turns
            .iter()
            .filter(|turn| turns.iter().any(|new| new.id == turn.id))
        {
            self.pass(&turn.id);
        }
    }

    /// Shows the new parts of the running turn.
    pub(super) fn running<W: Write>(&mut self, screen: &mut Screen<W>, chat: &ChatState) -> io::Result<()> {
        match &chat.active_turn {
            Some(turn) => self.turn(screen, &turn.into()),
            None => Ok(()),
        }
    }

    /// Shows all new parts: of the turns after the last finished one, and of the running one.
    pub(super) fn all<W: Write>(&mut self, screen: &mut Screen<W>, chat: &ChatState) -> io::Result<()> {
        let first = self.first_new(chat);
        for turn in &chat.turns[first..] {
            self.turn(screen, &turn.into())?;
        }
        self.running(screen, chat)
    }

    fn first_new(&self, chat: &ChatState) -> usize {
        let over = |turn: &Turn| self.turns.get(&turn.id).is_some_and(|shown| shown.over);
        if let Some(at) = chat.turns.iter().rposition(over) {
            return at + 1;
        }
        match chat.turns.iter().position(|turn| self.turns.contains_key(&turn.id)) {
            Some(at) => at,
            None if self.turns.is_empty() => 0,
            // The conversation was rewound to before anything that was shown.
            None => chat.turns.len(),
        }
    }

    /// Continues with a new state after a restart. In the turn that was running, reasoning may have a new id, and the
    /// end of an incomplete answer may be lost.
    pub(super) fn replaced(&mut self, old: &ChatState, new: &ChatState) {
        let Some(was) = &old.active_turn else { return };
        let Some(shown) = self.turns.get_mut(&was.id) else {
            return;
        };
        let over = new.turns.iter().map(View::from);
        let running = new.active_turn.iter().map(View::from);
        let Some(now) = over.chain(running).find(|turn| turn.id == was.id) else {
            return;
        };
        let mut before: Vec<_> = was.response_parts.iter().filter_map(thought).collect();
        for (id, content) in now.parts.iter().filter_map(thought) {
            if shown.texts.contains_key(id) {
                continue;
            }
            if let Some(at) = before.iter().position(|(_, old)| content.starts_with(old)) {
                let (_, old) = before.remove(at);
                shown.texts.insert(id.to_owned(), old.len());
            }
        }
        let answered = |id: &str| now.parts.iter().filter_map(answer).any(|(new, _)| new == id);
        let kept = was.response_parts.iter().filter_map(answer).all(|(id, _)| answered(id));
        shown.cut =
            now.end == Some(TurnState::Complete) && !(kept && now.parts.iter().any(|part| answer(part).is_some()));
    }

    /// A turn that was over goes on: what it had said by then stays shown.
    pub(super) fn resumed(&mut self, chat: &ChatState) -> io::Result<()> {
        let Some(turn) = &chat.active_turn else { return Ok(()) };
        let mut shown = Shown::default();
        let mut unseen = Screen::over(io::sink());
        for part in &turn.response_parts {
            shown.part(&mut unseen, part, &self.typed, 0)?;
        }
        self.turns.insert(turn.id.clone(), shown);
        Ok(())
    }

    fn turn<W: Write>(&mut self, screen: &mut Screen<W>, turn: &View<'_>) -> io::Result<()> {
        if !self.turns.contains_key(turn.id) {
            self.turns.insert(turn.id.to_owned(), Shown::default());
            if !self.typed.contains(turn.id) {
                message(screen, turn.message)?;
            }
        }
        let Some(shown) = self.turns.get_mut(turn.id).filter(|shown| !shown.over) else {
            return Ok(());
        };
        let lines = match turn.message.text.starts_with('!') {
            true => COMMAND_LINES,
            false => OUTPUT_LINES,
        };
        for part in turn.parts {
            shown.part(screen, part, &self.typed, lines)?;
        }
        let Some(end) = turn.end else { return Ok(()) };
        let cut = shown.cut;
        // The turn is over, so the record of what was shown is not needed any more.
        *shown = Shown {
            over: true,
            ..Shown::default()
        };
        self.last = Some(end);
        screen.end_line()?;
        match end {
            TurnState::Cancelled => screen.note("·", "Cancelled."),
            TurnState::Complete if cut => screen.note("·", "The host was stopped before the answer was complete."),
            TurnState::Complete | TurnState::Error => Ok(()),
        }
    }
}

fn thought(part: &ResponsePart) -> Option<(&str, &str)> {
    match part {
        ResponsePart::Reasoning(part) => Some((&part.id, &part.content)),
        _ => None,
    }
}

fn answer(part: &ResponsePart) -> Option<(&str, &str)> {
    match part {
        ResponsePart::Markdown(part) => Some((&part.id, &part.content)),
        _ => None,
    }
}

impl Shown {
    fn part<W: Write>(
        &mut self,
        screen: &mut Screen<W>,
        part: &ResponsePart,
        typed: &HashSet<String>,
        lines: usize,
    ) -> io::Result<()> {
        match part {
            ResponsePart::Markdown(part) => match self.rest(&part.id, &part.content) {
                Some((true, rest)) => {
                    screen.end_line()?;
                    screen.answer(rest)
                }
                Some((false, rest)) => screen.answer(rest),
                None => Ok(()),
            },
            ResponsePart::Reasoning(part) => match self.rest(&part.id, &part.content) {
                Some((true, rest)) => {
                    screen.end_line()?;
                    screen.thought(rest)
                }
                Some((false, rest)) => screen.thought(rest),
                None => Ok(()),
            },
            ResponsePart::ToolCall(part) => self.call(screen, &part.tool_call, lines),
            ResponsePart::InputRequest(part) => match &part.response {
                Some(response) if !typed.contains(&part.request.id) => {
                    let words = answer_words(&part.request, response);
                    self.once(screen, "↳", &part.request.id, &words)
                }
                _ => Ok(()),
            },
            ResponsePart::SystemNotification(part) => {
                let text = part.content.as_text();
                self.once(screen, "·", text, text)
            }
            ResponsePart::Error(part) => {
                let text = format!("{} ({})", part.error.message, part.error.error_type);
                self.once(screen, "✗", &text, &text)
            }
            ResponsePart::ContentRef(part) => self.once(screen, "·", &part.uri, &part.uri),
            ResponsePart::Unknown(_) => Ok(()),
        }
    }

    /// The part of a text that was not shown yet, and whether it is the beginning.
    fn rest<'a>(&mut self, id: &str, content: &'a str) -> Option<(bool, &'a str)> {
        let shown = self.texts.get(id).copied();
        let rest = content.get(shown.unwrap_or(0)..).filter(|rest| !rest.is_empty())?;
        self.texts.insert(id.to_owned(), content.len());
        Some((shown.is_none(), rest))
    }

    fn once<W: Write>(&mut self, screen: &mut Screen<W>, mark: &str, key: &str, text: &str) -> io::Result<()> {
        if self.notices.insert(format!("{mark}{key}")) {
            match mark {
                "✗" => screen.error(text)?,
                mark => screen.note(mark, text)?,
            }
        }
        Ok(())
    }

    /// Shows the new parts of a call, and some lines of a command's output.
    fn call<W: Write>(&mut self, screen: &mut Screen<W>, call: &ToolCallState, lines: usize) -> io::Result<()> {
        let (id, what, ended) = match call {
            ToolCallState::Running(call) => (&call.tool_call_id, &call.invocation_message, false),
            ToolCallState::AuthRequired(call) => (&call.tool_call_id, &call.invocation_message, false),
            ToolCallState::PendingResultConfirmation(call) => (&call.tool_call_id, &call.invocation_message, false),
            ToolCallState::Completed(call) => (&call.tool_call_id, &call.invocation_message, true),
            ToolCallState::Cancelled(call) => (&call.tool_call_id, &call.invocation_message, true),
            // Questions are shown by the code that handles them.
            ToolCallState::Streaming(_) | ToolCallState::PendingConfirmation(_) | ToolCallState::Unknown(_) => {
                return Ok(());
            }
        };
        let before = self.calls.get(id).copied();
        if before == Some(Call::Ended) || (before == Some(Call::Begun) && !ended) {
            return Ok(());
        }
        self.calls
            .insert(id.clone(), if ended { Call::Ended } else { Call::Begun });
        let denied =
            matches!(call, ToolCallState::Cancelled(call) if call.reason == ToolCallCancellationReason::Denied);
        if before.is_none() && !denied {
            screen.note("→", what.as_text())?;
        }
        if let ToolCallState::Completed(call) = call
            && is_command(call.meta.as_ref())
            && (call.success || lines == COMMAND_LINES)
        {
            output(screen, call.content.as_deref().unwrap_or_default(), lines)?;
        }
        match call {
            ToolCallState::Completed(call) if !call.success => {
                let text = call.error.as_ref().and_then(|error| error.get("message")?.as_str());
                let text = text.unwrap_or_else(|| call.past_tense_message.as_text());
                screen.error(shorten(text, 600).as_str())
            }
            ToolCallState::Completed(call) if failed_command(call) => screen.error(call.past_tense_message.as_text()),
            ToolCallState::Cancelled(call) => {
                let why = call
                    .reason_message
                    .as_ref()
                    .map(|reason| format!(": {}", reason.as_text()));
                let word = match call.reason {
                    ToolCallCancellationReason::Denied => format!("Denied: {}", call.invocation_message.as_text()),
                    ToolCallCancellationReason::Skipped => "Stopped".to_owned(),
                    ToolCallCancellationReason::ResultDenied => "The result was not used".to_owned(),
                };
                screen.error(&format!("{word}{}", why.unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }
}

/// Shows the last lines of a command's output.
fn output<W: Write>(screen: &mut Screen<W>, content: &[ToolResultContent], most: usize) -> io::Result<()> {
    for part in content {
        let ToolResultContent::Text(part) = part else { continue };
        let (own, width) = (most == COMMAND_LINES, if most == COMMAND_LINES { 2000 } else { 160 });
        let lines: Vec<&str> = part
            .text
            .lines()
            .filter(|line| own || !line.trim().is_empty())
            .collect();
        let skipped = lines.len().saturating_sub(most);
        if skipped > 0 {
            screen.note(" ", &format!("… {skipped} more lines"))?;
        }
        for line in &lines[skipped..] {
            let line = if line.is_empty() { " " } else { line };
            screen.note(" ", &shorten(line, width))?;
        }
    }
    Ok(())
}

fn message<W: Write>(screen: &mut Screen<W>, message: &Message) -> io::Result<()> {
    match message.origin.kind {
        MessageKind::User => screen.said(&message.text),
        _ if message.text.is_empty() => Ok(()),
        _ => screen.note("·", &message.text),
    }
}

/// Shows a turn that was over before this client connected.
fn in_short<W: Write>(screen: &mut Screen<W>, turn: &Turn) -> io::Result<()> {
    let short = Message {
        text: shorten(&turn.message.text, OLD_MESSAGE),
        ..turn.message.clone()
    };
    message(screen, &short)?;
    let calls = turn
        .response_parts
        .iter()
        .filter(|part| matches!(part, ResponsePart::ToolCall(_)));
    match calls.count() {
        0 => {}
        1 => screen.note("→", "1 tool call")?,
        many => screen.note("→", &format!("{many} tool calls"))?,
    }
    let answer = turn.response_parts.iter().rev().find_map(|part| match part {
        ResponsePart::Markdown(part) if !part.content.trim().is_empty() => Some(part.content.trim_end()),
        _ => None,
    });
    let lines: Vec<&str> = answer.unwrap_or_default().lines().collect();
    for line in lines.iter().take(OLD_ANSWER_LINES) {
        screen.answer(&format!("{line}\n"))?;
    }
    if let Some(more) = lines.len().checked_sub(OLD_ANSWER_LINES).filter(|more| *more > 0) {
        screen.note(" ", &format!("… {more} more lines"))?;
    }
    for part in &turn.response_parts {
        if let ResponsePart::Error(part) = part {
            screen.error(&part.error.message)?;
        }
    }
    if turn.state == TurnState::Cancelled {
        screen.note("·", "Cancelled.")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn chat(over: Value, running: Value) -> ChatState {
        let mut state = json!({
            "resource": "ahp-chat:/c", "title": "Chat", "status": 1, "modifiedAt": "2026-11-15T10:00:00.000Z",
            "turns": over,
        });
        if !running.is_null() {
            state["activeTurn"] = running;
        }
        serde_json::from_value(state).unwrap()
    }

    fn turn(id: &str, parts: Value, state: &str) -> Value {
        let message = json!({ "text": format!("do {id}"), "origin": { "kind": "user" } });
        let started = "2026-11-15T10:00:00.000Z";
        match state {
            "" => json!({ "id": id, "startedAt": started, "message": message, "responseParts": parts }),
            state => {
                json!({ "id": id, "startedAt": started, "message": message, "responseParts": parts, "state": state })
            }
        }
    }

    fn text(id: &str, content: &str) -> Value {
        json!({ "kind": "markdown", "id": id, "content": content })
    }

    fn thought(id: &str, content: &str) -> Value {
        json!({ "kind": "reasoning", "id": id, "content": content })
    }

    fn shown(chats: &[ChatState], restart_before: usize) -> String {
        let mut show = Show::default();
        let mut screen = Screen::over(Vec::new());
        for (at, chat) in chats.iter().enumerate() {
            if at == restart_before {
                show.replaced(&chats[at - 1], chat);
            }
            show.all(&mut screen, chat).unwrap();
        }
        screen.end_line().unwrap();
        String::from_utf8(screen.into_inner()).unwrap()
    }

    #[test]
    fn what_is_shown_is_what_is_new_however_it_comes() {
        let call = |state: Value| json!({ "kind": "toolCall", "toolCall": state });
        let running = call(json!({
            "status": "running", "toolCallId": "c", "toolName": "bash", "displayName": "Run", "invocationMessage": "Running `ls`",
            "confirmed": "not-needed",
        }));
        let failed = call(json!({
            "status": "completed", "toolCallId": "c", "toolName": "bash", "displayName": "Run", "invocationMessage": "Running `ls`",
            "confirmed": "not-needed", "success": false, "pastTenseMessage": "Ran `ls`", "error": { "message": "no" },
        }));
        let step = |parts: Value| chat(json!([]), turn("t", parts, ""));
        let steps = [
            step(json!([])),
            step(json!([thought("r", "hm")])),
            step(json!([thought("r", "hmm"), text("a", "Let")])),
            step(json!([thought("r", "hmm"), text("a", "Let me."), running])),
            step(json!([
                thought("r", "hmm"),
                text("a", "Let me."),
                failed,
                text("b", "Done")
            ])),
            chat(
                json!([turn(
                    "t",
                    json!([thought("r", "hmm"), text("a", "Let me."), failed, text("b", "Done.")]),
                    "complete"
                )]),
                Value::Null,
            ),
        ];
        let expected = "> do t\n┊ hmm\nLet me.\n→ Running `ls`\n✗ no\nDone.\n";
        assert_eq!(shown(&steps, usize::MAX), expected);
        for left_out in 0..steps.len() - 1 {
            let mut some = steps.to_vec();
            some.remove(left_out);
            assert_eq!(shown(&some, usize::MAX), expected, "without step {left_out}");
        }
        assert_eq!(shown(&steps[5..], usize::MAX), expected);
    }

    #[test]
    fn after_a_restart_nothing_is_told_twice_and_a_lost_end_is_told() {
        let before = chat(
            json!([]),
            turn("t", json!([thought("r", "hmm"), text("a", "Let me")]), ""),
        );
        let whole = turn(
            "t",
            json!([thought("a-reasoning", "hmm"), text("a", "Let me see.")]),
            "complete",
        );
        let next = turn("u", json!([text("n", "Next.")]), "complete");
        let after = chat(json!([whole, next]), Value::Null);
        assert_eq!(
            shown(&[before.clone(), after], 1),
            "> do t\n┊ hmm\nLet me see.\n> do u\nNext.\n"
        );
        let lost = chat(
            json!([turn("t", json!([thought("a-reasoning", "hmm")]), "complete")]),
            Value::Null,
        );
        let expected = "> do t\n┊ hmm\nLet me\n· The host was stopped before the answer was complete.\n";
        assert_eq!(shown(&[before, lost], 1), expected);
    }
}
