//! Requests to models and their answers, the same for every wire.

use std::{any::Any, collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{future::BoxFuture, stream::BoxStream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// A model that can be called. Dropping the stream cancels the call and closes whatever connection it used.
pub trait Model: Any + Send + Sync {
    /// What the model is and can do.
    fn info(&self) -> &ModelInfo;
    /// For a name that leaves the choice to the provider: asks for the model that it is to be, preferably of this tier.
    /// Nothing where there is no choice to make.
    fn chosen_by_provider(
        &self,
        _tier: Option<&str>,
    ) -> Option<BoxFuture<'static, Result<Arc<dyn Model>, ModelError>>> {
        None
    }
    /// Starts a call. The stream ends after [`Chunk::Done`] or an error, whichever comes first.
    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>>;
}

/// What clients may know of a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// The name that sessions select the model by.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// Name of the provider that serves it.
    pub provider: String,
    /// Tokens the whole context may hold; 0 where that is not known.
    pub context_window: u64,
    /// Tokens a request may hold, where that is less than the context has room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_prompt_tokens: Option<u64>,
    /// Tokens one answer may hold; 0 where that is not known.
    pub max_output_tokens: u64,
    /// Whether images may be sent.
    pub vision: bool,
    /// Reasoning efforts that may be chosen; empty when the model does not reason by choice.
    pub reasoning_efforts: Vec<String>,
}

/// One call of a model.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// The system prompt; sent first when not empty.
    pub system: Arc<str>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Tools that may be called.
    pub tools: Arc<[ToolSpec]>,
    /// Whether the answer shall be streamed.
    pub stream: bool,
    /// Effort to reason with, where the model offers a choice.
    pub reasoning_effort: Option<String>,
    /// Form of the reasoning's summary (`auto`, `concise`, `detailed`, `none`), where the wire offers a choice.
    pub reasoning_summary: Option<String>,
    /// Upper bound of the answer; the model's own when absent.
    pub max_output_tokens: Option<u64>,
    /// About how long the answer will be at most, where whoever asks knows. A wire that must name a bound names no more; the
    /// others name none.
    pub longest_answer: Option<u64>,
    /// About how many tokens the request takes, where whoever asks knows better than by its size.
    pub prompt_tokens: Option<u64>,
    /// How freely to choose words, where the model offers a choice.
    pub temperature: Option<f64>,
    /// Texts that end the answer, where the wire can say so.
    pub stop: Vec<String>,
    /// A tool that must be called (its name), where the wire can say so.
    pub required_tool: Option<String>,
    /// Whether the answer shall say what in the documents it rests on, where the wire can ask for that.
    pub citations: bool,
    /// The form that the answer must have.
    pub response_format: Option<Arc<ResponseFormat>>,
    /// Extra HTTP headers for this call.
    pub headers: BTreeMap<String, String>,
    /// Who asks, for the `user-agent` header.
    pub user_agent: Option<String>,
    /// What of the person's words the call belongs to, for providers that want to know.
    pub interaction_id: Option<String>,
    /// How often this very call was tried before (0 for the first time).
    pub attempt: u32,
    /// What came of this very answer before the connection broke: the model is asked to go on there. It may also say all of
    /// it again.
    pub partial: Arc<str>,
    /// The sub-agent that asks; none for a session's own agent.
    pub sub_agent: Option<SubAgent>,
}

/// A JSON schema for an answer. The provider sees to it; nobody else checks the schema or the answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResponseFormat {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The schema.
    pub schema: Value,
    /// Whether the answer must fit exactly, where the provider offers a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

/// A sub-agent, so that whoever carries a request knows whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubAgent {
    /// Its id.
    pub id: String,
    /// The sub-agent that started it; none when the session's own agent did.
    pub parent: Option<String>,
}

/// A tool as models see it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Name to call it by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON schema of its arguments.
    pub parameters: Arc<Value>,
}

/// One message of a conversation.
#[derive(Debug, Clone)]
pub enum Message {
    /// From the person, or from the host on the person's side.
    User(Vec<Part>),
    /// From the model.
    Assistant(AssistantMessage),
    /// The result of a tool call.
    Tool {
        /// The call it answers.
        call_id: String,
        /// The tool's name.
        name: String,
        /// The result text.
        content: Arc<str>,
        /// Images that belong to the result.
        images: Vec<Image>,
        /// What the tool found that an answer may cite.
        sources: Vec<CitableSource>,
    },
}

/// A text that a tool found and an answer may cite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CitableSource {
    /// What the tool calls it.
    pub id: String,
    /// The text.
    pub content: String,
    /// Its title, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where it is on the web.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Where it is in the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl CitableSource {
    /// What models call it, and name in a citation.
    pub fn name(&self) -> &str {
        self.url.as_deref().or(self.path.as_deref()).unwrap_or(&self.id)
    }
}

/// A piece of a user's message.
#[derive(Debug, Clone)]
pub enum Part {
    /// Text.
    Text(Arc<str>),
    /// An image.
    Image(Image),
    /// A document, such as a PDF.
    Document(Document),
}

/// A document, base64 encoded.
#[derive(Debug, Clone)]
pub struct Document {
    /// For example `application/pdf`.
    pub mime_type: String,
    /// Base64.
    pub data: Arc<str>,
    /// Its name.
    pub title: Arc<str>,
}

