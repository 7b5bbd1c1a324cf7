//! Questions: all of them can be read, and the answers stay in view.

use super::*;

fn ask_for(app: &mut App, title: &str, input: &str) {
    let mut asked = confirmation("one");
    asked["toolCall"]["confirmationTitle"] = json!(title);
    asked["toolCall"]["toolInput"] = json!(input);
    app.mirror.session.state.input_needed = Some(serde_json::from_value(json!([asked])).unwrap());
    app.settle();
}

fn ask_form(app: &mut App, questions: Value) {
    let form = json!([{
        "kind": "chatInput", "id": "f", "chat": "ahp-chat:/c",
        "request": { "id": "f", "message": "A form", "questions": questions },
    }]);
    app.mirror.session.state.input_needed = Some(serde_json::from_value(form).unwrap());
    app.settle();
}

fn answer(effects: &[Effect]) -> Value {
    let answer = effects.iter().find_map(|effect| match effect {
        Effect::Dispatch(_, action, Sent::Answer) => serde_json::to_value(action).ok(),
        _ => None,
    });
    answer.unwrap_or_else(|| panic!("{effects:?}"))
}

#[test]
fn a_long_title_has_its_lines_scrolls_and_pushes_no_answer_off_the_screen() {
    let title: String = (1..=40).map(|n| format!("title line {n}\n")).collect();
    for (width, height) in [(60, 24), (60, 12), (100, 30)] {
        let mut app = app(json!([]));
        ask_for(&mut app, title.trim_end(), "make one");
        let shown = screen(&mut app, width, height);
        let lines = if height < 18 {
            "? title line 1\ntitle line 2\n"
        } else {
            "? title line 1\ntitle line 2\ntitle line 3\n"
        };
        assert!(shown.contains(lines), "{shown}");
        assert!(
            shown.contains("Allow once") && shown.contains("Deny, and say why"),
            "{shown}"
        );
        assert!(shown.contains("rows 1–"), "{shown}");
        let mut seen = shown;
        for _ in 0..40 {
            press(&mut app, KeyCode::PageDown, KeyModifiers::NONE);
            let shown = screen(&mut app, width, height);
            assert!(shown.contains("Allow once"), "{shown}");
            seen.push_str(&shown);
        }
        for line in (1..=40)
            .map(|n| format!("title line {n}\n"))
            .chain(["make one".to_owned()])
        {
            assert!(seen.contains(&line), "{line:?} was never shown at {width}x{height}");
        }
    }
}

#[test]
fn the_selected_answer_is_in_view_on_a_small_screen() {
    let options: Vec<Value> = (1..=9)
        .map(|n| json!({ "id": n.to_string(), "label": format!("Option {n}") }))
        .collect();
    let mut app = app(json!([]));
    ask_form(
        &mut app,
        json!([{ "kind": "single-select", "id": "q", "message": "Which?", "options": options }]),
    );
    for n in 1..=9 {
        let shown = screen(&mut app, 60, 13);
        assert!(
            shown.contains(&format!("› {n}. Option {n}")) && shown.contains("A form"),
            "{shown}"
        );
        press(&mut app, KeyCode::Down, KeyModifiers::NONE);
    }
}

#[test]
fn a_whole_change_can_be_read_before_it_is_approved() {
    let text: String = (1..=1500).map(|n| format!("row {n} of it\n")).collect();
    let mut app = app(json!([]));
    ask_for(
        &mut app,
        "Write to a.rs?",
        &json!({ "path": "a.rs", "file_text": text }).to_string(),
    );
    let shown = screen(&mut app, 80, 30);
    assert!(shown.contains("of 1501"), "{shown}");
    for _ in 0..120 {
        press(&mut app, KeyCode::PageDown, KeyModifiers::NONE);
    }
    let shown = screen(&mut app, 80, 30);
    assert!(shown.contains("+ row 1500 of it"), "{shown}");
    // Line by line, nothing is cut either.
    let asked = app.mirror.session.state.input_needed.clone().unwrap();
    let text = crate::client::ask::Asker::default().follow(&asked).unwrap();
    assert!(
        text.contains("+ row 1500 of it") && !text.contains("more lines"),
        "{}",
        text.len()
    );
}

