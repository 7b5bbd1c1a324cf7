//! What hosted agents say and ask: messages, thoughts, results, titles, questions with forms.

use serde_json::{Value, json};
use testkit::Home;

use crate::{
    acp::{Editor, host, log_of, selected},
    external::{END, GREETING, allow_all, ask, configure, with_agent},
    external_limits::{answer_to, until_lines, update, warnings, with_script},
};

fn chunk(kind: &str, text: &str, id: Option<&str>) -> String {
    update(json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text }, "messageId": id }))
}

/// What an editor shows: the kind, the id and the text of each message.
fn shown(editor: &Editor) -> Vec<(String, Value, String)> {
    let mut all: Vec<(String, Value, String)> = Vec::new();
    for told in &editor.updates {
        let update = &told["update"];
        let kind = update["sessionUpdate"].as_str().unwrap();
        let Some(text) = update["content"]["text"]
            .as_str()
            .filter(|_| kind.starts_with("agent_"))
        else {
            continue;
        };
        match all
            .last_mut()
            .filter(|last| last.0 == kind && last.1 == update["messageId"])
        {
            Some(last) => last.2.push_str(text),
            None => all.push((kind.to_owned(), update["messageId"].clone(), text.to_owned())),
        }
    }
    all
}

#[test]
fn messages_and_thoughts_of_an_agent_are_the_same_live_and_in_the_history() {
    let (text, thought) = ("agent_message_chunk", "agent_thought_chunk");
    let said = [
        (thought, "hm ", None),
        (thought, "hm", None),
        (text, "One ", None),
        (text, "answer.", None),
        (thought, "wait", Some("t1")),
        (thought, "so", Some("t2")),
        (text, "First.", Some("m1")),
        (text, "Second, ", Some("m2")),
        (text, "longer.", Some("m2")),
        (text, "", Some("m3")),
        (text, "Third.", Some("m3")),
    ];
    let script: String = said.iter().map(|(kind, text, id)| chunk(kind, text, *id)).collect();
    let home = with_script("talks", &format!("{GREETING}{script}{END}"));
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "talks");
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    let live = shown(&editor);
    let parts: Vec<(&str, &str)> = live
        .iter()
        .map(|(kind, _, text)| (kind.as_str(), text.as_str()))
        .collect();
    let expected = [
        (thought, "hm hm"),
        (text, "One answer."),
        (thought, "wait"),
        (thought, "so"),
        (text, "First."),
        (text, "Second, longer."),
        (text, "Third."),
    ];
    assert_eq!(parts, expected);
    let mut again = Editor::ready(&home);
    let load = json!({ "sessionId": session, "cwd": again.cwd, "mcpServers": [] });
    again.call("session/load", load);
    assert_eq!(shown(&again), live);
}

#[test]
fn what_a_call_of_an_agent_brings_besides_text_is_kept() {
    let call = |content: Value| {
        let content: Vec<Value> = content
            .as_array()
            .unwrap()
            .iter()
            .map(|block| json!({ "type": "content", "content": block }))
            .collect();
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "content": content })
    };
    let large = "A".repeat(600_000);
    let picture = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
    let script = update(call(json!([
        { "type": "text", "text": "Seen:" },
        picture,
        { "type": "image", "data": large, "mimeType": "image/png" },
        { "type": "resource_link", "name": "page", "uri": "https://example.org/" },
        { "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } },
    ]))) + &update(json!({ "sessionUpdate": "agent_message_chunk",
        "content": { "type": "resource_link", "name": "page", "uri": "https://example.org/" } }));
    let home = with_script("sees", &format!("{GREETING}{script}{END}"));
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "sees");
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    let log = log_of(&home, &session);
    let done = log
        .iter()
        .find(|event| event["type"] == "tool.execution_complete")
        .unwrap();
    let result = &done["data"]["result"];
    let text = result["content"].as_str().unwrap();
    assert!(
        text.starts_with("Seen:\n[page](https://example.org/)\ninside\n(image of 600"),
        "{text}"
    );
    let kinds: Vec<&Value> = result["contents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["type"])
        .collect();
    assert_eq!(kinds, ["text", "image", "resource_link", "resource"]);
    let ended = editor.told("tool_call_update").last().copied().unwrap().to_string();
    assert!(ended.contains("aGk=") && ended.contains("Seen:"), "{ended}");
    assert_eq!(editor.text("agent_message_chunk"), "[page](https://example.org/)");
}

