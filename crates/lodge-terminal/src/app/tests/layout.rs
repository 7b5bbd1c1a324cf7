//! What is said to a person is said whole, at every width, and a conversation that changes under the screen breaks nothing.

use super::*;

const LONG: &str = "The host cannot be started: /home/somebody/with/a/long/path/lodge.toml has an error in line 12, so \
                    correct it and press Enter, or start the host by hand with `lodge serve` to read all of it";

fn flat(shown: &str) -> String {
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn messages_are_wrapped_instead_of_cut() {
    for width in [60, 100, 160] {
        let mut complaining = app(json!([]));
        complaining.complain(LONG);
        let shown = screen(&mut complaining, width, 20);
        assert!(flat(&shown).contains(LONG), "{shown}");
        let mut away = app(json!([]));
        away.lost();
        away.away_because(LONG);
        let shown = screen(&mut away, width, 20);
        assert!(flat(&shown).contains(LONG), "{shown}");
        let mut gone = app(json!([]));
        gone.deleted();
        assert!(flat(&screen(&mut gone, width, 20)).contains(DELETED));
        let mut endless = app(json!([]));
        endless.complain(&LONG.repeat(20));
        let shown = screen(&mut endless, width, 20);
        assert!(shown.contains('…') && shown.contains("Type a message"), "{shown}");
    }
}

#[test]
fn what_went_wrong_stays_until_somebody_is_there() {
    let long_ago = |app: &mut App| {
        let note = app.note.as_mut().unwrap();
        note.since = note.since.checked_sub(2 * NOTE).unwrap();
    };
    let mut app = app(json!([]));
    app.tell("Good news.");
    long_ago(&mut app);
    assert!(!screen(&mut app, 60, 20).contains("Good news."));
    app.complain("Bad news.");
    long_ago(&mut app);
    assert!(screen(&mut app, 60, 20).contains("Bad news."));
    assert!(!app.is_moving(), "it needs no frames meanwhile");
    press(&mut app, KeyCode::Left, KeyModifiers::NONE);
    assert!(!screen(&mut app, 60, 20).contains("Bad news."));
    // Who types on sees it for as long as any note.
    app.complain("More bad news.");
    type_in(&mut app, "on");
    assert!(screen(&mut app, 60, 20).contains("More bad news."));
}

#[test]
fn the_row_of_the_search_fits() {
    let mut app = app(json!([turn("t", "needle", "needle")]));
    screen(&mut app, 60, 20);
    press(&mut app, KeyCode::Char('f'), KeyModifiers::CONTROL);
    type_in(&mut app, "needle");
    let shown = screen(&mut app, 60, 20);
    let row = shown.lines().find(|row| row.starts_with("Search: ")).unwrap();
    assert!(row.contains("2 found") && row.ends_with('…'), "{row}");
}

#[test]
fn a_rewind_by_another_client_between_two_frames_breaks_nothing() {
    let mut long = turn("a", "first", "one");
    let parts = (0..5)
        .map(|n| json!({ "kind": "markdown", "id": format!("p{n}"), "content": format!("part {n}\n\n").repeat(20) }));
    long["responseParts"] = parts.collect();
    for code in [KeyCode::PageUp, KeyCode::PageDown, KeyCode::Up] {
        let mut app = app(json!([long, turn("b", "second", "two")]));
        screen(&mut app, 60, 20);
        press(&mut app, KeyCode::PageUp, KeyModifiers::NONE);
        screen(&mut app, 60, 20);
        act(&mut app, 1, json!({ "type": "chat/truncated" }));
        let message = json!({ "text": "anew", "origin": { "kind": "user" } });
        act(
            &mut app,
            2,
            json!({ "type": "chat/turnStarted", "turnId": "c", "startedAt": "2026-11-15T10:00:00.000Z", "message": message }),
        );
        press(&mut app, code, KeyModifiers::NONE);
        press(&mut app, KeyCode::Char('f'), KeyModifiers::CONTROL);
        type_in(&mut app, "part");
        press(&mut app, KeyCode::Down, KeyModifiers::NONE);
        let shown = screen(&mut app, 60, 20);
        assert!(shown.contains("› anew") && !shown.contains("part 4"), "{shown}");
    }
}

#[test]
fn all_output_of_a_call_that_ended_can_be_read() {
    let output: String = (1..=2000).map(|n| format!("row {n}\n")).collect();
    let mut told = turn("t", "go", "");
    told["responseParts"] = json!([{ "kind": "toolCall", "toolCall": {
        "status": "completed", "toolCallId": "c", "toolName": "bash", "displayName": "Run command", "confirmed": "not-needed",
        "invocationMessage": "Running make", "pastTenseMessage": "Ran make", "success": true,
        "content": [{ "type": "text", "text": output }],
    } }]);
    let mut app = app(json!([told]));
    press(&mut app, KeyCode::Char('x'), KeyModifiers::CONTROL);
    screen(&mut app, 60, 20);
    press(&mut app, KeyCode::Home, KeyModifiers::CONTROL);
    let shown = screen(&mut app, 60, 20);
    assert!(shown.contains("row 1\n"), "{shown}");
}
