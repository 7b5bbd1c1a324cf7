//! Files over the wire: what each command does and how it fails, and that any row of commands leaves what the same row of
//! plain file operations leaves.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::kit::{Client, House, ROOT, house, house_with};

fn uri(house: &House, name: &str) -> String {
    lodge_ahp::uri::file(house.work().join(name))
}

/// Asks in either dialect: the seed's has no channel.
async fn ask(client: &mut Client, seed: bool, method: &str, mut params: Value) -> Result<Value, Value> {
    if !seed {
        params["channel"] = ROOT.into();
    }
    client.request(method, params).await
}

/// Every command, with every error that the protocol names for it.
#[tokio::test]
async fn every_command_says_what_is_wrong() {
    for (name, version) in [("modern", "1.0.0"), ("older", "0.9.0"), ("seed", "0.1.0")] {
        let house = house().await;
        let seed = name == "seed";
        let mut client = house.client_of(name, version).await;
        let at = |name: &str| uri(&house, name);
        let write = |name: &str, more: Value| {
            let mut params = json!({ "uri": at(name), "data": "abc", "encoding": "utf-8" });
            params
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            ("resourceWrite", params)
        };
        let one = |method: &'static str, name: &str| (method, json!({ "uri": at(name) }));
        let two = |method: &'static str, from: &str, to: &str, fail: bool| {
            (
                method,
                json!({ "source": at(from), "destination": at(to), "failIfExists": fail }),
            )
        };
        fs::create_dir_all(house.work().join("full/inner")).unwrap();
        let outside = json!({ "uri": "file:///etc/passwd" });
        let content = if seed { -32006 } else { -32008 };
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), house.work().join("link")).unwrap();
        let (missing, linked) = (format!("source not found: {}", at("none")), at("link"));
        let mut table: Vec<((&str, Value), i64, &str)> = vec![
            (write("f", json!({})), 0, ""),
            (write("f", json!({ "createOnly": true })), -32010, "already exists"),
            (write("none/f", json!({})), -32008, "parent directory not found"),
            (write("f", json!({ "data": "=", "encoding": "base64" })), -32602, ""),
            (write("f", json!({ "encoding": "latin-1" })), -32602, ""),
            (
                (
                    "resourceWrite",
                    json!({ "uri": "file:///etc/x", "data": "", "encoding": "utf-8" }),
                ),
                -32009,
                "",
            ),
            (one("resourceRead", "f"), 0, ""),
            (one("resourceRead", "none"), content, "content not found"),
            (one("resourceRead", "f/x"), content, "content not found"),
            (one("resourceRead", "full"), -32602, ""),
            (("resourceRead", outside.clone()), -32009, ""),
            (
                ("resourceRead", json!({ "uri": "other://x/y" })),
                content,
                "content not found",
            ),
            (("resourceRead", json!({})), -32602, ""),
            (one("resourceList", ""), 0, ""),
            (one("resourceList", "none"), -32008, "directory not found"),
            (one("resourceList", "f"), -32602, "not a directory"),
            (("resourceList", json!({ "uri": "file:///etc" })), -32009, ""),
            (two("resourceCopy", "f", "g", true), 0, ""),
            (two("resourceCopy", "f", "g", true), -32010, "already exists"),
            (two("resourceCopy", "f", "g", false), 0, ""),
            (two("resourceCopy", "none", "g", false), -32008, &missing),
            (two("resourceCopy", "link", "g", false), -32009, &linked),
            (
                two("resourceCopy", "f", "none/g", false),
                -32008,
                "parent directory not found",
            ),
            (two("resourceCopy", "full", "full/inner/x", false), -32602, ""),
            (two("resourceMove", "f", "g", true), -32010, "already exists"),
            (two("resourceMove", "none", "g", false), -32008, &missing),
            (two("resourceMove", "f", "h", true), 0, ""),
            (one("resourceDelete", "full"), -32011, "not empty"),
            (one("resourceDelete", "none"), -32008, "resource not found"),
            (one("resourceDelete", "h"), 0, ""),
            (
                ("resourceDelete", json!({ "uri": at("full"), "recursive": true })),
                0,
                "",
            ),
            (
                ("resourceDelete", json!({ "uri": at(""), "recursive": true })),
                -32009,
                "",
            ),
            (
                (
                    "resourceRequest",
                    json!({ "uri": at("") , "read": true, "write": true }),
                ),
                0,
                "",
            ),
        ];
        if !seed {
            table.extend([
                (write("g", json!({ "ifMatch": "other" })), -32011, "ifMatch"),
                (write("none", json!({ "ifMatch": "other" })), -32011, "ifMatch"),
                (write("g", json!({ "mode": "sideways" })), -32602, "mode"),
                (write("g", json!({ "position": -1 })), -32602, "whole number"),
                (one("resourceResolve", "g"), 0, ""),
                (one("resourceResolve", "none"), -32008, "resource not found"),
                (("resourceResolve", outside.clone()), -32009, ""),
                (one("resourceMkdir", "one/two"), 0, ""),
                (one("resourceMkdir", "one/two"), 0, ""),
                (one("resourceMkdir", "g"), -32010, "already exists"),
                (one("resourceMkdir", "g/under"), -32010, "already exists"),
                (("resourceMkdir", json!({ "uri": "file:///etc/x" })), -32009, ""),
                (one("createResourceWatch", "one"), 0, ""),
                (one("createResourceWatch", "none"), -32008, ""),
                (("createResourceWatch", outside.clone()), -32009, ""),
            ]);
        }
        for ((method, params), code, words) in table {
            let seen = ask(&mut client, seed, method, params.clone()).await;
            let (seen_code, message) = match &seen {
                Ok(_) => (0, String::new()),
                Err(error) => (error["code"].as_i64().unwrap(), error["message"].to_string()),
            };
            assert_eq!(seen_code, code, "{name}: {method} {params}: {seen:?}");
            assert!(message.contains(words), "{name}: {method} {params}: {message}");
        }
        let denied = ask(&mut client, seed, "resourceRead", outside).await.unwrap_err();
        let mut wanted = json!({ "uri": "file:///etc/passwd", "read": true });
        if !seed {
            wanted["channel"] = ROOT.into();
        }
        assert_eq!(denied["data"], json!({ "request": wanted }));
    }
}

