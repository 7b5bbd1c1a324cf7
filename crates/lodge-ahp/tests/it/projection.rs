//! Recorded event streams and the actions they become. The events are as the Copilot CLI and this host write them.

use lodge_ahp::projection::{Now, Projector, Scope, Step};
use lodge_events::Event;
use serde_json::{Value, json};

/// Events in short: type and data, two seconds apart. `~` in front of the type: only sent, not recorded.
fn events(stream: &[(&str, Value)]) -> Vec<Event> {
    stream
        .iter()
        .enumerate()
        .map(|(at, (kind, data))| event(at, kind, data))
        .collect()
}

fn event(at: usize, kind: &str, data: &Value) -> Event {
    let (kind, ephemeral) = kind.strip_prefix('~').map_or((kind, false), |kind| (kind, true));
    let (kind, agent) = kind
        .split_once('@')
        .map_or((kind, None), |(kind, agent)| (kind, Some(agent)));
    let mut event = json!({
        "type": kind, "data": data, "id": format!("00000000-0000-4000-8000-{at:012}"),
        "timestamp": format!("2026-11-15T10:00:{:02}.000Z", at * 2), "parentId": null,
    });
    if ephemeral {
        event["ephemeral"] = true.into();
    }
    if let Some(agent) = agent {
        event["agentId"] = agent.into();
    }
    Event::parse(event.to_string().into()).unwrap()
}

/// The steps, one a line.
fn shown(steps: Vec<Step>) -> Vec<String> {
    let line = |step| match step {
        Step::Act(scope, action) => {
            let mut action = serde_json::to_value(&*action).unwrap();
            let kind = action.as_object_mut().unwrap().shift_remove("type").unwrap();
            let scope = match scope {
                Scope::Session => String::new(),
                Scope::Main => String::new(),
                Scope::Sub(call) => format!("[{call}] "),
            };
            format!("{scope}{} {action}", kind.as_str().unwrap())
        }
        Step::OpenSub {
            tool_call_id, title, ..
        } => format!("(chat of {tool_call_id}: {title})"),
        Step::Prepare { id, .. } => format!("(prepare {id})"),
        Step::Terminal { tool_call_id, news } => format!("(terminal of {tool_call_id}: {news:?})"),
        Step::Orphaned { tool_call_id, .. } => format!("(nobody runs {tool_call_id})"),
        Step::Rested => "(at rest)".to_owned(),
        Step::Queued => "(to be prepared)".to_owned(),
    };
    steps.into_iter().map(line).collect()
}

fn project(stream: &[(&str, Value)]) -> String {
    let mut projector = Projector::default();
    let lines: Vec<String> = events(stream)
        .iter()
        .flat_map(|event| shown(projector.event(event)))
        .collect();
    lines.join("\n")
}

/// The same from the log alone: what was only sent is not there.
fn from_log(stream: &[(&str, Value)]) -> String {
    let mut projector = Projector::default();
    let recorded = events(stream).into_iter().filter(|event| !event.is_ephemeral());
    let mut lines: Vec<String> = recorded.flat_map(|event| shown(projector.event(&event))).collect();
    lines.extend(shown(projector.caught_up(Now::AtRest)));
    lines.join("\n")
}

fn agentic_turn() -> Vec<(&'static str, Value)> {
    let command = json!({ "command": "rm x" });
    vec![
        ("user.message", json!({ "content": "tidy up", "messageId": "m1" })),
        ("assistant.turn_start", json!({ "turnId": "0" })),
        ("~assistant.intent", json!({ "intent": "Tidying" })),
        (
            "~assistant.reasoning_delta",
            json!({ "reasoningId": "r1", "deltaContent": "Hm" }),
        ),
        (
            "~assistant.reasoning_delta",
            json!({ "reasoningId": "r1", "deltaContent": "m." }),
        ),
        ("assistant.reasoning", json!({ "reasoningId": "r1", "content": "Hmm." })),
        (
            "~assistant.message_delta",
            json!({ "messageId": "a1", "deltaContent": "I will " }),
        ),
        (
            "~assistant.message_delta",
            json!({ "messageId": "a1", "deltaContent": "remove " }),
        ),
        (
            "assistant.message",
            json!({ "messageId": "a1", "content": "I will remove x.", "toolRequests": [{ "toolCallId": "c1", "name": "bash", "arguments": command }] }),
        ),
        (
            "lodge.usage",
            json!({ "model": "m", "inputTokens": 10, "outputTokens": 5 }),
        ),
        (
            "~permission.requested",
            json!({ "requestId": "p1", "permissionRequest": { "kind": "shell", "toolCallId": "c1", "fullCommandText": "rm x",
                "intention": "Remove x", "commands": [], "possiblePaths": [], "possibleUrls": [],
                "hasWriteFileRedirection": false, "canOfferSessionApproval": true } }),
        ),
        (
            "~permission.completed",
            json!({ "requestId": "p1", "result": { "kind": "approved" } }),
        ),
        (
            "tool.execution_start",
            json!({ "toolCallId": "c1", "toolName": "bash", "arguments": command }),
        ),
        (
            "~tool.execution_partial_result",
            json!({ "toolCallId": "c1", "partialOutput": "removed\n" }),
        ),
        (
            "tool.execution_complete",
            json!({ "toolCallId": "c1", "success": true, "result": { "content": "removed" } }),
        ),
        ("assistant.turn_end", json!({ "turnId": "0" })),
        ("assistant.turn_start", json!({ "turnId": "1" })),
        ("assistant.message", json!({ "messageId": "a2", "content": "Done." })),
        (
            "lodge.usage",
            json!({ "model": "m", "inputTokens": 20, "outputTokens": 2 }),
        ),
        ("assistant.turn_end", json!({ "turnId": "1" })),
        ("~session.idle", json!({})),
    ]
}

