//! Every event Lodge makes is read whole by the strict classes of the Copilot SDK for Python.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use lodge_events::Event;

use crate::{examples::examples, schema::clients_are_required};

/// In the schema and not in the classes; such an event arrives as a raw one, which loses nothing. Those of factories have other
/// names since.
const UNKNOWN_TO_THE_CLASSES: &[&str] = &[
    "session.memory_changed",
    "factory.run_started",
    "factory.run_updated",
    "factory.run_settled",
];

#[test]
fn every_example_is_read_by_the_strict_classes_of_the_python_sdk() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    };
    let python = root.join("target/clients/python/venv").join(program);
    if !python.is_file() {
        let missing = format!(
            "no Python SDK at {} (`cargo xtask clients` installs it)",
            python.display()
        );
        assert!(!clients_are_required(), "{missing}");
        eprintln!("not checked: {missing}");
        return;
    }
    let mut reader = Command::new(python)
        .arg(root.join("tests/clients/python/strict.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = examples()
        .into_iter()
        .map(|payload| Event::new(None, None, payload))
        .filter(|event| !event.is_beside() && !UNKNOWN_TO_THE_CLASSES.contains(&event.kind()))
        .map(|event| event.as_str().to_owned() + "\n")
        .collect();
    reader.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let said = reader.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
}
