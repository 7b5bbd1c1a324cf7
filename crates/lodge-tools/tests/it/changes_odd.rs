//! Changes where trees are odd: ignored files, repositories in repositories, names that are no text, directories that go.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use lodge_tools::changes::{Against, Git, Scope, Skip};

use crate::changes::{Place, of, real};

/// Until what was written before can be told by its times from what is written after.
fn settle() {
    std::thread::sleep(Duration::from_millis(150));
}

/// A directory with files that git does not look at.
fn with_ignored() -> Place {
    let place = Place::new();
    place.write(".gitignore", "secret\nbuild/\n");
    place.write("secret", "mine\n");
    place.write("build/out", "made\n");
    place.write("notes", "1\n");
    place.write("sub/file", "1\n");
    settle();
    place
}

fn skipped(report: &lodge_tools::changes::Restored) -> Vec<(&OsStr, &Skip)> {
    let skipped = report.skipped.iter();
    skipped.map(|(path, skip)| (path.file_name().unwrap(), skip)).collect()
}

#[test]
fn files_that_are_no_longer_ignored_are_not_taken_for_new_and_stay() {
    for git in [false, true] {
        let place = with_ignored();
        if git {
            place.git();
            settle();
        }
        place.turn("1", "rm .gitignore");
        assert_eq!(place.told(&of("1")), ["gone .gitignore +0 -2"]);
        place.restore(&of("1"), false);
        assert_eq!(place.read(".gitignore"), "secret\nbuild/\n");
        assert_eq!(
            (place.read("secret"), place.read("build/out")),
            ("mine\n".into(), "made\n".into())
        );
    }
}

#[test]
fn files_that_are_ignored_from_now_on_are_not_taken_for_gone() {
    let place = with_ignored();
    place.turn("1", "echo notes >> .gitignore");
    assert_eq!(place.told(&of("1")), ["changed .gitignore +1 -0"]);
    // Changed and hidden at once.
    place.sh("sed -i /notes/d .gitignore");
    settle();
    place.turn("2", "echo 2 >> notes; echo notes >> .gitignore");
    assert_eq!(
        place.told(&of("2")),
        ["changed .gitignore +1 -0", "changed notes +1 -0"]
    );
    let report = place.restore(&of("2"), false);
    assert_eq!(report.skipped, []);
    assert_eq!(place.read("notes"), "1\n");
}

#[test]
fn a_file_that_was_ignored_when_it_was_changed_is_never_removed() {
    let place = with_ignored();
    place.turn("1", "rm .gitignore; mv sub moved; echo more >> secret; echo new > new");
    let report = place.restore(&of("1"), true);
    assert_eq!(skipped(&report), [(OsStr::new("secret"), &Skip::NotKept)]);
    assert_eq!(place.read("secret"), "mine\nmore\n");
    assert_eq!(place.read("sub/file"), "1\n");
    assert!(!place.file("new").exists() && !place.file("moved").exists());
}

#[test]
fn a_working_directory_that_is_removed_or_moved_away_comes_back() {
    for command in ["rm -rf \"$PWD\"", "mv \"$PWD\" ../elsewhere"] {
        let place = Place::new();
        place.write("a", "1\n");
        place.write("sub/b", [0, 255]);
        settle();
        place.turn("1", command);
        assert_eq!(place.told_gone(), ["a", "sub/b"], "{command}");
        let report = place.restore(&of("1"), false);
        assert_eq!(report.skipped, [], "{command}");
        assert_eq!(place.read("a"), "1\n");
        assert_eq!(std::fs::read(place.file("sub/b")).unwrap(), [0, 255]);
    }
}

impl Place {
    /// The paths of all changes; for when there is no directory that they could be told against.
    fn told_gone(&self) -> Vec<String> {
        let top = real(self.dir.path()).join("work");
        let deltas = self.changes.of(&Scope::Session).unwrap();
        let paths = deltas
            .iter()
            .map(|delta| delta.path.strip_prefix(&top).unwrap().display().to_string());
        paths.collect()
    }
}

