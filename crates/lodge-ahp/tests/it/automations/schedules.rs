//! Schedules. The clock is turned by hand: nothing waits for a minute.

use serde_json::{Value, json};

use super::{ALL, ONE, manual, schedule, update, with};
use crate::kit::*;

fn at(house: &House, now: &str) {
    house.clock.set(now.parse().unwrap());
}

/// Every hour, in UTC.
fn hourly(text: &str) -> Value {
    with(
        manual(text),
        json!({ "triggers": [schedule("hour", "0 * * * *", "UTC")] }),
    )
}

impl Client {
    /// The news of an automation whose newest run, of so many, is over.
    async fn after_runs(&mut self, number: usize) -> Value {
        self.shown(ONE, |entry| {
            let runs = entry["runs"].as_array().unwrap();
            let over = |run: &Value| run["lifecycle"]["completedAt"].is_string();
            runs.len() == number && runs.iter().all(over)
        })
        .await
    }
}

#[tokio::test]
async fn a_schedule_runs_when_it_is_due_once_for_each_time() {
    let house = house_at("2026-03-01T09:59:59Z").await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    let made = a.automate(ONE, &hourly("say hello")).await;
    assert_eq!(made["nextRunAt"], "2026-03-01T10:00:00.000Z");
    at(&house, "2026-03-01T10:00:00Z");
    let entry = a.after_runs(1).await;
    assert_eq!(
        entry["runs"][0]["origin"],
        json!({ "kind": "trigger", "triggerId": "hour", "scheduledFor": "2026-03-01T10:00:00.000Z" })
    );
    assert_eq!(entry["nextRunAt"], "2026-03-01T11:00:00.000Z");
    assert_eq!(entry["runs"][0]["lifecycle"]["status"], "completed");
    // Clocks that are set back bring nothing a second time.
    at(&house, "2026-03-01T09:30:00Z");
    a.accepted(ALL, update(ONE, json!({ "title": "Set back" }))).await;
    at(&house, "2026-03-01T10:00:05Z");
    a.accepted(ALL, update(ONE, json!({ "title": "And on" }))).await;
    let entry = a.shown(ONE, |entry| entry["definition"]["title"] == "And on").await;
    assert_eq!(
        (entry["runs"].as_array().unwrap().len(), &entry["nextRunAt"]),
        (1, &json!("2026-03-01T11:00:00.000Z"))
    );
    at(&house, "2026-03-01T11:00:30Z");
    let entry = a.after_runs(2).await;
    assert_eq!(entry["runs"][0]["origin"].get("catchUp"), None);
    // Time zones are those of the places: 08:00 in Tokyo is 23:00 in UTC the day before.
    let tokyo = json!({ "triggers": [schedule("t", "0 8 * * *", "Asia/Tokyo"), schedule("h", "30 12 1 3 *", "UTC")] });
    a.accepted(ALL, update(ONE, tokyo)).await;
    let entry = a
        .shown(ONE, |entry| entry["definition"]["triggers"][0]["id"] == "t")
        .await;
    assert_eq!(entry["nextRunAt"], "2026-03-01T12:30:00.000Z");
    at(&house, "2026-03-01T12:30:00Z");
    assert_eq!(a.after_runs(3).await["nextRunAt"], "2026-03-01T23:00:00.000Z");
    // What never comes is accepted and never runs.
    a.accepted(
        ALL,
        update(ONE, json!({ "triggers": [schedule("never", "0 0 30 2 *", "UTC")] })),
    )
    .await;
    let entry = a
        .shown(ONE, |entry| entry["definition"]["triggers"][0]["id"] == "never")
        .await;
    assert_eq!(entry.get("nextRunAt"), None);
}

#[tokio::test]
async fn what_a_host_missed_is_made_up_for_once_or_left_out_as_the_schedule_says() {
    let mut house = house_at("2026-03-01T09:30:00Z").await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    a.automate(ONE, &hourly("say hello")).await;
    let skipping = with(schedule("hour", "0 * * * *", "UTC"), json!({ "misfirePolicy": "skip" }));
    let two = "ahp-automation:/two";
    a.automate(two, &with(manual("say hello"), json!({ "triggers": [skipping] })))
        .await;
    // The host is away for five of them.
    house.stop().await;
    at(&house, "2026-03-01T14:30:00Z");
    house.start().await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    // It may have run before anybody came.
    let mut entry = a.entry(ONE).await;
    while entry["runs"][0]["lifecycle"]["status"] != "completed" {
        entry = a.shown(ONE, |_| true).await;
    }
    assert_eq!(entry["runs"].as_array().unwrap().len(), 1);
    let expected = json!({
        "kind": "trigger", "triggerId": "hour", "scheduledFor": "2026-03-01T10:00:00.000Z", "catchUp": true,
    });
    assert_eq!(entry["runs"][0]["origin"], expected);
    assert_eq!(entry["nextRunAt"], "2026-03-01T15:00:00.000Z");
    let skipped = a.entry(two).await;
    assert_eq!(
        (&skipped["runs"], &skipped["nextRunAt"]),
        (&json!([]), &json!("2026-03-01T15:00:00.000Z"))
    );
    // It is not made up for again by the next host.
    let house = house.crash().await;
    let mut a = house.client("a").await;
    assert_eq!(a.entry(ONE).await["runs"], entry["runs"]);
    at(&house, "2026-03-01T15:00:00Z");
    while a.entry(two).await["runs"].as_array().unwrap().is_empty() {
        a.shown(two, |_| true).await;
    }
}

