//! Devices: paired over HTTP, let in with a role, held to it in every method and action, and thrown out.

use lodge_ahp::{Limits, methods::METHODS};
use lodge_door::Role;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_tungstenite::tungstenite;

use crate::kit::{Client, House, ROOT, at_home, house, house_with};

const JSON: &str = "Content-Type: application/json";

/// What a browser has after pairing.
struct Browser {
    id: String,
    /// `name=value`
    cookie: String,
    key: String,
}

struct Answer {
    status: u16,
    head: String,
    body: Value,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut named = lines.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value)
    }
}

fn address(house: &House) -> String {
    house.server.as_ref().unwrap().local_addr().to_string()
}

/// One request over HTTP, with these lines in its head.
async fn http(house: &House, request: &str, lines: &[&str], body: &str) -> Answer {
    let mut head = format!(
        "{request} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    if !lines.iter().any(|line| line.starts_with("Host:")) {
        head += &format!("Host: {}\r\n", address(house));
    }
    for line in lines {
        head += &format!("{line}\r\n");
    }
    let mut stream = TcpStream::connect(address(house)).await.unwrap();
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: serde_json::from_str(body).unwrap_or_default(),
    }
}

async fn ticket(owner: &mut Client, role: &str) -> String {
    let made = owner
        .request("lodge/createTicket", json!({ "role": role }))
        .await
        .unwrap();
    made["ticket"].as_str().unwrap().to_owned()
}

async fn pair(house: &House, owner: &mut Client, role: &str) -> Browser {
    let body = json!({ "ticket": ticket(owner, role).await, "name": "Phone" }).to_string();
    let origin = format!("Origin: http://{}", address(house));
    let answer = http(house, "POST /pair", &[JSON, &origin], &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.body["device"]["role"], role);
    let set = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(set.contains(part), "{set}");
    }
    // Browsers refuse such a cookie without TLS.
    assert!(!set.contains("Secure"), "{set}");
    Browser {
        id: answer.body["device"]["id"].as_str().unwrap().to_owned(),
        cookie: set.split(';').next().unwrap().to_owned(),
        key: answer.body["key"].as_str().unwrap().to_owned(),
    }
}

