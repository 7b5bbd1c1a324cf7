//! The pictures of the README, made from the real program: `cargo xtask pictures` draws them again.

mod svg;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;
use testkit::{
    Home,
    model_server::{ModelServer, Reply},
};

use crate::chat::{Screen, stop};
use svg::Film;

const COLUMNS: u16 = 100;
/// A key, while somebody types.
const KEY: Duration = Duration::from_millis(45);
/// What a reader needs for something new.
const LOOK: Duration = Duration::from_millis(1800);
/// How often a screen that moves is kept.
const STEP: Duration = Duration::from_millis(90);
/// A person at a terminal, filmed.
struct Camera {
    screen: Screen,
    film: Film,
    /// The rows of screens that came to rest, as text and as they are drawn.
    rested: Vec<(String, String)>,
}

impl Camera {
    fn keep(&mut self, stays: Duration) {
        self.film.show(self.screen.emulator.screen(), stays);
    }

    /// Films a screen that does not move any more.
    fn rest(&mut self, stays: Duration) {
        self.keep(stays);
        let rows = self.screen.emulator.screen().rows(0, COLUMNS);
        self.rested.extend(rows.zip(self.film.last_rows().map(str::to_owned)));
    }

    /// Films until the screen shows a text.
    fn until(&mut self, text: &str) {
        let shows = |camera: &Self| camera.screen.emulator.screen().contents().contains(text);
        let mut last = Instant::now();
        while !shows(self) {
            self.screen.process_next(text);
            if last.elapsed() >= STEP {
                self.keep(STEP);
                last = Instant::now();
            }
        }
        self.keep(STEP);
    }

    fn write(&mut self, text: &str) {
        for key in text.chars() {
            let before = self.screen.emulator.screen().contents();
            self.screen.press(&key.to_string());
            while self.screen.emulator.screen().contents() == before && key != ' ' {
                self.screen.process_next("the key that was pressed");
            }
            self.keep(KEY);
        }
    }
}

fn replies(model: &ModelServer) {
    let edit = json!({
        "path": "greet.py",
        "old_str": "def greet(name):\n    return f\"Hello, {name}!\"",
        "new_str": "def greet(name, hour):\n    part = \"morning\" if hour < 12 else \"evening\"\n    return f\"Good {part}, {name}!\"",
    });
    let answer = "Done. `greet` now takes the **hour** as well:\n\n```python\n>>> greet(\"Ada\", 9)\n'Good morning, Ada!'\n```\n\n\
                  Two things to know:\n\n- Callers have to pass `hour`.\n- Noon counts as evening; say so if you want an afternoon.";
    model
        .reply(
            Reply::text("I look at the code first.")
                .and_call("1", "view", r#"{"path":"greet.py"}"#)
                .pause(STEP),
        )
        .reply(
            Reply::text("The greeting is one line. I change it.")
                .and_call("2", "edit", &edit.to_string())
                .pause(STEP),
        )
        .reply(Reply::text(answer).pause(Duration::from_millis(60)));
}

fn film_a_conversation() -> (String, Vec<(String, String)>) {
    let model = ModelServer::start();
    model.set_models(json!({ "data": [{ "id": "your-model" }] }));
    replies(&model);
    let home = Home::new();
    fs::write(
        home.work().join("greet.py"),
        "def greet(name):\n    return f\"Hello, {name}!\"\n",
    )
    .unwrap();
    let mut command = home.command::<&str>([]);
    command
        .env_remove("NO_COLOR")
        .env("LODGE_PROVIDER_BASE_URL", model.openai_url())
        .env("LODGE_MODEL", "your-model");
    let mut camera = Camera {
        screen: Screen::with(&mut command, COLUMNS),
        film: Film::default(),
        rested: Vec::new(),
    };
    camera.screen.until_shows("your-model · interactive");
    camera.rest(LOOK / 2);
    camera.write("Greet people by the time of day");
    camera.keep(LOOK / 3);
    camera.screen.press("\r");
    camera.until("Allow once");
    camera.rest(LOOK * 2);
    camera.screen.press("y");
    camera.until("an afternoon.");
    camera.screen.until_hides("Esc stops");
    camera.rest(LOOK * 3);
    camera.screen.leave();
    stop(&home);
    (
        camera.film.render("A conversation with Lodge in a terminal"),
        camera.rested,
    )
}

fn stored() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/terminal.svg")
}

#[test]
#[ignore = "draws the stored picture again: `cargo xtask pictures`"]
fn draw() {
    fs::write(stored(), film_a_conversation().0).unwrap();
}

/// Whether a row is the same in every run: numbers of tokens, seconds and paths are not.
fn is_steady(row: &str) -> bool {
    let has_spinner = row.contains(|c: char| ('\u{2800}'..='\u{28ff}').contains(&c));
    !has_spinner && !row.contains('↑') && !row.contains("Write to") && !row.contains("lodge-test-")
}

#[test]
fn the_stored_film_of_a_conversation_looks_as_the_program_does() {
    let (_, rested) = film_a_conversation();
    let stored = fs::read_to_string(stored()).unwrap();
    let steady: Vec<_> = rested.iter().filter(|(text, _)| is_steady(text)).collect();
    assert!(steady.len() > 30, "{steady:?}");
    for (text, drawn) in steady {
        assert!(
            stored.contains(&format!("\">{drawn}</g>")) || drawn.is_empty(),
            "the stored film does not show this row, or not so: run `cargo xtask pictures`\n{text}\n{drawn}"
        );
    }
}
