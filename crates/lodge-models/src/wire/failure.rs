//! Errors of model calls, classified and described: the provider, the model, what to do, and never a secret.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use serde_json::Value;

use super::assembly::Fault;
use crate::{ErrorKind, HttpResponse, ModelError, Secret, TransportError};

/// As much of an error's body is read.
const MOST_ERROR_BODY: usize = 64 << 10;
/// As much of a provider's words is repeated.
const MOST_WORDS: usize = 600;

/// Whom a call is for.
pub(crate) struct Target {
    provider: String,
    host: String,
    model: String,
    secrets: Vec<Secret>,
}

impl Target {
    pub(crate) fn new(provider: &str, host: &str, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            host: host.to_owned(),
            model: model.to_owned(),
            secrets: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Keeps a value out of all messages.
    pub(crate) fn hide(&mut self, secret: Secret) {
        // What is this short is no secret, and taking it out would make the message unreadable.
        if secret.expose().len() >= 6 {
            self.secrets.push(secret);
        }
    }

    fn error(&self, kind: ErrorKind, what: &str, advice: &str) -> ModelError {
        let mut what = what.to_owned();
        for secret in &self.secrets {
            what = what.replace(secret.expose(), "[secret]");
        }
        if let Some((at, _)) = what.char_indices().nth(MOST_WORDS) {
            what.truncate(at);
            what.push('…');
        }
        let what = what.trim_end_matches(['.', ' ', '\n']);
        let (provider, host, model) = (&self.provider, &self.host, &self.model);
        ModelError::new(
            kind,
            format!("Model {model} of provider {provider} ({host}): {what}. {advice}"),
        )
    }

    /// The server could not be reached.
    pub(crate) fn unreachable(&self, error: &TransportError) -> ModelError {
        if let TransportError::Invalid(what) = error {
            return self.refused(what);
        }
        let advice = "Check the address, the network and, where there is one, the proxy.";
        self.error(ErrorKind::Connection, &error.to_string(), advice)
    }

    /// The server said nothing for too long.
    pub(crate) fn silent(&self, patience: Duration) -> ModelError {
        let what = format!("no data arrived for {} s", patience.as_secs_f32());
        self.error(
            ErrorKind::Connection,
            &what,
            "The server may be overloaded; trying again may help.",
        )
    }

    /// The answer broke off or made no sense.
    pub(crate) fn broken(&self, what: &str) -> ModelError {
        self.error(ErrorKind::Connection, what, "Trying again may help.")
    }

    /// There is no key to send.
    pub(crate) fn without_key(&self, variable: &str) -> ModelError {
        let what = format!("{variable}, which should hold the API key, is not set");
        self.error(ErrorKind::Authentication, &what, "Set it and start again.")
    }

    /// The request was not even sent.
    pub(crate) fn refused(&self, what: &str) -> ModelError {
        self.error(
            ErrorKind::Query,
            what,
            "The request was not sent; check the provider's configuration.",
        )
    }

    /// An answer that is none.
    pub(super) fn fault(&self, fault: Fault) -> ModelError {
        match fault {
            Fault::Malformed(what) => self.broken(&format!("the response is malformed: {what}")),
            Fault::Reported(json) => self.reported(None, &json),
        }
    }

    /// The error in an unsuccessful response.
    pub(crate) async fn status_error(&self, mut response: HttpResponse, patience: Duration) -> ModelError {
        let mut body = Vec::new();
        while let Ok(Some(Ok(piece))) = tokio::time::timeout(patience, response.body.next()).await {
            body.extend_from_slice(&piece);
            if body.len() >= MOST_ERROR_BODY {
                body.truncate(MOST_ERROR_BODY);
                break;
            }
        }
        let text = String::from_utf8_lossy(&body);
        self.reported(Some(response.status), &text)
            .with_status(response.status)
            .with_retry_after(retry_after(&response))
            .with_provider_call_id(request_id(&response))
    }

    /// What a provider's error object means.
    fn reported(&self, status: Option<u16>, body: &str) -> ModelError {
        let (codes, words) = read(body);
        let status_words = match status {
            Some(status) => format!("HTTP {status}"),
            None => "the stream reported an error".to_owned(),
        };
        let what = match words.is_empty() {
            true => status_words,
            false => format!("{status_words}: {words}"),
        };
        let kind = classify(status, &codes, &words.to_lowercase());
        ModelError {
            code: codes.into_iter().next(),
            ..self.error(kind, &what, advice(kind, status))
        }
    }
}

/// The codes and the words of an error's body, as the known providers write them.
fn read(body: &str) -> (Vec<String>, String) {
    let Some(value) = serde_json::from_str::<Value>(body).ok().or_else(|| unwrapped(body)) else {
        return (Vec::new(), body.trim().to_owned());
    };
    let value = value.get(0).unwrap_or(&value);
    let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let codes = ["code", "type"]
        .iter()
        .filter_map(|key| text(error.get(key)?))
        .collect();
    let words = [
        error.get("message"),
        Some(error),
        value.get("message"),
        value.get("detail"),
    ]
    .into_iter()
    .flatten()
    .find_map(|value| value.as_str().map(str::to_owned));
    (codes, words.unwrap_or_else(|| body.trim().to_owned()))
}

/// The first object of a body that is a stream of events: gateways that were asked to stream tell errors so, too.
fn unwrapped(body: &str) -> Option<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data.trim()).ok())
        .find(Value::is_object)
}

