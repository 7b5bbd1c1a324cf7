//! Tests of the app, without a host and a terminal.

use ahp::ahp_types::{ActionEnvelope, state::RootState};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::{buffer::Buffer, layout::Rect};
use serde_json::{Value, json};

use super::*;
use crate::client::mirror::Channel;

mod drafts;
mod layout;
mod lists;
mod questions;
mod safety;

fn mirror(turns: Value) -> Mirror {
    let root: RootState = serde_json::from_value(json!({
        "agents": [{ "provider": "lodge", "displayName": "Lodge", "description": "", "models": [
            { "id": "m-1", "provider": "x", "name": "M", "maxContextWindow": 100_000 },
            { "id": "m-2", "provider": "x", "name": "N", "supportsVision": false },
        ] }],
    }))
    .unwrap();
    let session = serde_json::from_value(json!({
        "provider": "lodge", "title": "T", "status": 1, "lifecycle": "ready", "activeClients": [], "chats": [],
        "workingDirectories": ["file:///home/me/project"],
        "config": { "schema": { "type": "object", "properties": {} }, "values": { "model": "m-1", "mode": "plan" } },
    }))
    .unwrap();
    let chat = serde_json::from_value(json!({
        "resource": "ahp-chat:/c", "title": "", "status": 1, "modifiedAt": "2026-11-15T10:00:00.000Z", "turns": turns,
    }))
    .unwrap();
    Mirror::new(
        root,
        Channel::new("lodge:/s".into(), session, 0),
        Channel::new("ahp-chat:/c".into(), chat, 0),
    )
}

fn app(turns: Value) -> App {
    App::new(Setup {
        host: None,
        mirror: mirror(turns),
        client_id: "me".into(),
        history: Vec::new(),
        scheme: Scheme::Plain,
        prices: None,
        model: None,
        vim: false,
        keys: Keymap::default(),
    })
}

fn turn(id: &str, text: &str, answer: &str) -> Value {
    json!({
        "id": id, "startedAt": "2026-11-15T10:00:00.000Z", "state": "complete",
        "message": { "text": text, "origin": { "kind": "user" } },
        "responseParts": [{ "kind": "markdown", "id": format!("{id}-a"), "content": answer }],
    })
}

fn screen(app: &mut App, width: u16, height: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    app.draw(&mut buffer);
    let row = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol())
            .collect::<String>()
            .trim_end()
            .to_owned()
    };
    (0..height).map(row).collect::<Vec<_>>().join("\n")
}

fn press(app: &mut App, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
    app.key(&KeyEvent::new(code, modifiers));
    app.settle()
}

fn type_in(app: &mut App, text: &str) {
    for c in text.chars() {
        press(app, KeyCode::Char(c), KeyModifiers::NONE);
    }
}

fn act(app: &mut App, seq: u64, action: Value) {
    let envelope: ActionEnvelope =
        serde_json::from_value(json!({ "channel": "ahp-chat:/c", "action": action, "serverSeq": seq })).unwrap();
    app.apply(&envelope);
}

/// Waits until a single letter counts as an answer.
fn pause(app: &mut App) -> Vec<Effect> {
    if let Some(held) = &mut app.held {
        held.since = held.since.checked_sub(Duration::from_secs(1)).unwrap();
    }
    app.settle()
}

fn confirmation(id: &str) -> Value {
    json!({
        "kind": "toolConfirmation", "id": id, "chat": "ahp-chat:/c", "turnId": "t",
        "toolCall": {
            "status": "pending-confirmation", "toolCallId": id, "toolName": "bash", "displayName": "Run",
            "invocationMessage": "Running", "confirmationTitle": format!("Run {id}?"), "toolInput": format!("make {id}"),
            "options": [
                { "id": "once", "label": "Allow once", "kind": "approve" },
                { "id": "no", "label": "Deny", "kind": "deny" },
            ],
        },
    })
}

fn ask(app: &mut App, ids: &[&str]) {
    let asked: Vec<Value> = ids.iter().map(|id| confirmation(id)).collect();
    app.mirror.session.state.input_needed = Some(serde_json::from_value(json!(asked)).unwrap());
    app.settle();
}

fn answers(effects: &[Effect]) -> usize {
    let is_answer = |effect: &&Effect| matches!(effect, Effect::Dispatch(_, _, Sent::Answer));
    effects.iter().filter(is_answer).count()
}

