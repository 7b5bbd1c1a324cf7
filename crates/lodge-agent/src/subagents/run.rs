//! The life of a sub-agent.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use jiff::Timestamp;
use lodge_events::{
    AgentCompleted, AgentStatus, AssistantTurnEnd, Delivery, Notification, SubagentCompleted, SubagentConfigured,
    SubagentFailed, SubagentStarted, SystemNotification, TaskModelSource,
};
use lodge_external::Program;
use lodge_log::LogError;
use lodge_models::{Model, ResponseFormat};
use lodge_tools::custom::AgentDefinition;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{MAX_RUNNING, Sub, Task, TaskStatus, registry::State};
use crate::{
    changing::Changing,
    hooks::{Step, Subagent},
    session::Shared,
    settings::{Prompt, Settings},
    system_prompt::SystemMessage,
    turn::{self, MOST_BLOCKED_STOPS, Stop, Turn},
};

/// A sub-agent to start.
pub(crate) struct Spawn {
    pub(crate) definition: AgentDefinition,
    pub(crate) prompt: String,
    /// Its name, which becomes the id of one that nobody waits for.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    /// The tool call that starts it; a client's wish has none.
    pub(crate) tool_call_id: Option<String>,
    pub(crate) background: bool,
    /// What ends it, beside its own end.
    pub(crate) cancel: CancellationToken,
    /// The form that its answer must have.
    pub(crate) response_format: Option<Arc<ResponseFormat>>,
    /// The factory run that starts it.
    pub(crate) factory_run: Option<String>,
}

impl Shared {
    /// Starts a sub-agent of this agent. The error is for whoever asked.
    pub(crate) async fn spawn_agent(self: &Arc<Self>, spawn: Spawn) -> Result<Arc<Task>, String> {
        let (settings, source) = self.sub_settings(&spawn).await?;
        let id = self.agent_id(&spawn);
        let tool_call_id = spawn.tool_call_id.clone().unwrap_or_else(|| id.to_string());
        let definition = Arc::new(spawn.definition);
        let state = State {
            status: TaskStatus::Running,
            background: spawn.background,
            ended: None,
            took: None,
            cost: 0.0,
            result: String::new(),
            rejected: false,
        };
        let task = Arc::new(Task {
            id: id.clone(),
            tool_call_id: tool_call_id.clone(),
            definition: definition.clone(),
            name: spawn.name,
            description: spawn.description,
            prompt: spawn.prompt,
            asked_model: spawn.model,
            response_format: spawn.response_format,
            factory_run: spawn.factory_run,
            model: settings.model.info().id.clone(),
            parent: self.sub.as_ref().map(|sub| sub.task.id.clone()),
            started: Timestamp::now(),
            began: Instant::now(),
            cancel: spawn.cancel,
            interjections: Arc::default(),
            state: watch::Sender::new(state),
            activity: Mutex::default(),
        });
        let most = self.root().settings.lock().subagents.max_running.unwrap_or(MAX_RUNNING);
        self.agents.add(task.clone(), most)?;
        let root = match &self.sub {
            Some(sub) => sub.root.clone(),
            None => self.clone(),
        };
        let child = Arc::new(Shared {
            id: self.id.clone(),
            dir: self.dir.clone(),
            recorder: self.recorder.for_agent(id.clone(), &tool_call_id),
            pending: self.pending.for_agent(id.clone()),
            earlier_answers: Mutex::default(),
            settings: Changing::new(settings),
            clients: self.clients.clone(),
            builtins: self.builtins.clone(),
            tool_state: self.tool_state.clone(),
            permissions: self.permissions.clone(),
            changes: self.changes.clone(),
            trust: self.trust.clone(),
            hooks: self.hooks.clone(),
            mcp: self.mcp.clone(),
            logins: self.logins.clone(),
            agent_servers: self.agent_servers.clone(),
            offered: Mutex::default(),
            compacting: Default::default(),
            queue: Default::default(),
            interjections: task.interjections.clone(),
            notice: Mutex::default(),
            program: crate::program::ProgramSlot::default(),
            program_not_continued: std::sync::atomic::AtomicBool::new(false),
            program_commands: Mutex::default(),
            program_usage: Mutex::default(),
            greeted: true.into(),
            busy: true.into(),
            custom: self.custom.clone(),
            agents: self.agents.clone(),
            sub: Some(Sub {
                root,
                task: task.clone(),
                definition,
                depth: self.depth() + 1,
            }),
        });
        if let Err(error) = announce(&child, &task, source) {
            task.state.send_modify(|state| state.status = TaskStatus::Failed);
            self.agents.remove(&id);
            return Err(error.to_string());
        }
        tokio::spawn(live(self.clone(), child, task.clone()));
        if task.state.borrow().background {
            self.agents.changed.notify_one();
        }
        Ok(task)
    }