#[test]
fn an_agentic_turn_as_it_happens() {
    insta::assert_snapshot!(project(&agentic_turn()));
}

#[test]
fn the_same_turn_from_the_log() {
    insta::assert_snapshot!(from_log(&agentic_turn()));
}

#[test]
fn a_sub_agent_has_a_chat_of_its_own() {
    let stream = [
        ("user.message", json!({ "content": "delegate", "messageId": "m1" })),
        (
            "assistant.message",
            json!({ "messageId": "a1", "content": "", "toolRequests": [{ "toolCallId": "task1", "name": "task", "arguments": { "prompt": "look around" } }] }),
        ),
        (
            "tool.execution_start",
            json!({ "toolCallId": "task1", "toolName": "task", "arguments": { "prompt": "look around" } }),
        ),
        (
            "subagent.started@agent1",
            json!({ "toolCallId": "task1", "agentName": "explore", "agentDisplayName": "Explorer", "agentDescription": "Explores" }),
        ),
        (
            "~assistant.message_delta@agent1",
            json!({ "messageId": "s1", "deltaContent": "Looking" }),
        ),
        (
            "assistant.message@agent1",
            json!({ "messageId": "s1", "content": "Looking" }),
        ),
        (
            "tool.execution_start",
            json!({ "toolCallId": "c2", "toolName": "view", "arguments": { "path": "/a" }, "parentToolCallId": "task1" }),
        ),
        (
            "tool.execution_complete",
            json!({ "toolCallId": "c2", "success": false, "error": { "message": "no such file" }, "parentToolCallId": "task1" }),
        ),
        (
            "assistant.message@stranger",
            json!({ "messageId": "x", "content": "of an agent nobody knows" }),
        ),
        (
            "subagent.completed",
            json!({ "toolCallId": "task1", "agentName": "explore", "agentDisplayName": "Explorer" }),
        ),
        (
            "tool.execution_complete",
            json!({ "toolCallId": "task1", "success": true, "result": { "content": "found it" } }),
        ),
        ("~session.idle", json!({})),
    ];
    insta::assert_snapshot!(project(&stream));
}

#[test]
fn questions_errors_and_messages_of_others() {
    let stream = [
        ("user.message", json!({ "content": "ask me", "messageId": "m1" })),
        (
            "~user_input.requested",
            json!({ "requestId": "q1", "question": "Colour?", "choices": ["red", "blue"], "allowFreeform": false }),
        ),
        (
            "~user_input.completed",
            json!({ "requestId": "q1", "answer": "red", "wasFreeform": false }),
        ),
        (
            "~elicitation.requested",
            json!({ "requestId": "e1", "message": "Fill in", "requestedSchema": { "type": "object",
                "properties": { "name": { "type": "string", "title": "Name" }, "age": { "type": "integer", "minimum": 1 },
                    "size": { "type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"] } }, "required": ["name"] } }),
        ),
        (
            "~elicitation.completed",
            json!({ "requestId": "e1", "action": "decline" }),
        ),
        (
            "user.message",
            json!({ "content": "steered by somebody else", "messageId": "m2" }),
        ),
        (
            "user.message",
            json!({ "content": "a hook speaks", "messageId": "m3", "source": "hook" }),
        ),
        (
            "session.error",
            json!({ "errorType": "rate_limit", "message": "Too fast", "statusCode": 429, "stack": "secret" }),
        ),
        ("~session.idle", json!({})),
        ("assistant.turn_start", json!({ "turnId": "0" })),
        (
            "assistant.message",
            json!({ "messageId": "a9", "content": "On my own." }),
        ),
        ("abort", json!({ "reason": "user_initiated" })),
        ("~session.title_changed", json!({ "title": "Named" })),
        (
            "session.mode_changed",
            json!({ "previousMode": "interactive", "newMode": "plan" }),
        ),
        ("session.from_the_future", json!({ "anything": true })),
    ];
    insta::assert_snapshot!(project(&stream));
}

