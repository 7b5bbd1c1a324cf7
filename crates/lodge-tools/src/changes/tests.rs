//! Interrupts a restoration at every possible point.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::{
    collections::BTreeMap,
    io,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{Cause, Changes, ChangesError, Faults, Limits, Restored, Scope, Touches};

type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// A tree that a turn changed in every way, and a copy to begin again from.
struct Scene {
    dir: tempfile::TempDir,
    before: Tree,
    after: Tree,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let live = dir.path().join("live");
        let work = live.join("work");
        let put = |name: &str, contents: &[u8], mode: u32| {
            let path = work.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, contents).unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        let chmod = |name: &str, mode| std::fs::set_permissions(work.join(name), PermissionsExt::from_mode(mode));
        put("changed", b"1\n", 0o644);
        put("large", &vec![7; 300_000], 0o640);
        put("mode", b"#!/bin/sh\n", 0o755);
        put("gone/deep/file", b"gone", 0o600);
        put("becomes-dir", b"file", 0o644);
        put("becomes-file/inside", b"inside", 0o644);
        put("shut/file", b"1", 0o444);
        std::fs::create_dir(work.join("empty")).unwrap();
        symlink("changed", work.join("link")).unwrap();
        symlink("nowhere", work.join("link-gone")).unwrap();
        chmod("shut", 0o555).unwrap();
        let before = tree(&work);
        let changes = open(&live);
        changes.begin(Cause {
            id: "turn".into(),
            event: Some("event".into()),
        });
        let looked = changes.before(Touches::Anything, std::slice::from_ref(&work));
        put("changed", b"2\n", 0o644);
        put("large", &vec![8; 200_000], 0o640);
        chmod("mode", 0o600).unwrap();
        std::fs::remove_dir_all(work.join("gone")).unwrap();
        std::fs::remove_file(work.join("becomes-dir")).unwrap();
        put("becomes-dir/new", b"new", 0o644);
        std::fs::remove_dir_all(work.join("becomes-file")).unwrap();
        put("becomes-file", b"file now", 0o700);
        chmod("shut", 0o755).unwrap();
        std::fs::remove_file(work.join("shut/file")).unwrap();
        put("shut/other", b"o", 0o400);
        std::fs::remove_dir(work.join("empty")).unwrap();
        std::fs::remove_file(work.join("link")).unwrap();
        symlink("large", work.join("link")).unwrap();
        std::fs::remove_file(work.join("link-gone")).unwrap();
        put("made/deep/file", b"made", 0o644);
        changes.after(&looked, false);
        let after = tree(&work);
        drop(changes);
        let scene = Self { dir, before, after };
        scene.copy("live", "kept");
        scene
    }

    fn copy(&self, from: &str, to: &str) {
        let script = format!("chmod -R u+rwx {to} 2>/dev/null; rm -rf {to} && cp -a {from} {to}");
        let status = Command::new("sh")
            .args(["-c", &script])
            .current_dir(self.dir.path())
            .status();
        assert!(status.unwrap().success());
    }

    fn again(&self) {
        self.copy("kept", "live");
    }

    fn live(&self) -> PathBuf {
        self.dir.path().join("live")
    }

    fn tree(&self) -> Tree {
        tree(&self.live().join("work"))
    }

    /// After a crash: whoever comes next carries on what was begun.
    fn recover(&self) -> bool {
        let changes = open(&self.live());
        match changes.interrupted().unwrap() {
            Some(found) => {
                changes.complete(&found).unwrap();
                true
            }
            None => false,
        }
    }

    /// The tree is exactly one of the two, the records agree with it, and a second restoration ends at the target.
    fn check(&self, context: &str) -> bool {
        let now = self.tree();
        let restored = now == self.before;
        assert!(
            restored || now == self.after,
            "{context}: {:?}",
            difference(&now, &self.before, &self.after)
        );
        assert!(
            !super::journal::left_behind(&self.live()).is_ok_and(|left| !left.is_empty()),
            "{context}"
        );
        let changes = open(&self.live());
        assert_eq!(
            changes.of(&Scope::Session).unwrap().is_empty(),
            restored,
            "{context}: the records"
        );
        let report = changes.restore(&Scope::Session, None, false).unwrap();
        assert_eq!(report.skipped, [], "{context}");
        assert_eq!(self.tree(), self.before, "{context}: restored again");
        restored
    }
}

