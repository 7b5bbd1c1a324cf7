//! The seeds to the letter: what events say, and in which order they come.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::BoxStream};
use lodge_events::{
    AbortReason, AssistantMessage, AssistantReasoning, AssistantUsage, ContentBlock, Event, LodgeUsage,
    ModelCallFailure, Payload, SessionContextChanged, SessionError, SessionIdle, SessionShutdown, SessionUsageInfo,
    ToolExecutionComplete, ToolExecutionStart,
};
use lodge_host::{Approval, Capabilities, Ending, ModelChoice, NewSession, Prompt, Supply};
use lodge_models::{
    Chunk, Completion, CopilotUsage, ErrorKind, Message, Model, ModelError, ModelInfo, ModelRequest, Part, Rehearsal,
    ToolCall,
};
use parking_lot::Mutex;
use serde_json::json;
use testkit::model_server::{ModelServer, Reply};

use crate::kit::{Probe, house, log_of};

/// The offline model, and what it was asked last.
struct Overheard {
    inner: Rehearsal,
    last: Mutex<Option<Arc<ModelRequest>>>,
}

impl Overheard {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: Rehearsal::new(),
            last: Mutex::new(None),
        })
    }

    fn session(self: &Arc<Self>) -> NewSession {
        NewSession {
            model: ModelChoice::Given(self.clone()),
            ..NewSession::default()
        }
    }

    /// The texts of the conversation that it was asked with last.
    fn texts(&self) -> Vec<String> {
        let last = self.last.lock().clone().unwrap();
        let texts = last.messages.iter().map(|message| match message {
            Message::User(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    Part::Text(text) => Some(&**text),
                    _ => None,
                })
                .collect(),
            Message::Assistant(message) => message.text.to_string(),
            Message::Tool { content, .. } => content.to_string(),
        });
        texts.collect()
    }
}

impl Model for Overheard {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        *self.last.lock() = Some(request.clone());
        self.inner.call(request)
    }
}

#[tokio::test]
async fn a_compaction_says_what_the_next_call_holds_and_what_it_used() {
    let house = house();
    let model = Overheard::new();
    let mut probe = house.session_with(model.session()).await;
    // What the person said is kept word for word beside the summary.
    probe.turn(&format!("say {}", "word ".repeat(1000))).await;
    probe.seen.clear();
    let compacted = probe.session.compact(None).await.unwrap();
    let done = probe
        .until(|payload| match payload {
            Payload::SessionCompactionComplete(done) => Some(done.clone()),
            _ => None,
        })
        .await;
    let used: Vec<AssistantUsage> = (probe.seen.iter())
        .filter_map(|event| event.get::<AssistantUsage>().cloned())
        .collect();
    let [used] = &used[..] else { panic!("{used:?}") };
    assert_eq!(used.initiator.as_deref(), Some("compaction"));
    let log = log_of(&probe.session);
    let paid = log
        .iter()
        .filter_map(|event| event.get::<LodgeUsage>())
        .next_back()
        .unwrap();
    assert_eq!(
        (paid.input_tokens, paid.output_tokens, paid.duration),
        (used.input_tokens, used.output_tokens, used.duration)
    );
    let tokens = done.compaction_tokens_used.as_ref().unwrap();
    assert_eq!(
        (tokens.input, tokens.output),
        (tokens.input_tokens, tokens.output_tokens)
    );
    assert!(tokens.input.is_some() && tokens.output.is_some() && tokens.cached_input.is_some());

    probe.turn("say next").await;
    let texts = model.texts();
    let [summary, _next] = &texts[..] else {
        panic!("{texts:?}")
    };
    let held = summary.len() as u64 / 4;
    assert_eq!(done.post_compaction_tokens, Some(held));
    assert_eq!(done.conversation_tokens, Some(held));
    let removed = done.pre_compaction_tokens.unwrap() as i64 - held as i64;
    assert_eq!(done.tokens_removed, Some(removed));
    assert_eq!(compacted.tokens_removed, removed);
    assert_eq!(
        (
            done.pre_compaction_messages_length,
            done.messages_removed,
            compacted.messages_removed
        ),
        (Some(2), Some(2), 2)
    );
}

