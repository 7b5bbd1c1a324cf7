//! Reading events as a client does: as plain JSON, without our own types, so that these checks cannot share a mistake
//! with the code they check.

use std::{collections::HashSet, path::Path};

use serde_json::Value;

/// Whether an event is marked as ephemeral.
pub fn is_ephemeral(event: &Value) -> bool {
    event["ephemeral"] == true && !is_beside(event)
}

/// Whether an event hangs beside the chain: written, of a type of Lodge's own, and nobody's parent.
pub fn is_beside(event: &Value) -> bool {
    kind(event).starts_with("lodge.")
}

/// An event's type.
pub fn kind(event: &Value) -> &str {
    event["type"].as_str().unwrap_or_default()
}

/// An event's id.
pub fn id(event: &Value) -> &str {
    event["id"].as_str().unwrap_or_default()
}

/// The types of events, in order.
pub fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(kind).collect()
}

/// Events of one type.
pub fn of_kind<'a>(events: &'a [Value], wanted: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| kind(event) == wanted).collect()
}

/// Parses JSON lines.
///
/// # Errors
/// Names the line that is not JSON.
pub fn parse_lines(text: &str) -> Result<Vec<Value>, String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}: {line}", at + 1)))
        .collect()
}

/// Reads a log file.
///
/// # Panics
/// When the file cannot be read or holds a line that is not JSON.
pub fn read_log(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    parse_lines(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks envelope and parent chain of a whole stream or log, from the session's first event on.
///
/// # Errors
/// Says which event breaks which rule.
pub fn check_chain(events: &[Value]) -> Result<(), String> {
    check_chain_after(None, events)
}

/// Like [`check_chain`] for a part of the stream: `last` is the id of the last persisted event before it.
///
/// # Errors
/// Says which event breaks which rule.
pub fn check_chain_after(last: Option<&str>, events: &[Value]) -> Result<(), String> {
    let mut last = last.map(str::to_owned);
    let mut seen = HashSet::new();
    for (at, event) in events.iter().enumerate() {
        let fail = |what: String| Err(format!("event {at} ({}): {what}: {event}", kind(event)));
        let Some(id) = event["id"].as_str().filter(|id| uuid::Uuid::parse_str(id).is_ok()) else {
            return fail("its id is no UUID".into());
        };
        if !seen.insert(id) {
            return fail("its id came before".into());
        }
        if event["timestamp"]
            .as_str()
            .is_none_or(|time| time.len() != "2026-01-01T00:00:00.000Z".len() || !time.ends_with('Z'))
        {
            return fail("its timestamp is not UTC in milliseconds".into());
        }
        if event.get("ephemeral").is_some_and(|flag| flag != &Value::Bool(true)) {
            return fail("`ephemeral` must be true or absent".into());
        }
        if event.get("parentId").is_none() || event["parentId"].as_str() != last.as_deref() {
            return fail(format!("its parent must be {last:?}"));
        }
        if !event["data"].is_object() {
            return fail("its data is no object".into());
        }
        if !is_ephemeral(event) && !is_beside(event) {
            last = Some(id.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "7f3d1a52-0f0a-4f0c-9a77-000000000001";
    const B: &str = "7f3d1a52-0f0a-4f0c-9a77-000000000002";

    fn event(id: &str, parent: Option<&str>, ephemeral: bool) -> Value {
        let mut event =
            json!({"id": id, "timestamp": "2026-01-01T00:00:00.000Z", "parentId": parent, "type": "x", "data": {}});
        if ephemeral {
            event["ephemeral"] = true.into();
        }
        event
    }

    #[test]
    fn a_chain_is_judged_by_its_persisted_events() {
        let check = |events: &[Value], expected: bool| assert_eq!(check_chain(events).is_ok(), expected, "{events:?}");
        check(&[], true);
        check(&[event(A, None, false), event(B, Some(A), false)], true);
        check(&[event(A, None, true), event(B, None, false)], true);
        check(&[event(A, None, true), event(B, Some(A), false)], false);
        check(&[event(A, None, false), event(B, None, false)], false);
        check(&[event(A, None, false), event(A, Some(A), false)], false);
        check(&[event("not-a-uuid", None, false)], false);
        let mut false_flag = event(A, None, false);
        false_flag["ephemeral"] = false.into();
        check(&[false_flag], false);
    }
}
