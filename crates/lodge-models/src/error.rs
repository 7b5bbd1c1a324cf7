//! Constructors for model errors; the types are in `types`.

use std::time::Duration;

use crate::{ErrorKind, ModelError};

impl ModelError {
    /// An error of a kind; whether it is worth trying again follows from the kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            retry_after: None,
            provider_call_id: None,
            code: None,
            retryable: matches!(kind, ErrorKind::RateLimit | ErrorKind::Connection),
        }
    }

    /// The same with the HTTP status of the response.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// The same with the time that the server asks to wait.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// The same with the provider's request id.
    #[must_use]
    pub fn with_provider_call_id(mut self, id: Option<String>) -> Self {
        self.provider_call_id = id;
        self
    }
}
