//! The answers to a permission request.

use lodge_agent::PermissionDecision;
use lodge_events::{ExitPlanModeAction, LodgeQuestion};
use serde_json::Value;

/// An answer to a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionChoice {
    /// Allow this call only.
    Once,
    /// Allow the same for the rest of the session.
    Session,
    /// Always allow the same in this project.
    Always,
    /// Deny it.
    Deny,
}

impl PermissionChoice {
    /// All choices, in the order in which they are offered.
    const ALL: [Self; 4] = [Self::Once, Self::Session, Self::Always, Self::Deny];

    /// Its name on the wires.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Once => "allow-once",
            Self::Session => "allow-session",
            Self::Always => "allow-always",
            Self::Deny => "deny",
        }
    }

    /// What people can choose, with the names. `lasting` is what an approval for longer than once covers, if that is known. An
    /// approval that would cover nothing is not offered.
    pub fn offered(lasting: Option<&str>) -> Vec<(Self, String)> {
        let is_offered = |choice: &Self| match choice {
            Self::Session | Self::Always => lasting != Some(""),
            Self::Once | Self::Deny => true,
        };
        let what = lasting.map(|lasting| format!(" {lasting}")).unwrap_or_default();
        let label = |choice: Self| match choice {
            Self::Once => "Allow once".to_owned(),
            Self::Session => format!("Allow{what} for this session"),
            Self::Always => format!("Always allow{what} in this project"),
            Self::Deny => "Deny".to_owned(),
        };
        let offered = Self::ALL.into_iter().filter(is_offered);
        offered.map(|choice| (choice, label(choice))).collect()
    }

    /// What an approval for longer than once covers, as the log says.
    pub fn lasting(asked: &LodgeQuestion) -> Option<&str> {
        asked.shown.as_ref()?["lasting"].as_str()
    }

    /// Parses a choice.
    pub fn parse(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.id() == id)
    }

    /// The decision that it stands for.
    pub fn decision(self) -> PermissionDecision {
        match self {
            Self::Once => PermissionDecision::ApproveOnce,
            Self::Session => PermissionDecision::ApproveForSession,
            Self::Always => PermissionDecision::ApproveForLocation,
            Self::Deny => PermissionDecision::Deny { feedback: None },
        }
    }

    /// The choice behind an answer in the log.
    pub fn of_answer(answer: &Value) -> Option<Self> {
        match answer["decision"].as_str()? {
            "approve-edited" if answer["forSession"] == true => Some(Self::Session),
            "approve-once" | "approve-edited" => Some(Self::Once),
            "approve-for-session" => Some(Self::Session),
            "approve-for-location" => Some(Self::Always),
            "deny" | "reject" => Some(Self::Deny),
            _ => None,
        }
    }
}

/// Labels for the ways to continue with a plan.
pub fn plan_action_label(action: &ExitPlanModeAction) -> &str {
    match action.as_str() {
        "interactive" => "Approve and work step by step",
        "autopilot" => "Approve and work on its own",
        "autopilot_fleet" => "Approve and work with several agents",
        "exit_only" => "Approve and leave plan mode",
        other => other,
    }
}
