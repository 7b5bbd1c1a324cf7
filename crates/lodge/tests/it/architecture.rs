//! ARCHITECTURE.md says what is so: which crate may use which, and which test keeps an invariant.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

use serde_json::Value;
use testkit::workspace;

/// The crates that share the workspace and are no part of the program.
const TOOLING: &[&str] = &["features", "testkit", "xtask"];
/// The crates that speak AHP.
const SPEAK_AHP: &[&str] = &["lodge", "lodge-ahp", "lodge-terminal", "xtask"];

fn page() -> String {
    std::fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap()
}

/// Words between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The table of rooms, top to bottom: a crate, and the crates of the workspace that it may use.
fn rooms() -> Vec<(String, BTreeSet<String>)> {
    let page = page();
    let table = page
        .split("\n## Rooms\n")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        assert_eq!(
            cells.len(),
            4,
            "a room is a crate, what it knows, what it may not know and what it may use: {row}"
        );
        let name = code(cells[0]).next().unwrap().to_owned();
        (name, code(cells[3]).map(|used| format!("lodge-{used}")).collect())
    })
    .collect()
}

/// What each crate of the workspace depends on when it is built for people.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let used = package["dependencies"].as_array().unwrap().iter();
            let used = used.filter(|used| used["kind"] != "dev");
            let names = used.map(|used| used["name"].as_str().unwrap().to_owned());
            (package["name"].as_str().unwrap().to_owned(), names.collect())
        })
        .collect()
}

#[test]
fn a_crate_uses_the_rooms_that_the_table_says_and_no_others() {
    let (rooms, dependencies) = (rooms(), dependencies());
    let built: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    let described = rooms
        .iter()
        .map(|(name, _)| name.as_str())
        .chain(TOOLING.iter().copied());
    assert_eq!(
        built,
        described.collect(),
        "every crate has a row in ARCHITECTURE.md, and every row a crate"
    );
    for (name, may_use) in &rooms {
        let used: BTreeSet<String> = dependencies[name]
            .iter()
            .filter(|used| used.starts_with("lodge-"))
            .cloned()
            .collect();
        // The program puts everything together.
        if name != "lodge" {
            assert_eq!(
                &used, may_use,
                "what {name} uses, and what ARCHITECTURE.md says that it may use"
            );
        }
    }
}

/// Whether a source of the workspace has a test of this name.
fn has_test(sources: &str, path: &str) -> bool {
    let name = path.rsplit("::").next().unwrap();
    sources.contains(&format!("fn {name}("))
}

#[test]
fn every_invariant_names_the_test_that_fails_when_it_is_broken() {
    let mut all = String::new();
    let mut folders = vec![workspace().join("crates")];
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            folders.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all += &std::fs::read_to_string(path).unwrap();
        }
    }
    let page = page();
    let invariants = page
        .split("\n## Invariants\n")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    // Names of tests are sentences.
    let sentence = |word: &&str| {
        let name = word.rsplit("::").next().unwrap();
        name.matches('_').count() > 4
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    for test in code(&page).filter(sentence) {
        assert!(
            has_test(&all, test),
            "ARCHITECTURE.md names the test {test}, which does not exist"
        );
    }
    let mut count = 0;
    let starts: Vec<usize> = invariants
        .match_indices(". **")
        .map(|(at, _)| invariants[..at].rfind('\n').map_or(0, |line| line + 1))
        .collect();
    for (n, start) in starts.iter().enumerate() {
        let text = &invariants[*start..starts.get(n + 1).copied().unwrap_or(invariants.len())];
        let measured = text.contains("`cargo xtask bench`");
        assert!(
            measured || code(text).any(|word| sentence(&word)),
            "no test is named: {text}"
        );
        count += 1;
    }
    assert!(count >= 12, "{count}");
}

#[test]
fn every_file_that_the_page_names_exists() {
    let page = page();
    let files: Vec<&str> = code(&page)
        .filter(|word| ["crates/", "web/"].iter().any(|start| word.starts_with(start)))
        .filter(|word| [".rs", ".ts", ".tsx"].iter().any(|end| word.ends_with(end)))
        .collect();
    assert!(files.len() > 30, "{}", files.len());
    for file in files {
        assert!(
            workspace().join(file).is_file(),
            "ARCHITECTURE.md names {file}, which does not exist"
        );
    }
}

