//! The system prompt of a turn, with instructions, memories and preloaded skills.

use lodge_events::{SkillInvoked, SystemMessage, SystemRole};

use lodge_tools::Memory;

use super::{Stop, Turn};
use crate::{instructions, session::GitContext, settings::Mode, system_prompt};

/// What the model is told of facts that were kept.
fn memories(kept: &[Memory]) -> String {
    if kept.is_empty() {
        return String::new();
    }
    let lines = kept.iter().map(|memory| {
        let from = memory.citations.as_ref().map(|from| format!(" (from: {from})"));
        format!("- {}: {}{}\n", memory.subject, memory.fact, from.unwrap_or_default())
    });
    let lines: String = lines.collect();
    format!(
        "\n<memories>\nFacts that earlier sessions kept about this project. They may be out of date: check before you rely on \
         one.\n{lines}</memories>\n"
    )
}

impl Turn {
    /// Builds the system prompt and records it when it differs from the last one.
    pub(crate) async fn prepare_system(&mut self) -> Result<(), Stop> {
        let shared = self.shared.clone();
        let (text, mode, preloaded) = self.system_prompt().await;
        if shared
            .recorder
            .facts(|facts| facts.system_prompt.as_deref() != Some(text.as_str()))
        {
            shared.recorder.record(SystemMessage {
                content: text.clone(),
                role: SystemRole::System,
                ..SystemMessage::default()
            })?;
            for skill in preloaded {
                shared.recorder.record(skill)?;
            }
        }
        self.find_own_model().await;
        self.system = text.into();
        self.mode = mode;
        Ok(())
    }

    /// Looks for the model that the chosen agent wants, where it wants one of its own.
    pub(crate) async fn find_own_model(&mut self) {
        let definition = self.shared.definition().filter(|_| self.shared.sub.is_none());
        let Some(name) = definition.and_then(|agent| agent.model.clone()) else {
            return;
        };
        let found = self.shared.find_model(&name).await;
        self.own_model = found
            .inspect_err(|error| tracing::info!(%error, "the agent uses the session's model"))
            .ok();
    }

    /// The system prompt as it is now, the mode that it speaks of, and the skills that stand in it.
    pub(crate) async fn system_prompt(&self) -> (String, Mode, Vec<SkillInvoked>) {
        let shared = &self.shared;
        let mut settings = shared.settings();
        settings.mode = shared.mode();
        let git = GitContext::of(&settings.cwd);
        let mut instructions = instructions::text(&shared.instructions(git.root.as_deref()));
        if let Some(text) = settings.organization_instructions.as_deref().map(str::trim) {
            instructions = format!("<organization_instructions>\n{text}\n</organization_instructions>\n{instructions}");
        }
        if settings.memory {
            let (state, cwd) = (shared.tool_state.clone(), settings.cwd.clone());
            let kept = tokio::task::spawn_blocking(move || state.memories(&cwd)).await;
            instructions.push_str(&memories(&kept.unwrap_or_default()));
        }
        let git = if settings.git { git } else { GitContext::default() };
        let definition = shared.definition();
        let refused = shared.start_own_servers(definition.as_deref()).await;
        let tool_names: Vec<String> = shared.tools().into_iter().map(|(spec, _)| spec.name).collect();
        let preloaded = shared.preloaded_skills(definition.as_deref()).await;
        let cx = system_prompt::PromptContext {
            agent: definition.as_deref().map(|agent| agent.prompt.as_str()),
            sub_agent: shared.sub.is_some(),
            cwd: &settings.cwd,
            further: &settings.additional_directories,
            git_root: git.root.as_deref(),
            branch: git.branch.as_deref(),
            tool_names: &tool_names,
            network_closed: shared.tool_state.network_is_closed(),
            mcp: &shared.mcp_instructions(),
            instructions: &instructions,
            mode: settings.mode,
            session_dir: shared.tool_state.shown_dir(),
        };
        let mut text = self
            .compose_system(system_prompt::sections(&cx), &settings.system_message)
            .await;
        if let (Some(agent), system_prompt::SystemMessage::Replace { .. }) = (cx.agent, &settings.system_message) {
            text = format!("{text}\n\n<agent_instructions>\n{agent}\n</agent_instructions>");
        }
        for skill in &preloaded {
            let context = crate::transcript::skill_context(&skill.name, &skill.path, &skill.content);
            text = format!("{text}\n\n{context}");
        }
        if !refused.is_empty() {
            let refused = refused.join("\n");
            text = format!(
                "{text}\n\n<mcp_servers_not_started>\n{refused}\nTheir tools are not there. Only the user can accept them: say \
                 so if you need them.\n</mcp_servers_not_started>"
            );
        }
        (text, settings.mode, preloaded)
    }

    async fn compose_system(
        &self,
        mut sections: Vec<(&'static str, String)>,
        message: &system_prompt::SystemMessage,
    ) -> String {
        match message {
            system_prompt::SystemMessage::Default => system_prompt::join(&sections, None),
            system_prompt::SystemMessage::Append { content } => system_prompt::join(&sections, Some(content)),
            system_prompt::SystemMessage::Replace { content } => content.clone(),
            system_prompt::SystemMessage::Customize {
                content,
                sections: changes,
            } => {
                for (name, text) in &mut sections {
                    match changes.get(*name) {
                        Some(change) if change.action == "transform" => self.transform_section(name, text).await,
                        Some(change) => system_prompt::change(text, change),
                        None => {}
                    }
                }
                system_prompt::join(&sections, content.as_deref())
            }
        }
    }

    async fn transform_section(&self, name: &str, text: &mut String) {
        let calls = self
            .shared
            .clients
            .lock()
            .calls(|can| can.transforms.iter().any(|wanted| wanted == name));
        for client in calls {
            if let Some(changed) = client.transform_section(name.to_owned(), text.clone()).await {
                *text = changed;
            }
        }
    }
}
