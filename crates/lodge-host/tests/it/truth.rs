//! What is true of a session beside its conversation: spend, approvals and rules outlive the host, and a crash of a turn
//! leaves nothing open.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream::BoxStream};
use lodge_events::{ApprovalMode, Event, LodgeUsage, Payload, RuleEffect};
use lodge_host::{
    Answer, Approval, Capabilities, Change, ClientCalls, Compaction, Host, ModelChoice, NewSession, NoCalls,
    PermissionDecision, Resume, Session,
};
use lodge_log::Store;
use lodge_models::{Chunk, Model, ModelError, ModelInfo, ModelRequest, Rehearsal};
use serde_json::Value;

use crate::kit::{House, Probe, chain_of, host_at, house, log_of, shared_host_at, tool};

/// The offline model with a price, and a count of what it was asked.
struct Priced {
    inner: Rehearsal,
    calls: AtomicU64,
    panics: AtomicBool,
}

/// What each call costs.
const PRICE: f64 = 0.5;

impl Priced {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: Rehearsal::new(),
            calls: AtomicU64::new(0),
            panics: AtomicBool::new(false),
        })
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Model for Priced {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        assert!(
            !self.panics.load(Ordering::SeqCst),
            "the model panics, as it was told to"
        );
        self.calls.fetch_add(1, Ordering::SeqCst);
        let priced = self.inner.call(request).map(|chunk| match chunk {
            Ok(Chunk::Done(mut completion)) => {
                completion.usage.cost = Some(PRICE);
                Ok(Chunk::Done(completion))
            }
            other => other,
        });
        priced.boxed()
    }
}

fn with(model: &Arc<Priced>) -> NewSession {
    NewSession {
        model: ModelChoice::Given(model.clone()),
        approval: Approval::ApproveAll,
        ..NewSession::default()
    }
}

fn spent(session: &Session) -> (u64, f64) {
    let totals = session.state().totals;
    let models = totals.models.values();
    models.fold((0, 0.0), |(requests, cost), model| {
        (requests + model.requests, cost + model.cost)
    })
}

fn usages(session: &Session) -> Vec<LodgeUsage> {
    let log = log_of(session);
    log.iter()
        .filter_map(|event| event.get::<LodgeUsage>().cloned())
        .collect()
}

/// What `kill -9` leaves behind: the files of the home, in another place, without the host's lock.
pub(crate) fn as_killed(home: &Path, to: &Path, without_index: bool) -> Host {
    copy(home, to);
    let sessions = std::fs::read_dir(to.join("session-state")).unwrap();
    for session in sessions.filter(|_| without_index) {
        let _ = std::fs::remove_file(session.unwrap().path().join("events.idx"));
    }
    host_at(to, Duration::from_secs(600))
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy(&entry.path(), &to),
            // One that takes another's place right now is gone by its name of before.
            kind if kind.is_file() => match std::fs::copy(entry.path(), to) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied.unwrap()),
            },
            _ => {}
        }
    }
}

fn home(house: &House) -> std::path::PathBuf {
    house.dir.path().join("home")
}

