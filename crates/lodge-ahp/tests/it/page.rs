//! What the page needs beyond the protocol: rules that outlive a session, search, what the agent has noted to do, how full the
//! model's window is.

use serde_json::{Value, json};

use crate::kit::*;

async fn asked(a: &mut Client) -> Value {
    let asked = a.until(|message| {
        let action = &message["params"]["action"];
        action["type"] == "chat/toolCallReady" && action.get("confirmed").is_none()
    });
    asked.await["params"]["action"].clone()
}

fn confirm(ready: &Value, option: &str) -> Value {
    json!({
        "type": "chat/toolCallConfirmed", "turnId": ready["turnId"], "toolCallId": ready["toolCallId"], "approved": true,
        "selectedOptionId": option,
    })
}

#[tokio::test]
async fn what_is_always_allowed_in_a_project_is_not_asked_about_in_its_next_session() {
    let (house, mut a, _, chat) = at_home().await;
    a.say(&chat, "t1", "call bash {\"command\":\"mkdir one\"} then say done")
        .await;
    let ready = asked(&mut a).await;
    let options: Vec<&str> = (ready["options"].as_array().unwrap().iter())
        .filter_map(|option| option["id"].as_str())
        .collect();
    assert_eq!(options, ["allow-once", "allow-session", "allow-always", "deny"]);
    // What somebody made of it is not what was asked.
    let mut edited = confirm(&ready, "allow-always");
    edited["editedToolInput"] = "mkdir two".into();
    let refused = a.refused(&chat, edited).await;
    assert!(refused.contains("not always"), "{refused}");
    a.accepted(&chat, confirm(&ready, "allow-always")).await;
    a.ends(&chat, "t1").await;
    let (_, other) = a.session(&uuid(77)).await;
    std::fs::remove_dir(house.work().join("one")).unwrap();
    a.turn(&other, "u1", "call bash {\"command\":\"mkdir one\"} then say done")
        .await;
    assert!(house.work().join("one").exists());
    a.say(&other, "u2", "call bash {\"command\":\"mkdir three\"} then say done")
        .await;
    assert_eq!(asked(&mut a).await["toolInput"], "mkdir three");
}

#[tokio::test]
async fn messages_are_found_in_all_sessions() {
    let (_house, mut a, session, chat) = at_home().await;
    a.turn(&chat, "t1", "say The quick brown fox").await;
    let (_, other) = a.session(&uuid(78)).await;
    a.turn(&other, "u1", "say a lazy dog").await;
    let found = a.request("lodge/search", json!({ "text": "quick fo" })).await.unwrap();
    let hits = found["hits"].as_array().unwrap();
    let roles: Vec<&Value> = hits.iter().map(|hit| &hit["role"]).collect();
    assert!(
        roles.contains(&&json!("user")) && roles.contains(&&json!("assistant")),
        "{found}"
    );
    for hit in hits {
        assert_eq!(hit["session"], session, "{found}");
        let units: Vec<u16> = hit["snippet"].as_str().unwrap().encode_utf16().collect();
        let [from, to] = [0, 1].map(|at| hit["matches"][0][at].as_u64().unwrap() as usize);
        assert_eq!(String::from_utf16(&units[from..to]).unwrap(), "quick");
    }
    let one = json!({ "text": "quick", "limit": 1 });
    assert_eq!(
        a.request("lodge/search", one).await.unwrap()["hits"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    for nothing in ["", "  ", "\"", "cat", "*", "NEAR("] {
        let found = a.request("lodge/search", json!({ "text": nothing })).await.unwrap();
        assert_eq!(found["hits"], json!([]), "{nothing:?}");
    }
    assert_eq!(a.code("lodge/search", json!({})).await, -32602);
    assert_eq!(
        a.code("lodge/search", json!({ "text": "x".repeat(1001) })).await,
        -32602
    );
}

#[tokio::test]
async fn what_the_agent_has_noted_to_do_can_be_read() {
    let (_house, mut a, session, chat) = at_home().await;
    let none = a.request("lodge/todos", json!({ "channel": session })).await.unwrap();
    assert_eq!(none["todos"], json!([]));
    let sql = "INSERT INTO todos (id, title, status) VALUES ('a', 'Look', 'done'), ('b', 'Leap', 'pending')";
    a.turn(
        &chat,
        "t1",
        &format!(
            "call sql {} then say done",
            json!({ "query": sql, "description": "plan" })
        ),
    )
    .await;
    for channel in [&session, &chat] {
        let told = a.request("lodge/todos", json!({ "channel": channel })).await.unwrap();
        let told: Vec<(&str, &str)> = (told["todos"].as_array().unwrap().iter())
            .map(|todo| (todo["title"].as_str().unwrap(), todo["status"].as_str().unwrap()))
            .collect();
        assert_eq!(told, [("Look", "done"), ("Leap", "pending")]);
    }
    assert_eq!(
        a.code("lodge/todos", json!({ "channel": "lodge:/nothing" })).await,
        -32001
    );
}

#[tokio::test]
async fn usage_says_how_full_the_window_is_and_not_only_what_the_turn_took() {
    let (_house, mut a, _, chat) = at_home().await;
    let one = a.turn(&chat, "t1", "report usage 1000 in 50 out").await["turns"][0]["usage"].clone();
    assert_eq!(one["_meta"]["contextTokens"], 1050, "{one}");
    let two = "call bash {\"command\":\"echo x\"} then say done";
    let two = a.turn(&chat, "t2", two).await["turns"][1]["usage"].clone();
    let context = two["_meta"]["contextTokens"].as_i64().unwrap();
    assert!(context > 0 && context < two["inputTokens"].as_i64().unwrap(), "{two}");
}

#[tokio::test]
async fn signing_in_to_a_server_that_is_not_there_is_refused() {
    let (_house, mut a, session, _) = at_home().await;
    let wanted = json!({ "channel": session, "server": "nothing" });
    assert_eq!(a.code("lodge/signIn", wanted).await, -32602);
}
