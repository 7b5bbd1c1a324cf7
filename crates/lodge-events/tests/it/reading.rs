//! Events of others: what the Copilot CLI writes, and what comes after it, reads into typed data.

use lodge_events::*;
use serde_json::{Value, json};

fn read(kind: &str, data: Value) -> Event {
    let event = json!({
        "type": kind, "data": data, "id": "ce2f7896-4c64-4bb8-b81b-a017504e3f17",
        "timestamp": "2026-11-15T06:23:33.117Z", "parentId": null,
    });
    Event::parse(event.to_string().into()).unwrap()
}

#[test]
fn an_assistant_message_of_the_copilot_cli() {
    let event = read(
        "assistant.message",
        json!({
            "messageId": "8cd1", "model": "gpt", "content": "", "interactionId": "3881", "turnId": "0", "rte": false,
            "requestId": "r", "apiCallId": "a",
            "toolRequests": [{"toolCallId": "t0", "name": "bash", "arguments": {"command": "ls"}, "type": "function"}],
        }),
    );
    let message = event.get::<AssistantMessage>().unwrap();
    let [call] = message.tool_requests.as_deref().unwrap() else {
        panic!()
    };
    assert_eq!(
        (call.name.as_str(), call.type_.as_ref()),
        ("bash", Some(&ToolRequestType::Function))
    );
    assert_eq!(call.arguments, Some(json!({"command": "ls"})));
    assert_eq!(message.request_id.as_deref(), Some("r"));
}

#[test]
fn compaction_that_made_the_conversation_longer() {
    let event = read(
        "session.compaction_complete",
        json!({"success": true, "tokensRemoved": -234, "compactionTokensUsed": {"inputTokens": 1, "duration": 3}}),
    );
    let done = event.get::<SessionCompactionComplete>().unwrap();
    assert_eq!(done.tokens_removed, Some(-234));
    assert_eq!(done.compaction_tokens_used.as_ref().unwrap().input_tokens, Some(1));
}

#[test]
fn shapes_by_the_seeds_names() {
    let event = read(
        "session.compaction_complete",
        json!({"success": true, "compactionTokensUsed": {"input": 1, "output": 2, "cachedInput": 3}}),
    );
    let used = event
        .get::<SessionCompactionComplete>()
        .unwrap()
        .compaction_tokens_used
        .clone()
        .unwrap();
    assert_eq!(
        (used.input, used.output, used.cached_input),
        (Some(1), Some(2), Some(3))
    );

    let tasks = json!({"agents": [{"agentId": "a", "agentType": "task"}], "shells": [{"shellId": "s"}]});
    let event = read("session.idle", json!({"backgroundTasks": tasks}));
    let tasks = event.get::<SessionIdle>().unwrap().background_tasks.clone().unwrap();
    assert_eq!(
        (tasks.agents[0].agent_type.as_str(), tasks.shells[0].shell_id.as_str()),
        ("task", "s")
    );

    let command = json!({
        "kind": "shell", "fullCommandText": "ls", "intention": "look", "commands": [], "possiblePaths": [],
    });
    let event = read(
        "permission.requested",
        json!({"requestId": "p", "permissionRequest": command}),
    );
    assert!(
        !event.is_ephemeral(),
        "a foreign log may hold what Lodge does not persist"
    );
    let request = &event.get::<PermissionRequested>().unwrap().permission_request;
    assert!(
        matches!(request, PermissionRequest::Shell(shell) if !shell.can_offer_session_approval),
        "{request:?}"
    );
}

#[test]
fn nulls_stand_for_absent_values() {
    let event = read(
        "session.resume",
        json!({"resumeTime": "t", "eventCount": 1, "contextTier": null, "sessionLimits": null}),
    );
    assert_eq!(event.get::<SessionResume>().unwrap().session_limits, None);
    let event = read(
        "subagent.selected",
        json!({"agentName": "a", "agentDisplayName": "A", "tools": null}),
    );
    assert_eq!(event.get::<SubagentSelected>().unwrap().tools, None);
}

#[test]
fn new_variants_and_words_do_not_hide_the_rest() {
    let odd = json!({"type": "hologram", "depth": 3});
    let event = read(
        "tool.execution_complete",
        json!({"toolCallId": "c", "success": true, "result": {"content": "a", "contents": [odd, {"type": "text", "text": "b"}]}}),
    );
    let result = event.get::<ToolExecutionComplete>().unwrap().result.clone().unwrap();
    let contents = result.contents.unwrap();
    assert_eq!(
        contents,
        [ContentBlock::Other(odd.clone()), TextBlock { text: "b".into() }.into()]
    );
    assert_eq!((contents[0].tag(), contents[1].tag()), ("hologram", "text"));
    assert_eq!(serde_json::to_value(&contents[0]).unwrap(), odd);

    // A known variant that lacks something is kept as well.
    let event = read(
        "permission.requested",
        json!({"requestId": "p", "permissionRequest": {"kind": "read", "toolCallId": "c"}}),
    );
    let request = &event.get::<PermissionRequested>().unwrap().permission_request;
    assert_eq!((request.tag(), request.tool_call_id()), ("read", Some("c")));
    assert!(matches!(request, PermissionRequest::Other(_)));

    let event = read("abort", json!({"reason": "user initiated"}));
    let reason = &event.get::<Abort>().unwrap().reason;
    assert_eq!(*reason, "user initiated");
    assert_eq!(*reason, AbortReason::Other("user initiated".into()));
}

#[test]
fn unknown_types_can_be_copied_to_new_events() {
    let read = Event::parse(
        r#"{"type":"x.y","data":{"n":1.0},"ephemeral":true,"id":"ce2f7896-4c64-4bb8-b81b-a017504e3f17","timestamp":"2026-11-15T06:23:33.117Z","parentId":null}"#.into(),
    )
    .unwrap();
    let copy = Event::new(Some(read.id()), None, read.payload().clone());
    assert_eq!(
        (copy.kind(), copy.is_ephemeral(), copy.data_json()),
        ("x.y", true, r#"{"n":1.0}"#)
    );
    assert_eq!(copy.event_type(), None);
    assert!(copy.get::<Abort>().is_none());
}
