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
        ("ATTACH '/tmp/x' AS x", "ERROR: ATTACH is not available."),
        ("/* x */ aTTach '/tmp/x' AS x", "ERROR: ATTACH is not available."),
        ("VACUUM INTO '/tmp/x'", "ERROR: VACUUM is not available."),
        (
            "PRAGMA journal_mode = off",
            "ERROR: The only PRAGMAs available are table_info, table_list, index_list, index_info and foreign_key_list.",
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
