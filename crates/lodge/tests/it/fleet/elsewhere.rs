//! Sessions that one host has in use, seen and steered through another.

use std::time::Duration;

use lodge_fleet::HostInfo;
use serde_json::{Value, json};
use testkit::{Home, events, nats::Cluster};
use tokio_tungstenite::tungstenite::{client::IntoClientRequest as _, http::Request};

use super::{LONG, stale::connect, until};
use crate::{
    accepted::{Client, turn},
    acp::Editor,
    attach::attach,
    door::http,
    strangers::{Host, Sdk},
};

const ROOT: &str = "ahp-root://";

/// A host of a fleet, with a name of its own.
pub(super) fn start(cluster: &Cluster, name: &str) -> Host {
    start_by(cluster, &cluster.urls(), name)
}

/// The same for one that reaches the servers by other addresses.
pub(super) fn start_by(cluster: &Cluster, urls: &[String], name: &str) -> Host {
    let (servers, system) = (urls.join(","), cluster.system_urls().join(","));
    let variables = format!("export LODGE_FLEET='{servers}' LODGE_FLEET_SYSTEM='{system}' LODGE_FLEET_NAME='{name}'");
    Host::start_in(Home::new(), &variables)
}

/// An app with a session in which a long turn runs.
fn working(host: &Host) -> (Sdk, String) {
    let mut app = Sdk::connect(host);
    let new = json!({ "workingDirectory": host.home.work(), "requestPermission": true, "streaming": true });
    let session = app.call("session.create", new).unwrap()["sessionId"].clone();
    let session = session.as_str().unwrap().to_owned();
    let long = json!({ "sessionId": session, "prompt": LONG });
    app.call("session.send", long).unwrap();
    event(&mut app, "assistant.message_delta");
    (app, session)
}

/// The next event of a type.
fn event(app: &mut Sdk, kind: &str) -> Value {
    loop {
        let message = app.waiting.pop_front().unwrap_or_else(|| app.next());
        let event = &message["params"]["event"];
        if event["type"] == kind {
            return event["data"].clone();
        }
    }
}

