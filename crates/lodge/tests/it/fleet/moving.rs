//! What moves with a session, into a fleet, within it and out of it.

use std::{fs, path::PathBuf};

use testkit::{Home, nats::Cluster};

use super::{begin, serve, serve_with, until};
/// Where a home keeps something of a session.
fn beside(home: &Home, session: &str, path: &str) -> PathBuf {
    home.path().join("session-state").join(session).join(path)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_moves_with_its_changes_to_do_list_and_plan_and_is_rewound_where_it_came_to() {
    let Some(cluster) = Cluster::start().await else { return };
    let homes = [Home::new(), Home::new(), Home::new()];
    let [one, two, three] = &homes;
    let mut hosts: Vec<_> = ["one", "two", "three"]
        .iter()
        .zip(&homes)
        .map(|(name, home)| serve(home, &cluster, name))
        .collect();
    let session = begin(one, "say First.");
    let made = one.work().join("made.txt");
    let create = format!(
        r#"call create {{"path":"{}","file_text":"a"}} then say Made."#,
        made.display()
    );
    let note = r#"call sql {"description":"note","query":"INSERT INTO todos (id, title) VALUES ('t', 'water the plants')"} then say Noted."#;
    for prompt in [create.as_str(), note] {
        let _ = one.run(["run", "--yolo", "--resume", &session, prompt]).ok();
    }
    assert!(made.exists());
    fs::write(beside(one, &session, "plan.md"), "# The plan").unwrap();

    // Its host is killed; another one has all of it, also what that one never opened.
    let _ = one.run(["run", "--resume", &session, "say Last words."]).ok();
    hosts[0].kill();
    let _ = two.run(["run", "--resume", &session, "say Here is two."]).ok();
    assert_eq!(
        fs::read_to_string(beside(two, &session, "plan.md")).unwrap(),
        "# The plan"
    );
    let database = fs::read(beside(two, &session, "session.db")).unwrap();
    assert!(
        database.windows(5).any(|part| part == b"water"),
        "the to-do list is there"
    );

    // Three messages back: what it made goes, although another host made it.
    let back = two.run(["sessions", "rewind", &session, "4"]).ok();
    assert!(back.stdout().contains("restored "), "{}", back.stdout());
    assert!(!made.exists());
    let shown = two.run(["sessions", "show", &session]).ok().stdout();
    assert!(shown.contains("First.") && !shown.contains("Made."), "{shown}");

    // The rewind moves, too, and is undone on a third host.
    let _ = two.run(["serve", "--stop"]).ok();
    hosts[1].kill();
    let undone = three.run(["sessions", "rewind", &session, "--undo"]).ok();
    assert!(made.exists(), "{}", undone.stdout());
    let shown = three.run(["sessions", "show", &session]).ok().stdout();
    assert!(shown.contains("Made.") && shown.contains("Here is two."), "{shown}");

    // And a copy of it is a session of its own.
    let fork = three.run(["sessions", "fork", &session, "--at", "1"]).ok();
    let copy = fork.stdout().trim().to_owned();
    let shown = three.run(["sessions", "show", &copy]).ok().stdout();
    assert!(shown.contains("First.") && !shown.contains("Made."), "{shown}");

    // The first host comes back, with a copy from before all that.
    let mut again = serve(one, &cluster, "one");
    let said = one.run(["run", "--resume", &session, "say Home again."]).ok();
    assert!(said.stdout().contains("Home again."));
    let shown = one.run(["sessions", "show", &session]).ok().stdout();
    assert!(
        shown.contains("Here is two.") && shown.contains("Home again."),
        "{shown}"
    );
    again.kill();
    hosts[2].kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_joins_a_fleet_with_all_its_sessions_and_they_leave_it_again() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (Home::new(), Home::new());
    let early = begin(&one, "say A kingfisher.");
    fs::write(beside(&one, &early, "plan.md"), "# Fish").unwrap();
    let mut first = serve_with(&one, &cluster, "one", &["--fleet-import"]);
    let mut second = serve(&two, &cluster, "two");
    until(&two, &["sessions", "list"], |list| list.contains("A kingfisher"));
    first.kill();
    let said = two.run(["run", "--resume", &early, "say A wagtail."]).ok();
    assert!(said.stdout().contains("A wagtail."));

    // Without the fleet, the first home reads its copy, and adds nothing that the fleet would not have.
    let refused = one.run(["run", "--resume", &early, "say Lost."]);
    assert!(!refused.status.success());
    assert!(refused.stderr.contains("belongs to a fleet"), "{}", refused.stderr);
    let shown = one.run(["sessions", "show", &early]).ok().stdout();
    assert!(shown.contains("A kingfisher.") && !shown.contains("Lost."), "{shown}");

    // What is counted of that, and what the doctor says.
    let note = crate::door::note(&two);
    let address = note["ahp"]
        .as_str()
        .unwrap()
        .trim_start_matches("ws://")
        .trim_end_matches('/');
    let (_, metrics) = crate::health::get(address, "/metrics", "");
    assert!(
        metrics.contains("lodge_fleet_ownership_changes_total{change=\"taken\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains("lodge_fleet_append_seconds_count"), "{metrics}");
    let mut doctor = two.command(["doctor"]);
    doctor
        .env("LODGE_FLEET", cluster.urls().join(","))
        .env("LODGE_FLEET_SYSTEM", cluster.system_urls().join(","));
    let printed = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
    for wanted in [
        "the NATS servers answer in",
        "syncs writes before it acknowledges them",
        "in 3 copies",
        "host two-",
    ] {
        assert!(printed.contains(wanted), "{wanted}: {printed}");
    }

    // Out of the fleet, into a home that knows of none.
    let plain = Home::new();
    export(&cluster, &plain);
    assert_eq!(fs::read_to_string(beside(&plain, &early, "plan.md")).unwrap(), "# Fish");
    let said = plain.run(["run", "--resume", &early, "say A plain home."]).ok();
    assert!(said.stdout().contains("A plain home."));
    let shown = plain.run(["sessions", "show", &early]).ok().stdout();
    assert!(shown.contains("A wagtail."), "{shown}");
    second.kill();
}

/// Copies the one session of a fleet to a home.
fn export(cluster: &Cluster, to: &Home) {
    let servers = cluster.urls().join(",");
    let home = to.path().to_owned();
    let out = [
        "fleet".as_ref(),
        "export".as_ref(),
        home.as_os_str(),
        "--fleet".as_ref(),
        servers.as_ref(),
    ];
    let exported = to.run(out).ok().stdout();
    assert!(exported.contains("1 session exported"), "{exported}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_session_stays_when_the_one_of_the_fleet_is_deleted_and_joins_as_one_of_its_own() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, plain, asked) = (Home::new(), Home::new(), Home::new());
    let mut first = serve(&one, &cluster, "one");
    let session = begin(&one, "say A kingfisher.");
    export(&cluster, &plain);
    export(&cluster, &asked);
    let _ = one.run(["sessions", "delete", "--yes", &session]).ok();
    let _later = begin(&one, "say A wagtail.");

    // What was deleted comes first in the list of the fleet.
    let mut second = serve(&plain, &cluster, "two");
    until(&plain, &["sessions", "list"], |list| list.contains("A wagtail."));
    let listed = plain.run(["sessions", "list"]).ok().stdout();
    assert!(listed.contains("A kingfisher."), "{listed}");
    let said = plain.run(["run", "--resume", &session, "say Still here."]).ok();
    assert!(said.stdout().contains("Still here."), "{}", said.stdout());
    until(&one, &["sessions", "list"], |list| list.contains("A kingfisher."));
    let shown = one.run(["run", "--resume", &session, "say And here."]).ok().stdout();
    assert!(shown.contains("And here."), "{shown}");

    // When it is deleted again, the home that had it as a copy has it no more.
    let _ = one.run(["sessions", "delete", "--yes", &session]).ok();
    until(&plain, &["sessions", "list"], |list| !list.contains("A kingfisher."));
    assert!(!beside(&plain, &session, "events.jsonl").exists());
    second.kill();

    // A home brings it in when it is told to, too.
    let mut third = serve_with(&asked, &cluster, "three", &["--fleet-import"]);
    until(&one, &["sessions", "list"], |list| list.contains("A kingfisher."));
    third.kill();
    first.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_deletes_what_a_host_used_last_and_nothing_of_the_others() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (Home::new(), Home::new());
    let mut second = serve(&two, &cluster, "two");
    let _own = begin(&two, "say A heron.");
    let shared = begin(&two, "say A bittern.");
    let _ = two.run(["serve", "--stop"]).ok();
    second.kill();

    // While it is away, another host goes on with one of its sessions.
    let mut first = serve(&one, &cluster, "one");
    let _ = one.run(["run", "--resume", &shared, "say Still here."]).ok();
    let _theirs = begin(&one, "say A kingfisher.");

    // It comes back with a rule by which everything is to go. The newest sessions are looked at first.
    fs::write(two.path().join("lodge.toml"), "[retention]\nmax_age = \"0m\"\n").unwrap();
    let mut second = serve(&two, &cluster, "two");
    until(&one, &["sessions", "list"], |list| !list.contains("A heron."));
    for home in [&one, &two] {
        until(home, &["sessions", "list"], |list| {
            list.contains("A bittern.") && list.contains("A kingfisher.")
        });
    }
    let said = two.run(["run", "--resume", &shared, "say And here."]).ok();
    assert!(said.stdout().contains("And here."));
    let shown = two.run(["sessions", "show", &shared]).ok().stdout();
    assert!(shown.contains("A bittern.") && shown.contains("Still here."), "{shown}");
    first.kill();
    second.kill();
}
