//! Spans made from a session's events: one for each turn of the agent, and in it one for each model call and tool call.
//! A sub-agent's span is inside that of the call that started it.

use std::collections::HashMap;

use jiff::Timestamp;
use lodge_events::{Event, EventType, Payload};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The longest text in a span.
const LONGEST_TEXT: usize = 32 * 1024;
/// A span that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) name: String,
    /// 1 within the host, 3 to a model.
    pub(crate) kind: u8,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) attributes: Map<String, Value>,
    pub(crate) error: Option<String>,
}

impl Span {
    fn begin(trace: &str, parent: Option<&str>, kind: u8, name: String, start: Timestamp, attributes: Value) -> Self {
        let Value::Object(attributes) = attributes else {
            unreachable!("attributes are an object")
        };
        Self {
            trace: trace.to_owned(),
            id: Uuid::new_v4().simple().to_string()[..16].to_owned(),
            parent: parent.map(str::to_owned),
            name,
            kind,
            start,
            end: start,
            attributes,
            error: None,
        }
    }

    fn set(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.attributes.insert(name.to_owned(), value.into());
        }
    }

    fn ended(mut self, end: Timestamp) -> Self {
        self.end = end;
        self
    }
}

/// An agent at work.
struct Agent {
    span: Span,
    chat: Option<Span>,
    /// What the model has not been told yet.
    input: Vec<Value>,
}

/// A session's open spans.
pub(crate) struct Fold {
    session_id: String,
    content: bool,
    /// Trace and span of the client that the next turn belongs to.
    client: Option<(String, String)>,
    /// By the id of the sub-agent; empty for the session's own.
    agents: HashMap<String, Agent>,
    /// By the id of the call.
    tools: HashMap<String, Span>,
}

impl Fold {
    pub(crate) fn new(session_id: &str, content: bool) -> Self {
        Self {
            session_id: session_id.to_owned(),
            content,
            client: None,
            agents: HashMap::new(),
            tools: HashMap::new(),
        }
    }

    /// The next turn belongs to this span: `00-<trace>-<span>-<flags>`.
    pub(crate) fn belongs_to(&mut self, traceparent: &str) {
        let parts: Vec<&str> = traceparent.split('-').collect();
        if let [_, trace, span, ..] = parts[..]
            && trace.len() == 32
            && span.len() == 16
        {
            self.client = Some((trace.to_owned(), span.to_owned()));
        }
    }

    /// The span of a tool call that runs: `00-<trace>-<span>-01`.
    pub(crate) fn of_tool(&self, id: &str) -> Option<String> {
        let span = self.tools.get(id)?;
        Some(format!("00-{}-{}-01", span.trace, span.id))
    }

    /// Whether spans are made from events like this one.
    pub(crate) fn reads(event: &Event) -> bool {
        use EventType as T;
        matches!(
            event.event_type(),
            Some(
                T::UserMessage
                    | T::AssistantTurnStart
                    | T::AssistantMessage
                    | T::AssistantUsage
                    | T::AssistantTurnEnd
                    | T::ToolExecutionStart
                    | T::ToolExecutionComplete
                    | T::SubagentStarted
                    | T::SubagentCompleted
                    | T::SubagentFailed
                    | T::SessionError
                    | T::SessionIdle
            )
        )
    }

