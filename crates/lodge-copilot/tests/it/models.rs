//! Providers that clients bring: what they are sent.

use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Recorded, Reply};

use crate::client::House;

fn provider(server: &ModelServer) -> Value {
    json!({"type": "openai", "baseUrl": server.openai_url(), "apiKey": "k"})
}

#[tokio::test]
async fn an_image_that_is_attached_as_a_file_reaches_the_model() {
    let server = ModelServer::start();
    let house = House::new();
    let mut client = house.client();
    let session = client
        .create(json!({"model": "gpt-4o", "provider": provider(&server), "streaming": true}))
        .await;
    let path = format!("{}/shot.png", client.work);
    std::fs::write(&path, b"\x89PNG\r\n\x1a\n0123456789").unwrap();
    let notes = format!("{}/notes.txt", client.work);
    std::fs::write(&notes, "plain\n").unwrap();
    server.reply(Reply::text("I see it.")).reply(Reply::text("Still."));
    let attachments = json!([{"type": "file", "path": path}, {"type": "file", "path": notes}]);
    let send = json!({"sessionId": session, "prompt": "What is this?", "attachments": attachments});
    client.call("session.send", send).await;
    let events = client.events_until("session.idle").await;
    let data = "iVBORw0KGgowMTIzNDU2Nzg5";
    let images = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().unwrap().iter();
        let parts = messages.filter_map(|message| message["content"].as_array()).flatten();
        parts
            .filter_map(|part| part["image_url"]["url"].as_str().map(str::to_owned))
            .collect()
    };
    let expected = [format!("data:image/png;base64,{data}")];
    assert_eq!(images(&server.last_request().body), expected);
    let message = events.iter().find(|event| event["type"] == "user.message").unwrap();
    let attached = &message["data"]["attachments"];
    assert_eq!(
        (&attached[0]["type"], &attached[0]["path"]),
        (&json!("file"), &json!(path))
    );
    assert_eq!(attached[0]["mimeType"], "image/png");
    assert!(attached[1].get("assetId").is_none(), "{attached}");
    let asset = events
        .iter()
        .find(|event| event["type"] == "session.binary_asset")
        .unwrap();
    assert_eq!(asset["data"]["assetId"], attached[0]["assetId"]);
    // What the model saw stays in the conversation, whatever becomes of the file.
    std::fs::remove_file(&path).unwrap();
    client.say(&session, "And now?").await;
    assert_eq!(images(&server.last_request().body), expected);
}

#[tokio::test]
async fn a_prompt_stays_within_the_providers_limit() {
    const LIMIT: usize = 30_000;
    let server = ModelServer::start();
    let house = House::new();
    let mut client = house.client();
    let mut provider = provider(&server);
    provider["maxPromptTokens"] = json!(LIMIT);
    let session = client
        .create(json!({"model": "gpt-5", "provider": provider, "streaming": true, "availableTools": []}))
        .await;
    for _ in 0..60 {
        server.reply(Reply::text("Noted."));
    }
    let page = "word ".repeat(4_000);
    for number in 0..14 {
        client.say(&session, &format!("Page {number}: {page}")).await;
    }
    let size = |request: &Recorded| request.raw.len() / 4;
    let is_page = |request: &&Recorded| {
        let last = request.body["messages"].as_array().and_then(|messages| messages.last());
        last.is_some_and(|last| last.to_string().contains("Page "))
    };
    let requests = server.requests();
    let sizes: Vec<usize> = requests.iter().map(size).collect();
    let (pages, summaries): (Vec<&Recorded>, Vec<&Recorded>) = requests.iter().partition(is_page);
    assert_eq!(pages.len(), 14);
    assert!(!summaries.is_empty(), "it was compacted: {sizes:?}");
    assert!(pages.into_iter().all(|request| size(request) < LIMIT), "{sizes:?}");
    // A summary is asked for with the message that made it necessary, and no more.
    let most = LIMIT + page.len() / 4;
    assert!(summaries.into_iter().all(|request| size(request) < most), "{sizes:?}");
}