#[test]
fn every_question_of_a_form_shows_all_its_lines_its_default_and_what_is_recommended() {
    let mut app = app(json!([]));
    ask_form(
        &mut app,
        json!([
            { "kind": "text", "id": "a", "message": "First\nwith a second line", "defaultValue": "main" },
            { "kind": "single-select", "id": "b", "message": "Which\none?", "options": [
                { "id": "x", "label": "X" }, { "id": "y", "label": "Y", "description": "the other", "recommended": true },
            ] },
            { "kind": "boolean", "id": "c", "message": "Sure?\nReally?", "defaultValue": false },
            { "kind": "integer", "id": "d", "message": "How many?", "defaultValue": 3 },
        ]),
    );
    for (expected, key) in [
        (
            &["  First\n  with a second line\n", "Enter alone: main"][..],
            KeyCode::Enter,
        ),
        (
            &["  Which\n  one?\n", "› 2. Y (recommended): the other"],
            KeyCode::Enter,
        ),
        (&["  Sure?\n  Really?\n", "› 2. No"], KeyCode::Enter),
    ] {
        let shown = screen(&mut app, 60, 24);
        assert!(
            expected.iter().all(|text| shown.contains(text)),
            "{expected:?}: {shown}"
        );
        press(&mut app, key, KeyModifiers::NONE);
    }
    assert!(screen(&mut app, 60, 24).contains("Enter alone: 3"));
    let answered = answer(&press(&mut app, KeyCode::Enter, KeyModifiers::NONE));
    let value = |id: &str| answered["answers"][id]["value"]["value"].clone();
    assert_eq!(
        [value("a"), value("b"), value("c"), value("d")],
        [json!("main"), json!("y"), json!(false), json!(3.0)]
    );
}

#[test]
fn several_options_and_words_of_ones_own_are_one_answer() {
    let mut app = app(json!([]));
    let options = json!([{ "id": "r", "label": "Red" }, { "id": "b", "label": "Blue" }]);
    ask_form(
        &mut app,
        json!([{ "kind": "multi-select", "id": "q", "message": "Which?", "options": options, "allowFreeformInput": true }]),
    );
    screen(&mut app, 60, 20);
    press(&mut app, KeyCode::Char('2'), KeyModifiers::NONE);
    press(&mut app, KeyCode::Down, KeyModifiers::NONE);
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    type_in(&mut app, "green");
    let answered = answer(&press(&mut app, KeyCode::Enter, KeyModifiers::NONE));
    let value = &answered["answers"]["q"]["value"];
    assert_eq!(
        (&value["value"], &value["freeformValues"]),
        (&json!(["b"]), &json!(["green"]))
    );
}

#[test]
fn keys_edit_the_answer_that_is_typed_and_not_the_message() {
    let mut app = app(json!([]));
    ask_form(&mut app, json!([{ "kind": "text", "id": "q", "message": "Why?" }]));
    screen(&mut app, 60, 20);
    type_in(&mut app, "one");
    press(&mut app, KeyCode::Char('j'), KeyModifiers::CONTROL);
    type_in(&mut app, "two");
    press(&mut app, KeyCode::Enter, KeyModifiers::SHIFT);
    type_in(&mut app, "日本語");
    let shown = screen(&mut app, 60, 20).replace(' ', "");
    assert!(shown.contains("›one\ntwo\n日本語▏\n"), "{shown}");
    let effects = press(&mut app, KeyCode::Char('g'), KeyModifiers::CONTROL);
    assert!(
        matches!(&effects[..], [Effect::Edit(text)] if text == "one\ntwo\n日本語"),
        "{effects:?}"
    );
    app.edited("one\nthree\n");
    // With nothing behind the cursor there is nothing to delete, and nobody leaves.
    assert!(press(&mut app, KeyCode::Char('d'), KeyModifiers::CONTROL).is_empty());
    assert!(app.composer.is_empty());
    let answered = answer(&press(&mut app, KeyCode::Enter, KeyModifiers::NONE));
    assert_eq!(answered["answers"]["q"]["value"]["value"], "one\nthree");
}

#[test]
fn a_wide_answer_keeps_its_cursor_on_the_screen() {
    let mut app = app(json!([]));
    ask_form(&mut app, json!([{ "kind": "text", "id": "q", "message": "Why?" }]));
    screen(&mut app, 60, 20);
    type_in(&mut app, &"日".repeat(300));
    assert!(screen(&mut app, 60, 20).contains('▏'));
    press(&mut app, KeyCode::Home, KeyModifiers::NONE);
    assert!(
        screen(&mut app, 60, 20).contains("› ▏日"),
        "{}",
        screen(&mut app, 60, 20)
    );
}

#[test]
fn ctrl_c_clears_an_answer_and_stops_no_turn() {
    let mut app = app(json!([]));
    let running = json!({
        "id": "t", "startedAt": "2026-11-15T10:00:00.000Z", "message": { "text": "go", "origin": { "kind": "user" } },
        "responseParts": [],
    });
    app.mirror.chat.state.active_turn = Some(serde_json::from_value(running).unwrap());
    ask_form(&mut app, json!([{ "kind": "text", "id": "q", "message": "Why?" }]));
    screen(&mut app, 60, 20);
    type_in(&mut app, "because");
    assert!(press(&mut app, KeyCode::Char('c'), KeyModifiers::CONTROL).is_empty());
    let shown = screen(&mut app, 60, 20);
    assert!(!shown.contains("because") && shown.contains("Why?"), "{shown}");
}
