//! The envelope: one event with its JSON, and how it is written.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::head::trim;
use crate::{EventData, EventError, EventType, Head, Payload, Unknown, is_beside, time};

/// One session event: the head of its envelope, and the exact JSON it travels as. Cheap to clone.
#[derive(Clone)]
pub struct Event(Arc<Inner>);

struct Inner {
    json: Bytes,
    /// Where the data object is in `json`.
    data: Range<usize>,
    kind: Kind,
    id: Uuid,
    timestamp: Timestamp,
    parent_id: Option<Uuid>,
    agent_id: Option<Arc<str>>,
    ephemeral: bool,
    /// Filled when the event is made, or when somebody asks for the payload of one that was read.
    payload: OnceLock<Payload>,
}

enum Kind {
    Known(EventType),
    Other(Box<str>),
}

impl Event {
    /// A new event with a fresh id, of now. It is ephemeral if its type is.
    ///
    /// `parent` is the id of the last persisted event of the session; `agent_id` is set for events of sub-agents.
    pub fn new(parent: Option<Uuid>, agent_id: Option<Arc<str>>, data: impl Into<Payload>) -> Self {
        Self::with(Uuid::new_v4(), Timestamp::now(), parent, agent_id, data)
    }

    /// A new event that is not for the log whatever its type: for telling clients that the log cannot be written, and
    /// for messages that a client wants shown and not kept.
    pub fn new_ephemeral(parent: Option<Uuid>, agent_id: Option<Arc<str>>, data: impl Into<Payload>) -> Self {
        Self::make(Uuid::new_v4(), Timestamp::now(), parent, agent_id, data.into(), true)
    }

    /// A new event with everything given. The timestamp is cut to milliseconds.
    pub fn with(
        id: Uuid,
        timestamp: Timestamp,
        parent: Option<Uuid>,
        agent_id: Option<Arc<str>>,
        data: impl Into<Payload>,
    ) -> Self {
        let payload = data.into();
        let ephemeral = payload.is_ephemeral();
        Self::make(id, timestamp, parent, agent_id, payload, ephemeral)
    }

    fn make(
        id: Uuid,
        timestamp: Timestamp,
        parent: Option<Uuid>,
        agent_id: Option<Arc<str>>,
        payload: Payload,
        ephemeral: bool,
    ) -> Self {
        let (json, data) = write(id, timestamp, parent, agent_id.as_deref(), ephemeral, &payload);
        let kind = match payload.event_type() {
            Some(known) => Kind::Known(known),
            None => Kind::new(payload.kind()),
        };
        Self(Arc::new(Inner {
            json: json.into(),
            data,
            kind,
            id,
            timestamp: time::to_millis(timestamp),
            parent_id: parent,
            agent_id,
            ephemeral,
            payload: payload.into(),
        }))
    }

