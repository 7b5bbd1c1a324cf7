//! Plugins that clients bring.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Reply};

use crate::{
    customizations::{SERVER, asked, named, offered, once, servers, toggle},
    kit::*,
};

/// Answers whatever the host asks a client about these files, until the host has asked for the last of them.
async fn serve(client: &mut Client, root: &str, files: &[(&str, &str)]) {
    let mut unread: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
    while !unread.is_empty() {
        let request = client
            .until(|message| message["id"].is_u64() && message["method"].is_string())
            .await;
        let uri = request["params"]["uri"].as_str().unwrap();
        let path = uri.strip_prefix(root).unwrap().trim_start_matches('/');
        let result = if request["method"] == "resourceList" {
            let prefix = if path.is_empty() {
                String::new()
            } else {
                format!("{path}/")
            };
            let below = files.iter().filter_map(|(file, _)| file.strip_prefix(&prefix));
            let entry = |file: &str| match file.split_once('/') {
                Some((directory, _)) => json!({ "name": directory, "type": "directory" }),
                None => json!({ "name": file, "type": "file" }),
            };
            let mut entries: Vec<Value> = below.map(entry).collect();
            entries.dedup();
            json!({ "entries": entries })
        } else {
            unread.retain(|file| *file != path);
            let (_, text) = files.iter().find(|(file, _)| *file == path).unwrap();
            json!({ "data": STANDARD.encode(text), "encoding": "base64" })
        };
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        client.send_text(answer.to_string()).await;
    }
}

#[tokio::test]
async fn a_client_brings_a_plugin_and_takes_it_away_with_itself() {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    let (session, chat) = a.session(&uuid(1)).await;
    let root = "vscode-synced-customization:/window/1";
    let servers = servers(&house);
    let files = [
        (
            "skills/weaving/SKILL.md",
            "---\nname: weaving\ndescription: how to weave a carpet\n---\nover\n",
        ),
        ("skills/weaving/pattern.txt", "xoxo"),
        (
            "agents/knitter.md",
            "---\nname: knitter\ndescription: knits a jumper\n---\nYou knit.\n",
        ),
        ("rules/stitch.md", "Never drop a stitch."),
        (
            "commands/darn.md",
            "---\ndescription: darns socks\n---\nDarn $ARGUMENTS",
        ),
        (".mcp.json", servers.as_str()),
    ];
    let plugin = json!({ "type": "plugin", "id": "synced", "uri": root, "name": "Synced data", "nonce": "1" });
    let active = |plugins: Value| {
        json!({ "type": "session/activeClientSet", "activeClient": {
            "clientId": "a", "tools": [], "customizations": plugins,
        } })
    };
    a.accepted(&session, active(json!([plugin.clone()]))).await;
    // It is there for the message that comes right behind it.
    models.reply(Reply::text("yes"));
    a.say(&chat, "t1", "go on").await;
    serve(&mut a, root, &files).await;
    a.ends(&chat, "t1").await;
    let first = offered(&models);
    for there in [
        "how to weave a carpet",
        "knits a jumper",
        "Never drop a stitch",
        "loom-spin",
    ] {
        assert!(first.contains(there), "no {there} in {first}");
    }
    let state = once(&mut b, &session, |state| {
        named(state, "loom")["state"]["kind"] == "ready"
    })
    .await;
    let synced = named(&state, "Synced data");
    assert_eq!(
        (&synced["clientId"], &synced["load"]["kind"]),
        (&json!("a"), &json!("loaded"))
    );
    let mut names: Vec<&str> = synced["children"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["darn", "knitter", "loom", "stitch.md", "weaving"]);
    assert_eq!(
        named(&state, "weaving")["uri"],
        format!("{root}/skills/weaving/SKILL.md")
    );
    // The same again is not read again, and changes nothing.
    let again = json!({ "type": "session/titleChanged", "title": "Wool" });
    a.dispatch(&session, active(json!([plugin.clone()]))).await;
    a.accepted(&session, again).await;
    // Off as a whole, by another client.
    b.accepted(&session, toggle(&synced, false)).await;
    let second = asked(&models, &mut a, &chat, "t2").await;
    for gone in [
        "how to weave a carpet",
        "knits a jumper",
        "Never drop a stitch",
        "loom-spin",
    ] {
        assert!(!second.contains(gone), "{gone} in {second}");
    }
    b.accepted(&session, toggle(&synced, true)).await;
    assert!(
        asked(&models, &mut a, &chat, "t3")
            .await
            .contains("how to weave a carpet")
    );
    // One that cannot be read says so; the others stay.
    let broken = json!({ "type": "plugin", "id": "broken", "uri": "nowhere:/x", "name": "Broken" });
    a.accepted(&session, active(json!([plugin, broken]))).await;
    let request = a.until(|message| message["method"] == "resourceList").await;
    let error = json!({ "code": -32008, "message": "it is not there" });
    a.send_text(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }).to_string())
        .await;
    let state = once(&mut b, &session, |state| {
        named(state, "Broken")["load"]["kind"] == "error"
    })
    .await;
    assert!(
        named(&state, "Broken")["load"]["message"]
            .as_str()
            .unwrap()
            .contains("it is not there")
    );
    assert!(!named(&state, "weaving").is_null());
    // When its client stops being active, what it brought goes.
    let removed = json!({ "type": "session/activeClientRemoved", "clientId": "a" });
    a.accepted(&session, removed).await;
    once(&mut b, &session, |state| named(state, "Synced data").is_null()).await;
    b.subscribe(&chat).await;
    assert!(
        !asked(&models, &mut b, &chat, "t4")
            .await
            .contains("how to weave a carpet")
    );
}