#[tokio::test]
async fn writes_have_modes_positions_and_conditions() {
    let house = house().await;
    let mut client = house.client("a").await;
    let file = uri(&house, "f");
    let mut put = async |data: &str, more: Value| {
        let mut params = json!({ "channel": ROOT, "uri": file, "data": data, "encoding": "utf-8" });
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        client
            .request("resourceWrite", params)
            .await
            .map_err(|error| error["code"].as_i64().unwrap())
    };
    put("abcdef", json!({ "mode": "insert" })).await.unwrap();
    put("X", json!({ "mode": "append", "position": 2 })).await.unwrap();
    put("Y", json!({ "mode": "insert", "position": 1 })).await.unwrap();
    put("Z", json!({ "mode": "append" })).await.unwrap();
    assert_eq!(fs::read_to_string(house.work().join("f")).unwrap(), "aYbcdXefZ");
    put("!", json!({ "mode": "truncate", "position": 2 })).await.unwrap();
    assert_eq!(fs::read_to_string(house.work().join("f")).unwrap(), "aY!");
    for mode in ["truncate", "append", "insert"] {
        assert_eq!(put("", json!({ "createOnly": true, "mode": mode })).await, Err(-32010));
    }
    for bad in [
        json!({ "mode": "shuffle" }),
        json!({ "position": -1 }),
        json!({ "position": 0.5 }),
    ] {
        assert_eq!(put("", bad).await, Err(-32602));
    }
    assert_eq!(put("", json!({ "ifMatch": "stale" })).await, Err(-32011));
    let facts = client
        .request("resourceResolve", json!({ "channel": ROOT, "uri": file }))
        .await
        .unwrap();
    assert_eq!(
        (&facts["uri"], &facts["type"], &facts["size"]),
        (&json!(file), &json!("file"), &json!(3))
    );
    let mut params = json!({ "channel": ROOT, "uri": file, "data": "", "encoding": "utf-8", "ifMatch": facts["etag"] });
    client.request("resourceWrite", params.clone()).await.unwrap();
    params["data"] = "lost".into();
    let refused = client.request("resourceWrite", params).await.unwrap_err();
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("ifMatch precondition failed")
    );
}

