//! Automations: the catalogue, runs that people ask for, and what becomes of both when the host ends.

mod runs;
mod schedules;

use ahp_types::state::{Snapshot, SnapshotState};
use serde_json::{Value, json};

use crate::{kit::*, mirror::Mirror};

const ALL: &str = "ahp-automations://";
const ONE: &str = "ahp-automation:/one";

/// One that only runs when somebody asks, and says this.
fn manual(text: &str) -> Value {
    json!({
        "title": "Every now and then", "enabled": true, "triggers": [], "session": {},
        "message": { "text": text, "origin": { "kind": "automation" } },
    })
}

/// The same with other values.
fn with(mut definition: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().unwrap() {
        definition[key] = value.clone();
    }
    definition
}

fn schedule(id: &str, expression: &str, zone: &str) -> Value {
    json!({ "kind": "schedule", "id": id, "schedule": { "expression": expression, "timeZone": zone } })
}

fn create(resource: &str, definition: &Value) -> Value {
    json!({ "type": "automation/createRequested", "resource": resource, "definition": definition })
}

fn update(resource: &str, changes: Value) -> Value {
    json!({ "type": "automation/updateRequested", "resource": resource, "changes": changes })
}

fn remove(resource: &str) -> Value {
    json!({ "type": "automation/removed", "resource": resource })
}

impl Client {
    /// Makes an automation. How it is shown then.
    async fn automate(&mut self, resource: &str, definition: &Value) -> Value {
        self.drain().await;
        self.accepted(ALL, create(resource, definition)).await;
        self.shown(resource, |_| true).await
    }

    /// The next news of an automation that fits; those before it are forgotten.
    async fn shown(&mut self, resource: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let news = self.until(|message| message["params"]["action"]["automation"]["resource"] == resource);
            let entry = news.await["params"]["action"]["automation"].clone();
            if fits(&entry) {
                return entry;
            }
        }
    }

    /// The news of an automation whose newest run is in this state.
    async fn shown_run(&mut self, resource: &str, status: &str) -> Value {
        let fits = |entry: &Value| entry["runs"][0]["lifecycle"]["status"] == status;
        self.shown(resource, fits).await["runs"][0].clone()
    }

    async fn run(&mut self, resource: &str, request: &str) -> String {
        let params = json!({ "channel": ALL, "automation": resource, "requestId": request });
        let result = self.request("runAutomation", params).await.unwrap();
        result["resource"].as_str().unwrap().to_owned()
    }

    /// The catalogue's line of an automation now.
    async fn entry(&mut self, resource: &str) -> Value {
        let state = self.subscribe(ALL).await["state"].clone();
        let mut entries = state["entries"].as_array().unwrap().iter();
        entries.find(|entry| entry["resource"] == resource).cloned().unwrap()
    }
}

