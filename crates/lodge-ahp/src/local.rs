//! The socket of this machine: the same wire, for those that the kernel vouches for.

use axum::{Extension, Router};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use lodge_door::{LocalListener, Refused, turn_away};
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
