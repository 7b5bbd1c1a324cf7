//! Hosts on other machines: over ssh, or over TLS with a pinned key. Clients need to know nothing about it: they connect to a
//! local socket that leads there.

mod bridge;
mod forward;
mod hosts;
mod pin;
mod ssh;
mod tls;

use std::{
    net::{IpAddr, UdpSocket},
    path::Path,
};

use anyhow::{Result, bail};

pub(crate) use self::{
    bridge::bridge,
    forward::Forward,
    hosts::{HostsCommand, hosts, names, pages},
    tls::{TlsCommand, own_files, tls},
};
use self::{
    forward::Route,
    hosts::Known,
    ssh::{Asking, SshTarget},
};
use crate::cli::AttachArgs;

/// Finds the host for `lodge attach`, and opens the forward to it. It stays open as long as the returned value exists.
pub(crate) async fn open(home: &Path, args: &mut AttachArgs) -> Result<Option<Forward>> {
    // An address names a host, even in the place of a session.
    if args.session.as_ref().is_some_and(|session| session.contains("://")) {
        if args.url.is_some() {
            bail!("The host is named twice: by --url (or LODGE_URL) and after `attach`.");
        }
        args.url = args.session.take();
    }
    let Some(url) = args.url.clone() else {
        return Ok(None);
    };
    let (known, name) = match url.contains(':') {
        true => (Known::new(url), None),
        false => (hosts::find(home, &url)?, Some(url)),
    };
    // The part after the question mark may be a token.
    let shown = known.url.split('?').next().unwrap_or_default();
    args.host = Some(name.unwrap_or_else(|| shown.to_owned()));
    let reached = go(known, Asking::Allowed).await?;
    args.url = Some(reached.url);
    args.token = args.token.take().or(reached.token);
    Ok(reached.way)
}

/// A host that can be reached from this machine.
pub(crate) struct Reached {
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    /// Open as long as it exists.
    pub(crate) way: Option<Forward>,
}

/// Opens the forward to a named host, without asking for a password.
pub(crate) async fn reach(home: &Path, name: &str) -> Result<Reached> {
    go(hosts::find(home, name)?, Asking::Never).await
}

async fn go(known: Known, asking: Asking) -> Result<Reached> {
    let route = match (known.url.strip_prefix("ssh://"), known.pin) {
        (Some(target), _) => Some(Route::Ssh(SshTarget::parse(target)?, asking)),
        (None, Some(pin)) => Some(Route::Tls(pin::Target::parse(&known.url, pin)?)),
        (None, None) => None,
    };
    let way = match route {
        Some(route) => Some(Forward::open(route).await?),
        None => None,
    };
    let socket = way.as_ref().map(|way| format!("unix:{}", way.socket().display()));
    Ok(Reached {
        url: socket.unwrap_or(known.url),
        token: known.token,
        way,
    })
}

/// This machine's address as seen by others. Nothing is sent to find it.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|own| !own.is_loopback() && !own.is_unspecified())
}
