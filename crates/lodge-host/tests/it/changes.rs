//! What turns did to files, told and undone.

use lodge_events::{AbortReason, Payload, UserMessage};
use lodge_host::{Against, Approval, Entry, HostError, NewSession, Session, Span, WorkTree};

use crate::kit::{House, Probe, house, log_of, tool};

async fn probe(house: &House) -> Probe {
    house
        .session_with(NewSession {
            approval: Approval::ApproveAll,
            ..NewSession::default()
        })
        .await
}

fn bash(command: &str) -> String {
    format!(
        "call bash {}",
        serde_json::json!({"command": command, "description": "d"})
    )
}

/// The ids of the turns' messages.
fn turns(session: &Session) -> Vec<String> {
    let log = log_of(session);
    let messages = log.iter().filter_map(|event| event.get::<UserMessage>());
    messages.map(|message| message.message_id.clone().unwrap()).collect()
}

async fn told(session: &Session, span: Span) -> Vec<String> {
    let deltas = session.changes_of(span).await.unwrap();
    let told = deltas.iter().map(|delta| {
        let word = |entry: &Entry| match entry {
            Entry::Absent => "-".to_owned(),
            Entry::File { size, .. } => size.to_string(),
            other => format!("{other:?}"),
        };
        let name = delta.path.file_name().unwrap().display();
        format!("{name} {}>{}", word(&delta.before), word(&delta.after))
    });
    told.collect()
}

#[tokio::test]
async fn what_several_sessions_did_to_a_file_is_told_once_with_the_lines_of_all() {
    let house = house();
    std::fs::write(house.cwd().join("kept"), "one\n").unwrap();
    let mut probes = [probe(&house).await, probe(&house).await];
    for (probe, command) in probes.iter_mut().zip([
        "echo 2 >> kept; echo 3 >> kept; echo made > passing",
        "echo 4 >> kept; rm passing",
    ]) {
        probe.turn(&format!("{} then say ok", bash(command))).await;
    }
    let ids = probes.map(|probe| probe.session.id().to_owned());
    let files = house.host.changed_files(&ids, &Span::Session).await.unwrap();
    let told: Vec<_> = files
        .iter()
        .map(|file| (file.path.file_name().unwrap().to_str().unwrap(), file.lines))
        .collect();
    assert_eq!(told, [("kept", Some((3, 0)))]);
    let side = |side: &Option<lodge_host::FileSide>| side.as_ref().map(|side| (side.session.clone(), side.size));
    assert_eq!(side(&files[0].before), Some((ids[0].clone(), Some(4))));
    assert_eq!(side(&files[0].after), Some((ids[1].clone(), Some(10))));
}

#[tokio::test]
async fn a_turn_is_told_whatever_tool_changed_the_files_and_taken_back_exactly() {
    let house = house();
    let work = house.cwd();
    std::fs::write(work.join("kept"), "one\n").unwrap();
    std::fs::write(work.join("gone"), "x\n").unwrap();
    let mut probe = probe(&house).await;
    let edit = r#"call edit {"path":"kept","old_str":"one","new_str":"three"}"#;
    let create = r#"call create {"path":"new/deep.txt","file_text":"made\n"}"#;
    probe.turn(&format!("{edit} then {create} then say ok")).await;
    probe
        .turn(&format!(
            "{} then say ok",
            bash("rm gone; echo more >> kept; chmod +x kept")
        ))
        .await;
    probe.turn(&format!("{} then say ok", bash("ls; cat kept"))).await;
    let session = &probe.session;
    let turns = turns(session);
    let of = |at: usize| Span::Turn(turns[at].clone());
    assert_eq!(told(session, of(0)).await, ["kept 4>6", "deep.txt ->5"]);
    assert_eq!(told(session, of(1)).await, ["gone 2>-", "kept 6>11"]);
    assert_eq!(told(session, of(2)).await, [""; 0]);
    assert_eq!(
        told(session, Span::Session).await,
        ["gone 2>-", "kept 4>11", "deep.txt ->5"]
    );
    assert_eq!(
        told(session, Span::Since(turns[1].clone())).await,
        ["gone 2>-", "kept 6>11"]
    );
    let between = |last: usize| Span::Between(turns[0].clone(), turns[last].clone());
    assert_eq!(told(session, between(0)).await, [""; 0]);
    assert_eq!(told(session, between(2)).await, ["gone 2>-", "kept 6>11"]);
    let lines = session
        .lines_of(session.changes_of(of(0)).await.unwrap())
        .await
        .unwrap();
    assert_eq!(
        lines.iter().map(|(_, lines)| *lines).collect::<Vec<_>>(),
        [Some((1, 1)), Some((1, 0))]
    );
    // The last turn changed nothing, and the one before it is under the first.
    let report = session.restore(of(0), None, false).await.unwrap();
    assert_eq!(
        (report.restored.len(), report.conflicts().count()),
        (1, 1),
        "{report:?}"
    );
    assert!(!work.join("new").exists());
    session
        .restore(Span::Turn(report.id.unwrap()), None, false)
        .await
        .unwrap();
    assert!(work.join("new/deep.txt").exists());
    let report = session
        .restore(Span::Since(turns[0].clone()), None, false)
        .await
        .unwrap();
    assert_eq!((report.restored.len(), report.skipped.len()), (3, 0), "{report:?}");
    let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap();
    assert_eq!((read("kept").as_str(), read("gone").as_str()), ("one\n", "x\n"));
    assert!(!work.join("new").exists());
    assert!(matches!(
        session.changes_of(Span::Since("nobody".into())).await,
        Err(HostError::Invalid(_))
    ));
    assert!(matches!(
        WorkTree::read(house.cwd(), Against::Head).await,
        Err(HostError::Changes(_))
    ));
}

