//! What each wire makes of an answer, streamed and whole, however its bytes are cut.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use futures_util::StreamExt;
use lodge_models::{AssistantMessage, Chunk, Message, ModelRequest, ToolCall, Usage};
use proptest::prelude::*;
use serde_json::json;
use testkit::model_server::{ModelServer, Reply};

use crate::support::{Answer, WIRES, Wire, collect, model, request};

/// What matters of an answer, the same for every wire.
fn told(answer: &Answer) -> String {
    let mut text = String::new();
    if let Some(error) = &answer.error {
        return format!("error {} {:?}", error.kind.as_str(), error.status);
    }
    let done = answer.done.as_ref().unwrap();
    let said = &done.message;
    if let Some(reasoning) = &said.reasoning_text {
        write!(text, "thinks {reasoning:?} ").unwrap();
    }
    if said.reasoning_opaque.is_some() || said.encrypted_content.is_some() {
        text += "sealed ";
    }
    if !said.text.is_empty() {
        write!(text, "says {:?} ", said.text).unwrap();
    }
    for call in &said.tool_calls {
        write!(text, "calls {} {} {} ", call.id, call.name, call.arguments).unwrap();
    }
    let usage = &done.usage;
    let counts = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens.filter(|cached| *cached > 0),
    ];
    write!(text, "{:?}", counts.map(Option::unwrap_or_default)).unwrap();
    text
}

