use serde_json::{Value, json};

use crate::bench::Bench;

async fn check(bench: &Bench, tool: &str, arguments: Value, expected: &str) {
    assert_eq!(
        bench.text(tool, arguments.clone()).await,
        expected,
        "{tool} {arguments}"
    );
}

#[tokio::test]
async fn view_shows_files_directories_and_what_is_wrong() {
    let bench = Bench::new();
    bench.file("lines.txt", "one\ntwo\nthree\nfour\n");
    bench.file("no-end", "last");
    bench.file("empty", "");
    bench.file("dir/b", "");
    bench.file("dir/.a", "");
    bench.file("binary", [1, 0, 2]);
    bench.file("latin", [b'g', 0xfc]);
    for (arguments, expected) in [
        (json!({"path": "lines.txt"}), "1. one\n2. two\n3. three\n4. four\n5. "),
        (
            json!({"path": "./dir/../lines.txt", "view_range": [2, 3]}),
            "2. two\n3. three",
        ),
        (json!({"path": "lines.txt", "view_range": [3, -1]}), "3. three\n4. four"),
        (json!({"path": "lines.txt", "view_range": [4, 99]}), "4. four"),
        (
            json!({"path": "lines.txt", "view_range": []}),
            "1. one\n2. two\n3. three\n4. four\n5. ",
        ),
        (
            json!({"path": "lines.txt", "view_range": [9, 10]}),
            "ERROR: Invalid view_range: the file has 4 lines.",
        ),
        (
            json!({"path": "lines.txt", "view_range": [3, 2]}),
            "ERROR: Invalid view_range [3, 2]: it must be [first, last] with first at least 1 and last not before it, or -1 for the end.",
        ),
        (json!({"path": "no-end"}), "1. last"),
        (json!({"path": "empty"}), ""),
        (json!({"path": "dir"}), ".a\nb"),
        (json!({"path": "binary"}), "ERROR: binary is a binary file (0.0 KB)."),
        (json!({"path": "latin"}), "1. g\u{fffd}"),
        (
            json!({"path": "missing"}),
            "ERROR: Path missing does not exist. Please provide a valid path.",
        ),
        (
            json!({"path": "lines.txt/x"}),
            "ERROR: Path lines.txt/x does not exist: a part of it is not a directory.",
        ),
        (json!({"path": ""}), "ERROR: Path : not a path"),
        (json!({"path": "a\0b"}), "ERROR: Path a\0b: not a path"),
        (json!({}), "ERROR: Invalid arguments for view: missing field `path`"),
        (json!("{\"path\": \"no-end\"}"), "1. last"),
        (
            json!(7),
            "ERROR: Invalid arguments for view: invalid type: integer `7`, expected struct Arguments",
        ),
    ] {
        check(&bench, "view", arguments, expected).await;
    }
}

#[tokio::test]
async fn view_shows_the_text_alone_to_models_that_want_no_numbers() {
    let mut bench = Bench::new();
    bench.number_lines = false;
    bench.file("lines.txt", "one\ntwo\n\nfour\n");
    for (arguments, expected) in [
        (json!({"path": "lines.txt"}), "one\ntwo\n\nfour"),
        (json!({"path": "lines.txt", "view_range": [2, 3]}), "two\n"),
    ] {
        check(&bench, "view", arguments, expected).await;
    }
}

#[tokio::test]
async fn view_of_a_large_file_says_how_to_go_on() {
    let bench = Bench::new();
    bench.file("large", "0123456789\n".repeat(5000));
    let expected = "ERROR: File too large to read at once (81.9 KB, 5000 lines). Use view_range to read a part of it, or grep to search it.";
    check(&bench, "view", json!({"path": "large"}), expected).await;
    check(
        &bench,
        "view",
        json!({"path": "large", "view_range": [4999, 5000]}),
        "4999. 0123456789\n5000. 0123456789",
    )
    .await;
    let forced = bench
        .text("view", json!({"path": "large", "forceReadLargeFiles": true}))
        .await;
    assert_eq!(forced.lines().count(), 5001);
}

#[tokio::test]
async fn view_of_an_image_gives_the_image() {
    let bench = Bench::new();
    bench.file("a.PNG", b"\x89PNG");
    let output = bench.call("view", json!({"path": "a.PNG"})).await.unwrap();
    assert_eq!(output.content, "Viewed image file successfully.");
    assert_eq!(output.images, [("image/png".to_owned(), "iVBORw==".to_owned())]);
}

#[tokio::test]
async fn view_does_not_wait_for_a_pipe_without_a_writer() {
    let bench = Bench::new();
    std::process::Command::new("mkfifo")
        .arg(bench.work().join("pipe"))
        .status()
        .unwrap();
    check(
        &bench,
        "view",
        json!({"path": "pipe"}),
        "ERROR: Path pipe: not a regular file",
    )
    .await;
    check(
        &bench,
        "view",
        json!({"path": "/dev/zero"}),
        "ERROR: Path /dev/zero: not a regular file",
    )
    .await;
}

