//! Which places a path leads to, and that no other is opened.

use std::{
    os::unix::fs::symlink,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use lodge_tools::paths::{Located, locate};
use serde_json::json;

use crate::bench::Bench;

fn bench() -> (Bench, PathBuf) {
    let bench = Bench::new();
    let base = bench.dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(base.join("outside/deep")).unwrap();
    std::fs::write(base.join("outside/secret"), "secret").unwrap();
    bench.file("sub/file", "inside");
    let work = bench.work();
    symlink("sub/file", work.join("to-file")).unwrap();
    symlink("../sub", work.join("sub/self")).unwrap();
    symlink("../outside", work.join("to-outside")).unwrap();
    symlink(base.join("outside/secret"), work.join("to-secret")).unwrap();
    symlink(base.join("outside/new"), work.join("dangling")).unwrap();
    symlink("nowhere", work.join("dangling-inside")).unwrap();
    symlink("loop-b", work.join("loop-a")).unwrap();
    symlink("loop-a", work.join("loop-b")).unwrap();
    symlink("/", work.join("root")).unwrap();
    (bench, base)
}

#[test]
fn paths_lead_where_the_system_would_go() {
    let (bench, base) = bench();
    let work = base.join("work");
    let pid = std::process::id();
    for (text, place, inside) in [
        ("sub/file", "$W/sub/file", true),
        ("./sub/./file", "$W/sub/file", true),
        ("sub/../sub/file", "$W/sub/file", true),
        ("new/deep/file", "$W/new/deep/file", true),
        ("", "error", false),
        ("a\0b", "error", false),
        (".", "$W", true),
        ("..", "$B", false),
        ("../work/sub", "$W/sub", true),
        ("../work-not/x", "$W-not/x", false),
        ("../outside/secret", "$B/outside/secret", false),
        ("sub/../../outside/secret", "$B/outside/secret", false),
        ("../../../../../../../../../../etc/passwd", "/etc/passwd", false),
        ("/etc/passwd", "/etc/passwd", false),
        ("$W/sub/file", "$W/sub/file", true),
        ("$W/../outside", "$B/outside", false),
        ("to-file", "$W/sub/file", true),
        ("sub/self/self/file", "$W/sub/file", true),
        ("to-outside/secret", "$B/outside/secret", false),
        ("to-secret", "$B/outside/secret", false),
        ("dangling", "$B/outside/new", false),
        ("dangling-inside", "$W/nowhere", true),
        ("loop-a", "error", false),
        ("root/etc/passwd", "/etc/passwd", false),
        ("root/$W/sub/file", "$W/sub/file", true),
        ("SUB/file", "$W/SUB/file", true),
        ("u\u{308}ber", "$W/u\u{308}ber", true),
        ("über", "$W/über", true),
        ("sub\u{2044}..\u{2044}x", "$W/sub\u{2044}..\u{2044}x", true),
        ("...", "$W/...", true),
        ("sub/file/..", "$W/sub", true),
        ("/proc/self/root/etc/passwd", "/etc/passwd", false),
        ("/proc/self/environ", "/proc/$P/environ", false),
        ("/dev/stdin/../x", "/dev/x", false),
    ] {
        let text = text.replace("$W", &work.display().to_string());
        let shown = match locate(&work, [work.as_path()], &text) {
            Ok(Located { path, root }) => {
                assert_eq!(root.is_some(), inside, "{text}");
                let path = path.display().to_string();
                path.replace(&work.display().to_string(), "$W")
                    .replace(&base.display().to_string(), "$B")
                    .replace(&pid.to_string(), "$P")
            }
            Err(_) => "error".to_owned(),
        };
        assert_eq!(shown, place, "{text}");
    }
    drop(bench);
}

#[test]
fn what_was_swapped_for_a_link_is_not_opened() {
    let (_bench, base) = bench();
    let work = base.join("work");
    let at = |text: &str| locate(&work, [work.as_path()], text).unwrap();
    let (file, new, deep) = (at("sub/file"), at("sub/new"), at("sub/x/y/new"));
    assert_eq!(file.read(100).unwrap(), b"inside");
    std::fs::rename(work.join("sub"), work.join("moved")).unwrap();
    symlink(base.join("outside"), work.join("sub")).unwrap();
    std::fs::write(base.join("outside/file"), "wrong").unwrap();
    for located in [&file, &new, &deep] {
        located.open().unwrap_err();
        located.create(b"x").unwrap_err();
        located.replace(b"x").unwrap_err();
    }
    assert_eq!(std::fs::read_to_string(base.join("outside/file")).unwrap(), "wrong");
    assert!(!base.join("outside/new").exists() && !base.join("outside/x").exists());

    std::fs::remove_file(work.join("sub")).unwrap();
    std::fs::rename(work.join("moved"), work.join("sub")).unwrap();
    std::fs::remove_file(work.join("sub/file")).unwrap();
    symlink(base.join("outside/secret"), work.join("sub/file")).unwrap();
    file.open().unwrap_err();
    file.replace(b"x").unwrap_err();
    file.create(b"x").unwrap_err();
    assert_eq!(std::fs::read_to_string(base.join("outside/secret")).unwrap(), "secret");
}

#[test]
fn a_race_for_the_path_is_never_won() {
    let (_bench, base) = bench();
    let work = base.join("work");
    std::fs::write(base.join("outside/file"), "wrong").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (stop, work, base) = (stop.clone(), work.clone(), base.clone());
        move || {
            symlink(base.join("outside"), work.join("spare")).unwrap();
            while !stop.load(Ordering::Relaxed) {
                // Each of the three names is a directory or the link at any time.
                for (from, to) in [("sub", "real"), ("spare", "sub"), ("sub", "spare"), ("real", "sub")] {
                    std::fs::rename(work.join(from), work.join(to)).unwrap();
                }
            }
        }
    });
    let mut read = 0;
    for _ in 0..3000 {
        let located = locate(&work, [work.as_path()], "sub/file").unwrap();
        let Some(_) = located.root else { continue };
        if let Ok(bytes) = located.read(100) {
            assert_eq!(bytes, b"inside");
            read += 1;
        }
        let _ = located.replace(b"inside");
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(read > 0, "it was read sometimes");
    assert_eq!(std::fs::read_to_string(base.join("outside/file")).unwrap(), "wrong");
}

