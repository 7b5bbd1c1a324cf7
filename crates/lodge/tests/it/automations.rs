//! `lodge automations`: what clients made, seen, run and removed by a person at a terminal.

use serde_json::json;
use testkit::Home;
use uuid::Uuid;

/// What a host keeps of an automation that a client made.
fn keep(home: &Home, id: &str, text: &str, directory: Option<&str>) {
    let resource = format!("ahp-automation:/{id}");
    let (name, now) = (
        Uuid::new_v5(&Uuid::NAMESPACE_URL, resource.as_bytes()),
        "2026-11-01T00:00:00.000Z",
    );
    let session = directory.map_or(json!({}), |directory| json!({ "workingDirectories": [directory] }));
    let schedule = json!({ "expression": "0 0 30 2 *", "timeZone": "Europe/Berlin" });
    let record = json!({
        "resource": resource, "createdAt": now, "modifiedAt": now,
        "definition": {
            // What steers a terminal is shown and not done.
            "title": format!("Do\u{1b}\n{id}"), "message": { "text": text, "origin": { "kind": "automation" } }, "session": session,
            "enabled": true, "triggers": [{ "kind": "schedule", "id": "t", "schedule": schedule }],
        },
    });
    let dir = home.path().join("ahp/automations");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(format!("{name}.json")), record.to_string()).unwrap();
}

#[test]
fn automations_are_listed_run_and_removed() {
    let home = Home::new();
    let nobody = home.run(["automations"]);
    assert!(
        !nobody.status.success() && nobody.stderr.contains("No host"),
        "{nobody:#?}"
    );
    keep(&home, "wool-cards", "say carded", None);
    keep(&home, "wool-spin", "say spun", Some("file:///not/there"));
    let mut host = home.start(["--port", "0", "--sdk-port", "0"]);
    host.line_with("Ctrl-C stops");
    let list = || home.run(["automations"]).ok().stdout();
    let listed = list();
    let expected = "wool-cards  Do\u{fffd} wool-cards  manual  never ran  [0 0 30 2 * Europe/Berlin]";
    assert!(listed.lines().any(|line| line == expected), "{listed}");
    let ran = home.run(["automations", "run", "wool-c"]).ok().stdout();
    let session = ran.trim().rsplit(' ').next().unwrap().to_owned();
    // Whoever attaches to it reads what was said.
    let mut read = home.talk(["attach", &session]);
    read.line_with("carded");
    drop(read);
    let failed = home.run(["automations", "run", "ahp-automation:/wool-spin"]);
    assert!(
        !failed.status.success() && failed.stderr.contains("/not/there"),
        "{failed:#?}"
    );
    assert!(list().contains("wool-spin  Do\u{fffd} wool-spin  manual  failed"));
    for (id, reason) in [("wool", "Several"), ("silk", "no automation"), ("", "no automation")] {
        let refused = home.run(["automations", "remove", id]);
        assert!(
            !refused.status.success() && refused.stderr.contains(reason),
            "{refused:#?}"
        );
    }
    // What still runs cannot be removed.
    while !list().contains("wool-cards  Do\u{fffd} wool-cards  manual  succeeded") {}
    for id in ["wool-spin", "wool"] {
        let _ = home.run(["automations", "remove", id]).ok();
    }
    assert!(list().contains("no automations"));
    assert!(
        home.run(["sessions", "list"])
            .ok()
            .stdout()
            .contains("Do\u{fffd} wool-cards")
    );
}
