//! What goes on, as OTLP.

use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Reply};

use crate::kit::*;

fn attribute(record: &Value, name: &str) -> Value {
    let all = record["attributes"].as_array().into_iter().flatten();
    let mut found = all.filter(|attribute| attribute["key"] == name);
    found.next().map(|found| found["value"].clone()).unwrap_or_default()
}

/// Everything that was exported to a client, by the method.
#[derive(Default)]
struct Heard(Vec<(String, Value)>);

impl Heard {
    fn take(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let lists = match method.as_str() {
            "otlp/exportLogs" => ["resourceLogs", "scopeLogs", "logRecords"],
            "otlp/exportTraces" => ["resourceSpans", "scopeSpans", "spans"],
            "otlp/exportMetrics" => ["resourceMetrics", "scopeMetrics", "metrics"],
            _ => return,
        };
        let records = &message["params"]["payload"][lists[0]][0][lists[1]][0][lists[2]];
        let records = records.as_array().into_iter().flatten();
        self.0.extend(records.map(|record| (method.clone(), record.clone())));
    }

    /// The first record that fits, as soon as there is one.
    async fn find(&mut self, client: &mut Client, method: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let found = self.0.iter().find(|(of, record)| of == method && fits(record));
            if let Some((_, record)) = found {
                return record.clone();
            }
            let next = client
                .until(|message| {
                    message["method"]
                        .as_str()
                        .is_some_and(|method| method.starts_with("otlp/"))
                })
                .await;
            self.take(&next);
        }
    }
}

const LOGS: &str = "otlp/exportLogs";
const SPANS: &str = "otlp/exportTraces";
const METRICS: &str = "otlp/exportMetrics";

