//! TLS to a host with a pinned key: no authority is asked, and no other key is accepted.

use std::{fmt, str::FromStr, sync::Arc};

use anyhow::{Context, Result, ensure};
use rustls::{
    CertificateError, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::forward::Way;

/// The SHA-256 of a public key. A certificate renewed with the same key has the same pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pin([u8; 32]);

impl Pin {
    /// The pin of a certificate's key.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<Self, rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let sum = ring::digest::digest(&ring::digest::SHA256, &parsed.subject_public_key_info());
        let sum: [u8; 32] = sum.as_ref().try_into().expect("SHA-256 has 32 bytes");
        Ok(Self(sum))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a pin is sha256: followed by 64 hexadecimal digits".to_owned();
        let digits = text.strip_prefix("sha256:").ok_or_else(wrong)?;
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        let mut sum = [0; 32];
        for (byte, at) in sum.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(sum))
    }
}

/// A host reached by TLS.
#[derive(Debug, Clone)]
pub(super) struct Target {
    machine: String,
    port: u16,
    pin: Pin,
}

impl Target {
    pub(super) fn parse(url: &str, pin: Pin) -> Result<Self> {
        let place = url.strip_prefix("wss://");
        let place = place.with_context(|| format!("{url} has a pin, so it must begin with wss://"))?;
        let place = place.split(['/', '?', '#']).next().unwrap_or_default();
        let (machine, port) = match place.rsplit_once(':') {
            Some((machine, port)) if !port.contains(']') => {
                let port = port.parse().with_context(|| format!("{url} has an invalid port"))?;
                (machine, port)
            }
            _ => (place, 443),
        };
        ensure!(!machine.is_empty(), "{url} names no machine");
        Ok(Self {
            machine: machine.trim_matches(['[', ']']).to_owned(),
            port,
            pin,
        })
    }

    pub(super) async fn connect(&self) -> Result<Way> {
        let place = || format!("{}:{}", self.machine, self.port);
        let stream = TcpStream::connect((self.machine.as_str(), self.port))
            .await
            .with_context(|| format!("No host answers at {}", place()))?;
        let _ = stream.set_nodelay(true);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Pinned {
            pin: self.pin,
            provider: provider.clone(),
        };
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(self.machine.clone())
            .with_context(|| format!("{} is not a valid name", self.machine))?;
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        let stream = connected.with_context(|| {
            format!(
                "The host at {} is not trusted. If its key was changed on purpose, remove the host and add it again",
                place()
            )
        })?;
        let (from_host, to_host) = tokio::io::split(stream);
        Ok(Way {
            from_host: Box::new(from_host),
            to_host: Box::new(to_host),
            carrier: None,
        })
    }
}

#[derive(Debug)]
struct Pinned {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match Pin::of(certificate)? == self.pin {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    // This proves that the host has the pinned key.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_as_it_is_written() {
        let text = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(text.parse::<Pin>().unwrap().to_string(), text);
        for wrong in [
            "",
            "sha256:",
            "sha1:00",
            &text[..70],
            &format!("{text}0"),
            &text.replace('a', "g"),
        ] {
            assert!(wrong.parse::<Pin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_by_tls_has_a_machine_and_a_port() {
        let pin: Pin = format!("sha256:{}", "00".repeat(32)).parse().unwrap();
        for (url, machine, port) in [
            ("wss://lodge.example", "lodge.example", 443),
            ("wss://192.0.2.7:8764/?x", "192.0.2.7", 8764),
            ("wss://[::1]:1/", "::1", 1),
        ] {
            let found = Target::parse(url, pin).unwrap();
            assert_eq!((found.machine.as_str(), found.port), (machine, port), "{url}");
        }
        for wrong in ["ws://a", "wss://", "wss://a:x"] {
            assert!(Target::parse(wrong, pin).is_err(), "{wrong}");
        }
    }
}
