//! What is done to files is told and undone exactly.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use lodge_tools::changes::{Against, Cause, Changes, ChangesError, Entry, Git, Limits, Scope, Skip, Touches};
use testkit::Random;

/// A working directory beside a session's.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) changes: Changes,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let changes = open(dir.path(), limits);
        Self { dir, changes }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    /// A turn that runs one command.
    pub(crate) fn turn(&self, id: &str, command: &str) {
        self.changes.begin(cause(id));
        let looked = self.changes.before(Touches::Anything, &[self.work()]);
        self.sh(command);
        self.changes.after(&looked, false);
    }

    pub(crate) fn sh(&self, command: &str) {
        let output = Command::new("bash")
            .arg("-c")
            .arg(command)
            .current_dir(self.work())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    pub(crate) fn git(&self) {
        self.sh("git init -q && git config user.email a@b.c && git config user.name A && git add -A && git commit -q -m 1 --allow-empty");
    }

    pub(crate) fn restore(&self, scope: &Scope, force: bool) -> lodge_tools::changes::Restored {
        self.changes.restore(scope, None, force).unwrap()
    }

    pub(crate) fn told(&self, scope: &Scope) -> Vec<String> {
        let deltas = self.changes.of(scope).unwrap();
        let told = deltas.iter().map(|delta| {
            let kind = match (&delta.before, &delta.after) {
                (Entry::Absent, _) => "new",
                (_, Entry::Absent) => "gone",
                _ => "changed",
            };
            let name = delta
                .path
                .strip_prefix(real(&self.work()))
                .unwrap()
                .display()
                .to_string();
            let lines = self.changes.lines(&delta.before, &delta.after);
            let lines = lines.map_or("?".to_owned(), |(added, removed)| format!("+{added} -{removed}"));
            format!("{kind} {name} {lines}")
        });
        told.collect()
    }
}

pub(crate) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap()
}

fn open(dir: &Path, limits: Limits) -> Changes {
    Changes::new(&dir.join("session"), &dir.join("session"), limits)
}

pub(crate) fn cause(id: &str) -> Cause {
    Cause {
        id: id.to_owned(),
        event: Some(format!("event-{id}")),
    }
}

pub(crate) fn of(id: &str) -> Scope {
    Scope::Of(id.to_owned())
}

/// Everything below a directory but git's own: kind, mode, contents.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() == ".git" {
                continue;
            }
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

/// A command that does something to files that may be there.
fn random_command(random: &mut Random) -> String {
    let names = [
        "a",
        "b.txt",
        "d/e",
        "d/f",
        "g/h/i",
        "with space",
        "ü",
        "l",
        "tracked",
        "big/x",
    ];
    let name = *random.pick(&names);
    let other = *random.pick(&names);
    let dir = Path::new(name).parent().unwrap().display().to_string();
    let dir = if dir.is_empty() { ".".to_owned() } else { dir };
    let number = random.below(1000);
    let command = match random.below(16) {
        0 | 1 => format!("echo {number} >> '{name}'"),
        2 => format!("printf '\\0\\377{number}' > '{name}'"),
        3 => format!("rm -f '{name}'"),
        4 => format!(
            "rm -rf '{dir}/../{dir}/{}'",
            Path::new(name).file_name().unwrap().display()
        ),
        5 => format!("mv -fT '{name}' '{other}'"),
        6 => format!("chmod {} '{name}'", random.pick(&["600", "755", "444", "640"])),
        7 => format!("ln -sfn nowhere-{number} '{name}'"),
        8 => format!("rm -rf '{name}' && mkdir '{name}' && echo in > '{name}/inside'"),
        9 => format!("rm -rf '{dir}' ; echo now-a-file > '{dir}'"),
        10 => format!("touch '{name}'"),
        11 => format!("printf 'line\\r\\n{number}' > '{name}'"),
        12 => format!("cp -rT '{name}' '{other}'"),
        13 => format!("mkdir -p 'empty-{}'", number % 5),
        14 => format!("chmod 700 '{dir}'"),
        _ => format!("sed -i 's/1/7/' '{name}'"),
    };
    let parents = if dir == "." {
        String::new()
    } else {
        format!("mkdir -p '{dir}' 2>/dev/null; ")
    };
    format!("{{ {parents}{command}; }} 2>/dev/null || true")
}

