//! A host that is killed in the middle of a rewind: whoever comes next finds the conversation and the files both as they were
//! before it, or both taken back. `LODGE_KILL_ROUNDS` says how often it is killed; a few times without it.

use std::{
    collections::BTreeMap,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use lodge_events::{Event, UserMessage};
use lodge_host::{Approval, Host, NewSession, Session};
use uuid::Uuid;

use crate::kit::{Probe, host_at, log_of};

const SESSION: &str = "killed";
/// Set for the process that is killed: what it is to do.
const CHILD: &str = "LODGE_TEST_REWIND";
const TEST: &str = "rewind_killed::a_rewind_that_is_killed_at_any_time_ends_with_both_or_neither";

type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

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

/// Names what differs, without its contents.
fn assert_one_of(now: &Tree, states: [&Tree; 2], context: &str) -> usize {
    if let Some(at) = states.iter().position(|state| *state == now) {
        return at;
    }
    let paths: std::collections::BTreeSet<&PathBuf> =
        states.iter().flat_map(|tree| tree.keys()).chain(now.keys()).collect();
    let is = |path: &PathBuf| states.map(|state| state.get(path) == now.get(path));
    let told: Vec<_> = paths
        .into_iter()
        .map(|path| (is(path), path))
        .filter(|(is, _)| *is != [true; 2])
        .collect();
    panic!("{context}: the tree is neither: {told:#?}");
}

fn host(dir: &Path) -> Host {
    host_at(&dir.join("home"), Duration::from_secs(600))
}

fn messages(session: &Session) -> Vec<Uuid> {
    let log = log_of(session);
    log.iter()
        .filter(|event| event.get::<UserMessage>().is_some())
        .map(Event::id)
        .collect()
}

fn lay_out(work: &Path) {
    for n in 0..30 {
        let dir = work.join(format!("dir-{}/deep", n % 5));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("file-{n}")), format!("{n}\n").repeat(100 * n)).unwrap();
    }
    for n in 0..3 {
        std::fs::write(work.join(format!("large-{n}")), vec![b'a' + n; 1 << 20]).unwrap();
    }
    std::fs::write(work.join("run"), "#!/bin/sh\n").unwrap();
    std::fs::write(work.join("file-to-dir"), "file\n").unwrap();
    std::fs::create_dir_all(work.join("dir-to-file/deep")).unwrap();
    std::fs::write(work.join("dir-to-file/deep/x"), "x\n").unwrap();
    std::fs::create_dir(work.join("empty")).unwrap();
    symlink("run", work.join("link")).unwrap();
    std::fs::set_permissions(work.join("run"), PermissionsExt::from_mode(0o755)).unwrap();
}

const TURN: &str = "for f in dir-*/deep/*; do echo more >> $f; done; rm dir-2/deep/file-7; rm -r dir-3; chmod 600 run; \
    for n in 0 1 2; do head -c 700000 /dev/zero > large-$n; done; rm file-to-dir; mkdir file-to-dir; echo i > file-to-dir/i; \
    rm -r dir-to-file; echo f > dir-to-file; rmdir empty; ln -sfn large-0 link; mkdir -p made/deep; echo m > made/deep/m; \
    for n in $(seq 20); do echo $n > made/$n; done; chmod 700 dir-1";

/// What is there before a round: a session with two turns, of which the second is taken back.
struct Scene {
    dir: tempfile::TempDir,
    /// As the second turn left it, and as it was before.
    trees: [Tree; 2],
    messages: Vec<Uuid>,
}

impl Scene {
    async fn new(undo: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let live = dir.path().join("live");
        let work = live.join("work");
        std::fs::create_dir_all(&work).unwrap();
        lay_out(&work);
        let before = tree(&work);
        let host = host(&live);
        let session = host.create(NewSession {
            id: Some(SESSION.into()),
            cwd: Some(work.clone()),
            approval: Approval::ApproveAll,
            ..NewSession::default()
        });
        let mut probe = Probe::on(session.await.unwrap());
        probe.turn("say first").await;
        let call = serde_json::json!({"command": TURN, "description": "d"});
        probe.turn(&format!("call bash {call} then say done")).await;
        assert_eq!(probe.said(), "done", "{:?}", probe.results());
        let after = tree(&work);
        let messages = messages(&probe.session);
        let mut trees = [after, before];
        if undo {
            let rewound = probe.session.rewind(messages[1], true).await.unwrap();
            assert_eq!(rewound.files.skipped, []);
            trees.reverse();
        }
        drop(probe);
        host.shutdown().await;
        drop(host);
        let scene = Self { dir, trees, messages };
        scene.copy("live", "kept");
        scene
    }

