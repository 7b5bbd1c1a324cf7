//! Credentials for remote servers: what they ask for, and who supplies it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::StreamExt;
use http::{StatusCode, header};
use parking_lot::Mutex;
use reqwest::{Client, Response};

use crate::{
    config::{OauthClient, ServerConfig},
    oauth::Logins,
    owner::Owner,
};

/// The longest metadata document that is read.
const METADATA_BYTES: usize = 64 << 10;

/// Why credentials are required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthReason {
    /// There were none.
    Initial,
    /// They are no longer valid.
    Refresh,
    /// They are no longer valid, and could not be renewed.
    Reauth,
    /// Their scopes are insufficient.
    Upscope,
}

/// A value that is never printed: it must not get into a log or an event.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A server's request for credentials.
#[derive(Debug, Clone)]
pub struct AuthRequest {
    /// The server's address.
    pub url: String,
    /// Why.
    pub reason: AuthReason,
    /// What its challenge said, when it said anything.
    pub challenge: Option<Challenge>,
    /// Its metadata document, as it came.
    pub resource_metadata: Option<String>,
    /// The OAuth client to be, where one is configured.
    pub client: OauthClient,
    /// The token that was rejected.
    pub rejected: Option<Secret>,
}

impl AuthRequest {
    /// The token that the host has for the server by now, where it is another than the one that was not good enough.
    pub fn newer_token(&self, logins: &Logins) -> Option<String> {
        let token = logins.token(&self.url)?;
        (self.rejected.as_ref().is_none_or(|rejected| rejected.0 != token)).then_some(token)
    }
}

/// What a `WWW-Authenticate` header said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Challenge {
    /// Where the metadata is.
    pub resource_metadata_url: Option<String>,
    /// The required scopes.
    pub scope: Option<String>,
    /// The error.
    pub error: Option<String>,
    upscope: bool,
    silent: bool,
}

impl Challenge {
    /// The challenge of an answer, if it is one.
    pub(crate) fn from_response(response: &Response, had_token: bool) -> Option<Self> {
        let said = response.headers().get(header::WWW_AUTHENTICATE);
        let said = said.and_then(|value| value.to_str().ok());
        let upscope = match response.status() {
            StatusCode::UNAUTHORIZED => false,
            // Without a challenge a 403 is an answer, not a question.
            StatusCode::FORBIDDEN if had_token && said.is_some_and(|said| said.contains("insufficient_scope")) => true,
            _ => return None,
        };
        Some(Self {
            upscope,
            silent: said.is_none(),
            ..said.map(Self::read).unwrap_or_default()
        })
    }

    fn read(text: &str) -> Self {
        let mut read = Self::default();
        // The scheme, then `name=value` or `name="value"`, with commas between.
        let mut rest = text.trim_start().split_once(' ').map_or("", |(_, rest)| rest);
        while let Some((name, after)) = rest.split_once('=') {
            let after = after.trim_start();
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => after.split_once(',').unwrap_or((after, "")),
            };
            let value = Some(value.trim().to_owned());
            match name.trim_matches([' ', ',']) {
                "resource_metadata" => read.resource_metadata_url = value,
                "scope" => read.scope = value,
                "error" => read.error = value,
                _ => {}
            }
            rest = after;
        }
        read
    }
}

/// The credentials of one server.
pub(crate) struct Auth {
    server: Arc<str>,
    url: String,
    client: OauthClient,
    owner: Arc<dyn Owner>,
    token: Mutex<Option<String>>,
    metadata: Mutex<Option<String>>,
    /// Serialises requests for credentials.
    asking: tokio::sync::Mutex<()>,
    /// Whether credentials were required but not available.
    refused: AtomicBool,
    /// Whether that was for everything, rather than for something that they do not reach to.
    shut_out: AtomicBool,
}

impl Auth {
    pub(crate) fn new(server: Arc<str>, config: &ServerConfig, owner: Arc<dyn Owner>) -> Self {
        Self {
            token: Mutex::new(owner.token(&server)),
            server,
            url: config.remote().map(|remote| remote.url.clone()).unwrap_or_default(),
            client: config.oauth.clone(),
            owner,
            metadata: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            refused: AtomicBool::new(false),
            shut_out: AtomicBool::new(false),
        }
    }

    pub(crate) fn token(&self) -> Option<String> {
        self.token.lock().clone()
    }

    /// Whether somebody has to sign in.
    pub(crate) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// Whether the server does nothing more before somebody signs in.
    pub(crate) fn is_shut_out(&self) -> bool {
        self.shut_out.load(Ordering::Acquire)
    }