/// Two clients make the same file at once: one of them made it.
#[tokio::test]
async fn a_file_is_created_once() {
    let house = house().await;
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    for round in 0..20 {
        let params = |data: &str, mode: &str| {
            json!({
                "channel": ROOT, "uri": uri(&house, &format!("f{round}")), "data": data, "encoding": "utf-8",
                "mode": mode, "createOnly": true,
            })
        };
        let (one, other) = tokio::join!(
            a.request("resourceWrite", params("a", "append")),
            b.request("resourceWrite", params("b", "insert")),
        );
        assert_ne!(one.is_ok(), other.is_ok());
        let text = fs::read_to_string(house.work().join(format!("f{round}"))).unwrap();
        assert_eq!(text, if one.is_ok() { "a" } else { "b" });
    }
}

/// Encoded, doubled, mixed: what is outside stays outside, and a name that looks like a way out is only a name.
#[tokio::test]
async fn there_is_no_way_out_by_spelling() {
    let house = house().await;
    let mut client = house.client("a").await;
    fs::write(house.dir.path().join("secret"), "secret").unwrap();
    let work = lodge_ahp::uri::file(house.work());
    for way in [
        "/../secret",
        "/%2e%2e/secret",
        "/%2E%2E%2Fsecret",
        "/x/../../secret",
        "/./../secret",
        "/..%2Fsecret",
        "/%2e%2e%5csecret",
        "/..;/secret",
        "/%252e%252e/secret",
        "//../secret",
    ] {
        let uri = format!("{work}{way}");
        for method in [
            "resourceRead",
            "resourceList",
            "resourceResolve",
            "resourceDelete",
            "resourceMkdir",
        ] {
            let seen = client.request(method, json!({ "channel": ROOT, "uri": uri })).await;
            // Names with backslashes or percent signs are names: they may be made, beneath the root.
            assert!(seen.is_err() || method == "resourceMkdir", "{method} {uri}: {seen:?}");
            assert!(
                !seen.unwrap_or_default().to_string().contains("secret"),
                "{method} {uri}"
            );
        }
    }
    for uri in [
        "file:///etc/passwd",
        "file:/etc/passwd",
        "FILE:///etc/passwd",
        "file://localhost/etc/passwd",
        "/etc/passwd",
    ] {
        let code = client
            .code("resourceRead", json!({ "channel": ROOT, "uri": uri }))
            .await;
        assert!([-32009, -32008].contains(&code), "{uri} {code}");
    }
    assert_eq!(fs::read_to_string(house.dir.path().join("secret")).unwrap(), "secret");
}

/// A name that is not text has an address, which comes with the list, and works.
#[tokio::test]
async fn names_that_are_not_text_can_be_used() {
    let house = house().await;
    let mut client = house.client("a").await;
    let file = format!("{}%FFx%25", uri(&house, ""));
    let params = json!({ "channel": ROOT, "uri": file, "data": "strange", "encoding": "utf-8" });
    client.request("resourceWrite", params).await.unwrap();
    let listed = client
        .request("resourceList", json!({ "channel": ROOT, "uri": uri(&house, "") }))
        .await
        .unwrap();
    assert_eq!(
        listed["entries"],
        json!([{ "name": "\u{fffd}x%", "type": "file", "uri": file }])
    );
    let read = client
        .request("resourceRead", json!({ "channel": ROOT, "uri": file }))
        .await
        .unwrap();
    assert_eq!(read["data"], "strange");
}