#[test]
fn output_of_a_call_that_takes_the_place_of_other_output_is_shown() {
    let running = |text: &str| {
        update(
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress",
            "content": [{ "type": "content", "content": { "type": "text", "text": text } }] }),
        )
    };
    let script = running("10 % of it") + &running("10 % of it, more") + &running("99 %");
    let home = with_script("counts", &format!("{GREETING}{script}{END}"));
    let host = crate::strangers::Host::start_in(home, "");
    let mut sdk = crate::strangers::Sdk::connect(&host);
    let made = json!({ "model": "counts", "workingDirectory": host.home.work(), "streaming": true });
    let made = sdk.call("session.create", made).unwrap();
    let message = json!({ "sessionId": made["sessionId"], "prompt": "go" });
    sdk.call("session.send", message).unwrap();
    let mut output = String::new();
    loop {
        let message = sdk.waiting.pop_front().unwrap_or_else(|| sdk.next());
        let event = &message["params"]["event"];
        match event["type"].as_str() {
            Some("tool.execution_partial_result") => output += event["data"]["partialOutput"].as_str().unwrap(),
            Some("tool.execution_complete") => break,
            _ => {}
        }
    }
    assert_eq!(output, "10 % of it, more\n99 %");
}

#[test]
fn an_agent_names_its_session_unless_a_person_did() {
    let title = |title: Value| update(json!({ "sessionUpdate": "session_info_update", "title": title }));
    let script = title(json!("Mend the\nroof")) + &title(Value::Null) + &title(json!(7));
    let home = with_script("names", &format!("{GREETING}{script}{END}"));
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "names");
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    let listed = editor.call("session/list", json!({}));
    assert_eq!(listed["sessions"][0]["title"], "Mend the", "{listed}");
    let info = editor.told("session_info_update");
    assert_eq!(info.last().unwrap()["title"], "Mend the");
    let other = with_agent(&mut editor, "names");
    assert_eq!(editor.stops(&other, "/rename Mine"), "end_turn");
    assert_eq!(editor.stops(&other, "go"), "end_turn");
    let listed = editor.call("session/list", json!({}));
    assert_eq!(listed["sessions"][0]["title"], "Mine", "{listed}");
}

#[test]
fn of_many_names_that_an_agent_gives_its_session_in_a_turn_the_first_few_count() {
    let title = |n: u32| update(json!({ "sessionUpdate": "session_info_update", "title": format!("Name {n}") }));
    let script: String = (1..=100).map(title).collect();
    let home = with_script("names", &format!("{GREETING}{script}{END}"));
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "names");
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    let log = log_of(&home, &session);
    let mut named = log.iter().filter(|event| event["type"] == "lodge.named");
    assert_eq!(named.next_back().unwrap()["data"]["name"], "Name 8");
}

#[test]
fn an_agent_gets_attached_texts_and_data_if_it_takes_them() {
    let greeting = GREETING.replace(
        "\"protocolVersion\":1",
        "\"protocolVersion\":1,\"agentCapabilities\":{\"promptCapabilities\":{\"embeddedContext\":true}}",
    );
    let home = with_script(
        "reads",
        &format!("{greeting}printf '%s\\n' \"$line\" > prompt.json\n{END}"),
    );
    let host = crate::strangers::Host::start_in(home, "");
    let mut sdk = crate::strangers::Sdk::connect(&host);
    let made = json!({ "model": "reads", "workingDirectory": host.home.work() });
    let made = sdk.call("session.create", made).unwrap();
    let blob =
        |kind: &str, name: &str| json!({ "type": "blob", "data": "aGk=", "mimeType": kind, "displayName": name });
    let attachments = [
        blob("text/plain", "a b.txt"),
        blob("application/pdf", "x.pdf"),
        blob("image/png", "i.png"),
    ];
    let message = json!({ "sessionId": made["sessionId"], "prompt": "Why?", "attachments": attachments });
    sdk.call("session.send", message).unwrap();
    until_lines(&host.home, "prompt.json", 1);
    let sent = std::fs::read_to_string(host.home.work().join("prompt.json")).unwrap();
    let sent: Value = serde_json::from_str(&sent).unwrap();
    let expected = json!([
        { "type": "text", "text": "Why?" },
        { "type": "resource", "resource": { "uri": "attachment:a%20b.txt", "mimeType": "text/plain", "text": "hi" } },
        { "type": "resource", "resource": { "uri": "attachment:x.pdf", "mimeType": "application/pdf", "blob": "aGk=" } },
    ]);
    assert_eq!(sent["params"]["prompt"], expected);
}

