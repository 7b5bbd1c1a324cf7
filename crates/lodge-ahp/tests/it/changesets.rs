//! Changesets: what turns, sessions and work trees changed.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::kit::*;

/// A session in the house's working directory whose tools are not asked about.
async fn session(client: &mut Client, number: u32) -> (String, String) {
    let session = format!("lodge:/{}", uuid(number));
    let params = json!({ "channel": session, "config": { "autoApprove": "autoApprove" } });
    client.request("createSession", params).await.unwrap();
    let snapshot = client.subscribe(&session).await;
    let chat = snapshot["state"]["defaultChat"].as_str().unwrap().to_owned();
    client.subscribe(&chat).await;
    (session, chat)
}

fn git(house: &House) {
    std::fs::write(house.work().join("seed.txt"), "seed\n").unwrap();
    sh(
        house,
        "git init -q -b main && git config user.email a@b.c && git config user.name A && git add -A && git commit -q -m seed",
    );
}

fn sh(house: &House, command: &str) -> String {
    let mut shell = std::process::Command::new("bash");
    let output = shell.arg("-c").arg(command).current_dir(house.work()).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn bash(command: &str) -> String {
    format!(
        "call bash {} then say ok",
        json!({ "command": command, "description": "d" })
    )
}

fn names(files: &Value) -> Vec<String> {
    let files = files.as_array().unwrap().iter();
    files
        .map(|file| {
            let (before, after) = (&file["edit"]["before"], &file["edit"]["after"]);
            let kind = match (before.is_null(), after.is_null()) {
                (true, _) => "new",
                (_, true) => "gone",
                _ => "changed",
            };
            let diff = &file["edit"]["diff"];
            let name = file["id"].as_str().unwrap().rsplit('/').next().unwrap();
            format!("{kind} {name} +{} -{}", diff["added"], diff["removed"])
        })
        .collect()
}

impl Client {
    /// Waits until a changeset shows these files.
    async fn shows(&mut self, changeset: &str, expected: &[&str]) -> Value {
        let fits = |message: &Value| {
            let params = &message["params"];
            params["channel"] == changeset
                && params["action"]["type"] == "changeset/contentChanged"
                && names(&params["action"]["files"]) == expected
        };
        self.until(fits).await["params"]["action"].clone()
    }

    async fn ready(&mut self, changeset: &str) {
        self.until(|message| {
            let params = &message["params"];
            params["channel"] == changeset && params["action"]["status"] == "ready"
        })
        .await;
    }

    /// Subscribes, and waits until the changes are known.
    async fn changes(&mut self, changeset: &str) -> Value {
        loop {
            let state = self.subscribe(changeset).await["state"].clone();
            if matches!(state["status"].as_str(), Some("ready" | "error")) {
                return state;
            }
            self.until(|message| {
                message["params"]["channel"] == changeset
                    && message["params"]["action"]["type"] == "changeset/statusChanged"
            })
            .await;
        }
    }

    /// Waits until a changeset has these files: some may be known when it is subscribed to, and no action tells of those.
    async fn comes_to(&mut self, changeset: &str, expected: &[&str]) {
        while names(&self.changes(changeset).await["files"]) != expected {
            self.until(|message| {
                message["params"]["channel"] == changeset
                    && message["params"]["action"]["type"] == "changeset/contentChanged"
            })
            .await;
        }
    }

    async fn invoke(&mut self, changeset: &str, operation: &str, resource: Option<&str>) -> Result<Value, Value> {
        let mut params = json!({ "channel": changeset, "operationId": operation });
        if let Some(resource) = resource {
            params["target"] = json!({ "kind": "resource", "resource": resource });
        }
        self.request("invokeChangesetOperation", params).await
    }

    async fn content(&mut self, side: &Value) -> String {
        let params = json!({ "channel": ROOT, "uri": side["content"]["uri"] });
        let read = self.request("resourceRead", params).await.unwrap();
        read["data"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn changes_follow_a_turn_live_for_everybody() {
    let house = house().await;
    git(&house);
    let (mut client, mut other) = (house.client("a").await, house.client("b").await);
    let (session, chat) = session(&mut client, 1).await;
    let uri = |kind: &str| format!("{session}/changeset/{kind}");
    client.comes_to(&uri("branch"), &[]).await;
    for kind in ["uncommitted", "session", "turn/t1"] {
        other.subscribe(&uri(kind)).await;
    }
    let command = "printf 'a\\nb\\n' > new.txt; echo more >> seed.txt";
    client.turn(&chat, "t1", &bash(command)).await;
    let expected = ["new new.txt +2 -0", "changed seed.txt +1 -0"];
    let told = client.shows(&uri("branch"), &expected).await;
    assert!(
        told["files"]
            .as_array()
            .unwrap()
            .iter()
            .all(|file| file["reviewed"] == false)
    );
    for kind in ["uncommitted", "session", "turn/t1"] {
        let told = other.shows(&uri(kind), &expected).await;
        let [new, seed] = [0, 1].map(|at| told["files"][at]["edit"].clone());
        assert!(new.get("before").is_none());
        assert_eq!(client.content(&seed["before"]).await, "seed\n", "{kind}");
        assert_eq!(client.content(&seed["after"]).await, "seed\nmore\n", "{kind}");
        assert_eq!(client.content(&new["after"]).await, "a\nb\n", "{kind}");
        // A page in a browser can open no `file:` of the host's. Editors show the path, and call a file renamed that has two.
        for side in [&seed["before"], &seed["after"], &new["after"]] {
            let address = side["content"]["uri"].as_str().unwrap();
            let path = side["uri"].as_str().unwrap().strip_prefix("file://").unwrap();
            assert!(
                address.starts_with(&format!("lodge-content:{path}?")),
                "{kind}: {address}"
            );
            // As an editor of the VS Code family spells it.
            let spelt = address.replace(&format!("{}/", uuid(1)), &format!("{}%2F", uuid(1)));
            assert_ne!(spelt, address);
            let read = json!({ "channel": ROOT, "uri": spelt });
            client.request("resourceRead", read).await.unwrap();
        }
    }
    // Such an address reads nothing that clients may not read.
    for path in ["/etc/passwd", "//etc/passwd", "/../etc/passwd", "etc/passwd", ""] {
        let stranger = format!("lodge-content:{path}?{}/now-1", uuid(1));
        let read = json!({ "channel": ROOT, "uri": stranger });
        assert_eq!(client.code("resourceRead", read).await, -32008, "{path}");
    }
    // A turn that changes nothing leaves each as it is, and has nothing of its own.
    client.turn(&chat, "t2", "say nothing").await;
    assert_eq!(
        client.changes(&uri("turn/t2")).await,
        json!({ "status": "ready", "files": [], "operations": [] })
    );
    client.turn(&chat, "t3", &bash("rm new.txt")).await;
    client.shows(&uri("branch"), &expected[1..]).await;
    other.shows(&uri("session"), &expected[1..]).await;
    let between = client.changes(&uri("compare/t1/t3")).await;
    assert_eq!(names(&between["files"]), ["gone new.txt +0 -2"]);
    assert_eq!(client.changes(&uri("compare/t1/t1")).await["files"], json!([]));
    // What a person changes is seen, too.
    std::fs::write(house.work().join("by-hand"), "x\n").unwrap();
    client.shows(&uri("branch"), &["new by-hand +1 -0", expected[1]]).await;
    // What a client cannot subscribe to, and what cannot be told.
    for unknown in ["turn/nobody", "compare/t1/nobody"] {
        let state = client.changes(&uri(unknown)).await;
        assert_eq!(state["status"], "error", "{unknown}");
        assert!(
            state["error"]["message"].as_str().unwrap().contains("There is no turn"),
            "{state}"
        );
    }
    for unknown in [
        uri("turn/{turnId}"),
        uri("nothing"),
        "lodge:/nobody/changeset/session".to_owned(),
    ] {
        assert_eq!(
            client.code("subscribe", json!({ "channel": unknown })).await,
            -32001,
            "{unknown}"
        );
    }
    let params = json!({ "channel": ROOT, "uri": "lodge-content:/x?nobody/lost" });
    assert_eq!(client.code("resourceRead", params).await, -32008);
}

#[tokio::test]
async fn what_is_offered_grows_with_the_first_turn_and_counts_go_into_the_list() {
    let mut house = house().await;
    git(&house);
    let mut client = house.client("a").await;
    let (uri, chat) = session(&mut client, 1).await;
    let kinds = |changesets: &Value| {
        let all = changesets.as_array().unwrap().iter();
        all.map(|changeset| changeset["changeKind"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let state = client.subscribe(&uri).await["state"].clone();
    assert_eq!(kinds(&state["changesets"]), ["uncommitted"]);
    client.turn(&chat, "t1", &bash("echo a > a; echo b > seed.txt")).await;
    let changed = client.action("session/changesetsChanged").await["action"]["changesets"].clone();
    assert_eq!(
        kinds(&changed),
        ["branch", "uncommitted", "session", "turn", "compare-turns"]
    );
    let counts = json!({ "additions": 2, "deletions": 1, "files": 2 });
    let told = client
        .until(|message| !message["params"]["changes"]["changes"].is_null())
        .await;
    assert_eq!(
        (&told["method"], &told["params"]["changes"]["changes"]),
        (&json!("root/sessionSummaryChanged"), &counts)
    );
    let list = json!({ "channel": ROOT });
    let listed = client.request("listSessions", list.clone()).await.unwrap();
    assert_eq!(listed["items"][0]["changes"], counts);
    // Also of a session that is not open, and after a restart.
    drop(client);
    house.restart().await;
    let mut client = house.client("a").await;
    let listed = client.request("listSessions", list.clone()).await.unwrap();
    assert_eq!(listed["items"][0]["changes"], counts);
    let state = client.subscribe(&uri).await["state"].clone();
    assert_eq!(kinds(&state["changesets"]).len(), 5);
    let own = format!("{uri}/changeset/session");
    assert_eq!(client.changes(&own).await["files"].as_array().unwrap().len(), 2);
    client.invoke(&own, "revert", None).await.unwrap();
    client.shows(&own, &[]).await;
    loop {
        let listed = client.request("listSessions", list.clone()).await.unwrap();
        if listed["items"][0]["changes"] == json!({ "additions": 0, "deletions": 0, "files": 0 }) {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn review_marks_that_cannot_be_saved_are_refused() {
    let mut house = house().await;
    git(&house);
    let mut client = house.client("a").await;
    let (uri, chat) = session(&mut client, 1).await;
    let branch = format!("{uri}/changeset/branch");
    client.turn(&chat, "t1", &bash("echo a > a")).await;
    client.comes_to(&branch, &["new a +1 -0"]).await;
    let file = client.changes(&branch).await["files"][0]["id"].clone();
    let mark = json!({ "type": "changeset/filesReviewChanged", "files": [file], "reviewed": true });
    let refused = house.without_home(client.refused(&branch, mark.clone())).await;
    assert!(refused.starts_with("cannot save it: "), "{refused}");
    assert_eq!(client.changes(&branch).await["files"][0]["reviewed"], false);
    client.accepted(&branch, mark).await;
    drop(client);
    house.restart().await;
    let mut client = house.client("a").await;
    assert_eq!(client.changes(&branch).await["files"][0]["reviewed"], true);
}

#[tokio::test]
async fn files_are_marked_as_seen_until_they_change() {
    let mut house = house().await;
    git(&house);
    let (mut client, mut other) = (house.client("a").await, house.client("b").await);
    let (uri, chat) = session(&mut client, 1).await;
    let (branch, loose) = (
        format!("{uri}/changeset/branch"),
        format!("{uri}/changeset/uncommitted"),
    );
    client.turn(&chat, "t1", &bash("echo a > a; echo b > b")).await;
    let files = client.changes(&branch).await["files"].clone();
    other.changes(&branch).await;
    let ids: Vec<&str> = files
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["id"].as_str().unwrap())
        .collect();
    let mark = |files: &[&str], reviewed: bool| json!({ "type": "changeset/filesReviewChanged", "files": files, "reviewed": reviewed });
    assert_eq!(client.accepted(&branch, mark(&ids, true)).await, mark(&ids, true));
    assert_eq!(
        other.action("changeset/filesReviewChanged").await["action"],
        mark(&ids, true)
    );
    client.ready(&branch).await;
    client.accepted(&branch, mark(&ids[1..], false)).await;
    client.accepted(&branch, mark(&ids[1..], false)).await;
    client.accepted(&branch, mark(&ids[1..], true)).await;
    client.changes(&loose).await;
    for (channel, action, reason) in [
        (&branch, mark(&["file:///nobody"], true), "not among the changes"),
        (&loose, mark(&[], true), "no review marks"),
        (
            &branch,
            json!({ "type": "changeset/cleared" }),
            "clients cannot dispatch",
        ),
        (
            &branch,
            json!({ "type": "changeset/statusChanged", "status": "ready" }),
            "clients cannot dispatch",
        ),
    ] {
        let refused = client.refused(channel, action.clone()).await;
        assert!(refused.contains(reason), "{action}: {refused}");
    }
    let marks = |state: Value| {
        let files = state["files"].as_array().unwrap().clone();
        files.iter().map(|file| file["reviewed"].clone()).collect::<Vec<_>>()
    };
    drop((client, other));
    house.restart().await;
    let mut client = house.client("a").await;
    assert_eq!(marks(client.changes(&branch).await), [true, true]);
    sh(&house, "echo more >> b");
    client.shows(&branch, &["new a +1 -0", "new b +2 -0"]).await;
    assert_eq!(marks(client.changes(&branch).await), [true, false]);
}

#[tokio::test]
async fn operations_do_what_they_say_and_say_what_they_do() {
    let house = house().await;
    git(&house);
    let mut client = house.client("a").await;
    let (uri, chat) = session(&mut client, 1).await;
    let (loose, own) = (
        format!("{uri}/changeset/uncommitted"),
        format!("{uri}/changeset/session"),
    );
    let file = |name: &str| format!("file://{}", house.work().join(name).display());
    let read = |name: &str| std::fs::read_to_string(house.work().join(name)).ok();
    assert_eq!(client.changes(&loose).await["operations"], json!([]));
    client
        .turn(
            &chat,
            "t1",
            &bash("echo edited > seed.txt; echo n > new; echo o > other"),
        )
        .await;
    let told = client
        .shows(&loose, &["new new +1 -0", "new other +1 -0", "changed seed.txt +1 -1"])
        .await;
    let offered = |operations: &Value| {
        let all = operations.as_array().unwrap().iter();
        all.map(|operation| (operation["id"].clone(), operation["scopes"].clone()))
            .collect::<Vec<_>>()
    };
    let expected = [
        (json!("commit"), json!(["changeset"])),
        (json!("discard-changes"), json!(["resource"])),
    ];
    assert_eq!(offered(&told["operations"]), expected);
    // What makes no sense.
    let seed = file("seed.txt");
    let code = |answer: Result<Value, Value>| answer.unwrap_err()["code"].as_i64().unwrap();
    assert_eq!(code(client.invoke(&loose, "unknown", None).await), -32602);
    assert_eq!(code(client.invoke(&loose, "discard-changes", None).await), -32602);
    assert_eq!(code(client.invoke(&loose, "commit", Some(&seed)).await), -32602);
    assert_eq!(
        code(client.invoke(&loose, "discard-changes", Some("file:///nobody")).await),
        -32008
    );
    assert_eq!(code(client.invoke(&uri, "commit", None).await), -32008);
    assert_eq!(
        code(client.invoke("lodge:/nobody/changeset/session", "revert", None).await),
        -32008
    );
    let range = json!({ "kind": "range", "resource": seed, "range": { "start": { "line": 0, "character": 0 }, "end": { "line": 1, "character": 0 } } });
    let params = json!({ "channel": loose, "operationId": "discard-changes", "target": range });
    assert_eq!(client.code("invokeChangesetOperation", params).await, -32602);
    // One file is thrown away, the others stay.
    client.drain().await;
    client.invoke(&loose, "discard-changes", Some(&seed)).await.unwrap();
    assert_eq!(
        (read("seed.txt").as_deref(), read("new").as_deref()),
        (Some("seed\n"), Some("n\n"))
    );
    client.shows(&loose, &["new new +1 -0", "new other +1 -0"]).await;
    let statuses: Vec<Value> = client
        .inbox
        .iter()
        .map(|message| message["params"]["action"].clone())
        .filter(|action| action["type"] == "changeset/operationStatusChanged")
        .map(|action| action["status"].clone())
        .collect();
    assert_eq!(statuses, ["running", "idle"]);
    client
        .invoke(&loose, "discard-changes", Some(&file("other")))
        .await
        .unwrap();
    assert_eq!(read("other"), None);
    // The rest is staged, then committed.
    client.changes(&own).await;
    client.invoke(&own, "stage", Some(&file("new"))).await.unwrap();
    assert_eq!(sh(&house, "git diff --cached --name-only"), "new\n");
    let said = client.invoke(&loose, "commit", None).await.unwrap();
    assert!(
        said["message"]["markdown"]
            .as_str()
            .unwrap()
            .starts_with("Committed changes with message:"),
        "{said}"
    );
    assert_eq!(sh(&house, "git status --porcelain; git rev-list --count HEAD"), "2\n");
    client.shows(&loose, &[]).await;
    // Git's own words when it refuses, and the state shows it until the next try.
    client.turn(&chat, "t2", &bash("echo 2 >> new; printf '#!/bin/sh\\necho no-way >&2; exit 1' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")).await;
    client.shows(&loose, &["changed new +1 -0"]).await;
    // The hooks of a repository run where it is trusted.
    lodge_host::Trust::of(house.host.home())
        .set(&house.work(), true)
        .unwrap();
    let refused = client.invoke(&loose, "commit", None).await.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("no-way"), "{refused}");
    let failed = client.changes(&loose).await["operations"][0].clone();
    assert_eq!(failed["status"], "error");
    assert!(
        failed["error"]["message"].as_str().unwrap().contains("no-way"),
        "{failed}"
    );
}

/// An editor may offer to undo a turn where it shows the turn: nobody needs to have looked at the changes before.
#[tokio::test]
async fn a_turn_is_taken_back_that_nobody_looked_at() {
    let house = house().await;
    std::fs::write(house.work().join("kept"), "k\n").unwrap();
    let mut client = house.client("a").await;
    let (uri, chat) = session(&mut client, 1).await;
    client
        .turn(&chat, "t1", &bash("echo changed > kept; echo n > new"))
        .await;
    let turn = format!("{uri}/changeset/turn/t1");
    let said = client.invoke(&turn, "revert", None).await.unwrap();
    assert_eq!(said["message"], "Restored 2 files.");
    assert_eq!(std::fs::read_to_string(house.work().join("kept")).unwrap(), "k\n");
    assert!(!house.work().join("new").exists());
    let nothing = client.invoke(&format!("{uri}/changeset/turn/t9"), "revert", None).await;
    assert_eq!(nothing.unwrap_err()["code"], -32602);
}

#[tokio::test]
async fn a_turn_is_taken_back_but_not_over_what_a_person_did_unless_asked() {
    let house = house().await;
    std::fs::write(house.work().join("kept"), "k\n").unwrap();
    let mut client = house.client("a").await;
    let (uri, chat) = session(&mut client, 1).await;
    let turn = format!("{uri}/changeset/turn/t1");
    client
        .turn(&chat, "t1", &bash("echo changed > kept; echo n > new"))
        .await;
    let ids = client.changes(&turn).await["operations"].clone();
    assert_eq!(ids[0]["id"], "revert");
    assert!(
        ids[1]["confirmation"].is_string() && ids.get(2).is_none(),
        "no git, no stage: {ids}"
    );
    std::fs::write(house.work().join("kept"), "mine\n").unwrap();
    let said = client.invoke(&turn, "revert", None).await.unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        said.starts_with("Restored 1 file. Left alone:") && said.contains("kept: it was changed since"),
        "{said}"
    );
    assert!(!house.work().join("new").exists());
    client.invoke(&turn, "revert-all", None).await.unwrap();
    assert_eq!(std::fs::read_to_string(house.work().join("kept")).unwrap(), "k\n");
    // Not while the agent works.
    client.say(&chat, "t2", &bash("echo x > started; sleep 600")).await;
    let started: PathBuf = house.work().join("started");
    // It is there before anything is written to it.
    while std::fs::read_to_string(&started).ok().as_deref() != Some("x\n") {
        tokio::task::yield_now().await;
    }
    let busy = client.invoke(&turn, "revert", None).await.unwrap_err();
    assert_eq!(busy["code"], -32004, "{busy}");
    client
        .dispatch(
            &chat,
            json!({ "type": "chat/turnCancelled", "turnId": "t2", "duration": 1 }),
        )
        .await;
    client.ends(&chat, "t2").await;
    let cut_off = format!("{uri}/changeset/turn/t2");
    client.comes_to(&cut_off, &["new started +1 -0"]).await;
    // A session that is gone takes its changes with it.
    client
        .request("disposeSession", json!({ "channel": uri }))
        .await
        .unwrap();
    client
        .until(|message| {
            message["params"]["channel"] == cut_off && message["params"]["action"]["type"] == "changeset/cleared"
        })
        .await;
    assert_eq!(client.code("subscribe", json!({ "channel": cut_off })).await, -32001);
}

#[tokio::test]
async fn clients_of_the_seed_get_the_changes_of_a_session_whole() {
    let house = house().await;
    let mut seed = house.client_of("s", "0.1.0").await;
    let mut client = house.client("a").await;
    let (uri, chat) = session(&mut client, 1).await;
    seed.request("subscribe", json!({ "resource": uri })).await.unwrap();
    client.turn(&chat, "t1", &bash("echo n > new")).await;
    let told = seed.action("session/diffsChanged").await["action"].clone();
    assert_eq!(told["session"], uri);
    let expected = format!("file://{}", house.work().join("new").display());
    assert_eq!(told["diffs"][0]["after"]["uri"], expected);
    assert_eq!(told["diffs"][0]["diff"], json!({ "added": 1, "removed": 0 }));
    let mut late = house.client_of("l", "0.1.0").await;
    let snapshot = late.request("subscribe", json!({ "resource": uri })).await.unwrap()["snapshot"].clone();
    assert_eq!(snapshot["state"]["summary"]["diffs"], told["diffs"]);
    assert_eq!(client.content(&told["diffs"][0]["after"]).await, "n\n");
    let seen = client.drain().await;
    assert!(
        !seen
            .iter()
            .any(|message| message["params"]["action"]["type"] == "session/diffsChanged")
    );
}

/// Where a session works around the host's home, that is no part of what it changed, and is never committed.
#[tokio::test]
async fn the_hosts_home_is_no_change_of_a_session() {
    let house = house().await;
    let top = house.dir.path().canonicalize().unwrap();
    let git = |args: &[&str]| {
        let output = std::process::Command::new("git")
            .args(args)
            .current_dir(&top)
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["config", "user.email", "a@b.c"]);
    git(&["config", "user.name", "A"]);
    git(&["commit", "-q", "--allow-empty", "-m", "seed"]);
    std::fs::write(top.join("home/secret.txt"), "sesame\n").unwrap();
    let mut client = house.client("a").await;
    let session = format!("lodge:/{}", uuid(1));
    let create = json!({
        "channel": session, "workingDirectories": [lodge_ahp::uri::file(&top)], "config": { "autoApprove": "autoApprove" },
    });
    client.request("createSession", create).await.unwrap();
    let snapshot = client.subscribe(&session).await;
    let chat = snapshot["state"]["defaultChat"].as_str().unwrap().to_owned();
    client.subscribe(&chat).await;
    client.turn(&chat, "t1", &bash("echo n > new.txt")).await;
    for kind in ["uncommitted", "branch", "session"] {
        let files = client.changes(&format!("{session}/changeset/{kind}")).await["files"].clone();
        assert_eq!(names(&files), ["new new.txt +1 -0"], "{kind}");
    }
    let loose = format!("{session}/changeset/uncommitted");
    client.invoke(&loose, "commit", None).await.unwrap();
    assert_eq!(git(&["show", "--format=", "--name-only", "HEAD"]), "new.txt\n");
    for word in ["@secret", "@home/"] {
        let params = json!({ "channel": chat, "kind": "userMessage", "text": word, "offset": word.len() });
        let items = client.request("completions", params).await.unwrap();
        assert!(!items.to_string().contains("secret.txt"), "{items}");
    }
}
