//! Somebody at the servers who is no host.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
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
    // The servers do only for somebody who waits for an answer what the subject asks of them.
    write!(
        stream,
        "PUB {subject} _INBOX.nobody {}\r\n{text}\r\nPING\r\n",
        text.len()
    )
    .unwrap();
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

/// Counts all messages of the hosts' account.
pub(super) struct Listener {
    count: Arc<AtomicU64>,
    stream: TcpStream,
}

impl Listener {
    pub(super) fn start(cluster: &Cluster) -> Self {
        let mut stream = connect(cluster);
        write!(stream, "SUB > 1\r\nPING\r\n").unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        until_pong(&mut reader);
        let count = Arc::new(AtomicU64::new(0));
        let counted = count.clone();
        let mut pong = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                let words: Vec<&str> = line.split_whitespace().collect();
                match words.first() {
                    Some(&("MSG" | "HMSG")) => {
                        let length: usize = words.last().unwrap().parse().unwrap();
                        if reader.read_exact(&mut vec![0; length + 2]).is_err() {
                            return;
                        }
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    Some(&"PING") => drop(pong.write_all(b"PONG\r\n")),
                    _ => {}
                }
                line.clear();
            }
        });
        Self { count, stream }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The thread then reads the end.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}