fn asks_always(id: u64) -> String {
    let options = json!([
        { "optionId": "all", "name": "Always", "kind": "allow_always" },
        { "optionId": "n", "name": "No", "kind": "reject_once" },
    ]);
    let call = json!({ "toolCallId": id.to_string(), "kind": "execute", "rawInput": { "command": "touch x" } });
    ask(
        id,
        "session/request_permission",
        json!({ "toolCall": call, "options": options }),
    )
}

#[test]
fn what_an_agent_offers_to_allow_only_for_good_a_person_allows_in_its_words_or_is_told_why_not() {
    let script = format!("{GREETING}{}{}{END}", asks_always(10), asks_always(11));
    let home = Home::new();
    configure(&home, &[("sly", "/bin/sh", &["-c", &script])]);
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "sly");
    let prompt = editor.prompt(&session, "go");
    for action in ["accept", "cancel"] {
        let question = editor.question("session/request_permission");
        editor.answer(&question, selected("allow-once"));
        let form = editor.question("elicitation/create");
        assert!(
            form.to_string().contains("1. Always") && form.to_string().contains("longer than this once"),
            "{form}"
        );
        editor.answer(&form, json!({ "action": action, "content": { "answer": "1. Always" } }));
    }
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "end_turn");
    assert_eq!(answer_to(&home, 10)["result"]["outcome"]["optionId"], "all");
    assert_eq!(answer_to(&home, 11)["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(warnings(&log_of(&home, &session)), [""; 0], "the person knows");
    drop(editor);
    std::fs::remove_file(home.work().join("answers")).unwrap();
    // An editor that shows no forms.
    let mut editor = Editor::with(&home, json!({}));
    let session = with_agent(&mut editor, "sly");
    let prompt = editor.prompt(&session, "go");
    let (answer, asked) = allow_all(&mut editor, prompt);
    assert_eq!((asked.len(), &answer["result"]["stopReason"]), (2, &json!("end_turn")));
    assert_eq!(answer_to(&home, 10)["result"]["outcome"]["outcome"], "cancelled");
    let log = log_of(&home, &session);
    let told = warnings(&log);
    let expected = "A request of the agent sly was refused: the agent offers to allow it only for longer than this once (1. Always), \
                    and no client can show the form in which you choose.";
    assert_eq!(told, [expected; 2]);
}

#[test]
fn people_answer_the_questions_of_an_agent() {
    let form = json!({ "mode": "form", "message": "Which colour?", "requestedSchema": {
        "properties": { "colour": { "type": "string", "enum": ["red", "blue"] } }, "required": ["colour"] } });
    let page = json!({ "mode": "url", "message": "Look here", "elicitationId": "e", "url": "https://example.org/" });
    let script = ask(10, "elicitation/create", form.clone())
        + &ask(11, "elicitation/create", page)
        + &ask(
            12,
            "elicitation/create",
            json!({ "mode": "url", "message": "x", "url": "javascript:x" }),
        )
        + &ask(
            13,
            "elicitation/create",
            json!({ "mode": "form", "message": "x", "requestedSchema": { "type": "array" } }),
        )
        + &ask(14, "elicitation/create", form);
    let home = with_script("curious", &format!("{GREETING}{script}{END}"));
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "curious");
    let prompt = editor.prompt(&session, "go");
    let asked = editor.question("elicitation/create");
    assert_eq!(asked["params"]["message"], "Which colour?");
    assert_eq!(
        asked["params"]["requestedSchema"]["properties"]["colour"]["enum"][1],
        "blue"
    );
    editor.answer(&asked, json!({ "action": "accept", "content": { "colour": "blue" } }));
    let asked = editor.question("elicitation/create");
    assert_eq!(asked["params"]["url"], "https://example.org/", "{asked}");
    editor.answer(&asked, json!({ "action": "decline" }));
    let completed = editor.question("elicitation/complete");
    assert_eq!(completed["params"]["elicitationId"], asked["params"]["elicitationId"]);
    let asked = editor.question("elicitation/create");
    assert_eq!(asked["params"]["message"], "Which colour?");
    editor.answer(&asked, json!({ "action": "cancel" }));
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "end_turn");
    let results = [10, 11, 14].map(|id| answer_to(&home, id)["result"].clone());
    let expected = [
        json!({ "action": "accept", "content": { "colour": "blue" } }),
        json!({ "action": "decline" }),
        json!({ "action": "cancel" }),
    ];
    assert_eq!(results, expected);
    for id in [12, 13] {
        assert!(answer_to(&home, id)["error"].is_object(), "{id}");
    }
    assert!(
        !json!(log_of(&home, &session)).to_string().contains("\"blue\"}"),
        "it is between them"
    );
    drop(editor);
    std::fs::remove_file(home.work().join("answers")).unwrap();
    let mut editor = Editor::with(&home, json!({}));
    let session = with_agent(&mut editor, "curious");
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    assert_eq!(answer_to(&home, 10)["result"], json!({ "action": "cancel" }));
    let log = log_of(&home, &session);
    assert!(warnings(&log)[0].contains("no client can show its form"), "{log:?}");
}