fn open(live: &Path) -> Changes {
    Changes::new(&live.join("home/session"), &live.join("home"), Limits::default())
}

fn tree(dir: &Path) -> Tree {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let contents = if metadata.is_symlink() {
                path.read_link().unwrap().into_os_string().into_encoded_bytes()
            } else if metadata.is_dir() {
                open.push(path.clone());
                Vec::new()
            } else {
                std::fs::read(&path).unwrap()
            };
            found.insert(path, (metadata.mode(), contents));
        }
    }
    found
}

fn difference<'a>(now: &'a Tree, before: &'a Tree, after: &'a Tree) -> Vec<String> {
    let paths: std::collections::BTreeSet<&PathBuf> = now.keys().chain(before.keys()).chain(after.keys()).collect();
    let state = |path: &PathBuf| match (now.get(path) == before.get(path), now.get(path) == after.get(path)) {
        (true, true) => "same",
        (true, false) => "before",
        (false, true) => "after",
        (false, false) => "neither",
    };
    paths
        .into_iter()
        .map(|path| format!("{} {}", state(path), path.display()))
        .collect()
}

#[derive(Clone, Copy)]
enum Kind {
    /// The process has ended.
    Crash,
    /// The disk fails once.
    FailOnce,
    /// The disk fails from there on.
    FailOn,
}

