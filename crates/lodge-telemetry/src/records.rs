//! Log records and metrics made from events.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use lodge_events::Event;
use serde_json::{Value, json};

use crate::{
    Secrets,
    otlp::{self, Attribute, nanos},
};

/// Bits of what is wanted, above the lowest severity of log records that is.
pub const TRACES: u8 = 64;
/// As [`TRACES`].
pub const METRICS: u8 = 128;

/// More than this does not wait to be sent; what is left out is counted.
const MOST: usize = 5_000;
/// So many spans can be open at a time.
const MOST_OPEN: usize = 10_000;

/// A log record and its severity.
pub struct Log {
    /// As OTLP counts them.
    pub severity: u8,
    /// The record.
    pub record: Value,
}

/// A number with its name and what it is about.
pub type Counts = BTreeMap<(&'static str, Vec<(&'static str, String)>), u64>;

struct Open {
    span: String,
    parent: Option<String>,
    trace: String,
    since: u128,
    name: String,
    about: Vec<Attribute>,
}

/// What waits to be sent.
#[derive(Default)]
pub struct Taken {
    /// Log records.
    pub logs: Vec<Log>,
    /// Spans that ended.
    pub spans: Vec<Value>,
    /// What was counted since the last time.
    pub counts: Counts,
    /// When that was.
    pub since: u128,
}

/// An event with its data read, which takes longer than to note it.
pub struct Noted<'a> {
    event: &'a Event,
    data: Value,
}

impl<'a> Noted<'a> {
    /// Reads an event. None for a delta: it says nothing that is not said at the end.
    pub fn read(event: &'a Event) -> Option<Self> {
        let is_delta = event.kind().ends_with("_delta");
        (!is_delta).then(|| Self {
            event,
            data: serde_json::from_str(event.data_json()).unwrap_or_default(),
        })
    }
}

/// Everything noted.
#[derive(Default)]
pub struct Notes {
    taken: Taken,
    left_out: usize,
    /// The running turn of each session, or of an agent in it.
    turns: HashMap<(Arc<str>, String), String>,
    open: HashMap<String, Open>,
}

