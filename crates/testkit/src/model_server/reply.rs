//! One reply of the script.

use std::time::Duration;

use bytes::Bytes;
use lodge_models::{AssistantMessage, Chunk, Completion, ToolCall, Usage};
use serde_json::{Value, json};

/// What to answer to one request, and how badly.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) content: Content,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) delay: Duration,
    pub(super) pause: Duration,
    pub(super) split: Option<usize>,
    pub(super) cut_after: Option<usize>,
    pub(super) hang: bool,
    pub(super) choices_apart: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    /// An answer, in the form of whichever wire asks.
    Answer(Box<Answer>),
    /// These very bytes.
    Raw { content_type: String, body: Bytes },
}

/// An answer: what is streamed, and what it comes to.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) chunks: Vec<Chunk>,
    pub(super) completion: Completion,
}

impl Default for Reply {
    /// An empty answer to build upon.
    fn default() -> Self {
        let usage = Usage {
            input_tokens: Some(10),
            output_tokens: Some(5),
            ..Usage::default()
        };
        let completion = Completion {
            usage,
            finish_reason: Some("stop".to_owned()),
            ..Completion::default()
        };
        Self::of(Content::Answer(Box::new(Answer {
            chunks: Vec::new(),
            completion,
        })))
    }
}

impl Reply {
    fn of(content: Content) -> Self {
        Self {
            content,
            status: 200,
            headers: Vec::new(),
            delay: Duration::ZERO,
            pause: Duration::ZERO,
            split: None,
            cut_after: None,
            hang: false,
            choices_apart: false,
        }
    }

    /// Answers with a text, streamed word by word.
    pub fn text(text: &str) -> Self {
        Self::default().and_text(text)
    }

    /// Answers with a tool call.
    pub fn call(id: &str, name: &str, arguments: &str) -> Self {
        Self::default().and_call(id, name, arguments)
    }

    /// Answers with reasoning, to which a text or calls are added.
    pub fn reasoning(text: &str) -> Self {
        let mut reply = Self::default();
        let answer = reply.answer();
        answer.chunks.extend(words(text).map(Chunk::Reasoning));
        answer.completion.message.reasoning_text = Some(text.to_owned());
        reply
    }

    /// Answers an error as most providers write it.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        Self::json(
            status,
            &json!({"error": {"message": message, "type": code, "code": code}}),
        )
    }

    /// Answers JSON.
    pub fn json(status: u16, value: &Value) -> Self {
        Self::raw("application/json", value.to_string()).status(status)
    }

    /// Answers these very bytes.
    pub fn raw(content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::of(Content::Raw {
            content_type: content_type.to_owned(),
            body: body.into(),
        })
    }

    fn answer(&mut self) -> &mut Answer {
        match &mut self.content {
            Content::Answer(answer) => answer,
            Content::Raw { .. } => panic!("raw bytes are not built upon"),
        }
    }

    fn message(&mut self) -> &mut AssistantMessage {
        &mut self.answer().completion.message
    }

    /// Adds text.
    #[must_use]
    pub fn and_text(mut self, text: &str) -> Self {
        self.answer().chunks.extend(words(text).map(Chunk::Text));
        let message = self.message();
        message.text = format!("{}{text}", message.text).into();
        self
    }

    /// Adds a tool call, streamed in fragments.
    #[must_use]
    pub fn and_call(mut self, id: &str, name: &str, arguments: &str) -> Self {
        let mut rest = arguments;
        while !rest.is_empty() {
            let (fragment, tail) = rest.split_at(rest.ceil_char_boundary(7));
            let fragment = fragment.to_owned();
            self.answer().chunks.push(Chunk::ToolCall {
                id: id.to_owned(),
                name: name.to_owned(),
                fragment,
            });
            rest = tail;
        }
        let call = ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.into(),
            custom: false,
        };
        self.message().tool_calls.push(call);
        self.answer().completion.finish_reason = Some("tool_calls".to_owned());
        self
    }

    /// Adds reasoning that only the provider can read: Anthropic's signature, `reasoning_opaque`, `encrypted_content`.
    #[must_use]
    pub fn sealed(mut self, seal: &str) -> Self {
        self.message().reasoning_opaque = Some(seal.to_owned());
        self
    }

    /// Why the answer ends, in the wire's word.
    #[must_use]
    pub fn finish(mut self, reason: &str) -> Self {
        self.answer().completion.finish_reason = Some(reason.to_owned());
        self
    }

    /// Sets the counts of tokens.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.answer().completion.usage = usage;
        self
    }

    /// Puts text and tool calls into different `choices`, as some servers of chat completions do.
    #[must_use]
    pub fn choices_apart(mut self) -> Self {
        self.choices_apart = true;
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Waits before the answer begins.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits before every piece of the body.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Sends the body in pieces of so many bytes.
    #[must_use]
    pub fn split(mut self, bytes: usize) -> Self {
        self.split = Some(bytes.max(1));
        self
    }

    /// Breaks the connection after so many bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut_after = Some(bytes);
        self
    }

    /// Sends everything and then neither ends nor goes on; with [`Reply::cut_after`], from there.
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.hang = true;
        self
    }
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_inclusive(' ').map(str::to_owned)
}
