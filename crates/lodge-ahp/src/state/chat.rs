//! One chat as the host holds it: the head in the protocol's own type, advanced by the official reducer, and the finished
//! turns as the JSON they are sent as. Finished turns never change, so nothing about them is done twice, and a delta
//! costs the same in the first turn as in the ten thousandth.

#[cfg(test)]
mod tests;

use std::{io, path::Path, sync::Arc};

use ahp::reducers::{ReduceOutcome, apply_action_to_chat};
use ahp_types::{
    actions::{ChatTruncatedAction, StateAction},
    state::{
        ActiveTurn, BackgroundWork, CanvasReference, ChangesSummary, Changeset, ChatInteractivity, ChatOrigin,
        ChatState, Message, PendingMessage, ResponsePart, ToolCallContributor, ToolCallState, Turn,
    },
};
use lodge_files::Overflow;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// How much of the past of a chat stays in memory, and where the rest goes.
#[derive(Debug, Clone)]
pub(crate) struct Keep {
    pub(crate) bytes: usize,
    pub(crate) dir: Arc<Path>,
}

/// A finished turn.
#[derive(Debug)]
pub(crate) struct StoredTurn {
    pub(crate) id: Arc<str>,
    body: Body,
}

/// Where a turn is.
#[derive(Debug)]
enum Body {
    Memory(Arc<RawValue>),
    File { at: u64, len: usize },
}

impl StoredTurn {
    fn in_memory(&self) -> usize {
        match &self.body {
            Body::Memory(json) => json.get().len(),
            Body::File { .. } => 0,
        }
    }

    fn len(&self) -> usize {
        match &self.body {
            Body::Memory(json) => json.get().len(),
            Body::File { len, .. } => *len,
        }
    }
}

/// One chat.
#[derive(Debug)]
pub(crate) struct ChatStore {
    /// Everything but the finished turns; `head.turns` is empty between calls.
    head: ChatState,
    turns: Vec<StoredTurn>,
    keep: Keep,
    /// Bytes of turns in memory, and the first of these turns.
    bytes: usize,
    first: usize,
    /// Turns that are long past.
    past: Option<Overflow>,
}

impl ChatStore {
    /// A chat; turns in the given state are taken as finished.
    pub(crate) fn new(mut head: ChatState, keep: Keep) -> Self {
        let turns = std::mem::take(&mut head.turns);
        let mut store = Self {
            head,
            turns: Vec::new(),
            keep,
            bytes: 0,
            first: 0,
            past: None,
        };
        for turn in &turns {
            store.keep(turn);
        }
        store
    }

    fn keep(&mut self, turn: &Turn) {
        let json: Arc<RawValue> = match to_raw_value(turn) {
            Ok(json) => json.into(),
            Err(error) => return tracing::error!("a turn did not serialise: {error}"),
        };
        self.bytes += json.get().len();
        self.turns.push(StoredTurn {
            id: turn.id.as_str().into(),
            body: Body::Memory(json),
        });
        while self.bytes > self.keep.bytes && self.first + 1 < self.turns.len() {
            if let Err(error) = self.put_away() {
                tracing::warn!("turns stay in memory, because they cannot be put away: {error}");
                self.keep.bytes = usize::MAX;
            }
        }
    }

    /// Moves the oldest turn in memory to the file.
    fn put_away(&mut self) -> io::Result<()> {
        let past = match &mut self.past {
            Some(past) => past,
            None => self.past.insert(Overflow::new(&self.keep.dir)?),
        };
        let turn = &mut self.turns[self.first];
        if let Body::Memory(json) = &turn.body {
            let len = json.get().len();
            let at = past.push(json.get().as_bytes())?;
            turn.body = Body::File { at, len };
            self.bytes -= len;
        }
        self.first += 1;
        Ok(())
    }

