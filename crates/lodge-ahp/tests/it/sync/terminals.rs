//! What the clients of the invariant's test do with terminals: their own, those of others, and the agent's.

use serde_json::{Value, json};

use super::{Dice, Player, SEED};
use crate::kit::*;

/// Shells are slower than all else here: more than these would make the test long and show nothing more.
const MOST: u32 = 3;

const TYPED: [&str; 9] = [
    "echo one\r",
    "printf '\\033[31mred\\033[0m no end of line'\r",
    "cd / && false\r",
    "printf '\\033]2;named by a program\\007'\r",
    "seq 1 40; stty size\r",
    "for i in 1 2 3; do echo $i; sleep 0.02; done\r",
    "unfinished",
    "\u{3}",
    "exit 3\r",
];

/// Makes a terminal, listens to one, or says something to one.
pub(super) async fn act(dice: &mut Dice, player: &mut Player, chats: &[(String, String)], made: &mut u32) {
    let seed = player.version == SEED;
    let root = player.known(if seed { SEED_ROOT } else { ROOT });
    let listed: Vec<String> = root["terminals"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|terminal| Some(terminal["resource"].as_str()?.to_owned()))
        .collect();
    let (session, chat) = &chats[dice.roll(chats.len() as u64) as usize];
    let claim = match dice.roll(3) {
        0 => json!({ "kind": "session", "session": session, "chat": chat }),
        1 => json!({ "kind": "client", "clientId": player.name }),
        _ => json!({ "kind": "client", "clientId": format!("p{}", dice.roll(4)) }),
    };
    let (pick, cols, rows) = (dice.roll(14), 40 + dice.roll(3), 10 + dice.roll(3));
    let Some(client) = &mut player.client else { return };
    let Some(uri) = (match listed.len() {
        0 => None,
        count => listed.get(dice.roll(count as u64) as usize).cloned(),
    })
    .filter(|_| pick > 0 || *made >= MOST) else {
        if *made < MOST {
            *made += 1;
            let uri = format!("ahp-terminal:/{made}");
            let params = json!({ "channel": uri, "terminal": uri, "claim": claim, "cols": cols, "rows": rows });
            // The client that is to hold it may not be the one that asks.
            if client.request("createTerminal", params).await.is_ok() {
                listen(player, &uri).await;
            }
        }
        return;
    };
    let mut action = match pick {
        0..=3 => return listen(player, &uri).await,
        4..=8 => json!({ "type": "terminal/input", "data": TYPED[dice.roll(TYPED.len() as u64) as usize] }),
        9 => json!({ "type": "terminal/resized", "cols": cols, "rows": rows }),
        10 => json!({ "type": "terminal/titleChanged", "title": format!("named by {}", player.name) }),
        11 => json!({ "type": "terminal/cleared" }),
        12 => json!({ "type": "terminal/claimed", "claim": claim }),
        _ => {
            // The agent's cannot be, and somebody may have been faster.
            let params = json!({ "channel": uri, "terminal": uri });
            let _ = client.request("disposeTerminal", params).await;
            return;
        }
    };
    if seed {
        action["terminal"] = uri.into();
        client.dispatch_seed(action).await;
    } else {
        client.dispatch(&uri, action).await;
    }
}

/// Begins to listen, or does so anew.
pub(super) async fn listen(player: &mut Player, uri: &str) {
    let Some(client) = &mut player.client else { return };
    let params: Value = json!({ "channel": uri, "resource": uri });
    client.notify("unsubscribe", params.clone()).await;
    player.mirror.forget(uri);
    let result = client.request("subscribe", params).await;
    player.pump();
    // It may be gone by now.
    if let Ok(result) = result {
        player.mirror.snapshot(&result["snapshot"]);
    }
}
