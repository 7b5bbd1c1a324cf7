//! 83–99: files, what is not served, retries.

use serde_json::{Value, json};

use crate::kit::*;

/// 83–87: files.
#[tokio::test]
async fn resources() {
    let house = house().await;
    let mut a = house.client("a").await;
    let uri = |name: &str| lodge_ahp::uri::file(house.work().join(name));
    let write = |extra: Value| {
        let mut params = json!({ "channel": ROOT, "uri": uri("a/f"), "data": "abc", "encoding": "utf-8" });
        for (key, value) in extra.as_object().unwrap() {
            params[key] = value.clone();
        }
        params
    };
    assert_eq!(a.code("resourceWrite", write(json!({}))).await, -32008);
    a.request("resourceMkdir", json!({ "channel": ROOT, "uri": uri("a/b/c") }))
        .await
        .unwrap();
    a.request("resourceMkdir", json!({ "channel": ROOT, "uri": uri("a/b/c") }))
        .await
        .unwrap();
    a.request("resourceWrite", write(json!({ "createOnly": true })))
        .await
        .unwrap();
    assert_eq!(
        a.code("resourceWrite", write(json!({ "createOnly": true }))).await,
        -32010
    );
    a.request("resourceWrite", write(json!({ "mode": "append" })))
        .await
        .unwrap();
    a.request(
        "resourceWrite",
        write(json!({ "mode": "insert", "position": 1, "data": "-" })),
    )
    .await
    .unwrap();
    let read = a
        .request(
            "resourceRead",
            json!({ "channel": ROOT, "uri": uri("a/f"), "encoding": "base64" }),
        )
        .await
        .unwrap();
    assert_eq!(read, json!({ "data": "YS1iY2FiYw==", "encoding": "base64" }));
    let facts = a
        .request("resourceResolve", json!({ "channel": ROOT, "uri": uri("a/f") }))
        .await
        .unwrap();
    assert_eq!((&facts["type"], &facts["size"]), (&json!("file"), &json!(7)));
    a.request("resourceWrite", write(json!({ "ifMatch": facts["etag"] })))
        .await
        .unwrap();
    assert_eq!(
        a.code("resourceWrite", write(json!({ "ifMatch": "other" }))).await,
        -32011
    );
    assert_eq!(
        a.code("resourceMkdir", json!({ "channel": ROOT, "uri": uri("a/f") }))
            .await,
        -32010
    );
    assert_eq!(
        a.code("resourceResolve", json!({ "channel": ROOT, "uri": uri("none") }))
            .await,
        -32008
    );
    assert_eq!(
        a.code("resourceDelete", json!({ "channel": ROOT, "uri": uri("a") }))
            .await,
        -32011
    );
    std::os::unix::fs::symlink("/etc", house.work().join("out")).unwrap();
    assert_eq!(
        a.code("resourceRead", json!({ "channel": ROOT, "uri": uri("out/passwd") }))
            .await,
        -32009
    );
    assert_eq!(
        a.code("resourceList", json!({ "channel": ROOT, "uri": "file:///" }))
            .await,
        -32009
    );
    let link = a
        .request(
            "resourceResolve",
            json!({ "channel": ROOT, "uri": uri("out"), "followSymlinks": false }),
        )
        .await
        .unwrap();
    assert_eq!(link["type"], "symlink");
    a.request(
        "resourceDelete",
        json!({ "channel": ROOT, "uri": uri("a"), "recursive": true }),
    )
    .await
    .unwrap();
}

/// 97–98: what this host does not do, it does not pretend to.
#[tokio::test]
async fn what_is_not_there_is_not_advertised() {
    let house = house().await;
    let mut a = house.client("a").await;
    for method in ["createTcpConnection", "shutdown"] {
        assert_eq!(a.code(method, json!({ "channel": ROOT })).await, -32601, "{method}");
    }
    for channel in ["ahp-terminal:/1", "ahp-otlp:logs", "mcp://x", "ahp-canvas:/1"] {
        assert_eq!(
            a.code("subscribe", json!({ "channel": channel })).await,
            -32001,
            "{channel}"
        );
    }
    let root = a.subscribe(ROOT).await["state"].clone();
    assert!(root.get("terminals").is_none());
    let capabilities = &root["agents"][0]["capabilities"];
    assert_eq!(
        capabilities,
        &json!({
            "multipleChats": { "fork": true, "sideChat": true },
            "multipleWorkingDirectories": { "immutablePrimary": true },
        })
    );
    assert_eq!(
        a.code(
            "authenticate",
            json!({ "channel": ROOT, "resource": "https://x", "token": "t" })
        )
        .await,
        -32007
    );
}

/// 99: what is not idempotent says so.
#[tokio::test]
async fn retries() {
    let house = house().await;
    let mut a = house.client("a").await;
    a.request("createSession", json!({ "channel": "x:/once" }))
        .await
        .unwrap();
    assert_eq!(a.code("createSession", json!({ "channel": "x:/once" })).await, -32003);
}
