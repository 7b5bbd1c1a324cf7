//! The local port that the browser returns to after a sign-in.

use std::{io, net::Ipv4Addr, time::Duration};

use reqwest::Url;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::McpError;

/// The longest request that is read.
const REQUEST_BYTES: usize = 16 << 10;
/// How long a request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Connections at once.
const CONNECTIONS: usize = 16;

/// The port.
pub(crate) struct Loopback {
    listener: TcpListener,
    port: u16,
}

/// A browser that waits for a page.
pub(crate) struct Page(TcpStream);

impl Loopback {
    pub(crate) async fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Where the browser shall come back to.
    pub(crate) fn redirect(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    /// Waits until the browser comes back from an address: with what it brings, and to be shown a page. Whoever else comes,
    /// without the secret in that address, is sent away.
    pub(crate) async fn wait(self, from: &str) -> Result<(String, Page), McpError> {
        let state = Url::parse(from).ok().and_then(|url| parameter(&url, "state"));
        let (found, mut coming) = mpsc::channel(CONNECTIONS);
        let mut open = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if open.len() < CONNECTIONS => {
                    let Ok((stream, _)) = accepted else { continue };
                    let found = found.clone();
                    // Browsers open connections that they do not use yet.
                    open.spawn(async move {
                        if let Ok(Some(request)) = tokio::time::timeout(REQUEST_LIMIT, read(stream)).await {
                            let _ = found.send(request).await;
                        }
                    });
                }
                Some(_) = open.join_next() => {}
                Some((target, page)) = coming.recv() => {
                    let url = Url::parse(&self.redirect()).and_then(|base| base.join(&target));
                    let Ok(url) = url.map_err(drop) else { continue };
                    if url.path() != "/callback" || state.is_none() || parameter(&url, "state") != state {
                        page.answer("404 Not Found", "<p>There is nothing here.</p>").await;
                        continue;
                    }
                    let Some(error) = parameter(&url, "error") else {
                        return Ok((url.to_string(), page));
                    };
                    let said = parameter(&url, "error_description").unwrap_or(error);
                    page.show(Some(&said), None).await;
                    return Err(McpError::Failed(format!("The login was refused: {said}")));
                }
            }
        }
    }
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

/// The target of a request; nothing when it is not one.
async fn read(mut stream: TcpStream) -> Option<(String, Page)> {
    let mut head = Vec::new();
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if head.len() > REQUEST_BYTES || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    (method == "GET" && target.starts_with('/')).then(|| (target.to_owned(), Page(stream)))
}

impl Page {
    /// Tells the person how it ended.
    pub(crate) async fn show(self, error: Option<&str>, success: Option<&str>) {
        let (title, text) = match error {
            Some(error) => ("Not signed in", error),
            None => (
                "Signed in",
                success.unwrap_or("You can close this page and return to your client."),
            ),
        };
        let body = format!("<h1>{title}</h1><p>{}</p>", escaped(text));
        self.answer("200 OK", &body).await;
    }

    async fn answer(mut self, status: &str, body: &str) {
        let page = format!(
            "<!doctype html><meta charset=\"utf-8\"><title>Lodge</title>\
             <style>body{{font:16px system-ui;max-width:34em;margin:15vh auto;padding:0 1em}}</style>{body}"
        );
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{page}",
            page.len()
        );
        // Whether the browser still listens changes nothing.
        let _ = self.0.write_all(answer.as_bytes()).await;
        let _ = self.0.shutdown().await;
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
