//! All automations, and the files they are kept in: one each, in `ahp/automations` of the home.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use ahp_types::state::AutomationState;
use jiff::Timestamp;

use super::record::{End, Record, is_pending};
use crate::state::seq::set_aside;

/// A host has at most so many automations, with definitions of so many bytes together.
const MOST: usize = 200;
const BYTES: usize = 4 << 20;

/// All automations.
#[derive(Debug)]
pub(super) struct Book {
    dir: PathBuf,
    /// In the order in which they were made.
    records: Vec<Record>,
    /// Whether clients were told that automations may run.
    pub(super) allowed: bool,
}

impl Book {
    /// Reads what is kept. Runs that were going on when the host ended have failed; `is_kept` says whether there is a session.
    pub(super) fn open(
        dir: PathBuf,
        allowed: bool,
        now: Timestamp,
        is_kept: impl Fn(&str) -> bool,
    ) -> io::Result<Self> {
        let files = match fs::read_dir(&dir) {
            Ok(files) => files.collect::<io::Result<Vec<_>>>()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let paths = files.into_iter().map(|file| file.path());
        let json = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let mut records: Vec<Record> = json.filter_map(|path| read(&path)).collect();
        records.sort_by(|a, b| (&a.created_at, &a.resource).cmp(&(&b.created_at, &b.resource)));
        let mut book = Self { dir, records, allowed };
        for at in 0..book.records.len() {
            let mut record = book.records[at].clone();
            if interrupt(&mut record, now, &is_kept) {
                if let Err(error) = book.file(&record.resource).keep(&record) {
                    tracing::warn!(%error, automation = record.resource, "an interrupted run cannot be noted");
                }
                book.records[at] = record;
            }
        }
        Ok(book)
    }

    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    pub(super) fn get(&self, resource: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.resource == resource)
    }

    /// The automation that a run belongs to.
    pub(super) fn of_run(&self, run: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.run(run).is_some())
    }

    /// Whether there is room for an automation, in place of the one that has its address.
    pub(super) fn check_room(&self, new: &Record) -> Result<(), String> {
        let others = self.records.iter().filter(|known| known.resource != new.resource);
        let size = |record: &Record| serde_json::to_vec(&record.definition).map_or(0, |json| json.len());
        let (number, bytes) = others.fold((1, size(new)), |(number, bytes), record| {
            (number + 1, bytes + size(record))
        });
        if number > MOST || bytes > BYTES {
            return Err(format!(
                "there is room for {MOST} automations of {} MiB together",
                BYTES >> 20
            ));
        }
        Ok(())
    }

    /// Where an automation is kept.
    pub(super) fn file(&self, resource: &str) -> File {
        let name = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, resource.as_bytes());
        File(self.dir.join(format!("{name}.json")))
    }

    /// Takes up a record that is kept. What was known before it.
    pub(super) fn put(&mut self, record: Record) -> Option<Record> {
        match self.records.iter_mut().find(|known| known.resource == record.resource) {
            Some(known) => Some(std::mem::replace(known, record)),
            None => {
                self.records.push(record);
                None
            }
        }
    }

    /// Forgets an automation whose file is gone.
    pub(super) fn remove(&mut self, resource: &str) -> Option<Record> {
        let at = self.records.iter().position(|record| record.resource == resource)?;
        Some(self.records.remove(at))
    }

    /// What clients see.
    pub(super) fn state(&self) -> AutomationState {
        AutomationState {
            entries: self.records.iter().map(|record| record.entry(self.allowed)).collect(),
            meta: None,
        }
    }
}

/// The file of one automation.
pub(super) struct File(PathBuf);

impl File {
    pub(super) fn keep(&self, record: &Record) -> io::Result<()> {
        if let Some(dir) = self.0.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        lodge_files::replace(&self.0, &serde_json::to_vec(record)?)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Reads one file. One that is damaged is put aside, so that nothing is written over it, and the rest goes on without it.
fn read(path: &Path) -> Option<Record> {
    let read = fs::read(path).and_then(|text| Ok(serde_json::from_slice(&text)?));
    read.inspect_err(|error| {
        let aside = set_aside(path);
        tracing::error!(
            "the automation in {} cannot be read and is left out ({error}); {aside}",
            path.display()
        );
    })
    .ok()
}

/// Ends the runs of a host that is no more. Whether there were any. What had not begun yet can still begin.
fn interrupt(record: &mut Record, now: Timestamp, is_kept: impl Fn(&str) -> bool) -> bool {
    // By the state and not by the sessions: somebody may have removed the one of a run that was going on.
    let begun = record.runs.iter().filter(|run| !is_pending(&run.lifecycle));
    let begun: Vec<String> = begun.map(|run| run.resource.clone()).collect();
    let mut any = false;
    for run in begun {
        let end = End::failed("interrupted", "The host ended while this run was going on.");
        if !record.end(&run, end, now) {
            continue;
        }
        any = true;
        // The host may have ended before there was the session that was to be.
        if let Some(run) = record.run_mut(&run) {
            run.sessions.retain(|session| is_kept(session));
            run.primary_session = run.primary_session.take().filter(|session| is_kept(session));
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use ahp_types::state::{AutomationManualRunOrigin, AutomationRunLifecycle, AutomationRunOrigin};
    use serde_json::json;

    use super::*;

    #[test]
    fn runs_that_a_host_left_behind_have_failed_and_those_that_had_not_begun_can_begin() {
        let dir = tempfile::tempdir().unwrap();
        let definition = serde_json::from_value(json!({
            "title": "t", "message": { "text": "hello", "origin": { "kind": "automation" } }, "session": {},
            "enabled": true, "triggers": [],
        }));
        let now = Timestamp::UNIX_EPOCH;
        let mut record = Record::new("ahp-automation:/a".into(), definition.unwrap(), now);
        let mut ask = |key: &str| {
            let origin = AutomationRunOrigin::Manual(AutomationManualRunOrigin {});
            record.ask(key.into(), origin, now).unwrap()
        };
        let [waits, runs, removed] = ["waits", "runs", "removed"].map(&mut ask);
        for run in [&runs, &removed] {
            assert!(record.begin(run, "lodge:/kept", now));
        }
        // Somebody removed its session, and then the host was killed.
        record.run_mut(&removed).unwrap().sessions.clear();
        let open = || Book::open(dir.path().to_owned(), true, now, |_| true).unwrap();
        open().file(&record.resource).keep(&record).unwrap();
        let book = open();
        let is = |run: &str| book.of_run(run).and_then(|record| record.run(run)).unwrap();
        assert!(matches!(is(&waits).lifecycle, AutomationRunLifecycle::Pending(_)));
        for run in [&runs, &removed] {
            assert!(matches!(is(run).lifecycle, AutomationRunLifecycle::Failed(_)), "{run}");
        }
        assert_eq!(is(&runs).sessions, ["lodge:/kept"]);
    }
}
