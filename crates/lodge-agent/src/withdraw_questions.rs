//! Withdrawing the open questions of a turn that has ended.

use lodge_events::{
    ExitPlanModeCompleted, ExternalToolCompleted, Payload, PermissionCompleted, PermissionResult, UserInputCompleted,
};

use crate::{answer::QuestionKind, session::Shared};

impl Shared {
    /// Withdraws the questions that this agent has open, so that clients stop showing them and stop running the tools.
    pub(crate) fn withdraw_questions(&self) {
        for question in self.pending.clear() {
            let request_id = question.request_id;
            match (question.kind, question.event.payload()) {
                (QuestionKind::Permission, Payload::PermissionRequested(asked)) => {
                    self.recorder.note(PermissionCompleted {
                        request_id,
                        tool_call_id: asked.permission_request.tool_call_id().map(str::to_owned),
                        result: PermissionResult::cancelled(None),
                        ..PermissionCompleted::default()
                    });
                }
                (QuestionKind::Tool, _) => self.recorder.note(ExternalToolCompleted { request_id }),
                (QuestionKind::UserInput, _) => self.recorder.note(UserInputCompleted {
                    request_id,
                    ..UserInputCompleted::default()
                }),
                (QuestionKind::ExitPlan, _) => self.recorder.note(ExitPlanModeCompleted {
                    request_id,
                    ..ExitPlanModeCompleted::default()
                }),
                _ => {}
            }
        }
    }
}