/// Fails at the point with this number. The count says how many points there were.
fn faults(kind: Kind, number: usize) -> (Faults, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let faults = Faults::new(move || {
        let at = seen.fetch_add(1, Ordering::Relaxed);
        match kind {
            // Unlike a panic, without a word.
            Kind::Crash if at == number => std::panic::resume_unwind(Box::new(Crash)),
            Kind::FailOnce if at == number => Err(io::ErrorKind::StorageFull.into()),
            Kind::FailOn if at >= number => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    });
    (faults, count)
}

struct Crash;

/// Runs something that may crash; `None` when it did.
fn crashing<T>(run: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(run));
    match result {
        Ok(done) => Some(done),
        Err(payload) if payload.is::<Crash>() => None,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

fn restore(scene: &Scene, kind: Kind, at: usize) -> (Option<Result<Restored, ChangesError>>, usize) {
    let (faults, count) = faults(kind, at);
    let mut changes = open(&scene.live());
    changes.faults = faults;
    let done = crashing(|| changes.restore(&Scope::Session, None, false));
    (done, count.load(Ordering::Relaxed))
}

#[test]
fn a_crash_at_any_point_ends_in_one_of_the_two_states() {
    let scene = Scene::new();
    let (done, points) = restore(&scene, Kind::Crash, usize::MAX);
    let report = done.unwrap().unwrap();
    assert_eq!(report.skipped, []);
    assert_eq!(scene.tree(), scene.before);
    assert!(points > 50, "only {points} points");
    let mut ends = [0, 0];
    for at in 0..points {
        scene.again();
        assert!(
            restore(&scene, Kind::Crash, at).0.is_none(),
            "point {at} of {points} was not reached"
        );
        scene.recover();
        ends[usize::from(scene.check(&format!("crash at {at} of {points}")))] += 1;
    }
    assert!(ends[0] > 0 && ends[1] > ends[0], "{ends:?}");
}

#[test]
fn a_crash_during_the_recovery_is_one_more_crash() {
    let scene = Scene::new();
    let (_, points) = restore(&scene, Kind::Crash, usize::MAX);
    for at in (0..points).step_by(11) {
        for second in (at % 7..points).step_by(19) {
            scene.again();
            restore(&scene, Kind::Crash, at);
            let (faults, _) = faults(Kind::Crash, second);
            let mut changes = open(&scene.live());
            changes.faults = faults;
            if let Some(found) = changes.interrupted().unwrap() {
                crashing(|| changes.complete(&found).unwrap());
            }
            drop(changes);
            scene.recover();
            scene.check(&format!("crash at {at}, then at {second}, of {points}"));
        }
    }
}

#[test]
fn a_failure_at_any_point_is_told_and_rolled_back() {
    let scene = Scene::new();
    let (_, points) = restore(&scene, Kind::FailOnce, usize::MAX);
    for at in 0..points {
        scene.again();
        let error = restore(&scene, Kind::FailOnce, at).0.unwrap().unwrap_err();
        assert_eq!(scene.tree(), scene.after, "failed at {at} of {points}: {error}");
        assert!(!scene.recover(), "failed at {at}: a journal is left");
        assert!(!scene.check(&format!("failed at {at} of {points}")));
    }
}

#[test]
fn a_disk_that_goes_on_failing_leaves_nothing_that_cannot_be_mended_later() {
    let scene = Scene::new();
    let (_, points) = restore(&scene, Kind::FailOn, usize::MAX);
    for at in 0..points {
        scene.again();
        restore(&scene, Kind::FailOn, at).0.unwrap().unwrap_err();
        scene.recover();
        scene.check(&format!("failing from {at} of {points} on"));
    }
}

#[test]
fn a_file_that_somebody_changes_in_the_middle_is_left_alone_and_told() {
    let scene = Scene::new();
    let changed = scene.live().join("work/changed").canonicalize().unwrap();
    // After the journal, before the first file.
    restore(&scene, Kind::Crash, 3);
    std::fs::write(&changed, "mine\n").unwrap();
    let changes = open(&scene.live());
    let found = changes.interrupted().unwrap().unwrap();
    let report = changes.complete(&found).unwrap();
    assert_eq!(report.conflicts().collect::<Vec<_>>(), [changed.as_path()]);
    assert_eq!(std::fs::read(&changed).unwrap(), b"mine\n");
    let mut rest = scene.tree();
    rest.insert(changed.clone(), scene.before[&changed].clone());
    assert_eq!(rest, scene.before);
    drop(found);
    // It is a conflict also for whoever asks again, and goes when they insist.
    let again = changes.restore(&Scope::Session, None, false).unwrap();
    assert_eq!(again.conflicts().count(), 1);
    changes.restore(&Scope::Session, None, true).unwrap();
    assert_eq!(scene.tree(), scene.before);
}

#[test]
fn the_disk_is_believed_and_not_what_was_written_down() {
    let scene = Scene::new();
    let changes = open(&scene.live());
    changes.restore(&Scope::Session, None, false).unwrap();
    // As a crash left it in the days when a restoration was written down before it was done.
    std::fs::write(scene.live().join("work/changed"), "2\n").unwrap();
    let report = changes.restore(&Scope::Session, None, false).unwrap();
    assert_eq!((report.restored.len(), report.skipped.len()), (1, 0), "{report:?}");
    assert_eq!(scene.tree(), scene.before);
}

#[test]
fn a_journal_that_cannot_be_read_is_set_aside_and_told() {
    let scene = Scene::new();
    restore(&scene, Kind::Crash, 3);
    let journal = scene.live().join("home/restoring/session.forward");
    std::fs::write(&journal, "{").unwrap();
    let changes = open(&scene.live());
    let Err(ChangesError::DamagedJournal { path, .. }) = changes.interrupted() else {
        panic!("it was not told");
    };
    assert_eq!(std::fs::read(path).unwrap(), b"{");
    assert!(changes.interrupted().unwrap().is_none());
}

#[test]
fn nobody_carries_on_what_another_process_is_at() {
    let scene = Scene::new();
    let [one, other] = [open(&scene.live()), open(&scene.live())];
    let (begun, _) = one.begin_restoration(&Scope::Session, None, false, None).unwrap();
    assert!(other.interrupted().unwrap().is_none());
    assert!(matches!(
        other.restore(&Scope::Session, None, false),
        Err(ChangesError::Busy)
    ));
    drop(begun);
    assert!(other.interrupted().unwrap().is_some());
}

#[test]
fn contents_that_an_unfinished_restoration_needs_are_not_tidied_away() {
    let scene = Scene::new();
    restore(&scene, Kind::Crash, 20);
    open(&scene.live()).tidy();
    let changes = open(&scene.live());
    let found = changes.interrupted().unwrap().unwrap();
    assert_eq!(changes.roll_back(&found).unwrap(), []);
    assert_eq!(scene.tree(), scene.after);
}
