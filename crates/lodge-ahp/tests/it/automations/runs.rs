//! Runs that people ask for.

use serde_json::{Value, json};

use super::{ALL, ONE, create, manual, remove, with};
use crate::{kit::*, mirror::Mirror};

/// It asks, and does nothing before it is answered.
const ASKING: &str = "call bash {\"command\":\"touch here\"} then say after";

impl Client {
    /// Takes what comes on a channel until the mirrored state fits.
    async fn mirrored(&mut self, mirror: &mut Mirror, channel: &str, fits: impl Fn(&Value) -> bool) -> Value {
        while !fits(&mirror.state(channel)) {
            let next = self.until(|message| message["params"]["channel"] == channel).await;
            mirror.envelope(&next["params"]);
        }
        mirror.state(channel)
    }

    /// Subscribes to a run and waits until it waits for a person. Its session and chat.
    async fn waits(&mut self, run: &str) -> (String, String) {
        let mut mirror = Mirror::default();
        mirror.snapshot(&self.subscribe(run).await);
        let state = self
            .mirrored(&mut mirror, run, |state| state.get("primarySession").is_some())
            .await;
        assert_eq!(state["lifecycle"]["status"], "running");
        assert_eq!(state["sessions"], json!([state["primarySession"]]));
        let session = state["primarySession"].as_str().unwrap().to_owned();
        let mut mirror = Mirror::default();
        let snapshot = self.subscribe(&session).await;
        mirror.snapshot(&snapshot);
        let chat = snapshot["state"]["defaultChat"].as_str().unwrap().to_owned();
        let waits = |state: &Value| state["inputNeeded"].as_array().is_some_and(|needed| !needed.is_empty());
        self.mirrored(&mut mirror, &session, waits).await;
        (session, chat)
    }

    /// Lets the call run that a chat waits for.
    async fn allows(&mut self, chat: &str) {
        let state = self.subscribe(chat).await["state"].clone();
        let turn = &state["activeTurn"];
        let mut parts = turn["responseParts"].as_array().unwrap().iter();
        let call = parts.find(|part| part["kind"] == "toolCall").unwrap()["toolCall"].clone();
        let confirmed = json!({
            "type": "chat/toolCallConfirmed", "turnId": turn["id"], "toolCallId": call["toolCallId"],
            "approved": true, "confirmed": "user-action",
        });
        self.accepted(chat, confirmed).await;
    }
}