#[tokio::test]
async fn large_things_are_read_whole_or_refused() {
    let mut limits = lodge_ahp::Limits {
        directory_entries: 2000,
        resource_bytes: 12 << 20,
        ..lodge_ahp::Limits::default()
    };
    limits.queue_bytes = 1 << 20;
    let house = house_with(limits).await;
    let mut client = house.client("a").await;
    let text = "0123456789abcde\n".repeat(10 << 16);
    fs::write(house.work().join("large"), &text).unwrap();
    fs::write(house.work().join("huge"), vec![0; 13 << 20]).unwrap();
    // Several at once are sent one after the other, and none of them is held against the client.
    let mut ids = Vec::new();
    for _ in 0..3 {
        let params = json!({ "channel": ROOT, "uri": uri(&house, "large") });
        ids.push(client.start("resourceRead", params).await);
    }
    for id in ids {
        assert!(client.response(id).await.unwrap()["data"].as_str() == Some(&text));
    }
    let read = json!({ "channel": ROOT, "uri": uri(&house, "huge") });
    assert_eq!(client.code("resourceRead", read).await, -32602);
    fs::create_dir(house.work().join("many")).unwrap();
    let list = json!({ "channel": ROOT, "uri": uri(&house, "many") });
    for number in 0..2001 {
        fs::write(house.work().join(format!("many/{number}")), "").unwrap();
        if number == 1999 {
            let listed = client.request("resourceList", list.clone()).await.unwrap();
            assert_eq!(listed["entries"].as_array().unwrap().len(), 2000);
        }
    }
    assert_eq!(client.code("resourceList", list).await, -32602);
}

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn place(&mut self) -> PathBuf {
        let names = ["a", "b", "ä %", "c"];
        let depth = 1 + self.below(3);
        (0..depth).map(|_| names[self.below(4) as usize]).collect()
    }
}

/// What a command means, on a plain directory.
fn plainly(root: &Path, method: &str, params: &Value) -> Result<(), ()> {
    let path = |key: &str| root.join(params[key].as_str().unwrap());
    let is_dir = |path: Option<&Path>| path.is_some_and(Path::is_dir);
    let flag = |key: &str| params[key] == true;
    let done = match method {
        "resourceMkdir" => fs::create_dir_all(path("uri")),
        "resourceDelete" => {
            let path = path("uri");
            match (path.is_dir(), flag("recursive")) {
                (false, _) => fs::remove_file(path),
                (true, true) => fs::remove_dir_all(path),
                (true, false) => fs::remove_dir(path),
            }
        }
        "resourceWrite" => {
            let path = path("uri");
            if (flag("createOnly") && path.exists()) || path.is_dir() {
                return Err(());
            }
            let old = fs::read(&path).unwrap_or_default();
            let position = (params["position"].as_u64().unwrap_or(0) as usize).min(old.len());
            let data = params["data"].as_str().unwrap().as_bytes();
            let new = match params["mode"].as_str().unwrap_or("truncate") {
                "truncate" => [&old[..position], data].concat(),
                "append" => [&old[..old.len() - position], data, &old[old.len() - position..]].concat(),
                _ => [&old[..position], data, &old[position..]].concat(),
            };
            fs::write(path, new)
        }
        _ => {
            let (from, to) = (path("source"), path("destination"));
            let inside = from != to && (from.starts_with(&to) || to.starts_with(&from));
            if !from.exists() || !is_dir(to.parent()) || (to.exists() && flag("failIfExists")) || inside {
                return Err(());
            }
            if from == to {
                return Ok(());
            }
            let _ = fs::remove_dir_all(&to).or_else(|_| fs::remove_file(&to));
            copy_plainly(&from, &to);
            if method == "resourceMove" {
                let _ = fs::remove_dir_all(&from).or_else(|_| fs::remove_file(&from));
            }
            Ok(())
        }
    };
    done.map_err(drop)
}

fn copy_plainly(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        copy_plainly(&from.join(&name), &to.join(&name));
    }
}

/// Everything in a directory: names, and contents of files.
fn tree(root: &Path) -> Vec<(PathBuf, Option<String>)> {
    let (mut found, mut next) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = next.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let contents = (!path.is_dir()).then(|| fs::read_to_string(&path).unwrap());
            if path.is_dir() {
                next.push(path.clone());
            }
            found.push((path.strip_prefix(root).unwrap().to_owned(), contents));
        }
    }
    found.sort();
    found
}