#[tokio::test]
async fn a_tool_opens_only_the_place_that_was_asked_for() {
    let (bench, base) = bench();
    let work = bench.work();
    let run = async |path: &str, call: &str| {
        let result = Bench::tool("view").run(json!({"path": path}), bench.cx(call)).await;
        result.map_or_else(|error| bench.shown(&format!("ERROR: {error}")), |output| output.content)
    };
    // Nobody asked: inside only.
    assert_eq!(run("sub/file", "a").await, "1. inside");
    assert_eq!(
        run("to-secret", "a").await,
        "ERROR: Path to-secret leads to $B/outside/secret, which was not approved."
    );
    // Asked and allowed: exactly that place.
    let view = Bench::tool("view");
    view.need(&json!({"path": "to-secret"}), &bench.cx("b")).unwrap();
    assert_eq!(run("to-secret", "b").await, "1. secret");
    assert_eq!(
        run("sub/file", "b").await,
        "ERROR: Path sub/file leads to $W/sub/file, which was not approved."
    );
    // Asked for something harmless that became something else.
    view.need(&json!({"path": "to-file"}), &bench.cx("c")).unwrap();
    std::fs::remove_file(work.join("to-file")).unwrap();
    symlink(base.join("outside/secret"), work.join("to-file")).unwrap();
    assert_eq!(
        run("to-file", "c").await,
        "ERROR: Path to-file leads to $B/outside/secret, which was not approved."
    );
}