    fn copy(&self, from: &str, to: &str) {
        // The host of the round before may still write something as it goes.
        let script = format!("for n in 1 2 3 4 5; do rm -rf {to} && break; sleep 0.2; done; cp -a {from} {to}");
        let status = Command::new("sh")
            .args(["-c", &script])
            .current_dir(self.dir.path())
            .status();
        assert!(status.unwrap().success());
    }

    fn live(&self) -> PathBuf {
        self.dir.path().join("live")
    }

    fn start(&self, task: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST])
            .env(CHILD, format!("{task} {}", self.live().display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// How long the task takes from the moment at which it is ready.
    fn time(&self, task: &str) -> Duration {
        self.copy("kept", "live");
        let mut child = self.start(task);
        self.wait_until_ready();
        let begun = std::time::Instant::now();
        assert!(child.wait().unwrap().success());
        begun.elapsed()
    }

    fn wait_until_ready(&self) {
        while !self.live().join("ready").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    async fn round(&self, task: &str, wait: Duration, context: &str) -> bool {
        self.copy("kept", "live");
        let mut child = self.start(task);
        self.wait_until_ready();
        std::thread::sleep(wait);
        let _ = child.kill();
        child.wait().unwrap();
        let host = host(&self.live());
        let session = host.open_session(SESSION).await.unwrap();
        let work = self.live().join("work");
        let is = assert_one_of(&tree(&work), [&self.trees[0], &self.trees[1]], context);
        let taken_back = messages(&session).len() == 1;
        assert_eq!(
            taken_back,
            (is == 1) != (task == "undo"),
            "{context}: conversation and files differ"
        );
        // Said again, it comes to its end.
        if is == 0 {
            match task {
                "undo" => drop(session.undo_rewind().await.unwrap().unwrap()),
                _ => drop(session.rewind(self.messages[1], true).await.unwrap()),
            }
            assert_eq!(
                assert_one_of(&tree(&work), [&self.trees[0], &self.trees[1]], context),
                1,
                "{context}"
            );
        }
        drop(session);
        host.shutdown().await;
        is == 1
    }
}

/// The process that is killed.
async fn child(task: &str, live: &Path) {
    let host = host(live);
    let session = host.open_session(SESSION).await.unwrap();
    let messages = messages(&session);
    std::fs::write(live.join("ready"), "").unwrap();
    match task {
        "undo" => drop(session.undo_rewind().await.unwrap().unwrap()),
        _ => drop(session.rewind(messages[1], true).await.unwrap()),
    }
    std::process::exit(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewind_that_is_killed_at_any_time_ends_with_both_or_neither() {
    if let Ok(todo) = std::env::var(CHILD) {
        let (task, live) = todo.split_once(' ').unwrap();
        return child(task, Path::new(live)).await;
    }
    let rounds = std::env::var("LODGE_KILL_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok());
    let rounds: u32 = rounds.unwrap_or(24);
    let (mut random, seed) = testkit::Random::from_env();
    let mut ends = [[0, 0], [0, 0]];
    for (kind, task) in ["rewind", "undo"].into_iter().enumerate() {
        let scene = Scene::new(task == "undo").await;
        let takes = scene.time(task).as_micros() as u64;
        for round in 0..rounds / 2 {
            let wait = Duration::from_micros(random.below(takes + takes / 10));
            let context = format!("LODGE_SEED={seed}, {task}, round {round}, killed after {wait:?} of {takes} µs");
            let done = scene.round(task, wait, &context).await;
            ends[kind][usize::from(done)] += 1;
        }
    }
    println!("LODGE_SEED={seed}: [nothing, both] of rewinds and of undos: {ends:?}");
}

#[tokio::test]
async fn a_host_finishes_at_its_start_what_the_last_one_left() {
    let scene = Scene::new(false).await;
    let takes = scene.time("rewind");
    for part in 1..20 {
        scene.copy("kept", "live");
        let mut child = scene.start("rewind");
        scene.wait_until_ready();
        std::thread::sleep(takes * part / 20);
        let _ = child.kill();
        child.wait().unwrap();
        let journals = scene.live().join("home/restoring");
        let left = || {
            std::fs::read_dir(&journals).is_ok_and(|mut entries| {
                entries.any(|entry| entry.unwrap().file_name().to_string_lossy().ends_with(".forward"))
            })
        };
        if !left() {
            continue;
        }
        // Nobody asks for the session.
        let host = host(&scene.live());
        for _ in 0..1000 {
            if !left() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!left(), "the journal is still there");
        assert_eq!(tree(&scene.live().join("work")), scene.trees[1]);
        host.shutdown().await;
        return;
    }
    panic!("no kill hit the middle of the rewind");
}