#[tokio::test]
async fn automations_are_made_changed_and_removed_for_everybody() {
    let house = house_at("2026-03-01T10:00:30Z").await;
    let (mut a, mut b) = (house.client("a").await, house.client_of("b", "0.9.0").await);
    assert_eq!(a.subscribe(ALL).await["state"], json!({ "entries": [] }));
    b.subscribe(ALL).await;
    let definition = with(manual("say hello"), json!({ "_meta": { "theirs": [1, 2.5] } }));
    let made = a.automate(ONE, &definition).await;
    let expected = json!({
        "resource": ONE, "definition": definition, "runs": [], "operations": ["update", "remove", "run"],
        "createdAt": "2026-03-01T10:00:30.000Z", "modifiedAt": "2026-03-01T10:00:30.000Z",
    });
    assert_eq!(made, expected);
    assert_eq!(b.shown(ONE, |_| true).await, expected);
    // The same again is the same, and something else at its place is refused.
    house.clock.set("2026-03-01T11:00:00Z".parse().unwrap());
    assert_eq!(a.automate(ONE, &definition).await, expected);
    let reason = a.refused(ALL, create(ONE, &manual("say else"))).await;
    assert_eq!(reason, format!("Automation already exists: {ONE}"));
    // What a patch does not name stays.
    b.accepted(
        ALL,
        update(
            ONE,
            json!({ "title": "Hourly", "triggers": [schedule("t", "0 * * * *", "UTC")] }),
        ),
    )
    .await;
    let changed = a.shown(ONE, |entry| entry["definition"]["title"] == "Hourly").await;
    assert_eq!(changed["definition"]["message"], definition["message"]);
    assert_eq!(changed["definition"]["_meta"], definition["_meta"]);
    assert_eq!(
        (&changed["nextRunAt"], &changed["createdAt"], &changed["modifiedAt"]),
        (
            &json!("2026-03-01T12:00:00.000Z"),
            &json!("2026-03-01T10:00:30.000Z"),
            &json!("2026-03-01T11:00:00.000Z")
        )
    );
    a.accepted(ALL, update(ONE, json!({ "enabled": false }))).await;
    assert_eq!(
        a.shown(ONE, |entry| entry["definition"]["enabled"] == false)
            .await
            .get("nextRunAt"),
        None
    );
    let missing = "ahp-automation:/missing";
    let reason = a.refused(ALL, update(missing, json!({ "title": "x" }))).await;
    assert_eq!(reason, format!("Automation not found: {missing}"));
    // Removing what is not there is nothing; removing what is there is told to all.
    a.accepted(ALL, remove(missing)).await;
    a.accepted(ALL, remove(ONE)).await;
    let told = b.action("automation/removed").await;
    assert_eq!(
        (&told["action"]["resource"], &told["origin"]["clientId"]),
        (&json!(ONE), &json!("a"))
    );
    assert_eq!(b.subscribe(ALL).await["state"], json!({ "entries": [] }));
    // Editors spell the channel in their own way.
    let mut c = house.client("c").await;
    assert_eq!(c.subscribe("ahp-automations:").await["state"], json!({ "entries": [] }));
    c.accepted("ahp-automations:/", create(ONE, &definition)).await;
    c.shown(ONE, |_| true).await;
}

