//! The JSON shapes of OTLP.

use lodge_events::Timestamp;
use serde_json::{Value, json};

use crate::Taken;

/// Now, as OTLP counts.
pub fn now() -> u128 {
    nanos(Timestamp::now())
}

/// Nanoseconds since 1970.
pub fn nanos(time: Timestamp) -> u128 {
    (time.as_millisecond().max(0) as u128) * 1_000_000
}

/// A value with its name.
pub type Attribute = (&'static str, Value);

/// The severities, the lowest number of each band.
pub const LEVELS: [(&str, u8); 6] = [
    ("trace", 1),
    ("debug", 5),
    ("info", 9),
    ("warn", 13),
    ("error", 17),
    ("fatal", 21),
];

/// Names with values, as a list.
pub fn attributes<'a>(all: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Value {
    let value = |value: &Value| match value {
        Value::Bool(it) => json!({ "boolValue": it }),
        // Whole numbers are text there, because JavaScript's are not whole enough.
        Value::Number(it) if it.is_f64() => json!({ "doubleValue": it }),
        Value::Number(it) => json!({ "intValue": it.to_string() }),
        Value::String(it) => json!({ "stringValue": it }),
        other => json!({ "stringValue": other.to_string() }),
    };
    let all = all.into_iter();
    all.map(|(key, it)| json!({ "key": key, "value": value(it) })).collect()
}

/// The same for what is noted.
pub(crate) fn noted(all: &[Attribute]) -> Value {
    attributes(all.iter().map(|(key, it)| (*key, it)))
}

fn resource() -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({ "attributes": noted(&[("service.name", "lodge".into()), ("service.version", version.into())]) })
}

/// Who made it: the name of the instrumentation scope.
fn scope(name: &str) -> Value {
    json!({ "name": name, "version": env!("CARGO_PKG_VERSION") })
}

/// One log record.
pub fn log(at: u128, severity: u8, text: &str, about: &[Attribute]) -> Value {
    let name = LEVELS.iter().rev().find(|(_, number)| *number <= severity);
    json!({
        "timeUnixNano": at.to_string(),
        "observedTimeUnixNano": now().to_string(),
        "severityNumber": severity,
        "severityText": name.map_or_else(String::new, |(name, _)| name.to_uppercase()),
        "body": { "stringValue": text },
        "attributes": noted(about),
    })
}

/// `ExportLogsServiceRequest`
pub fn logs(records: &[&Value]) -> Value {
    json!({ "resourceLogs": [{ "resource": resource(), "scopeLogs": [{ "scope": scope("lodge"), "logRecords": records }] }] })
}

/// `ExportTraceServiceRequest` of an instrumentation scope with this name.
pub fn traces(source: &str, spans: &[Value]) -> Value {
    json!({ "resourceSpans": [{ "resource": resource(), "scopeSpans": [{ "scope": scope(source), "spans": spans }] }] })
}

/// `ExportMetricsServiceRequest`
pub fn metrics(taken: &Taken, gauges: &[(&str, &str, u64)]) -> Value {
    let at = now().to_string();
    let gauge = |(name, unit, value): &(&str, &str, u64)| {
        let point = json!({ "timeUnixNano": at, "asInt": value.to_string() });
        json!({ "name": name, "unit": unit, "gauge": { "dataPoints": [point] } })
    };
    let mut all: Vec<Value> = gauges.iter().map(gauge).collect();
    for ((name, about), value) in &taken.counts {
        let about: Vec<Attribute> = about.iter().map(|(key, it)| (*key, Value::from(it.as_str()))).collect();
        let point = json!({
            "startTimeUnixNano": taken.since.to_string(), "timeUnixNano": at, "asInt": value.to_string(),
            "attributes": noted(&about),
        });
        // Since the last time: who comes later counts from there.
        let sum = json!({ "aggregationTemporality": 1, "isMonotonic": true, "dataPoints": [point] });
        all.push(json!({ "name": name, "sum": sum }));
    }
    metrics_of("lodge", &all)
}

/// A metric: a number as it is now.
pub fn gauge(name: &str, unit: &str, value: f64) -> Value {
    let point = json!({ "timeUnixNano": now().to_string(), "asDouble": value });
    json!({ "name": name, "unit": unit, "gauge": { "dataPoints": [point] } })
}

/// A metric: numbers that have grown since a moment, each with what it is about.
pub fn sum(name: &str, unit: &str, since: u128, numbers: &[(&[Attribute], u64)]) -> Value {
    let at = now().to_string();
    let point = |(about, value): &(&[Attribute], u64)| {
        json!({
            "startTimeUnixNano": since.to_string(), "timeUnixNano": at, "asInt": value.to_string(),
            "attributes": noted(about),
        })
    };
    let points: Vec<Value> = numbers.iter().map(point).collect();
    let sum = json!({ "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": points });
    json!({ "name": name, "unit": unit, "sum": sum })
}

/// A metric: how often something took how long since a moment, and how long all of it took. There is one bucket more than bounds.
pub fn histogram(name: &str, unit: &str, since: u128, bounds: &[f64], buckets: &[u64], total: f64) -> Value {
    let count: u64 = buckets.iter().sum();
    let buckets: Vec<String> = buckets.iter().map(u64::to_string).collect();
    let point = json!({
        "startTimeUnixNano": since.to_string(), "timeUnixNano": now().to_string(), "count": count.to_string(),
        "sum": total, "bucketCounts": buckets, "explicitBounds": bounds, "attributes": [],
    });
    let histogram = json!({ "aggregationTemporality": 2, "dataPoints": [point] });
    json!({ "name": name, "unit": unit, "histogram": histogram })
}

/// `ExportMetricsServiceRequest` of an instrumentation scope with this name.
pub(crate) fn metrics_of(source: &str, all: &[Value]) -> Value {
    json!({ "resourceMetrics": [{ "resource": resource(), "scopeMetrics": [{ "scope": scope(source), "metrics": all }] }] })
}
