//! Events that hang beside the chain.

use lodge_events::*;
use serde_json::{Value, json};

use crate::examples::examples;

#[test]
fn every_type_of_lodges_own_is_persisted_beside_the_chain_and_no_other_is() {
    let mut own = 0;
    for payload in examples() {
        let event = Event::new(None, None, payload);
        let (kind, info) = (event.kind().to_owned(), event.event_type().unwrap().info());
        assert_eq!(event.is_beside(), kind.starts_with("lodge."), "{kind}");
        if event.is_beside() {
            own += 1;
            assert!(!info.ephemeral && !event.is_ephemeral(), "{kind}");
            assert!(!info.in_seed, "{kind}");
        }
    }
    assert!(own >= 4, "{own}");
}

/// That is how programs that do not know them tell that nothing has them as its parent.
#[test]
fn in_json_they_are_marked_ephemeral_and_read_back_as_persisted() {
    let parent = Uuid::new_v4();
    for payload in examples() {
        let made = Event::new(Some(parent), Some("agent-1".into()), payload);
        if !made.is_beside() {
            continue;
        }
        let json: Value = serde_json::from_slice(made.json()).unwrap();
        assert_eq!(json["ephemeral"], true, "{made:?}");
        let read = Event::parse(made.json().clone()).unwrap();
        let head = Head::parse(made.json()).unwrap();
        assert!(!read.is_ephemeral() && read.is_beside(), "{made:?}");
        assert!(!head.ephemeral && !head.is_on_chain(), "{made:?}");
        assert_eq!((read.payload(), read.parent_id()), (made.payload(), Some(parent)));
    }
}

#[test]
fn a_type_of_a_newer_build_is_beside_the_chain_too_and_keeps_its_bytes() {
    for ephemeral in [json!({}), json!({"ephemeral": true})] {
        let mut event = json!({
            "type": "lodge.telepathy", "data": {"number": 1.0}, "id": Uuid::new_v4().to_string(),
            "timestamp": "2026-11-15T06:23:33.117Z", "parentId": null, "more": [],
        });
        event
            .as_object_mut()
            .unwrap()
            .append(ephemeral.clone().as_object_mut().unwrap());
        let text = event.to_string();
        let read = Event::parse(text.clone().into()).unwrap();
        assert!(read.is_beside() && !read.is_ephemeral(), "{text}");
        assert!(!read.payload().is_ephemeral(), "{text}");
        assert_eq!(read.as_str(), text);
    }
}

#[test]
fn another_parent_changes_nothing_else() {
    let payloads = examples().into_iter().chain([Payload::Unknown(Box::new(
        Unknown::new(
            "lodge.telepathy",
            true,
            &serde_json::value::to_raw_value(&json!({"a": 1.0})).unwrap(),
        )
        .unwrap(),
    ))]);
    for payload in payloads {
        let made = Event::new(Some(Uuid::new_v4()), Some("agent-1".into()), payload);
        let parent = Some(Uuid::new_v4());
        let moved = Event::parse(made.with_parent(parent).json().clone()).unwrap();
        assert_eq!(moved.parent_id(), parent);
        assert_eq!(
            (
                moved.id(),
                moved.timestamp(),
                moved.agent_id(),
                moved.data_json(),
                moved.kind(),
                moved.is_ephemeral()
            ),
            (
                made.id(),
                made.timestamp(),
                made.agent_id(),
                made.data_json(),
                made.kind(),
                made.is_ephemeral()
            ),
        );
    }
}
