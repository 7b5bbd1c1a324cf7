//! A session in which everything happens that a session can tell of.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    customizations::{named, once, put, toggle},
    kit::{Client, House, ROOT, turn_started, uuid},
};

/// What people are asked by forms whose answers are in no log: they are for the server, or whoever else asks, alone.
pub(super) const FORMS: [&str; 2] = ["Sign here", "a wants to read"];

/// An MCP server with a tool that answers with text, a picture and data, and one that asks by a form.
const CLERK: &str = r#"while IFS= read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case "$line" in
*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"clerk","version":"1"}}' ;;
*'"tools/list"'*) result='{"tools":[{"name":"stamp","inputSchema":{"type":"object"}},{"name":"sign","inputSchema":{"type":"object"}}]}' ;;
*'"name":"sign"'*)
  printf '{"jsonrpc":"2.0","id":"form","method":"elicitation/create","params":{"message":"Sign here","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Name"}},"required":["name"]}}}\n'
  IFS= read -r answer
  result='{"content":[{"type":"text","text":"signed"}]}' ;;
*'"tools/call"'*) result='{"content":[{"type":"text","text":"stamped"},{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}],"structuredContent":{"stamps":1}}' ;;
*) result='{}' ;;
esac
[ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

/// Prepares the directory that the session works in, and an MCP server.
pub(super) fn furnish(house: &House, work: &Path) {
    put(work.join("seed.txt"), "one\ntwo\nthree\n");
    let skill = "---\nname: weaving\ndescription: how to weave a carpet\n---\nover and under\n";
    put(work.join(".github/skills/weaving/SKILL.md"), skill);
    let agent = "---\nname: knitter\ndescription: knits a jumper\n---\nYou knit.\n";
    put(work.join(".github/agents/knitter.md"), agent);
    put(work.join("AGENTS.md"), "Never drop a stitch.");
    put(work.join(".clerk.sh"), CLERK);
    let servers = json!({ "mcpServers": { "clerk": { "command": "bash", "args": [work.join(".clerk.sh")] } } });
    put(house.dir.path().join("home/mcp-config.json"), &servers.to_string());
    let commit = "git init -q -b main && git add -A && git -c user.email=a@b.c -c user.name=A commit -q -m seed";
    let mut shell = std::process::Command::new("bash");
    let done = shell.args(["-c", commit]).current_dir(work).status().unwrap();
    assert!(done.success());
}

/// The session, and the client that lives it.
pub(super) struct Life {
    a: Client,
    work: PathBuf,
    /// A file that clients may not read.
    outside: String,
    pub(super) session: String,
    pub(super) chat: String,
    turns: usize,
}

impl Life {
    pub(super) async fn begin(house: &House, work: &Path) -> Self {
        let mut a = house.client("a").await;
        let session = format!("lodge:/{}", uuid(1));
        let made = json!({ "channel": session, "workingDirectories": [lodge_ahp::uri::file(work)] });
        a.request("createSession", made).await.unwrap();
        let state = a.subscribe(&session).await["state"].clone();
        let chat = state["defaultChat"].as_str().unwrap().to_owned();
        a.subscribe(&chat).await;
        let outside = house.work().with_file_name("outside.txt");
        put(&outside, "secret");
        put(outside.with_file_name("beside/README.md"), "Beside it.");
        Self {
            a,
            work: work.to_owned(),
            outside: lodge_ahp::uri::file(outside),
            session,
            chat,
            turns: 0,
        }
    }

    pub(super) async fn live(&mut self) {
        self.answers().await;
        self.approvals().await;
        self.questions().await;
        self.agents_and_commands().await;
        self.forms().await;
        self.attachments().await;
        self.settings().await;
        self.chats().await;
        self.arrangements().await;
        self.ends_and_queue().await;
    }

    fn turn_id(&mut self) -> String {
        self.turns += 1;
        format!("t{}", self.turns)
    }

    async fn say(&mut self, text: &str) -> String {
        let turn = self.turn_id();
        self.a.say(&self.chat, &turn, text).await;
        turn
    }

    async fn turn(&mut self, text: &str) {
        let turn = self.say(text).await;
        self.a.ends(&self.chat, &turn).await;
    }

    /// Says something that needs one approval, and answers it with these fields.
    async fn decides(&mut self, text: &str, fields: Value) {
        let turn = self.say(text).await;
        self.confirm(&turn, fields).await;
        self.a.ends(&self.chat, &turn).await;
    }

    /// The tool call of a turn, as it is when it runs or waits for an approval.
    async fn ready(&mut self, turn: &str) -> Value {
        let is_it = |message: &Value| {
            let action = &message["params"]["action"];
            action["type"] == "chat/toolCallReady" && action["turnId"] == turn
        };
        self.a.until(is_it).await["params"]["action"].clone()
    }

    async fn confirm(&mut self, turn: &str, fields: Value) {
        let ready = self.ready(turn).await;
        assert_eq!(ready.get("confirmed"), None, "{ready}");
        let call = &ready["toolCallId"];
        let mut confirmed = json!({ "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": call });
        confirmed
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        self.a.accepted(&self.chat, confirmed).await;
    }

    /// Answers the next question.
    async fn answers_with(&mut self, value: Value) {
        self.fills_in("answer", value).await;
    }

    /// Answers the field of the next form.
    async fn fills_in(&mut self, field: &str, value: Value) {
        let request = self.a.action("chat/inputRequested").await["action"]["request"].clone();
        let answers = json!({ (field): { "state": "submitted", "value": value } });
        let completed = json!({
            "type": "chat/inputCompleted", "requestId": request["id"], "response": "accept", "answers": answers,
        });
        self.a.accepted(&self.chat, completed).await;
    }

    async fn cancel(&mut self, turn: &str) {
        let cancelled = json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 1 });
        self.a.accepted(&self.chat, cancelled).await;
    }

    async fn streams(&mut self, turn: &str) {
        self.a
            .until(|message| {
                let action = &message["params"]["action"];
                action["type"] == "chat/delta" && action["turnId"] == turn
            })
            .await;
    }

    async fn answers(&mut self) {
        self.turn("think about doors then say They open.").await;
        self.turn("think secretly").await;
        self.turn("report usage 1000 in 50 out 900 cached").await;
        self.turn("call an unknown tool then say hm").await;
        self.turn("call bash with malformed arguments then say hm").await;
        self.turn("fail with server error 1 times then say better").await;
    }

    async fn approvals(&mut self) {
        let bash = |command: &str| {
            let call = json!({ "command": command, "description": "Do a thing" });
            format!("call bash {call} then say done")
        };
        let allow = |option: &str| json!({ "approved": true, "confirmed": "user-action", "selectedOptionId": option });
        self.decides(&bash("touch made"), allow("allow-once")).await;
        let denied = json!({
            "approved": false, "reason": "denied", "reasonMessage": "Not today",
            "selectedOptionId": "deny",
        });
        self.decides(&bash("touch other"), denied).await;
        let edited = json!({ "approved": true, "confirmed": "user-action", "editedToolInput": "touch edited" });
        self.decides(&bash("touch wanted"), edited).await;
        self.decides(
            &bash("touch bare"),
            json!({ "approved": true, "confirmed": "user-action" }),
        )
        .await;
        let edit = json!({ "path": "seed.txt", "old_str": "two", "new_str": "zwei" });
        self.decides(&format!("call edit {edit} then say changed"), allow("allow-once"))
            .await;
        let create = json!({ "path": "note.txt", "file_text": "one\ntwo\n" });
        self.decides(
            &format!("call create {create} then say written"),
            allow("allow-session"),
        )
        .await;
        // What was allowed for the session is not asked about.
        let create = json!({ "path": "more.txt", "file_text": "three\n" });
        self.turn(&format!(
            "call create {create} and view {{\"path\":\"note.txt\"}} then say seen"
        ))
        .await;
        self.decides(&bash("seq 1 20000"), allow("allow-once")).await;
    }

    async fn questions(&mut self) {
        for (asked, value) in [
            (
                "ask \"Which colour?\" choices red, blue",
                json!({ "kind": "selected", "value": "red" }),
            ),
            ("ask \"What name?\"", json!({ "kind": "text", "value": "Ada" })),
        ] {
            let turn = self.say(asked).await;
            self.answers_with(value).await;
            self.a.ends(&self.chat, &turn).await;
        }
        // One that nobody answered.
        let turn = self.say("ask \"Nothing?\"").await;
        self.a.action("chat/inputRequested").await;
        self.cancel(&turn).await;
        self.configure(json!({ "mode": "plan" })).await;
        let planned = "write the plan 1. Look. 2. Leap. then present the plan Look, then leap.";
        let changed = json!({ "kind": "text", "value": "Leap first." });
        let chosen = json!({ "kind": "selected", "value": "interactive" });
        for value in [changed, chosen] {
            let turn = self.say(planned).await;
            self.answers_with(value).await;
            self.a.ends(&self.chat, &turn).await;
        }
        // One that was closed.
        let turn = self.say("ask \"Really?\"").await;
        let request = self.a.action("chat/inputRequested").await["action"]["request"].clone();
        let closed = json!({ "type": "chat/inputCompleted", "requestId": request["id"], "response": "cancel" });
        self.a.accepted(&self.chat, closed).await;
        self.a.ends(&self.chat, &turn).await;
    }

    async fn forms(&mut self) {
        for is_answered in [true, false] {
            let turn = self.say("call clerk-sign {} then say signed").await;
            let allow = json!({ "approved": true, "confirmed": "user-action", "selectedOptionId": "allow-once" });
            self.confirm(&turn, allow).await;
            if is_answered {
                self.fills_in("name", json!({ "kind": "text", "value": "Ada" })).await;
                self.a.ends(&self.chat, &turn).await;
            } else {
                self.a.action("chat/inputRequested").await;
                self.cancel(&turn).await;
            }
        }
        // What streams is in the log when it is long, or after a second. A question that comes before that is before it there.
        let turn = self.say("slowly 50 ms, stream 2000 chunks of 5000 bytes").await;
        self.streams(&turn).await;
        let access = json!({ "channel": ROOT, "uri": self.outside });
        let asked = self.a.start("resourceRequest", access).await;
        self.answers_with(json!({ "kind": "selected", "value": "no" })).await;
        self.a.response(asked).await.unwrap_err();
        self.cancel(&turn).await;
    }

    async fn configure(&mut self, config: Value) {
        let changed = json!({ "type": "session/configChanged", "config": config });
        self.a.accepted(&self.session, changed).await;
    }

    /// Waits until nothing runs, in the background either, after the agent was told of something if it is.
    async fn rests(&mut self, is_told: bool) {
        let chat = self.chat.clone();
        once(&mut self.a, &chat, |state| {
            let last = state["turns"].as_array().and_then(|turns| turns.last());
            let told = last.is_some_and(|turn| turn["message"]["origin"]["kind"] == "systemNotification");
            let works = |key: &str| state.get(key).is_some_and(|value| *value != json!([]));
            !works("activeTurn") && !works("backgroundWork") && (told || !is_told)
        })
        .await;
    }

    async fn agents_and_commands(&mut self) {
        self.turn("start an agent \"think about wool then say hello from below\" then say I heard it")
            .await;
        self.turn("start an agent \"fail with authentication\" then say It failed")
            .await;
        self.turn("start a background agent named scout \"say found\" then say It runs")
            .await;
        self.rests(true).await;
        self.turn("!echo hello; exit 3").await;
        let insert = json!({ "query": "INSERT INTO todos (id, title, status) VALUES ('one', 'Card the wool', 'in_progress')", "description": "Note" });
        self.turn(&format!("call sql {insert} then say noted")).await;
        self.turn("use the skill weaving then say woven").await;
        let allow = json!({ "approved": true, "confirmed": "user-action", "selectedOptionId": "allow-once" });
        self.decides("call clerk-stamp {} then say stamped", allow).await;
        let later = json!({ "command": "sleep 0.2; touch later", "description": "Later", "mode": "async" });
        let allow = json!({ "approved": true, "confirmed": "user-action", "selectedOptionId": "allow-once" });
        self.decides(&format!("call bash {later} then say It goes on"), allow)
            .await;
        self.rests(false).await;
        self.turn("/compact").await;
        self.turn("/help").await;
    }

    async fn attachments(&mut self) {
        let file = lodge_ahp::uri::file(self.work.join("seed.txt"));
        let range = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 1, "character": 2 } });
        let turn = self.turn_id();
        let mut attached = turn_started(&turn, "say attached");
        attached["message"]["model"] = json!({ "id": "rehearsal" });
        attached["message"]["_meta"] = json!({ "mine": 1 });
        attached["message"]["attachments"] = json!([
            { "type": "simple", "label": "A thing", "modelRepresentation": "a thing", "range": { "start": 0, "end": 3 } },
            { "type": "embeddedResource", "label": "x.txt", "data": "eA==", "contentType": "text/plain" },
            { "type": "resource", "label": "seed.txt", "uri": file, "displayKind": "document", "_meta": { "open": true } },
            { "type": "resource", "label": "lines", "uri": file, "displayKind": "selection", "selection": { "range": range } },
            { "type": "resource", "label": "work", "uri": lodge_ahp::uri::file(&self.work), "displayKind": "directory" },
            { "type": "resource", "label": "Untitled-1", "uri": "untitled:Untitled-1", "sizeHint": 3 },
            { "type": "hologram", "label": "Unknown" },
        ]);
        self.a.accepted(&self.chat, attached).await;
        let read = json!({ "result": { "data": "the medlar", "encoding": "utf-8" } });
        self.a.answer("resourceRead", read).await;
        self.a.ends(&self.chat, &turn).await;
    }

    async fn settings(&mut self) {
        let state = once(&mut self.a, &self.session, |state| {
            named(state, "weaving")["id"].is_string()
        })
        .await;
        let off = toggle(&named(&state, "weaving"), false);
        self.a.accepted(&self.session, off).await;
        self.configure(json!({ "autoApprove": "autoApprove" })).await;
        self.turn("call bash {\"command\":\"touch approved\",\"description\":\"Make\"} then say made")
            .await;
        let beside = self.outside.replace("outside.txt", "beside");
        let added = json!({ "type": "session/workingDirectorySet", "directory": beside });
        self.a.accepted(&self.session, added).await;
        let titled = json!({ "type": "session/titleChanged", "title": "A long life" });
        self.a.accepted(&self.session, titled).await;
    }

    async fn chats(&mut self) {
        let default = self.chat.clone();
        let second = "t2";
        for (chat, source) in [
            ("ahp-chat:/peer", Value::Null),
            (
                "ahp-chat:/fork",
                json!({ "kind": "fork", "chat": default, "turnId": second }),
            ),
            (
                "ahp-chat:/side",
                json!({ "kind": "sideChat", "chat": default, "turnId": second }),
            ),
        ] {
            let mut made = json!({ "channel": self.session, "chat": chat });
            if !source.is_null() {
                made["source"] = source;
            }
            self.a.request("createChat", made).await.unwrap();
            self.a.subscribe(chat).await;
            self.a
                .turn(chat, &format!("in {chat}"), "say hello in another chat")
                .await;
        }
        let titled = json!({ "type": "session/titleChanged", "title": "Peer" });
        self.a.dispatch("ahp-chat:/peer", titled).await;
        self.a.action("session/chatUpdated").await;
    }

    async fn arrangements(&mut self) {
        let draft = json!({ "text": "And then", "origin": { "kind": "user" } });
        let drafted = json!({ "type": "chat/draftChanged", "draft": draft });
        self.a.accepted(&self.chat, drafted).await;
        let remarks = format!("{}/annotations", self.session);
        self.a.subscribe(&remarks).await;
        let remark = json!({ "type": "annotations/set", "annotation": {
            "id": "one", "origin": { "session": self.session }, "resolved": false,
            "resource": lodge_ahp::uri::file(self.work.join("seed.txt")),
            "range": { "start": { "line": 0, "character": 0 }, "end": { "line": 1, "character": 1 } },
            "entries": [{ "id": "e1", "text": "too loose" }, { "id": "e2", "text": { "markdown": "*no*" } }],
        } });
        self.a.accepted(&remarks, remark).await;
        let changes = format!("{}/changeset/session", self.session);
        let state = once(&mut self.a, &changes, |state| state["status"] == "ready").await;
        let first = state["files"][0]["id"].clone();
        let reviewed = json!({ "type": "changeset/filesReviewChanged", "files": [first], "reviewed": true });
        self.a.accepted(&changes, reviewed).await;
    }

    async fn ends_and_queue(&mut self) {
        self.turn("fail with authentication").await;
        let turn = self.say("fail with quota").await;
        self.a.ends(&self.chat, &turn).await;
        let resumed = json!({ "type": "chat/turnResume", "turnId": turn });
        self.a.accepted(&self.chat, resumed).await;
        self.a.ends(&self.chat, &turn).await;
        let set = |kind: &str, id: &str, text: &str| {
            let message = json!({ "text": text, "origin": { "kind": "user" }, "_meta": { "mine": id } });
            json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message })
        };
        let turn = self
            .say("slowly 20 ms, stream 100 chunks then call view {\"path\":\"note.txt\"} then say over")
            .await;
        self.streams(&turn).await;
        self.a.accepted(&self.chat, set("queued", "q1", "say queued")).await;
        self.a.accepted(&self.chat, set("steering", "s1", "say steered")).await;
        self.a.ends(&self.chat, "q1").await;
        // A turn that is stopped, and what waits after it.
        let turn = self.say("stream 2000 chunks slowly").await;
        self.streams(&turn).await;
        self.a.accepted(&self.chat, set("queued", "q2", "say waiting")).await;
        self.a
            .accepted(&self.chat, set("queued", "q3", "say waiting, too"))
            .await;
        self.cancel(&turn).await;
        let archived = json!({ "type": "session/isArchivedChanged", "isArchived": true });
        self.a.accepted(&self.session, archived).await;
        let read = json!({ "type": "session/isReadChanged", "isRead": true });
        self.a.accepted(&self.session, read).await;
        self.configure(json!({ "model": "distant" })).await;
    }
}