/// Plugins are made by many: their parts are where they say, and their hooks run like any others.
#[tokio::test]
async fn a_plugin_says_where_its_parts_are_and_its_hooks_run() {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let root = "file:///somewhere/else/plugin";
    let manifest = json!({
        "name": "sewing", "version": "1.2.0", "agents": "./more/agents", "commands": ["./more/hem.md"],
        "skills": "./more/basting", "hooks": "./config/hooks.json",
        "mcpServers": { "loom": { "command": "bash", "args": ["${CLAUDE_PLUGIN_ROOT}/server/loom.sh"] } },
    })
    .to_string();
    let hook = json!({ "type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/bin/note.sh" });
    let hooks = json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [hook] }] } }).to_string();
    let files = [
        (".claude-plugin/plugin.json", manifest.as_str()),
        ("bin/note.sh", "#!/bin/sh\ncat > said.json\n"),
        ("config/hooks.json", hooks.as_str()),
        (
            "more/agents/tailor.md",
            "---\nname: tailor\ndescription: sews a suit\n---\nYou sew.\n",
        ),
        (
            "more/basting/SKILL.md",
            "---\nname: basting\ndescription: how to baste a hem\n---\nloosely\n",
        ),
        ("more/hem.md", "---\ndescription: hems\n---\nHem $ARGUMENTS"),
        ("server/loom.sh", SERVER),
        (
            "skills/weaving/SKILL.md",
            "---\nname: weaving\ndescription: how to weave a carpet\n---\nover\n",
        ),
    ];
    let plugin = json!({ "type": "plugin", "id": "sewing", "uri": root, "name": "Sewing" });
    let active = |plugin: &Value| {
        json!({ "type": "session/activeClientSet", "activeClient": {
            "clientId": "a", "tools": [], "customizations": [plugin],
        } })
    };
    a.accepted(&session, active(&plugin)).await;
    models.reply(Reply::text("yes"));
    a.say(&chat, "t1", "mend this").await;
    serve(&mut a, root, &files).await;
    a.ends(&chat, "t1").await;
    let first = offered(&models);
    for there in [
        "how to weave a carpet",
        "sews a suit",
        "how to baste a hem",
        "loom-spin",
    ] {
        assert!(first.contains(there), "no {there} in {first}");
    }
    let said = std::fs::read_to_string(house.work().join("said.json")).unwrap();
    assert!(said.contains("mend this"), "{said}");
    let state = once(&mut a, &session, |state| {
        named(state, "loom")["state"]["kind"] == "ready"
    })
    .await;
    assert_eq!(named(&state, "Sewing")["version"], "1.2.0");
    for (name, at) in [
        ("tailor", "more/agents/tailor.md"),
        ("basting", "more/basting/SKILL.md"),
        ("hem", "more/hem.md"),
        ("hooks", "config/hooks.json"),
        ("weaving", "skills/weaving/SKILL.md"),
    ] {
        assert_eq!(named(&state, name)["uri"], format!("{root}/{at}"), "{name}");
    }
    // A place outside of it is no place.
    let outside = [("plugin.json", r#"{"name":"x","agents":"../../etc"}"#)];
    let other = json!({ "type": "plugin", "id": "sewing", "uri": root, "name": "Sewing", "nonce": "2" });
    a.accepted(&session, active(&other)).await;
    serve(&mut a, root, &outside).await;
    let state = once(&mut a, &session, |state| {
        named(state, "Sewing")["load"]["kind"] == "error"
    })
    .await;
    let message = named(&state, "Sewing")["load"]["message"].clone();
    assert!(message.as_str().unwrap().contains("../../etc"), "{message}");
    // With the plugin its hooks are gone.
    std::fs::remove_file(house.work().join("said.json")).unwrap();
    asked(&models, &mut a, &chat, "t2").await;
    assert!(!house.work().join("said.json").exists());
}

/// What a plugin has is shown as soon as it is read: before anything is said, and while it is off.
#[tokio::test]
async fn a_plugin_is_shown_before_anything_is_said_and_while_it_is_off() {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    let mut a = house.editor("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let root = "virtual://a/plugin";
    let servers = servers(&house);
    let files = [
        (
            "skills/weaving/SKILL.md",
            "---\nname: weaving\ndescription: how to weave a carpet\n---\nover\n",
        ),
        (
            "agents/knitter.md",
            "---\nname: knitter\ndescription: knits a jumper\n---\nYou knit.\n",
        ),
        (".mcp.json", servers.as_str()),
    ];
    let plugin = json!({ "type": "plugin", "id": "synced", "uri": root, "name": "Synced", "nonce": "1" });
    let active = json!({ "clientId": "a", "tools": [], "customizations": [plugin] });
    a.accepted(
        &session,
        json!({ "type": "session/activeClientSet", "activeClient": active }),
    )
    .await;
    serve(&mut a, root, &files).await;
    let is = |on: bool| {
        move |state: &Value| {
            let plugin = named(state, "Synced");
            let is_on = plugin["enablement"][0]["enabled"] != false;
            let mut names: Vec<&str> = plugin["children"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|child| child["name"].as_str())
                .collect();
            names.sort_unstable();
            is_on == on && names == ["knitter", "loom", "weaving"]
        }
    };
    let state = once(&mut a, &session, is(true)).await;
    assert_eq!(named(&state, "loom")["state"]["kind"], "stopped");
    let shown = named(&state, "Synced");
    a.accepted(&session, toggle(&shown, false)).await;
    once(&mut a, &session, is(false)).await;
    let first = asked(&models, &mut a, &chat, "t1").await;
    assert!(
        !first.contains("weave a carpet") && !first.contains("loom-spin"),
        "{first}"
    );
    let state = once(&mut a, &session, is(false)).await;
    assert_eq!(named(&state, "loom")["state"]["kind"], "stopped");
    a.accepted(&session, toggle(&shown, true)).await;
    let second = asked(&models, &mut a, &chat, "t2").await;
    assert!(
        second.contains("weave a carpet") && second.contains("loom-spin"),
        "{second}"
    );
    // A server of a plugin says how it is like any other.
    let state = once(&mut a, &session, is(true)).await;
    a.drain().await;
    let stop = json!({ "type": "session/mcpServerStopRequested", "id": named(&state, "loom")["id"] });
    a.accepted(&session, stop).await;
    let start = json!({ "type": "session/mcpServerStartRequested", "id": named(&state, "loom")["id"] });
    a.accepted(&session, start).await;
    a.until(|message| {
        let action = &message["params"]["action"];
        action["type"] == "session/mcpServerStateChanged" && action["state"]["kind"] == "ready"
    })
    .await;
}
