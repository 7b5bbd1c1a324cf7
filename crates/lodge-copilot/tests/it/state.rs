//! Methods that look at a session or set something about it.

use serde_json::{Value, json};

use crate::client::{Client, House, types};

struct Table {
    client: Client,
    session: String,
}

impl Table {
    async fn new(config: Value) -> (House, Self) {
        let house = House::new();
        let mut client = house.client();
        let session = client.create(config).await;
        (house, Self { client, session })
    }

    async fn call(&mut self, method: &str, mut params: Value) -> Value {
        params["sessionId"] = json!(self.session);
        self.client.call(method, params).await
    }

    async fn check(&mut self, method: &str, params: Value, expected: Value) {
        let result = self.call(method, params.clone()).await;
        assert_eq!(result, expected, "{method} {params}");
    }

    async fn refused(&mut self, method: &str, mut params: Value, words: &str) {
        params["sessionId"] = json!(self.session);
        let (_, message) = self.client.fail(method, params.clone()).await;
        assert!(message.contains(words), "{method} {params}: {message}");
    }
}

#[tokio::test]
async fn kinds_of_sub_agents_that_are_off_stay_off_after_a_restart() {
    let (house, mut table) = Table::new(json!({})).await;
    let agents = std::path::Path::new(&table.client.work).join(".github/agents");
    std::fs::create_dir_all(&agents).unwrap();
    std::fs::write(
        agents.join("knitter.md"),
        "---\nname: knitter\ndescription: knits\n---\nYou knit.\n",
    )
    .unwrap();
    let off = |names: &[&str]| json!({"subagents": {"disabledSubagents": names}});
    let told = |names: &[&str]| json!({"subagents": {"agents": {}, "disabledSubagents": names}});
    let (update, get) = (
        "session.tools.updateSubagentSettings",
        "session.tools.getSubagentSettings",
    );
    table.check(get, json!({}), json!({"subagents": null})).await;
    table
        .check(update, off(&["knitter", "explore", "later"]), json!({}))
        .await;
    table.check(update, off(&["knitter", "explore"]), json!({})).await;
    table.check(get, json!({}), told(&["explore", "knitter"])).await;
    let Table { client, session } = table;
    drop(client);
    let house = house.restarted().await;
    let mut client = house.client();
    let resume = json!({"sessionId": session, "enableConfigDiscovery": true});
    client.call("session.resume", resume).await;
    let mut table = Table { client, session };
    table.check(get, json!({}), told(&["explore", "knitter"])).await;
    let started = |kind: &str| {
        let call = json!({"agent_type": kind, "name": "a", "description": "d", "prompt": "say hi", "mode": "sync"});
        format!("call task {call}")
    };
    for (kind, runs) in [("explore", false), ("task", true)] {
        let events = table.client.say(&table.session, &started(kind)).await;
        assert_eq!(types(&events).contains(&"subagent.started"), runs, "{kind}: {events:?}");
    }
    table.check(update, json!({"subagents": null}), json!({})).await;
    table.check(get, json!({}), json!({"subagents": null})).await;
}

