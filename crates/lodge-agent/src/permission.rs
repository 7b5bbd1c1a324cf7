//! Permission for tool calls: rules decide first, then people.

mod for_run;
mod recorded;

use std::path::Path;

use lodge_events::{
    AnsweredBy, AskedKind, LodgeAnswered, ManagedSource, PermissionCompleted, PermissionRequest, PermissionRequested,
    PermissionResult, PermissionResultKind, ReadPermission, SessionManagedSettingsEnforced,
    SessionManagedSettingsResolved, WritePermission,
};
use lodge_log::LogError;
use lodge_tools::rules::{self, Decision, Mode, Place, Policy, Rule, RuleSet, Scope};
use parking_lot::Mutex;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    AgentError,
    answer::{Answer, PermissionDecision, QuestionKind},
    questions::Question,
    session::Shared,
    settings::{Approval, RulesChange},
    supply::ManagedPolicy,
};

/// What came of asking.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// Go ahead. Where nobody approved it, it only looks harmless, and runs where it can do no harm.
    Allowed { approved: bool },
    /// Yes, with other arguments.
    Edited {
        arguments: Value,
        /// Whether what it became is allowed from now on, in this session.
        for_session: bool,
    },
    /// No, and the model reads why and goes on.
    Denied(String),
    /// No, and the turn ends here.
    Rejected(String),
}

pub use for_run::ApprovalForRun;
use for_run::ForRuns;

const APPROVED: Verdict = Verdict::Allowed { approved: true };

/// What a model reads when nobody could be asked.
const NOBODY: &str = "Permission denied and could not request permission from user";

/// The rules in force for a session: those of files, and what was answered in it.
pub(crate) struct Permissions {
    rules: Mutex<RuleSet>,
    session: Mutex<Vec<Rule>>,
    /// What skills allow until the turn that loaded them ends.
    lent: Mutex<Vec<Rule>>,
    /// What nobody in the session can wave aside.
    managed: Mutex<Option<ManagedPolicy>>,
    /// What runs chose for as long as they last.
    for_runs: ForRuns,
}

/// For how long an approval holds.
#[derive(Clone, Copy)]
enum Keep {
    Session,
    Kept(Scope),
}

impl Permissions {
    pub(crate) fn new(rules: RuleSet) -> Self {
        Self {
            rules: Mutex::new(rules),
            session: Mutex::default(),
            lent: Mutex::default(),
            managed: Mutex::default(),
            for_runs: ForRuns::default(),
        }
    }

    /// Forgets what was answered in this session.
    pub(crate) fn forget_answers(&self) {
        self.session.lock().clear();
    }

