//! Sub-agents: chats of their own, and what runs beside the conversation.

use ahp_types::{
    StateAction,
    actions::{ChatBackgroundWorkRemovedAction, ChatBackgroundWorkSetAction},
    state::{BackgroundSubagentWork, BackgroundWork, Message, MessageKind, MessageOrigin},
};
use lodge_events::{Event, SubagentStarted};

use super::{Projector, Scope, Step, timestamp};

impl Projector {
    pub(super) fn subagent_started(&mut self, event: &Event, started: &SubagentStarted) {
        let call = started.tool_call_id.clone();
        let parent = self.calls.get(&call).map_or(Scope::Main, |call| call.scope.clone());
        if let Some(agent) = event.agent_id() {
            self.agents.insert(agent.to_owned(), call.clone());
        }
        let title = started.agent_display_name.clone();
        self.out.push(Step::OpenSub {
            tool_call_id: call.clone(),
            parent,
            title,
        });
        let prompt = self
            .calls
            .get(&call)
            .and_then(|call| call.prompt())
            .unwrap_or(&started.agent_description)
            .to_owned();
        let message = Message {
            text: prompt,
            origin: MessageOrigin {
                kind: MessageKind::Tool,
            },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        };
        let now = self.now;
        self.open_turn(&Scope::Sub(call.clone()), event.id().to_string(), message, now, false);
        self.show_subagent(&call, started);
        if started.execution_mode.as_deref() == Some("background") {
            self.background.insert(call.clone());
            let work = BackgroundSubagentWork {
                id: call.clone(),
                label: started.agent_display_name.clone(),
                started_at: timestamp(now),
                meta: None,
                // The state fills in the chat's address.
                chat: call,
            };
            let action = ChatBackgroundWorkSetAction {
                work: BackgroundWork::Subagent(work),
            };
            self.act(&Scope::Main, StateAction::ChatBackgroundWorkSet(action));
        }
    }

    pub(super) fn background_ended(&mut self, call: &str) {
        if self.background.remove(call) {
            let action = ChatBackgroundWorkRemovedAction { id: call.to_owned() };
            self.act(&Scope::Main, StateAction::ChatBackgroundWorkRemoved(action));
        }
    }
}
