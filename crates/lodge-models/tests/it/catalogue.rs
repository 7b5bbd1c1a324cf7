//! How names become models.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use lodge_models::{
    Auth, Catalogue, CatalogueError, ErrorKind, HttpRequest, HttpResponse, Model, ModelsConfig, ProviderConfig, Secret,
    Transport, TransportError,
};
use parking_lot::Mutex;
use serde_json::json;
use testkit::model_server::{ModelServer, Reply};

use crate::support::{collect, request};

fn catalogue(toml: &str, env: &[(&str, &str)]) -> Result<Catalogue, CatalogueError> {
    let env: HashMap<String, String> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Catalogue::from(toml::from_str::<ModelsConfig>(toml).unwrap(), move |name| {
        env.get(name).cloned()
    })
}

/// Provider, id and context window of what a name resolves to, or the error.
fn resolved(catalogue: &Catalogue, name: Option<&str>) -> String {
    match catalogue.resolve(name) {
        Ok(model) => {
            let info = model.info();
            format!("{} of {}, {}", info.id, info.provider, info.context_window)
        }
        Err(error) => format!("error: {error}"),
    }
}

const TOML: &str = r#"
default_model = "coder"

[[provider]]
name = "local"
base_url = "http://127.0.0.1:1/v1"

[[provider]]
name = "cloud"
type = "anthropic"
base_url = "http://127.0.0.1:2"
api_key_env = "CLOUD_KEY"

[[model]]
id = "coder"
provider = "local"
name = "qwen3-coder"
context_window = 32768
vision = true

[[model]]
id = "claude-sonnet-4-5"
provider = "cloud"
"#;

#[test]
fn names_are_resolved_by_configuration_and_environment() {
    let key = ("CLOUD_KEY", "secret-cloud-key");
    let own = ("LODGE_PROVIDER_BASE_URL", "http://127.0.0.1:3/v1");
    let copilot = ("COPILOT_PROVIDER_BASE_URL", "http://127.0.0.1:4/v1");
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>, &'a str);
    let cases: &[Case<'_>] = &[
        ("", &[], None, "rehearsal of lodge, 128000"),
        ("", &[], Some("rehearsal"), "rehearsal of lodge, 128000"),
        (TOML, &[key], None, "coder of local, 32768"),
        (
            TOML,
            &[key],
            Some("claude-sonnet-4-5"),
            "claude-sonnet-4-5 of cloud, 200000",
        ),
        (TOML, &[key], Some("local/anything"), "local/anything of local, 128000"),
        (
            TOML,
            &[key],
            Some("gpt-9"),
            "error: there is no model \"gpt-9\". Available: coder, claude-sonnet-4-5, rehearsal. Choose one of these, or configure a \
             provider in lodge.toml",
        ),
        (
            TOML,
            &[key, ("LODGE_MODEL", "rehearsal")],
            None,
            "rehearsal of lodge, 128000",
        ),
        (
            TOML,
            &[key, ("COPILOT_MODEL", "local/x")],
            None,
            "local/x of local, 128000",
        ),
        (
            TOML,
            &[key, ("COPILOT_MODEL", "x"), ("LODGE_MODEL", "coder")],
            None,
            "coder of local, 32768",
        ),
        (
            "",
            &[own, ("LODGE_MODEL", "gpt-4o-mini")],
            None,
            "gpt-4o-mini of environment, 128000",
        ),
        (
            "",
            &[copilot, ("COPILOT_MODEL", "gpt-5-mini")],
            None,
            "gpt-5-mini of environment, 400000",
        ),
        ("", &[own], Some("whatever"), "whatever of environment, 128000"),
        (
            "",
            &[own],
            Some("openai/gpt-4o"),
            "openai/gpt-4o of environment, 128000",
        ),
        (
            "",
            &[own],
            None,
            "error: no model was chosen: set LODGE_MODEL (or COPILOT_MODEL) to a model of the provider",
        ),
        (
            "",
            &[],
            Some("openai/gpt-4o"),
            "error: the model \"openai/gpt-4o\" needs the environment variable OPENAI_API_KEY",
        ),
        (
            "",
            &[("OPENAI_API_KEY", "k")],
            Some("openai/gpt-4o"),
            "openai/gpt-4o of openai, 128000",
        ),
        (
            "",
            &[("ANTHROPIC_API_KEY", "k")],
            Some("anthropic/claude-opus-4-6"),
            "anthropic/claude-opus-4-6 of anthropic, 200000",
        ),
        ("", &[("OPENAI_API_KEY", "k")], None, "rehearsal of lodge, 128000"),
    ];
    for (toml, env, name, expected) in cases {
        assert_eq!(
            resolved(&catalogue(toml, env).unwrap(), *name),
            *expected,
            "{env:?} {name:?}"
        );
    }
}

