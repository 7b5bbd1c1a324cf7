//! What the tests share: a host that listens, clients that speak JSON over a raw socket, and mirrors of their state.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use lodge_ahp::{Ahp, AhpConfig, Limits, Policy};
use lodge_door::Door;
use lodge_host::{Clock, Home, HomeOptions, Host, HostConfig, Keeper};
use lodge_http::HttpConfig;
use lodge_models::ModelsConfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{Message, client::IntoClientRequest},
};

pub(crate) const TOKEN: &str = "open-sesame";
pub(crate) const ROOT: &str = "ahp-root://";
pub(crate) const SEED_ROOT: &str = "agenthost:/root";
/// Only a host that is really silent is: machines may be busy with a lot else.
const PATIENCE: Duration = Duration::from_secs(120);

/// A face and the port that it is served on.
pub(crate) struct Server {
    ahp: Ahp,
    http: lodge_http::Server,
}

impl Server {
    pub(crate) async fn start(host: &Host, config: AhpConfig) -> Self {
        let door = config.door.clone();
        let ahp = Ahp::open(host.clone(), config).await.unwrap();
        let http = lodge_http::serve(host.clone(), HttpConfig::loopback(door), ahp.clone());
        let http = http.await.unwrap();
        Self { ahp, http }
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.http.local_addr().unwrap()
    }

    pub(crate) async fn shutdown(self) {
        self.http.shutdown().await;
        self.ahp.shutdown().await;
    }
}

/// A face behind a door with the usual token.
pub(crate) fn config() -> AhpConfig {
    AhpConfig::new(Arc::new(Door::with_token(TOKEN)))
}

pub(crate) struct House {
    pub(crate) server: Option<Server>,
    pub(crate) host: Host,
    pub(crate) dir: TempDir,
    /// What time it is for automations.
    pub(crate) clock: Clock,
    models: ModelsConfig,
}

pub(crate) async fn house() -> House {
    house_with(Limits::default()).await
}

/// A house with the client `a` in it, who has made a session: its address and its chat's.
pub(crate) async fn at_home() -> (House, Client, String, String) {
    let house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    (house, a, session, chat)
}

pub(crate) async fn house_with(limits: Limits) -> House {
    house_set_up(limits, Policy::Ask).await
}

pub(crate) async fn house_with_policy(resources: Policy) -> House {
    house_set_up(Limits::default(), resources).await
}

async fn house_set_up(limits: Limits, resources: Policy) -> House {
    house_made(limits, resources, ModelsConfig::default(), Clock::default()).await
}

/// A house whose clock is turned by hand.
pub(crate) async fn house_at(now: &str) -> House {
    let clock = Clock::by_hand(now.parse().unwrap());
    house_made(Limits::default(), Policy::Ask, ModelsConfig::default(), clock).await
}

/// A house whose sessions are kept elsewhere as well.
pub(crate) async fn house_kept(keeper: Arc<dyn Keeper>, clock: Clock) -> House {
    let (limits, models) = (Limits::default(), ModelsConfig::default());
    house_built(limits, Policy::Ask, models, clock, Some(keeper)).await
}

async fn house_made(limits: Limits, resources: Policy, models: ModelsConfig, clock: Clock) -> House {
    house_built(limits, resources, models, clock, None).await
}

async fn house_built(
    limits: Limits,
    resources: Policy,
    models: ModelsConfig,
    clock: Clock,
    keeper: Option<Arc<dyn Keeper>>,
) -> House {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("work")).unwrap();
    let home = Home::open(dir.path().join("home"), HomeOptions::default()).unwrap();
    let (host, server) = open_in(&dir, home, limits, resources, models.clone(), &clock, keeper).await;
    House {
        dir,
        host,
        server: Some(server),
        clock,
        models,
    }
}

/// A house whose model is behind a server, as real ones are.
pub(crate) async fn house_of(models: &testkit::model_server::ModelServer) -> House {
    house_of_with(models, Limits::default()).await
}

pub(crate) async fn house_of_with(models: &testkit::model_server::ModelServer, limits: Limits) -> House {
    let models = ModelsConfig {
        default_model: Some("distant".into()),
        ..two_models(&models.openai_url())
    };
    house_made(limits, Policy::Ask, models, Clock::default()).await
}

/// A house that offers a second model, `distant`, which nobody can reach.
pub(crate) async fn house_of_two_models(limits: Limits) -> House {
    let models = two_models("http://127.0.0.1:9/v1");
    house_made(limits, Policy::Ask, models, Clock::default()).await
}

/// The same where `distant` has thinking levels of its own.
pub(crate) async fn house_of_two_models_with(levels: &[&str]) -> House {
    let mut models = two_models("http://127.0.0.1:9/v1");
    let levels = levels.iter().map(|level| (*level).to_owned());
    models.models[0].reasoning_efforts = Some(levels.collect());
    house_made(Limits::default(), Policy::Ask, models, Clock::default()).await
}

