//! `web_fetch`: reads an address.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture};
use reqwest::{
    Client, Response, Url,
    header::{ACCEPT, CONTENT_TYPE, LOCATION},
    redirect::Policy,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bash::INTERRUPTED;
use crate::{Need, Tool, ToolCx, ToolError, ToolOutput, cx::arguments, html, request};

/// Reads an address.
pub(super) struct WebFetch;

const MAX_BODY: usize = 5 << 20;
const MAX_REDIRECTS: usize = 5;
const DEFAULT_LENGTH: usize = 5000;
const MAX_LENGTH: usize = 20_000;
const TIME_LIMIT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Arguments {
    url: String,
    #[serde(default)]
    max_length: Option<usize>,
    #[serde(default)]
    start_index: usize,
    #[serde(default)]
    raw: bool,
}

static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "url": { "type": "string", "description": "The address, http or https." },
            "max_length": { "type": "number", "description": "Characters to return. Default 5000, at most 20000." },
            "start_index": { "type": "number", "description": "Character to begin at, to read on. Default 0." },
            "raw": { "type": "boolean", "description": "Return HTML as it is instead of its text." }
        },
        "required": ["url"]
    }))
});

/// Made when first used: certificates take a while to load.
static CLIENT: LazyLock<Result<Client, String>> = LazyLock::new(|| {
    // Fails when the program has chosen a provider already, which is just as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("lodge/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .connect_timeout(Duration::from_secs(15))
        .timeout(TIME_LIMIT)
        .build()
        .map_err(|error| error.to_string())
});

impl Tool for WebFetch {
    fn name(&self) -> &'static str {
        "web_fetch"
    }

    fn description(&self) -> &'static str {
        "Fetches an address and returns its text; HTML pages as Markdown. Long pages are returned in parts: read on with start_index."
    }

    fn parameters(&self) -> Arc<Value> {
        PARAMETERS.clone()
    }

    fn parallel(&self) -> bool {
        true
    }

    fn need(&self, value: &Value, cx: &ToolCx) -> Result<Need, ToolError> {
        let args: Arguments = arguments(self.name(), value)?;
        let url = parse(&args.url)?;
        Ok(cx.need(Vec::new(), request::url(cx, url.as_str())))
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Arguments = arguments("web_fetch", &value)?;
            tokio::select! {
                () = cx.cancel.cancelled() => Err(ToolError(INTERRUPTED.to_owned())),
                result = fetch(args) => result,
            }
        })
    }
}

fn parse(text: &str) -> Result<Url, ToolError> {
    let url = Url::parse(text).map_err(|error| ToolError(format!("Invalid URL {text}: {error}")))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err(ToolError(format!(
            "Invalid URL {text}: only http and https can be fetched."
        ))),
    }
}

async fn fetch(args: Arguments) -> Result<ToolOutput, ToolError> {
    let client = CLIENT
        .as_ref()
        .map_err(|error| ToolError(format!("No HTTP client: {error}")))?;
    let mut url = parse(&args.url)?;
    for _ in 0..=MAX_REDIRECTS {
        let failed = |error: reqwest::Error| ToolError(format!("Failed to fetch {}: {}", args.url, cause(&error)));
        let accept = "text/html,text/plain,application/json;q=0.9,*/*;q=0.5";
        let response = client
            .get(url.clone())
            .header(ACCEPT, accept)
            .send()
            .await
            .map_err(failed)?;
        if !response.status().is_redirection() {
            return finish(&args, &url, response).await;
        }
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let next = target.and_then(|target| url.join(target).ok());
        let Some(next) = next.and_then(|next| parse(next.as_str()).ok()) else {
            return Err(ToolError(format!(
                "Failed to fetch {url}: status code {}",
                response.status().as_u16()
            )));
        };
        // Permission was given for this host; another one has to be asked for.
        if next.host_str() != url.host_str() || (url.scheme() == "https" && next.scheme() == "http") {
            return Err(ToolError(format!(
                "{url} redirects to {next}. Call web_fetch with that URL to follow."
            )));
        }
        url = next;
    }
    Err(ToolError(format!("Failed to fetch {}: too many redirects", args.url)))
}

/// The innermost cause: what is around it only repeats the address.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

async fn finish(args: &Arguments, url: &Url, response: Response) -> Result<ToolOutput, ToolError> {
    let status = response.status();
    if !status.is_success() {
        return Err(ToolError(format!(
            "Failed to fetch {url}: status code {}",
            status.as_u16()
        )));
    }
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = kind.to_ascii_lowercase();
    let mut body = Vec::new();
    let mut stream = response.bytes_stream();
    let mut cut = false;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| ToolError(format!("Failed to fetch {url}: {}", cause(&error))))?;
        body.extend_from_slice(&chunk[..chunk.len().min(MAX_BODY - body.len())]);
        if body.len() == MAX_BODY {
            cut = true;
            break;
        }
    }
    let textual = ["text/", "json", "xml", "javascript", "yaml", "toml"]
        .iter()
        .any(|word| kind.contains(word));
    if body.contains(&0) || !(textual || kind.is_empty()) {
        return Err(ToolError(format!("{url} is not text ({kind})")));
    }
    let latin = kind.contains("iso-8859-1") || kind.contains("windows-1252");
    let text = if latin {
        body.iter().map(|b| char::from(*b)).collect()
    } else {
        String::from_utf8_lossy(&body).into_owned()
    };
    let page = kind.contains("html") || (kind.is_empty() && text.trim_start().starts_with('<'));
    let text = if page && !args.raw { html::text(&text) } else { text };

    let length = args.max_length.unwrap_or(DEFAULT_LENGTH).clamp(1, MAX_LENGTH);
    let total = text.chars().count();
    let part: String = text.chars().skip(args.start_index).take(length).collect();
    let end = args.start_index.saturating_add(length);
    let mut content = format!("Contents of {url}:\n{part}");
    if part.is_empty() && total > 0 {
        content.push_str("<note>There is no more content.</note>");
    } else if end < total {
        content.push_str(&format!(
            "\n<note>Content truncated. Call web_fetch with a start_index of {end} to get more content.</note>"
        ));
    } else if cut {
        content.push_str("\n<note>The page is larger than what is read of it.</note>");
    }
    Ok(ToolOutput {
        content,
        ..ToolOutput::default()
    })
}
