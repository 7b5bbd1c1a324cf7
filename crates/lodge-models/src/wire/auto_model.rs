//! The model `auto`: the provider chooses a model and issues a token for it.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{HttpModel, Inner, fetch};
use crate::{HttpRequest, Model, ModelError, ModelRequest};

/// The model name that leaves the choice to the provider.
const AUTO: &str = "auto";
/// The header that goes with the choice.
const TOKEN_HEADER: &str = "copilot-session-token";

#[derive(Deserialize)]
struct Choice {
    session_token: String,
    selected_model: Selected,
}

/// A model, or its name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Selected {
    Name(String),
    Model { id: String },
}

impl HttpModel {
    /// Asks the provider for its choice, where it has one to make.
    pub(super) fn choice(&self, tier: Option<&str>) -> Option<BoxFuture<'static, Result<Arc<dyn Model>, ModelError>>> {
        let inner = self.inner.clone();
        if !inner.endpoint.routes || inner.wire_model != AUTO {
            return None;
        }
        let mut body = json!({"auto_mode": {"model_hints": [AUTO]}});
        if let Some(tier) = tier {
            body["auto_tier"] = tier.into();
        }
        Some(Box::pin(async move { inner.chosen(body.to_string()).await }))
    }
}

impl Inner {
    async fn chosen(&self, body: String) -> Result<Arc<dyn Model>, ModelError> {
        let mut target = self.endpoint.target(AUTO);
        let headers = self.endpoint.headers(&ModelRequest::default(), &mut target).await?;
        let request = HttpRequest {
            method: "POST",
            url: self.endpoint.auto_url(),
            headers,
            body: Bytes::from(body),
            sub_agent: None,
        };
        let patience = self.endpoint.idle_timeout;
        let choice: Choice = fetch(&*self.transport, request, patience, &target, "the choice of a model").await?;
        let mut endpoint = self.endpoint.clone();
        endpoint.headers.insert(TOKEN_HEADER.to_owned(), choice.session_token);
        let wire_model = match choice.selected_model {
            Selected::Name(id) | Selected::Model { id } => id,
        };
        let transport = self.transport.clone();
        Ok(Arc::new(HttpModel::new(
            self.info.clone(),
            wire_model,
            endpoint,
            transport,
        )))
    }
}