    /// Gets other credentials than these. False if there are none.
    pub(crate) async fn renew(&self, http: &Client, challenge: Challenge, old: Option<String>) -> bool {
        let _one = self.asking.lock().await;
        if *self.token.lock() != old {
            // Somebody else has got new ones meanwhile.
            return true;
        }
        let known = self.metadata.lock().is_some();
        let places = match &challenge.resource_metadata_url {
            Some(url) => vec![url.clone()],
            None if known => Vec::new(),
            None => well_known(&self.url),
        };
        for url in places {
            if let Some(found) = fetch(http, &url).await {
                *self.metadata.lock() = Some(found);
                break;
            }
        }
        let reasons: &[AuthReason] = match (&old, challenge.upscope) {
            (None, _) => &[AuthReason::Initial],
            (Some(_), true) => &[AuthReason::Upscope],
            (Some(_), false) => &[AuthReason::Refresh, AuthReason::Reauth],
        };
        for reason in reasons {
            let request = AuthRequest {
                url: self.url.clone(),
                reason: *reason,
                challenge: (!challenge.silent).then(|| challenge.clone()),
                resource_metadata: self.metadata.lock().clone(),
                client: self.client.clone(),
                rejected: old.clone().map(Secret),
            };
            if let Some(token) = self.owner.authorize(&self.server, request).await {
                *self.token.lock() = Some(token);
                self.refused.store(false, Ordering::Release);
                self.shut_out.store(false, Ordering::Release);
                return true;
            }
        }
        self.refused.store(true, Ordering::Release);
        self.shut_out.fetch_or(!challenge.upscope, Ordering::AcqRel);
        false
    }
}

/// Scopes, and more of them behind; each once.
pub(crate) fn joined(scopes: &str, more: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for scope in scopes.split_whitespace().chain(more.split_whitespace()) {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all.join(" ")
}

/// Where a server's metadata is when it does not say: of the server itself, then of all that is there.
fn well_known(url: &str) -> Vec<String> {
    let Ok(url) = reqwest::Url::parse(url) else {
        return Vec::new();
    };
    let at = |path: &str| {
        let mut place = url.clone();
        place.set_query(None);
        place.set_fragment(None);
        place.set_path(&format!("/.well-known/oauth-protected-resource{path}"));
        place.to_string()
    };
    let path = url.path().trim_end_matches('/');
    let mut places = vec![at(path)];
    if !path.is_empty() {
        places.push(at(""));
    }
    places
}

/// A metadata document, as it is; nothing when it cannot be had or is none.
async fn fetch(http: &Client, url: &str) -> Option<String> {
    let get = async {
        let response = http.get(url).send().await.ok()?.error_for_status().ok()?;
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            body.extend_from_slice(&chunk.ok()?);
            if body.len() > METADATA_BYTES {
                return None;
            }
        }
        // Some answer every question with a page.
        serde_json::from_slice::<serde::de::IgnoredAny>(&body).ok()?;
        String::from_utf8(body).ok()
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), get)
        .await
        .ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_where_it_usually_is() {
        for (url, places) in [
            (
                "https://a.example/mcp?x=1",
                vec![
                    "https://a.example/.well-known/oauth-protected-resource/mcp",
                    "https://a.example/.well-known/oauth-protected-resource",
                ],
            ),
            (
                "http://a.example:81/",
                vec!["http://a.example:81/.well-known/oauth-protected-resource"],
            ),
            ("nonsense", vec![]),
        ] {
            assert_eq!(well_known(url), places, "{url}");
        }
    }

    #[test]
    fn scopes_are_joined_in_their_order_each_once() {
        assert_eq!(joined("a b", "b  c a"), "a b c");
        assert_eq!(joined("", "c"), "c");
    }

    #[test]
    fn a_challenge_is_read_however_it_is_written() {
        for (text, metadata, scope, error) in [
            (
                r#"Bearer resource_metadata="http://a/x", scope="r w", error="invalid_token""#,
                Some("http://a/x"),
                Some("r w"),
                Some("invalid_token"),
            ),
            (r#"Bearer error="invalid_token""#, None, None, Some("invalid_token")),
            ("Bearer scope=read, error=x", None, Some("read"), Some("x")),
            (
                r#"Bearer error_description="no scope=here", error="y""#,
                None,
                None,
                Some("y"),
            ),
            ("Basic", None, None, None),
            ("", None, None, None),
        ] {
            let read = Challenge::read(text);
            let read = (
                read.resource_metadata_url.as_deref(),
                read.scope.as_deref(),
                read.error.as_deref(),
            );
            assert_eq!(read, (metadata, scope, error), "{text}");
        }
    }
}
