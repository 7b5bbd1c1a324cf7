//! Forms for people: which of an agent's answers allows a request, and the agent's own questions.

use std::sync::Arc;

use lodge_events::ElicitationSchema;
use lodge_external::{Reply, Ways};
use lodge_log::LogError;
use lodge_mcp::Elicitation;
use serde_json::{Value, json};

use super::{Done, LONGEST_SHOWN, Work, requests::unless_withdrawn};
use crate::session::Shared;

/// Why an allowed request is not allowed in the agent's words after all. People who did not choose know it.
pub(super) struct NotChosen(pub(super) Option<String>);

/// Which of an agent's ways to allow something it is. Where there are several, people choose, whoever allowed the request: their
/// names may promise more than this once. If they surely do, people choose even the only one.
pub(super) async fn chosen_way(shared: &Arc<Shared>, ways: &Ways) -> Result<usize, NotChosen> {
    let message = match (ways.names.len(), ways.last) {
        (0, _) => return Err(NotChosen(Some("the agent offers no answer that allows it.".to_owned()))),
        (1, false) => return Ok(0),
        (_, false) => "The agent offers several ways to allow this. Choose its answer.",
        (_, true) => "The agent offers to allow this only for longer than this once. Choose its answer, or cancel.",
    };
    let names = ways.names.iter().enumerate();
    let names: Vec<String> = names.map(|(at, name)| format!("{}. {name}", at + 1)).collect();
    let choice = json!({ "type": "string", "title": "Answer", "enum": names });
    let form = Elicitation {
        message: message.to_owned(),
        schema: Some(json!({ "type": "object", "properties": { "answer": choice }, "required": ["answer"] })),
        url: None,
        call_id: None,
    };
    let Some(answer) = shared.ask_form(None, None, form) else {
        let offered = match ways.last {
            true => "the agent offers to allow it only for longer than this once",
            false => "the agent offers several ways to allow it",
        };
        let why = format!(
            "{offered} ({}), and no client can show the form in which you choose.",
            names.join(", ")
        );
        return Err(NotChosen(Some(why)));
    };
    let answer = answer.await;
    let content = answer.content.filter(|_| answer.action == "accept");
    let chosen = content.and_then(|content| names.iter().position(|name| content["answer"] == name.as_str()));
    chosen.ok_or(NotChosen(None))
}

impl Work<'_> {
    /// Has people answer what the program asks them.
    pub(super) fn elicit(&mut self, wanted: lodge_external::Elicitation, reply: Reply) -> Result<(), LogError> {
        self.count_request();
        let shared = &self.turn.shared;
        let is_form = |schema: &Value| serde_json::from_value::<ElicitationSchema>(schema.clone()).is_ok();
        if !wanted.schema.as_ref().is_none_or(is_form) {
            reply.answer(Err("The schema of the form cannot be read.".to_owned()));
            return Ok(());
        }
        let schema = wanted.schema.as_ref().map(ToString::to_string);
        let parts = [Some(&wanted.message), schema.as_ref(), wanted.url.as_ref()];
        let bytes: usize = parts.into_iter().flatten().map(String::len).sum();
        if bytes > LONGEST_SHOWN {
            // Dropped, it is cancelled.
            return self.tell_refused(&format!(
                "its question is {bytes} bytes long, and at most {LONGEST_SHOWN} are shown."
            ));
        }
        let call = wanted
            .tool_call_id
            .and_then(|id| self.calls.get(&id))
            .filter(|call| call.is_recorded());
        let form = Elicitation {
            message: wanted.message,
            schema: wanted.schema,
            url: wanted.url,
            call_id: call.map(|call| call.id.clone()),
        };
        let Some(answer) = shared.ask_form(Some(&shared.settings().model.info().name), None, form) else {
            return self.tell_refused("it asks a question, and no client can show its form.");
        };
        self.count_recorded(bytes);
        let withdrawn = reply.withdrawn();
        let work = async move {
            let answer = answer.await;
            let mut told = json!({ "action": answer.action });
            if let Some(content) = answer.content {
                told["content"] = content;
            }
            reply.answer(Ok(told));
            Ok(Done::Nothing)
        };
        self.requests
            .push(Box::pin(unless_withdrawn(withdrawn, Done::Nothing, work)));
        Ok(())
    }
}