#[tokio::test]
async fn a_run_is_a_session_of_its_own_that_ends_with_its_turn() {
    let mut house = house().await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    let work = lodge_ahp::uri::file(house.work());
    let session =
        json!({ "provider": "copilotcli", "workingDirectories": [work], "config": { "mode": "interactive" } });
    let definition = with(manual(ASKING), json!({ "session": session, "enabled": false }));
    a.automate(ONE, &definition).await;
    let run = a.run(ONE, "first").await;
    let (session, chat) = a.waits(&run).await;
    // It is what it is while it waits, and says where it comes from.
    let origin = json!({ "kind": "automation", "automation": ONE, "run": run });
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(
        (
            &state["origin"],
            &state["title"],
            &state["provider"],
            &state["workingDirectories"]
        ),
        (
            &origin,
            &json!("Every now and then"),
            &json!("copilotcli"),
            &json!([work])
        )
    );
    let turn = a.subscribe(&chat).await["state"]["activeTurn"].clone();
    assert_eq!(turn["message"], definition["message"]);
    let line = |list: &Value| {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|item| item["resource"] == *session)
            .cloned()
    };
    let list = a.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
    assert_eq!(line(&list).unwrap()["origin"], origin);
    let entry = a.entry(ONE).await;
    assert_eq!(entry["operations"], json!(["update", "run"]));
    let reason = a.refused(ALL, remove(ONE)).await;
    assert!(reason.contains("active run"), "{reason}");
    assert!(!house.work().join("here").exists());
    a.allows(&chat).await;
    let done = a.shown_run(ONE, "completed").await;
    assert!(house.work().join("here").exists());
    assert_eq!(
        (&done["resource"], &done["automation"], &done["sessionCount"]),
        (&json!(run), &json!(ONE), &json!(1))
    );
    assert_eq!(done["origin"], json!({ "kind": "manual" }));
    for time in ["createdAt", "startedAt", "completedAt"] {
        assert!(done["lifecycle"][time].is_string(), "{done}");
    }
    // All of it is so after a restart.
    house.restart().await;
    let mut a = house.client("a").await;
    assert_eq!(a.entry(ONE).await["runs"], json!([done]));
    let state = a.subscribe(&run).await["state"].clone();
    assert_eq!(
        (&state["lifecycle"], &state["sessions"]),
        (&done["lifecycle"], &json!([session]))
    );
    let list = a.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
    assert_eq!(line(&list).unwrap()["origin"], origin);
    assert_eq!(a.subscribe(&session).await["state"]["origin"], origin);
    let turns = a.subscribe(&chat).await["state"]["turns"].clone();
    assert_eq!(turns[0]["message"], definition["message"]);
    // A person goes on in it like in any other; clients cannot speak for automations.
    a.turn(&chat, "mine", "say more").await;
    let theirs = with(turn_started("x", "say no"), json!({ "message": definition["message"] }));
    assert!(a.refused(&chat, theirs).await.contains("user"));
    // Removing the session takes it out of its run; removing the automation takes its runs along.
    a.subscribe(&run).await;
    a.request("disposeSession", json!({ "channel": session }))
        .await
        .unwrap();
    let gone = a.action("automationRun/sessionRemoved").await;
    assert_eq!(
        (&gone["channel"], &gone["action"]["session"]),
        (&json!(run), &json!(session))
    );
    a.shown(ONE, |entry| entry["runs"][0]["sessionCount"] == 0).await;
    a.accepted(ALL, remove(ONE)).await;
    assert_eq!(a.code("subscribe", json!({ "channel": run })).await, -32001);
}

