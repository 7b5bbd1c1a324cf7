//! Questions and answers in the log: what was answered is not asked again, what began does not begin again.

use std::io::Write as _;

use lodge_events::{Event, LodgeAnswered, LodgeQuestion, Payload, ToolExecutionStart};
use lodge_host::{
    Answer, AnsweredBy, Approval, Capabilities, Host, NewSession, PermissionDecision, Session, UserInputAnswer,
};

use crate::{
    kit::{House, Probe, house, log_of},
    truth::{as_killed, copy},
};

const TOUCH: &str = r#"call bash {"command":"echo ran >> ran"} then say done"#;
const ASK: &str = r#"call ask_user {"question":"Which?","choices":["red","blue"]} then say done"#;

fn people() -> Capabilities {
    Capabilities {
        permissions: true,
        user_input: true,
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
            Payload::UserInputRequested(asked) => Some(asked.request_id.clone()),
            _ => None,
        })
        .await
}

fn recorded(session: &Session) -> (Vec<LodgeQuestion>, Vec<LodgeAnswered>) {
    let log = log_of(session);
    let questions = log.iter().filter_map(Event::get::<LodgeQuestion>).cloned().collect();
    (
        questions,
        log.iter().filter_map(Event::get::<LodgeAnswered>).cloned().collect(),
    )
}

/// The session as a host finds it that was killed when these events were the last ones.
async fn killed_after(house: &House, probe: &Probe, name: &str, last: Vec<Payload>) -> (Host, Session) {
    let to = house.dir.path().join(name);
    copy(&house.dir.path().join("home"), &to);
    let log = to.join("session-state").join(probe.session.id()).join("events.jsonl");
    let parent = log_of(&probe.session)
        .iter()
        .rfind(|event| !event.is_beside())
        .map(Event::id);
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    let mut head = parent;
    for payload in last {
        let event = Event::new(head, None, payload);
        file.write_all(event.json()).unwrap();
        file.write_all(b"\n").unwrap();
        if !event.is_beside() {
            head = Some(event.id());
        }
    }
    let host = crate::kit::host_at(&to, std::time::Duration::from_secs(600));
    let session = host.open_session(probe.session.id()).await.unwrap();
    session
        .configure(lodge_host::Change::Approval(Approval::Ask))
        .await
        .unwrap();
    (host, session)
}

fn answer_to(question: &LodgeQuestion, answer: serde_json::Value) -> Payload {
    LodgeAnswered {
        request_id: question.request_id.clone(),
        kind: question.kind.clone(),
        tool_call_id: question.tool_call_id.clone(),
        digest: question.digest.clone(),
        answer,
        ..LodgeAnswered::default()
    }
    .into()
}

fn ran(house: &House) -> usize {
    std::fs::read_to_string(house.cwd().join("ran")).map_or(0, |text| text.lines().count())
}

#[tokio::test]
async fn who_answered_what_is_in_the_log_before_the_call_begins() {
    let house = house();
    let mut probe = house.session_with(asking()).await;
    let _client = probe.attach(people()).await;
    probe.send(TOUCH).await;
    let id = asked(&mut probe).await;
    let by = AnsweredBy {
        client: Some("page".into()),
        device: Some("phone".into()),
        role: Some("approve-only".into()),
        rule: None,
    };
    let yes = Answer::Permission(PermissionDecision::ApproveOnce);
    assert!(probe.session.answer(&id, yes.clone(), by.clone()).await.unwrap());
    assert!(
        !probe.session.answer(&id, yes, by.clone()).await.unwrap(),
        "the first counts"
    );
    probe.until_idle().await;
    let (questions, answers) = recorded(&probe.session);
    assert_eq!((questions.len(), answers.len()), (1, 1));
    assert_eq!(questions[0].request_id, id);
    assert_eq!((&answers[0].by, &answers[0].digest), (&by, &questions[0].digest));
    let log = log_of(&probe.session);
    let place = |is: fn(&Event) -> bool| log.iter().position(is).unwrap();
    assert!(place(Event::is::<LodgeAnswered>) < place(Event::is::<ToolExecutionStart>));
    assert_eq!(ran(&house), 1);
}

