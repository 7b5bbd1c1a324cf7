//! Listing and searching.

use std::fs;

use jiff::Timestamp;
use lodge_events::{
    AssistantMessage, Event, Payload, SessionContextChanged, SessionModelChange, SessionStart, UserMessage,
    WorkingDirectoryContext,
};
use lodge_log::{Catalogue, Home, HomeOptions, Labels, ListFilter, SessionLog, Store};
use uuid::Uuid;

use crate::support::{TestHome, event};

fn user(text: &str) -> UserMessage {
    UserMessage {
        content: text.to_owned(),
        ..Default::default()
    }
}

fn assistant(text: &str) -> AssistantMessage {
    AssistantMessage {
        content: text.to_owned(),
        ..Default::default()
    }
}

fn start(cwd: &str, repository: Option<&str>, branch: Option<&str>) -> SessionStart {
    let context = WorkingDirectoryContext {
        cwd: cwd.to_owned(),
        git_root: repository.map(|_| cwd.to_owned()),
        repository: repository.map(str::to_owned),
        branch: branch.map(str::to_owned),
        ..Default::default()
    };
    SessionStart {
        start_time: "2026-11-15T06:23:32.814Z".to_owned(),
        selected_model: Some("first-model".to_owned()),
        context: Some(context),
        ..Default::default()
    }
}

/// Appends an event of a second.
fn say(log: &mut Box<dyn SessionLog>, second: i64, data: impl Into<Payload>) {
    let event = Event::with(
        Uuid::new_v4(),
        Timestamp::from_second(second).unwrap(),
        log.last_id(),
        None,
        data,
    );
    log.append(&event).unwrap();
}

/// Three sessions, and one in which nothing was said.
fn some_sessions() -> TestHome {
    let t = TestHome::new();
    let rows = [
        (
            "one",
            100,
            "/work/a",
            Some("me/a"),
            Some("main"),
            "How do I bake a crème brûlée?",
            "With patience.",
        ),
        (
            "two",
            300,
            "/work/b",
            Some("me/b"),
            Some("main"),
            "Rename the function",
            "Renamed `fn main` to run.",
        ),
        (
            "three",
            200,
            "/work/a",
            Some("me/a"),
            Some("fix"),
            "Why is the sky blue?",
            "Rayleigh scattering.",
        ),
    ];
    for (id, second, cwd, repository, branch, question, answer) in rows {
        let mut log = t.store().create(id).unwrap();
        say(&mut log, second, start(cwd, repository, branch));
        say(&mut log, second + 1, user(question));
        say(&mut log, second + 2, assistant(answer));
    }
    let mut log = t.store().create("silent").unwrap();
    say(&mut log, 400, start("/work/a", None, None));
    t
}

fn listed(catalogue: &Catalogue, filter: ListFilter) -> Vec<String> {
    catalogue
        .list(&filter)
        .unwrap()
        .sessions
        .into_iter()
        .map(|s| s.id)
        .collect()
}

