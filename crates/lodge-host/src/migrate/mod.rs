//! Migrates the AHP face's files of earlier builds into the registers. It happens once: a migrated file is renamed, so an
//! earlier build that opens the home again starts with none instead of acting on outdated data.

mod annotations;
mod automations;
mod sessions;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_log::{Home, LogError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::to_raw_value};

pub(crate) use self::words::OldMessage;
use crate::{
    Decision, PushSubscription, PushSubscriptions, RegisterError, counter,
    decisions::skill_key,
    registers::{Register, Registers},
};

/// What is added to the name of a file that was read.
const MIGRATED: &str = "migrated";
/// What is added to the name of the file for records that could not be brought in.
const FAILED: &str = "failed";

/// Why a file was not brought in.
#[derive(Debug, thiserror::Error)]
enum MigrateError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The file in which earlier builds kept which skills are off.
const SKILLS_FILE: &str = "skills.json";

/// Brings in all there is. A file that cannot be read stays where it is. A record that cannot be brought in is put aside: the
/// others are brought in once and not again, whatever becomes of it.
pub(crate) fn migrate(home: &Home, registers: &Arc<dyn Registers>) {
    let face = home.path().join("ahp");
    each_file(
        &face.join("automations"),
        |_, text| automations::bring_in(text, registers),
        registers,
    );
    each_file(
        &face.join("annotations"),
        |id, text| annotations::bring_in(id, text, registers),
        registers,
    );
    lines(
        &face.join("settings.jsonl"),
        |name, record| setting(name, &record, registers),
        registers,
    );
    lines(
        &face.join("sessions.jsonl"),
        |id, record| sessions::bring_in(id, record, home, registers),
        registers,
    );
    lines(
        &face.join("decisions.jsonl"),
        |id, record| decision(id, record, registers),
        registers,
    );
    lines(
        &face.join("clients.jsonl"),
        |id, record| client(id, record, registers),
        registers,
    );
    file(&face.join("seq"), |text| numbers(text, registers), registers);
    file(&face.join("push.json"), |text| push(text, registers), registers);
    file(
        &home.path().join(SKILLS_FILE),
        |text| skills(text, registers),
        registers,
    );
}

fn each_file(
    folder: &Path,
    bring_in: impl Fn(&str, &[u8]) -> Result<(), MigrateError>,
    registers: &Arc<dyn Registers>,
) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"));
        if let Some(name) = name {
            file(&path, |text| bring_in(name, text), registers);
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
        Ok::<_, MigrateError>(fs::rename(path, beside(path, MIGRATED))?)
    };
    match done() {
        Ok(()) => tracing::info!("{} is in the host's registers now", path.display()),
        Err(error) => tracing::error!("{} is left out: {error}", path.display()),
    }
}

/// The same file with something added to its name.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    name.into()
}

/// Brings in the records of a file of lines, each for itself.
fn lines(path: &Path, bring_in: impl Fn(&str, Value) -> Result<(), MigrateError>, registers: &Arc<dyn Registers>) {
    let all = |text: &[u8]| {
        let mut failed = Vec::new();
        for (key, record) in last_lines(text) {
            if let Err(error) = bring_in(&key, record.clone()) {
                tracing::error!(key, "a record of {} cannot be migrated: {error}", path.display());
                let line = Line {
                    key,
                    record: Some(record),
                };
                serde_json::to_writer(&mut failed, &line)?;
                failed.push(b'\n');
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => put_aside(path, &failed),
        }
    };
    file(path, all, registers);
}

/// Keeps lines that could not be brought in, beside those of earlier times.
fn put_aside(path: &Path, failed: &[u8]) -> Result<(), MigrateError> {
    let aside = beside(path, FAILED);
    let mut all = match fs::read(&aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        other => other?,
    };
    all.extend_from_slice(failed);
    lodge_files::replace(&aside, &all)?;
    tracing::error!(
        "Data that could not be migrated is in {}. To try again, rename it to {} and restart the host.",
        aside.display(),
        path.display()
    );
    Ok(())
}

/// Sets a record unless there is one: what this build keeps is newer.
fn set(registers: &Arc<dyn Registers>, key: &str, value: &impl serde::Serialize) -> Result<(), MigrateError> {
    if registers.get(key).is_none() {
        registers.set(key, Some(to_raw_value(value)?))?;
    }
    Ok(())
}

/// A line of the files of lines: the last about a key counts.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    #[serde(default)]
    record: Option<Value>,
}

/// The last record of each key.
fn last_lines(text: &[u8]) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
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

fn setting(name: &str, record: &Value, registers: &Arc<dyn Registers>) -> Result<(), MigrateError> {
    match record.get("value") {
        Some(value) => set(registers, &format!("setting/{name}"), value),
        None => Ok(()),
    }
}

