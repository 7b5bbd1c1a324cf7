use serde_json::{Value, json};

use crate::bench::Bench;

/// The request as clients get it, with the bench's directories shown short.
fn check(bench: &Bench, tool: &str, arguments: Value, expected: Value) {
    let request = bench.need(tool, &arguments).unwrap();
    let text = bench.shown(&serde_json::to_string(&request).unwrap());
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        expected,
        "{tool} {arguments}"
    );
}

#[test]
fn requests_carry_what_clients_show() {
    let bench = Bench::new();
    bench.file("a.txt", "one\n");
    std::os::unix::fs::symlink("/etc/hostname", bench.work().join("link")).unwrap();
    check(
        &bench,
        "view",
        json!({"path": "a.txt"}),
        json!({"kind": "read", "toolCallId": "call", "intention": "View a.txt", "path": "$W/a.txt"}),
    );
    check(
        &bench,
        "view",
        json!({"path": "link"}),
        json!({"kind": "read", "toolCallId": "call", "intention": "View link", "path": "$W/link", "resolvedPath": "/etc/hostname"}),
    );
    check(
        &bench,
        "grep",
        json!({"pattern": "x"}),
        json!({"kind": "read", "toolCallId": "call", "intention": "Search . for x", "path": "$W"}),
    );
    check(
        &bench,
        "glob",
        json!({"pattern": "*", "path": ".."}),
        json!({"kind": "read", "toolCallId": "call", "intention": "Find files that match *", "path": "$B"}),
    );
    check(
        &bench,
        "create",
        json!({"path": "new", "file_text": "x\n"}),
        json!({"kind": "write", "toolCallId": "call", "intention": "Create new", "fileName": "$W/new", "newFileContents": "x\n", "canOfferSessionApproval": true,
            "diff": "diff --git a$W/new b$W/new\nnew file mode 100644\n--- /dev/null\n+++ b$W/new\n@@ -0,0 +1 @@\n+x\n"}),
    );
    check(
        &bench,
        "edit",
        json!({"path": "a.txt", "old_str": "one", "new_str": "two"}),
        json!({"kind": "write", "toolCallId": "call", "intention": "Edit a.txt", "fileName": "$W/a.txt", "newFileContents": "two\n", "canOfferSessionApproval": true,
            "diff": "diff --git a$W/a.txt b$W/a.txt\n--- a$W/a.txt\n+++ b$W/a.txt\n@@ -1 +1 @@\n-one\n+two\n"}),
    );
    check(
        &bench,
        "bash",
        json!({"command": "cat link | tee out.txt; curl https://x.org/", "description": "Show"}),
        json!({"kind": "shell", "toolCallId": "call", "intention": "Show", "fullCommandText": "cat link | tee out.txt; curl https://x.org/",
            "commands": [{"identifier": "cat", "readOnly": true}, {"identifier": "tee", "readOnly": false}, {"identifier": "curl", "readOnly": false}],
            "commandSegments": [{"identifier": "cat", "fullCommandText": "cat link"}, {"identifier": "tee", "fullCommandText": "tee out.txt"}, {"identifier": "curl", "fullCommandText": "curl https://x.org/"}],
            "possiblePaths": ["link", "out.txt"], "resolvedPaths": {"link": "/etc/hostname"}, "possibleUrls": [{"url": "https://x.org/"}],
            "hasWriteFileRedirection": false, "canOfferSessionApproval": true}),
    );
    check(
        &bench,
        "web_fetch",
        json!({"url": "https://x.org"}),
        json!({"kind": "url", "toolCallId": "call", "intention": "Fetch https://x.org/", "url": "https://x.org/"}),
    );
    check(&bench, "sql", json!({"query": "SELECT 1"}), Value::Null);
    check(&bench, "list_bash", json!({}), Value::Null);
    check(
        &bench,
        "store_memory",
        json!({"subject": " testing ", "fact": "Run make check", "reason": "It is quick"}),
        json!({"kind": "memory", "toolCallId": "call", "action": "store", "subject": "testing", "fact": "Run make check",
            "reason": "It is quick", "scope": "repository"}),
    );
}

#[test]
fn tools_say_what_they_are() {
    let names: Vec<&str> = lodge_tools::builtin().iter().map(|tool| tool.name()).collect();
    assert_eq!(
        names,
        [
            "bash",
            "read_bash",
            "write_bash",
            "stop_bash",
            "list_bash",
            "view",
            "create",
            "edit",
            "web_fetch",
            "sql",
            "grep",
            "glob",
            "store_memory",
        ]
    );
    for tool in lodge_tools::builtin() {
        let parameters = tool.parameters();
        let properties = parameters["properties"].as_object().unwrap();
        for name in parameters["required"].as_array().unwrap() {
            assert!(
                properties.contains_key(name.as_str().unwrap()),
                "{} {name}",
                tool.name()
            );
        }
        assert!(tool.description().len() > 40);
    }
    let ask = lodge_tools::agent_tools::ASK_USER;
    assert_eq!(
        (ask.name, &ask.parameters()["required"]),
        ("ask_user", &json!(["question"]))
    );
    let intent = Bench::tool("bash").intent(&json!({"command": "ls", "description": "List files"}));
    assert_eq!(intent.as_deref(), Some("List files"));
}
