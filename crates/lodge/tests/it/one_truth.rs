//! Whatever is true of a session is so whichever face one looks through: at once, after SIGKILL, and after every file is
//! deleted that is derived from the logs and the registers.
//!
//! A row says what changes and through which face, and how each face that has a word for it tells it. Rows that are true
//! together are a test, with a session of its own, so that no row overtakes another and each is looked at after the kill. Every
//! value is another one than a session has by itself, unless the row takes one back.
//!
//! Where a face has no word for something the row has a blank: the SDKs know nothing of read and archived marks and of drafts
//! of text, AHP nothing of schedules and of sums of a session, and editors (ACP) nothing of any of these, of what is switched
//! off and of messages that wait. A terminal shows how the session works and what waits, and lists titles; about the rest it
//! says nothing.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use testkit::Home;

use crate::{
    accepted::Client,
    acp::Editor,
    chat::Screen,
    strangers::{Host, Sdk},
};

/// Only a host that never tells it fails: machines may be busy.
const TRIES: usize = 600;

type Sees = Box<dyn Fn(&Value) -> bool>;

enum Change {
    Ahp(On, Value),
    Sdk(&'static str, Value),
    /// By an editor.
    Acp(&'static str, Value),
    /// An app has a turn that ends.
    Turn(&'static str),
    /// Somebody at a command line, where no host runs. `ID` is the session.
    Cli(&'static [&'static str]),
    /// What was done for the row before did this as well.
    Same,
}

#[derive(Clone, Copy)]
enum On {
    Session,
    Chat,
}

struct Row {
    what: &'static str,
    /// What is so before, where the row takes it back.
    takes_back: Option<Change>,
    change: Change,
    /// How a client of AHP sees it, in the state of the session or of its chat.
    ahp: Option<(On, Sees)>,
    /// How an app sees it.
    sdk: Option<(&'static str, Sees)>,
    /// How an editor sees it that loads the session, or lists it.
    acp: Option<Sees>,
    /// How a person sees it at a terminal.
    terminal: Option<Terminal>,
}

type Reads = Box<dyn Fn(&str) -> bool>;

enum Terminal {
    /// On the screen of one that has the session open.
    Screen(Reads),
    /// In what `lodge sessions list` prints.
    List(&'static str),
}

impl Row {
    fn in_editors(self, sees: Sees) -> Self {
        Self {
            acp: Some(sees),
            ..self
        }
    }

    fn takes_back(self, change: Change) -> Self {
        Self {
            takes_back: Some(change),
            ..self
        }
    }

    /// The last row of a terminal has this piece.
    fn in_status(self, piece: &'static str) -> Self {
        self.on_screen(move |screen| pieces(screen).any(|shown| shown == piece))
    }

    fn on_screen(self, reads: impl Fn(&str) -> bool + 'static) -> Self {
        Self {
            terminal: Some(Terminal::Screen(Box::new(reads))),
            ..self
        }
    }

    fn in_list(self, title: &'static str) -> Self {
        Self {
            terminal: Some(Terminal::List(title)),
            ..self
        }
    }
}

/// What the last row of a screen says.
fn pieces(screen: &str) -> impl Iterator<Item = &str> {
    let last = screen.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or_default().split(" · ").map(str::trim)
}

fn sees(fits: impl Fn(&Value) -> bool + 'static) -> Sees {
    Box::new(fits)
}

fn at(pointer: &'static str, value: impl Into<Value>) -> Sees {
    let value = value.into();
    sees(move |found| found.pointer(pointer) == Some(&value))
}

/// Somewhere in the answer.
fn has(text: impl Into<String>) -> Sees {
    let text = text.into();
    sees(move |found| found.to_string().contains(&text))
}

/// Both in the answer, one before the other.
fn in_order(texts: [&'static str; 2]) -> Sees {
    sees(move |found| are_in_order(&found.to_string(), texts))
}

fn shown_in_order(texts: [&'static str; 2]) -> impl Fn(&str) -> bool {
    move |screen| are_in_order(screen, texts)
}

fn are_in_order(text: &str, texts: [&str; 2]) -> bool {
    let [first, last] = texts.map(|wanted| text.find(wanted));
    first.is_some() && first < last
}

/// The thing of this name, with this at a key.
fn named(name: &'static str, key: &'static str, value: impl Into<Value>) -> Sees {
    let value = value.into();
    fn find<'a>(found: &'a Value, name: &str) -> Option<&'a Value> {
        match found {
            Value::Object(map) if map.get("name").is_some_and(|known| known == name) => Some(found),
            Value::Object(map) => map.values().find_map(|value| find(value, name)),
            Value::Array(list) => list.iter().find_map(|value| find(value, name)),
            _ => None,
        }
    }
    sees(move |found| find(found, name).is_some_and(|thing| thing.pointer(key) == Some(&value)))
}

/// What is chosen for an option of an editor.
fn option(id: &'static str, value: &'static str) -> Sees {
    sees(move |seen| {
        let options = seen["configOptions"].as_array().into_iter().flatten();
        options
            .filter(|option| option["id"] == id)
            .any(|option| option["currentValue"] == value)
    })
}

fn choose(id: &str, value: &str) -> Value {
    json!({ "configId": id, "value": value })
}

fn config(key: &str, value: &str) -> Value {
    json!({ "type": "session/configChanged", "config": { key: value } })
}

fn pending(id: &str, text: &str) -> Value {
    let message = json!({ "text": text, "origin": { "kind": "user" } });
    json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message })
}

fn steering(id: &str, text: &str) -> Value {
    let mut message = pending(id, text);
    message["kind"] = "steering".into();
    message
}

fn toggle(id: String, kind: &str) -> Value {
    json!({ "type": "session/customizationToggled", "id": id, "enablement": [{ "kind": kind, "enabled": false }] })
}

/// Bits of a session's status.
const READ: u64 = 32;
const ARCHIVED: u64 = 64;

fn row(what: &'static str, change: Change, ahp: Option<(On, Sees)>, sdk: Option<(&'static str, Sees)>) -> Row {
    Row {
        what,
        takes_back: None,
        change,
        ahp,
        sdk,
        acp: None,
        terminal: None,
    }
}

/// What each face says of a model.
fn model(what: &'static str, change: Change, id: &'static str) -> Row {
    let ahp = (On::Session, at("/config/values/model", id));
    let sdk = ("session.model.getCurrent", at("/modelId", id));
    row(what, change, Some(ahp), Some(sdk))
        .in_editors(option("model", id))
        .in_status(id)
}

fn mode(what: &'static str, change: Change, mode: &'static str) -> Row {
    let ahp = (On::Session, at("/config/values/mode", mode));
    row(what, change, Some(ahp), Some(("session.mode.get", at("", mode))))
        .in_editors(at("/modes/currentModeId", mode))
        .in_status(mode)
}

/// Everything is approved.
fn approves(what: &'static str, change: Change) -> Row {
    let ahp = (On::Session, at("/config/values/autoApprove", "autoApprove"));
    let sdk = ("session.permissions.getMode", at("/mode", "allow-all"));
    row(what, change, Some(ahp), Some(sdk))
        .in_editors(option("approval", "all"))
        .in_status("auto-approve on")
}

/// Everything is asked about again.
fn asks(what: &'static str, change: Change) -> Row {
    let ahp = (On::Session, at("/config/values/autoApprove", "default"));
    let sdk = ("session.permissions.getMode", at("/mode", "manual"));
    row(what, change, Some(ahp), Some(sdk)).on_screen(|screen| pieces(screen).all(|piece| piece != "auto-approve on"))
}

fn title(what: &'static str, change: Change, title: &'static str) -> Row {
    let ahp = (On::Session, at("/title", title));
    row(what, change, Some(ahp), Some(("session.name.get", has(title))))
        .in_editors(at("/listed/title", title))
        .in_list(title)
}

fn uri(work: &Path, name: &str) -> String {
    format!("file://{}", work.join(name).display())
}

fn path(work: &Path, name: &str) -> String {
    work.join(name).display().to_string()
}

fn settings_by_ahp(work: &Path) -> Vec<Row> {
    use Change::{Ahp, Sdk, Turn};
    let flag = |bit: u64| sees(move |state| state["status"].as_u64().is_some_and(|status| status & bit != 0));
    vec![
        row(
            "what was spent",
            Turn("say spent"),
            None,
            Some((
                "session.usage.getMetrics",
                at("/modelMetrics/rehearsal/requests/count", 2),
            )),
        )
        .on_screen(|screen| pieces(screen).any(|piece| piece.contains('↑') && piece.ends_with('↓'))),
        model("the model", Ahp(On::Session, config("model", "mine")), "mine"),
        mode("the mode", Ahp(On::Session, config("mode", "plan")), "plan"),
        approves(
            "the approval mode",
            Ahp(On::Session, config("autoApprove", "autoApprove")),
        ),
        title(
            "the title",
            Ahp(
                On::Session,
                json!({ "type": "session/titleChanged", "title": "Carpet" }),
            ),
            "Carpet",
        ),
        title(
            "a name that an app makes up afterwards",
            Sdk("session.name.setAuto", json!({ "summary": "Textiles" })),
            "Carpet",
        ),
        row(
            "a directory",
            Ahp(
                On::Session,
                json!({ "type": "session/workingDirectorySet", "directory": uri(work, "one") }),
            ),
            Some((On::Session, at("/workingDirectories/1", uri(work, "one")))),
            Some((
                "session.permissions.paths.list",
                at("/directories/1", path(work, "one")),
            )),
        )
        .in_editors(at("/listed/additionalDirectories/0", path(work, "one"))),
        row(
            "that it was read",
            Ahp(On::Session, json!({ "type": "session/isReadChanged", "isRead": true })),
            Some((On::Session, flag(READ))),
            None,
        ),
        row(
            "that it is archived",
            Ahp(
                On::Session,
                json!({ "type": "session/isArchivedChanged", "isArchived": true }),
            ),
            Some((On::Session, flag(ARCHIVED))),
            None,
        ),
        row(
            "the draft of a message",
            Ahp(
                On::Chat,
                json!({ "type": "chat/draftChanged", "draft": { "text": "half a th", "origin": { "kind": "user" } } }),
            ),
            Some((On::Chat, at("/draft/text", "half a th"))),
            None,
        ),
        row(
            "a skill that is off in the session",
            Ahp(On::Session, toggle("@weaving".into(), "session")),
            Some((On::Session, named("weaving", "/enabled", false))),
            Some(("session.skills.list", named("weaving", "/enabled", false))),
        ),
        row(
            "an agent that is off in the session",
            Ahp(On::Session, toggle("@knitter".into(), "session")),
            Some((On::Session, named("knitter", "/enabled", false))),
            Some((
                "session.tools.getSubagentSettings",
                at("/subagents/disabledSubagents/0", "knitter"),
            )),
        ),
        row(
            "a server that is off in the session",
            Ahp(On::Session, toggle("@loom".into(), "session")),
            Some((On::Session, named("loom", "/enablement/0/enabled", false))),
            Some(("session.mcp.list", named("loom", "/status", "disabled"))),
        ),
    ]
}

fn settings_by_an_app(work: &Path) -> Vec<Row> {
    use Change::Sdk;
    vec![
        model(
            "the model",
            Sdk("session.model.switchTo", json!({ "modelId": "yours" })),
            "yours",
        ),
        mode(
            "the mode",
            Sdk("session.mode.set", json!({ "mode": "autopilot" })),
            "autopilot",
        ),
        approves(
            "the approval mode",
            Sdk("session.permissions.setMode", json!({ "mode": "allow-all" })),
        ),
        title(
            "the title",
            Sdk("session.name.set", json!({ "name": "Jumper" })),
            "Jumper",
        ),
        row(
            "a directory",
            Sdk("session.permissions.paths.add", json!({ "path": path(work, "two") })),
            Some((On::Session, at("/workingDirectories/1", uri(work, "two")))),
            Some((
                "session.permissions.paths.list",
                at("/directories/1", path(work, "two")),
            )),
        )
        .in_editors(at("/listed/additionalDirectories/0", path(work, "two"))),
        row(
            "a skill that is off in the session",
            Sdk("session.skills.disable", json!({ "name": "spinning" })),
            Some((On::Session, named("spinning", "/enabled", false))),
            Some(("session.skills.list", named("spinning", "/enabled", false))),
        ),
        row(
            "kinds of sub-agents that are off in the session",
            Sdk(
                "session.tools.updateSubagentSettings",
                json!({ "subagents": { "disabledSubagents": ["knitter", "explore"] } }),
            ),
            Some((On::Session, named("knitter", "/enabled", false))),
            Some((
                "session.tools.getSubagentSettings",
                at("/subagents/disabledSubagents", json!(["explore", "knitter"])),
            )),
        ),
        row(
            "a server that is off in the session",
            Sdk("session.mcp.disable", json!({ "serverName": "wheel" })),
            Some((On::Session, named("wheel", "/enablement/0/enabled", false))),
            Some(("session.mcp.list", named("wheel", "/status", "disabled"))),
        ),
        row(
            "a skill that is off for all",
            Sdk(
                "skills.config.setDisabledSkills",
                json!({ "disabledSkills": ["dyeing"] }),
            ),
            Some((On::Session, named("dyeing", "/enabled", false))),
            Some(("session.skills.list", named("dyeing", "/enabled", false))),
        ),
        row(
            "a schedule",
            Sdk(
                "session.schedule.add",
                json!({ "prompt": "say later", "interval": "7d" }),
            ),
            None,
            Some(("session.schedule.list", has("say later"))),
        ),
    ]
}

fn settings_by_an_editor() -> Vec<Row> {
    use Change::Acp;
    vec![
        model(
            "the model",
            Acp("session/set_config_option", choose("model", "mine")),
            "mine",
        ),
        mode("the mode", Acp("session/set_mode", json!({ "modeId": "plan" })), "plan"),
        approves(
            "the approval mode",
            Acp("session/set_config_option", choose("approval", "all")),
        ),
    ]
}

fn settings_at_a_command_line() -> Vec<Row> {
    let command = &[
        "run",
        "--resume",
        "ID",
        "--model",
        "yours",
        "--mode",
        "autopilot",
        "/rename Rug",
    ];
    vec![
        model("the model", Change::Cli(command), "yours"),
        mode("the mode", Change::Same, "autopilot"),
        title("the title", Change::Same, "Rug"),
    ]
}

fn taken_back() -> Vec<Row> {
    use Change::{Acp, Ahp, Sdk};
    let all = || Ahp(On::Session, config("autoApprove", "autoApprove"));
    vec![
        asks(
            "the approval mode, by AHP",
            Ahp(On::Session, config("autoApprove", "default")),
        )
        .takes_back(all()),
        asks(
            "the approval mode, by an app",
            Sdk("session.permissions.setMode", json!({ "mode": "manual" })),
        )
        .takes_back(all()),
        asks(
            "the approval mode, by an editor",
            Acp("session/set_config_option", choose("approval", "safe")),
        )
        .takes_back(all()),
        model(
            "the model",
            Acp("session/set_config_option", choose("model", "rehearsal")),
            "rehearsal",
        )
        .takes_back(Ahp(On::Session, config("model", "mine"))),
    ]
}

/// Somebody is shown no such message.
fn hides(what: &'static str, change: Change, text: &'static str) -> Row {
    let hidden = move || sees(move |found: &Value| !found.to_string().contains(text));
    row(
        what,
        change,
        Some((
            On::Chat,
            sees(move |chat| !chat["queuedMessages"].to_string().contains(text)),
        )),
        Some(("session.queue.pendingItems", hidden())),
    )
    .on_screen(move |screen| !screen.contains(&format!("queued: {text}")))
}

/// A terminal shows three of them.
fn waiting() -> Vec<Row> {
    use Change::{Ahp, Sdk};
    let mut swatch = pending("q2", "say four");
    swatch["message"]["attachments"] = json!([{ "type": "simple", "label": "a swatch" }]);
    vec![
        row(
            "a message that waits, by AHP",
            Ahp(On::Chat, pending("q1", "say one")),
            Some((On::Chat, at("/queuedMessages/0/message/text", "say one"))),
            Some(("session.queue.pendingItems", has("say one"))),
        )
        .on_screen(|screen| screen.contains("queued: say one")),
        row(
            "what only people see of a message that waits",
            Ahp(On::Chat, swatch),
            Some((On::Chat, has("a swatch"))),
            Some(("session.queue.pendingItems", has("say four"))),
        )
        .on_screen(|screen| screen.contains("queued: say four")),
        row(
            "a message that waits, by an app",
            Sdk("session.send", json!({ "prompt": "say two", "mode": "enqueue" })),
            Some((On::Chat, at("/queuedMessages/2/message/text", "say two"))),
            Some(("session.queue.pendingItems", has("say two"))),
        )
        .on_screen(|screen| screen.contains("queued: say two")),
    ]
}

fn changed() -> Vec<Row> {
    use Change::{Ahp, Sdk};
    vec![
        row(
            "other words for a message that waits",
            Sdk("session.queue.updateText", json!({ "id": "q1", "prompt": "say three" })),
            Some((On::Chat, has("say three"))),
            Some(("session.queue.pendingItems", has("say three"))),
        )
        .takes_back(Ahp(On::Chat, pending("q1", "say what")))
        .on_screen(|screen| screen.contains("queued: say three") && !screen.contains("say what")),
        row(
            "another order, by an app",
            Sdk("session.queue.moveItem", json!({ "id": "q2", "toPosition": 0 })),
            Some((On::Chat, in_order(["say five", "say three"]))),
            Some(("session.queue.pendingItems", in_order(["say five", "say three"]))),
        )
        .takes_back(Ahp(On::Chat, pending("q2", "say five")))
        .on_screen(shown_in_order(["queued: say five", "queued: say three"])),
        row(
            "another order, by AHP",
            Ahp(
                On::Chat,
                json!({ "type": "chat/queuedMessagesReordered", "order": ["q3", "q2", "q1"] }),
            ),
            Some((On::Chat, in_order(["say six", "say five"]))),
            Some(("session.queue.pendingItems", in_order(["say six", "say five"]))),
        )
        .takes_back(Ahp(On::Chat, pending("q3", "say six")))
        .on_screen(shown_in_order(["queued: say six", "queued: say five"])),
        row(
            "a message that steers, by AHP",
            Ahp(On::Chat, steering("s1", "say left")),
            Some((On::Chat, at("/steeringMessage/id", "s1"))),
            Some(("session.queue.pendingItems", has("say left"))),
        )
        .on_screen(|screen| screen.contains("steering: say left")),
    ]
}

fn removed() -> Vec<Row> {
    use Change::{Ahp, Sdk};
    vec![
        hides(
            "a message that waits no more, by AHP",
            Ahp(
                On::Chat,
                json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "q1" }),
            ),
            "say one",
        )
        .takes_back(Ahp(On::Chat, pending("q1", "say one"))),
        hides(
            "a message that waits no more, by an app",
            Sdk("session.queue.removeAt", json!({ "id": "q2" })),
            "say two",
        )
        .takes_back(Ahp(On::Chat, pending("q2", "say two"))),
        hides(
            "the last message that waited, by an app",
            Sdk("session.queue.removeMostRecent", json!({})),
            "say three",
        )
        .takes_back(Ahp(On::Chat, pending("q3", "say three"))),
        row(
            "a message that steers, by an app",
            Sdk("session.send", json!({ "prompt": "say right", "mode": "immediate" })),
            Some((On::Chat, at("/steeringMessage/message/text", "say right"))),
            Some(("session.queue.pendingItems", has("say right"))),
        )
        .on_screen(|screen| screen.contains("steering: say right")),
    ]
}

