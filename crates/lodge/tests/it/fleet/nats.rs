//! Somebody at the servers who is no host.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

use serde_json::json;
use testkit::nats::Cluster;

fn connect(cluster: &Cluster) -> TcpStream {
    let url = &cluster.urls()[0];
    let (_, port) = url.rsplit_once(':').expect("an address has a port");
    let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    let hello = json!({ "user": "lodge", "pass": "lodge", "verbose": false, "pedantic": false, "headers": true });
    write!(stream, "CONNECT {hello}\r\n").unwrap();
    stream
}

/// Says something on a subject, whatever a host would say there.
pub(super) fn publish(cluster: &Cluster, subject: &str, text: &str) {
    let mut stream = connect(cluster);
    write!(stream, "PUB {subject} {}\r\n{text}\r\nPING\r\n", text.len()).unwrap();
    until_pong(&mut BufReader::new(stream));
}

fn until_pong(reader: &mut BufReader<TcpStream>) {
    let mut line = String::new();
    while line != "PONG\r\n" {
        line.clear();
        assert!(
            reader.read_line(&mut line).unwrap() > 0,
            "the server closed the connection"
        );
        assert!(!line.starts_with("-ERR"), "{line}");
    }
}
