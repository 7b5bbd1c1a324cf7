//! What a model was paid for is what every sum says: usage events, the log, the shutdown, limits and `/usage`.

use std::sync::Arc;

use futures_util::{StreamExt, stream::BoxStream};
use lodge_events::{AbortReason, AssistantUsage, Event, LodgeUsage, Payload, SessionShutdown};
use lodge_host::{Approval, Change, ModelChoice, NewSession, Prompt};
use lodge_models::{Chunk, Model, ModelError, ModelInfo, ModelRequest, Rehearsal};
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    kit::{house, log_of},
    truth::as_killed,
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
    fn add(&mut self, (input, output, cached): (Option<u64>, Option<u64>, Option<u64>), cost: Option<f64>) {
        self.calls += 1;
        self.input += input.unwrap();
        self.output += output.unwrap();
        self.cached += cached.unwrap();
        self.cost += cost.unwrap();
    }

    fn of_usage_events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut sums = Self::default();
        for usage in events.into_iter().filter_map(|event| event.get::<AssistantUsage>()) {
            let tokens = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens);
            sums.add(tokens, usage.cost);
        }
        sums
    }

    fn of_log(log: &[Event]) -> Self {
        let mut sums = Self::default();
        for usage in log.iter().filter_map(|event| event.get::<LodgeUsage>()) {
            let tokens = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens);
            sums.add(tokens, usage.cost);
        }
        sums
    }

    fn of_shutdown(log: &[Event]) -> Self {
        let mut shutdowns = log.iter().filter_map(|event| event.get::<SessionShutdown>());
        let metrics = &shutdowns.next_back().unwrap().model_metrics;
        metrics.values().fold(Self::default(), |sums, model| Self {
            calls: sums.calls + model.requests.count.unwrap(),
            input: sums.input + model.usage.input_tokens,
            output: sums.output + model.usage.output_tokens,
            cached: sums.cached + model.usage.cache_read_tokens,
            cost: sums.cost + model.requests.cost.unwrap(),
        })
    }
}

/// The offline model with a price. What it writes down is what it gave out whole answers for.
struct Ledger {
    inner: Rehearsal,
    sums: Arc<Mutex<Sums>>,
}

impl Model for Ledger {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let sums = self.sums.clone();
        let priced = self.inner.call(request).map(move |chunk| match chunk {
            Ok(Chunk::Done(mut completion)) => {
                let mut sums = sums.lock();
                // No two calls are alike, so that no sum is right by chance.
                let number = sums.calls + 1;
                let usage = &mut completion.usage;
                usage.input_tokens = Some(1000 + number);
                usage.output_tokens = Some(100 + 3 * number);
                usage.cache_read_tokens = Some(10 + 7 * number);
                usage.cost = Some(0.25 * number as f64);
                let tokens = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens);
                sums.add(tokens, usage.cost);
                drop(sums);
                Ok(Chunk::Done(completion))
            }
            other => other,
        });
        priced.boxed()
    }
}

#[tokio::test]
async fn every_sum_is_what_the_model_was_paid_for() {
    let house = house();
    let sums = Arc::<Mutex<Sums>>::default();
    let model = Arc::new(Ledger {
        inner: Rehearsal::new(),
        sums: sums.clone(),
    });
    let new = NewSession {
        model: ModelChoice::Given(model),
        approval: Approval::ApproveAll,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let mut told: Vec<Event> = Vec::new();
    let task = json!({"agent_type": "general-purpose", "name": "n", "description": "Looking", "prompt": "say found"});
    let command = json!({"command": "true", "description": "Nothing"});
    for prompt in [
        "say one".to_owned(),
        format!("call bash {command} then say two"),
        // A failed attempt, a compaction, and an attempt that succeeds.
        "fail with context too long 1 time then say fits".to_owned(),
        format!("call task {task} then say three"),
        "fail with quota".to_owned(),
    ] {
        probe.turn(&prompt).await;
        told.append(&mut probe.seen);
    }
    probe.send("slowly 50 ms, stream 2000 chunks").await;
    probe
        .until(|payload| matches!(payload, Payload::AssistantMessageDelta(_)).then_some(()))
        .await;
    probe.session.abort(AbortReason::UserInitiated).await.unwrap();
    probe.until_idle().await;
    told.append(&mut probe.seen);
    probe.session.compact(None).await.unwrap();
    probe.session.ask_aside("say aside".into()).await.unwrap();
    let sampling =
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": "say sampled"}}], "maxTokens": 50});
    probe.session.sample(&sampling).await.unwrap();
    probe.turn("say last").await;
    told.append(&mut probe.seen);

    let paid = *sums.lock();
    assert_eq!(paid.calls, 12, "one for each answer, whoever asked");
    assert_eq!(Sums::of_usage_events(&told), paid);
    assert_eq!(Sums::of_log(&log_of(&probe.session)), paid);
    let usage = probe
        .session
        .say(Prompt {
            text: "/usage".into(),
            ..Prompt::default()
        })
        .await
        .unwrap()
        .unwrap();
    let line = format!(
        "{} calls, {} tokens in ({} cached), {} out",
        paid.calls, paid.input, paid.cached, paid.output
    );
    assert!(usage.contains(&line), "{usage}");

    // The limit counts the same: this much is used up, and a little more is not.
    for (limit, answered) in [(paid.cost, false), (paid.cost + 0.01, true)] {
        probe.session.configure(Change::Limit(Some(limit))).await.unwrap();
        probe.turn("say within the limit").await;
        told.append(&mut probe.seen);
        assert_eq!(sums.lock().calls > paid.calls, answered, "{limit}");
    }
    let paid = *sums.lock();
    assert_eq!(Sums::of_usage_events(&told), paid);

    let id = probe.session.id().to_owned();
    house.host.close(&id).await;
    assert_eq!(Sums::of_shutdown(&log_of(&probe.session)), paid);
    // Nor does a host that knows only the files know anything else.
    let host = as_killed(&house.dir.path().join("home"), &house.dir.path().join("killed"), true);
    let session = host.resume(&id, lodge_host::Resume::default()).await.unwrap();
    let models = session.state().totals.models;
    let calls: u64 = models.values().map(|model| model.requests).sum();
    let cost: f64 = models.values().map(|model| model.cost).sum();
    assert_eq!((calls, cost), (paid.calls, paid.cost));
}
