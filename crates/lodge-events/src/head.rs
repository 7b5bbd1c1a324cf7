//! Reading the envelope of an event without touching its data.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{is_beside, time};

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
    /// Whether the event is marked as not for the log. Those beside the chain are for the log, however they are marked.
    pub ephemeral: bool,
    /// The sub-agent the event belongs to.
    pub agent_id: Option<Cow<'a, str>>,
    /// The data object as JSON.
    pub data: &'a str,
}

impl<'a> Head<'a> {
    /// Whether the next event's parent may be this one.
    pub fn is_on_chain(&self) -> bool {
        !self.ephemeral && !is_beside(&self.kind)
    }

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

/// The bytes without a byte order mark and the white space around them.
pub(crate) fn trim(json: &[u8]) -> &[u8] {
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
            ephemeral: self.ephemeral && !is_beside(&self.kind.0),
            kind: self.kind.0,
            id: uuid("id", self.id)?,
            timestamp: time::read(&self.timestamp.0)
                .ok_or_else(|| EventError::BadTimestamp(self.timestamp.0.into_owned()))?,
            parent_id: self.parent_id.map(|id| uuid("parentId", id)).transpose()?,
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
