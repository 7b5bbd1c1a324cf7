//! What the model server was paid for is what every sum in the program says: usage events, metrics, the shutdown, `/usage`, the
//! limit, and the state that AHP clients see.

use serde_json::{Value, json};
use testkit::{
    Home, events,
    model_server::{ModelServer, Reply},
};

use crate::{
    accepted::Client,
    strangers::{Host, Sdk},
};

/// Calls, tokens in, tokens out, tokens from the cache, cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sums {
    calls: u64,
    input: u64,
    output: u64,
    cached: u64,
    cost: f64,
}

impl Sums {
    fn paid(server: &ModelServer) -> Self {
        let add = |sums: Self, usage: &lodge_models::Usage| Self {
            calls: sums.calls + 1,
            input: sums.input + usage.input_tokens.unwrap(),
            output: sums.output + usage.output_tokens.unwrap(),
            cached: sums.cached + usage.cache_read_tokens.unwrap(),
            cost: sums.cost + usage.cost.unwrap(),
        };
        server.paid().iter().fold(Self::default(), add)
    }

    /// Of events with one call each.
    fn of_usage(events: &[Value], kind: &str) -> Self {
        let number = |event: &Value, name: &str| event["data"][name].as_u64().unwrap();
        let add = |sums: Self, event: &&Value| Self {
            calls: sums.calls + 1,
            input: sums.input + number(event, "inputTokens"),
            output: sums.output + number(event, "outputTokens"),
            cached: sums.cached + number(event, "cacheReadTokens"),
            cost: sums.cost + event["data"]["cost"].as_f64().unwrap(),
        };
        events::of_kind(events, kind).iter().fold(Self::default(), add)
    }

    /// Of `modelMetrics`.
    fn of_metrics(metrics: &Value) -> Self {
        let models = metrics["modelMetrics"].as_object().unwrap();
        models.values().fold(Self::default(), |sums, model| Self {
            calls: sums.calls + model["requests"]["count"].as_u64().unwrap(),
            input: sums.input + model["usage"]["inputTokens"].as_u64().unwrap(),
            output: sums.output + model["usage"]["outputTokens"].as_u64().unwrap(),
            cached: sums.cached + model["usage"]["cacheReadTokens"].as_u64().unwrap(),
            cost: sums.cost + model["requests"]["cost"].as_f64().unwrap(),
        })
    }

    /// What AHP has words for.
    fn tokens(&self) -> [u64; 3] {
        [self.input, self.output, self.cached]
    }
}

/// An app that has the session open, and all events that it was sent.
struct App {
    sdk: Sdk,
    session: Value,
    events: Vec<Value>,
}

impl App {
    fn hear(&mut self, mut message: Value) {
        if message["method"] == "session.event" {
            self.events.push(message["params"]["event"].take());
        }
    }

    fn call(&mut self, method: &str, mut params: Value) -> Result<Value, Value> {
        params["sessionId"] = self.session.clone();
        let answer = self.sdk.call(method, params);
        while let Some(message) = self.sdk.waiting.pop_front() {
            self.hear(message);
        }
        answer
    }

    fn count(&self, kind: &str) -> usize {
        events::of_kind(&self.events, kind).len()
    }

    /// Reads until there are so many events of a type.
    fn until(&mut self, kind: &str, count: usize) {
        while self.count(kind) < count {
            let message = self.sdk.next();
            self.hear(message);
        }
    }

    fn send(&mut self, prompt: &str) {
        self.call("session.send", json!({ "prompt": prompt })).unwrap();
    }

    fn turn(&mut self, prompt: &str) {
        let before = self.count("session.idle");
        self.send(prompt);
        self.until("session.idle", before + 1);
    }
}

/// The tokens of all turns of all chats, as an AHP client sees them.
async fn shown_by_ahp(host: &Host, session: &Value) -> [u64; 3] {
    let mut ahp = Client::connect(&host.ahp_url(), "test").await;
    let state = ahp.subscribe(&format!("lodge:/{}", session.as_str().unwrap())).await;
    let mut sums = [0; 3];
    for chat in state["chats"].as_array().unwrap() {
        let chat = ahp.subscribe(chat["resource"].as_str().unwrap()).await;
        for turn in chat["turns"].as_array().unwrap() {
            let names = ["inputTokens", "outputTokens", "cacheReadTokens"];
            for (sum, name) in sums.iter_mut().zip(names) {
                *sum += turn["usage"][name].as_u64().unwrap_or_default();
            }
        }
    }
    sums
}

