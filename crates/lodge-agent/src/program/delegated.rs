//! A sub-agent's task, done by another program.

use lodge_events::Delivery;
use lodge_external::Program;
use lodge_tools::custom::{AgentDefinition, AgentSource};

use crate::{
    settings::Prompt,
    turn::{self, Stop, Turn},
};

impl Turn {
    /// Has a program do the work of a sub-agent, and what it is told meanwhile, until hooks let it stop.
    pub(crate) async fn work_as_sub_agent(
        &mut self,
        program: &Program,
        definition: &AgentDefinition,
        task: String,
    ) -> Result<(), Stop> {
        // The built-in instructions are about tools of this host, which the program does not have.
        let is_custom = definition.source != AgentSource::Builtin && !definition.prompt.trim().is_empty();
        let prompt = match is_custom {
            true => Prompt {
                text: format!("{}\n\n{task}", definition.prompt.trim()),
                display_text: Some(task),
                ..Prompt::default()
            },
            false => Prompt {
                text: task,
                ..Prompt::default()
            },
        };
        self.add_user_message(prompt, None, Delivery::Idle).await?;
        loop {
            self.work_by(program).await?;
            turn::end_model_call(&self.shared.recorder)?;
            match self.shared.interjections.next() {
                Some(said) => self.add_user_message(said, None, Delivery::Steering).await?,
                None if self.sub_agent_may_stop().await? => return Ok(()),
                // A hook said what is missing.
                None => {}
            }
        }
    }
}
