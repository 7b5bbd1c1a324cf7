//! What goes wrong is told apart, told in words, and told without secrets.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use lodge_models::{
    Catalogue, Endpoint, ErrorKind, HttpModel, ModelError, ModelInfo, ModelRequest, ModelsConfig, Network,
    ProviderType, TokenSource, WireApi,
};
use parking_lot::Mutex;
use testkit::model_server::{ModelServer, Reply};

use crate::support::{WIRES, Wire, collect, model, provider, request};

#[tokio::test]
async fn every_kind_of_failure_is_told_apart_on_every_wire() {
    use ErrorKind::*;
    let cases = [
        (
            Reply::error(401, "invalid_api_key", "wrong key-that-nobody-may-see"),
            Authentication,
            false,
        ),
        (Reply::error(403, "permission_error", "no"), Authorization, false),
        (Reply::error(402, "payment", "pay"), Quota, false),
        (Reply::error(429, "insufficient_quota", "none left"), Quota, false),
        (Reply::error(429, "rate_limit_error", "slow down"), RateLimit, true),
        (
            Reply::error(400, "context_length_exceeded", "too long"),
            ContextLimit,
            false,
        ),
        (
            Reply::error(400, "invalid_request_error", "prompt is too long: 3 tokens > 2 maximum"),
            ContextLimit,
            false,
        ),
        (
            Reply::error(400, "invalid_request_error", "no such field"),
            Query,
            false,
        ),
        (Reply::error(404, "model_not_found", "no such model"), Query, false),
        (Reply::error(500, "server_error", "oops"), Connection, true),
        (Reply::error(529, "overloaded_error", "Overloaded"), Connection, true),
        (
            Reply::raw("text/html", "<h1>Bad gateway</h1>").status(502),
            Connection,
            true,
        ),
        (
            Reply::raw("text/plain", "")
                .status(308)
                .header("location", "http://elsewhere.test/"),
            Query,
            false,
        ),
        (
            Reply::raw(
                "text/event-stream",
                "data: {\"error\":{\"message\":\"slow\",\"code\":\"rate_limit_exceeded\"}}\n\n",
            ),
            Connection,
            true,
        ),
        (Reply::text("an answer that is cut").cut_after(220), Connection, true),
        (Reply::text("").cut_after(0), Connection, true),
        (
            Reply::raw("text/event-stream", "data: {not json}\n\n"),
            Connection,
            true,
        ),
        (Reply::raw("text/event-stream", ""), Connection, true),
        (Reply::raw("application/json", "{}"), Connection, true),
        (Reply::raw("application/json", "\u{fffd}"), Connection, true),
    ];
    let server = ModelServer::start();
    for (number, (reply, kind, retryable)) in cases.into_iter().enumerate() {
        for wire in WIRES {
            for stream in [true, false] {
                server.reply(reply.clone().header("x-request-id", "req-9"));
                let answer = collect(
                    &*model(wire, &server),
                    ModelRequest {
                        stream,
                        ..request("go")
                    },
                )
                .await;
                let error = answer
                    .error
                    .unwrap_or_else(|| panic!("case {number} {wire:?} {stream} must fail"));
                // The same error in a stream has no status to tell it by, and each wire its own words.
                let expected = if number == 13 { error.kind } else { kind };
                assert_eq!(
                    (error.kind, error.retryable),
                    (expected, retryable),
                    "case {number} {wire:?} {stream}: {error}"
                );
                let message = error.to_string();
                assert!(
                    message.contains("test-model") && message.contains("127.0.0.1"),
                    "{message}"
                );
                assert!(!message.contains("key-that-nobody-may-see"), "{message}");
                if error.status.is_some() {
                    assert_eq!(error.provider_call_id.as_deref(), Some("req-9"));
                }
            }
        }
    }
}