#[tokio::test]
async fn mode_plan_name_and_model_are_set_and_read_back() {
    let (_house, mut table) = Table::new(json!({})).await;
    let none = || json!({});
    table.check("session.mode.get", none(), json!("interactive")).await;
    for mode in ["plan", "autopilot", "interactive"] {
        assert!(table.call("session.mode.set", json!({"mode": mode})).await.is_object());
        table.check("session.mode.get", none(), json!(mode)).await;
    }
    table
        .refused("session.mode.set", json!({"mode": "dance"}), "Unknown mode")
        .await;

    assert_eq!(table.call("session.plan.read", none()).await["exists"], false);
    table
        .check("session.plan.update", json!({"content": "# Plan"}), Value::Null)
        .await;
    assert_eq!(table.call("session.plan.read", none()).await["content"], "# Plan");
    table.check("session.plan.delete", none(), Value::Null).await;
    assert_eq!(table.call("session.plan.read", none()).await["content"], Value::Null);

    table.check("session.name.get", none(), json!({"name": null})).await;
    table
        .check(
            "session.name.setAuto",
            json!({"summary": "  auto  "}),
            json!({"applied": true}),
        )
        .await;
    table.check("session.name.get", none(), json!({"name": "auto"})).await;
    table
        .check("session.name.set", json!({"name": "mine"}), Value::Null)
        .await;
    table
        .check(
            "session.name.setAuto",
            json!({"summary": "auto"}),
            json!({"applied": false}),
        )
        .await;
    table.check("session.name.get", none(), json!({"name": "mine"})).await;
    table
        .refused("session.name.set", json!({"name": " \t\n"}), "cannot be empty")
        .await;
    table
        .refused(
            "session.name.set",
            json!({"name": "ü".repeat(501)}),
            "1 to 500 characters",
        )
        .await;

    table
        .check("session.model.getCurrent", none(), json!({"modelId": "rehearsal"}))
        .await;
    let switched = json!({"modelId": "gpt-5.4", "deferred": false});
    table
        .check(
            "session.model.switchTo",
            json!({"modelId": "gpt-5.4", "reasoningEffort": "high"}),
            switched,
        )
        .await;
    let current = json!({"modelId": "gpt-5.4", "reasoningEffort": "high"});
    table.check("session.model.getCurrent", none(), current).await;
    table
        .check(
            "session.model.setReasoningEffort",
            json!({"reasoningEffort": "low"}),
            json!({"reasoningEffort": "low"}),
        )
        .await;
}

#[tokio::test]
async fn permissions_are_waved_through_only_while_that_is_wanted() {
    let (_house, mut table) = Table::new(json!({"requestPermission": true})).await;
    table
        .check("session.permissions.getMode", json!({}), json!({"mode": "manual"}))
        .await;
    let all = json!({"success": true, "mode": "allow-all"});
    table
        .check("session.permissions.setMode", json!({"mode": "allow-all"}), all)
        .await;
    let session = table.session.clone();
    let prompt = "call bash {\"command\":\"echo hi\",\"description\":\"x\"} then say done";
    let events = table.client.say(&session, prompt).await;
    assert!(!events.iter().any(|event| event["type"] == "permission.requested"));
    assert!(
        events
            .iter()
            .any(|event| event["type"] == "tool.execution_complete" && event["data"]["success"] == true)
    );
    table
        .check(
            "session.permissions.setApproveAll",
            json!({"enabled": false}),
            json!({"success": true}),
        )
        .await;
    table
        .check("session.permissions.getMode", json!({}), json!({"mode": "manual"}))
        .await;
    table
        .refused(
            "session.permissions.setMode",
            json!({"mode": "assisted"}),
            "not available",
        )
        .await;

    let within = "session.permissions.paths.isPathWithinAllowedDirectories";
    table
        .check(within, json!({"path": "a/b"}), json!({"allowed": true}))
        .await;
    table
        .check(within, json!({"path": "../x"}), json!({"allowed": false}))
        .await;
    table
        .check(
            "session.permissions.paths.add",
            json!({"path": "/opt/extra"}),
            json!({"success": true}),
        )
        .await;
    table
        .check(within, json!({"path": "/opt/extra/x"}), json!({"allowed": true}))
        .await;
    let workspace = "session.permissions.paths.isPathWithinWorkspace";
    table
        .check(workspace, json!({"path": "/opt/extra/x"}), json!({"allowed": false}))
        .await;
}

