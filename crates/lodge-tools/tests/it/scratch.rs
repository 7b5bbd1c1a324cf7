use serde_json::json;

use crate::bench::Bench;

async fn sql(bench: &Bench, query: &str) -> String {
    bench
        .text(
            "sql",
            json!({"query": query, "description": "Test", "database": "session"}),
        )
        .await
}

#[tokio::test]
async fn statements_are_told_in_the_words_models_know() {
    let bench = Bench::new();
    for (query, expected) in [
        (
            "CREATE TABLE items (id TEXT PRIMARY KEY, name TEXT)",
            "Schema operation completed successfully.",
        ),
        (
            "INSERT INTO items (id, name) VALUES ('a1', 'Widget')",
            "1 row(s) inserted. Last inserted row ID: 1.",
        ),
        (
            "INSERT INTO todos (id, title) VALUES ('a', 'A'); -- then\nINSERT INTO todos (id, title) VALUES ('b', 'B');\n/* and */ INSERT INTO todo_deps VALUES ('b', 'a');",
            "Executed 3 statement(s):\n\n1. INSERT\n   1 row(s) inserted. Last inserted row ID: 1.\n\n2. INSERT\n   1 row(s) inserted. Last inserted row ID: 2.\n\n3. INSERT\n   1 row(s) inserted. Last inserted row ID: 1.",
        ),
        ("UPDATE todos SET status = 'done'", "2 row(s) updated."),
        (
            "SELECT id, status FROM todos ORDER BY id",
            "2 row(s) returned:\n\n| id | status |\n| --- | --- |\n| a | done |\n| b | done |",
        ),
        (
            "SELECT NULL, 1.5, x'00ff', 'a|b' || char(10) || 'c'",
            "1 row(s) returned:\n\n| NULL | 1.5 | x'00ff' | 'a\\|b' \\|\\| char(10) \\|\\| 'c' |\n| --- | --- | --- | --- |\n| NULL | 1.5 | <2 bytes> | a\\|b<br>c |",
        ),
        ("SELECT 1 WHERE 0", "0 row(s) returned."),
        ("DELETE FROM todos WHERE id = 'b'", "1 row(s) deleted."),
        (
            "WITH x AS (SELECT 1) DELETE FROM todos",
            "Query executed successfully. Rows affected: 1.",
        ),
        ("DROP TABLE items", "Schema operation completed successfully."),
        ("", "No statement to execute."),
        ("SELEC 1", "ERROR: Error executing SQL: near \"SELEC\": syntax error"),
        (
            "INSERT INTO todos (id, title, status) VALUES ('c', 'C', 'odd')",
            "ERROR: Error executing SQL: CHECK constraint failed: status IN ('pending', 'in_progress', 'done', 'blocked')",
        ),
        (
            "DELETE FROM todos; SELECT * FROM absent",
            "ERROR: Executed 1 statement(s):\n\n1. DELETE\n   0 row(s) deleted.\n\nError executing SQL: no such table: absent",
        ),
    ] {
        assert_eq!(sql(&bench, query).await, expected, "{query}");
    }
    let pragma = sql(&bench, "PRAGMA table_info(todo_deps)").await;
    assert!(pragma.starts_with("2 row(s) returned:\n\n| cid | name |"), "{pragma}");
    let other = bench
        .text("sql", json!({"query": "SELECT 1", "database": "session_store"}))
        .await;
    assert_eq!(other, "ERROR: Unknown database session_store. Use session.");
}

#[tokio::test]
async fn statements_reach_no_other_file_and_no_setting() {
    let bench = Bench::new();
    let other = bench.dir.path().join("other.db");
    let path = other.display();
    rusqlite::Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE secret (x); INSERT INTO secret VALUES ('outside');")
        .unwrap();
    let made = bench.dir.path().join("made.db");
    let new = made.display();
    for query in [
        format!("ATTACH '{path}' AS x"),
        format!("/* x */ aTTach '{path}' AS x"),
        format!(";ATTACH '{path}' AS x; DROP TABLE x.secret"),
        format!(";;\u{feff}ATTACH '{path}' AS x; SELECT * FROM x.secret"),
        format!("\u{feff}ATTACH '{path}' AS x; SELECT * FROM x.secret"),
        format!("\u{feff}/**/ATTACH '{new}' AS x; CREATE TABLE x.made (y)"),
        "DETACH main".to_owned(),
        "VACUUM".to_owned(),
        format!("VACUUM INTO '{new}'"),
        format!(";VACUUM INTO '{new}'"),
        format!("\u{feff}VACUUM main INTO '{new}'"),
        "PRAGMA journal_mode = off".to_owned(),
        ";PRAGMA main.journal_mode".to_owned(),
        "\u{feff}PRAGMA writable_schema = on".to_owned(),
        "PRAGMA page_size = 512".to_owned(),
        format!("PRAGMA temp_store_directory = '{}'", bench.dir.path().display()),
    ] {
        let text = sql(&bench, &query).await;
        assert!(
            text.contains("Not available. Statements work on the session's database alone"),
            "{query}: {text}"
        );
    }
    let loaded = sql(&bench, &format!("SELECT load_extension('{path}')")).await;
    assert!(loaded.contains("not authorized"), "{loaded}");
    assert!(!made.exists());
    let kept: i64 = rusqlite::Connection::open(&other)
        .unwrap()
        .query_row("SELECT count(*) FROM secret", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 1);
    // What stays in the database works, a full-text search, too.
    for query in [
        "PRAGMA Table_Info(todos)",
        "SELECT name FROM pragma_table_info('todos')",
        "CREATE VIRTUAL TABLE notes USING fts5(text); INSERT INTO notes VALUES ('a b'); SELECT * FROM notes WHERE notes MATCH 'b'",
        "BEGIN; DELETE FROM todos; ROLLBACK",
    ] {
        let text = sql(&bench, query).await;
        assert!(!text.starts_with("ERROR"), "{query}: {text}");
    }
}

#[tokio::test]
async fn a_query_without_end_stops_with_its_call() {
    let bench = Bench::new();
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    let cancel = bench.cancel.clone();
    let (text, ()) = tokio::join!(sql(&bench, endless), async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        cancel.cancel();
    });
    assert_eq!(text, "ERROR: Error executing SQL: interrupted");
}

#[tokio::test]
async fn the_database_is_made_again_when_somebody_deleted_it() {
    let bench = Bench::new();
    sql(&bench, "INSERT INTO todos (id, title) VALUES ('a', 'A')").await;
    std::fs::remove_dir_all(bench.dir.path().join("session")).unwrap();
    assert_eq!(sql(&bench, "SELECT id FROM todos").await, "0 row(s) returned.");
}