#[tokio::test]
async fn errors_within_a_stream_are_read_in_each_wires_words() {
    let cases = [
        (
            Wire::Chat,
            r#"data: {"error":{"message":"slow","code":"rate_limit_exceeded"}}"#,
            ErrorKind::RateLimit,
        ),
        (
            Wire::Responses,
            r#"data: {"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"long"}}}"#,
            ErrorKind::ContextLimit,
        ),
        (
            Wire::Responses,
            r#"data: {"type":"error","code":"rate_limit_exceeded","message":"slow"}"#,
            ErrorKind::RateLimit,
        ),
        (
            Wire::Anthropic,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
            ErrorKind::Connection,
        ),
    ];
    let server = ModelServer::start();
    for (wire, body, kind) in cases {
        server.reply(Reply::raw("text/event-stream", format!("{body}\n\n")));
        let error = collect(&*model(wire, &server), request("go")).await.error.unwrap();
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[tokio::test]
async fn text_that_came_before_the_break_is_kept() {
    let server = ModelServer::start();
    server.reply(Reply::text("one two three four five six seven").cut_after(900));
    let answer = collect(&*model(Wire::Chat, &server), request("go")).await;
    assert!(answer.texts.concat().starts_with("one two"), "{answer:?}");
    assert!(answer.error.unwrap().retryable);
}

#[tokio::test]
async fn the_time_to_wait_is_passed_on() {
    let server = ModelServer::start();
    server.reply(Reply::error(429, "rate_limit", "slow").header("retry-after", "12"));
    let error = collect(&*model(Wire::Chat, &server), request("go"))
        .await
        .error
        .unwrap();
    assert_eq!(error.retry_after, Some(Duration::from_secs(12)));
}

#[tokio::test]
async fn silence_and_floods_end() {
    let info = ModelInfo {
        id: "m".to_owned(),
        name: "m".to_owned(),
        provider: "p".to_owned(),
        context_window: 1,
        max_prompt_tokens: None,
        max_output_tokens: 1,
        vision: false,
        reasoning_efforts: Vec::new(),
    };
    let server = ModelServer::start();
    let silence = "no data arrived for 0.1 s";
    let cases = [
        (Reply::text("begins").hang().cut_after(100), silence),
        (Reply::text("late").delay(Duration::from_secs(3600)), silence),
        (
            Reply::raw("text/event-stream", vec![b'x'; (16 << 20) + 10]),
            "longer than 16 MB",
        ),
        (
            Reply::raw("text/event-stream", format!("{:065535}\n", 0).repeat(1025)),
            "longer than 64 MB",
        ),
    ];
    for (reply, words) in cases {
        let mut endpoint = Endpoint::new("p", ProviderType::OpenAi, WireApi::Completions, server.openai_url());
        // A flood may pause on a busy machine.
        endpoint.idle_timeout = Duration::from_millis(if words == silence { 100 } else { 60_000 });
        let model = HttpModel::new(info.clone(), "m".to_owned(), endpoint, Arc::new(Network::default()));
        server.reply(reply);
        let error = collect(&model, request("go")).await.error.unwrap();
        assert!(
            error.to_string().contains(words) && error.kind == ErrorKind::Connection,
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_so() {
    let gone = ModelServer::start();
    let model = model(Wire::Chat, &gone);
    drop(gone);
    // The port may stay open for a moment while the server ends.
    let mut error = None;
    for _ in 0..200 {
        error = collect(&*model, request("go")).await.error;
        if error.as_ref().is_some_and(|error| error.to_string().contains("onnect")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = error.unwrap();
    assert!(
        error.retryable && error.to_string().contains("Check the address"),
        "{error}"
    );
}

struct Tokens(Mutex<u32>);

impl TokenSource for Tokens {
    fn token(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        async {
            let mut count = self.0.lock();
            *count += 1;
            match *count {
                3 => Err(ModelError::new(ErrorKind::Authentication, "no more tokens")),
                count => Ok(format!("fresh-token-{count}")),
            }
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_token_source_is_asked_for_every_request() {
    let server = ModelServer::start();
    let mut provider = provider(Wire::Chat, &server);
    provider.has_bearer_token_provider = true;
    let catalogue = Catalogue::from(ModelsConfig::default(), |_| None).unwrap();
    let tokens: Arc<dyn TokenSource> = Arc::new(Tokens(Mutex::new(0)));
    let model = catalogue
        .resolve_with_provider(&provider, Some("m"), Some(tokens))
        .unwrap();
    for expected in ["Bearer fresh-token-1", "Bearer fresh-token-2"] {
        server.reply(Reply::text("ok"));
        collect(&*model, request("go")).await.done.unwrap();
        assert_eq!(server.last_request().headers["authorization"], expected);
    }
    assert_eq!(
        collect(&*model, request("go")).await.error.unwrap().message,
        "no more tokens"
    );
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_header_that_http_does_not_allow_is_refused_and_not_tried_again() {
    let server = ModelServer::start();
    let mut request = request("go");
    request.headers.insert("x-bad".to_owned(), "line\nbreak".to_owned());
    let error = collect(&*model(Wire::Chat, &server), request).await.error.unwrap();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Query, false), "{error}");
}

#[tokio::test]
async fn tls_with_a_server_that_speaks_none_is_an_error_and_no_panic() {
    let server = ModelServer::start();
    let mut provider = provider(Wire::Chat, &server);
    provider.base_url = server.openai_url().replace("http://", "https://").into();
    let catalogue = Catalogue::from(ModelsConfig::default(), |_| None).unwrap();
    let model = catalogue.resolve_with_provider(&provider, Some("m"), None).unwrap();
    let error = collect(&*model, request("go")).await.error.unwrap();
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn gzip_that_nobody_asked_for_is_read() {
    use std::io::Write;
    let zipped = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let server = ModelServer::start();
    let answer =
        "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let reply = Reply::raw("text/event-stream", zipped(answer)).split(7);
    server.reply(reply.header("content-encoding", "gzip"));
    let answer = collect(&*model(Wire::Chat, &server), request("go")).await;
    assert_eq!(answer.texts.concat(), "hello", "{:?}", answer.error);
    let refused = zipped(r#"{"error":{"message":"Wrong key"}}"#);
    let reply = Reply::raw("application/json", refused).status(401);
    server.reply(reply.header("content-encoding", "gzip"));
    let error = collect(&*model(Wire::Chat, &server), request("go"))
        .await
        .error
        .unwrap();
    assert!(error.to_string().contains("HTTP 401: Wrong key"), "{error}");
}
