//! The rehearsal model does what `docs/rehearsal.md` says.

use std::{fmt::Write as _, sync::Arc};

use futures_util::{FutureExt, StreamExt};
use lodge_models::{ErrorKind, Image, Message, Model, ModelRequest, Part, Rehearsal, ToolSpec};

use proptest::prelude::*;

use crate::support::{Answer, collect, request, user};

/// Plays a whole turn as the agent loop would: tools answer `ok`, failures that allow it are tried three times.
async fn turn(words: &str) -> String {
    let model = Rehearsal::new();
    let mut request = request(words);
    let mut story = Vec::new();
    loop {
        let answer = collect(&model, request.clone()).await;
        story.push(describe(&answer));
        if let Some(error) = answer.error {
            if error.retryable && request.attempt < 2 {
                request.attempt += 1;
                continue;
            }
            break;
        }
        let message = answer.done.unwrap().message;
        let calls = message.tool_calls.clone();
        request.attempt = 0;
        request.messages.push(Message::Assistant(message));
        if calls.is_empty() {
            break;
        }
        for call in calls {
            request.messages.push(Message::Tool {
                call_id: call.id,
                name: call.name,
                content: "ok".into(),
                images: Vec::new(),
                sources: Vec::new(),
            });
        }
    }
    story.join(" → ")
}

fn describe(answer: &Answer) -> String {
    let mut parts = Vec::new();
    let text = answer.texts.concat();
    if !answer.reasonings.is_empty() {
        parts.push(format!("thinks “{}”", answer.reasonings.concat()));
    }
    if text.len() > 200 && text.starts_with("1.") {
        let [first, .., last] = answer.texts.as_slice() else {
            panic!("several chunks")
        };
        parts.push(format!("says {} chunks from “{first}” to “{last}”", answer.texts.len()));
    } else if !text.is_empty() {
        parts.push(format!("says “{}”", text.replace('\n', "⏎")));
    }
    if let Some(done) = &answer.done {
        if done.message.reasoning_opaque.is_some() {
            parts.push("with sealed reasoning".to_owned());
        }
        for call in &done.message.tool_calls {
            parts.push(format!("calls {} {}", call.name, call.arguments));
        }
        if let (Some(cached), Some(input), Some(output)) = (
            done.usage.cache_read_tokens,
            done.usage.input_tokens,
            done.usage.output_tokens,
        ) {
            parts.push(format!("usage {input} in {output} out {cached} cached"));
        }
    }
    if let Some(error) = &answer.error {
        let mut text = format!("error {}", error.kind.as_str());
        if let Some(status) = error.status {
            write!(text, " {status}").unwrap();
        }
        if let Some(wait) = error.retry_after {
            write!(text, " retry after {} s", wait.as_secs()).unwrap();
        }
        parts.push(text);
    }
    parts.join(", ")
}

#[tokio::test]
async fn slowly_is_slow_enough_to_be_seen() {
    let began = std::time::Instant::now();
    let answer = collect(&Rehearsal::new(), request("stream 10 chunks slowly")).await;
    assert_eq!(answer.texts.len(), 10);
    assert!(began.elapsed().as_millis() >= 200, "{:?}", began.elapsed());
}

#[tokio::test]
async fn every_example_of_the_manual_is_true() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rehearsal.md");
    let manual = std::fs::read_to_string(path).unwrap();
    let (before, table) = manual.split_once("| You say | What happens |\n|---|---|\n").unwrap();
    let (table, after) = table.split_once("\n\n").unwrap();
    let mut rows = Vec::new();
    for row in table.lines() {
        let words = row.strip_prefix("| `").unwrap().split_once("` |").unwrap().0;
        rows.push(format!("| `{words}` | {} |", turn(words).await));
    }
    let rows = rows.join("\n");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(
            path,
            format!("{before}| You say | What happens |\n|---|---|\n{rows}\n\n{after}"),
        )
        .unwrap();
        return;
    }
    assert_eq!(table, rows, "run the test with UPDATE_DOCS=1 and read the difference");
}

#[tokio::test]
async fn newcomers_get_an_answer_that_shows_them_round() {
    for words in [
        "hello",
        "Hi there!",
        "what can you do?",
        "help",
        "Please explain quantum physics",
    ] {
        let answer = turn(words).await;
        assert!(
            answer.contains("docs/rehearsal.md") && answer.contains("ehearsal model"),
            "{words}: {answer}"
        );
    }
}

#[tokio::test]
async fn without_streaming_only_the_whole_answer_comes() {
    let model = Rehearsal::new();
    let request = ModelRequest {
        stream: false,
        ..request("think aloud then say hi then call bash {}")
    };
    let answer = collect(&model, request).await;
    assert!(answer.texts.is_empty() && answer.reasonings.is_empty() && answer.fragments.is_empty());
    let message = answer.done.unwrap().message;
    assert_eq!((&*message.text, message.tool_calls.len()), ("hi", 1));
    assert!(message.reasoning_text.unwrap().starts_with("I shall think aloud."));
}

