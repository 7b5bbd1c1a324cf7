//! Nothing that an agent writes can control the terminal, on the whole screen or in the feed of `lodge run`.

use super::*;
use crate::Feed;

/// Whether a terminal could obey something in these bytes that Lodge did not write itself.
fn steers(bytes: &[u8]) -> bool {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let own = ["\u{1b}[", "\r\n", "\r", "\n"];
    let text = own.iter().fold(text, |text, own| text.replace(own, ""));
    text.contains(|c: char| c.is_control() || "\u{61c}\u{200f}\u{202e}\u{2067}".contains(c))
}

#[test]
fn entities_and_raw_marks_are_shown_and_not_obeyed_wherever_they_are() {
    let marks = [
        "&#27;]52;c;eA==&#7;",
        "&#x9b;31m",
        "&#x202e;",
        "&#x61c;",
        "\u{1b}]0;x\u{7}",
        "\u{9b}2J",
        "\u{202e}",
        "\u{61c}",
    ];
    let places = [
        "text {}",
        "# {}",
        "*{}*",
        "`{}`",
        "[{}](https://a.example)",
        "[a](https://a.example/{})",
        "![{}](b.png)",
        "| {} | b |\n|---|---|\n| c | {} |",
        "```{}\n{}\n```",
        "    {}",
        "- {}\n> {}",
        "<div>{}</div>\n\n<b>{}</b>",
    ];
    for (mark, place) in marks
        .iter()
        .flat_map(|mark| places.iter().map(move |place| (mark, place)))
    {
        let answer = place.replace("{}", mark);
        let mut app = app(json!([turn("t", &answer, &answer)]));
        let mut bytes = Vec::new();
        let mut painter = crate::Painter::new(60, 20);
        painter.frame(&mut bytes, (60, 20), |buffer| app.draw(buffer)).unwrap();
        assert!(!steers(&bytes), "{answer:?} on the whole screen: {bytes:?}");
        let mut feed = Feed::new(Scheme::Dark);
        for action in [
            json!({ "type": "chat/turnStarted", "turnId": "t", "startedAt": "2026-11-15T10:00:00.000Z",
                "message": { "text": "go", "origin": { "kind": "user" } } }),
            json!({ "type": "chat/responsePart", "turnId": "t",
                "part": { "kind": "markdown", "id": "p", "content": answer } }),
            json!({ "type": "chat/turnComplete", "turnId": "t", "duration": 1 }),
        ] {
            feed.apply(&serde_json::from_value(action).unwrap());
            let bytes = feed.frame((60, 20), Some(mark));
            assert!(!steers(&bytes), "{answer:?} in the feed: {bytes:?}");
        }
        let bytes = [
            feed.finish((60, 20)),
            feed.page(60, &answer),
            feed.note(60, &answer),
            feed.question(60, mark, &crate::Body::Diff(format!("@@ -1 +1 @@\n+{mark}\n")), mark),
        ];
        assert!(!steers(&bytes.concat()), "{answer:?} in the feed: {bytes:?}");
    }
}
