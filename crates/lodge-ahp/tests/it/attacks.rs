//! Ways out of what a client may reach, tried through the wire with every command.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};

use crate::kit::*;

/// Everything outside, to see that it stays as it was.
fn picture(root: &Path) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(path.clone());
            }
            seen.push((path.display().to_string(), text));
        }
    }
    seen.sort();
    seen
}

/// All commands on a path, and with a harmless file as the other side.
fn commands(uri: &str, other: &str) -> Vec<(&'static str, Value)> {
    let write = |mode: &str| json!({ "uri": uri, "data": "mine", "encoding": "utf-8", "mode": mode });
    vec![
        ("resourceRead", json!({ "uri": uri })),
        ("resourceRead", json!({ "uri": uri, "encoding": "base64" })),
        ("resourceList", json!({ "uri": uri })),
        ("resourceResolve", json!({ "uri": uri })),
        ("resourceWrite", write("truncate")),
        ("resourceWrite", write("append")),
        ("resourceWrite", write("insert")),
        ("resourceMkdir", json!({ "uri": uri })),
        (
            "resourceCopy",
            json!({ "source": uri, "destination": format!("{other}-copy") }),
        ),
        ("resourceCopy", json!({ "source": other, "destination": uri })),
        (
            "resourceMove",
            json!({ "source": uri, "destination": format!("{other}-moved") }),
        ),
        ("createResourceWatch", json!({ "uri": uri, "recursive": true })),
        ("resourceDelete", json!({ "uri": uri, "recursive": true })),
    ]
}

#[tokio::test]
async fn links_lead_nowhere_by_any_command() {
    let house = house().await;
    let outside = house.dir.path().canonicalize().unwrap().join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("secret"), "the secret").unwrap();
    fs::write(outside.join("deep/secret"), "the secret").unwrap();
    let before = picture(&outside);
    let work = house.work();
    let mut client = house.client("a").await;
    let at = |name: &str| lodge_ahp::uri::file(work.join(name));
    for (name, to) in [
        ("up", "../outside"),
        ("far", outside.to_str().unwrap()),
        ("file", outside.join("secret").to_str().unwrap()),
        ("chain", "far"),
        ("self", "/proc/self"),
        ("loop", "loop"),
        ("fd", "/dev/fd"),
    ] {
        for below in ["", "/secret", "/deep/secret", "/deep", "/environ", "/new", "/0"] {
            let uri = at(&format!("{name}{below}"));
            for (method, mut params) in commands(&uri, &at("mine")) {
                let _ = fs::remove_file(work.join(name));
                symlink(to, work.join(name)).unwrap();
                fs::write(work.join("mine"), "mine").unwrap();
                params["channel"] = json!(ROOT);
                let seen = client.request(method, params).await;
                let text = json!([seen.as_ref().unwrap_or(&Value::Null)]).to_string();
                assert!(
                    !text.contains("the secret") && !text.contains("dGhlIHNlY3JldA"),
                    "{method} {uri}: {text}"
                );
                // A link itself may be looked at, moved, copied, replaced and removed; nothing behind it may.
                let itself = below.is_empty()
                    && [
                        "resourceCopy",
                        "resourceMove",
                        "resourceDelete",
                        "resourceWrite",
                        "resourceMkdir",
                    ]
                    .contains(&method);
                assert!(seen.is_err() || itself, "{method} {uri}: {seen:?}");
            }
        }
    }
    assert_eq!(picture(&outside), before);
}

#[tokio::test]
async fn a_tree_with_links_is_copied_as_it_is_and_not_what_they_lead_to() {
    let house = house().await;
    let outside = house.dir.path().canonicalize().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "the secret").unwrap();
    fs::create_dir(house.work().join("tree")).unwrap();
    symlink(&outside, house.work().join("tree/link")).unwrap();
    let mut client = house.client("a").await;
    let at = |name: &str| lodge_ahp::uri::file(house.work().join(name));
    let copy = json!({ "channel": ROOT, "source": at("tree"), "destination": at("copy") });
    client.request("resourceCopy", copy).await.unwrap();
    assert!(
        fs::symlink_metadata(house.work().join("copy/link"))
            .unwrap()
            .is_symlink()
    );
    let delete = json!({ "channel": ROOT, "uri": at("copy"), "recursive": true });
    client.request("resourceDelete", delete).await.unwrap();
    assert!(outside.join("secret").exists() && !house.work().join("copy").exists());
}

#[tokio::test]
async fn odd_addresses_are_answered_by_errors() {
    let house = house().await;
    let mut client = house.client("a").await;
    fs::write(house.work().join("mine"), "mine").unwrap();
    let work = lodge_ahp::uri::file(house.work());
    let long = "x".repeat(300);
    let deep = "/d".repeat(5_000);
    for uri in [
        format!("{work}/{long}"),
        format!("{work}{deep}"),
        format!("{work}/%00"),
        format!("{work}/mine%00.txt"),
        format!("{work}/%zz"),
        format!("{work}/%"),
        format!("{work}/mine/below"),
        format!("file://evil.example{}/mine", house.work().display()),
        "file:".to_owned(),
        "file://".to_owned(),
        "file:relative".to_owned(),
        String::new(),
        "http://127.0.0.1/".to_owned(),
        "x".repeat(100_000),
    ] {
        for method in ["resourceRead", "resourceList", "resourceResolve", "resourceDelete"] {
            let seen = client.request(method, json!({ "channel": ROOT, "uri": uri })).await;
            let code = seen.unwrap_err()["code"].as_i64().unwrap();
            assert!((-32100..=-32000).contains(&code) || code <= -32600, "{method} {code}");
        }
    }
    // What stands behind a question mark or a hash is no part of a path.
    for uri in [format!("{work}/mine?x=/../../secret"), format!("{work}/mine#../x")] {
        let read = json!({ "channel": ROOT, "uri": uri });
        assert_eq!(client.request("resourceRead", read).await.unwrap()["data"], "mine");
    }
    assert!(house.work().join("mine").exists());
}
