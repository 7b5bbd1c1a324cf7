//! Who may reach what, who decides, and what clients own.

use lodge_ahp::Policy;
use lodge_files::Grants;
use serde_json::{Value, json};

use crate::kit::{Client, House, ROOT, house, house_with_policy, uuid};

/// A file outside of everything that clients may reach.
fn outside(house: &House) -> String {
    let path = house.dir.path().canonicalize().unwrap().join("outside.txt");
    std::fs::write(&path, "secret").unwrap();
    lodge_ahp::uri::file(path)
}

async fn read(client: &mut Client, uri: &str) -> Result<Value, i64> {
    let read = client
        .request("resourceRead", json!({ "channel": ROOT, "uri": uri }))
        .await;
    read.map(|read| read["data"].clone())
        .map_err(|error| error["code"].as_i64().unwrap())
}

async fn request(client: &mut Client, uri: &str, more: Value) -> Result<Value, Value> {
    let mut params = json!({ "channel": ROOT, "uri": uri });
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    client.request("resourceRequest", params).await
}

#[tokio::test]
async fn the_policy_decides_where_nobody_is_asked() {
    for (policy, granted) in [(Policy::Allow, true), (Policy::Deny, false), (Policy::Ask, false)] {
        let house = house_with_policy(policy).await;
        let uri = outside(&house);
        let mut a = house.client("a").await;
        assert_eq!(read(&mut a, &uri).await, Err(-32009));
        let seen = request(&mut a, &uri, json!({})).await;
        assert_eq!(seen.is_ok(), granted, "{policy:?} {seen:?}");
        if let Err(error) = &seen {
            assert_eq!(error["code"], -32009);
            assert_eq!(
                error["data"],
                json!({ "request": { "channel": ROOT, "uri": uri, "read": true } })
            );
        }
        assert_eq!(read(&mut a, &uri).await.is_ok(), granted);
        if granted {
            // For reading, and for this client.
            let write = json!({ "channel": ROOT, "uri": uri, "data": "", "encoding": "utf-8" });
            assert_eq!(a.code("resourceWrite", write).await, -32009);
            let mut b = house.client("b").await;
            assert_eq!(read(&mut b, &uri).await, Err(-32009));
            // Until it is taken back.
            let grants = Grants::of_home(&house.dir.path().join("home"));
            grants.remove(&grants.list()[0].0).unwrap();
            assert_eq!(read(&mut a, &uri).await, Err(-32009));
        }
    }
}

/// What was granted can be watched, until it is taken back.
#[tokio::test]
async fn a_watch_ends_with_the_grant_it_rests_on() {
    let house = house_with_policy(Policy::Allow).await;
    let directory = house.dir.path().canonicalize().unwrap().join("far");
    std::fs::create_dir(&directory).unwrap();
    let uri = lodge_ahp::uri::file(&directory);
    let mut a = house.client("a").await;
    let watch = json!({ "channel": ROOT, "uri": uri, "recursive": true });
    assert_eq!(a.code("createResourceWatch", watch.clone()).await, -32009);
    request(&mut a, &uri, json!({})).await.unwrap();
    let made = a.request("createResourceWatch", watch).await.unwrap();
    let channel = made["channel"].as_str().unwrap().to_owned();
    a.subscribe(&channel).await;
    std::fs::write(directory.join("one"), "").unwrap();
    a.action("resourceWatch/changed").await;
    let grants = Grants::of_home(&house.dir.path().join("home"));
    grants.remove(&grants.list()[0].0).unwrap();
    std::fs::write(directory.join("two"), "").unwrap();
    // It is gone, and nothing of what happened since was told.
    while a.request("subscribe", json!({ "channel": channel })).await.is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let told = a.drain().await;
    assert!(!json!(told).to_string().contains("two"), "{told:?}");
}