#[tokio::test]
async fn every_model_call_is_recorded_once_whoever_made_it() {
    let house = house();
    let model = Priced::new();
    let mut probe = house.session_with(with(&model)).await;
    probe.turn(r#"call bash {"command":"true"} then say done"#).await;
    probe
        .turn(r#"call task {"agent_type":"task","description":"d","prompt":"say hi"} then say done"#)
        .await;
    probe.session.compact(None).await.unwrap();
    probe.session.ask_aside("what?".into()).await.unwrap();
    let asked = serde_json::json!({"messages": [{"role": "user", "content": {"type": "text", "text": "say hi"}}]});
    probe.session.sample(&asked).await.unwrap();
    let used = usages(&probe.session);
    assert_eq!(used.len() as u64, model.calls());
    assert_eq!(spent(&probe.session), (model.calls(), PRICE * model.calls() as f64));
    assert!(
        used.iter()
            .all(|usage| usage.model == model.info().id && usage.cost == Some(PRICE))
    );
    for initiator in ["compaction", "mcp-sampling", "side-question"] {
        let by = used
            .iter()
            .filter(|usage| usage.initiator.as_deref() == Some(initiator));
        assert_eq!(by.count(), 1, "{initiator}");
    }
    let of_agents = log_of(&probe.session);
    let of_agents = of_agents
        .iter()
        .filter(|event| event.is::<LodgeUsage>() && event.agent_id().is_some());
    assert!(of_agents.count() >= 1, "a sub-agent's calls are its own");
}

#[tokio::test]
async fn no_spend_is_refunded_by_a_kill_a_lost_index_a_rewind_or_an_undo() {
    let house = house();
    let model = Priced::new();
    let mut probe = house.session_with(with(&model)).await;
    let id = probe.session.id().to_owned();
    probe.turn("say one").await;
    probe.turn("say two").await;
    // In the middle of a turn: the first call has been made, the tool runs.
    probe.send(r#"call bash {"command":"sleep 60"} then say done"#).await;
    probe
        .until(|payload| matches!(payload, Payload::ToolExecutionStart(_)).then_some(()))
        .await;
    let expected = spent(&probe.session);
    assert_eq!(expected, (3, 3.0 * PRICE));
    for (n, without_index) in [false, true].into_iter().enumerate() {
        let host = as_killed(
            &home(&house),
            &house.dir.path().join(format!("killed-{n}")),
            without_index,
        );
        let session = host.open_session(&id).await.unwrap();
        assert_eq!(spent(&session), expected, "without its index: {without_index}");
    }
    probe
        .session
        .abort(lodge_events::AbortReason::UserInitiated)
        .await
        .unwrap();
    probe.until_idle().await;
    let second = probe.session.rewind_points().await.unwrap()[1].event;
    probe.session.rewind(second, false).await.unwrap();
    assert_eq!(spent(&probe.session), expected, "after a rewind");
    let host = as_killed(&home(&house), &house.dir.path().join("rewound"), true);
    assert_eq!(
        spent(&host.open_session(&id).await.unwrap()),
        expected,
        "after a rewind and a kill"
    );
    probe.session.undo_rewind().await.unwrap();
    assert_eq!(spent(&probe.session), expected, "after its undo");
    let host = as_killed(&home(&house), &house.dir.path().join("undone"), true);
    assert_eq!(
        spent(&host.open_session(&id).await.unwrap()),
        expected,
        "after its undo and a kill"
    );
}

/// As a process leaves a log that dies right after a rewind.
#[tokio::test]
async fn a_rewind_that_is_only_in_the_log_counts_everywhere_and_leaves_the_file() {
    let house = house();
    let model = Priced::new();
    let mut probe = house.session_with(with(&model)).await;
    let (id, dir) = (probe.session.id().to_owned(), probe.session.dir().to_owned());
    probe.turn("say one").await;
    probe.turn("say open sesame").await;
    let point = probe.session.rewind_points().await.unwrap()[1].event;
    let log = log_of(&probe.session);
    let at = log.iter().position(|event| event.id() == point).unwrap();
    let (kept, gone) = log.split_at(at);
    let on_chain = |events: &[Event]| events.iter().filter(|event| !event.is_beside()).count();
    let rewound = lodge_events::LodgeRewound {
        up_to_event_id: point.to_string(),
        events_removed: on_chain(gone) as u64,
        message_ids: gone[0]
            .get::<lodge_events::UserMessage>()
            .and_then(|message| message.message_id.clone())
            .map(|id| vec![id]),
    };
    let rewind = Event::new(gone[0].parent_id(), None, rewound);
    let before = spent(&probe.session);
    drop(probe);
    let elsewhere = house.dir.path().join("killed");
    copy(&home(&house), &elsewhere);
    let file = elsewhere
        .join("session-state")
        .join(dir.file_name().unwrap())
        .join("events.jsonl");
    let mut text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("open sesame"));
    text += &format!("{}\n", rewind.as_str());
    std::fs::write(&file, text).unwrap();
    let host = host_at(&elsewhere, Duration::from_secs(600));
    assert!(
        host.catalogue().search("sesame", 10).unwrap().is_empty(),
        "nobody has opened it"
    );
    let read: Vec<Event> = host.read(&id).unwrap().events().map(Result::unwrap).collect();
    assert!(!read.iter().any(|event| event.as_str().contains("open sesame")));
    let session = host.open_session(&id).await.unwrap();
    let found = log_of(&session);
    assert_eq!(on_chain(&found), on_chain(kept));
    assert_eq!(spent(&session), before);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("open sesame"));
}

#[tokio::test]
async fn what_was_taken_back_stays_in_no_file_once_it_cannot_be_put_back() {
    let house = house();
    let mut probe = house.session().await;
    let dir = probe.session.dir().to_owned();
    let files_with_it = || {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains("open sesame") {
                found.push(path.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
        found
    };
    probe.turn("say one").await;
    probe.turn("say open sesame").await;
    let point = probe.session.rewind_points().await.unwrap()[1].event;
    probe.session.rewind(point, false).await.unwrap();
    assert_eq!(files_with_it(), ["rewound.jsonl"], "it can be put back");
    probe.turn("say two").await;
    assert_eq!(files_with_it(), [""; 0], "it cannot be put back");
}

#[tokio::test]
async fn a_limit_that_is_used_up_stays_used_up_after_the_index_is_lost() {
    let house = house();
    let model = Priced::new();
    let new = NewSession {
        limit: Some(PRICE),
        ..with(&model)
    };
    let mut probe = house.session_with(new).await;
    let id = probe.session.id().to_owned();
    probe.turn("say one").await;
    let host = as_killed(&home(&house), &house.dir.path().join("killed"), true);
    let resume = Resume {
        model: ModelChoice::Given(model.clone()),
        ..Resume::default()
    };
    let mut again = Probe::on(host.resume(&id, resume).await.unwrap());
    again.send("say two").await;
    let error = again
        .until(|payload| match payload {
            Payload::SessionError(error) => Some(error.message.clone()),
            _ => None,
        })
        .await;
    assert!(error.contains("0.5 of the 0.5"), "{error}");
    assert_eq!(model.calls(), 1);
}

/// A home as builds left it that recorded no usage: the sums are in the index and in `session.shutdown`, or nowhere.
#[tokio::test]
async fn what_earlier_builds_counted_counts_on_and_only_once() {
    for (from, expected) in [("index", 3.0), ("shutdown", 2.0), ("both", 3.0), ("nothing", 0.0)] {
        let house = house();
        let session = house.session().await.session;
        let (id, dir) = (session.id().to_owned(), session.dir().to_owned());
        let start = log_of(&session)[0].clone();
        drop(session);
        house.host.close(&id).await;
        // Its index is written when this returns.
        drop(house.host.home().sessions().open(&id).unwrap());
        let mut lines = format!("{}\n", start.as_str());
        let shutdown = |cost: f64| lodge_events::SessionShutdown {
            model_metrics: [(
                "m".to_owned(),
                lodge_events::ModelMetric {
                    requests: lodge_events::ModelRequests {
                        count: Some(4),
                        cost: Some(cost),
                    },
                    ..Default::default()
                },
            )]
            .into(),
            ..Default::default()
        };
        if matches!(from, "shutdown" | "both") {
            // Twice: each tells the sum of the whole session.
            let first = Event::new(Some(start.id()), None, shutdown(1.0));
            let second = Event::new(Some(first.id()), None, shutdown(2.0));
            lines += &format!("{}\n{}\n", first.as_str(), second.as_str());
        }
        std::fs::write(dir.join("events.jsonl"), &lines).unwrap();
        let _ = std::fs::remove_file(dir.join("events.idx"));
        if matches!(from, "index" | "both") {
            let mut log = house.host.home().sessions().open(&id).unwrap().log;
            let facts = r#"{"totals":{"api_ms":7,"models":{"m":{"requests":6,"cost":3.0}}}}"#;
            log.save_snapshot(lodge_log::Snapshot {
                at: log.end(),
                bytes: facts.into(),
            });
            log.request_sync().wait().unwrap();
        }
        let model = Priced::new();
        let resume = || Resume {
            model: ModelChoice::Given(model.clone()),
            ..Resume::default()
        };
        let mut probe = Probe::on(house.host.resume(&id, resume()).await.unwrap());
        assert_eq!(spent(&probe.session).1, expected, "{from}");
        probe.turn("say one").await;
        let expected = expected + PRICE;
        assert_eq!(spent(&probe.session).1, expected, "{from}: after a turn");
        // From now on the log says all of it, also after the host has ended in good order.
        let host = as_killed(&home(&house), &house.dir.path().join("killed"), true);
        assert_eq!(
            spent(&host.open_session(&id).await.unwrap()).1,
            expected,
            "{from}: after a kill"
        );
        drop(probe);
        house.host.close(&id).await;
        let host = as_killed(&home(&house), &house.dir.path().join("closed"), true);
        assert_eq!(
            spent(&host.open_session(&id).await.unwrap()).1,
            expected,
            "{from}: after its end"
        );
    }
}

/// A build that knows nothing of events beside the chain keeps facts that lack what they say.
#[tokio::test]
async fn what_an_older_build_kept_in_between_hides_nothing_that_was_recorded() {
    let house = house();
    let model = Priced::new();
    let mut probe = house.session_with(with(&model)).await;
    let id = probe.session.id().to_owned();
    probe.turn("say one").await;
    probe
        .session
        .configure(Change::Approval(Approval::DenyAll))
        .await
        .unwrap();
    drop(probe);
    house.host.close(&id).await;
    let mut log = house.host.home().sessions().open(&id).unwrap().log;
    log.save_snapshot(lodge_log::Snapshot {
        at: log.end(),
        bytes: r#"{"started_ms":1,"totals":{"lines_added":5}}"#.into(),
    });
    log.request_sync().wait().unwrap();
    drop(log);
    let session = house.host.open_session(&id).await.unwrap();
    assert_eq!(session.settings().approval, Approval::DenyAll);
    assert_eq!(spent(&session), (1, PRICE));
    assert_eq!(session.state().totals.lines_added, 5, "what no event tells is kept");
    assert_ne!(session.state().started_ms, 1);
}

#[tokio::test]
async fn what_another_process_spent_is_counted_here_once() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = [shared_host_at(dir.path()), shared_host_at(dir.path())];
    let model = Priced::new();
    let new = NewSession {
        cwd: Some(dir.path().to_owned()),
        ..with(&model)
    };
    let mut first = Probe::on(hosts[0].create(new).await.unwrap());
    first.turn("say one").await;
    let id = first.session.id().to_owned();
    let resume = Resume {
        model: ModelChoice::Given(model.clone()),
        silent: true,
        ..Resume::default()
    };
    let mut second = Probe::on(hosts[1].resume(&id, resume).await.unwrap());
    // What hangs beside the chain comes last here, and was counted when it was recorded.
    first.session.configure(Change::Approval(Approval::Ask)).await.unwrap();
    first
        .session
        .configure(Change::Approval(Approval::ApproveAll))
        .await
        .unwrap();
    second.turn("say two").await;
    first.turn("say three").await;
    second.turn("say four").await;
    assert_eq!(spent(&second.session), (4, 4.0 * PRICE));
    assert_eq!(spent(&first.session).0, 3, "it has not looked since");
    first.turn("say five").await;
    assert_eq!(spent(&first.session), (5, 5.0 * PRICE));
    assert_eq!(first.session.settings().approval, Approval::ApproveAll);
    log_of(&first.session);
}

#[tokio::test]
async fn the_approval_mode_is_told_and_outlives_the_host() {
    let house = house();
    let mut probe = house.session().await;
    let id = probe.session.id().to_owned();
    let set = |approval| probe.session.configure(Change::Approval(approval));
    for approval in [
        Approval::ApproveAll,
        Approval::ApproveAll,
        Approval::Ask,
        Approval::DenyAll,
    ] {
        set(approval).await.unwrap();
    }
    let log = log_of(&probe.session);
    let modes: Vec<String> = log
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::LodgeApproval(changed) => Some(changed.mode.to_string()),
            Payload::SessionPermissionsChanged(changed) => changed.mode.as_ref().map(ToString::to_string),
            _ => None,
        })
        .collect();
    assert_eq!(modes, ["approve-all", "allow-all", "ask", "manual", "deny-all"]);
    probe.turn("say one").await;
    for (n, approval) in [Approval::ApproveAll, Approval::AutoEdit, Approval::Ask]
        .into_iter()
        .enumerate()
    {
        probe.session.configure(Change::Approval(approval)).await.unwrap();
        let host = as_killed(&home(&house), &house.dir.path().join(format!("killed-{n}")), n % 2 == 0);
        assert_eq!(host.open_session(&id).await.unwrap().settings().approval, approval);
        // Whoever brings a setting of their own gets that, and from then on it is the session's.
        let resume = Resume {
            approval: Some(Approval::DenyAll),
            ..Resume::default()
        };
        host.resume(&id, resume).await.unwrap();
        host.close(&id).await;
        assert_eq!(
            host.open_session(&id).await.unwrap().settings().approval,
            Approval::DenyAll
        );
    }
}

