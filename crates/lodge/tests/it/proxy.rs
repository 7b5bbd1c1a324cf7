//! Models behind a proxy that the environment names.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use testkit::Home;

const ANSWER: &str = concat!(
    r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"#,
    r#""delta":{"role":"assistant","content":"through the proxy"},"finish_reason":"stop"}]}"#,
    "\n\ndata: [DONE]\n\n",
);

/// A proxy that answers what it is asked to fetch by itself and lets nobody through to anywhere. Gives its address and the
/// first lines of the requests.
fn proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let kept = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut length) = (String::new(), 0);
            reader.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(said) = line.to_lowercase().strip_prefix("content-length:") {
                    length = said.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            let (status, kind, body) = match first.split(' ').next() {
                Some("CONNECT") => ("403 Forbidden", "text/plain", "no"),
                Some("GET") => ("200 OK", "application/json", r#"{"data":[{"id":"m"}]}"#),
                _ => ("200 OK", "text/event-stream", ANSWER),
            };
            kept.lock().unwrap().push(first.trim().to_owned());
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    (address, seen)
}

#[test]
fn models_are_reached_through_the_proxy_that_the_environment_names() {
    for (base, variable, expected, works) in [
        (
            "http://models.example/v1",
            "HTTP_PROXY",
            "POST http://models.example/v1/chat/completions HTTP/1.1",
            true,
        ),
        (
            "https://models.example/v1",
            "HTTPS_PROXY",
            "CONNECT models.example:443 HTTP/1.1",
            false,
        ),
    ] {
        let (home, (address, seen)) = (Home::new(), proxy());
        let mut command = home.command(["run", "hello"]);
        command
            .env("LODGE_PROVIDER_BASE_URL", base)
            .env("LODGE_MODEL", "m")
            .env(variable, &address)
            .env(variable.to_lowercase(), &address);
        for name in ["NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(name);
        }
        let done = testkit::Running::start(&mut command).finish();
        assert_eq!(done.stdout().contains("through the proxy"), works, "{done:#?}");
        let seen = seen.lock().unwrap();
        assert!(seen.iter().any(|line| line == expected), "{seen:?}, {done:#?}");
    }
}
