//! The socket of this machine: the same wire, for those that the kernel vouches for.

use axum::{Extension, Router};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use lodge_door::{LocalListener, Refused};
use tokio::{io::AsyncWriteExt, net::UnixStream};
use tokio_util::sync::CancellationToken;

/// Serves connections until told to stop.
pub(crate) async fn serve(mut listener: LocalListener, router: Router, stop: CancellationToken) {
    loop {
        let (stream, admitted) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match admitted {
            Ok(admission) => {
                let service = TowerToHyperService::new(router.clone().layer(Extension(admission)));
                tokio::spawn(async move {
                    let served = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades();
                    if let Err(error) = served.await {
                        tracing::debug!(%error, "a local connection broke");
                    }
                });
            }
            Err(why) => drop(tokio::spawn(refuse(stream, why))),
        }
    }
}

async fn refuse(mut stream: UnixStream, why: Refused) {
    let text = format!("{why}\n");
    let answer = format!(
        "HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}
