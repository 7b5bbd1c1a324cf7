//! The obligations of a server, group by group. The table in `docs/ahp.md` says which test shows which number.

mod chats;
mod connection;
mod services;
mod state;
mod tools;
mod turns;

use serde_json::{Value, json};

fn message(text: &str) -> Value {
    json!({ "text": text, "origin": { "kind": "user" } })
}
