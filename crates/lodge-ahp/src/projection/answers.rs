//! What the agent says and thinks, as it streams and when it is whole.

use ahp_types::{
    StateAction,
    actions::{ChatDeltaAction, ChatReasoningAction, ChatResponsePartAction, ChatUsageAction},
    state::{MarkdownResponsePart, ReasoningResponsePart, ResponsePart, SystemNotificationResponsePart},
};
use lodge_events::{AssistantMessage, Event, LodgePartial, Payload};

use serde_json::json;

use super::{Projector, Scope, object, turns::End};

impl Projector {
    /// The chat in which an event only continues what streams there already. Such an event gives an action that comes by
    /// the thousand and shows in no summary, or none at all.
    pub(crate) fn continues(&self, event: &Event) -> Option<Scope> {
        if self.joined_late || self.retrying {
            return None;
        }
        let parent = match event.payload() {
            Payload::AssistantMessageDelta(delta) => delta.parent_tool_call_id.as_deref(),
            _ => None,
        };
        let scope = self.scope(event, parent)?;
        let chat = match &scope {
            Scope::Sub(call) => self.subs.get(call)?,
            Scope::Session | Scope::Main => &self.main,
        };
        let is_open = chat.turn.as_ref().is_some_and(|turn| turn.taken_up);
        let continues = match event.payload() {
            Payload::AssistantMessageDelta(delta) => chat.text.id == delta.message_id,
            Payload::AssistantReasoningDelta(delta) => chat.reasoning.id == delta.reasoning_id,
            Payload::AssistantToolCallDelta(delta) => self.calls.contains_key(&delta.tool_call_id),
            // All of it was shown as it came.
            Payload::LodgePartial(piece) => {
                piece.at as usize + piece.content.len() <= chat.text.shown(&piece.message_id)
            }
            _ => false,
        };
        (is_open && continues).then_some(scope)
    }

    pub(super) fn part(&mut self, scope: &Scope, part: ResponsePart) {
        if let Some(turn_id) = self.running_turn(scope) {
            self.act(
                scope,
                StateAction::ChatResponsePart(ChatResponsePartAction {
                    turn_id,
                    part,
                    meta: None,
                }),
            );
        }
    }

    pub(super) fn notice(&mut self, scope: Option<Scope>, content: &str) {
        let Some(scope) = scope else { return };
        if self.chat(&scope).turn.is_some() {
            let part = SystemNotificationResponsePart {
                content: content.into(),
                meta: None,
            };
            self.part(&scope, ResponsePart::SystemNotification(part));
        }
    }

    /// What a command answered. Its turn is over with that.
    pub(super) fn command_answer(&mut self, event: &Event, content: &str, scope: Option<Scope>) {
        let Some(scope) = scope else { return };
        if self.chat(&scope).turn.is_some() {
            self.part(&scope, markdown(event.id().to_string(), content.to_owned()));
            self.end_turn(&scope, End::Complete);
        }
    }

    pub(super) fn text_delta(&mut self, scope: Option<Scope>, id: &str, content: &str) {
        if let Some(scope) = scope.filter(|_| !self.joined_late) {
            self.append_text(&scope, id, content);
        }
    }

    /// A piece of an answer as the log has it: who listens has seen it, who reads the log or came late has not.
    pub(super) fn text_piece(&mut self, scope: Option<Scope>, piece: &LodgePartial) {
        let Some(scope) = scope else { return };
        if let Some(rest) = self.chat(&scope).text.rest_of_piece(piece) {
            self.append_text(&scope, &piece.message_id, rest);
        }
    }

    fn append_text(&mut self, scope: &Scope, id: &str, content: &str) {
        let Some(turn_id) = self.running_turn(scope) else {
            return;
        };
        if self.chat(scope).text.append(id, content) {
            self.part(scope, markdown(id.to_owned(), content.to_owned()));
        } else {
            self.more_text(scope, turn_id, id, content);
        }
    }

    fn more_text(&mut self, scope: &Scope, turn_id: String, id: &str, content: &str) {
        let action = ChatDeltaAction {
            turn_id,
            part_id: id.to_owned(),
            content: content.to_owned(),
            meta: None,
        };
        self.act(scope, StateAction::ChatDelta(action));
    }

