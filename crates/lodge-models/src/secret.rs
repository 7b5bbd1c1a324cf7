//! Values that may be used but never shown.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use serde::Deserialize;

use crate::ModelError;

/// A key or token. It prints as `[secret]`, so that it cannot reach a log by accident.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self::new(value)
    }
}

/// Where a fresh bearer token comes from. Asked once for every outbound request; the answer is never kept.
pub trait TokenSource: Send + Sync {
    /// A token for one request.
    fn token(&self) -> BoxFuture<'_, Result<String, ModelError>>;
}
