//! Installed plugins and marketplaces, as the SDKs' methods show them.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::House;

/// A marketplace in a directory, with one plugin.
fn market(at: &Path, version: &str) {
    let pack = at.join("pack");
    std::fs::create_dir_all(pack.join("skills/greet")).unwrap();
    let write = |path: &str, text: &str| std::fs::write(at.join(path), text).unwrap();
    write(
        "pack/plugin.json",
        &json!({"name": "pack", "version": version}).to_string(),
    );
    write(
        "pack/skills/greet/SKILL.md",
        "---\nname: greet\ndescription: Greets\n---\nSay hello.\n",
    );
    let offer = json!({"name": "pack", "source": "./pack", "version": version});
    write(
        "marketplace.json",
        &json!({"name": "market", "plugins": [offer]}).to_string(),
    );
}

#[tokio::test]
async fn marketplaces_are_listed_and_fetched_again_and_so_are_their_plugins() {
    let house = House::new();
    let mut client = house.client();
    let root = Path::new(&client.work).join("market");
    market(&root, "1.0.0");
    client.call("plugins.marketplaces.add", json!({"source": root})).await;
    let own = |list: Value| -> Vec<Value> {
        let all = list["marketplaces"].as_array().unwrap().iter();
        all.filter(|known| known["isDefault"] == false).cloned().collect()
    };
    let listed = own(client.call("plugins.marketplaces.list", json!({})).await);
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["name"], "market");
    assert!(
        listed[0]["source"].as_str().unwrap().ends_with("/market"),
        "{}",
        listed[0]
    );
    client.call("plugins.install", json!({"source": "pack@market"})).await;

    market(&root, "2.0.0");
    let refreshed = client
        .call("plugins.marketplaces.refresh", json!({"name": "market"}))
        .await;
    assert_eq!(refreshed, json!({"results": [{"name": "market", "success": true}]}));
    let (_, message) = client
        .fail("plugins.marketplaces.refresh", json!({"name": "nowhere"}))
        .await;
    assert!(message.contains("nowhere"), "{message}");
    let updated = client.call("plugins.updateAll", json!({})).await;
    assert_eq!(
        updated,
        json!({"results": [{
            "name": "pack", "marketplace": "market", "success": true,
            "previousVersion": "1.0.0", "newVersion": "2.0.0", "skillsInstalled": 1,
        }]})
    );

    std::fs::remove_dir_all(&root).unwrap();
    let refreshed = client
        .call("plugins.marketplaces.refresh", json!({"name": "market"}))
        .await;
    let failed = &refreshed["results"][0];
    assert_eq!((&failed["name"], &failed["success"]), (&json!("market"), &json!(false)));
    assert!(failed["error"].as_str().is_some_and(|why| !why.is_empty()), "{failed}");
    let updated = client.call("plugins.updateAll", json!({})).await;
    let failed = &updated["results"][0];
    assert_eq!((&failed["name"], &failed["success"]), (&json!("pack"), &json!(false)));
    assert!(failed["error"].as_str().is_some_and(|why| !why.is_empty()), "{failed}");
    let list = client.call("plugins.list", json!({})).await;
    assert_eq!(list["plugins"][0]["version"], "2.0.0", "what is installed stays");
}