/// Opens a WebSocket with these headers, as a page does.
async fn open(house: &House, query: &str, headers: &[(&'static str, &str)]) -> Result<Client, u16> {
    let mut request =
        tungstenite::ClientRequestBuilder::new(format!("ws://{}/?{query}", address(house)).parse().unwrap());
    for (name, value) in headers {
        request = request.with_header(*name, *value);
    }
    match Client::connect_with(request).await {
        Ok(client) => Ok(client),
        Err(tungstenite::Error::Http(answer)) => Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

impl Browser {
    async fn connect(&self, house: &House) -> Result<Client, u16> {
        let origin = format!("http://{}", address(house));
        let headers = [("origin", origin.as_str()), ("cookie", &self.cookie)];
        open(house, &format!("key={}", self.key), &headers).await
    }

    /// A client on this device.
    async fn client(&self, house: &House, name: &str) -> Client {
        let mut client = self.connect(house).await.unwrap();
        client.request("initialize", hello(name)).await.unwrap();
        client.name = name.to_owned();
        client
    }
}

fn hello(name: &str) -> Value {
    json!({ "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": name, "initialSubscriptions": [ROOT] })
}

const ROLES: [Role; 3] = [Role::View, Role::Approve, Role::Full];

#[tokio::test]
async fn every_method_is_held_to_the_role_of_the_device() {
    let house = house().await;
    let mut owner = house.client("owner").await;
    for role in ROLES {
        let device = pair(&house, &mut owner, role.name()).await;
        let mut client = device.client(&house, role.name()).await;
        for method in METHODS {
            let answer = client.request(method.name, json!({})).await;
            let refused = answer.is_err_and(|error| {
                error["code"] == -32009 && error["message"].as_str().unwrap().contains("needs the role")
            });
            assert_eq!(refused, role < method.role, "{role} calls {}", method.name);
        }
    }
    for method in METHODS {
        let answer = owner.request(method.name, json!({})).await;
        let refused = answer.is_err_and(|error| error["message"].as_str().unwrap().contains("needs the role"));
        assert!(!refused, "the owner calls {}", method.name);
    }
}

/// Every action of the protocol, those that only the host dispatches included.
const ACTIONS: &str = "root/configChanged root/agentsChanged session/titleChanged session/isReadChanged \
    session/isArchivedChanged session/activeClientSet session/activeClientRemoved session/workingDirectorySet \
    session/workingDirectoryRemoved session/workingDirectoryReplaced session/customizationToggled \
    session/mcpServerStartRequested session/mcpServerStopRequested session/configChanged session/metaChanged \
    chat/turnStarted chat/turnCancelled chat/turnResume chat/truncated chat/pendingMessageSet chat/pendingMessageRemoved \
    chat/queuedMessagesReordered chat/draftChanged chat/isReadChanged chat/isArchivedChanged chat/toolCallConfirmed \
    chat/toolCallComplete chat/toolCallResultConfirmed chat/toolCallContentChanged chat/inputAnswerChanged \
    chat/inputCompleted chat/workingDirectorySet chat/delta chat/error changeset/filesReviewChanged annotations/set \
    annotations/removed terminal/input terminal/resized terminal/claimed automation/createRequested automation/removed \
    something/new";
const ANSWERS: [&str; 4] = [
    "chat/toolCallConfirmed",
    "chat/toolCallResultConfirmed",
    "chat/inputAnswerChanged",
    "chat/inputCompleted",
];

#[tokio::test]
async fn every_action_is_held_to_the_role_of_the_device() {
    let (house, mut owner, _, chat) = at_home().await;
    for role in ROLES {
        let device = pair(&house, &mut owner, role.name()).await;
        let mut client = device.client(&house, role.name()).await;
        client.subscribe(&chat).await;
        for kind in ACTIONS.split_whitespace() {
            let needed = if ANSWERS.contains(&kind) {
                Role::Approve
            } else {
                Role::Full
            };
            let seq = client.dispatch(&chat, json!({ "type": kind })).await;
            let verdict = client.verdict(seq).await;
            let reason = verdict["rejectionReason"].as_str().unwrap_or_default();
            assert_eq!(
                reason.contains("needs the role"),
                role < needed,
                "{role} dispatches {kind}: {verdict}"
            );
        }
    }
}

#[tokio::test]
async fn an_approving_device_approves_what_was_asked_and_nothing_of_its_own() {
    let (house, mut owner, _, chat) = at_home().await;
    let device = pair(&house, &mut owner, "approve-only").await;
    let mut phone = device.client(&house, "phone").await;
    phone.subscribe(&chat).await;
    owner
        .say(&chat, "t1", "call bash {\"command\":\"echo hi > made\"} then say done")
        .await;
    let ready = phone.action("chat/toolCallReady").await;
    let call = ready["action"]["toolCallId"].clone();
    let yes = json!({
        "type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": call, "approved": true,
        "confirmed": "user-action",
    });
    let mut edited = yes.clone();
    edited["editedToolInput"] = json!("{\"command\":\"echo mine > made\"}");
    let reason = phone.refused(&chat, edited).await;
    assert!(reason.contains("needs the role full"), "{reason}");
    phone.accepted(&chat, yes).await;
    owner.action("chat/turnComplete").await;
    assert_eq!(std::fs::read_to_string(house.work().join("made")).unwrap(), "hi\n");
}

#[tokio::test]
async fn a_ticket_makes_one_device_and_only_for_this_host_s_own_page() {
    let house = house().await;
    let mut owner = house.client("owner").await;
    let ticket = ticket(&mut owner, "full").await;
    let body = json!({ "ticket": ticket }).to_string();
    let own = format!("Origin: http://{}", address(&house));
    let long = format!("{{\"ticket\":\"{}\"}}", "x".repeat(5000));
    for (lines, body, status, error) in [
        (
            &[JSON, "Origin: https://evil.example"][..],
            body.as_str(),
            403,
            "foreign-origin",
        ),
        (&[JSON, "Origin: null"], &body, 403, "foreign-origin"),
        (&[JSON, "Host: evil.example"], &body, 403, "foreign-host"),
        (&[JSON, &own, "Origin: https://evil.example"], &body, 400, "bad-request"),
        (
            &[JSON, "Host: localhost", "Host: evil.example"],
            &body,
            400,
            "bad-request",
        ),
        (&["Content-Type: text/plain"], &body, 415, "bad-request"),
        (&[JSON], "{", 400, "bad-request"),
        (&[JSON], "{\"ticket\":\"nonsense\"}", 403, "ticket"),
        (&[JSON], "{\"ticket\":\"\"}", 403, "ticket"),
        (&[JSON], &long, 413, "too-large"),
    ] {
        let answer = http(&house, "POST /pair", lines, body).await;
        // The server itself refuses a second Host before anybody here sees it.
        assert_eq!(answer.status, status, "{lines:?} {body:.40} {}", answer.body);
        if !answer.body.is_null() {
            assert_eq!(answer.body["error"], error, "{lines:?}");
        }
        assert_eq!(answer.header("set-cookie"), None);
    }
    assert_eq!(http(&house, "POST /pair", &[JSON, &own], &body).await.status, 200);
    let again = http(&house, "POST /pair", &[JSON, &own], &body).await;
    assert_eq!((again.status, &again.body["error"]), (403, &json!("ticket")));
    let mut last = 0;
    for _ in 0..25 {
        last = http(&house, "POST /pair", &[JSON], "{\"ticket\":\"guess\"}")
            .await
            .status;
    }
    assert_eq!(last, 429);
    let devices = owner.request("lodge/listDevices", json!({})).await.unwrap();
    assert_eq!(devices["devices"].as_array().unwrap().len(), 1, "{devices}");
}

#[tokio::test]
async fn a_browser_comes_in_with_cookie_key_and_origin_together() {
    let house = house().await;
    let mut owner = house.client("owner").await;
    let device = pair(&house, &mut owner, "view-only").await;
    let own = format!("http://{}", address(&house));
    let (origin, cookie) = (("origin", own.as_str()), ("cookie", device.cookie.as_str()));
    let key = format!("key={}", device.key);
    let elsewhere = ("origin", "http://127.0.0.1:3000");
    for (query, headers, expected) in [
        (key.as_str(), &[origin, cookie][..], None),
        (&key, &[cookie], Some(403)),
        (&key, &[origin], Some(403)),
        ("", &[origin, cookie], Some(403)),
        ("key=wrong", &[origin, cookie], Some(403)),
        (&key, &[elsewhere, cookie], Some(403)),
        (&key, &[("origin", "https://evil.example"), cookie], Some(403)),
        (&key, &[("origin", "null"), cookie], Some(403)),
        (&key, &[origin, elsewhere, cookie], Some(400)),
        (&key, &[origin, cookie, cookie], Some(400)),
        ("key=a&key=b", &[origin, cookie], Some(400)),
    ] {
        assert_eq!(
            open(&house, query, headers).await.err(),
            expected,
            "{query} {headers:?}"
        );
    }
    let bearer = format!("Bearer {}.{}", device.cookie.split_once('=').unwrap().1, device.key);
    assert!(open(&house, "", &[("authorization", &bearer)]).await.is_ok());
}

#[tokio::test]
async fn a_device_learns_who_it_is_and_can_leave() {
    let house = house().await;
    let mut owner = house.client("owner").await;
    let device = pair(&house, &mut owner, "approve-only").await;
    let mut socket = device.client(&house, "phone").await;
    let cookie = format!("Cookie: {}", device.cookie);
    let key = format!("X-Lodge-Key: {}", device.key);
    let origin = format!("Origin: http://{}", address(&house));
    let known = http(&house, "GET /device", &[&cookie, &key], "").await;
    assert_eq!((known.status, &known.body["role"]), (200, &json!("approve-only")));
    assert_eq!(known.body["name"], "Phone");
    for lines in [&[cookie.as_str()][..], &[&key], &[&cookie, "X-Lodge-Key: wrong"]] {
        let unknown = http(&house, "GET /device", lines, "").await;
        assert_eq!(
            (unknown.status, &unknown.body["error"]),
            (401, &json!("not-paired")),
            "{lines:?}"
        );
    }
    assert_eq!(http(&house, "POST /unpair", &[&cookie, &key], "").await.status, 403);
    let gone = http(&house, "POST /unpair", &[&cookie, &key, &origin], "").await;
    assert_eq!(gone.status, 204);
    assert!(gone.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(socket.close_code().await, Some(4401));
    assert_eq!(http(&house, "GET /device", &[&cookie, &key], "").await.status, 401);
}

#[tokio::test]
async fn a_revoked_device_is_cut_off_at_once_and_does_not_come_back() {
    let house = house().await;
    let mut owner = house.client("owner").await;
    let device = pair(&house, &mut owner, "full").await;
    let other = pair(&house, &mut owner, "full").await;
    let mut phone = device.client(&house, "phone").await;
    let mut tablet = other.client(&house, "tablet").await;
    owner
        .request("lodge/revokeDevice", json!({ "id": device.id }))
        .await
        .unwrap();
    assert_eq!(phone.close_code().await, Some(4401));
    assert_eq!(device.connect(&house).await.err(), Some(403));
    assert_eq!(
        owner.code("lodge/revokeDevice", json!({ "id": device.id })).await,
        -32008
    );
    tablet
        .request("listSessions", json!({ "channel": ROOT }))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_device_cannot_come_as_a_client_of_somebody_else() {
    let house = house().await;
    let mut owner = house.client("the-editor").await;
    let device = pair(&house, &mut owner, "full").await;
    let mut thief = device.connect(&house).await.unwrap();
    assert_eq!(thief.code("initialize", hello("the-editor")).await, -32009);
    let back = json!({ "channel": ROOT, "clientId": "the-editor", "lastSeenServerSeq": 0, "subscriptions": [ROOT] });
    assert_eq!(thief.code("reconnect", back).await, -32009);
    thief.request("initialize", hello("my-own")).await.unwrap();
    // It may come back as itself, and the owner as anybody.
    let mut again = device.connect(&house).await.unwrap();
    let back = json!({ "channel": ROOT, "clientId": "my-own", "lastSeenServerSeq": 0, "subscriptions": [ROOT] });
    again.request("reconnect", back).await.unwrap();
    house.client("my-own").await;
}

/// Who may only look on has nothing large to say.
#[tokio::test]
async fn who_writes_no_files_sends_no_large_messages() {
    let house = house_with(Limits {
        frame_bytes: 1 << 20,
        ..Limits::default()
    })
    .await;
    let mut owner = house.client("owner").await;
    let write = json!({ "channel": ROOT, "uri": "file:///x", "data": "x".repeat(2 << 20), "encoding": "utf-8" });
    for (role, expected) in [("view-only", None), ("full", Some(-32009))] {
        let mut client = pair(&house, &mut owner, role).await.connect(&house).await.unwrap();
        let hello = json!({ "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": role });
        client.request("initialize", hello).await.unwrap();
        match expected {
            Some(code) => assert_eq!(client.code("resourceWrite", write.clone()).await, code),
            None => {
                client.start("resourceWrite", write.clone()).await;
                assert_eq!(client.close_code().await, Some(1009));
            }
        }
    }
}