#[tokio::test]
async fn what_a_session_was_made_with_outlives_the_host_and_is_not_told_where_it_is_the_default() {
    let house = house();
    for approval in [Approval::AutoSafe, Approval::Ask, Approval::ApproveAll] {
        let new = NewSession {
            approval,
            ..NewSession::default()
        };
        let probe = house.session_with(new).await;
        let told = log_of(&probe.session)
            .iter()
            .any(|event| event.is::<lodge_events::LodgeApproval>());
        assert_eq!(told, approval != Approval::AutoSafe);
        let id = probe.session.id().to_owned();
        drop(probe);
        let host = as_killed(&home(&house), &house.dir.path().join(format!("{approval:?}")), true);
        assert_eq!(host.open_session(&id).await.unwrap().settings().approval, approval);
    }
}

#[tokio::test]
async fn a_rewind_brings_no_approval_back_that_was_taken_away() {
    let house = house();
    let mut probe = house.session_with(with(&Priced::new())).await;
    let id = probe.session.id().to_owned();
    probe.turn("say one").await;
    probe.turn("say two").await;
    let first = probe.session.rewind_points().await.unwrap()[0].event;
    probe.session.configure(Change::Approval(Approval::Ask)).await.unwrap();
    probe.session.rewind(first, false).await.unwrap();
    assert_eq!(probe.session.settings().approval, Approval::Ask);
    assert!(
        chain_of(&probe.session)
            .iter()
            .all(|event| !event.is::<lodge_events::UserMessage>())
    );
    let host = as_killed(&home(&house), &house.dir.path().join("killed"), true);
    assert_eq!(host.open_session(&id).await.unwrap().settings().approval, Approval::Ask);
}

