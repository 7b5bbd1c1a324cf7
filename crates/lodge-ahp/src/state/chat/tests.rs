//! What the host keeps of a chat by its own code is what the official reducers make of the same actions.

use serde_json::{Value, json};

use super::*;

/// A small generator: what it gives depends on its seed alone.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len() as u64) as usize]
    }
}

/// Anything that can be said about a chat, about few things, so that it often fits and often does not.
fn action(dice: &mut Dice, active: Option<&str>, last: Option<&str>) -> Value {
    let any = format!("t{}", dice.roll(12));
    let turn = active.filter(|_| dice.roll(4) > 0).unwrap_or(&any);
    let part = dice.one(&["p1", "p2"]);
    let call = dice.one(&["c1", "c1", "c2"]);
    let id = dice.one(&["m1", "m2", "m3"]);
    let flag = dice.roll(2) == 0;
    let text = json!([{ "type": "text", "text": part }]);
    let message = |text: &str| json!({ "text": text, "origin": { "kind": "user" } });
    let of_call = |kind: &str, more: Value| {
        let mut action = json!({ "type": format!("chat/toolCall{kind}"), "turnId": turn, "toolCallId": call });
        action
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        action
    };
    // Turns should last long enough for something to happen in them.
    let pick = match dice.roll(36) {
        21..=25 if dice.roll(4) > 0 => 7 + dice.roll(13),
        pick => pick,
    };
    match pick {
        0 | 1 => {
            json!({ "type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-11-15T10:00:00.000Z", "message": message(turn) })
        }
        2 | 3 => json!({ "type": "chat/delta", "turnId": turn, "partId": part, "content": "said" }),
        4 => json!({ "type": "chat/reasoning", "turnId": turn, "partId": part, "content": "thought" }),
        5 | 6 => {
            let kind = if flag { "markdown" } else { "reasoning" };
            let part = json!({ "kind": kind, "id": part, "content": "begun" });
            json!({ "type": "chat/responsePart", "turnId": turn, "part": part })
        }
        7 | 8 => {
            let mut action = of_call("Start", json!({ "toolName": "open", "displayName": "Open" }));
            if flag {
                action["contributor"] = json!({ "kind": "mcp", "customizationId": "mcp:vault" });
            }
            action
        }
        9 => of_call("Delta", json!({ "content": "{" })),
        10 | 11 => {
            let mut action = of_call("Ready", json!({ "invocationMessage": "Opens", "toolInput": "{}" }));
            if flag {
                action["confirmed"] = "not-needed".into();
            }
            action
        }
        12 if flag => of_call("Confirmed", json!({ "approved": true, "confirmed": "user-action" })),
        12 => of_call("Confirmed", json!({ "approved": false, "reason": "denied" })),
        13 | 14 => {
            let result = json!({ "success": flag, "pastTenseMessage": "Opened", "content": text });
            let asks = dice.roll(3) == 0;
            of_call(
                "Complete",
                json!({ "result": result, "requiresResultConfirmation": asks }),
            )
        }
        15 | 34 | 35 => of_call("ResultConfirmed", json!({ "approved": flag })),
        16 => of_call("ContentChanged", json!({ "content": text })),
        17 | 18 => {
            let auth = json!({ "reason": "expired", "resource": { "resource": "https://a.example" } });
            of_call("AuthRequired", json!({ "auth": auth }))
        }
        19 => of_call("AuthResolved", json!({})),
        20 => json!({ "type": "chat/usage", "turnId": turn, "usage": { "inputTokens": 1, "outputTokens": 2 } }),
        21 => json!({ "type": "chat/turnComplete", "turnId": turn, "duration": 5 }),
        22 => json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 5 }),
        23 => {
            let part = json!({ "kind": "error", "resumable": flag, "error": { "errorType": "x", "message": "y" } });
            json!({ "type": "chat/error", "turnId": turn, "duration": 5, "part": part })
        }
        24 => json!({ "type": "chat/turnResume", "turnId": last.unwrap_or(turn) }),
        25 if flag => json!({ "type": "chat/truncated", "turnId": turn }),
        25 => json!({ "type": "chat/truncated" }),
        26 => {
            let kind = if flag { "queued" } else { "steering" };
            json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message(id) })
        }
        27 => {
            let kind = if flag { "queued" } else { "steering" };
            json!({ "type": "chat/pendingMessageRemoved", "kind": kind, "id": id })
        }
        28 => json!({ "type": "chat/queuedMessagesReordered", "order": [id] }),
        29 if flag => json!({ "type": "chat/draftChanged", "draft": message(id) }),
        29 => json!({ "type": "chat/draftChanged" }),
        30 => {
            let questions = json!([{ "kind": "text", "id": "q", "message": "?" }]);
            json!({ "type": "chat/inputRequested", "request": { "id": id, "message": "?", "questions": questions } })
        }
        31 if flag => json!({ "type": "chat/inputCompleted", "requestId": id, "response": "decline" }),
        31 => {
            let answer = json!({ "state": "draft", "value": { "kind": "text", "value": "so" } });
            json!({ "type": "chat/inputAnswerChanged", "requestId": id, "questionId": "q", "answer": answer })
        }
        32 => json!({ "type": "chat/isReadChanged", "isRead": flag }),
        _ => json!({ "type": "chat/isArchivedChanged", "isArchived": flag }),
    }
}