#[test]
fn a_wrong_configuration_is_refused_in_words() {
    let cases = [
        (
            "[[model]]\nid = \"a\"\nprovider = \"b\"",
            vec![],
            "the model \"a\" names the provider \"b\", which is not configured",
        ),
        (
            "[[provider]]\nname = \"a\"\nbase_url = \"h\"",
            vec![],
            "the provider \"a\" needs a base_url that begins with http:// or https://",
        ),
        (
            "[[provider]]\nname = \"a\"\nbase_url = \"http://h\"\n[[provider]]\nname = \"a\"\nbase_url = \"http://h\"",
            vec![],
            "\"a\" is configured twice",
        ),
        (
            "",
            vec![
                ("LODGE_PROVIDER_BASE_URL", "http://h"),
                ("LODGE_PROVIDER_WIRE_API", "smoke"),
            ],
            "invalid LODGE_PROVIDER_WIRE_API: unknown variant `smoke`, expected one of `chat`, `completions`, \
             `responses`, `anthropic`, `messages`",
        ),
    ];
    for (toml, env, expected) in cases {
        let error = catalogue(toml, &env).err().unwrap();
        assert_eq!(error.to_string(), expected);
    }
    let typo = toml::from_str::<ModelsConfig>("[[provider]]\nname = \"a\"\nbase_ulr = \"http://h\"").unwrap_err();
    assert!(typo.to_string().contains("base_ulr"), "{typo}");
}

#[test]
fn the_manuals_example_is_read_as_written() {
    let manual = include_str!("../../../../docs/models.md");
    let (_, example) = manual.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let catalogue = catalogue(example, &[("WORK_KEY", "k")]).unwrap();
    assert_eq!(resolved(&catalogue, None), "coder of local, 65536");
    assert_eq!(resolved(&catalogue, Some("work/gpt-5")), "work/gpt-5 of work, 400000");
}

#[tokio::test]
async fn a_key_that_is_not_set_fails_its_own_calls_and_nothing_else() {
    let catalogue = catalogue(TOML, &[]).unwrap();
    let error = collect(&*catalogue.resolve(Some("claude-sonnet-4-5")).unwrap(), request("go"))
        .await
        .error
        .unwrap();
    assert_eq!(error.kind, ErrorKind::Authentication);
    assert!(
        error
            .to_string()
            .contains("CLOUD_KEY, which should hold the API key, is not set"),
        "{error}"
    );
}

#[test]
fn secrets_are_not_printed() {
    let toml =
        "[[provider]]\nname = \"a\"\nbase_url = \"http://h\"\napi_key = \"sk-secret\"\nbearer_token = \"tok-secret\"";
    let config: ModelsConfig = toml::from_str(toml).unwrap();
    let printed = format!("{config:?} {:?}", Auth::Key(Secret::new("sk-secret")));
    assert!(
        !printed.contains("secret\"") && printed.contains("[secret]"),
        "{printed}"
    );
}