#[tokio::test]
async fn an_answer_for_the_session_holds_after_a_kill_and_in_no_copy() {
    let house = house();
    let new = NewSession {
        approval: Approval::Ask,
        ..NewSession::default()
    };
    let mut probe = house.session_with(new).await;
    let id = probe.session.id().to_owned();
    let can = Capabilities {
        permissions: true,
        ..Capabilities::default()
    };
    let _client = probe.attach(can.clone()).await;
    const RUN: &str = r#"call bash {"command":"touch made"} then say done"#;
    probe.send(RUN).await;
    let asked = probe
        .until(|payload| match payload {
            Payload::PermissionRequested(asked) => Some(asked.request_id.clone()),
            _ => None,
        })
        .await;
    let answer = Answer::Permission(PermissionDecision::ApproveForSession);
    probe.session.answer(&asked, answer, Default::default()).await.unwrap();
    probe.until_idle().await;
    let rules = probe.session.state().rules;
    assert!(rules.iter().any(|rule| rule.effect == RuleEffect::Allow), "{rules:?}");
    probe
        .session
        .configure(Change::Approval(Approval::AutoEdit))
        .await
        .unwrap();

    let host = as_killed(&home(&house), &house.dir.path().join("killed"), true);
    let resume = Resume {
        approval: Some(Approval::Ask),
        ..Resume::default()
    };
    let mut again = Probe::on(host.resume(&id, resume).await.unwrap());
    let _client = again.attach(can.clone()).await;
    again.turn(RUN).await;
    assert_eq!(again.count("permission.requested"), 0, "{:?}", again.kinds());

    // A copy has what was said and what it cost, and nothing of what was allowed.
    let fork = house.host.fork(&id, None, Some("fork".into())).await.unwrap();
    let lines: String = log_of(&probe.session)
        .iter()
        .map(|event| format!("{}\n", event.as_str()))
        .collect();
    let from = house.dir.path().join("elsewhere").join(&id);
    std::fs::create_dir_all(&from).unwrap();
    std::fs::write(from.join("events.jsonl"), &lines).unwrap();
    let imported = host_at(&house.dir.path().join("importing"), Duration::from_secs(600));
    imported.home().ensure().unwrap();
    let import = || {
        lodge_host::import::import(imported.home(), &from.join("events.jsonl"))
            .unwrap()
            .unwrap()
    };
    import();
    let taken_in = host_at(&house.dir.path().join("taking-in"), Duration::from_secs(600));
    let files = [(lodge_host::LOG_FILE.to_owned(), lines)].into();
    taken_in.take_in(&id, files).await.unwrap();
    for (how, session) in [
        ("fork", fork),
        ("import", imported.open_session(&id).await.unwrap()),
        ("take_in", taken_in.open_session(&id).await.unwrap()),
    ] {
        assert_eq!(session.settings().approval, Approval::AutoSafe, "{how}");
        let facts = session.state();
        assert_eq!((facts.rules.len(), facts.approval.clone()), (0, None), "{how}");
        assert_eq!(facts.totals.models, probe.session.state().totals.models, "{how}");
        assert_eq!(chain_of(&session).len(), chain_of(&probe.session).len(), "{how}");
    }
    // Doing it again changes nothing, also when what hangs beside the chain has changed here.
    let there = imported.open_session(&id).await.unwrap();
    there.configure(Change::Approval(Approval::Ask)).await.unwrap();
    drop(there);
    imported.close(&id).await;
    assert_eq!(import().outcome, lodge_host::import::Outcome::Same);
}