#[tokio::test]
async fn what_can_be_no_automation_is_refused_with_a_reason() {
    let house = house().await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    let good = manual("say hello");
    let scheduled = |expression: &str, zone: &str| json!({ "triggers": [schedule("t", expression, zone)] });
    let meta = |key: &str| json!({ "_meta": { "deep": [{ key: "x" }] } });
    let conditions = |list: Value| json!({ "disableConditions": list });
    for (changes, expected) in [
        (json!({ "title": "  " }), "title"),
        (json!({ "title": null }), "cannot be read"),
        (json!({ "title": "x".repeat(2000) }), "title"),
        (
            json!({ "message": { "text": "x", "origin": { "kind": "user" } } }),
            "automation",
        ),
        (
            json!({ "message": { "text": "x".repeat(300_000), "origin": { "kind": "automation" } } }),
            "KiB",
        ),
        (json!({ "session": { "provider": "nobody" } }), "nobody"),
        (json!({ "session": { "config": { "mode": "hurry" } } }), "hurry"),
        (
            json!({ "session": { "config": { "autoApprove": "everything" } } }),
            "everything",
        ),
        (
            json!({ "session": { "workingDirectories": ["http://x/"] } }),
            "http://x/",
        ),
        (
            json!({ "session": { "customizations": [{ "id": "p", "uri": "virtual://a/p", "name": "p", "type": "plugin" }] } }),
            "plugins",
        ),
        (
            json!({ "session": { "config": { "githubToken": "x" } } }),
            "githubToken",
        ),
        (meta("api_key"), "api_key"),
        (meta("Authorization"), "Authorization"),
        (scheduled("* * * *", "UTC"), "five fields"),
        (scheduled("61 * * * *", "UTC"), "minute"),
        (scheduled("@daily", "UTC"), "five fields"),
        (scheduled("* * * * *", "Middle/Earth"), "Middle/Earth"),
        (json!({ "triggers": [schedule("", "* * * * *", "UTC")] }), "unique id"),
        (
            json!({ "triggers": [schedule("t", "* * * * *", "UTC"), schedule("t", "1 * * * *", "UTC")] }),
            "unique id",
        ),
        (
            json!({ "triggers": [{ "kind": "event", "id": "t", "type": "rain", "title": "Rain", "events": [] }] }),
            "no event trigger \"rain\"",
        ),
        (json!({ "triggers": [{ "kind": "moon", "id": "t" }] }), "moon"),
        (
            json!({ "triggers": [with(schedule("t", "* * * * *", "UTC"), json!({ "misfirePolicy": "panic" }))] }),
            "panic",
        ),
        (
            conditions(json!([{ "kind": "afterRuns", "max": 0 }])),
            "at least one run",
        ),
        (
            conditions(json!([{ "kind": "afterRuns", "max": 1.5 }])),
            "cannot be read",
        ),
        (conditions(json!([{ "kind": "afterDate", "date": "soon" }])), "soon"),
        (
            conditions(json!([{ "kind": "afterRuns", "max": 1 }, { "kind": "afterRuns", "max": 2 }])),
            "only once",
        ),
        (conditions(json!([{ "kind": "afterLunch" }])), "afterLunch"),
    ] {
        let reason = a.refused(ALL, create(ONE, &with(good.clone(), changes.clone()))).await;
        assert!(reason.contains(expected), "{changes}: {reason}");
    }
    for odd in [
        "ahp-automation:",
        "ahp-automation:/",
        "lodge:/x",
        "",
        "ahp-automation:/a\nb",
        ALL,
    ] {
        a.refused(ALL, create(odd, &good)).await;
    }
    // What holds for new ones holds for changes, and a change that is refused changes nothing.
    let made = a.automate(ONE, &good).await;
    assert!(
        a.refused(ALL, update(ONE, json!({ "title": "" })))
            .await
            .contains("title")
    );
    assert!(
        a.refused(ALL, update(ONE, scheduled("x", "UTC")))
            .await
            .contains("five")
    );
    a.refused(ALL, json!({ "type": "automation/set", "automation": made }))
        .await;
    a.refused(ALL, json!({ "type": "automation/createRequested" })).await;
    a.refused(ALL, json!({ "type": "automationRun/cancelRequested" })).await;
    a.refused(ALL, json!({ "type": "root/configChanged", "config": {} }))
        .await;
    assert_eq!(a.entry(ONE).await, made);
    // Numbers that only look like secrets are none.
    a.accepted(ALL, update(ONE, json!({ "_meta": { "maxTokens": "12", "token": 3 } })))
        .await;
    for (method, params, code) in [
        (
            "runAutomation",
            json!({ "automation": "ahp-automation:/no", "requestId": "r" }),
            -32008,
        ),
        ("runAutomation", json!({ "automation": ONE, "requestId": " " }), -32602),
        (
            "runAutomation",
            json!({ "automation": ONE, "requestId": "r".repeat(2000) }),
            -32602,
        ),
        ("runAutomation", json!({ "automation": ONE }), -32602),
        (
            "fetchAutomationRuns",
            json!({ "automation": "ahp-automation:/no" }),
            -32008,
        ),
        (
            "fetchAutomationRuns",
            json!({ "automation": ONE, "cursor": "x" }),
            -32602,
        ),
        ("subscribe", json!({ "channel": ONE }), -32001),
        ("subscribe", json!({ "channel": "ahp-automation-run:/x" }), -32001),
        ("createSession", json!({ "channel": ONE }), -32602),
    ] {
        let params = with(json!({ "channel": ALL }), params);
        assert_eq!(a.code(method, params.clone()).await, code, "{method} {params}");
    }
    let none = a.request(
        "listAutomationTriggerDefinitions",
        json!({ "channel": ROOT, "provider": "lodge" }),
    );
    assert_eq!(none.await.unwrap(), json!({ "items": [] }));
    let nothing = a.request("fetchAutomationRuns", json!({ "channel": ALL, "automation": ONE }));
    assert_eq!(nothing.await.unwrap(), json!({}));
}

