//! The envelope: written in one form, read in many, never changed.

use std::str::FromStr;

use bytes::Bytes;
use lodge_events::*;
use proptest::prelude::*;
use serde_json::{Value, json};

const ID: &str = "ce2f7896-4c64-4bb8-b81b-a017504e3f17";
const PARENT: &str = "4864408d-c161-4600-b927-2b6bd9a851bc";
const WHEN: &str = "2026-11-15T06:23:33.117Z";

fn id(text: &str) -> Uuid {
    Uuid::from_str(text).unwrap()
}

fn made(data: impl Into<Payload>) -> Event {
    Event::with(id(ID), WHEN.parse().unwrap(), Some(id(PARENT)), None, data)
}

#[test]
fn fields_are_written_in_the_order_of_the_copilot_cli() {
    let delta = AssistantMessageDelta {
        message_id: "m".into(),
        delta_content: "Hi\n".into(),
        ..Default::default()
    };
    let expected = format!(
        r#"{{"type":"assistant.message_delta","data":{{"messageId":"m","deltaContent":"Hi\n"}},"ephemeral":true,"id":"{ID}","timestamp":"{WHEN}","parentId":"{PARENT}"}}"#
    );
    assert_eq!(made(delta).as_str(), expected);

    let end = AssistantTurnEnd {
        turn_id: "0".into(),
        model: None,
    };
    let event = Event::with(id(ID), WHEN.parse().unwrap(), None, Some("a\"b".into()), end);
    let expected = format!(
        r#"{{"type":"assistant.turn_end","data":{{"turnId":"0"}},"agentId":"a\"b","id":"{ID}","timestamp":"{WHEN}","parentId":null}}"#
    );
    assert_eq!(event.as_str(), expected);
    assert_eq!(
        (event.parent_id(), event.agent_id(), event.is_ephemeral()),
        (None, Some("a\"b"), false)
    );
}

#[test]
fn a_new_event_is_of_now_and_has_a_random_id() {
    let before = Timestamp::now();
    let event = Event::new(None, None, SessionTodosChanged {});
    assert_eq!(event.id().get_version_num(), 4);
    assert!(event.timestamp().as_millisecond() >= before.as_millisecond());
    assert_eq!(event.timestamp().subsec_nanosecond() % 1_000_000, 0);
    assert_ne!(event.id(), Event::new(None, None, SessionTodosChanged {}).id());
}

#[test]
fn what_is_read_is_kept_byte_for_byte() {
    let lines = [
        // Unknown type, unknown fields inside and around, all forms of numbers, unusual order and spacing.
        format!(
            r#"{{"zz":[1.0,1e5,12345678901234567890,-0.0,1E-7,0.10],"type":"future.thing","data":{{"a":1.0,"b":123456789012345678901234567890}},"id":"{ID}","timestamp":"{WHEN}","parentId":null}}"#
        ),
        format!(
            r#"{{ "parentId" : "{PARENT}","timestamp":"{WHEN}" ,"id":"{ID}","data":{{"turnId":"0","extra":1.50,"extra":2}},"type":"assistant.turn_end" }}"#
        ),
        // Line separators that JSON allows raw and JavaScript once did not, and escapes nobody needs.
        format!(
            "{{\"type\":\"user.message\",\"data\":{{\"content\":\"a\u{2028}b\u{2029}c\\u0041\\/\"}},\"id\":\"{ID}\",\"timestamp\":\"{WHEN}\",\"parentId\":null}}"
        ),
        format!(
            r#"{{"\u0074ype":"\u0061bort","data":{{"reason":"user_initiated"}},"id":"{ID}","timestamp":"{WHEN}"}}"#
        ),
    ];
    for line in lines {
        let event = Event::parse(line.clone().into()).unwrap();
        assert_eq!(event.as_str(), line);
        assert_eq!(event.id(), id(ID));
        assert_eq!(event.timestamp(), WHEN.parse().unwrap());
        let whole: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::from_str::<Value>(event.data_json()).unwrap(), whole["data"]);
        assert_eq!(event.data_bytes(), event.data_json().as_bytes());
        assert_eq!(serde_json::to_string(&[&event]).unwrap(), format!("[{line}]"));
    }
}

#[test]
fn white_space_around_an_event_is_tolerated() {
    let line = made(Abort::default()).as_str().to_owned();
    for around in [
        format!("\u{feff}{line}"),
        format!("{line}\n"),
        format!("{line}\r\n"),
        format!("  {line}\t"),
        format!("\u{feff} {line}\r\n\n"),
    ] {
        assert_eq!(Event::parse(around.into()).unwrap().as_str(), line);
    }
}

