//! The list of sessions, what goes on beside the conversation, and settings.

use super::*;

fn summary(id: &str, title: &str, status: u32, directory: &str) -> Value {
    json!({
        "resource": format!("lodge:/{id}"), "provider": "lodge", "title": title, "status": status,
        "createdAt": "2026-11-15T10:00:00.000Z", "modifiedAt": "2026-11-15T10:00:00.000Z",
        "workingDirectories": [format!("file://{directory}")],
    })
}

fn listed() -> App {
    let mut app = app(json!([]));
    press(&mut app, KeyCode::Char('s'), KeyModifiers::CONTROL);
    let list = json!([
        summary("11111111-aaaa", "fix the parser", 8, "/home/me/project"),
        summary(
            "22222222-bbbb",
            "draw a very long picture of everything there is",
            24,
            "/home/me/elsewhere/with/a/long/name"
        ),
        summary("33333333-cccc", "say hello", 1, "/home/me/project"),
    ]);
    app.listed(None, serde_json::from_value(list).unwrap());
    app
}

/// Rows of the list, without ages, which depend on the day.
fn rows(app: &mut App, width: u16) -> String {
    let shown = screen(app, width, 9);
    let rows = shown.lines().take(6).map(|row| {
        let words = row
            .split("  ")
            .map(|word| if word.trim().ends_with(" d") { "AGE" } else { word });
        words.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_list_of_sessions_has_columns_for_what_they_do_where_and_since_when() {
    for width in [60, 100, 160] {
        insta::assert_snapshot!(format!("sessions-{width}"), rows(&mut listed(), width));
    }
}

#[test]
fn tab_lists_the_sessions_of_this_directory_only() {
    let mut app = listed();
    press(&mut app, KeyCode::Tab, KeyModifiers::NONE);
    let shown = screen(&mut app, 100, 12);
    assert!(
        shown.contains("fix the parser") && !shown.contains("long picture"),
        "{shown}"
    );
    assert!(shown.contains("Tab: all directories"), "{shown}");
    press(&mut app, KeyCode::Tab, KeyModifiers::NONE);
    assert!(screen(&mut app, 100, 12).contains("long picture"));
}

#[test]
fn tab_leaves_a_list_that_has_no_session_of_this_directory() {
    let mut app = app(json!([]));
    press(&mut app, KeyCode::Char('s'), KeyModifiers::CONTROL);
    let list = json!([summary("1", "far away", 8, "/home/me/elsewhere")]);
    app.listed(None, serde_json::from_value(list).unwrap());
    press(&mut app, KeyCode::Tab, KeyModifiers::NONE);
    assert!(!screen(&mut app, 100, 12).contains("far away"));
    press(&mut app, KeyCode::Tab, KeyModifiers::NONE);
    assert!(screen(&mut app, 100, 12).contains("far away"));
}

#[test]
fn a_paste_goes_to_what_is_asked_and_selects_no_other_session() {
    let mut app = listed();
    press(&mut app, KeyCode::Char('d'), KeyModifiers::CONTROL);
    app.paste("hello\r");
    let effects = press(&mut app, KeyCode::Char('y'), KeyModifiers::NONE);
    assert!(effects.is_empty(), "it is not asked any more: {effects:?}");
    let mut app = listed();
    press(&mut app, KeyCode::Char('e'), KeyModifiers::CONTROL);
    app.paste(" hello\rworld");
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(
        matches!(&effects[..], [Effect::Rename(uri, title)]
            if uri == "lodge:/11111111-aaaa" && title == "fix the parser hello"),
        "{effects:?}"
    );
    press(&mut app, KeyCode::Down, KeyModifiers::NONE);
    app.paste("hello\n");
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(
        matches!(&effects[..], [Effect::Open(_, uri)] if uri == "lodge:/11111111-aaaa"),
        "the first that is found: {effects:?}"
    );
}

#[test]
fn a_session_is_deleted_from_the_list_once_that_is_confirmed() {
    let mut app = listed();
    press(&mut app, KeyCode::Down, KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('d'), KeyModifiers::CONTROL);
    assert!(screen(&mut app, 100, 12).contains("Delete \"draw a very long picture of everything there is\"?"));
    assert!(press(&mut app, KeyCode::Char('n'), KeyModifiers::NONE).is_empty());
    assert!(screen(&mut app, 100, 12).contains("long picture"));
    press(&mut app, KeyCode::Char('d'), KeyModifiers::CONTROL);
    let effects = press(&mut app, KeyCode::Char('y'), KeyModifiers::NONE);
    assert!(
        matches!(&effects[..], [Effect::Delete(uri)] if uri == "lodge:/22222222-bbbb"),
        "{effects:?}"
    );
    assert!(!screen(&mut app, 100, 12).contains("long picture"));
}

#[test]
fn a_session_is_renamed_in_the_list() {
    let mut app = listed();
    press(&mut app, KeyCode::Char('e'), KeyModifiers::CONTROL);
    assert!(screen(&mut app, 100, 12).contains("New title: fix the parser▏"));
    press(&mut app, KeyCode::Char('w'), KeyModifiers::CONTROL);
    type_in(&mut app, "lexer");
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(
        matches!(&effects[..], [Effect::Rename(uri, title)] if uri == "lodge:/11111111-aaaa" && title == "fix the lexer"),
        "{effects:?}"
    );
    assert!(screen(&mut app, 100, 12).contains("fix the lexer"));
    // Esc keeps the title, and the list stays open.
    press(&mut app, KeyCode::Char('e'), KeyModifiers::CONTROL);
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    assert!(app.shows_sessions());
}

#[test]
fn commands_in_the_background_are_listed_read_and_stopped() {
    let mut app = app(json!([]));
    let work = json!({
        "kind": "shell", "id": "shell:7", "label": "make watch", "command": "make watch",
        "startedAt": "2026-11-15T10:00:00.000Z",
    });
    act(&mut app, 1, json!({ "type": "chat/backgroundWorkSet", "work": work }));
    assert!(screen(&mut app, 60, 20).contains("1 background task (Ctrl-T)"));
    press(&mut app, KeyCode::Char('t'), KeyModifiers::CONTROL);
    assert!(screen(&mut app, 60, 20).contains("& make watch  since"));
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(
        matches!(&effects[..], [Effect::Output(id, command)] if id == "shell:7" && command == "make watch"),
        "{effects:?}"
    );
    let text: String = (1..=50).map(|n| format!("built {n}\n")).collect();
    app.show_output("make watch".into(), text + "\u{1b}[2Jtail");
    let shown = screen(&mut app, 60, 20);
    assert!(
        shown.contains("$ make watch") && shown.contains("\u{fffd}[2Jtail"),
        "{shown}"
    );
    press(&mut app, KeyCode::PageUp, KeyModifiers::NONE);
    assert!(!screen(&mut app, 60, 20).contains("tail"));
    press(&mut app, KeyCode::Char('q'), KeyModifiers::NONE);
    let effects = press(&mut app, KeyCode::Char('x'), KeyModifiers::NONE);
    assert!(
        matches!(&effects[..], [Effect::Stop(Work::Shell(id))] if id == "shell:7"),
        "{effects:?}"
    );
    act(
        &mut app,
        2,
        json!({ "type": "chat/backgroundWorkRemoved", "id": "shell:7" }),
    );
    assert!(screen(&mut app, 60, 20).contains("There is no background work."));
}

#[test]
fn a_theme_and_vi_keys_are_saved_once_they_are_chosen() {
    let mut app = app(json!([]));
    for (typed, saved) in [
        ("/theme light", Setting::Theme(Scheme::Light)),
        ("/vim", Setting::Vim(true)),
    ] {
        type_in(&mut app, typed);
        let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
        let saves = |effect: &Effect| matches!(effect, Effect::Save(setting) if *setting == saved);
        assert!(effects.iter().any(saves), "{effects:?}");
    }
}

#[test]
fn keys_that_a_person_changed_act_and_are_in_the_help_and_the_hints() {
    let mut app = app(json!([]));
    let changes = [("ctrl-t", "none"), ("f5", "tasks")].map(|(key, action)| (key.to_owned(), action.to_owned()));
    app.keys = Keymap::try_from(BTreeMap::from(changes)).unwrap();
    press(&mut app, KeyCode::Char('t'), KeyModifiers::CONTROL);
    assert!(!screen(&mut app, 60, 20).contains("background work"));
    press(&mut app, KeyCode::F(1), KeyModifiers::NONE);
    let help = screen(&mut app, 100, 60);
    assert!(help.contains("F5") && !help.contains("Ctrl-T"), "{help}");
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    press(&mut app, KeyCode::F(5), KeyModifiers::NONE);
    assert!(screen(&mut app, 60, 20).contains("There is no background work."));
}
