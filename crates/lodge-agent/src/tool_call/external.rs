//! A call of a tool that a client runs.

use lodge_events::{CustomToolPermission, ExternalToolCompleted, ExternalToolRequested, PermissionRequest};
use lodge_tools::{changes::Touches, spill};
use serde_json::Value;
use tokio::sync::oneshot::error::RecvError;

use super::{Call, outcome::Outcome};
use crate::{
    answer::{Answer, QuestionKind, ToolAnswer},
    client::ClientTool,
    turn::Stop,
};

impl Call<'_> {
    /// A tool that a client runs. The question outlives the client: one that comes back can still answer.
    pub(super) async fn external(&self, tool: &ClientTool, args: &mut Value, allowed: bool) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        let mut refused = shared.plan_refusal(tool.read_only);
        let request = PermissionRequest::CustomTool(CustomToolPermission {
            tool_name: tool.name.clone(),
            tool_description: tool.description.clone(),
            args: Some(args.clone()),
            ..CustomToolPermission::default()
        });
        let free = (allowed || tool.skip_permission) && !shared.is_governed(&request);
        if refused.is_none() && !free {
            refused = self
                .permit(request, args)
                .await?
                .or_else(|| shared.plan_refusal(tool.read_only));
        }
        if let Some(refused) = refused {
            self.start(args.clone()).await?;
            return Ok(refused);
        }
        self.start(args.clone()).await?;
        // Whoever runs it may do so on these files.
        let touches = match tool.read_only {
            true => Touches::Nothing,
            false => Touches::Anything,
        };
        let looked = shared.files_before(touches).await;
        let run = shared.clients.lock().run_tool(self.name, args);
        let answer = match run {
            Some(run) => Ok(Answer::Tool(ToolAnswer::Result(Box::new(run.await)))),
            None => self.ask_client(args).await?,
        };
        // The model need not wait until a large tree has been looked at; the end of the turn does.
        drop(shared.files_after(looked));
        Ok(match answer {
            Ok(Answer::Tool(ToolAnswer::Result(mut result))) => {
                let limit = shared.settings.lock().max_tool_output;
                if result.text.len() > limit {
                    let (text, place) = (std::mem::take(&mut result.text), shared.tool_state.temp());
                    let keep = move || spill::bound(text, place, limit);
                    result.text = tokio::task::spawn_blocking(keep).await.unwrap_or_default();
                }
                Outcome::of_client(*result)
            }
            // The reason is the client's own affair and may hold what the model must not see.
            _ => Outcome::failed(
                format!(
                    "Failed to execute `{}` tool with arguments: {{}} due to error: Error: Tool execution failed",
                    self.name
                ),
                "failure",
            ),
        })
    }

    /// Asks clients to run the tool, and waits for the answer.
    async fn ask_client(&self, args: &Value) -> Result<Result<Answer, RecvError>, Stop> {
        let shared = &self.turn.shared;
        let request_id = self.request_id("tool");
        let waiting = shared.pending.open(&request_id, QuestionKind::Tool);
        let cwd = shared.settings.lock().cwd.to_string_lossy().into_owned();
        let traceparent = shared.clients.lock().traceparent(self.id);
        let event = shared.recorder.record(ExternalToolRequested {
            request_id: request_id.clone(),
            session_id: shared.id.to_string(),
            tool_call_id: self.id.into(),
            tool_name: self.name.into(),
            arguments: Some(args.clone()),
            working_directory: Some(cwd),
            traceparent,
            ..ExternalToolRequested::default()
        })?;
        shared.pending.asked(&request_id, event);
        let answer = waiting.await;
        shared.recorder.record(ExternalToolCompleted { request_id })?;
        Ok(answer)
    }
}
