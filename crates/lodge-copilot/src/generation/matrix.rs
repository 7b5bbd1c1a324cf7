//! Tests that the parsers of each generation of SDKs read every event that Lodge sends them. Node has no parser: apps get what
//! arrives.

#[path = "../../../lodge-events/tests/it/examples/mod.rs"]
mod examples;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use lodge_events::Event;

use super::Generation::{self, BeforeConnect, Current};

/// Releases whose parsers are installed by `cargo xtask clients`: the oldest that speak this protocol, some in between, the
/// newest. Mirrors may lack some of Java's.
const RELEASES: [(&str, &str, Generation); 13] = [
    ("python", "0.1.32", BeforeConnect),
    ("python", "0.2.3", BeforeConnect),
    ("python", "0.3.0", BeforeConnect),
    ("python", "1.0.0", Current),
    ("python", "1.0.27", Current),
    ("go", "0.1.32", BeforeConnect),
    ("go", "0.2.1", BeforeConnect),
    ("go", "1.0.14", Current),
    ("java", "0.1.32-java.0", BeforeConnect),
    ("java", "0.2.2-java.1", BeforeConnect),
    ("java", "0.3.0-java.2", BeforeConnect),
    ("java", "1.0.0", Current),
    ("java", "1.0.11", Current),
];

/// Events that some parsers refuse although their release cannot be told from the newest, and why nothing is done about
/// it.
const LOST: [(&str, &str, &str); 6] = [
    (
        "1.0.0",
        "session.canvas.opened",
        "it wants two fields that the events of later releases do not have",
    ),
    (
        "1.0.0",
        "session.schedule_created",
        "it wants an interval, also of a schedule that has none",
    ),
    (
        "1.0.0",
        "session.permissions_changed",
        "it wants the fields that modes took the place of",
    ),
    (
        "1.0.0",
        "session.compaction_complete",
        "it wants a list of costs, also where the provider gave none",
    ),
    (
        "1.0.0",
        "tool.execution_complete",
        "it does not know blocks of exit codes, which only other hosts write",
    ),
    (
        "1.0.0",
        "system.notification",
        "it does not know all kinds, and only other hosts write those",
    ),
];

/// A reader of events for a release.
fn reader(language: &str, version: &str) -> Option<Command> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = root.join("target/clients/matrix").join(format!("{language}-{version}"));
    let scripts = root.join("tests/clients/matrix");
    let there = |path: PathBuf| path.exists().then_some(path);
    Some(match language {
        "python" => {
            let mut python = Command::new(there(root.join("target/clients/python/venv/bin/python"))?);
            python
                .arg(scripts.join("read.py"))
                .arg(there(installed.join("session_events.py"))?);
            python.env("PYTHONDONTWRITEBYTECODE", "1");
            python
        }
        "go" => Command::new(there(installed.join("read"))?),
        _ => {
            // What could not be fetched has a directory all the same, without this mark.
            there(installed.join("installed"))?;
            let mut java = Command::new("java");
            java.arg("-cp").arg(installed.join("*")).arg(scripts.join("Read.java"));
            java
        }
    })
}

#[test]
fn parsers_of_every_age_read_every_event_that_they_are_sent() {
    let required = ["CI", "LODGE_REQUIRE_CLIENTS"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let events: Vec<Event> = examples::examples()
        .into_iter()
        .map(|payload| Event::new(None, None, payload))
        .filter(|event| !event.is_beside())
        .collect();
    let mut refused = String::new();
    let mut checked = Vec::new();
    for (language, version, generation) in RELEASES {
        let Some(mut reader) = reader(language, version) else {
            let missing = format!("the {language} SDK {version} is not installed (`cargo xtask clients` does it)");
            // Without Go or Java, those parsers are skipped.
            assert!(!required || language != "python", "{missing}");
            assert!(!required || language != "go" || !has("go"), "{missing}");
            eprintln!("not checked: {missing}");
            continue;
        };
        checked.push(language);
        let mut reader = reader.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lost = |event: &&Event| !LOST.iter().any(|(of, kind, _)| *of == version && *kind == event.kind());
        let lines: Vec<u8> = events
            .iter()
            .filter(lost)
            .flat_map(|event| [generation.json(event), "\n".into()].concat())
            .collect();
        reader.stdin.take().unwrap().write_all(&lines).unwrap();
        let said = reader.wait_with_output().unwrap();
        if !said.status.success() {
            refused += &format!("== {language} {version}\n{}", String::from_utf8_lossy(&said.stdout));
        }
    }
    assert!(refused.is_empty(), "{refused}");
    assert!(
        !required || !has("mvn") || checked.contains(&"java"),
        "no release of the Java SDK is installed"
    );
}

/// Whether a program is installed.
fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(program).is_file())
}
