//! Hosts of a fleet, on real NATS servers.

mod campaign;
mod elsewhere;
mod measured;
mod moving;
mod nats;
mod stale;

use std::{
    fs,
    time::{Duration, Instant},
};

use testkit::{Home, Running, nats::Cluster};

/// A turn that takes longer than whatever happens meanwhile.
const LONG: &str = "slowly 100 ms, stream 600 chunks";

fn serve(home: &Home, cluster: &Cluster, name: &str) -> Running {
    serve_with(home, cluster, name, &[])
}

fn serve_with(home: &Home, cluster: &Cluster, name: &str, more: &[&str]) -> Running {
    let (servers, system) = (cluster.urls().join(","), cluster.system_urls().join(","));
    let args = ["serve", "--port", "0", "--sdk-port", "0", "--fleet", &servers];
    let named = ["--fleet-system", &system, "--fleet-name", name];
    let mut host = home.start(args.iter().chain(&named).chain(more));
    host.line_with("Ctrl-C stops.");
    host
}

fn lines(home: &Home) -> Vec<String> {
    let logs = home.logs();
    assert_eq!(logs.len(), 1, "{logs:?}");
    let text = fs::read_to_string(&logs[0]).expect("the log can be read");
    text.lines().map(str::to_owned).collect()
}

/// Begins a session; answers with its id.
fn begin(home: &Home, prompt: &str) -> String {
    let said = home.run(["run", "--json", prompt]).ok();
    let events = said.events();
    let start = events.iter().find(|event| event["type"] == "session.start");
    let id = start.expect("a session starts")["data"]["sessionId"].as_str();
    id.expect("an id").to_owned()
}