    /// Like those of the agent that starts it, with the model and effort it shall have.
    async fn sub_settings(&self, spawn: &Spawn) -> Result<(Settings, TaskModelSource), String> {
        let mut settings = self.settings();
        let configured = settings
            .subagents
            .agents
            .get(&spawn.definition.name)
            .cloned()
            .unwrap_or_default();
        let before = settings.model.info().id.clone();
        let (name, source) = if let Some(name) = &spawn.model {
            (Some(name.clone()), TaskModelSource::TaskArgument)
        } else if let Some(name) = configured.model {
            (Some(name), TaskModelSource::SubagentConfiguration)
        } else if let Some(name) = spawn.definition.model.clone() {
            (Some(name), TaskModelSource::CustomAgentDefinition)
        } else {
            (None, TaskModelSource::Unset)
        };
        let (name, composed) = name.map_or((None, None), |name| split_effort(&name));
        if let Some(name) = name {
            match self.find_model(&name).await {
                Ok(model) => settings.model = model,
                // Only a wish that was made for this very task is worth failing for.
                Err(error) if source == TaskModelSource::TaskArgument => return Err(error),
                Err(error) => tracing::info!(%error, "the agent runs with the model of the session"),
            }
        }
        if let Some(program) = Program::behind(&*settings.model)
            && spawn.definition.tools.is_some()
        {
            let kind = &spawn.definition.name;
            return Err(program.cannot(&format!("be limited to the tools of the agent `{kind}`")));
        }
        let same = settings.model.info().id == before;
        let inherited = settings.reasoning_effort.take().filter(|_| same);
        settings.reasoning_effort = (spawn.effort.clone())
            .or(composed)
            .or(configured.effort)
            .or_else(|| spawn.definition.reasoning_effort.clone())
            .or(inherited);
        settings.system_message = SystemMessage::Default;
        settings.name = None;
        Ok((settings, source))
    }

    /// A model by its name, from wherever the session gets its models.
    pub(crate) async fn find_model(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        let (current, models) = {
            let settings = self.settings.lock();
            settings.check_allowed(name)?;
            (settings.model.clone(), settings.models.clone())
        };
        if current.info().id == name {
            return Ok(current);
        }
        match models {
            Some(models) => models.model(name.to_owned()).await,
            None => Err(format!("Model '{name}' is not available.")),
        }
    }

    /// One that is waited for has the id of its call, one in the background that of its name.
    fn agent_id(&self, spawn: &Spawn) -> Arc<str> {
        let used = |id: &str| self.agents.knows(id) || self.root().recorder.facts(|facts| facts.agent_ids.contains(id));
        let wanted = match &spawn.tool_call_id {
            Some(call) if !spawn.background => call.clone(),
            _ => slug(&spawn.name).unwrap_or_else(|| Uuid::new_v4().to_string()),
        };
        let mut id = wanted.clone();
        let mut number = 2;
        while used(&id) {
            id = format!("{wanted}-{number}");
            number += 1;
        }
        id.into()
    }
}