#[test]
fn rooms_use_only_rooms_further_down() {
    let rooms = rooms();
    for (place, (name, may_use)) in rooms.iter().enumerate() {
        let below: BTreeSet<&String> = rooms[place + 1..].iter().map(|(name, _)| name).collect();
        for used in may_use {
            assert!(
                below.contains(used),
                "{name} uses {used}, which is not below it in ARCHITECTURE.md"
            );
        }
    }
}

#[test]
fn no_room_below_a_face_knows_its_wire() {
    for (name, used) in dependencies() {
        if !SPEAK_AHP.contains(&name.as_str()) {
            let wire: Vec<&String> = used
                .iter()
                .filter(|used| *used == "ahp" || used.starts_with("ahp-"))
                .collect();
            assert!(wire.is_empty(), "{name} uses {wire:?}");
        }
    }
}

/// The source files of a crate and what is in them.
fn sources(name: &str) -> Vec<(PathBuf, String)> {
    let mut paths = vec![workspace().join("crates").join(name).join("src")];
    let mut found = Vec::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// A source file without its tests. They may have attributes.
fn without_tests(text: &str) -> &str {
    let is_tests = |at: &usize| {
        let mut lines = text[*at..].lines().skip_while(|line| line.starts_with("#["));
        lines.next() == Some("mod tests {")
    };
    let mut tests = text.match_indices("#[cfg(test)]\n").map(|(at, _)| at).filter(is_tests);
    tests.next().map_or(text, |at| &text[..at])
}

#[test]
fn the_faces_of_ahp_and_acp_reach_for_no_files_and_block_nothing() {
    let root = workspace().join("crates");
    let all = sources("lodge-ahp").into_iter().chain(sources("lodge-acp"));
    let reaching = all.filter(|(path, text)| {
        let code = without_tests(text);
        let reaches = [
            "std::fs",
            "tokio::fs",
            "    fs",
            "unix::fs",
            "rustix::fs",
            "spawn_blocking",
            "canonicalize(",
            "path.is_dir(",
            "path.exists(",
            "GitContext::of",
            "host.read(",
        ];
        !path.ends_with("tests.rs") && reaches.iter().any(|word| code.contains(word))
    });
    let reaching: Vec<String> = reaching
        .map(|(path, _)| path.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    assert!(
        reaching.is_empty(),
        "this is the work of lodge-files and lodge-host: {reaching:?}"
    );
}

/// What writes a log or a register.
const WRITERS: &[&str] = &[
    "accept_as(",
    "accept_message(",
    "answer_open(",
    "decide_and(",
    "enqueue_as(",
    "keep_uri(",
    "marks().update(",
    "marks.update(",
    "prepare_message(",
    "reorder_as(",
    "review(",
    "set_annotations(",
    "set_chat(",
    "set_chats(",
    "set_draft(",
    "set_host_settings(",
    "set_switches(",
    "withdraw_as(",
];
/// The functions of the AHP face that write while they hold the lock of all sessions, and why.
const WRITE_UNDER_THE_LOCK: &[(&str, &str, &str)] = &[
    (
        "actions/accept.rs",
        "answer",
        "what the agent does then is shown after the answer",
    ),
    (
        "actions/chat.rs",
        "list_chats",
        "a new chat is listed before it is shown",
    ),
    (
        "actions/finish.rs",
        "first_turn",
        "a session is listed with its first turn",
    ),
    ("actions/finish.rs", "keep", "a session is listed with its first turn"),
    (
        "actions/finish.rs",
        "keep_uri",
        "a session is listed with its first turn",
    ),
    ("face/inner.rs", "start_queued", "one message begins at a time"),
];

/// The functions in a file, by their names, with whether they are given the state that all AHP sessions share.
fn functions_with_state(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String, bool)> = Vec::new();
    let mut of_state = false;
    for line in text.lines() {
        if line.starts_with("impl") {
            of_state = line.contains(" Inner ") || line.contains("Inner {");
        }
        let words = line.trim_start();
        let begins = ["fn ", "pub ", "pub(crate) ", "pub(super) ", "async "]
            .iter()
            .any(|word| words.starts_with(word));
        if let (true, Some((_, after))) = (begins, words.split_once("fn ")) {
            let name = after.split(['(', '<']).next().unwrap_or_default();
            found.push((name.to_owned(), String::new(), of_state && line.starts_with(' ')));
        }
        if let Some((_, body, _)) = found.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
    }
    let given = |body: &str| {
        body.split(" {")
            .next()
            .is_some_and(|signature| signature.contains("Inner"))
    };
    let found = found.into_iter().filter(|(_, body, of_state)| *of_state || given(body));
    found.map(|(name, body, _)| (name, body)).collect()
}

#[test]
fn nobody_who_holds_the_lock_of_all_ahp_sessions_writes_a_log_or_a_register() {
    let source = workspace().join("crates/lodge-ahp/src");
    let mut found = BTreeSet::new();
    for (path, text) in sources("lodge-ahp") {
        let file = path.strip_prefix(&source).unwrap().display().to_string();
        for (name, body) in functions_with_state(without_tests(&text)) {
            if WRITERS.iter().any(|writer| body.contains(writer)) {
                found.insert((file.clone(), name));
            }
        }
    }
    let known = WRITE_UNDER_THE_LOCK
        .iter()
        .map(|(file, name, _)| ((*file).to_owned(), (*name).to_owned()));
    assert_eq!(
        found,
        known.collect(),
        "see `Write` and `QueueChange` in lodge-ahp/src/actions"
    );
}

/// The files of rooms that work in folders which open files by their paths, and whose files these are. None of them is a folder's.
const READ_BY_PATH: &[(&str, &str)] = &[
    ("lodge-agent/src/actor/interrupted.rs", "the host's"),
    ("lodge-agent/src/compaction.rs", "the host's"),
    ("lodge-agent/src/context.rs", "what a person attached"),
    ("lodge-agent/src/images.rs", "what a person attached, or a tool gave"),
    ("lodge-agent/src/own_tools.rs", "the host's"),
    ("lodge-agent/src/queue/older.rs", "the host's"),
    ("lodge-agent/src/rewound.rs", "the host's"),
    ("lodge-host/src/client_storage.rs", "the host's"),
    ("lodge-host/src/commands/builtin.rs", "the host's"),
    ("lodge-host/src/host/mod.rs", "the host's"),
    ("lodge-host/src/import.rs", "what a person imports"),
    ("lodge-host/src/migrate/mod.rs", "the host's"),
    ("lodge-host/src/registers/file.rs", "the host's"),
    ("lodge-host/src/rewind.rs", "the host's"),
    ("lodge-host/src/written_messages.rs", "the host's"),
    ("lodge-mcp/src/oauth.rs", "the host's"),
    ("lodge-tools/src/changes/apply.rs", "directories only"),
    ("lodge-tools/src/changes/blobs.rs", "the host's"),
    ("lodge-tools/src/changes/journal.rs", "the host's"),
    ("lodge-tools/src/changes/records.rs", "the host's"),
    ("lodge-tools/src/changes/transaction.rs", "the host's"),
    ("lodge-tools/src/memory.rs", "the host's"),
    ("lodge-tools/src/process.rs", "the system's"),
    ("lodge-tools/src/rules/file.rs", "the person's"),
    ("lodge-tools/src/sandbox/bounds.rs", "the system's"),
    ("lodge-tools/src/sandbox/git_config.rs", "the person's"),
    ("lodge-tools/src/sandbox/linux.rs", "the system's"),
    ("lodge-tools/src/spill.rs", "the host's"),
    ("lodge-tools/src/terminal/integration.rs", "the host's"),
    ("lodge-trust/src/store.rs", "the host's"),
];

#[test]
fn files_of_folders_are_read_as_lodge_files_reads_them_and_in_no_other_way() {
    let root = workspace().join("crates");
    let rooms = ["lodge-agent", "lodge-host", "lodge-mcp", "lodge-tools", "lodge-trust"];
    let reads = ["fs::read(", "fs::read_to_string(", "File::open(", "OpenOptions"];
    let reading: BTreeSet<String> = rooms
        .into_iter()
        .flat_map(sources)
        .filter(|(path, text)| {
            let is_test = path.ends_with("tests.rs") || path.iter().any(|part| part == "tests");
            !is_test && reads.iter().any(|word| without_tests(text).contains(word))
        })
        .map(|(path, _)| path.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    let known: BTreeSet<String> = READ_BY_PATH.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(
        reading, known,
        "a folder's file is read with lodge_files::read_in_folder; other files are named in READ_BY_PATH, with whose they are"
    );
}

#[test]
fn folders_are_walked_as_lodge_files_walks_them_and_in_no_other_way() {
    let rooms = rooms().into_iter().map(|(name, _)| name);
    let walking = rooms
        .flat_map(|name| sources(&name))
        .filter(|(_, text)| text.contains("WalkBuilder::new"));
    let walking: Vec<PathBuf> = walking.map(|(path, _)| path).collect();
    assert_eq!(walking, [workspace().join("crates/lodge-files/src/walk.rs")]);
}

/// The source files that write, rename or make files without `lodge_files::replace`, and why they may.
const WRITE_IN_THEIR_OWN_WAY: &[(&str, &str)] = &[
    (
        "lodge-files/src/private_files.rs",
        "scratch files, which nobody reads after the process ends",
    ),
    ("lodge-files/src/replace.rs", "it is the replacement"),
    // Logs and registers: appended to, with named failure points.
    ("lodge-log/src/disk.rs", "the log's disk, which its tests replace"),
    ("lodge-log/src/home_lock.rs", "a lock has no contents that count"),
    (
        "lodge-host/src/registers/file.rs",
        "appends; a rewrite takes what was appended meanwhile",
    ),
    // Records of changed files: appended to or named by their hash, and synced before anybody relies on them.
    (
        "lodge-tools/src/changes/blobs.rs",
        "contents are named by their hash, verified when read, and synced together",
    ),
    (
        "lodge-tools/src/changes/journal.rs",
        "the journal of a restore, with named failure points",
    ),
    ("lodge-tools/src/changes/records.rs", "appends"),
    (
        "lodge-tools/src/spill.rs",
        "a new file for the output of one command, which is never changed",
    ),
    // Whole files and folders that move or are set aside.
    ("lodge-agent/src/queue/older.rs", "sets a file of an older build aside"),
    ("lodge-door/src/devices.rs", "sets a damaged file aside"),
    ("lodge-host/src/migrate/mod.rs", "sets files of an older build aside"),
    (
        "lodge-host/src/plugins/fetch.rs",
        "fills a new folder, then puts it in the place of the old one",
    ),
    // New files in a session that nobody sees before it is whole.
    (
        "lodge-host/src/fork.rs",
        "copies a file of an older build into a new session",
    ),
    ("lodge-host/src/import.rs", "copies files into a new session"),
    // What may be lost, or is never read again.
    (
        "lodge-agent/src/rewound.rs",
        "empties a file: there is nothing to cut short",
    ),
    ("lodge-host/src/readiness.rs", "a probe, which is removed"),
    ("lodge/src/doctor.rs", "a probe, which is removed"),
    ("lodge/src/attach/history.rs", "appends what was typed"),
    (
        "lodge/src/log_file.rs",
        "appends the host's own log, and renames it once",
    ),
    ("lodge-telemetry/src/export.rs", "appends traces"),
    ("lodge-tools/src/sandbox/jail.rs", "a file of one command's jail"),
    ("lodge-tools/src/sandbox/linux.rs", "a setting of the kernel"),
    // Files of the person, outside the home.
    (
        "lodge-host/src/commands/builtin.rs",
        "exports to a new file that a person names",
    ),
    ("lodge/src/backup.rs", "a new file that a person names"),
    (
        "lodge/src/backup/restore.rs",
        "a new home, which takes its place when it is whole",
    ),
    ("lodge/src/history.rs", "exports to a file that a person names"),
    (
        "lodge/src/service/mod.rs",
        "the service's file, which is restored if the service does not start",
    ),
];

#[test]
fn whatever_writes_a_file_replaces_it_whole_or_says_why_not() {
    let ways = [
        "fs::write(",
        "fs::rename(",
        "fs::copy(",
        "fs::hard_link(",
        "File::create",
        ".create(true)",
        ".create_new(true)",
    ];
    let root = workspace().join("crates");
    let crates = dependencies()
        .into_keys()
        .filter(|name| !TOOLING.contains(&name.as_str()));
    let mut writing = BTreeSet::new();
    for (path, text) in crates.flat_map(|name| sources(&name)) {
        let is_test = path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests");
        if !is_test && ways.iter().any(|way| without_tests(&text).contains(way)) {
            writing.insert(path.strip_prefix(&root).unwrap().display().to_string());
        }
    }
    for (path, why) in WRITE_IN_THEIR_OWN_WAY {
        assert!(
            writing.remove(*path),
            "{path} does not write any more ({why}): take it off the list"
        );
    }
    assert!(
        writing.is_empty(),
        "use lodge_files::replace, or say why not: {writing:?}"
    );
}

/// A face that needs more has something in it that belongs to the host.
#[test]
fn the_acp_face_is_small() {
    let sources = sources("lodge-acp");
    let lines: usize = sources
        .iter()
        .map(|(_, text)| without_tests(text).lines().count())
        .sum();
    assert!((1_000..3_000).contains(&lines), "{lines} lines");
}

#[test]
fn the_host_shows_faces_what_it_names_and_nothing_else_of_the_rooms_below() {
    let sources = sources("lodge-host");
    let read = sources.len();
    for (path, text) in sources {
        assert!(!text.contains("Deref for"), "{} opens a window", path.display());
        for line in text.lines().map(str::trim) {
            let Some(shown) = line.strip_prefix("pub use lodge_") else {
                continue;
            };
            let whole = shown.ends_with("::*;") || !shown.contains("::");
            assert!(!whole, "{} shows a whole room: {line}", path.display());
        }
    }
    assert!(read > 30, "{read}");
}

/// Cargo 1.95 forgets to strip a program whose package has settings of its own in the profile.
#[test]
fn nothing_keeps_the_program_from_being_stripped() {
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let profiles = &toml::from_str::<toml::Table>(&manifest).unwrap()["profile"];
    assert_eq!(profiles["release"]["strip"], true.into());
    assert_eq!(profiles["dist"]["inherits"], "release".into());
    for profile in ["release", "dist"] {
        assert!(profiles[profile]["package"].get("lodge").is_none(), "{profile}");
    }
}

/// Names of types and modules that nobody understands without their comments.
const NAMES_THAT_SAY_NOTHING: &[&str] = &[
    "Dealt",
    "Deed",
    "Guests",
    "Shelf",
    "Took",
    "Went",
    "What",
    "Whom",
    "Wish",
    "aside",
    "doorstep",
    "elsewhere",
    "guest",
    "told",
    "took",
];

#[test]
fn types_and_modules_have_names_that_say_what_they_are() {
    let mut directories = vec![workspace().join("crates")];
    let mut checked = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.extend((!path.ends_with("tests") && !path.ends_with("target")).then_some(path));
                continue;
            }
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            for line in std::fs::read_to_string(&path)
                .unwrap_or_default()
                .lines()
                .filter(|_| is_source)
            {
                let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
                let Some(_) = words.find(|word| ["struct", "enum", "trait", "mod"].contains(word)) else {
                    continue;
                };
                let name = words.find(|word| !word.is_empty()).unwrap_or_default();
                let is_definition = !line.trim_start().starts_with("//");
                assert!(
                    !is_definition || !NAMES_THAT_SAY_NOTHING.contains(&name),
                    "{}: {line}",
                    path.display()
                );
                checked += usize::from(is_definition);
            }
        }
    }
    assert!(checked > 1_000, "{checked}");
}
