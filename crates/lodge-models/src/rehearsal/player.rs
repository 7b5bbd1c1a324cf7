//! Plays one answer as a stream of chunks.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::{FutureExt, Stream};
use tokio::{
    task::coop,
    time::{Sleep, sleep},
};

use super::{
    Rehearsal,
    conversation::Conversation,
    script::{Action, Call, Failure},
    texts,
};
use crate::{AssistantMessage, Chunk, Completion, ErrorKind, ModelError, ToolCall, Usage};

/// Arguments are streamed in pieces of about this many bytes.
const FRAGMENT: usize = 24;
/// How often the number of bytes so far is reported.
const BYTES_EVERY: usize = 64 * 1024;

type Item = Result<Chunk, ModelError>;

/// An answer being given.
pub(super) struct Player {
    actions: VecDeque<Action>,
    part: Part,
    stream: bool,
    attempt: u64,
    seed: u64,
    step: usize,
    input_tokens: u64,
    description: String,
    pace: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
    told_bytes: usize,
    text: String,
    reasoning: String,
    sealed: bool,
    calls: Vec<ToolCall>,
    usage: Option<Usage>,
    failure: Option<ModelError>,
    finished: bool,
}

/// What is being streamed at the moment.
enum Part {
    Nothing,
    Words {
        text: String,
        at: usize,
        reasoning: bool,
    },
    Numbers {
        next: u64,
        count: u64,
        bytes: Option<usize>,
    },
    Arguments {
        call: usize,
        at: usize,
    },
}

impl Player {
    pub(super) fn new(conversation: &Conversation<'_>, actions: Vec<Action>) -> Self {
        let describes = actions.contains(&Action::DescribeRequest);
        Self {
            actions: actions.into(),
            part: Part::Nothing,
            stream: conversation.request.stream,
            attempt: u64::from(conversation.request.attempt),
            seed: conversation.seed,
            step: conversation.step,
            input_tokens: conversation.request.estimated_tokens(),
            description: if describes {
                texts::description(conversation)
            } else {
                String::new()
            },
            pace: None,
            timer: None,
            told_bytes: 0,
            text: String::new(),
            reasoning: String::new(),
            sealed: false,
            calls: Vec::new(),
            usage: None,
            failure: None,
            finished: false,
        }
    }

    /// The next chunk, or nothing when a timer was set or a part ended without one.
    fn advance(&mut self) -> Option<Item> {
        if let Some(chunk) = self.next_of_part() {
            return self.stream.then_some(Ok(chunk));
        }
        if let Some(failure) = self.failure.take() {
            self.finished = true;
            return Some(Err(failure));
        }
        match self.actions.pop_front() {
            Some(action) => self.begin(action),
            None => {
                let total = self.text.len() + self.reasoning.len();
                if self.stream && self.told_bytes < total {
                    self.told_bytes = total;
                    return Some(Ok(Chunk::Bytes(total as u64)));
                }
                self.finished = true;
                return Some(Ok(Chunk::Done(Box::new(self.completion()))));
            }
        }
        None
    }

    fn begin(&mut self, action: Action) {
        match action {
            Action::Say(text) => self.words(text, false),
            Action::Think(text) => self.words(text, true),
            Action::ThinkSecretly => self.sealed = true,
            Action::DescribeRequest => {
                let text = std::mem::take(&mut self.description);
                self.words(text, false);
            }
            Action::Stream { count, bytes } => self.part = Part::Numbers { next: 1, count, bytes },
            Action::Call(calls) => self.call(calls),
            Action::Fail(failure) => self.fail(&failure),
            Action::Wait(time) => self.timer = Some(Box::pin(sleep(time))),
            Action::Slowly(pace) => self.pace = Some(pace),
            Action::Usage { input, output, cached } => {
                self.usage = Some(Usage {
                    input_tokens: Some(input),
                    output_tokens: Some(output),
                    cache_read_tokens: cached,
                    ..Usage::default()
                });
            }
        }
    }

    fn words(&mut self, text: String, reasoning: bool) {
        let so_far = if reasoning { &self.reasoning } else { &self.text };
        let text = if so_far.is_empty() { text } else { format!("\n{text}") };
        self.part = Part::Words { text, at: 0, reasoning };
    }

    fn call(&mut self, calls: Vec<Call>) {
        let first = self.calls.len();
        for call in calls {
            self.calls.push(ToolCall {
                id: format!("rehearsal-{:08x}-{}-{}", self.seed as u32, self.step, self.calls.len()),
                name: call.name,
                arguments: call.arguments.into(),
                custom: false,
            });
        }
        self.part = Part::Arguments { call: first, at: 0 };
    }

    fn fail(&mut self, failure: &Failure) {
        if failure.times.is_some_and(|times| self.attempt >= times) {
            return;
        }
        let attempt = self.attempt + 1;
        let what = failure.what;
        let mut error = ModelError::new(
            failure.kind,
            format!("The rehearsal model failed with “{what}” because it was asked to (attempt {attempt})."),
        );
        error.status = failure.status;
        error.retry_after = failure.retry_after;
        self.failure = Some(error);
        if failure.kind == ErrorKind::Connection && failure.status.is_none() {
            self.words("This answer breaks off in the middle of".to_owned(), false);
        }
    }