    /// Changes rules; the error says what could not be kept.
    pub(crate) fn change(&self, change: RulesChange) -> Result<(), String> {
        let mut session = self.session.lock();
        match change {
            RulesChange::Replace(rules) => *session = rules,
            RulesChange::Add(rules) => {
                for rule in rules {
                    if !session.contains(&rule) {
                        session.push(rule);
                    }
                }
            }
            RulesChange::Remove(rules) => session.retain(|rule| !rules.contains(rule)),
            RulesChange::AddForLocation(rules) => {
                let kept = self.rules.lock().remember(Scope::Location, &rules);
                kept.map_err(|error| error.to_string())?;
            }
            RulesChange::RemoveForLocation(rules) => {
                let gone = self.rules.lock().forget_for_location(rules.as_deref());
                gone.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Allows what a skill needs, for as long as the turn lasts.
    pub(crate) fn lend(&self, rules: Vec<Rule>) {
        self.lent.lock().extend(rules);
    }

    /// Takes that back.
    pub(crate) fn end_loan(&self) {
        self.lent.lock().clear();
    }

    fn place(&self, shared: &Shared) -> Place {
        let settings = shared.root().settings.lock();
        let roots = std::iter::once(settings.cwd.clone())
            .chain(settings.additional_directories.iter().cloned())
            .chain([shared.dir.clone()]);
        Place {
            cwd: settings.cwd.clone(),
            roots: roots.collect(),
            named: settings.customization.named_directories(),
            session: self.session.lock().iter().chain(&*self.lent.lock()).cloned().collect(),
            managed: self
                .managed
                .lock()
                .as_ref()
                .map(|policy| policy.rules.clone())
                .unwrap_or_default(),
            jail: shared.tool_state.can_jail(),
        }
    }

    /// Whether policy forbids that everything is approved.
    pub(crate) fn forbids_bypass(&self) -> bool {
        let managed = self.managed.lock();
        managed.as_ref().is_some_and(|policy| policy.no_bypass)
    }

    fn decide(&self, shared: &Shared, request: &PermissionRequest) -> Decision {
        let place = self.place(shared);
        let mut rules = self.rules.lock();
        let of_files = rules.policy;
        rules.policy = match shared.approval() {
            Approval::AutoSafe => of_files,
            Approval::AutoEdit => Policy::of(Mode::AutoApproveSafe),
            Approval::Ask => Policy::ask_everything(),
            Approval::ApproveAll => Policy::of(Mode::ApproveAll),
            Approval::DenyAll => Policy::of(Mode::DenyAll),
        };
        // Also where the user's own file would have it so.
        if rules.policy.mode == Mode::ApproveAll && self.forbids_bypass() {
            rules.policy = Policy::ask_everything();
        }
        let decision = rules::decide(request, &rules, &place);
        rules.policy = of_files;
        decision
    }

    /// What is kept when somebody allows a request for longer than once.
    fn lasting_rules(&self, shared: &Shared, request: &PermissionRequest) -> Vec<Rule> {
        let place = self.place(shared);
        rules::rules_for(request, &self.rules.lock(), &place)
    }

    fn remember(&self, shared: &Shared, request: &PermissionRequest, keep: Keep) {
        let approved = self.lasting_rules(shared, request);
        if let Keep::Kept(scope) = keep {
            match self.rules.lock().remember(scope, &approved) {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, "the approval can only be kept for this session"),
            }
        }
        self.session.lock().extend(approved);
        if let Err(error) = shared.record_rules() {
            tracing::warn!(%error, "the approval could not be recorded; it ends with this run of the host");
        }
    }
}

impl Shared {
    /// Finds out whether a tool call may go ahead. `request_id` names the question, should there be one.
    pub(crate) async fn permit(&self, request_id: &str, request: PermissionRequest) -> Result<Verdict, LogError> {
        let decision = self.decide(&request);
        let (result, verdict) = match (&decision, decision.result()) {
            (Decision::Allow { approved, .. }, _) => return Ok(Verdict::Allowed { approved: *approved }),
            (Decision::Deny { why, .. }, Some(result)) => (result, Verdict::Denied(why.clone())),
            (Decision::AskByPolicy { why }, _) => {
                let request = request.with_managed_approval().with_warning(why.as_deref());
                return self.ask_permission(request_id, request).await;
            }
            (Decision::Ask { why }, _) => {
                return self
                    .ask_permission(request_id, request.with_warning(why.as_deref()))
                    .await;
            }
            _ => return self.ask_permission(request_id, request).await,
        };
        // A file that nobody may read is shown to nobody.
        let request = match &request {
            PermissionRequest::Write(write) if self.forbidden(&reading(write)).is_some() => request.without_text(),
            _ => request,
        };
        // Clients see what was decided for them, as a question that is answered at once and that they need not answer.
        self.recorder.record(PermissionRequested {
            resolved_by_hook: Some(true),
            ..requested(request_id, &request)
        })?;
        self.recorder.record(LodgeAnswered {
            by: AnsweredBy {
                rule: Some(true),
                ..AnsweredBy::default()
            },
            answer: serde_json::json!({"decision": "deny-by-rules"}),
            ..answered(request_id, &request)
        })?;
        self.recorder.record(completed(request_id, &request, result))?;
        Ok(verdict)
    }

    /// Whether a person would have to answer.
    pub(crate) fn would_ask(&self, request: &PermissionRequest) -> bool {
        self.decide(request).result().is_none()
    }

    /// As [`Shared::permit`] for something that whoever wants it may give up at any time: the question is then taken back.
    pub(crate) async fn permit_for_now(&self, request: PermissionRequest) -> Result<Verdict, LogError> {
        let mut asking = Asking::new(self, Uuid::new_v4().to_string(), &request);
        let verdict = self.permit(&asking.request_id, request).await;
        asking.done();
        verdict
    }

    /// What rules say of a request.
    pub(crate) fn decide(&self, request: &PermissionRequest) -> Decision {
        self.permissions.decide(self, request)
    }

    /// Why a rule forbids something, if one does. A person who writes a call speaks for themselves, not for the rules.
    pub(crate) fn forbidden(&self, request: &PermissionRequest) -> Option<String> {
        match self.decide(request) {
            Decision::Deny { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Whether rules hide a file from every tool.
    pub(crate) fn excludes(&self, path: &str) -> bool {
        let read = ReadPermission {
            path: path.to_owned(),
            ..ReadPermission::default()
        };
        match self.decide(&read.into()) {
            Decision::Deny { kind, .. } => kind == PermissionResultKind::DeniedByContentExclusion,
            _ => false,
        }
    }

    /// Whether rules keep what is in a file from the model: they hide it from every tool, or deny reading it.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        let read = ReadPermission {
            path: path.to_string_lossy().into_owned(),
            ..ReadPermission::default()
        };
        match self.decide(&read.into()) {
            Decision::Deny { kind, rule, .. } => {
                let of_path = rule.is_some_and(|rule| matches!(rule.kind.as_str(), "read" | "path"));
                of_path || kind == PermissionResultKind::DeniedByContentExclusion
            }
            _ => false,
        }
    }

    /// Whether policy denies a request or wants a person to answer it: then neither a hook nor the tool itself can allow it.
    pub(crate) fn is_governed(&self, request: &PermissionRequest) -> bool {
        let place = self.permissions.place(self);
        rules::governs(request, &self.permissions.rules.lock(), &place)
    }

    /// Puts an organisation's policy in force, or takes it away.
    pub(crate) fn set_managed(&self, policy: Option<ManagedPolicy>) {
        let before = std::mem::replace(&mut *self.permissions.managed.lock(), policy.clone());
        if before.is_none() && policy.is_none() {
            return;
        }
        let no_bypass = policy.as_ref().is_some_and(|policy| policy.no_bypass);
        if no_bypass
            && self.settings.lock().approval == Approval::ApproveAll
            && let Err(error) = self.change_approval(Approval::Ask)
        {
            tracing::warn!(%error, "the change of the approval mode could not be recorded");
        }
        self.recorder.note(SessionManagedSettingsResolved {
            source: match policy {
                Some(_) => ManagedSource::Client,
                None => ManagedSource::None,
            },
            client_managed: Some(policy.is_some()),
            bypass_permissions_disabled: no_bypass,
            managed_keys: policy.iter().map(|_| "permissions".to_owned()).collect(),
            settings: policy.map(|policy| policy.text),
            ..SessionManagedSettingsResolved::default()
        });
    }

    /// Changes what is asked. It holds at once, also for runs that chose otherwise. Policy may forbid that nothing is asked.
    pub(crate) fn set_approval(&self, id: Uuid, approval: Approval) -> Result<(), AgentError> {
        self.check_approval(approval)?;
        Ok(self.change_approval_as(id, approval)?)
    }

    /// The approval mode in force: the session's own, unless a run chose another one.
    pub(crate) fn approval(&self) -> Approval {
        let own = self.root().settings.lock().approval;
        self.permissions.for_runs.strictest().unwrap_or(own)
    }

    /// Changes what is asked until the guard is dropped, and records nothing of it.
    pub(crate) fn approve_for_run(&self, approval: Approval) -> Result<ApprovalForRun, AgentError> {
        self.check_approval(approval)?;
        Ok(self.permissions.for_runs.begin(approval))
    }

    fn check_approval(&self, approval: Approval) -> Result<(), AgentError> {
        if approval == Approval::ApproveAll && self.permissions.forbids_bypass() {
            let message = "The organisation's policy does not allow approving everything.";
            self.recorder.note(SessionManagedSettingsEnforced {
                action: "bypass_permissions_blocked".into(),
                escalation: Some("approve_all".into()),
                setting: "permissions.disableBypassPermissionsMode".into(),
                message: message.into(),
                fail_closed: false,
            });
            return Err(AgentError::Refused(message.into()));
        }
        Ok(())
    }

    /// What is kept when somebody allows a request for longer than once.
    pub(crate) fn lasting_rules(&self, request: &PermissionRequest) -> Vec<Rule> {
        self.permissions.lasting_rules(self, request)
    }

    /// Allows what is like this from now on, in this session.
    pub(crate) fn allow_for_session(&self, request: &PermissionRequest) {
        self.permissions.remember(self, request, Keep::Session);
    }

    /// Has somebody say, whatever rules say.
    pub(crate) async fn ask_permission(
        &self,
        request_id: &str,
        request: PermissionRequest,
    ) -> Result<Verdict, LogError> {
        let place = self.permissions.place(self);
        let lasting = rules::lasting(&request, &self.permissions.rules.lock(), &place);
        let question = question(request_id, &request).showing(&serde_json::json!({ "lasting": lasting }));
        let earlier = self.earlier_answer(&question);
        if earlier.is_none() && !self.clients.lock().any(|can| can.permissions) {
            self.recorder.record(requested(request_id, &request))?;
            self.recorder
                .record(completed(request_id, &request, PermissionResult::nobody_to_ask()))?;
            return Ok(Verdict::Denied(NOBODY.into()));
        }
        let answer = match earlier {
            Some(answer) => {
                self.recorder.record(PermissionRequested {
                    resolved_by_hook: Some(true),
                    ..requested(request_id, &request)
                })?;
                Some(answer)
            }
            None => {
                let waiting = self.open_question(question)?;
                let event = self.recorder.record(requested(request_id, &request))?;
                self.pending.asked(request_id, event);
                waiting.await.ok()
            }
        };
        let decision = match answer {
            Some(Answer::Permission(decision)) => decision,
            _ => PermissionDecision::UserNotAvailable,
        };
        let (result, verdict) = match decision {
            PermissionDecision::ApproveOnce => (PermissionResult::approved(), APPROVED),
            PermissionDecision::ApproveEdited { arguments, for_session } => {
                let verdict = Verdict::Edited { arguments, for_session };
                (PermissionResult::approved(), verdict)
            }
            PermissionDecision::ApproveForSession => {
                self.allow_for_session(&request);
                (PermissionResult::approved(), APPROVED)
            }
            PermissionDecision::ApproveForLocation => {
                self.permissions.remember(self, &request, Keep::Kept(Scope::Location));
                (PermissionResult::approved(), APPROVED)
            }
            PermissionDecision::ApprovePermanently => {
                self.permissions.remember(self, &request, Keep::Kept(Scope::Always));
                (PermissionResult::approved(), APPROVED)
            }
            PermissionDecision::Reject { feedback } => {
                let text = with_feedback("The user rejected this tool call.", feedback.as_deref());
                (PermissionResult::denied_by_user(feedback), Verdict::Rejected(text))
            }
            PermissionDecision::Deny { feedback } => {
                let text = with_feedback("The user denied this tool call.", feedback.as_deref());
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

/// A question that is taken back when it is dropped.
pub(crate) struct Asking<'a> {
    shared: &'a Shared,
    request_id: String,
    request: Option<PermissionRequest>,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(shared: &'a Shared, request_id: String, request: &PermissionRequest) -> Self {
        Self {
            shared,
            request_id,
            request: Some(request.clone()),
        }
    }

    /// Nothing is left to take back.
    pub(crate) fn done(&mut self) {
        self.request = None;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        self.shared.pending.close(&self.request_id);
        let result = PermissionResult::cancelled(None);
        self.shared.recorder.note(completed(&self.request_id, &request, result));
    }
}

fn with_feedback(text: &str, feedback: Option<&str>) -> String {
    match feedback {
        Some(feedback) if !feedback.is_empty() => format!("{text} User feedback: {feedback}"),
        _ => text.to_owned(),
    }
}

fn question(request_id: &str, request: &PermissionRequest) -> Question {
    let about = request.tool_call_id();
    Question::new(request_id, QuestionKind::Permission, about, request, in_short(request))
}

/// What is asked for, as people are told; where nobody says so, its kind.
fn in_short(request: &PermissionRequest) -> &str {
    let said = match request {
        PermissionRequest::Shell(shell) => &shell.intention,
        PermissionRequest::Write(write) => &write.intention,
        PermissionRequest::Read(read) => &read.intention,
        PermissionRequest::Url(url) => &url.intention,
        PermissionRequest::Mcp(mcp) => &mcp.tool_title,
        _ => "",
    };
    if said.is_empty() { request.tag() } else { said }
}

/// Reading the file that would be written.
fn reading(write: &WritePermission) -> PermissionRequest {
    ReadPermission {
        path: write.file_name.clone(),
        resolved_path: write.resolved_path.clone(),
        ..ReadPermission::default()
    }
    .into()
}

/// What the log says of an answer to a question of this id, but for who answered what.
fn answered(request_id: &str, request: &PermissionRequest) -> LodgeAnswered {
    let about = question(request_id, request).about;
    LodgeAnswered {
        request_id: request_id.into(),
        kind: AskedKind::Permission,
        tool_call_id: about.tool_call_id,
        digest: about.digest,
        ..LodgeAnswered::default()
    }
}

fn requested(request_id: &str, request: &PermissionRequest) -> PermissionRequested {
    PermissionRequested {
        request_id: request_id.into(),
        permission_request: request.clone(),
        prompt_request: request.prompt(),
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