fn two_models(url: &str) -> ModelsConfig {
    let provider = lodge_models::ProviderEntry {
        name: "there".into(),
        base_url: url.into(),
        ..Default::default()
    };
    let model = lodge_models::ModelEntry {
        id: "distant".into(),
        provider: "there".into(),
        ..Default::default()
    };
    ModelsConfig {
        providers: vec![provider],
        models: vec![model],
        default_model: Some("rehearsal".into()),
    }
}

async fn open_in(
    dir: &TempDir,
    home: Home,
    limits: Limits,
    resources: Policy,
    models: ModelsConfig,
    clock: &Clock,
    keeper: Option<Arc<dyn Keeper>>,
) -> (Host, Server) {
    let models = lodge_models::Catalogue::from(models, |_| None).unwrap();
    let idle_after = Duration::from_secs(600);
    let of_host = HostConfig {
        home,
        models,
        sandbox: None,
        idle_after,
        version: "0.0.0-test".into(),
        clock: clock.clone(),
    };
    let host = Host::with_keeper(of_host, keeper).unwrap();
    let work = dir.path().canonicalize().unwrap().join("work");
    let config = AhpConfig {
        default_directory: Some(work),
        shell: Some("/bin/bash".into()),
        limits,
        resources,
        ..config()
    };
    let server = Server::start(&host, config).await;
    (host, server)
}

impl House {
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("work")
    }

    /// The file with the host's registers.
    pub(crate) fn registers(&self) -> PathBuf {
        self.dir.path().join("home/registers.jsonl")
    }

    /// Does something while nothing can be written to the home.
    pub(crate) async fn without_home<T>(&self, run: impl Future<Output = T>) -> T {
        let (home, away) = (self.dir.path().join("home"), self.dir.path().join("home.away"));
        std::fs::rename(&home, &away).unwrap();
        // Not a folder that is missing: what is missing counts as deleted.
        std::os::unix::fs::symlink("home", &home).unwrap();
        let done = run.await;
        std::fs::remove_file(&home).unwrap();
        std::fs::rename(&away, &home).unwrap();
        done
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/?tkn={TOKEN}", self.server.as_ref().unwrap().local_addr())
    }

    /// Ends the host and starts another on the same home.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.start().await;
    }

    /// Ends the host.
    pub(crate) async fn stop(&mut self) {
        self.server.take().unwrap().shutdown().await;
        self.host.shutdown().await;
        let dir = tempfile::tempdir().unwrap();
        // The old host must let go of the home before the new one can lock it.
        let closed = Home::open(dir.path().join("other"), HomeOptions::default()).unwrap();
        let models = lodge_models::Catalogue::from(lodge_models::ModelsConfig::default(), |_| None).unwrap();
        let idle_after = Duration::from_secs(600);
        drop(std::mem::replace(
            &mut self.host,
            Host::new(HostConfig {
                home: closed,
                models,
                sandbox: None,
                idle_after,
                version: String::new(),
                clock: Clock::default(),
            })
            .unwrap(),
        ));
    }

    /// Starts one on the home of a host that ended.
    pub(crate) async fn start(&mut self) {
        let mut tries = 0;
        let (host, server) = loop {
            match Home::open(self.dir.path().join("home"), HomeOptions::default()) {
                // Not closed and opened again: a process that another test is just starting could hold the lock.
                Ok(home) => {
                    let models = self.models.clone();
                    break open_in(
                        &self.dir,
                        home,
                        Limits::default(),
                        Policy::Ask,
                        models,
                        &self.clock,
                        None,
                    )
                    .await;
                }
                Err(error) => {
                    tries += 1;
                    assert!(tries < 100, "{error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        };
        self.host = host;
        self.server = Some(server);
    }

    /// Another host on the files as they are now: what a host leaves behind that is killed at this moment.
    pub(crate) async fn crash(mut self) -> House {
        let left = tempfile::tempdir().unwrap();
        copy(self.dir.path(), left.path());
        self.stop().await;
        for entry in std::fs::read_dir(self.dir.path()).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => std::fs::remove_dir_all(entry.path()).unwrap(),
                false => std::fs::remove_file(entry.path()).unwrap(),
            }
        }
        copy(left.path(), self.dir.path());
        self.start().await;
        self
    }

    /// A connection that has not said anything yet.
    pub(crate) async fn connect(&self) -> Client {
        Client::connect(&self.url()).await.unwrap()
    }

    /// A connection of today's dialect, subscribed to the root channel.
    pub(crate) async fn client(&self, name: &str) -> Client {
        self.client_of(name, "1.0.0").await
    }

    /// A connection of an editor, which makes drafts and keeps what it disposes of.
    pub(crate) async fn editor(&self, name: &str) -> Client {
        self.introduced(name, "0.9.0", json!({ "name": "vscode-editor-window" }))
            .await
    }

    pub(crate) async fn client_of(&self, name: &str, version: &str) -> Client {
        self.introduced(name, version, json!({ "name": "test" })).await
    }

    async fn introduced(&self, name: &str, version: &str, info: Value) -> Client {
        let mut client = self.connect().await;
        let root = if version.starts_with("0.1.") {
            "agenthost:/root"
        } else {
            ROOT
        };
        let params = json!({
            "channel": ROOT, "protocolVersions": [version], "clientId": name, "initialSubscriptions": [root],
            "clientInfo": info,
        });
        client.request("initialize", params).await.unwrap();
        client.name = name.to_owned();
        client
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&from, &to);
        } else {
            // The host is at work: a file that is only there while another is written may be gone by now.
            let copied = std::fs::copy(from, to);
            let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
            assert!(
                copied.as_ref().is_ok() || copied.as_ref().is_err_and(gone),
                "{copied:?}"
            );
        }
    }
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub(crate) struct Client {
    socket: Socket,
    pub(crate) name: String,
    next_id: u64,
    next_seq: i64,
    /// What came and was not asked for yet.
    pub(crate) inbox: VecDeque<Value>,
    pub(crate) last_seq: u64,
}

