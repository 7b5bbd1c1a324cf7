//! Tools with which an agent loads skills and starts sub-agents.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use lodge_events::{SkillInvoked, SkillTrigger};
use lodge_models::ToolSpec;
use lodge_tools::custom::Skill;
use serde_json::{Value, json};

use super::{Spawn, Task, TaskStatus, registry::State};
use crate::{
    agent_tools::AgentTool,
    session::Shared,
    tool_call::{Call, Outcome},
    turn::Stop,
};

/// Descriptions of skills and agents go with every call; all of them together are no longer than this.
const LONGEST_LIST: usize = 24 * 1024;
/// How long `read_agent` waits unless it is told, in seconds.
const WAIT: u64 = 60;
/// How long it waits at most.
const LONGEST_WAIT: u64 = 600;

/// The tool for loading skills, when there are any.
pub(crate) fn skill_spec(shared: &Shared) -> Option<ToolSpec> {
    let skills = shared.offered_skills();
    if skills.is_empty() {
        return None;
    }
    let mut description =
        "Loads a skill: instructions for a kind of task, with scripts and files where they help. When one of \
                           these fits the task, load it before you do anything else.\n\n<available_skills>\n"
            .to_owned();
    for skill in skills {
        let line = format!("- {}: {}\n", skill.name, one_line(&skill.description));
        if description.len() + line.len() > LONGEST_LIST {
            description.push_str("- (more that are not listed)\n");
            break;
        }
        description.push_str(&line);
    }
    description.push_str("</available_skills>");
    Some(spec(
        AgentTool::Skill,
        description,
        json!({
            "type": "object",
            "properties": {"skill": {"type": "string", "description": "The skill's name."}},
            "required": ["skill"]
        }),
    ))
}

/// The tool for starting sub-agents.
pub(crate) fn task_spec(shared: &Shared) -> ToolSpec {
    let mut description = "Gives a piece of work to another agent, which works with a context of its own and answers once. It \
                           knows only what the prompt says. Independent pieces can be handed out in one message and run side \
                           by side.\n\nKinds of agents:\n"
        .to_owned();
    let kinds = shared.agent_types();
    let names: Vec<&str> = kinds.iter().map(|agent| agent.name.as_str()).collect();
    for agent in &kinds {
        let line = format!("- {}: {}\n", agent.name, one_line(&agent.description));
        if description.len() + line.len() > LONGEST_LIST {
            break;
        }
        description.push_str(&line);
    }
    let mut model = "Another model than the usual one.".to_owned();
    let programs = shared.settings.lock().models.clone().map(|models| models.agents());
    if let Some(programs) = programs.filter(|programs| !programs.is_empty()) {
        let _ = write!(
            model,
            " These are agents of other programs, which work with tools of their own: {}.",
            programs.join(", ")
        );
    }
    let mut properties = json!({
        "agent_type": {"type": "string", "enum": names, "description": "The kind of agent."},
        "name": {"type": "string", "description": "A short name for this piece of work, such as `find-callers`."},
        "description": {"type": "string", "description": "What it is about, in three to five words."},
        "prompt": {"type": "string", "description": "Everything the agent needs to know, and what to answer with."},
        "model": {"type": "string", "description": model}
    });
    // What a sub-agent starts, it waits for.
    if shared.sub.is_none() {
        properties["mode"] = json!({
            "type": "string",
            "enum": ["sync", "background"],
            "description": "`sync` (the default) waits for the answer. `background` goes on at once; you are told when it ends, \
                            and read_agent gives the answer."
        });
    }
    spec(
        AgentTool::Task,
        description,
        json!({
            "type": "object",
            "properties": properties,
            "required": ["agent_type", "name", "description", "prompt"]
        }),
    )
}

/// The tool for asking after one in the background.
pub(crate) fn read_agent_spec() -> ToolSpec {
    spec(
        AgentTool::ReadAgent,
        "Returns the state of a background agent, and its answer once it has one.".to_owned(),
        json!({
            "type": "object",
            "properties": {
                "agent_id": {"type": "string", "description": "The id that `task` gave."},
                "wait": {"type": "boolean", "description": "Whether to wait for its end. Default: false."},
                "timeout": {"type": "integer", "description": "How many seconds to wait at most. Default: 60."}
            },
            "required": ["agent_id"]
        }),
    )
}