#[test]
fn files_in_submodules_and_nested_repositories_are_restored_too() {
    let place = Place::new();
    place.write("lib/inner", "1\n");
    place.write("vendor/deep", "1\n");
    place.sh("cd lib && git init -q && git config user.email a@b.c && git config user.name A && git add -A && git commit -q -m 1");
    place.git();
    place.sh("cd vendor && git init -q");
    settle();
    place.turn(
        "1",
        "echo 2 > lib/inner; echo 2 > vendor/deep; rm -f lib/.git/description; touch lib/more",
    );
    assert_eq!(
        place.told(&of("1")),
        [
            "changed lib/inner +1 -1",
            "new lib/more +0 -0",
            "changed vendor/deep +1 -1"
        ]
    );
    place.restore(&of("1"), false);
    assert_eq!(
        (place.read("lib/inner"), place.read("vendor/deep")),
        ("1\n".into(), "1\n".into())
    );
    assert!(!place.file("lib/more").exists());
}

#[test]
fn turns_that_are_taken_back_in_the_wrong_order_lose_nothing() {
    let place = Place::new();
    place.write("a", "0\n");
    settle();
    place.turn("1", "echo 1 > a");
    place.turn("2", "echo 2 > a");
    let report = place.restore(&of("1"), false);
    assert_eq!(skipped(&report), [(OsStr::new("a"), &Skip::Changed)]);
    assert_eq!(place.read("a"), "2\n");
    place.restore(&of("2"), false);
    assert_eq!(place.read("a"), "1\n");
    place.restore(&of("1"), false);
    assert_eq!(place.read("a"), "0\n");
}

fn git_of(place: &Place) -> Git {
    Git::around(&real(&place.work())).unwrap()
}

#[test]
fn git_s_part_takes_names_that_are_no_text() {
    let place = Place::new();
    let name = |name: &[u8]| real(&place.work()).join(OsStr::from_bytes(name));
    let [old, new] = [name(b"caf\xe9 \xf0\x9f\x98\x80"), name(b"n\xff*")];
    std::fs::write(&old, "1\n").unwrap();
    place.git();
    std::fs::write(&old, "2\n").unwrap();
    std::fs::write(&new, "n\n").unwrap();
    let git = git_of(&place);
    let changes = git.changes(git.root(), Against::Head).unwrap();
    let paths: Vec<&PathBuf> = changes.iter().map(|change| &change.path).collect();
    assert_eq!(paths, [&old, &new]);
    assert!(
        git.patch(&changes[0], Against::Head, false)
            .unwrap()
            .unwrap()
            .contains("+2")
    );
    git.stage(&[old.clone(), new.clone()]).unwrap();
    let report = place.changes.discard(&git, &changes).unwrap();
    assert_eq!((report.restored.len(), report.skipped.len()), (2, 0), "{report:?}");
    assert_eq!(std::fs::read(&old).unwrap(), b"1\n");
    assert!(!new.exists());
    place.restore(&of(&report.id.unwrap()), false);
    assert_eq!(std::fs::read(&new).unwrap(), b"n\n");
}

#[test]
fn a_file_that_git_could_not_merge_becomes_what_the_commit_has() {
    let place = Place::new();
    place.write("a", "0\n");
    place.git();
    place.sh("git branch -M main; git checkout -q -b other; echo 1 > a; git commit -q -a -m 1; git checkout -q main; echo 2 > a; git commit -q -a -m 2; ! git merge -q other 2>&1 >&2");
    let git = git_of(&place);
    let changes = git.changes(git.root(), Against::Head).unwrap();
    let told: Vec<(&Path, bool, bool)> = changes
        .iter()
        .map(|change| {
            (
                change.path.strip_prefix(git.root()).unwrap(),
                change.before.is_some(),
                change.exists,
            )
        })
        .collect();
    assert_eq!(told, [(Path::new("a"), true, true)]);
    let report = place.changes.discard(&git, &changes).unwrap();
    assert_eq!(report.skipped, []);
    assert_eq!(place.read("a"), "2\n");
}

#[test]
fn staging_takes_what_git_can_have_and_leaves_the_rest() {
    let place = Place::new();
    for name in ["changed", "gone", "kept"] {
        place.write(name, "1\n");
    }
    place.write(".gitignore", "ignored\n");
    place.git();
    place.sh("echo 2 > changed; rm gone; echo n > 'a *'; echo i > ignored");
    let git = git_of(&place);
    let files = ["changed", "gone", "a *", "ignored", "never", "kept"].map(|name| git.root().join(name));
    let elsewhere = PathBuf::from("/etc/hostname");
    assert_eq!(
        git.stage(&[&files[..], std::slice::from_ref(&elsewhere)].concat())
            .unwrap(),
        4
    );
    place.sh("test \"$(git diff --cached --name-only | sort | tr '\\n' ,)\" = 'a *,changed,gone,'");
    assert_eq!(git.stage(&[files[3].clone(), elsewhere]).unwrap(), 0);
}
