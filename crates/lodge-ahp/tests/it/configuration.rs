//! What can be set about a session, worktrees, and what completes a message.

use std::path::Path;

use lodge_ahp::Limits;
use lodge_host::{Approval, Change, ManagedPolicy, Mode, Supply};
use serde_json::{Value, json};

use crate::{
    kit::{Client, House, ROOT, at_home, house, house_of_two_models, house_of_two_models_with, turn_started, uuid},
    mirror::Mirror,
};

fn git(directory: &Path, args: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A repository in the directory that sessions work in.
fn repository(house: &House) {
    let work = house.work();
    git(&work, &["init", "--quiet", "-b", "main"]);
    git(&work, &["config", "user.name", "T"]);
    git(&work, &["config", "user.email", "t@example.com"]);
    std::fs::write(work.join("file"), "one").unwrap();
    git(&work, &["add", "."]);
    git(&work, &["commit", "--quiet", "-m", "one"]);
    git(&work, &["branch", "feature/config"]);
}

async fn resolve(client: &mut Client, config: Value) -> Value {
    let params = json!({ "channel": ROOT, "provider": "lodge", "config": config });
    client.request("resolveSessionConfig", params).await.unwrap()
}

#[tokio::test]
async fn the_schema_follows_the_values() {
    let house = house().await;
    let mut seed = house.client_of("seed", "0.1.0").await;
    let mut a = house.client("a").await;
    let names = |resolved: &Value| -> Vec<String> {
        resolved["schema"]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(
        names(&resolve(&mut a, json!({})).await),
        ["model", "thinkingLevel", "mode", "autoApprove"]
    );
    repository(&house);
    for client in [&mut a, &mut seed] {
        let folder = resolve(
            client,
            json!({ "branch": "feature/config", "mode": "plan", "autoApprove": "nonsense" }),
        )
        .await;
        let all = ["model", "thinkingLevel", "mode", "autoApprove", "isolation", "branch"];
        assert_eq!(names(&folder), all);
        assert_eq!(
            folder["values"],
            json!({ "model": "rehearsal", "thinkingLevel": "default", "mode": "plan", "autoApprove": "default",
                "isolation": "folder", "branch": "main" })
        );
        let branch = &folder["schema"]["properties"]["branch"];
        assert_eq!(
            (&branch["readOnly"], &branch["enumDynamic"]),
            (&json!(true), &json!(false))
        );
        let worktree = resolve(client, json!({ "isolation": "worktree", "branch": "feature/config" })).await;
        assert_eq!(worktree["values"]["branch"], "feature/config");
        let branch = &worktree["schema"]["properties"]["branch"];
        assert_eq!(
            (&branch["readOnly"], &branch["enumDynamic"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(branch["enum"], json!(["feature/config", "main"]));
        let params = json!({
            "channel": ROOT, "property": "branch", "query": "feat", "config": { "isolation": "worktree" },
        });
        let found = client.request("sessionConfigCompletions", params).await.unwrap();
        assert_eq!(
            found,
            json!({ "items": [{ "value": "feature/config", "label": "feature/config" }] })
        );
    }
    // Every schema is what the official types read.
    let resolved = resolve(&mut a, json!({ "isolation": "worktree" })).await;
    serde_json::from_value::<ahp_types::commands::ResolveSessionConfigResult>(resolved).unwrap();
}

/// How much the model of a session reasons.
async fn effort(house: &House, session: &str) -> Option<String> {
    let id = session.rsplit('/').next().unwrap();
    house.host.open_session(id).await.unwrap().settings().reasoning_effort
}

/// What a client says to choose a model and how much it reasons.
fn chosen(model: &str, effort: &str) -> Value {
    json!({ "id": model, "config": { "thinkingLevel": effort } })
}

#[tokio::test]
async fn how_much_a_model_reasons_is_chosen_with_it_in_every_dialect_and_kept() {
    let mut house = house().await;
    let mut a = house.client("a").await;
    let mut seed = house.client_of("seed", "0.1.0").await;
    let root = a.subscribe(ROOT).await["state"].clone();
    let model = &root["agents"][0]["models"][0];
    let efforts = &model["configSchema"]["properties"]["thinkingLevel"];
    let known = (&efforts["enum"], &efforts["enumLabels"][1], &efforts["default"]);
    let expected = json!(["default", "low", "medium", "high"]);
    assert_eq!(known, (&expected, &json!("Low"), &json!("default")), "{model}");
    let session = format!("lodge:/{}", uuid(1));
    let create = |effort: &str| json!({ "channel": session, "model": chosen("rehearsal", effort) });
    let refused = a.request("createSession", create("most")).await.unwrap_err();
    assert!(refused.to_string().contains("no thinking level"), "{refused}");
    a.request("createSession", create("low")).await.unwrap();
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(state["config"]["values"]["thinkingLevel"], "low", "{state}");
    // Before its first message, by any client.
    let change = |effort: &str| json!({ "type": "session/configChanged", "config": { "thinkingLevel": effort } });
    a.accepted(&session, change("medium")).await;
    let refused = a.refused(&session, change("most")).await;
    assert!(refused.contains("is not a value"), "{refused}");
    let seen = seed.subscribe(&session).await;
    assert_eq!(
        seen["state"]["summary"]["model"],
        chosen("rehearsal", "medium"),
        "{seen}"
    );
    let chat = state["defaultChat"].as_str().unwrap().to_owned();
    a.subscribe(&chat).await;
    a.turn(&chat, "t1", "say hello").await;
    assert_eq!(effort(&house, &session).await.as_deref(), Some("medium"));
    // With a message, as VS Code does.
    let mut first = turn_started("t2", "say hello");
    first["message"]["model"] = chosen("rehearsal", "high");
    a.accepted(&chat, first).await;
    a.ends(&chat, "t2").await;
    assert_eq!(effort(&house, &session).await.as_deref(), Some("high"));
    // It may be a level that the model had once.
    let mut remembered = turn_started("t3", "say hello");
    remembered["message"]["model"] = chosen("rehearsal", "most");
    a.accepted(&chat, remembered).await;
    let ended = a.ends(&chat, "t3").await;
    assert_eq!(ended["type"], "chat/turnComplete", "{ended}");
    assert_eq!(effort(&house, &session).await, None);
    let changed = json!({ "type": "session/modelChanged", "session": session, "model": chosen("rehearsal", "low") });
    let told = seed.dispatch_seed(changed).await;
    let told = seed.verdict(told).await;
    assert_eq!(told["action"]["model"], chosen("rehearsal", "low"), "{told}");
    assert_eq!(effort(&house, &session).await.as_deref(), Some("low"));
    drop((a, seed));
    house.restart().await;
    let mut b = house.client("b").await;
    let state = b.subscribe(&session).await["state"].clone();
    assert_eq!(state["config"]["values"]["thinkingLevel"], "low", "{state}");
    b.accepted(&session, change("default")).await;
    drop(b);
    house.restart().await;
    let mut c = house.client("c").await;
    let state = c.subscribe(&session).await["state"].clone();
    assert_eq!(state["config"]["values"]["thinkingLevel"], "default", "{state}");
}

#[tokio::test]
async fn a_thinking_level_comes_and_goes_with_its_model() {
    let house = house_of_two_models_with(&["most"]).await;
    let change = |config: Value| json!({ "type": "session/configChanged", "config": config });
    // An editor's is a draft.
    for (n, mut client) in [(1, house.client("a").await), (2, house.editor("b").await)] {
        let (session, chat) = client.session(&uuid(n)).await;
        for round in ["before the first message", "after it"] {
            for (config, expected) in [
                (json!({ "thinkingLevel": "low" }), "low"),
                (json!({ "thinkingLevel": "most", "model": "distant" }), "most"),
                (json!({ "model": "rehearsal" }), "default"),
                (json!({ "thinkingLevel": "low" }), "low"),
                (json!({ "model": "distant" }), "default"),
                (json!({ "model": "rehearsal" }), "default"),
            ] {
                client.accepted(&session, change(config.clone())).await;
                let state = client.subscribe(&session).await["state"].clone();
                let level = &state["config"]["values"]["thinkingLevel"];
                assert_eq!(level, expected, "{n}, {round}, {config}");
                if house.host.live(&uuid(n)).is_some() {
                    let expected = Some(expected).filter(|level| *level != "default");
                    assert_eq!(effort(&house, &session).await.as_deref(), expected, "{config}");
                }
            }
            client
                .accepted(&session, change(json!({ "thinkingLevel": "low" })))
                .await;
            let both = change(json!({ "thinkingLevel": "low", "model": "distant" }));
            let refused = client.refused(&session, both).await;
            assert!(refused.contains("is not a value"), "{refused}");
            if round.starts_with("before") {
                client.turn(&chat, "t1", "say hello").await;
            }
        }
    }
}

#[tokio::test]
async fn what_one_chat_of_a_session_refuses_changes_in_none() {
    let (house, mut a, session, chat) = at_home().await;
    a.turn(&chat, "t1", "say hello").await;
    let mut agents = vec![house.host.open_session(&uuid(1)).await.unwrap()];
    for n in 0..5 {
        let peer = format!("ahp-chat:/peer{n}");
        a.request("createChat", json!({ "channel": session, "chat": peer }))
            .await
            .unwrap();
        a.subscribe(&peer).await;
        a.turn(&peer, "t1", "say hello").await;
        let id = house.host.chat_at(&peer).await.unwrap().unwrap().id;
        agents.push(house.host.open_session(&id).await.unwrap());
    }
    let policy = ManagedPolicy {
        rules: Vec::new(),
        no_bypass: true,
        text: json!({}),
    };
    agents[3].supply(Supply::Managed(Some(policy))).await.unwrap();
    let all = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    let refusal = a.refused(&session, all).await;
    assert!(refusal.contains("polic"), "{refusal}");
    for agent in &agents {
        assert_eq!(agent.settings().approval, Approval::AutoSafe);
    }
}

#[tokio::test]
async fn a_session_in_a_worktree_works_there_and_its_work_is_never_lost() {
    let mut house = house().await;
    let mut a = house.editor("a").await;
    let create =
        |number: u32, config: Value| json!({ "channel": format!("lodge:/{}", uuid(number)), "config": config });
    let worktree = json!({ "isolation": "worktree", "branch": "feature/config" });
    assert_eq!(a.code("createSession", create(1, worktree.clone())).await, -32602);
    repository(&house);
    assert_eq!(
        a.code(
            "createSession",
            create(1, json!({ "isolation": "worktree", "branch": "none" }))
        )
        .await,
        -32602
    );
    assert_eq!(
        a.code("createSession", create(1, json!({ "isolation": "cage" }))).await,
        -32602
    );
    a.request("createSession", create(1, worktree)).await.unwrap();
    let session = format!("lodge:/{}", uuid(1));
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(state["config"]["values"]["branch"], "feature/config");
    assert_eq!(state["workingDirectories"], json!([lodge_ahp::uri::file(house.work())]));
    let chat = state["defaultChat"].as_str().unwrap().to_owned();
    a.subscribe(&chat).await;
    a.turn(&chat, "t1", "say hello").await;
    let moved = a.action("session/workingDirectoryReplaced").await;
    let place = lodge_ahp::uri::path(moved["action"]["replacement"].as_str().unwrap()).unwrap();
    assert_eq!(std::fs::read_to_string(place.join("file")).unwrap(), "one");
    assert!(git(&place, &["branch", "--show-current"]).starts_with("lodge/"));
    // It stays where it works.
    let change = |config: Value| json!({ "type": "session/configChanged", "config": config });
    assert!(
        a.refused(&session, change(json!({ "isolation": "folder" })))
            .await
            .contains("cannot change where it works")
    );
    // Clients reach what the session works on.
    let write =
        json!({ "channel": ROOT, "uri": lodge_ahp::uri::file(place.join("new")), "data": "work", "encoding": "utf-8" });
    a.request("resourceWrite", write).await.unwrap();
    house.restart().await;
    let mut a = house.client("a").await;
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(state["config"]["values"]["isolation"], "worktree");
    assert_eq!(state["config"]["values"]["branch"], "feature/config");
    assert_eq!(state["workingDirectories"], json!([lodge_ahp::uri::file(&place)]));
    // Removed with work in it, the work stays; removed clean, nothing does.
    a.request("disposeSession", json!({ "channel": session }))
        .await
        .unwrap();
    // An editor's draft may still choose.
    let mut e = house.editor("e").await;
    let (session, chat) = e.session(&uuid(2)).await;
    assert!(
        e.refused(&session, change(json!({ "branch": "feature/config" })))
            .await
            .contains("cannot be changed")
    );
    e.accepted(
        &session,
        change(json!({ "isolation": "worktree", "branch": "feature/config" })),
    )
    .await;
    e.turn(&chat, "t1", "say hello").await;
    let moved = e.action("session/workingDirectoryReplaced").await;
    let clean = lodge_ahp::uri::path(moved["action"]["replacement"].as_str().unwrap()).unwrap();
    assert!(clean.join("file").exists() && clean != place);
    a.request("disposeSession", json!({ "channel": session }))
        .await
        .unwrap();
    let mut tries = 0;
    while clean.exists() {
        tries += 1;
        assert!(tries < 1000, "the clean worktree is still there");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(std::fs::read_to_string(place.join("new")).unwrap(), "work");
}

#[tokio::test]
async fn a_work_tree_that_cannot_be_made_fails_the_turn_and_is_made_for_the_next_one() {
    let mut house = house().await;
    repository(&house);
    let mut a = house.editor("a").await;
    let worktree = json!({ "isolation": "worktree", "branch": "feature/config" });
    let session = format!("lodge:/{}", uuid(1));
    let create = json!({ "channel": session, "config": worktree });
    a.request("createSession", create).await.unwrap();
    let chat = a.subscribe(&session).await["state"]["defaultChat"]
        .as_str()
        .unwrap()
        .to_owned();
    a.subscribe(&chat).await;
    git(&house.work(), &["branch", "-D", "feature/config"]);
    // The message is accepted before the work tree is made.
    a.accepted(&chat, turn_started("t1", "say one")).await;
    let failed = a.ends(&chat, "t1").await;
    assert!(
        failed["part"]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("feature/config"),
        "{failed}"
    );
    house.restart().await;
    let mut a = house.client("a").await;
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(state["config"]["values"]["isolation"], "worktree");
    assert_eq!(state["workingDirectories"], json!([lodge_ahp::uri::file(house.work())]));
    git(&house.work(), &["branch", "feature/config"]);
    a.subscribe(&chat).await;
    let state = a.turn(&chat, "t2", "say two").await;
    let texts: Vec<&Value> = state["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["message"]["text"])
        .collect();
    assert_eq!(texts, ["say one", "say two"]);
    let moved = a.action("session/workingDirectoryReplaced").await;
    assert!(
        moved["action"]["replacement"].as_str().unwrap().contains("worktrees"),
        "{moved}"
    );
}

#[tokio::test]
async fn settings_change_while_a_session_runs() {
    let house = house().await;
    let (mut a, mut b) = (house.client("a").await, house.client_of("b", "0.1.0").await);
    let (session, chat) = a.session(&uuid(1)).await;
    a.turn(&chat, "t1", "say hello").await;
    b.request("subscribe", json!({ "resource": session })).await.unwrap();
    let config = json!({ "mode": "plan", "autoApprove": "autoApprove", "model": "rehearsal" });
    a.accepted(&session, json!({ "type": "session/configChanged", "config": config }))
        .await;
    let told = b.action("session/configChanged").await;
    assert_eq!(told["action"]["config"]["mode"], "plan");
    for wrong in [
        json!({ "mode": "x" }),
        json!({ "model": "none" }),
        json!({ "other": 1 }),
        json!({ "isolation": "worktree" }),
    ] {
        a.refused(&session, json!({ "type": "session/configChanged", "config": wrong }))
            .await;
    }
    let state = a.subscribe(&session).await["state"].clone();
    let mut expected = config;
    expected["thinkingLevel"] = json!("default");
    expected["lodge.approvals"] = json!("all");
    assert_eq!(state["config"]["values"], expected);
}

#[tokio::test]
async fn files_complete_what_is_typed() {
    let house = house().await;
    for name in [
        "src/main.rs",
        "src/the main.txt",
        "src/ünïcode😀.md",
        "out/main.js",
        "docs/maintain.md",
    ] {
        let path = house.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    std::fs::write(house.work().join(".gitignore"), "out/\n").unwrap();
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let mut complete = async |channel: &str, text: &str| {
        let params = json!({
            "channel": channel, "kind": "userMessage", "text": text, "offset": text.encode_utf16().count(),
        });
        a.request("completions", params).await.unwrap()["items"]
            .as_array()
            .unwrap()
            .clone()
    };
    let texts = |items: &[Value]| -> Vec<String> {
        items
            .iter()
            .map(|item| item["insertText"].as_str().unwrap().to_owned())
            .collect()
    };
    let items = complete(&chat, "😀 see @mai").await;
    assert_eq!(texts(&items), ["@main.rs", "@maintain.md", "@the main.txt"]);
    // The smiling face has two units.
    assert_eq!(
        (&items[0]["rangeStart"], &items[0]["rangeEnd"]),
        (&json!(7), &json!(11))
    );
    assert_eq!(
        items[0]["attachment"]["uri"],
        lodge_ahp::uri::file(house.work().join("src/main.rs"))
    );
    assert_eq!(texts(&complete(&session, "@sr").await)[0], "@src/");
    assert_eq!(texts(&complete(&chat, "#ÜNÏ").await), ["#ünïcode😀.md"]);
    assert_eq!(complete(&chat, "@nothing-like-it").await, Vec::<Value>::new());
    assert_eq!(complete(&chat, "no mention").await, Vec::<Value>::new());
    serde_json::from_value::<ahp_types::commands::CompletionsResult>(json!({ "items": items })).unwrap();
}

#[tokio::test]
async fn names_that_files_define_complete_what_is_typed() {
    let house = house().await;
    for (name, text) in [
        (
            "src/loom.rs",
            "// fn weaver_in_a_comment() {}\npub struct Wool;\n    pub async fn weave_carpet() {}\n",
        ),
        ("tools/spin.py", "class Weaver:\n    pass\n"),
        ("out/hidden.rs", "fn weave_hidden() {}\n"),
        ("notes.txt", "fn weave_nothing() {}\n"),
    ] {
        let path = house.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::fs::write(house.work().join(".gitignore"), "out/\n").unwrap();
    let secret = house.dir.path().join("secret.rs");
    std::fs::write(&secret, "fn weave_secret() {}\n").unwrap();
    std::os::unix::fs::symlink(&secret, house.work().join("link.rs")).unwrap();
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    let text = "😀 #weav";
    let params = json!({ "channel": chat, "kind": "userMessage", "text": text, "offset": 8 });
    let items = a.request("completions", params).await.unwrap()["items"].clone();
    let labels: Vec<&str> = items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["attachment"]["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["Weaver", "weave_carpet"], "{items:#}");
    let carpet = &items[1];
    assert_eq!((&carpet["rangeStart"], &carpet["rangeEnd"]), (&json!(3), &json!(8)));
    assert_eq!(carpet["attachment"]["displayKind"], "symbol");
    assert_eq!(
        carpet["attachment"]["selection"]["range"],
        json!({ "start": { "line": 2, "character": 17 }, "end": { "line": 2, "character": 29 } })
    );
    serde_json::from_value::<ahp_types::commands::CompletionsResult>(json!({ "items": items })).unwrap();
}

#[tokio::test]
async fn an_approval_mode_is_seen_at_once_whoever_sets_it_and_after_a_crash() {
    let mut house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.turn(&chat, "t1", "say hello").await;
    let set = |value: &str| json!({ "type": "session/configChanged", "config": { "autoApprove": value } });
    let shown = async |a: &mut Client| a.subscribe(&session).await["state"]["config"]["values"]["autoApprove"].clone();
    // By whom, what they set, and what AHP clients see of it.
    let changes = [
        (false, Approval::ApproveAll, "autoApprove"),
        (false, Approval::Ask, "default"),
        (true, Approval::ApproveAll, "autoApprove"),
        // What an AHP client allowed does not come back after another face took it away.
        (false, Approval::Ask, "default"),
        (false, Approval::ApproveAll, "autoApprove"),
        (true, Approval::AutoSafe, "default"),
    ];
    for (n, (by_client, approval, expected)) in changes.into_iter().enumerate() {
        let what = format!("{approval:?} by an AHP client: {by_client}");
        if by_client {
            a.accepted(&session, set(expected)).await;
        } else {
            let live = house.host.open_session(&uuid(1)).await.unwrap();
            live.configure(Change::Approval(approval)).await.unwrap();
            a.until(|message| {
                let action = &message["params"]["action"];
                action["type"] == "session/configChanged" && action["config"]["autoApprove"] == expected
            })
            .await;
        }
        assert_eq!(shown(&mut a).await, expected, "{what}");
        // The agent is told in order, so what is said next finds it set.
        a.turn(&chat, &format!("again-{n}"), "say on").await;
        assert_eq!(
            house.host.live(&uuid(1)).unwrap().settings().approval,
            approval,
            "{what}"
        );
        house = house.crash().await;
        a = house.client("a").await;
        assert_eq!(shown(&mut a).await, expected, "{what}: after a crash");
        assert_eq!(
            house.host.live(&uuid(1)).unwrap().settings().approval,
            approval,
            "{what}: after a crash"
        );
        a.subscribe(&chat).await;
    }
}

/// What an AHP client is shown of the settings of a session, and the title of its further chat.
fn settings_in(state: &Value) -> Value {
    let values = &state["config"]["values"];
    let title = &state["chats"][1]["title"];
    json!([
        state["title"],
        title,
        values["mode"],
        values["lodge.approvals"],
        values["autoApprove"],
        values["model"]
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_what_the_log_says_whoever_changes_them_at_the_same_moment() {
    let mut house = house_of_two_models(Limits::default()).await;
    let (mut a, mut b) = (house.client("a").await, house.client_of("b", "0.1.0").await);
    let (session, chat) = a.session(&uuid(1)).await;
    a.turn(&chat, "t1", "say hello").await;
    let further = "ahp-chat:/further";
    a.request("createChat", json!({ "channel": session, "chat": further }))
        .await
        .unwrap();
    let mut mirrors = [Mirror::default(), Mirror::default()];
    a.drain().await;
    mirrors[0].snapshot(&a.subscribe(&session).await);
    b.drain().await;
    mirrors[1].snapshot(&b.subscribe(&session).await);
    let live = house.host.open_session(&uuid(1)).await.unwrap();
    let chats = house.host.chats_of(&uuid(1)).await.unwrap();
    let other = house.host.open_session(&chats[0].id).await.unwrap();
    let mut heard = (Vec::new(), Vec::new());
    for round in 0..60 {
        let (host, one, two) = (house.host.clone(), live.clone(), other.clone());
        let app = tokio::spawn(async move {
            one.configure(Change::Mode(Mode::Plan)).await.unwrap();
            one.configure(Change::Approval(Approval::Ask)).await.unwrap();
            one.rename(Some(format!("app {round}"))).await.unwrap();
            two.rename(Some(format!("app's {round}"))).await.unwrap();
            one.select_model(&host, "rehearsal").await.unwrap();
        });
        let set = |config: Value| json!({ "type": "session/configChanged", "config": config });
        let title = |title: &str| json!({ "type": "session/titleChanged", "title": format!("{title} {round}") });
        let (mode, all) = (["autopilot", "interactive"][round % 2], ["all", "edits"][round % 2]);
        let mut sent = Vec::new();
        for (channel, action) in [
            (&*session, set(json!({ "mode": mode, "model": "distant" }))),
            (&*session, set(json!({ "lodge.approvals": all }))),
            (&*session, title("client")),
            (further, title("client's")),
            (&*chat, title("by its chat")),
            (
                &*session,
                set(json!({ "autoApprove": "default", "mode": "interactive" })),
            ),
        ] {
            sent.push(a.dispatch(channel, action).await);
        }
        let mut of_seed = json!({ "type": "session/modelChanged", "model": { "id": "distant" } });
        of_seed["session"] = session.clone().into();
        b.dispatch_seed(of_seed).await;
        app.await.unwrap();
        for seq in sent {
            // Taken out of what is heard in order, so noted beside it.
            let answered =
                |message: &Value| message["params"]["origin"] == json!({ "clientId": "a", "clientSeq": seq });
            while !a.inbox.iter().any(answered) && !heard.0.iter().any(answered) {
                heard.0.extend(a.drain().await);
            }
        }
        heard.0.extend(a.drain().await);
        heard.1.extend(b.drain().await);
        for message in heard.0.drain(..).filter(|message| message["method"] == "action") {
            assert_eq!(message["params"].get("rejectionReason"), None, "{message}");
            mirrors[0].envelope(&message["params"]);
        }
        for message in heard.1.drain(..).filter(|message| message["method"] == "action") {
            mirrors[1].seed_envelope(&message["params"]);
        }
        // Everything is recorded; the last of it is told in a moment.
        let says = live.state();
        let approval = Approval::from(says.approval.as_ref().unwrap());
        let mut tries = 0;
        let shown = loop {
            let shown = settings_in(&a.subscribe(&session).await["state"]);
            let expected = json!([
                says.about.named.as_ref().and_then(|named| named.name.clone()),
                other.state().about.named.and_then(|named| named.name),
                says.mode,
                shown[3],
                shown[4],
                says.model,
            ]);
            if shown == expected && live.settings().approval == approval {
                break shown;
            }
            tries += 1;
            assert!(
                tries < 100,
                "round {round}: clients see {shown}, and the log says {expected}"
            );
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        };
        let names = match approval {
            Approval::ApproveAll => ["all", "autoApprove"],
            Approval::AutoEdit => ["edits", "default"],
            Approval::Ask => ["ask", "default"],
            _ => ["safe", "default"],
        };
        assert_eq!(json!([shown[3], shown[4]]), json!(names), "round {round}");
        heard.0.extend(a.drain().await);
        for message in heard.0.drain(..).filter(|message| message["method"] == "action") {
            mirrors[0].envelope(&message["params"]);
        }
        assert_eq!(settings_in(&mirrors[0].state(&session)), shown, "round {round}");
    }
    let shown = settings_in(&a.subscribe(&session).await["state"]);
    house = house.crash().await;
    let mut c = house.client("c").await;
    let mut again = settings_in(&c.subscribe(&session).await["state"]);
    if again[1].is_null() {
        again = settings_in(&c.subscribe(&session).await["state"]);
    }
    assert_eq!(again, shown);
}

#[tokio::test]
async fn an_approval_mode_is_set_and_seen_by_its_own_name() {
    let mut house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.turn(&chat, "t1", "say hello").await;
    for (name, approval, known) in [
        ("ask", Approval::Ask, "default"),
        ("all", Approval::ApproveAll, "autoApprove"),
        ("edits", Approval::AutoEdit, "default"),
        ("none", Approval::DenyAll, "default"),
        ("safe", Approval::AutoSafe, "default"),
    ] {
        let set = json!({ "type": "session/configChanged", "config": { "lodge.approvals": name } });
        a.accepted(&session, set).await;
        a.turn(&chat, &format!("t-{name}"), "say on").await;
        for crash in [false, true] {
            if crash {
                house = house.crash().await;
                a = house.client("a").await;
            }
            let values = a.subscribe(&session).await["state"]["config"]["values"].clone();
            let shown = (&values["lodge.approvals"], &values["autoApprove"]);
            assert_eq!(shown, (&json!(name), &json!(known)), "crash: {crash}");
            assert_eq!(
                house.host.live(&uuid(1)).unwrap().settings().approval,
                approval,
                "{name}, crash: {crash}"
            );
        }
        a.subscribe(&chat).await;
    }
    let unknown = json!({ "type": "session/configChanged", "config": { "lodge.approvals": "never" } });
    a.refused(&session, unknown).await;
}

#[tokio::test]
async fn a_configuration_can_be_replaced() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut seed = house.client_of("s", "0.1.0").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.turn(&chat, "t1", "say hello").await;
    seed.request("subscribe", json!({ "resource": session })).await.unwrap();
    let change =
        |config: Value, replace: bool| json!({ "type": "session/configChanged", "config": config, "replace": replace });
    let values = async |a: &mut Client| a.subscribe(&session).await["state"]["config"]["values"].clone();
    let all = json!({ "mode": "plan", "autoApprove": "autoApprove" });
    a.accepted(&session, change(all, false)).await;
    assert_eq!(values(&mut a).await["mode"], "plan");
    a.accepted(&session, change(json!({ "autoApprove": "default" }), true))
        .await;
    let kept = json!({ "autoApprove": "default", "lodge.approvals": "safe" });
    assert_eq!(values(&mut a).await, kept);
    // What is not named any more is what it is when nobody chose: for the agent, too.
    a.turn(&chat, "t2", "say again").await;
    let settings = house.host.live(&uuid(1)).unwrap().settings();
    assert_eq!(settings.mode, lodge_host::Mode::Interactive);
    assert_eq!(settings.approval, lodge_host::Approval::AutoSafe);
    assert_eq!(values(&mut a).await, kept);
    a.refused(&session, change(json!({ "colour": "red" }), true)).await;
    assert_eq!(values(&mut a).await, kept);
    let told = seed
        .until(|message| {
            let action = &message["params"]["action"];
            action["type"] == "session/configChanged" && action["replace"] == true
        })
        .await;
    assert_eq!(
        told["params"]["action"]["config"],
        json!({ "autoApprove": "default", "lodge.approvals": "safe" })
    );
}

#[tokio::test]
async fn where_a_session_works_stays_when_its_configuration_is_replaced() {
    let house = house().await;
    git(&house.work(), &["init", "-q", "-b", "main"]);
    let mut a = house.client("a").await;
    let (session, _) = a.session(&uuid(1)).await;
    let values = a.subscribe(&session).await["state"]["config"]["values"].clone();
    assert_eq!(
        (&values["isolation"], &values["branch"]),
        (&json!("folder"), &json!("main"))
    );
    let mut config = values.clone();
    config["mode"] = "plan".into();
    // Forms send all there is, also what cannot be changed.
    for config in [config.clone(), json!({ "mode": "plan" })] {
        let change = json!({ "type": "session/configChanged", "config": config, "replace": true });
        a.accepted(&session, change).await;
        let now = a.subscribe(&session).await["state"]["config"]["values"].clone();
        assert_eq!(
            (&now["isolation"], &now["branch"], &now["mode"]),
            (&json!("folder"), &json!("main"), &json!("plan"))
        );
    }
}

/// An editor's draft has no session yet; what files describe for it is there to be typed all the same.
#[tokio::test]
async fn commands_of_files_complete_what_is_typed_before_the_first_turn() {
    let house = house().await;
    let put = |path: std::path::PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put(
        house.work().join(".github/prompts/weave.prompt.md"),
        "---\ndescription: Weaves it\nargument-hint: WHAT\n---\nWeave $1",
    );
    put(house.dir.path().join("home/commands/wind.md"), "# Winds it\nWind.");
    let mut editor = house.editor("e").await;
    let (session, chat) = editor.session(&uuid(1)).await;
    for channel in [&session, &chat] {
        let params = json!({ "channel": channel, "kind": "userMessage", "text": "/w", "offset": 2 });
        let items = editor.request("completions", params).await.unwrap()["items"].clone();
        let shown: Vec<(&str, &str)> = items
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["insertText"].as_str().unwrap().starts_with("/w"))
            .map(|item| {
                let said = item["attachment"]["_meta"]["description"].as_str().unwrap();
                (item["insertText"].as_str().unwrap(), said)
            })
            .collect();
        assert_eq!(shown, [("/weave ", "Weaves it"), ("/wind ", "Winds it")], "{items:#}");
    }
}

/// Editors tell a host many things that this one knows nothing of. It says that it reads none of them, and keeps them.
#[tokio::test]
async fn settings_that_the_host_does_not_read_are_kept_for_all_clients() {
    let mut house = house().await;
    let (mut a, mut b) = (house.client("a").await, house.client_of("b", "0.9.0").await);
    let mut seed = house.client_of("seed", "0.1.0").await;
    let shown = a.subscribe(ROOT).await["state"]["config"].clone();
    assert_eq!(
        shown,
        json!({ "schema": { "type": "object", "properties": {} }, "values": {} })
    );
    let set = |config: Value| json!({ "type": "root/configChanged", "config": config });
    a.accepted(ROOT, set(json!({ "multiRoot": true, "level": { "of": "detail" } })))
        .await;
    for other in [&mut b, &mut seed] {
        let heard = other.action("root/configChanged").await;
        assert_eq!(heard["origin"]["clientId"], "a");
        assert_eq!(heard["action"]["config"]["multiRoot"], true);
    }
    // Said again it changes nothing, and nobody else hears of it.
    a.accepted(ROOT, set(json!({ "multiRoot": true }))).await;
    let large = set(json!({ "large": "x".repeat(300_000) }));
    assert!(a.refused(ROOT, large).await.contains("256 KiB"));
    seed.dispatch_seed(set(json!({ "theirs": null }))).await;
    assert_eq!(
        b.action("root/configChanged").await["action"]["config"],
        json!({ "theirs": null })
    );
    house.restart().await;
    let mut c = house.client("c").await;
    let values = json!({ "multiRoot": true, "level": { "of": "detail" }, "theirs": null });
    assert_eq!(c.subscribe(ROOT).await["state"]["config"]["values"], values);
    let only = json!({ "type": "root/configChanged", "config": { "only": 1 }, "replace": true });
    c.accepted(ROOT, only).await;
    house.restart().await;
    let mut d = house.client("d").await;
    assert_eq!(
        d.subscribe(ROOT).await["state"]["config"]["values"],
        json!({ "only": 1 })
    );
}

#[tokio::test]
async fn policy_that_an_app_brought_holds_for_clients_here_too() {
    let house = house().await;
    // The user's own file would have everything approved.
    let rules = house.dir.path().join("home/permissions.toml");
    std::fs::write(rules, "mode = \"approve-all\"\n").unwrap();
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.turn(&chat, "t1", "say hello").await;
    let policy = ManagedPolicy {
        rules: Vec::new(),
        no_bypass: true,
        text: json!({}),
    };
    let agent = house.host.open_session(&uuid(1)).await.unwrap();
    agent.supply(Supply::Managed(Some(policy))).await.unwrap();
    let all = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    let refusal = a.refused(&session, all.clone()).await;
    assert!(refusal.contains("policy does not allow"), "{refusal}");
    a.say(&chat, "t2", "call bash {\"command\":\"mkdir made\"} then say done")
        .await;
    let asked = a.action("chat/toolCallReady").await;
    assert!(asked["action"]["options"].is_array(), "{asked}");
    assert!(!house.work().join("made").exists());
    agent.supply(Supply::Managed(None)).await.unwrap();
    a.accepted(&session, all).await;
}

/// Editors have a picker of models, and send the model with each message.
#[tokio::test]
async fn editors_are_shown_one_picker_of_models_and_others_theirs() {
    let house = house().await;
    let (mut editor, mut a) = (house.editor("vscode").await, house.client("a").await);
    let (session, _) = a.session(&uuid(1)).await;
    for (client, has_model) in [(&mut editor, false), (&mut a, true)] {
        let resolved = resolve(client, json!({})).await;
        assert_eq!(resolved["schema"]["properties"].get("model").is_some(), has_model);
        assert_eq!(resolved["values"].get("model").is_some(), has_model, "{resolved}");
        let config = client.subscribe(&session).await["state"]["config"].clone();
        assert_eq!(config["schema"]["properties"].get("model").is_some(), has_model);
        assert!(config["schema"]["properties"].get("mode").is_some());
    }
}
