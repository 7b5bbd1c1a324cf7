//! OpenAI chat completions, and what the many servers that copy them make of it.

mod read;
mod write;

pub(super) use read::Reader;
pub(super) use write::body;
