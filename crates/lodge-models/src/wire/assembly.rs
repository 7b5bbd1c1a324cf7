//! Assembles an answer from its chunks, the same for every wire.

use std::collections::{BTreeMap, HashSet, VecDeque};

use serde_json::value::RawValue;

use crate::{AssistantMessage, Chunk, Completion, CopilotUsage, Message, ModelRequest, Quota, ToolCall, Usage};

/// Reads one wire's answer into an [`Assembly`].
pub(super) trait Decoder: Send {
    /// Takes an event of a streamed answer.
    fn event(&mut self, name: &str, data: &str, into: &mut Assembly) -> Result<Progress, Fault>;
    /// Takes an answer that came in one piece.
    fn whole(&mut self, body: &str, into: &mut Assembly) -> Result<(), Fault>;
    /// Whether the answer is complete although the stream ended without saying so.
    fn may_end_here(&self) -> bool;
}

/// Whether more is to come.
#[derive(Debug, PartialEq)]
pub(super) enum Progress {
    More,
    Finished,
}

/// What can be wrong with an answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is not what the wire says.
    Malformed(String),
    /// An error that the provider reported, as JSON.
    Reported(String),
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// An answer in the making.
#[derive(Default)]
pub(super) struct Assembly {
    /// What to report to the caller next.
    pub(super) chunks: VecDeque<Chunk>,
    streams: bool,
    text: String,
    reasoning: String,
    calls: Vec<PartialCall>,
    /// Ids of calls that the conversation has already.
    taken: HashSet<String>,
    pub(super) reasoning_opaque: Option<String>,
    pub(super) encrypted_content: Option<String>,
    pub(super) phase: Option<String>,
    pub(super) citations: Option<serde_json::Value>,
    pub(super) usage: Usage,
    copilot: Option<CopilotUsage>,
    pub(super) finish_reason: Option<String>,
    pub(super) api_call_id: Option<String>,
    pub(super) provider_call_id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) endpoint: &'static str,
    pub(super) quotas: BTreeMap<String, Quota>,
}

struct PartialCall {
    /// What the provider calls it, if anything.
    given: Option<String>,
    id: String,
    name: String,
    arguments: String,
    custom: bool,
}

impl Assembly {
    /// Starts the answer to a request. Chunks are reported only if the caller streams.
    pub(super) fn new(request: &ModelRequest) -> Self {
        let said = request.messages.iter().filter_map(|message| match message {
            Message::Assistant(said) => Some(&said.tool_calls),
            _ => None,
        });
        Self {
            streams: request.stream,
            taken: said.flatten().map(|call| call.id.clone()).collect(),
            ..Self::default()
        }
    }

    pub(super) fn emit(&mut self, chunk: Chunk) {
        if self.streams {
            self.chunks.push_back(chunk);
        }
    }

    pub(super) fn text(&mut self, text: String) {
        if !text.is_empty() {
            self.text.push_str(&text);
            self.emit(Chunk::Text(text));
        }
    }

    pub(super) fn text_so_far(&self) -> &str {
        &self.text
    }

    pub(super) fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    pub(super) fn reasoning(&mut self, text: String) {
        if !text.is_empty() {
            self.reasoning.push_str(&text);
            self.emit(Chunk::Reasoning(text));
        }
    }

    pub(super) fn has_reasoning(&self) -> bool {
        !self.reasoning.is_empty()
    }

    /// Begins a tool call and returns its number. Its id is the provider's, unless that has none or gave it before: some
    /// count the calls of every answer anew, and everything else tells calls apart by their ids.
    pub(super) fn begin_call(&mut self, given: Option<String>, name: String, custom: bool) -> usize {
        let given = given.filter(|id| !id.is_empty());
        let id = match given.clone() {
            Some(id) if self.taken.insert(id.clone()) => id,
            _ => format!("call_{}", uuid::Uuid::new_v4().simple()),
        };
        self.calls.push(PartialCall {
            given,
            id,
            name,
            arguments: String::new(),
            custom,
        });
        self.calls.len() - 1
    }

    /// Adds to the name of a call; some servers send it in pieces.
    pub(super) fn name(&mut self, call: usize, piece: &str) {
        self.calls[call].name.push_str(piece);
    }

    /// Whether the provider calls it so.
    pub(super) fn is_called(&self, call: usize, id: &str) -> bool {
        self.calls[call].given.as_deref() == Some(id)
    }

    /// Adds to the arguments of a call.
    pub(super) fn arguments(&mut self, call: usize, fragment: String) {
        let call = &mut self.calls[call];
        call.arguments.push_str(&fragment);
        if self.streams {
            let (id, name) = (call.id.clone(), call.name.clone());
            self.chunks.push_back(Chunk::ToolCall { id, name, fragment });
        }
    }

    pub(super) fn arguments_so_far(&self, call: usize) -> &str {
        &self.calls[call].arguments
    }

    /// Replaces arguments by their final form, where the wire repeats them in full at the end.
    pub(super) fn settle_arguments(&mut self, call: usize, whole: String) {
        if self.calls[call].arguments.is_empty() {
            self.arguments(call, whole);
        } else {
            self.calls[call].arguments = whole;
        }
    }

    /// What the Copilot API, or a gateway before it, says that the call cost. Of another form, it is not read.
    pub(super) fn take_copilot_usage(&mut self, raw: Option<&RawValue>) {
        if let Some(Ok(copilot)) = raw.map(|raw| serde_json::from_str(raw.get())) {
            self.copilot = Some(copilot);
        }
    }

    /// The whole answer.
    pub(super) fn complete(&mut self) -> Completion {
        let mut usage = std::mem::take(&mut self.usage);
        if let Some(copilot) = self.copilot.take() {
            usage.cost = Some(copilot.total_nano_aiu / 1e9);
            usage.copilot = Some(copilot);
        }
        let calls = std::mem::take(&mut self.calls).into_iter();
        Completion {
            message: AssistantMessage {
                text: std::mem::take(&mut self.text).into(),
                tool_calls: calls
                    .map(|call| ToolCall {
                        id: call.id,
                        name: call.name,
                        arguments: call.arguments.into(),
                        custom: call.custom,
                    })
                    .collect(),
                reasoning_text: Some(std::mem::take(&mut self.reasoning)).filter(|text| !text.is_empty()),
                reasoning_opaque: self.reasoning_opaque.take(),
                encrypted_content: self.encrypted_content.take(),
                phase: self.phase.take(),
            },
            citations: self.citations.take(),
            usage,
            finish_reason: self.finish_reason.take(),
            api_call_id: self.api_call_id.take(),
            provider_call_id: self.provider_call_id.take(),
            model: self.model.take(),
            endpoint: Some(self.endpoint.to_owned()),
            quotas: std::mem::take(&mut self.quotas),
        }
    }
}
