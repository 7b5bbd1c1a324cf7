//! A home that an earlier build wrote (0.1.0 at aae0a57, by its own hand) is read, and left so that such a build finds
//! nothing to act on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use lodge_host::{Clock, Host, Misfire, NamedModel, RunCause, RunOutcome, RunSession, RunUsage, Schedule, StopRule};
use serde_json::json;

use crate::kit::host_after;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home-of-0.1.0")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// All files below a folder, by their names from there.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

async fn start(home: &Path) -> Host {
    let now = "2026-11-16T15:00:00Z".parse().unwrap();
    host_after(home, &Clock::by_hand(now)).await
}

#[tokio::test]
async fn automations_and_settings_of_an_earlier_build_are_brought_in_once() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    copy(&fixture(), &home);
    let host = start(&home).await;
    let settings = json!({ "automationsEnabled": true, "colour": null });
    assert_eq!(serde_json::Value::Object(host.host_settings()), settings);
    let all = host.automations().list();
    let [tidy, breaks] = &all[..] else { panic!("{all:#?}") };
    assert_eq!((tidy.id.as_str(), breaks.id.as_str()), ("/tidy", "/breaks"));
    let definition = &tidy.definition;
    assert_eq!((definition.title.as_str(), definition.enabled), ("Tidy up", true));
    assert_eq!(definition.message.text, "say hello");
    let attached = json!([{ "type": "simple", "label": "note", "modelRepresentation": "a note" }]);
    assert_eq!(json!(definition.message.attachments), attached);
    assert_eq!(json!(definition.message.notes), json!({ "theirs": 1 }));
    assert_eq!(json!(definition.notes), json!({ "colour": "green" }));
    let model = NamedModel {
        id: "rehearsal".into(),
        options: None,
    };
    assert_eq!(definition.session.provider.as_deref(), Some("copilotcli"));
    assert_eq!(definition.session.model, Some(model));
    assert_eq!(json!(definition.session.settings), json!({ "mode": "interactive" }));
    let schedule = Schedule {
        id: "daily".into(),
        cron: "0 9 * * MON-FRI".into(),
        time_zone: "Europe/Berlin".into(),
        misfire: Some(Misfire::Skip),
    };
    assert_eq!(definition.schedules, [schedule]);
    let stop = [StopRule::AfterRuns(3), StopRule::At("2099-01-01T00:00:00Z".into())];
    assert_eq!(definition.stop, stop);
    let next = tidy.next_run().map(|next| next.to_string());
    assert_eq!(
        (next.as_deref(), tidy.run_count),
        (Some("2026-11-17T08:00:00Z"), Some(0))
    );
    // Its run, with the session that it took place in.
    let run = &tidy.runs[0];
    let id = "4b6489ec-0f76-4dca-83c0-8f0ac3b1a3e3";
    let session = RunSession {
        id: id.into(),
        address: format!("copilotcli:/{id}"),
    };
    let usage = RunUsage {
        model: Some("rehearsal".into()),
        input: 1152,
        output: 4,
        cache_read: 0,
    };
    assert_eq!((&run.cause, run.session.as_ref()), (&RunCause::Asked, Some(&session)));
    let end = run.ended.as_ref().unwrap();
    assert_eq!(end.outcome, RunOutcome::Completed(usage));
    assert_eq!(end.time.to_string(), "2026-11-16T14:37:14.486Z");
    let outcome = breaks.runs[0].ended.as_ref().map(|end| &end.outcome);
    assert!(matches!(outcome, Some(RunOutcome::Failed { message, .. }) if message.contains("/not/there")));
    // An earlier build finds none: it runs nothing that has long run.
    let left = files(&home.join("ahp"));
    assert!(left.iter().all(|name| name.ends_with(".migrated")), "{left:?}");
    assert_eq!(left.len(), 3);
    host.shutdown().await;
    drop(host);
    // What it makes all the same is brought in by the next host, and what this build kept meanwhile is newer.
    let folder = home.join("ahp/automations");
    copy(&fixture().join("ahp/automations"), &folder);
    let old = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    for path in old.filter(|path| path.extension().is_some_and(|end| end == "json")) {
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("Tidy up", "As it was").replace("/breaks", "/new")).unwrap();
    }
    let host = start(&home).await;
    let titles = host
        .automations()
        .list()
        .into_iter()
        .map(|one| (one.id, one.definition.title));
    let titles: Vec<(String, String)> = titles.collect();
    let expected = [("/tidy", "Tidy up"), ("/breaks", "Breaks"), ("/new", "Breaks")];
    assert_eq!(titles, expected.map(|(id, title)| (id.to_owned(), title.to_owned())));
}

#[tokio::test]
async fn what_cannot_be_read_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    copy(&fixture(), &home);
    let damaged = home.join("ahp/automations/damaged.json");
    fs::write(&damaged, "{\"resource\":").unwrap();
    let host = start(&home).await;
    assert_eq!(host.automations().list().len(), 2);
    assert_eq!(fs::read_to_string(damaged).unwrap(), "{\"resource\":");
}

/// One line of a file of an earlier build.
fn line(key: &str, record: serde_json::Value) -> String {
    format!("{}\n", json!({ "key": key, "record": record }))
}

#[tokio::test]
async fn a_record_that_cannot_be_brought_in_is_put_aside_and_holds_nothing_up() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let host = start(&home).await;
    let session = host.create(lodge_host::NewSession::default()).await.unwrap();
    let id = session.id().to_owned();
    drop(session);
    host.shutdown().await;
    drop(host);
    let face = home.join("ahp");
    fs::create_dir_all(&face).unwrap();
    let bad = line("0-damaged", json!({ "queue": "not a list" }));
    let long = json!({ "draft": { "text": "x".repeat(9 << 20) } });
    let old = json!({ "archived": true, "directories": ["file:///further"], "own_directories": ["file:///own"] });
    let sessions = [bad.clone(), line("1-long", long), line(&id, old)].concat();
    fs::write(face.join("sessions.jsonl"), sessions).unwrap();
    let clients = [
        line("0-damaged", json!(7)),
        line("1", json!({ "version": "1", "name": "phone" })),
    ]
    .concat();
    fs::write(face.join("clients.jsonl"), clients).unwrap();
    let decisions = [
        line("mcp:damaged", json!({ "everywhere": "?" })),
        line("mcp:loom", json!({ "everywhere": false })),
    ];
    fs::write(face.join("decisions.jsonl"), decisions.concat()).unwrap();
    let host = start(&home).await;
    assert!(
        host.marks().get(&id).archived,
        "the session after those that cannot be read"
    );
    assert_eq!(host.decisions().all()["mcp:loom"].everywhere, Some(false));
    assert_eq!(host.marks().client("1").unwrap().name, "phone");
    let directories = host.open_session(&id).await.unwrap().state().about.directories;
    assert_eq!(directories.further, ["/further"]);
    assert_eq!(directories.chosen, Some(vec!["/own".to_owned()]));
    let left = files(&face);
    let names = ["clients.jsonl", "decisions.jsonl", "sessions.jsonl"];
    let expected = names
        .iter()
        .flat_map(|name| [format!("{name}.failed"), format!("{name}.migrated")]);
    assert_eq!(left, expected.collect::<Vec<_>>());
    let aside = fs::read_to_string(face.join("sessions.jsonl.failed")).unwrap();
    assert!(aside.starts_with(&bad), "{}", &aside[..200]);
    assert_eq!(aside.lines().count(), 2);
}