#[test]
fn a_long_answer_needs_no_timer_and_no_runtime() {
    let mut stream = Rehearsal::new().call(Arc::new(request("stream 50,000 chunks of 16 bytes")));
    let mut count = 0;
    while let Some(item) = stream.next().now_or_never().expect("always ready") {
        count += usize::from(matches!(item, Ok(lodge_models::Chunk::Text(text)) if text.len() == 16));
    }
    assert_eq!(count, 50_000);
}

#[tokio::test]
async fn arguments_and_ids_are_streamed_as_they_end_up() {
    let arguments = r#"{ "command" : "echo \u00fc ünïcödé and quite some more text", "n": 1.0 }"#;
    let words = format!("call bash {arguments} and view {{\"path\":\"a\"}}");
    let answer = collect(&Rehearsal::new(), request(&words)).await;
    let calls = answer.done.unwrap().message.tool_calls;
    assert_eq!(&*calls[0].arguments, arguments);
    for call in &calls {
        let joined: String = answer
            .fragments
            .iter()
            .filter(|(id, ..)| *id == call.id)
            .map(|(.., fragment)| fragment.as_str())
            .collect();
        assert_eq!(joined, *call.arguments);
    }
    assert_ne!(calls[0].id, calls[1].id);
}

#[tokio::test]
async fn the_script_goes_on_past_messages_that_only_the_host_wrote() {
    let model = Rehearsal::new();
    let mut request =
        request("<current_datetime>now</current_datetime>\n\ncall view {\"path\":\"a.png\"} then say seen");
    let first = collect(&model, request.clone()).await.done.unwrap().message;
    let call_id = first.tool_calls[0].id.clone();
    request.messages.push(Message::Assistant(first));
    let content = "Viewed image file successfully.".into();
    request.messages.push(Message::Tool {
        call_id,
        name: "view".to_owned(),
        content,
        images: Vec::new(),
        sources: Vec::new(),
    });
    let image = Image {
        mime_type: "image/png".to_owned(),
        data: "AAAA".into(),
    };
    request.messages.push(Message::User(vec![
        Part::Text("Image file at path a.png".into()),
        Part::Image(image),
    ]));
    request
        .messages
        .push(user("<system_reminder>\nsay no\n</system_reminder>"));
    assert_eq!(
        &*collect(&model, request.clone()).await.done.unwrap().message.text,
        "seen"
    );

    request.messages.push(user("describe the request"));
    request.tools = Arc::new([ToolSpec {
        name: "view".to_owned(),
        description: String::new(),
        parameters: Arc::new(serde_json::json!({})),
    }]);
    let described = collect(&model, request).await.done.unwrap().message.text;
    assert!(
        described.contains("6 messages, 1 image,") && described.contains("1 tool: view"),
        "{described}"
    );
}

#[tokio::test]
async fn it_remembers_what_was_said_and_sums_it_up() {
    let model = Rehearsal::new();
    let mut request = request("say one");
    request.messages.push(user("say two"));
    for (words, start) in [
        (
            "what did I say?",
            "Before this you said 2 things:\n- say one\n- say two",
        ),
        (
            "Please create a detailed summary of the conversation so far. The history is being compacted …",
            "Summary by the rehearsal model of 2 messages. The person said:\n- say one\n- say two",
        ),
    ] {
        let mut request = request.clone();
        request.messages.push(user(words));
        let text = collect(&model, request).await.done.unwrap().message.text;
        assert_eq!(&*text, start);
    }
}

#[tokio::test]
async fn broken_streams_break_after_some_text() {
    let answer = collect(&Rehearsal::new(), request("fail with broken stream")).await;
    let error = answer.error.unwrap();
    assert!(answer.texts.len() > 3);
    assert_eq!(
        (error.kind, error.retryable, error.status),
        (ErrorKind::Connection, true, None)
    );
}

proptest! {
    #[test]
    fn any_words_get_an_answer(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "say", "stream", "3", "chunks", "of", "4 bytes", "think", "aloud", "about", "call", "bash", "{", "}", "{}", "{\"a\":1}",
            "\"", "“", "”", "and", "then", "repeat 2 times", "repeat", "slowly 0 ms", "ask", "\"Q?\"", "choices", "a, b",
            "fail with", "quota", "once", "wait", "0 ms", "report usage", "1 in", "2 out", "malformed arguments", "please", "\n",
            "an unknown tool", ",", ".", "é", "🦀", "<a_b>", "</a_b>", "99999999999999999999999",
        ]), 0..10),
        spaced in any::<bool>(),
    ) {
        let words = words.join(if spaced { " " } else { "" });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(collect(&Rehearsal::new(), request(&words)));
        prop_assert!(answer.done.is_some() || answer.error.is_some());
    }
}
