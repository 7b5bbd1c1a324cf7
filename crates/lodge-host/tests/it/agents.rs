//! Sub-agents, custom agents and skills.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use lodge_events::{Event, Payload};
use lodge_host::{
    AgentDefinition, Answer, Approval, Capabilities, Change, ClientCalls, Customization, NewSession, NewTask,
    PermissionDecision, Resume, SubagentSettings,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::kit::{Probe, host_at, house, log_of};

/// A call of `task` whose prompt may hold anything.
fn task(kind: &str, name: &str, prompt: &str, mode: &str) -> String {
    let args = json!({"agent_type": kind, "name": name, "description": "d", "prompt": prompt, "mode": mode});
    format!("call task {args}")
}

fn yolo() -> NewSession {
    NewSession {
        approval: Approval::ApproveAll,
        ..NewSession::default()
    }
}

fn of_agent<'a>(events: &'a [Event], kind: &str) -> Vec<&'a Event> {
    let ours = events
        .iter()
        .filter(|event| event.kind() == kind && event.agent_id().is_some());
    ours.collect()
}

/// Waits until the session's own agent has nothing left to do and the one in the background runs its command.
async fn left_behind(probe: &mut Probe) {
    let mut missing = 2;
    probe
        .until(|payload| {
            missing -= match payload {
                Payload::ToolExecutionStart(start) if start.tool_name == "bash" => 1,
                Payload::AssistantIdle(_) => 1,
                _ => 0,
            };
            (missing == 0).then_some(())
        })
        .await;
}

#[tokio::test]
async fn sub_agents_may_start_sub_agents_but_not_without_end() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    // Each starts the next and says which tools it has.
    let mut prompt = "describe the request".to_owned();
    for level in (1..=4).rev() {
        prompt = task("general-purpose", &format!("level-{level}"), &prompt, "background");
    }
    probe.turn(&prompt).await;
    let started: Vec<_> = of_agent(&probe.seen, "subagent.started")
        .iter()
        .map(|event| match event.payload() {
            Payload::SubagentStarted(started) => (started.parent_id.clone(), started.execution_mode.clone()),
            _ => unreachable!("filtered by kind"),
        })
        .collect();
    assert_eq!(started.len(), 3, "{:?}", probe.kinds());
    assert_eq!(started[0], (None, Some("background".into())));
    let first = of_agent(&probe.seen, "subagent.started")[0]
        .agent_id()
        .unwrap()
        .to_owned();
    assert_eq!(
        started[1],
        (Some(first), Some("sync".into())),
        "what a sub-agent starts, it waits for"
    );
    let refused = probe
        .results()
        .into_iter()
        .find(|result| result.contains("does not exist"));
    assert!(refused.is_some_and(|result| result.contains("Tool 'task'")));
    log_of(&probe.session);
}

#[tokio::test]
async fn no_more_sub_agents_run_than_may() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    let settings = SubagentSettings {
        max_running: Some(2),
        ..SubagentSettings::default()
    };
    probe.session.configure(Change::Subagents(settings)).await.unwrap();
    let slow = |name: &str| task("task", name, "wait 300 ms then say slept", "sync").replacen("call ", "", 1);
    probe
        .turn(&format!(
            "call {} and {} and {} then say over",
            slow("a"),
            slow("b"),
            slow("c")
        ))
        .await;
    let refused: Vec<_> = probe
        .results()
        .into_iter()
        .filter(|text| text.contains("2 agents are already running"))
        .collect();
    assert_eq!(refused.len(), 1, "{:?}", probe.results());
    assert_eq!(probe.said(), "over");
}

#[tokio::test]
async fn an_abort_stops_those_in_the_background_too_and_nothing_is_left_open() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    let work = r#"call bash {"command":"sleep 60"}"#;
    probe
        .send(&format!(
            "{} then say I go on",
            task("task", "long", work, "background")
        ))
        .await;
    left_behind(&mut probe).await;
    assert!(probe.session.is_busy(), "an agent works");
    assert!(
        probe
            .session
            .abort(lodge_events::AbortReason::UserInitiated)
            .await
            .unwrap()
    );
    assert!(probe.until_idle().await, "idle says that it was aborted");
    assert!(!probe.session.is_busy());
    let log = log_of(&probe.session);
    let starts = log
        .iter()
        .filter(|event| event.kind() == "tool.execution_start")
        .count();
    let ends = log
        .iter()
        .filter(|event| event.kind() == "tool.execution_complete")
        .count();
    assert_eq!(starts, ends);
    let facts = probe.session.state();
    assert_eq!(facts.open_agents, BTreeMap::new());
    assert_eq!(probe.turn("say still here").await, "still here");
    assert_eq!(
        probe.count("system.notification"),
        0,
        "nobody waits for what was stopped"
    );
}

