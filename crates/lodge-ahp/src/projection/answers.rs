//! What the agent says and thinks, as it streams and when it is whole.

use ahp_types::{
    StateAction,
    actions::{ChatDeltaAction, ChatReasoningAction, ChatResponsePartAction, ChatUsageAction},
    state::{MarkdownResponsePart, ReasoningResponsePart, ResponsePart, SystemNotificationResponsePart, UsageInfo},
};
use lodge_events::{AssistantMessage, Event};

use serde_json::json;

use super::{Projector, Scope, Streaming, object, turns::End};

impl Projector {
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
        let Some(scope) = scope.filter(|_| !self.joined_late) else {
            return;
        };
        let Some(turn_id) = self.running_turn(&scope) else {
            return;
        };
        let chat = self.chat(&scope);
        if chat.text.id == id {
            chat.text.length += content.len();
            let action = ChatDeltaAction {
                turn_id,
                part_id: id.to_owned(),
                content: content.to_owned(),
                meta: None,
            };
            self.act(&scope, StateAction::ChatDelta(action));
        } else {
            chat.text = Streaming {
                id: id.to_owned(),
                length: content.len(),
            };
            self.part(&scope, markdown(id.to_owned(), content.to_owned()));
        }
    }

    pub(super) fn reasoning_delta(&mut self, scope: Option<Scope>, id: &str, content: &str) {
        let Some(scope) = scope.filter(|_| !self.joined_late) else {
            return;
        };
        let Some(turn_id) = self.running_turn(&scope) else {
            return;
        };
        let chat = self.chat(&scope);
        if chat.reasoning.id == id {
            chat.reasoning.length += content.len();
            let action = ChatReasoningAction {
                turn_id,
                part_id: id.to_owned(),
                content: content.to_owned(),
                meta: None,
            };
            self.act(&scope, StateAction::ChatReasoning(action));
        } else {
            chat.reasoning = Streaming {
                id: id.to_owned(),
                length: content.len(),
            };
            self.part(&scope, reasoning(id.to_owned(), content.to_owned()));
        }
    }

    pub(super) fn complete_reasoning(&mut self, scope: Option<Scope>, id: &str, content: &str) {
        let Some(scope) = scope else { return };
        let chat = self.chat(&scope);
        let shown = if chat.reasoning.id == id {
            chat.reasoning.length
        } else {
            0
        };
        chat.reasoning = Streaming {
            id: id.to_owned(),
            length: content.len(),
        };
        if shown == 0 && !content.is_empty() {
            self.part(&scope, reasoning(id.to_owned(), content.to_owned()));
        } else if let Some(rest) = content.get(shown..).filter(|rest| !rest.is_empty())
            && let Some(turn_id) = self.running_turn(&scope)
        {
            let action = ChatReasoningAction {
                turn_id,
                part_id: id.to_owned(),
                content: rest.to_owned(),
                meta: None,
            };
            self.act(&scope, StateAction::ChatReasoning(action));
        }
    }

    pub(super) fn assistant_message(&mut self, scope: Option<Scope>, message: &AssistantMessage) {
        let Some(scope) = scope else { return };
        self.joined_late = false;
        let id = &message.message_id;
        let chat = self.chat(&scope);
        let shown = if chat.text.id == *id { chat.text.length } else { 0 };
        chat.text = Streaming::default();
        let told_reasoning = !chat.reasoning.id.is_empty();
        chat.reasoning = Streaming::default();
        if let Some(thought) = message
            .reasoning_text
            .as_ref()
            .filter(|thought| !told_reasoning && !thought.is_empty())
        {
            self.part(&scope, reasoning(format!("{id}-reasoning"), thought.clone()));
        }
        if shown == 0 {
            if !message.content.is_empty() {
                self.part(&scope, markdown(id.clone(), message.content.clone()));
            }
        } else if let Some(rest) = message.content.get(shown..).filter(|rest| !rest.is_empty())
            && let Some(turn_id) = self.running_turn(&scope)
        {
            let action = ChatDeltaAction {
                turn_id,
                part_id: id.clone(),
                content: rest.to_owned(),
                meta: None,
            };
            self.act(&scope, StateAction::ChatDelta(action));
        }
        for request in message.tool_requests.iter().flatten() {
            self.tool_requested(&scope, request);
        }
    }

    /// Tokens of all model calls of a turn, added up; the model is the last one.
    pub(super) fn usage(&mut self, scope: Option<Scope>, usage: &lodge_events::LodgeUsage) {
        let Some(scope) = scope.filter(|scope| self.chat(scope).turn.is_some()) else {
            return;
        };
        let Some(turn_id) = self.running_turn(&scope) else {
            return;
        };
        let sum = self.chat(&scope).usage.get_or_insert_with(UsageInfo::default);
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