/// Any row of commands, from clients of both dialects, ends in the tree that plain operations end in.
#[tokio::test]
async fn random_commands_and_plain_operations_end_in_the_same_tree() {
    let given = std::env::var("LODGE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| u64::from(std::process::id()) * 7919 + 1);
    println!("LODGE_SEED={seed}");
    let house = house().await;
    let plain = tempfile::tempdir().unwrap();
    let (mut modern, mut old) = (house.client("modern").await, house.client_of("old", "0.1.0").await);
    let mut dice = Dice(seed);
    let methods = [
        "resourceMkdir",
        "resourceWrite",
        "resourceWrite",
        "resourceCopy",
        "resourceMove",
        "resourceDelete",
    ];
    for step in 0..400 {
        let method = methods[dice.below(6) as usize];
        let by_seed = dice.below(3) == 0 && method != "resourceMkdir";
        let mut params = match method {
            "resourceCopy" | "resourceMove" => {
                json!({ "source": dice.place(), "destination": dice.place(), "failIfExists": dice.below(2) == 0 })
            }
            "resourceWrite" => {
                json!({ "uri": dice.place(), "data": format!("<{step}>"), "encoding": "utf-8", "createOnly": dice.below(4) == 0 })
            }
            _ => json!({ "uri": dice.place(), "recursive": dice.below(2) == 0 }),
        };
        if method == "resourceWrite" && !by_seed {
            params["mode"] = ["truncate", "append", "insert"][dice.below(3) as usize].into();
            params["position"] = dice.below(8).into();
        }
        let expected = plainly(plain.path(), method, &params);
        for key in ["uri", "source", "destination"] {
            if let Some(name) = params[key].as_str() {
                params[key] = uri(&house, name).into();
            }
        }
        let client = if by_seed { &mut old } else { &mut modern };
        let seen = ask(client, by_seed, method, params.clone()).await;
        assert_eq!(
            seen.is_ok(),
            expected.is_ok(),
            "step {step}: {method} {params}: {seen:?}"
        );
        assert_eq!(
            tree(&house.work()),
            tree(plain.path()),
            "step {step}: {method} {params}"
        );
    }
}

/// What is too large for the state is named there and read under its name, by clients of every dialect, also later.
#[tokio::test]
async fn large_contents_of_a_session_are_read_under_their_names() {
    let mut house = house().await;
    let mut client = house.client("a").await;
    fs::write(house.work().join("large.png"), vec![7; 90_000]).unwrap();
    fs::write(house.work().join("small.png"), vec![7; 90]).unwrap();
    let (session, chat) = client.session(&crate::kit::uuid(1)).await;
    let state = client
        .turn(
            &chat,
            "t1",
            r#"call view {"path":"large.png"} then call view {"path":"small.png"}"#,
        )
        .await;
    let parts = state["turns"][0]["responseParts"].as_array().unwrap().clone();
    let contents: Vec<&Value> = parts
        .iter()
        .flat_map(|part| part["toolCall"]["content"].as_array().into_iter().flatten())
        .filter(|content| content["type"] != "text")
        .collect();
    assert_eq!(contents.len(), 2, "{parts:#?}");
    let (large, small) = (contents[0], contents[1]);
    assert_eq!(
        (&large["type"], &small["type"]),
        (&json!("resource"), &json!("embeddedResource"))
    );
    assert_eq!(
        (&large["contentType"], &large["sizeHint"]),
        (&json!("image/png"), &json!(90_000))
    );
    let uri = large["uri"].as_str().unwrap().to_owned();
    assert!(uri.starts_with(&format!("{session}/content/")), "{uri}");
    let check = |read: Value| {
        assert_eq!(
            (&read["encoding"], &read["contentType"]),
            (&json!("base64"), &json!("image/png"))
        );
        assert_eq!(read["data"].as_str().unwrap().len(), 120_000);
    };
    check(
        client
            .request("resourceRead", json!({ "channel": ROOT, "uri": uri }))
            .await
            .unwrap(),
    );
    let resolved = client
        .request("resourceResolve", json!({ "channel": ROOT, "uri": uri }))
        .await
        .unwrap();
    let expected = json!({ "uri": uri, "type": "file", "size": 90_000, "contentType": "image/png" });
    assert_eq!(resolved, expected);
    house.restart().await;
    let mut seed = house.client_of("seed", "0.1.0").await;
    check(seed.request("resourceRead", json!({ "uri": uri })).await.unwrap());
    for wrong in ["none-0", "none", "x-99999999999999999999"] {
        let uri = format!("{session}/content/{wrong}");
        assert_eq!(seed.code("resourceRead", json!({ "uri": uri })).await, -32006, "{uri}");
    }
    assert_eq!(
        seed.code("resourceRead", json!({ "uri": "nobody:/x/content/a-0" }))
            .await,
        -32006
    );
}

/// An MCP server whose tools say a lot: beside a picture, in a file and as data.
const TALKER: &str = r#"big=$(head -c 200000 /dev/zero | tr '\0' x)
while IFS= read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case "$line" in
*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"talker","version":"1"}}' ;;
*'"tools/list"'*) result='{"tools":[{"name":"tell","inputSchema":{"type":"object"}}]}' ;;
*'"name":"tell"'*)
  text='{"type":"text","text":"'$big'"}'
  file='{"type":"resource","resource":{"uri":"x:/y","mimeType":"text/markdown","text":"'$big'"}}'
  picture='{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}'
  result='{"content":['$text','$file','$picture'],"structuredContent":{"big":"'$big'"}}' ;;
