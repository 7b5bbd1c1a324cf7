//! Requests as each wire wants them.

use std::sync::Arc;

use lodge_models::{
    AssistantMessage, AzureConfig, Catalogue, Document, Image, Message, ModelRequest, ModelsConfig, Part, ProviderType,
    ResponseFormat, ToolCall, ToolSpec, WireApi,
};
use serde_json::json;
use testkit::model_server::{ModelServer, Reply};

use crate::support::{WIRES, Wire, collect, model, provider, request};

/// A conversation in which everything happens that a request can hold.
fn everything() -> ModelRequest {
    let image = || Image {
        mime_type: "image/png".to_owned(),
        data: "iVBORw0KGgo=".into(),
    };
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.into(),
        custom: false,
    };
    ModelRequest {
        system: "You are Lodge.".into(),
        messages: vec![
            Message::User(vec![Part::Text("What is this?".into()), Part::Image(image())]),
            Message::Assistant(AssistantMessage {
                text: "Let me look.".into(),
                tool_calls: vec![
                    call("call:1", "view", "{ \"path\" : \"a.png\", \"n\": 1.0 }"),
                    call("call_2", "bash", "{broken"),
                ],
                reasoning_text: Some("I should look.".to_owned()),
                ..AssistantMessage::default()
            }),
            Message::Tool {
                call_id: "call:1".to_owned(),
                name: "view".to_owned(),
                content: "Viewed image file successfully.".into(),
                images: vec![image()],
                sources: Vec::new(),
            },
            Message::Tool {
                call_id: "call_2".to_owned(),
                name: "bash".to_owned(),
                content: "invalid arguments".into(),
                images: Vec::new(),
                sources: Vec::new(),
            },
        ],
        tools: Arc::new([ToolSpec {
            name: "view".to_owned(),
            description: "Looks at a file.".to_owned(),
            parameters: Arc::new(json!({"type": "object", "properties": {"path": {"type": "string"}}})),
        }]),
        stream: true,
        reasoning_effort: Some("medium".to_owned()),
        max_output_tokens: Some(1000),
        ..ModelRequest::default()
    }
}

#[tokio::test]
async fn a_conversation_is_written_as_each_wire_wants_it() {
    let server = ModelServer::start();
    for wire in WIRES {
        server.reply(Reply::text("ok"));
        collect(&*model(wire, &server), everything()).await.done.unwrap();
        let request = server.last_request();
        insta::assert_json_snapshot!(format!("{wire:?}"), request.body);
        let raw = String::from_utf8(request.raw.to_vec()).unwrap();
        let verbatim = match wire {
            Wire::Anthropic => r#"{ "path" : "a.png", "n": 1.0 }"#,
            _ => r#"{ \"path\" : \"a.png\", \"n\": 1.0 }"#,
        };
        assert!(raw.contains(verbatim), "arguments go back letter for letter: {raw}");
    }
}

#[tokio::test]
async fn a_plain_question_is_a_plain_request() {
    let server = ModelServer::start();
    let bodies = async {
        let mut bodies = Vec::new();
        for wire in WIRES {
            server.reply(Reply::text("ok"));
            collect(
                &*model(wire, &server),
                ModelRequest {
                    stream: false,
                    ..request("hi")
                },
            )
            .await
            .done
            .unwrap();
            bodies.push(server.last_request().body);
        }
        bodies
    }
    .await;
    insta::assert_json_snapshot!("plain", bodies);
}

/// The Messages API adds the bound of an answer to its prompt, and refuses what is more than the window.
#[tokio::test]
async fn an_answer_is_given_the_room_that_the_prompt_leaves() {
    let server = ModelServer::start();
    let window = 200_000;
    server.set_window(window, 4);
    let catalogue = Catalogue::from(ModelsConfig::default(), |_| None).unwrap();
    let provider = provider(Wire::Anthropic, &server);
    let model = catalogue
        .resolve_with_provider(&provider, Some("claude-sonnet-4-5"), None)
        .unwrap();
    // (tokens of the prompt, what whoever asks knows of them, least and most of the answer)
    for (prompt, known, least, most) in [
        (1_000, None, 64_000, 64_000),
        (130_000, None, 55_000, 64_000),
        (model.info().prompt_limit() - 100, None, 20_000, 25_000),
        (150_000, Some(160_000), 25_000, 30_000),
    ] {
        server.reply(Reply::text("ok"));
        let request = ModelRequest {
            prompt_tokens: known,
            ..request(&"four".repeat(prompt as usize))
        };
        let answer = collect(&*model, request).await;
        assert!(answer.done.is_some(), "{prompt}: {:?}", answer.error);
        let asked = server.last_request().body["max_tokens"].as_u64().unwrap();
        assert!((least..=most).contains(&asked), "{prompt}: {asked}");
    }
    let short = ModelRequest {
        longest_answer: Some(500),
        ..request("go")
    };
    server.reply(Reply::text("ok"));
    collect(&*model, short).await.done.unwrap();
    assert_eq!(server.last_request().body["max_tokens"], 500);
}