#[tokio::test]
async fn a_mode_of_a_newer_build_asks_about_everything_and_its_events_are_kept() {
    let house = house();
    let mut probe = house.session().await;
    let (id, dir) = (probe.session.id().to_owned(), probe.session.dir().to_owned());
    probe.turn("say one").await;
    let closed = probe.session.clone();
    house.host.close(&id).await;
    let last = chain_of(&closed).last().unwrap().id();
    drop((probe, closed));
    let mode = lodge_events::LodgeApproval {
        mode: ApprovalMode::from("telepathic"),
    };
    let telepathy = Event::new(Some(last), None, mode)
        .as_str()
        .replace("lodge.approval", "lodge.telepathy");
    let mode = Event::new(
        Some(last),
        None,
        lodge_events::LodgeApproval {
            mode: "telepathic".into(),
        },
    );
    let mut text = std::fs::read_to_string(dir.join("events.jsonl")).unwrap();
    text += &format!("{telepathy}\n{}\n", mode.as_str());
    std::fs::write(dir.join("events.jsonl"), &text).unwrap();
    let mut probe = Probe::on(house.host.open_session(&id).await.unwrap());
    assert_eq!(probe.session.settings().approval, Approval::Ask);
    assert_eq!(probe.turn("say two").await, "two");
    let log = log_of(&probe.session);
    assert!(log.iter().any(|event| event.as_str() == telepathy), "it is still there");
    assert!(
        !log.iter().any(|event| event.kind() == "session.info"),
        "nothing was repaired"
    );
}

