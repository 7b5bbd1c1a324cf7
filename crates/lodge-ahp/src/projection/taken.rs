//! One event: what it does.

use ahp_types::{
    StateAction,
    actions::{
        ChatTurnResumeAction, SessionActivityChangedAction, SessionConfigChangedAction, SessionTitleChangedAction,
    },
    state::ErrorInfo,
};
use lodge_events::{Event, Payload};
use lodge_host::Approval;
use serde_json::{Value, json};

use super::{Projector, Scope, Step, answers::markdown, error_info, object, turns::End};
use crate::session_config::{DEFAULT_EFFORT, EFFORT, approval_values};

impl Projector {
    pub(super) fn take(&mut self, event: &Event) {
        let of_agent = self.scope(event, None);
        if of_agent == Some(Scope::Main) && goes_on(event.payload()) {
            self.resume();
        }
        if self.retrying && of_agent == Some(Scope::Main) && answers(event.payload()) {
            self.retrying = false;
            self.activity(None);
        }
        match event.payload() {
            Payload::SessionStart(start) => start.context.iter().for_each(|context| self.works_in(&context.cwd)),
            Payload::SessionResume(resumed) => resumed.context.iter().for_each(|context| self.works_in(&context.cwd)),
            Payload::SessionContextChanged(context) => self.works_in(&context.cwd),
            Payload::UserMessage(message) => self.user_message(event, message, of_agent),
            Payload::LodgeMessageWritten(written) => self.written(written),
            Payload::LodgeMessageQueued(_)
            | Payload::LodgeMessageBegun(_)
            | Payload::LodgeMessageEdited(_)
            | Payload::LodgeMessageMoved(_)
            | Payload::LodgeMessageRemoved(_)
            | Payload::LodgeMessageParked(_) => self.queue_event(event.payload()),
            Payload::LodgeTurnResumed(_) => self.resume(),
            Payload::LodgeProgram(_) if of_agent == Some(Scope::Main) => self.is_program = true,
            Payload::AssistantTurnStart(_) => {
                self.joined_late = false;
                if let Some(scope) = of_agent {
                    self.chat(&scope).answered_at = None;
                    self.running_turn(&scope);
                }
            }
            Payload::AssistantIntent(intent) if of_agent == Some(Scope::Main) => {
                self.activity(Some(intent.intent.clone()));
            }
            Payload::AssistantTurnRetry(_) if of_agent == Some(Scope::Main) => self.retrying = true,
            Payload::AssistantMessageDelta(delta) => {
                let scope = self.scope(event, delta.parent_tool_call_id.as_deref());
                self.text_delta(scope, &delta.message_id, &delta.delta_content);
            }
            Payload::LodgePartial(piece) => self.text_piece(of_agent, piece),
            Payload::AssistantReasoningDelta(delta) => {
                self.reasoning_delta(of_agent, &delta.reasoning_id, &delta.delta_content);
            }
            Payload::AssistantReasoning(reasoning) => {
                self.complete_reasoning(of_agent, &reasoning.reasoning_id, &reasoning.content);
            }
            Payload::AssistantMessage(message) => {
                let scope = self.scope(event, message.parent_tool_call_id.as_deref());
                if let Some(scope) = &scope {
                    let is_last = message.tool_requests.as_ref().is_none_or(Vec::is_empty);
                    self.chat(scope).answered_at = is_last.then_some(self.now);
                }
                self.assistant_message(scope, message);
            }
            // The log has this one; `assistant.usage` says the same and is gone with the moment.
            Payload::LodgeUsage(usage) => self.usage(of_agent, usage),
            Payload::SessionIdle(idle) => {
                let end = if idle.aborted == Some(true) {
                    End::Cancelled
                } else {
                    End::Complete
                };
                self.end_turn(&Scope::Main, end);
                self.main.muted = false;
                self.answered.clear();
                self.activity(None);
                if self.main.completed {
                    self.out.push(Step::Rested);
                }
            }
            Payload::SessionInfo(info) if info.info_type == lodge_host::INTERRUPTED_INFO => self.interrupted(),
            // The turn is over for people, also when sub-agents go on in the background and the session is not idle.
            Payload::AssistantIdle(idle) if of_agent == Some(Scope::Main) && idle.aborted != Some(true) => {
                if self.subs.values().any(|chat| chat.turn.is_some()) {
                    self.end_turn(&Scope::Main, End::Complete);
                    if self.main.completed {
                        self.out.push(Step::Rested);
                    }
                }
            }
            Payload::Abort(_) => {
                for scope in self.scopes() {
                    self.end_turn(&scope, End::Cancelled);
                }
                self.main.muted = true;
            }
            Payload::SessionError(error) => {
                let info = ErrorInfo {
                    meta: error.status_code.map(|status| object(json!({ "statusCode": status }))),
                    ..error_info(&error.error_type, &error.message)
                };
                let scope = of_agent.unwrap_or(Scope::Main);
                // What cannot be written down cannot be gone on from, but what failed before can still be.
                let unwritten = error.error_type == "storage";
                if let Some(turn) = self.chat(&scope).turn.as_mut().filter(|_| unwritten) {
                    // Perhaps not even its message could be: nothing more comes of it.
                    turn.taken_up = true;
                }
                let unprepared = error.error_type == lodge_host::PREPARATION_FAILED;
                let resumable = scope == Scope::Main && !unwritten && !unprepared;
                self.end_turn(&scope, End::Error(info, resumable));
            }
            Payload::SessionTitleChanged(changed) => {
                let action = SessionTitleChangedAction {
                    title: changed.title.clone(),
                };
                self.act(&Scope::Session, StateAction::SessionTitleChanged(action));
            }
            Payload::SessionModeChanged(changed) if of_agent == Some(Scope::Main) => {
                self.config(json!({ "mode": changed.new_mode }));
            }
            Payload::SessionModelChange(changed) if of_agent == Some(Scope::Main) => {
                self.config(json!({ "model": changed.new_model }));
                if changed.reasoning_effort != changed.previous_reasoning_effort {
                    let effort = changed.reasoning_effort.as_deref().unwrap_or(DEFAULT_EFFORT);
                    self.config(json!({ EFFORT: effort }));
                }
            }
            Payload::LodgeApproval(approval) => {
                // One action for each: a client that set one of them waits for just that.
                for (key, value) in approval_values(Approval::from(&approval.mode)) {
                    self.config(json!({ key: value }));
                }
            }
            Payload::SystemNotification(note) => {
                let content = note.content.replace("<system_notification>", "");
                let content = content.replace("</system_notification>", "");
                let content = content.trim();
                if of_agent == Some(Scope::Main) {
                    self.rested();
                }
                if of_agent == Some(Scope::Main) && self.main.turn.is_none() {
                    self.told = Some(content.to_owned());
                }
                self.notice(of_agent, content);
            }
            // Some commands have nothing to say.
            Payload::SessionInfo(info) if info.info_type == lodge_events::COMMAND_SOURCE && info.message.is_empty() => {
            }
            Payload::SessionInfo(info) if info.info_type == lodge_events::COMMAND_SOURCE => {
                self.command_answer(event, &info.message, of_agent);
            }
            Payload::SessionWarning(warning) => self.notice(of_agent, &warning.message),
            Payload::SessionCompactionComplete(done) if done.success => {
                self.notice(of_agent, "The conversation was summarised to make room.");
            }
            Payload::SessionTaskComplete(done) => {
                if let (Some(summary), Some(scope)) = (&done.summary, of_agent) {
                    self.part(&scope, markdown(event.id().to_string(), summary.clone()));
                }
            }
            Payload::SessionSnapshotRewind(rewind) => self.rewound(&rewind.up_to_event_id),
            Payload::SubagentStarted(started) => self.subagent_started(event, started),
            Payload::SubagentCompleted(done) => {
                let end = if done.cancelled == Some(true) {
                    End::Cancelled
                } else {
                    End::Complete
                };
                self.end_turn(&Scope::Sub(done.tool_call_id.clone()), end);
                self.background_ended(&done.tool_call_id);
            }
            Payload::SubagentFailed(failed) => {
                let info = error_info("subagent", &failed.error);
                self.end_turn(&Scope::Sub(failed.tool_call_id.clone()), End::Error(info, false));
                self.background_ended(&failed.tool_call_id);
            }
            _ => {
                if !self.tool_event(event) {
                    self.input_event(event);
                }
            }
        }
    }

