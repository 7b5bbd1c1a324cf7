//! The life of sessions: made, listed, left, resumed, forked, taken back, deleted.

use std::time::Duration;

use lodge_events::{LodgeChat, LodgeDirectories, Payload};
use lodge_host::{
    AgentError, Answer, Approval, Change, Clock, Decision, Delivery, Ending, GivenUp, Host, HostError, LOG_FILE,
    Lifecycle, ListFilter, McpFiles, NewSession, PartKind, PartPlace, PermissionDecision, Prompt, Resume, Session,
};
use lodge_models::{Catalogue, ModelsConfig};

use crate::kit::{Probe, chain_of, host_after, host_at, host_on, house, log_of, shared_host_at};

#[tokio::test]
async fn a_session_leaves_memory_when_idle_and_comes_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let host = host_at(&dir.path().join("home"), Duration::from_millis(60));
    let session = host
        .create(NewSession {
            cwd: Some(dir.path().to_owned()),
            ..NewSession::default()
        })
        .await
        .unwrap();
    let id = session.id().to_owned();
    let mut probe = Probe::on(session);
    probe.turn("say remember the blue door").await;
    let before = log_of(&probe.session);
    assert!(host.in_use(&id));
    drop(probe);
    for _ in 0..200 {
        if host.live(&id).is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(host.live(&id).is_none(), "it left memory");
    assert!(!host.in_use(&id));
    let session = host.open_session(&id).await.unwrap();
    assert_eq!(
        log_of(&session),
        before,
        "and nothing was recorded by leaving and coming back"
    );
    let mut probe = Probe::on(session);
    assert_eq!(probe.turn("say hello again").await, "hello again");
}