#[tokio::test]
async fn changes_survive_the_session_leaving_memory_and_go_along_into_a_copy() {
    let house = house();
    let mut probe = probe(&house).await;
    probe.turn(&format!("{} then say ok", bash("echo 1 > a"))).await;
    probe.turn(&format!("{} then say ok", bash("echo 2 > b"))).await;
    let id = probe.session.id().to_owned();
    let first = turns(&probe.session).remove(0);
    let log = log_of(&probe.session);
    let second = log.iter().filter(|event| event.is::<UserMessage>()).nth(1).unwrap();
    let before = log
        .iter()
        .take_while(|event| event.id() != second.id())
        .last()
        .unwrap()
        .id();
    drop(probe);
    house.host.close(&id).await;
    let session = house.host.open_session(&id).await.unwrap();
    assert_eq!(told(&session, Span::Session).await, ["a ->2", "b ->2"]);
    let copy = house.host.fork(&id, Some(before), None).await.unwrap();
    assert_eq!(told(&copy, Span::Session).await, ["a ->2"]);
    house.host.delete(&id).await.unwrap();
    let report = copy.restore(Span::Turn(first), None, false).await.unwrap();
    assert_eq!(report.restored.len(), 1);
    assert!(!house.cwd().join("a").exists() && house.cwd().join("b").exists());
}

#[tokio::test]
async fn what_an_aborted_command_did_is_told_and_nothing_is_restored_while_a_turn_runs() {
    let house = house();
    let mut probe = probe(&house).await;
    probe.send(&bash("echo 1 > made; sleep 600")).await;
    while !house.cwd().join("made").exists() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(
        probe.session.restore(Span::Session, None, false).await,
        Err(HostError::Agent(lodge_host::AgentError::Busy))
    ));
    probe.session.abort(AbortReason::UserInitiated).await.unwrap();
    probe.until_idle().await;
    assert_eq!(told(&probe.session, Span::Session).await.len(), 1);
}

#[tokio::test]
async fn what_a_clients_tool_did_is_told() {
    let house = house();
    let mut probe = probe(&house).await;
    let _attached = probe
        .attach_with(
            Default::default(),
            vec![tool("write_it")],
            std::sync::Arc::new(lodge_host::NoCalls),
        )
        .await;
    probe.send("call write_it {} then say ok").await;
    let request = probe
        .until(|payload| match payload {
            Payload::ExternalToolRequested(asked) => Some(asked.request_id.clone()),
            _ => None,
        })
        .await;
    std::fs::write(house.cwd().join("by-client"), "x").unwrap();
    let answer = lodge_host::Answer::Tool(lodge_host::ToolAnswer::Result(Box::new(lodge_host::ExternalResult {
        text: "done".into(),
        ..Default::default()
    })));
    while !probe
        .session
        .answer(&request, answer.clone(), Default::default())
        .await
        .unwrap()
    {}
    probe.until_idle().await;
    assert_eq!(told(&probe.session, Span::Session).await, ["by-client ->1"]);
}
