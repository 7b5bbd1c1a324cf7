//! Whatever a server does, it hurts only itself.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, ready};
use lodge_mcp::{
    AuthReason, AuthRequest, Call, CallResult, Configured, Elicitation, ElicitationAnswer, List, McpError, Owner,
    Sampling, ServerConfig, ServerInfo, Servers, Source, Status, Surroundings, Transport,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::hostile::TEMPER;

/// More than anything here takes, even on a machine with other things to do.
const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

struct Listener(Arc<Notes>);

/// Tells when it is dropped.
struct Told(Box<dyn Fn() + Send>);

impl Drop for Told {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Owner for Listener {
    fn changed(&self, server: &ServerInfo) {
        self.0.0.lock().push(format!("{} {:?}", server.name, server.status));
    }

    fn loaded(&self, servers: &[ServerInfo]) {
        self.0.0.lock().push(format!("loaded {}", servers.len()));
    }

    fn removed(&self, server: &str) {
        self.0.0.lock().push(format!("{server} removed"));
    }

    fn list_changed(&self, server: &str, list: List) {
        self.0.0.lock().push(format!("{server} {list:?} changed"));
    }

    fn elicit(&self, server: &str, form: Elicitation) -> BoxFuture<'static, ElicitationAnswer> {
        let page = form.url.map(|url| format!(" at {url}"));
        self.0.0.lock().push(format!(
            "{server} asks {:?}: {}{}",
            form.call_id,
            form.message,
            page.unwrap_or_default()
        ));
        Box::pin(ready(ElicitationAnswer {
            action: "accept".into(),
            content: Some(json!({"colour": "blue"})),
        }))
    }

    fn sample(&self, server: &str, asked: Sampling) -> BoxFuture<'static, Result<Value, String>> {
        let text = asked.request["messages"][0]["content"]["text"].clone();
        let notes = self.0.clone();
        let note = move |what: &str| notes.0.lock().push(what.to_owned());
        note(&format!("{server} asks the model {text} as {}", asked.mcp_request_id));
        Box::pin(async move {
            match text.as_str() {
                Some("wait") => {
                    let _told = Told(Box::new(move || note("nobody waits")));
                    std::future::pending().await
                }
                Some("no") => Err("I would rather not".to_owned()),
                Some("nonsense") => Ok(json!({"role": "user"})),
                _ => Ok(json!({"role": "assistant", "content": {"type": "text", "text": "so it is"}, "model": "m"})),
            }
        })
    }

    fn roots(&self) -> Vec<PathBuf> {
        vec!["/work/a project".into(), "/work/more".into()]
    }

    fn token(&self, _: &str) -> Option<String> {
        None
    }

    fn authorize(&self, server: &str, request: AuthRequest) -> BoxFuture<'static, Option<String>> {
        let scope = request.challenge.and_then(|challenge| challenge.scope);
        self.0.0.lock().push(format!(
            "{server} wants credentials: {:?} for {}",
            request.reason,
            scope.unwrap_or_default()
        ));
        // The first is given, and none that reaches further.
        let given = server == "locked" && request.reason == AuthReason::Initial;
        Box::pin(ready(given.then(|| "a-token".to_owned())))
    }
}

fn config(temper: &str) -> ServerConfig {
    let program = std::env::current_exe().expect("a test runs from a file");
    ServerConfig {
        transport: Transport::Stdio {
            command: program.to_string_lossy().into_owned(),
            args: ["--exact", "hostile::serve", "--nocapture"].map(str::to_owned).to_vec(),
            env: BTreeMap::from([(TEMPER.to_owned(), temper.to_owned())]),
            cwd: None,
        },
        ..ServerConfig::read(&json!({"command": "x"})).expect("a server")
    }
}

fn configured(name: &str, config: ServerConfig) -> Configured {
    Configured {
        name: name.to_owned(),
        source: Source::Client,
        config: Ok(lodge_trust::Admitted::of_client(config)),
    }
}