fn spec(tool: AgentTool, description: String, parameters: Value) -> ToolSpec {
    ToolSpec {
        name: tool.name().into(),
        description,
        parameters: Arc::new(parameters),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn text(args: &Value, name: &str) -> Option<String> {
    let text = args[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    text.map(str::to_owned)
}

impl Call<'_> {
    pub(crate) async fn skill(&self, args: Value) -> Result<Outcome, Stop> {
        let Some(name) = text(&args, "skill").or_else(|| text(&args, "name")) else {
            return Ok(Outcome::failed("skill needs the name of a `skill`.", "failure"));
        };
        let skills = self.turn.shared.offered_skills();
        let Some(skill) = skills.iter().find(|skill| skill.name == name) else {
            let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
            let text = format!(
                "Skill \"{name}\" does not exist. Available skills: {}.",
                names.join(", ")
            );
            return Ok(Outcome::failed(text, "failure"));
        };
        match self.turn.shared.invoke_skill(skill, SkillTrigger::AgentInvoked).await? {
            Ok(()) => Ok(Outcome::text(format!(
                "Skill \"{name}\" loaded successfully. Follow the instructions in the skill context."
            ))),
            Err(error) => Ok(Outcome::failed(
                format!("Skill \"{name}\" cannot be read: {error}"),
                "failure",
            )),
        }
    }

    pub(crate) async fn task(&self, args: Value) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        let Some(prompt) = text(&args, "prompt") else {
            return Ok(Outcome::failed("task needs a `prompt`.", "failure"));
        };
        let kind = text(&args, "agent_type").unwrap_or_else(|| "general-purpose".to_owned());
        let definition = match shared.startable(&kind) {
            Ok(definition) => definition,
            Err(error) => return Ok(Outcome::failed(error, "failure")),
        };
        let description = text(&args, "description").unwrap_or_else(|| definition.shown_name().to_owned());
        let background = shared.sub.is_none() && args["mode"] == "background";
        let spawn = Spawn {
            name: text(&args, "name").unwrap_or_else(|| kind.clone()),
            description,
            prompt,
            model: text(&args, "model"),
            effort: text(&args, "reasoning_effort"),
            tool_call_id: Some(self.id.to_owned()),
            background,
            // One in the background outlives the turn, though not an abort: that stops all there are.
            cancel: match background {
                true => tokio_util::sync::CancellationToken::new(),
                false => self.turn.cancel.child_token(),
            },
            response_format: None,
            factory_run: None,
            definition,
        };
        let task = match shared.spawn_agent(spawn).await {
            Ok(task) => task,
            Err(error) => return Ok(Outcome::failed(error, "failure")),
        };
        if background {
            return Ok(Outcome::text(format!(
                "Agent started in background with agent_id: {}. You'll be notified when it completes. Tell the user you're \
                 waiting and end your response, or continue unrelated work until notified.",
                task.id
            )));
        }
        let state = task
            .wait(|state| state.background || state.status != TaskStatus::Running)
            .await;
        Ok(match state.status {
            TaskStatus::Running => Outcome::text(format!(
                "Agent moved to the background with agent_id: {}. You'll be notified when it completes.",
                task.id
            )),
            TaskStatus::Completed => Outcome::text(state.result),
            TaskStatus::Cancelled => Outcome::failed(state.result, "failure"),
            TaskStatus::Failed if state.rejected => Outcome::failed(state.result, "rejected"),
            TaskStatus::Failed => Outcome::failed(format!("Agent failed: {}", state.result), "failure"),
        })
    }

    pub(crate) async fn read_agent(&self, args: Value) -> Result<Outcome, Stop> {
        let agents = &self.turn.shared.agents;
        let Some(id) = text(&args, "agent_id") else {
            return Ok(Outcome::failed("read_agent needs an `agent_id`.", "failure"));
        };
        let Some(task) = agents.find(&id) else {
            let known: Vec<String> = agents.list().into_iter().map(|task| task.id).collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            let text = format!("Agent not found: {id}. Known agents: {known}.");
            return Ok(Outcome::failed(text, "failure"));
        };
        if args["wait"] == true {
            let limit = args["timeout"].as_u64().unwrap_or(WAIT).min(LONGEST_WAIT);
            let _ = tokio::time::timeout(Duration::from_secs(limit), task.ended()).await;
        }
        let state = task.state.borrow().clone();
        if state.status != TaskStatus::Running {
            agents.drop_notice(&id);
        }
        Ok(Outcome::text(report(&task, &state)))
    }
}

/// How a sub-agent is doing, in the words of the Copilot CLI.
fn report(task: &Task, state: &State) -> String {
    let elapsed = state.took.unwrap_or_else(|| task.began.elapsed()).as_secs();
    let said = match state.status {
        TaskStatus::Running => "Agent is still running.",
        TaskStatus::Completed => "Agent completed.",
        TaskStatus::Failed => "Agent failed.",
        TaskStatus::Cancelled => "Agent was cancelled.",
    };
    let mut text = format!(
        "{said} agent_id: {}, agent_type: {}, status: {}, description: {}, elapsed: {elapsed}s, total_turns: 0",
        task.id,
        task.definition.name,
        state.status.as_str(),
        task.description,
    );
    if state.status == TaskStatus::Running {
        let activity = task.activity.lock();
        let _ = write!(text, ", tool_calls_completed: {}", activity.tool_calls);
        for (line, _) in &activity.lines {
            let _ = write!(text, "\n{line}");
        }
    } else {
        let _ = write!(text, ", duration: {elapsed}s\n\n{}", state.result);
    }
    text
}

impl Shared {
    /// An agent that may be started, or why not.
    pub(crate) fn startable(&self, kind: &str) -> Result<lodge_tools::custom::AgentDefinition, String> {
        let known = self.agent_types();
        if let Some(agent) = known.iter().find(|agent| agent.name == kind) {
            return Ok(agent.clone());
        }
        let names: Vec<&str> = known.iter().map(|agent| agent.name.as_str()).collect();
        Err(format!("Unknown agent type: {kind}. Valid types: {}", names.join(", ")))
    }

    /// What the log says of a skill whose text the model gets.
    pub(crate) fn skill_invoked(&self, skill: &Skill, content: String, trigger: SkillTrigger) -> SkillInvoked {
        let settings = self.settings.lock();
        let mut plugins = settings.customization.all_plugins();
        let plugin = plugins.find(|plugin| skill.path.starts_with(&plugin.root));
        SkillInvoked {
            name: skill.name.clone(),
            plugin_name: plugin.map(|plugin| plugin.name.clone()),
            plugin_version: plugin.and_then(|plugin| plugin.version.clone()),
            model: Some(settings.model.info().id.clone()),
            path: skill.path.to_string_lossy().into_owned(),
            content,
            disable_model_invocation: skill.disable_model_invocation.then_some(true),
            source: Some(skill.source.as_str().to_owned()),
            description: Some(skill.description.clone()),
            trigger: Some(trigger),
            ..SkillInvoked::default()
        }
    }

    /// Puts a skill's text into the conversation. The inner error says why it cannot be read.
    pub(crate) async fn invoke_skill(
        &self,
        skill: &Skill,
        trigger: SkillTrigger,
    ) -> Result<Result<(), String>, lodge_log::LogError> {
        let read = skill.clone();
        let content = match tokio::task::spawn_blocking(move || read.content()).await {
            Ok(Ok(content)) => content,
            Ok(Err(error)) => return Ok(Err(error)),
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.recorder.record(SkillInvoked {
            allowed_tools: (!skill.allowed_tools.is_empty()).then(|| skill.allowed_tools.clone()),
            ..self.skill_invoked(skill, content, trigger)
        })?;
        self.permissions.lend(skill.rules());
        Ok(Ok(()))
    }
}
