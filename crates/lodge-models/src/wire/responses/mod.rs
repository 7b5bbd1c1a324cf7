//! OpenAI responses, always without state at the provider (`store: false`).

mod read;
mod write;

pub(super) use read::Reader;
pub(super) use write::body;
