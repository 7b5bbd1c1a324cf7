//! What the clients of the invariant's test do: everything that a client may dispatch, at random.

use serde_json::{Value, json};

use super::{Dice, Player};
use crate::kit::*;

fn message(text: &str) -> Value {
    json!({ "text": text, "origin": { "kind": "user" } })
}

const SCRIPTS: [&str; 11] = [
    "say hello",
    "think about doors then say They open.",
    "stream 40 chunks of 16 bytes",
    "call bash {\"command\":\"echo one\"} then say done",
    "call bash {\"command\":\"touch file\"} and bash {\"command\":\"rm file\"} then say done",
    "ask \"Which colour?\" choices red, blue",
    "fail with server error 1 time then fail with bad request",
    "call ring {} then say rung",
    "start an agent \"say hello from below\" then say heard",
    "!echo typed",
    "/rename Played",
];

/// What a client of the seed's dialect does: the same things in its words.
pub(super) async fn act_seed(dice: &mut Dice, player: &mut Player, chats: &[(String, String)]) {
    let (session, _) = chats[dice.roll(chats.len() as u64) as usize].clone();
    player.turns += 1;
    let turn = format!("{}-{}", player.name, player.turns);
    let known = player.known(&session);
    let active = known["activeTurn"]["id"].clone();
    let said = |text: &str| json!({ "text": text });
    let Some(client) = &mut player.client else { return };
    let action = match dice.roll(9) {
        0 | 1 => {
            let text = SCRIPTS[dice.roll(SCRIPTS.len() as u64) as usize];
            json!({ "type": "session/turnStarted", "turnId": turn, "userMessage": said(text) })
        }
        2 => json!({ "type": "session/turnCancelled", "turnId": active }),
        3 | 4 => {
            let parts = known["activeTurn"]["responseParts"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let pending = parts
                .iter()
                .find(|part| part["toolCall"]["status"] == "pending-confirmation");
            let Some(part) = pending else { return };
            let (call, yes) = (&part["toolCall"]["toolCallId"], dice.roll(3) > 0);
            json!({ "type": "session/permissionResolved", "turnId": active, "requestId": call, "approved": yes })
        }
        5 => {
            let kind = if dice.roll(2) == 0 { "queued" } else { "steering" };
            json!({ "type": "session/pendingMessageSet", "kind": kind, "id": turn, "userMessage": said("say more") })
        }
        6 => json!({ "type": "session/modelChanged", "model": { "id": "rehearsal" } }),
        7 if dice.roll(2) == 0 => json!({ "type": "session/activeClientChanged", "activeClient": null }),
        7 => json!({ "type": "session/activeClientChanged", "activeClient": { "clientId": player.name, "tools": [] } }),
        _ => json!({ "type": "session/isArchivedChanged", "isArchived": dice.roll(2) == 0 }),
    };
    let mut action = action;
    action["session"] = session.into();
    client.dispatch_seed(action).await;
}

pub(super) async fn act(dice: &mut Dice, player: &mut Player, chats: &[(String, String)], places: &[String; 3]) {
    let (session, chat) = chats[dice.roll(chats.len() as u64) as usize].clone();
    player.turns += 1;
    let acted = match dice.roll(3) {
        0 => turn_action(dice, player, &chat),
        1 => chat_action(dice, player, &chat, places),
        _ => session_action(dice, player, &session, places),
    };
    let Some(client) = &mut player.client else { return };
    for (channel, action) in acted {
        client.dispatch(&channel, action).await;
    }
}

/// The elements of a list in a state.
fn list<'a>(state: &'a Value, name: &str) -> &'a [Value] {
    state[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// One of them, where there is any.
fn one<'a>(dice: &mut Dice, all: &'a [Value]) -> Option<&'a Value> {
    match all.len() {
        0 => None,
        count => all.get(dice.roll(count as u64) as usize),
    }
}

