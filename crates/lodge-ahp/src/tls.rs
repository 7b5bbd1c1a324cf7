//! TLS for whoever listens beyond loopback. Handshakes run beside the listener, so that nobody who dawdles keeps others
//! out.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::config::TlsFiles;

/// A handshake that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Handshakes at a time.
const AT_A_TIME: usize = 128;

/// What is wrong with a certificate or its key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("{file} cannot be used for TLS: {why}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// Certificate and key do not fit.
    #[error("the certificate and the key cannot be used together: {0}")]
    Pair(String),
}

/// Reads the files.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let bad = |file: &Path, why: &dyn std::fmt::Display| TlsError::File {
        file: file.display().to_string(),
        why: why.to_string(),
    };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| bad(&files.certificate, &error))?;
    if certificates.is_empty() {
        return Err(bad(&files.certificate, &"there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| bad(&files.key, &error))?;
    let pair = |error: rustls::Error| TlsError::Pair(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A listener that hands out connections whose handshake is done.
pub(crate) struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    pub(crate) fn new(listener: TcpListener, acceptor: TlsAcceptor, address: SocketAddr) -> Self {
        let (done, ready) = mpsc::channel(16);
        tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(AT_A_TIME));
            while let Ok(slot) = slots.clone().acquire_owned().await {
                let (stream, peer) = tokio::select! {
                    (stream, peer) = accept(&listener) => (stream, peer),
                    () = done.closed() => return,
                };
                let (acceptor, done) = (acceptor.clone(), done.clone());
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => drop(done.send((stream, peer)).await),
                        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                        Err(_) => tracing::debug!("a TLS handshake took too long"),
                    }
                    drop(slot);
                });
            }
        });
        Self { ready, address }
    }
}

/// The next connection. Running out of files is no reason to stop listening.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}
