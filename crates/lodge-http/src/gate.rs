//! Decides who may connect: the right `Host`, the right `Origin`, and a valid credential. All of it is checked before the first
//! message, and a refusal says nothing that helps with guessing.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, header};
use lodge_door::{Admission, Door};

/// The half of a device's secrets that scripts can read.
pub(crate) const KEY: HeaderName = HeaderName::from_static("x-lodge-key");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers that decide something. Which of two would count is a matter of taste, so there may be only one.
const SINGLE: [HeaderName; 9] = [
    header::HOST,
    header::ORIGIN,
    header::AUTHORIZATION,
    header::COOKIE,
    header::UPGRADE,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    KEY,
    SEC_FETCH_SITE,
];

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("a header that may appear once appears twice")]
    Repeated,
    #[error("this host does not have that name; add it with --allow-host")]
    ForeignHost,
    #[error("a page of another origin may not do this; add the origin with --allow-origin")]
    ForeignOrigin,
    #[error("this browser is not paired with the host")]
    NotPaired,
}

/// Checks requests.
pub(crate) struct Gate {
    pub(crate) door: Arc<Door>,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// On a unix socket the file's permissions decide, and `Host` means nothing.
    check_host: bool,
    /// Browsers share cookies between all ports of a machine, so those of two hosts have different names.
    cookie: String,
}

impl Gate {
    pub(crate) fn new(door: Arc<Door>, hosts: Vec<String>, origins: Vec<String>, check_host: bool) -> Self {
        Self {
            cookie: format!("lodge_device_{}", door.id()),
            door,
            hosts,
            origins,
            check_host,
        }
    }

    /// The name of the cookie with the other half of a device's secrets.
    pub(crate) fn cookie_name(&self) -> &str {
        &self.cookie
    }

    /// Whether a request names this host, and does not come from a page elsewhere.
    pub(crate) fn check_place(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        check_single(headers)?;
        if !self.knows_host(headers) {
            return Err(Refusal::ForeignHost);
        }
        match self.knows_origin(headers) {
            Some(false) => Err(Refusal::ForeignOrigin),
            _ => Ok(()),
        }
    }

    /// Who wants to open a connection.
    pub(crate) fn admit(&self, headers: &HeaderMap, query: Option<&str>) -> Result<Admission, Refusal> {
        self.check_place(headers)?;
        let bearer = text(headers, &header::AUTHORIZATION);
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer ")));
        if let Some(admission) = bearer.and_then(|given| self.door.admit_token(given)) {
            return Ok(admission);
        }
        let token = parameter(query, "tkn")?;
        if let Some(admission) = token.and_then(|given| self.door.admit_token(given)) {
            return Ok(admission);
        }
        // Browsers send the cookie whoever makes them; the origin says who did.
        let key = parameter(query, "key")?;
        if let Some(key) = key.filter(|_| headers.contains_key(header::ORIGIN))
            && let Some(cookie) = self.cookie(headers)?
            && let Some(admission) = self.door.admit_device(cookie, key)
        {
            return Ok(admission);
        }
        self.door.admit_anybody().ok_or(Refusal::NotPaired)
    }

    /// Which device asks over plain HTTP. What changes something must say which page makes it.
    pub(crate) fn device(&self, headers: &HeaderMap, changes: bool) -> Result<Admission, Refusal> {
        self.check_place(headers)?;
        let site = text(headers, &SEC_FETCH_SITE);
        if site.is_some_and(|site| !matches!(site, "same-origin" | "none"))
            || (changes && !headers.contains_key(header::ORIGIN))
        {
            return Err(Refusal::ForeignOrigin);
        }
        let cookie = self.cookie(headers)?.ok_or(Refusal::NotPaired)?;
        let key = text(headers, &KEY).ok_or(Refusal::NotPaired)?;
        self.door.admit_device(cookie, key).ok_or(Refusal::NotPaired)
    }

