//! Objects and policies that a client or the host supplies for as long as a session is in memory. No log holds them, and no
//! other host can get them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use lodge_models::Model;
use lodge_tools::{Environment, rules::Rule};

/// Where a session gets models by name, for agents that want one of their own.
pub trait ModelSource: Send + Sync {
    /// The model of that name, or why there is none.
    fn model(&self, name: String) -> BoxFuture<'static, Result<Arc<dyn Model>, String>>;

    /// The names of those that are known.
    fn names(&self) -> BoxFuture<'static, Vec<String>>;

    /// Which of them are agents of other programs.
    fn agents(&self) -> Vec<String>;
}

/// Something to use from now on.
#[derive(Clone)]
pub enum Supply {
    /// Another model, from the next call on.
    Model {
        /// The model.
        model: Arc<dyn Model>,
        /// The effort; none given keeps the old one where the new model knows it.
        reasoning_effort: Option<String>,
    },
    /// Where sub-agents get models by name.
    Models(Arc<dyn ModelSource>),
    /// The variables that programs begin with.
    Environment(Environment),
    /// The policy that whoever opens the session brings; it takes the place of the one before.
    Managed(Option<ManagedPolicy>),
}

impl Supply {
    /// Another model, with the effort as it is.
    pub fn model(model: Arc<dyn Model>) -> Self {
        Self::Model {
            model,
            reasoning_effort: None,
        }
    }
}

/// An organisation's policy, which nobody in the session can wave aside.
#[derive(Debug, Clone)]
pub struct ManagedPolicy {
    /// What is allowed, asked and denied.
    pub rules: Vec<Rule>,
    /// Whether permissions may not be waved through all at once.
    pub no_bypass: bool,
    /// The same in the words of whoever brought it.
    pub text: serde_json::Value,
}
