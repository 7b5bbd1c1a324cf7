//! `web_fetch`: fetches a URL.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture};
use reqwest::{
    Client, Response, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{ACCEPT, CONTENT_TYPE, LOCATION},
    redirect::Policy,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bash::INTERRUPTED;
use crate::{Need, Tool, ToolCx, ToolError, ToolOutput, cx::arguments, html, request, rules::Decision};

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
            "url": { "type": "string", "description": "The URL, http or https." },
            "max_length": { "type": "number", "description": "Characters to return. Default 5000, at most 20000." },
            "start_index": { "type": "number", "description": "Character to start at, to continue reading. Default 0." },
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
        .dns_resolver(Arc::new(Names))
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
        "Fetches a URL and returns its text; HTML pages as Markdown. Long pages are returned in parts: continue with start_index."
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
                result = fetch(args, &cx) => result,
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

async fn fetch(args: Arguments, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
    let client = CLIENT
        .as_ref()
        .map_err(|error| ToolError(format!("Cannot set up HTTP: {error}")))?;
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
        // Permission was given for this place; another one, or one that a rule names, has to be asked for.
        let decision = (cx.rules)(&request::url(cx, next.as_str()));
        if let Decision::Deny { why, .. } = &decision {
            return Err(ToolError(format!(
                "{url} redirects to {next}, which is not fetched: {why}."
            )));
        }
        if !is_same_place(&url, &next) || matches!(decision, Decision::AskByPolicy { .. }) {
            return Err(ToolError(format!(
                "{url} redirects to {next}. Call web_fetch with that URL to follow."
            )));
        }
        url = next;
    }
    Err(ToolError(format!("Failed to fetch {}: too many redirects", args.url)))
}

/// Whether who may fetch the one may fetch the other: the same server, or its encrypted door.
fn is_same_place(url: &Url, next: &Url) -> bool {
    let encrypted = url.scheme() == "http" && next.scheme() == "https" && url.port().is_none() && next.port().is_none();
    url.origin() == next.origin() || (encrypted && url.host_str() == next.host_str())
}

/// Names by which people call their own machine. No other name may lead to it: whoever lets a name be fetched does not let
/// the owner of the name choose what on this machine is read.
fn is_own_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether an address is this machine's, or of the link that it is on, where clouds keep credentials.
fn is_own_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_unspecified() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.is_unicast_link_local(),
    }
}

/// Looks up names, and refuses those that lead to this machine without saying so.
struct Names;

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Vec<SocketAddr> = found.collect();
            let own = addresses.iter().find(|address| is_own_address(address.ip()));
            if let Some(own) = own.filter(|_| !is_own_name(name.as_str())) {
                let text = format!(
                    "{} resolves to {}, which is an address of this machine",
                    name.as_str(),
                    own.ip()
                );
                return Err(text.into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
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
        content.push_str("\n<note>The page is too large and was read only in part.</note>");
    }
    Ok(ToolOutput {
        content,
        ..ToolOutput::default()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_followed_within_a_place_only() {
        for (from, to, followed) in [
            ("http://a/x", "http://a/y", true),
            ("http://a/x", "https://a/x", true),
            ("http://a:80/x", "http://a/x", true),
            ("https://a/x", "http://a/x", false),
            ("http://a/x", "http://a:8080/x", false),
            ("http://a:8080/x", "http://a:22/x", false),
            ("http://a:8080/x", "https://a:8080/x", false),
            ("http://a:8080/x", "https://a/x", false),
            ("http://a/x", "http://b/x", false),
            ("http://a/x", "http://127.0.0.1/x", false),
            ("http://a/x", "http://a.b/x", false),
        ] {
            let [one, other] = [from, to].map(|url| Url::parse(url).unwrap());
            assert_eq!(is_same_place(&one, &other), followed, "{from} to {to}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_known_in_every_form() {
        for (address, own) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("0.0.0.0", true),
            ("169.254.169.254", true),
            ("::1", true),
            ("::", true),
            ("::ffff:127.0.0.1", true),
            ("fe80::1", true),
            ("10.0.0.1", false),
            ("93.184.216.34", false),
            ("2606:2800::1", false),
        ] {
            assert_eq!(is_own_address(address.parse().unwrap()), own, "{address}");
        }
    }

    #[tokio::test]
    async fn no_name_but_its_own_leads_to_this_machine() {
        let resolve = |name: &str| Names.resolve(name.parse().unwrap());
        assert!(resolve("localhost").await.unwrap().next().is_some());
        // Its name in the hosts file, where it has one that leads to loopback.
        if let Ok(name) = std::fs::read_to_string("/etc/hostname")
            && let Ok(mut found) = tokio::net::lookup_host((name.trim(), 0)).await
            && found.any(|address| is_own_address(address.ip()))
        {
            let error = resolve(name.trim()).await.err().unwrap().to_string();
            assert!(error.contains("this machine"), "{error}");
        }
    }
}