    /// A finished turn as it is sent.
    pub(crate) fn json(&self, at: usize) -> Option<Arc<RawValue>> {
        let (offset, len) = match &self.turns.get(at)?.body {
            Body::Memory(json) => return Some(json.clone()),
            Body::File { at, len } => (*at, *len),
        };
        let read = self.past.as_ref()?.read(offset, len);
        let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
        let json = text.and_then(|text| RawValue::from_string(text).map_err(io::Error::other));
        json.inspect_err(|error| tracing::error!("a turn cannot be read back: {error}"))
            .ok()
            .map(Into::into)
    }

    /// Several of them.
    pub(crate) fn json_of(&self, turns: std::ops::Range<usize>) -> Vec<Arc<RawValue>> {
        turns.filter_map(|at| self.json(at)).collect()
    }

    /// Gives it another title. No action of a chat tells that: it is told by the list of chats of its session.
    pub(crate) fn set_title(&mut self, title: &str) {
        title.clone_into(&mut self.head.title);
    }

    /// All but the finished turns.
    pub(crate) fn head(&self) -> &ChatState {
        &self.head
    }

    /// The finished turns, oldest first.
    pub(crate) fn turns(&self) -> &[StoredTurn] {
        &self.turns
    }

    /// Forgets the first turns: they are what a side chat knows, not what was said in it.
    pub(crate) fn hide(&mut self, turns: usize) {
        let turns = turns.min(self.turns.len());
        self.bytes -= self.turns.drain(..turns).map(|turn| turn.in_memory()).sum::<usize>();
        self.first = self.first.saturating_sub(turns);
    }

    /// The place of a finished turn.
    pub(crate) fn position(&self, turn: &str) -> Option<usize> {
        self.turns.iter().rposition(|stored| &*stored.id == turn)
    }

    /// The running turn, if it has this id.
    pub(crate) fn active(&self, turn: &str) -> Option<&ActiveTurn> {
        self.head.active_turn.as_ref().filter(|active| active.id == turn)
    }

    /// The last part of the running turn, if that has this id.
    fn last_part(&mut self, turn: &str) -> Option<&mut ResponsePart> {
        let active = self.head.active_turn.as_mut().filter(|active| active.id == turn);
        active?.response_parts.last_mut()
    }

    /// A tool call of the running turn.
    pub(crate) fn tool_call(&self, turn: &str, call: &str) -> Option<&ToolCallState> {
        call_in(&self.active(turn)?.response_parts, call)
    }

    /// Applies an action. Streaming text is appended to the last part at once; what touches finished turns is done on
    /// the stored ones; all else is the official reducer.
    pub(crate) fn apply(&mut self, action: &StateAction) -> ReduceOutcome {
        match action {
            StateAction::ChatDelta(delta) => match self.last_part(&delta.turn_id) {
                Some(ResponsePart::Markdown(part)) if part.id == delta.part_id => {
                    part.content.push_str(&delta.content);
                    ReduceOutcome::Applied
                }
                _ => apply_action_to_chat(&mut self.head, action),
            },
            StateAction::ChatReasoning(delta) => match self.last_part(&delta.turn_id) {
                Some(ResponsePart::Reasoning(part)) if part.id == delta.part_id => {
                    part.content.push_str(&delta.content);
                    ReduceOutcome::Applied
                }
                _ => apply_action_to_chat(&mut self.head, action),
            },
            StateAction::ChatTruncated(truncated) => {
                let keep = match &truncated.turn_id {
                    Some(turn) => match self.position(turn) {
                        Some(at) => at + 1,
                        None => return ReduceOutcome::NoOp,
                    },
                    None => 0,
                };
                self.turns.truncate(keep);
                self.first = self.first.min(keep);
                self.bytes = self.turns.iter().map(StoredTurn::in_memory).sum();
                let all = StateAction::ChatTruncated(ChatTruncatedAction { turn_id: None });
                apply_action_to_chat(&mut self.head, &all)
            }
            StateAction::ChatTurnResume(resume) => {
                let is_last = self.turns.last().is_some_and(|last| *last.id == *resume.turn_id);
                let json = if is_last { self.json(self.turns.len() - 1) } else { None };
                let Some(turn) = json.and_then(|json| serde_json::from_str::<Turn>(json.get()).ok()) else {
                    return ReduceOutcome::NoOp;
                };
                self.head.turns.push(turn);
                let outcome = apply_action_to_chat(&mut self.head, action);
                if outcome == ReduceOutcome::Applied {
                    self.bytes -= self.turns.pop().map_or(0, |turn| turn.in_memory());
                    self.first = self.first.min(self.turns.len());
                }
                self.head.turns.clear();
                outcome
            }
            _ if !self.changes_something(action) => ReduceOutcome::NoOp,
            _ => {
                let outcome = apply_action_to_chat(&mut self.head, action);
                for turn in std::mem::take(&mut self.head.turns) {
                    self.keep(&turn);
                }
                outcome
            }
        }
    }