#[test]
fn letters_that_are_typed_one_after_the_other_answer_nothing() {
    // A message that begins with letters of answers goes to the editor.
    for text in ["any news?", "no, wait", "1 or 2", "yes and no", "how are you"] {
        let mut app = app(json!([]));
        ask(&mut app, &["one"]);
        screen(&mut app, 60, 20);
        for letter in text.chars() {
            let effects = press(&mut app, KeyCode::Char(letter), KeyModifiers::NONE);
            assert_eq!(answers(&effects), 0, "{text:?}: {effects:?}");
        }
        assert_eq!(answers(&pause(&mut app)), 0, "{text:?}");
        assert!(screen(&mut app, 60, 20).contains(&format!("› {text}")), "{text:?}");
    }
    // A single letter is an answer, even with Enter after it.
    for keys in [&[KeyCode::Char('y')][..], &[KeyCode::Char('y'), KeyCode::Enter]] {
        let mut app = app(json!([]));
        ask(&mut app, &["one"]);
        screen(&mut app, 60, 20);
        let pressed: usize = keys
            .iter()
            .map(|key| answers(&press(&mut app, *key, KeyModifiers::NONE)))
            .sum();
        assert_eq!(pressed + answers(&pause(&mut app)), 1, "{keys:?}");
    }
    // A question that was not drawn cannot be answered.
    let mut app = app(json!([]));
    ask(&mut app, &["one"]);
    let effects = press(&mut app, KeyCode::Char('y'), KeyModifiers::NONE);
    assert_eq!(answers(&effects) + answers(&pause(&mut app)), 0);
    let shown = screen(&mut app, 60, 20);
    assert!(
        shown.contains("› y") && shown.contains("1 open question (Tab)"),
        "{shown}"
    );
    // If somebody else answers the question, the letter for it is dropped.
    press(&mut app, KeyCode::Backspace, KeyModifiers::NONE);
    press(&mut app, KeyCode::Tab, KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('y'), KeyModifiers::NONE);
    ask(&mut app, &["two"]);
    screen(&mut app, 60, 20);
    assert_eq!(answers(&pause(&mut app)), 0);
}

#[test]
fn an_answer_in_words_is_edited_like_a_line() {
    let mut app = app(json!([]));
    ask(&mut app, &["one"]);
    screen(&mut app, 60, 20);
    // The last choice is to deny with a reason.
    press(&mut app, KeyCode::Up, KeyModifiers::NONE);
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    type_in(&mut app, "not hre");
    press(&mut app, KeyCode::Left, KeyModifiers::NONE);
    press(&mut app, KeyCode::Left, KeyModifiers::NONE);
    type_in(&mut app, "e");
    assert!(
        screen(&mut app, 60, 20).contains("› not he▏re"),
        "{}",
        screen(&mut app, 60, 20)
    );
    press(&mut app, KeyCode::Home, KeyModifiers::NONE);
    type_in(&mut app, "please ");
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let said = |effect: &Effect| matches!(effect, Effect::Dispatch(_, action, _) if serde_json::to_string(action).unwrap().contains("please not here"));
    assert!(effects.iter().any(said), "{effects:?}");
}

#[test]
fn a_failed_turn_that_goes_on_is_shown_as_it_goes_on() {
    let mut failed = turn("t", "do it", "Half");
    failed["state"] = json!("error");
    let error = json!({ "kind": "error", "resumable": true, "error": { "errorType": "x", "message": "It broke." } });
    failed["responseParts"].as_array_mut().unwrap().push(error);
    let mut app = app(json!([turn("s", "before", "Fine"), failed]));
    assert!(screen(&mut app, 60, 20).contains("It broke."));
    type_in(&mut app, "/retry");
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let resumes = |effect: &Effect| matches!(effect, Effect::Dispatch(_, action, _) if matches!(&**action, StateAction::ChatTurnResume(resume) if resume.turn_id == "t"));
    assert!(effects.iter().any(resumes), "{effects:?}");
    // The turn continues and ends between two frames.
    act(&mut app, 1, json!({ "type": "chat/turnResume", "turnId": "t" }));
    let part = json!({ "kind": "markdown", "id": "p", "content": "and whole." });
    act(
        &mut app,
        2,
        json!({ "type": "chat/responsePart", "turnId": "t", "part": part }),
    );
    let shown = screen(&mut app, 60, 20);
    assert!(shown.contains("and whole.") && shown.contains("Esc stops"), "{shown}");
    act(
        &mut app,
        3,
        json!({ "type": "chat/turnComplete", "turnId": "t", "duration": 1 }),
    );
    let shown = screen(&mut app, 60, 20);
    assert!(
        shown.contains("Half") && shown.contains("and whole.") && !shown.contains("Esc stops"),
        "{shown}"
    );
    type_in(&mut app, "/retry");
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(screen(&mut app, 60, 20).contains("did not fail"));
}