#[test]
fn lists_are_newest_first_and_filtered() {
    let t = some_sessions();
    let any = ListFilter::default;
    let s = |text: &str| Some(text.to_owned());
    let cases: Vec<(ListFilter, &[&str])> = vec![
        (any(), &["two", "three", "one"]),
        (
            ListFilter {
                include_empty: true,
                ..any()
            },
            &["silent", "two", "three", "one"],
        ),
        (
            ListFilter {
                cwd: s("/work/a"),
                ..any()
            },
            &["three", "one"],
        ),
        (
            ListFilter {
                cwd: s("/work//./a/"),
                ..any()
            },
            &["three", "one"],
        ),
        (
            ListFilter {
                cwd: s("/work/a"),
                include_empty: true,
                ..any()
            },
            &["silent", "three", "one"],
        ),
        (
            ListFilter {
                git_root: s("/work/b"),
                ..any()
            },
            &["two"],
        ),
        (
            ListFilter {
                repository: s("me/a"),
                ..any()
            },
            &["three", "one"],
        ),
        (
            ListFilter {
                repository: s("me/a"),
                branch: s("main"),
                ..any()
            },
            &["one"],
        ),
        (
            ListFilter {
                branch: s("main"),
                ..any()
            },
            &["two", "one"],
        ),
        (
            ListFilter {
                cwd: s("/elsewhere"),
                ..any()
            },
            &[],
        ),
        (
            ListFilter {
                id_prefix: s("t"),
                ..any()
            },
            &["two", "three"],
        ),
        (
            ListFilter {
                id_prefix: s("%"),
                ..any()
            },
            &[],
        ),
        (
            ListFilter {
                limit: Some(2),
                ..any()
            },
            &["two", "three"],
        ),
    ];
    for (filter, expected) in cases {
        assert_eq!(listed(t.home.catalogue(), filter.clone()), expected, "{filter:?}");
    }
    let last = |filter| t.home.catalogue().last(filter).unwrap().map(|s| s.id);
    assert_eq!(last(any()).as_deref(), Some("two"));
    assert_eq!(
        last(ListFilter {
            cwd: s("/work/a"),
            ..any()
        })
        .as_deref(),
        Some("three")
    );
    assert_eq!(
        last(ListFilter {
            cwd: s("/nowhere"),
            ..any()
        }),
        None
    );
}

#[test]
fn a_session_is_described_by_its_events_and_labels() {
    let t = some_sessions();
    let mut log = t.store().open("one").unwrap().log;
    say(
        &mut log,
        500,
        SessionModelChange {
            new_model: "second-model".to_owned(),
            ..Default::default()
        },
    );
    let moved = SessionContextChanged {
        cwd: "/work/c".to_owned(),
        branch: Some("b".to_owned()),
        ..Default::default()
    };
    say(&mut log, 501, moved);
    let labels = Labels {
        name: Some("Cooking: \"brûlée\"".to_owned()),
        client_name: Some("app".to_owned()),
        user_named: true,
    };
    t.store().set_labels("one", &labels).unwrap();
    let check = |catalogue: &Catalogue| {
        let session = catalogue.get("one").unwrap().unwrap();
        assert_eq!(session.dir, t.session_dir("one"));
        assert_eq!(session.created.to_string(), "2026-11-15T06:23:32.814Z");
        assert_eq!(session.modified, Timestamp::from_second(501).unwrap());
        assert_eq!(session.cwd.as_deref(), Some("/work/c"));
        assert_eq!(
            (session.git_root, session.repository, session.branch.as_deref()),
            (None, None, Some("b"))
        );
        assert_eq!(
            (session.title, session.client_name),
            (labels.name.clone(), labels.client_name.clone())
        );
        assert_eq!(session.summary.as_deref(), Some("How do I bake a crème brûlée?"));
        assert_eq!(session.model.as_deref(), Some("second-model"));
        assert_eq!((session.event_count, session.message_count), (5, 2));
        assert_eq!(session.log_bytes, fs::metadata(t.log_path("one")).unwrap().len());
    };
    check(t.home.catalogue());
    assert_eq!(t.store().labels("one").unwrap(), labels);
    assert_eq!(t.home.catalogue().get("nobody").unwrap(), None);

    // The same when it is derived from the files alone.
    fs::remove_file(t.home.path().join("catalogue.db")).unwrap();
    check(t.home.catalogue());
}

#[test]
fn labels_leave_the_rest_of_their_file_alone() {
    let t = some_sessions();
    let path = t.session_dir("one").join("workspace.yaml");
    fs::write(
        &path,
        "id: one\nname: 'It''s old'\nnested:\n  name: inner\nuser_named: false\n",
    )
    .unwrap();
    let labels = t.store().labels("one").unwrap();
    assert_eq!(
        labels,
        Labels {
            name: Some("It's old".to_owned()),
            ..Labels::default()
        }
    );
    t.store()
        .set_labels(
            "one",
            &Labels {
                name: Some("New\nname".to_owned()),
                ..labels
            },
        )
        .unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(
        text,
        "id: one\nnested:\n  name: inner\nname: \"New\\nname\"\nuser_named: false\n"
    );
    assert_eq!(t.store().labels("one").unwrap().name.as_deref(), Some("New\nname"));
}

