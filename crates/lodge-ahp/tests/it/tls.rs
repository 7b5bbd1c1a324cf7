//! Beyond loopback: only with TLS, and then it works.

use std::{process::Command, sync::Arc};

use futures_util::{SinkExt, StreamExt};
use lodge_ahp::{AhpConfig, Listen, TlsFiles};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::kit::{TOKEN, house};

#[tokio::test]
async fn a_public_address_is_served_with_tls_and_a_token() {
    let house = house().await;
    let files = TlsFiles {
        certificate: house.dir.path().join("cert.pem"),
        key: house.dir.path().join("key.pem"),
    };
    let config = |files: &TlsFiles| AhpConfig {
        listen: Listen::Tcp("0.0.0.0:0".parse().unwrap()),
        tls: Some(files.clone()),
        ..AhpConfig::loopback(TOKEN)
    };
    let missing = lodge_ahp::serve(house.host.clone(), config(&files))
        .await
        .err()
        .unwrap();
    assert!(
        missing.to_string().contains("cert.pem cannot be used for TLS"),
        "{missing}"
    );
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&files.key)
        .arg("-out")
        .arg(&files.certificate)
        .output();
    match made {
        Ok(output) if output.status.success() => {}
        _ => return eprintln!("skipped: no openssl to make a certificate with"),
    }
    let without_token = AhpConfig {
        door: std::sync::Arc::new(lodge_door::Door::unlocked()),
        ..config(&files)
    };
    let refused = lodge_ahp::serve(house.host.clone(), without_token).await.err().unwrap();
    assert!(refused.to_string().contains("needs a token"), "{refused}");

    // One home, one face: the files of the other are not touched while it runs.
    let other = tempfile::tempdir().unwrap();
    let home = lodge_host::Home::open(other.path(), lodge_host::HomeOptions::default()).unwrap();
    let models = lodge_models::Catalogue::from(lodge_models::ModelsConfig::default(), |_| None).unwrap();
    let host = lodge_host::Host::new(lodge_host::HostConfig {
        home,
        models,
        sandbox: None,
        idle_after: std::time::Duration::from_secs(600),
        version: "test".into(),
        clock: lodge_host::Clock::default(),
    })
    .unwrap();
    let server = lodge_ahp::serve(host, config(&files)).await.unwrap();
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
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    socket.send(Message::Text(ping.to_string().into())).await.unwrap();
    let Some(Ok(Message::Text(text))) = socket.next().await else {
        panic!("no answer")
    };
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({ "jsonrpc": "2.0", "id": 1, "result": null })
    );
    server.shutdown().await;
}

#[tokio::test]
async fn a_unix_socket_is_for_its_owner_and_wants_the_token_too() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let home = lodge_host::Home::open(dir.path().join("home"), lodge_host::HomeOptions::default()).unwrap();
    let models = lodge_models::Catalogue::from(lodge_models::ModelsConfig::default(), |_| None).unwrap();
    let host = lodge_host::Host::new(lodge_host::HostConfig {
        home,
        models,
        sandbox: None,
        idle_after: std::time::Duration::from_secs(600),
        version: "test".into(),
        clock: lodge_host::Clock::default(),
    })
    .unwrap();
    let path = dir.path().join("lodge.sock");
    // Left behind by a host that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let config = AhpConfig {
        listen: Listen::Unix(path.clone()),
        ..AhpConfig::loopback(TOKEN)
    };
    let server = lodge_ahp::serve(host, config).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let connect = async |query: &str| {
        let stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        tokio_tungstenite::client_async(format!("ws://lodge.sock/{query}"), stream).await
    };
    assert!(connect("").await.is_err());
    let (mut socket, _) = connect(&format!("?tkn={TOKEN}")).await.unwrap();
    let ping = json!({ "jsonrpc": "2.0", "id": "x", "method": "ping" });
    socket.send(Message::Text(ping.to_string().into())).await.unwrap();
    let Some(Ok(Message::Text(text))) = socket.next().await else {
        panic!("no answer")
    };
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["id"], "x");
    server.shutdown().await;
    assert!(!path.exists());
}
