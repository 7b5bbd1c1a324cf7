//! Watches over the wire.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use crate::kit::{Client, House, ROOT, house, house_with, house_with_policy};

async fn create(client: &mut Client, house: &House, more: Value) -> Result<String, Value> {
    let mut params = json!({ "channel": ROOT, "uri": lodge_ahp::uri::file(house.work()) });
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let made = client.request("createResourceWatch", params).await?;
    Ok(made["channel"].as_str().unwrap().to_owned())
}

/// What is told until this file is told of: every path with its last change.
async fn until(client: &mut Client, house: &House, channel: &str, last: &str) -> BTreeMap<String, String> {
    until_below(client, &house.work(), channel, last).await
}

async fn until_below(client: &mut Client, root: &Path, channel: &str, last: &str) -> BTreeMap<String, String> {
    let root = format!("{}/", lodge_ahp::uri::file(root));
    let mut told = BTreeMap::new();
    while !told.contains_key(last) {
        let envelope = client.action("resourceWatch/changed").await;
        assert_eq!(envelope["channel"], channel);
        let items = envelope["action"]["changes"]["items"].as_array().unwrap().clone();
        assert!(!items.is_empty());
        for item in items {
            let name = item["uri"].as_str().unwrap().strip_prefix(&root).unwrap().to_owned();
            told.insert(name, item["type"].as_str().unwrap().to_owned());
        }
    }
    told
}

/// 88: a second client sees what the first one does, and the agent, and a shell.
#[tokio::test]
async fn every_subscriber_sees_changes_as_they_happen() {
    let house = house().await;
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    let excludes = json!({ "items": ["**/.git/**"] });
    let channel = create(&mut a, &house, json!({ "recursive": true, "excludes": excludes }))
        .await
        .unwrap();
    assert!(channel.starts_with("ahp-resource-watch:/"));
    let root = lodge_ahp::uri::file(house.work());
    for client in [&mut a, &mut b] {
        let state = client.subscribe(&channel).await["state"].clone();
        assert_eq!(state, json!({ "root": root, "recursive": true, "excludes": excludes }));
    }
    let (_, chat) = a.session(&crate::kit::uuid(1)).await;
    let uri = |name: &str| lodge_ahp::uri::file(house.work().join(name));
    a.request("resourceMkdir", json!({ "channel": ROOT, "uri": uri("d/e") }))
        .await
        .unwrap();
    let write = json!({ "channel": ROOT, "uri": uri("d/e/f"), "data": "x", "encoding": "utf-8" });
    a.request("resourceWrite", write).await.unwrap();
    fs::create_dir_all(house.work().join(".git/objects")).unwrap();
    fs::write(house.work().join(".git/objects/x"), "").unwrap();
    a.turn(&chat, "t1", "say hello").await;
    fs::write(house.work().join("last one"), "").unwrap();
    for client in [&mut a, &mut b] {
        let told = until(client, &house, &channel, "last%20one").await;
        let paths: Vec<&str> = told
            .keys()
            .map(String::as_str)
            .filter(|path| !path.starts_with(".git"))
            .collect();
        assert_eq!(paths, ["d", "d/e", "d/e/f", "last%20one"]);
        assert!(told.keys().all(|path| !path.starts_with(".git/")), "{told:?}");
        assert!(told.values().all(|change| change == "added"), "{told:?}");
    }
    assert!(
        a.refused(
            &channel,
            json!({ "type": "resourceWatch/changed", "changes": { "items": [] } })
        )
        .await
        .contains("clients cannot dispatch")
    );
}

#[tokio::test]
async fn a_watch_ends_with_its_last_subscriber() {
    let house = house().await;
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    let channel = create(&mut a, &house, json!({})).await.unwrap();
    a.subscribe(&channel).await;
    b.subscribe(&channel).await;
    a.notify("unsubscribe", json!({ "channel": channel })).await;
    // Nobody answers a notification; when this is answered, it was heard.
    a.request("ping", json!({})).await.unwrap();
    fs::write(house.work().join("file"), "").unwrap();
    until(&mut b, &house, &channel, "file").await;
    assert!(a.drain().await.is_empty());
    b.notify("unsubscribe", json!({ "channel": channel })).await;
    assert_eq!(b.code("subscribe", json!({ "channel": channel })).await, -32001);
    // Or with its connection.
    let channel = create(&mut a, &house, json!({})).await.unwrap();
    a.subscribe(&channel).await;
    drop(a);
    let mut tries = 0;
    while b.request("subscribe", json!({ "channel": channel })).await.is_ok() {
        b.notify("unsubscribe", json!({ "channel": channel })).await;
        tries += 1;
        assert!(tries < 1000);
    }
}