fn cleared() -> Vec<Row> {
    let row = hides(
        "no messages that wait, by an app",
        Change::Sdk("session.queue.clear", json!({})),
        "say one",
    );
    vec![row.takes_back(Change::Ahp(On::Chat, pending("q1", "say one")))]
}

/// What was read already.
#[derive(Default)]
struct AlreadyRead {
    by_editor: Option<Value>,
    in_list: Option<String>,
}

/// Everybody who looks at the session.
struct Lookers {
    ahp: Client,
    sdk: Sdk,
    screen: Screen,
    session: Value,
    channel: String,
    chat: String,
    work: PathBuf,
}

impl Lookers {
    async fn come(host: &Host, session: Value) -> Self {
        let channel = format!("lodge:/{}", session.as_str().unwrap());
        let mut ahp = Client::connect(&host.ahp_url(), "test").await;
        // First: an app that resumes a session which is not in memory has everything asked again, as the SDKs do.
        let chat = ahp.subscribe(&channel).await["defaultChat"]
            .as_str()
            .unwrap()
            .to_owned();
        ahp.subscribe(&chat).await;
        let mut sdk = Sdk::connect(host);
        let resume = json!({ "sessionId": session, "disableResume": true, "enableConfigDiscovery": true });
        sdk.call("session.resume", resume).unwrap();
        let id = session.as_str().unwrap();
        let mut screen = Screen::start(&host.home, &["attach", id], 100);
        screen.until_shows("Type a message");
        Self {
            ahp,
            sdk,
            screen,
            session,
            channel,
            chat,
            work: host.home.work().canonicalize().unwrap(),
        }
    }