/// `claude-sonnet-5:defaultReasoningEffort=high` names a model and how hard it shall think.
fn split_effort(name: &str) -> (Option<String>, Option<String>) {
    match name.split_once(":defaultReasoningEffort=") {
        Some((name, effort)) => (Some(name.to_owned()), Some(effort.to_owned())),
        None => (Some(name.to_owned()), None),
    }
}

/// A name that can be an id: letters, digits and dashes.
fn slug(name: &str) -> Option<String> {
    let kept: String = name
        .trim()
        .chars()
        .map(|letter| {
            if letter.is_alphanumeric() || matches!(letter, '_' | '.') {
                letter
            } else {
                '-'
            }
        })
        .take(64)
        .collect();
    kept.chars().any(char::is_alphanumeric).then_some(kept)
}

fn announce(child: &Shared, task: &Task, source: TaskModelSource) -> Result<(), LogError> {
    let background = task.state.borrow().background;
    child.recorder.record(SubagentStarted {
        tool_call_id: task.tool_call_id.clone(),
        agent_name: task.definition.name.clone(),
        agent_display_name: task.definition.shown_name().to_owned(),
        agent_description: task.definition.description.clone(),
        model: Some(task.model.clone()),
        task_model_source: Some(source),
        parent_id: task.parent.as_deref().map(str::to_owned),
        execution_mode: Some(if background { "background" } else { "sync" }.into()),
        factory_run_id: task.factory_run.clone(),
        ..SubagentStarted::default()
    })?;
    child.recorder.record(SubagentConfigured {
        model: task.model.clone(),
        reasoning_effort: child.settings.lock().reasoning_effort.clone(),
        multi_turn: false,
        ..SubagentConfigured::default()
    })?;
    Ok(())
}

/// Runs to the end, whatever that is, and records it.
async fn live(parent: Arc<Shared>, child: Arc<Shared>, task: Arc<Task>) {
    let work = tokio::select! {
        biased;
        () = task.cancel.cancelled() => None,
        result = AssertUnwindSafe(work(&parent, &child, &task)).catch_unwind() => Some(result),
    };
    child.agents.children_ended(&task.id).await;
    child.compacting.cancel();
    child.withdraw_questions();
    let rejected = matches!(work, Some(Ok(Err(Stop::Rejected))));
    let cut = match &work {
        Some(Err(_)) => turn::Cut::Crashed,
        _ => turn::Cut::Interrupted,
    };
    let (status, result) = match work {
        None => (TaskStatus::Cancelled, "The agent was stopped.".to_owned()),
        Some(Ok(Ok(()))) => (TaskStatus::Completed, answer(&task)),
        Some(Ok(Err(Stop::Rejected))) => (
            TaskStatus::Failed,
            "The user rejected a tool call of this agent.".to_owned(),
        ),
        Some(Ok(Err(Stop::Model(error)))) => (TaskStatus::Failed, error.message.clone()),
        Some(Ok(Err(Stop::Unprepared(reason)))) => (TaskStatus::Failed, reason),
        Some(Ok(Err(Stop::Log(error)))) => (
            TaskStatus::Failed,
            format!("The session's log cannot be written: {error}"),
        ),
        Some(Err(_)) => {
            tracing::error!(session = %child.id, agent = %task.id, "a sub-agent crashed");
            (
                TaskStatus::Failed,
                "Internal error: the sub-agent crashed. Please report this.".to_owned(),
            )
        }
    };
    let took = task.began.elapsed();
    let closed = turn::cut_open_calls(&child, cut)
        .and_then(|()| child.recorder.settle_answer())
        .and_then(|()| turn::end_model_call(&child.recorder));
    if let Err(error) = closed.and_then(|()| record_end(&child, &task, status, &result, took)) {
        tracing::warn!(session = %child.id, %error, "the end of a sub-agent could not be recorded");
    }
    let cost = child
        .recorder
        .facts(|facts| facts.totals.models.values().map(|model| model.cost).sum());
    let background = task.state.borrow().background;
    if background && status != TaskStatus::Cancelled {
        child.agents.notify(task.id.clone(), notice(&task, status, &result));
    }
    task.state.send_modify(|state| {
        state.status = status;
        state.ended = Some(Timestamp::now());
        state.took = Some(took);
        state.cost = cost;
        state.result = result;
        state.rejected = rejected;
    });
    if background {
        child.agents.changed.notify_one();
    } else {
        // Whoever waited has the answer.
        child.agents.remove(&task.id);
    }
}