/// Words of providers and gateways that say: no more money. Codes are better, and not everybody has one.
const QUOTA_WORDS: [&str; 7] = [
    "credit balance is too low",
    "insufficient_quota",
    "exceeded your current quota",
    "budget has been exceeded",
    "exceededbudget",
    "insufficient credits",
    "insufficient balance",
];

const CONTEXT_WORDS: [&str; 11] = [
    "context length",
    "context limit",
    "context window",
    "maximum context",
    "context size",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "reduce the length",
    "prompt token count",
    "exceeds the limit of",
];

fn classify(status: Option<u16>, codes: &[String], words: &str) -> ErrorKind {
    let has = |known: &[&str]| codes.iter().any(|code| known.contains(&code.as_str()));
    let says = |known: &[&str]| known.iter().any(|phrase| words.contains(phrase));
    // An error in a stream has no status of its own; gateways put the one that they got into the code.
    let status = status.or_else(|| {
        let mut codes = codes.iter().filter_map(|code| code.parse().ok());
        codes.find(|code| (400..600).contains(code))
    });
    let too_long = has(&[
        "context_length_exceeded",
        "model_max_prompt_tokens_exceeded",
        "exceed_context_size_error",
    ]) || (matches!(status, None | Some(400 | 413 | 422 | 500)) && says(&CONTEXT_WORDS));
    if too_long || status == Some(413) {
        return ErrorKind::ContextLimit;
    }
    if has(&[
        "insufficient_quota",
        "quota_exceeded",
        "billing_error",
        "billing_hard_limit_reached",
        "budget_exceeded",
        "exceeded_current_quota_error",
        "insufficient_balance",
        "usage_limit_reached",
    ]) || status == Some(402)
        // Some call a limit per minute a quota, and say when to come back.
        || (says(&QUOTA_WORDS) && !says(&["retry in", "try again in"]))
    {
        return ErrorKind::Quota;
    }
    match status {
        Some(401) => ErrorKind::Authentication,
        Some(403) => ErrorKind::Authorization,
        Some(429) => ErrorKind::RateLimit,
        Some(408 | 409 | 500..) => ErrorKind::Connection,
        Some(_) => ErrorKind::Query,
        None if has(&["rate_limit_error", "rate_limit_exceeded", "rate_limit"]) => ErrorKind::RateLimit,
        None if has(&["authentication_error", "invalid_api_key"]) => ErrorKind::Authentication,
        None if has(&["permission_error"]) => ErrorKind::Authorization,
        None if has(&["invalid_request_error", "invalid_prompt", "not_found_error"]) => ErrorKind::Query,
        None => ErrorKind::Connection,
    }
}

fn advice(kind: ErrorKind, status: Option<u16>) -> &'static str {
    match kind {
        ErrorKind::Authentication => "Check the key or token of this provider.",
        ErrorKind::Authorization => "The key is known but may not use this model; ask whoever manages the account.",
        ErrorKind::Quota => "The account is out of quota or credit; add some or choose another model.",
        ErrorKind::RateLimit => "Wait a moment, or choose another model.",
        ErrorKind::ContextLimit => "The conversation is too long for this model; compact it or choose a larger model.",
        ErrorKind::Query if status == Some(404) => "Check the model's name and the provider's base_url.",
        ErrorKind::Query if matches!(status, Some(300..400)) => "Set base_url to the new address.",
        ErrorKind::Query => "The provider rejected the request.",
        ErrorKind::Connection => "The provider's server failed; trying again may help.",
    }
}

/// The provider's id of the request.
pub(super) fn request_id(response: &HttpResponse) -> Option<String> {
    ["x-github-request-id", "x-request-id", "request-id", "apim-request-id"]
        .iter()
        .find_map(|name| response.header(name))
        .map(str::to_owned)
}

/// The time to wait, in milliseconds: OpenAI's and Azure's header, and how LiteLLM passes one on.
const WAIT_MILLIS: [&str; 3] = ["retry-after-ms", "x-ms-retry-after-ms", "llm_provider-retry-after-ms"];
/// The same in seconds, or a date.
const WAIT: [&str; 3] = ["retry-after", "llm_provider-retry-after", "x-retry-after"];

