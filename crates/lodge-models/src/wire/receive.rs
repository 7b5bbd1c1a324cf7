//! Reads the answer to one call from the response body.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt, stream::BoxStream};
use tokio::time::{Instant, Sleep, sleep};

use super::{
    MOST_BODY,
    assembly::{Assembly, Decoder, Fault, Progress},
    failure::Target,
    sse::Parser,
};
use crate::{Chunk, ModelError, TransportError};

type Body = BoxStream<'static, Result<Bytes, TransportError>>;

/// An answer that is being received. Dropping it closes the connection.
pub(super) struct Receiver {
    /// `None` once nothing more is wanted from it.
    body: Option<Body>,
    form: Form,
    decoder: Box<dyn Decoder>,
    assembly: Assembly,
    target: Target,
    idle_timeout: Duration,
    /// Runs while nothing arrives.
    silence: Pin<Box<Sleep>>,
    received: u64,
    /// Told after the chunks that came before it.
    failure: Option<ModelError>,
    finished: bool,
}

/// What the pieces of a body are.
pub(super) enum Form {
    /// Pieces of a stream of events.
    Streamed(Parser),
    /// One event each.
    Messages,
    /// Pieces of one answer.
    Whole(Vec<u8>),
}

impl Receiver {
    pub(super) fn new(
        body: Body,
        form: Form,
        decoder: Box<dyn Decoder>,
        assembly: Assembly,
        target: Target,
        idle_timeout: Duration,
    ) -> Self {
        Self {
            body: Some(body),
            form,
            decoder,
            assembly,
            target,
            idle_timeout,
            silence: Box::pin(sleep(idle_timeout)),
            received: 0,
            failure: None,
            finished: false,
        }
    }

    fn push(&mut self, piece: &[u8]) {
        self.received += piece.len() as u64;
        if self.received > MOST_BODY {
            return self.fail(|target| target.broken("the response is longer than 64 MB"));
        }
        match &mut self.form {
            Form::Whole(body) => body.extend_from_slice(piece),
            Form::Messages => {
                let message = std::str::from_utf8(piece).map_err(|error| Fault::Malformed(error.to_string()));
                let outcome = message.and_then(|message| self.decoder.event("", message, &mut self.assembly));
                self.apply(outcome);
            }
            Form::Streamed(parser) => {
                let mut outcome = Ok(Progress::More);
                let (decoder, assembly) = (&mut self.decoder, &mut self.assembly);
                let pushed = parser.push(piece, &mut |name, data| {
                    if matches!(outcome, Ok(Progress::More)) {
                        outcome = decoder.event(name, data, assembly);
                    }
                });
                if pushed.is_err() {
                    return self.fail(|target| target.broken("a line of the response is longer than 16 MB"));
                }
                self.apply(outcome);
            }
        }
        self.assembly.emit(Chunk::Bytes(self.received));
    }

    /// The body is at its end.
    fn end(&mut self) {
        let (decoder, assembly) = (&mut self.decoder, &mut self.assembly);
        let outcome = match &mut self.form {
            Form::Whole(body) => match std::str::from_utf8(body) {
                Ok(text) => decoder.whole(text, assembly).map(|()| Progress::Finished),
                Err(error) => Err(Fault::Malformed(error.to_string())),
            },
            Form::Messages => Ok(Progress::More),
            Form::Streamed(parser) => {
                let mut outcome = Ok(Progress::More);
                parser.finish(&mut |name, data| {
                    if matches!(outcome, Ok(Progress::More)) {
                        outcome = decoder.event(name, data, assembly);
                    }
                });
                match outcome {
                    Ok(Progress::More) if decoder.may_end_here() => Ok(Progress::Finished),
                    other => other,
                }
            }
        };
        self.body = None;
        self.apply(outcome);
        if !self.finished && self.failure.is_none() {
            self.fail(|target| target.broken("the stream ended before the answer was complete"));
        }
    }

    fn apply(&mut self, outcome: Result<Progress, Fault>) {
        match outcome {
            Ok(Progress::More) => {}
            Ok(Progress::Finished) => self.finished = true,
            Err(fault) => {
                let id = self.assembly.provider_call_id.clone();
                self.fail(|target| target.fault(fault).with_provider_call_id(id));
            }
        }
    }

    fn fail(&mut self, error: impl FnOnce(&Target) -> ModelError) {
        self.failure = Some(error(&self.target));
        self.body = None;
    }
}

impl Stream for Receiver {
    type Item = Result<Chunk, ModelError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(chunk) = this.assembly.chunks.pop_front() {
                return Poll::Ready(Some(Ok(chunk)));
            }
            if let Some(error) = this.failure.take() {
                return Poll::Ready(Some(Err(error)));
            }
            if std::mem::take(&mut this.finished) {
                // Where the end of the body is here already, seeing it lets the connection be used again.
                if let Some(mut body) = this.body.take() {
                    let _ = body.poll_next_unpin(cx);
                }
                return Poll::Ready(Some(Ok(Chunk::Done(Box::new(this.assembly.complete())))));
            }
            let Some(body) = &mut this.body else {
                return Poll::Ready(None);
            };
            match body.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(piece))) => {
                    this.silence.as_mut().reset(Instant::now() + this.idle_timeout);
                    this.push(&piece);
                }
                Poll::Ready(Some(Err(error))) => this.fail(|target| target.broken(&error.to_string())),
                Poll::Ready(None) => this.end(),
                Poll::Pending => {
                    ready!(this.silence.poll_unpin(cx));
                    let patience = this.idle_timeout;
                    this.fail(|target| target.silent(patience));
                }
            }
        }
    }
}
