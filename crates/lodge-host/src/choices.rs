//! Texts for the options of a session.

use lodge_agent::{Approval, Mode};

/// The modes, each with a name and a sentence.
pub const MODES: [(Mode, &str, &str); 3] = [
    (Mode::Interactive, "Interactive", "Does what you ask and stops"),
    (
        Mode::Plan,
        "Plan",
        "Plans, and changes nothing until you approve the plan",
    ),
    (Mode::Autopilot, "Autopilot", "Works until the task is complete"),
];

/// The approval modes, each with an id, a name and a sentence.
pub const APPROVALS: [(Approval, &str, &str, &str); 5] = [
    (Approval::Ask, "ask", "Ask before everything", "Even before reads"),
    (
        Approval::AutoSafe,
        "safe",
        "Ask unless it is safe",
        "Reads and harmless commands run",
    ),
    (
        Approval::AutoEdit,
        "edits",
        "Edit without asking",
        "In the session's directories",
    ),
    (
        Approval::ApproveAll,
        "all",
        "Approve everything",
        "Nothing needs approval",
    ),
    (
        Approval::DenyAll,
        "none",
        "Deny without asking",
        "Only what needs no approval runs",
    ),
];
