//! Plan mode holds back what changes something; autopilot goes on until the task is complete.

use lodge_events::{ApprovalMode, LodgeApproval, Payload, SessionAutopilotStopped, SessionModeChanged};
use lodge_host::{Answer, Approval, Capabilities, Change, ExitPlanAnswer, Mode, NewSession, Prompt};
use serde_json::json;

use crate::kit::{Probe, house, log_of, tool};

fn planning() -> NewSession {
    NewSession {
        mode: Mode::Plan,
        approval: Approval::ApproveAll,
        ..NewSession::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mode_is_what_the_log_said_last_also_while_messages_and_clients_change_it() {
    let house = house();
    let mut probe = house.session().await;
    let session = probe.session.clone();
    let client = tokio::spawn({
        let session = session.clone();
        async move {
            for n in 0..1_000 {
                let mode = if n % 2 == 0 { Mode::Plan } else { Mode::Autopilot };
                session.configure(Change::Mode(mode)).await.unwrap();
            }
        }
    });
    for n in 0..40 {
        let prompt = Prompt {
            text: format!("say {n}"),
            agent_mode: Some("interactive".into()),
            ..Prompt::default()
        };
        session.send(prompt).await.unwrap();
        probe.until_idle().await;
    }
    client.await.unwrap();
    let mut last = Mode::default().as_str().to_owned();
    for event in log_of(&session) {
        if let Some(changed) = event.get::<SessionModeChanged>() {
            assert_eq!(
                changed.previous_mode.to_string(),
                last,
                "somebody else was between the two"
            );
            last = changed.new_mode.to_string();
        }
    }
    assert_eq!(session.settings().mode.as_str(), last);
    assert_eq!(session.state().mode, Some(last));
}

fn can_decide() -> Capabilities {
    Capabilities {
        exit_plan_mode: true,
        permissions: true,
        ..Capabilities::default()
    }
}

#[tokio::test]
async fn in_plan_mode_nothing_is_changed_whatever_the_model_tries() {
    let house = house();
    let kept = house.cwd().join("kept.txt");
    std::fs::write(&kept, "as it was").unwrap();
    let mut probe = house.session_with(planning()).await;
    let mut own = tool("own");
    own.skip_permission = true;
    let _client = probe
        .attach_with(can_decide(), vec![own], std::sync::Arc::new(lodge_host::NoCalls))
        .await;
    let (cwd, dir) = (house.cwd(), probe.session.dir().to_owned());
    // A link from the plan's place leads elsewhere, so it is not the plan.
    std::os::unix::fs::symlink(&kept, dir.join("linked.md")).unwrap();
    let cwd = cwd.display();
    for call in [
        format!(r#"create {{"path":"{cwd}/new.txt","file_text":"x"}}"#),
        format!(r#"edit {{"path":"{cwd}/kept.txt","old_str":"as it was","new_str":"x"}}"#),
        format!(r#"bash {{"command":"rm {cwd}/kept.txt"}}"#),
        format!(r#"bash {{"command":"echo x > {cwd}/new.txt"}}"#),
        format!(r#"bash {{"command":"ls; $(echo touch) {cwd}/new.txt"}}"#),
        r#"bash {"command":"touch new.txt","mode":"async"}"#.to_owned(),
        format!(r#"create {{"path":"{}/other.md","file_text":"x"}}"#, dir.display()),
        format!(
            r#"edit {{"path":"{}/linked.md","old_str":"as it was","new_str":"x"}}"#,
            dir.display()
        ),
        r#"own {"word":"x"}"#.to_owned(),
    ] {
        probe.turn(&format!("call {call} then say done")).await;
        let results = probe.results();
        assert!(results[0].starts_with("denied: Plan mode"), "{call}: {results:?}");
        assert_eq!(probe.count("permission.requested"), 0, "{call}");
        assert_eq!(probe.count("external_tool.requested"), 0, "{call}");
    }
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "as it was");
    assert!(!house.cwd().join("new.txt").exists());
    for call in [
        format!(r#"bash {{"command":"cat {cwd}/kept.txt"}}"#),
        format!(r#"view {{"path":"{cwd}/kept.txt"}}"#),
    ] {
        probe.turn(&format!("call {call} then say done")).await;
        assert!(
            probe.results()[0].contains("as it was"),
            "{call}: {:?}",
            probe.results()
        );
    }
}

#[tokio::test]
async fn what_a_run_may_do_ends_with_it_and_is_not_recorded() {
    let house = house();
    let mut probe = house.session().await;
    let session = probe.session.clone();
    let mut number = 0;
    let mut may_write = async || {
        number += 1;
        let path = house.cwd().join(format!("{number}.txt"));
        let call = json!({"path": path, "file_text": "x"});
        probe.turn(&format!("call create {call} then say done")).await;
        path.exists()
    };
    assert!(!may_write().await, "nobody can be asked");
    let all = session.approve_for_run(Approval::ApproveAll).unwrap();
    assert!(may_write().await);
    let other = session.approve_for_run(Approval::Ask).unwrap();
    assert!(!may_write().await, "the strictest of the runs");
    drop(other);
    assert!(may_write().await);
    drop(all);
    assert!(!may_write().await, "the run is over");
    // What somebody chooses for the session holds at once.
    let all = session.approve_for_run(Approval::ApproveAll).unwrap();
    session.configure(Change::Approval(Approval::DenyAll)).await.unwrap();
    assert!(!may_write().await);
    drop(all);
    let recorded: Vec<_> = log_of(&session)
        .iter()
        .filter_map(|event| event.get::<LodgeApproval>().cloned())
        .collect();
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(recorded[0].mode, ApprovalMode::DenyAll);
}

#[tokio::test]
async fn a_tool_that_says_it_changes_nothing_runs_in_plan_mode() {
    let house = house();
    let mut probe = house.session_with(planning()).await;
    let mut looks = tool("looks");
    looks.read_only = true;
    let _client = probe
        .attach_with(can_decide(), vec![looks], std::sync::Arc::new(lodge_host::NoCalls))
        .await;
    probe.send("call looks {} then say done").await;
    probe
        .until(|payload| matches!(payload, Payload::ExternalToolRequested(_)).then_some(()))
        .await;
}

#[tokio::test]
async fn a_mode_that_changes_while_somebody_is_asked_counts() {
    let house = house();
    let asking = NewSession {
        approval: Approval::Ask,
        ..NewSession::default()
    };
    let mut probe = house.session_with(asking).await;
    let _client = probe.attach(can_decide()).await;
    probe
        .send(&format!(
            r#"call create {{"path":"{}/a.txt","file_text":"x"}} then say done"#,
            house.cwd().display()
        ))
        .await;
    let id = probe
        .until(|payload| match payload {
            Payload::PermissionRequested(asked) => Some(asked.request_id.clone()),
            _ => None,
        })
        .await;
    probe.session.configure(Change::Mode(Mode::Plan)).await.unwrap();
    let yes = Answer::Permission(lodge_host::PermissionDecision::ApproveOnce);
    assert!(probe.session.answer(&id, yes, Default::default()).await.unwrap());
    probe.until_idle().await;
    assert!(
        probe.results()[0].starts_with("denied: Plan mode"),
        "{:?}",
        probe.results()
    );
}

/// Lets the model write and present a plan, answers, and waits for the turn's end.
async fn present(probe: &mut Probe, answer: ExitPlanAnswer) -> Vec<String> {
    probe.seen.clear();
    probe
        .send("write the plan 1. Look. then present the plan First look. then say so be it")
        .await;
    let id = probe
        .until(|payload| match payload {
            Payload::ExitPlanModeRequested(asked) => {
                assert_eq!(asked.summary, "First look.");
                assert_eq!(asked.plan_content, "1. Look.");
                assert_eq!(asked.recommended_action.as_str(), "interactive");
                let actions: Vec<_> = asked.actions.iter().map(|action| action.as_str().to_owned()).collect();
                assert_eq!(actions, ["interactive", "autopilot", "exit_only"]);
                Some(asked.request_id.clone())
            }
            _ => None,
        })
        .await;
    assert!(
        probe
            .session
            .answer(&id, Answer::ExitPlan(answer.clone()), Default::default())
            .await
            .unwrap()
    );
    assert!(
        !probe
            .session
            .answer(&id, Answer::ExitPlan(answer), Default::default())
            .await
            .unwrap(),
        "the first counts"
    );
    probe.until_idle().await;
    probe.results()
}

#[tokio::test]
async fn the_plan_is_written_presented_and_decided_upon() {
    let yes = |action: Option<&str>, edits| ExitPlanAnswer {
        approved: true,
        selected_action: action.map(str::to_owned),
        auto_approve_edits: edits,
        feedback: None,
    };
    for (answer, mode, chosen, told) in [
        (
            yes(Some("interactive"), None),
            Mode::Interactive,
            Some("interactive"),
            "now in interactive mode",
        ),
        (
            yes(None, None),
            Mode::Interactive,
            Some("interactive"),
            "now in interactive mode",
        ),
        (
            yes(None, Some(true)),
            Mode::Autopilot,
            Some("autopilot"),
            "now in autopilot mode",
        ),
        (
            yes(Some("exit_only"), None),
            Mode::Interactive,
            Some("exit_only"),
            "Do not begin with it yet",
        ),
        (
            ExitPlanAnswer {
                feedback: Some("Shorter.".into()),
                ..ExitPlanAnswer::default()
            },
            Mode::Plan,
            None,
            "Feedback: Shorter.",
        ),
    ] {
        let house = house();
        let mut probe = house
            .session_with(NewSession {
                mode: Mode::Plan,
                approval: Approval::Ask,
                ..NewSession::default()
            })
            .await;
        let _client = probe.attach(can_decide()).await;
        let results = present(&mut probe, answer.clone()).await;
        assert!(results[1].contains(told), "{answer:?}: {results:?}");
        assert_eq!(probe.session.settings().mode, mode, "{answer:?}");
        assert_eq!(probe.count("permission.requested"), 0, "the plan is the session's own");
        assert_eq!(probe.count("session.plan_changed"), 1);
        let done = probe.seen.iter().find_map(|event| match event.payload() {
            Payload::ExitPlanModeCompleted(done) => Some(done.clone()),
            _ => None,
        });
        let done = done.unwrap();
        assert_eq!(done.approved, Some(answer.approved));
        assert_eq!(
            done.selected_action.map(|action| action.as_str().to_owned()).as_deref(),
            chosen
        );
        assert_eq!(done.feedback, answer.feedback);
        let approval = probe.session.settings().approval;
        let edits = answer.auto_approve_edits == Some(true);
        assert_eq!(approval == Approval::AutoEdit, edits, "{answer:?}");
        log_of(&probe.session);
    }
}

#[tokio::test]
async fn the_mode_a_session_was_made_in_is_known_after_a_restart() {
    let house = house();
    let id = house.session_with(planning()).await.session.id().to_owned();
    house.host.close(&id).await;
    let session = house.host.open_session(&id).await.unwrap();
    assert_eq!(session.settings().mode, Mode::Plan);
}

#[tokio::test]
async fn autopilot_goes_on_until_the_task_is_complete() {
    let house = house();
    let autopilot = NewSession {
        mode: Mode::Autopilot,
        ..NewSession::default()
    };
    let mut probe = house.session_with(autopilot).await;
    probe.turn("say half of it").await;
    let messages: Vec<_> = probe
        .seen
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::UserMessage(message) => Some((message.is_autopilot_continuation, message.source.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(messages, [(None, None), (Some(true), Some("autopilot".into()))]);
    assert_eq!(probe.count("session.task_complete"), 1);
    assert_eq!(
        probe.count("assistant.turn_start"),
        2,
        "the answer, and the call that ends it"
    );
    probe.turn("complete the task all done").await;
    assert_eq!(probe.count("user.message"), 1, "who says it at once is not asked");
    assert_eq!(stopped(&probe), ["task_complete"]);
}

/// Why autopilot stopped.
fn stopped(probe: &Probe) -> Vec<String> {
    let stops = probe
        .seen
        .iter()
        .filter_map(|event| event.get::<SessionAutopilotStopped>());
    stops.map(|stop| stop.reason.clone()).collect()
}

#[tokio::test]
async fn elsewhere_nothing_ends_with_a_task_that_is_called_complete() {
    let house = house();
    let mut probe = house.session().await;
    assert_eq!(probe.turn("complete the task x then say and on").await, "and on");
    assert!(stopped(&probe).is_empty());
}

#[tokio::test]
async fn autopilot_is_bounded() {
    let house = house();
    let autopilot = NewSession {
        mode: Mode::Autopilot,
        tools: lodge_host::ToolFilter {
            available: None,
            excluded: vec!["task_complete".into()],
        },
        ..NewSession::default()
    };
    let mut probe = house.session_with(autopilot).await;
    probe.turn("say half of it").await;
    assert_eq!(probe.count("user.message"), 4);
    let told = probe.seen.iter().any(|event| match event.payload() {
        Payload::SessionInfo(info) => info.info_type == "autopilot",
        _ => false,
    });
    assert!(told, "{:?}", probe.kinds());
    assert_eq!(stopped(&probe), ["continuation_limit"]);
}
