//! A home that an earlier build left behind, with everything that its AHP face kept in files of its own.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::{
    customizations::{named, once, servers},
    kit::*,
};

/// The files of the home, and what the build that wrote them showed its clients.
const EARLIER: &str = include_str!("../fixtures/earlier_home.json");

/// What changes with every start, or by looking.
const PASSING: [&str; 4] = ["modifiedAt", "serverTools", "customizations", "turns"];

/// Settings that the earlier build did not have.
const ADDED: [&str; 1] = ["thinkingLevel"];

fn lasting(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !PASSING.contains(&key.as_str()) && !ADDED.contains(&key.as_str()));
            map.values_mut().for_each(lasting);
        }
        Value::Array(list) => list.iter_mut().for_each(lasting),
        _ => {}
    }
}

/// Lists whose order says nothing: earlier builds listed chats as they were made, whatever order somebody chose.
fn sorted(mut list: Value) -> Value {
    for line in list.as_array_mut().into_iter().flatten() {
        if let Some(chats) = line.get_mut("chats") {
            *chats = sorted(chats.take());
        }
    }
    if let Some(list) = list.as_array_mut() {
        list.sort_by_key(|line| line["resource"].to_string());
    }
    list
}

fn assert_same(mut found: Value, mut expected: Value, what: &str) {
    lasting(&mut found);
    lasting(&mut expected);
    assert_eq!(found, expected, "{what}: {found:#} is not {expected:#}");
}

/// What an earlier build kept for web push, and the public half of its key.
fn push_file() -> (String, String) {
    let random = ring::rand::SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap();
    let subscription = json!({ "endpoint": "https://push.example/x", "keys": { "p256dh": "p", "auth": "a" } });
    let file = json!({ "key": URL_SAFE_NO_PAD.encode(made.as_ref()), "subscriptions": { "phone": subscription } });
    (file.to_string(), URL_SAFE_NO_PAD.encode(pair.public_key()))
}

#[tokio::test]
async fn everything_that_an_earlier_build_kept_is_there_and_kept_where_it_belongs() {
    let mut house = house().await;
    house.stop().await;
    let dir = house.dir.path().canonicalize().unwrap();
    let text = EARLIER.replace("@DIR@", &dir.display().to_string());
    let earlier: Value = serde_json::from_str(&text).unwrap();
    let home = dir.join("home");
    std::fs::remove_dir_all(&home).unwrap();
    for (name, text) in earlier["files"].as_object().unwrap() {
        crate::customizations::put(home.join(name), text.as_str().unwrap());
    }
    for name in ["one", "two"] {
        std::fs::create_dir_all(house.work().join(name)).unwrap();
    }
    for (name, what) in [("weaving", "weave"), ("spinning", "spin")] {
        let text = format!("---\nname: {name}\ndescription: how to {what}\n---\nround\n");
        crate::customizations::put(house.work().join(format!(".github/skills/{name}/SKILL.md")), &text);
    }
    let agent = "---\nname: knitter\ndescription: knits a jumper\n---\nYou knit.\n";
    crate::customizations::put(house.work().join(".github/agents/knitter.md"), agent);
    let described = servers(&house);
    crate::customizations::put(home.join("mcp-config.json"), &described);
    let expected = &earlier["expected"];
    let seen = 7_340_032;
    crate::customizations::put(home.join("ahp/seq"), &seen.to_string());
    let (pushed, push_key) = push_file();
    crate::customizations::put(home.join("ahp/push.json"), &pushed);
    // Once, and the same after one more start.
    for round in ["the first start", "the second start"] {
        house.start().await;
        let mut a = house.client("b").await;
        assert!(a.last_seq >= seen, "{round}: {}", a.last_seq);
        let key = a.request("lodge/pushKey", json!({})).await.unwrap();
        assert_eq!(key["key"], push_key, "{round}");
        let subscribed = house.host.push_subscriptions().all();
        assert_eq!(subscribed[0].1.endpoint, "https://push.example/x", "{round}");
        let listed = a.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
        assert_same(sorted(listed["items"].clone()), sorted(expected["list"].clone()), round);
        for line in listed["items"].as_array().unwrap() {
            let session = line["resource"].as_str().unwrap();
            let all = |state: &Value| {
                ["loom", "weaving", "knitter"]
                    .iter()
                    .all(|name| named(state, name) != Value::Null)
            };
            let state = once(&mut a, session, all).await;
            let on = |state: &Value, name: &str| {
                let thing = named(state, name);
                (thing["enabled"].clone(), thing["enablement"].clone())
            };
            for name in ["loom", "weaving", "knitter", "spinning"] {
                assert_eq!(
                    on(&state, name),
                    on(&expected[session], name),
                    "{round}: {name} in {session}"
                );
            }
            for chat in state["chats"].as_array().unwrap() {
                let chat = chat["resource"].as_str().unwrap();
                let shown = a.subscribe(chat).await["state"].clone();
                assert_same(shown, expected[chat].clone(), &format!("{round}: {chat}"));
            }
            let notes = format!("{session}/annotations");
            let remarks = a.subscribe(&notes).await["state"].clone();
            assert_same(remarks, expected[&notes].clone(), &format!("{round}: {notes}"));
            assert_same(state, expected[session].clone(), &format!("{round}: {session}"));
        }
        drop(a);
        house.stop().await;
        let left = |folder: &str| {
            let files = std::fs::read_dir(home.join(folder)).into_iter().flatten().flatten();
            let mut names: Vec<String> = files.map(|file| file.file_name().into_string().unwrap()).collect();
            names.retain(|name| name.ends_with(".jsonl") || name == "skills.json" || name.ends_with(".json"));
            names
        };
        assert_eq!(
            (left("ahp"), left("ahp/annotations")),
            (Vec::new(), Vec::new()),
            "{round}"
        );
        assert!(!home.join("ahp/seq").exists() && home.join("ahp/push.json.migrated").exists());
        assert!(!home.join("skills.json").exists() && home.join("skills.json.migrated").exists());
    }
    house.start().await;
}
