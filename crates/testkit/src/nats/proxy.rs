//! A way between two programs that can be cut, as a network is: bytes stop, connections stay.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

/// Carries connections to one address. It ends with the value.
pub struct Proxy {
    address: SocketAddr,
    open: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// A way to a port of this machine.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (open, watched) = watch::channel(true);
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, port, watched.clone()));
            }
        });
        Self {
            address,
            open,
            accepting,
        }
    }

    /// Where to connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Stops all bytes, in both directions, of connections that exist and of new ones. Nobody is told.
    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Lets them pass again: what was sent meanwhile comes first.
    pub fn heal(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(near: TcpStream, port: u16, mut open: watch::Receiver<bool>) {
    if open.wait_for(|open| *open).await.is_err() {
        return;
    }
    let far = tokio::time::timeout(Duration::from_secs(5), TcpStream::connect(("127.0.0.1", port)));
    let Ok(Ok(far)) = far.await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let there = one_way(near_in, far_out, open.clone());
    let back = one_way(far_in, near_out, open);
    // Whichever side ends, both are closed.
    tokio::select! { () = there => {}, () = back => {} }
}

async fn one_way(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
