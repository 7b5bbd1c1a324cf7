//! Where the port listens, and who gets as far as the face.

use std::{path::Path, pin::Pin, process::Command, sync::Arc};

use futures_util::{SinkExt, StreamExt};
use lodge_door::{Admission, Door};
use lodge_http::{HttpConfig, Listen, ServeError, Server, Socket, SocketFace, TlsFiles};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::host;

const TOKEN: &str = "open-sesame";

/// Says who the client is, and then what the client says.
struct Echo;

impl SocketFace for Echo {
    fn message_bytes(&self, _: &Admission) -> usize {
        1 << 10
    }

    fn serve(&self, mut socket: Socket, admission: Admission) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let who = Message::text(admission.identity.to_string());
            let mut said = socket.send(who).await.is_ok();
            while said && let Some(Ok(message)) = socket.next().await {
                said = socket.send(message).await.is_ok();
            }
        })
    }
}

async fn serve(home: &Path, door: Door, change: impl FnOnce(&mut HttpConfig)) -> Result<Server, ServeError> {
    let mut config = HttpConfig::loopback(Arc::new(door));
    change(&mut config);
    lodge_http::serve(host(home), config, Echo).await
}

/// The face answers, and knows that the owner is there.
async fn talks(socket: &mut WebSocketStream<impl AsyncRead + AsyncWrite + Unpin>) {
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("owner"));
    socket.send(Message::text("hello")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("hello"));
}

#[tokio::test]
async fn a_public_address_is_served_with_tls_and_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let home = |name: &str| dir.path().join(name);
    let files = TlsFiles {
        certificate: dir.path().join("cert.pem"),
        key: dir.path().join("key.pem"),
    };
    let public = |config: &mut HttpConfig| config.listen = Listen::Tcp("0.0.0.0:0".parse().unwrap());
    let secure = |config: &mut HttpConfig| {
        public(config);
        config.tls = Some(files.clone());
    };
    let plain = serve(&home("plain"), Door::with_token(TOKEN), public).await;
    assert!(matches!(plain, Err(ServeError::Exposed(_))));
    let missing = serve(&home("missing"), Door::with_token(TOKEN), secure).await;
    let missing = missing.err().unwrap().to_string();
    assert!(missing.contains("cert.pem cannot be used for TLS"), "{missing}");
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&files.key)
        .arg("-out")
        .arg(&files.certificate)
        .output();
    match made {
        Ok(output) if output.status.success() => {}
        _ => return testkit::skip("there is no openssl to make a certificate with"),
    }
    let open = serve(&home("open"), Door::unlocked(), secure).await;
    assert!(matches!(open, Err(ServeError::Exposed(_))));
    let server = serve(&home("served"), Door::with_token(TOKEN), secure).await.unwrap();
    let port = server.local_addr().unwrap().port();

    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&files.certificate).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // Hundreds who say nothing do not keep others out.
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.push(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
        .unwrap();
    let url = format!("wss://localhost:{port}/?tkn={TOKEN}");
    let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    talks(&mut socket).await;
    server.shutdown().await;
}

#[tokio::test]
async fn a_unix_socket_is_for_its_owner_and_wants_the_token_too() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lodge.sock");
    // Left behind by a host that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (home, listen) = (dir.path().join("home"), Listen::Unix(path.clone()));
    let server = serve(&home, Door::with_token(TOKEN), |config| config.listen = listen);
    let server = server.await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let connect = async |query: &str| {
        let stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        tokio_tungstenite::client_async(format!("ws://lodge.sock/{query}"), stream).await
    };
    assert!(connect("").await.is_err());
    let (mut socket, _) = connect(&format!("?tkn={TOKEN}")).await.unwrap();
    talks(&mut socket).await;
    server.shutdown().await;
    assert!(!path.exists());
}
