//! A server of streamable HTTP that wants a token, and for its tools one that reaches further.

use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::older_form::{request, result};

/// Starts it; answers with its address.
pub(crate) async fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    format!("http://{address}/mcp")
}

async fn serve(socket: TcpStream) -> Option<()> {
    let mut socket = BufReader::new(socket);
    let (head, body) = request(&mut socket).await?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let refused = |status: &str, scope: &str| {
        format!(
            "HTTP/1.1 {status}\r\nWWW-Authenticate: Bearer {scope}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    };
    let answer = match (head.contains("authorization: bearer"), result(&message)) {
        _ if head.starts_with("get ") => {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
        }
        (false, _) => refused("401 Unauthorized", r#"scope="weave""#),
        (true, _) if message["method"] == "tools/call" => {
            refused("403 Forbidden", r#"error="insufficient_scope", scope="dye""#)
        }
        (true, Some(result)) => {
            let body = result.to_string();
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            )
        }
        (true, None) => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
    };
    socket.write_all(answer.as_bytes()).await.ok()
}
