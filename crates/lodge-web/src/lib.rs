//! The page of the host: watch and steer every session from a browser or a phone.
//!
//! The page is built from `web/` when this crate is built, and is part of the program. It is files and nothing else: what it
//! shows comes over AHP, as to every other client. So anybody who reaches the port may read these files, and there are no
//! secrets in them.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// A file of the page.
struct File {
    name: &'static str,
    /// Whether the bytes are packed by gzip.
    packed: bool,
    /// Quoted, as the header has it.
    etag: &'static str,
    bytes: &'static [u8],
}

/// What a page may load and do: its own files, its own host, pictures that it has in hand, and nothing else. Nothing that is
/// written into a page can run, because scripts and styles come from files alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
     connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer.
const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
];

/// Whether this program has the full page, and not only the one that says how to get it.
pub fn is_full() -> bool {
    FULL
}

/// Answers a request for a file of the page. `GET` and `HEAD` only; who asks was let in by address, not by name.
pub fn serve(method: &Method, uri: &Uri, headers: &HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    // A link that pairs a browser opens the page, which reads the rest of the link.
    let name = if path.is_empty() || path == "pair" {
        "index.html"
    } else {
        path
    };
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return text(method, StatusCode::NOT_FOUND, "File not found. The page is at /.\n");
    };
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let fresh = known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|etag| etag.trim().trim_start_matches("W/") == file.etag || etag.trim() == "*");
    let mut response = if fresh {
        answer(StatusCode::NOT_MODIFIED, Body::empty())
    } else if file.packed && !accepts_gzip(headers) {
        return text(
            method,
            StatusCode::NOT_ACCEPTABLE,
            "The page is stored compressed. Send “Accept-Encoding: gzip”.\n",
        );
    } else if method == Method::HEAD {
        answer(StatusCode::OK, Body::empty())
    } else {
        answer(StatusCode::OK, Body::from(file.bytes))
    };
    let said = response.headers_mut();
    said.insert(header::ETAG, HeaderValue::from_static(file.etag));
    said.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    // Names of assets change with what they hold; the others are asked for again each time.
    let caching = if name.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    said.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    if !fresh {
        said.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
        if file.packed {
            said.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if method == Method::HEAD {
            said.insert(header::CONTENT_LENGTH, HeaderValue::from(file.bytes.len()));
        }
    }
    response
}

fn answer(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn text(method: &Method, status: StatusCode, words: &'static str) -> Response {
    let body = if method == Method::HEAD {
        Body::empty()
    } else {
        Body::from(words)
    };
    let mut response = answer(status, body);
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let refused = weight.trim().trim_start_matches("q=").parse() == Ok(0.0_f32);
            matches!(name.trim(), "gzip" | "*") && !refused
        })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