#[tokio::test]
async fn workspace_files_are_kept_and_never_outside() {
    let (_house, mut table) = Table::new(json!({})).await;
    table
        .check("session.workspaces.listFiles", json!({}), json!({"files": []}))
        .await;
    for (path, content, operation) in [
        ("a.txt", "v1", "create"),
        ("a.txt", "v2", "update"),
        ("deep/er/b.txt", "x", "create"),
    ] {
        table
            .check(
                "session.workspaces.createFile",
                json!({"path": path, "content": content}),
                Value::Null,
            )
            .await;
        let changed = table.client.event("session.workspace_file_changed").await;
        assert_eq!(changed["data"], json!({"path": path, "operation": operation}));
        table
            .check(
                "session.workspaces.readFile",
                json!({"path": path}),
                json!({"content": content}),
            )
            .await;
    }
    table
        .check(
            "session.workspaces.listFiles",
            json!({}),
            json!({"files": ["a.txt", "deep/er/b.txt"]}),
        )
        .await;
    for path in ["../escaped.txt", "/etc/passwd", "a/../../b"] {
        let words = "within the workspace files directory";
        table
            .refused(
                "session.workspaces.createFile",
                json!({"path": path, "content": ""}),
                words,
            )
            .await;
        table
            .refused("session.workspaces.readFile", json!({"path": path}), words)
            .await;
    }
    table
        .refused("session.workspaces.readFile", json!({"path": "nope"}), "No such file")
        .await;
}