    /// The terminal and the host are killed.
    fn leave(&mut self, mut host: Host) -> Home {
        host.running.kill();
        host.running.finish();
        self.end();
        host.home
    }

    fn end(&mut self) {
        self.screen.child.kill().unwrap();
        self.screen.child.wait().unwrap();
    }

    /// An editor that has the session open, and what it was told then.
    fn editor(&mut self, home: &Home) -> (Editor, Value) {
        let mut editor = Editor::ready(home);
        let listed = editor.call("session/list", json!({}));
        let mut listed = listed["sessions"].as_array().unwrap().iter();
        let listed = listed.find(|line| line["sessionId"] == self.session);
        let listed = listed.cloned().unwrap_or_default();
        let mut open = json!({ "sessionId": self.session, "cwd": self.work, "mcpServers": [] });
        if let Some(further) = listed.get("additionalDirectories") {
            open["additionalDirectories"] = further.clone();
        }
        let mut seen = editor.call("session/load", open);
        seen["listed"] = listed;
        (editor, seen)
    }

    fn on(&self, on: On) -> String {
        match on {
            On::Session => self.channel.clone(),
            On::Chat => self.chat.clone(),
        }
    }

    async fn change(&mut self, home: &Home, change: &Change) {
        match change {
            Change::Ahp(on, action) => {
                let channel = self.on(*on);
                let mut action = action.clone();
                if let Some(name) = action["id"].as_str().and_then(|id| id.strip_prefix('@')) {
                    action["id"] = self.id_of(name).await;
                }
                self.ahp.accepted(&channel, action).await;
            }
            Change::Sdk(method, params) => {
                let mut params = params.clone();
                params["sessionId"] = self.session.clone();
                self.sdk.call(method, params).unwrap();
            }
            Change::Acp(method, params) => {
                let (mut editor, _) = self.editor(home);
                let mut params = params.clone();
                params["sessionId"] = self.session.clone();
                editor.call(method, params);
                editor.running.kill();
            }
            Change::Turn(prompt) => {
                let message = json!({ "sessionId": self.session, "prompt": prompt });
                self.sdk.call("session.send", message).unwrap();
                let mut state = Value::Null;
                for _ in 0..TRIES {
                    state = self.ahp.subscribe(&self.chat.clone()).await;
                    if state["turns"].to_string().contains(prompt) {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                panic!("the turn does not end: {state:#}");
            }
            Change::Cli(arguments) => {
                let id = self.session.as_str().unwrap();
                let arguments = arguments.iter().map(|word| if *word == "ID" { id } else { word });
                let _ = home.run(arguments).ok();
            }
            Change::Same => {}
        }
    }

    /// What AHP calls something that is found in files, once that is known.
    async fn id_of(&mut self, name: &str) -> Value {
        fn find(value: &Value, name: &str) -> Option<Value> {
            match value {
                Value::Object(fields) if value["name"] == name && fields.contains_key("id") => {
                    Some(value["id"].clone())
                }
                Value::Object(fields) => fields.values().find_map(|field| find(field, name)),
                Value::Array(items) => items.iter().find_map(|item| find(item, name)),
                _ => None,
            }
        }
        let mut state = Value::Null;
        for _ in 0..TRIES {
            state = self.ahp.subscribe(&self.channel.clone()).await;
            if let Some(id) = find(&state["customizations"], name) {
                return id;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("AHP does not show {name}: {state:#}");
    }

    /// What is read by a program that ends is read once for rows that are looked at together.
    async fn look(&mut self, home: &Home, row: &Row, read: &mut AlreadyRead, when: &str) {
        if let Some((on, sees)) = &row.ahp {
            let channel = self.on(*on);
            let mut state = Value::Null;
            for _ in 0..TRIES {
                state = self.ahp.subscribe(&channel).await;
                if sees(&state) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert!(sees(&state), "{}: AHP does not show it {when}: {state:#}", row.what);
        }
        if let Some((method, sees)) = &row.sdk {
            let told = self.sdk.call(method, json!({ "sessionId": self.session })).unwrap();
            assert!(sees(&told), "{}: {method} does not tell it {when}: {told:#}", row.what);
        }
        if let Some(sees) = &row.acp {
            let seen = read.by_editor.get_or_insert_with(|| {
                let (mut editor, seen) = self.editor(home);
                editor.running.kill();
                seen
            });
            assert!(sees(seen), "{}: ACP does not tell it {when}: {seen:#}", row.what);
        }
        match &row.terminal {
            Some(Terminal::Screen(reads)) => self.screen.until(&format!("{} {when}", row.what), reads),
            Some(Terminal::List(title)) => {
                let list = || home.run(["sessions", "list"]).ok().stdout().to_owned();
                let listed = read.in_list.get_or_insert_with(list);
                assert!(
                    listed.contains(*title),
                    "{}: the list does not tell it {when}: {listed}",
                    row.what
                );
            }
            None => {}
        }
    }
}

/// Gives a home what can be chosen and switched off.
pub(crate) fn furnish(home: &Home) {
    let put = |path: std::path::PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let work = home.work();
    for name in ["one", "two"] {
        std::fs::create_dir_all(work.join(name)).unwrap();
    }
    for name in ["weaving", "spinning", "dyeing"] {
        let skill = format!("---\nname: {name}\ndescription: how it is done\n---\nround and round\n");
        put(work.join(format!(".github/skills/{name}/SKILL.md")), &skill);
    }
    let agent = "---\nname: knitter\ndescription: knits\n---\nYou knit.\n";
    put(work.join(".github/agents/knitter.md"), agent);
    let server = json!({ "command": "cat" });
    let servers = json!({ "mcpServers": { "loom": server, "wheel": server } });
    put(home.path().join("mcp-config.json"), &servers.to_string());
    let config = "default_model = \"rehearsal\"\n[[provider]]\nname = \"local\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
                  [[model]]\nid = \"mine\"\nprovider = \"local\"\n[[model]]\nid = \"yours\"\nprovider = \"local\"\n";
    put(home.path().join("lodge.toml"), config);
}

/// Deletes what is derived from logs and registers.
fn forget_derived(home: &Path) {
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if name.starts_with("catalogue.db") || name == "events.idx" || name == "workspace.yaml" {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }
    let _ = std::fs::remove_dir_all(home.join("ahp"));
}

/// Whether a turn runs all the while, which the kill interrupts.
#[derive(Clone, Copy, PartialEq)]
enum Session {
    Idle,
    Busy,
}

/// Every face tells what is true of a session at once, after a kill, and without derived files.
async fn is_true_everywhere(kind: Session, rows: impl FnOnce(&Path) -> Vec<Row>) {
    let home = Home::new();
    furnish(&home);
    let work = home.work().canonicalize().unwrap();
    let rows = rows(&work);
    let mut host = Host::start_in(home, "");
    let mut sdk = Sdk::connect(&host);
    let new = json!({ "workingDirectory": work, "requestPermission": true, "enableConfigDiscovery": true });
    let session = sdk.call("session.create", new).unwrap()["sessionId"].clone();
    let mut lookers = Lookers::come(&host, session.clone()).await;
    // One without a message is in few lists.
    lookers.change(&host.home, &Change::Turn("say begun")).await;
    if kind == Session::Busy {
        let long = json!({ "sessionId": session, "prompt": "wait 600 s" });
        lookers.sdk.call("session.send", long).unwrap();
    }
    for row in &rows {
        if let Some(before) = &row.takes_back {
            lookers.change(&host.home, before).await;
        }
        if matches!(row.change, Change::Cli(_)) {
            let home = lookers.leave(host);
            lookers.change(&home, &row.change).await;
            host = Host::start_in(home, "");
            lookers = Lookers::come(&host, session.clone()).await;
        } else {
            lookers.change(&host.home, &row.change).await;
        }
        let mut read = AlreadyRead::default();
        lookers.look(&host.home, row, &mut read, "at once").await;
    }
    for when in ["after kill -9", "without derived files"] {
        let home = lookers.leave(host);
        if when == "without derived files" {
            forget_derived(&home.path());
        }
        host = Host::start_in(home, "");
        lookers = Lookers::come(&host, session.clone()).await;
        let mut read = AlreadyRead::default();
        for row in &rows {
            lookers.look(&host.home, row, &mut read, when).await;
        }
    }
    lookers.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_of_ahp_sets_is_true_everywhere() {
    is_true_everywhere(Session::Idle, settings_by_ahp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_app_sets_is_true_everywhere() {
    is_true_everywhere(Session::Idle, settings_by_an_app).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_editor_sets_is_true_everywhere() {
    is_true_everywhere(Session::Idle, |_| settings_by_an_editor()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_at_a_command_line_is_true_everywhere() {
    is_true_everywhere(Session::Idle, |_| settings_at_a_command_line()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_back_is_so_everywhere() {
    is_true_everywhere(Session::Idle, |_| taken_back()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_wait_do_so_everywhere() {
    is_true_everywhere(Session::Busy, |_| waiting()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_change_do_so_everywhere() {
    is_true_everywhere(Session::Busy, |_| changed()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_wait_no_more_are_gone_everywhere() {
    is_true_everywhere(Session::Busy, |_| removed()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_cleared_is_empty_everywhere() {
    is_true_everywhere(Session::Busy, |_| cleared()).await;
}