fn random_trees(git: bool) {
    let (mut random, seed) = Random::from_env();
    for round in 0..12 {
        let place = Place::new();
        for name in ["a", "d/e", "tracked", "big/x"] {
            place.write(name, format!("{name}\n1\n2\n"));
        }
        if git {
            place.write(".gitattributes", "*.txt text eol=crlf\n");
            place.write("b.txt", "1\r\n2\r\n");
            place.git();
        }
        let mut trees = vec![tree(&place.work())];
        let turns: Vec<String> = (0..4).map(|turn| format!("t{turn}")).collect();
        for turn in &turns {
            let mut commands: Vec<String> = (0..5).map(|_| random_command(&mut random)).collect();
            if git && random.below(3) == 0 {
                commands.push("git add -A && git commit -q -m more --allow-empty".to_owned());
            }
            if random.below(2) == 0 {
                // One that says which file it changes.
                let path = real(&place.work()).join("by-tool/file");
                place.changes.begin(cause(turn));
                let looked = place.changes.before(Touches::Files(vec![path.clone()]), &[]);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, turn).unwrap();
                place.changes.after(&looked, false);
            }
            place.turn(turn, &commands.join("\n"));
            trees.push(tree(&place.work()));
        }
        let context = format!("LODGE_SEED={seed}, round {round}, git {git}");
        // Taken back step by step, and then forward again.
        let report = place.restore(&of("t3"), false);
        assert!(report.skipped.is_empty(), "{context}: {report:?}");
        assert_eq!(tree(&place.work()), trees[3], "{context}: the last turn");
        if let Some(id) = report.id {
            let report = place.restore(&of(&id), false);
            assert!(report.skipped.is_empty(), "{context}: {report:?}");
        }
        assert_eq!(tree(&place.work()), trees[4], "{context}: the last turn, undone");
        let since = random.below(4) as usize;
        let report = place.restore(&Scope::Turns(turns[since..].to_vec()), false);
        assert!(report.skipped.is_empty(), "{context}: {report:?}");
        assert_eq!(tree(&place.work()), trees[since], "{context}: since {since}");
        // What is written down says the same as what was seen.
        let again = open(place.dir.path(), Limits::default());
        again.tidy();
        let report = again.restore(&Scope::Session, None, false).unwrap();
        assert!(report.skipped.is_empty(), "{context}: {report:?}");
        assert_eq!(tree(&place.work()), trees[0], "{context}: all of it");
    }
}

#[test]
fn random_commands_are_undone_byte_for_byte_and_mode_for_mode() {
    random_trees(false);
}

#[test]
fn random_commands_are_undone_in_a_repository_too() {
    random_trees(true);
}

#[test]
fn changes_are_told_with_their_lines() {
    let place = Place::new();
    place.write("kept", "1\n2\n3\n");
    place.write("old", "x\n");
    place.write("image", [0, 1, 2]);
    place.write(".gitignore", "ignored\n");
    place.git();
    place.turn(
        "1",
        "echo 4 >> kept; rm old; printf '\\0' >> image; seq 5 > new; echo no > ignored; ln -s kept link",
    );
    let told = [
        "changed image ?",
        "changed kept +1 -0",
        "new link ?",
        "new new +5 -0",
        "gone old +0 -1",
    ];
    assert_eq!(place.told(&of("1")), told);
    assert_eq!(place.told(&of("event-1")), told, "a turn is known by its event too");
    place.turn("2", "rm new; sed -i 's/2/two/' kept");
    assert_eq!(place.told(&of("2")), ["changed kept +1 -1", "gone new +0 -5"]);
    assert_eq!(
        place.told(&Scope::Session),
        ["changed image ?", "changed kept +2 -1", "new link ?", "gone old +0 -1"],
        "what came and went is no change"
    );
    place.turn("3", "touch kept; cat kept > /dev/null");
    assert_eq!(place.told(&of("3")), [""; 0]);
    assert!(!place.changes.knows("3").unwrap());
}

#[test]
fn what_a_person_changed_since_is_left_alone_and_said() {
    let check = |person: &str, force: bool, expected: Result<&str, Skip>| {
        let place = Place::new();
        place.write("file", "before\n");
        place.write("other", "o\n");
        place.turn("1", "echo after > file; echo o2 > other");
        place.sh(person);
        let report = place.restore(&of("1"), force);
        let told = report.skipped.iter().find(|(path, _)| path.ends_with("file"));
        match expected {
            Ok(text) => {
                assert_eq!(told, None, "{person}");
                assert_eq!(place.read("file"), text, "{person}");
            }
            Err(skip) => {
                let before = report.restored.iter().any(|path| path.ends_with("file"));
                assert_eq!((told.map(|(_, skip)| skip), before), (Some(&skip), false), "{person}");
                assert_eq!(report.conflicts().count(), 1, "{person}");
            }
        }
        assert_eq!(place.read("other"), "o\n", "{person}: the others are restored");
    };
    check("true", false, Ok("before\n"));
    check("touch file", false, Ok("before\n"));
    check("echo before > file", false, Ok("before\n"));
    check("echo mine > file", false, Err(Skip::Changed));
    check("echo mine > file", true, Ok("before\n"));
    check("chmod 600 file", false, Err(Skip::Changed));
    check("rm file", false, Err(Skip::Changed));
    check("rm file", true, Ok("before\n"));
    check("rm file; ln -s other file", false, Err(Skip::Changed));
    check("rm file; mkdir file", false, Err(Skip::Changed));
}

