//! Devices on this wire: the same roles, held in every method.

use std::sync::Arc;

use lodge_copilot::ServerOptions;
use lodge_door::{Door, Role};
use serde_json::{Value, json};

use crate::client::{Client, House};

const DOCS: &str = include_str!("../../../../docs/sdk.md");
const TOKEN: &str = "the-owner-s-token";

fn options(door: &Arc<Door>) -> ServerOptions {
    ServerOptions {
        door: Some(door.clone()),
        ..ServerOptions::default()
    }
}

/// What a device of this role shows, and its id.
fn paired(door: &Door, role: Role) -> (String, String) {
    let ticket = door.ticket(role, None).unwrap();
    let device = door.pair(&ticket.text, None).unwrap();
    (format!("{}.{}", device.cookie, device.key), device.device.id)
}

async fn call(client: &mut Client, method: &str, params: Value) -> Value {
    let id = client.ask(method, params).await;
    client.answer(id).await
}

fn is_refused(answer: &Value) -> bool {
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    message.contains("needs the role")
}

/// Every method that is served: the page is made from the table.
fn methods() -> Vec<&'static str> {
    let rows = DOCS
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let methods: Vec<_> = rows.collect();
    assert!(methods.len() > 150, "{}", methods.len());
    methods
}

#[tokio::test]
async fn every_method_is_held_to_the_role_of_the_device() {
    let house = House::new();
    let door = Arc::new(Door::with_token(TOKEN));
    let reading = [
        "connect",
        "models.list",
        "ping",
        "session.getLastId",
        "session.getMetadata",
        "session.list",
        "sessions.getMetadata",
        "sessions.list",
        "sessions.readPersistedEvents",
        "status.get",
        "tools.list",
    ];
    let answering = [
        "session.permissions.handlePendingPermissionRequest",
        "session.ui.handlePendingAutoModeSwitch",
        "session.ui.handlePendingElicitation",
        "session.ui.handlePendingExitPlanMode",
        "session.ui.handlePendingUserInput",
    ];
    for role in [Role::View, Role::Approve] {
        let mut client = house.client_with(options(&door), 1 << 20);
        let hello = call(&mut client, "connect", json!({ "token": paired(&door, role).0 })).await;
        assert_eq!(hello["result"]["ok"], true, "{hello}");
        for method in methods() {
            let allowed = reading.contains(&method) || (role == Role::Approve && answering.contains(&method));
            let answer = call(&mut client, method, json!({})).await;
            assert_eq!(is_refused(&answer), !allowed, "{role} calls {method}: {answer}");
        }
    }
    for token in [TOKEN.to_owned(), paired(&door, Role::Full).0] {
        let mut client = house.client_with(options(&door), 1 << 20);
        call(&mut client, "connect", json!({ "token": token })).await;
        let answer = call(&mut client, "session.create", json!({})).await;
        assert!(answer["result"]["sessionId"].is_string(), "{answer}");
    }
}

#[tokio::test]
async fn who_was_not_let_in_hears_nothing_and_cannot_change_who_they_are() {
    let house = House::new();
    let door = Arc::new(Door::with_token(TOKEN));
    let mut stranger = house.client_with(options(&door), 1 << 20);
    for token in [json!(null), json!(""), json!("wrong"), json!("a.b"), json!("a.b.c")] {
        let answer = call(&mut stranger, "connect", json!({ "token": token })).await;
        assert_eq!(answer["error"]["message"], "AUTHENTICATION_FAILED", "{token}");
    }
    let answer = call(&mut stranger, "session.list", json!({})).await;
    assert_eq!(answer["error"]["message"], "AUTHENTICATION_FAILED");
    // A device that shows the owner's token later stays what it came as.
    let mut device = house.client_with(options(&door), 1 << 20);
    call(&mut device, "connect", json!({ "token": paired(&door, Role::View).0 })).await;
    call(&mut device, "connect", json!({ "token": TOKEN })).await;
    assert!(is_refused(&call(&mut device, "session.create", json!({})).await));
}

#[tokio::test]
async fn sessions_are_told_to_those_who_were_let_in() {
    let house = House::new();
    let door = Arc::new(Door::with_token(TOKEN));
    let mut stranger = house.client_with(options(&door), 1 << 20);
    let mut known = house.client_with(options(&door), 1 << 20);
    call(&mut known, "connect", json!({ "token": TOKEN })).await;
    // Answered, so it is connected when the session is made.
    call(&mut stranger, "ping", json!({})).await;
    let made = call(&mut known, "session.create", json!({ "sessionId": "told" })).await;
    assert_eq!(made["result"]["sessionId"], "told", "{made}");
    loop {
        let message = known.next().await;
        if message["method"] == "session.lifecycle" {
            break;
        }
    }
    // What comes next is the answer, and nothing came before it.
    stranger.ask("ping", json!({})).await;
    let next = stranger.next().await;
    assert_eq!(next["error"]["message"], "AUTHENTICATION_FAILED", "{next}");
}

#[tokio::test]
async fn a_revoked_device_is_cut_off() {
    let house = House::new();
    let door = Arc::new(Door::with_token(TOKEN));
    let (token, id) = paired(&door, Role::Full);
    let mut device = house.client_with(options(&door), 1 << 20);
    call(&mut device, "connect", json!({ "token": token })).await;
    assert!(door.revoke(&id).unwrap());
    while device.try_next().await.is_some() {}
}

#[test]
fn an_address_that_others_reach_needs_a_token_and_somebody_who_accepts_plain_text() {
    let door = Arc::new(Door::with_token(TOKEN));
    for (address, token, accepted, ok) in [
        ("127.0.0.1", false, false, true),
        ("::1", false, false, true),
        ("0.0.0.0", false, false, false),
        ("0.0.0.0", true, false, false),
        ("0.0.0.0", false, true, false),
        ("0.0.0.0", true, true, true),
        ("192.0.2.1", true, false, false),
        ("::", true, false, false),
    ] {
        let options = ServerOptions {
            door: token.then(|| door.clone()),
            insecure_plaintext: accepted,
            ..ServerOptions::default()
        };
        let checked = options.check_address(address.parse().unwrap());
        assert_eq!(checked.is_ok(), ok, "{address} {token} {accepted}");
        if let Err(error) = checked {
            let text = error.to_string();
            assert!(
                text.contains("--insecure-plaintext") && text.contains(address),
                "{text}"
            );
        }
    }
}
