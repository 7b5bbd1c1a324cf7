//! What is typed is never lost: long pastes, attachments, messages that were refused or not sent.

use super::*;

fn image(data: &str) -> MessageAttachment {
    serde_json::from_value(json!({
        "type": "embeddedResource", "label": "pic.png", "data": data, "contentType": "image/png",
    }))
    .unwrap()
}

/// What goes out when Enter is pressed: the text, and the data or URIs of the attachments.
fn sent(app: &mut App) -> (String, Vec<String>) {
    let effects = press(app, KeyCode::Enter, KeyModifiers::NONE);
    let message = effects.iter().find_map(|effect| match effect {
        Effect::Dispatch(_, action, Sent::Message(_)) => serde_json::to_value(action).unwrap().get("message").cloned(),
        _ => None,
    });
    let message = message.unwrap_or_else(|| panic!("{effects:?}"));
    let attached = message["attachments"].as_array().cloned().unwrap_or_default();
    let named = |attached: &Value| {
        attached["data"]
            .as_str()
            .or(attached["uri"].as_str())
            .unwrap()
            .to_owned()
    };
    (
        message["text"].as_str().unwrap().to_owned(),
        attached.iter().map(named).collect(),
    )
}

fn running(app: &mut App) {
    let running = json!({
        "id": "r", "startedAt": "2026-11-15T10:00:00.000Z", "message": { "text": "go", "origin": { "kind": "user" } },
        "responseParts": [],
    });
    app.mirror.chat.state.active_turn = Some(serde_json::from_value(running).unwrap());
}

fn queue(app: &mut App, message: &Value) {
    let queued = json!([{ "id": "q", "message": message }]);
    app.mirror.chat.state.queued_messages = Some(serde_json::from_value(queued).unwrap());
}

#[test]
fn a_long_paste_comes_back_whole_however_it_is_recalled() {
    let long: String = (0..30).map(|n| format!("line {n}\n")).collect();
    for (first, recall) in [
        (KeyCode::Enter, (KeyCode::Up, KeyModifiers::NONE)),
        (KeyCode::Enter, (KeyCode::Char('p'), KeyModifiers::CONTROL)),
        (KeyCode::Char('c'), (KeyCode::Up, KeyModifiers::NONE)),
    ] {
        let mut app = app(json!([]));
        app.paste(&long);
        let modifiers = match first {
            KeyCode::Enter => KeyModifiers::NONE,
            _ => KeyModifiers::CONTROL,
        };
        press(&mut app, first, modifiers);
        app.paste(&"other\n".repeat(40));
        press(&mut app, KeyCode::Char('u'), KeyModifiers::CONTROL);
        press(&mut app, recall.0, recall.1);
        assert_eq!(app.composer.text(), long, "{first:?} {recall:?}");
    }
    // What was cut out is inserted whole, too.
    let mut app = app(json!([]));
    app.paste(&long);
    press(&mut app, KeyCode::Char('u'), KeyModifiers::CONTROL);
    app.paste(&"other\n".repeat(30));
    press(&mut app, KeyCode::Char('y'), KeyModifiers::CONTROL);
    let text = sent(&mut app).0;
    assert!(text.contains("line 29") && text.contains("other"), "{text}");
}