#[test]
fn search_and_the_way_to_the_beginning_load_earlier_turns() {
    let older = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Older(_)));
    let loaded = |app: &mut App, seq, id: &str, text: &str, next: Option<&str>| {
        let mut action = json!({ "type": "chat/turnsLoaded", "turns": [turn(id, text, "An answer.")] });
        if let Some(next) = next {
            action["turnsNextCursor"] = json!(next);
        }
        act(app, seq, action);
        app.settle()
    };
    let begun = || {
        let mut app = app(json!([turn("c", "third", "An answer.")]));
        app.mirror.chat.state.turns_next_cursor = Some("2".into());
        screen(&mut app, 60, 12);
        app
    };
    let mut app = begun();
    press(&mut app, KeyCode::Char('f'), KeyModifiers::CONTROL);
    type_in(&mut app, "first");
    assert!(older(&press(&mut app, KeyCode::Enter, KeyModifiers::NONE)));
    assert!(older(&loaded(&mut app, 1, "b", "second", Some("1"))));
    assert!(!older(&loaded(&mut app, 2, "a", "first", None)));
    let shown = screen(&mut app, 60, 12);
    assert!(
        shown.contains("› first") && !shown.contains("No more matches"),
        "{shown}"
    );
    let mut app = begun();
    assert!(older(&press(&mut app, KeyCode::Home, KeyModifiers::CONTROL)));
    assert!(older(&loaded(&mut app, 1, "b", "second", Some("1"))));
    assert!(!older(&loaded(&mut app, 2, "a", "first", None)));
    assert!(
        screen(&mut app, 60, 8).starts_with("› first"),
        "{}",
        screen(&mut app, 60, 8)
    );
    // Words that are nowhere are reported once all turns are loaded.
    let mut app = begun();
    press(&mut app, KeyCode::Char('f'), KeyModifiers::CONTROL);
    type_in(&mut app, "absent");
    assert!(older(&press(&mut app, KeyCode::Enter, KeyModifiers::NONE)));
    loaded(&mut app, 1, "a", "first", None);
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    assert!(screen(&mut app, 80, 12).contains("No more matches above for \"absent\"."));
}

#[test]
fn the_approval_mode_is_in_the_status_line_and_chosen_by_its_name() {
    let mut app = app(json!([]));
    for (mode, shown) in [
        ("ask", "approvals: ask · "),
        ("none", "approvals: none · "),
        ("all", "auto-approve on · "),
    ] {
        type_in(&mut app, &format!("/approvals {mode}"));
        let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
        assert!(
            matches!(&effects[..], [.., Effect::Dispatch(_, action, _)]
                if matches!(&**action, StateAction::SessionConfigChanged(change) if change.config["lodge.approvals"] == mode)),
            "{effects:?}"
        );
        let values = &mut app.mirror.session.state.config.as_mut().unwrap().values;
        values.insert("lodge.approvals".into(), mode.into());
        let status = screen(&mut app, 40, 12).lines().last().unwrap().to_owned();
        assert!(status.starts_with(shown), "{status}");
    }
    type_in(&mut app, "/approvals off");
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(screen(&mut app, 80, 12).contains("The approval modes are ask, safe, edits, all and none."));
}

