//! Skills and custom agents: finding them, announcing them, turning them on and off, choosing one.

use std::{collections::BTreeSet, sync::Arc};

use lodge_events::{
    SessionCustomAgentsUpdated, SessionSkillsLoaded, SessionWarning, SubagentDeselected, SubagentSelected,
};

use super::Actor;
use crate::{
    AgentError,
    customize::{Customized, agent_info, skill_info},
    session::GitContext,
};

/// Adds something to the disabled set, or removes it.
fn switch<T: Ord>(disabled: &mut BTreeSet<T>, what: T, on: bool) {
    if on {
        disabled.remove(&what);
    } else {
        disabled.insert(what);
    }
}

impl Actor {
    /// Looks for skills and agents, unless that was already done.
    pub(super) async fn load(&mut self) {
        let (skills, agents) = {
            let loaded = self.shared.custom.lock();
            (loaded.skills.is_none(), loaded.agents.is_none())
        };
        if skills {
            self.load_skills().await;
            let shared = self.shared.clone();
            let read = move || {
                let git = GitContext::of(&shared.settings().cwd);
                shared.unreadable_instructions(git.root.as_deref())
            };
            let errors = tokio::task::spawn_blocking(read).await;
            self.warn("instructions", &errors.unwrap_or_default());
        }
        if agents {
            self.load_agents().await;
            let any =
                self.shared.custom.lock().agents.as_ref().is_some_and(|found| {
                    !(found.all.is_empty() && found.warnings.is_empty() && found.errors.is_empty())
                });
            if any {
                self.tell_agents();
            }
        }
    }

    pub(super) async fn load_skills(&self) {
        let (customization, cwd) = self.wanted();
        let found = tokio::task::spawn_blocking(move || customization.find_skills(&cwd)).await;
        let found = found.unwrap_or_default();
        self.warn("skills", &found.errors);
        self.shared.custom.lock().skills = Some(Arc::new(found));
    }

    pub(super) async fn load_agents(&self) {
        let (customization, cwd) = self.wanted();
        let found = tokio::task::spawn_blocking(move || customization.find_agents(&cwd)).await;
        let found = found.unwrap_or_default();
        self.warn("agents", &found.errors);
        self.shared.custom.lock().agents = Some(Arc::new(found));
    }

    fn wanted(&self) -> (crate::customize::Customization, std::path::PathBuf) {
        let settings = self.shared.settings.lock();
        (settings.customization.clone(), settings.cwd.clone())
    }

    /// Reports unusable files once, in one line each.
    fn warn(&self, kind: &str, errors: &[String]) {
        for error in errors {
            self.shared.recorder.note(SessionWarning {
                warning_type: kind.into(),
                message: format!("Left out: {error}"),
                ..SessionWarning::default()
            });
        }
    }

    pub(super) fn tell_skills(&mut self) {
        self.skills_told = true;
        let skills = self.shared.skills();
        self.shared.recorder.note(SessionSkillsLoaded {
            skills: skills.iter().map(|(skill, on)| skill_info(skill, *on)).collect(),
        });
    }

    pub(super) fn tell_agents(&self) {
        let found = self.shared.custom.lock().agents.clone().unwrap_or_default();
        self.shared.recorder.note(SessionCustomAgentsUpdated {
            agents: self.shared.custom_agents().iter().map(agent_info).collect(),
            warnings: found.warnings.clone(),
            errors: found.errors.clone(),
        });
    }

    /// Turns something on or off. False if it does not exist.
    pub(super) async fn enable(&mut self, what: Customized, on: bool) -> Result<bool, AgentError> {
        self.load().await;
        match what {
            Customized::Skill(name) => {
                if self.shared.skills().iter().all(|(skill, _)| skill.name != name) {
                    return Ok(false);
                }
                switch(&mut self.shared.settings.lock().customization.disabled_skills, name, on);
                self.tell_skills();
            }
            Customized::Agent(name) => {
                if self.shared.found_agents().iter().all(|(agent, _)| agent.name != name) {
                    return Ok(false);
                }
                if !on && self.shared.settings.lock().customization.agent.as_ref() == Some(&name) {
                    self.select_agent(None).await?;
                }
                switch(&mut self.shared.settings.lock().customization.disabled_agents, name, on);
                self.tell_agents();
            }
            Customized::Instruction(path) => {
                let disabled = &mut self.shared.settings.lock().customization.disabled_instructions;
                switch(disabled, path, on);
            }
        }
        Ok(true)
    }

    pub(super) async fn select_agent(&mut self, name: Option<String>) -> Result<(), AgentError> {
        self.load().await;
        let Some(name) = name else {
            let before = self.shared.settings.lock().customization.agent.take();
            if before.is_some() {
                self.shared.recorder.record(SubagentDeselected::default())?;
            }
            return Ok(());
        };
        let mut known = self.shared.custom_agents();
        known.retain(|agent| agent.user_invocable);
        let Some(agent) = known.iter().find(|agent| agent.name == name) else {
            let names: Vec<&str> = known.iter().map(|agent| agent.name.as_str()).collect();
            let names = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            return Err(AgentError::Refused(format!(
                "Custom agent '{name}' not found. Available agents: {names}"
            )));
        };
        self.shared.recorder.record(SubagentSelected {
            agent_name: agent.name.clone(),
            agent_display_name: agent.shown_name().to_owned(),
            tools: agent.tools.clone(),
        })?;
        self.shared.settings.lock().customization.agent = Some(name);
        Ok(())
    }
}