#[tokio::test]
async fn a_call_that_was_answered_and_did_not_begin_goes_on_and_one_that_began_does_not() {
    let start = |probe: &Probe| {
        let (questions, _) = recorded(&probe.session);
        ToolExecutionStart {
            tool_call_id: questions[0].tool_call_id.clone().unwrap(),
            tool_name: "bash".into(),
            ..ToolExecutionStart::default()
        }
    };
    let yes = serde_json::json!({"decision": "approve-once"});
    for (name, digest, began, runs, asks) in [
        ("answered", None, false, 1, 0),
        ("began", None, true, 0, 0),
        ("open", Some(()), false, 1, 1),
        ("another question", Some(()), false, 1, 1),
    ] {
        let house = house();
        let mut probe = house.session_with(asking()).await;
        let _client = probe.attach(people()).await;
        probe.send(TOUCH).await;
        let id = asked(&mut probe).await;
        let question = recorded(&probe.session).0.remove(0);
        let mut last = match name {
            "open" => Vec::new(),
            _ => vec![answer_to(
                &LodgeQuestion {
                    digest: digest.map_or(question.digest.clone(), |()| "other".into()),
                    ..question.clone()
                },
                yes.clone(),
            )],
        };
        if name == "another question" {
            last.insert(
                0,
                LodgeQuestion {
                    digest: "other".into(),
                    ..question.clone()
                }
                .into(),
            );
        }
        if began {
            last.push(start(&probe).into());
        }
        let (_host, session) = killed_after(&house, &probe, name, last).await;
        probe
            .session
            .abort(lodge_events::AbortReason::UserInitiated)
            .await
            .unwrap();
        let mut again = Probe::on(session);
        let _people = again.attach(people()).await;
        assert!(again.session.continue_pending().await.unwrap(), "{name}");
        if asks > 0 {
            assert_eq!(asked(&mut again).await, id, "{name}");
            let yes = Answer::Permission(PermissionDecision::ApproveOnce);
            assert!(again.session.answer(&id, yes, AnsweredBy::default()).await.unwrap());
        }
        again.until_idle().await;
        assert_eq!((ran(&house), again.said()), (runs, "done".to_owned()), "{name}");
        let (questions, _) = recorded(&again.session);
        assert_eq!(
            questions.len(),
            1 + asks + usize::from(name == "another question"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn what_a_person_answered_is_told_the_model_after_a_kill() {
    let house = house();
    let mut probe = house.session().await;
    let _client = probe.attach(people()).await;
    probe.send(ASK).await;
    let id = asked(&mut probe).await;
    let question = recorded(&probe.session).0.remove(0);
    assert_eq!(question.message, "Which?");
    let blue = serde_json::json!({"answer": "blue", "wasFreeform": false});
    let (_host, session) = killed_after(&house, &probe, "copy", vec![answer_to(&question, blue)]).await;
    let mut again = Probe::on(session);
    let _people = again.attach(people()).await;
    assert!(again.session.continue_pending().await.unwrap());
    again.until_idle().await;
    assert_eq!(
        (again.results(), again.count("user_input.requested")),
        (vec!["User selected: blue".to_owned()], 0)
    );
    let red = UserInputAnswer {
        answer: "red".into(),
        was_freeform: false,
    };
    let by = AnsweredBy::default();
    assert!(!again.session.answer(&id, Answer::UserInput(red), by).await.unwrap());
}

#[tokio::test]
async fn a_message_whose_turn_brought_the_host_down_twice_is_parked_and_told() {
    let warned = |session: &Session| {
        let log = log_of(session);
        let warnings = log.iter().filter_map(Event::get::<lodge_events::SessionWarning>);
        warnings.filter(|warning| warning.warning_type == "turn_parked").count()
    };
    let house = house();
    let mut probe = house.session().await;
    let id = probe.session.id().to_owned();
    probe.send("slowly 50 ms, stream 400 chunks").await;
    probe
        .until(|payload| matches!(payload, Payload::AssistantMessageDelta(_)).then_some(()))
        .await;
    let mut home = house.dir.path().join("home");
    let mut hosts = Vec::new();
    for (name, taken_up, warnings) in [("first", true, 0), ("second", false, 1)] {
        let copy = house.dir.path().join(name);
        let host = as_killed(&home, &copy, true);
        let session = host.open_session(&id).await.unwrap();
        assert_eq!(session.continue_pending().await.unwrap(), taken_up, "{name}");
        assert_eq!((session.is_busy(), warned(&session)), (taken_up, warnings), "{name}");
        hosts.push((host, session));
        home = copy;
    }
    let (_, session) = hosts.pop().unwrap();
    // A person may say otherwise.
    assert!(session.resume_failed().await.unwrap());
    session.abort(lodge_events::AbortReason::UserInitiated).await.unwrap();
}