#[tokio::test]
async fn what_is_due_while_a_run_goes_on_waits_for_its_end() {
    let house = house_at("2026-03-01T09:59:00Z").await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    a.automate(ONE, &hourly("call bash {\"command\":\"touch here\"} then say after"))
        .await;
    at(&house, "2026-03-01T10:00:00Z");
    let run = a.shown_run(ONE, "running").await;
    at(&house, "2026-03-01T12:10:00Z");
    a.accepted(
        ALL,
        update(
            ONE,
            json!({ "message": { "text": "say hello", "origin": { "kind": "automation" } } }),
        ),
    )
    .await;
    let entry = a
        .shown(ONE, |entry| entry["definition"]["message"]["text"] == "say hello")
        .await;
    assert_eq!(
        (entry["runs"].as_array().unwrap().len(), &entry["nextRunAt"]),
        (1, &json!("2026-03-01T11:00:00.000Z"))
    );
    let run = run["resource"].as_str().unwrap().to_owned();
    a.subscribe(&run).await;
    a.accepted(&run, json!({ "type": "automationRun/cancelRequested" }))
        .await;
    let entry = a.after_runs(2).await;
    let origin = &entry["runs"][0]["origin"];
    assert_eq!(
        (&origin["scheduledFor"], &origin["catchUp"]),
        (&json!("2026-03-01T11:00:00.000Z"), &json!(true))
    );
    assert_eq!(entry["nextRunAt"], "2026-03-01T13:00:00.000Z");
}

#[tokio::test]
async fn schedules_end_after_so_many_runs_or_at_a_time() {
    let house = house_at("2026-03-01T09:59:00Z").await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    let twice = json!({ "disableConditions": [{ "kind": "afterRuns", "max": 2 }] });
    let made = a.automate(ONE, &with(hourly("say hello"), twice)).await;
    assert_eq!(made["runCount"], 0);
    // What people ask for does not count.
    a.run(ONE, "key").await;
    assert_eq!(a.after_runs(1).await["runCount"], 0);
    at(&house, "2026-03-01T10:00:00Z");
    let entry = a.after_runs(2).await;
    assert_eq!(
        (&entry["runCount"], &entry["definition"]["enabled"]),
        (&json!(1), &json!(true))
    );
    at(&house, "2026-03-01T11:00:00Z");
    let entry = a.after_runs(3).await;
    assert_eq!(
        (&entry["runCount"], &entry["definition"]["enabled"]),
        (&json!(2), &json!(false))
    );
    assert_eq!(entry.get("nextRunAt"), None);
    // Manual runs are never held up; turning it on again begins a new count.
    a.run(ONE, "again").await;
    a.after_runs(4).await;
    a.accepted(ALL, update(ONE, json!({ "enabled": true }))).await;
    let entry = a.shown(ONE, |entry| entry["definition"]["enabled"] == true).await;
    assert_eq!(
        (&entry["runCount"], &entry["nextRunAt"]),
        (&json!(0), &json!("2026-03-01T12:00:00.000Z"))
    );
    // Without the condition nothing is counted, and that turns nothing on.
    let until = json!([{ "kind": "afterDate", "date": "2026-03-01T13:30:00+01:00" }]);
    a.accepted(ALL, update(ONE, json!({ "disableConditions": until })))
        .await;
    let entry = a.shown(ONE, |entry| entry.get("runCount").is_none()).await;
    assert_eq!(entry["nextRunAt"], "2026-03-01T12:00:00.000Z");
    at(&house, "2026-03-01T12:00:00Z");
    let entry = a.after_runs(5).await;
    // The next time would be after the end of it.
    assert_eq!(
        (entry.get("nextRunAt"), &entry["definition"]["enabled"]),
        (None, &json!(true))
    );
    at(&house, "2026-03-01T12:30:00Z");
    a.shown(ONE, |entry| entry["definition"]["enabled"] == false).await;
    a.accepted(ALL, update(ONE, json!({ "enabled": true }))).await;
    assert_eq!(a.entry(ONE).await["definition"]["enabled"], false);
    a.accepted(ALL, update(ONE, json!({ "disableConditions": [] }))).await;
    assert_eq!(a.entry(ONE).await["definition"]["enabled"], false);
    a.accepted(ALL, update(ONE, json!({ "enabled": true }))).await;
    assert_eq!(a.entry(ONE).await["nextRunAt"], "2026-03-01T13:00:00.000Z");
}