#[test]
fn the_host_keeps_what_the_official_reducers_make_of_what_it_tells() {
    let dir = tempfile::tempdir().unwrap();
    let empty: ChatState = serde_json::from_value(json!({
        "resource": "ahp-chat:/x", "title": "", "status": 1, "modifiedAt": "2026-11-15T09:00:00.000Z", "turns": [],
    }))
    .unwrap();
    let (mut told, mut kinds) = (0, std::collections::BTreeSet::new());
    for seed in 1..=30u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // So little stays in memory that turns are put away and fetched again.
        let keep = Keep {
            bytes: 300,
            dir: dir.path().into(),
        };
        let mut ours = ChatStore::new(empty.clone(), keep);
        let mut theirs = empty.clone();
        for step in 0..250 {
            let active = theirs.active_turn.as_ref().map(|turn| turn.id.as_str());
            let last = theirs.turns.last().map(|turn| turn.id.as_str());
            let mut json = action(&mut dice, active, last);
            // What waits for a login would seldom get one by chance.
            let parts = theirs.active_turn.iter().flat_map(|turn| &turn.response_parts);
            let mut waits = parts.filter_map(|part| match part {
                ResponsePart::ToolCall(part) => match &part.tool_call {
                    ToolCallState::AuthRequired(call) => Some(call.tool_call_id.clone()),
                    _ => None,
                },
                _ => None,
            });
            if let (Some(turn), Some(call), 0) = (active, waits.next_back(), dice.roll(3)) {
                json = json!({ "type": "chat/toolCallAuthResolved", "turnId": turn, "toolCallId": call });
            }
            let action: StateAction = serde_json::from_value(json.clone()).unwrap();
            assert!(!matches!(action, StateAction::Unknown(_)), "{json}");
            // No two turns have the same id: such a message is refused before.
            if json["type"] == "chat/turnStarted" && theirs.turns.iter().any(|turn| json["turnId"] == turn.id) {
                continue;
            }
            if ours.apply(&action) == ReduceOutcome::Applied {
                apply_action_to_chat(&mut theirs, &action);
                told += 1;
                kinds.insert(json["type"].to_string());
            }
            let (ours, theirs) = (
                serde_json::to_value(ours.view(0)).unwrap(),
                serde_json::to_value(&theirs).unwrap(),
            );
            assert_eq!(ours, theirs, "seed {seed}, step {step}: {json}");
        }
    }
    assert!(told > 1_000, "{told}");
    assert_eq!(kinds.len(), 28, "{kinds:#?}");
}