fn replies() -> Vec<(Reply, &'static str)> {
    let usage = Usage {
        input_tokens: Some(100),
        output_tokens: Some(20),
        cache_read_tokens: Some(60),
        ..Usage::default()
    };
    vec![
        (Reply::text("Hello, wörld 🦀!"), r#"says "Hello, wörld 🦀!" [10, 5, 0]"#),
        (Reply::text("counted").usage(usage), r#"says "counted" [100, 20, 60]"#),
        (
            Reply::reasoning("let me see").and_text("seen"),
            r#"thinks "let me see" says "seen" [10, 5, 0]"#,
        ),
        (
            Reply::reasoning("hm")
                .sealed("SEAL")
                .and_call("c1", "bash", r#"{"command":"ls"}"#),
            r#"thinks "hm" sealed calls c1 bash {"command":"ls"} [10, 5, 0]"#,
        ),
        (
            Reply::text("two: ")
                .and_call("c1", "view", r#"{"path":"ä"}"#)
                .and_call("c2", "grep", r#"{"n":1}"#),
            r#"says "two: " calls c1 view {"path":"ä"} calls c2 grep {"n":1} [10, 5, 0]"#,
        ),
    ]
}

#[tokio::test]
async fn answers_mean_the_same_on_every_wire_streamed_and_whole() {
    let server = ModelServer::start();
    for (reply, expected) in replies() {
        for wire in WIRES {
            for stream in [true, false] {
                server.reply(reply.clone().header("x-request-id", "req-7"));
                let request = ModelRequest {
                    stream,
                    ..request("go")
                };
                let answer = collect(&*model(wire, &server), request).await;
                assert_eq!(told(&answer), expected, "{wire:?} stream {stream}");
                let done = answer.done.unwrap();
                assert_eq!(done.provider_call_id.as_deref(), Some("req-7"));
                assert_eq!(done.model.as_deref(), Some("test-model"));
                assert!(done.api_call_id.is_some() && done.usage.raw.is_some() && done.finish_reason.is_some());
                assert_eq!(
                    stream,
                    !answer.texts.is_empty() || !answer.reasonings.is_empty() || !answer.fragments.is_empty()
                );
                for call in &done.message.tool_calls {
                    let joined: String = answer
                        .fragments
                        .iter()
                        .filter(|f| f.0 == call.id)
                        .map(|f| &*f.2)
                        .collect();
                    assert!(!stream || joined == *call.arguments, "{wire:?}: {joined}");
                }
                assert_eq!(
                    server.last_request().body.get("stream").is_some(),
                    stream,
                    "no stream key unless wanted"
                );
            }
        }
    }
}

#[tokio::test]
async fn several_choices_are_one_message() {
    let server = ModelServer::start();
    for stream in [true, false] {
        server.reply(Reply::text("first ").and_call("c1", "bash", "{}").choices_apart());
        let answer = collect(
            &*model(Wire::Chat, &server),
            ModelRequest {
                stream,
                ..request("go")
            },
        )
        .await;
        assert_eq!(told(&answer), r#"says "first " calls c1 bash {} [10, 5, 0]"#);
    }
}

#[tokio::test]
async fn opaque_reasoning_goes_back_verbatim_and_only_to_its_own_wire() {
    let server = ModelServer::start();
    for from in WIRES {
        for stream in [true, false] {
            server.reply(
                Reply::reasoning("deep thought")
                    .sealed("SEAL-42")
                    .and_call("c1", "bash", r#"{ "a": 1.0 }"#),
            );
            let mut request = ModelRequest {
                stream,
                ..request("go")
            };
            let first = collect(&*model(from, &server), request.clone())
                .await
                .done
                .unwrap()
                .message;
            request.messages.push(Message::Assistant(first));
            request.messages.push(Message::Tool {
                call_id: "c1".to_owned(),
                name: "bash".to_owned(),
                content: "ok".into(),
                images: Vec::new(),
                sources: Vec::new(),
            });
            for to in WIRES {
                server.reply(Reply::text("done"));
                collect(&*model(to, &server), request.clone()).await;
                let sent = String::from_utf8(server.last_request().raw.to_vec()).unwrap();
                assert_eq!(sent.contains("SEAL-42"), from == to, "{from:?} → {to:?}: {sent}");
                let verbatim = match (from, stream, to) {
                    // A fake server that answers whole on the Anthropic wire has read and written the object anew.
                    (Wire::Anthropic, false, Wire::Anthropic) => r#"{"a":1.0}"#,
                    (Wire::Anthropic, false, _) => r#"{\"a\":1.0}"#,
                    (_, _, Wire::Anthropic) => r#"{ "a": 1.0 }"#,
                    _ => r#"{ \"a\": 1.0 }"#,
                };
                assert!(sent.contains(verbatim), "{from:?} → {to:?}: {sent}");
            }
        }
    }
}

#[tokio::test]
async fn the_phase_of_a_message_is_read_and_goes_back_to_the_wire_that_has_phases() {
    let server = ModelServer::start();
    let message = |phase: &str, text: &str| json!({"type": "message", "role": "assistant", "phase": phase, "content": [{"type": "output_text", "text": text}]});
    let output = [message("commentary", "I look."), message("final_answer", "Done.")];
    let events: String = (output.iter().enumerate())
        .map(|(place, item)| json!({"type": "response.output_item.done", "output_index": place, "item": item}))
        .chain([json!({"type": "response.completed", "response": {"status": "completed"}})])
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect();
    let whole = json!({"status": "completed", "output": output});
    for reply in [
        Reply::raw("text/event-stream", events),
        Reply::raw("application/json", whole.to_string()),
    ] {
        server.reply(reply);
        let mut request = request("go");
        let answer = collect(&*model(Wire::Responses, &server), request.clone()).await;
        let said = answer.done.unwrap().message;
        assert_eq!(
            (said.phase.as_deref(), &*said.text),
            (Some("final_answer"), "I look.\n\nDone.")
        );
        request.messages.push(Message::Assistant(said));
        for wire in WIRES {
            server.reply(Reply::text("done"));
            collect(&*model(wire, &server), request.clone()).await;
            let sent = String::from_utf8(server.last_request().raw.to_vec()).unwrap();
            assert_eq!(sent.contains("final_answer"), wire == Wire::Responses, "{sent}");
        }
    }
}

#[tokio::test]
async fn what_the_copilot_api_says_of_a_calls_cost_is_read() {
    let server = ModelServer::start();
    let detail = json!({"batch_size": 1000, "cost_per_batch": 3, "token_count": 7, "token_type": "input"});
    for (usage, expected) in [
        (
            json!({"total_nano_aiu": 2e9, "token_details": [detail]}),
            Some((2.0, 1)),
        ),
        (json!({"total_nano_aiu": 0}), Some((0.0, 0))),
        // Of a form that nobody knows.
        (json!("much"), None),
    ] {
        for (wire, body) in [
            (
                Wire::Chat,
                json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "copilot_usage": usage}),
            ),
            (Wire::Responses, json!({"output": [], "copilot_usage": usage})),
            (
                Wire::Anthropic,
                json!({"content": [], "usage": {"input_tokens": 1}, "copilot_usage": usage}),
            ),
        ] {
            server.reply(Reply::raw("application/json", body.to_string()));
            let answer = collect(&*model(wire, &server), request("go")).await;
            let used = answer.done.unwrap().usage;
            let read = used
                .copilot
                .map(|copilot| (copilot.total_nano_aiu / 1e9, copilot.token_details.len()));
            assert_eq!(read, expected, "{wire:?} {usage}");
            assert_eq!(used.cost, expected.map(|(cost, _)| cost), "{wire:?} {usage}");
        }
    }
}

#[tokio::test]
async fn what_gateways_say_of_a_calls_cost_is_read_on_every_wire() {
    let server = ModelServer::start();
    let copilot = json!({"total_nano_aiu": 3e9});
    for (wire, events) in [
        (
            Wire::Chat,
            vec![json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}], "usage": {"cost": 0.5}})],
        ),
        (
            Wire::Responses,
            vec![json!({"type": "response.completed", "response": {"usage": {"cost": 0.5}}})],
        ),
        (
            Wire::Anthropic,
            vec![
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"cost": 0.5}}),
                json!({"type": "message_stop"}),
            ],
        ),
    ] {
        for (with_copilot, expected) in [(false, 0.5), (true, 3.0)] {
            let mut events = events.clone();
            if with_copilot {
                events[0]["copilot_usage"] = copilot.clone();
            }
            let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            server.reply(Reply::raw("text/event-stream", stream));
            let answer = collect(&*model(wire, &server), request("go")).await;
            let used = answer.done.unwrap().usage;
            assert_eq!(used.cost, Some(expected), "{wire:?}");
            assert_eq!(used.copilot.is_some(), with_copilot, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn what_local_servers_do_differently_is_understood() {
    let server = ModelServer::start();
    let stream = |body: &str| Reply::raw("text/event-stream", body.to_owned());
    let cases = [
        // No [DONE], no blank line at the end.
        (
            stream("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}"),
            r#"says "hi" [0, 0, 0]"#,
        ),
        // Reasoning under another name, comments, CRLF.
        (
            stream(
                ": ping\r\n\r\ndata: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\"}}]}\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\r\n\r\n",
            ),
            r#"thinks "hm" says "ok" [0, 0, 0]"#,
        ),
        // Every call has the index 0.
        (
            stream(
                "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":\"{}\"}}]}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"y\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n",
            ),
            "calls a x {} calls b y {} [0, 0, 0]",
        ),
        // The whole answer although a stream was asked for.
        (
            Reply::raw(
                "application/json; charset=utf-8",
                r#"{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"prompt_cache_hit_tokens":2}}"#,
            ),
            r#"says "whole" [3, 1, 2]"#,
        ),
        // Usage of a form that nobody knows does not spoil the answer.
        (
            stream(
                "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":\"many\"}}\n\n",
            ),
            r#"says "x" [0, 0, 0]"#,
        ),
    ];
    for (reply, expected) in cases {
        server.reply(reply);
        let answer = collect(&*model(Wire::Chat, &server), request("go")).await;
        assert_eq!(told(&answer), expected);
    }
}

#[tokio::test]
async fn calls_without_an_id_get_one() {
    let server = ModelServer::start();
    let body =
        r#"{"choices":[{"message":{"tool_calls":[{"function":{"name":"x","arguments":""}}]},"finish_reason":"stop"}]}"#;
    server.reply(Reply::raw("application/json", body));
    let done = collect(&*model(Wire::Chat, &server), request("go")).await.done.unwrap();
    assert!(done.message.tool_calls[0].id.starts_with("call_"));
    assert_eq!(&*done.message.tool_calls[0].arguments, "");
}

#[tokio::test]
async fn an_id_that_was_given_before_is_not_given_to_another_call() {
    let server = ModelServer::start();
    let before = Message::Assistant(AssistantMessage {
        tool_calls: vec![ToolCall {
            id: "c1".into(),
            name: "bash".into(),
            arguments: "{}".into(),
            custom: false,
        }],
        ..AssistantMessage::default()
    });
    let result = Message::Tool {
        call_id: "c1".into(),
        name: "bash".into(),
        content: "ok".into(),
        images: Vec::new(),
        sources: Vec::new(),
    };
    for (history, kept) in [(vec![], true), (vec![before, result], false)] {
        for wire in WIRES {
            for stream in [true, false] {
                server.reply(Reply::text("x").and_call("c1", "bash", r#"{"command":"ls"}"#));
                let mut request = ModelRequest {
                    stream,
                    ..request("go")
                };
                request.messages.extend(history.clone());
                let answer = collect(&*model(wire, &server), request).await;
                let calls = &answer.done.as_ref().unwrap().message.tool_calls;
                assert_eq!(calls.len(), 1);
                assert_eq!(calls[0].id == "c1", kept, "{wire:?}, stream {stream}");
                assert_eq!(&*calls[0].arguments, r#"{"command":"ls"}"#);
                let one = answer.fragments.iter().all(|(id, ..)| *id == calls[0].id);
                assert!(one, "the fragments carry it, too: {:?}", answer.fragments);
            }
        }
    }
    let call = |n: u32| format!(r#"{{"id":"c1","function":{{"name":"x","arguments":"{n}"}}}}"#);
    let calls = [call(1), call(2)].join(",");
    let body = format!(r#"{{"choices":[{{"message":{{"tool_calls":[{calls}]}},"finish_reason":"stop"}}]}}"#);
    server.reply(Reply::raw("application/json", body));
    let done = collect(&*model(Wire::Chat, &server), request("go")).await.done.unwrap();
    let calls = &done.message.tool_calls;
    assert_eq!(
        calls.iter().map(|call| &*call.arguments).collect::<Vec<_>>(),
        ["1", "2"]
    );
    assert!(calls[0].id == "c1" && calls[1].id != "c1", "{calls:?}");
}

#[tokio::test]
async fn leaving_a_call_closes_the_request_at_once() {
    for wire in WIRES {
        let server = ModelServer::start();
        server.reply(Reply::text("only the beginning").hang().cut_after(400).split(100));
        let mut stream = model(wire, &server).call(Arc::new(request("go")));
        let first = stream.next().await.unwrap();
        assert!(first.is_ok(), "{first:?}");
        drop(stream);
        tokio::time::timeout(Duration::from_secs(20), server.abandoned(1))
            .await
            .expect("the server sees it");

        // The same before the response has begun.
        let server = ModelServer::start();
        server.reply(Reply::text("late").delay(Duration::from_secs(3600)));
        let mut stream = model(wire, &server).call(Arc::new(request("go")));
        let next = stream.next();
        tokio::select! {
            _ = next => panic!("nothing can come"),
            () = server.received(1) => {}
        }
        drop(stream);
        tokio::time::timeout(Duration::from_secs(20), server.abandoned(1))
            .await
            .expect("the server sees it");
    }
}

#[tokio::test]
async fn the_number_of_bytes_received_is_told() {
    let server = ModelServer::start();
    server.reply(Reply::text("some words to count").split(50));
    let mut stream = model(Wire::Chat, &server).call(Arc::new(request("go")));
    let mut counts = Vec::new();
    while let Some(item) = stream.next().await {
        if let Chunk::Bytes(count) = item.unwrap() {
            counts.push(count);
        }
    }
    assert!(counts.len() > 3 && counts.is_sorted(), "{counts:?}");
}

#[tokio::test]
async fn the_rehearsal_model_can_stand_behind_every_wire() {
    let server = ModelServer::rehearsing();
    for wire in WIRES {
        for stream in [true, false] {
            let model = model(wire, &server);
            let mut request = ModelRequest {
                stream,
                ..request("call bash {\"command\":\"ls\"} then say done")
            };
            let first = collect(&*model, request.clone()).await.done.unwrap().message;
            let call = first.tool_calls[0].clone();
            assert_eq!((&*call.name, &*call.arguments), ("bash", "{\"command\":\"ls\"}"));
            request.messages.push(Message::Assistant(first));
            let (call_id, name) = (call.id, call.name);
            request.messages.push(Message::Tool {
                call_id,
                name,
                content: "a.txt".into(),
                images: Vec::new(),
                sources: Vec::new(),
            });
            let second = collect(&*model, request.clone()).await.done.unwrap().message;
            assert_eq!(&*second.text, "done", "{wire:?} {stream}");

            request.messages = vec![crate::support::user("fail with server error 1 times then say ok")];
            let failed = collect(&*model, request.clone()).await.error;
            assert_eq!(failed.unwrap().status, Some(500));
            assert_eq!(&*collect(&*model, request).await.done.unwrap().message.text, "ok");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn it_does_not_matter_how_the_stream_is_cut(size in 1usize..40, which in 0usize..5, wire in 0usize..3) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = ModelServer::start();
        let (reply, expected) = replies().swap_remove(which);
        server.reply(reply.split(size));
        let answer = runtime.block_on(collect(&*model(WIRES[wire], &server), request("go")));
        prop_assert_eq!(told(&answer), expected);
    }
}

#[tokio::test]
async fn what_real_servers_write_differently_is_read_and_a_broken_stream_is_no_answer() {
    let server = ModelServer::start();
    let cases: Vec<(Wire, Vec<serde_json::Value>, &str)> = vec![
        // Mistral: parts instead of a text, no index, an empty reason until the end.
        (
            Wire::Chat,
            vec![
                json!({"choices": [{"index": null, "finish_reason": "", "delta": {"content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}}]}),
                json!({"choices": [{"delta": {"content": [{"type": "text", "text": "hello"}]}, "finish_reason": "stop"}]}),
            ],
            r#"thinks "hm" says "hello" [0, 0, 0]"#,
        ),
        // Arguments as JSON instead of text; both names of a field; a delta beside an empty message.
        (
            Wire::Chat,
            vec![
                json!({"choices": [{"message": null, "finish_reason": "tool_calls", "delta": {"tool_calls": [
                {"index": 0, "id": "a", "function": {"name": "x", "arguments": {"n": 1}}},
                {"index": 1, "id": "b", "function": {"name": "y", "input": null, "arguments": "{}"}}]}}]}),
            ],
            r#"calls a x {"n":1} calls b y {} [0, 0, 0]"#,
        ),
        // The stream broke off: no word of the end.
        (
            Wire::Chat,
            vec![json!({"choices": [{"delta": {"content": "half"}, "finish_reason": ""}]})],
            "error connection None",
        ),
        // Unknown events and items of any form; an item with both names of a field.
        (
            Wire::Responses,
            vec![
                json!({"type": "response.audio.delta", "delta": {"bytes": [1]}, "output_index": null}),
                json!({"type": "response.future", "item": "text", "response": 7}),
                json!({"type": "response.output_item.added", "output_index": 0,
                       "item": {"type": "web_search_call", "arguments": {"q": "x"}, "content": {}}}),
                json!({"type": "response.output_item.done", "output_index": 1, "item":
                       {"type": "function_call", "call_id": "c", "name": "x", "arguments": {"n": 1}, "input": null}}),
                json!({"type": "response.output_item.done", "output_index": 2, "item":
                       {"type": "function_call", "call_id": "d", "name": "y", "arguments": "{}", "input": "{}"}}),
                json!({"type": "response.completed", "response": {"status": "completed"}}),
            ],
            r#"calls c x {"n":1} calls d y {} [0, 0, 0]"#,
        ),
    ];
    for (wire, events, expected) in cases {
        let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        server.reply(Reply::raw("text/event-stream", stream));
        let answer = collect(&*model(wire, &server), request("go")).await;
        assert_eq!(told(&answer), expected, "{events:?}");
    }
}
