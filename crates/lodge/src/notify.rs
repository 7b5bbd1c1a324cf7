//! Reports the host's state to the service manager, as `sd_notify` does.

use std::{env, ffi::OsStr, io};

/// The variable that names the manager's socket. Programs that agents start must not get it, so that they cannot speak
/// for the host.
pub(crate) const VARIABLE: &str = "NOTIFY_SOCKET";

/// The host can be reached.
pub(crate) fn ready() {
    tell(&format!("READY=1\nMAINPID={}\nSTATUS=Ready", std::process::id()));
}

/// The host is about to end.
pub(crate) fn stopping() {
    tell("STOPPING=1\nSTATUS=Ending running turns");
}

fn tell(message: &str) {
    let Some(socket) = env::var_os(VARIABLE).filter(|socket| !socket.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, message) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

#[cfg(target_os = "linux")]
fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    use std::os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    };
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(message.as_bytes(), &address)
        .map(drop)
}

#[cfg(not(target_os = "linux"))]
fn send(_: &OsStr, _: &str) -> io::Result<()> {
    Ok(())
}
