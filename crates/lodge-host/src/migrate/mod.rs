//! What earlier builds kept in files of the AHP face, brought into the registers. Once: a file that was read is renamed, so
//! that an earlier build that meets the home again begins with none instead of acting on what is long otherwise.

mod automations;

use std::{fs, io, path::Path, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, value::to_raw_value};

use crate::{RegisterError, registers::Registers};

/// What is added to the name of a file that was read.
const MIGRATED: &str = "migrated";

/// Why a file was not brought in.
#[derive(Debug, thiserror::Error)]
enum MigrateError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// Brings in all there is. What cannot be read stays where it is, and the rest goes on without it.
pub(crate) fn migrate(home: &Path, registers: &Arc<dyn Registers>) {
    let face = home.join("ahp");
    each_file(
        &face.join("automations"),
        "json",
        |text| automations::bring_in(text, registers),
        registers,
    );
    file(
        &face.join("settings.jsonl"),
        |text| settings(text, registers),
        registers,
    );
}

fn each_file(
    folder: &Path,
    extension: &str,
    bring_in: impl Fn(&[u8]) -> Result<(), MigrateError>,
    registers: &Arc<dyn Registers>,
) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.extension().is_some_and(|found| found == extension) {
            file(&path, &bring_in, registers);
        }
    }
}

/// Brings in one file, and renames it once what it said is on the disk elsewhere.
fn file(path: &Path, bring_in: impl Fn(&[u8]) -> Result<(), MigrateError>, registers: &Arc<dyn Registers>) {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        other => other,
    };
    let done = || {
        bring_in(&text?)?;
        registers.sync()?;
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(MIGRATED);
        Ok::<_, MigrateError>(fs::rename(path, name)?)
    };
    match done() {
        Ok(()) => tracing::info!("{} is in the host's registers now", path.display()),
        Err(error) => tracing::error!("{} is left out: {error}", path.display()),
    }
}

/// Sets a record unless there is one: what this build keeps is newer.
fn set(registers: &Arc<dyn Registers>, key: &str, value: &impl serde::Serialize) -> Result<(), MigrateError> {
    if registers.get(key).is_none() {
        registers.set(key, Some(to_raw_value(value)?))?;
    }
    Ok(())
}

/// A line of the files of lines: the last about a key counts.
#[derive(Deserialize)]
struct Line {
    key: String,
    #[serde(default)]
    record: Option<Value>,
}

/// The last record of each key.
fn last_lines(text: &[u8]) -> std::collections::BTreeMap<String, Value> {
    let mut found = std::collections::BTreeMap::new();
    // A line that cannot be read said nothing to the earlier build, either.
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    for line in lines {
        match line.record {
            Some(record) => drop(found.insert(line.key, record)),
            None => drop(found.remove(&line.key)),
        }
    }
    found
}

fn settings(text: &[u8], registers: &Arc<dyn Registers>) -> Result<(), MigrateError> {
    for (name, record) in last_lines(text) {
        if let Some(value) = record.get("value") {
            set(registers, &format!("setting/{name}"), value)?;
        }
    }
    Ok(())
}