#[tokio::test]
async fn create_makes_files_and_directories_and_overwrites_nothing() {
    let bench = Bench::new();
    bench.file("there", "old");
    let output = bench
        .call("create", json!({"path": "a/b/new.txt", "file_text": "grün\nzwei\n"}))
        .await
        .unwrap();
    assert_eq!(output.content, "Created file a/b/new.txt with 10 characters");
    assert_eq!(bench.read("a/b/new.txt"), "grün\nzwei\n");
    let diff = bench.shown(&output.detailed.unwrap());
    let expected = "diff --git a$W/a/b/new.txt b$W/a/b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b$W/a/b/new.txt\n@@ -0,0 +1,2 @@\n+grün\n+zwei\n";
    assert_eq!(diff, expected);
    let change = &output.changes[0];
    assert_eq!(
        (change.path.clone(), change.added, change.removed),
        (bench.work().join("a/b/new.txt"), 2, 0)
    );

    check(
        &bench,
        "create",
        json!({"path": "there", "file_text": "new"}),
        "ERROR: Path there already exists.",
    )
    .await;
    check(
        &bench,
        "create",
        json!({"path": "there/x", "file_text": ""}),
        "ERROR: Path there/x does not exist: a part of it is not a directory.",
    )
    .await;
    assert_eq!(bench.read("there"), "old");
    assert_eq!(
        std::fs::read_dir(bench.work().join("a/b")).unwrap().count(),
        1,
        "no temporary file stays"
    );
}

#[tokio::test]
async fn edit_replaces_exactly_one_place() {
    let bench = Bench::new();
    for (before, old, new, result, after) in [
        ("a\nb\nc\n", "b", "x", "File f updated with changes.", "a\nx\nc\n"),
        ("a\nb\n", "b\n", "", "File f updated with changes.", "a\n"),
        (
            "a\r\nb\r\nc",
            "a\nb",
            "x\ny",
            "File f updated with changes.",
            "x\r\ny\r\nc",
        ),
        (
            "aa",
            "a",
            "b",
            "ERROR: old_str occurs 2 times in f. It must occur exactly once: include more of the surrounding text.",
            "aa",
        ),
        (
            "aaa",
            "aa",
            "b",
            "ERROR: old_str occurs 2 times in f. It must occur exactly once: include more of the surrounding text.",
            "aaa",
        ),
        (
            "a",
            "z",
            "b",
            "ERROR: old_str was not found in f. It must match the file exactly, including whitespace.",
            "a",
        ),
        ("a", "", "b", "ERROR: old_str must not be empty.", "a"),
        (
            "a",
            "a",
            "a",
            "ERROR: old_str and new_str are the same: nothing to change.",
            "a",
        ),
        ("grüße", "üß", "ue", "File f updated with changes.", "gruee"),
    ] {
        bench.file("f", before);
        check(
            &bench,
            "edit",
            json!({"path": "f", "old_str": old, "new_str": new}),
            result,
        )
        .await;
        assert_eq!(bench.read("f"), after);
    }
    bench.file("latin", [b'g', 0xfc]);
    check(
        &bench,
        "edit",
        json!({"path": "latin", "old_str": "g", "new_str": "h"}),
        "ERROR: latin is not UTF-8 text and cannot be edited.",
    )
    .await;
    check(
        &bench,
        "edit",
        json!({"path": "gone", "old_str": "g", "new_str": "h"}),
        "ERROR: Path gone does not exist. Please provide a valid path.",
    )
    .await;
}

#[tokio::test]
async fn edit_keeps_the_mode_and_tells_the_difference() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let path = bench.file("run.sh", "#!/bin/sh\necho old\necho same\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let output = bench
        .call(
            "edit",
            json!({"path": "run.sh", "old_str": "old", "new_str": "new\necho more"}),
        )
        .await
        .unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!((output.changes[0].added, output.changes[0].removed), (2, 1));
    let diff = output.detailed.unwrap();
    assert!(
        diff.ends_with("@@ -1,3 +1,4 @@\n #!/bin/sh\n-echo old\n+echo new\n+echo more\n echo same\n"),
        "{diff}"
    );
}

/// An editor that shows the same text for every file and notes what it is asked.
#[derive(Default)]
struct OneText(std::sync::Mutex<Vec<std::path::PathBuf>>);

impl lodge_tools::Editor for OneText {
    fn read(&self, path: std::path::PathBuf) -> futures_util::future::BoxFuture<'static, Option<String>> {
        self.0.lock().unwrap().push(path);
        Box::pin(std::future::ready(Some("unsaved".to_owned())))
    }

    fn write(&self, path: std::path::PathBuf, _: String) -> futures_util::future::BoxFuture<'static, bool> {
        self.0.lock().unwrap().push(path);
        Box::pin(std::future::ready(false))
    }
}

#[tokio::test]
async fn an_editor_is_asked_only_for_files_of_the_session_and_the_disk_counts_where_it_does_not_help() {
    let mut bench = Bench::new();
    let editor = std::sync::Arc::new(OneText::default());
    bench.editor = Some(editor.clone());
    let inside = bench.file("a.txt", "saved");
    let outside = bench.dir.path().join("outside.txt");
    std::fs::write(&outside, "outside").unwrap();
    let view = Bench::tool("view");
    for (path, shown) in [(&inside, "unsaved"), (&outside, "outside")] {
        let arguments = json!({ "path": path });
        let mut cx = bench.cx("call");
        cx.ask_editor(&*view, &arguments).await;
        view.need(&arguments, &cx).unwrap();
        let output = view.run(arguments, cx).await.unwrap();
        assert!(output.content.contains(shown), "{}", output.content);
    }
    bench
        .call("create", json!({ "path": "b.txt", "file_text": "new" }))
        .await
        .unwrap();
    assert_eq!(bench.read("b.txt"), "new");
    assert_eq!(*editor.0.lock().unwrap(), [inside, bench.work().join("b.txt")]);
}