#[test]
fn pages_join_to_the_whole_list() {
    let t = TestHome::new();
    for n in 0..25u64 {
        let mut log = t.store().create(&format!("s{n}")).unwrap();
        // Several of the same time: paging must not lose or repeat any.
        say(&mut log, (n / 4) as i64, user("hi"));
    }
    let all = listed(t.home.catalogue(), ListFilter::default());
    assert_eq!(all.len(), 25);
    for limit in [1, 4, 7, 25, 100] {
        let mut filter = ListFilter {
            limit: Some(limit),
            ..ListFilter::default()
        };
        let mut pages = Vec::new();
        loop {
            let page = t.home.catalogue().list(&filter).unwrap();
            assert!(page.sessions.len() <= limit);
            pages.extend(page.sessions.into_iter().map(|s| s.id));
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        assert_eq!(pages, all, "pages of {limit}");
    }
}

#[test]
fn messages_are_found_by_their_words() {
    let t = some_sessions();
    let found = |text: &str| -> Vec<(String, String)> {
        let hits = t.home.catalogue().search(text, 10).unwrap();
        hits.into_iter().map(|hit| (hit.session.id, hit.role)).collect()
    };
    let one = |id: &str, role: &str| vec![(id.to_owned(), role.to_owned())];
    assert_eq!(found("patience"), one("one", "assistant"));
    assert_eq!(found("creme brulee"), one("one", "user"), "without accents");
    assert_eq!(found("SKY blue"), one("three", "user"), "all words, in any case");
    assert_eq!(
        found("Rayl"),
        one("three", "assistant"),
        "the last word may be a beginning"
    );
    assert_eq!(found("sky patience"), []);
    for odd in [
        "",
        "  ",
        "\"",
        "*",
        "a OR",
        "NEAR(",
        "x\0y",
        "-- ; DROP",
        "text:",
        "^",
        "(",
        "'",
    ] {
        found(odd);
    }
    let hit = t.home.catalogue().search("main", 10).unwrap().remove(0);
    assert_eq!(hit.snippet, "Renamed `fn main` to run.");
    assert_eq!(
        hit.matches.iter().map(|m| &hit.snippet[m.clone()]).collect::<Vec<_>>(),
        ["main"]
    );
    let event = t.store().read_back("two").unwrap().next().unwrap().unwrap().event;
    assert_eq!(hit.event_id, event.id());
}

#[test]
fn deleted_and_cut_sessions_are_not_found_any_more() {
    let t = some_sessions();
    t.store().delete("two").unwrap();
    let mut log = t.store().open("three").unwrap().log;
    let third = log.read(log.seek(2).unwrap(), lodge_log::Position::END).unwrap().next();
    let third = third.unwrap().unwrap().event;
    let rewound = lodge_events::LodgeRewound {
        up_to_event_id: third.id().to_string(),
        events_removed: 1,
        ..Default::default()
    };
    log.append(&Event::new(third.parent_id(), None, rewound)).unwrap();
    assert_eq!(listed(t.home.catalogue(), ListFilter::default()), ["three", "one"]);
    assert!(t.home.catalogue().search("Renamed", 10).unwrap().is_empty());
    assert!(t.home.catalogue().search("Rayleigh", 10).unwrap().is_empty());
    assert_eq!(t.home.catalogue().search("sky", 10).unwrap().len(), 1);
    say(&mut log, 900, assistant("Refraction."));
    assert_eq!(t.home.catalogue().search("Refraction", 10).unwrap().len(), 1);
    assert_eq!(t.home.catalogue().get("three").unwrap().unwrap().event_count, 3);
}

#[test]
fn the_catalogue_is_derived_anew_when_it_is_missing_damaged_or_old() {
    let t = some_sessions();
    let expected = t.home.catalogue().list(&ListFilter::default()).unwrap();
    let TestHome { dir, home } = t;
    let path = home.path().to_owned();
    drop(home);
    let db = path.join("catalogue.db");
    let good = fs::read(&db).unwrap();
    let mut torn = good.clone();
    torn[4096..].fill(0xaa);
    let cases: Vec<(&str, Option<Vec<u8>>)> = vec![
        ("as it was", Some(good.clone())),
        ("missing", None),
        ("empty", Some(Vec::new())),
        ("not a database", Some(vec![b'x'; 10_000])),
        ("cut", Some(good[..good.len() / 2].to_vec())),
        ("pages overwritten", Some(torn)),
    ];
    for (name, bytes) in cases {
        fs::remove_file(&db).unwrap();
        bytes.into_iter().for_each(|bytes| fs::write(&db, bytes).unwrap());
        let home = Home::open(&path, HomeOptions::default()).unwrap();
        assert_eq!(
            home.catalogue().list(&ListFilter::default()).unwrap(),
            expected,
            "{name}"
        );
        assert_eq!(home.catalogue().search("patience", 9).unwrap().len(), 1, "{name}");
    }
    drop(dir);
}

#[test]
fn what_happened_while_nobody_looked_is_caught_up_with() {
    for exclusive in [true, false] {
        let t = some_sessions();
        t.home.catalogue().flush();
        let TestHome { dir, home } = t;
        let path = home.path().to_owned();
        drop(home);
        // Another program adds a session, appends to one and deletes one.
        let state = path.join("session-state");
        fs::create_dir(state.join("new")).unwrap();
        fs::write(state.join("new/events.jsonl"), crate::support::lines(0..2)).unwrap();
        let mut log = fs::read(state.join("one/events.jsonl")).unwrap();
        log.extend(crate::support::line(5));
        fs::write(state.join("one/events.jsonl"), log).unwrap();
        fs::remove_dir_all(state.join("two")).unwrap();

        let options = HomeOptions {
            exclusive,
            ..HomeOptions::default()
        };
        let home = Home::open(&path, options).unwrap();
        let mut ids = listed(home.catalogue(), ListFilter::default());
        ids.sort();
        assert_eq!(ids, ["new", "one", "three"]);
        assert_eq!(home.catalogue().get("one").unwrap().unwrap().event_count, 4);
        assert_eq!(home.catalogue().search("message", 10).unwrap().len(), 3);
        drop(dir);
    }
}

#[test]
fn a_shared_home_makes_its_catalogue_when_it_is_needed() {
    let t = TestHome::with(HomeOptions {
        exclusive: false,
        ..HomeOptions::default()
    });
    let made = || t.home.path().join("catalogue.db").exists();
    t.home.catalogue().flush();
    assert!(!made());
    let mut log = t.store().create("one").unwrap();
    say(&mut log, 0, user("hello"));
    t.home.catalogue().flush();
    assert!(made());
}

#[test]
fn sessions_of_the_copilot_cli_are_listed_and_found() {
    let t = TestHome::new();
    let log = concat!(
        r#"{"type":"session.start","data":{"sessionId":"d969f743-809e-4545-8e67-20bc9c222587","version":1,"producer":"copilot-agent","copilotVersion":"1.0.81-0","startTime":"2026-11-15T06:23:32.814Z","contextTier":null,"context":{"cwd":"/home/user/tools","gitRoot":"/home/user/tools","repository":"user/tools","branch":"main","headCommit":"cc0438d66e3e68c333537cb935d9425d4e4ed8d5"},"alreadyInUse":false,"remoteSteerable":false},"id":"320e09c3-94b9-4342-a14c-1b58c1efe937","timestamp":"2026-11-15T06:23:32.922Z","parentId":null}"#,
        "\n",
        r#"{"type":"session.model_change","data":{"newModel":"claude-sonnet-4.5"},"id":"7da54f41-ad08-435a-bbce-9db2c8865e71","timestamp":"2026-11-15T06:23:33.013Z","parentId":"320e09c3-94b9-4342-a14c-1b58c1efe937"}"#,
        "\n",
        r#"{"type":"session.some_newer_type","data":{"x":[1,2.0]},"id":"7da54f41-ad08-435a-bbce-9db2c8865e72","timestamp":"2026-11-15T06:23:33.014Z","parentId":"7da54f41-ad08-435a-bbce-9db2c8865e71"}"#,
        "\n",
        r#"{"type":"user.message","data":{"content":"Abort and recover","transformedContent":"<text>","attachments":[],"supportedNativeDocumentMimeTypes":[],"delivery":"idle","interactionId":"02f1b057-1ff7-4bfa-b391-09d63925e049"},"id":"ce2f7896-4c64-4bb8-b81b-a017504e3f17","timestamp":"2026-11-15T06:23:33.117Z","parentId":"7da54f41-ad08-435a-bbce-9db2c8865e72"}"#,
        "\n",
    );
    let id = "d969f743-809e-4545-8e67-20bc9c222587";
    t.plant(id, log.as_bytes());
    let labels = "id: d969f743-809e-4545-8e67-20bc9c222587\ncwd: /home/user/tools\nclient_name: sdk\nname: Recovery\n";
    fs::write(t.session_dir(id).join("workspace.yaml"), labels).unwrap();
    let TestHome { dir, home } = t;
    let path = home.path().to_owned();
    drop(home);
    let home = Home::open(&path, HomeOptions::default()).unwrap();
    let session = home.catalogue().last(ListFilter {
        repository: Some("user/tools".into()),
        ..Default::default()
    });
    let session = session.unwrap().unwrap();
    assert_eq!(
        (session.id.as_str(), session.event_count, session.message_count),
        (id, 4, 1)
    );
    assert_eq!(
        (session.title.as_deref(), session.client_name.as_deref()),
        (Some("Recovery"), Some("sdk"))
    );
    assert_eq!(session.model.as_deref(), Some("claude-sonnet-4.5"));
    assert_eq!(home.catalogue().search("recover", 5).unwrap()[0].session.id, id);
    let opened = home.sessions().open(id).unwrap();
    assert_eq!((opened.repaired, opened.log.count()), (None, 4));
    drop(dir);
}

#[test]
fn a_home_that_is_deleted_under_the_host_is_made_again() {
    let t = some_sessions();
    t.home.catalogue().flush();
    fs::remove_dir_all(t.home.path()).unwrap();
    t.home.ensure().unwrap();
    t.store().create("fresh").unwrap().append(&event(0)).unwrap();
    assert_eq!(listed(t.home.catalogue(), ListFilter::default()), ["fresh"]);
    // Once more, now that there was a question before, and with the database made anew before the next.
    fs::remove_dir_all(t.home.path()).unwrap();
    t.home.ensure().unwrap();
    t.store().create("fresher").unwrap().append(&event(0)).unwrap();
    t.home.catalogue().flush();
    assert_eq!(listed(t.home.catalogue(), ListFilter::default()), ["fresher"]);
}

#[test]
fn without_a_place_for_the_database_the_logs_are_listed() {
    let TestHome { dir, home } = some_sessions();
    let path = home.path().to_owned();
    drop(home);
    let _ = fs::remove_file(path.join("catalogue.db"));
    fs::create_dir_all(path.join("catalogue.db/in the way")).unwrap();
    let home = Home::open(&path, HomeOptions::default()).unwrap();
    assert_eq!(listed(home.catalogue(), ListFilter::default()).len(), 3);
    assert_eq!(home.catalogue().get("no such").unwrap(), None);
    drop(dir);
}

#[test]
fn thousands_of_sessions_are_listed() {
    let t = TestHome::new();
    for n in 0..2000 {
        let dir = t.session_dir(&format!("s{n}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("events.jsonl"), crate::support::line(0)).unwrap();
    }
    let TestHome { dir, home } = t;
    let path = home.path().to_owned();
    drop(home);
    let home = Home::open(&path, HomeOptions::default()).unwrap();
    let page = home
        .catalogue()
        .list(&ListFilter {
            limit: Some(50),
            ..ListFilter::default()
        })
        .unwrap();
    assert_eq!((page.sessions.len(), page.next.is_some()), (50, true));
    assert_eq!(listed(home.catalogue(), ListFilter::default()).len(), 2000);
    drop(dir);
}

#[test]
fn a_session_of_another_host_is_listed_and_found_as_that_host_describes_it() {
    let (there, here) = (some_sessions(), TestHome::new());
    let catalogue = here.home.catalogue();
    for id in ["one", "two", "silent"] {
        let described = there.home.catalogue().describe(id).unwrap().unwrap();
        let text = serde_json::to_string(&described).unwrap();
        catalogue.take_in(serde_json::from_str(&text).unwrap());
    }
    assert_eq!(listed(catalogue, ListFilter::default()), ["two", "one"]);
    let in_a = ListFilter {
        cwd: Some("/work/a".to_owned()),
        include_empty: true,
        ..ListFilter::default()
    };
    assert_eq!(listed(catalogue, in_a), ["silent", "one"]);
    let (mut ours, theirs) = (
        catalogue.get("one").unwrap().unwrap(),
        there.home.catalogue().get("one").unwrap().unwrap(),
    );
    assert_eq!(ours.log_bytes, 0);
    (ours.log_bytes, ours.dir) = (theirs.log_bytes, theirs.dir.clone());
    assert_eq!(ours, theirs);
    let hits = catalogue.search("creme brulee", 10).unwrap();
    assert_eq!(hits[0].session.id, "one");
    catalogue.forget("two");
    assert_eq!(listed(catalogue, ListFilter::default()), ["one"]);
}

#[test]
fn a_log_counts_where_it_has_as_much_as_another_host_describes() {
    let (there, here) = (some_sessions(), TestHome::new());
    let describe = || there.home.catalogue().describe("one").unwrap().unwrap();
    let title = || here.home.catalogue().get("one").unwrap().unwrap().summary;
    let complete = describe();

    // A copy that is behind.
    let mut log = here.store().create("one").unwrap();
    say(&mut log, 100, start("/work/a", None, None));
    assert_eq!(title(), None);
    here.home.catalogue().take_in(complete.clone());
    assert_eq!(title().as_deref(), Some("How do I bake a crème brûlée?"));

    // The copy is brought up to date, and then the log is what counts.
    say(&mut log, 101, user("How do I bake bread?"));
    say(&mut log, 102, assistant("Slowly."));
    assert_eq!(title().as_deref(), Some("How do I bake bread?"));
    here.home.catalogue().take_in(complete);
    assert_eq!(title().as_deref(), Some("How do I bake bread?"));
    assert_eq!(here.home.catalogue().get("one").unwrap().unwrap().event_count, 3);
    assert!(here.home.catalogue().search("creme", 10).unwrap().is_empty());
}

#[test]
fn what_other_hosts_described_is_gone_with_the_program_and_with_the_database() {
    let there = some_sessions();
    let dir = tempfile::tempdir().unwrap();
    let described = there.home.catalogue().describe("one").unwrap().unwrap();
    let home = Home::open(dir.path(), HomeOptions::default()).unwrap();
    home.catalogue().take_in(described.clone());
    assert_eq!(listed(home.catalogue(), ListFilter::default()), ["one"]);
    drop(home);
    let home = Home::open(dir.path(), HomeOptions::default()).unwrap();
    let catalogue = home.catalogue();
    assert!(listed(catalogue, ListFilter::default()).is_empty());

    let openings = catalogue.openings();
    catalogue.take_in(described);
    assert_eq!(listed(catalogue, ListFilter::default()), ["one"]);
    assert_eq!(catalogue.openings(), openings);
    for file in ["catalogue.db", "catalogue.db-wal", "catalogue.db-shm"] {
        let _ = fs::remove_file(dir.path().join(file));
    }
    assert!(listed(catalogue, ListFilter::default()).is_empty());
    assert!(catalogue.openings() > openings, "whoever described them can tell");
}
