//! The envelope: one event as JSON, and its head.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{EventData, EventType, Payload, Unknown, time};

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

/// Why some bytes are not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// There is nothing but white space.
    #[error("empty line")]
    Empty,
    /// The bytes are not text.
    #[error("not UTF-8 from byte {0} on")]
    NotUtf8(usize),
    /// Not JSON, not one object, a field that is missing, repeated or of the wrong type.
    #[error("{0}")]
    Json(String),
    /// An id is not a UUID.
    #[error("`{field}` is not a UUID: {value:?}")]
    BadId {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: String,
    },
    /// The timestamp is not one.
    #[error("`timestamp` is not an ISO 8601 time with an offset: {0:?}")]
    BadTimestamp(String),
    /// The data is not an object.
    #[error("`data` is not an object")]
    DataNotObject,
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
            let data = self.data_json();
            self.event_type()
                .and_then(|known| Payload::read(known, data))
                .unwrap_or_else(|| {
                    let unknown = Unknown {
                        kind: self.kind().into(),
                        ephemeral: self.0.ephemeral,
                        data: data.into(),
                    };
                    Payload::Unknown(Box::new(unknown))
                })
        })
    }

    /// The typed data, if it is of this type.
    pub fn get<T: EventData>(&self) -> Option<&T> {
        (self.event_type() == Some(T::TYPE))
            .then(|| T::of(self.payload()))
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

/// Writes an event with its fields in the order of the Copilot CLI, and tells where its data is.
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
    if ephemeral {
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

/// The head of an event's envelope, read without touching its data: what the log needs to know of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    /// Name of the type.
    pub kind: Cow<'a, str>,
    /// The event's id.
    pub id: Uuid,
    /// When the event was made.
    pub timestamp: Timestamp,
    /// Id of the last persisted event before this one.
    pub parent_id: Option<Uuid>,
    /// Whether the event is marked as not for the log.
    pub ephemeral: bool,
    /// The sub-agent the event belongs to.
    pub agent_id: Option<Cow<'a, str>>,
    /// The data object as JSON.
    pub data: &'a str,
}

impl<'a> Head<'a> {
    /// Reads the head of one event, and checks that there is nothing else.
    pub fn parse(json: &'a [u8]) -> Result<Self, EventError> {
        let json = trim(json);
        if json.is_empty() {
            return Err(EventError::Empty);
        }
        let text = std::str::from_utf8(json).map_err(|e| EventError::NotUtf8(e.valid_up_to()))?;
        serde_json::from_str::<RawHead<'a>>(text).map_err(json_error)?.check()
    }

    /// Reads the head of the event that the bytes begin with, and tells how many bytes it takes. What follows may be
    /// anything, such as another event that was glued to it.
    pub fn parse_prefix(bytes: &'a [u8]) -> Result<(Self, usize), EventError> {
        let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<RawHead<'a>>();
        let head = stream.next().ok_or(EventError::Empty)?.map_err(json_error)?.check()?;
        let length = stream.byte_offset();
        std::str::from_utf8(&bytes[..length]).map_err(|e| EventError::NotUtf8(e.valid_up_to()))?;
        Ok((head, length))
    }
}

fn trim(json: &[u8]) -> &[u8] {
    json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json).trim_ascii()
}

fn json_error(error: serde_json::Error) -> EventError {
    EventError::Json(error.to_string())
}

/// The head as JSON has it, before ids and times are checked.
struct RawHead<'a> {
    kind: Text<'a>,
    data: &'a RawValue,
    id: Text<'a>,
    timestamp: Text<'a>,
    parent_id: Option<Text<'a>>,
    agent_id: Option<Text<'a>>,
    ephemeral: bool,
}

impl<'a> RawHead<'a> {
    fn check(self) -> Result<Head<'a>, EventError> {
        let uuid = |field, text: Text<'_>| {
            Uuid::try_parse(&text.0).map_err(|_| EventError::BadId {
                field,
                value: text.0.into_owned(),
            })
        };
        let data = self.data.get();
        if !data.starts_with('{') {
            return Err(EventError::DataNotObject);
        }
        Ok(Head {
            kind: self.kind.0,
            id: uuid("id", self.id)?,
            timestamp: time::read(&self.timestamp.0)
                .ok_or_else(|| EventError::BadTimestamp(self.timestamp.0.into_owned()))?,
            parent_id: self.parent_id.map(|id| uuid("parentId", id)).transpose()?,
            ephemeral: self.ephemeral,
            agent_id: self.agent_id.map(|id| id.0),
            data,
        })
    }
}

impl<'de> Deserialize<'de> for RawHead<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeadVisitor;

        impl<'de> Visitor<'de> for HeadVisitor {
            type Value = RawHead<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an event object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHead<'de>, A::Error> {
                let (mut kind, mut data, mut id, mut timestamp) = (None, None, None, None);
                let (mut parent_id, mut agent_id, mut ephemeral) = (None, None, None);
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    match &*key.0 {
                        "type" => field(&mut map, "type", &mut kind)?,
                        "data" => field(&mut map, "data", &mut data)?,
                        "id" => field(&mut map, "id", &mut id)?,
                        "timestamp" => field(&mut map, "timestamp", &mut timestamp)?,
                        "parentId" => field(&mut map, "parentId", &mut parent_id)?,
                        "agentId" => field(&mut map, "agentId", &mut agent_id)?,
                        "ephemeral" => field(&mut map, "ephemeral", &mut ephemeral)?,
                        _ => drop(map.next_value::<de::IgnoredAny>()?),
                    }
                }
                Ok(RawHead {
                    kind: kind.ok_or_else(|| de::Error::missing_field("type"))?,
                    data: data.ok_or_else(|| de::Error::missing_field("data"))?,
                    id: id.ok_or_else(|| de::Error::missing_field("id"))?,
                    timestamp: timestamp.ok_or_else(|| de::Error::missing_field("timestamp"))?,
                    parent_id: parent_id.flatten(),
                    agent_id: agent_id.flatten(),
                    ephemeral: ephemeral.flatten().unwrap_or(false),
                })
            }
        }

        deserializer.deserialize_map(HeadVisitor)
    }
}

/// Reads a field that may come once, and names it when it is wrong.
fn field<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    map: &mut A,
    name: &'static str,
    slot: &mut Option<T>,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(de::Error::duplicate_field(name));
    }
    let value = map
        .next_value()
        .map_err(|error| de::Error::custom(format_args!("`{name}`: {error}")))?;
    *slot = Some(value);
    Ok(())
}

/// Text that is borrowed unless it holds escapes, also inside an `Option`.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}
