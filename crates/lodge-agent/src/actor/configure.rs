//! Changes to the settings of a session, between turns or during one.

use std::path::PathBuf;

use lodge_events::{
    COMMAND_SOURCE, Delivery, FileOperation, LodgeDirectories, MessageLane, PendingMessagesModified, RemovalReason,
    SessionInfo, SessionModelChange, SessionPlanChanged, UserMessage,
};
use lodge_external::Program;
use uuid::Uuid;

use super::{Actor, QueueChange};
use crate::{
    AgentError,
    customize::Loaded,
    queue::PendingMessage,
    session::GitContext,
    settings::{AutoChoice, Change, Prompt},
};

impl Actor {
    /// Changes a setting. Where clients see the change as an event, that is the event with this id.
    pub(super) fn configure(&mut self, change: Change, id: Uuid) -> Result<(), AgentError> {
        let recorder = &self.shared.recorder;
        match change {
            Change::ReasoningEffort(effort) => {
                let _one = self.shared.settings.one_at_a_time();
                let (model, previous) = {
                    let settings = self.shared.settings.lock();
                    (settings.model.info().id.clone(), settings.reasoning_effort.clone())
                };
                let changed = SessionModelChange {
                    previous_model: Some(model.clone()),
                    new_model: model,
                    previous_reasoning_effort: previous,
                    reasoning_effort: effort.clone(),
                    ..SessionModelChange::default()
                };
                recorder.record_as(id, changed)?;
                self.shared.settings.lock().reasoning_effort = effort;
            }
            Change::AutoTier { tier, at_once: true } => self.shared.settings.lock().auto = AutoChoice::of(tier),
            Change::AutoTier { tier, at_once: false } => {
                let auto = &mut self.shared.settings.lock().auto;
                auto.pending = (auto.tier != tier).then_some(tier);
            }
            Change::Limit(limit) => self.shared.set_limit(limit)?,
            Change::Mode(mode) => self.shared.set_mode_as(id, mode)?,
            Change::Name { name, automatic } => {
                self.shared.set_name(id, name, automatic)?;
            }
            Change::Cwd(cwd) => self.change_cwd(cwd)?,
            Change::Tools(tools) => self.shared.settings.lock().tools = tools,
            Change::SystemMessage(message) => self.shared.settings.lock().system_message = message,
            Change::Approval(approval) => self.shared.set_approval(id, approval)?,
            Change::AskByForm(by_form) => self.shared.settings.lock().ask_by_form = by_form,
            Change::LargeOutput { bytes, dir } => {
                let dir = {
                    let mut settings = self.shared.settings.lock();
                    settings.max_tool_output = bytes;
                    dir.map(|dir| settings.cwd.join(dir))
                };
                self.shared.tool_state.keep_large_results_in(dir);
            }
            Change::AdditionalDirectories(further) => self.change_directories(&further, None)?,
            Change::ChatDirectories { further, chosen } => self.change_directories(&further, chosen.as_deref())?,
            Change::Citations(citations) => self.shared.settings.lock().citations = citations,
            Change::Memory(memory) => self.shared.settings.lock().memory = memory,
            Change::Streaming(streaming) => self.shared.settings.lock().streaming = streaming,
            Change::ClientName(name) => self.shared.settings.lock().client_name = name,
            Change::Compaction(compaction) => self.shared.settings.lock().compaction = compaction,
            Change::HookFiles(which) => self.shared.settings.lock().hook_files = which,
            Change::InstructionDirectories(dirs) => self.shared.settings.lock().instruction_directories = dirs,
            Change::ForgetApprovals => {
                self.shared.permissions.forget_answers();
                self.shared.record_rules()?;
            }
            Change::Rules(change) => {
                self.shared.permissions.change(change).map_err(AgentError::Refused)?;
                self.shared.record_rules()?;
            }
            Change::ReasoningSummary(summary) => self.shared.settings.lock().reasoning_summary = summary,
            Change::OrganizationInstructions(text) => self.shared.settings.lock().organization_instructions = text,
            Change::Git(told) => self.shared.settings.lock().git = told,
            Change::ProjectInstructions(read) => self.shared.settings.lock().project_instructions = read,
            Change::Customization(change) => {
                change.apply(&mut self.shared.settings.lock().customization);
                // They are searched for again when they are needed.
                *self.shared.custom.lock() = Loaded::default();
                self.skills_told = false;
            }
            Change::AgentPrompt { agent, prompt } => {
                self.shared.settings.lock().customization.prompts.insert(agent, prompt);
            }
            Change::Subagents(subagents) => self.shared.settings.lock().subagents = subagents,
            Change::AllowedModels(allowed) => self.shared.settings.lock().allowed_models = allowed,
        }
        Ok(())
    }

