//! Connections to NATS servers: by which addresses, as whom, and over what.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use async_nats::{Auth, AuthError, Client, ConnectOptions, ServerAddr};
use nkeys::KeyPair;
use tokio::time::{Instant, sleep};

use crate::FleetError;

/// How the servers of a fleet are reached.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Addresses, with a user and a password in them where the servers want such.
    pub servers: Vec<String>,
    /// A file with a user's JWT and seed (`.creds`), or with the seed of an nkey alone. It is read again for each connection.
    pub credentials: Option<PathBuf>,
    /// The certificates of authorities that the servers' certificates come from, where the system does not know them.
    pub authorities: Option<PathBuf>,
    /// A certificate of this host and its key, where the servers want one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Access {
    /// By addresses alone.
    pub fn new(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            servers: servers.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Whether there is anything to connect to.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    fn options(&self) -> Result<ConnectOptions, FleetError> {
        let mut options = match &self.credentials {
            Some(path) => with_credentials(path)?,
            None => user(&self.servers),
        };
        if let Some(path) = &self.authorities {
            options = options.add_root_certificates(path.clone()).require_tls(true);
        }
        if let Some((certificate, key)) = &self.certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        Ok(options
            .name(concat!("lodge ", env!("CARGO_PKG_VERSION")))
            .connection_timeout(Duration::from_secs(5))
            // A connection over which nothing comes any more is left after two of these.
            .ping_interval(Duration::from_secs(2))
            .reconnect_delay_callback(|attempts| Duration::from_millis(100 * attempts.min(10) as u64)))
    }
}

/// Connects, as soon as one of the servers is there.
pub(crate) async fn connect(access: &Access, patience: Duration) -> Result<Client, FleetError> {
    let deadline = Instant::now() + patience;
    loop {
        match access.options()?.connect(&access.servers).await {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() >= deadline => {
                let servers: Vec<&str> = access
                    .servers
                    .iter()
                    .map(|server| without_credentials(server))
                    .collect();
                return Err(FleetError::Connect {
                    servers: servers.join(", "),
                    reason: error.to_string(),
                });
            }
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    }
}

/// Options with the credentials of a file. They are read whenever a connection is made: credentials expire, and new ones take their place.
fn with_credentials(path: &Path) -> Result<ConnectOptions, FleetError> {
    Credentials::read(path)?;
    let path = path.to_owned();
    Ok(ConnectOptions::with_auth_callback(move |nonce| {
        let read = Credentials::read(&path).map_err(AuthError::new);
        std::future::ready(read.and_then(|credentials| credentials.sign(&nonce)))
    }))
}

struct Credentials {
    jwt: Option<String>,
    key: KeyPair,
}

impl Credentials {
    fn read(path: &Path) -> Result<Self, FleetError> {
        let bad = |reason: String| FleetError::Credentials {
            path: path.to_owned(),
            reason,
        };
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let mut lines = text.lines().map(str::trim);
        let jwt = lines.by_ref().find(|line| line.contains("BEGIN NATS USER JWT"));
        let jwt = jwt.and_then(|_| lines.next()).map(str::to_owned);
        let seed = text.lines().map(str::trim).find(|line| line.starts_with("SU"));
        let seed = seed.ok_or_else(|| bad("it contains neither a JWT with its seed nor a user's seed".into()))?;
        let key = KeyPair::from_seed(seed).map_err(|error| bad(error.to_string()))?;
        Ok(Self { jwt, key })
    }

    /// What shows a server that this is the user.
    fn sign(&self, nonce: &[u8]) -> Result<Auth, AuthError> {
        let mut auth = Auth::new();
        auth.jwt.clone_from(&self.jwt);
        auth.nkey = Some(self.key.public_key());
        auth.signature = Some(self.key.sign(nonce).map_err(AuthError::new)?);
        Ok(auth)
    }
}

/// Options with the name and password of the first address that has some.
fn user(servers: &[String]) -> ConnectOptions {
    let options = ConnectOptions::new();
    let address = servers.iter().filter_map(|server| server.parse::<ServerAddr>().ok());
    let Some(address) = address.into_iter().find(ServerAddr::has_user_pass) else {
        return options;
    };
    let user = percent_decoded(address.username().unwrap_or_default());
    match address.password() {
        Some(password) => options.user_and_password(user, percent_decoded(password)),
        None => options.token(user),
    }
}

fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn without_credentials(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_may_hold_anything() {
        for (text, plain) in [
            ("", ""),
            ("a%40b", "a@b"),
            ("%c3%bc%", "ü%"),
            ("50%", "50%"),
            ("%zz", "%zz"),
        ] {
            assert_eq!(percent_decoded(text), plain);
        }
    }
}
