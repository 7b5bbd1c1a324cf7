//! OTLP in protobuf, converted from its JSON: the same names, with the field numbers of the protocol.

use serde_json::Value;

/// A message: its fields by their names in JSON.
pub(crate) type Message = [Field];

/// A field: its name, its number, what it holds. Lists are fields that come several times.
pub(crate) type Field = (&'static str, u32, Kind);

/// What a field holds.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Message(&'static Message),
    Text,
    /// Written as hexadecimal digits in JSON.
    Bytes,
    Int,
    Bool,
    Fixed,
    Double,
}

use Kind::{Bool, Bytes, Double, Fixed, Int, Message as Of, Text};

const ANY: &Message = &[
    ("stringValue", 1, Text),
    ("boolValue", 2, Bool),
    ("intValue", 3, Int),
    ("doubleValue", 4, Double),
];
const ATTRIBUTE: &Message = &[("key", 1, Text), ("value", 2, Of(ANY))];
const RESOURCE: &Message = &[("attributes", 1, Of(ATTRIBUTE))];
const SCOPE: &Message = &[("name", 1, Text), ("version", 2, Text)];
const STATUS: &Message = &[("message", 2, Text), ("code", 3, Int)];
const SPAN: &Message = &[
    ("traceId", 1, Bytes),
    ("spanId", 2, Bytes),
    ("parentSpanId", 4, Bytes),
    ("name", 5, Text),
    ("kind", 6, Int),
    ("startTimeUnixNano", 7, Fixed),
    ("endTimeUnixNano", 8, Fixed),
    ("attributes", 9, Of(ATTRIBUTE)),
    ("status", 15, Of(STATUS)),
];
const SCOPE_SPANS: &Message = &[("scope", 1, Of(SCOPE)), ("spans", 2, Of(SPAN))];
const RESOURCE_SPANS: &Message = &[("resource", 1, Of(RESOURCE)), ("scopeSpans", 2, Of(SCOPE_SPANS))];
/// `ExportTraceServiceRequest`
pub(crate) const TRACES: &Message = &[("resourceSpans", 1, Of(RESOURCE_SPANS))];

const HISTOGRAM_POINT: &Message = &[
    ("startTimeUnixNano", 2, Fixed),
    ("timeUnixNano", 3, Fixed),
    ("count", 4, Fixed),
    ("sum", 5, Double),
    ("bucketCounts", 6, Fixed),
    ("explicitBounds", 7, Double),
    ("attributes", 9, Of(ATTRIBUTE)),
];
const HISTOGRAM: &Message = &[
    ("dataPoints", 1, Of(HISTOGRAM_POINT)),
    ("aggregationTemporality", 2, Int),
];
const POINT: &Message = &[
    ("startTimeUnixNano", 2, Fixed),
    ("timeUnixNano", 3, Fixed),
    ("asDouble", 4, Double),
    ("asInt", 6, Fixed),
    ("attributes", 7, Of(ATTRIBUTE)),
];
const GAUGE: &Message = &[("dataPoints", 1, Of(POINT))];
const SUM: &Message = &[
    ("dataPoints", 1, Of(POINT)),
    ("aggregationTemporality", 2, Int),
    ("isMonotonic", 3, Bool),
];
const METRIC: &Message = &[
    ("name", 1, Text),
    ("description", 2, Text),
    ("unit", 3, Text),
    ("gauge", 5, Of(GAUGE)),
    ("sum", 7, Of(SUM)),
    ("histogram", 9, Of(HISTOGRAM)),
];
const SCOPE_METRICS: &Message = &[("scope", 1, Of(SCOPE)), ("metrics", 2, Of(METRIC))];
const RESOURCE_METRICS: &Message = &[("resource", 1, Of(RESOURCE)), ("scopeMetrics", 2, Of(SCOPE_METRICS))];
/// `ExportMetricsServiceRequest`
pub(crate) const METRICS: &Message = &[("resourceMetrics", 1, Of(RESOURCE_METRICS))];

/// A message in protobuf.
pub(crate) fn encode(json: &Value, message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number, kind) in message {
        match json.get(*name) {
            None => {}
            Some(Value::Array(all)) => all.iter().for_each(|one| field(&mut out, *number, *kind, one)),
            Some(one) => field(&mut out, *number, *kind, one),
        }
    }
    out
}

fn field(out: &mut Vec<u8>, number: u32, kind: Kind, value: &Value) {
    let tag = |out: &mut Vec<u8>, wire: u32| varint(out, u64::from((number << 3) | wire));
    let delimited = |out: &mut Vec<u8>, bytes: &[u8]| {
        tag(out, 2);
        varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    };
    match kind {
        Of(message) => delimited(out, &encode(value, message)),
        Text => delimited(out, value.as_str().unwrap_or_default().as_bytes()),
        Bytes => delimited(out, &bytes(value.as_str().unwrap_or_default())),
        Int => {
            tag(out, 0);
            // Negative numbers are the large ones here.
            varint(out, whole(value).cast_unsigned());
        }
        Bool => {
            tag(out, 0);
            varint(out, u64::from(value.as_bool().unwrap_or_default()));
        }
        Fixed => {
            tag(out, 1);
            out.extend_from_slice(&whole(value).to_le_bytes());
        }
        Double => {
            tag(out, 1);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
        }
    }
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A whole number, which may be text.
fn whole(value: &Value) -> i64 {
    let number = value.as_i64();
    number.or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_written_by_their_numbers() {
        let attribute = json!({"key": "k", "value": {"intValue": "300"}});
        assert_eq!(encode(&attribute, ATTRIBUTE), [10, 1, b'k', 18, 3, 24, 0xac, 2]);
        let span =
            json!({"traceId": "0aff", "kind": 3, "startTimeUnixNano": "1", "attributes": [attribute, attribute]});
        let written = encode(&span, SPAN);
        assert_eq!(written[..15], [10, 2, 0x0a, 0xff, 48, 3, 57, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(written[15..], [[74, 8, 10, 1, b'k', 18, 3, 24, 0xac, 2]; 2].concat());
        let point = json!({"explicitBounds": [0.5], "count": "2"});
        assert_eq!(
            encode(&point, HISTOGRAM_POINT),
            [33, 2, 0, 0, 0, 0, 0, 0, 0, 57, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f]
        );
        assert_eq!(
            encode(&json!({"intValue": -1}), ANY)[1..],
            [0xff; 9].into_iter().chain([1]).collect::<Vec<u8>>()
        );
    }
}
