//! What watches over a host sees: alive, ready, numbers.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use testkit::{Home, Running};

use crate::chat::Screen;

/// Status and body of an answer.
pub(crate) fn get(address: &str, path: &str, headers: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(
        socket,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"
    )
    .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn start(home: &Home) -> (Running, String) {
    let mut host = home.start(["--port", "0", "--sdk-port", "0"]);
    let line = host.line_with("AHP clients");
    let address = line
        .split_once("ws://")
        .unwrap()
        .1
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    host.line_with("Ctrl-C stops");
    (host, address)
}

fn value(metrics: &str, name: &str) -> f64 {
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}"))
        .parse()
        .unwrap()
}

#[test]
fn a_host_says_that_it_is_alive_and_ready_and_counts_what_it_does() {
    let home = Home::new();
    let (_host, address) = start(&home);
    assert_eq!(get(&address, "/healthz", ""), (200, "ok\n".to_owned()));
    assert_eq!(get(&address, "/readyz", ""), (200, "ready\n".to_owned()));
    let (status, before) = get(&address, "/metrics", "");
    assert_eq!((status, value(&before, "lodge_turns_total")), (200, 0.0));
    let _ = home.run(["run", "say one"]).ok();
    let _ = home
        .run(["run", "--yolo", r#"call bash {"command":"exit 3"} then say two"#])
        .ok();
    assert!(!home.run(["run", "fail with quota"]).status.success());
    let (_, after) = get(&address, "/metrics", "");
    assert_eq!(value(&after, "lodge_turns_total"), 3.0);
    assert_eq!(value(&after, "lodge_turn_seconds_count"), 3.0);
    assert_eq!(value(&after, "lodge_turn_errors_total"), 1.0);
    assert_eq!(value(&after, "lodge_sessions_stored"), 3.0);
    let calls = value(&after, "lodge_tool_calls_total{result=\"success\"}")
        + value(&after, "lodge_tool_calls_total{result=\"failure\"}");
    assert_eq!(calls, 1.0);
    assert_eq!(
        value(&after, "lodge_model_call_seconds_bucket{le=\"+Inf\"}"),
        value(&after, "lodge_model_call_seconds_count")
    );
    assert!(value(&after, "lodge_tokens_total{kind=\"output\"}") > 0.0);
    assert!(value(&after, "lodge_disk_free_bytes") > 0.0);
    // Every documented name is there, and every name is documented.
    let documented = include_str!("../../../../docs/service.md");
    for line in after.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        assert!(documented.contains(name), "{name} is not documented");
    }
    for name in documented.split('`').filter(|word| word.starts_with("lodge_")) {
        let name = name.split('{').next().unwrap();
        assert!(after.contains(&format!("# TYPE {name} ")), "{name} is not there");
    }
}

#[test]
fn a_page_from_elsewhere_learns_nothing() {
    let home = Home::new();
    let (_host, address) = start(&home);
    for path in ["/healthz", "/readyz", "/metrics"] {
        let (status, _) = get(&address, path, "Origin: https://evil.example\r\n");
        assert_eq!(status, 403, "{path}");
    }
}

#[test]
fn numbers_need_the_token_where_others_reach_the_port() {
    let home = Home::new();
    let _ = home.run(["tls", "init"]).ok();
    // Only the address decides, so the test can stay on this machine.
    let mut host = home.start(["--listen", "0.0.0.0:0", "--sdk-port", "0"]);
    let line = host.line_with("AHP clients");
    assert!(line.contains("wss://"), "{line}");
    host.line_with("Ctrl-C stops");
    let port = line.rsplit(':').next().unwrap().trim_matches('/').to_owned();
    let token = std::fs::read_to_string(home.path().join("token")).unwrap();
    let ask = |token: Option<&str>| {
        let mut curl = std::process::Command::new("curl");
        curl.args([
            "--silent",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
            "--noproxy",
            "*",
            "--cacert",
        ]);
        curl.arg(home.path().join("tls/cert.pem"));
        if let Some(token) = token {
            curl.arg("--header").arg(format!("Authorization: Bearer {token}"));
        }
        let output = curl.arg(format!("https://localhost:{port}/metrics")).output();
        output
            .ok()
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(without) = ask(None) else {
        return testkit::skip("curl is not installed: the certificate is not tried with it");
    };
    assert_eq!(without, "401");
    assert_eq!(ask(Some(token.trim())).unwrap(), "200");
}

#[test]
fn what_waits_is_in_the_metrics_while_it_waits() {
    let home = Home::new();
    let (_host, address) = start(&home);
    let until = |expected: [f64; 3]| {
        let names = ["lodge_sessions_busy", "lodge_questions_open", "lodge_messages_queued"];
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            let (_, text) = get(&address, "/metrics", "");
            let found = names.map(|name| value(&text, name));
            if found == expected {
                return;
            }
            assert!(Instant::now() < patience, "{found:?}, never {expected:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let mut screen = Screen::start(&home, &[], 100);
    screen.until_shows("Type a message");
    screen.say(r#"call create {"path":"c.txt","file_text":"x"}"#);
    screen.until_shows("Deny, and say why");
    until([1.0, 1.0, 0.0]);
    screen.press("2");
    until([0.0, 0.0, 0.0]);
    screen.say(r#"call bash {"command":"sleep 600"}"#);
    screen.until_shows("Deny, and say why");
    screen.press("1");
    until([1.0, 0.0, 0.0]);
    screen.say("say next");
    until([1.0, 0.0, 1.0]);
    let (_, text) = get(&address, "/metrics", "");
    // Where there is a jail, the command is tried in it first.
    assert!(value(&text, "lodge_questions_total") >= 1.0);
    screen.leave();
}
