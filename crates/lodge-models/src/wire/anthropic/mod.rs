//! Anthropic messages.

mod cite;
mod read;
mod write;

pub(super) use read::Reader;
pub(super) use write::body;