#[test]
fn a_request_that_an_agent_withdraws_is_no_question_any_more() {
    let call = json!({ "toolCallId": "c", "kind": "execute", "rawInput": { "command": "touch x" } });
    let options = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_once" }]);
    let permission = ask(
        10,
        "session/request_permission",
        json!({ "toolCall": call, "options": options }),
    );
    let form =
        json!({ "mode": "form", "message": "Which?", "requestedSchema": { "type": "object", "properties": {} } });
    let form = ask(11, "elicitation/create", form);
    let command = ask(12, "terminal/create", json!({ "command": "touch", "args": ["y"] }));
    // Each is withdrawn once people are asked.
    let script: String = [(10, permission), (11, form), (12, command)]
        .into_iter()
        .map(|(id, asked)| {
            let (asked, reads) = asked.split_once("read -r line").unwrap();
            let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": id } });
            format!("{asked}until [ -e asked{id} ]; do sleep 0.02; done\nsay '{cancel}'\nread -r line{reads}")
        })
        .collect();
    let home = with_script("fickle", &format!("{GREETING}{script}{END}"));
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "fickle");
    let prompt = editor.prompt(&session, "go");
    for (id, method) in [
        (10, "session/request_permission"),
        (11, "elicitation/create"),
        (12, "session/request_permission"),
    ] {
        let asked = editor.question(method);
        std::fs::write(home.work().join(format!("asked{id}")), "").unwrap();
        let withdrawn = editor.question("$/cancel_request");
        assert_eq!(withdrawn["params"]["requestId"], asked["id"], "{id}");
    }
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "end_turn");
    assert_eq!(answer_to(&home, 10)["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(answer_to(&home, 11)["result"]["action"], "cancel");
    assert_eq!(answer_to(&home, 12)["error"]["code"], -32800);
    assert!(!home.work().join("y").exists());
}

#[test]
fn how_full_the_context_of_an_agent_is_is_told_to_whoever_opens_its_session() {
    let usage = update(json!({ "sessionUpdate": "usage_update", "used": 7, "size": 100 }));
    let home = with_script("counts", &format!("{GREETING}{usage}{END}"));
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, "counts");
    assert_eq!(editor.stops(&session, "go"), "end_turn");
    let mut again = Editor::ready(&home);
    let load = json!({ "sessionId": session, "cwd": again.cwd, "mcpServers": [] });
    again.call("session/load", load);
    let known = again.until("usage", |update| update["sessionUpdate"] == "usage_update");
    assert_eq!((&known["used"], &known["size"]), (&json!(7), &json!(100)));
}
