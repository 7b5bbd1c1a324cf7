//! What the agent asks, and who may answer.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use lodge_events::Payload;
use lodge_host::{
    Answer, Approval, Capabilities, ClientCalls, ClientTool, Delivery, ExternalResult, NewSession, PermissionDecision,
    Prompt, SectionChange, SystemMessage, ToolAnswer, UserInputAnswer, UserInputQuestion,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::kit::{House, Probe, house, tool};

fn can_permit() -> Capabilities {
    Capabilities {
        permissions: true,
        ..Capabilities::default()
    }
}

fn asking() -> NewSession {
    NewSession {
        approval: Approval::Ask,
        ..NewSession::default()
    }
}

async fn asked(probe: &mut Probe) -> String {
    probe
        .until(|payload| match payload {
            Payload::PermissionRequested(asked) => Some(asked.request_id.clone()),
            _ => None,
        })
        .await
}

fn create_prompt(house: &House) -> String {
    format!(
        "call create {{\"path\":\"{}/a.txt\",\"file_text\":\"x\"}} then say done",
        house.cwd().display()
    )
}

#[tokio::test]
async fn every_decision_has_its_result_and_its_consequence() {
    let path = |house: &House| house.cwd().join("a.txt");
    for (decision, kind, written, said) in [
        (PermissionDecision::ApproveOnce, "approved", true, "done"),
        (PermissionDecision::ApproveForSession, "approved", true, "done"),
        (
            PermissionDecision::Deny { feedback: None },
            "denied-interactively-by-user",
            false,
            "done",
        ),
        (
            PermissionDecision::Reject { feedback: None },
            "denied-interactively-by-user",
            false,
            "",
        ),
        (
            PermissionDecision::UserNotAvailable,
            "denied-no-approval-rule-and-could-not-request-from-user",
            false,
            "done",
        ),
        (PermissionDecision::DenyByRules, "denied-by-rules", false, "done"),
        (
            PermissionDecision::DenyByContentExclusion,
            "denied-by-content-exclusion-policy",
            false,
            "done",
        ),
    ] {
        let house = house();
        let mut probe = house.session_with(asking()).await;
        let _client = probe.attach(can_permit()).await;
        probe.send(&create_prompt(&house)).await;
        let id = asked(&mut probe).await;
        assert_eq!(probe.session.pending().len(), 1);
        assert!(
            probe
                .session
                .answer(&id, Answer::Permission(decision.clone()), Default::default())
                .await
                .unwrap()
        );
        assert!(
            !probe
                .session
                .answer(&id, Answer::Permission(decision.clone()), Default::default())
                .await
                .unwrap(),
            "only the first counts"
        );
        probe.until_idle().await;
        let result = probe.seen.iter().find_map(|event| match event.payload() {
            Payload::PermissionCompleted(done) => Some(done.result.kind.to_string()),
            _ => None,
        });
        assert_eq!(result.as_deref(), Some(kind), "{decision:?}");
        assert_eq!(path(&house).exists(), written, "{decision:?}");
        assert_eq!(probe.said(), said, "{decision:?}");
    }
}

#[tokio::test]
async fn with_nobody_to_ask_it_is_denied_and_the_model_goes_on() {
    let house = house();
    let mut probe = house.session_with(asking()).await;
    assert_eq!(probe.turn(&create_prompt(&house)).await, "done");
    assert_eq!(
        probe.results(),
        ["denied: Permission denied and could not request permission from user"]
    );
}

#[tokio::test]
async fn a_question_outlives_its_client_and_the_next_one_answers() {
    let house = house();
    let mut probe = house.session_with(asking()).await;
    let first = probe.attach(can_permit()).await;
    probe.send(&create_prompt(&house)).await;
    let id = asked(&mut probe).await;
    drop(first);
    let _second = probe.attach(can_permit()).await;
    assert!(
        probe
            .session
            .answer(
                &id,
                Answer::Permission(PermissionDecision::ApproveOnce),
                Default::default()
            )
            .await
            .unwrap()
    );
    probe.until_idle().await;
    assert_eq!(probe.said(), "done");
}

#[tokio::test]
async fn a_question_survives_a_restart_with_its_id() {
    let house = house();
    let mut probe = house.session_with(asking()).await;
    let _client = probe.attach(can_permit()).await;
    probe.send(&create_prompt(&house)).await;
    let id = asked(&mut probe).await;
    // What a killed host leaves behind: the files as they are now.
    let copy = house.dir.path().join("copy");
    copy_dir(&house.dir.path().join("home"), &copy);
    let host = crate::kit::host_at(&copy, std::time::Duration::from_secs(60));
    let session = host.open_session(probe.session.id()).await.unwrap();
    let mut again = Probe::on(session);
    let _client = again.attach(can_permit()).await;
    again
        .session
        .configure(lodge_host::Change::Approval(Approval::Ask))
        .await
        .unwrap();
    assert!(again.session.continue_pending().await.unwrap());
    assert_eq!(asked(&mut again).await, id, "the same question");
    assert!(
        again
            .session
            .answer(
                &id,
                Answer::Permission(PermissionDecision::ApproveOnce),
                Default::default()
            )
            .await
            .unwrap()
    );
    again.until_idle().await;
    assert_eq!(again.said(), "done");
    assert!(house.cwd().join("a.txt").exists());
    crate::kit::log_of(&again.session);
}

fn copy_dir(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

async fn tool_asked(probe: &mut Probe) -> String {
    probe
        .until(|payload| match payload {
            Payload::ExternalToolRequested(asked) => Some(asked.request_id.clone()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn a_tool_of_the_client_answers_in_every_form() {
    let result = |result_type: &str, text: &str, error: Option<&str>| {
        ToolAnswer::Result(Box::new(ExternalResult {
            text: text.into(),
            result_type: result_type.into(),
            error: error.map(str::to_owned),
            ..ExternalResult::default()
        }))
    };
    for (answer, expected, said) in [
        (result("success", "sunny", None), "sunny", "done"),
        (
            result("failure", "no weather", Some("secret")),
            "failure: no weather",
            "done",
        ),
        (result("denied", "not you", None), "denied: not you", "done"),
        (result("rejected", "no", None), "rejected: no", ""),
        (
            ToolAnswer::Error("password123".into()),
            "failure: Failed to execute `weather` tool with arguments: {} due to error: Error: Tool execution failed",
            "done",
        ),
    ] {
        let house = house();
        let mut probe = house.session().await;
        let _client = probe
            .attach_with(
                Capabilities::default(),
                vec![tool("weather")],
                Arc::new(lodge_host::NoCalls),
            )
            .await;
        probe.send("call weather {\"city\":\"Oslo\"} then say done").await;
        let id = tool_asked(&mut probe).await;
        assert!(
            probe
                .session
                .answer(&id, Answer::Tool(answer), Default::default())
                .await
                .unwrap()
        );
        probe.until_idle().await;
        assert_eq!(probe.results(), [expected]);
        assert_eq!(probe.said(), said);
    }
}

#[tokio::test]
async fn tools_are_the_union_over_clients_and_leave_with_them() {
    let house = house();
    let probe = house.session().await;
    let names = || -> Vec<String> { probe.session.tools().into_iter().map(|spec| spec.name).collect() };
    let builtins = names();
    let one = probe
        .attach_with(
            Capabilities::default(),
            vec![tool("one")],
            Arc::new(lodge_host::NoCalls),
        )
        .await;
    let overriding = ClientTool {
        overrides_builtin: true,
        ..tool("grep")
    };
    let two = probe
        .attach_with(
            Capabilities::default(),
            vec![tool("two"), overriding],
            Arc::new(lodge_host::NoCalls),
        )
        .await;
    let all = names();
    assert!(all.contains(&"one".to_owned()) && all.contains(&"two".to_owned()));
    assert_eq!(all.iter().filter(|name| *name == "grep").count(), 1);
    drop(one);
    // Detaching is a message to the actor; asking it something makes sure that it has been heard.
    probe
        .session
        .change_queue(lodge_host::QueueChange::Clear)
        .await
        .unwrap();
    assert!(!names().contains(&"one".to_owned()));
    drop(two);
    probe
        .session
        .change_queue(lodge_host::QueueChange::Clear)
        .await
        .unwrap();
    assert_eq!(names(), builtins);
}

#[derive(Default)]
struct Calls {
    hooks: Mutex<Vec<(String, Value)>>,
    answer: Option<&'static str>,
    before: Value,
}

impl ClientCalls for Calls {
    fn hook(&self, hook_type: String, input: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let output = (hook_type == "preToolUse").then(|| self.before.clone());
        self.hooks.lock().push((hook_type, input));
        Box::pin(async move { Ok(output) })
    }

    fn user_input(&self, question: UserInputQuestion) -> BoxFuture<'static, Option<UserInputAnswer>> {
        let answer = self.answer.map(|answer| UserInputAnswer {
            answer: answer.into(),
            was_freeform: !question
                .choices
                .unwrap_or_default()
                .iter()
                .any(|choice| choice == answer),
        });
        Box::pin(async move { answer })
    }

    fn transform_section(&self, section: String, content: String) -> BoxFuture<'static, Option<String>> {
        Box::pin(async move { Some(format!("[{section}] {}", content.len())) })
    }
}

#[tokio::test]
async fn the_person_is_asked_and_the_answer_reaches_the_model() {
    for (answer, expected) in [("blue", "User selected: blue"), ("green", "User responded: green")] {
        let house = house();
        let mut probe = house.session().await;
        let calls = Arc::new(Calls {
            answer: Some(answer),
            ..Calls::default()
        });
        let can = Capabilities {
            user_input: true,
            ..Capabilities::default()
        };
        let _client = probe.attach_with(can, Vec::new(), calls).await;
        probe.turn("ask \"Which colour?\" choices red, blue").await;
        assert_eq!(probe.results(), [expected]);
        assert_eq!(
            (probe.count("user_input.requested"), probe.count("user_input.completed")),
            (1, 1)
        );
    }
}

#[tokio::test]
async fn hooks_see_every_step_and_can_deny() {
    let house = house();
    let mut probe = house
        .session_with(NewSession {
            approval: Approval::ApproveAll,
            ..NewSession::default()
        })
        .await;
    let before = json!({"permissionDecision": "deny", "permissionDecisionReason": "not today"});
    let calls = Arc::new(Calls {
        before,
        ..Calls::default()
    });
    let can = Capabilities {
        hooks: true,
        ..Capabilities::default()
    };
    let _client = probe.attach_with(can, Vec::new(), calls.clone()).await;
    probe.turn(&create_prompt(&house)).await;
    assert_eq!(probe.results(), ["denied: Denied by preToolUse hook: not today"]);
    assert!(!house.cwd().join("a.txt").exists());
    let types: Vec<String> = calls
        .hooks
        .lock()
        .iter()
        .map(|(hook_type, _)| hook_type.clone())
        .collect();
    assert_eq!(
        types,
        [
            "sessionStart",
            "userPromptSubmitted",
            "userPromptTransformed",
            "preToolUse",
            "postToolUseFailure",
            "agentStop"
        ]
    );
    assert!(
        calls
            .hooks
            .lock()
            .iter()
            .all(|(_, input)| input["sessionId"].is_string() && input["timestamp"].is_i64())
    );
    assert_eq!(probe.count("hook.start"), probe.count("hook.end"));
}

/// A client whose hook holds up a turn that has failed.
struct Holds(Arc<tokio::sync::Notify>);

impl ClientCalls for Holds {
    fn hook(&self, hook_type: String, _input: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let gate = (hook_type == "errorOccurred").then(|| self.0.clone());
        Box::pin(async move {
            if let Some(gate) = gate {
                gate.notified().await;
            }
            Ok(None)
        })
    }
}

#[tokio::test]
async fn what_is_said_after_an_error_is_answered_even_if_the_turn_is_not_quite_over() {
    let house = house();
    let mut probe = house.session().await;
    let gate = Arc::new(tokio::sync::Notify::new());
    let can = Capabilities {
        hooks: true,
        ..Capabilities::default()
    };
    let _client = probe.attach_with(can, Vec::new(), Arc::new(Holds(gate.clone()))).await;
    for delivery in [Delivery::Enqueue, Delivery::Immediate] {
        probe.send("fail with quota").await;
        probe
            .until(|payload| matches!(payload, Payload::SessionError(_)).then_some(()))
            .await;
        let said = Prompt {
            text: format!("say {delivery:?} is heard"),
            delivery,
            ..Prompt::default()
        };
        probe.session.send(said).await.unwrap();
        gate.notify_one();
        probe.until_idle().await;
        assert_eq!(probe.said(), format!("{delivery:?} is heard"));
    }
}

#[tokio::test]
async fn the_system_prompt_is_what_the_client_makes_of_it() {
    let change = |action: &str, content: &str| SectionChange {
        action: action.into(),
        content: Some(content.into()),
    };
    let customize = SystemMessage::Customize {
        content: Some("The end.".into()),
        sections: [
            ("tone".to_owned(), change("replace", "Sing.")),
            ("safety".to_owned(), change("transform", "")),
        ]
        .into(),
    };
    for (message, contains, lacks) in [
        (
            SystemMessage::Append {
                content: "Be kind.".into(),
            },
            "Be kind.",
            "Sing.",
        ),
        (
            SystemMessage::Replace {
                content: "Only this.".into(),
            },
            "Only this.",
            "<identity>",
        ),
        (customize, "<tone>\nSing.\n</tone>", "Be brief and concrete"),
    ] {
        let house = house();
        let mut probe = house
            .session_with(NewSession {
                system_message: message,
                ..NewSession::default()
            })
            .await;
        let can = Capabilities {
            transforms: vec!["safety".into()],
            ..Capabilities::default()
        };
        let _client = probe.attach_with(can, Vec::new(), Arc::new(Calls::default())).await;
        probe.turn("say hi").await;
        let system = probe.seen.iter().find_map(|event| match event.payload() {
            Payload::SystemMessage(message) => Some(message.content.clone()),
            _ => None,
        });
        let system = system.unwrap();
        assert!(system.contains(contains) && !system.contains(lacks), "{system}");
        if contains.contains("Sing") {
            assert!(
                system.contains("<safety>\n[safety] ") && system.ends_with("The end."),
                "{system}"
            );
        }
        probe.turn("say again").await;
        assert_eq!(probe.count("system.message"), 0, "an unchanged prompt is not repeated");
    }
}

#[tokio::test]
async fn an_edit_that_fails_tells_nothing_of_a_file_that_may_not_be_read() {
    let house = house();
    let secret = "KEY=hunter2\nPORT=80\n";
    std::fs::write(house.cwd().join(".env"), secret).unwrap();
    let outside = house.dir.path().join("outside");
    std::fs::write(&outside, secret).unwrap();
    let rules = house.dir.path().join("home/permissions.toml");
    std::fs::write(rules, "exclude = [\".env\"]\n").unwrap();
    let edit = |path: &str, old: &str| {
        format!(r#"call edit {{"path":"{path}","old_str":"{old}","new_str":"x"}} then say done"#)
    };
    let mut probe = house.session_with(NewSession::default()).await;
    let outside = outside.display().to_string();
    for path in [".env", outside.as_str()] {
        let mut told = Vec::new();
        for old in ["PORT=80", "nothing like it", "="] {
            assert_eq!(probe.turn(&edit(path, old)).await, "done");
            told.extend(probe.results());
        }
        assert!(told[0].starts_with("denied: "), "{told:?}");
        assert!(told.iter().all(|answer| *answer == told[0]), "{path}: {told:?}");
        let seen = format!("{:?}", probe.seen);
        assert!(path != ".env" || !seen.contains("hunter2"), "{seen}");
    }

    // Whoever may read it is told.
    let mut probe = house.session_with(asking()).await;
    let _client = probe.attach(can_permit()).await;
    probe.send(&edit(&outside, "nothing like it")).await;
    let kind = probe
        .until(|payload| match payload {
            Payload::PermissionRequested(asked) => Some(asked.permission_request.tag().to_owned()),
            _ => None,
        })
        .await;
    assert_eq!(kind, "read");
    let id = probe.session.pending()[0].request_id.clone();
    let yes = Answer::Permission(PermissionDecision::ApproveOnce);
    assert!(probe.session.answer(&id, yes, Default::default()).await.unwrap());
    probe.until_idle().await;
    assert!(probe.results()[0].contains("was not found"), "{:?}", probe.results());
}