/// A session may work in a directory that the host's home is in. What happens in the home is told to nobody.
#[tokio::test]
async fn what_happens_in_the_hosts_home_is_told_to_nobody() {
    let house = house_with_policy(lodge_ahp::Policy::Allow).await;
    let top = house.dir.path().canonicalize().unwrap();
    let mut client = house.client("a").await;
    let session = format!("lodge:/{}", crate::kit::uuid(1));
    let there = lodge_ahp::uri::file(&top);
    let create = json!({ "channel": session, "workingDirectories": [there] });
    client.request("createSession", create).await.unwrap();
    // A directory that holds the home takes a grant.
    let grant = json!({ "channel": ROOT, "uri": there, "read": true });
    client.request("resourceRequest", grant).await.unwrap();
    let watch = json!({ "channel": ROOT, "uri": there, "recursive": true });
    let made = client.request("createResourceWatch", watch).await.unwrap();
    let channel = made["channel"].as_str().unwrap().to_owned();
    client.subscribe(&channel).await;
    let chat = client.subscribe(&session).await["state"]["defaultChat"].clone();
    let chat = chat.as_str().unwrap().to_owned();
    client.subscribe(&chat).await;
    let home = top.join("home");
    // The host writes there itself, and so may others: in what was there before, and in what comes.
    client.turn(&chat, "t1", "say hello").await;
    fs::write(home.join("secret"), "sesame").unwrap();
    fs::create_dir_all(home.join("new/deep")).unwrap();
    fs::write(home.join("new/deep/secret"), "sesame").unwrap();
    fs::write(top.join("taken in"), "").unwrap();
    fs::rename(top.join("taken in"), home.join("taken in")).unwrap();
    fs::write(top.join("last"), "").unwrap();
    let told = until_below(&mut client, &top, &channel, "last").await;
    assert!(told.keys().all(|path| !path.starts_with("home")), "{told:?}");
}

#[tokio::test]
async fn a_watch_needs_access_sense_and_room() {
    let limits = lodge_ahp::Limits {
        watches: 2,
        ..lodge_ahp::Limits::default()
    };
    let house = house_with(limits).await;
    let mut a = house.client("a").await;
    let mut code = async |more: Value| {
        create(&mut a, &house, more)
            .await
            .map_err(|error| error["code"].as_i64().unwrap())
    };
    assert_eq!(code(json!({ "uri": "file:///etc" })).await, Err(-32009));
    assert_eq!(
        code(json!({ "uri": lodge_ahp::uri::file(house.work().join("none")) })).await,
        Err(-32008)
    );
    assert_eq!(code(json!({ "excludes": { "items": ["[a"] } })).await, Err(-32602));
    assert_eq!(code(json!({ "uri": 7 })).await, Err(-32602));
    code(json!({})).await.unwrap();
    code(json!({})).await.unwrap();
    assert_eq!(code(json!({})).await, Err(-32000));
    // The seed's dialect has no such thing.
    let mut old = house.client_of("old", "0.1.0").await;
    assert_eq!(old.code("createResourceWatch", json!({})).await, -32601);
}

/// More than can be told is told as one change of the root: look again.
#[tokio::test]
async fn a_flood_is_told_as_one_change_of_the_root() {
    let house = house().await;
    let mut a = house.client("a").await;
    let channel = create(&mut a, &house, json!({ "recursive": true })).await.unwrap();
    a.subscribe(&channel).await;
    let many = house.dir.path().join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..3000 {
        fs::write(many.join(number.to_string()), "").unwrap();
    }
    fs::rename(&many, house.work().join("many")).unwrap();
    let root = json!({ "uri": lodge_ahp::uri::file(house.work()), "type": "updated" });
    a.until(|message| message["params"]["action"]["changes"]["items"][0] == root)
        .await;
    fs::remove_file(house.work().join("many/777")).unwrap();
    let gone = json!({ "uri": lodge_ahp::uri::file(house.work().join("many/777")), "type": "deleted" });
    a.until(|message| {
        message["params"]["action"]["changes"]["items"]
            .as_array()
            .is_some_and(|items| items.contains(&gone))
    })
    .await;
}