    /// The official reducer says "applied" for steps that the state of a tool call does not allow, and adds a part or a
    /// call a second time. Here those change nothing.
    fn changes_something(&self, action: &StateAction) -> bool {
        use ToolCallState as S;
        match action {
            StateAction::ChatToolCallStart(a) => self.tool_call(&a.turn_id, &a.tool_call_id).is_none(),
            StateAction::ChatResponsePart(a) => match (self.active(&a.turn_id), part_id(&a.part)) {
                (Some(turn), Some(id)) => !turn.response_parts.iter().any(|part| part_id(part) == Some(id)),
                _ => true,
            },
            _ => {
                let Some((turn, call)) = call_of(action) else {
                    return true;
                };
                match (action, self.tool_call(turn, call)) {
                    (StateAction::ChatToolCallDelta(_), Some(S::Streaming(_)))
                    | (StateAction::ChatToolCallReady(_), Some(S::Streaming(_) | S::PendingConfirmation(_)))
                    | (StateAction::ChatToolCallConfirmed(_), Some(S::PendingConfirmation(_)))
                    | (StateAction::ChatToolCallComplete(_), Some(S::Running(_) | S::PendingConfirmation(_)))
                    | (StateAction::ChatToolCallAuthResolved(_), Some(S::AuthRequired(_)))
                    | (StateAction::ChatToolCallResultConfirmed(_), Some(S::PendingResultConfirmation(_)))
                    | (StateAction::ChatToolCallContentChanged(_), Some(S::Running(_))) => true,
                    // What runs is asked about again, but not started again: that would forget who allowed it.
                    (StateAction::ChatToolCallReady(ready), Some(S::Running(_))) => ready.confirmed.is_none(),
                    (StateAction::ChatToolCallComplete(done), Some(S::AuthRequired(_))) => !done.result.success,
                    (StateAction::ChatToolCallAuthRequired(_), Some(S::Running(call))) => {
                        matches!(call.contributor, Some(ToolCallContributor::Mcp(_)))
                    }
                    _ => false,
                }
            }
        }
    }

    /// Where a window of at most `turns` turns and about `bytes` bytes begins. It holds one turn at least.
    pub(crate) fn window(&self, turns: usize, bytes: usize) -> usize {
        let mut left = bytes;
        let fitting = self.turns.iter().rev().take(turns).take_while(|turn| {
            let fits = left > 0;
            left = left.saturating_sub(turn.len());
            fits
        });
        self.turns.len() - fitting.count()
    }

    /// What names the turns before `start` in `fetchTurns`.
    pub(crate) fn cursor(&self, start: usize) -> Option<String> {
        (start > 0)
            .then(|| self.turns.get(start).map(|turn| turn.id.to_string()))
            .flatten()
    }

