//! Estimates of tokens, from sizes. Sizes are in bytes of text: what is no text counts as much text as takes the same tokens.

use std::io;

use serde_json::Value;

use crate::{AssistantMessage, CitableSource, Document, Image, Message, ModelInfo, ModelRequest, Part, ToolSpec};

/// Near enough to decide when a conversation is full.
const BYTES_PER_TOKEN: u64 = 4;
/// About what providers count for an image of usual size.
const IMAGE: usize = 1_600 * BYTES_PER_TOKEN as usize;
/// The least that a document takes: a page.
const PAGE: usize = 2_000 * BYTES_PER_TOKEN as usize;

/// About how many tokens so many bytes of text are.
pub fn tokens_of(size: usize) -> u64 {
    size as u64 / BYTES_PER_TOKEN
}

/// About how many bytes of text so many tokens are.
pub fn size_of(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
}

impl Image {
    /// Its size for a model, whatever its file's is.
    pub fn size(&self) -> usize {
        IMAGE
    }
}

impl Document {
    /// Its size for a model. Much of a document's file is fonts and pictures, all of it in base64.
    pub fn size(&self) -> usize {
        (self.data.len() / 8).max(PAGE)
    }
}

impl Part {
    /// Its size for a model.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Image(image) => image.size(),
            Self::Document(document) => document.size(),
        }
    }
}

impl AssistantMessage {
    /// Its size for a model, without results of its calls. Reasoning that only its provider can read is encrypted, in base64.
    pub fn size(&self) -> usize {
        let calls: usize = self.tool_calls.iter().map(|call| call.arguments.len()).sum();
        let opaque = [&self.reasoning_opaque, &self.encrypted_content];
        let opaque: usize = opaque.into_iter().flatten().map(|text| text.len() * 3 / 4).sum();
        self.text.len() + calls + opaque
    }
}

impl CitableSource {
    /// Its size for a model.
    pub fn size(&self) -> usize {
        self.content.len()
    }
}

impl Message {
    /// Its size for a model.
    pub fn size(&self) -> usize {
        match self {
            Self::User(parts) => parts.iter().map(Part::size).sum(),
            Self::Assistant(message) => message.size(),
            Self::Tool {
                content,
                images,
                sources,
                ..
            } => {
                let images: usize = images.iter().map(Image::size).sum();
                content.len() + images + sources.iter().map(CitableSource::size).sum::<usize>()
            }
        }
    }
}

impl ToolSpec {
    /// Its size for a model.
    pub fn size(&self) -> usize {
        self.name.len() + self.description.len() + json_len(&self.parameters)
    }
}

/// How long a value is when it is written, without writing it.
fn json_len(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

impl ModelRequest {
    /// About how many tokens it takes, by its size alone.
    pub fn estimated_tokens(&self) -> u64 {
        let messages: usize = self.messages.iter().map(Message::size).sum();
        let tools: usize = self.tools.iter().map(ToolSpec::size).sum();
        tokens_of(self.system.len() + messages + tools + self.partial.len())
    }

    /// The bound of the answer where one must be named: what the model can say, and what its window has room for.
    pub(crate) fn bound_of_answer(&self, info: &ModelInfo) -> u64 {
        if let Some(asked) = self.max_output_tokens {
            return asked.max(1);
        }
        let most = info
            .max_output_tokens
            .min(self.longest_answer.unwrap_or(u64::MAX))
            .max(1);
        if info.context_window == 0 {
            return most;
        }
        let prompt = self.prompt_tokens.unwrap_or_else(|| self.estimated_tokens());
        // An estimate is a little too low as often as too high.
        let room = info.context_window.saturating_sub(prompt + prompt / 16);
        most.min(room.max(info.reserved_for_answer()).max(1))
    }
}

impl ModelInfo {
    /// Tokens of the window that a conversation leaves for the next answer.
    fn reserved_for_answer(&self) -> u64 {
        match self.max_output_tokens {
            0 => self.context_window / 8,
            most => most.min(self.context_window / 8),
        }
    }

    /// Tokens that a conversation may grow to: what the provider takes, and what leaves room for an answer.
    pub fn prompt_limit(&self) -> u64 {
        let room = self.context_window - self.reserved_for_answer();
        self.max_prompt_tokens.map_or(room, |most| most.min(room))
    }
}
