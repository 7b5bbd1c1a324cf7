//! A provider's base URL, which may contain a key.

use std::fmt;

use serde::Deserialize;

use crate::Secret;

/// A provider's address. Keys are put before the host's name and into the query, so neither is ever printed: only
/// [`BaseUrl::expose`] gives them, for the one place that sends them.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct BaseUrl(String);

impl BaseUrl {
    /// The address as it was given.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The parts that may be keys: who signs in and with what, and the values of the query.
    pub fn secrets(&self) -> Vec<Secret> {
        let (_, credentials, _, query) = self.parts();
        let credentials = credentials.into_iter().flat_map(|text| text.split(':'));
        let values = query.into_iter().flat_map(|query| query.split('&'));
        let values = values.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        let all = credentials.chain(values).filter(|text| !text.is_empty());
        all.map(Secret::new).collect()
    }

    /// The scheme, the user info, the host with the path, and the query.
    fn parts(&self) -> (&str, Option<&str>, &str, Option<&str>) {
        let (scheme, rest) = match self.0.split_once("://") {
            Some((scheme, rest)) => (scheme, rest),
            None => ("", self.0.as_str()),
        };
        let (rest, query) = match rest.split_once(['?', '#']) {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let authority = rest.split('/').next().unwrap_or_default();
        match authority.rsplit_once('@') {
            Some((credentials, _)) => (scheme, Some(credentials), &rest[credentials.len() + 1..], query),
            None => (scheme, None, rest, query),
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, credentials, rest, query) = self.parts();
        if !scheme.is_empty() {
            write!(f, "{scheme}://")?;
        }
        if credentials.is_some() {
            f.write_str("[secret]@")?;
        }
        f.write_str(rest)?;
        for (n, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
            f.write_str(if n == 0 { "?" } else { "&" })?;
            match pair.split_once('=') {
                Some((name, _)) => write!(f, "{name}=[secret]")?,
                None => f.write_str("[secret]")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl<T: Into<String>> From<T> for BaseUrl {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_an_address_are_never_printed() {
        for (address, shown, secrets) in [
            ("https://api.example/v1", "https://api.example/v1", &[][..]),
            (
                "https://me:sk-12345@api.example:8443/v1",
                "https://[secret]@api.example:8443/v1",
                &["me", "sk-12345"],
            ),
            (
                "https://sk-12345@api.example",
                "https://[secret]@api.example",
                &["sk-12345"],
            ),
            (
                "https://api.example/v1?key=sk-12345&api-version=1",
                "https://api.example/v1?key=[secret]&api-version=[secret]",
                &["sk-12345", "1"],
            ),
            ("http://h/p?sk-12345", "http://h/p?[secret]", &["sk-12345"]),
            ("http://h/p#sk-12345", "http://h/p?[secret]", &["sk-12345"]),
            ("http://a@b@h/p@x", "http://[secret]@h/p@x", &["a@b"]),
            ("sk-1:2@h", "[secret]@h", &["sk-1", "2"]),
            ("", "", &[]),
        ] {
            let url = BaseUrl::from(address);
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("{shown:?}"));
            let found = url.secrets();
            let found: Vec<&str> = found.iter().map(Secret::expose).collect();
            assert_eq!(found, secrets, "{address}");
            assert_eq!(url.expose(), address);
        }
    }
}
