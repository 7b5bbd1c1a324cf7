//! Tool calls that a person changes before they run.

use serde_json::{Value, json};

use crate::kit::*;

fn confirm(ready: &Value, input: &str) -> Value {
    json!({
        "type": "chat/toolCallConfirmed", "turnId": ready["turnId"], "toolCallId": ready["toolCallId"], "approved": true,
        "editedToolInput": input,
    })
}

fn call_of(state: &Value, turn: usize) -> Value {
    let parts = state["turns"][turn]["responseParts"].as_array().unwrap();
    let call = parts.iter().find(|part| part["kind"] == "toolCall").unwrap();
    call["toolCall"].clone()
}

#[tokio::test]
async fn what_a_person_wrote_is_what_runs_and_what_is_recorded() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut b = house.client("b").await;
    let (_, chat) = a.session(&uuid(1)).await;
    b.subscribe(&chat).await;
    a.say(
        &chat,
        "t1",
        "call bash {\"command\":\"touch wanted\",\"description\":\"touch\"} then say done",
    )
    .await;
    let ready = b.action("chat/toolCallReady").await["action"].clone();
    assert_eq!(
        (&ready["editable"], &ready["toolInput"]),
        (&json!(true), &json!("touch wanted"))
    );
    let echo = b.accepted(&chat, confirm(&ready, "touch edited")).await;
    assert_eq!(echo["editedToolInput"], "touch edited");
    // Too late: somebody said yes already.
    a.refused(&chat, confirm(&ready, "touch third")).await;
    a.ends(&chat, "t1").await;
    assert!(house.work().join("edited").exists() && !house.work().join("wanted").exists());
    let state = a.subscribe(&chat).await["state"].clone();
    let call = call_of(&state, 0);
    assert_eq!(
        (&call["toolInput"], &call["pastTenseMessage"], &call["confirmed"]),
        (
            &json!("touch edited"),
            &json!("Ran `touch edited`"),
            &json!("user-action")
        )
    );
    // The log tells what ran, and the model is told, too.
    let mut ran = None;
    let mut read = None;
    for event in house.host.read(&uuid(1)).unwrap().events() {
        let event: Value = serde_json::from_str(event.unwrap().as_str()).unwrap();
        match event["type"].as_str().unwrap() {
            "tool.execution_start" => ran = Some(event["data"]["arguments"].clone()),
            "tool.execution_complete" => read = Some(event["data"]["result"]["content"].clone()),
            _ => {}
        }
    }
    assert_eq!(
        ran.unwrap(),
        json!({ "command": "touch edited", "description": "touch" })
    );
    assert!(read.unwrap().as_str().unwrap().contains("The user changed this call"));
    let house = house.crash().await;
    let mut c = house.client("c").await;
    assert_eq!(
        call_of(&c.subscribe(&chat).await["state"], 0)["toolInput"],
        "touch edited"
    );
}

#[tokio::test]
async fn an_edit_must_fit_the_tool_and_the_rules() {
    let (house, mut a, _, chat) = at_home().await;
    let elsewhere = house.dir.path().canonicalize().unwrap();
    let path = |name: &str| elsewhere.join(name).display().to_string();
    let arguments = json!({ "path": path("one"), "file_text": "hello" });
    a.say(&chat, "t1", &format!("call create {arguments} then say done"))
        .await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    assert!(a.refused(&chat, confirm(&ready, "not JSON")).await.contains("JSON"));
    assert!(a.refused(&chat, confirm(&ready, "[]")).await.contains("JSON object"));
    let edited = json!({ "path": path("two"), "file_text": "hello" }).to_string();
    a.accepted(&chat, confirm(&ready, &edited)).await;
    a.ends(&chat, "t1").await;
    assert_eq!(std::fs::read_to_string(elsewhere.join("two")).unwrap(), "hello");
    assert!(!elsewhere.join("one").exists());
    // What makes no sense to the tool fails like any call, and the turn goes on.
    a.say(&chat, "t2", &format!("call create {arguments} then say done"))
        .await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    a.accepted(&chat, confirm(&ready, r#"{"nonsense":true}"#)).await;
    assert_eq!(a.ends(&chat, "t2").await["type"], "chat/turnComplete");
    assert_eq!(call_of(&a.subscribe(&chat).await["state"], 1)["success"], false);
    // A no with other input is a no.
    a.say(&chat, "t3", "call bash {\"command\":\"touch three\"} then say done")
        .await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    let mut no = confirm(&ready, "touch four");
    no["approved"] = false.into();
    a.accepted(&chat, no).await;
    a.ends(&chat, "t3").await;
    assert!(!house.work().join("three").exists() && !house.work().join("four").exists());
}

#[tokio::test]
async fn what_a_person_wrote_can_be_allowed_for_the_session() {
    let (house, mut a, _, chat) = at_home().await;
    a.say(&chat, "t1", "call bash {\"command\":\"mkdir one\"} then say done")
        .await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    let mut wide = confirm(&ready, "touch two");
    wide["selectedOptionId"] = "allow-session".into();
    a.accepted(&chat, wide).await;
    a.ends(&chat, "t1").await;
    assert!(house.work().join("two").exists() && !house.work().join("one").exists());
    // What it became is allowed now, what the model wrote is not.
    std::fs::remove_file(house.work().join("two")).unwrap();
    a.turn(&chat, "t2", "call bash {\"command\":\"touch two\"} then say done")
        .await;
    assert!(house.work().join("two").exists());
    a.drain().await;
    a.say(&chat, "t3", "call bash {\"command\":\"mkdir one\"} then say done")
        .await;
    let asked = a.until(|message| {
        let action = &message["params"]["action"];
        action["type"] == "chat/toolCallReady" && action.get("confirmed").is_none()
    });
    let asked = asked.await["params"]["action"].clone();
    assert_eq!(asked["toolInput"], "mkdir one");
}
