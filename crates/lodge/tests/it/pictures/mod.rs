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
/// What every picture of the conversation shows, and so what the stored one must show.
const SHOWN: [&str; 5] = [
    "Greet people by the time of day",
    "Allow once",
    "def greet(name, hour):",
    "Good morning, Ada!",
    "Callers have to pass",
];

/// A person at a terminal, filmed.
struct Camera {
    screen: Screen,
    film: Film,
    seen: String,
}

impl Camera {
    fn keep(&mut self, stays: Duration) {
        let screen = self.screen.emulator.screen();
        self.seen.push_str(&screen.contents());
        self.film.show(screen, stays);
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

fn film_a_conversation() -> (String, String) {
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
        seen: String::new(),
    };
    camera.screen.until_shows("your-model · interactive");
    camera.keep(LOOK / 2);
    camera.write("Greet people by the time of day");
    camera.keep(LOOK / 3);
    camera.screen.press("\r");
    camera.until("Allow once");
    camera.keep(LOOK * 2);
    camera.screen.press("y");
    camera.until("an afternoon.");
    camera.screen.until_hides("Esc stops");
    camera.keep(LOOK * 3);
    camera.screen.leave();
    stop(&home);
    (
        camera.film.render("A conversation with Lodge in a terminal"),
        camera.seen,
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

#[test]
fn the_stored_film_of_a_conversation_shows_what_the_program_shows() {
    let (_, seen) = film_a_conversation();
    let stored = fs::read_to_string(stored())
        .unwrap()
        .replace("&lt;", "<")
        .replace("&amp;", "&");
    for text in SHOWN {
        assert!(
            seen.contains(text),
            "the conversation no longer shows {text:?}:\n{seen}"
        );
        assert!(
            stored.contains(text),
            "the stored film lacks {text:?}: run `cargo xtask pictures`"
        );
    }
}