    fn change_cwd(&mut self, cwd: PathBuf) -> Result<(), AgentError> {
        if !cwd.is_dir() {
            return Err(AgentError::Refused(format!(
                "{} is not a directory that exists.",
                cwd.display()
            )));
        }
        self.shared.recorder.record(GitContext::of(&cwd).changed(&cwd))?;
        self.shared.settings.lock().cwd = cwd;
        *self.shared.custom.lock() = Loaded::default();
        self.skills_told = false;
        Ok(())
    }

    /// The agent works in all directories of its session, or in those chosen for it.
    fn change_directories(&self, further: &[PathBuf], chosen: Option<&[PathBuf]>) -> Result<(), AgentError> {
        let texts = |all: &[PathBuf]| all.iter().map(|dir| dir.to_string_lossy().into_owned()).collect();
        let directories = LodgeDirectories {
            further: texts(further),
            chosen: chosen.map(texts),
        };
        let recorder = &self.shared.recorder;
        if !recorder.facts(|facts| facts.about.directories == directories) {
            recorder.record(directories.clone())?;
        }
        self.shared.settings.lock().additional_directories = crate::facts::further_directories(&directories);
        Ok(())
    }

    pub(super) fn plan(&self, plan: Option<String>) -> Result<(), AgentError> {
        let path = self.shared.plan_path();
        let failed =
            |error: std::io::Error| AgentError::Refused(format!("{} cannot be written: {error}", path.display()));
        let operation = match plan {
            Some(plan) => {
                let operation = if path.exists() {
                    FileOperation::Update
                } else {
                    FileOperation::Create
                };
                std::fs::create_dir_all(&self.shared.dir)
                    .and_then(|()| lodge_files::replace(&path, plan.as_bytes()))
                    .map_err(failed)?;
                operation
            }
            None if !path.exists() => return Ok(()),
            None => {
                std::fs::remove_file(&path).map_err(failed)?;
                FileOperation::Delete
            }
        };
        self.shared.recorder.record(SessionPlanChanged { operation })?;
        Ok(())
    }

    pub(super) fn change_queue(&mut self, change: QueueChange) -> Result<usize, AgentError> {
        let turn_runs = self.running.as_ref().is_some_and(|running| !running.compaction);
        if let QueueChange::Insert(at, prompt) = change {
            return match self.running.is_none() {
                true => self.send(*prompt).map(|_| 1),
                false => self.insert(at, *prompt),
            };
        }
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        let (waiting, steering) = queue.waiting(recorder, turn_runs);
        let find = |id: &str| waiting.iter().find(|message| message.id == id);
        let ids = |list: &[PendingMessage]| list.iter().map(|message| message.id.clone()).collect::<Vec<_>>();
        let changed = match change {
            QueueChange::Insert(..) => unreachable!("it was done above"),
            QueueChange::Clear => queue.remove(recorder, ids(&waiting), RemovalReason::Removed)?,
            QueueChange::RemoveLast => {
                let last = waiting.last().map(|message| message.id.clone());
                queue.remove(recorder, last.into_iter().collect(), RemovalReason::Removed)?
            }
            QueueChange::Remove(id) => {
                let known = find(&id).map(|message| message.id.clone());
                queue.remove(recorder, known.into_iter().collect(), RemovalReason::Removed)?
            }
            QueueChange::Reorder(order) => {
                let mut sorted = ids(&waiting);
                // A stable sort: messages that are not named keep their order behind the others.
                sorted.sort_by_key(|id| order.iter().position(|named| named == id).unwrap_or(usize::MAX));
                if sorted != ids(&waiting) {
                    queue.put_first(Uuid::new_v4(), recorder, MessageLane::Next, sorted)?;
                }
                0
            }
            QueueChange::Reword(id, text, display_text) => match find(&id) {
                Some(_) => usize::from(queue.reword(recorder, &id, text, display_text)?),
                None => return Ok(0),
            },
            // A command cannot be sent to the model.
            QueueChange::Steer(id) => match find(&id).filter(|found| turn_runs && found.item.command.is_none()) {
                Some(_) => {
                    let order = ids(&steering).into_iter().chain([id]).collect();
                    queue.put_first(Uuid::new_v4(), recorder, MessageLane::Steer, order)?;
                    1
                }
                None => 0,
            },
        };
        recorder.record(PendingMessagesModified::default())?;
        Ok(changed)
    }