#[test]
fn a_message_that_is_taken_back_recalled_or_gone_back_to_has_its_attachments() {
    let message = json!({
        "text": "see [pic.png] and @src/a.rs", "origin": { "kind": "user" },
        "attachments": [
            image("one"),
            { "type": "resource", "label": "a.rs", "uri": "file:///home/me/project/src/a.rs" },
        ],
    });
    let both = vec!["one".to_owned(), "file:///home/me/project/src/a.rs".to_owned()];
    // From the queue.
    let mut taken = app(json!([]));
    running(&mut taken);
    queue(&mut taken, &message);
    press(&mut taken, KeyCode::Up, KeyModifiers::ALT);
    assert_eq!(
        sent(&mut taken),
        ("see [pic.png] and @src/a.rs".to_owned(), both.clone())
    );
    // From the history.
    press(&mut taken, KeyCode::Up, KeyModifiers::NONE);
    assert_eq!(sent(&mut taken).1, both);
    // From the conversation.
    let mut told = turn("t", "", "done");
    told["message"] = message;
    let mut back = app(json!([told]));
    press(&mut back, KeyCode::Esc, KeyModifiers::NONE);
    press(&mut back, KeyCode::Esc, KeyModifiers::NONE);
    press(&mut back, KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(sent(&mut back).1, both);
    // An attachment of a client that puts no word for it into the text gets one.
    let mut bare = app(json!([]));
    running(&mut bare);
    let message = json!({
        "text": "look", "origin": { "kind": "user" }, "attachments": [image("one"), image("two")],
    });
    queue(&mut bare, &message);
    press(&mut bare, KeyCode::Up, KeyModifiers::ALT);
    let (text, attached) = sent(&mut bare);
    assert_eq!(text, "look [pic.png] [pic.png #2]");
    assert_eq!(attached, ["one", "two"]);
}

#[test]
fn a_word_attaches_only_what_it_names() {
    let mut app = app(json!([]));
    let file = |name: &str| {
        serde_json::from_value(json!({ "type": "resource", "label": name, "uri": format!("file:///{name}") })).unwrap()
    };
    app.tokens.name("@a", file("a"));
    app.tokens.name("@ab", file("ab"));
    type_in(&mut app, "read @ab");
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(sent(&mut app).1, ["file:///ab"]);
}

#[test]
fn a_word_names_a_file_of_the_session_that_it_was_completed_in() {
    let mut app = app(json!([]));
    app.mirror.session.state.lifecycle = serde_json::from_value(json!("creating")).unwrap();
    for name in ["unsent", "typed", "earlier"] {
        let uri = format!("file:///home/me/project/{name}");
        let file = serde_json::from_value(json!({ "type": "resource", "label": name, "uri": uri })).unwrap();
        app.tokens.name(&format!("@{name}"), file);
    }
    app.say("read @unsent", false);
    app.insert("and @typed");
    let mut other = mirror(json!([]));
    other.session.state.working_directories = Some(vec!["file:///home/me/other".to_owned()]);
    app.opened(other);
    app.insert(" or @earlier");
    let (text, attached) = sent(&mut app);
    assert_eq!(text, "read @unsent\nand @typed or @earlier");
    assert_eq!(
        attached,
        ["file:///home/me/project/typed", "file:///home/me/project/unsent"]
    );
}

#[test]
fn a_refused_message_is_in_the_editor_again_with_its_attachments() {
    let mut app = app(json!([]));
    running(&mut app);
    app.attached("pic.png", image("one"));
    type_in(&mut app, "look");
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let refuse = |app: &mut App, effects: Vec<Effect>| {
        for effect in effects {
            if let Effect::Dispatch(channel, action, sent) = effect {
                app.dispatched(1, sent);
                let envelope = json!({
                    "channel": channel, "action": action, "serverSeq": 1, "rejectionReason": "too large",
                    "origin": { "clientId": "me", "clientSeq": 1 },
                });
                app.apply(&serde_json::from_value(envelope).unwrap());
            }
        }
        app.settle()
    };
    let left = refuse(&mut app, effects);
    refuse(&mut app, left);
    let shown = screen(&mut app, 100, 20);
    assert!(
        shown.contains("The message was refused: too large. It is in the editor again."),
        "{shown}"
    );
    assert_eq!(sent(&mut app), ("[pic.png] look".to_owned(), vec!["one".to_owned()]));
}

#[test]
fn what_was_not_sent_is_in_the_editor_when_another_session_is_opened() {
    let mut app = app(json!([]));
    app.mirror.session.state.lifecycle = serde_json::from_value(json!("creating")).unwrap();
    app.agent = Some(("reviewer".into(), "agent:/reviewer".into()));
    for text in ["hello", "and then"] {
        type_in(&mut app, text);
        press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    }
    type_in(&mut app, "at last");
    app.opened(mirror(json!([])));
    assert_eq!(app.composer.text(), "hello\nand then\nat last");
    assert_eq!(app.agent, None, "agents belong to the session");
}

#[test]
fn the_list_of_messages_to_go_back_to_loads_earlier_ones() {
    let mut app = app(json!([turn("b", "second", "x"), turn("c", "third", "x")]));
    app.mirror.chat.state.turns_next_cursor = Some("1".into());
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    let shown = screen(&mut app, 60, 12);
    assert!(
        shown.contains("third") && shown.contains("… earlier messages"),
        "{shown}"
    );
    press(&mut app, KeyCode::Down, KeyModifiers::NONE);
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(matches!(effects[..], [Effect::Older(_)]), "{effects:?}");
    act(
        &mut app,
        1,
        json!({ "type": "chat/turnsLoaded", "turns": [turn("a", "first", "x")] }),
    );
    let shown = screen(&mut app, 60, 12);
    assert!(
        shown.contains("first") && shown.contains("second") && !shown.contains("… earlier"),
        "{shown}"
    );
}

#[test]
fn ctrl_c_in_a_picker_closes_it_and_does_not_prepare_to_leave() {
    let mut app = app(json!([]));
    press(&mut app, KeyCode::Char('m'), KeyModifiers::ALT);
    let interrupt = |app: &mut App| press(app, KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(interrupt(&mut app).is_empty());
    assert!(
        interrupt(&mut app).is_empty(),
        "the first one closed the list and said nothing"
    );
    assert!(screen(&mut app, 80, 24).contains("Ctrl-C again to leave"));
    assert!(matches!(interrupt(&mut app)[..], [Effect::Leave(0)]));
}