#[tokio::test]
async fn a_key_stands_for_one_run_also_after_a_restart_and_a_crash() {
    let mut house = house().await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    a.automate(ONE, &manual("say hello")).await;
    a.automate("ahp-automation:/two", &manual("say hello")).await;
    // Both of them at once, and again.
    let params = json!({ "channel": ALL, "automation": ONE, "requestId": "key" });
    let (first, second) = (
        a.start("runAutomation", params.clone()).await,
        a.start("runAutomation", params.clone()).await,
    );
    let run = a.response(first).await.unwrap();
    assert_eq!(a.response(second).await.unwrap(), run);
    let run = run["resource"].as_str().unwrap().to_owned();
    let other = a.run(ONE, "other").await;
    assert_ne!(other, run);
    assert_ne!(a.run("ahp-automation:/two", "key").await, run);
    a.shown(ONE, |entry| {
        let over = |run: &Value| run["lifecycle"]["status"] == "completed";
        entry["runs"]
            .as_array()
            .is_some_and(|runs| runs.len() == 2 && runs.iter().all(over))
    })
    .await;
    house.restart().await;
    let mut a = house.client("a").await;
    assert_eq!(a.run(ONE, "key").await, run);
    let house = house.crash().await;
    let mut a = house.client("a").await;
    assert_eq!(a.run(ONE, "other").await, other);
    assert_eq!(a.entry(ONE).await["runs"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_run_that_was_going_on_when_the_host_was_killed_has_failed_and_is_not_run_again() {
    let house = house().await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    a.automate(ONE, &manual(ASKING)).await;
    let run = a.run(ONE, "key").await;
    let (session, _) = a.waits(&run).await;
    let house = house.crash().await;
    let mut a = house.client("a").await;
    let entry = a.entry(ONE).await;
    let failed = &entry["runs"][0];
    assert_eq!(
        (
            &failed["resource"],
            &failed["lifecycle"]["status"],
            &failed["lifecycle"]["error"]["errorType"]
        ),
        (&json!(run), &json!("failed"), &json!("interrupted"))
    );
    assert_eq!(
        (&failed["primarySession"], &entry["operations"]),
        (&json!(session), &json!(["update", "remove", "run"]))
    );
    assert_eq!(a.run(ONE, "key").await, run);
    assert_eq!(a.subscribe(&run).await["state"]["lifecycle"], failed["lifecycle"]);
    // Its session is there, and there is no other.
    let list = a.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
    let sessions: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["resource"])
        .collect();
    assert_eq!(sessions, [&json!(session)]);
    assert!(
        a.refused(&run, json!({ "type": "automationRun/cancelRequested" }))
            .await
            .contains("over")
    );
}

#[tokio::test]
async fn a_run_that_was_kept_and_had_not_begun_begins_with_the_next_host() {
    let house = house().await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    a.automate(ONE, &manual("say hello")).await;
    let run = a.run(ONE, "key").await;
    a.shown_run(ONE, "completed").await;
    // What a host leaves behind that is killed between writing the run down and beginning it.
    let file = house.registers();
    let mut text = std::fs::read_to_string(&file).unwrap();
    let mut records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut kept = records.rfind(|record| record["key"] == "automation//one").unwrap();
    for key in ["started", "ended", "session"] {
        kept["value"]["runs"][0].as_object_mut().unwrap().remove(key).unwrap();
    }
    text.push_str(&format!("{kept}\n"));
    std::fs::write(&file, text).unwrap();
    let house = house.crash().await;
    let mut a = house.client("a").await;
    let mut mirror = Mirror::default();
    mirror.snapshot(&a.subscribe(&run).await);
    let over = |state: &Value| state["lifecycle"]["status"] == "completed";
    let state = a.mirrored(&mut mirror, &run, over).await;
    assert_eq!(state["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn runs_can_be_cancelled_until_they_are_over() {
    let house = house().await;
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    a.subscribe(ALL).await;
    a.automate(ONE, &manual(ASKING)).await;
    let cancel = json!({ "type": "automationRun/cancelRequested" });
    let run = a.run(ONE, "key").await;
    let (_, chat) = a.waits(&run).await;
    b.subscribe(&run).await;
    b.subscribe(&chat).await;
    b.accepted(&run, cancel.clone()).await;
    b.action("chat/turnCancelled").await;
    let changed = b.action("automationRun/lifecycleChanged").await;
    assert_eq!(changed["action"]["lifecycle"]["status"], "cancelled");
    assert!(changed["action"]["lifecycle"]["startedAt"].is_string());
    assert!(b.refused(&run, cancel.clone()).await.contains("over"));
    a.shown_run(ONE, "cancelled").await;
    assert!(!house.work().join("here").exists());
    // A person who stops the turn stops the run, and so does one who removes the session.
    let run = a.run(ONE, "second").await;
    let (_, chat) = a.waits(&run).await;
    let turn = a.subscribe(&chat).await["state"]["activeTurn"]["id"].clone();
    a.accepted(
        &chat,
        json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 1 }),
    )
    .await;
    a.shown(ONE, |entry| {
        entry["runs"][0]["resource"] == *run && entry["runs"][0]["lifecycle"]["status"] == "cancelled"
    })
    .await;
    let run = a.run(ONE, "third").await;
    let (session, _) = a.waits(&run).await;
    a.request("disposeSession", json!({ "channel": session }))
        .await
        .unwrap();
    let entry = a.shown(ONE, |entry| {
        let newest = &entry["runs"][0];
        newest["resource"] == *run && newest["lifecycle"]["status"] == "cancelled" && newest["sessionCount"] == 0
    });
    assert_eq!(entry.await["runs"].as_array().unwrap().len(), 3);
    // What clients cannot say about a run.
    for odd in [
        "automationRun/lifecycleChanged",
        "automationRun/sessionSet",
        "automation/removed",
        "chat/turnStarted",
    ] {
        a.refused(&run, json!({ "type": odd, "resource": ONE, "session": "x" }))
            .await;
    }
}

#[tokio::test]
async fn a_run_that_cannot_begin_or_whose_turn_fails_says_why() {
    let house = house().await;
    let mut a = house.client("a").await;
    a.subscribe(ALL).await;
    let gone = lodge_ahp::uri::file(house.work().join("gone"));
    let chat = json!({ "type": "chat", "resource": "ahp-chat:/none", "label": "x" });
    for (changes, expected, has_begun) in [
        (json!({ "session": { "workingDirectories": [gone] } }), "gone", false),
        (json!({ "session": { "model": { "id": "nobody" } } }), "nobody", false),
        (
            json!({ "session": { "config": { "isolation": "worktree" } } }),
            "git",
            false,
        ),
        (
            json!({ "message": { "text": "x", "origin": { "kind": "automation" }, "attachments": [chat] } }),
            "ahp-chat:/none",
            false,
        ),
        (
            json!({ "message": { "text": "fail with quota", "origin": { "kind": "automation" } } }),
            "rehearsal",
            true,
        ),
    ] {
        a.automate(ONE, &with(manual("say hello"), changes.clone())).await;
        let run = a.run(ONE, "key").await;
        let failed = a.shown_run(ONE, "failed").await;
        assert_eq!(failed["resource"], run, "{changes}");
        let lifecycle = &failed["lifecycle"];
        let message = lifecycle["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{changes}: {lifecycle}");
        assert_eq!(lifecycle["startedAt"].is_string(), has_begun, "{lifecycle}");
        assert_eq!(failed["sessionCount"], i64::from(has_begun), "{failed}");
        a.accepted(ALL, remove(ONE)).await;
    }
    // What never began left no session behind.
    let list = a.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn past_runs_come_in_pages_for_everybody_and_the_oldest_are_forgotten() {
    let house = house().await;
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    a.subscribe(ALL).await;
    let mut mirror = Mirror::default();
    mirror.snapshot(&b.subscribe(ALL).await);
    // Nothing needs to be made for runs that fail at once.
    let gone = lodge_ahp::uri::file(house.work().join("gone"));
    a.accepted(
        ALL,
        create(
            ONE,
            &with(manual("x"), json!({ "session": { "workingDirectories": [gone] } })),
        ),
    )
    .await;
    let mut runs = Vec::new();
    for key in 0..53 {
        let run = a.run(ONE, &key.to_string()).await;
        a.shown(ONE, |entry| {
            entry["runs"][0]["resource"] == *run && entry["runs"][0]["lifecycle"]["status"] == "failed"
        })
        .await;
        runs.insert(0, run);
    }
    let names = |entry: &Value| {
        let runs = entry["runs"].as_array().unwrap().iter();
        runs.map(|run| run["resource"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let entry = a.entry(ONE).await;
    a.drain().await;
    b.drain().await;
    assert_eq!(names(&entry), runs[..20]);
    let first = entry["runsNextCursor"].clone();
    let page = |cursor: &Value| json!({ "channel": ALL, "automation": ONE, "cursor": cursor });
    a.request("fetchAutomationRuns", page(&first)).await.unwrap();
    let second = a.shown(ONE, |entry| entry["runsNextCursor"] != first).await;
    assert_eq!(names(&second), runs[..40]);
    // Who asks for what is shown already gets nothing new, and does no harm.
    b.request("fetchAutomationRuns", page(&first)).await.unwrap();
    b.request("fetchAutomationRuns", json!({ "channel": ALL, "automation": ONE }))
        .await
        .unwrap();
    let last = b.shown(ONE, |entry| entry["runs"].as_array().unwrap().len() > 40).await;
    assert_eq!(names(&last), runs[..50]);
    assert_eq!(last.get("runsNextCursor"), None);
    b.request("fetchAutomationRuns", json!({ "channel": ALL, "automation": ONE }))
        .await
        .unwrap();
    // A run that is forgotten is no channel any more; its key still stands for it.
    a.subscribe(&runs[49]).await;
    assert_eq!(a.code("subscribe", json!({ "channel": runs[50] })).await, -32001);
    assert_eq!(a.run(ONE, "0").await, runs[52]);
    // One more pushes the last one out, for those who see it too.
    let run = a.run(ONE, "more").await;
    a.shown(ONE, |entry| {
        entry["runs"][0]["resource"] == *run && entry["runs"][0]["lifecycle"]["status"] == "failed"
    })
    .await;
    assert_eq!(a.code("subscribe", json!({ "channel": runs[49] })).await, -32001);
    assert_eq!(a.entry(ONE).await["runs"].as_array().unwrap().len(), 50);
}
