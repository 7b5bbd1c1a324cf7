//! Spend limits of a session, in the unit of its models' providers, and the end of a turn that reaches one.

use lodge_events::{
    LimitsAction, LimitsAnswer, SessionLimits, SessionLimitsExhaustedCompleted, SessionLimitsExhaustedRequested,
    SessionSessionLimitsChanged,
};
use lodge_log::LogError;
use lodge_models::{ErrorKind, Message, ModelError, Part};
use uuid::Uuid;

use crate::{
    answer::{Answer, QuestionKind},
    session::Shared,
    turn::{Stop, Turn},
};

impl Shared {
    /// The spend of all agents of the session, as far as providers report it.
    pub(crate) fn spent(&self) -> f64 {
        self.root().recorder.facts(|facts| facts.totals.cost())
    }

    /// Sets the limit. Clients are notified if it changed.
    pub(crate) fn set_limit(&self, limit: Option<f64>) -> Result<(), LogError> {
        let record = |_: &Option<f64>| {
            let session_limits = limits(limit);
            self.recorder
                .record(SessionSessionLimitsChanged { session_limits })
                .map(drop)
        };
        self.settings.change(|settings| &mut settings.limit, limit, record)?;
        Ok(())
    }
}

/// A limit as events have it.
pub fn limits(limit: Option<f64>) -> Option<SessionLimits> {
    limit.map(|credits| SessionLimits {
        max_ai_credits: Some(credits),
    })
}

impl Turn {
    /// The rest of the limit, which the model sees before every call.
    pub(crate) fn limit_status(&self) -> Option<Message> {
        let root = self.shared.root();
        let limit = root.settings.lock().limit?;
        let left = ((limit - root.spent()).max(0.0) * 100.0).round() / 100.0;
        let text = format!(
            "<session_limits_status>\nRemaining session limits: {left} AI credits. Later session_limits_status messages supersede \
             earlier ones. Be frugal; avoid optional exploration and unnecessary tool calls.\n</session_limits_status>"
        );
        Some(Message::User(vec![Part::Text(text.into())]))
    }

    /// Continues only within the limit. When it is used up, clients that declared it are asked; without one, the turn
    /// ends.
    pub(crate) async fn within_limit(&self) -> Result<(), Stop> {
        let root = self.shared.root();
        loop {
            let Some(limit) = root.settings.lock().limit else {
                return Ok(());
            };
            let used = root.spent();
            if used < limit {
                return Ok(());
            }
            if !root.clients.lock().any(|can| can.limits) {
                return Err(used_up(used, limit));
            }
            let request_id = Uuid::new_v4().to_string();
            let waiting = root.pending.open(&request_id, QuestionKind::Limits);
            let event = root.recorder.record(SessionLimitsExhaustedRequested {
                request_id: request_id.clone(),
                used_ai_credits: used,
                max_ai_credits: limit,
            })?;
            root.pending.asked(&request_id, event);
            let response = match waiting.await {
                Ok(Answer::Limits(response)) => response,
                _ => LimitsAnswer {
                    action: LimitsAction::Cancel,
                    ..LimitsAnswer::default()
                },
            };
            root.recorder.record(SessionLimitsExhaustedCompleted {
                request_id,
                response: response.clone(),
            })?;
            root.set_limit(match response.action {
                LimitsAction::Add => Some(limit + response.additional_ai_credits.unwrap_or(0.0)),
                LimitsAction::Set => response.max_ai_credits.or(Some(limit)),
                LimitsAction::Unset => None,
                _ => return Err(used_up(used, limit)),
            })?;
        }
    }
}

fn used_up(used: f64, limit: f64) -> Stop {
    Stop::Model(Box::new(ModelError {
        kind: ErrorKind::Quota,
        code: Some("session_limits_exhausted".to_owned()),
        message: format!("The session has used {used} of the {limit} AI credits that it may use."),
        status: None,
        retry_after: None,
        provider_call_id: None,
        retryable: false,
    }))
}
