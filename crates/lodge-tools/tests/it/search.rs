use lodge_tools::{
    SessionTools,
    rules::{Exclusions, Policy, RuleSet},
};
use serde_json::{Value, json};

use crate::bench::Bench;

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("src/a.rs", "fn main() {\n    hello();\n}\n");
    bench.file("src/b.ts", "const hello = 1;\nhello\n");
    bench.file("ignored/x.rs", "hello");
    bench.file(".gitignore", "ignored/\n*.log\n");
    bench.file("out.log", "hello");
    bench.file(".github/w.yml", "hello: 1\n");
    bench.file(".git/config", "hello");
    bench.file("bin.dat", b"hello\0world");
    bench.file("latin.txt", b"hello \xfc\n");
    bench
}

async fn check(bench: &Bench, tool: &str, table: &[(Value, &str)]) {
    for (arguments, expected) in table {
        assert_eq!(
            &bench.text(tool, arguments.clone()).await,
            expected,
            "{tool} {arguments}"
        );
    }
}

#[tokio::test]
async fn grep_finds_what_git_does_not_ignore() {
    let bench = bench();
    let here = bench.work().display().to_string();
    check(&bench, "grep", &[
        (json!({"pattern": "hello"}), "./latin.txt\n./src/a.rs\n./src/b.ts"),
        (json!({"pattern": "hello", "output_mode": "content"}), "./latin.txt:1:hello \u{fffd}\n./src/a.rs:2:    hello();\n./src/b.ts:1:const hello = 1;\n./src/b.ts:2:hello"),
        (json!({"pattern": "hello", "output_mode": "content", "-n": false, "path": "src/b.ts"}), "src/b.ts:const hello = 1;\nsrc/b.ts:hello"),
        (json!({"pattern": "^hello", "output_mode": "content", "-n": true, "path": format!("{here}/src")}), "$W/src/b.ts:2:hello"),
        (json!({"pattern": "hello", "output_mode": "count"}), "./latin.txt:1\n./src/a.rs:1\n./src/b.ts:2"),
        (json!({"pattern": "HELLO", "-i": true, "type": "rust"}), "./src/a.rs"),
        (json!({"pattern": "hello", "glob": "*.ts"}), "./src/b.ts"),
        (json!({"pattern": "hello", "glob": "!*.ts"}), "./latin.txt\n./src/a.rs"),
        (json!({"pattern": "hello", "glob": "src/**"}), "./src/a.rs\n./src/b.ts"),
        (json!({"pattern": "hello", "glob": ".github/**"}), "./.github/w.yml"),
        (json!({"pattern": "hello", "path": ".github"}), ".github/w.yml"),
        (json!({"pattern": "hello", "head_limit": 1, "output_mode": "content"}), "./latin.txt:1:hello \u{fffd}"),
        (json!({"pattern": "hello\\(", "-C": 1, "output_mode": "content"}), "./src/a.rs-1-fn main() {\n./src/a.rs:2:    hello();\n./src/a.rs-3-}"),
        (json!({"pattern": "main.*hello", "multiline": true, "output_mode": "content"}), "./src/a.rs:1:fn main() {\n./src/a.rs:2:    hello();"),
        (json!({"pattern": "nowhere"}), "No matches found."),
        (json!({"pattern": "hello", "path": "missing"}), "ERROR: Path missing does not exist. Please provide a valid path."),
        (json!({"pattern": "hello", "type": "klingon"}), "ERROR: Unknown file type klingon: unrecognized file type: klingon"),
    ])
    .await;
    let wrong = bench.text("grep", json!({"pattern": "("})).await;
    assert!(
        wrong.starts_with("ERROR: Invalid pattern (: regex parse error"),
        "{wrong}"
    );
}

