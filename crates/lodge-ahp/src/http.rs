//! What is served over HTTP on the port of the WebSocket: the upgrade, pairing of browsers, the host's
//! health, and the files of a page.

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::{self, Body},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use lodge_door::{Admission, PairError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    auth::{Gate, Refusal},
    connection,
    face::Face,
    health,
    upgrade::Upgrade,
};

/// What a request to pair may be as long as.
const LONGEST_BODY: usize = 4 << 10;
/// Browsers keep no cookie for longer.
const COOKIE_LIFE: u32 = 400 * 24 * 60 * 60;

/// Serves files to browsers: GET and HEAD requests that nothing else here answers. Anybody may see what it serves.
#[derive(Clone)]
pub struct Pages(Arc<Serve>);

type Serve = dyn Fn(&Method, &Uri, &HeaderMap) -> Response + Send + Sync;

impl Pages {
    /// From what answers a request. It must not wait for anything.
    pub fn new(serve: impl Fn(&Method, &Uri, &HeaderMap) -> Response + Send + Sync + 'static) -> Self {
        Self(Arc::new(serve))
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pages")
    }
}

/// What requests are answered with.
pub(crate) struct Doorway {
    pub(crate) face: Arc<Face>,
    pub(crate) gate: Gate,
    /// Whether browsers come by TLS.
    pub(crate) secure: bool,
    /// Whether only this machine reaches the port.
    pub(crate) on_loopback: bool,
}

/// All that is served. Connections of the local socket bring their [`Admission`] as an extension.
pub(crate) fn router(doorway: Arc<Doorway>) -> Router {
    Router::new()
        .route("/", get(upgrade))
        .route("/pair", post(pair).get(page))
        .route("/unpair", post(unpair))
        .route("/device", get(device))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .fallback(get(upgrade))
        .with_state(doorway)
}

async fn upgrade(
    State(doorway): State<Arc<Doorway>>,
    local: Option<Extension<Admission>>,
    upgrade: Result<Upgrade, StatusCode>,
    request: Request,
) -> Response {
    let (headers, uri) = (request.headers(), request.uri());
    if !headers.contains_key(header::UPGRADE) && doorway.face.config.pages.is_some() {
        return page(State(doorway), request).await;
    }
    let admitted = match local {
        Some(Extension(admission)) => crate::auth::check_single(headers).map(|()| admission),
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
    let limits = &doorway.face.config.limits;
    let limit = match admission.check(lodge_door::Role::Full) {
        Ok(()) => limits.writers_frame_bytes(),
        Err(_) => limits.frame_bytes,
    };
    let face = doorway.face.clone();
    upgrade.accept(limit, move |socket| connection::run(face, socket, admission))
}

/// A file of the page, for everybody who names this host rightly.
async fn page(State(doorway): State<Arc<Doorway>>, request: Request) -> Response {
    let (headers, uri) = (request.headers(), request.uri());
    if let Err(refusal) = doorway.gate.check_place(headers) {
        return refused(refusal);
    }
    match &doorway.face.config.pages {
        Some(Pages(serve)) => serve(request.method(), uri, headers),
        None => StatusCode::UPGRADE_REQUIRED.into_response(),
    }
}

#[derive(Deserialize)]
struct Pair {
    ticket: String,
    #[serde(default)]
    name: Option<String>,
}

async fn pair(State(doorway): State<Arc<Doorway>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(refusal) = doorway.gate.check_place(&parts.headers) {
        return refused(refusal);
    }
    let wanted = match read_pair(&parts.headers, body).await {
        Ok(wanted) => wanted,
        Err(answer) => return answer,
    };
    let paired = match doorway.gate.door.pair_beside(wanted.ticket, wanted.name).await {
        Ok(paired) => paired,
        Err(error) => return not_paired(&error),
    };
    let mut answer = json_answer(StatusCode::OK, &json!({ "key": paired.key, "device": paired.device }));
    set_cookie(&doorway, &mut answer, &paired.cookie, COOKIE_LIFE);
    answer
}

async fn read_pair(headers: &HeaderMap, body: Body) -> Result<Pair, Response> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    // Forms of other pages are sent without being asked for; JSON is not.
    if !kind.eq_ignore_ascii_case("application/json") {
        let text = "the body must be JSON, with Content-Type: application/json";
        return Err(problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad-request", text));
    }
    let Ok(body) = body::to_bytes(body, LONGEST_BODY).await else {
        let text = "the body is longer than 4 KiB";
        return Err(problem(StatusCode::PAYLOAD_TOO_LARGE, "too-large", text));
    };
    serde_json::from_slice(&body).map_err(|error| {
        let text = format!("the body cannot be read: {error}");
        problem(StatusCode::BAD_REQUEST, "bad-request", &text)
    })
}

fn not_paired(error: &PairError) -> Response {
    let text = error.to_string();
    match error {
        PairError::Ticket => problem(StatusCode::FORBIDDEN, "ticket", &text),
        PairError::TooManyWrong => {
            let mut answer = problem(StatusCode::TOO_MANY_REQUESTS, "too-many", &text);
            answer
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
            answer
        }
        PairError::Name => problem(StatusCode::BAD_REQUEST, "bad-request", &text),
        PairError::TooManyDevices => problem(StatusCode::CONFLICT, "too-many-devices", &text),
        PairError::Storage(_) => {
            tracing::error!("{text}");
            problem(StatusCode::INTERNAL_SERVER_ERROR, "failed", &text)
        }
    }
}

async fn device(State(doorway): State<Arc<Doorway>>, headers: HeaderMap) -> Response {
    let admission = match doorway.gate.device(&headers, false) {
        Ok(admission) => admission,
        Err(refusal) => return refused(refusal),
    };
    let devices = doorway.gate.door.devices();
    let found = devices
        .iter()
        .find(|device| Some(device.id.as_str()) == admission.identity.device());
    match found {
        Some(device) => json_answer(StatusCode::OK, &json!(device)),
        None => refused(Refusal::NotPaired),
    }
}

async fn unpair(State(doorway): State<Arc<Doorway>>, headers: HeaderMap) -> Response {
    let admission = match doorway.gate.device(&headers, true) {
        Ok(admission) => admission,
        Err(refusal) => return refused(refusal),
    };
    let id = admission.identity.device().unwrap_or_default().to_owned();
    if doorway.gate.door.revoke_beside(id).await.is_err() {
        let text = "the device is revoked until the host restarts, but this could not be saved; see the host's log";
        return problem(StatusCode::INTERNAL_SERVER_ERROR, "failed", text);
    }
    let mut answer = StatusCode::NO_CONTENT.into_response();
    set_cookie(&doorway, &mut answer, "", 0);
    answer
}

fn set_cookie(doorway: &Doorway, answer: &mut Response, value: &str, life: u32) {
    let secure = if doorway.secure { "; Secure" } else { "" };
    let cookie = format!(
        "{}={value}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}",
        doorway.gate.cookie_name()
    );
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
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

fn problem(status: StatusCode, code: &str, message: &str) -> Response {
    json_answer(status, &json!({ "error": code, "message": message }))
}

fn json_answer(status: StatusCode, body: &Value) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body.to_string()).into_response()
}
