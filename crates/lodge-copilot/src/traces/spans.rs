//! Spans from a session's events: one for each time that the agent is at work, and in it one for each call of a model and
//! of a tool. A sub-agent's is in that of the call that started it.

use std::collections::HashMap;

use jiff::Timestamp;
use lodge_events::Event;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The longest text in a span.
const LONGEST_TEXT: usize = 32 * 1024;
/// Events that spans are made from; the others are not even read.
const READ: &[&str] = &[
    "user.message",
    "assistant.turn_start",
    "assistant.message",
    "assistant.usage",
    "assistant.turn_end",
    "tool.execution_start",
    "tool.execution_complete",
    "subagent.started",
    "subagent.completed",
    "subagent.failed",
    "session.error",
    "session.idle",
];

/// A span that has ended.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) name: String,
    /// 1 within the host, 3 to a model.
    pub(super) kind: u8,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Map<String, Value>,
    pub(super) error: Option<String>,
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

    fn set(&mut self, name: &str, value: &Value) {
        if !value.is_null() {
            self.attributes.insert(name.to_owned(), value.clone());
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
pub(super) struct Fold {
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
    pub(super) fn new(session_id: &str, content: bool) -> Self {
        Self {
            session_id: session_id.to_owned(),
            content,
            client: None,
            agents: HashMap::new(),
            tools: HashMap::new(),
        }
    }

    /// The next turn belongs to this span: `00-<trace>-<span>-<flags>`.
    pub(super) fn belongs_to(&mut self, traceparent: &str) {
        let parts: Vec<&str> = traceparent.split('-').collect();
        if let [_, trace, span, ..] = parts[..]
            && trace.len() == 32
            && span.len() == 16
        {
            self.client = Some((trace.to_owned(), span.to_owned()));
        }
    }

    /// The span of a tool call that runs: `00-<trace>-<span>-01`.
    pub(super) fn of_tool(&self, id: &str) -> Option<String> {
        let span = self.tools.get(id)?;
        Some(format!("00-{}-{}-01", span.trace, span.id))
    }

    /// Takes an event in; gives the spans that it ends.
    pub(super) fn take(&mut self, event: &Event) -> Vec<Span> {
        let mut ended = Vec::new();
        if !READ.contains(&event.kind()) {
            return ended;
        }
        let Ok(data) = serde_json::from_str::<Value>(event.data_json()) else {
            return ended;
        };
        let (key, now) = (event.agent_id().unwrap_or_default().to_owned(), event.timestamp());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match event.kind() {
            "user.message" => {
                let part = json!({"type": "text", "content": self.cut(&data["content"])});
                let content = self.content;
                if let Some(agent) = self.agent(&key, now)
                    && content
                {
                    agent.input.push(json!({"role": "user", "parts": [part]}));
                }
            }
            "subagent.started" => {
                let over = self.tools.get(&text(&data["toolCallId"])).map(|tool| tool.id.clone());
                if let Some(main) = self.agent("", now) {
                    let (trace, main) = (main.span.trace.clone(), main.span.id.clone());
                    let name = text(&data["agentName"]);
                    let span = self.agent_span(&trace, Some(&over.unwrap_or(main)), &name, now);
                    self.agents.insert(key, Agent::new(span));
                }
            }
            "assistant.turn_start" => {
                let content = self.content;
                if let Some(agent) = self.agent(&key, now) {
                    let model = text(&data["model"]);
                    let name = format!("chat {model}").trim_end().to_owned();
                    let attributes = json!({"gen_ai.operation.name": "chat"});
                    let mut chat = Span::begin(&agent.span.trace, Some(&agent.span.id), 3, name, now, attributes);
                    chat.set("gen_ai.request.model", &data["model"]);
                    if content {
                        let input = Value::from(std::mem::take(&mut agent.input)).to_string();
                        chat.set("gen_ai.input.messages", &json!(input));
                    }
                    ended.extend(agent.chat.replace(chat).map(|before| before.ended(now)));
                }
            }
            "assistant.message" if self.content => {
                let mut parts = vec![json!({"type": "text", "content": self.cut(&data["content"])})];
                for call in data["toolRequests"].as_array().into_iter().flatten() {
                    parts.push(json!({"type": "tool_call", "id": call["toolCallId"], "name": call["name"]}));
                }
                let output = json!([{"role": "assistant", "parts": parts}]).to_string();
                if let Some(chat) = self.chat(&key) {
                    chat.set("gen_ai.output.messages", &json!(output));
                }
            }
            "assistant.usage" => {
                if let Some(chat) = self.chat(&key) {
                    for (name, field) in [
                        ("gen_ai.request.model", "model"),
                        ("gen_ai.response.model", "model"),
                        ("gen_ai.response.id", "apiCallId"),
                        ("gen_ai.usage.input_tokens", "inputTokens"),
                        ("gen_ai.usage.output_tokens", "outputTokens"),
                        ("gen_ai.usage.cache_read.input_tokens", "cacheReadTokens"),
                        ("gen_ai.usage.cache_creation.input_tokens", "cacheWriteTokens"),
                    ] {
                        chat.set(name, &data[field]);
                    }
                    chat.name = format!("chat {}", text(&data["model"]));
                }
                ended.extend(self.end_chat(&key, now));
            }
            "assistant.turn_end" => ended.extend(self.end_chat(&key, now)),
            "tool.execution_start" => {
                let content = self.content;
                if let Some(agent) = self.agent(&key, now) {
                    let (tool, id) = (text(&data["toolName"]), text(&data["toolCallId"]));
                    let attributes = json!({
                        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": id,
                        "gen_ai.tool.type": "function",
                    });
                    let (trace, over) = (agent.span.trace.clone(), agent.span.id.clone());
                    let mut span = Span::begin(&trace, Some(&over), 1, format!("execute_tool {tool}"), now, attributes);
                    if content && !data["arguments"].is_null() {
                        let arguments = self.cut(&json!(data["arguments"].to_string()));
                        span.set("gen_ai.tool.call.arguments", &json!(arguments));
                    }
                    self.tools.insert(id, span);
                }
            }
            "tool.execution_complete" => {
                let id = text(&data["toolCallId"]);
                let said = if data["success"] == true {
                    &data["result"]["content"]
                } else {
                    &data["error"]["message"]
                };
                let said = self.cut(said);
                if self.content
                    && let Some(agent) = self.agents.get_mut(&key)
                {
                    let part = json!({"type": "tool_call_response", "id": id, "response": said});
                    agent.input.push(json!({"role": "tool", "parts": [part]}));
                }
                if let Some(mut tool) = self.tools.remove(&id) {
                    if self.content {
                        tool.set("gen_ai.tool.call.result", &json!(said));
                    }
                    if data["success"] != true {
                        tool.error = Some(text(&data["error"]["code"]));
                    }
                    ended.push(tool.ended(now));
                }
            }
            "subagent.failed" => ended.extend(self.end_agent(&key, now, Some("subagent.failed".to_owned()))),
            "subagent.completed" => ended.extend(self.end_agent(&key, now, None)),
            "session.error" => {
                if let Some(agent) = self.agents.get_mut(&key) {
                    let error = Some(text(&data["errorType"]));
                    agent.chat.iter_mut().for_each(|chat| chat.error = error.clone());
                    agent.span.error = error;
                }
            }
            "session.idle" => ended = self.end(now),
            _ => {}
        }
        ended
    }

    /// Ends whatever is open.
    pub(super) fn end(&mut self, now: Timestamp) -> Vec<Span> {
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
            span.set("gen_ai.agent.name", &json!(name));
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

    /// A text, no longer than a span may hold.
    fn cut(&self, text: &Value) -> String {
        let text = text.as_str().unwrap_or_default();
        match text.char_indices().find(|(at, _)| *at >= LONGEST_TEXT) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        }
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
        events.flat_map(|event| fold.take(&event)).collect()
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
