//! Answers requests from the script or by the rehearsal model.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State as Extract},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use lodge_models::{Chunk, Model, ModelError, Rehearsal};
use serde_json::{Value, json};

use super::{Recorded, Reply, Shared, encode, read, reply::Content};

/// Takes any request.
pub(super) async fn answer(Extract(shared): Extract<Arc<Shared>>, request: Request) -> Result<Response, Infallible> {
    let (head, body) = request.into_parts();
    let raw = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&raw).unwrap_or_default();
    let path = head.uri.path_and_query().map_or_else(String::new, ToString::to_string);
    let headers = head.headers.iter();
    let headers =
        headers.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let recorded = Recorded {
        method: head.method.to_string(),
        path: path.clone(),
        headers: headers.collect(),
        body: body.clone(),
        raw: raw.clone(),
    };
    if head.method == "GET" {
        let reply = {
            let mut state = shared.state();
            state.lists.push(recorded);
            match (head.uri.path(), &state.props) {
                (path, _) if path.ends_with("/models") => Reply::json(200, &state.models),
                ("/props", Some(props)) => Reply::json(200, props),
                _ => Reply::error(404, "not_found", "there is nothing here"),
            }
        };
        return Ok(play(reply, &path, &body, 0, shared).await);
    }
    let (reply, rehearses) = {
        let mut state = shared.state();
        let refusal = state.window.as_ref().and_then(|window| window.refusal(&recorded));
        state.requests.push(recorded);
        (refusal.or_else(|| state.script.pop_front()), state.rehearses)
    };
    shared.count.send_modify(|count| *count += 1);
    Ok(match reply {
        Some(reply) => play(reply, &path, &body, raw.len(), shared).await,
        None if rehearses => rehearse(&path, &body, raw, shared).await,
        None => Reply::error(500, "script_ended", "the script of the fake model server is at its end").raw_response(),
    })
}

async fn play(mut reply: Reply, path: &str, request: &Value, prompt: usize, shared: Arc<Shared>) -> Response {
    if let Content::Answer(answer) = &mut reply.content
        && reply.cut_after.is_none()
        && !reply.hang
    {
        shared.charge(&mut answer.completion, prompt);
    }
    let mut guard = Guard(Some(shared));
    tokio::time::sleep(reply.delay).await;
    let streams = request["stream"] == true;
    let (content_type, body) = match &reply.content {
        Content::Raw { content_type, body } => (content_type.clone(), body.clone()),
        Content::Answer(answer) => {
            let Some(mut encoder) = encode::for_path(path, request, reply.choices_apart) else {
                guard.ended();
                return not_found(path);
            };
            if streams {
                if let Some(seal) = &answer.completion.message.reasoning_opaque {
                    encoder.seal(seal);
                }
                let mut text = encoder.begin();
                for chunk in &answer.chunks {
                    text += &encoder.chunk(chunk);
                }
                text += &encoder.end(&answer.completion);
                ("text/event-stream".to_owned(), Bytes::from(text))
            } else {
                let whole = encoder.whole(&answer.completion).to_string();
                ("application/json".to_owned(), Bytes::from(whole))
            }
        }
    };
    let mut response = Response::builder()
        .status(reply.status)
        .header(CONTENT_TYPE, content_type);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let body = Body::from_stream(guarded(pieces(reply, body), guard));
    response
        .body(body)
        .unwrap_or_else(|error| (StatusCode::BAD_GATEWAY, error.to_string()).into_response())
}

/// The body as the reply wants it sent.
fn pieces(reply: Reply, body: Bytes) -> impl Stream<Item = Result<Bytes, io::Error>> + Send {
    let end = reply.cut_after.unwrap_or(body.len()).min(body.len());
    let cut = reply.cut_after.is_some();
    let size = reply.split.unwrap_or(end).max(1);
    let parts: Vec<Bytes> = (0..end)
        .step_by(size)
        .map(|at| body.slice(at..end.min(at + size)))
        .collect();
    let sent = stream::iter(parts).then(move |part| async move {
        if reply.pause > Duration::ZERO {
            tokio::time::sleep(reply.pause).await;
        }
        Ok(part)
    });
    let ending = async move {
        if reply.hang {
            std::future::pending::<()>().await;
        }
        if cut {
            flushed().await;
        }
        cut.then(|| Err(io::Error::other("cut by the script")))
    };
    sent.chain(stream::once(ending).filter_map(std::future::ready))
}

