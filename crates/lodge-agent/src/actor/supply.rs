//! Objects that clients and the host supply while the session is in memory.

use std::sync::Arc;

use lodge_events::SessionModelChange;
use lodge_external::Program;
use lodge_models::Model;
use uuid::Uuid;

use super::Actor;
use crate::{AgentError, supply::Supply};

impl Actor {
    pub(super) fn supply(&self, supply: Supply, id: Uuid) -> Result<(), AgentError> {
        match supply {
            Supply::Model {
                model,
                reasoning_effort,
            } => self.use_model(model, reasoning_effort, id)?,
            Supply::Models(models) => self.shared.settings.lock().models = Some(models),
            Supply::Environment(environment) => self.shared.tool_state.use_environment(environment),
            Supply::Managed(policy) => self.shared.set_managed(policy),
        }
        Ok(())
    }

    fn use_model(&self, model: Arc<dyn Model>, reasoning_effort: Option<String>, id: Uuid) -> Result<(), AgentError> {
        let _one = self.shared.settings.one_at_a_time();
        let recorder = &self.shared.recorder;
        let (said, known) = recorder.facts(|facts| {
            let known = facts.model.as_ref() == Some(&model.info().id);
            (facts.user_messages > 0, known)
        });
        let (previous, previous_effort, effort) = {
            let settings = self.shared.settings.lock();
            let programs = [&settings.model, &model].map(|model| Program::behind(&**model).is_some());
            if said && !known && programs != [false, false] {
                let why =
                    "A conversation stays with the agent that it began with. Start a new session for another one.";
                return Err(AgentError::Refused(why.into()));
            }
            settings.check_allowed(&model.info().id).map_err(AgentError::Refused)?;
            let previous_effort = settings.reasoning_effort.clone();
            // What is kept was another model's. One that names none may take any.
            let takes = &model.info().reasoning_efforts;
            let kept = previous_effort
                .clone()
                .filter(|kept| takes.is_empty() || takes.contains(kept));
            let effort = reasoning_effort.or(kept);
            (settings.model.clone(), previous_effort, effort)
        };
        // In the log, it may already be the session's model; it only was not available when the session was read back.
        let is_news = !known || previous.info().id == model.info().id || previous_effort != effort;
        if is_news {
            let changed = SessionModelChange {
                previous_model: Some(previous.info().id.clone()),
                new_model: model.info().id.clone(),
                previous_reasoning_effort: previous_effort,
                reasoning_effort: effort.clone(),
                ..SessionModelChange::default()
            };
            recorder.record_as(id, changed)?;
        }
        let mut settings = self.shared.settings.lock();
        settings.model = model;
        settings.auto.forget_choice();
        settings.reasoning_effort = effort;
        Ok(())
    }
}
