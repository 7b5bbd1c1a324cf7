//! Describes tool calls to people. Each face has its own layout and icons; the texts for calls, permission requests and answers
//! are the same on all of them.

mod choices;
mod diff;
mod output;
mod request;
mod titles;

pub use choices::{PermissionChoice, plan_action_label};
pub use diff::{DiffSide, UnifiedDiff, diff_sides};
pub use output::OutputTail;
pub use request::{RequestedCall, confirmation, correct_arguments};
pub use titles::{
    Tense, ToolKind, display_name, edited_arguments, first_line, input_text, is_hidden, sentence, subject,
};