#[tokio::test]
async fn logged_messages_are_events_and_only_lasting_ones_are_kept() {
    let (_house, mut table) = Table::new(json!({})).await;
    for (params, kind, key) in [
        (json!({"message": "i"}), "session.info", "infoType"),
        (
            json!({"message": "w", "level": "warning"}),
            "session.warning",
            "warningType",
        ),
        (
            json!({"message": "e", "level": "error", "type": "mine"}),
            "session.error",
            "errorType",
        ),
        (json!({"message": "x", "ephemeral": true}), "session.info", "infoType"),
    ] {
        let logged = table.call("session.log", params.clone()).await;
        let event = table.client.event(kind).await;
        assert_eq!(event["id"], logged["eventId"]);
        assert_eq!(event["data"]["message"], params["message"]);
        assert_eq!(
            event["data"][key],
            params.get("type").cloned().unwrap_or(json!("notification"))
        );
        assert_eq!(event.get("ephemeral"), params.get("ephemeral"));
    }
    let history = table.call("session.getMessages", json!({})).await;
    let messages: Vec<&Value> = history["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["data"].get("message"))
        .collect();
    assert_eq!(messages, ["i", "w", "e"]);
}

#[tokio::test]
async fn events_are_read_page_by_page_without_gap_or_repetition() {
    let (_house, mut table) = Table::new(json!({})).await;
    for n in 0..5 {
        table.call("session.log", json!({"message": n.to_string()})).await;
    }
    let (mut cursor, mut seen) = (None, Vec::new());
    loop {
        let mut params = json!({"max": 2});
        if let Some(cursor) = &cursor {
            params["cursor"] = json!(cursor);
        }
        let page = table.call("session.eventLog.read", params).await;
        assert_eq!(page["cursorStatus"], "ok");
        seen.extend(
            page["events"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|event| event["data"].get("message").cloned()),
        );
        cursor = Some(page["cursor"].as_str().unwrap().to_owned());
        if page["hasMore"] == false {
            break;
        }
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4"]);
    // From there on live ones, ephemeral ones too, and a read can wait for them.
    table
        .call("session.log", json!({"message": "5", "ephemeral": true}))
        .await;
    let page = table
        .call("session.eventLog.read", json!({"cursor": cursor, "waitMs": 5000}))
        .await;
    assert_eq!(page["events"][0]["data"]["message"], "5");
    let tail = table.call("session.eventLog.tail", json!({})).await["cursor"].clone();
    assert_eq!(page["cursor"], tail);
    let read = json!({"sessionId": table.session, "cursor": tail, "waitMs": 20000, "types": ["session.info"]});
    let waiting = table.client.ask("session.eventLog.read", read).await;
    table.call("session.log", json!({"message": "6"})).await;
    assert_eq!(
        table.client.answer(waiting).await["result"]["events"][0]["data"]["message"],
        "6"
    );
    let expired = table.call("session.eventLog.read", json!({"cursor": "other|1"})).await;
    assert_eq!(expired["cursorStatus"], "expired");
    let back = table
        .call("session.eventLog.read", json!({"direction": "backward", "max": 2}))
        .await;
    assert_eq!(back["events"][1]["data"]["message"], "6");
    assert_eq!(back["hasMore"], true);
}

#[tokio::test]
async fn the_queue_is_looked_at_and_changed_while_a_turn_runs() {
    let (_house, mut table) = Table::new(json!({"streaming": true})).await;
    let session = table.session.clone();
    let send = async |table: &mut Table, prompt: &str| {
        let sent = table
            .client
            .call("session.send", json!({"sessionId": session, "prompt": prompt}))
            .await;
        sent["messageId"].as_str().unwrap().to_owned()
    };
    send(&mut table, "wait 60000 ms then say late").await;
    let a = send(&mut table, "say a").await;
    let b = send(&mut table, "say b").await;
    let c = send(&mut table, "say c").await;
    let shown = async |table: &mut Table| -> Vec<String> {
        let items = table.call("session.queue.pendingItems", json!({})).await;
        items["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(shown(&mut table).await, [a.clone(), b.clone(), c.clone()]);
    table
        .check(
            "session.queue.moveItem",
            json!({"id": c, "toPosition": 0}),
            json!({"changed": true}),
        )
        .await;
    assert_eq!(shown(&mut table).await, [c.clone(), a.clone(), b.clone()]);
    table
        .check("session.queue.removeAt", json!({"id": a}), json!({"removed": true}))
        .await;
    table
        .check("session.queue.removeMostRecent", json!({}), json!({"removed": true}))
        .await;
    assert_eq!(shown(&mut table).await, [c]);
    table.check("session.queue.clear", json!({}), Value::Null).await;
    table
        .check("session.queue.hasPending", json!({}), json!({"hasPending": false}))
        .await;
    table
        .check("session.queue.removeMostRecent", json!({}), json!({"removed": false}))
        .await;
    table.check("session.abort", json!({}), json!({"success": true})).await;
}

#[tokio::test]
async fn forms_are_shown_by_a_client_that_can() {
    let (_house, mut table) = Table::new(json!({"requestElicitation": true})).await;
    let form = json!({"sessionId": table.session, "message": "Name?", "requestedSchema":
        {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}});
    let waiting = table.client.ask("session.ui.elicitation", form).await;
    let asked = table.client.event("elicitation.requested").await;
    assert_eq!(asked["data"]["requestedSchema"]["properties"]["name"]["type"], "string");
    let answer =
        json!({"requestId": asked["data"]["requestId"], "result": {"action": "accept", "content": {"name": "x"}}});
    table
        .check("session.ui.handlePendingElicitation", answer, json!({"success": true}))
        .await;
    let expected = json!({"action": "accept", "content": {"name": "x"}});
    assert_eq!(table.client.answer(waiting).await["result"], expected);
}

#[tokio::test]
async fn prompts_are_sent_at_set_times_until_they_are_cancelled() {
    let (_house, mut table) = Table::new(json!({})).await;
    table
        .check("session.schedule.list", json!({}), json!({"entries": []}))
        .await;
    table.check("session.schedule.stop", json!({"id": 9}), json!({})).await;
    let refused = table
        .call("session.schedule.add", json!({"interval": "soon", "prompt": "x"}))
        .await;
    assert!(refused["error"].as_str().unwrap().contains("Invalid interval"));
    let later = table
        .call("session.schedule.add", json!({"interval": "1h", "prompt": "say later"}))
        .await;
    assert_eq!(
        (&later["entry"]["id"], &later["entry"]["intervalMs"]),
        (&json!(1), &json!(3_600_000))
    );
    let at = json!({"at": 1, "prompt": "say overdue"});
    assert_eq!(table.call("session.schedule.addAt", at).await["entry"]["id"], 2);
    let events = table.client.events_until("session.idle").await;
    assert!(events.iter().any(|event| event["data"]["content"] == "overdue"));
    let stopped = table.call("session.schedule.stop", json!({"id": 1})).await;
    assert_eq!(stopped["entry"]["prompt"], "say later");
    table
        .check("session.schedule.list", json!({}), json!({"entries": []}))
        .await;
}

#[tokio::test]
async fn sessions_are_opened_by_what_is_known_of_them() {
    let house = House::new();
    let mut client = house.client();
    let open = "sessions.open";
    assert_eq!(
        client.call(open, json!({"kind": "resumeLast"})).await,
        json!({"status": "not_found"})
    );
    let made = client
        .call(open, json!({"kind": "create", "options": {"sessionId": "mine"}}))
        .await;
    assert_eq!(
        (&made["status"], &made["sessionId"]),
        (&json!("created"), &json!("mine"))
    );
    client.say("mine", "say hi").await;
    let mut other = house.client();
    assert_eq!(
        other.call(open, json!({"kind": "resumeLast"})).await["sessionId"],
        "mine"
    );
    assert_eq!(
        other.call(open, json!({"kind": "attach", "sessionId": "mine"})).await["status"],
        "resumed"
    );
    assert!(
        other
            .fail(open, json!({"kind": "resume", "sessionId": "no"}))
            .await
            .1
            .contains("Session not found")
    );
    assert!(
        other
            .fail(open, json!({"kind": "cloud"}))
            .await
            .1
            .contains("not available")
    );
}

#[tokio::test]
async fn events_of_lodges_own_are_sent_to_those_who_name_them_and_approve_all_does_not_come_back() {
    let house = House::new();
    let mut client = house.client();
    let session = client.create(json!({"requestPermission": true})).await;
    let params = |more: Value| {
        let mut params = json!({"sessionId": session});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        params
    };
    let own = |events: &[Value]| -> Vec<String> {
        let kinds = events.iter().map(|event| event["type"].as_str().unwrap().to_owned());
        kinds.filter(|kind| kind.starts_with("lodge.")).collect()
    };
    assert_eq!(own(&client.say(&session, "say one").await), [""; 0]);
    let wish = params(json!({"eventType": "lodge.usage"}));
    let handle = client.call("session.eventLog.registerInterest", wish).await["handle"].clone();
    assert_eq!(own(&client.say(&session, "say two").await), ["lodge.usage"]);
    let release = params(json!({"handle": handle}));
    client.call("session.eventLog.releaseInterest", release).await;
    assert_eq!(own(&client.say(&session, "say three").await), [""; 0]);

    // In what was recorded it is the same.
    for (method, more, expected) in [
        ("session.getMessages", json!({}), 0),
        ("session.eventLog.read", json!({"max": 1000}), 0),
        ("session.eventLog.read", json!({"max": 1000, "types": "*"}), 0),
        (
            "session.eventLog.read",
            json!({"max": 1000, "types": ["lodge.usage"]}),
            3,
        ),
        (
            "session.eventLog.read",
            json!({"max": 1000, "direction": "backward"}),
            0,
        ),
        ("sessions.readPersistedEvents", json!({"max": 1000}), 0),
        (
            "sessions.readPersistedEvents",
            json!({"max": 1000, "direction": "backward"}),
            0,
        ),
    ] {
        let read = client.call(method, params(more.clone())).await;
        let events = read["events"].as_array().unwrap();
        assert_eq!(own(events).len(), expected, "{method} {more}");
        assert!(!events.is_empty(), "{method} {more}");
    }

    // Approving everything is told in the SDK's words, today's to who says `connect`, and ends with the app that wanted it.
    client.call("connect", json!({})).await;
    client
        .call("session.permissions.setApproveAll", params(json!({"enabled": true})))
        .await;
    let changed = client.event("session.permissions_changed").await;
    assert_eq!(changed["data"], json!({"previousMode": "manual", "mode": "allow-all"}));
    drop(client);
    let house = house.restarted().await;
    let opened = house.host.open_session(&session).await.unwrap();
    assert_eq!(
        opened.settings().approval,
        lodge_host::Approval::ApproveAll,
        "the session keeps it"
    );
    drop(opened);
    house.host.close(&session).await;
    let mut client = house.client();
    client
        .call("session.resume", params(json!({"requestPermission": true})))
        .await;
    let mode = client.call("session.permissions.getMode", params(json!({}))).await;
    assert_eq!(mode, json!({"mode": "manual"}));
}