*) result='{}' ;;
esac
[ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

/// However large what a tool says, and however it says it: the state has its beginning and names the rest.
#[tokio::test]
async fn large_text_is_named_in_the_state_and_read_under_its_name() {
    let mut house = house().await;
    let script = house.dir.path().join("talker.sh");
    crate::customizations::put(&script, TALKER);
    let servers = json!({ "mcpServers": { "talker": { "command": "bash", "args": [script] } } });
    crate::customizations::put(house.dir.path().join("home/mcp-config.json"), &servers.to_string());
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&crate::kit::uuid(1)).await;
    let trusting = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    a.accepted(&session, trusting).await;
    let state = a.turn(&chat, "t1", "call talker-tell {} then say told").await;
    assert!(state.to_string().len() < 20_000, "{} bytes", state.to_string().len());
    let parts = state["turns"][0]["responseParts"].as_array().unwrap().clone();
    let call = parts
        .iter()
        .map(|part| &part["toolCall"])
        .find(|call| call["toolName"] == "talker-tell");
    let call = call.unwrap().clone();
    let content = call["content"].as_array().unwrap().clone();
    let named: Vec<(String, Value, Value)> = content
        .iter()
        .filter(|part| part["type"] == "resource")
        .map(|part| {
            (
                part["uri"].as_str().unwrap().to_owned(),
                part["sizeHint"].clone(),
                part["contentType"].clone(),
            )
        })
        .collect();
    let kinds: Vec<(&Value, &Value)> = named.iter().map(|(_, size, kind)| (size, kind)).collect();
    let (large, data) = (json!(200_000), json!(200_010));
    let expected = [
        (&large, json!("text/plain")),
        (&large, json!("text/markdown")),
        (&data, json!("application/json")),
    ];
    assert_eq!(
        kinds,
        expected.iter().map(|(size, kind)| (*size, kind)).collect::<Vec<_>>(),
        "{call:#}"
    );
    assert_eq!(call.get("structuredContent"), None);
    let beginnings = content.iter().filter(|part| part["type"] == "text");
    assert_eq!(
        beginnings
            .filter(|part| part["text"].as_str().unwrap().starts_with("xxx"))
            .count(),
        2
    );
    for round in ["live", "restarted"] {
        let mut client = house.client_of(round, "1.0.0").await;
        for (uri, size, _) in &named {
            let read = json!({ "channel": ROOT, "uri": uri, "encoding": "utf-8" });
            let read = client.request("resourceRead", read).await.unwrap();
            assert_eq!(
                read["data"].as_str().map(str::len),
                size.as_u64().map(|size| size as usize),
                "{round} {uri}"
            );
        }
        if round == "live" {
            house.restart().await;
        }
    }
}