/// What nobody could be asked about waits for a person at a terminal.
#[tokio::test]
async fn a_person_can_allow_it_later_and_for_good() {
    let mut house = house().await;
    let uri = outside(&house);
    let mut a = house.client("a").await;
    let refused = request(&mut a, &uri, json!({ "read": true, "write": true }))
        .await
        .unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("lodge grants"));
    let grants = Grants::of_home(&house.dir.path().join("home"));
    let (_, mut grant) = grants.list().remove(0);
    assert_eq!((grant.client.as_str(), grant.allowed), ("a", false));
    grant.allowed = true;
    grant.lasting = true;
    grants.put(&grant).unwrap();
    assert_eq!(request(&mut a, &uri, json!({ "write": true })).await, Ok(json!({})));
    let write = json!({ "channel": ROOT, "uri": uri, "data": "new", "encoding": "utf-8" });
    a.request("resourceWrite", write).await.unwrap();
    house.restart().await;
    let mut a = house.client("a").await;
    assert_eq!(read(&mut a, &uri).await, Ok(json!("new")));
}

/// While a turn runs, everybody at the session is asked; the first answer counts.
#[tokio::test]
async fn persons_at_a_session_are_asked() {
    let house = house().await;
    let uri = outside(&house);
    let (mut a, mut b) = (house.client("a").await, house.client_of("b", "0.1.0").await);
    let (_, chat) = a.session(&uuid(1)).await;
    a.say(&chat, "t1", "slowly 100 ms, stream 600 chunks").await;
    a.action("chat/responsePart").await;
    for (answer, granted) in [("no", false), ("now", true)] {
        let id = b.start("resourceRequest", json!({ "uri": uri })).await;
        let asked = a.action("chat/inputRequested").await["action"]["request"].clone();
        assert!(asked["message"].as_str().unwrap().contains("outside.txt"), "{asked}");
        assert_eq!(asked["questions"][0]["options"].as_array().unwrap().len(), 3);
        let answers = json!({ "answer": { "state": "submitted", "value": { "kind": "selected", "value": answer } } });
        let done = json!({
            "type": "chat/inputCompleted", "requestId": asked["id"], "response": "accept", "answers": answers,
        });
        a.accepted(&chat, done).await;
        let seen = b.response(id).await;
        assert_eq!(seen.is_ok(), granted, "{seen:?}");
        assert_eq!(b.request("resourceRead", json!({ "uri": uri })).await.is_ok(), granted);
    }
    // Nobody else got anything by it.
    assert_eq!(read(&mut a, &uri).await, Err(-32009));
    a.dispatch(
        &chat,
        json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 1 }),
    )
    .await;
    a.ends(&chat, "t1").await;
}

/// 89: what a client owns, its owner alone is asked for, and nobody waits for one who is gone.
#[tokio::test]
async fn what_clients_own_they_are_asked_for() {
    let house = house().await;
    let (mut a, mut b) = (house.client("a").await, house.client("b c").await);
    let mut seed = house.client_of("seed", "0.1.0").await;
    let uri = "virtual://b%20c/buffer";
    for (method, result) in [
        ("resourceRead", json!({ "data": "text", "encoding": "utf-8" })),
        ("resourceList", json!({ "entries": [] })),
        ("resourceRequest", json!({})),
    ] {
        let params = json!({ "channel": ROOT, "uri": uri, "read": true });
        let id = a.start(method, params.clone()).await;
        assert_eq!(b.answer(method, json!({ "result": result })).await, params);
        assert_eq!(a.response(id).await, Ok(result));
    }
    let denied = json!({ "code": -32009, "message": "no", "data": { "request": { "uri": uri } } });
    let id = a.start("resourceRead", json!({ "channel": ROOT, "uri": uri })).await;
    b.answer("resourceRead", json!({ "error": denied })).await;
    assert_eq!(a.response(id).await, Err(denied));
    // The seed's clients are asked for access, and for nothing else.
    let id = a
        .start("resourceRequest", json!({ "channel": ROOT, "uri": "virtual://seed/x" }))
        .await;
    seed.answer("resourceRequest", json!({ "result": {} })).await;
    assert_eq!(a.response(id).await, Ok(json!({})));
    for uri in ["virtual://seed/x", "virtual://nobody/x", "virtual:///x"] {
        assert_eq!(read(&mut a, uri).await, Err(-32008), "{uri}");
    }
    let of_seed = json!({ "channel": ROOT, "uri": "virtual://seed/x" });
    let refused = a.request("resourceRead", of_seed).await.unwrap_err();
    let why = "the client \"seed\" cannot be asked: its AHP version has no requests for contents";
    assert_eq!(refused["message"], why);
    let copy = json!({ "channel": ROOT, "source": uri, "destination": lodge_ahp::uri::file(house.work().join("x")) });
    assert_eq!(a.code("resourceCopy", copy).await, -32602);
    let id = a.start("resourceRead", json!({ "channel": ROOT, "uri": uri })).await;
    b.until(|message| message["method"] == "resourceRead").await;
    drop(b);
    assert!(
        a.response(id).await.unwrap_err()["message"]
            .as_str()
            .unwrap()
            .contains("has disconnected")
    );
    // Answers to nothing harm nobody.
    a.send_text(json!({ "jsonrpc": "2.0", "id": 77, "result": {} }).to_string())
        .await;
    a.send_text(json!({ "jsonrpc": "2.0", "id": "x", "error": "odd" }).to_string())
        .await;
    a.drain().await;
}