    /// The state as a client sees it whose window begins at `start`.
    pub(crate) fn view(&self, start: usize) -> ChatView<'_> {
        let head = &self.head;
        ChatView {
            resource: &head.resource,
            title: &head.title,
            status: head.status,
            activity: head.activity.as_deref(),
            modified_at: &head.modified_at,
            changes: head.changes.as_ref(),
            origin: head.origin.as_ref(),
            movable: head.movable,
            interactivity: head.interactivity,
            working_directories: head.working_directories.as_deref(),
            changesets: head.changesets.as_deref(),
            background_work: head.background_work.as_deref(),
            canvases: head.canvases.as_deref(),
            turns: self.json_of(start..self.turns.len()),
            turns_next_cursor: self.cursor(start),
            active_turn: head.active_turn.as_ref(),
            steering_message: head.steering_message.as_ref(),
            queued_messages: head.queued_messages.as_deref(),
            draft: head.draft.as_ref(),
            meta: head.meta.as_ref(),
        }
    }
}

/// The turn and the id of the tool call that an action moves to another state.
fn call_of(action: &StateAction) -> Option<(&str, &str)> {
    let (turn, call) = match action {
        StateAction::ChatToolCallDelta(a) => (&a.turn_id, &a.tool_call_id),
        StateAction::ChatToolCallReady(a) => (&a.turn_id, &a.tool_call_id),
        StateAction::ChatToolCallConfirmed(a) => (&a.turn_id, &a.tool_call_id),
        StateAction::ChatToolCallComplete(a) => (&a.turn_id, &a.tool_call_id),
        StateAction::ChatToolCallAuthRequired(a) => (&a.turn_id, &a.tool_call_id),
        StateAction::ChatToolCallAuthResolved(a) => (&a.turn_id, &a.tool_call_id),
        StateAction::ChatToolCallResultConfirmed(a) => (&a.turn_id, &a.tool_call_id),
        StateAction::ChatToolCallContentChanged(a) => (&a.turn_id, &a.tool_call_id),
        _ => return None,
    };
    Some((turn, call))
}

fn part_id(part: &ResponsePart) -> Option<&str> {
    match part {
        ResponsePart::Markdown(part) => Some(&part.id),
        ResponsePart::Reasoning(part) => Some(&part.id),
        _ => None,
    }
}

/// A tool call among the parts of a turn.
pub(crate) fn call_in<'a>(parts: &'a [ResponsePart], call: &str) -> Option<&'a ToolCallState> {
    parts.iter().rev().find_map(|part| match part {
        ResponsePart::ToolCall(part) if tool_call_id(&part.tool_call) == call => Some(&part.tool_call),
        _ => None,
    })
}

/// The id of a tool call in any state.
pub(crate) fn tool_call_id(call: &ToolCallState) -> &str {
    match call {
        ToolCallState::Streaming(state) => &state.tool_call_id,
        ToolCallState::PendingConfirmation(state) => &state.tool_call_id,
        ToolCallState::Running(state) => &state.tool_call_id,
        ToolCallState::AuthRequired(state) => &state.tool_call_id,
        ToolCallState::PendingResultConfirmation(state) => &state.tool_call_id,
        ToolCallState::Completed(state) => &state.tool_call_id,
        ToolCallState::Cancelled(state) => &state.tool_call_id,
        ToolCallState::Unknown(_) => "",
    }
}

/// `ChatState` on the wire, without copying the turns.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatView<'a> {
    resource: &'a str,
    title: &'a str,
    status: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    activity: Option<&'a str>,
    modified_at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a ChangesSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'a ChatOrigin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    movable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interactivity: Option<ChatInteractivity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_directories: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changesets: Option<&'a [Changeset]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    background_work: Option<&'a [BackgroundWork]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canvases: Option<&'a [CanvasReference]>,
    turns: Vec<Arc<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns_next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active_turn: Option<&'a ActiveTurn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steering_message: Option<&'a PendingMessage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_messages: Option<&'a [PendingMessage]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    draft: Option<&'a Message>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a ahp_types::common::JsonObject>,
}