#[tokio::test]
async fn whoever_listens_gets_logs_spans_and_metrics_without_secrets() {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    let mut a = house.connect().await;
    let params =
        json!({ "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": "a", "initialSubscriptions": [ROOT] });
    let told = a.request("initialize", params).await.unwrap();
    assert_eq!(
        told["telemetry"],
        json!({ "logs": "ahp-otlp:/logs/{level}", "traces": "ahp-otlp:/traces", "metrics": "ahp-otlp:/metrics" })
    );
    let (session, chat) = a.session(&uuid(1)).await;
    let mut b = house.client("b").await;
    for uri in ["ahp-otlp:/logs/debug", "ahp-otlp:/traces", "ahp-otlp:/metrics"] {
        let answer = b.request("subscribe", json!({ "channel": uri })).await.unwrap();
        assert_eq!(answer, json!({}), "{uri}");
    }
    let mut quiet = house.client("quiet").await;
    quiet
        .request("subscribe", json!({ "channel": "ahp-otlp:/logs/ERROR" }))
        .await
        .unwrap();
    for odd in ["ahp-otlp:/logs/loud", "ahp-otlp:/else", "ahp-otlp:"] {
        assert_eq!(b.code("subscribe", json!({ "channel": odd })).await, -32001, "{odd}");
    }
    let (mut heard, mut errors) = (Heard::default(), Heard::default());
    models.reply(Reply::call("c1", "view", "{\"path\":\".\"}"));
    models.reply(Reply::text("a secret plan"));
    a.turn(&chat, "t1", "my words").await;
    let started = heard
        .find(&mut b, LOGS, |it| {
            attribute(it, "event.name")["stringValue"] == "tool.execution_start"
        })
        .await;
    assert_eq!(started["severityNumber"], 5);
    assert_eq!(started["body"]["stringValue"], "tool.execution_start: view");
    assert_eq!(attribute(&started, "ahp.session.id")["stringValue"], session);
    assert_eq!(attribute(&started, "ahp.turn.id")["stringValue"], "t1");
    assert_eq!(attribute(&started, "ahp.tool_call.id")["stringValue"], "c1");
    let tool = heard.find(&mut b, SPANS, |it| it["name"] == "execute_tool view").await;
    let turn = heard.find(&mut b, SPANS, |it| it["name"] == "invoke_agent lodge").await;
    assert_eq!(
        (&tool["traceId"], &tool["parentSpanId"]),
        (&turn["traceId"], &turn["spanId"])
    );
    assert_eq!(
        (
            turn["traceId"].as_str().unwrap().len(),
            turn["spanId"].as_str().unwrap().len()
        ),
        (32, 16)
    );
    let nanos = |it: &Value| it.as_str().unwrap().parse::<u128>().unwrap();
    assert!(nanos(&turn["startTimeUnixNano"]) <= nanos(&turn["endTimeUnixNano"]));
    let calls = heard.find(&mut b, METRICS, |it| it["name"] == "lodge.tool.calls").await;
    assert_eq!(calls["sum"]["dataPoints"][0]["asInt"], "1");
    assert_eq!(
        attribute(&calls["sum"]["dataPoints"][0], "gen_ai.tool.name")["stringValue"],
        "view"
    );
    // An error is told, without the key in it; who wants errors gets nothing else.
    models.reply(Reply::error(
        401,
        "invalid_api_key",
        "Incorrect API key provided: sk-0123456789abcdef",
    ));
    a.turn(&chat, "t2", "my words").await;
    let failed = errors.find(&mut quiet, LOGS, |_| true).await;
    assert_eq!(failed["severityNumber"], 17, "{failed:#}");
    assert!(errors.0.iter().all(|(_, record)| record["severityNumber"] == 17));
    let error = heard
        .find(&mut b, LOGS, |it| {
            attribute(it, "event.name")["stringValue"] == "session.error"
        })
        .await;
    assert!(
        error["body"]["stringValue"].as_str().unwrap().contains("***"),
        "{error:#}"
    );
    for (client, heard) in [(&mut b, &mut heard), (&mut quiet, &mut errors)] {
        for message in client.drain().await {
            heard.take(&message);
        }
        let text = json!(heard.0).to_string();
        for secret in ["sk-0123456789abcdef", "my words", "a secret plan"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    // Nobody says anything there but the host, and who leaves hears no more.
    b.notify("unsubscribe", json!({ "channel": "ahp-otlp:/traces" })).await;
    b.request("ping", json!({ "channel": ROOT })).await.unwrap();
    for message in b.drain().await {
        heard.take(&message);
    }
    let spans = heard.0.iter().filter(|(of, _)| of == SPANS).count();
    models.reply(Reply::text("yes"));
    a.turn(&chat, "t3", "again").await;
    heard
        .find(&mut b, LOGS, |it| attribute(it, "ahp.turn.id")["stringValue"] == "t3")
        .await;
    for message in b.drain().await {
        heard.take(&message);
    }
    assert_eq!(heard.0.iter().filter(|(of, _)| of == SPANS).count(), spans);
}

#[tokio::test]
async fn telemetry_is_not_replayed_and_does_not_hinder_coming_back() {
    let (house, mut a, session, chat) = at_home().await;
    a.request("subscribe", json!({ "channel": "ahp-otlp:/logs/info" }))
        .await
        .unwrap();
    a.turn(&chat, "t1", "say hello").await;
    a.notification("otlp/exportLogs").await;
    let seen = a.last_seq;
    drop(a);
    let mut other = house.client("b").await;
    other.subscribe(&chat).await;
    other.turn(&chat, "t2", "say more").await;
    let mut a = house.connect().await;
    let back = json!({
        "channel": ROOT, "clientId": "a", "lastSeenServerSeq": seen,
        "subscriptions": [session, chat, "ahp-otlp:/logs/info"],
    });
    let back = a.request("reconnect", back).await.unwrap();
    assert_eq!(
        (&back["type"], &back["missing"]),
        (&json!("replay"), &json!([])),
        "{back:#}"
    );
    other.turn(&chat, "t3", "say more").await;
    a.notification("otlp/exportLogs").await;
}

/// What the host says in its own log is for whoever listens, from the level on that it wants.
#[tokio::test]
async fn lines_of_the_host_itself_are_logs_too() {
    use tracing::Level;
    let mut house = house().await;
    house.server.take().unwrap().shutdown().await;
    let lines = std::sync::Arc::new(lodge_telemetry::Lines::default());
    let config = lodge_ahp::AhpConfig {
        lines: lines.clone(),
        ..config()
    };
    house.server = Some(Server::start(&house.host, config).await);
    assert!(!lines.are_heard(Level::ERROR));
    let mut a = house.client("a").await;
    a.request("subscribe", json!({ "channel": "ahp-otlp:/logs/warn" }))
        .await
        .unwrap();
    assert!(lines.are_heard(Level::WARN) && !lines.are_heard(Level::INFO));
    lines.add(Level::WARN, "lodge::door", &format!("knocked with {TOKEN}"));
    let mut heard = Heard::default();
    let record = heard
        .find(&mut a, LOGS, |record| {
            attribute(record, "code.namespace")["stringValue"] == "lodge::door"
        })
        .await;
    assert_eq!(record["severityText"], "WARN");
    assert_eq!(record["body"]["stringValue"], "knocked with ***");
    a.notify("unsubscribe", json!({ "channel": "ahp-otlp:/logs/warn" }))
        .await;
    while lines.are_heard(Level::ERROR) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