/// What is appended to a whole log, or done to its first event; and what the refusal says.
#[tokio::test]
async fn a_log_that_a_newer_build_wrote_is_refused_and_left_alone_where_it_cannot_be_understood() {
    let critical = r#"{"type":"lodge.telepathy","data":{"critical":true}"#;
    let harmless = r#"{"type":"lodge.telepathy","data":{"critical":"yes"}"#;
    for (beside, version, refusal) in [
        (
            Some(critical),
            1,
            Some("it holds `lodge.telepathy`, which this one does not understand"),
        ),
        (None, 2, Some("its events are of version 2")),
        (Some(harmless), 1, None),
    ] {
        let house = house();
        let mut probe = house.session().await;
        let (id, dir) = (probe.session.id().to_owned(), probe.session.dir().to_owned());
        probe.turn("say one").await;
        let closed = probe.session.clone();
        house.host.close(&id).await;
        let last = chain_of(&closed).last().unwrap().id();
        drop((probe, closed));
        let path = dir.join("events.jsonl");
        let mut text = std::fs::read_to_string(&path).unwrap();
        text = text.replacen(r#""version":1"#, &format!(r#""version":{version}"#), 1);
        if let Some(event) = beside {
            let new = uuid::Uuid::new_v4();
            let time = "2026-11-15T06:23:33.176Z";
            text += &format!(
                "{event},\"id\":\"{new}\",\"timestamp\":\"{time}\",\"parentId\":\"{last}\",\"ephemeral\":true}}\n"
            );
        }
        std::fs::write(&path, &text).unwrap();
        let _ = std::fs::remove_file(dir.join("events.idx"));

        let opened = house.host.open_session(&id).await.map(drop);
        match refusal {
            None => opened.unwrap(),
            Some(why) => {
                let error = opened.unwrap_err().to_string();
                assert!(error.contains(why) && error.contains("Update Lodge"), "{error}");
                assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "the log is as it was");
                let read = house.host.read(&id).unwrap().events().map(Result::unwrap);
                assert!(
                    read.filter(|event| event.kind() == "user.message").count() == 1,
                    "it can be read"
                );
            }
        }
    }
}