    fn more_reasoning(&mut self, scope: &Scope, turn_id: String, id: &str, content: &str) {
        let action = ChatReasoningAction {
            turn_id,
            part_id: id.to_owned(),
            content: content.to_owned(),
            meta: None,
        };
        self.act(scope, StateAction::ChatReasoning(action));
    }

    pub(super) fn reasoning_delta(&mut self, scope: Option<Scope>, id: &str, content: &str) {
        let Some(scope) = scope.filter(|_| !self.joined_late) else {
            return;
        };
        let Some(turn_id) = self.running_turn(&scope) else {
            return;
        };
        if self.chat(&scope).reasoning.append(id, content) {
            self.part(&scope, reasoning(id.to_owned(), content.to_owned()));
        } else {
            self.more_reasoning(&scope, turn_id, id, content);
        }
    }

    pub(super) fn complete_reasoning(&mut self, scope: Option<Scope>, id: &str, content: &str) {
        let Some(scope) = scope else { return };
        match self.chat(&scope).reasoning.complete(id, content) {
            Some((all, true)) => self.part(&scope, reasoning(id.to_owned(), all.to_owned())),
            Some((rest, false)) => {
                if let Some(turn_id) = self.running_turn(&scope) {
                    self.more_reasoning(&scope, turn_id, id, rest);
                }
            }
            None => {}
        }
    }

    pub(super) fn assistant_message(&mut self, scope: Option<Scope>, message: &AssistantMessage) {
        let Some(scope) = scope else { return };
        self.joined_late = false;
        let id = &message.message_id;
        let chat = self.chat(&scope);
        let rest = std::mem::take(&mut chat.text).complete(id, &message.content);
        let told_reasoning = !std::mem::take(&mut chat.reasoning).id.is_empty();
        if let Some(thought) = message
            .reasoning_text
            .as_ref()
            .filter(|thought| !told_reasoning && !thought.is_empty())
        {
            self.part(&scope, reasoning(format!("{id}-reasoning"), thought.clone()));
        }
        match rest {
            Some((all, true)) => self.part(&scope, markdown(id.clone(), all.to_owned())),
            Some((rest, false)) => {
                if let Some(turn_id) = self.running_turn(&scope) {
                    self.more_text(&scope, turn_id, id, rest);
                }
            }
            None => {}
        }
        for request in message.tool_requests.iter().flatten() {
            self.tool_requested(&scope, request);
        }
    }

    /// Tokens of all model calls of a turn, added up; the model is the last one. Calls between turns, such as compactions, count
    /// for the next turn: nothing else has a place for them.
    pub(super) fn usage(&mut self, scope: Option<Scope>, usage: &lodge_events::LodgeUsage) {
        let Some(scope) = scope else { return };
        let turn_id = match self.chat(&scope).turn {
            Some(_) => self.running_turn(&scope),
            None => None,
        };
        let chat = self.chat(&scope);
        let sum = match &turn_id {
            Some(_) => chat
                .usage
                .get_or_insert_with(|| chat.usage_between.take().unwrap_or_default()),
            None => chat.usage_between.get_or_insert_default(),
        };
        let add = |sum: &mut Option<i64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0) + more as i64);
            }
        };
        add(&mut sum.input_tokens, usage.input_tokens);
        add(&mut sum.output_tokens, usage.output_tokens);
        add(&mut sum.cache_read_tokens, usage.cache_read_tokens);
        sum.model = Some(usage.model.clone());
        // The sum says what the turn took; how full the model's window is, the last call says.
        if let Some(read) = usage.input_tokens {
            let context = read + usage.output_tokens.unwrap_or(0);
            sum.meta = Some(object(json!({ "contextTokens": context })));
        }
        let Some(turn_id) = turn_id else { return };
        let usage = sum.clone();
        self.act(
            &scope,
            StateAction::ChatUsage(ChatUsageAction {
                turn_id,
                usage,
                meta: None,
            }),
        );
    }
}

pub(super) fn markdown(id: String, content: String) -> ResponsePart {
    ResponsePart::Markdown(MarkdownResponsePart { id, content })
}

fn reasoning(id: String, content: String) -> ResponsePart {
    ResponsePart::Reasoning(ReasoningResponsePart { id, content })
}