    fn cookie<'a>(&self, headers: &'a HeaderMap) -> Result<Option<&'a str>, Refusal> {
        let pairs = text(headers, &header::COOKIE).unwrap_or_default().split(';');
        let named = pairs.filter_map(|pair| pair.trim().split_once('='));
        one(named.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value))
    }

    fn knows_host(&self, headers: &HeaderMap) -> bool {
        if !self.check_host {
            return true;
        }
        let Some(host) = text(headers, &header::HOST) else {
            return false;
        };
        let name = name_of(host);
        // A page that tricks a browser into coming here can only do so by a name.
        is_localhost(name) || self.hosts.iter().any(|known| name_of(known).eq_ignore_ascii_case(name))
    }

    /// Browsers send an origin and other programs do not. A page may connect when it was served from here, or is named.
    fn knows_origin(&self, headers: &HeaderMap) -> Option<bool> {
        let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
            return Some(true);
        }
        let own = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        Some(own.is_some() && own == text(headers, &header::HOST))
    }
}

/// Refuses a request in which a header that decides something appears twice.
pub(crate) fn check_single(headers: &HeaderMap) -> Result<(), Refusal> {
    match SINGLE.iter().any(|name| headers.get_all(name).iter().nth(1).is_some()) {
        true => Err(Refusal::Repeated),
        false => Ok(()),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn parameter<'a>(query: Option<&'a str>, name: &str) -> Result<Option<&'a str>, Refusal> {
    let pairs = query.unwrap_or_default().split('&');
    let named = pairs.filter_map(|pair| pair.split_once('='));
    one(named.filter(|(key, _)| *key == name).map(|(_, value)| value))
}

