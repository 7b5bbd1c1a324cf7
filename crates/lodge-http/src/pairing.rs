//! Pairing of browsers: a ticket becomes a device, which can be listed and revoked.

use std::sync::Arc;

use axum::{
    body::{self, Body},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use lodge_door::{Device, PairError};
use serde::{Deserialize, Serialize};

use crate::{
    gate::Refusal,
    routes::{Doorway, json_answer, problem, refused},
};

/// What a request to pair may be as long as.
const LONGEST_BODY: usize = 4 << 10;
/// Browsers keep no cookie for longer.
const COOKIE_LIFE: u32 = 400 * 24 * 60 * 60;

#[derive(Deserialize)]
struct Pair {
    ticket: String,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Serialize)]
struct Paired {
    key: String,
    device: Device,
}

pub(crate) async fn pair(State(doorway): State<Arc<Doorway>>, request: Request) -> Response {
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
    let told = Paired {
        key: paired.key,
        device: paired.device,
    };
    let mut answer = json_answer(StatusCode::OK, &told);
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

pub(crate) async fn device(State(doorway): State<Arc<Doorway>>, headers: HeaderMap) -> Response {
    let admission = match doorway.gate.device(&headers, false) {
        Ok(admission) => admission,
        Err(refusal) => return refused(refusal),
    };
    let devices = doorway.gate.door.devices();
    let found = devices
        .iter()
        .find(|device| Some(device.id.as_str()) == admission.identity.device());
    match found {
        Some(device) => json_answer(StatusCode::OK, device),
        None => refused(Refusal::NotPaired),
    }
}

pub(crate) async fn unpair(State(doorway): State<Arc<Doorway>>, headers: HeaderMap) -> Response {
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
