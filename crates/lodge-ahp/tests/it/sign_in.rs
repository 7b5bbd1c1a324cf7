//! Signing in to MCP servers: before anything is called, and in the middle of a call.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Reply};

use crate::{
    customizations::{asked, named, once, put},
    kit::*,
    mirror::{Mirror, normal},
};

/// An MCP server over HTTP that wants a token.
#[derive(Clone)]
struct Vault {
    at: String,
    door: Arc<Mutex<Door>>,
}

struct Door {
    /// The token that it takes.
    good: &'static str,
    /// The one that it takes for calls, where that is another.
    wider: Option<&'static str>,
    /// How often it was opened.
    opened: usize,
    /// Where it says what it is, and what it says there.
    metadata: (&'static str, String),
    /// Whether it says where that is.
    points: bool,
}

fn told(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

impl Vault {
    async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        let metadata = json!({ "resource": format!("{at}/mcp"), "authorization_servers": [format!("{at}/login")] });
        let vault = Self {
            at,
            door: Arc::new(Mutex::new(Door {
                good: "good",
                wider: None,
                opened: 0,
                metadata: ("/meta", metadata.to_string()),
                points: true,
            })),
        };
        let app = Router::new()
            .route("/mcp", post(Self::mcp))
            .fallback(get(Self::metadata))
            .with_state(vault.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        vault
    }

    /// The door, to change how it is guarded.
    fn door(&self) -> std::sync::MutexGuard<'_, Door> {
        self.door.lock().unwrap()
    }

    async fn metadata(State(vault): State<Self>, uri: axum::http::Uri) -> Response {
        let (place, text) = vault.door().metadata.clone();
        if uri.path() == place {
            text.into_response()
        } else {
            StatusCode::NOT_FOUND.into_response()
        }
    }

    async fn mcp(State(vault): State<Self>, headers: HeaderMap, body: String) -> Response {
        let mut door = vault.door();
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let shown = shown.and_then(|shown| shown.strip_prefix("Bearer "));
        let asked: Value = serde_json::from_str(&body).unwrap();
        let method = asked["method"].as_str().unwrap_or_default();
        let points = if door.points {
            format!("resource_metadata=\"{}/meta\", ", vault.at)
        } else {
            String::new()
        };
        let refuse = |status: StatusCode, says: &str| {
            let wants = format!("Bearer {points}{says}");
            (status, [(header::WWW_AUTHENTICATE, wants)]).into_response()
        };
        if method == "tools/call" && door.wider.is_some_and(|wider| shown != Some(wider)) {
            return refuse(StatusCode::FORBIDDEN, "scope=\"dye\", error=\"insufficient_scope\"");
        }
        if shown.is_none() || (shown != Some(door.good) && shown != door.wider) {
            return refuse(StatusCode::UNAUTHORIZED, "scope=\"weave\"");
        }
        let result = match method {
            "initialize" => json!({
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                "serverInfo": { "name": "vault", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [{ "name": "open", "inputSchema": { "type": "object" } }] }),
            "tools/call" => {
                door.opened += 1;
                json!({ "content": [{ "type": "text", "text": "a carpet" }] })
            }
            _ if asked.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
            _ => json!({}),
        };
        told(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))
    }

    /// Makes it a server of every session.
    fn configure(&self, house: &House, more: Value) {
        let mut server = json!({ "type": "http", "url": format!("{}/mcp", self.at) });
        server
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let servers = json!({ "mcpServers": { "vault": server } });
        put(house.dir.path().join("home/mcp-config.json"), &servers.to_string());
    }

    /// What brings a token for it.
    fn token(&self, token: &str) -> Value {
        json!({ "channel": ROOT, "resource": format!("{}/mcp", self.at), "token": token })
    }
}

/// The server in a session's state, once it is so.
async fn server(client: &mut Client, session: &str, kind: &str) -> Value {
    let state = once(client, session, |state| named(state, "vault")["state"]["kind"] == kind).await;
    named(&state, "vault")["state"].clone()
}

/// A session that has signed in, in which calls need nobody's word.
struct SignedIn {
    models: ModelServer,
    house: House,
    vault: Vault,
    a: Client,
    session: String,
    chat: String,
}

async fn signed_in() -> SignedIn {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    let vault = Vault::new().await;
    vault.configure(&house, json!({}));
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let trusting = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    a.accepted(&session, trusting).await;
    asked(&models, &mut a, &chat, "t1").await;
    server(&mut a, &session, "authRequired").await;
    a.request("authenticate", vault.token("good")).await.unwrap();
    server(&mut a, &session, "ready").await;
    SignedIn {
        models,
        house,
        vault,
        a,
        session,
        chat,
    }
}

/// Begins a turn in which the vault is opened.
async fn open(models: &ModelServer, client: &mut Client, chat: &str, turn: &str) {
    models.reply(Reply::call(turn, "vault-open", "{}"));
    models.reply(Reply::text("yes"));
    client.say(chat, turn, "open it").await;
}

/// What the model was told last.
fn heard(models: &ModelServer) -> String {
    models.last_request().body["messages"].to_string()
}

/// A server says in its state what it wants; a client that has it brings it, and everybody's session goes on.
#[tokio::test]
async fn a_client_signs_in_to_an_mcp_server() {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    let vault = Vault::new().await;
    let at = &vault.at;
    vault.configure(&house, json!({}));
    let (mut a, mut b) = (house.client("a").await, house.client_of("b", "0.9.0").await);
    let (session, chat) = a.session(&uuid(1)).await;
    let resource = format!("{at}/mcp");
    let token = |token: &str| json!({ "channel": ROOT, "resource": resource, "token": token, "expiresIn": 3600 });
    // Nobody asked yet.
    assert_eq!(b.code("authenticate", token("good")).await, -32007);
    let first = asked(&models, &mut a, &chat, "t1").await;
    assert!(!first.contains("vault-open"), "{first}");
    let state = once(&mut a, &session, |state| {
        named(state, "vault")["state"]["kind"] == "authRequired"
    })
    .await;
    let wants = &named(&state, "vault")["state"];
    assert_eq!(wants["reason"], "required");
    assert_eq!(wants["requiredScopes"], json!(["weave"]));
    assert_eq!(wants["resource"]["resource"], resource);
    assert_eq!(
        wants["resource"]["authorization_servers"],
        json!([format!("{at}/login")])
    );
    let refused = b.request("authenticate", token("bad")).await.unwrap_err();
    assert_eq!(refused["code"], -32007);
    assert_eq!(refused["data"]["resources"][0]["resource"], resource);
    let wrong = json!({ "channel": ROOT, "resource": resource, "token": "good", "expiresIn": 0.5 });
    assert_eq!(b.code("authenticate", wrong).await, -32602);
    assert_eq!(b.request("authenticate", token("good")).await, Ok(json!({})));
    once(&mut a, &session, |state| {
        named(state, "vault")["state"]["kind"] == "ready"
    })
    .await;
    let second = asked(&models, &mut a, &chat, "t2").await;
    assert!(second.contains("vault-open"), "{second}");
    // No token is in what clients see, or in any file.
    let shown = a.subscribe(&session).await.to_string();
    assert!(!shown.contains("good"), "{shown}");
    // Taken back, it is no longer used.
    assert_eq!(a.request("authenticate", token("")).await, Ok(json!({})));
    once(&mut b, &session, |state| {
        named(state, "vault")["state"]["kind"] == "authRequired"
    })
    .await;
}

/// What somebody watches of a session, through the official reducers.
struct Watcher {
    client: Client,
    mirror: Mirror,
    seed: bool,
}

impl Watcher {
    async fn new(house: &House, name: &str, version: &str, channels: &[&str]) -> Self {
        let mut watcher = Self {
            client: house.client_of(name, version).await,
            mirror: Mirror::default(),
            seed: version.starts_with("0.1."),
        };
        for channel in channels {
            let params = json!({ "channel": channel, "resource": channel });
            let result = watcher.client.request("subscribe", params).await.unwrap();
            watcher.pump();
            watcher.mirror.snapshot(&result["snapshot"]);
        }
        watcher
    }