#[test]
fn a_message_goes_out_and_its_answer_is_shown_as_it_comes() {
    let mut app = app(json!([]));
    type_in(&mut app, "do it");
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let id = effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Dispatch(_, action, Sent::Message(id)) if matches!(**action, StateAction::ChatTurnStarted(_)) => {
                Some(id.clone())
            }
            _ => None,
        })
        .unwrap();
    let message = json!({ "text": "do it", "origin": { "kind": "user" } });
    act(
        &mut app,
        1,
        json!({ "type": "chat/turnStarted", "turnId": id, "startedAt": "2026-11-15T10:00:00.000Z", "message": message }),
    );
    let part = json!({ "kind": "markdown", "id": "p", "content": "" });
    act(
        &mut app,
        2,
        json!({ "type": "chat/responsePart", "turnId": id, "part": part }),
    );
    act(
        &mut app,
        3,
        json!({ "type": "chat/delta", "turnId": id, "partId": "p", "content": "Some **bo" }),
    );
    assert!(
        screen(&mut app, 60, 16).contains("Some **bo"),
        "{}",
        screen(&mut app, 60, 16)
    );
    act(
        &mut app,
        4,
        json!({ "type": "chat/delta", "turnId": id, "partId": "p", "content": "ld** words" }),
    );
    let shown = screen(&mut app, 60, 16);
    assert!(
        shown.contains("› do it") && shown.contains("Some bold words") && shown.contains("Esc stops"),
        "{shown}"
    );
    // A note does not hide the activity, and the activity does not hide the note.
    app.complain("A note.");
    let shown = screen(&mut app, 60, 16);
    assert!(shown.contains("A note.") && shown.contains("Esc stops"), "{shown}");
    app.lost();
    let shown = screen(&mut app, 60, 16);
    assert!(shown.contains("A note.") && shown.contains("not reachable"), "{shown}");
    app.back();
    let effects = press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    assert!(
        matches!(&effects[..], [Effect::Dispatch(_, action, _)] if matches!(**action, StateAction::ChatTurnCancelled(_))),
        "{effects:?}"
    );
}

#[test]
fn earlier_messages_are_searched_and_one_is_taken_into_the_editor() {
    let mut app = app(json!([]));
    for text in ["fix the parser", "run the tests", "fix the docs", "run the tests"] {
        type_in(&mut app, text);
        let sent = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
        assert!(!sent.is_empty());
    }
    press(&mut app, KeyCode::Char('r'), KeyModifiers::CONTROL);
    let shown = screen(&mut app, 60, 12);
    assert_eq!(shown.matches("run the tests").count(), 1, "{shown}");
    type_in(&mut app, "fix");
    let shown = screen(&mut app, 60, 12);
    assert!(!shown.contains("run the tests"), "{shown}");
    press(&mut app, KeyCode::Down, KeyModifiers::NONE);
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(screen(&mut app, 60, 12).contains("› fix the parser"));
}

#[test]
fn a_long_conversation_is_scrolled_searched_and_kept_in_little_memory() {
    let turns: Vec<Value> = (0..1000)
        .map(|number| {
            let lines: String = (0..100).map(|line| format!("turn {number} line {line}\n\n")).collect();
            turn(&format!("t{number}"), &format!("message {number}"), &lines)
        })
        .collect();
    let mut app = app(json!(turns));
    let shown = screen(&mut app, 80, 24);
    assert!(shown.contains("turn 999 line 99"), "{shown}");
    for _ in 0..50 {
        press(&mut app, KeyCode::PageUp, KeyModifiers::NONE);
        screen(&mut app, 80, 24);
        assert!(app.transcript.cached() < 1000, "{}", app.transcript.cached());
    }
    let shown = screen(&mut app, 80, 24);
    assert!(!shown.contains("turn 999 ") && shown.contains("↓ more"), "{shown}");
    press(&mut app, KeyCode::Char('f'), KeyModifiers::CONTROL);
    type_in(&mut app, "turn 500 line 42");
    press(&mut app, KeyCode::Up, KeyModifiers::NONE);
    let shown = screen(&mut app, 80, 24);
    assert!(shown.lines().next().unwrap().contains("turn 500 line 42"), "{shown}");
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    press(&mut app, KeyCode::Home, KeyModifiers::CONTROL);
    let shown = screen(&mut app, 80, 24);
    assert!(shown.contains("› message 0"), "{shown}");
    press(&mut app, KeyCode::End, KeyModifiers::CONTROL);
    assert!(screen(&mut app, 80, 24).contains("turn 999 line 99"));
}

#[test]
fn pages_up_and_down_end_where_they_began() {
    let lines: String = (0..300).map(|line| format!("line {line}\n\n")).collect();
    let mut app = app(json!([turn("t", "go", &lines)]));
    screen(&mut app, 80, 24);
    for _ in 0..5 {
        press(&mut app, KeyCode::PageUp, KeyModifiers::NONE);
    }
    let before = screen(&mut app, 80, 24);
    for code in [KeyCode::PageUp, KeyCode::PageUp, KeyCode::PageDown, KeyCode::PageDown] {
        press(&mut app, code, KeyModifiers::NONE);
        screen(&mut app, 80, 24);
    }
    assert_eq!(screen(&mut app, 80, 24), before);
}

