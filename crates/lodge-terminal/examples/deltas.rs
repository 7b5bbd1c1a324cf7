//! What a delta costs the client: 50,000 of them into one answer of many lines, a frame after each thousandth of a second's worth.
//!
//! `cargo run --release -p lodge-terminal --example deltas`

use std::{io::Write, time::Instant};

use ahp::ahp_types::ActionEnvelope;
use lodge_terminal::{
    App, Painter, Scheme, Setup,
    client::mirror::{Channel, Mirror},
};
use serde_json::json;

/// Deltas, and how many come between two frames (16 ms at 50,000 a second).
const DELTAS: u64 = 50_000;
const PER_FRAME: u64 = 800;

fn main() {
    let state = |value| serde_json::from_value(value);
    let root = serde_json::from_value(json!({ "agents": [] })).expect("a root");
    let session = state(json!({
        "provider": "lodge", "title": "", "status": 1, "lifecycle": "ready", "activeClients": [], "chats": [],
    }))
    .expect("a session");
    let message = json!({ "text": "go", "origin": { "kind": "user" } });
    let part = json!({ "kind": "markdown", "id": "p", "content": "" });
    let turn =
        json!({ "id": "t", "startedAt": "2026-11-15T10:00:00.000Z", "message": message, "responseParts": [part] });
    let chat = serde_json::from_value(json!({
        "resource": "c", "title": "", "status": 1, "modifiedAt": "2026-11-15T10:00:00.000Z", "turns": [], "activeTurn": turn,
    }))
    .expect("a chat");
    let mirror = Mirror::new(
        root,
        Channel::new("s".into(), session, 0),
        Channel::new("c".into(), chat, 0),
    );
    let mut app = App::new(Setup {
        host: None,
        mirror,
        client_id: "me".into(),
        history: Vec::new(),
        scheme: Scheme::Dark,
        prices: None,
        model: None,
        vim: false,
        keys: lodge_terminal::Keymap::default(),
    });
    let mut painter = Painter::new(120, 40);
    let mut written = 0;
    let texts: Vec<String> = (1..=DELTAS)
        .map(|number| {
            let content = match number % 20 {
                0 => "some *words*.\n\n".to_owned(),
                1 if number % 200 == 1 => format!("```rust\nfn f{number}() {{ /* a */ }}\n```\n"),
                _ => format!("word {number} "),
            };
            let action = json!({ "type": "chat/delta", "turnId": "t", "partId": "p", "content": content });
            json!({ "channel": "c", "action": action, "serverSeq": number }).to_string()
        })
        .collect();
    let began = Instant::now();
    let mut frames = 0;
    for (number, text) in texts.iter().enumerate() {
        let envelope: ActionEnvelope = serde_json::from_str(text).expect("an action");
        app.apply(&envelope);
        app.settle();
        if (number as u64 + 1).is_multiple_of(PER_FRAME) {
            let mut bytes = Vec::new();
            painter
                .frame(&mut bytes, (120, 40), |buffer| app.draw(buffer))
                .expect("memory takes everything");
            written += bytes.len();
            frames += 1;
        }
    }
    let micros = began.elapsed().as_micros();
    let mut out = std::io::stdout();
    let _ = writeln!(
        out,
        "{DELTAS} deltas, {frames} frames: {:.2} µs for each delta, {} bytes for each frame",
        micros as f64 / DELTAS as f64,
        written / frames
    );
}