#[tokio::test]
async fn providers_are_asked_for_their_models() {
    let server = ModelServer::start();
    server.set_models(json!({"data": [
        {"id": "small", "max_model_len": 4096},
        {"id": "embedder", "capabilities": {"type": "embeddings"}},
        {"id": "big", "name": "Big", "supported_endpoints": ["/responses"], "capabilities": {"type": "chat",
            "limits": {"max_context_window_tokens": 9000, "max_output_tokens": 77},
            "supports": {"vision": true, "reasoning_effort": ["low"]}}},
    ]}));
    let toml = format!(
        "[[provider]]\nname = \"here\"\nbase_url = \"{}\"\n[[provider]]\nname = \"gone\"\nbase_url = \"http://127.0.0.1:1/v1\"",
        server.openai_url()
    );
    let catalogue = catalogue(&toml, &[]).unwrap();
    let found = catalogue.discover().await;
    let story: Vec<String> = found
        .iter()
        .map(|discovery| match &discovery.models {
            Ok(models) => format!("{}: {}", discovery.provider, models.len()),
            Err(error) => format!("{}: {}", discovery.provider, error.kind.as_str()),
        })
        .collect();
    assert_eq!(story, ["gone: connection", "here: 2"]);
    let list: Vec<String> = catalogue
        .list()
        .iter()
        .map(|info| {
            format!(
                "{} {} {} {:?}",
                info.id, info.context_window, info.vision, info.reasoning_efforts
            )
        })
        .collect();
    assert_eq!(
        list,
        [
            "here/small 4096 true []",
            "here/big 9000 true [\"low\"]",
            "rehearsal 128000 true [\"low\", \"medium\", \"high\"]",
        ]
    );
    server.reply(Reply::text("ok"));
    collect(&*catalogue.resolve(Some("here/big")).unwrap(), request("go"))
        .await
        .done
        .unwrap();
    let sent = server.last_request();
    assert_eq!(
        (sent.path.as_str(), sent.body["model"].as_str()),
        ("/v1/responses", Some("big"))
    );
}

#[tokio::test]
async fn what_a_provider_takes_as_a_prompt_is_kept_to() {
    let copilot = json!({"limits": {
        "max_context_window_tokens": 400_000, "max_prompt_tokens": 128_000, "max_output_tokens": 64_000,
    }});
    // (what the list says, window, most of a prompt)
    for (entry, window, prompt) in [
        (json!({"id": "m", "capabilities": copilot}), 400_000, 128_000),
        (
            json!({"id": "claude-sonnet-4-5", "max_input_tokens": 180_000}),
            200_000,
            175_000,
        ),
        (
            json!({"id": "claude-next", "max_input_tokens": 1_000_000}),
            1_000_000,
            936_000,
        ),
        (
            json!({"id": "m", "context_length": "50000", "max_input_tokens": 40_000}),
            50_000,
            40_000,
        ),
        (json!({"id": "gpt-5"}), 400_000, 272_000),
        (json!({"id": "gpt-4o"}), 128_000, 112_000),
    ] {
        let server = ModelServer::start();
        server.set_models(json!({"data": [entry]}));
        let url = server.openai_url();
        let catalogue = catalogue("", &[("LODGE_PROVIDER_BASE_URL", &url)]).unwrap();
        let found = catalogue.discover().await.remove(0).models.unwrap().remove(0);
        assert_eq!(
            (found.context_window, found.prompt_limit()),
            (window, prompt),
            "{entry}"
        );
    }
}

/// The list that llama.cpp's server gives: OpenAI's and Ollama's at once, with the context in `meta`.
fn llama_list(meta: serde_json::Value) -> serde_json::Value {
    json!({
        "object": "list",
        "models": [{"name": "qwen.gguf", "model": "qwen.gguf", "type": "model", "capabilities": ["completion"]}],
        "data": [{"id": "qwen.gguf", "object": "model", "created": 1, "owned_by": "llamacpp", "meta": meta}],
    })
}

#[tokio::test]
async fn the_list_of_llama_cpps_server_is_read_with_the_context_that_it_serves() {
    let cases = [
        (json!({"n_ctx": 16384, "n_ctx_train": 131_072}), None, 16384),
        (json!({"n_ctx_train": 131_072}), Some(16384), 16384),
        (json!({"n_ctx_train": 4096}), None, 4096),
    ];
    for (meta, props, expected) in cases {
        let server = ModelServer::start();
        server.set_models(llama_list(meta.clone()));
        if let Some(n_ctx) = props {
            server.set_props(json!({"default_generation_settings": {"n_ctx": n_ctx}, "modalities": {"vision": false}}));
        }
        let toml = format!("[[provider]]\nname = \"llama\"\nbase_url = \"{}\"", server.openai_url());
        let catalogue = catalogue(&toml, &[]).unwrap();
        let found = catalogue.discover().await.remove(0).models.unwrap();
        assert_eq!(found[0].id, "llama/qwen.gguf");
        assert_eq!(found[0].context_window, expected, "{meta} {props:?}");
        // Only who says that it takes no images gets none.
        assert_eq!(found[0].vision, props.is_none(), "{meta} {props:?}");
        assert!(found[0].max_output_tokens < expected);
    }
}

