//! Where the host is: named by the person, or found through the note in the home of a running host.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::{cli::AttachArgs, host_file, launch};

/// How to find the host, even after it was restarted elsewhere.
#[derive(Clone)]
pub(super) struct Place {
    home: PathBuf,
    url: Option<String>,
    token: Option<String>,
}

/// The host's current address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A WebSocket URL, including the token.
    Url(String),
    /// A local socket, and the path and query of the request.
    Unix(PathBuf, String),
}

impl Place {
    pub(super) fn new(home: &Path, args: &AttachArgs) -> Self {
        Self {
            home: home.to_owned(),
            url: args.url.clone(),
            token: args.token.clone(),
        }
    }

    /// A host at an address.
    pub(super) fn at(home: &Path, url: String, token: Option<String>) -> Self {
        Self {
            home: home.to_owned(),
            url: Some(url),
            token,
        }
    }

    /// The host of a home.
    pub(super) fn of_home(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            url: None,
            token: None,
        }
    }

    /// Whether the host is certainly on this machine, so that paths are the same.
    pub(super) fn is_here(&self) -> bool {
        self.url.is_none()
    }

    /// This program's directory, if the host has it, too.
    pub(super) fn current_directory(&self) -> Option<String> {
        let here = std::env::current_dir().ok().filter(|_| self.is_here())?;
        Some(file_uri(&here))
    }

    /// The home of the host, if it is on this machine.
    pub(super) fn own_home(&self) -> Option<PathBuf> {
        self.is_here().then(|| self.home.clone())
    }

    /// Starts the host again if a client had started it and it was killed. A host that was stopped, or that a person or
    /// a service started, is left to them.
    pub(super) async fn revive(&self) -> Result<()> {
        match self.own_home() {
            Some(home) if host_file::was_killed(&home)? => launch::ensure(&home).await,
            _ => Ok(()),
        }
    }

    /// Finds the host. Arguments take precedence over the note; a home's token is never sent to another host.
    pub(super) fn find(&self) -> Result<Address> {
        if let Some(url) = &self.url {
            return address(url, self.token.as_deref());
        }
        let Some(note) = host_file::find(&self.home)? else {
            bail!(
                "No host is running on {}. Start one with `lodge`, or name one with --url.",
                self.home.display()
            );
        };
        match (&self.token, note.socket) {
            (None, Some(socket)) => Ok(Address::Unix(socket, "/".to_owned())),
            (token, _) => address(
                &note.ahp,
                token.clone().or_else(|| host_file::token(&self.home)).as_deref(),
            ),
        }
    }
}

fn address(url: &str, token: Option<&str>) -> Result<Address> {
    let query = token
        .map(|token| format!("tkn={}", escape(token, "")))
        .unwrap_or_default();
    if let Some(path) = url.strip_prefix("unix:") {
        return Ok(Address::Unix(path.into(), format!("/?{query}")));
    }
    if !["ws://", "wss://"].iter().any(|scheme| url.starts_with(scheme)) {
        bail!("{url:?} is not the URL of a host; it begins with ws://, wss:// or unix:.");
    }
    let (base, old) = url.split_once('?').unwrap_or((url, ""));
    // A request's path has at least a slash, which people leave out.
    let slash = if base.matches('/').count() < 3 { "/" } else { "" };
    let base = format!("{base}{slash}");
    let parts: Vec<&str> = [old, &query].into_iter().filter(|part| !part.is_empty()).collect();
    Ok(Address::Url(match parts.as_slice() {
        [] => base,
        parts => format!("{base}?{}", parts.join("&")),
    }))
}

/// Escapes text for a URL.
fn escape(text: &str, also: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || (c.is_ascii() && also.contains(c)) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A directory as a URI.
pub(super) fn file_uri(path: &Path) -> String {
    format!("file://{}", escape(&path.to_string_lossy(), "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_added_to_where_the_host_is() {
        let url = |text: &str| Address::Url(text.to_owned());
        for (place, token, expected) in [
            ("ws://127.0.0.1:1/", None, url("ws://127.0.0.1:1/")),
            ("ws://127.0.0.1:1/", Some("a_b-c"), url("ws://127.0.0.1:1/?tkn=a_b-c")),
            ("wss://h/x?a=b", Some("a&b"), url("wss://h/x?a=b&tkn=a%26b")),
            ("ws://h/?tkn=t", None, url("ws://h/?tkn=t")),
            ("ws://127.0.0.1:1", Some("t"), url("ws://127.0.0.1:1/?tkn=t")),
            ("wss://h?a=b", None, url("wss://h/?a=b")),
            (
                "unix:/run/l",
                Some("t"),
                Address::Unix("/run/l".into(), "/?tkn=t".into()),
            ),
        ] {
            assert_eq!(address(place, token).unwrap(), expected, "{place}");
        }
        assert!(address("http://127.0.0.1/", None).is_err());
    }

    #[test]
    fn paths_survive_being_uris() {
        for path in ["/home/a b/ü%", "/"] {
            assert_eq!(lodge_terminal::shown_path(&file_uri(Path::new(path))), path);
        }
    }
}
