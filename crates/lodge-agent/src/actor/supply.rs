//! Objects that clients and the host supply while the session is in memory.

use std::sync::Arc;

use lodge_events::SessionModelChange;
use lodge_external::Program;
use lodge_models::Model;

use super::Actor;
use crate::{AgentError, supply::Supply};

impl Actor {
    pub(super) fn supply(&self, supply: Supply) -> Result<(), AgentError> {
        match supply {
            Supply::Model {
                model,
                reasoning_effort,
            } => self.use_model(model, reasoning_effort)?,
            Supply::Models(models) => self.shared.settings.lock().models = Some(models),
            Supply::Environment(environment) => self.shared.tool_state.use_environment(environment),
            Supply::Managed(policy) => self.shared.set_managed(policy),
        }
        Ok(())
    }

    fn use_model(&self, model: Arc<dyn Model>, reasoning_effort: Option<String>) -> Result<(), AgentError> {
        let recorder = &self.shared.recorder;
        let (said, known) = recorder.facts(|facts| {
            let known = facts.model.as_ref() == Some(&model.info().id);
            (facts.user_messages > 0, known)
        });
        let (previous, previous_effort, effort) = {
            let mut settings = self.shared.settings.lock();
            let programs = [&settings.model, &model].map(|model| Program::behind(&**model).is_some());
            if said && !known && programs != [false, false] {
                let why =
                    "A conversation stays with the agent that it began with. Start a new session for another one.";
                return Err(AgentError::Refused(why.into()));
            }
            settings.check_allowed(&model.info().id).map_err(AgentError::Refused)?;
            let previous = std::mem::replace(&mut settings.model, model.clone());
            settings.auto.forget_choice();
            let previous_effort = settings.reasoning_effort.clone();
            if reasoning_effort.is_some() {
                settings.reasoning_effort = reasoning_effort;
            }
            (previous, previous_effort, settings.reasoning_effort.clone())
        };
        // In the log, it already is the session's model; it only was not available when the session was read back.
        if known && previous.info().id != model.info().id && previous_effort == effort {
            return Ok(());
        }
        recorder.record(SessionModelChange {
            previous_model: Some(previous.info().id.clone()),
            new_model: model.info().id.clone(),
            previous_reasoning_effort: previous_effort,
            reasoning_effort: effort,
            ..SessionModelChange::default()
        })?;
        Ok(())
    }
}
