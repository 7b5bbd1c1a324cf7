//! Totals of a session's work and spend. Spend is recorded with one event per model call and never goes down.

use std::collections::{BTreeMap, BTreeSet};

use lodge_events::{LodgeUsage, LodgeUsageCarried, ModelMetric, ModelRequests, ModelUsage};
use serde::{Deserialize, Serialize};

/// Sums over the whole session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Milliseconds spent in model calls.
    pub api_ms: u64,
    /// Lines added by tools.
    pub lines_added: u64,
    /// Lines removed by tools.
    pub lines_removed: u64,
    /// Files changed by tools.
    pub files: BTreeSet<String>,
    /// Per model.
    pub models: BTreeMap<String, ModelTotals>,
    /// Tokens sent by the last call.
    pub last_input: u64,
    /// Tokens received by the last call.
    pub last_output: u64,
    /// How many tokens the provider counts for one that is estimated, once it has counted.
    pub correction: Option<f64>,
    /// Whether events say all of what was spent. They do not for sums that were kept beside the log by a build that
    /// recorded no usage; its snapshots lack this field.
    #[serde(default)]
    pub(super) recorded: bool,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            api_ms: 0,
            lines_added: 0,
            lines_removed: 0,
            files: BTreeSet::new(),
            models: BTreeMap::new(),
            last_input: 0,
            last_output: 0,
            correction: None,
            recorded: true,
        }
    }
}

/// Sums of one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelTotals {
    /// Calls.
    pub requests: u64,
    /// Cost, where known.
    pub cost: f64,
    /// Cost in billionths of an AI unit, where the provider counts in those.
    pub nano_aiu: f64,
    /// Tokens sent.
    pub input: u64,
    /// Tokens received.
    pub output: u64,
    /// Tokens read from a cache.
    pub cache_read: u64,
    /// Tokens written to a cache.
    pub cache_write: u64,
    /// Tokens of reasoning.
    pub reasoning: u64,
}

/// Requests that are estimated at less say more of what a provider adds to each than of its tokens.
const LEAST_ESTIMATE: u64 = 500;
/// A provider that counts less than this of an estimated token counts something else, such as only what is not cached.
const LEAST_CORRECTION: f64 = 0.6;
const MOST_CORRECTION: f64 = 4.0;

impl Totals {
    /// Learns from one model call how far estimates are off.
    pub(super) fn correct(&mut self, usage: &LodgeUsage) {
        let estimated = usage.estimated_input_tokens.filter(|tokens| *tokens >= LEAST_ESTIMATE);
        if let (Some(estimated), Some(counted)) = (estimated, usage.input_tokens) {
            let correction = counted as f64 / estimated as f64;
            if correction >= LEAST_CORRECTION {
                self.correction = Some(correction.min(MOST_CORRECTION));
            }
        }
    }

    /// Adds one model call.
    pub(super) fn add(&mut self, usage: &LodgeUsage) {
        self.api_ms += usage.duration.unwrap_or_default();
        let model = self.models.entry(usage.model.clone()).or_default();
        model.requests += 1;
        model.cost += usage.cost.unwrap_or_default();
        model.nano_aiu += usage.total_nano_aiu.unwrap_or_default();
        model.input += usage.input_tokens.unwrap_or_default();
        model.output += usage.output_tokens.unwrap_or_default();
        model.cache_read += usage.cache_read_tokens.unwrap_or_default();
        model.cache_write += usage.cache_write_tokens.unwrap_or_default();
        model.reasoning += usage.reasoning_tokens.unwrap_or_default();
        // Whoever records usage has recorded before it what was counted until then.
        self.recorded = true;
    }

    /// Makes the sums no less than these. Never an addition, so sums that are told twice do not count twice.
    pub(super) fn raise(&mut self, models: &BTreeMap<String, ModelMetric>, api_ms: u64) {
        self.api_ms = self.api_ms.max(api_ms);
        for (name, metric) in models {
            let model = self.models.entry(name.clone()).or_default();
            model.raise(&ModelTotals::from(metric));
        }
    }

    /// After the log was folded anew: what no event tells stays as it was, and spend does not go down.
    pub(crate) fn keep(&mut self, before: &Totals) {
        self.raise(&before.metrics(), before.api_ms);
        self.recorded = before.recorded;
        (self.lines_added, self.lines_removed) = (before.lines_added, before.lines_removed);
        self.files.clone_from(&before.files);
        (self.last_input, self.last_output) = (before.last_input, before.last_output);
    }

    /// What all calls cost, as far as providers tell.
    pub fn cost(&self) -> f64 {
        // A sum of no floats is -0.
        self.models.values().fold(0.0, |sum, model| sum + model.cost)
    }

    /// The same in billionths of an AI unit, as far as providers count in those.
    pub fn nano_aiu(&self) -> f64 {
        self.models.values().fold(0.0, |sum, model| sum + model.nano_aiu)
    }

    /// What has to be recorded before further usage is, because no event says it yet.
    pub(crate) fn carried(&self) -> Option<LodgeUsageCarried> {
        (!self.recorded && !self.models.is_empty()).then(|| LodgeUsageCarried {
            model_metrics: self.metrics(),
            total_api_duration_ms: self.api_ms,
        })
    }

    /// The sums per model as events have them.
    pub(super) fn metrics(&self) -> BTreeMap<String, ModelMetric> {
        let metrics = self.models.iter().map(|(name, model)| (name.clone(), model.metric()));
        metrics.collect()
    }
}

impl ModelTotals {
    fn metric(&self) -> ModelMetric {
        ModelMetric {
            requests: ModelRequests {
                count: Some(self.requests),
                cost: Some(self.cost),
            },
            usage: ModelUsage {
                input_tokens: self.input,
                output_tokens: self.output,
                cache_read_tokens: self.cache_read,
                cache_write_tokens: self.cache_write,
                reasoning_tokens: Some(self.reasoning),
            },
            total_nano_aiu: Some(self.nano_aiu),
            ..ModelMetric::default()
        }
    }

    fn raise(&mut self, other: &ModelTotals) {
        self.requests = self.requests.max(other.requests);
        self.cost = self.cost.max(other.cost);
        self.nano_aiu = self.nano_aiu.max(other.nano_aiu);
        self.input = self.input.max(other.input);
        self.output = self.output.max(other.output);
        self.cache_read = self.cache_read.max(other.cache_read);
        self.cache_write = self.cache_write.max(other.cache_write);
        self.reasoning = self.reasoning.max(other.reasoning);
    }
}

impl From<&ModelMetric> for ModelTotals {
    fn from(metric: &ModelMetric) -> Self {
        Self {
            requests: metric.requests.count.unwrap_or_default(),
            cost: metric.requests.cost.unwrap_or_default(),
            nano_aiu: metric.total_nano_aiu.unwrap_or_default(),
            input: metric.usage.input_tokens,
            output: metric.usage.output_tokens,
            cache_read: metric.usage.cache_read_tokens,
            cache_write: metric.usage.cache_write_tokens,
            reasoning: metric.usage.reasoning_tokens.unwrap_or_default(),
        }
    }
}