/// What was written before an error is thrown away unless the server gets a chance to send it.
async fn flushed() {
    tokio::task::yield_now().await;
}

/// Tells when the reader goes away before the end.
struct Guard(Option<Arc<Shared>>);

impl Guard {
    fn ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.abandoned.send_modify(|count| *count += 1);
        }
    }
}

fn guarded<S>(body: S, guard: Guard) -> impl Stream<Item = S::Item> + Send
where
    S: Stream<Item = Result<Bytes, io::Error>> + Send,
{
    stream::unfold((Box::pin(body), guard), |(mut body, mut guard)| async move {
        let item = body.next().await;
        if !matches!(item, Some(Ok(_))) {
            guard.ended();
        }
        Some((item?, (body, guard)))
    })
}

/// Lets the rehearsal model answer, live.
async fn rehearse(path: &str, body: &Value, raw: Bytes, shared: Arc<Shared>) -> Response {
    let Some(encoder) = encode::for_path(path, body, false) else {
        return not_found(path);
    };
    let mut request = read::request(path, body);
    request.attempt = shared.state().failures.get(&raw).copied().unwrap_or(0);
    let streams = request.stream;
    let mut chunks = Rehearsal::new().call(Arc::new(request));
    // An error that comes first is told by its status, as real servers do.
    let first = match chunks.next().await {
        Some(Ok(first)) => first,
        Some(Err(error)) => {
            *shared.state().failures.entry(raw).or_default() += 1;
            return status_response(&error);
        }
        None => return status_response(&ModelError::new(lodge_models::ErrorKind::Connection, "no answer")),
    };
    if !streams {
        return match first {
            Chunk::Done(mut done) => {
                shared.charge(&mut done, raw.len());
                axum_json(200, &encoder.whole(&done))
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "chunks in a whole answer").into_response(),
        };
    }
    let failing = Arc::clone(&shared);
    let chunks = stream::once(async { Ok(first) }).chain(chunks);
    let encoded = stream::unfold(
        (chunks.boxed(), encoder, false),
        move |(mut chunks, mut encoder, begun)| {
            let (failing, raw) = (Arc::clone(&failing), raw.clone());
            async move {
                let mut text = if begun { String::new() } else { encoder.begin() };
                let next = chunks.next().await?;
                if next.is_err() {
                    flushed().await;
                }
                let item = match next {
                    Ok(Chunk::Done(mut done)) => {
                        failing.charge(&mut done, raw.len());
                        text += &encoder.end(&done);
                        Ok(Bytes::from(text))
                    }
                    Ok(chunk) => {
                        text += &encoder.chunk(&chunk);
                        Ok(Bytes::from(text))
                    }
                    Err(error) => {
                        *failing.state().failures.entry(raw).or_default() += 1;
                        Err(io::Error::other(error.to_string()))
                    }
                };
                Some((item, (chunks, encoder, true)))
            }
        },
    );
    let body = Body::from_stream(guarded(encoded, Guard(Some(shared))));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn status_response(error: &ModelError) -> Response {
    let code = match error.kind {
        lodge_models::ErrorKind::ContextLimit => "context_length_exceeded",
        other => other.as_str(),
    };
    // What the rehearsal model breaks without a status has broken before its first byte.
    let status = error.status.unwrap_or(503);
    let mut response = axum_json(
        status,
        &json!({"error": {"message": error.message, "type": code, "code": code}}),
    );
    if let Some(wait) = error.retry_after {
        response
            .headers_mut()
            .insert("retry-after-ms", (wait.as_millis() as u64).into());
    }
    response
}

fn axum_json(status: u16, value: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn not_found(path: &str) -> Response {
    axum_json(
        404,
        &json!({"error": {"message": format!("no wire has the path {path}"), "code": "not_found"}}),
    )
}

impl Reply {
    fn raw_response(&self) -> Response {
        match &self.content {
            Content::Raw { content_type, body } => {
                let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                (status, [(CONTENT_TYPE, content_type.clone())], body.clone()).into_response()
            }
            Content::Answer(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}