fn servers(all: &[(&str, &str)]) -> (Servers, Arc<Notes>) {
    servers_within(all, None)
}

fn servers_within(all: &[(&str, &str)], start_limit: Option<Duration>) -> (Servers, Arc<Notes>) {
    let notes = Arc::<Notes>::default();
    let servers = Servers::new(Arc::new(Listener(notes.clone())));
    servers.surround(Surroundings {
        cwd: std::env::temp_dir(),
        start_limit,
        ..Surroundings::default()
    });
    servers.configure(
        all.iter()
            .map(|(name, temper)| configured(name, config(temper)))
            .collect(),
    );
    (servers, notes)
}

fn call(tool: &str, arguments: Value) -> Call {
    Call {
        id: "call-1".into(),
        tool: tool.into(),
        arguments: arguments.as_object().cloned(),
        meta: None,
        progress: Arc::new(|_| {}),
    }
}

async fn told_to(servers: &Servers, name: &str, what: &str) -> Result<CallResult, McpError> {
    servers.call(name, call("do", json!({"what": what}))).await
}

fn text(result: &CallResult) -> &str {
    result.content[0]["text"].as_str().unwrap_or_default()
}

fn status(servers: &Servers, name: &str) -> (Status, String) {
    let info = servers.info(name).expect("it is configured");
    (info.status, info.error.unwrap_or_default())
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_server_with_a_bad_start_fails_and_the_others_work() {
    let bad = [
        ("ends at once", "code 3; its last output: no such luck"),
        ("lies about the handshake", ""),
        ("answers with the wrong number", ""),
    ];
    let mut all = vec![
        ("good", "is kind"),
        ("chatty", "talks nonsense between"),
        ("loud", "floods standard error"),
    ];
    all.extend(bad.iter().map(|(temper, _)| (*temper, *temper)));
    let (servers, notes) = servers(&all);
    let missing = ServerConfig::read(&json!({"command": "/nowhere/at/all"})).expect("a server");
    servers.add(vec![configured("missing", missing)]);
    servers.ready(LONG).await;
    for name in ["good", "chatty", "loud"] {
        assert_eq!(status(&servers, name), (Status::Connected, String::new()), "{name}");
        let answer = servers.call(name, call("echo", json!({"a": 1}))).await.expect(name);
        assert!(text(&answer).contains(r#""arguments":{"a":1}"#), "{name}: {answer:?}");
    }
    for (name, error) in bad.into_iter().chain([("missing", "cannot start `/nowhere/at/all`")]) {
        let (state, said) = status(&servers, name);
        assert_eq!(state, Status::Failed, "{name}");
        assert!(said.contains(error), "{name}: {said}");
    }
    assert_eq!(servers.tools().len(), 6);
    until("it is told that all are loaded", || {
        notes.all().contains(&"loaded 7".to_owned())
    })
    .await;
    servers.shutdown().await;
}

#[tokio::test]
async fn lines_that_are_no_messages_are_never_answered() {
    // Such a server prints some for each message that it gets: answers to them would be answered for ever.
    let (servers, _) = servers(&[("s", "talks nonsense between")]);
    servers.ready(LONG).await;
    let corrected = told_to(&servers, "s", "corrected").await.expect("an answer");
    assert_eq!(text(&corrected), "0");
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let mute = [("mute", "never answers"), ("flood", "fills its pipe without a line")];
    let (servers, _) = servers_within(&mute, Some(Duration::from_secs(2)));
    servers.ready(Duration::from_millis(1)).await;
    assert_eq!(
        status(&servers, "mute").0,
        Status::Pending,
        "a turn does not wait for ever"
    );
    assert!(servers.start("mute").await.is_err());
    let (state, error) = status(&servers, "mute");
    assert_eq!(state, Status::Failed);
    assert!(error.contains("did not answer within"), "{error}");
}

#[tokio::test]
async fn what_a_tool_does_to_its_server_stays_with_that_call() {
    let (servers, notes) = servers(&[("s", "is kind")]);
    servers.ready(LONG).await;
    assert!(told_to(&servers, "s", "fail").await.expect("an answer").is_error);
    let refused = told_to(&servers, "s", "refuse").await.expect_err("refused").to_string();
    assert_eq!(refused, "I would rather not");
    assert!(told_to(&servers, "s", "lie").await.is_err());
    let asked = told_to(&servers, "s", "ask").await.expect("an answer");
    assert!(
        text(&asked).contains(r#""action":"accept""#) && text(&asked).contains("blue"),
        "{asked:?}"
    );
    assert!(
        notes
            .all()
            .contains(&r#"s asks Some("call-1"): Which colour?"#.to_owned())
    );
    // Somebody may be sent to a page of the web, and to nothing else.
    for (url, said) in [
        ("https://example.com/docs", r#""result":{"action":"accept"}"#),
        ("file:///etc/passwd", r#""result":{"action":"decline"}"#),
        ("javascript:alert(1)", r#""result":{"action":"decline"}"#),
        ("nowhere", r#""result":{"action":"decline"}"#),
    ] {
        let visit = call("do", json!({"what": "visit", "url": url}));
        let asked = servers.call("s", visit).await.expect("an answer");
        assert!(text(&asked).contains(said), "{url}: {asked:?}");
    }
    assert!(
        notes
            .all()
            .iter()
            .any(|note| note.ends_with("Look there at https://example.com/docs"))
    );
    assert_eq!(
        text(&told_to(&servers, "s", "change").await.expect("an answer")),
        "changed"
    );
    until("the change is told", || {
        notes.all().iter().any(|note| note == "s Tools changed")
    })
    .await;
    assert!(
        notes.all().iter().filter(|note| *note == "s Tools changed").count() < 20,
        "{:?}",
        notes.all()
    );

    let crashed = told_to(&servers, "s", "crash")
        .await
        .expect_err("it is gone")
        .to_string();
    assert!(crashed.contains("closed the connection"), "{crashed}");
    until("the crash is noticed", || status(&servers, "s").0 == Status::Failed).await;
    assert!(
        status(&servers, "s")
            .1
            .contains("code 9; its last output: out of cheese")
    );
    assert!(servers.tools().is_empty());
    assert!(matches!(
        told_to(&servers, "s", "fail").await,
        Err(McpError::NotConnected(_))
    ));
    servers.ready(LONG).await;
    assert_eq!(
        status(&servers, "s").0,
        Status::Connected,
        "it is started again when it is needed"
    );
}

#[tokio::test]
async fn a_server_that_always_crashes_is_not_started_for_ever() {
    let (servers, notes) = servers(&[("s", "ends at once")]);
    for _ in 0..6 {
        servers.ready(LONG).await;
    }
    let starts = || notes.all().iter().filter(|note| *note == "s Pending").count();
    assert_eq!(starts(), 3);
    assert!(servers.start("s").await.is_err());
    assert_eq!(starts(), 4, "but whoever asks for it gets a try");
}

#[tokio::test]
async fn a_hanging_tool_runs_out_of_time_and_a_babbling_one_is_heard_in_moderation() {
    let (servers, _) = servers(&[]);
    let short = ServerConfig {
        timeout: Some(Duration::from_millis(300)),
        ..config("is kind")
    };
    servers.add(vec![configured("short", short), configured("s", config("is kind"))]);
    servers.ready(LONG).await;
    let error = told_to(&servers, "short", "hang").await.expect_err("too late");
    assert!(matches!(error, McpError::TimedOut { .. }), "{error}");
    assert!(told_to(&servers, "short", "fail").await.is_ok(), "it can still be used");

    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = heard.clone();
    let babble = Call {
        progress: Arc::new(move |word| ear.lock().push(word)),
        ..call("do", json!({"what": "babble"}))
    };
    assert_eq!(
        text(&servers.call("s", babble).await.expect("an answer")),
        "said it all"
    );
    let heard = heard.lock();
    assert!(!heard.is_empty() && heard.len() < 2_000, "{}", heard.len());
    assert_eq!(heard[0], "step 0");
}

#[tokio::test]
async fn a_server_that_reads_nothing_more_costs_a_call_its_time_limit_and_no_more() {
    let (servers, _) = servers(&[]);
    let short = ServerConfig {
        timeout: Some(Duration::from_millis(300)),
        ..config("is kind")
    };
    servers.add(vec![configured("deaf", short)]);
    servers.ready(LONG).await;
    // The second call does not fit into the pipe.
    for long in [0, 1 << 20] {
        let arguments = json!({"what": "read nothing more", "long": "x".repeat(long)});
        let called = tokio::time::timeout(LONG, servers.call("deaf", call("do", arguments))).await;
        let error = called.expect("nobody waits for ever").expect_err("too late");
        assert!(matches!(error, McpError::TimedOut { .. }), "{error}");
    }
    servers.shutdown().await;
}

#[tokio::test]
async fn a_message_without_measure_is_dropped_and_the_server_lives_on() {
    let (servers, _) = servers(&[]);
    let patient = ServerConfig {
        timeout: Some(Duration::from_secs(5)),
        ..config("is kind")
    };
    servers.add(vec![configured("s", patient)]);
    servers.ready(LONG).await;
    assert!(told_to(&servers, "s", "huge").await.is_err());
    // On a busy machine the rest of the message takes its time.
    for left in (0..20).rev() {
        match told_to(&servers, "s", "fail").await {
            Ok(_) => break,
            Err(error) => assert!(left > 0, "{error}"),
        }
    }
}

#[tokio::test]
async fn lies_about_tools_are_sorted_out() {
    let (servers, _) = servers(&[("liar", "lies about its tools"), ("pager", "has pages without end")]);
    servers.ready(LONG).await;
    let names = |server: &str| -> Vec<String> {
        let of = servers.tools().into_iter().filter(|(name, _)| **name == *server);
        of.map(|(_, tool)| tool.name.clone()).collect()
    };
    assert_eq!(names("liar"), ["echo", "odd"]);
    assert!(names("pager").len() <= 50);
    let odd = servers
        .tools()
        .into_iter()
        .find(|(_, tool)| tool.name == "odd")
        .expect("it is offered");
    assert_eq!(*odd.1.schema, json!({"type": "object", "properties": {}}));
}

#[tokio::test]
async fn the_labels_of_a_call_are_exactly_those_that_were_chosen() {
    let (servers, _) = servers(&[("s", "is kind")]);
    servers.ready(LONG).await;
    for (meta, expected) in [
        (
            Some(Some(json!({"mine": "yes"}))),
            r#"{"meta":{"mine":"yes"},"arguments":{}}"#,
        ),
        (Some(None), r#"{"meta":null,"arguments":{}}"#),
    ] {
        let labelled = Call {
            meta: meta.map(|meta| meta.and_then(|meta| meta.as_object().cloned())),
            ..call("echo", json!({}))
        };
        let answer = servers.call("s", labelled).await.expect("an answer");
        assert_eq!(text(&answer), expected);
    }
    let usual = servers.call("s", call("echo", json!({}))).await.expect("an answer");
    assert!(text(&usual).contains("progressToken"));
}

#[tokio::test]
async fn a_server_that_will_not_end_is_ended_with_all_its_kin() {
    let (servers, _) = servers(&[]);
    let mark = format!("lodge-mcp-test-{}", std::process::id());
    let mut stubborn = config("will not end");
    if let Transport::Stdio { env, .. } = &mut stubborn.transport {
        env.insert("MARK_OF_TEST".into(), mark.clone());
    }
    servers.add(vec![configured("s", stubborn)]);
    servers.ready(LONG).await;
    let living = || {
        let all = std::fs::read_dir("/proc").expect("there are processes").flatten();
        let marked = all.filter(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        });
        marked.count()
    };
    assert!(living() >= 2, "the server and its child");
    servers.stop("s").expect("it runs");
    until("all of them are gone", || living() == 0).await;
}

#[tokio::test]
async fn configuring_anew_keeps_what_is_the_same() {
    let (servers, notes) = servers(&[("a", "is kind"), ("b", "is kind")]);
    servers.ready(LONG).await;
    servers.configure(vec![
        configured("a", config("is kind")),
        configured("c", config("is kind")),
    ]);
    assert_eq!(status(&servers, "a").0, Status::Connected);
    assert_eq!(status(&servers, "c").0, Status::Pending);
    assert!(servers.info("b").is_none());
    assert!(notes.all().contains(&"b removed".to_owned()));
    servers.disable("a").expect("it is there");
    servers.ready(LONG).await;
    assert_eq!(status(&servers, "a").0, Status::Disabled);
    assert_eq!(status(&servers, "c").0, Status::Connected);
    servers.enable("a").expect("it is there");
    servers.reset();
    servers.ready(LONG).await;
    assert_eq!(status(&servers, "a").0, Status::Connected);
}

#[tokio::test]
async fn a_server_that_went_down_is_there_again_for_the_next_call_and_one_that_never_started_is_not_waited_for() {
    let (servers, notes) = servers(&[("s", "is kind"), ("bad", "ends at once")]);
    servers.ready(LONG).await;
    let starts = |name: &str| {
        let pending = format!("{name} Pending");
        notes.all().iter().filter(|note| **note == pending).count()
    };
    let bad = starts("bad");
    let _ = told_to(&servers, "s", "crash").await;
    until("it is known to be gone", || status(&servers, "s").0 == Status::Failed).await;
    servers.revive().await;
    assert_eq!(status(&servers, "s").0, Status::Connected);
    assert_eq!(starts("bad"), bad);
}

#[tokio::test]
async fn another_configuration_that_makes_no_sense_either_says_what_is_wrong_with_it() {
    let wrong = |why: &str| Configured {
        name: "s".into(),
        source: Source::Client,
        config: Err(why.to_owned()),
    };
    let (servers, _) = servers(&[]);
    for why in ["no command", "no address"] {
        servers.add(vec![wrong(why)]);
        assert_eq!(status(&servers, "s"), (Status::Failed, why.to_owned()));
    }
}

/// A server that may ask the model.
async fn sampler() -> (Servers, Arc<Notes>) {
    let (servers, notes) = servers(&[("mute", "")]);
    servers.add(vec![configured(
        "asks",
        ServerConfig {
            sampling: true,
            ..config("")
        },
    )]);
    servers.ready(LONG).await;
    (servers, notes)
}

async fn sample(servers: &Servers, server: &str, arguments: Value) -> Vec<Value> {
    let result = servers.call(server, call("do", arguments)).await.expect("a result");
    let text = result.content[0]["text"].as_str().expect("text").to_owned();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("an answer"))
        .collect()
}

#[tokio::test]
async fn a_server_asks_the_model_only_when_it_may_and_within_bounds() {
    let (servers, notes) = sampler().await;
    let ask = |text: &str| json!({"what": "sample", "text": text});
    let answers = sample(&servers, "mute", ask("hello")).await;
    assert_eq!(answers[0]["error"]["code"], -32601, "{answers:?}");
    let answers = sample(&servers, "asks", ask("hello")).await;
    assert_eq!(answers[0]["result"]["content"]["text"], "so it is", "{answers:?}");
    assert_eq!(answers[0]["result"]["model"], "m");
    for (arguments, code, words) in [
        (ask("no"), -1, "I would rather not"),
        (ask("nonsense"), -32603, "not a valid message"),
        (ask(&"x".repeat(2 << 20)), -32600, "too long"),
        (
            json!({"what": "sample", "text": "x", "tools": true}),
            -32602,
            "Sampling with tools",
        ),
    ] {
        let answers = sample(&servers, "asks", arguments).await;
        assert_eq!(answers[0]["error"]["code"], code, "{answers:?}");
        let said = answers[0]["error"]["message"].as_str().expect("a message");
        assert!(said.contains(words), "{said}");
    }
    let many = json!({"what": "sample", "text": "hello", "times": 40});
    let answers = sample(&servers, "asks", many).await;
    let refused = answers.iter().filter(|answer| answer["error"].is_object()).count();
    assert_eq!((answers.len(), refused >= 20), (40, true), "{refused}");
    let answers = sample(&servers, "asks", ask("again")).await;
    assert!(
        answers[0]["result"].is_object(),
        "another call begins to count anew: {answers:?}"
    );
    assert!(
        notes
            .all()
            .contains(&"asks asks the model \"hello\" as \"s0\"".to_owned())
    );
    assert!(!notes.all().iter().any(|note| note.starts_with("mute asks")));
}

#[tokio::test]
async fn what_a_server_asks_ends_with_the_call_it_is_for() {
    let (servers, notes) = sampler().await;
    let asked = async {
        while !notes.all().iter().any(|note| note.contains("\"wait\"")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waits = servers.call("asks", call("do", json!({"what": "sample", "text": "wait"})));
    tokio::select! {
        result = waits => panic!("{result:?}"),
        () = asked => {}
        () = tokio::time::sleep(LONG) => panic!("{:?}", notes.all()),
    }
    let until = Instant::now() + LONG;
    while !notes.all().contains(&"nobody waits".to_owned()) {
        assert!(Instant::now() < until, "{:?}", notes.all());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn nothing_is_asked_of_the_model_behind_ones_back() {
    let (servers, notes) = sampler().await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("answer");
    let arguments = json!({"what": "sample behind one's back", "text": "hello", "file": file});
    servers.call("asks", call("do", arguments)).await.expect("a result");
    let until = Instant::now() + LONG;
    let answer = loop {
        if let Ok(answer) = std::fs::read_to_string(&file)
            && answer.ends_with('\n')
        {
            break answer;
        }
        assert!(Instant::now() < until, "{:?}", notes.all());
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(answer.contains("while one of the server's tools runs"), "{answer}");
    assert!(
        !notes.all().iter().any(|note| note.contains("the model")),
        "{:?}",
        notes.all()
    );
}

#[tokio::test]
async fn a_server_that_cannot_list_its_tools_has_failed() {
    let (servers, _) = servers(&[("s", "cannot list its tools")]);
    servers.ready(LONG).await;
    let expected = "The server did not list its tools: the database is locked";
    assert_eq!(status(&servers, "s"), (Status::Failed, expected.to_owned()));
}

#[tokio::test]
async fn tools_that_only_run_as_tasks_are_not_offered_and_named() {
    let (servers, _) = servers(&[("s", "works in tasks")]);
    servers.ready(LONG).await;
    let names: Vec<String> = servers.tools().iter().map(|(_, tool)| tool.name.clone()).collect();
    assert_eq!(names, ["echo"]);
    assert_eq!(servers.info("s").expect("it is there").left_out, ["research"]);
}

#[tokio::test]
async fn a_tool_that_a_call_brings_is_there_for_the_next_one() {
    let (servers, _) = servers(&[("s", "is kind")]);
    servers.ready(LONG).await;
    assert_eq!(text(&told_to(&servers, "s", "grow").await.expect("an answer")), "grown");
    servers.lists_read().await;
    let names: Vec<String> = servers.tools().iter().map(|(_, tool)| tool.name.clone()).collect();
    assert_eq!(names, ["grown"]);
}

#[tokio::test]
async fn servers_are_told_the_directories_of_the_session() {
    let (servers, _) = servers(&[("s", "is kind")]);
    servers.ready(LONG).await;
    let answer = told_to(&servers, "s", "roots").await.expect("an answer");
    let answer: Value = serde_json::from_str(text(&answer)).expect("an answer to roots/list");
    let expected = json!([
        {"uri": "file:///work/a%20project", "name": "a project"},
        {"uri": "file:///work/more", "name": "more"},
    ]);
    assert_eq!(answer["result"]["roots"], expected);
}

#[tokio::test]
async fn a_server_of_the_older_form_is_found_behind_a_plain_address() {
    let url = crate::older_form::start().await;
    let (servers, _) = servers(&[]);
    let config = ServerConfig::read(&json!({"url": url})).expect("a server");
    servers.add(vec![configured("old", config)]);
    servers.ready(LONG).await;
    assert_eq!(status(&servers, "old"), (Status::Connected, String::new()));
    assert_eq!(servers.tools().len(), 1);
}

#[tokio::test]
async fn the_scope_that_a_server_wants_is_told_as_it_came() {
    let url = crate::locked::start().await;
    let (servers, notes) = servers(&[]);
    let config = ServerConfig::read(&json!({"url": url})).expect("a server");
    servers.add(vec![configured("locked", config)]);
    servers.ready(LONG).await;
    assert_eq!(status(&servers, "locked"), (Status::Connected, String::new()));
    assert!(servers.call("locked", call("echo", json!({}))).await.is_err());
    let wanted: Vec<String> = notes.all().into_iter().filter(|note| note.contains("wants")).collect();
    assert_eq!(
        wanted,
        [
            "locked wants credentials: Initial for weave",
            "locked wants credentials: Upscope for dye",
        ]
    );
}

/// An installation that is cut in the middle leaves something behind that no later start gets over.
#[tokio::test]
async fn a_program_that_is_given_up_can_clean_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let (begun, cleaned) = (dir.path().join("begun"), dir.path().join("cleaned"));
    let script = format!(
        "trap 'touch {}; exit 0' TERM; touch {}; while true; do sleep 0.05; done",
        cleaned.display(),
        begun.display()
    );
    let (servers, _) = servers_within(&[], Some(Duration::from_millis(1500)));
    let installer = ServerConfig::read(&json!({"command": "sh", "args": ["-c", script]})).expect("a server");
    servers.add(vec![configured("installs", installer)]);
    servers.ready(LONG).await;
    assert_eq!(status(&servers, "installs").0, Status::Failed);
    assert!(begun.exists());
    until("it has cleaned up", || cleaned.exists()).await;
}

/// A program that installs itself until the file `go` is there, and is no server after all.
const INSTALLER: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
touch begun
while [ ! -e go ]; do sleep 0.02; done
touch whole
"#;

#[tokio::test]
async fn an_installation_goes_on_when_nobody_waits_for_it_any_more() {
    use std::os::unix::fs::PermissionsExt;
    type GiveUp = fn(&Servers);
    let ways: [(&str, GiveUp); 3] = [
        ("it is turned off", |servers| {
            servers.disable("installs").expect("known")
        }),
        ("it is forgotten", |servers| servers.forget(&["installs".to_owned()])),
        ("the session ends", |_| {}),
    ];
    for (way, give_up) in ways {
        let dir = tempfile::tempdir().expect("a directory");
        let npx = dir.path().join("npx");
        std::fs::write(&npx, INSTALLER).expect("a program");
        std::fs::set_permissions(&npx, std::fs::Permissions::from_mode(0o755)).expect("it can be run");
        let (servers, _) = servers(&[]);
        let installer = ServerConfig::read(&json!({"command": npx})).expect("a server");
        servers.add(vec![configured("installs", installer)]);
        servers.ready(Duration::ZERO).await;
        until("it has begun", || dir.path().join("begun").exists()).await;
        give_up(&servers);
        servers.shutdown().await;
        drop(servers);
        assert!(*lodge_mcp::installations().borrow() > 0, "{way}");
        std::fs::write(dir.path().join("go"), "").expect("it may go on");
        until(way, || dir.path().join("whole").exists()).await;
        let mut installations = lodge_mcp::installations();
        let none = installations.wait_for(|installations| *installations == 0);
        tokio::time::timeout(LONG, none).await.expect(way).expect("counted");
    }
}
