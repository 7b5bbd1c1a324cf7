//! TLS for addresses beyond loopback.

use std::{path::Path, sync::Arc};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::TlsAcceptor;

use crate::TlsFiles;

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
