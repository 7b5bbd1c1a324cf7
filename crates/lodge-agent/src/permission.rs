//! Asking before acting: rules first, then whoever is attached.

use std::path::PathBuf;

use crate::rules_interim::{Decision, Place, Policy, Rules, Scope};
use lodge_events::{PermissionCompleted, PermissionRequest, PermissionRequested, PermissionResult};
use lodge_log::LogError;
use parking_lot::Mutex;

use crate::{
    answer::{Answer, PermissionDecision, QuestionKind},
    session::Shared,
    settings::Approval,
};

/// What came of asking.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// Go ahead.
    Allowed,
    /// No, and the model reads why and goes on.
    Denied(String),
    /// No, and the turn ends here.
    Rejected(String),
}

/// What a model reads when nobody could be asked.
const NOBODY: &str = "Permission denied and could not request permission from user";

/// The rules in force for a session.
pub(crate) struct Permissions {
    rules: Mutex<Rules>,
}

impl Permissions {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules: Mutex::new(rules),
        }
    }

    fn decide(&self, shared: &Shared, request: &PermissionRequest) -> Decision {
        let (approval, place) = {
            let settings = shared.settings.lock();
            let roots = std::iter::once(settings.cwd.clone()).chain(settings.additional_directories.iter().cloned());
            (
                settings.approval,
                Place {
                    cwd: settings.cwd.clone(),
                    roots: roots.collect(),
                    session_dir: Some(shared.dir.clone()),
                },
            )
        };
        let policy = match approval {
            Approval::AutoSafe => Policy::AutoSafe,
            Approval::Ask => Policy::AskAll,
            Approval::ApproveAll => Policy::ApproveAll,
            Approval::DenyAll => Policy::DenyAll,
        };
        self.rules.lock().decide(request, policy, &place)
    }

    fn remember(&self, shared: &Shared, request: &PermissionRequest, scope: Scope) {
        let cwd: PathBuf = shared.settings.lock().cwd.clone();
        if let Err(error) = self.rules.lock().approve(request, scope, &cwd) {
            tracing::warn!(%error, "the approval holds for this session only");
        }
    }
}

impl Shared {
    /// Finds out whether a tool call may go ahead. `request_id` names the question, should there be one.
    pub(crate) async fn permit(&self, request_id: &str, request: PermissionRequest) -> Result<Verdict, LogError> {
        let (result, verdict) = match self.permissions.decide(self, &request) {
            Decision::Allow { .. } => return Ok(Verdict::Allowed),
            Decision::Deny { why, kind } => (
                PermissionResult {
                    kind,
                    message: None,
                    ..PermissionResult::default()
                },
                Verdict::Denied(why),
            ),
            Decision::Ask => return self.ask_permission(request_id, request).await,
        };
        // Clients see what was decided for them, as a question that is answered at once.
        self.recorder.record(requested(request_id, &request))?;
        self.recorder.record(completed(request_id, &request, result))?;
        Ok(verdict)
    }

    async fn ask_permission(&self, request_id: &str, request: PermissionRequest) -> Result<Verdict, LogError> {
        if !self.clients.lock().any(|can| can.permissions) {
            self.recorder.record(requested(request_id, &request))?;
            self.recorder
                .record(completed(request_id, &request, PermissionResult::nobody_to_ask()))?;
            return Ok(Verdict::Denied(NOBODY.into()));
        }
        let waiting = self.pending.open(request_id, QuestionKind::Permission);
        let event = self.recorder.record(requested(request_id, &request))?;
        self.pending.asked(request_id, event);
        let decision = match waiting.await {
            Ok(Answer::Permission(decision)) => decision,
            _ => PermissionDecision::UserNotAvailable,
        };
        let (result, verdict) = match decision {
            PermissionDecision::ApproveOnce => (PermissionResult::approved(), Verdict::Allowed),
            PermissionDecision::ApproveForSession => {
                self.permissions.remember(self, &request, Scope::Session);
                (PermissionResult::approved(), Verdict::Allowed)
            }
            PermissionDecision::ApproveForLocation => {
                self.permissions.remember(self, &request, Scope::Location);
                (PermissionResult::approved(), Verdict::Allowed)
            }
            PermissionDecision::ApprovePermanently => {
                self.permissions.remember(self, &request, Scope::Permanent);
                (PermissionResult::approved(), Verdict::Allowed)
            }
            PermissionDecision::Reject { feedback } => {
                let text = told("The user rejected this tool call.", feedback.as_deref());
                (PermissionResult::denied_by_user(feedback), Verdict::Rejected(text))
            }
            PermissionDecision::Deny { feedback } => {
                let text = told("The user denied this tool call.", feedback.as_deref());
                (PermissionResult::denied_by_user(feedback), Verdict::Denied(text))
            }
            PermissionDecision::UserNotAvailable => (PermissionResult::nobody_to_ask(), Verdict::Denied(NOBODY.into())),
            PermissionDecision::DenyByRules => (
                PermissionResult::denied_by_rules(Vec::new()),
                Verdict::Denied("Permission denied by the rules in force".into()),
            ),
            PermissionDecision::DenyByContentExclusion => (
                PermissionResult::excluded("", "The content is excluded by policy."),
                Verdict::Denied("Permission denied: the content is excluded by policy".into()),
            ),
        };
        self.recorder.record(completed(request_id, &request, result))?;
        Ok(verdict)
    }
}

fn told(text: &str, feedback: Option<&str>) -> String {
    match feedback {
        Some(feedback) if !feedback.is_empty() => format!("{text} User feedback: {feedback}"),
        _ => text.to_owned(),
    }
}

fn requested(request_id: &str, request: &PermissionRequest) -> PermissionRequested {
    PermissionRequested {
        request_id: request_id.into(),
        permission_request: request.clone(),
        ..PermissionRequested::default()
    }
}

fn completed(request_id: &str, request: &PermissionRequest, result: PermissionResult) -> PermissionCompleted {
    PermissionCompleted {
        request_id: request_id.into(),
        tool_call_id: request.tool_call_id().map(str::to_owned),
        result,
        ..PermissionCompleted::default()
    }
}