    /// Takes an event in; gives the spans that it ends.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<Span> {
        let (key, now) = (event.agent_id().unwrap_or_default().to_owned(), event.timestamp());
        match event.payload() {
            Payload::UserMessage(message) => {
                let part = json!({"type": "text", "content": cut(&message.content)});
                let content = self.content;
                if let Some(agent) = self.agent(&key, now)
                    && content
                {
                    agent.input.push(json!({"role": "user", "parts": [part]}));
                }
            }
            Payload::SubagentStarted(started) => {
                let over = self.tools.get(&started.tool_call_id).map(|tool| tool.id.clone());
                if let Some(main) = self.agent("", now) {
                    let (trace, main) = (main.span.trace.clone(), main.span.id.clone());
                    let span = self.agent_span(&trace, Some(&over.unwrap_or(main)), &started.agent_name, now);
                    self.agents.insert(key, Agent::new(span));
                }
            }
            Payload::AssistantTurnStart(turn) => {
                let content = self.content;
                if let Some(agent) = self.agent(&key, now) {
                    let model = turn.model.as_deref().unwrap_or_default();
                    let name = format!("chat {model}").trim_end().to_owned();
                    let attributes = json!({"gen_ai.operation.name": "chat"});
                    let mut chat = Span::begin(&agent.span.trace, Some(&agent.span.id), 3, name, now, attributes);
                    chat.set("gen_ai.request.model", turn.model.as_deref());
                    if content {
                        let input = Value::from(std::mem::take(&mut agent.input)).to_string();
                        chat.set("gen_ai.input.messages", Some(input));
                    }
                    return Vec::from_iter(agent.chat.replace(chat).map(|before| before.ended(now)));
                }
            }
            Payload::AssistantMessage(message) if self.content => {
                let mut parts = vec![json!({"type": "text", "content": cut(&message.content)})];
                for call in message.tool_requests.iter().flatten() {
                    parts.push(json!({"type": "tool_call", "id": call.tool_call_id, "name": call.name}));
                }
                let output = json!([{"role": "assistant", "parts": parts}]).to_string();
                if let Some(chat) = self.chat(&key) {
                    chat.set("gen_ai.output.messages", Some(output));
                }
            }
            // What was asked beside the conversation is no part of the chat.
            Payload::AssistantUsage(usage) if !usage.is_of_an_agent() => {}
            Payload::AssistantUsage(usage) => {
                if let Some(chat) = self.chat(&key) {
                    let model = Some(usage.model.as_str());
                    chat.set("gen_ai.request.model", model);
                    chat.set("gen_ai.response.model", model);
                    chat.set("gen_ai.response.id", usage.api_call_id.as_deref());
                    chat.set("gen_ai.usage.input_tokens", usage.input_tokens);
                    chat.set("gen_ai.usage.output_tokens", usage.output_tokens);
                    chat.set("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens);
                    chat.set("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens);
                    chat.name = format!("chat {}", usage.model);
                }
                return Vec::from_iter(self.end_chat(&key, now));
            }
            Payload::AssistantTurnEnd(_) => return Vec::from_iter(self.end_chat(&key, now)),
            Payload::ToolExecutionStart(start) => {
                let content = self.content;
                if let Some(agent) = self.agent(&key, now) {
                    let (tool, id) = (&start.tool_name, &start.tool_call_id);
                    let attributes = json!({
                        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": id,
                        "gen_ai.tool.type": "function",
                    });
                    let (trace, over) = (agent.span.trace.clone(), agent.span.id.clone());
                    let mut span = Span::begin(&trace, Some(&over), 1, format!("execute_tool {tool}"), now, attributes);
                    if content && let Some(arguments) = &start.arguments {
                        span.set("gen_ai.tool.call.arguments", Some(cut(&arguments.to_string())));
                    }
                    self.tools.insert(id.clone(), span);
                }
            }
            Payload::ToolExecutionComplete(complete) => {
                let id = &complete.tool_call_id;
                let said = match complete.success {
                    true => complete.result.as_ref().map(|result| result.content.as_str()),
                    false => complete.error.as_ref().map(|error| error.message.as_str()),
                };
                let said = cut(said.unwrap_or_default());
                if self.content
                    && let Some(agent) = self.agents.get_mut(&key)
                {
                    let part = json!({"type": "tool_call_response", "id": id, "response": said});
                    agent.input.push(json!({"role": "tool", "parts": [part]}));
                }
                if let Some(mut tool) = self.tools.remove(id) {
                    if self.content {
                        tool.set("gen_ai.tool.call.result", Some(said));
                    }
                    if !complete.success {
                        let code = complete.error.as_ref().and_then(|error| error.code.clone());
                        tool.error = Some(code.unwrap_or_default());
                    }
                    return vec![tool.ended(now)];
                }
            }
            Payload::SubagentFailed(_) => return self.end_agent(&key, now, Some("subagent.failed".to_owned())),
            Payload::SubagentCompleted(_) => return self.end_agent(&key, now, None),
            Payload::SessionError(failed) => {
                if let Some(agent) = self.agents.get_mut(&key) {
                    let error = Some(failed.error_type.to_string());
                    agent.chat.iter_mut().for_each(|chat| chat.error = error.clone());
                    agent.span.error = error;
                }
            }
            Payload::SessionIdle(_) => return self.end(now),
            _ => {}
        }
        Vec::new()
    }

    /// Ends whatever is open.
    pub(crate) fn end(&mut self, now: Timestamp) -> Vec<Span> {
        let mut ended: Vec<Span> = self.tools.drain().map(|(_, tool)| tool.ended(now)).collect();
        for (_, agent) in self.agents.drain() {
            ended.extend(agent.chat.map(|chat| chat.ended(now)));
            ended.push(agent.span.ended(now));
        }
        ended
    }

    /// The agent of this key. The session's own begins its work when something happens; a sub-agent says so.
    fn agent(&mut self, key: &str, now: Timestamp) -> Option<&mut Agent> {
        if key.is_empty() && !self.agents.contains_key("") {
            let (trace, over) = match self.client.take() {
                Some((trace, span)) => (trace, Some(span)),
                None => (Uuid::new_v4().simple().to_string(), None),
            };
            let span = self.agent_span(&trace, over.as_deref(), "", now);
            self.agents.insert(String::new(), Agent::new(span));
        }
        self.agents.get_mut(key)
    }

    fn agent_span(&self, trace: &str, over: Option<&str>, name: &str, now: Timestamp) -> Span {
        let shown = format!("invoke_agent {name}").trim_end().to_owned();
        let attributes = json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": self.session_id});
        let mut span = Span::begin(trace, over, 1, shown, now, attributes);
        if !name.is_empty() {
            span.set("gen_ai.agent.name", Some(name));
        }
        span
    }

    fn chat(&mut self, key: &str) -> Option<&mut Span> {
        self.agents.get_mut(key)?.chat.as_mut()
    }

    fn end_chat(&mut self, key: &str, now: Timestamp) -> Option<Span> {
        Some(self.agents.get_mut(key)?.chat.take()?.ended(now))
    }

    fn end_agent(&mut self, key: &str, now: Timestamp, error: Option<String>) -> Vec<Span> {
        let Some(mut agent) = self.agents.remove(key) else {
            return Vec::new();
        };
        agent.span.error = error.or(agent.span.error);
        let chat = agent.chat.map(|chat| chat.ended(now));
        chat.into_iter().chain([agent.span.ended(now)]).collect()
    }
}

/// A text, no longer than a span may hold.
fn cut(text: &str) -> String {
    match text.char_indices().find(|(at, _)| *at >= LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Agent {
    fn new(span: Span) -> Self {
        Self {
            span,
            chat: None,
            input: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::{
        AssistantMessage, AssistantTurnStart, AssistantUsage, Payload, SessionIdle, ToolExecutionComplete,
        ToolExecutionStart, UserMessage,
    };

    use super::*;

    fn spans(content: bool, traceparent: Option<&str>) -> Vec<Span> {
        let mut fold = Fold::new("s1", content);
        traceparent.iter().for_each(|parent| fold.belongs_to(parent));
        let events: Vec<Payload> = vec![
            UserMessage {
                content: "question".into(),
                ..Default::default()
            }
            .into(),
            AssistantTurnStart::default().into(),
            AssistantMessage {
                content: "answer".into(),
                ..Default::default()
            }
            .into(),
            AssistantUsage {
                model: "m".into(),
                input_tokens: Some(7),
                ..Default::default()
            }
            .into(),
            ToolExecutionStart {
                tool_call_id: "c".into(),
                tool_name: "echo".into(),
                ..Default::default()
            }
            .into(),
            ToolExecutionComplete {
                tool_call_id: "c".into(),
                success: false,
                ..Default::default()
            }
            .into(),
            SessionIdle::default().into(),
        ];
        let events = events.into_iter().map(|payload| Event::new(None, None, payload));
        events.flat_map(|event| fold.apply(&event)).collect()
    }

    #[test]
    fn a_turn_is_an_agent_span_with_its_calls_beneath() {
        let spans = spans(false, None);
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["chat m", "execute_tool echo", "invoke_agent"]);
        let agent = &spans[2];
        assert_eq!(agent.parent, None);
        assert!(
            spans[..2]
                .iter()
                .all(|span| span.parent.as_ref() == Some(&agent.id) && span.trace == agent.trace)
        );
        assert_eq!(spans[0].attributes["gen_ai.usage.input_tokens"], 7);
        assert_eq!((&spans[0].error, spans[1].error.is_some()), (&None, true));
        assert!(spans.iter().all(|span| !format!("{span:?}").contains("question")));
    }

    #[test]
    fn what_was_said_is_told_where_that_is_wanted() {
        let chat = &spans(true, None)[0];
        assert!(
            chat.attributes["gen_ai.input.messages"]
                .as_str()
                .unwrap()
                .contains("question")
        );
        assert!(
            chat.attributes["gen_ai.output.messages"]
                .as_str()
                .unwrap()
                .contains("answer")
        );
    }

    #[test]
    fn a_turn_belongs_to_the_clients_span() {
        let agent = &spans(false, Some("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"))[2];
        assert_eq!(agent.trace, "0123456789abcdef0123456789abcdef");
        assert_eq!(agent.parent.as_deref(), Some("0123456789abcdef"));
        assert_eq!(spans(false, Some("nonsense"))[2].parent, None);
    }
}
