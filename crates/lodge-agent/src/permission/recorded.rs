//! People's decisions about permissions for this session, from its log: they still hold after a restart.

use lodge_events::{ApprovalMode, LodgeApproval, LodgeRules, PermissionMode, RuleEffect, SessionRule};
use lodge_log::LogError;
use lodge_tools::rules::{Access, Effect, Rule, RuleSubject};
use uuid::Uuid;

use super::Permissions;
use crate::{session::Shared, settings::Approval};

impl Permissions {
    /// With the rules that the session had.
    pub(crate) fn with_session(self, rules: &[SessionRule]) -> Self {
        *self.session.lock() = rules.iter().filter_map(read_rule).collect();
        self
    }
}

impl Shared {
    /// Changes what is asked before tools run, for all of the session's agents. What cannot be recorded does not hold,
    /// unless it is stricter than what held before.
    pub(crate) fn change_approval(&self, approval: Approval) -> Result<(), LogError> {
        self.change_approval_as(Uuid::new_v4(), approval)
    }

    /// Like [`Shared::change_approval`], by an event with this id.
    pub(crate) fn change_approval_as(&self, id: Uuid, approval: Approval) -> Result<(), LogError> {
        let root = self.root();
        self.permissions.for_runs.end_all();
        let record = |before: &Approval| {
            root.recorder.record_as(id, LodgeApproval { mode: approval.into() })?;
            let (previous, now) = (mode_of(*before), mode_of(approval));
            if previous != now {
                // It only tells clients what the event before it says.
                root.recorder.note(lodge_events::SessionPermissionsChanged {
                    previous_mode: Some(previous),
                    mode: Some(now),
                    ..Default::default()
                });
            }
            Ok::<_, LogError>(())
        };
        let is_stricter = |before: &Approval| approval.freedom() <= before.freedom();
        let recorded = || root.recorder.facts(|facts| facts.approval.as_ref().map(Approval::from));
        let is_recorded = || recorded().unwrap_or_default() == approval;
        root.settings.change_recorded(
            |settings| &mut settings.approval,
            approval,
            is_recorded,
            is_stricter,
            record,
        )?;
        Ok(())
    }

    /// Records the session's own rules, if they are others than those that were recorded last.
    pub(crate) fn record_rules(&self) -> Result<(), LogError> {
        let root = self.root();
        let rules: Vec<SessionRule> = root.permissions.session.lock().iter().map(recorded_rule).collect();
        if root.recorder.facts(|facts| facts.rules != rules) {
            root.recorder.record(LodgeRules { rules })?;
        }
        Ok(())
    }
}

impl Approval {
    /// The more may happen without a question, the higher.
    pub(super) fn freedom(self) -> u8 {
        match self {
            Self::DenyAll => 0,
            Self::Ask => 1,
            Self::AutoSafe => 2,
            Self::AutoEdit => 3,
            Self::ApproveAll => 4,
        }
    }
}

impl From<Approval> for ApprovalMode {
    fn from(approval: Approval) -> Self {
        match approval {
            Approval::AutoSafe => Self::AutoSafe,
            Approval::AutoEdit => Self::AutoEdit,
            Approval::Ask => Self::Ask,
            Approval::ApproveAll => Self::ApproveAll,
            Approval::DenyAll => Self::DenyAll,
        }
    }
}

/// A mode that only a newer build knows asks about everything.
impl From<&ApprovalMode> for Approval {
    fn from(mode: &ApprovalMode) -> Self {
        match mode {
            ApprovalMode::AutoSafe => Self::AutoSafe,
            ApprovalMode::AutoEdit => Self::AutoEdit,
            ApprovalMode::ApproveAll => Self::ApproveAll,
            ApprovalMode::DenyAll => Self::DenyAll,
            ApprovalMode::Ask | ApprovalMode::Other(_) => Self::Ask,
        }
    }
}

/// As clients of the SDKs know it.
fn mode_of(approval: Approval) -> PermissionMode {
    match approval {
        Approval::ApproveAll => PermissionMode::AllowAll,
        _ => PermissionMode::Manual,
    }
}

fn recorded_rule(rule: &Rule) -> SessionRule {
    let named = rule.named();
    SessionRule {
        effect: match rule.effect {
            Effect::Allow => RuleEffect::Allow,
            Effect::Ask => RuleEffect::Ask,
            Effect::Deny => RuleEffect::Deny,
        },
        kind: named.kind,
        argument: named.argument.unwrap_or_default(),
    }
}

/// The rule, if this build knows its kind. One that allows something is no loss: whoever gave it is asked again.
fn read_rule(rule: &SessionRule) -> Option<Rule> {
    let argument = rule.argument.clone();
    let path = |access| RuleSubject::Path {
        glob: argument.clone(),
        access,
    };
    let what = match rule.kind.as_str() {
        "tool" => RuleSubject::Tool(argument),
        "shell" => RuleSubject::Command(argument),
        "url" => RuleSubject::Url(argument),
        "read" => path(Some(Access::Read)),
        "write" => path(Some(Access::Write)),
        "path" => path(None),
        other => {
            tracing::warn!(
                kind = other,
                "a rule of the session is of a kind that this build does not know"
            );
            return None;
        }
    };
    let effect = match &rule.effect {
        RuleEffect::Allow => Effect::Allow,
        RuleEffect::Ask => Effect::Ask,
        // An effect that only a newer build knows forbids: it cannot be told what it would have allowed.
        RuleEffect::Deny | RuleEffect::Other(_) => Effect::Deny,
    };
    Some(Rule { effect, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_reads_back_as_it_was_recorded() {
        let path = |access| RuleSubject::Path {
            glob: "src/**".into(),
            access,
        };
        for what in [
            RuleSubject::Tool("server/*".into()),
            RuleSubject::Command("git log".into()),
            RuleSubject::Url("*.example.com".into()),
            path(Some(Access::Read)),
            path(Some(Access::Write)),
            path(None),
        ] {
            for make in [Rule::allow, Rule::ask, Rule::deny] {
                let rule = make(what.clone());
                assert_eq!(read_rule(&recorded_rule(&rule)), Some(rule));
            }
        }
    }

    #[test]
    fn what_only_a_newer_build_knows_allows_nothing() {
        let rule = |effect: &str, kind: &str| SessionRule {
            effect: effect.into(),
            kind: kind.into(),
            argument: "*".into(),
        };
        assert_eq!(read_rule(&rule("allow", "telepathy")), None);
        assert_eq!(
            read_rule(&rule("maybe", "tool")),
            Some(Rule::deny(RuleSubject::Tool("*".into())))
        );
        assert_eq!(Approval::from(&ApprovalMode::from("telepathy")), Approval::Ask);
    }

    #[test]
    fn every_approval_reads_back_as_it_was_recorded() {
        for approval in [
            Approval::AutoSafe,
            Approval::AutoEdit,
            Approval::Ask,
            Approval::ApproveAll,
            Approval::DenyAll,
        ] {
            assert_eq!(Approval::from(&ApprovalMode::from(approval)), approval);
        }
    }
}