fn one<'a>(mut values: impl Iterator<Item = &'a str>) -> Result<Option<&'a str>, Refusal> {
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Refusal::Repeated),
    }
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
    use lodge_door::{Paired, Role};

    use super::*;

    fn map(headers: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        map
    }

    fn check(gate: &Gate, headers: &[(&str, &str)], query: Option<&str>, expected: Result<Role, Refusal>) {
        let seen = gate.admit(&map(headers), query).map(|admission| admission.role());
        assert_eq!(seen, expected, "{headers:?} {query:?}");
    }

    fn gate() -> Gate {
        Gate::new(
            Arc::new(Door::with_token("secret")),
            vec!["lodge.example:443".into()],
            vec!["https://page.example".into()],
            true,
        )
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:8081");
    const KEY: (&str, &str) = ("authorization", "Bearer secret");

    #[test]
    fn the_right_token_host_and_origin_are_wanted() {
        let gate = gate();
        let yes = Ok(Role::Owner);
        let no = Err(Refusal::NotPaired);
        check(&gate, &[HOST, KEY], None, yes);
        check(&gate, &[HOST], Some("tkn=secret"), yes);
        check(&gate, &[HOST], Some("a=b&tkn=secret"), yes);
        check(&gate, &[HOST], None, no);
        check(&gate, &[HOST], Some("tkn=secre"), no);
        check(&gate, &[HOST], Some("tkn="), no);
        check(&gate, &[HOST, ("authorization", "Basic secret")], None, no);
        for (host, expected) in [
            ("localhost:1", yes),
            ("[::1]:1", yes),
            ("192.0.2.7:1", yes),
            ("lodge.example", yes),
            ("evil.example", Err(Refusal::ForeignHost)),
            ("127.0.0.1.evil.example", Err(Refusal::ForeignHost)),
        ] {
            check(&gate, &[("host", host), KEY], None, expected);
        }
        check(&gate, &[KEY], None, Err(Refusal::ForeignHost));
        for (origin, expected) in [
            ("https://page.example", yes),
            ("http://127.0.0.1:8081", yes),
            ("http://127.0.0.1:9999", Err(Refusal::ForeignOrigin)),
            ("https://evil.example", Err(Refusal::ForeignOrigin)),
            ("null", Err(Refusal::ForeignOrigin)),
        ] {
            check(&gate, &[HOST, KEY, ("origin", origin)], None, expected);
        }
    }

    #[test]
    fn what_may_appear_once_is_refused_twice() {
        let gate = gate();
        for name in SINGLE {
            let twice = [
                HOST,
                KEY,
                (name.as_str(), "http://127.0.0.1:8081"),
                (name.as_str(), "x"),
            ];
            check(&gate, &twice, None, Err(Refusal::Repeated));
        }
        check(&gate, &[HOST], Some("tkn=secret&tkn=secret"), Err(Refusal::Repeated));
        check(&gate, &[HOST], Some("key=a&key=b"), Err(Refusal::Repeated));
    }

    fn pair(gate: &Gate, role: Role) -> Paired {
        let ticket = gate.door.ticket(role, None).unwrap();
        gate.door.pair(&ticket.text, None).unwrap()
    }

    #[test]
    fn a_browser_needs_cookie_key_and_origin() {
        let gate = gate();
        let phone = pair(&gate, Role::Approve);
        let cookie = format!("theme=dark; {}={}", gate.cookie_name(), phone.cookie);
        let twice = format!("{0}={1}; {0}={1}", gate.cookie_name(), phone.cookie);
        let key = format!("key={}", phone.key);
        let origin = ("origin", "http://127.0.0.1:8081");
        let no = Err(Refusal::NotPaired);
        check(
            &gate,
            &[HOST, origin, ("cookie", &cookie)],
            Some(&key),
            Ok(Role::Approve),
        );
        check(&gate, &[HOST, ("cookie", &cookie)], Some(&key), no);
        check(&gate, &[HOST, origin, ("cookie", &cookie)], None, no);
        check(&gate, &[HOST, origin, ("cookie", &cookie)], Some("key=wrong"), no);
        check(&gate, &[HOST, origin], Some(&key), no);
        check(
            &gate,
            &[HOST, origin, ("cookie", &twice)],
            Some(&key),
            Err(Refusal::Repeated),
        );
        let evil = ("origin", "https://evil.example");
        check(
            &gate,
            &[HOST, evil, ("cookie", &cookie)],
            Some(&key),
            Err(Refusal::ForeignOrigin),
        );
        let bearer = format!("Bearer {}.{}", phone.cookie, phone.key);
        check(&gate, &[HOST, ("authorization", &bearer)], None, Ok(Role::Approve));
        gate.door.revoke(&phone.device.id).unwrap();
        check(&gate, &[HOST, origin, ("cookie", &cookie)], Some(&key), no);
    }

    #[test]
    fn plain_requests_of_other_pages_are_refused() {
        let gate = gate();
        let phone = pair(&gate, Role::Full);
        let cookie = format!("{}={}", gate.cookie_name(), phone.cookie);
        let own = ("origin", "http://127.0.0.1:8081");
        let base = [HOST, ("cookie", cookie.as_str()), ("x-lodge-key", phone.key.as_str())];
        for (more, changes, expected) in [
            (None, false, Ok(())),
            (Some(("sec-fetch-site", "same-origin")), false, Ok(())),
            (
                Some(("sec-fetch-site", "cross-site")),
                false,
                Err(Refusal::ForeignOrigin),
            ),
            (
                Some(("sec-fetch-site", "same-site")),
                false,
                Err(Refusal::ForeignOrigin),
            ),
            (None, true, Err(Refusal::ForeignOrigin)),
            (Some(own), true, Ok(())),
            (
                Some(("origin", "http://127.0.0.1:3000")),
                true,
                Err(Refusal::ForeignOrigin),
            ),
        ] {
            let headers: Vec<_> = base.into_iter().chain(more).collect();
            let seen = gate.device(&map(&headers), changes).map(drop);
            assert_eq!(seen, expected, "{more:?} {changes}");
        }
    }
}