#[tokio::test]
async fn the_person_can_let_the_agents_of_all_sessions_keep_facts() {
    let house = house();
    for keep in [false, true] {
        house.host.keep_memories(keep);
        let mut probe = house.session().await;
        let told = probe.turn("describe the request").await;
        assert_eq!(told.contains("store_memory"), keep, "{told}");
    }
}

#[tokio::test]
async fn hooks_hear_once_that_a_compaction_begins() {
    let house = house();
    let folder = house.dir.path().join("home/hooks");
    std::fs::create_dir_all(&folder).unwrap();
    let hook = serde_json::json!({"version": 1, "hooks": {"preCompact": [{"type": "command", "bash": "cat"}]}});
    std::fs::write(folder.join("hooks.json"), hook.to_string()).unwrap();
    let mut probe = house.session().await;
    probe.turn("say one").await;
    probe.session.compact(None).await.unwrap();
    let log = log_of(&probe.session);
    let heard = log.iter().filter(|event| match event.payload() {
        Payload::HookEnd(end) => end.hook_type == "preCompact",
        _ => false,
    });
    assert_eq!(heard.count(), 1);
}

#[tokio::test]
async fn how_a_session_ends_is_in_its_last_event() {
    let house = house();
    let cases = [
        (Ending::Routine, "routine", None, AbortReason::UserInitiated),
        (
            Ending::Error(Some("the app broke".into())),
            "error",
            Some("the app broke"),
            AbortReason::UserInitiated,
        ),
        (Ending::Error(None), "error", None, AbortReason::UserInitiated),
        (
            Ending::HostStops(AbortReason::RemoteCommand),
            "routine",
            None,
            AbortReason::RemoteCommand,
        ),
    ];
    for (ending, kind, why, reason) in cases {
        let mut probe = house.session().await;
        probe.send("wait 600 s").await;
        probe
            .until(|payload| matches!(payload, Payload::ModelCallStart(_)).then_some(()))
            .await;
        house.host.end(probe.session.id(), ending).await;
        let log = log_of(&probe.session);
        let shutdown = log
            .iter()
            .filter_map(|event| event.get::<SessionShutdown>())
            .next_back()
            .unwrap();
        assert_eq!(shutdown.shutdown_type.to_string(), kind);
        assert_eq!(shutdown.error_reason.as_deref(), why);
        assert_eq!(shutdown.total_premium_requests.to_bits(), 0.0f64.to_bits());
        let aborted = log.iter().find_map(|event| match event.payload() {
            Payload::Abort(abort) => Some(abort.reason.clone()),
            _ => None,
        });
        assert_eq!(aborted, Some(reason));
    }
}

/// Plays one list of chunks for each call. A list without an end breaks off.
struct Scripted {
    info: ModelInfo,
    calls: Mutex<VecDeque<Vec<Chunk>>>,
}

impl Scripted {
    fn session(calls: impl IntoIterator<Item = Vec<Chunk>>) -> NewSession {
        let model = Arc::new(Self {
            info: Rehearsal::new().info().clone(),
            calls: Mutex::new(calls.into_iter().collect()),
        });
        NewSession {
            model: ModelChoice::Given(model),
            ..NewSession::default()
        }
    }
}

impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call(&self, _: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let chunks = self.calls.lock().pop_front().expect("a call that was not expected");
        let broken = (!matches!(chunks.last(), Some(Chunk::Done(_)))).then(|| ModelError {
            kind: ErrorKind::Connection,
            code: None,
            message: "The connection broke.".into(),
            status: None,
            retry_after: Some(Duration::ZERO),
            provider_call_id: None,
            retryable: true,
        });
        let chunks = chunks.into_iter().map(Ok).chain(broken.map(Err));
        futures_util::stream::iter(chunks.collect::<Vec<_>>()).boxed()
    }
}

fn text(text: &str) -> Chunk {
    Chunk::Text(text.into())
}

fn thought(text: &str) -> Chunk {
    Chunk::Reasoning(text.into())
}

fn done(text: &str, reasoning: &str) -> Chunk {
    let mut completion = Completion::default();
    completion.message.text = text.into();
    completion.message.reasoning_text = Some(reasoning.into());
    Chunk::Done(Box::new(completion))
}