#[test]
fn what_a_person_changed_between_two_turns_is_not_lost_by_taking_both_back() {
    let place = Place::new();
    place.write("file", "0\n");
    place.turn("1", "echo 1 > file");
    place.sh("echo person > file");
    place.turn("2", "echo 2 > file");
    let both = Scope::Turns(vec!["1".into(), "2".into()]);
    assert_eq!(place.restore(&both, false).conflicts().count(), 1);
    assert_eq!(place.read("file"), "2\n");
    assert_eq!(place.restore(&of("2"), false).conflicts().count(), 0);
    assert_eq!(place.read("file"), "person\n");
}

#[test]
fn a_directory_that_became_a_link_leads_nowhere_else() {
    let place = Place::new();
    place.write("dir/file", "before\n");
    place.turn("1", "echo after > dir/file");
    let outside = place.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "after\n").unwrap();
    place.sh("rm -r dir; ln -s ../outside dir");
    for force in [false, true] {
        let report = place.restore(&of("1"), force);
        assert_eq!(report.skipped.len(), 1, "{report:?}");
    }
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "after\n");
}

#[test]
fn a_file_too_large_to_be_kept_is_told_and_left_alone() {
    let place = Place::with(Limits {
        file_bytes: 10,
        ..Limits::default()
    });
    place.write("large", "longer than ten bytes");
    place.write("small", "small");
    place.turn("1", "echo short > large; echo x > small");
    let report = place.restore(&of("1"), true);
    assert_eq!(report.skipped, [(real(&place.work()).join("large"), Skip::NotKept)]);
    assert_eq!(place.read("small"), "small");
}

#[test]
fn a_tree_with_too_many_files_is_not_looked_at() {
    let place = Place::with(Limits {
        entries: 3,
        ..Limits::default()
    });
    for name in ["a", "b", "c", "d"] {
        place.write(name, "");
    }
    place.turn("1", "echo x > a");
    assert_eq!(place.told(&Scope::Session), [""; 0]);
    // A tool that says what it touches is still told.
    let path = real(&place.work()).join("b");
    let looked = place.changes.before(Touches::Files(vec![path.clone()]), &[]);
    std::fs::write(&path, "y\n").unwrap();
    place.changes.after(&looked, false);
    assert_eq!(place.told(&Scope::Session), ["changed b +1 -0"]);
}

#[test]
fn a_call_that_was_cut_off_is_taken_in_at_the_end_of_the_turn() {
    let place = Place::new();
    place.changes.begin(cause("1"));
    let looked = place.changes.before(Touches::Anything, &[place.work()]);
    place.sh("echo x > made");
    assert!(matches!(
        place.changes.restore(&Scope::Session, None, false),
        Err(ChangesError::Busy)
    ));
    assert!(place.changes.is_open());
    place.changes.settle(true);
    assert!(place.changes.is_open(), "a command goes on");
    place.sh("echo y > later");
    place.changes.settle(false);
    assert!(!place.changes.is_open());
    assert_eq!(place.told(&of("1")), ["new later +1 -0", "new made +1 -0"]);
    // Its own end may be told late, when the next call is under way: that one is not forgotten for it.
    place.changes.begin(cause("2"));
    let next = place.changes.before(Touches::Anything, &[place.work()]);
    place.changes.after(&looked, false);
    place.sh("echo z > next");
    place.changes.after(&next, false);
    assert_eq!(place.told(&of("2")), ["new next +1 -0"]);
}

#[test]
fn one_file_of_a_turn_can_be_taken_back_alone() {
    let place = Place::new();
    place.write("a", "a\n");
    place.turn(
        "1",
        "echo b > a; mkdir -p new/deep; echo x > new/deep/file; echo y > new/deep/other",
    );
    let only = |name: &str| Some(std::collections::BTreeSet::from([real(&place.work()).join(name)]));
    place.changes.restore(&of("1"), only("a").as_ref(), false).unwrap();
    assert_eq!(
        (place.read("a").as_str(), place.file("new/deep/file").exists()),
        ("a\n", true)
    );
    place
        .changes
        .restore(&of("1"), only("new/deep/file").as_ref(), false)
        .unwrap();
    assert!(place.file("new/deep/other").exists() && !place.file("new/deep/file").exists());
    place
        .changes
        .restore(&of("1"), only("new/deep/other").as_ref(), false)
        .unwrap();
    assert!(
        !place.file("new").exists(),
        "directories that it made go with the last file"
    );
}

