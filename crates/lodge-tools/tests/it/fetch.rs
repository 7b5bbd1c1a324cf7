use std::sync::Arc;

use lodge_events::{PermissionRequest, PermissionResultKind};
use lodge_tools::rules::Decision;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::bench::Bench;

/// A server on loopback that answers by path; its address.
async fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let here = address.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let here = here.clone();
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let length = socket.read(&mut request).await.unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let path = request.split(' ').nth(1).unwrap_or("/").to_owned();
                let found = |kind: &str, body: &str| {
                    format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    )
                };
                let moved = |to: &str| {
                    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                };
                let answer = match path.as_str() {
                    "/page" => found(
                        "text/html; charset=utf-8",
                        "<html><head><title>T</title></head><body><h1>Hi</h1><p>grün &amp; so</p></body></html>",
                    ),
                    "/text" => found("text/plain", &"0123456789".repeat(10)),
                    "/json" => found("application/json", "{\"a\":1}"),
                    "/binary" => found("application/octet-stream", "x"),
                    "/moved" => moved("/json"),
                    "/to-secret" => moved("/secret/x"),
                    "/to-asked" => moved("/asked/x"),
                    "/secret/x" | "/asked/x" => found("text/plain", "nobody may see this"),
                    "/circle" => moved("/circle"),
                    "/away" => moved("http://elsewhere.invalid/x"),
                    "/port" => moved("http://127.0.0.1:9/x"),
                    "/file" => moved("file:///etc/passwd"),
                    "/host" => found("text/plain", &here),
                    "/cut" => {
                        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nhalf".to_owned()
                    }
                    "/slow" => return tokio::time::sleep(std::time::Duration::from_secs(60)).await,
                    _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
                };
                let _ = socket.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn pages_are_fetched_as_text() {
    let bench = Bench::new();
    let server = server().await;
    let truncated = |part: &str, next: usize| {
        format!(
            "{part}\n<note>Content truncated. Call web_fetch with a start_index of {next} to get more content.</note>"
        )
    };
    let table: Vec<(&str, Value, String)> = vec![
        (
            "/page",
            json!({}),
            "Contents of $S/page:\nT\n\n# Hi\n\ngrün & so".into(),
        ),
        (
            "/page",
            json!({"raw": true, "max_length": 6}),
            truncated("Contents of $S/page:\n<html>", 6),
        ),
        (
            "/text",
            json!({"max_length": 5, "start_index": 3}),
            truncated("Contents of $S/text:\n34567", 8),
        ),
        (
            "/text",
            json!({"start_index": 95}),
            "Contents of $S/text:\n56789".into(),
        ),
        (
            "/text",
            json!({"start_index": 500}),
            "Contents of $S/text:\n<note>There is no more content.</note>".into(),
        ),
        ("/json", json!({}), "Contents of $S/json:\n{\"a\":1}".into()),
        ("/moved", json!({}), "Contents of $S/json:\n{\"a\":1}".into()),
        (
            "/circle",
            json!({}),
            "ERROR: Failed to fetch $S/circle: too many redirects".into(),
        ),
        (
            "/away",
            json!({}),
            "ERROR: $S/away redirects to http://elsewhere.invalid/x. Call web_fetch with that URL to follow.".into(),
        ),
        (
            "/port",
            json!({}),
            "ERROR: $S/port redirects to http://127.0.0.1:9/x. Call web_fetch with that URL to follow.".into(),
        ),
        (
            "/file",
            json!({}),
            "ERROR: Failed to fetch $S/file: status code 302".into(),
        ),
        (
            "/binary",
            json!({}),
            "ERROR: $S/binary is not text (application/octet-stream)".into(),
        ),
        (
            "/missing",
            json!({}),
            "ERROR: Failed to fetch $S/missing: status code 404".into(),
        ),
    ];
    for (path, mut arguments, expected) in table {
        arguments["url"] = format!("{server}{path}").into();
        let text = bench.text("web_fetch", arguments.clone()).await.replace(&server, "$S");
        assert_eq!(text, expected, "{arguments}");
    }
    let cut = bench.text("web_fetch", json!({"url": format!("{server}/cut")})).await;
    assert!(cut.starts_with("ERROR: Failed to fetch "), "{cut}");
    for url in ["file:///etc/passwd", "ftp://x.org/", "data:text/plain,x"] {
        let text = bench.text("web_fetch", json!({"url": url})).await;
        assert_eq!(
            text,
            format!("ERROR: Invalid URL {url}: only http and https can be fetched.")
        );
    }
    let text = bench.text("web_fetch", json!({"url": "not one"})).await;
    assert_eq!(text, "ERROR: Invalid URL not one: relative URL without a base");
}

/// Rules are about paths as well: a redirect leads to none that a rule keeps back.
#[tokio::test]
async fn rules_are_asked_again_where_a_redirect_leads() {
    let server = server().await;
    let mut bench = Bench::new();
    bench.rules = Arc::new(|request| match request {
        PermissionRequest::Url(request) if request.url.contains("/secret/") => Decision::Deny {
            why: "denied by a rule".to_owned(),
            kind: PermissionResultKind::DeniedByRules,
            rule: None,
            path: None,
        },
        PermissionRequest::Url(request) if request.url.contains("/asked/") => Decision::AskByPolicy { why: None },
        _ => Decision::Ask { why: None },
    });
    for (path, expected) in [
        ("/moved", "Contents of $S/json:\n{\"a\":1}"),
        (
            "/to-secret",
            "ERROR: $S/to-secret redirects to $S/secret/x, which is not fetched: denied by a rule.",
        ),
        (
            "/to-asked",
            "ERROR: $S/to-asked redirects to $S/asked/x. Call web_fetch with that URL to follow.",
        ),
    ] {
        let arguments = json!({ "url": format!("{server}{path}") });
        let text = bench.text("web_fetch", arguments).await.replace(&server, "$S");
        assert_eq!(text, expected, "{path}");
    }
}

#[tokio::test]
async fn a_fetch_stops_with_its_turn() {
    let bench = Bench::new();
    let url = format!("{}/slow", server().await);
    let (text, ()) = tokio::join!(bench.text("web_fetch", json!({"url": url})), async {
        bench.cancel.cancel()
    });
    assert_eq!(
        text,
        "ERROR: The execution of this tool, or a previous tool was interrupted."
    );
}
