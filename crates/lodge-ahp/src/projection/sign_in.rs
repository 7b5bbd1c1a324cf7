//! Calls that wait until somebody signs in to the MCP server they need.

use ahp_types::{
    StateAction,
    actions::{ChatToolCallAuthRequiredAction, ChatToolCallAuthResolvedAction},
};
use lodge_events::{McpOauthCompleted, McpOauthRequired, OauthOutcome};

use super::{Projector, Question};
use crate::customizations::requirement;

impl Projector {
    /// A server wants somebody to sign in. Only what a call waits for is shown here: the rest is the server's own state.
    pub(super) fn sign_in_needed(&mut self, asked: &McpOauthRequired) {
        let waits = |(id, _): &(&String, _)| lodge_host::sign_in_id(id) == asked.request_id;
        let Some((id, call)) = self.calls.iter().find(waits) else {
            return;
        };
        let (tool_call_id, scope) = (id.clone(), call.scope.clone());
        let question = Question::SignIn {
            tool_call_id: tool_call_id.clone(),
        };
        self.questions.insert(asked.request_id.clone(), question);
        let Some(turn_id) = self.running_turn(&scope) else {
            return;
        };
        let action = ChatToolCallAuthRequiredAction {
            turn_id,
            tool_call_id,
            meta: None,
            auth: requirement(asked),
        };
        self.act(&scope, StateAction::ChatToolCallAuthRequired(action));
    }

    /// Somebody did, or nobody will: then the call fails, and that is all there is to show.
    pub(super) fn sign_in_over(&mut self, done: &McpOauthCompleted) {
        let Some(Question::SignIn { tool_call_id }) = self.questions.get(&done.request_id).cloned() else {
            return;
        };
        self.questions.remove(&done.request_id);
        let Some(call) = self.calls.get(&tool_call_id) else {
            return;
        };
        let scope = call.scope.clone();
        let Some(turn_id) = self
            .running_turn(&scope)
            .filter(|_| done.outcome == OauthOutcome::Token)
        else {
            return;
        };
        let action = ChatToolCallAuthResolvedAction {
            turn_id,
            tool_call_id,
            meta: None,
        };
        self.act(&scope, StateAction::ChatToolCallAuthResolved(action));
    }
}
