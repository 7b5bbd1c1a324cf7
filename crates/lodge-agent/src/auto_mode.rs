//! A model that is rate limited: the person may have the provider choose another one.

use std::sync::Arc;

use lodge_events::{AutoModeSwitchCompleted, AutoModeSwitchRequested, AutoModeSwitchResponse, SessionModelChange};
use lodge_models::{ErrorKind, Model, ModelError};
use uuid::Uuid;

use crate::{
    answer::{Answer, QuestionKind},
    client::AutoModeQuestion,
    turn::{Stop, Turn},
};

/// The model that stands for the provider's choice.
const AUTO: &str = "auto";

impl Turn {
    /// Offers to go on with the provider's choice of a model. True when the call is to be made again.
    pub(crate) async fn switched_to_auto(&self, model: &Arc<dyn Model>, error: &ModelError) -> Result<bool, Stop> {
        let shared = &self.shared;
        let offered = error.kind == ErrorKind::RateLimit
            && shared.sub.is_none()
            && self.model.is_none()
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
        let previous = std::mem::replace(&mut shared.settings.lock().model, auto);
        shared.recorder.record(SessionModelChange {
            previous_model: Some(previous.info().id.clone()),
            new_model: AUTO.into(),
            cause: Some("rate_limit_auto_switch".into()),
            ..SessionModelChange::default()
        })?;
        Ok(true)
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
                    shared.pending.answer(&request_id, Answer::AutoMode(answer));
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
