//! The rehearsal model: offline, deterministic, and honest that it is not an LLM.
//!
//! It reads the person's last message as a script in a little language (`docs/rehearsal.md`) and plays the step that is
//! due. Which step that is follows from the conversation alone, so it has no state, and a session can be resumed,
//! forked or replayed and it goes on as if nothing had happened.

mod conversation;
mod cursor;
mod player;
mod script;
mod texts;

use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt};

use crate::{Chunk, Model, ModelError, ModelInfo, ModelRequest};
use conversation::Conversation;
use player::Player;
use script::{Action, Call};

/// The built-in model that needs neither key nor network.
#[derive(Debug, Clone)]
pub struct Rehearsal {
    info: ModelInfo,
}

impl Rehearsal {
    /// The name that selects it.
    pub const ID: &str = "rehearsal";

    /// Makes one. They are all alike.
    pub fn new() -> Self {
        Self {
            info: ModelInfo {
                id: Self::ID.to_owned(),
                name: "Rehearsal (offline)".to_owned(),
                provider: "lodge".to_owned(),
                context_window: 128_000,
                max_prompt_tokens: None,
                max_output_tokens: 16_000,
                vision: true,
                reasoning_efforts: ["low", "medium", "high"].map(str::to_owned).to_vec(),
            },
        }
    }
}

impl Default for Rehearsal {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Rehearsal {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let conversation = Conversation::read(&request);
        let actions = plan(&conversation);
        Player::new(&conversation, actions).boxed()
    }
}

/// What to do in this call.
fn plan(conversation: &Conversation<'_>) -> Vec<Action> {
    let mut steps = match script::parse(&conversation.words, conversation.plan_path()) {
        Ok(steps) => steps,
        Err(complaint) if conversation.step == 0 => return vec![Action::Say(texts::not_understood(&complaint))],
        Err(_) => Vec::new(),
    };
    if conversation.step < steps.len() {
        steps.swap_remove(conversation.step)
    } else if let Some(agent) = conversation.ended_agent() {
        vec![Action::Call(vec![Call {
            name: "read_agent".to_owned(),
            arguments: serde_json::json!({ "agent_id": agent }).to_string(),
        }])]
    } else if conversation.is_told_to_go_on() {
        vec![Action::Call(vec![Call {
            name: "task_complete".to_owned(),
            arguments: r#"{"summary":"I played your whole script."}"#.to_owned(),
        }])]
    } else if conversation.step > 0 {
        vec![Action::Say(texts::summary_of_results(conversation))]
    } else {
        vec![Action::Say(texts::talk(conversation))]
    }
}
