//! The routes of the port: the upgrade to WebSocket, pairing of browsers, health and metrics, and the files of the page.

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use lodge_door::Admission;
use lodge_host::Host;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    Pages, SocketFace,
    gate::{Gate, Refusal, check_single},
    health, pairing,
    upgrade::Upgrade,
};

/// What requests are answered with.
pub(crate) struct Doorway {
    pub(crate) face: Box<dyn SocketFace>,
    pub(crate) host: Host,
    pub(crate) gate: Gate,
    pub(crate) pages: Option<Pages>,
    /// Whether browsers come by TLS.
    pub(crate) secure: bool,
    /// Whether only this machine reaches the port.
    pub(crate) on_loopback: bool,
    pub(crate) stop: CancellationToken,
}

/// All that is served. Connections of the local socket bring their [`Admission`] as an extension.
pub(crate) fn router(doorway: Doorway) -> Router {
    Router::new()
        .route("/", get(upgrade))
        .route("/pair", post(pairing::pair).get(page))
        .route("/unpair", post(pairing::unpair))
        .route("/device", get(pairing::device))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .fallback(get(upgrade))
        .with_state(Arc::new(doorway))
}

async fn upgrade(
    State(doorway): State<Arc<Doorway>>,
    local: Option<Extension<Admission>>,
    upgrade: Result<Upgrade, StatusCode>,
    request: Request,
) -> Response {
    let (headers, uri) = (request.headers(), request.uri());
    if !headers.contains_key(header::UPGRADE) && doorway.pages.is_some() {
        return page(State(doorway), request).await;
    }
    let admitted = match local {
        Some(Extension(admission)) => check_single(headers).map(|()| admission),
        None => doorway.gate.admit(headers, uri.query()),
    };
    let admission = match admitted {
        Ok(admission) => admission,
        Err(Refusal::Repeated) => return StatusCode::BAD_REQUEST.into_response(),
        Err(_) => return StatusCode::FORBIDDEN.into_response(),
    };
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(status) => return status.into_response(),
    };
    let limit = doorway.face.message_bytes(&admission);
    upgrade.accept(limit, move |socket| async move {
        doorway.face.serve(socket, admission).await
    })
}

/// A file of the page, for everybody who names this host rightly.
async fn page(State(doorway): State<Arc<Doorway>>, request: Request) -> Response {
    let (headers, uri) = (request.headers(), request.uri());
    if let Err(refusal) = doorway.gate.check_place(headers) {
        return refused(refusal);
    }
    match &doorway.pages {
        Some(Pages(serve)) => serve(request.method(), uri, headers),
        None => StatusCode::UPGRADE_REQUIRED.into_response(),
    }
}

/// An error, for programs and for people.
#[derive(Serialize)]
struct Problem<'a> {
    error: &'a str,
    message: &'a str,
}

pub(crate) fn refused(refusal: Refusal) -> Response {
    let (status, code) = match refusal {
        Refusal::Repeated => (StatusCode::BAD_REQUEST, "bad-request"),
        Refusal::ForeignHost => (StatusCode::FORBIDDEN, "foreign-host"),
        Refusal::ForeignOrigin => (StatusCode::FORBIDDEN, "foreign-origin"),
        Refusal::NotPaired => (StatusCode::UNAUTHORIZED, "not-paired"),
    };
    problem(status, code, &refusal.to_string())
}

pub(crate) fn problem(status: StatusCode, error: &str, message: &str) -> Response {
    json_answer(status, &Problem { error, message })
}

pub(crate) fn json_answer(status: StatusCode, body: &impl Serialize) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    match serde_json::to_vec(body) {
        Ok(body) => (status, headers, body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