/// What people decided about things for more than one session.
#[derive(Deserialize)]
struct OldDecision {
    #[serde(default)]
    everywhere: Option<bool>,
    #[serde(default)]
    places: BTreeMap<String, bool>,
}

fn decision(id: &str, record: Value, registers: &Arc<dyn Registers>) -> Result<(), MigrateError> {
    let OldDecision { everywhere, places } = serde_json::from_value(record)?;
    let places = places.into_iter();
    let places = places
        .filter_map(|(place, on)| Some((words::path(&place)?, on)))
        .collect();
    let key = format!("decision/{}", words::key(id));
    set(registers, &key, &Decision { everywhere, places })
}

fn client(id: &str, record: Value, registers: &Arc<dyn Registers>) -> Result<(), MigrateError> {
    let known: crate::KnownClient = serde_json::from_value(record)?;
    set(registers, &format!("client/{id}"), &known)
}

/// The highest number that AHP clients can have seen, from either build: the earlier one may have run after this one.
fn numbers(text: &[u8], registers: &Arc<dyn Registers>) -> Result<(), MigrateError> {
    let reserved = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    let reserved: u64 = reserved.unwrap_or_else(|| {
        tracing::error!(
            "the file with the last sequence number contains none; numbering continues with much higher ones"
        );
        counter::beyond()
    });
    let register = Register::<u64>::new(registers, counter::REGISTER);
    let known = register.get("ahp").unwrap_or_default();
    Ok(register.set("ahp", &reserved.max(known))?)
}

#[derive(Deserialize)]
struct OldPush {
    key: String,
    #[serde(default)]
    subscriptions: BTreeMap<String, PushSubscription>,
}

fn push(text: &[u8], registers: &Arc<dyn Registers>) -> Result<(), MigrateError> {
    let OldPush { key, subscriptions } = serde_json::from_slice(text)?;
    let kept = PushSubscriptions::new(registers);
    // Subscriptions are for one key.
    if kept.key().as_ref() != Some(&key) {
        kept.set_key(&key)?;
    }
    for (device, wanted) in subscriptions {
        kept.set(&device, &wanted)?;
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldSkills {
    #[serde(default)]
    disabled_skills: BTreeSet<String>,
}

fn skills(text: &[u8], registers: &Arc<dyn Registers>) -> Result<(), MigrateError> {
    let OldSkills { disabled_skills } = serde_json::from_slice(text)?;
    for name in disabled_skills {
        let key = format!("decision/{}", skill_key(&name));
        let known = registers.get(&key);
        let known = known.and_then(|known| serde_json::from_str::<Decision>(known.value.get()).ok());
        let mut decision = known.unwrap_or_default();
        decision.everywhere.get_or_insert(false);
        registers.set(&key, Some(to_raw_value(&decision)?))?;
    }
    Ok(())
}

/// Skills that are off by the file of an earlier build that no host has brought in yet.
pub(crate) fn unmigrated_skills(home: &Path) -> Result<BTreeSet<String>, String> {
    let path = home.join(SKILLS_FILE);
    let read = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        other => other.map_err(|error| error.to_string()),
    };
    let skills = read.and_then(|text| serde_json::from_slice::<OldSkills>(&text).map_err(|error| error.to_string()));
    let skills = skills.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(skills.disabled_skills)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PushKeys, registers::FileRegisters};

    #[test]
    fn what_an_earlier_build_kept_after_a_newer_one_takes_nothing_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = FileRegisters::open(dir.path().join("r"), false).unwrap();
        let registers: Arc<dyn Registers> = Arc::new(file);
        let counted = Register::<u64>::new(&registers, counter::REGISTER);
        for (told, expected) in [("7", 7), ("5", 7), ("9", 9)] {
            numbers(told.as_bytes(), &registers).unwrap();
            assert_eq!(counted.get("ahp"), Some(expected), "{told}");
        }
        let kept = PushSubscriptions::new(&registers);
        let wanted = |endpoint: &str| PushSubscription {
            endpoint: endpoint.to_owned(),
            keys: PushKeys {
                p256dh: "p".to_owned(),
                auth: "a".to_owned(),
            },
        };
        let told = |key: &str, device: &str| {
            let subscriptions = BTreeMap::from([(device, wanted(device))]);
            serde_json::to_vec(&serde_json::json!({ "key": key, "subscriptions": subscriptions })).unwrap()
        };
        let devices = || -> Vec<String> { kept.all().into_iter().map(|(device, _)| device).collect() };
        push(&told("one", "phone"), &registers).unwrap();
        push(&told("one", "laptop"), &registers).unwrap();
        assert_eq!(devices(), ["laptop", "phone"]);
        push(&told("two", "tablet"), &registers).unwrap();
        assert_eq!(
            (devices(), kept.key()),
            (vec!["tablet".to_owned()], Some("two".to_owned()))
        );
    }
}