#[test]
fn a_menu_completes_commands_and_a_picker_chooses() {
    let mut app = app(json!([]));
    type_in(&mut app, "/mod");
    let shown = screen(&mut app, 60, 16);
    assert!(
        shown.contains("/model [ID]") && shown.contains("/mode [MODE]"),
        "{shown}"
    );
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    type_in(&mut app, "el");
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let shown = screen(&mut app, 60, 16);
    assert!(shown.contains("* m-1") && shown.contains("m-2"), "{shown}");
    type_in(&mut app, "2");
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(
        matches!(&effects[..], [Effect::Dispatch(channel, action, _)]
            if channel == "lodge:/s" && matches!(&**action, StateAction::SessionConfigChanged(change) if change.config["model"] == "m-2")),
        "{effects:?}"
    );
}

#[test]
fn several_questions_are_answered_one_by_one() {
    let mut app = app(json!([]));
    let asked = json!([confirmation("one"), confirmation("two")]);
    app.mirror.session.state.input_needed = Some(serde_json::from_value(asked).unwrap());
    let effects = app.settle();
    assert!(matches!(&effects[..], [Effect::Notify(_)]), "{effects:?}");
    let shown = screen(&mut app, 60, 20);
    assert!(
        shown.contains("Run one?  (1 of 2") && shown.contains("make one"),
        "{shown}"
    );
    press(&mut app, KeyCode::Tab, KeyModifiers::NONE);
    assert!(screen(&mut app, 60, 20).contains("Run two?"));
    press(&mut app, KeyCode::Char('2'), KeyModifiers::NONE);
    let effects = pause(&mut app);
    let denied = |effect: &Effect| {
        matches!(effect, Effect::Dispatch(_, action, Sent::Answer)
            if matches!(&**action, StateAction::ChatToolCallConfirmed(answer) if !answer.approved && answer.tool_call_id == "two"))
    };
    assert!(effects.iter().any(denied), "{effects:?}");
    assert!(screen(&mut app, 60, 20).contains("Run one?"));
    // A person who is typing goes to the editor and back.
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    type_in(&mut app, "y");
    assert!(screen(&mut app, 60, 20).contains("› y"));
}

#[test]
fn the_status_line_has_all_its_pieces_and_says_when_a_sum_is_not_whole() {
    let used = |id: &str, model: &str| {
        let mut turn = turn(id, "go", "done");
        turn["usage"] = json!({
            "inputTokens": 1_000_000, "outputTokens": 100_000, "cacheReadTokens": 400_000, "model": model,
            "_meta": { "contextTokens": 25_000 },
        });
        turn
    };
    let prices: Prices = serde_json::from_value(json!({
        "date": "2026-11-01", "models": { "m-1": { "input": 2.0, "output": 10.0, "cached": 0.5 } },
    }))
    .unwrap();
    let status = |app: &mut App| screen(app, 160, 12).lines().last().unwrap().to_owned();
    let with = |turns: Value| {
        let mut app = app(turns);
        app.prices = Some(prices.clone());
        let config = app.mirror.session.state.config.as_mut().unwrap();
        config.values.insert("branch".into(), "topic".into());
        config.values.insert("autoApprove".into(), "autoApprove".into());
        app
    };
    // The table has no names of providers; ids have them.
    let mut whole = with(json!([used("one", "m-1"), used("two", "x/m-1")]));
    assert_eq!(
        status(&mut whole),
        "auto-approve on · m-1 · plan · 25% context · 2.0M↑ 200k↓ · $4.80 (2026-11-01) · topic · project"
    );
    let mut unpriced = with(json!([used("one", "m-1"), used("two", "another")]));
    let shown = status(&mut unpriced);
    assert!(shown.contains(" · 2.0M↑ 200k↓ · ≥$2.40 (2026-11-01) · "), "{shown}");
    let chat = json!({
        "resource": "ahp-chat:/sub", "title": "", "status": 1, "modifiedAt": "2026-11-15T10:00:00.000Z",
        "origin": { "kind": "tool", "chat": "ahp-chat:/c", "toolCallId": "call" },
    });
    whole
        .mirror
        .session
        .state
        .chats
        .push(serde_json::from_value(chat).unwrap());
    let shown = status(&mut whole);
    assert!(shown.contains(" · ≥2.0M↑ 200k↓ · ≥$4.80 (2026-11-01) · "), "{shown}");
}