#[tokio::test]
async fn a_rejection_ends_the_sub_agent_and_the_turn_that_waits_for_it() {
    let house = house();
    let mut probe = house
        .session_with(NewSession {
            approval: Approval::Ask,
            ..NewSession::default()
        })
        .await;
    let can = Capabilities {
        permissions: true,
        ..Capabilities::default()
    };
    let _client = probe.attach(can).await;
    probe
        .send(&format!(
            "{} then say never said",
            task(
                "task",
                "t",
                r#"call bash {"command":"touch x"} then say never said"#,
                "sync"
            )
        ))
        .await;
    let asked = probe
        .until(|payload| match payload {
            Payload::PermissionRequested(asked) => Some(asked.request_id.clone()),
            _ => None,
        })
        .await;
    let no = Answer::Permission(PermissionDecision::Reject { feedback: None });
    assert!(probe.session.answer(&asked, no, Default::default()).await.unwrap());
    probe.until_idle().await;
    assert_eq!(probe.count("subagent.failed"), 1);
    assert_ne!(probe.said(), "never said");
    assert!(!house.cwd().join("x").exists());
}

#[tokio::test]
async fn what_runs_when_the_host_is_gone_counts_as_interrupted() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    probe
        .send(&format!(
            "{} then say I go on",
            task("task", "lost", r#"call bash {"command":"sleep 60"}"#, "background")
        ))
        .await;
    left_behind(&mut probe).await;
    // A copy of the log is what a host finds that comes after a crash.
    let id = probe.session.id().to_owned();
    let from = probe.session.dir().to_owned();
    let other = house.dir.path().join("other");
    let to = other.join("session-state").join(&id);
    std::fs::create_dir_all(&to).unwrap();
    std::fs::copy(from.join("events.jsonl"), to.join("events.jsonl")).unwrap();
    let host = host_at(&other, Duration::from_secs(600));
    let session = host.resume(&id, Resume::default()).await.unwrap();
    let log = log_of(&session);
    let failed = of_agent(&log, "subagent.failed");
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].agent_id(), Some("lost"));
    let interrupted = of_agent(&log, "tool.execution_complete");
    assert!(interrupted[0].as_str().contains("interrupted"));
    let told = log
        .iter()
        .any(|event| event.kind() == "system.notification" && event.as_str().contains("was interrupted"));
    assert!(told, "the model must know");
    let mut again = Probe::on(session);
    assert_eq!(again.turn("say still here").await, "still here");
    assert!(!again.session.is_busy());
}

/// Notes hooks and answers those about sub-agents.
#[derive(Default)]
struct Hooks(Arc<Mutex<Vec<(String, Value)>>>);

impl ClientCalls for Hooks {
    fn hook(&self, hook_type: String, input: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let stops = {
            let mut seen = self.0.lock();
            seen.push((hook_type.clone(), input.clone()));
            seen.iter().filter(|(kind, _)| kind == "subagentStop").count()
        };
        let output = match hook_type.as_str() {
            "subagentStart" => Some(json!({"additionalContext": "say one"})),
            "subagentStop" if stops == 1 => Some(json!({"decision": "block", "reason": "say two"})),
            "subagentStop" => {
                let response = input["response"].as_str().unwrap_or_default();
                Some(json!({"modifiedResponse": format!("{response}!")}))
            }
            _ => None,
        };
        Box::pin(std::future::ready(Ok(output)))
    }
}

#[tokio::test]
async fn hooks_hear_of_sub_agents_and_change_what_they_hear_and_say() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    let hooks = Arc::new(Hooks::default());
    let can = Capabilities {
        hooks: true,
        ..Capabilities::default()
    };
    let _client = probe.attach_with(can, Vec::new(), hooks.clone()).await;
    probe.turn(&task("explore", "t", "then say more", "sync")).await;
    assert_eq!(probe.results(), ["two!"], "blocked once, then changed");
    let seen = hooks.0.lock();
    let (_, start) = seen.iter().find(|(kind, _)| kind == "subagentStart").unwrap();
    assert_eq!(start["sessionId"], probe.session.id());
    assert_eq!(start["agentName"], "explore");
    assert_eq!(
        start.get("agentDisplayName"),
        None,
        "a built-in one has none of its own"
    );
    let (_, stop) = seen.iter().find(|(kind, _)| kind == "subagentStop").unwrap();
    assert_eq!(stop["agentType"], "explore");
    assert_eq!(stop["stopReason"], "end_turn");
    assert!(stop["agentId"].is_string());
}

/// Never lets a sub-agent stop.
struct Stubborn;

impl ClientCalls for Stubborn {
    fn hook(&self, hook_type: String, _: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let block = json!({"decision": "block", "reason": "say more"});
        Box::pin(std::future::ready(Ok((hook_type == "subagentStop").then_some(block))))
    }
}

#[tokio::test]
async fn a_hook_that_never_lets_a_sub_agent_stop_is_not_asked_for_ever() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    let can = Capabilities {
        hooks: true,
        ..Capabilities::default()
    };
    let _client = probe.attach_with(can, Vec::new(), Arc::new(Stubborn)).await;
    probe.turn(&task("explore", "t", "say one", "sync")).await;
    assert_eq!(probe.results(), ["more"]);
}