/// Saying something, and answering what waits.
fn turn_action(dice: &mut Dice, player: &Player, chat: &str) -> Vec<(String, Value)> {
    let turn = format!("{}-{}", player.name, player.turns);
    let known = player.known(chat);
    let active = &known["activeTurn"]["id"];
    let on_chat = |action: Value| (chat.to_owned(), action);
    if dice.roll(3) == 0 {
        let text = SCRIPTS[dice.roll(SCRIPTS.len() as u64) as usize];
        return vec![on_chat(turn_started(&turn, text))];
    }
    if dice.roll(6) == 0 {
        let id = active.as_str().unwrap_or("none");
        return vec![on_chat(
            json!({ "type": "chat/turnCancelled", "turnId": id, "duration": 1 }),
        )];
    }
    let mut answers = Vec::new();
    for part in list(&known["activeTurn"], "responseParts") {
        let call = &part["toolCall"];
        let about = |kind: &str| json!({ "type": format!("chat/toolCall{kind}"), "turnId": active, "toolCallId": call["toolCallId"] });
        match call["status"].as_str() {
            Some("pending-confirmation") => {
                let mut action = about("Confirmed");
                action["approved"] = (dice.roll(3) > 0).into();
                answers.push(on_chat(action));
            }
            Some("running") if call["contributor"]["clientId"] == player.name.as_str() => {
                let content = json!([{ "type": "text", "text": turn }]);
                let mut action = match dice.roll(2) {
                    0 => about("ContentChanged"),
                    _ => about("Complete"),
                };
                if action["type"] == "chat/toolCallComplete" {
                    action["result"] =
                        json!({ "success": dice.roll(2) == 0, "pastTenseMessage": "Rang", "content": content });
                    action["requiresResultConfirmation"] = (dice.roll(2) == 0).into();
                } else {
                    action["content"] = content;
                }
                answers.push(on_chat(action));
            }
            Some("pending-result-confirmation") => {
                let mut action = about("ResultConfirmed");
                action["approved"] = (dice.roll(2) == 0).into();
                answers.push(on_chat(action));
            }
            _ => {}
        }
        if part["kind"] == "inputRequest" && part.get("response").is_none() {
            let id = &part["request"]["id"];
            let answer = json!({ "state": "submitted", "value": { "kind": "selected", "value": "red" } });
            answers.push(on_chat(match dice.roll(3) {
                0 => json!({ "type": "chat/inputAnswerChanged", "requestId": id, "questionId": "answer", "answer": answer }),
                1 => json!({ "type": "chat/inputCompleted", "requestId": id, "response": "decline" }),
                _ => json!({ "type": "chat/inputCompleted", "requestId": id, "response": "accept", "answers": { "answer": answer } }),
            }));
        }
    }
    answers
}

/// Everything else about a chat.
fn chat_action(dice: &mut Dice, player: &Player, chat: &str, places: &[String; 3]) -> Vec<(String, Value)> {
    let turn = format!("{}-{}", player.name, player.turns);
    let known = player.known(chat);
    let (turns, queued) = (list(&known, "turns"), list(&known, "queuedMessages"));
    let (flag, place) = (dice.roll(2) == 0, &places[dice.roll(3) as usize]);
    let kind = if flag { "queued" } else { "steering" };
    let action = match dice.roll(10) {
        0 | 1 => {
            json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": turn, "message": message("say more") })
        }
        2 => match one(dice, queued) {
            Some(one) => json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": one["id"] }),
            None => {
                json!({ "type": "chat/pendingMessageRemoved", "kind": "steering", "id": known["steeringMessage"]["id"] })
            }
        },
        3 => match queued.last() {
            Some(last) => json!({ "type": "chat/queuedMessagesReordered", "order": [last["id"]] }),
            None => return Vec::new(),
        },
        4 => json!({ "type": "chat/draftChanged", "draft": flag.then(|| message(&turn)) }),
        5 => match one(dice, turns) {
            Some(last) => json!({ "type": "chat/truncated", "turnId": last["id"] }),
            None => return Vec::new(),
        },
        6 => json!({ "type": "chat/turnResume", "turnId": turns.last().map(|turn| turn["id"].clone()) }),
        7 => json!({ "type": "chat/isReadChanged", "isRead": flag }),
        8 => json!({ "type": "chat/isArchivedChanged", "isArchived": flag }),
        _ if flag => json!({ "type": "chat/workingDirectoryRemoved", "directory": place }),
        _ => json!({ "type": "chat/workingDirectorySet", "directory": place }),
    };
    vec![(chat.to_owned(), action)]
}