#[tokio::test]
async fn a_tool_can_be_required() {
    let server = ModelServer::start();
    let expected = [
        json!({"type": "function", "function": {"name": "view"}}),
        json!({"type": "function", "name": "view"}),
        json!({"type": "tool", "name": "view"}),
    ];
    for (wire, expected) in WIRES.into_iter().zip(expected) {
        server.reply(Reply::text("ok"));
        let request = ModelRequest {
            required_tool: Some("view".to_owned()),
            ..everything()
        };
        collect(&*model(wire, &server), request).await.done.unwrap();
        let body = server.last_request().body;
        assert_eq!(body["tool_choice"], expected);
        assert!(body.get("thinking").is_none());
    }
}

#[tokio::test]
async fn the_form_of_an_answer_and_documents_are_written_as_each_wire_wants_them() {
    let server = ModelServer::start();
    let schema = json!({"type": "object"});
    let data = "data:application/pdf;base64,JVBERg==";
    let source = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="});
    let expected = [
        (
            "/response_format",
            json!({"type": "json_schema", "json_schema": {"name": "n", "description": "d", "schema": schema, "strict": true}}),
            "/messages/0/content/0",
            json!({"type": "file", "file": {"filename": "a.pdf", "file_data": data}}),
        ),
        (
            "/text",
            json!({"format": {"type": "json_schema", "name": "n", "description": "d", "schema": schema, "strict": true}}),
            "/input/0/content/0",
            json!({"type": "input_file", "filename": "a.pdf", "file_data": data}),
        ),
        (
            "/output_config",
            json!({"format": {"type": "json_schema", "schema": schema}}),
            "/messages/0/content/0",
            json!({"type": "document", "source": source, "title": "a.pdf", "citations": {"enabled": true},
                "cache_control": {"type": "ephemeral"}}),
        ),
    ];
    for (wire, (at, format, place, document)) in WIRES.into_iter().zip(expected) {
        server.reply(Reply::text("{}"));
        let request = ModelRequest {
            messages: vec![Message::User(vec![Part::Document(Document {
                mime_type: "application/pdf".to_owned(),
                data: "JVBERg==".into(),
                title: "a.pdf".into(),
            })])],
            response_format: Some(Arc::new(ResponseFormat {
                name: "n".to_owned(),
                description: Some("d".to_owned()),
                schema: schema.clone(),
                strict: Some(true),
            })),
            citations: true,
            ..ModelRequest::default()
        };
        collect(&*model(wire, &server), request).await.done.unwrap();
        let body = server.last_request().body;
        assert_eq!(body.pointer(at), Some(&format), "{wire:?}");
        assert_eq!(body.pointer(place), Some(&document), "{wire:?}");
    }
}

#[tokio::test]
async fn headers_are_those_that_provider_and_caller_want() {
    let server = ModelServer::start();
    let catalogue = Catalogue::from(ModelsConfig::default(), |_| None).unwrap();
    for wire in WIRES {
        let mut provider = provider(wire, &server);
        provider.headers.insert("X-Team".to_owned(), "blue".to_owned());
        provider.headers.insert("X-Both".to_owned(), "provider".to_owned());
        let model = catalogue.resolve_with_provider(&provider, Some("m"), None).unwrap();
        server.reply(Reply::text("ok"));
        let mut request = request("go");
        request.user_agent = Some("my-app/1.0".to_owned());
        request.headers.insert("x-both".to_owned(), "call".to_owned());
        collect(&*model, request).await.done.unwrap();
        let headers = server.last_request().headers;
        assert_eq!(headers["x-team"], "blue");
        assert_eq!(headers["x-both"], "call", "the call's own header wins");
        assert!(headers["user-agent"].starts_with("my-app/1.0 lodge/"), "{headers:?}");
        let key = match wire {
            Wire::Anthropic => &headers["x-api-key"],
            _ => headers["authorization"].strip_prefix("Bearer ").unwrap(),
        };
        assert_eq!(key, "key-that-nobody-may-see");
        assert_eq!(headers.contains_key("anthropic-version"), wire == Wire::Anthropic);
    }
}

#[tokio::test]
async fn azure_gets_its_own_address_and_header() {
    let server = ModelServer::start();
    let catalogue = Catalogue::from(ModelsConfig::default(), |_| None).unwrap();
    let mut provider = provider(Wire::Chat, &server);
    provider.kind = Some(ProviderType::Azure);
    provider.base_url = server.url().into();
    provider.azure = Some(AzureConfig {
        api_version: Some("2025-01-01".to_owned()),
    });
    for (wire, path) in [
        (
            WireApi::Completions,
            "/openai/deployments/my-gpt/chat/completions?api-version=2025-01-01",
        ),
        (WireApi::Responses, "/openai/responses?api-version=2025-01-01"),
    ] {
        provider.wire_api = Some(wire);
        let model = catalogue
            .resolve_with_provider(&provider, Some("my-gpt"), None)
            .unwrap();
        server.reply(Reply::text("ok"));
        collect(&*model, request("go")).await.done.unwrap();
        let request = server.last_request();
        assert_eq!(request.path, path);
        assert_eq!(request.headers["api-key"], "key-that-nobody-may-see");
        assert!(!request.headers.contains_key("authorization"));
    }
}
