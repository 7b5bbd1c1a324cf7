//! The local socket: the same wire, for processes that the kernel identifies.

use std::sync::Arc;

use axum::{Extension, Router};
use lodge_door::{LocalListener, Refused, turn_away};
use lodge_host::Connections;
use tokio_util::sync::CancellationToken;

use crate::listener::speak_http;

/// Serves connections until told to stop.
pub(crate) async fn serve(
    mut listener: LocalListener,
    router: Router,
    connections: Connections,
    stop: CancellationToken,
) {
    loop {
        let (stream, admitted) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match admitted {
            Ok(admission) => {
                let slot = Arc::new(connections.admit(None));
                let router = router.clone().layer(Extension(admission));
                tokio::spawn(speak_http(stream, router, slot));
            }
            Err(why) => drop(tokio::spawn(async move {
                turn_away(stream, refusal(why).as_bytes()).await;
            })),
        }
    }
}

fn refusal(why: Refused) -> String {
    let text = format!("{why}\n");
    format!(
        "HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    )
}