#[test]
fn the_log_shows_plans_and_forms_as_they_were_shown() {
    let plan = json!({ "requestId": "p1", "summary": "Look", "planContent": "1. Look.",
        "actions": ["interactive", "autopilot"], "recommendedAction": "interactive" });
    let form = json!({ "requestId": "f1", "message": "Fill in", "requestedSchema": { "type": "object", "properties": {
        "name": { "type": "string", "title": "Name", "description": "Whose?" }, "size": { "type": "string", "enum": ["s", "m"] },
        "many": { "type": "array", "items": { "type": "string", "enum": ["a", "b"] } },
        "age": { "type": "integer" }, "sure": { "type": "boolean" } } } });
    let question = |id: &str, kind: &str, shown: &Value| json!({ "requestId": id, "kind": kind, "digest": "d", "message": "", "shown": shown });
    let answered = |id: &str, kind: &str, answer: Value| json!({ "requestId": id, "kind": kind, "digest": "d", "by": {}, "answer": answer });
    let (plan_kind, form_kind) = ("exit_plan_mode", "elicitation");
    let content = json!({ "name": "Ada", "size": "m", "many": ["a", "b"], "age": 7, "sure": true });
    let open = json!({ "requestId": "f2", "message": "Leave me" });
    let stream = [
        ("user.message", json!({ "content": "ask me", "messageId": "m1" })),
        ("lodge.question", question("p1", plan_kind, &plan)),
        ("~exit_plan_mode.requested", plan),
        (
            "lodge.answered",
            answered("p1", plan_kind, json!({ "approved": false, "feedback": "Leap, too" })),
        ),
        (
            "~exit_plan_mode.completed",
            json!({ "requestId": "p1", "approved": false, "feedback": "Leap, too" }),
        ),
        ("lodge.question", question("f1", form_kind, &form)),
        ("~elicitation.requested", form),
        (
            "lodge.answered",
            answered("f1", form_kind, json!({ "action": "accept", "content": content })),
        ),
        ("lodge.question", question("f2", form_kind, &open)),
        ("~elicitation.requested", open),
        (
            "lodge.answered",
            answered("f2", form_kind, json!({ "action": "decline" })),
        ),
        ("assistant.message", json!({ "messageId": "a1", "content": "Well." })),
        ("~session.idle", json!({})),
    ];
    let questions = |shown: &str| -> Vec<Value> {
        let actions = shown.lines().filter_map(|line| line.strip_prefix("chat/input"));
        let actions = actions.filter_map(|line| line.split_once(' '));
        actions
            .map(|(_, action)| serde_json::from_str(action).unwrap())
            .collect()
    };
    let live = project(&stream);
    for said in [
        r#""message":"1. Look.""#,
        r#"{"kind":"text","value":"Leap, too"}"#,
        r#""size":{"state":"submitted","value":{"kind":"selected","value":"m"}}"#,
        r#""many":{"state":"submitted","value":{"kind":"selected-many","value":["a","b"]}}"#,
        r#""age":{"state":"submitted","value":{"kind":"number","value":7.0}}"#,
        r#""sure":{"state":"submitted","value":{"kind":"boolean","value":true}}"#,
        r#"{"requestId":"f2","response":"decline"}"#,
    ] {
        assert!(live.contains(said), "{said} is not in {live}");
    }
    // What is only sent says again what the log says, and ends what is ended.
    let mut told = questions(&live);
    told.dedup();
    assert_eq!(told, questions(&from_log(&stream)));
}

/// Whoever listens from the middle of an answer on sees it when it is whole, not the second half of it.
#[test]
fn an_answer_whose_beginning_was_missed_comes_whole() {
    let mut projector = Projector::default();
    let stream = events(&[
        ("user.message", json!({ "content": "go", "messageId": "m1" })),
        (
            "~assistant.message_delta",
            json!({ "messageId": "a1", "deltaContent": "second half" }),
        ),
        (
            "assistant.message",
            json!({ "messageId": "a1", "content": "first half, second half" }),
        ),
    ]);
    projector.event(&stream[0]);
    assert_eq!(projector.caught_up(Now::Busy), []);
    assert_eq!(projector.event(&stream[1]), []);
    let lines = shown(projector.event(&stream[2]));
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("first half, second half"), "{lines:?}");
}