#[tokio::test]
async fn a_session_stays_in_memory_while_a_command_runs_in_its_background() {
    let dir = tempfile::tempdir().unwrap();
    let idle_after = Duration::from_millis(60);
    let host = host_at(&dir.path().join("home"), idle_after);
    let session = host
        .create(NewSession {
            cwd: Some(dir.path().to_owned()),
            approval: Approval::ApproveAll,
            ..NewSession::default()
        })
        .await
        .unwrap();
    let id = session.id().to_owned();
    let mut probe = Probe::on(session);
    let go = dir.path().join("go");
    let command = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    probe
        .turn(&format!(
            r#"call bash {{"command":"{command}","mode":"async"}} then say left it running"#
        ))
        .await;
    drop(probe);
    tokio::time::sleep(idle_after * 10).await;
    assert!(host.live(&id).is_some() && host.has_work(), "its command runs");
    std::fs::write(go, "").unwrap();
    for _ in 0..500 {
        if host.live(&id).is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(host.live(&id).is_none() && !host.has_work(), "it left memory");
}

#[tokio::test]
async fn a_session_is_not_given_to_another_host_while_a_command_runs_in_its_background() {
    let house = house();
    let mut probe = house
        .session_with(NewSession {
            approval: Approval::ApproveAll,
            ..NewSession::default()
        })
        .await;
    let (id, go) = (probe.session.id().to_owned(), house.dir.path().join("go"));
    let command = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let call = format!(r#"call bash {{"command":"{command}","mode":"async"}} then say left it running"#);
    probe.turn(&call).await;
    drop(probe);
    assert_eq!(house.host.give_up(&id).await, GivenUp::InUse);
    assert!(house.host.live(&id).is_some(), "its command goes on");
    std::fs::write(go, "").unwrap();
    while house.host.has_work() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(house.host.give_up(&id).await, GivenUp::Yes);
}

#[tokio::test]
async fn the_copy_of_a_session_of_a_fleet_is_read_without_the_fleet_and_not_continued() {
    let house = house();
    let mut probe = house.session().await;
    let id = probe.session.id().to_owned();
    probe.turn("say in the fleet").await;
    let dir = house.dir.path().join("home/session-state").join(&id);
    drop(probe);
    assert!(house.host.close(&id).await);
    let log = std::fs::read(dir.join(LOG_FILE)).unwrap();
    std::fs::write(dir.join("fleet.joined"), "").unwrap();
    let resumed = house.host.resume(&id, Resume::default()).await;
    for refused in [house.host.open_session(&id).await.err(), resumed.err()] {
        let refused = refused.expect("it belongs to a fleet").to_string();
        for way in ["--fleet", "lodge fleet export"] {
            assert!(refused.contains(way), "{refused}");
        }
    }
    assert_eq!(std::fs::read(dir.join(LOG_FILE)).unwrap(), log);
    assert!(house.host.read(&id).unwrap().events().count() > 0);
    assert_eq!(house.host.summary(&id).unwrap().unwrap().id, id);
}

#[tokio::test]
async fn a_worktree_goes_with_its_session_also_when_another_host_deletes_that() {
    let house = house();
    let cwd = house.cwd();
    for args in [
        &["init", "--quiet"] as &[&str],
        &[
            "-c",
            "user.name=T",
            "-c",
            "user.email=t@example.com",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "one",
        ],
    ] {
        let done = std::process::Command::new("git")
            .args(args)
            .current_dir(&cwd)
            .status()
            .unwrap();
        assert!(done.success());
    }
    let new = NewSession {
        worktree: Some("HEAD".into()),
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let id = probe.session.id().to_owned();
    let tree = probe.session.make_worktree().await.unwrap().expect("it was wanted");
    probe.turn("say here").await;
    drop(probe);
    assert!(house.host.close(&id).await && tree.is_dir());
    house.host.deleted_elsewhere(&id, || true).await.unwrap();
    assert!(
        tree.is_dir() && house.host.summary(&id).unwrap().is_some(),
        "it is no copy"
    );
    let dir = house.dir.path().join("home/session-state").join(&id);
    std::fs::write(dir.join("fleet.joined"), "").unwrap();
    house.host.deleted_elsewhere(&id, || false).await.unwrap();
    assert!(house.host.summary(&id).unwrap().is_some(), "another session has the id");
    house.host.deleted_elsewhere(&id, || true).await.unwrap();
    assert!(house.host.summary(&id).unwrap().is_none());
    while tree.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn only_sessions_in_which_something_was_said_are_listed_newest_first() {
    let house = house();
    let mut first = house.session().await;
    let _empty = house.session().await;
    let mut last = house.session().await;
    first.turn("say one").await;
    last.turn("say two").await;
    let listed = house.host.catalogue().list(&ListFilter::default()).unwrap().sessions;
    let ids: Vec<&str> = listed.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(ids, [last.session.id(), first.session.id()]);
    let hits = house.host.catalogue().search("two", 10).unwrap();
    assert_eq!(hits[0].session.id, last.session.id());
}

#[tokio::test]
async fn an_id_is_used_once_and_an_unknown_one_is_an_error() {
    let house = house();
    for id in ["plain", "../escape", "with/slash", "ünïcode 名", "copilot:/42"] {
        let new = NewSession {
            id: Some(id.into()),
            cwd: Some(house.cwd()),
            ..NewSession::default()
        };
        let session = house.host.create(new.clone()).await.unwrap();
        assert_eq!(session.id(), id);
        assert!(
            session.dir().starts_with(house.dir.path().join("home/session-state")),
            "{id}: {:?}",
            session.dir()
        );
        assert!(
            matches!(house.host.create(new).await, Err(HostError::AlreadyExists(_))),
            "{id}"
        );
    }
    assert!(matches!(house.host.open_session("nobody").await, Err(HostError::NotFound(id)) if id == "nobody"));
    assert!(matches!(house.host.delete("nobody").await, Err(HostError::NotFound(_))));
}

#[tokio::test]
async fn lifecycle_tells_what_happens_to_sessions() {
    let house = house();
    let mut lifecycle = house.host.lifecycle();
    let mut probe = house.session().await;
    let id = probe.session.id().to_owned();
    probe.turn("say hi").await;
    house.host.delete(&id).await.unwrap();
    let mut told = Vec::new();
    while let Ok(next) = lifecycle.try_recv() {
        told.push(next);
    }
    told.dedup();
    assert!(told.contains(&Lifecycle::Created(id.clone())));
    let deleted = Lifecycle::Deleted {
        id: id.clone(),
        address: None,
        chat_of: None,
    };
    assert_eq!(told.last(), Some(&deleted));
    assert!(told.contains(&Lifecycle::Updated(id.clone())));
    assert!(!probe.session.dir().exists());
}

#[tokio::test]
async fn a_fork_has_the_past_and_a_future_of_its_own() {
    let house = house();
    let mut probe = house.session().await;
    probe.turn("say one").await;
    let end_of_first = log_of(&probe.session).last().unwrap().id();
    probe.turn("say two").await;
    let fork = house
        .host
        .fork(probe.session.id(), Some(end_of_first), Some("forked".into()))
        .await
        .unwrap();
    assert_eq!(log_of(&fork).last().unwrap().id(), end_of_first);
    let mut forked = Probe::on(fork);
    forked.turn("say three").await;
    assert!(
        !log_of(&probe.session)
            .iter()
            .any(|event| event.as_str().contains("say three"))
    );
    let nowhere = house
        .host
        .fork(probe.session.id(), Some(uuid::Uuid::new_v4()), Some("nowhere".into()))
        .await;
    assert!(matches!(nowhere, Err(HostError::Invalid(_))));
    assert!(matches!(
        house.host.open_session("nowhere").await,
        Err(HostError::NotFound(_))
    ));
}

#[tokio::test]
async fn a_session_taken_back_has_forgotten_what_came_after() {
    let house = house();
    let mut probe = house.session().await;
    probe.turn("say one").await;
    let before = chain_of(&probe.session);
    probe.turn("say two").await;
    let after = chain_of(&probe.session);
    let removed = probe.session.truncate(after[before.len()].id()).await.unwrap();
    assert_eq!(removed as usize, after.len() - before.len());
    assert_eq!(chain_of(&probe.session), before);
    assert_eq!(probe.turn("say three").await, "three");
    let texts: Vec<String> = log_of(&probe.session)
        .iter()
        .map(|event| event.as_str().to_owned())
        .collect();
    assert!(!texts.iter().any(|text| text.contains("say two")));
}

#[tokio::test]
async fn resuming_records_it_and_closes_what_was_open() {
    let house = house();
    let mut probe = house.session().await;
    probe.turn("say one").await;
    let id = probe.session.id().to_owned();
    house.host.close(&id).await;
    drop(probe);
    let session = house.host.resume(&id, Resume::default()).await.unwrap();
    let kinds: Vec<String> = log_of(&session).iter().map(|event| event.kind().to_owned()).collect();
    assert_eq!(kinds[kinds.len() - 2..], ["session.shutdown", "session.resume"]);
}

#[tokio::test]
async fn a_session_that_was_used_since_it_expired_is_not_pruned() {
    let house = house();
    let mut probe = house.session().await;
    probe.turn("say one").await;
    let id = probe.session.id().to_owned();
    drop(probe);
    house.host.close(&id).await;
    let before = house.host.prunable().await.unwrap().remove(0);
    let mut probe = Probe::on(house.host.open_session(&id).await.unwrap());
    probe.turn("say two").await;
    drop(probe);
    house.host.close(&id).await;
    assert!(!house.host.prune(&before).await.unwrap());
    let now = house.host.prunable().await.unwrap().remove(0);
    assert!(now.modified > before.modified);
    assert!(house.host.prune(&now).await.unwrap());
    assert!(house.host.find(&id).await.unwrap().is_none());
}

#[tokio::test]
async fn models_without_a_default_are_refused_while_a_session_needs_one() {
    let house = house();
    let without = || {
        let provider = |name: &str| (name == "LODGE_PROVIDER_BASE_URL").then(|| "http://127.0.0.1:1/v1".to_owned());
        Catalogue::from(ModelsConfig::default(), provider).unwrap()
    };
    house.host.use_models(without()).await.unwrap();
    let with = Catalogue::from(ModelsConfig::default(), |_| None).unwrap();
    house.host.use_models(with).await.unwrap();
    let mut probe = house.session().await;
    house.host.use_models(without()).await.unwrap_err();
    assert!(house.host.models().resolve(None).is_ok(), "nothing changed");
    assert_eq!(probe.turn("say hello").await, "hello");
}

#[tokio::test]
async fn a_name_that_a_person_chose_is_kept() {
    let house = house();
    let mut probe = house.session().await;
    probe.turn("say hi").await;
    probe.session.rename(Some("Blue door".into())).await.unwrap();
    let id = probe.session.id().to_owned();
    house.host.close(&id).await;
    drop(probe);
    assert_eq!(
        house.host.open_session(&id).await.unwrap().settings().name.as_deref(),
        Some("Blue door")
    );
    assert_eq!(
        house.host.summary(&id).unwrap().unwrap().title.as_deref(),
        Some("Blue door")
    );
}

#[tokio::test]
async fn sums_at_the_end_add_up() {
    let house = house();
    let new = NewSession {
        approval: lodge_host::Approval::ApproveAll,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let path = house.cwd().join("a.txt");
    probe
        .turn(&format!(
            "call create {{\"path\":\"{}\",\"file_text\":\"a\\nb\\n\"}} then say done",
            path.display()
        ))
        .await;
    let usage: u64 = probe
        .seen
        .iter()
        .filter_map(|event| match event.payload() {
            lodge_events::Payload::AssistantUsage(usage) => usage.output_tokens,
            _ => None,
        })
        .sum();
    let session = probe.session.clone();
    house.host.end(session.id(), Ending::Routine).await;
    let log = log_of(&session);
    let Some(lodge_events::Payload::SessionShutdown(end)) = log.last().map(lodge_events::Event::payload) else {
        panic!("the last event is {:?}", log.last());
    };
    assert_eq!(end.code_changes.lines_added, 2);
    assert_eq!(end.code_changes.files_modified, [path.to_string_lossy()]);
    let metric = &end.model_metrics["rehearsal"];
    assert_eq!((metric.requests.count, metric.usage.output_tokens), (Some(2), usage));
}

#[tokio::test]
async fn nothing_is_heard_by_a_session_that_has_ended() {
    let house = house();
    let probe = house.session().await;
    house.host.end(probe.session.id(), Ending::Routine).await;
    assert!(
        probe
            .session
            .send(Prompt {
                delivery: Delivery::Enqueue,
                ..Prompt::default()
            })
            .await
            .is_err()
    );
    let answer = Answer::Permission(PermissionDecision::ApproveOnce);
    assert!(probe.session.answer("x", answer, Default::default()).await.is_err());
}

#[tokio::test]
async fn the_turn_of_a_process_that_is_just_dying_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let new = NewSession {
        cwd: Some(dir.path().to_owned()),
        ..NewSession::default()
    };
    let mut probe = Probe::on(shared_host_at(&home).create(new).await.unwrap());
    probe.turn("say one").await;
    // What a process holds that runs a turn.
    let lease = std::fs::File::open(home.join("session-state").join(probe.session.id())).unwrap();
    lease.lock().unwrap();
    let prompt = Prompt {
        text: "say two".into(),
        ..Prompt::default()
    };
    let refused = probe.session.send(prompt).await;
    assert!(
        matches!(refused, Err(AgentError::InUse)),
        "one that goes on: {refused:?}"
    );
    let dies = async move {
        // The session has to find it locked first.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        drop(lease);
    };
    let (said, ()) = tokio::join!(probe.turn("say three"), dies);
    assert_eq!(said, "three");
}

#[tokio::test]
async fn two_processes_on_a_shared_home_can_have_the_same_session() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let (one, two) = (shared_host_at(&home), shared_host_at(&home));
    let new = NewSession {
        cwd: Some(dir.path().to_owned()),
        ..NewSession::default()
    };
    let mut first = Probe::on(one.create(new).await.unwrap());
    first.turn("say one").await;
    let mut second = Probe::on(two.resume(first.session.id(), Resume::default()).await.unwrap());
    second.turn("say two").await;
    assert_eq!(
        first.turn("say three").await,
        "three",
        "the first notices and goes on after what the second wrote"
    );
    assert!(
        first.seen.iter().any(|event| event.as_str().contains("say two")),
        "and its clients see it"
    );
    second.turn("say four").await;
    let said: Vec<String> = log_of(&second.session)
        .iter()
        .filter_map(|event| match event.payload() {
            lodge_events::Payload::AssistantMessage(message) => Some(message.content.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["one", "two", "three", "four"]);
}

#[tokio::test]
async fn a_session_that_could_not_be_begun_is_not_in_the_way_of_the_next_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let options = lodge_host::HomeOptions {
        max_event: 10,
        ..lodge_host::HomeOptions::default()
    };
    let host = host_on(
        lodge_host::Home::open(dir.path(), options).unwrap(),
        Duration::from_secs(600),
    );
    for _ in 0..2 {
        let new = NewSession {
            id: Some("x".into()),
            ..NewSession::default()
        };
        let error = host.create(new).await.err().unwrap().to_string();
        assert!(error.contains("the limit of 10 bytes"), "{error}");
    }
}

#[tokio::test]
async fn a_home_that_is_used_is_refused_to_a_host_that_wants_it_alone() {
    let dir = tempfile::tempdir().unwrap();
    let alone = lodge_host::HomeOptions::default;
    let shared = || lodge_host::HomeOptions {
        exclusive: false,
        ..alone()
    };
    for (first, second) in [(alone(), alone()), (alone(), shared()), (shared(), alone())] {
        let _first = lodge_host::Home::open(dir.path(), first).unwrap();
        let error = lodge_host::Home::open(dir.path(), second).unwrap_err();
        assert!(matches!(error, lodge_host::LogError::Locked { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_session_that_reads_no_mcp_files_reads_none_that_come_later() {
    let house = house();
    let with = |mcp_files| NewSession {
        mcp_files,
        ..NewSession::default()
    };
    let off = house.session_with(with(McpFiles::Off)).await;
    let on = house.session_with(with(McpFiles::Trusted)).await;
    let described = r#"{"mcpServers":{"late":{"command":"true","disabled":true}}}"#;
    std::fs::write(house.host.home().path().join("mcp-config.json"), described).unwrap();
    let names = |session: &Session| {
        let servers = session.configured_servers().into_iter();
        servers.map(|server| server.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&on.session), ["late"]);
    assert_eq!(names(&off.session), [""; 0]);
}

#[tokio::test]
async fn a_chat_has_the_approval_mode_and_directories_of_its_session_whoever_opens_it() {
    let house = house();
    let (work, one, two) = (house.cwd(), house.dir.path().join("one"), house.dir.path().join("two"));
    for directory in [&one, &two] {
        std::fs::create_dir_all(directory).unwrap();
    }
    let main = house.session_with(NewSession {
        id: Some("main".into()),
        additional_directories: vec![one.clone(), two.clone()],
        ..NewSession::default()
    });
    let main = main.await.session;
    let chat = LodgeChat {
        session: Some("main".into()),
        address: "ahp-chat:/aside".into(),
        ..LodgeChat::default()
    };
    let chat = NewSession {
        id: Some("chat".into()),
        cwd: Some(work.clone()),
        chat: Some(chat),
        ..NewSession::default()
    };
    let chat = house.host.create(chat).await.unwrap();
    let chosen = [&work, &one, &two].map(|path| path.display().to_string()).into();
    let all = LodgeDirectories {
        chosen: Some(chosen),
        ..LodgeDirectories::default()
    };
    chat.set_directories(&all).await.unwrap();
    drop(chat);
    assert!(house.host.close("chat").await);
    main.configure(Change::Approval(Approval::ApproveAll)).await.unwrap();
    main.configure(Change::AdditionalDirectories(vec![two.clone()]))
        .await
        .unwrap();
    let chat = house.host.open_session("chat").await.unwrap().settings();
    assert_eq!((chat.cwd, chat.additional_directories), (work, vec![two]));
    assert_eq!(chat.approval, Approval::ApproveAll);
}

#[tokio::test]
async fn what_is_decided_about_files_holds_in_every_session_whoever_opens_it() {
    let house = house();
    let agents = house.cwd().join(".github/agents");
    std::fs::create_dir_all(&agents).unwrap();
    for name in ["knitter", "weaver"] {
        let text = format!("---\nname: {name}\ndescription: works\n---\nYou work.\n");
        std::fs::write(agents.join(format!("{name}.md")), text).unwrap();
    }
    let file = PartPlace::of_file(&[], PartKind::Agents, &agents.join("knitter.md"));
    let off = |decision: &mut Decision| decision.everywhere = Some(false);
    house.host.decisions().decide(&file.key, off).unwrap();
    let is_on = async |session: &Session| {
        let found = session.found_agents().await.unwrap().into_iter();
        let found = found.map(|(agent, on)| (agent.name, on));
        found.collect::<std::collections::BTreeMap<_, _>>()
    };
    let new = house.session().await.session;
    let seen = is_on(&new).await;
    assert_eq!((seen["knitter"], seen["weaver"]), (false, true));
    // What is said of the session counts more; in a directory that is off everything is.
    let switches = [(file.key.clone(), true)].into();
    new.set_switches(switches).unwrap().done().await.unwrap();
    let id = new.id().to_owned();
    drop(new);
    assert!(house.host.close(&id).await);
    let seen = is_on(&house.host.open_session(&id).await.unwrap()).await;
    assert_eq!((seen["knitter"], seen["weaver"]), (true, true));
    assert!(house.host.close(&id).await);
    house.host.decisions().decide(&file.around, off).unwrap();
    let seen = is_on(&house.host.open_session(&id).await.unwrap()).await;
    assert_eq!((seen["knitter"], seen["weaver"]), (false, false));
}

#[tokio::test]
async fn what_is_decided_for_more_than_one_session_reaches_those_that_are_open_whoever_decides_it() {
    let house = house();
    let skill = house.cwd().join(".github/skills/weaving");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: weaving\ndescription: works\n---\nUp.\n",
    )
    .unwrap();
    let (mut first, mut other) = (house.session().await, house.session().await);
    for probe in [&first, &other] {
        assert!(probe.session.skills().await.unwrap()[0].1, "it is on");
    }
    let switched = |payload: &Payload| match payload {
        Payload::SessionSkillsLoaded(loaded) => Some(loaded.skills[0].enabled),
        _ => None,
    };
    // What is said of one session counts more.
    assert!(other.session.switch_skill("weaving", true).await.unwrap());
    house.host.set_disabled_skills(&["weaving".to_owned()].into()).unwrap();
    while first.until(switched).await {}
    assert!(!first.session.skills().await.unwrap()[0].1);
    house.host.set_disabled_skills(&[].into()).unwrap();
    while !first.until(switched).await {}
    assert!(
        first.session.skills().await.unwrap()[0].1,
        "it is as if nobody had decided"
    );
    other.turn("say hello").await;
    assert!(other.session.skills().await.unwrap()[0].1);
}

#[tokio::test]
async fn a_name_that_an_app_makes_up_gives_way_to_a_persons_also_after_a_restart() {
    let house = house();
    let session = house.session().await.session;
    let id = session.id().to_owned();
    let reopened = async |session: Session| {
        drop(session);
        assert!(house.host.close(&id).await);
        house.host.open_session(&id).await.unwrap()
    };
    assert!(session.name_automatically("Textiles".into()).await.unwrap());
    assert!(!session.is_named_by_person());
    let session = reopened(session).await;
    assert_eq!(session.settings().name.as_deref(), Some("Textiles"));
    assert!(!session.is_named_by_person());
    assert!(session.name_automatically("Cloth".into()).await.unwrap());
    // The same name is another, if a person chooses it.
    session.rename(Some("Cloth".into())).await.unwrap();
    let session = reopened(session).await;
    assert!(session.is_named_by_person());
    assert!(!session.name_automatically("Textiles".into()).await.unwrap());
    assert_eq!(session.settings().name.as_deref(), Some("Cloth"));
    session.rename(None).await.unwrap();
    assert!(session.name_automatically("Textiles".into()).await.unwrap());
}

#[tokio::test]
async fn a_session_that_was_left_unused_is_in_no_list_and_deleted_after_a_while_unless_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let clock = Clock::by_hand(clock_start());
    let later = |minutes: i64| clock.set(clock_start() + jiff::SignedDuration::from_mins(minutes));
    let host = host_after(&home, &clock).await;
    let make = async |host: &Host| {
        let cwd = Some(dir.path().to_owned());
        let new = NewSession {
            cwd,
            ..NewSession::default()
        };
        host.create(new).await.unwrap().id().to_owned()
    };
    let listed = async |host: &Host| {
        let include_empty = true;
        let filter = ListFilter {
            include_empty,
            ..ListFilter::default()
        };
        let page = host.list(filter).await.unwrap();
        page.sessions
            .into_iter()
            .map(|session| session.id)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let (left, used) = (make(&host).await, make(&host).await);
    let mut told = host.lifecycle();
    host.leave_unused(&left).await.unwrap();
    host.leave_unused(&used).await.unwrap();
    assert_eq!(listed(&host).await, [].into());
    for _ in 0..2 {
        assert!(matches!(told.recv().await.unwrap(), Lifecycle::Deleted { .. }));
    }
    later(9);
    drop(host.open_session(&used).await.unwrap());
    assert_eq!(told.recv().await.unwrap(), Lifecycle::Created(used.clone()));
    assert_eq!(listed(&host).await, [used.clone()].into());
    host.shutdown().await;
    drop((host, told));

    // The next host sees to it.
    let host = host_after(&home, &clock).await;
    let mut told = host.lifecycle();
    assert_eq!(listed(&host).await, [used.clone()].into());
    later(11);
    while !matches!(told.recv().await.unwrap(), Lifecycle::Deleted { id, .. } if id == left) {}
    assert!(matches!(host.open_session(&left).await, Err(HostError::NotFound(_))));
    assert!(host.open_session(&used).await.is_ok());
}

fn clock_start() -> lodge_events::Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}