/// An image, base64 encoded.
#[derive(Debug, Clone)]
pub struct Image {
    /// For example `image/png`.
    pub mime_type: String,
    /// Base64.
    pub data: Arc<str>,
}

/// What the model said, in the form in which it is sent back.
#[derive(Debug, Clone, Default)]
pub struct AssistantMessage {
    /// The text.
    pub text: Arc<str>,
    /// Tool calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// Readable reasoning.
    pub reasoning_text: Option<String>,
    /// Reasoning that only its provider can read (Anthropic signature and redacted blocks), as that wire wrote it.
    pub reasoning_opaque: Option<String>,
    /// Encrypted reasoning of the OpenAI responses wire, as that wire wrote it.
    pub encrypted_content: Option<String>,
    /// The phase of a turn that the text belongs to, as the OpenAI responses API names it (`commentary`, `final_answer`).
    pub phase: Option<String>,
}

/// A tool call that the model requests.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments exactly as the model wrote them; not always valid JSON.
    pub arguments: Arc<str>,
    /// Whether this is a free-form ("custom") call rather than a function call.
    pub custom: bool,
}

/// A piece of a streamed answer.
#[derive(Debug, Clone)]
pub enum Chunk {
    /// Text to append to the answer.
    Text(String),
    /// Text to append to the reasoning.
    Reasoning(String),
    /// A fragment of a tool call's arguments.
    ToolCall {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// What to append to the arguments.
        fragment: String,
    },
    /// How many bytes of the response have arrived in all.
    Bytes(u64),
    /// The whole answer. Always the last chunk of a call that succeeds.
    Done(Box<Completion>),
}

/// A whole answer.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// The message to keep.
    pub message: AssistantMessage,
    /// Which spans of the text rest on which sources, in the form of the session event.
    pub citations: Option<Value>,
    /// Tokens and timing.
    pub usage: Usage,
    /// Why the model stopped, in the provider's word (`stop`, `tool_calls`, `length`, …).
    pub finish_reason: Option<String>,
    /// The provider's id of the completion.
    pub api_call_id: Option<String>,
    /// The provider's request id from the response headers.
    pub provider_call_id: Option<String>,
    /// The model's name as the provider gave it.
    pub model: Option<String>,
    /// Path that was called, e.g. `/chat/completions`.
    pub endpoint: Option<String>,
    /// What is left of the account's quotas, by their kind, where the provider says so.
    pub quotas: BTreeMap<String, Quota>,
}

/// What is left of a quota.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quota {
    /// Requests that are allowed; -1 for no limit.
    pub entitlement: f64,
    /// Requests that were used.
    pub used: f64,
    /// What is left, 0 to 100.
    pub remaining_percentage: f64,
    /// Requests beyond the limit.
    pub overage: f64,
    /// Whether there may be some.
    pub overage_allowed: bool,
    /// When it resets.
    pub resets: Option<String>,
}

/// Tokens used by a call, each where the provider said so.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Tokens sent, cached ones included.
    pub input_tokens: Option<u64>,
    /// Tokens received, reasoning included.
    pub output_tokens: Option<u64>,
    /// Of the input, read from the provider's cache.
    pub cache_read_tokens: Option<u64>,
    /// Of the input, written to the provider's cache.
    pub cache_write_tokens: Option<u64>,
    /// Of the output, reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Cost in the provider's unit where it is known.
    pub cost: Option<f64>,
    /// What the Copilot API says the call cost, item by item.
    pub copilot: Option<CopilotUsage>,
    /// The provider's own usage object, untouched.
    pub raw: Option<Arc<RawValue>>,
}

/// The cost of a call as the Copilot API reports it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CopilotUsage {
    /// In billionths of an AI unit.
    pub total_nano_aiu: f64,
    /// Tokens by kind.
    pub token_details: Vec<TokenCost>,
}

/// What tokens of one kind cost.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct TokenCost {
    /// Tokens that are paid for together.
    pub batch_size: u64,
    /// What those cost.
    pub cost_per_batch: u64,
    /// How many tokens there were.
    pub token_count: u64,
    /// `input`, `output`, …
    pub token_type: String,
}

/// The kind of failure of a call, as far as the agent must distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The key is wrong or missing.
    Authentication,
    /// The account may not do this.
    Authorization,
    /// Out of quota or credit.
    Quota,
    /// Too many requests.
    RateLimit,
    /// The conversation does not fit.
    ContextLimit,
    /// The request was refused as malformed or unknown.
    Query,
    /// The server failed, the network failed, or the stream broke.
    Connection,
}

impl ErrorKind {
    /// The word used in `session.error`'s `errorType`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Authorization => "authorization",
            Self::Quota => "quota",
            Self::RateLimit => "rate_limit",
            Self::ContextLimit => "context_limit",
            Self::Query => "query",
            Self::Connection => "connection",
        }
    }
}

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The case.
    pub kind: ErrorKind,
    /// The provider's own word for it.
    pub code: Option<String>,
    /// For people: what failed, with what, and what to do.
    pub message: String,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// The provider's request id.
    pub provider_call_id: Option<String>,
    /// Whether trying again may help.
    pub retryable: bool,
}