    fn pump(&mut self) {
        for message in self.client.inbox.drain(..) {
            match (message["method"] == "action", self.seed) {
                (true, true) => self.mirror.seed_envelope(&message["params"]),
                (true, false) => self.mirror.envelope(&message["params"]),
                _ => {}
            }
        }
    }

    /// That it knows what the host knows.
    async fn agrees(&mut self, house: &House, version: &str) {
        let mut judge = house.client_of("judge", version).await;
        for channel in self.mirror.channels() {
            let mut tries = 0;
            loop {
                self.client.request("ping", json!({})).await.unwrap();
                self.pump();
                let params = json!({ "channel": channel, "resource": channel });
                let snapshot = judge.request("subscribe", params).await.unwrap();
                let (theirs, ours) = (
                    self.mirror.state(&channel),
                    normal(&channel, &snapshot["snapshot"]["state"]),
                );
                tries += 1;
                if theirs == ours || tries == 400 {
                    assert_eq!(theirs, ours, "{channel}");
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(25)).await;
            }
        }
    }
}

/// A token may be rejected in the middle of a turn: the call waits until somebody brings another, and is made again once.
#[tokio::test]
async fn a_call_waits_until_somebody_signs_in() {
    let SignedIn {
        models,
        house,
        vault,
        mut a,
        session,
        chat,
    } = signed_in().await;
    let mut modern = Watcher::new(&house, "m", "0.9.0", &[&session, &chat]).await;
    let mut seed = Watcher::new(&house, "s", "0.1.0", &[&session]).await;
    vault.door().good = "better";
    open(&models, &mut a, &chat, "t2").await;
    let wants = a.action("chat/toolCallAuthRequired").await["action"].clone();
    assert_eq!(wants["auth"]["reason"], "expired");
    assert_eq!(wants["auth"]["requiredScopes"], json!(["weave"]));
    assert_eq!(wants["auth"]["resource"]["resource"], format!("{}/mcp", vault.at));
    assert_eq!(server(&mut a, &session, "authRequired").await["reason"], "expired");
    let state = once(&mut a, &session, |state| {
        state["inputNeeded"][0]["kind"] == "toolAuthentication"
    })
    .await;
    assert_eq!(state["inputNeeded"][0]["toolCall"]["status"], "auth-required");
    // Whoever comes now sees it, too; to old eyes the call runs.
    modern.agrees(&house, "0.9.0").await;
    seed.agrees(&house, "0.1.0").await;
    let old = seed.mirror.state(&session);
    assert_eq!(old["activeTurn"]["responseParts"][0]["toolCall"]["status"], "running");
    // Neither a wrong token nor a result out of nowhere makes it go on.
    assert_eq!(a.code("authenticate", vault.token("bad")).await, -32007);
    let result = json!({ "success": true, "pastTenseMessage": "Opened" });
    let done =
        json!({ "type": "chat/toolCallComplete", "turnId": "t2", "toolCallId": wants["toolCallId"], "result": result });
    assert!(a.refused(&chat, done).await.contains("sign in"));
    let waits = a.subscribe(&chat).await["state"]["activeTurn"]["responseParts"][0]["toolCall"]["status"].clone();
    assert_eq!(waits, "auth-required");
    a.request("authenticate", vault.token("better")).await.unwrap();
    a.action("chat/toolCallAuthResolved").await;
    a.ends(&chat, "t2").await;
    assert!(heard(&models).contains("a carpet"), "{}", heard(&models));
    assert_eq!(vault.door().opened, 1);
    server(&mut a, &session, "ready").await;
    once(&mut a, &session, |state| {
        state.get("inputNeeded").is_none_or(|needed| needed == &json!([]))
    })
    .await;
    modern.agrees(&house, "0.9.0").await;
    seed.agrees(&house, "0.1.0").await;
}

/// A token may be good and not reach far enough.
#[tokio::test]
async fn a_call_waits_for_a_token_that_reaches_further() {
    let SignedIn {
        models,
        house: _house,
        vault,
        mut a,
        session,
        chat,
    } = signed_in().await;
    vault.door().wider = Some("wider");
    open(&models, &mut a, &chat, "t2").await;
    let wants = a.action("chat/toolCallAuthRequired").await["action"]["auth"].clone();
    assert_eq!(wants["reason"], "insufficientScope");
    // Nothing that was granted is lost.
    assert_eq!(wants["requiredScopes"], json!(["weave", "dye"]));
    let shown = server(&mut a, &session, "authRequired").await;
    assert_eq!(
        (&shown["reason"], &shown["requiredScopes"]),
        (&wants["reason"], &wants["requiredScopes"])
    );
    for (scopes, code) in [(json!(["weave"]), -32007), (json!(["dye"]), -32007)] {
        let mut token = vault.token("wider");
        token["scopes"] = scopes;
        assert_eq!(a.code("authenticate", token).await, code);
    }
    let mut token = vault.token("wider");
    token["scopes"] = json!(["dye", "spin", "weave"]);
    assert_eq!(a.request("authenticate", token).await, Ok(json!({})));
    a.action("chat/toolCallAuthResolved").await;
    a.ends(&chat, "t2").await;
    assert!(heard(&models).contains("a carpet"), "{}", heard(&models));
    assert_eq!(vault.door().opened, 1);
    server(&mut a, &session, "ready").await;
}

/// Nobody has to sign in: the call can be given up, the turn stopped, and the host may go down.
#[tokio::test]
async fn a_call_that_waits_for_a_login_can_be_given_up() {
    let SignedIn {
        models,
        house,
        vault,
        mut a,
        session,
        chat,
    } = signed_in().await;
    vault.door().wider = Some("wider");
    open(&models, &mut a, &chat, "t2").await;
    let call = a.action("chat/toolCallAuthRequired").await["action"]["toolCallId"].clone();
    let result = json!({ "success": false, "pastTenseMessage": "Given up" });
    let done = json!({ "type": "chat/toolCallComplete", "turnId": "t2", "toolCallId": call, "result": result });
    let mut b = house.client("b").await;
    b.subscribe(&chat).await;
    b.accepted(&chat, done).await;
    a.ends(&chat, "t2").await;
    assert!(heard(&models).contains("requires authentication"), "{}", heard(&models));
    server(&mut a, &session, "ready").await;
    models.reply(Reply::call("t3", "vault-open", "{}"));
    a.say(&chat, "t3", "open it").await;
    a.action("chat/toolCallAuthRequired").await;
    a.accepted(
        &chat,
        json!({ "type": "chat/turnCancelled", "turnId": "t3", "duration": 1 }),
    )
    .await;
    once(&mut a, &session, |state| {
        state.get("inputNeeded").is_none_or(|needed| needed == &json!([]))
    })
    .await;
    server(&mut a, &session, "ready").await;
    open(&models, &mut a, &chat, "t4").await;
    a.action("chat/toolCallAuthRequired").await;
    let house = house.crash().await;
    let mut later = house.client("later").await;
    later.subscribe(&session).await;
    let state = later.subscribe(&chat).await["state"].clone();
    let last = state["turns"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["id"], &last["state"]),
        (&json!("t4"), &json!("error")),
        "{state:#}"
    );
    assert_eq!(last["responseParts"][0]["toolCall"]["status"], "completed", "{last:#}");
    assert_eq!(vault.door().opened, 0);
}