#[test]
fn the_end_of_a_long_turn_calls_the_person_and_that_of_a_short_one_does_not() {
    for (seconds, calls) in [(1, false), (21, true)] {
        let mut app = app(json!([]));
        // It began before this client came.
        let running = json!({
            "id": "t", "startedAt": "2026-11-15T10:00:00.000Z", "message": { "text": "go", "origin": { "kind": "user" } },
            "responseParts": [],
        });
        app.mirror.chat.state.active_turn = Some(serde_json::from_value(running).unwrap());
        act(
            &mut app,
            2,
            json!({ "type": "chat/turnComplete", "turnId": "t", "duration": seconds * 1000 }),
        );
        let called = app.settle().iter().any(|effect| matches!(effect, Effect::Notify(_)));
        assert_eq!(called, calls, "{seconds} s");
    }
}

#[test]
fn pressing_ctrl_c_twice_leaves_and_the_first_time_says_so() {
    let mut app = app(json!([]));
    let press_it = |app: &mut App| press(app, KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(press_it(&mut app).is_empty());
    assert!(screen(&mut app, 80, 24).contains("Ctrl-C again to leave"));
    assert!(matches!(press_it(&mut app)[..], [Effect::Leave(0)]));
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    let mut app = app(json!([turn(
        "t",
        "a message that is rather long",
        "# A\n\n- b\n- c\n\n```\ncode\n```\n"
    )]));
    type_in(&mut app, "/");
    for width in [1, 9, 10, 17, 40, 300] {
        for height in [1, 5, 6, 7, 12, 100] {
            screen(&mut app, width, height);
        }
    }
    press(&mut app, KeyCode::F(1), KeyModifiers::NONE);
    for width in [10, 60] {
        screen(&mut app, width, 10);
    }
}

#[test]
fn what_an_agent_writes_has_no_effect_on_the_terminal() {
    let mut app = app(json!([turn(
        "t",
        "\u{1b}[31mred",
        "\u{1b}[2Jgone \u{9b}1m `\u{7}`\n\n```\n\u{1b}]0;t\u{7}\n```"
    )]));
    let mut bytes = Vec::new();
    let mut painter = crate::Painter::new(60, 20);
    painter.frame(&mut bytes, (60, 20), |buffer| app.draw(buffer)).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        !text.contains('\u{7}') && !text.contains('\u{9b}') && !text.contains("\u{1b}]"),
        "{text:?}"
    );
    assert!(!text.contains("\u{1b}[31m") && text.contains("[2Jgone"), "{text:?}");
    // A program would take this for the end of the pasted text.
    let mut app = self::app(json!([turn("t", "say", "one\u{1b}[201~\nrm x")]));
    type_in(&mut app, "/copy");
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let copied = effects.iter().find_map(|effect| match effect {
        Effect::Copy(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(copied, Some("one\u{fffd}[201~\nrm x"));
}

/// What the host answers when it is asked to complete.
fn host_completes(app: &mut App, effects: &[Effect], texts: &[&str]) {
    let number = effects.iter().rev().find_map(|effect| match effect {
        Effect::Complete(_, number) => Some(*number),
        _ => None,
    });
    let item = |text: &&str| json!({ "insertText": text, "attachment": { "type": "simple", "label": text } });
    let items = texts.iter().map(item).map(|item| serde_json::from_value(item).unwrap());
    app.completed(number.expect("the host was asked"), items.collect());
}

#[test]
fn who_types_faster_than_the_host_completes_gets_what_was_typed() {
    let message = |effects: Vec<Effect>| {
        let mut texts = effects.into_iter().filter_map(|effect| match effect {
            Effect::Dispatch(_, action, _) => serde_json::to_value(&action).ok(),
            _ => None,
        });
        texts.next().map(|action| action["message"]["text"].clone())
    };
    // The host has answered for the first letter only.
    for (sign, listed, rest, expected) in [
        ('/', ["/diff", "/export"], "diff", "/diff"),
        ('@', ["@a.rs", "@b.rs"], "b.rs", "@b.rs"),
    ] {
        let mut app = app(json!([]));
        let asked = press(&mut app, KeyCode::Char(sign), KeyModifiers::NONE);
        host_completes(&mut app, &asked, &listed);
        type_in(&mut app, rest);
        let sent = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
        assert_eq!(message(sent), Some(json!(expected)));
    }
}

#[test]
fn a_list_of_sessions_that_comes_late_does_not_open_the_picker_again() {
    let mut app = app(json!([]));
    let summary: Vec<SessionSummary> = serde_json::from_value(json!([{
        "resource": "lodge:/other", "provider": "lodge", "title": "pears", "status": 1,
        "createdAt": "2026-11-15T10:00:00.000Z", "modifiedAt": "2026-11-15T10:00:00.000Z",
    }]))
    .unwrap();
    let control_s = KeyEvent::new(KeyCode::Char('s'), KeyModifiers::CONTROL);
    app.key(&control_s);
    assert!(matches!(app.effects.pop(), Some(Effect::List)));
    assert!(screen(&mut app, 60, 10).contains("Loading …"));
    // Enter has nothing to choose yet, but keys already search.
    app.key(&KeyCode::Enter.into());
    app.key(&KeyCode::Char('p').into());
    app.listed(None, summary.clone());
    assert!(screen(&mut app, 60, 10).contains("Sessions  › p"));
    app.key(&KeyCode::Enter.into());
    assert!(matches!(app.effects.pop(), Some(Effect::Open(None, uri)) if uri == "lodge:/other"));
    app.listed(None, summary);
    assert!(!app.shows_sessions());
}

#[test]
fn whoever_attaches_an_image_hears_at_once_that_the_model_takes_none() {
    let image = || -> MessageAttachment {
        serde_json::from_value(json!({
            "type": "embeddedResource", "label": "pic.png", "data": "", "contentType": "image/png",
        }))
        .unwrap()
    };
    for (model, told) in [("m-1", false), ("m-2", true), ("unknown", false)] {
        let mut app = app(json!([]));
        app.model = Some(model.into());
        app.attached("pic.png", image());
        let shown = screen(&mut app, 100, 20);
        assert!(shown.contains("[pic.png]"), "{model}: {shown}");
        assert_eq!(shown.contains("m-2 takes no images"), told, "{model}: {shown}");
    }
}

#[test]
fn enter_in_an_empty_editor_sends_what_was_queued_before_a_turn_was_stopped() {
    let mut app = app(json!([turn("t1", "one", "stopped")]));
    let queued = json!([{ "id": "q1", "message": { "text": "and then", "origin": { "kind": "user" } } }]);
    app.mirror.chat.state.queued_messages = Some(serde_json::from_value(queued).unwrap());
    let shown = screen(&mut app, 100, 20);
    assert!(
        shown.contains("Enter sends the queued message · Alt-Up edits it"),
        "{shown}"
    );
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let [Effect::Dispatch(_, action, Sent::Other)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    let StateAction::ChatTurnStarted(started) = &**action else {
        panic!("{action:?}");
    };
    assert_eq!(started.queued_message_id.as_deref(), Some("q1"));
    assert_eq!(started.message.text, "and then");
}

#[test]
fn enter_and_messages_start_a_host_in_the_place_of_one_that_is_gone() {
    let mut app = app(json!([]));
    app.lost();
    assert!(screen(&mut app, 100, 20).contains("Enter starts it"));
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(
        matches!(effects.as_slice(), [Effect::StartHost { asked: true }]),
        "{effects:?}"
    );
    type_in(&mut app, "go on");
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let starts = |effect: &Effect| matches!(effect, Effect::StartHost { asked: false });
    assert!(effects.iter().any(starts), "{effects:?}");
}

#[test]
fn a_session_from_before_is_named_and_is_left_with_its_id() {
    let mut app = app(json!([]));
    app.continues();
    assert!(!screen(&mut app, 100, 20).contains("Continued"));
    assert_eq!(app.leaves(), None, "nothing was said in it");
    app.mirror = mirror(json!([turn("t1", "one", "two")]));
    app.continues();
    let shown = screen(&mut app, 100, 20);
    assert!(shown.contains("Continued: \"T\""), "{shown}");
    assert!(shown.contains("/new starts another session"), "{shown}");
    assert_eq!(app.leaves(), Some("lodge:/s"));
    app.deleted();
    assert_eq!(app.leaves(), None);
}

#[test]
fn a_search_keeps_its_direction_and_says_which_match_it_is_at() {
    let turns: Vec<Value> = (0..20)
        .map(|n| turn(&format!("t{n}"), &format!("needle {n}"), "answer\n\nmore\n\nof it"))
        .collect();
    let mut app = app(json!(turns));
    screen(&mut app, 100, 20);
    press(&mut app, KeyCode::Char('f'), KeyModifiers::CONTROL);
    type_in(&mut app, "needlx");
    assert!(screen(&mut app, 100, 20).contains("no match"));
    press(&mut app, KeyCode::Backspace, KeyModifiers::NONE);
    type_in(&mut app, "e");
    assert!(screen(&mut app, 100, 20).contains("20 found"));
    let mut at = |code| {
        press(&mut app, code, KeyModifiers::NONE);
        let shown = screen(&mut app, 100, 20);
        let place = shown.split(" of 20").next().unwrap();
        place
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<usize>()
            .unwrap_or_else(|_| panic!("{shown}"))
    };
    let first = at(KeyCode::Enter);
    assert_eq!(at(KeyCode::Enter), first - 1, "Enter goes on upwards");
    assert_eq!(at(KeyCode::Enter), first - 2);
    assert_eq!(at(KeyCode::Down), first - 1);
    assert_eq!(at(KeyCode::Enter), first, "Enter goes on downwards");
    assert_eq!(at(KeyCode::Up), first - 1);
}

#[test]
fn a_long_paste_is_folded_until_it_is_sent() {
    let long: String = (0..30).map(|n| format!("line {n}\n")).collect();
    let mut app = app(json!([]));
    type_in(&mut app, "see ");
    app.paste(&long);
    app.paste("a\nb");
    let shown = screen(&mut app, 100, 20);
    assert!(
        shown.contains("see [Pasted 30 lines]a") && !shown.contains("line 29"),
        "{shown}"
    );
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let said = effects.iter().find_map(|effect| match effect {
        Effect::Remember(text) => Some(text.clone()),
        _ => None,
    });
    assert_eq!(said, Some(format!("see {long}a\nb")));
    // What is above the rows of the editor is counted.
    app.paste(&"x\n".repeat(15));
    let shown = screen(&mut app, 100, 30);
    assert!(shown.contains("── ↑ 8 more rows ─"), "{shown}");
}

#[test]
fn a_question_is_what_is_waited_for_whatever_went_on_before() {
    let mut app = app(json!([]));
    let running = json!({
        "id": "t", "startedAt": "2026-11-15T10:00:00.000Z", "message": { "text": "go", "origin": { "kind": "user" } },
        "responseParts": [],
    });
    app.mirror.chat.state.active_turn = Some(serde_json::from_value(running).unwrap());
    app.mirror.chat.state.activity = Some("Writes two files".into());
    assert!(screen(&mut app, 100, 20).contains("Writes two files"));
    ask(&mut app, &["one"]);
    let shown = screen(&mut app, 100, 20);
    assert!(
        shown.contains("Waiting for you") && !shown.contains("Writes two files"),
        "{shown}"
    );
}

#[test]
fn an_opened_call_begins_with_its_whole_command_and_calls_that_never_ran_are_not_told_as_running() {
    let command = format!("echo {}", "a ".repeat(80));
    let call = |status: &str, extra: Value| {
        let mut call = json!({
            "status": status, "toolCallId": status, "toolName": "bash", "displayName": "Run command",
            "invocationMessage": format!("Running `{command}`"), "pastTenseMessage": "Ran `echo a`",
            "toolInput": command, "confirmed": "not-needed",
        });
        call.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({ "kind": "toolCall", "toolCall": call })
    };
    let mut told = turn("t", "go", "");
    told["responseParts"] = json!([
        call(
            "completed",
            json!({ "success": true, "content": [{ "type": "text", "text": "out" }] })
        ),
        call("cancelled", json!({ "reason": "denied" })),
    ]);
    let mut app = app(json!([told]));
    press(&mut app, KeyCode::Char('x'), KeyModifiers::CONTROL);
    let shown = screen(&mut app, 60, 30);
    let letters = shown
        .lines()
        .filter(|line| line.starts_with("    "))
        .collect::<String>();
    assert!(letters.matches('a').count() >= 80, "{shown}");
    assert!(
        shown.contains("✗ Run `echo a") && !shown.contains("✗ Running"),
        "{shown}"
    );
}

#[test]
fn a_question_mark_in_an_empty_editor_opens_the_help() {
    let mut app = app(json!([]));
    press(&mut app, KeyCode::Char('?'), KeyModifiers::NONE);
    assert!(screen(&mut app, 100, 30).contains("Ctrl-F"));
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    type_in(&mut app, "why?");
    assert!(screen(&mut app, 100, 30).contains("› why?"));
}
