//! OpenAI chat completions, including the variations of the many servers that imitate them.

mod read;
mod write;

pub(super) use read::Reader;
pub(super) use write::body;