    /// Reads one event. The bytes are kept as they are, but for white space and a byte order mark around them, and
    /// line breaks between tokens, which become spaces: an event is one line.
    pub fn parse(json: Bytes) -> Result<Self, EventError> {
        let mut json = json.slice_ref(trim(&json));
        if json.contains(&b'\n') || json.contains(&b'\r') {
            json = json
                .iter()
                .map(|&byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte })
                .collect();
        }
        let head = Head::parse(&json)?;
        let start = head.data.as_ptr().addr() - json.as_ptr().addr();
        let inner = Inner {
            data: start..start + head.data.len(),
            kind: Kind::new(&head.kind),
            id: head.id,
            timestamp: head.timestamp,
            parent_id: head.parent_id,
            agent_id: head.agent_id.as_deref().map(Arc::from),
            ephemeral: head.ephemeral,
            payload: OnceLock::new(),
            json,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// The event's id.
    pub fn id(&self) -> Uuid {
        self.0.id
    }

    /// When the event was made.
    pub fn timestamp(&self) -> Timestamp {
        self.0.timestamp
    }

    /// Id of the last persisted event before this one; `None` for the first.
    pub fn parent_id(&self) -> Option<Uuid> {
        self.0.parent_id
    }

    /// Whether the event is sent but not written to the log.
    pub fn is_ephemeral(&self) -> bool {
        self.0.ephemeral
    }

    /// Whether the event hangs beside the chain: it is written to the log, and no event has it as its parent.
    pub fn is_beside(&self) -> bool {
        is_beside(self.kind())
    }

    /// The same event with another parent: for one that hangs beside the chain when the chain is cut before it.
    pub fn with_parent(&self, parent: Option<Uuid>) -> Self {
        let Inner {
            id,
            timestamp,
            agent_id,
            ephemeral,
            ..
        } = &*self.0;
        // From its own bytes, so that fields of a newer build stay.
        let data = Payload::Unknown(Box::new(self.raw_payload()));
        let (json, data) = write(*id, *timestamp, parent, agent_id.as_deref(), *ephemeral, &data);
        Self(Arc::new(Inner {
            json: json.into(),
            data,
            kind: Kind::new(self.kind()),
            id: *id,
            timestamp: *timestamp,
            parent_id: parent,
            agent_id: agent_id.clone(),
            ephemeral: *ephemeral,
            payload: OnceLock::new(),
        }))
    }

    /// The sub-agent the event belongs to.
    pub fn agent_id(&self) -> Option<&str> {
        self.0.agent_id.as_deref()
    }

    /// Name of the type on the wire, such as `assistant.message`.
    pub fn kind(&self) -> &str {
        match &self.0.kind {
            Kind::Known(known) => known.name(),
            Kind::Other(name) => name,
        }
    }

    /// The type, if this version knows it. The data of a known type may still not fit: see [`Event::payload`].
    pub fn event_type(&self) -> Option<EventType> {
        match self.0.kind {
            Kind::Known(known) => Some(known),
            Kind::Other(_) => None,
        }
    }

    /// The event as JSON: one line, without the line break.
    pub fn json(&self) -> &Bytes {
        &self.0.json
    }

    /// The event as JSON text.
    pub fn as_str(&self) -> &str {
        text(&self.0.json)
    }

    /// The data as JSON.
    pub fn data_json(&self) -> &str {
        text(&self.0.json[self.0.data.clone()])
    }

    /// The data as JSON bytes that share the memory of [`Event::json`].
    pub fn data_bytes(&self) -> Bytes {
        self.0.json.slice(self.0.data.clone())
    }

    /// The typed data. Free for events made here; read at most once for others.
    pub fn payload(&self) -> &Payload {
        self.0.payload.get_or_init(|| {
            self.event_type()
                .and_then(|known| Payload::read(known, self.data_json()))
                .unwrap_or_else(|| Payload::Unknown(Box::new(self.raw_payload())))
        })
    }

    fn raw_payload(&self) -> Unknown {
        Unknown {
            kind: self.kind().into(),
            ephemeral: self.0.ephemeral,
            data: self.data_json().into(),
        }
    }

    /// The typed data, if it is of this type.
    pub fn get<T: EventData>(&self) -> Option<&T> {
        (self.event_type() == Some(T::TYPE))
            .then(|| T::from_payload(self.payload()))
            .flatten()
    }

    /// Whether the event is of this type.
    pub fn is<T: EventData>(&self) -> bool {
        self.event_type() == Some(T::TYPE)
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Two events are the same when their JSON is, byte for byte.
impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.json == other.0.json
    }
}

impl Eq for Event {}

/// Puts the event's own JSON into other JSON.
impl serde::Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.as_str()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl Kind {
    fn new(name: &str) -> Self {
        EventType::from_name(name).map_or_else(|| Self::Other(name.into()), Self::Known)
    }
}

/// The event's JSON is made of text or was checked to be text when it was read.
fn text(json: &[u8]) -> &str {
    std::str::from_utf8(json).expect("events are UTF-8")
}

/// Writes an event with its fields in the order of the Copilot CLI, and returns where its data is.
fn write(
    id: Uuid,
    timestamp: Timestamp,
    parent: Option<Uuid>,
    agent_id: Option<&str>,
    ephemeral: bool,
    payload: &Payload,
) -> (Vec<u8>, Range<usize>) {
    let mut out = Vec::with_capacity(384);
    out.extend_from_slice(b"{\"type\":");
    match payload.event_type() {
        Some(known) => {
            out.push(b'"');
            out.extend_from_slice(known.name().as_bytes());
            out.push(b'"');
        }
        None => write_text(&mut out, payload.kind()),
    }
    out.extend_from_slice(b",\"data\":");
    let start = out.len();
    payload.write(&mut out);
    let data = start..out.len();
    if let Some(agent_id) = agent_id {
        out.extend_from_slice(b",\"agentId\":");
        write_text(&mut out, agent_id);
    }
    if ephemeral || is_beside(payload.kind()) {
        out.extend_from_slice(b",\"ephemeral\":true");
    }
    out.extend_from_slice(b",\"id\":");
    write_id(&mut out, id);
    out.extend_from_slice(b",\"timestamp\":\"");
    time::write(timestamp, &mut out);
    out.extend_from_slice(b"\",\"parentId\":");
    match parent {
        Some(parent) => write_id(&mut out, parent),
        None => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
    // Growing by doubling can leave half of a large event's memory unused for as long as it lives.
    if out.capacity() - out.len() > 4096 {
        out.shrink_to_fit();
    }
    (out, data)
}

fn write_id(out: &mut Vec<u8>, id: Uuid) {
    out.push(b'"');
    out.extend_from_slice(id.hyphenated().encode_lower(&mut [0; 36]).as_bytes());
    out.push(b'"');
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing text to memory does not fail");
}
