//! Anthropic messages.

mod citations;
mod read;
mod write;

pub(super) use read::Reader;
pub(super) use write::body;
