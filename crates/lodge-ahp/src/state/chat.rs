//! One chat as the host holds it: the head in the protocol's own type, advanced by the official reducer, and the finished
//! turns as the JSON they are sent as. Finished turns never change, so nothing about them is done twice, and a delta
//! costs the same in the first turn as in the ten thousandth.

use std::sync::Arc;

use ahp::reducers::{ReduceOutcome, apply_action_to_chat};
use ahp_types::{
    actions::{ChatTruncatedAction, StateAction},
    state::{
        ActiveTurn, BackgroundWork, CanvasReference, ChangesSummary, Changeset, ChatInteractivity, ChatOrigin,
        ChatState, Message, PendingMessage, ResponsePart, ToolCallState, Turn,
    },
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// A finished turn.
#[derive(Debug, Clone)]
pub(crate) struct StoredTurn {
    pub(crate) id: Arc<str>,
    pub(crate) json: Arc<RawValue>,
}

impl StoredTurn {
    fn new(turn: &Turn) -> Option<Self> {
        let json = to_raw_value(turn)
            .inspect_err(|error| tracing::error!("a turn did not serialise: {error}"))
            .ok()?;
        Some(Self {
            id: turn.id.as_str().into(),
            json: json.into(),
        })
    }
}

/// One chat.
#[derive(Debug)]
pub(crate) struct ChatStore {
    /// Everything but the finished turns; `head.turns` is empty between calls.
    head: ChatState,
    turns: Vec<StoredTurn>,
}

impl ChatStore {
    /// A chat; turns in the given state are taken as finished.
    pub(crate) fn new(mut head: ChatState) -> Self {
        let turns = std::mem::take(&mut head.turns)
            .iter()
            .filter_map(StoredTurn::new)
            .collect();
        Self { head, turns }
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
        self.turns.drain(..turns.min(self.turns.len()));
    }

    /// The place of a finished turn.
    pub(crate) fn position(&self, turn: &str) -> Option<usize> {
        self.turns.iter().rposition(|stored| &*stored.id == turn)
    }

    /// The running turn, if it has this id.
    pub(crate) fn active(&self, turn: &str) -> Option<&ActiveTurn> {
        self.head.active_turn.as_ref().filter(|active| active.id == turn)
    }

    /// A tool call of the running turn.
    pub(crate) fn tool_call(&self, turn: &str, call: &str) -> Option<&ToolCallState> {
        self.active(turn)?
            .response_parts
            .iter()
            .rev()
            .find_map(|part| match part {
                ResponsePart::ToolCall(part) if tool_call_id(&part.tool_call) == call => Some(&part.tool_call),
                _ => None,
            })
    }

    /// Applies an action. Streaming text is appended to the last part at once; what touches finished turns is done on
    /// the stored ones; all else is the official reducer.
    pub(crate) fn apply(&mut self, action: &StateAction) -> ReduceOutcome {
        match action {
            StateAction::ChatDelta(delta) => {
                if let Some(active) = self
                    .head
                    .active_turn
                    .as_mut()
                    .filter(|active| active.id == delta.turn_id)
                    && let Some(ResponsePart::Markdown(part)) = active.response_parts.last_mut()
                    && part.id == delta.part_id
                {
                    part.content.push_str(&delta.content);
                    return ReduceOutcome::Applied;
                }
                apply_action_to_chat(&mut self.head, action)
            }
            StateAction::ChatReasoning(delta) => {
                if let Some(active) = self
                    .head
                    .active_turn
                    .as_mut()
                    .filter(|active| active.id == delta.turn_id)
                    && let Some(ResponsePart::Reasoning(part)) = active.response_parts.last_mut()
                    && part.id == delta.part_id
                {
                    part.content.push_str(&delta.content);
                    return ReduceOutcome::Applied;
                }
                apply_action_to_chat(&mut self.head, action)
            }
            StateAction::ChatTruncated(truncated) => {
                let keep = match &truncated.turn_id {
                    Some(turn) => match self.position(turn) {
                        Some(at) => at + 1,
                        None => return ReduceOutcome::NoOp,
                    },
                    None => 0,
                };
                self.turns.truncate(keep);
                let all = StateAction::ChatTruncated(ChatTruncatedAction { turn_id: None });
                apply_action_to_chat(&mut self.head, &all)
            }
            StateAction::ChatTurnResume(resume) => {
                let last = self.turns.last().filter(|last| *last.id == *resume.turn_id);
                let Some(turn) = last.and_then(|last| serde_json::from_str::<Turn>(last.json.get()).ok()) else {
                    return ReduceOutcome::NoOp;
                };
                self.head.turns.push(turn);
                let outcome = apply_action_to_chat(&mut self.head, action);
                if outcome == ReduceOutcome::Applied {
                    self.turns.pop();
                }
                self.head.turns.clear();
                outcome
            }
            _ if !self.changes_something(action) => ReduceOutcome::NoOp,
            _ => {
                let outcome = apply_action_to_chat(&mut self.head, action);
                self.turns
                    .extend(self.head.turns.drain(..).filter_map(|turn| StoredTurn::new(&turn)));
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
            StateAction::ChatToolCallDelta(a) => {
                matches!(self.tool_call(&a.turn_id, &a.tool_call_id), Some(S::Streaming(_)))
            }
            StateAction::ChatToolCallReady(a) => match self.tool_call(&a.turn_id, &a.tool_call_id) {
                Some(S::Streaming(_) | S::PendingConfirmation(_)) => true,
                // What runs is asked about again, but not started again: that would forget who allowed it.
                Some(S::Running(_)) => a.confirmed.is_none(),
                _ => false,
            },
            StateAction::ChatToolCallConfirmed(a) => {
                matches!(
                    self.tool_call(&a.turn_id, &a.tool_call_id),
                    Some(S::PendingConfirmation(_))
                )
            }
            StateAction::ChatToolCallComplete(a) => matches!(
                self.tool_call(&a.turn_id, &a.tool_call_id),
                Some(S::Running(_) | S::PendingConfirmation(_) | S::AuthRequired(_))
            ),
            StateAction::ChatToolCallResultConfirmed(a) => {
                matches!(
                    self.tool_call(&a.turn_id, &a.tool_call_id),
                    Some(S::PendingResultConfirmation(_))
                )
            }
            StateAction::ChatToolCallContentChanged(a) => {
                matches!(self.tool_call(&a.turn_id, &a.tool_call_id), Some(S::Running(_)))
            }
            _ => true,
        }
    }

    /// Where a window of at most `turns` turns and about `bytes` bytes begins. It holds one turn at least.
    pub(crate) fn window(&self, turns: usize, bytes: usize) -> usize {
        let mut left = bytes;
        let fitting = self.turns.iter().rev().take(turns).take_while(|turn| {
            let fits = left > 0;
            left = left.saturating_sub(turn.json.get().len());
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
            turns: self.turns[start.min(self.turns.len())..]
                .iter()
                .map(|turn| &*turn.json)
                .collect(),
            turns_next_cursor: self.cursor(start),
            active_turn: head.active_turn.as_ref(),
            steering_message: head.steering_message.as_ref(),
            queued_messages: head.queued_messages.as_deref(),
            draft: head.draft.as_ref(),
            meta: head.meta.as_ref(),
        }
    }
}

fn part_id(part: &ResponsePart) -> Option<&str> {
    match part {
        ResponsePart::Markdown(part) => Some(&part.id),
        ResponsePart::Reasoning(part) => Some(&part.id),
        _ => None,
    }
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
    turns: Vec<&'a RawValue>,
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