impl Notes {
    /// What was noted since the last time.
    pub fn take(&mut self) -> Taken {
        let next = Taken {
            since: otlp::now(),
            ..Taken::default()
        };
        let mut taken = std::mem::replace(&mut self.taken, next);
        if taken.since == 0 {
            taken.since = otlp::now();
        }
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let record = otlp::log(otlp::now(), 13, &format!("{left_out} records were left out"), &[]);
            taken.logs.push(Log { severity: 13, record });
        }
        taken
    }

    /// Notes an event as far as it is wanted.
    pub fn event(&mut self, session: &Arc<str>, Noted { event, data }: &Noted<'_>, wanted: u8, secrets: &Secrets) {
        let kind = event.kind();
        let agent = event.agent_id().unwrap_or_default().to_owned();
        let here = (session.clone(), agent.clone());
        if kind == "user.message" && data["source"].is_null() {
            let id = data["messageId"]
                .as_str()
                .map_or_else(|| event.id().to_string(), str::to_owned);
            self.turns.insert(here.clone(), id);
        }
        let mut about: Vec<Attribute> = vec![("ahp.session.id", json!(&**session))];
        if let Some(turn) = self.turns.get(&here) {
            about.push(("ahp.turn.id", json!(turn)));
        }
        if let Some(call) = data["toolCallId"].as_str() {
            about.push(("ahp.tool_call.id", json!(call)));
        }
        if !agent.is_empty() {
            about.push(("lodge.agent.id", json!(agent)));
        }
        let least = wanted & 63;
        let severity = severity(kind, data);
        if least != 0 && severity >= least {
            self.log(event, severity, &text(kind, data, secrets), &about);
        }
        if wanted & TRACES != 0 {
            self.span(&here, event, data, about);
        }
        if wanted & METRICS != 0 {
            self.count(kind, data);
        }
        if kind == "session.idle" {
            self.turns.retain(|(of, _), _| of != session);
        }
    }

    fn log(&mut self, event: &Event, severity: u8, text: &str, about: &[Attribute]) {
        if self.taken.logs.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let mut about = about.to_vec();
        about.push(("event.name", json!(event.kind())));
        let record = otlp::log(nanos(event.timestamp()), severity, text, &about);
        self.taken.logs.push(Log { severity, record });
    }

    fn count(&mut self, kind: &str, data: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match kind {
            "assistant.usage" => {
                for (which, key) in [("input", "inputTokens"), ("output", "outputTokens")] {
                    let tokens = data[key].as_f64().unwrap_or_default() as u64;
                    let about = vec![
                        ("gen_ai.token.type", which.to_owned()),
                        ("gen_ai.request.model", text(&data["model"])),
                    ];
                    *self
                        .taken
                        .counts
                        .entry(("gen_ai.client.token.usage", about))
                        .or_default() += tokens;
                }
            }
            "tool.execution_complete" => {
                let name = self.tool(data);
                let about = vec![
                    ("gen_ai.tool.name", name),
                    ("success", data["success"].as_bool().unwrap_or_default().to_string()),
                ];
                *self.taken.counts.entry(("lodge.tool.calls", about)).or_default() += 1;
            }
            "session.idle" => *self.taken.counts.entry(("lodge.turns", Vec::new())).or_default() += 1,
            "session.error" => *self.taken.counts.entry(("lodge.errors", Vec::new())).or_default() += 1,
            "tool.execution_start" => {
                // Its end does not say which tool it was.
                let call = format!("name/{}", text(&data["toolCallId"]));
                self.open_span(call, None, String::new(), 0, text(&data["toolName"]), Vec::new());
            }
            _ => {}
        }
    }

    fn tool(&mut self, data: &Value) -> String {
        let call = format!("name/{}", data["toolCallId"].as_str().unwrap_or_default());
        self.open.remove(&call).map(|open| open.name).unwrap_or_default()
    }

    fn open_span(
        &mut self,
        key: String,
        parent: Option<String>,
        trace: String,
        since: u128,
        name: String,
        about: Vec<Attribute>,
    ) {
        if self.open.len() < MOST_OPEN {
            let span = hex(&key, 8);
            let open = Open {
                span,
                parent,
                trace,
                since,
                name,
                about,
            };
            self.open.insert(key, open);
        }
    }

    /// Opens and closes the spans of turns, of calls of the model and of tools.
    fn span(&mut self, here: &(Arc<str>, String), event: &Event, data: &Value, about: Vec<Attribute>) {
        let Some(turn) = self.turns.get(here).cloned() else {
            return;
        };
        let (session, at) = (&here.0, nanos(event.timestamp()));
        let trace = hex(&format!("{session}/{turn}"), 16);
        let turn_key = format!("turn/{session}/{turn}");
        let model_key = format!("model/{session}/{turn}/{}", here.1);
        let call = data["toolCallId"].as_str().unwrap_or_default();
        let call_key = format!("tool/{session}/{call}");
        let parent = self.open.get(&turn_key).map(|open| open.span.clone());
        match event.kind() {
            "user.message" if parent.is_none() => {
                self.open_span(turn_key, None, trace, at, "invoke_agent lodge".to_owned(), about);
            }
            "assistant.turn_start" => self.open_span(model_key, parent, trace, at, "chat".to_owned(), about),
            "assistant.usage" => {
                if let Some(open) = self.open.get_mut(&model_key) {
                    let model = data["model"].as_str().unwrap_or_default();
                    open.name = format!("chat {model}");
                    open.about.push(("gen_ai.request.model", json!(model)));
                    open.about
                        .push(("gen_ai.usage.input_tokens", data["inputTokens"].clone()));
                    open.about
                        .push(("gen_ai.usage.output_tokens", data["outputTokens"].clone()));
                }
            }
            "assistant.turn_end" => self.close(&model_key, at, true, 3),
            "tool.execution_start" => {
                let name = data["toolName"].as_str().unwrap_or_default();
                let mut about = about;
                about.push(("gen_ai.tool.name", json!(name)));
                self.open_span(call_key, parent, trace, at, format!("execute_tool {name}"), about);
            }
            "tool.execution_complete" => self.close(&call_key, at, data["success"] == true, 1),
            "session.error" => {
                if let Some(open) = self.open.get_mut(&turn_key) {
                    open.about.push(("error.type", data["errorType"].clone()));
                }
            }
            "session.idle" => {
                self.close(&model_key, at, false, 3);
                let failed = self
                    .open
                    .get(&turn_key)
                    .is_some_and(|open| open.about.iter().any(|(name, _)| *name == "error.type"));
                self.close(&turn_key, at, !failed && data["aborted"] != true, 1);
            }
            _ => {}
        }
    }

    fn close(&mut self, key: &str, at: u128, well: bool, kind: u8) {
        let Some(open) = self.open.remove(key) else { return };
        if self.taken.spans.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let mut span = json!({
            "traceId": open.trace, "spanId": open.span, "name": open.name, "kind": kind,
            "startTimeUnixNano": open.since.to_string(), "endTimeUnixNano": at.to_string(),
            "attributes": otlp::noted(&open.about),
            "status": { "code": if well { 1 } else { 2 } },
        });
        if let Some(parent) = open.parent {
            span["parentSpanId"] = parent.into();
        }
        self.taken.spans.push(span);
    }
}

/// The same bytes for the same name, so that spans of one turn find each other.
fn hex(name: &str, bytes: usize) -> String {
    let id = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes())
        .simple()
        .to_string();
    id[..bytes * 2].to_owned()
}

fn severity(kind: &str, data: &Value) -> u8 {
    match kind {
        "session.error" | "model.call_failure" => 17,
        "session.warning" => 13,
        "session.mcp_server_status_changed" if data["status"] == "failed" => 13,
        "tool.execution_complete" if data["success"] == false => 13,
        "user.message" | "session.idle" | "session.info" | "abort" | "subagent.started" | "subagent.completed" => 9,
        "tool.execution_start" | "tool.execution_complete" | "assistant.usage" | "permission.requested" => 5,
        _ => 1,
    }
}

/// What happened, in words; never what somebody said.
fn text(kind: &str, data: &Value, secrets: &Secrets) -> String {
    let word = |key: &str| data[key].as_str().unwrap_or_default();
    let detail = match kind {
        "session.error" | "session.warning" => secrets.redact(word("message")),
        "model.call_failure" => secrets.redact(&format!("{} {}", word("errorCode"), word("errorMessage"))),
        "session.mcp_server_status_changed" => {
            secrets.redact(&format!("{} {} {}", word("serverName"), word("status"), word("error")))
        }
        "tool.execution_start" => word("toolName").to_owned(),
        "assistant.usage" => word("model").to_owned(),
        "tool.execution_complete" => match data["success"] == true {
            true => "done".to_owned(),
            false => "failed".to_owned(),
        },
        _ => String::new(),
    };
    let detail = detail.trim();
    if detail.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}: {detail}")
    }
}