    /// The agent goes on with a turn that failed, whoever told it to. Logs of earlier builds tell it by what it does then.
    fn resume(&mut self) {
        if self.main.turn.is_none()
            && !self.main.muted
            && let Some(failed) = self.main.failed.take()
        {
            let turn_id = failed.id.clone();
            self.main.turn = Some(failed);
            self.act(
                &Scope::Main,
                StateAction::ChatTurnResume(ChatTurnResumeAction { turn_id }),
            );
        }
    }

    fn activity(&mut self, activity: Option<String>) {
        let action = SessionActivityChangedAction { activity };
        self.act(&Scope::Session, StateAction::SessionActivityChanged(action));
    }

    fn config(&mut self, config: Value) {
        let action = SessionConfigChangedAction {
            config: object(config),
            replace: None,
        };
        self.act(&Scope::Session, StateAction::SessionConfigChanged(action));
    }
}

/// Whether an event shows that the model answers.
fn answers(payload: &Payload) -> bool {
    matches!(
        payload,
        Payload::AssistantMessageDelta(_) | Payload::AssistantReasoningDelta(_) | Payload::AssistantMessage(_)
    )
}

/// Whether an event shows that the agent works on a turn. Tool calls that were closed after a crash do not; they tell no
/// turn.
fn goes_on(payload: &Payload) -> bool {
    match payload {
        Payload::AssistantTurnStart(_) | Payload::PermissionRequested(_) => true,
        Payload::ToolExecutionStart(start) => start.turn_id.is_some(),
        _ => false,
    }
}

