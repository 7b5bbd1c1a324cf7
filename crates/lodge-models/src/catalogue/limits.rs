//! Limits of models with unknown names: their provider is asked once, when the first of them is called.

use std::sync::{Arc, OnceLock};

use futures_util::{future::BoxFuture, stream::BoxStream};
use tokio::sync::OnceCell;

use super::discover::{self, Found};
use crate::{Chunk, Endpoint, Model, ModelError, ModelInfo, ModelRequest, Transport};

/// What a provider says of its models, as soon as it was asked.
#[derive(Default)]
pub(super) struct ProviderLimits(OnceCell<Vec<Found>>);

impl ProviderLimits {
    /// What is known of a model by its name at the provider.
    fn get(&self, wire_model: &str) -> Option<&Found> {
        self.0.get()?.iter().find(|found| found.wire_model == wire_model)
    }

    /// Asks in the background. A provider that has no list changes nothing, and is not asked again.
    fn fetch(self: &Arc<Self>, endpoint: &Endpoint, transport: &Arc<dyn Transport>) {
        if self.0.initialized() {
            return;
        }
        let (limits, endpoint, transport) = (self.clone(), endpoint.clone(), transport.clone());
        tokio::spawn(async move {
            let asked = async || {
                discover::list_models(&endpoint, &*transport, "")
                    .await
                    .unwrap_or_default()
            };
            limits.0.get_or_init(asked).await;
        });
    }
}

/// A model of which only its provider knows what it holds.
pub(super) struct Unmeasured {
    pub(super) model: Arc<dyn Model>,
    pub(super) wire_model: String,
    pub(super) endpoint: Endpoint,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) limits: Arc<ProviderLimits>,
    /// Whether it takes images, if the configuration says so.
    pub(super) vision: Option<bool>,
    pub(super) measured: OnceLock<ModelInfo>,
}

impl Model for Unmeasured {
    fn info(&self) -> &ModelInfo {
        let Some(found) = self.limits.get(&self.wire_model) else {
            return self.model.info();
        };
        self.measured.get_or_init(|| ModelInfo {
            context_window: found.info.context_window,
            max_prompt_tokens: found.info.max_prompt_tokens,
            max_output_tokens: found.info.max_output_tokens,
            vision: self.vision.unwrap_or(found.info.vision),
            ..self.model.info().clone()
        })
    }

    fn chosen_by_provider(&self, tier: Option<&str>) -> Option<BoxFuture<'static, Result<Arc<dyn Model>, ModelError>>> {
        self.model.chosen_by_provider(tier)
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        self.limits.fetch(&self.endpoint, &self.transport);
        self.model.call(request)
    }
}