    /// Inserts a new message at this position, while a turn runs.
    fn insert(&mut self, at: usize, prompt: Prompt) -> Result<usize, AgentError> {
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        let before = queue.waiting(recorder, true).0.into_iter().nth(at);
        let at = recorder.facts(|facts| {
            let place = |id: &str| facts.pending.next.iter().position(|message| message.id == id);
            before.and_then(|message| place(&message.id)).unwrap_or(usize::MAX)
        });
        self.accept(prompt, Some(at))?;
        Ok(1)
    }

    /// Refuses operations that another program's agent cannot do, because it keeps the conversation itself.
    pub(super) fn only_with_models(&self, what: &str) -> Result<(), AgentError> {
        let settings = self.shared.settings.lock();
        match Program::behind(&*settings.model) {
            Some(program) => Err(AgentError::Refused(program.cannot(what))),
            None => Ok(()),
        }
    }

    pub(super) fn truncate(&self, event: Uuid) -> Result<u64, AgentError> {
        self.only_with_models("take back what was said")?;
        if self.running.is_some() || !self.shared.agents.running().is_empty() {
            return Err(AgentError::Busy);
        }
        self.shared.compacting.cancel();
        self.shared.recorder.rewind(event)
    }

    pub(super) fn put_back(&self) -> Result<bool, AgentError> {
        if self.running.is_some() {
            return Err(AgentError::Busy);
        }
        let back = self.shared.recorder.put_back()?;
        if back {
            // No log has it, and without it a listener would take the last turn for unfinished.
            self.tell_idle(crate::turn::Ended::Finished);
        }
        Ok(back)
    }

    /// Shows a command and its answer like a turn, but not to the model.
    pub(super) fn commanded(&mut self, [id, text, answer]: [String; 3]) -> Result<(), AgentError> {
        if self.running.is_some() {
            return Err(AgentError::Busy);
        }
        let recorder = &self.shared.recorder;
        recorder.record(UserMessage {
            content: text,
            message_id: Some(id.clone()),
            source: Some(COMMAND_SOURCE.into()),
            delivery: Some(Delivery::Idle),
            ..UserMessage::default()
        })?;
        self.shared.queue.concluded(&id);
        recorder.record(SessionInfo {
            info_type: COMMAND_SOURCE.into(),
            message: answer,
            ..SessionInfo::default()
        })?;
        if !self.go_on() {
            self.tell_idle(crate::turn::Ended::Finished);
        }
        Ok(())
    }

    /// Starts the next queued message, if nothing runs and no client has to prepare it first. Returns whether a turn
    /// begins.
    pub(super) fn go_on(&mut self) -> bool {
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        let can = self.running.is_none() && !queue.next_needs_preparation(recorder) && queue.has_next(recorder);
        can && self.lease().is_ok() && self.start_next(Delivery::Queued)
    }

    pub(super) fn clear_context(&self, initial_message: Option<String>) -> Result<u64, AgentError> {
        self.only_with_models("forget the conversation")?;
        if self.running.is_some() || !self.shared.agents.running().is_empty() {
            return Err(AgentError::Busy);
        }
        self.shared.compacting.cancel();
        let (messages, _) = self.shared.recorder.size()?;
        let cleared = lodge_events::SessionContextCleared {
            initial_message,
            messages_cleared: messages as u64,
        };
        self.shared.recorder.record(cleared)?;
        Ok(messages as u64)
    }
}
