//! What a session has beside its tools: shown, and turned on and off.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Reply};

use crate::kit::*;

/// An MCP server with one tool.
pub(crate) const SERVER: &str = r#"while IFS= read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case "$line" in
*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"loom","version":"1"}}' ;;
*'"tools/list"'*) result='{"tools":[{"name":"spin","inputSchema":{"type":"object"}}]}' ;;
*) result='{}' ;;
esac
[ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

pub(crate) fn put(path: impl AsRef<Path>, text: &str) {
    std::fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A project with one of everything.
pub(crate) fn furnish(house: &House) {
    let work = house.work();
    put(
        work.join(".github/skills/weaving/SKILL.md"),
        "---\nname: weaving\ndescription: how to weave a carpet\n---\nover and under\n",
    );
    put(
        work.join(".github/agents/knitter.md"),
        "---\nname: knitter\ndescription: knits a jumper\n---\nYou knit.\n",
    );
    put(work.join("AGENTS.md"), "Never drop a stitch.");
    put(house.dir.path().join("home/mcp-config.json"), &servers(house));
}

/// A file that describes the MCP server.
pub(crate) fn servers(house: &House) -> String {
    let script = house.dir.path().join("loom.sh");
    put(&script, SERVER);
    json!({ "mcpServers": { "loom": { "command": "bash", "args": [script] } } }).to_string()
}

/// Everything in the state of a session, by name.
fn all(state: &Value) -> Vec<Value> {
    let containers = state["customizations"].as_array().into_iter().flatten();
    let with_children = containers.flat_map(|container| {
        let children = container["children"].as_array().into_iter().flatten();
        std::iter::once(container).chain(children)
    });
    with_children.cloned().collect()
}

pub(crate) fn named(state: &Value, name: &str) -> Value {
    let found = all(state).into_iter().find(|thing| thing["name"] == name);
    found.unwrap_or_default()
}

/// The session's state, once it is as it should be.
pub(crate) async fn once(client: &mut Client, session: &str, fits: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..2_000 {
        let state = client.subscribe(session).await["state"].clone();
        if fits(&state) {
            return state;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!(
        "it does not come to that: {:#}",
        client.subscribe(session).await["state"]
    );
}

pub(crate) fn toggle(thing: &Value, on: bool) -> Value {
    json!({
        "type": "session/customizationToggled", "id": thing["id"],
        "enablement": [{ "kind": "session", "enabled": on }],
    })
}

/// Says something, and gives what the model was asked.
pub(crate) async fn asked(models: &ModelServer, client: &mut Client, chat: &str, turn: &str) -> String {
    models.reply(Reply::text("yes"));
    let end = client.turn(chat, turn, "go on").await;
    assert_eq!(
        end["turns"].as_array().unwrap().last().unwrap()["state"],
        "complete",
        "{end:#}"
    );
    offered(models)
}

/// What the model is told and offered before anything is said.
pub(crate) fn offered(models: &ModelServer) -> String {
    let body = models.last_request().body;
    format!("{}{}", body["messages"][0], body["tools"])
}

#[tokio::test]
async fn what_a_session_has_is_shown_and_turned_on_and_off_for_everybody() {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    furnish(&house);
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    let (session, chat) = a.session(&uuid(1)).await;
    // A session that has not begun shows what it will have.
    let state = once(&mut a, &session, |state| !named(state, "weaving").is_null()).await;
    for (name, kind) in [
        ("weaving", "skill"),
        ("knitter", "agent"),
        ("AGENTS.md", "rule"),
        ("loom", "mcpServer"),
    ] {
        assert_eq!(named(&state, name)["type"], kind, "{name}: {state:#}");
    }
    assert_eq!(named(&state, "loom")["state"], json!({ "kind": "stopped" }));
    a.accepted(&session, toggle(&named(&state, "AGENTS.md"), false)).await;
    b.subscribe(&session).await;
    let first = asked(&models, &mut a, &chat, "t1").await;
    assert!(first.contains("how to weave a carpet") && first.contains("knits a jumper") && first.contains("loom-spin"));
    assert!(!first.contains("Never drop a stitch"), "{first}");
    let state = once(&mut b, &session, |state| {
        named(state, "loom")["state"]["kind"] == "ready"
    })
    .await;
    assert_eq!(named(&state, "AGENTS.md")["enabled"], false);
    // Whoever turns something off turns it off for the model and for everybody.
    for name in ["weaving", "knitter", "loom"] {
        let off = toggle(&named(&state, name), false);
        assert_eq!(b.accepted(&session, off.clone()).await["id"], off["id"]);
        let id = off["id"].clone();
        a.until(|message| {
            let action = &message["params"]["action"];
            action["type"] == "session/customizationToggled" && action["id"] == id
        })
        .await;
    }
    let state = once(&mut a, &session, |state| {
        named(state, "loom")["state"]["kind"] == "stopped"
    })
    .await;
    assert_eq!(named(&state, "weaving")["enabled"], false);
    assert_eq!(named(&state, "loom")["enablement"][0]["enabled"], false);
    a.accepted(&session, toggle(&named(&state, "AGENTS.md"), true)).await;
    let second = asked(&models, &mut a, &chat, "t2").await;
    for gone in ["how to weave a carpet", "knits a jumper", "loom-spin"] {
        assert!(!second.contains(gone), "{gone} in {second}");
    }
    assert!(second.contains("Never drop a stitch"));
    // A whole directory at once; what it holds keeps its own mark.
    let directory = all(&state).into_iter().find(|it| it["contents"] == "agent").unwrap();
    a.accepted(&session, toggle(&named(&state, "knitter"), true)).await;
    a.accepted(&session, toggle(&directory, false)).await;
    assert!(!asked(&models, &mut a, &chat, "t3").await.contains("knits a jumper"));
    a.accepted(&session, toggle(&directory, true)).await;
    assert!(asked(&models, &mut a, &chat, "t4").await.contains("knits a jumper"));
    // A server can be stopped and started, unless it is off.
    let loom = named(&state, "loom");
    let wish = |what: &str| json!({ "type": format!("session/mcpServer{what}Requested"), "id": loom["id"] });
    a.refused(&session, wish("Start")).await;
    a.accepted(&session, toggle(&loom, true)).await;
    once(&mut b, &session, |state| {
        named(state, "loom")["state"]["kind"] == "ready"
    })
    .await;
    a.accepted(&session, wish("Stop")).await;
    let state = once(&mut b, &session, |state| {
        named(state, "loom")["state"]["kind"] == "stopped"
    })
    .await;
    assert_eq!(named(&state, "loom")["enablement"][0]["enabled"], true);
    a.accepted(&session, wish("Start")).await;
    once(&mut b, &session, |state| {
        named(state, "loom")["state"]["kind"] == "ready"
    })
    .await;
    for odd in [
        json!({ "type": "session/customizationToggled", "id": "nothing", "enablement": [{ "kind": "session", "enabled": true }] }),
        json!({ "type": "session/customizationToggled", "id": loom["id"], "enablement": [{ "kind": "elsewhere", "enabled": true }] }),
        json!({ "type": "session/mcpServerStopRequested", "id": named(&state, "weaving")["id"] }),
        json!({ "type": "session/customizationRemoved", "id": loom["id"] }),
    ] {
        a.refused(&session, odd).await;
    }
}

/// What is decided for more than a session holds in all of them, also in those that are made later.
#[tokio::test]
async fn what_is_decided_for_a_directory_or_for_all_holds_in_other_sessions() {
    let mut house = house().await;
    furnish(&house);
    let (mut a, mut b) = (house.client("a").await, house.client("b").await);
    let (one, _) = a.session(&uuid(1)).await;
    let (two, _) = b.session(&uuid(2)).await;
    let elsewhere = house.dir.path().canonicalize().unwrap().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let three = format!("lodge:/{}", uuid(3));
    let there = json!({ "channel": three, "workingDirectories": [lodge_ahp::uri::file(&elsewhere)] });
    b.request("createSession", there).await.unwrap();
    let state = once(&mut a, &one, |state| !named(state, "weaving").is_null()).await;
    let here = state["workingDirectories"][0].clone();
    let decide = |name: &str, said: Value| json!({ "type": "session/customizationToggled", "id": named(&state, name)["id"], "enablement": said });
    let nowhere = json!([{ "kind": "global", "enabled": false }]);
    let not_here = json!([
        { "kind": "workspace", "uri": here, "enabled": false }, { "kind": "global", "enabled": true },
    ]);
    // They are sorted, and an editor that names them again is answered, but nothing happens.
    let unsorted = json!([not_here[1], not_here[0]]);
    let taken = a.accepted(&one, decide("loom", unsorted)).await;
    assert_eq!(taken["enablement"], not_here);
    a.accepted(&one, decide("weaving", nowhere.clone())).await;
    let odd = json!([{ "kind": "workspace", "uri": "file:///else", "enabled": false }]);
    assert!(a.refused(&one, decide("loom", odd)).await.contains("file:///else"));
    let off =
        |state: &Value| named(state, "weaving")["enabled"] == false && named(state, "loom")["enablement"] == not_here;
    once(&mut b, &two, off).await;
    let state_there = once(&mut b, &three, |state| !named(state, "loom")["enablement"].is_null()).await;
    assert_eq!(named(&state_there, "loom")["enablement"], json!([not_here[1]]));
    house.restart().await;
    let mut c = house.client("c").await;
    let root = c.subscribe(ROOT).await["state"]["agents"][0].clone();
    assert_eq!(named(&root, "loom")["enablement"], json!([not_here[1]]));
    let (four, _) = c.session(&uuid(4)).await;
    once(&mut c, &four, off).await;
    let has_weaving = async |on: bool| {
        let live = house.host.live(&uuid(4)).unwrap();
        while live
            .skills()
            .await
            .unwrap()
            .iter()
            .any(|(skill, is_on)| skill.name == "weaving" && *is_on != on)
        {
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    has_weaving(false).await;
    // One session may differ, and what is taken back is as it was.
    let but_here = json!([{ "kind": "session", "enabled": true }, nowhere[0]]);
    c.accepted(&four, decide("weaving", but_here)).await;
    has_weaving(true).await;
    c.accepted(&four, decide("weaving", nowhere)).await;
    has_weaving(false).await;
    c.accepted(&four, decide("weaving", json!([]))).await;
    has_weaving(true).await;
    once(&mut c, &one, |state| named(state, "weaving")["enabled"] == true).await;
}

#[tokio::test]
async fn what_was_turned_off_stays_off_after_a_restart() {
    let mut house = house().await;
    furnish(&house);
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let state = once(&mut a, &session, |state| !named(state, "weaving").is_null()).await;
    a.accepted(&session, toggle(&named(&state, "weaving"), false)).await;
    a.accepted(&session, toggle(&named(&state, "loom"), false)).await;
    a.turn(&chat, "t1", "say hello").await;
    drop(a);
    house.restart().await;
    let mut a = house.client("a").await;
    let state = once(&mut a, &session, |state| named(state, "weaving")["enabled"] == false).await;
    assert_eq!(named(&state, "loom")["enablement"][0]["enabled"], false);
    let live = house.host.live(&uuid(1)).unwrap();
    assert!(
        live.skills()
            .await
            .unwrap()
            .iter()
            .all(|(skill, on)| skill.name != "weaving" || !on)
    );
}

#[tokio::test]
async fn the_users_own_are_shown_with_the_agent_and_followed() {
    let house = house().await;
    let mut a = house.client("a").await;
    put(
        house.dir.path().join("home/skills/sewing/SKILL.md"),
        "---\nname: sewing\ndescription: how to sew\n---\nin and out\n",
    );
    // Looked at anew when somebody comes.
    let _b = house.client("b").await;
    let told = a.action("root/agentsChanged").await;
    assert_eq!(named(&told["action"]["agents"][0], "sewing")["enabled"], true);
}

#[tokio::test]
async fn clients_of_the_seed_see_and_toggle_them_by_their_uris() {
    let house = house().await;
    furnish(&house);
    let mut seed = house.client_of("seed", "0.1.0").await;
    let session = format!("lodge:/{}", uuid(1));
    seed.request("createSession", json!({ "session": session }))
        .await
        .unwrap();
    let find = |state: &Value, name: &str| {
        let all = state["customizations"].as_array().into_iter().flatten();
        let mut found = all.filter(|it| it["customization"]["displayName"] == name);
        found.next_back().cloned().unwrap_or_default()
    };
    let state = loop {
        let answer = seed.request("subscribe", json!({ "resource": session })).await.unwrap();
        let state = answer["snapshot"]["state"].clone();
        if !find(&state, "weaving").is_null() {
            break state;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    };
    let weaving = find(&state, "weaving");
    assert_eq!(
        (&weaving["enabled"], &weaving["status"]),
        (&json!(true), &json!("loaded"))
    );
    assert!(!find(&state, "loom").is_null());
    let uri = weaving["customization"]["uri"].clone();
    let off = json!({ "type": "session/customizationToggled", "session": session, "uri": uri, "enabled": false });
    let seq = seed.dispatch_seed(off).await;
    let verdict = seed.verdict(seq).await;
    assert_eq!(verdict["action"]["enabled"], false, "{verdict}");
    let answer = seed.request("subscribe", json!({ "resource": session })).await.unwrap();
    assert_eq!(find(&answer["snapshot"]["state"], "weaving")["enabled"], false);
}

/// What people do to the files of a project while a session is open is shown to whoever looks, and the next turn has it.
#[tokio::test]
async fn files_that_change_are_shown_live_and_used_by_the_next_turn() {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    furnish(&house);
    let (mut a, mut b) = (house.client("a").await, house.client_of("b", "0.1.0").await);
    let (session, chat) = a.session(&uuid(1)).await;
    b.request("subscribe", json!({ "resource": session })).await.unwrap();
    let first = asked(&models, &mut a, &chat, "t1").await;
    assert!(
        first.contains("how to weave a carpet") && first.contains("loom-spin"),
        "{first}"
    );
    a.drain().await;
    let work = house.work();
    // Whoever listens is told without asking.
    put(
        work.join(".github/skills/dyeing/SKILL.md"),
        "---\nname: dyeing\ndescription: how to dye wool\n---\nmadder and woad\n",
    );
    a.until(|message| {
        let action = &message["params"]["action"];
        let kind = action["type"].as_str().unwrap_or_default();
        kind.starts_with("session/customization") && action.to_string().contains("how to dye wool")
    })
    .await;
    b.until(|message| message["params"]["action"].to_string().contains("dyeing"))
        .await;
    std::fs::remove_dir_all(work.join(".github/skills/weaving")).unwrap();
    std::fs::remove_file(work.join(".github/agents/knitter.md")).unwrap();
    put(
        work.join(".claude/agents/felter.md"),
        "---\nname: felter\ndescription: felts a hat\n---\nYou felt.\n",
    );
    put(work.join(".github/prompts/card.prompt.md"), "Card the wool.");
    put(work.join(".github/hooks/guard.json"), r#"{"version": 1, "hooks": {}}"#);
    put(
        house.dir.path().join("home/hooks/own.json"),
        r#"{"version": 1, "hooks": {}}"#,
    );
    let script = house.dir.path().join("loom.sh");
    let servers = json!({ "mcpServers": { "mill": { "command": "bash", "args": [script] } } });
    put(house.dir.path().join("home/mcp-config.json"), &servers.to_string());
    let gone = ["weaving", "knitter", "loom"];
    let new = [
        ("felter", "agent"),
        ("card", "prompt"),
        ("guard", "hook"),
        ("own", "hook"),
        ("mill", "mcpServer"),
    ];
    let state = once(&mut a, &session, |state| {
        gone.iter().all(|name| named(state, name).is_null())
            && new.iter().all(|(name, kind)| named(state, name)["type"] == *kind)
    })
    .await;
    // Nobody said that this folder is trusted, so its hooks are not run.
    assert_eq!(named(&state, "guard")["enabled"], false);
    assert_eq!(named(&state, "own")["enabled"], true);
    // A message that comes right behind a change finds it.
    put(work.join("AGENTS.md"), "Count your stitches.");
    put(
        work.join(".github/skills/fulling/SKILL.md"),
        "---\nname: fulling\ndescription: how to full cloth\n---\nhot and wet\n",
    );
    let second = asked(&models, &mut a, &chat, "t2").await;
    for (words, there) in [
        ("how to dye wool", true),
        ("how to full cloth", true),
        ("felts a hat", true),
        ("mill-spin", true),
        ("Count your stitches", true),
        ("how to weave a carpet", false),
        ("knits a jumper", false),
        ("loom-spin", false),
        ("Never drop a stitch", false),
    ] {
        assert_eq!(second.contains(words), there, "{words}: {second}");
    }
}

/// An MCP server whose tool sends people to a page and says what they said to that.
const GUIDE: &str = r#"while IFS= read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case "$line" in
*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"guide","version":"1"}}' ;;
*'"tools/list"'*) result='{"tools":[{"name":"send","inputSchema":{"type":"object"}}]}' ;;
*'"tools/call"'*)
  printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","message":"Look there","url":"https://example.com/docs","elicitationId":"e"}}\n'
  IFS= read -r answer
  action=$(printf '%s' "$answer" | sed -n 's/.*"action":"\([a-z]*\)".*/\1/p')
  result='{"content":[{"type":"text","text":"visited: '$action'"}]}' ;;
*) result='{}' ;;
esac
[ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

#[tokio::test]
async fn a_server_sends_somebody_to_a_page() {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    let script = house.dir.path().join("guide.sh");
    put(&script, GUIDE);
    let servers = json!({ "mcpServers": { "guide": { "command": "bash", "args": [script] } } });
    put(house.dir.path().join("home/mcp-config.json"), &servers.to_string());
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let trusting = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    a.accepted(&session, trusting).await;
    for (turn, response) in [("t1", "accept"), ("t2", "decline")] {
        models.reply(Reply::call(turn, "guide-send", "{}"));
        models.reply(Reply::text("yes"));
        a.say(&chat, turn, "go on").await;
        let asked = a.action("chat/inputRequested").await["action"]["request"].clone();
        assert_eq!(
            (&asked["message"], &asked["url"], asked.get("questions")),
            (&json!("Look there"), &json!("https://example.com/docs"), None)
        );
        let answer = json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": response });
        a.accepted(&chat, answer).await;
        a.ends(&chat, turn).await;
        let heard = models.last_request().body["messages"].to_string();
        assert!(heard.contains(&format!("visited: {response}")), "{heard}");
    }
}