#[tokio::test]
async fn automations_are_kept_and_a_damaged_record_takes_nothing_else_with_it() {
    let mut house = house().await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    let second = "ahp-automation:/two";
    let first = a.automate(ONE, &manual("say one")).await;
    a.automate(second, &manual("say two")).await;
    house.restart().await;
    let mut a = house.client("a").await;
    assert_eq!(a.entry(ONE).await, first);
    house.stop().await;
    let file = house.registers();
    let text = std::fs::read_to_string(&file).unwrap();
    let damaged = text.replace("\"say one\"", "\"say ");
    assert_ne!(damaged, text);
    std::fs::write(&file, &damaged).unwrap();
    house.start().await;
    let mut a = house.client("a").await;
    let state = a.subscribe(ALL).await["state"].clone();
    assert_eq!(state["entries"].as_array().unwrap().len(), 1);
    assert_eq!(state["entries"][0]["resource"], second);
    // The file as it was is put aside, and what takes the place of a record does not write over it.
    a.automate(ONE, &manual("say another")).await;
    assert_eq!(put_aside(&file), damaged);
    house.restart().await;
    let mut a = house.client("a").await;
    assert_eq!(a.entry(ONE).await["definition"]["message"]["text"], "say another");
}

#[tokio::test]
async fn clients_that_change_automations_at_once_stay_in_step() {
    let house = house().await;
    let mut clients = Vec::new();
    for name in ["a", "b", "c"] {
        let mut client = house.client(name).await;
        let mut mirror = Mirror::default();
        mirror.snapshot(&client.subscribe(ALL).await);
        clients.push((client, mirror));
    }
    // Nobody waits for anybody.
    for round in 0..12 {
        for (client, _) in &mut clients {
            let resource = format!("ahp-automation:/{}", round % 5);
            let action = match round % 4 {
                0 | 1 => create(&resource, &manual(&format!("say {round}"))),
                2 => update(&resource, json!({ "title": format!("{} {round}", client.name) })),
                _ => remove(&resource),
            };
            client.dispatch(ALL, action).await;
        }
    }
    let mut states = Vec::new();
    for (client, _) in &mut clients {
        // What a connection sends is taken in turn, so all of it is done when this is answered.
        let last = client.dispatch(ALL, remove("ahp-automation:/last")).await;
        client.verdict(last).await;
    }
    for (client, mirror) in &mut clients {
        for message in client.drain().await {
            if message["method"] == "action" && message["params"]["channel"] == ALL {
                mirror.envelope(&message["params"]);
            }
        }
        states.push((mirror.state(ALL), client.subscribe(ALL).await["state"].clone()));
    }
    for (mirrored, state) in &states {
        assert_eq!(mirrored, state);
        assert_eq!(mirrored, &states[0].0);
    }
    assert!(!states[0].0["entries"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn clients_of_the_seed_see_nothing_of_automations() {
    let house = house().await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    a.automate(ONE, &manual("say hello")).await;
    let mut seed = house.connect().await;
    let params = json!({ "protocolVersions": ["0.1.0"], "clientId": "old" });
    let result = seed.request("initialize", params).await.unwrap();
    assert_eq!(result.get("automations"), None);
    for method in [
        "runAutomation",
        "fetchAutomationRuns",
        "listAutomationTriggerDefinitions",
    ] {
        assert_eq!(
            seed.code(method, json!({ "automation": ONE, "requestId": "r" })).await,
            -32601
        );
    }
    assert_eq!(seed.code("subscribe", json!({ "resource": ALL })).await, -32001);
    seed.dispatch_seed(with(remove(ONE), json!({ "session": ALL }))).await;
    seed.drain().await;
    a.entry(ONE).await;
    // The session of a run is one like others.
    let run = a.run(ONE, "r").await;
    let session = a.shown_run(ONE, "completed").await["primarySession"].clone();
    assert_eq!(seed.code("subscribe", json!({ "resource": run })).await, -32001);
    let params = json!({ "resource": session });
    let state = seed.request("subscribe", params).await.unwrap()["snapshot"]["state"].clone();
    assert_eq!(state["turns"][0]["userMessage"]["text"], "say hello");
    assert_eq!(state["summary"].get("origin"), None);
}

#[tokio::test]
async fn a_person_can_turn_all_automations_off() {
    let house = house_at("2026-03-01T10:00:00Z").await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    let set = |on: bool| json!({ "type": "root/configChanged", "config": { "automationsEnabled": on } });
    let definition = with(
        manual("say hello"),
        json!({ "triggers": [schedule("t", "0 * * * *", "UTC")] }),
    );
    a.automate(ONE, &definition).await;
    a.accepted(ROOT, set(false)).await;
    let off = a
        .shown(ONE, |entry| entry["operations"] == json!(["update", "remove"]))
        .await;
    assert_eq!(off["definition"]["enabled"], true);
    let params = json!({ "channel": ALL, "automation": ONE, "requestId": "r" });
    let error = a.request("runAutomation", params).await.unwrap_err();
    assert_eq!(error["message"], "Automations are disabled.");
    // They are made as before, and what is due meanwhile waits.
    let second = a.automate("ahp-automation:/two", &manual("say two")).await;
    assert_eq!(second["operations"], json!(["update", "remove"]));
    house.clock.set("2026-03-01T11:30:00Z".parse().unwrap());
    a.accepted(ALL, update(ONE, json!({ "title": "Looked at" }))).await;
    let entry = a.shown(ONE, |entry| entry["definition"]["title"] == "Looked at").await;
    assert_eq!(
        (&entry["runs"], &entry["nextRunAt"]),
        (&json!([]), &json!("2026-03-01T11:00:00.000Z"))
    );
    a.accepted(ROOT, set(true)).await;
    let run = a.shown_run(ONE, "completed").await;
    assert_eq!(run["origin"]["catchUp"], true);
}

#[tokio::test]
async fn who_comes_back_hears_what_became_of_automations_meanwhile() {
    let house = house().await;
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    let mut mirror = Mirror::default();
    let snapshot = b.subscribe(ALL).await;
    // The official client knows the states apart by their keys.
    let read: Snapshot = serde_json::from_value(snapshot.clone()).unwrap();
    assert!(matches!(read.state, SnapshotState::Automations(_)));
    mirror.snapshot(&snapshot);
    let seen = b.last_seq;
    drop(b);
    a.subscribe(ALL).await;
    a.automate(ONE, &manual("say hello")).await;
    let run = a.run(ONE, "key").await;
    a.shown_run(ONE, "completed").await;
    let read: Snapshot = serde_json::from_value(a.subscribe(&run).await).unwrap();
    assert!(matches!(read.state, SnapshotState::AutomationRun(_)));
    let mut b = house.connect().await;
    let params = json!({ "clientId": "b", "lastSeenServerSeq": seen, "subscriptions": [ALL, run] });
    let result = b.request("reconnect", params).await.unwrap();
    // The channel of the run is younger than what was seen, so there may be snapshots.
    for action in result["actions"].as_array().into_iter().flatten() {
        mirror.envelope(action);
    }
    for snapshot in result["snapshots"].as_array().into_iter().flatten() {
        mirror.snapshot(snapshot);
    }
    assert_eq!(mirror.state(ALL), a.subscribe(ALL).await["state"]);
    drop(b);
    // Without it there is nothing but what happened.
    let seen = a.last_seq;
    a.accepted(ALL, update(ONE, json!({ "title": "Meanwhile" }))).await;
    let mut b = house.connect().await;
    let params = json!({ "clientId": "b", "lastSeenServerSeq": seen, "subscriptions": [ALL] });
    let result = b.request("reconnect", params).await.unwrap();
    assert_eq!(result["type"], "replay");
    let actions = result["actions"].as_array().unwrap();
    assert_eq!(
        actions.last().unwrap()["action"]["automation"]["definition"]["title"],
        "Meanwhile"
    );
}
