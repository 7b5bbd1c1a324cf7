//! Who a GitHub token belongs to, where the environment names a place to ask.

use futures_util::StreamExt;
use lodge_models::{HttpRequest, Network, Transport};
use serde_json::Value;

/// The answer is a small object; what is longer is none.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// Asks the GitHub API at `api` whose token this is.
pub(crate) async fn user(api: &str, token: &str) -> Result<Value, String> {
    let request = HttpRequest {
        method: "GET",
        url: format!("{}/copilot_internal/user", api.trim_end_matches('/')),
        headers: vec![
            ("authorization".to_owned(), format!("Bearer {token}")),
            ("accept".to_owned(), "application/json".to_owned()),
        ],
        body: bytes::Bytes::new(),
        sub_agent: None,
    };
    let mut response = Network::default()
        .send(request)
        .await
        .map_err(|error| error.to_string())?;
    let mut body = Vec::new();
    while let Some(piece) = response.body.next().await {
        body.extend_from_slice(&piece.map_err(|error| error.to_string())?);
        if body.len() > LONGEST_ANSWER {
            return Err("the answer is too long".to_owned());
        }
    }
    match response.status {
        200 => serde_json::from_slice(&body).map_err(|error| error.to_string()),
        401 => Err(format!("401 Unauthorized: {}", String::from_utf8_lossy(&body))),
        status => Err(format!("{status}: {}", String::from_utf8_lossy(&body))),
    }
}