/// A session may work in a directory that the host's home is in. That alone opens nothing to clients; what a person grants
/// them there does not hold for the home, by no way.
#[tokio::test]
async fn the_hosts_home_is_not_reached_wherever_a_session_works() {
    for (name, version) in [("modern", "1.0.0"), ("seed", "0.1.0")] {
        let house = house_with_policy(Policy::Allow).await;
        let top = house.dir.path().canonicalize().unwrap();
        let home = top.join("home");
        std::fs::write(home.join("secret.txt"), "sesame").unwrap();
        std::os::unix::fs::symlink("home", top.join("alias")).unwrap();
        std::fs::write(top.join("plain.txt"), "plain").unwrap();
        let seed = name == "seed";
        let mut client = house.client_of(name, version).await;
        let at = |path: &str| lodge_ahp::uri::file(top.join(path));
        let create = match seed {
            true => json!({ "session": format!("lodge:/{}", uuid(1)), "workingDirectory": at("") }),
            false => json!({ "channel": format!("lodge:/{}", uuid(1)), "workingDirectories": [at("")] }),
        };
        client.request("createSession", create).await.unwrap();
        let mut ask = async |method: &str, mut params: Value| {
            if !seed {
                params["channel"] = ROOT.into();
            }
            client.request(method, params).await
        };
        let refused = ask("resourceRead", json!({ "uri": at("plain.txt") }))
            .await
            .unwrap_err();
        assert_eq!(refused["code"], -32009, "{refused}");
        assert_eq!(refused["data"]["request"]["read"], true, "{refused}");
        let granted = json!({ "uri": at(""), "read": true, "write": true });
        ask("resourceRequest", granted).await.unwrap();
        let plain = ask("resourceRead", json!({ "uri": at("plain.txt") })).await.unwrap();
        assert_eq!(plain["data"], "plain");
        let listed = ask("resourceList", json!({ "uri": at("") })).await.unwrap().to_string();
        assert!(listed.contains("plain.txt"), "{listed}");
        let write = |path: &str| json!({ "uri": at(path), "data": "x", "encoding": "utf-8" });
        let two = |from: &str, to: &str| json!({ "source": at(from), "destination": at(to) });
        let mut table = vec![
            ("resourceRead", json!({ "uri": at("home/secret.txt") })),
            ("resourceRead", json!({ "uri": at("alias/secret.txt") })),
            ("resourceRead", json!({ "uri": at("home/ahp/none") })),
            ("resourceList", json!({ "uri": at("home") })),
            ("resourceList", json!({ "uri": at("alias/session-state") })),
            ("resourceWrite", write("home/secret.txt")),
            ("resourceWrite", write("alias/new.txt")),
            ("resourceCopy", two("home/secret.txt", "stolen.txt")),
            ("resourceCopy", two("home", "stolen")),
            ("resourceCopy", two("plain.txt", "home/plain.txt")),
            ("resourceMove", two("home", "elsewhere")),
            ("resourceMove", two("home/secret.txt", "stolen.txt")),
            ("resourceMove", two("plain.txt", "home")),
            ("resourceDelete", json!({ "uri": at("home"), "recursive": true })),
            ("resourceDelete", json!({ "uri": at("alias/secret.txt") })),
            ("resourceRequest", json!({ "uri": at("home/secret.txt"), "read": true })),
            ("resourceRequest", json!({ "uri": at("alias"), "write": true })),
        ];
        if !seed {
            table.extend([
                ("resourceResolve", json!({ "uri": at("home/secret.txt") })),
                ("resourceMkdir", json!({ "uri": at("alias/new/deep") })),
                ("createResourceWatch", json!({ "uri": at("home"), "recursive": true })),
            ]);
        }
        for (method, params) in table {
            let refused = ask(method, params.clone()).await.expect_err(&params.to_string());
            assert_eq!(refused["code"], -32009, "{method} {params}: {refused}");
            assert!(
                refused.get("data").is_none(),
                "nobody can give it: {method} {params}: {refused}"
            );
        }
        // What holds the home is neither carried away nor removed.
        let above = top.parent().unwrap();
        let copied = lodge_ahp::uri::file(above.join(format!("copied-{}", uuid::Uuid::new_v4())));
        let wide = json!({ "uri": lodge_ahp::uri::file(above), "read": true, "write": true });
        ask("resourceRequest", wide).await.unwrap();
        for (method, params) in [
            ("resourceCopy", json!({ "source": at(""), "destination": copied })),
            ("resourceMove", json!({ "source": at(""), "destination": copied })),
            ("resourceDelete", json!({ "uri": at(""), "recursive": true })),
        ] {
            let refused = ask(method, params.clone()).await.expect_err(&params.to_string());
            assert_eq!(refused["code"], -32009, "{method} {params}: {refused}");
        }
        assert_eq!(std::fs::read_to_string(home.join("secret.txt")).unwrap(), "sesame");
        assert!(!top.join("stolen").exists() && !top.join("stolen.txt").exists());
    }
}