#[tokio::test]
async fn a_list_without_sense_is_an_error_and_one_odd_entry_is_not() {
    let cases = [
        (json!({"data": [{"id": "a"}, {"name": 7}, null]}), Ok(1)),
        (json!({"data": []}), Ok(0)),
        (json!({"data": [], "models": []}), Ok(0)),
        (
            json!({"data": [], "models": [{"model": "a", "capabilities": ["completion"]}]}),
            Ok(1),
        ),
        (
            json!({"data": [{"id": "a", "context_length": "8", "name": {}, "supported_endpoints": 1}]}),
            Ok(1),
        ),
        (
            json!({"data": [{"id": "a", "model": "a", "name": "A", "display_name": "A", "context_length": 8, "max_model_len": 8}]}),
            Ok(1),
        ),
        (json!({"data": [{"object": "model"}]}), Err("has an id")),
        (json!({"object": "list"}), Err("neither `data` nor `models`")),
    ];
    for (list, expected) in cases {
        let server = ModelServer::start();
        server.set_models(list.clone());
        let url = server.openai_url();
        let catalogue = catalogue("", &[("LODGE_PROVIDER_BASE_URL", &url)]).unwrap();
        let found = catalogue.discover().await.remove(0).models;
        match (found, expected) {
            (Ok(models), Ok(count)) => assert_eq!(models.len(), count, "{list}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{list}: {error}"),
            (found, _) => panic!("{list}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn a_model_that_nobody_knows_is_measured_when_it_is_first_called() {
    let server = ModelServer::start();
    server.set_models(llama_list(json!({"n_ctx": 16384})));
    let url = server.openai_url();
    let catalogue = catalogue("", &[("LODGE_PROVIDER_BASE_URL", &url)]).unwrap();
    let model = catalogue.resolve(Some("qwen.gguf")).unwrap();
    assert_eq!(
        model.info().context_window,
        128_000,
        "nothing is asked before it is used"
    );
    assert!(server.list_requests().is_empty());
    for _ in 0..2 {
        server.reply(Reply::text("ok"));
        collect(&*model, request("go")).await.done.unwrap();
        while model.info().context_window == 128_000 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(model.info().context_window, 16384);
    let again = catalogue.resolve(Some("qwen.gguf")).unwrap();
    assert_eq!(again.info().context_window, 16384, "the next session knows it at once");
    assert_eq!(server.list_requests().len(), 1, "and nobody is asked twice");
    // A name that says what the model holds is asked nothing.
    server.reply(Reply::text("ok"));
    let known = catalogue.resolve(Some("gpt-4o")).unwrap();
    collect(&*known, request("go")).await.done.unwrap();
    assert_eq!(
        (known.info().context_window, server.list_requests().len()),
        (128_000, 1)
    );
}

#[tokio::test]
async fn the_copilot_api_is_used_only_where_its_address_is_set() {
    let token = || Auth::Bearer(Secret::new("gh-token"));
    let without = catalogue("", &[]).unwrap().with_github_token(token());
    assert!(without.resolve(Some("gpt-5")).is_err());

    let server = ModelServer::start();
    let url = server.url();
    let with = catalogue("", &[("COPILOT_API_URL", &url)]).unwrap();
    assert!(with.resolve(Some("gpt-5")).is_err(), "not without a token");
    let with = with.with_github_token(token());
    with.discover().await;
    assert_eq!(server.list_requests()[0].path, "/models");
    assert_eq!(
        with.default_model(),
        "rehearsal",
        "which is what this server calls its only model"
    );
    server.reply(Reply::text("ok"));
    collect(&*with.resolve(Some("gpt-5")).unwrap(), request("go"))
        .await
        .done
        .unwrap();
    let sent = server.last_request();
    assert_eq!(sent.path, "/chat/completions");
    assert_eq!(sent.headers["authorization"], "Bearer gh-token");
}

#[test]
fn limits_of_zero_are_none() {
    let toml = r#"
[[provider]]
name = "local"
base_url = "http://127.0.0.1:1/v1"

[[model]]
id = "plain"
provider = "local"
name = "claude-sonnet-4-5"

[[model]]
id = "zeros"
provider = "local"
name = "claude-sonnet-4-5"
context_window = 0
max_prompt_tokens = 0
max_output_tokens = 0
"#;
    let limits = |model: &dyn Model| {
        let info = model.info();
        (info.context_window, info.prompt_limit(), info.max_output_tokens)
    };
    let catalogue = catalogue(toml, &[]).unwrap();
    let known = limits(&*catalogue.resolve(Some("plain")).unwrap());
    assert_eq!(limits(&*catalogue.resolve(Some("zeros")).unwrap()), known);
    let provider: ProviderConfig = serde_json::from_value(json!({
        "baseUrl": "http://127.0.0.1:1/v1", "maxPromptTokens": 0, "maxOutputTokens": 0,
    }))
    .unwrap();
    let model = catalogue.resolve_with_provider(&provider, Some("claude-sonnet-4-5"), None);
    assert_eq!(limits(&*model.unwrap()), known);
}

#[tokio::test]
async fn providers_of_sdk_clients_are_read_as_they_send_them() {
    let server = ModelServer::start();
    let provider: ProviderConfig = serde_json::from_value(json!({
        "type": "openai", "wireApi": "responses", "baseUrl": server.openai_url(), "bearerToken": "tok", "apiKey": "unused",
        "headers": {"x-a": "b"}, "modelId": "gpt-5", "wireModel": "deployed-5", "maxPromptTokens": 1000,
        "maxOutputTokens": 200, "transport": "http", "aFieldOfTomorrow": 1,
    }))
    .unwrap();
    let catalogue = catalogue("", &[]).unwrap();
    let model = catalogue.resolve_with_provider(&provider, Some("mine"), None).unwrap();
    let info = model.info();
    assert_eq!(
        (info.id.as_str(), info.context_window, info.max_output_tokens),
        ("mine", 1200, 200)
    );
    server.reply(Reply::text("ok"));
    collect(&*model, request("go")).await.done.unwrap();
    let sent = server.last_request();
    assert_eq!(
        (sent.path.as_str(), sent.body["model"].as_str()),
        ("/v1/responses", Some("deployed-5"))
    );
    assert_eq!(
        (sent.headers["authorization"].as_str(), sent.headers["x-a"].as_str()),
        ("Bearer tok", "b")
    );

    let nameless = ProviderConfig {
        base_url: server.openai_url().into(),
        ..ProviderConfig::default()
    };
    let error = catalogue.resolve_with_provider(&nameless, None, None).err().unwrap();
    assert_eq!(error.to_string(), "a session with its own provider must name a model");
}

/// A transport that is no network.
#[derive(Default)]
struct Elsewhere(Mutex<Vec<HttpRequest>>);

impl Transport for Elsewhere {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        self.0.lock().push(request);
        async {
            let body =
                "data: {\"choices\":[{\"delta\":{\"content\":\"from elsewhere\"},\"finish_reason\":\"stop\"}]}\n\n";
            Ok(HttpResponse {
                status: 200,
                headers: Vec::new(),
                body: stream::iter([Ok(Bytes::from(body))]).boxed(),
            })
        }
        .boxed()
    }
}

#[tokio::test]
async fn requests_can_go_through_another_transport() {
    let elsewhere = Arc::new(Elsewhere::default());
    let env = [
        ("LODGE_PROVIDER_BASE_URL", "http://nowhere.test/v1"),
        ("LODGE_PROVIDER_API_KEY", "sk-hidden"),
    ];
    let catalogue = catalogue("", &env).unwrap().with_transport(elsewhere.clone());
    let done = collect(&*catalogue.resolve(Some("m")).unwrap(), request("go"))
        .await
        .done
        .unwrap();
    assert_eq!(&*done.message.text, "from elsewhere");
    let sent = elsewhere.0.lock().pop().unwrap();
    assert_eq!(sent.url, "http://nowhere.test/v1/chat/completions");
    assert!(!format!("{sent:?}").contains("sk-hidden"));
}
