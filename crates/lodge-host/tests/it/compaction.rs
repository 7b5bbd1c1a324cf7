//! Compaction against servers that measure, refuse and fall short.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use lodge_events::{
    AssistantMessage, Payload, SessionCompactionComplete, SessionCompactionStart, ToolExecutionComplete,
    ToolExecutionStart,
};
use lodge_host::{
    AgentDefinition, Approval, Compaction, Customization, ModelChoice, NewSession, SystemMessage, ToolFilter,
};
use lodge_models::{
    Catalogue, Chunk, Model, ModelError, ModelInfo, ModelRequest, ModelsConfig, ProviderConfig, ProviderType, Rehearsal,
};
use serde_json::json;
use testkit::model_server::{ModelServer, Reply};

use crate::kit::{Probe, house, log_of};

/// A model of the server, by the Messages API where the name says Claude.
pub(crate) fn model(server: &ModelServer, name: &str, change: impl FnOnce(&mut ProviderConfig)) -> Arc<dyn Model> {
    let claude = name.starts_with("claude");
    let mut provider = ProviderConfig {
        kind: claude.then_some(ProviderType::Anthropic),
        base_url: if claude { server.url() } else { server.openai_url() }.into(),
        ..ProviderConfig::default()
    };
    change(&mut provider);
    let catalogue = Catalogue::from(ModelsConfig::default(), |_| None).unwrap();
    catalogue.resolve_with_provider(&provider, Some(name), None).unwrap()
}

/// A session in which little but the conversation is sent.
fn lean(model: Arc<dyn Model>) -> NewSession {
    NewSession {
        model: ModelChoice::Given(model),
        approval: Approval::ApproveAll,
        system_message: SystemMessage::Replace {
            content: "You are brief.".into(),
        },
        tools: ToolFilter {
            available: Some(vec!["view".into()]),
            ..ToolFilter::default()
        },
        ..NewSession::default()
    }
}

fn compactions(probe: &Probe) -> Vec<SessionCompactionComplete> {
    let log = log_of(&probe.session);
    let done = log.iter().filter_map(|event| event.get::<SessionCompactionComplete>());
    done.cloned().collect()
}

/// What the model holds is not what Lodge believes: it learns so from refusals, of calls and of requests for summaries.
#[tokio::test]
async fn a_conversation_that_is_too_long_to_be_summarised_is_shortened_until_it_is_not() {
    for name in ["some-model", "claude-sonnet-4-5"] {
        let server = ModelServer::rehearsing();
        let house = house();
        let model = model(&server, name, |provider| provider.max_output_tokens = Some(100));
        let mut probe = house.session_with(lean(model)).await;
        for number in 0..4 {
            std::fs::write(
                house.cwd().join(format!("{number}.txt")),
                format!("{number} ").repeat(8_000),
            )
            .unwrap();
        }
        server.set_window(10_000, 4);
        for number in 0..4 {
            let path = house.cwd().join(format!("{number}.txt"));
            let call = json!({"path": path});
            probe.turn(&format!("call view {call} then say ok")).await;
            probe.turn(&format!("say still {number}")).await;
            let said = probe.said();
            assert!(said.contains(&format!("still {number}")), "{name} {number}: {said}");
            assert_eq!(probe.count("session.error"), 0, "{name} {number}");
        }
        let done = compactions(&probe);
        assert!(
            !done.is_empty() && done.iter().all(|done| done.success),
            "{name}: {done:?}"
        );
        assert!(
            done.iter().any(|done| done.token_limit.unwrap() < 10_000),
            "{name}: {done:?}"
        );
        assert!(
            done[0]
                .summary_content
                .as_ref()
                .unwrap()
                .contains("Summary by the rehearsal model")
        );
    }
}

/// The estimate of a conversation follows what the provider counts, so compaction begins before the provider refuses.
#[tokio::test]
async fn estimates_are_corrected_by_what_the_provider_counts() {
    let server = ModelServer::rehearsing();
    // Two bytes a token: twice what is estimated.
    server.set_window(31_000, 2);
    let house = house();
    let model = model(&server, "some-model", |provider| {
        provider.max_prompt_tokens = Some(30_000);
        provider.max_output_tokens = Some(500);
    });
    let mut probe = house.session_with(lean(model)).await;
    let page = "x".repeat(6_000);
    // Tokens told before each call, and those that the provider counted.
    let mut told: Vec<(u64, u64)> = Vec::new();
    for number in 0..20 {
        let answer = probe.turn(&format!("say {number}{page}")).await;
        assert_eq!(answer, format!("{number}{page}"));
        assert_eq!(probe.count("model.call_failure"), 0, "nothing was refused");
        let mut last = 0;
        for event in &probe.seen {
            match event.payload() {
                Payload::SessionUsageInfo(size) => last = size.current_tokens,
                Payload::AssistantUsage(used) if used.initiator.is_none() => {
                    told.push((last, used.input_tokens.unwrap()))
                }
                _ => {}
            }
        }
    }
    let done = compactions(&probe);
    assert!(!done.is_empty() && done.iter().all(|done| done.success), "{done:?}");
    assert!(
        told.len() == 20
            && told
                .iter()
                .skip(1)
                .all(|(told, counted)| told.abs_diff(*counted) < counted / 4),
        "{told:?}"
    );
}

