//! Who may connect: a token, a ticket that is good once, the right `Host` and the right `Origin`. All of it is decided
//! before the first message, and the answer to a wrong one says nothing.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// How long a ticket is good.
const TICKET_LIFE: Duration = Duration::from_secs(60);
const TICKETS: usize = 1000;

/// The door.
pub(crate) struct Door {
    token: Option<std::sync::Arc<str>>,
    hosts: Vec<String>,
    origins: Vec<String>,
    tickets: Mutex<HashMap<String, Instant>>,
    /// On a unix socket the file's permissions decide, and `Host` means nothing.
    check_host: bool,
}

impl Door {
    pub(crate) fn new(
        token: Option<std::sync::Arc<str>>,
        hosts: Vec<String>,
        origins: Vec<String>,
        check_host: bool,
    ) -> Self {
        Self {
            token,
            hosts,
            origins,
            tickets: Mutex::default(),
            check_host,
        }
    }

    /// A ticket that lets one connection in, for where a header cannot be set and a token must not be in an address.
    pub(crate) fn ticket(&self) -> String {
        let ticket = Uuid::new_v4().simple().to_string();
        let mut tickets = self.tickets.lock();
        tickets.retain(|_, made| made.elapsed() < TICKET_LIFE);
        if tickets.len() < TICKETS {
            tickets.insert(ticket.clone(), Instant::now());
        }
        ticket
    }

    /// Whether a request may come in.
    pub(crate) fn admits(&self, headers: &HeaderMap, query: Option<&str>) -> bool {
        self.knows_host(headers) && self.knows_origin(headers) && self.has_key(headers, query)
    }

    fn knows_host(&self, headers: &HeaderMap) -> bool {
        if !self.check_host {
            return true;
        }
        let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else {
            return false;
        };
        let name = name_of(host);
        // A page that tricks a browser into coming here can only do so by a name.
        is_localhost(name) || self.hosts.iter().any(|known| name_of(known).eq_ignore_ascii_case(name))
    }

    /// Browsers send an origin and other programs do not. A page may connect when it was served from here, or is named.
    fn knows_origin(&self, headers: &HeaderMap) -> bool {
        let Some(origin) = headers.get(header::ORIGIN) else {
            return true;
        };
        let Ok(origin) = origin.to_str() else { return false };
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let own = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        own.is_some() && own == host
    }

    fn has_key(&self, headers: &HeaderMap, query: Option<&str>) -> bool {
        let Some(token) = &self.token else { return true };
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer ")));
        if bearer.is_some_and(|given| same(given, token)) {
            return true;
        }
        let parameter = |name: &str| {
            query?.split('&').find_map(|pair| {
                pair.split_once('=')
                    .filter(|(key, _)| *key == name)
                    .map(|(_, value)| value)
            })
        };
        if parameter("tkn").is_some_and(|given| same(given, token)) {
            return true;
        }
        let Some(ticket) = parameter("ticket") else {
            return false;
        };
        self.tickets
            .lock()
            .remove(ticket)
            .is_some_and(|made| made.elapsed() < TICKET_LIFE)
    }
}

/// Compares in a time that does not tell how much was right.
fn same(given: &str, wanted: &str) -> bool {
    given.as_bytes().ct_eq(wanted.as_bytes()).into()
}

/// The name in `name:port`.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_localhost(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(door: &Door, headers: &[(&str, &str)], query: Option<&str>, expected: bool) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                header::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        assert_eq!(door.admits(&map, query), expected, "{headers:?} {query:?}");
    }

    #[test]
    fn the_door_wants_the_right_key_host_and_origin() {
        let door = Door::new(
            Some("secret".into()),
            vec!["lodge.example:443".into()],
            vec!["https://page.example".into()],
            true,
        );
        let host = ("host", "127.0.0.1:8081");
        let key = ("authorization", "Bearer secret");
        check(&door, &[host, key], None, true);
        check(&door, &[host], Some("tkn=secret"), true);
        check(&door, &[host], Some("a=b&tkn=secret"), true);
        check(&door, &[host], None, false);
        check(&door, &[host], Some("tkn=secre"), false);
        check(&door, &[host], Some("tkn="), false);
        check(&door, &[host, ("authorization", "Basic secret")], None, false);
        check(&door, &[("host", "localhost:1"), key], None, true);
        check(&door, &[("host", "[::1]:1"), key], None, true);
        check(&door, &[("host", "192.0.2.7:1"), key], None, true);
        check(&door, &[("host", "lodge.example"), key], None, true);
        check(&door, &[("host", "evil.example"), key], None, false);
        check(&door, &[("host", "127.0.0.1.evil.example"), key], None, false);
        check(&door, &[key], None, false);
        check(&door, &[host, key, ("origin", "https://page.example")], None, true);
        check(&door, &[host, key, ("origin", "http://127.0.0.1:8081")], None, true);
        check(&door, &[host, key, ("origin", "http://127.0.0.1:9999")], None, false);
        check(&door, &[host, key, ("origin", "https://evil.example")], None, false);
        check(&door, &[host, key, ("origin", "null")], None, false);
    }

    #[test]
    fn a_ticket_is_good_once() {
        let door = Door::new(Some("secret".into()), Vec::new(), Vec::new(), true);
        let query = format!("ticket={}", door.ticket());
        check(&door, &[("host", "localhost")], Some(&query), true);
        check(&door, &[("host", "localhost")], Some(&query), false);
        check(&door, &[("host", "localhost")], Some("ticket=nonsense"), false);
    }
}