/// Everything about a session, what stands beside it, and the host.
fn session_action(dice: &mut Dice, player: &Player, session: &str, places: &[String; 3]) -> Vec<(String, Value)> {
    let name = format!("{}-{}", player.name, player.turns);
    let known = player.known(session);
    let (flag, number) = (dice.roll(2) == 0, dice.roll(3));
    let place = &places[number as usize];
    let mode = ["interactive", "plan", "autopilot"][number as usize];
    let approve = ["default", "autoApprove", "odd"][number as usize];
    let things: Vec<Value> = list(&known, "customizations")
        .iter()
        .flat_map(|thing| std::iter::once(thing).chain(list(thing, "children")))
        .cloned()
        .collect();
    let mut channel = session.to_owned();
    let action = match dice.roll(16) {
        0 => json!({ "type": "session/titleChanged", "title": name }),
        1 => json!({ "type": "session/isReadChanged", "isRead": flag }),
        2 => json!({ "type": "session/isArchivedChanged", "isArchived": flag }),
        3 => {
            json!({ "type": "session/configChanged", "config": { "mode": mode } })
        }
        4 if flag => json!({ "type": "session/configChanged", "config": { "model": "rehearsal" }, "replace": true }),
        4 => {
            json!({ "type": "session/configChanged", "config": { "autoApprove": approve } })
        }
        5 if flag => json!({ "type": "session/activeClientRemoved", "clientId": player.name }),
        5 | 6 => {
            let ring = json!({ "name": "ring", "description": "rings", "inputSchema": { "type": "object" } });
            let tools = if flag { json!([ring]) } else { json!([]) };
            json!({ "type": "session/activeClientSet", "activeClient": { "clientId": player.name, "displayName": name, "tools": tools } })
        }
        7 | 8 => json!({ "type": "session/workingDirectorySet", "directory": place }),
        9 if flag => json!({ "type": "session/workingDirectoryRemoved", "directory": place }),
        9 => {
            let other = &places[dice.roll(3) as usize];
            json!({ "type": "session/workingDirectoryReplaced", "directory": place, "replacement": other })
        }
        10 | 11 => {
            let Some(thing) = one(dice, &things) else {
                return Vec::new();
            };
            let scopes = [
                json!({ "kind": "session", "enabled": flag }),
                json!({ "kind": "workspace", "uri": known["workingDirectories"][0], "enabled": flag }),
                json!({ "kind": "global", "enabled": !flag }),
            ];
            let said: Vec<&Value> = scopes.iter().filter(|_| dice.roll(2) == 0).collect();
            json!({ "type": "session/customizationToggled", "id": thing["id"], "enablement": said })
        }
        12 => {
            let server = things.iter().find(|thing| thing["type"] == "mcpServer");
            let Some(server) = server else { return Vec::new() };
            let wish = ["Start", "Stop", "Background"][number as usize];
            json!({ "type": format!("session/mcpServer{wish}Requested"), "id": server["id"] })
        }
        13 => {
            channel = ROOT.to_owned();
            let mut action = json!({ "type": "root/configChanged", "config": { format!("key{number}"): flag } });
            if dice.roll(4) == 0 {
                action["replace"] = true.into();
            }
            action
        }
        14 => {
            channel = format!("{session}/changeset/session");
            let changes = player.known(&channel);
            let Some(file) = one(dice, list(&changes, "files")) else {
                return Vec::new();
            };
            json!({ "type": "changeset/filesReviewChanged", "files": [file["id"]], "reviewed": flag })
        }
        _ => {
            channel = format!("{session}/annotations");
            let (id, entry) = (
                format!("a{number}"),
                json!({ "id": format!("e{}", dice.roll(3)), "text": name }),
            );
            match dice.roll(5) {
                0 | 1 => json!({ "type": "annotations/set", "annotation": {
                    "id": id, "origin": { "session": session }, "resource": place, "resolved": flag, "entries": [entry],
                } }),
                2 => json!({ "type": "annotations/updated", "annotationId": id, "resolved": flag }),
                3 if flag => json!({ "type": "annotations/removed", "annotationId": id }),
                3 => json!({ "type": "annotations/entryRemoved", "annotationId": id, "entryId": entry["id"] }),
                _ => json!({ "type": "annotations/entrySet", "annotationId": id, "entry": entry }),
            }
        }
    };
    vec![(channel, action)]
}