#[tokio::test]
async fn glob_finds_files_by_name() {
    let bench = bench();
    check(
        &bench,
        "glob",
        &[
            (json!({"pattern": "**/*.ts"}), "./src/b.ts"),
            (json!({"pattern": "*.rs"}), "./src/a.rs"),
            (json!({"pattern": "./src/*"}), "./src/a.rs\n./src/b.ts"),
            (json!({"pattern": "*.{rs,ts}", "path": "src"}), "src/a.rs\nsrc/b.ts"),
            (json!({"pattern": ".github/*"}), "./.github/w.yml"),
            (json!({"pattern": ".git/*"}), "No files matched the pattern."),
            (json!({"pattern": "*.log"}), "No files matched the pattern."),
            (
                json!({"pattern": "a["}),
                "ERROR: Invalid pattern a[: error parsing glob '**/a[': unclosed character class; missing ']'",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn searches_do_not_leave_through_links() {
    let bench = bench();
    let outside = bench.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.txt"), "hello secret").unwrap();
    std::os::unix::fs::symlink(&outside, bench.work().join("way")).unwrap();
    std::os::unix::fs::symlink(outside.join("secret.txt"), bench.work().join("link.txt")).unwrap();
    check(&bench, "grep", &[(json!({"pattern": "secret"}), "No matches found.")]).await;
    check(
        &bench,
        "glob",
        &[(json!({"pattern": "*secret*"}), "No files matched the pattern.")],
    )
    .await;
    // Asked for by name it is another place, which is found because this bench allows everything.
    let request = serde_json::to_value(bench.need("grep", &json!({"pattern": "x", "path": "way"})).unwrap()).unwrap();
    assert_eq!(request["resolvedPath"], outside.display().to_string());
}

#[tokio::test]
async fn excluded_files_are_not_found() {
    let mut bench = bench();
    let mut hidden = Exclusions::default();
    hidden.add("*.ts", &bench.work()).unwrap();
    bench.state = SessionTools::new(bench.dir.path().join("session"))
        .with_exclusions(hidden)
        .into();
    check(
        &bench,
        "grep",
        &[(json!({"pattern": "hello"}), "./latin.txt\n./src/a.rs")],
    )
    .await;
    check(&bench, "glob", &[(json!({"pattern": "src/*"}), "./src/a.rs")]).await;
}

/// The session works above the home.
#[tokio::test]
async fn searches_find_nothing_in_the_home_but_the_sessions_own_files() {
    let mut bench = Bench::new();
    let home = bench.work().join("home");
    for (path, text) in [
        ("home/token", "hello"),
        ("home/session-state/one/files/note", "hello"),
        ("home/session-state/two/events.jsonl", "hello"),
        ("mine", "hello"),
    ] {
        bench.file(path, text);
    }
    let rules = RuleSet::load(&home, &bench.work(), Policy::default()).unwrap();
    bench.state = SessionTools::new(home.join("session-state/one"))
        .with_exclusions(rules.unsearchable())
        .into();
    check(
        &bench,
        "grep",
        &[
            (json!({"pattern": "hello"}), "./mine"),
            (json!({"pattern": "hello", "path": "home"}), "No matches found."),
            (json!({"pattern": "hello", "path": "home/token"}), "No matches found."),
        ],
    )
    .await;
    check(&bench, "glob", &[(json!({"pattern": "**/*"}), "./mine")]).await;
    bench.session_dir = Some(home.join("session-state/one"));
    let found = bench.text("grep", json!({"pattern": "hello", "path": "home"})).await;
    assert_eq!(found, "home/session-state/one/files/note");
}

#[tokio::test]
async fn large_results_go_to_a_file() {
    let mut bench = bench();
    bench.max_output_bytes = 100;
    bench.file("many.txt", "hello\n".repeat(100));
    let text = bench
        .text(
            "grep",
            json!({"pattern": "hello", "path": "many.txt", "output_mode": "content"}),
        )
        .await;
    assert!(
        text.starts_with("Output too large to read at once (1.7 KB). Saved to: $B/session/temp/"),
        "{text}"
    );
    let path = text.split_once("Saved to: ").unwrap().1.lines().next().unwrap();
    // What was put aside can be viewed without a question.
    bench.max_output_bytes = 20_000;
    let file = path.replace("$B", &bench.dir.path().display().to_string());
    let viewed = bench.text("view", json!({"path": file, "view_range": [1, 1]})).await;
    assert_eq!(viewed, "1. many.txt:1:hello");
}