async fn work(parent: &Shared, child: &Arc<Shared>, task: &Task) -> Result<(), Stop> {
    let started = parent.hook(Step::SubagentStart(told_to_hooks(child, task))).await?;
    let text = match started.additional_context {
        Some(context) => format!("{context}\n\n{}", task.prompt),
        None => task.prompt.clone(),
    };
    let mut turn = Turn::new(child.clone(), task.cancel.clone());
    let model = child.settings.lock().model.clone();
    if let Some(program) = Program::behind(&*model) {
        return turn.work_as_sub_agent(program, &task.definition, text).await;
    }
    turn.prepare_system().await?;
    let prompt = Prompt {
        text,
        response_format: task.response_format.clone(),
        ..Prompt::default()
    };
    turn.add_user_message(prompt, None, Delivery::Idle).await?;
    turn.work(0).await
}

/// What hooks are told of a sub-agent.
fn told_to_hooks<'a>(child: &Shared, task: &'a Task) -> Subagent<'a> {
    let definition = &task.definition;
    let described = definition.source != lodge_tools::custom::AgentSource::Builtin;
    Subagent {
        transcript_path: child.dir.join("events.jsonl").to_string_lossy().into_owned().into(),
        agent_name: &definition.name,
        agent_display_name: described.then(|| definition.shown_name()),
        agent_description: described.then_some(definition.description.as_str()),
    }
}

impl Turn {
    /// Asks hooks whether a sub-agent may stop here, and with which answer.
    pub(crate) async fn sub_agent_may_stop(&mut self) -> Result<bool, Stop> {
        let Some(sub) = &self.shared.sub else { return Ok(true) };
        let task = sub.task.clone();
        let step = Step::SubagentStop {
            agent: told_to_hooks(&self.shared, &task),
            agent_type: &task.definition.name,
            agent_id: &task.id,
            stop_reason: "end_turn",
            response: &answer(&task),
        };
        let output = sub.root.hook(step).await?;
        match output.blocks_stop() {
            Some(why) if self.blocked_stops < MOST_BLOCKED_STOPS => {
                self.blocked_stops += 1;
                self.add_user_message(Prompt::of_hook(why), None, Delivery::Steering)
                    .await?;
                Ok(false)
            }
            _ => {
                task.activity.lock().changed = output.modified_response.clone();
                Ok(true)
            }
        }
    }
}

fn answer(task: &Task) -> String {
    let activity = task.activity.lock();
    let said = activity.changed.clone().or_else(|| activity.response.clone());
    said.unwrap_or_else(|| "The agent ended without an answer.".to_owned())
}

fn record_end(child: &Shared, task: &Task, status: TaskStatus, result: &str, took: Duration) -> Result<(), LogError> {
    let tokens = child.recorder.facts(|facts| {
        let models = facts.totals.models.values();
        models.map(|model| model.input + model.output).sum::<u64>()
    });
    let tool_calls = task.activity.lock().tool_calls;
    let (tool_call_id, agent_name) = (task.tool_call_id.clone(), task.definition.name.clone());
    let agent_display_name = task.definition.shown_name().to_owned();
    let (model, duration_ms) = (Some(task.model.clone()), Some(took.as_millis() as u64));
    match status {
        TaskStatus::Failed => child.recorder.record(SubagentFailed {
            tool_call_id,
            agent_name,
            agent_display_name,
            error: result.to_owned(),
            model,
            total_tool_calls: Some(tool_calls),
            total_tokens: Some(tokens),
            duration_ms,
            ..SubagentFailed::default()
        })?,
        _ => child.recorder.record(SubagentCompleted {
            tool_call_id,
            agent_name,
            agent_display_name,
            model,
            total_tool_calls: Some(tool_calls),
            total_tokens: Some(tokens),
            duration_ms,
            cancelled: (status == TaskStatus::Cancelled).then_some(true),
            ..SubagentCompleted::default()
        })?,
    };
    Ok(())
}

