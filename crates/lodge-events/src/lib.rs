//! The vocabulary of Lodge: the envelope of a session event, every event type, and the codec between them.
//!
//! This room knows what an event looks like on the wire and on disk, and nothing else: not who writes events, in which
//! order, where they are kept, or who reads them. It does no I/O.
//!
//! An [`Event`] is a parsed envelope head together with the exact JSON it travels as. The JSON is made once and shared;
//! it is never made again from the typed data, so unknown fields, unknown types and the form of numbers survive
//! reading and writing. The typed [`Payload`] is there on demand.
//!
//! A type is defined in one place, an `events!` block in the file of its family ([`assistant`], [`tool`], [`session`],
//! [`ask`], [`subagent`], …): struct, codec, [`TypeInfo`] and the reference in `docs/events.md` all come from it.
//!
//! ```
//! use lodge_events::{AssistantMessage, Event, Payload};
//!
//! let message = AssistantMessage { message_id: "m1".into(), content: "Hello".into(), ..Default::default() };
//! let made = Event::new(None, None, message);
//! let read = Event::parse(made.json().clone())?;
//! assert_eq!(read.kind(), "assistant.message");
//! match read.payload() {
//!     Payload::AssistantMessage(message) => assert_eq!(message.content, "Hello"),
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), lodge_events::EventError>(())
//! ```

mod envelope;
mod head;
mod info;
mod macros;
mod time;
mod unfinished;

pub mod ask;
pub mod assistant;
pub mod attachment;
pub mod beside;
pub mod canvas;
mod catalogue;
pub mod conversation;
pub mod docs;
pub mod extension;
pub mod mcp;
pub mod permission;
pub mod schedule;
pub mod session;
pub mod settings;
pub mod shapes;
pub mod string_enums;
pub mod subagent;
pub mod tool;

pub use ask::*;
pub use assistant::*;
pub use attachment::*;
pub use beside::*;
pub use canvas::*;
pub use catalogue::{
    EventData, EventType, PERSISTENCE_DIFFERENCES, Payload, PersistenceDifference, SEED_ONLY_FIELDS, SeedOnlyField,
    TYPES, Unknown,
};
pub use conversation::*;
pub use envelope::Event;
pub use extension::*;
pub use head::{EventError, Head};
pub use info::{FieldInfo, Presence, ShapeInfo, TypeInfo, UnionInfo, WordsInfo};
pub use mcp::*;
pub use permission::*;
pub use schedule::*;
pub use session::*;
pub use settings::*;
pub use shapes::*;
pub use string_enums::*;
pub use subagent::*;
pub use tool::*;

pub use time::timestamp_text;
pub use unfinished::{BrokenOff, Unfinished};

pub use jiff::Timestamp;
pub use uuid::Uuid;
