//! Models chosen by the provider: on request, or when a person agrees to it because a model is rate limited.

use std::sync::Arc;

use lodge_events::{
    AutoModeSwitchCompleted, AutoModeSwitchRequested, AutoModeSwitchResponse, AutoTierFailure, ModelChangeSource,
    SessionAutoModeResolved, SessionAutoTierSwitchFailed, SessionModelChange,
};
use lodge_models::{ErrorKind, Model, ModelError};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    answer::{Answer, QuestionKind},
    client::AutoModeQuestion,
    turn::{Stop, Turn},
};

/// The model id that stands for the provider's choice.
const AUTO: &str = "auto";

impl Turn {
    /// Offers to continue with the provider's choice of a model. True if the call should be repeated.
    pub(crate) async fn switched_to_auto(&self, model: &Arc<dyn Model>, error: &ModelError) -> Result<bool, Stop> {
        let shared = &self.shared;
        let offered = error.kind == ErrorKind::RateLimit
            && shared.sub.is_none()
            && self.own_model.is_none()
            && model.info().id != AUTO
            && shared.clients.lock().any(|can| can.auto_mode_switch);
        if !offered {
            return Ok(false);
        }
        let Ok(auto) = shared.find_model(AUTO).await else {
            return Ok(false);
        };
        let always = shared.settings.lock().auto_switch;
        if !always && !self.auto_agreed(error).await? {
            return Ok(false);
        }
        let previous = {
            let mut settings = shared.settings.lock();
            settings.auto.forget_choice();
            std::mem::replace(&mut settings.model, auto)
        };
        self.let_provider_choose().await?;
        shared.recorder.record(SessionModelChange {
            previous_model: Some(previous.info().id.clone()),
            new_model: AUTO.into(),
            cause: Some("rate_limit_auto_switch".into()),
            ..SessionModelChange::default()
        })?;
        Ok(true)
    }

    /// Lets the provider choose the model, if the choice is the provider's and is not made yet, or its preference
    /// changed. Without a choice, the model is called by the name that stands for it.
    pub(crate) async fn let_provider_choose(&self) -> Result<(), Stop> {
        let shared = &self.shared;
        let (model, auto) = {
            let settings = shared.settings.lock();
            (settings.model.clone(), settings.auto.clone())
        };
        let settled = auto.model.is_some() && auto.pending.is_none();
        if model.info().id != AUTO || shared.sub.is_some() || settled {
            return Ok(());
        }
        let wanted = auto.pending.clone().unwrap_or_else(|| auto.tier.clone());
        let choice = match model.chosen_by_provider(wanted.as_ref().map(ToString::to_string).as_deref()) {
            Some(choice) => choice.await.map_err(|error| {
                tracing::info!(session = %shared.id, %error, "the provider did not choose a model");
                AutoTierFailure::RequestFailed
            }),
            None => Err(AutoTierFailure::Unsupported),
        };
        let failure = choice.as_ref().err().cloned();
        if let Ok(chosen) = &choice {
            shared.recorder.record(SessionAutoModeResolved {
                chosen_model: chosen.info().id.clone(),
                ..SessionAutoModeResolved::default()
            })?;
        }
        {
            let now = &mut shared.settings.lock().auto;
            now.model = choice.ok().or(now.model.take());
            if now.pending == auto.pending {
                now.pending = None;
            }
            if failure.is_none() {
                now.tier.clone_from(&wanted);
            }
        }
        match failure {
            _ if auto.pending.is_none() => {}
            None => {
                shared.recorder.record(SessionModelChange {
                    previous_model: Some(AUTO.into()),
                    new_model: AUTO.into(),
                    previous_auto_tier: auto.tier,
                    auto_tier: wanted,
                    source: Some(ModelChangeSource::Sdk),
                    ..SessionModelChange::default()
                })?;
            }
            Some(reason) => shared.recorder.note(SessionAutoTierSwitchFailed {
                effective_auto_tier: auto.tier,
                requested_auto_tier: wanted.map_or(Value::Null, |tier| tier.to_string().into()),
                reason,
            }),
        }
        Ok(())
    }

    async fn auto_agreed(&self, error: &ModelError) -> Result<bool, Stop> {
        let shared = &self.shared;
        let question = AutoModeQuestion {
            request_id: Uuid::new_v4().to_string(),
            error_code: error.code.clone(),
            retry_after_seconds: error.retry_after.map(|wait| wait.as_secs()),
        };
        let request_id = question.request_id.clone();
        let waiting = shared.pending.open(&request_id, QuestionKind::AutoMode);
        let event = shared.recorder.record(AutoModeSwitchRequested {
            request_id: request_id.clone(),
            error_code: question.error_code.clone(),
            retry_after_seconds: question.retry_after_seconds,
        })?;
        shared.pending.asked(&request_id, event);
        for client in shared.clients.lock().calls(|can| can.auto_mode_switch) {
            let asked = client.auto_mode_switch(question.clone());
            let (shared, request_id) = (shared.clone(), request_id.clone());
            tokio::spawn(async move {
                if let Some(answer) = asked.await {
                    shared.answer_of_client(&request_id, Answer::AutoMode(answer));
                }
            });
        }
        let response = match waiting.await {
            Ok(Answer::AutoMode(response)) => response,
            _ => AutoModeSwitchResponse::No,
        };
        let agreed = matches!(
            response,
            AutoModeSwitchResponse::Yes | AutoModeSwitchResponse::YesAlways
        );
        if response == AutoModeSwitchResponse::YesAlways {
            shared.settings.lock().auto_switch = true;
        }
        shared
            .recorder
            .record(AutoModeSwitchCompleted { request_id, response })?;
        Ok(agreed)
    }
}