#[test]
fn a_pretty_printed_event_becomes_one_line() {
    let event = made(UserMessage {
        content: "a\nb".into(),
        ..Default::default()
    });
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(event.as_str()).unwrap()).unwrap();
    assert!(pretty.contains('\n'));
    let read = Event::parse(pretty.into()).unwrap();
    assert!(!read.as_str().contains('\n'));
    assert_eq!(read.payload(), event.payload());
}

#[test]
fn flags_and_parents_of_others_are_understood() {
    let check = |fields: &str, ephemeral: bool, parent: Option<Uuid>| {
        let line = format!(r#"{{"type":"abort","data":{{}},"id":"{ID}","timestamp":"{WHEN}"{fields}}}"#);
        let event = Event::parse(line.into()).unwrap();
        assert_eq!(
            (event.is_ephemeral(), event.parent_id()),
            (ephemeral, parent),
            "{fields}"
        );
    };
    check("", false, None);
    check(r#","ephemeral":false"#, false, None);
    check(r#","ephemeral":null,"parentId":null,"agentId":null"#, false, None);
    check(r#","ephemeral":true"#, true, None);
    check(
        &format!(r#","parentId":"{}""#, PARENT.to_uppercase()),
        false,
        Some(id(PARENT)),
    );
}

#[test]
fn times_are_read_in_every_iso_form() {
    let check = |text: &str, same: &str| {
        let line = format!(r#"{{"type":"abort","data":{{}},"id":"{ID}","timestamp":"{text}"}}"#);
        assert_eq!(
            Event::parse(line.into()).unwrap().timestamp(),
            same.parse().unwrap(),
            "{text}"
        );
    };
    check("2026-11-15T06:23:33.117Z", WHEN);
    check("2026-11-15T06:23:33Z", "2026-11-15T06:23:33Z");
    check("2026-11-15T07:23:33.117+01:00", WHEN);
    check("2026-11-15T06:23:33.117456789Z", "2026-11-15T06:23:33.117456789Z");
    check("2024-02-29T23:59:59.999Z", "2024-02-29T23:59:59.999Z");
}

#[test]
fn bad_lines_are_refused_with_a_reason() {
    let check = |line: &str, reason: &str| {
        let error = Event::parse(Bytes::copy_from_slice(line.as_bytes()))
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{line}\n  gave: {error}\n  not: {reason}");
        assert_eq!(Head::parse(line.as_bytes()).unwrap_err().to_string(), error);
    };
    let rest = format!(r#""data":{{}},"id":"{ID}","timestamp":"{WHEN}""#);
    check("", "empty line");
    check(" \r\n", "empty line");
    check("null", "expected an event object");
    check("[]", "expected an event object");
    check("\0\0\0", "expected value");
    check(&format!(r#"{{{rest}"#), "EOF");
    check(&format!(r#"{{{rest}}}"#), "missing field `type`");
    check(r#"{"type":"abort"}"#, "missing field `data`");
    check(r#"{"type":"abort","data":{}}"#, "missing field `id`");
    check(
        &format!(r#"{{"type":7,{rest}}}"#),
        "`type`: invalid type: integer `7`, expected a string",
    );
    check(
        &format!(r#"{{"type":"a","type":"b",{rest}}}"#),
        "duplicate field `type`",
    );
    check(
        &format!(r#"{{"type":"a","data":{{}},{rest}}}"#),
        "duplicate field `data`",
    );
    check(
        &format!(r#"{{"type":"a","parentId":null,"parentId":null,{rest}}}"#),
        "duplicate field `parentId`",
    );
    check(&format!(r#"{{"type":"a",{rest}}} x"#), "trailing characters");
    check(&format!(r#"{{"type":"a",{rest}}}{{}}"#), "trailing characters");
    check(
        &format!(r#"{{"type":"a","ephemeral":"yes",{rest}}}"#),
        "`ephemeral`: invalid type: string \"yes\"",
    );
    check(
        &format!(r#"{{"type":"a","parentId":"root",{rest}}}"#),
        "`parentId` is not a UUID: \"root\"",
    );
    check(
        &format!(r#"{{"type":"a","data":{{}},"id":"1","timestamp":"{WHEN}"}}"#),
        "`id` is not a UUID: \"1\"",
    );
    check(
        &format!(r#"{{"type":"a","data":[],"id":"{ID}","timestamp":"{WHEN}"}}"#),
        "`data` is not an object",
    );
    check(
        &format!(r#"{{"type":"a","data":null,"id":"{ID}","timestamp":"{WHEN}"}}"#),
        "`data` is not an object",
    );
    for time in [
        "yesterday",
        "2026-02-30T00:00:00.000Z",
        "2026-11-15T24:00:00.000Z",
        "2026-11-15T06:23:33.117",
    ] {
        check(
            &format!(r#"{{"type":"a","data":{{}},"id":"{ID}","timestamp":"{time}"}}"#),
            "`timestamp` is not",
        );
    }
}

#[test]
fn bytes_that_are_not_text_are_refused_wherever_they_are() {
    let line = format!(r#"{{"type":"a","data":{{}},"id":"{ID}","timestamp":"{WHEN}","x":"?"}}"#);
    let mut line = line.into_bytes();
    let at = line.iter().position(|&byte| byte == b'?').unwrap();
    line[at] = 0xff;
    assert_eq!(Event::parse(line.into()).unwrap_err(), EventError::NotUtf8(at));
}

#[test]
fn heads_are_read_without_the_data() {
    let event = made(AssistantTurnEnd {
        turn_id: "0".into(),
        model: None,
    });
    let head = Head::parse(event.json()).unwrap();
    assert_eq!(
        (head.id, head.parent_id, head.timestamp),
        (event.id(), event.parent_id(), event.timestamp())
    );
    assert_eq!(
        (&*head.kind, head.data, head.ephemeral),
        (event.kind(), event.data_json(), false)
    );
}

#[test]
fn an_event_glued_to_something_else_is_found() {
    let (one, two) = (made(Abort::default()), made(SessionTodosChanged {}));
    for tail in [two.json().as_ref(), b"", b"\0\0", b"\xff\xfe", b"{\"type\":\"cut"] {
        let glued = [one.json(), tail].concat();
        let (head, length) = Head::parse_prefix(&glued).unwrap();
        assert_eq!((head.id, length), (one.id(), one.json().len()));
    }
    assert_eq!(Head::parse_prefix(b"  "), Err(EventError::Empty));
    assert!(Head::parse_prefix(&one.json()[..40]).is_err());
}

#[test]
fn a_deep_payload_is_kept_even_if_it_is_too_deep_to_type() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let line = format!(
        r#"{{"type":"tool.execution_start","data":{{"toolCallId":"c","toolName":"t","arguments":{deep}}},"id":"{ID}","timestamp":"{WHEN}"}}"#
    );
    let event = Event::parse(line.clone().into()).unwrap();
    assert_eq!(event.as_str(), line);
    assert!(matches!(event.payload(), Payload::Unknown(_)));
}

proptest! {
    /// Whatever text there is, it comes back, and stays on one line.
    #[test]
    fn any_text_survives(content in any::<String>(), agent in any::<Option<String>>(), kind in any::<String>()) {
        let message = UserMessage { content: content.clone(), ..Default::default() };
        let event = Event::new(None, agent.as_deref().map(Into::into), message);
        prop_assert!(!event.json().iter().any(|byte| *byte < 0x20));
        let read = Event::parse(event.json().clone()).unwrap();
        prop_assert_eq!(&read.get::<UserMessage>().unwrap().content, &content);
        prop_assert_eq!(read.agent_id(), agent.as_deref());
        prop_assert_eq!(&read, &event);

        let line = json!({"type": kind, "data": {"t": content}, "id": ID, "timestamp": WHEN}).to_string();
        let read = Event::parse(line.clone().into()).unwrap();
        prop_assert_eq!(read.kind(), &kind);
        prop_assert_eq!(read.as_str(), line);
    }

    /// Our own form of times is the one that jiff has.
    #[test]
    fn times_are_written_as_jiff_writes_them(ms in -62_167_219_200_000i64..253_402_300_800_000) {
        let timestamp = Timestamp::from_millisecond(ms).unwrap();
        let event = Event::with(id(ID), timestamp, None, None, SessionTodosChanged {});
        prop_assert!(event.as_str().contains(&format!("\"timestamp\":\"{timestamp:.3}\"")), "{event:?}");
        prop_assert_eq!(Event::parse(event.json().clone()).unwrap().timestamp(), timestamp);
    }

    /// Bytes of any kind are refused or kept, never a panic.
    #[test]
    fn any_bytes_are_refused_or_kept(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
        let mut line = made(Abort::default()).json().to_vec();
        let at = at.index(line.len());
        let end = (at + bytes.len()).min(line.len());
        line.splice(at..end, bytes);
        if let Ok(event) = Event::parse(line.clone().into()) {
            prop_assert_eq!(event.json().len(), line.trim_ascii().len());
            event.payload();
        }
        let _ = Head::parse_prefix(&line);
    }
}