/// Folder pickers are refused beyond what was granted; making a session there is no way around it.
#[tokio::test]
async fn a_session_at_the_top_of_the_disk_does_not_open_the_disk() {
    let house = house().await;
    let secret = tempfile::tempdir().unwrap();
    std::fs::write(secret.path().join("secret.txt"), "sesame").unwrap();
    std::os::unix::fs::symlink("/", house.work().join("all")).unwrap();
    let secret = lodge_ahp::uri::file(secret.path().canonicalize().unwrap().join("secret.txt"));
    let mut a = house.client("a").await;
    let directories = ["file:///".to_owned(), lodge_ahp::uri::file(house.work().join("all"))];
    for (number, directory) in (1..).zip(directories) {
        let channel = format!("lodge:/{}", uuid(number));
        let create = json!({ "channel": channel, "workingDirectories": [directory] });
        a.request("createSession", create).await.unwrap();
        assert_eq!(read(&mut a, &secret).await, Err(-32009));
        let list = json!({ "channel": ROOT, "uri": "file:///" });
        assert_eq!(a.code("resourceList", list).await, -32009);
    }
    // A project that is nowhere near is open as before.
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("plain.txt"), "plain").unwrap();
    let project = lodge_ahp::uri::file(project.path().canonicalize().unwrap());
    let create = json!({ "channel": format!("lodge:/{}", uuid(7)), "workingDirectories": [project] });
    a.request("createSession", create).await.unwrap();
    assert_eq!(read(&mut a, &format!("{project}/plain.txt")).await, Ok(json!("plain")));
}