/// Whether an event tells of something that the agent did, rather than of what was found out or set about it.
pub(super) fn is_work(payload: &Payload) -> bool {
    match payload {
        Payload::ToolExecutionComplete(done) => {
            let code = done.error.as_ref().and_then(|error| error.code.as_deref());
            code != Some(lodge_host::INTERRUPTED_INFO)
        }
        Payload::UserMessage(_) | Payload::AssistantMessage(_) | Payload::LodgePartial(_) | Payload::LodgeUsage(_) => {
            true
        }
        other => goes_on(other),
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::{Event, SessionError};

    use super::*;
    use crate::projection::Step;

    /// What the agent tells when its log cannot be written, and what becomes of the turn: its error, and whether it can be resumed.
    fn unwritten(projector: &mut Projector) -> Option<(String, Option<bool>)> {
        let error = SessionError {
            error_type: "storage".into(),
            message: "no space".into(),
            ..SessionError::default()
        };
        let steps = projector.event(&Event::new_ephemeral(None, None, error));
        steps.into_iter().find_map(|step| match step {
            Step::Act(_, action) => match *action {
                StateAction::ChatError(failed) => Some((failed.turn_id, failed.part.resumable)),
                _ => None,
            },
            _ => None,
        })
    }

    fn queued(id: &str) -> Event {
        let queued = lodge_events::LodgeMessageQueued {
            message_id: id.into(),
            begins: Some(true),
            ..lodge_events::LodgeMessageQueued::default()
        };
        Event::new(None, None, queued)
    }

    #[test]
    fn a_turn_fails_whose_message_cannot_be_written() {
        let mut projector = Projector::default();
        projector.event(&queued("t1"));
        assert_eq!(unwritten(&mut projector), Some(("t1".into(), None)));
        assert!(!projector.can_resume("t1"));
        // Nothing waits any more, so the next one can begin.
        assert_eq!(unwritten(&mut projector), None);
        projector.event(&queued("t2"));
        assert_eq!(unwritten(&mut projector), Some(("t2".into(), None)));
    }

    #[test]
    fn a_turn_that_could_not_be_prepared_stays_and_cannot_be_resumed() {
        let mut projector = Projector::default();
        let user = lodge_events::UserMessage {
            message_id: Some("t1".into()),
            ..lodge_events::UserMessage::default()
        };
        projector.event(&Event::new(None, None, user));
        let error = SessionError {
            error_type: lodge_host::PREPARATION_FAILED.into(),
            ..SessionError::default()
        };
        projector.event(&Event::new(None, None, error));
        assert!(!projector.can_resume("t1"));
    }

    #[test]
    fn a_turn_that_failed_goes_on_when_the_log_says_so_and_can_fail_again() {
        let mut projector = Projector::default();
        let user = lodge_events::UserMessage {
            message_id: Some("t1".into()),
            ..lodge_events::UserMessage::default()
        };
        projector.event(&Event::new(None, None, user));
        for _ in 0..3 {
            projector.event(&Event::new(None, None, SessionError::default()));
            assert!(projector.can_resume("t1"));
            let resumed = lodge_events::LodgeTurnResumed {
                message_id: "t1".into(),
            };
            let steps = projector.event(&Event::new(None, None, resumed));
            let reopened = |step: &Step| matches!(step, Step::Act(_, action) if matches!(**action, StateAction::ChatTurnResume(_)));
            assert!(steps.iter().any(reopened) && !projector.can_resume("t1"));
        }
    }

    #[test]
    fn a_file_of_the_same_name_elsewhere_is_shown_as_what_it_is() {
        for (asked, shown) in [("/w/a.rs", "`a.rs`"), ("/etc/a.rs", "`/etc/a.rs`")] {
            let mut projector = Projector::in_directory("/w");
            let user = lodge_events::UserMessage {
                message_id: Some("t1".into()),
                ..lodge_events::UserMessage::default()
            };
            projector.event(&Event::new(None, None, user));
            let request = lodge_events::ToolRequest {
                tool_call_id: "c1".into(),
                name: "edit".into(),
                arguments: Some(json!({ "path": "a.rs" })),
                ..lodge_events::ToolRequest::default()
            };
            let message = lodge_events::AssistantMessage {
                tool_requests: Some(vec![request]),
                ..lodge_events::AssistantMessage::default()
            };
            projector.event(&Event::new(None, None, message));
            let write = lodge_events::WritePermission {
                tool_call_id: Some("c1".into()),
                file_name: asked.into(),
                ..lodge_events::WritePermission::default()
            };
            let request = lodge_events::PermissionRequested {
                request_id: "r1".into(),
                permission_request: write.into(),
                ..lodge_events::PermissionRequested::default()
            };
            let steps = projector.event(&Event::new_ephemeral(None, None, request));
            let said = steps.iter().find_map(|step| match step {
                Step::Act(_, action) => match &**action {
                    StateAction::ChatToolCallReady(ready) => Some(ready.invocation_message.as_text().to_owned()),
                    _ => None,
                },
                _ => None,
            });
            assert_eq!(said.as_deref(), Some(&*format!("Editing {shown}")));
        }
    }
}