fn calling(name: &str, arguments: &str) -> Chunk {
    let mut completion = Completion::default();
    completion.message.tool_calls = vec![ToolCall {
        id: "call-1".into(),
        name: name.into(),
        arguments: arguments.into(),
        custom: false,
    }];
    Chunk::Done(Box::new(completion))
}

/// What was thought and said, in the order in which it was told. Deltas have a `~`.
fn told(probe: &Probe) -> Vec<String> {
    let told = probe.seen.iter().filter_map(|event| match event.payload() {
        Payload::AssistantReasoningDelta(delta) => Some(format!("~think {}", delta.delta_content)),
        Payload::AssistantReasoning(thought) => Some(format!("think {}", thought.content)),
        Payload::AssistantMessageDelta(delta) => Some(format!("~say {}", delta.delta_content)),
        Payload::AssistantMessage(message) => Some(format!("say {}", message.content)),
        _ => None,
    });
    told.collect()
}

#[tokio::test]
async fn reasoning_is_recorded_before_what_follows_it_and_never_twice() {
    // (the attempts, what is told)
    let cases: [(Vec<Vec<Chunk>>, &[&str]); 5] = [
        (
            vec![vec![thought("a"), thought("b"), text("c"), text("d"), done("cd", "ab")]],
            &["~think a", "~think b", "think ab", "~say c", "~say d", "say cd"],
        ),
        // Thoughts between two pieces of text are a block of their own.
        (
            vec![vec![thought("a"), text("b"), thought("c"), text("d"), done("bd", "ac")]],
            &[
                "~think a", "think a", "~say b", "~think c", "think c", "~say d", "say bd",
            ],
        ),
        // An attempt that thinks the same adds nothing.
        (
            vec![
                vec![thought("a"), text("b")],
                vec![thought("a"), text("b"), text("c"), done("bc", "a")],
            ],
            &["~think a", "think a", "~say b", "~say c", "say bc"],
        ),
        // One that thinks otherwise adds a block.
        (
            vec![
                vec![thought("a"), text("b")],
                vec![thought("x"), text("b"), text("c"), done("bc", "x")],
            ],
            &[
                "~think a", "think a", "~say b", "~think x", "think x", "~say c", "say bc",
            ],
        ),
        (
            vec![vec![thought("a"), done("", "a")]],
            &["~think a", "think a", "say "],
        ),
    ];
    let house = house();
    for (attempts, expected) in cases {
        let mut probe = house.session_with(Scripted::session(attempts)).await;
        probe.turn("go").await;
        assert_eq!(told(&probe), expected);
        let deltas = probe.seen.iter().filter_map(|event| match event.payload() {
            Payload::AssistantReasoningDelta(delta) => Some(delta.reasoning_id.clone()),
            _ => None,
        });
        let mut ids: Vec<_> = deltas.collect();
        ids.dedup();
        let blocks = probe.seen.iter().filter_map(|event| event.get::<AssistantReasoning>());
        let blocks: Vec<_> = blocks.map(|block| block.reasoning_id.clone()).collect();
        assert_eq!(ids, blocks, "each block has the id that its deltas had");
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_are_an_empty_one_and_the_model_reads_what_it_wrote() {
    let house = house();
    for (arguments, complaint) in [
        (r#"{"command": "ls"#, "not valid JSON"),
        (r#"["ls"]"#, "not a JSON object"),
        (r#""ls""#, "not a JSON object"),
    ] {
        let calls = [vec![calling("bash", arguments)], vec![done("over", "")]];
        let mut probe = house.session_with(Scripted::session(calls)).await;
        probe.turn("go").await;
        let message = probe
            .seen
            .iter()
            .find_map(|event| event.get::<AssistantMessage>())
            .unwrap();
        let requests = message.tool_requests.as_ref().unwrap();
        assert_eq!(requests[0].arguments, Some(json!({})));
        let start = probe
            .seen
            .iter()
            .find_map(|event| event.get::<ToolExecutionStart>())
            .unwrap();
        assert_eq!(start.arguments, Some(json!({})));
        let result = &probe.results()[0];
        assert!(result.contains(complaint) && result.contains(arguments), "{result}");
    }
    let calls = [vec![calling("bash", "null")], vec![done("over", "")]];
    let mut probe = house.session_with(Scripted::session(calls)).await;
    probe.turn("go").await;
    assert!(!probe.results()[0].contains("JSON"), "{:?}", probe.results());
}

/// How many model calls begin and end.
fn turn_ends(events: &[Event]) -> (usize, usize) {
    let count = |kind: &str| events.iter().filter(|event| event.kind() == kind).count();
    (count("assistant.turn_start"), count("assistant.turn_end"))
}

#[tokio::test]
async fn turns_that_fail_or_are_stopped_end_like_others() {
    let house = house();
    let mut probe = house.session().await;
    probe.turn("fail with quota").await;
    assert_eq!(turn_ends(&probe.seen), (1, 1), "{:?}", probe.kinds());
    probe.seen.clear();
    probe.send("wait 600 s").await;
    probe
        .until(|payload| matches!(payload, Payload::ModelCallStart(_)).then_some(()))
        .await;
    probe.session.abort(AbortReason::UserInitiated).await.unwrap();
    probe.until_idle().await;
    assert_eq!(turn_ends(&probe.seen), (1, 1), "{:?}", probe.kinds());
    assert_eq!(probe.turn("say still here").await, "still here");
    assert_eq!(turn_ends(&log_of(&probe.session)), (3, 3));
}

#[tokio::test]
async fn an_answer_whose_turn_failed_is_gone_on_with_or_kept() {
    let house = house();
    let broken = || std::iter::once(vec![text("Once upon")]).chain(std::iter::repeat_with(Vec::new).take(5));
    // Resumed, it is one answer.
    let calls = broken().chain([vec![text(" a time"), done(" a time", "")]]);
    let mut probe = house.session_with(Scripted::session(calls)).await;
    probe.turn("go").await;
    assert_eq!(probe.count("session.error"), 1, "{:?}", probe.kinds());
    assert!(probe.session.resume_failed().await.unwrap());
    probe.until_idle().await;
    let answers = |probe: &Probe| -> Vec<String> {
        let log = log_of(&probe.session);
        let answers = log.iter().filter_map(|event| event.get::<AssistantMessage>());
        answers.map(|answer| answer.content.clone()).collect()
    };
    assert_eq!(answers(&probe), ["Once upon a time"]);
    // Otherwise it is said before the next message.
    let calls = broken().chain([vec![done("Well.", "")]]);
    let mut probe = house.session_with(Scripted::session(calls)).await;
    probe.turn("go").await;
    probe.turn("something else").await;
    assert_eq!(answers(&probe), ["Once upon", "Well."]);
    let said = log_of(&probe.session)
        .into_iter()
        .filter(|event| matches!(event.payload(), Payload::UserMessage(_) | Payload::AssistantMessage(_)));
    let kinds: Vec<_> = said.map(|event| event.kind().to_owned()).collect();
    let (user, agent) = ("user.message", "assistant.message");
    assert_eq!(kinds, [user, agent, user, agent]);
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_somebody_is_asked_says_what_it_was() {
    let house = house();
    let new = NewSession {
        approval: Approval::Ask,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let _client = probe
        .attach(Capabilities {
            permissions: true,
            ..Capabilities::default()
        })
        .await;
    let path = house.cwd().join("a.txt");
    let arguments = json!({"path": path, "file_text": "x"});
    probe.send(&format!("call create {arguments} then say done")).await;
    probe
        .until(|payload| matches!(payload, Payload::PermissionRequested(_)).then_some(()))
        .await;
    probe.session.abort(AbortReason::UserInitiated).await.unwrap();
    probe.until_idle().await;
    let start = probe
        .seen
        .iter()
        .find_map(|event| event.get::<ToolExecutionStart>())
        .unwrap();
    assert_eq!(start.arguments, Some(arguments));
    assert_eq!(start.model.as_deref(), Some(Rehearsal::ID));
    let find = |event: &Event| event.get::<ToolExecutionComplete>().cloned();
    let done = probe.seen.iter().find_map(find).unwrap();
    assert_eq!(done.model.as_deref(), Some(Rehearsal::ID));
    let message = probe.seen.iter().find_map(|event| event.get::<AssistantMessage>());
    let message = message.unwrap();
    assert!(done.interaction_id.is_some() && done.turn_id.is_some());
    assert_eq!(
        (&done.interaction_id, &done.turn_id, &start.turn_id),
        (&message.interaction_id, &message.turn_id, &message.turn_id)
    );
    assert_eq!(turn_ends(&probe.seen), (1, 1));
    assert!(!path.exists());
}

#[tokio::test]
async fn usage_says_whose_call_it_was_and_what_it_cost() {
    let house = house();
    let new = NewSession {
        approval: Approval::ApproveAll,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let task = json!({"agent_type": "general-purpose", "name": "n", "description": "Looking", "prompt": "say found"});
    probe.turn(&format!("call task {task} then say done")).await;
    let usages = probe.seen.iter().filter_map(|event| {
        let usage = event.get::<AssistantUsage>()?;
        let initiator = usage.initiator.as_deref();
        Some((event.agent_id().is_some(), initiator.map(str::to_owned), usage.cost))
    });
    let own = (false, None, Some(0.0));
    let of_agent = (true, Some("sub-agent".to_owned()), Some(0.0));
    assert_eq!(usages.collect::<Vec<_>>(), [own.clone(), of_agent, own]);
    let kinds = probe.kinds();
    let intent = kinds.iter().position(|kind| *kind == "assistant.intent").unwrap();
    let message = kinds.iter().position(|kind| *kind == "assistant.message").unwrap();
    assert!(intent < message, "{kinds:?}");
}

#[tokio::test]
async fn a_branch_that_the_agent_changes_is_told_once() {
    let house = house();
    let git = house.cwd().join(".git");
    std::fs::create_dir_all(&git).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let new = NewSession {
        approval: Approval::ApproveAll,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let switch = json!({"command": "echo ref: refs/heads/topic > .git/HEAD", "description": "Switching"});
    let look = json!({"command": "cat .git/HEAD", "description": "Looking"});
    probe
        .turn(&format!("call bash {switch} then call bash {look} then say done"))
        .await;
    let told = probe
        .seen
        .iter()
        .filter_map(|event| event.get::<SessionContextChanged>());
    let branches: Vec<_> = told.map(|context| context.branch.as_deref()).collect();
    assert_eq!(branches, [Some("topic")]);
    let facts = probe.session.state();
    assert_eq!(facts.git.unwrap().branch.as_deref(), Some("topic"));
}

#[tokio::test]
async fn shells_that_go_on_are_told_with_idle() {
    let house = house();
    let new = NewSession {
        approval: Approval::ApproveAll,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let shells = |probe: &Probe| {
        let idle = probe.seen.iter().find_map(|event| event.get::<SessionIdle>()).unwrap();
        idle.background_tasks.as_ref().map(|tasks| tasks.shells.len())
    };
    probe.turn("say nothing runs").await;
    assert_eq!(shells(&probe), None);
    let wait = json!({"command": "sleep 600", "description": "Waiting", "mode": "async"});
    probe.turn(&format!("call bash {wait} then say it runs")).await;
    assert_eq!(shells(&probe), Some(1));
    house.host.close(probe.session.id()).await;
}

#[tokio::test]
async fn what_is_too_long_for_the_model_has_its_beginning_and_its_end_for_people() {
    let house = house();
    let new = NewSession {
        approval: Approval::ApproveAll,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let count = json!({"command": "seq 1 40000; exit 3", "description": "Counting"});
    probe.turn(&format!("call bash {count} then say counted")).await;
    let done = probe.seen.iter().find_map(|event| event.get::<ToolExecutionComplete>());
    let result = done.unwrap().result.clone().unwrap();
    assert!(result.content.starts_with("Output too large"), "{}", result.content);
    let shown = result.detailed_content.unwrap();
    assert!(shown.starts_with("1\n2\n3\n"), "{shown}");
    assert!(shown.ends_with("\n40000\n<exited with exit code 3>"), "{shown}");
    assert!(shown.contains(" left out; saved to: "), "{shown}");
    house.host.close(probe.session.id()).await;
}

#[tokio::test]
async fn what_the_copilot_api_counts_is_in_the_usage_and_in_the_sums() {
    let house = house();
    let mut completion = Completion::default();
    completion.message.text = "hi".into();
    completion.usage.cost = Some(2.0);
    completion.usage.copilot = Some(CopilotUsage {
        total_nano_aiu: 2e9,
        ..CopilotUsage::default()
    });
    let mut probe = house
        .session_with(Scripted::session([vec![Chunk::Done(Box::new(completion))]]))
        .await;
    probe.turn("go").await;
    let usage = probe
        .seen
        .iter()
        .find_map(|event| event.get::<AssistantUsage>())
        .unwrap();
    assert_eq!(usage.copilot_usage.as_ref().unwrap().total_nano_aiu, 2e9);
    house.host.close(probe.session.id()).await;
    let log = log_of(&probe.session);
    let shutdown = log.iter().find_map(|event| event.get::<SessionShutdown>()).unwrap();
    assert_eq!(shutdown.total_nano_aiu, Some(2e9));
    let model = shutdown.model_metrics.values().next().unwrap();
    assert_eq!((model.total_nano_aiu, model.requests.cost), (Some(2e9), Some(2.0)));
}

#[tokio::test]
async fn a_persons_command_has_a_result_or_an_error_and_never_both() {
    let house = house();
    let mut probe = house.session().await;
    let prompt = Prompt {
        text: "!echo out; exit 3".into(),
        command: Some("echo out; exit 3".into()),
        ..Prompt::default()
    };
    probe.session.send(prompt).await.unwrap();
    probe.until_idle().await;
    let done = probe.seen.iter().find_map(|event| event.get::<ToolExecutionComplete>());
    let done = done.unwrap();
    assert_eq!((done.success, done.is_user_requested), (true, Some(true)));
    assert!(done.error.is_none(), "{done:?}");
    let contents = done.result.as_ref().unwrap().contents.as_ref().unwrap();
    assert!(
        contents
            .iter()
            .any(|block| matches!(block, ContentBlock::Terminal(block) if block.exit_code == Some(3))),
        "{contents:?}"
    );
}

#[tokio::test]
async fn a_call_has_the_model_of_its_message_whichever_the_session_has_by_then() {
    let house = house();
    let new = NewSession {
        approval: Approval::ApproveAll,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let wait = json!({"command": "until [ -e go ]; do sleep 0.02; done", "description": "Waiting"});
    probe.send(&format!("call bash {wait} then say done")).await;
    probe
        .until(|payload| matches!(payload, Payload::ToolExecutionStart(_)).then_some(()))
        .await;
    let other = Arc::new(Named(ModelInfo {
        id: "another-model".into(),
        ..Rehearsal::new().info().clone()
    }));
    probe.session.supply(Supply::model(other)).await.unwrap();
    std::fs::write(house.cwd().join("go"), "").unwrap();
    probe.until_idle().await;
    let models: Vec<&str> = (probe.seen.iter())
        .filter_map(|event| match event.payload() {
            Payload::AssistantMessage(message) => message.model.as_deref(),
            Payload::ToolExecutionStart(start) => start.model.as_deref(),
            Payload::ToolExecutionComplete(done) => done.model.as_deref(),
            _ => None,
        })
        .collect();
    let asked = models[0];
    assert_ne!(asked, "another-model");
    assert_eq!(models[..3], [asked; 3], "{models:?}");
}

/// The offline model under another name.
struct Named(ModelInfo);

impl Model for Named {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        Rehearsal::new().call(request)
    }
}

#[tokio::test]
async fn errors_have_the_providers_code_and_usage_the_limit_of_the_prompt() {
    let house = house();
    let server = ModelServer::start();
    server.reply(Reply::error(400, "unsupported_value", "no such thing"));
    let model = crate::compaction::model(&server, "some-model", |provider| {
        provider.max_prompt_tokens = Some(30_000);
    });
    let new = NewSession {
        model: ModelChoice::Given(model),
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    probe.turn("go").await;
    let events = &probe.seen;
    let error = events.iter().find_map(|event| event.get::<SessionError>()).unwrap();
    assert_eq!(error.error_code.as_deref(), Some("unsupported_value"));
    let failure = events.iter().find_map(|event| event.get::<ModelCallFailure>()).unwrap();
    assert_eq!(failure.error_code.as_deref(), Some("unsupported_value"));
    let usage = events.iter().find_map(|event| event.get::<SessionUsageInfo>()).unwrap();
    assert_eq!(usage.token_limit, 30_000);
}