impl Client {
    pub(crate) async fn connect(url: &str) -> Result<Self, tokio_tungstenite::tungstenite::Error> {
        Self::connect_with(url).await
    }

    /// The same with headers of one's own.
    pub(crate) async fn connect_with(
        request: impl IntoClientRequest + Unpin,
    ) -> Result<Self, tokio_tungstenite::tungstenite::Error> {
        let (socket, _) = tokio_tungstenite::connect_async(request.into_client_request()?).await?;
        Ok(Self {
            socket,
            name: String::new(),
            next_id: 1,
            next_seq: 1,
            inbox: VecDeque::new(),
            last_seq: 0,
        })
    }

    pub(crate) async fn send_text(&mut self, text: impl Into<String>) {
        self.socket.send(Message::Text(text.into().into())).await.unwrap();
    }

    /// The next message, from the wire. `None` at the end.
    pub(crate) async fn read(&mut self) -> Option<Value> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.socket.next())
                .await
                .expect("the host is silent");
            match message {
                Some(Ok(Message::Text(text))) => {
                    let value: Value = serde_json::from_str(&text).unwrap();
                    let (params, result) = (&value["params"], &value["result"]);
                    for seq in [
                        &params["serverSeq"],
                        &result["serverSeq"],
                        &result["snapshot"]["fromSeq"],
                    ] {
                        self.last_seq = self.last_seq.max(seq.as_u64().unwrap_or(0));
                    }
                    return Some(value);
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Why the host closed the connection.
    pub(crate) async fn close_code(&mut self) -> Option<u16> {
        loop {
            match tokio::time::timeout(PATIENCE, self.socket.next())
                .await
                .expect("the host is silent")
            {
                Some(Ok(Message::Close(Some(frame)))) => return Some(frame.code.into()),
                Some(Ok(Message::Close(None)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    pub(crate) async fn start(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send_text(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
            .await;
        id
    }

    /// The result, or the error, of a request; everything that comes before it stays in the inbox.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.start(method, params).await;
        self.response(id).await
    }

    pub(crate) async fn response(&mut self, id: u64) -> Result<Value, Value> {
        let is_it = |message: &Value| message["id"] == id && message.get("method").is_none();
        if let Some(at) = self.inbox.iter().position(is_it) {
            return result(self.inbox.remove(at).unwrap());
        }
        loop {
            let message = self.read().await.expect("the connection ended");
            if is_it(&message) {
                return result(message);
            }
            self.inbox.push_back(message);
        }
    }

    pub(crate) async fn code(&mut self, method: &str, params: Value) -> i64 {
        self.request(method, params).await.expect_err("it went well")["code"]
            .as_i64()
            .unwrap()
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send_text(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
            .await;
    }

    /// Dispatches an action and returns its number.
    pub(crate) async fn dispatch(&mut self, channel: &str, action: Value) -> i64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.notify(
            "dispatchAction",
            json!({ "channel": channel, "clientSeq": seq, "action": action }),
        )
        .await;
        seq
    }

    /// Dispatches in the seed's spelling.
    pub(crate) async fn dispatch_seed(&mut self, action: Value) -> i64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.notify("dispatchAction", json!({ "clientSeq": seq, "action": action }))
            .await;
        seq
    }

    /// What the host says to an action: the whole envelope.
    pub(crate) async fn verdict(&mut self, seq: i64) -> Value {
        let name = self.name.clone();
        self.until(move |message| {
            let origin = &message["params"]["origin"];
            origin["clientSeq"] == seq && origin["clientId"] == name.as_str()
        })
        .await["params"]
            .clone()
    }

    /// Dispatches, and returns why it was refused.
    pub(crate) async fn refused(&mut self, channel: &str, action: Value) -> String {
        let seq = self.dispatch(channel, action.clone()).await;
        let verdict = self.verdict(seq).await;
        verdict["rejectionReason"]
            .as_str()
            .unwrap_or_else(|| panic!("{action} was accepted: {verdict}"))
            .to_owned()
    }

    /// Dispatches, and returns the action as it was accepted.
    pub(crate) async fn accepted(&mut self, channel: &str, action: Value) -> Value {
        let seq = self.dispatch(channel, action).await;
        let verdict = self.verdict(seq).await;
        assert_eq!(verdict.get("rejectionReason"), None, "{verdict}");
        verdict["action"].clone()
    }

    /// The first message that fits, taken out of what came and comes.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.inbox.iter().position(&fits) {
            return self.inbox.remove(at).unwrap();
        }
        loop {
            let Some(message) = self.read().await else {
                panic!("the connection ended; before: {:#?}", self.inbox)
            };
            if fits(&message) {
                return message;
            }
            self.inbox.push_back(message);
        }
    }

    /// The next action of this type, whatever its channel.
    pub(crate) async fn action(&mut self, kind: &str) -> Value {
        self.until(|message| message["params"]["action"]["type"] == kind).await["params"].clone()
    }

    /// The next notification of this method.
    pub(crate) async fn notification(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == method).await["params"].clone()
    }

    /// Answers the next request of the host of this method, and returns what was asked.
    pub(crate) async fn answer(&mut self, method: &str, answer: Value) -> Value {
        let asked = self
            .until(|message| message["method"] == method && message.get("id").is_some())
            .await;
        let mut response = json!({ "jsonrpc": "2.0", "id": asked["id"] });
        let response_fields = response.as_object_mut().unwrap();
        response_fields.extend(answer.as_object().unwrap().clone());
        self.send_text(response.to_string()).await;
        asked["params"].clone()
    }

    /// Everything that has come by now: a ping is answered after what was queued before it.
    pub(crate) async fn drain(&mut self) -> Vec<Value> {
        self.request("ping", json!({ "channel": ROOT })).await.unwrap();
        self.inbox.drain(..).collect()
    }

    pub(crate) async fn subscribe(&mut self, channel: &str) -> Value {
        // Clients of the seed say `resource`.
        let asked = json!({ "channel": channel, "resource": channel });
        self.request("subscribe", asked).await.unwrap()["snapshot"].clone()
    }

    /// Makes a session and subscribes to it and its chat.
    pub(crate) async fn session(&mut self, id: &str) -> (String, String) {
        let session = format!("lodge:/{id}");
        self.request("createSession", json!({ "channel": session }))
            .await
            .unwrap();
        let snapshot = self.subscribe(&session).await;
        let chat = snapshot["state"]["defaultChat"].as_str().unwrap().to_owned();
        self.subscribe(&chat).await;
        (session, chat)
    }

    /// Begins a turn.
    pub(crate) async fn say(&mut self, chat: &str, turn: &str, text: &str) -> i64 {
        self.dispatch(chat, turn_started(turn, text)).await
    }

    /// A whole turn, and the chat's state after it.
    pub(crate) async fn turn(&mut self, chat: &str, turn: &str, text: &str) -> Value {
        self.say(chat, turn, text).await;
        self.ends(chat, turn).await;
        self.subscribe(chat).await["state"].clone()
    }

    /// Waits for the end of a turn.
    pub(crate) async fn ends(&mut self, chat: &str, turn: &str) -> Value {
        let ends = ["chat/turnComplete", "chat/turnCancelled", "chat/error"];
        self.until(|message| {
            let params = &message["params"];
            params["channel"] == chat
                && params["action"]["turnId"] == turn
                && ends.iter().any(|end| params["action"]["type"] == *end)
        })
        .await["params"]["action"]
            .clone()
    }
}

/// What was in a damaged file of registers.
pub(crate) fn put_aside(file: &Path) -> String {
    let beginning = format!("{}.damaged-", file.file_stem().unwrap().to_string_lossy());
    let files = std::fs::read_dir(file.parent().unwrap()).unwrap();
    let mut names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = names.find(|name| name.starts_with(&beginning)).unwrap();
    std::fs::read_to_string(file.with_file_name(name)).unwrap()
}

pub(crate) fn turn_started(turn: &str, text: &str) -> Value {
    json!({
        "type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-11-15T10:00:00.000Z",
        "message": { "text": text, "origin": { "kind": "user" } },
    })
}

fn result(message: Value) -> Result<Value, Value> {
    match message.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(message["result"].clone()),
    }
}

pub(crate) fn uuid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}
