//! A server that speaks HTTP with server-sent events and nothing newer.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::{Mutex, mpsc},
};

type Stream = Arc<Mutex<Option<mpsc::UnboundedSender<String>>>>;

/// Starts it; answers with the address of its stream of events.
pub(crate) async fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let stream = Stream::default();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, stream.clone()));
        }
    });
    format!("http://{address}/sse")
}

/// The head of a request, in lower case, and its body.
pub(crate) async fn request(socket: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).await.ok()?;
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line.to_lowercase());
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

async fn serve(socket: TcpStream, stream: Stream) -> Option<()> {
    let mut socket = BufReader::new(socket);
    let (head, body) = request(&mut socket).await?;
    let mut answer = async |text: &str| socket.write_all(text.as_bytes()).await.ok();
    if head.starts_with("get /sse") {
        let (send, mut events) = mpsc::unbounded_channel();
        *stream.lock().await = Some(send);
        answer("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n").await?;
        answer("event: endpoint\ndata: /messages\n\n").await?;
        while let Some(event) = events.recv().await {
            answer(&format!("event: message\ndata: {event}\n\n")).await?;
        }
    } else if head.starts_with("post /messages") {
        let message: Value = serde_json::from_slice(&body).ok()?;
        if let (Some(answer), Some(stream)) = (result(&message), &*stream.lock().await) {
            stream.send(answer.to_string()).ok()?;
        }
        answer("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await?;
    } else {
        answer("HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await?;
    }
    Some(())
}

pub(crate) fn result(message: &Value) -> Option<Value> {
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        _ => json!({}),
    };
    Some(json!({"jsonrpc": "2.0", "id": message.get("id")?, "result": result}))
}
