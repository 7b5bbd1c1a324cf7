//! What the clients of the invariant's test make and remove: chats, sessions and automations.

use serde_json::{Value, json};

use super::{Dice, Player, terminals::listen};
use crate::kit::*;

pub(super) const AUTOMATIONS: &str = "ahp-automations://";
/// How the addresses begin of what may be gone at any time.
const CHAT: &str = "ahp-chat:/fleeting-";
const SESSION: &str = "lodge:/fleeting-";
const AUTOMATION: &str = "ahp-automation:/fleeting-";
/// Sessions are slow to make: more than these would show nothing more.
const MOST: u32 = 4;

/// Whether a channel may be gone without a word on it.
pub(super) fn may_be_gone(channel: &str) -> bool {
    [CHAT, SESSION, "ahp-terminal:"]
        .iter()
        .any(|prefix| channel.starts_with(prefix))
}

/// A state without what no action on its channel tells: what a further chat is called stands in its session's list of chats.
pub(super) fn told(channel: &str, mut state: Value) -> Value {
    if channel.starts_with(CHAT) {
        state["title"] = Value::Null;
    }
    state
}

fn automation(title: &str) -> Value {
    json!({
        "title": title, "enabled": true, "triggers": [], "session": {},
        "message": { "text": "say hello", "origin": { "kind": "automation" } },
    })
}

pub(super) async fn act(dice: &mut Dice, player: &mut Player, chats: &[(String, String)], made: &mut u32) {
    player.turns += 1;
    let name = format!("{}-{}", player.name, player.turns);
    let (session, chat) = &chats[dice.roll(chats.len() as u64) as usize];
    let mine = player.mirror.channels();
    let mut one_of = |prefix: &str| {
        let found: Vec<&String> = mine.iter().filter(|channel| channel.starts_with(prefix)).collect();
        match found.len() {
            0 => None,
            count => Some(found[dice.roll(count as u64) as usize].clone()),
        }
    };
    let (fleeting_chat, fleeting_session) = (one_of(CHAT), one_of(SESSION));
    let last_turn = player.known(chat)["turns"]
        .as_array()
        .and_then(|turns| Some(turns.last()?["id"].clone()));
    let automation_uri = format!("{AUTOMATION}{}", dice.roll(3));
    let (what, how) = (dice.roll(10), dice.roll(4));
    let Some(client) = &mut player.client else { return };
    match (what, fleeting_chat, fleeting_session) {
        (0 | 1, ..) => {
            let uri = format!("{CHAT}{name}");
            let mut params = json!({ "channel": session, "chat": uri });
            if let (0, Some(turn)) = (how, last_turn) {
                params["source"] = json!({ "kind": "fork", "chat": chat, "turnId": turn });
            }
            // The turn may have been cut meanwhile.
            if client.request("createChat", params).await.is_ok() {
                listen(player, &uri).await;
            }
        }
        (2, Some(chat), _) => drop(client.request("disposeChat", json!({ "channel": chat })).await),
        (3 | 4, Some(chat), _) => {
            client
                .dispatch(&chat, turn_started(&name, "think about doors then say They open."))
                .await;
        }
        (5, ..) if *made < MOST => {
            *made += 1;
            let uri = format!("{SESSION}{name}");
            client
                .request("createSession", json!({ "channel": uri }))
                .await
                .unwrap();
            listen(player, &uri).await;
        }
        (5 | 6, _, Some(session)) if how == 0 => {
            drop(client.request("disposeSession", json!({ "channel": session })).await);
        }
        (5 | 6, _, Some(session)) => {
            client
                .dispatch(&session, json!({ "type": "session/titleChanged", "title": name }))
                .await;
        }
        _ if how == 3 => {
            let params = json!({ "channel": AUTOMATIONS, "automation": automation_uri, "requestId": name });
            drop(client.request("runAutomation", params).await);
        }
        _ => {
            let action = match how {
                0 => {
                    json!({ "type": "automation/createRequested", "resource": automation_uri, "definition": automation(&name) })
                }
                1 => {
                    json!({ "type": "automation/updateRequested", "resource": automation_uri, "changes": { "title": name } })
                }
                _ => json!({ "type": "automation/removed", "resource": automation_uri }),
            };
            client.dispatch(AUTOMATIONS, action).await;
        }
    }
}