    fn next_of_part(&mut self) -> Option<Chunk> {
        match &mut self.part {
            Part::Nothing => None,
            Part::Words { text, at, reasoning } => {
                let rest = &text[*at..];
                let word = &rest[..word_end(rest)];
                if word.is_empty() {
                    self.part = Part::Nothing;
                    return None;
                }
                *at += word.len();
                let piece = word.to_owned();
                if *reasoning {
                    self.reasoning.push_str(&piece);
                    return Some(Chunk::Reasoning(piece));
                }
                self.text.push_str(&piece);
                Some(Chunk::Text(piece))
            }
            Part::Numbers { next, count, bytes } => {
                if next > count {
                    self.part = Part::Nothing;
                    return None;
                }
                let piece = numbered(*next, *bytes);
                *next += 1;
                self.text.push_str(&piece);
                Some(Chunk::Text(piece))
            }
            Part::Arguments { call, at } => {
                let Some(current) = self.calls.get(*call) else {
                    self.part = Part::Nothing;
                    return None;
                };
                let rest = &current.arguments[*at..];
                let fragment = &rest[..rest.ceil_char_boundary(FRAGMENT)];
                let chunk = Chunk::ToolCall {
                    id: current.id.clone(),
                    name: current.name.clone(),
                    fragment: fragment.to_owned(),
                };
                *at += fragment.len();
                if *at >= current.arguments.len() {
                    *call += 1;
                    *at = 0;
                }
                Some(chunk)
            }
        }
    }

    fn completion(&mut self) -> Completion {
        let arguments: usize = self
            .calls
            .iter()
            .map(|call| call.name.len() + call.arguments.len())
            .sum();
        let output = self.text.len() + self.reasoning.len() + arguments;
        let usage = self.usage.take().unwrap_or_else(|| Usage {
            input_tokens: Some(self.input_tokens),
            output_tokens: Some(tokens(output)),
            reasoning_tokens: (!self.reasoning.is_empty()).then(|| tokens(self.reasoning.len())),
            ..Usage::default()
        });
        let finish_reason = if self.calls.is_empty() { "stop" } else { "tool_calls" };
        Completion {
            citations: None,
            message: AssistantMessage {
                text: std::mem::take(&mut self.text).into(),
                tool_calls: std::mem::take(&mut self.calls),
                reasoning_text: Some(std::mem::take(&mut self.reasoning)).filter(|text| !text.is_empty()),
                reasoning_opaque: self.sealed.then(|| format!("rehearsal-sealed-{:016x}", self.seed)),
                encrypted_content: None,
                phase: None,
            },
            usage,
            finish_reason: Some(finish_reason.to_owned()),
            api_call_id: Some(format!("rehearsal-{:016x}-{}", self.seed, self.step)),
            provider_call_id: None,
            model: Some(Rehearsal::ID.to_owned()),
            endpoint: None,
            quotas: std::collections::BTreeMap::new(),
        }
    }
}

impl Stream for Player {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let player = self.get_mut();
        // A stream that is always ready must not starve its neighbours on the runtime.
        let progress = ready!(coop::poll_proceed(cx));
        loop {
            if let Some(timer) = &mut player.timer {
                ready!(timer.poll_unpin(cx));
                player.timer = None;
            }
            if player.finished {
                progress.made_progress();
                return Poll::Ready(None);
            }
            let total = player.text.len();
            if player.stream && total - player.told_bytes.min(total) >= BYTES_EVERY {
                player.told_bytes = total + player.reasoning.len();
                progress.made_progress();
                return Poll::Ready(Some(Ok(Chunk::Bytes(player.told_bytes as u64))));
            }
            if let Some(item) = player.advance() {
                if let (Some(pace), Ok(Chunk::Text(_) | Chunk::Reasoning(_))) = (player.pace, &item) {
                    player.timer = Some(Box::pin(sleep(pace)));
                }
                progress.made_progress();
                return Poll::Ready(Some(item));
            }
        }
    }
}

/// A rough count that is the same every time.
fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

/// Where the first word ends, the space after it included.
fn word_end(text: &str) -> usize {
    let word = text.find(|c: char| !c.is_whitespace()).unwrap_or(text.len());
    let space = text[word..]
        .find(char::is_whitespace)
        .map_or(text.len(), |at| word + at);
    text[space..]
        .find(|c: char| !c.is_whitespace())
        .map_or(text.len(), |at| space + at)
}

/// The text of a numbered chunk: its number, filled up to its size with dots, and a space.
fn numbered(number: u64, bytes: Option<usize>) -> String {
    let mut piece = String::with_capacity(bytes.unwrap_or(8).max(21));
    // Writing to a string cannot fail.
    let _ = write!(piece, "{number} ");
    if let Some(bytes) = bytes {
        if piece.len() > bytes {
            piece.drain(..piece.len() - bytes);
        } else if piece.len() < bytes {
            piece.pop();
            piece.extend(std::iter::repeat_n('.', bytes - 1 - piece.len()));
            piece.push(' ');
        }
    }
    piece
}