fn said(app: &mut Sdk, text: &str) {
    while !event(app, "assistant.message")["content"]
        .as_str()
        .unwrap_or_default()
        .contains(text)
    {}
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_works_with_a_session_of_another_host_and_goes_on_when_that_is_killed() {
    let Some(cluster) = Cluster::start().await else { return };
    let (mut one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let (mut app, session) = working(&one);

    // The turn that runs there is seen here, and stopped.
    let mut other = Sdk::connect(&two);
    let resume = json!({ "sessionId": session, "requestPermission": true, "streaming": true });
    other.call("session.resume", resume.clone()).unwrap();
    event(&mut other, "assistant.message_delta");
    let call = |app: &mut Sdk, method: &str, mut params: Value| {
        params["sessionId"] = session.clone().into();
        app.call(method, params).unwrap()
    };
    call(&mut other, "session.abort", json!({}));
    for app in [&mut app, &mut other] {
        event(app, "session.idle");
    }

    // What is said on one host is heard on both.
    call(&mut other, "session.send", json!({ "prompt": "say From two." }));
    call(&mut app, "session.send", json!({ "prompt": "say From one." }));
    for app in [&mut app, &mut other] {
        said(app, "From two.");
        said(app, "From one.");
    }

    // A question is answered by whoever likes, once.
    let file = one.home.work().join("ran");
    let ask = format!(
        r#"call bash {{"command":"echo ran >> {}"}} then say Done."#,
        file.display()
    );
    call(&mut app, "session.send", json!({ "prompt": ask }));
    let asked = event(&mut other, "permission.requested")["requestId"].clone();
    let yes = json!({ "requestId": asked, "result": { "kind": "approve-once" } });
    let answered = call(&mut other, "session.permissions.handlePendingPermissionRequest", yes);
    assert_eq!(answered["success"], true);
    for app in [&mut app, &mut other] {
        said(app, "Done.");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "ran\n");

    // Whoever does not have it open copies it, and then has the copy.
    let mut third = Sdk::connect(&two);
    let copy = third.call("sessions.fork", json!({ "sessionId": session })).unwrap()["sessionId"].clone();
    assert_ne!(copy, session);

    // There is one log, and the other host wrote none of it.
    assert!(two.home.logs().is_empty(), "{:?}", two.home.logs());
    third.call("session.resume", json!({ "sessionId": copy })).unwrap();
    third
        .call(
            "session.send",
            json!({ "sessionId": copy, "prompt": "say In the copy." }),
        )
        .unwrap();
    said(&mut third, "In the copy.");

    // Its host is killed: the app is told by the end of its connection, and goes on with the host that it is connected to.
    one.running.kill();
    let mut end = None;
    while end.is_none() {
        end = tokio::task::block_in_place(|| other.try_next()).err();
    }
    let mut other = Sdk::connect(&two);
    other.call("session.resume", resume).unwrap();
    call(&mut other, "session.send", json!({ "prompt": "say Still here." }));
    said(&mut other, "Still here.");
    let log = two
        .home
        .path()
        .join("session-state")
        .join(&session)
        .join("events.jsonl");
    let log = std::fs::read_to_string(log).unwrap();
    for words in ["From two.", "From one.", "Still here."] {
        assert!(log.contains(words), "{words}");
    }
    assert!(!log.contains("In the copy."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_watches_and_steers_a_session_of_another_host() {
    let Some(cluster) = Cluster::start().await else { return };
    let (mut one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let (mut app, id) = working(&one);
    until(&two.home, &["sessions", "list"], |list| list.contains("working"));
    let session = format!("lodge:/{id}");

    let mut client = Client::connect(&two.ahp_url(), "test").await;
    let state = client.subscribe(&session).await;
    let chat = state["defaultChat"].as_str().expect("a chat").to_owned();
    let shown = client.subscribe(&chat).await;
    let running = shown["activeTurn"]["id"].as_str().expect("a turn runs").to_owned();
    // The answer grows, under numbers that go up.
    let mut last = 0;
    for _ in 0..5 {
        let told = client
            .until(|message| message["params"]["action"]["type"] == "chat/delta")
            .await;
        assert_eq!(told["params"]["channel"], chat);
        let number = told["params"]["serverSeq"].as_u64().expect("a number");
        assert!(number > last, "{number} comes after {last}");
        last = number;
    }
    client
        .accepted(&chat, json!({ "type": "chat/turnCancelled", "turnId": running }))
        .await;
    event(&mut app, "session.idle");

    // What it says is said there, and what it may not do is refused there.
    client.accepted(&chat, turn("t2", "say From AHP.")).await;
    client.ends("t2").await;
    said(&mut app, "From AHP.");
    let refused = client.dispatch(&chat, turn("t2", "say Again.")).await;
    assert!(refused.is_some(), "a turn is begun once");

    // One that comes back, and one that comes with everything that it wants, have the same.
    let uris = json!([ROOT, session, chat]);
    let hello = json!({ "channel": ROOT, "clientId": "me", "lastSeenServerSeq": last, "subscriptions": uris });
    let mut back = Client::connect_raw(&two.ahp_url()).await;
    let resumed = back.request("reconnect", hello).await;
    assert_eq!(resumed["type"], "snapshot", "{resumed}");
    let hello = json!({ "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": "you",
        "initialSubscriptions": uris });
    let mut new = Client::connect_raw(&two.ahp_url()).await;
    let came = new.request("initialize", hello).await;
    for snapshots in [&resumed["snapshots"], &came["snapshots"]] {
        let snapshots = snapshots.as_array().expect("snapshots");
        let of = |uri: &str| snapshots.iter().find(|snapshot| snapshot["resource"] == uri);
        assert!(of(&session).is_some() && of(ROOT).is_some());
        assert!(of(&chat).expect("the chat").to_string().contains("From AHP."));
    }
    new.accepted(&chat, turn("t3", "say From you.")).await;
    for client in [&mut back, &mut new] {
        client.ends("t3").await;
    }
    assert!(two.home.logs().is_empty(), "{:?}", two.home.logs());

    // When its host is gone the client is sent away, comes back, and goes on.
    one.running.kill();
    assert!(new.closed().await.contains("reconnect"));
    let mut again = Client::connect(&two.ahp_url(), "test").await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while again.try_subscribe(&chat).await.is_none() {
        assert!(tokio::time::Instant::now() < deadline, "the session is not there again");
    }
    again.accepted(&chat, turn("t4", "say Still here.")).await;
    again.ends("t4").await;
}

/// A device that is paired with a host, and its id there.
fn paired(host: &Host, role: &str) -> (Request<()>, String) {
    let printed = host.home.run(["pair", "--role", role, "--name", "Phone"]).ok().stdout();
    let link = printed.lines().find(|line| line.contains("/pair#")).expect("a link");
    let ticket = link.split_once('#').unwrap().1.trim();
    let body = json!({ "ticket": ticket }).to_string();
    let (_, head, paired) = http(&host.home, "POST /pair", &["Content-Type: application/json"], &body);
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
    let (address, _) = link.trim().split_once("/pair#").unwrap();
    let address = &address[address.find("http://").unwrap()..];
    let url = format!(
        "{}/?key={}",
        address.replace("http:", "ws:"),
        paired["key"].as_str().unwrap()
    );
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("origin", address.parse().unwrap());
    request
        .headers_mut()
        .insert("cookie", cookie.expect("a cookie").parse().unwrap());
    (request, paired["device"]["id"].as_str().unwrap().to_owned())
}

/// Comes as a client of this id.
async fn come(as_whom: Request<()>, client: &str) -> Client {
    let mut device = Client::connect_raw(as_whom).await;
    let hello = json!({ "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": client });
    device.request("initialize", hello).await;
    device
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_of_another_host_may_do_what_it_may_there_and_the_log_names_it() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let (mut app, id) = working(&one);
    app.call("session.abort", json!({ "sessionId": id })).unwrap();
    event(&mut app, "session.idle");
    until(&two.home, &["sessions", "list"], |list| list.contains(&id[..8]));
    let session = format!("lodge:/{id}");

    // What it answers is written down under its name.
    let (phone, device) = paired(&two, "approve-only");
    let mut phone = come(phone, "phone").await;
    let state = phone.subscribe(&session).await;
    let chat = state["defaultChat"].as_str().expect("a chat").to_owned();
    phone.subscribe(&chat).await;
    let ask = r#"call bash {"command":"echo ran >> ran"} then say Done."#;
    app.call("session.send", json!({ "sessionId": id, "prompt": ask }))
        .unwrap();
    let ready = phone
        .until(|message| message["params"]["action"]["type"] == "chat/toolCallReady")
        .await;
    let ready = &ready["params"]["action"];
    let yes = json!({ "type": "chat/toolCallConfirmed", "turnId": ready["turnId"],
        "toolCallId": ready["toolCallId"], "approved": true });
    phone.accepted(&chat, yes).await;
    said(&mut app, "Done.");
    let log = events::read_log(&one.home.logs()[0]);
    let answers = events::of_kind(&log, "lodge.answered");
    assert_eq!(answers.len(), 1, "{answers:?}");
    let by = serde_json::to_string(&answers[0]).unwrap();
    assert!(
        by.contains(&format!("two/{device}")) && by.contains("approve-only"),
        "{by}"
    );
    assert!(phone.dispatch(&chat, turn("t1", "say No.")).await.is_some());

    // What is no word about a session is this host's to answer, whatever else it names.
    let mut full = come(paired(&two, "full").0, "full").await;
    let new = json!({ "channel": "lodge:/new", "uri": session, "session": session,
        "_meta": { "lodge.environment": { "PATH": "/nowhere" } } });
    let refused = full.refused("createSession", new).await;
    assert!(refused["message"].as_str().unwrap().contains("owner"), "{refused}");
    let unknown = full.refused("lodge/nothing", json!({ "channel": session })).await;
    assert_eq!(unknown["code"], -32601);

    // It does not come as a client of somebody else, and nobody comes in its place.
    let _direct = Client::connect(&one.ahp_url(), "test").await;
    let mut thief = come(paired(&two, "view-only").0, "me").await;
    let refused = thief.refused("subscribe", json!({ "channel": session })).await;
    assert!(
        refused["message"].as_str().unwrap().contains("another device"),
        "{refused}"
    );
    let (own, _) = paired(&one, "full");
    come(own.clone(), "mine").await.subscribe(&session).await;
    let mut owner = come(two.ahp_url().into_client_request().unwrap(), "mine").await;
    // Its terminal's programs are on another machine.
    let brought = json!({ "channel": session, "_meta": { "lodge.environment": { "PATH": "/nowhere" } } });
    owner.request("subscribe", brought).await;
    owner.subscribe(&chat).await;
    owner.accepted(&chat, turn("t2", "!ls > listed")).await;
    owner.ends("t2").await;
    assert!(
        !std::fs::read_to_string(one.home.work().join("listed"))
            .unwrap()
            .is_empty()
    );
    come(own, "mine").await.subscribe(&session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_editor_works_with_a_session_of_another_host() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let (mut app, session) = working(&one);
    let mut editor = Editor::ready(&two.home);
    let load = json!({ "sessionId": session, "cwd": one.home.work(), "mcpServers": [] });
    editor.call("session/load", load);
    editor.until("the answer goes on", |update| {
        update["sessionUpdate"] == "agent_message_chunk"
    });
    editor.notify("session/cancel", json!({ "sessionId": session }));
    event(&mut app, "session.idle");
    assert_eq!(editor.stops(&session, "say From an editor."), "end_turn");
    said(&mut app, "From an editor.");
    assert!(two.home.logs().is_empty(), "{:?}", two.home.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_while_its_only_client_is_on_another_host() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let (app, session) = working(&one);
    let mut other = Sdk::connect(&two);
    let resume = json!({ "sessionId": session, "requestPermission": true });
    other.call("session.resume", resume).unwrap();
    drop(app);
    other.call("session.abort", json!({ "sessionId": session })).unwrap();
    event(&mut other, "session.idle");
    let file = one.home.work().join("ran");
    for times in 1..=2 {
        let command = json!({ "command": format!("echo ran >> {}", file.display()) });
        let ask = json!({ "sessionId": session, "prompt": format!("call bash {command} then say Done.") });
        other.call("session.send", ask).unwrap();
        let asked = event(&mut other, "permission.requested")["requestId"].clone();
        let yes = json!({ "sessionId": session, "requestId": asked, "result": { "kind": "approve-once" } });
        let answered = other.call("session.permissions.handlePendingPermissionRequest", yes);
        assert_eq!(answered.unwrap()["success"], true);
        said(&mut other, "Done.");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ran\n".repeat(times));
    }
    assert!(two.home.logs().is_empty(), "{:?}", two.home.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_at_a_terminal_talks_in_a_session_of_another_host() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let (mut app, session) = working(&one);
    app.call("session.abort", json!({ "sessionId": session })).unwrap();
    event(&mut app, "session.idle");
    until(&two.home, &["sessions", "list"], |list| list.contains(&session[..8]));
    let mut terminal = attach(&two.home, &[&session]);
    terminal.say("say From a terminal.");
    said(&mut app, "From a terminal.");
    let prompt = json!({ "sessionId": session, "prompt": "say From an app." });
    app.call("session.send", prompt).unwrap();
    terminal.line_with("> say From an app.");
    terminal.line_with("From an app.");
    let lines = terminal.finish().ok().lines;
    assert!(lines.iter().any(|line| line == "From a terminal."), "{lines:#?}");
    assert!(two.home.logs().is_empty(), "{:?}", two.home.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_served_where_its_directory_is_and_says_what_it_waits_for() {
    let Some(cluster) = Cluster::start().await else { return };
    let (mut one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let directory = one.home.work().join("project");
    std::fs::create_dir(&directory).unwrap();
    let mut app = Sdk::connect(&one);
    let new = json!({ "workingDirectory": directory });
    let session = app.call("session.create", new).unwrap()["sessionId"].clone();
    let id = session.as_str().unwrap().to_owned();
    app.call(
        "session.send",
        json!({ "sessionId": session, "prompt": "say Here is one." }),
    )
    .unwrap();
    event(&mut app, "session.idle");
    let new = json!({ "workingDirectory": directory });
    let other = app.call("session.create", new).unwrap()["sessionId"].clone();
    let other = other.as_str().unwrap().to_owned();
    let prompt = json!({ "sessionId": other, "prompt": "say Here is two." });
    app.call("session.send", prompt).unwrap();
    event(&mut app, "session.idle");
    drop(app);
    until(&two.home, &["sessions", "list"], |list| {
        list.contains("Here is one") && list.contains("Here is two")
    });

    // Its host is gone, and the directory with it.
    one.running.kill();
    let away = one.home.work().join("away");
    std::fs::rename(&directory, &away).unwrap();
    let mut app = Sdk::connect(&two);
    let refused = app.call("session.resume", json!({ "sessionId": session })).unwrap_err();
    let told = refused["message"].as_str().unwrap();
    assert!(told.contains("needs a host with its directory"), "{told}");
    assert!(
        told.contains(directory.to_str().unwrap()) && told.contains("one-"),
        "{told}"
    );
    let refused = two.home.run(["run", "--resume", &id, "say Mine."]);
    assert!(
        refused.stderr.contains("needs a host with its directory"),
        "{}",
        refused.stderr
    );
    // It can be read.
    for command in ["show", "export"] {
        let read = two.home.run(["sessions", command, &id]).ok();
        assert!(read.stdout().contains("Here is one."), "{}", read.stdout());
    }
    assert!(two.home.logs().is_empty(), "nothing was taken");
    // Nor by a machine that has the name of the first one and nothing else of it.
    let mut replaced = start(&cluster, "one");
    let refused = replaced.home.run(["run", "--resume", &id, "say Mine."]);
    assert!(
        refused.stderr.contains("needs a host with its directory"),
        "{}",
        refused.stderr
    );
    replaced.running.kill();
    // Deleting needs no directory.
    app.call("session.delete", json!({ "sessionId": other })).unwrap();
    until(&two.home, &["sessions", "list"], |list| {
        list.contains("Here is one") && !list.contains("Here is two")
    });

    // Back again, any host goes on with it.
    std::fs::rename(&away, &directory).unwrap();
    app.call("session.resume", json!({ "sessionId": session })).unwrap();
    app.call(
        "session.send",
        json!({ "sessionId": session, "prompt": "say Here is another." }),
    )
    .unwrap();
    said(&mut app, "Here is another.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_is_made_where_its_directory_is_and_the_fewest_sessions_are() {
    let Some(cluster) = Cluster::start().await else { return };
    let [one, two, three] = ["one", "two", "three"].map(|name| start(&cluster, name));
    // Below the directory in which a host was started: a host that was started elsewhere does not have it.
    let directory = "/proc/self/cwd/project";
    for host in [&one, &two] {
        std::fs::create_dir(host.home.work().join("project")).unwrap();
    }
    let mut there = Sdk::connect(&one);
    there
        .call("session.create", json!({ "workingDirectory": one.home.work() }))
        .unwrap();
    let fleet = connect(&cluster).await;
    let live = |hosts: &[HostInfo]| {
        let one = hosts.iter().find(|host| host.announcement.name == "one");
        one.map(|host| host.announcement.live)
    };
    while live(&fleet.hosts().await.unwrap()) != Some(1) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut app = Sdk::connect(&three);
    let new = json!({ "workingDirectory": directory, "requestPermission": true });
    let session = app.call("session.create", new.clone()).unwrap()["sessionId"].clone();
    let prompt = |words: &str| json!({ "sessionId": session, "prompt": format!("say {words}") });
    app.call("session.send", prompt("Here is two.")).unwrap();
    said(&mut app, "Here is two.");
    assert_eq!((one.home.logs().len(), two.home.logs().len()), (1, 1));
    assert!(three.home.logs().is_empty(), "{:?}", three.home.logs());

    // A host that takes no more sessions has others make them, too.
    let servers = cluster.urls().join(",");
    let drain = ["fleet", "drain", "three", "--fleet", &servers, "--fleet-unchecked-sync"];
    let _ = three.home.run(drain).ok();
    let mut app = Sdk::connect(&three);
    let made = app.call("session.create", json!({ "workingDirectory": three.home.work() }));
    assert!(made.is_ok(), "{made:?}");
    assert!(three.home.logs().is_empty(), "{:?}", three.home.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_goes_on_with_a_session_that_another_host_has_in_use() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let (mut app, session) = working(&one);
    app.call("session.abort", json!({ "sessionId": session })).unwrap();
    event(&mut app, "session.idle");
    // The app still has it open.
    let ran = two.home.run(["run", "--resume", &session, "say From a command."]).ok();
    assert!(ran.stdout().contains("From a command."), "{}", ran.stdout());
    said(&mut app, "From a command.");

    // It is taken back, put back and copied there, too.
    let back = two.home.run(["sessions", "rewind", &session]).ok();
    assert!(back.stdout().contains("--undo restores it."), "{}", back.stdout());
    event(&mut app, "session.snapshot_rewind");
    let _ = two.home.run(["sessions", "rewind", &session, "--undo"]).ok();
    said(&mut app, "From a command.");
    let copy = two.home.run(["sessions", "fork", &session]).ok().stdout();
    until(&two.home, &["sessions", "list"], |list| {
        list.contains(&copy.trim()[..8])
    });
    assert!(two.home.logs().is_empty(), "{:?}", two.home.logs());
}