/// Where nobody watches who knows what signing in is, nobody is waited for.
#[tokio::test]
async fn a_call_fails_at_once_where_nobody_could_sign_in() {
    let SignedIn {
        models,
        house,
        vault,
        mut a,
        session,
        chat,
    } = signed_in().await;
    let mut seed = house.client_of("s", "0.1.0").await;
    seed.request("subscribe", json!({ "resource": session })).await.unwrap();
    for channel in [&session, &chat] {
        a.notify("unsubscribe", json!({ "channel": channel })).await;
    }
    a.drain().await;
    vault.door().good = "better";
    models.reply(Reply::call("t2", "vault-open", "{}"));
    models.reply(Reply::text("yes"));
    let turn =
        json!({ "type": "session/turnStarted", "session": session, "turnId": "t2", "userMessage": { "text": "open" } });
    seed.dispatch_seed(turn).await;
    seed.action("session/turnComplete").await;
    assert!(heard(&models).contains("requires authentication"), "{}", heard(&models));
    let mut back = house.client("back").await;
    assert_eq!(server(&mut back, &session, "authRequired").await["reason"], "expired");
}

/// A server is asked what it is where it says, or where such things are; it is believed about what is where it is.
#[tokio::test]
async fn a_server_is_asked_what_it_is() {
    let models = ModelServer::start();
    let own = |at: &str, name: &str| {
        json!({ "resource": format!("{at}/{name}"), "authorization_servers": [format!("{at}/login")] }).to_string()
    };
    for (place, points, text, name) in [
        ("/meta", true, None, Some("canonical")),
        ("/.well-known/oauth-protected-resource/mcp", false, None, Some("mcp")),
        ("/.well-known/oauth-protected-resource", false, None, Some("mcp")),
        ("/nowhere", true, None, None),
        ("/meta", true, Some("{invalid"), None),
        (
            "/meta",
            true,
            Some(r#"{"resource":42,"authorization_servers":"x"}"#),
            None,
        ),
        (
            "/meta",
            true,
            Some(r#"{"resource":"https://api.github.com","authorization_servers":["https://x"]}"#),
            None,
        ),
    ] {
        let house = house_of(&models).await;
        let vault = Vault::new().await;
        let text = text.map_or_else(|| own(&vault.at, name.unwrap_or("mcp")), str::to_owned);
        vault.door().metadata = (place, text);
        vault.door().points = points;
        vault.configure(&house, json!({ "oauthClientId": "public", "oauthPublicClient": true }));
        let mut a = house.client("a").await;
        let (session, chat) = a.session(&uuid(1)).await;
        asked(&models, &mut a, &chat, "t1").await;
        let shown = server(&mut a, &session, "authRequired").await;
        let resource = format!("{}/{}", vault.at, name.unwrap_or("mcp"));
        assert_eq!(shown["resource"]["resource"], resource, "{place}");
        let issuers = name.map(|_| json!([format!("{}/login", vault.at)])).unwrap_or_default();
        assert_eq!(shown["resource"]["authorization_servers"], issuers, "{place}");
        assert_eq!(shown["oauthClient"], json!({ "clientId": "public" }));
        let other = json!({ "channel": ROOT, "resource": format!("{}/other", vault.at), "token": "good" });
        assert_eq!(a.code("authenticate", other).await, -32007);
        let token = json!({ "channel": ROOT, "resource": resource, "token": "good" });
        a.request("authenticate", token).await.unwrap();
        server(&mut a, &session, "ready").await;
    }
}