fn too_long() -> Reply {
    Reply::error(400, "context_length_exceeded", "This is too long.")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_face_adds_up_what_the_model_server_was_paid_for() {
    let server = ModelServer::counting();
    server.set_models(json!({ "data": [{ "id": "counter" }] }));
    let url = server.openai_url();
    let provider = format!("export LODGE_PROVIDER_BASE_URL={url} LODGE_PROVIDER_API_KEY=none LODGE_MODEL=counter");
    let host = Host::start_in(Home::new(), &provider);
    let mut sdk = Sdk::connect(&host);
    let new = json!({ "workingDirectory": host.home.work(), "streaming": true });
    let session = sdk.call("session.create", new).unwrap()["sessionId"].clone();
    let events = Vec::new();
    let mut app = App { sdk, session, events };
    app.call("session.permissions.setApproveAll", json!({ "enabled": true }))
        .unwrap();
    let command = json!({ "command": "true", "description": "Nothing" });

    app.turn("say one");
    app.turn(&format!("call bash {command} then say two"));
    // Attempts that fail: a busy server, one that broke down, a stream that breaks off, and a conversation that has to be
    // compacted.
    for failure in [
        Reply::error(429, "rate_limited", "Slowly.").header("retry-after-ms", "1"),
        Reply::error(503, "overloaded", "Not now.").header("retry-after-ms", "1"),
        Reply::text("This answer breaks off.").cut_after(400),
        too_long(),
    ] {
        server.reply(failure);
        app.turn("say after all");
    }
    // A sub-agent that is compacted, too.
    let task = json!({ "agent_type": "general-purpose", "name": "n", "description": "Looking", "prompt": "say found" });
    server.reply(Reply::call("task-1", "task", &task.to_string()));
    server.reply(Reply::call("bash-1", "bash", &command.to_string()));
    server.reply(too_long());
    app.turn("look for it");
    assert!(
        app.events
            .iter()
            .any(|event| event["type"] == "assistant.usage" && event["agentId"].is_string())
    );
    server.reply(Reply::error(402, "insufficient_quota", "You are out of credit."));
    app.turn("say nothing");
    // A turn that is stopped in the middle of its answer.
    app.send("slowly 50 ms, stream 2000 chunks");
    let (deltas, idles) = (app.count("assistant.message_delta"), app.count("session.idle"));
    app.until("assistant.message_delta", deltas + 1);
    app.call("session.abort", json!({})).unwrap();
    app.until("session.idle", idles + 1);
    // A compaction that a person wants, and one that is stopped.
    app.call("session.history.compact", json!({})).unwrap();
    server.reply(Reply::text("A summary that nobody waits for.").cut_after(200).hang());
    let (calls, abandoned) = (server.requests().len(), 2);
    let stopped = {
        let mut second = Sdk::connect(&host);
        let params = json!({ "sessionId": app.session });
        second
            .call(
                "session.resume",
                json!({ "sessionId": app.session, "disableResume": true }),
            )
            .unwrap();
        std::thread::spawn(move || second.call("session.history.compact", params))
    };
    server.received(calls + 1).await;
    app.call("session.history.abortManualCompaction", json!({})).unwrap();
    stopped.join().unwrap().unwrap_err();
    server.abandoned(abandoned).await;
    // Beside the conversation.
    app.call("session.ui.ephemeralQuery", json!({ "question": "say aside" }))
        .unwrap();
    let message = json!({ "role": "user", "content": { "type": "text", "text": "say sampled" } });
    let request = json!({ "messages": [message], "maxTokens": 50 });
    let sampling = json!({ "requestId": "sample-1", "serverName": "none", "mcpRequestId": 1, "request": request });
    let sampled = app.call("session.mcp.executeSampling", sampling).unwrap();
    assert_eq!(sampled["action"], "success", "{sampled}");
    app.turn("say last");

    let paid = Sums::paid(&server);
    assert_eq!(Sums::of_usage(&app.events, "assistant.usage"), paid);
    let mut compactions: Vec<bool> = events::of_kind(&app.events, "assistant.usage")
        .into_iter()
        .filter(|event| event["data"]["initiator"] == "compaction")
        .map(|event| event["agentId"].is_string())
        .collect();
    compactions.sort_unstable();
    assert_eq!(
        compactions,
        [false, false, true],
        "two of the session, and one of the sub-agent"
    );
    let log = || events::read_log(&host.home.logs()[0]);
    assert_eq!(Sums::of_usage(&log(), "lodge.usage"), paid);
    let metrics = app.call("session.usage.getMetrics", json!({})).unwrap();
    assert_eq!(Sums::of_metrics(&metrics), paid);
    assert_eq!(shown_by_ahp(&host, &app.session).await, paid.tokens());
    let usage = app.call("session.commands.invoke", json!({ "name": "usage" })).unwrap();
    let line = format!(
        "{} calls, {} tokens in ({} cached), {} out",
        paid.calls, paid.input, paid.cached, paid.output
    );
    assert!(usage["text"].as_str().unwrap().contains(&line), "{usage}");
    // What was not paid for failed, or was stopped: no call is lost.
    let failed = app.count("model.call_failure");
    assert_eq!(failed, 6);
    assert_eq!(server.requests().len(), paid.calls as usize + failed + abandoned);

    // The limit counts the same: this much is used up, and a little more is not.
    for (limit, answered) in [(paid.cost, false), (paid.cost + 0.01, true)] {
        let limits = json!({ "sessionLimits": { "maxAiCredits": limit } });
        app.call("session.options.update", limits).unwrap();
        let before = server.paid().len();
        app.turn("say within the limit");
        assert_eq!(server.paid().len() > before, answered, "{limit}");
    }
    let paid = Sums::paid(&server);
    app.call("session.shutdown", json!({})).unwrap();
    app.until("session.shutdown", 1);
    let shutdown = events::of_kind(&app.events, "session.shutdown")[0]["data"].clone();
    assert_eq!(Sums::of_metrics(&shutdown), paid);
    assert_eq!(Sums::of_usage(&app.events, "assistant.usage"), paid);
    let used = events::of_kind(&app.events, "assistant.usage");
    let milliseconds: u64 = used
        .iter()
        .map(|event| event["data"]["duration"].as_u64().unwrap())
        .sum();
    assert_eq!(shutdown["totalApiDurationMs"], milliseconds);
    // Whoever comes later sees what the log says.
    assert_eq!(shown_by_ahp(&host, &app.session).await, paid.tokens());
}