fn retry_after(response: &HttpResponse) -> Option<Duration> {
    let millis = WAIT_MILLIS.iter().find_map(|name| response.header(name));
    if let Some(millis) = millis.and_then(|value| value.trim().parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let value = WAIT.iter().find_map(|name| response.header(name))?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new()
        .relaxed_weekday(true)
        .parse_timestamp(value)
        .ok()?;
    Some(
        SystemTime::from(at)
            .duration_since(SystemTime::now())
            .unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::{Target, classify, read, retry_after};
    use crate::{ErrorKind::*, HttpResponse, Secret};
    use futures_util::{StreamExt, stream};

    #[test]
    fn errors_of_all_providers_are_told_apart() {
        let cases = [
            (
                Some(401),
                r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#,
                Authentication,
            ),
            (Some(403), r#"{"error":{"message":"no access"}}"#, Authorization),
            (Some(402), "Payment Required", Quota),
            (
                Some(429),
                r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#,
                RateLimit,
            ),
            (
                Some(429),
                r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#,
                Quota,
            ),
            (
                Some(400),
                r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#,
                ContextLimit,
            ),
            (
                Some(400),
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}}"#,
                ContextLimit,
            ),
            (
                Some(400),
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000, decrease input length or `max_tokens` and try again"}}"#,
                ContextLimit,
            ),
            (
                Some(400),
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
                ContextLimit,
            ),
            (
                Some(400),
                r#"{"error":{"message":"Your credit balance is too low"}}"#,
                Quota,
            ),
            (Some(413), "", ContextLimit),
            (Some(400), r#"{"detail":"bad"}"#, Query),
            (Some(404), r#"{"error":"model 'x' not found"}"#, Query),
            (Some(302), "", Query),
            (Some(408), "", Connection),
            (Some(409), "", Connection),
            (Some(500), "<html>oops</html>", Connection),
            (
                Some(529),
                r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Connection,
            ),
            (
                None,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Connection,
            ),
            (
                None,
                r#"{"error":{"type":"rate_limit_error","message":"slow"}}"#,
                RateLimit,
            ),
            (None, r#"{"error":{"code":"invalid_prompt","message":"no"}}"#, Query),
            // What gateways make of errors.
            (
                None,
                r#"{"error":{"message":"x","type":"None","code":"429"}}"#,
                RateLimit,
            ),
            (
                None,
                r#"{"error":{"message":"x","type":"None","code":"401"}}"#,
                Authentication,
            ),
            (None, r#"{"error":{"message":"x","code":"503"}}"#, Connection),
            (
                Some(429),
                "data: {\"error\":{\"message\":\"no more\",\"type\":\"insufficient_quota\"}}\n\ndata: [DONE]\n\n",
                Quota,
            ),
            (
                Some(429),
                r#"{"error":{"message":"Budget has been exceeded! Current cost: 2.1, Max budget: 2.0","type":"budget_exceeded","code":"400"}}"#,
                Quota,
            ),
            (
                Some(429),
                r#"{"error":{"message":"litellm.RateLimitError: OpenAIException - You exceeded your current quota, please check your plan","type":"throttling_error","code":"429"}}"#,
                Quota,
            ),
            (
                Some(429),
                r#"{"error":{"message":"You exceeded your current quota. Please retry in 35.5s.","code":429}}"#,
                RateLimit,
            ),
        ];
        for (status, body, kind) in cases {
            let (codes, words) = read(body);
            assert_eq!(
                classify(status, &codes, &words.to_lowercase()),
                kind,
                "{status:?} {body}"
            );
        }
    }

    #[test]
    fn messages_say_what_failed_and_never_a_secret() {
        let mut target = Target::new("acme", "api.acme.test", "m1");
        target.hide(Secret::new("sk-very-secret"));
        let error = target.reported(Some(401), r#"{"error":{"message":"Wrong key sk-very-secret."}}"#);
        insta::assert_snapshot!(error, @"Model m1 of provider acme (api.acme.test): HTTP 401: Wrong key [secret]. Check the key or token of this provider.");
    }

    #[test]
    fn an_error_that_is_wrapped_in_events_is_told_by_its_words() {
        let target = Target::new("acme", "api.acme.test", "m1");
        let body =
            "event: error\ndata: {\"error\": {\"message\": \"Slow down\", \"code\": \"rate_limit_exceeded\"}}\n\n";
        let error = target.reported(Some(429), body);
        insta::assert_snapshot!(error, @"Model m1 of provider acme (api.acme.test): HTTP 429: Slow down. Wait a moment, or choose another model.");
        assert_eq!(error.code.as_deref(), Some("rate_limit_exceeded"));
    }

    #[test]
    fn the_time_to_wait_is_read_in_every_form() {
        let wait = |name: &str, value: &str| {
            let headers = vec![(name.to_owned(), value.to_owned())];
            retry_after(&HttpResponse {
                status: 429,
                headers,
                body: stream::empty().boxed(),
            })
        };
        assert_eq!(wait("retry-after", "7").unwrap().as_secs(), 7);
        assert_eq!(wait("retry-after", "0.5").unwrap().as_millis(), 500);
        assert_eq!(wait("retry-after-ms", "250").unwrap().as_millis(), 250);
        assert_eq!(wait("x-ms-retry-after-ms", "250").unwrap().as_millis(), 250);
        assert_eq!(wait("llm_provider-retry-after", "9").unwrap().as_secs(), 9);
        assert_eq!(
            wait("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT").unwrap().as_secs(),
            0
        );
        assert!(wait("retry-after", "Fri, 21 Oct 2255 07:28:00 GMT").unwrap().as_secs() > 1_000_000);
        assert_eq!(wait("retry-after", "soon"), None);
        assert_eq!(wait("retry-after", "-1"), None);
    }
}