fn notice(task: &Task, status: TaskStatus, result: &str) -> SystemNotification {
    let (id, kind) = (&task.id, &task.definition.name);
    let content = match status {
        TaskStatus::Completed => format!(
            "Agent \"{id}\" ({kind}) has completed successfully. Use read_agent with agent_id \"{id}\" to retrieve the full \
             results."
        ),
        _ => format!("Agent \"{id}\" ({kind}) has failed: {result}"),
    };
    notification(
        &content,
        AgentCompleted {
            agent_id: id.to_string(),
            display_name: Some(task.name.clone()),
            agent_type: kind.clone(),
            status: match status {
                TaskStatus::Completed => AgentStatus::Completed,
                _ => AgentStatus::Failed,
            },
            description: Some(task.description.clone()),
            prompt: Some(task.prompt.clone()),
        },
    )
}

fn notification(content: &str, kind: AgentCompleted) -> SystemNotification {
    SystemNotification {
        content: format!("<system_notification>\n{content}\n</system_notification>"),
        kind: Notification::AgentCompleted(kind),
    }
}

/// Says of sub-agents that did not outlive the host what became of them: they were interrupted. Those in the background
/// nobody else would tell the model of.
pub(crate) fn settle_interrupted(shared: &Shared) -> Result<bool, LogError> {
    let mut open = shared.recorder.facts(|facts| facts.open_agents.clone());
    // Those that run here are open, too.
    open.retain(|id, _| !shared.agents.knows(id));
    for (id, agent) in &open {
        let recorder = shared.recorder.for_agent(id.as_str().into(), &agent.tool_call_id);
        for call in &agent.calls {
            turn::interrupt_call(&recorder, call)?;
        }
        if let Some(message) = agent.unfinished.message() {
            recorder.record(message)?;
        }
        if let Some(turn_id) = agent.open_model_call.clone() {
            recorder.record(AssistantTurnEnd {
                turn_id,
                ..AssistantTurnEnd::default()
            })?;
        }
        let error = "The host stopped while the agent was at work; it counts as interrupted.";
        recorder.record(SubagentFailed {
            tool_call_id: agent.tool_call_id.clone(),
            agent_name: agent.name.clone(),
            agent_display_name: agent.display_name.clone(),
            error: error.into(),
            ..SubagentFailed::default()
        })?;
        if agent.background {
            let content = format!("Agent \"{id}\" ({}) was interrupted: {error}", agent.name);
            let kind = AgentCompleted {
                agent_id: id.clone(),
                display_name: Some(agent.display_name.clone()),
                agent_type: agent.name.clone(),
                status: AgentStatus::Failed,
                ..AgentCompleted::default()
            };
            shared.recorder.record(notification(&content, kind))?;
        }
    }
    Ok(!open.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_an_id() {
        for (name, expected) in [
            ("read-file", Some("read-file")),
            ("Read the file!", Some("Read-the-file-")),
            ("  ", None),
            ("--", None),
        ] {
            assert_eq!(slug(name).as_deref(), expected, "{name:?}");
        }
    }

    #[test]
    fn a_model_may_carry_an_effort() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(split_effort("m"), (text("m"), None));
        assert_eq!(split_effort("m:defaultReasoningEffort=high"), (text("m"), text("high")));
    }
}