/// A client whose hook panics, in the turn that asks it, when this tool is to be called.
struct PanicsFor(&'static str);

impl ClientCalls for PanicsFor {
    fn hook(&self, kind: String, input: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let panics = kind == "preToolUse" && input["toolName"] == self.0;
        Box::pin(async move {
            assert!(!panics, "the hook panics, as it was told to");
            Ok(None)
        })
    }
}

#[tokio::test]
async fn a_panic_in_a_sub_agent_closes_its_calls_and_the_others_go_on() {
    for mode in ["sync", "background"] {
        let house = house();
        let mut probe = house.session_with(with(&Priced::new())).await;
        let hooks = Capabilities {
            hooks: true,
            ..Capabilities::default()
        };
        let _client = probe
            .attach_with(hooks, vec![tool("one")], Arc::new(PanicsFor("one")))
            .await;
        let args = serde_json::json!({
            "agent_type": "general-purpose", "name": "n", "description": "d", "prompt": "call one {}", "mode": mode,
        });
        probe.turn(&format!("call task {args} then say done")).await;
        let log = log_of(&probe.session);
        let of_agent = |event: &&Event| event.agent_id().is_some();
        let results: Vec<&lodge_events::ToolExecutionComplete> =
            log.iter().filter(of_agent).filter_map(|event| event.get()).collect();
        let [result] = results.as_slice() else {
            panic!("{mode}: {results:?}")
        };
        let code = result.error.as_ref().and_then(|error| error.code.as_deref());
        assert_eq!(code, Some("internal"), "{mode}");
        assert_eq!(
            log.iter().filter(|event| event.kind() == "subagent.failed").count(),
            1,
            "{mode}"
        );
        assert_eq!(
            probe.count("session.error"),
            0,
            "{mode}: the turn of the session goes on"
        );
        assert!(probe.session.state().open_agents.is_empty(), "{mode}");
        assert_eq!(probe.turn("say two").await, "two", "{mode}");
    }
}

#[tokio::test]
async fn a_panic_in_a_turn_closes_every_call_and_the_session_goes_on() {
    let house = house();
    let model = Priced::new();
    let mut probe = house.session_with(with(&model)).await;
    let id = probe.session.id().to_owned();
    let hooks = Capabilities {
        hooks: true,
        ..Capabilities::default()
    };
    let tools = vec![tool("one"), tool("two")];
    let client = probe
        .attach_with(hooks, tools.clone(), Arc::new(PanicsFor("one")))
        .await;
    probe.send("call one {} and call two {} then say done").await;
    assert!(!probe.until_idle().await);
    let results = probe.results();
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(
        results
            .iter()
            .all(|result| result.starts_with("internal: Internal error")),
        "{results:?}"
    );
    let error = probe
        .seen
        .iter()
        .find_map(|event| event.get::<lodge_events::SessionError>())
        .unwrap();
    assert_eq!(error.error_type, "internal");
    assert!(
        error.message.starts_with("Internal error: the turn crashed."),
        "{}",
        error.message
    );
    drop(client);

    // The model is told of both results, and the session works, here and after a restart.
    let _client = probe
        .attach_with(Capabilities::default(), tools, Arc::new(NoCalls))
        .await;
    assert_eq!(probe.turn("say two").await, "two");
    let open = |session: &Session| {
        let log = log_of(session);
        let ids = |started: bool| {
            let mut ids: Vec<String> = log
                .iter()
                .filter_map(|event| match event.payload() {
                    Payload::ToolExecutionStart(start) if started => Some(start.tool_call_id.clone()),
                    Payload::ToolExecutionComplete(done) if !started => Some(done.tool_call_id.clone()),
                    _ => None,
                })
                .collect();
            ids.sort();
            ids
        };
        assert_eq!(ids(true), ids(false), "every call that began has one result");
        assert_eq!(ids(true).len(), 2);
        session.state().open_turn
    };
    assert_eq!(open(&probe.session), None);
    let host = as_killed(&home(&house), &house.dir.path().join("killed"), true);
    assert_eq!(open(&host.open_session(&id).await.unwrap()), None);
}

#[tokio::test]
async fn a_model_that_panics_fails_its_turn_and_nothing_else() {
    let house = house();
    let model = Priced::new();
    let mut probe = house.session_with(with(&model)).await;
    model.panics.store(true, Ordering::SeqCst);
    probe.send("say one").await;
    probe.until_idle().await;
    assert_eq!(probe.count("session.error"), 1);
    model.panics.store(false, Ordering::SeqCst);
    // What failed can be taken up, like any turn that failed.
    assert!(probe.session.resume_failed().await.unwrap());
    probe.until_idle().await;
    assert_eq!(probe.said(), "one");
    assert_eq!(probe.turn("say two").await, "two");
    log_of(&probe.session);
}

#[tokio::test]
async fn the_compaction_of_a_long_conversation_is_paid_for_like_any_call() {
    let house = house();
    let model = Priced::new();
    let new = NewSession {
        compaction: Compaction {
            enabled: false,
            ..Compaction::default()
        },
        ..with(&model)
    };
    let mut probe = house.session_with(new).await;
    probe.turn("say one").await;
    let before = spent(&probe.session);
    probe.session.compact(None).await.unwrap();
    assert_eq!(spent(&probe.session), (before.0 + 1, before.1 + PRICE));
}
