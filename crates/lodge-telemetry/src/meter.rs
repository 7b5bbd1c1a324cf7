//! Metrics of model calls, made from their spans, by the OpenTelemetry conventions for generative AI.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    otlp::{self, Attribute},
    spans::Span,
};

/// How long calls take, in seconds.
const DURATION: (&str, &str) = ("gen_ai.client.operation.duration", "s");
const DURATIONS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
/// How many tokens they use.
const TOKENS: (&str, &str) = ("gen_ai.client.token.usage", "{token}");
const TOKEN_COUNTS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// What a span says that a metric says, too.
const SHARED: [&str; 3] = ["gen_ai.operation.name", "gen_ai.request.model", "gen_ai.response.model"];
/// At most so many kinds of calls are distinguished: names of models come from apps.
const MOST: usize = 1000;

#[derive(Default)]
struct Histogram {
    count: u64,
    sum: f64,
    buckets: [u64; 15],
}

/// Everything that was counted since it began.
pub(crate) struct Meter {
    since: u128,
    /// By the metric and what it is about, as text.
    all: BTreeMap<(&'static str, String), (Vec<Attribute>, Histogram)>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            since: otlp::now(),
            all: BTreeMap::new(),
        }
    }

    /// Counts a span, if it is of a model call.
    pub(crate) fn count(&mut self, span: &Span) {
        if span.attributes.get("gen_ai.operation.name").and_then(Value::as_str) != Some("chat") {
            return;
        }
        let shared = |name: &'static str| Some((name, span.attributes.get(name)?.clone()));
        let about: Vec<_> = SHARED.into_iter().filter_map(shared).collect();
        let took = span.end.duration_since(span.start).as_secs_f64();
        let mut of_duration = about.clone();
        if span.error.is_some() {
            of_duration.push(("error.type", "_OTHER".into()));
        }
        self.add(DURATION.0, of_duration, took, &DURATIONS);
        for (kind, used) in [
            ("input", "gen_ai.usage.input_tokens"),
            ("output", "gen_ai.usage.output_tokens"),
        ] {
            if let Some(tokens) = span.attributes.get(used).and_then(Value::as_f64) {
                let mut about = about.clone();
                about.push(("gen_ai.token.type", kind.into()));
                self.add(TOKENS.0, about, tokens, &TOKEN_COUNTS);
            }
        }
    }

    fn add(&mut self, metric: &'static str, about: Vec<Attribute>, value: f64, bounds: &[f64; 14]) {
        let key = (metric, otlp::noted(&about).to_string());
        if self.all.len() >= MOST && !self.all.contains_key(&key) {
            return;
        }
        let (_, histogram) = self.all.entry(key).or_insert_with(|| (about, Histogram::default()));
        histogram.count += 1;
        histogram.sum += value;
        histogram.buckets[bounds.partition_point(|bound| *bound < value)] += 1;
    }

    /// Everything that was counted; nothing if nothing was.
    pub(crate) fn metrics(&self) -> Vec<Value> {
        if self.all.is_empty() {
            return Vec::new();
        }
        let at = otlp::now().to_string();
        let metric = |(name, unit): (&str, &str), bounds: &[f64]| {
            let points: Vec<Value> = self
                .all
                .iter()
                .filter(|((metric, _), _)| *metric == name)
                .map(|(_, (about, histogram))| {
                    let buckets: Vec<String> = histogram.buckets.iter().map(u64::to_string).collect();
                    json!({
                        "startTimeUnixNano": self.since.to_string(), "timeUnixNano": at,
                        "count": histogram.count.to_string(), "sum": histogram.sum,
                        "bucketCounts": buckets, "explicitBounds": bounds, "attributes": otlp::noted(about),
                    })
                })
                .collect();
            // From the beginning on, each time.
            let histogram = json!({"aggregationTemporality": 2, "dataPoints": points});
            json!({"name": name, "unit": unit, "histogram": histogram})
        };
        vec![metric(DURATION, &DURATIONS), metric(TOKENS, &TOKEN_COUNTS)]
    }
}
