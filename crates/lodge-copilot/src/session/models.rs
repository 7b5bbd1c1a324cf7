//! The models of a session that a client has open.

use std::sync::atomic::Ordering;

use lodge_events::SessionWarning;
use lodge_host::Supply;
use lodge_models::{ModelInfo, ProviderConfig};
use serde_json::Value;

use super::Attached;
use crate::{
    config::{ModelCapabilities, ModelConfig},
    providers::Chosen,
    rpc::RpcError,
};

impl Attached {
    /// Changes the model.
    pub(crate) async fn switch_model(
        &self,
        name: &str,
        reasoning_effort: Option<String>,
        capabilities: Option<&ModelCapabilities>,
    ) -> Result<(), RpcError> {
        let chooser = self.chooser.lock().clone();
        let chosen = chooser.choose(Some(name), capabilities).await?;
        if let Some(failure) = chosen.unreached {
            return Err(RpcError::failed(failure));
        }
        let model = Supply::Model {
            model: chosen.model,
            reasoning_effort,
        };
        self.session.supply(model).await?;
        self.model_is_late.store(false, Ordering::Relaxed);
        self.warn(chosen.warning).await
    }

    /// Whether some provider may have the model, even if none lists it.
    pub(crate) async fn could_have_model(&self, name: &str) -> bool {
        let chooser = self.chooser.lock().clone();
        let chosen = chooser.choose(Some(name), None).await;
        // A model that only stands in comes with a warning.
        chosen.is_ok_and(|chosen| chosen.warning.is_none())
    }

    /// Switches to a model that may not be reachable now: it is resolved again when it is needed.
    pub(crate) async fn settle_on_model(&self, name: &str) -> Result<(), RpcError> {
        let chooser = self.chooser.lock().clone();
        let chosen = chooser.choose(Some(name), None).await?;
        self.session.supply(Supply::model(chosen.model.clone())).await?;
        self.chose(chosen).await
    }

    /// Completes the choice of a model: warns people, or resolves the model again when it is needed.
    pub(crate) async fn chose(&self, chosen: Chosen) -> Result<(), RpcError> {
        self.model_is_late.store(chosen.unreached.is_some(), Ordering::Relaxed);
        self.warn(chosen.warning).await
    }

    /// Resolves the model again if that failed when the session was opened. Errors show when the model is called.
    pub(crate) async fn catch_up_with_model(&self) -> Result<(), RpcError> {
        if !self.model_is_late.load(Ordering::Relaxed) {
            return Ok(());
        }
        let chooser = self.chooser.lock().clone();
        let named = self.session.settings().model.id.clone();
        let chosen = chooser
            .choose(Some(named.as_str()).filter(|name| *name != "default"), None)
            .await?;
        if chosen.unreached.is_none() {
            self.session.supply(Supply::model(chosen.model.clone())).await?;
        }
        self.chose(chosen).await
    }

    /// Warns people about the choice of a model.
    pub(crate) async fn warn(&self, warning: Option<String>) -> Result<(), RpcError> {
        if let Some(message) = warning {
            let warning = SessionWarning {
                warning_type: "model".to_owned(),
                message,
                ..SessionWarning::default()
            };
            self.session.record(warning).await?;
        }
        Ok(())
    }

    /// All models that the session may use.
    pub(crate) async fn models(&self) -> Vec<ModelInfo> {
        let chooser = self.chooser.lock().clone();
        chooser.available().await
    }

    /// Adds providers and models. Returns the models as they will be listed.
    pub(crate) fn add_providers(
        &self,
        providers: Vec<ProviderConfig>,
        models: Vec<ModelConfig>,
    ) -> Result<Vec<ModelInfo>, RpcError> {
        let mut chooser = self.chooser.lock();
        let mut changed = chooser.clone();
        changed.registry.named.extend(providers);
        changed.registry.models.extend(models.iter().cloned());
        let added = changed.infos(&models)?;
        *chooser = changed;
        Ok(added)
    }

    /// Address and credentials of a model of the client's providers.
    pub(crate) async fn endpoint(&self, model: Option<&str>) -> Result<Value, RpcError> {
        let settings = self.session.settings();
        let chooser = self.chooser.lock().clone();
        let model = model.unwrap_or(&settings.model.id);
        chooser.endpoint(model, settings.client_name.as_deref()).await
    }
}