/// Repeats a command until what it prints is as wanted.
fn until(home: &Home, args: &[&str], wanted: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let printed = home.run(args).stdout();
        if wanted(&printed) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "lodge {} still prints {printed:?}",
            args.join(" ")
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_host_lists_and_finds_all_sessions_and_forgets_those_that_are_deleted() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (Home::new(), Home::new());
    let mut first = serve(&one, &cluster, "one");
    let early = begin(&one, "say A kingfisher.");
    let mut second = serve(&two, &cluster, "two");
    let late = begin(&one, "say A wagtail.");

    // From before the other host came, and from after that.
    until(&two, &["sessions", "list"], |list| {
        list.contains("A kingfisher") && list.contains("A wagtail")
    });
    until(&two, &["sessions", "search", "kingfisher"], |found| {
        found.contains(&early)
    });
    assert!(two.logs().is_empty(), "nothing was copied for that");

    // What goes on in a session shows elsewhere.
    let mut talking = one.start(["run", "--json", "--resume", &late, LONG]);
    talking.line_with("assistant.message_delta");
    until(&two, &["sessions", "list"], |list| list.contains("working"));
    talking.kill();

    // A session is deleted on a host that has nothing of it but its line.
    let _ = two.run(["sessions", "delete", "--yes", &early[..13]]).ok();
    until(&one, &["sessions", "list"], |list| !list.contains("A kingfisher"));
    assert_eq!(one.logs().len(), 1, "the copy goes with the session");
    assert!(!two.run(["sessions", "list"]).stdout().contains("A kingfisher"));

    // The host that deleted it does not have it, and it is left behind by nobody.
    let servers = cluster.urls().join(",");
    let status = ["fleet", "status", "--fleet", &servers, "--fleet-unchecked-sync"];
    let of = |name: &str, printed: &str| {
        let line = printed.lines().find(|line| line.starts_with(name));
        line.map(|line| line.rsplit("  ").next().unwrap().to_owned())
    };
    let printed = two.run(status).ok().stdout();
    assert_eq!(of("one-", &printed).as_deref(), Some("1 session"), "{printed}");
    assert_eq!(of("two-", &printed).as_deref(), Some("0 sessions"), "{printed}");
    assert!(!printed.contains("gone"), "{printed}");
    second.kill();
    first.kill();
    until(&one, &status, |printed| of("one-", printed).is_none());
    let printed = one.run(status).ok().stdout();
    assert!(printed.contains("1 session of hosts that are gone"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_nobody_uses_moves_to_the_host_that_opens_it_and_a_drained_host_has_none() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (Home::new(), Home::new());
    let mut first = serve(&one, &cluster, "one");
    let mut second = serve(&two, &cluster, "two");
    let fleet = |args: &[&str]| {
        let servers = cluster.urls().join(",");
        let mut all = vec!["fleet"];
        all.extend(args);
        all.extend(["--fleet", &servers, "--fleet-unchecked-sync"]);
        one.run(all)
    };
    let session = begin(&one, "say Here is one.");

    // To and fro, while both hosts live.
    for (home, words) in [(&two, "Here is two."), (&one, "One again."), (&two, "Two again.")] {
        let said = home.run(["run", "--resume", &session, &format!("say {words}")]).ok();
        assert!(said.stdout().contains(words), "{}", said.stdout());
    }
    let moved = lines(&two);
    for words in ["Here is one.", "Here is two.", "One again.", "Two again."] {
        assert!(moved.iter().any(|line| line.contains(words)), "{words}");
    }
    let listed = fleet(&["sessions"]).ok().stdout();
    assert!(listed.contains(&session) && listed.contains("two-"), "{listed}");

    // Whoever uses a session keeps it.
    let mut talking = two.start(["run", "--json", "--resume", &session, LONG]);
    talking.line_with("assistant.message_delta");
    until(&one, &["sessions", "list"], |list| list.contains("working"));
    let listed = fleet(&["sessions"]).ok().stdout();
    assert!(listed.contains("two-"), "{listed}");

    // A host that is drained lets the turn go on, and takes nothing new.
    let busy = fleet(&["drain", "two", "--within", "0"]);
    assert!(!busy.status.success());
    assert!(busy.stdout().contains("still works on 1 session"), "{}", busy.stdout());
    let refused = two.run(["run", "say New."]);
    assert!(refused.stderr.contains("being drained"), "{}", refused.stderr);
    talking.kill();
    let drained = fleet(&["drain", "two", "--within", "120"]).ok();
    assert!(drained.stdout().contains("has released all"), "{}", drained.stdout());
    // Its clients use the host that has the directory.
    let said = two.run(["run", "--resume", &session, "say By way of two."]).ok();
    assert!(said.stdout().contains("By way of two."), "{}", said.stdout());
    assert!(!lines(&two).iter().any(|line| line.contains("By way of two.")));
    let said = one.run(["run", "--resume", &session, "say Mine at last."]).ok();
    assert!(said.stdout().contains("Mine at last."));
    first.kill();
    second.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_killed_host_goes_on_with_another_and_comes_back() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (Home::new(), Home::new());
    let mut first = serve(&one, &cluster, "one");
    let session = begin(&one, "say Here is one.");

    // Killed in the middle of a turn, so that its lease has to run out.
    let mut talking = one.start(["run", "--json", "--resume", &session, LONG]);
    talking.line_with("assistant.message_delta");
    first.kill();
    talking.kill();
    let persisted = lines(&one);
    assert!(persisted.iter().any(|line| line.contains("Here is one.")));

    // Another host has nothing of it but what the fleet has.
    let mut second = serve(&two, &cluster, "two");
    let said = two
        .run(["run", "--json", "--resume", &session, "say Here is two."])
        .ok();
    assert!(said.stdout().contains("Here is two."));
    let taken_over = lines(&two);
    assert_eq!(
        taken_over[..persisted.len()],
        persisted,
        "every event is there as it was written"
    );

    // The first host comes back: it does not write while the other has the session.
    let mut talking = two.start(["run", "--json", "--resume", &session, LONG]);
    talking.line_with("assistant.message_delta");
    let mut third = serve(&one, &cluster, "one");
    let mut handed_on = one.start(["run", "--resume", &session, "say Mine."]);
    until(&one, &["sessions", "list"], |list| list.contains("working"));
    assert_eq!(lines(&one), persisted);
    handed_on.kill();
    talking.kill();

    // One that stops leaves its sessions to the others at once, and the copy is brought up to date.
    let _ = two.run(["serve", "--stop"]).ok();
    second.kill();
    let _ = one.run(["run", "--resume", &session, "say Back at one."]).ok();
    let back = lines(&one);
    let left = lines(&two);
    assert_eq!(back[..left.len()], left, "every event is there as it was written");
    assert!(back.iter().any(|line| line.contains("Back at one.")));

    let status = one
        .run([
            "fleet",
            "status",
            "--fleet",
            &cluster.urls().join(","),
            "--fleet-unchecked-sync",
        ])
        .ok();
    assert!(status.stdout().contains("one-"), "{}", status.stdout());
    third.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_does_not_start_where_a_fleet_could_lose_sessions() {
    let settings = testkit::nats::Settings {
        servers: 1,
        sync_always: false,
    };
    let Some(cluster) = Cluster::start_with(settings).await else {
        return;
    };
    let home = Home::new();
    let refused = home.run([
        "serve",
        "--port",
        "0",
        "--fleet",
        &cluster.urls()[0],
        "--fleet-system",
        &cluster.system_urls()[0],
    ]);
    assert!(!refused.status.success());
    assert!(refused.stderr.contains("sync_interval: always"), "{}", refused.stderr);
}
