//! Monitoring endpoints: whether the host is alive, whether it is ready, and its metrics.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use lodge_door::Admission;

use crate::{
    metrics,
    routes::{Doorway, refused},
};

/// The host runs: it answers.
pub(crate) async fn healthz(State(doorway): State<Arc<Doorway>>, request: Request) -> Response {
    match doorway.gate.check_place(request.headers()) {
        Ok(()) => plain(StatusCode::OK, "ok\n"),
        Err(refusal) => refused(refusal),
    }
}

/// The host can take messages: it is not about to stop, and its home can be written.
pub(crate) async fn readyz(State(doorway): State<Arc<Doorway>>, request: Request) -> Response {
    if let Err(refusal) = doorway.gate.check_place(request.headers()) {
        return refused(refusal);
    }
    if doorway.stop.is_cancelled() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the host is stopping\n");
    }
    match doorway.host.check_writable().await {
        Ok(()) => plain(StatusCode::OK, "ready\n"),
        Err(error) => {
            tracing::warn!(%error, "the home cannot be written");
            plain(StatusCode::SERVICE_UNAVAILABLE, "the home cannot be written\n")
        }
    }
}

/// The numbers: for everybody where only this machine reaches the port, otherwise for those with a credential.
pub(crate) async fn metrics(
    State(doorway): State<Arc<Doorway>>,
    local: Option<Extension<Admission>>,
    request: Request,
) -> Response {
    let (headers, query) = (request.headers(), request.uri().query());
    let allowed = match local.is_some() || doorway.on_loopback {
        true => doorway.gate.check_place(headers),
        false => doorway.gate.admit(headers, query).map(drop),
    };
    if let Err(refusal) = allowed {
        return refused(refusal);
    }
    let host = &doorway.host;
    let text = metrics::render(host, host.home_use().await);
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (StatusCode::OK, kind, text).into_response()
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], text).into_response()
}