#[tokio::test]
async fn a_failure_of_the_model_fails_the_sub_agent_not_the_turn() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    let said = probe
        .turn(&format!(
            "{} then say I go on",
            task("task", "t", "fail with quota", "sync")
        ))
        .await;
    assert_eq!(said, "I go on");
    assert_eq!(probe.count("session.error"), 0);
    assert_eq!(probe.count("subagent.failed"), 1);
    assert!(
        probe.results()[0].starts_with("failure: Agent failed:"),
        "{:?}",
        probe.results()
    );
}

#[tokio::test]
async fn ids_of_background_agents_are_used_once() {
    let house = house();
    let mut probe = house.session_with(yolo()).await;
    let new = |prompt: &str| NewTask {
        agent_type: "task".into(),
        name: "same name".into(),
        prompt: prompt.into(),
        ..NewTask::default()
    };
    assert_eq!(probe.session.start_agent(new("say a")).await.unwrap(), "same-name");
    assert_eq!(probe.session.start_agent(new("say b")).await.unwrap(), "same-name-2");
    probe.session.tasks_settled().await;
    probe.until_idle().await;
    assert!(probe.session.remove_task("same-name"));
    assert_eq!(probe.session.start_agent(new("say c")).await.unwrap(), "same-name-3");
    probe.session.tasks_settled().await;
}

#[tokio::test]
async fn skills_of_the_project_cannot_allow_themselves_anything() {
    let house = house();
    let cwd = house.cwd();
    let skill = |root: &std::path::Path, name: &str| {
        let dir = root.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let text = format!("---\nname: {name}\ndescription: d\nallowed-tools: Bash(touch:*)\n---\nTouch.\n");
        std::fs::write(dir.join("SKILL.md"), text).unwrap();
    };
    skill(&cwd.join(".github/skills"), "of-project");
    skill(&house.dir.path().join("given"), "of-client");
    let mut probe = house
        .session_with(NewSession {
            approval: Approval::Ask,
            customization: Customization {
                skill_directories: vec![house.dir.path().join("given")],
                ..Customization::default()
            },
            ..NewSession::default()
        })
        .await;
    for (name, file, expected) in [("of-project", "a", false), ("of-client", "b", true)] {
        let args = json!({"command": format!("touch {}", cwd.join(file).display())});
        probe
            .turn(&format!("call skill {{\"skill\":\"{name}\"}} then call bash {args}"))
            .await;
        assert_eq!(cwd.join(file).exists(), expected, "{name}: {:?}", probe.results());
    }
    // And what was lent is taken back with the turn.
    let args = json!({"command": format!("touch {}", cwd.join("c").display())});
    probe.turn(&format!("call bash {args}")).await;
    assert!(!cwd.join("c").exists());
}

#[tokio::test]
async fn a_chosen_agent_is_there_again_after_a_restart() {
    let house = house();
    let cwd = house.cwd();
    std::fs::create_dir_all(cwd.join(".github/agents")).unwrap();
    std::fs::write(
        cwd.join(".github/agents/poet.md"),
        "---\ndescription: d\ntools: [view]\n---\nYou are a POET.\n",
    )
    .unwrap();
    let probe = house.session().await;
    probe.session.select_agent(Some("poet".into())).await.unwrap();
    let id = probe.session.id().to_owned();
    drop(probe);
    house.host.close(&id).await;
    let mut again = Probe::on(house.host.open_session(&id).await.unwrap());
    assert_eq!(again.session.current_agent().await.unwrap().unwrap().name, "poet");
    assert!(again.turn("describe the request").await.contains("1 tool: view"));
    again.session.select_agent(None).await.unwrap();
    assert!(again.session.state().agent.is_none());
    let unknown = again.session.select_agent(Some("nobody".into())).await.unwrap_err();
    assert!(unknown.to_string().contains("Available agents: poet"), "{unknown}");
}

#[tokio::test]
async fn a_message_can_reach_a_sub_agent_at_work() {
    let house = house();
    let mut probe = house
        .session_with(NewSession {
            customization: Customization {
                agents: vec![AgentDefinition {
                    name: "mine".into(),
                    prompt: "You are mine.".into(),
                    ..AgentDefinition::default()
                }],
                ..Customization::default()
            },
            ..yolo()
        })
        .await;
    let new = NewTask {
        agent_type: "mine".into(),
        name: "m".into(),
        prompt: r#"wait 400 ms then call bash {"command":"true"} then say never said"#.into(),
        ..NewTask::default()
    };
    let id = probe.session.start_agent(new).await.unwrap();
    assert!(probe.session.tell_task(&id, "say heard"));
    probe
        .until(|payload| matches!(payload, Payload::SubagentCompleted(_)).then_some(()))
        .await;
    probe.until_idle().await;
    let task = probe.session.tasks().into_iter().find(|task| task.id == id).unwrap();
    assert_eq!(task.result.as_deref(), Some("heard"));
    assert!(!probe.session.tell_task(&id, "too late"));
    let mut sent = probe.seen.iter().filter(|event| event.agent_id().is_some());
    assert!(
        sent.any(|event| matches!(event.payload(), Payload::UserMessage(message) if message.content == "say heard"))
    );
}
