//! The shapes of OTLP in JSON.

use lodge_events::Timestamp;
use serde_json::{Value, json};

use super::note::Taken;

/// Now, as OTLP counts.
pub(super) fn now() -> u128 {
    nanos(Timestamp::now())
}

/// Nanoseconds since 1970.
pub(super) fn nanos(time: Timestamp) -> u128 {
    (time.as_millisecond().max(0) as u128) * 1_000_000
}

/// A value with its name.
pub(super) type Attribute = (&'static str, Value);

pub(super) fn attributes(all: &[Attribute]) -> Value {
    let value = |value: &Value| match value {
        Value::Bool(it) => json!({ "boolValue": it }),
        // Whole numbers are text there, because JavaScript's are not whole enough.
        Value::Number(it) if it.is_f64() => json!({ "doubleValue": it }),
        Value::Number(it) => json!({ "intValue": it.to_string() }),
        Value::String(it) => json!({ "stringValue": it }),
        other => json!({ "stringValue": other.to_string() }),
    };
    all.iter()
        .map(|(key, it)| json!({ "key": key, "value": value(it) }))
        .collect()
}

fn resource() -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({ "attributes": attributes(&[("service.name", "lodge".into()), ("service.version", version.into())]) })
}

fn scope() -> Value {
    json!({ "name": "lodge" })
}

/// One log record.
pub(super) fn log(at: u128, severity: u8, text: &str, about: &[Attribute]) -> Value {
    let name = super::LEVELS.iter().rev().find(|(_, number)| *number <= severity);
    json!({
        "timeUnixNano": at.to_string(),
        "observedTimeUnixNano": now().to_string(),
        "severityNumber": severity,
        "severityText": name.map_or_else(String::new, |(name, _)| name.to_uppercase()),
        "body": { "stringValue": text },
        "attributes": attributes(about),
    })
}

/// `ExportLogsServiceRequest`
pub(super) fn logs(records: &[&Value]) -> Value {
    json!({ "resourceLogs": [{ "resource": resource(), "scopeLogs": [{ "scope": scope(), "logRecords": records }] }] })
}

/// `ExportTraceServiceRequest`
pub(super) fn traces(spans: &[Value]) -> Value {
    json!({ "resourceSpans": [{ "resource": resource(), "scopeSpans": [{ "scope": scope(), "spans": spans }] }] })
}

/// `ExportMetricsServiceRequest`
pub(super) fn metrics(taken: &Taken, gauges: &[(&str, &str, u64)]) -> Value {
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
            "attributes": attributes(&about),
        });
        // Since the last time: who comes later counts from there.
        let sum = json!({ "aggregationTemporality": 1, "isMonotonic": true, "dataPoints": [point] });
        all.push(json!({ "name": name, "sum": sum }));
    }
    json!({ "resourceMetrics": [{ "resource": resource(), "scopeMetrics": [{ "scope": scope(), "metrics": all }] }] })
}