#[test]
fn a_restoration_that_is_cut_short_leaves_each_file_old_or_new() {
    // A process that is killed cannot be watched from within: the test runs itself.
    if let Some(dir) = std::env::var_os("LODGE_TEST_RESTORE") {
        open(Path::new(&dir), Limits::default())
            .restore(&Scope::Session, None, false)
            .unwrap();
        return;
    }
    let place = Place::new();
    let (old, new) = ("o".repeat(200_000), "n".repeat(200_000));
    for n in 0..200 {
        place.write(&format!("file-{n}"), &old);
    }
    place.turn(
        "1",
        &format!(
            "for n in $(seq 0 199); do printf %s {} > file-$n; done",
            "n".repeat(100)
        ),
    );
    for n in 0..200 {
        assert_ne!(place.read(&format!("file-{n}")), new);
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "changes::a_restoration_that_is_cut_short_leaves_each_file_old_or_new",
        ])
        .env("LODGE_TEST_RESTORE", place.dir.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while place.read("file-100").len() < 1000 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let _ = child.kill();
    child.wait().unwrap();
    let mut seen = [0, 0];
    for n in 0..200 {
        let text = place.read(&format!("file-{n}"));
        assert!(text == old || text == "n".repeat(100), "file-{n} is half");
        seen[usize::from(text == old)] += 1;
    }
    assert!(seen[1] > 0, "{seen:?}");
    // Whoever comes next brings it to its end.
    let again = open(place.dir.path(), Limits::default());
    let report = again.restore(&of("1"), None, false).unwrap();
    assert_eq!((report.restored.len(), report.already.len()), (0, 200));
    for n in 0..200 {
        assert_eq!(place.read(&format!("file-{n}")), old);
    }
}

#[test]
fn the_work_tree_is_told_against_its_commit_and_its_branch() {
    let place = Place::new();
    place.write("a", "1\n");
    place.write("b", "1\n");
    place.git();
    place.sh("git branch -M main; git checkout -q -b feature; echo 2 >> a; git commit -q -a -m 2; echo 3 >> b; seq 3 > n; touch 's p'");
    let git = Git::around(&place.work()).unwrap();
    let told = |against| {
        let changes = git.changes(&real(&place.work()), against).unwrap();
        let told = changes.iter().map(|change| {
            let name = change.path.strip_prefix(git.root()).unwrap().display().to_string();
            (name, change.before.is_some(), change.exists, change.lines)
        });
        told.collect::<Vec<_>>()
    };
    let row = |name: &str, before, lines| (name.to_owned(), before, true, Some(lines));
    let loose = [
        row("b", true, (1, 0)),
        row("n", false, (3, 0)),
        row("s p", false, (0, 0)),
    ];
    assert_eq!(told(Against::Head), loose);
    assert_eq!(told(Against::Base), [&[row("a", true, (1, 0))], &loose[..]].concat());
    assert_eq!(git.base().unwrap().0, "main");
    let before = git.changes(&place.work(), Against::Head).unwrap();
    let oid = before[0].before.clone().unwrap();
    assert_eq!(git.content(&oid).unwrap(), b"1\n");
    assert!(git.content("HEAD").is_err());
    // Thrown away, and brought back.
    place.sh("git add n");
    let report = place.changes.discard(&git, &before).unwrap();
    assert_eq!((report.restored.len(), report.skipped.len()), (3, 0), "{report:?}");
    assert_eq!(told(Against::Head), []);
    place.restore(&of(&report.id.unwrap()), false);
    assert_eq!(told(Against::Head), loose);
    git.stage(&[real(&place.file("n"))]).unwrap();
    // What is the host's own is never committed.
    place.write("own/secret", "s\n");
    let own = real(&place.work()).join("own");
    let said = git.commit(&real(&place.work()), &own, "Say it").unwrap();
    assert_eq!(said.split_once(' ').unwrap().1, "Say it");
    assert_eq!(told(Against::Head), [row("own/secret", false, (1, 0))]);
    assert!(git.commit(&real(&place.work()), &own, "Nothing").is_err());
}

#[test]
fn looking_leaves_the_persons_index_as_it_is() {
    let place = Place::new();
    place.write("a", "1\n");
    place.git();
    place.sh("echo 2 > a; echo n > new; git add new; touch a");
    let index = || {
        (
            std::fs::read(place.file(".git/index")).unwrap(),
            tree(&place.file(".git/objects")),
        )
    };
    let before = index();
    place.turn("1", "echo 3 > a; rm new");
    place.changes.of(&Scope::Session).unwrap();
    Git::around(&place.work())
        .unwrap()
        .changes(&place.work(), Against::Head)
        .unwrap();
    place.restore(&of("1"), false);
    assert!(index() == before);
    assert_eq!((place.read("a").as_str(), place.read("new").as_str()), ("2\n", "n\n"));
}
