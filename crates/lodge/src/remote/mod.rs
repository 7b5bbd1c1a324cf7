//! Hosts on other machines: by ssh, or by TLS with a certificate that is known by its key. Clients know nothing of it: they
//! connect to a socket of this machine, and what comes there is carried over.

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
    hosts::{HostsCommand, hosts},
    tls::{TlsCommand, own_files, tls},
};
use self::{forward::Route, hosts::Known, ssh::SshTarget};
use crate::cli::AttachArgs;

/// Finds out where `lodge attach` is to go, and opens the way there. The way is open as long as what is returned is kept.
pub(crate) async fn open(home: &Path, args: &mut AttachArgs) -> Result<Option<Forward>> {
    // An address is where the host is, also where a session could be named.
    if args.session.as_ref().is_some_and(|session| session.contains("://")) {
        if args.url.is_some() {
            bail!("The host is named twice: by --url (or LODGE_URL) and after `attach`.");
        }
        args.url = args.session.take();
    }
    let Some(url) = args.url.clone() else {
        return Ok(None);
    };
    let known = match url.contains(':') {
        true => Known::new(url),
        false => hosts::find(home, &url)?,
    };
    args.token = args.token.take().or(known.token);
    let route = match known.url.strip_prefix("ssh://") {
        Some(target) => Route::Ssh(SshTarget::parse(target)?),
        None => match known.pin {
            Some(pin) => Route::Tls(pin::Target::parse(&known.url, pin)?),
            None => {
                args.url = Some(known.url);
                return Ok(None);
            }
        },
    };
    let forward = Forward::open(route).await?;
    args.url = Some(format!("unix:{}", forward.socket().display()));
    Ok(Some(forward))
}

/// The address from which this machine would reach others. Nothing is sent to find out.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|own| !own.is_loopback() && !own.is_unspecified())
}