#[tokio::test]
async fn what_is_no_summary_does_not_replace_the_conversation() {
    let server = ModelServer::start();
    let house = house();
    let mut probe = house.session_with(lean(model(&server, "some-model", |_| {}))).await;
    server.reply(Reply::text("first"));
    probe.turn("remember the word apple").await;
    for (reply, words) in [
        (Reply::text("half of").finish("length"), "cut off after 5 tokens"),
        (Reply::text("").finish("content_filter"), "withheld the summary"),
        (Reply::text(" "), "no summary"),
        (Reply::call("c", "view", "{}"), "called tools"),
    ] {
        server.reply(reply);
        let error = probe.session.compact(None).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        let done = compactions(&probe).pop().unwrap();
        assert!(!done.success && done.summary_content.is_none(), "{done:?}");
        assert!(done.error.unwrap().contains(words));
        let used = done.compaction_tokens_used.unwrap();
        assert_eq!((used.input_tokens, used.output_tokens), (Some(10), Some(5)));
    }
    server.reply(Reply::error(401, "invalid_api_key", "who are you").header("x-request-id", "r-7"));
    probe.session.compact(None).await.unwrap_err();
    let done = compactions(&probe).pop().unwrap();
    assert_eq!((done.status_code, done.request_id.as_deref()), (Some(401), Some("r-7")));
    server.reply(Reply::text("second"));
    probe.turn("and now?").await;
    let sent = server.last_request().body["messages"].to_string();
    assert!(
        sent.contains("remember the word apple") && sent.contains("first"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_summary_is_asked_for_like_any_other_answer() {
    let server = ModelServer::start();
    let house = house();
    let mut probe = house.session_with(lean(model(&server, "some-model", |_| {}))).await;
    server.reply(Reply::text("first"));
    probe.turn("one").await;
    let tools = server.last_request().body["tools"].clone();
    assert_eq!(tools.as_array().map(Vec::len), Some(1));
    let busy = || {
        for status in [429, 503] {
            server.reply(Reply::error(status, "busy", "later").header("retry-after-ms", "1"));
        }
    };
    busy();
    server.reply(Reply::text("aside"));
    assert_eq!(probe.session.ask_aside("why?".into()).await.unwrap(), "aside");
    assert_eq!(server.last_request().body["tools"], tools);
    server.reply(Reply::call("c", "view", "{}"));
    let error = probe.session.ask_aside("why?".into()).await.unwrap_err();
    assert!(error.to_string().contains("no answer in words"), "{error}");
    busy();
    server.reply(Reply::text("in short"));
    probe.seen.clear();
    let compacted = probe.session.compact(None).await.unwrap();
    assert_eq!(compacted.summary, "in short");
    assert_eq!(server.last_request().body["tools"], tools);
    let told = probe
        .until(|payload| match payload {
            Payload::SessionUsageInfo(told) => Some(told.clone()),
            _ => None,
        })
        .await;
    let done = compactions(&probe).pop().unwrap();
    assert_eq!(told.conversation_tokens, done.post_compaction_tokens);
}

#[tokio::test]
async fn a_compaction_that_failed_is_not_tried_again_before_every_call() {
    let server = ModelServer::start();
    let house = house();
    let new = NewSession {
        compaction: Compaction {
            enabled: true,
            threshold: 1e-9,
            exhaustion: 1e-9,
        },
        ..lean(model(&server, "some-model", |_| {}))
    };
    let mut probe = house.session_with(new).await;
    let begun = |probe: &Probe| probe.count("session.compaction_start");
    server
        .reply(Reply::text("").finish("content_filter"))
        .reply(Reply::call("c", "view", "{}"))
        .reply(Reply::text("done"));
    assert_eq!(probe.turn("go").await, "done");
    assert_eq!(begun(&probe), 1);
    // A twentieth of the room later it is tried again.
    server.reply(Reply::text("in short")).reply(Reply::text("done"));
    assert_eq!(probe.turn(&"long ".repeat(6_000)).await, "done");
    assert_eq!(begun(&probe), 1, "{:?}", probe.kinds());
    assert!(compactions(&probe).pop().unwrap().success);
}

/// In a small window, the summary and what is sent with it may take more than the threshold.
#[tokio::test]
async fn a_compaction_that_leaves_too_much_is_not_repeated_before_every_call() {
    let server = ModelServer::start();
    let house = house();
    let small = model(&server, "claude-sonnet-4-5", |provider| {
        provider.max_prompt_tokens = Some(8_000);
        provider.max_output_tokens = Some(4_000);
    });
    let new = NewSession {
        compaction: Compaction {
            enabled: true,
            threshold: 1e-9,
            exhaustion: 1e-9,
        },
        ..lean(small)
    };
    let mut probe = house.session_with(new).await;
    server
        .reply(Reply::text("in short"))
        .reply(Reply::call("c", "view", "{}"))
        .reply(Reply::text("done"));
    assert_eq!(probe.turn("go").await, "done");
    assert_eq!(probe.count("session.compaction_start"), 1, "{:?}", probe.kinds());
    assert_eq!(
        server.requests()[0].body["max_tokens"],
        2_000,
        "a quarter of the prompt"
    );
    // As much later, it is worth another attempt.
    server.reply(Reply::text("in short")).reply(Reply::text("done"));
    assert_eq!(probe.turn(&"long ".repeat(2_000)).await, "done");
    assert_eq!(probe.count("session.compaction_start"), 1, "{:?}", probe.kinds());
}

/// The offline model, of which the first summary never comes.
struct Stuck {
    inner: Rehearsal,
    asked: AtomicBool,
}

impl Model for Stuck {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let is_summary = request.longest_answer.is_some();
        match is_summary && !self.asked.swap(true, Ordering::Relaxed) {
            true => stream::pending().boxed(),
            false => self.inner.call(request),
        }
    }
}

#[tokio::test]
async fn a_compaction_for_a_person_takes_the_place_of_the_one_beside_the_turns() {
    let house = house();
    let stuck = Stuck {
        inner: Rehearsal::new(),
        asked: AtomicBool::new(false),
    };
    let new = NewSession {
        compaction: Compaction {
            enabled: true,
            threshold: 1e-9,
            exhaustion: 1.0,
        },
        ..lean(Arc::new(stuck))
    };
    let mut probe = house.session_with(new).await;
    assert_eq!(probe.turn("say apples").await, "apples");
    let compacted = probe.session.compact(None).await.unwrap();
    assert_eq!(compacted.messages_removed, 2, "the question and its answer");
    let succeeded: Vec<bool> = compactions(&probe).iter().map(|done| done.success).collect();
    assert_eq!(succeeded, [false, true], "{:?}", probe.kinds());
    assert_eq!(probe.turn("say pears").await, "pears");
}

/// The offline model under another name.
struct Named {
    inner: Rehearsal,
    info: ModelInfo,
}

impl Model for Named {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        self.inner.call(request)
    }
}

#[tokio::test]
async fn what_an_agents_own_model_does_is_told_under_its_name() {
    let house = house();
    let inner = Rehearsal::new();
    let info = ModelInfo {
        id: "the-sessions".into(),
        ..inner.info().clone()
    };
    let new = NewSession {
        customization: Customization {
            agents: vec![AgentDefinition {
                name: "poet".into(),
                prompt: "You are a poet.".into(),
                model: Some(Rehearsal::ID.into()),
                ..AgentDefinition::default()
            }],
            ..Customization::default()
        },
        agent: Some("poet".into()),
        model: ModelChoice::Given(Arc::new(Named { inner, info })),
        approval: Approval::ApproveAll,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    probe.turn(r#"call bash {"command":"true"} then say done"#).await;
    probe.session.compact(None).await.unwrap();
    let log = log_of(&probe.session);
    let mut models: Vec<(&str, Option<String>)> = Vec::new();
    for event in &log {
        if let Some(message) = event.get::<AssistantMessage>() {
            models.push(("message", message.model.clone()));
        }
        if let Some(start) = event.get::<ToolExecutionStart>() {
            models.push(("start", start.model.clone()));
        }
        if let Some(done) = event.get::<ToolExecutionComplete>() {
            models.push(("complete", done.model.clone()));
        }
        if let Some(start) = event.get::<SessionCompactionStart>() {
            models.push(("compaction", start.model.clone()));
        }
        if let Some(done) = event.get::<SessionCompactionComplete>() {
            let used = done.compaction_tokens_used.as_ref().unwrap();
            models.push(("compacted", used.model.clone()));
        }
    }
    assert_eq!(models.len(), 6, "{models:?}");
    let others: Vec<_> = models
        .iter()
        .filter(|(_, model)| model.as_deref() != Some(Rehearsal::ID))
        .collect();
    assert!(others.is_empty(), "{models:?}");
}
